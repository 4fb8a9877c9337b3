from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.families import FAMILIES, mpnet
from torch import nn

from acclimate.models.attention import Marks, attention_of, find_maxima, show_attention

CLS, SEP, PERIOD = 1, 2, 3


def marks(vocabulary=200):
    ends, periods = np.zeros(vocabulary, bool), np.zeros(vocabulary, bool)
    ends[[CLS, SEP]] = periods[PERIOD] = True
    return Marks(ends, periods)


class Handed(nn.Module):
    """An encoder that hands out these weights, (L, H, T, T), for every text; cut to the text's length at the end."""

    def __init__(self, weights):
        super().__init__()
        self.weights = torch.as_tensor(weights, dtype=torch.float32)
        layers, heads, *_ = self.weights.shape
        self.config = SimpleNamespace(
            model_type="handed", num_hidden_layers=layers, num_attention_heads=heads, pad_token_id=0
        )
        self.device = torch.device("cpu")

    @property
    def base_model(self):
        return self

    def forward(self, input_ids, attention_mask, output_attentions):
        tokens = input_ids.shape[1]
        of_all = [layer[None, :, :tokens, :tokens].expand(len(input_ids), -1, -1, -1) for layer in self.weights]
        return SimpleNamespace(attentions=tuple(of_all))


def head(columns, tokens=None):
    """(T, T) weights whose row i is largest in column `columns[i]`, or in each of several."""
    tokens = tokens or len(columns)
    weights = torch.full((tokens, tokens), 0.01)
    for row, places in enumerate(columns):
        weights[row, places] = 0.5
    return weights


def maxima(*heads, texts):
    return find_maxima(Handed(torch.stack(heads)[None]), texts, marks())


def test_the_largest_weight_of_each_token_is_counted_where_it_falls():
    text = [CLS, 7, 8, PERIOD, 9, SEP]
    found = maxima(
        head([0, 0, 1, 2, 3, 4]),  # one back
        head([1, 2, 3, 4, 5, 0]),  # one on
        head([0, 5, 3, 0, 3, 0]),  # at [SEP], the period, [CLS], the period
        head([0, 1, 2, 3, 4, 5]),  # at itself, of which one is the period
        texts=[text],
    )
    assert found.queries == 4
    assert found.texts == 1
    assert found.previous_LH.tolist() == [[4, 0, 1, 0]]
    assert found.next_LH.tolist() == [[0, 4, 1, 0]]
    assert found.marked_LH.tolist() == [[2, 2, 4, 1]]


def test_a_shared_maximum_counts_in_parts_whatever_its_order():
    even = maxima(torch.full((4, 4), 0.25), texts=[[CLS, 7, 8, SEP]])
    assert even.previous_LH.tolist() == even.next_LH.tolist() == [[0.5]]  # a quarter for each of two tokens
    assert even.marked_LH.tolist() == [[1.0]]
    two = maxima(head([0, [0, 2], 3, 3]), texts=[[CLS, 7, 8, SEP]])
    assert (two.previous_LH.item(), two.next_LH.item(), two.marked_LH.item()) == (0.5, 1.5, 1.5)


def test_padding_is_neither_asked_nor_looked_at_and_chance_is_the_share_of_such_keys():
    weights = head([5, 5, 5, 5, 5, 5])
    weights[1, 0] = 0.4
    found = maxima(weights, texts=[[CLS, 7, SEP], [CLS, 7, 8, 9, 7, SEP]])
    assert found.queries == 5
    assert found.previous_LH.item() == 1  # of the short text; column 5 is padding there
    assert found.next_LH.item() == 1
    assert found.marked_LH.item() == 5
    found = maxima(head([0, 0, 0, 0]), texts=[[CLS, 7, PERIOD, SEP]])
    assert found.by_chance == (2 / 4, 3 / 4)


def test_texts_of_special_tokens_alone_and_weights_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="none of the 2 texts has a token that is not special"):
        maxima(head([0, 0]), texts=[[CLS, SEP], [CLS, SEP]])
    with pytest.raises(ValueError, match="is NaN"):
        maxima(torch.full((3, 3), float("nan")), texts=[[CLS, 7, SEP]])


def texts(count=40):
    generator = np.random.default_rng(1)
    rows = (generator.integers(5, 200, size=length).tolist() for length in generator.integers(1, 40, size=count))
    return [[CLS, *row, SEP] for row in rows]


@pytest.mark.parametrize("name", [*FAMILIES, "mpnet"])
def test_every_family_hands_out_weights_and_texts_together_count_as_alone(name):
    model = {**FAMILIES, "mpnet": mpnet}[name]()
    show_attention(model)
    together = find_maxima(model, texts(), marks())
    alone = [find_maxima(model, [text], marks()) for text in texts()]
    for kind in ("previous_LH", "next_LH", "marked_LH"):
        difference = getattr(together, kind) - sum(getattr(each, kind) for each in alone)
        assert np.abs(difference).max() <= 2  # rounding may turn a close call
    assert together.queries == sum(each.queries for each in alone)
    chance = sum(np.multiply(each.by_chance, each.queries) for each in alone) / together.queries
    np.testing.assert_allclose(together.by_chance, chance)
    weights = attention_of(model, texts()[0])
    tokens = len(texts()[0])
    assert weights.shape == (2, 2, tokens, tokens)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_counts_agree_with_a_plain_reading_of_the_definition():
    model = FAMILIES["bert"]()
    show_attention(model)
    found = find_maxima(model, texts(), marks())
    expected = np.zeros((3, 2, 2))
    for text in texts():
        for layer, of_layer in enumerate(attention_of(model, text)):
            for number, weights in enumerate(of_layer):
                for place in range(1, len(text) - 1):
                    at = int(weights[place].argmax())
                    expected[:, layer, number] += (at == place - 1, at == place + 1, text[at] in (CLS, SEP, PERIOD))
    counted = np.stack([found.previous_LH, found.next_LH, found.marked_LH])
    assert np.abs(counted - expected).max() <= 2


def test_progress_counts_texts_and_a_family_without_such_weights_is_refused():
    model = Handed(torch.zeros(1, 1, 3, 3))
    model.forward = lambda **_: SimpleNamespace(attentions=None)
    with pytest.raises(ValueError, match="handed: does not return a matrix of attention weights"):
        find_maxima(model, [[CLS, 7, SEP]], marks())
    done = []
    find_maxima(Handed(torch.zeros(1, 1, 50, 50)), texts(300), marks(), watch=done.append)
    assert done[-1] == 300
    assert done == sorted(done)
