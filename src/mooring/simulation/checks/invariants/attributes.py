"""Invariants of what volumes are like: of the VolumeAttributesClasses that claims name.

Sources: KEP-3751 (the claim's status names the target before the storage is asked, and says what is true when
it has answered; a class that the storage refuses is Infeasible, and tried again slowly), and the CSI
specification (at most one call for a volume is in flight).
"""

from __future__ import annotations

from collections import defaultdict

from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.attribute_changes import (
    AttributeChanges,
    asked_by,
    begins_to_say,
)
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.objects import CLAIMS, VOLUMES, StoredObject, object_of
from mooring.simulation.cluster.attribute_classes import INFEASIBLE
from mooring.simulation.engine.trace import Event, Trace

ASKERS = ("placing", "ebs", "array", "ec2")
"""The processes that ask, and whom: what was on its way when one of them was struck may take effect later."""
PAUSE_S = 0.4
"""A little less than the shortest backoff of a key."""
HASTY = 2
"""So often in a row is what was refused not asked for again before that: once it may be, as a change that
came while it was asked for is looked at."""


class AskedForByItsClaim(Checker):
    """S51: the storage is asked to change a volume only to what a VolumeAttributesClass says, or has said,
    that the volume's claim names, or has named; and no process asks for a second change while it waits for
    the answer to another one."""

    name = "S51"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._changes = AttributeChanges.of(trace)
        trace.listen("truth.modifying", self._asked)

    def _asked(self, event: Event) -> None:
        disk, (attributes, by, _) = event.fields["volume"], asked_by(event)
        self.guarded += 1
        if not any(self._changes.is_of(attributes, name) for name in self._changes.named[disk]):
            self.wrong(f"{disk} is to become {attributes}, and its claim has never asked for that", event)
        for other in self._changes.under_way[disk]:
            if other.by == by and other.attributes != attributes:
                self.wrong(f"{disk} is to become {attributes}, and still {other.attributes}", event)


class SaysWhatItHas(Checker):
    """S52: when a claim begins to say that its volume has what a VolumeAttributesClass says (with no word
    of a change under way), and when a PersistentVolume begins to name that class, the storage has just
    that; but for another change that a process which was struck has asked for since. And a claim says
    Infeasible only of what the storage refuses."""

    name = "S52"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._changes, self._faults = AttributeChanges.of(trace), Faults.of(trace)
        self._claims: dict[str, StoredObject] = {}
        self._volumes: dict[str, StoredObject] = {}
        trace.listen("store.written", self._written)

    def _written(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == CLAIMS:
            before, now = self._claims.get(name), object_of(event)
            self._claims[name] = now
            self._judge(now.spec.volume_name, begins_to_say(now, before), f"claim {name}", event)
            self._judge_refusal(name, now, event)
        elif resource == VOLUMES:
            before, now = self._volumes.get(name), object_of(event)
            self._volumes[name] = now
            says = now.spec.volume_attributes_class_name
            if says != (before.spec.volume_attributes_class_name if before else self._first(now)):
                self._judge(name, says, f"volume {name}", event)

    def _first(self, volume: StoredObject) -> str:
        """What a new volume need not have: that of a claim that goes may be made only to be deleted."""
        claim = self._claims.get(volume.spec.claim_ref.key) if volume.spec.claim_ref is not None else None
        return volume.spec.volume_attributes_class_name if claim is None or claim.going else ""

    def _judge(self, disk: str, says: str, whose: str, event: Event) -> None:
        if not says:
            return
        self.guarded += 1
        has = self._changes.has.get(disk, "none")
        if not self._changes.has_of(disk, says) and not self._overtaken(disk, says):
            self.wrong(f"{whose} says that it has {says}, and {disk} has {has}", event)

    def _overtaken(self, disk: str, says: str) -> bool:
        """Whether another process has asked for something else since, of which one was struck."""
        last = self._changes.last_for(disk, says)
        return last is not None and any(
            each.at >= last.at and each.by != last.by and self._faults.disturbed(ASKERS, last.at)
            for each in self._changes.begun[disk].values()
        )

    def _judge_refusal(self, key: str, claim: StoredObject, event: Event) -> None:
        told = claim.status.modify_volume_status
        if told is not None and told.status == "Infeasible":
            self.guarded += 1
            if told.target_volume_attributes_class_name != INFEASIBLE:
                name = told.target_volume_attributes_class_name
                self.wrong(f"claim {key} says that {name} is infeasible, and it is not", event)


class RefusedForAWhile(Checker):
    """S53: what the storage has refused for good is not asked for again at once, time and again: not before
    the backoff, unless the claim or its volume was written since, in more than a word of that refusal."""

    name = "S53"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._changes = AttributeChanges.of(trace)
        self._refused: dict[tuple[str, str, str], float] = {}  # disk, attributes, process -> when
        self._in_a_row: defaultdict[str, int] = defaultdict(int)
        self._known: dict[tuple[str, str], object] = {}
        trace.listen("store.written", self._written)
        trace.listen("truth.modifying", self._asked)
        trace.listen("truth.modify-answered", self._answered)

    def _written(self, event: Event) -> None:
        """Any other change may bring the key up: what was refused may be asked for."""
        resource, name = event.fields["resource"], event.fields["name"]
        if resource not in (CLAIMS, VOLUMES):
            return
        thing = object_of(event)
        disk, now = (thing.spec.volume_name if resource == CLAIMS else name), _apart_from_its_word(thing)
        if self._known.get((resource, name)) != now:
            self._known[resource, name] = now
            self._refused = {key: at for key, at in self._refused.items() if key[0] != disk}

    def _answered(self, event: Event) -> None:
        if self._changes.is_of(event.fields["attributes"], INFEASIBLE):
            disk, (attributes, by, at) = event.fields["volume"], asked_by(event)
            self._refused[disk, attributes, by] = at

    def _asked(self, event: Event) -> None:
        disk, (attributes, by, at) = event.fields["volume"], asked_by(event)
        refused = self._refused.get((disk, attributes, by))
        self.guarded += refused is not None
        is_hasty = refused is not None and at - refused < PAUSE_S
        self._in_a_row[disk] = self._in_a_row[disk] + 1 if is_hasty else 0
        if self._in_a_row[disk] >= HASTY:
            self.wrong(f"{disk} is to become {attributes} again, which was refused just now", event)


def _apart_from_its_word(thing: StoredObject) -> object:
    status = thing.status
    return thing.metadata, thing.spec, status.phase, status.current_volume_attributes_class_name
