"""Train an encoder by masked language modelling with a teacher, and measure now and then what it knows.

python train.py KEY=VALUE ...    (Settings below lists the keys; plan.KEY=VALUE states the plan)

The same command resumes a run that was stopped. `torchrun --nproc-per-node 2 train.py ...` shares each step among two
processes; a run may go on with another number of them. The run writes to `out`:

log.jsonl    a line for each step
curve.jsonl  a line for each evaluation: losses on held-out text, frozen probes. The last line of a step counts
state-*      what the run resumes from
latest/      a checkpoint that transformers loads, of the last look
checkpoint/  the same, of the end

Under plan.schedule=stable the rate is constant until the last `plan.decay` of the steps, over which it falls to 0. To
end a run early, start another with `branch=DIRECTORY`: it goes on from a copy of the newest state there, up to
`plan.steps`.
"""

import json
import math
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from probe import Probe
from teaching import Lessons, Taught
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core import files, ranks, settings
from acclimate.core.types import NOT_PREDICTED, Batch, Progress
from acclimate.models.encoder import load_masked_language_model, new_encoder, save_model
from acclimate.models.loading import load_tokenizer
from acclimate.text.corpus import Corpus
from acclimate.text.streams import evaluation_batches, masked_stream
from acclimate.text.tokens import Tokens
from acclimate.training.checkpoint import CLOCK, LOG, read_log, spent
from acclimate.training.loop import Step
from acclimate.training.objective import MaskedLanguageLoss, measure
from acclimate.training.plan import Plan
from acclimate.training.run import run

DROPOUT = 0.1  # of the checkpoint, for fine-tuning; pretraining drops nothing


@dataclass(frozen=True)
class Settings:
    out: Path = Path()
    text: Path = Path()  # what text.py wrote
    tasks: Path = Path()  # labelled data, for the probes
    model: str = ""  # to start from; "": random weights of the shape that follows
    layers: int = 4
    hidden: int = 256
    heads: int = 4
    vocabulary: str = ""  # where `model` is ""
    teacher: str = ""
    taught: int = 8  # rows of a step that the teacher reads
    word: float = 1.0  # weights of the terms
    sentence: float = 1.0
    masking: float = 0.15
    max_tokens: int = 128
    look: int = 500  # steps from one look to the next
    heldout: int = 1200  # segments of held-out text of each domain at a look
    branch: Path = Path()  # a run to go on from, in another directory
    until: int = 0  # step to stop at for now; 0: the end of the plan
    plan: Plan = field(
        default_factory=lambda: Plan(
            steps=30_000, batch=32, rate=3e-4, warmup_steps=500, schedule="stable", decay=0.2, weight_decay=0.01
        )
    )


