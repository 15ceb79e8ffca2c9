"""Which torch code implements which specification."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from torch import nn

from neumo.types.errors import BackendError

Built = TypeVar("Built", bound=type[nn.Module])

_IMPLEMENTATIONS: dict[type, type[nn.Module]] = {}

# Adapters and what `assume` puts in are specified in the graph room, which knows no framework: their code
# stands beside this file.
_ELSEWHERE = {
    "neumo.graph.adapters": "neumo.backends.torch.adapters",
    "neumo.graph": "neumo.backends.torch.adapters",
}


def implements(spec_class: type) -> Callable[[Built], Built]:
    """Marks a plain `nn.Module` as the torch code of a specification.

    The module's `__init__` takes the specification, its `forward` takes tensors by the names of the input
    ports and returns one tensor, or a tuple in the order of the output ports.

    >>> class Doubling:
    ...     '''A specification.'''
    >>> @implements(Doubling)
    ... class DoublingLayer(nn.Module):
    ...     def __init__(self, spec: Doubling) -> None:
    ...         super().__init__()
    ...
    ...     def forward(self, x):
    ...         return 2 * x
    >>> type(build(Doubling())).__name__
    'DoublingLayer'
    """

    def register(module_class: Built) -> Built:
        _IMPLEMENTATIONS[spec_class] = module_class
        return module_class

    return register


def build(spec: Any) -> nn.Module:
    """Makes the torch module of a specification, with fresh weights.

    A `TorchModule` is its own code. Other code is looked for in `<the specification's package>.torch`, then
    beside the package around it (`neumo.asr.modules.ctc` -> `neumo.asr.torch`), and imported on first use.
    Raises `BackendError` where nothing implements the specification.
    """
    if isinstance(spec, nn.Module):
        return spec
    own = getattr(spec, "to_torch", None)
    if own is not None:  # a `TorchModule` makes its layers itself, and a wrapped module is there already
        return own()
    made = implementation(type(spec))(spec)
    check_registered(made)
    return made


def check_registered(module: nn.Module) -> None:
    """Raise `BackendError` for weights that a module holds where torch does not see them: in a plain list.

    They would never be trained, saved or moved to a device. A name with an underscore hides them on purpose.
    """
    known = {id(weight) for weight in module.parameters()}
    for path, layer in module.named_modules():
        for name, value in vars(layer).items():
            if name.startswith("_") or not isinstance(value, list | tuple | dict):
                continue
            parts: list[Any] = list(cast("Any", value.values() if isinstance(value, dict) else value))
            if any(id(weight) not in known for part in parts for weight in _weights_of(part)):
                raise _unregistered(module, f"{path}.{name}".lstrip("."), value, parts)


def _weights_of(part: Any) -> Iterable[nn.Parameter]:
    if isinstance(part, nn.Parameter):
        return (part,)
    return part.parameters() if isinstance(part, nn.Module) else ()


def _unregistered(module: nn.Module, name: str, held: Any, parts: list[Any]) -> BackendError:
    kind = "Module" if any(isinstance(part, nn.Module) for part in parts) else "Parameter"
    proper = f"nn.{kind}{'Dict' if isinstance(held, dict) else 'List'}"
    return BackendError(
        f"{type(module).__name__} holds weights in {name}, a plain {type(held).__name__}",
        code="layers",
        why="Torch does not look into it, so these weights would never be trained, saved or moved.",
        fixes=[f"self.{name.rpartition('.')[2]} = {proper}(...)"],
    )


def implementation(spec_class: type) -> type[nn.Module]:
    """The torch class of a specification's class, or of the nearest class it derives from."""
    found = _known(spec_class)
    rooms = _rooms(spec_class)
    for room in rooms:
        if found is None and "." in room:
            _import(room)
            found = _known(spec_class)
    if found is None:
        raise _missing(spec_class, rooms[0])
    return found


def _known(spec_class: type) -> type[nn.Module] | None:
    for base in spec_class.__mro__:
        if base in _IMPLEMENTATIONS:
            return _IMPLEMENTATIONS[base]
    return None


def _rooms(spec_class: type) -> list[str]:
    """Where the torch code of a specification may be: beside it, or beside a package around it."""
    parts = spec_class.__module__.split(".")[:-1]
    packages = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
    near = packages[0] if packages else ""
    if near in _ELSEWHERE:
        return [_ELSEWHERE[near]]
    return [f"{package}.torch" for package in packages] or ["torch code"]


def _import(room: str) -> None:
    """Imports a room if there is one; an error inside an existing room is the user's to see."""
    try:
        importlib.import_module(room)
    except ModuleNotFoundError as error:
        if error.name is None or not (room == error.name or room.startswith(error.name + ".")):
            raise


def _missing(spec_class: type, room: str) -> BackendError:
    name = spec_class.__name__
    where = f"no @implements({name}) in {room}"
    if "." not in room:
        where = f"{spec_class.__module__} is not in a package"
    return BackendError(
        f"{name} has no torch implementation: {where}",
        code="no-implementation",
        fixes=(
            f"import the package that holds @implements({name}) before the action",
            f"write one: @implements({name}) on an nn.Module whose __init__ takes the {name}",
        ),
    )
