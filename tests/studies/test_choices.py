"""The studies of BLURB's model choices on made-up words: what is shared, what differs, and which tokens stay whole."""

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from torch import nn
from transformers import AutoTokenizer

from acclimate.core import settings
from acclimate.core.types import Example
from acclimate.data.gather import Inputs
from acclimate.jobs.job import with_needs
from acclimate.models.classifier import load_classifier
from acclimate.races.design import Design
from acclimate.races.outcome import Outcome
from acclimate.races.run import run
from acclimate.reading.datasets import blurb
from acclimate.reading.datasets.catalogue import Dataset, Form
from acclimate.reading.formats.annotated import Annotated, Mention
from acclimate.reading.relations import MentionPairs, relation_examples
from acclimate.studies import choices
from acclimate.studies.choices import ChoicesRecipe, design
from acclimate.tasks.metrics import METRICS
from toys import PLAIN, TOPICS

SIZES = {"train": 24, "dev": 16, "test": 12}
PAIRS = MentionPairs(("word",), ("word",), ("WORD", "WORD"), "WORDS")
SMALL = ("seeds=2", *(f"finetune.{setting}" for setting in ("looks=1", "epochs=0.0", "plan.steps=2", "plan.batch=8")))


def tagged(_: Path, split: str) -> Iterator[Example]:
    generator = random.Random(split)
    for number in range(SIZES[split]):
        words = [(generator.choice(PLAIN), "O") for _ in range(4)]
        words += [(generator.choice(TOPICS["heart"]), tag) for tag in ("B-heart", "I-heart", "B-heart")]
        texts, tags = zip(*words, strict=True)
        yield Example(f"{split}-{number}", " ".join(texts), tags)


def related(encoding: str, _: Path, split: str) -> Iterator[Example]:
    generator = random.Random(split)
    for number in range(SIZES[split]):
        label = ("heart", "orbit")[number % 2]
        one, other = (generator.choice(TOPICS[label]) for _ in range(2))
        text = f"the {one} of {other} was"
        spans = (4, 4 + len(one)), (8 + len(one), 8 + len(one) + len(other))
        mentions = tuple(Mention(str(place), "word", (span,)) for place, span in enumerate(spans))
        document = Annotated(f"{split}-{number}", text, mentions, (), "made:1")
        yield from relation_examples([document], PAIRS, labels={}, negative=label, encoding=encoding)


def dataset(name: str, kind: str, labels: tuple[str, ...], metric: str, forms: tuple[Form, ...]) -> Dataset:
    about = {"counted": "instances", "sizes": {}, "citation": "Made up.", "licence": "none"}
    return Dataset(name, kind, name.lower(), kind, labels, METRICS[metric], max_tokens=32, forms=forms, **about)


FORMS = tuple(
    Form(name, (), partial(related, name), special=PAIRS.special_tokens(name) if name != "original" else ())
    for name in ("dummies", "markers", "original")
)
CLASSIFIED = Form("made up", (), lambda _, split: (replace(row, spans=()) for row in related("original", _, split)))
CATALOGUE = (
    dataset("Words", "tokens", ("B-heart", "I-heart", "O"), "entity_f1", (Form("made up", (), tagged),)),
    dataset("Pairs", "sequence", ("heart", "orbit"), "accuracy", FORMS),
    dataset("Texts", "sequence", ("heart", "orbit"), "accuracy", (CLASSIFIED,)),
)


@pytest.fixture(autouse=True)
def catalogue(monkeypatch) -> None:
    """CATALOGUE in place of BLURB's."""
    monkeypatch.setattr(blurb, "DATASETS", CATALOGUE)


def made(out: Path, models: tuple[str, ...], vary: str, *more: str) -> Design:
    recipe = settings.override(ChoicesRecipe(), [f"vary={vary}", *SMALL, *more])
    return design(recipe, Inputs(out, models=models[:1], data=out))


