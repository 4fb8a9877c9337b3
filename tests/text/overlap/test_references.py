"""Every match against a naive search in plain Python, on random texts and on real ones."""

import os
import random
import resource
import subprocess
import sys
import unicodedata

import pytest

from acclimate.text.overlap import references as overlap
from acclimate.text.overlap.groups import duplicate_groups, duplicate_pairs, repeats
from acclimate.text.overlap.references import Match, References, text_hashes
from acclimate.text.overlap.words import GRAM, compared_words, with_signs

ALPHABET = "abcde AB_9.,\n\t'éÉßΣσςİıÅ日本語、ǅ٣²½Ⅷ🙂\u0301\u00a0\u2003\x00\ud800ﬁẞ"


def parts(text: str) -> tuple[list[str], set[tuple[str, ...]], set[str]]:
    """Words, runs of words, runs of characters."""
    text = with_signs(text).lower().replace("i\u0307", "i")
    text = unicodedata.normalize("NFC", text) if "\u0301" in text else text
    in_words = (c if c.isalnum() or c == "_" or unicodedata.category(c)[0] == "M" else " " for c in text)
    words = "".join(in_words).split()
    return (words, {tuple(words[at : at + GRAM]) for at in range(len(words) - GRAM + 1)}, pieces(" ".join(words)))


def pieces(text: str) -> set[str]:
    return {text[place : place + 5] for place in range(len(text) - 4)}


def jaccard(one: str, other: str) -> float:
    either = pieces(one) | pieces(other)
    return len(pieces(one) & pieces(other)) / len(either) if either else 0.0


def naive(references, scanned, near=0.8):
    """(kind, id, reference, similarity) of all matches, with sets of words and characters."""
    found = []
    theirs = [(other, *parts(reference)) for other, reference in references]
    for name, text in scanned:
        words, runs, characters = parts(text)
        for other, other_words, other_runs, other_characters in theirs:
            either = len(characters | other_characters)
            similarity = len(characters & other_characters) / either if either else 0.0
            if words and words == other_words:
                found.append(("exact", name, other, 1.0))
            elif near and similarity >= near:
                found.append(("near", name, other, similarity))
            elif runs & other_runs:
                found.append(("13-gram", name, other, len(runs & other_runs) / len(other_runs)))
    return sorted(found)


def told(references, scanned, near=0.8, threads=None):
    lists = list(References(references, near=near).scan(scanned, threads=threads))
    assert len(lists) == len(scanned)
    assert all(match.id == name for matches, (name, _) in zip(lists, scanned, strict=True) for match in matches)
    return sorted((match.kind, match.id, match.reference, match.similarity) for each in lists for match in each)


def numbered(texts, prefix):
    return [(f"{prefix}{number}", text) for number, text in enumerate(texts)]


def random_texts(generator: random.Random, count: int) -> list[str]:
    """Texts of few different words, so that they share runs; some are others with a few words changed."""
    words = ["".join(generator.choices(ALPHABET, k=generator.randint(1, 6))) for _ in range(40)]
    texts = [" ".join(generator.choices(words, k=generator.choice([0, 1, 3, 12, 13, 14, 40, 90]))) for _ in range(10)]
    while len(texts) < count:
        old = generator.choice(texts).split(" ")
        for _ in range(generator.randint(0, 3)):
            old[generator.randrange(len(old))] = generator.choice(words)
        cut = generator.randint(0, len(old)) if generator.random() < 0.3 else 0
        texts.append(" ".join(old[cut:] + old[:cut]))
    return texts


@pytest.mark.parametrize("seed", range(3))
def test_matches_are_those_of_a_naive_search_on_random_texts(seed):
    generator = random.Random(seed)
    texts = random_texts(generator, 120)
    generator.shuffle(texts)
    references, scanned = numbered(texts[:60], "r"), numbered(texts[60:], "s")
    expected = naive(references, scanned)
    assert {kind for kind, *_ in expected} == {"exact", "near", "13-gram"}
    assert told(references, scanned) == expected
    assert told(references, scanned, near=0) == naive(references, scanned, near=0)


