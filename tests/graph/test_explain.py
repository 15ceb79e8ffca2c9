"""Every code that is raised has a page, and the examples of the pages do what they say."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from neumo.graph.explain import EXAMPLES, all_pages, explain
from neumo.graph.rules import RULES
from neumo.types import CODES, ConfigError, NeumoError
from neumo.types import errors as errors_module

SOURCE = Path(errors_module.__file__).parent.parent
PAGES = all_pages()


def raised_codes() -> Iterator[tuple[str, str]]:
    """Every code that the source gives to an error, with its file."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for value in code_expressions(node):
                if isinstance(value, ast.JoinedStr):
                    continue  # `audio-{kind}`: its kinds are found where they are chosen
                for part in ast.walk(value):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value:
                        yield part.value, str(file.relative_to(SOURCE))


def code_expressions(node: ast.AST) -> list[ast.expr]:
    """What stands for a code in a call or in the defaults of a function."""
    if isinstance(node, ast.FunctionDef):
        pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        return [default for arg, default in pairs if arg.arg == "code" and default is not None]
    if not isinstance(node, ast.Call):
        return []
    found = [word.value for word in node.keywords if word.arg == "code"]
    if ast.unparse(node.func).endswith("origin.error") and isinstance(node.args[0], ast.Constant):
        found.append(ast.Constant(f"audio-{node.args[0].value}"))
    return found


def test_every_code_that_is_raised_has_a_page() -> None:
    wanted = dict(raised_codes()) | dict.fromkeys(CODES, "types/compare.py")
    missing = {code: file for code, file in wanted.items() if code and code not in PAGES}
    assert missing == {}


def test_every_rule_has_a_page() -> None:
    assert [name for name in RULES if name not in PAGES] == []


def test_every_page_is_about_a_code() -> None:
    known = {code for code, _ in raised_codes()} | set(CODES) | {EXAMPLES} | set(RULES)
    stale = [code for code in PAGES if code not in known and not code.startswith("audio-")]
    assert stale == []


@pytest.mark.parametrize("code", PAGES)
def test_a_page_has_a_sentence_and_no_long_lines(code: str) -> None:
    page = PAGES[code]
    assert page.title.endswith(".")
    assert not page.title.startswith("#")
    assert len(page.code) + len(page.title) + 2 <= 120
    assert max(map(len, page.render().splitlines())) <= 120
    assert code == EXAMPLES or ("Wrong:" in page.text and "Right:" in page.text)
    assert page.needs_names == (">>>" in page.text and code != EXAMPLES)


@pytest.mark.parametrize("code", [code for code, page in PAGES.items() if page.example("Wrong")])
def test_the_examples_of_a_page_do_what_they_say(code: str) -> None:
    lines = [line.strip()[4:] for line in PAGES[EXAMPLES].text.splitlines() if line.strip().startswith(">>>")]
    names: dict[str, object] = {}
    exec("\n".join(lines), names)
    with pytest.raises(NeumoError) as caught:
        exec(PAGES[code].example("Wrong"), dict(names))
    assert caught.value.code == code
    exec(PAGES[code].example("Right"), dict(names))


def test_a_code_is_found_as_it_stands_in_a_message() -> None:
    for spelling in ("lengths", "PortError[lengths]", "[lengths]:", " Lengths "):
        assert explain(spelling).code == "lengths"


def test_an_unknown_code_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        explain("lenghts")
    assert caught.value.fixes[0].text == "did you mean 'lengths'?"
