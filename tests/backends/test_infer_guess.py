"""Names of the symbols of proposed signatures: one name is one size."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from neumo.backends.torch.propose.signature import infer_signature
from neumo.types import B, F, Features, H, Ids, Lengths, Loss, T, U, W


class Pair(nn.Module):
    """Two pictures whose sides have nothing to do with each other."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.conv(left).mean((2, 3)) + self.conv(right).mean((2, 3))


class Many(nn.Module):
    """Sums up over four axes, each of its own size."""

    def forward(self, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        return a.sum(1) + b.sum(1) + c.sum(1) + d.sum(1)


def test_pictures_of_other_sizes_have_sides_of_their_own() -> None:
    found = infer_signature(Pair(), (torch.randn(2, 3, 8, 10), torch.randn(2, 3, 6, 12)))
    assert found.signature.takes == {
        "left": Features()[B, F(3), H, W],
        "right": Features()[B, F(3), H("H2"), W("W2")],
    }


def test_times_are_called_t_u_and_then_numbered() -> None:
    found = infer_signature(Many(), tuple(torch.randn(2, size) for size in (5, 7, 9, 11)))
    assert [t.axes[1] for t in found.signature.takes.values()] == [T, U, T("T2"), T("T3")]


class Subsampled(nn.Module):
    """A convolution with the lengths that it makes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 3, stride=2)

    def forward(self, x: Tensor, x_len: Tensor) -> tuple[Tensor, Tensor]:
        return self.conv(x), (x_len - 3) // 2 + 1


class OnlyLengths(nn.Module):
    """Lengths under the name of those that it takes."""

    def forward(self, lens: Tensor) -> dict[str, Tensor]:
        return {"lens": (lens - 5) // 3 + 1}


class Tagger(nn.Module):
    """Scores each word, and compares the scores with labels of the same words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.linear = nn.Embedding(10, 8), nn.Linear(8, 4)

    def forward(self, ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.linear(self.embedding(ids))
        return nn.functional.cross_entropy(scores.view(-1, 4), labels.view(-1)), scores


class Mixed(nn.Module):
    """Whole numbers that are no lengths: they depend on the other rows."""

    def forward(self, x_len: Tensor) -> Tensor:
        return x_len.cumsum(0)


class Labels(nn.Module):
    """Whole numbers under the name of an input of another kind."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"x": x.argmax(-1)}


def test_whole_numbers_that_follow_from_lengths_are_lengths() -> None:
    example = (torch.randn(2, 8, 20), torch.tensor([20, 13]))
    found = infer_signature(Subsampled(), example, names=["y", "y_len"])
    assert found.signature.gives == {
        "y": Features()[B, F(8), (T - 3) // 2 + 1],
        "y_len": Lengths((T - 3) // 2 + 1)[B],
    }
    only = infer_signature(OnlyLengths(), torch.tensor([40, 33]))
    assert only.signature.takes == {"lens": Lengths(T)[B]}
    assert only.signature.gives == {"lens": Lengths((T - 5) // 3 + 1)[B]}
    assert infer_signature(Mixed(), torch.tensor([9, 8])).signature.gives == {"output": Ids()[B]}
    assert infer_signature(Mixed(), torch.tensor([0, 0])).signature.gives == {"output": Ids()[B]}


def test_guesses_about_an_output_that_is_called_like_an_input_are_its_own() -> None:
    found = infer_signature(OnlyLengths(), torch.tensor([40, 33]))
    assert found.guesses == {
        "lens": "guess: lengths of T, axis 0 is the batch",
        "lens (given)": "guess: lengths of (T + 1)//3 - 1",
    }
    assert '"lens": Lengths(T)[B],  # guess: lengths of T, axis 0 is the batch\n' in found.source
    labels = infer_signature(Labels(), torch.randn(2, 9, 20)).signature
    assert (labels.takes, labels.gives) == ({"x": Features()[B, T, U]}, {"x": Ids()[B, T]})


def test_one_number_that_a_loss_gives_is_a_loss() -> None:
    example = (torch.randn(5, 4), torch.tensor([1, 2, 3, 0, 1]))
    assert infer_signature(nn.CrossEntropyLoss(), example).signature.gives == {"output": Loss()[()]}
    assert infer_signature(
        nn.GaussianNLLLoss(), (torch.randn(5), torch.randn(5), torch.ones(5))
    ).signature.gives == {"output": Loss()[()]}


def test_sizes_that_must_be_one_number_have_one_name() -> None:
    example = (torch.randint(10, (2, 7)), torch.randint(4, (2, 7)))
    found = infer_signature(Tagger(), example, names=["loss", "scores"]).signature
    assert found.takes == {"ids": Ids()[B, T], "labels": Ids()[B, T]}
    assert found.gives == {"loss": Loss()[()], "scores": Features()[B, T, F(4)]}
