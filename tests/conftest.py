"""Set before torch and the libraries under numpy are loaded: they read these once."""

import os

# One thread a process: two workers run side by side, and sums come out the same whatever the number of cores.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"  # a test that needs a download is a test that fails on a train
os.environ["MPLBACKEND"] = "Agg"
os.environ.setdefault("ACCLIMATE_DEVICE", "cpu")  # tests compare with tensors there, on a machine with a GPU too
os.environ["COLUMNS"] = "110"  # pages on the terminal are as wide as in files
os.fsync = lambda handle: None  # the machine does not go down, and each file would wait for the disk

import atexit  # noqa: E402
import contextlib  # noqa: E402
import gc  # noqa: E402
import shutil  # noqa: E402
import tempfile  # noqa: E402

# A run makes 70,000 files in 18,000 directories: a second in memory, but some disks need 3 ms to remove a directory.
if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")

# what is shared by runs, such as the ledger of looks at test sets, is of this session alone
os.environ["ACCLIMATE_CACHE"] = tempfile.mkdtemp(prefix="acclimate-tests-")
atexit.register(shutil.rmtree, os.environ["ACCLIMATE_CACHE"], ignore_errors=True)

from dataclasses import dataclass  # noqa: E402
from functools import cache  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import TYPE_CHECKING  # noqa: E402

import pytest  # noqa: E402
import typer.testing  # noqa: E402

import studies  # noqa: E402
import toys  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from acclimate.core.types import Score
    from acclimate.data.materials import Materials
    from acclimate.races.recipe import RaceRecipe
    from acclimate.races.report import RaceReport


@dataclass(frozen=True)
class Raced:
    """A race that has come to its end in the directory `run`."""

    recipe: "RaceRecipe"
    materials: "Materials"
    run: Path
    inputs: Path

    @property
    def base(self) -> Path:
        """The checkpoint that it pretrained."""
        [job] = (self.run / "jobs").glob("pretrain-*")
        return job / "checkpoint"


# Which take longest: they come first, so that none of two workers is left alone with one of them. The first of a worker
# and its second compile loops that the other worker does not need yet, and numba keeps them for all that follows: the
# examples those of training and of duplicates, the searches those of BM25.
LONG = (
    *("test_examples.py", "text/bm25/test_search.py", "shipping/test_ways.py", "test_browser.py", "test_torture.py"),
    *("training/test_loop_ranks.py", "shipping/test_ship.py", "test_readme.py", "test_benchmarks.py", "test_kill.py"),
    *("methods/test_conformance.py", "races/test_race_checkpoints.py", "cli/test_verb.py", "races/test_rounds.py"),
    *("studies/test_conformance.py", "test_conformance.py"),
    *("jobs/test_workers_ray.py", "methods/test_finetune_start.py", "methods/test_finetune.py"),
)
TESTS = Path(__file__).parent


# A command line takes 40 ms to make of its functions, and stays as it is.
typer.testing._get_command = cache(typer.testing._get_command)

# torch, transformers and the tests themselves are millions of objects, among which Python looks for cycles each time
# that there are 700 more: a sixth of all imports, and half of what reading the source takes.
gc.set_threshold(10_000)


def pytest_collection_finish() -> None:
    """Leave out of that search what stays to the end anyway."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {TESTS / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path, len(LONG)))


@pytest.fixture(scope="session", autouse=True)
def _drawing() -> "Iterator[dict[str, Any]]":
    """Leave plots empty, which take a tenth of the run, but where a module uses `plots`. Yields what draws them."""
    from matplotlib.figure import Figure

    names = ("savefig", "draw_without_rendering")
    with pytest.MonkeyPatch.context() as patch:
        drawing = {name: getattr(Figure, name) for name in names}
        patch.setattr(Figure, "savefig", lambda figure, file, **options: file.write('<svg viewBox="0 0 1 1"></svg>'))
        patch.setattr(Figure, "draw_without_rendering", lambda figure: None)
        yield drawing


@pytest.fixture(scope="session", autouse=True)
def _short_spin() -> "Iterator[None]":
    """How busy the machine is, which each plan of a race asks, is measured in 5 ms, not in a quarter of a second."""
    from acclimate.training import trials

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "SPIN", 0.005)
        yield


@pytest.fixture(scope="module")
def plots(_drawing: "dict[str, Any]") -> "Iterator[None]":
    """Pages have their plots."""
    from matplotlib.figure import Figure

    with pytest.MonkeyPatch.context() as patch:
        for name, method in _drawing.items():
            patch.setattr(Figure, name, method)
        yield


@pytest.fixture(scope="session")
def toy_inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of toys.write_inputs."""
    return toys.write_inputs(tmp_path_factory.mktemp("toy") / "in")


@pytest.fixture(scope="session")
def toy_race(toy_inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Raced:
    """A race on them; not to be changed."""
    from acclimate.core import settings
    from acclimate.races.race import run_race
    from acclimate.races.recipe import RaceRecipe
    from acclimate.races.report import write_race_pages

    run = tmp_path_factory.mktemp("toy-race") / "run"
    recipe, materials = settings.override(RaceRecipe(), toys.SETTINGS), toys.materials_in(run, toy_inputs)
    run_race(recipe, materials, run, command="acclimate race")
    write_race_pages(run)
    return Raced(recipe, materials, run, toy_inputs)


@pytest.fixture(scope="session")
def pretrained(toy_race: Raced) -> Path:
    return toy_race.base


@pytest.fixture(scope="module")
def all_learn() -> "Iterator[None]":
    """Every fine-tuning counts as one that has learnt: in a few steps little does, and nothing would be compared."""
    from acclimate.methods import finetune

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finetune, "nothing_learnt", lambda *looks, **measures: "")
        yield


@pytest.fixture
def command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Callable[..., tuple[int, str]]":
    """`acclimate` in `tmp_path` with these arguments: its exit status, and all that it printed."""
    from acclimate import cli

    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> tuple[int, str]:
        words = [str(argument) for argument in arguments]
        monkeypatch.setattr("sys.argv", ["acclimate", *words])  # which reports show
        done = typer.testing.CliRunner().invoke(cli.app, words)
        return done.exit_code, done.output

    return run


@pytest.fixture
def held() -> "Callable[[Path], contextlib.AbstractContextManager[None]]":
    """A block in which another process seems to have a directory: this one may lock what it has locked."""
    from acclimate.core import files

    @contextlib.contextmanager
    def held(place: Path) -> "Iterator[None]":
        with files.hold(place), pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "_held", set())
            yield

    return held


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of random weights that reads the toy's words whole."""
    return toys.write_model(tmp_path_factory.mktemp("encoder") / "checkpoint", hidden=32, initializer_range=0.2)


@pytest.fixture
def make() -> studies.Maker:
    return studies.made_up_scores


@pytest.fixture(scope="session")
def field() -> "list[Score]":
    """A race of six."""
    return studies.race_of_six()


@pytest.fixture(scope="session")
def report(field: "list[Score]") -> "RaceReport":
    return studies.report_of_six(field)
