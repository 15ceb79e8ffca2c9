"""Explains the codes of errors by a wrong and a right example; the texts are in `pages/`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from neumo.types.errors import ConfigError, did_you_mean

FOLDER: Final = Path(__file__).parent / "pages"
EXAMPLES: Final = "examples"  # the page with the names that the examples of other pages use
_CODE: Final = re.compile(r"^# (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """One explained code: its topic (the file), a sentence, and the text with the examples.

    >>> page = explain("lengths")
    >>> page.topic, "Wrong:" in page.text
    ('connections', True)
    """

    code: str
    topic: str
    title: str
    text: str

    def render(self) -> str:
        """Write the page as `neumo explain CODE` prints it."""
        names = ["", f"The names are those of `neumo explain {EXAMPLES}`."] if self.needs_names else []
        return "\n".join([f"{self.code}: {self.title}", "", self.text, *names])

    @property
    def needs_names(self) -> bool:
        """Whether the examples go on from those of the page `examples`."""
        return ">>>" in self.text and self.code != EXAMPLES

    def example(self, label: str) -> str:
        """The code that stands under `Wrong:` or `Right:`, without prompts; empty if it is prose or YAML.

        >>> explain("symbolic").example("Wrong")
        'if batch.audio:\\n    pass'
        """
        part = re.search(rf"^{label}:\n(.*?)(?=^\S|\Z)", self.text, re.MULTILINE | re.DOTALL)
        lines = part[1].split("\n") if part else []
        prompted = [line.strip() for line in lines if line.strip().startswith((">>>", "..."))]
        return "\n".join(line[4:] for line in prompted)


def explain(code: str) -> Page:
    """Give the page of a code; an unknown one is a `ConfigError` with the nearest match.

    The code is the word in brackets at the start of a message: `PortError[lengths]`; with or without
    brackets.
    """
    pages = all_pages()
    wanted = code.rpartition("[")[2].rstrip("]:").strip().lower()
    if wanted in pages:
        return pages[wanted]
    raise ConfigError(
        f"no error has the code {code!r}",
        code="explain",
        fixes=[*did_you_mean(wanted, pages), "neumo explain lists all codes"],
    )


@lru_cache(maxsize=1)
def all_pages() -> dict[str, Page]:
    """Give the pages of all codes, topic by topic."""
    pages: dict[str, Page] = {}
    for file in sorted(FOLDER.glob("*.md")):
        head, *parts = _CODE.split(file.read_text(encoding="utf-8"))
        for code, body in zip(parts[::2], parts[1::2], strict=True):
            title, _, text = body.strip().partition("\n")
            pages[code] = Page(code, file.stem, title, text.strip())
        if head.strip():  # pragma: no cover - a page of ours that is malformed
            raise ConfigError(f"{file} begins with a text that belongs to no code", code="explain")
    return pages
