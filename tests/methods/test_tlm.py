import random
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

import toys
from acclimate.core import files, settings
from acclimate.core.types import NOT_PREDICTED, Document, Example
from acclimate.data.retrieve import CLAIM
from acclimate.methods import finetune, mlm, tlm
from acclimate.methods.recipes.tlm import raced
from acclimate.methods.task_loss import predict
from acclimate.methods.tlm import JointLoss, StageInputs
from acclimate.methods.tuning.looks import dev_score, predicted_dev
from acclimate.models.classifier import load_finetuned
from acclimate.models.joint_head import ALIKE, as_classifier, new_joint_head
from acclimate.models.loading import load_tokenizer
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.rows import encode_rows
from acclimate.tasks.task import Task
from acclimate.text.corpus import write_corpus
from acclimate.training.checkpoint import read_log
from acclimate.training.pieces import pad, together
from acclimate.training.plan import Plan
from conformance import ROWS, toy_rows
from families import FAMILIES, mpnet

TABLE = Path(__file__).parents[2] / "src" / "acclimate" / "recipes" / "tlm"
SCALES = {"small": (109e6, 2.74e18), "medium": (109e6, 8.30e18), "large": (355e6, 7.59e19)}
TASKS = ("agnews", "hyperpartisan", "helpfulness", "imdb", "acl-arc", "scierc", "chemprot", "rct")
LABELS = ("left", "middle", "right")


@pytest.fixture(scope="module")
def retrieved(tmp_path_factory) -> Path:
    """A corpus of texts like the toy tasks'."""
    generator = random.Random(0)
    texts = (toys.text(generator.choice([*toys.TOPICS]), generator.randint(5, 40), generator) for _ in range(200))
    place = tmp_path_factory.mktemp("retrieved") / "corpus"
    return write_corpus((Document(str(number), text) for number, text in enumerate(texts)), place).path


@pytest.fixture
def recipe(toy_task, retrieved) -> tlm.TlmRecipe:
    return tlm.TlmRecipe(
        task=toy_task("sequence").path,
        corpus=retrieved,
        vocabulary=200,
        layers=1,
        hidden=32,
        heads=2,
        initializer_range=0.2,
        rho_1=2,
        rho_2=2.0,
        max_tokens=24,
        dropout=0.0,
        attention_dropout=0.0,
        plan=Plan(steps=9, batch=8, rate=3e-3),
        finetune=toys.papers(looks=2, epochs=0.0, plan=Plan(steps=4, batch=8, rate=3e-3)),
    )


def stream_of(recipe, place):
    task, _ = tlm._inputs(recipe)
    return StageInputs(recipe, task, place, lambda progress: None).stream()


@pytest.mark.parametrize(
    ("stated", "pattern"),
    [({"rho_1": 3}, "EEEIEEEIE"), ({"rho_1": 0}, "IIIIIIIII"), ({"external_only": True}, "EEEEEEEEE")],
)
def test_rho_1_external_batches_then_one_internal(recipe, stated, pattern, tmp_path):
    stated = replace(recipe, **stated)
    stream = stream_of(stated, tmp_path)  # I for an internal batch, E for an external one
    assert "".join("I" if "label" in stream(step).rows else "E" for step in range(stated.plan.steps)) == pattern
    assert stated.batches == (pattern.count("E"), pattern.count("I"))


def test_external_and_internal_rows_have_lengths_of_their_own(recipe, tmp_path):
    stream = stream_of(replace(recipe, rho_1=1, max_tokens=10, internal_tokens=14), tmp_path)
    external, internal = (max(int(stream(step).lengths.max()) for step in range(at, 20, 2)) for at in (0, 1))
    assert (external, internal) == (10, 14)


