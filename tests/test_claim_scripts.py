"""The scripts of benchmarks/claims on made-up runs, and their queue: outcomes have what docs/claims.py needs."""

import csv
import importlib
import json
import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from acclimate.models.loading import short_names
from acclimate.models.word_embeddings import OVER
from acclimate.races.outcome import CellResult, HeldOutColumn, Outcome, ScoredTask, write_outcome
from acclimate.reports.table import DOMAIN_HEADING, GeneralLoss
from acclimate.studies import choices, dga, pubmedbert, stilt, tlm
from studies import made_up_scores

SCRIPTS = Path(__file__).parents[1] / "benchmarks" / "claims"
ROWS = {  # study -> its rows
    **{f"choices-{vary}": [row.name for row in table.variants] for vary, table in choices.TABLES.items()},
    **{
        f"tlm-{vary}": [row.name for row in tlm.variants(tlm.RECIPE(vary=vary, ks=(50,), rho_1s=(1, 99)), "model")]
        for vary in ("retrieval", "k", "stages", "scale", "rho_1")
    },
    "tapter": ["untouched", "TAPT", "TAPTER", "TAPTER permuted"],
    "dga": ["untouched", *get_args(dga.ContestantName)],
    "pubmedbert": [*get_args(pubmedbert.ModelName)],
    "blurb": [*short_names(["embedded", "RUNS/dapt/checkpoint"]), *short_names(["o/with/checkpoint", "o/without"])],
}
TASKS = ("NCBI-disease", "BC2GM", "BC5-disease")


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Name of a script of benchmarks/claims -> its module, whose outcomes go to `tmp_path`."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    outcomes = importlib.import_module("outcomes")
    monkeypatch.setattr(outcomes, "OUTCOMES", tmp_path)
    losses = [4.0] * outcomes.LAST + [3.0] * outcomes.LAST
    monkeypatch.setattr(outcomes, "read_log", lambda run: [{"loss.mlm": loss} for loss in losses])
    return importlib.import_module


def made_up_run(out: Path, study: str = "", cells: list[CellResult] = ()) -> Path:
    """Return a run with what the queue writes, and with a study whose adaptations end at 3 nats, pretrainings at 5."""
    for job, needs in (("fine-tune", {"model": "pretrain"}), ("pretrain", {})):
        (out / "jobs" / job).mkdir(parents=True)
        (out / "jobs" / job / "job.json").write_text(json.dumps({"needs": needs, "contents": {"corpus": "hash"}}))
    (out / "jobs" / "pretrain" / "frequencies.json").write_text('{"last loss": 5.0, "frequencies": 6.8}')
    about = {"encoder": "one", "commands": ["command"], "commit": "c", "processor_seconds": 1.0}
    (out / "claim.json").write_text(json.dumps(about))
    column = HeldOutColumn(DOMAIN_HEADING, "", dict.fromkeys(("TAPT", "MLM", "DGA"), GeneralLoss(3.0, -1.0)))
    write_outcome(Outcome(study, "", "", tuple(cells), losses=(column,)), out)
    return out


def cell(row: str, number: int, *, model: str = "", column: str = "ChemProt") -> CellResult:
    task = ScoredTask(column, "tokens", "accuracy", ("accuracy",), {"train": 9, "dev": 9, "test": 40})
    scores = tuple(made_up_scores(f"{model} {row}", level=0.3 + number / 9, seeds=3, items=40))
    return CellResult(model, row, column, task, scores, jobs=("fine-tune",), facts={tlm.PAPERS_FLOP: 1e12})


def check(script, place: Path, *names: str) -> None:
    """Check that outcomes have all figures and losses that claims need of them."""
    claims = script("run_queue").queue_of(place, place, place).claims
    for name in names:
        stored = json.loads((place / f"{name}.json").read_text("utf-8"))
        assert stored["encoder"] == "one"
        assert stored["processor_seconds"] > 1
        for claim in (claim for rows in claims.CLAIMS.values() for claim in rows):
            tests = [test for test in claim.tests if test.outcome == name and (claim.beyond or not test.beyond)]
            assert [test.figure for test in tests if claims.figure(test, {name: stored}) is None] == []
            if tests and claim.needs and name in (claim.shown_by or [name]):
                assert stored["losses"][claim.needs[0]][0] == [4, 3] if "adapted" in claim.needs else [5, 6.8]


