"""Question answering whose answers are spans, the tasks of TAPTER: SQuAD 1.1 and BioASQ's factoid questions.

Kosuke Nishida, Kyosuke Nishida and Sen Yoshida, "Task-adaptive Pre-training of Language Models with Word Embedding
Regularization", Findings of ACL 2021. Table 1 has the sizes, section 4.1 the metrics, Table 4 lengths and
hyperparameters.

Readings, where the paper is silent:

* SQuAD's official dev set is the paper's evaluation set and is the test here. Neither dataset has a dev set then: a
  tenth of what is left to train on is held back, by whole articles or questions.
* BioASQ's test has 495 question-context pairs and 150 questions; scores are over questions, so a test example is a
  question with all of its contexts, and so is one of dev. Training examples are pairs, as the paper counts them.
* Where SQuAD's training file is not there, SQuADShifts' new Wikipedia questions stand in: the same form and the same
  kind of article, a tenth as many, up to three answers each of which the first is learnt.
* The paper gives exact match and F1 for SQuAD, strict and lenient accuracy and MRR for BioASQ. Settings are
  chosen by F1 and MRR, the metrics of the tasks; the others are computed from the same predictions.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from acclimate.core.types import Example, Rejected, Split
from acclimate.reading.datasets.catalogue import Dataset, Difference, Download, ExamplesRead, Form, file_in, held_back
from acclimate.reading.formats.squad import golden_answers, join_questions, question_key, squad_examples
from acclimate.tasks.metrics import METRICS

MAX_TOKENS = 384  # Table 4
HELD_BACK = 10  # of so many groups of train, one is dev
TABLE = "Table 1 of Nishida et al. (2021)"
TEST = "BioASQ-test-factoid-5b.json"
GOLDEN = "5B_golden.json"
SQUAD_TRAIN, SQUAD_TEST = "squad1.1/train-v1.1.json", "squad1.1/dev-v1.1.json"
NEW_WIKIPEDIA = "squadshifts/new_wiki_v1.0.json"
_SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset"


def _cut(rows: Iterable[Example | Rejected]) -> tuple[list[Example | Rejected], list[Example]]:
    """Return the rows of train, and those of dev."""
    rows = list(rows)
    groups = len({row.group for row in rows if isinstance(row, Example)})
    return held_back(rows, max(1, groups // HELD_BACK))


def _squad(train: str, folder: Path, split: Split) -> ExamplesRead:
    if split == "test":
        yield from squad_examples(file_in(folder, SQUAD_TEST))
        return
    train_rows, back = _cut(squad_examples(file_in(folder, train)))
    yield from train_rows if split == "train" else back


def _bioasq(train: str, folder: Path, split: Split) -> ExamplesRead:
    if split == "test":
        golden = golden_answers(file_in(folder, GOLDEN))
        rows = list(squad_examples(file_in(folder, TEST), group_of=question_key, answers=golden))
        yield from (row for row in rows if isinstance(row, Rejected))
        yield from join_questions(row for row in rows if isinstance(row, Example))
        return
    train_rows, back = _cut(_pairs(train, folder))
    yield from train_rows if split == "train" else join_questions(back)


def _pairs(train: str, folder: Path) -> ExamplesRead:
    """Return all of BioASQ's training pairs, those of dev's questions too."""
    return squad_examples(file_in(folder, train), group_of=question_key)


def _form_of_bioasq(name: str, train: str, note: str, differences: tuple[Difference, ...] = ()) -> Form:
    return Form(
        name,
        (train, TEST, GOLDEN),
        partial(_bioasq, train),
        note=note,
        differences=differences,
        undivided=partial(_pairs, train),
        archives=True,
    )


SQUAD = Dataset(
    name="SQuAD 1.1",
    type="Extractive Question Answering",
    folder="qa",
    kind="span",
    labels=(),
    # average: over questions, of the F1 over words with the gold answer that suits best
    metric=METRICS["f1"],
    max_tokens=MAX_TOKENS,
    counted="questions",
    sizes={"train": 87_599, "test": 10_570},
    forms=(
        Form(
            "official",
            (SQUAD_TRAIN, SQUAD_TEST),
            partial(_squad, SQUAD_TRAIN),
            archives=True,
            note="A tenth of the articles of train is dev, because there is none.",
        ),
        Form(
            "new Wikipedia",
            (NEW_WIKIPEDIA, SQUAD_TEST),
            partial(_squad, NEW_WIKIPEDIA),
            archives=True,
            note=(
                "Trained on the new Wikipedia questions of SQuADShifts (Miller et al., ICML 2020), of whose "
                "articles a tenth is dev, because SQuAD's training file is missing. Scores are not to be compared "
                "with the paper's."
            ),
            differences=(Difference("train", 7_938, "questions of SQuADShifts, not of SQuAD"),),
        ),
    ),
    citation="Rajpurkar et al., SQuAD: 100,000+ Questions for Machine Comprehension of Text, EMNLP 2016.",
    licence="CC BY-SA 4.0; the new Wikipedia questions CC BY 4.0",
    catalogue="questions",
    downloads=(
        Download(
            SQUAD_TRAIN,
            f"{_SQUAD}/train-v1.1.json",
            30_288_272,
            "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
        ),
        Download(
            SQUAD_TEST,
            f"{_SQUAD}/dev-v1.1.json",
            4_854_279,
            "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
        ),
    ),
    runs=10,
)

BIOASQ = Dataset(
    name="BioASQ 5b factoid",
    type="Extractive Question Answering",
    folder="qa/bioasq",
    kind="span",
    labels=(),
    # average: over questions, of the reciprocal rank of the first of five answers that is a synonym of the gold one
    metric=METRICS["mrr"],
    max_tokens=MAX_TOKENS,
    counted="questions",
    sizes={"train": 4_950, "test": 150},
    forms=(
        _form_of_bioasq(
            "5b", "BioASQ-train-factoid-5b.json", "A tenth of the questions of train is dev, because there is none."
        ),
        _form_of_bioasq(
            "9b without the questions of 5b's test",
            "derived_train_excl5B.json",
            "Trained on the 667 questions of task 9b that are not 5b's test questions, of which a tenth is dev: later "
            "questions than the paper had, and snippets of 33 words on average, where contexts of its test set have "
            "215.",
            (Difference("train", 4_337, "pairs of task 9b"),),
        ),
    ),
    citation="Tsatsaronis et al., BMC Bioinformatics 16:138, 2015; made pairs by Lee et al., Bioinformatics 36, 2020.",
    licence="CC BY 2.5, after registration",
    obtain=(
        "BioASQ asks for registration: get task 5b's golden file at http://participants-area.bioasq.org, and the "
        "factoid questions in SQuAD's form from BioBERT's authors (github.com/dmis-lab/biobert)"
    ),
    runs=10,
)

DATASETS = (SQUAD, BIOASQ)
