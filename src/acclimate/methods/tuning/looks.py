"""The looks of a fine-tuning at dev: their scores, their predictions and the best weights, kept beside the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import save

from acclimate.core import files, ranks
from acclimate.core.types import DEV_SCORES, Label, label_of
from acclimate.tasks.thresholds import Decision

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# the weights of a look, by its step and 16 digits of the file's hash; while it runs
BEST = "best-{}-{}.safetensors"
# steps of the looks that were chosen, what their weights score on dev in float32, and the shift of the outputs by which
# dev moved rare classes; null if it moved none
CHOSEN = "chosen.json"
DEV = DEV_SCORES  # [[step, score], ...] of the looks at dev
LOOKED = "tried-{}.json"  # all predictions among which a look chose, by its step; while it runs
DEV_LOSS = "dev_loss.json"  # [[step, loss], ...] of the same looks
PREDICTED_DEV = "predicted_dev.json"  # the predictions of the checkpoint for dev, in its order
LEARNT = "learnt.json"  # {learnt: whether the run learnt anything, why: if not, the reason, again: whether it had a
# second attempt, and if so, attempt_rate: its rate in multiples of the first one's, and counts: "" if that first
# attempt counts all the same}


class Look(NamedTuple):
    """A look at dev: score, mean task loss (of a number in the task's unit), and predictions in the order of dev.

    decision  how dev decided what is predicted from the outputs; None where it did not
    """

    score: float
    loss: float
    predicted: list[Label]
    decision: Decision | None = None

    @property
    def tried(self) -> list[list[Label]]:
        """All predictions among which dev chose."""
        return self.decision.tried if self.decision else [self.predicted]


class DevLooks:
    """The looks at dev so far, and the best weights, in files beside the run's states.

    A run that resumes from an earlier state looks again. If the killed run left its best weights at a later step, they
    are kept until the look at that step is made again, and replaces them. Its score may differ, on a GPU or with
    another number of threads, so the best of the looks whose weights are kept need not be the best of all scores.

    keep      number of best looks whose weights are kept; 0: the last weights are chosen
    constant  score on what a look reads without reading a text (`without_reading`)
    """

    def __init__(self, out: Path, *, keep: int, constant: float = -math.inf) -> None:
        self.out, self.keep, self.constant = out, keep, constant
        self.scores: dict[int, float] = dict(files.read_record(out / DEV)) if (out / DEV).exists() else {}
        self.losses: dict[int, float] = dict(files.read_record(out / DEV_LOSS)) if (out / DEV_LOSS).exists() else {}
        self.now = 0  # the step of the last look
        self.predicted = {  # step -> all predictions for what a look reads, among which dev chose
            int(file.stem.partition("-")[2]): [[*map(label_of, tried)] for tried in files.read_record(file)]
            for file in out.glob(LOOKED.format("*"))
        }
        self.kept: dict[int, float] = {}  # step -> score of the looks whose weights are there
        for file in self._places("*")[::-1]:
            if files.sha256_of(file)[:16] != file.stem.rpartition("-")[2]:
                raise files.DamagedError(f"{file} is damaged: its hash differs from its name. {self._way_out()}")
            with safe_open(file, framework="pt") as opened:
                self.kept[int(opened.metadata()["step"])] = float(opened.metadata()["score"])

    def add(self, step: int, look: Look, model: PreTrainedModel) -> None:
        if not ranks.is_first():
            return
        score, self.now = look.score, step
        self.losses[step] = look.loss
        files.write_record(self.out / DEV_LOSS, sorted(self.losses.items()))
        self.scores[step], self.predicted[step] = score, look.tried
        files.write_record(self.out / LOOKED.format(step), look.tried)
        if self.keep:
            ranked = self._ranked({**self.kept, step: score})[: self.keep]
            if step in ranked:
                tensors = {name: value.detach().cpu().contiguous() for name, value in trained(model)}
                content = save(tensors, metadata={"score": repr(score), "step": str(step)})
                path = self.out / BEST.format(step, files.sha256_of_bytes(content)[:16])
                files.write_bytes(path, content)
                self.kept[step] = score
                for file in set(self._places(step)) - {path}:  # the killed run's look at this step
                    file.unlink()
            for beaten in set(self.kept) - set(ranked):
                for file in self._places(beaten):
                    file.unlink()
                del self.kept[beaten]
        files.write_record(self.out / DEV, sorted(self.scores.items()))

    def idle(self) -> int:
        """Looks in a row, up to the last one, without a better score than before them. Where none has beaten the
        constant answer yet, a lower loss is better: it falls before any answer changes.
        """
        steps = [step for step in sorted(self.scores) if step <= self.now]

        def standing(step: int) -> tuple[float, float]:
            score = self.scores[step]
            return (score, 0.0) if score > self.constant else (self.constant, -self.losses[step])

        best = max(steps, key=standing) if steps else 0  # the first of equals
        return int(ranks.agree(sum(step > best for step in steps)))

    def chosen_from(self, choose: Literal["best", "last"]) -> list[list[Label]]:
        """Return the predictions that were chosen from: of all looks, or of the last one."""
        if not self.predicted:
            raise files.DamagedError(f"{self.out} has no predictions of its evaluations on dev. {self._way_out()}")
        steps = sorted(self.predicted)
        return [tried for step in (steps if choose == "best" else steps[-1:]) for tried in self.predicted[step]]

    @torch.no_grad()
    def load(self, model: PreTrainedModel) -> list[int]:
        """Put the mean weights of the best looks into the model. Return the steps of these looks, the best first.

        The mean counts even if it scores lower on dev than the best look: the largest of many scores is too high.
        """
        looks = min(self.keep, len(self.scores))
        if ranks.is_first() and len(self.kept) < looks:
            raise files.DamagedError(
                f"{self.out} has the weights of {len(self.kept)} evaluations on dev, but {looks} were kept. "
                f"{self._way_out()}"
            )
        steps: list[int] = ranks.agree(self._ranked(self.kept)[: self.keep])
        for _, parameter in trained(model):
            parameter.zero_()
        for step in steps:
            with safe_open(self._places(step)[0], framework="pt") as file:
                for name, parameter in trained(model):
                    parameter.add_(file.get_tensor(name).to(parameter.device), alpha=1 / len(steps))
        return steps

    def _places(self, step: int | str) -> list[Path]:
        """Return the files of the look's weights, the newest first; more than one if a run was killed between them."""
        files_of_step = self.out.glob(BEST.format(step, "*"))
        return sorted(files_of_step, key=lambda file: (file.stat().st_mtime_ns, file.name), reverse=True)

    def _way_out(self) -> str:
        return f"Remove {self.out}, and give the same command again to repeat this run"

    def _ranked(self, scores: dict[int, float]) -> list[int]:
        """Steps, the best first; of equals the earliest."""
        return sorted(scores, key=lambda step: (-scores[step], step))

    def write_chosen(self, steps: Sequence[int], look: Look) -> None:
        """Write the look at dev of the chosen weights. steps: those of the looks that they are the mean of"""
        if ranks.is_first():
            files.write_record(self.out / PREDICTED_DEV, look.predicted)
            shift_C = look.decision.shift_C.tolist() if look.decision and look.decision.note else None
            record = {"averaged": steps, "dev": look.score, "loss": look.loss, "shift": shift_C}
            files.write_record(self.out / CHOSEN, record)


def trained(model: PreTrainedModel) -> list[tuple[str, torch.nn.Parameter]]:
    """Return the weights that are trained, by name: all of them but those that adapters stand beside."""
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]


