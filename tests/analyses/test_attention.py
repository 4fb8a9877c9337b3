import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.races.test_report import Page, assert_whole
from transformers import BertConfig, BertForMaskedLM, BertTokenizer
from typer.testing import CliRunner

from acclimate import cli
from acclimate.analyses.attention import (
    BOTH,
    OTHER,
    POSITIONAL,
    VERTICAL,
    AttentionAnalysis,
    AttentionExample,
    Heads,
    analyse_heads,
    marks_of,
    spelt,
    write_page,
)
from acclimate.analyses.texts import sample_texts
from acclimate.models.attention import Maxima
from acclimate.models.encoder import save_model
from acclimate.models.loading import short_names

pytestmark = pytest.mark.usefixtures("plots")

NASTY = "<script>alert(1)</script> \N{RIGHT-TO-LEFT OVERRIDE}"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *(f"word{number}" for number in range(50))]
POSITIONS = 32


def heads_of(before, after, marked, queries=100, name="small"):
    hits = (np.array([row], float) for row in (before, after, marked))
    weights = np.full((1, len(before), 3, 3), 1 / 3)
    maxima = Maxima(*hits, queries=queries, texts=10, by_chance=(0.1, 0.2))
    return Heads(name, maxima, AttentionExample(("[CLS]", "a", "[SEP]"), weights))


def test_kinds_begin_at_the_paper_s_thresholds_and_one_place_is_told_from_either_neighbour():
    """Positional: at least 90% on adjacent tokens; vertical: more than 90% on [CLS], [SEP] or the period."""
    heads = heads_of(before=[90, 45, 89, 0, 0, 95], after=[0, 45, 0, 0, 0, 0], marked=[0, 0, 0, 90, 91, 95])
    assert heads.kinds.tolist() == [[POSITIONAL, POSITIONAL, OTHER, OTHER, VERTICAL, BOTH]]
    assert heads_of([90, 45, 5], [5, 50, 91], [0, 0, 0]).one_place.tolist() == [[-1, 0, 1]]


def looking_back() -> BertForMaskedLM:
    """A layer of three heads: the first looks one token back, the second at [CLS], the third at the token itself."""
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=3 * POSITIONS,
        num_hidden_layers=1,
        num_attention_heads=3,
        intermediate_size=8,
        max_position_embeddings=POSITIONS,
    )
    torch.manual_seed(0)
    model = BertForMaskedLM(config)
    attention = model.bert.encoder.layer[0].attention.self
    positions = torch.eye(POSITIONS, 3 * POSITIONS)  # position p as unit p of a head
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight.zero_()
        model.bert.embeddings.token_type_embeddings.weight.zero_()
        model.bert.embeddings.position_embeddings.weight.copy_(positions)
        attention.key.weight.copy_(torch.cat([positions, positions, positions]))
        back = torch.cat([positions[1:], torch.zeros_like(positions[:1])])  # row p: asked for by position p + 1
        attention.query.weight.copy_(torch.cat([back, torch.zeros_like(positions), positions]))
        attention.query.bias.zero_()
        attention.query.bias[POSITIONS] = 9.0
    return model.eval()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("built") / "run" / "checkpoint"
    tokenizer = BertTokenizer(vocab={word: index for index, word in enumerate(WORDS)})
    save_model(looking_back(), tokenizer, directory)
    return directory


@pytest.fixture(scope="module")
def texts() -> list[str]:
    generator = np.random.default_rng(0)
    return [
        " ".join(f"word{number}" for number in generator.integers(0, 50, size=length)) + " ."
        for length in generator.integers(5, 25, size=30)
    ]


@pytest.fixture(scope="module")
def analysis(built: Path, texts: list[str]) -> AttentionAnalysis:
    return analyse_heads([str(built)], texts, source="thirty texts")


def test_heads_that_were_built_so_are_found_and_random_weights_stand_beside(analysis):
    model, twin = analysis.heads
    assert model.kinds.tolist() == [[POSITIONAL, VERTICAL, OTHER]]
    assert model.one_place.tolist() == [[-1, 0, 0]]
    assert model.before[0, 0] == model.vertical[0, 1] == 1
    assert twin.twin
    assert twin.kinds.shape == model.kinds.shape
    assert twin.maxima.by_chance == model.maxima.by_chance
    assert analysis.verdict().startswith("run: 1 of 3 heads positional, 1 vertical. With random weights: ")


def test_the_directory_of_a_run_stands_for_its_checkpoint(analysis, built, texts):
    again = analyse_heads([str(built.parent)], texts, source="thirty texts")
    assert [each.title for each in again.heads] == ["run", "run, random weights"]
    assert (again.heads[0].maxima.previous_LH == analysis.heads[0].maxima.previous_LH).all()
    assert (again.heads[1].maxima.previous_LH == analysis.heads[1].maxima.previous_LH).all()


