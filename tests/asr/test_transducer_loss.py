"""Transducer losses against enumeration, a slow recursion, numerical gradients and the original."""

import functools
import itertools
import math

import pytest
import torch

from neumo.asr import JointNetwork, PredictionNetwork, TDTLoss, TransducerLoss
from neumo.asr.torch.transducer_loss import Objective, transducer_losses
from neumo.backends.torch.registry import build
from neumo.types import ConfigError, DataError, Vocab

AB = Vocab("ab")
BLANK = 2
GRAVES = Objective()
OBJECTIVES = [
    GRAVES,
    Objective((0, 1, 2)),
    Objective((0, 1, 2, 4), sigma=0.05),
    Objective((1, 2)),
    Objective((0, 1, 3), sigma=0.02, omega=0.3),
]


def random(*shape, seed=0, grad=False, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_(grad)


def tokens_of(logits, objective):
    """Log-probabilities of (token, duration) at each node of one utterance, as a function."""
    count = logits.shape[-1] - len(objective.durations)
    tokens, lasting = (
        part.log_softmax(-1) for part in logits.detach().split([count, logits.shape[-1] - count], -1)
    )

    def score(t, u, token, duration):
        if not objective.durations:
            return tokens[t, u, token].item()
        which = objective.durations.index(duration)
        return tokens[t, u, token].item() - objective.sigma + lasting[t, u, which].item()

    return score


def moves(t, u, frames, target, durations):
    """The tokens that may follow at a node: (token, duration, next frame, next label)."""
    for d in [d for d in durations if d] or [1]:
        inside = t + d < frames or (t + d == frames and u == len(target))
        if inside:
            yield BLANK, d, t + d, u
    for d in durations or [0]:
        if u < len(target) and t + d < frames:
            yield target[u], d, t + d, u + 1


def enumerated(logits, target, frames, objective):
    """The sum over every alignment, each walked by itself: minus its logarithm, None if there is none."""
    score = tokens_of(logits, objective)

    def walk(t, u, log_prob):
        if t == frames:
            return math.exp(log_prob)
        steps = moves(t, u, frames, target, objective.durations)
        return sum(walk(t2, u2, log_prob + score(t, u, token, d)) for token, d, t2, u2 in steps)

    total = walk(0, 0, 0.0) if frames else 0.0
    return -math.log(total) if total else None


def slow(logits, target, frames, objective):
    """The same by a recursion over nodes, from the end, in Python's numbers."""
    score = tokens_of(logits, objective)

    @functools.cache
    def behind(t, u):
        if t == frames:
            return 0.0
        found = [
            score(t, u, token, d) + behind(t2, u2)
            for token, d, t2, u2 in moves(t, u, frames, target, objective.durations)
        ]
        most = max(found, default=-math.inf)
        return most if most == -math.inf else most + math.log(sum(math.exp(each - most) for each in found))

    return -behind(0, 0)


def mixed(of, logits, target, frames, objective):
    """`of` for both parts of an objective with a share of the plain loss."""
    whole = of(logits, target, frames, Objective(objective.durations, objective.sigma))
    if not objective.omega:
        return whole
    plain = of(logits[..., : BLANK + 1], target, frames, Objective())
    return (1 - objective.omega) * whole + objective.omega * plain


def scores(frames, labels, objective, **more):
    return random(1, frames, labels + 1, BLANK + 1 + len(objective.durations), **more)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
@pytest.mark.parametrize("target", [[], [0], [1, 1], [0, 1, 0]])
@pytest.mark.parametrize("frames", [1, 2, 4])
def test_the_loss_is_what_enumeration_gives(objective, target, frames):
    logits = scores(5, 3, objective, seed=frames, grad=True)
    expected = enumerated(logits[0], target, frames, Objective(objective.durations, objective.sigma))
    padded = torch.tensor([target + [1] * (3 - len(target))])
    found = transducer_losses(logits, padded, torch.tensor([frames]), torch.tensor([len(target)]), objective)
    if expected is None:
        assert found.item() == math.inf
        return
    assert found.item() == pytest.approx(mixed(enumerated, logits[0], target, frames, objective), abs=1e-9)
    found.sum().backward()
    assert torch.isfinite(logits.grad).all()
    assert not logits.grad[0, frames:].any()
    assert not logits.grad[0, :, len(target) + 1 :].any()
    assert logits.grad.sum(-1).abs().max() < 1e-9  # a softmax moves no mass


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_the_loss_is_that_of_a_slow_recursion(objective):
    logits = random(3, 23, 10, 7 + len(objective.durations), seed=1)
    targets = torch.randint(0, 2, (3, 9), generator=torch.Generator().manual_seed(2))
    frames, labels = torch.tensor([23, 17, 9]), torch.tensor([9, 0, 4])
    # The blank of this vocabulary is the last of 7; the slow recursion is told so by moving it.
    order = [0, 1, 6, 2, 3, 4, 5, *range(7, 7 + len(objective.durations))]
    found = transducer_losses(logits, targets, frames, labels, objective)
    for row in range(3):
        mine = logits[row][..., order]
        target = targets[row, : labels[row]].tolist()
        plain = Objective(objective.durations, objective.sigma)
        expected = slow(mine, target, int(frames[row]), plain)
        if objective.omega:
            other = slow(mine[..., :7], target, int(frames[row]), Objective())
            expected = (1 - objective.omega) * expected + objective.omega * other
        assert found[row].item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_the_gradient_is_that_of_finite_differences(objective):
    logits = random(3, 4, 3, 3 + len(objective.durations), grad=True)
    targets, labels = torch.tensor([[0, 1], [1, 1], [0, 0]]), torch.tensor([2, 1, 0])
    frames = torch.tensor([4, 3, 2])

    def loss(given):
        return transducer_losses(given, targets, frames, labels, objective)

    assert torch.autograd.gradcheck(loss, (logits,), eps=1e-6, atol=1e-7)


def model(objective=GRAVES, *, dropout=0.0, activation="relu", kind="lstm", memory=64.0, seed=0):
    torch.manual_seed(seed)
    prediction = build(PredictionNetwork(AB, width=6, network=kind)).double()
    joint = build(
        JointNetwork(AB, 5, 6, 7, activation=activation, dropout=dropout, durations=objective.durations)
    ).double()
    if objective.durations:
        settings = {name: getattr(objective, name) for name in ("durations", "sigma", "omega", "fastemit")}
        return prediction, joint, build(TDTLoss(AB, **settings, memory=memory))
    return prediction, joint, build(TransducerLoss(AB, fastemit=objective.fastemit, memory=memory))


BATCH = {
    "lattice_len": torch.tensor([9, 6, 0, 3]),
    "targets": torch.tensor([[0, 1, 1, 0], [1, 0, 5, -7], [0, 0, 0, 0], [1, 1, 1, 1]]),
    "targets_len": torch.tensor([4, 2, 1, 0]),
}
ENCODED = random(4, 5, 9, seed=3)


def gradients(prediction, joint, *more):
    found = [weight.grad.clone() for module in (prediction, joint) for weight in module.parameters()]
    for module in (prediction, joint):
        module.zero_grad()
    return [*found, *more]


@pytest.mark.parametrize(
    "objective", [*OBJECTIVES, Objective(fastemit=0.1), Objective((0, 1), fastemit=0.1)], ids=str
)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("memory", [1e-6, 8e-4, 64.0], ids=["row by row", "partly kept", "all kept"])
def test_the_lean_loss_and_its_gradients_are_those_of_the_scores(objective, activation, memory):
    prediction, joint, loss = model(objective, activation=activation, memory=memory)
    encoded = ENCODED.clone().requires_grad_()
    found = loss(joint(encoded, prediction()), **BATCH)
    found.loss.backward()
    lean = gradients(prediction, joint, encoded.grad.clone())
    assert found.infeasible.tolist() == [False, False, True, False]
    assert found.count == 3
    encoded.grad = None
    clean = BATCH["targets"] * (torch.arange(4) < BATCH["targets_len"][:, None])
    scored = joint(encoded, prediction()).scores(clean)
    each = transducer_losses(scored, clean, BATCH["lattice_len"], BATCH["targets_len"], objective)
    expected = each[~found.infeasible].mean()
    assert found.loss.item() == pytest.approx(expected.item(), rel=1e-12)
    each[~found.infeasible].mean().backward()
    for mine, theirs in zip(lean, gradients(prediction, joint, encoded.grad), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("memory", [1e-6, 64.0])
def test_the_gradient_through_dropout_is_that_of_finite_differences(memory):
    prediction, joint, loss = model(dropout=0.4, activation="tanh", memory=memory)
    short = {name: value[3:] for name, value in BATCH.items()} | {"targets_len": torch.tensor([2])}
    encoded = random(1, 5, 3, grad=True)

    def loss_of(given):
        torch.manual_seed(1)
        return loss(joint(given, prediction()), **short).loss

    assert torch.autograd.gradcheck(loss_of, (encoded,), atol=1e-7)
    assert loss_of(encoded) != loss(joint.eval()(encoded, prediction()), **short).loss


def test_the_regularised_gradient_counts_labels_more_often():
    objective, factor = Objective(), 0.25
    logits, targets = scores(4, 3, objective, grad=True), torch.tensor([[0, 1, 0]])
    lengths = torch.tensor([4]), torch.tensor([3])
    plain = transducer_losses(logits, targets, *lengths, objective)
    regular = transducer_losses(logits, targets, *lengths, Objective(fastemit=factor))
    assert plain.item() == regular.item()
    (found,) = torch.autograd.grad(regular.sum(), logits, retain_graph=True)
    # Minus the sum over nodes of how often a label is read there, held still, times its log-probability.
    log_probs = logits.log_softmax(-1)
    label = log_probs[0, :, :3].gather(-1, targets[0, None, :, None].expand(4, 3, 1)).squeeze(-1)
    read = occupancy_of_labels(logits.detach(), targets, *lengths)
    surrogate = plain.sum() - factor * (read * label).sum()
    (expected,) = torch.autograd.grad(surrogate, logits)
    assert torch.allclose(found, expected, atol=1e-12)


def occupancy_of_labels(logits, targets, frames, labels):
    """How often each label is read in each frame, by the loss with and without each arc."""
    log_probs = logits.log_softmax(-1)
    from neumo.asr.torch.alignments import PLAIN, sum_alignments

    nodes = log_probs.shape[2]
    label = log_probs.gather(
        -1, torch.nn.functional.pad(targets, (0, 1))[:, None, :, None].expand(1, 4, nodes, 1)
    )
    weights = torch.stack([log_probs[..., -1], label.squeeze(-1)], 1)
    whole = sum_alignments(weights, PLAIN, frames, labels, occupancy=False).log_prob
    found = torch.zeros(4, 3, dtype=torch.float64)
    for t in range(4):
        for u in range(3):
            without = weights.clone()
            without[0, 1, t, u] = -math.inf
            rest = sum_alignments(without, PLAIN, frames, labels, occupancy=False).log_prob
            found[t, u] = 1 - (rest - whole).exp().item()
    return found


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_an_utterance_costs_the_same_in_any_batch(objective):
    prediction, joint, loss = model(objective)
    found = loss(joint(ENCODED, prediction()), **BATCH)
    single = []
    for row, (frames, labels) in enumerate(zip(BATCH["lattice_len"], BATCH["targets_len"], strict=True)):
        alone = loss(
            joint(ENCODED[row : row + 1, :, :frames], prediction()),
            frames[None],
            BATCH["targets"][row : row + 1, :labels],
            labels[None],
        )
        assert alone.infeasible == found.infeasible[row]
        single += [alone.loss.item()] if frames else []
        assert math.isfinite(alone.loss.item())
    assert found.loss.item() == pytest.approx(sum(single) / len(single), rel=1e-9)


def test_what_is_beyond_an_utterance_changes_nothing():
    prediction, joint, loss = model()
    noisy = ENCODED.clone()
    for row, frames in enumerate(BATCH["lattice_len"]):
        noisy[row, :, frames:] = math.nan
    noisy.requires_grad_()
    one, two = (loss(joint(given, prediction()), **BATCH).loss for given in (ENCODED, noisy))
    assert one.item() == two.item()
    two.backward()
    assert torch.isfinite(torch.stack([weight.grad.abs().sum() for weight in joint.parameters()])).all()


@pytest.mark.parametrize("objective", [Objective(), Objective((0, 1)), Objective((1, 2))], ids=str)
def test_a_batch_without_a_feasible_utterance_has_the_loss_0(objective):
    prediction, joint, loss = model(objective)
    frames = torch.tensor([0, 2 if min(objective.durations, default=0) else 0])
    found = loss(joint(ENCODED[:2], prediction()), frames, BATCH["targets"][:2] * 0 + 1, torch.tensor([0, 4]))
    found.loss.backward()
    assert found.loss.item() == 0
    assert found.count.item() == 0
    assert found.infeasible.all()
    assert not any(weight.grad.any() for weight in joint.parameters() if weight.grad is not None)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_batches_without_frames_and_without_labels_have_a_loss(objective):
    prediction, joint, loss = model(objective)
    none = loss(
        joint(ENCODED[:2, :, :0], prediction()),
        torch.tensor([0, 0]),
        torch.tensor([[1], [0]]),
        torch.tensor([1, 0]),
    )
    none.loss.backward()
    assert (none.loss.item(), none.count.item(), none.infeasible.tolist()) == (0, 0, [True, True])
    silent = loss(
        joint(ENCODED[:2], prediction()),
        torch.tensor([3, 1]),
        torch.zeros(2, 0, dtype=torch.long),
        torch.tensor([0, 0]),
    )
    silent.loss.backward()
    assert silent.loss > 0
    assert not silent.infeasible.any()


def test_labels_that_each_last_a_frame_may_not_fit():
    prediction, joint, loss = model(Objective((1, 2)))
    lengths = torch.tensor([4, 4, 5, 2])
    found = loss(
        joint(ENCODED, prediction()), lengths, torch.zeros(4, 4, dtype=int), torch.tensor([4, 3, 4, 1])
    )
    assert found.infeasible.tolist() == [True, False, False, False]
    assert torch.isfinite(found.loss)


@pytest.mark.parametrize("wrong", [2, 3, -1])
def test_an_id_outside_of_the_vocabulary_is_refused(wrong):
    prediction, joint, loss = model()
    with pytest.raises(DataError, match="vocabulary has 0 to 1"):
        loss(
            joint(ENCODED[:1], prediction()), torch.tensor([9]), torch.tensor([[0, wrong]]), torch.tensor([2])
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["lstm", "stateless"])
def test_under_autocast_the_loss_is_in_float32_and_near_to_it(dtype, kind):
    prediction, joint, loss = model(kind=kind, activation="tanh")  # a ReLU may switch by rounding
    prediction, joint, encoded = prediction.float(), joint.float(), ENCODED.float()
    exact = loss(joint(encoded, prediction()), **BATCH)
    exact.loss.backward()
    expected = gradients(prediction, joint)
    with torch.autocast("cpu", dtype):
        lattice = joint(encoded.to(dtype), prediction())
    found = loss(lattice, **BATCH)  # a loss computes outside of autocast, the networks inside
    assert found.loss.dtype == torch.float32
    assert found.loss.item() == pytest.approx(exact.loss.item(), rel=0.02)
    found.loss.backward()
    for mine, theirs in zip(gradients(prediction, joint), expected, strict=True):
        assert mine.dtype == torch.float32
        assert (mine - theirs).norm() <= 0.05 * theirs.norm() + 1e-4


@pytest.mark.parametrize("kind", ["lstm", "stateless"])
def test_a_prediction_network_makes_the_same_of_labels_at_once_and_one_by_one(kind):
    network = build(PredictionNetwork(AB, width=6, network=kind, layers=2, context=3)).eval()
    labels = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 0]])
    whole = network().sequence(labels)
    found, state = network().start(2)
    assert torch.allclose(found, whole[:, 0], atol=1e-6)
    for place in range(4):
        found, state = network().step(labels[:, place], state)
        assert torch.allclose(found, whole[:, place + 1], atol=1e-6)


