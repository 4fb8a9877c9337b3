"""A winner, made ready for use.

Folder and function share a name, so this module can be called: `acclimate.ship(...)` is `ship.ship.ship(...)`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *given: Any, **named: Any) -> Any:
        from acclimate.ship.ship import ship

        return ship(*given, **named)


sys.modules[__name__].__class__ = _Callable
