"""Where the input is perturbed to: the noise of a row, the search against Algorithm 1 written out, every family."""

import numpy as np
import pytest
import torch
from torch import nn

from acclimate.core.types import NOT_PREDICTED
from acclimate.methods import perturbation
from acclimate.methods.adversarial import AdversarialLoss
from acclimate.methods.perturbation import gaussian, row_of_tokens, symmetric
from acclimate.training.objective import MaskedLanguageLoss
from acclimate.training.pieces import pack, pad, pieces_of_rows, together
from conformance import toy_rows
from families import FAMILIES, mpnet

CPU = torch.device("cpu")
WIDTH = 7  # odd: numbers are made in pairs
FAR = {"step": 0.1, "noise": 0.01, "radius": 0.05}  # so far that another perturbation gives another loss


def piece_of(batch):
    return pad(batch, together(batch.lengths), CPU)


def noise_of_rows(batch, layouts):
    """Row of the batch -> (T, D) its noise."""
    found = {}
    for layout in layouts:
        piece = pad(batch, layout, CPU)
        rows_LW, noise_LWD = row_of_tokens(piece), gaussian(piece, WIDTH)
        found |= {row: noise_LWD[rows_LW == number] for number, row in enumerate(layout.rows_R)}
        assert not noise_LWD[rows_LW == len(layout.rows_R)].any()
    return found


def test_a_row_meets_the_same_noise_however_the_step_is_cut_and_laid_out():
    batch = toy_rows(0, 0)
    whole = noise_of_rows(batch, [together(batch.lengths)])
    packed = pack(batch.lengths, 48)
    assert any(layout.shared for layout in packed)
    for layouts in (packed, pieces_of_rows(batch.lengths, 20)):
        other = noise_of_rows(batch, layouts)
        assert all(torch.equal(whole[row], other[row]) for row in range(len(batch)))


def test_noise_is_normal_and_differs_by_row_place_and_number():
    ids = torch.randint(0, 200, (40, 100), generator=torch.Generator().manual_seed(1))
    ids[1] = ids[0]
    ids[1, 50] += 1
    noise_LWD = gaussian({"input_ids": ids}, 64)
    assert noise_LWD.mean().abs() < 0.005
    assert noise_LWD.var().sub(1).abs() < 0.01
    assert noise_LWD.pow(4).mean().sub(3).abs() < 0.05
    for numbers_ND in (noise_LWD[0, :, :], noise_LWD[:, 0, :], noise_LWD[2:, :, 5].T):
        correlations = torch.corrcoef(numbers_ND) - torch.eye(len(numbers_ND))
        assert correlations.abs().mean() < 1.5 * (2 / torch.pi / numbers_ND.shape[1]) ** 0.5


def test_symmetric_kl_is_that_of_both_directions_and_keeps_its_figures_where_the_two_are_near():
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(50, 1000, generator=generator)
    for apart in (1.0, 1e-3):
        others = logits + apart * torch.randn(50, 1000, generator=generator)
        p, q = (values.double().log_softmax(-1) for values in (logits, others))
        both = (p.exp() * (p - q)).sum(-1) + (q.exp() * (q - p)).sum(-1)
        torch.testing.assert_close(symmetric(logits, others).double(), both, rtol=1e-3, atol=0.0)


def transcribed(model, batch, weight, settings, *, released):
    """The loss of a step by Algorithm 1, row by row, on embeddings that the model is given."""
    mlm = adversarial = 0.0
    table = model.get_input_embeddings()
    predicted = np.count_nonzero(batch.tokens["labels"] != NOT_PREDICTED)
    for row in range(len(batch)):
        alone = batch.take([row])
        ids, labels = torch.from_numpy(alone.ids)[None], torch.from_numpy(alone.tokens["labels"])
        at = labels != NOT_PREDICTED

        def say(words, handed=None, ids=ids, at=at):
            hook = model.bert.embeddings.register_forward_hook(lambda *_: handed) if handed is not None else None
            logits = model(inputs_embeds=words).logits[0, at]
            if hook is not None:
                hook.remove()
            return logits

        x = table(ids)
        handed = model.bert.embeddings(inputs_embeds=x).detach()
        said = say(x)
        p = said.log_softmax(-1)
        delta = settings["noise"] * gaussian(piece_of(alone), x.shape[-1])
        for _ in range(settings["ascents"]):
            delta = delta.detach().requires_grad_()
            q = (say(x, handed + delta) if released else say(x + delta)).log_softmax(-1)
            forth, back = (p.exp() * (p - q)).sum(), (q.exp() * (q - p)).sum()
            s = forth / at.sum() if released else forth + back
            (g,) = torch.autograd.grad(s, delta, retain_graph=True)
            if released:
                delta = delta + settings["step"] * g
                delta = delta / (delta.abs().max(-1, keepdim=True)[0] + 1e-6)
            else:
                delta = delta + settings["step"] * g / g.abs().max()
                delta = delta.clamp(-settings["radius"], settings["radius"])
        delta = delta.detach()
        q = (say(x, handed + delta) if released else say(x + delta)).log_softmax(-1)
        if released:
            adversarial += (p.detach().exp() * (p.detach() - q)).sum() + (q.detach().exp() * (q.detach() - p)).sum()
        else:
            adversarial += (p.exp() * (p - q)).sum() + (q.exp() * (q - p)).sum()
        mlm += nn.functional.cross_entropy(said, labels[at], reduction="sum")
    return (mlm + weight * adversarial) / predicted


