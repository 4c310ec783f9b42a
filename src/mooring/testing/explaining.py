"""What `mooring why` says of the objects that a test waits for in vain, and what happened to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from mooring.kube import config
from mooring.kube.printable import printable
from mooring.kube.times import wall_clock
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import load_plugins
from mooring.why import text
from mooring.why.cause import Cause
from mooring.why.explain import ALIASES, KINDS, NoSuchObject, explain, stuck
from mooring.why.snapshot import Snapshot, read

MOST_STUCK = 10
"""Objects that are explained where none was asked for."""
Target = tuple[str, str]
"""KIND/NAME, and the namespace."""


async def why(kubeconfig: Path, targets: Iterable[Target]) -> str:
    """The explanation of each target, if `why` knows its kind; of what is stuck, where it knows none.

    Raises KubeError.
    """
    client = config.load(kubeconfig)
    try:
        known = await read(client, load_plugins(ControllerVolumeHost(wall_clock)))
    finally:
        await client.close()
    asked = [target for target in dict.fromkeys(targets) if _explainable(target[0])]
    found = [line for target in asked for line in _of(target, known)]
    return "\n".join(found or _stuck(known))


def _explainable(target: str) -> bool:
    kind = target.partition("/")[0].lower()
    return ALIASES.get(kind, kind) in KINDS


def _of(target: Target, known: Snapshot) -> Iterator[str]:
    name, namespace = target
    yield f"mooring why {printable(name)}{'' if namespace == 'default' else f' -n {printable(namespace)}'}:"
    try:
        yield from _lines(explain(name, namespace, known))
    except NoSuchObject as error:
        yield f"  {printable(str(error))}"


def _stuck(known: Snapshot) -> Iterator[str]:
    causes = list(stuck(known))
    yield "mooring why --all:" + ("" if causes else " nothing is stuck")
    for cause in causes[:MOST_STUCK]:
        yield from _lines(cause)
    if len(causes) > MOST_STUCK:
        yield f"  and {len(causes) - MOST_STUCK} more"


def _lines(cause: Cause) -> Iterator[str]:
    yield from (f"  {line}" for line in text.lines(cause, wall_clock(), lambda word, colour: word))
