"""`Method`: all that the rest of the package knows of a method of adapting. methods/recipes/ has the values.

Who may race, what is checked beforehand, what a stage costs and what the command line offers follow from these values.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from acclimate.core import files
from acclimate.core.settings import code_at
from acclimate.core.types import Checkpoint
from acclimate.models.dropout import DROPOUT_FIELDS

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

Needs = Literal["task", "domain", "general"]
GIVEN = ("model", "corpus", "max_tokens", "plan")  # fields of a recipe that a race sets and reads


@dataclass(frozen=True)
class Contestant:
    """A name under which a method races.

    needs     the text that it adapts on: "task": that of the training rows; "domain": raw text of the domain;
              "general": what the training rows retrieve from general text
    settings  values of the recipe's fields that make it this contestant; a race refuses others
    unread    fields that it does not read, so that the names of its jobs do not depend on them
    group     prefix of its settings in a race, such as "dapt" in `dapt.epochs=3`; "": the method's name
    small     recipe for a small encoder that the race pretrains; None: the defaults of the recipe
    usual     recipe for a model that is given; None: the defaults of the recipe
    default   True if it races whenever its text is given and no contestants are named: TAPT and DAPT
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
    """Work before adapting, in a separate job that contestants share.

    label     label of the job
    name      field of the recipe that gets the path of its result
    settings  recipe -> plain values that its result depends on; None if the recipe needs no such work
    start     recipe -> a file that it goes on from, or None
    do        (settings, corpora, out, *, start, watch) -> path of its result, below the directory `out`
    seconds   (settings, characters of the corpora) -> estimated seconds
    then      fields that the recipe gets once the work is done
    """

    label: str
    name: str
    settings: Callable[[Any], Mapping[str, Any] | None]
    start: Callable[[Any], Path | None]
    do: Callable[..., Path]
    seconds: Callable[[Mapping[str, Any], int], float]
    then: Mapping[str, Any] = field(default_factory=dict)


def deferred(module: str, name: str) -> Callable[..., Any]:
    """Return the function `name` of a module that is imported once it is called.

    So the value of a method of this package is read without the code that trains, which loads torch.
    """

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*arguments, **options)

    return call


def check_dropout(recipe: Any, config: PreTrainedConfig, group: str = "") -> None:
    """Raises ValueError where the recipe states dropout that a model of this config does not have.

    group: prefix of the settings' names in errors, such as "dapt."
    """
    for setting in ("dropout", "attention_dropout"):
        value = getattr(recipe, setting, None)
        if value is not None and config.model_type not in DROPOUT_FIELDS:
            raise ValueError(
                f"{group}{setting} = {value}, but acclimate does not know the dropout settings of the family "
                f"'{config.model_type}'. Use a model of one of these families: {', '.join(DROPOUT_FIELDS)}"
            )


@dataclass(frozen=True)
class Method:
    """A way of adapting an encoder.

        name         of the verb `acclimate adapt NAME`, and of the settings of its contestants in a race
        recipe       the dataclass of its settings
        adapt        (recipe, out, *, watch) -> Checkpoint: runs the method, or goes on with a run that was stopped
        contestants  the names under which it races; empty: it does not race

        Functions of a recipe of the method, and values, that a race needs besides:

        passes       passes through the encoder a step: 1 is forward and backward, forward alone 1/3
        check        (recipe, config, group) raises ValueError for a model that it cannot adapt; group: prefix of the
                     settings' names in the error
        unsuited     (kind of task, config or None) -> why it cannot race there; "" if it can
        behind       number of tokens behind each row while it adapts
        prompt       number of them that stay behind the rows of the adapted model
        starts       True if it starts from the given model, False if from random weights
        new_model    recipe -> a model of the size that it starts from, if that has random weights
        encoder      the function that a race runs in place of an `adapt` that also fine-tunes; None: `adapt`
        raced        the recipe as its job in a race has it, without what the race decides
        first        work before it that contestants share; None: none
        moves        True if the race measures how far word embeddings moved
        curves       term of its loss -> (title, unit) of the curve that pages draw of it
        modelling    term of its loss that is masked language modelling of the corpus

    And for the command line:

        without_corpus  values of settings with which, all together, it reads no corpus; empty: it always reads one
    """

    name: str
    recipe: type[Any]
    adapt: Callable[..., Checkpoint]
    contestants: tuple[Contestant, ...] = ()
    passes: Callable[[Any], float] = lambda recipe: 1.0
    check: Callable[[Any, PreTrainedConfig, str], None] = check_dropout
    unsuited: Callable[[str, PreTrainedConfig | None], str] = lambda kind, config: ""
    behind: Callable[[Any], int] = lambda recipe: 0
    prompt: Callable[[Any], int] = lambda recipe: 0
    starts: Callable[[Any], bool] = lambda recipe: True
    new_model: Callable[[Any], PreTrainedModel] | None = None
    encoder: Callable[..., Checkpoint] | None = None
    raced: Callable[[Any], Any] = lambda recipe: recipe
    first: First | None = None
    moves: bool = False
    curves: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    modelling: str = "mlm"
    without_corpus: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(
                f"Method.name = {self.name!r} cannot be the name of a group of settings. Use letters, digits and _"
            )
        if not is_dataclass(self.recipe):
            raise ValueError(f"{self.name}: its recipe, {self.recipe!r}, is not a dataclass. Make it one")
        names = {field.name for field in fields(self.recipe)}
        for contestant in self.contestants:
            if lacking := [name for name in (*GIVEN, *contestant.settings) if name not in names]:
                raise ValueError(
                    f"{self.name}: {self.recipe.__name__} has no field '{lacking[0]}', which the contestant "
                    f"{contestant.name} needs. Derive it from MlmRecipe, which has the fields that races need"
                )

    def reads_corpus(self, recipe: Any) -> bool:
        """Return False if the settings of the recipe are such that the method reads no corpus."""
        without = self.without_corpus
        return not without or any(getattr(recipe, name) != value for name, value in without.items())

    def group(self, contestant: Contestant) -> str:
        """Return the prefix of the contestant's settings in a race."""
        return contestant.group or self.name

    def contestant(self, name: str) -> Contestant:
        [contestant] = [entry for entry in self.contestants if entry.name == name]
        return contestant


