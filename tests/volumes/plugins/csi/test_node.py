"""A CSI volume on a node: which calls the driver gets, in which order, and what is on disk meanwhile."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from played_driver import NAME, Storage, plugin

from mooring.csi.driver.services import NodeCapability, NodeService
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.secrets import ACCOUNT_TOKENS, stripped
from mooring.kube.objects import (
    Container,
    CSIDriver,
    CSIDriverSpec,
    CSIPersistentVolumeSource,
    CSIVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    PodSpec,
    TokenRequest,
    Volume,
)
from mooring.kube.objects.pods import PodSecurityContext
from mooring.volumes.errors import (
    InvalidSpec,
    NotAsked,
    OutcomeUnknown,
    PluginError,
    SizeInfeasible,
    StorageRefused,
    VolumeError,
)
from mooring.volumes.host import AccountToken, NodeVolumeHost
from mooring.volumes.names import CSI_PLUGIN
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.plugins.csi.plugin import CSIPlugin
from mooring.volumes.selinux import labelled
from mooring.volumes.spec import VolumeSpec

N = NodeCapability
STAGES = (N.STAGE_UNSTAGE_VOLUME, N.GET_VOLUME_STATS, N.EXPAND_VOLUME)
POD = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u1"), spec=PodSpec())


class Points:
    """Mount points, which the played driver makes."""

    def __init__(self) -> None:
        self.points: set[str] = set()
        self.refs: list[str] = []

    async def is_mount_point(self, path: str) -> bool:
        return path in self.points

    async def remove_mount_point(self, target: str) -> None:
        assert target not in self.points, f"{target} is the driver's to unmount"
        if Path(target).is_dir():
            Path(target).rmdir()

    async def get_device_mount_refs(self, path: str) -> list[str]:
        return self.refs


class PlayedNode(NodeService):
    """Records calls in the storage; a directory stands for what is mounted."""

    def __init__(
        self, storage: Storage, points: Points, capabilities: tuple[NodeCapability, ...] = STAGES
    ) -> None:
        self.storage, self.points = storage, points
        self.capabilities = capabilities

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        assert Path(request.staging_target_path).is_dir(), "the specification has us make it"
        self._mounted(request.staging_target_path)
        return await self.storage.play("NodeStageVolume", request, csi.NodeStageVolumeResponse)

    async def node_unstage_volume(
        self, request: csi.NodeUnstageVolumeRequest
    ) -> csi.NodeUnstageVolumeResponse:
        self.points.points.discard(request.staging_target_path)
        return await self.storage.play("NodeUnstageVolume", request, csi.NodeUnstageVolumeResponse)

    async def node_publish_volume(
        self, request: csi.NodePublishVolumeRequest
    ) -> csi.NodePublishVolumeResponse:
        target = Path(request.target_path)
        assert target.parent.is_dir()
        assert not target.exists(), "the target itself is the driver's to make"
        target.mkdir()
        self._mounted(request.target_path)
        return await self.storage.play("NodePublishVolume", request, csi.NodePublishVolumeResponse)

    async def node_unpublish_volume(
        self, request: csi.NodeUnpublishVolumeRequest
    ) -> csi.NodeUnpublishVolumeResponse:
        self.points.points.discard(request.target_path)
        if Path(request.target_path).exists():
            Path(request.target_path).rmdir()
        return await self.storage.play("NodeUnpublishVolume", request, csi.NodeUnpublishVolumeResponse)

    async def node_get_volume_stats(
        self, request: csi.NodeGetVolumeStatsRequest
    ) -> csi.NodeGetVolumeStatsResponse:
        usage = [
            csi.VolumeUsage(unit=csi.VolumeUsage.BYTES, total=10, used=4, available=6),
            csi.VolumeUsage(unit=csi.VolumeUsage.INODES, total=3, used=1, available=2),
        ]
        return csi.NodeGetVolumeStatsResponse(usage=usage)

    async def node_expand_volume(self, request: csi.NodeExpandVolumeRequest) -> csi.NodeExpandVolumeResponse:
        return await self.storage.play("NodeExpandVolume", request, csi.NodeExpandVolumeResponse)

    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        return csi.NodeGetInfoResponse(node_id="i-1")

    def _mounted(self, path: str) -> None:
        self.points.points.add(path)


class NodePluginWithDriver:
    """A node's plugin and its driver."""

    def __init__(self, root: Path, capabilities: tuple[NodeCapability, ...] = STAGES) -> None:
        self.root, self.storage, self.points = root, Storage(), Points()
        self.capabilities = capabilities
        self.plugin = self.start()

    def start(self) -> CSIPlugin:
        """An agent that remembers nothing."""
        node = PlayedNode(self.storage, self.points, self.capabilities)
        made = plugin(self.storage, node=node)
        now = datetime(2030, 1, 1, tzinfo=UTC)
        settings = {CSI_PLUGIN: {NAME: "here"}}
        host = NodeVolumeHost("n", self.root, self.points, lambda: now, _nothing, _nothing, settings)  # type: ignore[arg-type]
        assert PluginManager([made], host).errors == []
        self.plugin = made
        return made

    async def stage(self, spec: VolumeSpec, context: dict[str, str] | None = None) -> str:
        stager = self.plugin.new_attacher()
        path = stager.get_device_mount_path(spec)
        device = await stager.wait_for_attach(spec, context or {"lun": "7"}, 1) if context is not None else ""
        await stager.mount_device(spec, device, path)
        return path

    def call(self, name: str) -> Any:
        """The one call of the method."""
        (found,) = [request for method, request in self.storage.calls if method == name]
        return found


