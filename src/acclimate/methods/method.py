"""What the package knows of a method of adapting: a `Method` value, which stands at the end of the method's file.

Who may race, what is checked beforehand, what a stage costs and what the command line offers follow from these values.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from acclimate.core import files
from acclimate.core.types import Checkpoint
from acclimate.models.dropout import DROPOUT_FIELDS

Needs = Literal["task", "domain", "general"]
GIVEN = (
    "model",
    "corpus",
    "max_tokens",
    "plan",
)  # what a race sets and reads of a recipe


@dataclass(frozen=True)
class Contestant:
    """A name under which a method races.

    needs     the text that it adapts on: "task": that of the training rows; "domain": raw text of the domain;
              "general": what the training rows retrieve from general text
    settings  of the recipe, that make it this contestant; a race refuses to have them stated otherwise
    unread    settings of the recipe that it does not read: the names of its jobs do not depend on them
    group     under which a race has its settings, such as `dapt.epochs=3`; "": under the method's name
    small     the recipe for a small encoder that is pretrained in the race; None: the recipe's own defaults
    usual     the recipe for a model that is given; None: the recipe's own defaults
    default   True if it races wherever its text is there and no contestants are named
    after     contestants whose model it may go on from: ("DAPT",) lets DAPT+TAPT race
    """

    name: str
    needs: Needs
    settings: Mapping[str, Any] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    group: str = ""
    small: Any = None
    usual: Any = None
    default: bool = False
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class First:
    """Work that comes before adapting, as a job of its own which contestants share.

    label     of the job
    name      of the recipe's field that gets what it leaves
    settings  recipe -> plain values that its result depends on; None where it is left out
    start     recipe -> a file that it goes on from, or None
    do        (settings, corpora, out, *, start, watch) -> path of what it leaves, below the directory `out`
    seconds   (settings, characters of the corpora) -> that it takes, an estimate
    then      settings that the recipe has once it is done
    """

    label: str
    name: str
    settings: Callable[[Any], Mapping[str, Any] | None]
    start: Callable[[Any], Path | None]
    do: Callable[..., Path]
    seconds: Callable[[Mapping[str, Any], int], float]
    then: Mapping[str, Any] = field(default_factory=dict)


def _one(recipe: Any) -> float:
    return 1.0


def _none(recipe: Any) -> int:
    return 0


def _given(recipe: Any) -> bool:
    return True


def _suits(kind: str, config: PreTrainedConfig | None) -> str:
    return ""


def _as_stated(recipe: Any) -> Any:
    return recipe


def _nothing_earlier(recipe: Any, rows: float) -> tuple[float, float]:
    return 0.0, 0.0


def check_dropout(recipe: Any, config: PreTrainedConfig, group: str = "") -> None:
    """Raises ValueError where the recipe states dropout that a model of this config does not have.

    group: what stands before the names of settings in errors, such as "dapt."
    """
    for setting in ("dropout", "attention_dropout"):
        value = getattr(recipe, setting, None)
        if value is not None and config.model_type not in DROPOUT_FIELDS:
            raise ValueError(
                f"{group}{setting} = {value}, but which settings of a '{config.model_type}' are its dropout is not "
                f"known. Known: {', '.join(DROPOUT_FIELDS)}. Take a model of these"
            )


@dataclass(frozen=True)
class Method:
    """A way of adapting an encoder.

    name         of the verb `acclimate adapt NAME`, and of the settings of its contestants in a race
    recipe       the dataclass of its settings
    adapt        (recipe, out, *, watch) -> Checkpoint: runs it, or goes on with a run that was stopped
    contestants  the names under which it races; empty: it does not race

    What a race asks besides, with a recipe of the method:

    passes       passes through the encoder a step, in those of masked language modelling
    caching      passes that are added where a step is cut into pieces (gradient caching)
    earlier      (recipe, rows of the corpus) -> rows that are read before the first step, and passes over each
    check        (recipe, config, group) raises ValueError for a model that it cannot adapt; group: what stands before
                 the names of settings in the error
    unsuited     (kind of task, config or None) -> why it cannot race there; "" if it can
    behind       tokens that stand behind each row while it adapts
    prompt       those of them that stay behind the rows of the adapted model
    starts       True if it starts from the model at hand, False if from nothing
    new_model    (recipe, tokenizer) -> a model of the size that it starts from where that is nothing
    encoder      what a race runs in place of `adapt`, where that fine-tunes too; None: `adapt`
    raced        the recipe as its job in a race has it: what the race decides is as it usually is
    first        the work that comes before it and is shared; None: none
    looked       rows of held-out text at most that it looks at each of `recipe.looks` times; 0: none
    moves        True if the race measures how far word embeddings moved, because the method holds on to them
    """

    name: str
    recipe: type[Any]
    adapt: Callable[..., Checkpoint]
    contestants: tuple[Contestant, ...] = ()
    passes: Callable[[Any], float] = _one
    caching: Callable[[Any], float] = _none
    earlier: Callable[[Any, float], tuple[float, float]] = _nothing_earlier
    check: Callable[[Any, PreTrainedConfig, str], None] = check_dropout
    unsuited: Callable[[str, PreTrainedConfig | None], str] = _suits
    behind: Callable[[Any], int] = _none
    prompt: Callable[[Any], int] = _none
    starts: Callable[[Any], bool] = _given
    new_model: Callable[[Any, PreTrainedTokenizerBase], PreTrainedModel] | None = None
    encoder: Callable[..., Checkpoint] | None = None
    raced: Callable[[Any], Any] = _as_stated
    first: First | None = None
    looked: int = 0
    moves: bool = False

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"Method.name = {self.name!r} is no name for settings. Use letters, digits and _")
        if not is_dataclass(self.recipe):
            raise ValueError(f"{self.name}: its recipe, {self.recipe!r}, is no dataclass")
        known = {field.name for field in fields(self.recipe)}
        for contestant in self.contestants:
            if lacking := [name for name in (*GIVEN, *contestant.settings) if name not in known]:
                raise ValueError(
                    f"{self.name}: {self.recipe.__name__} has no field '{lacking[0]}', which racing as "
                    f"{contestant.name} takes. A subclass of MlmRecipe has those that every race needs"
                )

    def group(self, contestant: Contestant) -> str:
        """Under which name a race has the contestant's settings."""
        return contestant.group or self.name

    def contestant(self, name: str) -> Contestant:
        [found] = [contestant for contestant in self.contestants if contestant.name == name]
        return found


