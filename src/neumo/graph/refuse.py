"""Refuses a call: every mistake of it once, and none that only follows from another."""

from __future__ import annotations

from collections.abc import Sequence

from neumo.graph.compose import Call, Mismatch
from neumo.graph.misuse import accounted_ports, missing_error, misuse_errors, place_of
from neumo.types import PortError, Symbol


def refusals(call: Call, positional: Sequence[object], missing: Sequence[str]) -> list[PortError]:
    """Explain everything that is wrong with a call: how it is written, what does not fit, what is left out.

    The list is empty where all that seems wrong follows from an earlier call that was refused.
    """
    misused = misuse_errors(call, positional)
    meant = accounted_ports(call, positional, missing)
    left_out = [port for port in missing if port not in meant]
    unsolved = [mismatch for mismatch in call.mismatches if _is_unsolved(mismatch)]
    if unsolved:
        wrong = [mismatch.port for mismatch in call.mismatches if mismatch not in unsolved]
        excused = {*missing, *wrong, *(port for port in call.arguments if port not in call.inputs)}
        call.mismatches = [m for m in call.mismatches if m not in unsolved or not _follows(call, m, excused)]
    mismatched: list[PortError] = []
    if call.objections:
        call.mismatches = []  # the module has said it in its own words
    elif call.mismatches:
        from neumo.graph.diagnose import mismatch_errors

        mismatched = mismatch_errors(call)
    absent = [missing_error(call, left_out)] if left_out else []
    return [*(_placed(call, error) for error in call.objections), *misused, *mismatched, *absent]


def _is_unsolved(mismatch: Mismatch) -> bool:
    return all(reason.code == "unsolved" for reason in mismatch.comparison.reasons)


def _follows(call: Call, mismatch: Mismatch, wrong: set[str]) -> bool:
    """Say whether a size is unsolved only because what would tell it is wrong, here or upstream."""
    if call.doubtful:
        return True
    asked: set[Symbol] = set()
    for reason in mismatch.comparison.reasons:
        asked |= reason.gap.wanted.symbols() if reason.gap is not None else set()
    takes = call.instance.takes
    return any(not asked.isdisjoint(takes[port].symbols()) for port in wrong if port in takes)


def _placed(call: Call, error: PortError) -> PortError:
    """Give an objection of the module itself its place."""
    return PortError(
        error.what,
        code=error.code,
        where=place_of(call, error.data.get("port")),
        details=error.details,
        why=error.why,
        fixes=error.fixes,
        data=error.data,
    )
