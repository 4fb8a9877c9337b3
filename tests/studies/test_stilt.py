"""The matrix of intermediate tasks on made-up files: what is done once, left out, compared, and drawn."""

from __future__ import annotations

import csv
import html
import json
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from acclimate import cli
from acclimate.core import files, settings
from acclimate.core.figures import points
from acclimate.core.types import Cost, Score, label_of
from acclimate.jobs.status import status_of
from acclimate.methods import finetune, stilt
from acclimate.models.encoder import new_encoder, save_model
from acclimate.race.outcome import UNTAUGHT, constant_score
from acclimate.statistics.significance import compare, holm
from acclimate.studies.blurb import contestants_of
from acclimate.studies.stilt import (
    MORE,
    PAPER,
    Ran,
    StiltStudyRecipe,
    as_csv,
    as_text,
    given,
    legend,
    lines_of,
    page_of,
    plan,
    run_matrix,
)
from acclimate.tasks.datasets import blurb
from acclimate.tasks.metrics import metric_named
from acclimate.text.corpus import write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.vocabulary import train_tokenizer
from studies import matrix_of_pairs
from toys import PLAIN, TOPICS, text

BLURB = Path(__file__).parents[3] / "shared" / "data" / "blurb"
SIZES = {"topics": 40, "numbers": 30}
MACRO = metric_named("macro_f1")
SMALL = ("seeds=2", *(f"finetune.{own}" for own in ("looks=1", "epochs=0.0", "plan.steps=2", "plan.batch=8")))


def stated(place: Path, *more: str) -> StiltStudyRecipe:
    named = json.dumps([str(place / f"{name}.jsonl") for name in SIZES])
    return settings.override(
        StiltStudyRecipe(), [f"datasets={named}", "max_tokens=32", "intermediate.steps=3", *SMALL, *more]
    )


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, toy_inputs) -> Path:
    """A model, and two labelled files; `numbers` has two texts that will be split off `topics` as dev or test."""
    place = tmp_path_factory.mktemp("inputs")
    generator = random.Random(0)
    rows = [{"text": text(topic, 14, generator), "label": topic} for topic in [*TOPICS] * 14][: SIZES["topics"]]
    write(place / "topics.jsonl", rows)
    numbers = [
        {"text": " ".join(generator.choices(PLAIN, k=12)), "label": 0.5 * count} for count in range(SIZES["numbers"])
    ]
    write(place / "numbers.jsonl", numbers)
    clean = given(stated(place), None, place / "clean").members
    held = [own.text for split in ("dev", "test") for own in clean[0].task.examples(split)[:1]]
    for number, own in enumerate(clean[1].task.examples("train")[:2]):
        at = next(place for place, row in enumerate(numbers) if row["text"] == own.text)
        numbers[at]["text"] = held[number].upper()
    write(place / "numbers.jsonl", numbers)
    tokenizer = train_tokenizer(write_corpus(read_documents(toy_inputs / "domain.txt"), place / "corpus"), size=200)
    shape = {"layers": 1, "hidden": 16, "heads": 2, "vocabulary_size": 200, "longest": 48}
    save_model(new_encoder(**shape, pad=tokenizer.pad_token_id, seed=0), tokenizer, place / "model")
    return place


def write(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="module")
def ran(inputs, tmp_path_factory):
    out = tmp_path_factory.mktemp("stilt") / "run"
    recipe = stated(inputs)
    before = plan(recipe, [str(inputs / "model")], None, out)
    stages: set[str] = set()
    found = run_matrix(recipe, [str(inputs / "model")], None, out, watch=lambda told: stages.add(told.stage))
    return recipe, out, found, before, stages


def jobs(out: Path, what: str) -> dict[str, dict]:
    """Label -> job.json and result of those that begin so; what stands twice under a label has all of its names."""
    found = {}
    for path in sorted(out.glob(f"jobs/{what}*/result.json")):
        about = files.read_json(path.parent / "job.json")
        label = re.sub(r"\b[0-9a-f]{12}\b", "M", about["label"])
        entry = found.setdefault(label, {"names": []})
        entry |= {"needs": about["needs"], "recipe": about["settings"].get("recipe"), "result": files.read_json(path)}
        entry["names"].append(path.parent.name)
    return found


