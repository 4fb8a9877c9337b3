"""Tables, lists of rows and saved datasets as labelled files, without the libraries that they come from."""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from acclimate.data.as_files import _cache_file, labelled_files, raw_text
from acclimate.data.dataset import group_by_split
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.text.documents import class_names

STATED = LabelledFiles(train=Path())
FEATURES = {"text": {"dtype": "string", "_type": "Value"}, "label": {"names": ["neg", "pos"], "_type": "ClassLabel"}}
ROWS = [{"text": f"{'good' if row % 2 else 'bad'} film, take {row}", "label": row % 2} for row in range(60)]
NAMED = [{**row, "label": FEATURES["label"]["names"][row["label"]]} for row in ROWS]


class Frame:
    """A data frame of a library that hands its columns over as Arrow does."""

    def __init__(self, rows):
        self.rows = rows

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.Table.from_pylist(self.rows).__arrow_c_stream__(requested_schema)


class OlderFrame:
    """One with the older interchange form."""

    def __init__(self, rows):
        self.rows = rows

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return pa.Table.from_pylist(self.rows).__dataframe__(nan_as_null, allow_copy)


class Features(dict):
    """As `datasets.Features`: the Arrow schema has the names of classes in its metadata."""

    @property
    def arrow_schema(self):
        about = {"huggingface": json.dumps({"info": {"features": dict(self)}})}
        return pa.schema([("text", pa.string()), ("label", pa.int64())]).with_metadata(about)


class Dataset:
    """As `datasets.Dataset`."""

    features = Features(FEATURES)

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def with_format(self, form):
        assert form == "arrow"
        return self

    def __getitem__(self, part):
        return pa.Table.from_pylist(self.rows[part])


class DatasetDict(dict):
    pass


def save(rows, folder: Path) -> Path:
    """What `Dataset.save_to_disk` writes."""
    folder.mkdir(parents=True)
    made = pa.Table.from_pylist(rows)
    with pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as file, pa.ipc.new_stream(file, made.schema) as to:
        to.write_table(made, max_chunksize=7)
    (folder / "dataset_info.json").write_text(json.dumps({"features": FEATURES}))
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_indices_files": None}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


def save_splits(splits, folder: Path) -> Path:
    for name, rows in splits.items():
        save(rows, folder / name)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": [*splits]}))
    return folder


def parquet_files(folder: Path) -> Path:
    (folder / "data").mkdir(parents=True)
    for split, rows in (("train", ROWS[:40]), ("validation", ROWS[40:])):
        parquet.write_table(pa.Table.from_pylist(rows), folder / "data" / f"{split}-00000-of-00001.parquet")
    return folder


def _file(place: Path) -> Path:
    parquet.write_table(pa.Table.from_pylist(NAMED), place / "mine.parquet")
    return place / "mine.parquet"


HELD = {
    "frame": lambda place: Frame(NAMED),
    "older frame": lambda place: OlderFrame(NAMED),
    "arrow": lambda place: pa.Table.from_pylist(NAMED),
    "categories": lambda place: pa.table(
        {"text": [row["text"] for row in NAMED], "label": pa.array([row["label"] for row in NAMED]).dictionary_encode()}
    ),
    "rows": lambda place: NAMED,
    "columns": lambda place: {name: [row[name] for row in NAMED] for name in ("text", "label")},
    "dataset": lambda place: Dataset(ROWS),
    "saved": lambda place: save(ROWS, place / "saved"),
    "file": _file,
}


@pytest.mark.parametrize("held", HELD)
def test_the_same_rows_are_the_same_task_in_whatever_form(held, tmp_path):
    given = labelled_files(HELD[held](tmp_path), STATED)
    read = read_files(given)
    again = labelled_files(HELD[held](tmp_path / "again" if held == "saved" else tmp_path), STATED)
    assert held == "saved" or again.paths == given.paths  # a file of the cache has the name of its content
    assert [(row.text, row.label) for split in ("train", "dev", "test") for row in read.splits[split]] == [
        (row.text, row.label)
        for split in ("train", "dev", "test")
        for row in read_files(labelled_files(NAMED, STATED)).splits[split]
    ]
    assert "cache" not in read.notes[0]
    assert "acclimate-tests" not in read.notes[0]


PARTS = {"train": ROWS[:30], "validation": ROWS[30:40], "test": ROWS[40:]}
SEVERAL = {
    "DatasetDict": lambda place: DatasetDict({name: Dataset(rows) for name, rows in PARTS.items()}),
    "dict of frames": lambda place: {"train": Frame(ROWS[:30]), "dev": ROWS[30:40], "test": Frame(ROWS[40:])},
    "three": lambda place: (Frame(ROWS[:30]), Frame(ROWS[30:40]), Frame(ROWS[40:])),
    "saved": lambda place: save_splits(PARTS, place / "saved"),
}


