import csv
import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib import colormaps
from tests.races.test_report import Page, assert_whole
from transformers import BertTokenizer
from typer.testing import CliRunner

from acclimate import cli
from acclimate.analyses.head_agreement import Agreement, Chance, NoiseFigures
from acclimate.analyses.head_importance import Domain, ImportanceAnalysis, analyse_importance, write_page
from acclimate.analyses.head_plots import DARK, READABLE, luminance
from acclimate.core.types import Document
from acclimate.methods.importance import normalised
from acclimate.models.encoder import save_model
from acclimate.text.corpus import write_corpus
from families import FAMILIES

pytestmark = pytest.mark.usefixtures("plots")

NASTY = "<script>alert(1)</script> \N{RIGHT-TO-LEFT OVERRIDE}"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{number}" for number in range(195))]


def saved(family: str, directory: Path, **settings: float) -> Path:
    model = FAMILIES[family](**settings)
    if family == "bert":  # the second head of the first layer hands nothing on
        with torch.no_grad():
            model.bert.encoder.layer[0].attention.output.dense.weight[:, 16:] = 0
    save_model(model, BertTokenizer(vocab={word: index for index, word in enumerate(WORDS)}), directory)
    return directory


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved("bert", tmp_path_factory.mktemp("models") / "small", dropout=0.1)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two domains of 41 texts, each with another half of the words."""
    place, generator = tmp_path_factory.mktemp("texts"), random.Random(0)
    for name, first in (("low", 0), ("high", 100)):
        lines = [
            " ".join(f"word{generator.randrange(first, first + 95)}" for _ in range(generator.randint(4, 30)))
            for _ in range(41)
        ]
        (place / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return {name: place / f"{name}.txt" for name in ("low", "high")}


@pytest.fixture(scope="module")
def analysis(model: Path, sources: dict[str, Path]) -> ImportanceAnalysis:
    return analyse_importance(str(model), sources)


def test_importance_of_a_domain_is_the_mean_over_all_its_texts(analysis):
    for domain in analysis.domains:
        assert domain.texts == 41
        first, second = domain.halves_2LH
        assert domain.importance_LH == pytest.approx((21 * first + 20 * second) / 41)
        expected = normalised(torch.from_numpy(domain.importance_LH)).numpy()
        assert domain.normalised_LH == pytest.approx(expected)


def test_a_head_that_hands_nothing_on_is_the_least_important_one_in_every_domain(analysis):
    assert all(domain.importance_LH[0, 1] == 0 < domain.importance_LH[0, 0] for domain in analysis.domains)
    most, least = analysis.listed()
    assert least.rows[0] == ("layer 1, head 2", "0.00 (0.609)", "0.00 (0.609)")
    assert len(most.rows) == len(least.rows) == 2
    assert analysis.heads_by_rank()[-1] == (0, 1)


def test_nothing_that_happens_by_chance_is_shared_by_domains(model, sources):
    """The same texts twice: noise in common would make their importances equal."""
    first, second = analyse_importance(str(model), {"one": sources["low"], "two": sources["low"]}).domains
    assert (first.importance_LH != second.importance_LH)[0, 0]
    assert first.importance_LH == pytest.approx(second.importance_LH, rel=0.5)


def test_same_seed_same_figures_and_another_seed_other_ones(analysis, model, sources):
    again = analyse_importance(str(model), sources)
    assert again.as_csv() == analysis.as_csv()
    assert again.heads_as_csv() == analysis.heads_as_csv()
    assert analyse_importance(str(model), sources, seed=1).heads_as_csv() != analysis.heads_as_csv()


def test_a_corpus_is_read_like_the_file_that_it_was_made_of(analysis, model, sources, tmp_path):
    texts = sources["low"].read_text().splitlines()
    write_corpus((Document(str(number), text) for number, text in enumerate(texts)), tmp_path / "corpus")
    again = analyse_importance(str(model), {"low": tmp_path / "corpus", "high": sources["high"]})
    assert again.as_csv() == analysis.as_csv()


def test_of_each_domain_so_many_texts_of_so_many_tokens_are_read(model, sources):
    short = analyse_importance(str(model), sources, sample=7, max_tokens=5)
    assert [(each.texts, each.tokens) for each in short.domains] == [(7, 35), (7, 35)]
    with pytest.raises(ValueError, match="max_tokens is 2, "):
        analyse_importance(str(model), sources, max_tokens=2)


def made_by_hand(name: str = "a", how: str = "paper") -> ImportanceAnalysis:
    """Eight heads, each half as important as the one before."""
    importance_LH = np.array([[8.0, 4.0, 2.0, 1.0], [0.5, 0.25, 0.125, 0.125]])
    protected_LH = np.array([[0.99, 0.8, 0.7, 0.6], [0.5, 0.9, 0.2, 0.1]])
    domain = Domain(name, "a.txt", 2, 9, importance_LH, protected_LH, np.stack([importance_LH] * 2))
    agreement = Agreement(0.9, Chance(0.8, 0.7, 0.85), 0.95)
    views = ("normalised", "raw", "rank", "rank in layers")
    noise = NoiseFigures(Chance(0.79, 0.75, 0.83), Chance(0.27, 0.2, 0.34), Chance(0.22, 0.15, 0.29))
    return ImportanceAnalysis(
        "m", (domain, domain), how, "layer", 164, {view: [agreement] * 2 for view in views}, noise
    )


def test_protected_heads_are_counted_and_their_shares_stand_beside_those_of_noise():
    rows = made_by_hand().protected().rows
    assert rows[0] == ("a", "37.5%", "25.0%", "0.0%")
    assert rows[-1] == ("normal noise", "27.0% (20.0% to 34.0%)", "22.0% (15.0% to 29.0%)", "-")
    first = made_by_hand().domains[0]
    assert first.share_below_mean("layer") == 0
    assert first.share_below_mean("model") == pytest.approx(1 / 3)  # layer 2, head 2: 0.25 of a mean of 2
    assert Domain("b", "", 2, 9, *[np.zeros((1, 2))] * 2, np.zeros((2, 1, 2))).share_below_mean("layer") is None


def test_the_terminal_has_every_figure_beside_its_chance(analysis):
    said = analysis.as_text()
    assert all(len(line) <= 110 for line in said.splitlines())
    for title in ("Cosine of normalised importance", "Cosine of importance", "Rank correlation within layers"):
        assert title in said
    assert "normal noise" in said
    assert "low.txt" in said
    assert made_by_hand().verdict() == (
        "Normalised importance has a cosine of 0.90 with other domains, and 0.80 when shuffled. The rank correlation "
        "is 0.90, by chance 0, and between halves of a domain 0.95."
    )


def test_the_page_is_whole_and_says_in_words_what_it_draws(analysis, tmp_path):
    sheet, heads = write_page(tmp_path / "pages" / "importance.html", analysis)
    text = (tmp_path / "pages" / "importance.html").read_text()
    assert_whole(text)
    assert text.count('role="img"') == 2 * 2 + 2  # a map of each domain and quantity, a scale of each quantity
    assert "layer 1: .61 .61; layer 2: .61 .61" in text  # of two heads |tanh z| is one number
    [first, *others] = csv.DictReader(sheet.read_text().splitlines())
    assert len(others) == 7
    assert float(first["others"]) == analysis.agreements["normalised"][0].others
    rows = [*csv.DictReader(heads.read_text().splitlines())]
    assert len(rows) == 8
    assert float(rows[2]["importance"]) == analysis.domains[0].importance_LH[1, 0]


def test_markup_in_names_stays_text():
    page = made_by_hand(NASTY).page().as_html()
    assert page.count("<script>") == 1  # ours
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page
    assert not Page(page).open


def test_numbers_can_be_read_on_every_colour_and_colours_rise_in_brightness():
    grounds = [luminance(np.array(colormaps["cividis"](value))) for value in np.linspace(0, 1, 256)]
    assert grounds == sorted(grounds)
    assert DARK == "#000000"
    for ground in grounds:
        contrast = (ground + 0.05) / 0.05 if ground > READABLE else 1.05 / (ground + 0.05)
        assert contrast >= 4.5


def test_the_verb_writes_the_page_and_says_the_figures(model, sources, tmp_path):
    (tmp_path / "table.csv").write_text("\n".join(["review", *sources["high"].read_text().splitlines()]) + "\n")
    (tmp_path / "low.jsonl").write_text(
        "".join(json.dumps({"review": line}) + "\n" for line in sources["low"].read_text().splitlines())
    )
    out = tmp_path / "pages" / "importance.html"
    domains = [f"low={tmp_path}/low.jsonl", f"high={tmp_path}/table.csv"]
    command = ["analyse", "importance", str(model), *domains, "--text", "review", "--sample", "5", "--over", "model"]
    done = CliRunner().invoke(cli.app, [*command, "--normalisation", "rank", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "Normalised over the whole model: the share of the others that are less important." in done.output
    assert f"Page: {out}" in done.output
    assert out.exists()
    assert out.with_suffix(".csv").exists()
    assert out.with_name("importance-heads.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("low=low.txt",), "1 domain given, but importances are compared between domains"),
        (("low=low.txt", "high.txt"), "'high.txt': name the domain of the texts, as NAME=TEXTS"),
        (("low=low.txt", "low=high.txt"), "two domains are named 'low': low.txt and high.txt"),
        (("low=low.txt", "one=one.txt"), "one.txt: 1 text of one, but its texts are divided into halves"),
        (("low=low.txt", "high=high.txt", "--dropout", "0", "--attention-dropout", "0"), "the model has no dropout"),
        (("low=low.txt", "high=high.txt", "--out", "."), "--out . is a folder. Name the page to write"),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_nothing_is_written(arguments, said, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("low", "high"):
        (tmp_path / f"{name}.txt").write_text("word1 word2\nword3 word4\n")
    (tmp_path / "one.txt").write_text("word1 word2\n")
    done = CliRunner().invoke(cli.app, ["analyse", "importance", str(model), *arguments])
    assert done.exit_code == 2
    assert said in done.output
    told = [line for line in done.output.strip().splitlines() if not line.startswith("importance on")]
    assert len(told) == 1
    assert not [*tmp_path.glob("*.html"), *tmp_path.glob("*.csv")]


def test_a_family_whose_heads_are_not_known_is_refused_before_texts_are_read(tmp_path):
    model = saved("deberta", tmp_path / "deberta", dropout=0.1)
    with pytest.raises(ValueError, match="'deberta': acclimate does not know where the heads of this family are"):
        analyse_importance(str(model), {"a": tmp_path / "a.txt", "b": tmp_path / "b.txt"})
