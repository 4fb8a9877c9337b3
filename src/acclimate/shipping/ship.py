"""Ship the model of a finished race: a directory that transformers loads, with a model card that reports its scores.

Before the directory appears, its files are loaded with transformers alone and predict every test text. The predictions
must be those that were scored. This reads the texts only: the test labels stay sealed.

A classifier that reads a state by a linear layer is converted into the class of its family in transformers where that
class can compute it (models/native.py). Any other model is stored so that transformers refuses it (models/formats.py);
one that reads the mean state of all tokens has the form of sentence-transformers too. `try_ways` loads the directory in
every way that users have, and the card lists the results.

The baseline of a race is shipped likewise, if it is the model to use or is named: its files, checked, and a card. So
is TF-IDF + encoder, which no class of transformers computes: the encoder is in a folder, and there is no config.json.
"""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from acclimate.core import files
from acclimate.core.door import is_python, option
from acclimate.core.prompt import prompt_length
from acclimate.core.types import BASELINE_FILE, COMBINED_FILE, Example, Label, Progress, Score, Watch, unwatched
from acclimate.jobs.job import check_format
from acclimate.jobs.lock import ENCODER as BEST_ENCODER
from acclimate.jobs.lock import FITTED, USE, is_part_of_run
from acclimate.methods.baselines import read_baseline
from acclimate.methods.ranking.bm25 import Bm25
from acclimate.models.classifier import PROBLEM_TYPES, load_finetuned
from acclimate.models.configuration import configuration_of
from acclimate.models.formats import PREDICT, SAFE_ENDINGS
from acclimate.models.loading import copy_licence, load_tokenizer
from acclimate.races.outcome import Outcome, path_of, read_outcome
from acclimate.races.report import RACE
from acclimate.races.terms_and_states import ENCODER, read_with_encoder
from acclimate.shipping import check
from acclimate.shipping import onnx as onnx_copy
from acclimate.shipping.baseline_card import render_baseline
from acclimate.shipping.card import Shipment, calibration_sentence, card_of, encoder_license, origin_sentence, render
from acclimate.shipping.form import write_form
from acclimate.shipping.onnx import Int8
from acclimate.shipping.predict import CombinedPredictor, load_predictor
from acclimate.shipping.texts import CARD, MARK, RECORD, asking_of, contestant_directory
from acclimate.shipping.ways import Way, try_ways
from acclimate.tasks.prepared import Prepared, open_prepared


@dataclass(frozen=True)
class Shipped:
    """A shipment: its directory, contestant and seed, the number of test texts checked, what loads the directory, and
    the int8 copy if any.
    """

    path: Path
    contestant: str
    seed: int
    checked: int
    int8: Int8 | None = None
    ways: Sequence[Way] = ()

    @property
    def card(self) -> Path:
        return self.path / CARD


