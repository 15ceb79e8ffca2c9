"""The fields of a manifest line: accepted names, their checks, and what a misspelt name probably meant."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from neumo.types.errors import nearest

# The first name of each row is the one that neumo writes; the others are read as well.
ACCEPTED: dict[str, tuple[str, ...]] = {
    "audio_filepath": (
        "audio_filepath",
        "audio_path",
        "audio_file",
        "audio",
        "wav",
        "wav_path",
        "path",
        "file",
    ),
    "text": ("text", "transcript", "transcription", "sentence"),
    "text_filepath": ("text_filepath",),
    "duration": ("duration", "dur", "seconds"),
    "offset": ("offset", "start"),
    "end": ("end",),
    "speaker": ("speaker", "speaker_id", "spk"),
    "channel": ("channel",),
    "id": ("id", "utt_id", "utterance_id"),
}
_MEANING = {name: field for field, names in ACCEPTED.items() for name in names}


@dataclass(frozen=True, slots=True)
class Fields:
    """Holds the checked fields of one manifest line; None stands for a field that is not there."""

    audio_filepath: str
    duration: float | None = None
    text: str | None = None
    text_filepath: str | None = None
    offset: float | None = None
    speaker: str | None = None
    channel: int | None = None
    id: str | None = None


class BadFields(ValueError):
    """Signals that a line cannot be used; its text is the reason."""


def read_fields(record: Mapping[str, Any], *, text_field: str | None, needs_text: bool) -> Fields:
    """Check one line of a manifest and give its fields under neumo's names.

    `text_field` names the key that holds the text, where it is another than the accepted ones. Raises
    `BadFields` with every reason.

    >>> read_fields({"wav": "a.wav", "transcript": "hi"}, text_field=None, needs_text=True).text
    'hi'
    """
    values, reasons = _gather(record, text_field)
    _require(record, values, reasons, needs_text=needs_text, text_field=text_field)
    checked = {name: _CHECKS[name](name, value, reasons) for name, value in values.items()}
    end = checked.pop("end", None)
    if end is not None and checked.get("duration") is None:
        checked["duration"] = end - (checked.get("offset") or 0.0)
        if checked["duration"] <= 0:
            reasons.append(f"end {end:g} is not after offset {checked.get('offset') or 0.0:g}")
    if reasons:
        raise BadFields("; ".join(reasons))
    return Fields(**checked)


def extra_fields(record: Mapping[str, Any], text_field: str | None) -> dict[str, Any]:
    """Give the fields of a line that neumo has no meaning for; they are kept as they are."""
    if text_field is None and ACCEPTED.keys() >= record.keys():
        return {}
    used = {key for key, _ in _named(record, text_field).values()}
    return {key: value for key, value in record.items() if key not in used}


def unknown_note(key: str) -> str | None:
    """Say what an unknown key probably meant, if it is close to an accepted name that is not a plural of it.

    >>> unknown_note("ofset")
    "the key 'ofset' is not known and was kept as it is; did you mean 'offset'?"
    """
    meant = _nearest_field(key)
    if meant is None or key in _MEANING or key.rstrip("s") in _MEANING or len(key) < 4:
        return None
    return f"the key {key!r} is not known and was kept as it is; did you mean {meant!r}?"


@functools.lru_cache(maxsize=1024)
def _nearest_field(key: str) -> str | None:
    import difflib

    found = difflib.get_close_matches(key.lower(), [*ACCEPTED], n=1, cutoff=0.8)
    return found[0] if found else None


def _named(record: Mapping[str, Any], text_field: str | None) -> dict[str, tuple[str, Any]]:
    """Map each field to (the key that stands for it, its value); rivals are left to `_gather`."""
    chosen: dict[str, tuple[str, Any]] = {}
    for key, value in record.items():
        field = _MEANING.get(key)
        if text_field is not None and (key == text_field or field == "text"):
            field = "text" if key == text_field else None
        if field is not None and value is not None and (field not in chosen or key == field):
            chosen[field] = (key, value)
    return chosen


def _gather(record: Mapping[str, Any], text_field: str | None) -> tuple[dict[str, Any], list[str]]:
    if text_field is None and ACCEPTED.keys() >= record.keys():  # the usual line, which should be quick
        return {field: value for field, value in record.items() if value is not None}, []
    chosen = _named(record, text_field)
    reasons: list[str] = []
    for field, (key, _) in chosen.items():
        if key == field or (field == "text" and text_field is not None):
            continue
        rivals = [name for name in ACCEPTED[field] if record.get(name) is not None]
        if len(rivals) > 1:
            reasons.append(
                f"{' and '.join(map(repr, rivals))} both mean {field}; keep one, or call it {field!r}"
            )
    return {field: value for field, (_, value) in chosen.items()}, reasons


def _require(
    record: Mapping[str, Any],
    values: dict[str, Any],
    reasons: list[str],
    *,
    needs_text: bool,
    text_field: str | None,
) -> None:
    if "audio_filepath" not in values:
        reasons.append(_missing("audio_filepath", record))
    if needs_text and "text" not in values and "text_filepath" not in values:
        reasons.append(_missing(text_field or "text", record))


def _missing(field: str, record: Mapping[str, Any]) -> str:
    if field in record:
        return f"{field} is null"
    unknown = [key for key in record if key not in _MEANING]
    names = ACCEPTED.get(field, (field,))
    for key in unknown:
        meant = nearest(key.lower(), names[:1]) or nearest(key.lower(), names)
        if meant is not None:
            return f"no {field}; the key {key!r} is not known, did you mean {meant!r}?"
    keys = ", ".join(map(repr, list(record)[:8])) or "no keys at all"
    return f"no {field} (the line has {keys})"


def _words(name: str, value: Any, reasons: list[str]) -> str | None:
    if isinstance(value, str):
        return value
    reasons.append(f"{name} is {_shown(value)}, not a string")
    return None


def _file_name(name: str, value: Any, reasons: list[str]) -> str | None:
    if not isinstance(value, str):
        reasons.append(f"{name} is {_shown(value)}, not the path of a file")
    elif not value.strip() or "\0" in value:
        reasons.append(f"{name} is empty" if not value.strip() else f"{name} holds a zero byte")
    return value if isinstance(value, str) else None


def _label(name: str, value: Any, reasons: list[str]) -> str | None:
    return (
        str(value) if isinstance(value, int) and not isinstance(value, bool) else _words(name, value, reasons)
    )


def _seconds(name: str, value: Any, reasons: list[str]) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        reasons.append(f"{name} is {_shown(value)}, not a number of seconds")
        return None
    if not math.isfinite(value):
        reasons.append(f"{name} is {value}")
    elif value < 0:
        reasons.append(f"{name} is negative ({value:g} s)")
    elif value == 0 and name == "duration":
        reasons.append("duration is 0")
    return float(value)


def _channel(name: str, value: Any, reasons: list[str]) -> int | None:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        reasons.append(f"{name} is {_shown(value)}, not the number of one channel (the first is 0)")
        return None
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


_CHECKS: dict[str, Any] = {
    "audio_filepath": _file_name,
    "text": _words,
    "text_filepath": _file_name,
    "duration": _seconds,
    "offset": _seconds,
    "end": _seconds,
    "speaker": _label,
    "channel": _channel,
    "id": _label,
}
