"""What a proof found: a verdict for each output and for the whole module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from neumo.types import NeuralType
from neumo.types.errors import BackendError, Row

Verdict = Literal["proved", "sampled", "refuted"]


@dataclass(frozen=True)
class PortProof:
    """What was found about one output: the declared type, what came, and the verdict."""

    port: str
    declared: NeuralType
    traced: str
    verdict: Verdict
    reason: str = ""

    def __str__(self) -> str:
        because = f": {self.reason}" if self.reason else ""
        return f"{self.port}: {self.declared}, traced {self.traced}, {self.verdict}{because}"


@dataclass(frozen=True)
class Proof:
    """Says whether the code of a module does what its signature declares.

    `verdict` is "proved" (for all sizes of 2 and more), "sampled" (many sets of sizes agree, `reason` says
    why there is no proof) or "refuted". `limits` lists what the code asks of its sizes beyond the signature,
    and for which sizes the trace holds.
    """

    module: str
    verdict: Verdict
    ports: tuple[PortProof, ...]
    reason: str = ""
    limits: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against the signature."""
        return self.verdict != "refuted"

    @property
    def refuted(self) -> list[PortProof]:
        """The outputs that are not as declared."""
        return [port for port in self.ports if port.verdict == "refuted"]

    def require(self) -> Proof:
        """Raise `BackendError` if the signature is refuted; else return the proof."""
        if self.holds:
            return self
        rows: list[Row | str] = []
        for port in self.refuted:
            rows += [Row("port", port.port, port.reason), Row("declared", str(port.declared))]
            rows.append(Row("traced", port.traced))
        raise BackendError(
            f"{self.module} does not do what its signature says" + (f": {self.reason}" * bool(self.reason)),
            code="proof",
            details=rows,
            fixes=["declare what the code gives", "change the code to give what is declared"],
        )

    def __str__(self) -> str:
        because = f": {self.reason}" if self.reason else ""
        lines = [f"{self.module}: {self.verdict}{because}", *(f"  {port}" for port in self.ports)]
        return "\n".join([*lines, *(f"  limit: {limit}" for limit in self.limits)])


@dataclass
class Found:
    """What one look at the outputs found."""

    ports: list[PortProof] = field(default_factory=list[PortProof])
    reason: str = ""
    limits: list[str] = field(default_factory=list[str])

    def merged(self, other: Found) -> Found:
        """Join what two looks at the same outputs found: the worse verdict of each."""
        return Found(
            worst([*self.ports, *other.ports]),
            self.reason or other.reason,
            [*self.limits, *other.limits],
        )

    def weaker(self, reason: str) -> Found:
        """The same, where what was proved holds for the sizes that were tried only."""
        ports = [replace(p, verdict="sampled") if p.verdict == "proved" else p for p in self.ports]
        return Found(ports, reason, self.limits)


_ORDER: Final = {"proved": 0, "sampled": 1, "refuted": 2}


def worst(ports: Iterable[PortProof]) -> list[PortProof]:
    """Keep the worst that was found about each output, the first of equals."""
    found: dict[str, PortProof] = {}
    for port in ports:
        known = found.get(port.port)
        if known is None or _ORDER[port.verdict] > _ORDER[known.verdict]:
            found[port.port] = port
    return list(found.values())


def joined(name: str, found: Sequence[Found], seconds: float) -> Proof:
    """Make one proof of what was found with and without the optional ports."""
    whole = found[0]
    for other in found[1:]:
        whole = whole.merged(other)
    verdicts: list[Verdict] = ["proved", *(port.verdict for port in whole.ports)]
    verdict = max(verdicts, key=_ORDER.__getitem__)
    return Proof(name, verdict, tuple(whole.ports), whole.reason, tuple(dict.fromkeys(whole.limits)), seconds)
