"""What users, operators and fences do, and what happens to machines and agents."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.simulation.model.settings import Settings
from mooring.simulation.model.state import (
    Move,
    State,
    Testimony,
    on_machine,
    put,
    written_node,
    written_record,
)


def users(state: State, settings: Settings, node: int) -> Iterator[Move]:
    if node in settings.pods and not settings.standing:
        wanted = state.wanted[node]
        yield Move(
            f"{'delete' if wanted else 'create'} pod@{node}",
            state._replace(wanted=put(state.wanted, node, not wanted)),
            True,
        )


def machine(state: State, settings: Settings, node: int) -> Iterator[Move]:
    machine = state.machines[node]

    if machine.power and settings.has("restart"):
        yield Move(
            f"agent {node} restarts",
            on_machine(state, node, reconstructed=False, published=False, looked=0, write=None),
            True,
        )
    if settings.has("partition"):
        word = "is cut off" if machine.reachable else "reaches the API again"
        yield Move(
            f"agent {node} {word}",
            on_machine(state, node, reachable=not machine.reachable),
            machine.reachable,
        )
    if machine.power and settings.has("power"):
        off = state._replace(machines=put(state.machines, node, machine.without_power()))
        yield Move(f"machine {node} loses power", off, True)
    if not machine.power:
        booted = on_machine(state, node, power=True)
        if (shown := booted.nodes[node]) is not None:
            booted = booted._replace(nodes=put(booted.nodes, node, shown._replace(boot_known=False)))
        yield Move(f"machine {node} boots", booted)
    shown = state.nodes[node]
    silent = not (machine.power and machine.reachable and machine.reconstructed)
    if shown is not None and silent and shown.ready != "Unknown":
        yield Move(f"node {node} is Unknown", written_node(state, node, shown._replace(ready="Unknown")))


def operators(state: State, settings: Settings, node: int) -> Iterator[Move]:
    machine, shown, record = state.machines[node], state.nodes[node], state.records[node]
    if shown is not None:
        if settings.has("taint") and not machine.power and not shown.taint:
            yield Move(
                f"taint {node}", written_node(state, node, shown._replace(taint=True, seen=False)), True
            )
        if shown.taint:
            yield Move(
                f"untaint {node}", written_node(state, node, shown._replace(taint=False, seen=False)), True
            )
        if (settings.has("delete") and not machine.power) or settings.has("wrong-delete"):
            yield Move(f"delete node {node}", written_node(state, node, None), True)
    if record is None:
        return
    silent = not machine.power and (shown is None or shown.ready == "Unknown")
    if settings.has("statement") and silent and record.statement is None:
        stated = record._replace(statement=Testimony(absent=shown is None))
        yield Move(f"confirm-dead {node}", written_record(state, node, stated), True)
    if settings.has("fence") and record.evidence is None:
        fenced = state._replace(machines=put(state.machines, node, machine.without_power()))
        evidence = record._replace(evidence=Testimony(absent=shown is None))
        yield Move(f"fence {node}", written_record(fenced, node, evidence), True)
