"""Checkpoints that race as contestants beside the untouched model: their jobs, scores, refusals and resumption."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import acclimate
import toys
from acclimate.core import files as records
from acclimate.core.types import Checkpoint
from acclimate.data.checkpoints import parse_checkpoints, resolve_checkpoints
from acclimate.models.loading import identity
from acclimate.races.contestants import enter, probed
from acclimate.races.contestants import tested_probe as look_at_test
from acclimate.races.recipe import RaceRecipe

pytestmark = pytest.mark.usefixtures("all_learn")


@pytest.fixture(scope="module")
def ours(pretrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the same tokenizer with other weights."""
    return with_noise(pretrained, tmp_path_factory.mktemp("ours") / "model")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of another tokenizer and width."""
    return toys.write_model(tmp_path_factory.mktemp("theirs") / "model", hidden=16)


@pytest.fixture(scope="module")
def asked(toy_race: Any, pretrained: Path) -> dict[str, Any]:
    """What `race` is given."""
    files = {split: toy_race.inputs / f"{split}.jsonl" for split in ("dev", "test")}
    raw = {"corpus": toy_race.inputs / "domain.txt", "general": toy_race.inputs / "general.txt"}
    usual = toy_race.recipe.finetune
    brief = replace(usual, looks=1, plan=replace(usual.plan, steps=8))
    recipe = replace(toy_race.recipe, finetune=brief)
    return {**files, **raw, "model": pretrained, "recipe": recipe, "max_tokens": 32, "progress": False}


@pytest.fixture(scope="module")
def raced(toy_race: Any, asked: Any, ours: Path, theirs: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("raced") / "run"
    checkpoints = {"ours": Checkpoint(ours), "theirs": theirs}
    given, told = {**asked, "contestants": ["TAPT", "TF-IDF"], "checkpoints": checkpoints}, []
    study = acclimate.race(toy_race.inputs / "train.jsonl", **given, out=out, watch=told.append)
    notes = [(each.stage, each.values["note"]) for each in told if "note" in each.values]
    return SimpleNamespace(out=out, study=study, outcome=study.report.outcome, checkpoints=checkpoints, notes=notes)


def with_noise(source: Path, to: Path, seed: int = 0) -> Path:
    """A copy of a model with other weights."""
    shutil.copytree(source, to)
    (to / "manifest.json").unlink(missing_ok=True)
    generator = torch.Generator().manual_seed(seed)
    weights = {
        name: weight * (1 + 0.5 * torch.randn(weight.shape, generator=generator))
        for name, weight in load_file(to / "model.safetensors").items()
    }
    save_file(weights, to / "model.safetensors", metadata={"format": "pt"})
    return to


def test_checkpoints_are_fine_tuned_probed_and_compared_like_the_others(raced):
    rows = {result.row: result for result in raced.outcome.results}
    assert {"untouched", "ours", "theirs", "TAPT", "TF-IDF", "ours, probe", "theirs, probe"} <= rows.keys()
    assert not raced.study.report.failed
    for name in ("ours", "theirs"):
        assert len(rows[name].scores) == len(rows["untouched"].scores)
        assert rows[name].costs["adapting"].flops == 0
        assert {score.adaptation for score in rows[name].scores} == {None}, "no adaptation draws it"
    compared = {each.contestant: each.comparison for each in raced.study.report.rows}
    assert compared["ours"].adaptations == 0
    assert not compared["ours"].one_adaptation
    assert compared["TAPT"].one_adaptation
    text = (raced.out / "table.txt").read_text()
    page = (raced.out / "report.html").read_text()
    csv = (raced.out / "table.csv").read_text()
    assert all(name in shown for name in ("ours", "theirs") for shown in (text, page, csv))


def test_their_fine_tunings_start_from_their_own_weights(raced, ours, theirs, pretrained):
    for name, model in (("ours", ours), ("theirs", theirs), ("untouched", pretrained)):
        jobs = [*(raced.out / "jobs").glob(f"fine-tune-{name}-*")]
        assert jobs
        assert {records.read_json(job / "job.json")["contents"]["model"] for job in jobs} == {identity(model)}
        width = records.read_json(model / "config.json")["hidden_size"]
        assert {records.read_json(job / "checkpoint/config.json")["hidden_size"] for job in jobs} == {width}
        words = {len(records.read_json(job / "checkpoint/tokenizer.json")["model"]["vocab"]) for job in jobs}
        assert words == {len(records.read_json(model / "tokenizer.json")["model"]["vocab"])}


def test_the_rate_in_use_is_told_once_and_stands_on_the_page(raced):
    """tests/races/test_recipe.py has its words for other rates."""
    rate = "peak rate 0.01"
    assert [note for stage, note in raced.notes if stage.startswith("fine-tune ours") and "rate" in note] == [rate]
    assert raced.outcome.race.given["ours"]["fine-tuning"].endswith(rate)
    assert rate in (raced.out / "report.html").read_text()


def test_losses_are_shown_for_the_same_tokenizer_only(raced):
    facts = raced.outcome.race
    assert {"ours", "TAPT"} <= facts.general_losses.keys()
    assert "theirs" not in facts.general_losses
    before, after = facts.general_losses["ours"]
    assert after != before
    note = "theirs has another tokenizer"
    assert sum(each.startswith(note) for each in raced.outcome.notes) == 1
    assert not any(each.startswith("ours has its own") for each in raced.outcome.notes)
    assert not any("random weights" in each for each in raced.outcome.notes)
    assert facts.given["ours"]["adapting"] == "none: it races as it is"
    assert "model, ours" in facts.hashes


def test_a_second_call_does_nothing_again_and_a_further_checkpoint_adds_its_jobs(
    raced, toy_race, asked, pretrained, tmp_path
):
    run = tmp_path / "run"
    shutil.copytree(raced.out, run)
    results = {path: path.stat().st_mtime_ns for path in run.glob("jobs/*/result.json")}
    given = {**asked, "contestants": ["TAPT", "TF-IDF"], "out": run}
    again = acclimate.race(toy_race.inputs / "train.jsonl", **given, checkpoints=raced.checkpoints)
    assert again.verdict == raced.study.verdict
    assert {path: path.stat().st_mtime_ns for path in run.glob("jobs/*/result.json")} == results
    checkpoints = {**raced.checkpoints, "more": with_noise(pretrained, tmp_path / "more", seed=1)}
    left = acclimate.race(
        toy_race.inputs / "train.jsonl", **given, checkpoints=checkpoints, dry_run=True, budget="none"
    )
    lines = {line.split()[0]: line for line in left.text.splitlines() if line.strip()}
    assert {"untouched", "ours", "theirs", "more", "TAPT"} <= lines.keys()
    assert "0 s" in lines["ours"]
    assert lines["more"].split()[2] == str(toy_race.recipe.seeds), "its fine-tunings are left"


def test_a_checkpoint_that_changed_is_refused_and_is_another_job(toy_race, asked, pretrained, tmp_path):
    run, model = tmp_path / "run", with_noise(pretrained, tmp_path / "model", seed=2)
    given = {**asked, "contestants": ["TF-IDF"], "out": run, "checkpoints": {"ours": model}, "probe_only": True}
    acclimate.race(toy_race.inputs / "train.jsonl", **given)
    [before] = (run / "jobs").glob("probe-ours-*")
    weights = (model / "model.safetensors").read_bytes()
    shutil.rmtree(model)
    with_noise(pretrained, model, seed=3)
    results = len([*run.glob("jobs/*/result.json")])
    for dry_run in (True, False):
        with pytest.raises(ValueError, match=r"checkpoint 'ours' \(.*\) has changed since the race in .* began"):
            acclimate.race(toy_race.inputs / "train.jsonl", **given, dry_run=dry_run)
    assert len([*run.glob("jobs/*/result.json")]) == results
    fresh = {**given, "out": tmp_path / "fresh"}
    acclimate.race(toy_race.inputs / "train.jsonl", **fresh)
    [after] = (tmp_path / "fresh" / "jobs").glob("probe-ours-*")
    assert after.name != before.name, "a new version at the same path is not taken for the old one"
    (model / "model.safetensors").write_bytes(weights)
    acclimate.race(toy_race.inputs / "train.jsonl", **given)


def test_a_checkpoint_without_a_head_that_predicts_words_has_no_loss(toy_race, asked, ours, tmp_path):
    headless = tmp_path / "headless"
    shutil.copytree(ours, headless)
    weights = {name: weight for name, weight in load_file(ours / "model.safetensors").items() if "cls." not in name}
    save_file(weights, headless / "model.safetensors", metadata={"format": "pt"})
    given = {**asked, "contestants": [], "checkpoints": {"headless": headless}, "out": tmp_path / "run"}
    study = acclimate.race(toy_race.inputs / "train.jsonl", **given, finetune__plan__steps=2, finetune__looks=1)
    assert study.report.outcome.race.general_losses == {}
    assert not study.report.failed


@pytest.mark.parametrize(
    ("budget", "kept"),
    [("1TFLOP", {"ours", "theirs", "TAPT"}), pytest.param("2.7GFLOP", {"ours", "theirs"}, marks=pytest.mark.slow)],
)
def test_a_budget_counts_checkpoints_and_races_them_before_adaptations(budget, kept, raced, asked, tmp_path):
    given = {**asked, "contestants": ["TAPT", "TF-IDF"], "checkpoints": raced.checkpoints, "out": tmp_path / "run"}
    train = asked["dev"].with_name("train.jsonl")
    left = acclimate.race(train, **given, budget=budget, dry_run=True)
    lines = {line.split()[0] for line in left.text.splitlines() if line.strip()}
    assert lines & {"ours", "theirs", "TAPT"} == kept, left.text
    if "TAPT" in kept:
        return  # all race, as without a budget
    study = acclimate.race(train, **given, budget=budget)
    assert {trial.contestant for trial in study.report.outcome.trials} == kept | {"untouched"}
    assert {result.row for result in study.report.outcome.results} & {"ours", "theirs", "TAPT"} <= kept
    again = acclimate.race(train, **given, budget=budget)
    assert again.verdict == study.verdict


@pytest.mark.slow
def test_folds_score_checkpoints_too(toy_race, asked, ours, tmp_path):
    rows = [json.loads(line) for line in (toy_race.inputs / "train.jsonl").read_text().splitlines()]
    given = {**asked, "dev": None, "test": None, "contestants": [], "checkpoints": {"ours": ours}}
    study = acclimate.race(rows, **given, folds=2, finetune__plan__steps=4, finetune__looks=1, out=tmp_path / "run")
    rows_of = {result.row: result for result in study.report.outcome.results}
    assert {"untouched", "ours", "ours, probe"} <= rows_of.keys()
    jobs = [*(tmp_path / "run/jobs").glob("fine-tune-ours-*")]
    assert {records.read_json(job / "job.json")["contents"]["model"] for job in jobs} == {identity(ours)}


def test_a_race_that_pretrains_its_start_takes_checkpoints_too(toy_race, ours):
    materials = replace(toy_race.materials, checkpoints={"ours": str(ours)})
    entries = enter(replace(toy_race.recipe, contestants=("TAPT",)), materials)
    assert entries.models["ours"] is None
    assert entries.model("untouched", 0) is entries.base
    setting = toy_race.recipe.setting()
    tuned = entries.tuning("ours", setting, 0)
    assert tuned.contents["model"] == identity(ours)
    assert not tuned.needs
    assert "ours" not in entries.general_losses, "the vocabulary of the start is not known yet"
    assert entries.contestants_of([tuned, entries.tuning("untouched", setting, 0), *entries.probes["ours"]]) == [
        ("ours",), ("untouched",), ("ours",)
    ]  # fmt: skip


def test_a_checkpoint_of_the_hub_is_named_in_the_jobs_by_its_id(toy_race, pretrained):
    materials = replace(toy_race.materials, model="owner/model")
    job = look_at_test(probed("ours", None, materials, toy_race.recipe.finetune), materials.task)
    assert job.settings["model"] == "owner/model", "the look at the test set reads the model too"


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (["=models/ours"], "the name is missing"),
        (["ours="], "the path is missing"),
        (["ours"], "the name is missing"),
        (["ours=a", "ours=b"], "--checkpoint ours appears twice, as a and b"),
        (["ours=a", "Ours =b"], "checkpoints 'ours' and 'Ours' have the same name"),
        (["our-s=a", "ours=b"], "have the same name"),
        (["a, b=a"], "a name has 1 to 40 letters"),
        (["ours, probe=a"], "a name has 1 to 40 letters"),
        (["a\nb=a"], "a name has 1 to 40 letters"),
        ([f"{'x' * 41}=a"], "a name has 1 to 40 letters"),
    ],
)
def test_what_is_typed_wrongly_is_refused(stated, message):
    with pytest.raises(ValueError, match=message):
        parse_checkpoints(stated)


def test_names_and_paths_are_taken_as_they_are_typed():
    typed = ["ours=models/a=b", "BGE (small) v1.5 = BAAI/bge-small", "e5+=x", "µ=y"]
    assert parse_checkpoints(typed) == {
        "ours": "models/a=b", "BGE (small) v1.5": "BAAI/bge-small", "e5+": "x", "µ": "y"
    }  # fmt: skip


TAKEN = """TAPT, tapt, dapt, DAPT+TAPT, dapt + tapt, untouched, Untouched, TF-IDF, tfidf, tf_idf, DGA, random weights
Random-Weights, word list, model"""


@pytest.mark.parametrize("name", re.split(r", |\n", TAKEN))
def test_the_name_of_a_contestant_is_refused_in_any_spelling(name, ours):
    with pytest.raises(ValueError, match=r"is already a contestant\. Choose another name"):
        resolve_checkpoints({name: str(ours)}, None, reserved_names=RaceRecipe().reserved_names)


def test_what_is_no_encoder_is_refused_before_any_training(pretrained, ours, toy_inputs, tmp_path):
    from transformers import GPT2Config, T5Config

    recipe = RaceRecipe()

    def refused(message: str, **checkpoints: Any) -> None:
        with pytest.raises(ValueError, match=message):
            resolve_checkpoints(checkpoints, str(pretrained), reserved_names=recipe.reserved_names)

    refused("checkpoint 'ours': .*train.jsonl is a file", ours=toy_inputs / "train.jsonl")
    refused("checkpoint 'ours': .*contains no config.json", ours=toy_inputs)
    refused("checkpoint 'ours' is 3. Give a directory or a hub id", ours=3)
    refused("checkpoint 'ours': 'scratch' is not a model", ours="scratch")
    for kind, config in {"a decoder": GPT2Config(vocab_size=50), "an encoder-decoder": T5Config(vocab_size=50)}.items():
        shutil.copytree(ours, tmp_path / kind)
        config.save_pretrained(tmp_path / kind)
        refused(f"checkpoint 'ours': .*: {kind}", ours=tmp_path / kind)
    shutil.copytree(ours, tmp_path / "decoder")
    about = records.read_json(tmp_path / "decoder/config.json")
    records.write_json(tmp_path / "decoder/config.json", {**about, "is_decoder": True})
    refused("a decoder .*is_decoder", ours=tmp_path / "decoder")
    shutil.copytree(ours, tmp_path / "empty")
    (tmp_path / "empty/model.safetensors").unlink()
    refused("checkpoint 'ours': .*contains no weights", ours=tmp_path / "empty")
    shutil.copytree(ours, tmp_path / "wordless", ignore=shutil.ignore_patterns("tokenizer*", "vocab*"))
    refused("checkpoint 'ours': .*tokenizer", ours=tmp_path / "wordless")
    refused("'ours' has the same files as the model that the race starts from", ours=pretrained)
    refused("'b' has the same files as checkpoint 'a'", a=ours, b=ours)
    with pytest.raises(ValueError, match="give a mapping"):
        resolve_checkpoints([str(ours)], str(pretrained), reserved_names=recipe.reserved_names)  # type: ignore[arg-type]


def test_the_weights_of_a_checkpoint_are_checked_as_those_of_the_model_are(toy_race, asked, pretrained, ours, tmp_path):
    def changed(name: str, rename: Any = str, **fields: Any) -> Path:
        shutil.copytree(ours, tmp_path / name)
        about = records.read_json(tmp_path / name / "config.json")
        records.write_json(tmp_path / name / "config.json", {**about, **fields})
        weights = {rename(each): weight for each, weight in load_file(ours / "model.safetensors").items()}
        save_file(weights, tmp_path / name / "model.safetensors", metadata={"format": "pt"})
        return tmp_path / name

    places = {
        "does not have": changed("unknown", model_type="own", architectures=["Own"]),
        "has no masked language model of text": changed("vit", model_type="vit"),
        "weights of the encoder are missing": changed("within", lambda name: name.replace(".self.", ".own.")),
    }
    given = {**asked, "contestants": ["TAPT"], "out": tmp_path / "run"}
    for says, place in places.items():
        sentences = set()
        for stated in ({"checkpoints": {"ours": place}}, {"model": place}):
            for dry_run in (True, False):
                with pytest.raises(ValueError, match=says) as error:
                    acclimate.race(toy_race.inputs / "train.jsonl", **{**given, **stated}, dry_run=dry_run)
                sentences.add(str(error.value).partition(f"{place}: ")[2])
        assert len(sentences) == 1
        assert not (tmp_path / "run").exists()


def test_a_checkpoint_that_reads_too_little_is_refused(toy_race, theirs, tmp_path):
    task = replace(toy_race.materials.task, max_tokens=41)
    materials = replace(toy_race.materials, task=task, checkpoints={"theirs": str(theirs)})
    with pytest.raises(ValueError, match=r"checkpoint 'theirs' reads at most 40 tokens, but .* Set --max-tokens 40"):
        enter(replace(toy_race.recipe, contestants=()), materials)


def test_a_checkpoint_that_wins_is_handed_over_and_shipped(toy_race, asked, pretrained, tmp_path):
    worse = with_noise(pretrained, tmp_path / "worse", seed=5)
    weights = {name: weight * 0 for name, weight in load_file(worse / "model.safetensors").items()}
    save_file(weights, worse / "model.safetensors", metadata={"format": "pt"})  # which reads all texts as the same
    given = {**asked, "model": worse, "contestants": [], "checkpoints": {"ours": pretrained}, "out": tmp_path / "run"}
    study = acclimate.race(toy_race.inputs / "train.jsonl", **{**given, "recipe": toy_race.recipe})
    assert study.use == "ours"
    [prediction] = study.predict(["the pulse of the heart."])
    assert prediction.label in toys.TOPICS
    acclimate.ship(study, tmp_path / "shipped", progress=False)
    card = (tmp_path / "shipped" / "README.md").read_text()
    assert 'the contestant "ours" of a race' in card
    assert f"model, ours: `{identity(pretrained)}`" in card
    assert str(pretrained) not in card
