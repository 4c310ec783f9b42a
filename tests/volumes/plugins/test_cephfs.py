"""CephFS volumes: what `mount` is told, where the key is meanwhile, and what becomes of failures."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.network_mounts import PlayedKernel
from tests.doubles.played_rbd import KEY

from mooring.kube.objects import (
    CephFSVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    Secret,
    SecretReference,
    Volume,
)
from mooring.volumes.errors import ContentMissing, InvalidSpec, OutcomeUnknown, VolumeError
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.plugins.cephfs import CephFSPlugin
from mooring.volumes.plugins.programs import Ended
from mooring.volumes.spec import VolumeSpec

POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))


class Node:
    """A node; `seen` is what was in the key's file when `mount` ran."""

    def __init__(self, root: Path) -> None:
        self.root, self.kernel = root, PlayedKernel()
        self.seen: list[tuple[str, int]] = []
        self.secrets = {("shop", "ceph"): Secret(data={"key": base64.b64encode(KEY.encode()).decode()})}
        self.plugin = CephFSPlugin(self._run)
        refuse: Any = None
        host = NodeVolumeHost("node-1", root, self.kernel, refuse, refuse, self._secret)  # type: ignore[arg-type]
        self.plugin.init(host)

    async def _secret(self, namespace: str, name: str) -> Secret | None:
        return self.secrets.get((namespace, name))

    async def _run(self, *words: str, deadline_s: float) -> Ended:
        if words[0] == "mount":
            options = dict(each.partition("=")[::2] for each in words[words.index("-o") + 1].split(","))
            file = Path(options["secretfile"])
            self.seen.append((file.read_text(), stat.S_IMODE(file.stat().st_mode)))
        return await self.kernel.run(*words, deadline_s=deadline_s)

    def set_up(self, spec: VolumeSpec) -> str:
        mounter = self.plugin.new_mounter(spec, POD)
        asyncio.run(mounter.set_up())
        return mounter.get_path()

    def tear_down(self) -> None:
        asyncio.run(self.plugin.new_unmounter("data", POD.uid).tear_down())

    def files(self) -> list[str]:
        return [str(path) for path in self.root.rglob("*") if path.is_file()]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def volume(**source: Any) -> VolumeSpec:
    made = CephFSVolumeSource(
        **{"monitors": ("10.0.0.1",), "secret_ref": SecretReference(name="ceph"), **source}
    )
    return VolumeSpec.of_volume(Volume(name="data", cephfs=made))


def persistent(*options: str, read_only: bool = False) -> VolumeSpec:
    secret = SecretReference(name="ceph", namespace="shop")
    source = CephFSVolumeSource(
        monitors=("10.0.0.1", "[fd00::1]:1"), path="/shop", user="pods", secret_ref=secret
    )
    spec = PersistentVolumeSpec(cephfs=source, mount_options=options)
    pv = PersistentVolume(metadata=ObjectMeta(name="data"), spec=spec)
    return VolumeSpec.of_persistent_volume(pv, read_only)


def test_the_directory_is_mounted_for_the_pod_and_unmounted(node: Node) -> None:
    path = node.set_up(persistent("noatime", read_only=True))
    (words,) = [each for each in node.kernel.calls if each[0] == "mount"]
    assert words[1:4] == ("-t", "ceph", "-o")
    assert words[4].partition(",")[2] == "name=pods,mount_timeout=30,noatime,ro"
    assert words[5:] == ("--", "10.0.0.1:6789,[fd00::1]:1:/shop", path)
    assert path.endswith("pods/pod-uid/volumes/kubernetes.io~cephfs/data")
    node.tear_down()
    assert node.kernel.mounts == {}
    assert not Path(path).exists()


def test_the_key_is_in_a_file_of_root_alone_and_only_while_it_is_mounted(node: Node) -> None:
    node.set_up(volume())
    assert node.seen == [(KEY, 0o600)]
    assert node.files() == []
    assert not any(KEY in word for words in node.kernel.calls for word in words)


@pytest.mark.parametrize("gone", [False, True])
def test_after_a_failure_no_key_is_left(node: Node, gone: bool) -> None:
    node.kernel.gone, node.kernel.refusal = gone, "" if gone else "mount error 1 = Operation not permitted"
    with pytest.raises(OutcomeUnknown if gone else VolumeError) as raised:
        node.set_up(volume())
    assert node.files() == []
    assert KEY not in str(raised.value)
    assert gone or "refuse the user or its key" in str(raised.value)


def test_what_an_agent_that_was_killed_left_is_removed(node: Node) -> None:
    left = node.root / "pods/pod-uid/plugins/kubernetes.io~cephfs/data.secret"
    left.parent.mkdir(parents=True)
    left.write_text(KEY)
    node.tear_down()
    assert node.files() == []


def test_a_mounted_directory_is_not_mounted_again(node: Node) -> None:
    node.set_up(volume())
    node.set_up(volume())
    assert len(node.seen) == 1


def test_the_secret_of_a_pods_own_volume_is_of_its_namespace(node: Node) -> None:
    node.secrets.clear()
    with pytest.raises(ContentMissing, match="Secret shop/ceph"):
        node.set_up(volume())


@pytest.mark.parametrize("path", ["srv", "/a/../b", "/a\nb", "/a:/b", "/" + "x" * 4096])
def test_a_path_that_cannot_be_meant_is_refused(node: Node, path: str) -> None:
    with pytest.raises(InvalidSpec, match=r"cephfs\.path"):
        node.set_up(volume(path=path))
    assert node.kernel.calls == []


@pytest.mark.parametrize(
    "option", ["secret=x", "noatime,name=admin", "secretfile=/etc/shadow", "conf=/x", 'a="']
)
def test_an_option_that_says_who_mounts_is_refused(node: Node, option: str) -> None:
    with pytest.raises(InvalidSpec, match="mountOptions"):
        node.set_up(persistent(option))


def test_a_users_own_patience_counts(node: Node) -> None:
    node.set_up(persistent("mount_timeout=5"))
    (words,) = [each for each in node.kernel.calls if each[0] == "mount"]
    assert "mount_timeout=30" not in words[4]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("mount error 2 = No such file or directory", "correct cephfs.path"),
        ("mount error 110 = Connection timed out", "no Ceph monitor answers"),
        ("mount error: no mds (Metadata Server) is up.", "no metadata server of the cluster answers"),
        ("mount error 13 = Permission denied", "has no right to that path"),
    ],
)
def test_a_failure_says_what_to_do(node: Node, said: str, told: str) -> None:
    node.kernel.refusal = said
    with pytest.raises(VolumeError, match=told):
        node.set_up(volume())


def test_an_unwritten_path_and_user_are_upstreams(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def read(path: str) -> bytes:
        asked.append(path)
        return KEY.encode()

    monkeypatch.setattr("mooring.volumes.plugins.ceph.cluster._beginning", read)
    path = node.set_up(volume(secret_ref=None))
    assert asked == ["/etc/ceph/admin.secret"]
    assert node.kernel.mounts == {path: "10.0.0.1:6789:/"}
    assert os.path.isdir(path)