def test_whole_words_are_masked_where_asked(recipe, tmp_path):
    words = replace(recipe, rho_1=0, vocabulary=60, whole_words=True, masking=0.3)
    stream = stream_of(words, tmp_path)
    tokenizer = load_tokenizer(tmp_path / "vocabulary")
    parts = 0
    for step in range(9):
        batch = stream(step)
        labels = batch.tokens["labels"]
        predicted = labels != NOT_PREDICTED
        pieces = tokenizer.convert_ids_to_tokens(np.where(predicted, labels, batch.ids).tolist())
        for at in range(1, len(pieces)):
            # a piece after "##" of the same word; those that a random token replaced are known by their labels
            if pieces[at].startswith("##") and (predicted[at] or predicted[at - 1]):
                assert predicted[at] == predicted[at - 1]
                parts += 1
    assert parts > 20


def toy_batch(kind):
    batch, generator = toy_rows(0, 0), np.random.default_rng(3)
    label = {
        "sequence": generator.integers(0, 3, ROWS),
        "multilabel": (generator.random((ROWS, 3)) < 0.4).astype(np.float32),
        "score": generator.normal(size=ROWS).astype(np.float32),
    }[kind]
    return batch, replace(batch, rows={"label": label})


def made(kind, *, name="bert", **settings):
    model = mpnet() if name == "mpnet" else FAMILIES[name]()
    head = new_joint_head(model, kind, () if kind == "score" else LABELS, seed=1)
    return JointLoss(model, head, kind=kind, **settings).eval()


def mean(objective, batch) -> float:
    """What the loop makes of the objective's sums, counts and weights."""
    counts = objective.counts(batch)
    sums = objective(pad(batch, together(batch.lengths), torch.device("cpu")))
    return sum(objective.weights[term] * float(value) / max(1, counts[term]) for term, value in sums.items())


def naive(objective, batch, kind) -> tuple[float, float]:
    """L_mlm and L_task of section 3.1, row by row, in transformers' terms."""
    mlm_loss, task_loss, predicted = 0.0, 0.0, 0
    first, _, last = objective.head
    for row in range(len(batch)):
        one = batch.take(np.array([row]))
        ids, labels = torch.from_numpy(one.ids)[None], torch.from_numpy(one.tokens["labels"])
        out = objective.model(ids, output_hidden_states=True)
        for place in torch.nonzero(labels != NOT_PREDICTED).flatten():
            mlm_loss -= float(out.logits[0, place].log_softmax(-1)[labels[place]])
            predicted += 1
        if "label" not in batch.rows:
            continue
        z = last(torch.nn.functional.gelu(first(out.hidden_states[-1][0, 0])))
        y = torch.as_tensor(one.rows["label"][0])
        if kind == "sequence":
            task_loss -= float(z.log_softmax(-1)[y]) / len(batch)
        elif kind == "multilabel":
            p = z.sigmoid()
            task_loss -= float((y * p.log() + (1 - y) * (1 - p).log()).mean()) / len(batch)
        else:
            task_loss += float((z[0] - y) ** 2) / len(batch)
    return mlm_loss / predicted, task_loss


@pytest.mark.parametrize("kind", ["sequence", "multilabel", "score"])
@pytest.mark.parametrize("name", ["bert", "roberta", "mpnet"])
def test_joint_loss_is_that_of_section_3_1(kind, name):
    external, internal = toy_batch(kind)
    with torch.no_grad():
        paper, code = made(kind, name=name, rho_2=20.0), made(kind, name=name, rho_2=20.0, normalise=True)
        mlm_loss, task_loss = naive(paper, internal, kind)
        assert mean(paper, external) == pytest.approx(mlm_loss, rel=1e-4)
        assert mean(paper, internal) == pytest.approx(20 * mlm_loss + task_loss, rel=1e-4)
        assert mean(code, external) == pytest.approx(mlm_loss, rel=1e-4)
        assert mean(code, internal) == pytest.approx((20 * mlm_loss + task_loss) / 21, rel=1e-4)


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("kind", ["sequence", "tokens"])
def test_an_electra_computes_what_encoder_and_classifier_do(name, kind, tmp_path):
    model = FAMILIES[name]()
    head = new_joint_head(model, kind, LABELS, seed=1)
    as_classifier(model, head, kind, LABELS).save_pretrained(tmp_path)
    loaded = load_finetuned(tmp_path)
    pad_id = model.config.pad_token_id
    ids = torch.tensor([[7, 9, 11, 13, 15], [8, 10, 12, pad_id, pad_id]])
    seen = (ids != pad_id).long()
    with torch.no_grad():
        hidden = model.base_model(ids, attention_mask=seen).last_hidden_state
        expected = head(hidden if kind == "tokens" else hidden[:, 0])
        got = loaded(ids, attention_mask=seen).logits
    real = seen.bool() if kind == "tokens" else slice(None)
    torch.testing.assert_close(got[real], expected[real], rtol=1e-5, atol=1e-6)
    assert [loaded.config.id2label[code] for code in range(3)] == list(LABELS)


