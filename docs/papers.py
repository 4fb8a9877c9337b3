# ruff: noqa: E501  the rows of a table
"""Write docs/papers.md: every table, figure and setting of the five papers, with its command and what was run of it.

python docs/papers.py

tests/test_papers.py fails where the page is not current, a command does not parse, a recipe or a report is missing, or a
recipe or a study stands in no row.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGE = Path(__file__).with_name("papers.md")
REPORTS = "../benchmarks/reports/"
SMALL, NOT_RUN, MISSING, TOLD = "small", "not run", "missing", "settings"


@dataclass(frozen=True)
class Row:
    """A table, figure, ablation or setting of a paper.

    commands  as they are typed, but for DIR (the folder of the datasets), MODEL and texts
    recipes   that state the paper's settings of it
    state     small: run, at the size of the report; not run: there, never run whole; settings: nothing is scored;
              missing: there is no command yet
    report    of the run, a file of benchmarks/reports
    claims    that a run of this row measures, by their keys in docs/claims.py: if one was measured, the state is small
    note      what differs from the paper, or what is missing
    """

    item: str
    what: str
    commands: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()
    state: str = NOT_RUN
    report: str = ""
    note: str = ""
    claims: tuple[str, ...] = ()

    @property
    def measured(self) -> tuple[str, ...]:
        """The claims of which a figure was measured."""
        return tuple(key for key in self.claims if key in measured_claims())

    @property
    def shown(self) -> str:
        """The state, which measured claims make small."""
        return SMALL if self.state == NOT_RUN and self.measured else self.state


@cache
def measured_claims() -> frozenset[str]:
    """Return the keys of the claims of docs/claims.py of which an outcome has a figure."""
    spec = importlib.util.spec_from_file_location("claims", PAGE.with_name("claims.py"))
    assert spec is not None
    assert spec.loader is not None
    claims = sys.modules["claims"] = importlib.util.module_from_spec(spec)  # its dataclasses look for their module
    spec.loader.exec_module(claims)
    rows = [claim for each in claims.CLAIMS.values() for claim in each]
    return frozenset(
        claim.key
        for claim in rows
        if any(claims.figure(test, claims.outcomes()) for test in (*claim.tests, *claim.controls))
    )


TLM_TASKS = ("acl-arc", "agnews", "chemprot", "helpfulness", "hyperpartisan", "imdb", "rct", "scierc")
FURTHER = (
    '\'tasks=["AGNews", "ChemProt-13", "Helpfulness", "HyperPartisan", "IMDB", "RCT", "SciERC"]\''  # beside ACL-ARC
)
SCALES = f"study tlm ACL-ARC --data DIR --general GENERAL --model MODEL vary=scale {FURTHER}"
GLUE = "study tlm CoLA --data DIR --general GENERAL --model MODEL vary=scale"
SMALL_SCALE = "--data DIR --general GENERAL 'scales=[\"small\"]'"
SCIERC_CHEMPROT = '\'tasks=["SciERC", "ChemProt-13"]\''
DGA = "study dga ACL --data DIR --model MODEL --corpus DOMAIN --general GENERAL"
DGA_RUN = f"{DGA} all_rows=true dga.subset_tokens=1640000 adapt.plan.clip=0 finetune.plan.clip=0"
SIX = (
    '\'tasks=["AI","Restaurant","Phone","Camera","PubMed"]\' '
    '\'corpora=["AI_TEXTS","RESTAURANT_TEXTS","PHONE_TEXTS","CAMERA_TEXTS","PUBMED_TEXTS"]\' \'epochs=[10,10,5,15,15,10]\''
)
BLURB = (
    *("bc5-chem", "bc5-disease", "ncbi-disease", "bc2gm", "jnlpba", "ebm-pico", "chemprot", "ddi", "gad", "biosses"),
    *("hoc", "pubmedqa", "bioasq"),
)
CHOICES = "study choices MODEL --data DIR by_dataset=true split=test"
ON_DEV = (
    "The paper chose rate, batch and epochs for each dataset and does not print them. The command takes those of `finetune/blurb-DATASET`; "
    "without `by_dataset` it takes rate 3e-5, batches of 32 and 10 epochs on every dataset. Without `split=test` it scores dev."
)
# beginning of a paper's title -> text above its table
LEADS = {
    "TLM": "MODEL is `FacebookAI/roberta-base`. GENERAL is the corpus on which BERT was pretrained (the paper's C_BERT) at the small and "
    "medium scale, and that of RoBERTa (C_RoBERTa) at the large scale. `scales` takes size, steps, K, rho_1 and rho_2 of each task from "
    "its recipe `tlm/TASK-SCALE`, which has the values of Table B.1. Without `scales`, TLM has 2 layers of 128 and 500 steps, as in a "
    "race, unless settings such as `tlm.layers` state others. rho_1 is the number of external batches per batch of the task. "
    "The captions of Tables 4 and 6 have rho_1 = 4 and 1000, as the released code counts both; in Table B.1 they are 3 and 999.",
    "DGA": "MODEL is `FacebookAI/roberta-base`.",
    "TAPTER": "MODEL is `google-bert/bert-base-cased`. The paper also has BioBERT and RoBERTa-base.",
    "PubMedBERT": "MODEL is PubMedBERT, `microsoft/BiomedNLP-BiomedBERT-base-uncased-abstract`. Table 6 has more models "
    "([hub ids](evidence/blurb.md#running-it)).",
    "STILT": "MODEL is `google-bert/bert-base-uncased` or `microsoft/BiomedNLP-BiomedBERT-base-uncased-abstract`.",
}

PAPERS: dict[str, tuple[Row, ...]] = {
    "TLM: Yao et al. (2022), NLP From Scratch Without Large-Scale Pretraining": (
        Row("Table 1", "how TLM and pretrained models differ, in words", state=TOLD, note="No figures."),
        Row(
            "Table 2, B.1",
            "eight tasks at three scales",
            (
                f'{SCALES} \'scales=["small","medium"]\'',
                f"{SCALES} 'scales=[\"large\"]'",
                "adapt tlm --recipe tlm/acl-arc-small task=PREPARED_TASK corpus=RETRIEVED/corpus",
            ),
            tuple(f"tlm/{task}-{scale}" for task in TLM_TASKS for scale in ("small", "medium", "large")),
            note="One command for all eight tasks and their mean, with parameters, data and FLOP; `rivals` adds models beside MODEL. "
            "`adapt tlm` makes one of the models; its corpus is what `data retrieve` found with the recipe's k.",
            claims=("L1",),
        ),
        Row(
            "Table 2, RoBERTa",
            "the rival",
            ("adapt finetune --recipe finetune/tlm-roberta task=PREPARED_TASK",),
            ("finetune/tlm-roberta",),
        ),
        Row(
            "Table 3",
            "BM25 or random documents",
            (f"study tlm IMDB {SMALL_SCALE} vary=retrieval second=OTHER_GENERAL {SCIERC_CHEMPROT}",),
            state=SMALL,
            report="2026-11-21-tlm.md",
            note="Our run had one corpus and one random draw for all seeds. The command makes a new draw for each first stage. "
            "`second` names the second general corpus, and `hows` adds DSIR, which the paper lacks.",
            claims=("L2",),
        ),
        Row(
            "Table 4",
            "K = 50, 500, 5000 and task data only",
            (f"study tlm AGNews {SMALL_SCALE} vary=k {SCIERC_CHEMPROT}",),
            state=SMALL,
            report="2026-11-21-tlm.md",
            note="Table 4 has rho_2 = 20 on all tasks; the command takes rho_2 from Table B.1.",
            claims=("L3",),
        ),
        Row(
            "Table 5",
            "rho_1, and external data only",
            (f"study tlm Helpfulness {SMALL_SCALE} vary=rho_1 {SCIERC_CHEMPROT}",),
            note="Table 5 has rho_2 = 20 on all tasks; Table B.1, like the command, has 100 on Helpfulness.",
            claims=("L4",),
        ),
        Row(
            "Table 6",
            "rho_2",
            (f"study tlm RCT {SMALL_SCALE} vary=rho_2 {SCIERC_CHEMPROT}",),
            claims=("L4",),
        ),
        Row(
            "Table 7",
            "without stage 2",
            (f'study tlm ACL-ARC {SMALL_SCALE} vary=stages \'tasks=["AGNews", "IMDB", "ChemProt-13"]\'',),
            state=SMALL,
            report="2026-11-21-tlm.md",
            claims=("L5",),
        ),
        Row(
            "Table 8",
            "masked language modelling on task data, from a pretrained model",
            (f"study tlm ACL-ARC {SMALL_SCALE} --model MODEL vary=model {FURTHER}",),
            note="The paper has test scores; the study compares on dev.",
        ),
        Row(
            "section 4.1",
            "search over rho_1 and rho_2",
            (
                f"study tlm ACL-ARC {SMALL_SCALE} vary=search {FURTHER} 'rho_1s=[1,3,7,19,99,499,999,1999]' 'rho_2s=[20,100,1000]'",
            ),
            note="The paper's 8 by 3: with fewer than 2,000 steps no batch is internal at rho_1 = 1999. "
            "Without the settings the study searches the 4 by 4 values of Tables 5 and 6, rho_2 = 0 among them.",
        ),
        Row(
            "Table 9",
            "documents that were retrieved, by query",
            ("data retrieve train.csv --corpus GENERAL --k 50 --out OUT",),
            note="`selection/` has rank and score of each.",
        ),
        Row(
            "Table 10",
            "GLUE, with both sets of MNLI",
            (
                f'{GLUE} \'scales=["small"]\' \'tasks=["RTE", "STS-B", "MRPC", "QQP", "SST-2", "QNLI", "MNLI", "MNLI-mm"]\'',
            ),
            ("tlm/glue-small",),
            note="The paper does not state K, rho_1 and rho_2 for GLUE: the recipe has values of Table B.1. MNLI is trained once "
            "for each dev file. No files of MRPC, QQP, QNLI and MNLI were at hand.",
        ),
        Row(
            "Figure 1",
            "mean score by FLOPs",
            (f"{SCALES} model_flops=4.36e21 'scales=[\"large\"]'",),
            note="Drawn on the page of vary=scale. What a given model's pretraining took is stated: 4.36e21 is RoBERTa-large's.",
        ),
        Row("Figure 2", "the two stages, a drawing", state=TOLD),
        Row(
            "Figure 3, C.1, C.2",
            "positional and vertical heads",
            ("analyse heads MODEL --texts train.csv --out heads.html",),
            claims=("L6",),
        ),
        Row(
            "Table A.1",
            "settings of fine-tuning",
            recipes=("finetune/tlm-roberta", "finetune/tlm-roberta-reported"),
            state=TOLD,
            note="The columns 'Ours' and 'Reported'; the second has 3 epochs on some tasks, of which the table does not say which.",
        ),
        Row(
            "Table A.2",
            "beside DAPT and TAPT",
            (
                "race ACL-ARC --data DIR --model MODEL --corpus DOMAIN finetune.preset=papers finetune.plan.rate=2e-5 "
                "finetune.plan.batch=32 finetune.plan.weight_decay=0 finetune.looks=30 finetune.epochs=0 finetune.plan.steps=30000 "
                'search.rates=[] seeds=3 \'contestants=["DAPT", "DAPT+TAPT"]\'',
                "study tlm ACL-ARC --data DIR --general GENERAL vary=scale 'scales=[\"large\"]'",
            ),
            note="The column 'Ours' of Table A.1. The first command makes the rows of the model, DAPT and DAPT+TAPT, the second that of TLM "
            "at the large scale. One task a command, where the table has eight. DAPT and "
            "TAPT have acclimate's settings, not those of Gururangan et al.",
        ),
    ),
    "DGA: Ke et al. (2022), Adapting a Language Model While Preserving its General Knowledge": (
        Row("Figure 1", "the method, a drawing", state=TOLD),
        Row("Table 1", "the six tasks and their texts", ("data prepare ACL --data DIR --out OUT",), state=TOLD),
        Row(
            "Table 2, 4",
            "untouched, ten ways of adapting; means and deviations of five seeds",
            (f"{DGA_RUN} {SIX}",),
            (
                "dga/dga",
                "mlm/dapt-dga",
                "light/adapter",
                "light/prompt",
                "distil/kd",
                "distil/adapted-deit",
                "sequence_contrast/simcse",
                "sequence_contrast/infoword",
                "token_contrast/tacl",
                "token_contrast/taco",
                "finetune/dga",
            ),
            note="Run on AI alone, 200 steps and one adaptation of each contestant. One command for the six tasks: "
            "ACL and --corpus are the first, `tasks` and `corpora` name the other five, and `epochs` has six values. Both of the paper's averages are given: of the main metrics (macro-F1, on PubMed micro-F1) and of accuracies. "
            "The paper names no warm-up of fine-tuning; the recipe has none. The released code has no dev set and does not clip. A run of acclimate version 0.1 rested on an encoder that had learnt little, and "
            "is withdrawn.",
            claims=("G1", "G3"),
        ),
        Row(
            "Table 3, 5",
            "seven ablations",
            (f"{DGA_RUN} ablations=true {SIX}",),
            (
                "dga/without-contrast",
                "dga/random-mask",
                "dga/domain-specific",
                "dga/heads-intermediate",
                "dga/heads-intermediate-output",
                "dga/heads-intermediate-output-embeddings",
                "dga/update",
                "dga/without-mask",
            ),
            note="Two of the seven were run, on AI alone. Two contestants that the paper has not: `DGA (update)` masks Adam's updates, `DGA (w/o mask)` has the "
            "contrast alone.",
            claims=("G2",),
        ),
        Row(
            "section 3",
            "what is kept of general knowledge: general loss at equal domain loss",
            (f"{DGA} dga.reading=update dga.contrast=0",),
            claims=("G4",),
            note="The paper has no figure of it. A script runs it, because only losses are needed.",
        ),
        Row(
            "section 4.3",
            "importance of heads in six domains: how alike",
            ("analyse importance MODEL acl=ACL_TEXTS reviews=REVIEW_TEXTS --out importance.html",),
            state=SMALL,
            note="Beside it random importance, which the paper lacks.",
            claims=("G5",),
        ),
    ),
    "TAPTER: Nishida et al. (2021), Task-adaptive Pre-training of Language Models with Word Embedding Regularization": (
        Row("Table 1", "the datasets", ('data prepare "BioASQ 5b factoid" --data DIR --out OUT',), state=TOLD),
        Row(
            "Table 2",
            "BioASQ after SQuAD: untouched, TAPT, TAPTER",
            (
                'study tapter "BioASQ 5b factoid" --data DIR --model MODEL first="SQuAD 1.1" seeds=10 all_rows=true tapter.vectors=wiki.en.bin tapter.skipgram.buckets=2000000',
            ),
            ("tapter/bioasq", "mlm/tapt-tapter"),
            state=SMALL,
            note="Run on NCBI-disease with 256 training sentences, not on BioASQ. The paper starts from fastText's `wiki.en.bin`: download it, or omit both settings to train vectors. "
            "A run with acclimate version 0.1 is withdrawn.",
            claims=("T1", "T2", "T6"),
        ),
        Row(
            "Table 3",
            "SQuAD",
            (
                'study tapter "SQuAD 1.1" --data DIR --model MODEL finetune.epochs=5 tapter.skipgram.min_count=5 '
                "tapter.skipgram.epochs=5 all_rows=true",
            ),
            ("tapter/squad",),
            claims=("T3",),
        ),
        Row("Table 4, 5", "settings", recipes=("tapter/bioasq", "tapter/squad", "mlm/tapt-tapter"), state=TOLD),
        Row(
            "Figure 1",
            "both terms of the loss by step",
            ("adapt tapter --recipe tapter/bioasq vectors=wiki.en.bin corpus=DOMAIN dev=DEV_TEXTS",),
            state=SMALL,
            claims=("T4",),
            note="Run on NCBI-disease. `curve.json` of the adaptation, on the texts of dev.",
        ),
        Row(
            "Figure 2, 3, 4, 5, Appendix B",
            "how far embeddings moved",
            ("analyse embeddings MODEL runs/tapt runs/tapter --texts train.csv --words lead,cell --out words.html",),
            state=SMALL,
            claims=("T5",),
            note="The distances were measured on NCBI-disease; the drawings were not made.",
        ),
    ),
    "PubMedBERT and BLURB: Gu et al. (2021), Domain-Specific Language Model Pretraining for Biomedical NLP": (
        Row("Figure 1, 2", "two ways of pretraining, and of fine-tuning, drawings", state=TOLD),
        Row(
            "Table 1",
            "biomedical words that vocabularies break",
            ("data vocabulary DOMAIN --model MODEL --terms TERMS --out OUT",),
            state=TOLD,
            note="TERMS has the table's words, one a line: diabetes, leukemia, lithium, insulin, DNA, promoter, hypertension, "
            "nephropathy, lymphoma, lidocaine, oropharyngeal, cardiomyocyte, chloramphenicol, RecA, acetyltransferase, "
            "clonidine, naloxone.",
            claims=("P3",),
        ),
        Row("Table 2, 3", "the thirteen datasets, with counts", ("doctor blurb --data DIR",), state=TOLD),
        Row(
            "Table 4",
            "task models",
            state=TOLD,
            note="The linear layer on [CLS] is `finetune.pooling=first`. Of relations `mentions` reads the maximum over "
            "each mention's tokens, `mentions-mean` their average; `finetune.sequence_layer=mlp` is an MLP.",
        ),
        Row(
            "Table 5",
            "pretraining of each model",
            ("adapt scratch --recipe scratch/pubmedbert corpus=DOMAIN",),
            ("scratch/pubmedbert", "scratch/biobert-like", "scratch/scibert-like"),
            state=TOLD,
            note="ClinicalBERT, BlueBERT and RoBERTa are taken from their public release, as in the paper, and have no recipe: "
            "`study blurb` takes their [hub ids](evidence/blurb.md#running-it).",
        ),
        Row(
            "Table 6",
            "models on BLURB",
            ("study blurb MODEL --data DIR",),
            tuple(f"finetune/blurb-{dataset}" for dataset in BLURB),
            state=SMALL,
            report="2026-11-22-blurb.md",
            note="The command searches rate, batch and epochs for each model and dataset with one seed. The paper searches once for all "
            "models, as `search.common=true` does, and does not print its choices. So the recipes take rate, batch and epochs from "
            "BioLinkBERT's released script.",
            claims=("P8",),
        ),
        Row(
            "Table 7",
            "vocabulary and whole words",
            ("study pubmedbert --corpus DOMAIN --general GENERAL --data DIR",),
            ("scratch/pubmedbert-word-piece", "scratch/wiki-books-whole-word", "scratch/wiki-books-word-piece"),
            state=SMALL,
            report="2026-11-22-scratch-square.md",
            claims=("P1", "P2"),
        ),
        Row(
            "Table 8",
            "abstracts, full text, longer training",
            (
                "study pubmedbert --corpus DOMAIN --general GENERAL --data DIR full_texts=FULL_TEXTS",
                "adapt scratch --recipe scratch/pubmed-pmc corpus=DOMAIN general=FULL_TEXTS",
                "adapt scratch --recipe scratch/pubmed-pmc-longer corpus=DOMAIN general=FULL_TEXTS",
            ),
            ("scratch/pubmed-pmc", "scratch/pubmed-pmc-longer"),
            note="The study compares at a small size, beside the models of Table 7; the recipes have the paper's.",
            claims=("P4",),
        ),
        Row(
            "Table 9",
            "adversarial pretraining",
            (
                "adapt scratch --recipe scratch/pubmedbert-not-adversarial corpus=DOMAIN",
                "adapt scratch --recipe scratch/pubmedbert-adversarial corpus=DOMAIN",
                "adapt adversarial --recipe adversarial/alum corpus=DOMAIN",
            ),
            (
                "scratch/pubmedbert-not-adversarial",
                "scratch/pubmedbert-adversarial",
                "adversarial/alum",
                "adversarial/alum-released",
            ),
            note="Run at a radius of 1e-3. The recipes have 1e-5, as we read the paper, which adds next to nothing (1e-4 nats). The first two differ in the adversarial term alone. The paper compares with PubMedBERT, which also has "
            "next-sentence prediction and masks 15% throughout.",
            claims=("P5",),
        ),
        Row("Table 10", "linear layer or LSTM", (f"{CHOICES} vary=layers",), note=ON_DEV, claims=("P6",)),
        Row("Table 11", "BIO, BIOUL, IO", (f"{CHOICES} vary=schemes",), note=ON_DEV),
        Row(
            "Table 12",
            "dummies, markers, original text",
            (f"{CHOICES} vary=relations",),
            state=SMALL,
            report="2026-11-21-blurb.md",
            claims=("P7",),
            note=ON_DEV,
        ),
    ),
    "STILT: Jeong and Hwang, Empirical Study on Intermediate Fine-tuning for Biomedical Domain Tasks": (
        Row("Table 1", "the eleven tasks", ("study stilt MODEL --data DIR --dry-run",), state=TOLD),
        Row(
            "Table 2, 3",
            "every task before every other",
            ("study stilt MODEL --data DIR by_dataset=true",),
            ("stilt/blurb-bert", "stilt/blurb-pubmedbert"),
            note="Rate, batch and epochs are those of `finetune/blurb-DATASET`, not of a search on each dataset. With the recipes, `adapt stilt` trains one pair of tasks. A run with acclimate version 0.1 is "
            "withdrawn.",
            claims=("S1", "S2"),
        ),
    ),
}

STATES = {
    SMALL: "run at a small size; see the linked report or claim for the size of the run",
    NOT_RUN: "can be run, but we have not run it",
    MISSING: "there is no command for it yet",
    TOLD: "has no scores: data, settings or text",
}


def page() -> str:
    used = {row.shown for rows in PAPERS.values() for row in rows}
    lines = [
        "# The five papers, table by table",
        "",
        "This page lists every table, figure and setting of the five papers, the command that makes it, the recipes with the paper's "
        "settings, and the part that we ran. `docs/papers.py` writes the page, and a test checks its commands and recipes.",
        "",
        "| in a command | put |",
        "|---|---|",
        "| DIR | the folder of the datasets ([BLURB](blurb.md), [the others](studies.md#where-the-data-come-from)) |",
        "| MODEL | a hub id or a checkpoint; the paper's is above each table |",
        "| DOMAIN, GENERAL | raw text of the domain, general raw text ([forms](data.md#raw-text)) |",
        "| PREPARED_TASK | the folder `data` in the `--out` of `acclimate data prepare` |",
        "| RETRIEVED | the `--out` of `acclimate data retrieve` |",
        "| OUT | any new directory |",
        "| names with TEXTS, and OTHER_GENERAL | further raw texts |",
        "",
        "A recipe makes one model of the table: `acclimate adapt METHOD --recipe METHOD/NAME`. `acclimate recipes METHOD/NAME` prints "
        "it, with the full command in its comments.",
        "",
        *(f"* **{state}**: {meaning}" for state, meaning in STATES.items() if state in used),
        "",
    ]
    for paper, rows in PAPERS.items():
        lines += [
            f"## {paper}",
            "",
            LEADS[paper.partition(":")[0].partition(" ")[0]],
            "",
            "| item | what | command | recipes | state | differs, or is missing |",
            "|---|---|---|---|---|---|",
        ]
        for row in rows:
            commands = "<br>".join(f"`acclimate {command}`" for command in row.commands)
            recipes = ", ".join(f"`{recipe}`" for recipe in folded(row.recipes))
            state = f"[{row.shown}]({REPORTS}{row.report})" if row.report else row.shown
            state += f", [{', '.join(row.measured)}](claims.md)" if row.measured else ""
            lines.append(f"| {row.item} | {row.what} | {commands} | {recipes} | {state} | {row.note} |")
        lines.append("")
    return "\n".join(lines)


def folded(recipes: tuple[str, ...]) -> tuple[str, ...]:
    """Return TLM's 24 recipes as one name."""
    return (
        ("tlm/TASK-small", "tlm/TASK-medium", "tlm/TASK-large")
        if len(recipes) > 20
        else ("finetune/blurb-DATASET",)
        if len(recipes) == len(BLURB)
        else recipes
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
