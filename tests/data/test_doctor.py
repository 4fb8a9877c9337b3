"""The doctor finds what is wrong with made-up files, says it in order, and says nothing of healthy ones."""

import gzip
import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import BertTokenizer
from typer.testing import CliRunner

from acclimate.cli import app
from acclimate.cli.race import doctor as doctor_verb
from acclimate.core.settings import SEEDS
from acclimate.core.types import Example, Rejected
from acclimate.data import doctor
from acclimate.data.doctor import examine
from acclimate.data.examination import LEVELS, Examination, as_text
from acclimate.data.gather import gather
from acclimate.data.materials import RawText
from acclimate.data.model import open_model
from acclimate.models.encoder import save_model
from acclimate.races.outcome import path_of, read_outcome
from acclimate.races.recipe import RaceRecipe
from acclimate.races.verdict import next_race, spread
from acclimate.reading.labelled import Labelled, read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reading.tables import FileRead
from acclimate.statistics.power import PowerDesign, guessed
from acclimate.tasks.metrics import metric_named
from families import FAMILIES
from made_up_tasks import WORDS, examples, labelled, one_word_changed, text

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def healthy():
    return labelled(examples("train", 100), examples("dev", 20), examples("test", 900))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    letters = "abcdefghijklmnop"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    words += [word for word in WORDS[:60] if word not in words]
    path = tmp_path_factory.mktemp("model") / "bert"
    save_model(FAMILIES["bert"](), BertTokenizer(vocab={word: number for number, word in enumerate(words)}), path)
    return path


def whats(examined, level):
    return [finding.what for finding in examined.findings if finding.level == level]


def test_healthy_files_have_no_findings(healthy):
    examined = examine(healthy)
    assert examined.findings == ()
    assert examined.errors == ()
    assert examined.leaks == ()
    assert examined.copies == ()
    assert examined.leaked == {"test": frozenset(), "train": frozenset(), "dev": frozenset()}
    assert examined.splits == {"train": 100, "dev": 20, "test": 900}
    assert examined.label_counts["test"] == {"acid": 450, "base": 450}
    assert (examined.lengths.unit, examined.lengths.median) == ("words", 40)
    assert "No problems were found in these files." in examined.as_text()


def test_the_same_files_give_the_same_examination(healthy, model):
    assert examine(healthy, model=open_model(str(model))) == examine(healthy, model=open_model(str(model)))


def test_rejected_rows_are_grouped_by_reason_with_their_first_places():
    empty = [Rejected(f"train.csv:{line}", "the text (column 'text') is empty") for line in (3, 8, 9, 14)]
    odd = [Rejected(f"train.csv:{line}", f"{line - 2} fields, but the header has 2") for line in (5, 6)]
    given = labelled(examples("train", 60), examples("dev", 20), examples("test", 20), rejected=[*odd, *empty])
    examined = examine(given)
    facts = examined.files[0]
    assert (facts.rows, facts.accepted, facts.rejected) == (66, 60, 6)
    assert facts.reasons == (
        ("the text (column 'text') is empty", 4, "train.csv:3, train.csv:8, train.csv:9, ..."),
        ("3 fields, but the header has 2", 2, "train.csv:5, train.csv:6"),
    )
    [warning] = [finding for finding in examined.findings if "rows of train.csv" in finding.what]
    assert "6 of the 66 rows of train.csv were not read, mostly because the text (column 'text')" in warning.what
    assert "train.csv:3, train.csv:8" in warning.way_out
    assert "train.csv: 2 rows not read: 3 fields" in examined.as_text(details=True)


def test_leaks_are_findings_and_ids(tmp_path):
    test = examples("test", 40)
    train = [
        *examples("train", 60),
        replace(test[0], id="exact"),
        replace(test[1], id="near", text=one_word_changed(test[1].text), label="acid"),
    ]
    lines = [text("document"), test[0].text, f"{text('a', 200)} {test[2].text}"]
    (tmp_path / "domain.txt").write_text("\n".join(lines) + "\n")
    given = labelled(train, [*examples("dev", 20), replace(train[5], id="in dev")], test)
    examined = examine(given, {"domain": RawText(tmp_path / "domain.txt")})
    assert examined.leaked == {
        "test": {"test-0", "test-1"},
        "train": {"exact", "near"},
        "dev": frozenset(),
        "domain": {"2", "3"},
        "test in domain": {"test-0", "test-2"},
    }
    first, second, _ = whats(examined, "warning")
    assert "also in train, exactly or nearly (2 rows there); 1 of" in first
    assert second.startswith("1 of the 21 dev texts (4.8%) occurs also in train")
    assert any(note.startswith("2 of the 3 documents of the domain corpus") for note in whats(examined, "note"))
    assert Examination.from_json(json.loads(json.dumps(examined.to_json()))) == examined


