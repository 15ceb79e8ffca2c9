"""Beam searches through the lattice of a transducer, each as a generator of one utterance.

A search yields what it wants to know, a list of (frame, context), and is sent the `NodeScores` of each; so
whoever drives it can ask the networks for many utterances at once, and none of them sees the others. It
returns its hypotheses, best first. No framework is needed.

All sums of probabilities are in natural logarithms.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
NEGLIGIBLE = 20.0  # what is e^20 times less probable than the best changes no score


class Context:
    """Labels so far, and what networks have made of them (`memory`); equal labels are one object.

    >>> root = Context()
    >>> root.child(3).child(1) is root.child(3).child(1), root.child(3).child(1).labels
    (True, (3, 1))
    """

    __slots__ = ("__weakref__", "_children", "labels", "memory", "parent")

    def __init__(self, labels: tuple[int, ...] = (), parent: Context | None = None) -> None:
        self.labels, self.parent = labels, parent
        self.memory: Any = None
        self._children: weakref.WeakValueDictionary[int, Context] | None = None

    def child(self, label: int) -> Context:
        """These labels and one more."""
        if self._children is None:
            self._children = weakref.WeakValueDictionary()
        found = self._children.get(label)
        if found is None:
            found = self._children[label] = Context((*self.labels, label), self)
        return found


@dataclass(frozen=True, slots=True)
class NodeScores:
    """Log-probabilities in one frame after some labels; `best` are the best labels, best first."""

    blank: float
    labels: Floats  # (V,)
    best: Sequence[tuple[int, float]]
    durations: Floats | None = None  # (D,)


def best_labels(scores: Floats, count: int) -> list[list[tuple[int, float]]]:
    """The best labels of many nodes with their scores, (R, V) -> R lists; of equals, the first comes first.

    >>> best_labels(np.array([[0.1, 0.7, 0.2]]), 2)
    [[(1, 0.7), (2, 0.2)]]
    """
    count = min(count, scores.shape[1])
    chosen = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    chosen.sort(axis=1)
    values = np.take_along_axis(scores, chosen, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    chosen, values = (np.take_along_axis(each, order, axis=1).tolist() for each in (chosen, values))
    return [list(zip(*row, strict=True)) for row in zip(chosen, values, strict=True)]


class Hypothesis:
    """Labels, the log-probability of all alignments that led to them, and frames of the best of these.

    Most are dropped as soon as they are made, so what is known of a new label is put together when it is
    asked for.
    """

    __slots__ = ("_context", "_frames", "_new", "score")

    def __init__(
        self,
        context: Context,
        score: float = 0.0,
        frames: tuple[int, ...] = (),
        new: tuple[int, int] | None = None,
    ) -> None:
        self._context, self.score, self._frames = context, score, frames
        self._new = new  # a label behind the context, and the frame in which it was read

    def _settle(self) -> None:
        if self._new is not None:
            label, frame = self._new
            self._context, self._frames = self._context.child(label), (*self._frames, frame)
            self._new = None

    @property
    def context(self) -> Context:
        """The labels so far, as what networks have made of them."""
        self._settle()
        return self._context

    @property
    def frames(self) -> tuple[int, ...]:
        """The frame in which each label was read."""
        self._settle()
        return self._frames

    @property
    def labels(self) -> tuple[int, ...]:
        """The labels so far."""
        return self.context.labels

    def blank(self, log_prob: float) -> Hypothesis:
        """The same labels, a blank later."""
        return Hypothesis(self.context, self.score + log_prob, self.frames)

    def label(self, label: int, log_prob: float, frame: int) -> Hypothesis:
        """One label more, read in a frame."""
        return Hypothesis(self.context, self.score + log_prob, self.frames, (label, frame))


Wanted = list[tuple[int, Context]]
Search = Generator[Wanted, Sequence[NodeScores], list[Hypothesis]]


@dataclass(frozen=True)
class BeamSettings:
    """How to search; see `TransducerBeam`."""

    search: Literal["time", "alignment", "token", "adaptive", "best_first"] = "time"
    beam: int = 4
    max_symbols: int = 10
    max_per_frame: float = 2.0
    steps: int = 2
    extra: int = 2
    gamma: float = 2.3
    prefix: int = 1
    length_norm: bool = True
    durations: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        """How many of the best labels a search looks at."""
        return self.beam + self.extra if self.search == "adaptive" else self.beam


def search_lattice(root: Context, frames: int, settings: BeamSettings) -> Search:
    """Search the lattice of one utterance: returns at most `beam` hypotheses, best first."""
    start = [Hypothesis(root)]
    if not frames:
        return start
    found = yield from _SEARCHES[settings.search](start, frames, settings)
    return ranked(found, settings)[: settings.beam]


def ranked(found: Iterable[Hypothesis], settings: BeamSettings) -> list[Hypothesis]:
    """Best first: by score, or by score per label and one more."""
    if settings.length_norm:
        return sorted(found, key=lambda each: -each.score / (len(each.labels) + 1))
    return sorted(found, key=lambda each: -each.score)


def merged(found: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Add the probabilities of hypotheses with the same labels; the frames are those of the better one.

    >>> root = Context()
    >>> merged([Hypothesis(root, math.log(0.2)), Hypothesis(root, math.log(0.3))])[0].score == math.log(0.5)
    True
    """
    by_labels: dict[Context, Hypothesis] = {}
    for each in found:
        _add(by_labels, each)
    return list(by_labels.values())


