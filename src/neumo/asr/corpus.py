"""A spoken corpus made on the spot: strings of digits in many synthetic voices, to start and to test with.

The plan (who says what, how fast, how high) is a pure function of the settings, so it can be read, checked
and counted before a sample exists. Strings and voices of the evaluation set occur nowhere in the training
set.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from neumo.asr.espeak import ACCENTS, Espeak
from neumo.types.errors import DataError

__all__ = ["Corpus", "DigitCorpus", "Utterance", "generate_digits"]

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_RECEIPT = "corpus.json"  # written last: a folder without it is not a corpus
_VERSION = 1  # of the plan and of the files; another number makes another corpus
_CHUNK = 100  # utterances one process speaks: part of the result, see Espeak


@dataclass(frozen=True)
class Utterance:
    """One line of the plan: what is said, and how."""

    name: str
    text: str
    voice: str
    speed: int  # words a minute
    pitch: int  # 0 to 99


@dataclass(frozen=True)
class DigitCorpus:
    """The settings of a corpus of spoken digit strings; the same settings make the same files.

    >>> plan = DigitCorpus(train=20, evaluate=5).plan()
    >>> len(plan["train"]), len(plan["evaluate"])
    (20, 5)
    >>> {u.text for u in plan["train"]} & {u.text for u in plan["evaluate"]}
    set()
    """

    train: int = 1400
    evaluate: int = 200
    seed: int = 1
    shortest: int = 3  # digits in a string
    longest: int = 7
    speeds: tuple[int, int] = (130, 200)  # words a minute
    pitches: tuple[int, int] = (25, 75)
    train_variants: tuple[str, ...] = ("m1", "m2", "m3", "m5", "m6", "m7", "f1", "f2", "f4", "f5")
    evaluate_variants: tuple[str, ...] = ("m4", "f3")
    rate: int = 16_000  # Hz

    def plan(self) -> dict[str, list[Utterance]]:
        """Return the utterances of both sets.

        Raises `DataError` where the settings allow a string or a voice in both sets, or too few strings.
        """
        self._check()
        draw = random.Random(f"neumo digits {_VERSION} {self.seed}")
        texts = self._texts(draw, self.train + self.evaluate)
        return {
            "train": self._speak(draw, "train", texts[: self.train], self.train_variants),
            "evaluate": self._speak(draw, "evaluate", texts[self.train :], self.evaluate_variants),
        }

    def _check(self) -> None:
        common = set(self.train_variants) & set(self.evaluate_variants)
        if common:
            raise DataError(
                f"voices in both sets: {', '.join(sorted(common))}",
                code="corpus",
                fixes=("leave each variant in one of train_variants and evaluate_variants",),
            )
        possible = sum(10**length for length in range(self.shortest, self.longest + 1))
        if self.train < 1 or self.evaluate < 1 or 2 * (self.train + self.evaluate) > possible:
            raise DataError(
                f"{self.train} + {self.evaluate} different strings were asked for; "
                f"{self.shortest} to {self.longest} digits give {possible}, of which at most half are taken",
                code="corpus",
            )

    def _texts(self, draw: random.Random, count: int) -> list[str]:
        """Draw `count` different strings; their order is that of drawing."""
        texts: dict[str, None] = {}
        while len(texts) < count:
            length = draw.randint(self.shortest, self.longest)
            texts[" ".join(draw.choice(DIGITS) for _ in range(length))] = None
        return list(texts)

    def _speak(
        self, draw: random.Random, split: str, texts: list[str], variants: tuple[str, ...]
    ) -> list[Utterance]:
        return [
            Utterance(
                name=f"{split}-{index:05d}",
                text=text,
                voice=f"{draw.choice(list(ACCENTS))}+{draw.choice(variants)}",
                speed=draw.randint(*self.speeds),
                pitch=draw.randint(*self.pitches),
            )
            for index, text in enumerate(texts)
        ]


@dataclass(frozen=True)
class Corpus:
    """A corpus on disk: the folder and its two manifests."""

    folder: Path
    train: Path
    evaluate: Path
    hours: dict[str, float]
    reused: bool  # it was there, whole, with the same settings


def generate_digits(
    folder: str | Path,
    settings: DigitCorpus | None = None,
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Corpus:
    """Make the corpus in `folder`, or find it there; return where its manifests are.

    `progress(done, total)` is called as utterances are finished. The files do not depend on `workers`
    (processes, one a core unless given). The corpus is written beside `folder` and renamed when it is
    whole; one that is there is reused if its receipt names the same settings and every file has its size,
    and made again if files are damaged.

    Raises `DataError` where `folder` holds something else, or a corpus of other settings.
    """
    folder = Path(folder)
    settings = settings or DigitCorpus()
    plan = settings.plan()
    receipt = _receipt(folder)
    if receipt is None and folder.is_dir() and any(folder.iterdir()):
        raise DataError(
            f"{folder} is not empty and holds no spoken corpus",
            code="corpus-folder",
            fixes=("name another folder",),
        )
    wanted = _settings(settings)
    if receipt and receipt.get("settings") != wanted:
        raise DataError(
            f"{folder} holds a corpus of other settings",
            code="corpus-folder",
            details=_differences(receipt.get("settings"), wanted),
            fixes=("name another folder, or delete this one",),
        )
    if receipt and _whole(folder, receipt):
        return _corpus(folder, receipt, reused=True)
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        receipt = _make(part, settings, plan, workers or os.cpu_count() or 1, progress)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return _corpus(folder, receipt, reused=False)


def _make(
    part: Path,
    settings: DigitCorpus,
    plan: dict[str, list[Utterance]],
    workers: int,
    progress: Callable[[int, int], None] | None,
) -> dict[str, Any]:
    """Speak the whole plan into `part`, write the manifests, and the receipt last."""
    (part / "audio").mkdir()
    everything = [utterance for split in plan.values() for utterance in split]
    durations: dict[str, float] = {}
    for chunk in _in_processes(part / "audio", settings, everything, workers):
        durations.update(chunk)
        if progress is not None:
            progress(len(durations), len(everything))
    receipt: dict[str, Any] = {"settings": _settings(settings), "hours": {}, "sha256": {}, "bytes": {}}
    for split, utterances in plan.items():
        lines = [_line(utterance, durations[utterance.name]) for utterance in utterances]
        manifest = part / f"{split}.jsonl"
        manifest.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        receipt["sha256"][manifest.name] = hashlib.sha256(manifest.read_bytes()).hexdigest()
        receipt["hours"][split] = round(sum(durations[u.name] for u in utterances) / 3600, 4)
    receipt["bytes"] = {path.name: path.stat().st_size for path in sorted((part / "audio").iterdir())}
    (part / _RECEIPT).write_text(json.dumps(receipt, indent=1), encoding="utf-8")
    return receipt


def _in_processes(
    audio: Path, settings: DigitCorpus, utterances: list[Utterance], workers: int
) -> Iterator[dict[str, float]]:
    """Speak chunks of the plan, each in a fresh process, and yield their durations in seconds as they end."""
    chunks = [utterances[start : start + _CHUNK] for start in range(0, len(utterances), _CHUNK)]
    with ThreadPoolExecutor(max(1, min(workers, len(chunks)))) as threads:
        work = [(audio, settings.rate, settings.seed + number, chunk) for number, chunk in enumerate(chunks)]
        try:
            yield from threads.map(_in_one_process, work)
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def _in_one_process(work: tuple[Path, int, int, list[Utterance]]) -> dict[str, float]:
    # A pool of one: the engine starts from the same state for every chunk, and a crash of it is seen, not
    # waited for.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        try:
            return process.submit(_speak_chunk, *work).result()
        except BrokenProcessPool:
            raise DataError(
                "a process that speaks the corpus ended before its work",
                code="corpus",
                fixes=('in a script, call this under `if __name__ == "__main__":`',),
            ) from None


def _speak_chunk(audio: Path, rate: int, seed: int, utterances: Iterable[Utterance]) -> dict[str, float]:
    """Speak some utterances into flac files of `rate` Hz; return their durations in seconds by name."""
    import numpy as np
    import soundfile
    import soxr

    engine = Espeak(seed)
    durations: dict[str, float] = {}
    for utterance in utterances:
        spoken = engine.say(
            utterance.text, voice=utterance.voice, speed=utterance.speed, pitch=utterance.pitch
        )
        resampled = soxr.resample(spoken.astype(np.float32) / 32768, engine.rate, rate)
        soundfile.write(audio / f"{utterance.name}.flac", np.clip(resampled, -1, 1), rate, subtype="PCM_16")
        durations[utterance.name] = round(len(resampled) / rate, 4)
    return durations


def _line(utterance: Utterance, duration: float) -> dict[str, Any]:
    return {
        "audio_filepath": f"audio/{utterance.name}.flac",
        "duration": duration,
        "text": utterance.text,
        "speaker": utterance.voice,
        "speed": utterance.speed,
        "pitch": utterance.pitch,
    }


def _settings(settings: DigitCorpus) -> dict[str, Any]:
    """Return the settings as JSON gives them back."""
    return json.loads(json.dumps({"version": _VERSION, **asdict(settings)}))


def _differences(given: Any, wanted: dict[str, Any]) -> tuple[str, ...]:
    given = given if isinstance(given, dict) else {}
    return tuple(
        f"{key}: there {given.get(key)}, asked for {value}"
        for key, value in wanted.items()
        if given.get(key) != value
    )


def _receipt(folder: Path) -> dict[str, Any] | None:
    try:
        receipt = json.loads((folder / _RECEIPT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return receipt if isinstance(receipt, dict) else None


def _whole(folder: Path, receipt: dict[str, Any]) -> bool:
    """Say whether every file is there as it was written: manifests by digest, audio by size."""
    try:
        return all(
            hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
            for name, digest in receipt["sha256"].items()
        ) and all((folder / "audio" / name).stat().st_size == size for name, size in receipt["bytes"].items())
    except (OSError, KeyError, AttributeError):
        return False


def _corpus(folder: Path, receipt: dict[str, Any], *, reused: bool) -> Corpus:
    return Corpus(folder, folder / "train.jsonl", folder / "evaluate.jsonl", receipt["hours"], reused)
