"""DGA from importance to its checkpoint, on the toy's text, and its loss against the paper's formulas."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM

from acclimate.core import files
from acclimate.methods import dga
from acclimate.methods.dga import DgaLoss, contrast
from acclimate.methods.importance import normalised
from acclimate.models.encoder import load_masked_language_model, training_flops
from acclimate.training.checkpoint import BEFORE, read_log, spent
from acclimate.training.loop import adamw, train
from acclimate.training.objective import VIEWS, MaskedLanguageLoss
from acclimate.training.pieces import pad, together
from acclimate.training.plan import Plan
from conformance import toy_rows
from families import FAMILIES

IMPORTANCE = torch.tensor([[0.2, 0.9], [0.6, 0.1]])
CPU = torch.device("cpu")


@pytest.fixture
def recipe(pretrained, toy_race) -> dga.DgaRecipe:
    return dga.DgaRecipe(
        model=str(pretrained),
        corpus=toy_race.materials.domain.path,
        dropout=0.1,
        over="model",
        subset=20,
        max_tokens=32,
        plan=Plan(steps=6, batch=8, rate=2e-3, warmup=0.1, piece_tokens=128),
    )


def mean_of(model, ids: list[int], gates: Tensor | None = None) -> Tensor:
    """(D,) the mean last hidden state of one text whose heads' values are multiplied, before W_o, by gates."""
    hooks = []
    for layer, gate in zip(model.bert.encoder.layer, gates if gates is not None else [], strict=False):
        factors = gate.repeat_interleave(16)
        hooks.append(layer.attention.output.dense.register_forward_pre_hook(lambda _, x, f=factors: (x[0] * f,)))
    state = model.bert(torch.tensor([ids])).last_hidden_state[0].mean(0)
    for hook in hooks:
        hook.remove()
    return state


@pytest.mark.parametrize(("anchor", "knowledge"), [("own", "full"), ("own", "domain"), ("mlm", "full")])
def test_loss_is_masked_language_modelling_and_the_contrast_of_full_and_general_eq_12_to_16(anchor, knowledge):
    model, batch = FAMILIES["bert"]().eval(), toy_rows(0, 0)
    model.requires_grad_(False)
    objective = DgaLoss(model, {"heads": IMPORTANCE}, weight=0.5, anchor=anchor, knowledge=knowledge).eval()
    terms = objective(pad(batch, together(batch.lengths), CPU))
    views = terms.pop(VIEWS)
    sums = {**terms, **objective.compared(views)}

    full = 1 - IMPORTANCE if knowledge == "domain" else None
    triples = []
    for row in range(len(batch)):
        one = batch.take(np.array([row]))
        labels = one.tokens["labels"]
        text = np.where(labels >= 0, labels, one.ids).tolist()
        o = mean_of(model, one.ids.tolist()) if anchor == "mlm" else mean_of(model, text, full)
        triples.append((o, mean_of(model, text, full), mean_of(model, text, IMPORTANCE)))
    total = 0.0
    for o, positive, _ in triples:
        similar = [math.exp(torch.cosine_similarity(o, other, dim=0) / 0.05) for _, *two in triples for other in two]
        total -= math.log(math.exp(torch.cosine_similarity(o, positive, dim=0) / 0.05) / sum(similar))
    assert float(sums["contrast"]) == pytest.approx(total, rel=1e-3)
    plain = MaskedLanguageLoss(model)(pad(batch, together(batch.lengths), CPU))["mlm"]
    assert float(sums["mlm"]) == pytest.approx(float(plain), rel=1e-5)
    assert objective.weights == {"mlm": 1.0, "contrast": 0.5}
    assert objective.counts(batch)["contrast"] == len(batch)


def test_without_contrast_and_with_heads_of_no_importance_it_is_masked_language_modelling_to_the_byte():
    def trained(make):
        objective = make(FAMILIES["bert"](dropout=0.1))
        plan = Plan(steps=3, batch=8, rate=1e-2, precision="float32")
        for _ in train(objective, lambda step: toy_rows(0, step), plan, adamw(objective, plan)):
            pass
        return [weight.detach() for weight in objective.model.parameters()]

    nothing = {"heads": torch.zeros(2, 2)}
    plain, masked = trained(MaskedLanguageLoss), trained(lambda model: DgaLoss(model, nothing, weight=0.0))
    assert all(torch.equal(first, second) for first, second in zip(plain, masked, strict=True))


