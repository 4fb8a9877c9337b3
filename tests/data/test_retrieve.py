"""Retrieval for a task, from texts to a corpus: clean of dev and test, the same at every K, counted."""

import random

import pytest

from acclimate.core import files
from acclimate.core.types import Document, Example
from acclimate.data import retrieve
from acclimate.data.leaks import Sealed, leak_kind
from acclimate.data.retrieve import RetrieveRecipe, cached_index, cut_retrieval, open_retrieved, retrieve_for
from acclimate.data.retrieved import as_text, bracketed
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.overlap.groups import repeats
from acclimate.text.overlap.words import normalised_words

TOPICS = {name: [f"{name}{number}" for number in range(40)] for name in ("cell", "star", "law")}
PLAIN = ("the", "of", "and", "in", "was", "that", "with")
CHOICES = {
    "plain": {},
    "keywords": {"queries": "keywords", "phrases": 3},
    "copies": {"duplicates": "keep"},
    "near": {"duplicates": "near"},
    "passages": {"passages": "drop"},
    "random": {"how": "random", "seed": 4},
    "random, near": {"how": "random", "duplicates": "near"},
    "dsir": {"how": "dsir", "seed": 4},
}


def text(topic: str, words: int, generator: random.Random) -> str:
    return " ".join(generator.choice(TOPICS[topic] if generator.random() < 0.5 else PLAIN) for _ in range(words))


@pytest.fixture(scope="module")
def splits() -> dict:
    generator = random.Random(0)
    splits: dict = {}
    for split, size in (("train", 20), ("dev", 8), ("test", 12)):
        topics = generator.choices(["cell", "star"], k=size)
        splits[split] = [Example(f"{split}{at}", text(topic, 30, generator), topic) for at, topic in enumerate(topics)]
    return splits


@pytest.fixture(scope="module")
def corpus(splits, tmp_path_factory) -> Corpus:
    """Of three topics, two of which the task has; with dev and test texts, copies and near-duplicates among them."""
    generator = random.Random(1)
    texts = [(text(topic, generator.randint(20, 60), generator), topic) for topic in [*TOPICS] * 80]
    sealed = [row.text for split in ("dev", "test") for row in splits[split]]
    texts += [(sealed[0], "leak"), (f"First. {sealed[9]}, and more.", "leak"), (sealed[10] + " changed", "leak")]
    texts += [(" ".join(sealed[5].split()[:16]) + " " + text("cell", 20, generator), "part")]
    texts += [(texts[place][0].upper(), "copy") for place in range(0, 60, 3)]
    texts += [(texts[place][0] + " x", "near") for place in range(1, 60, 3)]
    generator.shuffle(texts)
    documents = (Document(f"d{place}", each, source) for place, (each, source) in enumerate(texts))
    return write_corpus(documents, tmp_path_factory.mktemp("retrieving") / "corpus")


@pytest.fixture(scope="module")
def retrieved(corpus, splits, tmp_path_factory):
    """What each choice of settings retrieves, done once."""
    place = tmp_path_factory.mktemp("retrieved")

    def get(name: str, k: int = 12):
        return retrieve_for(corpus, splits, place / f"{name}-{k}", RetrieveRecipe(k=k, **CHOICES[name]))

    return get


def texts_of(corpus: Corpus) -> list[str]:
    return [document.text for document in corpus.documents()]


@pytest.mark.parametrize("choice", CHOICES)
def test_no_document_holds_a_dev_or_test_text(choice, retrieved, splits):
    documents = [(document.id, document.text) for document in retrieved(choice).corpus.documents()]
    found = [match for _, _, matches in Sealed(splits).match_documents(documents) for match in matches]
    allowed = set() if choice == "passages" else {"passage"}
    assert {leak_kind(match) for match in found} <= allowed


def test_the_corpus_is_the_selections_documents_as_they_were(retrieved, corpus):
    done = retrieved("plain")
    assert list(done.corpus.documents()) == list(corpus.take(done.selection.documents.tolist()))


@pytest.mark.parametrize("choice", CHOICES)
def test_a_cut_is_the_retrieval_with_the_smaller_k(choice, retrieved, tmp_path):
    large, small = retrieved(choice), retrieved(choice, 5)
    made = cut_retrieval(large.corpus.path.parent, 5, tmp_path / "cut")
    assert made.corpus.hash == small.corpus.hash
    assert made.selection.documents.tolist() == small.selection.documents.tolist()
    assert made.facts == small.facts
    for name in (retrieve.CLAIM, retrieve.REPORT):
        assert (tmp_path / "cut" / name).read_text() == (small.corpus.path.parent / name).read_text()


