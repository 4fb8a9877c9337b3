"""The known name that a misspelt one was meant to be."""

import pytest

from acclimate.core.names import nearest


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NCBI", "NCBI-disease"),  # and not QNLI, which is spelt more alike
        ("pico", "EBM PICO"),
        ("bc5", "BC5-chem"),
        ("qnil", "QNLI"),
        ("BC5-Chem", "BC5-chem"),
        ("", "QNLI"),
    ],
)
def test_a_name_is_taken_for_one_that_begins_with_it_or_holds_it_before_one_that_is_spelt_alike(name, meant):
    assert nearest(name, ["QNLI", "NCBI-disease", "BC5-disease", "BC5-chem", "EBM PICO"]) == meant
    assert nearest(name, []) is None
