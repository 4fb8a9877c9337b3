"""What holds for every study of STUDIES: a dry run writes nothing, a failed cell stands and the others go on, the same
command again does what failed and then nothing, and text, CSV, JSON and page are written.
"""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import toys
from acclimate import cli
from acclimate.core import files, settings
from acclimate.data.gather import Inputs
from acclimate.jobs.job import with_needs
from acclimate.races import work
from acclimate.races.design import Design
from acclimate.races.outcome import read_outcome
from acclimate.races.verdict import established
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.statistics.significance import ONE_ADAPTATION
from acclimate.studies import FAILED, STUDIES, Study, dry_run_study, run_study, write_tables

TUNING = ("looks=1", "epochs=0.0", "plan.steps=2", "plan.batch=8", "plan.rate=1e-3")
ADAPTING = ("max_tokens=32", "epochs=0.0", "plan.steps=2", "plan.batch=4", "plan.rate=1e-3")
FINETUNE = tuple(f"finetune.{each}" for each in TUNING)
SMALL: Mapping[str, tuple[str, ...]] = {
    "tlm": (
        *("vary=k", "ks=[2]", "retrieval.k=5"),
        *(f"tlm.{each}" for each in ("vocabulary=200", "layers=1", "hidden=16", "heads=2", "max_tokens=32")),
        *(f"tlm.{each}" for each in ("plan.steps=4", "plan.batch=8", "plan.rate=1e-3")),
        *(f"tlm.finetune.{each}" for each in TUNING),
    ),
    "choices": ("vary=layers", 'datasets=["Words", "Topics", "Nowhere"]', "max_tokens=32", *FINETUNE),
    "tapter": (
        *(f"{name}.{each}" for name in ("tapt", "tapter") for each in ADAPTING),
        *("tapter.looks=1", "tapter.skipgram.dim=8", "tapter.skipgram.buckets=100", "tapter.skipgram.epochs=1"),
        *("tapter.scale=given", *FINETUNE),
    ),
    "dga": (
        *('contestants=["MLM", "adapter"]', "light.bottleneck=4", "adapt_seeds=2"),
        *(f"adapt.{each}" for each in ADAPTING),
        *FINETUNE,
    ),
    "stilt": ("intermediate.steps=3", "max_tokens=32", "more_steps=twice", *FINETUNE),
    "pubmedbert": (
        'models=["own vocabulary, whole words", "goes on from general text", "half general, then half domain"]',
        *("search.rates=[1e-3]", "search.epochs=[]", "search.batches=[8]", "max_tokens=32", *FINETUNE),
        *(f"scratch.{each}" for each in ("vocabulary=200", "layers=1", "hidden=16", "heads=2", "max_tokens=32")),
        *(f"scratch.{each}" for each in ("tokens=1000", "plan.batch=8", "plan.rate=1e-3")),
        *('datasets=["Topics", "Numbers", "Nowhere"]', "adapt_seeds=2"),
    ),
    "blurb": ("max_tokens=32", "search.rates=[1e-3]", "search.epochs=[]", "search.batches=[8]", *FINETUNE),
}


PRINTED: Mapping[str, tuple[str, ...]] = {  # of the finished study, on the terminal
    "tlm": ("TLM, k varied: train", "Scores on dev", "Against task data only"),
    "choices": ("Model choices, layers: one, two", "one: scores on dev", "Against linear"),
    "tapter": ("Scores on test", "Against untouched", "Against TAPT"),
    "dga": ("Scores on test", "Against untouched", "Against MLM"),
    "stilt": (
        "Intermediate tasks: one, two",
        *("one: differences by first task target alone 1 train 2 Numbers more steps", "None of 2 pairs is established"),
        *("Control, the same task twice: above the target alone in", "Holm's correction over all 6 compared cells"),
        "train (one): no encoder has learned it",
    ),
    "pubmedbert": (
        *("Vocabulary and masking from scratch: Topics, Numbers", "Scores on test", "Means", "general loss"),
        *("Against goes on from general text", "General loss: masked language modelling on general text that no model"),
    ),
    "blurb": (
        "BLURB: one, two",
        "Scores on test Words (entity-F1) Topics (accuracy) Numbers (Pearson's r) constant",
        "Means constant no encoder one two NER",
        "3 types, no BLURB score",
        "Against the better baseline against difference p p (adjusted)",
        "the datasets of two, each with its better baseline (3)",
    ),
}


