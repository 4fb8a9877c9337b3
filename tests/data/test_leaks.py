"""Leaks that are put in are found, each as what it is, and nothing else is; partners are counted by kind."""

import json
import time
from dataclasses import replace

import pytest

from acclimate.core.types import Example
from acclimate.data.doctor import check_copies, examine, note_removal, removed
from acclimate.data.examination import Examination
from acclimate.data.leaks import Sealed, SourceLeaks, copies, find_partners, findings_on_partners, found_in_rows
from made_up_tasks import WORDS, examples, labelled, one_word_changed, text


def splits(train=(), dev=(), test=()):
    return {
        "train": [*examples("train", 60), *train],
        "dev": [*examples("dev", 20), *dev],
        "test": [*examples("test", 20), *test],
    }


def leaks_of(source, rows, sealed):
    return {(leak.within, leak.kind): leak for leak in found_in_rows(source, rows, sealed).leaks()}


def test_exact_near_and_contained_test_texts_are_found_in_train():
    test = examples("test", 20)
    planted = [
        Example("planted-0", f"  {test[3].text.upper()} ! ", test[3].label),
        Example("planted-1", one_word_changed(test[4].text), "other"),
        Example("planted-2", f"{text('before', 300)} {test[5].text} {text('after', 300)}", test[5].label),
    ]
    parts = splits(train=planted)
    overlap = found_in_rows("train", parts["train"], Sealed(parts))
    assert [(leak.kind, leak.scanned, leak.references, leak.same_label) for leak in overlap.leaks()] == [
        ("exact", 1, 1, 1),
        ("near", 1, 1, 0),
        ("13-gram", 1, 1, 1),
    ]
    assert all(leak.share == 1 / 20 for leak in overlap.leaks())
    assert overlap.leaked_ids("test") == {"test-3", "test-4", "test-5"}
    assert overlap.leaking == {"test": {"planted-0", "planted-1", "planted-2"}}


def test_examples_show_both_texts_where_they_agree_and_differ():
    item, other = examples("test", 2)
    parts = splits(
        train=[
            Example("near", one_word_changed(item.text, 35), "base"),
            Example("longer", f"{text('before', 90)} {other.text}", "base"),
        ]
    )
    [near, longer] = [leak.examples[0] for leak in found_in_rows("train", parts["train"], Sealed(parts)).leaks()]
    assert "exchanged" in near.found_text
    assert item.text.split()[35] in near.within_text
    assert (near.within_id, near.found_label) == ("test-0", "base")
    assert " ".join(other.text.split()[:5]) in longer.found_text
    assert longer.found_text.startswith(text("before", 90)[:20])
    assert max(map(len, (near.found_text, near.within_text, longer.found_text, longer.within_text))) <= 200


def test_a_shared_passage_is_told_but_is_no_leak():
    item = examples("test", 1, words=80)[0]
    passage = " ".join(item.text.split()[:15])
    parts = splits(train=[Example("quotes", f"{passage} {text('own', 60)}", "acid")])
    parts["test"] = [item]
    overlap = found_in_rows("train", parts["train"], Sealed(parts))
    assert [(leak.kind, leak.references, leak.same_label) for leak in overlap.leaks()] == [("passage", 1, None)]
    assert overlap.leaked("test") == set()
    assert overlap.leaking == {}


def test_dev_is_looked_for_in_train_and_test_in_dev_but_no_split_in_itself():
    dev, test = examples("dev", 20), examples("test", 20)
    parts = splits(train=[replace(dev[2], id="copy")], dev=[replace(test[1], id="copied", label="base")])
    sealed = Sealed(parts)
    assert {key: leak.references for key, leak in leaks_of("train", parts["train"], sealed).items()} == {
        ("dev", "exact"): 1
    }
    in_dev = leaks_of("dev", parts["dev"], sealed)
    assert in_dev.keys() == {("test", "exact")}
    assert in_dev["test", "exact"].same_label == 1


