# ruff: noqa: E501  the rows of a table
"""Write docs/claims.md, a page per paper in docs/claims/, and the part of which-method.md that rests on the verdicts.

python docs/claims.py

A claim is defined here before its outcome exists: the figures that decide it, what the paper says of each, how large the paper has
it, the smallest effect that the run was expected to see, and what the run must have done for the claim to be tested at all. The
outcomes are files of benchmarks/claims/outcomes, written by the scripts of benchmarks/claims. The verdict follows by `judge`, never
by hand. tests/test_claims.py compares the pages with their sources.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from scipy import stats

from acclimate.methods.scratch import LITTLE
from acclimate.statistics.power import guessed
from acclimate.statistics.significance import holm
from acclimate.statistics.variance import LEVEL, noncentrality

PAGE = Path(__file__).with_name("claims.md")
WHICH = Path(__file__).with_name("which-method.md")
BEGIN, END = "<!-- by docs/claims.py -->", "<!-- end of what docs/claims.py writes -->"  # in which-method.md
OUTCOMES = Path(__file__).parents[1] / "benchmarks" / "claims" / "outcomes"
DETAILS = Path(__file__).with_name("claims")  # a page per paper
POWER = 0.8  # probability with which the smallest effect is seen
ADAPTED = 0.3  # nats by which masked language modelling must lower the domain's held-out loss

Need = Literal["adapted", "pretrained"]
Verdict = Literal[
    "holds",
    "opposite",
    "no such effect",
    "not visible",
    "not adapted",
    "not pretrained",
    "not learnt",
    "beyond two cores",
    "incomplete",
]
MEANINGS: dict[Verdict, str] = {
    "holds": "the 95% interval of each figure lies where the paper's sentence puts it: above 0, or within the stated bound",
    "opposite": "an interval contradicts the paper, also after Holm's correction over the claim's figures",
    "no such effect": "an interval excludes effects above the bound, either way. The bound is half the paper's effect unless the page of the paper states another",
    "not visible": "none of these. An effect below the smallest detectable one may exist. The same verdict is used when the run did not record what the claim needs",
    "not adapted": f"masked language modelling lowered the loss on held-out text of the domain by less than {ADAPTED} nats, so the run compares models that did not change",
    "not pretrained": f"the encoder's loss is above {LITTLE:.0%} of that of word frequencies alone, so the run compares encoders that learned little",
    "not learnt": "no fine-tuning learned the task",
    "beyond two cores": "the paper's effect is too small for a run on two cores. This was stated before the run, with the cost of seeing it",
    "incomplete": "a figure that the paper's sentence needs was not measured",
}


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
    """A figure that decides the claim: a difference of two things.

    outcome  file of benchmarks/claims/outcomes without ".json"; figure: its key there
    unit     "times": the figure is the logarithm of a ratio
    size     the figure that the paper has, in the same unit; None: it states none
    planned  smallest figure that the run was expected to see, stated before it; None: not stated yet
    says     what the paper says of the figure: above 0 ("more"), above -bound ("no less") or within the bound ("alike")
    bound    effects below it, either way, count as none; None: half of `size`
    beyond   what it would cost to see the paper's effect, if two cores cannot; such a figure decides nothing
    """

    outcome: str
    figure: str
    unit: str
    size: float | None = None
    planned: float | None = None
    says: Literal["more", "no less", "alike"] = "more"
    bound: float | None = None
    beyond: str = ""

    @property
    def least(self) -> float:
        """The bound under which an effect counts as none; 0 if neither a bound nor the paper's effect is stated."""
        return self.bound or (self.size or 0.0) / 2


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, or a control of ours.

    paper     the figures as the paper has them
    tests     the figures that decide the claim: together they say what the paper's sentence says
    settle    what is needed to settle it
    commands  as they are typed, but for DIR (datasets), TEXTS (raw texts by benchmarks/claims/texts.py), MODEL and OUT
    needs     what the run must have done for the claim to be tested: `adapted` the encoder to the domain, `pretrained` it
    controls  further figures, which decide nothing
    note      what our run differs in
    """

    key: str
    claim: str
    where: str
    paper: str
    tests: tuple[Test, ...]
    commands: tuple[str, ...]
    settle: str
    note: str = ""
    needs: tuple[Need, ...] = ()
    controls: tuple[Test, ...] = ()


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
    "Micro-F1 on the 2,427 dev rows of ChemProt with 13 classes. TLM has 2 layers of 128, where the paper has 12 of 768; a first stage reads "
    "1.2 million tokens, the paper's small scale about a thousand times as many. Unless the claim is about them, rho_1 is 3 and rho_2 is 20, because "
    "ChemProt's own rho_1, 999, would leave no batch of the task among the 600 steps. K is 5, because the general text has 130,000 documents."
)
CHEMPROT_DEV = 2427
DGA = (
    "acclimate study dga AI --data DIR --model embedded --corpus TEXTS/domain-ai.jsonl --out OUT --max-tokens 96 seeds=5 rows=600 "
    "adapt.max_tokens=64 adapt.plan.steps=200 adapt.plan.batch=16 adapt.dropout=0.05 adapt.attention_dropout=0 dga.subset=1000 "
    "finetune.preset=robust finetune.pooling=mean finetune.epochs=4 finetune.looks=1"
)
DGA_FEW = f'{DGA} \'contestants=["MLM", "DGA", "DGA (w/o contrast)", "DGA (random mask)"]\''
DGA_NOTE = (
    "Macro-F1 on AI (SciERC), 2,388 test rows, with 600 rows of train. One adaptation of each contestant, 200 steps of 16 rows; the paper has "
    "2,500 of 256. The interval ignores the variance between adaptations."
)
AI_POWER = of_a_study(2388, 5, 0.6)
SQUARE = (
    "acclimate study pubmedbert --corpus TEXTS/abstracts.jsonl --general TEXTS/general.jsonl --data DIR --out OUT "
    '\'models=["general vocabulary, whole words", "own vocabulary, word pieces", "own vocabulary, whole words"]\' '
    "full_texts=TEXTS/full-texts.jsonl 'datasets=[\"NCBI-disease\"]' seeds=3 adapt_seeds=3 rows=1000 max_tokens=128 search.rates=[] "
    "search.epochs=[] search.batches=[] scratch.vocabulary=4000 scratch.tokens=2000000 scratch.plan.batch=16 scratch.plan.rate=3e-3 "
    "finetune.epochs=4 finetune.looks=2"
)
ADVERSARIAL = (
    "acclimate adapt scratch corpus=TEXTS/abstracts.jsonl vocabulary=4000 layers=2 hidden=128 heads=2 initializer_range=0.08 dropout=0 "
    "attention_dropout=0 whole_words=true epochs=0 plan.steps=1200 plan.batch=16 plan.rate=3e-3 plan.warmup=0.1"
)
SQUARE_NOTE = (
    "Encoders of 2 layers of 128, with three pretrainings per model on 2 million tokens of abstracts; the paper has about a hundred "
    "billion. Entity F1 on NCBI-disease with 1,000 training rows. Differences of one or two points cannot be detected."
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
STILT_NOTE = "Three tasks, two of them of entities, with 400 training rows, scored on dev. The paper's gains of half a point cannot be detected."
CHOICES = "acclimate study choices embedded --data DIR --out OUT"
MENTIONS = 960  # in NCBI-disease's test set; mentions stand in for items, of which entity F1 has no fixed number
NCBI_POWER = of_a_study(MENTIONS, 3, 0.6)

CLAIMS: dict[str, tuple[Claim, ...]] = {
    "TAPTER: Nishida et al. (2021)": (
        Claim(
            "T1",
            "TAPTER is better than TAPT, and TAPT than fine-tuning alone",
            "Table 2",
            "MRR on BioASQ: fine-tuning alone 43.87, TAPT 44.69, TAPTER 45.88 (+0.82 and +1.19 points)",
            (
                Test("tapter-ncbi", "TAPT against untouched", "points", 0.82, NCBI_POWER),
                Test("tapter-ncbi", "TAPTER against TAPT", "points", 1.19, NCBI_POWER),
            ),
            TAPTER_RUN,
            "BioASQ after SQuAD with ten adaptations, or several tasks with whole training sets",
            "Entity F1 on NCBI-disease with 256 sentences of train, not BioASQ. Gradients of both are unclipped. Fine-tuning has 160 steps, fewer than the preset's 500.",
            ("adapted",),
        ),
        Claim(
            "T2",
            "the gain is smaller if the model knows the domain",
            "Table 2",
            "TAPTER against fine-tuning: +2.01 points of MRR from BERT, +0.21 from BioBERT",
            (
                Test(
                    "tapter-after-dapt",
                    "gain of TAPTER minus its gain after DAPT",
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
            "the run of T1 from both encoders, with whole training sets and ten adaptations",
            "The run of T1 again, from the embedded encoder after DAPT on 2.5 million biomedical tokens; its gain minus this one. The two runs are "
            "independent, so a difference of 1.8 points cannot be detected.",
            ("adapted",),
        ),
        Claim(
            "T3",
            "nothing is gained if the task is general",
            "Table 3",
            "F1 on SQuAD from BERT: fine-tuning alone 87.55, TAPT 87.12, TAPTER 87.19 (-0.36 points)",
            (
                Test(
                    "tapter-general",
                    "untouched against TAPTER",
                    "points",
                    0.36,
                    of_a_study(872, 3, 0.8),
                    says="no less",
                    bound=1.0,
                ),
            ),
            (
                "acclimate study tapter SST-2 --data DIR --model embedded --out OUT --max-tokens 64 rows=500 seeds=3 adapt_seeds=3 "
                "'contestants=[\"TAPTER\"]' tapter.scale=given tapter.skipgram.dim=100 tapter.epochs=10 tapter.plan.batch=16 tapter.max_tokens=64 "
                "tapter.looks=1 finetune.preset=robust finetune.looks=2 finetune.epochs=10",
                "python benchmarks/claims/scores.py OUT tapter-general COMMAND",
            ),
            "the run of T1 on a general task. To show equality within the bound takes many test rows",
            "Accuracy on SST-2 with 500 rows of train, not SQuAD. The word vectors are trained on the task's texts alone. A gain of less than a "
            "point, half of the gain in the paper's own domain, counts as none. This bound was set after the run.",
            ("adapted",),
        ),
        Claim(
            "T4",
            "the word-vector term of the loss falls faster than the language modelling term",
            "Figure 1",
            "a drawing without figures",
            (
                Test(
                    "tapter-ncbi",
                    "relative fall of the word-vector term minus that of the language modelling term",
                    "of its first value",
                    None,
                    of_a_mean(0.05, 3),
                ),
            ),
            TAPTER_RUN,
            "more adaptations or tasks",
            "The figure is the share of its first value that each term lost on dev by the end of adapting. The interval is over adaptations only.",
        ),
        Claim(
            "T5",
            "embeddings move further than under TAPT",
            "Appendix B",
            "mean distance .0576 under TAPT, .172 under TAPTER: 2.99 times as far",
            (
                Test(
                    "tapter-ncbi",
                    "ratio of distances, all pieces",
                    "times",
                    math.log(2.99),
                    of_a_mean(0.1, 3),
                ),
                Test(
                    "tapter-ncbi",
                    "ratio of distances, pieces of the texts",
                    "times",
                    math.log(2.99),
                    of_a_mean(0.1, 3),
                ),
            ),
            TAPTER_RUN,
            "more tasks; whether they move towards fastText is not measured here",
            "The second figure is over the pieces that occur in the texts; the paper has all words. The interval is over adaptations only.",
        ),
        Claim(
            "T6",
            "the meaning of the vectors matters: permuted ones help less (ours)",
            "-",
            "the paper has no such control",
            (Test("tapter-ncbi", "TAPTER against TAPTER permuted", "points", None, NCBI_POWER),),
            TAPTER_RUN,
            "the same as for T1",
            "The same run as for T1.",
            ("adapted",),
        ),
    ),
    "DGA: Ke et al. (2022)": (
        Claim(
            "G1",
            "DGA is better than MLM, and MLM than no adapting",
            "Table 2",
            "means over six tasks: untouched 73.64, MLM 76.40, DGA 78.74; on AI: untouched 60.98, MLM 68.97, DGA 71.99 (+7.99 and +3.02 points)",
            (
                Test("dga-tasks", "MLM against untouched", "points", 7.99, AI_POWER),
                Test("dga-tasks", "DGA against MLM", "points", 3.02, AI_POWER),
            ),
            (DGA_FEW, "python benchmarks/claims/scores.py OUT dga-tasks COMMAND"),
            "six tasks, five seeds, several adaptations",
            f"{DGA_NOTE} A second run, planned before it began, had 400 steps at a higher rate (adapt.plan.steps=400 "
            "adapt.plan.rate=5e-4), three adaptations and three seeds, MLM and DGA alone. The scores that follow are those of the first run.",
            ("adapted",),
        ),
        Claim(
            "G2",
            "each of seven ablations is worse than DGA",
            "Table 3",
            "means: ablations 76.08 to 78.42, DGA 78.74; on AI: without contrast 68.25, random mask 69.51, DGA 71.99",
            (
                Test("dga-ablations", "DGA against DGA (w/o contrast)", "points", 3.74, AI_POWER),
                Test("dga-ablations", "DGA against DGA (random mask)", "points", 2.48, AI_POWER),
            ),
            (DGA_FEW, "python benchmarks/claims/scores.py OUT dga-ablations COMMAND"),
            "the other five ablations; the smallest effect in the paper is 0.32 points",
            f"{DGA_NOTE} Two of the seven ablations.",
            ("adapted",),
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
            "the run of G1 on six tasks with several adaptations",
            f"{DGA_NOTE} The figure compares the order of the paper's eleven rows on AI. Chance in the scores makes the measured correlation smaller than the true one.",
            ("adapted",),
        ),
        Claim(
            "G4",
            "soft-masking preserves general knowledge",
            "section 3",
            "no figure",
            (
                Test(
                    "dga-soft-mask",
                    "general loss of MLM minus that of the soft mask",
                    "nats",
                    None,
                    of_a_mean(0.005, 3),
                ),
            ),
            ("python benchmarks/claims/soft_mask.py TEXTS OUT",),
            "more steps, other domains, larger encoders",
            "The mask alone, without the contrast, on 300 steps of 16 texts of reviews. The mask multiplies updates, because AdamW "
            "cancels factors on gradients ([DGA](../methods/dga.md)). The lower rate is a third of the usual one. Importance is normalised by min-max, so the least "
            "important heads are not protected.",
            ("adapted",),
            (
                Test("dga-soft-mask", "general loss of MLM at a lower rate minus that of the soft mask", "nats"),
                Test("dga-soft-mask", "general loss of a random mask minus that of the soft mask", "nats"),
            ),
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
            "larger encoders; the embedded one has 36 heads, RoBERTa-base 144",
            "News replaces Phone, and electronics replaces Camera. The interval is a jackknife over domains.",
        ),
    ),
    "TLM: Yao et al. (2022)": (
        Claim(
            "L1",
            "TLM scores like fine-tuned pretrained models at a fraction of the FLOPs",
            "Table 2",
            "small scale: mean of eight tasks 83.78 against 83.82 of BERT-Large, at 1/33 of the FLOPs",
            (Test("tlm-tasks", "TLM against the embedded encoder", "points", None, of_a_study(3469, 3, 0.6)),),
            (
                f"{TLM} seeds=3 vary=scale --model embedded tlm.finetune.preset=robust",
                "python benchmarks/claims/scores.py OUT tlm-tasks COMMAND",
            ),
            "first stages of at least 20 million tokens, several tasks",
            f"{TLM_NOTE} On test, with the preset robust for both.",
            ("pretrained",),
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
            ("pretrained",),
        ),
        Claim(
            "L3",
            "retrieved text is better than task text alone; small tasks want a larger K",
            "Table 4",
            "ChemProt: task text alone 55.05, K = 50 77.21, more with 500 and 5000; AGNews is best with 50",
            (Test("tlm-k", "K = 5 against task text alone", "points", 22.16, of_a_study(CHEMPROT_DEV, 3, 0.55)),),
            (f"{TLM} seeds=3 vary=k ks=[5]", "python benchmarks/claims/scores.py OUT tlm-k COMMAND"),
            "the same as for L2, with a large and a small task and several K",
            f"{TLM_NOTE} Only whether retrieved text helps is tested, not which K is best.",
            ("pretrained",),
        ),
        Claim(
            "L4",
            "small tasks want much external text (rho_1) and language modelling on their own (rho_2)",
            "Tables 5, 6",
            "ChemProt: rho_1 = 1 73.27, rho_1 = 99 83.30; rho_2 = 0 83.41, rho_2 = 20 83.64",
            (
                Test("tlm-rho", "rho_1 of 99 against 1", "points", 10.03, of_a_study(CHEMPROT_DEV, 3, 0.55)),
                Test(
                    "tlm-rho",
                    "rho_2 of 20 against 0",
                    "points",
                    0.23,
                    of_a_study(CHEMPROT_DEV, 3, 0.55),
                    beyond="a first stage of either kind some 570 times, 20 core-hours at 1.2 million tokens and some 400 at 24 million",
                ),
            ),
            (
                f"{TLM} seeds=3 vary=rho_2 rho_2s=[0,20]",
                f"{TLM} seeds=3 vary=rho_1 rho_1s=[1,99]",
                "python benchmarks/claims/scores.py OUT tlm-rho COMMAND",
            ),
            "the same as for L2",
            f"{TLM_NOTE} At rho_1 = 99 six batches of stage 1 are of the task. The paper's effect of rho_2 on ChemProt cannot be detected.",
            ("pretrained",),
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
            "the same as for L2",
            TLM_NOTE,
            ("pretrained",),
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
                    "of all maxima",
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
            "compares with BERT and RoBERTa. After 600 steps of 32 rows, 1.2 million tokens, none of the four heads of any of these six encoders was "
            "positional or vertical, so there was nothing to compare. This run is five times as long. No head "
            "passed the paper's bar of 90% of its maxima then either. So the share of all maxima was chosen as the figure, before it was computed.",
            ("pretrained",),
        ),
    ),
    "PubMedBERT and BLURB: Gu et al. (2021)": (
        Claim(
            "P1",
            "an own vocabulary from scratch is better than continuing from a general model",
            "Tables 6, 7",
            "BLURB score: BERT's vocabulary 79.87, own vocabulary 81.10 (whole words)",
            (
                Test(
                    "scratch-square",
                    "own vocabulary from scratch against continuing from a general encoder",
                    "points",
                    1.23,
                ),
            ),
            (SQUARE, "python benchmarks/claims/scores.py OUT scratch-square COMMAND"),
            "three pretrainings a cell of at least 20 million tokens",
            f"{SQUARE_NOTE} Both vocabularies were pretrained from random weights on the same text, so the paper's comparison was not run.",
            ("pretrained",),
            (Test("scratch-square", "own vocabulary against general", "points", 1.23, NCBI_POWER),),
        ),
        Claim(
            "P2",
            "masking whole words is better than masking word pieces",
            "Table 7",
            "BLURB score: own vocabulary 79.51 with pieces and 81.10 with whole words, BERT's 79.00 and 79.87",
            (Test("scratch-square", "whole words against word pieces", "points", 1.59, NCBI_POWER),),
            (SQUARE, "python benchmarks/claims/scores.py OUT scratch-square COMMAND"),
            "the same as for P1",
            f"{SQUARE_NOTE} With the own vocabulary; both mask the same number of pieces.",
            ("pretrained",),
        ),
        Claim(
            "P3",
            "inputs are shorter with an own vocabulary",
            "Table 1, section 3.2",
            "BERT's vocabulary has 6 of 17 terms as whole words, PubMedBERT's all 17; no mean length",
            (
                Test("vocabularies", "tokens of an input that are saved", "%", None, of_a_mean(5.0, 13)),
                Test("vocabularies", "pieces of a word that are saved", "%", None, of_a_mean(5.0, 13)),
            ),
            (
                "acclimate data vocabulary TEXTS/biomedical.jsonl --out OUT/voc-biomedical",
                "acclimate data vocabulary TEXTS/general.jsonl --out OUT/voc-general",
                "python benchmarks/claims/vocabularies.py DIR OUT",
            ),
            "it is settled for these texts; open are other domains and sizes of vocabulary",
            "Two WordPiece vocabularies of 30,522 entries, each learned from 60 million characters, so only the text differs. They split the test inputs of the thirteen datasets. The interval is over datasets, two of which have the same sentences.",
        ),
        Claim(
            "P4",
            "adding full text lowers scores a little, and training longer makes up for it",
            "Table 8",
            "BLURB score: abstracts 81.10, with full text 80.93, with longer training 81.45",
            (
                Test(
                    "scratch-full-text",
                    "abstracts against abstracts and full text",
                    "points",
                    0.17,
                    NCBI_POWER,
                    beyond="some 2,200 pretrainings on either text, 134 core-hours at 2 million tokens and ten times as many at 20 million",
                ),
                Test(
                    "scratch-full-text",
                    "longer training against not",
                    "points",
                    0.52,
                    NCBI_POWER,
                    beyond="some 85 pretrainings of either length, 5 core-hours at 2 million tokens and ten times as many at 20 million",
                ),
            ),
            (SQUARE, "python benchmarks/claims/scores.py OUT scratch-full-text COMMAND"),
            "an effect of 0.17 points is beyond thirteen datasets and three seeds",
            f"{SQUARE_NOTE} Abstracts and full texts are one corpus, with the vocabulary of the abstracts. Longer training has 1.6 times the steps.",
            ("pretrained",),
        ),
        Claim(
            "P5",
            "adversarial pretraining lowers scores a little",
            "Table 9",
            "BLURB score: without the adversarial term 81.10, with it 80.68; BC5-chem: without 93.33, with 93.17",
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
            "the same as for P4",
            "The paper says that the term lowers its mean score, and so does this row. Encoders of 2 layers "
            "of 128 on 2 million tokens, one pretraining of each: the interval ignores the variance between pretrainings. At the paper's radius the term has no weight.",
            ("pretrained",),
        ),
        Claim(
            "P6",
            "a linear layer is no worse than an LSTM; BIO, BIOUL and IO are alike",
            "Tables 10, 11",
            "ChemProt: linear layer 77.24, LSTM 75.40; BC5-chem: BIO 93.33, BIOUL 93.37, IO 93.11",
            (
                Test(
                    "choices-layers",
                    "linear against LSTM on ChemProt",
                    "points",
                    1.84,
                    of_a_study(11_256, 3, 0.4),
                    says="no less",
                    bound=1.0,
                ),
                Test("choices-schemes", "BIO against BIOUL on BC5-chem", "points", -0.04, says="alike", bound=1.0),
                Test("choices-schemes", "BIO against IO on BC5-chem", "points", 0.22, says="alike", bound=1.0),
            ),
            (
                f"{CHOICES} vary=layers 'datasets=[\"ChemProt\"]' rows=1000 seeds=3 finetune.looks=1 finetune.epochs=12 finetune.plan.rate=1.2e-4",
                "python benchmarks/claims/scores.py OUT choices-layers COMMAND",
                f"{CHOICES} vary=schemes 'datasets=[\"BC5-chem\"]' rows=1000 seeds=3 finetune.looks=1",
                "python benchmarks/claims/scores.py OUT choices-schemes COMMAND",
            ),
            "whole training sets, and a run of the schemes",
            "1,000 rows of train, scored on dev. Differences below a point count as none. Tag schemes were not run yet. After 4 epochs the linear layer had failed to learn, so the plan was "
            "changed to 12 before the run.",
        ),
        Claim(
            "P7",
            "dummies or markers are better than the original text with [CLS]",
            "Table 12",
            "ChemProt: dummies 77.24, markers 77.72, original text 50.52; DDI: dummies 82.36, markers 82.22, original text 37.00",
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
            "biomedical encoders are ahead of general ones on BLURB, and those from scratch ahead of all",
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
                Test("blurb", "encoder from scratch against biomedical encoder", "points", 0.81),
            ),
            (DAPT, BLURB, "python benchmarks/claims/scores.py OUT blurb COMMAND"),
            "all thirteen datasets, an encoder from scratch and one after DAPT",
            "In the paper BioBERT, which continues from BERT, has 89.13 on NCBI-disease and 84.70 on BC5-disease; BERT has 85.67 and 81.44. "
            "We compare the embedded encoder after DAPT on 2.5 million tokens with the embedded encoder. 500 rows of each training set. "
            "At first GAD was used in place of BC5-disease: no run learned it from 500 rows, so it gave no verdict. An encoder from scratch is "
            "missing, so the paper's order of three models is not tested.",
            ("adapted",),
        ),
    ),
    "STILT: Jeong and Hwang": (
        Claim(
            "S1",
            "tasks of entities gain a little from another task of entities (most other tasks do not help)",
            "Tables 2, 3",
            "BC5-chem from BERT: alone 88.92, after another entity task 89.23 to 89.66",
            (
                Test(
                    "stilt",
                    "entity tasks after another entity task against directly",
                    "points",
                    0.5,
                    of_means(of_a_study(787, 3, 0.5), of_a_study(3061, 3, 0.5)),
                ),
            ),
            (DAPT, STILT, "python benchmarks/claims/intermediate.py OUT COMMAND"),
            "eleven tasks with whole training sets up to 4,000 rows, five seeds",
            f"{STILT_NOTE} The part in brackets is not tested.",
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
            "the gains, minus the square of its standard error. Its interval is over pairs. Pairs whose target no run learned are omitted.",
            ("adapted",),
        ),
    ),
}


@dataclass(frozen=True)
class Figure:
    """A figure of an outcome: a difference whose 95% interval counts what `over` says.

    p         two-sided p of a difference of 0
    smallest  smallest true difference that this run would have seen with a probability of 80%, from the spread it found
    learnt    False if it rests on a task that no fine-tuning learned
    """

    difference: float
    low: float
    high: float
    p: float
    smallest: float
    over: str
    learnt: bool = True


class Judgement(NamedTuple):
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Advice:
    """What our runs say to somebody with such data.

    says     plain words with a place {} for each of `figures`, (outcome, figure), whose difference it gets
    rests_on claim -> the verdict with which the words agree: another verdict asks for other words
    """

    has: str
    says: str
    rests_on: Mapping[str, Verdict]
    figures: tuple[tuple[str, str], ...] = ()


ADVICE = (
    Advice(
        "a few hundred labels, in a domain that the encoder does not know",
        "TAPT, which takes minutes. With 256 sentences of NCBI-disease, TAPT and TAPTER both scored about {:.0f} points above the untouched model. TAPTER's interval just excludes 0, TAPT's does not. "
        "The run could not show a difference between the two, or between TAPTER with its vectors and with permuted vectors. Take TAPTER if you have good vectors.",
        {"T1": "not visible", "T6": "not visible"},
        (("tapter-ncbi", "TAPT against untouched"),),
    ),
    Advice(
        "a few hundred labels, on text like the encoder's training text",
        "First try more labels, a larger encoder or more test rows; `acclimate doctor` says how many rows. TAPTER showed no gain on SST-2, but the "
        "run could have missed a gain of two points.",
        {"T3": "not visible"},
    ),
    Advice(
        "some million tokens of raw text of the domain",
        "DAPT. It gained about {:.0f} points on two tasks with 500 labels each. We did not compare it with an encoder from scratch, which is the second half of claim P8.",
        {"P8": "incomplete"},
        (("blurb", "biomedical encoder against general encoder"),),
    ),
    Advice(
        "the same, and general knowledge that must stay",
        "DAPT at a third of the rate, which costs nothing to try. Our runs of DGA adapted too little to say whether DGA protects more, "
        "or scores higher. A step of DGA takes 3.7 times as long.",
        {"G1": "not adapted", "G4": "not adapted"},
    ),
    Advice(
        "no encoder for your language, a general corpus, and labels",
        "TLM on a GPU, if no encoder exists. Our runs fit two cores; their first stage learned little more than word frequencies, so they "
        "do not test the paper. BM25 and both stages are the paper's choice ([a run on a GPU](../benchmarks/reports/2026-11-26-gpu.md)).",
        {"L1": "not pretrained", "L2": "not pretrained", "L5": "not pretrained"},
    ),
    Advice(
        "gigabytes of domain text, and GPUs",
        "From scratch, with a vocabulary of your own: inputs become about {:.0f}% shorter. We did not compare its scores with those after DAPT.",
        {"P1": "incomplete", "P3": "holds"},
        (("vocabularies", "tokens of an input that are saved"),),
    ),
    Advice(
        "another labelled task",
        "STILT. From one task of entities to another it gained about {:.0f} points. Our runs settle no other pair of tasks; `study stilt` tries pairs.",
        {"S1": "holds", "S2": "not visible"},
        (("stilt", "entity tasks after another entity task against directly"),),
    ),
)


@cache
def outcomes() -> Mapping[str, Mapping[str, Any]]:
    """Return the stored outcomes by name."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(OUTCOMES.glob("*.json"))}


