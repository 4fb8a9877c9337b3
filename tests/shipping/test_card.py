"""The model card: what it tells, and that no text in it acts as markup."""

from dataclasses import replace

import pytest
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

import studies
from acclimate.core.types import Cost, Score
from acclimate.data.examination import Leak
from acclimate.races.outcome import rows
from acclimate.reports.labels import LabelScore
from acclimate.shipping import markdown
from acclimate.shipping.card import Card, origin_of, render
from acclimate.shipping.onnx import Int8
from acclimate.shipping.ways import Way
from acclimate.tasks.metrics import METRICS
from finished import write_job

NASTY = [
    "<script>alert(1)</script>",
    "a|b",
    "__init__",
    "*bold*",
    "[click](http://evil.example)",
    "![x](http://evil.example/x.png)",
    "`code`",
    "``` fence",
    "&lt;",
    "back\\slash",
    "# heading",
    "- item",
    "+ item",
    "12. item",
    "---",
    "===",
    "http://evil.example",
    "www.evil.example",
    "~~gone~~",
    "$x^2$",
    "{{ 7 * 7 }}",
    "<!-- comment -->",
    "@someone",
    "key: [value",
    "naïve Ωμέγα 标签",
    "می‌خواهم",
]


def told(text: str) -> str:
    """What a reader sees."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    inner = [child for token in tokens for child in token.children or ()]
    assert {child.type for child in inner} == {"text"}
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    return "".join(child.content for child in inner)


@pytest.mark.parametrize("text", NASTY)
def test_users_words_are_shown_and_never_obeyed(text):
    assert told(markdown.escaped(text)) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines", "two lines"),
        ("\x1b[31mred\x07", " [31mred "),
        ("\u202etxt.exe", " txt.exe"),
        ("a\r\n\r\n# b", "a # b"),
    ],
)
def test_what_cannot_be_printed_becomes_a_space(text, shown):
    assert told(markdown.escaped(text)) == shown.strip()


def test_figures_stay_as_they_are():
    for text in ("81.2 points", "p = .034", "-3.3", "+0.4", "x86_64", "macro-F1: 12 (of 30)", "2026-11-20"):
        assert markdown.escaped(text) == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("train: /home/ada/salts/train.csv, dev: /home/ada/salts/dev.csv", "train: train.csv, dev: dev.csv"),
        ("read from data/salts/train.jsonl.gz", "read from train.jsonl.gz"),
        ("/home/ada/My Files/a b/train.csv", "train.csv"),
        ("~/salts/train.csv and ../texts/", "train.csv and "),
        (r"C:\Users\ada\train.csv", "train.csv"),
        (r"\\server\share\train.csv", "train.csv"),
        ("and/or, 1 / 2, 3 m/s", "and/or, 1 / 2, 3 m/s"),
        ("see https://example.org/a/b.csv", "see https://example.org/a/b.csv"),
    ],
)
def test_of_paths_only_the_name_is_told(text, kept):
    assert markdown.without_paths(text) == kept


def test_a_command_keeps_its_words_and_the_hub_id_but_no_path():
    command = "acclimate race '/home/ada/My Files/train.csv' --model org/model --out=runs/a --text 'the text' rate=1e-5"
    told = markdown.command_without_paths(command, "org/model")
    assert told == "acclimate race train.csv --model org/model --out=a --text 'the text' rate=1e-5"
    assert markdown.command_without_paths("race(Recipe(), '/home/ada/x.csv')") == "race(Recipe(), 'x.csv')"
    call = "acclimate.race('data/ada', model='org/model', out='runs/a', text='the text', separator='\\n')"
    told = markdown.command_without_paths(call, "org/model")
    assert told == "acclimate.race('ada', model='org/model', out='a', text='the text', separator='\\n')"


def test_no_run_of_backticks_ends_a_block():
    [token] = MarkdownIt("commonmark").parse(markdown.fenced("a\n````\nb", "shell"))
    assert (token.type, token.content, token.info) == ("fence", "a\n````\nb\n", "shell")


def made_up(**changes) -> Card:
    """A card of a race that was not run."""
    labels = tuple(NASTY)
    gold = tuple(labels[place % len(labels)] for place in range(60))
    scores = []
    for contestant, wrong in (("untouched", 12), ("DAPT", 3)):
        for seed in (0, 1, 2):
            predicted = tuple(labels[0] if place < wrong + seed else label for place, label in enumerate(gold))
            test = METRICS["accuracy"].compute(gold, predicted)
            ids = tuple(map(str, range(60)))
            adapting = Cost(5_000, 1e12, 75.0) if contestant == "DAPT" else Cost()
            tuning = Cost(1_000, 2e11, 9.0)
            scores.append(
                Score(contestant, "salts", "accuracy", seed, test - 0.01, test, ids, gold, predicted, adapting, tuning)
            )
    card = Card(
        task=NASTY[0],
        kind="sequence",
        paired=False,
        labels=labels,
        metric="accuracy",
        max_tokens=128,
        architecture="BertForSequenceClassification",
        weights=1_234_567,
        contestant="DAPT",
        shipped=scores[4],
        verdict="DAPT is better than the untouched model by 15.0 points of accuracy.",
        rows=rows(studies.raced(scores)),
        per_label=[LabelScore(name, 2 if name == "a|b" else 30, 0.4, 0.3 if name == "a|b" else 0.9) for name in labels],
        base="org/model",
        origin="It began as org/model.",
        source="train: /home/ada/train.csv",
        sizes={"train": 1_200, "dev": 100, "test": 60},
        commands=["acclimate race /home/ada/train.csv --label '```\n# x'"],
        versions={"torch": "2.13.0"},
        settings={"seeds": 3},
    )
    return replace(card, **changes)


def test_the_hub_reads_its_metadata():
    data = ModelCard(render(made_up(int8=INT8))).data.to_dict()
    assert data["library_name"] == "transformers"
    assert data["pipeline_tag"] == "text-classification"
    assert data["base_model"] == "org/model"
    assert {"acclimate", "sequence", "onnx"} <= set(data["tags"])
    refused = made_up(
        obstacle="it reads the mean", ways=[Way("pipeline", False, "refused"), Way("acclimate predict", True)]
    )
    assert ModelCard(render(refused)).data.library_name == "acclimate"
    with_sentences = replace(refused, ways=[*refused.ways, Way("sentence-transformers", True)])
    assert ModelCard(render(with_sentences)).data.library_name == "sentence-transformers"
    assert "language" not in data
    assert "license" not in data
    [model] = data["model-index"]
    assert model["name"] == NASTY[0]
    card = made_up()
    values = [metric["value"] for result in model["results"] for metric in result["metrics"]]
    assert values == [round(card.shipped.test, 4), round(card.row.score.mean, 4)]
    assert "base_model" not in ModelCard(render(made_up(base=""))).data.to_dict()


def test_the_page_obeys_nobody_and_names_no_path():
    page = render(made_up())
    body = ModelCard(page).text
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = parser.parse(body)
    inner = [child for token in tokens for child in token.children or ()]
    assert not {"html_inline", "image", "s_open"} & {child.type for child in inner}
    assert "html_block" not in {token.type for token in tokens}
    assert [child.attrs["href"] for child in inner if child.type == "link_open"] == [
        "https://github.com/acclimate-nlp/acclimate"
    ]
    assert "/home/ada" not in page
    table = parser.render(body).partition("Label by label")[2]
    for label in NASTY:
        shown = label.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        assert f"<td>{shown}</td>" in table


def test_one_seed_is_told_from_the_mean_of_all():
    card = made_up()
    page = render(card)
    assert f"seed 1, chosen because none scores higher on dev ({100 * card.shipped.dev:.1f})" in page
    mean = 100 * sum(card.row.scores) / 3
    assert f"It scores {100 * card.shipped.test:.1f} on the test set; the mean of the seeds is {mean:.1f}" in page
    assert "the expected score over seeds, not for this checkpoint" in page


def test_limits_name_the_labels_that_it_tells_badly_and_those_it_hardly_met():
    page = render(made_up(unseen=["ghost"], cut=7, reach="Differences below 3.0 points go unnoticed."))
    assert "F1 below 50.0): a\\|b (30.0)." in page
    assert "fewer than 10 test items, whose F1 says little: a\\|b (2)." in page
    assert "no test item bears, so that nothing is known of them: ghost." in page
    assert "which happened to 7 of the 60 test texts" in page
    assert "* Differences below 3.0 points go unnoticed." in page


def test_what_leaked_is_counted_and_scored_both_ways():
    leak = Leak("train", "test", "exact", 6, 6, 0.1)
    card = made_up()
    page = render(replace(card, leaks=[leak], leaked=6, rows_without=card.rows, verdict_without="Nothing is better."))
    assert " ".join(page.split()).count("Without them DAPT scores the same, ") == 1
    assert "| train | test | exact | 6 | 10% |" in page
    assert "6 of the 60 test items stand in the training data. Without them DAPT scores" in page
    assert "and the verdict reads: Nothing is better." in page
    assert "too many to score the others alone" in render(replace(card, leaks=[leak], leaked=59))
    assert "The data were not searched for texts" in render(replace(card, leaks=None))
    assert "No dev or test text was found" in render(replace(card, leaks=[]))


INT8 = Int8(
    agreement=0.9834,
    items=60,
    dev=0.871,
    dev_float=0.875,
    faster=2.123,
    slowest=1.9,
    fastest=2.4,
    texts=100,
    size=25_000_000,
    size_float=100_000_000,
    threads=2,
    processor="A Processor 9000",
    date="2026-01-02",
    onnxruntime="1.31",
    off=0.5,
    off_whole=2e-6,
    same=0.97,
    same_whole=1.0,
    size_whole=90_000_000,
)


def test_the_int8_copy_is_told_with_what_it_loses_and_gains():
    page = render(made_up(int8=INT8))
    assert "Measured on 2026-01-02 on A Processor 9000, 2 threads" in page
    assert "| dev accuracy | 87.5 | 87.1 |" in page
    assert "| size of the weights | 100 MB | 25.0 MB |" in page
    assert "Both say the same of 98.3% of the 60 test texts" in page
    assert "4.0 times smaller and 2.12 times as fast" in page
    larger = render(made_up(int8=replace(INT8, size_float=INT8.size // 2)))
    assert "2.0 times larger and 2.12 times as fast" in larger
    assert "onnx" not in render(made_up()).lower()


def test_a_number_and_several_labels_are_told_as_such():
    number = render(made_up(kind="score", labels=(), per_label=(), int8=INT8))
    assert "gives a number" in number
    assert "correlates with r = 0.9834" in number
    assert "outside the range" in number
    several = render(made_up(kind="multilabel"))
    assert "none, one or several" in several
    assert "its probability is over .5" in several
    assert "the probabilities are relative to the threshold" in several
    assert "Reads two texts" in render(made_up(paired=True))
    assert "predict rare classes sooner" in render(made_up(metric="macro_f1"))
    assert "predict rare classes sooner" not in render(made_up(metric="accuracy"))


def test_what_adapting_forgot_stands_beside_the_scores_where_it_was_measured():
    page = render(made_up(general_losses={"DAPT": (3.5, 3.75)}))
    head, _, untouched, adapted = (
        line.split(" | ")
        for line in page.splitlines()
        if line.startswith(("| con", "|---|---|---|---|-", "| unt", "| DAPT ("))
    )
    assert (untouched[head.index("general loss")], adapted[head.index("general loss")]) == ("3.50", "3.75 (+0.25)")
    assert "which is forgetting" in page
    assert "general loss" not in render(made_up())


def test_the_origin_is_that_of_the_jobs_that_the_outcome_names(tmp_path):
    """Also where the name of a contestant contains that of another."""
    ids, gold = ("1", "2"), ("yes", "no")
    scores = [
        Score(name, "salts", "accuracy", seed, 0.5, 0.5, ids, gold, ("yes", "yes"), Cost(), Cost())
        for name in ("untouched", "TAPT", "DAPT+TAPT", "TLM", "a directory")
        for seed in (0, 1)
    ]
    settings = {
        "untouched": {"model": "org/untouched"},
        "TAPT": {"model": "org/tapt"},
        "DAPT+TAPT": {"model": "org/both"},
        "a directory": {"model": "/home/ada/model"},
    }
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for score in scores:
        name = f"{score.contestant}-{score.seed}"
        write_job(jobs / f"test-{name}", f"test {name}", tuned=f"fine-tune-{name}")
        write_job(jobs / f"fine-tune-{name}", f"fine-tune {name}", model=f"adapted-{name}")
        write_job(jobs / f"adapted-{name}", score.contestant, settings.get(score.contestant))
    outcome, source = studies.raced(scores), tmp_path / "use"
    origins = {score.contestant: origin_of(tmp_path, source, outcome, score) for score in scores}
    assert {name: base for name, (base, _) in origins.items()} == {
        "untouched": "org/untouched",
        "TAPT": "org/tapt",
        "DAPT+TAPT": "org/both",
        "TLM": "",
        "a directory": "",
    }
    assert origins["TLM"][1] == "Its encoder was pretrained in the same run, from random weights."
    assert origins["a directory"][1] == "It was made from a model that the user gave, which has no hub id."
