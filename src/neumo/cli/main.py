"""The command `neumo`: finds the verb, loads only its module, and turns errors into messages and exit codes.

Exit codes: 0 it worked, 1 it did not (the message says why), 2 the command line is wrong, 70 a bug, 130
interrupted, 143 ended by SIGTERM.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from neumo.types.errors import BackendError, ConfigError, NeumoError

# verb: (module that defines a function of that name, what `neumo --help` says about it)
VERBS: Final[dict[str, tuple[str, str]]] = {
    "quickstart": ("neumo.cli.quickstart", "Train a recogniser on generated speech, from start to end."),
    "check": ("neumo.cli.check", "Check the graphs of a recipe; needs no framework and no data."),
    "show": ("neumo.cli.show", "Draw the graphs of a recipe as text, Mermaid, SVG or HTML."),
    "describe": ("neumo.cli.describe", "Describe modules: what they take and give, their settings."),
    "explain": ("neumo.cli.explain", "Explain the code of an error by a wrong and a right example."),
    "data": ("neumo.cli.data", "Prepare, check and describe data: corpora, manifests, vocabularies."),
    "train": ("neumo.cli.train", "Train the graph of a recipe, or go on with a run."),
    "average": ("neumo.cli.average", "Average the weights of checkpoints of a run."),
    "evaluate": ("neumo.cli.evaluate", "Measure a trained model on a data set."),
    "transcribe": ("neumo.cli.transcribe", "Turn recordings into text with a trained model."),
}
FAILED, USAGE, INTERNAL, INTERRUPTED = 1, 2, 70, 130
_OF_USAGE: Final = ("launch", "max-time", "option", "override")  # codes of errors in a command line
_OF_TRAINING: Final = ("train", "evaluate", "average")  # verbs that take settings of factory and training
_EXTRAS: Final = {
    "torch": "torch",
    "safetensors": "torch",
    "numpy": "torch,asr",
    "soundfile": "asr",
    "soxr": "asr",
    "sentencepiece": "asr",
    "espeakng_loader": "tts",
}
_ALL_OF_A_VERB: Final = {  # so that nobody learns of one package after the other
    "quickstart": "torch,tts",
    "data": "asr",
    "train": "torch,asr",
    "evaluate": "torch,asr",
    "transcribe": "torch,asr",
}


class _Interrupted(Exception):
    """Ctrl-C, on its way past typer, which has its own idea of the exit code."""


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command with the given words, those of the process by default, and exit.

    What goes wrong is shown on stderr without a traceback (`--debug` adds it), or on stdout as JSON with
    `--json`.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = _take_flag(words, "--debug")
    try:
        for name in _take_values(words, "--import"):
            _import(name)
        _app(words)(words, prog_name="neumo")
    except NeumoError as error:
        if (verb := verb_of(words)) in _OF_TRAINING:
            from neumo.cli.words import in_words_of_the_command

            in_words_of_the_command(error, verb or "")
        code = USAGE if error.code in _OF_USAGE else FAILED
        if verb_of(words) == "train" and _is_told_to_the_launcher(words, error, code):
            sys.exit(code)
        _leave(words, code, error.render(), error.to_json(), debug)
    except (_Interrupted, KeyboardInterrupt):
        _leave(words, INTERRUPTED, "interrupted", {"error": "Interrupted"}, debug)
    except BrokenPipeError:
        _close_pipe()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRAS:
            _leave_by_a_bug(words, error, debug)
        absent = _missing_package(verb_of(words) or "", error)
        _leave(words, FAILED, absent.render(), absent.to_json(), debug)
    except OSError as error:
        _leave(words, FAILED, f"neumo: {error}", {"error": type(error).__name__, "what": str(error)}, debug)
    except Exception as error:
        _leave_by_a_bug(words, error, debug)
    sys.exit(0)


def _is_told_to_the_launcher(words: Sequence[str], error: NeumoError, code: int) -> bool:
    """Leave an error to the launcher of a training in several processes, which shows it once.

    What follows from the end of another process is not worth showing: that one tells why.
    """
    from neumo.engine.processes.launch import give_up, launched_by_neumo

    if error.code in ("join", "peer-lost"):
        return launched_by_neumo() and "--debug" not in words
    return give_up(error.to_json(), error.render(), code)


def verb_of(words: Sequence[str]) -> str | None:
    """Find the verb among the words of a command line: the first that is no option.

    >>> verb_of(["check", "recipe.yaml", "--json"])
    'check'
    """
    return next((word for word in words if not word.startswith("-")), None)


def _app(words: Sequence[str]) -> typer.Typer:
    """Make the application with the real function of the verb that runs, and one line for each other verb."""
    app = typer.Typer(
        help="Speech and language models out of typed neural modules.",
        epilog="Start with: neumo quickstart. Each verb explains itself: neumo check --help",
        rich_markup_mode=None,  # plain text: 60 ms faster, and the same in a pipe
        pretty_exceptions_enable=False,
        add_completion=False,
        no_args_is_help=True,
    )
    app.callback()(_main_options)
    wanted = verb_of(words)
    for verb, (module, line) in VERBS.items():
        if verb == wanted:
            _add(app, verb, line, _load(verb, module))
        else:
            app.command(verb, help=line)(_absent)
    return app


def _add(app: typer.Typer, verb: str, line: str, found: Callable[..., Any] | typer.Typer) -> None:
    """Add a verb that is a function, or one that has verbs of its own."""
    if not isinstance(found, typer.Typer):
        app.command(verb, short_help=line)(_passing_interrupts(found))
        return
    for command in found.registered_commands:
        if command.callback is not None:
            command.callback = _passing_interrupts(command.callback)
    app.add_typer(found, name=verb, short_help=line)


def _main_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=lambda on: _version(on)
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error was raised.")] = False,
    imports: Annotated[
        str,
        typer.Option("--import", metavar="MODULE", help="Import a module (or file.py) that defines modules."),
    ] = "",
) -> None:
    """Declare the options of all verbs; `run` takes the last two out before, wherever they stand."""


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("neumo")
        except PackageNotFoundError:
            found = "(not installed)"
        typer.echo(f"neumo {found}")
        raise typer.Exit


def _absent() -> None:
    """Stand in for a verb that does not run now."""


def _passing_interrupts(verb: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(verb)
    def passing(*words: Any, **options: Any) -> Any:
        try:
            return verb(*words, **options)
        except KeyboardInterrupt:
            raise _Interrupted from None

    return passing


def _load(verb: str, module: str) -> Callable[..., Any] | typer.Typer:
    try:
        return getattr(importlib.import_module(module), verb)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "neumo":
            raise ConfigError(f"this installation has no `neumo {verb}`", code="verb") from error
        raise _missing_package(verb, error) from error


def _missing_package(verb: str, error: ModuleNotFoundError) -> BackendError:
    missing = (error.name or "").partition(".")[0]
    extras = _ALL_OF_A_VERB.get(verb, _EXTRAS.get(missing, "asr"))
    return BackendError(
        f"`neumo {verb}` needs the package {missing}, which is not installed",
        code="missing-package",
        fixes=[f'pip install "neumo[{extras}]"'],
    )


def _import(name: str) -> None:
    """Import a module of the user's, so that recipes can use the classes that it defines."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        if name.endswith(".py"):
            _import_file(Path(name))
        else:
            importlib.import_module(name)
    except NeumoError:
        raise
    except Exception as error:
        what = f"--import {name} failed: {type(error).__name__}: {error}"
        raise ConfigError(what, code="import", fixes=["add --debug to see where"]) from error


