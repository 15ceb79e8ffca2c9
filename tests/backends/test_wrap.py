"""Any nn.Module as a neural module: wrapped, or written as one class."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import neumo
from neumo.backends.torch.call import Outputs
from neumo.backends.torch.registry import build
from neumo.engine import SGD, AdamW, NeuralFactory
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.signature import Signature
from neumo.graph.yaml import Recipe, load_recipe, recipe_text
from neumo.types import (
    Acoustic,
    B,
    BackendError,
    ConfigError,
    F,
    Features,
    GraphError,
    Ids,
    Image,
    Logits,
    Loss,
    Mask,
    PortError,
    Struct,
    T,
    U,
    V,
    Vocab,
)

from ..engine.toys import Line, PointData, SquaredError, refused

ROW = Acoustic()[B, F(3)]
FRAMES = Features()[B, T, F(8)]


def factory(**options: Any) -> NeuralFactory:
    return NeuralFactory(**{"device": "cpu", "progress": False, "verify": "always", **options})


def run(module: Any, outputs: Any, **arrays: Any) -> dict[str, Any]:
    """Infer the outputs of one module for some arrays, as open inputs of its own types."""
    signature = module.signature()
    opened = inputs(**{name: kind for name, kind in signature.takes.items() if name in arrays})
    record = module(**{name: opened[name] for name in arrays})
    graph = Graph(outputs={name: record[name] for name in outputs})
    return factory().infer(graph, {name: np.asarray(array) for name, array in arrays.items()})[0]


class Conv(nn.Module):
    """A small network for pictures, written by hand."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.last = nn.Linear(4, classes)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.last(self.norm(self.first(pictures)).relu().mean(dim=(2, 3)))


def test_the_weights_are_those_of_the_module_and_no_seed_touches_them():
    layer = nn.Linear(3, 1)
    before = layer.weight.detach().numpy().copy()
    wrapped = neumo.wrap(layer, takes={"x": ROW}, gives={"y": Acoustic()[B, F(1)]}, name="layer")
    for seed in (1, 2):
        maker = factory(seed=seed)
        assert np.array_equal(maker.weights(wrapped)["weight"], before)
        assert maker.session.implementation(wrapped) is layer


def test_a_convolution_network_is_wrapped_and_classifies():
    digits = Vocab("0123", name="digits")
    pictures, logits = Image()[B, neumo.C(1), neumo.H(8), neumo.W(8)], Logits(digits)[B, V(digits)]
    network = Conv(classes=4).eval()
    wrapped = neumo.wrap(network, takes={"pictures": pictures}, gives={"logits": logits})
    shown = torch.randn(2, 1, 8, 8)
    found = run(wrapped, ["logits"], pictures=shown)
    assert np.allclose(found["logits"], network(shown).detach(), atol=1e-6)
    assert repr(wrapped).startswith("wrap(Conv, (pictures: Image")
    with pytest.raises(PortError, match="Conv"):
        wrapped(pictures=inputs(x=ROW).x)


