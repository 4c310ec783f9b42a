"""SELinux labels of volumes: whose get one, and which."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mooring.kube.objects import (
    Container,
    ISCSIVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    PodSpec,
    Volume,
)
from mooring.kube.objects.pods import PodSecurityContext, SecurityContext
from mooring.node.volumes import operations
from mooring.node.volumes.records import VolumeRecord
from mooring.node.volumes.volume import Want, WantedVolume
from mooring.volumes.selinux import has_selinux, label_of, labelled
from mooring.volumes.spec import VolumeSpec

LEVEL = {"level": "s0:c123,c456"}
LABEL = "system_u:object_r:container_file_t:s0:c123,c456"


def made_pod(of_pod: dict[str, Any] | None, *of_containers: dict[str, Any] | None) -> Pod:
    containers = tuple(
        Container(security_context=SecurityContext(se_linux_options=each) if each else None)
        for each in of_containers or (None,)
    )
    context = PodSecurityContext(se_linux_options=of_pod)
    return Pod(spec=PodSpec(containers=containers, security_context=context))


def volume(*modes: str, mode: str = "Filesystem", options: tuple[str, ...] = ()) -> VolumeSpec:
    spec = PersistentVolumeSpec(
        access_modes=modes or ("ReadWriteOncePod",),
        volume_mode=mode,
        mount_options=options,
        iscsi=ISCSIVolumeSource(target_portal="10.0.0.1", iqn="iqn.2026-01.dev.mooring:a"),
    )
    return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec))


def test_the_level_of_the_pod_is_the_label_of_its_volume_after_the_volumes_own_options() -> None:
    spec = labelled(volume(options=("noatime",)), made_pod(LEVEL))
    assert spec.mount_options == ("noatime", f'context="{LABEL}"')


def test_a_containers_own_options_count_before_the_pods() -> None:
    assert label_of(made_pod({"level": "s0:c1"}, LEVEL)) == LABEL


@pytest.mark.parametrize(
    "pod",
    [
        made_pod(None),
        made_pod({"user": "system_u"}),
        made_pod(LEVEL, {"level": "s0:c1"}, None),
        made_pod({"level": 's0",rw,context="x'}),
        made_pod({"level": "s0 "}),
        made_pod({"level": "s0:c1\n"}),
        made_pod({"level": "s0" + ":c1" * 100}),
    ],
)
def test_a_pod_that_says_no_one_level_labels_nothing(pod: Pod) -> None:
    assert labelled(volume(), pod).mount_options == ()


@pytest.mark.parametrize(
    "spec",
    [
        volume("ReadWriteOnce"),
        volume("ReadWriteOncePod", "ReadWriteOnce"),
        volume("ReadWriteMany"),
        volume(mode="Block"),
        volume(options=('context="a:b:c:s0"',)),
        VolumeSpec.of_volume(Volume(name="v", iscsi=ISCSIVolumeSource())),
    ],
)
def test_a_volume_that_others_may_use_too_keeps_its_labels(spec: VolumeSpec) -> None:
    assert labelled(spec, made_pod(LEVEL)) == spec


def test_a_kernel_without_selinux_or_without_a_policy_is_found_out(tmp_path: Path) -> None:
    assert not has_selinux(tmp_path / "missing")
    (tmp_path / "class").mkdir()
    assert not has_selinux(tmp_path)
    (tmp_path / "class/file").mkdir()
    assert has_selinux(tmp_path)


class Plugin:
    """Its mounts take the option, or not; what it was told to mount."""

    def __init__(self, takes: bool) -> None:
        self.takes, self.mounted = takes, list[VolumeSpec]()

    def get_plugin_name(self) -> str:
        return "example.com/disk"

    def supports_mount_option(self) -> bool:
        return True

    def supports_selinux_mount(self, spec: VolumeSpec) -> bool:
        return self.takes

    def new_device_mounter(self) -> Plugin:
        return self

    def get_device_mount_path(self, spec: VolumeSpec) -> str:
        return "/mounts/d1"

    async def mount_device(self, spec: VolumeSpec, device_path: str, device_mount_path: str) -> None:
        self.mounted.append(spec)


@pytest.mark.parametrize(("takes", "has", "label"), [(True, True, 1), (True, False, 0), (False, True, 0)])
def test_a_node_mounts_with_the_label_where_kernel_and_plugin_have_it(
    monkeypatch: pytest.MonkeyPatch, takes: bool, has: bool, label: int
) -> None:
    plugin: Any = Plugin(takes)
    monkeypatch.setattr(operations, "has_selinux", lambda: has)
    made: Any = operations.Operations(plugin, plugin, plugin)
    monkeypatch.setattr(made, "_device_plugin", lambda volume: plugin)
    monkeypatch.setattr(made, "_save", lambda volume, **changes: None)
    monkeypatch.setattr(made, "grows", lambda spec: False)
    wanted = WantedVolume(VolumeRecord("example.com/disk/d1", "example.com/disk", attachable=True))
    wanted.wants["u"] = Want(made_pod(LEVEL), ("data",), volume(), 0.0)
    asyncio.run(made.mount_device(wanted, None))
    (spec,) = plugin.mounted
    assert len(spec.mount_options) == label