def _add(by_labels: dict[Context, Hypothesis], new: Hypothesis) -> None:
    known = by_labels.get(new.context)
    if known is not None:
        frames = new.frames if new.score > known.score else known.frames
        new = Hypothesis(new.context, _sum(known.score, new.score), frames)
    by_labels[new.context] = new


def _sum(one: float, two: float) -> float:
    if one == two == -math.inf:
        return one
    return max(one, two) + math.log1p(math.exp(-abs(one - two)))


def _best(found: Iterable[Hypothesis], beam: int) -> list[Hypothesis]:
    return sorted(found, key=lambda each: -each.score)[:beam]


def _wanted(frame: int, hypotheses: Iterable[Hypothesis]) -> Wanted:
    return [(frame, each.context) for each in hypotheses]


def time_synchronous(start: list[Hypothesis], frames: int, settings: BeamSettings) -> Search:
    """Frame after frame, and in a frame label after label (Saon et al. 2020, TSD); also with durations.

    Without pruning it adds all alignments of all hypotheses: nothing is approximated but by the beam.
    """
    ahead: list[dict[Context, Hypothesis]] = [{} for _ in range(frames + 1)]  # by the frame they have come to
    ahead[0] = {each.context: each for each in start}
    for frame in range(frames):
        here = _best(ahead[frame].values(), settings.beam)
        reach = frame + 1 + max(settings.durations, default=1)
        for count in range(settings.max_symbols + 1):
            if not here:
                break
            scored = yield _wanted(frame, here)
            stay: list[Hypothesis] = []
            for each, scores in zip(here, scored, strict=True):
                _leave(ahead, frame, each, scores, settings)
                if count < settings.max_symbols:
                    stay += _extend(ahead, frame, each, scores, settings)
            here = _best(stay, settings.beam)
            most = max(
                (each.score for later in ahead[frame + 1 : reach] for each in later.values()),
                default=-math.inf,
            )
            if here and here[0].score < most - NEGLIGIBLE:
                break
        ahead[frame] = {}
    return _best(ahead[frames].values(), settings.beam)


def _leave(
    ahead: list[dict[Context, Hypothesis]],
    frame: int,
    each: Hypothesis,
    scores: NodeScores,
    settings: BeamSettings,
) -> None:
    """Read a blank, and go as many frames on as it lasts; none lasts beyond the end."""
    if scores.durations is None:
        _add(ahead[frame + 1], each.blank(scores.blank))
        return
    for duration, log_prob in zip(settings.durations, scores.durations.tolist(), strict=True):
        if duration and frame + duration < len(ahead):
            _add(ahead[frame + duration], each.blank(scores.blank + log_prob))


def _extend(
    ahead: list[dict[Context, Hypothesis]],
    frame: int,
    each: Hypothesis,
    scores: NodeScores,
    settings: BeamSettings,
) -> list[Hypothesis]:
    """Read a label; returns what stays in the frame."""
    stay: list[Hypothesis] = []
    for label, log_prob in scores.best:
        if scores.durations is None:
            stay.append(each.label(label, log_prob, frame))
            continue
        for duration, lasting in zip(settings.durations, scores.durations.tolist(), strict=True):
            new = each.label(label, log_prob + lasting, frame)
            if not duration:
                stay.append(new)
            elif frame + duration < len(ahead) - 1:  # the last token is a blank
                _add(ahead[frame + duration], new)
    return stay


