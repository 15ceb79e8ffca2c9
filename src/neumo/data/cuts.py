"""Lhotse cut sets read as manifests: a cut is known by its fields, never by its file's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neumo.data.fields import BadFields

_OTHER_LHOTSE = {
    "MultiCut": "a cut of several channels",
    "MixedCut": "a cut mixed from several",
    "PaddingCut": "a cut of padding",
}


def is_cut(record: Mapping[str, Any]) -> bool:
    """Tell a lhotse cut from a manifest line.

    >>> is_cut({"type": "MonoCut", "id": "c1", "start": 0.0, "duration": 2.0, "channel": 0})
    True
    >>> is_cut({"audio_filepath": "a.wav"})
    False
    """
    return record.get("type") in ("MonoCut", *_OTHER_LHOTSE) or (
        "supervisions" in record and "recording" in record
    )


def line_of_cut(cut: Mapping[str, Any]) -> dict[str, Any]:
    """Rewrite a lhotse MonoCut as a manifest line; raise `BadFields` where a cut says more than a line can.

    >>> source = {"type": "file", "channels": [0], "source": "a.flac"}
    >>> cut = {"id": "c1", "start": 1.0, "duration": 2.0, "channel": 0, "type": "MonoCut",
    ...        "recording": {"id": "r", "sources": [source], "sampling_rate": 16000, "duration": 4.0},
    ...        "supervisions": [{"id": "s", "start": 0.0, "duration": 2.0, "text": "yes", "speaker": "ann"}]}
    >>> line = line_of_cut(cut)
    >>> line["audio_filepath"], line["offset"], line["duration"], line["text"], line["speaker"]
    ('a.flac', 1.0, 2.0, 'yes', 'ann')
    """
    kind = cut.get("type", "MonoCut")
    if kind != "MonoCut":
        what = _OTHER_LHOTSE.get(kind, "another kind of cut")
        raise BadFields(f"a lhotse {kind} ({what}); only MonoCut has one recording and one channel")
    line: dict[str, Any] = {"audio_filepath": _file_of(cut), "id": cut.get("id"), "channel": _channel_of(cut)}
    start, duration = cut.get("start", 0.0), cut.get("duration")
    if not _is_whole(cut, start, duration):
        line["offset"] = start
    line["duration"] = duration
    supervisions = cut.get("supervisions") or []
    if not isinstance(supervisions, list) or len(supervisions) > 1:
        raise BadFields(
            "a lhotse cut with several supervisions; call trim_to_supervisions() and save the cuts again"
        )
    if supervisions:
        line["text"], line["speaker"] = supervisions[0].get("text"), supervisions[0].get("speaker")
    return {key: value for key, value in line.items() if value is not None}


def _file_of(cut: Mapping[str, Any]) -> str:
    recording = cut.get("recording")
    if not isinstance(recording, dict):
        raise BadFields("a lhotse cut without its recording")
    if recording.get("transforms"):
        raise BadFields("a lhotse recording with transforms (resampling, speed, ...); save the audio first")
    sources = recording.get("sources") or []
    if len(sources) != 1 or sources[0].get("type") != "file":
        kinds = ", ".join(str(source.get("type")) for source in sources) or "none"
        raise BadFields(f"a lhotse recording whose sources are not one file (they are: {kinds})")
    return sources[0].get("source")


def _channel_of(cut: Mapping[str, Any]) -> int | None:
    """Give the channel only where the recording has several; a channel of a mono file says nothing."""
    channels = cut["recording"]["sources"][0].get("channels", [0])
    return cut.get("channel") if len(channels) > 1 else None


def _is_whole(cut: Mapping[str, Any], start: float, duration: float | None) -> bool:
    return start == 0 and duration == cut["recording"].get("duration")
