"""Who wins, by how much, and at what cost.

Folder and function share a name, so this module can be called: `acclimate.race(...)` is `race.race.race(...)`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *given: Any, **named: Any) -> Any:
        from acclimate.race.race import race

        return race(*given, **named)


sys.modules[__name__].__class__ = _Callable