def test_each_first_task_is_learnt_once_for_all_targets(ran):
    _, out, _, _, _ = ran
    tuned = jobs(out, "fine-tune")
    for seed in (0, 1):
        [alone] = tuned[f"fine-tune M on topics, seed {seed}"]["names"]
        [of_topics] = tuned[f"fine-tune M on topics as first task, seed {seed}"]["names"]
        chained = [tuned[f"fine-tune M on topics, then {target}, seed {seed}"] for target in SIZES]
        assert [own["needs"]["model"] for own in chained] == [of_topics] * 2  # of 3 steps, as intermediate.steps says
        assert alone != of_topics
        # rows of numbers that hold texts of topics are left out before topics alone
        firsts = {tuned[f"fine-tune M on numbers, then {target}, seed {seed}"]["needs"]["model"] for target in SIZES}
        assert len(firsts) == 2
    assert all(own["recipe"]["head"] == "fresh" for own in tuned.values())


def test_the_baseline_is_the_first_task_where_their_settings_are_the_same(inputs, tmp_path):
    recipe = replace(stated(inputs, "leaks=keep"), intermediate=stilt.Intermediate())
    [own] = contestants_of([str(inputs / "model")])
    lines = lines_of(recipe, own, given(recipe, None, tmp_path))
    alone = {line.target.name: line.arms[0].tuned for line in lines}
    for line in lines:
        assert [arm.column for arm in line.arms] == ["baseline", *SIZES, MORE]
        for arm in line.arms[1:3]:
            assert [job.name for job in arm.first] == [job.name for job in alone[arm.column]]
            assert [job.needs["model"].name for job in arm.tuned] == [job.name for job in alone[arm.column]]
        assert [*line.controls.values()] == [line.arms[3]] * 2  # both pairs take 4 steps
    jobs = {job.name for line in lines for arm in line.all_arms() for job in (*arm.first, *arm.tuned)}
    assert len(jobs) == 2 * (2 + 4 + 2)


def test_rows_that_hold_dev_or_test_texts_of_the_target_are_left_out_before_it_alone(ran, inputs):
    _, out, found, _, _ = ran
    cells = found.matrices[0].cells
    assert {place: cell.column.leaking for place, cell in cells.items() if cell.column.leaking} == {
        ("topics", "numbers"): 2
    }
    held = [own["text"].lower() for name in ("dev", "test") for own in read(out / "topics" / "data" / f"{name}.jsonl")]
    [part] = out.glob("*/without-*")
    whole, kept = (
        [own["text"].lower() for own in read(place / "train.jsonl")] for place in (out / "numbers" / "data", part)
    )
    assert sum(text in held for text in whole) == 2
    assert kept == [text for text in whole if text not in held]
    assert read(part / "test.jsonl") == read(out / "numbers" / "data" / "test.jsonl")
    kept_all = given(stated(inputs, "leaks=keep"), None, out / "kept").members[1]
    assert (kept_all.leaking, kept_all.parts) == ({"topics": 2}, {})
    assert kept_all.before("topics") == kept_all.task


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_chain_of_jobs_is_the_method(ran, inputs, tmp_path):
    recipe, out, _, _, _ = ran
    tuned = jobs(out, "fine-tune")["fine-tune M on topics, then numbers, seed 1"]
    own = replace(recipe.finetune, plan=replace(recipe.finetune.plan, seed=1))
    tasks = tuple(out / each / "data" for each in SIZES)
    alike = stilt.adapt(stilt.StiltRecipe(str(inputs / "model"), tasks, recipe.intermediate, own), tmp_path).path
    for file in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (alike / file).read_bytes() == (out / "jobs" / tuned["names"][0] / "checkpoint" / file).read_bytes()


def test_more_steps_are_those_that_a_pair_took_in_all(ran):
    _, out, found, _, _ = ran
    cell = found.matrices[0].cells["topics", "numbers"]
    assert (cell.column.ran.steps, cell.column.control) == (
        (3, 2),
        None if cell.beside is None else cell.column.control,
    )
    steps = {label: own["recipe"]["plan"]["steps"] for label, own in jobs(out, "fine-tune").items() if "steps" in label}
    assert steps == {f"fine-tune M on {name}, 5 steps, seed {seed}": 5 for name in SIZES for seed in (0, 1)}
    for each in found.matrices[0].cells.values():
        assert (each.beside is None) == (each.column.name == MORE)


