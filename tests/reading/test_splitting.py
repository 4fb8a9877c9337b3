import json
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from acclimate.core.types import Example, Label, Split
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reading.splitting import SHARES, divide, fold_rows, grouped, nested_subsets, split_off, template_keys
from acclimate.tasks.task import Kind
from made_up_tasks import text

ALL = SHARES[("dev", "test")]
WORDS = [f"word{number}" for number in range(2000)]


def example(number: int, label: Label, *, group: str = "", seed: int = 0) -> Example:
    """A text of 20 words that is like no other."""
    text = " ".join(random.Random(f"{seed} {number}").choices(WORDS, k=20))
    return Example(str(number), text, label, group=group)


def labelled(sizes: dict[str, int], seed: int = 0) -> list[Example]:
    labels = [label for label, size in sizes.items() for _ in range(size)]
    random.Random(seed).shuffle(labels)
    return [example(number, label, seed=seed) for number, label in enumerate(labels)]


def divided(
    examples: list[Example], kind: Kind = "sequence", seed: int = 0, shares: dict[Split, float] = ALL
) -> dict[Split, list[Example]]:
    return divide(examples, shares, kind=kind, same=range(len(examples)), seed=seed)


def ids(splits: dict[Split, list[Example]]) -> dict[Split, set[str]]:
    return {split: {example.id for example in examples} for split, examples in splits.items()}


@pytest.mark.parametrize("shares", SHARES.values(), ids=["-".join(missing) for missing in SHARES])
def test_each_class_comes_within_one_example_of_its_share(shares):
    for seed in range(40):
        rng = random.Random(seed)
        sizes = {f"class {number}": rng.choice([2, 3, 5, 17, 60, 200]) for number in range(rng.randrange(2, 9))}
        examples = labelled(sizes, seed)
        splits = divided(examples, seed=seed, shares=shares)
        assert sorted(ids(splits)) == sorted(shares)
        assert sum(map(len, splits.values())) == len(examples) == len(set().union(*ids(splits).values()))
        for split, share in shares.items():
            counts = Counter(example.label for example in splits[split])
            for label, size in sizes.items():
                assert abs(counts[label] - share * size) < 1 + 1e-6
                assert split != "train" or counts[label] >= 1
            # what each class is rounded by does not add up
            assert abs(len(splits[split]) - share * len(examples)) <= 2


def test_groups_and_equal_texts_stay_on_one_side():
    for seed in range(30):
        rng = random.Random(seed)
        examples = [
            example(number, rng.choice("abc"), group=rng.choice(["", f"group {rng.randrange(30)}"]), seed=seed)
            for number in range(200)
        ]
        same = [rng.randrange(150) for _ in examples]
        splits = divide(examples, ALL, kind="sequence", same=same, seed=seed)
        side = {example.id: split for split, rows in splits.items() for example in rows}
        assert len(side) == len(examples)
        for key in ([example.group or example.id for example in examples], same):
            sides: dict[object, set[str]] = {}
            for one, row in zip(key, examples, strict=True):
                sides.setdefault(one, set()).add(side[row.id])
            assert all(len(found) == 1 for found in sides.values())
        assert {example.label for example in splits["train"]} == set("abc")


def test_large_groups_still_leave_each_split_about_its_share():
    rng = random.Random(0)
    examples = [example(number, rng.choice("ab"), group=f"group {number // 8}") for number in range(800)]
    splits = divided(examples)
    for split, share in ALL.items():
        for label in "ab":
            size = sum(row.label == label for row in examples)
            assert sum(row.label == label for row in splits[split]) == pytest.approx(share * size, abs=8)


def test_the_same_seed_gives_the_same_split_whatever_the_ids_and_the_order_which_rows_keep():
    examples = labelled({"a": 50, "b": 30, "c": 5})
    texts = {split: {row.text for row in rows} for split, rows in divided(examples).items()}
    mixed = [replace(row, id=f"new {row.id}") for row in random.Random(1).sample(examples, len(examples))]
    again = {split: {row.text for row in rows} for split, rows in divided(mixed).items()}
    assert again == texts
    other = {split: {row.text for row in rows} for split, rows in divided(examples, seed=1).items()}
    assert other != texts
    for rows in divided(labelled({"a": 50, "b": 30})).values():
        assert [int(row.id) for row in rows] == sorted(int(row.id) for row in rows)


