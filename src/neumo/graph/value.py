"""Symbolic values: what a call returns, where it came from, and what its type is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn, cast

from neumo.graph.module import NeuralModule, label_of
from neumo.graph.source import CallSite, Location, caller
from neumo.types import GraphError, NeuralType, Row, nearest

if TYPE_CHECKING:
    from types import FrameType

    from neumo.graph.nest import Nesting
    from neumo.graph.source import Place
    from neumo.types import Environment, NeumoError, Obligation, Reason, Source

_serials = count()
_NOTHING: Mapping[str, str] = {}


class Doubt(IntEnum):
    """How far the types of what a step gives can be relied on, where calls were refused and gathered."""

    NONE = 0
    SIZES = 1  # what a refused call would have told is unknown
    ALL = 2  # nothing is known: what it is connected to is not judged


class Value:
    """Stands for a tensor that a step will give: it has a type, and no data.

    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Audio, B, T
    >>> inputs(audio=Audio(rate=16000)[B, T]).audio
    inputs.audio: Audio(rate=16000)[B, T]

    `value.step` is the call that gives it, `value.port` the name of the output, `value.type` its type with
    the sizes that the connections have fixed.
    """

    __slots__ = ("port", "step", "type")

    def __init__(self, step: Step, port: str, type: NeuralType) -> None:
        self.step = step
        self.port = port
        self.type = type

    @property
    def name(self) -> str:
        """Its module and port, such as `MelSpectrogram.mel_len`."""
        return f"{label_of(self.step.module)}.{self.port}"

    @property
    def key(self) -> tuple[int, str]:
        """What values are told apart by in mappings: the `id` of the step, and the port."""
        return id(self.step), self.port

    def __repr__(self) -> str:
        return f"{self.name}: {self.type}"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(repr(self))

    def _no_data(self, *_: object, **__: object) -> NoReturn:
        raise GraphError(
            f"{self.name} is a symbolic value: it has a type but no data to compute with",
            code="symbolic",
            where=_here(),
            why="Composing only connects modules; numbers exist when an action runs the graph.",
            fixes=["put the computation into a module", "run the graph: NeuralFactory().infer(graph)"],
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or name in Value.__slots__:
            raise AttributeError(name)  # copy and pickle ask for these before there is anything
        raise self._unknown(name)

    def _unknown(self, name: str) -> UnknownAttribute:
        """Say what an attribute of a tensor, or a field of a struct, is written as instead."""
        fields = list(getattr(self.type.element, "fields", ()))
        field = nearest(name, fields)
        if field is not None:
            here = "" if field == name else f" and no field {name!r}"
            return UnknownAttribute(
                f"{self.name} is a symbolic value: its fields are no attributes{here}",
                code="symbolic",
                where=_here(),
                why=f"Its fields are {', '.join(fields)}; one of them is taken out by a module.",
                fixes=[f'Pick("{field}")(value=...).value'],
            )
        slot = nearest(name, ("name", *Value.__slots__))
        return UnknownAttribute(
            f"{self.name} is a symbolic value: it has a type and no {name!r}",
            code="symbolic",
            where=_here(),
            why="Composing only connects modules; numbers exist when an action runs the graph.",
            fixes=[f"did you mean {slot}?"] if slot else ["put the computation into a module"],
        )

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> NoReturn:
        """Refuse what a function of torch is asked to do with a value."""
        _first((*args, *(kwargs or {}).values()))._no_data()

    __bool__ = __float__ = __int__ = __complex__ = __index__ = __len__ = __round__ = _no_data
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = __rmatmul__ = _no_data
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = _no_data
    __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = __invert__ = _no_data
    __lt__ = __le__ = __gt__ = __ge__ = _no_data
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = _no_data
    __getitem__ = __setitem__ = __delitem__ = __iter__ = __contains__ = _no_data
    __array__ = __array_ufunc__ = __array_function__ = _no_data  # numpy asks for these


def _first(arguments: Iterable[Any]) -> Value:
    """Find the value among the arguments of a function, which may be in a list there."""
    pending = list(arguments)
    while not isinstance(found := pending.pop(0), Value):
        if isinstance(found, list | tuple):
            pending += cast("Sequence[Any]", found)
    return found


def _here() -> Callable[[], Source | None] | None:
    """Find the user's line that is running now."""
    frame = caller()
    site = None if frame is None else CallSite(frame.f_code, frame.f_lasti)
    return None if site is None else site.place


