"""What leaders do, a request at a time: the handshake of `attachdetach.handshake` and
`attachdetach.locks`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from mooring.simulation.model import decisions
from mooring.simulation.model.settings import Settings
from mooring.simulation.model.state import (
    Attachment,
    Move,
    NodeObject,
    Operation,
    State,
    advanced,
    on_record,
    put,
    without_record,
    written_node,
    written_record,
)


def leader(state: State, settings: Settings, leader: int) -> Iterator[Move]:
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
        yield Move(
            "the old leader's request is lost", state._replace(leaders=put(state.leaders, 1, None)), True
        )


def _to_the_end(state: State, settings: Settings, name: str) -> Iterator[Move]:
    """All steps of an operation at once. Attach and grant stay in steps: what they guard against lies
    between."""
    operation = state.leaders[0]
    assert operation is not None
    if operation.kind in ("Attach", "Grant"):
        yield Move(name, state)
        return
    while (at := state.leaders[0]) is not None:
        found = list(_step(state, settings, 0, at))
        state = found[0][1] if found else state._replace(leaders=put(state.leaders, 0, None))
    yield Move(name, state)


def _operations(state: State, settings: Settings) -> list[Operation]:
    """What a leader may begin, whatever its caches of pods and of volumes in use still show; in order."""
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
    return sorted(found)


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
    others = any(
        each is not None and not each.detached
        for number, each in enumerate(state.records)
        if number != at.node
    )
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
        yield _swap(state, leader, at, shown)
    elif at.step == listing:
        yield _list(state, leader, at, others)


def _swap(state: State, leader: int, at: Operation, shown: NodeObject | None) -> tuple[str, State]:
    """The lock is granted to the node, unless that is closed."""
    if shown is None or (state.closed[at.node] and not decisions.opens(shown, state.closed[at.node])):
        return "closed", _next(state, leader, None)
    swapped = _next(advanced(state), leader, at, step=at.step + 1, current=True)
    return "swap", swapped._replace(closed=put(swapped.closed, at.node, 0))


def _list(state: State, leader: int, at: Operation, others: bool) -> tuple[str, State]:
    """The VolumeAttachments are listed live."""
    if others:
        return "list: another has it", _next(state, leader, None)
    return "list", _next(state, leader, at, step=at.step + 1)


def _grant(state: State, settings: Settings, leader: int, at: Operation) -> Iterator[tuple[str, State]]:
    shown, record = state.nodes[at.node], state.records[at.node]
    others = any(
        each is not None and each.attached and not each.detached
        for number, each in enumerate(state.records)
        if number != at.node
    )
    if record is None or shown is None:
        yield "grant: gone", _next(state, leader, None)
    elif at.step == 0:
        yield _swap(state, leader, at._replace(record_fresh=True), shown)
    elif at.step == 1:
        yield _list(state, leader, at, others)
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
            yield (
                "read Node",
                _next(state, leader, at, step=1 if settings.holds("R3") else 2, node_fresh=True),
            )
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
        marked = (
            written_record(state, at.node, record._replace(marked=True)) if settings.holds("R1") else state
        )
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
        yield "delete", _next(deleting if record.finalizer else without_record(state, at.node), leader, None)
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
    yield (
        "un-report",
        _next(answered, leader, kept, step=(3 if forced else 5) if allowed else 4, forced=forced),
    )


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
        statement = record.statement
        record = record._replace(statement=statement._replace(same_boot=True, same_report=True))
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
