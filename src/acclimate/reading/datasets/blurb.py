"""BLURB, the Biomedical Language Understanding and Reasoning Benchmark: thirteen datasets of six types as values.

Yu Gu, Robert Tinn, Hao Cheng et al., "Domain-Specific Language Model Pretraining for Biomedical Natural Language
Processing", ACM Transactions on Computing for Healthcare 3(1), 2021 (arXiv 2007.15779). Table 3 has the datasets, their
sizes and metrics; section 4 what they are; section 5.2 lengths and encodings; section 6.2 the search.

Readings, where the paper is silent or its files are not those of its table:

* The paper states a length for relation extraction and question answering only. The rest is cut at 512 tokens.
* "Micro F1" of relation extraction leaves the negative class out, as the scripts of BLUE and BioBERT do: of GAD, which
  has one other class, it is the F1 of that class.
* "Macro F1 word-level" of EBM PICO is the mean over P, I and O of the F1 over words, counted over the whole split.
* HoC is one text an abstract, as the counts of Table 3 are; the sentences are another form of it.
* ChemProt and DDI are made from the publishers' files, in the three encodings of Table 12, as forms of these names; the
  form "dummified" reads what BLURB's script writes (id, sentence, label; no header).

Deviations: the differences of each form, which `acclimate doctor blurb` prints beside the counts.

Long because it is a table: thirteen values, each with its source, licence, sizes and files, and hardly any code.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from pathlib import Path

from acclimate.core.types import Example, Split
from acclimate.reading.datasets.catalogue import (
    Dataset,
    Difference,
    Download,
    ExamplesRead,
    FileReader,
    Form,
    cut_form,
    file_in,
    held_back,
    split_form,
)
from acclimate.reading.formats import chemprot, ddi
from acclimate.reading.formats.delimited import delimited_examples, iob_examples, number, one_of
from acclimate.reading.formats.ebm import ELEMENTS, Overlaps, ebm_sentences
from acclimate.reading.formats.hoc import HALLMARKS, hoc_abstracts, hoc_sentences
from acclimate.reading.formats.pubmedqa import ANSWERS, QUESTIONS, TEST, pubmedqa_examples
from acclimate.reading.relations import Encoding
from acclimate.tasks.metrics import METRICS, micro_f1_without
from acclimate.tasks.tags import join_tags

TABLE = "Table 3 of Gu et al. (2021)"
LONGEST = 512  # tokens, where the paper states none
FILES: dict[Split, str] = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
EBM_NLP = "ebm_nlp_2_00"  # the folder that its archive unpacks to
FIFTH = "which fifth of the training abstracts is dev is drawn, here by hash; no archive was at hand to count"
CROWD_DEV = 100  # abstracts of PICO's crowd-labelled file that are dev where there is no train file


@dataclass(frozen=True)
class PaperSearch:
    """The paper's search over fine-tuning (section 6.2), on dev, for the same settings for every encoder.

    epochs           the least and the most; the paper's "2-60" does not say which values between them were tried
    warmup, dropout  share of the steps, then linear to 0; probability
    """

    rates: tuple[float, ...] = (1e-5, 3e-5, 5e-5)
    batches: tuple[int, ...] = (16, 32)
    epochs: tuple[int, int] = (2, 60)
    warmup: float = 0.1
    dropout: float = 0.1


SEARCH = PaperSearch()


def sizes(train: int, dev: int, test: int) -> dict[Split, int]:
    return {"train": train, "dev": dev, "test": test}


@cache
def downloads(folder: str) -> tuple[Download, ...]:
    """Return the files of a dataset that may be fetched, at one commit each, with the hashes of what was counted."""
    lines = Path(__file__).with_name("blurb_files.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return tuple(Download(path, url, int(size), digest) for where, path, size, digest, url in rows if where == folder)


def _tagged(
    name: str,
    folder: str,
    type: str,
    counts: dict[Split, int],
    *,
    citation: str,
    licence: str,
    files: dict[Split, str],
    merged: bool = False,
    differences: tuple[Difference, ...] = (),
) -> Dataset:
    """Return a dataset of named entities of one type, as MTL-Bioinformatics-2016 has it."""
    tail = f"-{type}" if type else ""
    return Dataset(
        name=name,
        type="NER",
        folder=folder,
        kind="tokens",
        labels=("O", f"B{tail}", f"I{tail}"),
        # average: micro, over the entities of the split: right where both ends are
        metric=METRICS["entity_f1"],
        max_tokens=LONGEST,
        counted="mentions",
        sizes=counts,
        forms=(split_form("BIO", files, partial(iob_examples, merged=merged), differences=differences),),
        citation=f"{citation}; preprocessed by Crichton et al., BMC Bioinformatics 18:368, 2017.",
        licence=licence,
        downloads=downloads(folder),
        catalogue="blurb",
    )


CRICHTON: dict[Split, str] = {"train": "train.tsv", "dev": "devel.tsv", "test": "test.tsv"}
CC_BY = "CC BY 4.0 (the files); the corpus has its own terms"
BC5 = "Li et al., BioCreative V CDR task corpus, Database 2016"

NER = (
    _tagged(
        "BC5-chem", "bc5cdr_chem", "Chemical", sizes(5203, 5347, 5385), citation=BC5, licence=CC_BY, files=CRICHTON
    ),
    _tagged(
        "BC5-disease",
        "bc5cdr_disease",
        "Disease",
        sizes(4182, 4244, 4424),
        citation=BC5,
        licence=CC_BY,
        files=CRICHTON,
        differences=(
            Difference(
                "dev",
                4246,
                "the preprocessed file has 4,246 mentions; why the table has two fewer is not known",
            ),
        ),
    ),
    _tagged(
        "NCBI-disease",
        "ncbi_disease",
        "Disease",
        sizes(5134, 787, 960),
        citation="Dogan, Leaman and Lu, Journal of Biomedical Informatics 47, 2014",
        licence=CC_BY,
        files=CRICHTON,
    ),
    _tagged(
        "BC2GM",
        "bc2gm",
        "GENE",
        sizes(15197, 3061, 6325),
        citation="Smith et al., BioCreative II gene mention, Genome Biology 9(S2), 2008",
        licence=CC_BY,
        files=CRICHTON,
    ),
    _tagged(
        "JNLPBA",
        "jnlpba",
        "",
        sizes(46750, 4551, 8662),
        citation="Kim et al., JNLPBA shared task, 2004",
        licence="GENIA Project License for Annotated Corpora",
        files=FILES,
        merged=True,
    ),
)


def _ebm_nlp(folder: Path, split: Split, *, overlaps: Overlaps = "last") -> ExamplesRead:
    """Yield the rows of EBM-NLP's files; a fifth of the abstracts of train is dev, as in its authors' script."""
    corpus = file_in(folder, EBM_NLP)
    if split == "test":
        yield from ebm_sentences(corpus, "test", overlaps=overlaps)
        return
    rows = list(ebm_sentences(corpus, "train", overlaps=overlaps))
    train_rows, back = held_back(rows, len({row.group for row in rows if isinstance(row, Example)}) // 5)
    yield from train_rows if split == "train" else back


PICO = Dataset(
    name="EBM PICO",
    type="PICO",
    folder="ebm_pico",
    kind="tokens",
    labels=("O", "I-INT", "I-OUT", "I-PAR"),
    # average: macro, over participants, interventions and outcomes: of each the F1 over the words of the split
    metric=METRICS["word_type_macro_f1"],
    max_tokens=LONGEST,
    counted="words",
    sizes=sizes(339167, 85321, 16364),
    forms=(
        split_form(
            "published",
            FILES,
            iob_examples,
            differences=(Difference("dev", 87308, "960 crowd-labelled abstracts, drawn again by the script"),),
        ),
        Form(
            "raw",
            (EBM_NLP,),
            _ebm_nlp,
            archives=True,
            note="Made of the files of EBM-NLP 2.00. A fifth of its training abstracts, drawn by hash, is dev.",
            differences=(Difference("train", None, FIFTH), Difference("dev", None, FIFTH)),
        ),
        cut_form(
            "crowd",
            train="dev.tsv",
            test="test.tsv",
            reader=iob_examples,
            count=CROWD_DEV,
            note=(
                "Trained on the dev file, because there is no train file: 860 of its 960 crowd-labelled abstracts; "
                f"the other {CROWD_DEV} are dev. Scores are not to be compared with the paper's."
            ),
            differences=(
                Difference("train", 78505, "860 crowd-labelled abstracts"),
                Difference("dev", 8803, f"{CROWD_DEV} crowd-labelled abstracts"),
            ),
        ),
        Form(
            "overlapping",
            (EBM_NLP,),
            partial(_ebm_nlp, overlaps="all"),
            archives=True,
            note=(
                "A word counts for each element that covers it, but BLURB has one element per word. Scores are not "
                "to be compared with the paper's."
            ),
            joint=tuple(join_tags(tags) for size in (2, 3) for tags in combinations(ELEMENTS.values(), size)),
        ),
    ),
    citation="Nye et al., EBM-NLP, ACL 2018.",
    licence="none stated",
    downloads=downloads("ebm_pico"),
    catalogue="blurb",
    obtain=(
        "No public file is known that holds train.tsv as BLURB cuts it. Put EBM-NLP 2.00 (ebm_nlp_2_00.tar.gz of "
        "https://github.com/bepnye/EBM-NLP) beside the others, or a train.tsv of it made with BLURB's script "
        "(https://microsoft.github.io/BLURB/sample_code/data_generation.tar.gz). Else the dev file is cut in two"
    ),
)

ENCODINGS: tuple[Encoding, ...] = ("dummies", "markers", "original")
CHEMPROT_LABELS = (chemprot.FALSE, *chemprot.GROUPS)


def _read_subfolder(name: str, reader: FileReader, folder: Path, split: Split) -> ExamplesRead:
    """Return the rows that the reader finds in the folder `name` of the dataset's folder."""
    return reader(folder / name, split)


