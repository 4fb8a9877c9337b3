from collections import Counter
from math import log, sqrt

import pytest

from acclimate.core.types import Document
from acclimate.text.corpus import write_corpus
from acclimate.text.terms import Term, characteristic, count_words, given_terms

OWN = {"naloxone": 40, "DNA": 9, "dna": 3, "patients": 90, "study": 30, "found": 50, "only": 1}
GENERAL = {"patients": 10, "study": 30, "found": 160, "weather": 70, "Patients": 5}


def test_z_is_that_of_monroe_et_al_with_a_prior_worth_the_smaller_text():
    y, other = Counter(), Counter()
    for counts, folded in ((OWN, y), (GENERAL, other)):
        for word, count in counts.items():
            folded[word.lower()] += count
    n, n_other = sum(y.values()), sum(other.values())
    prior = min(n, n_other)
    expected = {}
    for word in y:
        a = prior * (y[word] + other[word]) / (n + n_other)
        delta = log((y[word] + a) / (n + prior - y[word] - a))
        delta -= log((other[word] + a) / (n_other + prior - other[word] - a))
        expected[word] = delta / sqrt(1 / (y[word] + a) + 1 / (other[word] + a))
    found = characteristic(OWN, GENERAL, most=10)
    assert {term.word.lower(): pytest.approx(term.z) for term in found} == {
        word: z for word, z in expected.items() if z > 0
    }
    assert [term.z for term in found] == sorted((term.z for term in found), reverse=True)
    assert Term("DNA", 12, 0, pytest.approx(expected["dna"])) in found
    assert [term.word for term in characteristic(OWN, GENERAL, most=2)] == [term.word for term in found[:2]]


def test_a_term_that_general_text_lacks_stands_before_one_that_is_common_in_both():
    order = [term.word for term in characteristic({"naloxone": 40, "study": 60}, {"study": 40, "sun": 60}, most=9)]
    assert order == ["naloxone", "study"]


def test_words_begin_with_a_letter_and_are_no_function_words(tmp_path):
    text = "The p53 gene, 53p and 5-HT2A: ab The genes; " + "x" * 61
    corpus = write_corpus([Document("1", text), Document("2", "Gene")], tmp_path / "corpus")
    assert count_words(corpus) == {"p53": 1, "gene": 1, "genes": 1, "Gene": 1, "HT2A": 1}


def test_a_list_of_terms_keeps_its_order_and_counts_what_can_be_counted():
    lines = ["dna\tgene", "", "  myocardial  infarction ", "dna", "naloxone"]
    assert given_terms(lines, OWN, GENERAL) == [
        Term("dna", 12, 0),
        Term("myocardial infarction"),
        Term("naloxone", 40, 0),
    ]
    assert given_terms(["naloxone"], OWN, None) == [Term("naloxone", 40)]


def test_nothing_to_look_up_is_refused():
    with pytest.raises(ValueError, match="the general text holds no word"):
        characteristic(OWN, {}, most=3)
    with pytest.raises(ValueError, match="the list of terms holds none"):
        given_terms(["", "\t"], OWN, None)
