"""
Modules that have moved, under the names that files hold.

A pickle names a class by its module, and so do RL-Zoo's settings: what was saved before a move asks for the module's old name.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

#: Old names of modules, with the new ones
MOVED: dict[str, str] = {
    "sbx_flappy.common.env_state": "sbx_flappy.saving.env_state",
    "sbx_flappy.common.torch_extractors": "sbx_flappy.interchange.torch_extractors",
    "sbx_flappy.common.torch_policies": "sbx_flappy.interchange.torch_policies",
}


class MovedModules(MetaPathFinder, Loader):
    """Lets an import of an old name find the module under its new one."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Return where a module is loaded from, None if it has not moved."""
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the new name in place of the empty one that Python has made."""
        sys.modules[module.__name__] = importlib.import_module(MOVED[module.__name__])


def find_moved_modules() -> None:
    """Let Python find modules under their old names, from now on."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
