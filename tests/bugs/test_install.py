"""What users met before anything ran: pins, platforms, missing packages, imports, compilers."""

import importlib.metadata
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import neumo
from neumo.cli.main import VERBS

ROOT = Path(__file__).parent.parent.parent
RECIPE = str(ROOT / "examples" / "asr_an4" / "recipe.yaml")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {name: wanted for name, wanted in PROJECT["optional-dependencies"].items() if name != "all"}
MODULES = [m.name for m in pkgutil.walk_packages(neumo.__path__, "neumo.")]

BLOCK = """
import sys
class No:
    def find_spec(self, name, *_):
        if name.partition('.')[0] in {blocked!r}:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)
sys.meta_path.insert(0, No())
"""


def python(code: str, *blocked: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new process in which some packages cannot be imported."""
    start = BLOCK.format(blocked=set(blocked)) if blocked else ""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", start + code], env=environment, capture_output=True, text=True, check=False
    )


# --- pins


def test_no_dependency_of_users_has_an_upper_bound():
    for_users = [
        *PROJECT["dependencies"],
        *(need for name in EXTRAS if name not in ("dev", "track") for need in EXTRAS[name]),
    ]
    for need in for_users:
        assert re.fullmatch(r"[a-z-]+>=[0-9.]+", need), f"{need}: a name and a lowest version, nothing else"


def test_the_core_depends_on_three_small_packages():
    assert [need.partition(">=")[0] for need in PROJECT["dependencies"]] == ["pyyaml", "typer", "rich"]


def test_numpy_2_is_allowed_and_in_use_here():
    wanted = {need for needs in EXTRAS.values() for need in needs if need.startswith("numpy")}
    assert wanted == {"numpy>=1.26"}
    assert int(importlib.metadata.version("numpy").partition(".")[0]) >= 2


def test_all_is_every_extra_for_users_but_the_trackers():
    (everything,) = PROJECT["optional-dependencies"]["all"]
    (trackers,) = PROJECT["optional-dependencies"]["track"]
    names = trackers.removeprefix("neumo[").removesuffix("]").split(",")
    wanted = [name for name in EXTRAS if name not in ("dev", "track", *names)]
    assert everything == f"neumo[{','.join(wanted)}]"
    assert names == ["tensorboard", "wandb", "mlflow"]


# --- platforms


def test_every_module_is_imported_without_what_windows_lacks():
    code = (
        "import importlib, os, signal, subprocess, tempfile, multiprocessing.context\n"
        "for name in ('SIGKILL', 'SIGUSR1', 'SIGUSR2', 'SIGHUP', 'SIGALRM', 'SIGCHLD'):\n"
        "    delattr(signal, name)\n"
        "import torch, soundfile, soxr\n"
        "for name in ('getuid', 'geteuid', 'getloadavg', 'sched_getaffinity', 'fork', 'uname'):\n"
        "    if hasattr(os, name): delattr(os, name)\n"
        "for name in ('fcntl', 'resource', 'termios', 'pwd', 'grp'): sys.modules[name] = None\n"
        f"for name in {MODULES!r}: importlib.import_module(name)\n"
        "print('all', len(sys.modules) > 100)"
    )
    done = python("import sys\n" + code)
    assert (done.stdout, done.stderr) == ("all True\n", "")


def test_no_module_names_what_windows_lacks_at_its_top():
    unguarded = re.compile(r"^(import|from) (fcntl|resource|termios|pwd|grp)\b", re.MULTILINE)
    for file in (ROOT / "src").rglob("*.py"):
        assert not unguarded.search(file.read_text(encoding="utf-8")), file


# --- missing packages


def command(*words: str) -> str:
    return f"from neumo.cli.main import run; run({list(words)!r})"


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    from neumo.engine import NeuralFactory
    from neumo.graph.yaml import load_recipe
    from neumo.hub import save_model

    place = tmp_path_factory.mktemp("model") / "m.neumo"
    return save_model(place, load_recipe(RECIPE), NeuralFactory(progress=False))


@pytest.mark.parametrize("package", ["torch", "numpy", "safetensors", "soundfile"])
@pytest.mark.parametrize("verb", ["train", "evaluate", "transcribe"])
def test_a_missing_package_is_one_line_with_the_pip_command(verb, package, model, tmp_path):
    sound = tmp_path / "a.wav"
    sound.write_bytes(wav())
    lines = tmp_path / "m.jsonl"
    lines.write_text('{"audio_filepath": "a.wav", "text": "yes"}\n')
    words = {
        "train": [
            RECIPE,
            f"modules.data.manifest={lines}",
            f"modules.dev.manifest={lines}",
            "train.epochs=1",
        ],
        "evaluate": [str(model), "--manifest", str(lines)],
        "transcribe": [str(model), str(sound)],
    }[verb]
    options = ["--folder", str(tmp_path / "run")] if verb == "train" else []
    done = python(command(verb, *words, *options), package)
    said = " ".join(done.stderr.split())
    assert done.returncode == 1, said
    assert f"needs the package {package}, which is not installed" in said
    assert re.search(r"""fix pip install ['"]neumo\[(torch|asr|torch,asr)\]['"]""", said)
    assert "step" not in said  # nothing was trained first
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_soxr_is_missed_only_where_a_rate_differs(model, tmp_path):
    for rate in (16000, 8000):
        (tmp_path / f"{rate}.wav").write_bytes(wav(rate))
    assert python(command("transcribe", str(model), str(tmp_path / "16000.wav")), "soxr").returncode == 0
    done = python(command("transcribe", str(model), str(tmp_path / "8000.wav")), "soxr")
    assert done.returncode == 1
    assert "changing the sample rate needs the package soxr" in " ".join(done.stderr.split())
    assert "pip install 'neumo[asr]'" in done.stderr


def test_a_package_that_is_none_of_ours_is_still_a_bug(tmp_path):
    (tmp_path / "own.py").write_text("import no_such_package_at_all\n")
    done = python(command("--import", str(tmp_path / "own.py"), "check", RECIPE))
    assert done.returncode == 1
    assert "No module named 'no_such_package_at_all'" in done.stderr


def test_python_users_are_told_the_pip_command_too():
    code = (
        "import neumo\n"
        "for use in (lambda: neumo.NeuralFactory(), lambda: neumo.read_manifest):\n"
        "    try: use()\n"
        "    except Exception as error: print(type(error).__name__, 'pip install' in str(error))"
    )
    assert python(code, "numpy").stdout == "BackendError True\nModuleNotFoundError True\n"


def test_a_model_file_is_looked_into_with_the_core_alone(model):
    packages = ("torch", "numpy", "safetensors", "soundfile", "soxr")
    for verb in ("check", "show"):
        done = python(command(verb, str(model)), *packages)
        assert (done.returncode, done.stderr) == (0, "")


def wav(rate: int = 16000) -> bytes:
    import io
    import wave

    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, rate, 0, "NONE", ""))
        sound.writeframes(bytes(2 * rate))
    return file.getvalue()


