"""What a run needs to know of the software that runs as a StatefulSet."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol

from tests.machines.stateful.tally import Tally


@dataclass(frozen=True)
class Findings:
    """What the clients' history says. `violations` are sentences; `doubts` say what could not be judged."""

    checked: str
    violations: list[str]
    doubts: list[str] = field(default_factory=list[str])
    history: Iterable[object] = ()
    """All that was judged."""


Client = Callable[[], Coroutine[Any, Any, None]]
"""Goes on until it is cancelled."""


class Software(Protocol):
    """One StatefulSet, its clients and their history."""

    name: str
    """Of the StatefulSet, and its label `app`."""
    replicas: int
    manifest: Path
    packages: str
    """Debian's, that the nodes need."""
    programs: tuple[str, ...]
    tally: Tally

    async def set_up(self) -> None:
        """Makes what clients need, once it answers. Raises `Unanswered` while it does not."""
        ...

    def clients(self, random: Random) -> list[Client]:
        """Returns the clients; the random numbers are theirs."""
        ...

    async def last_look(self) -> None:
        """Reads everything, after the last fault is healed. Raises `Unanswered`."""
        ...

    def judge(self) -> Findings:
        """Judges all that was seen."""
        ...

    async def close(self) -> None: ...


class Unanswered(Exception):
    """It does not answer now; the message says what was tried."""


Addresses = Mapping[str, str]
"""Of the pods, by their names: kept up to date by `names`; those of the last look, where there is no
newer."""
