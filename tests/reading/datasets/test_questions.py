"""SQuAD 1.1 and BioASQ factoid as the catalogue has them, on the published files where they are."""

import json
import zipfile
from pathlib import Path

import pytest

from acclimate.reading.datasets.questions import (
    BIOASQ,
    DATASETS,
    GOLDEN,
    NEW_WIKIPEDIA,
    SQUAD,
    SQUAD_TEST,
    SQUAD_TRAIN,
    TEST,
)
from acclimate.tasks.spans import PASSAGE
from acclimate.tasks.task import checked_splits

QA = Path(__file__).parents[4] / "shared" / "data" / "qa"


@pytest.fixture
def squad(tmp_path: Path) -> Path:
    """A catalogue's folder with twenty articles to train on and two to test with, two questions each."""
    folder = tmp_path / SQUAD.folder
    (folder / "squad1.1").mkdir(parents=True)
    for name, titles in ((SQUAD_TRAIN, range(20)), (SQUAD_TEST, range(20, 22))):
        articles = []
        for title in titles:
            answers = [{"text": str(title), "answer_start": 8}]
            questions = [{"id": f"{title}-{each}", "question": "Which?", "answers": answers} for each in (1, 2)]
            articles.append({"title": f"t{title}", "paragraphs": [{"context": f"Article {title}.", "qas": questions}]})
        (folder / name).write_text(json.dumps({"data": articles}))
    return tmp_path


def test_a_tenth_of_the_articles_is_dev_and_no_article_stands_in_two_splits(squad):
    splits = checked_splits(SQUAD.task(), squad)
    assert {split: len(examples) for split, examples in splits.items()} == {"train": 36, "dev": 4, "test": 4}
    groups = [{example.group for example in examples} for examples in splits.values()]
    assert not groups[0] & groups[1]
    assert groups[2] == {"t20", "t21"}


def test_the_new_wikipedia_stands_in_where_the_training_file_is_wanting(squad):
    folder = squad / SQUAD.folder
    (folder / NEW_WIKIPEDIA).parent.mkdir()
    (folder / SQUAD_TRAIN).rename(folder / NEW_WIKIPEDIA)
    with zipfile.ZipFile(folder / f"{SQUAD_TEST}.zip", "w") as archive:
        archive.write(folder / SQUAD_TEST, "dev-v1.1.json")
    (folder / SQUAD_TEST).unlink()
    assert SQUAD.form_in(squad).name == "new Wikipedia"
    assert "not to be compared" in SQUAD.form_in(squad).note
    splits = checked_splits(SQUAD.task(), squad)
    assert {split: len(examples) for split, examples in splits.items()} == {"train": 36, "dev": 4, "test": 4}


def test_a_missing_file_is_named_with_the_way_out(tmp_path):
    with pytest.raises(ValueError, match=r"BioASQ 5b factoid: there is no folder .*bioasq.*registration"):
        BIOASQ.form_in(tmp_path)
    (tmp_path / BIOASQ.folder).mkdir(parents=True)
    with pytest.raises(ValueError, match=r"BioASQ 5b factoid: .* has no BioASQ-train-factoid-5b.json.*registration"):
        BIOASQ.form_in(tmp_path)


def test_datasets_say_what_they_are():
    assert {dataset.name: dict(dataset.sizes) for dataset in DATASETS} == {
        "SQuAD 1.1": {"train": 87_599, "test": 10_570},
        "BioASQ 5b factoid": {"train": 4_950, "test": 150},
    }
    assert all(dataset.metric.kinds == (dataset.kind,) == ("span",) for dataset in DATASETS)


@pytest.mark.skipif(not QA.exists(), reason="the published files are not here")
def test_bioasq_is_trained_on_pairs_and_scored_on_questions(tmp_path):
    folder = tmp_path / BIOASQ.folder
    folder.mkdir(parents=True)
    for name in ("derived_train_excl5B.json", TEST, GOLDEN):
        (folder / f"{name}.gz").symlink_to(QA / "bioasq" / f"{name}.gz")
    form = BIOASQ.form_in(tmp_path)
    splits = checked_splits(BIOASQ.task(), tmp_path)
    assert len(splits["train"]) == 3_962
    assert sum(1 for _ in form.undivided(folder)) == form.differences[0].count == 4_337
    assert [len({example.group for example in splits[split]}) for split in ("train", "dev", "test")] == [601, 66, 150]
    assert (len(splits["dev"]), len(splits["test"])) == (66, 150)
    assert sum(example.text.count(PASSAGE) + 1 for example in splits["test"]) <= 495
    assert all(example.text[start:end] in example.label for example in splits["dev"] for start, end in example.spans)


@pytest.mark.skipif(not QA.exists(), reason="the published files are not here")
def test_the_official_dev_set_is_the_test_and_the_new_wikipedia_has_its_published_size():
    assert len(SQUAD.rows(QA.parent, "test")[0]) == SQUAD.sizes["test"] == 10_570
    train, dev = (SQUAD.rows(QA.parent, split)[0] for split in ("train", "dev"))
    assert len(train) + len(dev) == SQUAD.form_in(QA.parent).differences[0].count
