"""`neumo quickstart`: from nothing to a speech recogniser and its first transcript, in a few minutes."""

from __future__ import annotations

import json as json_text
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neumo.cli.picture import spectrogram
from neumo.cli.progress import progress_bar
from neumo.cli.threads import settle_threads
from neumo.types.errors import PortError

if TYPE_CHECKING:
    from neumo.asr.corpus import Corpus
    from neumo.cli.train import Outcome
    from neumo.engine.callbacks import Callback
    from neumo.graph.yaml import Recipe
    from neumo.hub.bundle import Model

GOOD = 0.02  # the word error rate that every seed tried stays below, by far
_MOST_THREADS = 1  # so small a network takes 1.3 times as long on two: 183 against 140 seconds for all of it


def quickstart(
    folder: Annotated[Path, typer.Option("--folder", help="Where it all goes.")] = Path("runs/quickstart"),
    seed: Annotated[int, typer.Option("--seed", help="Of corpus, weights and the order of batches.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")] = False,
) -> None:
    """Train a speech recogniser on generated speech and use it: the whole way, in a few minutes on a laptop.

    Needs no data and no download: the speech comes from espeak-ng, spoken digits in many voices. Exits with 1
    if the recogniser is worse than it should be.
    """
    from neumo.cli.train import MODEL
    from neumo.hub.bundle import load_model

    started = time.monotonic()
    threads = settle_threads(_MOST_THREADS)
    say = _silent if json else _say
    corpus = _corpus(folder, seed, say, bar=not json)
    recipe = _recipe(corpus, seed)
    say("\n2  A graph of typed modules, checked as it is composed: nothing has been computed yet\n")
    say(_indent(recipe.graph("train").text().rstrip()))
    say("\n3  What a wrong graph gets: the lengths of mel frames, for scores at half their rate\n")
    say(_indent(_refusal(recipe)))
    say(f"\n4  Training{_on(threads)}\n")
    outcome = _train(recipe, folder / f"run-{seed}", bar=not json)
    model = load_model(outcome.folder / MODEL, device="cpu")
    say(f"\n5  One file is the model: {model.path}, {_megabytes(outcome)}\n")
    say(_indent(model.card.text()))
    wer, cer = _evaluate(model, corpus, say)
    _transcribe(model, corpus, say)
    seconds = time.monotonic() - started
    say(_next(model, corpus, seconds))
    if json:
        figures = {"wer": wer, "cer": cer, "seconds": round(seconds, 1), **outcome.to_json()}
        typer.echo(json_text.dumps(figures, ensure_ascii=False, indent=2))
    if wer > GOOD:
        typer.echo(f"a WER of {wer:.1%} is worse than it should be (at most {GOOD:.0%})", err=True)
        raise typer.Exit(1)


def _corpus(folder: Path, seed: int, say: Callable[[str], None], *, bar: bool) -> Corpus:
    from neumo.asr.corpus import DigitCorpus, generate_digits

    settings = DigitCorpus(seed=seed)
    plan = settings.plan()
    voices = {split: len({utterance.voice for utterance in plan[split]}) for split in plan}
    say("1  A spoken corpus: strings of 3 to 7 digits, made with espeak-ng\n")
    with progress_bar("speaking", settings.train + settings.evaluate, shown=bar) as done:
        corpus = generate_digits(folder / f"corpus-{seed}", settings, progress=lambda n, _: done(n))
    minutes = {split: f"{60 * hours:.0f} minutes" for split, hours in corpus.hours.items()}
    say(f"   {settings.train} strings in {voices['train']} voices to learn from, {minutes['train']}")
    say(f"   {settings.evaluate} other strings in {voices['evaluate']} other voices to measure on")
    say(f"   {'found' if corpus.reused else 'made'} in {corpus.folder}")
    return corpus


def _recipe(corpus: Corpus, seed: int) -> Recipe:
    """The recipe that ships with neumo, on this corpus."""
    import neumo.asr
    from neumo.graph.yaml import load_recipe

    path = Path(neumo.asr.__file__).parent / "recipes" / "digits.yaml"
    places = {"data": corpus.train, "dev": corpus.evaluate}
    quoted = {name: json_text.dumps(str(manifest.resolve())) for name, manifest in places.items()}
    manifests = [f"modules.{name}.manifest={manifest}" for name, manifest in quoted.items()]
    return load_recipe(path, [*manifests, f"factory.seed={seed}", "train.checkpoint=false"])