async def _nothing(namespace: str, name: str) -> None:
    return None


def volume(*modes: str, block: bool = False, **source: Any) -> VolumeSpec:
    pv = PersistentVolume(
        metadata=ObjectMeta(name="pv"),
        spec=PersistentVolumeSpec(
            capacity={"storage": "1Gi"},
            access_modes=modes or ("ReadWriteOnce",),
            volume_mode="Block" if block else "Filesystem",
            mount_options=() if block else ("noatime",),
            csi=CSIPersistentVolumeSource(driver=NAME, volume_handle="../v/1", **source),
        ),
    )
    return VolumeSpec.of_persistent_volume(pv)


@pytest.fixture
def node(tmp_path: Path) -> NodePluginWithDriver:
    return NodePluginWithDriver(tmp_path)


async def test_staged_then_published_then_back_and_nothing_is_left(node: NodePluginWithDriver):
    spec = volume(fs_type="xfs")
    path = await node.stage(spec, {"lun": "7", "devicePath": ""})
    mounter = node.plugin.new_mounter(spec, POD)
    await mounter.set_up()
    staged, published = node.call("NodeStageVolume"), node.call("NodePublishVolume")
    assert dict(staged.publish_context) == dict(published.publish_context) == {"lun": "7"}
    assert published.staging_target_path == staged.staging_target_path == path
    assert published.target_path == mounter.get_path()
    mount = staged.volume_capability.mount
    assert (mount.fs_type, list(mount.mount_flags)) == ("xfs", ["noatime"])
    await node.start().new_unmounter("pv", "u1").tear_down()
    await node.plugin.new_detacher().unmount_device(path)
    assert node.storage.methods()[-2:] == ["NodeUnpublishVolume", "NodeUnstageVolume"]
    assert [each for each in node.root.rglob("*") if not each.is_dir()] == []
    assert not Path(path).parent.exists()


async def test_a_handle_is_never_part_of_a_path(node: NodePluginWithDriver):
    path = await node.stage(volume(), {})
    assert Path(path).is_relative_to(node.root / "plugins" / "kubernetes.io~csi" / NAME)
    assert ".." not in path


async def test_what_an_unmount_needs_lies_there_before_the_driver_is_asked(node: NodePluginWithDriver):
    spec = volume()
    node.storage.failing["NodeStageVolume"].errors = [Code.DEADLINE_EXCEEDED]
    node.storage.failing["NodeStageVolume"].after = True
    with pytest.raises(OutcomeUnknown):
        await node.stage(spec, {})
    path = node.plugin.new_attacher().get_device_mount_path(spec)
    data = json.loads((Path(path).parent / "vol_data.json").read_text())
    assert (data["driverName"], data["volumeHandle"], data["specVolID"]) == (NAME, "../v/1", "pv")
    await node.start().new_detacher().unmount_device(path)
    assert node.call("NodeUnstageVolume").volume_id == "../v/1"


async def test_what_lies_there_tells_a_restarted_agent_which_volume_it_is(node: NodePluginWithDriver):
    spec = volume()
    path = await node.stage(spec, {})
    await node.plugin.new_mounter(spec, POD).set_up()
    agent = node.start()
    assert agent.get_volume_name_at(path) == f"{NAME}^../v/1"
    assert agent.get_volume_name_at(str(node.root)) is None
    found = await agent.construct_volume_spec("pv", agent.new_mounter(spec, POD).get_path())
    assert agent.get_volume_name(found) == f"{NAME}^../v/1"


