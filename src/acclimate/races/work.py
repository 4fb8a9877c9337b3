"""The functions of jobs: each reads directories, calls a method, writes to `out`, and returns JSON values.

A result holds no times, so a study that was killed and continued writes the same results. Seconds are in `clock.json`.
The functions import what trains, because a race is planned with their names alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from acclimate.core import files, ranks, settings
from acclimate.core.types import Checkpoint, Watch
from acclimate.data import retrieve as retrieving
from acclimate.jobs.job import RESULT, Result, Work, read_result
from acclimate.methods import baselines, method_called
from acclimate.methods.ranking.bm25 import Bm25
from acclimate.methods.recipes.finetune import FinetuneRecipe
from acclimate.methods.recipes.scratch import ScratchRecipe
from acclimate.models.configuration import configuration_of
from acclimate.models.word_embeddings import embedding_distances
from acclimate.tasks.chance import nothing_learnt
from acclimate.tasks.prepared import open_prepared
from acclimate.tasks.thresholds import Threshold
from acclimate.text.corpus import Corpus
from acclimate.training.checkpoint import CLOCK, cost_before, read_log
from acclimate.training.plan import Precision
from acclimate.training.run import CHECKPOINT

SHOWN = "shown.json"  # a few queries and what they retrieved, for the page


def pretrain(
    *,
    out: Path,
    watch: Watch,
    recipe: Mapping[str, Any],
    corpus: Path,
    model: str | Path = "",
    tokenizer: str | Path = "",
    dev: Path | None = None,
    general: Path | None = None,
) -> Result:
    """Pretrain an encoder from random weights, with a new vocabulary or that of `tokenizer`; or from `model`.

    general: a second corpus, whose rows are mixed with those of `corpus`
    """
    from acclimate.methods import scratch

    places = {"corpus": str(corpus), "dev": str(dev or Path())}
    places |= {"general": str(general)} if general is not None else {}
    places |= {name: checkpoint_of(source) for name, source in (("model", model), ("tokenizer", tokenizer)) if source}
    scratch_recipe = settings.from_mapping(ScratchRecipe, {**recipe, **places})
    return _trained(out, scratch.adapt(scratch_recipe, out, watch=watch))


def untrained(*, out: Path, watch: Watch, model: str | Path, seed: int) -> Result:
    """Write a model of the same architecture and vocabulary with random weights."""
    from acclimate.methods import scratch

    checkpoint = scratch.untrained(checkpoint_of(model), out, seed=seed)
    return {"checkpoint": files.sha256_of(checkpoint.path / files.MANIFEST)}


def adapt(
    *,
    out: Path,
    watch: Watch,
    recipe: Mapping[str, Any],
    method: str,
    code: Path | None = None,
    retrieved: Path | None = None,
    **places: str | Path,
) -> Result:
    """Adapt a contestant's encoder by its method.

    code       the file of a method that is none of METHODS
    retrieved  the directory of a job that retrieved the corpus
    places     other fields of the recipe that are paths: corpus, model, task, dev, what a job before this one left
    """
    adapting_method = method_called(method, code)
    paths = {name: checkpoint_of(place) if name == "model" else _left(place) for name, place in places.items()}
    if retrieved is not None:
        paths["corpus"] = str(retrieved / retrieving.CORPUS)
    adapting_recipe = settings.from_mapping(adapting_method.recipe, {**recipe, **paths})
    return _trained(out, (adapting_method.encoder or adapting_method.adapt)(adapting_recipe, out, watch=watch))


def first(
    *,
    out: Path,
    watch: Watch,
    method: str,
    stated: Mapping[str, Any],
    corpus: Path,
    raw: Path | None = None,
    start: Path | None = None,
    code: Path | None = None,
) -> Result:
    """Do what a method does before it adapts, such as training word vectors on the corpus and raw text."""
    begun = time.monotonic()
    work = method_called(method, code).first
    assert work is not None
    corpora = [Corpus(path) for path in (corpus, raw) if path is not None]
    output = work.do(stated, corpora, out, start=start, watch=watch)
    if ranks.is_first():
        files.write_record(out / CLOCK, {"seconds": time.monotonic() - begun})
    return {"documents": sum(map(len, corpora)), "left": str(output.relative_to(out))}


def _left(place: str | Path) -> str:
    """Return what a job left, by its result, if `place` is the directory of a job; else the place itself."""
    if (Path(place) / RESULT).exists():
        directory = Path(place) / read_result(Path(place))["left"]
        if directory.parent != Path(place):
            files.check_manifest(directory.parent)
        return str(directory)
    return str(place)


def retrieve(*, out: Path, watch: Watch, recipe: Mapping[str, Any], corpus: Path, task: Path) -> Result:
    """Retrieve documents of general text with the training texts as queries, into `out/corpus`."""
    begun = time.monotonic()
    record = retrieving.work(out=out, watch=watch, task=task, corpus=corpus, **recipe)
    files.write_record(out / CLOCK, {"seconds": time.monotonic() - begun})
    files.write_json(out / SHOWN, retrieving.examples_of(out, Corpus(corpus)))
    return {"documents": record["selection"]["documents"], "characters": record["selection"]["characters"]}


def cut(*, out: Path, watch: Watch, k: int, larger: Path) -> Result:
    """Write what `retrieve` would have retrieved with a smaller k."""
    selection = retrieving.cut_retrieval(larger, k, out, watch=watch).facts["selection"]
    return {"documents": selection["documents"], "characters": selection["characters"]}


def heldout(*, out: Path, watch: Watch, corpus: Path, model: str | Path, max_tokens: int) -> Result:
    """Return the MLM loss on held-out text, of the domain or general: methods/mlm.py::HeldOutLoss."""
    from acclimate.methods import mlm

    loss = mlm.heldout_loss(checkpoint_of(model), corpus, max_tokens=max_tokens, watch=watch)
    return {name: value for name, value in loss._asdict().items() if value is not None}


def move(*, out: Path, watch: Watch, corpus: Path, model: str | Path, untouched: str | Path) -> Result:
    """Return how far the word embeddings are from the untouched model's: all, and those of the corpus's pieces."""
    texts = (document.text for document in Corpus(corpus).documents())
    distances_by_place = embedding_distances(checkpoint_of(untouched), checkpoint_of(model), texts, watch=watch)
    return {where: asdict(distances) for where, distances in distances_by_place.items()}


def fine_tune(*, out: Path, watch: Watch, recipe: Mapping[str, Any], task: Path, model: str | Path) -> Result:
    """Fine-tune with the recipe's seed, choose a checkpoint on dev, and return its predictions there."""
    from acclimate.methods import finetune
    from acclimate.methods.tuning.looks import LEARNT, dev_score, least_dev_loss

    tuning = settings.from_mapping(FinetuneRecipe, {**recipe, "task": str(task), "model": checkpoint_of(model)})
    if open_prepared(task).kind == "search":
        from acclimate.methods.ranking import search

        return search.fine_tune(tuning, out, watch=watch)
    checkpoint = finetune.adapt(tuning, out, watch=watch)
    chosen = {"dev": dev_score(out), "loss": least_dev_loss(out)}
    chosen["width"] = configuration_of(checkpoint.path).hidden_size
    learnt: Result = files.read_record(out / LEARNT)
    return _trained(out, checkpoint) | chosen | learnt | seen_on_dev(out)


