"""A user's own rules in place of ours, while a run lasts: `mooring simulate --policy FILE.py`.

The file defines functions under the names in `RULES`, with the arguments and results of the functions that
they replace. Everything else, checks included, stays as it is: so a rule is judged by what comes of it.

The file is the user's own code, and runs with the user's rights. Nothing else is read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from mooring.controllers.attachdetach import decide, handshake
from mooring.controllers.scheduling import controller as scheduling

RULES: Mapping[str, tuple[ModuleType, ...]] = {
    "may_release": (decide, handshake),  # when a volume may be taken from a node: attachdetach.release
    "choose": (scheduling,),  # which node a pod is placed on: scheduling.decide
}
"""What may be replaced, and the modules that ask for it."""


class UserRulesError(Exception):
    """The file cannot be read, or has no rule."""


@contextmanager
def applied(file: str) -> Generator[None, None, None]:
    """The file's rules are in force for as long as the context is entered; none if there is no file. Raises
    `UserRulesError`."""
    with ExitStack() as stack:
        for name, rule in (rules_of(file) if file else {}).items():
            for owner in RULES[name]:
                stack.enter_context(patch.object(owner, name, rule))
        yield


@cache
def rules_of(file: str) -> dict[str, Callable[..., Any]]:
    """The rules that the file defines. Raises `UserRulesError`."""
    module = _loaded(Path(file))
    found = {name: getattr(module, name) for name in RULES if _is_own(module, name)}
    if not found:
        raise UserRulesError(f"{file} defines none of the rules that can be replaced: {', '.join(RULES)}")
    return found


def _loaded(path: Path) -> ModuleType:
    spec = spec_from_file_location(f"user_rules_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UserRulesError(f"{path} is not a Python file")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserRulesError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
    return module


def _is_own(module: ModuleType, name: str) -> bool:
    """Whether the file defines it, and does not merely import ours."""
    rule = getattr(module, name, None)
    return callable(rule) and getattr(rule, "__module__", "") == module.__name__