class Record:
    """Holds the values that one call returned, by name: `batch.audio`, `batch.audio_len`.

    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Audio, B, Lengths, T
    >>> inputs(audio=Audio(rate=16000)[B, T], audio_len=Lengths(T)[B])
    inputs gives
      audio: Audio(rate=16000)[B, T]
      audio_len: Lengths(T)[B]

    A record iterates over its values in the order of the signature, so `audio, audio_len = ...` works.
    """

    __slots__ = ("_source", "_values")

    _source: str
    _values: dict[str, Value]

    def __init__(self, source: str, values: Mapping[str, Value]) -> None:
        object.__setattr__(self, "_source", source)
        object.__setattr__(self, "_values", dict(values))

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):
            raise AttributeError(name)  # copy and pickle ask for these before there are any values
        return self[name]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a record cannot be changed: {self._source}.{name} is what the call returned")

    def __getitem__(self, name: str) -> Value:
        return self._values[name] if name in self._values else self._not_there(name)

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._values]

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (self._source, self._values)

    def __repr__(self) -> str:
        rows = [f"  {name}: {value.type}" for name, value in self._values.items()]
        return "\n".join([f"{self._source} gives", *rows]) if rows else f"{self._source} gives nothing"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(repr(self))

    def _asdict(self) -> dict[str, Value]:
        """Give the values by name, in the order of the signature."""
        return dict(self._values)

    def _not_there(self, name: str) -> Value:
        """Raise `UnknownOutput`; where errors are gathered, go on with a value of which nothing is known."""
        from neumo.graph.collect import unknown_value
        from neumo.graph.compose import collected

        frame = caller()
        error, gathered = self._unknown(name, frame), collected.get()
        if gathered is None or frame is None or _asks(frame):
            raise error
        gathered.append(error)
        return unknown_value(self._source, name, [error])

    def _unknown(self, name: str, frame: FrameType | None) -> UnknownOutput:
        near = nearest(name, self._values)
        site = None if frame is None else CallSite(frame.f_code, frame.f_lasti)
        return UnknownOutput(
            f"{self._source} gives no {name!r}",
            code="output",
            where=None if site is None else site.place,
            fixes=[f"did you mean {near}?"] if near else [],
            details=[Row("gives", ", ".join(self._values) or "nothing")],
        )


def values_of(record: Record) -> dict[str, Value]:
    """Give the values of a record by name, in the order of the signature."""
    return record._asdict()  # pyright: ignore[reportPrivateUsage]


def _asks(frame: FrameType) -> bool:
    """Whether a name is looked up by a call such as `hasattr(record, name)`: an answer, and no mistake."""
    from dis import opname

    return "CALL" in opname[frame.f_code.co_code[frame.f_lasti]]


class UnknownAttribute(GraphError, AttributeError):
    """Says that a value is no tensor and no struct; `hasattr` and `getattr` with a default work as ever."""


class UnknownOutput(GraphError, AttributeError):
    """Says that a record has no value of that name; `hasattr` and `getattr` with a default work as ever."""


class Step:
    """Is one call of a module in a graph: the values that went in and the values that come out.

    `inputs` holds connected ports only: a value, or a tuple of values for a port that takes many. `location`
    says where the call was written, `assumptions` lists what was taken on trust, as (port, obligation),
    `within` the calls of nested graphs that made the step, the outermost first. `relaxed` says which facets
    were let differ, and why; `refusal` holds the errors of a call that was refused and gathered by `collect`.
    """

    __slots__ = (
        "assumptions", "bindings", "doubt", "inputs", "location", "module", "outputs", "refusal", "relaxed",
        "serial", "warnings", "within",
    )  # fmt: skip

    def __init__(
        self, module: NeuralModule, inputs: Mapping[str, Any], location: Location | None = None
    ) -> None:
        self.module = module
        module.__dict__["_connected"] = True  # from here on its settings stay as they are
        self.inputs: dict[str, Value | tuple[Value, ...]] = dict(inputs)
        self.outputs: dict[str, Value] = {}
        self.location = location
        self.serial = next(_serials)  # order of composition
        self.bindings: Environment | None = (
            None  # what the sizes and facets of the signature stand for in this call
        )
        self.assumptions: list[tuple[str, Obligation]] = []
        self.warnings: list[tuple[str, Reason]] = []
        self.within: tuple[Nesting, ...] = ()
        self.doubt = Doubt.NONE
        self.refusal: tuple[NeumoError, ...] = ()
        self.relaxed: Mapping[str, str] = _NOTHING

    def place(self, port: str | None = None) -> Place | None:
        """Find where the call, or the argument for one of its ports, was written."""
        return None if self.location is None else self.location.place(port)

    def edges(self) -> Iterator[tuple[str, Value]]:
        """Give each connection as (port, value); a port that takes many occurs once for each value."""
        for port, source in self.inputs.items():
            if isinstance(source, tuple):
                for value in source:
                    yield port, value
            else:
                yield port, source

    def __repr__(self) -> str:
        wiring = ", ".join(f"{port}={value.name}" for port, value in self.edges())
        return f"{label_of(self.module)}({wiring}) -> {', '.join(self.outputs) or 'nothing'}"
