"""Each benchmark runs on a few texts and writes its report: the figures mean nothing, but the scripts do not rot."""

import ast
import csv
import importlib.util
import io
import json
import os
import random
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from acclimate.core import files
from acclimate.tasks.metrics import METRICS
from acclimate.text.vectors.skipgram import Skipgram
from acclimate.text.vectors.vectors import train_vectors

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Texts of made-up words in sentences of 3 to 30 words."""
    generator = random.Random(0)
    words = ["".join(generator.choices("abcdefghij", k=generator.randint(2, 7))) for _ in range(300)]
    path = tmp_path_factory.mktemp("corpus") / "texts.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(60):
            sentences = (" ".join(generator.choices(words, k=generator.randint(3, 30))) for _ in range(6))
            file.write(json.dumps({"text": " ".join(f"{sentence.capitalize()}." for sentence in sentences)}) + "\n")
    return path


@pytest.fixture
def report_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """(script, file for the report, options) -> the report, written by the script in this process, which has torch.

    Where the script starts itself again, to measure a process by itself, that runs here too.
    """
    start = subprocess.run
    for name in ("CUDA_VISIBLE_DEVICES", "RAYON_NUM_THREADS", "TOKENIZERS_PARALLELISM"):  # a script may set them
        monkeypatch.setenv(name, os.environ.get(name, ""))
    monkeypatch.setenv("RAYON_NUM_THREADS", "1")
    monkeypatch.syspath_prepend(str(BENCHMARKS))

    def report_of(script: str, out: Path, *options: object) -> str:
        path = str(BENCHMARKS / script)

        def run(words: Sequence[str], **how: Any) -> subprocess.CompletedProcess[str]:
            if list(words[:2]) != [sys.executable, path]:
                return start(words, **how)
            with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as said:
                patch.setattr(sys, "argv", list(words[1:]))
                runpy.run_path(path, run_name="__main__")
            return subprocess.CompletedProcess(words, 0, said.getvalue(), "")

        monkeypatch.setattr(subprocess, "run", run)
        run([sys.executable, path, *map(str, options), "--out", str(out)])
        report = out.read_text(encoding="utf-8")
        assert "| date |" in report
        assert f"python benchmarks/{script}" in report
        named = [str(out.parent), *(option for option in map(str, options) if os.path.isabs(option))]
        assert not [path for path in named if path in report], "a report does not say where a machine keeps its files"
        return report

    return report_of


@pytest.mark.parametrize("script", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_whatever_a_benchmark_takes_from_the_product_is_there(script):
    """Also of those parts that the tiny runs here skip."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "acclimate":
            module = importlib.import_module(node.module)
            for name in [each.name for each in node.names]:
                part_of_it = hasattr(module, name) or importlib.util.find_spec(f"{node.module}.{name}") is not None
                assert part_of_it, f"{script.name}:{node.lineno}: {node.module} has no {name}"


TINY = ["--texts", "60", "--vocabulary", "300", "--batch", "4", "--threads", "1"]


@pytest.mark.slow
def test_mlm_speed_writes_speeds_and_ratios(report_of, corpus, tmp_path):
    pytest.importorskip("accelerate", reason="transformers.Trainer needs the extra 'benchmarks'")
    options = ["--sizes", "1x16", "--rounds", "1", "--seconds", "0", "--least-steps", "1", "--warm-up", "1"]
    options += ["--workers", "0", "--contestants", "*fp32*;acclimate, bf16, attention dropout 0"]
    report = report_of("mlm_speed.py", tmp_path / "reports" / "speed.md", "--corpus", corpus, *TINY, *options)
    assert "## 1x16" in report
    assert "| acclimate, fp32, attention dropout 0.1 |" in report
    assert "| Trainer chunks, fp32, attention dropout 0.1 |" in report
    assert "| equal settings, fp32 |" in report
    last = "a masked head, fp32, attention dropout 0.1 | acclimate, fp32, attention dropout 0.1 |"
    assert last in report.partition("### What closes the gap")[2]
    assert "Matrix peak" in report


