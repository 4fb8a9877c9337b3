"""Adapt encoder language models to a domain, and know whether it helped."""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

# Where each public name lives. Loaded when asked for: importing acclimate loads neither torch nor transformers.
_HOMES = {
    "Batch": "core.types",
    "Checkpoint": "core.types",
    "Cost": "core.types",
    "Document": "core.types",
    "Example": "core.types",
    "Score": "core.types",
    "Stream": "core.types",
    "Corpus": "text.corpus",
    "read_documents": "text.documents",
    "write_corpus": "text.corpus",
    "METRICS": "tasks.metrics",
    "Metric": "tasks.task",
    "Task": "tasks.task",
    "prepare": "tasks.prepared",
    "MaskedLanguageLoss": "training.objective",
    "Objective": "training.objective",
    "Plan": "training.plan",
    "adamw": "training.loop",
    "train": "training.loop",
    "METHODS": "methods",
    "Contestant": "methods",
    "Method": "methods",
    "Study": "api.study",
    **dict.fromkeys(("race", "evaluate", "adapt", "doctor", "report"), "api.verbs"),
    **dict.fromkeys(("predict", "embed", "ship"), "api.use"),
    "push": "shipping.hub",
    "retrieve": "data.retrieve",
}
__all__ = ["__version__", *_HOMES]  # noqa: PLE0604  every name in it is a string


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'acclimate' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