def file_of(method: Method) -> Path | None:
    """Return the file of the module that holds the method, from which processes can load it; None in a notebook."""
    recipe_module = sys.modules.get(method.recipe.__module__)
    for names in (getattr(method.adapt, "__globals__", {}), vars(recipe_module) if recipe_module else {}):
        place = names.get("__file__")
        if place and Path(place).is_file() and any(value is method for value in names.values()):
            return Path(place).resolve()
    return None


def fingerprint(method: Method) -> str:
    """Return a hash of a user's method, on which its results depend: of its file, or else of `adapt` and recipe.

    Raises ValueError if the code cannot be read.
    """
    if (place := file_of(method)) is not None:
        return files.sha256_of_input(place)
    try:
        source = inspect.getsource(method.adapt) + inspect.getsource(method.recipe)
    except (OSError, TypeError) as error:
        raise ValueError(
            f"the code of {method.name} cannot be read, so its earlier results cannot be recognised. Write the "
            "method to a file, and import it from there"
        ) from error
    return files.sha256_of_bytes(source.encode())


def load_method(reference: str) -> Method:
    """Return the method that `path/to/file.py::NAME` names. Raises ValueError where there is none."""
    place, name = code_at(reference)
    method = getattr(module_at(place), name, None)
    if not isinstance(method, Method):
        raise ValueError(f"{reference}: {place} has no Method named '{name}'. Write {name} = Method(...) there")
    return method


def loaded(place: Path, name: str) -> Method:
    """Return the method called `name` in the file. Raises ValueError where there is none."""
    for value in vars(module_at(place)).values():
        if isinstance(value, Method) and value.name == name:
            return value
    raise ValueError(f"{place} no longer has a Method named '{name}'. Restore it")


def module_at(place: Path) -> ModuleType:
    """Return the module of the file, imported once a process. As for a script, its folder is on the import path."""
    place = place.resolve()
    for module in [*sys.modules.values()]:
        if (file := getattr(module, "__file__", None)) and Path(file).resolve() == place:
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


def check_names(methods: Sequence[Method], by_name: Mapping[str, Method]) -> None:
    """Raises ValueError for a user's method without a contestant, or with a name that another method has."""
    method_names = {contestant.name: method.name for method in by_name.values() for contestant in method.contestants}
    groups = {*by_name, *(method.group(entry) for method in by_name.values() for entry in method.contestants)}
    for method in methods:
        if method.name in groups:
            raise ValueError(f"a method named '{method.name}' already exists. Give yours another name")
        if not method.contestants:
            raise ValueError(
                f"{method.name} has no contestants, so it cannot race. Add contestants=(Contestant(...),) to its Method"
            )
        groups |= {method.name}
        for contestant in method.contestants:
            if contestant.group not in ("", method.name):
                raise ValueError(f"{contestant.name}: group = '{contestant.group}' is not supported here. Remove it")
            if contestant.name in method_names:
                raise ValueError(
                    f"'{contestant.name}' is already a contestant of the method '{method_names[contestant.name]}'"
                )
            method_names[contestant.name] = method.name
