"""Against the official tool's file and vectors, plain transcriptions of its equations, and a little real text."""

import gzip
import json
import math
import random
import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from acclimate.text.vectors import training
from acclimate.text.vectors.files import open_bin, write_bin
from acclimate.text.vectors.kernels import WHOLE, train_lines
from acclimate.text.vectors.skipgram import Skipgram
from acclimate.text.vectors.training import (
    NumberedText,
    alias_table,
    negative_distribution,
    ngrams,
    number_words,
    parts,
    retention,
    train_rows,
)
from acclimate.text.vectors.vectors import open_vectors, train_vectors
from skipgram_loss import skipgram_loss

# fasttext 0.9.3: train_unsupervised(text, "skipgram", dim=8, bucket=300, minCount=2, epoch=3, thread=10, minn=2,
# maxn=4, neg=3, ws=3), then save_model, and get_word_vector for the words of the .json
OFFICIAL = Path(__file__).parent / "data" / "official.bin"
PUBMED = Path(__file__).parents[4] / "shared" / "data" / "dga" / "pubmed" / "train.jsonl.gz"
ACL = PUBMED.parents[1] / "acl" / "train.jsonl.gz"
SMALL = Skipgram(dim=8, epochs=2, min_count=1, shortest=2, longest=4, buckets=300, threads=1, sample=1.0)
STILL = replace(SMALL, rate=1e-12)
TEXTS = [
    "Naloxone reverses the hypotension of conscious rats.\nThe rats rose, and fell.",
    "The blood pressure of (naïve) rats; banana protein\0in the blood.\n\n",
]


def texts():
    return iter(TEXTS)


# the official tool's file


def test_vectors_are_those_of_the_official_tool():
    expected = json.loads(OFFICIAL.with_suffix(".json").read_text(encoding="utf-8"))
    vectors, found = open_vectors(OFFICIAL).look_up(list(expected))
    assert np.abs(vectors - np.array(list(expected.values()))).max() < 1e-6
    assert found.all()


def test_a_word_without_rows_has_no_vector(tmp_path):
    """Too short for an n-gram of three characters, or the line's end where that is no word."""
    settings = replace(SMALL, shortest=3, min_count=2)
    vectors, found = open_vectors(train_vectors(lambda: ["a b a b"], tmp_path / "out.bin", settings)).look_up(
        ["", "</s>", "a"]
    )
    assert found.tolist() == [False, False, True]
    assert not vectors[:2].any()


def spelt_ngrams(word, shortest, longest):
    framed = f"<{word}>"
    sizes = range(shortest, longest + 1)
    return [framed[at : at + size] for size in sizes for at in range(len(framed) - size + 1)]


def test_a_word_is_mostly_unseen_if_over_half_of_its_ngrams_are_in_no_word_of_the_text(tmp_path):
    settings = replace(SMALL, shortest=3, longest=3)
    vectors = open_vectors(train_vectors(texts, tmp_path / "made.bin", settings))
    seen = {ngram for word in vectors.words for ngram in spelt_ngrams(word, 3, 3)}
    asked = ["rats", "ratsive", "xylophage", "bloodless", "ratsiv", "é", "naïve", "naxve", "rosexylo"]
    shares = [np.mean([ngram not in seen for ngram in spelt_ngrams(word, 3, 3)]) for word in asked]
    assert {share == 0.5 for share in shares} == {True, False}  # half is not mostly
    found = vectors.mostly_unseen(asked)
    assert found.tolist() == [share > 0.5 for share in shares]
    assert not found[0]
    assert found[2]
    assert vectors.look_up(asked)[1].all()  # each has a vector all the same: buckets are shared
    assert vectors.mostly_unseen([]).tolist() == []


def test_words_that_only_a_text_start_had_do_not_make_ngrams_seen(tmp_path):
    vec = tmp_path / "start.vec"
    vec.write_text("2 8\nrats " + "1 " * 8 + "\nxylophage " + "1 " * 8 + "\n")
    assert not open_vectors(vec).mostly_unseen(["xylophages", "xylophage"]).any()  # it has no n-grams
    gone_on = open_vectors(train_vectors(texts, tmp_path / "on.bin", SMALL, start=vec))
    assert gone_on.mostly_unseen(["xylophages", "xylophage", "ratsy"]).tolist() == [True, False, False]