@pytest.mark.parametrize(
    ("train", "counts"),
    [
        ([replace(examples("test", 20)[7], id=f"copy-{label}", label=label) for label in "xyz"], (3, 1, 0, 1)),
        ([replace(row, id=f"copy-{row.id}") for row in examples("test", 20)], (20, 20, 20, 5)),
    ],
)
def test_several_rows_with_one_item_count_as_one_item_and_at_most_five_examples_are_kept(train, counts):
    parts = splits(train=train)
    [leak] = found_in_rows("train", parts["train"], Sealed(parts)).leaks()
    assert (leak.scanned, leak.references, leak.same_label, len(leak.examples)) == counts
    assert leak.share == leak.references / 20


def test_a_pair_leaks_into_train_as_a_whole_and_into_a_corpus_by_either_text():
    premise, other = text("premise"), text("other")
    parts = splits(
        train=[
            Example("same first", premise, "acid", pair=text("another")),
            Example("same pair", premise, "acid", pair=other),
        ]
    )
    parts["test"] = [Example("item", premise, "acid", pair=other)]
    sealed = Sealed(parts)
    overlap = found_in_rows("train", parts["train"], sealed)
    assert overlap.leaking == {"test": {"same pair"}}
    corpus = SourceLeaks("domain", sealed)
    for name, document, matches in sealed.match_documents(
        [("a", text("a")), ("b", other), ("c", f"{premise} {text('c', 400)}")]
    ):
        corpus.take(name, document, matches)
    assert corpus.leaking == {"test": {"b", "c"}}
    assert {leak.same_label for leak in corpus.leaks()} == {None}


def pair(name, first, second, label="acid"):
    return Example(name, first, label, pair=second)


def test_rows_that_share_one_text_of_a_pair_with_an_item_are_no_leaks():
    passages = [text(f"passage {number}", 300) for number in range(5)]
    questions = [text(f"question {number}", 9) for number in range(100)]
    rows = [pair(f"row-{number}", passages[number % 5], question) for number, question in enumerate(questions)]
    parts = {"train": rows[:60], "dev": rows[60:80], "test": rows[80:]}
    sealed = Sealed(parts)
    assert leaks_of("train", parts["train"], sealed) == leaks_of("dev", parts["dev"], sealed) == {}
    assert copies("train", parts["train"]) is None


def test_a_pair_that_comes_again_leaks_in_its_order_and_nearly():
    item = pair("item", text("passage", 60), text("question", 30))
    train = [
        pair("same", item.text.upper(), f"{item.pair}?"),
        pair("turned", item.pair, item.text),
        pair("near", one_word_changed(item.text), one_word_changed(item.pair)),
        pair("twice the passage", item.text, item.text),
        pair("the passage within", f"{text('before', 90)} {item.text}", item.pair),
        pair("some of it", f"{' '.join(item.text.split()[:14])} {text('own', 40)}", item.pair),
        Example("no pair", f"{item.text} {item.pair}", "acid"),
    ]
    overlap = found_in_rows("train", train, Sealed({"dev": [], "test": [item, replace(item, id="again")]}))
    assert overlap.leaking == {"test": {"same", "near", "the passage within"}}
    assert {(leak.kind, leak.scanned, leak.references) for leak in overlap.leaks()} == {
        ("exact", 1, 2),
        ("near", 1, 0),  # both items count once, under the strongest kind
        ("13-gram", 1, 0),
    }


def test_a_question_that_is_like_hundreds_of_others_hides_no_pair():
    question = "does the passage above say anything at all about what was measured in the series of trials number {}"
    items = [pair(f"item-{number}", text(f"passage {number}"), question.format(number)) for number in range(300)]
    train = [replace(item, id=f"of {item.id}", pair=items[number - 1].pair) for number, item in enumerate(items)]
    overlap = found_in_rows("train", train, Sealed({"dev": [], "test": items}))
    assert overlap.leaked_ids("test") == {item.id for item in items}