def test_the_loops_normalise_as_python_does_every_character_and_random_texts():
    generator = random.Random(0)
    points = "".join(map(chr, range(sys.maxunicode + 1)))
    texts = [f" {points[first : first + 64]}a" for first in range(0, len(points), 64)]
    texts += [" ".join(points[first : first + 64]) for first in range(0, 0x3000, 64)]
    texts += ["".join(generator.choices(ALPHABET, k=generator.randint(0, 30))) for _ in range(2000)]
    texts = list({compared_words(each): each for each in texts if compared_words(each)}.values())
    # a text is found as exact just where the loops make of it what the reference is made of here, in Python
    references = References([(str(number), compared_words(each)) for number, each in enumerate(texts)], near=0)
    lists = references.scan([(str(number), each) for number, each in enumerate(texts)])
    for each, matches in zip(texts, lists, strict=True):
        assert [match.id for match in matches if match.kind == "exact" and match.reference == match.id], ascii(each)


WORDS = [f"word{number}" for number in range(300)]


def text(first: int, last: int) -> str:
    return " ".join(WORDS[first:last])


def kinds(scanned: str, reference: str, **settings: float) -> list[tuple[str, float]]:
    (matches,) = References([("r", reference)], **settings).scan([("s", scanned)])
    return [(match.kind, round(match.similarity, 3)) for match in matches]


def test_each_kind_with_its_similarity_and_excerpt():
    references = References([("whole", text(0, 40)), ("other", text(100, 140))])
    scanned = [text(0, 40).upper().replace(" ", ",\n"), text(0, 39), f"x {text(110, 125)} y"]
    exact, near, run = (matches[0] for matches in references.scan(numbered(scanned, "s")))
    assert exact == Match("exact", "s0", "whole", 1.0, text(0, 40)[:160])
    assert near == Match("near", "s1", "whole", jaccard(text(0, 40), text(0, 39)), text(0, 39)[:160])
    assert run == Match("13-gram", "s2", "other", 3 / 28, text(110, 123))


@pytest.mark.parametrize(
    ("scanned", "reference", "expected"),
    [
        ("", "", []),
        ("!?", "?!", []),  # no word: signs are compared
        ("see you 😀😁😂🤣", "see you 😁😀😂🤣", []),
        ("3 + 4 = x", "3 - 4 = x", []),
        ("❤\ufe0f👍", "❤ 👍", []),
        ("❤\ufe0f👍", "❤👍", [("exact", 1.0)]),
        ("so good!!!!!!!!!!!! 😀", "so good", [("exact", 1.0)]),
        ("ok", "OK!", [("exact", 1.0)]),
        ("abcd", "abce", []),
        (text(0, 12), f"{text(0, 12)} {text(50, 90)}", []),  # a run of twelve
        (text(0, 13), f"{text(0, 13)} {text(50, 90)}", [("13-gram", round(1 / 41, 3))]),
        ("a_b c", "a b c", []),  # an underscore belongs to its word
        ("一二三四五六七八九十" * 3, "一二三四五六七八九十" * 3 + "。", [("exact", 1.0)]),
        (
            "天地玄黃宇宙洪荒日月盈昃辰宿列張寒來暑往秋收冬藏閏餘成歲律呂調陽",
            "天地玄黃宇宙洪荒日月盈昃辰宿列張寒來暑往秋收冬藏閏餘成歲律呂調",
            [("near", round(27 / 28, 3))],
        ),
        ("ΟΔΟΣ Σ İI", "οδος σ i\u0307i", [("exact", 1.0)]),
        ("\ud800 lone", "lone", [("exact", 1.0)]),
    ],
)
def test_edges(scanned, reference, expected):
    assert kinds(scanned, reference) == expected


def test_no_references_and_no_texts():
    assert list(References([]).scan([("a", text(0, 30)), ("b", "")])) == [[], []]
    assert list(References([("a", text(0, 30))]).scan([])) == []
    assert list(References([("a", "")]).scan([("b", "")])) == [[]]


def test_all_references_with_the_same_words_are_told_however_many_they_are():
    same = [(f"equal-{number}", text(0, 30)) for number in range(3 * overlap.MOST)]
    (matches,) = References([*same, ("else", text(40, 70))]).scan([("s", text(0, 30))])
    assert [(match.kind, match.reference) for match in matches] == [("exact", name) for name, _ in same]