def test_what_stands_in_the_cells_is_the_paired_test_with_holms_correction_over_all(ran):
    _, out, found, _, _ = ran
    [matrix] = found.matrices
    assert [*matrix.cells] == [(target, name) for target in SIZES for name in (*SIZES, MORE)]
    for row in matrix.rows:
        metric = metric_named(row.metric)
        alone = scores_of(out, row.baseline, metric.name)
        for column in row.columns:
            cell, own = matrix.cells[row.name, column.name], scores_of(out, column.ran, metric.name)
            assert cell.comparison == compare(own, alone, metric)
            assert column.ran.interval.mean == pytest.approx(np.mean([score.test for score in own]))
            if column.control:
                assert cell.beside == compare(own, scores_of(out, column.control, metric.name), metric)
    cells = [*matrix.cells.values()]
    assert [cell.p_holm for cell in cells] == pytest.approx(holm([cell.comparison.p for cell in cells]))
    beside = [cell for cell in cells if cell.beside]
    assert [cell.beside_p_holm for cell in beside] == pytest.approx(holm([cell.beside.p for cell in beside]))


def scores_of(out: Path, ran: Ran, metric: str) -> list[Score]:
    """From the results of the tests, read anew."""
    scores = []
    for seed, name in enumerate(ran.jobs):
        [tested] = [
            path for path in out.glob("jobs/test-*") if files.read_json(path / "job.json")["needs"]["tuned"] == name
        ]
        result = files.read_json(tested / "result.json")
        sides = (tuple(label_of(label) for label in result[side]) for side in ("gold", "predicted"))
        dev = ran.seeds[seed][1]
        about = result["test"], tuple(result["ids"])
        scores.append(Score(ran.name, "", metric, seed, dev, *about, *sides, Cost(), Cost()))
    return scores


def test_the_test_set_is_opened_once_a_run_after_all_training(ran):
    _, out, _, _, _ = ran
    tests, tuned = (
        sorted(path.stat().st_mtime_ns for path in out.glob(f"jobs/{what}-*/result.json"))
        for what in ("test", "fine-tune")
    )
    assert tests[0] > tuned[-1]
    looks = [len((out / name / "looks.jsonl").read_text().splitlines()) for name in SIZES]
    assert looks == [2 * 4, 2 * 4]  # alone, after either, with more steps
    assert len(tests) == sum(looks)


def test_the_same_again_does_nothing_and_the_plan_says_so(ran, inputs):
    recipe, out, found, before, stages = ran
    there = {path: path.stat().st_mtime_ns for path in out.rglob("result.json")}
    text = (out / "stilt.txt").read_text()
    again = run_matrix(recipe, [str(inputs / "model")], None, out)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("result.json")} == there
    assert (out / "stilt.txt").read_text() == text == as_text(again) == as_text(found)
    assert sum(cell.tunings for cell in before.cells) == len([*out.glob("jobs/fine-tune-*")])
    assert [cell.dataset for cell in before.cells] == ["topics", "numbers", "numbers, before topics"]
    typed = ["study", "stilt", str(inputs / "model"), "--out", str(out), "--dry-run", *SMALL]
    typed += ["max_tokens=32", "intermediate.steps=3", "datasets=" + json.dumps(list(recipe.datasets))]
    done = CliRunner().invoke(cli.app, typed)
    assert done.exit_code == 0, done.output
    assert "acclimate study stilt, still to do" in done.output
    assert re.search(r"^ *topics, model +\S+ +4 +2 +0 ", done.output, re.MULTILINE)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("result.json")} == there
    assert all("fine-tune model on" in stage or "test model on" in stage for stage in stages if " on " in stage)