def drop_best(out: Path) -> None:
    """Remove the weights and the predictions of looks."""
    if ranks.is_first():
        for file in [*out.glob(BEST.format("*", "*")), *out.glob(LOOKED.format("*"))]:
            file.unlink()


def dev_score(out: Path) -> float:
    """Return the dev score of the checkpoint that was chosen."""
    return float(final_record(out, CHOSEN)["dev"])


def predicted_dev(out: Path) -> list[Label]:
    """Return the predictions of the checkpoint for dev, in its order."""
    return [label_of(label) for label in final_record(out, PREDICTED_DEV)]


def final_record(out: Path, name: str) -> Any:
    """Return the record that the fine-tuning in `out` left at its end."""
    path = last_attempt(out) / name
    if not path.exists():
        raise files.DamagedError(f"{path} is missing. Remove {out}, and give the same command again to repeat this run")
    return files.read_record(path)


def least_dev_loss(out: Path) -> float:
    """Return the least loss among the looks at dev of the attempt that counts."""
    losses: list[tuple[int, float]] = final_record(out, DEV_LOSS)
    return min(loss for _, loss in losses)


def last_attempt(out: Path) -> Path:
    """Return where the looks at dev lie that count: in `out`, or in `out/again`.

    Raises ValueError where `out/learnt.json` does not say which of two attempts counts.
    """
    if not (out / LEARNT).exists():
        return out
    about = files.read_record(out / LEARNT)
    if about["again"] and "counts" not in about:
        raise ValueError(
            f"{out / LEARNT}: 'counts' is missing: it was written by another release. Use that release, or write it "
            "again"
        )
    return out / about["counts"] if about["again"] else out