def _import_file(path: Path) -> None:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:  # pragma: no cover - any name that ends in .py has one
        raise ConfigError(f"{path} is no Python file", code="import")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)


def _take_flag(words: list[str], flag: str) -> bool:
    found = flag in words
    words[:] = [word for word in words if word != flag]
    return found


def _take_values(words: list[str], option: str) -> list[str]:
    """Take `--import x` and `--import=x` out of the words, wherever they stand."""
    values: list[str] = []
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == option:
            values.append(next(rest, ""))
        elif word.startswith(f"{option}="):
            values.append(word.partition("=")[2])
        else:
            kept.append(word)
    words[:] = kept
    return [value for value in values if value]


def _leave(words: Sequence[str], code: int, text: str, data: dict[str, Any], debug: bool) -> NoReturn:
    try:
        if debug:
            import traceback

            traceback.print_exc()
        if "--json" in words:
            print(json.dumps({"ok": False, **data}, ensure_ascii=False, indent=2, default=str))
        else:
            print(text, file=sys.stderr)
        sys.stdout.flush()
    except BrokenPipeError:
        _close_pipe()
    sys.exit(code)


def _leave_by_a_bug(words: Sequence[str], error: Exception, debug: bool) -> NoReturn:
    what = f"{type(error).__name__}: {error}"
    hint = "This is a bug in neumo or in a module of yours; add --debug to see where."
    _leave(words, INTERNAL, f"neumo: {what}\n{hint}", {"error": "internal", "what": what}, debug)


def _close_pipe() -> NoReturn:
    """Leave quietly when nobody reads on; stdout is pointed elsewhere so that its last flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(FAILED)
