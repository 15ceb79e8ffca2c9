"""Kaldi data folders read as manifests: wav.scp, segments, text, utt2spk; no command in them is executed.

The files are described at https://kaldi-asr.org/doc/data_prep.html.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neumo.data.json_lines import Problem
from neumo.types.errors import DataError

_SHOWN = 3  # utterances that a note names


@dataclass(slots=True)
class KaldiFolder:
    """Holds a folder as lines of JSON: line n is what line n of `name` says, empty where that is no use."""

    name: str
    lines: list[str] = field(default_factory=list[str])
    problems: list[Problem] = field(default_factory=list[Problem])
    notes: list[str] = field(default_factory=list[str])


def is_kaldi(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is a folder with a wav.scp in it.

    >>> is_kaldi(os.sep + "nowhere")
    False
    """
    return os.path.isfile(os.path.join(path, "wav.scp"))


def read_kaldi(folder: str | Path) -> KaldiFolder:
    """Read a Kaldi data folder; what is wrong with its lines is listed, not raised.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> _ = (place / "wav.scp").write_text("rec1 /data/a.wav\\n")
    >>> _ = (place / "segments").write_text("utt1 rec1 0.5 2.0\\n")
    >>> _ = (place / "text").write_text("utt1 hello world\\n")
    >>> json.loads(read_kaldi(place).lines[0])["duration"]
    1.5

    A recording must be a file: a command (`... |`) and a place in an archive (`a.ark:123`) are refused, with
    the way out. A relative path is looked for from the working folder, as Kaldi does, then from the folder
    itself and those above it. Raises `DataError` where the folder is no Kaldi folder or a file of it is no
    UTF-8.
    """
    place = Path(folder)
    if not is_kaldi(place):
        raise DataError(
            f"{folder} is a folder without a wav.scp",
            code="kaldi",
            fixes=["name a manifest: a file with one JSON object a line"],
        )
    return _Folder(place, os.fspath(folder)).read()


