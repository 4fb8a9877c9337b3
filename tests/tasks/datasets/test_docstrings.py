from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB

import toys
from acclimate.core.types import SPLITS, Example, Split
from acclimate.tasks.datasets import docstring_sources
from acclimate.tasks.datasets import docstrings as embedded_task
from acclimate.tasks.datasets.docstrings import (
    CORPORA,
    Docstrings,
    build_docstrings,
    hold_out,
    near_duplicates,
    split_modules,
)
from acclimate.tasks.task import checked_splits
from acclimate.text.corpus import Corpus
from acclimate.text.overlap.words import normalised_words

Splits = dict[Split, list[Example]]


@pytest.fixture(scope="module")
def docstrings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docstrings]:
    """The embedded default, but that its general text, on which nothing else depends, is of fewer packages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded_task, "GENERAL", (docstring_sources.STANDARD_LIBRARY, "networkx"))
        patch.setattr(embedded_task, "UNSEEN", ("pygments",))
        yield build_docstrings(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def splits(docstrings: Docstrings) -> Splits:
    return checked_splits(docstrings.task, docstrings.path)


def test_sizes(docstrings: Docstrings, splits: Splits) -> None:
    assert len(docstrings.task.labels) >= 10
    assert len(splits["train"]) > 1300
    assert len(splits["dev"]) > 300
    assert len(splits["test"]) > 500
    assert docstrings.general.characters > 2e6
    assert docstrings.domain.characters > 5e6
    assert 0.03 < docstrings.heldout.characters / docstrings.domain.characters < 0.06
    assert 0.03 < docstrings.general_heldout.characters / docstrings.general.characters < 0.06
    for examples in splits.values():
        assert min(Counter(example.label for example in examples).values()) >= 9


def test_no_module_stands_in_two_splits(splits: Splits) -> None:
    modules = [{example.group for example in examples} for examples in splits.values()]
    assert len(set.union(*modules)) == sum(map(len, modules))


def test_adaptation_never_sees_test_text(docstrings: Docstrings, splits: Splits) -> None:
    tested = [*splits["dev"], *splits["test"]]
    modules = {example.group for example in tested}
    texts = {normalised_words(example.text) for example in tested}
    names = {example.id for example in tested}
    for corpus in (getattr(docstrings, name) for name in CORPORA):
        for document in corpus.documents():
            assert document.id not in names
            assert document.source not in modules
            assert normalised_words(document.text) not in texts


def test_held_out_text_is_in_no_other_corpus(docstrings: Docstrings) -> None:
    for heldout in (docstrings.heldout, docstrings.general_heldout):
        texts = {normalised_words(document.text) for document in heldout.documents()}
        for corpus in (docstrings.domain, docstrings.general, docstrings.task_text):
            assert texts.isdisjoint(normalised_words(document.text) for document in corpus.documents())


def test_task_text_is_the_whole_train_split(docstrings: Docstrings, splits: Splits) -> None:
    assert [document.text for document in docstrings.task_text.documents()] == [row.text for row in splits["train"]]


def package_words(text: str) -> list[str]:
    """All that looks like the name of a package: dotted names, imports, and installed or SciPy packages as code."""
    code = [inside for _, inside in re.findall(r"(`+)([^`\n]+)\1", text)]
    code += re.findall(r"(\w+)\s+(?:sub)?(?:module|package)\b", text)
    imports = re.findall(r"^[ >.]*((?:import [\w.]+|from [\w.]+ import) .*)$", text, re.MULTILINE)
    return [
        *(word for each in code for word in re.findall(r"\w+", each) if word in packages()),
        *re.findall(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", text),
        *(word for line in imports for word in re.findall(r"[\w.]+", line)),
    ]


@cache
def packages() -> set[str]:
    """Import names of all installed distributions, and SciPy's subpackages."""
    found = importlib.util.find_spec("scipy")
    assert found is not None
    assert found.submodule_search_locations is not None
    folders = {path.name for path in Path(found.submodule_search_locations[0]).iterdir() if path.is_dir()}
    return folders | set(importlib.metadata.packages_distributions())


