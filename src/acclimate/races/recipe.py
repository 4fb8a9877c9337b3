"""The settings of a race: contestants, seeds, the settings of fine-tuning that each tries, and how each adapts."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, TypeVar, cast

from acclimate.core.door import option
from acclimate.core.settings import SEEDS, AboveZero, BatchSize, Count, Range, check_no_more, check_ranges
from acclimate.data import retrieve
from acclimate.methods import METHODS, Contestant, Method, baselines
from acclimate.methods.method import check_names, load_method
from acclimate.methods.ranking.bm25 import BM25
from acclimate.methods.recipes import finetune, scratch
from acclimate.reports.table import ALONE, COMBINED, FROZEN, UNADAPTED, UNTOUCHED
from acclimate.statistics.sequential import FIRST
from acclimate.tasks.task import NOT_OF_A_STATE, PROBED

CHANCE = "one seed cannot show the variation between runs. Give at least 2, preferably 3 or 5"
Seeds = Annotated[int, Range(least=2, most=1000, why=CHANCE)]
Adaptations = Annotated[int, Range(least=0, most=1000)]
ALL = "all"  # as the only name in `RaceRecipe.contestants`
Points = Annotated[float, Range(least=0, most=50, hint=" points")]
ROUNDS_TO_SETTLE = 20  # rounds at most of a race that continues until it is settled, if `seeds` is not stated


@dataclass(frozen=True)
class SearchRecipe:
    """Settings of fine-tuning that every contestant tries: all combinations of these, each in full with the first seed.
    The best on dev runs the other seeds (races/search.py). What is empty stays as the recipe's `finetune` has it; with
    all of them empty there is one setting and nothing to search.
    """

    rates: tuple[AboveZero, ...] = ()
    """Peak learning rates to try; none: only `finetune.plan.rate`."""
    epochs: tuple[AboveZero, ...] = ()  # numbers of epochs to try; none: only `finetune.epochs`
    batches: tuple[BatchSize, ...] = ()  # batch sizes to try; none: only `finetune.plan.batch`
    common: bool = False
    """True: all contestants (in `study blurb` all models on a dataset) use the same setting, the one with the best
    mean. False: each uses the setting that is best for it."""

    def __post_init__(self) -> None:
        check_ranges(self, "search.")
        for name in ("rates", "epochs", "batches"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"search.{name} = {list(values)}: a value appears twice. Give each value once")


@dataclass(frozen=True)
class LearningCurveRecipe:
    """What `race --learning-curve` does once the race has ended: it scores the untouched model and the best adapted
    contestant after learning from parts of the training rows, and says what adapting is worth in labels.
    """

    shares: tuple[Annotated[float, Range(above=0, below=1)], ...] = (0.125, 0.25, 0.5)
    """Shares of the training rows to learn from, in addition to all rows."""
    draws: Annotated[int, Range(least=3, why="an interval needs more draws")] = 10
    """Number of draws of these rows for probes. Each fine-tuning seed has a draw of its rows too."""
    finetune: Literal["budget", "yes", "no"] = "budget"
    """"budget": also fine-tune on parts of the rows if enough of the race's budget remains; "yes": always; "no": only
    probes."""
    seed: Count = 0  # seed of the draws

    def __post_init__(self) -> None:
        check_ranges(self, "learning_curve.")
        check_each_once("learning_curve.shares", self.shares)


def check_each_once(name: str, values: Sequence[Any], *, least: int = 1) -> None:
    """Raises ValueError where the setting `name` has fewer values than `least`, or one of them twice."""
    if len(values) < least or len(set(values)) < len(values):
        enough = "one value" if least < 2 else f"{least} values"
        raise ValueError(f"{name} = {list(values)}: give at least {enough}, and each value once")


@dataclass(frozen=True)
class Setting:
    """One way to fine-tune, by what it differs in."""

    name: str
    recipe: finetune.FinetuneRecipe


def contestants_of(methods: Mapping[str, Method]) -> dict[str, tuple[Method, Contestant]]:
    """Return name -> the method and what makes it this contestant, in the order in which they run.

    What adapts on the task's texts comes first, then what needs text of the domain, then what needs general text.
    """
    pairs = [(method, contestant) for method in methods.values() for contestant in method.contestants]
    order = ("task", "domain", "general")
    return {
        contestant.name: (method, contestant)
        for method, contestant in sorted(pairs, key=lambda pair: order.index(pair[1].needs))
    }


def chains_of(methods: Mapping[str, Method]) -> dict[str, tuple[str, ...]]:
    """Return name -> links, of contestants such as DAPT+TAPT, which go on from another's model."""
    return {
        f"{before}+{contestant.name}": (before, contestant.name)
        for method in methods.values()
        for contestant in method.contestants
        for before in contestant.after
    }