def figure(test: Test, stored: Mapping[str, Mapping[str, Any]]) -> Figure | None:
    """Return the figure of the test; None if it was not measured."""
    figures = stored.get(test.outcome, {}).get("figures", {})
    return Figure(**figures[test.figure]) if test.figure in figures else None


def judge(claim: Claim, stored: Mapping[str, Mapping[str, Any]]) -> Judgement:
    """Return the verdict on a claim, by MEANINGS, with a reason for readers. stored: the outcomes by name.

    What the run cannot show comes first, then the intervals. Holm's correction is over the figures of the claim and their
    p of no difference. Where all figures must agree, "holds" needs no correction.
    """
    if untested := _untested(claim, stored):
        return untested
    tests = [test for test in claim.tests if not test.beyond]
    figures = [(test, measured) for test in tests if (measured := figure(test, stored))]
    recorded = [stored[test.outcome].get("losses", {}) for test in tests]
    unknown = [need for need in claim.needs if any(need not in losses for losses in recorded)]
    agree = [_agrees(*figure) for figure in figures]
    if all(agree) and not unknown:
        test, measured = figures[0]
        amount, small = _amount(measured.difference, test), test.size and measured.high < test.least
        return Judgement(
            "holds",
            f"in sign only: {test.figure} {amount}, in the paper {_amount(test.size, test)}"
            if small and test.size
            else f"{test.figure}: {amount}",
        )
    corrected = holm([measured.p for _, measured in figures])
    for (test, measured), p in zip(figures, corrected, strict=True):
        if _contradicts(test, measured) and p < LEVEL and not unknown:
            return Judgement("opposite", f"{test.figure}: {_amount(measured.difference, test)}")
    for (test, measured), agrees in zip(figures, agree, strict=True):
        if not agrees and not unknown and -test.least < measured.low and measured.high < test.least:
            return Judgement("no such effect", f"{test.figure}: less than {_amount(test.least, test)} either way")
    test, measured = next((each for each, agrees in zip(figures, agree, strict=True) if not agrees), figures[0])
    size = "" if test.size is None else f"; the paper has {_amount(test.size, test)}"
    if test.says == "more":
        seen = f"{_amount(measured.difference, test)}; the smallest detectable effect is {measured.smallest:.2g}{size}"
    else:
        worst = -measured.low if test.says == "no less" else max(-measured.low, measured.high)
        seen = f"the true difference may be as large as {worst:.2g}, and at most {test.least:g} counts as no difference{size}"
    if unknown:
        seen += f". The run did not record whether encoders were {unknown[0]}"
    return Judgement("not visible", f"{test.figure}: {seen}")


