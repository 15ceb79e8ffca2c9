"""Attention decoders and their loss: ports, padding, precision, gradients, and that they learn."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
import torch.nn.functional as F
from tests.asr.attention_toys import ABC, GRU, LSTM, TRANSFORMER, WIDTH, Spelled, recognising, training

from neumo.asr import (
    AttentionBeam,
    AttentionGreedy,
    CTCHead,
    RecurrentDecoder,
    SequenceLoss,
    TransformerDecoder,
)
from neumo.backends.torch.registry import build
from neumo.engine import SGD, AdamW, Checkpoint, NeuralFactory
from neumo.engine.callbacks.samples import Samples
from neumo.engine.callbacks.schedule_value import Ramp, ScheduleValue
from neumo.graph import Graph, inputs
from neumo.graph.yaml import load_recipe, save_recipe
from neumo.hub import load_model, save_model
from neumo.nn.position import sinusoids
from neumo.nn.scorer import LabelScorer
from neumo.types import Acoustic, B, ConfigError, DataError, GraphError, Ids, Lengths, PortError, T, U, Vocab
from neumo.types import F as Features

ALL = pytest.mark.parametrize("spec", [LSTM, GRU, TRANSFORMER], ids=["lstm", "gru", "transformer"])
FRAMES, LABELS = torch.tensor([9, 5, 1, 0]), torch.tensor([3, 4, 1, 0])


def example(dtype=torch.float64):
    torch.manual_seed(4)
    return torch.randn(4, WIDTH, 9, dtype=dtype), torch.randint(0, 3, (4, 4))


def opened():
    return inputs(
        encoded=Acoustic()[B, Features(WIDTH), T],
        encoded_len=Lengths(T)[B],
        targets=Ids(ABC)[B, U],
        targets_len=Lengths(U)[B],
    )


def told_by(spec, given):
    return spec(
        encoded=given.encoded,
        encoded_len=given.encoded_len,
        targets=given.targets,
        targets_len=given.targets_len,
    )


@ALL
def test_the_call_decides_between_scores_and_a_scorer(spec):
    given = opened()
    told = told_by(spec, given)
    assert str(told.log_probs.type).startswith("LogProbs(abc+ends[5]")
    assert [str(axis) for axis in told.alignment.type.axes] == ["B", "U + 1", "T"]
    untold = spec(encoded=given.encoded, encoded_len=given.encoded_len)
    assert [value.port for value in untold] == ["scorer"]
    with pytest.raises(PortError, match="build AttentionGreedy with vocab=abc"):
        AttentionGreedy(Vocab("abd", name="abd"))(scorer=untold.scorer, encoded_len=given.encoded_len)


def test_the_mode_of_a_graph_says_whether_there_are_targets():
    given = opened()
    untold = LSTM(encoded=given.encoded, encoded_len=given.encoded_len)
    told = told_by(LSTM, given)
    with pytest.raises(GraphError, match="targets"):
        Graph("g", "train", {"scorer": untold.scorer})
    with pytest.raises(GraphError, match="targets"):
        Graph("g", "infer", {"log_probs": told.log_probs})


@ALL
def test_what_stands_in_the_padding_changes_nothing(spec):
    module, (encoded, targets) = build(spec).double().eval(), example()
    targets[LABELS[:, None] <= torch.arange(4)] = -7
    encoded = encoded.masked_fill(torch.arange(9) >= FRAMES[:, None, None], torch.nan)
    together = module(encoded, FRAMES, targets, LABELS)
    assert torch.isfinite(together.log_probs).all()
    assert together.log_probs_len.tolist() == [4, 5, 2, 1]
    for row, (frames, labels) in enumerate(zip(FRAMES.tolist(), LABELS.tolist(), strict=True)):
        one = slice(row, row + 1)
        alone = module(encoded[one, :, :frames], FRAMES[one], targets[one, :labels], LABELS[one])
        found = together.log_probs[one, : labels + 1], together.alignment[one, : labels + 1]
        assert (alone.log_probs - found[0]).abs().max() < 1e-9
        assert torch.allclose(alone.alignment, found[1][..., :frames], atol=1e-9)
        assert not found[1][..., frames:].any()
        sums = found[1].sum(2)
        assert torch.allclose(sums, torch.full_like(sums, float(frames > 0)), atol=1e-6)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_transformer_is_that_of_torch(norm):
    spec = dataclasses.replace(TRANSFORMER, width=24, norm=norm, activation="gelu")
    module = shaken(build(spec).double().eval())
    layer = torch.nn.TransformerDecoderLayer(
        24, 2, 48, activation="gelu", batch_first=True, norm_first=norm == "pre"
    )
    last = torch.nn.LayerNorm(24) if norm == "pre" else None
    theirs = torch.nn.TransformerDecoder(layer, 2, last).double().eval()
    for mine, other in zip(module.layers, theirs.layers, strict=True):
        for one, two in ((mine.attention, other.self_attn), (mine.cross, other.multihead_attn)):
            parts = one.query, one.key, one.value
            two.in_proj_weight.data = torch.cat([part.weight for part in parts])
            two.in_proj_bias.data = torch.cat([part.bias for part in parts])
            two.out_proj.load_state_dict(one.output.state_dict())
        norms = mine.norm_attention, mine.norm_cross, mine.norm_feed_forward
        for one, two in zip(norms, (other.norm1, other.norm2, other.norm3), strict=True):
            two.load_state_dict(one.state_dict())
        other.linear1.load_state_dict(mine.feed_forward.widen.state_dict())
        other.linear2.load_state_dict(mine.feed_forward.narrow.state_dict())
    if last is not None:
        theirs.norm.load_state_dict(module.norm.state_dict())
    encoded, targets = torch.randn(3, 24, 9).double(), example()[1][:3]
    labels = torch.cat([torch.full((3, 1), 3), targets], dim=1)
    x = module.embedding(labels) * 24**0.5 + sinusoids(torch.arange(5), 24)
    wanted = module.output(
        theirs(
            x,
            encoded.transpose(1, 2),
            tgt_mask=torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64),
            memory_key_padding_mask=torch.arange(9) >= FRAMES[:3, None],
        )
    ).log_softmax(-1)
    found = module(encoded, FRAMES[:3], targets, torch.full((3,), 4))
    assert (found.log_probs - wanted).abs().max() < 1e-6  # sinusoids are float32


def shaken(module):
    """Biases and norms that are not at their defaults."""
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.3)
    return module


@ALL
def test_labels_one_by_one_score_as_labels_that_are_told(spec):
    module, (encoded, targets) = build(spec).double().eval(), example()
    told = module(encoded, FRAMES, targets, torch.full((4,), 4)).log_probs
    scorer = module(encoded, FRAMES)
    assert isinstance(scorer, LabelScorer)
    assert scorer.shape == (4,)
    state, label, stepped = scorer.start(1), torch.full((4,), 3), []
    for at in range(5):
        log_probs, state = scorer.score(label, state)
        stepped.append(log_probs)
        label = targets[:, min(at, 3)]
    assert (torch.stack(stepped, 1) - told).abs().max() < 1e-9


@ALL
def test_a_label_sees_those_before_it_and_none_behind(spec):
    module, (encoded, targets) = build(spec).double().eval(), example()
    other = targets.clone()
    other[:, 2] = (other[:, 2] + 1) % 3
    one, two = (module(encoded, FRAMES, each, torch.full((4,), 4)).log_probs for each in (targets, other))
    assert torch.equal(one[:, :3], two[:, :3])
    assert (one[:, 3:] != two[:, 3:]).any()


@ALL
def test_gradients_reach_all_weights_and_no_padding(spec):
    module, (encoded, targets) = build(spec).double(), example()
    encoded.requires_grad_()
    told = module(encoded, FRAMES, targets, LABELS)
    loss = build(SequenceLoss(ABC, smoothing=0.1))(told.log_probs, targets, LABELS)
    loss.loss.backward()
    for name, weight in module.named_parameters():
        assert torch.isfinite(weight.grad).all()
        assert weight.grad.any() or "key.bias" in name, name  # that of keys moves all scores alike
    inside = (torch.arange(9) < FRAMES[:, None, None]).expand_as(encoded)
    assert not encoded.grad[~inside].any()
    assert encoded.grad[:2][inside[:2]].abs().min() > 0


@ALL
def test_it_trains_and_searches_under_autocast(spec):
    module, (encoded, targets) = build(spec), example(torch.float32)
    module.eval()
    exact = module(encoded, FRAMES, targets, LABELS).log_probs
    with torch.autocast("cpu", dtype=torch.bfloat16):
        lowered = module(encoded.bfloat16(), FRAMES, targets, LABELS)
        scorer = module(encoded.bfloat16(), FRAMES)
    assert lowered.log_probs.dtype == torch.float32
    assert (lowered.log_probs - exact).abs().max() < 0.1
    lowered.log_probs.sum().backward()
    heard = build(AttentionBeam(ABC, beam=2))(
        scorer, FRAMES
    )  # outside of the autocast, as an engine calls it
    assert torch.isfinite(heard.score).all()


@ALL
def test_it_computes_in_bf16_altogether(spec):
    module, (encoded, targets) = build(spec).bfloat16(), example(torch.bfloat16)
    assert torch.isfinite(module(encoded, FRAMES, targets, LABELS).log_probs).all()
    assert torch.isfinite(build(AttentionGreedy(ABC))(module(encoded, FRAMES), FRAMES).score).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_the_loss_is_cross_entropy_of_the_labels_and_their_end(smoothing):
    torch.manual_seed(1)
    logits, targets = torch.randn(4, 5, 5, dtype=torch.float64), example()[1]
    rows = [(logits[n, : k + 1], torch.tensor([*targets[n, :k], 4])) for n, k in enumerate(LABELS.tolist())]
    sums = [F.cross_entropy(a, b, label_smoothing=smoothing, reduction="sum").item() for a, b in rows]
    targets[LABELS[:, None] <= torch.arange(4)] = 99
    for over, count in (("utterances", 4), ("positions", int(LABELS.sum()) + 4)):
        found = build(SequenceLoss(ABC, smoothing, over))(logits.log_softmax(-1), targets, LABELS)
        assert found.loss.item() == pytest.approx(sum(sums) / count, rel=1e-12)
        assert found.count == count


def test_a_loss_of_no_utterances_is_zero():
    found = build(SequenceLoss(ABC))(torch.zeros(0, 3, 5), torch.zeros(0, 2).long(), torch.zeros(0).long())
    assert (found.loss.item(), found.count.item()) == (0, 0)


@pytest.mark.parametrize("wrong", [-1, 3, 4])
def test_ids_of_another_vocabulary_are_refused_by_the_numbers(wrong):
    encoded, targets = example(torch.float32)
    targets[1, 2] = wrong
    with pytest.raises(DataError, match=f"{wrong}.*the vocabulary has 0 to 2"):
        build(LSTM)(encoded, FRAMES, targets, LABELS)
    with pytest.raises(DataError, match="the vocabulary has 0 to 2"):
        build(SequenceLoss(ABC))(torch.zeros(4, 5, 5), targets, LABELS)


def test_sampling_puts_own_labels_in_the_place_of_targets_in_training_only():
    module, (encoded, targets) = build(LSTM), example(torch.float32)
    told = module(encoded, FRAMES, targets, LABELS).log_probs
    module.sampling = 1.0

    def sampled(seed):
        torch.manual_seed(seed)
        return module(encoded, FRAMES, targets, LABELS).log_probs

    assert torch.equal(sampled(1)[:, 0], told[:, 0])
    assert not torch.equal(sampled(1)[:, 1:], told[:, 1:])
    assert torch.equal(sampled(1), sampled(1))
    assert not torch.equal(sampled(1), sampled(2))
    assert torch.equal(module.eval()(encoded, FRAMES, targets, LABELS).log_probs, told)


def test_a_sampled_label_is_never_an_end():
    module = build(LSTM)
    with torch.no_grad():
        module.output.bias.copy_(torch.tensor([0.0, -90.0, -90.0, 90.0, 90.0]))
    module.sampling = 1.0
    found = module._sampled(torch.tensor([1, 2]), torch.zeros(2, 24))
    assert found.tolist() == [0, 0]


def test_scheduled_sampling_is_resumed_exactly(tmp_path):
    def run(folder, steps):
        decoder = RecurrentDecoder(
            ABC, width=WIDTH, hidden=8, embedding=4, attention=6, filters=2, kernel=3, dropout=0.2
        ).named("decoder")
        maker = NeuralFactory(folder=folder, seed=3, device="cpu")
        result = maker.train(
            training(decoder, Spelled(words=32, batch_size=8)),
            optimizer=AdamW(lr=0.01),
            schedule=None,
            max_steps=steps,
            checkpoint=Checkpoint(every_steps=1),
            callbacks=[ScheduleValue(decoder, "sampling", Ramp(0.0, 1.0, until=6), Ramp(1.0, 0.5))],
        )
        return result.losses

    whole = run(tmp_path / "whole", 8)
    parts = run(tmp_path / "parts", 5) + run(tmp_path / "parts", 8)
    assert parts == whole
    assert len(whole) == 8


@pytest.mark.parametrize(
    ("joint", "mean_over"), [(False, "utterances"), (False, "positions"), (True, "utterances")]
)
def test_a_step_of_uneven_batches_is_that_of_one_batch(joint, mean_over):
    def trained(batch_size, batches):
        decoder, head = dataclasses.replace(LSTM), CTCHead(ABC, width=WIDTH) if joint else None
        maker = NeuralFactory(device="cpu", seed=2)
        data = Spelled(words=16, batch_size=batch_size, shuffle=False)
        graph = training(decoder, data, head, mean_over=mean_over)
        result = maker.train(
            graph, optimizer=SGD(lr=0.1), schedule=None, max_steps=3, batches_per_step=batches
        )
        return result.losses, maker.weights(graph)

    one, split = trained(16, 1), trained(7, 3)
    assert split[0] == pytest.approx(one[0], rel=1e-5)
    for name, weight in one[1].items():
        assert np.allclose(split[1][name], weight, atol=1e-5), name


def test_labels_are_read_and_written_with_one_weight():
    decoder, maker = dataclasses.replace(TRANSFORMER), NeuralFactory(device="cpu", seed=2)
    maker.tie((decoder, "output.weight"), (decoder, "embedding.weight"))
    graph = training(decoder, Spelled(words=16))
    maker.train(graph, optimizer=SGD(lr=0.1), schedule=None, max_steps=1)
    layers = maker.session.implementation(decoder)
    assert layers.output.weight is layers.embedding.weight


@pytest.mark.parametrize("spec", [LSTM, TRANSFORMER], ids=["lstm", "transformer"])
def test_it_learns_to_copy(spec, tmp_path):
    decoder = dataclasses.replace(spec)
    maker = NeuralFactory(folder=tmp_path, seed=1, device="cpu")
    maker.train(training(decoder), optimizer=AdamW(lr=0.01), epochs=20)
    assert maker.evaluate(recognising(decoder, AttentionGreedy(ABC)))["cer"] < 0.05


def test_it_learns_beside_ctc_and_is_searched_with_it(tmp_path):
    decoder, head = dataclasses.replace(TRANSFORMER, layers=1), CTCHead(ABC, width=WIDTH)
    maker = NeuralFactory(folder=tmp_path, seed=1, device="cpu", precision="bf16", verify="values")
    maker.train(training(decoder, head=head), optimizer=AdamW(lr=0.02), epochs=12)
    beam = AttentionBeam(ABC, beam=4, ctc_weight=0.3, length_bonus=0.2)
    assert maker.evaluate(recognising(decoder, beam, head=head))["cer"] < 0.1


RECIPE = """
neumo: 1
vocabs:
  letters: {labels: "abc"}
