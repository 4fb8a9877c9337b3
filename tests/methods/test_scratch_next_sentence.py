from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, BertForPreTraining

from acclimate.core.types import NOT_PREDICTED
from acclimate.methods.scratch import NextSentenceLoss, head_of, new_head, require_pairs, with_head
from acclimate.models.encoder import save_model
from acclimate.models.loading import load_tokenizer
from acclimate.text.rows import RANDOM_NEXT, TYPES
from acclimate.training.pieces import pack, pad
from conformance import CPU, OBJECTIVES
from families import FAMILIES


def test_loss_is_that_of_berts_own_heads_a_row_at_a_time():
    """The transcription is transformers' BertForPreTraining with its labels, each row alone and without padding."""
    case = OBJECTIVES["next sentence"]()
    objective, batch = case.objective(0.0).eval(), case.stream(0)
    bert = with_head(objective.model, objective.head)
    mlm, nsp = [], []
    for row in range(len(batch)):
        begin, end = batch.offsets[row : row + 2]
        ids, types, labels = (
            torch.from_numpy(values[begin:end])[None]
            for values in (batch.ids, batch.tokens[TYPES], batch.tokens["labels"])
        )
        said = bert(input_ids=ids, token_type_ids=types)
        there = labels[0] != NOT_PREDICTED
        mlm.append(
            torch.nn.functional.cross_entropy(said.prediction_logits[0][there], labels[0][there], reduction="sum")
        )
        label = torch.tensor([batch.rows[RANDOM_NEXT][row]])
        nsp.append(torch.nn.functional.cross_entropy(said.seq_relationship_logits, label, reduction="sum"))
    packed = [objective(pad(batch, layout, CPU)) for layout in pack(batch.lengths, 64)]
    for term, expected in (("mlm", mlm), ("nsp", nsp)):
        torch.testing.assert_close(sum(each[term] for each in packed), sum(expected), rtol=1e-4, atol=1e-4)
    assert objective.counts(batch) == {"mlm": int(np.sum(batch.tokens["labels"] != NOT_PREDICTED)), "nsp": len(batch)}


def test_checkpoint_keeps_pooler_and_heads_and_is_an_ordinary_one(encoder, tmp_path):
    model = AutoModelForMaskedLM.from_pretrained(encoder)
    head = new_head(model, seed=1)
    save_model(with_head(model, head), load_tokenizer(encoder), tmp_path)
    assert type(BertForPreTraining.from_pretrained(tmp_path)).__name__ == "BertForPreTraining"
    plain = AutoModelForMaskedLM.from_pretrained(tmp_path)
    for (name, value), (_, other) in zip(model.state_dict().items(), plain.state_dict().items(), strict=True):
        assert torch.equal(value, other), name
    classifier = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert torch.equal(classifier.bert.pooler.dense.weight, head.pooler.weight)
    again, known = head_of(str(tmp_path), seed=5)
    assert known
    assert all(torch.equal(one, other) for one, other in zip(head.parameters(), again.parameters(), strict=True))


def test_a_checkpoint_without_a_head_gets_one_by_the_seed(encoder):
    (one, known), (same, _), (other, _) = (head_of(str(encoder), seed=seed) for seed in (1, 1, 2))
    assert not known
    assert torch.equal(one.pooler.weight, same.pooler.weight)
    assert not torch.equal(one.pooler.weight, other.pooler.weight)


def test_a_model_that_knows_no_token_types_is_refused():
    with pytest.raises(ValueError, match="next_sentence=false"):
        require_pairs(FAMILIES["modernbert"]())
    assert NextSentenceLoss(FAMILIES["bert"](), new_head(FAMILIES["bert"](), seed=0)).shares_lines
