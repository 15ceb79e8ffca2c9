"""In which precision modules, and layers with one of their own, keep their weights and compute."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch import Tensor, nn

from neumo.backends.torch.device import PRECISIONS, Place
from neumo.engine.updates.precision import Override
from neumo.graph.module import label_of
from neumo.types.errors import BackendError, GraphError, did_you_mean

if TYPE_CHECKING:
    from neumo.graph.module import NeuralModule

Function = Callable[..., Any]

_NOTHING: Final[Mapping[str, Any]] = {}
_HALVES: Final = (torch.float16, torch.bfloat16)
_NORMS: Final = (
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    *(kind for kind in [getattr(nn, "RMSNorm", None)] if kind is not None),
)


@dataclass(frozen=True)
class Regime:
    """How a module computes: `compute` is the dtype of its products, `weights` that of its weights."""

    precision: str
    device: str

    @property
    def compute(self) -> torch.dtype:
        """The dtype of products."""
        return PRECISIONS[self.precision]

    @property
    def mixed(self) -> bool:
        """Whether it computes in a half precision, as far as that keeps enough digits."""
        return self.compute in _HALVES

    @property
    def weights(self) -> torch.dtype:
        """The dtype in which weights are kept; normalisation keeps float32 at least."""
        return torch.float32 if self.precision in ("bf16", "fp16") else self.compute

    def autocast(self) -> AbstractContextManager[object]:
        """Enter the precision of products, or leave the one that surrounds it."""
        if self.mixed:
            return torch.autocast(self.device, self.compute)
        return torch.autocast(self.device, enabled=False)

    def entering(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype in which a value of a dtype comes in: nothing inside may clash with it."""
        if not self.mixed or self.precision == "pure-bf16":
            return self.compute
        return dtype if dtype in (torch.float32, self.compute) else torch.float32

    def run(self, function: Function, values: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call a function in this precision."""
        given = [cast_floats(value, self.entering) for value in values]
        words = {name: cast_floats(value, self.entering) for name, value in named.items()}
        with self.autocast():
            return function(*given, **words)

    def leaving(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype in which a value that an inner layer gives goes on in what computes like this."""
        if not self.mixed:
            return self.compute
        return dtype if dtype in (*_HALVES, torch.float32) else torch.float32


def cast_floats(value: Any, wanted: Callable[[torch.dtype], torch.dtype]) -> Any:
    """Cast the floating point tensors in a value, whatever it is made of.

    >>> [part.dtype for part in cast_floats((torch.ones(1), torch.ones(1, dtype=int)), lambda _: torch.half)]
    [torch.float16, torch.int64]
    """
    if isinstance(value, Tensor):
        return value.to(wanted(value.dtype)) if value.is_floating_point() else value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return cast("Any", type(value))(*(cast_floats(part, wanted) for part in cast("Any", value)))
    if isinstance(value, tuple | list):
        kind: Callable[[Iterable[Any]], Any] = tuple if isinstance(value, tuple) else list
        return kind(cast_floats(part, wanted) for part in cast("Any", value))
    if type(cast("Any", value)) is dict:
        return {key: cast_floats(part, wanted) for key, part in value.items()}
    return value


def cannot_compute(label: str, regime: Regime, error: Exception) -> BackendError:
    """Say that a module or layer cannot compute in its precision, and can in fp32."""
    return BackendError(
        f"{label} cannot compute in {regime.precision} on {regime.device}: {error}",
        code="precision",
        details=["it computes the same values in fp32"],
        fixes=[
            f"precisions={{{label!r}: 'fp32'}} computes it in fp32",
            f"in a recipe: factory: {{precisions: {{{label}: fp32}}}}",
        ],
    )


def computes_in_full(
    function: Function,
    module: nn.Module,
    regime: Regime,
    values: Sequence[Any],
    named: Mapping[str, Any] = _NOTHING,
) -> bool:
    """Try a call that failed in a half precision once more in float32."""
    before = [(weight, weight.data) for weight in module.parameters()]
    full = Regime("fp32", regime.device)
    try:
        for weight, data in before:
            weight.data = data.float() if data.dtype in _HALVES else data
        with torch.no_grad():
            full.run(function, values, named)
    except Exception:  # whatever it is: then the precision is not to blame
        return False
    else:
        return True
    finally:
        for weight, data in before:
            weight.data = data


@dataclass
class _Layer:
    """A layer with a precision of its own, and whether it has been called."""

    label: str
    regime: Regime
    called: bool = False


@dataclass
class Precisions:
    """The precision of each module that a session has built, and of layers inside modules."""

    place: Place
    overrides: Sequence[Override] = ()
    _whole: dict[int, Regime] = field(default_factory=dict[int, Regime])
    _layers: dict[int, dict[int, _Layer]] = field(default_factory=dict[int, dict[int, _Layer]])
    _done: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    _met: set[int] = field(default_factory=set[int])

    def settle(self, name: str, spec: NeuralModule, module: nn.Module) -> None:
        """Give a module, and layers in it, the precision that the overrides say for its name in a graph."""
        name = name or label_of(spec)
        if (id(spec), name) in self._done:
            return
        self._done.add((id(spec), name))
        for override in self.overrides:
            if override.is_of(spec, name):
                self._whole[id(spec)] = self._regime(override.precision)
                self._met.add(id(override))
        inner = dict(self._inner(name, spec, module))
        whole = self.of(spec, module)
        if inner or whole.weights != self.place.weights:
            _keep(module, whole, inner)
        for path, layer in module.named_modules():
            if layer in inner:
                outer = _outer(module, path, inner, whole)
                self._wrap(id(module), layer, f"{name}.{path}", inner[layer], outer)

    def of(self, spec: NeuralModule, module: nn.Module) -> Regime:
        """Return how a module computes."""
        return self._whole.get(id(spec)) or self._usual(spec, module)

    def are_uniform(self) -> bool:
        """Say whether no value can come out of one module in a precision that another one does not take."""
        return not self.place.mixed and not self.overrides

    def check(self, names: Iterable[str]) -> None:
        """Raise `GraphError` for a pattern of layers that means none, in the modules of these names."""
        for override in self.overrides:
            head = str(override.key).partition(".")[0]
            if isinstance(override.key, str) and "." in override.key and id(override) not in self._met:
                fits = [name for name in names if fnmatchcase(name, head)]
                if fits:
                    raise _no_layer(override.key, " and ".join(fits), [])

    def say_unused(self, module: nn.Module) -> None:
        """Warn, once, of layers that a run did not call: what reads their weights takes no notice of them."""
        for layer in self._layers.get(id(module), {}).values():
            if not layer.called:
                layer.called = True
                text = "precisions: %s is not called by itself, so it does not compute in %s"
                logging.getLogger("neumo").warning(text, layer.label, layer.regime.precision)

    def _wrap(self, module: int, layer: nn.Module, label: str, regime: Regime, outer: Regime) -> None:
        layers = self._layers.setdefault(module, {})
        if id(layer) in layers:  # under another name of the module
            layers[id(layer)].regime = regime
            return
        layers[id(layer)] = _Layer(label, regime)
        _wrap(layer, layers[id(layer)], outer)

    def _regime(self, precision: str) -> Regime:
        return Regime(precision, self.place.device.type)

    def _usual(self, spec: NeuralModule, module: nn.Module) -> Regime:
        """Losses, and what has no weights, compute in full precision."""
        trainable = spec.role != "loss" and next(module.parameters(), None) is not None
        full = "fp64" if self.place.precision == "fp64" else "fp32"
        return self._regime(self.place.precision if trainable else full)

    def _inner(self, name: str, spec: NeuralModule, module: nn.Module) -> Iterator[tuple[nn.Module, Regime]]:
        paths = {path: layer for path, layer in module.named_modules() if path}
        for override in self.overrides:
            key = override.key
            if not isinstance(key, str) or "." not in key or override.is_of(spec, name):
                continue
            head = key.partition(".")[0]
            hits = [path for path in paths if fnmatchcase(f"{name}.{path}", key)]
            if not hits and head == name:
                raise _no_layer(key, name, list(paths))
            outermost = [path for path in hits if not any(path.startswith(f"{hit}.") for hit in hits)]
            for path in outermost:
                self._met.add(id(override))
                yield paths[path], self._regime(override.precision)


def _no_layer(pattern: str, module: str, paths: Sequence[str]) -> GraphError:
    names = [f"{module}.{path}" for path in paths]
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return GraphError(
        f"precisions: {module} has no layer {pattern!r}",
        code="precision",
        details=[f"its layers are {', '.join(names[:6])}{more}"] if names else [],
        fixes=did_you_mean(pattern, names),
    )


def _outer(module: nn.Module, path: str, inner: Mapping[nn.Module, Regime], whole: Regime) -> Regime:
    """The precision of what surrounds a layer."""
    regime, at, parts = whole, module, path.split(".")
    for part in parts[:-1]:
        at = at.get_submodule(part)
        regime = inner.get(at, regime)
    return regime


def _keep(module: nn.Module, regime: Regime, inner: Mapping[nn.Module, Regime]) -> None:
    """Keep weights in the dtype of their precision. Statistics, constants and all of a normalisation have
    float32 at least: a running mean in bf16 would stop moving, since its steps are below its last digit.
    """
    regime = inner.get(module, regime)
    whole = regime.weights if regime.weights not in _HALVES else torch.float32
    for buffer_name, buffer in module.named_buffers(recurse=False):
        if buffer.is_floating_point():
            setattr(module, buffer_name, buffer.to(whole))
    dtype = whole if isinstance(module, _NORMS) else regime.weights
    for weight in module.parameters(recurse=False):
        if weight.is_floating_point() and weight.dtype != dtype:
            weight.data = weight.data.to(dtype)
    if isinstance(module, nn.RNNBase):
        module.flatten_parameters()
    for child in module.children():
        _keep(child, regime, inner)


def _wrap(layer: nn.Module, known: _Layer, outer: Regime) -> None:
    """Let a layer compute in a precision of its own, inside a module that computes in another one."""
    own: Function | None = layer.__dict__.get("forward")

    def forward(self: nn.Module, *values: Any, **named: Any) -> Any:
        function, given = (type(self).forward, (self, *values)) if own is None else (own, values)
        try:
            made = known.regime.run(function, given, named)
        except Exception as error:
            if known.regime.mixed and computes_in_full(function, self, known.regime, given, named):
                raise cannot_compute(known.label, known.regime, error) from error
            raise
        return cast_floats(made, outer.leaving)

    def note(_layer: nn.Module, _values: Any) -> None:
        known.called = True

    layer.forward = MethodType(forward, layer)
    layer.register_forward_pre_hook(note)  # it also keeps the fused path of nn.TransformerEncoder away