def test_both_stages_end_in_a_classifier_that_has_learned(recipe, toy_task, tmp_path):
    task = toy_task("sequence")
    tuned = toys.papers(looks=4, epochs=0.0, dropout=0.0, plan=Plan(steps=60, batch=16, rate=5e-3, warmup=0.1))
    plan = Plan(steps=90, batch=16, rate=5e-3, warmup=0.1)
    stated = replace(recipe, task=task.path, plan=plan, finetune=tuned, normalise=True)
    told = []
    checkpoint = tlm.adapt(stated, tmp_path, watch=told.append)
    log = read_log(tmp_path / "joint")
    for term in ("external", "mlm", "task"):
        values = [line[f"loss.{term}"] for line in log if line[f"loss.{term}"]]
        assert np.mean(values[-5:]) < np.mean(values[:3])
    assert dev_score(tmp_path / "finetune") > 0.6
    assert finetune.test(checkpoint, task, by="a test", watch=told.append)["test"] > 0.4
    assert {each.stage for each in told} >= {"joint", "fine-tune", "vocabulary"}
    AutoModelForSequenceClassification.from_pretrained(checkpoint.path)
    sources = files.read_json(checkpoint.path / "provenance.json")["sources"]
    assert set(sources) == {"about", "train", "dev", "corpus"}
    read = settings.from_toml(tlm.TlmRecipe, checkpoint.path / "recipe.toml")
    assert replace(read, task=task.path, corpus=stated.corpus) == stated


def test_the_first_stage_alone_is_a_masked_language_model_that_no_setting_of_the_second_changes(recipe, tmp_path):
    checkpoint = tlm.train_jointly(recipe, tmp_path)
    assert type(AutoModelForMaskedLM.from_pretrained(checkpoint.path)).__name__ == "BertForMaskedLM"
    assert mlm.heldout_loss(str(checkpoint.path), recipe.corpus, max_tokens=32).loss > 0
    cost = files.read_json(tmp_path / "joint.json")
    lines = read_log(tmp_path)
    assert (cost["external_batches"], cost["internal_batches"]) == (6, 3)
    assert cost["internal_epochs"] == 3 * 8 / 120
    assert cost["flops"] == sum(line["flops"] for line in lines)
    assert cost["tokens"] == sum(line["tokens"] for line in lines)
    assert cost["paper_flops"] == 6 * cost["parameters"] * 8 * (6 * 24 + 3 * 32)
    other = replace(recipe, stage_2=False, finetune=replace(recipe.finetune, looks=9))
    assert tlm.train_jointly(other, tmp_path) == checkpoint
    with pytest.raises(ValueError, match="other settings"):
        tlm.train_jointly(replace(recipe, rho_1=7), tmp_path)


@pytest.mark.parametrize("kind", ["sequence", "multilabel", "score"])
def test_without_the_second_stage_the_checkpoint_predicts_what_was_scored(recipe, toy_task, kind, tmp_path):
    task = toy_task(kind)
    checkpoint = tlm.adapt(replace(recipe, task=task.path, stage_2=False), tmp_path)
    assert not (tmp_path / "finetune").exists()
    dev = task.examples("dev")
    rows = encode_rows(dev, load_tokenizer(checkpoint.path), task.max_tokens)
    predicted = predict(load_finetuned(checkpoint.path), rows, task.labels)
    assert predicted == predicted_dev(tmp_path)
    assert task.score([example.label for example in dev], predicted) == dev_score(tmp_path)
    if kind == "score":
        assert 30 < np.mean(predicted) < 90  # in the task's unit, not in standard deviations