def _document(id: str) -> str:
    """Return the document in a pair's id, which ends with two numbers: of both mentions, or of sentence and pair."""
    return id.rsplit(".", 2)[0]


_DUMMIFIED = partial(
    delimited_examples, columns=("id", "sentence", "label"), text="sentence", label="label", id="id", group_of=_document
)

CHEMPROT_CUT = (
    Difference("dev", 11256, "12 pairs of 17578749 stand in a sentence that BLURB's Punkt keeps whole and ours cuts"),
    Difference("test", 15744, "one pair fewer; BLURB's test set is not there to say which sentence is cut otherwise"),
)

CHEMPROT = Dataset(
    name="ChemProt",
    type="Relation Extraction",
    folder="chemprot",
    kind="sequence",
    labels=CHEMPROT_LABELS,
    # average: micro, over the five kinds of relation; `false` is no relation
    metric=micro_f1_without("false"),
    max_tokens=256,
    counted="instances",
    sizes=sizes(18035, 11268, 15745),
    forms=(
        *(
            Form(
                encoding,
                tuple(f"original/{name}" for names in chemprot.FILES.values() for name in names),
                partial(_read_subfolder, "original", partial(chemprot.chemprot_examples, encoding=encoding)),
                differences=CHEMPROT_CUT,
                special=chemprot.CHEMICAL_GENE.special_tokens(encoding),
            )
            for encoding in ENCODINGS
        ),
        split_form(
            "dummified",
            FILES,
            partial(_DUMMIFIED, label_of=one_of(CHEMPROT_LABELS)),
            special=chemprot.CHEMICAL_GENE.special_tokens("dummies"),
        ),
    ),
    citation="Krallinger et al., BioCreative VI ChemProt, 2017.",
    licence="none; free for research",
    downloads=downloads("chemprot"),
    catalogue="blurb",
)