def test_an_lstm_gives_a_nested_tuple_by_position():
    lstm = nn.LSTM(8, 5, num_layers=2, batch_first=True)
    out, state = Features()[B, T, F(5)], Features()[neumo.C(2), B, F(5)]
    whole = neumo.wrap(lstm, takes={"frames": FRAMES}, gives={"out": out, "h": state, "c": state})
    frames = torch.randn(2, 7, 8)
    found = run(whole, ["out", "h", "c"], frames=frames)
    wanted, (h, c) = lstm(frames)
    for name, value in {"out": wanted, "h": h, "c": c}.items():
        assert np.allclose(found[name], value.detach(), atol=1e-6)
    last = neumo.wrap(lstm, takes={"frames": FRAMES}, gives={"out": out, "h": None, "c": None})
    assert np.allclose(run(last, ["out"], frames=frames)["out"], wanted.detach(), atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*nested tensors")  # of torch, about its own fast path
def test_the_masks_of_a_transformer_are_checked():
    """torch reads True in a padding mask as "leave out": a mask that says "keep" is refused."""
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True).eval()
    target = Features()[B, U, F(8)]
    wrapped = neumo.wrap(
        model,
        takes={
            "src": FRAMES,
            "tgt": target,
            "src_key_padding_mask": Mask(T, true="pad").optional()[B, T],
            "memory_key_padding_mask": Mask(T, true="pad").optional()[B, T],
        },
        gives={"out": target},
    )
    src, tgt = torch.randn(2, 6, 8), torch.randn(2, 4, 8)
    assert np.allclose(run(wrapped, ["out"], src=src, tgt=tgt)["out"], model(src, tgt).detach(), atol=1e-5)
    pad = torch.zeros(2, 6, dtype=torch.bool)
    pad[1, 4:] = True
    masks = {"src_key_padding_mask": pad, "memory_key_padding_mask": pad}
    found = run(wrapped, ["out"], src=src, tgt=tgt, **masks)["out"]
    assert np.allclose(found, model(src, tgt, **masks).detach(), atol=1e-5)
    louder = src.clone()
    louder[1, 4:] = 9.0  # what is padded does not matter
    assert np.allclose(run(wrapped, ["out"], src=louder, tgt=tgt, **masks)["out"], found, atol=1e-5)
    opened = inputs(src=FRAMES, tgt=target, keep=Mask(T, true="keep")[B, T])
    with pytest.raises(PortError) as caught:
        wrapped(src=opened.src, tgt=opened.tgt, src_key_padding_mask=opened.keep)
    assert caught.value.code == "mask"


def test_a_hugging_face_model_is_wrapped_by_the_names_of_its_outputs():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install it")
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    words = Vocab([f"w{number}" for number in range(20)], name="words")
    bert = transformers.BertModel(config).eval()
    wrapped = neumo.wrap(
        bert,
        takes={"input_ids": Ids(words)[B, T], "attention_mask": Mask(T, true="keep")[B, T]},
        gives={"last_hidden_state": Features()[B, T, F(16)], "pooler_output": Features()[B, F(16)]},
        name="bert",
    )
    ids, mask = torch.randint(0, 20, (2, 5)), torch.ones(2, 5, dtype=torch.bool)
    found = run(wrapped, ["last_hidden_state", "pooler_output"], input_ids=ids, attention_mask=mask)
    wanted = bert(input_ids=ids, attention_mask=mask)
    assert np.allclose(found["last_hidden_state"], wanted.last_hidden_state.detach(), atol=1e-5)
    assert np.allclose(found["pooler_output"], wanted.pooler_output.detach(), atol=1e-5)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"b": 2, "a": 1, "c": 3}, ("a", "b")),
        (namedtuple("Found", "b a c")(2, 1, 3), ("a", "b")),
        (SimpleNamespace(b=2, a=1, c=3), ("a", "b")),
        ((1, (2,)), ("a", "b")),
        ([1, (9, 2)], ("a", None, "b")),
        (namedtuple("Pair", "x y")(1, 2), ("a", "b")),
    ],
)
def test_outputs_are_found_in_what_forward_returns(given, names):
    assert Outputs("Model", names)(given) == (1, 2)


@pytest.mark.parametrize(
    ("given", "names", "words"),
    [
        (
            {"logits": 1},
            ("logit",),
            "returned nothing called 'logit' it returned logits .*did you mean 'logits'",
        ),
        (SimpleNamespace(hidden=1), ("hiden",), "returned nothing called 'hiden' it returned hidden"),
        ((torch.zeros(2, 3), 1), ("a",), "returned 2 values, and gives names 1 it returned 2x3, int"),
        (torch.zeros(()), ("a", "b"), "returned 1 value, and gives names 2 it returned a number"),
        (None, ("a",), "returned 1 value, and gives names 1 it returned NoneType"),
        ((1,), ("a", None), "returned 1 value, and gives names 2.*gives names a, None"),
    ],
)
def test_outputs_that_do_not_fit_are_refused(given, names, words):
    with refused(BackendError, f"forward of Model {words}") as caught:
        Outputs("Model", names)(given)
    assert caught.value.code == "outputs"