async def test_a_driver_that_stages_nothing_is_only_asked_to_publish(tmp_path: Path):
    node = NodePluginWithDriver(tmp_path, ())
    spec = volume()
    path = await node.stage(spec, {"lun": "7"})
    await node.plugin.new_mounter(spec, POD).set_up()
    published = node.call("NodePublishVolume")
    assert published.staging_target_path == ""
    assert dict(published.publish_context) == {"lun": "7"}
    await node.plugin.new_unmounter("pv", "u1").tear_down()
    await node.plugin.new_detacher().unmount_device(path)
    assert node.storage.methods() == ["NodePublishVolume", "NodeUnpublishVolume"]


@pytest.mark.parametrize("left", [None, b"{", b'{"driverName": "\xff"}'])
async def test_a_device_without_record_is_not_unmounted_by_guessing(
    node: NodePluginWithDriver, left: bytes | None
):
    spec = volume()
    path = await node.stage(spec, {})
    data = Path(path).parent / "vol_data.json"
    data.unlink() if left is None else data.write_bytes(left)
    with pytest.raises(VolumeError, match="which driver has mounted"):
        await node.start().new_detacher().unmount_device(path)
    assert path in node.points.points


async def test_a_driver_that_is_not_on_the_node_is_waited_for(node: NodePluginWithDriver):
    node.plugin.drivers_here.remove(NAME)
    with pytest.raises(NotAsked, match="not registered here"):
        await node.stage(volume(), {})
    node.plugin.drivers_here.add(NAME, "here")
    await node.stage(volume(), {})


def known(node: NodePluginWithDriver, **spec: Any) -> None:
    driver = CSIDriver(metadata=ObjectMeta(name=NAME), spec=CSIDriverSpec(**spec))
    node.plugin.known_drivers = lambda name: driver if name == NAME else None


async def test_a_driver_says_itself_whether_its_mounts_take_a_label(node: NodePluginWithDriver):
    spec = volume("ReadWriteOncePod")
    assert not node.plugin.supports_selinux_mount(spec)
    known(node)
    assert not node.plugin.supports_selinux_mount(spec)
    known(node, se_linux_mount=True)
    assert node.plugin.supports_selinux_mount(spec)


async def test_a_label_is_among_the_flags_to_stage_and_to_publish_with(node: NodePluginWithDriver):
    options = PodSecurityContext(se_linux_options={"level": "s0:c1,c2"})
    pod = msgspec.structs.replace(POD, spec=PodSpec(security_context=options, containers=(Container(),)))
    spec = labelled(volume("ReadWriteOncePod"), pod)
    await node.stage(spec, {})
    await node.plugin.new_mounter(spec, pod).set_up()
    label = 'context="system_u:object_r:container_file_t:s0:c1,c2"'
    for call in ("NodeStageVolume", "NodePublishVolume"):
        assert list(node.call(call).volume_capability.mount.mount_flags) == ["noatime", label]


async def test_a_driver_is_told_whose_volume_it_is_if_it_asks_for_that(node: NodePluginWithDriver):
    spec = volume()
    await node.stage(spec, {})
    known(node, pod_info_on_mount=True)
    await node.plugin.new_mounter(spec, POD).set_up()
    context = node.call("NodePublishVolume").volume_context
    assert context["csi.storage.k8s.io/pod.name"] == "p"
    assert context["csi.storage.k8s.io/pod.uid"] == "u1"
    assert context["csi.storage.k8s.io/serviceAccount.name"] == "default"
    assert context["csi.storage.k8s.io/ephemeral"] == "false"


class Issuer:
    """Of tokens."""

    def __init__(self, node: NodePluginWithDriver) -> None:
        self.asked: list[tuple[str, str, int]] = []
        host = node.plugin._host  # pyright: ignore[reportPrivateUsage]
        node.plugin._host = dataclasses.replace(host, fetch_token=self.issue)  # type: ignore[arg-type]

    async def issue(self, pod: Pod, audience: str, seconds: int) -> AccountToken:
        self.asked.append((pod.uid, audience, seconds))
        return AccountToken(f"token for {audience}", datetime(2030, 1, 1, 1, tzinfo=UTC))