# --- import time


@pytest.mark.parametrize("words", [["--help"], *([verb, "--help"] for verb in VERBS)])
def test_help_loads_no_framework(words):
    heavy = "{'torch', 'numpy', 'soundfile', 'soxr', 'safetensors', 'transformers'}"
    code = f"import atexit, sys\natexit.register(lambda: print(sorted({heavy} & set(sys.modules))))\n"
    done = python(code + command(*words))
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "[]"


def test_importing_the_package_loads_no_framework():
    code = "import sys, neumo; neumo.Vocab.english(); neumo.Audio(rate=16000)"
    done = python(code + "; print([n for n in ('torch', 'numpy', 'rich', 'yaml') if n in sys.modules])")
    assert (done.stdout, done.stderr) == ("[]\n", "")


# --- compilers


def test_nothing_in_the_package_is_compiled():
    kinds = {path.suffix for path in (ROOT / "src").rglob("*") if path.is_file()}
    page = {".css", ".js"}  # what `neumo show` draws is looked at in a browser
    assert kinds <= {".py", ".pyc", ".typed", ".txt", ".md", ".yaml", *page}


def test_decoding_starts_no_other_program(model, tmp_path):
    """Greedy decoding is all there is; a beam search with a language model is not there yet."""
    (tmp_path / "a.wav").write_bytes(wav())
    code = (
        "import os, subprocess\n"
        "def no(*_, **__): raise AssertionError('a program was started')\n"
        "os.environ['PATH'] = ''\n"
        "import torch\n"  # looks for a compiler by itself while it is imported
        "subprocess.Popen.__init__ = os.system = no\n"
    )
    done = python(code + command("transcribe", str(model), str(tmp_path / "a.wav")))
    assert (done.returncode, done.stderr) == (0, "")
