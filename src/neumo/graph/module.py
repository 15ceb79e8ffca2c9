"""Neural modules: specifications with typed ports that compose when they are called."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self

from neumo.graph.registry import register
from neumo.graph.signature import Signature
from neumo.types import GraphError, NeuralType

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.graph.value import Record, Value
    from neumo.metrics import Accumulator

Role = Literal["module", "data", "loss", "metric", "decoder", "adapter"]


_TAKEN = ("kind", "preset")  # in a recipe they name the class and where its settings come from
_VALUES = "neumo.graph.value"  # the module of values and records, which stands above this one


def _refuse_taken_names(cls: type[NeuralModule]) -> None:
    """A field that a recipe could not set would keep its default without a word."""
    for name in _TAKEN:
        note = str(vars(cls).get("__annotations__", {}).get(name, "ClassVar"))
        if "ClassVar" not in note:
            raise GraphError(
                f"{cls.__name__} has a field {name!r}, which recipes could not set",
                code="module",
                why=f"In a recipe `{name}:` says what a module is made from.",
                fixes=["give the field another name"],
            )


class NeuralModule:
    """Specifies a conceptual piece of a network: its settings are dataclass fields, its ports are typed.

    >>> from dataclasses import dataclass
    >>> from neumo.types import Acoustic, B, F, T
    >>> @dataclass(frozen=True)
    ... class Project(NeuralModule):
    ...     '''Projects features to another width.'''
    ...     width: int = 256
    ...     def signature(self) -> Signature:
    ...         return Signature(
    ...             takes={"features": Acoustic()[B, F("D"), T]},
    ...             gives={"projected": Acoustic()[B, F(self.width), T]},
    ...         )
    >>> Project(width=128)
    Project(width=128)

    Calling a module composes: `project(features=batch.features)` checks the connection at once and returns a
    record of symbolic values. Nothing is computed. Identity is the object: two modules with equal fields have
    their own weights; one object that is called twice shares its weights.

    Fields hold what YAML can hold: None, bool, int, float, str, paths, lists, tuples, dicts, further frozen
    dataclasses, vocabularies and elements.
    """

    role: ClassVar[Role] = "module"
    trainable: ClassVar[bool] = False
    # Input ports whose positions in time are computed from one another; None: those with lengths or a mask.
    mixes: ClassVar[tuple[str, ...] | None] = None

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """Refuse values among the settings: they are connected by a call."""
        for given in (*args, *settings.values()):
            if type(given).__module__ == _VALUES:
                _refuse_values(cls, args, settings)
        return super().__new__(cls)

    def __init__(self, *args: object, **fields: object) -> None:
        if args or fields:
            cls = type(self).__name__
            raise GraphError(
                f"{cls} takes no settings, because it is not a dataclass",
                code="module",
                fixes=[f"decorate class {cls} with @dataclass(frozen=True)"],
            )

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _refuse_taken_names(cls)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = NeuralModule.__repr__  # else the decorator writes one that lists every default
        register(cls)

    def signature(self) -> Signature:
        """State the ports; each module class defines its own."""
        raise GraphError(
            f"{type(self).__name__} does not state its ports",
            code="module",
            fixes=["define signature(self) -> Signature(takes={...}, gives={...}) in the class"],
        )

    def signature_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for the types of one call; override it where they depend on what is connected.

        Few modules need this, such as a transposition, whose output has the element of whatever comes in.
        """
        return signature_of(self)

    def __call__(self, /, *values: Value, **ports: Value | Sequence[Value] | None) -> Record:
        """Connect values to the ports by name, check them at once, and return the outputs by name.

        Raises `PortError` if a value does not fit, a required port is left out or a name is unknown. `None`
        leaves an optional port unconnected.
        """
        from neumo.graph.compose import compose

        return compose(self, ports, positional=values)

    def named(self, name: str) -> Self:
        """Give this object the stable name under which graphs, recipes and checkpoints know it.

        Raises `GraphError` if the name is not a Python name, or if the object already has another one.
        """
        if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GraphError(
                f"{name!r} cannot name a module",
                code="name",
                fixes=["use letters, digits and underscores, such as 'encoder', but no word of Python"],
            )
        if name_of(self) not in (None, name):
            raise GraphError(
                f"this {type(self).__name__} is named {name_of(self)!r}; {name!r} would rename its weights",
                code="name",
                fixes=["name a module once", "make a second object for a second set of weights"],
            )
        self.__dict__["_name"] = name
        return self

    if not TYPE_CHECKING:  # pragma: no branch (an unknown attribute is a mistake for type checkers as well)

        def __getattr__(self, name: str) -> NoReturn:
            if not name.startswith("_") and "_asked" not in self.__dict__:
                from neumo.graph.misuse import uncalled_error

                self.__dict__["_asked"] = True  # the ports are asked for: they may need what is not there
                try:
                    error = uncalled_error(self, name)
                finally:
                    del self.__dict__["_asked"]
                if error is not None:
                    raise error
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )

    def __setattr__(self, name: str, value: object) -> None:
        if "_connected" in self.__dict__ and name in getattr(type(self), "__dataclass_fields__", ()):
            raise GraphError(
                f"{label_of(self)}.{name} cannot become {value!r}: {label_of(self)} is part of a graph",
                code="immutable",
                why="The types of that graph were worked out from the settings as they are.",
                fixes=[f"make another one: {type(self).__name__}({name}={value!r}, ...)"],
            )
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle the fields and the name; what was worked out from them is worked out again."""
        return {key: value for key, value in self.__dict__.items() if key not in ("_signature", "_connected")}

    def __repr__(self) -> str:
        shown = {key: value for key, value in module_fields(self).items() if not is_default(self, key, value)}
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in shown.items())})"


class DataLayer(NeuralModule):
    """Specifies where data comes from: it takes nothing, and what it gives has sizes of its own."""

    role: ClassVar[Role] = "data"
    # Ports with what is to be predicted; None: those that a loss takes as they are.
    targets: ClassVar[tuple[str, ...] | None] = None

    def open(self, seed: int) -> DataSource:
        """Open the data that an action reads; `seed` decides the order of the batches."""
        raise GraphError(
            f"{type(self).__name__} does not say how its data is read (asked with seed {seed})",
            code="module",
            fixes=["define open(self, seed: int) -> DataSource in the class"],
        )


class Metric(NeuralModule):
    """Specifies a figure that is gathered over many batches, such as the word error rate of a corpus."""

    role: ClassVar[Role] = "metric"

    def start(self) -> Accumulator:
        """Start counting from nothing."""
        raise GraphError(
            f"{type(self).__name__} does not say how it counts",
            code="module",
            fixes=["define start(self) -> Accumulator in the class"],
        )


def name_of(module: NeuralModule) -> str | None:
    """Give the stable name that `named` gave to a module, or None."""
    return module.__dict__.get("_name")


def label_of(module: NeuralModule) -> str:
    """Give what messages and drawings call a module: its name, or else its class."""
    return module.__dict__.get("_name") or type(module).__name__


def module_fields(module: NeuralModule) -> dict[str, Any]:
    """Give the settings of a module by field name, in the order of its class.

    >>> from neumo.graph.adapters import Resample
    >>> module_fields(Resample(source=22050, target=16000))
    {'source': 22050, 'target': 16000}
    """
    if not dataclasses.is_dataclass(module):
        return {}
    return {field.name: getattr(module, field.name) for field in dataclasses.fields(module) if field.init}


def signature_of(module: NeuralModule) -> Signature:
    """Give the signature of a module, asked for once per object where its fields cannot change."""
    cached = module.__dict__.get("_signature")
    if cached is not None:
        return cached
    signature = checked_signature(module, "signature()", module.signature())
    if "_learned" in module.__dict__:
        from neumo.graph.learned import with_learned

        signature = with_learned(module, signature)
    if _is_frozen(module):
        module.__dict__["_signature"] = signature
    return signature


def checked_signature(module: NeuralModule, method: str, returned: object) -> Signature:
    """Give back what a method of a user's class returned as a signature, or raise `GraphError`."""
    if isinstance(returned, Signature):
        return returned
    raise GraphError(
        f"{method} of {type(module).__name__} returned {type(returned).__name__}, not a Signature",
        code="module",
        fixes=["return Signature(takes={...}, gives={...})"],
    )


