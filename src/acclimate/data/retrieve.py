"""Retrieve the documents of a large corpus that resemble a task's texts: TLM's external data (methods/tlm.py).

Yao et al. (2022), section 3.1: each training text is a query, its K best documents by BM25 are kept, and the union over
all queries is the external data. Only training texts are queries. Documents that contain a dev or test text are treated
as if the corpus did not have them (data/corpus_scan.py): they get no rank, so every query finds K other documents.

The folder `out` holds these files; those that exist already are kept:

    retrieval.json   recipe, and hashes of what was read
    left-out/        documents that are left out of retrieval
    selection/       the documents' numbers in the corpus, and which query retrieved which (text/bm25/selection.py)
    corpus/          the documents themselves, best first: an ordinary corpus, ids and sources as they were
    facts.json, report.txt
    bm25/            with how="random" or "dsir": the selection whose size the sample has
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from acclimate.core import files, ranks, settings
from acclimate.core.door import option
from acclimate.core.machines import Pool, workers
from acclimate.core.settings import Count, Range, check_ranges
from acclimate.core.types import SPLITS, Document, Example, Progress, Split, Watch, counted, unwatched
from acclimate.data.corpus_scan import leave_out
from acclimate.data.leaks import NEAR, Sealed, text_and_pair
from acclimate.data.materials import corpus_at, note_on
from acclimate.data.retrieved import (
    as_text,
    describe_corpus,
    describe_documents,
    describe_queries,
    examples_of_selection,
    shown_queries,
)
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.reports.page import WIDTH
from acclimate.text.bm25.dsir import log_weights
from acclimate.text.bm25.index import MOST
from acclimate.text.bm25.selection import Query, Selection, open_selection, sample_like, select
from acclimate.text.bm25.shards import ShardedIndex, build_shards
from acclimate.text.bm25.words import check_analyzer
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.overlap.groups import repeats
from acclimate.text.terms import PHRASES, keyword_query

CLAIM, FACTS, REPORT = "retrieval.json", "facts.json", "report.txt"
CORPUS, SELECTION, LEFT_OUT, LIKE = "corpus", "selection", "left-out", "bm25"


@dataclass(frozen=True)
class RetrieveRecipe:
    """What is retrieved. The defaults are the paper's small scale, with clean and different documents."""

    k: Annotated[int, Range(least=1, most=MOST, why=f"a query retrieves 1 to {MOST:,} documents")] = 50
    """Documents to retrieve for each query, 1 to 10,000; those of all queries together are kept, each once."""
    how: Literal["bm25", "random", "dsir"] = "bm25"
    """"random" and "dsir" sample as many documents as BM25 retrieves: without regard to the queries, or by DSIR's
    weights, so that the words of the sample are distributed like those of the queries."""
    queries: Literal["text", "keywords"] = "text"
    """Queries: whole texts, or the keywords that RAKE finds in them."""
    phrases: Annotated[int, Range(least=1)] = PHRASES  # most keywords of a query
    duplicates: Literal["keep", "exact", "near"] = "exact"
    """Which documents similar to a higher-ranked one are removed: none, exact copies, or near-duplicates too."""
    passages: Literal["keep", "drop"] = "keep"
    """What becomes of documents that share a run of 13 words with a dev or test text, but fewer than half of its
    runs."""
    near: Annotated[float, Range(above=0, most=1)] = NEAR
    """Jaccard similarity of character 5-grams from which on two texts are near-duplicates."""
    analyzer: Literal["words", "cased"] = "words"  # how texts are split into words: words (in lower case) or cased
    k1: Annotated[float, Range(least=0)] = 1.2  # BM25's k1: how soon further occurrences of a word stop counting
    b: Annotated[float, Range(least=0, most=1)] = 0.75  # BM25's b: how strongly long documents are penalised
    seed: Count = 0  # seed of the random draw

    def __post_init__(self) -> None:
        check_ranges(self)
        check_analyzer(self.analyzer)


@dataclass(frozen=True)
class Retrieved:
    """What `retrieve` wrote. facts: counts and examples (data/retrieved.py)."""

    corpus: Corpus
    selection: Selection
    facts: dict[str, Any]

    def as_text(self) -> str:
        return as_text(self.facts)


