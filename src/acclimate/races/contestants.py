"""The contestants of a race as jobs: how each one's model is made, its fine-tunings and its one test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from acclimate.core import files, settings
from acclimate.core.door import is_python, option
from acclimate.core.prompt import FIELD
from acclimate.core.types import SPLITS
from acclimate.data import retrieve
from acclimate.data.checkpoints import check_lengths, same_tokenizer
from acclimate.data.materials import Materials
from acclimate.jobs.job import Job, Work, with_needs
from acclimate.jobs.where import current_workers
from acclimate.methods import METHODS, Method, code_of
from acclimate.methods.baselines import BASELINE, TfidfRecipe, baseline_of
from acclimate.methods.recipes import finetune, scratch
from acclimate.models.configuration import longest_of_config, transformers_configuration, usable_configuration
from acclimate.models.loading import identity
from acclimate.races import work
from acclimate.races.recipe import ALL, RaceRecipe, Setting, contestants_of
from acclimate.reports.table import COMBINED, FROZEN, UNADAPTED, UNTOUCHED
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.task import PROBED
from acclimate.text.corpus import Corpus
from acclimate.training.plan import Precision
from acclimate.training.run import PLACES

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

RETRIEVE = "retrieve"
UNTUNED = (BASELINE, *UNADAPTED)  # contestants that are not fine-tuned
PROBE_PRECISION: Precision = "float32"  # as a head that begins as a probe is fitted: a process that does both fits once
# fields of `Entries` with the jobs that measure each model, by its name
MEASURED = ("losses", "general_losses", "moves")


@dataclass(frozen=True)
class Adapting:
    """How a contestant adapts. group: of settings that has its max_tokens and dropout."""

    name: str
    method: Method
    group: str
    recipe: Any


def check_adaptations(
    contestants: Sequence[Adapting], config: PreTrainedConfig, *, max_tokens: int, losses: tuple[str, int] | None = None
) -> None:
    """Raises ValueError, in terms of settings, where a contestant could not adapt a model of this config, or where the
    adapted model could not be fine-tuned or read: what its job would find out hours later.

    max_tokens  of the task's rows
    losses      the setting that states at what length losses on held-out text are read, and that length
    """
    for contestant in contestants:
        try:
            contestant.method.check(contestant.recipe, config, f"{contestant.group}.")
        except ValueError as error:
            raise ValueError(f"{contestant.name}: {error}, or remove {contestant.name} from contestants") from error
    if (longest := longest_of_config(config)) is None:
        return
    if max_tokens > longest:
        raise ValueError(
            f"examples of up to {max_tokens} tokens, but the model reads at most {longest}. Set "
            f"{option('max_tokens', str(longest))}"
        )
    if losses is not None and losses[1] > longest:
        setting, tokens = losses
        raise ValueError(
            f"{setting} = {tokens} is the length for losses on held-out text, but the model reads at most "
            f"{longest}. Set {setting}={longest}"
        )
    for contestant in contestants:
        has_prompt = bool(getattr(config, FIELD, 0))  # a prompt, with which it goes on
        prompt = 0 if has_prompt else contestant.method.prompt(contestant.recipe)
        has_own = has_prompt and contestant.method.prompt(contestant.recipe)
        behind = 0 if has_own else contestant.method.behind(contestant.recipe)
        read = {f"{contestant.group}.max_tokens=": getattr(contestant.recipe, "max_tokens", 0)}
        if prompt:
            longest_row = "max_tokens=" if is_python() else "--max-tokens "
            read |= {longest_row: max_tokens} | ({f"{losses[0]}=": losses[1]} if losses is not None else {})
        for setting, tokens in read.items():
            _check_room(contestant, setting, tokens, behind=behind, prompt=prompt, longest=longest)


def _check_room(contestant: Adapting, setting: str, tokens: int, *, behind: int, prompt: int, longest: int) -> None:
    """Raises ValueError where a row and the tokens behind it are longer than the model reads.

    setting  as it is typed, up to its value
    behind   tokens behind a row; prompt: how many of them are a prompt
    """
    if tokens + behind <= longest:
        return
    what = f"a prompt of {prompt}" if prompt else f"{behind} more"
    ways = [f"set {setting}{longest - behind}"] if longest - behind >= 3 else []
    ways += [
        *([f"lower {contestant.group}.prompt_tokens"] if prompt else []),
        f"remove {contestant.name} from contestants",
    ]
    way_out = ", or ".join(ways)
    raise ValueError(
        f"{contestant.name}: {setting}{tokens}{f', and {what} after them' if behind else ''}, but the model reads "
        f"at most {longest} tokens. {way_out[0].upper()}{way_out[1:]}"
    )


def job_of(label: str, kind: Work, recipe: Any, corpora: Mapping[str, Corpus]) -> Job:
    """Return a job that reads corpora. Its settings are a recipe, or a mapping as it is."""
    job_settings = dict(recipe) if isinstance(recipe, Mapping) else {"recipe": _without_places(recipe)}
    contents = {name: corpus.hash for name, corpus in corpora.items()}
    return Job(label, kind, job_settings, contents, {name: corpus.path for name, corpus in corpora.items()})


def _without_places(recipe: Any) -> dict[str, Any]:
    """Return the settings without paths: a job is named by the content of its files, and not by where they are."""
    return {name: value for name, value in settings.to_mapping(recipe).items() if name not in PLACES}


def with_model(job: Job, model: Job | None, materials: Materials, argument: str = "model") -> Job:
    """Return the job with the checkpoint of another job as its model, or else with the given model."""
    if model is not None:
        return replace(job, needs={**job.needs, argument: model})
    start_model = materials.model
    assert start_model is not None
    if not Path(start_model).is_dir():
        return replace(job, settings={**job.settings, argument: start_model})
    contents = {**job.contents, argument: identity(start_model)}
    return replace(job, contents=contents, places={**job.places, argument: Path(start_model).absolute()})


def adapted(
    label: str,
    method: Method,
    recipe: Any,
    text: Corpus | Job | None,
    materials: Materials,
    *,
    model: Job | None = None,
) -> Job:
    """Return the job that adapts a model by a method.

    text   a corpus, or the job that retrieves one; None if the recipe reads none
    model  the job that makes the model to start from; None for the given model
    """
    task, known = materials.task, {field.name for field in fields(method.recipe)}
    job_settings: dict[str, Any] = {"recipe": _without_places(method.raced(recipe)), "method": method.name}
    contents: dict[str, str] = {}
    places: dict[str, Path] = {}
    needs: dict[str, Job] = {}
    if isinstance(text, Job):
        needs["retrieved"] = text
    elif text is not None:
        contents["corpus"], places["corpus"] = text.hash, text.path
    if "task" in known:
        contents |= {name: task.hashes[name] for name in ("about", "train")}
        places["task"] = task.path
    if "dev" in known and materials.heldout is not None:  # to look at while it trains
        contents["dev"], places["dev"] = materials.heldout.hash, materials.heldout.path
    before = _first_job(method, recipe, text, materials) if isinstance(text, Corpus) else None
    if before is not None:
        assert method.first is not None
        needs[method.first.name] = before
        job_settings["recipe"] |= method.first.then
    for name in ("tokenizer", "vectors"):
        if (source := getattr(recipe, name, "")) and name not in needs:
            place = Path(source)
            contents[name] = files.sha256_of_input(place) if place.is_file() else identity(source)
            places[name] = place.absolute()
    job = _with_code(Job(label, work.ADAPT, job_settings, contents, places, needs), method)
    return with_model(job, model, materials) if method.starts(recipe) else job


def _first_job(method: Method, recipe: Any, text: Corpus, materials: Materials) -> Job | None:
    """Return the job of what the method does before it adapts, on the corpus and raw text; None if it does nothing."""
    first_settings = method.first.settings(recipe) if method.first else None
    if method.first is None or first_settings is None:
        return None
    raw = materials.domain or materials.general
    corpora = {"corpus": text, **({"raw": raw} if raw is not None else {})}
    job = job_of(method.first.label, work.FIRST, {"method": method.name, "stated": dict(first_settings)}, corpora)
    if (start := method.first.start(recipe)) is not None:
        contents = {**job.contents, "start": files.sha256_of_input(start)}
        job = replace(job, contents=contents, places={**job.places, "start": start})
    return _with_code(job, method)


def _with_code(job: Job, method: Method) -> Job:
    """Return the job, which also depends on the code of the method if that is the user's.

    Raises ValueError if other processes run the jobs and cannot load the method.
    """
    code, place = code_of(method)
    if not code:
        return job
    if place is None and current_workers() is not None:
        raise ValueError(
            f"{method.name} is not a named value of a file, so other processes cannot load it. Write it to a file "
            f"as a value of the module, or remove {option('workers')} and {option('cluster')}"
        )
    places = {**job.places, **({"code": place} if place is not None else {})}
    return replace(job, contents={**job.contents, "code": code}, places=places)


def domain_job(label: str, method: str, recipe: Any, materials: Materials) -> Job:
    """Return the job that adapts the given model on raw text of the domain by a method of METHODS."""
    assert materials.domain is not None
    return adapted(label, METHODS[method], recipe, materials.domain, materials)


def adaptations(name: str, recipe: RaceRecipe, materials: Materials, base: Job | None) -> dict[str, Job]:
    """Return the adapting jobs of a name such as "DAPT+TAPT", in order, by the names that they would have alone."""
    chain: dict[str, Job] = {}
    model, links = base, list[str]()
    fold_label = ""
    for link in recipe.links(name):
        links.append(link)
        method, contestant, link_recipe = recipe.stated(link)
        text: Corpus | Job | None = {"task": materials.task_text, "domain": materials.domain}.get(contestant.needs)
        if contestant.needs == "general":
            k = getattr(link_recipe, "k", 0) or recipe.retrieval.k  # a method may state how much it retrieves
            text = retrieved(replace(recipe.retrieval, k=k), materials)
        assert text is not None
        if materials.fold is not None and contestant.needs != "domain":
            fold_label = f", {materials.fold}"  # text of the domain is the same for all folds, and so is the job
        label = "+".join(links) + fold_label
        model = adapted(label, method, link_recipe, text, materials, model=model)
        chain["+".join(links)] = model
    return chain


def drawn_again(job: Job, number: int) -> Job:
    """Return the job of another adaptation: this job and those that it needs, each that draws an encoder with the seed
    of its recipe plus `number`. For 0 it is the job itself.

    A job that is needed for its tokenizer alone stays the same: no seed changes a vocabulary.
    """
    if not number:
        return job
    needs = {name: need if name == "tokenizer" else drawn_again(need, number) for name, need in job.needs.items()}
    job_settings = job.settings
    if job.work.draws:
        recipe = job_settings["recipe"]
        plan = {**recipe["plan"], "seed": recipe["plan"]["seed"] + number}
        job_settings = {**job_settings, "recipe": {**recipe, "plan": plan}}
    elif all(need is job.needs[name] for name, need in needs.items()):
        return job
    return replace(job, label=_numbered(job.label, number), settings=job_settings, needs=needs)


def draws(model: Job | None, adapt_seeds: int) -> tuple[Job | None, ...]:
    """Return the model by each of its adaptations; the model alone if no seed draws it.

    model: the job of the first adaptation; None: the given model
    """
    if model is None or adaptation_seed(model) is None:
        return (model,)
    return tuple(drawn_again(model, number) for number in range(adapt_seeds))


def starts(model: Job | None, *, seeds: int, adapt_seeds: int) -> dict[int, Job | None]:
    """Return fine-tuning seed k -> the job of adaptation k mod adapt_seeds, from which it starts.

    model: as of `draws`
    """
    drawn = draws(model, adapt_seeds)
    return {seed: drawn[seed % len(drawn)] for seed in range(seeds)}


def adaptation_seed(job: Job) -> int | None:
    """Return the seed of the job that `adaptation_of` returns; None: there is none."""
    adaptation = adaptation_of(job)
    return None if adaptation is None else int(adaptation.settings["recipe"]["plan"]["seed"])


def adaptation_of(job: Job) -> Job | None:
    """Return the last job that drew the encoder that a job fine-tunes or tests.

    Where none drew it, it is the fine-tuning on a first task that the job goes on from; else None.

    Of an ensemble, it is that of its first adapted model.
    """
    jobs, tunings = [job], list[Job]()
    while jobs:
        for candidate in jobs:
            if candidate.work.draws:
                return candidate
        tunings += [candidate for candidate in jobs if candidate.work.name == work.FINE_TUNE.name][:1]
        jobs = [needed for candidate in jobs for needed in candidate.needs.values()]
    return tunings[-1] if len(tunings) > 1 else None


def contents_of(task: Prepared, *parts: str) -> dict[str, str]:
    """Return what a job reads of a task, and what it can read at two places: jobs from before that was read have other
    names.
    """
    return {part: task.hashes[part] for part in parts} | ({"places": task.two_places} if task.two_places else {})


def fine_tuned(label: str, recipe: finetune.FinetuneRecipe, model: Job | None, materials: Materials) -> Job:
    """Return the job that fine-tunes a job's model, or the given one."""
    task = materials.task
    contents = contents_of(task, "about", "train", "dev")
    job = replace(job_of(label, work.FINE_TUNE, recipe, {}), contents=contents, places={"task": task.path})
    return with_model(job, model, materials)


