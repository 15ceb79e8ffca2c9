"""Every adapter does what its type says, for random sizes and settings, and what it should, against numpy."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from neumo.backends.torch.device import choose_place
from neumo.backends.torch.execute import TorchProgram
from neumo.backends.torch.registry import build
from neumo.data.generate import example_batch
from neumo.engine import compile_plan
from neumo.engine.checks.verify import make_guards
from neumo.graph import adapters as ad
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.types import (
    ONE,
    Acoustic,
    Audio,
    B,
    C,
    F,
    Features,
    H,
    Ids,
    Image,
    Latent,
    Lengths,
    Logits,
    LogProbs,
    Loss,
    Mask,
    Mel,
    Pitch,
    Probs,
    Score,
    Speaker,
    Spectrogram,
    Struct,
    T,
    Text,
    U,
    V,
    Vocab,
    W,
)

CPU = choose_place("cpu", "fp32")
AB, BA = Vocab("abc", name="abc"), Vocab("cba", name="cba")
MORE = Vocab("xcbay", name="more")
PIECES = Vocab(["<pad>", "<s>", "</s>", "cat", "sat"], name="pieces", pad=0, bos=1, eos=2, unit="word")
PLAIN = Ids(PIECES, pad=0, frame="none")
_LN10 = math.log(10)


def kept(lengths, size):
    return np.arange(size) < np.asarray(lengths)[:, None]


def rows_of(ids, lengths):
    """The real part of each row, as lists."""
    return [list(row[:n]) for row, n in zip(np.asarray(ids), np.asarray(lengths), strict=True)]


def padded(rows, size, pad):
    return np.array([row + [pad] * (size - len(row)) for row in rows])


def log_softmax(x):
    x = x.astype(np.float64) - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def rescaled(spec, mel):
    """By way of the energy itself, in float64."""
    power = spec.power or 2
    tens = 10 if power == 2 else 20
    energy = {
        "linear": lambda: mel.astype(np.float64),
        "ln": lambda: np.exp(mel.astype(np.float64)),
        "log10": lambda: 10.0 ** mel.astype(np.float64),
        "db": lambda: 10.0 ** (mel.astype(np.float64) / tens),
    }[spec.source]()
    return {
        "linear": lambda: energy,
        "ln": lambda: np.log(energy),
        "log10": lambda: np.log10(energy),
        "db": lambda: tens * np.log10(energy),
    }[spec.target]()


def repowered(spec, x):
    into = {"linear": lambda v: v, "ln": np.log, "log10": np.log10}
    out_of = {"linear": lambda v: v, "ln": np.exp, "log10": lambda v: 10.0**v}
    if spec.scale == "db":
        return x
    return into[spec.scale](out_of[spec.scale](x.astype(np.float64)) ** (spec.target / spec.source))


def reframed(spec, ids, n):
    rows = rows_of(ids, n)
    if spec.adds("bos"):
        rows = [[PIECES.bos, *row] if spec.adds("bos") > 0 else row[1:] for row in rows]
    if spec.adds("eos"):
        rows = [[*row, PIECES.eos] if spec.adds("eos") > 0 else row[:-1] for row in rows]
    return padded(rows, ids.shape[1] + spec.longer, spec.pad)


def appended(one, two, n, m):
    both = [[*a, *b] for a, b in zip(rows_of(one, n), rows_of(two, m), strict=True)]
    return padded(both, one.shape[1] + two.shape[1], 0)


MEL, LIKE = Mel(n_mels=4)[B, F(4), T], Mel(n_mels=4)[B, T, F(4)]
LABELS = LogProbs(AB)[B, T, V(AB)]
ROW_IDS = {"ids": PLAIN[B, U], "ids_len": Lengths(U)[B]}


def framed(frame):
    return {"ids": Ids(PIECES, pad=0, frame=frame)[B, U], "ids_len": Lengths(U)[B]}


def mel(**facets):
    return {"mel": Mel(n_mels=4, **facets)[B, F(4), T]}


def spectrum(**facets):
    return {"spectrogram": Spectrogram(floor=0.0, **facets)[B, F(4), T]}


# (adapter, what it takes, what comes out at `exit` for these arrays)
CASES = [
    (ad.Repeak(32768.0, 1.0), {"audio": Audio(rate=8000, peak=32768.0)[B, T]}, lambda s, a: a / 32768),
    (ad.Repeak(1.0, 32768.0), {"audio": Audio(peak=1.0)[B, C(2), T]}, lambda s, a: a * 32768.0),
    (ad.Mono(), {"audio": Audio(rate=8000, peak=1.0)[B, C(3), T]}, lambda s, a: a.mean(1)),
    *((ad.Rescale(one, two, 2.0), mel(scale=one, power=2.0), rescaled)
      for one in ("ln", "log10", "db") for two in ("ln", "log10", "db", "linear") if one != two),
    *((ad.Rescale("db", two, 1.0), mel(scale="db", power=1.0), rescaled)
      for two in ("ln", "log10", "linear")),
    *((ad.Rescale("linear", two, 2.0), mel(scale="linear", power=2.0, floor=1e-5), rescaled)
      for two in ("ln", "log10", "db")),
    *((ad.Repower(p, 3 - p, scale), spectrum(scale=scale, power=float(p)), repowered)
      for p in (1, 2) for scale in ("linear", "ln", "log10", "db")),
    (ad.LogSoftmax(), {"logits": Logits(AB)[B, T, V(AB)]}, lambda s, x: log_softmax(x)),
    (ad.Softmax(), {"logits": Logits(AB)[B, V(AB)]}, lambda s, x: np.exp(log_softmax(x))),
    (ad.Exp(), {"log_probs": LABELS}, lambda s, x: np.exp(x.astype(np.float64))),
    (ad.Log(), {"probs": Probs(AB)[B, V(AB), T]}, lambda s, x: np.log(x.astype(np.float64))),
    (ad.Reorder(AB, BA), {"scores": LABELS}, lambda s, x: x[..., ::-1]),
    (ad.Reduce("mean"), {"loss": Loss()[B]}, lambda s, x: x.astype(np.float64).mean()),
    (ad.Reduce("sum"), {"loss": Loss()[B]}, lambda s, x: x.astype(np.float64).sum()),
    (ad.RemapIds(AB, MORE), {"ids": Ids(AB, pad=-100)[B, U]},
     lambda s, x: np.where(x < 0, x, np.array([MORE.index(label) for label in AB])[x])),
    (ad.RemapIds(AB, MORE), {"ids": Ids(AB, pad=1)[B, T, U]},
     lambda s, x: np.array([MORE.index(label) for label in AB])[x]),
    (ad.Repad(0, -100), ROW_IDS, lambda s, x, n: np.where(kept(n, x.shape[1]), x, -100)),
    (ad.Repad(-100, 0), {"ids": Ids(AB, pad=-100)[B, U]}, lambda s, x: np.where(x == -100, 0, x)),
    *((ad.Reframe(one, two, PIECES), framed(one), reframed)
      for one in ("none", "bos..", "..eos", "bos..eos") for two in ("none", "bos..", "..eos", "bos..eos")
      if one != two),
    (ad.Shift(0), {"ids": Ids(PIECES, pad=0, frame="bos..eos", shifted=False)[B, U]},
     lambda s, x: np.concatenate([x[:, 1:], np.zeros_like(x[:, :1])], 1)),
    (ad.Invert(), {"mask": Mask(T, true="keep")[B, T]}, lambda s, m: ~m),
    (ad.Invert(), {"mask": Mask(T, true="pad")[B, ONE, T]}, lambda s, m: ~m),
    (ad.MaskToLengths(), {"mask": Mask(T, true="keep")[B, T]}, lambda s, m: m.sum(1)),
    (ad.MaskToLengths("pad"), {"mask": Mask(T, true="pad")[B, T]}, lambda s, m: (~m).sum(1)),
    (ad.MaskToLengths(), {"mask": Mask(T, true="keep")[B, ONE, T]}, lambda s, m: m.sum(2)),
    (ad.LengthsToMask(), {"lengths": Lengths(T)[B], "like": LIKE}, lambda s, n, x: kept(n, x.shape[1])),
    (ad.LengthsToMask("pad", 2), {"lengths": Lengths(T)[B], "like": MEL},
     lambda s, n, x: ~kept(n, x.shape[2])),
    (ad.FractionToCount(2), {"lengths": Lengths(T, unit="fraction")[B], "like": MEL},
     lambda s, n, x: np.round(n.astype(np.float64) * x.shape[2])),
    (ad.CountToFraction(), {"lengths": Lengths(T)[B], "like": LIKE}, lambda s, n, x: n / x.shape[1]),
    *((ad.Subsample(by, rounding), {"lengths": Lengths(T)[B]},
       lambda s, n: -(-n // s.by) if s.rounding == "ceil" else n // s.by)
      for by in (2, 3, 5) for rounding in ("ceil", "floor")),
    (ad.Upsample(7), {"lengths": Lengths(T)[B]}, lambda s, n: 7 * n),
    *((ad.Offset(by), {"lengths": Lengths(T + 5)[B]}, lambda s, n: np.maximum(n + s.by, 0))
      for by in (-4, 3)),
    (ad.FullLengths(), {"lengths": Lengths(T).optional()[B], "like": LIKE}, lambda s, n, x: n),
    (ad.Default(0.5), {"value": Mel().optional()[B, F(4), T], "like": MEL}, lambda s, v, x: v),
    (ad.Fallback(), {"value": PLAIN.optional()[B, U], "otherwise": PLAIN[B, U]}, lambda s, v, o: v),
    (ad.Transpose("B F T", "T B F"), {"value": MEL}, lambda s, x: x.transpose(2, 0, 1)),
    (ad.Transpose("B T T2", "B T2 T"), {"value": Text()[B, T, U]}, lambda s, x: x.transpose(0, 2, 1)),
    (ad.Unsqueeze(1), {"value": MEL}, lambda s, x: x[:, None]),
    (ad.Squeeze(1), {"value": Mel()[B, ONE, F(4), T]}, lambda s, x: x[:, 0]),
    (ad.Repeat(2), {"value": Speaker("xvector")[B, F(3)], "like": MEL},
     lambda s, v, x: np.repeat(v[..., None], x.shape[2], 2)),
    (ad.Repeat(), {"value": Text()[B, F(3), H], "like": LIKE},
     lambda s, v, x: np.repeat(v[:, None], x.shape[1], 1)),
    (ad.Concat(1), {"first": MEL, "second": Pitch()[B, F(2), T]},
     lambda s, *x: np.concatenate(x, 1)),
    (ad.Concat(1), {"first": Acoustic()[B, F(3), T], "second": Acoustic()[B, F(2), T]},
     lambda s, *x: np.concatenate(x, 1)),
    (ad.Concat(2, 3),
     {"first": Text()[B, T, F(3)], "second": Acoustic()[B, T, F(2)], "third": Features()[B, T, F]},
     lambda s, *x: np.concatenate(x, 2)),
    (ad.ScalePixels(255.0, 1.0), {"image": Image(peak=255.0)[B, C(3), H, W]}, lambda s, x: x / 255),
    (ad.FlipChannels(), {"image": Image(channels="rgb")[B, C(3), H, W]}, lambda s, x: x[:, ::-1]),
    (ad.FlipChannels(3), {"image": Image(channels="bgr")[B, H, W, C(3)]}, lambda s, x: x[..., ::-1]),
    (ad.Spread("log_variance", "std"), {"spread": Latent("normal", part="log_variance")[B, F(4), T]},
     lambda s, x: np.sqrt(np.exp(x.astype(np.float64)))),
    (ad.UnitNorm(), {"speaker": Speaker("xvector", norm="none")[B, F(4)]},
     lambda s, x: x / np.linalg.norm(x.astype(np.float64), axis=-1, keepdims=True)),
]  # fmt: skip


def tensors(value):
    """Arrays as tensors, inside of lists and mappings too."""
    if isinstance(value, list | tuple):
        return [tensors(item) for item in value]
    if isinstance(value, dict):
        return {name: tensors(item) for name, item in value.items()}
    return torch.as_tensor(value)


def run(adapter, types, seed, **sizes):
    """Run an adapter as a graph does, every value checked against its type; the arrays in, the values out."""
    opened = inputs(**types)
    given = example_batch({port: value.type for port, value in opened._asdict().items()}, sizes, seed)
    record = adapter(**opened._asdict())
    graph = Graph(outputs=record)
    plan = compile_plan(graph)
    guards = make_guards(plan, "values", lambda tensor: tensor.detach().numpy())
    program = TorchProgram(plan, [build(step.module).eval() for step in plan.steps], CPU, guards)
    made = program([tensors(given[feed.port]) for feed in plan.feeds])
    return given, dict(zip(plan.wanted, made, strict=True)), record


def name(case):
    return f"{case[0]!r}-{'-'.join(map(str, case[1].values()))}"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", CASES, ids=name)
def test_an_adapter_does_what_its_type_says_and_what_it_should(case, seed):
    adapter, types, oracle = case
    sizes = dict([("B", 1 + seed)] if any("B" in str(found) for found in types.values()) else [])
    given, made, record = run(adapter, types, seed, **sizes)
    assert set(made) == set(record._asdict())
    wanted = oracle(adapter, *(given[port] for port in types))
    found = made[adapter.exit].numpy()
    assert found.shape == np.shape(wanted)
    assert np.allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_every_adapter_is_tried():
    apart = {ad.Resample, ad.Append, ad.Stack, ad.Unstack, ad.Pick}  # in tests of their own
    assert {type(case[0]) for case in CASES} | apart == set(ad.ADAPTERS)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rates", [(22050, 16000), (8000, 16000), (44100, 16000), (16000, 11025)])
def test_resampled_audio_has_the_size_and_the_lengths_of_its_type(rates, seed):
    types = {"audio": Audio(rate=rates[0], peak=1.0)[B, T], "audio_len": Lengths(T)[B]}
    given, made, _ = run(ad.Resample(*rates), types, seed, B=3, T=400 + 37 * seed)
    expected = [math.ceil(n * rates[1] / rates[0]) for n in given["audio_len"].tolist()]
    assert made["audio_len"].tolist() == expected


@pytest.mark.parametrize("frame", ["none", "bos..", "..eos", "bos..eos"])
def test_lengths_go_along_with_the_marks(frame):
    for target in ("none", "bos..", "..eos", "bos..eos"):
        if target != frame:
            adapter = ad.Reframe(frame, target, PIECES)
            given, made, _ = run(adapter, framed(frame), seed=1, B=4)
            assert made["ids_len"].tolist() == [n + adapter.longer for n in given["ids_len"].tolist()]


def test_what_is_behind_the_new_end_is_written_where_the_ends_are_known():
    ids, n = torch.tensor([[3, 4], [3, -1]]), torch.tensor([2, 1])
    assert build(ad.Reframe("none", "bos..", PIECES))(ids, n)[0].tolist() == [[1, 3, 4], [1, 3, 0]]


def test_marks_are_added_to_full_rows_without_lengths():
    ids = torch.tensor([[3, 4]])
    assert build(ad.Reframe("none", "bos..", PIECES))(ids)[0].tolist() == [[1, 3, 4]]
    assert build(ad.Reframe("bos..", "none", PIECES))(torch.tensor([[1, 3, 4]]))[0].tolist() == [[3, 4]]


@pytest.mark.parametrize("seed", range(4))
def test_a_row_goes_on_where_the_real_part_of_the_other_ends(seed):
    types = {
        "first": PLAIN[B, T("T1")],
        "second": PLAIN[B, T("T2")],
        "first_len": Lengths(T("T1"))[B],
        "second_len": Lengths(T("T2"))[B],
    }
    given, made, _ = run(ad.Append(), types, seed, B=3, T1=5, T2=4 + seed)
    wanted = appended(*(given[port] for port in types))
    assert made["value"].tolist() == wanted.tolist()
    assert made["length"].tolist() == (given["first_len"] + given["second_len"]).tolist()


def test_features_are_put_one_behind_the_other_along_any_axis():
    types = {
        "first": Acoustic()[B, F(2), T("T1")],
        "second": Acoustic()[B, F(2), T("T2")],
        "first_len": Lengths(T("T1"))[B],
    }
    given, made, _ = run(ad.Append(2, fill=-1.0), types, 3, B=2, T1=4, T2=3)
    for row in range(2):
        n = int(given["first_len"][row])
        real = np.concatenate([given["first"][row][:, :n], given["second"][row]], 1)
        assert np.array_equal(made["value"][row].numpy()[:, : n + 3], real)
        assert (made["value"][row].numpy()[:, n + 3 :] == -1).all()
    assert made["length"].tolist() == (given["first_len"] + 3).tolist()


@pytest.mark.parametrize(
    ("adapter", "absent", "there", "wanted"),
    [
        (ad.Default(0.5), "value", {"like": torch.zeros(2, 3)}, [[0.5] * 3] * 2),
        (ad.Default(1, "bool"), "value", {"like": torch.zeros(1, 2)}, [[True, True]]),
        (ad.Default(7, "int"), "value", {"like": torch.zeros(1, 2)}, [[7, 7]]),
        (ad.Default(0), "value", {"like": torch.ones(1, 2, dtype=torch.int64)}, [[0, 0]]),
        (ad.Fallback(), "value", {"otherwise": torch.tensor([4])}, [4]),
        (ad.FullLengths(), "lengths", {"like": torch.zeros(2, 5, 3)}, [5, 5]),
        (ad.FullLengths(2), "lengths", {"like": torch.zeros(2, 5, 3)}, [3, 3]),
    ],
)
def test_what_is_absent_is_filled_in(adapter, absent, there, wanted):
    found = build(adapter)(**{absent: None, **there})
    assert found.tolist() == wanted
    kinds = {"int": torch.int64, "bool": torch.bool, "float": torch.float32}
    if isinstance(adapter, ad.Default) and adapter.numbers is not None:
        assert found.dtype == kinds[adapter.numbers]


def test_lists_become_tensors_and_tensors_lists():
    value = torch.arange(12.0).reshape(3, 2, 2)
    rows = build(ad.Unstack())(value)
    assert isinstance(rows, list)
    assert torch.equal(build(ad.Stack())(rows), value)
    nested = build(ad.Unstack())(rows)
    assert [len(each) for each in nested] == [2, 2, 2]
    assert torch.equal(build(ad.Stack())(build(ad.Stack())(nested)), value)


def test_a_field_is_picked_out_of_each_struct():
    types = Struct(ids=Ids(AB)[U], score=Score()[()])
    found = example_batch({"best": types[B.list()]}, {"B": 2})["best"]
    assert build(ad.Pick("ids"))(found)[1] is found[1]["ids"]
    assert build(ad.Pick("score"))(found[0]) is found[0]["score"]


def test_a_fraction_finds_its_count_for_every_length_of_long_rows():
    for size in (1, 7, 1000, 123_457):
        counts = torch.arange(0, size + 1, max(1, size // 997))
        like = torch.zeros(1, 1).expand(len(counts), size)
        fractions = build(ad.CountToFraction())(counts, like)
        assert torch.equal(build(ad.FractionToCount())(fractions, like), counts)


def test_adapters_hold_only_their_settings():
    for case in CASES:
        assert dataclasses.is_dataclass(case[0])
        assert not list(build(case[0]).parameters())


def test_a_spread_told_twice_is_the_same():
    spread = torch.rand(2, 3, dtype=torch.float64) + 0.1
    there = build(ad.Spread("std", "log_variance"))(spread)
    assert torch.allclose(there, (spread**2).log())
    assert torch.allclose(build(ad.Spread("log_variance", "std"))(there), spread)
