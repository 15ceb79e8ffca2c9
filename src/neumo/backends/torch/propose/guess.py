"""From sizes and dtypes to a signature: names for the symbols, kinds for the axes, elements for the ports."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from neumo.backends.torch.propose.probe import Run, fit_lengths
from neumo.graph.signature import Signature
from neumo.types import (
    ONE,
    Any_,
    Axis,
    Element,
    Features,
    Flags,
    Ids,
    Kind,
    Lengths,
    LogProbs,
    Loss,
    Mask,
    NeuralType,
    Probs,
    Size,
    Symbol,
    kind_of_size,
)

Sizes = Sequence[Size | None]
_NORMALISED = {"log_softmax": LogProbs, "_log_softmax": LogProbs, "softmax": Probs, "_softmax": Probs}


@dataclass
class Guess:
    """What is known of a call: example values and sizes of the inputs, sizes and dtypes of the outputs.

    `operations` names what made each output, where a trace told it. `run` calls the module again. `notes`
    gathers what is guessed about inputs by port, `made` about outputs, which may have the same names.
    """

    module: nn.Module
    values: Mapping[str, Tensor]
    inputs: Mapping[str, Sizes]
    outputs: Mapping[str, Sizes]
    dtypes: Mapping[str, torch.dtype]
    operations: Sequence[str] = ()
    run: Run | None = None
    notes: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    made: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def signature(self) -> Signature:
        """Propose the ports."""
        names = self._names()
        takes: dict[str, NeuralType] = {}
        for port, sizes in self.inputs.items():
            axes = [self._axis(port, at, size, names) for at, size in enumerate(sizes)]
            takes[port] = NeuralType(self._input(port, axes, takes), tuple(axes))
        gives: dict[str, NeuralType] = {}
        self.notes, known = self.made, self.notes
        for number, (port, sizes) in enumerate(self.outputs.items()):
            axes = [self._axis(port, at, size, names) for at, size in enumerate(sizes)]
            element = self._output(port, number, axes, takes)
            if isinstance(element, LogProbs | Probs) and axes and axes[-1].kind is Kind.FEATURE:
                axes[-1] = Axis(Kind.VOCAB, axes[-1].size)
            gives[port] = NeuralType(element, tuple(axes))
        self.notes = known
        return Signature(takes=takes, gives=gives)

    def comments(self, *, made: bool = False) -> dict[str, str]:
        """What was guessed about the inputs, or about the outputs, in a line for each port."""
        notes = self.made if made else self.notes
        return {port: f"guess: {', '.join(dict.fromkeys(words))}" for port, words in notes.items()}

    def _note(self, port: str, words: str) -> None:
        self.notes.setdefault(port, []).append(words)

    def _bare(self) -> Iterator[tuple[str, int, Symbol]]:
        for port, sizes in self.inputs.items():
            for at, size in enumerate(sizes):
                for symbol in sorted(size.symbols() if size is not None else (), key=lambda s: s.key):
                    yield port, at, symbol

    def _names(self) -> dict[Symbol, Size]:
        """Call one symbol B, the sides of pictures H and W, H2 and W2 ..., and the others T, U, T2 ..."""
        names: dict[Symbol, Size] = {}
        for symbol in self._batch():
            names[symbol] = Symbol("B").size
        times = itertools.chain(["T", "U"], itertools.islice(_numbered("T"), 1, None))
        sides = {2: _numbered("H"), 3: _numbered("W")}
        for port, at, symbol in self._bare():
            if symbol in names:
                continue
            image = self.values[port].dim() == 4 and at in (2, 3) and self.values[port].is_floating_point()
            names[symbol] = Symbol(next(sides[at] if image else times)).size
        own = (size.symbols() for sizes in self.outputs.values() for size in sizes if size is not None)
        for symbol in sorted(frozenset[Symbol]().union(*own) - names.keys(), key=lambda each: each.key):
            names[symbol] = Symbol(f"{next(times)}'").size  # it depends on values
        return names

    def _batch(self) -> list[Symbol]:
        """The symbols of the batch: of the first axes (of the second ones, if the module is time-major).

        Inputs that are as long there are of one batch, whether the trace relates them or not. Where they are
        not, it is the symbol that most inputs share.
        """
        found = list(self._bare())
        at = int(getattr(self.module, "batch_first", True) is False)
        firsts = dict.fromkeys(symbol for _, place, symbol in found if place == at)
        lengths = {value.shape[at] for value in self.values.values() if value.dim() > at}
        if firsts and len(lengths) == 1:
            return list(firsts)
        shared = Counter(symbol for _, symbol in {(port, symbol) for port, _, symbol in found})
        most = max(shared.values(), default=0)
        places = sorted(found, key=lambda each: each[1])
        return [symbol for _, _, symbol in places if shared[symbol] == most][:1]

    def _axis(self, port: str, at: int, size: Size | None, names: Mapping[Symbol, Size]) -> Axis:
        if size is None:
            self._note(port, f"axis {at} has a size of its own")
            return Axis(Kind.TIME, Symbol("T'").size)
        if not size.terms:
            return ONE if size.const == 1 else Axis(Kind.FEATURE, size)
        size = size.substitute(names)
        if any("'" in symbol.name for symbol in size.symbols()):
            self._note(port, f"axis {at} has a size of its own")
        kind = kind_of_size(size) or Kind.ANY
        if size.symbol is not None and kind in _WORDS and self.notes is not self.made:
            self._note(port, f"axis {at} is {_WORDS[kind]}")
        return Axis(kind, size)

    def _input(self, port: str, axes: Sequence[Axis], takes: Mapping[str, NeuralType]) -> Element:
        dtype = self.values[port].dtype
        if dtype.is_floating_point:
            self.notes.setdefault(port, []).insert(0, "features")
            return Features()
        if dtype is torch.bool:
            self.notes.setdefault(port, []).insert(0, "a mask: add what True means, keep or pad")
            return Mask(axes[-1].size) if axes and axes[-1].size is not None else Flags()
        times = [axis.size for t in takes.values() for axis in t.axes if axis.kind is Kind.TIME]
        if "len" in port and len(axes) == 1:
            counted = times[0] if times and times[0] is not None else Symbol("T").size
            self.notes.setdefault(port, []).insert(0, f"lengths of {counted}")
            return Lengths(counted)
        if "mask" in port:
            self.notes.setdefault(port, []).insert(0, "a mask of whole numbers: better a Mask of booleans")
            return Any_()
        tables = [m.num_embeddings for m in self.module.modules() if isinstance(m, nn.Embedding)]
        labels = f"ids of {tables[0]} labels: add their Vocab" if len(tables) == 1 else "ids: add their Vocab"
        self.notes.setdefault(port, []).insert(0, labels)
        return Ids()

    def _output(
        self, port: str, number: int, axes: Sequence[Axis], takes: Mapping[str, NeuralType]
    ) -> Element:
        dtype = self.dtypes[port]
        operation = self.operations[number] if number < len(self.operations) else ""
        if dtype is torch.bool:
            self._note(port, "yes or no")
            return Flags()
        if not dtype.is_floating_point:
            counted = self._counted(number, axes, takes)
            self._note(port, "ids: add their Vocab" if counted is None else f"lengths of {counted}")
            return Ids() if counted is None else Lengths(counted)
        if operation in _NORMALISED:
            self._note(port, f"the last operation is {operation.strip('_')}")
            return _NORMALISED[operation]()
        if not axes and (type(self.module).__name__.endswith("Loss") or "loss" in operation):
            self._note(port, "a loss")
            return Loss()
        self._note(port, "features")
        return Features()

    def _counted(self, number: int, axes: Sequence[Axis], takes: Mapping[str, NeuralType]) -> Size | None:
        """What an output of whole numbers, one for each row of lengths, are the lengths of."""
        for port, type in takes.items():
            element: Any = type.element
            rows = isinstance(element, Lengths) and type.axes == tuple(axes)
            if rows and isinstance(element.of, Size) and self.run is not None:
                return fit_lengths(self.run, self.values, port, number, element.of)
        return None


def _numbered(name: str) -> Iterator[str]:
    """Give `H`, `H2`, `H3` and so on."""
    return itertools.chain([name], (f"{name}{number}" for number in itertools.count(2)))


_WORDS = {Kind.BATCH: "the batch", Kind.TIME: "time", Kind.HEIGHT: "height", Kind.WIDTH: "width"}
