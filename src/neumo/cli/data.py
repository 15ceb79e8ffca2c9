"""`neumo data`: what is done with data before a training. Each sub-command has a file of its own."""

from __future__ import annotations

import typer

from neumo.cli.data_kaldi import kaldi
from neumo.cli.data_lm import lm
from neumo.cli.data_prepare import prepare
from neumo.cli.data_validate import validate
from neumo.cli.data_vocab import vocab

data = typer.Typer(
    help="Prepare, check and describe data: corpora, manifests, vocabularies.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
data.command("prepare")(prepare)
data.command("validate")(validate)
data.command("vocab")(vocab)
data.command("kaldi")(kaldi)
data.command("lm")(lm)
