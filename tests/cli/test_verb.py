"""The command line: verbs, `key=value`, one line where something is wrong."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification
from typer.testing import CliRunner

import acclimate
import toys
from acclimate import cli
from acclimate.core import files
from studies import recorded

VERBS = (
    *("doctor", "race", "evaluate", "report", "predict", "ship", "push"),
    *("adapt", "settings", "data", "study", "analyse"),
    *(f"data {name}" for name in ("prepare", "corpus", "retrieve", "vocabulary", "fetch")),
    *(f"study {name}" for name in ("tlm", "choices", "tapter", "dga", "stilt", "blurb", "pubmedbert")),
    *(f"study {name}" for name in ("status", "verify", "regenerate")),
    *(f"analyse {name}" for name in ("heads", "embeddings", "importance")),
)


@pytest.fixture
def run(command_line):
    return command_line


@pytest.fixture
def raced(toy_race, tmp_path) -> Path:
    """A copy of the finished race, to be worked on."""
    shutil.copytree(toy_race.run, tmp_path / "raced")
    return tmp_path / "raced"


def test_help_lists_the_verbs_and_the_version_is_told(run):
    status, said = run("--help")
    assert status == 0
    assert all(f" {verb} " in said for verb in VERBS if " " not in verb)
    assert run("--version") == (0, f"acclimate {version('acclimate')}\n")


def test_each_verb_explains_itself():
    for verb in VERBS:
        done = CliRunner().invoke(cli.app, [*verb.split(), "--help"])
        assert done.exit_code == 0, verb
        assert "Usage: " in done.output, verb


def test_the_settings_are_printed(run):
    assert "study stilt" in run("settings")[1]
    status, said = run("settings", "dga")
    assert status == 0
    assert "temperature  (float, default 0.05)" in said
    assert run("settings", "dga", "temperature")[1].startswith("temperature  (float, default 0.05)\n    ")
    assert run("settings", "adapt", "mlm", "plan.rate")[1].startswith("plan.rate  (float, default 5e-05)\n")
    usual, _, scratch = run("settings", "race", "tapt")[1].partition("with --model scratch: ")
    assert "plan.steps=" not in usual
    assert "plan.steps=300" in " ".join(scratch.split())
    of_one_model = json.loads(run("settings", "evaluate", "--schema")[1])["properties"]
    assert {"seeds", "search", "finetune"} <= set(of_one_model)
    assert not {"adapt_seeds", "contestants", "learning_curve", "tapt", "pretrain"} & set(of_one_model)
    assert json.loads(run("settings", "study", "stilt", "--schema")[1])["properties"]["seeds"]["type"] == "integer"


def test_a_directory_that_another_process_holds_is_left_alone(run, held, toy_inputs, tmp_path):
    with held(tmp_path / "run"):
        status, said = run(*toys.race_command(toy_inputs, "run"))
    assert status == 2
    assert said.startswith("acclimate: run is in use by process ")
    assert not (tmp_path / "run" / "jobs").exists()


def test_a_dry_run_prints_the_plan_and_starts_nothing(run, toy_inputs, tmp_path):
    status, said = run(*toys.race_command(toy_inputs, "run"), "--dry-run")
    assert status == 0
    assert re.search(r"^ +TAPT +1 +2 +\d", said, re.M), "adaptations and fine-tunings that are left"
    assert "About" in said
    assert not (tmp_path / "run" / "jobs").exists()
    assert not (tmp_path / "run" / ".lock").exists()


def test_a_dry_run_works_beside_a_run_that_is_under_way(run, held, raced, toy_inputs):
    command = toys.race_command(toy_inputs, "raced")
    with held(raced):
        status, said = run(*command, "--dry-run")
    assert status == 0
    assert re.search(r"0 jobs are left, \d\d are done", " ".join(said.split()))


def test_a_finished_race_started_again_shows_the_table_at_once(run, raced, toy_inputs):
    before = {path: path.stat().st_mtime_ns for path in (raced / "jobs").rglob("*")}
    status, said = run(*toys.race_command(toy_inputs, "raced"))
    assert status == 0
    assert (raced / "table.txt").read_text() in said
    assert {path: path.stat().st_mtime_ns for path in (raced / "jobs").rglob("*")} == before
    assert "Share it: acclimate ship raced --to FOLDER" in said
    assert recorded(raced).race.commands[0].startswith("acclimate race /")


def test_a_race_takes_an_hour_by_default_and_says_so(run, pretrained, toy_inputs, tmp_path):
    train, dev, test = (f"{toy_inputs}/{split}.jsonl" for split in toys.SIZES)
    command = ["race", train, "--dev", dev, "--test", test, "--model", pretrained, "--max-tokens", "32", "--dry-run"]
    settings = ['contestants=["TF-IDF"]', "seeds=2", "finetune.epochs=0", "finetune.plan.steps=2"]
    status, said = run(*command, *settings)
    assert status == 0, said
    assert said.count("Budget: 1h, the default; --budget none removes the limit.") == 1
    assert "2 rounds should fit into 1h." in " ".join(said.split())
    for budget in (["--budget", "none"], ["--probe-only"]):
        status, said = run(*command, *settings, *budget)
        assert status == 0, said
        assert "1h" not in said
    status, said = run(*command, *settings, "--folds", "2")
    assert status == 0, said
    assert "Budget: no limit, because cross-validation does not support budgets." in said


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")  # TensorBoard's
def test_tensorboard_gets_events_of_every_stage(run, toy_inputs, tmp_path):
    settings = ["pretrain.plan.steps=3", "finetune.plan.steps=3", "contestants=[]"]
    status, said = run(*toys.race_command(toy_inputs, "run", *settings), "--track", "tensorboard")
    assert status == 0, said
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run" / "tensorboard" / "run"))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert {"pretrain/loss", "fine-tune model, seed 0/dev"} <= tags


def test_adapt_writes_a_checkpoint_and_does_nothing_twice(run, pretrained, toy_inputs, tmp_path):
    command = ["adapt", "mlm", f"model={pretrained}", f"corpus={toy_inputs}/domain.txt", "epochs=0.0", "plan.steps=2"]
    status, said = run(*command, "plan.batch=4", "max_tokens=16", "--out", "adapted")
    assert status == 0, said
    assert "Checkpoint: adapted/checkpoint" in said
    AutoModelForMaskedLM.from_pretrained(tmp_path / "adapted" / "checkpoint")
    weights = tmp_path / "adapted" / "checkpoint" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert run(*command, "plan.batch=4", "max_tokens=16", "--out", "adapted")[0] == 0
    assert weights.stat().st_mtime_ns == before
    status, said = run(*command, "plan.batch=8", "max_tokens=16", "--out", "adapted")
    assert status == 2
    assert "adapted contains a run with other settings or inputs: plan.batch was 4, now 8. Choose another" in said


def test_adapt_takes_a_recipe_file_that_the_command_line_overrides(run, toy_inputs, tmp_path):
    (tmp_path / "small.toml").write_text(
        f'corpus = "{toy_inputs}/general.txt"\nvocabulary = 200\nlayers = 1\nhidden = 8\nheads = 1\nmax_tokens = 16\n'
        "[plan]\nsteps = 2\nbatch = 4\n"
    )
    status, said = run("adapt", "scratch", "plan.steps=3", "--recipe", "small.toml", "--out", "made")
    assert status == 0, said
    assert len((tmp_path / "made" / "log.jsonl").read_text().splitlines()) == 3


def test_adapt_trains_from_nothing_on_a_task_and_retrieved_text(run, toy_race, toy_inputs, tmp_path):
    small = ["vocabulary=200", "layers=1", "hidden=8", "heads=1", "max_tokens=16", "plan.steps=4", "plan.batch=4"]
    second = ["finetune.plan.steps=2", "finetune.plan.batch=4", "finetune.looks=1"]
    command = ["adapt", "tlm", f"task={toy_race.run / 'data'}", *small, *second]
    status, said = run(*command, "rho_1=1", f"corpus={toy_inputs}/domain.txt", "--out", "tlm")
    assert status == 0, said
    assert "joint: Warning: rho_1 = 1: 2 of 4 batches are internal" in said
    assert "Checkpoint: tlm/checkpoint" in said
    AutoModelForMaskedLM.from_pretrained(tmp_path / "tlm" / "joint" / "checkpoint")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "tlm" / "checkpoint")
    assert tuple(model.config.id2label.values()) == tuple(toys.TOPICS)
    status, said = run(*command, "rho_1=0", "stage_2=false", "--out", "without")  # no corpus needed
    assert status == 0, said


def test_evaluate_tells_the_score_of_one_model(run, pretrained, toy_inputs, tmp_path):
    train, dev, test = (f"{toy_inputs}/{split}.jsonl" for split in toys.SIZES)
    learns = [
        f"finetune.{each}" for each in ("looks=2", "epochs=0.0", "plan.steps=40", "plan.batch=16", "plan.rate=1e-2")
    ]
    settings = ["seeds=2", "search.rates=[]", "finetune.rate_by_width=false", *learns]
    command = ["evaluate", pretrained, train, "--dev", dev, "--test", test, *settings, "--out", "scored"]
    status, said = run(*command, "--dry-run")
    assert status == 0, said
    assert "About" in said
    assert re.search(r"^ +model +- +2 +\d", said, re.M), "one model alone is called model"
    assert not (tmp_path / "scored").exists()
    status, said = run(*command)
    assert status == 0, said
    assert "untouched" not in said.replace("than the untouched model for", "")
    assert "Use: model, in scored/use\n" in said
    assert "The model scores " in said
    assert {score.contestant for score in recorded(tmp_path / "scored").scores} == {"untouched"}


def test_a_refused_run_leaves_its_place_to_the_one_that_mends_it(run, pretrained, toy_inputs, tmp_path):
    """The toy was pretrained without dropout, which DGA cannot do without."""
    command = ["adapt", "dga", f"model={pretrained}", f"corpus={toy_inputs}/domain.txt", "plan.steps=1", "plan.batch=4"]
    command += ["max_tokens=16", "subset=4", "--out", "adapted"]
    status, said = run(*command)
    assert status == 2
    assert "Set dropout=0.1" in said
    assert not (tmp_path / "adapted").exists()
    status, said = run(*command, "dropout=0.1")
    assert status == 0, said
    assert run(*command, "dropout=0.2")[0] == 2


@pytest.mark.parametrize("method", ["mlm", "dga", "tapter", "extend", "distil"])
def test_adapt_checks_the_model_before_it_reads_text_and_leaves_nothing(method, pretrained, toy_inputs, tmp_path):
    shutil.copytree(pretrained, tmp_path / "model")
    (tmp_path / "model/manifest.json").unlink()
    about = files.read_json(tmp_path / "model/config.json")
    settings = {"corpus": toy_inputs / "domain.txt"}
    for name, change, says in (
        ("config.json", about | {"model_type": "vit"}, "no text encoder"),
        ("config.json", about | {"vocab_size": 7}, "vocab_size = 7"),
        ("tokenizer.json", {}, "tokenizer"),
    ):
        shutil.copytree(tmp_path / "model", tmp_path / "changed")
        files.write_json(tmp_path / "changed" / name, change)
        with pytest.raises(ValueError, match=says):
            acclimate.adapt(method, model=tmp_path / "changed", **settings, out=tmp_path / "out", progress=False)
        assert not (tmp_path / "out").exists()
        shutil.rmtree(tmp_path / "changed")


def test_adapt_checks_a_tokenizer_before_it_reads_text_and_leaves_nothing(pretrained, toy_inputs, tmp_path):
    shutil.copytree(pretrained, tmp_path / "model", ignore=shutil.ignore_patterns("manifest.json"))
    files.write_json(tmp_path / "model/tokenizer.json", {})
    settings = {"corpus": toy_inputs / "domain.txt", "tokenizer": tmp_path / "model"}
    with pytest.raises(ValueError, match="tokenizer"):
        acclimate.adapt("scratch", **settings, out=tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()


def test_a_refusal_while_weights_are_loaded_leaves_nothing_and_keeps_what_was_there(pretrained, toy_inputs, tmp_path):
    shutil.copytree(pretrained, tmp_path / "model")
    (tmp_path / "model/manifest.json").unlink()
    weights = load_file(tmp_path / "model/model.safetensors")
    save_file(
        {name.replace(".self.", ".own."): weight for name, weight in weights.items()},
        tmp_path / "model/model.safetensors",
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("")
    for out, left in ((tmp_path / "out", False), (tmp_path / "mine", True)):
        with pytest.raises(ValueError, match="weights of the encoder are missing"):
            acclimate.adapt("mlm", model=tmp_path / "model", corpus=toy_inputs / "domain.txt", out=out, progress=False)
        assert out.exists() == left
    assert (tmp_path / "mine/notes.txt").exists()


def test_a_shell_completes_names_of_methods_and_metrics():
    program = "import sys; sys.argv[0] = 'acclimate'; from acclimate.cli import main; main()"
    for words, expected in (("acclimate adapt ta", "tapter"), ("acclimate race x.csv --metric macro", "macro_f1")):
        asked = {"_ACCLIMATE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        told = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **asked}, check=True
        )
        assert told.stdout.split() == [expected]
