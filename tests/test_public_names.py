"""The names that `import acclimate` offers."""

from pathlib import Path

import pytest

import acclimate


@pytest.mark.parametrize("name", acclimate.__all__)
def test_every_public_name_is_there_and_listed(name):
    assert getattr(acclimate, name) is not None
    assert name in dir(acclimate)


def test_no_folder_bears_a_public_name():
    """As it imports a folder, Python sets it in place of a function of that name."""
    folders = {folder.name for folder in Path(acclimate.__file__).parent.iterdir() if folder.is_dir()}
    assert not folders & set(acclimate.__all__)


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'rase'"):
        acclimate.rase  # noqa: B018
