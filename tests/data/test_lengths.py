"""Lengths and pieces of small texts under a vocabulary that is known piece by piece."""

import json

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertTokenizer, PreTrainedTokenizerFast

from acclimate.core.types import Example
from acclimate.data import lengths
from acclimate.data.examination import Lengths, Pieces
from acclimate.models.configuration import longest_input
from acclimate.models.encoder import save_model
from acclimate.models.loading import load_tokenizer
from acclimate.tasks.rows import encode_rows
from families import FAMILIES

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PARTS = (*"abcdefgh", *(f"##{letter}" for letter in "abcdefgh"), "heart", "the", "nal", "##ox", "##one", ".", "9")


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(vocab={word: number for number, word in enumerate((*SPECIAL, *PARTS))})


@pytest.fixture(scope="module")
def model(tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "bert"
    save_model(FAMILIES["bert"](), tokenizer, path)
    return path


def pieces_of(by, *texts):
    given = [(text, None) for text in texts]
    return lengths.pieces("task", given, lengths.tokenised(given, by), by)


def lengths_of(by, limit, *texts):
    return lengths.lengths(list(texts), lengths.tokenised(texts, by), limit, by)


def test_pieces_are_counted_by_word(model):
    found = pieces_of(lengths.reader(str(model)), "The heart, naloxone. Naloxone zz the.", "the abcd 999")
    # the heart naloxone naloxone zz the / the abcd 999; the comma and zz are unknown
    assert (found.texts, found.words) == (2, 9)
    assert found.per_word == pytest.approx((1 + 1 + 3 + 3 + 1 + 1 + 1 + 4 + 1) / 9)
    assert found.whole == pytest.approx(6 / 9)
    assert found.unknown == pytest.approx(3 / 19)  # zz, the comma and 999
    assert found.broken == (("naloxone", 3, 2), ("abcd", 4, 1))
    assert pieces_of(lengths.reader(str(model)), "...", "") is None


def test_lengths_count_special_tokens_and_both_texts_of_a_pair(model, tokenizer):
    by = lengths.reader(str(model))
    pairs = [("the heart", None), ("abcd", "naloxone"), ("the " * 70, None)]
    counted = [len(tokenizer(text, pair)["input_ids"]) for text, pair in pairs]
    found = lengths_of(by, 10, *pairs)
    assert counted == [4, 10, 72]
    assert (found.median, found.longest, found.reads) == (10, 72, 64)
    assert (found.over_limit, found.over_reads) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert found.cut == pytest.approx(62 / 86)
    assert found.suggested == 64  # 96 would be needed, but the model reads no more
    assert lengths_of(by, 72, *pairs).suggested is None


def test_a_text_too_long_to_tokenise_is_judged_by_its_beginning(model):
    found = lengths_of(lengths.reader(str(model)), 64, ("the " * 50_000, None))
    assert found.longest == 50_002


def test_without_a_model_lengths_are_words():
    found = lengths.lengths_in_words([("one two three.", None), ("four", "five, six")], 64)
    assert (found.unit, found.median, found.longest, found.reads) == ("words", 3, 3, None)


def test_a_sample_is_the_same_every_time_bounded_and_in_order():
    texts = [(f"{number} " * 10, None) for number in range(5_000)]
    taken = lengths.bounded_sample(texts)
    assert len(taken) == 2_000
    assert taken == lengths.bounded_sample(texts)
    assert [int(text.split()[0]) for text, _ in taken] == sorted(int(text.split()[0]) for text, _ in taken)
    assert lengths.bounded_sample(texts[:30]) == texts[:30]
    assert len(lengths.bounded_sample([("long " * 10_000, None)] * 500)) == lengths.LEAST


def test_sentence_pieces_belong_to_the_word_that_they_end_in():
    raw = Tokenizer(models.Unigram([("<unk>", -9.0), ("▁the", -1.0), ("▁he", -1.5), ("art", -1.5)], unk_id=0))
    raw.normalizer = normalizers.Lowercase()
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    by = lengths.Reader(raw, None, 0)
    found = pieces_of(by, "The heart the heart")
    assert (found.words, found.per_word, found.whole) == (4, 1.5, 0.5)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_directory_reads_is_what_transformers_says(family, tokenizer, tmp_path):
    save_model(FAMILIES[family](), tokenizer, tmp_path / "model")
    by = lengths.reader(str(tmp_path / "model"))
    assert by.reads == longest_input(tmp_path / "model")
    text = "The heart, naloxone. zz"
    assert by.tokenizer.encode(text).ids == load_tokenizer(tmp_path / "model")(text)["input_ids"]
    assert by.unknown == 1


def test_a_tokenizer_that_cuts_and_pads_by_itself_is_kept_from_it(tmp_path, model, tokenizer):
    raw = Tokenizer.from_file(str(model / "tokenizer.json"))
    raw.enable_truncation(8)
    raw.enable_padding(length=8)
    raw.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    save_model(FAMILIES["bert"](), tokenizer, tmp_path / "model")
    raw.save(str(tmp_path / "model" / "tokenizer.json"))
    by = lengths.reader(str(tmp_path / "model"))
    assert lengths_of(by, 64, ("the " * 20, None), ("the", None)).longest == 22


def test_a_model_without_tokenizer_or_safe_weights_is_refused_with_the_reason(tmp_path, model, tokenizer):
    save_model(FAMILIES["bert"](), tokenizer, tmp_path / "bare")
    (tmp_path / "bare" / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="no tokenizer"):
        lengths.reader(str(tmp_path / "bare"))
    save_model(FAMILIES["bert"](), tokenizer, tmp_path / "pickled")
    (tmp_path / "pickled" / "model.safetensors").rename(tmp_path / "pickled" / "pytorch_model.bin")
    with pytest.raises(ValueError, match="only pickled weights"):
        lengths.reader(str(tmp_path / "pickled"))
    save_model(FAMILIES["bert"](), tokenizer, tmp_path / "broken")
    (tmp_path / "broken" / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match="not a readable tokenizer"):
        lengths.reader(str(tmp_path / "broken"))


def test_what_lengths_mean():
    def said(**changed):
        values = {"over_limit": 0.5, "cut": 0.2, "suggested": 96, **changed}
        measured = Lengths("tokens", 9, 50, 90, 99, values.pop("limit", 64), values.pop("reads", 512), **values)
        return [(each.level, each.way_out) for each in lengths.findings(measured, [])]

    assert said() == [("warning", "--max-tokens 96 reads more of them but takes longer.")]
    assert said(over_limit=0.0, cut=0.0, suggested=None) == []
    assert said(over_limit=0.01, cut=0.01, suggested=None) == [("note", "")]
    [(level, way)] = said(limit=512, suggested=None)
    assert (level, "cannot read more" in way) == ("warning", True)
    assert said(limit=600, over_limit=0.0, suggested=None) == [("error", "Give --max-tokens 512 or less.")]


def test_what_pieces_mean():
    measured = Lengths("tokens", 9, 50, 60, 64, 64, 512)
    task = Pieces("task", 9, 900, 1.8, 0.5, 0.0)

    def said(*pieces):
        return [each.what for each in lengths.findings(measured, pieces)]

    assert "1.80 pieces per word:" in said(task)[0]
    assert "1.80 pieces per word, 1.30 in general text" in said(task, Pieces("general", 9, 900, 1.3, 0.8, 0.0))[0]
    assert said(task, Pieces("general", 9, 900, 1.7, 0.6, 0.0)) == []
    assert "4.0% of the pieces are unknown" in said(Pieces("task", 9, 900, 1.2, 0.9, 0.04))[0]
    for unknown, level in ((0.04, "warning"), (0.002, "note")):
        [finding] = lengths.findings(measured, [Pieces("task", 9, 900, 1.2, 0.9, unknown)])
        assert finding.level == level
        assert ("Choose a model" in finding.way_out) == (level == "warning")


def test_the_settings_of_a_tokenizer_may_write_a_token_as_an_object(tmp_path, tokenizer):
    save_model(FAMILIES["bert"](), tokenizer, tmp_path / "model")
    stated = tmp_path / "model" / "tokenizer_config.json"
    stated.write_text(json.dumps({**json.loads(stated.read_text()), "unk_token": {"content": "[UNK]"}}))
    assert lengths.reader(str(tmp_path / "model")).unknown == 1


def test_a_fast_tokenizer_without_tokenizer_file_comes_by_way_of_transformers(tmp_path, tokenizer, monkeypatch):
    save_model(FAMILIES["bert"](), tokenizer, tmp_path / "model")
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, unk_token="[UNK]")
    monkeypatch.setattr("acclimate.models.loading.load_tokenizer", lambda model: wrapped)
    (tmp_path / "model" / "tokenizer.json").unlink()
    by = lengths.reader(str(tmp_path / "model"))
    assert (by.reads, by.unknown) == (64, 1)
    assert pieces_of(by, "naloxone").per_word == 3


@pytest.mark.parametrize("kind", ["sequence", "score", "tokens"])
@pytest.mark.parametrize("paired", [False, True])
def test_lengths_of_rows_are_those_of_the_rows_that_training_reads(model, kind, paired):
    words = ("the", "heart", "naloxone", "abcd", "zz")
    examples = [
        Example(str(size), " ".join(words[:5] * size), "", pair="the heart" if paired and size % 2 else None)
        for size in range(1, 9)
    ]
    found = lengths.row_lengths(examples, kind, 24, lengths.reader(str(model)))
    assert found.tolist() == encode_rows(examples, load_tokenizer(model), 24, kind).lengths.tolist()
    assert found.max() == 24
