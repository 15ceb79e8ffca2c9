from dataclasses import dataclass

import numpy as np
import pytest
from torch import nn

from neumo.backends.torch.registry import implements
from neumo.engine import NeuralFactory
from neumo.engine.checks.verify import FIRST_STEPS, dtype_class
from neumo.graph.graph import Graph
from neumo.graph.module import DataLayer, NeuralModule
from neumo.graph.signature import Signature
from neumo.types import Acoustic, Audio, B, BackendError, ConfigError, DataError, F, Ids, PortError, T

from .toys import LETTERS, FrameSource, Halve, Liar, PointData, frame_graph, refused


def liar_graph(lie):
    batch = PointData()()
    return Graph(outputs={"y": Liar(lie).named("liar")(x=batch.x).y})


def infer(graph, level, **options):
    return NeuralFactory(device="cpu", verify=level, progress=False, **options).infer(graph)


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ("width", r"axis 1 \(F=3\) is 2 long"),
        ("rank", "it has 3 axes, not 2"),
        ("rows", r"axis 0: B=8 \(from x\), here 1"),
        ("dtype", r"it holds int numbers \(torch.int64\), not float"),
        ("none", "it is None"),
    ],
)
@pytest.mark.parametrize("level", ["first", "always", "values"])
def test_an_implementation_that_lies_is_refused(lie, words, level):
    with refused(PortError, words) as caught:
        infer(liar_graph(lie), level)
    assert caught.value.code == "verify"
    assert caught.value.what.startswith("liar.y is not what its signature says")


@pytest.mark.parametrize("level", ["off", "boundary"])
def test_implementations_are_not_looked_at_below_the_level_first(level):
    assert infer(liar_graph("width"), level)[0]["y"].shape == (8, 2)


def test_a_violation_reads_like_a_static_error():
    with pytest.raises(PortError) as caught:
        infer(frame_graph(lie="frames"), "always")
    text = str(caught.value)
    assert "axis 1: ceil(T/2) = 4 with T=8 (from frames), here 8" in " ".join(text.split())
    assert "given    shape (3, 8, 4), float32, cpu, min" in text
    assert "wanted   LogProbs(four[4]" in text
    assert "sizes    B=3 (from frames), T=8 (from frames)" in text
    assert "path     FrameData.frames -> halve.log_probs" in text
    assert "toys.py:" in text


def test_a_wrong_number_of_outputs_is_named():
    with refused(BackendError, "liar returned 3 values; its signature gives 2"):
        infer(liar_graph("count"), "always")


@pytest.mark.parametrize("level", ["off", "boundary"])
def test_a_module_that_fails_is_named_with_its_ports(level):
    with refused(BackendError, "liar failed: RuntimeError") as caught:
        infer(liar_graph("crash"), level)
    assert "it takes x: Acoustic[B, F=3]" in str(caught.value)
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("level", ["boundary", "first", "always", "values"])
def test_data_that_lies_about_its_shape_is_refused(level):
    with refused(
        PortError, r"FrameData.frames_len is not what is promised: axis 0: B=3 \(from frames\), here 2"
    ):
        infer(frame_graph("rows"), level)


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ("long", r"row 1 has length 9, beyond T = 8"),
        ("zero", "row 1 has length 0, below 1"),
        ("ids", "1 ids are outside the 4 labels, the first is 4"),
        ("nan", "1 of 24 numbers are not finite"),
    ],
)
def test_numbers_are_looked_at_on_request(lie, words):
    infer(frame_graph(data_lie=lie), "always") if lie != "ids" else None
    with refused(PortError, words):
        infer(frame_graph(data_lie=lie), "values")


def test_scores_that_are_no_probabilities_are_refused_on_request():
    with refused(PortError, "sum to .*, not to 1"):
        infer(frame_graph(lie="logits"), "values")
    infer(frame_graph(), "values")


def test_a_missing_array_is_an_error_of_the_data():
    with refused(DataError, "the data has no 'ids'"):
        infer(frame_graph("missing"), "off")


def test_an_unknown_level_is_refused_with_the_nearest():
    with refused(ConfigError, "no verification level 'alway'") as caught:
        NeuralFactory(device="cpu", verify="alway")
    assert "did you mean 'always'?" in str(caught.value)