def test_of_several_classes_the_rarest_is_divided_and_each_is_taught():
    rng = random.Random(0)
    examples = [example(number, tuple(sorted({"common"} if rng.random() < 0.7 else set()))) for number in range(300)]
    examples += [example(300 + number, ("common", "rare")) for number in range(20)]
    examples += [example(400 + number, (f"pair {number // 2}", "rare")) for number in range(10)]
    splits = divided(examples, "multilabel")
    for split, share in ALL.items():
        rare = sum("rare" in row.label for row in splits[split] if isinstance(row.label, tuple))
        assert rare == pytest.approx(share * 30, abs=3)
    taught = {name for row in splits["train"] if isinstance(row.label, tuple) for name in row.label}
    assert taught == {"common", "rare", *(f"pair {number}" for number in range(5))}


def test_numbers_are_divided_by_tenths():
    rng = random.Random(0)
    examples = [example(number, rng.lognormvariate(0, 2)) for number in range(500)]
    order = sorted(float(row.label) for row in examples if isinstance(row.label, float))
    splits = divided(examples, "score")
    for split, share in ALL.items():
        for tenth in range(10):
            low, high = order[50 * tenth], order[50 * tenth + 49]
            found = sum(low <= row.label <= high for row in splits[split] if isinstance(row.label, float))
            assert found == pytest.approx(share * 50, abs=1)


def test_no_split_is_empty_where_groups_are_few():
    examples = [example(number, "ab"[number % 2], group=f"group {number // 20}") for number in range(60)]
    assert all(len(rows) == 20 for rows in divided(examples).values())
    _, note = split_off(examples, ("dev", "test"), kind="sequence", seed=0, where="a.csv")
    assert "rows (33% / 33% / 33% instead of 70% / 10% / 20%, because sets of rows stay together), strat" in note


def test_near_copies_stay_together_and_are_told():
    examples = labelled({"a": 100, "b": 100})
    copies = [replace(row, id=f"copy {row.id}", text=row.text.upper() + " indeed!") for row in examples[:30]]
    splits, note = split_off([*examples, *copies], ("dev", "test"), kind="sequence", seed=0, where="a.csv")
    side = {row.id: split for split, rows in splits.items() for row in rows}
    assert all(side[row.id] == side[row.id.removeprefix("copy ")] for row in copies)
    assert "60 rows have exactly or nearly the same text as another row and are in the same split" in note


def test_pairs_that_share_one_text_are_free_and_copies_of_both_stay_together():
    passages = [" ".join(f"word{number}x{place}" for place in range(60)) for number in range(4)]
    examples = [
        Example(str(number), passages[number % 4], "ab"[number % 2], pair=f"what of matter {number * 7919} then")
        for number in range(200)
    ]
    examples += [replace(row, id=f"copy {row.id}", text=row.pair or "", pair=row.text) for row in examples[:10]]
    splits, note = split_off(examples, ("dev", "test"), kind="sequence", seed=0, where="a.csv")
    side = {row.id: split for split, rows in splits.items() for row in rows}
    assert all(side[f"copy {number}"] == side[str(number)] for number in range(10))
    assert {row.text for row in splits["test"]} >= set(passages)
    assert "20 rows have" in note


def test_texts_of_one_pattern_are_not_tied_together():
    examples = [
        Example(
            str(number),
            f"would you please play the song number {number} of that very long list for me now",
            "ab"[number % 2],
        )
        for number in range(99)
    ]
    examples += [replace(row, id=f"copy {row.id}") for row in examples[:5]]
    splits, note = split_off(examples, ("dev", "test"), kind="sequence", seed=0, where="a.csv")
    assert {split: len(rows) for split, rows in splits.items()} == {"train": 73, "dev": 10, "test": 21}
    assert "nearly equal." in note
    assert "10 rows have" in note


def test_subsets_are_nested_and_each_class_has_its_share_of_each():
    examples = labelled({"a": 200, "b": 97, "c": 3})
    for seed in range(5):
        subsets = nested_subsets(examples, (38, 75, 150, 300), kind="sequence", seed=seed)
        assert [len(set(subset)) for subset in subsets] == [38, 75, 150, 300]
        assert all(set(small) < set(large) for small, large in pairwise(subsets))
        for subset in subsets:
            counts = Counter(examples[place].label for place in subset)
            for label, size in (("a", 200), ("b", 97), ("c", 3)):
                assert abs(counts[label] - size * len(subset) / 300) <= 1.5
    again = nested_subsets(examples, (38,), kind="sequence", seed=0)
    assert again == nested_subsets(examples, (38,), kind="sequence", seed=0)
    assert again != nested_subsets(examples, (38,), kind="sequence", seed=1)


def test_every_row_is_as_likely_to_be_in_a_subset():
    examples = labelled({"a": 5, "b": 11})
    counts = Counter(
        place for seed in range(800) for place in nested_subsets(examples, (4,), kind="sequence", seed=seed)[0]
    )
    assert all(abs(counts[place] / 800 - 0.25) < 0.07 for place in range(16))


