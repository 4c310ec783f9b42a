"""A trimmed object gives the same answers as the whole one, and shares equal values."""

from __future__ import annotations

import msgspec

from mooring.controllers.attachdetach.decide import Attachment
from mooring.controllers.attachdetach.trimming import (
    trimmed_claim,
    trimmed_pod,
    trimmed_record,
    trimmed_volume,
)
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment
from mooring.volumes.claims import is_owned_by
from mooring.volumes.names import DETACHING, NODE_MACHINE, NODE_UID, PLUGIN, VOLUME_NAME

RECORD = {
    "metadata": {
        "name": "csi-1",
        "uid": "r-1",
        "resourceVersion": "7",
        "creationTimestamp": "2030-01-01T00:00:00Z",
        "finalizers": ["example.com/attacher"],
        "annotations": {
            PLUGIN: "kubernetes.io/csi",
            VOLUME_NAME: "csi.example.com^v",
            NODE_UID: "u-1",
            NODE_MACHINE: "6a2e9c1e-0000-4000-8000-000000000001 ",
            DETACHING: "t",
        },
    },
    "spec": {"attacher": "csi.example.com", "nodeName": "n0", "source": {"persistentVolumeName": "pv"}},
    "status": {
        "attached": True,
        "attachmentMetadata": {"devicePath": "/dev/x"},
        "detachError": {"message": "busy"},
    },
}


def of(kind, **body):
    return msgspec.json.decode(msgspec.json.encode(body), type=kind)


def test_of_a_volume_attachment_no_decision_misses_anything():
    record = of(VolumeAttachment, **RECORD)
    volume, node = (
        of(PersistentVolume, metadata={"name": "pv"}),
        of(Node, metadata={"name": "n0", "uid": "u-1"}),
    )
    for named in ((None, None), (node, volume)):
        kept = trimmed_record(record, *named)
        assert kept == record
        assert Attachment.of(kept) == Attachment.of(record)


def test_a_text_that_another_object_has_is_kept_once():
    volume, node = (
        of(PersistentVolume, metadata={"name": "pv"}),
        of(Node, metadata={"name": "n0", "uid": "u-1"}),
    )
    kept = trimmed_record(of(VolumeAttachment, **RECORD), node, volume)
    assert kept.metadata.annotations[NODE_UID] is node.uid
    assert kept.spec.source.persistent_volume_name is volume.name


def test_the_uid_of_a_node_that_has_been_registered_anew_is_not_taken_for_the_old_one():
    node = of(Node, metadata={"name": "n0", "uid": "u-2"})
    kept = trimmed_record(of(VolumeAttachment, **RECORD), node, None)
    assert kept.metadata.annotations[NODE_UID] == "u-1"


def test_a_volume_stays_bound_to_the_claim_that_it_names_and_not_to_one_of_the_same_name():
    reference = {"namespace": "default", "name": "c", "uid": "c-1"}
    volume = of(
        PersistentVolume,
        metadata={"name": "pv"},
        spec={"claimRef": reference, "accessModes": ["ReadWriteOnce"]},
    )
    another = of(PersistentVolumeClaim, metadata={"name": "c", "namespace": "default", "uid": "c-2"})
    for claim in (None, another):
        kept = trimmed_volume(volume, claim).spec
        assert kept.claim_ref is not None
        assert (kept.claim_ref.namespace, kept.claim_ref.name, kept.claim_ref.uid) == ("default", "c", "c-1")
        assert kept.access_modes == ("ReadWriteOnce",)


def test_a_claim_tells_whose_it_is_and_what_it_is_bound_to():
    owner = {"kind": "Pod", "name": "p", "uid": "p-1", "controller": True}
    claim = of(
        PersistentVolumeClaim,
        metadata={"name": "p-data", "namespace": "default", "uid": "c-1", "ownerReferences": [owner]},
        spec={"volumeName": "pv"},
        status={"phase": "Bound"},
    )
    kept = trimmed_claim(claim)
    assert is_owned_by(kept, of(Pod, metadata={"name": "p", "uid": "p-1"}))
    assert (kept.spec.volume_name, kept.status.phase) == ("pv", "Bound")


def test_a_pod_has_its_volumes_with_and_without_a_known_claim():
    source = {"name": "data", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}
    pod = of(
        Pod,
        metadata={"name": "p", "namespace": "default", "creationTimestamp": "2030-01-01T00:00:00Z"},
        spec={"nodeName": "n0", "volumes": [source]},
        status={"phase": "Running"},
    )
    claim = of(PersistentVolumeClaim, metadata={"name": "c", "namespace": "default", "uid": "c-1"})
    for known in ({}, {"default/c": claim}):
        kept = trimmed_pod(pod, pod.spec.volumes, known.get)
        assert kept.spec.volumes == pod.spec.volumes
        assert (kept.spec.node_name, kept.status.phase) == ("n0", "Running")
        assert kept.metadata.creation_timestamp == "2030-01-01T00:00:00Z"


