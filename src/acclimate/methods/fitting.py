"""Settings of fine-tuning that are for one kind of task, where tasks of several kinds share what is stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from acclimate.methods import finetune
from acclimate.tasks.prepared import Prepared

OF_TAGS = ("tag_layer", "tag_transitions", "tag_transitions_rate", "tag_scheme")
OF_TEXTS = ("sequence_layer",)


def fitting(own: finetune.Recipe, task: Prepared) -> finetune.Recipe:
    """The settings, those at their defaults that mean nothing on the task."""
    default = finetune.Recipe()
    return replace(own, **{name: getattr(default, name) for name in _idle(task)})


def check_heeded(own: finetune.Recipe, tasks: Sequence[Prepared]) -> None:
    """Raises ValueError for a stated setting that means nothing on any of the tasks."""
    default = finetune.Recipe()
    for name in sorted(set.intersection(*(_idle(task) for task in tasks))):
        if (value := getattr(own, name)) != getattr(default, name):
            raise ValueError(
                f"finetune.{name} = {value!r} means nothing on {', '.join(task.name for task in tasks)}. Leave it out"
            )


def mentions_stand(task: Prepared) -> bool:
    """Whether the texts are of relations and say where the two mentions stand."""
    return task.kind == "sequence" and all(len(example.spans) == 2 for example in task.examples("train"))


def _idle(task: Prepared) -> set[str]:
    idle = set() if mentions_stand(task) else {"pooling"}
    idle |= {*OF_TAGS} if task.kind != "tokens" else set()
    return idle | ({*OF_TEXTS} if task.kind in ("tokens", "span") else set())
