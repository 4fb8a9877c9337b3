# ruff: noqa: E501  the rows of a table
"""Write docs/claims.md: what the five papers claim, and what our runs show of each claim; and the part of which-method.md that rests on them.

python docs/claims.py

A claim is defined here before its outcome is there: which figures of which outcome are looked at, on which side of 0 the paper has
them, how large the paper has them, and the smallest effect that the run was expected to see. The outcomes are files of
benchmarks/claims/outcomes, which the scripts of benchmarks/claims write. The verdict follows by `verdict`, never by hand.
tests/test_claims.py holds the page to its sources.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from scipy import stats

from acclimate.statistics.power import guessed
from acclimate.statistics.significance import holm
from acclimate.statistics.variance import LEVEL, noncentrality

PAGE = Path(__file__).with_name("claims.md")
WHICH = Path(__file__).with_name("which-method.md")
BEGIN, END = "<!-- by docs/claims.py -->", "<!-- end of what docs/claims.py writes -->"  # in which-method.md
OUTCOMES = Path(__file__).parents[1] / "benchmarks" / "claims" / "outcomes"
POWER = 0.8  # probability with which the smallest effect is seen

Verdict = Literal["holds", "not visible", "opposite", "not run"]


def of_a_mean(spread: float, count: int) -> float:
    """Return the smallest mean that a t test of `count` values sees, for a guess of their standard deviation."""
    critical = float(stats.t.isf(LEVEL / 2, count - 1))
    return noncentrality(critical, count - 1, 1 - POWER) * spread / count**0.5


def of_a_study(items: int, seeds: int, score: float) -> float:
    """Return the smallest difference of two scores, in points, that acclimate's guess before any run expects to see."""
    return 100 * guessed(items, seeds, score=score, power=POWER).detectable()


def of_means(*smallest: float) -> float:
    """Return the smallest difference of means over tasks, of the smallest that each task by itself is expected to see."""
    return math.hypot(*smallest) / len(smallest)


