"""A ConfigMap as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.kube.objects import ConfigMap, ConfigMapVolumeSource, ObjectMeta, Pod, Volume
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.plugins.configmap import ConfigMapPlugin, plugin
from mooring.volumes.spec import VolumeSpec

CONFIG = ConfigMap(data={"a": "1", "b": "2"}, binary_data={"c": "AP8="})
POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))


@pytest.fixture
def config_maps(host: NodeVolumeHost, cluster: Any) -> ConfigMapPlugin:
    made = plugin()
    made.init(host)
    cluster.config_maps["shop", "config"] = CONFIG
    return made


SPEC = VolumeSpec.of_volume(Volume(name="conf", config_map=ConfigMapVolumeSource(name="config")))


async def test_a_mounted_volume_follows_its_config_map(
    config_maps: ConfigMapPlugin, cluster: Any, tmp_path: Path
):
    mounter = config_maps.new_mounter(SPEC, POD)
    await mounter.set_up()
    assert mounter.get_path() == str(tmp_path / "pods/pod-uid/volumes/kubernetes.io~configmap/conf")
    assert Path(mounter.get_path(), "a").read_text() == "1"
    cluster.config_maps["shop", "config"] = ConfigMap(data={"a": "changed"})
    await mounter.set_up()
    assert Path(mounter.get_path(), "a").read_text() == "changed"
    assert not Path(mounter.get_path(), "b").exists()
    assert config_maps.requires_remount()
    assert mounter.get_attributes().read_only


async def test_a_volume_is_removed_by_names_alone(config_maps: ConfigMapPlugin):
    mounter = config_maps.new_mounter(SPEC, POD)
    await mounter.set_up()
    for _ in range(2):
        await config_maps.new_unmounter("conf", "pod-uid").tear_down()
    assert not Path(mounter.get_path()).exists()


async def test_what_is_on_disk_after_a_restart_is_a_spec_of_this_plugin(config_maps: ConfigMapPlugin):
    assert config_maps.can_support(await config_maps.construct_volume_spec("conf", "/anywhere"))
