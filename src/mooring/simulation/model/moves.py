"""What may happen next in a state: every step of every part, each with a name and whether it is a fault.

The parts do what the production decisions say (`decisions`); how their writes go, and on what condition, is written
here as the handshake of `attachdetach.handshake`, `locks`, the attacher and the node agent do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from mooring.simulation.model import decisions
from mooring.simulation.model.settings import Settings
from mooring.simulation.model.world import (
    Attachment,
    NodeObject,
    Operation,
    State,
    Word,
    advanced,
    on_record,
    other_report,
    put,
    written_node,
    written_record,
)


class Move(NamedTuple):
    """A step, and the state after it. `environment`: a fault, or what users do: nothing that must come."""

    name: str
    state: State
    environment: bool = False


def moves(state: State, settings: Settings) -> Iterator[Move]:
    """All that may happen next."""
    for node in range(settings.nodes):
        yield from _users(state, settings, node)
        yield from _agent(state, settings, node)
        yield from _attacher(state, settings, node)
        yield from _machine(state, settings, node)
        yield from _operators(state, settings, node)
    for leader in range(settings.leaders):
        yield from _leader(state, settings, leader)


# --- users, machines, operators --------------------------------------------------------------------------------------


def _users(state: State, settings: Settings, node: int) -> Iterator[Move]:
    if node in settings.pods and not settings.standing:
        wanted = state.wanted[node]
        yield Move(
            f"{'delete' if wanted else 'create'} pod@{node}",
            state._replace(wanted=put(state.wanted, node, not wanted)),
            True,
        )


def _machine(state: State, settings: Settings, node: int) -> Iterator[Move]:
    machine = state.machines[node]

    def changed(**changes: object) -> State:
        return state._replace(machines=put(state.machines, node, machine._replace(**changes)))  # type: ignore[arg-type]

    if machine.power and settings.has("restart"):
        yield Move(f"agent {node} restarts", changed(reconstructed=False, published=False, looked=0, write=None), True)
    if settings.has("partition"):
        word = "is cut off" if machine.reachable else "reaches the API again"
        yield Move(f"agent {node} {word}", changed(reachable=not machine.reachable), machine.reachable)
    if machine.power and settings.has("power"):
        off = changed(power=False, mounted=0, looked=0, published=False, reconstructed=False, write=None)
        yield Move(f"machine {node} loses power", off, True)
    if not machine.power:
        booted = changed(power=True)
        if (shown := booted.nodes[node]) is not None:
            booted = booted._replace(nodes=put(booted.nodes, node, shown._replace(boot_known=False)))
        yield Move(f"machine {node} boots", booted)
    shown = state.nodes[node]
    silent = not (machine.power and machine.reachable and machine.reconstructed)
    if shown is not None and silent and shown.ready != "Unknown":
        yield Move(f"node {node} is Unknown", written_node(state, node, shown._replace(ready="Unknown")))


def _operators(state: State, settings: Settings, node: int) -> Iterator[Move]:
    machine, shown, record = state.machines[node], state.nodes[node], state.records[node]
    if shown is not None:
        if settings.has("taint") and not machine.power and not shown.taint:
            yield Move(f"taint {node}", written_node(state, node, shown._replace(taint=True, seen=False)), True)
        if shown.taint:
            yield Move(f"untaint {node}", written_node(state, node, shown._replace(taint=False, seen=False)), True)
        if (settings.has("delete") and not machine.power) or settings.has("wrong-delete"):
            yield Move(f"delete node {node}", written_node(state, node, None), True)
    if record is None:
        return
    silent = not machine.power and (shown is None or shown.ready == "Unknown")
    if settings.has("statement") and silent and record.statement is None:
        said = record._replace(statement=Word(absent=shown is None))
        yield Move(f"confirm-dead {node}", written_record(state, node, said), True)
    if settings.has("fence") and record.evidence is None:
        off = machine._replace(power=False, mounted=0, looked=0, published=False, reconstructed=False, write=None)
        fenced = state._replace(machines=put(state.machines, node, off))
        evidence = record._replace(evidence=Word(absent=shown is None))
        yield Move(f"fence {node}", written_record(fenced, node, evidence), True)


# --- the node agent --------------------------------------------------------------------------------------------------


def _agent(state: State, settings: Settings, node: int) -> Iterator[Move]:
    machine, shown = state.machines[node], state.nodes[node]

    def changed(**changes: object) -> State:
        return state._replace(machines=put(state.machines, node, machine._replace(**changes)))  # type: ignore[arg-type]

    for slot in ("write", "late"):
        yield from _landing(state, settings, node, slot)
    if machine.write is not None and settings.has("late-agent") and machine.late is None:
        yield Move(
            f"agent {node} gives its write up", changed(write=None, late=machine.write, published=False, looked=0), True
        )
    if not machine.power:
        return
    if machine.looked == 2:
        yield from _mount(state, settings, node)
    if not machine.reconstructed:
        if machine.reachable:
            yield Move(f"agent {node} reconstructs", changed(reconstructed=True))
        if not settings.holds("C5") and machine.reachable and shown is not None and machine.write is None:
            yield Move(f"agent {node} reports too early", changed(write=(False, True, False)))
        return
    if not machine.reachable:
        return
    if shown is None:
        yield Move(f"agent {node} registers", _registered(state, settings, node))
        return
    awaits = bool(state.closed[node]) and not machine.mounted and not machine.looked
    if settings.heartbeats and machine.write is None and (machine.published or not machine.looked):
        yield Move(f"agent {node} reports", changed(write=(machine.published or bool(machine.mounted), True, awaits)))
        if settings.has("not-ready") and shown.ready == "True":
            yield Move(f"node {node} is not ready", _said(state, node, shown._replace(ready="False")), True)
    step = decisions.agent_step(
        machine._replace(write=None, late=None), state.wanted[node], shown.reported, machine.mounted == 2
    )
    if machine.looked == 1 and step != "MountDevice":
        yield Move(f"agent {node} looks no further", changed(looked=0))
    if step == "Publish" and machine.write is None:
        yield Move(f"agent {node} publishes", changed(write=(True, True, awaits)))
    elif step == "MountDevice" and (machine.write is None or machine.write[0]):
        yield from _look(state, settings, node)
    elif step in ("UnmountDevice", "EndPods", "TearDown"):
        yield Move(f"agent {node} unmounts", changed(mounted=0, looked=0))
    elif step == "Unpublish" and (machine.published or shown.in_use) and machine.write is None:
        yield Move(f"agent {node} unpublishes", changed(write=(False, True, False), looked=0))


def _landing(state: State, settings: Settings, node: int, slot: str) -> Iterator[Move]:
    """A status write reaches the API, or is refused."""
    machine, shown = state.machines[node], state.nodes[node]
    write = getattr(machine, slot)
    if write is None:
        return
    in_use, fresh, awaits = write
    known = machine._replace(**{slot: None})
    if shown is None or not (fresh or not settings.holds("C6")):
        yield Move(f"a write of agent {node} is refused", state._replace(machines=put(state.machines, node, known)))
        return
    if slot == "write":
        known = known._replace(published=in_use, looked=known.looked if in_use else 0)
    told = state._replace(machines=put(state.machines, node, known))
    yield Move(
        f"agent {node} says in use: {in_use}",
        _said(told, node, shown._replace(in_use=in_use, ready="True", awaits=awaits)),
    )


def _said(state: State, node: int, shown: NodeObject) -> State:
    """What the agent's own report changes besides."""
    before = state.nodes[node]
    other_boot = before is not None and not before.boot_known
    seen = shown.seen or shown.taint
    told = written_node(state, node, shown._replace(boot_known=True, reconstructed=True, seen=seen))
    if other_boot and told.closed[node]:
        told = told._replace(closed=put(told.closed, node, 2))
    return other_report(told, node, boot=other_boot)


