"""The encoder that comes with the package: the script that writes its folder, and the folder itself."""

import importlib.util
import json
import shutil
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from acclimate.core import files
from acclimate.core.types import Document
from acclimate.models.encoder import load_masked_language_model, new_encoder, save_model
from acclimate.models.loading import EMBEDDED, FACTS, FOLDER, load_tokenizer
from acclimate.text.corpus import write_corpus
from acclimate.text.vocabulary import train_tokenizer

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("ship_embedded", ROOT / "recipes" / "embedded" / "ship.py")
ship_embedded = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ship_embedded)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What train.py writes, of a model with random weights and 600 steps."""
    place = tmp_path_factory.mktemp("embedded")
    texts = [Document(str(n), f"the dose was measured {n} times", "books_eltec_eng") for n in range(30)]
    corpus = write_corpus(texts, place / "text" / "train")
    tokenizer = train_tokenizer(corpus, size=200)
    shape = {"layers": 1, "hidden": 16, "heads": 2, "vocabulary_size": len(tokenizer), "longest": 32}
    model = new_encoder(**shape, pad=tokenizer.pad_token_id, seed=0)
    run = place / "run"
    (run / "latest").mkdir(parents=True)
    save_model(model, tokenizer, run / "latest")
    lines = [
        {"step": step, "loss": 1.0, "loss.mlm": step / 600, "rate": 1e-3, "tokens": 10, "flops": 1.0}
        for step in range(1, 602)
    ]
    ship_embedded.write_lines(run / "log.jsonl", lines)
    look = {"tokens": 5, "flops": 1e9, "seconds": 60, "heldout-wikipedia": 4.0, "probe_sst2": 0.5}
    ship_embedded.write_lines(run / "curve.jsonl", [{"step": step, **look} for step in (0, 300, 600, 300)])
    files.write_json(run / "baselines.json", {"tokens": 99, "predicted": 9, "uniform": 9.0, "unigram": 7.0})
    (run / "settings.toml").write_text(
        'text = "text"\ntasks = "data"\nteacher = "MiniLM"\nmodel = "start"\nlayers = 4\nmasking = 0.15\nout = "run"\n'
    )
    return run


@pytest.fixture(scope="module")
def shipped(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that ship.py writes of it. The page beside it is page.md."""
    place = tmp_path_factory.mktemp("shipped")
    (place / "page.md").write_text(f"above\n{ship_embedded.BEGIN}\nold\n{ship_embedded.END}\nbelow\n")
    return ship_embedded.ship(run / "latest", place / "embedded", place / "page.md")


def test_ship_halves_the_weights_and_plain_transformers_loads_them_in_float32(run, shipped):
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    before, stored = (load_file(place / "model.safetensors") for place in (run / "latest", shipped))
    assert {weight.dtype for weight in stored.values()} == {torch.bfloat16}
    assert (shipped / "model.safetensors").stat().st_mode & 0o444 == 0o444
    loaded = AutoModelForMaskedLM.from_pretrained(shipped)
    assert {weight.dtype for weight in loaded.state_dict().values()} == {torch.float32}
    after = loaded.state_dict()
    assert all(torch.equal(after[name], weight.bfloat16().float()) for name, weight in before.items())
    assert AutoTokenizer.from_pretrained(shipped).get_vocab() == load_tokenizer(run / "latest").get_vocab()


def test_ship_keeps_one_line_of_each_look_and_means_of_the_log_up_to_the_last_look(shipped):
    curve, log = (
        [json.loads(line) for line in (shipped / name).read_text().splitlines()]
        for name in ("curve.jsonl", "log.jsonl")
    )
    assert [line["step"] for line in curve] == [0, 300, 600]
    assert len(log) == 200
    assert log[0] == {"step": 3, "tokens": 30, "flops": 3.0, "loss": 1.0, "loss.mlm": round(2 / 600, 6), "rate": 1e-3}
    assert (log[-1]["step"], log[-1]["tokens"]) == (600, 6000)


def test_a_second_training_goes_on_with_the_curve_the_log_and_the_settings_of_the_first(run, shipped, tmp_path):
    text = tmp_path / "text"
    shutil.copytree(run.parent / "text", text)
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "settings.toml").write_text(
        f"text = {str(text)!r}\nmodel = {str(shipped)!r}\nmasking = 0.3\nout = 'run'\n"
    )
    again = ship_embedded.ship(tmp_path / "run" / "latest", tmp_path / "again", None)
    facts = json.loads((again / "embedded.json").read_text())
    assert (facts["step"], facts["tokens"], facts["seconds"]) == (1200, 10, 120)
    assert (facts["settings"], facts["settings before"]) == ({"masking": 0.3}, [{"masking": 0.15}])
    curve, log = (
        [json.loads(line) for line in (again / name).read_text().splitlines()] for name in ("curve.jsonl", "log.jsonl")
    )
    assert [line["step"] for line in curve] == [0, 300, 600, 900, 1200]
    assert (log[-1]["step"], log[-1]["tokens"]) == (1200, 12000)


