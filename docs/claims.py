# ruff: noqa: E501  the rows of a table
"""Write docs/claims.md, a page per paper in docs/claims/, and the part of which-method.md that rests on the verdicts.

python docs/claims.py

A claim is defined here before its outcome exists: the figures that decide it, what the paper says of each, how large the paper has
it, the smallest effect that the run is expected to see, its commands and cost, and what the run must have done for the claim to be
tested at all. benchmarks/claims/run_queue.py runs the commands; their scripts write the outcomes, files of benchmarks/claims/outcomes. The
verdict follows by `judge`, never by hand. tests/test_claims.py compares the pages with their sources.
"""

from __future__ import annotations

import json
import math
import sys
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
FIRST = "version 1"  # the encoder of outcomes from before encoders were recorded
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
    "not pretrained": f"the loss of at least one encoder is above {LITTLE:.0%} of that of word frequencies alone, so the run compares encoders that learned little",
    "not learnt": "no fine-tuning learned the task",
    "beyond two cores": "the paper's effect is too small for a run on two cores. This was stated before the run, with the cost of seeing it",
    "incomplete": "a figure that the paper's sentence needs was not measured, or figures come from different versions of the encoder",
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

    @property
    def sees(self) -> bool:
        """True if an effect of the paper's size is so far on the paper's side that the run is expected to see it."""
        if self.size is None or self.planned is None or self.beyond:
            return False
        margins = {"more": self.size, "no less": self.size + self.least, "alike": self.least - abs(self.size)}
        return self.planned <= margins[self.says]


