"""Gates and masked weights mean the same heads and neurons in every family."""

import numpy as np
import pytest
import torch
from torch import nn

from acclimate.methods.domain import hidden_states
from acclimate.models.encoder import encoder_of
from acclimate.models.families import PARTS, PLACES
from acclimate.models.gates import gate_shape, gated, masked_weights, scale_gradients
from acclimate.training.pieces import pack, pad, together
from conformance import toy_rows
from families import FAMILIES, mpnet

CPU = torch.device("cpu")
MAKERS = {**{name: make for name, make in FAMILIES.items() if name in PLACES}, "mpnet": mpnet}
# one for every part, written down from each family's code: (layer of two) -> what holds it back when it is zero
OUT = {
    **dict.fromkeys(["bert", "camembert", "electra", "roberta", "xlm-roberta", "deberta-v2"], "attention.output.dense"),
    "distilbert": "attention.out_lin",
    "modernbert": "attn.Wo",
    "mpnet": "attention.attn.o",
}
SECOND = {**dict.fromkeys(OUT, "output.dense"), "distilbert": "ffn.lin2", "modernbert": "mlp.Wo"}


def piece_for(model, layout=together):
    batch = toy_rows(model.config.pad_token_id or 0, 0)
    return batch, pad(batch, layout(batch.lengths), CPU)


def layer_of(model, index):
    encoder = encoder_of(model)
    named = dict(encoder.named_modules())
    return next(
        named[name]
        for name in (f"encoder.layer.{index}", f"transformer.layer.{index}", f"layers.{index}")
        if name in named
    )


def test_every_family_that_was_asked_for_is_known():
    assert {"bert", "roberta", "distilbert", "electra", "deberta-v2", "modernbert"} <= set(PLACES) == set(MAKERS)


@pytest.mark.parametrize("name", MAKERS)
def test_gates_of_one_change_nothing_and_are_gone_behind_the_block(name):
    model = MAKERS[name]()
    _, piece = piece_for(model)
    before = hidden_states(model, piece)
    with gated(model, {part: torch.ones(gate_shape(model, part)) for part in PARTS}):
        assert torch.equal(hidden_states(model, piece), before)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in encoder_of(model).modules())


@pytest.mark.parametrize("name", MAKERS)
def test_a_head_or_neuron_gated_with_zero_is_one_removed(name):
    model, headless, fewer = (MAKERS[name]() for _ in range(3))
    _, piece = piece_for(model)
    heads, neurons, numbers = (torch.ones(gate_shape(model, part)) for part in ("heads", "intermediate", "output"))
    heads[1, 0] = neurons[0, 5:9] = numbers[1, 3] = 0
    with torch.no_grad():
        layer_of(headless, 1).get_submodule(OUT[name]).weight[:, :16] = 0  # 32 numbers, two heads
        layer_of(fewer, 0).get_submodule(SECOND[name]).weight[:, 5:9] = 0
        second = layer_of(fewer, 1).get_submodule(SECOND[name])
        second.weight[3] = 0
        if second.bias is not None:
            second.bias[3] = 0
    for gates, removed in (({"heads": heads}, headless), ({"intermediate": neurons, "output": numbers}, fewer)):
        with gated(model, gates):
            gated_out = hidden_states(model, piece)
        torch.testing.assert_close(gated_out, hidden_states(removed, piece), rtol=1e-5, atol=1e-5)
        assert not torch.allclose(gated_out, hidden_states(model, piece), atol=1e-3)


def test_embeddings_are_gated_where_they_come_out():
    model = FAMILIES["electra"]()
    _, piece = piece_for(model)
    assert gate_shape(model, "embeddings") == (1, 16)  # narrower than the layers
    with gated(model, {"embeddings": torch.full((1, 16), 0.5)}):
        halved = encoder_of(model).embeddings(piece["input_ids"])
    torch.testing.assert_close(halved, 0.5 * encoder_of(model).embeddings(piece["input_ids"]))