def test_files_state_their_columns_kind_and_splits(inputs, tmp_path, monkeypatch):
    generator = random.Random(1)
    pairs = [(text(topic, 8, generator), text(topic, 6, generator), str(len(topic))) for topic in [*TOPICS] * 9]
    (tmp_path / "pairs.tsv").write_text("".join("\t".join(row) + "\n" for row in (("one", "two", "how"), *pairs)))
    sentences = [text(topic, 7, generator).split() for topic in [*TOPICS] * 8]
    for name, own in (("tags", sentences[4:]), ("dev", sentences[:4])):
        lines = ["\n".join(f"{word} {'B' if len(word) > 5 else 'O'}" for word in words) for words in own]
        (tmp_path / f"{name}.conll").write_text("\n\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    datasets = (
        'datasets=[{train="pairs.tsv", text="one", pair="two", label="how", kind="score", max_tokens=20}, '
        '{train="tags.conll", dev="dev.conll", kind="tokens"}]'
    )
    more = ("more_steps=none", "same_task=false", "split=dev", "max_tokens=24")
    recipe = settings.override(StiltStudyRecipe(), ["intermediate.steps=3", *SMALL, *more, datasets])
    found = run_matrix(recipe, [str(inputs / "model")], None, tmp_path / "run")
    assert {cell.said for cell in found.matrices[0].cells.values()} == {"not established"}
    of_pairs, of_tags = (member.task for member in given(recipe, None, tmp_path / "run").members)
    assert (of_pairs.kind, of_pairs.metric.name, of_pairs.max_tokens) == ("score", "pearson", 20)
    assert all(row.pair and row.text != row.pair for row in of_pairs.examples("train"))
    assert (of_tags.kind, of_tags.sizes["dev"], of_tags.max_tokens) == ("tokens", 4, 24)
    assert settings.from_mapping(StiltStudyRecipe, json.loads(json.dumps(settings.to_mapping(recipe)))) == recipe


@pytest.mark.parametrize(
    ("datasets", "said"),
    [
        ('[{train="topics.jsonl", text="txet"}, "numbers.jsonl"]', "no column 'txet'; the nearest is 'text'"),
        ('["odd.csv", "numbers.jsonl"]', r'no column .text.*as \{train="odd.csv", text="...", label="..."\} in place'),
        ('[{train="topics.jsonl", txet="a"}, "numbers.jsonl"]', "unknown setting 'datasets.txet'; did you mean"),
        ('[{train="nowhere.csv"}, "numbers.jsonl"]', "nowhere.csv"),
        ('[{train="GAD", label="a"}, "numbers.jsonl"]', "'GAD' is a published dataset: add --data DIR"),
        ('[{train="topics.jsonl"}, "topics.jsonl"]', "two of them are called 'topics'"),
        ('[{train="topics.jsonl"}]', r"datasets = \['topics.jsonl'\]: a pair takes two"),
    ],
)
def test_what_is_wrong_with_a_stated_file_is_told(datasets, said, *, inputs, tmp_path, monkeypatch):
    (inputs / "odd.csv").write_text("premise,entails\na b,c\n")
    monkeypatch.chdir(inputs)
    with pytest.raises(ValueError, match=said):
        given(settings.override(StiltStudyRecipe(), [f"datasets={datasets}"]), None, tmp_path)


def test_a_cell_that_fails_is_told_and_the_others_stand(inputs, tmp_path):
    recipe = stated(inputs, "intermediate.rate=1e30", "more_steps=none", "split=dev")
    [matrix] = (tables := run_matrix(recipe, [str(inputs / "model")], None, tmp_path)).matrices
    assert all(row.baseline.interval for row in matrix.rows)
    assert {cell.said for cell in matrix.cells.values()} == {"failed"}
    assert (
        "needs fine-tune model on topics as first task, seed 0, which failed" in matrix.cells["numbers", "topics"].why
    )
    assert "topics → numbers failed: topics, seed 0: needs" in re.sub(r"\s+", " ", (tmp_path / "stilt.txt").read_text())
    assert "failed" in page_of(tables).as_html()
    lines = list(csv.DictReader((tmp_path / "stilt.csv").read_text().splitlines()))
    assert [line["failed"] != "" for line in lines] == [line["first"] != "baseline" for line in lines]
    assert not [*tmp_path.rglob("looks.jsonl")]  # scored on dev
    assert "diverged  fine-tune model on topics as first task, seed 0: " in status_of(tmp_path).as_text()


