"""The energy of a run is summed over all times that it is gone on with, and a failure to measure it ends no run."""

import logging
import sys
from contextlib import closing
from types import ModuleType, SimpleNamespace

import pytest
from rich.console import Console

from acclimate.api.call import watched
from acclimate.cli.verb import Session
from acclimate.core import ranks
from acclimate.core.types import Progress
from acclimate.training import energy
from acclimate.training.energy import Energy, energy_of
from acclimate.training.trackers import TRACKERS


@pytest.fixture
def codecarbon(monkeypatch):
    """In the place of codecarbon, which the tests do not install: every measurement adds .25 kWh."""
    package, output = ModuleType("codecarbon"), ModuleType("codecarbon.output")
    output.BaseOutput = object

    made = []

    class OfflineEmissionsTracker:
        def __init__(self, *, output_handlers, **stated):
            self.stated, self.kwh = stated, 0.0
            [self.handler] = output_handlers
            made.append(self)

        def start(self):
            self.kwh = 0.0

        def flush(self):
            self.kwh += 0.25
            self.handler.out(SimpleNamespace(energy_consumed=self.kwh), None)

        def stop(self):
            self.stopped = True

    package.OfflineEmissionsTracker = OfflineEmissionsTracker
    monkeypatch.setitem(sys.modules, "codecarbon", package)
    monkeypatch.setitem(sys.modules, "codecarbon.output", output)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "3.3.0")
    OfflineEmissionsTracker.made = made
    return OfflineEmissionsTracker


def test_energy_is_known_while_a_run_lasts_and_is_summed_when_it_goes_on(codecarbon, tmp_path, monkeypatch):
    run = tmp_path / "run"
    assert energy_of(run) is None
    monkeypatch.setattr(energy, "EVERY", 0.0)
    with closing(TRACKERS["energy"]("run", run, {})) as tracker:
        tracker(Progress("adapt", 1, 2))
        assert energy_of(run).kwh == 0.5
    assert energy_of(run).kwh == 0.75
    assert codecarbon.made[0].stopped
    with closing(TRACKERS["energy"]("run", run, {})):
        pass
    found = energy_of(run)
    assert (found.kwh, found.by) == (1.0, "codecarbon 3.3.0")
    assert str(found).startswith("1 kWh in ")
    assert str(Energy(0.000039, 90, "x")) == "0.039 Wh in 1 min 30 s, this whole machine, estimated by x"


def test_nothing_of_codecarbons_own_settings_can_send_or_write_anything(codecarbon, tmp_path):
    with closing(TRACKERS["energy"]("run", tmp_path, {})):
        stated = codecarbon.made[0].stated
    assert stated["output_methods"] == []
    assert stated["emissions_endpoint"] is None
    assert stated["electricitymaps_api_token"] is None
    assert [file.name for file in tmp_path.iterdir()] == ["energy.json"]


@pytest.mark.parametrize("fails", ["__init__", "start", "flush", "stop"])
def test_a_failure_of_codecarbon_is_a_warning(codecarbon, fails, tmp_path, monkeypatch, caplog):
    def broken(*given, **stated):
        raise RuntimeError("no counter here")

    monkeypatch.setattr(codecarbon, fails, broken)
    with caplog.at_level(logging.WARNING), closing(TRACKERS["energy"]("run", tmp_path, {})) as tracker:
        tracker(Progress("adapt", 1, 2))
    assert "no counter here" in caplog.text
    assert (energy_of(tmp_path) is None) == (fails != "stop")


def test_a_damaged_sum_begins_anew(codecarbon, tmp_path, caplog):
    (tmp_path / "energy.json").write_text('{"kwh": 7}')
    with caplog.at_level(logging.WARNING), closing(TRACKERS["energy"]("run", tmp_path, {})):
        pass
    assert "Energy is counted from now on" in caplog.text
    assert energy_of(tmp_path).kwh == 0.25


@pytest.mark.parametrize("first", [True, False])
def test_of_several_processes_the_first_alone_measures(codecarbon, first, tmp_path, monkeypatch):
    """Each would measure the whole machine, and all of them write the one file of the run."""
    monkeypatch.setattr(ranks, "is_first", lambda: first)
    monkeypatch.setattr(energy, "EVERY", 0.0)
    typed, called = tmp_path / "typed", tmp_path / "called"
    with Session(Console(quiet=True), {"track": ["energy"], "out": typed}).watched() as watch:
        watch(Progress("adapt", 1, 2))
    with watched(False, None, ["energy"], called) as watch:
        watch(Progress("adapt", 1, 2))
    assert len(codecarbon.made) == 2 * first
    assert [energy_of(run) is not None for run in (typed, called)] == [first, first]
