"""Define heads that transformers lacks: layers between an encoder and the labels of a text or the tags of its words.

Classifiers of a text, by what their linear layer reads:

pooling         what of the text is read
pooler          what the family's head makes of it, before its last layer: of BERT the first token through a dense
                layer and tanh; the class is transformers' AutoModelForSequenceClassification
first           the state of its first token; of an LSTM the state of each direction once it has read the whole row (at
                the first token one direction has read no more than that token)
mean            the mean of the states of all its tokens
mentions        of each of two mentions the largest value, in each dimension, of the states of its tokens
mentions-mean   of each of two mentions the mean of the states of its tokens
starts          of each of two mentions the state of its first token: its opening marker if it has one
pair            of a pair of texts, which the encoder reads together, the means u and v of the states of each, and
                |u - v| and u v by element (Conneau et al., 2017, 1705.02364, section 3.1): a linear layer on states
                alone cannot compare

sequence_layer  whose states
linear          the encoder's
bilstm          those of an LSTM in both directions over all tokens of the row (Gu et al., 2021, Table 10)
mlp             the encoder's; a dense layer as wide as the encoder and tanh stand behind what is read (Gu et al., 5.2)

Two mentions are put side by side, and so are the four of a pair. A linear layer after dropout reads the result (Gu et
al., Table 12). Under an LSTM or MLP there is no pooler: `pooler` then reads as `first` does.

Taggers of words that look at more than one word:

tag_layer    what stands on the encoder's hidden states
linear       a linear layer: transformers' AutoModelForTokenClassification
bilstm       an LSTM in both directions over all tokens of a row, then the linear layer (Gu et al., 2021, Table 10)
crf          the linear layer, and a conditional random field over the tags of the words
bilstm-crf   both (Lample et al., 2016; Huang et al., 2015)

A class is made for each family as transformers makes its classes: below the family's base class, with the encoder under
the family's name, but AutoModel refuses its checkpoints (models/formats.py); `classifier.load_finetuned` loads them.
In config.json a classifier is `<Family>ForPooledStates`, with `text_pooling` and `sequence_layer`; a tagger is
`<Family>ForTagSequences`, with `tag_layer`, and with a CRF also `tag_transitions_rate`. LSTM and CRF are float32 under
autocast too.

Shape suffixes: B rows, T tokens of the longest, D hidden, C labels or tags, W words of the longest (words first, then
padding), 2 mentions or texts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from acclimate.models.dropout import DROPOUT_FIELDS
from acclimate.models.formats import CRF_LAYERS, OF_PLACES, OutputLayer, Pooling, SequenceLayer, times_hidden

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel
    from transformers.modeling_outputs import SequenceClassifierOutput, TokenClassifierOutput


class FamilyClasses:
    """Makes and loads models of a class for each family, as transformers' Auto classes do."""

    def __init__(self, class_for: Callable[[Any], Any]) -> None:
        """class_for: returns the model class for the class of a family's configs."""
        self._class_for = class_for

    def from_config(self, config: Any, **settings: Any) -> PreTrainedModel:
        model: PreTrainedModel = self._class_for(type(config))._from_config(config, **settings)
        return model

    def from_pretrained(self, where: str, *, config: Any, **settings: Any) -> Any:
        return self._class_for(type(config)).from_pretrained(where, config=config, **settings)


def family_base(kind: Any) -> Any:
    """Return the base class of all models of a family, by the class of its configs."""
    encoder: Any = transformers.MODEL_MAPPING[kind]
    return next(base for base in encoder.__mro__[1:] if issubclass(base, transformers.PreTrainedModel))


def encoder_alone(config: PreTrainedConfig) -> Any:
    """Return the encoder of a config, without a pooler: nothing would train it."""
    encoder: Any = transformers.MODEL_MAPPING[type(config)]
    model = encoder(config)
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model


def named_for_family(model_class: Any) -> Any:
    """Return the class, after putting the family's name in front of its name."""
    encoder: Any = transformers.MODEL_MAPPING[model_class.config_class]
    model_class.__name__ = model_class.__qualname__ = encoder.__name__.removesuffix("Model") + model_class.__name__
    return model_class


