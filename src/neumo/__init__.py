"""neumo: speech and language models out of typed neural modules.

Names are loaded when they are first used, so that `import neumo` costs milliseconds and needs neither a
framework nor numpy.

>>> import neumo
>>> neumo.Audio(rate=16000)[neumo.B, neumo.T]
Audio(rate=16000)[B, T]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # stars, so that an editor sees each room's own list; at run time names load one by one
    from neumo.backends.torch.propose.signature import infer_signature as infer_signature
    from neumo.backends.torch.prove.signature import prove as prove
    from neumo.backends.torch.registry import implements as implements
    from neumo.backends.torch.wrap import TorchModule as TorchModule
    from neumo.backends.torch.wrap import wrap as wrap
    from neumo.data import *  # noqa: F403 - its own list of names
    from neumo.data.generate import example_batch as example_batch
    from neumo.engine import *  # noqa: F403 - its own list of names
    from neumo.engine.passes.dry_run import dry_run as dry_run
    from neumo.graph import *  # noqa: F403 - its own list of names
    from neumo.graph.learned import learned_facets as learned_facets
    from neumo.graph.learned import set_learned as set_learned
    from neumo.graph.yaml import load_recipe as load_recipe
    from neumo.hub import *  # noqa: F403 - its own list of names
    from neumo.metrics import *  # noqa: F403 - its own list of names
    from neumo.types import *  # noqa: F403 - its own list of names

__version__ = "0.1.0"

# Public names by the room that lists them, or by the file where a room does not load them for everybody; all
# load on first use (PEP 562). A collection (`neumo.asr`) is a room to import from; its names are not
# repeated here.
_ROOMS: dict[str, tuple[str, ...]] = {
    "neumo.data": ("DataSource", "Manifest", "SpeechSource", "read_audio", "read_manifest", "write_manifest"),
    "neumo.data.generate": ("example_batch",),
    "neumo.engine": ("Callback", "NeuralFactory", "TrainResult", "compile_plan"),
    "neumo.engine.passes.dry_run": ("dry_run",),
    "neumo.graph": (
        "DataLayer", "Graph", "LossSum", "Metric", "MultiData", "NeuralModule", "Record", "Signature", "Step",
        "Value", "assume", "collect", "inputs", "relax",
    ),
    "neumo.graph.learned": ("learned_facets", "set_learned"),
    "neumo.graph.yaml": ("load_recipe",),
    "neumo.hub": ("Model", "load_model", "save_model"),
    "neumo.metrics": ("CharErrorRate", "WordErrorRate", "char_error_rate", "word_error_rate"),
    "neumo.types": (
        "ANY", "Acoustic", "Alignment", "Any_", "AtLeast", "Audio", "Axis", "B", "BackendError", "Binding",
        "C", "CheckpointError", "Comparison", "ConfigError", "DataError", "DialogueState", "Durations",
        "Element", "Environment", "F", "Features", "Flags", "GraphError", "H", "Hypotheses", "Ids", "Image",
        "Item", "Kind", "Latent", "Lengths", "LogDet", "LogProbs", "Logits", "Loss", "MFCC", "Mask", "Mel",
        "NeumoError", "NeuralType", "Normalise", "ONE", "Obligation", "Outcome", "Pitch", "PortError",
        "Positions", "Probs", "Reason", "Relation", "Score", "Scorer", "Scores", "Size", "Speaker",
        "Spectrogram", "State", "Strings", "Struct", "Symbol", "T", "Text", "U", "V", "Values", "Var",
        "Vocab", "W", "clock_of", "compare", "parse",
    ),
}  # fmt: skip
_WHERE = {name: room for room, names in _ROOMS.items() for name in names}
_NEED_TORCH = {  # not in `*`
    "TorchModule": "neumo.backends.torch.wrap",
    "implements": "neumo.backends.torch.registry",
    "infer_signature": "neumo.backends.torch.propose.signature",
    "prove": "neumo.backends.torch.prove.signature",
    "wrap": "neumo.backends.torch.wrap",
}
_SUBMODULES = ("asr", "backends", "cli", "data", "engine", "graph", "hub", "metrics", "nn", "types")

__all__ = ["__version__", *sorted(_WHERE)]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _SUBMODULES:
        return importlib.import_module(f"neumo.{name}")
    room = _WHERE.get(name) or _NEED_TORCH.get(name)
    if room is None:
        raise AttributeError(f"module 'neumo' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(room), name)
    except ModuleNotFoundError as error:
        if error.name not in ("numpy", "torch"):
            raise
        what = f"neumo.{name} needs {error.name}, which is not installed: pip install 'neumo[torch,asr]'"
        raise ModuleNotFoundError(what, name=error.name) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE, *_NEED_TORCH, *_SUBMODULES})