def seen_on_dev(out: Path) -> Result:
    """Return the looks at dev of the fine-tuning in `out`, and the predictions of the chosen checkpoint there."""
    from acclimate.methods.tuning.looks import DEV, PREDICTED_DEV, last_attempt

    return {
        "looks": files.read_record(last_attempt(out) / DEV),
        "predicted_dev": files.read_record(last_attempt(out) / PREDICTED_DEV),
    }


def test(*, out: Path, watch: Watch, by: str, task: Path, tuned: Path) -> Result:
    """Score a fine-tuned checkpoint on the test set, once; the look is recorded under the name `by`."""
    from acclimate.methods import finetune
    from acclimate.methods.ranking import search

    prepared = open_prepared(task)
    tested = search.test if prepared.kind == "search" else finetune.test
    return tested(Checkpoint(tuned / CHECKPOINT), prepared, by=by, watch=watch)


def test_together(*, out: Path, watch: Watch, by: str, task: Path, first: Path, second: Path) -> Result:
    """Score an ensemble of two fine-tuned checkpoints on the test set, once, and on dev."""
    from acclimate.methods import finetune

    checkpoints = [Checkpoint(tuned / CHECKPOINT) for tuned in (first, second)]
    return finetune.test_ensemble(checkpoints, open_prepared(task), by=by, watch=watch)


