"""Transducers in several processes: their networks are asked inside of other modules' calls."""

from __future__ import annotations

from typing import Any

import pytest

from neumo.asr import TDTLoss, TransducerGreedy
from neumo.engine import DDP, FSDP, Adam, NeuralFactory

from ..asr.transducer_toys import ABC, Voiced, networks, recognising, training
from .launch import run


def trained(strategy: Any = None) -> dict[str, Any]:
    prediction, joint = networks(durations=(0, 1, 2))
    factory = NeuralFactory(device="cpu", seed=3, progress=False, strategy=strategy)
    graph = training(prediction, joint, TDTLoss(ABC, durations=(0, 1, 2)), Voiced(words=24, batch_size=4))
    found = factory.train(graph, max_steps=4, batches_per_step=2, optimizer=Adam(lr=0.05))
    test = recognising(prediction, joint, TransducerGreedy(ABC), Voiced(words=8, batch_size=4))
    return {"losses": found.losses, "cer": factory.evaluate(test)["cer"]}


def in_two() -> dict[str, Any]:
    return {"ddp": trained(DDP()), "fsdp": trained(FSDP()), "kept": trained(FSDP(reshard=False))}


def test_the_losses_of_two_processes_are_those_of_one() -> None:
    alone = trained()
    for found in run(in_two, 2):
        for name, of in found.items():
            assert of["losses"] == pytest.approx(alone["losses"], rel=1e-4), name
            assert of["cer"] == pytest.approx(alone["cer"], abs=1e-6), name
