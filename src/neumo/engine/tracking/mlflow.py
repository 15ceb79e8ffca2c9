"""Trainings in MLflow."""

from __future__ import annotations

import importlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from neumo.engine.tracking.tracker import Row, Tracker, settings_of

if TYPE_CHECKING:
    from neumo.engine.callbacks import Sample
    from neumo.engine.loop.run import Run


class MLflow(Tracker):
    """Writes figures and samples to a local store of MLflow.

    `MLflow(experiment="digits")` keeps all runs beside the run folder, `runs/mlflow.db` for a run in
    `runs/first`; `mlflow ui --backend-store-uri sqlite:///runs/mlflow.db` shows them. `uri` names another
    store: a database (`sqlite:///path`), a folder (`file:path`) or a server. Needs `pip install
    'neumo[mlflow]'`; the page is part of the package `mlflow`.
    """

    packages: ClassVar[tuple[str, ...]] = ("mlflow", "sqlalchemy", "alembic")
    extra: ClassVar[str] = "mlflow"

    def __init__(
        self, uri: str = "", *, experiment: str = "neumo", name: str = "", every_steps: int = 1
    ) -> None:
        super().__init__(every_steps=every_steps)
        self.uri = uri
        self.experiment = experiment
        self.name = name

    def open(self, run: Run, folder: Path, known: str) -> str:
        """Begin a run, or go on with it."""
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # which would use the network
        if self.uri.startswith("file:"):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # MLflow prefers databases
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        mlflow: Any = importlib.import_module("mlflow")
        entities: Any = importlib.import_module("mlflow.entities")
        beside = folder.resolve().parent
        self._metric: Any = entities.Metric
        self._client: Any = mlflow.MlflowClient(tracking_uri=self.uri or f"sqlite:///{beside / 'mlflow.db'}")
        if known:
            self._client.set_terminated(known, status="RUNNING")
            self._id = known
            return known
        found = self._client.get_experiment_by_name(self.experiment)
        place = None if self.uri else (beside / "mlflow-files").as_uri()
        which = found.experiment_id if found else self._client.create_experiment(self.experiment, place)
        made = self._client.create_run(which, run_name=self.name or folder.resolve().name)
        self._id = str(made.info.run_id)
        settings = {key: str(each)[:500] for key, each in settings_of(run).items() if each not in ("", None)}
        params = [entities.Param(key, text) for key, text in settings.items()]
        self._client.log_batch(self._id, params=params)
        return self._id

    def send(self, rows: list[Row]) -> None:
        """Write figures, as many at a time as MLflow takes."""
        metrics = [
            self._metric(name, float(figure), round(row.time * 1000), row.step)
            for row in rows
            for name, figure in row.figures.items()
        ]
        for start in range(0, len(metrics), 1000):
            self._client.log_batch(self._id, metrics=metrics[start : start + 1000])

    def send_sample(self, sample: Sample) -> None:
        """Keep a sample as an artifact."""
        self._client.log_artifact(self._id, str(sample.path), f"samples/{sample.path.parent.name}")

    def finish(self, ended: bool) -> None:
        """End the run."""
        self._client.set_terminated(self._id, status="FINISHED" if ended else "KILLED")
