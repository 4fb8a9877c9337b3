"""The studies of BLURB's model choices on made-up words: what varies, what is shared, and what is written."""

from __future__ import annotations

import csv
import random
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from acclimate import cli
from acclimate.core import files, settings
from acclimate.core.types import Example
from acclimate.data.materials import Materials
from acclimate.methods import finetune
from acclimate.models.encoder import new_encoder, save_model
from acclimate.race.outcome import SCORES
from acclimate.studies import choices
from acclimate.studies.choices import STUDIES, ChoicesRecipe, plan, run_on_catalogue, run_on_task
from acclimate.tasks.datasets import blurb
from acclimate.tasks.datasets.catalogue import Dataset, Form
from acclimate.tasks.formats.annotated import Annotated, Mention
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.prepared import prepare
from acclimate.tasks.relations import Pairs, relation_examples
from acclimate.text.corpus import write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.vocabulary import train_tokenizer
from toys import PLAIN, TOPICS

SIZES = {"train": 24, "dev": 16, "test": 12}
PAIRS = Pairs(("word",), ("word",), ("WORD", "WORD"), "WORDS")
SMALL = ("seeds=2", *(f"finetune.{setting}" for setting in ("looks=1", "epochs=0.0", "plan.steps=2", "plan.batch=8")))


def tagged(_: Path, split: str):
    generator = random.Random(split)
    for number in range(SIZES[split]):
        words = [(generator.choice(PLAIN), "O") for _ in range(4)]
        words += [(generator.choice(TOPICS["heart"]), tag) for tag in ("B-heart", "I-heart", "B-heart")]
        texts, tags = zip(*words, strict=True)
        yield Example(f"{split}-{number}", " ".join(texts), tags)


def related(encoding: str, _: Path, split: str):
    generator = random.Random(split)
    for number in range(SIZES[split]):
        label = ("heart", "orbit")[number % 2]
        one, other = (generator.choice(TOPICS[label]) for _ in range(2))
        text = f"the {one} of {other} was"
        spans = (4, 4 + len(one)), (8 + len(one), 8 + len(one) + len(other))
        mentions = tuple(Mention(str(place), "word", (span,)) for place, span in enumerate(spans))
        document = Annotated(f"{split}-{number}", text, mentions, (), "made:1")
        yield from relation_examples([document], PAIRS, labels={}, negative=label, encoding=encoding)


def classified(_: Path, split: str):
    for example in related("original", _, split):
        yield replace(example, spans=())


def dataset(name: str, kind: str, labels: tuple[str, ...], metric: str, forms: tuple[Form, ...]) -> Dataset:
    about = {"averaging": "", "counted": "instances", "sizes": {}, "citation": "Made up.", "licence": "none"}
    return Dataset(name, kind, name.lower(), kind, labels, METRICS[metric], max_tokens=32, forms=forms, **about)


ENCODINGS = ("dummies", "markers", "original")
FORMS = tuple(
    Form(own, (), partial(related, own), special=PAIRS.special_tokens(own) if own != "original" else ())
    for own in ENCODINGS
)
CATALOGUE = (
    dataset("Words", "tokens", ("B-heart", "I-heart", "O"), "entity_f1", (Form("made up", (), tagged),)),
    dataset("Pairs", "sequence", ("heart", "orbit"), "accuracy", FORMS),
    dataset("Texts", "sequence", ("heart", "orbit"), "accuracy", (Form("made up", (), classified),)),
)


def stated(*more: str) -> ChoicesRecipe:
    return settings.override(ChoicesRecipe(), [*SMALL, *more])


def names(place: Path) -> list[str]:
    return sorted(path.parent.name.rsplit("-", 1)[0] for path in place.glob("jobs/*/result.json"))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, toy_inputs):
    place = tmp_path_factory.mktemp("encoder")
    tokenizer = train_tokenizer(write_corpus(read_documents(toy_inputs / "domain.txt"), place / "corpus"), size=200)
    shape = {"layers": 1, "hidden": 16, "heads": 2, "vocabulary_size": 200, "longest": 48}
    save_model(new_encoder(**shape, pad=tokenizer.pad_token_id, seed=0), tokenizer, place / "encoder")
    return place / "encoder"


@pytest.fixture(scope="module")
def run(encoder, tmp_path_factory):
    """All three studies in one directory, and the jobs that were there after each."""
    out, there = tmp_path_factory.mktemp("choices"), {}
    for study, own in (("layers", ["Words", "Pairs", "Texts"]), ("schemes", ["Words"]), ("relations", ["Pairs"])):
        recipe = replace(stated(), datasets=tuple(own))
        there[study] = run_on_catalogue(study, recipe, [str(encoder)], Path(), out, datasets=CATALOGUE)
        there[study, "jobs"] = {own.name: names(out / own.folder) for own in CATALOGUE}
    return out, there


