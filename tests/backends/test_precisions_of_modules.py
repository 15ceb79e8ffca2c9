import logging
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

import neumo
from neumo.engine import AdamW
from neumo.engine.plan import compile_plan
from neumo.engine.recipes import make_factory, read_actions, run_train
from neumo.engine.updates.precision import LossScale
from neumo.graph.graph import Graph
from neumo.graph.yaml import load_recipe
from neumo.types import Acoustic, B, BackendError, ConfigError, F, GraphError, T

from ..engine.toys import line_graphs, refused
from .precise import BlockReadout, factory, layers_of, stack_graph

HALF, SINGLE, DOUBLE = torch.bfloat16, torch.float32, torch.float64


def seen(precision, precisions, **options):
    """What the blocks and the decoder were given and made, and the dtypes of their weights."""
    graph = stack_graph(**options)
    maker = factory(precision=precision, precisions=precisions)
    maker.train(graph, max_steps=2)
    encoder, decoder = layers_of(maker, graph)
    parts = [*encoder.blocks, decoder]
    return [(part.given, part.made, part.linear.weight.dtype) for part in parts]


def test_a_module_has_a_precision_of_its_own():
    first, second, last = seen("bf16", {"decoder": "fp32"})
    assert (first[1], second[1]) == (HALF, HALF)
    assert last == (SINGLE, SINGLE, SINGLE)


def test_a_value_goes_up_into_a_module_of_full_precision_and_may_come_down_again():
    assert seen("fp32", {"encoder": "bf16"}) == [
        (SINGLE, HALF, SINGLE),
        (HALF, HALF, SINGLE),
        (SINGLE, SINGLE, SINGLE),
    ]
    assert [part[:2] for part in seen("fp64", {"decoder": "bf16"})] == [
        (DOUBLE, DOUBLE),
        (DOUBLE, DOUBLE),
        (SINGLE, HALF),
    ]


def test_a_layer_has_a_precision_of_its_own():
    assert [part[:2] for part in seen("bf16", {"encoder.blocks.0": "fp32"})] == [
        (SINGLE, SINGLE),
        (SINGLE, HALF),
        (SINGLE, HALF),
    ]
    assert [part[1] for part in seen("fp32", {"encoder.blocks.1*": "bf16"})] == [SINGLE, HALF, SINGLE]


def test_what_a_lowered_layer_gives_goes_on_in_the_precision_around_it():
    graph = stack_graph()
    maker = factory(precisions={"encoder.blocks.0": "bf16"})
    maker.train(graph, max_steps=1)
    encoder, _ = layers_of(maker, graph)
    assert (encoder.blocks[0].made, encoder.blocks[1].given) == (HALF, SINGLE)


def test_a_layer_of_pure_bf16_weights_may_keep_fp32():
    weights = [part[2] for part in seen("pure-bf16", {"encoder.blocks.0": "fp32"})]
    assert weights == [SINGLE, HALF, HALF]
    assert [part[2] for part in seen("fp32", {"encoder": "pure-bf16"})] == [HALF, HALF, SINGLE]
    exact = factory().weights(stack_graph())["encoder.blocks.0.linear.weight"]
    kept = factory(precision="pure-bf16", precisions={"encoder.blocks.0": "fp32"}).weights(stack_graph())
    assert (kept["encoder.blocks.0.linear.weight"] == exact).all()


def test_the_last_pattern_that_fits_decides():
    rows = seen("fp32", {"encoder.blocks.*": "bf16", "encoder.blocks.1": "fp32"})
    assert [row[1] for row in rows] == [HALF, SINGLE, SINGLE]


@pytest.mark.parametrize("precisions", [{"decoder": "fp32"}, {"encoder.blocks.0": "fp32"}])
def test_overrides_change_the_numbers_towards_fp32(precisions):
    def losses(**options):
        return torch.tensor(factory(**options).train(stack_graph(), max_steps=8).losses)

    exact = losses()
    low, own = losses(precision="bf16"), losses(precision="bf16", precisions=precisions)
    assert not torch.equal(low, own)
    assert torch.allclose(own, exact, rtol=0.01)


def test_an_object_may_stand_for_its_name():
    graph = stack_graph()
    decoder = graph.modules["decoder"]
    maker = factory(precision="bf16", precisions={decoder: "fp32"})
    maker.train(graph, max_steps=1)
    assert layers_of(maker, graph)[1].made == SINGLE
    assert "BlockReadout in fp32" in factory(precisions=[(BlockReadout(), "fp32")]).describe()


def test_equal_objects_are_refused_as_a_mapping_could_mix_them_up():
    graph = stack_graph()
    with refused(ConfigError, "are equal, and could be mixed up.*precisions={'decoder': 'fp32'}"):
        factory(precisions={BlockReadout(): "fp32"}).train(graph, max_steps=1)


