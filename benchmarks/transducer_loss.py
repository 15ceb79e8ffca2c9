"""Time and memory of a transducer's loss and gradient: with the scores of all nodes, and piece by piece.

    OMP_NUM_THREADS=1 python benchmarks/transducer_loss.py
    OMP_NUM_THREADS=1 python benchmarks/transducer_loss.py --batch 4 --frames 400 --labels 80 --vocab 1024

"all nodes" computes the scores (B, T, U + 1, V) with autograd and gives them to the exact loss. "lean" is
the loss of the package at several settings of `memory`. Both have the same networks and targets, with lengths
between a half and the whole, and take turns; losses and gradients are compared first. Memory is the highest
sum of what the allocator holds, above what was there before; time is that of this process, the median over
the rounds. Ratios are those to "all nodes".
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from neumo.asr import JointNetwork, PredictionNetwork, TransducerLoss
from neumo.asr.torch.transducer import Lattice
from neumo.asr.torch.transducer_loss import transducer_losses
from neumo.backends.torch.registry import build
from neumo.types import Vocab

MEMORIES = (1.0, 16.0, 256.0)


class Case:
    """Networks and a batch, and the loss computed in several ways."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(0)
        B, T, U = options.batch, options.frames, options.labels
        self.vocab = Vocab([f"label {n}" for n in range(options.vocab)])
        self.prediction = build(PredictionNetwork(self.vocab, width=options.width))
        self.joint = build(JointNetwork(self.vocab, options.width, options.width, options.width))
        self.encoded = torch.randn(B, options.width, T)
        self.frames = torch.linspace(T / 2, T, B).long()
        self.targets = torch.randint(options.vocab, (B, U))
        self.targets_len = torch.linspace(U / 2, U, B).long()

    def lattice(self) -> Lattice:
        """The scores, of which nothing is computed yet."""
        return self.joint(self.encoded, self.prediction())

    def all_nodes(self) -> Tensor:
        """The loss by the scores of all nodes."""
        scores = self.lattice().scores(self.targets)
        return transducer_losses(scores, self.targets, self.frames, self.targets_len).mean()

    def lean(self, memory: float) -> Callable[[], Tensor]:
        """The loss piece by piece."""
        module = build(TransducerLoss(self.vocab, memory=memory))
        return lambda: module(self.lattice(), self.frames, self.targets, self.targets_len).loss

    def step(self, loss: Callable[[], Tensor]) -> float:
        """Compute a loss and all gradients."""
        for module in (self.prediction, self.joint):
            module.zero_grad(set_to_none=True)
        found = loss()
        found.backward()
        return float(found.detach())

    def gradients(self) -> Tensor:
        """All gradients as one row."""
        weights = [*self.prediction.parameters(), *self.joint.parameters()]
        return torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])


def peak_bytes(run: Callable[[], object]) -> int:
    """The highest sum of what the allocator holds while something runs, above what it held before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    events = sorted(
        (event.start_ns(), event.nbytes())
        for event in seen.profiler.kineto_results.events()
        if event.name() == "[memory]"
    )
    held = most = 0
    for _, change in events:
        held += change
        most = max(most, held)
    return most


def main() -> None:
    """Print one line for each way."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("batch", 8), ("frames", 200), ("labels", 40), ("vocab", 128), ("width", 128)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    case = Case(options)
    ways = {"all nodes": case.all_nodes} | {f"lean, {m:g} MB": case.lean(m) for m in MEMORIES}
    expected = case.step(case.all_nodes)
    gradient = case.gradients()
    for name, loss in ways.items():
        off = abs(case.step(loss) / expected - 1)
        apart = float((case.gradients() - gradient).norm() / gradient.norm())
        assert off < 1e-5, f"{name}: the loss is off by {off:.1e}"
        assert apart < 1e-4, f"{name}: the gradients are {apart:.1e} apart"
    bytes_ = {name: peak_bytes(lambda loss=loss: case.step(loss)) for name, loss in ways.items()}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, loss in ways.items():
            start = time.process_time()
            case.step(loss)
            seconds[name].append(time.process_time() - start)
    sizes = " ".join(
        f"{key}={getattr(options, key)}" for key in ("batch", "frames", "labels", "vocab", "width")
    )
    print(f"{sizes}, {torch.get_num_threads()} thread(s)")
    base = statistics.median(seconds["all nodes"])
    for name in ways:
        took, held = statistics.median(seconds[name]), bytes_[name]
        print(
            f"{name:14} {1000 * took:8.1f} ms  x {took / base:.2f}   "
            f"peak {held / 1e6:8.1f} MB  x {held / bytes_['all nodes']:.3f}"
        )


if __name__ == "__main__":
    main()