def test_the_studies_are_the_papers_tables():
    known = {own.name for own in blurb.DATASETS}
    assert all(set(study.datasets) <= known for study in STUDIES.values())
    named = {study: [own.name for own in ChoicesRecipe().chosen(study)] for study in STUDIES}
    assert named["layers"] == ["linear", "BiLSTM"]
    assert named["schemes"] == ["BIO", "BIOUL", "IO"]
    assert len(named["relations"]) == 7
    for study in STUDIES.values():
        for variant in study.variants:
            replace(finetune.FinetuneRecipe(), **variant.settings)
    assert STUDIES["relations"].variants[0].settings == {"pooling": "first"}


def test_what_two_studies_share_is_done_once(run):
    _, there = run
    assert len(there["layers", "jobs"]["Words"]) == 2 * 2
    assert len(there["schemes", "jobs"]["Words"]) == 2 * (2 + 2)  # BIO is what the linear layer had
    assert len(there["layers", "jobs"]["Pairs"]) == 2 * 2
    assert len(there["relations", "jobs"]["Pairs"]) == 2 * (1 + 7)  # dummies and the first token are the linear layer's


def test_the_same_command_again_does_nothing(run, encoder):
    out, there = run
    before = {path: path.stat().st_mtime_ns for path in out.rglob("result.json")}
    again = run_on_catalogue(
        "schemes", replace(stated(), datasets=("Words",)), [str(encoder)], Path(), out, datasets=CATALOGUE
    )
    assert again == there["schemes"]
    assert {path: path.stat().st_mtime_ns for path in out.rglob("result.json")} == before


def test_the_plan_counts_what_is_left(run, encoder, tmp_path):
    out, _ = run
    given = ("relations", replace(stated(), datasets=("Pairs",)), [str(encoder)], Path())
    [done] = plan(*given, out, datasets=CATALOGUE).cells
    assert (done.settings, done.seeds, done.tunings) == (7, 2, 0)
    left = plan(*given, tmp_path, datasets=CATALOGUE)
    assert [cell.tunings for cell in left.cells] == [14]
    assert left.seconds > 0
    assert "acclimate study choices relations, still to do" in left.as_text()
    assert not [*tmp_path.iterdir()]


def test_each_study_writes_its_own_files_and_names_what_was_scored(run):
    out, there = run
    assert not (out / SCORES).exists()
    for study in STUDIES:
        found = there[study]
        assert (out / f"{study}.txt").read_text() == found.text
        scores = files.read_json(out / f"{study}.scores.json")
        assert len(scores) == 2 * sum(len(own.variants) for own in found.found)
        assert {score["split"] for score in scores} == {"dev"}
        assert {score["model"] for score in scores} == {"encoder"} or len({score["model"] for score in scores}) == 1
        assert not [key for score in scores for key in ("test", "dev", "contestant") if key in score]
        lines = list(csv.DictReader((out / f"{study}.csv").read_text().splitlines()))
        assert [(line["task"], line["contestant"]) for line in lines] == [
            (own.dataset, row.contestant) for own in found.found for row in own.rows
        ]
        for line in lines:
            own = [one for one in scores if (one["task"], one["variant"]) == (line["task"], line["contestant"])]
            assert float(line["mean"]) == pytest.approx(sum(score["score"] for score in own) / 2)
            assert line["train_rows"] == "24"
    assert not list(out.rglob("looks.jsonl"))


def test_the_standard_is_what_the_others_are_compared_with(run):
    _, there = run
    for study, first in (("layers", "linear"), ("schemes", "BIO"), ("relations", "dummies, first token")):
        for own in there[study].found:
            assert own.rows[0].contestant == own.variants[0] == first
            assert own.rows[0].comparison is None
            assert all(row.comparison is not None for row in own.rows[1:])
    assert "Texts (accuracy)" in there["layers"].text
    assert "Words, 24 training examples" in there["layers"].text
    assert "2 seeds hardly tell their luck" in there["layers"].text


def test_entities_that_io_makes_one_are_wrong_against_the_given_tags(run):
    """Of each made-up text the two entities touch: whoever tags in IO predicts at most one where there are two."""
    out, _ = run
    scores = files.read_json(out / "schemes.scores.json")
    tags = {own: {tag for score in scores if score["variant"] == own for row in score["predicted"] for tag in row}
            for own in ("BIO", "BIOUL", "IO")}  # fmt: skip
    assert all(seen <= {"O", "B-heart", "I-heart"} for seen in tags.values())
    assert {tag for score in scores for row in score["gold"] for tag in row} == {"O", "B-heart", "I-heart"}


def test_variants_are_chosen_and_the_first_is_the_reference(encoder, tmp_path):
    recipe = stated('datasets=["Words"]', 'variants=["CRF", "linear"]')
    found = run_on_catalogue("layers", recipe, [str(encoder)], Path(), tmp_path, datasets=CATALOGUE)
    assert [row.contestant for row in found.found[0].rows] == ["CRF", "linear"]
    assert sum("tag-layer-crf-seed" in name for name in names(tmp_path / "words")) == 2


def test_a_layer_of_tags_is_left_out_where_there_are_none(encoder, tmp_path):
    recipe = stated('datasets=["Texts"]', 'variants=["linear", "CRF", "BiLSTM"]')
    found = run_on_catalogue("layers", recipe, [str(encoder)], Path(), tmp_path, datasets=CATALOGUE)
    assert found.found[0].variants == ("linear", "BiLSTM")
    assert "CRF" not in found.text