def test_a_module_without_weights_computes_in_a_half_precision_only_if_told():
    graph = stack_graph(gain=2.0)
    maker = factory(precisions={"louder": "pure-bf16"})
    maker.train(graph, max_steps=1)
    assert maker.session.implementation(graph.modules["louder"]).given == HALF


def test_an_unknown_name_is_refused_when_a_graph_is_first_run():
    maker = factory(precisions={"decodr.linear": "fp32"})
    with refused(GraphError, "no module of graph 'train' is called 'decodr'.*did you mean 'decoder.linear'"):
        maker.train(stack_graph(), max_steps=1)
    maker = factory(precisions={"encoder.blocs.0": "fp32"})
    with refused(GraphError, "encoder has no layer 'encoder.blocs.0'.*did you mean 'encoder.blocks.0'"):
        maker.train(stack_graph(), max_steps=1)
    maker = factory(precisions={"*coder.blocs.*": "fp32"})
    with refused(GraphError, "has no layer '\\*coder.blocs"):
        maker.train(stack_graph(), max_steps=1)


def test_a_name_may_be_one_of_another_graph_of_the_factory():
    train, test = line_graphs()
    maker = factory(precisions={"SquaredError": "fp32"})
    maker.train(train, max_steps=1, evaluate=test)
    maker.evaluate(test)
    with refused(GraphError, "graph 'test' is called 'SquaredError'"):
        factory(precisions={"SquaredError": "fp32"}).evaluate(test)