modules:
  decoder: {kind: RecurrentDecoder, vocab: letters, width: 6, hidden: 8, embedding: 4, attention: 6,
            kernel: 3}
  head: {kind: CTCHead, vocab: letters, width: 6}
  ctc: {kind: CTCLoss, vocab: letters}
  sequence: {kind: SequenceLoss, vocab: letters, smoothing: 0.1}
  both: {kind: LossSum, weights: {ctc: 0.3, attention: 0.7}}
  beam: {kind: AttentionBeam, vocab: letters, beam: 4, ctc_weight: 0.3}
graphs:
  train:
    mode: train
    inputs: {encoded: "Acoustic[B, F=6, T]", encoded_len: "Lengths(T)[B]", text: "Ids(letters)[B, U]",
             text_len: "Lengths(U)[B]"}
    steps:
      told: decoder(encoded=encoded, encoded_len=encoded_len, targets=text, targets_len=text_len)
      frames: head(encoded=encoded)
      one: ctc(log_probs=frames.log_probs, log_probs_len=encoded_len, targets=text, targets_len=text_len)
      two: sequence(log_probs=told.log_probs, targets=text, targets_len=text_len)
      whole: both(ctc=one.loss, attention=two.loss, ctc_count=one.count, attention_count=two.count)
    outputs: {loss: whole.loss, alignment: told.alignment}
  infer:
    mode: infer
    inputs: {encoded: "Acoustic[B, F=6, T]", encoded_len: "Lengths(T)[B]"}
    steps:
      next: decoder(encoded=encoded, encoded_len=encoded_len)
      frames: head(encoded=encoded)
      heard: beam(scorer=next.scorer, encoded_len=encoded_len, log_probs=frames.log_probs,
                  log_probs_len=encoded_len)
    outputs: {ids: heard.ids, ids_len: heard.ids_len, score: heard.score}
