import pytest
from tests.families import FAMILIES

from acclimate.models.encoder import encoder_of, load_classifier, load_masked_language_model
from acclimate.models.parameters import parameters_of


def test_parameters_are_counted_by_part(checkpoint):
    embeddings = 32 * (200 + 64 + 2) + 2 * 32
    block = 4 * (32 * 32 + 32) + 2 * 32 * 64 + 64 + 32 + 4 * 32
    language_model = parameters_of(load_masked_language_model(checkpoint))
    assert language_model.embeddings == embeddings
    assert language_model.body == 2 * block
    assert language_model.head == 32 * 32 + 32 + 2 * 32 + 200  # the decoder is the embeddings; its bias is not
    classifier = parameters_of(load_classifier(checkpoint, ("optimize", "signal", "stats"), seed=1))
    assert classifier.head == 32 * 32 + 32 + 3 * 32 + 3  # pooler and output layer
    assert (classifier.embeddings, classifier.body) == (embeddings, 2 * block)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_parameter_is_counted_once(name):
    model = FAMILIES[name]()
    assert parameters_of(model).total == model.num_parameters()
    assert min(parameters_of(model).embeddings, parameters_of(model).body, parameters_of(model).head) > 0
    assert parameters_of(encoder_of(model)).head == 0
