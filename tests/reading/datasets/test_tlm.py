"""The classification tasks of TLM, DGA and GLUE: their sizes, and DGA's re-partition."""

import json
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from acclimate.reading.datasets import dga, glue, tlm
from acclimate.reading.datasets.catalogue import dataset_named, file_in
from acclimate.reading.datasets.dga import repartitioned
from acclimate.reading.formats.delimited import jsonl_examples, one_of
from acclimate.tasks.task import checked_splits
from acclimate.text.untrusted import text_lines

DATA = Path(__file__).parents[4] / "shared" / "data"
there = pytest.mark.skipif(not DATA.exists(), reason="the datasets are not there")
SPLITS = ("train", "dev", "test")


def test_there_are_eight_of_tlm_six_of_dga_and_eight_of_glue_with_mnli_twice():
    catalogues = (tlm.DATASETS, dga.DATASETS, glue.DATASETS)
    assert [len(each) for each in catalogues] == [8, 6, 9]
    assert all(each.kind in each.metric.kinds for datasets in catalogues for each in datasets)
    micro = {each.name for each in (*tlm.DATASETS, *dga.DATASETS) if each.metric.name == "micro_f1"}
    assert micro == {"ChemProt-13", "RCT", "PubMed"}


def test_a_repartition_moves_the_first_of_each_class(tmp_path):
    labels = "aabbabbbbb"
    for split, rows in (("train", labels), ("dev", "a"), ("test", "b")):
        lines = [json.dumps({"text": f"{split} {at}", "label": label}) for at, label in enumerate(rows)]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    reader = partial(jsonl_examples, label_of=one_of("ab"))

    def read(folder, split):
        return reader(file_in(folder, f"{split}.jsonl"), split)

    # ten examples of two classes, .6 stay: of each class the first 10 * .4 / 2 = 2 go
    found = {split: [row.text for row in repartitioned(read, 0.6, tmp_path, split)] for split in SPLITS}
    assert found["test"] == ["train 0", "train 1", "train 2", "train 3", "dev 0", "test 0"]
    assert sorted([*found["train"], *found["dev"]]) == [f"train {at}" for at in range(4, 10)]


@there
@pytest.mark.parametrize(("name", "path"), [("ACL", "acl"), ("AI", "ai"), ("PubMed", "pubmed")])
def test_the_repartition_is_what_was_derived_before(name, path):
    task = dataset_named(name, dga.DATASETS).task()
    read = {split: [(each.text, each.label) for each in task.read(DATA, split)] for split in SPLITS}
    for split, found in (("train", read["train"] + read["dev"]), ("test", read["test"])):
        lines = text_lines(file_in(DATA / "dga" / path, f"{split}.jsonl"))
        assert Counter(found) == Counter(
            (values["text"].strip(), values["label"]) for values in (json.loads(line) for _, line in lines)
        )


@there
def test_six_classes_of_dgas_pubmed_cannot_be_learnt_and_are_scored_nevertheless():
    dataset = dataset_named("PubMed", dga.DATASETS)
    task = dataset.task()
    splits = checked_splits(task, DATA)
    taught = {each.label for each in splits["train"]}
    assert set(task.labels) - taught == set(task.untaught) == set(dga.UNTAUGHT)
    gold = [each.label for each in splits["test"]]
    assert sum(label not in taught for label in gold) == 852
    at_best = [label if label in taught else "INHIBITOR" for label in gold]
    assert 0.8848 < task.metric.compute(gold, at_best) < 0.885
    assert "no micro-F1 above 88.5" in dataset.forms[0].note
    with pytest.raises(ValueError, match="no example has 'AGONIST', 'AGONIST-ACTIVATOR'"):
        checked_splits(replace(task, untaught=()), DATA)


@there
@pytest.mark.parametrize("name", ["ChemProt-13", "ACL-ARC", "SciERC"])
def test_tlm_counts_are_exact(name):
    dataset = dataset_named(name, tlm.DATASETS)
    assert {split: len(rows) for split, rows in checked_splits(dataset.task(), DATA).items()} == dataset.sizes


@there
@pytest.mark.parametrize("name", ["CoLA", "RTE", "STS-B"])
def test_glue_counts_are_exact(name):
    dataset = dataset_named(name, glue.DATASETS)
    splits = checked_splits(dataset.task(), DATA)
    found = {split: len(rows) for split, rows in splits.items()}
    if "dev" not in dataset.sizes:
        found["train"] += found.pop("dev")
    assert found == dataset.sizes


def test_mnli_is_tested_on_both_dev_files_with_the_same_train_and_dev(tmp_path):
    """By GLUE's header lines, on made-up rows: no file of MNLI was at hand."""
    folder, head = tmp_path / "glue" / "mnli", "index\tsentence1\tsentence2\tgold_label\n"
    folder.mkdir(parents=True)
    for name, rows in (("train", 40), ("dev_matched", 3), ("dev_mismatched", 5)):
        lines = [f"{at}\t{name} {at}\tso {at}\t{('neutral', 'entailment')[at % 2]}\n" for at in range(rows)]
        (folder / f"{name}.tsv").write_text(head + "".join(lines), encoding="utf-8")
    read = {
        name: {split: dataset_named(name, glue.DATASETS).rows(tmp_path, split)[0] for split in SPLITS}
        for name in ("MNLI", "MNLI-mm")
    }
    assert read["MNLI"]["train"] == read["MNLI-mm"]["train"]
    assert read["MNLI"]["dev"] == read["MNLI-mm"]["dev"]
    assert [row.text for row in read["MNLI"]["test"]] == [f"dev_matched {at}" for at in range(3)]
    assert [row.text for row in read["MNLI-mm"]["test"]] == [f"dev_mismatched {at}" for at in range(5)]
    assert read["MNLI-mm"]["test"][0].pair == "so 0"


@there
def test_news_are_title_and_description_in_one_text():
    test = dataset_named("AGNews", tlm.DATASETS).task().read(DATA, "test")
    assert len(test) == 7600
    assert test[0].text.startswith("Fears for T N pension after talks Unions representing workers at Turner")
    assert test[0].label == "Business"
    assert test[0].pair is None
