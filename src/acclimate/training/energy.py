"""The energy that a run takes, as the package codecarbon estimates it: `--track energy`.

It counts this whole machine while the run lasts, other programs included: processor, memory and, where there is one,
NVIDIA's GPU. Where the processor has no counter that codecarbon may read, it estimates from the load and the
processor's name. codecarbon runs offline. If it fails, acclimate logs a warning
and the run continues without measuring.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from acclimate.core import files
from acclimate.core.figures import duration
from acclimate.core.types import Progress

FILE = "energy.json"  # in the directory of a run
EVERY = 15.0  # seconds between two measurements
ANYWHERE = "USA"  # codecarbon wants a country for emissions, which are not used
_log = logging.getLogger(__name__)
_measuring: dict[Path, Meter] = {}  # directory of a run -> what measures it in this process


@dataclass(frozen=True)
class Energy:
    """The energy of a run, over all times that it was gone on with.

    kwh      of this machine
    seconds  that were measured
    by       package and version
    """

    kwh: float
    seconds: float
    by: str

    def __str__(self) -> str:
        kwh = f"{self.kwh:.3g} kWh" if self.kwh >= 0.001 else f"{1000 * self.kwh:.2g} Wh"
        return f"{kwh} in {duration(self.seconds)}, this whole machine, estimated by {self.by}"


def energy_of(run: Path) -> Energy | None:
    """Return the energy of a run so far; None if it was not measured."""
    if (meter := _measuring.get(run.resolve())) is not None:
        meter.write()
    if not (run / FILE).is_file():
        return None
    return Energy(**files.read_record(run / FILE, way_out=f"Remove {run / FILE}: the run itself does not need it"))


class Meter:
    """Measures from now on until `close`, and keeps the sum in the file of the run, on top of what is there."""

    def __init__(self, package: Any, run: Path) -> None:
        from importlib.metadata import version

        self.run = run
        run.mkdir(parents=True, exist_ok=True)
        self.begun = time.monotonic()
        self.by = f"codecarbon {version('codecarbon')}"
        self.kwh = 0.0
        self.lock = threading.Lock()
        self.earlier = self._earlier()
        self.tracker = self._started(package)
        self.written = self.begun
        _measuring[run.resolve()] = self

    def __call__(self, progress: Progress) -> None:
        """Write the sum again, if it is older than EVERY seconds."""
        if time.monotonic() - self.written >= EVERY:
            self.write()

    def write(self) -> None:
        """Write the sum of the energy until now; nothing if it could not be measured."""
        with self.lock:
            self.written = time.monotonic()
            if self._tried("flush") and self.kwh > 0:
                seconds = self.earlier.seconds + self.written - self.begun
                energy = Energy(self.earlier.kwh + self.kwh, seconds, self.by)
                files.write_record(self.run / FILE, asdict(energy))

    def close(self) -> None:
        self.write()
        self._tried("stop")
        self.tracker = None
        _measuring.pop(self.run.resolve(), None)

    def _earlier(self) -> Energy:
        try:
            return energy_of(self.run) or Energy(0.0, 0.0, self.by)
        except files.DamagedError as error:
            _log.warning(f"{error}. Energy is counted from now on")
            return Energy(0.0, 0.0, self.by)

    def _started(self, package: Any) -> Any:
        """Return codecarbon's tracker, which measures; None if it cannot."""
        logging.getLogger("codecarbon").setLevel(logging.CRITICAL)  # it speaks before it reads `log_level`
        from codecarbon.output import BaseOutput

        class Kept(BaseOutput):  # type: ignore[misc]
            def out(_, total: Any, delta: Any) -> None:
                self.kwh = float(total.energy_consumed)

        try:
            tracker = package.OfflineEmissionsTracker(
                country_iso_code=ANYWHERE,
                measure_power_secs=EVERY,
                tracking_mode="machine",
                log_level="critical",
                allow_multiple_runs=True,
                output_handlers=[Kept()],
                # stated, so that no file or variable of codecarbon's sends or writes anything elsewhere
                output_methods=[],
                emissions_endpoint=None,
                electricitymaps_api_token=None,
            )
            tracker.start()
        except Exception as error:  # whatever it trips over on this machine
            _log.warning(f"the energy is not measured: codecarbon cannot start here: {error}")
            return None
        return tracker

    def _tried(self, name: str) -> bool:
        """Call a method of codecarbon's tracker, and return True if that went well."""
        if self.tracker is None:
            return False
        try:
            getattr(self.tracker, name)()
        except Exception as error:
            _log.warning(f"the energy is not measured any more: codecarbon failed: {error}")
            self.tracker = None
            return False
        return True
