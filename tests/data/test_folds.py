import json
import random
from pathlib import Path

import pytest

import squad_files
import toys
from acclimate.core.types import SPLITS
from acclimate.data.doctor import examine
from acclimate.data.gather import Inputs, Raw
from acclimate.data.materials import Materials
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from toys import TOPICS, text


def written(place: Path, name: str, labels: list[str], **columns: list[str]) -> Path:
    generator = random.Random(name)
    texts = [text(random.Random(f"{name} {at}").choice([*TOPICS]), 14, generator) for at in range(len(labels))]
    rows = [
        {"text": texts[at], "label": label, **{column: values[at] for column, values in columns.items()}}
        for at, label in enumerate(labels)
    ]
    (place / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place / name


def folded(place: Path, labelled: LabelledFiles, *, folds: int = 3, domain: Path | None = None) -> Materials:
    place.mkdir(exist_ok=True)
    (place / "general.txt").write_text("a text of no task\n" * 5 + "another one\n" * 5)
    raw = Raw(general=place / "general.txt", domain=domain)
    return toys.gathered(Inputs(place / "run", labelled, raw), seeds=2, folds=folds)


@pytest.fixture(scope="module")
def of_one_file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Materials]:
    """30 rows in one file, three folds, twice; a domain of which every second document repeats a labelled text."""
    place = tmp_path_factory.mktemp("one")
    train = written(place, "train.jsonl", ["a", "b"] * 15, by=[f"author {at // 2}" for at in range(30)])
    texts = [json.loads(line)["text"] for line in train.read_text().splitlines()]
    lines = [each for at, repeated in enumerate(texts) for each in (repeated, f"the domain says {at} words of its own")]
    (place / "domain.txt").write_text("\n".join(lines) + "\n")
    return train, folded(place, LabelledFiles(train, group="by"), domain=place / "domain.txt")


def test_every_row_is_tested_once_a_repeat_by_models_that_did_not_see_it(of_one_file):
    train, materials = of_one_file
    texts = {json.loads(line)["text"] for line in train.read_text().splitlines()}
    assert [str(each.fold) for each in materials.folds[:4:3]] == ["repeat 1, fold 1", "repeat 2, fold 1"]
    tested: dict[int, list[str]] = {0: [], 1: []}
    for each in materials.folds:
        rows = {split: each.task.examples(split) for split in SPLITS}
        tested[each.fold.repeat] += [row.text for row in rows["test"]]
        assert {row.text for part in rows.values() for row in part} == texts
        groups = [{row.group for row in part} for part in rows.values()]
        assert not groups[0] & (groups[1] | groups[2])
        assert not groups[1] & groups[2]
        adapts_on = {document.text for document in each.task_text.documents()}
        assert adapts_on == {row.text for row in rows["train"]}
        assert not adapts_on & {row.text for row in rows["test"]}
    assert sorted(tested[0]) == sorted(tested[1]) == sorted(texts)
    first, again = ([row.id for row in materials.folds[at].task.examples("test")] for at in (0, 3))
    assert first != again
    assert (
        "The 30 labelled rows were divided into 3 folds, 2 times independently, stratified by label"
        in materials.notes[-1]
    )


def test_no_labelled_text_is_left_in_the_domain(of_one_file):
    train, materials = of_one_file
    texts = {json.loads(line)["text"] for line in train.read_text().splitlines()}
    left = {
        document.text for corpus in (materials.domain, materials.heldout) if corpus for document in corpus.documents()
    }
    assert left
    assert not left & texts
    assert materials.folds[0].domain == materials.domain


def test_a_given_test_set_stays_out_of_the_folds_and_sealed(tmp_path):
    files = {split: written(tmp_path, f"{split}.jsonl", ["a", "b"] * 6) for split in SPLITS}
    materials = folded(tmp_path, LabelledFiles(**files))
    sealed = {row.text for row in materials.task.examples("test")}
    for each in materials.folds:
        assert not sealed & {row.text for split in SPLITS for row in each.task.examples(split)}
    assert sum(each.task.sizes["test"] for each in materials.folds) == 2 * 24
    assert materials.task.looks() == []


def test_a_class_with_fewer_rows_than_folds_is_noted_and_one_with_in_one_group_refused(tmp_path):
    train = written(tmp_path, "train.jsonl", ["a", "b"] * 12 + ["rare", "rare"])
    assert ": fewer rows than folds, so some folds do" in folded(tmp_path, LabelledFiles(train)).notes[-1]
    groups = [f"author {at}" for at in range(24)] + ["the same"] * 2
    alone = written(tmp_path, "alone.jsonl", ["a", "b"] * 12 + ["alone", "alone"], by=groups)
    (tmp_path / "alone").mkdir()
    with pytest.raises(ValueError, match="all rows with the label 'alone' are in one fold"):
        folded(tmp_path / "alone", LabelledFiles(alone, group="by"))


def test_the_doctor_advises_folds_where_rows_are_few_and_counts_all_rows_with_them(tmp_path):
    read = read_files(LabelledFiles(written(tmp_path, "train.jsonl", ["a", "b"] * 60)))
    found, planned = examine(read, seeds=5), examine(read, seeds=5, folds=5)
    advice = "score all 120 labelled rows by cross-validation (race --folds 5, without --budget)"
    assert any(advice in each.way_out for each in found.findings)
    assert not any("--folds" in each.way_out for each in planned.findings)
    assert "The 120 labelled rows, scored in 5 folds, count as 96 test items." in planned.reach
    assert planned.detectable < found.detectable


def test_questions_of_one_article_are_in_one_fold(tmp_path):
    titles = ["heart", "lung", "liver", "spleen"]
    train = squad_files.write(tmp_path / "asked.json", [squad_files.article(title, 4) for title in titles])
    materials = folded(tmp_path, LabelledFiles(train))
    for each in materials.folds:
        tested, others = (
            {row.id.split("-")[0] for split in splits for row in each.task.examples(split)}
            for splits in (("test",), ("train", "dev"))
        )
        assert tested.isdisjoint(others)
    assert "All questions of one of the 4 articles are in one fold." in materials.notes[-1]
    torn = folded(tmp_path / "more", LabelledFiles(train), folds=5)
    assert "There are fewer articles (4) than folds" in torn.notes[-1]
