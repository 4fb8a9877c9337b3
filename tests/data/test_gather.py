"""What a race runs on, made of a user's files."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import squad_files
import toys
from acclimate.core.files import cache
from acclimate.data import doctor
from acclimate.data import gather as gathering
from acclimate.data.gather import HELD_OUT, Inputs, Leaks, Raw
from acclimate.data.materials import Materials, corpus_at, corpus_of_split, listing, note_on
from acclimate.data.model import check_sources
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.text.corpus import write_corpus
from acclimate.text.documents import read_documents


def texts(corpus) -> list[str]:
    return [document.text for document in corpus.documents()]


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    return toys.write_inputs(tmp_path / "in")


def made(run: Path, inputs: Path, *, leaks: Leaks = "keep", **changes: Any) -> Materials:
    """The materials of the toy's files, some of what is stated changed."""
    labelled, raw = toys.files_in(inputs)
    of_labelled = {name: value for name, value in changes.items() if hasattr(labelled, name)}
    other = {name: value for name, value in changes.items() if hasattr(raw, name)}
    return toys.gathered(Inputs(run, replace(labelled, **of_labelled), replace(raw, **other), leaks=leaks))


def test_the_domain_is_parted_into_what_adapts_and_what_measures(inputs, tmp_path):
    domain = inputs / "domain.txt"
    materials = made(tmp_path / "run", inputs)
    adapting, heldout = texts(materials.domain), texts(materials.heldout)
    assert sorted(adapting + heldout) == sorted(domain.read_text().splitlines())
    assert not set(adapting) & set(heldout)
    assert 0 < len(heldout) < 3 * len(adapting) / HELD_OUT
    assert f"{len(adapting):,} for adaptation, {len(heldout):,} to measure the loss" in " ".join(materials.notes)


def test_copies_fall_on_one_side_whatever_their_case_and_spaces(inputs, tmp_path):
    domain = inputs / "domain.txt"
    lines = domain.read_text().splitlines()
    domain.write_text("\n".join([*lines, *(f"  {line.upper()} " for line in lines)]) + "\n")
    materials = made(tmp_path / "run", inputs)
    sides = [{" ".join(text.lower().split()) for text in texts(side)} for side in (materials.domain, materials.heldout)]
    assert not sides[0] & sides[1]
    assert len(materials.domain) + len(materials.heldout) == 2 * len(lines)


def test_copies_of_dev_and_test_texts_are_dropped_and_of_train_texts_never_measure(inputs, tmp_path):
    domain = inputs / "domain.txt"
    task = made(tmp_path / "before", inputs).task
    sealed = [row.text for split in ("dev", "test") for row in task.examples(split)]
    known = [row.text for row in task.examples("train")]
    lines = domain.read_text().splitlines()
    domain.write_text("\n".join([*lines, *(text.upper() for text in sealed), *known]) + "\n")
    materials = made(tmp_path / "run", inputs)
    adapting = {text.lower() for text in texts(materials.domain)}
    measuring = {text.lower() for text in texts(materials.heldout)}
    assert not (adapting | measuring) & {text.lower() for text in sealed}
    assert adapting & {text.lower() for text in known}
    assert not measuring & {text.lower() for text in known}, "TAPT trains on these"


def test_the_general_text_is_parted_into_what_is_used_and_what_measures_forgetting(inputs, tmp_path):
    known = [json.loads(line)["text"] for line in (inputs / "train.jsonl").read_text().splitlines()]
    general = inputs / "general.txt"
    lines = general.read_text().splitlines()
    general.write_text("\n".join([*lines, *known]) + "\n")
    materials = made(tmp_path / "run", inputs)
    used, measuring = texts(materials.general), texts(materials.general_heldout)
    assert 0 < len(measuring) < 3 * len(used) / HELD_OUT
    assert sorted(set(lines)) == sorted({*used, *measuring} - set(known))
    assert not set(used) & set(measuring)
    assert not set(known) & set(measuring), "TAPT trains on these"
    assert f"{len(used):,} for training, {len(measuring):,} to measure forgetting" in " ".join(materials.notes)