def test_folds_divide_all_rows_with_each_class_in_proportion():
    examples = labelled({"often": 50, "seldom": 13, "rare": 3})
    folds = fold_rows(examples, 5, kind="sequence", same=range(66), seed=1)
    assert sorted(row for fold in folds for row in fold) == list(range(66))
    counts = [Counter(examples[row].label for row in fold) for fold in folds]
    assert {count["often"] for count in counts} == {10}
    assert {count["seldom"] for count in counts} == {2, 3}
    assert {count["rare"] for count in counts} == {0, 1}
    assert max(map(len, folds)) - min(map(len, folds)) == 1
    assert fold_rows(examples, 5, kind="sequence", same=range(66), seed=2) != folds


def test_groups_and_equal_texts_stay_in_one_fold_and_no_fold_is_empty():
    groups = ["large"] * 30 + ["a", "a", "b", "b", "c", "c"]
    examples = [example(number, "yes", group=group) for number, group in enumerate(groups)]
    folds = fold_rows(examples, 4, kind="sequence", same=range(36), seed=0)
    assert sorted(len(fold) for fold in folds) == [2, 2, 2, 30]
    copies = fold_rows(labelled({"yes": 30}), 3, kind="sequence", same=[row // 10 for row in range(30)], seed=0)
    assert sorted(copies) == [[*range(10)], [*range(10, 20)], [*range(20, 30)]]
    with pytest.raises(ValueError, match=r"5 folds, but .* makes only 4 sets"):
        fold_rows(examples, 5, kind="sequence", same=range(36), seed=0)
    with pytest.raises(ValueError, match="40 folds of 36 labelled rows"):
        fold_rows(examples, 40, kind="sequence", same=range(36), seed=0)


def test_numbers_and_names_are_masked_and_words_are_not():
    texts = [
        "Anna Bell bought 3 pens in the shop.",
        "Tom bought 12,5 pens in the shop",
        "The DNA of the 5 laboratory mice",
    ]
    texts += ["then the RNA of the mice", "Then Tom came", "no number or name is in this text"]
    rows = [Example(str(number), text, "a", pair) for number, text in enumerate(texts) for pair in (None, "for 5 days")]
    assert template_keys(rows) == [
        *("# bought # pens in the shop", "# bought # pens in the shop | for # days") * 2,
        *("the # of the # laboratory mice", "the # of the # laboratory mice | for # days"),
        *("then the # of the mice", "then the # of the mice | for # days"),
        *("", ""),
        *("", "no number or name is in this text | for # days"),
    ]


def test_pairs_that_share_texts_are_one_group_also_through_other_rows():
    a, b, c, d = (text(name, 6) for name in "abcd")
    both = ((a, b), (c, b), (d, c))
    rows = [Example(str(number), one, "x", pair=two) for number, (one, two) in enumerate(both)]
    rows += [Example("3", text("alone", 6), "x", "yes"), Example("4", text("other", 6), "x", "yes")]
    assert [row.group for row in grouped(rows, "text")] == ["text 1", "text 1", "text 1", "", ""]
    rows[2:4] = [replace(row, group="document") for row in rows[2:4]]
    assert [row.group for row in grouped(rows, "text")] == ["text 1", "text 1", "text 1", "text 1", ""]


@pytest.fixture
def pairs(tmp_path):
    rows = [
        {"premise": text(f"premise {number // 3}", 8), "claim": text(f"claim {number}", 8), "label": "ab"[number % 2]}
        for number in range(90)
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return LabelledFiles(train=path, text="premise", pair="claim")


@pytest.mark.parametrize("group", ["premise", "text"])
def test_rows_of_one_premise_stay_in_one_split(pairs, group):
    read = read_files(replace(pairs, group=group))
    sides = [{row.text for row in rows} for rows in read.splits.values()]
    assert sum(map(len, sides)) == len(set.union(*sides)) == 30
    assert "Each of the 30 groups is in one split." in read.notes[-1]


def test_a_group_that_would_do_nothing_or_may_mean_two_things_is_refused(pairs):
    for split in ("dev", "test"):
        (pairs.train.parent / f"{split}.jsonl").write_text(pairs.train.read_text())
    files = {split: pairs.train.parent / f"{split}.jsonl" for split in ("dev", "test")}
    with pytest.raises(
        ValueError,
        match="--group template: it keeps rows of one file together, but files for train, dev, test were also given",
    ):
        read_files(replace(pairs, group="template", **files))
    lines = [json.dumps({**json.loads(line), "template": "t"}) for line in pairs.train.read_text().splitlines()]
    pairs.train.write_text("\n".join(lines))
    with pytest.raises(ValueError, match="the file also has a column 'template'"):
        read_files(replace(pairs, group="template"))