def probe_accuracies(texts: dict[Split, list[str]], labels: dict[Split, list[str]]) -> list[float]:
    """Test accuracies of two classifiers that see nothing of a text but `package_words`."""
    vectors = CountVectorizer(analyzer=package_words)
    train = vectors.fit_transform(texts["train"])
    test = vectors.transform(texts["test"])
    models = (MultinomialNB(), LogisticRegression(max_iter=300))
    return [float(model.fit(train, labels["train"]).score(test, labels["test"])) for model in models]


def test_names_of_packages_do_not_give_the_label_away(splits: Splits) -> None:
    labels: dict[Split, list[str]] = {name: [row.label for row in rows] for name, rows in splits.items()}
    masked: dict[Split, list[str]] = {name: [row.text for row in rows] for name, rows in splits.items()}
    original = {each.name: each.text for each in docstring_sources.read_docstrings("scipy")}
    unmasked: dict[Split, list[str]] = {
        name: [original[row.id.split("#")[0]] for row in rows] for name, rows in splits.items()
    }
    chance = Counter(labels["test"]).most_common(1)[0][1] / len(labels["test"])
    assert max(probe_accuracies(masked, labels)) < chance + 0.05
    assert min(probe_accuracies(unmasked, labels)) > chance + 0.20


def test_low_resource_settings_touch_train_only(docstrings: Docstrings, splits: Splits) -> None:
    few = build_docstrings(docstrings.path.parent, labels_per_class=8, seed=1, max_tokens=64)
    drawn = checked_splits(few.task, few.path)
    assert Counter(row.label for row in drawn["train"]) == dict.fromkeys(docstrings.task.labels, 8)
    assert set(drawn["train"]) < set(splits["train"])
    assert (drawn["dev"], drawn["test"]) == (splits["dev"], splits["test"])
    assert few.task_text.hash == docstrings.task_text.hash
    assert few.path == docstrings.path
    assert few.task.max_tokens == 64
    assert drawn != splits
    assert checked_splits(pickle.loads(pickle.dumps(few.task)), few.path) == drawn


def test_another_process_builds_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the order of its sets, and with other general text, on which nothing else depends."""
    code = (
        "import sys, pytest, toys; from pathlib import Path; from acclimate.tasks.datasets import docstrings; "
        "toys.few_docstrings(pytest.MonkeyPatch()); docstrings.GENERAL = ('filelock',); "
        "docstrings.build_docstrings(Path(sys.argv[1]))"
    )
    path = os.pathsep.join([str(Path(toys.__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "there")], check=True, env=environment)
    [there] = (tmp_path / "there").iterdir()
    toys.few_docstrings(monkeypatch)
    here = build_docstrings(tmp_path / "here")
    assert there.name != here.path.name
    for name in ("train.jsonl", "dev.jsonl", "test.jsonl"):
        assert len((here.path / name).read_text().splitlines()) > 20
        assert (there / name).read_bytes() == (here.path / name).read_bytes()
    for corpus in (here.domain, here.heldout, here.task_text):
        assert Corpus(there / corpus.path.name).hash == corpus.hash


def test_a_damaged_cache_is_refused(docstrings: Docstrings, tmp_path: Path) -> None:
    copy = shutil.copytree(docstrings.path, tmp_path / docstrings.path.name)
    (copy / "dev.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"dev.jsonl is damaged.* Remove .*; it is then built anew"):
        build_docstrings(tmp_path)


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
        text(20, 35) + " " + text(100, 104): False,  # 3 of the candidate's 7 runs
        text(20, 37) + " " + text(100, 104): True,  # 5 of its 9
        text(50, 90): False,
        "": False,
    }
    assert near_duplicates(list(candidates), references) == list(candidates.values())


def test_half_from_each_of_two_references_is_no_copy() -> None:
    assert near_duplicates([text(0, 20) + " " + text(100, 120)], [text(0, 60), text(100, 160)]) == [False]


def test_nothing_to_compare() -> None:
    assert near_duplicates([], ["a"]) == []
    assert near_duplicates(["a"], []) == [False]