def alignment_synchronous(start: list[Hypothesis], frames: int, settings: BeamSettings) -> Search:
    """Step after step of the alignment, of blanks and labels alike (Saon et al. 2020, ALSD)."""
    alive, ended = start, list[Hypothesis]()
    for step in range(frames + int(settings.max_per_frame * frames)):
        within = [each for each in alive if step - len(each.labels) < frames]
        if not within:
            break
        scored = yield [(step - len(each.labels), each.context) for each in within]
        new: list[Hypothesis] = []
        for each, scores in zip(within, scored, strict=True):
            frame = step - len(each.labels)
            new.append(each.blank(scores.blank))
            ended += new[-1:] if frame == frames - 1 else []
            new += (each.label(label, score, frame) for label, score in scores.best)
        alive = merged(_best(new, settings.beam))
    return ended or alive


def token_synchronous(start: list[Hypothesis], frames: int, settings: BeamSettings) -> Search:
    """Token after token of every hypothesis, wherever in time it is; those at the end wait for the others.

    Hypotheses that have come to one frame with the same labels are added up; with durations, a token lasts
    one of its best `beam` durations, and a blank may last beyond the end.
    """
    alive = {(0, each.context): (0, each) for each in start}  # by frame and labels; labels read in the frame
    while any(frame < frames for frame, _ in alive):
        here = [(frame, count, each) for (frame, _), (count, each) in alive.items()]
        active = [one for one in here if one[0] < frames]
        scored = iter((yield [(frame, each.context) for frame, _, each in active]))
        new: list[tuple[int, int, Hypothesis]] = []
        for frame, count, each in here:
            if frame >= frames:
                new.append((frame, count, each))
                continue
            scores = next(scored)
            tokens = _best_tokens(scores, settings) if count < settings.max_symbols else []
            for label, lasts, score in tokens:
                new.append((frame + lasts, 0 if lasts else count + 1, each.label(label, score, frame)))
            new += ((frame + lasts, 0, each.blank(score)) for lasts, score in _blanks(scores, settings))
        alive = {}
        for frame, count, each in sorted(new, key=lambda one: -one[2].score)[: settings.beam]:
            count, known = alive.get((frame, each.context), (count, None))
            both = each if known is None else merged([known, each])[0]
            alive[frame, each.context] = count, both
    return [each for _, each in alive.values()]


def best_first(start: list[Hypothesis], frames: int, settings: BeamSettings) -> Search:
    """In each frame the best hypothesis is extended, until enough have left it that are better (Graves 2012).

    With durations, each token lasts one of its best `beam` durations; hypotheses that have come to one frame
    with the same labels are added up, and a blank may last beyond the end.
    """
    kept = [(0, each) for each in start]  # with the frame that each has come to
    for frame in range(frames):
        left = [one for one in kept if one[0] > frame]
        # Beside each hypothesis, how many labels it has read in this frame.
        waiting = [(0, each) for at, each in kept if at == frame]
        for _ in range(settings.beam * (settings.max_symbols + 1)):  # or it may go on for very long
            if not waiting:
                break
            at = max(range(len(waiting)), key=lambda at: waiting[at][1].score)
            count, most = waiting.pop(at)
            (scores,) = yield [(frame, most.context)]
            labels = _best_tokens(scores, settings) if count < settings.max_symbols else []
            for label, duration, score in labels:
                new = most.label(label, score, frame)
                if duration:
                    left.append((frame + duration, new))
                else:
                    waiting.append((count + 1, new))
            left += ((frame + lasts, most.blank(score)) for lasts, score in _blanks(scores, settings))
            if settings.durations:
                left = _merged_by_frame(left)
            bar = max((each.score for _, each in waiting), default=-math.inf)
            better = sorted((one for one in left if one[1].score > bar), key=lambda one: one[1].score)
            if len(better) >= settings.beam:
                left = better
                break
        kept = left if len(left) <= settings.beam else _best_by_frame(left, settings.beam)
    return [each for _, each in kept]


def _best_by_frame(found: Iterable[tuple[int, Hypothesis]], beam: int) -> list[tuple[int, Hypothesis]]:
    return sorted(found, key=lambda one: -one[1].score)[:beam]


def _best_tokens(scores: NodeScores, settings: BeamSettings) -> list[tuple[int, int, float]]:
    """The best labels, how long each lasts, and their scores: (label, frames, score)."""
    labels = scores.best
    lasting = _lasting(scores, settings)
    if not lasting:
        return [(label, 0, score) for label, score in labels]
    both = [(label, lasts, one + two) for label, one in labels for lasts, two in lasting[: settings.beam]]
    return sorted(both, key=lambda each: -each[2])[: settings.beam]


def _blanks(scores: NodeScores, settings: BeamSettings) -> list[tuple[int, float]]:
    """How long a blank may last, at least one frame, and its scores."""
    lasting = _lasting(scores, settings)
    if not lasting:
        return [(1, scores.blank)]
    longer = [(lasts, scores.blank + score) for lasts, score in lasting if lasts]
    return longer[: settings.beam]


