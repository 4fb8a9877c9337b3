"""The embedded default: a real task and real corpora out of the Python packages that are installed anyway.

The task is to tell from a SciPy docstring which subpackage it documents (stats, optimize, signal, ...). Modules, not
docstrings, are divided into train, dev and test; names that give the label away are masked. The domain is what NumPy,
SciPy and scikit-learn say about themselves; general text comes from the standard library, PyTorch and other packages
that acclimate brings along, and what measures forgetting from a few packages more. Doctests are left out of all texts:
their numbers are no language. Which versions are installed decides the content, so with a lock file it is always the
same.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from acclimate.core.files import (
    DamagedError,
    check_manifest,
    new_directory,
    process_path,
    read_json,
    write_json,
    write_text,
)
from acclimate.core.types import SPLITS, Document, Example, Split, Watch, counted, unwatched
from acclimate.tasks.datasets.docstring_sources import (
    STANDARD_LIBRARY,
    Docstring,
    masker,
    pause_collector,
    plain_docstring,
    read_docstrings,
    version,
)
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.tables import read_labelled
from acclimate.tasks.task import Task
from acclimate.tasks.task import labels_per_class as low_resource
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.overlap.words import GRAM, WORD, normalised_words

# Which modules go to which split, and which documents must go because another side holds nearly the same text.

SHARES: dict[Split, float] = {"train": 0.60, "dev": 0.15, "test": 0.25}


def shuffled(names: Sequence[str]) -> list[str]:
    """Return the names in an order that looks random and depends on nothing but the names."""
    return sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())


def split_modules(sizes: Mapping[str, int]) -> dict[str, Split]:
    """Return a split for each module, so that the splits' documents come near SHARES; each gets a module if there are
    three.

    sizes: module -> number of its documents. Large modules are placed first, each where most is lacking; among modules
    of about a size (the same power of two) a hash of the name decides the order.
    """
    lacking = {split: SHARES[split] * sum(sizes.values()) for split in SPLITS}
    order = sorted(shuffled(list(sizes)), key=lambda module: -sizes[module].bit_length())
    where: dict[str, Split] = {}
    for module in order:
        empty = set(SPLITS) - set(where.values())
        allowed = empty if len(order) - len(where) <= len(empty) else SPLITS
        split = max((split for split in SPLITS if split in allowed), key=lambda split: lacking[split])
        where[module] = split
        lacking[split] -= sizes[module]
    return where


def hold_out(sizes: Mapping[str, int], share: float, *, keep: Set[str]) -> set[str]:
    """Modules that together hold a share of all or a little less, chosen by a hash of their names, none of `keep`."""
    size = share * sum(sizes.values())
    chosen = set()
    for module in shuffled([module for module in sizes if module not in keep]):
        if sizes[module] <= size:
            chosen.add(module)
            size -= sizes[module]
    return chosen


def near_duplicates(candidates: Sequence[str], references: Sequence[str]) -> list[bool]:
    """For each candidate, whether a reference has the same words, or shares most of the shorter one's text.

    Most: more than half of the distinct runs of GRAM words in the shorter of the two occur in the other. A text of
    fewer than GRAM words is only compared as a whole.
    """
    ids: dict[str, int] = {}
    reference_words = [_words(text, ids) for text in references]
    candidate_words = [_words(text, ids) for text in candidates]
    reference_grams = [_grams(words) for words in reference_words]
    candidate_grams = [_grams(words) for words in candidate_words]
    # an array operation finds the few grams that both sides have; only their texts are looked at one by one
    shared = np.intersect1d(_joined(reference_grams), _joined(candidate_grams))
    of_reference = _texts_with(shared, reference_grams)
    holders: dict[int, list[int]] = {}
    for number, grams in of_reference.items():
        for gram in grams:
            holders.setdefault(gram, []).append(number)
    whole = {words.tobytes() for words in reference_words}
    copied = [words.tobytes() in whole for words in candidate_words]
    for number, grams in _texts_with(shared, candidate_grams).items():
        common = Counter(reference for gram in grams for reference in holders[gram])
        size = len(np.unique(candidate_grams[number]))
        copied[number] |= any(
            2 * count > min(size, len(np.unique(reference_grams[reference]))) for reference, count in common.items()
        )
    return copied


def _words(text: str, ids: dict[str, int]) -> npt.NDArray[np.uint64]:
    """Return the text's words as numbers; `ids` numbers the words met so far."""
    return np.array([ids.setdefault(word, len(ids) + 1) for word in WORD.findall(text.lower())], dtype=np.uint64)


