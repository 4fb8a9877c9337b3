"""Fine-tune an encoder for search, and rank documents by the cosine of their vectors with that of the query.

Without training queries nothing is trained: the encoder is scored as it is (zero-shot), as BEIR scores models that were
trained elsewhere. With them, it learns from pairs of a query and a relevant document: in each step the other documents
of the step are the negatives (Karpukhin et al., 2020, "Dense Passage Retrieval", section 3.2), with the loss of DGA's
Eq. 15 and a temperature of .05, which is the MultipleNegativesRankingLoss of sentence-transformers at a scale of 20.

A vector is what sentence-transformers computes from the checkpoint (embedder.py), so a race scores what it hands over.

Readings
  A query has one of its relevant documents in an epoch, drawn at random. So no other relevant document of the query is
  a negative, unless another query of the step has it, or the step belongs to two epochs.
  A step has no more queries than the task has training queries.
  Dev is scored before and after training, and the better of the two is the checkpoint. Each evaluation reads all
  documents.
  Linear layers behind the pooling are not trained, and no loss passes through them.
  As in BEIR, a query that is itself a document of the collection does not retrieve itself. BEIR goes by equal ids; here
  the document must also end with the query's text, because ids of queries and documents may be equal by chance.

Shape suffixes: Q queries, n documents, D numbers of a vector, B rows of the step, R rows of a piece.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from acclimate.core import files, ranks
from acclimate.core.types import Batch, Checkpoint, Cost, Label, Progress, Split, Watch, unwatched
from acclimate.methods.dga import contrast
from acclimate.methods.domain import hidden_states, row_means, row_states
from acclimate.methods.probe import ReadOut
from acclimate.methods.ranking.bm25 import without_itself
from acclimate.methods.ranking.embedder import Embedder, embedder_of
from acclimate.methods.recipes.finetune import FinetuneRecipe, plan_of
from acclimate.models.encoder import training_flops
from acclimate.models.heads import keeps_rows_apart
from acclimate.models.loading import identity
from acclimate.tasks.metrics import RANKED
from acclimate.tasks.prepared import Prepared, open_prepared
from acclimate.text.streams import paired_rows_stream
from acclimate.training.checkpoint import BEFORE, CLOCK, finish, read_log, spent
from acclimate.training.objective import VIEWS, Objective
from acclimate.training.pieces import Piece
from acclimate.training.run import finished, run, write_checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TEMPERATURE = 0.05
QUERIES = 256  # whose similarities with all documents are in memory at a time
LOOKS = "search.json"  # [[step, score], ...] on dev
KEPT = 2 << 30  # bytes of the vectors of documents that stay in memory, those of the last checkpoints


class PairContrast(Objective):
    """Term `contrast`: DGA's Eq. 15 over pairs. The rows of a step are a query, its document, the next query, ..."""

    couples_rows = True

    def __init__(self, model: PreTrainedModel, read_out: ReadOut) -> None:
        super().__init__()
        self.model, self.read_out = model, read_out
        self.weights = {"contrast": 1.0}
        self.shares_lines = keeps_rows_apart(model)

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"contrast": len(batch) // 2}

    def views(self, piece: Piece) -> Tensor:
        hidden_LWD = hidden_states(self.model, piece)
        if self.read_out == "mean":
            return row_means(hidden_LWD, piece)[:, None]
        return row_states(hidden_LWD.float(), piece)[0][:, :1]

    def compared(self, views_B1D: Tensor) -> dict[str, Tensor]:
        return {"contrast": contrast(views_B1D[:, 0].reshape(len(views_B1D) // 2, 2, -1), TEMPERATURE)}

    def forward(self, piece: Piece) -> dict[str, Tensor]:
        return {VIEWS: self.views(piece)}

    def flops(self, batch: Batch) -> float:
        return training_flops(self.model, batch.lengths, predicted=0)


def fine_tune(recipe: FinetuneRecipe, out: Path, *, watch: Watch = unwatched) -> dict[str, Any]:
    """Write `out/checkpoint`, trained if the task has training queries, and return its score and rankings on dev."""
    begun = time.monotonic()
    task = open_prepared(recipe.task)
    sources = {name: task.hashes[name] for name in ("about", "train", "dev")} | {"model": identity(recipe.model)}
    checkpoint = finished(out, recipe, sources)
    if checkpoint is None:
        embedder = _loaded(recipe.model, task)
        vectors_nD = _document_vectors(recipe.model, embedder, task, watch)
        looks = [[0, _dev_score(embedder, vectors_nD, task, watch)]]
        if pairs := training_queries(task):
            read = time.monotonic() - begun
            steps = _train(recipe, embedder, task, pairs, out=out, watch=watch)
            trained = time.monotonic()
            trained_nD = _unit(embedder, _documents(task), watch)
            looks.append([steps, _dev_score(embedder, trained_nD, task, watch)])
            if ranks.is_first():
                files.write_record(out / BEFORE, asdict(Cost(seconds=read + time.monotonic() - trained)))
            if recipe.choose == "last" or looks[1][1] >= looks[0][1]:
                vectors_nD = trained_nD
            else:
                embedder = _loaded(recipe.model, task)
        if ranks.is_first():
            files.write_record(out / LOOKS, looks)
        longest = embedder.max_tokens
        checkpoint = write_checkpoint(out, embedder.encoder, embedder.tokenizer, recipe, sources, longest=longest)
        finish(out)
        _keep(str(checkpoint.path), embedder.max_tokens, task, vectors_nD)
    predicted = rankings(checkpoint.path, task, "dev", watch=watch)
    log, cost = read_log(out) if (out / CLOCK).exists() else [], spent(out)
    if not log and ranks.is_first():
        files.write_record(out / CLOCK, {"seconds": time.monotonic() - begun})
    dev = task.score([example.label for example in task.examples("dev")], predicted)
    return {
        "steps": len(log),
        "tokens": cost.tokens,
        "flops": cost.flops,
        "loss": log[-1]["loss"] if log else 0.0,
        "checkpoint": files.sha256_of(checkpoint.path / files.MANIFEST),
        "dev": dev,
        "width": embedder_of(str(checkpoint.path)).encoder.config.hidden_size,
        "learnt": dev > 0,
        "again": False,
        "looks": files.read_record(out / LOOKS),
        "predicted_dev": predicted,
    }


def test(checkpoint: Checkpoint, task: Prepared, *, by: str, watch: Watch) -> dict[str, Any]:
    """Rank the documents for the sealed queries, then open their judgements in the name of `by`."""
    return task.open_and_score(task.examples("test"), rankings(checkpoint.path, task, "test", watch=watch), by=by)


def training_queries(task: Prepared) -> dict[str, list[int]]:
    """Return training query -> the places of its relevant documents; empty if the task has no training queries."""
    places: dict[str, list[int]] = {}
    for place, document in enumerate(task.examples("train")):
        assert isinstance(document.label, tuple)
        for query in document.label:
            places.setdefault(query, []).append(place)
    return places


def rankings(model: str | Path, task: Prepared, split: Split, *, watch: Watch = unwatched) -> list[Label]:
    """Return for each query of dev or test the ids of the first RANKED documents, by falling cosine."""
    embedder = embedder_of(str(model))
    return _ranked(embedder, _document_vectors(str(model), embedder, task, watch), task, split, watch)


def _loaded(model: str, task: Prepared) -> Embedder:
    """Return the embedder that a checkpoint of the task begins with, which cuts texts where the task does."""
    embedder = embedder_of(model)
    if getattr(embedder.encoder, "pooler", None) is not None:
        # no vector reads it, and most encoders have it with random weights
        embedder.encoder.register_module("pooler", None)
    embedder.tokenizer.model_max_length = min(embedder.max_tokens, task.max_tokens)
    return replace(embedder, max_tokens=embedder.tokenizer.model_max_length)


def _train(
    recipe: FinetuneRecipe, embedder: Embedder, task: Prepared, pairs: dict[str, list[int]], *, out: Path, watch: Watch
) -> int:
    """Train on the pairs, and return the number of steps."""
    documents = sorted({place for places in pairs.values() for place in places})
    row_of = {place: len(pairs) + row for row, place in enumerate(documents)}
    examples = task.examples("train")
    rows = embedder.rows([*pairs, *(examples[place].text for place in documents)])
    partners = [[row_of[place] for place in places] for places in pairs.values()]
    recipe = replace(recipe, plan=replace(recipe.plan, batch=min(recipe.plan.batch, len(pairs))))
    plan = plan_of(recipe, len(pairs), embedder.encoder.config.hidden_size)
    stream = paired_rows_stream(rows, partners, batch=plan.batch, seed=plan.seed)
    embedder.encoder.train()
    run(PairContrast(embedder.encoder, embedder.read_out), stream, plan, out, stage="fine-tune", watch=watch)
    embedder.encoder.train(False)
    return plan.steps


def _documents(task: Prepared) -> list[str]:
    return [document.text for document in task.examples("train")]


def _dev_score(embedder: Embedder, documents_nD: np.ndarray, task: Prepared, watch: Watch) -> float:
    predicted = _ranked(embedder, documents_nD, task, "dev", watch)
    return task.score([example.label for example in task.examples("dev")], predicted)


def _ranked(embedder: Embedder, documents_nD: np.ndarray, task: Prepared, split: Split, watch: Watch) -> list[Label]:
    documents, queries = task.examples("train"), task.examples(split)
    queries_QD = _unit(embedder, [query.text for query in queries], watch)
    first = min(RANKED + 1, len(documents))
    ids: list[Label] = []
    for begin in range(0, len(queries), QUERIES):
        for query, cosines_n in zip(
            queries[begin : begin + QUERIES], queries_QD[begin : begin + QUERIES] @ documents_nD.T, strict=True
        ):
            least = np.partition(cosines_n, -first)[-first]
            places = np.flatnonzero(cosines_n >= least)  # ascending, so that equals stay in the order of documents
            order = places[np.argsort(-cosines_n[places], kind="stable")]
            ids.append(without_itself(query, documents, order[:first]))
        watch(Progress("search", min(begin + QUERIES, len(queries)), len(queries), "queries"))
    return ids


def _unit(embedder: Embedder, texts: Sequence[str], watch: Watch) -> np.ndarray:
    """(n, D) float32, the vectors of texts divided by their lengths."""
    vectors_nD = embedder(texts, watch=watch)
    lengths_n1 = np.linalg.norm(vectors_nD, axis=1, keepdims=True)
    return np.asarray(vectors_nD / np.maximum(lengths_n1, 1e-12))


_vectors: OrderedDict[tuple[str, str, int], np.ndarray] = OrderedDict()


def _document_vectors(model: str, embedder: Embedder, task: Prepared, watch: Watch) -> np.ndarray:
    """(n, D) as `_unit` of the documents. This process reads the documents with equal checkpoints once."""
    key = identity(model), task.hashes["train"], embedder.max_tokens
    vectors_nD = _vectors[key] if key in _vectors else _unit(embedder, _documents(task), watch)
    _keep(model, embedder.max_tokens, task, vectors_nD)
    return vectors_nD


def _keep(model: str, max_tokens: int, task: Prepared, vectors_nD: np.ndarray) -> None:
    key = identity(model), task.hashes["train"], max_tokens
    _vectors[key] = vectors_nD
    _vectors.move_to_end(key)
    while len(_vectors) > 1 and sum(kept_nD.nbytes for kept_nD in _vectors.values()) > KEPT:
        _vectors.popitem(last=False)