def retrieve(
    train: str | Path,
    *,
    corpus: str | Path,
    dev: str | Path | None = None,
    test: str | Path | None = None,
    text: str = "text",
    label: str = "label",
    pair: str | None = None,
    group: str | None = None,
    id: str | None = None,
    kind: Literal["auto", "sequence", "multilabel", "score", "tokens", "span"] = "auto",
    separator: str = "",
    fold_labels: bool = False,
    split_seed: int = 0,
    separated: Literal["line", "blank"] = "line",
    recipe: RetrieveRecipe | None = None,
    shards: int = 1,
    cluster: str = "",
    out: str | Path = "runs/retrieve",
    watch: Watch = unwatched,
) -> Retrieved:
    """Return the documents of a large corpus that the training texts resemble: what TLM trains on beside the task.

    train, dev, test   labelled files with columns and kinds as in `race`. The texts of train are the queries; no
                       document with a text of dev or test, given or split off, is retrieved
    corpus             raw text, a file or folder, or a folder that write_corpus made
    recipe             data.retrieve.RetrieveRecipe: K, random control, keywords, duplicates
    shards, cluster    as in data.retrieve.retrieve_for; the result depends on neither
    out                directory of the run; the same call again resumes the run, or opens the finished one

    `.corpus` is an ordinary corpus, best documents first; `.selection` says which text retrieved which document;
    `.facts` has counts, and `.as_text()` is the report. Raises ValueError for faults of the files and settings.
    """
    dev, test = (Path(path) if path else None for path in (dev, test))
    labelled = LabelledFiles(
        train=Path(train),
        dev=dev,
        test=test,
        text=text,
        label=label,
        pair=pair,
        group=group,
        id=id,
        kind=kind,
        separator=separator,
        fold_labels=fold_labels,
        seed=split_seed,
    )
    with files.hold(Path(out)) if ranks.is_first() else nullcontext():
        return retrieve_for_files(
            labelled,
            Path(corpus),
            Path(out),
            recipe or RetrieveRecipe(),
            separated=separated,
            shards=shards,
            cluster=cluster,
            watch=watch,
        )


def retrieve_for_files(
    files: LabelledFiles,
    corpus: Path,
    out: Path,
    recipe: RetrieveRecipe,
    *,
    separated: Literal["line", "blank"],
    shards: int,
    cluster: str,
    watch: Watch,
) -> Retrieved:
    """Do what `retrieve` does in a directory that the caller has locked; `watch` gets notes on what was left out."""
    labelled = read_files(files)
    searched = corpus_at(corpus, out, separated=separated, watch=watch)
    for note in filter(None, [*labelled.notes, note_on(searched)]):
        watch(Progress("files", 0, 0, "rows", {"note": note}))
    return ranks.first_then_all(
        lambda: retrieve_for(searched, labelled.splits, out, recipe, shards=shards, cluster=cluster, watch=watch)
    )


def retrieve_for(
    corpus: Corpus,
    splits: Mapping[Split, Sequence[Example]],
    out: Path,
    recipe: RetrieveRecipe | None = None,
    *,
    shards: int = 1,
    cluster: str = "",
    watch: Watch = unwatched,
) -> Retrieved:
    """Retrieve with the texts of splits["train"]; no retrieved document contains a text of "dev" or "test".

    Labels are not used. The same call resumes a stopped retrieval in `out`, or opens a finished one.
    shards   parts of the index, which is built once for all runs, in the user's cache directory
    cluster  address of a Ray cluster that builds and searches; "": this process (core/machines.py)
    The result depends on neither. Raises ValueError if `out` holds another retrieval, if there is no query, and if
    nothing is found.
    """
    recipe = recipe or RetrieveRecipe()
    splits = {split: splits.get(split, ()) for split in SPLITS}
    if not any(text_and_pair(row).strip() for row in splits["train"]):
        raise ValueError("no training text to use as a query. Give a file with training texts")
    texts = {split: settings.digest([[row.text, row.pair] for row in splits[split]]) for split in SPLITS}
    ids = settings.digest([row.id for row in splits["train"]])
    _claim(out, {"recipe": asdict(recipe), "sources": {"corpus": corpus.hash, "ids": ids, **texts}})
    if _is_finished(out):
        return open_retrieved(out)
    queries, facts = _queries(splits["train"], recipe)
    with workers(cluster) as pool:  # before the pass over the corpus, so that a wrong address is refused at once
        sealed = Sealed(splits, near=recipe.near)
        passages: dict[str, Any] = {"passages": recipe.passages == "drop", "shards": shards, "pool": pool}
        left_out = leave_out(corpus, sealed, out / LEFT_OUT, **passages, watch=watch)
        mask = left_out.mask(copies=recipe.duplicates != "keep")
        formula: dict[str, Any] = {"analyzer": recipe.analyzer, "k1": recipe.k1, "b": recipe.b}
        index = cached_index(corpus, out, shards=shards, pool=pool, **formula, watch=watch)
        selection = _selected(corpus, index, queries, out, recipe, mask=mask, watch=watch)
        _write_corpus(corpus.take(selection.documents.tolist()), len(selection), out, watch)
        examples = examples_of_selection(selection, corpus, index)
    record = {"recipe": asdict(recipe), "queries": facts, "examples": examples}
    return _finished(out, record | describe_corpus(corpus, left_out), watch)