def _untested(claim: Claim, stored: Mapping[str, Mapping[str, Any]]) -> Judgement | None:
    """Return the verdict on a claim that two cores cannot test, or that the run does not test; None if it does."""
    tests = [test for test in claim.tests if not test.beyond]
    if not tests:
        return Judgement("beyond two cores", f"it takes {claim.tests[0].beyond}")
    figures = {test.figure: figure(test, stored) for test in tests}
    if absent := [name for name, measured in figures.items() if measured is None]:
        return Judgement("incomplete", f"missing: {'; '.join(absent)}")
    if unlearnt := [name for name, measured in figures.items() if measured and not measured.learnt]:
        return Judgement("not learnt", f"no fine-tuning learned the task of: {unlearnt[0]}")
    for losses in (stored[test.outcome].get("losses", {}) for test in tests):
        if "pretrained" in claim.needs and "pretrained" in losses:
            loss, frequencies = losses["pretrained"]
            if loss > LITTLE * frequencies:
                reason = (
                    f"the encoders' loss is {loss:.1f} nats; a model of word frequencies alone has {frequencies:.1f}"
                )
                return Judgement("not pretrained", reason)
        if "adapted" in claim.needs and "adapted" in losses:
            before, after = losses["adapted"]
            if before - after < ADAPTED:
                reason = f"the loss on the domain was {before:.2f} nats before adapting and {after:.2f} after"
                return Judgement("not adapted", reason)
    return None


