"""TSDAE: which tokens are deleted, the loss against plain PyTorch, and that the vector carries the text."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from pyarrow import parquet
from torch import Tensor
from torch.nn import functional

from acclimate.core.types import Batch, Document, Example
from acclimate.data.embedded import ABSTRACTS
from acclimate.methods import tsdae
from acclimate.methods.ranking.embedder import read_out_of
from acclimate.methods.recipes.tsdae import DECODERS, TsdaeRecipe
from acclimate.methods.tsdae import KEPT, DenoisingLoss, with_deletions
from acclimate.models.encoder import new_encoder, save_model
from acclimate.models.loading import load_tokenizer
from acclimate.tasks.rows import encode_rows
from acclimate.text.corpus import write_corpus
from acclimate.text.vocabulary import train_tokenizer
from acclimate.training.loop import adamw, train
from acclimate.training.objective import measure
from acclimate.training.plan import Plan
from conformance import toy_rows
from families import FAMILIES
from sentence_model import make_sentence_model


def deleted(rows: Batch, step: int, share: float = 0.6) -> Batch:
    return with_deletions(rows, share, prefix=1, suffix=1, generator=np.random.default_rng([1, step]))


def test_tokens_are_deleted_one_by_one_and_at_least_one_of_each_text_stays():
    rows = toy_rows(0, 0)
    batches = [deleted(rows, step) for step in range(400)]
    ends = np.zeros(len(rows.ids), bool)
    ends[rows.offsets[:-1]] = ends[rows.offsets[1:] - 1] = True
    kept = np.array([batch.tokens[KEPT] for batch in batches])
    assert kept[:, ends].all()
    longest = int(rows.lengths.argmax())
    place = slice(rows.offsets[longest] + 1, rows.offsets[longest + 1] - 1)
    assert kept[:, place].mean(0) == pytest.approx(0.4, abs=0.1)
    fewest = deleted(rows, 0, share=1 - 1e-12)
    assert (np.add.reduceat(fewest.tokens[KEPT], rows.offsets[:-1]) == 3).all()
    first = np.arange(len(rows.ids)) == np.repeat(rows.offsets[:-1], rows.lengths)
    assert ((fewest.tokens["labels"] == rows.ids) == ~first).all()


def plain_losses(weights: dict[str, Tensor], batch: Batch, read_out: str) -> list[float]:
    """-log P(x_t | x~) of each token of each row, for a BERT of two heads; a row at a time, from its equations."""

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def normed(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        deviation = (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt()
        return centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def states(ids: Tensor, seen: Tensor, vector: Tensor | None = None) -> Tensor:
        places = weights["model.bert.embeddings.position_embeddings.weight"][: len(ids)]
        types = weights["model.bert.embeddings.token_type_embeddings.weight"][0]
        x = weights["model.bert.embeddings.word_embeddings.weight"][ids] + places + types
        x = normed(x, "model.bert.embeddings.LayerNorm")
        for number in range(2):
            name = f"model.bert.encoder.layer.{number}"
            parts = [linear(x, f"{name}.attention.self.{part}").chunk(2, -1) for part in ("query", "key", "value")]
            heads = []
            for query, key, value in zip(*parts, strict=True):
                scores = (query @ key.T / math.sqrt(query.shape[-1])).masked_fill(~seen, -math.inf)
                heads.append(scores.softmax(-1) @ value)
            x = normed(
                x + linear(torch.cat(heads, -1), f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm"
            )
            if vector is not None:  # the softmax over a single key is 1
                crossed = f"decoder.encoder.layer.{number}.crossattention"
                added = linear(linear(vector, f"{crossed}.self.value"), f"{crossed}.output.dense")
                x = normed(x + added, f"{crossed}.output.LayerNorm")
            wide = functional.gelu(linear(x, f"{name}.intermediate.dense"))
            x = normed(x + linear(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        return x

    losses = []
    for row in range(len(batch)):
        one = batch.take(np.array([row]))
        ids, left = torch.from_numpy(one.ids), torch.from_numpy(one.ids[one.tokens[KEPT] > 0])
        noisy = states(left, torch.ones(len(left), len(left), dtype=torch.bool))
        vector = noisy.mean(0) if read_out == "mean" else noisy[0]
        hidden = states(ids, torch.ones(len(ids), len(ids)).tril().bool(), vector)
        head = functional.gelu(linear(hidden, "model.cls.predictions.transform.dense"))
        head = normed(head, "model.cls.predictions.transform.LayerNorm")
        words = weights["model.bert.embeddings.word_embeddings.weight"]
        logits = head @ words.T + weights["model.cls.predictions.bias"]
        losses += [float(-logits[place - 1].log_softmax(-1)[ids[place]]) for place in range(1, len(ids))]
    return losses


@torch.no_grad()
@pytest.mark.parametrize("read_out", ["mean", "first"])
def test_loss_is_the_cross_entropy_of_the_original_tokens_from_one_vector(read_out):
    batch, objective = deleted(toy_rows(0, 0), 0), DenoisingLoss(FAMILIES["bert"](), read_out, seed=3)
    losses = plain_losses({name: value.double() for name, value in objective.state_dict().items()}, batch, read_out)
    assert objective.counts(batch) == {"denoising": len(losses)}
    for most in (1, 1000):
        found = measure(objective, [batch], Plan(precision="float32", piece_tokens=most))
        assert found["denoising"] == pytest.approx(np.mean(losses), rel=1e-6)


def test_the_vector_carries_real_text(tmp_path):
    """A decoder without the vector, zeros or any other, cannot tell apart texts that are equally likely: -log P of a
    text is log 64 at best. With it, the loss on new deletions falls far below that.
    """
    texts = [text[:24] for text in parquet.read_table(ABSTRACTS)["text"][:64].to_pylist()]
    assert len({*texts}) == 64
    corpus = write_corpus((Document(str(number), text) for number, text in enumerate(texts)), tmp_path / "corpus")
    tokenizer = train_tokenizer(corpus, size=400, longest=64)
    rows = encode_rows([Example("", text, "") for text in texts], tokenizer, 48)
    size = {"vocabulary_size": len(tokenizer), "longest": 64, "pad": tokenizer.pad_token_id}
    drops = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    model = new_encoder(layers=1, hidden=64, heads=2, seed=0, initializer_range=0.125, **drops, **size)
    objective = DenoisingLoss(model, "mean")
    plan = Plan(steps=200, batch=32, rate=5e-3, weight_decay=0.0, precision="float32")

    def stream(step):
        return deleted(rows.take(np.random.default_rng(step).permutation(64)[:32]), step)

    for _ in train(objective, stream, plan, adamw(objective, plan)):
        pass
    batch = deleted(rows, 1000)
    without_vector = 64 * math.log(64) / objective.counts(batch)["denoising"]
    assert measure(objective, [batch], plan)["denoising"] < without_vector / 2


def test_checkpoint_is_the_encoder_and_a_family_without_a_decoder_is_refused(pretrained, toy_race, tmp_path):
    corpus, plan = toy_race.materials.domain.path, Plan(steps=2, batch=4)
    recipe = TsdaeRecipe(str(pretrained), corpus, max_tokens=32, epochs=0.0, plan=plan)
    checkpoint = tsdae.adapt(recipe, tmp_path / "run")
    assert (checkpoint.path / "config.json").read_text().count("BertModel") == 1
    save_model(FAMILIES["distilbert"](), load_tokenizer(pretrained), tmp_path / "distilbert")
    with pytest.raises(ValueError, match=f"'distilbert' does not have.*{', '.join(DECODERS)}"):
        tsdae.adapt(TsdaeRecipe(str(tmp_path / "distilbert"), corpus), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_vector_is_read_as_the_search_vector_of_the_encoder(pretrained, tmp_path):
    assert read_out_of(str(pretrained)) == "mean"
    for pooling, read_out in {"cls": "first", "mean": "mean"}.items():
        assert (
            read_out_of(str(make_sentence_model(pretrained, tmp_path / pooling, old=False, pooling=pooling)))
            == read_out
        )
    with pytest.raises(ValueError, match="pooling max is not supported"):
        read_out_of(str(make_sentence_model(pretrained, tmp_path / "max", old=False, pooling="max")))