@dataclass
class Studied:
    """One study on toy inputs: planned, done with a cell that fails, done again, and again."""

    study: Study
    recipe: Any
    inputs: Callable[[Path], Inputs]
    out: Path
    design: Design
    plan: str
    left: list[Path]  # what a dry run wrote
    victim: str
    failing: Any
    texts: dict[str, str]
    times: dict[Path, int]


def victims(design: Design) -> tuple[str, set[str]]:
    """A cell, and the directories of fine-tunings that no other cell has."""
    if design.searches:
        last = design.searches[-1]
        [name] = last.entries.models
        return last.row, {re.sub(r"[^a-z0-9]+", "-", f"fine-tune {name}".lower())[:40]}
    *others, last = [cell for cell in design.cells if cell.shown]
    jobs = [{job.name for job in with_needs(cell.jobs_by_seed.values())} for cell in (*others, last)]
    tuned = [job.name for job in with_needs(last.jobs_by_seed.values()) if job.work is work.FINE_TUNE]
    return last.row, {name for name in tuned if not any(name in each for each in jobs[:-1])}


def results(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.rglob("result.json")}


pytestmark = pytest.mark.usefixtures("all_learn")


@pytest.fixture(scope="module", params=STUDIES)
def studied(request, toy_inputs, models, data, catalogue, *, tmp_path_factory) -> Studied:
    study, out = STUDIES[request.param], tmp_path_factory.mktemp(request.param) / "run"
    labelled, raw = toys.files_in(toy_inputs)
    more = ["seeds=2"]
    if study.name == "stilt":
        more.append(f"datasets={json.dumps([str(toy_inputs / 'train.jsonl'), 'Numbers', 'Nowhere'])}")
    if study.name == "pubmedbert":  # as if no model trained on it
        more.append(f"general_heldout={raw.general}")

    def inputs(place: Path) -> Inputs:
        if study.takes == "task":
            return Inputs(place, task=labelled, raw=raw, models=() if study.name == "tlm" else models[:1])
        if study.takes == "texts":
            return Inputs(place, raw=raw, data=data)
        return Inputs(place, models=models, data=data)

    recipe = settings.override(study.recipe(), [*SMALL[study.name], *more])
    plan = dry_run_study(study, recipe, inputs(out), out).as_text()
    left = [*out.rglob("*")] if out.exists() else []
    design = study.design(recipe, inputs(out))
    victim, lost = victims(design)
    assert lost
    fine_tune = work.FINE_TUNE.do

    def failing(*, out: Path, **given: Any) -> Any:
        if any(out.name.startswith(name) for name in lost):
            raise RuntimeError("a made-up failure")
        return fine_tune(out=out, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vars(work.FINE_TUNE), "do", failing)
        failed = run_study(study, recipe, inputs(out), out)
    name = design.name
    written = [".txt", ".csv", ".outcome.json", ".html"]
    texts = {f"failed{end}": (out / f"{name}{end}").read_text() for end in written}
    assert not run_study(study, recipe, inputs(out), out).failed
    texts |= {f"done{end}": (out / f"{name}{end}").read_text() for end in written}
    return Studied(study, recipe, inputs, out, design, plan, left, victim, failed, texts, results(out))


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_a_dry_run_writes_nothing_and_says_what_is_left(studied):
    assert not studied.left
    assert plain(f"{studied.design.title}: still to do") in plain(studied.plan)
    assert re.search(r"About .* on this machine.*; \d+ jobs are left, 0 are done", plain(studied.plan))
    losses = {job.name for column in studied.design.losses for job in column.jobs}
    assert (f"losses on held-out text - - {len(losses)} -" in plain(studied.plan)) == bool(losses)
    after = dry_run_study(studied.study, studied.recipe, studied.inputs(studied.out), studied.out).as_text()
    assert "The run is complete: 0 jobs are left" in plain(after)


