"""How long a race of a model on a task takes on this machine, before there is a run: what the doctor says of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from acclimate.core.types import Watch, unwatched
from acclimate.data.materials import Materials, corpus_of_split
from acclimate.races.dry_run import DryRun, dry_run, minutes
from acclimate.races.race import design, recipe_for
from acclimate.races.recipe import RaceRecipe
from acclimate.tasks.labelled import Labelled
from acclimate.tasks.prepared import prepare


@dataclass(frozen=True)
class Forecast:
    """Seconds that a race takes on this machine, and seconds that this may be off in either direction.

    busy  how many times as long everything takes now as on the machine on its own, at least 1; `seconds` includes it
    """

    seconds: float
    uncertain: float
    busy: float

    def as_text(self) -> str:
        """Return one number of minutes with its uncertainty: `about 12 min, give or take 4 min`."""
        return f"about {minutes(self.seconds)}, give or take {minutes(self.uncertain)}"


def forecast_of_race(
    model: str, labelled: Labelled, recipe: RaceRecipe | None = None, *, watch: Watch = unwatched
) -> Forecast:
    """Return how long a race of the model takes: of what adapts on the task's texts, by the default recipe.

    Some seconds the first time, less once the speed of such a model is known here. Writes nothing but those speeds.
    """
    stated = recipe or recipe_for(model)
    with TemporaryDirectory() as place:
        task = prepare(labelled.task(), labelled.files[0].path, Path(place) / "data")
        text = corpus_of_split(task, "train", Path(place) / "corpora", watch)
        found = dry_run(design(stated, Materials(task=task, task_text=text, model=model)), Path(place), watch=watch)
        return forecast_of(found)


def forecast_of(left: DryRun) -> Forecast:
    """Return the time of a dry run."""
    return Forecast(left.seconds, left.uncertain, left.busy)
