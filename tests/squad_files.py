"""Files in SQuAD's form, made up: contexts of words of which one is asked for."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from made_up_tasks import WORDS

LENGTH = 24  # words of a context


def question(id: str, context: str, word: str, asked: str = "") -> dict[str, Any]:
    answer = {"text": word, "answer_start": context.index(word)}
    return {"id": id, "question": asked or f"Which one is {id}?", "answers": [answer]}


def context(seed: str) -> str:
    return " ".join(random.Random(seed).sample(WORDS, LENGTH))


def article(title: str, contexts: int, questions: int = 2) -> dict[str, Any]:
    """`questions` on each of so many contexts, with ids such as `heart-3-1`."""
    paragraphs = []
    for number in range(contexts):
        text = context(f"{title} {number}")
        words = text.split()
        asked = [question(f"{title}-{number}-{at}", text, words[at * 5]) for at in range(questions)]
        paragraphs.append({"context": text, "qas": asked})
    return {"title": title, "paragraphs": paragraphs}


def write(path: Path, articles: Sequence[Any]) -> Path:
    path.write_text(json.dumps({"version": "test", "data": list(articles)}), encoding="utf-8")
    return path


def pairs(question_id: str, contexts: int, asked: str) -> list[dict[str, Any]]:
    """A question of BioASQ's with so many contexts, a paragraph each."""
    made = []
    for number in range(contexts):
        text = context(f"{question_id} {number}")
        asked_question = question(f"{question_id}_{number:03}", text, text.split()[3], asked)
        made.append({"context": text, "qas": [asked_question]})
    return made