@pytest.fixture
def tagged(tmp_path) -> Prepared:
    """Words of the heart are tagged, some sentences are longer than a row."""

    def read(path, split):
        generator = random.Random(split)
        found = []
        for number in range(120):
            words = generator.choices([*toys.PLAIN, *toys.TOPICS["heart"] * 2], k=generator.randint(4, 24))
            tags = tuple("B-HEART" if word in toys.TOPICS["heart"] else "O" for word in words)
            found.append(Example(f"{split}-{number}", " ".join(words), tags))
        return found

    task = Task("toy tags", "tokens", read, ("B-HEART", "O"), metric_named("entity_f1"), 16)
    return prepare(task, Path(), tmp_path / "tagged" / "data")


@pytest.mark.parametrize("stage_2", [True, False])
def test_words_are_tagged(recipe, tagged, encoder, stage_2, tmp_path):
    plan = Plan(steps=60, batch=16, rate=1e-2, warmup=0.1)
    tuned = replace(recipe.finetune, dropout=0.0, plan=replace(plan, steps=30))
    stated = replace(recipe, task=tagged.path, tokenizer=str(encoder), rho_1=1, rho_2=0.5, plan=plan, finetune=tuned)
    checkpoint = tlm.adapt(replace(stated, stage_2=stage_2), tmp_path / "out")
    score = finetune.test(checkpoint, tagged, by="a test", watch=lambda progress: None)["test"]
    assert score > 0.8
    assert load_tokenizer(checkpoint.path).get_vocab() == load_tokenizer(encoder).get_vocab()
    assert not [*tmp_path.rglob("vocabulary")]
    if not stage_2:
        dev = tagged.examples("dev")
        rows = encode_rows(dev, load_tokenizer(checkpoint.path), tagged.max_tokens, "tokens")
        assert predict(load_finetuned(checkpoint.path), rows, tagged.labels) == predicted_dev(tmp_path / "out")
    with pytest.raises(ValueError, match="whole-word masking is not available"):
        tlm.train_jointly(replace(stated, whole_words=True), tmp_path / "words")


def test_from_a_pretrained_model_on_the_task_data_alone_as_in_table_8(recipe, encoder, tmp_path):
    stated = replace(recipe, model=str(encoder), corpus=Path(), rho_1=0, internal_tokens=30)
    checkpoint = tlm.adapt(stated, tmp_path)
    assert set(files.read_json(checkpoint.path / "provenance.json")["sources"]) == {"about", "train", "dev", "model"}
    assert load_tokenizer(tmp_path / "joint" / "checkpoint").get_vocab() == load_tokenizer(encoder).get_vocab()


def test_a_model_of_a_family_that_acclimate_knows_little_of(recipe, encoder, tmp_path):
    model = mpnet()
    model.save_pretrained(tmp_path / "model")
    load_tokenizer(encoder).save_pretrained(tmp_path / "model")
    told = []
    tlm.train_jointly(replace(recipe, model=str(tmp_path / "model")), tmp_path / "out", watch=told.append)
    assert "dropout of this family cannot be set, so it is unchanged" in [each.values.get("note") for each in told]


def test_a_vocabulary_is_learned_from_the_corpus_and_the_task(recipe, tmp_path):
    foreign = write_corpus([Document("0", "zebra " * 50 + "quagga")], tmp_path / "corpus")
    tlm.train_jointly(replace(recipe, corpus=foreign.path), tmp_path / "out")
    words = set(load_tokenizer(tmp_path / "out" / "checkpoint").get_vocab())
    assert {"zebra", "artery"} <= words


def note(recipe, place) -> str:
    told = []
    tlm.train_jointly(recipe, place, watch=told.append)
    return next(each.values["note"] for each in told if "note" in each.values)


