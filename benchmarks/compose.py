"""How long it takes to compose and check 100 connections.

    python benchmarks/compose.py

Every call of the chain connects three ports whose sizes are arithmetic over the same symbols. Target: 15 ms,
and at most 1.5 times as much per connection for a graph of a thousand connections. A graph of 1,000 modules
with 3,000 connections is composed, named and held against all rules in at most 500 ms.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, F, Lengths, T

TARGET_MS = 15.0
LARGE_MS = 500.0


@dataclass(frozen=True)
class Layer(NeuralModule):
    """A strided layer with lengths and a skip connection."""

    width: int = 64

    def signature(self) -> Signature:
        frames = T.ceildiv(2) * 2
        return Signature(
            takes={
                "x": Acoustic()[B, F(self.width), T],
                "x_len": Lengths(T)[B],
                "skip": Acoustic()[B, F(self.width), T],
            },
            gives={"y": Acoustic()[B, F(self.width), frames], "y_len": Lengths(frames)[B]},
        )


def compose(connections: int) -> Graph:
    """A chain of layers with this many connections."""
    opened = inputs(x=Acoustic()[B, F(64), T], x_len=Lengths(T)[B])
    value, length = opened.x, opened.x_len
    for _ in range(round(connections / 3)):
        value, length = Layer()(x=value, x_len=length, skip=value)
    return Graph(outputs={"y": value})


def check(connections: int) -> None:
    """Compose a chain and hold it against the rules of whole graphs."""
    compose(connections).findings()


def milliseconds(work: Callable[[int], object], connections: int, rounds: int) -> float:
    """The median CPU time of composing or checking."""
    spent: list[float] = []
    for _ in range(rounds):
        start = time.process_time()
        work(connections)
        spent.append(1000 * (time.process_time() - start))
    return statistics.median(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    compose(100)
    few = max(options.rounds // 5, 3)
    short, long = milliseconds(compose, 100, options.rounds), milliseconds(compose, 1000, few)
    large = milliseconds(check, 3000, few)
    print(f"100 connections   {short:.1f} ms, {short / TARGET_MS:.2f} of the target of {TARGET_MS:.0f} ms")
    print(f"1000 connections  {long:.1f} ms, {long / short / 10:.2f} times as much per connection")
    share = large / LARGE_MS
    print(f"3000 connections  {large:.0f} ms with all rules, {share:.2f} of the target of {LARGE_MS:.0f} ms")


if __name__ == "__main__":
    main()