def probed(name: str, model: Job | None, materials: Materials, tuning: finetune.FinetuneRecipe) -> Job:
    """Return the job that fits a probe on the frozen encoder of a job, or on the given one.

    name: what is probed, such as "DAPT"; tuning: the fine-tuning that it stands beside
    """
    task = materials.task
    contents = contents_of(task, "about", "train", "dev")
    probe_settings = {"precision": PROBE_PRECISION, **threshold_of(tuning, task)}
    label = f"probe {name}" + (f", {materials.fold}" if materials.fold else "")
    job = Job(label, work.PROBE, probe_settings, contents, {"task": task.path}, alone=True)
    return with_model(job, model, materials)


def threshold_of(tuning: finetune.FinetuneRecipe, task: Prepared) -> dict[str, Any]:
    """Return the setting by which what is not fine-tuned chooses its threshold as fine-tuning does, if it has one."""
    return {"threshold": "dev"} if task.has_threshold and tuning.threshold == "dev" else {}


def tested_probe(fitted: Job, task: Prepared) -> Job:
    """Return the job that is the one look of a fitted probe at the test set."""
    contents = {name: task.hashes[name] for name in ("about", "test")}
    label = f"test {fitted.label}"
    job_settings = {"by": label, "precision": fitted.settings["precision"], **_model_in(fitted.settings)}
    contents |= _model_in(fitted.contents)
    places = {**fitted.places, "task": task.path}
    return Job(label, work.TEST_PROBE, job_settings, contents, places, {**fitted.needs, "fitted": fitted}, alone=True)