def test_the_epochs_that_rho_1_implies_are_told_before_it_starts(recipe, tmp_path):
    plan = replace(recipe.plan, steps=60, batch=9)
    assert note(replace(recipe, rho_1=1, plan=plan), tmp_path / "enough") == (
        "rho_1 = 1: 30 of 60 batches are internal, 2.25 epochs over the 120 training examples"
    )
    few = note(replace(recipe, rho_1=9, plan=plan), tmp_path / "few")
    assert few.startswith("Warning: rho_1 = 9: 6 of 60 batches are internal, 0.45 epochs")
    assert few.endswith("To use each once, lower rho_1 to 3, or raise plan.steps")
    assert note(replace(recipe, external_only=True), tmp_path / "none").startswith("external data only: 0 of 9")


def test_a_model_that_could_not_be_handed_over_is_refused_before_it_trains(recipe, tmp_path):
    FAMILIES["distilbert"]().save_pretrained(tmp_path / "model")
    with pytest.raises(ValueError, match="'distilbert' that was trained jointly"):
        tlm.adapt(replace(recipe, model=str(tmp_path / "model"), stage_2=False), tmp_path / "out")


def test_rows_that_a_model_could_not_read_are_refused_before_it_trains(recipe, encoder, tmp_path):
    with pytest.raises(ValueError, match="reads at most 40 tokens, but rows may have 50"):
        tlm.train_jointly(replace(recipe, model=str(encoder), internal_tokens=50), tmp_path)


def of_table(task: str, scale: str) -> tuple[tlm.TlmRecipe, str]:
    file = TABLE / f"{task}-{scale}.toml"
    return settings.from_toml(tlm.TlmRecipe, file), file.read_text(encoding="utf-8")


@pytest.mark.parametrize("scale", SCALES)
def test_recipes_need_the_flops_of_table_2(scale):
    """6 x tokens x parameters, the mean of the eight tasks: a wrong step, batch or length would show."""
    parameters, stated = SCALES[scale]
    flops = [tlm.paper_flops(one, parameters, one.internal_tokens) for one, _ in (of_table(t, scale) for t in TASKS)]
    assert float(np.mean(flops)) == pytest.approx(stated, rel=2e-3)


def test_recipes_are_those_of_table_b_1():
    assert len([file for file in TABLE.glob("*.toml") if not file.name.startswith("glue-")]) == 24
    rho_1 = {
        "small": (1, 99, 1, 19, 999, 999, 999, 3),
        "medium": (3, 99, 1, 99, 999, 999, 999, 3),
        "large": (3, 499, 7, 99, 1999, 1999, 1999, 7),
    }
    rho_2 = {
        "small": (100, 20, 100, 100, 100, 20, 20, 20),
        "medium": (100, 100, 1000, 100, 20, 20, 100, 100),
        "large": (100, 20, 100, 1000, 20, 20, 20, 100),
    }
    for scale in SCALES:
        for place, task in enumerate(TASKS):
            recipe, text = of_table(task, scale)
            assert (recipe.rho_1, recipe.rho_2) == (rho_1[scale][place], rho_2[scale][place])
            # K: 5,000 below 5,000 training examples, 50 above 100,000, else 500; twice that at the large scale
            k = {"imdb": 500, "agnews": 50, "helpfulness": 50, "rct": 50}.get(task, 5000) * (1 + (scale == "large"))
            assert recipe.k == k
            keywords = " --queries keywords" * (task == "helpfulness")
            assert f"acclimate data retrieve train.csv --corpus TEXTS --k {k}{keywords} --out RETRIEVED" in text
            assert "finetune" in tomllib.loads(text)


def test_a_stated_k_is_that_of_the_retrieval(recipe, tmp_path):
    stated = replace(recipe, k=7)
    with pytest.raises(ValueError, match=r"k = 7, but .* was not retrieved"):
        tlm.adapt(stated, tmp_path / "out")
    corpus = write_corpus([Document("0", "soil and water " * 20)], tmp_path / "retrieved" / "corpus")
    files.write_record(tmp_path / "retrieved" / CLAIM, {"recipe": {"k": 5}})
    of_5 = replace(stated, corpus=corpus.path)
    with pytest.raises(ValueError, match=r"k = 7, but .* was retrieved with k = 5"):
        tlm.adapt(of_5, tmp_path / "out")
    assert tlm._inputs(replace(of_5, k=5))[1]["corpus"] == corpus.hash
    assert raced(of_5).k == 0  # the race has retrieved
