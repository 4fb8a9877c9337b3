"""What a race runs on, made of a user's files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import toys
from acclimate.study.materials import HELD_OUT, Own, cache, corpus_at, own


def texts(corpus) -> list[str]:
    return [document.text for document in corpus.documents()]


@pytest.fixture
def stated(tmp_path: Path) -> Own:
    inputs = toys.write_inputs(tmp_path / "in")
    paths = {split: inputs / f"{split}.jsonl" for split in toys.SIZES}
    return Own(**paths, domain=inputs / "domain.txt", general=inputs / "general.txt", max_tokens=32)


def test_the_domain_is_parted_into_what_adapts_and_what_measures(stated, tmp_path):
    materials = own(tmp_path / "run", stated, model=None)
    adapting, heldout = texts(materials.domain), texts(materials.heldout)
    assert sorted(adapting + heldout) == sorted(stated.domain.read_text().splitlines())
    assert not set(adapting) & set(heldout)
    assert 0 < len(heldout) < 3 * len(adapting) / HELD_OUT
    assert f"{len(adapting):,} adapt, {len(heldout):,} measure the loss" in materials.notes[0]


def test_copies_fall_on_one_side_whatever_their_case_and_spaces(stated, tmp_path):
    lines = stated.domain.read_text().splitlines()
    stated.domain.write_text("\n".join([*lines, *(f"  {line.upper()} " for line in lines)]) + "\n")
    materials = own(tmp_path / "run", stated, model=None)
    sides = [{" ".join(text.lower().split()) for text in texts(side)} for side in (materials.domain, materials.heldout)]
    assert not sides[0] & sides[1]
    assert len(materials.domain) + len(materials.heldout) == 2 * len(lines)


def test_copies_of_dev_and_test_texts_are_dropped_and_of_train_texts_never_measure(stated, tmp_path):
    task = own(tmp_path / "before", stated, model=None).task
    sealed = [row.text for split in ("dev", "test") for row in task.examples(split)]
    known = [row.text for row in task.examples("train")]
    lines = stated.domain.read_text().splitlines()
    stated.domain.write_text("\n".join([*lines, *(text.upper() for text in sealed), *known]) + "\n")
    materials = own(tmp_path / "run", stated, model=None)
    adapting = {text.lower() for text in texts(materials.domain)}
    measuring = {text.lower() for text in texts(materials.heldout)}
    assert not (adapting | measuring) & {text.lower() for text in sealed}
    assert adapting & {text.lower() for text in known}
    assert not measuring & {text.lower() for text in known}, "TAPT trains on these"


def test_dev_and_test_texts_are_kept_out_of_general_text_too(stated, tmp_path):
    task = own(tmp_path / "before", stated, model=None).task
    [sealed, *_] = [row.text for row in task.examples("test")]
    stated.general.write_text(stated.general.read_text() + f"{sealed.upper()}\n")
    materials = own(tmp_path / "run", stated, model=None)
    assert sealed.upper() not in texts(materials.general)


def test_a_domain_too_small_to_hold_any_of_it_out_goes_without(stated, tmp_path):
    stated.domain.write_text("a few words about the moon\n")
    materials = own(tmp_path / "run", stated, model=None)
    assert materials.heldout is None
    assert len(materials.domain) == 1


def test_tapt_sees_the_training_texts_and_no_others(stated, tmp_path):
    materials = own(tmp_path / "run", stated, model=None)
    assert texts(materials.task_text) == [row.text for row in materials.task.examples("train")]


def test_the_same_files_are_read_once_and_changed_ones_anew(stated, tmp_path):
    first = own(tmp_path / "run", stated, model=None)
    again = own(tmp_path / "run", stated, model=None)
    assert (again.domain.path, again.general.path) == (first.domain.path, first.general.path)
    with open(stated.domain, "a") as file:
        file.write("one more document about clay\n")
    changed = own(tmp_path / "run", stated, model=None)
    assert changed.domain.path != first.domain.path
    assert changed.domain.hash != first.domain.hash or changed.heldout.hash != first.heldout.hash
    assert changed.general.path == first.general.path


def test_files_that_were_only_touched_give_the_same_content(stated, tmp_path):
    first = own(tmp_path / "run", stated, model=None)
    os.utime(stated.domain, (1, 1))
    assert own(tmp_path / "run", stated, model=None).domain.hash == first.domain.hash


def test_other_labelled_data_in_the_same_run_is_refused(stated, tmp_path):
    own(tmp_path / "run", stated, model=None)
    rows = stated.train.read_text().splitlines(keepends=True)
    stated.train.write_text("".join(rows[:-3]))
    with pytest.raises(ValueError, match=r"holds other data than .* Choose another --out"):
        own(tmp_path / "run", stated, model=None)


def test_general_text_beside_a_model_is_refused(stated, tmp_path):
    with pytest.raises(ValueError, match="not both"):
        own(tmp_path / "run", stated, model="model")


def test_what_is_not_there_is_named(stated, tmp_path):
    with pytest.raises(ValueError, match=r"nowhere: there is no such file or folder of raw text"):
        own(tmp_path / "run", replace(stated, domain=tmp_path / "nowhere"), model=None)
    with pytest.raises(ValueError, match=r"no metric is called 'f1'\. Known: "):
        own(tmp_path / "run", replace(stated, metric="f1"), model=None)
    with pytest.raises(ValueError, match=r"no corpus given\. Add corpus=PATH"):
        corpus_at(Path(), tmp_path)


def test_a_corpus_is_taken_as_it_is_and_text_made_into_one(stated, tmp_path):
    made = corpus_at(stated.domain, tmp_path / "out")
    assert texts(made) == stated.domain.read_text().splitlines()
    assert corpus_at(made.path, tmp_path / "elsewhere").path == made.path


def test_the_cache_lies_where_it_is_told_to(monkeypatch):
    monkeypatch.setenv("ACCLIMATE_CACHE", "/tmp/of-my-own")
    assert cache() == Path("/tmp/of-my-own")
    monkeypatch.delenv("ACCLIMATE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/tmp/of-mine")
    assert cache() == Path("/tmp/of-mine/acclimate")