def test_rows_made_from_a_template_find_nearly_all_texts_like_them_and_a_warning_says_nearly():
    sentence = text("a template of some thirty words", 30)
    rows = [Example(f"row {number}", f"{sentence} {number:05}", "ab"[number % 2]) for number in range(600)]
    task = labelled(rows[:400], examples("dev", 20), rows[400:])
    examination = examine(task)
    assert len(examination.leaked["train"]) == 400
    [leak] = [leak for leak in examination.leaks if (leak.within, leak.kind) == ("test", "near")]
    assert leak.references >= 195
    assert leak.same_label >= 190
    [finding] = [finding for finding in examination.findings if "made from templates" in finding.what]
    assert (finding.level, "--group" in finding.way_out) == ("warning", True)
    few = labelled([*rows[:10], *examples("train", 60)], examples("dev", 20), rows[400:410])
    footer = text("a footer that all texts have", 14)
    same = [Example(f"test {number}", "yes", "ab"[number % 2]) for number in range(40)]
    ended = [replace(row, text=f"{row.text} {footer}") for row in examples("test", 60)]
    shared = labelled(
        [*examples("train", 60), Example("yes", f"yes {footer}", "a"), same[0]], examples("dev", 20), [*same, *ended]
    )
    for complete in (few, shared):
        assert not any("made from templates" in finding.what for finding in examine(complete).findings)


def test_dev_rows_from_a_template_find_the_test_texts_and_not_only_one_another():
    sentence = text("a template of some thirty words", 30)
    rows = [Example(f"row {number}", f"{sentence} {number:05}", "ab"[number % 2]) for number in range(400)]
    task = labelled(examples("train", 60), rows[:380], rows[380:])
    assert len(examine(task).leaked["dev"]) == 380


def test_texts_without_words_leak_into_others_without_and_of_a_pair_with_both():
    item = pair("item", text("passage"), "?!")
    train = [pair("same", item.text, "?!"), pair("another", item.text, "?"), pair("other", text("other"), "?!")]
    overlap = found_in_rows("train", train, Sealed({"dev": [], "test": [item]}))
    assert overlap.leaking == {"test": {"same"}}
    train = [Example("same", " ?!", "acid"), Example("emoji", "😀😁", "acid"), Example("words", text("words"), "acid")]
    test = [Example("item", "?!", "acid"), Example("again", "?!", "base"), Example("not", "😁😀", "acid")]
    overlap = found_in_rows("train", train, Sealed({"dev": [], "test": test}))
    assert overlap.leaking == {"test": {"same"}}
    assert [(leak.kind, leak.references, leak.same_label) for leak in overlap.leaks()] == [("exact", 2, 1)]


def test_copies_of_pairs_are_those_of_both_texts():
    first, second = text("first"), text("second")
    rows = [pair("a", first, second), pair("b", second, first), pair("c", first, text("else")), Example("d", first, "")]
    assert copies("train", rows) is None  # a pair in the other order asks something else
    overlap = copies("train", [*rows, pair("e", first.upper(), second)])
    assert (overlap.texts, overlap.rows) == (1, 1)
    assert {overlap.examples[0].within_id, overlap.examples[0].found_id} == {"a", "e"}


def test_labels_of_test_items_are_counted_and_never_kept():
    dev, test = examples("dev", 20, ("open",)), examples("test", 20, ("sealed",))
    train = [replace(dev[0], id="of dev"), replace(test[0], id="of test", label="seen"), replace(test[1], id="right")]
    parts = splits(train=train)
    parts |= {"dev": dev, "test": [*test, replace(test[2], id="copy", label="secret")]}
    overlap = found_in_rows("train", parts["train"], Sealed(parts)).leaks()
    shown = {(leak.within, each.found_label, each.within_label) for leak in overlap for each in leak.examples}
    assert shown == {("dev", "open", "open"), ("test", "seen", ""), ("test", "sealed", "")}
    assert [leak.same_label for leak in overlap] == [1, 1]
    twice = copies("test", parts["test"])
    assert twice.conflicting == 1
    assert {(each.found_label, each.within_label) for each in twice.examples} == {("", "")}


def test_every_one_of_many_equal_test_texts_is_told():
    item = examples("test", 1)[0]
    test = [replace(item, id=f"equal-{number}") for number in range(150)]
    parts = splits(train=[replace(item, id="copy")])
    overlap = found_in_rows("train", parts["train"], Sealed(parts | {"test": test}))
    assert overlap.leaked_ids("test") == {row.id for row in test}