@pytest.mark.parametrize("shared", [False, True])
def test_each_row_has_gates_and_gradients_of_its_own(shared):
    model = FAMILIES["roberta"]()
    batch, _ = piece_for(model)
    layout = pack(batch.lengths, 200)[0] if shared else together(batch.lengths)
    assert layout.shared == shared
    piece = pad(batch, layout, CPU)
    generator = torch.Generator().manual_seed(0)
    gates = {part: torch.rand(len(layout.rows_R), *gate_shape(model, part), generator=generator) for part in PARTS}
    for values in gates.values():
        values.requires_grad_()
    weights_D = torch.randn(32, generator=generator)
    with gated(model, gates, piece):
        hidden_LWD = hidden_states(model, piece)
    starts = layout.lines_R * layout.width + layout.starts_R
    of_rows = [
        hidden_LWD.flatten(0, 1)[at : at + batch.lengths[row]] for at, row in zip(starts, layout.rows_R, strict=True)
    ]
    (torch.cat(of_rows) @ weights_D).square().sum().backward()
    for place, row in enumerate(layout.rows_R):
        one = batch.take(np.array([row]))
        of_row = {part: values[place].detach().clone().requires_grad_() for part, values in gates.items()}
        with gated(model, of_row):
            alone_1TD = hidden_states(model, pad(one, together(one.lengths), CPU))
        torch.testing.assert_close(of_rows[place], alone_1TD[0], rtol=1e-4, atol=1e-5)
        (alone_1TD @ weights_D).square().sum().backward()
        for part, values in gates.items():
            torch.testing.assert_close(values.grad[place], of_row[part].grad, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", MAKERS)
def test_a_part_with_nothing_kept_has_the_weights_that_make_it_and_no_others(name, part):
    """Weights of the gates with factor 0 decide nothing but these gates' values."""
    model = MAKERS[name]()
    _, piece = piece_for(model)
    kept = torch.ones(gate_shape(model, part))
    kept[-1, 1] = 0
    found = masked_weights(model, part, kept)
    assert len({id(weight) for weight, _ in found}) == len(found)
    with gated(model, {part: kept}):
        before = hidden_states(model, piece)
    with torch.no_grad():
        for weight, factors in found:
            assert torch.broadcast_shapes(weight.shape, factors.shape) == weight.shape
            weight.add_((1 - factors) * 0.3)
    if part == "embeddings":  # normalisation spreads what moved; the gate cannot hide that
        return
    with gated(model, {part: kept}):
        torch.testing.assert_close(hidden_states(model, piece), before, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(hidden_states(model, piece), hidden_states(MAKERS[name](), piece), atol=1e-3)


def test_weights_of_parts_are_those_of_the_table():
    model = FAMILIES["bert"]()
    names = {id(weight): name for name, weight in model.named_parameters()}
    kept = {part: torch.ones(gate_shape(model, part)) for part in PARTS}
    kept["heads"][1, 0] = kept["intermediate"][0, 5] = kept["output"][1, 3] = kept["embeddings"][0, 2] = 0
    held = {}
    for part in PARTS:
        for weight, factors in masked_weights(model, part, kept[part]):
            places = (factors.expand_as(weight) == 0).nonzero()
            if len(places):
                held[names[id(weight)].removeprefix("bert.")] = [sorted(set(axis.tolist())) for axis in places.T]
    every, head = list(range(32)), list(range(16))
    attention = "encoder.layer.1.attention"
    maps = {f"{attention}.self.{name}.weight": [head, every] for name in ("query", "key", "value")}
    biases = {f"{attention}.self.{name}.bias": [head] for name in ("query", "key", "value")}
    assert held == {
        **maps,
        **biases,
        f"{attention}.output.dense.weight": [every, head],
        "encoder.layer.0.intermediate.dense.weight": [[5], every],
        "encoder.layer.0.intermediate.dense.bias": [[5]],
        "encoder.layer.1.output.dense.weight": [[3], list(range(64))],
        "encoder.layer.1.output.dense.bias": [[3]],
        "embeddings.word_embeddings.weight": [list(range(200)), [2]],
        "embeddings.position_embeddings.weight": [list(range(64)), [2]],
        "embeddings.token_type_embeddings.weight": [[0, 1], [2]],
        "embeddings.LayerNorm.weight": [[2]],
        "embeddings.LayerNorm.bias": [[2]],
    }


def test_fused_maps_are_held_in_each_of_their_blocks_and_debertas_positions_by_heads_too():
    model = FAMILIES["modernbert"]()
    kept = torch.ones(gate_shape(model, "heads"))
    kept[0, 1] = 0
    [fused, *_] = masked_weights(model, "heads", kept)
    assert fused[0].shape == (96, 32)
    head = torch.arange(16, 32)
    assert (fused[1].flatten() == 0).nonzero().flatten().tolist() == [*head, *(head + 32), *(head + 64)]
    config = FAMILIES["deberta-v2"]().config
    config.share_att_key = False
    model = type(FAMILIES["deberta-v2"]())(config)
    shared = FAMILIES["deberta-v2"]()
    kept = torch.ones(gate_shape(model, "heads"))
    extra = len(masked_weights(model, "heads", kept)) - len(masked_weights(shared, "heads", kept))
    assert extra == 2 * 2 * 2  # weight and bias of two maps in two layers


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_gradients_are_scaled_through_a_head_and_values_are_not(name):
    """Of the last layer's head, all that only it reaches: W_q, W_k, W_v by the factor; W_o as it was."""
    plain, scaled = MAKERS[name](), MAKERS[name]()
    _, piece = piece_for(plain)
    kept = torch.ones(gate_shape(plain, "heads"))
    kept[1, 0] = 0.25
    scale_gradients(scaled, {"heads": kept})
    hidden = [hidden_states(model, piece) for model in (plain, scaled)]
    assert torch.equal(*hidden)
    for states in hidden:
        states.square().sum().backward()
    places, others = PLACES[name], "embeddings.word_embeddings" if name == "bert" else "embeddings.tok_embeddings"

    def gradient(model, path):
        return layer_of(model, 1).get_submodule(path).weight.grad

    into = places.into_heads[0]
    torch.testing.assert_close(gradient(scaled, into)[:16], 0.25 * gradient(plain, into)[:16], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(gradient(scaled, into)[16:32], gradient(plain, into)[16:32], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(gradient(scaled, OUT[name]), gradient(plain, OUT[name]))
    below = [encoder_of(model).get_submodule(others).weight.grad for model in (plain, scaled)]
    assert not torch.allclose(*below, rtol=1e-3)


def test_another_shape_and_an_unknown_family_are_refused_and_hooks_are_gone_after_an_error():
    model = FAMILIES["bert"]()
    refused = pytest.raises(ValueError, match=r"heads: \(2, 3\) gates, but this model needs \(2, 2\)")
    with refused, gated(model, {"heads": torch.ones(2, 3)}):
        pass
    with pytest.raises(ValueError, match=r"heads: \(8, 2, 2\) gates"):
        masked_weights(model, "heads", torch.ones(8, 2, 2))
    with pytest.raises(ValueError, match="'deberta': acclimate does not know where the heads of this family are"):
        gate_shape(FAMILIES["deberta"](), "heads")
    with pytest.raises(RuntimeError, match="stop"), gated(model, {"heads": torch.ones(2, 2)}):
        raise RuntimeError("stop")
    assert not any(module._forward_pre_hooks for module in model.modules() if isinstance(module, nn.Linear))