# ------------------------------------------------------------------------------------------------- methods of a user


def file_of(method: Method) -> Path | None:
    """The file in which the method stands as a value of the module, so that another process can load it from there;
    None where there is none, as in a notebook.
    """
    recipe_module = sys.modules.get(method.recipe.__module__)
    for names in (getattr(method.adapt, "__globals__", {}), vars(recipe_module) if recipe_module else {}):
        place = names.get("__file__")
        if place and Path(place).is_file() and any(value is method for value in names.values()):
            return Path(place).resolve()
    return None


def fingerprint(method: Method) -> str:
    """A hash of the code of a user's method, on which what it makes depends: of its file, or else of what it calls.

    Raises ValueError where the code cannot be read.
    """
    if (place := file_of(method)) is not None:
        return files.sha256_of_input(place)
    try:
        source = inspect.getsource(method.adapt) + inspect.getsource(method.recipe)
    except (OSError, TypeError) as error:
        raise ValueError(
            f"the code of {method.name} cannot be read, so nothing tells what it made from what it will make. Write "
            f"the method into a file, and import it from there"
        ) from error
    return files.sha256_of_bytes(source.encode())


def load(stated: str) -> Method:
    """The method that `path/to/file.py::NAME` names. Raises ValueError where there is none."""
    place, _, name = stated.partition("::")
    if not Path(place).is_file():
        raise ValueError(f"{stated}: there is no file {place}. Write it as path/to/file.py::NAME")
    found = getattr(module_at(Path(place)), name, None)
    if not isinstance(found, Method):
        raise ValueError(f"{stated}: {place} has no Method of the name '{name}'. Write NAME = Method(...) there")
    return found


def loaded(place: Path, name: str) -> Method:
    """The method called `name` in the file. Raises ValueError where there is none."""
    if (found := _in_module(module_at(place), name)) is None:
        raise ValueError(f"{place} has no Method called '{name}' any more")
    return found


def module_at(place: Path) -> ModuleType:
    """The module of the file, imported once a process; as for a script, its folder is searched for what it imports."""
    place = place.resolve()
    for module in [*sys.modules.values()]:
        if (there := getattr(module, "__file__", None)) and Path(there).resolve() == place:
            return module
    spec = importlib.util.spec_from_file_location(place.stem, place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if str(place.parent) not in sys.path:
        sys.path.append(str(place.parent))
    sys.modules[place.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[place.stem]
        raise
    return module


def _in_module(module: ModuleType, name: str) -> Method | None:
    found = [value for value in vars(module).values() if isinstance(value, Method) and value.name == name]
    return found[0] if found else None


def check_names(methods: Sequence[Method], known: Mapping[str, Method]) -> None:
    """Raises ValueError for a user's method that is called as another, or that races under no name or another's."""
    taken = {contestant.name: method.name for method in known.values() for contestant in method.contestants}
    groups = {method.group(each) for method in known.values() for each in method.contestants} | known.keys()
    for method in methods:
        if method.name in groups:
            raise ValueError(f"a method is called '{method.name}' already. Give yours another name")
        if not method.contestants:
            raise ValueError(f"{method.name} races under no name. Add contestants=(Contestant(...),) to its Method")
        groups |= {method.name}
        for contestant in method.contestants:
            if contestant.group not in ("", method.name):
                raise ValueError(f"{contestant.name}: group = '{contestant.group}': leave it out")
            if contestant.name in taken:
                raise ValueError(f"'{contestant.name}' races already, by the method '{taken[contestant.name]}'")
            taken[contestant.name] = method.name