def test_scores_come_from_rows_of_the_studies(script, tmp_path):
    scores = script("scores")
    for name, (study, _) in scores.FIGURES.items():
        column = "BC5-chem" if study == "choices-schemes" else "ChemProt"
        cells = [cell(row, number, column=column) for number, row in enumerate(ROWS[study])]
        scores.main(made_up_run(tmp_path / "runs" / name, study, cells), name)
    check(script, tmp_path, *scores.FIGURES)


def test_other_scripts_turn_runs_into_outcomes(script, tmp_path, monkeypatch):
    of = {study: [cell(row, number) for number, row in enumerate(rows)] for study, rows in ROWS.items()}
    script("order").main(made_up_run(tmp_path / "order", "dga", of["dga"]))

    pairs = [(first, target) for target in TASKS for first in (stilt.BASELINE, *TASKS) if first != target]
    matrix = [
        cell(first, number, model=model, column=target)
        for model in ("embedded", "dapt")
        for number, (first, target) in enumerate(pairs)
    ]
    script("intermediate").main(made_up_run(tmp_path / "stilt", "stilt", matrix))

    tapter, out = script("tapter"), made_up_run(tmp_path / "tapter", "tapter", of["tapter"])
    runs = {row: [out / "jobs" / "pretrain"] * 3 for row in ROWS["tapter"][1:]}
    values = iter(range(1, 1000))
    (out / "corpora" / "texts").mkdir(parents=True)
    monkeypatch.setattr(tapter, "adaptations", lambda out: runs)
    monkeypatch.setattr(tapter, "fell", lambda run, term: 1 / next(values))
    monkeypatch.setattr(tapter, "Corpus", lambda path: SimpleNamespace(hash="hash", documents=tuple))

    def distances(*_):
        return dict.fromkeys(OVER, SimpleNamespace(mean=1 / next(values)))

    monkeypatch.setattr(tapter, "embedding_distances", distances)
    tapter.main(out)
    script("after_dapt").main(made_up_run(tmp_path / "after", "tapter", of["tapter"]))

    heads, out = script("heads"), made_up_run(tmp_path / "heads", "", [])
    made_up_run(tmp_path / "tlm", "tlm-retrieval", of["tlm-retrieval"])
    for seed in "01":
        (out / seed).mkdir()
        (out / seed / "frequencies.json").write_text('{"last loss": 5.0, "frequencies": 6.8}')

    def analysis(checkpoints, *_, **__):
        shares = (1 / next(values) for _ in (*checkpoints, ""))
        return SimpleNamespace(
            heads=[SimpleNamespace(twin=False, kinds=0, positional=share, vertical=0) for share in shares]
        )

    monkeypatch.setattr(heads, "analyse_heads", analysis)
    monkeypatch.setattr(heads, "sample_texts", lambda *_, **__: ())
    heads.main(out, Path("texts"))

    out = made_up_run(tmp_path / "importance", "", [])
    heads_of = [
        {"domain": domain, "layer": 1, "head": head, "importance": head**domain % 7, "normalised": 1 + domain % head}
        for domain in range(1, 5)
        for head in (1, 2, 3)
    ]
    shares = {"view": "normalised", "others": 0.9, "shuffled": 0.8, "halves": 0.95}
    views = [{**shares, "domain": domain} for domain in range(1, 5)]
    for name, rows in (("importance-heads", heads_of), ("importance", views)):
        with (out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    script("importance").main(out)

    vocabularies = script("vocabularies")
    row = SimpleNamespace(text="", pair=None)
    monkeypatch.setattr(vocabularies, "read_dataset", lambda *_: SimpleNamespace(splits={"test": [row]}))
    monkeypatch.setattr(vocabularies, "reader", str)
    monkeypatch.setattr(vocabularies, "measured", lambda *_: (1 / next(values), 1 / next(values)))
    vocabularies.main(tmp_path, made_up_run(tmp_path / "vocabularies", "", []))

    soft_mask = script("soft_mask")
    monkeypatch.setattr(soft_mask, "corpus", lambda *_: tmp_path)
    monkeypatch.setattr(soft_mask, "measured_every", lambda *_, **__: nullcontext())

    def path(arm, seed, *_):
        end = 3 + len(arm) / 99 + seed / (98 - len(arm))
        return [soft_mask.Look(0, 4.0, 3.0), soft_mask.Look(600, 3.0, end)]

    monkeypatch.setattr(soft_mask, "path", path)
    soft_mask.main(tmp_path, made_up_run(tmp_path / "mask", "", []))

    names = ("dga-baselines", "stilt", "tapter-ncbi", "tapter-after-dapt", "tlm-heads", "importance", "vocabularies")
    check(script, tmp_path, *names, "dga-soft-mask")


def test_the_queue_has_a_run_for_each_outcome_and_fills_its_commands(script, tmp_path):
    queue = script("run_queue").queue_of(tmp_path, tmp_path, tmp_path)
    waiting = queue.waiting()
    claims = [claim for rows in queue.claims.CLAIMS.values() for claim in rows if not claim.beyond]
    wanted = {test.outcome for claim in claims for test in claim.tests if not test.beyond}
    assert sorted(name for run in waiting for name in queue.outcomes(run)) == sorted(wanted)
    assert all(waiting.index(needed) < waiting.index(run) for run in waiting for needed in run.needs)
    commands = [(run.out, command) for run in waiting for command in run.commands]
    assert len({*commands}) == len(commands)
    words = [word for run in waiting for command in run.commands for word in queue.words(run, command)]
    assert [word for word in words if re.search(r"\b(OUT|RUNS|DIR|TEXTS|[A-Z]*SEED|COMMAND|CHECKPOINT)\b", word)] == []


def test_the_queue_continues_after_a_failure_and_runs_nothing_twice(script, tmp_path, monkeypatch):
    run_queue = script("run_queue")
    claims = run_queue.queue_of(tmp_path, tmp_path, tmp_path).claims
    program = tmp_path / "write.py"
    program.write_text(
        "import pathlib, shutil, sys\n"
        "out = pathlib.Path(sys.argv[1])\n"
        "with (out.parent / 'lines').open('a') as lines: print(*sys.argv[1:], file=lines)\n"
        "if sys.argv[2:]: shutil.copy(out / 'claim.json', out.parents[1] / f'{out.name}.json')\n"
        "sys.exit('needed' in out.name and not (out.parent / 'mended').exists())\n"
    )
    needed, other = (
        claims.Run("needed", (f"python {program} OUT",), 1),
        claims.Run("x", (f"python {program} OUT x",), 1),
    )
    last = claims.Run("y", (f"python {program} OUT", f"python {program} OUT y"), 1, (needed,))
    tests = tuple(claims.Test(name, "", "points") for name in "xy")
    claim = claims.Claim("X1", "", "", "", tests, (other, last), "")
    made_up = SimpleNamespace(CLAIMS={"": (claim,)}, SCRIPT=f"python {program} OUT y")
    queue = run_queue.Queue(made_up, "one", {"RUNS": tmp_path / "runs"})

    assert queue.waiting() == [other, needed, last]
    assert queue.work() == [needed]
    assert queue.waiting() == [needed, last]
    (tmp_path / "runs" / "mended").touch()
    assert queue.work() == []
    assert queue.waiting() == []
    lines = [line.rpartition("/")[2] for line in (tmp_path / "runs" / "lines").read_text().splitlines()]
    assert sorted(lines) == ["needed", "needed", "x x", "y", "y y"]
    stored = json.loads((tmp_path / "y.json").read_text())
    assert stored["encoder"] == "one"
    assert stored["commands"] == [*needed.commands, *last.commands]
    assert stored["processor_seconds"] > 0
    assert run_queue.Queue(made_up, "two", queue.places).waiting()[0] == other