@pytest.mark.parametrize("held", SEVERAL)
def test_several_splits_stay_what_they_are(held, tmp_path):
    read = read_files(labelled_files(SEVERAL[held](tmp_path), STATED))
    assert {split: len(rows) for split, rows in read.splits.items()} == {"train": 30, "dev": 10, "test": 20}
    assert read.divided == ()


def test_a_folder_of_parquet_files_has_the_splits_of_their_names_and_one_that_is_not_read_is_noted(tmp_path):
    folder = parquet_files(tmp_path / "films")
    given = labelled_files(folder, STATED)
    assert given.dev is not None
    assert given.test is None
    assert read_files(given).name == "films"
    parquet.write_table(pa.Table.from_pylist(ROWS[:5]), folder / "holdout.parquet")
    read = read_files(labelled_files(folder, STATED))
    assert sum(map(len, read.splits.values())) == 60
    assert "no rows were read from holdout;" in read.notes[0]


def test_a_file_without_a_split_in_its_name_is_train_only_if_no_file_has_one():
    assert group_by_split(["train.parquet", "eval.parquet", "holdout.parquet"]) == {
        "train": ["train.parquet"],
        "eval": ["eval.parquet"],
        "holdout": ["holdout.parquet"],
    }
    assert group_by_split(["imdb-train-00000-of-00001.parquet"]) == {"train": ["imdb-train-00000-of-00001.parquet"]}
    assert [*group_by_split(["train_sft-00000-of-00001.parquet"])] == ["train_sft"]
    assert group_by_split(["a.parquet", "b.parquet"]) == {"train": ["a.parquet", "b.parquet"]}


def test_a_file_of_the_cache_that_another_process_wrote_meanwhile_is_taken():
    def write(path: Path, inner: bool = False) -> None:
        path.write_text("x")
        if not inner:
            written.append(_cache_file("raced", ".txt", lambda path: write(path, True), {}))

    written: list[Path] = []
    assert [_cache_file("raced", ".txt", write, {})] == written
    assert written[0].parent.stat().st_mode & 0o077 == written[0].parent.parent.stat().st_mode & 0o077


def test_dev_and_test_may_be_held_apart_or_named(tmp_path):
    given = labelled_files(Frame(ROWS[:40]), STATED, test=ROWS[40:])
    assert len(read_files(given).splits["test"]) == 20
    given = labelled_files(
        DatasetDict({"train": Dataset(ROWS[:40]), "heldout": Dataset(ROWS[40:])}), STATED, test="heldout"
    )
    assert len(read_files(given).splits["test"]) == 20


def test_lists_of_words_and_tags_are_a_task_of_kind_tokens():
    tags = {"feature": {"names": ["O", "B-X"], "_type": "ClassLabel"}, "_type": "List"}
    assert class_names(tags) == ["O", "B-X"]
    rows = [{"tokens": ["one", f"w{row}"], "ner_tags": [0, row % 2]} for row in range(40)]
    metadata = {"huggingface": json.dumps({"info": {"features": {"ner_tags": tags}}})}
    held = pa.Table.from_pylist(rows).replace_schema_metadata(metadata)
    given = labelled_files(held, LabelledFiles(train=Path(), text="tokens", label="ner_tags"))
    assert given.kind == "tokens"
    assert read_files(given).labels == ("B-X", "O")


@pytest.mark.parametrize(("form", "named"), [(Frame, "the tests Frame"), (list, "the list of 60 rows")])
def test_a_row_is_named_by_what_the_user_holds(form, named):
    rows = [*NAMED[:7], {**NAMED[7], "text": ""}, *NAMED[8:]]
    given = labelled_files(form(rows), LabelledFiles(train=Path(), text="text", label="label"))
    [note] = [note for note in read_files(given).notes if "rejected" in note]
    assert f"{named}, row 8: the text (column 'text') is empty" in note


def test_the_hubs_form_of_squad_is_read_as_questions():
    context = "Ada lived in {}, near a mill."
    rows = [
        {
            "id": str(row), "title": "Ada", "context": context.format(f"Town{row}"), "question": "Where?",
            "answers": {"text": [f"Town{row}"], "answer_start": [13]},
        }
        for row in range(30)
    ]  # fmt: skip
    given = labelled_files(pa.Table.from_pylist(rows), STATED)
    assert given.kind == "span"
    read = read_files(given)
    assert read.kind == "span"
    assert {label for split in read.splits.values() for row in split for label in row.label} >= {"Town0", "Town29"}