def test_copies_within_a_split_and_their_conflicting_labels():
    rows = examples("train", 30)
    rows += [
        replace(rows[0], id="copy", text=rows[0].text.upper()),
        replace(rows[1], id="conflict", label="acid"),
        replace(rows[2], id="edited", text=one_word_changed(rows[2].text)),
    ]
    overlap = copies("train", rows)
    assert (overlap.texts, overlap.rows, overlap.conflicting) == (3, 3, 1)
    first = overlap.examples[0]  # conflicts come first
    assert (first.within_id, first.found_id) == ("train-1", "conflict")
    assert (first.within_label, first.found_label) == ("base", "acid")
    assert overlap.marked == 0
    assert copies("train", rows[:30]) is None


def test_copies_that_mark_different_parts_of_one_text_are_told_from_those_with_a_wrong_label():
    words = text("marked").split()
    marked = [f"{' '.join(words[:n])} [[ {words[n]} ]] {' '.join(words[n + 1 :])}" for n in (2, 4)]
    rows = [Example("a", marked[0], "acid"), Example("b", marked[1], "base")]
    overlap = copies("train", rows)
    assert (overlap.texts, overlap.conflicting, overlap.marked) == (1, 1, 1)
    [finding] = check_copies([overlap])
    assert finding.level == "note"
    assert "all of these with other punctuation" in finding.what
    assert finding.way_out.startswith("Keep the rows if marks show")
    overlap = copies("train", [*rows, Example("c", marked[0].upper(), "base")])
    assert (overlap.conflicting, overlap.marked) == (1, 0)
    [finding] = check_copies([overlap])
    assert (finding.level, finding.way_out) == ("warning", "Keep one row of each, with the correct label.")


@pytest.fixture
def leaking():
    """Labelled rows: two of train and one of dev hold a test text."""
    test = examples("test", 20)
    train = [replace(test[0], id="exact"), replace(test[1], id="near", text=one_word_changed(test[1].text))]
    return labelled(*splits(train=train, dev=[replace(test[2], id="in dev")]).values())


def test_removing_takes_out_what_holds_a_test_text_and_says_so(leaking):
    given = leaking
    kept = removed(given, examine(given))
    assert kept.splits["train"] == given.splits["train"][:60]
    assert kept.splits["dev"] == given.splits["dev"][:20]
    assert kept.splits["test"] == given.splits["test"]
    assert "2 rows of the 62 of train" in kept.notes[0]
    assert "1 row of the 21 of dev" in kept.notes[1]
    assert examine(kept).leaks == ()
    assert removed(kept, examine(kept)) == kept


def test_after_removal_nothing_advises_it_and_what_was_done_is_said(leaking):
    before = examine(leaking)
    after = note_removal(before, removed(leaking, before))
    assert (before.dropped, after.dropped) == (False, True)
    assert "--leaks drop" in before.as_text()
    assert "--leaks drop" not in after.as_text()
    assert "removed" not in before.as_text()
    assert [finding.what for finding in after.findings if "removed" in finding.what] == [
        "2 rows of train contained a test text, exactly or nearly, and were removed.",
        "1 row of dev contained a test text, exactly or nearly, and was removed.",
    ]
    assert len(after.findings) == len(before.findings)
    assert after.leaked == before.leaked
    assert Examination.from_json(json.loads(json.dumps(after.to_json()))) == after


def test_after_removal_the_dev_texts_in_train_are_counted_again():
    """Of three dev texts in train two are gone with the row that holds a test text too."""
    test, dev = examples("test", 20), examples("dev", 20)
    both = [replace(test[n], id=f"both {n}", text=f"{test[n].text} {dev[n].text}") for n in range(2)]
    given = labelled([*examples("train", 60), *both, replace(dev[2], id="dev alone")], dev, test)
    before = examine(given)
    after = note_removal(before, removed(given, before))
    told = [[each.what for each in overlap.findings if "choices on dev" in each.what] for overlap in (before, after)]
    assert [text[0].partition(" (")[0] for text in told] == ["3 of the 20 dev texts", "1 of the 20 dev texts"]


