"""What an encoder makes of a labelled dataset, in one pass over some of its training rows: sums that fit into memory.

The encoder is as it is, without dropout and without a head. A text's features are the mean of its tokens' last hidden
states, or the state of its first token; a tagged word's are the state of its first piece, a question's those of each
token of its context and question. Labels are columns: one a class, 1 where the item bears it; a number in standard
deviations from its mean; of answers one for the tokens at which one begins, one for those at which it ends.

What is kept (`Described`) is the sums of transfer_evidence.py, over the features and a last one that is 1 throughout,
and the mean of all texts' mean states (TextEmb: Vu et al., 2020). So memory does not grow with rows or words.

Shape suffixes: B rows, T tokens of the longest, n items, D features and the 1, H hidden, C columns of labels.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from safetensors.numpy import load_file, save
from torch import Tensor

from acclimate.core import files
from acclimate.core.types import NOT_PREDICTED, TAGS, Example, Watch, counted, label_of, unwatched
from acclimate.models.encoder import encoder_of, load_masked_language_model, load_tokenizer
from acclimate.models.flops import training_flops
from acclimate.models.heads import inputs_of
from acclimate.models.loading import identity
from acclimate.study.jobs import Job
from acclimate.study.transfer_evidence import Moments, Values
from acclimate.tasks.rows import encode, labelled
from acclimate.tasks.task import Kind
from acclimate.training.pieces import Piece, cut, pad
from acclimate.training.plan import Plan, device, piece_tokens

SUMS = "sums.safetensors"
FORWARD = 3  # a pass is a third of a training step (models/flops.py)
Pooling = Literal["mean", "first"]


@dataclass(frozen=True)
class Described:
    """A dataset as an encoder sees it.

    moments  of the features and of the 1 that stands behind them
    text_H   mean over the texts of the mean of their tokens' states
    rows, tokens, seconds, flops  of the pass; loading is in none of them
    """

    moments: Moments
    text_H: Values
    rows: int
    tokens: int
    seconds: float
    flops: float


def write_rows(examples: Sequence[Example], kind: Kind, labels: Sequence[str], folder: Path) -> Path:
    """The rows to describe as a file in the folder, whose name is the hash of what it holds."""
    about = {"kind": kind, "labels": [*labels]}
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in (about, *map(asdict, examples))]
    content = "".join(lines).encode()
    path = folder / f"{files.sha256_of_bytes(content)}.jsonl"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        files.write_bytes(path, content)
    return path


def describing(label: str, model: str, rows: Path, *, max_tokens: int, pooling: Pooling) -> Job:
    """The pass of a model (a directory or hub id) over the rows of a file, as a job."""
    stated: dict[str, Any] = {"max_tokens": max_tokens, "pooling": pooling}
    places, contents = {"rows": rows.absolute()}, {"rows": rows.stem}
    if Path(model).is_dir():
        places["model"], contents["model"] = Path(model).absolute(), identity(model)
    else:
        stated["model"] = model
    return Job(label, describe, stated, contents, places)


def described(job: Job, run: Path, result: dict[str, Any]) -> Described:
    """What the job of `describing` found, by its result."""
    sums = load_file(job.directory(run) / SUMS)
    moments = Moments(result["items"], sums["gram"], sums["cross"], sums["squares"])
    return Described(moments, sums["text"], **{name: result[name] for name in ("rows", "tokens", "seconds", "flops")})


def describe(
    out: Path, model: str | Path, rows: Path, max_tokens: int, pooling: Pooling, *, watch: Watch = unwatched
) -> dict[str, Any]:
    """The work of such a job: writes `out/sums.safetensors`, gives counts and costs."""
    kind, labels, examples = _read_rows(rows)
    loaded = load_masked_language_model(model)
    encoder = encoder_of(loaded).to(device())  # type: ignore[arg-type]
    batch = labelled(encode(examples, load_tokenizer(model), max_tokens, kind), examples, kind, labels)
    if kind == "score":
        batch = replace(batch, rows={**batch.rows, "label": _standardised(batch.rows["label"])})
    begun = time.monotonic()
    moments, text_H = None, np.zeros(encoder.config.hidden_size)
    stated: dict[str, Any] = {"kind": kind, "labels": len(labels), "pooling": pooling}
    layouts = cut(batch.lengths, piece_tokens(Plan(), device()))
    for layout in counted(layouts, watch, "features", total=len(layouts), unit="pieces", every=1):
        piece = pad(batch, layout, device())
        states_BTH, there_BT = _states(encoder, piece)
        means_BH = (states_BTH * there_BT[..., None]).sum(1) / there_BT.sum(1, keepdim=True)
        text_H += means_BH.sum(0).cpu().numpy()
        features_nH, columns_nC = _items(states_BTH, there_BT, means_BH, piece, **stated)
        features_nD = np.pad(features_nH, ((0, 0), (0, 1)), constant_values=1.0)
        own = Moments.of(features_nD, columns_nC)
        moments = own if moments is None else moments + own
    assert moments is not None
    seconds = time.monotonic() - begun
    sums = {"gram": moments.gram_DD, "cross": moments.cross_DC, "squares": moments.squares_C}
    files.write_bytes(out / SUMS, save({**sums, "text": text_H / len(batch)}))
    return {
        "items": moments.items,
        "rows": len(examples),
        "tokens": len(batch.ids),
        "seconds": seconds,
        "flops": training_flops(loaded, batch.lengths, predicted=0) / FORWARD,
    }


@torch.no_grad()
def _states(encoder: Any, piece: Piece) -> tuple[Tensor, Tensor]:
    """(B, T, H) last hidden states in float64, (B, T) 1 on real tokens."""
    states_BTH = encoder(**inputs_of(encoder, piece)).last_hidden_state.double()
    states_BTH = states_BTH[:, : piece["input_ids"].shape[1]]
    mask = piece.get("attention_mask")
    there_BT = torch.ones(states_BTH.shape[:2]) if mask is None else mask
    return states_BTH, there_BT.to(states_BTH)


def _items(
    states_BTH: Tensor, there_BT: Tensor, means_BH: Tensor, piece: Piece, *, kind: Kind, labels: int, pooling: Pooling
) -> tuple[Values, Values]:
    """(n, H) features of the piece's items, (n, C) their labels as columns."""
    if kind == "tokens":
        tagged_BT = piece[TAGS] != NOT_PREDICTED
        return states_BTH[tagged_BT].cpu().numpy(), _hot(piece[TAGS][tagged_BT].cpu().numpy(), labels)
    if kind == "span":
        ends_BT2 = torch.zeros(*states_BTH.shape[:2], 2, dtype=torch.float64, device=states_BTH.device)
        ends_BT2.scatter_(1, piece["label"][:, None, :], 1.0)
        inside = there_BT > 0
        return states_BTH[inside].cpu().numpy(), ends_BT2[inside].cpu().numpy()
    features_BH = (means_BH if pooling == "mean" else states_BTH[:, 0]).cpu().numpy()
    label = piece["label"].cpu().numpy()
    if kind == "sequence":
        return features_BH, _hot(label, labels)
    return features_BH, label.reshape(len(label), -1).astype(np.float64)


def _hot(codes_n: np.ndarray, columns: int) -> Values:
    return cast(Values, np.eye(columns)[codes_n])


def _standardised(numbers_B: np.ndarray) -> np.ndarray:
    spread = numbers_B.std()
    if not spread:
        raise ValueError(f"all {len(numbers_B)} numbers to predict are {numbers_B[0]}: there is nothing to explain")
    return cast(np.ndarray, (numbers_B - numbers_B.mean()) / spread)


def _read_rows(path: Path) -> tuple[Kind, tuple[str, ...], list[Example]]:
    with open(path, encoding="utf-8") as file:
        about, *rows = map(json.loads, file)
    spans = [tuple((start, end) for start, end in row["spans"]) for row in rows]
    examples = [
        Example(**{**row, "label": label_of(row["label"]), "spans": own}) for row, own in zip(rows, spans, strict=True)
    ]
    return about["kind"], tuple(about["labels"]), examples
