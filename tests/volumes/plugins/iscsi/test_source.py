"""Sources of iSCSI volumes: what is taken, and what is refused before any program runs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.kube.objects import (
    ISCSIVolumeSource,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeSpec,
    SecretReference,
    Volume,
)
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.plugins.iscsi.source import disk, disk_at, global_path, portal, volume_name
from mooring.volumes.spec import VolumeSpec

IQN = "iqn.2026-01.dev.mooring:storage.a"


def source(**fields: Any) -> ISCSIVolumeSource:
    return ISCSIVolumeSource(**{"target_portal": "10.88.0.2", "iqn": IQN, "lun": 1, **fields})


def spec(name: str = "pv", claim: ObjectReference | None = None, **fields: Any) -> VolumeSpec:
    pv_spec = PersistentVolumeSpec(iscsi=source(**fields), claim_ref=claim)
    return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name=name), spec=pv_spec))


def test_a_source_is_read_with_upstreams_names_of_fields():
    text = b"""{"targetPortal": "10.0.0.1", "portals": ["10.0.0.2:3261"], "iqn": "iqn.2026-01.a:b", "lun": 3,
      "iscsiInterface": "eth", "initiatorName": "iqn.2026-01.a:me", "fsType": "xfs", "readOnly": true,
      "chapAuthDiscovery": true, "chapAuthSession": true, "secretRef": {"name": "chap", "namespace": "ns"}}"""
    assert msgspec.json.decode(text, type=ISCSIVolumeSource) == ISCSIVolumeSource(
        target_portal="10.0.0.1",
        portals=("10.0.0.2:3261",),
        iqn="iqn.2026-01.a:b",
        lun=3,
        iscsi_interface="eth",
        initiator_name="iqn.2026-01.a:me",
        fs_type="xfs",
        read_only=True,
        chap_auth_discovery=True,
        chap_auth_session=True,
        secret_ref=SecretReference(name="chap", namespace="ns"),
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10.0.0.1", "10.0.0.1:3260"),
        ("10.0.0.1:860", "10.0.0.1:860"),
        ("fd00::1", "[fd00::1]:3260"),
        ("[fd00::1]", "[fd00::1]:3260"),
        ("[FD00:0::1]:860", "[fd00::1]:860"),
    ],
)
def test_a_portal_is_an_address_and_perhaps_a_port(text: str, shown: str):
    assert str(portal(text, "x")) == shown


@pytest.mark.parametrize(
    "text",
    ["", "-p", "host:3260", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1 ", "10.0.0.1\n", "[fd00::1", "[]:1",
     "[fd00::1]x", "[fd00::1]:", "fe80::1%eth0", "10.0.0.1:٣", "10.0.0.1,1", "10.0.0.1/../x"],
)  # fmt: skip
def test_any_other_portal_is_refused(text: str):
    with pytest.raises(InvalidSpec):
        disk(spec(portals=(text,)))


@pytest.mark.parametrize(
    "name",
    ["", "-T", "iqn", "iqn.2026-1.a", "iqn.2026-01.", "iqn.2026-01.a b", "iqn.2026-01.a\nnode.startup = automatic",
     "iqn.2026-01.a/../b", "eui.1", "naa.xyz", "iqn.2026-01." + "a" * 230, "x.2026-01.a"],
)  # fmt: skip
def test_a_name_that_is_no_iscsi_name_is_refused(name: str):
    with pytest.raises(InvalidSpec):
        disk(spec(iqn=name))
    if name:
        with pytest.raises(InvalidSpec):
            disk(spec(initiator_name=name))


@pytest.mark.parametrize("lun", [-1, 256])
def test_a_lun_is_0_to_255(lun: int):
    with pytest.raises(InvalidSpec):
        disk(spec(lun=lun))


@pytest.mark.parametrize("name", ["-I", "a b", "../x", "a\n", "a" * 65])
def test_an_interface_that_is_no_name_is_refused(name: str):
    with pytest.raises(InvalidSpec):
        disk(spec(iscsi_interface=name))


def test_chap_needs_a_secret_and_its_namespace():
    with pytest.raises(InvalidSpec, match="secretRef"):
        disk(spec(chap_auth_session=True))
    with pytest.raises(InvalidSpec, match="namespace"):
        disk(spec(chap_auth_session=True, secret_ref=SecretReference(name="chap")))
    claim = ObjectReference(namespace="shop", name="data")
    found = disk(spec(claim=claim, chap_auth_session=True, secret_ref=SecretReference(name="chap")))
    assert found.secret == SecretReference(name="chap", namespace="shop")


def test_a_volume_of_a_pod_itself_cannot_ask_for_chap():
    inline = Volume(name="v", iscsi=source(chap_auth_session=True, secret_ref=SecretReference(name="chap")))
    with pytest.raises(InvalidSpec, match="PersistentVolume"):
        disk(VolumeSpec.of_volume(inline))


def test_a_volume_with_an_initiators_name_has_an_interface_of_its_own():
    found = disk(spec(initiator_name="iqn.2026-01.dev.mooring:me", iscsi_interface="eth"))
    assert (found.interface, found.base_interface) == ("10.88.0.2:3260:pv", "eth")
    with pytest.raises(InvalidSpec, match="shorter"):
        disk(spec(name="p" * 60, initiator_name="iqn.2026-01.dev.mooring:me"))


@pytest.mark.parametrize(
    "fields", [{}, {"target_portal": "fd00::1"}, {"initiator_name": "iqn.2026-01.dev.mooring:me"}]
)
def test_the_global_path_is_upstreams_and_says_which_disk_it_is(host: NodeVolumeHost, fields: dict[str, Any]):
    found = disk(spec(portals=("10.88.0.3",), **fields))
    path = global_path(host, found)
    assert path.name == f"{found.portals[0]}-{IQN}-lun-1"
    assert path.parent.name == f"iface-{found.interface}"
    again = disk_at(str(path))
    assert again is not None
    assert volume_name(again) == volume_name(found)
    assert (again.interface, again.base_interface) == (found.interface, found.base_interface)


def test_the_volumes_name_is_upstreams():
    assert volume_name(disk(spec())) == f"10.88.0.2:3260:{IQN}:1"


@pytest.mark.parametrize("path", ["/a", "/a/iface-x/10.0.0.1:3260-iqn.2026-01.a:b-lun-999",
     "/p/iface--x/10.0.0.1-iqn.2026-01.a-lun-1", "/p/iface-a/x-iqn.2026-01.a-lun-1"])  # fmt: skip
def test_another_path_says_nothing(path: str):
    assert disk_at(path) is None