def test_a_failed_cell_is_told_and_the_others_stand(studied):
    assert studied.failing.failed
    assert any(studied.victim in cell for cell in studied.failing.failed)
    assert "a made-up failure" in plain(studied.texts["failed.txt"])
    lines = list(csv.DictReader(studied.texts["failed.csv"].splitlines()))
    scored = [line for line in lines if line["mean"]]
    assert scored
    lost = [line for line in lines if line["failed"]]
    assert lost
    assert all(not line["mean"] and "a made-up failure" in line["failed"] for line in lost)
    assert "a made-up failure" in plain(studied.texts["failed.html"])
    row_is, column_is = studied.design.axes
    recorded = json.loads(studied.texts["failed.outcome.json"])["results"]
    places = {(cell["model"], cell["row"], cell["column"]) for cell in recorded if not cell["failed"]}
    assert places
    assert not places & {(line["model"], line[row_is], line[column_is]) for line in lost}
    assert "a made-up failure" not in studied.texts["done.txt"]


def test_text_csv_json_and_page_are_written(studied):
    text, page = studied.texts["done.txt"], studied.texts["done.html"]
    assert write_tables(read_outcome(studied.out / f"{studied.design.name}.outcome.json"), studied.out) == text
    assert max(map(len, text.splitlines())) <= 110
    lines = [line for line in csv.DictReader(studied.texts["done.csv"].splitlines()) if line["split"]]
    row_is, column_is = studied.design.axes
    cells = {(line["model"], line[row_is], line[column_is]): line for line in lines if line["seeds"]}
    for cell in json.loads(studied.texts["done.outcome.json"])["results"]:
        line = cells[cell["row"] if row_is == "model" else cell["model"], cell["row"], cell["column"]]
        for score, job in zip(cell["scores"], cell["jobs"], strict=True):
            assert str(score["seed"]) in line["seeds"].split()
            assert (studied.out / "jobs" / job / "result.json").exists()
            if score["metric"] == line["metric"]:
                assert str(score["test"]) in line["scores"].split()
    assert {key: len(line["seeds"].split()) for key, line in cells.items()} == dict.fromkeys(cells, 2)
    assert studied.design.source in plain(page)
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", page)


def test_an_absent_dataset_is_reported_and_the_others_run(studied, models, data, toy_inputs, tmp_path):
    if studied.study.takes == "models" or studied.study.name == "pubmedbert":
        assert [*studied.design.absent] == ["Nowhere"]
        assert "Nowhere is skipped: Nowhere: there is no folder" in plain(studied.plan)
        assert "Nowhere is skipped: Nowhere: there is no folder" in plain(studied.texts["done.html"])
        return
    if studied.study.name == "tapter":  # its second dataset is a stage of the same models
        return
    _, raw = toys.files_in(toy_inputs)
    for first, further in (("Topics", "Nowhere"), ("Nowhere", "Topics")):
        recipe = settings.override(studied.recipe, [f"tasks={json.dumps([further])}"])
        named = LabelledFiles(train=Path(first), max_tokens=32)
        given = Inputs(tmp_path / first, task=named, raw=raw, models=models[:1], data=data)
        found = studied.study.design(recipe, given)
        assert [*found.absent] == ["Nowhere"]
        assert {cell.column for cell in found.cells} == {"Topics"}
    with pytest.raises(ValueError, match="Nowhere: there is no folder"):
        studied.study.design(settings.override(studied.recipe, ["tasks=[]"]), replace(given, task=named))


def test_the_family_of_holms_correction_is_stated_in_words(studied):
    told = plain(studied.texts["done.txt"])
    families = {each.family for each in studied.design.against}
    assert families
    for family in families:
        count = sum(each.family == family for each in studied.design.against)
        assert f"{family} ({count})" in told