def _allowed(methods: Mapping[str, Method], named: Iterable[str] = ()) -> Any:
    """Return the type of `RaceRecipe.contestants`: some of the names, or None for all that can race."""
    untuned = (*UNADAPTED, baselines.BASELINE)
    names = (*contestants_of(methods), *chains_of(methods), *untuned, scratch.CONTROL, ALL, *named)
    return tuple[Literal[names], ...] | None  # type: ignore[valid-type]


def _settings_of(methods: Mapping[str, Method], *, known: Collection[str] = ()) -> list[tuple[str, type, Any]]:
    """Return a field for each group of settings, with the defaults of a small encoder."""
    groups: dict[str, list[tuple[Method, Contestant]]] = {}
    for method, contestant in contestants_of(methods).values():
        groups.setdefault(method.group(contestant), []).append((method, contestant))
    group_fields: list[tuple[str, type, Any]] = []
    for name, racing in groups.items():
        method, first = racing[0]
        about = {"help": f"settings of {' and '.join(contestant.name for _, contestant in racing)}"}
        if name not in known:
            group_fields.append((name, method.recipe, field(default=first.small or method.recipe(), metadata=about)))
    return group_fields


if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    Names = tuple[str, ...] | None
else:
    Names = _allowed(METHODS)

# As fields, so that settings can be read, checked and written like all others: tapt, dapt, tapter, ...
_Methods: Any = make_dataclass("_Methods", _settings_of(METHODS), frozen=True)


