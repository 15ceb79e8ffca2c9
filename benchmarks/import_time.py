"""What importing neumo costs over an empty interpreter, and how long `neumo --help` takes.

    python benchmarks/import_time.py

Runs take turns; the figures are medians of wall time, which a busy machine stretches: read the ratios.
Targets: 60 ms over an empty interpreter, `--help` under 500 ms, neither torch nor numpy loaded.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "empty interpreter": ["-c", "pass"],
    "import neumo": ["-c", "import neumo"],
    "import neumo, compose": ["-c", "import neumo; neumo.Audio(rate=16000)[neumo.B, neumo.T]"],
    "import neumo.engine": ["-c", "import neumo.engine"],
    "neumo --help": ["-m", "neumo.cli.main", "--help"],
}
CHECK = "import sys, neumo; print([name for name in ('torch', 'numpy') if name in sys.modules])"


def seconds(arguments: list[str]) -> float:
    """How long one interpreter runs."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    spent: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(options.rounds):
        for name, arguments in COMMANDS.items():
            spent[name].append(seconds(arguments))
    empty = statistics.median(spent["empty interpreter"])
    for name, values in spent.items():
        median = statistics.median(values)
        over = 1000 * (median - empty)
        print(f"{name:<24}{1000 * median:7.1f} ms  +{over:6.1f} ms  {median / empty:5.2f} x empty")
    loaded = subprocess.run(
        [sys.executable, "-c", CHECK], check=True, capture_output=True, text=True
    ).stdout.strip()
    print(f"loaded by `import neumo`: {loaded}")


if __name__ == "__main__":
    main()
