"""Options that change nothing in a training are noted, before it begins."""

from neumo.engine import Cosine, NeuralFactory

from .toys import PointData, line_graphs


def notes(precisions=None, **options):
    graph, _ = line_graphs(PointData(points=40, batch_size=8))
    maker = NeuralFactory(device="cpu", seed=1, progress=False, precisions=precisions)
    found = maker.train(graph, **{"epochs": 2, **options}).notes
    return [note for note in found if "CPU" not in note]


def test_a_warm_up_that_is_longer_than_the_training():
    assert notes(schedule=Cosine(warmup_steps=11)) == [
        "Cosine: the warm-up takes 11 steps, and the training has 10: the full rate is never reached"
    ]
    assert notes(schedule=Cosine(warmup_steps=10)) == []
    assert notes(schedule=lambda step: 1.0) == []


def test_more_batches_in_a_step_than_an_epoch_has():
    assert notes(batches_per_step=100) == ["batches_per_step=100: an epoch has 5, so each is one step of 5"]
    assert notes(batches_per_step=5) == []


def test_a_precision_of_a_module_without_weights():
    assert notes(precisions={"SquaredError": "bf16"}) == [
        "precisions: SquaredError has no weights, so only products of what it is given are in bf16"
    ]
    assert notes(precisions={"line": "bf16"}) == []
