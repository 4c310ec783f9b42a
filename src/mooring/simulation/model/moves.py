"""What may happen next in a state: every step of every part.

The parts do what the production decisions say (`decisions`); how their writes go, and on what condition, is
written in the module of each.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.simulation.model.agents import agent
from mooring.simulation.model.attacher import attacher
from mooring.simulation.model.environment import machine, operators, users
from mooring.simulation.model.leaders import leader
from mooring.simulation.model.settings import Settings
from mooring.simulation.model.shards import other_shard
from mooring.simulation.model.state import Move, State


def moves(state: State, settings: Settings) -> Iterator[Move]:
    """All that may happen next."""
    for node in range(settings.nodes):
        for part in (users, agent, attacher, machine, operators, other_shard):
            yield from part(state, settings, node)
    for number in range(settings.leaders):
        yield from leader(state, settings, number)