def jobs(made: Design, dataset: str, row: str = "") -> set[str]:
    cells = [cell for cell in made.cells if cell.column == dataset and row in ("", cell.row)]
    return {job.name for job in with_needs(job for cell in cells for job in cell.jobs_by_seed.values())}


def test_what_two_variants_or_studies_share_is_done_once(models, tmp_path):
    layers = made(tmp_path, models, "layers", 'datasets=["Words", "Pairs", "Texts"]')
    schemes = made(tmp_path, models, "schemes", 'datasets=["Words"]')
    relations = made(tmp_path, models, "relations", 'datasets=["Pairs"]')
    assert len(jobs(layers, "Words")) == len(jobs(layers, "Pairs")) == 2 * 2
    assert jobs(schemes, "Words", "BIO") == jobs(layers, "Words", "linear")
    assert len(jobs(layers, "Words") | jobs(schemes, "Words")) == 2 * (2 + 2)
    assert jobs(relations, "Pairs", "dummies, first token") == jobs(layers, "Pairs", "linear")
    assert len(jobs(layers, "Pairs") | jobs(relations, "Pairs")) == 2 * (1 + 7)


def test_the_first_variant_is_the_reference_and_variants_are_chosen(models, tmp_path):
    usual = made(tmp_path, models, "relations", 'datasets=["Pairs"]')
    assert {each.references for each in usual.against} == {(("", "dummies, first token", "Pairs"),)}
    assert [each.key[1] for each in usual.against] == [cell.row for cell in usual.cells[1:]]
    chosen = made(tmp_path, models, "layers", 'datasets=["Words"]', 'variants=["CRF", "linear"]')
    assert [cell.row for cell in chosen.cells] == ["CRF", "linear"]
    [one] = chosen.against
    assert (one.key[1], one.references[0][1]) == ("linear", "CRF")


@pytest.mark.parametrize("vary", ["layers", "relations"])
def test_all_heads_of_a_table_have_one_linear_layer_and_no_pooler(vary, models):
    """Otherwise depth would differ with the encoding or layer that is compared."""
    for variant in choices.TABLES[vary].variants:
        stated = {name: variant.settings[name] for name in ("pooling", "sequence_layer") if name in variant.settings}
        model = load_classifier(models[0], ("heart", "orbit"), seed=0, **stated)
        inside = f"{model.base_model_prefix}.encoder."
        linear = [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
        assert [name for name in linear if not name.startswith(inside)] == ["classifier"], variant.name


def test_by_dataset_each_variant_has_the_settings_of_the_dataset(models, tmp_path, monkeypatch):
    rates = {"Words": 1e-3, "Texts": 2e-3}

    def settings_on(recipe, name):
        return replace(recipe.finetune, plan=replace(recipe.finetune.plan, rate=rates[name]))

    monkeypatch.setattr(choices, "settings_on", settings_on)
    recipe = settings.override(ChoicesRecipe(), ['datasets=["Words", "Texts"]', "by_dataset=true"])
    study = design(recipe, Inputs(tmp_path, models=models[:1], data=tmp_path))
    for cell in study.cells:
        for [job] in cell.costs["tuning"].values():
            assert job.settings["recipe"]["plan"]["rate"] == rates[cell.column]
    with pytest.raises(ValueError, match="by_dataset takes rate, batch and epochs from the recipes"):
        settings.override(ChoicesRecipe(), ["by_dataset=true", "finetune.epochs=3"])


def test_of_variants_that_do_not_differ_on_a_task_one_stands(models, tmp_path):
    found = made(tmp_path, models, "layers", 'datasets=["Texts"]', 'variants=["linear", "CRF", "BiLSTM"]')
    assert [cell.row for cell in found.cells] == ["linear", "BiLSTM"]


def test_a_dataset_on_which_nothing_differs_is_absent_or_refused_where_it_was_named(models, tmp_path, monkeypatch):
    paper = replace(choices.TABLES["layers"], datasets=("Texts", "Words"))
    monkeypatch.setattr(choices, "TABLES", {**choices.TABLES, "layers": paper})
    variants = 'variants=["linear", "CRF"]'
    found = made(tmp_path, models, "layers", variants)
    assert {cell.column for cell in found.cells} == {"Words"}
    assert found.absent["Texts"].startswith("linear, CRF do not apply to these datasets")
    with pytest.raises(ValueError, match="Texts: linear, CRF do not apply to these datasets"):
        made(tmp_path, models, "layers", variants, 'datasets=["Texts", "Words"]')
    with pytest.raises(ValueError, match="Texts: BIO, BIOUL, IO do not apply to these datasets"):
        made(tmp_path, models, "schemes", 'datasets=["Texts"]')


@pytest.fixture(scope="module")
def ran(models, tmp_path_factory) -> tuple[Path, Outcome, Design]:
    """Relations on the test set, with special tokens."""
    out = tmp_path_factory.mktemp("choices") / "run"
    out.mkdir()
    more = ('datasets=["Pairs"]', "special=true", "split=test", 'variants=["markers, starts", "original, mentions"]')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blurb, "DATASETS", CATALOGUE)
        design = made(out, models, "relations", *more)
        return out, run(design, out), design


