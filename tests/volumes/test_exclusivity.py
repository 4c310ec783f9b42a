"""Which nodes and pods may have a volume at the same time."""

from __future__ import annotations

import pytest

from mooring.kube.objects import (
    EmptyDirVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Volume,
)
from mooring.volumes.exclusivity import is_exclusive, is_multi_attach_allowed, is_one_pod_only
from mooring.volumes.interfaces import AttachCapabilities
from mooring.volumes.spec import VolumeSpec

INLINE = VolumeSpec.of_volume(Volume(name="v", empty_dir=EmptyDirVolumeSource()))
ONE_NODE = AttachCapabilities(refuses=True, revokes=False, multi_attach=False)
MANY_NODES = AttachCapabilities(refuses=False, revokes=False, multi_attach=True)


def with_modes(*modes: str) -> VolumeSpec:
    pv = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(access_modes=modes))
    return VolumeSpec.of_persistent_volume(pv)


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        (None, True),
        (INLINE, True),
        (with_modes(), True),
        (with_modes("ReadWriteMany"), True),
        (with_modes("ReadOnlyMany"), True),
        (with_modes("ReadWriteOnce", "ReadOnlyMany"), True),
        (with_modes("ReadWriteOnce"), False),
        (with_modes("ReadWriteOncePod"), False),
        (with_modes("ReadWriteOnce", "ReadWriteOncePod"), False),
    ],
)
def test_access_modes_decide_whether_several_nodes_may_attach(spec: VolumeSpec | None, allowed: bool):
    assert is_multi_attach_allowed(spec) is allowed


def test_a_volume_that_may_be_shared_is_exclusive_where_the_storage_cannot_share():
    assert is_exclusive(with_modes("ReadWriteMany"), ONE_NODE)
    assert not is_exclusive(with_modes("ReadWriteMany"), MANY_NODES)


def test_a_volume_for_one_node_is_exclusive_also_where_the_storage_could_share():
    assert is_exclusive(with_modes("ReadWriteOnce"), MANY_NODES)


def test_a_volume_is_one_pods_only_if_that_is_its_only_mode():
    assert is_one_pod_only(with_modes("ReadWriteOncePod"))
    assert not is_one_pod_only(with_modes("ReadWriteOncePod", "ReadWriteOnce"))
    assert not is_one_pod_only(INLINE)