def test_texts_that_all_share_a_run_are_told_a_part_each_until_all_have_been():
    shared = text(0, 20)
    references = numbered([f"{shared} {text(20 + number % 200, 100 + number)}" for number in range(250)], "r")
    lists = list(References(references).scan(numbered([f"{shared} x", f"y {shared}", f"z {shared}"], "s")))
    assert [len(matches) for matches in lists] == [overlap.MOST] * 3
    assert {match.reference for matches in lists for match in matches} == {name for name, _ in references}


@pytest.mark.parametrize("near", [-0.1, 1.1, float("nan")])
def test_a_similarity_beyond_one_is_refused(near):
    with pytest.raises(ValueError, match="is between 0 and 1"):
        References([], near=near)
    with pytest.raises(ValueError, match="is between 0 and 1"):
        duplicate_groups([], near=near)


def test_threads_and_batches_change_nothing(monkeypatch):
    texts = random_texts(random.Random(1), 200)
    references, scanned = References(numbered(texts[::3], "r")), numbered(texts, "s")
    whole = list(references.scan(scanned, threads=1))
    monkeypatch.setattr(overlap, "_BATCH", 300)
    assert list(references.scan(scanned, threads=1)) == whole
    assert list(references.scan(scanned, threads=5)) == whole


def test_more_hits_than_there_was_room_for():
    long = " ".join(WORDS * 40)  # 12,000 runs
    assert kinds(long + " x", long, near=0) == [("13-gram", 1.0)]


@pytest.mark.parametrize("amount", ["many"], indirect=True)
def test_texts_are_read_as_they_are_needed_and_not_kept():
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield f"t{read}", text(0, 12) * 100

    found = References([("r", text(50, 90))]).scan(endless(), threads=2)
    for _ in range(1000):
        assert next(found) == []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(9_000):  # 80 MB
        assert next(found) == []
    found.close()
    assert read < 11_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60e6 / 1024


def test_an_error_of_the_reader_comes_through():
    def broken():
        yield "a", "text"
        raise ValueError("line 2")

    with pytest.raises(ValueError, match="line 2"):
        list(References([("r", "text")]).scan(broken()))


def similar(generator: random.Random, words: int) -> tuple[str, str]:
    """Two texts with a similarity from .8 to .9."""
    vocabulary = ["".join(generator.choices("abcdefghijklmnop", k=generator.randint(2, 9))) for _ in range(400)]
    one = generator.choices(vocabulary, k=words)
    other = list(one)
    while jaccard(" ".join(one), " ".join(other)) > 0.9:
        changed = list(other)
        changed[generator.randrange(words)] = generator.choice(vocabulary)
        if jaccard(" ".join(one), " ".join(changed)) < 0.8:
            break
        other = changed
    return " ".join(one), " ".join(other)


def test_near_duplicates_of_all_lengths_are_found():
    generator = random.Random(0)
    pairs = [similar(generator, words) for words in (6, 8, 12, 25, 60, 150) for _ in range(50)]
    pairs = [(one, other) for one, other in pairs if one != other and jaccard(one, other) >= 0.8]
    assert len(pairs) > 175
    references = References(numbered([one for one, _ in pairs], "r"))
    lists = references.scan(numbered([other for _, other in pairs], "s"))
    found = [any(match.reference == f"r{number}" for match in each) for number, each in enumerate(lists)]
    assert sum(found) >= 0.995 * len(pairs)


@pytest.mark.parametrize("near", [0.5, 0.65, 0.95, 1.0])
def test_other_similarities(near):
    generator = random.Random(2)
    texts = random_texts(generator, 100)
    expected = naive(numbered(texts[::2], "r"), numbered(texts[1::2], "s"), near)
    found = told(numbered(texts[::2], "r"), numbered(texts[1::2], "s"), near)
    assert len(set(found) ^ set(expected)) <= 0.01 * len(expected)


def naive_groups(texts: list[str], near: float) -> list[int]:
    words = [compared_words(each) for each in texts]
    sets = [pieces(compared_words(each)) for each in texts]
    groups = list(range(len(texts)))
    for one in range(len(texts)):
        for other in range(one):
            either = len(sets[one] | sets[other])
            alike = near and either and len(sets[one] & sets[other]) / either >= near
            if groups[one] != groups[other] and (alike or words[one] == words[other]):
                groups = [groups[other] if group == groups[one] else group for group in groups]
    numbers: dict[int, int] = {}
    return [numbers.setdefault(group, len(numbers)) for group in groups]