def test_of_another_controllers_record_nothing_is_missed():
    """It has no annotations, and no attachment metadata yet."""
    body = {"metadata": {"name": "csi-1", "uid": "r-1"}, "spec": RECORD["spec"]}
    record = of(VolumeAttachment, **body)
    node = of(Node, metadata={"name": "n0", "uid": "u-1"})
    kept = trimmed_record(record, node, None)
    assert kept == record
    assert kept.status.attachment_metadata is trimmed_record(record, None, None).status.attachment_metadata


def test_a_text_that_many_records_have_is_kept_once():
    """With tens of thousands of volumes the caches are nearly all of the memory."""
    one, other = (trimmed_record(of(VolumeAttachment, **RECORD), None, None) for _ in range(2))
    for name in (PLUGIN, NODE_MACHINE):
        assert one.metadata.annotations[name] is other.metadata.annotations[name]
    assert one.spec.attacher is other.spec.attacher
    assert one.spec.node_name is other.spec.node_name
    assert one.metadata.finalizers is other.metadata.finalizers


def persistent_volume(**spec):
    labels = {"topology.kubernetes.io/zone": "z"}
    metadata = {"name": "pv", "uid": "pv-1", "resourceVersion": "3", "labels": labels}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **spec}
    return of(PersistentVolume, metadata=metadata, spec=spec, status={"phase": "Bound"})


def test_of_a_persistent_volume_what_defines_it_is_kept_and_its_attributes_are_not():
    csi = {
        "driver": "csi.example.com",
        "volumeHandle": "pv",
        "readOnly": True,
        "volumeAttributes": {"a": "b"},
    }
    claim = of(PersistentVolumeClaim, metadata={"name": "c", "namespace": "default", "uid": "c-1"})
    reference = {"namespace": "default", "name": "c", "uid": "c-1"}
    whole = persistent_volume(csi=csi, claimRef=reference)
    kept = trimmed_volume(whole, claim)
    source = kept.spec.csi
    assert source is not None and kept.spec.claim_ref is not None
    assert (source.driver, source.volume_handle, source.read_only) == ("csi.example.com", "pv", True)
    assert (source.volume_attributes, kept.spec.capacity, kept.metadata.labels) == ({}, {}, {})
    assert source.volume_handle is kept.name, "one text"
    assert kept.spec.claim_ref.name is claim.name
    assert kept.spec.claim_ref.uid is claim.uid
    other = trimmed_volume(persistent_volume(csi=csi), None)
    assert kept.metadata.annotations is other.metadata.annotations
    assert (kept.uid, kept.metadata.resource_version, kept.status.phase) == ("pv-1", "3", "Bound")


def test_a_gce_disk_keeps_the_label_that_tells_its_zone():
    kept = trimmed_volume(persistent_volume(gcePersistentDisk={"pdName": "d"}), None)
    assert kept.metadata.labels == {"topology.kubernetes.io/zone": "z"}
    assert kept.spec.csi is None and kept.spec.claim_ref is None


def test_a_claims_name_is_kept_once_for_all_pods_that_use_it():
    source = {"name": "data", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}
    own = {"name": "own", "csi": {"driver": "inline.example.com"}}
    pod = of(Pod, metadata={"name": "p", "namespace": "default"}, spec={"volumes": [source, own]})
    claim = of(PersistentVolumeClaim, metadata={"name": "c", "namespace": "default", "uid": "c-1"})
    kept = trimmed_pod(pod, pod.spec.volumes, {"default/c": claim}.get)
    assert kept.spec.volumes == pod.spec.volumes
    used = kept.spec.volumes[0].persistent_volume_claim
    assert used is not None and used.claim_name is claim.name


def test_what_no_decision_needs_is_not_kept_of_pods_and_claims():
    """When a claim or a PersistentVolume was created, their labels, and a pod's."""
    metadata = {"name": "c", "namespace": "default", "creationTimestamp": "2030-01-01T00:00:00Z"}
    metadata |= {"labels": {"app": "db"}, "annotations": {"a": "b"}, "uid": "c-1", "resourceVersion": "3"}
    claim = trimmed_claim(of(PersistentVolumeClaim, metadata=metadata, spec={"volumeName": "c"}))
    assert claim.metadata.creation_timestamp is None
    pod = trimmed_pod(of(Pod, metadata=metadata), (), {}.get)
    for kept in (claim, pod):
        assert (kept.metadata.labels, kept.metadata.annotations) == ({}, {})
        assert (kept.name, kept.namespace, kept.uid, kept.metadata.resource_version) == (
            "c",
            "default",
            "c-1",
            "3",
        )
    assert claim.spec.volume_name is claim.name