class TwoInputs(nn.Module):
    def forward(self, left: Tensor, right: Tensor, scale: float = 1.0) -> Tensor:
        return (left - right) * scale


class KeywordOnly(nn.Module):
    def forward(self, *, left: Tensor) -> Tensor:
        return left


class Anything(nn.Module):
    def forward(self, **ports: Tensor) -> Tensor:
        return ports["one"] - ports["two"]


def test_ports_go_by_name_or_all_in_their_order():
    given = {"left": np.full((2, 3), 5.0), "right": np.full((2, 3), 2.0)}
    named = neumo.wrap(TwoInputs(), takes={"right": ROW, "left": ROW}, gives={"y": ROW})
    assert run(named, ["y"], **given)["y"].tolist() == [[3.0] * 3] * 2
    placed = neumo.wrap(TwoInputs(), takes={"one": ROW, "two": ROW}, gives={"y": ROW})
    assert run(placed, ["y"], one=given["left"], two=given["right"])["y"].tolist() == [[3.0] * 3] * 2
    free = neumo.wrap(Anything(), takes={"two": ROW, "one": ROW}, gives={"y": ROW})
    assert run(free, ["y"], one=given["left"], two=given["right"])["y"].tolist() == [[3.0] * 3] * 2


class WithDefaults(nn.Module):
    def forward(self, x: Tensor, factor: float = 2.0, more: Tensor | None = None) -> Tensor:
        return x * factor if more is None else more


def test_a_port_that_is_left_open_keeps_the_default_of_forward():
    maybe = Acoustic().optional()[B, F(3)]
    for names in ({"x": ROW, "factor": maybe}, {"a": ROW, "b": maybe}):
        wrapped = neumo.wrap(WithDefaults(), takes=names, gives={"y": ROW})
        assert run(wrapped, ["y"], **{next(iter(names)): np.ones((1, 3))})["y"].tolist() == [[2.0] * 3]


@pytest.mark.parametrize(
    ("module", "takes", "words"),
    [
        (TwoInputs(), ["left"], "it needs 'right', which takes does not name"),
        (TwoInputs(), ["left", "rihgt"], "no parameter 'rihgt' it needs 'right'.*did you mean 'right'"),
        (TwoInputs(), ["one"], r"it needs 'right'.*forward\(left, right, scale=1.0\)"),
        (
            TwoInputs(),
            ["one", "two", "three", "four"],
            "it takes 3 values, and takes has 4: four is too many",
        ),
        (KeywordOnly(), ["x"], "it needs 'left'"),
    ],
)
def test_ports_that_forward_cannot_take_are_refused_at_once(module, takes, words):
    with refused(BackendError, words) as caught:
        neumo.wrap(module, takes=dict.fromkeys(takes, ROW), gives={"y": ROW})
    assert caught.value.code == "forward"


def test_types_of_ports_may_be_written_as_text():
    wrapped = neumo.wrap(
        nn.Linear(16, 8), takes={"x": "Features[B, T, F=16]"}, gives={"y": "Acoustic[B, T, F=8]"}
    )
    given = inputs(x=Features()[B, T, F(16)])
    assert str(wrapped(x=given.x).y.type) == "Acoustic[B, T, F=8]"
    with refused(ConfigError, "no element 'Featurs'"):
        neumo.wrap(nn.Linear(16, 8), takes={"x": "Featurs[B]"}, gives={"y": Features()[B]})
    with refused(GraphError, "port 'x' of `takes` is 3, which is not a neural type"):
        neumo.wrap(nn.Linear(16, 8), takes={"x": 3}, gives={"y": Features()[B]})


@pytest.mark.parametrize("gives", [{}, {"y": None}])
def test_a_module_that_gives_nothing_is_refused(gives):
    with refused(GraphError, "Linear that gives nothing computes nothing") as caught:
        neumo.wrap(nn.Linear(16, 8), takes={"x": Features()[B, T, F(16)]}, gives=gives)
    assert caught.value.code == "wrap"