def _grams(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of each run of GRAM words."""
    count = max(len(words) - GRAM + 1, 0)
    hashes = np.zeros(count, dtype=np.uint64)
    for place in range(GRAM):
        # a polynomial modulo 2**64 in an odd multiplier (that of the splitmix generator)
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + words[place : place + count]
    return hashes


def _texts_with(shared: npt.NDArray[np.uint64], grams: Sequence[npt.NDArray[np.uint64]]) -> dict[int, set[int]]:
    """Return the texts that have any of the shared grams, by number, and which of them."""
    owners = np.repeat(np.arange(len(grams)), [len(owners_of_gram) for owners_of_gram in grams])
    joined = _joined(grams)
    flags = np.isin(joined, shared)
    texts: dict[int, set[int]] = {}
    for owner, gram in zip(owners[flags].tolist(), joined[flags].tolist(), strict=True):
        texts.setdefault(owner, set()).add(gram)
    return texts


def _joined(arrays: Sequence[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    return np.concatenate([np.zeros(0, dtype=np.uint64), *arrays])


FORMAT = 2  # raise it with every change of the content that this file writes
DOMAIN = ("scipy", "numpy", "sklearn")
# what the dependencies of acclimate bring along; one that is not installed is left out, and the cache's name says so
GENERAL = (
    *(STANDARD_LIBRARY, "torch", "transformers", "huggingface_hub", "tokenizers", "safetensors", "networkx"),
    *("matplotlib", "PIL", "pyarrow", "fsspec", "jinja2", "rich", "typer", "joblib", "packaging", "filelock", "mpmath"),
)
# likewise; none of it is pretrained on or retrieved from, so that a loss on general text can be measured there
UNSEEN = ("pygments", "pyparsing", "click", "dateutil", "contourpy", "tqdm", "regex")
# half of all sources and little text: 2,500 near copies of each other in transformers, PyTorch's compiler and exporters
WITHOUT = (
    *("transformers.models", "torch._inductor", "torch._dynamo", "torch._functorch", "torch._export", "torch._refs"),
    *("torch._higher_order_ops", "torch._decomp", "torch._subclasses", "torch.fx", "torch.onnx", "torch.sparse"),
)

FEWEST_WORDS = 20
FEWEST_MODULES = 6  # a subpackage with fewer modules or texts is not a label
FEWEST_TEXTS = 60
HELDOUT_SHARE = 0.05
# masked in every text; scipy's module names are added as code
NAMES = (
    *("scipy", "numpy", "np", "sklearn", "scikit-learn", "matplotlib", "plt", "pandas", "torch"),
    *("linalg", "ndimage", "fftpack", "stats"),
)
CORPORA = ("general", "domain", "heldout", "general_heldout", "task_text")


@dataclass(frozen=True)
class Docstrings:
    """The default task and its corpora, all below `path`.

    general          text of no particular domain, to pretrain a small encoder on
    domain           docstrings of NumPy, SciPy and scikit-learn; nothing of the task's dev and test modules, nor near
                     copies
    heldout          domain text that is in none of the others, to measure a language model's loss on
    general_heldout  the same for general text: that of the packages UNSEEN, without near copies of the others
    task_text        the texts of the whole train split, also of examples whose labels are withheld
    counts           how many texts were left out, and why

    Documents bear the dotted name of what they document as id, and that of their module as source.
    """

    task: Task
    path: Path
    general: Corpus
    domain: Corpus
    heldout: Corpus
    general_heldout: Corpus
    task_text: Corpus
    counts: Mapping[str, int]


def build_docstrings(
    cache: Path, *, labels_per_class: int | None = None, seed: int = 0, max_tokens: int = 128, watch: Watch = unwatched
) -> Docstrings:
    """Return the default task and corpora, read from installed sources once (about 20 s) and from `cache` ever after.

    labels_per_class  number of training examples to keep of each label, sampled by `seed`; the corpora do not change
    max_tokens        where examples are truncated. Half of them are longer than 115 words: 128 is quick, 256 sees more

    Raises ValueError where SciPy, NumPy or scikit-learn is not installed, or the cache is damaged.
    """
    versions = {package: version(package) for package in (*DOMAIN, *GENERAL, *UNSEEN)}
    key = hashlib.sha256(json.dumps([FORMAT, versions]).encode()).hexdigest()[:16]
    path = Path(cache) / f"docstrings-{key}"
    build_once(path, lambda directory: _build(directory, versions, watch))
    facts = read_json(path / "facts.json")
    task = docstrings_task(
        facts["labels"],
        source=facts["source"],
        labels_per_class=labels_per_class,
        seed=seed,
        max_tokens=max_tokens,
    )
    corpora = {name: Corpus(path / name) for name in CORPORA}
    return Docstrings(task=task, path=path, counts=facts["counts"], **corpora)


def build_once(path: Path, build: Callable[[Path], None]) -> None:
    """Have `build` write the directory `path` unless it is there, also where several processes do so at once.

    Raises ValueError where `path` is damaged.
    """
    if not path.exists():
        mine = process_path(path)  # keeps processes that build at the same time apart
        with new_directory(mine) as directory, pause_collector():
            build(directory)
        try:
            os.rename(mine, path)
        except OSError:
            shutil.rmtree(mine)
            if not path.exists():  # otherwise another process was faster, and built the same
                raise
    try:
        check_manifest(path)
    except DamagedError as error:
        raise ValueError(f"{error}. Remove {path}; it is then built anew") from error


def docstrings_task(
    labels: Sequence[str],
    *,
    source: str = "",
    labels_per_class: int | None = None,
    seed: int = 0,
    max_tokens: int = 128,
) -> Task:
    """Return the task over the files `train.jsonl`, `dev.jsonl` and `test.jsonl` of the folder that `load` is given.

    Judged by macro-F1, for the largest class has ten times as many examples as the smallest.
    """
    read = partial(_read_split, labels_per_class=labels_per_class, seed=seed)
    return Task("docstrings", "sequence", read, tuple(labels), METRICS["macro_f1"], max_tokens, source=source)


def _read_split(path: Path, split: Split, *, labels_per_class: int | None, seed: int) -> list[Example]:
    examples = read_labelled(path / f"{split}.jsonl", text="text", label="label", group="group", id="id")
    if split == "train" and labels_per_class is not None:
        return low_resource(examples, labels_per_class, seed)
    return examples


def _build(directory: Path, versions: Mapping[str, str | None], watch: Watch) -> None:
    counts: Counter[str] = Counter()
    texts: set[str] = set()

    def docstrings_of(named: Sequence[str]) -> Iterator[Docstring]:
        for package in counted(named, watch, "reading docstrings", total=len(named), unit="packages", every=1):
            if package in DOMAIN or versions[package] is not None:
                yield from read_docstrings(package, without=WITHOUT)

    domain = _distinct(docstrings_of(DOMAIN), texts, counts)
    splits = _divide([docstring for docstring in domain if docstring.package == "scipy"], counts)
    tested = {example.group for split in ("dev", "test") for example in splits[split]}
    evaluation = [docstring.text for docstring in domain if docstring.module in tested]
    domain = _drop_copies(
        [docstring for docstring in domain if docstring.module not in tested], evaluation, "domain", counts
    )
    trained = {example.group for example in splits["train"]}
    characters: Counter[str] = Counter()
    for docstring in domain:
        characters[docstring.module] += len(docstring.text)
    apart = hold_out(characters, HELDOUT_SHARE, keep=trained)
    heldout = [docstring for docstring in domain if docstring.module in apart]
    domain = [docstring for docstring in domain if docstring.module not in apart]
    heldout = _drop_copies(heldout, [docstring.text for docstring in domain], "heldout", counts)
    general, unseen = (_distinct(docstrings_of(packages), texts, counts) for packages in (GENERAL, UNSEEN))
    general = _drop_copies(general, [*evaluation, *(docstring.text for docstring in heldout)], "general", counts)
    others = [*evaluation, *(docstring.text for docstring in (*general, *domain))]
    unseen = _drop_copies(unseen, others, "general_heldout", counts)
    for name, docstrings in (
        ("domain", domain),
        ("heldout", heldout),
        ("general", general),
        ("general_heldout", unseen),
    ):
        documents = (Document(docstring.name, docstring.text, docstring.module) for docstring in docstrings)
        write_corpus(documents, directory / name)
    write_corpus((Document(row.id, row.text, row.group) for row in splits["train"]), directory / "task_text")
    for split in SPLITS:
        rows = ({name: asdict(row)[name] for name in ("id", "text", "label", "group")} for row in splits[split])
        write_text(directory / f"{split}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    source = f"Docstrings of SciPy {versions['scipy']} (BSD-3-Clause), read from the installed package"
    labels = sorted({example.label for example in splits["train"]})
    facts = {"labels": labels, "source": source, "versions": versions, "counts": dict(sorted(counts.items()))}
    write_json(directory / "facts.json", facts)


def _distinct(docstrings: Iterable[Docstring], texts: set[str], counts: Counter[str]) -> list[Docstring]:
    """Plain texts of some length, ids made unique, each text once. texts: those before, in `normalised_words` form."""
    distinct_docstrings = []
    times: Counter[str] = Counter()
    for docstring in docstrings:
        # the first test spares the many one-line docstrings the second, which costs more
        text = plain_docstring(docstring.text) if _is_long(docstring.text) else ""
        words = normalised_words(text)
        if not _is_long(text):
            counts["too short"] += 1
        elif words in texts:
            counts["exact copies"] += 1
        else:
            texts.add(words)
            times[docstring.name] += 1
            name = docstring.name if times[docstring.name] == 1 else f"{docstring.name}#{times[docstring.name]}"
            distinct_docstrings.append(Docstring(docstring.package, docstring.module, name, text))
    return distinct_docstrings


def _is_long(text: str) -> bool:
    return len(text.split()) >= FEWEST_WORDS


def _divide(docstrings: Sequence[Docstring], counts: Counter[str]) -> dict[Split, list[Example]]:
    """Return the task's splits out of SciPy's docstrings, masked; no module and no near copy on two sides."""
    mask = masker(NAMES, {part for docstring in docstrings for part in docstring.module.split(".")[1:]})
    examples = list(_labelled(docstrings, mask))
    counts["exact copies once masked"] += len(docstrings) - len(examples)
    modules: dict[str, Counter[str]] = {}
    for example in examples:
        modules.setdefault(str(example.label), Counter())[example.group] += 1
    where: dict[str, Split] = {}
    for sizes in modules.values():
        if len(sizes) >= FEWEST_MODULES and sizes.total() >= FEWEST_TEXTS:
            where |= split_modules(sizes)
    splits: dict[Split, list[Example]] = {split: [] for split in SPLITS}
    for example in examples:
        if example.group in where:
            splits[where[example.group]].append(example)
    earlier: list[str] = []
    for split in SPLITS:
        if earlier:
            copied = near_duplicates([example.text for example in splits[split]], earlier)
            counts[f"near copies, {split}"] += sum(copied)
            splits[split] = [example for example, is_copy in zip(splits[split], copied, strict=True) if not is_copy]
        earlier += [example.text for example in splits[split]]
    return splits


def _labelled(docstrings: Iterable[Docstring], mask: Callable[[str], str]) -> Iterator[Example]:
    """Masked texts of some length, each once, labelled with their subpackage and grouped by module."""
    texts: set[str] = set()
    for docstring in docstrings:
        _, *subpackages = docstring.module.split(".")
        text = mask(docstring.text)
        words = normalised_words(text)
        if subpackages and _is_long(text) and words not in texts:
            texts.add(words)
            yield Example(id=docstring.name, text=text, label=subpackages[0], group=docstring.module)


def _drop_copies(
    docstrings: Sequence[Docstring], references: Sequence[str], name: str, counts: Counter[str]
) -> list[Docstring]:
    copied = near_duplicates([docstring.text for docstring in docstrings], references)
    counts[f"near copies, {name}"] += sum(copied)
    return [docstring for docstring, is_copy in zip(docstrings, copied, strict=True) if not is_copy]
