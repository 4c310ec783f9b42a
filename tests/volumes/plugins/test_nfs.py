"""NFS volumes: what is asked of `mount` and `umount`, and what becomes of a server that has gone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doubles.network_mounts import PlayedKernel

from mooring.kube.objects import (
    NFSVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    Volume,
)
from mooring.volumes.errors import InvalidSpec, OutcomeUnknown, VolumeError
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.interfaces import MetricsNotSupported
from mooring.volumes.plugins.nfs import NFSPlugin
from mooring.volumes.plugins.nfs_source import export
from mooring.volumes.spec import VolumeSpec

POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))


class Node:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.kernel = PlayedKernel()
        self.plugin = NFSPlugin(self.kernel.run)
        refuse: Any = None
        host = NodeVolumeHost("node-1", root, self.kernel, refuse, refuse, refuse)  # type: ignore[arg-type]
        self.plugin.init(host)

    def set_up(self, spec: VolumeSpec) -> str:
        mounter = self.plugin.new_mounter(spec, POD)
        asyncio.run(mounter.set_up())
        return mounter.get_path()

    def tear_down(self, spec: VolumeSpec) -> None:
        asyncio.run(self.plugin.new_unmounter(spec.name, POD.uid).tear_down())

    def asked(self, program: str) -> list[tuple[str, ...]]:
        return [words for words in self.kernel.calls if words[0] == program]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def volume(server: str = "10.0.0.1", path: str = "/srv/data", read_only: bool = False) -> VolumeSpec:
    source = NFSVolumeSource(server=server, path=path, read_only=read_only)
    return VolumeSpec.of_volume(Volume(name="data", nfs=source))


def persistent(options: Sequence[str] = (), read_only: bool = False) -> VolumeSpec:
    source = NFSVolumeSource(server="files.example.com", path="/srv/data")
    spec = PersistentVolumeSpec(nfs=source, mount_options=tuple(options))
    pv = PersistentVolume(metadata=ObjectMeta(name="pv-1"), spec=spec)
    return VolumeSpec.of_persistent_volume(pv, read_only)


def test_the_export_is_mounted_in_the_pods_directory(node: Node):
    path = node.set_up(volume())
    assert node.kernel.calls == [("mount", "-t", "nfs", "--", "10.0.0.1:/srv/data", path)]
    assert path.endswith("pods/pod-uid/volumes/kubernetes.io~nfs/data")


def test_mount_options_and_read_only_are_given_to_mount(node: Node):
    node.set_up(persistent(["nfsvers=4.2", "noatime"], read_only=True))
    assert node.kernel.calls[0][3:5] == ("-o", "nfsvers=4.2,noatime,ro")


def test_what_is_mounted_is_not_mounted_again(node: Node):
    node.set_up(volume())
    node.set_up(volume())
    assert len(node.asked("mount")) == 1


def test_an_ipv6_server_stands_in_brackets(node: Node):
    node.set_up(volume("fd00::1"))
    assert node.kernel.calls[0][-2] == "[fd00::1]:/srv/data"


@pytest.mark.parametrize(
    "server",
    ["", "-o", "a b", "a\nb", "a:b", "a/b", "[10.0.0.1]", "[x]", "a" * 254, "ä", "fe80::1%a", "[fe80::1%a]"],
)
def test_a_server_that_cannot_be_one_is_refused_before_any_program_runs(node: Node, server: str):
    with pytest.raises(InvalidSpec, match=r"nfs\.server"):
        node.set_up(volume(server))
    assert node.kernel.calls == []


@pytest.mark.parametrize("path", ["", "srv", "-o", "/srv/../etc", "/a\nb", "/\x00", "/" + "a" * 4096])
def test_a_path_that_cannot_be_one_is_refused_before_any_program_runs(node: Node, path: str):
    with pytest.raises(InvalidSpec, match=r"nfs\.path"):
        node.set_up(volume(path=path))
    assert node.kernel.calls == []


@pytest.mark.parametrize("option", ["", "a b", "nolock\n", "ä", "bg", "ro,bg", 'context="x'])
def test_a_mount_option_that_cannot_be_one_is_refused(node: Node, option: str):
    with pytest.raises(InvalidSpec, match="mountOptions"):
        node.set_up(persistent([option]))
    assert node.kernel.calls == []


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_becomes_an_option_or_another_line(server: str, path: str):
    try:
        found = str(export(volume(server, path)))
    except InvalidSpec:
        return
    assert not found.startswith("-") and found.isprintable() and ":/" in found


def test_a_server_that_refuses_is_named_with_what_to_do_and_nothing_is_left(node: Node):
    node.kernel.refusal = "access denied by server while mounting 10.0.0.1:/srv/data"
    with pytest.raises(VolumeError, match=r"10\.0\.0\.1:/srv/data of volume data: .*let the node in"):
        node.set_up(volume())
    assert not Path(node.asked("mount")[0][-1]).exists()


def test_a_mount_that_ends_after_its_deadline_is_found_at_the_next_try(node: Node):
    node.kernel.gone = node.kernel.mounts_late = True
    with pytest.raises(OutcomeUnknown, match="may be done or not"):
        node.set_up(volume())
    node.kernel.gone = False
    node.set_up(volume())
    assert len(node.asked("mount")) == 1


def test_a_mount_of_unknown_outcome_is_undone_with_the_pod(node: Node):
    node.kernel.gone = node.kernel.mounts_late = True
    with pytest.raises(OutcomeUnknown):
        node.set_up(volume())
    node.kernel.gone = False
    node.tear_down(volume())
    assert node.kernel.mounts == {}


def test_what_was_written_is_written_back_before_it_is_unmounted(node: Node):
    path = node.set_up(volume())
    node.tear_down(volume())
    assert node.kernel.calls[1:] == [("sync", "-f", "--", path), ("umount", "--", path)]
    assert not Path(path).exists()


def test_an_unmount_is_idempotent(node: Node):
    node.set_up(volume())
    node.tear_down(volume())
    node.tear_down(volume())
    assert len(node.asked("umount")) == 1


def test_a_server_that_has_gone_is_left_by_force_and_never_lazily(node: Node):
    path = node.set_up(volume())
    node.kernel.gone = True
    node.kernel.busy = 1  # by the call that waits for it
    node.tear_down(volume())
    assert node.asked("umount") == [("umount", "-f", "--", path)] * 2
    assert node.kernel.mounts == {} and not Path(path).exists()


def test_two_pods_of_an_export_whose_server_has_gone_both_go_and_force_is_for_the_last(
    node: Node, tmp_path: Path
):
    path = node.set_up(volume())
    other = str(tmp_path / "other")
    os.mkdir(other)
    node.kernel.mounts[other] = node.kernel.mounts[path]
    node.kernel.devices = {path: (0, 7), other: (0, 7)}
    node.kernel.gone = True
    node.tear_down(volume())
    assert node.asked("umount") == [("umount", "--", path)] and node.asked("sync") == []
    asyncio.run(node.plugin.new_unmounter("data", POD.uid).tear_down_at(other))
    assert node.asked("umount")[1:] == [("umount", "-f", "--", other)]
    assert node.kernel.mounts == {}


def test_a_server_that_is_only_slow_is_waited_for(node: Node):
    path = node.set_up(volume())
    node.kernel.slow = True
    with pytest.raises(
        VolumeError, match=r"10\.0\.0\.1:/srv/data is not all there .* while the server answers"
    ):
        node.tear_down(volume())
    assert node.asked("umount") == [] and path in node.kernel.mounts


def test_a_mount_that_says_it_is_done_and_is_not_is_no_mount(node: Node):
    node.kernel.lies = True
    with pytest.raises(VolumeError, match="cannot mount"):
        node.set_up(volume())


def test_a_busy_mount_stays_and_is_named(node: Node):
    path = node.set_up(volume())
    node.kernel.busy = 1
    with pytest.raises(VolumeError, match=r"10\.0\.0\.1:/srv/data is still mounted .*busy"):
        node.tear_down(volume())
    assert path in node.kernel.mounts


def test_its_use_is_asked_with_a_deadline(node: Node):
    mounter = node.plugin.new_mounter(volume(), POD)
    found = asyncio.run(mounter.get_metrics())
    assert (found.capacity, found.used, found.available) == (409600, 163840, 204800)
    assert (found.inodes, found.inodes_used, found.inodes_free) == (10, 6, 4)
    node.kernel.gone = True
    with pytest.raises(MetricsNotSupported, match="did not end in time"):
        asyncio.run(mounter.get_metrics())


def test_the_fsgroup_does_not_change_the_servers_files(node: Node):
    attributes = node.plugin.new_mounter(volume(read_only=True), POD).get_attributes()
    assert (attributes.managed, attributes.read_only) == (False, True)


def test_it_has_upstreams_names_and_modes(node: Node):
    assert node.plugin.get_plugin_name() == "kubernetes.io/nfs"
    assert node.plugin.get_volume_name(volume()) == "10.0.0.1//srv/data"
    assert set(node.plugin.get_access_modes()) == {
        "ReadWriteOnce",
        "ReadWriteOncePod",
        "ReadOnlyMany",
        "ReadWriteMany",
    }


def one_node(name: str = "pv-1") -> VolumeSpec:
    source = NFSVolumeSource(server="files.example.com", path="/srv/data")
    spec = PersistentVolumeSpec(nfs=source, access_modes=("ReadWriteOnce",))
    pv = PersistentVolume(metadata=ObjectMeta(name=name), spec=spec)
    return VolumeSpec.of_persistent_volume(pv)


def beside(node: Node, path: str) -> None:
    """Another pod of the node has mounted the same file system."""
    node.kernel.mounts["/elsewhere"] = node.kernel.mounts[path]
    node.kernel.devices = {path: (0, 7), "/elsewhere": (0, 7)}


def test_what_was_granted_to_this_node_is_written_back_also_if_another_pod_has_the_file_system(node: Node):
    beside(node, node.set_up(one_node()))
    node.tear_down(one_node())
    assert [words[0] for words in node.kernel.calls] == ["mount", "sync", "umount"]
    assert not list(node.root.rglob("*.granted"))


def test_what_was_granted_to_this_node_stays_until_a_server_that_has_gone_is_back(node: Node):
    path = node.set_up(one_node())
    beside(node, path)
    node.kernel.gone = True
    with pytest.raises(VolumeError, match="waited for until that answers"):
        node.tear_down(one_node())
    assert path in node.kernel.mounts
    node.kernel.gone = False
    node.tear_down(one_node())
    assert path not in node.kernel.mounts


def test_what_several_nodes_share_is_let_go_of_whatever_the_server_does(node: Node):
    path = node.set_up(persistent())
    beside(node, path)
    node.kernel.gone = True
    node.tear_down(persistent())
    assert path not in node.kernel.mounts