@dataclass(frozen=True)
class RaceRecipe(_Methods):  # type: ignore[misc]
    """A race. The untouched model always runs, and `contestants` run against it.

    Beside these settings a race has those of every method that can race, under the name of the method or of the
    contestant: `tapt.epochs=3`, `dga.temperature=0.1`. The defaults of adapting are for a small encoder that is
    pretrained here, on a few million characters of text; `for_model` has those for a pretrained one.
    """

    methods: ClassVar[Mapping[str, Method]] = METHODS
    named: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # "file.py::NAME" -> the contestants of the method there

    seeds: Annotated[int, Range(least=1, most=1000)] = SEEDS
    """Rounds of the race at most: fine-tunings of each contestant, each with another seed. Fewer than 3 give no
    interval."""
    folds: Count = 0
    """Score by cross-validation with this number of folds, repeated once for each of `seeds`, instead of one test
    set, for few labelled rows. 0: one test set."""
    adapt_seeds: Adaptations = 0
    """Adaptations of each contestant, each with another seed, at most as many as `seeds`. Fine-tuning seed k starts
    from adaptation k mod adapt_seeds. 0: one per round, or only one if time is short or with cross-validation. With
    1, verdicts apply only to this one adaptation."""
    margin: Points = 1.0
    """Smallest gain that matters, in points. If no contestant can gain that much on test, the answer is "no gain that
    matters". The model to use may be so much worse on dev than the best contestant, if it is simpler. TF-IDF is the
    simplest, then the frozen encoder, then TF-IDF + encoder, then the untouched model, then the cheapest adaptation. A
    point is 0.01 of the metric, whichever it is: of accuracy, of F1, or of a correlation. 0: every gain
    matters."""
    until: Literal["rounds", "settled"] = "rounds"
    """When the race ends. "rounds": after `seeds` rounds or with its budget. "settled": also as soon as the answer is
    "helped", "harmful" or "no gain that matters", or more rounds cannot settle it on this test set. `seeds` is then
    20 by default. Each evaluation on test uses part of the significance, so intervals are wider."""
    contestants: Names = None
    """Names of contestants, or "file.py::NAME" for your own method. They are compared with the untouched model. []:
    only the untouched model and your checkpoints. None: the default contestants whose texts are given, "frozen",
    "TF-IDF + encoder" and the baseline. ["all"]: every contestant whose texts are given."""
    search: SearchRecipe = field(default_factory=SearchRecipe)
    """Settings of fine-tuning that every contestant tries. By default there is only one, so no search."""
    pretrain: scratch.ScratchRecipe = scratch.SMALL
    """Settings of the small encoder that is pretrained if the model is "scratch"."""
    finetune: finetune.FinetuneRecipe = field(default_factory=finetune.FinetuneRecipe)  # settings of every fine-tuning
    retrieval: retrieve.RetrieveRecipe = field(default_factory=retrieve.RetrieveRecipe)
    """How documents are retrieved for the contestants that train on general text."""
    tfidf: baselines.TfidfRecipe = field(default_factory=baselines.TfidfRecipe)
    """Settings of the baseline without an encoder."""
    learning_curve: LearningCurveRecipe = field(default_factory=LearningCurveRecipe)
    """Settings of --learning-curve, without which they do nothing."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.folds == 1:
            raise ValueError("folds = 1: one fold leaves no rows for training. Set at least 2, such as 5, or remove it")
        check_no_more(self, "adapt_seeds", than="seeds")  # each adaptation is fine-tuned once at least
        if self.until == "settled" and self.seeds < FIRST:
            setting = f"{option('until', 'settled')} with seeds = {self.seeds}"
            raise ValueError(f"{setting}: the first evaluation is after {FIRST} rounds. Raise seeds")
        if self.contestants is not None:
            raced = tuple(name for entry in self.contestants for name in self.named.get(entry, (entry,)))
            object.__setattr__(self, "contestants", raced)
        names, listing = self.contestants or (), f"contestants = {list(self.contestants or ())}"
        if ALL in names and len(names) > 1:
            raise ValueError(f'{listing}: "{ALL}" cannot be combined with other names. Remove them')
        if len(set(names)) < len(names):
            raise ValueError(f"{listing}: a name appears twice. Name each contestant once")
        check_unnamed(self, self.methods)
        scratch.check_raced(self.pretrain)

    def names(
        self, *, domain: bool, general: bool, kind: str = "sequence", config: PreTrainedConfig | None = None
    ) -> tuple[str, ...]:
        """Return the contestants that race against the untouched model.

        domain, general  True if there is raw text of the domain, general text
        kind, config     of the task; of the model, None where nothing is known of it

        Raises ValueError for one that is named and cannot do tasks of this kind, or adapt such a model.
        """
        has_text = {"task": True, "domain": domain, "general": general}
        known = contestants_of(self.methods)
        unsuited = {name: why for name, (method, _) in known.items() if (why := method.unsuited(kind, config))}
        if not baselines.baseline_of(kind):
            unsuited[baselines.BASELINE] = f"does not support tasks of kind '{kind}'"
        if kind not in PROBED:
            unsuited[FROZEN] = f"does not support tasks of kind '{kind}': {NOT_OF_A_STATE}"
        if kind not in baselines.FITS:
            unsuited[COMBINED] = f"does not support tasks of kind '{kind}', which have no TF-IDF baseline"
        if self.contestants in (None, (ALL,)):
            entered = self.contestants
            racing = [name for name, (_, one) in known.items() if has_text[one.needs] and (entered or one.default)]
            names = (*racing, *UNADAPTED, baselines.BASELINE, *((scratch.CONTROL,) if self.contestants else ()))
            return tuple(name for name in names if name not in unsuited)
        for name in self.contestants:
            for link in self.links(name):
                if link in unsuited:
                    raise ValueError(f"{link} {unsuited[link]}. Remove it from contestants")
        return tuple(self.contestants)

    @property
    def reserved_names(self) -> tuple[str, ...]:
        """The names that no checkpoint in the race can have."""
        others = (UNTOUCHED, ALONE, *UNADAPTED, baselines.BASELINE, baselines.DICTIONARY, BM25, scratch.CONTROL)
        return *others, *contestants_of(self.methods), *chains_of(self.methods)

    @property
    def heldout_tokens(self) -> tuple[str, int]:
        """The setting that states at what length losses on held-out text are read, and that length: what adapting on
        text of the domain reads by default.
        """
        for method, contestant in contestants_of(self.methods).values():
            if contestant.needs == "domain":
                group = method.group(contestant)
                return f"{group}.max_tokens", getattr(self, group).max_tokens
        raise AssertionError("no method adapts on text of the domain. Set retrieval or another contestant")

    def links(self, name: str) -> tuple[str, ...]:
        """Return the contestants whose adaptations make this one, such as DAPT and TAPT; itself, if it is no chain."""
        return chains_of(self.methods).get(name, (name,))

    def stated(self, name: str) -> tuple[Method, Contestant, Any]:
        """Return a contestant's method, what makes it this contestant, and the recipe by which it adapts."""
        method, contestant = contestants_of(self.methods)[name]
        recipe = getattr(self, method.group(contestant))
        return method, contestant, replace(recipe, **contestant.settings, **unread(contestant, recipe))

    def settings(self) -> tuple[Setting, ...]:
        """Return the settings that each contestant tries, in a fixed order."""
        search = self.search
        listed = product(search.rates or (None,), search.epochs or (None,), search.batches or (None,))
        return tuple(self.setting(rate=rate, epochs=epochs, batch=batch) for rate, epochs, batch in listed)

    def setting(self, *, rate: float | None = None, epochs: float | None = None, batch: int | None = None) -> Setting:
        """Return a way to fine-tune, named by what is given; the rest is as `finetune` has it."""
        named = {"rate": rate, "epochs": epochs, "batch": batch}
        name = ", ".join(f"{what} {value:g}" for what, value in named.items() if value is not None)
        usual = self.finetune
        plan = replace(usual.plan, rate=rate or usual.plan.rate, batch=batch or usual.plan.batch)
        length = {} if epochs is None else {"epochs": epochs, **usual.besides["epochs"]}
        return Setting(name or f"rate {plan.rate:g}", replace(usual, **length, plan=plan))


