"""What a precision costs in word errors: the AN4 recipe in each, measured on speakers that it has not heard.

    OMP_NUM_THREADS=1 python benchmarks/precision_wer.py --precisions fp32 bf16 --seeds 1 2 3
    OMP_NUM_THREADS=1 python benchmarks/precision_wer.py --precisions fp32 fp16 --tensor-cores

Trainings with the same seed start from the same weights and see the same batches. Hold the difference against
that between seeds: a training in another precision is another training after a few steps. On a CPU fp16
crawls (minutes for 10 steps), so that it is refused for more than a few epochs; `--tensor-cores` computes its
products as a GPU does (see tensor_cores.py), at the speed of fp32.
"""

from __future__ import annotations

import argparse
import statistics
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from neumo.engine.recipes import make_factory, run_train
from neumo.graph.yaml import load_recipe

RECIPE = Path(__file__).parent.parent / "examples" / "asr_an4" / "recipe.yaml"
FP16_EPOCHS = 3  # on a CPU, where an epoch in fp16 takes minutes


@dataclass(frozen=True)
class Outcome:
    """What came of one training: error rates in per cent, the mean loss of the last epoch, and its length."""

    precision: str
    seed: int
    wer: float
    cer: float
    loss: float
    seconds: float
    skipped: int


def train(recipe: Path, precision: str, seed: int, length: str, rounded: bool) -> Outcome:
    """Train the recipe in one precision for "epochs=3" or "steps=10", and evaluate it at the end."""
    from tensor_cores import tensor_cores

    unit, _, number = length.partition("=")
    changes = [f"train.evaluate={{every_{unit}: {number}, best: wer}}"] if number else []
    changes += [f"train.{'max_steps' if unit == 'steps' else unit}={number}"] if number else []
    loaded = load_recipe(recipe, changes)
    allow = ("fp16-on-cpu",) if precision in ("fp16", "O1", "O2") else ()
    factory = make_factory(loaded, precision=precision, seed=seed, folder=None, allow=allow)
    print(factory.describe())
    with tensor_cores() if rounded else nullcontext():
        result = run_train(loaded, factory=factory)
    figures = result.metrics
    return Outcome(
        precision,
        seed,
        100 * figures["wer"],
        100 * figures["cer"],
        result.history[-1]["loss"],
        result.seconds,
        len(result.skipped),
    )


def table(outcomes: list[Outcome], reference: str) -> str:
    """Lay the outcomes out, and the mean difference of each precision to the reference, seed by seed."""
    rows = [f"{'precision':<10} {'seed':>4} {'WER %':>7} {'CER %':>7} {'loss':>8} {'s':>7} {'bad steps':>9}"]
    rows += [
        f"{one.precision:<10} {one.seed:>4} {one.wer:>7.2f} {one.cer:>7.2f} {one.loss:>8.4f} "
        f"{one.seconds:>7.1f} {one.skipped:>9}"
        for one in outcomes
    ]
    by_seed = {one.seed: one for one in outcomes if one.precision == reference}
    for precision in dict.fromkeys(one.precision for one in outcomes if one.precision != reference):
        pairs = [
            (one, by_seed[one.seed]) for one in outcomes if one.precision == precision and one.seed in by_seed
        ]
        if pairs:
            points = [one.wer - other.wer for one, other in pairs]
            spread = f", from {min(points):+.2f} to {max(points):+.2f}" if len(points) > 1 else ""
            rows.append(f"{precision} - {reference}: {statistics.mean(points):+.2f} points of WER{spread}")
    return "\n".join(rows)


def main() -> None:
    """Train in each precision with each seed and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--precisions", nargs="+", default=["fp32", "bf16"], help="the first is the reference"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--epochs", type=int, help="those of the recipe, if not given")
    parser.add_argument("--steps", type=int, help="instead of whole epochs")
    parser.add_argument("--tensor-cores", action="store_true", help="compute fp16 products as a GPU does")
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    asked = parser.parse_args()
    import torch

    halves = {"fp16", "O1", "O2"} & set(asked.precisions)
    short = asked.steps or (asked.epochs and asked.epochs <= FP16_EPOCHS)
    if halves and not torch.cuda.is_available() and not short and not asked.tensor_cores:
        parser.error(f"fp16 on a CPU crawls: give --steps 10, or --epochs {FP16_EPOCHS} or fewer")
    length = f"steps={asked.steps}" if asked.steps else f"epochs={asked.epochs}" if asked.epochs else ""
    outcomes = [
        train(asked.recipe, precision, seed, length, asked.tensor_cores and precision in halves)
        for seed in asked.seeds
        for precision in asked.precisions
    ]
    print(table(outcomes, asked.precisions[0]))


if __name__ == "__main__":
    main()