def _model_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value for the model, if there is one: among settings that of a model of the hub."""
    return {name: value for name, value in values.items() if name == "model"}


def retrieved(recipe: retrieve.RetrieveRecipe, materials: Materials) -> Job:
    """Return the job that retrieves from the general text, with the training texts as queries."""
    task, general = materials.task, materials.general
    assert general is not None
    job = job_of(RETRIEVE, work.RETRIEVE, recipe, {"corpus": general})
    contents = {**job.contents, **{str(split): task.hashes[split] for split in SPLITS}}
    return replace(job, contents=contents, places={**job.places, "task": task.path}, alone=True)


def cut(larger: Job, k: int) -> Job:
    """Return the job that takes the first k documents of a retrieval with a larger k."""
    return Job(f"cut to {k}", work.CUT, {"k": k}, needs={"larger": larger}, alone=True)


def heldout_loss(label: str, corpus: Corpus, model: Job | None, materials: Materials, *, max_tokens: int) -> Job:
    """Return the job that measures a model's loss on held-out text, under the same masks for all of one vocabulary."""
    job = job_of(label, work.HELDOUT, {"max_tokens": max_tokens}, {"corpus": corpus})
    return with_model(replace(job, alone=True), model, materials)


def heldout_losses(
    label: str, corpus: Corpus, model: Job | None, adapt_seeds: int, materials: Materials, *, max_tokens: int
) -> tuple[Job, ...]:
    """Return the jobs that measure the loss of each adaptation of a model, as `heldout_loss` does."""
    return tuple(
        heldout_loss(_numbered(label, number), corpus, drawn, materials, max_tokens=max_tokens)
        for number, drawn in enumerate(draws(model, adapt_seeds))
    )


