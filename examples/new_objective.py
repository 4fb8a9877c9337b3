"""Your objective in the training loop: masked language modelling that stays close to the start.

python examples/new_objective.py MODEL TEXT DIRECTORY [KEY=VALUE ... of the plan]

The first term is averaged over the masked tokens. The second term, the squared distance of the hidden states from those
of a frozen copy, is averaged over all tokens. The loop divides each sum by that term's count of the whole step, however
the step is cut into pieces.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from acclimate.core import settings
from acclimate.core.types import Batch
from acclimate.data.materials import corpus_at
from acclimate.models.encoder import encoder_of, load_masked_language_model, save_model, training_flops
from acclimate.models.heads import inputs_of
from acclimate.models.loading import load_tokenizer
from acclimate.text.streams import masked_stream
from acclimate.training.loop import adamw, train
from acclimate.training.objective import MaskedLanguageLoss, Objective, Piece
from acclimate.training.plan import Plan


class StayingClose(Objective):
    """L = mean over masked tokens of -log p  +  weight * mean over tokens of |h - h_0|^2.

    Both models must be without dropout: the loop puts every child module into training mode, the frozen one too.
    """

    def __init__(self, model: PreTrainedModel, start: PreTrainedModel, *, weight: float) -> None:
        super().__init__()
        self.language = MaskedLanguageLoss(model)
        self.start = start.requires_grad_(False)
        self.weights = {**self.language.weights, "distance": weight}

    def counts(self, batch: Batch) -> dict[str, int]:
        return {**self.language.counts(batch), "distance": len(batch.ids)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        model = self.language.model
        inputs = inputs_of(model, piece)
        hidden_BTD = encoder_of(model)(**inputs).last_hidden_state
        with torch.no_grad():
            start_BTD = encoder_of(self.start)(**inputs).last_hidden_state
        distance_BT = (hidden_BTD - start_BTD).float().square().sum(-1)
        if "attention_mask" in piece:  # absent where no row is padded
            distance_BT = distance_BT * piece["attention_mask"]
        return {**self.language(piece), "distance": distance_BT.sum()}

    def flops(self, batch: Batch) -> float:
        body = training_flops(self.language.model, batch.lengths, predicted=0)
        return self.language.flops(batch) + body + body / 3  # the frozen copy goes forward only


def main() -> None:
    name, text, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    plan = settings.override(Plan(steps=100, batch=32), sys.argv[4:])
    tokenizer = load_tokenizer(name)
    model, start = (load_masked_language_model(name, hidden_dropout=0.0, attention_dropout=0.0) for _ in range(2))
    objective = StayingClose(model, start, weight=0.01)
    tokens = corpus_at(text, out).tokens(tokenizer)
    stream = masked_stream(tokens, batch=plan.batch, longest=128, seed=plan.seed)
    for step in train(objective, stream, plan, adamw(objective, plan)):
        shown = ", ".join(f"{term} {value:.4f}" for term, value in step.losses.items())
        print(f"step {step.number}: {shown}")
    save_model(model, tokenizer, out / "checkpoint")


if __name__ == "__main__":
    main()