def test_what_is_no_module_is_refused():
    with refused(GraphError, r"not the class LSTM .*make an object of it"):
        neumo.wrap(nn.LSTM, takes={}, gives={})  # type: ignore[arg-type]
    with refused(GraphError, "not 3"):
        neumo.wrap(3, takes={}, gives={})  # type: ignore[arg-type]
    with refused(GraphError, "`gives` of a signature is .*not a dict of ports"):
        neumo.wrap(nn.Identity(), takes={"x": ROW}, gives=[ROW])  # type: ignore[arg-type]
    with refused(GraphError, "which is not a neural type"):
        neumo.wrap(nn.Identity(), takes={"x": 4}, gives={})  # type: ignore[dict-item]


def wrapped_graph(trainable: bool | None = None, name: str = "layer") -> Graph:
    torch.manual_seed(4)
    layer = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    batch = PointData()()
    wrapped = neumo.wrap(layer, takes={"x": ROW}, gives={"y": ROW}, name=name, trainable=trainable)
    line = Line().named("line")
    loss = SquaredError()(given=line(x=wrapped(x=batch.x).y).y, wanted=batch.y)
    return Graph("train", "train", {"loss": loss.loss})


def changed_by(graph: Graph) -> set[str]:
    maker = factory()
    before = maker.weights(graph)
    maker.train(graph, optimizer=AdamW(lr=0.05), epochs=1)
    after = maker.weights(graph)
    return {name for name in after if not np.array_equal(before[name], after[name])}


def test_a_wrapped_module_trains_unless_it_is_not_to():
    assert {"layer.0.weight", "layer.1.running_mean"} <= changed_by(wrapped_graph())
    assert changed_by(wrapped_graph(trainable=False)) == {"line.linear.weight", "line.linear.bias"}
    assert wrapped_graph().modules["layer"].trainable
    assert not wrapped_graph(trainable=False).modules["layer"].trainable
    frozen = nn.Linear(3, 3).requires_grad_(False)
    assert not neumo.wrap(frozen, takes={"x": ROW}, gives={"y": ROW}).trainable


def test_a_wrapped_loss_is_a_loss():
    batch = PointData()()
    line = Line(width=3)
    column = Acoustic()[B, F(1)]
    error = neumo.wrap(nn.MSELoss(), takes={"given": column, "wanted": column}, gives={"loss": Loss()[()]})
    assert error.role == "loss"
    result = factory(precision="bf16").train(error(given=line(x=batch.x).y, wanted=batch.y).loss, max_steps=3)
    assert result.steps == 3


def test_weights_of_a_wrapped_module_are_saved_and_a_recipe_is_refused(tmp_path):
    graph, maker = wrapped_graph(), factory()
    maker.train(graph, max_steps=2)
    maker.save(graph, tmp_path / "weights.safetensors")
    again, other = wrapped_graph(), factory()
    other.load(again, tmp_path / "weights.safetensors")
    assert all(np.array_equal(maker.weights(graph)[name], w) for name, w in other.weights(again).items())
    with refused(ConfigError, "layer cannot be written as a recipe.*TorchModule.*factory.save") as caught:
        graph.save(tmp_path / "graph.yaml")
    assert caught.value.code == "wrapped"


def test_two_wrapped_modules_are_never_equal_and_are_called_as_their_class():
    one, two = (neumo.wrap(nn.Linear(3, 3), takes={"x": ROW}, gives={"y": ROW}) for _ in range(2))
    opened = inputs(x=ROW)
    first, second = Graph(outputs={"y": one(x=opened.x).y}), Graph(outputs={"y": two(x=opened.x).y})
    assert first == Graph(outputs={"y": one(x=inputs(x=ROW).x).y})
    assert first != second
    both = Graph(outputs={"y": two(x=one(x=opened.x).y).y})
    assert list(both.modules) == ["Linear", "Linear_2"]
    assert "Linear" not in neumo.graph.known_kinds()