def ship(
    run: str | Path,
    to: str | Path,
    *,
    contestant: str = "",
    onnx: bool = False,
    license: str = "",
    language: Sequence[str] = (),
    watch: Watch = unwatched,
) -> Shipped:
    """Write the model to use of the race in `run` to the directory `to`: weights, tokenizer, config and card. A
    baseline has terms, weights and a card, and TF-IDF + encoder has the encoder too. `run` may also be the race's use/,
    encoder/ or baseline/.

    contestant  whose model to ship instead: the best encoder or the baseline
    onnx      True: add ONNX copies in 32 and 8 bits, and measure agreement, scores, speed and size (shipping/onnx.py)
    license   for the card, as the hub spells it, such as "apache-2.0"; "": none is stated
    language  codes for the card, such as "en"; (): none is stated

    `to` appears once all files are written and checked; an earlier shipment there is replaced. Raises ValueError if the
    race is not finished, if `to` holds anything else than an earlier shipment, if packages for ONNX are missing, and if
    the shipped model does not predict what was scored; HeldError if another process ships there.
    """
    run, to = Path(run), Path(to)
    _check_words(license, language)
    check_format(run)
    source = run / USE
    if is_part_of_run(run):
        run, source = run.resolve().parent, run.resolve()
    if contestant:
        source = contestant_directory(run, contestant)
    if source.is_dir() and asking_of(str(source)).kind == "search":
        encoder = run / BEST_ENCODER if (source / BASELINE_FILE).is_file() else source
        raise ValueError(
            f"{run} is a race on a search task, whose encoder needs no shipping: {encoder} is ready for acclimate "
            "embed and sentence-transformers. Copy that folder"
        )
    if (source / BASELINE_FILE).is_file() or (source / COMBINED_FILE).is_file():
        shipped = _ship_linear(run, source, to, onnx=onnx, license=license, language=language, watch=watch)
        watch(Progress("ship", 0, 0, "texts", {"note": f"{shipped.contestant}, from {source}"}))
        return shipped
    if onnx:
        onnx_copy.require_packages()
    score, task = _finished(run, source)
    _require_free(to)
    if onnx and (obstacle := check.text_obstacle(configuration_of(source), task)):
        alternative = ", or race with finetune.pooling=mean" if "pooling = pair" in obstacle else ""
        raise ValueError(
            f"ONNX needs a model that reads only tokens, but {obstacle}. Ship without {option('onnx')}{alternative}"
        )
    examples = _texts_scored(run, task, score)
    watch(Progress("ship", 0, 0, "texts", {"note": f"{score.contestant}, from {source}"}))
    with files.hold_beside(to), files.new_directory(to) as temporary:
        _copy(source, temporary)
        copy_licence(source, temporary)
        classifier = _completed(temporary, task)
        form = write_form(temporary, classifier, task)
        rounding = 0
        if form.obstacle:
            reloaded = check.Loaded(load_finetuned(temporary), load_tokenizer(temporary))
            predictions = load_predictor(temporary).predict(examples, watch=watch)
            _check_labels([prediction.label for prediction in predictions], task, score)
        else:
            reloaded = check.load_shipped(temporary)
            rounding = _check(reloaded, task, score, examples, watch)
        # the classifier before conversion, whose weights have no extreme values that 8 bits would lose
        onnx_source = check.Loaded(classifier.model, reloaded.tokenizer)
        int8 = onnx_copy.copy_as_int8(temporary, task, onnx_source, score.predicted, watch=watch) if onnx else None
        ways = try_ways(temporary, examples, form, int8=int8)
        shipment = Shipment(
            run,
            source,
            task,
            score,
            reloaded,
            examples,
            rounding=rounding,
            int8=int8,
            obstacle=form.obstacle,
            ways=ways,
            hashes=_hashes(temporary),
            license=license,
            language=tuple(language),
        )
        files.write_text(temporary / CARD, render(card_of(shipment)))
        mark = {"contestant": score.contestant, "seed": score.seed, "checked": len(score.ids)}
        files.write_json(temporary / MARK, mark | {"int8": asdict(int8) if int8 else None})
    return Shipped(to, score.contestant, score.seed, len(score.ids), int8, ways)


def _ship_linear(
    run: Path, source: Path, to: Path, *, onnx: bool, license: str, language: Sequence[str], watch: Watch
) -> Shipped:
    """Write the baseline in `source`, of the race in `run`, or the linear model on terms and states there, to the
    directory `to`. Raises ValueError as `ship` does.
    """
    recorded, combined = path_of(run, RACE), (source / COMBINED_FILE).exists()
    if not recorded.exists():
        raise ValueError(
            f"{run} contains no finished race with a baseline. Give the {option('out')} of such a race, or its "
            f"{FITTED}/"
        )
    files.check_manifest(source)
    outcome, about = read_outcome(recorded), files.read_object(source / RECORD, names=("contestant", "dev"))
    name = about["contestant"]
    if onnx:
        need = "a model of transformers, but {} is not one" if combined else "an encoder, but {} has none"
        raise ValueError(f"{option('onnx')} needs {need.format(name)}. Ship without it")
    _refuse_folds(outcome, run, source)
    score = next((score for score in outcome.scores if score.contestant == name), None)
    if score is None:
        why = f"{name} has no test score, so its predictions cannot be checked"
        raise ValueError(f"{run}: {why}. Run the same race again")
    task = open_prepared(run / "data")
    examples = _texts_scored(run, task, score)
    _require_free(to)
    with files.hold_beside(to), files.new_directory(to) as temporary:
        _copy(source, temporary)
        if combined:
            (temporary / ENCODER).mkdir()
            _copy(source / ENCODER, temporary / ENCODER)
            copy_licence(source / ENCODER, temporary)
            predictor = CombinedPredictor(*read_with_encoder(temporary), asking_of(str(temporary)))
            predictions = predictor.predict(examples, watch=watch)
            _check_labels([prediction.label for prediction in predictions], task, score)
        else:
            baseline = read_baseline(temporary)
            assert not isinstance(baseline, Bm25)  # `ship` refuses search tasks
            _check_labels(baseline.predict(examples), task, score)
        card = render_baseline(
            outcome,
            score,
            task,
            dev=about["dev"],
            calibration=calibration_sentence(source),
            origin=origin_sentence(source / ENCODER) if combined else "",
            license=license,
            encoder_license=encoder_license(source / ENCODER) if combined else "",
            language=tuple(language),
        )
        files.write_text(temporary / CARD, card)
        mark = {"contestant": name, "seed": score.seed, "checked": len(score.ids), "int8": None}
        files.write_json(temporary / MARK, mark)
    return Shipped(to, name, score.seed, len(score.ids), ways=[Way(PREDICT, True)])


