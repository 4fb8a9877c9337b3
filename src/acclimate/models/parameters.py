"""How many weights a model has, and where."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import PreTrainedModel

from acclimate.models.encoder import encoder_of


@dataclass(frozen=True, slots=True)
class Parameters:
    """Number of weights by part, each counted once: a decoder tied to the embeddings is counted with these.

    embeddings  tables that are looked up and their normalisation; the body's matrices multiply every token
    body        the encoder's blocks
    head        what stands above, a pooler included
    """

    embeddings: int
    body: int
    head: int

    @property
    def total(self) -> int:
        return self.embeddings + self.body + self.head


def parameters_of(model: PreTrainedModel) -> Parameters:
    """Counts the weights of a model by part."""
    encoder = encoder_of(model)
    part_of = {id(weight): "embeddings" for weight in encoder.get_input_embeddings().parameters()}
    for name, weight in encoder.named_parameters():
        part = {"embeddings": "embeddings", "pooler": "head"}.get(name.split(".")[0], "body")
        part_of.setdefault(id(weight), part)
    counts = {"embeddings": 0, "body": 0, "head": 0}
    for weight in model.parameters():
        counts[part_of.get(id(weight), "head")] += weight.numel()
    return Parameters(**counts)