def tested(tuned: Job, task: Prepared) -> Job:
    """Return the job that is the one look of a fine-tuned checkpoint at the test set."""
    contents = {name: task.hashes[name] for name in ("about", "test")}
    label = tuned.label.replace(work.FINE_TUNE.name, work.TEST.name, 1)
    if not tuned.work.trains:
        label = f"{work.TEST.name} {label}"
    return Job(label, work.TEST, {"by": label}, contents, {"task": task.path}, {"tuned": tuned}, alone=True)


def frozen_job(fitted: Job, task: Prepared) -> Job:
    """Return the job that writes the checkpoint of the frozen encoder with the layer of its probe, `fitted`."""
    return _job_on_probe(FROZEN, work.FREEZE, {}, fitted, task)


def combined_job(fitted: Job, task: Prepared, recipe: TfidfRecipe) -> Job:
    """Return the job that fits a linear model on terms and on the frozen encoder's states. fitted: its probe"""
    fit_settings = {"recipe": _without_places(recipe), "precision": fitted.settings["precision"]}
    return _job_on_probe(COMBINED, work.COMBINE, fit_settings, fitted, task)


def _job_on_probe(name: str, kind: Work, fit_settings: Mapping[str, Any], fitted: Job, task: Prepared) -> Job:
    """Return the job of a contestant that is made of the untouched model's probe, `fitted`."""
    contents = contents_of(task, "about", "train", "dev") | _model_in(fitted.contents)
    label = fitted.label.replace(f"probe {UNTOUCHED}", name)
    job_settings, needs = {**fit_settings, **_model_in(fitted.settings)}, {**fitted.needs, "fitted": fitted}
    return Job(label, kind, job_settings, contents, fitted.places, needs, alone=True)