def test_of_much_general_text_a_smaller_share_measures_and_none_of_it_adapts_as_domain_text(
    inputs, tmp_path, monkeypatch
):
    domain, general = inputs / "domain.txt", inputs / "general.txt"
    domain.write_text(domain.read_text() + general.read_text())
    before = made(tmp_path / "before", inputs)
    monkeypatch.setattr(gathering, "MOST_HELD_OUT", 8)  # of 300 documents, so that one in 40 is
    materials = made(tmp_path / "run", inputs)
    measuring = set(texts(materials.general_heldout))
    assert measuring < set(texts(before.general_heldout))
    assert not measuring & set(texts(materials.domain))
    assert materials.domain.hash == before.domain.hash
    # nor is anything trained on or retrieved from there that the domain holds out
    assert set(texts(materials.heldout)) & set(general.read_text().splitlines())
    assert not set(texts(materials.heldout)) & set(texts(materials.general))


def test_a_domain_too_small_to_hold_any_of_it_out_goes_without(inputs, tmp_path):
    domain = inputs / "domain.txt"
    domain.write_text("a few words about the moon\n")
    materials = made(tmp_path / "run", inputs)
    assert materials.heldout is None
    assert len(materials.domain) == 1


def test_tapt_sees_the_training_texts_and_no_others(inputs, tmp_path):
    materials = made(tmp_path / "run", inputs)
    assert texts(materials.task_text) == [row.text for row in materials.task.examples("train")]


def asked(place: Path, *, pairs: bool) -> LabelledFiles:
    """Files of questions: three on each context as SQuAD has them, or pairs of which two ask the same."""
    for split, contexts in (("train", 5), ("dev", 2), ("test", 3)):
        if pairs:
            rows = [
                squad_files.pairs(f"{split}{number}", 2, f"What is it, {split} {number}?") for number in range(contexts)
            ]
            content = [{"title": "", "paragraphs": [paragraph for each in rows for paragraph in each]}]
        else:
            content = [squad_files.article(split, contexts, 3)]
        squad_files.write(place / f"{split}.json", content)
    return LabelledFiles(**{split: place / f"{split}.json" for split in ("train", "dev", "test")}, max_tokens=64)


def test_of_questions_tapt_sees_each_training_context_once_and_no_question(inputs, tmp_path):
    raw = Raw(general=inputs / "general.txt")
    materials = toys.gathered(Inputs(tmp_path / "run", asked(tmp_path, pairs=False), raw))
    assert len(materials.task.examples("train")) == 15
    assert texts(materials.task_text) == [squad_files.context(f"train {number}") for number in range(5)]


def test_contexts_of_a_question_that_has_several_are_documents_of_their_own(inputs, tmp_path):
    raw = Raw(general=inputs / "general.txt")
    task = toys.gathered(Inputs(tmp_path / "run", asked(tmp_path, pairs=True), raw)).task
    assert len(task.examples("dev")) == 2
    contexts = [squad_files.context(f"dev{number} {at}") for number in range(2) for at in range(2)]
    assert texts(corpus_of_split(task, "dev", tmp_path / "corpora")) == contexts


def test_a_context_of_a_question_that_has_several_never_measures(inputs, tmp_path):
    stated = asked(tmp_path, pairs=True)
    several = [squad_files.pairs(f"dev{number}", 3, f"What is dev {number}?") for number in range(30)]
    squad_files.write(
        tmp_path / "dev.json", [{"title": "", "paragraphs": [each for paragraphs in several for each in paragraphs]}]
    )
    known = [paragraph["context"] for paragraphs in several for paragraph in paragraphs]
    lines = [*known, *(squad_files.context(f"domain {number}") for number in range(80))]
    (tmp_path / "domain.txt").write_text("\n".join(lines) + "\n")
    raw = Raw(domain=tmp_path / "domain.txt", general=inputs / "general.txt")
    materials = toys.gathered(Inputs(tmp_path / "run", stated, raw))
    assert not set(texts(materials.heldout)) & set(known)


