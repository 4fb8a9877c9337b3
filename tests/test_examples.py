"""The examples run, on a tiny model and a few texts."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.metrics import balanced_accuracy_score
from transformers import AutoModelForMaskedLM
from typer.testing import CliRunner

import toys
from acclimate import cli
from acclimate.core.types import Document
from acclimate.methods import finetune, scratch
from acclimate.models import loading
from acclimate.models.classifier import load_finetuned
from acclimate.tasks.metrics import METRICS
from acclimate.text.corpus import write_corpus
from acclimate.training.plan import Plan

EXAMPLES = Path(__file__).parents[1] / "examples"
TEXTS = [f"the {word} was measured {count} times in conscious rats" for count in range(6) for word in ("dose", "gene")]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A model's directory and a text file."""
    place = tmp_path_factory.mktemp("files")
    corpus = write_corpus((Document(str(number), text) for number, text in enumerate(TEXTS)), place / "corpus").path
    shape = {"layers": 2, "hidden": 16, "heads": 2, "vocabulary": 200, "dropout": 0.0, "attention_dropout": 0.0}
    model = scratch.adapt(scratch.ScratchRecipe(corpus=corpus, **shape, plan=Plan(steps=1, batch=2)), place / "model")
    (place / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    return str(model.path), str(place / "texts.txt")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """(name, arguments) -> what the example prints."""

    def run_example(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [str(EXAMPLES / name), *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run_example


def test_every_example_is_run_here():
    tested = Path(__file__).read_text(encoding="utf-8")
    assert all(f'run("{file.name}"' in tested for file in EXAMPLES.glob("*.py"))
    assert all(f'cells_of("{file.name}"' in tested for file in EXAMPLES.glob("*.ipynb"))


def cells_of(name: str, parameters: str) -> dict[str, object]:
    """Run a notebook's cells of code, `parameters` after the cell that is tagged so. Return the names they leave."""
    left: dict[str, object] = {}
    for number, cell in enumerate(json.loads((EXAMPLES / name).read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{name}, cell {number}", "exec"), left)
            if "parameters" in cell["metadata"].get("tags", ()):
                exec(parameters, left)
    return left


@pytest.mark.slow
def test_the_notebook_of_own_data(monkeypatch, tmp_path, capsys):
    """With the embedded encoder, so that probes and encoders have learnt something."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path / "cache"))
    few = {"seeds": 2, "search__rates": [], "finetune__looks": 1, "max_tokens": 32}
    few |= {f"{stage}__{key}": steps for stage, steps in (("tapt", 2), ("finetune", 6)) for key in ("plan__steps",)}
    few |= {"tapt__epochs": 0, "tapt__plan__batch": 8, "finetune__epochs": 0, "finetune__retry": False}
    left = cells_of("own_data.ipynb", f"fields = ('cs.CV', 'cs.GT')\nsettings = {few}")
    assert "With 24 test texts" in " ".join(capsys.readouterr().out.split())
    untouched = left["study"].table_full.set_index("contestant")["mean"]["untouched"]
    assert untouched > 0.7  # of two labels


@pytest.mark.slow
def test_the_notebook_of_a_papers_table(files, monkeypatch, tmp_path):
    model, _ = files
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(loading, "FOLDER", Path(model))  # in place of the embedded encoder, which is larger
    monkeypatch.setattr(finetune, "nothing_learnt", lambda *looks, **measures: "")  # which nothing does in two steps

    def here(command: list[str], **options: bool) -> subprocess.CompletedProcess[str]:
        done = CliRunner().invoke(cli.app, command[1:])
        assert done.exit_code == 0, done.output
        return subprocess.CompletedProcess(command, 0, done.stdout)

    monkeypatch.setattr(subprocess, "run", here)
    few = [f"finetune.{each}" for each in ("preset=papers", "epochs=0", "looks=1", "plan.steps=2", "plan.batch=4")]
    few += ["seeds=2", "max_tokens=16", "intermediate.steps=2", "more_steps=none"]
    tasks = {"images": ("cs.CV", "eess.IV"), "theory": ("cs.GT", "cs.IT")}
    cells_of("stilt_table.ipynb", f"tasks = {tasks}\nsettings = {few}")
    assert (tmp_path / "runs" / "stilt-table" / "stilt.html").exists()


def test_race_arxiv(run, files, monkeypatch, tmp_path):
    model, _ = files
    monkeypatch.setattr(loading, "FOLDER", Path(model))  # in place of the embedded encoder, which is larger
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path / "cache"))
    toys.few_papers(tmp_path / "papers", monkeypatch)
    tiny = [f"{stage}.plan.{each}" for stage in ("tapt", "finetune") for each in ("steps=2", "batch=4")]
    monkeypatch.setattr(finetune, "nothing_learnt", lambda *looks, **measures: "")  # which nothing does in two steps
    tiny += ["tapt.epochs=0", "finetune.epochs=0", "finetune.looks=1", "seeds=2", 'contestants=["TAPT"]']
    said = run("race_arxiv.py", tmp_path / "race", *tiny)
    assert said.strip().endswith(".")
    assert (tmp_path / "race" / "report.html").exists()
    load_finetuned(tmp_path / "race" / "use")


def test_adapt_own_text(run, files, tmp_path):
    model, texts = files
    said = run("adapt_own_text.py", model, texts, texts, tmp_path, "epochs=0", "plan.steps=20", "plan.batch=4")
    assert "step 20 of 20" in said
    assert "held-out loss" in said
    AutoModelForMaskedLM.from_pretrained(tmp_path / "checkpoint")


def test_new_objective(run, files, tmp_path):
    said = run("new_objective.py", *files, tmp_path, "steps=3", "batch=4", "rate=1e-2", "piece_tokens=32")
    first, *_, last = said.splitlines()
    assert first.endswith("distance 0.0000")  # both models are the same before the first step
    assert float(last.split()[-1]) > 0
    AutoModelForMaskedLM.from_pretrained(tmp_path / "checkpoint")


def test_own_task(run, files, tmp_path):
    for split, size in (("train", 12), ("dev", 6), ("test", 9)):
        rows = [f"{'gene' if 'gene' in text else 'dose'}\t{text} {split}\n" for text in TEXTS[:size]]
        (tmp_path / f"{split}.txt").write_text("".join(rows), encoding="utf-8")
    brief = ["epochs=0", "looks=1", "plan.steps=2", "plan.batch=4"]
    try:
        said = run("own_task.py", files[0], tmp_path, tmp_path / "out", *brief)
    finally:
        metric = METRICS.pop("balanced_accuracy")
    assert re.fullmatch(r"balanced_accuracy: [01]\.\d+ on 9 test items, [01]\.\d+ on dev\n", said)
    gold, predicted = ["dose", "dose", "dose", "gene"], ["dose", "gene", "dose", "gene"]
    assert metric.compute(gold, predicted) == pytest.approx(balanced_accuracy_score(gold, predicted))


def test_own_method(run, toy_race, tmp_path):
    """The method races against TAPT and the untouched model, with an estimate, a dry run, resume and report."""
    short = ["plan.steps=4", "plan.batch=8", "max_tokens=32", "epochs=0"]
    stated = [f"{group}.{each}" for group in ("tapt", "focal") for each in short]
    stated += ["finetune.epochs=0", "finetune.looks=1", "finetune.plan.steps=4", "search.rates=[]", "seeds=2"]
    given = (toy_race.inputs / "train.jsonl", toy_race.base, tmp_path / "run", *stated, "focal.gamma=1")
    told = run("own_method.py", *given)
    assert re.search(r"^ +focal TAPT +[12] +2 +[1-9]", told, re.M), "the plan counts its jobs"
    assert "About" in told
    answers = ("anything here beats", "Nothing here beats", "better than", "No contestant", "No encoder has learned")
    assert any(words in told for words in answers)
    assert "focal TAPT" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    results = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("jobs/*/result.json")}
    again = run("own_method.py", *given)
    assert "The run is complete" in again, "all is done, and nothing is done again"
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").glob("jobs/*/result.json")} == results


def test_own_study(run, files, monkeypatch, tmp_path):
    monkeypatch.setattr(finetune, "nothing_learnt", lambda *looks, **measures: "")  # which nothing does in two steps
    rows = [f"{text} {number},{'gene' if 'gene' in text else 'dose'}" for number, text in enumerate(TEXTS * 3)]
    (tmp_path / "train.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    brief = ["seeds=2", "rates=[1e-3, 1e-2]", *(f"finetune.{each}" for each in ("epochs=0", "looks=1", "plan.steps=2"))]
    said = run("own_study.py", files[0], tmp_path / "train.csv", tmp_path / "out", *brief)
    assert "8 jobs are left" in said
    assert "all rates but the first (1)" in said
    assert {file.name for file in (tmp_path / "out").glob("rates.*")} == {
        f"rates.{kind}" for kind in ("txt", "csv", "html", "outcome.json")
    }
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out" / "jobs").rglob("result.json")}
    assert len(before) == 8
    assert "0 jobs are left" in run("own_study.py", files[0], tmp_path / "train.csv", tmp_path / "out", *brief)
    assert before == {file: file.stat().st_mtime_ns for file in before}
