"""The eight classification tasks of TLM as values, as blurb.py has those of BLURB.

Yao et al., "NLP From Scratch Without Large-Scale Pretraining", ICML 2022, has the tasks and splits of Gururangan et
al., "Don't Stop Pretraining", ACL 2020 (its Table 2 has the sizes): micro-F1 for ChemProt and RCT, macro-F1 for the
others. Texts are cut at 128 tokens, IMDB's at 512.

The catalogue's folder holds those of dga.py and glue.py as well: DIR/tlm/..., DIR/dga/..., DIR/glue/...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from acclimate.core.types import Example, Split
from acclimate.reading.datasets.catalogue import (
    Dataset,
    Difference,
    ExamplesRead,
    FileReader,
    Form,
    cut_form,
    file_in,
    held_back,
    split_form,
)
from acclimate.reading.formats import xml
from acclimate.reading.formats.delimited import abstract_sentences, delimited_examples, jsonl_examples, one_of
from acclimate.tasks.metrics import METRICS

TABLE = "Table 2 of Gururangan et al. (2020)"
JSONL: dict[Split, str] = {"train": "train.jsonl", "dev": "dev.jsonl", "test": "test.jsonl"}
DAPT = "Its splits are linked from https://github.com/allenai/dont-stop-pretraining"
FREE = "Apache-2.0 (the files); the corpus has its own terms"

ACL_LABELS = ("Background", "CompareOrContrast", "Extends", "Future", "Motivation", "Uses")
AI_LABELS = ("COMPARE", "CONJUNCTION", "EVALUATE-FOR", "FEATURE-OF", "HYPONYM-OF", "PART-OF", "USED-FOR")
PROTEIN_LABELS = (
    "ACTIVATOR", "AGONIST", "AGONIST-ACTIVATOR", "AGONIST-INHIBITOR", "ANTAGONIST", "DOWNREGULATOR",
    "INDIRECT-DOWNREGULATOR", "INDIRECT-UPREGULATOR", "INHIBITOR", "PRODUCT-OF", "SUBSTRATE", "SUBSTRATE_PRODUCT-OF",
    "UPREGULATOR",
)  # fmt: skip
RCT_LABELS = ("BACKGROUND", "OBJECTIVE", "METHODS", "RESULTS", "CONCLUSIONS")
NEWS_LABELS = ("World", "Sports", "Business", "Sci/Tech")


def _lines(labels: Sequence[str]) -> FileReader:
    return partial(jsonl_examples, label_of=one_of(labels))


def _joined(path: Path, split: Split, *, member: str = "", columns: Sequence[str] = ()) -> ExamplesRead:
    """AG News: title and description are one text, as in DAPT's files; classes are numbers."""
    rows = delimited_examples(
        path,
        split,
        columns=columns,
        member=member,
        comma=True,
        text="title",
        pair="description",
        label="class_index",
        label_of=one_of({str(at): name for at, name in enumerate(NEWS_LABELS, 1)}),
    )
    for row in rows:
        yield replace(row, text=f"{row.text} {row.pair}", pair=None) if isinstance(row, Example) else row


def _news(folder: Path, split: Split) -> ExamplesRead:
    columns = ("class_index", "title", "description")
    if split == "test":
        yield from _joined(file_in(folder, "test.csv"), split, columns=columns)
        return
    train_rows, back = held_back(_joined(folder / "train_part_b_jatin.zip", "train", member="train.csv"), 1000)
    yield from train_rows if split == "train" else back


def _partisan(folder: Path, split: Split) -> ExamplesRead:
    """Yield the articles in three: 65 of test, 65 of dev, the others of train."""
    train_rows, test = held_back(xml.hyperpartisan_examples(folder), 65)
    train_rows, dev = held_back(train_rows, 65)
    yield from train_rows if split == "train" else dev if split == "dev" else test


def _tlm(
    name: str,
    folder: str,
    labels: tuple[str, ...],
    counts: tuple[int, int, int],
    forms: tuple[Form, ...],
    *,
    citation: str,
    licence: str,
    obtain: str = DAPT,
    micro: bool = False,
) -> Dataset:
    return Dataset(
        name=name,
        type="classification",
        folder=f"tlm/{folder}" if folder else "tlm",
        kind="sequence",
        labels=labels,
        metric=METRICS["micro_f1" if micro else "macro_f1"],
        max_tokens=512 if name == "IMDB" else 128,
        counted="instances",
        sizes=dict(zip(("train", "dev", "test"), counts, strict=True)),
        forms=forms,
        citation=citation,
        licence=licence,
        obtain=obtain,
        runs=3,
    )


