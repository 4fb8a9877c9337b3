"""The names that `import acclimate` offers."""

from importlib import import_module

import pytest

import acclimate


@pytest.mark.parametrize("name", acclimate.__all__)
def test_every_public_name_is_there_and_listed(name):
    assert getattr(acclimate, name) is not None
    assert name in dir(acclimate)


@pytest.mark.parametrize("name", ["race", "ship"])
def test_a_function_wins_over_the_folder_of_its_name(name):
    import_module(f"acclimate.{name}.{name}")
    assert getattr(acclimate, name) is getattr(import_module(f"acclimate.{name}.{name}"), name)


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'rase'"):
        acclimate.rase  # noqa: B018