def test_questions_without_ids_or_answers_are_kept_apart_and_a_missing_place_is_refused():
    rows = [
        {"context": f"Ada lived in Town{row}.", "question": "Where?", "answers": {"text": ["Ada"], "answer_start": [0]}}
        for row in range(8)
    ]
    given = labelled_files({"train": rows, "dev": rows[:2], "test": [{**rows[2], "answers": None}, *rows[3:6]]}, STATED)
    questions = [json.loads(path.read_text())["data"] for path in given.paths.values()]
    ids = [question["id"] for data in questions for article in data for question in article["paragraphs"][0]["qas"]]
    assert len({*ids}) == len(ids) == 14
    with pytest.raises(ValueError, match=r"'table:1': answers.text has 1 texts, but answers.answer_start has 0"):
        labelled_files({"train": [{**rows[0], "answers": {"text": ["Ada"]}}]}, STATED)


def test_of_a_folder_with_several_splits_the_training_texts_are_raw_text(tmp_path):
    for folder, rows in ((parquet_files(tmp_path / "films"), 40), (save_splits(PARTS, tmp_path / "saved"), 30)):
        assert parquet.read_table(raw_text(folder)).num_rows == rows
    (tmp_path / "films" / "more.txt").write_text("a text\n")
    assert raw_text(tmp_path / "films") == tmp_path / "films"


def test_numbers_of_classes_may_be_whole_floats_and_have_to_have_names():
    def held(*labels: float) -> pa.Table:
        table = pa.table({"text": [f"text {n}" for n in range(len(labels))], "label": [*labels]})
        return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": FEATURES}})})

    given = labelled_files(held(0.0, 1.0, -1.0), STATED)
    assert parquet.read_table(given.train)["label"].to_pylist() == ["neg", "pos", None]
    with pytest.raises(ValueError, match=r"2 is not a class number: there are 2"):
        labelled_files(held(0, 1, 2), STATED)
    splits = {"train": held(0, 1), "heldout": held(-1, -1)}
    with pytest.raises(ValueError, match=r"the labels of heldout are withheld"):
        labelled_files(splits, STATED, test="heldout")


def test_of_a_data_frame_a_column_of_several_types_is_refused_only_if_it_is_read():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([{**row, "more": [1, "one", {}][number % 3]} for number, row in enumerate(NAMED)])
    assert len(read_files(labelled_files(frame, STATED)).splits["train"]) > 30
    with pytest.raises(ValueError, match="column 'more' has mixed types"):
        labelled_files(frame, LabelledFiles(train=Path(), text="more"))
    assert raw_text(frame["text"]).read_text().count("\n") == 60
    with pytest.raises(ValueError, match="the pandas Series: contains no rows"):
        labelled_files(frame["text"], STATED)


def test_raw_text_comes_from_tables_lists_and_generators(tmp_path):
    for held, rows in ((Frame(ROWS), 60), (pa.table({"body": ["x", "y"]}), 2)):
        table = parquet.read_table(raw_text(held))
        assert (table.column_names, table.num_rows) == (["text"], rows)
    for held in (["one text", "another"], (text for text in ("one text", "another")), [{"text": "one text"}]):
        assert raw_text(held).read_text().startswith('{"text": "one text"}\n')
    assert raw_text(tmp_path) == tmp_path
    with pytest.raises(ValueError, match=r"no column 'text'"):
        raw_text(pa.table({"a": ["x"], "b": ["y"]}))


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (5, "the int: contains no rows that acclimate can read. Give a file, a dataset of the hub"),
        ([], "the list of rows is empty"),
        ([1, 2], "the list: contains no rows"),
        ({"text": ["a"], "label": []}, "the columns have different lengths: 'text' has 1, 'label' has 0"),
        (Frame([{"txt": "a", "label": "b"}]), "no column 'text'; the nearest is 'txt'"),
        ([{"text": object(), "label": "b"}], "row 1 of the list has <object object"),
        (DatasetDict({"a": Dataset(ROWS), "b": Dataset(ROWS)}), "has no split 'train'; its splits are a, b"),
    ],
)
def test_what_holds_no_rows_is_refused_with_the_way_out(held, said):
    with pytest.raises(ValueError, match=said):
        labelled_files(held, STATED)


def test_no_library_is_imported_to_recognise_what_a_user_holds():
    before = {name for name in sys.modules if name.partition(".")[0] in ("pandas", "polars", "datasets")}
    labelled_files(Frame(ROWS), STATED)
    assert {name for name in sys.modules if name.partition(".")[0] in ("pandas", "polars", "datasets")} == before
