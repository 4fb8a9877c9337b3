"""Every recipe that comes with acclimate is one of its method's, and runs: two steps on a two-layer random model."""

import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest

from acclimate.core import settings
from acclimate.core.types import Document
from acclimate.methods import METHODS, scratch
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.tasks.prepared import prepare
from acclimate.text.corpus import write_corpus
from acclimate.training.checkpoint import read_log
from acclimate.training.plan import Plan

RECIPES = Path(__file__).parents[1] / "src" / "acclimate" / "recipes"
FILES = sorted(RECIPES.rglob("*.toml"))
TINY = {"layers": 2, "hidden": 16, "heads": 2, "vocabulary": 200}
TEXTS = [f"the {word} was measured {count} times in conscious rats" for count in range(4) for word in ("dose", "gene")]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | Path]:
    """model, corpus and task as recipes name them."""
    place = tmp_path_factory.mktemp("tiny")
    corpus = write_corpus((Document(str(number), text) for number, text in enumerate(TEXTS)), place / "corpus").path
    recipe = scratch.ScratchRecipe(corpus=corpus, **TINY, plan=Plan(steps=1, batch=2))
    model = scratch.adapt(recipe, place / "model").path
    for split in ("train", "dev", "test"):
        rows = (f"{split} {text},{'dose' in text}" for text in TEXTS)
        (place / f"{split}.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    paths = {split: place / f"{split}.csv" for split in ("train", "dev", "test")}
    task = read_files(LabelledFiles(**paths, metric="micro_f1", max_tokens=16)).task()
    prepared = prepare(task, place, place / "task").path
    return {"model": str(model), "corpus": corpus, "task": prepared, "tasks": (prepared, prepared)}


def test_there_are_recipes_for_each_method():
    trained = {name for name, method in METHODS.items() if {"plan", "finetune"} & {*vars(method.recipe())}}
    assert {file.parent.name for file in FILES} == trained - {"tsdae"}  # no table is repeated with it


def stated(values: dict[str, object], prefix: str = "") -> frozenset[str]:
    """The settings that a file states, and of those that are words or yes or no the values too."""
    found: set[str] = set()
    for name, value in values.items():
        if isinstance(value, dict):
            found |= stated(value, f"{prefix}{name}.")
        else:
            found.add(f"{prefix}{name}={value}" if isinstance(value, str | bool) else f"{prefix}{name}")
    return frozenset(found)


UNLIKE = {(file.parent, stated(tomllib.loads(file.read_text(encoding="utf-8")))): file for file in FILES}.values()


def test_each_recipe_is_one_of_its_method():
    for file in FILES:
        assert settings.from_toml(METHODS[file.parent.name].recipe, file), file


@pytest.mark.parametrize("file", UNLIKE, ids=[str(file.relative_to(RECIPES)) for file in UNLIKE])
def test_recipe_takes_two_steps(file, tiny, tmp_path):
    """One of those that differ in numbers alone."""
    method = METHODS[file.parent.name]
    recipe = settings.from_toml(method.recipe, file)
    method.adapt(shrunk(recipe, tiny), tmp_path)
    logs = [log.parent for log in tmp_path.rglob("log.jsonl")]  # a method of two stages has two
    assert len(logs) == 1 + hasattr(recipe, "finetune")
    assert all([line["step"] for line in read_log(place)] == [1, 2] for place in logs)


def shrunk(recipe, tiny):
    """The recipe, of a model and materials that a test has, for two steps of each stage."""
    small = {**TINY, **tiny, "epochs": 0.0}
    if hasattr(recipe, "plan"):
        small["plan"] = replace(recipe.plan, steps=2, batch=2, piece_tokens=64)
    if given := bool(getattr(recipe, "model", "")):  # a model has its shape
        small = {name: value for name, value in small.items() if name not in TINY}
    small |= {"tokenizer": "" if given else tiny["model"], "model": tiny["model"] if given else "", "least_words": 0}
    small["k"] = 0  # the texts of the test were not retrieved
    if isinstance(recipe, scratch.ScratchRecipe):  # none is learned
        small |= {
            field.name: field.default for field in fields(recipe) if field.name in ("vocabulary", "lower", "kind")
        }
    if hasattr(recipe, "skipgram"):
        small["skipgram"] = replace(recipe.skipgram, dim=8, buckets=100)
    if hasattr(recipe, "finetune"):
        small["finetune"] = shrunk(recipe.finetune, {**tiny, "task": Path()})  # a chain says of what
    return replace(recipe, **{field.name: small[field.name] for field in fields(recipe) if field.name in small})


def test_recipes_say_where_they_come_from_and_leave_no_optimiser_setting_to_a_default():
    wanted = {"batch", "rate", "warmup", "weight_decay", "beta_1", "beta_2", "epsilon", "clip"}
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        comment = " ".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
        assert "Table" in comment, file
        assert "leaves open" in comment or "Left open" in comment, file
        assert f"--recipe {file.relative_to(RECIPES).with_suffix('').as_posix()} " in comment
        values = tomllib.loads(text)
        assert wanted <= set(values["plan"] if "plan" in values else values["finetune"]["plan"]), file


def test_a_row_of_a_papers_table_is_fine_tuned_as_papers_do():
    """It says so itself: what it does not state may not follow the default of a race."""
    values = [tomllib.loads(file.read_text(encoding="utf-8")) for file in FILES]
    tuned = [each["finetune"] for each in values if "finetune" in each]
    tuned += [each for each, file in zip(values, FILES, strict=True) if file.parent.name == "finetune"]
    assert len(tuned) > 20
    assert {each.get("preset") for each in tuned} == {"papers"}


def test_the_pair_of_table_9_differs_in_the_adversarial_term_alone():
    alone, adversarial = (
        settings.from_toml(scratch.ScratchRecipe, RECIPES / "scratch" / f"pubmedbert-{name}.toml")
        for name in ("not-adversarial", "adversarial")
    )
    assert adversarial.adversarial > 0
    assert replace(adversarial, adversarial=0.0) == alone