def test_a_branch_of_a_branch_has_the_settings_of_all_trunks_and_where_it_left_them(tmp_path):
    runs = {
        "A": (".", 0.3, [1, 1, 1]),
        "B": (tmp_path / "A", 0.2, [1, 1, 2, 2]),
        "C": (tmp_path / "B", 0.2, [1, 1, 2, 3]),
    }
    for name, (trunk, masking, losses) in runs.items():
        (tmp_path / name).mkdir()
        settings = f"model = 'start'\ntasks = 'data'\nbranch = '{trunk}'\nmasking = {masking}\nuntil = 0\n"
        (tmp_path / name / "settings.toml").write_text(settings)
        lines = [{"step": step, "loss": loss} for step, loss in enumerate(losses, start=1)]
        ship_embedded.write_lines(tmp_path / name / "log.jsonl", lines)
    before = ship_embedded.trunk_settings(tmp_path / "C", {"branch": str(tmp_path / "B")})
    assert before == [{"masking": 0.3, "until": 2}, {"masking": 0.2, "until": 3}]


@pytest.mark.parametrize("licence", ["", "none stated", "research purposes only", "CC BY-NC-SA 3.0", "non-commercial"])
def test_a_source_that_not_everybody_may_use_is_refused(licence, tmp_path, monkeypatch):
    lines = f"source\twhat\torigin\tlicence\nnovels\tNovels\tA/B\tCC0\nnews\tNews\tA/B\t{licence}\n"
    (tmp_path / "sources.tsv").write_text(lines)
    assert {line["licence"] for line in ship_embedded.sources().values()}  # those of the recipe are free
    monkeypatch.setattr(ship_embedded, "HERE", tmp_path)
    with pytest.raises(ValueError, match=r"sources\.tsv: news has the licence"):
        ship_embedded.sources()


def test_card_and_page_state_licence_sources_and_figures(shipped):
    facts = json.loads((shipped / "embedded.json").read_text())
    assert facts["sha256"] == files.sha256_of(shipped / "model.safetensors")
    assert facts["settings"] == {"masking": 0.15}  # no paths, and no shape of random weights
    card = (shipped / "README.md").read_text()
    assert "license: apache-2.0" in card
    assert "| English novels, 1840 to 1920 (ELTeC) | COST-ELTeC/ELTeC-eng |" in card
    assert "| 100.0% |" in card
    assert "read 5 tokens in random order, which is 0.1 times the text" in card
    assert "| loss on Wikipedia | 4.000 |" in card
    assert "all-MiniLM-L6-v2" in (shipped / "NOTICE").read_text()
    assert "Copyright (c) Microsoft Corporation" in (shipped / "NOTICE").read_text()
    assert "Apache License" in (shipped / "LICENSE").read_text()
    page = shipped.with_name("page.md").read_text()
    assert page.startswith("above\n")
    assert page.endswith("\nbelow\n")
    assert "| step | million tokens | loss on Wikipedia | probe, SST-2 |\n" in page
    assert "| 600 | 0.0 | 4.000 | 0.500 |\n" in page
    assert "old" not in page


def test_ship_refuses_a_source_without_a_licence_and_a_folder_that_is_too_large(run, tmp_path, monkeypatch):
    write_corpus([Document("1", "a text", "found somewhere")], tmp_path / "text" / "train")
    with pytest.raises(ValueError, match=r"found somewhere is not in .*sources\.tsv"):
        ship_embedded.characters(tmp_path / "text")
    monkeypatch.setattr(ship_embedded, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="at most 1,000 are allowed"):
        ship_embedded.ship(run / "latest", tmp_path / "embedded", None)
    assert not (tmp_path / "embedded").exists()


def test_the_wheel_takes_every_file_of_the_folder():
    """Where there are weights, an installation without them would fail at its first command."""
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-data"][
        "acclimate"
    ]
    names = {path.name for path in FOLDER.glob("*")} | {"model.safetensors", "tokenizer.json", "README.md", "NOTICE"}
    paths = [f"models/{EMBEDDED}/{name}" for name in sorted(names)]
    assert not [path for path in paths if not any(fnmatch(path, pattern) for pattern in packed)]


def test_the_wheel_states_the_licence_of_every_part():
    """A part by others is a folder with a README.md, which states its origin."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    licence_files = {ROOT / name for name in project["license-files"]}
    package = ROOT / "src" / "acclimate"
    assert {ROOT / "LICENSE", *package.rglob("LICENSE"), *package.rglob("NOTICE")} == licence_files
    assert {path.parent for path in package.rglob("README.md")} == {path.parent for path in package.rglob("LICENSE")}
    texts = [file.read_text("utf-8") for file in licence_files]
    titles = {"Apache-2.0": "Apache License", "MIT": "MIT License", "CC0-1.0": "CC0 1.0 Universal"}
    licences = project["license"].split(" AND ")
    assert sorted(licences) == sorted(name for name, title in titles.items() if any(title in text for text in texts))


def test_the_weights_are_those_that_were_measured():
    """Hash and loss."""
    files.check_manifest(FOLDER)
    facts = json.loads((FOLDER / FACTS).read_text("utf-8"))
    assert facts["sha256"] == files.sha256_of(FOLDER / "model.safetensors")
    assert ship_embedded.sentence_loss(FOLDER) == pytest.approx(facts["sentences"], abs=1e-3)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= ship_embedded.MOST_BYTES
    assert load_masked_language_model(EMBEDDED).num_parameters() == facts["parameters"]


def test_the_page_has_the_figures_of_the_shipped_log():
    page = (ROOT / "docs" / "embedded.md").read_text("utf-8")
    assert page == ship_embedded.with_figures(page, FOLDER)
