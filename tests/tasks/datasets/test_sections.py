"""The embedded task `sections`: which section of a docstring a description comes from."""

import pytest

import toys
from acclimate.tasks.datasets import docstrings
from acclimate.tasks.datasets import sections as module
from acclimate.tasks.datasets.docstring_sources import Docstring
from acclimate.tasks.datasets.sections import build_sections, descriptions

TEXT = """Compute the mean of all values along an axis.

A second paragraph that says much more about it.

Parameters
----------
a : array_like
    The values over which the mean is taken.
b : short
    Too short.

Returns
-------
float
    The mean, or NaN where there is no value.

Notes
-----
Sums are taken in pairs to keep the error small.

>>> mean([1, 2, 3]) is what this example shows to all

See Also
--------
median : The middle of the values in their order
"""


def test_a_docstring_gives_one_description_of_each_section():
    found = [*descriptions(Docstring("scipy", "scipy.stats.m", "scipy.stats.m.mean", TEXT))]
    assert [(row.label, row.text) for row in found] == [
        ("summary", "Compute the mean of all values along an axis."),
        ("parameters", "The values over which the mean is taken."),
        ("returns", "The mean, or NaN where there is no value."),
        ("notes", "Sums are taken in pairs to keep the error small."),
    ]
    assert {row.group for row in found} == {"scipy.stats.m"}
    assert found[1].id == "scipy.stats.m.mean/parameters"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        toys.few_docstrings(patch)
        patch.setattr(module, "FEWEST_TEXTS", 10)
        cache = tmp_path_factory.mktemp("cache")
        return build_sections(cache), docstrings.build_docstrings(cache)


def test_modules_stay_on_one_side_and_no_test_text_stands_elsewhere(built):
    sections, first = built
    rows = {split: sections.task.read(sections.path, split) for split in ("train", "dev", "test")}
    for split, found in rows.items():
        assert found
        assert {row.group for row in found} <= {row.group for row in first.task.read(first.path, split)}
    texts = [row.text for found in rows.values() for row in found]
    assert len(set(texts)) == len(texts)
    read = " ".join(" ".join(document.text.split()) for document in sections.domain.documents())
    assert not [row.text for row in rows["test"] if row.text in read]
    assert {row.label for row in rows["test"]} == set(sections.task.labels) >= {"summary", "parameters", "returns"}
    assert len(sections.task_text) == len(rows["train"])