def test_the_start_symbol_is_zero_and_stays_so():
    prediction, joint, loss = model()
    loss(joint(ENCODED, prediction()), **BATCH).loss.backward()
    assert not prediction.embed.weight[BLANK].any()
    assert not prediction.embed.weight.grad[BLANK].any()
    assert prediction.embed.weight.grad[0].any()


@pytest.mark.parametrize(
    "make",
    [
        lambda: TransducerLoss(AB, memory=0),
        lambda: TransducerLoss(AB, fastemit=-1),
        lambda: TDTLoss(AB, durations=(0, 2)),
        lambda: TDTLoss(AB, durations=(1, 0)),
        lambda: TDTLoss(AB, omega=2.0),
        lambda: JointNetwork(AB, activation="gelu"),
        lambda: JointNetwork(AB, durations=(-1, 1)),
        lambda: PredictionNetwork(AB, network="gru"),
        lambda: PredictionNetwork(AB, dropout=1.5),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(make):
    with pytest.raises(ConfigError):
        make()


def peak_bytes(run):
    """The highest sum of what the allocator holds while something runs, above what it held before."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as seen:
        run()
    events = seen.profiler.kineto_results.events()
    changes = sorted((each.start_ns(), each.nbytes()) for each in events if each.name() == "[memory]")
    return max(itertools.accumulate(change for _, change in changes))


@pytest.mark.parametrize("objective", [GRAVES, Objective((0, 1, 2))], ids=str)
def test_the_lean_loss_never_holds_the_scores_of_a_batch(objective):
    frames, labels, size = 80, 16, 800
    vocab = Vocab([f"label {n}" for n in range(size)])
    prediction = build(PredictionNetwork(vocab, width=8))
    joint = build(JointNetwork(vocab, 5, 8, 8, durations=objective.durations))
    encoded = torch.randn(4, 5, frames)
    targets = torch.randint(size, (4, labels), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([frames] * 4), targets, torch.tensor([labels] * 4)
    scores = 4 * frames * (labels + 1) * size * 4  # bytes
    kept = []

    def run(loss):
        with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.nbytes) or x, lambda x: x):
            found = loss(joint(encoded, prediction()), *lengths)
        found.loss.backward()

    def lean(memory):
        return build(
            TDTLoss(vocab, objective.durations, memory=memory)
            if objective.durations
            else TransducerLoss(vocab, memory=memory)
        )

    peaks = {memory: peak_bytes(lambda memory=memory: run(lean(memory))) for memory in (1.0, 4.0)}
    assert max(kept) < scores / 200  # weights and projections, no scores
    assert peaks[1.0] < scores / 7
    assert peaks[1.0] < peaks[4.0] < scores / 3
    whole = peak_bytes(
        lambda: (
            transducer_losses(joint(encoded, prediction()).scores(targets), targets, *lengths[::2], objective)
            .sum()
            .backward()
        )
    )
    assert whole > 2 * scores