_ABSTRACTS = "rct_substitutes/pmc_structured_abstracts"
_STAND_IN = "structured abstracts of PubMed Central, not RCT-20k"
_PART = "5,000 of 30,000 training texts per class"
DATASETS: tuple[Dataset, ...] = (
    _tlm(
        "ChemProt-13",
        "chemprot_13class",
        PROTEIN_LABELS,
        (4169, 2427, 3469),
        (split_form("published", JSONL, _lines(PROTEIN_LABELS)),),
        citation="Kringelum et al., Database 2016; files of Beltagy et al. (SciBERT), 2019.",
        licence=FREE,
        micro=True,
    ),
    _tlm(
        "RCT",
        "",
        RCT_LABELS,
        (180040, 30212, 30135),
        (
            split_form("published", {split: f"rct-20k/{name}" for split, name in JSONL.items()}, _lines(RCT_LABELS)),
            split_form(
                "PMC abstracts",
                {split: f"{_ABSTRACTS}/{name}" for split, name in JSONL.items()},
                partial(abstract_sentences, label_of=one_of(RCT_LABELS)),
                note="A stand-in with the same five labels. Scores are not to be compared with the paper's.",
                differences=(
                    Difference("train", 17345, _STAND_IN),
                    Difference("dev", 4168, _STAND_IN),
                    Difference("test", 4089, _STAND_IN),
                ),
            ),
        ),
        citation="Dernoncourt and Lee, IJCNLP 2017.",
        licence="none stated",
        micro=True,
    ),
    _tlm(
        "ACL-ARC",
        "acl_arc",
        ACL_LABELS,
        (1688, 114, 139),
        (
            split_form(
                "published",
                JSONL,
                _lines(ACL_LABELS),
                note="52 of the 139 test texts occur verbatim in train, 47 of them with their label.",
            ),
        ),
        citation="Jurgens et al., TACL 2018; files of Beltagy et al. (SciBERT), 2019.",
        licence=FREE,
    ),
    _tlm(
        "SciERC",
        "scierc_relation",
        AI_LABELS,
        (3219, 455, 974),
        (split_form("published", JSONL, _lines(AI_LABELS)),),
        citation="Luan et al., EMNLP 2018; files of Beltagy et al. (SciBERT), 2019.",
        licence=FREE,
    ),
    _tlm(
        "HyperPartisan",
        "hyperpartisan",
        xml.CLASSES,
        (515, 65, 65),
        (
            Form(
                "by article",
                (xml.ARTICLES, xml.LABELS),
                _partisan,
                note="All 645 articles, cut by the hash of their ids: the paper's test articles are unknown.",
            ),
        ),
        citation="Kiesel et al., SemEval 2019.",
        licence="CC BY 4.0",
    ),
    _tlm(
        "AGNews",
        "agnews",
        NEWS_LABELS,
        (115000, 5000, 7600),
        (
            cut_form(
                "published",
                train="train.csv",
                test="test.csv",
                reader=partial(_joined, columns=("class_index", "title", "description")),
                count=5000,
                note="Dev is drawn from train by hash: which 5,000 texts the paper took is not known.",
            ),
            Form(
                "part",
                ("train_part_b_jatin.zip", "test.csv"),
                _news,
                note="A sixth of the published training texts. Scores are not to be compared with the paper's.",
                differences=(Difference("train", 19000, _PART), Difference("dev", 1000, _PART)),
            ),
        ),
        citation="Zhang, Zhao and LeCun, NeurIPS 2015.",
        licence="any non-commercial activity",
    ),
    _tlm(
        "Helpfulness",
        "helpfulness",
        ("helpful", "unhelpful"),
        (115251, 5000, 25000),
        (split_form("published", JSONL, _lines(("helpful", "unhelpful"))),),
        citation="McAuley et al., SIGIR 2015.",
        licence="none stated",
    ),
    _tlm(
        "IMDB",
        "imdb",
        ("neg", "pos"),
        (20000, 5000, 25000),
        (
            cut_form(
                "published",
                train="train.jsonl",
                test="test.jsonl",
                reader=_lines(("neg", "pos")),
                count=5000,
                note="Dev is drawn from train by hash: which 5,000 texts the paper took is not known.",
            ),
        ),
        citation="Maas et al., ACL 2011.",
        licence="none stated",
    ),
)