ASKED = (TokenRequest(audience="vault", expiration_seconds=600), TokenRequest())
GIVEN_TOKENS = {
    "vault": {"token": "token for vault", "expirationTimestamp": "2030-01-01T01:00:00Z"},
    "": {"token": "token for ", "expirationTimestamp": "2030-01-01T01:00:00Z"},
}


@pytest.mark.parametrize("own", [False, True], ids=["persistent", "the pod's own"])
@pytest.mark.parametrize("in_secrets", [False, True])
async def test_a_driver_is_given_the_tokens_that_its_csidriver_asks_for(
    node: NodePluginWithDriver, own: bool, in_secrets: bool
):
    issuer = Issuer(node)
    modes = ("Persistent", "Ephemeral")
    known(
        node,
        token_requests=ASKED,
        service_account_token_in_secrets=in_secrets,
        volume_lifecycle_modes=modes,
    )
    spec = own_volume() if own else volume()
    if not own:
        await node.stage(spec, {})
    await node.plugin.new_mounter(spec, POD).set_up()
    assert issuer.asked == [("u1", "vault", 600), ("u1", "", 3600)]
    request = node.call("NodePublishVolume")
    with_them, without = request.volume_context, request.secrets
    if in_secrets:
        with_them, without = without, with_them
    assert json.loads(with_them[ACCOUNT_TOKENS]) == GIVEN_TOKENS
    assert ACCOUNT_TOKENS not in without
    assert "token for vault" not in str(stripped(request))
    on_disk = [path.read_text() for path in node.root.rglob("*") if path.is_file()]
    assert not any("token for" in text for text in on_disk)


async def test_a_driver_that_asks_for_no_tokens_gets_none(node: NodePluginWithDriver):
    issuer = Issuer(node)
    known(node)
    spec = volume()
    await node.stage(spec, {})
    await node.plugin.new_mounter(spec, POD).set_up()
    assert issuer.asked == []
    assert ACCOUNT_TOKENS not in node.call("NodePublishVolume").volume_context


async def test_a_token_that_cannot_be_had_keeps_the_driver_from_being_asked(node: NodePluginWithDriver):
    known(node, token_requests=ASKED)
    spec = volume()
    await node.stage(spec, {})
    with pytest.raises(PluginError, match="tokens of service accounts"):
        await node.plugin.new_mounter(spec, POD).set_up()
    assert "NodePublishVolume" not in node.storage.methods()


def test_a_volume_is_published_again_from_time_to_time_if_its_csidriver_asks_for_that(
    node: NodePluginWithDriver,
):
    assert node.plugin.remount_period(volume()) is None
    known(node)
    assert node.plugin.remount_period(volume()) is None
    known(node, requires_republish=True)
    assert node.plugin.remount_period(volume()) == 60
    assert node.plugin.remount_period(own_volume()) == 60


def test_attaching_is_the_csidrivers_word(node: NodePluginWithDriver):
    assert node.plugin.can_attach(volume())
    known(node, attach_required=False)
    assert not node.plugin.can_attach(volume())


GIVEN = [
    ("File", "", ("ReadWriteMany",), True),
    ("None", "ext4", ("ReadWriteOnce",), False),
    ("ReadWriteOnceWithFSType", "ext4", ("ReadWriteOnce",), True),
    ("ReadWriteOnceWithFSType", "", ("ReadWriteOnce",), False),
    ("ReadWriteOnceWithFSType", "ext4", ("ReadWriteMany",), False),
]


@pytest.mark.parametrize(("policy", "fs_type", "modes", "given"), GIVEN)
async def test_the_group_of_files_is_a_matter_of_the_csidrivers_policy(
    node: NodePluginWithDriver,
    policy: str,
    fs_type: str,
    modes: tuple[str, ...],
    given: bool,
    monkeypatch: pytest.MonkeyPatch,
):
    groups: list[int] = []
    where = "mooring.volumes.plugins.csi.publishing.give_to_group"
    monkeypatch.setattr(where, lambda path, group, **_: groups.append(group))
    spec = volume(*modes, fs_type=fs_type)
    await node.stage(spec, {})
    known(node, fs_group_policy=policy)
    await node.plugin.new_mounter(spec, POD).set_up(fs_group=2000)
    assert groups == ([2000] if given else [])