def _lasting(scores: NodeScores, settings: BeamSettings) -> list[tuple[int, float]]:
    """Durations with their scores, best first."""
    if scores.durations is None:
        return []
    both = zip(settings.durations, scores.durations.tolist(), strict=True)
    return sorted(both, key=lambda each: -each[1])


def _merged_by_frame(found: Iterable[tuple[int, Hypothesis]]) -> list[tuple[int, Hypothesis]]:
    by_frame: dict[int, list[Hypothesis]] = {}
    for frame, each in found:
        by_frame.setdefault(frame, []).append(each)
    return [(frame, each) for frame, group in by_frame.items() for each in merged(group)]


def adaptive(start: list[Hypothesis], frames: int, settings: BeamSettings) -> Search:
    """A label or two in a frame, and of each hypothesis what is near to its best (Kim et al. 2020, mAES).

    With durations, tokens are chosen together with how long they last; hypotheses that have come to one frame
    with the same labels are added up.
    """
    kept = [(0, each) for each in start]  # with the frame that each has come to
    for frame in range(frames):
        left = [one for one in kept if one[0] > frame]
        here = sorted((each for at, each in kept if at == frame), key=lambda each: -len(each.labels))
        here = yield from _add_prefixes(here, frame, settings)
        known = {each.context for each in here}
        for step in range(settings.steps):
            if not here:
                break
            scored = yield _wanted(frame, here)
            near = [_near(*one, frame, settings) for one in zip(here, scored, strict=True)]
            left += (one for each in near for one in each if one[0] > frame)
            here = [new for each in near for at, new in each if at == frame and new.context not in known]
            if here and step == settings.steps - 1:
                scored = yield _wanted(frame, here)
                for each, scores in zip(here, scored, strict=True):
                    left += ((frame + lasts, each.blank(s)) for lasts, s in _blanks(scores, settings)[:1])
        kept = _best_by_frame(_merged_by_frame(left), settings.beam)
    return [each for _, each in kept]


def _near(
    each: Hypothesis, scores: NodeScores, frame: int, settings: BeamSettings
) -> list[tuple[int, Hypothesis]]:
    """What `gamma` from the best, among `beam` and `extra` tokens, makes of a hypothesis, and when."""
    count = settings.tokens
    tokens = sorted([*scores.best, (-1, scores.blank)], key=lambda one: -one[1])[:count]
    lasting = _lasting(scores, settings)
    if lasting:
        both = ((label, lasts, one + two) for label, one in tokens for lasts, two in lasting)
        options = sorted(both, key=lambda one: -one[2])[:count]
    else:
        options = [(label, 0, score) for label, score in tokens]
    found: list[tuple[int, Hypothesis]] = []
    for label, lasts, score in options:
        if score < options[0][2] - settings.gamma:
            break
        if label < 0:
            found.append((frame + max(lasts, 1), each.blank(score)))  # a blank always goes on
        else:
            found.append((frame + lasts, each.label(label, score, frame)))
    return found


def _add_prefixes(
    here: list[Hypothesis], frame: int, settings: BeamSettings
) -> Generator[Wanted, Sequence[NodeScores], list[Hypothesis]]:
    """Add to hypotheses, longest first, what shorter ones in the beam would become in this frame."""
    found = list(here)
    for at, longer in enumerate(found):
        for shorter in found[at + 1 :]:
            n = len(shorter.labels)
            if not 0 < len(longer.labels) - n <= settings.prefix or longer.labels[:n] != shorter.labels:
                continue
            contexts = _between(shorter.context, longer.context)
            scored = yield [(frame, context) for context in contexts]
            path = zip(scored, longer.labels[n:], strict=True)
            score = shorter.score + sum(_staying(*one, settings) for one in path)
            longer = Hypothesis(longer.context, _sum(longer.score, score), longer.frames)
        found[at] = longer
    return found


def _staying(scores: NodeScores, label: int, settings: BeamSettings) -> float:
    """The score of a label that does not leave its frame."""
    score = float(scores.labels[label])
    if scores.durations is None:
        return score
    return (
        score + float(scores.durations[settings.durations.index(0)]) if 0 in settings.durations else -math.inf
    )


def _between(first: Context, last: Context) -> list[Context]:
    """The contexts from one up to, and without, a longer one."""
    found: list[Context] = []
    at = last
    while at is not first and at.parent is not None:
        at = at.parent
        found.append(at)
    return found[::-1]


_SEARCHES = {
    "time": time_synchronous,
    "alignment": alignment_synchronous,
    "token": token_synchronous,
    "adaptive": adaptive,
    "best_first": best_first,
}