DDI_LABELS = (ddi.FALSE, *ddi.LABELS.values())
FOUND_DDI: dict[Split, int] = {"train": 25296, "dev": 2496}
DDI_CUT = tuple(
    Difference(
        split,
        count,
        "the 624 and 90 files that the paper's text states; its table cuts the same 27,792 pairs at 22,233",
    )
    for split, count in FOUND_DDI.items()
)

DDI = Dataset(
    name="DDI",
    type="Relation Extraction",
    folder="ddi",
    kind="sequence",
    labels=DDI_LABELS,
    # average: micro, over the four kinds of interaction; `DDI-false` is none
    metric=micro_f1_without("DDI-false"),
    max_tokens=256,
    counted="instances",
    sizes=sizes(22233, 5559, 5716),
    forms=(
        *(
            Form(
                encoding,
                (ddi.ARCHIVE, *ddi.LISTS.values()),
                partial(ddi.ddi_examples, encoding=encoding),
                differences=DDI_CUT,
                special=ddi.DRUG_DRUG.special_tokens(encoding),
            )
            for encoding in ENCODINGS
        ),
        split_form(
            "dummified",
            FILES,
            partial(_DUMMIFIED, label_of=one_of(DDI_LABELS)),
            differences=DDI_CUT,
            special=ddi.DRUG_DRUG.special_tokens("dummies"),
        ),
    ),
    citation="Herrero-Zazo et al., Journal of Biomedical Informatics 46(5), 2013.",
    licence="CC BY-NC 4.0",
    downloads=downloads("ddi"),
    catalogue="blurb",
)