def test_what_closes_the_gap_adds_up_and_is_left_out_where_there_is_none(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    turns = importlib.import_module("turns")
    told = turns.ladder({"given": [1.0, 3.0], "tuned": [2.0, 6.0], "ours": [4.0, 12.0]})
    assert "| given | tuned | 2.00 (2.00 to 2.00) | 50% (50% to 50%) |" in told
    assert "| given | ours | 4.00 (4.00 to 4.00) | 100% (100% to 100%) |" in told
    assert "| given | ours | 1.01 (1.01 to 1.01) | - |" in turns.ladder({"given": [1.0], "ours": [1.01]})


# script -> its options, where {corpus} and {model} are filled in; what its report holds; how often it holds some of it
WRITTEN = {
    "stacked_speed": (
        "--runs 2 --layers 1 --hidden 32 --vocabulary 90 --tokens 6 --batch 2 --steps 2 --warm-up 1 --turns 1",
        ["\n| device | CPU, ", "\n| 2 | "],
        {},
    ),
    "adaptation": (
        "--studies 30 --metric-studies 20 --items 50",
        ["* crossed, 5 adaptations: told apart "],
        {"| 50 | adaptation 3, seeds 1 |": 13, "\n| pearson | ": 3},
    ),
    "moderated": (
        "--studies 60 --contestants 3 --seeds 3 --items-share 0",
        [],
        {"\n| robust, freedom capped | 3 | 3 | 0% |": 3, "\n| today: paired differences |": 4},
    ),
    "learning_curve": ("--studies 3 --draws 3", [], {"| 3 | 600 | 0.5 |": 5, "| 3 | 150 | ": 6}),
    "folds": ("--studies 40 --rows 50 --repeats 1 2", ["\n| 1 | "], {"\n| 20 features | 50 | 2 |": 2}),
    "start_and_memory": (
        "--runs 1 --corpus-gigabytes 0.0005 --vocabulary 300 --threads 1 --corpus {corpus}",
        ["| `acclimate --help` |", "| tokenise |"],
        {},
    ),
    "doctor": (
        "--runs 1 --megabytes 0.008 --rows 30 --planted 1 --vocabulary 300 --corpus {corpus}",
        ["the whole process**", "| train: within a longer text | 1 | 1 |", "| corpus: one word changed | 1 | 1 |"],
        {},
    ),
    "overlap": (
        "--megabytes 0.02 --reference-texts 20 --planted 5 --rounds 1 --peer-megabytes 0.01 --starts 0"
        " --corpus {corpus}",
        [" texts. 0 of the matches are none", "| ours, exact, 13-gram and near, 2 threads |", "flag the same ones"],
        {"| 5 | 100.00% |": 6},
    ),
}
SLOW = {  # those that train, or take seconds
    "significance": (
        "--studies 40 --items 20 60 --seeds 3 5 --bootstraps 4 --bootstrap-items 60",
        ["* score covered: within the aim in "]
        + [f"\n| {metric} | {items} | {seeds} | 0." for metric in METRICS for items in (20, 60) for seeds in (3, 5)],
        {"\n| accuracy, seeds with much luck | 60 | 3 |": 2},  # the plain bootstrap's too
    ),
    "answers": (
        "--races 40 --shared-races 10 --metric-races 4 --limit-races 1 --adapted 1 3 --rows 40"
        " --metrics accuracy pearson --limit-rows 60 --seeds 3",
        ["* false claims above 5%: "],
        {
            "\n| Dunnett, estimated correlation |": 1,
            "\n| 3 adaptations, 5 seeds |": 8,
            "\n| pearson | 40 |": 6,
            "\n| 60 | ": 64,
        },
    ),
    "until_settled": (
        "--races 20 --cost-races 10 --metric-races 4 --end-races 1 --metric-rounds 4 --rounds 10 --adapted 1"
        " --metrics accuracy",
        [" races that ended because the test set was too small, "],
        {"\n| in use | 1 | ": 15, "\n| accuracy | 1 | ": 3, "\n| 2,000 | 1 | ": 6},
    ),
    "mlm_curve": (
        f"--size 1x16 --steps 4 --seeds 2 --corpus {{corpus}} {' '.join(TINY)}",
        ["## Held-out loss", "\n| 4 | "],
        {},
    ),
    "corpus_speed": (
        "--megabytes 0.01 --rounds 2 --corpus {corpus} --model {model}",
        ["| ours: raw text to tokens | ", "| **ours by `encode_batch` alone** | **"],
        {},
    ),
    "corpus_size": (
        "--gigabytes 0.0003 --kill-after 2 --corpus {corpus} --model {model}",
        ["\n| 0.0003 | ", "2 s, killed; "],
        {},
    ),
    "tapter_overhead": (
        "--texts 30 --dim 8 --buckets 100 --batch 4 --max-tokens 32 --pairs 3 --warm-up 1 --threads 1"
        " --corpus {corpus} --model {model}",
        ["\n| with the second term | ", "\n| processor | ", "vectors of 8 numbers for "],
        {},
    ),
    "dga_cost": (
        "--texts 30 --batch 4 --max-tokens 32 --rounds 2 --warm-up 1 --subset 8 --threads 1"
        " --corpus {corpus} --model {model}",
        ["| DGA, anchor = mlm | ", "| DGA, gradient caching | ", "| DGA without contrast | ", "% of the time."],
        {"\n| DGA | ": 1},
    ),
    "templates": ("--templates 3 --sizes 60 120", [], {"| 12 of 12 |": 2, "| 24 of 24 |": 2}),
}


@pytest.mark.parametrize("script", [*WRITTEN, *(pytest.param(script, marks=pytest.mark.slow) for script in SLOW)])
def test_it_writes_its_report(script, report_of, corpus, request, tmp_path):
    if script == "mlm_curve":
        pytest.importorskip("accelerate", reason="transformers.Trainer needs the extra 'benchmarks'")
    options, held, counts = (WRITTEN | SLOW)[script]
    model = None
    if "{model}" in options:
        [model] = request.getfixturevalue("toy_race").run.glob("jobs/pretrain-*/checkpoint")
    stated = [option.format(corpus=corpus, model=model) for option in options.split()]
    report = report_of(f"{script}.py", tmp_path / "report.md", *stated)
    assert not [words for words in held if words not in report]
    assert {words: report.count(words) for words in counts} == counts
    assert "nan" not in report


@pytest.mark.slow
def test_choosing_writes_a_score_of_each_rule(report_of, toy_race, tmp_path):
    task = toy_race.run / "data"
    options = [tmp_path / "runs", "--encoder", toy_race.base, "--tasks", f"toy={task}", "--seeds", "1"]
    report = report_of("choosing.py", tmp_path / "choosing.md", *options)
    assert len(re.findall(r"\n\| [a-z, ']+ \| [0-9.]+ \| [0-9.]+ \|", report)) == 11
    scores = files.read_json(tmp_path / "runs" / "toy-0.json")
    assert scores["best three if no worse"] in (scores["best"], scores["best three"])


@pytest.mark.slow
def test_asked_taken_races_under_each_load_and_goes_on(report_of, toy_race, tmp_path):
    rows = [json.loads(line) for line in (toy_race.inputs / "train.jsonl").read_text().splitlines()]
    with open(tmp_path / "toy.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text", "label"], *([row["text"], row["label"]] for row in rows)])
    options = [tmp_path / "runs", "--tasks", f"toy={tmp_path / 'toy.csv'}", "--budgets", "20s", "--times", "1"]
    settings = ["--settings", "seeds=1", 'contestants=["TF-IDF"]', "finetune.preset=papers", "finetune.epochs=1"]
    report = report_of("asked_taken.py", tmp_path / "taken.md", *options, "--loads", "idle", *settings)
    assert "| toy | 20s | idle | 1 | " in report