def probed(
    *, out: Path, watch: Watch, task: Path, model: str | Path, precision: Precision, threshold: Threshold = "half"
) -> Result:
    """Fit a probe of the frozen encoder on the training rows, and score it on dev."""
    from acclimate.methods import probe

    prepared = open_prepared(task)
    fit = probe.probe(checkpoint_of(model), prepared, precision=precision, threshold=threshold, watch=watch)
    probe.write_layer(fit.layer, out)
    files.write_record(out / CLOCK, {"seconds": fit.seconds})
    return {
        "dev": fit.dev,
        "predicted_dev": list(fit.predicted_dev),
        "learnt": fit.learnt,
        "read_out": fit.layer.read_out,
        "strength": fit.layer.strength,
        "losses": {name: loss if math.isfinite(loss) else None for name, loss in fit.losses.items()},
        "tokens": fit.tokens,
    }


def test_probe(
    *, out: Path, watch: Watch, by: str, task: Path, model: str | Path, fitted: Path, precision: Precision
) -> Result:
    """Score a fitted probe on the test set, once; the look is recorded under the name `by`."""
    from acclimate.methods import probe

    layer, prepared = probe.read_layer(fitted), open_prepared(task)
    fit_result = read_result(fitted)
    tested = probe.test_probe(layer, checkpoint_of(model), prepared, by=by, precision=precision, watch=watch)
    return tested | {name: fit_result[name] for name in ("dev", "learnt")}


def freeze(*, out: Path, watch: Watch, task: Path, model: str | Path, fitted: Path) -> Result:
    """Write the checkpoint of a frozen encoder with the layer of its probe, and return what the probe scored on dev."""
    from acclimate.methods import finetune, probe

    fit_result = read_result(fitted)
    checkpoint = finetune.write_frozen(probe.read_layer(fitted), checkpoint_of(model), task, out, watch=watch)
    scores = {name: fit_result[name] for name in ("dev", "predicted_dev", "learnt", "read_out")}
    return scores | {"checkpoint": files.sha256_of(checkpoint.path / files.MANIFEST)}


def terms(*, out: Path, watch: Watch, recipe: Mapping[str, Any], task: Path) -> Result:
    """Fit the baseline without an encoder, and choose its setting on dev."""
    prepared = open_prepared(task)
    if prepared.kind == "search":
        begun, model = time.monotonic(), Bm25()
        predicted = model.rankings(prepared, "dev", watch=watch)
        baselines.write_baseline(model, out)
        files.write_record(out / CLOCK, {"seconds": time.monotonic() - begun})
        dev = prepared.score([example.label for example in prepared.examples("dev")], predicted)
        return {"dev": dev, "setting": asdict(model), "predicted_dev": predicted, "learnt": dev > 0, "tokens": 0}
    if prepared.kind == "tokens":
        fitted = baselines.fit_dictionary(prepared)
    else:
        tfidf_recipe = settings.from_mapping(baselines.TfidfRecipe, recipe)
        fitted = baselines.fit_tfidf(tfidf_recipe, prepared, watch=watch)
    assert fitted.model is not None
    baselines.write_baseline(fitted.model, out)
    files.write_record(out / CLOCK, {"seconds": fitted.seconds})
    return {
        "dev": fitted.dev,
        "setting": fitted.setting and settings.to_mapping(fitted.setting),
        "predicted_dev": list(fitted.predicted_dev),
        "learnt": not nothing_learnt(prepared, prepared.examples("dev"), fitted.looks),
        "tokens": fitted.tokens,
    }


def test_terms(*, out: Path, watch: Watch, by: str, task: Path, fitted: Path) -> Result:
    """Score the fitted baseline on the test set, once."""
    return baselines.test_baseline(baselines.read_baseline(fitted), open_prepared(task), by=by)


