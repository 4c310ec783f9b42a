"""The searches that are made: some in which nothing may be wrong, and one for each rule that is switched off.

A rule that is guarded by another one, a second lock on the same door, is switched off together with it.
"""

from __future__ import annotations

from typing import NamedTuple

from mooring.simulation.model.settings import Settings

TWO = Settings(nodes=2, pods=(0, 1), coarse=True, heartbeats=False)


class Run(NamedTuple):
    """`quick`: it takes a few seconds. `liveness`: whether every state can come right is asked, too."""

    name: str
    settings: Settings
    quick: bool = True
    liveness: bool = True


def _faults(*names: str) -> frozenset[str]:
    return frozenset(names)


HOLD = (
    Run("one node", Settings()),
    Run("one node, two leaders", Settings(leaders=2)),
    Run(
        "one node, two leaders, an agent that looks at no VolumeAttachment",
        Settings(leaders=2, off=_faults("R5")),
    ),
    Run(
        "one node, restarts, partitions, late status writes",
        Settings(faults=_faults("restart", "partition", "late-agent")),
        quick=False,
    ),
    Run("one node, restarts, two leaders", Settings(leaders=2, faults=_faults("restart")), quick=False),
    Run(
        "one node, its Node deleted by mistake, restarts", Settings(faults=_faults("wrong-delete", "restart"))
    ),
    Run("one node, fences, partitions", Settings(faults=_faults("fence", "partition")), quick=False),
    Run(
        "one node, taints, power, partitions",
        Settings(standing=True, faults=_faults("taint", "power", "partition")),
        quick=False,
    ),
    Run(
        "one node, statements, power, partitions",
        Settings(standing=True, faults=_faults("statement", "power", "partition")),
        quick=False,
    ),
    Run(
        "one node, Node deleted rightly, power, restarts",
        Settings(faults=_faults("power", "delete", "restart")),
    ),
    Run("one node, another shard", Settings(faults=_faults("shard"))),
    Run(
        "one node, another shard, an agent that looks at no VolumeAttachment",
        Settings(faults=_faults("shard"), off=_faults("R5")),
    ),
    Run("one node, another shard, two leaders", Settings(leaders=2, faults=_faults("shard")), quick=False),
    Run("one node, another shard, restarts", Settings(faults=_faults("shard", "restart")), quick=False),
    Run("two nodes, attacher killed, refusing storage", TWO._replace(faults=_faults("attacher"))),
    Run(
        "two nodes, attacher killed, refusing storage, two leaders",
        TWO._replace(leaders=2, faults=_faults("attacher")),
        quick=False,
    ),
    Run("two nodes, attacher killed, lock only", TWO._replace(storage="N", faults=_faults("attacher"))),
    Run("two nodes, lock only", TWO._replace(storage="N")),
    Run(
        "two nodes, lock only, fences",
        TWO._replace(storage="N", standing=True, faults=_faults("fence")),
        quick=False,
    ),
    Run(
        "two nodes, lock only, two leaders",
        TWO._replace(storage="N", standing=True, leaders=2),
        quick=False,
        liveness=False,
    ),
    Run(
        "two nodes, timer, partitions, lock on storage that revokes",
        TWO._replace(
            pods=(0,), standing=True, storage="M", timer=True, heartbeats=True, faults=_faults("partition")
        ),
        quick=False,
    ),
)
"""In these nothing may be wrong."""

HARM = (
    Run("C1", Settings(leaders=2, off=_faults("C1", "R5"))),
    Run("C1s", Settings(faults=_faults("shard"), off=_faults("C1s", "R5"))),
    Run("R1", Settings(leaders=2, off=_faults("R1"))),
    Run("R2", Settings(leaders=2, off=_faults("R2"))),
    Run("R3", Settings(leaders=2, off=_faults("R3", "R5"))),
    Run("R4", Settings(leaders=2, off=_faults("R4", "R5"))),
    Run("C5", Settings(faults=_faults("restart"), off=_faults("C5"))),
    Run("C6", Settings(faults=_faults("late-agent"), off=_faults("C6"))),
    Run("C7", Settings(faults=_faults("taint", "power"), off=_faults("C7", "C1", "R5"))),
    Run("C8", Settings(standing=True, faults=_faults("fence", "partition"), off=_faults("C8"))),
    Run("C9", Settings(standing=True, faults=_faults("fence", "wrong-delete"), off=_faults("C9"))),
    Run(
        "C10",
        Settings(standing=True, faults=_faults("taint", "power", "not-ready"), off=_faults("C10", "C11")),
        quick=False,
    ),
    Run(
        "C11",
        Settings(standing=True, faults=_faults("taint", "power", "partition"), off=_faults("C11")),
        quick=False,
    ),
    Run(
        "C12b",
        Settings(standing=True, faults=_faults("statement", "power", "partition"), off=_faults("C12b")),
        quick=False,
    ),
    Run("C13", Settings(faults=_faults("wrong-delete"), off=_faults("C13", "C13b"))),
    Run("C14", TWO._replace(standing=True, storage="N", leaders=2, off=_faults("C14", "C14b")), quick=False),
    Run("C15", TWO._replace(faults=_faults("attacher"), off=_faults("C15"))),
    Run(
        "C16",
        TWO._replace(
            pods=(0,), standing=True, storage="M", timer=True, faults=_faults("partition"), off=_faults("C16")
        ),
    ),
)
"""In each of these a rule is switched off, and harm is found. C2, C3 and C4 are R1 to R4; C12 is about
trust."""
