"""Any `nn.Module` as a neural module: one that exists already, or one that is written as a single class."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

from torch import nn

from neumo.backends.torch.call import Convention, Outputs, wrapped_convention
from neumo.backends.torch.registry import check_registered
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import GraphError, Loss, NeuralType, Struct, parse

__all__ = ["TorchModule", "Wrapped", "wrap"]


def wrap(
    module: nn.Module,
    *,
    takes: Mapping[str, NeuralType | str],
    gives: Mapping[str, NeuralType | str | None],
    name: str | None = None,
    trainable: bool | None = None,
) -> Wrapped:
    """Give an `nn.Module` typed ports, so that it composes like any other neural module.

    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Acoustic, B, F, T
    >>> frames = Acoustic()[B, T, F(8)]
    >>> lstm = nn.LSTM(8, 8, batch_first=True)
    >>> encoder = wrap(lstm, takes={"frames": frames}, gives={"out": frames, "h": None, "c": None})
    >>> encoder(frames=inputs(frames=frames).frames).out
    LSTM.out: Acoustic[B, T, F=8]

    The weights are those of `module`: not copied and not drawn anew, whatever the seed of a factory, which
    moves them to its device. Ports go to the parameters of `forward` that are called so; if none is, in the
    order of `takes`. What `forward` returns is read by name from a dict, a named tuple or an object, and by
    position from a tuple, where None in `gives` leaves a value out. `trainable=False` freezes it, as
    `factory.freeze` does; without a word it is trainable if any of its weights wants a gradient. One that
    gives a loss is a loss.

    A type may be written as text: `"Acoustic[B, T, F=8]"`. Raises `GraphError` if `module` is none or `gives`
    names nothing, `BackendError` if `forward` does not fit the ports.
    """
    if not isinstance(cast(Any, module), nn.Module):
        _refuse_module(module)
    for side, ports in {"takes": takes, "gives": gives}.items():
        if not isinstance(cast(Any, ports), Mapping):
            Signature(**{side: cast(Any, ports)})  # refuses it, in the words of all signatures
    taken = {port: _type(kind) for port, kind in takes.items()}
    given = {port: None if kind is None else _type(kind) for port, kind in gives.items()}
    Signature(
        taken, {port: kind for port, kind in given.items() if kind is not None}
    )  # all of them are types
    if not any(kind is not None for kind in given.values()):
        _refuse_nothing(module, given)
    starts_frozen = trainable is False
    if trainable is None:
        trainable = any(weight.requires_grad for weight in module.parameters())
    wrapped = _class_called(type(module).__name__)(module, taken, given, trainable)
    wrapped.torch_convention(wrapped.signature().takes)  # says now, not in the first step, what does not fit
    wrapped.starts_frozen = starts_frozen
    return wrapped.named(name) if name is not None else wrapped


class Wrapped(NeuralModule):
    """Is an `nn.Module` with the ports that `wrap` gave it."""

    not_in_recipes: ClassVar[str] = "it wraps an object that exists in this program only"

    def __init__(
        self,
        module: nn.Module,
        takes: Mapping[str, NeuralType],
        gives: Mapping[str, NeuralType | None],
        trainable: bool,
    ) -> None:
        kept = {port: kind for port, kind in gives.items() if kind is not None}
        names = tuple(port if kind is not None else None for port, kind in gives.items())
        is_loss = any(isinstance(kind.element, Loss) for kind in kept.values())
        self.module = module
        self.ports = Signature(dict(takes), kept)
        whole = len(names) == len(kept) == 1 and all(map(_is_container, kept.values()))
        self.outputs = Outputs(type(module).__name__, names, whole)
        self.starts_frozen = False
        self.__dict__.update(trainable=trainable, role="loss" if is_loss else "module")

    def __init_subclass__(cls, **options: Any) -> None:
        """Keep the class of one object out of the registry."""

    def signature(self) -> Signature:
        """State the ports that it was wrapped with."""
        return self.ports

    def to_torch(self) -> nn.Module:
        """Return the very module that was wrapped."""
        return self.module

    def torch_convention(self, connected: Collection[str]) -> Convention:
        """Say how `forward` is called where these ports are connected."""
        return wrapped_convention(self.module, self.ports.takes, connected, self.outputs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by name, since a class of one object cannot be imported."""
        return _blank_wrapped, (type(self).__name__,), self.__getstate__()

    def __repr__(self) -> str:
        return f"wrap({type(self.module).__name__}, {self.ports})"


def _class_called(name: str) -> type[Wrapped]:
    """A class for each object: it is called as the module is, and no two wrapped modules are ever equal."""
    return type(name, (Wrapped,), {})


def _blank_wrapped(name: str) -> Wrapped:
    kind = _class_called(name)
    return kind.__new__(kind)