def test_a_study_takes_adapt_seeds_or_says_why_it_has_none(studied):
    """Three of them run with the number here: two pretrain or adapt twice, TLM once for each of two runs."""
    kind, written = type(studied.recipe), json.loads(studied.texts["done.outcome.json"])
    drawn = {frozenset(score["adaptation"] for score in cell["scores"]) for cell in written["results"]}
    if "adapt_seeds" in getattr(kind, "refused", {}):
        firsts = {frozenset({0, 1})} if studied.study.name == "stilt" else set()  # each run's first task
        assert drawn == {frozenset({None}), *firsts}
        with pytest.raises(ValueError, match=r"command line: adapt_seeds: .* Remove it"):
            settings.override(studied.recipe, ["adapt_seeds=2"])
        return
    with pytest.raises(ValueError, match="adapt_seeds = 3 is more than seeds = 2"):
        settings.override(studied.recipe, ["adapt_seeds=3"])
    adaptations = [0] if studied.recipe.adapt_seeds == 1 else [0, 1]
    assert drawn - {frozenset({None})} == {frozenset(adaptations)}  # but for what fine-tunes the given model
    sentences = [
        established(outcome, name)
        for outcome in [read_outcome(studied.out / f"{studied.design.name}.outcome.json")]
        for name in {asked.name for asked in outcome.against}
    ]
    assert sentences
    for said in sentences:
        assert said in plain(studied.texts["done.txt"])
        first, *_ = said.split(". ")
        assert (ONE_ADAPTATION in first) == (studied.recipe.adapt_seeds == 1)


def test_on_test_every_cell_looks_once_a_seed_after_all_training(studied):
    tests = [path for path in studied.times if path.parent.name.startswith("test-")]
    jobs = {job.name for cell in studied.design.cells for job in cell.jobs_by_seed.values()}
    if studied.design.split == "dev":
        assert not tests
        return
    looks = [line for path in studied.out.rglob("looks.jsonl") for line in path.read_text().splitlines()]
    tuned = 2 * len(studied.design.searches)
    assert len(looks) == len(jobs) + tuned


def test_the_same_command_does_nothing_again_and_its_exit_tells_of_failed_cells(studied, monkeypatch):
    typed = ["study", studied.study.name]
    given = studied.inputs(studied.out)
    if given.task is not None:
        typed += [str(given.task.train), "--dev", str(given.task.dev), "--test", str(given.task.test)]
        typed += ["--max-tokens", str(given.task.max_tokens)]
        typed += [each for model in given.models for each in ("--model", model)]
    else:
        typed += given.models
    if given.raw.domain is not None:
        typed += ["--corpus", str(given.raw.domain), "--general", str(given.raw.general)]
    if given.data is not None:
        typed += ["--data", str(given.data)]
    typed += ["seeds=2", *SMALL[studied.study.name], "--out", str(studied.out)]
    if studied.study.name == "stilt":
        typed.append(f"datasets={json.dumps([str(each) for each in studied.recipe.datasets])}")
    if studied.study.name == "pubmedbert":
        typed.append(f"general_heldout={studied.recipe.general_heldout}")
    before = results(studied.out)
    done = CliRunner().invoke(cli.app, typed)
    assert done.exit_code == 0, done.output
    assert f"Report: {studied.out / studied.design.name}.html" in done.output.replace("\n", "")
    assert results(studied.out) == before
    printed = plain(done.output)
    assert plain(studied.texts["done.txt"]) in printed
    assert not [words for words in PRINTED[studied.study.name] if words not in printed]
    [lost, *_] = sorted(path for path in before if path.parent.name.startswith("fine-tune"))
    lost.unlink()

    def failing(**given: Any) -> Any:
        raise ValueError("a made-up failure")

    monkeypatch.setitem(vars(work.FINE_TUNE), "do", failing)
    [test] = [
        path
        for path in before
        if path.parent.name.startswith("test") and lost.parent.name in (path.parent / "job.json").read_text()
    ] or [None]
    if test is not None:
        test.unlink()
    failed = CliRunner().invoke(cli.app, typed)
    assert failed.exit_code == FAILED, failed.output
    assert files.read_json(studied.out / "study.lock.json")["jobs"]


def test_looking_studies_up_loads_neither_torch_nor_a_study():
    code = (
        "import sys, acclimate.studies; print([m for m in sys.modules if m in ('torch', 'numpy') or 'studies.' in m])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