def _refusal(recipe: Recipe) -> str:
    """Compose a graph that would train on the wrong frames in silence, and return what neumo says to it."""
    names = ("data", "mel", "encoder", "head", "loss")
    data, mel, encoder, head, loss = (recipe.modules[name] for name in names)
    batch = data()
    frames = mel(audio=batch.audio, audio_len=batch.audio_len)
    states = encoder(mel=frames.mel, mel_len=frames.mel_len)
    scores = head(encoded=states.encoded)
    given = {"targets": batch.text, "targets_len": batch.text_len}
    try:
        loss(log_probs=scores.log_probs, log_probs_len=frames.mel_len, **given)
    except PortError as error:
        return error.render()
    raise AssertionError("a wrong graph was accepted")


def _train(recipe: Recipe, folder: Path, *, bar: bool) -> Outcome:
    from neumo.cli.train import train_recipe

    callbacks = [_display()] if bar else []
    return train_recipe(
        recipe, folder, name="digits", say=_silent, progress=False, resume="never", callbacks=callbacks
    )


def _display() -> Callback:
    """One line an epoch, about what matters here, and the bar."""
    from neumo.engine.loop.run import Run
    from neumo.engine.tracking import Progress

    class Display(Progress):
        def on_epoch_end(self, run: Run) -> None:
            row = run.history[-1]
            self.say(
                f"   epoch {run.epoch + 1} of {run.epochs}   loss {row['loss']:7.3f}"
                f"   WER {row['wer']:7.2%}   {run.seconds:4.0f} s"
            )

    return Display()


def _evaluate(model: Model, corpus: Corpus, say: Callable[[str], None]) -> tuple[float, float]:
    from neumo.cli.evaluate import measure, summary
    from neumo.data.manifest import read_manifest

    say("\n6  How good it is on unseen strings in unseen voices\n")
    words, characters = measure(model.transcriber(), read_manifest(corpus.evaluate))
    say(_indent(summary(words, characters)))
    return words.rate, characters.rate


def _transcribe(model: Model, corpus: Corpus, say: Callable[[str], None]) -> None:
    from neumo.data.audio import read_audio
    from neumo.data.manifest import read_manifest

    entry = read_manifest(corpus.evaluate)[0]
    wave = read_audio(entry.audio)
    (transcript,) = model.transcribe(entry.audio)
    say(f"\n7  One recording of {wave.seconds:.1f} seconds ({entry.speaker})\n")
    say(_indent(spectrogram(wave.samples, wave.rate)))
    audio = os.path.relpath(entry.audio)
    say(f"\n   $ {_command()} transcribe {model.path} {audio}\n   {transcript.text}")


def _next(model: Model, corpus: Corpus, seconds: float) -> str:
    recipe = (model.path or Path()).with_name("recipe.yaml")
    manifests = f'"modules.data.manifest=[{corpus.train}, my.jsonl]"'
    line = '{"audio_filepath": "my.wav", "text": "four two"}'
    return (
        f"\nAll of it took {seconds:.0f} seconds. With your own recordings:\n"
        f"  1  say some digits:  {_command()} transcribe {model.path} my.wav\n"
        f"  2  write my.jsonl, a line for each recording:  {line}\n"
        f"  3  learn from both:  {_command()} train {recipe} --folder runs/my {manifests}"
    )


def _command() -> str:
    """How this command is called here: by its name where the shell finds it, else by its path."""
    found = shutil.which("neumo")
    called = Path(sys.argv[0])
    if called.name != "neumo" or (found is not None and Path(found).resolve() == called.resolve()):
        return "neumo"
    return os.path.relpath(called)


def _on(threads: int | None) -> str:
    if threads is None:
        return ""
    return f" on {threads} threads" if threads > 1 else " on one thread"


def _megabytes(outcome: Outcome) -> str:
    return f"{outcome.model.stat().st_size / 1e6:.1f} MB" if outcome.model else "0 MB"


def _indent(text: str) -> str:
    return "\n".join(f"   {line}" if line else "" for line in text.split("\n"))


def _say(text: str) -> None:
    """Print; letters that the terminal cannot show come as question marks, not as a crash."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    typer.echo(text.encode(encoding, "replace").decode(encoding))


def _silent(_text: str) -> None:
    """Print nothing: the steps of the quickstart tell it in their own words."""