@dataclass(frozen=True)
class Run:
    """Commands of one directory, which benchmarks/claims/run_queue.py runs in order. Runs of the same directory share jobs.

    out       name of the directory; OUT in the commands is its path
    commands  as they are typed, but for DIR (datasets), TEXTS (raw texts by benchmarks/claims/texts.py), OUT and RUNS (the
              parent of OUT). Scripts of benchmarks/claims that end a run write its outcomes
    hours     cost in core-hours, estimated before the run; jobs that an earlier run of the directory has done are not in it
    needs     runs whose files it reads
    """

    out: str
    commands: tuple[str, ...]
    hours: float
    needs: tuple[Run, ...] = ()

    def with_needs(self) -> list[Run]:
        """Return the runs that it needs, in order, and itself."""
        return [*dict.fromkeys(run for needed in self.needs for run in needed.with_needs()), self]


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, or a control of ours.

    paper     the figures as the paper has them
    tests     the figures that decide the claim: together they say what the paper's sentence says
    settle    what is needed to settle it
    run       ends with the scripts that write the outcomes
    note      what our run differs in
    needs     what the run must have done for the claim to be tested: `adapted` the encoder to the domain, `pretrained` it
    shown_by  outcomes whose losses show that; none: those of the tests. Where a gain is expected to vanish because the
              model knows the text, only another text can show that the adaptation works
    controls  further figures, which decide nothing
    """

    key: str
    claim: str
    where: str
    paper: str
    tests: tuple[Test, ...]
    run: tuple[Run, ...]
    settle: str
    note: str = ""
    needs: tuple[Need, ...] = ()
    shown_by: tuple[str, ...] = ()
    controls: tuple[Test, ...] = ()

    @property
    def beyond(self) -> bool:
        """True if two cores cannot see any figure of the claim. Such a claim is not run."""
        return all(test.beyond for test in self.tests)

    @property
    def runs(self) -> list[Run]:
        """All runs of the claim in order, with those that they need."""
        return [*dict.fromkeys(run for last in self.run for run in last.with_needs())]


# Costs in core-hours come from the processor time of the first runs, of version 1 of the encoder: a core reads about 2,350 tokens
# a second with the embedded encoder, forward and backward, and 14,000 with 2 layers of 128. Those of tapter, dga, relations and stilt are
# the FLOP of their dry runs at the 63 GFLOP a second with which version 1 was trained.
SCRIPT = "python benchmarks/claims"
DAPT = Run(
    "dapt",
    (
        "acclimate adapt mlm model=embedded corpus=TEXTS/biomedical.jsonl --out OUT epochs=0 max_tokens=128 whole_words=true "
        "dropout=0 attention_dropout=0 plan.steps=2000 plan.batch=32 plan.rate=2e-4 plan.weight_decay=0",
    ),
    0.8,
)
VECTORS = Run("vectors", (f"{SCRIPT}/vectors.py TEXTS/general.jsonl OUT/general.bin",), 0.1)
TAPTER_ARMS, TAPTER_ALONE = '["TAPT", "TAPTER", "TAPTER permuted"]', '["TAPTER"]'
NCBI = (
    "acclimate study tapter NCBI-disease --data DIR --model embedded --out OUT --max-tokens 128 seeds=5 adapt_seeds=5 "
    f"'contestants={TAPTER_ARMS}' tapter.vectors=RUNS/vectors/general.bin tapter.scale=given tapter.skipgram.dim=100 "
    "tapt.epochs=0 tapter.epochs=0 tapt.plan.steps=1000 tapter.plan.steps=1000 tapt.plan.batch=32 tapter.plan.batch=32 "
    "tapt.plan.rate=2e-4 tapter.plan.rate=2e-4 tapt.max_tokens=128 tapter.max_tokens=128 tapter.looks=10 "
    "finetune.preset=robust finetune.looks=4 finetune.epochs=5"
)
TAPTER_RUN = Run("tapter-ncbi", (NCBI, f"{SCRIPT}/tapter.py OUT"), 5.0, (VECTORS,))
TAPTER_NOTE = (
    "Entity F1 on NCBI-disease, all 5,424 sentences of train, not BioASQ. Five adaptations of 1,000 steps of 32 sentences, gradients of both "
    "unclipped. The public vectors are those of our general text."
)
AFTER_DAPT = NCBI.replace("--model embedded", "--model RUNS/dapt/checkpoint").replace(TAPTER_ARMS, TAPTER_ALONE)
MENTIONS = 960  # in NCBI-disease's test set; mentions are counted as items, of which entity F1 has no fixed number
NCBI_POWER = of_a_study(MENTIONS, 5, 0.8)
SQUAD = (
    "acclimate study tapter 'SQuAD 1.1' --data DIR --model embedded --out OUT --max-tokens 256 rows=4000 seeds=6 adapt_seeds=3 "
    f"'contestants={TAPTER_ALONE}' tapter.vectors=RUNS/vectors/general.bin tapter.scale=given tapter.skipgram.dim=100 tapter.epochs=0 "
    "tapter.plan.steps=1000 tapter.plan.batch=16 tapter.plan.rate=2e-4 tapter.max_tokens=256 tapter.looks=1 finetune.preset=robust "
    "finetune.looks=1 finetune.epochs=3"
)
DGA = (
    "acclimate study dga AI --data DIR --model embedded --corpus TEXTS/domain-ai.jsonl --out OUT --max-tokens 96 adapt.max_tokens=128 "
    "adapt.plan.steps=600 adapt.plan.batch=32 adapt.plan.rate=2e-4 adapt.dropout=0.1 adapt.attention_dropout=0 dga.subset=1000 "
    "dga.reading=update dga.anchor=mlm finetune.preset=robust finetune.pooling=mean finetune.epochs=5 finetune.looks=1"
)
DGA_RUN = Run(
    "dga",
    (
        f'{DGA} seeds=9 adapt_seeds=3 \'contestants=["MLM", "DGA", "DGA (w/o contrast)", "DGA (random mask)"]\'',
        f"{SCRIPT}/scores.py OUT dga-tasks",
        f"{SCRIPT}/scores.py OUT dga-ablations",
    ),
    11.0,
)
DGA_NOTE = (
    "Macro-F1 on AI (SciERC), all 2,260 rows of train and 2,388 test rows, nine fine-tunings of three adaptations. An adaptation has 600 steps "
    "of 32 rows; the paper has 2,500 of 256. The mask multiplies updates, because AdamW cancels factors on gradients ([DGA](../methods/dga.md))."
)
AI_POWER = of_a_study(2388, 9, 0.6)
TLM = (
    "acclimate study tlm ChemProt-13 --data DIR --general TEXTS/mixed.jsonl --out OUT --max-tokens 128 retrieval.k=50 tlm.rho_1=20 "
    "tlm.max_tokens=64 tlm.plan.steps=6000 tlm.plan.batch=64 tlm.finetune.epochs=5 tlm.finetune.looks=1"
)
TLM_RETRIEVAL = Run(
    "tlm", (f"{TLM} seeds=6 adapt_seeds=6 vary=retrieval", f"{SCRIPT}/scores.py OUT tlm-retrieval"), 6.0
)
TLM_SCALE = Run(
    "tlm",
    (
        f"{TLM} seeds=6 adapt_seeds=6 vary=scale --model embedded tlm.finetune.preset=robust",
        f"{SCRIPT}/scores.py OUT tlm-tasks",
    ),
    1.0,
    (TLM_RETRIEVAL,),
)
TLM_K = Run(
    "tlm",
    (f"{TLM} seeds=6 adapt_seeds=6 vary=k ks=[50]", f"{SCRIPT}/scores.py OUT tlm-k"),
    3.0,
    (TLM_RETRIEVAL,),
)
TLM_STAGES = Run(
    "tlm",
    (f"{TLM} seeds=6 adapt_seeds=6 vary=stages", f"{SCRIPT}/scores.py OUT tlm-stages"),
    0.2,
    (TLM_RETRIEVAL,),
)
TLM_RHO = Run(
    "tlm-rho",
    (f"{TLM} seeds=3 adapt_seeds=3 vary=rho_1 rho_1s=[1,99]", f"{SCRIPT}/scores.py OUT tlm-rho"),
    4.3,
)
GENERAL_SMALL = tuple(
    f"acclimate adapt scratch corpus=TEXTS/general.jsonl --out OUT/{seed} epochs=0 vocabulary=4000 layers=2 hidden=128 heads=2 "
    "initializer_range=0.08 dropout=0 attention_dropout=0 max_tokens=64 masking=0.3 whole_words=false plan.steps=6000 plan.batch=64 "
    f"plan.rate=3e-3 plan.warmup=0.1 plan.seed={seed}"
    for seed in range(4)
)
TLM_HEADS = Run(
    "tlm-heads",
    (*GENERAL_SMALL, f"{SCRIPT}/heads.py OUT TEXTS/domain-pubmed.jsonl"),
    2.0,
    (TLM_RETRIEVAL,),
)
TLM_NOTE = (
    "Micro-F1 on the 2,427 dev rows of ChemProt with 13 classes, six first stages. TLM has 2 layers of 128, where the paper has 12 of 768; a first "
    "stage reads 24 million tokens, the paper's small scale about fifty times as many. Unless the claim is about them, rho_1 and rho_2 are 20, and K is 50."
)
CHEMPROT_DEV = 2427
TLM_POWER = of_a_study(CHEMPROT_DEV, 6, 0.55)
SQUARE = Run(
    "scratch-square",
    (
        "acclimate study pubmedbert --corpus TEXTS/abstracts.jsonl --general TEXTS/general.jsonl --data DIR --out OUT "
        '\'models=["own vocabulary, word pieces", "own vocabulary, whole words", "goes on from general text"]\' '
        "full_texts=TEXTS/full-texts.jsonl 'datasets=[\"NCBI-disease\"]' seeds=23 adapt_seeds=23 max_tokens=128 search.rates=[] "
        "search.epochs=[] search.batches=[] scratch.vocabulary=4000 scratch.tokens=20000000 scratch.whole_words=true scratch.plan.batch=64 "
        "scratch.plan.rate=3e-3 finetune.epochs=5 finetune.looks=2",
        f"{SCRIPT}/scores.py OUT scratch-square",
        f"{SCRIPT}/scores.py OUT scratch-full-text",
    ),
    50.0,
)
SQUARE_NOTE = (
    "It was not run with version 2. The command has encoders of 2 layers of 128 and 20 million tokens of abstracts for each of 23 pretrainings; "
    "the paper has about a hundred billion. Scores of the first run differed by 1 to 2.3 points between pretrainings of one kind."
)
ADVERSARIAL = (
    "acclimate adapt {} model=embedded corpus=TEXTS/biomedical.jsonl --out OUT/{} epochs=0 max_tokens=128 dropout=0 attention_dropout=0 "
    "plan.steps=700 plan.batch=32 plan.rate=2e-4 plan.weight_decay=0"
)
ADVERSARIAL_RUN = Run(
    "scratch-adversarial",
    (
        ADVERSARIAL.format("mlm", "without"),
        f"{ADVERSARIAL.format('adversarial', 'with')} radius=1e-3 step=1e-1",
        "acclimate study blurb OUT/with/checkpoint OUT/without/checkpoint --data DIR --out OUT 'datasets=[\"BC5-chem\"]' seeds=5 "
        "rows=1000 max_tokens=128 baseline=false search.rates=[] search.epochs=[] search.batches=[] finetune.preset=robust "
        "finetune.epochs=5 finetune.looks=1",
        f"{SCRIPT}/scores.py OUT scratch-adversarial",
    ),
    1.1,
)
BLURB_RUN = Run(
    "blurb",
    (
        'acclimate study blurb embedded RUNS/dapt/checkpoint --data DIR --out OUT \'datasets=["NCBI-disease", "BC5-disease"]\' seeds=5 '
        "rows=1000 max_tokens=128 baseline=false search.rates=[] search.epochs=[] search.batches=[] finetune.preset=robust "
        "finetune.epochs=5 finetune.looks=1",
        f"{SCRIPT}/scores.py OUT blurb",
    ),
    0.7,
    (DAPT,),
)
STILT_RUN = Run(
    "stilt",
    (
        'acclimate study stilt embedded RUNS/dapt/checkpoint --data DIR --out OUT \'datasets=["NCBI-disease", "BC2GM", "BC5-disease"]\' '
        "split=dev seeds=5 rows=2000 max_tokens=128 same_task=false more_steps=none finetune.preset=robust finetune.epochs=5 finetune.looks=1",
        f"{SCRIPT}/intermediate.py OUT",
    ),
    5.0,
    (DAPT,),
)
STILT_NOTE = "Three tasks of entities with 2,000 training rows, scored on dev. A gain of half a point, as in the paper, is below what five seeds are expected to detect."
CHOICES = "acclimate study choices embedded --data DIR --out OUT"

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
            (TAPTER_RUN,),
            "BioASQ after SQuAD with ten adaptations, or several tasks",
            TAPTER_NOTE,
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
            (Run("tapter-after-dapt", (AFTER_DAPT, f"{SCRIPT}/after_dapt.py OUT"), 2.2, (DAPT, TAPTER_RUN)),),
            "the run of T1 from both encoders on several tasks with ten adaptations",
            "The run of T1 again, from the included encoder after DAPT on 6 million biomedical tokens; its gain minus this one. The two runs are "
            "independent, so a difference of 1.8 points is not expected to be detected. After DAPT little is left to adapt: that the encoder "
            "was adapted is shown by the run of T1 and by the loss of DAPT itself.",
            ("adapted",),
            ("tapter-ncbi", "tapter-after-dapt"),
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
                    of_a_study(10_570, 6, 0.4),
                    says="no less",
                    bound=1.0,
                ),
            ),
            (Run("tapter-general", (SQUAD, f"{SCRIPT}/scores.py OUT tapter-general"), 6.4, (VECTORS, TAPTER_RUN)),),
            "about 20 fine-tunings, if they differ by a point",
            "F1 on the 10,570 questions of SQuAD's dev set. It is about Wikipedia, which the included encoder was trained on. The 4,000 questions of "
            "train are those of SQuADShifts about Wikipedia. A gain of less than a point, half of the gain in the paper's own domain, counts as none. "
            "On such text there is little to adapt to: that TAPTER adapts is shown by the run of T1.",
            ("adapted",),
            ("tapter-ncbi",),
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
                    of_a_mean(0.05, 5),
                ),
            ),
            (TAPTER_RUN,),
            "more adaptations or tasks",
            "The figure is the share of its first value that each term lost on dev by the end of adapting. The interval is over adaptations only.",
            ("adapted",),
        ),
        Claim(
            "T5",
            "embeddings move further than under TAPT",
            "Appendix B",
            "mean distance .0576 under TAPT, .172 under TAPTER: 2.99 times as far",
            tuple(
                Test("tapter-ncbi", f"ratio of distances, {pieces}", "times", math.log(2.99), of_a_mean(0.1, 5))
                for pieces in ("all pieces", "pieces of the texts")
            ),
            (TAPTER_RUN,),
            "more tasks; whether they move towards fastText is not measured here",
            "The second figure is over the pieces that occur in the texts; the paper has all words. The interval is over adaptations only.",
            ("adapted",),
        ),
        Claim(
            "T6",
            "the meaning of the vectors matters: permuted ones help less (ours)",
            "-",
            "the paper has no such control",
            (Test("tapter-ncbi", "TAPTER against TAPTER permuted", "points", None, NCBI_POWER),),
            (TAPTER_RUN,),
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
            (DGA_RUN,),
            "six tasks, five seeds, several adaptations",
            DGA_NOTE,
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
            (DGA_RUN,),
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
            (Run("dga-baselines", (f"{DGA} seeds=3 adapt_seeds=1", f"{SCRIPT}/order.py OUT"), 7.7),),
            "the run of G1 on six tasks with several adaptations",
            "The run of G1 with all contestants of the paper's Table 2, three fine-tunings of one adaptation each. The figure compares the order of "
            "the paper's eleven rows on AI. Chance in the scores makes the measured correlation smaller than the true one.",
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
                    of_a_mean(0.005, 5),
                ),
            ),
            (Run("dga-soft-mask", (f"{SCRIPT}/soft_mask.py TEXTS OUT",), 2.6),),
            "more steps, other domains, larger encoders",
            "The mask alone, without the contrast, on 600 steps of 32 texts of reviews, five adaptations. The mask multiplies updates, because AdamW "
            "cancels factors on gradients ([DGA](../methods/dga.md)). The lower rate is a third of the usual one. Importance is normalised by min-max, so the least "
            "important heads are not protected.",
            ("adapted",),
            controls=(
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
                Run(
                    "importance",
                    (
                        "acclimate analyse importance embedded acl=TEXTS/domain-acl.jsonl ai=TEXTS/domain-ai.jsonl pubmed=TEXTS/domain-pubmed.jsonl restaurant=TEXTS/domain-restaurant.jsonl electronics=TEXTS/domain-electronics.jsonl news=TEXTS/domain-news.jsonl --dropout 0.1 --attention-dropout 0.1 --out OUT/importance.html",
                        f"{SCRIPT}/importance.py OUT",
                    ),
                    0.1,
                ),
            ),
            "larger encoders; the included one has 36 heads, RoBERTa-base 144",
            "News replaces Phone, and electronics replaces Camera. The interval is a jackknife over domains.",
        ),
    ),
    "TLM: Yao et al. (2022)": (
        Claim(
            "L1",
            "TLM scores like fine-tuned pretrained models at a fraction of the FLOPs",
            "Table 2",
            "small scale: mean of eight tasks 83.78 against 83.82 of BERT-Large, at 1/33 of the FLOPs",
            (
                Test(
                    "tlm-tasks",
                    "TLM against the embedded encoder",
                    "points",
                    -0.04,
                    of_a_study(3469, 6, 0.65),
                    says="no less",
                    bound=1.0,
                ),
                Test("tlm-tasks", "FLOP of pretraining that encoder against TLM", "times", math.log(33), 0.0),
            ),
            (TLM_SCALE,),
            "several tasks and ten first stages",
            f"{TLM_NOTE} On test, with the preset robust for both. A point counts as equal. FLOP are six times tokens times parameters, as in the paper. Those of the included "
            "encoder leave out MiniLM, from which it was cut, so the true ratio is larger.",
            ("pretrained",),
        ),
        Claim(
            "L2",
            "documents by BM25 are better than random ones",
            "Table 3",
            "+0.75 (IMDB), +2.27 (SciERC), +2.99 (ChemProt) points",
            (Test("tlm-retrieval", "BM25 against random", "points", 2.99, TLM_POWER),),
            (TLM_RETRIEVAL,),
            "several tasks, and larger models",
            TLM_NOTE,
            ("pretrained",),
        ),
        Claim(
            "L3",
            "retrieved text is better than task text alone; small tasks want a larger K",
            "Table 4",
            "ChemProt: task text alone 55.05, K = 50 77.21, more with 500 and 5000; AGNews is best with 50",
            (Test("tlm-k", "retrieved text against task text alone", "points", 22.16, TLM_POWER),),
            (TLM_K,),
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
            (TLM_RHO,),
            "the same as for L2",
            f"{TLM_NOTE} Here there are three first stages of each kind. The paper's effect of rho_2 on ChemProt cannot be detected, so it is not run.",
            ("pretrained",),
        ),
        Claim(
            "L5",
            "two stages are better than one",
            "Table 7",
            "+0.53 (AGNews), +2.17 (IMDB), +14.34 (ChemProt), +19.37 (ACL-ARC) points",
            (Test("tlm-stages", "two stages against the first alone", "points", 14.34, TLM_POWER),),
            (TLM_STAGES,),
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
                    2**0.5 * of_a_mean(0.05, 4),
                ),
            ),
            (TLM_HEADS,),
            "models of 144 heads, as BERT-base, and more tokens",
            "First stages with BM25, of four heads each, and four encoders of the same size that read as many tokens of general text. The paper "
            "compares with BERT and RoBERTa, and counts heads of which 90% of the maxima are such. In the first run no head was, so the figure is the share of all maxima.",
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
                    of_a_study(MENTIONS, 3, 0.6),
                    beyond="some 23 pretrainings of each of three encoders if scores differ by 1.5 points between them, and five datasets: about 27 core-hours at 20 million tokens",
                ),
            ),
            (SQUARE,),
            "that run, at a size of which the paper's would be an extrapolation",
            SQUARE_NOTE,
            ("pretrained",),
            controls=(Test("scratch-square", "own vocabulary against general", "points"),),
        ),
        Claim(
            "P2",
            "masking whole words is better than masking word pieces",
            "Table 7",
            "BLURB score: own vocabulary 79.51 with pieces and 81.10 with whole words, BERT's 79.00 and 79.87",
            (
                Test(
                    "scratch-square",
                    "whole words against word pieces",
                    "points",
                    1.59,
                    of_a_study(MENTIONS, 3, 0.6),
                    beyond="some 14 pretrainings of either kind if scores differ by 1.5 points between them, and five datasets: about 12 core-hours at 20 million tokens",
                ),
            ),
            (SQUARE,),
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
                Run(
                    "vocabularies",
                    (
                        "acclimate data vocabulary TEXTS/biomedical.jsonl --out OUT/voc-biomedical",
                        "acclimate data vocabulary TEXTS/general.jsonl --out OUT/voc-general",
                        f"{SCRIPT}/vocabularies.py DIR OUT",
                    ),
                    0.1,
                ),
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
                    of_a_study(MENTIONS, 3, 0.6),
                    beyond="some 2,200 pretrainings on either text, 134 core-hours at 2 million tokens and ten times as many at 20 million",
                ),
                Test(
                    "scratch-full-text",
                    "longer training against not",
                    "points",
                    0.52,
                    of_a_study(MENTIONS, 3, 0.6),
                    beyond="some 85 pretrainings of either length, 5 core-hours at 2 million tokens and ten times as many at 20 million",
                ),
            ),
            (SQUARE,),
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
                    of_a_study(5385, 5, 0.8),
                    beyond="some 300 adaptations of either kind if scores differ by 0.7 points between them, about 330 core-hours, and the test items of several datasets",
                ),
            ),
            (ADVERSARIAL_RUN,),
            "the same as for P4",
            "It was not run with version 2. The commands are one pair of some 300, the included encoder adapted to biomedical text with the term and "
            "without it. At the paper's radius the term has no weight.",
            ("adapted",),
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
                    of_a_study(11_256, 8, 0.5),
                    says="no less",
                    bound=1.0,
                ),
                *(
                    Test(
                        "choices-schemes",
                        f"BIO against {other} on BC5-chem",
                        "points",
                        size,
                        of_a_study(5347, 10, 0.7),
                        says="alike",
                        bound=2.0,
                    )
                    for other, size in (("BIOUL", -0.04), ("IO", 0.22))
                ),
            ),
            (
                Run(
                    "choices-layers",
                    (
                        f"{CHOICES} vary=layers 'datasets=[\"ChemProt\"]' rows=2000 seeds=8 finetune.looks=1 finetune.epochs=8 finetune.plan.rate=1.2e-4",
                        f"{SCRIPT}/scores.py OUT choices-layers",
                    ),
                    3.0,
                ),
                Run(
                    "choices-schemes",
                    (
                        f"{CHOICES} vary=schemes 'datasets=[\"BC5-chem\"]' rows=2000 seeds=10 finetune.looks=1 finetune.epochs=5 finetune.plan.rate=1.2e-4",
                        f"{SCRIPT}/scores.py OUT choices-schemes",
                    ),
                    1.5,
                ),
            ),
            "whole training sets and twenty seeds, for a bound of a point on schemes",
            "2,000 rows of train, scored on dev. A layer that is worse by less than a point counts as no worse. Schemes count as alike "
            "within two points, about the paper's distance between layers, because ten seeds are not expected to show less.",
        ),
        Claim(
            "P7",
            "dummies or markers are better than the original text with [CLS]",
            "Table 12",
            "ChemProt: dummies 77.24, markers 77.72, original text 50.52; DDI: dummies 82.36, markers 82.22, original text 37.00",
            tuple(
                Test(
                    "choices-relations",
                    f"{form} against original text on ChemProt",
                    "points",
                    size,
                    of_a_study(11_256, 8, 0.5),
                )
                for form, size in (("dummies", 26.72), ("markers", 27.20))
            ),
            (
                Run(
                    "choices-relations",
                    (
                        f'{CHOICES} vary=relations \'datasets=["ChemProt"]\' rows=2000 seeds=8 \'variants=["dummies, first token", '
                        '"original, first token", "markers, first token"]\' finetune.looks=1 finetune.plan.rate=1.2e-4',
                        f"{SCRIPT}/scores.py OUT choices-relations",
                    ),
                    5.3,
                ),
            ),
            "one task with a few thousand rows: the effect is large",
            "2,000 rows of train, scored on dev.",
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
                Test(
                    "blurb",
                    "encoder from scratch against biomedical encoder",
                    "points",
                    0.81,
                    of_means(of_a_study(MENTIONS, 5, 0.6), of_a_study(4424, 5, 0.6)),
                    beyond="some 50 encoders of either kind if scores differ by 1.5 points between them; one from scratch of the included one's size takes about 12 core-hours",
                ),
            ),
            (BLURB_RUN,),
            "all thirteen datasets, encoders from scratch and after DAPT",
            "In the paper BioBERT, which continues from BERT, has 89.13 on NCBI-disease and 84.70 on BC5-disease; BERT has 85.67 and 81.44. "
            "We compare the included encoder after DAPT on 6 million tokens with the included encoder, with 1,000 rows of each training set.",
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
                    of_means(of_a_study(787, 5, 0.6), of_a_study(3061, 5, 0.6), of_a_study(4246, 5, 0.6)),
                ),
            ),
            (STILT_RUN,),
            "eleven tasks with whole training sets up to 4,000 rows, ten seeds",
            f"{STILT_NOTE} The part in brackets is not tested.",
            ("adapted",),
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
            (STILT_RUN,),
            "S1 with eleven tasks",
            f"{STILT_NOTE} The second encoder is the included one after DAPT. The figure is the mean over pairs of the squared difference of "
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
        {"P8": "not visible"},
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
        {"L2": "not pretrained", "L5": "not pretrained"},
    ),
    Advice(
        "gigabytes of domain text, and GPUs",
        "From scratch, with a vocabulary of your own: inputs become about {:.0f}% shorter. We did not compare its scores with those after DAPT.",
        {"P1": "beyond two cores", "P3": "holds"},
        (("vocabularies", "tokens of an input that are saved"),),
    ),
    Advice(
        "another labelled task",
        "STILT. From one task of entities to another it gained about {:.0f} points in our first run, which did not record whether the encoder was adapted. Our runs settle no other pair of tasks; `study stilt` tries pairs.",
        {"S1": "not visible", "S2": "not visible"},
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
    unknown = [need for need in claim.needs if not _losses(claim, need, stored)]
    agree = [_agrees(*figure) for figure in figures]
    if all(agree) and not unknown:
        test, measured = figures[0]
        amount, small = _amount(measured.difference, test), test.size and measured.high < test.least
        seen = (
            f"in sign only: {test.figure} {amount}, in the paper {_amount(test.size, test)}"
            if small and test.size and test.says == "more"
            else f"{test.figure}: {amount}"
        )
        untried = "; ".join(test.figure for test in claim.tests if test.beyond)
        return Judgement("holds", f"{seen}; without {untried}, which is beyond two cores" if untried else seen)
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


def _outcomes_of(claim: Claim, stored: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the stored outcomes, by name, on which the verdict on a claim rests."""
    tested = [test.outcome for test in claim.tests if not test.beyond] or [test.outcome for test in claim.tests]
    return {name: stored[name] for name in dict.fromkeys((*tested, *claim.shown_by)) if name in stored}


