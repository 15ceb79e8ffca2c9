import torch

from neumo.backends.torch.training.average import Average
from neumo.engine import EMA


def test_an_average_of_what_does_not_change_stays_exactly():
    values = {"w": torch.randn(100), "steps": torch.tensor(3)}
    average = Average(EMA(decay=0.99), values)
    for _ in range(50):
        average.update()
    assert torch.equal(average.tensors["w"], values["w"])
    values["steps"] += 4
    average.update()
    assert average.tensors["steps"] == 7


def test_weights_come_back_after_they_were_swapped():
    values = {"w": torch.zeros(3)}
    average = Average(EMA(decay=0.5, warmup=False), values)
    values["w"] += 2
    average.update()
    with average.in_place():
        assert values["w"].tolist() == [1, 1, 1]
    assert values["w"].tolist() == [2, 2, 2]
