"""DGA's study on the toy task: what is done once, what is compared with what, and what the tables say."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from typer.testing import CliRunner

import toys
from acclimate import cli
from acclimate.core import files, settings
from acclimate.core.types import Cost
from acclimate.data.inputs import Raw
from acclimate.methods import METHODS, finetune
from acclimate.models.encoder import new_encoder, save_model
from acclimate.statistics.significance import holm
from acclimate.studies.dga import (
    ADAPTED,
    ENSEMBLE,
    TABLE_2,
    TABLE_3,
    DgaStudyRecipe,
    foreseen,
    given,
    reported,
    run_domain_methods,
)
from acclimate.tasks.labelled import Own
from acclimate.tasks.metrics import METRICS
from acclimate.text.corpus import write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.vocabulary import train_tokenizer

RECIPES = Path(__file__).parents[2] / "recipes"
PLACES = {  # contestant -> the recipe of its row
    "MLM": "mlm/dapt-dga",
    "adapter": "light/adapter",
    "prompt": "light/prompt",
    "KD": "distil/kd",
    "AdaptedDeiT": "distil/adapted-deit",
    "SimCSE": "sequence_contrast/simcse",
    "TaCL": "token_contrast/tacl",
    "TaCO": "token_contrast/taco",
    "InfoWord": "sequence_contrast/infoword",
    "DGA": "dga/dga",
    "DGA (H, I)": "dga/heads-intermediate",
    "DGA (H, I, O)": "dga/heads-intermediate-output",
    "DGA (H, I, O, E)": "dga/heads-intermediate-output-embeddings",
    "DGA (w/o contrast)": "dga/without-contrast",
    "DGA (random mask)": "dga/random-mask",
    "DGA (domain-specific)": "dga/domain-specific",
}
SMALL = (
    "seeds=2",
    *(f"adapt.{setting}" for setting in ("max_tokens=32", "plan.steps=2", "plan.batch=4", "plan.rate=1e-3")),
    *("dga.subset=4", "light.prompt_tokens=2", "light.bottleneck=4"),
    *(f"finetune.{setting}" for setting in ("epochs=0.0", "plan.steps=3", "plan.batch=8", "plan.rate=1e-2")),
)
CHOSEN = 'contestants=["DGA", "MLM", "Ensemble (LM+MLM)"]'
RUN = ("untouched", "MLM", "DGA", ENSEMBLE)


def stated(*more: str) -> DgaStudyRecipe:
    return settings.override(DgaStudyRecipe(), [*SMALL, *more])


@pytest.fixture(scope="module")
def model(toy_inputs, tmp_path_factory) -> str:
    place = tmp_path_factory.mktemp("model")
    corpus = write_corpus(read_documents(toy_inputs / "general.txt"), place / "corpus")
    tokenizer = train_tokenizer(corpus, size=150)
    shape = {"layers": 1, "hidden": 16, "heads": 4, "vocabulary_size": 150, "longest": 40}
    save_model(new_encoder(**shape, pad=tokenizer.pad_token_id, seed=0), tokenizer, place / "model")
    return str(place / "model")


@pytest.fixture(scope="module")
def ran(toy_inputs, model, tmp_path_factory):
    out = tmp_path_factory.mktemp("domain-methods") / "run"
    recipe = stated(CHOSEN)
    found = given(*toys.files_in(toy_inputs), recipe, out, model=model)
    before = foreseen(recipe, found, out)
    return recipe, found, out, before, run_domain_methods(recipe, found, out)


def names(out: Path) -> list[str]:
    return sorted(path.parent.name.rsplit("-", 1)[0] for path in out.glob("jobs/*/result.json"))


@pytest.mark.parametrize("name", ADAPTED)
def test_the_defaults_are_the_papers_rows(name):
    method, _ = ADAPTED[name]
    row = settings.from_toml(METHODS[method].recipe, RECIPES / f"{PLACES[name]}.toml")
    if method == "token_contrast":  # none is each one's own
        row = replace(row, temperature=None)
    assert DgaStudyRecipe().stated(name) == replace(row, model="", dropout=0.1, attention_dropout=0.1)


def test_so_is_fine_tuning():
    recipe = DgaStudyRecipe()
    row = settings.from_toml(finetune.FinetuneRecipe, RECIPES / "finetune" / "dga.toml")
    assert recipe.finetune == replace(row, model="", looks=1)
    assert (recipe.seeds, recipe.names) == (5, TABLE_2)
    assert settings.override(recipe, ["ablations=true"]).names == (*TABLE_2, *TABLE_3)
    assert {*TABLE_2, *TABLE_3} == {*ADAPTED, ENSEMBLE}


def test_what_all_share_is_stated_once_and_what_is_a_methods_own_stays_its_own():
    recipe = stated("dga.reading=update", "light.bottleneck=8", "adapt.whole_words=true")
    assert recipe.stated("DGA (H, I)").reading == "update"
    ablated = stated("dga.anchor=mlm", "dga.subset=7")  # what an ablation does not read is no part of it
    assert ablated.stated("DGA (w/o contrast)").anchor == "own"
    assert ablated.stated("DGA (random mask)").subset == DgaStudyRecipe().dga.subset
    for name in ADAPTED:
        own = recipe.stated(name)
        assert (own.plan, own.whole_words, own.max_tokens) == (recipe.adapt.plan, True, 32)


def test_each_model_is_adapted_once_and_the_ensemble_takes_what_is_there(ran):
    _, _, out, _, _ = ran
    models = ("untouched", "mlm", "dga")
    assert names(out) == sorted(
        ["mlm", "dga", *(f"{what}-loss-{model}" for what in ("general", "domain") for model in models)]
        + [f"{what}-{model}-seed-{seed}" for what in ("fine-tune", "test") for model in models for seed in (0, 1)]
        + [f"test-ensemble-lm-mlm-seed-{seed}" for seed in (0, 1)]
    )


def test_macro_f1_and_accuracy_come_of_one_set_of_predictions(ran):
    _, _, out, _, found = ran
    assert [each.metric for each in found.judged] == ["macro_f1", "accuracy"]
    assert [own.name for own in reported(METRICS["micro_f1"])] == ["micro_f1"]
    scores = files.read_json(out / "dga.scores.json")
    assert len(scores) == len(RUN) * 2
    for each in found.judged:
        assert [cell.contestant for cell in each.cells] == [*RUN]
        for cell in each.cells:
            mine = [score for score in scores if score["variant"] == cell.contestant]
            values = [METRICS[each.metric].compute(score["gold"], score["predicted"]) for score in mine]
            assert cell.points == pytest.approx(values)
            assert cell.spread == pytest.approx(np.std(values, ddof=1))


def test_the_ensemble_averages_probabilities(ran):
    _, found, out, _, _ = ran
    texts = [example.text for example in found.task.examples("test")]
    means = 0.0
    for model in ("untouched", "mlm"):
        [place] = out.glob(f"jobs/fine-tune-{model}-seed-1-*/checkpoint")
        read = AutoTokenizer.from_pretrained(place)(texts, padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            means += AutoModelForSequenceClassification.from_pretrained(place)(**read).logits.softmax(-1) / 2
    [scored] = [
        score
        for score in files.read_json(out / "dga.scores.json")
        if (score["variant"], score["seed"]) == (ENSEMBLE, 1)
    ]
    assert scored["predicted"] == [found.task.labels[code] for code in means.argmax(-1)]
    looks = [look["by"] for look in found.task.looks()]
    assert len(looks) == len(set(looks)) == len(RUN) * 2


def test_each_is_compared_with_the_untouched_model_and_with_mlm(ran):
    _, _, _, _, found = ran
    for each in found.judged:
        compared = [(pair.comparison.contestant, pair.comparison.reference) for pair in each.pairs]
        assert compared == [
            *((name, "untouched") for name in ("MLM", "DGA", ENSEMBLE)),
            *((name, "MLM") for name in ("DGA", ENSEMBLE)),
        ]
        assert [pair.p_holm for pair in each.pairs] == pytest.approx(holm([pair.comparison.p for pair in each.pairs]))


def test_costs_and_what_was_forgotten_stand_beside_the_scores(ran):
    _, _, out, _, found = ran
    untouched, mlm, dga, ensemble = found.judged[0].cells
    assert untouched.adapting == Cost()
    assert dga.adapting.flops > 3 * mlm.adapting.flops > 0
    assert ensemble.adapting == mlm.adapting
    assert ensemble.finetuning.flops == pytest.approx(untouched.finetuning.flops + mlm.finetuning.flops)
    [lines] = [list(csv.DictReader((out / "dga.csv").read_text().splitlines()))]
    assert [line["contestant"] for line in lines] == [*RUN, *RUN]
    for line, name in zip(lines, ("untouched", "mlm", "dga"), strict=False):
        for what in ("general", "domain"):
            [place] = out.glob(f"jobs/{what}-loss-{name}-*/result.json")
            assert float(line[f"{what}_loss"]) == files.read_json(place)["loss"]
    assert float(lines[2]["general_loss_difference"]) == pytest.approx(
        float(lines[2]["general_loss"]) - float(lines[0]["general_loss"])
    )
    assert lines[3]["general_loss"] == lines[0]["general_loss_difference"] == lines[1]["against_MLM_p"] == ""
    assert float(lines[2]["against_MLM_difference"]) == pytest.approx(dga.score.mean - mlm.score.mean)


def test_text_and_page_say_what_was_found(ran):
    _, _, out, _, found = ran
    assert found.text == (out / "dga.txt").read_text()
    losses = ("general loss", "domain loss", "before adapting")
    for words in ("train: model", *losses, "accuracy: DGA against MLM", "By macro-F1, "):
        assert words in found.text
    assert max(map(len, found.text.splitlines())) <= 110
    page = (out / "dga.html").read_text()
    assert "macro-F1: Ensemble (LM+MLM) against untouched" in page
    assert "Ke, Shao, Lin" in page


def test_doing_it_again_does_nothing_and_more_seeds_do_only_theirs(ran):
    recipe, found, out, _, _ = ran
    before = {path: path.stat().st_mtime_ns for path in out.glob("jobs/*/result.json")}
    run_domain_methods(recipe, found, out)
    assert {path: path.stat().st_mtime_ns for path in out.glob("jobs/*/result.json")} == before
    left = foreseen(replace(recipe, seeds=3), found, out)
    trained = [f"{what} {model}, seed 2" for what in ("fine-tune", "test") for model in RUN[:3]]
    assert sorted(stage.label for stage in left.stages) == sorted([*trained, f"test {ENSEMBLE}, seed 2"])


def test_what_it_costs_is_foreseen(ran):
    _, _, out, before, _ = ran
    assert len(before.stages) == len(names(out))
    costs = {stage.label: stage for stage in before.stages}
    assert costs["DGA"].flops > costs["MLM"].flops > 0
    assert costs[f"test {ENSEMBLE}, seed 0"].tokens > costs["test MLM, seed 0"].tokens > 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["seeds=1"], "seeds = 1: one seed says nothing"),
        (["contestants=[]"], r"contestants = \[\]: at least one"),
        (["rows=-1"], "rows = -1 is out of range"),
        (["finetune.head=kept"], "finetune.head = 'kept' goes on with the model's own head"),
        (["dga.plan.steps=9"], r"dga\.plan: all adapt with the same\. State adapt\.plan instead"),
        (["light.max_tokens=9"], r"light\.max_tokens: all adapt with the same"),
        (["adapt.dropout=0.0", "adapt.attention_dropout=0.0"], "SimCSE compares passes over a text"),
    ],
)
def test_settings_out_of_range_are_told(more, message):
    with pytest.raises(ValueError, match=message):
        stated(*more)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["adapt.max_tokens=40", 'contestants=["AdaptedDeiT"]'], "and a distillation token behind them, but the model"),
        (["light.prompt_tokens=9", "adapt.max_tokens=20"], "and a prompt of 9 behind them, but the model"),
    ],
)
def test_what_the_model_cannot_read_is_told_before_anything_is_done(more, message, toy_inputs, model, tmp_path):
    with pytest.raises(ValueError, match=message):
        given(*toys.files_in(toy_inputs), stated(*more), tmp_path / "run", model=model)
    assert not (tmp_path / "run").exists()


def test_an_ensemble_is_for_one_label_a_row(toy_inputs, model, tmp_path):
    (tmp_path / "scores.csv").write_text("text,label\n" + "".join(f"text {i} of it,{i / 7}\n" for i in range(60)))
    own = Own(train=tmp_path / "scores.csv", kind="score", max_tokens=32)
    with pytest.raises(ValueError, match="averages the probabilities of a row's one label, but scores is of kind"):
        given(own, Raw(domain=toy_inputs / "domain.txt"), stated(CHOSEN), tmp_path / "run", model=model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "the study 'dga' needs a pretrained model: give --model"),
        (["--model", "MODEL"], "the study 'dga' adapts on raw text of the domain: give --corpus"),
        (["--model", "MODEL", "--labels-per-class", "3"], "--labels-per-class is for docstrings; rows=N"),
    ],
)
def test_the_command_says_what_it_lacks(options, message, toy_inputs, model, tmp_path):
    options = [model if each == "MODEL" else each for each in options]
    done = CliRunner().invoke(
        cli.app, ["study", "dga", str(toy_inputs / "train.jsonl"), *options, "--out", str(tmp_path)]
    )
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_the_command_runs_it(toy_inputs, model, tmp_path):
    """Without general text nothing is said of forgetting."""
    place = {split: str(toy_inputs / f"{split}.jsonl") for split in toys.SIZES}
    stated_files = [place["train"], "--dev", place["dev"], "--test", place["test"], "--metric", "micro_f1"]
    options = ["--model", model, "--max-tokens", "32", "--corpus", str(toy_inputs / "domain.txt"), "--out"]
    few = [str(tmp_path / "run"), *SMALL, 'contestants=["adapter"]', "rows=12"]
    planned = CliRunner().invoke(cli.app, ["study", "dga", *stated_files, *options, *few, "--dry-run"])
    assert "fine-tune adapter, seed 1" in planned.output, planned.output
    assert not (tmp_path / "run").exists()
    done = CliRunner().invoke(cli.app, ["study", "dga", *stated_files, *options, *few])
    assert done.exit_code == 0, done.output
    assert "micro-F1: adapter against untouched" in done.output
    assert "12 of the 60 rows of train were drawn" in done.output
    assert "general loss" not in done.output
