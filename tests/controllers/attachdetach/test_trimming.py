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
from mooring.volumes.names import DETACHING, NODE_UID, PLUGIN, VOLUME_NAME

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