def test_every_query_gets_k_clean_documents_and_they_are_the_best(retrieved, corpus, splits):
    """Against a search of the corpus without those left out, but with the same index: ranks have no gaps."""
    done = retrieved("plain")
    index = cached_index(corpus, files.cache(), analyzer="words", k1=1.2, b=0.75)
    mask = retrieve.leave_out(
        corpus, Sealed(splits), done.corpus.path.parent / "left-out", passages=False, watch=lambda progress: None
    ).mask(copies=True)
    hits = index.search([row.text for row in splits["train"]], len(corpus))
    for query in range(len(splits["train"])):
        best = [number for number in hits.documents_for(query)[0].tolist() if not mask[number]][:12]
        assert done.selection.documents_for(query)[0].tolist() == best
        assert done.selection.documents_for(query)[1].tolist() == list(range(1, 13))


def test_what_is_left_out_is_counted(retrieved, corpus):
    facts = retrieved("plain").facts
    assert facts["left_out"] == {"leaking": 3, "passages": 1, "copies": 20}
    assert {(leak["within"], leak["kind"]) for leak in facts["leaks"]} >= {("dev", "exact"), ("dev", "passage")}
    copied = retrieved("copies", 400)
    whole = [normalised_words(each) for each in texts_of(corpus)]
    kept = [normalised_words(each) for each in texts_of(copied.corpus)]
    assert len(kept) > len(set(kept))
    assert len(whole) - len(set(whole)) == 20


def test_copies_are_left_out_and_near_ones_where_asked_for(retrieved):
    plain, near = retrieved("plain", 400), retrieved("near", 400)
    words = [normalised_words(each) for each in texts_of(plain.corpus)]
    assert len(set(words)) == len(words)
    assert repeats(texts_of(plain.corpus)).any()
    assert not repeats(texts_of(near.corpus)).any()
    assert near.selection.similar == len(plain.selection) - len(near.selection) > 0


def test_bm25_and_dsir_bring_the_tasks_topics_and_chance_does_not(retrieved):
    def share(name: str) -> float:
        sources = retrieved(name).facts["retrieved_sources"]
        return sources.get("law", 0) / sum(sources.values())

    assert share("plain") < 0.1
    assert share("dsir") < 0.1
    assert len(retrieved("dsir").selection) == len(retrieved("plain").selection)
    assert share("random") > 0.2


def test_queries_are_counted(retrieved, corpus, splits, tmp_path):
    odd = [*splits["train"], Example("empty", "...", "cell"), Example("unknown", "zebra", "cell")]
    done = retrieve_for(corpus, {**splits, "train": odd}, tmp_path / "run", RetrieveRecipe(k=3))
    assert done.facts["asked"] == {"queries": 22, "unhit": 2, "short": 2}
    assert done.facts["queries"]["shortened"] == 0
    few = retrieved("keywords").facts
    assert few["queries"]["shortened"] == 20
    assert few["queries"]["asked_words"] < few["queries"]["words"]


def test_both_texts_of_a_pair_ask(corpus, tmp_path):
    pair = Example("p", TOPICS["cell"][0], "x", TOPICS["law"][0])
    done = retrieve_for(corpus, {"train": [pair]}, tmp_path / "run", RetrieveRecipe(k=5))
    assert done.selection.query(0) == ("p", f"{TOPICS['cell'][0]} {TOPICS['law'][0]}")


def test_examples_say_why_a_document_was_retrieved(retrieved, splits):
    shown = retrieved("plain").facts["examples"]
    assert len(shown) > 0
    for example in shown:
        asked = next(row.text for row in splits["train"] if row.id == example["query_id"])
        words = {word for word, _ in example["terms"]}
        assert words <= set(asked.lower().split())
        assert words <= set(normalised_words(example["passage"]).split())
        assert sum(part for _, part in example["terms"]) == pytest.approx(example["score"], abs=0.02)


def test_the_report_has_the_figures(retrieved, corpus):
    done = retrieved("plain")
    page = (done.corpus.path.parent / "report.txt").read_text()
    assert page == done.as_text()
    assert f"Retrieved: {len(done.selection)} documents of {len(corpus)} (" in page
    assert "20 queries, one per training text, each a whole text" in page
    assert "Without a hit: 0. With fewer than 12 documents: 0." in page
    assert "3 documents removed from the corpus because of a dev or test text." in page
    assert "20 copies of an earlier document left out." in page
    assert max(map(len, page.splitlines())) <= 110


def test_a_k_that_no_corpus_could_fill_is_told(retrieved, corpus):
    facts = retrieved("plain").facts
    beyond = facts | {"recipe": facts["recipe"] | {"k": len(corpus) + 1}}
    assert f"exceeds the {len(corpus):,} documents of the corpus, so" in " ".join(as_text(beyond).split())
    assert "documents of the corpus, so" not in as_text(facts)


