"""Puts a mutant in the place of its module, in this process, before the module is imported.

A finder in front of all others gives the changed source for one module's name. So every import sees the
mutant, `from module import name` as well; that is why the module must not have been imported yet. As a plugin
of pytest (`-p tests.mutation.overlay`) it reads from its environment which module that is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType

MODULE, FILE, SOURCE = "MUTATION_MODULE", "MUTATION_FILE", "MUTATION_SOURCE"
"""Environment variables: the module's name, its file, and the file that has the changed source."""


class TooLate(Exception):
    """The module has been imported already: who has its names, would keep the old ones."""


class _Changed(InspectLoader):
    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._source = source

    def get_source(self, fullname: str) -> str:
        return self._source

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._source, self._path)

    def is_package(self, fullname: str) -> bool:
        return self._path.endswith("__init__.py")


class _Finder(MetaPathFinder):
    def __init__(self, module: str, path: str, source: str) -> None:
        self._module = module
        self._path = path
        self._loader = _Changed(path, source)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        return spec_from_file_location(fullname, self._path, loader=self._loader)


def install(module: str, path: str, source: str) -> None:
    """From now on the module has this source; its `__file__` is still `path`. Raises TooLate."""
    if module in sys.modules:
        raise TooLate(f"{module} has been imported already")
    sys.meta_path.insert(0, _Finder(module, path, source))


if MODULE in os.environ:  # as a plugin
    with open(os.environ[SOURCE]) as file:
        install(os.environ[MODULE], os.environ[FILE], file.read())