def test_findings_come_errors_first(tmp_path, model):
    test = examples("test", 40)
    train = [*examples("train", 60), replace(test[0], id="leak"), Example("rare", text("rare"), "salt")]
    given = labelled(train, examples("dev", 20), test, max_tokens=600)
    examined = examine(given, {"domain": RawText(tmp_path / "absent.txt")}, model=open_model(str(model)))
    levels = [finding.level for finding in examined.findings]
    assert set(levels) == {"error", "warning", "note"}
    assert levels == sorted(levels, key=LEVELS.index)
    said = whats(examined, "error")
    assert said == [finding.what for finding in examined.errors]
    assert any("--max-tokens is 600, but the model reads at most 64 tokens" in what for what in said)
    assert any("The domain corpus cannot be read" in what for what in said)


def test_a_model_brings_lengths_in_tokens_and_pieces_of_task_and_corpora(tmp_path, healthy, model):
    (tmp_path / "general.txt").write_text("".join(f"{' '.join(WORDS[:60])}\n" for _ in range(3)))
    examined = examine(healthy, {"general": RawText(tmp_path / "general.txt")}, model=open_model(str(model)))
    assert (examined.lengths.unit, examined.lengths.reads) == ("tokens", 64)
    task, general = examined.pieces
    assert (task.of, general.of, general.per_word) == ("task", "general", 1.0)
    assert task.per_word > 3
    assert any(f"{task.per_word:.2f} pieces per word, 1.00 in general text" in what for what in whats(examined, "note"))
    assert examined.task["model"] == "bert"


def test_a_model_that_cannot_be_used_is_an_error_and_lengths_are_words(tmp_path, healthy, model):
    examined = examine(healthy, model=open_model(str(tmp_path / "no such model here")))
    [error] = examined.errors
    assert "The model cannot be used" in error.what
    assert examined.lengths.unit == "words"


def test_copies_with_other_labels_are_a_warning():
    train = examples("train", 60)
    given = labelled([*train, replace(train[0], id="copy", label="base")], examples("dev", 20), examples("test", 40))
    what, _ = whats(examine(given), "warning")
    assert what.startswith("1 text occurs more than once in train")
    assert "different labels" in what


def test_without_near_duplicates_only_exact_ones_are_looked_for(tmp_path):
    test = examples("test", 40, words=9)
    train = [*examples("train", 60), replace(test[0], id="near", text=one_word_changed(test[0].text, 0))]
    given = labelled([*train, replace(test[1], id="exact")], examples("dev", 20), test)
    assert examine(given, near=0).leaked["train"] == {"exact"}