GAD = Dataset(
    name="GAD",
    type="Relation Extraction",
    folder="gad",
    kind="sequence",
    labels=("0", "1"),
    # average: F1 of class 1, an association: micro without the negative class
    metric=micro_f1_without("0"),
    max_tokens=128,
    counted="instances",
    sizes=sizes(4261, 534, 535),
    forms=(
        split_form(
            "dummies",
            FILES,
            partial(delimited_examples, text="sentence", label="label", label_of=one_of(("0", "1"))),
            differences=(
                Difference("dev", 535, "the table has the sizes of dev and test the other way round"),
                Difference("test", 534, "the table has the sizes of dev and test the other way round"),
            ),
        ),
    ),
    citation="Bravo et al., BMC Bioinformatics 16:55, 2015; split of Lee et al. (BioBERT), 2020.",
    licence="none stated",
    downloads=downloads("gad"),
    catalogue="blurb",
)

BIOSSES = Dataset(
    name="BIOSSES",
    type="Sentence Similarity",
    folder="biosses",
    kind="score",
    labels=(),
    # average: none: one correlation over the pairs
    metric=METRICS["pearson"],
    max_tokens=LONGEST,
    counted="pairs",
    sizes=sizes(64, 16, 20),
    forms=(
        split_form(
            "pairs",
            FILES,
            partial(delimited_examples, text="sent1", label="score", label_of=number, pair="sent2", id="pair_id"),
        ),
    ),
    citation="Sogancioglu, Ozturk and Ozgur, Bioinformatics 33(14), 2017; split of Peng et al. (BLUE), 2019.",
    licence="GPL-3.0",
    downloads=downloads("biosses"),
    catalogue="blurb",
    runs=10,
)

HOC = Dataset(
    name="HoC",
    type="Document Classification",
    folder="hoc",
    kind="multilabel",
    labels=HALLMARKS,
    # average: macro, over the ten hallmarks: of each the F1 over the abstracts of the split
    metric=METRICS["hoc_micro_per_hallmark_mean"],
    max_tokens=LONGEST,
    counted="documents",
    sizes=sizes(1295, 186, 371),
    forms=(
        split_form("abstracts", FILES, hoc_abstracts),
        split_form(
            "sentences",
            FILES,
            hoc_sentences,
            note="A text is a sentence; an abstract has every label of its sentences.",
        ),
    ),
    citation="Baker et al., Bioinformatics 32(3), 2016.",
    licence="GPL-3.0",
    downloads=downloads("hoc"),
    catalogue="blurb",
)

PUBMEDQA = Dataset(
    name="PubMedQA",
    type="Question Answering",
    folder="pubmedqa",
    kind="sequence",
    labels=ANSWERS,
    # average: over questions, three answers
    metric=METRICS["accuracy"],
    max_tokens=512,
    counted="questions",
    sizes=sizes(450, 50, 500),
    forms=(Form("fold 0", (QUESTIONS, TEST), pubmedqa_examples),),
    citation="Jin et al., EMNLP 2019.",
    licence="MIT",
    downloads=downloads("pubmedqa"),
    catalogue="blurb",
    runs=10,
)

BIOASQ = Dataset(
    name="BioASQ",
    type="Question Answering",
    folder="bioasq_yesno_7b",
    kind="sequence",
    labels=("yes", "no"),
    # average: over questions, two answers
    metric=METRICS["accuracy"],
    max_tokens=512,
    counted="questions",
    sizes=sizes(670, 75, 140),
    forms=(
        split_form(
            "yes/no",
            FILES,
            partial(
                delimited_examples,
                columns=("id", "question", "context", "answer"),
                text="question",
                pair="context",
                label="answer",
                label_of=one_of(("yes", "no")),
                id="id",
            ),
        ),
    ),
    citation="Nentidis et al., BioASQ task 7b, 2020.",
    licence="CC BY 2.5, after registration",
    downloads=downloads("bioasq_yesno_7b"),
    catalogue="blurb",
    obtain=(
        "BioASQ asks for registration: get task 7b at http://participants-area.bioasq.org, and make train.tsv, dev.tsv "
        "and test.tsv of it with BLURB's script: of each question its id, text, snippets, and yes or no, tabs between"
    ),
    runs=10,
)

DATASETS: tuple[Dataset, ...] = (*NER, PICO, CHEMPROT, DDI, GAD, BIOSSES, HOC, PUBMEDQA, BIOASQ)
