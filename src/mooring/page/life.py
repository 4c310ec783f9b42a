"""How a volume, or a node, came where it is: each step with its time, its object and who says so. Pure.

What the API still shows is told first: the times on the objects and the events about them. To this comes what
the page has seen itself in the last hour (`history`). A volume's way has milestones, from claim to mount; the
first that is missing is what it waits for, and the reason is that of `mooring why`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mooring.kube.objects import Event, Node, Object, PersistentVolumeClaim, Pod, VolumeAttachment
from mooring.kube.readiness import ready_since
from mooring.kube.times import parse_time
from mooring.page.history import Change
from mooring.page.model import Model
from mooring.page.own_volumes import OWN, split_own
from mooring.page.rows import CLAIM, MOST_PODS, Row
from mooring.page.text import message, name
from mooring.page.world import World
from mooring.why.cause import about

MOST_STEPS = 400
"""Of one life, the latest so many."""


def volume_life(key: str, model: Model) -> dict[str, Any] | None:
    """The life of the volume with that id of a row: `milestones` and `steps`; None if there is no such
    volume, and none was seen in the last hour."""
    if key.startswith(OWN):
        return _own_life(key, model)
    world = model.world
    seen = list(model.history.about("volumes", name(key)))
    claim_key = key.removeprefix(CLAIM) if key.startswith(CLAIM) else world.claim_key(key) or _claim_in(seen)
    if not key.startswith(CLAIM) and claim_key:  # what was seen while it was only a claim
        seen = [*model.history.about("volumes", name(f"{CLAIM}{claim_key}")), *seen]
    claim = world.claims.get(claim_key or "")
    pv = world.volumes.get(claim.spec.volume_name if claim is not None and claim.spec.volume_name else key)
    if claim is None and pv is None and not seen:
        return None
    pods = [world.pods[each] for each in world.pods_by_claim.of(claim_key or "")][:MOST_PODS]
    unique = world.unique_name(pv.name) if pv is not None else ""
    records = world.known.attachments_of(unique) if unique else []
    objects: list[Object] = [each for each in (claim, pv) if each is not None]
    objects += [*records, *pods]
    steps = [*_of_objects(objects, world), *(_seen(at, change) for at, change in seen)]
    row = model.tables["volumes"].get(name(pv.name if pv is not None else key)) or {}
    way = _milestones(claim, pv, records, pods, row, steps, seen, attaches=bool(unique))
    return {
        "milestones": list(way),
        "steps": _in_order(steps),
    }


def _own_life(key: str, model: Model) -> dict[str, Any] | None:
    """The life of a volume that a pod defines: what it shares with others, from the pod on."""
    seen = list(model.history.about("volumes", name(key)))
    row = model.tables["volumes"].get(name(key))
    pod = model.world.pods.get(split_own(key.removeprefix(OWN))[0])
    if row is None and not seen:
        return None
    pods = [pod] if pod is not None else []
    steps = [*_of_objects(pods, model.world), *(_seen(at, change) for at, change in seen)]
    unique = model.world.own_unique(key.removeprefix(OWN))
    records = model.world.known.attachments_of(unique) if unique else []
    steps += _of_objects(records, model.world)
    way = _milestones(None, None, records, pods, row or {}, steps, seen, attaches=bool(unique))
    return {
        "milestones": [each for each in way if each["what"] not in ("claimed", "provisioned", "bound")],
        "steps": _in_order(steps),
    }


def node_life(key: str, model: Model) -> dict[str, Any] | None:
    """The life of a node: `facts` and `steps`; None if it is not known."""
    world = model.world
    node = world.nodes.get(key)
    seen = list(model.history.about("nodes", name(key)))
    if node is None and not seen and name(key) not in model.tables["nodes"]:
        return None
    fences = [fence for fence in world.known.fences.values() if fence.spec.node_name == key]
    objects: list[Object] = [*([node] if node is not None else []), *fences]
    steps = [*_of_objects(objects, world), *(_seen(at, change) for at, change in seen)]
    if node is not None:
        steps += _of_node(node)
    steps += [
        step
        for fence in fences
        for attempt in fence.status.attempts
        for at, word in ((attempt.ordered_at, "ordered"), (attempt.answered_at, attempt.outcome))
        if at
        and (step := _step(at, f"fence {attempt.mechanism}: {word}", about(fence), "object", attempt.message))
    ]
    return {"facts": list(_facts(node)), "steps": _in_order(steps)}


# --- a volume's milestones


def _milestones(
    claim: PersistentVolumeClaim | None,
    pv: Object | None,
    records: list[VolumeAttachment],
    pods: list[Pod],
    row: Row,
    steps: list[Row],
    seen: list[tuple[int, Change]],
    *,
    attaches: bool,
) -> Iterator[Row]:
    """Claim, volume, bound, wanted, attached, mounted, running: each with its time, if it has come."""
    yield _milestone("claimed", claim is not None, _at(claim))
    yield _milestone("provisioned", pv is not None, _at(pv))
    bound = claim is not None and claim.status.phase == "Bound"
    yield _milestone("bound", bound, _left_claim(seen))
    wanted = [pod for pod in pods if pod.spec.node_name and not pod.finished]
    yield _milestone("wanted", bool(wanted), min(map(_scheduled_at, wanted), default=0), ", ".join(
        dict.fromkeys(name(pod.spec.node_name) for pod in wanted)
    ))  # fmt: skip
    states = {place["state"] for place in row.get("on", ())}
    if attaches:
        held = bool(states & {"attached", "in-use", "detaching"})
        since = _since(seen, "attached", "in-use") or _last_event(steps, "SuccessfulAttachVolume")
        yield _milestone("attached", held, since or _at(records[0] if records else None))
    mounted = bool(states & {"in-use", "used"})
    yield _milestone("mounted", mounted, _since(seen, "in-use", "used"))
    ready = [at for pod in pods if (at := _ready_at(pod))]
    yield _milestone("running", bool(ready), min(ready, default=0))


def _milestone(what: str, reached: bool, at: int, note: str = "") -> Row:
    row: Row = {"what": what, "reached": reached}
    if reached and at:
        row["at"] = at
    if note:
        row["note"] = note
    return row


def _at(obj: Object | None) -> int:
    return _ms(obj.metadata.creation_timestamp) if obj is not None else 0


def _scheduled_at(pod: Pod) -> int:
    times = (each.last_transition_time for each in pod.status.conditions if each.type == "PodScheduled")
    return _ms(next(times, None)) or _at(pod)


def _ready_at(pod: Pod) -> int:
    since = ready_since(pod)
    return int(since.timestamp() * 1000) if since is not None else 0


def _since(seen: Iterable[tuple[int, Change]], *states: str) -> int:
    """When the volume last came into one of these states on a node; 0 if the page has not seen that."""
    came = (at for at, each in seen if _in(each.after, states) and not _in(each.before, states))
    return max(came, default=0)


def _in(row: Row | None, states: tuple[str, ...]) -> bool:
    return any(place["state"] in states for place in (row or {}).get("on", ()))


def _left_claim(seen: Iterable[tuple[int, Change]]) -> int:
    """When the row of the claim alone went: from then on its volume has one."""
    return max((at for at, each in seen if each.key.startswith(CLAIM) and each.after is None), default=0)


def _last_event(steps: Iterable[Row], reason: str) -> int:
    return max((step["at"] for step in steps if step["by"] == "event" and step["what"] == reason), default=0)


# --- steps


def _of_objects(objects: Iterable[Object], world: World) -> Iterator[Row]:
    for obj in objects:
        meta, kind = obj.metadata, obj.RESOURCE.kind
        if meta.creation_timestamp:
            yield _step(meta.creation_timestamp, f"{kind} created", about(obj), "object")
        if meta.deletion_timestamp:
            yield _step(meta.deletion_timestamp, f"{kind} is being deleted", about(obj), "object")
        events = world.events.get(obj.uid) or world.events.get(obj.name, ()) if obj.uid else ()
        yield from (_of_event(event, obj) for event in events)


def _of_event(event: Event, obj: Object) -> Row:
    at = event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp or ""
    row = _step(at, event.reason, about(obj), "event", event.message)
    if event.type == "Warning":
        row["warning"] = True
    if event.count and event.count > 1:
        row["count"] = event.count
    if source := event.source.component or event.reporting_component:
        row["from"] = name(source)
    return row


def _of_node(node: Node) -> Iterator[Row]:
    for condition in node.status.conditions:
        if condition.last_transition_time:
            what = f"{condition.type} is {condition.status}"
            yield _step(condition.last_transition_time, what, about(node), "object", condition.message)
    for taint in node.spec.taints:
        if taint.time_added:
            yield _step(taint.time_added, f"taint {taint.key} ({taint.effect})", about(node), "object")


def _seen(at: int, change: Change) -> Row:
    before, after = change.before or {}, change.after or {}
    was, now = before.get("phase", ""), after.get("phase", "")
    words = f"{was or 'new'} → {now or 'gone'}" if was != now else _difference(before, after)
    row: Row = {"at": at, "what": words, "by": "seen", "to": now}
    places = ", ".join(f"{place['state']} on {place['node']}" for place in after.get("on", ()))
    if places:
        row["message"] = places
    return row


def _difference(before: Row, after: Row) -> str:
    names = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    told = (f"{_WORDS.get(key, key)}: {_shown(after.get(key))}" for key in names)
    return message("; ".join(told))


_WORDS = {"on": "where", "true": "true", "differs": "difference", "inUse": "in use", "marks": "marked"}


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_shown(each) for each in value) or "none"  # type: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return " ".join(str(each) for each in value.values()) or "none"  # type: ignore[reportUnknownVariableType]
    return str(value) if value is not None else "none"


def _step(at: str, what: str, of: str, by: str, said: str = "") -> Row:
    row: Row = {"at": _ms(at), "what": name(what), "object": name(of), "by": by}
    if said:
        row["message"] = message(said)
    return row


def _in_order(steps: list[Row]) -> list[Row]:
    return sorted(steps, key=lambda step: step["at"])[-MOST_STEPS:]


def _claim_in(seen: list[tuple[int, Change]]) -> str:
    rows = (row for _, change in reversed(seen) for row in (change.after, change.before) if row)
    return next((row["claim"] for row in rows if "claim" in row), "")


def _facts(node: Node | None) -> Iterator[tuple[str, str]]:
    if node is None:
        return
    heard = [
        c.last_heartbeat_time for c in node.status.conditions if c.type == "Ready" and c.last_heartbeat_time
    ]
    info = node.status.node_info
    addresses = ", ".join(each.get("address", "") for each in node.status.addresses)
    facts = (
        ("last status", heard[0] if heard else ""),
        ("boot", info.boot_id),
        ("machine", info.system_uuid or info.machine_id),
        ("provider", node.spec.provider_id),
        ("addresses", addresses),
        ("taints", ", ".join(f"{taint.key}:{taint.effect}" for taint in node.spec.taints)),
    )
    yield from ((what, name(value)) for what, value in facts if value)


def _ms(time: str | None) -> int:
    try:
        return int(parse_time(time).timestamp() * 1000) if time else 0
    except ValueError:
        return 0