def unread(contestant: Contestant, recipe: Any) -> dict[str, Any]:
    """Return the defaults of the settings that the contestant does not read, so that they change no name of a job."""
    return {field.name: field.default for field in fields(recipe) if field.name in contestant.unread}


def check_unnamed(recipe: Any, methods: Mapping[str, Method]) -> None:
    """Raises ValueError for settings that the names of contestants state. recipe: has the groups of the methods."""
    names_by_setting: dict[tuple[str, str], list[str]] = {}
    for method, contestant in contestants_of(methods).values():
        for setting in contestant.settings:
            names_by_setting.setdefault((method.group(contestant), setting), []).append(contestant.name)
    for (group, setting), names in names_by_setting.items():
        group_recipe = getattr(recipe, group)
        [usual] = [field.default for field in fields(group_recipe) if field.name == setting]
        if (value := getattr(group_recipe, setting)) != usual:
            raise ValueError(
                f"{group}.{setting} = '{value}' has no effect here, because the contestants define it by their "
                f"names, {' and '.join(names)}. Remove it, and name them in contestants"
            )


def with_methods(methods: Mapping[str, Method], recipe: RaceRecipe) -> RaceRecipe:
    """Return the recipe with the settings and contestants of further methods, such as the user's.

    methods: by the name that stands for them in `contestants`, such as "file.py::NAME". Raises ValueError as
    `check_names` does.
    """
    methods = {key: method for key, method in methods.items() if recipe.methods.get(method.name) is not method}
    if not methods:
        return recipe
    check_names([*methods.values()], recipe.methods)
    together = {**recipe.methods, **{method.name: method for method in methods.values()}}
    named = {key: tuple(contestant.name for contestant in method.contestants) for key, method in methods.items()}
    more = _settings_of(together, known=[field.name for field in fields(recipe)])
    kind = make_dataclass(
        "RaceRecipe",
        [("contestants", _allowed(together, named), None), *more],
        bases=(type(recipe),),
        frozen=True,
        namespace={"methods": together, "named": {**recipe.named, **named}},
    )
    extended_recipe: RaceRecipe = kind(**{field.name: getattr(recipe, field.name) for field in fields(recipe)})
    return extended_recipe