def combine(
    *,
    out: Path,
    watch: Watch,
    recipe: Mapping[str, Any],
    task: Path,
    model: str | Path,
    fitted: Path,
    precision: Precision,
) -> Result:
    """Fit a linear model on terms and on the frozen encoder's states, by the probe in `fitted`, and score it on dev."""
    from acclimate.methods import probe
    from acclimate.races import terms_and_states

    prepared, layer = open_prepared(task), probe.read_layer(fitted)
    tfidf = settings.from_mapping(baselines.TfidfRecipe, recipe)
    fit = terms_and_states.fit(tfidf, prepared, checkpoint_of(model), layer, precision=precision, watch=watch)
    terms_and_states.write(fit.model, out)
    files.write_record(out / CLOCK, {"seconds": fit.seconds})
    return {
        "dev": fit.dev,
        "setting": settings.to_mapping(fit.setting),
        "tried": fit.tried,
        "predicted_dev": list(fit.predicted_dev),
        "learnt": not nothing_learnt(prepared, prepared.examples("dev"), fit.looks),
        "read_out": fit.model.read_out,
        "tokens": fit.tokens,
    }


def test_combined(
    *, out: Path, watch: Watch, by: str, task: Path, model: str | Path, fitted: Path, precision: Precision
) -> Result:
    """Score the linear model on terms and states on the test set, once."""
    from acclimate.races import terms_and_states

    model_fitted, prepared = terms_and_states.read(fitted), open_prepared(task)
    return terms_and_states.test_fitted(
        model_fitted, checkpoint_of(model), prepared, by=by, precision=precision, watch=watch
    )


def constant(*, out: Path, watch: Watch, by: str, task: Path) -> Result:
    """Score the best constant answer of the training labels on the test set, once."""
    prepared = open_prepared(task)
    fitted = baselines.fit_constant(prepared)
    return {**baselines.test_baseline(fitted, prepared, by=by), "dev": fitted.dev}


def _trained(out: Path, checkpoint: Checkpoint) -> Result:
    log, earlier_cost = read_log(out), cost_before(out)
    return {
        "steps": len(log),
        "tokens": earlier_cost.tokens + sum(line["tokens"] for line in log),
        "flops": earlier_cost.flops + sum(line["flops"] for line in log),
        "loss": log[-1]["loss"],
        "checkpoint": files.sha256_of(checkpoint.path / files.MANIFEST),
    }


def checkpoint_of(model: str | Path) -> str:
    """Return the checkpoint in the directory of a job; any other model is returned as it is."""
    inside = Path(model) / CHECKPOINT
    return str(inside) if inside.is_dir() else str(model)


PRETRAIN = Work("pretrain", pretrain, trains="encoder")
UNTRAINED = Work("random weights", untrained)
ADAPT = Work("adapt", adapt, trains="encoder", draws=True)
FIRST = Work("first", first)
RETRIEVE = Work("retrieve", retrieve)
CUT = Work("cut", cut)
HELDOUT = Work("held-out loss", heldout)
MOVE = Work("embedding distance", move)
# rule 1: a second attempt has a third of the rate where the loss rose; 2: threshold = "dev" counts for one label, too
FINE_TUNE = Work("fine-tune", fine_tune, trains="task", rule=2)
PROBE = Work("probe", probed, reads=("train", "dev"))
FREEZE = Work("freeze", freeze, quick=True)
# rule 1: the fitted model is kept, which its test reads
TERMS = Work("baseline", terms, quick=True, rule=1)
COMBINE = Work("terms and states", combine, reads=("train", "dev"))
TEST = Work("test", test, reads=("test",), opens_test=True)
TEST_TOGETHER = Work("test together", test_together, reads=("dev", "test") * 2, opens_test=True)
TEST_PROBE = Work("test probe", test_probe, reads=("test",), opens_test=True)
TEST_TERMS = Work("test baseline", test_terms, opens_test=True)
TEST_COMBINED = Work("test terms and states", test_combined, reads=("test",), opens_test=True)
CONSTANT = Work("constant answer", constant, opens_test=True)