def test_a_file_that_is_written_as_it_was_read_is_the_same_byte_for_byte(tmp_path):
    file = open_bin(OFFICIAL)
    again = tmp_path / "again.bin"
    write_bin(again, file.header, file.words, file.counts, file.read, inputs=[file.inputs], outputs=[file.outputs])
    assert again.read_bytes() == OFFICIAL.read_bytes()


def test_version_11_is_read_too(tmp_path):
    content = OFFICIAL.read_bytes()
    path = tmp_path / "older.bin"
    path.write_bytes(content[:4] + struct.pack("<i", 11) + content[8:])
    assert np.array_equal(open_vectors(path).look_up(["rats"])[0], open_vectors(OFFICIAL).look_up(["rats"])[0])


def naive_buckets(word, shortest, longest, buckets):
    word, found = f"<{word}>", []
    for begin in range(len(word)):
        for end in range(begin + 1, len(word) + 1):
            if shortest <= end - begin <= longest and word[begin:end] not in ("<", ">"):
                value = 2166136261
                for byte in word[begin:end].encode():
                    value = ((value ^ (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF) * 16777619 & 0xFFFFFFFF
                found.append(value % buckets)
    return sorted(found)


@pytest.mark.parametrize("sizes", [(1, 3), (3, 6), (2, 2)])
def test_ngrams_are_hashed_as_by_a_plain_transcription(sizes):
    words = ["banana", "ß", "日本語", "🙂x", "a", ""]
    begins, found = ngrams([*words, "</s>"], *sizes, 1_000)
    for place, word in enumerate(words):
        assert sorted(found[begins[place] : begins[place + 1]]) == naive_buckets(word, *sizes, 1_000)
    assert begins[-2] == begins[-1]


# files that cannot be used


def changed(offset, form, value):
    content = bytearray(OFFICIAL.read_bytes())
    struct.pack_into(form, content, offset, value)
    return bytes(content)


def quantised():
    file = open_bin(OFFICIAL)
    return changed(OFFICIAL.stat().st_size - file.inputs.nbytes - file.outputs.nbytes - 2 * 17, "<?", True)


DAMAGES = {
    "empty": (lambda: b"", "is empty"),
    "other": (lambda: b"not a model at all", "not a fastText .bin of version 11 or 12"),
    "old": (lambda: changed(4, "<i", 10), "not a fastText .bin of version 11 or 12"),
    "supervised": (lambda: changed(8 + 4 * 7, "<i", 3), "supervised"),
    "pruned": (lambda: changed(8 + 56 + 12 + 8, "<q", 5), "pruned"),
    "cut in the rows": (lambda: OFFICIAL.read_bytes()[:-1], "truncated"),
    "cut between matrices": (lambda: OFFICIAL.read_bytes()[: -17 - 32 * len(open_bin(OFFICIAL).words)], "truncated"),
    "cut in the words": (lambda: OFFICIAL.read_bytes()[:150], "truncated"),
    "cut in the settings": (lambda: OFFICIAL.read_bytes()[:20], "truncated"),
    "fewer than no words": (lambda: changed(8 + 56 + 4, "<i", -3), "damaged: it states -3 words"),
    "other dim": (lambda: changed(8, "<i", 9), "damaged"),
    "quantised": (quantised, "quantised"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(tmp_path, damage):
    content, said = DAMAGES[damage]
    path = tmp_path / "some.bin"
    path.write_bytes(content())
    with pytest.raises(ValueError, match=said) as error:
        open_vectors(path)
    assert str(path) in str(error.value)


def test_a_text_file_gives_its_vectors_as_they_are(tmp_path):
    path = tmp_path / "words.vec"
    path.write_text("3 2\nrats 0.5 -1.25 \nthe 1 2\nrats 7 7\n", encoding="utf-8")
    file = open_vectors(path)
    assert (file.words, file.dim, file.shortest) == (["rats", "the"], 2, 0)
    vectors, found = file.look_up(["the", "rat", "rats"])
    assert np.array_equal(vectors, [[1, 2], [0, 0], [0.5, -1.25]])
    assert found.tolist() == [True, False, True]


def test_a_text_file_that_is_damaged_is_named(tmp_path):
    path = tmp_path / "words.vec"
    for content, said in (
        ("rats 0.5 1\n", ":1: .*Add that line"),
        ("2 2\nrats 1 2\n", "1 of its words"),
        ("1 2\nrats 1\n", ":2: the word 'rats' has 1 values"),
        ("4 2\nthe 1 2\nthe 1 2\nof 1 2\nrats\n", ":5: the word 'rats' has 0 values"),
        ("1 -2\nrats\n", ":1: .*Add that line"),
        ("1 2\nrats 1 x\n", ":2: a value of the word 'rats' is no number"),
        ("1 2\nrats 1 nan\n", ":2: a value of the word 'rats' is no number"),
        ("1 2\r\nrats\r\n", ":2: the word 'rats' has 0 values"),
    ):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=said):
            open_vectors(path).look_up(["rats"])
    with pytest.raises(ValueError, match="does not exist"):
        open_vectors(tmp_path / "none.vec")


# the text


def test_text_is_read_in_lines_of_numbered_words(tmp_path):
    told = []
    text = number_words(texts(), tmp_path, min_count=2, lower=True, watch=told.append)
    assert text.words == ["the", "</s>", "rats", ".", "of", "blood"]  # of equal counts, the first to come
    assert dict(zip(text.words, text.counts.tolist(), strict=True)) == {
        "the": 4, "rats": 3, "</s>": 3, "of": 2, ".": 3, "blood": 2,
    }  # fmt: skip
    spelt = [text.words[number] if number >= 0 else "|" for number in text.numbers]
    assert " ".join(spelt) == "the of rats . | the rats . | the blood of rats the blood . |"
    assert text.read == 33
    assert told[-1].done == 2


def test_text_with_too_few_words_is_refused_with_their_number(tmp_path):
    with pytest.raises(ValueError, match=r"0 of 22 different words \(30 in total\) occur at least 4 times"):
        number_words(texts(), tmp_path, min_count=4, lower=False)
    with pytest.raises(ValueError, match="no words"):
        number_words(["\n \n"], tmp_path, min_count=1, lower=False)


# training


class Draws:
    """The kernel's random numbers (splitmix64), in Python's integers."""

    step, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1

    def __init__(self, seed):
        self.state = self.mixed(seed)

    def mixed(self, value):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            value = (value ^ (value >> shift)) * factor & self.mask
        return value ^ (value >> 31)

    def __call__(self):
        self.state = (self.state + self.step) & self.mask
        return self.mixed(self.state)


def naive_training(numbers, end, made, *arrays_and_settings):
    """Every pair by itself: its mean taken anew, its gradient added to each row, as in the official tool's source."""
    inputs, outputs, kept, limits, others, window, negatives, rate, slope, seed = arrays_and_settings
    draw, line, pairs, loss = Draws(seed), [], 0, 0.0
    for place, number in enumerate(numbers):
        word = number if number >= 0 else end
        if word >= 0 and draw() >> 32 < kept[word]:
            line.append(word)
        if number >= 0:
            continue
        for centre, word in enumerate(line):
            rows = made.rows[made.begins[word] : made.begins[word + 1]]
            reach = 1 + ((draw() >> 32) * window >> 32)
            for context in range(centre - reach, centre + reach + 1):
                if context == centre or not 0 <= context < len(line):
                    continue
                hidden, change = inputs[rows].mean(axis=0), np.zeros(inputs.shape[1])
                for turn in range(negatives + 1):
                    chosen = line[context]
                    while turn and chosen == line[context]:
                        value = draw()
                        chosen = (value >> 32) * len(kept) >> 32
                        chosen = others[chosen] if value & 0xFFFFFFFF >= limits[chosen] else chosen
                    label = float(turn == 0)
                    score = 1 / (1 + math.exp(-hidden @ outputs[chosen]))
                    loss -= math.log(score if turn == 0 else 1 - score)
                    step = (rate - slope * place) * (label - score)
                    change += step * outputs[chosen]
                    outputs[chosen] += step * hidden
                for row in rows:  # one that occurs twice moves twice
                    inputs[row] += change
                pairs += 1
        line = []
    return pairs, loss


def test_the_compiled_loop_does_what_a_plain_transcription_of_the_tool_does():
    words = ["</s>", "banana", "rats", "papapapa", "the", "blood"]
    made = parts(words, 2, 3, 20)  # so few buckets that words meet in them, and with themselves
    assert made.echoes.max() > 1.2
    random = np.random.default_rng(0)
    numbers = np.array([*random.integers(1, 6, 40), -1, *random.integers(1, 6, 30), -1], np.int32)
    inputs = random.normal(0, 0.5, (len(words) + len(made.buckets), 16)).astype(np.float32)
    outputs = random.normal(0, 0.5, (len(words), 16)).astype(np.float32)
    limits, others = alias_table(np.array([2, 3, 9, 4, 1, 1.0]))
    kept = (np.array([1, 0.9, 0.5, 1, 0.7, 1]) * WHOLE).astype(np.uint64)
    exact = inputs.astype(float), outputs.astype(float)
    drawn = (3, 4, 0.1, 1e-3, 7)
    expected = naive_training(
        numbers.tolist(), 0, made, *exact, kept.tolist(), limits.tolist(), others.tolist(), *drawn
    )
    before = inputs.copy()
    pairs, loss = train_lines(
        numbers, 0, made.begins, made.rows, made.echoes, inputs, outputs, kept, limits, others, *drawn
    )
    assert pairs == expected[0] > 100
    assert loss == pytest.approx(expected[1], rel=1e-5)
    assert np.abs(inputs - before).max() > 0.1
    assert np.abs(inputs - exact[0]).max() < 1e-5
    assert np.abs(outputs - exact[1]).max() < 1e-5


def test_the_alias_table_draws_in_proportion_to_the_weights():
    weights = np.random.default_rng(0).pareto(1, 50) + 0.01
    limits, others = alias_table(weights)
    chances = limits / WHOLE / 50
    np.add.at(chances, others, (1 - limits / WHOLE) / 50)
    assert np.allclose(chances, weights / weights.sum(), atol=1e-8)


def test_sub_sampling_and_negatives_have_the_tools_probabilities():
    counts, read, sample = np.array([600, 90, 4]), 1_000, 0.01  # 306 of the words are too rare to take part
    shares = (0.6, 0.09, 0.004)
    expected = [math.sqrt(sample / share) + sample / share for share in shares[:2]]
    assert retention(counts, read, sample) == pytest.approx([*expected, 1.0], rel=1e-12)
    total = 600**0.5 + 90**0.5 + 4**0.5
    assert negative_distribution(counts) == pytest.approx(
        [600**0.5 / total, 90**0.5 / total, 4**0.5 / total], rel=1e-12
    )


def test_a_run_is_one_plain_pass_over_the_epochs_with_the_rate_falling_to_0(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "_CHUNK", 8)
    settings = replace(SMALL, min_count=2, window=3, sample=0.03, rate=0.3, seed=4)
    text = number_words(texts(), tmp_path, min_count=2, lower=True)
    made, end = parts(text.words, 2, 4, 300), text.words.index("</s>")
    random = np.random.default_rng(0)
    inputs = random.normal(0, 0.5, (len(text.words) + len(made.buckets), 16)).astype(np.float32)
    outputs = random.normal(0, 0.5, (len(text.words), 16)).astype(np.float32)
    exact = inputs.astype(float), outputs.astype(float)
    shares = [count / text.read for count in text.counts]
    kept = [min(1, math.sqrt(0.03 / share) + 0.03 / share) * WHOLE for share in shares]
    assert min(kept) < 0.9 * WHOLE
    limits, others = (table.tolist() for table in alias_table(text.counts**0.5))
    numbers = text.numbers.tolist()
    pieces = [numbers[:9], numbers[9:]]  # of two lines and one: the first to end at or after 8
    assert [piece.count(-1) for piece in pieces] == [2, 1]
    place, total, losses = 0, 2 * len(numbers), []
    for chunk, piece in enumerate(pieces * 2):
        drawn = (3, 5, 0.3 * (1 - place / total), 0.3 / total, (4 << 32) + chunk)
        pairs, loss = naive_training(piece, end, made, *exact, kept, limits, others, *drawn)
        losses.append(loss / pairs)
        place += len(piece)
    assert place == total
    told = []
    train_rows(text, end, made, inputs=inputs, outputs=outputs, rate=0.3, settings=settings, watch=told.append)
    assert [progress.values["loss"] for progress in told] == pytest.approx(losses, rel=1e-5)
    assert np.abs(inputs - exact[0]).max() < 1e-5
    assert np.abs(outputs - exact[1]).max() < 1e-5


def test_training_that_diverges_names_the_rate(tmp_path):
    six = ["artery valve moon comet heart star"] * 30
    said = r"not finite after 210 of 10,500 words: the rate of 1 is too high\. Lower skipgram\.rate, to 0\.1 say"
    with pytest.raises(ValueError, match=said):
        train_vectors(lambda: six, tmp_path / "out.bin", replace(SMALL, rate=1.0, epochs=50))
    assert not [*tmp_path.iterdir()]


def test_training_that_diverges_with_the_last_update_is_noticed_too():
    """No pair comes after it whose loss could tell."""
    text = NumberedText(["a", "b"], np.array([1, 1]), np.array([0, 1, -1], np.int32), 2)
    inputs, outputs = np.zeros((2, 16), np.float32), np.zeros((2, 16), np.float32)
    outputs[1] = 3e38
    made, settings = parts(text.words, 3, 0, 1), replace(SMALL, epochs=1, longest=0)
    with pytest.raises(ValueError, match="not finite after 3 of 3 words"):
        train_rows(text, -1, made, inputs=inputs, outputs=outputs, rate=10.0, settings=settings)


def test_the_same_seed_and_one_thread_give_the_same_file(tmp_path):
    told = []
    one = train_vectors(texts, tmp_path / "new" / "one.bin", SMALL, watch=told.append).read_bytes()
    assert one == train_vectors(texts, tmp_path / "two.bin", SMALL).read_bytes()
    assert one != train_vectors(texts, tmp_path / "two.bin", replace(SMALL, seed=1)).read_bytes()
    assert told[-1].done == told[-1].total == 2 * 33
    assert told[-1].values["loss"] == pytest.approx(6 * math.log(2), rel=0.1)
    file = open_bin(tmp_path / "two.bin")
    assert sorted(file.counts, reverse=True) == file.counts.tolist()
    assert {path.name for path in tmp_path.iterdir()} == {"new", "two.bin"}  # nothing is left over


def test_going_on_keeps_rows_that_the_text_does_not_touch_and_new_words_do_not_jump(tmp_path):
    before = open_bin(OFFICIAL)
    after = open_bin(train_vectors(texts, tmp_path / "out.bin", replace(SMALL, rate=0.5), start=OFFICIAL))
    assert after.words[: len(before.words)] == before.words
    counts = dict(zip(after.words, after.counts.tolist(), strict=True))
    assert counts["rats"] == before.counts[before.index["rats"]] + 3
    assert counts["conscious"] == before.counts[before.index["conscious"]] + 1
    assert after.read == before.read + 33
    untouched, touched = before.index["Größe"], before.index["rats"]
    assert np.array_equal(after.inputs[untouched], before.inputs[untouched])
    assert np.array_equal(after.outputs[untouched], before.outputs[untouched])
    assert not np.allclose(after.inputs[touched], before.inputs[touched], atol=1e-4)
    assert not np.allclose(after.outputs[touched], before.outputs[touched], atol=1e-4)
    moved = np.flatnonzero((after.inputs[len(after.words) :] != before.inputs[len(before.words) :]).any(axis=1))
    words = number_words(texts(), tmp_path, min_count=1, lower=False).words
    assert set(moved) == {bucket for word in words if word != "</s>" for bucket in naive_buckets(word, 2, 4, 300)}
    still = train_vectors(texts, tmp_path / "still.bin", STILL, start=OFFICIAL)
    words = ["reverses", "naïve", "rats", "Größe", "never-seen", "rose"]
    assert "fell," not in open_vectors(still).words
    assert "(" in set(open_vectors(still).words) - set(before.words)
    assert np.allclose(open_vectors(still).look_up(words)[0], open_vectors(OFFICIAL).look_up(words)[0], atol=1e-7)


def test_a_text_start_keeps_its_words_vectors(tmp_path):
    path = tmp_path / "words.vec"
    path.write_text("2 8\nrats 1 2 3 4 5 6 7 8\nunseen 8 7 6 5 4 3 2 1\n", encoding="utf-8")
    out = open_vectors(train_vectors(texts, tmp_path / "out.bin", replace(STILL, dim=8), start=path))
    vectors, _ = out.look_up(["rats", "unseen"])
    assert np.abs(vectors - [[1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1]]).max() < 1 / 8  # the buckets' noise
    assert out.words[:2] == ["rats", "unseen"]


def test_going_on_under_other_settings_is_refused(tmp_path):
    for name, value in (("dim", 9), ("shortest", 3), ("longest", 5), ("buckets", 301)):
        with pytest.raises(ValueError, match=f"official.bin has {name} .*Set {name}="):
            train_vectors(texts, tmp_path / "out.bin", replace(SMALL, **{name: value}), start=OFFICIAL)
    path = tmp_path / "hs.bin"
    path.write_bytes(changed(8 + 4 * 6, "<i", 1))
    with pytest.raises(ValueError, match="negative sampling"):
        train_vectors(texts, tmp_path / "out.bin", SMALL, start=path)
    path = tmp_path / "words.vec"
    path.write_text("1 2\nrats 1 2\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"Set skipgram\.dim=2"):
        train_vectors(texts, tmp_path / "out.bin", SMALL, start=path)


def test_vectors_without_ngrams_have_known_words_only(tmp_path):
    file = open_vectors(train_vectors(texts, tmp_path / "out.bin", replace(SMALL, longest=0)))
    assert file.look_up(["rats", "rat"])[1].tolist() == [True, False]


# how good it is


def test_the_loss_of_output_rows_of_zero_is_that_of_guessing(tmp_path):
    path = train_vectors(texts, tmp_path / "out.bin", STILL)
    among = {"the": 2, "rats": 3, "of": 2, ".": 3, "blood": 2}
    assert skipgram_loss(path, texts(), among, SMALL) == pytest.approx(6 * math.log(2), abs=1e-4)
    with pytest.raises(ValueError, match="'absent'"):
        skipgram_loss(path, texts(), {"absent": 1}, SMALL)
    with pytest.raises(ValueError, match="the words meet"):
        skipgram_loss(path, ["rats"], among, SMALL)


def some(path, count):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        found = list(dict.fromkeys(re.sub(r"<<|>>|\[\[|\]\]", "", json.loads(line)["text"]) for line in lines))
    random.Random(0).shuffle(found)
    return found[:count]


@pytest.mark.skipif(not PUBMED.exists(), reason="needs ../shared/data")
def test_going_on_fits_held_out_text_better_than_the_start_and_than_training_from_nothing(tmp_path):
    general, domain = some(ACL, 1_000), some(PUBMED, 600)
    domain, held_out = domain[150:], domain[:150]
    settings = Skipgram(dim=32, epochs=5, min_count=2, buckets=20_000, threads=1, lower=True, sample=1e-3)
    start = train_vectors(lambda: general, tmp_path / "start.bin", settings)
    alone = train_vectors(lambda: domain, tmp_path / "alone.bin", settings)
    both = train_vectors(lambda: domain, tmp_path / "both.bin", settings, start=start)
    file, known = open_bin(alone), open_bin(start).index
    among = {word: int(count) for word, count in zip(file.words, file.counts, strict=True) if word in known}
    of_start, of_alone, of_both = (skipgram_loss(path, held_out, among, settings) for path in (start, alone, both))
    assert of_both < of_start - 0.1
    assert of_both < of_alone - 0.002  # .005; in 18 runs of several threads, which overwrite one another, .001 to .010