class TorchModule(NeuralModule):
    """A neural module in one class: settings, ports, layers, and what they compute.

    >>> import torch
    >>> from dataclasses import dataclass
    >>> from neumo.types import Acoustic, B, F, T
    >>> @dataclass
    ... class Project(TorchModule):
    ...     width: int = 4
    ...     def signature(self) -> Signature:
    ...         takes, gives = Acoustic()[B, T, F(3)], Acoustic()[B, T, F(self.width)]
    ...         return Signature(takes={"x": takes}, gives={"y": gives})
    ...     def setup(self) -> None:
    ...         self.linear = nn.Linear(3, self.width)
    ...     def forward(self, x: torch.Tensor) -> torch.Tensor:
    ...         return self.linear(x)
    >>> Project(width=5).to_torch()(torch.zeros(2, 7, 3)).shape
    torch.Size([2, 7, 5])

    An object of the class is a specification: it composes, it has no weights, and a recipe knows it by the
    name of its class. `setup` and `forward` run in an `nn.Module` that is made of it, where `self` has the
    settings and all methods of the class, and where `self.name = layer` registers a layer. A factory makes
    that module when it needs one; `to_torch()` gives a plain one, for use without neumo.

    A class with `setup` is trainable unless it says `trainable = False`.
    """

    if TYPE_CHECKING:  # what `self` has besides in `setup` and `forward`, for editors
        training: bool
        register_buffer: Callable[..., None]
        register_parameter: Callable[..., None]

    def __init_subclass__(cls, **options: Any) -> None:
        if issubclass(cls, nn.Module):  # the module that is made of a specification is none
            return
        super().__init_subclass__(**options)
        if "setup" in cls.__dict__ and "trainable" not in cls.__dict__:
            cls.trainable = True

    def setup(self) -> None:
        """Make the layers, as attributes of `self`; one without weights needs none."""

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Compute the outputs from tensors by the names of the ports; several are a tuple in their order."""
        raise GraphError(
            f"{type(self).__name__} does not say what it computes",
            code="module",
            fixes=["define forward(self, ...) in the class, with the ports of takes as parameters"],
        )

    def to_torch(self) -> nn.Module:
        """Make the plain `nn.Module` of these settings, with fresh weights of its own."""
        return _layers_class(type(self))(self)


class _Layers(nn.Module):
    """Gives a class made of a `TorchModule` its construction; the rest comes from `nn.Module` and from it."""

    def __init__(self, spec: TorchModule) -> None:
        super().__init__()
        settings = {name: value for name, value in vars(spec).items() if not name.startswith("_")}
        early = [name for name, value in settings.items() if isinstance(value, nn.Module | nn.Parameter)]
        if early:
            raise GraphError(
                f"{type(spec).__name__}.{early[0]} is a layer, and a specification has none",
                code="module",
                why="Each factory makes layers of its own from the settings.",
                fixes=[
                    f"make it in setup(self): self.{early[0]} = ...",
                    "wrap(layer, ...) takes one that exists",
                ],
            )
        taken = [name for name in settings if hasattr(nn.Module, name) or name in vars(self)]
        if taken:
            raise GraphError(
                f"a setting of {type(spec).__name__} cannot be called {taken[0]!r}: torch uses that name",
                code="module",
                fixes=[f"rename it, such as {taken[0]}_"],
            )
        self.__dict__.update(settings)
        cast(Any, self).setup()
        check_registered(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle by the class of the specification, of which this one is made anew."""
        return _blank, (type(self).__bases__[1],), self.__dict__

    def extra_repr(self) -> str:
        """Show the settings."""
        spec: Any = type(self).__bases__[1]
        names = [each.name for each in fields(spec)] if is_dataclass(spec) else []
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


_made: dict[type[TorchModule], type[nn.Module]] = {}


def _layers_class(cls: type[TorchModule]) -> type[Any]:
    """The class whose objects are torch modules and have the methods of a specification class."""
    if cls not in _made:
        # By identity, as all torch modules: the equality by fields of a dataclass would merge equal layers.
        held: dict[str, Any] = {"__eq__": object.__eq__, "__hash__": object.__hash__}
        held |= {"__module__": cls.__module__, "__doc__": cls.__doc__}
        _made[cls] = type(cls.__name__, (_Layers, cls), held | _overridden(cls))
    return _made[cls]


def _blank(cls: type[TorchModule]) -> nn.Module:
    made: Any = _layers_class(cls)
    return made.__new__(made)


def _overridden(cls: type[TorchModule]) -> dict[str, Any]:
    """What the class defines although `nn.Module`, which is asked first, has it too, such as `forward`."""
    bases = cls.__mro__[: cls.__mro__.index(TorchModule) + 1]
    names = {name for base in bases for name in vars(base) if not name.startswith("__")}
    return {name: getattr(cls, name) for name in names if hasattr(nn.Module, name)}


def _is_container(kind: NeuralType) -> bool:
    """Whether a value is a mapping or a list itself, which must not be taken for several outputs."""
    return isinstance(kind.element, Struct) or any(axis.listed for axis in kind.axes)


def _type(kind: NeuralType | str) -> NeuralType:
    return parse(kind) if isinstance(kind, str) else kind


def _refuse_nothing(module: nn.Module, gives: Collection[str]) -> NoReturn:
    raise GraphError(
        f"a wrapped {type(module).__name__} that gives nothing computes nothing that a graph could use",
        code="wrap",
        why=f"None leaves {' and '.join(gives)} out." if gives else (),
        fixes=["name what forward returns: gives={'y': Features()[B, T, F(8)]}"],
    )


def _refuse_module(given: object) -> NoReturn:
    is_class = isinstance(given, type)
    raise GraphError(
        f"wrap takes a torch module, not {'the class ' + given.__name__ if is_class else repr(given)}",
        code="wrap",
        fixes=["make an object of it first: wrap(Model(...), ...)"]
        if is_class
        else ["wrap(nn.Linear(8, 4), takes={...}, gives={...})"],
    )