def _refuse_folds(outcome: Outcome, run: Path, source: Path) -> None:
    """Raises ValueError for a race by cross-validation."""
    if outcome.folds:
        raise ValueError(
            f"{run}: the race used cross-validation, so {source} has no test predictions to be checked against. Use "
            f"`acclimate predict {source}` without shipping, or race without {option('folds')}"
        )


def _texts_scored(run: Path, task: Prepared, score: Score) -> Sequence[Example]:
    """Return the test texts. Raises ValueError if they are not those that were scored."""
    examples = task.examples("test")
    if tuple(example.id for example in examples) != score.ids:
        raise ValueError(f"{run / 'data'}: the test texts have changed since they were scored. Run the race again")
    return examples


def _finished(run: Path, source: Path) -> tuple[Score, Prepared]:
    """Return the score of the checkpoint in `source`, and the task. Raises ValueError if `run` is no finished race."""
    if not run.is_dir():
        raise ValueError(f"{run}: there is no such directory. Give the {option('out')} of a race")
    record_file, outcome_file = source / RECORD, path_of(run, RACE)
    outcome = read_outcome(outcome_file) if outcome_file.exists() else None
    if outcome is not None and outcome.unused and not record_file.exists():
        raise ValueError(f"{run}: {outcome.unused}, so there is no model to ship. See its page for advice")
    if outcome is not None:
        _refuse_folds(outcome, run, source)
    for needed in (outcome_file, record_file):
        if not needed.exists():
            raise ValueError(
                f"{run} contains no finished race: it has no {needed.relative_to(run)}. Run the same race again to "
                "continue it"
            )
    assert outcome is not None
    files.check_manifest(source)
    record = files.read_json(record_file)
    for score in outcome.scores:
        if (score.contestant, score.seed) == (record["contestant"], record["seed"]):
            return score, open_prepared(run / "data")
    raise ValueError(
        f"{source} has {record['contestant']}, seed {record['seed']}, but {outcome_file.name} does not. Repeat the "
        "command of the race to write both again"
    )


def _check_words(license: str, language: Sequence[str]) -> None:
    """Raises ValueError for a licence or a language that the hub would not know by its form."""
    if license and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", license):
        way_out = "use the identifier of the hub, such as apache-2.0, mit or cc-by-4.0"
        raise ValueError(f"{option('license', license)}: {way_out}")
    for code in language:
        if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]+)*|multilingual", code):
            raise ValueError(f"{option('language', code)}: give a code, such as en or de")


