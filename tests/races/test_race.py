"""A whole race in small, and what it leaves."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from acclimate.core import files
from acclimate.jobs import job as jobs_module
from acclimate.jobs.job import missing, read_result
from acclimate.races import work
from acclimate.races.contestants import enter
from acclimate.races.planning.dry_run import foreseen_jobs
from acclimate.races.race import run_race
from acclimate.races.report import report_of, write_race_pages
from acclimate.shipping.predict import predict
from acclimate.training.checkpoint import read_log
from studies import recorded

NAMES = {"untouched", "TAPT", "DAPT", "TF-IDF"}


def test_each_contestant_and_seed_has_a_score(toy_race):
    scores = recorded(toy_race.run).scores
    assert {(score.contestant, score.seed) for score in scores} == {(name, seed) for name in NAMES for seed in (0, 1)}
    task = toy_race.materials.task
    for score in scores:
        assert score.ids == tuple(example.id for example in task.examples("test"))
        assert score.gold == tuple(json.loads((toy_race.run / "data" / "sealed.json").read_text()))
        assert set(score.predicted) <= set(task.labels)
        assert score.test == task.score(score.gold, score.predicted)
        assert (score.adapting.tokens > 0) == (score.contestant in {"TAPT", "DAPT"})
        assert score.finetuning.tokens > 0


def test_every_contestant_is_fine_tuned_on_as_much_and_the_toy_can_be_learnt(toy_race):
    tuned = [score.finetuning for score in recorded(toy_race.run).scores if score.contestant != "TF-IDF"]
    steps = {score.tokens for score in tuned}
    assert max(steps) < 1.1 * min(steps)  # each seed meets other rows
    assert len({result["steps"] for result in _results(toy_race.run, "fine-tune").values()}) == 1
    best = max(score.test for score in recorded(toy_race.run).scores if score.contestant == "TF-IDF")
    assert best > 0.9
    tuned = _results(toy_race.run, "fine-tune")
    assert max(result["dev"] for result in tuned.values()) > 0.5


def test_dev_chooses_the_best_encoder_which_predicts_what_was_scored(toy_race):
    """Loaded with nothing but transformers, one text at a time."""
    scores = [score for score in recorded(toy_race.run).scores if score.contestant != "TF-IDF"]
    best = files.read_json(toy_race.run / "encoder" / "race.json")
    means = {name: sum(score.dev for score in scores if score.contestant == name) for name in NAMES - {"TF-IDF"}}
    assert means[best["contestant"]] == max(means.values())
    assert best["contestant"] == recorded(toy_race.run).race.encoder
    [score] = [score for score in scores if (score.contestant, score.seed) == (best["contestant"], best["seed"])]
    assert score.dev == max(other.dev for other in scores if other.contestant == best["contestant"])
    model = AutoModelForSequenceClassification.from_pretrained(toy_race.run / "encoder")
    tokenizer = AutoTokenizer.from_pretrained(toy_race.run / "encoder")
    rows = [json.loads(line) for line in (toy_race.inputs / "test.jsonl").read_text().splitlines()]
    with torch.no_grad():
        predicted = [
            model.config.id2label[int(model(**tokenizer(row["text"], return_tensors="pt")).logits.argmax())]
            for row in rows
        ]
    assert tuple(predicted) == score.predicted
    files.check_manifest(toy_race.run / "encoder")


def test_the_baseline_is_handed_over_and_predicts_what_was_scored(toy_race):
    [score, _] = [score for score in recorded(toy_race.run).scores if score.contestant == "TF-IDF"]
    assert (
        tuple(one.label for one in predict(toy_race.run / "baseline", toy_race.inputs / "test.jsonl"))
        == score.predicted
    )
    about = files.read_json(toy_race.run / "baseline" / "race.json")
    assert (about["contestant"], about["dev"], about["learnt"]) == ("TF-IDF", score.dev, True)
    assert about["task"] == files.read_json(toy_race.run / "use" / "race.json")["task"]
    files.check_manifest(toy_race.run / "baseline")
    assert files.read_json(toy_race.run / "use" / "race.json") == about, "it is the best on dev here"
    assert [one.label for one in predict(toy_race.run, toy_race.inputs / "test.jsonl")] == [*score.predicted]


def test_facts_tell_losses_curves_budgets_and_hashes(toy_race):
    outcome = recorded(toy_race.run)
    facts = outcome.race
    assert set(facts.losses) == {"TAPT", "DAPT"}
    assert all(after < before for before, after in facts.losses.values())
    assert set(facts.general_losses) == {"TAPT", "DAPT"}
    [untouched] = {before for before, _ in facts.general_losses.values()}
    assert untouched != facts.losses["DAPT"][0]
    assert set(facts.given) == NAMES
    [masked, dev] = facts.curves.values()
    assert set(masked.lines) == {"pretraining", "TAPT", "DAPT"}
    assert [step for step, _ in dev.lines["TAPT"]] == [10, 20, 30, 40]
    hashes = {
        "corpus, domain",
        "corpus, held-out",
        "corpus, general, held-out",
        "task, test",
        "model, DAPT",
        "model, untouched",
    }
    assert hashes <= set(facts.hashes)
    assert any("measure the loss" in note for note in outcome.notes)
    assert any("measure forgetting" in note for note in outcome.notes)


def test_the_page_and_the_tables_are_there(toy_race):
    page = (toy_race.run / "report.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert all(name in page for name in NAMES)
    table = (toy_race.run / "table.txt").read_text()
    assert report_of(recorded(toy_race.run)).verdict in " ".join(table.split())
    assert all("general loss" in text.lower() for text in (page, table))
    probes = [f"{name}, probe" for name in NAMES if name != "TF-IDF"]
    assert all(name in page and name in table for name in probes)
    assert len((toy_race.run / "table.csv").read_text().splitlines()) == 1 + len(NAMES) + len(probes)


def test_the_same_race_again_calls_nothing(toy_race, monkeypatch):
    before = {path: path.read_bytes() for path in _settled(toy_race.run)}
    called = []

    def work(*given, **named):
        called.append(named)
        return {}

    for job in foreseen_jobs(enter(toy_race.recipe, toy_race.materials), toy_race.run):
        monkeypatch.setitem(vars(job.work), "do", work)
    # the name of the job of that label in the run: the patched work has another
    known = {files.read_json(path)["label"]: path.parent.name for path in (toy_race.run / "jobs").glob("*/job.json")}
    monkeypatch.setattr(jobs_module.Job, "name", property(lambda job: known[job.label]))
    assert jobs_left(toy_race, toy_race.recipe) == []
    run_race(toy_race.recipe, toy_race.materials, toy_race.run, command="acclimate race")
    assert called == []  # but the models and the outcome were written again, the same
    after = {path: path.read_bytes() for path in _settled(toy_race.run)}
    outcomes = [json.loads(files.pop(toy_race.run / "race.outcome.json")) for files in (before, after)]
    for outcome in outcomes:  # all tests of this process have looked at the same test set meanwhile
        del outcome["race"]["looks"]
    assert outcomes[0] == outcomes[1]
    plan = toy_race.run / "plan.jsonl"
    jobs = [[json.loads(line)["name"] for line in files.pop(plan).splitlines()] for files in (before, after)]
    assert jobs[0] == jobs[1]  # what does them is patched
    assert after == before
    tuned = toy_race.run.glob("jobs/fine-tune-*/checkpoint")
    [source] = [path for path in tuned if (path.parent / "calibration-test.json").exists()]
    (source / "config.json").rename(toy_race.run / "config.json")
    try:
        with pytest.raises(files.DamagedError, match=rf"config\.json is missing.* Remove {source.parent}, and give"):
            run_race(toy_race.recipe, toy_race.materials, toy_race.run, command="acclimate race")
    finally:
        (toy_race.run / "config.json").rename(source / "config.json")
    files.check_manifest(toy_race.run / "encoder")


def jobs_left(raced, recipe):
    """The jobs that a race with this recipe would still do in the directory of the raced one."""
    return missing(foreseen_jobs(enter(recipe, raced.materials), raced.run), raced.run)


def test_another_setting_repeats_only_what_depends_on_it(toy_race):
    recipe = replace(toy_race.recipe, tapt=replace(toy_race.recipe.tapt, masking=0.2))
    again = {job.label for job in jobs_left(toy_race, recipe)}
    assert again == {
        "TAPT",
        "held-out loss, TAPT",
        "general loss, TAPT",
        "probe TAPT",
        "test probe TAPT",
        *(f"{stage} TAPT, seed {seed}" for stage in ("fine-tune", "test") for seed in (0, 1)),
    }
    longer = replace(toy_race.recipe, seeds=3)
    assert all(job.label.endswith("seed 2") for job in jobs_left(toy_race, longer))


def test_tapt_after_dapt_starts_from_dapts_checkpoint_and_shares_it(toy_race):
    recipe = replace(toy_race.recipe, contestants=("DAPT", "DAPT+TAPT"))
    jobs = enter(recipe, toy_race.materials)
    chained = jobs.models["DAPT+TAPT"]
    assert chained.needs["model"].name == jobs.models["DAPT"].name
    assert jobs.models["DAPT"].needs["model"].name == jobs.base.name
    assert chained.places["corpus"] == toy_race.materials.task_text.path
    waiting = {job.label for job in jobs_left(toy_race, recipe)}
    assert not any("DAPT" in label and "TAPT" not in label for label in waiting)
    single = replace(recipe, contestants=("DAPT+TAPT",))
    assert set(enter(single, toy_race.materials).models) == {"untouched", "DAPT+TAPT"}
    assert chained.name in {job.name for job in foreseen_jobs(enter(single, toy_race.materials), toy_race.run)}


def test_a_race_from_a_given_model_pretrains_nothing_and_costs_both_links_of_a_chain(toy_race, tmp_path):
    materials = replace(toy_race.materials, general=None, model=str(toy_race.base))
    tuning = replace(toy_race.recipe.finetune, looks=1, plan=replace(toy_race.recipe.finetune.plan, steps=4))
    recipe = replace(toy_race.recipe, contestants=("DAPT+TAPT", "random weights"), finetune=tuning)
    assert enter(recipe, materials).base is None
    run_race(recipe, materials, tmp_path, command="acclimate race")
    scores = {score.contestant: score for score in recorded(tmp_path).scores}
    assert set(scores) == {"untouched", "DAPT+TAPT", "random weights"}
    links = [sum(line["tokens"] for line in read_log(path)) for path in (tmp_path / "jobs").glob("dapt-*")]
    assert len(links) == 2
    assert scores["DAPT+TAPT"].adapting.tokens == sum(links)
    assert scores["random weights"].adapting.tokens == 0
    # the same text from the same checkpoint: the same DAPT as in the race that pretrained it
    [first] = [path for path in (tmp_path / "jobs").glob("dapt-*") if "tapt" not in path.name]
    [other] = (toy_race.run / "jobs").glob("dapt-*")
    assert (first / "log.jsonl").read_bytes() == (other / "log.jsonl").read_bytes()
    report_of(recorded(tmp_path))


def test_a_contestant_that_fails_is_named_and_the_others_go_on(toy_race, tmp_path, monkeypatch):
    """TAPT of the finished race cannot be done; everything else is found done."""
    run = tmp_path / "run"
    shutil.copytree(toy_race.run, run)
    [lost] = (run / "jobs").glob("tapt-*")
    for path in (run / "jobs").glob("*/job.json"):
        if "TAPT" in json.loads(path.read_text())["label"]:
            shutil.rmtree(path.parent)
    assert not lost.exists()

    def broken(**given):
        raise MemoryError("no memory")

    monkeypatch.setitem(vars(work.ADAPT), "do", broken)
    run_race(toy_race.recipe, toy_race.materials, run, command="acclimate race")
    report = write_race_pages(run)
    assert report.failed == {"TAPT": "TAPT: no memory"}
    assert {score.contestant for score in recorded(run).scores} == NAMES - {"TAPT"}
    assert "TAPT failed and has no score" in report.verdict
    assert "TAPT failed: TAPT: no memory." in " ".join((run / "table.txt").read_text().split())
    assert (run / "use" / "race.json").exists()


def _results(run: Path, beginning: str) -> dict[str, dict]:
    return {path.parent.name: read_result(path.parent) for path in (run / "jobs").glob(f"{beginning}*/result.json")}


def _settled(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file())
