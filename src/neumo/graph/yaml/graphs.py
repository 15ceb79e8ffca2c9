"""Composes a graph from the steps of a recipe, and goes on after a mistake to find the others.

What a mistake leaves unknown is no reason to stop: a step that was refused gives what its module declares,
and what cannot be known fits everywhere, so that every mistake is told and none of its consequences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, Final, cast

from neumo.graph.collect import collect, unknown_value
from neumo.graph.graph import Graph
from neumo.graph.inputs import open_inputs
from neumo.graph.modes import MODES, Mode
from neumo.graph.module import NeuralModule
from neumo.graph.order import cycle_error, find_cycle
from neumo.graph.relax import check_facets, check_reason, relaxing
from neumo.graph.silence import check_silence
from neumo.graph.source import TextSite
from neumo.graph.value import Record, Value, values_of
from neumo.graph.yaml.fields import read_object
from neumo.graph.yaml.read import Node, YamlPlace
from neumo.graph.yaml.scope import Scope, Spoilt, known_names, located
from neumo.graph.yaml.steps import Argument, Call, Reference, parse_reference, parse_step
from neumo.graph.yaml.values import known_vocabs
from neumo.types.errors import ConfigError, NeumoError, did_you_mean
from neumo.types.notation import parse
from neumo.types.type import NeuralType

_KEYS: Final = ("mode", "inputs", "steps", "outputs", "relax", "silence")


@dataclass(frozen=True)
class Relaxation:
    """An entry of `relax:`, such as `{facets: [floor], reason: both lie below the noise}`."""

    facets: tuple[str, ...] | str
    reason: str


class GraphReader:
    """Reads one graph; names stand for records, for single values, or for None where a mistake is noted."""

    def __init__(
        self,
        name: str,
        node: Node,
        modules: Mapping[str, NeuralModule | None],
        graphs: Mapping[str, Graph | None],
        scope: Scope,
    ) -> None:
        self.name = name
        self.node = node
        self.modules = modules
        self.graphs = graphs
        self.scope = scope
        self.values: dict[str, Record | Value | None] = {}
        self.used: set[str] = set()
        self.unknown: set[str] = set()
        self.spoilt = False
        self.notes: list[str] = []

    def read(self) -> Graph | None:
        """Read the graph; None once its mistakes are noted."""
        before = len(self.scope.problems)
        if not self._check_keys():
            return None
        mode, silence = self._mode(), self._read_silence()
        self._read_inputs()
        calls = self._parse_steps()
        with relaxing(self._read_relax()):
            for name, call in calls.items():
                self._run_step(name, call, calls)
        outputs = self._read_outputs(calls)
        if (
            len(self.scope.problems) > before
            or self.spoilt
            or outputs is None
            or None in self.values.values()
        ):
            return None  # an older mistake, in a module for instance, spoils a graph as well
        try:
            graph = Graph(self.name, mode, outputs, silence=silence)
        except NeumoError as error:
            self.scope.note(error, self.node.key)
            return None
        self._note_idle(graph, calls)
        return graph

    def _check_keys(self) -> bool:
        if not self.node.is_map:
            what = f"the graph {self.name} must have steps, and is {self.node.describe()}"
            self.scope.refuse(what, self.node.place, code="recipe-key")
            return False
        for key, child in self.node.data.items():
            if key not in _KEYS:
                known = [f"it may have {', '.join(_KEYS)}"]
                fixes = did_you_mean(key, _KEYS)
                self.scope.refuse(
                    f"a graph has no {key!r}", child.key, code="recipe-key", details=known, fixes=fixes
                )
        if "steps" not in self.node.data:
            what = f"the graph {self.name} has no steps"
            self.scope.refuse(what, self.node.key, code="recipe-key", fixes=["add `steps:`, one call a line"])
            return False
        return True

    def _mode(self) -> Mode:
        node = self.node.data.get("mode")
        if node is None or node.data in MODES:
            return "both" if node is None else node.data
        fixes = did_you_mean(str(node.data), MODES)
        self.scope.refuse(
            f"mode must be both, train or infer, not {node.describe()}", node.place, fixes=fixes
        )
        return "both"

    def _mapping(self, key: str) -> dict[str, Node]:
        node = self.node.data.get(key)
        if node is None or node.data is None:
            return {}
        if not node.is_map:
            what = f"{key} of the graph {self.name} must be a mapping by name, not {node.describe()}"
            self.scope.refuse(what, node.place)
            return {}
        return node.data

    def _read_silence(self) -> dict[str, str]:
        silence: dict[str, str] = {}
        for rule, node in self._mapping("silence").items():
            try:
                silence |= check_silence({rule: node.data})
            except NeumoError as error:
                self.scope.note(error, node.place)
        return silence

    def _read_relax(self) -> dict[str, str]:
        """Read which facets may differ, each with its reason: one entry, or a list of them."""
        node = self.node.data.get("relax")
        relaxed: dict[str, str] = {}
        for entry in [] if node is None else node.items if node.is_list else [node]:
            try:
                read = read_object(Relaxation, entry, self.scope, f"relax of the graph {self.name}")
            except Spoilt:
                continue
            facets = entry.data["facets"]
            try:
                reason = check_reason(read.reason)
                check_facets([part.data for part in facets.items] if facets.is_list else [facets.data])
            except ConfigError as error:
                place = entry.data["reason"].place if not read.reason.strip() else _named_in(error, facets)
                self.scope.note(error, place)
                continue
            relaxed |= dict.fromkeys(read.facets if facets.is_list else [facets.data], reason)
        return relaxed

    def _read_inputs(self) -> None:
        ports: dict[str, NeuralType] = {}
        places: dict[str, YamlPlace] = {}
        for name, node in self._mapping("inputs").items():
            self.values[name] = None
            places[name] = node.place
            if not isinstance(node.data, str):
                what = (
                    f"the input {name} must be a type such as Audio(rate=16000)[B, T], not {node.describe()}"
                )
                self.scope.refuse(what, node.place)
                continue
            try:
                ports[name] = parse(node.data, names=known_vocabs(self.scope))
            except NeumoError as error:
                self.scope.note(error, node.place)
        if not ports:
            return
        where = next(iter(places.values()))
        try:
            record = open_inputs(ports, location=TextSite(where, places))
        except NeumoError as error:
            self.scope.note(error, self.node.data["inputs"].key)
            return
        self.values.update(values_of(record))

    def _parse_steps(self) -> dict[str, Call | None]:
        calls: dict[str, Call | None] = {}
        for name, node in self._mapping("steps").items():
            if name in self.values:
                what = f"{name} is an input of the graph {self.name} and a step as well"
                self.scope.refuse(what, node.key, code="recipe-name", fixes=["give the step another name"])
            if not name.isidentifier() or iskeyword(name):
                fixes = ["use letters, digits and underscores, but no word of Python"]
                self.scope.refuse(f"{name!r} cannot name a step", node.key, code="recipe-name", fixes=fixes)
            try:
                calls[name] = parse_step(node)
            except NeumoError as error:
                self.scope.problems.append(error)
                calls[name] = None
        return calls

    def _run_step(self, name: str, call: Call | None, calls: Mapping[str, Call | None]) -> None:
        """Compose one step; what it gives is None if nothing can be said about it."""
        if call is None:
            self.values[name] = None
            return
        module = self._callee(call)
        inputs = {argument.port: self._argument(argument, name, calls) for argument in call.arguments}
        self.values[name] = None if module is None else self._compose(module, inputs, name, call)

    def _callee(self, call: Call) -> NeuralModule | Graph | None:
        name = call.module
        self.used.add(name)
        if name in self.modules:
            return self.modules[name]
        if name in self.graphs:
            return self.graphs[name]
        self.scope.refuse(
            f"no module is called {name!r}",
            call.place,
            code="recipe-name",
            details=[f"the modules are {known_names(self.modules)}"],
            fixes=did_you_mean(name, [*self.modules, *self.graphs]),
        )
        return None

    def _compose(
        self, module: NeuralModule | Graph, inputs: dict[str, Any], name: str, call: Call
    ) -> Record | None:
        from neumo.graph.compose import compose
        from neumo.graph.nest import nest

        place = self.node.data["steps"].data[name].place
        site = TextSite(place, {argument.port: argument.place for argument in call.arguments})
        errors: list[NeumoError] = []
        try:
            with collect(raises=False) as errors:
                if isinstance(module, Graph):
                    return nest(module, inputs, location=site)
                known = {key: value for key, value in self.values.items() if value is not None}
                return compose(module, inputs, location=site, names=known)
        except NeumoError as error:  # the module itself is wrong: telling it once is enough
            if id(module) not in self.scope.told:
                self.scope.problems.append(located(error, place))
            self.scope.told.add(id(module))
        finally:
            self.scope.problems += errors
        return None

    def _argument(self, argument: Argument, step: str, calls: Mapping[str, Call | None]) -> Any:
        values = [self._value_or_unknown(reference, step, calls) for reference in argument.values]
        return tuple(values) if argument.many else values[0]

    def _value_or_unknown(self, reference: Reference, step: str, calls: Mapping[str, Call | None]) -> Value:
        try:
            return self._value(reference, step, calls)
        except Spoilt:
            self.spoilt = True
            return unknown_value(reference.step, reference.port or reference.step)

    def _value(self, reference: Reference, step: str, calls: Mapping[str, Call | None]) -> Value:
        name = reference.step
        if name not in self.values:
            if name not in self.unknown:  # once is enough
                self._refuse_unknown(reference, step, calls)
            self.unknown.add(name)
            raise Spoilt
        found = self.values[name]
        if found is None:
            raise Spoilt
        if isinstance(found, Value):
            if reference.port is None:
                return found
            what = f"{name} is an input, a single value: it has no {reference.port!r}"
            self.scope.refuse(what, reference.place, code="output", fixes=[f"write {name}"])
            raise Spoilt
        return self._output(found, reference)

    def _output(self, record: Record, reference: Reference) -> Value:
        ports = values_of(record)
        if reference.port is None and len(ports) == 1:
            return next(iter(ports.values()))
        if reference.port in ports:
            return ports[reference.port]
        name = reference.step
        what = (
            f"{name} gives several values: say which"
            if reference.port is None
            else f"{name} gives no {reference.port!r}"
        )
        fixes = (
            [f"write {name}.{port}" for port in list(ports)[:3]]
            if reference.port is None
            else did_you_mean(reference.port, ports)
        )
        details = [f"it gives {', '.join(ports) or 'nothing'}"]
        self.scope.refuse(what, reference.place, code="output", details=details, fixes=fixes)
        raise Spoilt

    def _refuse_unknown(self, reference: Reference, step: str, calls: Mapping[str, Call | None]) -> None:
        name = reference.step
        if name in calls:
            uses = {key: _uses(call) for key, call in calls.items()}
            cycle = find_cycle({step: uses[step], **uses})
            if cycle and step in cycle and name in cycle:
                self.scope.problems.append(cycle_error(cycle, reference.place))
                return
            what = f"the step {step} uses {name}, which comes later"
            self.scope.refuse(what, reference.place, code="recipe-name", fixes=[f"move the step {name} up"])
            return
        details = [f"known here: {known_names(self.values)}"]
        called = [key for key, call in calls.items() if call is not None and call.module == name]
        records = {key: self.values.get(key) for key in called}
        given = [key for key, held in records.items() if isinstance(held, Record) and reference.port in held]
        fixes: list[Any] = [f"write {key}.{reference.port}: {key} is what {name} gives" for key in given]
        fixes += did_you_mean(name, self.values)
        if name in self.modules and not given:
            fixes.append(f"{name} is a module; a step must call it first, such as x: {name}(...)")
        what = f"nothing is called {name!r} here"
        self.scope.refuse(what, reference.place, code="recipe-name", details=details, fixes=fixes)

    def _read_outputs(self, calls: Mapping[str, Call | None]) -> dict[str, Value] | None:
        node = self.node.data.get("outputs")
        if node is None:
            return self._sinks(calls)
        if not node.is_map and not node.is_list:
            self.scope.refuse(
                f"outputs must be a mapping such as {{loss: ctc.loss}}, not {node.describe()}", node.place
            )
            return None
        pairs = node.data.items() if node.is_map else [(None, child) for child in node.data]
        outputs: dict[str, Value] = {}
        for name, child in cast("Any", pairs):
            try:
                reference = parse_reference(child)
                value = self._value(reference, "outputs", {})
                port = reference.port or reference.step
                outputs[name or (port if port not in outputs else f"{reference.step}_{port}")] = value
            except NeumoError as error:
                self.scope.problems.append(error)
            except Spoilt:
                continue
        return outputs

    def _sinks(self, calls: Mapping[str, Call | None]) -> dict[str, Value]:
        """Without `outputs:`, everything is an output that comes out of steps which feed no other step."""
        feeding = {name for call in calls.values() for name in _uses(call)}
        outputs: dict[str, Value] = {}
        for step in calls:
            record = self.values.get(step)
            if step in feeding or not isinstance(record, Record):
                continue
            for port, value in values_of(record).items():
                outputs[port if port not in outputs else f"{step}_{port}"] = value
        return outputs

    def _note_idle(self, graph: Graph, calls: Mapping[str, Call | None]) -> None:
        kept = {id(step) for step in graph.steps}
        for name in calls:
            record = self.values.get(name)
            if isinstance(record, Record) and not any(id(value.step) in kept for value in record):
                self.notes.append(f"graph {self.name}: no output needs the step {name}")
        taken = {id(value) for value in graph.inputs.values()}
        for name in self._mapping("inputs"):
            if id(self.values.get(name)) not in taken:
                self.notes.append(f"graph {self.name}: nothing uses the input {name}")


def _named_in(error: ConfigError, facets: Node) -> YamlPlace:
    """Find the facet that an error is about."""
    return next((part.place for part in facets.items if repr(part.data) in error.what), facets.place)


def _uses(call: Call | None) -> list[str]:
    return [] if call is None else [value.step for argument in call.arguments for value in argument.values]
