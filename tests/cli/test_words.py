"""Errors of the engine in the words of a command line."""

import pytest

from neumo.cli.words import in_words_of_the_command, typed
from neumo.types.errors import BackendError, CheckpointError, Fix, PortError


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("NeuralFactory(seed=1)", "factory.seed=1"),
        ("NeuralFactory(strategy=DDP())", "factory.strategy={kind: DDP}"),
        ("NeuralFactory(folder='runs/first')", "--folder runs/first"),
        ("resume='auto' takes the newest", "--resume takes the newest"),
        ("verify='values' looks at the numbers", "factory.verify=values looks at the numbers"),
        ("nonfinite='skip' leaves such steps out", "train.nonfinite=skip leaves such steps out"),
        ("checkpoint=False trains without", "train.checkpoint=false trains without"),
        ("Checkpoint(keep_last=9) keeps enough", "train.checkpoint={keep_last: 9} keeps enough"),
        ("precisions={'decoder': 'fp32'}", "factory.precisions={decoder: fp32}"),
        ("compile=Compile(modules=..., dynamic=False)", "factory.compile={modules: ..., dynamic: false}"),
        ("train.epochs=3", "train.epochs=3"),
        ("Cosine(epochs=3)", "Cosine(epochs=3)"),
        ("fewer processes", "fewer processes"),
        ("ema=None, or clip=open(x)", "train.ema=null, or train.clip=open(x)"),
        ("shard=(1, 2), workers={1}", "shard=(1, 2), factory.workers=[1]"),
        ("max_steps=1000", "train.max_steps=1000"),
        ("compile='encoder'", "factory.compile=encoder"),
    ],
)
def test_settings_are_named_as_they_are_typed(said, wanted):
    assert typed(said) == wanted


def test_an_error_and_those_with_it_are_said_so():
    also = CheckpointError("b", fixes=["partial=True loads what fits and lists the rest"])
    error = BackendError("a", fixes=["seed=3", Fix("as code", code="seed=3")], also=[also])
    in_words_of_the_command(error, "evaluate")
    assert [fix.text for fix in error.fixes] == ["factory.seed=3", "as code"]
    assert also.fixes[0].text == "the recipe, or the model file, that they were trained with"


def test_ports_keep_their_names():
    error = PortError("a", fixes=["seed=3"])
    in_words_of_the_command(error)
    assert error.fixes[0].text == "seed=3"