def head_dropout(config: PreTrainedConfig) -> float:
    """Return the dropout before the output layer: that of hidden states where none is stated, as in transformers."""
    fields = DROPOUT_FIELDS.get(config.model_type, {})
    rates = (getattr(config, field, None) for part in ("head", "hidden") for field in fields.get(part, ()))
    return next((float(value) for value in rates if value is not None), 0.0)


def draw_output_layer(layer: nn.Linear, config: PreTrainedConfig) -> None:
    """Draw the layer's weights as the family does."""
    nn.init.normal_(layer.weight, std=getattr(config, "initializer_range", 0.02))
    nn.init.zeros_(layer.bias)


def bidirectional(config: PreTrainedConfig) -> nn.LSTM:
    """Return an LSTM over the encoder's hidden states, both directions as wide together (of an odd width one less)."""
    hidden = config.hidden_size
    return nn.LSTM(hidden, hidden // 2, batch_first=True, bidirectional=True)


def both_ways(lstm: nn.LSTM, hidden_BTD: Tensor, mask_BT: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return (B, T, D), the LSTM's states from both sides of the real tokens, 0 in the padding; and (B, D), the state
    of each direction once it has read the whole row. Float32 under autocast too.

    mask_BT: 1 on real tokens, which come first; None: there is no padding.
    """
    with torch.autocast(hidden_BTD.device.type, enabled=False):
        hidden_BTD = hidden_BTD.float()
        if mask_BT is None:
            states_BTD, (last_2BD, _) = lstm(hidden_BTD)
            return states_BTD, last_2BD.transpose(0, 1).flatten(1)
        lengths = mask_BT.sum(1).cpu()
        packed = pack_padded_sequence(hidden_BTD, lengths, batch_first=True, enforce_sorted=False)
        states, (last_2BD, _) = lstm(packed)
        padded_BTD, _ = pad_packed_sequence(states, batch_first=True, total_length=hidden_BTD.shape[1])
        return padded_BTD, last_2BD.transpose(0, 1).flatten(1)


_FIELDS = {"text_pooling": "pooler", "sequence_layer": "linear"}  # of config.json, and what they are where missing


def pooling_of(config: PreTrainedConfig) -> Pooling:
    """Return what the classifier of a config reads: "pooler" for a class of transformers."""
    pooling: Pooling = getattr(config, "text_pooling", "pooler")
    return pooling


def sequence_layer_of(config: PreTrainedConfig) -> SequenceLayer:
    layer: SequenceLayer = getattr(config, "sequence_layer", "linear")
    return layer


def reads_first(config: PreTrainedConfig) -> bool:
    """Return True if the classifier of a text reads the state of its first token and no other."""
    return pooling_of(config) in ("pooler", "first") and sequence_layer_of(config) != "bilstm"


def set_pooling(config: PreTrainedConfig, pooling: Pooling, layer: SequenceLayer = "linear") -> None:
    """State in a config, in place, what its classifier reads."""
    for (field, missing), value in zip(_FIELDS.items(), (pooling, layer), strict=True):
        if value != missing:
            setattr(config, field, value)
        elif hasattr(config, field):
            delattr(config, field)


def mean_of(states_BTD: Tensor, mask_BT: Tensor | None) -> Tensor:
    """Return (B, D), the mean over the real tokens of each row. mask_BT: 1 on real tokens; None: no padding."""
    if mask_BT is None:
        return states_BTD.mean(1)
    weights_BT1 = mask_BT[..., None].to(states_BTD.dtype)
    return (states_BTD * weights_BT1).sum(1) / weights_BT1.sum(1)


def pooled(states_BTD: Tensor, places_B22: Tensor, pooling: Pooling) -> Tensor:
    """Return what stands for the first mention, then for the second, (B, 2 D); of a pair of texts (B, 4 D).

    places_B22: the first token of each mention or text, and the one after its last
    """
    if pooling == "starts":
        starts_B2D = places_B22[:, :, :1].expand(-1, -1, states_BTD.shape[-1])
        return states_BTD.gather(1, starts_B2D).flatten(1)
    columns_T = torch.arange(states_BTD.shape[1], device=states_BTD.device)
    within_B2T = (columns_T >= places_B22[:, :, :1]) & (columns_T < places_B22[:, :, 1:])
    outside_B2T1 = ~within_B2T[..., None]
    if pooling in ("mentions-mean", "pair"):  # a sum, for autocast would round a product with the mask to bfloat16
        sums_B2D = states_BTD[:, None].masked_fill(outside_B2T1, 0).sum(2)
        means_B2D = sums_B2D / within_B2T.sum(2, keepdim=True)
        if pooling == "mentions-mean":
            return means_B2D.flatten(1)
        first_BD, second_BD = means_B2D.unbind(1)
        return torch.cat([first_BD, second_BD, (first_BD - second_BD).abs(), first_BD * second_BD], 1)
    states_B2TD = states_BTD[:, None].masked_fill(outside_B2T1, torch.finfo(states_BTD.dtype).min)
    return states_B2TD.amax(2).flatten(1)


@cache
def _class_for(kind: Any) -> Any:
    """Return the class of a family's classifiers, by the class of its configs."""
    parent: Any = family_base(kind)

    class ForPooledStates(parent):  # type: ignore[misc]
        config_class = kind

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            setattr(self, self.base_model_prefix, encoder_alone(config))
            self.lstm = bidirectional(config) if sequence_layer_of(config) == "bilstm" else None
            self.dropout = nn.Dropout(head_dropout(config))
            width = 2 * self.lstm.hidden_size if self.lstm else config.hidden_size
            width *= times_hidden(pooling_of(config))
            self.dense = nn.Linear(width, config.hidden_size) if sequence_layer_of(config) == "mlp" else None
            self.classifier = nn.Linear(config.hidden_size if self.dense else width, config.num_labels)
            self.post_init()
            for layer in (self.dense, self.classifier):
                if layer is not None:
                    draw_output_layer(layer, config)

        def forward(self, mentions: Tensor | None = None, **inputs: Tensor) -> SequenceClassifierOutput:
            states_BTD = self.base_model(**inputs).last_hidden_state
            summary_BD, mask_BT = states_BTD[:, 0], inputs.get("attention_mask")
            if self.lstm is not None:
                states_BTD, summary_BD = both_ways(self.lstm, states_BTD, mask_BT)
            pooling = pooling_of(self.config)
            if pooling == "mean":
                summary_BD = mean_of(states_BTD, mask_BT)
            elif pooling in OF_PLACES:
                assert mentions is not None
                summary_BD = pooled(states_BTD, mentions, pooling)
            if self.dense is not None:
                summary_BD = torch.tanh(self.dense(summary_BD))
            return transformers.modeling_outputs.SequenceClassifierOutput(
                logits=self.classifier(self.dropout(summary_BD))
            )

    return named_for_family(ForPooledStates)


PooledClassifiers = FamilyClasses(_class_for)


ENDING = "ForTagSequences"  # how the names of the classes end
# of config.json, and what they are where they are missing
_TAGGER_FIELDS: dict[str, Any] = {"tag_layer": "linear", "tag_transitions_rate": 1.0}


def layer_of(config: PreTrainedConfig) -> OutputLayer:
    """ "linear" for a classifier that is a class of transformers."""
    layer: OutputLayer = getattr(config, "tag_layer", "linear")
    return layer


def transitions_rate_of(config: PreTrainedConfig) -> float:
    return float(getattr(config, "tag_transitions_rate", 1.0))


def set_layer(config: PreTrainedConfig, layer: OutputLayer, transitions_rate: float = 1.0) -> None:
    """State in a config, in place, which layer its tagger has, and how fast a CRF learns.

    Raises ValueError for a rate of a CRF if the layer has none.
    """
    if transitions_rate != 1.0 and layer not in CRF_LAYERS:
        raise ValueError(
            f"transitions_rate={transitions_rate!r} is for a CRF, but the layer is '{layer}', which predicts each "
            f"tag separately. Set it to one of {', '.join(CRF_LAYERS)}, or remove transitions_rate"
        )
    for (field, missing), setting in zip(_TAGGER_FIELDS.items(), (layer, transitions_rate), strict=True):
        if setting != missing:
            setattr(config, field, setting)
        elif hasattr(config, field):
            delattr(config, field)


def crf_of(model: PreTrainedModel) -> ConditionalRandomField | None:
    """Return the conditional random field of a classifier that has one."""
    field: ConditionalRandomField | None = getattr(model, "crf", None)
    return field


@cache
def _tagger_class_for(kind: Any) -> Any:
    """Return the class of a family's taggers, by the class of its configs."""
    parent: Any = family_base(kind)

    class ForTagSequences(parent):  # type: ignore[misc]
        config_class = kind

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            setattr(self, self.base_model_prefix, encoder_alone(config))
            layer, rate = layer_of(config), transitions_rate_of(config)
            self.lstm = bidirectional(config) if layer.startswith("bilstm") else None
            self.dropout = nn.Dropout(head_dropout(config))
            width = 2 * self.lstm.hidden_size if self.lstm else config.hidden_size
            self.classifier = nn.Linear(width, config.num_labels)
            self.crf = ConditionalRandomField(config.num_labels, rate=rate) if layer in CRF_LAYERS else None
            self.post_init()
            draw_output_layer(self.classifier, config)

        def _init_weights(self, module: nn.Module) -> None:
            """Draw what a checkpoint lacks: transformers loads into memory that nothing has initialised."""
            if isinstance(module, ConditionalRandomField):
                for weight in module.parameters():
                    transformers.initialization.zeros_(weight)
            elif isinstance(module, nn.LSTM):  # not every family draws one
                transformers.PreTrainedModel._init_weights(self, module)  # type: ignore[no-untyped-call]
            else:
                super()._init_weights(module)

        def forward(self, **inputs: Tensor) -> TokenClassifierOutput:
            hidden_BTD = self.base_model(**inputs).last_hidden_state
            with torch.autocast(hidden_BTD.device.type, enabled=False):
                hidden_BTD = hidden_BTD.float()
                if self.lstm is not None:
                    hidden_BTD, _ = both_ways(self.lstm, hidden_BTD, inputs.get("attention_mask"))
                return transformers.modeling_outputs.TokenClassifierOutput(
                    logits=self.classifier(self.dropout(hidden_BTD))
                )

    return named_for_family(ForTagSequences)


SequenceTaggers = FamilyClasses(_tagger_class_for)


class ConditionalRandomField(nn.Module):
    """A linear-chain conditional random field over the tags of a sentence's words (Lafferty et al., 2001).

        score(y) = starts[y_1] + sum_w emissions[w, y_w] + sum_(w > 1) transitions[y_(w-1), y_w] + ends[y_W]
        log p(y) = score(y) - log of the sum of exp(score) over all sequences of tags

    All weights start at 0; there the probability of a sequence is the product of each word's softmax. Everything is
    float32, and sums of exponentials are taken in log space.

    The parameters transitions[from, to], (C, C), starts and ends, (C,), times `rate` are the weights. Adam moves every
    parameter by about its rate in a step, however large the gradient. At an encoder's rates (3e-5) these few weights,
    which are to become log odds of some units, would stay near 0. A `rate` above 1 multiplies the rate for them alone.
    """

    def __init__(self, tags: int, *, rate: float = 1.0) -> None:
        super().__init__()
        self.rate = rate
        self.transitions = nn.Parameter(torch.zeros(tags, tags))
        self.starts = nn.Parameter(torch.zeros(tags))
        self.ends = nn.Parameter(torch.zeros(tags))

    def weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return transitions, starts and ends as they score.

        The parameters get the gradient of these weights, not `rate` times as much, which would outweigh all others
        where gradients are clipped to one norm.
        """
        parameters = (self.transitions, self.starts, self.ends)
        scaled = (
            parameter if self.rate == 1 else parameter + (self.rate - 1) * parameter.detach()
            for parameter in parameters
        )
        transitions, starts, ends = scaled
        return transitions, starts, ends

    def log_likelihood(self, emissions_BWC: Tensor, tags_BW: Tensor, lengths_B: Tensor, edges_B2: Tensor) -> Tensor:
        """Return (B,), log p(tags); 0 where there are no words.

        tags_BW   any tag in the padding
        edges_B2  whether the sentence begins with the first word, and ends with the last; where it does not, as in a
                  part of a long sentence, nothing is known of the tag beyond, and no start or end scores
        """
        there_BW = torch.arange(tags_BW.shape[1], device=tags_BW.device) < lengths_B[:, None]
        transitions, starts, ends = self.weights()
        starts_BC, ends_BC = edges_B2[:, :1] * starts, edges_B2[:, 1:] * ends
        last_B1 = tags_BW.gather(1, (lengths_B - 1).clamp(min=0)[:, None])
        steps_BW = emissions_BWC.gather(2, tags_BW[..., None]).squeeze(-1)
        steps_BW = torch.cat([steps_BW[:, :1], steps_BW[:, 1:] + transitions[tags_BW[:, :-1], tags_BW[:, 1:]]], 1)
        ends_B2 = torch.cat([starts_BC.gather(1, tags_BW[:, :1]), ends_BC.gather(1, last_B1)], 1)
        score_B = (steps_BW * there_BW).sum(1) + ends_B2.sum(1)
        # of all sequences up to a word that end in a tag: the log of the sum of their exp(score)
        forward_BC = starts_BC + emissions_BWC[:, 0]
        for word in range(1, tags_BW.shape[1]):
            onward_BC = torch.logsumexp(forward_BC[:, :, None] + transitions, dim=1) + emissions_BWC[:, word]
            forward_BC = torch.where(there_BW[:, word, None], onward_BC, forward_BC)
        every_B = torch.logsumexp(forward_BC + ends_BC, dim=1)
        return torch.where(lengths_B > 0, score_B - every_B, 0.0)

    @torch.no_grad()
    def marginals(self, emissions_BWC: Tensor, lengths_B: Tensor) -> Tensor:
        """Return (B, W, C), the probability of each tag of each word over all sequences of tags (forward-backward);
        any number in the padding.
        """
        transitions, starts, ends = self.weights()
        words = emissions_BWC.shape[1]
        forward, backward = [starts + emissions_BWC[:, 0]], [ends.expand(len(emissions_BWC), -1)]
        for word in range(1, words):
            onward_BC = torch.logsumexp(forward[-1][:, :, None] + transitions, dim=1) + emissions_BWC[:, word]
            forward.append(onward_BC)
        for word in range(words - 1, 0, -1):
            next_BC = emissions_BWC[:, word] + backward[-1]
            before_BC = torch.logsumexp(transitions + next_BC[:, None, :], dim=2)
            backward.append(torch.where((word < lengths_B)[:, None], before_BC, ends))
        return (torch.stack(forward, 1) + torch.stack(backward[::-1], 1)).softmax(-1)

    @torch.no_grad()
    def most_probable(self, emissions_BWC: Tensor, lengths_B: Tensor) -> Tensor:
        """Return (B, W), the most probable tags of whole sentences (Viterbi); the padding repeats the last tag."""
        transitions, starts, ends = self.weights()
        best_BC = starts + emissions_BWC[:, 0]
        itself_C = torch.arange(len(starts), device=best_BC.device)
        came: list[Tensor] = []  # from which tag the best sequence came to each
        for word in range(1, emissions_BWC.shape[1]):
            onward_BC, from_BC = (best_BC[:, :, None] + transitions).max(dim=1)
            there_B1 = (word < lengths_B)[:, None]
            best_BC = torch.where(there_B1, onward_BC + emissions_BWC[:, word], best_BC)
            came.append(torch.where(there_B1, from_BC, itself_C))
        path = [(best_BC + ends).argmax(dim=1, keepdim=True)]
        for from_BC in reversed(came):
            path.append(from_BC.gather(1, path[-1]))
        return torch.cat(path[::-1], dim=1)
