"""The factory: builds modules once, and trains, evaluates and runs the graphs that share them."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload
from weakref import WeakValueDictionary

from neumo.engine.backend import Session, Setup, find_backend
from neumo.engine.callbacks import Callback, Checkpoint, Evaluate
from neumo.engine.checkpoints.renaming import Change, Rename, owned, renamed, transformed, unused_names
from neumo.engine.checkpoints.weight_files import LEARNED, learned_in, weights_file
from neumo.engine.checks.arguments import check_kind
from neumo.engine.checks.preflight import data_step, open_source, usage_notes
from neumo.engine.checks.verify import Verify, check_level
from neumo.engine.loop.options import NonFinite, TrainOptions, check_allowances, check_graph
from neumo.engine.loop.phases import Alternate, Phase
from neumo.engine.loop.prepare import train
from neumo.engine.loop.train import TrainResult
from neumo.engine.passes.evaluate import Evaluation, Evaluator, by_name
from neumo.engine.passes.infer import check_mapping, infer
from neumo.engine.passes.infer_cache import InferCache
from neumo.engine.processes.strategies import DDP, FSDP, STRATEGIES, Strategy
from neumo.engine.processes.workers import Workers
from neumo.engine.updates.compile import CompileLike, read_compile
from neumo.engine.updates.optimizers import EMA, LARC, Optimizer
from neumo.engine.updates.precision import (
    LossScale,
    Override,
    Precision,
    Precisions,
    check_overrides,
    read_overrides,
)
from neumo.engine.updates.schedules import ScheduleLike
from neumo.engine.updates.weight_names import check_modules, check_weights, select
from neumo.graph.learned import (
    Learned,
    check_learned,
    learn,
    learned_data,
    learned_of,
    read_learned,
    set_learned,
)
from neumo.graph.module import NeuralModule, label_of
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.graph.graph import Graph
    from neumo.graph.value import Value


class NeuralFactory:
    """Builds the modules of graphs with a backend and runs actions: `train`, `evaluate`, `infer`.

    >>> factory = NeuralFactory(device="cpu", precision="fp32", seed=1, progress=False)
    >>> factory.device
    'cpu'

    A module is built once, by identity: all graphs that use the same object share its weights. What the
    weights start from depends on `seed` and the module's name only. `device` is "auto", "cpu", "cuda" or
    "cuda:1"; `precision` is "fp32", "tf32", "bf16", "fp16" (loss scaling; refused on CPUs unless `allow` has
    "fp16-on-cpu"), "fp64", "pure-bf16" or a level from "O0" to "O3". `precisions` gives modules, and layers
    in them, one of their own: `{"decoder": "fp32", "encoder.blocks.0*": "fp32"}`. `compile` translates
    modules to machine code before they run: True for all, names such as "encoder", or `Compile(...)`.

    `folder` is where a training writes its log and checkpoints; without one it writes nothing. `verify` says
    how closely values are checked at run time (see `neumo.engine.checks.verify`); `workers` is the number of
    processes that read data, or `Workers(...)`. `progress` shows a bar on a terminal and one line per epoch
    elsewhere; True always shows the bar, False nothing. In processes that `torchrun` or `neumo train
    --processes` has started together, actions are divided among them as `strategy` says: `DDP()` if not
    given, or `FSDP()`.

    Raises `BackendError` if the device does not exist or cannot compute in this precision: nothing falls
    back.
    """

    def __init__(
        self,
        *,
        backend: str = "torch",
        device: str = "auto",
        precision: Precision = "fp32",
        precisions: Precisions | None = None,
        seed: int = 0,
        folder: str | Path | None = None,
        verify: Verify = "boundary",
        workers: int | Workers = 0,
        progress: bool | None = None,
        allow: Collection[str] = (),
        strategy: Strategy | None = None,
        compile: CompileLike = None,
    ) -> None:
        check_kind("NeuralFactory", "seed", seed, int, code="seed")
        check_kind("NeuralFactory", "workers", workers, int | Workers, code="workers")
        check_kind("NeuralFactory", "folder", folder, str | Path | None, code="folder")
        check_kind(
            "NeuralFactory",
            "strategy",
            strategy,
            DDP | FSDP | None,
            code="strategy",
            fixes=_strategies(strategy),
        )
        if isinstance(workers, int) and workers < 0:
            raise ConfigError(f"workers={workers} is below 0", code="workers")
        if seed < 0:
            raise ConfigError(f"seed={seed} is below 0", code="seed")
        check_level(verify)
        self.seed = seed
        self.folder = Path(folder) if folder is not None else None
        self.verify: Verify = verify
        self.workers = workers
        self.progress = progress
        self.overrides: Sequence[Override] = read_overrides(precisions or {})
        setup = Setup(
            device=device,
            precision=precision,
            precisions=self.overrides,
            seed=seed,
            allow=check_allowances(allow),
            strategy=strategy,
            compile=read_compile(compile),
        )
        self.session: Session = find_backend(backend).open_session(setup)
        self._met: set[int] = set()  # overrides that mean a module of a graph that was checked
        self._sources: dict[int, tuple[NeuralModule, DataSource]] = {}
        self._checked: WeakValueDictionary[int, Graph] = WeakValueDictionary()
        self._learned: dict[int, tuple[Learned | None, ...]] = {}  # by its modules, when it was checked
        self.cache: InferCache | None = None  # what an inference has kept
        self._lent: dict[int, Graph] = {}  # what loops of one's own may train

    @property
    def device(self) -> str:
        """The device that computes, such as "cpu" or "cuda:0"."""
        return self.session.device

    @property
    def frozen(self) -> list[NeuralModule]:
        """The modules that have weights of which none changes."""
        return [module for module in self.session.built if self.session.is_frozen(module)]

    def describe(self) -> str:
        """Say on what, and how, this factory computes, and which precisions the device has."""
        known = self.session.supported
        has = f"supported: {', '.join(name for name, why in known.items() if not why)}"
        own = [f"{each.label} in {each.precision}" for each in self.overrides]
        return "; ".join([*self.session.notes, *own, has, *(why for why in known.values() if why)])

    def check_precisions(self, *graphs: Graph) -> None:
        """Raise `GraphError` for a name in `precisions` that means no module of these graphs, or of graphs
        that were checked before. Actions do this themselves.
        """
        new = [override for override in self.overrides if id(override) not in self._met]
        if new and graphs:
            modules = {name: module for graph in graphs for name, module in _computing(graph).items()}
            owner = f"graph{'s' if len(graphs) > 1 else ''} {', '.join(repr(g.name) for g in graphs)}"
            self._met.update(id(override) for override in check_overrides(new, modules, owner))

    def train(
        self,
        graph: Graph | Value,
        *,
        loss: str | Value | None = None,
        optimizer: Optimizer | None = None,
        schedule: ScheduleLike | None = None,
        epochs: int | None = None,
        max_steps: int | None = None,
        max_minutes: float | None = None,
        batches_per_step: int | None = None,
        clip: float | None = None,
        larc: LARC | None = None,
        ema: EMA | float | None = None,
        loss_scale: LossScale | float | None = None,
        evaluate: Iterable[Graph | Evaluate] | Graph | Evaluate = (),
        checkpoint: Checkpoint | bool | None = None,
        resume: str | Path = "auto",
        nonfinite: NonFinite = "skip",
        bad_limit: int = 10,
        callbacks: Sequence[Callback] = (),
        phases: Sequence[Phase] = (),
        alternate: Alternate = "steps",
    ) -> TrainResult:
        """Train the weights that a loss depends on, and return what came of it.

        `graph` is a graph with a loss among its outputs (`loss` names it if there are several), or the loss
        itself. `optimizer` is `AdamW()` if not given; `schedule` scales its rate step by step; `clip`
        bounds the norm of the gradient, `larc` the rate of each tensor; `ema` averages the weights, and the
        average is what is evaluated and left in the modules. A step uses `batches_per_step` batches, over all
        processes (one each, if not given): its loss and gradient are those of one batch that holds them all.

        `evaluate` takes graphs that share modules with this one, evaluated after each epoch, or
        `Evaluate(...)` with another rhythm. With a run folder, checkpoints are written after each epoch or
        as `checkpoint` says, and `resume="auto"` goes on from the newest whole one; "never" starts anew,
        and a path goes on from there.

        `phases` are several optimizers, each with a loss and modules of its own: they take turns step by step
        (`alternate="steps"`), or all of them update on each batch, one after the other ("batch").

        A step whose loss or gradient is not finite changes nothing: `nonfinite="raise"` stops there, "skip"
        leaves it out, counts and names its utterances, and stops after `bad_limit` of them in a row.

        Raises `GraphError` if nothing can be trained, `DataError`, `BackendError` and `CheckpointError`.
        """
        options = TrainOptions(
            loss=loss,
            optimizer=optimizer,
            schedule=schedule,
            epochs=epochs,
            max_steps=max_steps,
            max_minutes=max_minutes,
            batches_per_step=batches_per_step,
            clip=clip,
            larc=larc,
            ema=ema,
            loss_scale=loss_scale,
            evaluate=evaluate,
            checkpoint=checkpoint,
            resume=resume,
            nonfinite=nonfinite,
            bad_limit=bad_limit,
            callbacks=callbacks,
            phases=phases,
            alternate=alternate,
        )
        return train(self, as_graph(graph), options)

    @overload
    def evaluate(self, graph: Graph, *, per_utterance: bool = False) -> Evaluation: ...

    @overload
    def evaluate(
        self, graph: Mapping[str, Graph] | Sequence[Graph], *, per_utterance: bool = False
    ) -> dict[str, Evaluation]: ...

    def evaluate(
        self, graph: Graph | Mapping[str, Graph] | Sequence[Graph], *, per_utterance: bool = False
    ) -> Evaluation | dict[str, Evaluation]:
        """Compute the metrics of a graph over all its data, and the mean of its losses.

        Returns a dict of figures such as `{"wer": 0.021, ...}`; with `per_utterance=True` its `utterances`
        has one row for each. The result does not depend on what ran before, nor on how many processes share
        the batches. Several graphs, in a list or by name, give such a dict for each, by name.
        """
        if isinstance(graph, Mapping | Sequence) and not isinstance(cast("Any", graph), str):
            if not graph:
                raise ConfigError(
                    "evaluate was given no graphs",
                    code="evaluate",
                    fixes=["evaluate(graph)", "evaluate([dev, test])"],
                )
            return {
                name: self.evaluate(each, per_utterance=per_utterance)
                for name, each in by_name(graph).items()
            }
        graph = check_graph("evaluate", graph)
        evaluator = self.evaluator(graph)
        try:
            found = evaluator.run(per_utterance=per_utterance)
        finally:
            evaluator.close()
        for note in found.notes if self.session.world.rank == 0 else ():
            logging.getLogger("neumo").warning("graph %r: %s", graph.name, note)
        return found

    def infer(
        self,
        graph: Graph,
        inputs: Mapping[str, Any] | None = None,
        *,
        outputs: Sequence[str] | None = None,
        cache: bool = False,
        use_cache: bool = False,
    ) -> list[dict[str, Any]]:
        """Compute the outputs of a graph as numpy arrays: one dict for each batch of its data, in order.

        A graph with open inputs takes `inputs`, arrays by name, and gives one dict. `outputs` picks some by
        name. Several processes share the batches: the first one gets all, the others [].

        `cache=True` keeps the values of all steps in the memory of the host, and `use_cache=True` computes
        only what another graph adds to them, until `clear_cache()`. Raises `ConfigError` for a cache that is
        missing, held already or out of date.
        """
        return infer(self, graph, inputs, outputs, cache=cache, use_cache=use_cache)

    def clear_cache(self) -> None:
        """Free what `infer(graph, cache=True)` has kept, if anything."""
        self.cache = None

    def evaluator(self, graph: Graph) -> Evaluator:
        """Prepare to evaluate a graph, as often as wanted; close it afterwards."""
        self.check(graph)
        data = data_step(graph, graph.steps)
        return Evaluator(
            self.session,
            graph,
            self.source(data.module),
            seed=self.seed,
            verify=self.verify,
            workers=self.workers,
        )

    def check(self, graph: Graph) -> None:
        """Raise `GraphError` if a graph breaks a rule that makes its results wrong; say warnings once.

        Raises `PortError` where it connects something else than its modules have learned since it was
        composed. Evaluations and inferences do this themselves. `neumo.graph.rules` has the rules;
        `graph.findings()` lists what they find.
        """
        self.settle()
        self.check_precisions(graph)
        learned = tuple(learned_of(step.module) for step in graph.steps)
        known = id(graph) in self._checked
        if not known or self._learned[id(graph)] != learned:
            check_learned(graph.steps)
        if not known:
            for note in usage_notes(graph):
                logging.getLogger("neumo").warning(note)
        self._checked[id(graph)], self._learned[id(graph)] = graph, learned

    def lend(self, graph: Graph) -> None:
        """Remember a graph that a loop of one's own may train; `graph.to_torch(factory=...)` does it."""
        if graph.mode != "infer":
            self._lent[id(graph)] = graph

    def settle(self) -> None:
        """Let modules that a loop of one's own has trained learn what they were connected to in it.

        Actions and what saves do it themselves. Modules that are frozen, whose weights are those that were
        drawn or loaded, or that have learned before, learn nothing.
        """
        steps = [step for graph in self._lent.values() for step in graph.steps if step.module.trainable]
        fresh = {id(step.module): step.module for step in steps if learned_of(step.module) is None}
        taught = {
            key
            for key, module in fresh.items()
            if self.session.changed(module) and not self.session.is_frozen(module)
        }
        if taught:
            learn([step for step in steps if id(step.module) in taught])

    def source(self, layer: NeuralModule) -> DataSource:
        """Open the data of a data layer, once for all graphs that use it."""
        if id(layer) not in self._sources:
            self._sources[id(layer)] = (layer, open_source(layer, self.seed))
        return self._sources[id(layer)][1]

    def count_parameters(self, what: NeuralModule | Graph, *, trainable_only: bool = False) -> int:
        """Count the weights of a module, or of all modules of a graph; a tied weight counts once."""
        return self.session.count_parameters(*_computing(what).values(), trainable_only=trainable_only)

    def freeze(self, *what: NeuralModule | Graph | str | Sequence[str]) -> None:
        """Keep weights and statistics as they are in the trainings to come.

        `freeze(encoder, head)` keeps whole modules: they compute as in evaluation. `freeze(graph, "encoder",
        "head.weight", "decoder.*.norm.*")` keeps what the names mean: a module, one weight or layer of it, or
        all that fit a pattern; `freeze(encoder, "blocks.0")` does so inside one module. Names may be in a
        list. A layer of which everything is kept computes as in evaluation, so that the statistics of a batch
        norm stay; a weight that is tied is kept under both names.

        Raises `GraphError` with the nearest match for a name or pattern that means nothing.
        """
        self._freeze(what, True)

    def unfreeze(self, *what: NeuralModule | Graph | str | Sequence[str]) -> None:
        """Let weights change again; names are as for `freeze`.

        A single weight of a frozen module can be let free: it trains alone, the rest stays as it is.
        """
        self._freeze(what, False)

    def _freeze(self, what: Sequence[NeuralModule | Graph | str | Sequence[str]], frozen: bool) -> None:
        for owner, patterns in _with_patterns(what):
            modules = _computing(owner)
            self.session.build(modules)
            names = {name: self.session.weight_names(module) for name, module in modules.items()}
            if not patterns:
                check_weights(names, _called(owner))
                for module in modules.values():
                    self.session.freeze(module, frozen)
                continue
            for name, chosen in select(names, patterns, _called(owner)).items():
                self.session.freeze(modules[name], frozen, chosen)

    def tie(self, *weights: Graph | str | tuple[NeuralModule, str], transpose: bool = False) -> None:
        """Make two weights one, such as an output projection and the embedding of the same vocabulary.

        `tie((decoder, "projection.weight"), (embedding, "weight"))`, or by names in a graph, `tie(graph,
        "decoder.projection.weight", "embedding.weight")`: the first takes the values of the second, and
        whatever trains, freezes or loads one of them does so to both. With `transpose=True` the first is the
        second with its axes exchanged. The weight is trained, counted and averaged once, and saved under both
        names. A graph and its file do not know of it: tie again before a run is resumed.

        Raises `GraphError` if a name is unknown or the shapes differ.
        """
        target, source = self._two_weights(weights, 2)
        self.session.tie(target, source, transpose=transpose)

    def untie(self, *weight: Graph | str | tuple[NeuralModule, str]) -> None:
        """Give a tied weight values of its own again: `untie((decoder, "projection.weight"))`."""
        (target,) = self._two_weights(weight, 1)
        self.session.untie(*target)

    def _two_weights(
        self, given: Sequence[Graph | str | tuple[NeuralModule, str]], count: int
    ) -> list[tuple[NeuralModule, str]]:
        pairs = [each for each in given if isinstance(each, tuple)]
        if len(pairs) == len(given) == count:
            return pairs
        if len(given) != count + 1 or isinstance(given[0], str | tuple):
            raise ConfigError(
                f"{count} weights are needed, each a pair of a module and a name, or names in a graph",
                code="tie",
                fixes=[
                    "tie((decoder, 'projection.weight'), (embedding, 'weight'))",
                    "tie(graph, 'decoder.projection.weight', 'embedding.weight')",
                ],
            )
        graph = given[0]
        modules = _computing(graph)
        self.session.build(modules)
        found: list[tuple[NeuralModule, str]] = []
        for name in cast("Sequence[str]", given[1:]):
            head, _, weight = name.partition(".")
            check_modules(modules, [head], _called(graph))
            found.append((modules[head], weight))
        return found

    def weights(self, what: Graph | NeuralModule) -> dict[str, Any]:
        """Return copies of weights and statistics as numpy arrays: of a graph by `module.name`, of a module
        by name.

        Later training does not change them.
        """
        return self.session.weights(_computing(what))

    def load_weights(
        self,
        what: Graph | NeuralModule,
        arrays: Mapping[str, Any],
        *,
        rename: Rename | None = None,
        transform: Mapping[str, Change] | None = None,
        partial: bool = False,
    ) -> list[str]:
        """Put arrays into a graph by `module.name`, or into a module by name.

        `rename` gives arrays of another toolkit the names that they have here: `{"enc": "encoder"}` renames
        what is called so and what begins with `enc.`; a function gets each name, and returns None to leave
        an array out. `transform` changes arrays by their names here: `{"head.weight": "transpose"}`, or a
        function of the array.

        Raises `CheckpointError` with a table of all that is missing, left over, of another shape or another
        kind of numbers; `partial=True` loads what fits and returns the rest.
        """
        check_mapping(arrays, "load_weights", "weights", "load(graph, path) reads them from a file")
        changed = transformed(renamed(arrays, rename), transform)
        return self.session.load_weights(_computing(what), changed, partial=partial)

    def save(
        self, graph: Graph | NeuralModule, path: str | Path, *, modules: Collection[str] | None = None
    ) -> None:
        """Write the weights of a graph, or of some of its modules by name, to a safetensors file.

        What the modules have learned in training (`learned_facets`), in a loop of one's own too, is part of
        its metadata. Raises `CheckpointError` where nothing can be written.
        """
        chosen = _some(graph, modules)
        self.settle()
        self.session.save(chosen, Path(path), notes={LEARNED: json.dumps(learned_data(chosen))})

    def load(
        self,
        graph: Graph | NeuralModule,
        path: str | Path,
        *,
        modules: Collection[str] | None = None,
        rename: Rename | None = None,
        transform: Mapping[str, Change] | None = None,
        partial: bool = False,
    ) -> list[str]:
        """Read weights from a safetensors file, a checkpoint, a run folder (its newest checkpoint) or a model
        file (`.neumo`).

        Of a checkpoint the averaged weights are taken if it has them. `modules` restores some modules by name
        and leaves the others, in the graph and in the file, alone. `rename`, `transform` and `partial` are as
        for `load_weights`. With its weights a module gets what it learned in training. Raises
        `CheckpointError` with a table of what differs, and `PortError` where the graph connects what a module
        did not learn.
        """
        chosen = _some(graph, modules)
        with weights_file(Path(path)) as file:
            found = self.session.read(file)
            learned = read_learned(learned_in(file), source=Path(path).name)
            arrays = transformed(renamed(found, rename), transform)
            if modules is not None:
                arrays = {name: a for name, a in arrays.items() if name.partition(".")[0] in chosen}
            left = self.session.load_weights(chosen, arrays, partial=partial)
        for name, elements in owned(learned, found, rename, chosen, unused=unused_names(left)).items():
            set_learned(chosen[name], elements, source=Path(path).name)
        check_learned(getattr(graph, "steps", ()))
        return left


