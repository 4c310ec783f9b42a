"""What must hold in the end of what volumes are like (L25): each claim that is bound has what it names, if
there is such a class, and the storage does not refuse it; and its status says how that is.

Read from what the store holds and what the storage has, as the trace tells it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from mooring.simulation.checks.invariants.attribute_changes import AttributeChanges, says
from mooring.simulation.checks.invariants.objects import StoredObject
from mooring.simulation.checks.liveness import Complaint
from mooring.simulation.cluster.attribute_classes import INFEASIBLE
from mooring.simulation.cluster.cluster import SimulatedCluster


async def complaints(cluster: SimulatedCluster) -> AsyncIterator[Complaint]:
    """Yields what is not so."""
    for what in left(AttributeChanges.of(cluster.trace)):
        yield "L25", what


def left(changes: AttributeChanges) -> Iterator[str]:
    """All that is wrong."""
    for key, claim in sorted(changes.claims.items()):
        volume = changes.volumes.get(claim.spec.volume_name)
        is_bound = claim.status.phase == "Bound" and not claim.going
        if is_bound and volume is not None and not volume.going and claim.spec.volume_attributes_class_name:
            yield from (f"claim {key} {what}" for what in _of_claim(claim, volume, changes))


def _of_claim(claim: StoredObject, volume: StoredObject, changes: AttributeChanges) -> Iterator[str]:
    wanted, disk = claim.spec.volume_attributes_class_name, claim.spec.volume_name
    told = claim.status.modify_volume_status
    if wanted not in changes.classes and volume.spec.volume_attributes_class_name == wanted:
        return  # it says what may have been made of it
    if wanted not in changes.classes or wanted == INFEASIBLE:
        word = "Infeasible" if wanted in changes.classes else "Pending"
        if told is None or (told.target_volume_attributes_class_name, told.status) != (wanted, word):
            yield f"names {wanted}, and does not say that this is {word} ({told})"
        return
    if says(claim) != wanted:
        yield f"names {wanted}, and says that it has {says(claim) or 'none'} ({told})"
    if volume.spec.volume_attributes_class_name != wanted:
        yield f"names {wanted}, and its volume {volume.spec.volume_attributes_class_name or 'none'}"
    if not changes.has_of(disk, wanted):
        yield f"names {wanted}, and the storage has {changes.has.get(disk, 'none')}"
