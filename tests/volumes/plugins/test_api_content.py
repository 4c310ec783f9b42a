"""Secrets, the downward API and projections as files; configMap has its own file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.kube.objects import ConfigMap, ObjectMeta, Pod, Secret, Volume
from mooring.volumes.errors import ContentMissing, InvalidSpec
from mooring.volumes.host import AccountToken, NodeVolumeHost
from mooring.volumes.plugins import configmap, downwardapi, projected, secret
from mooring.volumes.plugins.api_content import ContentPlugin
from mooring.volumes.spec import VolumeSpec

POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid", labels={"app": "web"}))
PLUGINS: list[Callable[[], ContentPlugin[Any]]] = [
    configmap.plugin,
    downwardapi.plugin,
    projected.plugin,
    secret.plugin,
]
TOKEN = {"sources": [{"serviceAccountToken": {"path": "token"}}]}


def spec(**source: Any) -> VolumeSpec:
    return VolumeSpec.of_volume(msgspec.convert({"name": "v", **source}, Volume))


def fields(*paths: str) -> dict[str, Any]:
    return {"items": [{"path": path, "fieldRef": {"fieldPath": f"metadata.{path}"}} for path in paths]}


def installed(plugin: ContentPlugin[Any], host: NodeVolumeHost) -> ContentPlugin[Any]:
    plugin.init(host)
    return plugin


NOW = datetime(2030, 1, 1, tzinfo=UTC)


async def shown(plugin: ContentPlugin[Any], volume: VolumeSpec, pod: Pod = POD) -> dict[str, str]:
    mounter = plugin.new_mounter(volume, pod)
    await mounter.set_up()
    files = [path for path in Path(mounter.get_path()).iterdir() if not path.name.startswith("..")]
    return {path.name: path.read_text() for path in files}


async def test_a_secret_is_files_in_memory(host: NodeVolumeHost, cluster: Any, mounts: Any):
    cluster.secrets["shop", "s"] = Secret(data={"key": "aGVsbG8="})
    secrets = installed(secret.plugin(), host)
    assert await shown(secrets, spec(secret={"secretName": "s"})) == {"key": "hello"}
    path = secrets.new_mounter(spec(secret={"secretName": "s"}), POD).get_path()
    assert mounts.points[path][0] == "tmpfs"
    await secrets.new_unmounter("v", "pod-uid").tear_down()
    assert mounts.points == {}
    assert not os.path.exists(path)


async def test_a_secret_that_is_missing_is_named(host: NodeVolumeHost):
    secrets = installed(secret.plugin(), host)
    with pytest.raises(ContentMissing, match="Secret shop/s does not exist"):
        await shown(secrets, spec(secret={"secretName": "s"}))
    assert await shown(secrets, spec(secret={"secretName": "s", "optional": True})) == {}


async def test_the_downward_api_follows_the_pod(host: NodeVolumeHost):
    downward = installed(downwardapi.plugin(), host)
    volume = spec(downwardAPI=fields("labels", "name"))
    assert await shown(downward, volume) == {"labels": 'app="web"', "name": "web-0"}
    relabeled = msgspec.structs.replace(
        POD, metadata=msgspec.structs.replace(POD.metadata, labels={"app": "new"})
    )
    assert (await shown(downward, volume, relabeled))["labels"] == 'app="new"'


async def test_a_projection_shows_all_of_its_sources(host: NodeVolumeHost, cluster: Any):
    cluster.secrets["shop", "s"] = Secret(data={"key": "aGVsbG8="})
    cluster.config_maps["shop", "c"] = ConfigMap(data={"a": "1", "key": "weaker"})
    sources = [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}, {"downwardAPI": fields("name")}]
    volume = spec(projected={"sources": sources})
    assert await shown(installed(projected.plugin(), host), volume) == {
        "a": "1",
        "key": "hello",
        "name": "web-0",
    }


@pytest.mark.parametrize("source", [{"clusterTrustBundle": {"path": "x"}}, {"podCertificate": {}}, {}])
async def test_a_projection_of_something_else_is_refused(host: NodeVolumeHost, source: Any):
    with pytest.raises(InvalidSpec, match="must be"):
        await shown(installed(projected.plugin(), host), spec(projected={"sources": [source]}))


async def test_a_projected_token_is_of_the_pods_account_for_its_audience(host: NodeVolumeHost):
    async def issued(pod: Pod, audience: str, seconds: int) -> AccountToken:
        return AccountToken(f"{pod.name} {audience} {seconds}", NOW)

    giving = dataclasses.replace(host, fetch_token=issued)
    source = {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}}
    plugin = installed(projected.plugin(), giving)
    assert await shown(plugin, spec(projected={"sources": [source]})) == {"token": "web-0 vault 600"}


async def test_a_projected_token_is_for_the_fs_group_alone(host: NodeVolumeHost):
    async def issued(pod: Pod, audience: str, seconds: int) -> AccountToken:
        return AccountToken("t", NOW)

    plugin = installed(projected.plugin(), dataclasses.replace(host, fetch_token=issued))
    volume = spec(projected=TOKEN).volume
    assert volume is not None
    source = plugin.find(volume)
    grouped = msgspec.convert({"metadata": {"name": "p"}, "spec": {"securityContext": {"fsGroup": 7}}}, Pod)
    assert (await plugin.payload(source, grouped))["token"].mode == 0o600
    assert (await plugin.payload(source, POD))["token"].mode == 0o644


@pytest.mark.parametrize(
    ("seconds", "period"), [((600,), 60), ((86400, 1200), 120), ((86400,), 300), ((), None)]
)
def test_a_volume_with_tokens_is_looked_at_ten_times_in_the_life_of_the_shortest(
    host: NodeVolumeHost, seconds: tuple[int, ...], period: float | None
):
    tokens = [{"serviceAccountToken": {"path": f"t{each}", "expirationSeconds": each}} for each in seconds]
    sources = [*tokens, {"configMap": {"name": "c"}}]
    plugin = installed(projected.plugin(), host)
    assert plugin.remount_period(spec(projected={"sources": sources})) == period
    assert installed(configmap.plugin(), host).remount_period(spec(configMap={"name": "c"})) is None


@pytest.mark.parametrize("make", PLUGINS)
async def test_each_plugin_knows_its_own_volumes_again_after_a_restart(
    make: Callable[[], ContentPlugin[Any]], host: NodeVolumeHost
):
    found = await installed(make(), host).construct_volume_spec("v", "/anywhere")
    assert [installed(other(), host).can_support(found) for other in PLUGINS] == [
        other is make for other in PLUGINS
    ]


@pytest.mark.parametrize("make", PLUGINS)
async def test_each_refuses_the_volumes_of_others_and_is_set_up_again_after_changes(
    make: Callable[[], ContentPlugin[Any]], host: NodeVolumeHost
):
    plugin = installed(make(), host)
    assert plugin.requires_remount()
    with pytest.raises(InvalidSpec, match=plugin.get_plugin_name()):
        plugin.new_mounter(spec(emptyDir={}), POD)


async def test_what_the_files_take_is_measured_not_the_whole_file_system(host: NodeVolumeHost, cluster: Any):
    cluster.config_maps["shop", "c"] = ConfigMap(data={"a": "x" * 100_000})
    mounter = installed(configmap.plugin(), host).new_mounter(spec(configMap={"name": "c"}), POD)
    await mounter.set_up()
    measured = await mounter.get_metrics()
    assert 100_000 <= measured.used < 300_000
    assert measured.capacity > measured.used
