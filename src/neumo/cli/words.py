"""Says in the words of a command line what errors say in those of Python: `factory.seed=1`, not `seed=1`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from neumo.types.errors import BackendError, CheckpointError, ConfigError, DataError

if TYPE_CHECKING:
    from neumo.types.errors import Fix, NeumoError

_OF_THE_FACTORY: Final = (
    "allow", "compile", "device", "precision", "precisions", "seed", "strategy", "verify", "workers",
)  # fmt: skip
_OF_THE_TRAINING: Final = (
    "bad_limit", "batches_per_step", "checkpoint", "clip", "ema", "epochs", "loss_scale", "max_minutes",
    "max_steps", "nonfinite", "resume",
)  # fmt: skip
_PLACES: Final = {
    **{name: f"factory.{name}" for name in _OF_THE_FACTORY},
    **{name: f"train.{name}" for name in _OF_THE_TRAINING},
}
_WHOLE: Final = {  # what has words of its own there
    "resume='auto' takes the newest": "--resume takes the newest",
    "NeuralFactory(folder='runs/first')": "--folder runs/first",
    "give the path of another checkpoint as resume": "train.resume=PATH goes on from another checkpoint",
}
_PARTIAL: Final = "partial=True loads what fits and lists the rest"
_PARTIAL_OF: Final = {
    "train": "--folder ANOTHER starts anew; train.weights={file: FILE, modules: [NAME]} takes single modules",
    "evaluate": "the recipe, or the model file, that they were trained with",
}
# A value as Python writes it: a text, a call, a collection, or a word, each without another one inside.
_VALUE: Final = r"(?:'[^']*'|\w+\([^()]*\)|\{[^{}]*\}|\[[^\[\]]*\]|\([^()]*\)|[-\w.+]*\w)"
_FACTORY: Final = re.compile(r"NeuralFactory\((\w+=[^()]*(?:\([^()]*\))?)\)")
_CHECKPOINT: Final = re.compile(r"(?<![\w.=])Checkpoint\(([^()]+)\)")
_SETTING: Final = re.compile(rf"(?<![\w.(])({'|'.join(_PLACES)})=({_VALUE})")


def in_words_of_the_command(error: NeumoError, verb: str = "train") -> None:
    """Write the ways out of an error, and of those with it, as they are typed behind `neumo` and a verb.

    >>> error = ConfigError("seed 2", fixes=["NeuralFactory(seed=1)", "resume='never' starts anew"])
    >>> in_words_of_the_command(error)
    >>> [fix.text for fix in error.fixes]
    ['factory.seed=1', 'train.resume=never starts anew']

    What is wrong with ports and graphs is said of modules, whose settings have other names.
    """
    if isinstance(error, ConfigError | CheckpointError | BackendError | DataError):
        error.fixes = tuple(_typed(fix, verb) for fix in error.fixes)
    for other in error.also:
        in_words_of_the_command(other, verb)


def _typed(fix: Fix, verb: str) -> Fix:
    if fix.text == _PARTIAL and verb in _PARTIAL_OF:
        return replace(fix, text=_PARTIAL_OF[verb])
    return fix if fix.code else replace(fix, text=typed(fix.text))


def typed(text: str) -> str:
    """Write the settings of a factory or a training that a text names as a command line takes them.

    >>> typed("clip=1.0, a smaller learning rate or a longer warm-up")
    'train.clip=1.0, a smaller learning rate or a longer warm-up'
    >>> typed("make room on the disk, or keep fewer: Checkpoint(keep_last=1)")
    'make room on the disk, or keep fewer: train.checkpoint={keep_last: 1}'
    >>> typed("allow={'fp16-on-cpu'} trains all the same")
    'factory.allow=[fp16-on-cpu] trains all the same'
    >>> typed("strategy=DDP(timeout_minutes=60)")
    'factory.strategy={kind: DDP, timeout_minutes: 60}'
    """
    if text in _WHOLE:
        return _WHOLE[text]
    text = _FACTORY.sub(r"\1", text)
    text = _CHECKPOINT.sub(r"checkpoint=Checkpoint(\1)", text)
    return _SETTING.sub(lambda found: f"{_PLACES[found[1]]}={_yaml(found[2], found[1])}", text)


def _yaml(text: str, name: str) -> str:
    """Write a value of Python in the notation of recipes; what is none, such as `...`, stays."""
    try:
        value = ast.parse(text, mode="eval").body
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and not value.args:
            given = {each.arg or "": ast.literal_eval(each.value) for each in value.keywords}
            return _flow({"kind": value.func.id, **given} if name == "strategy" else given)
        return _flow(ast.literal_eval(value))
    except (ValueError, SyntaxError):
        return text


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in pairs) + "}"
    if isinstance(value, list | tuple | set | frozenset):
        return "[" + ", ".join(_in_order(value)) + "]"
    if value is ...:
        return "..."
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _in_order(values: Any) -> Iterator[str]:
    yield from sorted(map(_flow, values)) if isinstance(values, set | frozenset) else map(_flow, values)
