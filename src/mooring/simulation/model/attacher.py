"""What the attacher asks of the storage, and what comes of it, as `controllers.attacher` has it."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.simulation.model import decisions
from mooring.simulation.model.settings import Settings
from mooring.simulation.model.state import (
    Move,
    State,
    put,
    without_record,
    written_record,
)


def attacher(state: State, settings: Settings, node: int) -> Iterator[Move]:
    record, request = state.records[node], state.requests[node]

    def requested(what: str) -> State:
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
        if step == "Detach" and not state.known[node] and request == "detach":
            again = state._replace(storage=put(state.storage, node, False))
            kept = record._replace(detached=True)
            yield Move(f"detached@{node}, one request may be late", written_record(again, node, kept))
        return
    if step == "StoreIntent":
        yield Move(f"intent@{node}", written_record(state, node, record._replace(finalizer=True)))
    elif step == "Attach" and state.storage[node]:
        yield Move(f"attached@{node}", written_record(state, node, record._replace(attached=True)))
    elif step == "Attach" and (record.current or not settings.holds("C14b") or not settings.locked):
        yield Move(f"ask to attach@{node}", requested("attach"))
    elif step == "Detach" and state.storage[node]:
        yield Move(f"ask to detach@{node}", requested("detach"))
    elif step == "Detach":
        yield Move(f"detached@{node}", without_record(state, node))


def _effect(state: State, settings: Settings, node: int) -> State:
    """What a request does to the storage."""
    done = state._replace(requests=put(state.requests, node, ""), known=put(state.known, node, True))
    if state.requests[node] == "detach":
        return done._replace(storage=put(done.storage, node, False))
    refused = settings.storage == "E" and any(state.storage)
    return done if refused else done._replace(storage=put(done.storage, node, True))
