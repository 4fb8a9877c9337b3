"""Ship the winner of a finished race: a directory that transformers loads, with a model card that reports its scores.

Before the directory appears, its files are loaded with transformers alone and predict every test text. The predictions
must be those that were scored. This reads the texts only: the test labels stay sealed.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from acclimate.core import files
from acclimate.core.prompt import prompt_length
from acclimate.core.types import Example, Score, Watch, unwatched
from acclimate.jobs.lock import WINNER
from acclimate.models.classifier import PROBLEM_TYPES, TOKENS
from acclimate.races.outcome import path_of, read_outcome
from acclimate.races.report import RACE
from acclimate.shipping import check
from acclimate.shipping import onnx as onnx_copy
from acclimate.shipping.card import Shipment, card_of, render
from acclimate.shipping.onnx import Int8
from acclimate.shipping.texts import MARK
from acclimate.tasks.prepared import Prepared, open_prepared

CARD = "README.md"
COPIED = (".json", ".txt", ".model", ".safetensors", ".toml")  # endings of the winner's files that are shipped


@dataclass(frozen=True)
class Shipped:
    """A shipment: its directory, contestant and seed, the number of test texts checked, and the int8 copy if any."""

    path: Path
    contestant: str
    seed: int
    checked: int
    int8: Int8 | None = None

    @property
    def card(self) -> Path:
        return self.path / CARD


def ship(run: Path, to: Path, *, onnx: bool = False, watch: Watch = unwatched) -> Shipped:
    """Write the winner of the race in `run` to the directory `to`: weights, tokenizer, config and card.

    onnx  True: add an ONNX copy in 8 bits, and measure its scores, speed and size (shipping/onnx.py)

    `to` appears once all files are written and checked; an earlier shipment there is replaced. Raises ValueError if the
    race is not finished, if `to` holds anything else than an earlier shipment, if packages for ONNX are missing, and if
    the shipped model does not predict what was scored.
    """
    if onnx:
        onnx_copy.require_packages()
    score, task = _finished(run)
    _require_free(to)
    examples = task.examples("test")
    if tuple(example.id for example in examples) != score.ids:
        raise ValueError(f"{run / 'data'}: the test texts are not those that were scored. Run the race again to go on")
    with files.new_directory(to) as temporary:
        _copy(run / WINNER, temporary)
        shipped = check.load_shipped(temporary)
        check.require_own_tags(shipped, task)
        _complete_configs(temporary, shipped, task)
        shipped = check.load_shipped(temporary)
        rounding = _check(shipped, task, score, examples, watch)
        int8 = onnx_copy.copy_as_int8(temporary, task, shipped, score.predicted, watch=watch) if onnx else None
        shipment = Shipment(run, task, score, shipped, examples, rounding=rounding, int8=int8)
        files.write_text(temporary / CARD, render(card_of(shipment)))
        mark = {"contestant": score.contestant, "seed": score.seed, "checked": len(score.ids)}
        files.write_json(temporary / MARK, mark | {"int8": asdict(int8) if int8 else None})
    return Shipped(to, score.contestant, score.seed, len(score.ids), int8)


def _finished(run: Path) -> tuple[Score, Prepared]:
    """Return the winner's score and the task of a finished race. Raises ValueError if `run` holds none."""
    if not run.is_dir():
        raise ValueError(f"{run}: there is no such directory. Give the --out of a race")
    chosen, recorded = run / WINNER / "race.json", path_of(run, RACE)
    outcome = read_outcome(recorded) if recorded.exists() else None
    if outcome is not None and outcome.race is not None and not outcome.race.winner:
        why = "nothing was fine-tuned" if outcome.only_probed else "no encoder of this race has learnt the task"
        raise ValueError(f"{run}: {why}, so there is no winner to ship")
    if outcome is not None and outcome.folds:
        raise ValueError(
            f"{run}: this race scored by cross-validation, so no test predictions of {run / WINNER} exist to check it "
            f"against. Load it with transformers as it is, or race without --folds"
        )
    for needed in (recorded, chosen):
        if not needed.exists():
            raise ValueError(
                f"{run} holds no finished race: it has no {needed.relative_to(run)}. Run the same race again to go on "
                "with it"
            )
    assert outcome is not None
    files.check_manifest(run / WINNER)
    winner = files.read_json(chosen)
    for score in outcome.scores:
        if (score.contestant, score.seed) == (winner["contestant"], winner["seed"]):
            break
    else:
        raise ValueError(
            f"{run}: {WINNER} is {winner['contestant']}, seed {winner['seed']}, which {recorded.name} does not have. "
            "Run the same race again: it writes both anew"
        )
    task = open_prepared(run / "data")
    kinds = (*PROBLEM_TYPES, TOKENS)
    if task.kind not in kinds:
        raise ValueError(f"{run}: a task of kind '{task.kind}' cannot be shipped. Known: {', '.join(kinds)}")
    return score, task


