"""`--group template` and `--group text` keep rows together; so does the column of a text."""

import json
from dataclasses import replace

import pytest

from acclimate.core.types import Example
from acclimate.reading.labelled import LabelledFiles, read_files
from acclimate.reading.splitting import grouped, template_keys
from made_up_tasks import text


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