def test_the_tokenizer_keeps_whole_what_the_form_writes(ran):
    out, outcome, design = ran
    assert not outcome.failed
    special = PAIRS.special_tokens("markers")
    assert special
    for cell in design.cells:
        row = cell.row
        [tuned] = cell.jobs_by_seed[0].needs.values()
        tokenizer = AutoTokenizer.from_pretrained(tuned.directory(out) / "checkpoint")
        whole = [token for token in special if tokenizer.tokenize(f"a {token} b").count(token) == 1]
        assert whole == (list(special) if row == "markers, starts" else [])
        assert tuple(tuned.settings["recipe"]["special_tokens"]) == (special if row == "markers, starts" else ())


def test_each_form_is_read_as_it_is_written(ran):
    _, _, design = ran
    texts = {cell.row: cell.task.examples("train")[0].text for cell in design.cells}
    assert "[E1] " in texts["markers, starts"]
    assert "[E1]" not in texts["original, mentions"]


def test_rows_that_contain_a_test_text_are_left_out_in_every_form(models, tmp_path):
    for leaks in ("keep", "drop"):
        (tmp_path / leaks).mkdir()
    kept, dropped = (
        made(tmp_path / leaks, models, "relations", 'datasets=["Pairs"]', f"leaks={leaks}")
        for leaks in ("keep", "drop")
    )
    original = next(cell.task for cell in kept.cells if cell.row == "original, mentions")
    sealed = {example.text for example in original.examples("test")}
    left = {example.id for example in original.examples("train") if example.text not in sealed}
    assert 0 < len(left) < original.sizes["train"]
    for cell in dropped.cells:
        assert {example.id for example in cell.task.examples("train")} <= left
    assert len({cell.task.sizes["train"] for cell in dropped.cells}) == 1
    assert "Rows of train and dev that contain a test text were removed." in dropped.notes


def test_layers_vary_on_a_labelled_file(models, toy_inputs, tmp_path):
    file = str(toy_inputs / "train.jsonl")
    found = made(tmp_path, models, "layers", f'datasets=["{file}"]', "max_tokens=32", 'variants=["BiLSTM", "linear"]')
    assert [(cell.row, cell.column, cell.task.max_tokens) for cell in found.cells] == [
        ("BiLSTM", "train", 32),
        ("linear", "train", 32),
    ]


def test_relations_of_a_labelled_file_are_refused(models, toy_inputs, tmp_path):
    with pytest.raises(ValueError, match="rewrites the texts of a relation, so it needs files with the"):
        made(tmp_path, models, "relations", f'datasets=["{toy_inputs / "train.jsonl"}"]')
