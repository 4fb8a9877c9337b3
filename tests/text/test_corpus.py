import hashlib
import os
import socket
import subprocess
import threading

import pytest

from acclimate.core.files import DamagedError, seal
from acclimate.core.types import Document
from acclimate.text import corpus as corpus_module
from acclimate.text.corpus import Corpus, write_corpus

DOCUMENTS = [Document(str(number), f"text {number} ü", "source" * (number % 2)) for number in range(30)]


def test_documents_come_back_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "_BATCH_CHARACTERS", 50)
    corpus = write_corpus(iter(DOCUMENTS), tmp_path / "corpus")
    assert list(corpus.documents()) == DOCUMENTS
    assert list(Corpus(corpus.path).documents()) == DOCUMENTS
    assert len(corpus) == 30
    assert corpus.characters == sum(len(document.text) for document in DOCUMENTS)


def test_hash_covers_id_text_source_and_order_but_not_record_batches(tmp_path, monkeypatch):
    def hash_of(documents):
        return write_corpus(documents, tmp_path / str(len(list(tmp_path.iterdir())))).hash

    a, b = Document("i", "text", "source"), Document("j", "other")
    expected = hashlib.sha256()
    for value in (a.id, a.text, a.source):
        expected.update(len(value).to_bytes(8, "little") + value.encode())
    assert hash_of([a]) == expected.hexdigest()
    hashes = {hash_of(documents) for documents in ([a, b], [b, a], [a], [Document("it", "ext", "source")])}
    assert len(hashes) == 4
    monkeypatch.setattr(corpus_module, "_BATCH_DOCUMENTS", 1)
    assert hash_of([a, b]) in hashes


def test_white_space_is_left_out_and_counted(tmp_path):
    corpus = write_corpus([Document("1", " \n"), Document("2", "text"), Document("3", "")], tmp_path / "corpus")
    assert [document.id for document in corpus.documents()] == ["2"]
    assert (len(corpus), corpus.empty) == (1, 2)


def test_corpus_is_never_overwritten(tmp_path):
    path = write_corpus(DOCUMENTS, tmp_path / "corpus").path
    with pytest.raises(FileExistsError, match="already contains a corpus"):
        write_corpus(iter(()), path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match="is neither an empty folder"):
        write_corpus(DOCUMENTS, tmp_path / "taken")


def test_later_of_two_writers_is_refused(tmp_path):
    def documents():
        yield DOCUMENTS[0]
        write_other(tmp_path / "corpus")

    def write_other(path):
        other = write_corpus([DOCUMENTS[1]], tmp_path / "other")
        other.path.rename(path)

    with pytest.raises(FileExistsError, match="already contains a corpus"):
        write_corpus(documents(), tmp_path / "corpus")
    assert list(Corpus(tmp_path / "corpus").documents()) == [DOCUMENTS[1]]
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


@pytest.mark.parametrize("documents", [[], [Document("1", " ")]])
def test_empty_corpus_is_refused_and_leaves_nothing(tmp_path, documents):
    with pytest.raises(ValueError, match="no document to write"):
        write_corpus(documents, tmp_path / "corpus")
    assert not list(tmp_path.iterdir())


def test_half_a_surrogate_pair_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="document 'odd': character 1 is half a surrogate pair"):
        write_corpus([Document("odd", "a\ud800")], tmp_path / "corpus")


def test_folder_without_a_corpus_is_refused_and_one_whose_facts_were_removed_is_damaged(tmp_path):
    with pytest.raises(ValueError, match=r"contains no corpus.*write_corpus"):
        list(Corpus(tmp_path).documents())
    corpus = write_corpus([Document("one", "a text")], tmp_path / "corpus")
    (corpus.path / "corpus.json").unlink()
    with pytest.raises(DamagedError, match=r"corpus\.json"):
        list(Corpus(corpus.path).documents())


def test_other_format_versions_are_refused(tmp_path):
    path = write_corpus(DOCUMENTS, tmp_path / "corpus").path
    facts = path / "corpus.json"
    facts.write_text(facts.read_text().replace('"version": 1', '"version": 99'))
    with pytest.raises(DamagedError, match=r"corpus\.json is damaged"):
        len(Corpus(path))
    seal(path)
    with pytest.raises(ValueError, match="format 99, but this release reads 1"):
        len(Corpus(path))


def test_each_tokenizer_has_its_own_tokens(corpus, tokenizers):
    paths = {corpus.tokens(tokenizer).path for tokenizer in tokenizers.values()}
    assert len(paths) == len(tokenizers)


def test_tokens_asked_for_at_once_are_built_once(corpus, tokenizers, monkeypatch):
    builds = []
    build = corpus_module.build_tokens

    def counted(*arguments, **settings):
        builds.append(threading.get_ident())
        build(*arguments, **settings)

    monkeypatch.setattr(corpus_module, "build_tokens", counted)
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(Corpus(corpus.path).tokens(tokenizers["unigram"])))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds) == 1
    assert len(results) == 4


def test_tokens_of_another_corpus_are_refused(corpus, tokenizers, tmp_path):
    other = write_corpus(DOCUMENTS, tmp_path / "other")
    corpus.tokens(tokenizers["unigram"])
    (corpus.path / "tokens").rename(other.path / "tokens")
    with pytest.raises(ValueError, match="contains the tokens of another corpus"):
        other.tokens(tokenizers["unigram"])


def test_documents_are_taken_by_number_in_the_order_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("acclimate.text.corpus._BATCH_DOCUMENTS", 3)
    documents = [Document(f"d{number}", f"text {number}", f"source {number % 2}") for number in range(10)]
    corpus = write_corpus(documents, tmp_path / "corpus")
    numbers = [9, 0, 3, 3, 2, 5]
    assert list(corpus.take(numbers)) == [documents[number] for number in numbers]
    for wrong in (-1, 10):
        with pytest.raises(IndexError, match=f"has 10 documents, so the number {wrong}"):
            list(corpus.take([wrong]))


@pytest.mark.parametrize("file", ["documents.arrow", "corpus.json", "ids.bin", "word_starts.bin", "tokens.json"])
@pytest.mark.parametrize(
    "harm", [lambda content: content[:-9] + bytes([content[-9] ^ 4]) + content[-8:], lambda c: b""]
)
def test_a_changed_file_of_a_corpus_or_its_tokens_is_refused_by_name(file, harm, corpus, tokenizers):
    corpus.tokens(tokenizers["bytes"])
    [path] = corpus.path.rglob(file)
    path.write_bytes(harm(path.read_bytes()))
    again = Corpus(corpus.path)
    with pytest.raises(ValueError, match=rf"{file}.*[Rr]emove"):
        (next(again.documents()), again.tokens(tokenizers["bytes"]))


def test_what_a_killed_writer_left_beside_the_corpus_is_removed_and_what_others_write_is_not(tmp_path):
    path, machine = tmp_path / "corpus", socket.gethostname()
    ended = subprocess.Popen(["true"])
    ended.wait()
    own = f"{machine}-{os.stat('/proc/self/ns/pid').st_ino}"
    left = [f"corpus.{own}-{ended.pid}", f".corpus.{own}-{ended.pid}.tmp"]
    kept = [f".corpus.{own}-{os.getppid()}.tmp", f".corpus.elsewhere-{ended.pid}.tmp", "corpus.7"]
    for name in (*left, *kept):
        (tmp_path / name).mkdir()
        (tmp_path / name / "documents.arrow").touch()
    write_corpus(DOCUMENTS, path)
    assert {each.name for each in tmp_path.iterdir()} == {"corpus", *kept}