@pytest.mark.parametrize(
    ("released", "settings"),
    [
        (False, {**FAR, "ascents": 1}),
        (False, {**FAR, "ascents": 2}),
        (True, {"step": 0.5, "noise": 0.01, "ascents": 1}),
    ],
)
def test_loss_and_gradient_are_those_of_algorithm_1(released, settings):
    batch, ours, theirs = toy_rows(0, 0), FAMILIES["bert"](), FAMILIES["bert"]()
    objective = AdversarialLoss(ours, weight=4.0, reading="released" if released else "paper", **settings).eval()
    sums, counts = objective(piece_of(batch)), objective.counts(batch)
    loss = sum(objective.weights[term] * value / counts[term] for term, value in sums.items())
    by_hand = transcribed(theirs, batch, 4.0, settings, released=released)
    torch.testing.assert_close(loss, by_hand, rtol=1e-4, atol=1e-5)
    loss.backward()
    by_hand.backward()
    for (name, weight), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if weight.grad is not None:
            torch.testing.assert_close(
                weight.grad, other.grad, rtol=1e-3, atol=1e-4, msg=lambda text, n=name: f"{n}: {text}"
            )


@pytest.mark.parametrize("name", [*FAMILIES, "mpnet"])
@pytest.mark.parametrize("reading", ["paper", "released"])
def test_every_family_is_moved_further_by_its_adversary_than_by_chance(name, reading):
    model = mpnet() if name == "mpnet" else FAMILIES[name]()
    batch = toy_rows(model.config.pad_token_id or 0, 0)
    piece = piece_of(batch)
    with torch.no_grad():  # as a held-out loss is measured
        adversary = AdversarialLoss(model, reading=reading, radius=0.05, step=1e3 if reading == "released" else 5.0)
        chance = AdversarialLoss(model, reading=reading, radius=0.05, step=1e-12, noise=1.0)
        found, drawn = (float(objective.eval()(piece)["adversarial"]) for objective in (adversary, chance))
        mlm = float(adversary(piece)["mlm"])
    assert np.isfinite(found)
    assert found > 1.3 * drawn > 0
    assert mlm == pytest.approx(float(MaskedLanguageLoss(model).eval()(piece)["mlm"].detach()), rel=1e-5)


def test_all_passes_meet_the_same_dropout_and_draw_it_once():
    piece = piece_of(toy_rows(0, 0))
    after = []
    for loss in (MaskedLanguageLoss, AdversarialLoss):
        with torch.random.fork_rng():
            torch.manual_seed(3)
            sums = loss(FAMILIES["bert"](dropout=0.1)).train()(piece)
            after.append(torch.rand(3))
    assert torch.equal(*after)
    assert 0 < float(sums["adversarial"].detach()) < 1e-2  # another dropout alone makes more, as below
    released = AdversarialLoss(FAMILIES["bert"](dropout=0.1), reading="released", radius=1e-9).train()(piece)
    assert float(released["adversarial"].detach()) > 0.3


def test_in_bfloat16_the_paper_s_passes_are_in_float32_and_the_released_ones_are_not():
    piece = piece_of(toy_rows(0, 0))
    for reading, same in (("paper", True), ("released", False)):
        objective = AdversarialLoss(FAMILIES["bert"](), reading=reading).eval()
        plain = objective(piece)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            narrow = objective(piece)
        assert {value.dtype for value in narrow.values()} == {torch.float32}
        assert all(torch.equal(plain[term], narrow[term]) for term in plain) is same
        assert all(torch.isfinite(value) for value in narrow.values())


def test_a_family_whose_embeddings_are_elsewhere_is_refused_before_training():
    model = FAMILIES["bert"]()
    model.bert.word_part = model.bert.embeddings
    del model.bert.embeddings
    with pytest.raises(
        ValueError, match="reading='released' perturbs the output of the embeddings, whose place in a 'bert' is unknown"
    ):
        AdversarialLoss(model, reading="released")


def test_a_gpu_of_apple_is_refused_before_training_under_the_paper_s_reading(monkeypatch):
    """The search repeats dropout, and only CPU and CUDA have a state of their generators to repeat it from."""
    monkeypatch.setattr(perturbation, "device", lambda: torch.device("mps"))
    with pytest.raises(ValueError, match="not possible on ACCLIMATE_DEVICE=mps"):
        AdversarialLoss(FAMILIES["bert"]())
    AdversarialLoss(FAMILIES["bert"](), reading="released")
