"""Graphs: what is asked for, and every call that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from neumo.graph.fixed import Fixed, UnknownName, unchangeable
from neumo.graph.inputs import GraphInputs, used_inputs
from neumo.graph.modes import Mode as Mode
from neumo.graph.modes import check_mode, check_nesting
from neumo.graph.module import NeuralModule, label_of
from neumo.graph.names import name_modules, name_nestings, name_outputs
from neumo.graph.order import cycle_error as cycle_error
from neumo.graph.order import find_cycle as find_cycle
from neumo.graph.order import order_steps as order_steps
from neumo.graph.outputs import Outputs, read_outputs
from neumo.graph.same import same_settings as same_settings
from neumo.graph.same import same_structure
from neumo.graph.silence import check_silence
from neumo.graph.symbols import SymbolOrigin as SymbolOrigin
from neumo.graph.symbols import find_symbols
from neumo.graph.train_only import check_modes
from neumo.graph.value import Record, Step, Value
from neumo.types import GraphError, Loss, NeuralType, Obligation, Reason, Size, Symbol

if TYPE_CHECKING:
    from neumo.backends.torch.graph_module import TorchGraph
    from neumo.engine.factory import NeuralFactory
    from neumo.graph.rules import Finding
    from neumo.graph.summary import Counting, Summary


@dataclass(frozen=True, slots=True)
class Assumption:
    """Is what composing took on trust, to be checked when the graph runs: `rate = 16000` of a port."""

    port: str
    obligation: Obligation
    step: Step
    value: Value

    def __iter__(self) -> Iterator[Any]:
        """Unpack as (port, obligation)."""
        return iter((self.port, self.obligation))

    @property
    def reason(self) -> str:
        """Why it holds, where somebody claimed it with `assume`; else nothing."""
        return getattr(self.step.module, "reason", "") if self.obligation.facet == "type" else ""

    @property
    def place(self) -> str:
        """Where the call was written: file and line."""
        return str(self.step.place() or "")

    def __str__(self) -> str:
        claimed = f" ({self.reason}; {self.place})" if self.reason else ""
        return f"{self.port}: {self.obligation}{claimed}"


class Graph:
    """Holds named outputs and, found by walking back from them, the steps that produce them.

    >>> from neumo.graph.adapters import Resample
    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Audio, B, T
    >>> spoken = inputs(audio=Audio(rate=8000)[B, T])
    >>> wide = Resample(8000, 16000)(audio=spoken.audio)
    >>> Graph("widen", outputs={"audio": wide.audio})
    Graph 'widen' (both): 2 steps from audio
      audio: Audio(rate=16000)[B, 2*T]

    `outputs` maps names to values; a value, a record or a list of them names its outputs by their ports,
    and by module and port where those collide. `mode` says what the graph is for: "train", "infer" or "both".
    Steps that no output needs are not part of the graph. `silence` maps rules to the reasons why this graph
    need not keep them.

    A graph is a value: it cannot be changed, it can be called inside another graph, and two graphs of equal
    modules and wiring are equal. `graph["encoder"]` is a module by its name, `len(graph)` counts the modules.

    Raises `GraphError` for outputs that are not values, for two modules of one name, for a nested graph or a
    port of a mode that does not go with this one, and for a cycle (which only hand-made steps can have).
    """

    name: str
    mode: Mode
    outputs: Fixed[Value]
    inputs: Fixed[Value]
    modules: Fixed[NeuralModule]
    steps: tuple[Step, ...]
    silence: Fixed[str]

    def __init__(
        self,
        name: str = "graph",
        mode: Mode = "both",
        outputs: Outputs | None = None,
        *,
        silence: Mapping[str, str] | None = None,
        names: Mapping[str, NeuralModule] | None = None,
    ) -> None:
        check_mode(mode)
        chosen = read_outputs(outputs)
        steps = order_steps(each.value.step for each in chosen)
        check_nesting(name, mode, steps)
        modules = name_modules(steps, names or {})
        named = name_outputs(chosen, {id(module): key for key, module in modules.items()})
        owner = f"graph {name!r}"
        self.__dict__.update(
            name=name,
            mode=mode,
            outputs=Fixed(named, "output", owner),
            steps=tuple(steps),
            modules=Fixed(modules, "module", owner, "unknown-module"),
            inputs=Fixed(used_inputs(steps, named), "input", owner),
            silence=Fixed(check_silence(silence), "silenced rule", owner, "silence"),
        )
        check_modes(self)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise unchangeable(f"{name!r} of graph {self.name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise unchangeable(f"{name!r} of graph {self.name!r}")

    def __repr__(self) -> str:
        rows = [f"  {name}: {value.type}" for name, value in self.outputs.items()]
        takes = f" from {', '.join(self.inputs)}" if self.inputs else ""
        return "\n".join([f"Graph {self.name!r} ({self.mode}): {len(self.steps)} steps{takes}", *rows])

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self.modules)

    def __contains__(self, module: object) -> bool:
        return module in self.modules if isinstance(module, str) else id(module) in self._names

    def __getitem__(self, name: str) -> NeuralModule:
        return self.modules[name]

    def name_of(self, module: NeuralModule) -> str:
        """Give the name of a module in this graph: its own, or else its class, numbered if need be."""
        name = self._names.get(id(module))
        if name is None:
            raise UnknownName(f"{label_of(module)} is not part of graph {self.name!r}", code="unknown-module")
        return name

    @property
    def nested(self) -> dict[str, Graph]:
        """The graphs that were called to make this one, by name: `front`, and `front_2` for a second call."""
        return {name: call.graph for name, call in name_nestings(self.steps).items()}

    @property
    def is_closed(self) -> bool:
        """Whether the graph can run alone: one data layer feeds it, and it has no open inputs."""
        return not self.inputs and sum(step.module.role == "data" for step in self.steps) == 1

    @property
    def is_trainable(self) -> bool:
        """Whether an output is a loss that is computed from a module with weights, and the mode allows it."""
        losses = [value.step for value in self.outputs.values() if isinstance(value.type.element, Loss)]
        return self.mode != "infer" and any(step.module.trainable for step in order_steps(losses))

    def prune(self, *names: str) -> Graph:
        """Keep only some outputs and what they need; modules keep their names."""
        return self._with({name: self.outputs[name] for name in names})

    def rename(self, /, **names: str) -> Graph:
        """Give outputs other names: `graph.rename(log_probs="scores")` is a graph with `scores` in its place.

        Raises `GraphError` if there is no such output, or two would have one name.
        """
        for name in names:
            self.outputs[name]  # or say that there is none
        renamed = {names.get(name, name): value for name, value in self.outputs.items()}
        if len(renamed) < len(self.outputs):
            kept = [names.get(name, name) for name in self.outputs]
            twice = next(name for name in kept if kept.count(name) > 1)
            raise GraphError(
                f"two outputs of graph {self.name!r} would be called {twice!r}",
                code="output",
                details=[f"its outputs are {', '.join(self.outputs)}"],
            )
        return self._with(renamed)

    def _with(self, outputs: Mapping[str, Value]) -> Graph:
        return Graph(self.name, self.mode, outputs, silence=self.silence, names=self.modules)

    def assumptions(self) -> list[Assumption]:
        """List what was taken on trust, port by port, because a type did not say."""
        return [
            Assumption(f"{self._label(step)}.{port}", obligation, step, dict(step.edges())[port])
            for step in self.steps
            for port, obligation in step.assumptions
        ]

    def warnings(self) -> list[tuple[str, Reason]]:
        """List the differences that were let pass, as (port, reason): facets that need not agree."""
        return [
            (f"{self._label(step)}.{port}", reason) for step in self.steps for port, reason in step.warnings
        ]

    def findings(self) -> list[Finding]:
        """List the rules beyond single connections that this graph breaks, such as a loss without weights."""
        from neumo.graph.rules import find

        return find(self)

    @cached_property
    def symbols(self) -> dict[Symbol, SymbolOrigin]:
        """Map each symbol of the graph to where its number is found when the graph runs."""
        return find_symbols(self.steps)

    def size(self, value: Value | str, axis: int) -> Size | None:
        """Give the size of an axis in terms of `symbols`; None where it is only known at run time.

        `value` is a value of the graph or the name of an output; `axis` counts from 0.
        """
        if isinstance(value, str):
            value = self.outputs[value]
        axes = value.type.axes
        if not -len(axes) <= axis < len(axes):
            raise GraphError(f"{value.name} has {len(axes)} axes, so none is number {axis}", code="axis")
        return axes[axis].size

    def values(self) -> list[Value]:
        """List all values of the graph in the order in which they are made."""
        return [value for step in self.steps for value in step.outputs.values()]

    def consumers(self, value: Value) -> list[tuple[Step, str]]:
        """List who takes a value, as (step, port); `value.step` is who makes it.

        Raises `GraphError` for a value that is not part of this graph.
        """
        key = value.key
        if key not in self._consumers:
            raise GraphError(f"{value.name} is no value of graph {self.name!r}", code="output")
        return list(self._consumers[key])

    def fits(self, wanted: str | NeuralType) -> list[Value]:
        """List the values of the graph that could feed a port, or any port of a type, without any assumption.

        `wanted` is a type, or a port of this graph such as "ctc.targets_len" ("ctc[1].targets_len" in the
        second call of a module), which is looked at beside what else is connected there; the likeliest
        values come first.
        """
        from neumo.graph.candidates import candidates_for

        return candidates_for(self, wanted)

    def summary(self, factory: Counting | None = None) -> Summary:
        """Tell the modules with kind, role and ports, and what goes in and comes out; it prints as a table.

        With a factory, the weights of each module are counted as well (and made, if they do not exist yet).
        """
        from neumo.graph.summary import summarise

        return summarise(self, factory)

    def dynamic_axes(self) -> dict[str, dict[int, str]]:
        """Name the axes of inputs and outputs that change from batch to batch, as exporters want them."""
        from neumo.graph.dynamic import dynamic_axes

        return dynamic_axes(self)

    def to_torch(self, seed: int = 0, factory: NeuralFactory | None = None) -> TorchGraph:
        """Make a plain `torch.nn.Module` of the graph, for a training loop of your own or `torch.compile`.

        See `neumo.backends.torch.graph_module.to_torch`. Raises `BackendError` if torch is not installed.
        """
        from neumo.graph.frameworks import load_room

        return load_room("torch", "graph_module").to_torch(self, seed=seed, factory=factory)

    def __call__(self, /, *values: Value, **ports: Value | None) -> Record:
        """Use this graph inside another one: its open inputs become `ports`; its modules are shared."""
        from neumo.graph.nest import nest

        return nest(self, ports, positional=values)

    def __eq__(self, other: object) -> bool:
        """Say whether both have the same modules by fields, the same wiring and the same outputs."""
        if not isinstance(other, Graph):
            return False
        alike = self.mode == other.mode and self.silence == other.silence
        return alike and same_structure(self, other)

    def __hash__(self) -> int:
        return hash((self.mode, len(self.steps), tuple(sorted(self.outputs))))

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle what a graph is; what was worked out from it is worked out again."""
        cached = ("_names", "_consumers", "symbols")
        return {key: value for key, value in self.__dict__.items() if key not in cached}

    def text(self) -> str:
        """Draw the graph as text, one step a line, with the type of each value."""
        from neumo.graph.draw import to_text

        return to_text(self)

    def mermaid(self) -> str:
        """Draw the graph as Mermaid, which GitHub and notebooks show."""
        from neumo.graph.draw import to_mermaid

        return to_mermaid(self)

    def svg(self) -> str:
        """Draw the graph as SVG."""
        from neumo.graph.draw import to_svg

        return to_svg(self)

    def _repr_html_(self) -> str:
        from neumo.graph.draw import to_html

        return to_html(self)

    def save(self, path: str | Path) -> None:
        """Write the graph as a recipe that `Graph.load` reads back equal."""
        from neumo.graph.yaml import save_graph

        save_graph(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Graph:
        """Read a graph from a recipe; its modules get the names that the recipe gives them."""
        from neumo.graph.yaml import load_graph

        return load_graph(path)

    @cached_property
    def _names(self) -> dict[int, str]:
        return {id(module): name for name, module in self.modules.items()}

    @cached_property
    def _consumers(self) -> dict[tuple[int, str], list[tuple[Step, str]]]:
        found: dict[tuple[int, str], list[tuple[Step, str]]] = {
            value.key: [] for step in self.steps for value in step.outputs.values()
        }
        for step in self.steps:
            for port, value in step.edges():
                found[value.key].append((step, port))
        return found

    def _label(self, step: Step) -> str:
        return label_of(step.module) if isinstance(step.module, GraphInputs) else self.name_of(step.module)
