"""What the leader of another shard does: it serves other volumes, and writes the same Nodes.

`docs/sharding.md` says what it is for. It reads a Node, and later writes the list of attached volumes, with
its own volumes changed and this one as it has read it.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.simulation.model.settings import Settings
from mooring.simulation.model.state import Move, Reading, State, put, written_node


def other_shard(state: State, settings: Settings, node: int) -> Iterator[Move]:
    shown, reading = state.nodes[node], state.readings[node]
    if not settings.has("shard"):
        return
    if reading is None:
        if shown is not None:
            yield Move(f"another shard reads Node {node}", _reads(state, node, Reading(shown.reported)))
        return
    forgets = _reads(state, node, None)
    if shown is not None and (reading.fresh or not settings.holds("C1s")):
        written = written_node(forgets, node, shown._replace(reported=reading.reported))
        yield Move(f"another shard writes Node {node}", written)
    else:
        yield Move(f"another shard writes Node {node}: conflict", forgets)


def _reads(state: State, node: int, reading: Reading | None) -> State:
    return state._replace(readings=put(state.readings, node, reading))
