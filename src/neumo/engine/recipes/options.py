"""What a recipe tells a training: the arguments of `NeuralFactory.train`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from neumo.engine.callbacks import Callback, Checkpoint, EarlyStop, Evaluate
from neumo.engine.loop.options import TrainOptions
from neumo.engine.recipes.beside import check_average, make_callbacks
from neumo.engine.recipes.settings import Actions, CheckpointSettings, EvaluateSettings, usual_graph
from neumo.graph.yaml import Recipe
from neumo.types.errors import ConfigError


def training_options(
    recipe: Recipe, actions: Actions, resume: str | Path | None = None, callbacks: Sequence[Callback] = ()
) -> TrainOptions:
    """Make the arguments of `NeuralFactory.train` out of a recipe."""
    settings = actions.train
    stops = [EarlyStop(**values_of(settings.early_stop))] if settings.early_stop is not None else []
    checkpoint = settings.checkpoint
    if settings.average is not None:
        if actions.evaluate.checkpoint == "best":
            raise ConfigError(
                "train.average: the mean of checkpoints is left at the end, and evaluate.checkpoint asks for "
                "the best one",
                code="average",
                fixes=["evaluate: {checkpoint: last}", "leave out average"],
            )
        kept = checkpoint if isinstance(checkpoint, CheckpointSettings) else CheckpointSettings()
        judged = any(each.best is not None for each in settings.evaluations(recipe))
        check_average(settings.average, keep_last=kept.keep_last, keep_best=kept.keep_best, judged=judged)
    trained = recipe.graph(settings.graph or usual_graph(recipe, "train"))
    return TrainOptions(
        loss=settings.loss,
        optimizer=actions.optimizer,
        schedule=actions.schedule,
        epochs=settings.epochs,
        max_steps=settings.max_steps,
        max_minutes=settings.max_minutes,
        batches_per_step=settings.batches_per_step,
        clip=settings.clip,
        larc=settings.larc,
        ema=settings.ema,
        loss_scale=settings.loss_scale,
        evaluate=[_evaluation(recipe, each) for each in settings.evaluations(recipe)],
        checkpoint=Checkpoint(**values_of(checkpoint))
        if isinstance(checkpoint, CheckpointSettings)
        else checkpoint,
        resume=resume if resume is not None else settings.resume,
        nonfinite=settings.nonfinite,
        bad_limit=settings.bad_limit,
        callbacks=[*callbacks, *stops, *make_callbacks(recipe, settings, trained)],
        phases=actions.phases,
        alternate=settings.alternate,
    )


def _evaluation(recipe: Recipe, settings: EvaluateSettings) -> Evaluate:
    given: dict[str, Any] = {**values_of(settings), "graph": recipe.graph(settings.graph)}
    return Evaluate(**given)


def values_of(settings: Any) -> dict[str, Any]:
    """Give the fields of settings by name, those inside as they are."""
    return {field.name: getattr(settings, field.name) for field in fields(settings)}
