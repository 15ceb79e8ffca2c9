import pytest

from neumo.engine import SGD, Adam, AdamW, Group, Muon
from neumo.engine.updates.parameter_groups import Weight, settings_of
from neumo.types import ConfigError, GraphError

from .toys import refused

AXES = {
    "encoder.embed.weight": 2,
    "encoder.blocks.0.weight": 2,
    "encoder.blocks.0.bias": 1,
    "encoder.blocks.1.weight": 3,
    "encoder.blocks.1.bias": 1,
    "head.weight": 2,
    "head.bias": 1,
}
NAMES = {
    module: [name.partition(".")[2] for name in AXES if name.startswith(module)]
    for module in ("encoder", "head")
}


def settings(spec, trained=tuple(AXES)):
    weights = {name: Weight(names=(name,), axes=AXES[name], embedding="embed" in name) for name in trained}
    return settings_of(spec, weights, NAMES)


def rates(*groups, lr=1.0):
    return {name: each.lr for name, each in settings(SGD(lr=lr, groups=groups)).items()}


def decays(*groups, **changes):
    return {name: each.weight_decay for name, each in settings(AdamW(groups=groups, **changes)).items()}


def test_without_groups_all_weights_have_the_settings_of_the_optimizer():
    assert set(rates(lr=0.5).values()) == {0.5}
    expected = {name: 0.1 if axes > 1 else 0.0 for name, axes in AXES.items()}
    assert decays(weight_decay=0.1) == expected
    assert set(decays(weight_decay=0.1, decay_all=True).values()) == {0.1}


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("head", {"head.weight", "head.bias"}),
        ("head.bias", {"head.bias"}),
        ("encoder.blocks.0", {"encoder.blocks.0.weight", "encoder.blocks.0.bias"}),
        ("*.bias", {name for name in AXES if name.endswith("bias")}),
        ("enc*.1.*", {"encoder.blocks.1.weight", "encoder.blocks.1.bias"}),
        (("head.bias", "encoder.embed"), {"head.bias", "encoder.embed.weight"}),
    ],
)
def test_names_are_read_as_freezing_reads_them(pattern, named):
    assert {name for name, lr in rates(Group(pattern, lr=0.1)).items() if lr == 0.1} == named


def test_the_last_group_that_says_a_setting_gives_it():
    found = settings(
        AdamW(
            lr=1.0,
            weight_decay=0.5,
            groups=(
                Group("encoder", lr=0.1, weight_decay=0.2),
                Group("*.bias", lr_scale=3.0),
                Group("encoder.blocks.0*", lr=0.0),
            ),
        )
    )
    assert {name: (each.lr, each.weight_decay) for name, each in found.items()} == {
        "encoder.embed.weight": (0.1, 0.2),
        "encoder.blocks.0.weight": (0.0, 0.2),
        "encoder.blocks.0.bias": (0.0, 0.0),
        "encoder.blocks.1.weight": (0.1, 0.2),
        "encoder.blocks.1.bias": (3.0, 0.0),
        "head.weight": (1.0, 0.5),
        "head.bias": (3.0, 0.0),
    }


def test_a_group_decides_whether_its_biases_decay():
    found = decays(Group("head", decay_all=True), Group("encoder", weight_decay=0.2), weight_decay=0.1)
    assert found["head.bias"] == 0.1
    assert found["encoder.blocks.0.bias"] == 0.0
    assert decays(Group("*.bias", weight_decay=0.2, decay_all=True))["head.bias"] == 0.2
    assert decays(Group("*", decay_all=False), weight_decay=0.1, decay_all=True)["head.bias"] == 0.0


def test_a_group_behind_which_a_more_general_one_stands_is_refused():
    with refused(ConfigError, "the group 'head.bias' changes nothing: groups behind it"):
        rates(Group("head.bias", lr=0.1), Group("head", lr=0.2))
    assert rates(Group("head", lr=0.2), Group("head.bias", lr=0.1))["head.bias"] == 0.1


def test_decay_that_would_be_spared_is_refused():
    with refused(ConfigError, "names biases and norms only.*decay_all=True"):
        decays(Group("*.bias", weight_decay=0.2))


def test_names_that_mean_nothing_are_refused_with_the_nearest_match():
    with refused(GraphError, "SGD: the training has no module 'encodr'.*did you mean 'encoder'"):
        rates(Group("encodr", lr=0.1))
    with refused(GraphError, "no weight 'encoder.block.0'.*did you mean 'encoder.blocks.0"):
        rates(Group("encoder.block.0", lr=0.1))


def test_weights_that_are_not_trained_are_no_group():
    spec = Adam(groups=(Group("head", lr=0.1),))
    with refused(ConfigError, "changes none of the weights that 'head' names.*head.bias is frozen"):
        settings(spec, [name for name in AXES if name.startswith("encoder")])
    half = settings(spec, [name for name in AXES if name != "head.weight"])
    assert half["head.bias"].lr == 0.1


def test_muon_trains_matrices_that_are_no_embeddings():
    found = settings(Muon(lr=0.5, others=AdamW(lr=0.1, weight_decay=0.3), others_for=("head.weight",)))
    assert [name for name, each in found.items() if not each.others] == ["encoder.blocks.0.weight"]
    assert {(each.lr, each.weight_decay) for each in found.values() if each.others} == {
        (0.1, 0.3),
        (0.1, 0.0),
    }


def test_groups_of_muon_name_weights_of_either_optimizer():
    spec = Muon(lr=0.5, others=AdamW(lr=0.1), groups=(Group("encoder", lr_scale=0.5),))
    found = settings(spec)
    assert found["encoder.blocks.0.weight"].lr == 0.25
    assert found["encoder.blocks.0.bias"].lr == 0.05
    assert found["head.weight"].lr == 0.5


def test_muon_without_a_matrix_is_refused():
    with refused(ConfigError, "Muon has no matrix to train.*train with AdamW alone"):
        settings(Muon(), [name for name in AXES if name.endswith("bias")])
