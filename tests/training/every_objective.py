"""Runs a command of `acclimate`, and then trains objectives of conformance.py.

    every_objective.py PLACE '["race", ...]' '["masked language, bert", ...]'

test_loop_ranks.py trains the objectives in one process and in two, and compares. The command starts the group of
processes by itself, and all that follows is done in it: starting the interpreters takes longer than the command.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from safetensors.torch import save_file

import conformance
from acclimate import cli
from acclimate.core import ranks
from acclimate.training.checkpoint import resumable
from acclimate.training.loop import NotFiniteError, adamw, train

# pieces of 64 tokens; all rows in one piece, so that of two processes one has none; a rate at which noise cannot grow
PLANS = {
    "pieces": replace(conformance.PLAN, rate=1e-3, steps=2),
    "one piece": replace(conformance.PLAN, rate=1e-3, steps=2, piece_tokens=10_000),
}
# tied weights; a hook of each kind, gates that a layer meets again, rows compared; weights that a hook writes;
# a gradient within the forward pass
SHARDED = ("masked language, bert", "DGA, three passes, update, roberta", "prompt, bert", "adversarial")
# terms with counts of their own; rows compared on lines of their own, and by tokens; batches of two kinds
MECHANISMS = (
    *SHARDED,
    *("task", "regularised embeddings", "DGA, heads' outputs, domain, modernbert", "contrast of tokens, taco"),
    "joint, tags",
)
EVERY = tuple(dict.fromkeys((*conformance.ONE_OF_EACH, *SHARDED)))


def trained(out: Path, names: Sequence[str]) -> None:
    """Write `losses.json`, and the weights of each run, to `out`."""
    losses = {}
    for name in names:
        for kind, plan in PLANS.items():
            case = conformance.OBJECTIVES[name]()
            objective = case.objective(0.1)
            if kind == "one piece" and not objective.couples_rows and name not in SHARDED:
                continue  # a process without a piece has nothing of its own to do
            steps = list(train(objective, case.stream, plan, adamw(objective, plan)))
            losses[f"{name}, {kind}"] = [[step.loss, step.gradient, step.tokens, step.padded] for step in steps]
            weights = {key: value.detach().contiguous() for key, value in objective.named_parameters()}
            if ranks.is_first():
                save_file(weights, out / f"{name}, {kind}.safetensors")
    if ranks.is_first():
        (out / "losses.json").write_text(json.dumps(losses))


def sharded(out: Path) -> None:
    """Write `sharded.json`, and the weights of each run, to `out`; and `state`, of a run that both stopped half way."""
    losses, plan = {}, replace(PLANS["pieces"], shard=True, recompute=True)
    for name in SHARDED:
        case = conformance.OBJECTIVES[name]()
        objective, numbers = case.objective(0.1), []
        for until in (plan.steps // 2, None):  # what both save, both go on from, with the objective made anew
            objective = case.objective(0.1)
            place = out / "state" / name
            for step in resumable(objective, case.stream, plan, place, until=until, save_seconds=1000):
                numbers.append([step.loss, step.gradient, step.tokens, step.padded])
        losses[name] = numbers
        weights = {key: value.detach().contiguous() for key, value in objective.named_parameters()}
        if ranks.is_first():
            save_file(weights, out / f"sharded, {name}.weights")
    if ranks.is_first():
        (out / "sharded.json").write_text(json.dumps(losses))


def stopped() -> str:
    """What a process says that has a loss which is not finite in one process's piece only."""
    case = conformance.OBJECTIVES["task"]()
    objective, batch = case.objective(0.0), case.stream(0)
    # the row of the longest is in the first piece, which is the first process's
    longest = int(batch.lengths.argmax())
    word = int(batch.ids[batch.offsets[longest] + 1])
    objective.model.get_input_embeddings().weight.data[word] = float("nan")
    unlike = [row for row in range(len(batch)) if word not in batch.take([row]).ids]
    assert unlike
    try:
        list(train(objective, case.stream, PLANS["pieces"], adamw(objective, PLANS["pieces"])))
    except NotFiniteError as error:
        return str(error)
    return "it went on"


def run_command(arguments: list[str]) -> int:
    """Return the exit status."""
    sys.argv = ["acclimate", *arguments]
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    place = Path(sys.argv[1])
    command, names = map(json.loads, sys.argv[2:])
    leave, ranks.stop = ranks.stop, lambda: None
    status = run_command(command)
    trained(place, names)
    sharded(place)
    (place / f"stopped-{ranks.rank()}.txt").write_text(stopped())
    leave()
    threads = [task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")]
    (place / f"threads-{ranks.rank()}.txt").write_text("\n".join(threads))
    sys.exit(status)
