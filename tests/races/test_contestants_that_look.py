"""A race whose adaptations look at both losses on held-out text: its jobs, its estimate, its page."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from acclimate.core import files
from acclimate.core.types import HELDOUT_LOOKS, SUB_WORDS
from acclimate.jobs.job import RESULT
from acclimate.races.contestants import enter
from acclimate.races.design import Adaptings
from acclimate.races.outcome import read_outcome
from acclimate.races.race import run_race
from acclimate.races.report import write_race_pages
from acclimate.reports.forgetting import TITLE
from acclimate.reports.table import DOMAIN_HEADING, HEADING
from acclimate.studies import write_again

NAMES = ("DAPT", "DAPT+TAPT", "TAPTER", "DGA")
COLUMNS = (HEADING, f"{HEADING}{SUB_WORDS}", f"{DOMAIN_HEADING}{SUB_WORDS}")


@pytest.fixture(scope="module")
def raced(toy_race, tmp_path_factory):
    """(recipe, materials, run) of a race of all kinds from the encoder that the toy race pretrained."""
    [base] = (toy_race.run / "jobs").glob("pretrain-*")
    materials = replace(toy_race.materials, general=None, model=str(base / "checkpoint"))
    tuning = replace(toy_race.recipe.finetune, looks=1, plan=replace(toy_race.recipe.finetune.plan, steps=4))
    recipe = replace(toy_race.recipe, contestants=NAMES, finetune=tuning, look_every=4, heldout_masks="both")
    stated = {name: getattr(recipe, name) for name in ("tapt", "dapt", "tapter", "dga")}
    short = {
        name: replace(each, max_tokens=32, epochs=0.0, plan=replace(each.plan, steps=10), whole_words=name != "dapt")
        for name, each in stated.items()
    }
    recipe = replace(recipe, **short)
    run = tmp_path_factory.mktemp("looked") / "run"
    run_race(recipe, materials, run, command="acclimate race")
    write_race_pages(run)
    return recipe, materials, run


def test_names_of_jobs_without_looks_are_as_before_and_looks_change_those_of_adaptations_alone(raced):
    recipe, materials, _ = raced
    usual = enter(replace(recipe, look_every=0), materials)
    looked, words = enter(recipe, materials), replace(recipe, heldout_masks="words")
    stated = {"every": 4, "max_tokens": recipe.heldout_tokens[1]}
    for name in NAMES:
        before, after = usual.models[name], looked.models[name]
        assert not {"looks", "domain_heldout", "general_heldout"} & {*before.settings, *before.contents}
        assert after.settings["looks"] == {**stated, "sub_words": True}
        assert enter(words, materials).models[name].settings["looks"] == stated
        assert after.contents["domain_heldout"] == materials.heldout.hash
        assert after.contents["general_heldout"] == materials.general_heldout.hash
        assert before.name != after.name
    assert [job.name for job in usual.losses["untouched"]] == [job.name for job in looked.losses["untouched"]]
    with pytest.raises(ValueError, match="there is no text of general domains to hold out"):
        enter(recipe, replace(materials, general_heldout=None))  # two losses make a path, one does not


def test_each_contestant_has_a_path_from_the_untouched_model_to_its_losses(raced):
    *_, run = raced
    outcome = read_outcome(run / "race.outcome.json")
    paths, of_sub_words = outcome.paths
    assert set(paths.by_row) == set(of_sub_words.by_row) == set(NAMES)
    assert of_sub_words.title == f"{paths.title}{SUB_WORDS}"
    [column] = [column for column in outcome.losses if column.name == f"{HEADING}{SUB_WORDS}"]
    for name, path in of_sub_words.by_row.items():
        assert path[-1].general == pytest.approx(column.by_row[name].loss, rel=1e-3)
    for name, path in paths.by_row.items():
        steps = [0, 4, 8, 10]
        assert [look.step for look in path] == ([*steps, 14, 18, 20] if "+" in name else steps)
        (before, after), (general_before, general_after) = (
            losses[name] for losses in (outcome.race.losses, outcome.race.general_losses)
        )
        assert (path[0].domain, path[0].general) == pytest.approx((before, general_before), rel=1e-3)
        assert (path[-1].domain, path[-1].general) == pytest.approx((after, general_after), rel=1e-3)
    [held] = (run / "jobs").glob("dga-*")
    assert len(files.read_record(held / HELDOUT_LOOKS)["looks"]) == 4


def test_losses_with_sub_words_masked_are_further_columns(raced):
    *_, run = raced
    outcome = read_outcome(run / "race.outcome.json")
    assert tuple(column.name for column in outcome.losses) == COLUMNS
    assert all(column.by_row["DAPT"].difference is not None for column in outcome.losses)
    head, *_ = (run / "table.csv").read_text().splitlines()
    assert "general_loss_sub_words" in head


def test_the_page_draws_the_paths_and_compares_them_at_equal_domain_loss(raced):
    *_, run = raced
    page, table = ((run / name).read_text() for name in ("report.html", "table.txt"))
    assert TITLE in page
    assert TITLE in table
    assert "domain loss of" in " ".join(table.split())
    assert "General against domain loss" in page
    assert all(f"general, {name}" in page for name in NAMES)
    write_again(run)
    assert (run / "table.txt").read_text() == table


def test_an_adaptation_that_has_not_ended_is_not_drawn(raced, tmp_path):
    recipe, materials, run = raced
    job = enter(recipe, materials).models["DAPT"]
    assert job is not None
    place = job.directory(tmp_path)
    shutil.copytree(job.directory(run), place)
    drawn = Adaptings("", {"DAPT": [[job]]})
    for found in drawn.paths(tmp_path):
        assert [look.step for look in found.by_row["DAPT"]] == [0, 4, 8, 10]
    assert len(drawn.paths(tmp_path)) == 2
    (place / RESULT).unlink()
    assert drawn.paths(tmp_path) == ()