@pytest.mark.slow
def test_finetune_speed_writes_speeds_ratios_and_scores(report_of, toy_race, tmp_path):
    pytest.importorskip("accelerate", reason="transformers.Trainer needs the extra 'benchmarks'")
    (tmp_path / "blurb" / "ncbi_disease").mkdir(parents=True)
    generator = random.Random(0)
    for split in ("train", "devel", "test"):
        sentences = []
        for _ in range(12):
            tags = ["O"] * generator.randint(2, 9) + ["B-Disease", "I-Disease"]
            sentences.append("".join(f"word{generator.randint(0, 9)}\t{tag}\n" for tag in tags))
        (tmp_path / "blurb" / "ncbi_disease" / f"{split}.tsv").write_text("\n".join(sentences), encoding="utf-8")
    options = ["--model", toy_race.base, "--data", tmp_path / "blurb", "--datasets", "NCBI-disease"]
    options += ["--max-tokens", "32", "--batch", "4", "--epochs", "1", "--rounds", "2", "--short", "3"]
    report = report_of("finetune_speed.py", tmp_path / "speed.md", *options, "--warm-up", "1", "--threads", "1")
    assert "12 rows of " in report
    assert report.partition("### Ours by theirs")[0].count("| Trainer grouped, bf16 |") == 1
    gap = report.partition("### What closes the gap")[2]
    assert "| Trainer padded, bf16 | Trainer grouped, bf16 |" in gap
    assert "| Trainer sorted, fp32 | acclimate, fp32 |" in gap
    assert "| acclimate, bf16 | Trainer padded, fp32 |" in report
    assert "standard deviation over seeds" in report