def _registered(state: State, settings: Settings, node: int) -> State:
    machine = state.machines[node]
    in_use = bool(machine.mounted) and settings.holds("C13b")
    anew = written_node(state, node, NodeObject(in_use=in_use, reconstructed=settings.holds("C13b")))
    known = anew.machines[node]._replace(published=in_use, looked=0)
    leaders = tuple(
        each._replace(same_node=False) if each is not None and each.node == node else each for each in anew.leaders
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
        yield Move(f"agent {node} finds no device", state._replace(machines=put(state.machines, node, failed)))


# --- the attacher and the storage ------------------------------------------------------------------------------------


def _attacher(state: State, settings: Settings, node: int) -> Iterator[Move]:
    record, request = state.records[node], state.requests[node]

    def asked(what: str) -> State:
        return state._replace(requests=put(state.requests, node, what), known=put(state.known, node, True))

    if request:
        yield Move(f"{request}@{node} takes effect", _effect(state, settings, node))
        if settings.has("attacher") and state.known[node]:
            yield Move("the attacher is killed", state._replace(known=put(state.known, node, False)), True)
    if record is None:
        return
    step = decisions.attacher_step(record, record.finalizer or not settings.holds("C15"))
    outstanding = request and (settings.holds("C15") or state.known[node])
    if outstanding:
        return
    if step == "StoreIntent":
        yield Move(f"intent@{node}", written_record(state, node, record._replace(finalizer=True)))
    elif step == "Attach" and state.storage[node]:
        yield Move(f"attached@{node}", written_record(state, node, record._replace(attached=True)))
    elif step == "Attach" and (record.current or not settings.holds("C14b") or not settings.locked):
        yield Move(f"ask to attach@{node}", asked("attach"))
    elif step == "Detach" and state.storage[node]:
        yield Move(f"ask to detach@{node}", asked("detach"))
    elif step == "Detach":
        yield Move(f"detached@{node}", _without_record(state, node))


def _effect(state: State, settings: Settings, node: int) -> State:
    """What a request does to the storage."""
    done = state._replace(requests=put(state.requests, node, ""), known=put(state.known, node, True))
    if state.requests[node] == "detach":
        return done._replace(storage=put(done.storage, node, False))
    refused = settings.storage == "E" and any(state.storage)
    return done if refused else done._replace(storage=put(done.storage, node, True))


def _without_record(state: State, node: int) -> State:
    """The VolumeAttachment is gone; a mount that is left has lost its ground."""
    gone = written_record(state, node, None)
    machine = gone.machines[node]
    return (
        gone._replace(machines=put(gone.machines, node, machine._replace(mounted=2))) if machine.mounted == 1 else gone
    )


# --- the leaders -----------------------------------------------------------------------------------------------------


def _leader(state: State, settings: Settings, leader: int) -> Iterator[Move]:
    at = state.leaders[leader]
    if at is None:
        if leader == 0:
            for operation in _operations(state, settings):
                begun = state._replace(leaders=put(state.leaders, 0, operation))
                name = f"leader begins {operation.kind}@{operation.node}"
                yield from _to_the_end(begun, settings, name) if settings.coarse else [Move(name, begun)]
        return
    for name, after in _step(state, settings, leader, at):
        yield Move(f"leader {leader}: {name}", after)
    if leader == 0:
        yield Move("the leader dies", state._replace(leaders=put(state.leaders, 0, None)), True)
        if settings.leaders == 2 and state.leaders[1] is None:
            yield Move("another leads", state._replace(leaders=(None, at)), True)
    else:
        yield Move("the old leader's request is lost", state._replace(leaders=put(state.leaders, 1, None)), True)


def _to_the_end(state: State, settings: Settings, name: str) -> Iterator[Move]:
    """All steps of an operation at once. Attach and grant stay in steps: what they guard against lies between."""
    operation = state.leaders[0]
    assert operation is not None
    if operation.kind in ("Attach", "Grant"):
        yield Move(name, state)
        return
    while (at := state.leaders[0]) is not None:
        found = list(_step(state, settings, 0, at))
        state = found[0][1] if found else state._replace(leaders=put(state.leaders, 0, None))
    yield Move(name, state)


def _operations(state: State, settings: Settings) -> set[Operation]:
    """What a leader may begin, whatever its caches of pods and of volumes in use still show."""
    found: set[Operation] = set()
    idle = tuple(each._replace(in_use=False) if each is not None else None for each in state.nodes)
    views = [(state.nodes, wanted) for wanted in product((False, True), repeat=settings.nodes)]
    views += [(idle, wanted) for _, wanted in views]
    for nodes, wanted in views:
        for kind, node in decisions.begins(
            nodes, state.records, wanted, state.closed, settings.locked, settings.revokes, settings.timer
        ):
            found.add(Operation(kind, node))
    if not settings.holds("C13"):
        found |= {Operation("Report", node) for node, each in enumerate(state.records) if each is not None}
    return found


def _step(state: State, settings: Settings, leader: int, at: Operation) -> Iterator[tuple[str, State]]:
    steps = {
        "Attach": _attach,
        "Grant": _grant,
        "Report": _report,
        "Detach": _detach,
        "Restore": _restore,
        "Restamp": _restamp,
    }
    yield from steps[at.kind](state, settings, leader, at)


def _next(state: State, leader: int, at: Operation | None, **changes: object) -> State:
    operation = at._replace(**changes) if at is not None else None  # type: ignore[arg-type]
    return state._replace(leaders=put(state.leaders, leader, operation))


def _attach(state: State, settings: Settings, leader: int, at: Operation) -> Iterator[tuple[str, State]]:
    shown = state.nodes[at.node]
    others = any(each is not None for number, each in enumerate(state.records) if number != at.node)
    guarded = settings.locked or state.closed[at.node]
    listing, swapping = (1, 0) if settings.holds("C14") else (0, 1)
    if at.step == 2:
        if state.records[at.node] is not None:
            yield "create: exists", _next(state, leader, None)
            return
        created = written_record(state, at.node, Attachment(current=at.current, same_node=at.same_node))
        yield "create", _next(created, leader, None)
    elif not guarded:
        yield "has no lock to take", _next(state, leader, at, step=2)
    elif at.step == swapping:
        if shown is None or (state.closed[at.node] and not decisions.opens(shown, state.closed[at.node])):
            yield "closed", _next(state, leader, None)
            return
        swapped = _next(advanced(state), leader, at, step=at.step + 1, current=True)
        yield "swap", swapped._replace(closed=put(swapped.closed, at.node, 0))
    elif at.step == listing:
        yield (
            ("list: another has it", _next(state, leader, None))
            if others
            else ("list", _next(state, leader, at, step=at.step + 1))
        )


def _grant(state: State, settings: Settings, leader: int, at: Operation) -> Iterator[tuple[str, State]]:
    shown, record = state.nodes[at.node], state.records[at.node]
    others = any(each is not None and each.attached for number, each in enumerate(state.records) if number != at.node)
    if record is None or shown is None:
        yield "grant: gone", _next(state, leader, None)
    elif at.step == 0:
        if state.closed[at.node] and not decisions.opens(shown, state.closed[at.node]):
            yield "closed", _next(state, leader, None)
            return
        swapped = _next(advanced(state), leader, at, step=1, current=True, record_fresh=True)
        yield "swap", swapped._replace(closed=put(swapped.closed, at.node, 0))
    elif at.step == 1:
        yield (
            ("list: another has it", _next(state, leader, None))
            if others
            else ("list", _next(state, leader, at, step=2))
        )
    elif at.record_fresh:
        stamped = written_record(state, at.node, record._replace(current=at.current, same_node=at.same_node))
        yield "stamp", _next(stamped, leader, None)
    else:
        yield "stamp: conflict", _next(state, leader, None)


def _report(state: State, settings: Settings, leader: int, at: Operation) -> Iterator[tuple[str, State]]:
    shown, record = state.nodes[at.node], state.records[at.node]
    if at.step == 0:
        if shown is None:
            yield "no Node", _next(state, leader, None)
        else:
            yield "read Node", _next(state, leader, at, step=1 if settings.holds("R3") else 2, node_fresh=True)
    elif at.step == 1:
        usable = record is not None and record.attached and not (record.marked or record.deleting)
        current = record is not None and (record.current or not settings.locked or not settings.holds("C14b"))
        same = record is not None and (record.same_node or not settings.holds("C13"))
        if usable and current and same:
            yield "look at VolumeAttachment", _next(state, leader, at, step=2)
        else:
            yield "not usable", _next(state, leader, None)
    elif shown is not None and (at.node_fresh or not settings.holds("C1")):
        yield "report", _next(written_node(state, at.node, shown._replace(reported=True)), leader, None)
    else:
        yield "report: conflict", _next(state, leader, None)


def _detach(state: State, settings: Settings, leader: int, at: Operation) -> Iterator[tuple[str, State]]:
    shown, record = state.nodes[at.node], state.records[at.node]
    if record is None or (at.step == 0 and record.deleting):
        yield "gone", _next(state, leader, None)
    elif at.step == 0:
        marked = written_record(state, at.node, record._replace(marked=True)) if settings.holds("R1") else state
        yield "mark", _next(marked, leader, at, step=1, record_fresh=True)
    elif at.step == 1:
        earlier, _ = _judged(shown, record, settings)
        yield "read Node", _next(state, leader, at, step=2, node_fresh=True, earlier=earlier)
    elif at.step == 2:
        yield from _unreport(state, settings, leader, at, shown, record)
    elif at.step == 3:
        forced = advanced(state) if at.forced and settings.holds("C16") else state
        if at.forced and settings.holds("C16"):
            forced = forced._replace(closed=put(forced.closed, at.node, 1))
            if (there := forced.nodes[at.node]) is not None:  # what it has said was said before
                forced = forced._replace(nodes=put(forced.nodes, at.node, there._replace(awaits=False)))
        yield "let go on the lock", _next(forced, leader, at, step=5)
    elif at.step == 4:
        restored = written_record(state, at.node, record._replace(marked=False)) if at.record_fresh else state
        yield "take the mark back", _next(restored, leader, None)
    elif at.record_fresh or not settings.holds("R2"):
        deleting = written_record(state, at.node, record._replace(deleting=True, forced=at.forced))
        yield "delete", _next(deleting if record.finalizer else _without_record(state, at.node), leader, None)
    else:
        yield "delete: conflict", _next(state, leader, None)


def _unreport(
    state: State, settings: Settings, leader: int, at: Operation, shown: NodeObject | None, record: Attachment
) -> Iterator[tuple[str, State]]:
    if shown is not None and not at.node_fresh and settings.holds("C1"):
        yield "un-report: conflict", _next(state, leader, None)
        return
    answered, answer = state, shown
    if shown is not None and (shown.reported or settings.holds("R4")):
        answer = shown._replace(reported=False)
        answered = written_node(state, at.node, answer)
    allowed, forced = _judged(answer, record, settings)
    if not settings.holds("C7"):
        allowed = at.earlier
    kept = answered.leaders[leader]
    assert kept is not None
    yield "un-report", _next(answered, leader, kept, step=(3 if forced else 5) if allowed else 4, forced=forced)


def _judged(shown: NodeObject | None, record: Attachment, settings: Settings) -> tuple[bool, bool]:
    """`may_release` on these objects, or on what it would take them for with a rule switched off."""
    if shown is not None:
        if not settings.holds("C10") and shown.ready == "False":
            shown = shown._replace(ready="Unknown")
        if not settings.holds("C11"):
            shown = shown._replace(seen=False)
    if not settings.holds("C8") and record.evidence is not None:
        record = record._replace(evidence=record.evidence._replace(same_boot=True))
    if not settings.holds("C9") and record.evidence is not None:
        record = record._replace(evidence=record.evidence._replace(absent=True))
    if not settings.holds("C12b") and record.statement is not None:
        said = record.statement
        record = record._replace(statement=said._replace(same_boot=True, same_report=True))
    if not settings.holds("C13"):
        record = record._replace(same_node=True)
    return decisions.released(shown, record, settings.revokes, settings.timer)


def _restore(state: State, settings: Settings, leader: int, at: Operation) -> Iterator[tuple[str, State]]:
    record = state.records[at.node]
    if record is not None and record.marked and not record.deleting:
        state = written_record(state, at.node, record._replace(marked=False))
    yield "take the mark back", _next(state, leader, None)


def _restamp(state: State, settings: Settings, leader: int, at: Operation) -> Iterator[tuple[str, State]]:
    shown, record = state.nodes[at.node], state.records[at.node]
    if shown is not None and record is not None and (shown.reconstructed or shown.in_use):
        state = on_record(written_record(state, at.node, record), at.node, same_node=True)
    yield "stamp", _next(state, leader, None)