def test_the_first_steps_are_guarded_and_then_the_plan_is_bare():
    from neumo.backends.torch.device import choose_place
    from neumo.backends.torch.execute import TorchProgram
    from neumo.backends.torch.registry import build
    from neumo.engine import compile_plan
    from neumo.engine.checks.verify import make_guards

    graph = frame_graph()
    plan = compile_plan(graph)
    guards = make_guards(plan, "first", lambda tensor: tensor.numpy())
    checked = []
    guards.made = lambda slot, value: checked.append(slot)
    modules = [build(step.module) for step in plan.steps]
    program = TorchProgram(plan, modules, choose_place("cpu", "fp32"), guards)
    import torch

    feeds = {
        "frames": torch.ones(3, 8),
        "frames_len": torch.tensor([8, 6, 4]),
        "ids": torch.ones(3, 8).long(),
    }
    for _ in range(FIRST_STEPS + 3):
        program([feeds[feed.port] for feed in plan.feeds])
    assert len(checked) == FIRST_STEPS * 6  # three feeds, two outputs of halve and the loss
    assert program._run == program._bare


def test_ids_of_data_are_ids_of_the_vocabulary():
    assert dtype_class(np.zeros(1, bool)) == "bool"
    assert dtype_class(np.zeros(1, complex)) == "complex128"


def test_masks_must_agree_with_their_lengths():
    from neumo.engine.checks.value_checks import Numbers, value_check
    from neumo.graph.value import Step
    from neumo.types import B, Lengths, Mask, T

    step = Step(Halve(), {})
    from neumo.graph.value import Value

    lengths = value_check(Value(step, "len", Lengths(T)[B]), fed=True)
    keep = value_check(Value(step, "mask", Mask(T, true="keep")[B, T]), fed=False)
    pad = value_check(Value(step, "mask", Mask(T, true="pad")[B, T]), fed=False)
    numbers = Numbers(np.asarray)
    sizes = {T.symbol: 3}
    assert lengths(np.array([3, 1]), numbers, sizes) is None
    good = np.array([[True, True, True], [True, False, False]])
    assert keep(good, numbers, sizes) is None
    assert pad(~good, numbers, sizes) is None
    assert keep(~good, numbers, sizes) == "row 0 disagrees with its length 3"
    assert pad(np.array([[False] * 3, [False] * 3]), numbers, sizes) == "row 1 disagrees with its length 1"


def test_audio_on_another_scale_is_seen():
    from neumo.engine.checks.value_checks import Numbers, value_check
    from neumo.graph.value import Step, Value
    from neumo.types import Audio, B, T

    check = value_check(Value(Step(Halve(), {}), "audio", Audio(rate=16000, peak=1.0)[B, T]), fed=True)
    numbers = Numbers(np.asarray)
    assert check(np.array([[0.5, -1.1]]), numbers, {}) is None
    assert check(np.array([[2000.0, -1.0]]), numbers, {}) == "its peak is 2000, and 1 was promised"


@dataclass(frozen=True)
class Vague(DataLayer):
    """Gives sound and ids without saying how loud and of which vocabulary, and frames of unknown width."""

    loud: bool = False
    beyond: bool = False
    wide: bool = False

    def signature(self) -> Signature:
        gives = {"audio": Audio()[B, T], "ids": Ids()[B, T], "frames": Acoustic()[B, F(None)]}
        return Signature(gives=gives)

    def open(self, seed):
        return VagueSource(self)


class VagueSource(FrameSource):
    def __init__(self, spec):
        self.spec = spec

    def collate(self, items):
        return {
            "audio": np.full((3, 4), 20000.0 if self.spec.loud else 0.5),
            "ids": np.full((3, 4), 9 if self.spec.beyond else 3),
            "frames": np.zeros((3, 5 if self.spec.wide else 2)),
        }


@dataclass(frozen=True)
class Precise(NeuralModule):
    def signature(self) -> Signature:
        takes = {
            "audio": Audio(rate=16000, peak=1.0)[B, T],
            "ids": Ids(LETTERS)[B, T],
            "frames": Acoustic()[B, F(2)],
        }
        return Signature(takes=takes, gives={"y": Acoustic()[B, T]})


@implements(Precise)
class PreciseLayer(nn.Module):
    def __init__(self, spec):
        super().__init__()

    def forward(self, audio, ids, frames):
        return audio


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ({"loud": True}, "cannot feed Precise.audio: its peak is 2e.04, and 1 was promised.*taken on trust"),
        ({"beyond": True}, "cannot feed Precise.ids: 12 ids are outside the 4 labels, the first is 9"),
        ({"wide": True}, r"cannot feed Precise.frames: axis 1 must be 2 long, and the shape is \(3, 5\)"),
    ],
)
def test_what_was_taken_on_trust_is_checked_at_the_boundary(lie, words):
    def graph(**lies):
        given = Vague(**lies)()
        return Graph(outputs={"y": Precise()(audio=given.audio, ids=given.ids, frames=given.frames).y})

    infer(graph(), "boundary")
    infer(graph(**lie), "off")
    with refused(PortError, words):
        infer(graph(**lie), "boundary")