def tested_baseline(fitted: Job, task: Prepared) -> Job:
    """Return the job that is the one look of the baseline at the test set."""
    contents, label = contents_of(task, "about", "test"), f"test {fitted.label}"
    return Job(label, work.TEST_TERMS, {"by": label}, contents, {"task": task.path}, {"fitted": fitted}, alone=True)


def tested_combined(fitted: Job, task: Prepared) -> Job:
    """Return the job that is the one look of a linear model on terms and states at the test set."""
    contents, label = contents_of(task, "about", "test") | _model_in(fitted.contents), f"test {fitted.label}"
    job_settings = {name: value for name, value in fitted.settings.items() if name in ("model", "precision")}
    job_settings, places = {"by": label, **job_settings}, {**fitted.places, "task": task.path}
    needs = {**_model_in(fitted.needs), "fitted": fitted}
    return Job(label, work.TEST_COMBINED, job_settings, contents, places, needs, alone=True)


TESTS = {work.TERMS.name: tested_baseline, work.FREEZE.name: tested, work.COMBINE.name: tested_combined}
"""Work that fits a contestant which is not fine-tuned -> (its job, task) -> the job of its look at the test set."""


@dataclass(frozen=True)
class Entries:
    """The jobs that come before any fine-tuning.

    base            the encoder that is pretrained here; None where a model was given
    models          contestant -> the job of its model, None for the given model itself; all but the baseline
    losses          model -> the jobs of its loss on held-out text of the domain, one for each adaptation; links of a
                    chain too
    general_losses  likewise on held-out general text
    moves           model -> the jobs of its word embeddings' distance from the untouched model's, likewise; empty where
                    no method holds on to them
    baseline        the one without an encoder, which tries as many settings as each encoder
    unadapted       contestant -> its job, of those that read the untouched encoder as it is: FROZEN, which writes its
                    checkpoint with the layer of its probe, and COMBINED, which fits terms and states
    fresh           contestants whose weights owe nothing to the untouched model
    further         contestant -> the jobs of its further adaptations, where the recipe asks for several
    probes          contestant -> the jobs that probe its model, one for each adaptation; empty where the task cannot
                    be probed
    fine_tunes      False if contestants are only adapted and probed
    own_materials   contestant -> its materials, where it has a model of its own, such as a checkpoint
    """

    recipe: RaceRecipe
    materials: Materials
    base: Job | None
    models: Mapping[str, Job | None]
    losses: Mapping[str, tuple[Job, ...]]
    general_losses: Mapping[str, tuple[Job, ...]]
    moves: Mapping[str, tuple[Job, ...]]
    baseline: Job | None
    fresh: tuple[str, ...] = ()
    further: Mapping[str, tuple[Job, ...]] = field(default_factory=dict)
    probes: Mapping[str, tuple[Job, ...]] = field(default_factory=dict)
    fine_tunes: bool = True
    own_materials: Mapping[str, Materials] = field(default_factory=dict)
    unadapted: Mapping[str, Job] = field(default_factory=dict)

    @property
    def untuned(self) -> dict[str, Job]:
        """The contestants that are not fine-tuned, and the job that fits each."""
        fits = {} if self.baseline is None else {self.baseline.label: self.baseline}
        return {**fits, **self.unadapted}

    @property
    def untuned_tests(self) -> dict[str, Job]:
        """Those contestants, and the look of each at the test set."""
        return {name: TESTS[job.work.name](job, self.materials.task) for name, job in self.untuned.items()}

    @property
    def seeds(self) -> range:
        """The seeds of fine-tuning: on a fold of a cross-validation, the number of its repeat alone."""
        fold = self.materials.fold
        return range(self.recipe.seeds) if fold is None else range(fold.repeat, fold.repeat + 1)

    def model(self, contestant: str, seed: int) -> Job | None:
        """Return the job of the model that fine-tuning with this seed starts from; None: the given model itself."""
        adapted_by = (self.models[contestant], *self.further.get(contestant, ()))
        return adapted_by[seed % len(adapted_by)]

    def tuning(self, contestant: str, setting: Setting, number: int) -> Job:
        """Return the job that fine-tunes a contestant's model with one setting and the seed of this number."""
        several = len(self.recipe.settings()) > 1
        # outside of folds the number is the seed, be it one that a budget pays for beyond `seeds`
        seed = number if self.materials.fold is None else self.seeds[number]
        words = [f"fine-tune {contestant}", *([setting.name] if several else []), f"seed {seed}"]
        words += [str(self.materials.fold)] if self.materials.fold else []
        tuning_recipe = replace(setting.recipe, plan=replace(setting.recipe.plan, seed=seed))
        materials = self.own_materials.get(contestant, self.materials)
        return fine_tuned(", ".join(words), tuning_recipe, self.model(contestant, seed), materials)

    def contestants_reading(self, job: Job) -> tuple[str, ...]:
        """Return the contestants whose own model is read by the job or by a job that it needs."""
        if not self.own_materials:
            return ()
        models_read = [
            (needed_job.places.get("model"), needed_job.settings.get("model")) for needed_job in with_needs([job])
        ]
        return tuple(
            name
            for name, materials in self.own_materials.items()
            if (model := materials.model) is not None
            and any(model == setting or Path(model).absolute() == place for place, setting in models_read)
        )

    def contestants_of(self, jobs: Sequence[Job]) -> list[tuple[str, ...]]:
        """Return of each job the contestants that it is for: those that it fine-tunes or tests, or whose model it makes
        or measures, be it on the way. Jobs on the given model, and the baseline's, are for the untouched model.
        """
        models = {
            name: [draw for draw in (model, *self.further.get(name, ())) if draw] for name, model in self.models.items()
        }
        last = {name: {draw.name for draw in several} for name, several in models.items()}
        chains = {name: {needed.name for needed in with_needs(several)} for name, several in models.items()}
        unadapted = [name for name, model in self.models.items() if model is None]
        start_names = tuple(name for name in unadapted if name not in self.own_materials) or (UNTOUCHED,)
        contestants = []
        for job in jobs:
            alone = job.work.trains == "task" or job.work.opens_test
            chain_names = [
                needed.name for needed in with_needs([job]) if any(needed.name in chain for chain in chains.values())
            ]
            names = (name for name in models if chain_names and chain_names[-1] in (last if alone else chains)[name])
            contestants.append(tuple(names) or self.contestants_reading(job) or start_names)
        return contestants

    def with_trials(self, number: int) -> Entries:
        """Return the entries with a baseline that tries so many settings, or all that it has if these are fewer."""
        if self.baseline is None:
            return self
        most = self.recipe.tfidf.trials
        terms_recipe = {**self.baseline.settings["recipe"], "trials": min(number, most) if most else number}
        return replace(
            self, baseline=replace(self.baseline, settings={**self.baseline.settings, "recipe": terms_recipe})
        )

    def prepared(self) -> list[Job]:
        """Return the jobs of models and of what is measured of them, in their order; the baseline first."""
        fits = [*self.untuned.values()]
        measured = [job for measure in MEASURED for jobs in getattr(self, measure).values() for job in jobs]
        further = [job for jobs in self.further.values() for job in jobs]
        probes = [job for jobs in self.probes.values() for job in jobs]
        return [*fits, *(job for job in self.models.values() if job), *further, *measured, *probes]

    def probe_tests(self) -> dict[str, tuple[Job, ...]]:
        """Return contestant -> the look of its probe at the test set, one for each adaptation."""
        task = self.materials.task
        return {name: tuple(tested_probe(job, task) for job in jobs) for name, jobs in self.probes.items()}