@pytest.mark.slow
def test_paired_runs_a_command_of_two_trees_and_leaves_no_tree_behind():
    words = [sys.executable, str(BENCHMARKS / "paired.py"), "--rounds", "1", "--only", "refused"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "| command | HEAD, s | here, s | here by base [95%] |" in done.stdout, done.stderr[-3000:]
    assert done.returncode == ("Slower than HEAD" in done.stdout)
    listed = subprocess.run(["git", "worktree", "list"], cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    assert "/base" not in listed.stdout


@pytest.mark.slow
def test_vectors_speed_writes_the_losses_of_going_on(report_of, corpus, tmp_path):
    texts = [json.loads(line)["text"] for line in corpus.read_text(encoding="utf-8").splitlines()]
    domain, held_out, start = tmp_path / "domain.txt", tmp_path / "held.txt", tmp_path / "start.bin"
    domain.write_text("\n".join(texts[:40]), encoding="utf-8")
    held_out.write_text("\n".join(texts[40:]), encoding="utf-8")
    train_vectors(lambda: texts, start, Skipgram(dim=8, epochs=1, min_count=1, buckets=100, lower=True))
    options = ["--domain", domain, "--held-out", held_out, "--start", start, "--threads", "1", "--shares", "1"]
    report = report_of("vectors_speed.py", tmp_path / "vectors.md", *options, "--work", tmp_path)
    assert "| words of the domain | words in both | the start |" in report


@pytest.mark.slow
def test_engine_writes_overhead_speed_and_a_study_whose_driver_was_killed(tmp_path):
    out = tmp_path / "engine.md"
    words = [sys.executable, str(BENCHMARKS / "engine.py"), "--out", str(out), "--size", "1x16", "--steps", "4"]
    words += ["--pairs", "2", "--batch", "2", "--rounds", "1", "--jobs", "60"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    report = out.read_text(encoding="utf-8")
    assert "| the engine |" in report
    assert "One process by two within a round: " in report
    assert "\n| done twice | 0 |" in report


@pytest.mark.slow
def test_race_kernels_races_without_each_kernel(report_of, toy_race, tmp_path):
    file = tmp_path / "rows.jsonl"
    lines = [json.dumps({"text": row.text, "label": row.label}) for row in toy_race.task.examples("train")]
    file.write_text("\n".join(lines))
    kernels = ("all kernels", "dropout")
    written = report_of("race_kernels.py", tmp_path / "report.md", file, tmp_path / "runs", "--variants", *kernels)
    assert re.search(r"\| dropout \| 2 \| \d+, \d+ \| \d\.\d\d \| .*untouched", written)