@dataclass
class Scaled(neumo.TorchModule):
    """Scales, and adds what it has learned."""

    width: int = 3
    factor: float = 2.0
    steps: tuple[int, ...] = ()

    def signature(self) -> Signature:
        row = Acoustic()[B, F(self.width)]
        return Signature(takes={"x": row}, gives={"y": row})

    def setup(self) -> None:
        self.shift = nn.Parameter(torch.zeros(self.width))
        self.register_buffer("seen", torch.zeros(1))

    def scale(self, x: Tensor) -> Tensor:
        return x * self.factor

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen += len(x)
        return self.scale(x) + self.shift


@dataclass
class Twice(Scaled):
    """Derives, and calls what it derives from."""

    def setup(self) -> None:
        super().setup()
        self.more = nn.Linear(self.width, self.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.more(super().forward(x))


@dataclass(frozen=True)
class Frozen(neumo.TorchModule):
    """Is frozen as a dataclass, which setting layers does not mind."""

    width: int = 3
    trainable: ClassVar[bool] = False

    def signature(self) -> Signature:
        return Signature(takes={"x": ROW}, gives={"y": ROW, "z": ROW})

    def setup(self) -> None:
        self.layer = nn.Linear(self.width, self.width)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(x), x


@dataclass
class Negative(neumo.TorchModule):
    """Has no weights."""

    def signature(self) -> Signature:
        return Signature(takes={"x": ROW}, gives={"y": ROW})

    def forward(self, x: Tensor) -> Tensor:
        return -x


def test_one_class_is_a_specification_and_its_code():
    spec = Scaled(factor=3.0)
    assert repr(spec) == "Scaled(factor=3.0)"
    assert run(spec, ["y"], x=np.ones((2, 3)))["y"].tolist() == [[3.0] * 3] * 2
    assert run(Frozen(), ["y", "z"], x=np.ones((2, 3)))["z"].tolist() == [[1.0] * 3] * 2
    assert run(Negative(), ["y"], x=np.ones((2, 3)))["y"].tolist() == [[-1.0] * 3] * 2
    assert (Scaled.trainable, Twice.trainable, Frozen.trainable, Negative.trainable) == (
        True,
        True,
        False,
        False,
    )


def test_the_torch_part_is_a_plain_module():
    layers = Twice(width=4, factor=5.0).to_torch()
    assert isinstance(layers, nn.Module)
    assert type(layers).__name__ == "Twice"
    assert sorted(layers.state_dict()) == ["more.bias", "more.weight", "seen", "shift"]
    assert "width=4, factor=5.0" in repr(layers)
    layers(torch.ones(3, 4)).sum().backward()
    assert layers.shift.grad is not None
    assert layers.seen.item() == 3
    twin = copy.deepcopy(layers)
    assert twin.more is not layers.more
    assert torch.equal(twin(torch.ones(1, 4)), layers(torch.ones(1, 4)))


def test_equal_settings_do_not_make_layers_one():
    both = nn.ModuleList([Scaled().to_torch(), Scaled().to_torch()])
    assert len(list(both.parameters())) == 2
    assert both[0] != both[1]
    batch = PointData()()
    one, two, line = Scaled().named("one"), Scaled().named("two"), Line().named("line")
    loss = SquaredError()(given=line(x=two(x=one(x=batch.x).y).y).y, wanted=batch.y).loss
    graph, maker = Graph(outputs={"loss": loss}), factory()
    maker.train(graph, optimizer=SGD(lr=0.01), epochs=1)
    weights = maker.weights(graph)
    assert not np.array_equal(weights["one.shift"], weights["two.shift"])
    assert weights["one.seen"] == weights["two.seen"] == 40


def test_weights_start_from_the_seed_of_the_factory():
    first, second, third = (factory(seed=seed).weights(Twice().named("twice")) for seed in (1, 1, 2))
    assert np.array_equal(first["more.weight"], second["more.weight"])
    assert not np.array_equal(first["more.weight"], third["more.weight"])


def test_a_recipe_knows_the_class_by_its_name():
    opened = inputs(x=ROW)
    graph = Graph("infer", "infer", {"y": Scaled(factor=7.0, steps=(1, 2)).named("scaled")(x=opened.x).y})
    text = recipe_text(Recipe(graphs={"infer": graph}))
    assert "kind: Scaled" in text
    again = load_recipe(text + "\n").graph("infer")
    assert again == graph
    assert again.modules["scaled"].factor == 7.0


def test_a_class_that_computes_nothing_is_refused():
    @dataclass
    class Silent(neumo.TorchModule):
        def signature(self) -> Signature:
            return Signature(takes={"x": ROW}, gives={"y": ROW})

    with refused(GraphError, r"Silent does not say what it computes.*define forward"):
        build(Silent())(torch.zeros(1, 3))


def test_a_setting_that_torch_would_hide_is_refused():
    @dataclass
    class Wrong(neumo.TorchModule):
        train: int = 3

        def signature(self) -> Signature:
            return Signature(takes={"x": ROW}, gives={"y": ROW})

    with refused(GraphError, "a setting of Wrong cannot be called 'train'"):
        build(Wrong())


def test_layers_are_made_in_setup_and_nowhere_else():
    @dataclass
    class Hasty(neumo.TorchModule):
        layer: Any = None

        def __post_init__(self) -> None:
            self.layer = nn.Linear(3, 3)

        def signature(self) -> Signature:
            return Signature(takes={"x": ROW}, gives={"y": ROW})

    with refused(GraphError, r"Hasty\.layer is a layer, and a specification has none.*setup\(self\)"):
        build(Hasty())


def test_neumo_without_torch_names_what_is_missing():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import neumo\n"
        "try: neumo.wrap\n"
        "except ModuleNotFoundError as error: print(error)\n"
        "assert 'numpy' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "neumo.wrap needs torch, which is not installed: pip install 'neumo[torch,asr]'"
    )


