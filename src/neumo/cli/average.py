"""`neumo average`: the mean of the weights of several checkpoints."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated

import typer


def average(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder with checkpoints.", show_default=False)
    ],
    last: Annotated[
        int | None, typer.Option("--last", metavar="N", help="Of the N newest checkpoints; 5 if not said.")
    ] = None,
    best: Annotated[
        int | None, typer.Option("--best", metavar="N", help="Of the N with the best figures.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The file to write; else averaged.safetensors in RUN.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Average the weights of checkpoints of one run, and write them to a file.

    Weights and statistics are averaged in double precision, counters are those of the newest checkpoint. A
    recipe leaves such a mean at the end of its training with `train: {average: {last: 5}}`.
    """
    from neumo.engine.checkpoints.average import average_checkpoints, choose_checkpoints

    chosen = [path.name for path in choose_checkpoints(folder, last=last, best=best)]
    path = average_checkpoints(folder, last=last, best=best, out=out)
    if json:
        typer.echo(json_text.dumps({"file": str(path), "checkpoints": chosen}, ensure_ascii=False))
    else:
        typer.echo(f"the mean of {', '.join(chosen)} is in {path}")
