"""How far the soft mask of DGA holds attention heads back: their movement beside that of a run without a mask.

python benchmarks/soft_mask.py --model MODEL --corpus FILE --out benchmarks/reports/DATE-soft-mask.md

Every second head of each layer gets the same importance, the others 0; with --real heads have the importance that DGA
computes of the model on the same texts, and all weights of a head count (models/gates.py::heads_moved). Masked language
modelling takes the same steps on the same batches without dropout; without --real what is compared is the length (L2)
of the change of the masked heads' rows of W_q, W_k and W_v.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import islice, product
from pathlib import Path

import torch
from page import head, table, write
from torch import Tensor
from transformers import PreTrainedModel

from acclimate.core.types import Stream
from acclimate.methods.dga import MaskReading, SoftMask
from acclimate.methods.importance import head_importance, normalised
from acclimate.methods.recipes.dga import Over
from acclimate.models.encoder import load_masked_language_model
from acclimate.models.gates import gate_shape, heads_moved, masked_weights
from acclimate.models.loading import load_tokenizer, resolved
from acclimate.text.corpus import write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.streams import evaluation_batches, masked_stream
from acclimate.text.tokens import Tokens
from acclimate.training.loop import adamw, train
from acclimate.training.objective import MaskedLanguageLoss
from acclimate.training.plan import Plan

READINGS: tuple[MaskReading, ...] = ("gradient", "head_output", "update")
IMPORTANCES = (0.5, 0.9, 0.995)
OVER: tuple[Over, ...] = ("layer", "model")
REAL_SEGMENTS = 200  # as many as a race's DGA reads (dga.subset)
HELD_BACK = 0.9
OPTIMISERS = {
    "eps 1e-6, clip 1 (the default)": (1e-6, 1.0),
    "eps 1e-6, clip 0": (1e-6, 0.0),
    "eps 1e-12, clip 0": (1e-12, 0.0),
}


class Masked(MaskedLanguageLoss):
    """Masked language modelling under a soft mask."""

    def __init__(self, model: PreTrainedModel, importance_LH: Tensor, reading: MaskReading) -> None:
        super().__init__(model)
        self.mask = SoftMask(model, {"heads": importance_LH}, reading)

    def on_gradients(self) -> None:
        self.mask.on_gradients()

    def on_update(self) -> None:
        self.mask.on_update()


def movement(model: str, stream: Stream, plan: Plan, importance: float, reading: MaskReading) -> float:
    """Return the L2 length of the change of the masked heads' rows."""
    encoder = load_masked_language_model(model, hidden_dropout=0.0, attention_dropout=0.0)
    chosen_LH = torch.zeros(gate_shape(encoder, "heads"))
    chosen_LH[:, ::2] = 1.0
    # factors of rows stand in a column; those of the columns of W_o and of biases do not
    rows = [pair for pair in masked_weights(encoder, "heads", chosen_LH) if pair[0].dim() == pair[1].dim() == 2]
    before = [weight.detach().clone() for weight, _ in rows]
    objective = Masked(encoder, importance * chosen_LH, reading)
    for _ in train(objective, stream, plan, adamw(objective, plan)):
        pass
    moved = [
        ((weight.detach() - start) * factor).square().sum()
        for (weight, factor), start in zip(rows, before, strict=True)
    ]
    return float(torch.stack(moved).sum().sqrt())


def real_rows(model: str, stream: Stream, tokens: Tokens, steps: int) -> list[list[str]]:
    """Return lines of the table of --real."""
    noisy = load_masked_language_model(model, hidden_dropout=0.1, attention_dropout=0.1)
    batches = evaluation_batches(tokens, batch=32, longest=128, seed=0, segments_at_most=REAL_SEGMENTS)
    found_LH = head_importance(noisy, batches, parts=("heads",), seed=0, plan=Plan())["heads"]
    plan = Plan(steps=steps, batch=16, rate=1e-4, warmup=0.1, weight_decay=0.0)

    def moved(importance_LH: Tensor, reading: MaskReading) -> Tensor:
        before, after = (load_masked_language_model(model, hidden_dropout=0.0, attention_dropout=0.0) for _ in range(2))
        objective = Masked(after, importance_LH, reading)
        for _ in train(objective, stream, plan, adamw(objective, plan)):
            pass
        return heads_moved(before, after)

    free_LH = moved(torch.zeros_like(found_LH), "none")
    rows = []
    for over in OVER:
        importance_LH = normalised(found_LH, "paper", over=over)
        held_LH = importance_LH > HELD_BACK
        for reading in ("gradient", "update"):
            ratio_LH = moved(importance_LH, reading) / free_LH
            of_held = f"{float(ratio_LH[held_LH].mean()):.2f}" if held_LH.any() else "-"
            counts = f"{int(held_LH.sum())} of {held_LH.numel()}"
            rows.append(
                [over, reading, f"{float(importance_LH.mean()):.2f}", counts, f"{float(ratio_LH.mean()):.2f}", of_held]
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=2_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--real", action="store_true", help="importances that DGA computes, not made-up ones")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = resolved(given.model)
    with tempfile.TemporaryDirectory() as place:
        corpus = write_corpus(islice(read_documents(given.corpus), given.texts), Path(place) / "corpus")
        tokens = corpus.tokens(load_tokenizer(model))
        stream = masked_stream(tokens, batch=16, longest=128, seed=0)
        title = head("What DGA's soft mask does", facts=[("model", given.model)])
        if given.real:
            said = (
                f"Movement of heads beside that of a run without a mask, with the importances that DGA computes of "
                f"{REAL_SEGMENTS} of the texts, normalised by Eq. 10: 1 is no mask. {given.steps} steps of 16 "
                "texts of at most 128 tokens at 1e-4, eps 1e-6, clip 1.\n"
            )
            names = [
                "normalised over",
                "reading",
                "mean I",
                f"I > {HELD_BACK}",
                "all heads",
                f"heads of I > {HELD_BACK}",
            ]
            write(given.out, [title, said, table(names, real_rows(model, stream, tokens, given.steps))])
            return
        rows = []
        for name, (epsilon, clip) in OPTIMISERS.items():
            plan = Plan(
                steps=given.steps, batch=16, rate=1e-4, warmup=0.1, weight_decay=0.0, epsilon=epsilon, clip=clip
            )
            free = movement(model, stream, plan, 0.0, "update")
            ratios = {
                (reading, importance): movement(model, stream, plan, importance, reading) / free
                for reading, importance in product(READINGS, IMPORTANCES)
            }
            for reading in READINGS:
                rows.append([name, reading, *(f"{ratios[reading, importance]:.2f}" for importance in IMPORTANCES)])
    said = (
        "Movement of the masked heads' rows of W_q, W_k and W_v, beside that of a run without a mask: 1 is no mask, "
        f"1 - I what Eq. 9 asks for. {given.steps} steps of 16 texts of at most 128 tokens at 1e-4.\n"
    )
    names = ["optimiser", "reading", *(f"I = {importance}" for importance in IMPORTANCES)]
    write(given.out, [title, said, table(names, rows)])


if __name__ == "__main__":
    main()
