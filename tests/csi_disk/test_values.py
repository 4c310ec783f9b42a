"""Which sizes, capabilities and parameters a disk can have."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.csi.driver.services import AccessMode
from mooring.csi.errors import CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi_disk.values import check_mount, parameters_of, refusal, volume_id
from mooring.volumes.errors import InvalidSpec

NAMES = st.text(min_size=1, max_size=128) | st.from_regex(r"sha256-[0-9a-f]{40}", fullmatch=True)


def use(mode: int, block: bool = False) -> csi.VolumeCapability:
    capability = csi.VolumeCapability(access_mode=csi.VolumeCapability.AccessMode(mode=mode))  # type: ignore[arg-type]
    (capability.block if block else capability.mount).SetInParent()
    return capability


@settings(deadline=None)
@given(NAMES, NAMES)
def test_names_become_ids_that_are_file_names_and_different(one: str, other: str) -> None:
    for name in (one, other):
        found = volume_id(name)
        assert found == volume_id(name)
        assert "/" not in found
        assert not found.startswith(".")
        assert len(found) <= 100
    assert (volume_id(one) == volume_id(other)) is (one == other)


def test_a_readable_name_is_kept() -> None:
    assert volume_id("pvc-3f2a") == "pvc-3f2a"


@pytest.mark.parametrize(
    ("mode", "block", "exclusive", "fine"),
    [
        (AccessMode.SINGLE_NODE_WRITER, False, True, True),
        (AccessMode.MULTI_NODE_MULTI_WRITER, True, True, False),
        (AccessMode.MULTI_NODE_MULTI_WRITER, True, False, True),
        (AccessMode.MULTI_NODE_MULTI_WRITER, False, False, False),
        (AccessMode.MULTI_NODE_READER_ONLY, False, False, True),
    ],
)
def test_which_uses_a_disk_has(mode: int, block: bool, exclusive: bool, fine: bool) -> None:
    assert (refusal(use(mode, block), exclusive) == "") is fine


def test_what_a_provisioner_of_kubernetes_adds_is_no_parameter() -> None:
    assert parameters_of({"csi.storage.k8s.io/pv/name": "x", "fsType": "ext3"}).fs_type == "ext3"
    with pytest.raises(InvalidSpec, match="does not know"):
        parameters_of({"fstype": "ext3"})


def test_a_file_system_that_nobody_knows_is_named_and_a_bad_flag_is_not() -> None:
    with pytest.raises(CsiError, match="'reiser' is not known"):
        check_mount("reiser")
    with pytest.raises(CsiError) as caught:
        check_mount("ext4", ["password=hunter2; id"])
    assert "hunter2" not in caught.value.message
