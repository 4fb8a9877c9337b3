import pytest
import torch
from tests.families import FAMILIES, mpnet

from acclimate.models.dropout import DROPOUT_FIELDS, set_dropout
from acclimate.models.encoder import family
from acclimate.models.heads import SPARSE_HEADS

IDS = torch.arange(5, 29).view(2, 12)


def is_random(model):
    """Whether two passes in training mode differ, that is, whether anything is dropped."""
    model.train()
    torch.manual_seed(0)
    with torch.no_grad():
        return not torch.equal(model(IDS).logits, model(IDS).logits)


def test_the_table_covers_every_family_with_a_sparse_head():
    assert set(DROPOUT_FIELDS) == set(SPARSE_HEADS)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("part", ["attention", "hidden"])
def test_a_part_switches_its_dropout_and_nothing_else_is_left(name, part):
    model = FAMILIES[name]()
    set_dropout(model.config, **{part: 0.5})
    assert is_random(type(model)(model.config))
    model = FAMILIES[name](dropout=0.5)
    assert is_random(model)
    set_dropout(model.config, attention=0.0, hidden=0.0)
    assert not is_random(type(model)(model.config))


@pytest.mark.parametrize("name", FAMILIES)
def test_fields_are_the_ones_the_config_reads(name):
    config = FAMILIES[name]().config
    set_dropout(config, attention=0.25, hidden=0.5, head=0.125)
    for part, expected in (("attention", 0.25), ("hidden", 0.5), ("head", 0.125)):
        assert {getattr(config, field) for field in DROPOUT_FIELDS[config.model_type][part]} == {expected}


def test_an_unknown_family_is_refused_unless_nothing_changes():
    model = mpnet()
    before = model.config.to_dict()
    set_dropout(model.config)
    assert model.config.to_dict() == before
    with pytest.raises(ValueError, match=r"settings of the family 'mpnet'.*bert, camembert"):
        set_dropout(mpnet().config, attention=0.0)


@pytest.mark.parametrize("probability", [-0.1, 1.0])
def test_only_a_probability_is_taken(probability):
    model = FAMILIES["bert"]()
    with pytest.raises(ValueError, match=f"hidden dropout is {probability}"):
        set_dropout(model.config, hidden=probability)
    assert family(model) == "bert"