def test_the_same_files_are_read_once_and_changed_ones_anew(inputs, tmp_path):
    domain = inputs / "domain.txt"
    first = made(tmp_path / "run", inputs)
    again = made(tmp_path / "run", inputs)
    assert (again.domain.path, again.general.path) == (first.domain.path, first.general.path)
    os.utime(domain, (1, 1))
    assert made(tmp_path / "run", inputs).domain.hash == first.domain.hash
    with open(domain, "a") as file:
        file.write("one more document about clay\n")
    changed = made(tmp_path / "run", inputs)
    assert changed.domain.path != first.domain.path
    assert changed.domain.hash != first.domain.hash or changed.heldout.hash != first.heldout.hash
    assert changed.general.path == first.general.path


def test_general_text_that_is_needed_and_not_there_is_named(inputs, tmp_path):
    with pytest.raises(ValueError, match="on general text, but there is none"):  # nor a model
        made(tmp_path / "run", inputs, general=None)


def test_a_corpus_is_taken_as_it_is_and_text_made_into_one(inputs, tmp_path):
    domain = inputs / "domain.txt"
    made = corpus_at(domain, tmp_path / "out")
    assert texts(made) == domain.read_text().splitlines()
    assert corpus_at(made.path, tmp_path / "elsewhere").path == made.path


def test_a_lost_note_of_what_raw_text_left_out_is_written_again_and_the_corpus_stays(tmp_path):
    (tmp_path / "raw.jsonl").write_text('{"text": "one"}\n{"text": null}\n')
    made = corpus_at(tmp_path / "raw.jsonl", tmp_path)
    (made.path / "tokens").mkdir()
    said = note_on(made)
    assert said.startswith("1 of 2 documents of the raw text were not read")
    made.path.with_name(f"{made.path.name}.rejected.json").unlink()
    assert note_on(made) == ""
    assert note_on(corpus_at(tmp_path / "raw.jsonl", tmp_path)) == said
    assert (made.path / "tokens").exists()


def test_the_cache_lies_where_it_is_told_to(monkeypatch):
    monkeypatch.setenv("ACCLIMATE_CACHE", "/tmp/elsewhere")
    assert cache() == Path("/tmp/elsewhere")
    monkeypatch.delenv("ACCLIMATE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/tmp/of-mine")
    assert cache() == Path("/tmp/of-mine/acclimate")


def test_documents_that_hold_a_test_text_adapt_nobody_and_are_counted(inputs, tmp_path):
    domain = inputs / "domain.txt"
    task = made(tmp_path / "before", inputs).task
    [first, second, *_] = [row.text for row in task.examples("test")]
    planted = [f"as we said, {first} and then some more words", second.replace("the", "that", 1)]
    domain.write_text(domain.read_text() + "\n".join(planted) + "\n")
    materials = made(tmp_path / "run", inputs)
    kept = [*texts(materials.domain), *texts(materials.heldout)]
    assert not set(planted) & set(kept)
    assert "2 that contain a dev or test text were removed" in " ".join(materials.notes)