def _strategies(given: object) -> list[str]:
    """Say how a strategy is given where its name, or its class, stands in its place."""
    name = given if isinstance(given, str) else getattr(given, "__name__", "")
    return [f"strategy={name if name in STRATEGIES else 'DDP'}() of neumo.engine"]


def as_graph(graph: Graph | Value) -> Graph:
    """Make a graph of a loss alone; a graph is returned as it is."""
    from neumo.graph.graph import Graph
    from neumo.graph.value import Value

    return Graph("train", "train", {"loss": graph}) if isinstance(graph, Value) else graph


def _computing(what: Graph | NeuralModule) -> dict[str, NeuralModule]:
    """The modules that compute, by name; a module alone has no name, so that its weights stand without."""
    modules = {"": what} if isinstance(what, NeuralModule) else what.modules
    return {name: module for name, module in modules.items() if module.role not in ("data", "metric")}


def _some(what: Graph | NeuralModule, names: Collection[str] | None) -> dict[str, NeuralModule]:
    modules = _computing(what)
    if names is None:
        return modules
    wanted = [names] if isinstance(names, str) else list(names)
    check_modules(modules, wanted, _called(what))
    return {name: modules[name] for name in wanted}


def _called(what: Graph | NeuralModule) -> str:
    return label_of(what) if isinstance(what, NeuralModule) else f"graph {what.name!r}"


def _with_patterns(
    what: Sequence[NeuralModule | Graph | str | Sequence[str]],
) -> list[tuple[NeuralModule | Graph, list[str]]]:
    """Sort modules and graphs, each with the names behind it, which may be in lists, as in YAML."""
    from neumo.graph.graph import Graph

    found: list[tuple[NeuralModule | Graph, list[str]]] = []
    flat: list[Any] = []
    for each in cast("Sequence[Any]", what):
        flat += cast("Any", each) if isinstance(each, list | tuple | set | frozenset) else [each]
    for each in flat:
        if isinstance(each, NeuralModule | Graph):
            found.append((each, []))
        elif not isinstance(each, str):
            raise ConfigError(
                f"{each!r} is no graph, no module and no name of one",
                code="weight-name",
                fixes=['freeze(graph, "encoder"), or freeze(encoder)'],
            )
        elif found:
            found[-1][1].append(each)
        else:
            raise ConfigError(
                f"{each!r} stands alone: a name is looked up in a graph or in a module",
                code="weight-name",
                fixes=[f"freeze(graph, {each!r})"],
            )
    return found