def _losses(claim: Claim, need: Need, stored: Mapping[str, Mapping[str, Any]]) -> list[list[float]]:
    """Return the pairs of losses that show whether the encoders of a claim were adapted or pretrained; [] if one of its
    outcomes has none.
    """
    rests_on = _outcomes_of(claim, stored)
    pairs = [rests_on[name]["losses"].get(need, []) for name in claim.shown_by or rests_on]
    return [pair for several in pairs for pair in several] if all(pairs) else []


def _untested(claim: Claim, stored: Mapping[str, Mapping[str, Any]]) -> Judgement | None:
    """Return the verdict on a claim that two cores cannot test, or that the run does not test; None if it does."""
    if claim.beyond:
        return Judgement("beyond two cores", f"it takes {claim.tests[0].beyond}")
    figures = {test.figure: figure(test, stored) for test in claim.tests if not test.beyond}
    if absent := [name for name, measured in figures.items() if measured is None]:
        return Judgement("incomplete", f"missing: {'; '.join(absent)}")
    if absent := [name for name in claim.shown_by if name not in stored]:
        return Judgement("incomplete", f"missing: {'; '.join(absent)}")
    encoders = {name: outcome["encoder"] for name, outcome in _outcomes_of(claim, stored).items()}
    if len({*encoders.values()}) > 1:
        versions = ", ".join(f"{name} from {encoder}" for name, encoder in encoders.items())
        return Judgement("incomplete", f"the outcomes come from different encoders: {versions}")
    if unlearnt := [name for name, measured in figures.items() if measured and not measured.learnt]:
        return Judgement("not learnt", f"no fine-tuning learned the task of: {unlearnt[0]}")
    for need in claim.needs:
        for one, other in _losses(claim, need, stored):
            if need == "pretrained" and one > LITTLE * other:
                reason = f"an encoder's loss is {one:.1f} nats; a model of word frequencies alone has {other:.1f}"
                return Judgement("not pretrained", reason)
            if need == "adapted" and one - other < ADAPTED:
                reason = f"the loss on the domain was {one:.2f} nats before adapting and {other:.2f} after"
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
    tested = {
        claim.key: [test for test in claim.tests if not test.beyond] for claims in CLAIMS.values() for claim in claims
    }
    unstated = [key for key, tests in tested.items() if tests and all(test.size is None for test in tests)]
    visible = [key for key, tests in tested.items() if tests and all(test.sees for test in tests)]
    counts = ", ".join(f"{verdict} {verdicts.count(verdict)}" for verdict in MEANINGS if verdict in verdicts)
    lines = ["# What the five papers claim, and what we saw", "", "| | claim | verdict | why |", "|---|---|---|---|"]
    for paper, claims in CLAIMS.items():
        link = f"claims/{_folder_name(paper)}.md"
        lines.append(f"| | **[{paper}]({link})** | | |")
        for claim in claims:
            verdict, reason = judged[claim.key]
            first = not claim.beyond and FIRST in map(_encoder, _outcomes_of(claim, outcomes()).values())
            seen = f"**{verdict}**{' (first run)' if first else ''}"
            lines.append(f"| [{claim.key}]({link}#{claim.key.lower()}) | {claim.claim} | {seen} | {reason} |")
    lines += [
        "",
        f"{len(verdicts)} claims: {counts}. A rule gives each verdict from stored outcomes:",
        "",
        *(f"* **{verdict}**: {meaning}." for verdict, meaning in MEANINGS.items()),
        "",
        f"*First run*: with {FIRST} of the included encoder, by smaller designs than those of the detailed pages. Each stored outcome has the commands that made it.",
        "",
        f"Runs of version 2 are expected to see effects of the paper's size in all their figures for {', '.join(visible)}. For {', '.join(unstated)} the paper states no size.",
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
        "run, *actual* from the variance in the run. `python benchmarks/claims/run_queue.py DIR TEXTS RUNS` runs the commands of all claims. DIR is the folder of the datasets "
        "([BLURB](../blurb.md), [the others](../studies.md#where-the-data-come-from)), RUNS a folder of runs, and OUT the one of a run. "
        "The scripts at the end of a run store its figures. "
        "`python benchmarks/claims/texts.py CORPUS TEXTS` writes the folder TEXTS from a corpus of your own, a `.jsonl.zst` file with `source`, `domain` and `text` on "
        "each line. This repository does not contain our corpus.",
        "",
        f"Designs, commands, costs and planned effects are those of version 2 of the included encoder, stated before its runs. Figures of {FIRST} came from smaller designs, "
        "which the remarks and the stored outcomes describe. All verdicts: [claim by claim](../claims.md).",
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
        lines += [f"* Design: {claim.note}"] if claim.note else []
        for name, outcome in stored.items():
            cost = f"{outcome['processor_seconds']:,.0f} s, {outcome['date']}"
            lines.append(f"* Outcome {name}, {_encoder(outcome)} ({cost}): {outcome['remark']}")
        lines += [
            f"* Beyond two cores: {test.figure}. To detect it takes {test.beyond}."
            for test in claim.tests
            if test.beyond
        ]
        hours = ", ".join(f"{run.out} {run.hours:g}" for run in claim.runs)
        lines += [
            f"* Needed to settle it: {claim.settle}.",
            f"* Core-hours, estimated before the run: {hours}{'. It is not run' if claim.beyond else ''}.",
        ]
        for run in claim.runs:
            lines += ["", f"OUT = RUNS/{run.out}", "", "```sh", *run.commands, "```"]
        lines.append("")
    return "\n".join(lines)


def _encoder(outcome: Mapping[str, Any]) -> str:
    """Return which encoder made an outcome: FIRST, or the first 12 digits of its identity."""
    return str(outcome["encoder"])


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
    """Return which-method.md with what the verdicts imply. A row whose words rest on another verdict is left out, and
    standard error says so.
    """
    by_key = {claim.key: (paper, claim) for paper, claims in CLAIMS.items() for claim in claims}
    lines = ["| you have | what our runs say | claims |", "|---|---|---|"]
    for advice in ADVICE:
        verdicts = {key: judge(by_key[key][1], outcomes()).verdict for key in advice.rests_on}
        if changed := [key for key, verdict in verdicts.items() if verdict != advice.rests_on[key]]:
            now = ", ".join(f"{key} is {verdicts[key]!r}, not {advice.rests_on[key]!r}" for key in changed)
            print(f"{WHICH.name}: the row for {advice.has!r} is left out: {now}. Write it again", file=sys.stderr)
            continue
        links = [
            f"[{key}](claims/{_folder_name(by_key[key][0])}.md#{key.lower()}): {verdict}"
            for key, verdict in verdicts.items()
        ]
        differences = (outcomes()[name]["figures"][key]["difference"] for name, key in advice.figures)
        lines.append(f"| {advice.has} | {advice.says.format(*differences)} | {'; '.join(links)} |")
    before, _, rest = WHICH.read_text(encoding="utf-8").partition(BEGIN)
    return "\n".join([f"{before}{BEGIN}", *lines, f"{END}{rest.partition(END)[2]}"])


if __name__ == "__main__":
    DETAILS.mkdir(exist_ok=True)
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