@pytest.mark.parametrize(
    ("precisions", "words"),
    [
        ({"decoder": "tf32"}, "tf32 is for the whole factory"),
        ({3: "fp32"}, "3 is neither a module nor the name of one"),
        ({"": "fp32"}, "'' is neither a module"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(precisions, words):
    with refused(ConfigError, words):
        factory(precisions=precisions)


def test_the_device_is_asked_for_the_precisions_of_modules_too():
    with refused(BackendError, "fp16 on a CPU is refused"):
        factory(precisions={"decoder": "fp16"})
    with refused(BackendError, "no precision 'fp23'.*did you mean 'fp32'"):
        factory(precisions={"decoder": "fp23"})


def test_an_fp16_module_in_an_fp32_factory_has_its_loss_scaled():
    maker = factory(precisions={"decoder": "fp16"}, allow={"fp16-on-cpu"})
    result = maker.train(stack_graph(), epochs=10, optimizer=AdamW(lr=0.02), loss_scale=1024.0)
    assert result.losses[-1] < 0.5 * result.losses[0]


def test_an_operation_that_takes_no_bf16_names_its_module_and_the_way_out():
    graph = stack_graph(strict=True)
    with refused(BackendError, "decoder cannot compute in bf16 on cpu.*precisions={'decoder': 'fp32'}"):
        factory(precision="bf16").train(graph, max_steps=1)
    with refused(BackendError, "decoder cannot compute in pure-bf16.*factory: {precisions: {decoder: fp32}}"):
        factory(precision="pure-bf16").train(graph, max_steps=1)
    assert factory(precision="bf16", precisions={"decoder": "fp32"}).train(graph, max_steps=1).steps == 1
    assert factory(precision="pure-bf16", precisions={"decoder": "fp32"}).train(graph, max_steps=1).steps == 1


def test_a_module_that_is_wrong_in_every_precision_is_not_blamed_on_the_precision():
    batch_of = neumo.inputs(x=Acoustic()[B, F(8)])
    wrong = neumo.wrap(
        nn.Sequential(nn.Linear(8, 4), nn.Linear(5, 1)),
        takes={"x": Acoustic()[B, F(8)]},
        gives={"y": Acoustic()[B, F(1)]},
        name="wrong",
    )
    graph = Graph("shapes", outputs={"y": wrong(x=batch_of.x).y})
    with refused(BackendError, "wrong failed: RuntimeError"):
        factory(precision="bf16").infer(graph, {"x": torch.ones(2, 8).numpy()})


def test_a_recurrent_layer_that_fails_in_fp16_is_named(monkeypatch):
    """Whether it fails depends on the CPU, so it is made to fail."""
    plain = nn.LSTM.forward

    def picky(self, values, *rest):
        if torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.float16:
            raise RuntimeError("could not create a primitive descriptor")
        return plain(self, values, *rest)

    monkeypatch.setattr(nn.LSTM, "forward", picky)
    graph = stack_graph(recurrent=True)
    with refused(BackendError, "recurrence cannot compute in fp16 on cpu: could not create a primitive"):
        factory(precision="fp16", allow={"fp16-on-cpu"}).train(graph, max_steps=1)
    with refused(BackendError, "recurrence.lstm cannot compute in fp16.*{'recurrence.lstm': 'fp32'}"):
        maker = factory(precisions={"recurrence.lstm": "fp16"}, allow={"fp16-on-cpu"})
        maker.train(graph, max_steps=1)
    maker = factory(precision="fp16", allow={"fp16-on-cpu"}, precisions={"recurrence.lstm": "fp32"})
    assert maker.train(graph, max_steps=1).steps == 1


def test_a_layer_that_nothing_calls_is_pointed_out(caplog):
    """Attention reads the weights of its output projection without calling it."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    x = neumo.inputs(x=Acoustic()[B, T, F(8)])
    frames = Acoustic()[B, T, F(8)]
    wrapped = neumo.wrap(layer, takes={"src": frames}, gives={"y": frames}, name="layer")
    graph = Graph("attend", outputs={"y": wrapped(src=x.x).y})
    maker = factory(
        precision="bf16", precisions={"layer.self_attn.out_proj": "fp32", "layer.linear1": "fp32"}
    )
    with caplog.at_level(logging.WARNING, logger="neumo"):
        maker.infer(graph, {"x": torch.ones(2, 3, 8).numpy()})
        maker.infer(graph, {"x": torch.ones(2, 3, 8).numpy()})
    texts = [record.getMessage() for record in caplog.records if "precisions" in record.getMessage()]
    assert texts == [
        "precisions: layer.self_attn.out_proj is not called by itself, so it does not compute in fp32"
    ]


def test_a_factory_that_is_all_fp32_calls_modules_as_they_are():
    train, _ = line_graphs()
    maker = factory()
    program: Any = maker.session.program(compile_plan(train, ["loss"]))
    assert program._calls[0][0] is maker.session.implementation(train.modules["line"])


def test_a_copy_of_a_layer_keeps_its_precision():
    graph = stack_graph()
    maker = factory(precisions={"encoder.blocks.0": "bf16"})
    maker.train(graph, max_steps=1)
    encoder, _ = layers_of(maker, graph)
    copied = deepcopy(encoder)
    with torch.no_grad():
        copied.blocks[0].linear.weight.zero_()
        copied(torch.ones(2, 3))
    assert copied.blocks[0].made == HALF
    assert encoder.blocks[0].linear.weight.any()


def test_a_layer_with_a_precision_of_its_own_is_compiled_in_one_piece():
    graph = stack_graph()
    maker = factory(precision="bf16", precisions={"encoder.blocks.0": "fp32"})
    maker.train(graph, max_steps=1)
    encoder, _ = layers_of(maker, graph)
    compiled = torch.compile(encoder, backend="aot_eager", fullgraph=True)
    x = torch.ones(4, 3)
    with torch.no_grad(), torch.autocast("cpu", HALF):
        assert torch.equal(compiled(x), encoder(x))


RECIPE = """\
neumo: 1
modules:
  data: {kind: PointData, points: 24}
  encoder: {kind: BlockStack}
  decoder: {kind: BlockReadout}
  loss: {kind: SquaredError}
graphs:
  train:
    mode: train
    steps:
      batch: data()
      states: encoder(x=batch.x)
      fitted: decoder(x=states.y)
      loss: loss(given=fitted.y, wanted=batch.y)
    outputs: {loss: loss.loss}
factory:
  device: cpu
  precision: bf16
  precisions: {decoder: fp32, "encoder.blocks.0*": O0}
train: {epochs: 1}
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text(RECIPE)
    return file


def test_a_recipe_gives_modules_and_layers_their_precision(path):
    recipe = load_recipe(path)
    maker = make_factory(recipe, progress=False)
    run_train(recipe, factory=maker)
    encoder, decoder = layers_of(maker, recipe.graph("train"))
    assert [encoder.blocks[0].made, encoder.blocks[1].made, decoder.made] == [SINGLE, HALF, SINGLE]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("factory.precisions={decodr: fp32}", "no module of the recipe is called 'decodr'.*did you mean"),
        ("factory.precisions={decoder: fp23}", "must be .*did you mean 'fp32'"),
        ("factory.precisions={decoder: tf32}", "tf32 is for the whole factory"),
        ("factory.precision=O4", "precision must be .* or 'O3'"),
        ("train.loss_scale={growth: 0.5}", "growth=0.5 is not above 1"),
        ("train.loss_scale=-3", "loss_scale=-3.0 is not above 0"),
    ],
)
def test_a_recipe_is_checked_before_anything_is_built(path, override, words):
    with refused(ConfigError, words):
        read_actions(load_recipe(path, [override]))


def test_a_recipe_scales_the_loss(path):
    recipe = load_recipe(path, ["train.loss_scale={initial: 8, growth_interval: null}"])
    assert read_actions(recipe).train.loss_scale == LossScale(initial=8.0, growth_interval=None)
    with refused(ConfigError, "scales nothing: the factory computes in bf16"):
        run_train(recipe, factory=make_factory(recipe, progress=False))
