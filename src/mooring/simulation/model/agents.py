"""What a node's agent does: it publishes, looks, mounts, and lets go, as `node.volumes` has it."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.simulation.model import decisions
from mooring.simulation.model.settings import Settings
from mooring.simulation.model.state import (
    Move,
    NodeObject,
    State,
    on_machine,
    other_report,
    put,
    written_node,
)


def agent(state: State, settings: Settings, node: int) -> Iterator[Move]:
    machine, shown = state.machines[node], state.nodes[node]

    for slot in ("write", "late"):
        yield from _landing(state, settings, node, slot)
    if machine.write is not None and settings.has("late-agent") and machine.late is None:
        yield Move(
            f"agent {node} gives its write up",
            on_machine(state, node, write=None, late=machine.write, published=False, looked=0),
            True,
        )
    if not machine.power:
        return
    if machine.looked == 2:
        yield from _mount(state, settings, node)
    if not machine.reconstructed:
        if machine.reachable:
            yield Move(f"agent {node} reconstructs", on_machine(state, node, reconstructed=True))
        if not settings.holds("C5") and machine.reachable and shown is not None and machine.write is None:
            yield Move(f"agent {node} reports too early", on_machine(state, node, write=(False, True, False)))
        return
    if not machine.reachable:
        return
    if shown is None:
        yield Move(f"agent {node} registers", _registered(state, settings, node))
        return
    awaits = bool(state.closed[node]) and not machine.mounted and not machine.looked
    if settings.heartbeats and machine.write is None and (machine.published or not machine.looked):
        yield Move(
            f"agent {node} reports",
            on_machine(state, node, write=(machine.published or bool(machine.mounted), True, awaits)),
        )
        if settings.has("not-ready") and shown.ready == "True":
            yield Move(
                f"node {node} is not ready", _reported(state, node, shown._replace(ready="False")), True
            )
    step = decisions.agent_step(
        machine._replace(write=None, late=None), state.wanted[node], shown.reported, machine.mounted == 2
    )
    if machine.looked == 1 and step != "MountDevice":
        yield Move(f"agent {node} looks no further", on_machine(state, node, looked=0))
    if step == "Publish" and machine.write is None:
        yield Move(f"agent {node} publishes", on_machine(state, node, write=(True, True, awaits)))
    elif step == "MountDevice" and (machine.write is None or machine.write[0]):
        yield from _look(state, settings, node)
    elif step in ("UnmountDevice", "EndPods", "TearDown"):
        yield Move(f"agent {node} unmounts", on_machine(state, node, mounted=0, looked=0))
    elif step == "Unpublish" and (machine.published or shown.in_use) and machine.write is None:
        yield Move(f"agent {node} unpublishes", on_machine(state, node, write=(False, True, False), looked=0))


def _landing(state: State, settings: Settings, node: int, slot: str) -> Iterator[Move]:
    """A status write reaches the API, or is refused."""
    machine, shown = state.machines[node], state.nodes[node]
    write = getattr(machine, slot)
    if write is None:
        return
    in_use, fresh, awaits = write
    known = machine._replace(**{slot: None})
    if shown is None or not (fresh or not settings.holds("C6")):
        yield Move(
            f"a write of agent {node} is refused", state._replace(machines=put(state.machines, node, known))
        )
        return
    if slot == "write":
        known = known._replace(published=in_use, looked=known.looked if in_use else 0)
    reporting = state._replace(machines=put(state.machines, node, known))
    yield Move(
        f"agent {node} says in use: {in_use}",
        _reported(reporting, node, shown._replace(in_use=in_use, ready="True", awaits=awaits)),
    )


def _reported(state: State, node: int, shown: NodeObject) -> State:
    """What the agent's own report changes besides."""
    before = state.nodes[node]
    other_boot = before is not None and not before.boot_known
    seen = shown.seen or shown.taint
    written = written_node(state, node, shown._replace(boot_known=True, reconstructed=True, seen=seen))
    if other_boot and written.closed[node]:
        written = written._replace(closed=put(written.closed, node, 2))
    return other_report(written, node, boot=other_boot)


def _registered(state: State, settings: Settings, node: int) -> State:
    machine = state.machines[node]
    in_use = bool(machine.mounted) and settings.holds("C13b")
    anew = written_node(state, node, NodeObject(in_use=in_use, reconstructed=settings.holds("C13b")))
    known = anew.machines[node]._replace(published=in_use, looked=0)
    leaders = tuple(
        each._replace(same_node=False) if each is not None and each.node == node else each
        for each in anew.leaders
    )
    anew = anew._replace(machines=put(anew.machines, node, known), leaders=leaders)
    return other_report(anew, node, boot=True, uid=True)


def _look(state: State, settings: Settings, node: int) -> Iterator[Move]:
    machine, shown, record = state.machines[node], state.nodes[node], state.records[node]

    def looked(count: int) -> State:
        return state._replace(machines=put(state.machines, node, machine._replace(looked=count)))

    if machine.looked == 0 and shown is not None and shown.in_use and shown.reported and machine.published:
        yield Move(f"agent {node} looks at the Node", looked(1 if settings.holds("R5") else 2))
    if machine.looked == 1:
        usable = record is not None and record.attached and not (record.marked or record.deleting)
        current = record is not None and (record.current or not settings.holds("C14b"))
        if usable and current:
            yield Move(f"agent {node} looks at the VolumeAttachment", looked(2))
        else:
            yield Move(f"agent {node} looks again later", looked(0))


def _mount(state: State, settings: Settings, node: int) -> Iterator[Move]:
    machine = state.machines[node]
    if state.storage[node] or settings.storage == "N":
        mounted = machine._replace(mounted=1 if state.records[node] is not None else 2, looked=0)
        yield Move(f"agent {node} mounts", state._replace(machines=put(state.machines, node, mounted)))
    else:
        failed = machine._replace(looked=0)
        yield Move(
            f"agent {node} finds no device", state._replace(machines=put(state.machines, node, failed))
        )
