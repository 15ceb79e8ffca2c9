"""Every recipe of speech recognition composes as it is, and runs in small: trains, evaluates, transcribes."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load

from neumo.cli.main import run
from neumo.data.learn_vocab import learn_vocab, write_vocab

from .speech import ROOT, write_utterances

EXAMPLES = ROOT / "examples"
RECIPES = sorted(path.parent.name for path in EXAMPLES.glob("asr_*/recipe.yaml"))

ENGLISH = ("yes", "go on", "one two", "it's")
TEXTS = {
    "asr_librispeech_fastconformer": ("YES", "GO ON", "ONE TWO", "ON"),
    "asr_librispeech_quartznet": ("YES", "GO ON", "ONE TWO", "IT'S"),
    "asr_mini_librispeech": ("YES", "GO ON", "ONE TWO", "IT'S"),
    "asr_commonvoice": ("¿Qué?", "Sí, señor.", "Año", "él"),
    "asr_aishell": ("你好", "北京", "天气很好", "好"),
}

NARROW_CONFORMER = (
    "modules.encoder.layers=1",
    "modules.encoder.width=16",
    "modules.encoder.heads=2",
    "modules.head.width=16",
)
SMALLER = {
    "asr_an4": ("modules.encoder.width=32", "modules.head.width=32"),
    "asr_an4_jasper": ("modules.encoder.width=64", "modules.head.width=64"),
    "asr_an4_quartznet": ("modules.encoder.width=32", "modules.head.width=32"),
    "asr_an4_conformer": NARROW_CONFORMER,
    "asr_an4_las": (
        "modules.encoder.hidden=8",
        "modules.decoder.width=16",
        "modules.decoder.hidden=16",
        "modules.search.beam=2",
    ),
    "asr_an4_joint": (
        "modules.encoder.width=32",
        "modules.head.width=32",
        "modules.decoder.width=32",
        "modules.decoder.hidden=16",
        "modules.decoder.feed_forward=32",
        "modules.search.beam=2",
    ),
    "asr_an4_rnnt": (
        "modules.encoder.width=32",
        "modules.joint.encoder_width=32",
        "modules.joint.predictor_width=16",
        "modules.prediction.width=16",
        "modules.joint.width=16",
    ),
    "asr_fsdd": ("modules.encoder.width=32", "modules.head.width=32"),
    "asr_mini_librispeech": (
        "modules.encoder.blocks=[{width: 16, kernel: 11, stride: 4}]",
        "modules.head.width=16",
    ),
    "asr_librispeech_quartznet": ("modules.encoder.width=32", "modules.head.width=32"),
    "asr_librispeech_fastconformer": (*NARROW_CONFORMER, "modules.encoder.subsampling_width=8"),
    "asr_commonvoice": ("modules.encoder.width=32", "modules.head.width=32"),
    "asr_aishell": NARROW_CONFORMER,
}

Neumo = Callable[..., str]


@pytest.fixture
def neumo(capsys: pytest.CaptureFixture[str]) -> Neumo:
    """The command in this process: gives what it printed, and fails where it fails."""

    def call(*words: str | Path) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            run([str(word) for word in words])
        printed = capsys.readouterr()
        assert not caught.value.code, printed.out + printed.err
        return printed.out

    return call


def labels(name: str, folder: Path) -> list[str]:
    """The overrides that name labels which a user makes before the training, and make them."""
    if name == "asr_aishell":
        file = folder / "characters.txt"
        file.write_text("\n".join(sorted(set("".join(TEXTS[name])))) + "\n", encoding="utf-8")
        return [f"vocabs.characters.file={file}"]
    if name == "asr_librispeech_fastconformer":
        texts = [text.lower() for text in TEXTS[name]]
        file = folder / "bpe.model"
        write_vocab(learn_vocab(texts, "bpe", 16).vocab, file)
        return [f"vocabs.pieces.sentencepiece={file}"]
    return []


def small(name: str, folder: Path, texts: tuple[str, ...]) -> list[str]:
    """The overrides by which a recipe trains on a few utterances of noise, narrow and for two steps."""
    manifest = write_utterances(folder / "data", texts, rate=8000 if name == "asr_fsdd" else 16000)
    recipe = (EXAMPLES / name / "recipe.yaml").read_text(encoding="utf-8")
    layers = [
        line.split(":")[0].strip() for line in recipe.splitlines() if line.startswith(("  data", "  dev"))
    ]
    evaluations = ["train.evaluate=[{graph: evaluate}]"] if "evaluate_other" in recipe else []
    return [
        *(f"modules.{layer}.manifest={manifest}" for layer in layers),
        *labels(name, folder),
        *SMALLER[name],
        *evaluations,
        "modules.data.batch_size=2",
        "train.epochs=1",
        "train.max_steps=2",
        "factory.device=cpu",
        "factory.precision=fp32",  # small convolutions in bf16 are slow on a CPU
    ]


def test_every_recipe_is_run_in_small() -> None:
    assert set(SMALLER) == set(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_right_as_it_is(name: str, neumo: Neumo, tmp_path: Path) -> None:
    assert "right" in neumo("check", EXAMPLES / name / "recipe.yaml", *labels(name, tmp_path))


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_has_a_page(name: str) -> None:
    page = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    assert page.startswith("# ")
    assert f"examples/{name}/" in page
    assert name in (ROOT / "docs" / "speech-recognition.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "asr_commonvoice"])
def test_a_recipe_trains_and_transcribes(name: str, neumo: Neumo, tmp_path: Path) -> None:
    recipe, folder = EXAMPLES / name / "recipe.yaml", tmp_path / "run"
    overrides = small(name, tmp_path, TEXTS.get(name, ENGLISH))
    result = json.loads(neumo("train", recipe, *overrides, "--folder", folder, "--json"))
    assert result["steps"] == 2
    assert (folder / "model.neumo").is_file()
    neumo("transcribe", folder / "model.neumo", tmp_path / "data" / "0.wav")


def test_another_language_starts_from_the_encoder_of_the_first(neumo: Neumo, tmp_path: Path) -> None:
    first, second = tmp_path / "english", tmp_path / "spanish"
    name = "asr_librispeech_quartznet"
    neumo("train", EXAMPLES / name / "recipe.yaml", *small(name, tmp_path / "a", ENGLISH), "--folder", first)
    name = "asr_commonvoice"
    still = [
        f"train.weights.file={first / 'model.neumo'}",
        "train.freeze=[encoder]",
        "train.optimizer.groups=[]",
    ]
    spanish = [*small(name, tmp_path / "b", TEXTS[name]), *still]
    neumo("train", EXAMPLES / name / "recipe.yaml", *spanish, "--folder", second)
    english, other = (weights(folder / "model.neumo") for folder in (first, second))
    encoder = [key for key in english if key.startswith("encoder.")]
    assert encoder
    assert all((english[key] == other[key]).all() for key in encoder)
    heads = [[len(all_of[key]) for key in all_of if key.startswith("head.")] for all_of in (english, other)]
    assert heads[0]
    assert heads[0] != heads[1]


def weights(model: Path) -> dict[str, Any]:
    with zipfile.ZipFile(model) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".safetensors")]
        return load(archive.read(name))