@pytest.mark.parametrize(
    ("models", "names"),
    [
        (["runs/dapt/checkpoint"], ["dapt"]),
        (["runs/one/joint/checkpoint", "runs/two/joint/checkpoint"], ["one", "two"]),
        (["small", "mine/small"], ["small", "mine/small"]),
    ],
)
def test_a_name_is_what_tells_a_model_from_the_others(models, names):
    assert short_names(models) == names


def test_texts_are_read_up_to_a_length(built, texts):
    short = analyse_heads([str(built)], texts, source="thirty texts", max_tokens=6)
    assert short.heads[0].maxima.queries == 30 * 4
    with pytest.raises(ValueError, match="max_tokens is 2, but run adds 2 tokens to a text"):
        analyse_heads([str(built)], texts, source="thirty texts", max_tokens=2)
    with pytest.raises(ValueError, match="no texts given"):
        analyse_heads([str(built)], [], source="nothing")


def test_the_terminal_has_every_count(analysis):
    said = analysis.as_text()
    assert all(len(line) <= 110 for line in said.splitlines())
    assert "1 / 1" in said
    assert "30 texts" in said
    assert "run, random" in said


def test_the_page_is_whole_and_says_in_words_what_it_draws(analysis, tmp_path):
    text = write_page(tmp_path / "heads.html", analysis).read_text()
    assert_whole(text)
    assert text.count('role="img"') == 4
    assert "layer 1, head 1: positional, 100% on neighbours; layer 1, head 2: vertical, 100% on marks" in text
    assert "P\N{MINUS SIGN}1</text>" in text


def test_the_verb_writes_the_page_and_says_the_counts(built, texts, tmp_path):
    (tmp_path / "texts.tsv").write_text("\n".join(["review", *texts]) + "\n")
    page = tmp_path / "pages" / "heads.html"
    options = ["--texts", f"{tmp_path}/texts.tsv", "--text", "review", "--out", str(page), "--sample", "5"]
    done = CliRunner().invoke(cli.app, ["analyse", "heads", str(built), *options])
    assert done.exit_code == 0, done.output
    assert "5 texts" in done.output
    assert f"Page: {page}" in done.output
    assert "run: 1 of 3 heads positional, 1 vertical" in page.read_text()


def test_markup_in_names_and_texts_stays_text(analysis):
    nasty = heads_of([95], [0], [0], name=NASTY)
    example = AttentionExample((NASTY, "$x$", "</svg>"), nasty.example.weights)
    both = [Heads(NASTY, nasty.maxima, example, twin) for twin in (False, True)]
    page = AttentionAnalysis(tuple(both), NASTY, 128, 0).page().as_html()
    assert page.count("<script>") == 1  # ours
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page
    assert not Page(page).open


def test_marks_are_what_a_tokenizer_puts_around_texts_and_periods():
    tokenizer = BertTokenizer(vocab={word: index for index, word in enumerate([*WORDS, "##.", ".."])})
    marks = marks_of(tokenizer, len(WORDS) + 2)
    assert np.flatnonzero(marks.ends).tolist() == [2, 3]
    assert np.flatnonzero(marks.periods).tolist() == [5, len(WORDS)]
    assert spelt(tokenizer, [2, 5]) == ("[CLS]", ".")


@pytest.mark.parametrize("name", ["texts.txt", "texts.jsonl.gz", "texts.csv"])
def test_a_sample_is_even_the_same_each_time_and_in_order(name, tmp_path):
    numbers = [f"text {number}" for number in range(1000)]
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress("".join(json.dumps({"text": text}) + "\n" for text in numbers).encode()))
    else:
        path.write_text("\n".join(["text", *numbers] if name.endswith(".csv") else numbers) + "\n")
    sample = sample_texts(path, size=100)
    assert sample == sample_texts(path, size=100) == sorted(sample, key=lambda text: int(text.split()[1]))
    assert len(set(sample)) == 100
    assert 400 < np.mean([int(text.split()[1]) for text in sample]) < 600
    assert sample_texts(path, size=100, seed=1) != sample
    assert sample_texts(path, size=2000) == numbers


def test_a_sample_of_nothing_is_refused(tmp_path):
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(ValueError, match="contains no text in 'text'"):
        sample_texts(tmp_path / "empty.txt")
    with pytest.raises(ValueError, match=r"0 texts requested\. Request at"):
        sample_texts(tmp_path / "empty.txt", size=0)
