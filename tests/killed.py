"""What a process leaves on the disk that is killed, at each moment when it may be."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

CHANGES = ((os, "replace"), (os, "rename"), (os, "mkdir"), (os, "unlink"), (os, "rmdir"), (shutil, "rmtree"))


class Copies:
    """Copies `places` before each call that changes the disk: what a process leaves that is killed at that moment."""

    def __init__(self, patch: pytest.MonkeyPatch, places: list[Path], into: Path) -> None:
        self.number, self.places, self.into, self.copying = 0, places, into, False
        for module, name in CHANGES:
            patch.setattr(module, name, self._after_a_copy(getattr(module, name)))

    def _after_a_copy(self, change: Any) -> Any:
        def changed(*given: Any, **named: Any) -> Any:
            if not self.copying:
                self.copying = True
                for place in filter(Path.exists, self.places):
                    shutil.copytree(place, self.into / f"{self.number}" / place.name)
                self.number, self.copying = self.number + 1, False
            return change(*given, **named)

        return changed

    def put_back(self, number: int) -> None:
        for place in self.places:
            shutil.rmtree(place, ignore_errors=True)
            if (self.into / f"{number}" / place.name).exists():
                os.rename(self.into / f"{number}" / place.name, place)
