"""What must hold at the end of a run, of what a silent machine keeps."""

from __future__ import annotations

import msgspec

from mooring.kube.objects import (
    ObjectMeta,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodSpec,
    Volume,
)
from mooring.simulation.checks.liveness import had_while_waiting, waited_for

CLAIMS = {
    f"default/{name}": PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PersistentVolumeClaimSpec(volume_name=f"pv-{name}"),
    )
    for name in ("data", "log")
}


def pod(node: str, *, going: bool = False) -> Pod:
    volumes = [
        Volume(name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=name))
        for name in ("data", "log", "lost")
    ]
    metadata = ObjectMeta(name="p", namespace="default", deletion_timestamp="t" if going else None)
    return Pod(metadata=metadata, spec=PodSpec(node_name=node, volumes=tuple(volumes)))


def test_a_pod_that_waits_for_a_volume_of_a_silent_machine_may_have_its_others_where_it_is():
    assert had_while_waiting([pod("n2")], CLAIMS, {"n1"}) == {("pv-data", "n2"), ("pv-log", "n2")}


def test_one_that_goes_or_is_on_the_silent_machine_itself_has_nothing_elsewhere():
    assert had_while_waiting([pod("n2", going=True), pod("n1")], CLAIMS, {"n1"}) == set()


def test_a_deleted_claim_is_waited_for_as_long_as_a_pod_of_a_silent_machine_uses_it():
    """70743 of the swarm: the claim of the same name, which a user makes when it is gone, is never made."""
    claim = CLAIMS["default/data"]
    deleted = msgspec.structs.replace(
        claim, metadata=msgspec.structs.replace(claim.metadata, deletion_timestamp="t")
    )
    assert waited_for([deleted], set(), {"default/data"}) == {"default/data"}
    assert waited_for([deleted], set(), {"default/log"}) == set()
    assert waited_for([claim], set(), {"default/data"}) == set()
    assert waited_for([claim], {"pv-data"}, set()) == {"default/data"}
