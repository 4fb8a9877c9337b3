"""STILT's matrix: what is trained once, what is left out of a first task, and which steps the controls take."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from acclimate.core import settings
from acclimate.data.gather import Inputs
from acclimate.jobs.job import Job, with_needs
from acclimate.jobs.run import do_all
from acclimate.methods import stilt
from acclimate.races.design import Cell
from acclimate.reading.datasets import blurb
from acclimate.studies import stilt as study
from acclimate.studies.stilt import BASELINE, MORE, STEPS, StiltStudyRecipe, design, members_of, settings_on
from toys import PLAIN, TOPICS, text

SIZES = {"topics": 40, "numbers": 30}
SMALL = ("seeds=2", *(f"finetune.{setting}" for setting in ("looks=1", "epochs=0.0", "plan.steps=2", "plan.batch=8")))


def stated_files(place: Path) -> list[str]:
    return [f"datasets={json.dumps([str(place / f'{name}.jsonl') for name in SIZES])}", "max_tokens=32"]


def stated(place: Path, *more: str) -> StiltStudyRecipe:
    return settings.override(StiltStudyRecipe(), [*stated_files(place), "intermediate.steps=3", *SMALL, *more])


def write(path: Path, rows: Sequence[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """Two labelled files; `numbers` has two texts that are split off `topics` as dev and test, in capitals."""
    place, generator = tmp_path_factory.mktemp("pairs"), random.Random(0)
    rows = [{"text": text(topic, 14, generator), "label": topic} for topic in [*TOPICS] * 14][: SIZES["topics"]]
    write(place / "topics.jsonl", rows)
    numbers = [
        {"text": " ".join(generator.choices(PLAIN, k=12)), "label": 0.5 * count} for count in range(SIZES["numbers"])
    ]
    write(place / "numbers.jsonl", numbers)
    topics, other = (member.task for member in members_of(stated(place), Inputs(place / "clean"))[0])
    held = [example.text for split in ("dev", "test") for example in topics.examples(split)[:1]]
    for copy, example in zip(held, other.examples("train")[:2], strict=True):
        [row] = [row for row in numbers if row["text"] == example.text]
        row["text"] = copy.upper()
    write(place / "numbers.jsonl", numbers)
    return place


def cells_of(recipe: StiltStudyRecipe, models: Sequence[str], out: Path) -> dict[tuple[str, str], Cell]:
    made = design(recipe, Inputs(out, models=tuple(models)))
    return {(cell.row, cell.column): cell for cell in made.cells}


@pytest.fixture(scope="module")
def matrix(files, models, tmp_path_factory) -> tuple[Path, dict[tuple[str, str], Cell]]:
    out = tmp_path_factory.mktemp("stilt") / "run"
    return out, cells_of(stated(files), models[:1], out)


def tuned(cell: Cell, seed: int = 0) -> Job:
    """What the look at the test set is at."""
    [job] = cell.jobs_by_seed[seed].needs.values()
    return job


def test_rows_that_hold_dev_or_test_texts_of_the_target_are_left_out_before_it_alone(matrix, files):
    out, cells = matrix
    assert {place: cell.facts["leaks"] for place, cell in cells.items() if cell.facts["leaks"]} == {
        ("numbers", "topics"): 2
    }
    held = [row["text"].lower() for name in ("dev", "test") for row in read(out / "topics" / "data" / f"{name}.jsonl")]
    [part] = out.glob("*/without-*")
    assert tuned(cells["numbers", "topics"]).needs["model"].places["task"] == part.absolute()
    assert tuned(cells["numbers", "numbers"]).needs["model"].places["task"] == (out / "numbers" / "data").absolute()
    whole, kept = (
        [row["text"].lower() for row in read(place / "train.jsonl")] for place in (out / "numbers" / "data", part)
    )
    assert sum(row_text in held for row_text in whole) == 2
    assert kept == [row_text for row_text in whole if row_text not in held]
    assert read(part / "test.jsonl") == read(out / "numbers" / "data" / "test.jsonl")


def test_with_leaks_kept_they_are_counted_and_nothing_is_left_out(files, models, tmp_path):
    kept = cells_of(stated(files, "leaks=keep"), models[:1], tmp_path)
    assert kept["numbers", "topics"].facts["leaks"] == 2
    assert not [*tmp_path.glob("*/without-*")]
    firsts = {tuned(kept["numbers", target]).needs["model"].name for target in SIZES}
    assert len(firsts) == 1


def test_each_first_task_is_learnt_once_for_all_targets_and_is_no_baseline_where_its_settings_differ(matrix):
    _, cells = matrix
    for seed in (0, 1):
        firsts = {tuned(cells["topics", target], seed).needs["model"].name for target in SIZES}
        assert len(firsts) == 1
        assert tuned(cells[BASELINE, "topics"], seed).name not in firsts
    jobs = with_needs(job for cell in cells.values() for job in cell.jobs_by_seed.values())
    heads = {job.settings["recipe"]["head"] for job in jobs if job.work.trains}
    assert heads == {"fresh"}


def test_the_baseline_is_the_first_task_where_their_settings_are_the_same(files, models, tmp_path):
    recipe = replace(stated(files, "leaks=keep"), intermediate=stilt.Intermediate())
    cells = cells_of(recipe, models[:1], tmp_path)
    for first in SIZES:
        for target in SIZES:
            stage = tuned(cells[first, target])
            assert stage.needs["model"].name == tuned(cells[BASELINE, first]).name
        # a pair takes as many steps as the same task twice, so that one control stands for all
        controls = {tuned(cells[row, first]).name for row in (MORE, *(f"{STEPS} as with {name}" for name in SIZES))}
        assert len(controls) == 1
    jobs = {tuned(cell, seed).name for cell in cells.values() for seed in (0, 1)}
    assert len(jobs) == 2 * (2 + 4 + 2)


def test_the_controls_take_the_steps_that_a_pair_took_in_all(matrix, files, models, tmp_path):
    _, cells = matrix
    for (row, target), cell in cells.items():
        plan = tuned(cell).settings["recipe"]["plan"]
        if row in (BASELINE, *SIZES):
            assert (cell.facts["steps"], plan["steps"]) == (2, 2)
        else:
            assert (cell.facts["steps"], plan["steps"]) == (5, 5)
            assert tuned(cell).settings["recipe"]["epochs"] == 0
            assert cell.shown == (row == MORE)
        assert cell.facts["first steps"] == (3 if row in SIZES else 0)
        assert target in SIZES
    assert {row for row, _ in cells} == {BASELINE, MORE, *SIZES, *(f"{STEPS} as with {name}" for name in SIZES)}
    # epochs are counted on the rows that are left
    recipe = stated(files, "more_steps=each")
    counted = replace(recipe, intermediate=stilt.Intermediate(epochs=1.0, batch=1))
    by_rows = cells_of(counted, models[:1], tmp_path)
    rows = {target: cell.facts["first steps"] for (row, target), cell in by_rows.items() if row == "numbers"}
    assert rows["topics"] == rows["numbers"] - 2
    for target in SIZES:
        assert by_rows[f"{STEPS} as with numbers", target].facts["steps"] == rows[target] + 2


def test_a_chain_of_jobs_is_the_method_bit_for_bit(matrix, files, models, tmp_path):
    out, cells = matrix
    recipe, last = stated(files), tuned(cells["topics", "numbers"], 1)
    assert not do_all(with_needs([last]), out)
    finetune = replace(recipe.finetune, plan=replace(recipe.finetune.plan, seed=1))
    tasks = tuple(out / each / "data" for each in SIZES)
    alike = stilt.adapt(stilt.StiltRecipe(models[0], tasks, recipe.intermediate, finetune), tmp_path).path
    for file in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (alike / file).read_bytes() == (last.directory(out) / "checkpoint" / file).read_bytes()


def test_files_state_their_columns_kind_and_splits(tmp_path, monkeypatch):
    generator = random.Random(1)
    pairs = [(text(topic, 8, generator), text(topic, 6, generator), str(len(topic))) for topic in [*TOPICS] * 9]
    (tmp_path / "pairs.tsv").write_text("".join("\t".join(row) + "\n" for row in (("one", "two", "how"), *pairs)))
    sentences = [text(topic, 7, generator).split() for topic in [*TOPICS] * 8]
    for name, sentences_of_file in (("tags", sentences[4:]), ("dev", sentences[:4])):
        lines = ["\n".join(f"{word} {'B' if len(word) > 5 else 'O'}" for word in words) for words in sentences_of_file]
        (tmp_path / f"{name}.conll").write_text("\n\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    datasets = (
        'datasets=[{train="pairs.tsv", text="one", pair="two", label="how", kind="score", max_tokens=20}, '
        '{train="tags.conll", dev="dev.conll", kind="tokens"}]'
    )
    recipe = settings.override(StiltStudyRecipe(), ["max_tokens=24", datasets])
    of_pairs, of_tags = (member.task for member in members_of(recipe, Inputs(tmp_path / "run"))[0])
    assert (of_pairs.kind, of_pairs.metric.name, of_pairs.max_tokens) == ("score", "pearson", 20)
    assert all(row.pair and row.text != row.pair for row in of_pairs.examples("train"))
    assert (of_tags.kind, of_tags.sizes["dev"], of_tags.max_tokens) == ("tokens", 4, 24)
    assert settings.from_mapping(StiltStudyRecipe, json.loads(json.dumps(settings.to_mapping(recipe)))) == recipe


def test_texts_longer_than_the_model_reads_and_two_files_of_one_name_are_refused(files, models, tmp_path):
    twice = json.dumps([str(files / "topics.jsonl")] * 2)
    with pytest.raises(ValueError, match="two are named 'topics'"):
        members_of(settings.override(StiltStudyRecipe(), [f"datasets={twice}"]), Inputs(tmp_path))
    with pytest.raises(ValueError, match=r"reads at most 64. Add max_tokens=64"):
        cells_of(stated(files, "max_tokens=0"), models[:1], tmp_path)


def test_each_of_blurbs_datasets_has_the_rate_batch_and_epochs_of_its_recipe():
    recipe = settings.override(StiltStudyRecipe(), ["by_dataset=true", "finetune.looks=3"])
    found = {each.name: settings_on(recipe, each.name) for each in blurb.DATASETS}
    assert len(found) == 13
    points = {name: (one.plan.rate, one.plan.batch, one.epochs) for name, one in found.items()}
    assert points["BC2GM"] == (6e-5, 32, 50.0)
    assert points["JNLPBA"] == (1e-5, 16, 5.0)
    assert points["GAD"] == (3e-5, 32, 10.0)
    assert settings_on(recipe, "ChemProt, markers") == found["ChemProt"]
    assert {one.looks for one in found.values()} == {3}  # the rest is that of the study
    assert settings_on(recipe, "train") == recipe.finetune
    assert settings_on(replace(recipe, by_dataset=False), "BC2GM") == recipe.finetune


def test_by_dataset_each_task_of_a_pair_has_its_own_settings(files, models, tmp_path, monkeypatch):
    named = {"topics": "BC2GM", "numbers": "BIOSSES"}
    monkeypatch.setattr(
        study, "settings_on", lambda recipe, name, known=study.settings_on: known(recipe, named.get(name, name))
    )
    recipe = settings.override(StiltStudyRecipe(), [*stated_files(files), "by_dataset=true"])
    cells = cells_of(recipe, models[:1], tmp_path)
    pair = tuned(cells["numbers", "topics"])
    assert pair.settings["recipe"]["plan"]["rate"] == 6e-5
    assert pair.needs["model"].settings["recipe"]["plan"]["rate"] == 1e-5
    assert pair.needs["model"].settings["recipe"]["epochs"] == 30.0
    in_one_go = tuned(cells[f"{STEPS} as with numbers", "topics"]).settings["recipe"]["plan"]
    assert (
        in_one_go["steps"] == cells["numbers", "topics"].facts["first steps"] + cells[BASELINE, "topics"].facts["steps"]
    )