def _require_free(to: Path) -> None:
    """Raises ValueError if `to` holds anything else than an unchanged earlier shipment, which may be replaced."""
    if to.is_symlink():
        raise ValueError(f"{to} is a link. Give --to the directory itself")
    if not to.exists():
        return
    if not to.is_dir():
        raise ValueError(f"{to} is a file. Give --to a directory that does not exist yet")
    present = {str(file.relative_to(to)) for file in to.rglob("*") if not file.is_dir()}
    if not present:
        return
    if not {MARK, files.MANIFEST} <= present:
        raise ValueError(f"{to} exists and is no former shipment. Give --to a directory that does not exist yet")
    if added := sorted(present - {files.MANIFEST, *files.read_json(to / files.MANIFEST)}):
        raise ValueError(
            f"{to} is a former shipment to which {', '.join(added[:3])}{', ...' if added[3:] else ''} was added. Move "
            "that away, or give --to another directory"
        )


def _copy(winner: Path, directory: Path) -> None:
    for file in sorted(winner.iterdir()):
        if file.suffix in COPIED and file.name != files.MANIFEST:
            shutil.copyfile(file, directory / file.name)


def _complete_configs(directory: Path, shipped: check.Loaded, task: Prepared) -> None:
    """State in the configs of model and tokenizer what readers would have to guess: the type of the problem, which
    inputs the model takes, and how long a text may be.
    """
    path = directory / "config.json"
    config = files.read_json(path)
    if not config.get("problem_type") and task.kind in PROBLEM_TYPES:
        files.write_json(path, config | {"problem_type": PROBLEM_TYPES[task.kind]})
    parameters = set(inspect.signature(shipped.model.base_model.forward).parameters)
    if getattr(shipped.model.config, "type_vocab_size", 0) < 2:
        parameters.discard("token_type_ids")
    names = list(shipped.tokenizer.model_input_names)
    changed: dict[str, Any] = {"model_input_names": [name for name in names if name in parameters]}
    if changed["model_input_names"] == names:
        changed = {}
    longest = task.max_tokens + prompt_length(shipped.tokenizer)
    if shipped.tokenizer.model_max_length != longest:
        changed["model_max_length"] = longest
    if changed:
        path = directory / "tokenizer_config.json"
        files.write_json(path, files.read_json(path) | changed)


def _check(shipped: check.Loaded, task: Prepared, score: Score, examples: Sequence[Example], watch: Watch) -> int:
    """Return for how many test texts rounding alone changes the prediction; 0 if the task predicts numbers.

    Raises ValueError if the shipped model does not predict what was scored.
    """
    logits_nC = check.outputs_of_examples(examples, shipped.tokenizer, shipped.logits, task.kind, watch=watch)
    wrong = check.differing(score.predicted, logits_nC, task.kind, task.labels)
    predicted = check.decoded(logits_nC, task.kind, task.labels)
    if wrong:
        first = wrong[0]
        raise ValueError(
            f"the model as shipped predicts something else than what was scored for {len(wrong):,} of the "
            f"{len(examples):,} test texts; the first is {score.ids[first]}: {predicted[first]!r}, scored "
            f"{score.predicted[first]!r}. Nothing was written. Were transformers or the files of the run changed since "
            "the race? race.outcome.json has the versions of the race: ship with those, or run the race again"
        )
    if task.kind == "score":
        return 0
    return sum(ours != scored for ours, scored in zip(predicted, score.predicted, strict=True))
