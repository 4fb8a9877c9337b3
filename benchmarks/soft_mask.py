"""How far the soft mask of DGA holds attention heads back: their movement beside that of a run without a mask.

python benchmarks/soft_mask.py --model MODEL --corpus FILE --out benchmarks/reports/DATE-soft-mask.md

Every second head of each layer gets the same importance, the others 0. Masked language modelling takes the same steps
on the same batches without dropout; what is compared is the length (L2) of the change of the masked heads' rows of
W_q, W_k and W_v.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import islice, product
from pathlib import Path

import torch
from page import head, table, write
from transformers import PreTrainedModel

from acclimate.core.types import Stream
from acclimate.methods.dga import MaskReading, SoftMask
from acclimate.models.encoder import load_masked_language_model, load_tokenizer
from acclimate.models.gates import gate_shape, masked_weights
from acclimate.models.loading import resolved
from acclimate.text.corpus import write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.streams import masked_stream
from acclimate.training.loop import adamw, train
from acclimate.training.objective import MaskedLanguageLoss
from acclimate.training.plan import Plan

READINGS: tuple[MaskReading, ...] = ("gradient", "head_output", "update")
IMPORTANCES = (0.5, 0.9, 0.995)
OPTIMISERS = {
    "eps 1e-6, clip 1 (the default)": (1e-6, 1.0),
    "eps 1e-6, clip 0": (1e-6, 0.0),
    "eps 1e-12, clip 0": (1e-12, 0.0),
}


class Masked(MaskedLanguageLoss):
    """Masked language modelling under a soft mask."""

    def __init__(self, model: PreTrainedModel, importance: float, reading: MaskReading) -> None:
        super().__init__(model)
        important_LH = torch.zeros(gate_shape(model, "heads"))
        important_LH[:, ::2] = importance
        self.mask = SoftMask(model, {"heads": important_LH}, reading)

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
    objective = Masked(encoder, importance, reading)
    for _ in train(objective, stream, plan, adamw(objective, plan)):
        pass
    moved = [
        ((weight.detach() - start) * factor).square().sum()
        for (weight, factor), start in zip(rows, before, strict=True)
    ]
    return float(torch.stack(moved).sum().sqrt())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=2_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = resolved(given.model)
    with tempfile.TemporaryDirectory() as place:
        corpus = write_corpus(islice(read_documents(given.corpus), given.texts), Path(place) / "corpus")
        stream = masked_stream(corpus.tokens(load_tokenizer(model)), batch=16, longest=128, seed=0)
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
    write(given.out, [head("What DGA's soft mask does", facts=[("model", given.model)]), said, table(names, rows)])


if __name__ == "__main__":
    main()
