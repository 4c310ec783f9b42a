"""The CSI part of a volume's spec."""

from __future__ import annotations

import pytest

from mooring.kube.objects import PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import AWSElasticBlockStoreVolumeSource
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.plugins.csi.source import Mode, access_mode, persistent
from mooring.volumes.spec import VolumeSpec


def spec(**fields: object) -> VolumeSpec:
    return VolumeSpec.of_persistent_volume(PersistentVolume(spec=PersistentVolumeSpec(**fields)))  # type: ignore[arg-type]


def test_a_volume_in_its_storages_old_words_has_driver_and_handle():
    source = persistent(
        spec(aws_elastic_block_store=AWSElasticBlockStoreVolumeSource(volume_id="aws://a/vol-1"))
    )
    assert (source.driver, source.volume_handle) == ("ebs.csi.aws.com", "vol-1")


def test_another_storages_volume_is_refused():
    with pytest.raises(InvalidSpec, match=r"no csi\.driver"):
        persistent(spec())


@pytest.mark.parametrize(
    ("modes", "several", "mode"),
    [
        (("ReadWriteOnce",), False, Mode.SINGLE_NODE_WRITER),
        (("ReadWriteOncePod",), False, Mode.SINGLE_NODE_WRITER),
        (("ReadWriteOnce",), True, Mode.SINGLE_NODE_MULTI_WRITER),
        (("ReadWriteOncePod",), True, Mode.SINGLE_NODE_SINGLE_WRITER),
        (("ReadOnlyMany",), True, Mode.MULTI_NODE_READER_ONLY),
        (("ReadWriteMany", "ReadWriteOnce"), True, Mode.MULTI_NODE_MULTI_WRITER),
        (("ReadWriteOnce", "ReadOnlyMany"), False, Mode.MULTI_NODE_SINGLE_WRITER),
    ],
)
def test_access_modes_are_one_of_csis(modes: tuple[str, ...], several: bool, mode: Mode.Mode):
    assert access_mode(modes, several_writers=several) == mode
