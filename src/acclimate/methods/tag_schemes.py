"""Entities tagged in another scheme for training, and in the task's own again for everything that is scored.

In IO, entities of one type that touch become one, and nothing parts them again. A tag that breaks its scheme, such as
an I- after O, comes back as the tag of the entity that metrics read from it (tasks/tags.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from acclimate.core.types import Example, Label
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.tags import LETTERS, Scheme, all_tags, converted, entities, parts_of, scheme_of

Tagging = Literal["given", Scheme]


def trained_labels(task: Prepared, tagging: Tagging) -> tuple[str, ...]:
    """The labels that a model learns: the task's, or all tags of a scheme for the types of its entities.

    Raises ValueError where the task's labels are no tags of entities.
    """
    if tagging == "given":
        return task.labels
    if task.kind != "tokens" or scheme_of(task.labels) is None:
        raise ValueError(
            f"tag_scheme = '{tagging}' is for tags of entities (B-, I-, O), but {task.name} is of kind '{task.kind}' "
            f"with the labels {', '.join(task.labels) or 'none'}. Leave tag_scheme out"
        )
    if any(len(parts_of(label)) > 1 for label in task.labels):
        raise ValueError(
            f"tag_scheme = '{tagging}' is for words with one tag each, but entities of {task.name} overlap. Leave it "
            f"out"
        )
    return all_tags(task.labels, tagging)


def as_trained(examples: Sequence[Example], tagging: Tagging) -> Sequence[Example]:
    """The examples with their tags in the scheme."""
    if tagging == "given":
        return examples
    return [replace(one, label=converted(one.label, tagging)) for one in examples if isinstance(one.label, tuple)]


def as_given(predicted: list[Label], labels: Sequence[str], task: Prepared) -> list[Label]:
    """Predictions of a model that learnt these labels, in the labels of the task."""
    given = scheme_of(task.labels)
    if tuple(labels) == task.labels or given is None:
        return predicted
    return [converted(tags, given) if isinstance(tags, tuple) else tags for tags in predicted]


def learnable(task: Prepared) -> set[tuple[str, ...]]:
    """What a model for the task may have for labels: the task's own, or its tags in another scheme."""
    named = task.kind == "tokens" and scheme_of(task.labels) is not None
    return {task.labels, *(all_tags(task.labels, scheme) for scheme in (LETTERS if named else ()))}


def merged(task: Prepared, tagging: Tagging) -> int:
    """How many training entities the scheme makes one with the entity before them: none but in IO."""
    if tagging != "IO":
        return 0
    labels = [one.label for one in task.examples("train") if isinstance(one.label, tuple)]
    return sum(len(entities(tags)) - len(entities(converted(tags, tagging))) for tags in labels)
