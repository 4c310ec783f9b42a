"""The page's state: rows of nodes, volumes, pods, and of what is stuck; what has changed; the last hour.

`apply` takes a change of an object and only notes what it concerns. `flush` makes those rows anew and returns
what differs: its cost follows the changes, not the cluster. `explain` runs `mooring why`'s explanations on
what was touched, for a bounded time; what is stuck is explained again in turn, since it may also end by
something that does not touch it.

Pure: time comes in. It must not know of the API, of HTTP, or of the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import structlog

from mooring.kube.objects import Object, PersistentVolume
from mooring.kube.reason import Reason
from mooring.page.history import Batch, Change, History
from mooring.page.own_volumes import OWN
from mooring.page.reasons import stuck_row
from mooring.page.rows import CLAIM, Row, claim_row, node_row, own_row, pod_row, volume_row
from mooring.page.text import name
from mooring.page.truth import Seen, node_truth, volume_truth
from mooring.page.world import Ref, World
from mooring.volumes.names import CSI_PLUGIN, split_csi_volume_name, split_volume_name
from mooring.volumes.plugin_manager import PluginManager
from mooring.why.cause import Cause
from mooring.why.explain import NoSuchObject, explain

log = structlog.get_logger(component="page")

TABLES = ("nodes", "volumes", "pods", "stuck")
MOST_AT_ONCE = 1000
"""Objects whose rows are made anew in one go."""
EXPLAINED = ("node", "pv", "pvc", "pod", "ns")
"""What `mooring why --all` explains."""


class Model:
    """State and history. `now` gives milliseconds since 1970."""

    def __init__(
        self, plugins: PluginManager, now: Callable[[], int], history: History | None = None
    ) -> None:
        self.world = World(plugins)
        self.history = history if history is not None else History()
        self.tables: dict[str, dict[str, Row]] = {table: {} for table in TABLES}
        self.version = 0
        self.seen = Seen()
        self._now = now
        self._recording = False
        self._touched: dict[Ref, None] = {}
        self._unexplained: dict[Ref, None] = {}
        self._stuck: dict[Ref, Row] = {}
        self._round: Iterator[Ref] = iter(())

    # --- what comes in

    def apply(self, old: Object | None, new: Object | None) -> None:
        """Takes a change, as an informer's handler."""
        for ref in self.world.apply(old, new):
            self._touched[ref] = None

    def record(self) -> None:
        """From now on changes are kept as history; what came until now is how it began."""
        while self._touched:
            self.flush()
        self._recording = True

    def see(self, seen: Seen) -> None:
        """Takes what is true now, and touches the rows for which that is another truth than before."""
        before, self.seen = self.seen, seen
        for node in {*before.troubles, *seen.troubles}:
            if before.troubles.get(node) != seen.troubles.get(node):
                self._touched[("node", node)] = None
        for node in {*before.nodes, *seen.nodes}:
            if before.nodes.get(node) != seen.nodes.get(node):
                self._touched[("node", node)] = None
                self._touched |= dict.fromkeys(self.world.volumes_on(node))
        for volume in {*before.volumes, *seen.volumes}:
            if before.volumes.get(volume) != seen.volumes.get(volume):
                own = volume.startswith(OWN)
                self._touched[("own", volume.removeprefix(OWN)) if own else ("pv", volume)] = None

    # --- what goes out

    @property
    def behind(self) -> bool:
        """Whether something waits to be shown."""
        return bool(self._touched)

    @property
    def busy(self) -> bool:
        """Whether something waits to be shown or explained."""
        return bool(self._touched or self._unexplained)

    def state(self) -> dict[str, Any]:
        """All rows, as JSON's types."""
        return {"version": self.version, **self.tables}

    def flush(self) -> Batch | None:
        """Makes touched rows anew, at most MOST_AT_ONCE; returns what has changed, None if nothing has."""
        touched = list(islice(self._touched, MOST_AT_ONCE))
        for ref in touched:
            del self._touched[ref]
        rows = dict(chain.from_iterable(self._rows(ref) for ref in touched))
        self._unexplained |= dict.fromkeys(ref for ref in touched if ref[0] in EXPLAINED)
        return self._put(rows)

    def explain(self, until: Callable[[], bool]) -> Batch | None:
        """Explains what was touched, until that is done or `until` says that it has been long enough."""
        rows: dict[tuple[str, str], Row | None] = {}
        while self._unexplained and not until():
            ref = next(iter(self._unexplained))
            del self._unexplained[ref]
            rows[("stuck", self._about(ref))] = self._explained(ref)
        return self._put(rows)

    def again(self, share: float) -> None:
        """Marks a share of everything to be explained anew, in turn, and all that is stuck."""
        self._unexplained |= dict.fromkeys(self._stuck)
        number = int(sum(len(self.tables[table]) for table in ("nodes", "volumes", "pods")) * share) + 1
        for _ in range(number):
            ref = next(self._round, None)
            if ref is None:
                self._round = iter(list(self._everything()))
                break
            self._unexplained[ref] = None

    def handles(self) -> dict[str, str]:
        """By PersistentVolume, or id of a row of one that a pod defines, the name that its storage knows it
        by."""
        own = {f"{OWN}{key}": _handle_in(unique) for key, unique in self.world.own_attachable()}
        return {key: _handle(pv) for key, pv in self.world.volumes.items()} | own

    # --- rows

    def _rows(self, ref: Ref) -> Iterator[tuple[tuple[str, str], Row | None]]:
        kind, key = ref
        world = self.world
        if kind == "node":
            row = node_row(key, world)
            yield ("nodes", name(key)), node_truth(key, row, self.seen) if row is not None else None
        elif kind == "pv":
            pv = world.volumes.get(key)
            row = volume_row(pv, world) if pv is not None else None
            yield ("volumes", name(key)), volume_truth(key, row, self.seen) if row is not None else None
            if (claim := world.claim_key(key)) is not None:
                yield from self._rows(("pvc", claim))
        elif kind == "pvc":
            claim = world.claims.get(key)
            row = claim_row(claim, world) if claim is not None else None
            yield ("volumes", name(f"{CLAIM}{key}")), row
        elif kind == "own":
            row, own = own_row(key, world), f"{OWN}{key}"
            yield ("volumes", name(own)), volume_truth(own, row, self.seen) if row is not None else None
        elif kind == "pod":
            pod = world.pods.get(key)
            yield ("pods", name(key)), pod_row(pod, world) if pod is not None else None

    def _put(self, rows: Mapping[tuple[str, str], Row | None]) -> Batch | None:
        changes: list[Change] = []
        for (table, key), row in rows.items():
            held = self.tables[table]
            before = held.get(key)
            if before == row:
                continue
            if row is None:
                del held[key]
            else:
                held[key] = row
            changes.append(Change(table, key, before, row))
        if not changes:
            return None
        self.version += 1
        if not self._recording:
            return Batch(self.version, self._now(), tuple(changes), 0)
        return self.history.add(self.version, self._now(), tuple(changes))

    # --- explanations

    def _everything(self) -> Iterator[Ref]:
        world = self.world
        yield from (("node", key) for key in world.nodes)
        yield from (("pv", key) for key in world.volumes)
        yield from (("pvc", key) for key in world.claims)
        yield from (("pod", key) for key in world.pods)
        yield from (("ns", key) for key in world.known.namespaces)

    def _about(self, ref: Ref) -> str:
        return name("/".join(ref))

    def _explained(self, ref: Ref) -> Row | None:
        kind, key = ref
        namespace, _, own = key.rpartition("/")
        if not self._exists(ref):
            self._stuck.pop(ref, None)
            return None
        try:
            cause = explain(f"{kind}/{own}", namespace, self.world.known)
        except NoSuchObject:
            cause = None
        except Exception as error:  # one object must not keep the others from being explained
            log.warning("cannot be explained", object=self._about(ref), error=repr(error))
            cause = Cause("/".join(ref), Reason("NotExplained", f"it cannot be explained: {error!r}"))
        if cause is None or cause.ok:
            self._stuck.pop(ref, None)
            return None
        seen = self._stuck[ref]["seen"] if ref in self._stuck else self._now()
        self._stuck[ref] = stuck_row(ref, cause, self.world, seen)
        return self._stuck[ref]

    def _exists(self, ref: Ref) -> bool:
        kind, key = ref
        known = self.world.known
        held: Mapping[str, Object] = {
            "node": known.nodes,
            "pv": known.volumes,
            "pvc": known.claims,
            "pod": known.pods,
            "ns": known.namespaces,
        }[kind]  # type: ignore[assignment]
        return key in held


def _handle_in(unique: str) -> str:
    """The storage's name of a volume, which its unique name ends with."""
    plugin, named = split_volume_name(unique)
    return split_csi_volume_name(named)[1] if plugin == CSI_PLUGIN else named


def _handle(pv: PersistentVolume) -> str:
    spec = pv.spec
    if spec.csi is not None:
        return spec.csi.volume_handle
    options = spec.flex_volume.options if spec.flex_volume is not None else {}
    return options.get("disk", pv.name)
