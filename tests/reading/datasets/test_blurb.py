"""The thirteen datasets of BLURB."""

from pathlib import Path

import pytest

from acclimate.core.types import SPLITS
from acclimate.reading.datasets.blurb import DATASETS, SEARCH
from acclimate.reading.datasets.catalogue import dataset_named
from acclimate.tasks.metrics import BLURB
from acclimate.tasks.task import checked_splits

DATA = Path(__file__).parents[4] / "shared" / "data" / "blurb"
# the paper's Table 3, typed off it: train, dev, test
TABLE_3 = {
    "BC5-chem": (5203, 5347, 5385),
    "BC5-disease": (4182, 4244, 4424),
    "NCBI-disease": (5134, 787, 960),
    "BC2GM": (15197, 3061, 6325),
    "JNLPBA": (46750, 4551, 8662),
    "EBM PICO": (339167, 85321, 16364),
    "ChemProt": (18035, 11268, 15745),
    "DDI": (22233, 5559, 5716),
    "GAD": (4261, 534, 535),
    "BIOSSES": (64, 16, 20),
    "HoC": (1295, 186, 371),
    "PubMedQA": (450, 50, 500),
    "BioASQ": (670, 75, 140),
}


def test_sizes_are_those_of_table_3():
    assert {each.name: tuple(each.sizes[split] for split in SPLITS) for each in DATASETS} == TABLE_3


def test_lengths_and_runs_are_those_of_the_paper():
    assert {each.name: each.max_tokens for each in DATASETS if each.type == "Relation Extraction"} == {
        "ChemProt": 256, "DDI": 256, "GAD": 128
    }  # fmt: skip
    assert {each.max_tokens for each in DATASETS if each.type == "Question Answering"} == {512}
    assert {each.name for each in DATASETS if each.runs == 10} == {"BIOSSES", "BioASQ", "PubMedQA"}
    assert {each.runs for each in DATASETS} == {5, 10}
    assert (SEARCH.rates, SEARCH.batches, SEARCH.epochs) == ((1e-5, 3e-5, 5e-5), (16, 32), (2, 60))


def test_metrics_judge_their_kind_and_every_dataset_has_one_type():
    assert all(each.kind in each.metric.kinds for each in DATASETS)
    assert {each.type for each in DATASETS} == set(BLURB)


def test_files_to_fetch_are_pinned_and_checked_and_nothing_of_bioasq_is_fetched():
    for dataset in DATASETS:
        for each in dataset.downloads:
            assert each.url.startswith("https://raw.githubusercontent.com/")
            assert len(each.url.split("/")[5]) == 40  # a commit
            assert len(each.sha256) == 64
            assert each.size > 0
        if dataset.name not in {"EBM PICO", "BioASQ"}:
            files = {each.path for each in dataset.downloads}
            assert files >= set(dataset.forms[0].files), dataset.name
    assert not dataset_named("BioASQ", DATASETS).downloads
    assert "registration" in dataset_named("BioASQ", DATASETS).obtain


def test_a_relation_is_read_in_each_encoding_with_the_tokens_that_it_writes():
    for name, dummies in (("ChemProt", {"@CHEMICAL$", "@GENE$", "@CHEM-GENE$"}), ("DDI", {"@DRUG$", "@DRUG-DRUG$"})):
        dataset = dataset_named(name, DATASETS)
        assert [form.name for form in dataset.forms] == ["dummies", "markers", "original", "dummified"]
        assert set(dataset.form("dummies").special) == dummies
        assert "[E1]" in dataset.form("markers").special
        assert dataset.form("original").special == ()


def test_the_files_of_blurbs_own_script_are_a_form(tmp_path):
    (tmp_path / "ddi").mkdir()
    labels = ("DDI-false", "DDI-effect", "DDI-mechanism", "DDI-advise", "DDI-int")
    for at, split in enumerate(SPLITS):
        rows = [f"DDI-MedLine.d{at}.s{row}.p0\t@DRUG$ and @DRUG$ .\t{label}\n" for row, label in enumerate(labels)]
        (tmp_path / "ddi" / f"{split}.tsv").write_text("".join(rows))
    dataset = dataset_named("DDI", DATASETS)
    assert dataset.form_in(tmp_path).name == "dummified"
    assert checked_splits(dataset.task(), tmp_path)["dev"][1].group == "DDI-MedLine.d1"


@pytest.mark.skipif(not DATA.exists(), reason="the datasets are not there")
@pytest.mark.parametrize("name", ["NCBI-disease", "GAD", "BIOSSES", "HoC", "PubMedQA", "BioASQ"])
def test_the_published_files_are_tasks(name):
    # sound labels, unique ids, no group in two splits, every label in train
    splits = checked_splits(dataset_named(name, DATASETS).task(), DATA)
    assert all(splits.values())


@pytest.mark.skipif(not DATA.exists(), reason="the datasets are not there")
def test_the_question_is_the_text_and_the_snippets_the_pair():
    read = dataset_named("BioASQ", DATASETS).task().read(DATA, "test")
    assert len(read) == 140
    assert all(each.text.endswith("?") or len(each.text) < len(each.pair) for each in read)
    pairs = dataset_named("BIOSSES", DATASETS).task().read(DATA, "train")
    assert all(0 <= each.label <= 4 for each in pairs)
