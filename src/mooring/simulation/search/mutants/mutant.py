"""What a mutant is: a known bug, put back in by replacing single functions of the production code for a
while.

Production code knows nothing of mutants. A mutant names what it replaces; when that is gone, applying it
fails loudly, and names the bug.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast
from unittest.mock import patch

from mooring.simulation.checks.second_opinions import unheard
from mooring.simulation.cluster.scenario import Scenario


class PatchGone(Exception):
    """What a mutant replaces is not there any more."""


@dataclass(frozen=True)
class Patch:
    """`make` takes what `owner` (a module or a class) has under `name`, and returns what stands there
    instead."""

    owner: Any
    name: str
    make: Callable[[Any], Any]


@dataclass(frozen=True)
class Mutant:
    """`fault`: what is wrong. `origin`: where it was seen. `killers`: the invariants that are to find it, one
    at least. `ground`: the scenario in which it is hunted. `omits`: why no invariant that holds at each step
    can see it: what is wrong is what never happens."""

    fault: str
    origin: str
    killers: tuple[str, ...]
    scenario: Scenario
    patches: tuple[Patch, ...]
    omits: str = ""

    @contextmanager
    def applied(self) -> Generator[None, None, None]:
        """The bug is in for as long as the context is entered. Raises `PatchGone`."""
        with ExitStack() as stack:
            stack.enter_context(unheard())
            for each in self.patches:
                owner = getattr(each.owner, "__name__", str(each.owner))
                original = cast("dict[str, Any]", vars(each.owner)).get(each.name)
                if original is None:
                    raise PatchGone(f"{owner} has no {each.name} any more: mend the mutant ({self.fault})")
                stack.enter_context(patch.object(each.owner, each.name, each.make(original)))
            yield


def always(value: Any) -> Callable[[Any], Any]:
    """Instead of asking: this answer."""

    def make(original: Any) -> Any:
        def answer(*args: Any, **given: Any) -> Any:
            return value

        return answer

    return make