def stated_methods(assignments: Iterable[str]) -> dict[str, Method]:
    """Return the methods that `contestants` names by their files, as "file.py::NAME", in assignments.

    A recipe's file may come from a stranger, so no code is loaded that only it names. Raises ValueError where there is
    no such method. What else is wrong there is left for settings.override to tell.
    """
    listed: list[Any] = []
    for key, _, value in (assignment.partition("=") for assignment in assignments):
        if key.strip() == "contestants":
            with contextlib.suppress(tomllib.TOMLDecodeError):
                contestants = tomllib.loads(f"contestants = {value}")["contestants"]
                listed += contestants if isinstance(contestants, list) else [contestants]
    return {name: load_method(name) for name in listed if isinstance(name, str) and "::" in name}


class _Searching(Protocol):
    """A recipe with a search over settings of its fine-tuning."""

    @property
    def search(self) -> SearchRecipe: ...
    @property
    def finetune(self) -> finetune.FinetuneRecipe: ...


S = TypeVar("S", bound=_Searching)


def heeded(state: Callable[[S], S], usual: S) -> S:
    """Return `usual` with what the user stated. The rates of a stated search are used as they are for an encoder of any
    width, and a race until it is settled has more rounds.

    state: returns a recipe with what was stated on top
    """
    recipe = state(usual)
    if getattr(recipe, "until", "") == "settled":
        usual = cast(S, replace(cast(Any, usual), seeds=ROUNDS_TO_SETTLE))
        recipe = state(usual)
    if recipe.search.rates and _states_rates(state, usual):
        literal = replace(usual.finetune, rate_by_width=False)
        recipe = state(cast(S, replace(cast(Any, usual), finetune=literal)))
    return recipe


def _states_rates(state: Callable[[S], S], usual: S) -> bool:
    """Return True if the user stated the rates of the search: then others in `usual` do not come through."""
    others = replace(usual.search, rates=(0.11, 0.12, 0.13))
    return state(cast(S, replace(cast(Any, usual), search=others))).search.rates != others.rates


def refuse_unused(recipe: RaceRecipe, usual: RaceRecipe, *, curves: str = "", pretrains: str = "") -> None:
    """Raises ValueError if settings of learning curves or of pretraining are stated, and the race does neither.

    curves, pretrains: the argument that would make the race do it; "" if the race does it
    """
    for name, argument in (("learning_curve", curves), ("pretrain", pretrains)):
        if argument and getattr(recipe, name) != getattr(usual, name):
            raise ValueError(f"settings of {name} have no effect here. Add {argument}, or remove them")


def for_model(methods: Mapping[str, Method] = MappingProxyType({})) -> RaceRecipe:
    """Return the settings for a pretrained model of the usual size: each method adapts as its `usual` settings have
    it, or else by the defaults of its recipe.
    """
    recipe = with_methods(methods, RaceRecipe())
    usual: dict[str, Any] = {}
    for method, contestant in contestants_of(recipe.methods).values():
        usual.setdefault(method.group(contestant), contestant.usual or method.recipe())
    return replace(recipe, **usual)