"""


def test_a_recipe_trains_and_searches_one_decoder(tmp_path):
    recipe = load_recipe(RECIPE)
    assert recipe.graphs["train"].modules["decoder"] is recipe.graphs["infer"].modules["decoder"]
    save_recipe(recipe, tmp_path / "again.yaml")
    again = load_recipe(tmp_path / "again.yaml")
    assert again.graphs["infer"] == recipe.graphs["infer"]
    encoded = example(torch.float32)[0].numpy()
    maker = NeuralFactory(device="cpu", verify="values")
    (found,) = maker.infer(again.graphs["infer"], {"encoded": encoded[:2], "encoded_len": FRAMES[:2].numpy()})
    assert found["ids"].shape[0] == 2
    assert (found["score"] <= 0).all()


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (RecurrentDecoder, {"kernel": 4}),
        (RecurrentDecoder, {"cell": "rnn"}),
        (RecurrentDecoder, {"sampling": 1.5}),
        (RecurrentDecoder, {"layers": 0}),
        (TransformerDecoder, {"hidden": 10, "heads": 4}),
        (TransformerDecoder, {"norm": "before"}),
        (TransformerDecoder, {"dropout": -0.1}),
        (SequenceLoss, {"smoothing": 2.0}),
        (SequenceLoss, {"mean_over": "tokens"}),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(kind, wrong):
    with pytest.raises(ConfigError):
        kind(ABC, **wrong)


def test_a_model_file_has_the_decoder_and_its_search(tmp_path):
    recipe, maker = load_recipe(RECIPE), NeuralFactory(device="cpu", seed=5)
    given = {"encoded": example(torch.float32)[0].numpy(), "encoded_len": FRAMES.numpy()}
    (wanted,) = maker.infer(recipe.graphs["infer"], given)
    model = load_model(save_model(tmp_path / "las.neumo", recipe, maker), device="cpu")
    (found,) = model.factory.infer(model.graphs["infer"], given)
    assert found["ids"].tolist() == wanted["ids"].tolist()
    assert np.allclose(found["score"], wanted["score"], atol=1e-6)
    plain = recipe.graphs["infer"].to_torch(factory=maker)(
        **{key: torch.as_tensor(value) for key, value in given.items()}
    )
    assert np.allclose(plain["score"], wanted["score"], atol=1e-6)


def test_pictures_show_where_a_decoder_looked(tmp_path):
    decoder = dataclasses.replace(LSTM)
    graph = training(decoder, Spelled(words=8, batch_size=4))
    told = next(step for step in graph.steps if step.module is decoder)
    shown = Graph("shown", "train", {"alignment": told.outputs["alignment"]})
    maker = NeuralFactory(folder=tmp_path, device="cpu")
    maker.train(graph, max_steps=1, callbacks=[Samples(shown, every_steps=1, count=2)])
    assert len(list(tmp_path.rglob("*alignment*.png"))) == 2


def test_the_joint_recipe_of_the_guide_is_one(tmp_path):
    """The YAML of the page, with one voice that says nothing."""
    page = (Path(__file__).parents[2] / "docs" / "speech-recognition.md").read_text(encoding="utf-8")
    text = page.partition("## Attention beside CTC")[2].partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "joint.yaml").write_text(text, encoding="utf-8")
    recipe = load_recipe(tmp_path / "joint.yaml")
    maker = NeuralFactory(device="cpu", verify="values")
    audio = np.random.default_rng(1).normal(size=(2, 4000)).astype(np.float32)
    (found,) = maker.infer(
        recipe.graphs["infer"], {"audio": 0.1 * audio, "audio_len": np.array([4000, 2500])}
    )
    assert found["ids_len"].max() <= 13
    lines = [
        {"audio_filepath": f"{n}.wav", "duration": 0.5, "text": text} for n, text in enumerate(("ab", "c"))
    ]
    for n in range(2):
        soundfile.write(tmp_path / f"{n}.wav", np.full(8000, 0.1 * n, np.float32), 16000)
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, lines)))
    maker = NeuralFactory(folder=tmp_path / "run", device="cpu", verify="values")
    assert maker.train(recipe.graphs["train"], max_steps=1).steps == 1