def _require_free(to: Path) -> None:
    """Raises ValueError if `to` holds anything else than an unchanged earlier shipment, which may be replaced."""
    target = "`to`" if is_python() else option("to")  # the bare name would read as a word of the sentence
    if to.is_symlink():
        raise ValueError(f"{to} is a link. Give {target} the directory itself")
    if not to.exists():
        return
    if not to.is_dir():
        raise ValueError(f"{to} is a file. Give {target} a directory that does not exist yet")
    present = {str(file.relative_to(to)) for file in to.rglob("*") if not file.is_dir()}
    if not present:
        return
    way_out = f"Move it away, or give {target} another directory"
    if not {MARK, files.MANIFEST} <= present:
        raise ValueError(f"{to} exists and is not a former shipment. {way_out}")
    listed = files.read_object(to / files.MANIFEST, way_out=way_out)
    added = sorted(present - {files.MANIFEST, *listed})
    changed = [name for name in sorted(present & listed.keys()) if files.sha256_of(to / name) != listed[name]]
    for names, what in ((added, "to which {} was added"), (changed, "in which {} was changed")):
        if names:
            which = what.format(", ".join(names[:3]) + (", ..." if names[3:] else ""))
            raise ValueError(f"{to} is a former shipment {which}. {way_out}")


def _copy(source: Path, directory: Path) -> None:
    for file in sorted(source.iterdir()):
        if file.suffix in (*SAFE_ENDINGS, ".toml") and file.name != files.MANIFEST:
            shutil.copyfile(file, directory / file.name)


def _completed(directory: Path, task: Prepared) -> check.Loaded:
    """Return the classifier, after its configs state what readers would have to guess: the type of the problem, which
    inputs the model takes, and how long a text may be.
    """
    classifier, tokenizer = load_finetuned(directory), load_tokenizer(directory)
    if not classifier.config.problem_type and task.kind in PROBLEM_TYPES:
        classifier.config.problem_type = PROBLEM_TYPES[task.kind]
        path = directory / "config.json"
        files.write_json(path, files.read_json(path) | {"problem_type": classifier.config.problem_type})
    parameters = set(inspect.signature(classifier.base_model.forward).parameters)
    if getattr(classifier.config, "type_vocab_size", 0) < 2:
        parameters.discard("token_type_ids")
    changes: dict[str, Any] = {
        "model_input_names": [name for name in tokenizer.model_input_names if name in parameters],
        "model_max_length": task.max_tokens + prompt_length(tokenizer),
    }
    path = directory / "tokenizer_config.json"
    files.write_json(path, files.read_json(path) | changes)
    return check.Loaded(classifier, load_tokenizer(directory))


def _hashes(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of the weights by what the card calls them."""
    weights = sorted(directory.rglob("*.safetensors"))
    return {f"shipped {file.relative_to(directory)}": files.sha256_of(file) for file in weights}


def _check_labels(predicted: Sequence[Label], task: Prepared, score: Score) -> None:
    """Raises ValueError if this is not what was scored; numbers may differ by rounding."""
    if task.kind == "score":
        numbers = np.array(predicted, dtype=np.float64)[:, None]
        wrong = check.differing(score.predicted, numbers, task.kind, task.labels)
    else:
        wrong = [i for i, label in enumerate(predicted) if label != score.predicted[i]]
    _refuse(wrong, score, predicted)


def _check(shipped: check.Loaded, task: Prepared, score: Score, examples: Sequence[Example], watch: Watch) -> int:
    """Return for how many test texts rounding alone changes the prediction; 0 if the task predicts numbers.

    Raises ValueError if the shipped model does not predict what was scored.
    """
    logits_nC = check.outputs_of_examples(examples, shipped.tokenizer, shipped.logits, task.kind, watch=watch)
    predicted = check.decoded(logits_nC, task.kind, task.labels)
    _refuse(check.differing(score.predicted, logits_nC, task.kind, task.labels), score, predicted)
    if task.kind == "score":
        return 0
    return sum(ours != scored for ours, scored in zip(predicted, score.predicted, strict=True))


def _refuse(wrong: Sequence[int], score: Score, predicted: Sequence[Label]) -> None:
    """Raises ValueError if there are places at which the prediction is not the one that was scored."""
    if wrong:
        first = wrong[0]
        raise ValueError(
            f"the shipped model's predictions differ from the scored ones for {len(wrong):,} of the "
            f"{len(score.ids):,} test texts; the first is {score.ids[first]}: {predicted[first]!r}, scored "
            f"{score.predicted[first]!r}. Nothing was written. Perhaps transformers or the files of the run have "
            "changed since the race. Ship with the versions in race.outcome.json, or run the race again"
        )
