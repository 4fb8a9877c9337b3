"""Options of a race that exclude each other. They are refused before torch is imported or a file is read."""

from __future__ import annotations

from acclimate.core.door import is_python, option


def check_options(
    *,
    folds: int,
    until: str,
    budget: bool = False,
    probe_only: bool = False,
    learning_curve: bool = False,
    checkpoints: bool = False,
) -> None:
    """Raise ValueError for two options of a race that exclude each other.

    folds  0: the race scores on one test set
    until  as of `RaceRecipe`; the others: True if the user states them. budget: True for an amount
    """
    cross, probes, curve = option("folds"), option("probe_only"), option("learning_curve")
    settled = option("until", "settled") if until == "settled" else ""
    checkpoint = "checkpoints" if is_python() else "--checkpoint"
    exclusions = (
        (probe_only and budget, f"{probes} does not fine-tune, so a budget has no effect"),
        (folds and budget, f"{cross} with {option('budget')}: a budget applies to one search on one dev set"),
        (settled and folds, f"{settled} with {cross}: it evaluates one test set after each round"),
        (settled and probe_only, f"{settled} with {probes}: nothing is fine-tuned"),
        (learning_curve and folds, f"{curve} scores on one test set, and {cross} has none"),
        (
            learning_curve and checkpoints,
            f"{curve} scores what the race adapts, and {checkpoint} names models that are not adapted",
        ),
    )
    for excluded, reason in exclusions:
        if excluded:
            raise ValueError(f"{reason}. Remove one of them")