def test_a_dataset_on_which_nothing_differs_is_left_out_before_anything_is_trained(encoder, tmp_path, monkeypatch):
    paper = replace(STUDIES["layers"], datasets=("Texts", "Words"))
    monkeypatch.setattr(choices, "STUDIES", {**STUDIES, "layers": paper})
    recipe = stated('variants=["linear", "CRF"]')
    found = run_on_catalogue("layers", recipe, [str(encoder)], Path(), tmp_path, datasets=CATALOGUE)
    assert [compared.dataset for compared in found.found] == ["Words"]
    assert "Texts: linear, CRF come to the same there" in found.absent["Texts"]
    assert names(tmp_path / "texts") == []


def test_special_tokens_are_those_of_each_form(encoder, tmp_path):
    recipe = stated('datasets=["Pairs"]', "special=true", 'variants=["markers, starts", "original, mentions"]')
    run_on_catalogue("relations", recipe, [str(encoder)], Path(), tmp_path, datasets=CATALOGUE)
    told = {
        path.parent.name.split("-")[3]: files.read_json(path)["settings"]["recipe"]["special_tokens"]
        for path in tmp_path.rglob("job.json")
    }
    assert told == {"markers": list(PAIRS.special_tokens("markers")), "original": []}


def test_on_the_test_set_each_run_looks_once(encoder, tmp_path):
    recipe = stated('datasets=["Texts"]', "split=test")
    for _ in range(2):
        run_on_catalogue("layers", recipe, [str(encoder)], Path(), tmp_path, datasets=CATALOGUE)
    looks = (tmp_path / "texts" / "looks.jsonl").read_text().splitlines()
    assert len(looks) == 2 * 2
    scores = files.read_json(tmp_path / "layers.scores.json")
    assert {(score["split"], len(score["gold"])) for score in scores} == {("test", SIZES["test"])}
    assert all("dev" in score for score in scores)


def test_a_task_of_a_users_own(encoder, tmp_path):
    words, texts = (prepare(CATALOGUE[at].task(), Path(), tmp_path / str(at)) for at in (0, 2))
    materials = Materials(task=words, model=str(encoder))
    stages = set()
    found = run_on_task("schemes", stated(), materials, tmp_path / "out", watch=lambda told: stages.add(told.stage))
    assert stages
    assert all(f"fine-tune {encoder.name}" in stage for stage in stages)  # and not the hash that jobs are called by
    assert found.found[0].variants == ("BIO", "BIOUL", "IO")
    assert (tmp_path / "out" / "schemes.txt").read_text() == found.text
    other = replace(materials, task=texts)
    assert run_on_task("layers", stated(), other, tmp_path / "other").found[0].variants == ("linear", "BiLSTM")
    with pytest.raises(ValueError, match="Texts: BIO, BIOUL, IO come to the same there"):
        run_on_task("schemes", stated(), other, tmp_path / "other")
    with pytest.raises(ValueError, match="give a catalogue's folder with --data"):
        run_on_task("relations", stated(), materials, tmp_path / "out")
    with pytest.raises(ValueError, match="rows is for the datasets of a catalogue"):
        run_on_task("layers", stated("rows=9"), materials, tmp_path / "out")


@pytest.mark.parametrize(
    ("study", "more", "message"),
    [
        ("layer", (), "no study is called 'layer'. Known: layers, schemes, relations"),
        ("layers", ('variants=["linear", "LSTM"]',), "'LSTM' is not one of linear, BiLSTM, CRF, BiLSTM-CRF"),
        ("layers", ('variants=["BiLSTM"]',), "'BiLSTM' alone is compared with nothing"),
        ("schemes", ('datasets=["Texts"]',), "Texts: BIO, BIOUL, IO come to the same there"),
        ("layers", ('datasets=["Word"]',), "no dataset is called 'Word'"),
    ],
)
def test_what_cannot_be_done_is_told(study, more, message, encoder, tmp_path):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        run_on_catalogue(study, stated(*more), [str(encoder)], Path(), tmp_path, datasets=CATALOGUE)


def test_datasets_that_are_not_there_are_told(encoder, tmp_path):
    with pytest.raises(ValueError, match=r"none of the datasets is there\. The first: BC5-chem"):
        run_on_catalogue("layers", stated(), [str(encoder)], tmp_path, tmp_path / "out")


def test_one_seed_is_refused():
    with pytest.raises(ValueError, match="one seed says nothing about chance"):
        replace(ChoicesRecipe(), seeds=1)


def test_the_verb_takes_models_with_a_folder(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(choices.run_on_catalogue, "__kwdefaults__", {"datasets": CATALOGUE, "watch": lambda _: None})

    def verb(*given: str) -> tuple[int, str]:
        done = CliRunner().invoke(cli.app, ["study", "choices", *given, *SMALL, "--out", str(tmp_path / "out")])
        return done.exit_code, done.output

    code, said = verb("vary=layers", str(encoder), 'datasets=["Texts"]', "--data", str(tmp_path))
    assert code == 0, said
    assert "As Table 10 of Gu et al. (2021)" in said