@dataclass(frozen=True)
class Test:
    """A figure that the claim is about; it agrees with the paper if it is above 0.

    outcome  file of benchmarks/claims/outcomes without ".json"; figure: its key there
    size     the figure that the paper has, in the same unit; None: it states none
    planned  smallest figure that the run was expected to see, stated before it; None: not stated yet
    """

    outcome: str
    figure: str
    unit: str
    size: float | None = None
    planned: float | None = None


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, or a control of ours.

    paper    the figures as the paper has them
    settle   what is needed to settle it
    commands as they are typed, but for DIR (datasets), TEXTS (raw texts by benchmarks/claims/texts.py), MODEL and OUT
    note     what our run differs in
    """

    key: str
    claim: str
    where: str
    paper: str
    tests: tuple[Test, ...]
    commands: tuple[str, ...]
    settle: str
    note: str = ""


TAPTER_ARMS, TAPTER_ALONE = '["TAPT", "TAPTER", "TAPTER permuted"]', '["TAPTER"]'
NCBI = (
    "acclimate study tapter NCBI-disease --data DIR --model embedded --out OUT --max-tokens 128 rows=256 seeds=3 adapt_seeds=3 "
    '\'contestants=["TAPT", "TAPTER", "TAPTER permuted"]\' tapter.vectors=OUT/general.bin tapter.scale=given tapter.skipgram.dim=100 '
    "tapt.epochs=20 tapter.epochs=20 tapt.plan.batch=16 tapter.plan.batch=16 tapt.max_tokens=128 tapter.max_tokens=128 tapter.looks=10 "
    "finetune.preset=robust finetune.looks=4 finetune.epochs=10"
)
TAPTER_RUN = (
    "python benchmarks/claims/vectors.py TEXTS/general.jsonl OUT/general.bin",
    NCBI,
    "python benchmarks/claims/tapter.py OUT tapter-ncbi COMMAND",
)
TLM = (
    "acclimate study tlm ChemProt-13 --data DIR --general TEXTS/mixed.jsonl --out OUT --max-tokens 128 adapt_seeds=3 retrieval.k=5 "
    "tlm.max_tokens=64 tlm.plan.steps=600 tlm.plan.batch=32 tlm.finetune.epochs=2 tlm.finetune.looks=1"
)
TLM_LONGER = TLM.replace("tlm.plan.steps=600", "tlm.plan.steps=1500").replace("tlm.plan.batch=32", "tlm.plan.batch=64")
TLM_NOTE = (
    "Micro-F1 on the 2,427 dev rows of ChemProt with 13 classes. TLM has 2 layers of 128 in the place of 12 of 768; a first stage sees "
    "1.2 million tokens, the paper's small scale some thousand times as many. rho_1 is 3 and rho_2 20 where they are not varied, as "
    "ChemProt's 1,000 would leave no batch of the task among 600; K is 5, as the general text has 130,000 documents."
)
CHEMPROT_DEV = 2427
DGA = (
    "acclimate study dga AI --data DIR --model embedded --corpus TEXTS/domain-ai.jsonl --out OUT --max-tokens 96 seeds=5 rows=600 "
    "adapt.max_tokens=64 adapt.plan.steps=200 adapt.plan.batch=16 adapt.dropout=0.05 adapt.attention_dropout=0 dga.subset=1000 "
    "finetune.preset=robust finetune.pooling=mean finetune.epochs=4 finetune.looks=1"
)
DGA_FEW = f'{DGA} \'contestants=["MLM", "DGA", "DGA (w/o contrast)", "DGA (random mask)"]\''
DGA_NOTE = (
    "Macro-F1 on AI, 2,388 test rows, with 600 rows of train. One adaptation of each contestant, 200 steps of 16 rows where the paper has "
    "2,500 of 256: the interval is about this one draw of adapting."
)
AI_POWER = of_a_study(2388, 5, 0.6)
SQUARE = (
    "acclimate study pubmedbert --corpus TEXTS/abstracts.jsonl --general TEXTS/general.jsonl --data DIR --out OUT "
    '\'models=["general vocabulary, whole words", "in-domain vocabulary, word pieces", "in-domain vocabulary, whole '
    "words\"]' full_texts=TEXTS/full-texts.jsonl 'datasets=[\"NCBI-disease\"]' seeds=3 adapt_seeds=3 rows=1000 "
    "max_tokens=128 search.rates=[] search.epochs=[] search.batches=[] scratch.vocabulary=4000 "
    "scratch.tokens=2000000 scratch.plan.batch=16 scratch.plan.rate=3e-3 finetune.epochs=4 finetune.looks=2"
)
ADVERSARIAL = (
    "acclimate adapt scratch corpus=TEXTS/abstracts.jsonl vocabulary=4000 layers=2 hidden=128 heads=2 initializer_range=0.08 dropout=0 "
    "attention_dropout=0 whole_words=true epochs=0 plan.steps=1200 plan.batch=16 plan.rate=3e-3 plan.warmup=0.1"
)
SQUARE_NOTE = (
    "Encoders of 2 layers of 128, three pretrainings a model on 2 million tokens of abstracts, where the paper has some hundred "
    "billion; entity F1 on NCBI-disease with 1,000 rows of train. Differences of one or two points cannot be seen."
)
DAPT = (
    "acclimate adapt mlm model=embedded corpus=TEXTS/biomedical.jsonl --out OUT/dapt epochs=0 max_tokens=128 whole_words=true "
    "dropout=0 attention_dropout=0 plan.steps=700 plan.batch=32 plan.rate=2e-4 plan.weight_decay=0"
)
BLURB = (
    'acclimate study blurb embedded OUT/dapt/checkpoint --data DIR --out OUT \'datasets=["NCBI-disease", "BC5-disease"]\' seeds=5 rows=500 '
    "max_tokens=128 baseline=false search.rates=[] search.epochs=[] search.batches=[] finetune.preset=robust finetune.epochs=5 finetune.looks=1"
)
STILT = (
    'acclimate study stilt embedded OUT/dapt/checkpoint --data DIR --out OUT \'datasets=["NCBI-disease", "BC2GM", "GAD"]\' split=dev '
    "seeds=3 rows=400 max_tokens=128 same_task=false more_steps=none finetune.preset=robust finetune.epochs=5 finetune.looks=1"
)
STILT_NOTE = "Three tasks, two of them of entities, with 400 rows of train, scored on dev. The paper's gains of half a point cannot be seen."
CHOICES = "acclimate study choices embedded --data DIR --out OUT"
MENTIONS = 960  # in NCBI-disease's test set; mentions stand in for items, of which entity F1 has no fixed number
NCBI_POWER = of_a_study(MENTIONS, 3, 0.6)

CLAIMS: dict[str, tuple[Claim, ...]] = {
    "TAPTER: Nishida et al. (2021)": (
        Claim(
            "T1",
            "TAPTER is better than TAPT, and TAPT than fine-tuning alone",
            "Table 2",
            "MRR on BioASQ 43.87, 44.69, 45.88: +0.82 and +1.19 points",
            (
                Test("tapter-ncbi", "TAPT against untouched", "points", 0.82, NCBI_POWER),
                Test("tapter-ncbi", "TAPTER against TAPT", "points", 1.19, NCBI_POWER),
            ),
            TAPTER_RUN,
            "BioASQ after SQuAD with ten adaptations, or several tasks with whole training sets",
            "Entity F1 on NCBI-disease with 256 sentences of train, not BioASQ. Gradients of both are unclipped. Fine-tuning has 160 steps, fewer than the preset's 500.",
        ),
        Claim(
            "T2",
            "the gain is smaller where the model knows the domain",
            "Table 2",
            "TAPTER against fine-tuning: +2.01 points of MRR from BERT, +0.21 from BioBERT",
            (
                Test(
                    "tapter-after-dapt",
                    "gain of TAPTER less its gain after DAPT",
                    "points",
                    1.80,
                    2**0.5 * NCBI_POWER,
                ),
            ),
            (
                DAPT,
                NCBI.replace("--model embedded", "--model OUT/dapt/checkpoint").replace(TAPTER_ARMS, TAPTER_ALONE),
                "python benchmarks/claims/after_dapt.py OUT COMMAND",
            ),
            "T1's run from both with whole training sets and ten adaptations",
            "T1's run again, from the embedded encoder after DAPT on 2.5 million biomedical tokens; its gain less this one. The two runs share "
            "no chance, so a difference of 1.8 points cannot be seen.",
        ),
        Claim(
            "T3",
            "nothing is gained where the task is general",
            "Table 3",
            "F1 on SQuAD 87.55, 87.12, 87.19 from BERT: -0.36 points for TAPTER",
            (Test("tapter-general", "untouched against TAPTER", "points", 0.36, of_a_study(872, 3, 0.8)),),
            (
                "acclimate study tapter SST-2 --data DIR --model embedded --out OUT --max-tokens 64 rows=500 seeds=3 adapt_seeds=3 "
                "'contestants=[\"TAPTER\"]' tapter.scale=given tapter.skipgram.dim=100 tapter.epochs=10 tapter.plan.batch=16 tapter.max_tokens=64 "
                "tapter.looks=1 finetune.preset=robust finetune.looks=2 finetune.epochs=10",
                "python benchmarks/claims/scores.py OUT tapter-general COMMAND",
            ),
            "T1's run on a general task; equality needs a bound, which takes many items",
            "Accuracy on SST-2 with 500 rows of train, not SQuAD. The word vectors are of the task's texts alone. That nothing is gained "
            "cannot be shown by a difference of 0.36 points that this run cannot see; its interval is a bound.",
        ),
        Claim(
            "T4",
            "the second term of the loss falls faster than the first",
            "Figure 1",
            "a drawing without figures",
            (
                Test(
                    "tapter-ncbi",
                    "relative fall of the second term less that of the first",
                    "share",
                    None,
                    of_a_mean(0.05, 3),
                ),
            ),
            TAPTER_RUN,
            "more adaptations or tasks",
            "The share of its first value that each term lost on dev by the end of adapting; adaptations are the only chance counted.",
        ),
        Claim(
            "T5",
            "embeddings move further than under TAPT",
            "Appendix B",
            "mean distance .0576 under TAPT, .172 under TAPTER: 2.99 times as far (logarithm 1.09)",
            (
                Test(
                    "tapter-ncbi",
                    "log ratio of distances, all pieces",
                    "nats",
                    1.09,
                    of_a_mean(0.1, 3),
                ),
                Test(
                    "tapter-ncbi",
                    "log ratio of distances, pieces of the texts",
                    "nats",
                    1.09,
                    of_a_mean(0.1, 3),
                ),
            ),
            TAPTER_RUN,
            "more tasks; whether they move towards fastText is not measured here",
            "The second figure is over the pieces that occur in the texts; the paper has all words. Adaptations are the only chance counted.",
        ),
        Claim(
            "T6",
            "the meaning of the vectors matters: permuted ones help less (ours)",
            "-",
            "the paper has no such control",
            (Test("tapter-ncbi", "TAPTER against TAPTER permuted", "points", None, NCBI_POWER),),
            TAPTER_RUN,
            "as T1",
            "As T1.",
        ),
    ),
    "DGA: Ke et al. (2022)": (
        Claim(
            "G1",
            "DGA is better than MLM, and MLM than no adapting",
            "Table 2",
            "means over six tasks 73.64, 76.40, 78.74; on AI 60.98, 68.97, 71.99: +7.99 and +3.02 points",
            (
                Test("dga-tasks", "MLM against untouched", "points", 7.99, AI_POWER),
                Test("dga-tasks", "DGA against MLM", "points", 3.02, AI_POWER),
            ),
            (DGA_FEW, "python benchmarks/claims/scores.py OUT dga-tasks COMMAND"),
            "six tasks, five seeds, several adaptations",
            f"{DGA_NOTE} A further look, stated before it was run: the same with 400 steps at ten times the rate (adapt.plan.steps=400 "
            "adapt.plan.rate=5e-4), three adaptations and three seeds, MLM and DGA alone.",
        ),
        Claim(
            "G2",
            "each of seven ablations is worse than DGA",
            "Table 3",
            "means 76.08 to 78.42 against 78.74; on AI 68.25 without contrast and 69.51 with a random mask against 71.99",
            (
                Test("dga-ablations", "DGA against DGA (w/o contrast)", "points", 3.74, AI_POWER),
                Test("dga-ablations", "DGA against DGA (random mask)", "points", 2.48, AI_POWER),
            ),
            (DGA_FEW, "python benchmarks/claims/scores.py OUT dga-ablations COMMAND"),
            "the other five, of which the paper's smallest effect is 0.32 points",
            f"{DGA_NOTE} Two of the seven ablations.",
        ),
        Claim(
            "G3",
            "all ten baselines are worse than DGA, InfoWord is the best of them, TaCL the worst of the contrasts",
            "Table 2",
            "on AI from 59.73 (TaCO) to 71.99 (DGA)",
            (
                Test(
                    "dga-baselines",
                    "rank correlation with the paper's order",
                    "correlation",
                    1.0,
                    math.tanh((float(stats.norm.isf(LEVEL / 2)) + float(stats.norm.ppf(POWER))) / 8**0.5),
                ),
            ),
            (DGA, "python benchmarks/claims/order.py OUT COMMAND"),
            "G1's run on six tasks with several adaptations",
            f"{DGA_NOTE} The order of the paper's eleven rows on AI; where scores differ by chance alone, a correlation of 1 shrinks.",
        ),
        Claim(
            "G4",
            "soft-masking preserves general knowledge",
            "section 3",
            "no figure",
            (
                Test(
                    "dga-soft-mask",
                    "general loss of MLM at a lower rate less that of the soft mask",
                    "nats",
                    None,
                    of_a_mean(0.005, 3),
                ),
                Test(
                    "dga-soft-mask",
                    "general loss of a random mask less that of the soft mask",
                    "nats",
                    None,
                    of_a_mean(0.005, 3),
                ),
            ),
            ("python benchmarks/claims/soft_mask.py TEXTS OUT",),
            "more steps, other domains, larger encoders",
            "The mask alone, without the contrast, on 300 steps of 16 texts of reviews. It multiplies updates: under AdamW a factor of "
            "gradients cancels ([DGA](methods/dga.md)). The lower rate is a third. Importance is normalised by min-max, so the least "
            "important heads are not protected.",
        ),
        Claim(
            "G5",
            "importance of heads is shared across domains",
            "section 4.3",
            "cosine of normalised importance with the other domains .89 to .92 in six domains; no figure for chance",
            (
                Test("importance", "cosine above that of shuffled importance", "cosine", None, of_a_mean(0.05, 6)),
                Test("importance", "rank correlation", "correlation", None, of_a_mean(0.1, 6)),
            ),
            (
                "acclimate analyse importance embedded acl=TEXTS/domain-acl.jsonl ai=TEXTS/domain-ai.jsonl pubmed=TEXTS/domain-pubmed.jsonl restaurant=TEXTS/domain-restaurant.jsonl electronics=TEXTS/domain-electronics.jsonl news=TEXTS/domain-news.jsonl --dropout 0.1 --attention-dropout 0.1 --out OUT/importance.html",
                "python benchmarks/claims/importance.py OUT",
            ),
            "larger encoders: the embedded one has 36 heads, RoBERTa-base 144",
            "News in the place of Phone, electronics in that of Camera. The interval is a jackknife over domains.",
        ),
    ),
    "TLM: Yao et al. (2022)": (
        Claim(
            "L1",
            "TLM reaches fine-tuned pretrained models at a fraction of the FLOPs",
            "Table 2",
            "small scale: mean of eight tasks 83.78 against 83.82 of BERT-Large, at 1/33 of the FLOPs",
            (Test("tlm-tasks", "TLM against the embedded encoder", "points", None, of_a_study(3469, 3, 0.6)),),
            (
                f"{TLM} seeds=3 vary=scale --model embedded tlm.finetune.preset=robust",
                "python benchmarks/claims/scores.py OUT tlm-tasks COMMAND",
            ),
            "first stages of at least 20 million tokens, several tasks",
            f"{TLM_NOTE} On test, with the preset robust for both.",
        ),
        Claim(
            "L2",
            "documents by BM25 are better than random ones",
            "Table 3",
            "+0.75 (IMDB), +2.27 (SciERC), +2.99 (ChemProt) points",
            (Test("tlm-retrieval", "BM25 against random", "points", 2.99, of_a_study(CHEMPROT_DEV, 6, 0.55)),),
            (f"{TLM} seeds=6 vary=retrieval", "python benchmarks/claims/scores.py OUT tlm-retrieval COMMAND"),
            "first stages of at least 20 million tokens, and larger models",
            f"{TLM_NOTE} Two fine-tunings of each of three first stages.",
        ),
        Claim(
            "L3",
            "retrieved text is better than task text alone; small tasks want a larger K",
            "Table 4",
            "ChemProt 55.05 without, 77.21 with K = 50, more with 500 and 5000; AGNews best at 50",
            (Test("tlm-k", "K = 5 against task text alone", "points", 22.16, of_a_study(CHEMPROT_DEV, 3, 0.55)),),
            (f"{TLM} seeds=3 vary=k ks=[5]", "python benchmarks/claims/scores.py OUT tlm-k COMMAND"),
            "as L2, with a large and a small task and several K",
            f"{TLM_NOTE} Only whether retrieved text helps is tested, not which K is best.",
        ),
        Claim(
            "L4",
            "small tasks want a large rho_1; rho_2 must not be 0",
            "Tables 5, 6",
            "ChemProt 73.27 at rho_1 = 1, 83.30 at 99; 83.41 at rho_2 = 0, 83.64 at 20",
            (
                Test("tlm-rho", "rho_1 of 99 against 1", "points", 10.03, of_a_study(CHEMPROT_DEV, 3, 0.55)),
                Test("tlm-rho", "rho_2 of 20 against 0", "points", 0.23, of_a_study(CHEMPROT_DEV, 3, 0.55)),
            ),
            (
                f"{TLM} seeds=3 vary=rho_2 rho_2s=[0,20]",
                f"{TLM} seeds=3 vary=rho_1 rho_1s=[1,99]",
                "python benchmarks/claims/scores.py OUT tlm-rho COMMAND",
            ),
            "as L2",
            f"{TLM_NOTE} At rho_1 = 99 six batches of stage 1 are of the task. The paper's effect of rho_2 on ChemProt cannot be seen.",
        ),
        Claim(
            "L5",
            "two stages are better than one",
            "Table 7",
            "+0.53 (AGNews), +2.17 (IMDB), +14.34 (ChemProt), +19.37 (ACL-ARC) points",
            (
                Test(
                    "tlm-stages",
                    "two stages against the first alone",
                    "points",
                    14.34,
                    of_a_study(CHEMPROT_DEV, 3, 0.55),
                ),
            ),
            (f"{TLM} seeds=3 vary=stages", "python benchmarks/claims/scores.py OUT tlm-stages COMMAND"),
            "as L2",
            TLM_NOTE,
        ),
        Claim(
            "L6",
            "TLM's heads are more often positional and vertical",
            "Figure 3",
            "a drawing of one sentence",
            (
                Test(
                    "tlm-heads",
                    "share of maxima on neighbours and marks against a pretrained model",
                    "share",
                    None,
                    2**0.5 * of_a_mean(0.05, 3),
                ),
            ),
            (
                f"{TLM_LONGER} seeds=3 vary=retrieval",
                "acclimate adapt scratch corpus=TEXTS/general.jsonl --out OUT/general-SEED epochs=0 vocabulary=4000 layers=2 hidden=128 "
                "heads=2 initializer_range=0.08 dropout=0 attention_dropout=0 max_tokens=64 masking=0.3 whole_words=false plan.steps=1500 "
                "plan.batch=64 plan.rate=3e-3 plan.warmup=0.1 plan.seed=SEED",
                "python benchmarks/claims/heads.py TEXTS/domain-pubmed.jsonl --tlm CHECKPOINT... --pretrained OUT/general-SEED/checkpoint...",
            ),
            "models of 144 heads, as BERT-base, and more tokens",
            "First stages with BM25, of four heads each, and three encoders of the same size that saw as many tokens of general text. The paper "
            "compares with BERT and RoBERTa. After 600 steps of 32, 1.2 million tokens, none of the four heads of any of these six encoders was "
            "positional or vertical, so there was nothing to compare; this is five times as long. As no head "
            "passed the paper's bar of 90% of its maxima then either, the share of all maxima was stated as the figure, before it was looked at.",
        ),
    ),
    "PubMedBERT and BLURB: Gu et al. (2021)": (
        Claim(
            "P1",
            "an own vocabulary from scratch is better than going on from a general model",
            "Tables 6, 7",
            "BLURB score 79.87 with BERT's vocabulary, 81.10 with an own one (whole words)",
            (Test("scratch-square", "own vocabulary against general", "points", 1.23, NCBI_POWER),),
            (SQUARE, "python benchmarks/claims/scores.py OUT scratch-square COMMAND"),
            "three pretrainings a cell of at least 20 million tokens",
            f"{SQUARE_NOTE} Both vocabularies are pretrained from random weights on the same text.",
        ),
        Claim(
            "P2",
            "masking whole words is better than masking word pieces",
            "Table 7",
            "BLURB score 79.51 and 81.10 with an own vocabulary, 79.00 and 79.87 with BERT's",
            (Test("scratch-square", "whole words against word pieces", "points", 1.59, NCBI_POWER),),
            (SQUARE, "python benchmarks/claims/scores.py OUT scratch-square COMMAND"),
            "as P1",
            f"{SQUARE_NOTE} With the own vocabulary; as many pieces are masked of both.",
        ),
        Claim(
            "P3",
            "inputs are shorter with an own vocabulary",
            "Table 1, section 3.2",
            "of 17 terms 6 are whole in BERT's vocabulary, 17 in PubMedBERT's; no mean length",
            (
                Test("vocabularies", "tokens of an input that are saved", "%", None, of_a_mean(5.0, 13)),
                Test("vocabularies", "pieces of a word that are saved", "%", None, of_a_mean(5.0, 13)),
            ),
            (
                "acclimate data vocabulary TEXTS/biomedical.jsonl --out OUT/voc-biomedical",
                "acclimate data vocabulary TEXTS/general.jsonl --out OUT/voc-general",
                "python benchmarks/claims/vocabularies.py DIR OUT",
            ),
            "settled for these texts; other domains and sizes of vocabulary",
            "Two WordPiece vocabularies of 30,522 entries, learnt from 60 million characters each, so that only the text differs. Test inputs of the thirteen datasets. The interval is over datasets, two of which have the same sentences.",
        ),
        Claim(
            "P4",
            "adding full text lowers scores a little, and training longer makes up for it",
            "Table 8",
            "BLURB score 81.10 of abstracts, 80.93 with full text, 81.45 with longer training",
            (
                Test("scratch-full-text", "abstracts against abstracts and full text", "points", 0.17, NCBI_POWER),
                Test("scratch-full-text", "longer training against not", "points", 0.52, NCBI_POWER),
            ),
            (SQUARE, "python benchmarks/claims/scores.py OUT scratch-full-text COMMAND"),
            "an effect of 0.17 points is beyond thirteen datasets and three seeds",
            f"{SQUARE_NOTE} Both texts are one, with the vocabulary of the abstracts; longer is 1.6 times as long.",
        ),
        Claim(
            "P5",
            "adversarial pretraining lowers scores a little",
            "Table 9",
            "BLURB score 81.10 without, 80.68 with it; BC5-chem 93.33 and 93.17",
            (
                Test(
                    "scratch-adversarial",
                    "without the adversarial term against with it",
                    "points",
                    0.16,
                    of_a_study(5385, 5, 0.5),
                ),
            ),
            (
                f"{ADVERSARIAL} --out OUT/without",
                f"{ADVERSARIAL} --out OUT/with adversarial=10 adversarial_radius=1e-3 adversarial_step=1e-1",
                "acclimate study blurb OUT/with/checkpoint OUT/without/checkpoint --data DIR --out OUT 'datasets=[\"BC5-chem\"]' seeds=5 "
                "rows=1000 max_tokens=128 baseline=false search.rates=[] search.epochs=[] search.batches=[] finetune.preset=robust "
                "finetune.epochs=4 finetune.looks=1",
                "python benchmarks/claims/scores.py OUT scratch-adversarial COMMAND",
            ),
            "as P4",
            "Our list of claims had said that it helps; the paper says the opposite of its mean score, and so does this row. Encoders of 2 layers "
            "of 128 on 2 million tokens, one pretraining of each: the interval is about these two. At the paper's radius the term weighs nothing.",
        ),
        Claim(
            "P6",
            "a linear layer is no worse than an LSTM; BIO, BIOUL and IO are alike",
            "Tables 10, 11",
            "ChemProt 77.24 and 75.40; BC5-chem 93.33, 93.37, 93.11",
            (Test("choices-layers", "linear against LSTM on ChemProt", "points", 1.84, of_a_study(11_256, 3, 0.4)),),
            (
                f"{CHOICES} vary=layers 'datasets=[\"ChemProt\"]' rows=1000 seeds=3 finetune.looks=1 finetune.epochs=12 finetune.plan.rate=1.2e-4",
                "python benchmarks/claims/scores.py OUT choices-layers COMMAND",
            ),
            "whole training sets; that schemes are alike needs a bound",
            "1,000 rows of train, scored on dev. Tag schemes are not tested. After 4 epochs the linear layer had "
            "learnt nothing, so this was stated again with 12 before it was run.",
        ),
        Claim(
            "P7",
            "dummies or markers are better than the original text with [CLS]",
            "Table 12",
            "ChemProt 77.24 and 77.72 against 50.52, DDI 82.36 and 82.22 against 37.00",
            (
                Test(
                    "choices-relations",
                    "dummies against original text on ChemProt",
                    "points",
                    26.72,
                    of_a_study(11_256, 3, 0.6),
                ),
                Test(
                    "choices-relations",
                    "markers against original text on ChemProt",
                    "points",
                    27.20,
                    of_a_study(11_256, 3, 0.6),
                ),
            ),
            (
                f'{CHOICES} vary=relations \'datasets=["ChemProt"]\' rows=2000 seeds=3 \'variants=["dummies, first token", '
                '"original, first token", "markers, first token"]\' finetune.looks=1 finetune.plan.rate=1.2e-4',
                "python benchmarks/claims/scores.py OUT choices-relations COMMAND",
            ),
            "one task with a few thousand rows: the effect is large",
        ),
        Claim(
            "P8",
            "the order of models on BLURB",
            "Table 6",
            "PubMedBERT 81.10, BioBERT 80.29, SciBERT 78.80, BERT 75.99",
            (
                Test(
                    "blurb",
                    "biomedical encoder against general encoder",
                    "points",
                    3.36,
                    of_means(of_a_study(MENTIONS, 5, 0.6), of_a_study(4424, 5, 0.6)),
                ),
            ),
            (DAPT, BLURB, "python benchmarks/claims/scores.py OUT blurb COMMAND"),
            "all thirteen datasets, an encoder from scratch and one after DAPT",
            "BioBERT and BERT alone, of which the first goes on from the second: 89.13 and 85.67 on NCBI-disease, 84.70 and 81.44 on BC5-disease. "
            "Ours are the embedded encoder after DAPT on 2.5 million tokens, and the embedded encoder. 500 rows of each training set. "
            "At first GAD stood in the place of BC5-disease: no run learnt it from 500 rows, so it gave no verdict.",
        ),
    ),
    "STILT: Jeong and Hwang": (
        Claim(
            "S1",
            "most intermediate tasks do not help; tasks of entities gain a little",
            "Tables 2, 3",
            "BC5-chem from BERT 88.92, after others 89.23 to 89.66",
            (
                Test(
                    "stilt",
                    "entity tasks after another entity task against directly",
                    "points",
                    0.5,
                    of_means(of_a_study(787, 3, 0.5), of_a_study(3061, 3, 0.5)),
                ),
            ),
            (STILT, "python benchmarks/claims/intermediate.py OUT COMMAND"),
            "eleven tasks with whole training sets up to 4,000 rows, five seeds",
            STILT_NOTE,
        ),
        Claim(
            "S2",
            "which pairs help differs between BERT and PubMedBERT",
            "Tables 2, 3",
            "in words",
            (
                Test(
                    "stilt",
                    "spread of a pair's gains between encoders, above chance",
                    "points^2",
                    None,
                    of_a_mean(10.0, 6),
                ),
            ),
            (DAPT, STILT, "python benchmarks/claims/intermediate.py OUT COMMAND"),
            "S1 from two encoders",
            f"{STILT_NOTE} The second encoder is the embedded one after DAPT. The figure is the mean over pairs of the squared difference of "
            "the gains, less the square of its standard error; its interval is over pairs. Pairs whose target was not learnt are left out.",
        ),
    ),
}


@dataclass(frozen=True)
class Figure:
    """A figure of an outcome: a difference whose 95% interval counts what `over` says.

    p         two-sided p of a difference of 0
    smallest  smallest true difference that this run would have seen with a probability of 80%, from the spread it found
    learnt    False if it rests on a target that no fine-tuning learnt
    """

    difference: float
    low: float
    high: float
    p: float
    smallest: float
    over: str
    learnt: bool = True


@dataclass(frozen=True)
class Advice:
    """What our runs say to somebody with such data, by claims. says: with a place {} for each of `figures`, (outcome, figure)"""

    has: str
    says: str
    figures: tuple[tuple[str, str], ...]
    claims: tuple[str, ...]


ADVICE = (
    Advice(
        "a few hundred labels, of a domain that the encoder does not know",
        "TAPT, which takes minutes: {} points of entity F1 with 256 sentences of NCBI-disease, TAPTER {}. TAPTER is no different from TAPT ({}), nor from TAPTER with its "
        "vectors permuted, so the domain's vectors are not what helps; take it where you have good ones.",
        (
            ("tapter-ncbi", "TAPT against untouched"),
            ("tapter-ncbi", "TAPTER against untouched"),
            ("tapter-ncbi", "TAPTER against TAPT"),
        ),
        ("T1", "T6"),
    ),
    Advice(
        "a few hundred labels, of text like that which the encoder was trained on",
        "Adapt last: with 500 rows of SST-2 the untouched encoder against TAPTER is {}. More labels, a larger encoder or more test rows "
        "(`acclimate doctor` says how many) are worth more.",
        (("tapter-general", "untouched against TAPTER"),),
        ("T3",),
    ),
    Advice(
        "some million tokens of raw text of the domain",
        "DAPT: {} points after 2.5 million tokens, 500 labels, on NCBI-disease and BC5-disease.",
        (("blurb", "biomedical encoder against general encoder"),),
        ("P8",),
    ),
    Advice(
        "the same, and general knowledge that must stay",
        "DAPT at a third of the rate. Loss on general text at equal loss on reviews, less that with DGA's soft mask, in nats: DAPT at a third of the rate {}, plain DAPT {}, a random mask {}. "
        "So the mask forgets a little less than plain DAPT, no less than a mask by chance, and far more than a lower rate. On the task AI DAPT is {} points from the untouched encoder and DGA {} from DAPT, at 3.7 times the cost of a step.",
        (
            ("dga-soft-mask", "general loss of MLM at a lower rate less that of the soft mask"),
            ("dga-soft-mask", "general loss of MLM less that of the soft mask"),
            ("dga-soft-mask", "general loss of a random mask less that of the soft mask"),
            ("dga-tasks", "MLM against untouched"),
            ("dga-tasks", "DGA against MLM"),
        ),
        ("G1", "G4"),
    ),
    Advice(
        "no encoder for your language, a general corpus, and labels",
        "TLM, if nothing else is there: at one 670th of the FLOPs of the embedded encoder it is {} points from it, at a third of them, on a GPU, 2.8. Two stages matter ({} against the first alone); "
        "BM25 was worse than random documents at the small size, and is not settled at a larger one ([a GPU's report](../benchmarks/reports/2026-11-26-gpu.md)).",
        (("tlm-tasks", "TLM against the embedded encoder"), ("tlm-stages", "two stages against the first alone")),
        ("L1", "L2", "L5"),
    ),
    Advice(
        "gigabytes of domain text, and GPUs",
        "From scratch with a vocabulary of your own: it saves {} % of the tokens, and equal pretraining gives {} points more than with a general vocabulary. The run had two million tokens, and "
        "its encoders had learnt little: 29 points of entity F1, where the embedded encoder has 50 with half the labels. With 32 million tokens, on a GPU, two of three runs had 60 with twice the labels.",
        (("vocabularies", "tokens of an input that are saved"), ("scratch-square", "own vocabulary against general")),
        ("P1", "P3"),
    ),
    Advice(
        "another labelled task",
        "Entity tasks after another entity task: {} points.",
        (("stilt", "entity tasks after another entity task against directly"),),
        ("S1",),
    ),
)


@cache
def outcome(name: str) -> Mapping[str, Any] | None:
    """Return the stored outcome; None if there is none yet."""
    path = OUTCOMES / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def figure(test: Test) -> Figure | None:
    """Return the figure of the test; None if it was not measured, or rests on a target that was not learnt."""
    stored = outcome(test.outcome)
    if stored is None or test.figure not in stored["figures"]:
        return None
    found = Figure(**stored["figures"][test.figure])
    return found if found.learnt else None


def verdict(figures: Sequence[Figure | None]) -> Verdict:
    """Return the verdict on a claim of which these are all figures; above 0 is the paper's side.

    `not run` if one is missing or was not learnt. `holds` if every interval lies above 0: no correction is needed where
    all must. `opposite` if an interval lies below 0 and its p, after Holm over the figures of the claim, is under 5%.
    Else `not visible`.
    """
    there = [each for each in figures if each is not None and each.learnt]
    if not there or len(there) < len(figures):
        return "not run"
    if all(each.low > 0 for each in there):
        return "holds"
    corrected = holm([each.p for each in there])
    if any(each.high < 0 and p < LEVEL for each, p in zip(there, corrected, strict=True)):
        return "opposite"
    return "not visible"


def page() -> str:
    rows = [(claim, [figure(test) for test in claim.tests]) for claims in CLAIMS.values() for claim in claims]
    verdicts = [verdict(figures) for _, figures in rows]
    counts = ", ".join(f"{verdicts.count(each)} {each}" for each in ("holds", "not visible", "opposite", "not run"))
    lines = [
        "# What the five papers claim, and what we saw",
        "",
        f"{len(rows)} claims: {counts}. `docs/claims.py` writes this page from the outcomes in `benchmarks/claims/outcomes`, "
        "and a test holds it to them. Each claim, its figures and the rule of its verdict were committed before its outcome was there (TAPTER's run had begun then, and P3's vocabularies were learnt); "
        "[table by table](papers.md) has every table of the papers.",
        "",
        "* **holds**: the 95% interval of each figure lies on the paper's side of 0.",
        "* **opposite**: an interval lies on the other side, also after Holm's correction over the claim's figures.",
        "* **not visible**: neither. An effect smaller than the smallest that could be seen may well be there.",
        "* **not run**: no outcome yet, or none on a target that fine-tuning learnt.",
        "",
        "Figures are differences, above 0 on the paper's side. *Could see* is the smallest true difference that is seen with a "
        "probability of 80%: as expected before the run, and from the spread that the run found. DIR stands for the folder of "
        "the datasets ([blurb](blurb.md)), TEXTS for what `benchmarks/claims/texts.py` writes, MODEL for a checkpoint, OUT for "
        "the directory of the run.",
        "",
    ]
    for paper, claims in CLAIMS.items():
        lines += [
            f"## {paper}",
            "",
            "| | claim | in the paper | ours, with 95% interval | verdict | could see: before, after | cost, date |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [_row(claim) for claim in claims]
        lines.append("")
    lines += ["## Commands, and what would settle each claim", ""]
    for claim, _ in rows:
        commands = "; ".join(f"`{command}`" for command in claim.commands)
        remarks = [found["remark"] for test in claim.tests if (found := outcome(test.outcome)) and found["remark"]]
        note = "".join(f" {sentence}" for sentence in dict.fromkeys((claim.note, *remarks)) if sentence)
        lines.append(f"* **{claim.key}**: {commands}.{note} To settle it: {claim.settle}.")
    return "\n".join(lines) + "\n"


def _row(claim: Claim) -> str:
    figures = [figure(test) for test in claim.tests]
    stored = [found for name in dict.fromkeys(test.outcome for test in claim.tests) if (found := outcome(name))]
    given = verdict(figures)
    measured = "<br>".join(
        f"{test.figure}: "
        + (
            "-"
            if each is None
            else f"{each.difference:+.3g} [{each.low:+.3g}, {each.high:+.3g}] {test.unit}, over {each.over}"
        )
        for test, each in zip(claim.tests, figures, strict=True)
    )
    seen = "<br>".join(
        f"{_number(test.planned)}, {_number(each.smallest if each else None)}{_against(test, each)}"
        for test, each in zip(claim.tests, figures, strict=True)
    )
    cost = "; ".join(f"{found['processor_seconds']:,.0f} s, {found['date']}" for found in stored)
    cells = (claim.key, claim.claim, f"{claim.where}: {claim.paper}", measured, f"**{given}**", seen, cost or "-")
    return f"| {' | '.join(cells)} |"


def _against(test: Test, found: Figure | None) -> str:
    """Return whether the run could have seen the paper's effect, and whether ours is smaller, where the paper states one and there was a run."""
    if test.size is None or found is None:
        return ""
    seen = "could be seen" if found.smallest <= test.size else "could not be seen"
    smaller = "; ours is smaller" if found.high < test.size else ""
    return f" (the paper's {test.size:g}: {seen}{smaller})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def which() -> str:
    """Return which-method.md with what the outcomes say."""
    lines = ["| you have | what our runs say | claims |", "|---|---|---|"]
    for each in ADVICE:
        found = [_interval(name, of) for name, of in each.figures]
        claims = ", ".join(each.claims)
        lines.append(f"| {each.has} | {each.says.format(*found)} | [{claims}](claims.md) |")
    before, _, rest = WHICH.read_text(encoding="utf-8").partition(BEGIN)
    return "\n".join([f"{before}{BEGIN}", *lines, f"{END}{rest.partition(END)[2]}"])


def _interval(name: str, of: str) -> str:
    stored = outcome(name)
    if stored is None:
        return "not run yet"
    found = stored["figures"][of]
    return f"{found['difference']:+.2g} [{found['low']:+.2g}, {found['high']:+.2g}]"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    WHICH.write_text(which(), encoding="utf-8")