def cut_retrieval(run: Path, k: int, out: Path, *, watch: Watch = unwatched) -> Retrieved:
    """Return what `retrieve` finds with a smaller k, cut from a finished retrieval without a search.

    Raises ValueError if `run` holds none, if its k is smaller, and if `out` holds another retrieval.
    """
    large = open_retrieved(run)
    claim = files.read_record(run / CLAIM)
    selection = large.selection.cut(k)
    _claim(out, {**claim, "recipe": {**claim["recipe"], "k": k}})
    if _is_finished(out):
        return open_retrieved(out)
    for name in (SELECTION, LIKE):
        if (run / name).exists() and not (out / name / files.MANIFEST).exists():
            open_selection(run / name).cut(k).write(out / name)
    _write_corpus(itertools.islice(large.corpus.documents(), len(selection)), len(selection), out, watch)
    facts = {name: large.facts[name] for name in ("queries", "corpus", "left_out", "leaks", "sources")}
    facts["examples"] = [example for example in large.facts["examples"] if example["rank"] <= k]
    return _finished(out, facts | {"recipe": {**large.facts["recipe"], "k": k}}, watch)


def open_retrieved(out: Path) -> Retrieved:
    """Return what `retrieve` or `cut_retrieval` wrote to `out`. Raises ValueError if none has finished there."""
    if not (out / FACTS).is_file() or not (out / SELECTION).is_dir():
        raise ValueError(
            f"{out} contains no selection: no `acclimate data retrieve` has finished there. Name another run"
        )
    facts = files.read_record(out / FACTS, way_out=f"Remove {out / FACTS}, and give the same command again")
    return Retrieved(Corpus(out / CORPUS), open_selection(out / SELECTION), facts)


def _is_finished(out: Path) -> bool:
    """True if a retrieval has finished there and no part of it was removed since."""
    return all((out / part).exists() for part in (FACTS, CORPUS, f"{SELECTION}/{files.MANIFEST}"))


def examples_of(out: Path, corpus: Corpus) -> list[dict[str, Any]]:
    """Return a few queries of the retrieval in `out` with what they found, as `retrieved` in facts.json."""
    retrieved, recipe = open_retrieved(out), RetrieveRecipe(**files.read_record(out / CLAIM)["recipe"])
    index = cached_index(corpus, out, analyzer=recipe.analyzer, k1=recipe.k1, b=recipe.b)
    return [asdict(query) for query in shown_queries(retrieved.selection, corpus, index)]


def work(*, out: Path, watch: Watch, task: Path, corpus: Path, **recipe_settings: Any) -> dict[str, Any]:
    """Retrieve for a prepared task, as a job (jobs/job.py), and return the facts. recipe_settings: its fields."""
    from acclimate.tasks.prepared import open_prepared

    prepared = open_prepared(task)
    splits = {split: prepared.examples(split) for split in SPLITS}
    return retrieve_for(Corpus(corpus), splits, out, RetrieveRecipe(**recipe_settings), watch=watch).facts


