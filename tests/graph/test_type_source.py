"""Types written as the Python that makes them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from neumo.graph.type_source import type_source
from neumo.types import (
    ANY,
    ONE,
    AtLeast,
    Audio,
    B,
    F,
    Features,
    H,
    Ids,
    Lengths,
    LogProbs,
    Loss,
    Mel,
    NeuralType,
    State,
    T,
    U,
    V,
    Vocab,
    W,
)

EN = Vocab.english()


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (
            Mel(n_mels=64, center=True)[B, F(64), T // 160 + 1],
            "Mel(center=True, n_mels=64)[B, F(64), T // 160 + 1]",
        ),
        (State("encoder")[B, F(256), F(20)], 'State("encoder")[B, F(256), F(20)]'),
        (Lengths(T.ceildiv(2))[B], "Lengths(T.ceildiv(2))[B]"),
        (Loss().many()[()], "Loss().many()[()]"),
        (Ids(EN).optional()[B, U], "Ids(en).optional()[B, U]"),
        (Ids(AtLeast(Vocab("ab")))[B.list(), T], "Ids(AtLeast(vocab))[B.list(), T]"),
        (
            LogProbs(EN.with_blank())[B, T, V(EN.with_blank())],
            "LogProbs(en.with_blank())[B, T, V(en.with_blank())]",
        ),
        (
            LogProbs(EN.with_blank("start"))[B, T, V],
            'LogProbs(en.with_blank("start"))[B, T, V]',
        ),
        (LogProbs(EN.with_ends())[B, T, V], "LogProbs(en.with_ends())[B, T, V]"),
        (Features()[B, F, T.at(50)], "Features()[B, F, T.at(50)]"),
        (
            Features()[ONE, ANY, (T // 2).at(Fraction(25, 2))],
            "Features()[ONE, ANY, (T // 2).at(Fraction(25, 2))]",
        ),
        (Audio(rate=16000)[B, T(None)], "Audio(rate=16000)[B, T(None)]"),
        (Features()[B, F(H * W * 2 - 3)], "Features()[B, F(2 * H * W - 3)]"),
        (Features()[B, T((T * 3) // 4 * 2), T(5 - T)], "Features()[B, 2 * ((3 * T) // 4), 0 - T + 5]"),
        (Features()[B, T("left")], 'Features()[B, T("left")]'),
    ],
)
def test_a_type_as_python(type: NeuralType, text: str) -> None:
    assert type_source(type) == text
