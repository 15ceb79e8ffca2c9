"""What the plan and the training step cost over the same modules called by hand, at the sizes of AN4.

    OMP_NUM_THREADS=1 python benchmarks/plan_overhead.py

Both sides use the same module objects and the same batch, take turns, and are measured in CPU time of this
process; the figure is the median of the ratios of neighbours. Target: at most 1.02.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from neumo.asr.modules import ConvEncoder, CTCHead, CTCLoss, MelSpectrogram
from neumo.backends.torch.session import TorchSession
from neumo.engine import AdamW, compile_plan
from neumo.engine.backend import Setup, TrainingSetup
from neumo.engine.checks.verify import FIRST_STEPS, make_guards
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.types import Audio, B, Ids, Lengths, T, U, Vocab

TARGET = 1.02


def an4_graph() -> Graph:
    """The training graph of AN4 with open inputs in the place of the data."""
    vocab = Vocab.english()
    batch = inputs(
        audio=Audio(rate=16000, peak=1.0, channels=1)[B, T],
        audio_len=Lengths(T)[B],
        text=Ids(vocab)[B, U],
        text_len=Lengths(U)[B],
    )
    encoder = ConvEncoder.preset("an4").named("encoder")
    width = encoder.blocks[-1].width
    mel = MelSpectrogram(n_mels=64).named("mel")(audio=batch.audio, audio_len=batch.audio_len)
    encoded = encoder(mel=mel.mel, mel_len=mel.mel_len)
    scores = CTCHead(vocab, width=width).named("head")(encoded=encoded.encoded)
    loss = CTCLoss(vocab).named("loss")(
        log_probs=scores.log_probs,
        log_probs_len=encoded.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    return Graph("an4", "train", {"loss": loss.loss})


def an4_batch(size: int) -> dict[str, torch.Tensor]:
    """Noise of up to 3 seconds with texts of 20 letters."""
    generator = torch.Generator().manual_seed(0)
    audio = torch.rand(size, 48000, generator=generator) - 0.5
    lengths = torch.randint(32000, 48001, (size,), generator=generator)
    text = torch.randint(0, 28, (size, 20), generator=generator)
    return {"audio": audio, "audio_len": lengths, "text": text, "text_len": torch.full((size,), 20)}


def compare(one: Callable[[], object], other: Callable[[], object], rounds: int) -> tuple[float, float]:
    """The median ratio of neighbouring runs, and the median milliseconds of `other`."""
    for _ in range(2):
        one()
        other()
    ratios: list[float] = []
    base: list[float] = []
    for number in range(rounds):
        pair = [(one, 0), (other, 1)] if number % 2 else [(other, 1), (one, 0)]
        spent = [0.0, 0.0]
        for function, place in pair:
            start = time.process_time()
            function()
            spent[place] = time.process_time() - start
        ratios.append(spent[0] / spent[1])
        base.append(1000 * spent[1])
    return statistics.median(ratios), statistics.median(base)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--batch", type=int, default=16)
    options = parser.parse_args()
    graph, batch = an4_graph(), an4_batch(options.batch)
    session = TorchSession(Setup(device="cpu", seed=1))
    plan = compile_plan(graph)
    bare = session.program(plan)
    guarded = session.program(plan, make_guards(plan, "always", session.to_numpy))
    first = session.program(plan, make_guards(plan, "first", session.to_numpy))
    feeds = [batch[feed.port] for feed in plan.feeds]
    mel, encoder, head, loss = (
        session.implementation(graph.modules[n]) for n in ("mel", "encoder", "head", "loss")
    )

    def forward() -> torch.Tensor:
        spectra, frames = mel(batch["audio"], batch["audio_len"])
        encoded, length = encoder(spectra, frames)
        return loss(head(encoded), length, batch["text"], batch["text_len"])[0]

    trainer = session.trainer(bare, plan, TrainingSetup(loss="loss", optimizer=AdamW(lr=1e-4), clip=1.0))
    weights = list(trainer.parameters.values())
    optimizer = torch.optim.AdamW(weights, lr=1e-4, fused=True)

    def step_by_hand() -> float:
        torch.default_generator.manual_seed(1)
        value = forward()
        value.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return value.item()

    with torch.no_grad():
        plan_ratio, forward_ms = compare(lambda: bare(feeds), forward, options.rounds)
        guard_ratio, _ = compare(lambda: guarded(feeds), forward, options.rounds)
        for _ in range(FIRST_STEPS + 1):
            first(feeds)  # from here on it has swapped itself for the bare plan
        first_ratio, _ = compare(lambda: first(feeds), lambda: bare(feeds), options.rounds)
        always_ratio, _ = compare(lambda: guarded(feeds), lambda: bare(feeds), options.rounds)
        noise, _ = compare(lambda: forward(), forward, options.rounds)

    def step_of_the_engine() -> float:
        trainer.accumulate(feeds, seed=1, weight=float(options.batch), reference=1.0, last=True)
        return trainer.apply(1.0).loss

    step_ratio, step_ms = compare(step_of_the_engine, step_by_hand, options.rounds)
    print(f"batch {options.batch} x 3 s by hand: forward {forward_ms:.1f} ms, training step {step_ms:.1f} ms")
    ratios = {"plan": plan_ratio, "plan, guards on every value": guard_ratio, "training step": step_ratio}
    for name, ratio in ratios.items():
        print(f"{name:<28}{ratio:.3f} of the time by hand (target {TARGET})")
    print(f"{'verify=first, later steps':<28}{first_ratio:.3f} of the time of the bare plan (target 1.00)")
    print(f"{'verify=always':<28}{always_ratio:.3f} of the time of the bare plan (target 1.05)")
    print(f"{'by hand, against itself':<28}{noise:.3f}: the noise of this machine")


if __name__ == "__main__":
    main()