class Parts(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"first": x, "second": -x}


class Rows(nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        return list(x)


def test_a_mapping_or_list_that_is_one_value_stays_whole():
    parts = Struct(first=ROW, second=ROW)[()]
    struct = neumo.wrap(Parts(), takes={"x": ROW}, gives={"parts": parts})
    model = Graph(outputs={"parts": struct(x=inputs(x=ROW).x).parts}).to_torch()
    assert list(model(x=torch.ones(2, 3))["parts"]) == ["first", "second"]
    listed = neumo.wrap(Rows(), takes={"x": ROW}, gives={"rows": Acoustic()[B.list(), F(3)]})
    model = Graph(outputs={"rows": listed(x=inputs(x=ROW).x).rows}).to_torch()
    assert [row.shape for row in model(x=torch.ones(2, 3))["rows"]] == [(3,), (3,)]
    named = neumo.wrap(Parts(), takes={"x": ROW}, gives={"second": ROW})
    model = Graph(outputs={"y": named(x=inputs(x=ROW).x).second}).to_torch()
    assert model(x=torch.ones(1, 3))["y"].tolist() == [[-1.0] * 3]


def test_a_graph_with_a_wrapped_module_is_pickled_with_its_weights():
    layer = neumo.wrap(nn.Linear(3, 3), takes={"x": ROW}, gives={"y": ROW}, name="layer", trainable=False)
    again = pickle.loads(pickle.dumps(Graph(outputs={"y": layer(x=inputs(x=ROW).x).y})))
    copied = again["layer"]
    assert (type(copied).__name__, str(copied.signature())) == ("Linear", str(layer.signature()))
    assert (copied.starts_frozen, copied.trainable, copied.role) == (True, False, "module")
    x = np.ones((2, 3), np.float32)
    (found,) = factory().infer(again, {"x": x})
    assert np.allclose(found["y"], layer.module(torch.as_tensor(x)).detach().numpy())