@pytest.mark.parametrize("near", [0, 0.8])
@pytest.mark.parametrize("seed", range(2))
def test_groups_are_those_of_a_naive_search(seed, near):
    texts = random_texts(random.Random(seed), 120)
    assert duplicate_groups(texts, near=near) == naive_groups(texts, near)


def test_groups_reach_from_text_to_text():
    chain = [text(first, first + 60) for first in range(0, 30, 3)]
    assert jaccard(chain[0], chain[-1]) < 0.8
    assert duplicate_groups([*chain, "!", " ! ", "?", ""]) == [0] * 10 + [1, 1, 2, 3]
    assert duplicate_groups([]) == []


def test_pairs_are_the_same_where_both_texts_are_in_either_order():
    one, other, third = text(0, 30), text(40, 70), text(80, 110)
    pairs = [(one, other), (one, third), (other, one.upper()), (one, None), (one, ""), (third, other), (one, other)]
    assert duplicate_pairs(pairs) == [0, 1, 0, 2, 2, 3, 0]
    assert duplicate_pairs([(one, None), (other, None), (one, None)]) == [0, 1, 0]


@pytest.mark.parametrize("amount", ["many"], indirect=True)
def test_many_copies_of_a_text_are_one_group():
    texts = [f"{text(0, 60)} {number}" for number in range(3000)]  # more pairs than are looked at in a go
    assert duplicate_groups(texts) == [0] * 3000


def test_it_works_where_nothing_can_be_kept_on_disk():
    """No place for compiled code at all, as under a read-only home."""
    program = """if True:
        import numpy as np
        from acclimate.text.overlap.search import fill_table
        keys, numbers = np.zeros(4, np.uint64), np.zeros(4, np.int64)
        fill_table(keys, numbers, np.array([6, 2], np.uint64))
        print(keys.tolist(), numbers.tolist())
    """
    environment = os.environ | {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator", "NUMBA_CACHE_DIR": ""}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "[0, 0, 6, 2] [0, 0, 0, 1]\n", done.stderr


def test_importing_the_module_loads_no_numba():
    program = "import acclimate.text.overlap.references, sys; print('numba' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )


@pytest.mark.parametrize("near", [0.0, 0.8])
def test_a_repeat_is_told_by_the_texts_before_it_only(near):
    generator = random.Random(11)
    texts = random_texts(generator, 120)
    told = repeats(texts, near=near).tolist()
    for place, text in enumerate(texts):
        words = compared_words(text)
        before = [compared_words(each) for each in texts[:place]]
        same = words in before
        alike = near > 0 and any(jaccard(words, each) >= near for each in before if words)
        assert told[place] == (same or alike), place
    assert repeats(texts[:60], near=near).tolist() == told[:60]


def test_hashes_are_equal_where_the_words_are():
    first, second, third, none = text_hashes(["A cell, dividing.", "a CELL dividing", "a cell", "..."]).tolist()
    assert first == second != third
    assert none == 0


def test_each_of_very_many_texts_that_share_a_run_is_told_for_some_text(monkeypatch):
    monkeypatch.setattr(overlap, "HOLDERS", 100)
    shared = text(0, 20)
    references = References(
        numbered([f"{shared} {text(20 + number % 200, 100 + number)}" for number in range(250)], "r")
    )
    lists = list(references.scan(numbered([f"{shared} x{number}" for number in range(30)], "s"), most=60))
    assert {match.reference for matches in lists for match in matches} == {f"r{number}" for number in range(250)}
    assert not any(matches.complete for matches in lists)
    [few] = References([("r", shared)]).scan([("s", f"{shared} x")])
    assert few.complete


def test_candidates_that_are_not_alike_hide_no_near_duplicate():
    """Two hundred texts share five sixths of their words with the scanned one: a similarity of some .7."""
    others = [f"{text(0, 50)} {text(60 + number, 70 + number)}" for number in range(200)]
    alike = f"{text(0, 50)} {text(280, 290)}"
    references = References(numbered([*others[:100], f"{alike} end", *others[100:]], "r"))
    [matches] = references.scan([("s", alike)], most=5)
    assert (matches[0].kind, matches[0].reference) == ("near", "r100")