def test_documents_are_left_out_by_their_place_where_ids_repeat(inputs, tmp_path):
    task = made(tmp_path / "before", inputs).task
    [leak, *_] = [row.text for row in task.examples("test")]
    lines = (inputs / "domain.txt").read_text().splitlines()
    (inputs / "domain").mkdir()
    for name, texts_of_part in (("a", lines[:90]), ("b", [leak, "", *lines[90:]])):
        rows = [json.dumps({"id": number // 9, "text": line}) for number, line in enumerate(texts_of_part)]
        (inputs / "domain" / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    materials = made(tmp_path / "run", inputs, domain=inputs / "domain")
    assert sorted([*texts(materials.domain), *texts(materials.heldout)]) == sorted(lines)
    [note] = [note for note in materials.notes if "for adaptation" in note]
    assert note.startswith(f"The domain's text has 202 documents: {len(materials.domain):,} for adaptation")
    assert note.endswith("1 that contain a dev or test text were removed, and 1 without text.")


def test_a_corpus_made_by_write_corpus_gives_the_same_as_its_text(inputs, tmp_path):
    write_corpus(read_documents(inputs / "domain.txt"), inputs / "corpus")
    one = made(tmp_path / "run", inputs)
    other = made(tmp_path / "other", inputs, domain=inputs / "corpus")
    assert (texts(other.domain), texts(other.heldout)) == (texts(one.domain), texts(one.heldout))


def test_files_behind_a_linked_folder_are_listed_as_they_are_read(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.txt").write_text("one\n")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "corpus" / "notes.doc").write_text("not read")
    first = listing(tmp_path / "corpus")
    assert [(name, size) for name, size, _ in first] == [("link/a.txt", 4)]
    before = corpus_at(tmp_path / "corpus", tmp_path / "out")
    (tmp_path / "elsewhere" / "a.txt").write_text("one\ntwo\n")
    after = corpus_at(tmp_path / "corpus", tmp_path / "out")
    assert (texts(before), texts(after)) == (["one"], ["one", "two"])


@pytest.mark.parametrize("name", ["domain", "general"])
def test_a_corpus_of_which_every_document_is_left_out_is_an_error_that_says_why(inputs, tmp_path, name):
    rows = [json.loads(line)["text"] for line in (inputs / "test.jsonl").read_text().splitlines()]
    (inputs / f"{name}.txt").write_text("\n".join([*rows[:3], "   "]) + "\n")
    expected = (
        rf"{name}\.txt: no text of the {name} corpus remains for training: of 4 documents 3 hold a dev or test text"
    )
    with pytest.raises(ValueError, match=rf"{expected}, 1 hold no text\. Add {name} text"):
        made(tmp_path / "run", inputs)


def test_a_domain_that_is_held_out_as_a_whole_is_an_error_that_says_so(inputs, tmp_path):
    held = texts(made(tmp_path / "before", inputs).heldout)
    (inputs / "domain.txt").write_text("\n".join(held) + "\n")
    with pytest.raises(ValueError, match=f"of {len(held)} documents {len(held)} are held out to measure the loss"):
        made(tmp_path / "run", inputs)


def test_of_several_processes_the_first_examines_and_the_others_are_told(inputs, tmp_path, monkeypatch):
    told = made(tmp_path / "run", inputs).examination
    broadcast = [told.to_json(), None, None]  # the examination, then what `first_then_all` waits for
    monkeypatch.setattr(gathering.ranks, "rank", lambda: 1)
    monkeypatch.setattr(gathering.ranks, "agree", lambda value: broadcast.pop(0) if broadcast else None)
    monkeypatch.setattr(doctor, "Sealed", lambda *given, **named: pytest.fail("only the first examines"))
    assert made(tmp_path / "run", inputs).examination == told


def test_a_model_that_learnt_another_split_of_the_task_is_warned_of(inputs, tmp_path):
    first = made(tmp_path / "first", inputs)
    model = tmp_path / "model"
    model.mkdir()

    def warned(sources: dict[str, str]) -> bool:
        (model / "provenance.json").write_text(json.dumps({"sources": sources}))
        findings = check_sources(str(model), first.task.hashes)
        warning = "was trained before on a task of this name"
        return any(found.level == "warning" and warning in found.what for found in findings)

    now = {name: first.task.hashes[name] for name in ("about", "train")}
    assert not warned(now)
    assert warned(now | {"train": "0" * 64})
    assert not warned({"about": "0" * 64, "train": "0" * 64})
    assert not warned({"about": now["about"]})
    assert not check_sources("somebody/model", first.task.hashes)
    for foreign in ([1], {"sources": "the web"}):
        (model / "provenance.json").write_text(json.dumps(foreign))
        assert not check_sources(str(model), first.task.hashes)
