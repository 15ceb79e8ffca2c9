"""What a rule found: the sentence, the call and the port that it is about, and the ways out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from neumo.graph.source import TextSite
from neumo.types import Fix, GraphError, Row, Source

if TYPE_CHECKING:
    from neumo.graph.value import Step

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """Is one thing that a rule has to say about a graph.

    `about` names the port or the module, `step` and `port` where that was written, `severity` comes from the
    rule. `silenced` is the reason for which the graph does without the rule, and empty where it does not.
    The rows of the error, the path through the graph and the ways out are found when somebody reads them.

    >>> finding = Finding("padding", "encoder gets no lengths for mel", "encoder.mel")
    >>> print(finding)
    encoder gets no lengths for mel [padding]
    """

    rule: str
    sentence: str
    about: str = ""
    step: Step | None = field(default=None, repr=False, compare=False)
    port: str | None = None
    rows: Callable[[], Iterable[Row | str]] | None = field(default=None, repr=False, compare=False)
    why: tuple[str, ...] = ()
    trail: Callable[[], str] | None = field(default=None, repr=False, compare=False)
    ways: Callable[[], Iterable[Fix]] | None = field(default=None, repr=False, compare=False)
    severity: Severity = "error"
    graph: str = ""
    silenced: str = ""

    def __str__(self) -> str:
        where = self.where
        return f"{self.sentence} [{self.rule}]" + ("" if where is None else f", {where}")

    @property
    def where(self) -> Source | None:
        """The place in the user's text, with the columns of the argument where it was given."""
        return None if self.step is None else self.step.place(self.port)

    @property
    def path(self) -> str:
        """The way through the graph, from a source to where the finding is; empty where none is shown."""
        return "" if self.trail is None else self.trail()

    @property
    def fixes(self) -> tuple[Fix, ...]:
        """The ways out; beside these, the rule can be silenced."""
        return () if self.ways is None else tuple(self.ways())

    def error(self) -> GraphError:
        """Make the error that says all of it; its code is the name of the rule."""
        return GraphError(
            self.sentence,
            code=self.rule,
            where=lambda: self.where,
            details=() if self.rows is None else self.rows(),
            why=self.why,
            path=self.path,
            fixes=[*self.fixes, self._silence()],
            data={"graph": self.graph, "about": self.about},
        )

    def to_json(self) -> dict[str, Any]:
        """Give everything as plain values, ready for `json.dumps`."""
        where = self.where
        return {
            "rule": self.rule,
            "severity": self.severity,
            "what": self.sentence,
            "about": self.about,
            "where": None if where is None else str(where),
            "path": self.path,
            "fixes": [fix.text for fix in self.fixes],
            "silenced": self.silenced,
        }

    def _silence(self) -> Fix:
        """The last way out, written as the graph was: in a recipe, or in Python."""
        recipe = self.step is not None and isinstance(self.step.location, TextSite)
        key = f"silence: {{{self.rule}: why}}" if recipe else f'silence={{"{self.rule}": "why"}}'
        return Fix(f"{key} for graph {self.graph!r}, if this is meant")


def active(findings: list[Finding], severity: Severity) -> list[Finding]:
    """Keep the findings of one severity that nobody silenced.

    >>> found = [Finding("padding", "no lengths"), Finding("padding", "no mask", silenced="crops of 2 s")]
    >>> [finding.sentence for finding in active(found, "error")]
    ['no lengths']
    """
    return [finding for finding in findings if finding.severity == severity and not finding.silenced]