class _Folder:
    """Reads one folder."""

    def __init__(self, place: Path, shown: str) -> None:
        self.place = place
        self.shown = shown
        self.texts = self._table("text")
        self.speakers = self._table("utt2spk")
        self.durations = self._table("utt2dur")
        cut = (place / "segments").is_file()
        self.result = KaldiFolder(os.path.join(shown, "segments" if cut else "wav.scp"))

    def read(self) -> KaldiFolder:
        recordings = self._recordings()
        if self.result.name.endswith("segments"):
            self._segments(recordings)
        else:
            self._whole(recordings)
        self._compare()
        return self.result

    def _table(self, name: str) -> dict[str, str]:
        return {key: rest for _, key, rest in self._rows(name)}

    def _rows(self, name: str) -> Iterator[tuple[int, str, str]]:
        """Give line number, key and rest of each line; of two lines with one key both are given."""
        path = self.place / name
        if not path.is_file():
            return
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{os.path.join(self.shown, name)} is not UTF-8 (byte {error.start})", code="kaldi"
            ) from error
        for number, line in enumerate(text.split("\n"), start=1):
            key, _, rest = line.strip().partition(" ") if "\t" not in line else line.strip().partition("\t")
            if key:
                yield number, key, rest.strip()

    def _recordings(self) -> dict[str, tuple[int, str | None]]:
        """Give line and file of each recording; None where it is no file."""
        found: dict[str, tuple[int, str | None]] = {}
        scp = os.path.join(self.shown, "wav.scp")
        for number, key, rest in self._rows("wav.scp"):
            reason = "it is there twice" if key in found else _refusal(rest)
            if reason:
                self.result.problems.append(Problem(scp, number, f"{key}: {reason}"))
            found.setdefault(key, (number, None if reason else self._file(rest)))
        return found

    def _file(self, path: str) -> str:
        path = os.path.expanduser(path)
        if os.path.isabs(path):
            return path
        for base in (Path.cwd(), self.place, *list(self.place.absolute().parents)[:3]):
            if (base / path).is_file():
                return os.fspath((base / path).absolute())
        return os.path.abspath(path)

    def _whole(self, recordings: dict[str, tuple[int, str | None]]) -> None:
        for key, (number, path) in recordings.items():
            if path is not None:
                self._put(number, {"audio_filepath": path, **self._about(key)})

    def _segments(self, recordings: dict[str, tuple[int, str | None]]) -> None:
        absent: set[str] = set()
        for number, key, rest in self._rows("segments"):
            words = rest.split()
            reason = ""
            if len(words) not in (3, 4):
                reason = "a segment is: utterance recording start end [channel]"
            elif words[0] not in recordings:
                absent.add(words[0])
                reason = f"{key}: the recording {words[0]} is not in wav.scp"
            elif recordings[words[0]][1] is None:
                continue  # the line of wav.scp is a problem already
            else:
                line, reason = self._segment(key, str(recordings[words[0]][1]), words)
                if not reason:
                    self._put(number, line)
            if reason:
                self.result.problems.append(Problem(self.result.name, number, reason))

    def _segment(self, key: str, path: str, words: list[str]) -> tuple[dict[str, Any], str]:
        try:
            start, end = float(words[1]), float(words[2])
        except ValueError:
            return {}, f"{key}: {words[1]} and {words[2]} are no seconds"
        line: dict[str, Any] = {"audio_filepath": path, **self._about(key), "offset": start}
        line.pop("duration", None)
        if end > start:
            line["duration"] = round(end - start, 6)
        elif end != -1:  # which stands for the end of the recording
            return {}, f"{key}: it ends at {end:g} s, and starts at {start:g} s"
        if len(words) == 4:
            letters = {"A": 0, "B": 1}
            line["channel"] = letters.get(words[3], int(words[3]) if words[3].isdigit() else words[3])
        return line, ""

    def _about(self, key: str) -> dict[str, Any]:
        line: dict[str, Any] = {"id": key}
        if key in self.texts:
            line["text"] = self.texts[key]
        if key in self.speakers:
            line["speaker"] = self.speakers[key]
        with contextlib.suppress(KeyError, ValueError):
            line["duration"] = float(self.durations[key])
        return line

    def _put(self, number: int, line: dict[str, Any]) -> None:
        lines = self.result.lines
        lines.extend([""] * (number - 1 - len(lines)))
        lines.append(json.dumps(line, ensure_ascii=False))
        self.texts.pop(line["id"], None)

    def _compare(self) -> None:
        """Say which texts have no recording."""
        if self.texts and self.result.lines:
            names = list(self.texts)
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            what = f"{len(names)} utterances of {os.path.join(self.shown, 'text')} are in no line of"
            self.result.notes.append(
                f"{what} {os.path.basename(self.result.name)}: {', '.join(names[:_SHOWN])}{more}"
            )


def _refusal(path: str) -> str:
    """Say why what stands in wav.scp is no file, and what to do instead; nothing if it is one."""
    if path.endswith("|"):
        words = path[:-1].split()
        reason = f"a command is not executed ({path})"
        inputs = [
            word
            for word in words[1:]
            if word.lower().endswith((".flac", ".ogg", ".mp3", ".wav", ".sph", ".opus"))
        ]
        if len(inputs) == 1 and path.count("|") == 1:
            return f"{reason}; write the file itself, which is read as it is: {inputs[0]}"
        return f"{reason}; run it yourself, into a file, and write that file's path here"
    if path.startswith("|") or path == "-":
        return f"{path!r} is no file"
    head, colon, offset = path.rpartition(":")
    if colon and offset.isdigit() and head.endswith((".ark", ".scp")):
        return f"an archive is not opened ({path}); copy the recording out of it: wav-copy ark:{head} ..."
    return "" if path else "there is no path behind it"