def test_it_loads_no_torch_for_a_model_directory(tmp_path, model):
    script = (
        "import sys; from pathlib import Path; from acclimate.data.doctor import examine;"
        "from acclimate.data.model import open_model;"
        "from acclimate.reading.labelled import LabelledFiles, read_files;"
        f"given = read_files(LabelledFiles(train=Path({str(tmp_path / 'train.jsonl')!r})));"
        f"examined = examine(given, model=open_model({str(model)!r}));"
        "print(examined.lengths.unit, {'torch', 'transformers'} & set(sys.modules))"
    )
    rows = [{"text": row.text, "label": row.label} for row in examples("train", 60)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("tokens set()\n", "")


def test_the_smallest_difference_is_said_with_what_would_make_it_smaller(healthy):
    one, more = examine(healthy, seeds=3, comparisons=4), examine(healthy, seeds=10, comparisons=1)
    assert one.detectable == pytest.approx(guessed(900, 3, comparisons=4).detectable(), rel=1e-3)
    assert more.detectable == pytest.approx(guessed(900, 10).detectable(), rel=1e-3)
    assert f"{100 * one.detectable:.1f} points is the smallest difference that 900 test items and 3 seeds" in one.reach
    assert "with twice the test items" in one.reach
    assert "What these data can show" in one.as_text()


def test_the_smallest_difference_is_that_of_the_metric_and_of_runs_where_there_are_any(healthy):
    numbers = [float(number % 37) for number in range(100)]
    rows = [examples("train", 100, numbers), examples("dev", 20, numbers), examples("test", 900, numbers)]
    scored = examine(labelled(*rows, kind="score", metric="pearson"), seeds=5)
    # the numbers are uniform: as for a normal variable, (1 - r^2)^2 an item, within a tenth
    assert scored.detectable == pytest.approx(guessed(900, 5, one_item=(1 - 0.8**2) ** 2).detectable(), rel=0.1)
    few = [*["acid"] * 49, "salt", *["base"] * 50]
    rare = examine(
        labelled(examples("train", 400, few), examples("dev", 200, few), examples("test", 900, few)), seeds=5
    )
    assert rare.detectable > 1.3 * examine(healthy, seeds=5).detectable
    design = PowerDesign(200, 3, item_variance=0.01, residual_variance=0.02, seed_variance=0.0001, spread="runs")
    known = examine(healthy, seeds=5, comparisons=2, spread=design)
    assert known.detectable == replace(design, items=900, seeds=5, comparisons=2).detectable()
    assert "an earlier race on this task" in known.reach
    assert "guess" not in known.reach


def test_the_doctor_takes_the_spread_of_a_finished_race_on_the_same_task(toy_race):
    def told(*more):
        files = [f"--{split}={toy_race.inputs / f'{split}.jsonl'}" for split in ("dev", "test")]
        return CliRunner().invoke(app, ["doctor", str(toy_race.inputs / "train.jsonl"), *files, "--run", *more])

    raced = next_race(read_outcome(path_of(toy_race.run, "race")))
    done = told(str(toy_race.run), "--seeds", "10", "--contestants", "2")
    assert done.exit_code == 0, done.output
    least = replace(raced, seeds=10, comparisons=2).detectable()
    assert f"{100 * least:.1f} points is the smallest difference" in " ".join(done.output.split())
    assert "an earlier race on this task" in " ".join(done.output.split())
    refused = told(str(toy_race.run), "--metric", "micro_f1")
    assert refused.exit_code == 2
    assert "is a race on train (sequence, " in refused.output
    assert "but the task is train (sequence, micro_f1)" in refused.output


def test_where_nothing_was_fine_tuned_the_spread_over_items_is_that_of_probes(toy_race):
    outcome = read_outcome(path_of(toy_race.run, "race"))
    probes = tuple(each for each in outcome.results if each.probe or not each.encoder)
    design = spread(replace(outcome, results=probes))
    assert design.spread == "items"
    assert design.item_variance > 0
    splits = examples("train", 60), examples("dev", 20), examples("test", 100)
    found = examine(labelled(*splits), spread=design, seeds=4, comparisons=2)
    assert "one point over seeds is a guess" in found.reach
    assert found.detectable == replace(design, items=100, seeds=4, comparisons=2).detectable()


def test_few_test_texts_are_not_mended_by_the_seeds_that_a_race_has_anyway():
    few = examine(labelled(examples("train", 100), examples("dev", 20), examples("test", 3)), seeds=5, comparisons=4)
    assert "the usual gains of adaptation are not detectable" in few.reach
    assert "with 5 seeds, gains" not in few.reach
    [advice] = [each.way_out for each in few.findings if each.what.startswith("With 3 test texts and 5 seeds")]
    assert "abel more test texts" in advice or "abel many more test texts" in advice
    assert "Take 5 seeds" not in few.as_text()


def test_doctor_and_race_take_the_same_number_of_seeds_by_default():
    of_verb = inspect.signature(doctor_verb).parameters["seeds"].default
    defaults = {inspect.signature(function).parameters["seeds"].default for function in (examine, gather)}
    assert defaults == {of_verb} == {RaceRecipe().seeds} == {SEEDS}


def test_a_test_set_that_can_show_next_to_nothing_is_a_warning_where_something_is_compared(healthy):
    small = examine(labelled(examples("train", 60), examples("dev", 20), examples("test", 12)))
    assert any("With 12 test texts and" in what and "are detectable." in what for what in whats(small, "warning"))
    pair = examine(healthy, seeds=2, comparisons=4)
    assert "the usual gains of adaptation are not detectable" in pair.reach
    assert any("2 seeds are too few" in what for what in whats(pair, "warning"))
    single = examine(healthy, seeds=1)
    assert (single.detectable, "two test texts and two seeds" in single.reach) == (None, True)
    alone = examine(labelled(examples("train", 60), examples("dev", 20), examples("test", 12)), seeds=2, comparisons=0)
    assert (alone.detectable, alone.reach) == (None, "No comparison is made on the test set.")
    assert not any("detectable" in what or "too few" in what for what in whats(alone, "warning"))


@pytest.mark.skipif(not (DATA / "tlm" / "acl_arc").is_dir(), reason="the data sets are not here")
def test_the_known_leaks_of_acl_arc_are_found_to_the_item():
    place = DATA / "tlm" / "acl_arc"
    files = {"train": place / "train.jsonl.gz", "dev": place / "dev.jsonl", "test": place / "test.jsonl"}
    rows = {split: files[split].read_bytes() for split in files} | {
        "train": gzip.decompress(files["train"].read_bytes())
    }
    rows = {split: [json.loads(line) for line in content.splitlines()] for split, content in rows.items()}
    in_train = {row["text"] for row in rows["train"]}
    examined = examine(read_files(LabelledFiles(**files)))
    for split, known in (("test", 52), ("dev", 43)):
        verbatim = [number for number, row in enumerate(rows[split], 1) if row["text"] in in_train]
        assert len(verbatim) == known
        [leak] = [leak for leak in examined.leaks if (leak.found, leak.within, leak.kind) == ("train", split, "exact")]
        assert leak.references == len(verbatim)
        if split == "test":
            assert examined.leaked["test"] == {f"test:{number}" for number in verbatim}
            assert leak.same_label == 47
    assert examined.copies[0].conflicting == 20


def test_of_tagged_words_types_of_entities_are_counted_and_nothing_is_cut():
    def sentences(split: str, size: int, every: int) -> list[Example]:
        return [
            replace(row, label=("B-acid", "I-acid", *["O"] * 37, "B-base" if number % every == 0 else "O"))
            for number, row in enumerate(examples(split, size))
        ]

    splits = sentences("train", 60, 10), sentences("dev", 20, 5), sentences("test", 30, 15)
    found = examine(labelled(*splits, kind="tokens", metric="entity_f1"))
    assert found.label_counts["train"] == {"acid": 60, "base": 6}
    said = [finding.what for finding in found.findings]
    assert "'base' (6) has fewer than 10 training sentences, too few to learn from." in said
    assert "'base' (2) has fewer than 5 test sentences: their scores are chance." in said
    assert "a tag per word" in as_text(found)
    assert not any("constant answer" in text or "own name" in text for text in said)


def test_answers_are_no_classes_and_contexts_are_not_cut():
    splits = {
        split: tuple(
            Example(f"{split}-{at}", f"{split} {at} said so " * 40, (f"{split} {at}",), "who?", "", ((0, 5),))
            for at in range(30)
        )
        for split in ("train", "dev", "test")
    }
    files = tuple(FileRead(Path(split), 30, 30, ()) for split in splits)
    found = examine(Labelled("questions", "span", (), metric_named("f1"), 16, splits, files, ()))
    assert not found.label_counts
    assert not any("distributed differently" in each.what or "are not read" in each.what for each in found.findings)


def with_labels(split, *labels):
    return [Example(f"{split}-{number}", text(f"{split} {number}"), label) for number, label in enumerate(labels)]


def said(train, test, metric="accuracy"):
    splits = {"train": with_labels("train", *train), "dev": [], "test": with_labels("test", *test)}
    sizes = {split: len(rows) for split, rows in splits.items()}
    return doctor.findings_on_classes(doctor.label_counts(splits), sizes, metric)


def test_labels_are_counted_by_split_frequent_ones_first():
    splits = {
        "train": with_labels("train", *"abbba"),
        "dev": with_labels("dev", ("a", "b"), (), ("b",)),
        "test": with_labels("test", 1.0, 2.5),
    }
    assert doctor.label_counts(splits) == {"train": {"b": 3, "a": 2}, "dev": {"b": 2, "a": 1}, "test": {}}
    assert list(doctor.label_counts(splits)["train"]) == ["b", "a"]
    assert doctor.quantiles(splits) == {"test": (1.0, 1.375, 1.75, 2.125, 2.5)}


def test_rare_classes_are_named_with_their_counts():
    found = said("ab" * 50 + "ccc", "ab" * 20 + "c", metric="macro_f1")
    assert [finding.level for finding in found] == ["note", "note"]
    assert "'c' (3) has fewer than 10 training examples" in found[0].what
    assert "'c' (1) has fewer than 5 test examples" in found[1].what
    assert "macro-F1" in found[1].what
    many = said([*"ab" * 50, *(f"rare {number}" for number in range(9))], "ab" * 20)
    assert "and 4 more classes have fewer" in many[0].what


def test_classes_that_dev_hardly_has_are_named():
    counts = {"train": {"a": 50, "b": 10, "c": 9}, "dev": {"a": 5, "b": 4, "c": 1}}
    [scarce] = doctor.scarce_on_dev(counts)
    assert scarce.what == "'b' (4) has fewer than 5 dev examples, too few for choices on dev."
    assert doctor.scarce_on_dev({**counts, "dev": {}}) == []


def test_one_class_with_nearly_all_test_texts_and_labels_spread_differently_are_told():
    [finding] = said("a" * 90 + "b" * 10, "a" * 90 + "b" * 10)
    assert (finding.level, "90.0% of the test texts have 'a'" in finding.what) == ("warning", True)
    assert "macro_f1" in finding.way_out
    [finding] = said("a" * 150 + "b" * 50, "a" * 50 + "b" * 150)
    assert finding.level == "warning"
    assert "by 50% of the rows: 'a' is 75.0% of train and 25.0% of test" in finding.what
    [finding] = said("a" * 1000 + "b" * 1000, "a" * 350 + "b" * 650)
    assert finding.level == "note"
    assert said("ab" * 500, "a" * 12 + "b" * 8) == []  # 10% off, but of 20 rows
    assert said("a" * 1000 + "b" * 1000, "a" * 450 + "b" * 550) == []


def numbers(train, test):
    splits = {"train": with_labels("train", *train), "dev": [], "test": with_labels("test", *test)}
    return doctor.findings_on_numbers(splits)


def test_numbers_that_are_all_the_same_or_spread_differently_are_told():
    [finding] = numbers([1.0, 2.0, 3.0], [2.5, 2.5, 2.5])
    assert (finding.level, "Every number to predict in test is 2.5" in finding.what) == ("error", True)
    even = [number / 10 for number in range(200)]
    assert numbers(even, even[::2]) == []
    [finding] = numbers(even, [number + 10 for number in even])
    assert (finding.level, "by 50% of the rows" in finding.what) == ("warning", True)


def test_a_label_that_stands_in_its_texts_is_a_give_away():
    rows = examples("train", 60, ("acid", "base", "salt"))
    assert doctor.give_aways(rows) == []
    naming = [replace(row, text=f"{row.text} An {row.label.upper()}.") if n < 30 else row for n, row in enumerate(rows)]
    [finding] = doctor.give_aways(naming)
    assert (finding.level, "in 50% of the training texts" in finding.what) == ("note", True)
    [of_one] = doctor.give_aways(
        [replace(row, text=f"{row.text} acid") if row.label == "acid" else row for row in rows]
    )
    assert of_one.what.endswith("Most often this is 'acid', in 100% of its texts.")
    everywhere = [replace(row, text=f"{row.text} acid base salt") for row in rows]
    assert doctor.give_aways(everywhere) == []
    several = [replace(row, label=(row.label,)) for row in naming]
    assert doctor.give_aways(several) == [finding]


@pytest.mark.parametrize("labels", [("1", "2"), ("a", "b")])
def test_numbers_and_single_letters_are_not_looked_for(labels):
    rows = [replace(row, text=f"{row.text} {row.label}") for row in examples("train", 60, labels)]
    assert doctor.give_aways(rows) == []


def test_a_text_that_is_the_id_and_a_group_that_decides_the_label_are_told():
    [finding] = doctor.give_aways([replace(row, text=row.id) for row in examples("train", 20)])
    assert (finding.level, "100% of the training rows" in finding.what) == ("warning", True)
    rows = examples("train", 60)
    decided = [replace(row, group=f"{row.label} {number % 6}") for number, row in enumerate(rows)]
    [finding] = doctor.give_aways(decided)
    assert (finding.level, "The group alone decides the label in 100%" in finding.what) == ("note", True)
    assert doctor.give_aways([replace(row, group=f"{number // 4}") for number, row in enumerate(rows)]) == []
    assert doctor.give_aways([replace(row, group=row.id) for row in rows]) == []  # a group a row says nothing