def test_where_the_split_put_near_copies_on_both_sides_the_doctor_names_group():
    test = examples("test", 20)
    copies_in_train = [replace(row, id=f"copy {row.id}") for row in test[:5]]
    given = labelled([*examples("train", 60), *copies_in_train], examples("dev", 20), test)
    assert "--group" not in examine(given).as_text()
    assert "--group" in examine(replace(given, divided=("test",))).as_text()


def test_removing_refuses_to_lose_a_class_or_to_empty_a_split():
    test = [*examples("test", 20), Example("rare test", text("rare"), "salt")]
    given = labelled([*examples("train", 60), replace(test[-1], id="rare train")], examples("dev", 20), test)
    with pytest.raises(ValueError, match="no training example has the label 'salt'"):
        removed(given, examine(given))
    rows = examples("test", 20)
    given = labelled(examples("train", 60), [replace(row, id=f"copy of {row.id}") for row in rows], rows)
    with pytest.raises(ValueError, match="every row of dev contains a test text"):
        removed(given, examine(given))


PREMISE = text("a premise", 12)


def bought(number: int, split: str) -> Example:
    """A row of one template."""
    name = ("Anna Bell", "Tom", "Ole Berg")[number % 3]
    return Example(f"{split} {number}", f"{name} bought {number} pens in the shop, and none of them wrote.", "acid")


def test_each_kind_of_partner_is_counted_once_and_names_its_option():
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


def test_directional_pairs_in_the_other_order_are_neither_leaks_nor_copies():
    pairs = [(text(f"a {number}", 9), text(f"b {number}", 9)) for number in range(40)]
    rows = [Example(f"row {number}", one, "ab"[number % 2], pair=two) for number, (one, two) in enumerate(pairs)]
    turned = [Example(f"turned {number}", two, "ba"[number % 2], pair=one) for number, (one, two) in enumerate(pairs)]
    examination = examine(labelled([*rows, *turned[20:]], examples("dev", 20), turned[:20]))
    assert (examination.leaks, examination.copies) == ((), ())
    [swapped] = examination.partners
    assert (swapped.kind, len(swapped.ids)) == ("swapped", 20)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("The price of copper rose by 3.5% in May.", "The price of copper rose by 12% in April.", True),
        ("Wie viele Züge fahren am 3. Mai nach Bonn?", "Wie viele Züge fahren am 14. Juni nach Ulm?", True),
        ("請把我的鬧鐘設定在7點30分", "請把我的鬧鐘設定在11點5分", True),
        ("сколько стоит билет до Москвы на 5 мая", "сколько стоит билет до Омска на 17 мая", True),
        ("Paris 5", "London 7", False),  # nothing is left
        ("ANNA HAS SEEN 4 SHIPS TODAY", "TOM WILL BUY 9 COATS TOMORROW", False),  # more than half is masked
        ("The Theory of Graphs in 3 and 4", "The Art of Trees in 5 and 6", False),  # function words are left
        ("the first of them was late by 3 days", "the second of them was late by 4 days", False),
    ],
)
def test_texts_that_differ_in_numbers_and_names_only_are_of_one_template_in_several_languages(one, other, alike):
    task = labelled([*examples("train", 20), Example("one", one, "a")], [], [Example("other", other, "b")])
    assert [kind.kind for kind in find_partners(task)] == ["template"] * alike


def test_in_a_cross_validation_each_row_may_be_the_partner_of_each_other():
    rows = [*examples("train", 20), *(bought(number, "row") for number in range(3))]
    [template] = find_partners(labelled(rows, examples("dev", 20), examples("test", 20)), every=True)
    assert len(template.ids) == 3


def test_the_count_takes_time_by_the_number_of_rows():
    def seconds(size: int) -> float:
        rows = [Example(f"{n}", f"{WORDS[n % 20]} of Anna {' '.join(WORDS[:9])} {n}", "a") for n in range(size)]
        task = labelled(rows[: size // 2], [], rows[size // 2 :])
        begin = time.process_time()
        [template] = find_partners(task)
        assert template.groups == 20
        return time.process_time() - begin

    seconds(100)
    assert seconds(2_000) < 12 * seconds(500)