def _is_frozen(module: NeuralModule) -> bool:
    parameters = getattr(module, "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def is_default(owner: object, name: str, value: object) -> bool:
    """Say whether a field of a dataclass has the value that it has when nothing is said.

    >>> from neumo.graph.adapters import Subsample
    >>> is_default(Subsample(by=3), "rounding", "ceil"), is_default(Subsample(by=3), "by", 3)
    (True, False)
    """
    field: dataclasses.Field[Any] = getattr(type(owner), "__dataclass_fields__")[name]  # noqa: B009
    default: object = field.default
    if field.default_factory is not dataclasses.MISSING:
        default = field.default_factory()
    return type(default) is type(value) and bool(default == value)


def _refuse_values(cls: type[NeuralModule], args: tuple[Any, ...], settings: Mapping[str, Any]) -> NoReturn:
    """Refuse a module that is made of values: they go into its call."""
    from neumo.graph.source import CallSite, caller

    frame = caller()
    ports = [*(["..."] if args else []), *(f"{name}=..." for name in settings)]
    raise GraphError(
        f"{cls.__name__} is made of settings, and values are connected when it is called",
        code="symbolic",
        where=None if frame is None else CallSite(frame.f_code, frame.f_lasti).place,
        fixes=[f"call an object of it: {cls.__name__}()({', '.join(ports)})"],
    )
