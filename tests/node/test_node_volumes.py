"""What is known of the volumes of a node, by volume and by pod."""

from __future__ import annotations

from mooring.node.volumes.node_volumes import NodeVolumes
from mooring.node.volumes.records import PodRecord, VolumeRecord


def test_a_pod_is_known_until_the_last_of_its_volumes_is_forgotten():
    known = NodeVolumes("n1")
    for name in ("disk/a", "disk/b"):
        pods = {"u": PodRecord(name, f"/pods/u/{name}")}
        known.found(VolumeRecord(name, "disk", attachable=True, has_device=True, pods=pods), set())
    assert not known.forget_pod("u", "disk/a")
    assert [each.record.unique_name for each in known.of("u")] == ["disk/b"]
    assert known.pods() == ["u"]
    assert known.forget_pod("u", "disk/b")
    assert known.pods() == []
