"""Test rows with a partner in train are counted by kind, with an example and the option that keeps them together."""

import time

import pytest

from acclimate.core.types import Example
from acclimate.data.doctor import examine
from acclimate.data.leaks import find_partners, findings_on_partners
from made_up_tasks import WORDS, examples, labelled, text

PREMISE = text("a premise", 12)


def bought(number: int, split: str) -> Example:
    """A row of one template."""
    name = ("Anna Bell", "Tom", "Ole Berg")[number % 3]
    return Example(f"{split} {number}", f"{name} bought {number} pens in the shop, and none of them wrote.", "acid")


def test_each_kind_of_partner_is_counted_once_and_names_its_option() -> None:
    train = [
        *examples("train", 60),
        bought(1, "train"),
        bought(2, "train"),
        Example("premise", PREMISE, "acid", pair=text("one", 5)),
        Example("order", text("first", 9), "acid", pair=text("second", 9)),
    ]
    test = [
        *examples("test", 6),
        bought(17, "test"),
        bought(1, "test"),  # a copy of a row of train, which differs from another one
        Example("shared", PREMISE.upper(), "base", pair=text("two", 5)),
        Example("turned", text("second", 9), "base", pair=text("first", 9)),
    ]
    partners = find_partners(labelled(train, examples("dev", 20), test))
    assert {kind.kind: kind.ids for kind in partners} == {
        "swapped": {"turned"},
        "text": {"shared"},
        "template": {"test 17", "test 1"},
    }
    assert {(kind.kind, kind.option, kind.groups) for kind in partners} == {
        ("swapped", "", 1),
        ("text", "text", 1),
        ("template", "template", 1),
    }
    findings = findings_on_partners(partners, ("test",))
    assert [finding.level for finding in findings] == ["warning", "warning", "warning"]
    assert "2 test texts (20.0%) differ from a row of train in numbers and names only (1 group)" in findings[2].what
    assert "'test 17: Ole Berg bought 17 pens" in findings[2].what
    assert findings[2].way_out.startswith("--group template keeps such rows in one split.")
    assert "Give one file with --group text" in findings_on_partners(partners, ())[1].way_out


def test_directional_pairs_in_the_other_order_are_neither_leaks_nor_copies() -> None:
    pairs = [(text(f"a {number}", 9), text(f"b {number}", 9)) for number in range(40)]
    rows = [Example(f"row {number}", one, "ab"[number % 2], pair=two) for number, (one, two) in enumerate(pairs)]
    turned = [Example(f"turned {number}", two, "ba"[number % 2], pair=one) for number, (one, two) in enumerate(pairs)]
    examination = examine(labelled([*rows, *turned[20:]], examples("dev", 20), turned[:20]))
    assert (examination.leaks, examination.copies) == ((), ())
    [swapped] = examination.partners
    assert (swapped.kind, len(swapped.ids)) == ("swapped", 20)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The price of copper rose by 3.5% in May.", "The price of copper rose by 12% in April."),
        ("Wie viele Züge fahren am 3. Mai nach Bonn?", "Wie viele Züge fahren am 14. Juni nach Ulm?"),
        ("請把我的鬧鐘設定在7點30分", "請把我的鬧鐘設定在11點5分"),
        ("сколько стоит билет до Москвы на 5 мая", "сколько стоит билет до Омска на 17 мая"),
    ],
)
def test_rows_of_one_template_are_found_in_several_languages(one: str, other: str) -> None:
    task = labelled([*examples("train", 20), Example("one", one, "a")], [], [Example("other", other, "b")])
    assert [kind.kind for kind in find_partners(task)] == ["template"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Paris 5", "London 7"),  # nothing is left
        ("ANNA HAS SEEN 4 SHIPS TODAY", "TOM WILL BUY 9 COATS TOMORROW"),  # more than half is masked
        ("The Theory of Graphs in 3 and 4", "The Art of Trees in 5 and 6"),  # function words are left
        ("the first of them was late by 3 days", "the second of them was late by 4 days"),
    ],
)
def test_texts_that_differ_in_more_than_numbers_and_names_are_of_different_templates(one: str, other: str) -> None:
    task = labelled([*examples("train", 20), Example("one", one, "a")], [], [Example("other", other, "b")])
    assert find_partners(task) == ()


def test_in_a_cross_validation_each_row_may_be_the_partner_of_each_other() -> None:
    rows = [*examples("train", 20), *(bought(number, "row") for number in range(3))]
    [template] = find_partners(labelled(rows, examples("dev", 20), examples("test", 20)), every=True)
    assert len(template.ids) == 3


def test_the_count_takes_time_by_the_number_of_rows() -> None:
    def seconds(size: int) -> float:
        rows = [Example(f"{n}", f"{WORDS[n % 20]} of Anna {' '.join(WORDS[:9])} {n}", "a") for n in range(size)]
        task = labelled(rows[: size // 2], [], rows[size // 2 :])
        begin = time.process_time()
        [template] = find_partners(task)
        assert template.groups == 20
        return time.process_time() - begin

    seconds(100)
    assert seconds(2_000) < 12 * seconds(500)