async def test_a_driver_that_gives_the_group_itself_is_told_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        "mooring.volumes.plugins.csi.publishing.give_to_group", lambda path, group, **_: pytest.fail("ours")
    )
    node = NodePluginWithDriver(tmp_path, (*STAGES, N.VOLUME_MOUNT_GROUP))
    spec = volume(fs_type="ext4")
    await node.stage(spec, {})
    await node.plugin.new_mounter(spec, POD).set_up(fs_group=2000)
    assert node.call("NodePublishVolume").volume_capability.mount.volume_mount_group == "2000"


def own_volume(**source: Any) -> VolumeSpec:
    return VolumeSpec.of_volume(Volume(name="own", csi=CSIVolumeSource(driver=NAME, **source)))


async def test_a_pods_own_volume_is_published_alone(node: NodePluginWithDriver):
    known(node, volume_lifecycle_modes=("Ephemeral",), pod_info_on_mount=True)
    spec = own_volume(volume_attributes={"size": "1"})
    assert not node.plugin.can_attach(spec)
    assert not node.plugin.can_device_mount(spec)
    await node.plugin.new_mounter(spec, POD).set_up()
    published = node.call("NodePublishVolume")
    assert published.volume_id.startswith("csi-")
    assert (published.volume_context["size"], published.volume_context["csi.storage.k8s.io/ephemeral"]) == (
        "1",
        "true",
    )
    await node.start().new_unmounter("own", "u1").tear_down()
    assert node.call("NodeUnpublishVolume").volume_id == published.volume_id


def test_a_driver_that_has_no_such_volumes_is_named(node: NodePluginWithDriver):
    known(node, volume_lifecycle_modes=("Persistent",))
    with pytest.raises(InvalidSpec, match="does not have Ephemeral"):
        node.plugin.new_mounter(own_volume(), POD)


async def test_a_raw_device_is_staged_published_and_linked(node: NodePluginWithDriver):
    spec = volume(block=True)
    await node.plugin.new_attacher().wait_for_attach(spec, {"lun": "7"}, 1)
    staged = await node.plugin.set_up_device(spec, "")
    mapper = node.plugin.new_block_volume_mapper(spec, POD)
    await mapper.map_pod_device(staged)
    published = node.call("NodePublishVolume")
    assert published.volume_capability.HasField("block")
    assert dict(published.publish_context) == {"lun": "7"}
    link = Path(mapper.get_pod_device_map_path())
    assert str(link.readlink()) == published.target_path
    agent = node.start()
    await agent.new_block_volume_unmapper("pv", "u1").unmap_pod_device()
    await agent.tear_down_device(staged)
    assert node.storage.methods()[-2:] == ["NodeUnpublishVolume", "NodeUnstageVolume"]
    assert [each for each in node.root.rglob("*") if not each.is_dir()] == []


async def test_use_is_the_drivers_word(node: NodePluginWithDriver):
    spec = volume()
    await node.stage(spec, {})
    metrics = await node.plugin.new_mounter(spec, POD).get_metrics()
    assert (metrics.capacity, metrics.used, metrics.available, metrics.inodes_free) == (10, 4, 6, 2)


async def test_a_file_system_grows_where_it_is_staged(node: NodePluginWithDriver):
    spec = volume()
    path = await node.stage(spec, {})
    await node.plugin.expand_fs(spec, path)
    asked = node.call("NodeExpandVolume")
    assert (asked.volume_path, asked.capacity_range.required_bytes) == (path, 1024**3)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (Code.OUT_OF_RANGE, SizeInfeasible),
        (Code.INVALID_ARGUMENT, SizeInfeasible),
        (Code.NOT_FOUND, SizeInfeasible),
        (Code.FAILED_PRECONDITION, StorageRefused),
        (Code.UNAVAILABLE, OutcomeUnknown),
        (Code.INTERNAL, OutcomeUnknown),
    ],
)
async def test_what_a_driver_says_of_a_size_is_for_ever_or_may_pass(
    node: NodePluginWithDriver, code: Code, error: type[Exception]
):
    spec = volume()
    path = await node.stage(spec, {})
    node.storage.failing["NodeExpandVolume"].errors = [code]
    with pytest.raises(error):
        await node.plugin.expand_fs(spec, path)


async def test_a_driver_that_refuses_has_done_nothing(node: NodePluginWithDriver):
    node.storage.failing["NodeStageVolume"].errors = [Code.INVALID_ARGUMENT]
    with pytest.raises(VolumeError, match="InvalidArgument") as raised:
        await node.stage(volume(), {})
    assert isinstance(raised.value.__cause__, CsiError)