def _agrees(test: Test, measured: Figure) -> bool:
    if test.says == "more":
        return measured.low > 0
    return measured.low > -test.least and (test.says == "no less" or measured.high < test.least)


def _contradicts(test: Test, measured: Figure) -> bool:
    if test.says == "more":
        return measured.high < 0
    return measured.high < -test.least or (test.says == "alike" and measured.low > test.least)


def _amount(value: float, test: Test) -> str:
    if test.unit == "times":
        return f"{math.exp(value):.3g} times"
    return f"{value:+.2g}%" if test.unit == "%" else f"{value:+.2g} {test.unit}"


def pages() -> dict[Path, str]:
    """Return every page that is written, by its file."""
    return {
        PAGE: page(),
        WHICH: which(),
        **{DETAILS / f"{_folder_name(paper)}.md": details(paper, claims) for paper, claims in CLAIMS.items()},
    }


def _folder_name(paper: str) -> str:
    return paper.partition(":")[0].partition(" ")[0].lower()


def page() -> str:
    """Return claims.md."""
    judged = {claim.key: judge(claim, outcomes()) for claims in CLAIMS.values() for claim in claims}
    verdicts = [judgement.verdict for judgement in judged.values()]
    counts = ", ".join(f"{verdict} {verdicts.count(verdict)}" for verdict in MEANINGS if verdict in verdicts)
    lines = ["# What the five papers claim, and what we saw", "", "| | claim | verdict | why |", "|---|---|---|---|"]
    for paper, claims in CLAIMS.items():
        link = f"claims/{_folder_name(paper)}.md"
        lines.append(f"| | **[{paper}]({link})** | | |")
        for claim in claims:
            verdict, reason = judged[claim.key]
            lines.append(f"| [{claim.key}]({link}#{claim.key.lower()}) | {claim.claim} | **{verdict}** | {reason} |")
    lines += [
        "",
        f"{len(verdicts)} claims: {counts}. A rule gives each verdict from stored outcomes:",
        "",
        *(f"* **{verdict}**: {meaning}." for verdict, meaning in MEANINGS.items()),
        "",
        "The runs are small: they fit two cores. If the verdict is *not adapted* or *not pretrained*, the run neither supports nor contradicts the claim. "
        "[Table by table](papers.md) lists every table of the papers.",
    ]
    return "\n".join(lines) + "\n"


