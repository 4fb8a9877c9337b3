"""The names that `import acclimate` offers."""

import pytest

import acclimate


@pytest.mark.parametrize("name", acclimate.__all__)
def test_every_public_name_is_there_and_listed(name):
    assert getattr(acclimate, name) is not None
    assert name in dir(acclimate)


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'rase'"):
        acclimate.rase  # noqa: B018