@dataclass(frozen=True)
class Look:
    """Measures a model while it trains, appends the result to curve.jsonl and saves the model in latest/.

    The first process does it; the others wait.
    """

    out: Path
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    heldout: Mapping[str, list[Batch]]  # by domain
    probe: Probe

    def __call__(self, step: Step) -> Mapping[str, float]:
        return self.at(step.number, step.spent.tokens, step.spent.flops, step.spent.seconds)

    def at(self, number: int, tokens: int = 0, flops: float = 0.0, seconds: float = 0.0) -> Mapping[str, float]:
        measured = self._measured(number, tokens, flops, seconds) if ranks.is_first() else {}
        ranks.wait()
        return measured

    def _measured(self, number: int, tokens: int, flops: float, seconds: float) -> Mapping[str, float]:
        training, begun = self.model.training, time.perf_counter()
        loss = MaskedLanguageLoss(self.model)
        measured = {domain: measure(loss, batches)["mlm"] for domain, batches in self.heldout.items()}
        measured |= self.probe(self.model, self.tokenizer)
        self.model.train(training)
        line = {"step": number, "tokens": tokens, "flops": flops, "seconds": round(seconds), **measured}
        with open(self.out / "curve.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        write(self.model, self.tokenizer, self.out / "latest")
        print(line, f"look: {time.perf_counter() - begun:.0f} s", flush=True)
        return measured


def write(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    config = model.config
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = DROPOUT
    with files.new_directory(path) as temporary:
        save_model(model, tokenizer, temporary)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0


def baselines(tokens: Tokens, heldout: list[Batch], out: Path) -> None:
    """Write the losses, in nats, of two constant answers: all pieces alike, and each piece as often as in the text."""
    counts = np.bincount(tokens.ids, minlength=tokens.vocabulary) + 1.0
    labels = np.concatenate([batch.tokens["labels"] for batch in heldout])
    labels = labels[labels != NOT_PREDICTED]
    unigram = float(-np.log(counts / counts.sum())[labels].mean())
    facts = {
        "tokens": len(tokens.ids),
        "predicted": len(labels),
        "uniform": math.log(tokens.vocabulary),
        "unigram": unigram,
    }
    files.write_json(out / "baselines.json", facts)
    print(facts, flush=True)


def start_of(chosen: Settings, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    if chosen.model:
        return load_masked_language_model(chosen.model, hidden_dropout=0.0, attention_dropout=0.0)
    return new_encoder(
        layers=chosen.layers,
        hidden=chosen.hidden,
        heads=chosen.heads,
        vocabulary_size=len(tokenizer),
        longest=512,
        pad=tokenizer.pad_token_id,
        seed=chosen.plan.seed,
        attention_dropout=0.0,
        hidden_dropout=0.0,
    )


def branch(source: Path, out: Path) -> None:
    """Copy the newest state and the log of the run `source` to `out`, unless `out` exists."""
    if source == Path() or out.exists():
        return
    newest = max(source.glob("sta*e-*"), key=lambda path: int(path.name.partition("-")[2]))
    with files.new_directory(out) as temporary:
        shutil.copytree(newest, temporary / f"state-{newest.name.partition('-')[2]}")
        for name in (LOG, CLOCK, "curve.jsonl"):
            shutil.copy(source / name, temporary / name)


def main() -> None:
    chosen = settings.override(Settings(), sys.argv[1:])
    out, plan = chosen.out, chosen.plan
    if (out / "checkpoint" / files.MANIFEST).exists():
        print(f"{out} has ended", flush=True)
        return
    ranks.start()
    ranks.first_then_all(lambda: branch(chosen.branch, out))
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = load_tokenizer(chosen.model or chosen.vocabulary)
    model = start_of(chosen, tokenizer)
    tokens = Corpus(chosen.text / "train").tokens(tokenizer)
    heldout = {
        folder.name: evaluation_batches(
            Corpus(folder).tokens(tokenizer),
            batch=64,
            longest=chosen.max_tokens,
            seed=0,
            segments_at_most=chosen.heldout,
        )
        for folder in sorted(chosen.text.glob("heldout-*"))
    }
    look = Look(out, model, tokenizer, heldout, Probe(chosen.tasks))
    if ranks.is_first() and not (out / "baselines.json").exists():
        (out / "settings.toml").write_text(settings.to_toml(replace(chosen, until=0)))
        baselines(tokens, heldout["heldout-wikipedia"], out)
    if ranks.agree(not (out / LOG).exists()):
        look.at(0)
    teacher = AutoModel.from_pretrained(chosen.teacher, add_pooling_layer=False, dtype=torch.float32)
    masked = masked_stream(
        tokens, batch=plan.batch, longest=chosen.max_tokens, seed=plan.seed, rate=chosen.masking, whole_words=True
    )
    lessons = Lessons(tokenizer, load_tokenizer(chosen.teacher), chosen.taught)
    objective = Taught(model, teacher, word=chosen.word, sentence=chosen.sentence)
    begun, tokens_seen = time.monotonic(), 0

    def watch(progress: Progress) -> None:
        nonlocal begun, tokens_seen
        tokens_seen += progress.values.get("tokens", 0)
        if note := progress.values.get("note"):
            print(note, flush=True)
        if progress.done % 50 == 0 and ranks.is_first():
            losses = " ".join(f"{name} {value:.3f}" for name, value in progress.values["losses"].items())
            print(f"{progress.done} {losses} {tokens_seen / (time.monotonic() - begun):.0f} tokens/s", flush=True)
            begun, tokens_seen = time.monotonic(), 0

    run(
        objective,
        lambda step: lessons(masked(step)),
        plan,
        out,
        stage="embedded",
        watch=watch,
        after=look,
        looks=range(chosen.look, plan.steps + 1, chosen.look),
        until=chosen.until or None,
    )
    if not chosen.until or ranks.agree(len(read_log(out)) == plan.steps):
        look.at(plan.steps, **asdict(spent(out)))
        if ranks.is_first():
            write(model, tokenizer, out / "checkpoint")
        ranks.wait()
    ranks.stop()


if __name__ == "__main__":
    main()