def enter(recipe: RaceRecipe, materials: Materials, *, fine_tunes: bool = True) -> Entries:
    """Return the contestants' jobs. Raises ValueError where one lacks its text or the model cannot read the task.

    fine_tunes: False if contestants are only adapted and probed
    """
    recipe = replace(recipe, adapt_seeds=recipe.adapt_seeds or 1)
    _check(recipe, materials)
    base, config = _start(recipe, materials)
    raw = {"domain": materials.domain is not None, "general": materials.general is not None}
    names = recipe.names(**raw, kind=materials.task.kind, config=config)
    adapted_names = [*materials.checkpoints, *(name for name in names if name not in UNTUNED)]
    if recipe.finetune.head == "kept" and adapted_names:
        raise ValueError(
            f"finetune.head = 'kept' keeps the head of the start model, which {adapted_names[0]} lacks. Remove it, "
            "or set contestants=[] (as acclimate evaluate does)"
        )
    linked = {link: recipe.stated(link) for name in names for link in recipe.links(name) if link in _known(recipe)}
    losses_read = materials.heldout is not None or materials.general_heldout is not None
    longest = recipe.heldout_tokens
    check_adaptations(
        [
            Adapting(link, method, method.group(contestant), link_recipe)
            for link, (method, contestant, link_recipe) in linked.items()
        ],
        config,
        max_tokens=materials.task.max_tokens,
        losses=longest if losses_read else None,
    )
    # on a fold of a cross-validation one adaptation is fine-tuned, that of the repeat
    first = 0 if materials.fold is None else materials.fold.repeat % recipe.adapt_seeds
    own = {name: replace(materials, model=model) for name, model in materials.checkpoints.items()}
    models: dict[str, Job | None] = {UNTOUCHED: base, **dict.fromkeys(own)}
    further: dict[str, tuple[Job, ...]] = {}
    for name in names:
        if name == scratch.CONTROL:
            models[name] = with_model(Job(name, work.UNTRAINED, {"seed": 0}), base, materials)
        elif name not in UNTUNED:
            chain = adaptations(name, recipe, materials, base)
            models |= {link: drawn_again(job, first) for link, job in chain.items()}
            later = draws(chain[name], recipe.adapt_seeds)[1:] if materials.fold is None else ()
            further[name] = tuple(job for job in later if job is not None)
    # with another vocabulary
    other = [name for name, (method, _, link_recipe) in linked.items() if not method.starts(link_recipe)]
    measured = {name: model for name, model in models.items() if name not in (*other, *own)}
    losses: dict[str, Any] = {}
    if materials.fold is None:  # what a fold adapts is not measured
        losses = _losses(measured, materials, recipe.adapt_seeds, max_tokens=longest[1], own=own)
    baseline, task = None, materials.task
    terms = replace(recipe.tfidf, **threshold_of(recipe.finetune, task))
    if BASELINE in names:
        contents = contents_of(task, "about", "train", "dev")
        fitted = job_of(baseline_of(task.kind), work.TERMS, terms, {})
        baseline = replace(fitted, contents=contents, places={"task": task.path}, alone=True)
    racing = {name: model for name, model in models.items() if name in (UNTOUCHED, *own, *names)}
    fresh = (*other, scratch.CONTROL, *own)
    moves = {}
    if materials.fold is None and any(method.moves for method, _, _ in linked.values()):
        moved = {name: draws(model, recipe.adapt_seeds) for name, model in models.items() if name not in fresh}
        moves = _moves(moved, base, materials)
    probes = _probes(racing, further, materials, recipe.finetune, own) if materials.task.kind in PROBED else {}
    entries = Entries(recipe, materials, base, racing, {}, {}, moves, baseline, fresh, further, probes, fine_tunes)
    jobs: dict[str, Callable[[Job, Prepared], Job]] = {
        FROZEN: frozen_job,
        COMBINED: partial(combined_job, recipe=terms),
    }
    unadapted = {name: jobs[name](probes[UNTOUCHED][0], task) for name in UNADAPTED if name in names}
    return replace(entries, **losses, unadapted=unadapted, own_materials=own).with_trials(len(recipe.settings()))


