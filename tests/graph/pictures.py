"""Graphs to draw, and the geometry of an SVG: where boxes and words are, and which points a wire passes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.types import Acoustic, B, F, Lengths, T

from . import specs

SVG = "{http://www.w3.org/2000/svg}"
Area = tuple[float, float, float, float]  # left, top, right, bottom
Point = tuple[float, float]


def small() -> Graph:
    """A recogniser of five modules."""
    vocab = specs.EN
    batch = specs.SpeechData(vocab).named("data")()
    feats = specs.MelSpectrogram().named("mel")(audio=batch.audio, audio_len=batch.audio_len)
    enc = specs.ConvEncoder(width=128).named("encoder")(mel=feats.mel, mel_len=feats.mel_len)
    lp = specs.CTCHead(vocab, width=128).named("head")(encoded=enc.encoded)
    loss = specs.CTCLoss(vocab).named("ctc")(
        log_probs=lp.log_probs, log_probs_len=enc.encoded_len, targets=batch.text, targets_len=batch.text_len
    )
    return Graph("train", "train", {"loss": loss.loss, "scores": lp.log_probs})


def large(blocks: int) -> Graph:
    """A chain of residual blocks; every fifth shares its weights."""
    x = inputs(x=Acoustic()[B, F(64), T], x_len=Lengths(T)[B]).x
    shared = specs.Down(by=1)
    for number in range(blocks):
        down = shared if number % 5 == 0 else specs.Down(by=1)
        x = specs.Add()(a=x, b=down(x=x).x).x
    return Graph("deep", "both", {"y": x})


def wide(blocks: int) -> Graph:
    """An encoder of blocks with two branches and a skip, and a loss after every fourth block."""
    vocab = specs.EN
    batch = specs.SpeechData(vocab).named("data")()
    feats = specs.MelSpectrogram().named("mel")(audio=batch.audio, audio_len=batch.audio_len)
    stem = specs.ConvEncoder(width=64).named("stem")(mel=feats.mel, mel_len=feats.mel_len)
    x, losses = stem.encoded, list[object]()
    for number in range(1, blocks + 1):
        left = specs.Down(by=1).named(f"left{number}")(x=x).x
        right = specs.Down(by=1).named(f"right{number}")(x=x).x
        x = specs.Add()(a=specs.Add()(a=left, b=right).x, b=x).x
        if number % 4 == 0:
            scores = specs.CTCHead(vocab, width=64).named(f"head{number}")(encoded=x)
            loss = specs.CTCLoss(vocab).named(f"ctc{number}")(
                log_probs=scores.log_probs,
                log_probs_len=stem.encoded_len,
                targets=batch.text,
                targets_len=batch.text_len,
            )
            losses.append(loss.loss)
    total = specs.SumLoss().named("total")(losses=losses)  # type: ignore[arg-type]
    return Graph("wide", "train", {"loss": total.loss})


def boxes(root: ET.Element) -> list[Area]:
    """The boxes of steps and outputs."""
    found: list[Area] = []
    for group in root.iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        if rect is not None and "n-box" in (group.get("class") or ""):
            x, y, width, height = (float(rect.get(key, 0)) for key in ("x", "y", "width", "height"))
            found.append((x, y, x + width, y + height))
    return found


def words(root: ET.Element) -> list[Area]:
    """The types that stand below the boxes."""
    found: list[Area] = []
    for text in root.iter(f"{SVG}text"):
        if text.get("class") in ("n-type", "n-axes"):
            x, y = float(text.get("x", 0)), float(text.get("y", 0))
            found.append((x, y - 9, x + 6.95 * len("".join(text.itertext())), y + 2))
    return found


def wires(root: ET.Element) -> list[list[Point]]:
    """The points of each wire, a few pixels apart."""
    return [
        _points(path.get("d") or "")
        for path in root.iter(f"{SVG}path")
        if "n-wire" in (path.get("class") or "") and "V" in (path.get("d") or "")  # the legend has one, too
    ]


def _points(data: str) -> list[Point]:
    x = y = 0.0
    found: list[Point] = []
    for sign, rest in re.findall(r"([A-Za-z])([^A-Za-z]*)", data):
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", rest)]
        if sign == "M":
            x, y = numbers
            corners: list[Point] = [(x, y)]
        elif sign in "Hh":
            corners = [(x, y), (numbers[0] + x * (sign == "h"), y)]
        elif sign == "V":
            corners = [(x, y), (x, numbers[0])]
        elif sign == "q":
            a, b, c, d = numbers
            corners = [_bezier([(x, y), (x + a, y + b), (x + c, y + d)], n / 8) for n in range(9)]
        else:
            assert sign == "C", data
            a, b, c, d, e, f = numbers
            corners = [_bezier([(x, y), (a, b), (c, d), (e, f)], n / 40) for n in range(41)]
        found += corners
        x, y = corners[-1]
    return [point for one, two in pairwise(found) for point in _between(one, two)]


def _between(one: Point, two: Point) -> list[Point]:
    steps = max(1, round((abs(two[0] - one[0]) + abs(two[1] - one[1])) / 6))
    return [
        (one[0] + (two[0] - one[0]) * n / steps, one[1] + (two[1] - one[1]) * n / steps)
        for n in range(steps + 1)
    ]


def _bezier(points: list[Point], at: float) -> Point:
    while len(points) > 1:
        points = [(a[0] + (b[0] - a[0]) * at, a[1] + (b[1] - a[1]) * at) for a, b in pairwise(points)]
    return points[0]


def overlap(one: Area, two: Area) -> bool:
    """Whether two areas share more than an edge."""
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


def inside(point: Point, area: Area, margin: float = 1.0) -> bool:
    """Whether a point is within an area, by more than a margin."""
    return area[0] + margin < point[0] < area[2] - margin and area[1] + margin < point[1] < area[3] - margin
