"""What users may write for a disk, and what it means. The array is in directory mode, which needs no root."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.kube.objects import (
    FlexVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    Volume,
    VolumeResourceRequirements,
)
from mooring.kube.quantity import parse_bytes
from mooring.volumes.errors import DeviceStillInUse, InvalidSpec, PluginError
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.interfaces import AttachCapabilities, VolumeOptions
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.plugins.disk import DiskPlugin, plugin
from mooring.volumes.plugins.disk_array import Delays
from mooring.volumes.plugins.disk_provisioning import MIB, requested_size
from mooring.volumes.plugins.disk_source import PLUGIN_NAME, DiskSource, Parameters, disk_source, parameters
from mooring.volumes.spec import VolumeSpec


def host(**settings: str) -> ControllerVolumeHost:
    return ControllerVolumeHost(lambda: datetime(2030, 1, 1, tzinfo=UTC), {PLUGIN_NAME: settings})


@pytest.fixture
def disks(tmp_path: Path) -> DiskPlugin:
    made = plugin()
    made.init(host(array=str(tmp_path), mode="directory"))
    return made


def volume(driver: str = PLUGIN_NAME, **options: str) -> VolumeSpec:
    source = FlexVolumeSource(driver=driver, options=options)
    pv = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(flex_volume=source))
    return VolumeSpec.of_persistent_volume(pv)


def claim(request: Any = "10Mi", **spec: Any) -> PersistentVolumeClaim:
    resources = VolumeResourceRequirements(requests={} if request is None else {"storage": request})
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="data", namespace="shop"),
        spec=PersistentVolumeClaimSpec(
            **{"access_modes": ("ReadWriteOnce",), "resources": resources, **spec}
        ),
    )


# --- what is written in a volume


def test_a_disk_is_named_in_the_options_of_a_flex_volume():
    assert disk_source(volume(disk="d")) == DiskSource("d", fs_type="ext4", read_only=False, exclusive=True)


def test_a_pod_may_name_a_disk_itself(disks: DiskPlugin):
    inline = VolumeSpec.of_volume(
        Volume(name="v", flex_volume=FlexVolumeSource(driver=PLUGIN_NAME, options={"disk": "d"}))
    )
    assert disks.can_support(inline)
    assert disks.get_volume_name(inline) == "d"


def test_another_driver_is_not_ours(disks: DiskPlugin):
    assert not disks.can_support(volume(driver="example.com/nfs", disk="d"))


@pytest.mark.parametrize("options", [{}, {"disk": ""}, {"disk": "d", "exclusive": "no"}])
def test_an_incomplete_or_wrong_volume_is_refused_naming_it(options: dict[str, str]):
    with pytest.raises(InvalidSpec, match="volume pv"):
        disk_source(volume(**options))


def test_an_exclusive_disk_refuses_a_second_node_and_none_revokes(disks: DiskPlugin):
    assert disks.capabilities(volume(disk="d")) == AttachCapabilities(
        refuses=True, revokes=False, multi_attach=False, request_validity_s=0
    )
    assert disks.capabilities(volume(disk="d", exclusive="false")) == AttachCapabilities(
        refuses=False, revokes=False, multi_attach=True, request_validity_s=0
    )


# --- what is written in a StorageClass


def test_a_class_without_parameters_has_the_defaults():
    assert parameters({}) == Parameters("ext4", True, Delays())


def test_every_parameter_is_read():
    given_parameters = {
        "fsType": "xfs",
        "exclusive": "false",
        "attachDelaySeconds": "1.5",
        "attachReplyDelaySeconds": "2",
        "detachDelaySeconds": "3",
        "detachReplyDelaySeconds": "4",
    }
    assert parameters(given_parameters) == Parameters("xfs", False, Delays(1.5, 2, 3, 4))


@pytest.mark.parametrize(
    "wrong",
    [
        {"fstype": "ext4"},
        {"exclusive": "True"},
        {"attachDelaySeconds": "soon"},
        {"detachDelaySeconds": "-1"},
        {"detachDelaySeconds": "inf"},
        {"detachDelaySeconds": "nan"},
    ],
)
def test_a_wrong_parameter_is_named(wrong: dict[str, str]):
    with pytest.raises(InvalidSpec, match=next(iter(wrong))):
        parameters(wrong)


# --- provisioning


async def provision(
    disks: DiskPlugin, asked: PersistentVolumeClaim, **given_parameters: str
) -> PersistentVolume:
    return await disks.new_provisioner(VolumeOptions("pvc-1", asked, parameters=given_parameters)).provision()


async def test_a_provisioned_volume_leads_back_to_its_disk(disks: DiskPlugin):
    pv = await provision(disks, claim(storage_class_name="fast"), fsType="xfs")
    assert disk_source(VolumeSpec.of_persistent_volume(pv)) == DiskSource("pvc-1", fs_type="xfs")
    assert (pv.name, pv.spec.capacity, pv.spec.storage_class_name) == ("pvc-1", {"storage": "10Mi"}, "fast")
    assert pv.metadata.annotations == {"pv.kubernetes.io/provisioned-by": PLUGIN_NAME}


async def test_provisioning_again_gives_the_same_volume(disks: DiskPlugin):
    assert await provision(disks, claim()) == await provision(disks, claim())


async def test_delays_of_the_class_become_the_disks(disks: DiskPlugin, tmp_path: Path):
    await provision(disks, claim(), attachDelaySeconds="0.5")
    assert '"attach": 0.5' in (tmp_path / "disks" / "pvc-1" / "disk.json").read_text()


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        (claim(None), "spec.resources.requests.storage"),
        (claim("0"), "asks for '0'"),
        (claim("much"), "asks for 'much'"),
        (claim(access_modes=("ReadWriteMany",)), "ReadWriteMany"),
    ],
)
async def test_a_claim_that_cannot_be_fulfilled_is_refused_with_the_reason(
    disks: DiskPlugin, tmp_path: Path, asked: PersistentVolumeClaim, match: str
):
    with pytest.raises(InvalidSpec, match=match):
        await provision(disks, asked)
    assert not (tmp_path / "disks").exists()


async def test_a_class_without_lock_can_give_a_shared_volume(disks: DiskPlugin):
    pv = await provision(disks, claim(access_modes=("ReadWriteMany",)), exclusive="false")
    assert disks.capabilities(VolumeSpec.of_persistent_volume(pv)).multi_attach


@given(st.integers(1, 2**50))
def test_a_volume_has_at_least_what_was_asked_for_and_less_than_a_mebibyte_more(size: int):
    assert 0 <= requested_size(claim(str(size))) - size < MIB
    assert requested_size(claim(str(size))) == parse_bytes(str(requested_size(claim(str(size)))))


@given(st.integers(10 * MIB, 2**50))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
async def test_a_volume_grows_to_a_size_that_a_new_one_would_have(disks: DiskPlugin, size: int):
    """A device has whole sectors: it would never show the bytes beyond the last one, and its node would wait
    for them."""
    pv = await provision(disks, claim("10Mi"))
    grown = await disks.expand_volume_device(VolumeSpec.of_persistent_volume(pv), size)
    assert grown.size >= size
    assert grown.size % MIB == 0


# --- the plugin


async def test_without_an_array_names_can_be_asked_for_and_acts_say_what_is_missing():
    disks = plugin()
    manager = PluginManager([disks], host())
    assert manager.unique_volume_name(volume(disk="d"), "u") == f"{PLUGIN_NAME}/d"
    with pytest.raises(PluginError, match="setting `array`"):
        disks.new_attacher()


def test_an_unknown_mode_is_refused(tmp_path: Path):
    manager = PluginManager([plugin()], host(array=str(tmp_path), mode="tape"))
    assert "choose one of loop, directory" in manager.errors[0].problem


async def test_in_directory_mode_a_device_is_a_directory_that_is_not_taken_while_it_is_used(
    disks: DiskPlugin,
):
    pv = await provision(disks, claim())
    spec = VolumeSpec.of_persistent_volume(pv)
    device = (await disks.new_attacher().attach(spec, "a"))["devicePath"]
    Path(device, "file").write_text("kept")
    descriptor = os.open(Path(device, "file"), os.O_RDONLY)
    with pytest.raises(DeviceStillInUse, match=f"held open by process {os.getpid()}"):
        await disks.new_detacher().detach("pvc-1", "a")
    os.close(descriptor)
    await disks.new_detacher().detach("pvc-1", "a")
    assert Path((await disks.new_attacher().attach(spec, "b"))["devicePath"], "file").read_text() == "kept"