def _start(recipe: RaceRecipe, materials: Materials) -> tuple[Job | None, PreTrainedConfig]:
    """Return the job that pretrains the start model (None if a model is given), and its config."""
    model = materials.model
    if model is not None:
        config = usable_configuration(model)
        users = any(METHODS.get(method.name) is not method for method in recipe.methods.values())
        return None, transformers_configuration(config) if users else config
    from acclimate.methods.scratch import new_encoder_configuration

    assert materials.general is not None
    base = job_of("pretrain", work.PRETRAIN, recipe.pretrain, {"corpus": materials.general})
    return base, new_encoder_configuration(recipe.pretrain)


def _comparable(model: str | None, start: str | None, max_tokens: int) -> bool:
    """Return True if the model's losses per token can be compared with those of the model that the race starts from."""
    if model is None or start is None or not same_tokenizer(model, start):
        return False
    longest = longest_of_config(usable_configuration(model))
    return longest is None or max_tokens <= longest


def _losses(
    models: Mapping[str, Job | None],
    materials: Materials,
    adapt_seeds: int,
    *,
    max_tokens: int,
    own: Mapping[str, Materials] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return field of Entries -> model -> the jobs that measure its losses.

    own: contestant -> its materials, where it has a model of its own
    """
    own = {name: one for name, one in own.items() if _comparable(one.model, materials.model, max_tokens)}
    losses: dict[str, Any] = {}
    for measure, label, corpus in (
        ("losses", "held-out loss", materials.heldout),
        ("general_losses", "general loss", materials.general_heldout),
    ):
        losses[measure] = {
            name: heldout_losses(
                f"{label}, {name}", corpus, model, adapt_seeds, own.get(name, materials), max_tokens=max_tokens
            )
            for name, model in {**models, **dict.fromkeys(own)}.items()
            if corpus is not None
        }
    return losses


def _probes(
    models: Mapping[str, Job | None],
    further: Mapping[str, Sequence[Job]],
    materials: Materials,
    tuning: finetune.FinetuneRecipe,
    own: Mapping[str, Materials],
) -> dict[str, tuple[Job, ...]]:
    """Return contestant -> the jobs that probe its model, one for each adaptation, in their order.

    own: as of `_losses`
    """
    drawn = {name: (model, *further.get(name, ())) for name, model in models.items()}
    return {
        name: tuple(
            probed(_numbered(name, number), model, own.get(name, materials), tuning)
            for number, model in enumerate(several)
        )
        for name, several in drawn.items()
    }


def _known(recipe: RaceRecipe) -> Iterable[str]:
    return contestants_of(recipe.methods)


def _moves(
    models: Mapping[str, Sequence[Job | None]], base: Job | None, materials: Materials
) -> dict[str, tuple[Job, ...]]:
    """Return contestant -> the jobs that measure how far its embeddings moved; of all that began as untouched.

    models: by each adaptation
    """
    assert materials.task_text is not None
    job = with_model(job_of("", work.MOVE, {}, {"corpus": materials.task_text}), base, materials, "untouched")

    def measured(name: str, number: int, model: Job | None) -> Job:
        label = _numbered(f"embedding distance, {name}", number)
        return with_model(replace(job, label=label, alone=True), model, materials)

    return {
        name: tuple(measured(name, number, model) for number, model in enumerate(drawn))
        for name, drawn in models.items()
        if name != UNTOUCHED
    }


def _numbered(label: str, number: int) -> str:
    """Return the label of what is done with an adaptation; that of the first has no number."""
    return f"{label}, adaptation {number}" if number else label


def _check(recipe: RaceRecipe, materials: Materials) -> None:
    check_lengths(materials.checkpoints, materials.task.max_tokens)
    known = contestants_of(recipe.methods)
    for name in () if recipe.contestants == (ALL,) else recipe.contestants or ():
        for link in recipe.links(name):
            needs = known[link][1].needs if link in known else "task"
            if needs == "domain" and materials.domain is None:
                raise ValueError(
                    f"{link} needs raw text of the domain. Add {option('corpus')}, or remove {link} from contestants"
                )
            if needs == "general" and materials.general is None:
                raise ValueError(
                    f"{link} retrieves from general text. Add {option('general')}, or remove {link} from contestants"
                )
    for method, contestant in known.values():
        group = method.group(contestant)
        if (model := getattr(getattr(recipe, group), "model", "")) and not materials.model:
            raise ValueError(f"{group}.model = {model!r}, but no model is given. Add {option('model', model)}")


def rows_of(recipe: RaceRecipe, materials: Materials, counted: Mapping[Path, int]) -> dict[str, int]:
    """Return group of settings -> rows that adapting with these settings sees. counted: those of a corpus; where it
    was not counted, each document is taken for one
    """
    corpora = {"task": materials.task_text, "domain": materials.domain, "general": materials.general}
    corpora_by_group = {"pretrain": materials.general}
    for method, contestant in contestants_of(recipe.methods).values():
        corpora_by_group[method.group(contestant)] = corpora[contestant.needs]
    return {
        group: counted.get(corpus.path, len(corpus)) for group, corpus in corpora_by_group.items() if corpus is not None
    }