def details(paper: str, claims: tuple[Claim, ...]) -> str:
    """Return the page of a paper in claims/."""
    lines = [
        f"# {paper}: its claims in detail",
        "",
        "Figures are differences with 95% intervals. A figure above 0 agrees with the paper, unless the column *the paper says* states otherwise. The "
        "smallest detectable effect is the smallest true difference that a run finds with a probability of 80%. *Planned* was computed before the "
        "run, *actual* from the variance in the run. DIR is the folder of the datasets ([BLURB](../blurb.md), [the others](../studies.md#where-the-data-come-from)), MODEL a checkpoint, and OUT the directory "
        "of the run. The last line of some commands is a script that stores the figures; its argument COMMAND is the text of the commands above it. "
        "`python benchmarks/claims/texts.py CORPUS TEXTS` writes the folder TEXTS from a corpus of your own, a `.jsonl.zst` file with `source`, `domain` and `text` on "
        "each line. This repository does not contain our corpus. All verdicts: [claim by claim](../claims.md).",
        "",
    ]
    for claim in claims:
        verdict, reason = judge(claim, outcomes())
        stored = {test.outcome: outcomes()[test.outcome] for test in claim.tests if test.outcome in outcomes()}
        lines += [
            f"## {claim.key}",
            "",
            f"{claim.claim[0].upper()}{claim.claim[1:]}.",
            "",
            f"**{verdict}**: {reason}.",
            "",
            "| figure | the paper says | ours | smallest detectable effect: planned, actual |",
            "|---|---|---|---|",
            *(_row(test) for test in claim.tests),
            *(_row(test, "a control") for test in claim.controls),
            "",
            f"* In the paper ({claim.where}): {claim.paper}.",
        ]
        remarks = dict.fromkeys(
            sentence for sentence in (claim.note, *(outcome["remark"] for outcome in stored.values())) if sentence
        )
        if remarks:
            lines.append(f"* Our run: {' '.join(remarks)}")
        lines += [
            f"* Cost of {name}: {outcome['processor_seconds']:,.0f} s, {outcome['date']}."
            for name, outcome in stored.items()
        ]
        lines += [
            f"* Beyond two cores: {test.figure}. To detect it takes {test.beyond}."
            for test in claim.tests
            if test.beyond
        ]
        lines += [f"* Needed to settle it: {claim.settle}.", "", "```sh", *claim.commands, "```", ""]
    return "\n".join(lines)


