"""How a torch module is called: which port goes to which parameter of `forward`, and what it returned."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor, nn

from neumo.graph.module import signature_of
from neumo.types.errors import BackendError, did_you_mean

if TYPE_CHECKING:
    from neumo.graph.module import NeuralModule

_VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD
_VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
_EMPTY = inspect.Parameter.empty


@dataclass(frozen=True)
class Outputs:
    """Finds the outputs of a wrapped module in whatever its `forward` returned, in the order of `names`.

    >>> import torch
    >>> one, two = torch.zeros(1), torch.ones(1)
    >>> Outputs("LSTM", ("out", "state", None))((one, (two, two)))
    (tensor([0.]), tensor([1.]))
    >>> Outputs("Bert", ("logits",))({"loss": one, "logits": two})
    tensor([1.])

    A mapping, a named tuple or an object is read by name, a tuple or list by position, with tuples in it laid
    flat; None in the place of a name leaves an output of a tuple out. Raises `BackendError` where the number
    is another, or a name is missing.
    """

    owner: str
    names: tuple[str | None, ...]
    whole: bool = False  # the one output is a mapping or a list itself

    def __call__(self, given: Any) -> Any:
        """Return the one output, or a tuple of them."""
        if self.whole:
            return given
        found = self._find(given)
        return found[0] if len(found) == 1 else found

    def _find(self, given: Any) -> tuple[Any, ...]:
        if isinstance(given, Tensor):
            if len(self.names) != 1:
                raise self._wrong_number((given,))
            return (given,)
        wanted = [name for name in self.names if name is not None]
        if isinstance(given, Mapping):
            return tuple(self._named(given, name) for name in wanted)
        if isinstance(given, tuple | list):
            fields: Collection[str] = getattr(given, "_fields", ())
            if fields and all(name in fields for name in wanted):
                return tuple(getattr(given, name) for name in wanted)
            flat = tuple(_flat(given))
            if len(flat) != len(self.names):
                raise self._wrong_number(flat)
            return tuple(value for name, value in zip(self.names, flat, strict=True) if name is not None)
        return self._attributes(given, wanted)

    def _named(self, given: Mapping[str, Any], name: str) -> Any:
        if name not in given:
            raise self._missing(name, list(given))
        return given[name]

    def _attributes(self, given: Any, wanted: Sequence[str]) -> tuple[Any, ...]:
        held = list(vars(given)) if hasattr(given, "__dict__") else []
        for name in wanted:
            if not hasattr(given, name):
                raise self._missing(name, held) if held else self._wrong_number((given,))
        return tuple(getattr(given, name) for name in wanted)

    def _missing(self, name: str, held: Sequence[str]) -> BackendError:
        return BackendError(
            f"forward of {self.owner} returned nothing called {name!r}",
            code="outputs",
            details=[f"it returned {', '.join(map(str, held)) or 'nothing'}"],
            fixes=[*did_you_mean(name, held), "name the ports of gives as what forward returns"],
        )

    def _wrong_number(self, given: tuple[Any, ...]) -> BackendError:
        names = [name if name is not None else "None" for name in self.names]
        return BackendError(
            f"forward of {self.owner} returned {_count(len(given))}, and gives names {len(names)}",
            code="outputs",
            details=[
                f"it returned {', '.join(map(_described, given))}",
                f"gives names {', '.join(names)}",
            ],
            fixes=["name each of them in order in gives; None leaves one out: gives={'out': ..., 'h': None}"],
        )


@dataclass(frozen=True)
class Convention:
    """How to call one step: `order` lists the ports in the order of the arguments; `named` passes them by
    keyword; `read`, if any, finds the outputs in what came back.
    """

    order: tuple[str, ...]
    named: bool = False
    read: Outputs | None = None


def convention(spec: NeuralModule, module: nn.Module, connected: Collection[str]) -> Convention:
    """Find out how to call the torch module of a specification; raises `BackendError` if it cannot be.

    `connected` are the ports that have a value in this call. A specification that wraps a module of its own
    brings the rule along as `torch_convention(connected)`.
    """
    own = getattr(spec, "torch_convention", None)
    if own is not None:
        found: Convention = own(connected)
        return found
    takes = list(signature_of(spec).takes)
    parameters = inspect.signature(module.forward).parameters
    _check_ports(spec, module, takes, parameters)
    kinds = {parameter.kind for parameter in parameters.values()}
    if _VAR_KEYWORD in kinds or _KEYWORD_ONLY in kinds:
        return Convention(tuple(takes), named=True)
    order = [name for name in parameters if name in takes]
    return Convention(tuple(order), named=order != list(parameters)[: len(order)])


def wrapped_convention(
    module: nn.Module, takes: Mapping[str, Any], connected: Collection[str], read: Outputs
) -> Convention:
    """Fit ports to the `forward` of a module that was written without them: by name if it has their names,
    else in the order of `takes`.
    """
    parameters = inspect.signature(module.forward).parameters
    named = [name for name, parameter in parameters.items() if parameter.kind not in _UNNAMED]
    takes_any = any(parameter.kind is _VAR_KEYWORD for parameter in parameters.values())
    if any(port in named for port in takes) or (takes_any and not _positional(parameters)):
        _check_names(module, takes, parameters, named, takes_any)
        return Convention(tuple(port for port in takes if port in connected), named=True, read=read)
    order = list(takes)
    while order and order[-1] not in connected:
        order.pop()  # what `forward` has a default for is left to it
    _check_places(module, order, takes, parameters)
    return Convention(tuple(order), read=read)


_UNNAMED = (_VAR_KEYWORD, _VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)


def _positional(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, parameter in parameters.items() if parameter.kind in kinds]


def _check_names(
    module: nn.Module,
    takes: Mapping[str, Any],
    parameters: Mapping[str, inspect.Parameter],
    named: Sequence[str],
    takes_any: bool,
) -> None:
    unread = [] if takes_any else [port for port in takes if port not in named]
    needed = [name for name in named if name not in takes and parameters[name].default is _EMPTY]
    if unread or needed:
        words = [f"it has no parameter {port!r}" for port in unread]
        words += [f"it needs {name!r}, which takes does not name" for name in needed]
        fixes = [fix for port in unread for fix in did_you_mean(port, named)]
        raise _misfit(module, words, parameters, fixes)


def _check_places(
    module: nn.Module, order: Sequence[str], takes: Mapping[str, Any], parameters: Mapping[str, Any]
) -> None:
    places = _positional(parameters)
    endless = any(parameter.kind is _VAR_POSITIONAL for parameter in parameters.values())
    needed = [name for name in places if parameters[name].default is _EMPTY]
    needed_by_name = [
        name
        for name, parameter in parameters.items()
        if parameter.kind is _KEYWORD_ONLY and parameter.default is _EMPTY
    ]
    words = [
        f"it needs {name!r}, which takes does not name" for name in needed[len(order) :] + needed_by_name
    ]
    if len(takes) > len(places) and not endless:
        extra = ", ".join(list(takes)[len(places) :])
        words.append(f"it takes {_count(len(places))}, and takes has {len(takes)}: {extra} is too many")
    if words:
        raise _misfit(module, words, parameters, [])


def _misfit(
    module: nn.Module,
    words: Sequence[str],
    parameters: Mapping[str, inspect.Parameter],
    fixes: Sequence[Any],
) -> BackendError:
    written = ", ".join(str(each.replace(annotation=_EMPTY)) for each in parameters.values())
    return BackendError(
        f"forward of {type(module).__name__} does not fit takes: {words[0]}",
        code="forward",
        details=[*words[1:], f"forward({written})"],
        fixes=[*fixes, "name the ports of takes as the parameters of forward, or give them all in its order"],
    )


def _check_ports(
    spec: NeuralModule, module: nn.Module, takes: list[str], parameters: Mapping[str, inspect.Parameter]
) -> None:
    named = {
        name
        for name, parameter in parameters.items()
        if parameter.kind not in (_VAR_KEYWORD, _VAR_POSITIONAL)
    }
    takes_any = any(parameter.kind is _VAR_KEYWORD for parameter in parameters.values())
    unread = [] if takes_any else [port for port in takes if port not in named]
    unknown = [n for n in named if n not in takes and parameters[n].default is _EMPTY]
    if unread or unknown:
        words = [f"port {port!r} has no parameter" for port in unread]
        words += [f"parameter {name!r} has no port" for name in unknown]
        raise BackendError(
            f"{type(module).__name__}.forward does not fit {type(spec).__name__}: {words[0]}",
            code="forward",
            details=words[1:],
            fixes=[fix for name in unread for fix in did_you_mean(name, named)]
            or ["name the parameters of forward as the ports of takes"],
        )


def wrong_outputs(name: str, given: Any, wanted: Sequence[str]) -> BackendError:
    """Say that a module did not return what its signature gives."""
    if len(wanted) == 1:
        return _not_alone(name, given, wanted[0])
    kind = f"{len(given)} values" if isinstance(given, tuple | list) else f"a {type(given).__name__}"
    return BackendError(
        f"{name} returned {kind}; its signature gives {len(wanted)}",
        code="outputs",
        details=[f"it gives {', '.join(wanted)}"],
        fixes=["return a tuple in the order of the signature"],
    )


def _not_alone(name: str, given: Any, wanted: str) -> BackendError:
    """Say that the only value of a signature came within something, which would be taken for the value."""
    if isinstance(given, Mapping):
        keys = ", ".join(repr(key) for key in cast("Mapping[object, Any]", given)) or "nothing"
        return BackendError(
            f"{name} returned a {type(given).__name__} with {keys}, not the value itself",
            code="outputs",
            details=[f"its signature gives one value, {wanted}"],
            fixes=[f"return the value: return found[{wanted!r}]"],
        )
    return BackendError(
        f"{name} returned a {type(given).__name__} of {_count(len(given))}, not the value itself",
        code="outputs",
        details=[f"its signature gives one value, {wanted}"],
        fixes=[f"return {wanted}, not ({wanted},)" if len(given) == 1 else "name all of them in gives"],
    )


def _flat(given: Any) -> Iterator[Any]:
    for value in given:
        if isinstance(value, tuple):
            yield from _flat(value)
        else:
            yield value


def _count(number: int) -> str:
    return "1 value" if number == 1 else f"{number} values"


def _described(value: Any) -> str:
    return (
        "x".join(map(str, value.shape)) or "a number" if isinstance(value, Tensor) else type(value).__name__
    )
