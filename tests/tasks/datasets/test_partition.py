from __future__ import annotations

from collections import Counter

from acclimate.core.types import SPLITS
from acclimate.tasks.datasets.docstrings import hold_out, near_duplicates, split_modules

WORDS = [f"word{number}" for number in range(200)]


def text(first: int, last: int) -> str:
    return " ".join(WORDS[first:last])


def test_splits_come_near_their_shares() -> None:
    sizes = {f"module{number}": 1 + number % 7 for number in range(100)}
    counts: Counter[str] = Counter()
    for module, split in split_modules(sizes).items():
        counts[split] += sizes[module]
    total = sum(sizes.values())
    for split, share in {"train": 0.60, "dev": 0.15, "test": 0.25}.items():
        assert abs(counts[split] / total - share) < 0.02


def test_every_split_gets_a_module_also_beside_a_huge_one() -> None:
    assert set(split_modules({"huge": 1000, "b": 2, "c": 1}).values()) == set(SPLITS)
    assert split_modules({"huge": 1000, "b": 2, "c": 1})["huge"] == "train"


def test_splits_do_not_depend_on_the_order_of_the_modules() -> None:
    sizes = {f"module{number}": 1 + number % 3 for number in range(30)}
    assert split_modules(dict(reversed(sizes.items()))) == split_modules(sizes)


def test_hold_out_takes_a_share_and_keeps_what_it_must() -> None:
    sizes = {f"module{number}": 10 for number in range(100)} | {"large": 400}
    keep = {f"module{number}" for number in range(50)}
    chosen = hold_out(sizes, 0.1, keep=keep)
    assert chosen.isdisjoint(keep | {"large"})
    assert len(chosen) == 14


def test_near_duplicates_share_more_than_half_of_the_shorter_text() -> None:
    references = [text(0, 40), "a short one"]
    candidates = {
        text(0, 40).upper().replace(" ", ",\n"): True,  # the same but for layout
        "A short one!": True,
        "a short": False,
        text(0, 40) + " " + text(100, 180): True,  # contains the reference: all of its 28 runs
        text(0, 25) + " " + text(100, 140): False,  # 13 of the reference's 28 runs
        text(0, 28) + " " + text(100, 140): True,  # 16 of them
        text(20, 35) + " " + text(100, 104): False,  # 3 of the candidate's own 7 runs
        text(20, 37) + " " + text(100, 104): True,  # 5 of its own 9
        text(50, 90): False,
        "": False,
    }
    assert near_duplicates(list(candidates), references) == list(candidates.values())


def test_half_from_each_of_two_references_is_no_copy() -> None:
    assert near_duplicates([text(0, 20) + " " + text(100, 120)], [text(0, 60), text(100, 160)]) == [False]


def test_nothing_to_compare() -> None:
    assert near_duplicates([], ["a"]) == []
    assert near_duplicates(["a"], []) == [False]
