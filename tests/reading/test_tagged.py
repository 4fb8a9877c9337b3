"""Files of words and tags; what is wrong with them is in tests/cli/test_bad_input.py."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from acclimate.core.types import SPLITS, Example
from acclimate.reading.labelled import Labelled, read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.tasks.prepared import prepare
from acclimate.tasks.tags import words_of

BLURB = Path(__file__).parents[3] / "shared" / "data" / "blurb"
Sentence = Sequence[tuple[str, str]]
TWO: list[Sentence] = [
    [("APC2", "B-Gene"), ("is", "O"), ("new", "O"), (".", "O")],
    [("The", "O"), ("tumour", "B-Disease"), ("suppressor", "I-Disease")],
]
WRITTEN = "APC2\tB-Gene\nis\tO\nnew\tO\n.\tO\n\nThe\tO\ntumour\tB-Disease\nsuppressor\tI-Disease\n"


def many(count: int, *, documents: int = 0, start: int = 0) -> str:
    """So many sentences that are unlike each other, a fifth with an entity, as lines."""
    written = []
    for number in range(start, start + count):
        if documents and number % documents == 0:
            written.append(f"-DOCSTART- ({number})\n")
        tag = "B-Gene" if number % 5 == 0 else "O"
        written.append("".join(f"word{number}x{place * number}\tO\n" for place in range(6)) + f"p{number}\t{tag}")
    return "\n\n".join(written) + "\n"


def read(path: Path, **options: object) -> Labelled:
    return read_files(
        LabelledFiles(path, path.with_name("dev.txt"), path.with_name("test.txt"), kind="tokens", **options)
    )  # type: ignore[arg-type]


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    for split in ("dev", "test"):
        (tmp_path / f"{split}.txt").write_text(f"{split}\tB-Gene\nis\tO\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.tsv", WRITTEN),
        ("train.txt", f"\n\n{WRITTEN}\n \t\n\n"),
        ("train.conll", WRITTEN.replace("\t", " ")),
        ("train.bio", WRITTEN.replace("\t", " NN B-NP ").replace("\n", "\r\n")),
        ("train.iob2", f"\ufeff# id 1\n# text = APC2 is new\n{WRITTEN}"),
        ("train.tags", WRITTEN.replace("\t", "\tNN\t")),
        ("train.iob", f"# sent_id = 1\n# text = APC2 is new .\n{WRITTEN}# new document\n".replace("\t", " ")),
        (
            "train.conll",
            f"# id 5239d0\tdomain=en\n{WRITTEN}".replace("\tB", " _ _ B")
            .replace("\tI", " _ _ I")
            .replace("\tO", " _ _ O"),
        ),
    ],
)
def test_lines_of_a_word_and_its_tag_make_sentences(beside, name, content):
    (beside / name).write_bytes(content.encode())
    labelled = read(beside / name)
    assert labelled.splits["train"] == (
        Example("train:1", "APC2 is new .", ("B-Gene", "O", "O", "O")),
        Example("train:2", "The tumour suppressor", ("O", "B-Disease", "I-Disease")),
    )
    assert (labelled.kind, labelled.metric.name) == ("tokens", "entity_f1")
    assert labelled.labels == ("B-Disease", "B-Gene", "I-Disease", "O")
    assert [file.rows for file in labelled.files] == [2, 1, 1]


def test_lists_of_words_and_tags_are_read_from_json_and_parquet(beside):
    words, tags = ([[pair[side] for pair in sentence] for sentence in TWO] for side in (0, 1))
    rows = [
        {"tokens": word, "ner": tag, "doc": number} for number, (word, tag) in enumerate(zip(words, tags, strict=True))
    ]
    table = pa.table({"tokens": words, "ner": tags, "doc": ["0", "1"]})
    pa.parquet.write_table(table, beside / "train.parquet")
    (beside / "train.jsonl.gz").write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    read_both = [
        read_files(
            LabelledFiles(
                beside / name, beside / "dev.txt", beside / "test.txt", "tokens", "ner", group="doc", kind="tokens"
            )
        )
        for name in ("train.parquet", "train.jsonl.gz")
    ]
    for labelled in read_both:
        assert [(row.text, row.label, row.group) for row in labelled.splits["train"]] == [
            ("APC2 is new .", ("B-Gene", "O", "O", "O"), "0"),
            ("The tumour suppressor", ("O", "B-Disease", "I-Disease"), "1"),
        ]


def test_documents_are_no_words_and_stay_on_one_side_of_our_split(tmp_path):
    (tmp_path / "train.tsv").write_text(many(120, documents=3))
    labelled = read_files(LabelledFiles(tmp_path / "train.tsv", kind="tokens"))
    assert "train: 40 documents (-DOCSTART- lines)." in labelled.notes
    homes = {split: {row.group for row in labelled.splits[split]} for split in SPLITS}
    assert all(homes.values())
    assert sum(map(len, homes.values())) == 40 == len(set.union(*homes.values()))
    assert not any("DOCSTART" in row.text for row in labelled.splits["train"])
    assert any("stratified by the rarest tag of each sentence" in note for note in labelled.notes)


def test_a_few_documents_are_no_groups_and_equal_ones_of_two_files_are_two(tmp_path):
    (tmp_path / "train.tsv").write_text(many(60, documents=20))
    labelled = read_files(LabelledFiles(tmp_path / "train.tsv", kind="tokens"))
    assert "train: 3 documents (-DOCSTART- lines), too few to keep each in one split." in labelled.notes
    assert {row.group for row in labelled.splits["train"]} == {""}
    for split in SPLITS:
        (tmp_path / f"{split}.tsv").write_text(many(9, documents=3, start=300 * SPLITS.index(split)))
    labelled = read_files(LabelledFiles(*(tmp_path / f"{split}.tsv" for split in SPLITS), kind="tokens"))
    assert labelled.splits["dev"][0].group == "dev, document 1"


def test_a_split_of_ours_teaches_every_tag_and_depends_on_the_seed_alone(tmp_path):
    (tmp_path / "train.txt").write_text(many(100) + "\nrare\tB-Drug\nname\tI-Drug\n")
    tasks = [read_files(LabelledFiles(tmp_path / "train.txt", kind="tokens", seed=seed)) for seed in (0, 0, 1)]
    assert tasks[0] == tasks[1]
    assert tasks[0].splits != tasks[2].splits
    for labelled in tasks:
        taught = {tag for row in labelled.splits["train"] for tag in row.label}  # type: ignore[union-attr]
        assert taught == set(labelled.labels) == {"B-Drug", "B-Gene", "I-Drug", "O"}
        shares = [sum("B-Gene" in str(row.label) for row in labelled.splits[split]) for split in SPLITS]
        assert shares == [14, 2, 4]
    assert any("'B-Drug', 'I-Drug'" in note for note in tasks[0].notes)


@pytest.mark.parametrize(
    ("tags", "metric", "says"),
    [
        (("B-Gene", "O"), "entity_f1", "were read as BIO; the metric is entity_f1."),
        (
            ("I-Gene", "O"),
            "entity_f1",
            "were read as IO; the metric is entity_f1, in which touching entities of one type",
        ),
        (("S-Gene", "O"), "entity_f1", "were read as IOBES"),
        (("U-Gene", "O"), "entity_f1", "were read as BIOUL"),
        (("NOUN", "VERB"), "word_accuracy", "do not mark entities (B-, I-, O), so words are scored separately"),
        (("1", "0"), "word_accuracy", "are numbers. If they mean B-, I- and O, write those"),
    ],
)
def test_the_metric_goes_by_the_tags(tmp_path, tags, metric, says):
    content = many(60).replace("B-Gene", "\0").replace("\tO", f"\t{tags[1]}").replace("\0", tags[0])
    (tmp_path / "train.txt").write_text(content)
    labelled = read_files(LabelledFiles(tmp_path / "train.txt", kind="tokens"))
    assert labelled.metric.name == metric
    assert any(says in note for note in labelled.notes)
    options = read_files(LabelledFiles(tmp_path / "train.txt", kind="tokens", metric="word_macro_f1"))
    assert options.metric.name == "word_macro_f1"


def test_tags_may_be_folded_word_by_word(beside):
    (beside / "train.txt").write_text(WRITTEN.replace("I-Disease", "I-disease") + "a\tI-Disease\nb\tI-Disease\n")
    labelled = read(beside / "train.txt", fold_labels=True)
    assert labelled.splits["train"][1].label == ("O", "B-Disease", "I-Disease", "I-Disease", "I-Disease")
    assert any("'I-disease' as 'I-Disease'" in note for note in labelled.notes)


def test_a_rejected_sentence_leaves_the_others_and_is_counted(beside):
    (beside / "train.txt").write_text(f"{WRITTEN}\none\n\n{many(9)}")
    labelled = read(beside / "train.txt")
    assert [(rejected.place, rejected.reason) for rejected in labelled.files[0].rejected] == [
        ("train.txt:10", "the word 'one' has no tag; add it, or remove the sentence")
    ]
    assert (labelled.files[0].rows, labelled.files[0].accepted) == (12, 11)
    assert labelled.splits["train"][2].id == "train:4"


def test_what_was_prepared_is_what_was_read(tmp_path):
    (tmp_path / "train.txt").write_text(many(60))
    labelled = read_files(LabelledFiles(tmp_path / "train.txt", kind="tokens"))
    task = prepare(labelled.task(), tmp_path, tmp_path / "data")
    assert task.kind == "tokens"
    assert task.examples("train") == list(labelled.splits["train"])
    assert [words_of(row.text) for row in task.examples("test")] == [
        words_of(row.text) for row in labelled.splits["test"]
    ]
    assert task.unseal("me", cache=tmp_path) == [row.label for row in labelled.splits["test"]]


@pytest.mark.parametrize(
    ("name", "files", "sizes", "labels"),
    [
        ("ncbi_disease", ("train.tsv.gz", "devel.tsv", "test.tsv"), (5424, 923, 940), ("B-Disease", "I-Disease", "O")),
        ("jnlpba", ("train.tsv.gz", "dev.tsv.gz", "test.tsv.gz"), (16807, 1739, 3856), ("B", "I", "O")),
    ],
)
def test_published_files_have_the_published_sizes(name, files, sizes, labels):
    if not (BLURB / name).is_dir():
        pytest.skip("the published files are not here")
    labelled = read_files(LabelledFiles(*(BLURB / name / file for file in files), kind="tokens"))
    assert tuple(len(labelled.splits[split]) for split in SPLITS) == sizes
    assert labelled.labels == labels
    assert not any(file.rejected for file in labelled.files)


def test_joint_tags_are_of_several_entities_and_a_set_that_train_lacks_may_be_tested(tmp_path):
    (tmp_path / "train.txt").write_text("p53\tB-Gene\nlung\tB-Disease\nboth\tB-Disease+B-Gene\nis\tO\n")
    for split in ("dev", "test"):
        (tmp_path / f"{split}.txt").write_text(f"{split}\tB-Gene\nmore\tB-Disease+I-Gene\nis\tO\n")
    (tmp_path / "train.txt").write_text((tmp_path / "train.txt").read_text() + "\nof\tB-Gene\nit\tI-Gene\n")
    labelled = read(tmp_path / "train.txt")
    assert labelled.untaught == ("B-Disease+B-Gene", "B-Disease+I-Gene")
    assert labelled.metric.name == "entity_f1"
    tasks = prepare(labelled.task(), tmp_path, tmp_path / "data")
    assert tasks.score([("B-Disease+B-Gene", "I-Gene")], [("B-Gene", "I-Gene")]) == pytest.approx(2 / 3)


FORMS = {
    "PER-B PER-I LOC-B O": ("B-PER", "I-PER", "B-LOC", "O"),
    "B_PER I_PER B_LOC o": ("B-PER", "I-PER", "B-LOC", "O"),
    "b-PER i-PER b-LOC o": ("B-PER", "I-PER", "B-LOC", "O"),
    "PER PER LOC O": ("I-PER", "I-PER", "I-LOC", "O"),
    "B-PER L-PER U-LOC O": ("B-PER", "L-PER", "U-LOC", "O"),
    "B-PER I-PER B-LOC _": ("B-PER", "I-PER", "B-LOC", "O"),
    "b-PER i-PER b-LOC NULL": ("B-PER", "I-PER", "B-LOC", "O"),
    "Begin-PER Inside-PER Begin-LOC О": ("B-PER", "I-PER", "B-LOC", "O"),
    "人 人 地名 O": ("I-人", "I-人", "I-地名", "O"),
    "I-PER E-PER E-LOC O": ("B-PER", "I-PER", "B-LOC", "O"),
    "(PER* *) (LOC) *": ("B-PER", "I-PER", "B-LOC", "O"),
}
LAYOUTS = {
    "plain.conll": "{word} {tag}",
    "numbered.tsv": "{count}\t{word}\t{tag}",
    "germeval.tsv": "{count}\t{word}\t{tag}\tO",
    "uner.conllu": "{count}\t{word}\t{tag}\t-\tuser",
    "constant.conll": "{word} {tag} _",
    "swapped.conll": "{tag} {word}",
    "offsets.conll": "{tag} {count} 9 {word}",
    "scores.conll": "{word} {word} NN {tag} 0.9{count}",
    "numbers.conll": "{word} {tag} {count}",
    "quoted.tsv": '"{word}"\t"{tag}"',
}


@pytest.mark.parametrize(
    ("tags", "name"), [*((tags, "plain.conll") for tags in FORMS), *(("PER-B PER-I LOC-B O", name) for name in LAYOUTS)]
)
def test_other_tags_and_layouts_are_read_and_said(tmp_path, tags, name):
    sentences = []
    for number in range(40):
        words = zip((f"Ann{number}", f"Lee{number}", "Rome", f"is{number}"), tags.split(), strict=True)
        lines = [LAYOUTS[name].format(count=at, word=word, tag=tag) for at, (word, tag) in enumerate(words, 1)]
        sentences.append("\n".join((["#\thttp://x\t[day]"] if name == "germeval.tsv" else []) + lines))
    (tmp_path / name).write_text("\n\n".join(sentences) + "\n")
    labelled = read_files(LabelledFiles(tmp_path / name, kind="tokens"))
    first = next(row for rows in labelled.splits.values() for row in rows if row.id.endswith(":1"))
    assert (first.text, first.label) == ("Ann0 Lee0 Rome is0", FORMS[tags])
    assert labelled.metric.name == "entity_f1"
    usual = tags in ("B-PER L-PER U-LOC O",)
    assert any(" read as " in note for note in labelled.notes if "The tags" not in note) != (
        usual and name == "plain.conll"
    )


WORDLESS = {
    "{number} {count} {word} {tag}": "--text 3 --label 4",
    "{number}.{count} {word} {tag}": "--text 2 --label 3",
    "{number}-{count}\t0-4\t{word}\t_\t*": "--text 3 --label NUMBER",
    "<s> {word} {tag}": "--text 2 --label 3",
    "bc/cctv_00 0 {count} {word} NN (NP* -": "--text 4 --label NUMBER",
}


def layout(form: str, sentences: int) -> str:
    """So many sentences, a line of this form for each word."""
    return "\n\n".join(
        "\n".join(
            form.format(number=number, count=count, word=f"{word}{number % 7}", tag=tag)
            for count, (word, tag) in enumerate(zip(["Ann", "is", "here"], ("B-PER", "O", "O"), strict=True), 1)
        )
        for number in range(1, sentences + 1)
    )


@pytest.mark.parametrize("form", WORDLESS)
def test_a_first_field_without_words_is_an_error_with_the_fields(tmp_path: Path, form: str) -> None:
    (tmp_path / "train.conll").write_text(layout(form, 40))
    with pytest.raises(ValueError, match=rf"train\.conll: field 1 .* {WORDLESS[form]}\. .* fields 1 '"):
        read_files(LabelledFiles(tmp_path / "train.conll"))


@pytest.mark.parametrize("form", ["{count} {word} {tag}", "{tag} {word}", "{word} {tag} _"])
@pytest.mark.parametrize("of", ["train", "dev"])
def test_each_file_has_its_own_fields(tmp_path: Path, form: str, of: str) -> None:
    for split, sentences in (("train", 40), ("dev", 5)):
        (tmp_path / f"{split}.conll").write_text(layout(form if split == of else "{word} {tag}", sentences))
    labelled = read_files(LabelledFiles(tmp_path / "train.conll", tmp_path / "dev.conll"))
    assert {row.label for rows in labelled.splits.values() for row in rows} == {("B-PER", "O", "O")}
    assert labelled.splits["dev"][0].text == "Ann1 is1 here1"


def test_conllu_has_ranges_and_fields_by_number(tmp_path):
    lines = ["# text = don't go", "1-2\tdon't\t" + "\t".join("_" * 8)]
    for count, (word, upos, xpos) in enumerate((("do", "AUX", "VB"), ("n't", "PART", "RB"), ("go", "VERB", "VB")), 1):
        lines.append("\t".join([str(count), word, word, upos, xpos, *"_____"]))
    lines.insert(-1, "2.1\tempty" + "\t_" * 8)
    written = ["\n".join(lines).replace("\tgo\t", f"\tgo{number}\t") for number in range(40)]
    (tmp_path / "ud.conllu").write_text("\n\n".join(written) + "\n")
    labelled = read_files(LabelledFiles(tmp_path / "ud.conllu"))
    assert labelled.splits["train"][0].text.startswith("do n't go")
    assert labelled.splits["train"][0].label == ("AUX", "PART", "VERB")
    assert any("field 2 is read as the word and field 4 as its tag" in note for note in labelled.notes)
    assert read_files(LabelledFiles(tmp_path / "ud.conllu", label="5")).labels == ("RB", "VB")
    for options, message in (("11", "has 10 fields per line"), ("upos", "column names")):
        with pytest.raises(ValueError, match=message):
            read_files(LabelledFiles(tmp_path / "ud.conllu", label=options, kind="tokens"))


@pytest.mark.parametrize(
    ("tags", "odd"),
    [("B-PER 0 O", "0"), ("B-PER X O", "X"), ("B-PER PER O", "PER"), ("B-PER E-PER U-PER O O", "B-PER")],
)
def test_an_odd_tag_is_an_error_with_its_line(tmp_path, tags, odd):
    usual = "".join(f"a{number} B-PER\nb{number} O\n\n" for number in range(40)) if odd != "B-PER" else ""
    written = "".join(f"w{place} {tag}\n" for place, tag in enumerate(tags.split()))
    (tmp_path / "train.conll").write_text(usual + written)
    line = usual.count("\n") + 1 + tags.split().index(odd)
    with pytest.raises(ValueError, match=rf"train\.conll:{line}: the tag '{odd}' .* --metric word_accuracy"):
        read_files(LabelledFiles(tmp_path / "train.conll"))


@pytest.mark.parametrize("name", ["train.csv", "train.jsonl", "kaggle.csv", "stated.csv", "lists.csv"])
def test_a_word_a_row_and_lists_in_fields_are_sentences(tmp_path, name):
    rows: list[dict[str, str]] = []
    for number in range(40):
        words = {f"Ann{number}": "B-PER", "is": "O", f"here{number}": "O"}
        if name == "lists.csv":
            rows.append({"words": str([*words]), "tags": "['B-PER' 'O' 'O']"})
            continue
        for place, (word, tag) in enumerate(words.items()):
            numbers = f"Sentence: {number}" if not place else "" if name == "kaggle.csv" else f"Sentence: {number}"
            rows.append({"sid" if name != "stated.csv" else "block": numbers, "words": word, "tags": tag})
    if name.endswith(".jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [",".join(f'"{value}"' for value in row.values()) for row in rows]
        (tmp_path / name).write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
    options = LabelledFiles(tmp_path / name, text="words", label="tags", kind="tokens" if "lists" in name else "auto")
    if name == "stated.csv":
        with pytest.raises(ValueError, match=r"--group NAME; the other columns are \['block'\]"):
            read_files(options)
        options = replace(options, group="block")
    labelled = read_files(options)
    first = next(row for rows in labelled.splits.values() for row in rows if row.text.startswith("Ann0 "))
    assert (first.text, first.label, labelled.metric.name) == ("Ann0 is here0", ("B-PER", "O", "O"), "entity_f1")


@pytest.mark.parametrize(
    ("head", "tags", "documents", "says"),
    [
        ("doc,sent,text,label", "NOUN VERB", 2, "rows with the same value of 'sent' and 'doc' are a sentence"),
        ("origin,sent,text,label", "B-PER O", 3, "Each run of rows is a sentence"),
        ("doc,Sentence #,text,label", "0 1", 1, "are numbers. If they mean B-"),
        ("sentiment,sid,text,label", "B_PER O", 1, "rows with the same value of 'sid' are a sentence"),
    ],
)
def test_sentences_of_a_table_go_by_their_column_whatever_the_tags(
    tmp_path: Path, head: str, tags: str, documents: int, says: str
) -> None:
    rows = [
        f"{number // documents},{number % documents if documents > 1 else number},{word}{number},{tag}"
        for number in range(40)
        for word, tag in zip(["Ann", "is"], tags.split(), strict=True)
    ]
    rows[4] = rows[4].replace("Ann", "Ann ")
    (tmp_path / "train.csv").write_text("\n".join([head, *rows]))
    labelled = read_files(LabelledFiles(tmp_path / "train.csv"))
    assert {row.text.count(" ") for rows in labelled.splits.values() for row in rows} == {1}
    assert (labelled.kind, sum(map(len, labelled.splits.values()))) == ("tokens", 39)
    assert "train.csv:6: the word 'Ann 2'" in labelled.notes[0]
    assert any(says in note for note in labelled.notes)
    (tmp_path / "train.csv").write_text("\n".join([head, *sorted(rows, key=lambda row: row[::-1])]))
    with pytest.raises(ValueError, match=r"train\.csv:\d+: a row of the sentence .* --group NAME"):
        read_files(LabelledFiles(tmp_path / "train.csv"))


@pytest.mark.parametrize("name", ["sentiment", "consent", "absent", "sentence_type"])
def test_a_column_that_only_contains_sent_numbers_no_sentences(tmp_path: Path, name: str) -> None:
    rows = [f"yes,word{number},{'B-PER' if number % 3 else 'O'}" for number in range(60)]
    (tmp_path / "train.csv").write_text("\n".join([f"{name},text,label", *rows]))
    with pytest.raises(ValueError, match=rf"--group NAME; the other columns are \['{name}'\]"):
        read_files(LabelledFiles(tmp_path / "train.csv"))