def _row(test: Test, words: str = "") -> str:
    measured = figure(test, outcomes())
    scale, unit = (math.exp, "times") if test.unit == "times" else (float, test.unit)
    sign = "" if test.unit == "times" else "+"
    bound = "" if test.says == "more" else f", within {test.bound:g}"
    size = "" if test.size is None else f" ({scale(test.size):{sign}.3g})"
    ours, after = "not measured", "-"
    if measured:
        low, middle, high = (
            f"{scale(value):{sign}.3g}" for value in (measured.low, measured.difference, measured.high)
        )
        ours, after = f"{middle} [{low}, {high}] {unit}, over {measured.over}", f"{scale(measured.smallest):.3g}"
    before = "beyond two cores" if test.beyond else "-" if test.planned is None else f"{scale(test.planned):.3g}"
    return f"| {test.figure} | {words or f'{test.says}{bound}{size}'} | {ours} | {before}, {after} |"


def which() -> str:
    """Return which-method.md with what the verdicts imply. Raises ValueError if the words of an advice rest on another verdict."""
    by_key = {claim.key: (paper, claim) for paper, claims in CLAIMS.items() for claim in claims}
    lines = ["| you have | what our runs say | claims |", "|---|---|---|"]
    for advice in ADVICE:
        links = []
        for key, verdict in advice.rests_on.items():
            paper, claim = by_key[key]
            if (ours := judge(claim, outcomes()).verdict) != verdict:
                raise ValueError(
                    f"{key} is {ours!r}: write the advice for {advice.has!r}, which says {verdict!r}, again"
                )
            links.append(f"[{key}](claims/{_folder_name(paper)}.md#{key.lower()}): {verdict}")
        differences = (outcomes()[name]["figures"][key]["difference"] for name, key in advice.figures)
        lines.append(f"| {advice.has} | {advice.says.format(*differences)} | {'; '.join(links)} |")
    before, _, rest = WHICH.read_text(encoding="utf-8").partition(BEGIN)
    return "\n".join([f"{before}{BEGIN}", *lines, f"{END}{rest.partition(END)[2]}"])


if __name__ == "__main__":
    DETAILS.mkdir(exist_ok=True)
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