def test_checkpoint_is_an_ordinary_one_and_importance_lies_beside_it(recipe, tmp_path):
    path = dga.adapt(recipe, tmp_path).path
    assert sum(weight.numel() for weight in AutoModelForMaskedLM.from_pretrained(path).parameters())
    importance = torch.tensor(files.read_json(tmp_path / dga.IMPORTANCE)["heads"])
    config = load_masked_language_model(recipe.model).config
    assert importance.shape == (config.num_hidden_layers, config.num_attention_heads)
    assert (importance > 0).all()
    heads = files.read_record(tmp_path / dga.HEADS)
    assert heads["importance"] == normalised(importance, recipe.normalisation, over=recipe.over).tolist()
    before, after = (load_masked_language_model(model) for model in (recipe.model, path))
    layer, head, size = 0, 1, config.hidden_size // config.num_attention_heads
    places, own = f"bert.encoder.layer.{layer}.attention.", slice(head * size, (head + 1) * size)
    weights = [
        torch.cat(
            [
                model.get_parameter(f"{places}self.{name}.{kind}")[own].detach().flatten()
                for name in ("query", "key", "value")
                for kind in ("weight", "bias")
            ]
            + [model.get_parameter(f"{places}output.dense.weight")[:, own].detach().flatten()]
        )
        for model in (before, after)
    ]
    expected = float((weights[1] - weights[0]).norm() / weights[0].norm())
    assert heads["moved"][layer][head] == pytest.approx(expected, rel=1e-5)
    assert expected > 0
    log = read_log(tmp_path)
    assert len(log) == 6
    trained, before = spent(tmp_path), files.read_record(tmp_path / BEFORE)
    assert before["tokens"] > 0
    assert trained.tokens == before["tokens"] + sum(line["tokens"] for line in log)
    assert trained.flops == before["flops"] + sum(line["flops"] for line in log)
    assert {"loss.mlm", "loss.contrast"} <= set(log[0])


def test_stopped_run_goes_on_with_the_importance_it_began_with(recipe, tmp_path, monkeypatch):
    whole = dga.adapt(recipe, tmp_path / "whole").path

    class Stopped(Exception):
        pass

    def stop(progress):
        if progress.stage == "adapt" and progress.done == 3:
            raise Stopped

    monkeypatch.setenv("ACCLIMATE_SAVE_SECONDS", "0")
    with pytest.raises(Stopped):
        dga.adapt(recipe, tmp_path / "stopped", watch=stop)
    monkeypatch.setattr(dga, "head_importance", None)  # not computed again
    again = dga.adapt(recipe, tmp_path / "stopped").path
    assert (again / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_random_importance_needs_no_text_and_differs_by_seed(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(dga, "head_importance", None)
    drawn = {}
    for seed in (0, 1):
        plan = replace(recipe.plan, steps=1, seed=seed)
        dga.adapt(replace(recipe, importance="random", subset=10_000, plan=plan), tmp_path / str(seed))
        drawn[seed] = torch.tensor(files.read_json(tmp_path / str(seed) / dga.IMPORTANCE)["heads"])
    assert not torch.equal(drawn[0], drawn[1])


def test_importance_is_computed_on_as_many_tokens_as_are_stated(recipe, tmp_path, monkeypatch):
    lengths: list[int] = []

    def followed(model, batches, **options):
        lengths.extend(int(length) for batch in batches for length in batch.lengths)
        return {"heads": torch.rand(1, 2)}

    monkeypatch.setattr(dga, "head_importance", followed)
    dga.adapt(replace(recipe, subset_tokens=500, plan=replace(recipe.plan, steps=1)), tmp_path)
    assert sum(lengths) == pytest.approx(500, rel=0.1)
    assert len(lengths) != recipe.subset


def test_model_without_dropout_is_refused_before_anything_is_computed(recipe, tmp_path):
    with pytest.raises(ValueError, match=r"no dropout\. Set dropout=0\.1"):
        dga.adapt(replace(recipe, dropout=0.0, attention_dropout=0.0), tmp_path)
    assert not (tmp_path / dga.IMPORTANCE).exists()


def test_flops_are_those_of_four_passes_three_or_one():
    batch, model = toy_rows(0, 0), FAMILIES["bert"]()
    plain = MaskedLanguageLoss(model).flops(batch)
    encoder = training_flops(model, batch.lengths, predicted=0)
    for more, stated in ((3, {}), (2, {"anchor": "mlm"}), (0, {"weight": 0.0})):
        assert DgaLoss(model, {"heads": IMPORTANCE}, **stated).flops(batch) == plain + more * encoder


TAU = 0.05


def naive(views_BVD: np.ndarray, tau: float) -> float:
    """Eq. 15 as it is printed, but for e^(sim / tau), in float64."""

    def sim(one: np.ndarray, other: np.ndarray) -> float:
        return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))

    total = 0.0
    for m in range(len(views_BVD)):
        anchor = views_BVD[m, 0]
        below = 0.0
        for j in range(len(views_BVD)):
            for view in views_BVD[j, 1:]:
                below += np.exp(sim(anchor, view) / tau)
        total -= np.log(np.exp(sim(anchor, views_BVD[m, 1]) / tau) / below)
    return total


@pytest.mark.parametrize("views", [2, 3, 4])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_contrast_is_the_positives_share_of_all_candidates_eq_15(rows, views):
    """Vectors of very unequal length, so that a product in place of the cosine is far off."""
    generator = np.random.default_rng([rows, views])
    views_BVD = generator.normal(size=(rows, views, 6)) * generator.uniform(0.1, 10, size=(rows, views, 1))
    found = contrast(torch.from_numpy(views_BVD).float(), TAU)
    assert float(found) == pytest.approx(naive(views_BVD, TAU), rel=1e-4, abs=1e-5)


def test_gradient_goes_to_all_views_and_loss_is_in_float32_under_autocast():
    views_BVD = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    contrast(views_BVD, 1.0).backward()
    assert views_BVD.grad is not None
    assert (views_BVD.grad.norm(dim=-1) > 1e-4).all()
    views_BVD = torch.randn(4, 3, 64, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = contrast(views_BVD, TAU)
    assert found.dtype == torch.float32
    assert torch.equal(found, contrast(views_BVD, TAU))
