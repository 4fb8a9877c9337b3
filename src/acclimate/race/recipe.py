"""What a race is told: contestants, seeds, the settings that each of them tries, and how each adapts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal, Protocol, TypeVar, cast

from acclimate.data import retrieve
from acclimate.methods import (
    baselines,
    dga,
    distil,
    finetune,
    light,
    mlm,
    scratch,
    sequence_contrast,
    tapter,
    tlm,
    token_contrast,
)
from acclimate.methods.contestants import (
    BASELINE,
    CONTROL,
    DICTIONARY,
    DOMAIN,
    TLM,
    UNFIT,
    Contestant,
    check_pretraining,
    check_unnamed,
    unread,
)
from acclimate.models.gates import PLACES
from acclimate.text.vectors.vectors import Skipgram
from acclimate.training.plan import Plan

# from nothing, on as little text as a race has: words that occur twice, as TAPTER's Table 5 has it for less text
SMALL_VECTORS = Skipgram(dim=100, min_count=2, buckets=50_000, lower=True, threads=1)
SMALL: dict[str, Any] = {  # what a small encoder does on a domain's text
    "max_tokens": 128,
    "whole_words": True,
    "plan": Plan(steps=300, batch=16, rate=1e-3, warmup=0.06),
}
NOISY: dict[str, Any] = {**SMALL, "dropout": 0.1}  # two passes over a text have to differ
Way = Literal["halving", "grid", "tpe", "pruned-grid"]
DRAWN: tuple[Way, ...] = ("tpe", "pruned-grid")  # by Optuna, trial after trial


@dataclass(frozen=True)
class Search:
    """Settings of fine-tuning that every contestant tries: all combinations of these. What is empty stays as the
    recipe's `finetune` has it; with all of them empty there is one setting and nothing to search.

    how     "halving": short runs with one seed drop most settings, what is left runs in full (race/search.py);
            "grid": every setting of every contestant runs in full with every seed;
            "tpe": Optuna draws `trials` settings with one seed, rates and epochs between the least and the largest
            of these too, each with regard to the scores before it (race/optuna.py);
            "pruned-grid": the combinations in a drawn order with one seed, each given up where it lags behind those
            before it
    trials  of each contestant, for the last two ways; "pruned-grid" takes 0 for all combinations
    pruner  which of Optuna's says that a trial is given up: "median" below that of the finished trials at the same
            share of the steps, "halving" where it is not in the better half of all that came as far
    seed    of the draws
    """

    rates: tuple[float, ...] = ()  # peak rates; none: that of `finetune.plan`
    epochs: tuple[float, ...] = ()  # none: `finetune.epochs`
    batches: tuple[int, ...] = ()  # none: that of `finetune.plan`
    how: Way = "halving"
    trials: int = 0
    pruner: Literal["median", "halving", "none"] = "median"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rates", "epochs", "batches"):
            values = getattr(self, name)
            if len(set(values)) < len(values) or any(value <= 0 for value in values):
                raise ValueError(f"search.{name} = {list(values)}: each value once, and above 0")
        for name in ("trials", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(f"search.{name} = {getattr(self, name)} is out of range: at least 0")
        if self.draws:
            self._check_drawn()
        elif (self.trials, self.pruner, self.seed) != (0, "median", 0):
            raise ValueError(
                f"search.trials, search.pruner and search.seed are for search.how = {' or '.join(DRAWN)}, but it is "
                f"'{self.how}', which tries all combinations. Leave them out, or set search.how"
            )

    @property
    def draws(self) -> bool:
        """Whether settings come one after the other, by Optuna."""
        return self.how in DRAWN

    @property
    def combinations(self) -> int:
        return math.prod(max(1, len(values)) for values in (self.rates, self.epochs, self.batches))

    def _check_drawn(self) -> None:
        if self.combinations == 1:
            raise ValueError(
                f"search.how = '{self.how}' draws from search.rates, search.epochs and search.batches, but none of "
                f"them has two values. Add for example 'search.rates=[1e-5, 5e-5]'"
            )
        if self.how == "tpe" and not self.trials:
            raise ValueError("search.how = 'tpe' needs a number of trials for each contestant. Add search.trials=20")
        if self.how == "pruned-grid" and self.trials > self.combinations:
            raise ValueError(
                f"search.trials = {self.trials}, but the grid has {self.combinations} combinations. Lower it, or set "
                f"search.how=tpe, which draws between the values too"
            )


def baseline_of(kind: str) -> str:
    """What the contestant without an encoder is called in a task of this kind."""
    return DICTIONARY if kind == "tokens" else BASELINE


@dataclass(frozen=True)
class Setting:
    """One way to fine-tune, by what it differs in."""

    name: str
    recipe: finetune.FinetuneRecipe


@dataclass(frozen=True)
class RaceRecipe:
    """A race. The untouched model always runs; `contestants` run against it, or whoever can where none are named.

    The defaults are for a small encoder that is pretrained here, on text as small as the demo's: what two cores do
    within ten minutes. `for_model` has those for a pretrained one.
    """

    seeds: int = 3  # fine-tunings of each contestant; at least 2
    contestants: tuple[Contestant, ...] | None = None
    """Who runs against the untouched model, which always runs; none: TAPT, TAPTER, DAPT and DGA where there is raw
    text of the domain (DGA where the heads of the model's family are known), TLM where there is general text (but not
    with `docstrings`), TF-IDF, random weights."""
    search: Search = field(default_factory=Search)  # settings of fine-tuning that every contestant tries
    pretrain: scratch.ScratchRecipe = field(
        default_factory=lambda: scratch.ScratchRecipe(
            vocabulary=4_000,
            layers=2,
            hidden=128,
            heads=2,
            masking=0.3,  # more to learn from a token: with .15 so few tokens teach little more than words' frequencies
            dropout=0.0,
            attention_dropout=0.0,
            initializer_range=0.08,  # about 1 / sqrt(hidden); BERT's .02 keeps so narrow a model from learning for long
            plan=Plan(steps=900, batch=24, rate=3e-3, warmup=0.1),
        )
    )  # of the small encoder that is pretrained if no model is given
    tapt: mlm.MlmRecipe = field(
        default_factory=lambda: mlm.MlmRecipe(
            whole_words=True, epochs=0.0, plan=Plan(steps=300, batch=16, rate=1e-3, warmup=0.06)
        )
    )  # of TAPT
    dapt: mlm.MlmRecipe = field(
        default_factory=lambda: mlm.MlmRecipe(
            whole_words=True, epochs=0.0, plan=Plan(steps=300, batch=16, rate=1e-3, warmup=0.06)
        )
    )  # of DAPT
    tapter: tapter.TapterRecipe = field(
        default_factory=lambda: tapter.TapterRecipe(
            skipgram=SMALL_VECTORS,
            looks=10,
            whole_words=True,
            epochs=0.0,
            plan=Plan(steps=300, batch=16, rate=1e-3, warmup=0.06, clip=0.0),
        )
    )  # of TAPTER; its vectors start from nothing unless vectors names some
    dga: dga.DgaRecipe = field(  # of two heads a layer Eq. 10 would make one and the same number
        default_factory=lambda: dga.DgaRecipe(**NOISY, over="model", subset=200, anchor="mlm")
    )  # of DGA
    light: light.LightRecipe = field(default_factory=lambda: light.LightRecipe(**SMALL))  # of adapter and prompt
    distil: distil.DistilRecipe = field(default_factory=lambda: distil.DistilRecipe(**SMALL))  # of KD and AdaptedDeiT
    sequence_contrast: sequence_contrast.SequenceContrastRecipe = field(
        default_factory=lambda: sequence_contrast.SequenceContrastRecipe(**NOISY)
    )  # of SimCSE and InfoWord
    token_contrast: token_contrast.TokenContrastRecipe = field(
        default_factory=lambda: token_contrast.TokenContrastRecipe(**SMALL)
    )  # of TaCL and TaCO
    finetune: finetune.FinetuneRecipe = field(
        default_factory=lambda: finetune.FinetuneRecipe(epochs=6.0, looks=3, plan=Plan(batch=16, rate=1e-3, warmup=0.1))
    )  # of every fine-tuning
    retrieval: retrieve.RetrieveRecipe = field(default_factory=retrieve.RetrieveRecipe)
    """What TLM trains on beside the task."""
    tlm: tlm.TlmRecipe = field(
        default_factory=lambda: tlm.TlmRecipe(
            vocabulary=4_000,
            layers=2,
            hidden=128,
            heads=2,
            masking=0.3,
            dropout=0.0,
            attention_dropout=0.0,
            initializer_range=0.08,
            rho_1=3,
            normalise=True,
            plan=Plan(steps=500, batch=24, rate=3e-3, warmup=0.1),
        )
    )  # of TLM; its second stage is the fine-tuning that every contestant gets
    tfidf: baselines.TfidfRecipe = field(default_factory=baselines.TfidfRecipe)  # of the baseline without an encoder

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(
                f"seeds = {self.seeds}: one seed says nothing about chance. Give at least 2, better 3 or 5"
            )
        if self.contestants is not None and len(set(self.contestants)) < len(self.contestants):
            raise ValueError(f"contestants = {list(self.contestants)}: each may stand once")
        check_unnamed(self)
        check_pretraining(self.pretrain)

    def names(self, *, domain: bool, general: bool, kind: str = "sequence", heads: bool = True) -> tuple[str, ...]:
        """Who races against the untouched model. domain, general: whether there is raw text of either; kind: of task;
        heads: whether those of the model are known to DGA.

        Raises ValueError for one that is named and cannot do tasks of this kind.
        """
        if self.contestants is None:
            raw = (*(("DAPT", *(("DGA",) if heads else ())) if domain else ()), *((TLM,) if general else ()))
            everyone = ("TAPT", "TAPTER", *raw, BASELINE, CONTROL)
            return tuple(name for name in everyone if name not in UNFIT.get(kind, ()))
        if unfit := [name for name in self.contestants if name in UNFIT.get(kind, ())]:
            raise ValueError(f"{' and '.join(unfit)} cannot do a task of kind '{kind}'. Leave it out of contestants")
        if not heads and "DGA" in self.contestants:
            raise ValueError(f"DGA knows the heads of {', '.join(PLACES)} only. Leave it out of contestants")
        return self.contestants

    def on_domain(self, name: str) -> mlm.MlmRecipe:
        """How a contestant of DOMAIN adapts."""
        field, own = DOMAIN[name]
        stated = getattr(self, field)
        adapted: mlm.MlmRecipe = replace(stated, **own, **unread(name, stated))
        return adapted

    def settings(self) -> tuple[Setting, ...]:
        """What each contestant tries, in a fixed order; of a search that draws, the combinations of what is listed."""
        search = self.search
        listed = product(search.rates or (None,), search.epochs or (None,), search.batches or (None,))
        return tuple(self.setting(rate=rate, epochs=epochs, batch=batch) for rate, epochs, batch in listed)

    def setting(self, *, rate: float | None = None, epochs: float | None = None, batch: int | None = None) -> Setting:
        """One way to fine-tune, named by what is given; the rest is as `finetune` has it."""
        own = self.finetune
        named = {"rate": rate, "epochs": epochs, "batch": batch}
        name = ", ".join(f"{what} {value:g}" for what, value in named.items() if value is not None)
        plan = replace(own.plan, rate=rate or own.plan.rate, batch=batch or own.plan.batch)
        return Setting(name or f"rate {plan.rate:g}", replace(own, epochs=epochs or own.epochs, plan=plan))


class _Searching(Protocol):
    """A recipe with a search over settings of its fine-tuning."""

    @property
    def search(self) -> Search: ...
    @property
    def finetune(self) -> finetune.FinetuneRecipe: ...


S = TypeVar("S", bound=_Searching)


def heeded(stated: S, usual: S) -> S:
    """The recipe without the usual search over what was stated as one value: `finetune.plan.rate` means that rate."""
    ours, theirs, search = stated.finetune, usual.finetune, stated.search
    if ours.plan.rate != theirs.plan.rate and search.rates == usual.search.rates:
        search = replace(search, rates=())
    if ours.epochs != theirs.epochs and search.epochs == usual.search.epochs:
        search = replace(search, epochs=())
    if ours.plan.batch != theirs.plan.batch and search.batches == usual.search.batches:
        search = replace(search, batches=())
    return cast(S, replace(cast(Any, stated), search=search))


def for_model() -> RaceRecipe:
    """The papers' own settings, for a pretrained model of the usual size.

    TAPT and TAPTER as the latter states them and fine-tuning as BLURB does (the defaults of methods/mlm.py,
    methods/tapter.py and methods/finetune.py), with BLURB's three rates to choose from; vectors from nothing,
    of words that occur twice, with fewer n-gram buckets than the 2,000,000 of public ones; DAPT as DGA
    states it: 2,500 steps of 256 sequences of 164 tokens, rate 1e-4, no decay; and so DGA and all that it is compared
    with, with the dropout of BERT and RoBERTa where two passes have to differ.
    """
    dapt = mlm.MlmRecipe(max_tokens=164, epochs=0.0, plan=Plan(2_500, 256, 1e-4, warmup=0.1, weight_decay=0.0))
    search = Search(rates=(1e-5, 3e-5, 5e-5))
    vectors = replace(SMALL_VECTORS, dim=300, buckets=200_000)
    noise: dict[str, Any] = {"dropout": 0.1, "attention_dropout": 0.1}
    return RaceRecipe(
        tapt=mlm.MlmRecipe(),
        tapter=tapter.TapterRecipe(skipgram=vectors),
        dapt=dapt,
        dga=dga.DgaRecipe(**noise),
        light=light.LightRecipe(),
        distil=distil.DistilRecipe(),
        sequence_contrast=sequence_contrast.SequenceContrastRecipe(**noise),
        token_contrast=token_contrast.TokenContrastRecipe(),
        finetune=finetune.FinetuneRecipe(),
        search=search,
    )