def test_overlap_is_marked():
    assert bracketed("Aorta of the aorta; Aortic.", {"aorta", "of"}) == "[Aorta] [of] the [aorta]; Aortic."


def test_the_same_again_does_nothing_and_other_settings_are_refused(corpus, splits, tmp_path, monkeypatch):
    first = retrieve_for(corpus, splits, tmp_path / "run", RetrieveRecipe(k=3))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    monkeypatch.setattr(retrieve, "cached_index", None)
    assert retrieve_for(corpus, splits, tmp_path / "run", RetrieveRecipe(k=3)).facts == first.facts
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before
    with pytest.raises(ValueError, match=r"belongs to a retrieval with other settings or inputs, see .*retrieval.json"):
        retrieve_for(corpus, splits, tmp_path / "run", RetrieveRecipe(k=4))
    with pytest.raises(ValueError, match="other settings or inputs"):
        retrieve_for(corpus, {**splits, "test": splits["test"][1:]}, tmp_path / "run", RetrieveRecipe(k=3))


@pytest.mark.parametrize(
    ("stop", "how"),
    [
        *((stop, "bm25") for stop in ("leave_out", "cached_index", "_selected", "_write_corpus", "_finished")),
        ("_selected", "random"),
    ],
)
def test_a_stopped_retrieval_goes_on_to_the_same_end(stop, how, corpus, *, splits, retrieved, tmp_path, monkeypatch):
    real = getattr(retrieve, stop)

    def stopped(*given, **named):
        real(*given, **named)
        raise KeyboardInterrupt

    if stop == "_finished":  # before the end, not after it
        real = lambda *given: None  # noqa: E731
    monkeypatch.setattr(retrieve, stop, stopped)
    given = {**CHOICES["random"]} if how == "random" else {}
    with pytest.raises(KeyboardInterrupt):
        retrieve_for(corpus, splits, tmp_path / "run", RetrieveRecipe(k=5, **given))
    with pytest.raises(ValueError, match="contains no selection: no `acclimate data retrieve` has finished there"):
        open_retrieved(tmp_path / "run")
    monkeypatch.undo()
    done = retrieve_for(corpus, splits, tmp_path / "run", RetrieveRecipe(k=5, **given))
    whole = retrieved("random" if how == "random" else "plain", 5)
    assert done.facts == whole.facts
    assert done.corpus.hash == whole.corpus.hash


def test_the_index_is_built_once_for_all_runs_and_for_each_setting(corpus, splits, retrieved, tmp_path):
    retrieved("plain")
    [place] = (files.cache() / "retrieval").glob(f"{corpus.hash[:16]}-words-*")
    before = {path: path.stat().st_mtime_ns for path in place.glob("shard-*/*")}
    assert before
    retrieve_for(corpus, splits, tmp_path / "run", RetrieveRecipe(k=2))
    assert {path: path.stat().st_mtime_ns for path in place.glob("shard-*/*")} == before
    for k1 in (0.0, 0.9, 0.9000001):
        retrieve_for(corpus, splits, tmp_path / str(k1), RetrieveRecipe(k=2, k1=k1))
    found = [place.name for place in (files.cache() / "retrieval").glob(f"{corpus.hash[:16]}-words-0*")]
    assert sorted(name.split("-")[2] for name in found) == ["0.0", "0.9", "0.9000001"]


def test_a_cache_that_cannot_be_written_stops_nothing(corpus, splits, retrieved, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path / "file" / "cache"))
    done = retrieve_for(corpus, splits, tmp_path / "run", RetrieveRecipe(k=5))
    assert done.corpus.hash == retrieved("plain", 5).corpus.hash
    assert (tmp_path / "run" / "index").is_dir()


def test_training_texts_are_needed_and_no_sealed_ones(corpus, splits, tmp_path):
    done = retrieve_for(corpus, {"train": splits["train"]}, tmp_path / "run", RetrieveRecipe(k=5))
    assert done.facts["left_out"]["leaking"] == 0
    with pytest.raises(ValueError, match="no training text"):
        retrieve_for(corpus, {"train": []}, tmp_path / "none")


def test_shards_change_nothing_but_the_place_of_the_index(retrieved, corpus, splits, tmp_path):
    done = retrieved("plain")
    recipe = retrieve.RetrieveRecipe(**files.read_json(done.corpus.path.parent / retrieve.CLAIM)["recipe"])
    spread = retrieve.retrieve_for(corpus, splits, tmp_path / "spread", recipe, shards=3)
    assert spread.corpus.hash == done.corpus.hash
    assert spread.facts == done.facts
    with pytest.raises(ValueError, match="cluster"):
        retrieve.retrieve_for(corpus, splits, tmp_path / "nowhere", recipe, cluster="127.0.0.1:1")
    assert not (tmp_path / "nowhere" / retrieve.LEFT_OUT).exists()