def _claim(out: Path, claim: dict[str, Any]) -> None:
    place = out / CLAIM
    if not place.exists():
        out.mkdir(parents=True, exist_ok=True)
        files.write_record(place, claim)
    elif files.read_record(place) != claim:
        raise ValueError(
            f"{out} belongs to a retrieval with other settings or inputs, see {place}. Choose another "
            f"{option('out')}, or remove this one"
        )


def _queries(rows: Sequence[Example], recipe: RetrieveRecipe) -> tuple[list[Query], dict[str, int]]:
    """Return the queries, one for each text (even without words), and counts of their words."""
    queries, words, shortened = [], 0, 0
    for row in rows:
        text = text_and_pair(row)
        query = text if recipe.queries == "text" else keyword_query(text, recipe.phrases)
        count, query_size = len(text.split()), len(query.split())
        words, shortened = words + count, shortened + (query_size < count)
        queries.append((row.id, query))
    query_size = sum(len(query.split()) for _, query in queries)
    return queries, {"words": words, "asked_words": query_size, "shortened": shortened}


def cached_index(
    corpus: Corpus,
    out: Path,
    *,
    analyzer: str,
    k1: float,
    b: float,
    shards: int = 1,
    pool: Pool | None = None,
    watch: Watch = unwatched,
) -> ShardedIndex:
    """Return the BM25 index of a corpus from the user's cache directory, which all runs share, or build it there.

    If the cache cannot be written, the index is in `out`.
    """
    name = f"{corpus.hash[:16]}-{analyzer}-{float(k1)}-{float(b)}-{shards}"
    place = _place(out) / name
    return build_shards(corpus, place, shards=shards, pool=pool, k1=k1, b=b, analyzer=analyzer, watch=watch)


def _place(out: Path) -> Path:
    place = files.cache() / "retrieval"
    try:
        place.mkdir(parents=True, exist_ok=True)
        files.write_text(
            place / "README.txt", "BM25 indexes of `acclimate data retrieve`; removed files are built again.\n"
        )
    except OSError:
        return out / "index"
    return place


def _selected(
    corpus: Corpus,
    index: ShardedIndex,
    queries: Sequence[Query],
    out: Path,
    recipe: RetrieveRecipe,
    *,
    mask: np.ndarray,
    watch: Watch,
) -> Selection:
    """Return what the queries retrieve, or a sample of as many documents. mask: True for documents to leave out."""

    def alike(documents: np.ndarray) -> np.ndarray:
        return repeats([document.text for document in corpus.take(documents.tolist())], near=recipe.near)

    dropping = alike if recipe.duplicates == "near" else None
    place = out / (SELECTION if recipe.how == "bm25" else LIKE)
    if not (place / files.MANIFEST).exists():
        select(index, queries, place, k=recipe.k, left_out=mask, dropping=dropping, watch=watch)
    selection = open_selection(place)
    if recipe.how == "bm25":
        return selection
    if not (out / SELECTION / files.MANIFEST).exists():
        options: dict[str, Any] = {"seed": recipe.seed, "left_out": mask, "dropping": dropping}
        if recipe.how == "dsir":
            texts = (text for _, text in queries)
            options["log_weights"] = log_weights(texts, corpus, analyzer=recipe.analyzer, left_out=mask, watch=watch)
        sample_like(selection, len(corpus), out / SELECTION, **options)
    return open_selection(out / SELECTION)


def _write_corpus(documents: Iterable[Document], size: int, out: Path, watch: Watch) -> None:
    if not (out / CORPUS / "corpus.json").exists():
        write_corpus(counted(documents, watch, "writing", total=size), out / CORPUS)


def _finished(out: Path, record: dict[str, Any], watch: Watch) -> Retrieved:
    """Write facts and report, which finish the retrieval, and return it."""
    selection = open_selection(out / (LIKE if (out / LIKE).exists() else SELECTION))
    facts = record | {"asked": describe_queries(selection)}
    facts |= describe_documents(open_selection(out / SELECTION), Corpus(out / CORPUS), watch)
    files.write_text(out / REPORT, as_text(facts, WIDTH))
    files.write_record(out / FACTS, facts)
    return open_retrieved(out)