def test_what_is_established_is_told_from_what_is_not():
    tables = matrix_of_pairs()
    [matrix] = tables.matrices
    said = {place: cell.said for place, cell in matrix.cells.items() if not cell.is_control}
    assert {said["Genes", name] for name in ("Drugs", "Cells")} == {"better"}
    assert {said["Cells", name] for name in ("Genes", "Drugs")} == {"worse"}
    assert {said["Drugs", name] for name in ("Genes", "Cells")} == {"not established"}
    assert matrix.verdict() == (
        "small model: 2 of 6 pairs score higher than the target alone: Drugs → Genes and Cells → Genes; 2 of 6 pairs "
        "score lower than the target alone: Genes → Cells and Drugs → Cells. The rest may be chance."
    )
    assert "Of 2 established gains 2 stand against as many steps on the target alone." in matrix.controls()
    page = page_of(tables).as_html()
    for (target, name), cell in matrix.cells.items():
        across, place = [*matrix.columns].index(target) + 1, [*matrix.columns].index(name) + 1
        drawn = rf'<td class="number ([^"]*)" [^>]*--share: ([\d.]+)">\s*<a href="#pair-1-{across}-{place}">(.*?)</a>'
        [found] = re.findall(drawn, page, re.DOTALL)
        classes, share, shown = found[0].split(), float(found[1]), html.unescape(found[2])
        assert ("sure" in classes, "open" in classes) == (cell.established, not cell.established)
        assert ("control" in classes) == cell.is_control
        assert classes[0] == ("better" if cell.comparison.difference > 0 else "worse")
        assert ("▲" in shown or "▼" in shown) == cell.established  # not by colour alone
        assert ("+" in shown) != ("\N{MINUS SIGN}" in shown)
        assert share == pytest.approx((abs(cell.comparison.difference) / matrix.largest) ** 0.5, abs=1e-3)


def test_what_nobody_has_learnt_is_told(ran):
    found = ran[2]
    [matrix] = found.matrices
    [row, *others] = matrix.rows
    assert row.baseline.constant == pytest.approx(constant_score(gold_of(ran, row.name), "sequence", MACRO))
    for least, told in ((row.best, True), (row.best - UNTAUGHT - 0.001, False)):
        poor = replace(matrix, rows=(replace(row, baseline=replace(row.baseline, constant=least)), *others))
        said = [line for line in legend(poor, found) if line.startswith(f"{row.name}: no model here has learnt")]
        assert bool(said) == told
        if told:
            assert (
                f"the highest has {points(row.best)} points, the same answer to every text {points(least)}" in said[0]
            )


def gold_of(ran, name: str) -> list:
    tested = next(own for label, own in jobs(ran[1], "test").items() if f"on {name}" in label)
    return tested["result"]["gold"]


def test_groups_are_means_over_targets_of_means_over_first_tasks():
    [matrix] = matrix_of_pairs().matrices
    found = {(group.first, group.target): group for group in matrix.groups}
    assert {place: group.pairs for place, group in found.items()} == {
        ("NER", "RE"): 2,
        ("RE", "NER"): 2,
        ("RE", "RE"): 2,
    }
    score = {place: cell.column.ran.interval.mean for place, cell in matrix.cells.items()}
    alone = {row.name: row.baseline.interval.mean for row in matrix.rows}
    naive = {
        ("NER", "RE"): np.mean([score[target, "Genes"] - alone[target] for target in ("Drugs", "Cells")]),
        ("RE", "NER"): np.mean([score["Genes", first] - alone["Genes"] for first in ("Drugs", "Cells")]),
        ("RE", "RE"): np.mean([score["Drugs", "Cells"] - alone["Drugs"], score["Cells", "Drugs"] - alone["Cells"]]),
    }
    for place, group in found.items():
        assert group.comparison.difference == pytest.approx(naive[place])
    assert [group.p_holm for group in matrix.groups] == pytest.approx(
        holm([each.comparison.p for each in matrix.groups])
    )
    assert matrix.findings().startswith("Established of groups: ")
    assert "NER gains from RE (+" in matrix.findings()


def test_the_page_stands_alone_and_every_cell_leads_to_its_row():
    nasty = ("<script>alert(1)</script>", "Drugs & co", "a\N{RIGHT-TO-LEFT OVERRIDE}b")
    page = page_of(matrix_of_pairs(names=nasty)).as_html()
    assert nasty[0] not in page
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", page)
    led = re.findall(r'href="#(pair-[\d-]+)"', page)
    assert len(led) == 9
    assert set(led) == set(re.findall(r'<tr id="(pair-[\d-]+)"', page))
    assert "there is no folder hoc" in page


