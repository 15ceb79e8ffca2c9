"""Whole models in one file: saved at the end of a training, loaded wherever they are used."""

from __future__ import annotations

import dataclasses
import json
import platform
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neumo import __version__
from neumo.asr.transcribe import Recording, Transcriber, Transcript
from neumo.engine.checkpoints.weight_files import LEARNED
from neumo.engine.factory import NeuralFactory
from neumo.graph.graph import Graph
from neumo.graph.learned import check_learned, learned_state, restore_learned
from neumo.graph.module import NeuralModule
from neumo.graph.yaml import Recipe, load_recipe, recipe_text
from neumo.hub.archive import CARD, FORMAT, RECIPE, WEIGHTS, Archive, write_archive
from neumo.hub.card import Card
from neumo.types.errors import CheckpointError, ConfigError, NeumoError

__all__ = ["Model", "load_model", "save_model", "usable_graphs"]

_TRAINING = "assets/training.yaml"  # the whole recipe, for the record; loading does not read it


@dataclass(frozen=True)
class Model:
    """A trained model: graphs with open inputs, the factory that holds their weights, and the card.

    `graphs` share modules, as they did in training; `graph` is the one called `infer`, or the only one.
    """

    graphs: Mapping[str, Graph]
    factory: NeuralFactory
    card: Card
    path: Path | None = None

    @property
    def graph(self) -> Graph:
        """The graph that the model is used by."""
        if "infer" in self.graphs or len(self.graphs) == 1:
            return self.graphs.get("infer") or next(iter(self.graphs.values()))
        raise ConfigError(
            "the model has several graphs and none is called 'infer'",
            code="graph",
            details=list(self.graphs),
            fixes=[f"model.graphs[{name!r}]" for name in self.graphs],
        )

    def infer(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Compute all outputs of the graph for arrays by name; see `NeuralFactory.infer`."""
        return self.factory.infer(self.graph, inputs)[0]

    def transcriber(self, **settings: Any) -> Transcriber:
        """Make what turns recordings into text, with the settings of `Transcriber`."""
        return Transcriber(self.factory, self.graph, **settings)

    def transcribe(self, recordings: Recording | Iterable[Recording], **settings: Any) -> list[Transcript]:
        """Turn recordings into text, in the order given; see `Transcriber` for what they may be.

        Raises the first `DataError` of a recording that cannot be read; `transcriber()` goes on instead.
        """
        one = (
            isinstance(recordings, str) or not isinstance(recordings, Iterable) or hasattr(recordings, "ndim")
        )
        found = list(self.transcriber(**settings)([recordings] if one else recordings))  # type: ignore[list-item]
        for transcript in found:
            if transcript.error is not None:
                raise transcript.error
        return found


def save_model(
    path: str | Path, recipe: Recipe | Graph, factory: NeuralFactory, *, card: Card | None = None
) -> Path:
    """Write the graphs of a recipe that read no data, their weights and the card to one `.neumo` file.

    The file is written at once or not at all, and it names what it needs: nobody needs the training data, the
    recipe or this program's other files to use it. Raises `ConfigError` where no graph has open inputs, and
    `PortError` where one connects something else than its modules have learned.
    """
    whole = recipe if isinstance(recipe, Recipe) else Recipe(graphs={recipe.name: recipe})
    graphs = usable_graphs(whole)
    if not graphs:
        raise ConfigError(
            "no graph of the recipe has open inputs, so its model could not be used on anything",
            code="model-graph",
            fixes=["add a graph `infer` with `inputs:`, such as audio and audio_len"],
        )
    steps = [step for graph in whole.graphs.values() for step in graph.steps]
    factory.settle()
    check_learned(steps)
    usable = Recipe(graphs=graphs, vocabs=whole.vocabs)
    members: dict[str, bytes | Path] = {RECIPE: recipe_text(usable, defaults=True).encode()}
    path = Path(path)
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / WEIGHTS
        learned = learned_state(_modules(graphs), steps, factory.frozen)
        factory.session.save(_modules(graphs), weights, notes={LEARNED: json.dumps(learned)})
        card = _completed(card or Card(name=path.stem), graphs, factory)
        card = dataclasses.replace(card, learned=learned)
        members[WEIGHTS] = weights
        members[CARD] = json.dumps(
            {"format": FORMAT, "neumo": __version__, **card.to_json()}, indent=1
        ).encode()
        if len(whole.graphs) > len(graphs):
            members[_TRAINING] = recipe_text(whole).encode()
        write_archive(path, members)
    return path


def usable_graphs(recipe: Recipe) -> dict[str, Graph]:
    """Return the graphs that a model is used by: those with open inputs, which read no data of their own."""
    return {name: graph for name, graph in recipe.graphs.items() if graph.inputs and not _reads_data(graph)}


def load_model(path: str | Path, **settings: Any) -> Model:
    """Read a model from its file; `settings` are those of `NeuralFactory`, such as `device="cuda"`.

    Nothing in the file is executed: classes are looked up by name among those that are defined, weights are
    safetensors, and every member is checked before it is read. Raises `CheckpointError`.
    """
    archive = Archive(path)
    card = Card.from_json(archive.card())
    graphs = _graphs(archive)
    factory = NeuralFactory(**{"progress": False, **settings})
    with tempfile.TemporaryDirectory() as folder:
        weights = archive.copy(WEIGHTS, Path(folder) / WEIGHTS)
        try:
            factory.session.load(_modules(graphs), weights, partial=False)
        except CheckpointError as error:
            what = f"the weights of {path} do not fit its graphs"
            raise CheckpointError(what, code="model-weights", also=[error]) from None
    restore_learned(_modules(graphs), card.learned, source=Path(path).name)
    for graph in graphs.values():
        _refuse_nan(factory.weights(graph), path)
    return Model(graphs, factory, card, Path(path))


def _refuse_nan(arrays: Mapping[str, Any], path: str | Path) -> None:
    """Refuse weights that would make every answer empty without a word."""
    import numpy as np

    bad = [name for name, array in arrays.items() if array.dtype.kind == "f" and not np.isfinite(array).all()]
    if bad:
        raise CheckpointError(
            f"the weights of {path} are not finite (NaN or infinity)",
            code="model-weights",
            details=[*bad[:5], *([f"and {len(bad) - 5} more"] if len(bad) > 5 else [])],
            fixes=["take an earlier checkpoint of the training"],
        )


def _graphs(archive: Archive) -> Mapping[str, Graph]:
    try:
        recipe = load_recipe(archive.text(RECIPE) + "\n", origin=f"{archive.path}/{RECIPE}")
    except NeumoError as error:
        raise CheckpointError(
            f"the graphs of {archive.path} cannot be built",
            code="model-graph",
            fixes=["where it has classes of your own: neumo --import MODULE ..."],
            also=[error],
        ) from None
    if not recipe.graphs:
        raise CheckpointError(f"{archive.path} has no graph", code="model-graph")
    return recipe.graphs


def _completed(card: Card, graphs: Mapping[str, Graph], factory: NeuralFactory) -> Card:
    """Add what the card did not say: the number of weights and the versions."""
    versions = {"neumo": __version__, "python": platform.python_version(), **factory.session.versions}
    parameters = card.parameters or factory.session.count_parameters(*_modules(graphs).values())
    return dataclasses.replace(card, parameters=parameters, versions={**versions, **card.versions})


def _modules(graphs: Mapping[str, Graph]) -> dict[str, NeuralModule]:
    """The modules of all graphs by name; those that graphs share have one name in all of them."""
    return {name: module for graph in graphs.values() for name, module in graph.modules.items()}


def _reads_data(graph: Graph) -> bool:
    return any(module.role == "data" for module in graph.modules.values())