def test_text_and_csv_say_the_same(ran):
    tables = matrix_of_pairs("keep")
    text = as_text(tables)
    assert max(map(len, text.splitlines())) <= 110
    lines = list(csv.DictReader(as_csv(tables).splitlines()))
    assert len(lines) == 3 * 4
    for line in lines:
        if line["first"] != "baseline":
            cell = tables.matrices[0].cells[line["target"], line["first"]]
            assert float(line["alone_difference"]) == pytest.approx(cell.comparison.difference)
            assert float(line["alone_p_holm"]) == pytest.approx(cell.p_holm)
            assert line["said"] == cell.said
            assert f"{100 * cell.comparison.difference:+.1f}{'*' * cell.established}" in text
    _, out, _, _, _ = ran
    records = files.read_json(out / "stilt.scores.json")
    assert len(records) == 2 * 2 * 4
    assert all((out / "jobs" / record["job"] / "result.json").exists() for record in records)


def test_the_default_is_the_papers_eleven():
    assert {*PAPER} == {own.name for own in blurb.DATASETS} - {"HoC", "BIOSSES"}
    assert len(PAPER) == 11
    assert (
        StiltStudyRecipe().seeds,
        StiltStudyRecipe().split,
        StiltStudyRecipe().leaks,
        StiltStudyRecipe().more_steps,
    ) == (3, "test", "drop", "each")
    assert (
        StiltStudyRecipe().intermediate.on(StiltStudyRecipe().finetune)
        == StiltStudyRecipe().finetune
        == finetune.FinetuneRecipe()
    )


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["seeds=1"], "one seed says nothing about chance"),
        (['datasets=["GAD"]'], "a pair takes two"),
        (["finetune.head=kept"], "each has a head of its own"),
        (["max_tokens=4"], "too short for a text"),
    ],
)
def test_settings_that_make_no_matrix_are_refused(more, told):
    with pytest.raises(ValueError, match=told):
        settings.override(StiltStudyRecipe(), more)


def test_data_that_make_no_matrix_are_refused(inputs, tmp_path):
    place = str(inputs / "topics.jsonl")
    with pytest.raises(ValueError, match="two of them are called 'topics'"):
        given(replace(stated(inputs), datasets=(place, place)), None, tmp_path)
    with pytest.raises(ValueError, match="add --data DIR"):
        given(StiltStudyRecipe(), None, tmp_path)
    with pytest.raises(ValueError, match="'GAD' is a published dataset: add --data DIR"):
        given(replace(stated(inputs), datasets=(place, "GAD")), None, tmp_path)
    with pytest.raises(ValueError, match=r"reads at most 48. Add max_tokens=48"):
        run_matrix(replace(stated(inputs), max_tokens=0), [str(inputs / "model")], None, tmp_path / "long")
    told = CliRunner().invoke(
        cli.app, ["study", "stilt", str(inputs / "model"), "--model", "x", "--out", str(tmp_path)]
    )
    assert told.exit_code == 2
    assert "--model: there is no such option" in told.output


@pytest.mark.skipif(not BLURB.exists(), reason="needs ../shared/data")
def test_of_the_papers_datasets_what_is_not_there_is_told_and_what_is_damaged_refused(tmp_path):
    for name in ("bioasq_yesno_7b", "gad"):
        shutil.copytree(BLURB / name, tmp_path / "data" / name)
    told = []
    found = given(StiltStudyRecipe(rows=20), tmp_path / "data", tmp_path / "run", watch=told.append)
    assert [member.name for member in found.members] == ["GAD", "BioASQ"]
    notes = [each.values["note"] for each in told if "note" in each.values]
    assert len(notes) == len(found.absent) == 9
    assert notes[0].startswith("BC5-chem is left out: BC5-chem: there is no folder")
    (tmp_path / "data" / "gad" / "dev.tsv").chmod(0o644)
    (tmp_path / "data" / "gad" / "dev.tsv").write_text("one column")
    with pytest.raises(ValueError, match=r"gad/dev\.tsv"):
        given(StiltStudyRecipe(rows=20), tmp_path / "data", tmp_path / "other")


@pytest.mark.skipif(not BLURB.exists(), reason="needs ../shared/data")
def test_published_datasets_stand_beside_a_file(inputs, tmp_path):
    recipe = replace(stated(inputs, "rows=40"), datasets=("bioasq", "BIOSSES", str(inputs / "topics.jsonl")))
    found = given(recipe, BLURB, tmp_path)
    assert [(own.name, own.type) for own in found.members] == [
        ("BioASQ", "Question Answering"),
        ("BIOSSES", "Sentence Similarity"),
        ("topics", "classification"),
    ]
    assert [own.task.max_tokens for own in found.members] == [32] * 3
    assert found.members[0].task.sizes == {"train": 40, "dev": 75, "test": 140}
