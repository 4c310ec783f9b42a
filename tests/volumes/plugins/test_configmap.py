"""A ConfigMap as files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from mooring.kube.objects import ConfigMap, ConfigMapVolumeSource, KeyToPath, ObjectMeta, Pod, Secret, Volume
from mooring.mounts.host import HostMounts
from mooring.volumes.errors import ContentMissing, InvalidSpec
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.payload import PayloadFile
from mooring.volumes.plugins.configmap import ConfigMapPlugin, make_payload, plugin
from mooring.volumes.spec import VolumeSpec

CONFIG = ConfigMap(data={"a": "1", "b": "2"}, binary_data={"c": "AP8="})
POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))


def test_every_key_is_a_file_text_or_binary():
    assert make_payload(ConfigMapVolumeSource(name="config"), CONFIG, "shop") == {
        "a": PayloadFile(b"1", 0o644),
        "b": PayloadFile(b"2", 0o644),
        "c": PayloadFile(b"\x00\xff", 0o644),
    }


def test_items_choose_keys_paths_and_modes():
    items = (KeyToPath(key="a", path="conf/a.txt", mode=0o400), KeyToPath(key="b", path="b"))
    assert make_payload(ConfigMapVolumeSource(name="config", items=items, default_mode=0o600), CONFIG, "shop") == {
        "conf/a.txt": PayloadFile(b"1", 0o400),
        "b": PayloadFile(b"2", 0o600),
    }


def test_mode_zero_is_a_mode():
    payload = make_payload(ConfigMapVolumeSource(name="config", default_mode=0), CONFIG, "shop")
    assert payload["a"].mode == 0


def test_a_missing_config_map_is_named_unless_it_is_optional():
    with pytest.raises(ContentMissing, match="ConfigMap shop/config does not exist"):
        make_payload(ConfigMapVolumeSource(name="config"), None, "shop")
    assert make_payload(ConfigMapVolumeSource(name="config", optional=True), None, "shop") == {}


def test_a_missing_key_is_named_unless_it_is_optional():
    items = (KeyToPath(key="a", path="a"), KeyToPath(key="z", path="z"))
    with pytest.raises(ContentMissing, match="has no key z"):
        make_payload(ConfigMapVolumeSource(name="config", items=items), CONFIG, "shop")
    optional = ConfigMapVolumeSource(name="config", items=items, optional=True)
    assert list(make_payload(optional, CONFIG, "shop")) == ["a"]


def test_binary_data_that_is_not_base64_is_refused():
    with pytest.raises(InvalidSpec, match="not base64"):
        make_payload(ConfigMapVolumeSource(name="config"), ConfigMap(binary_data={"c": "%"}), "shop")


class Cluster:
    """Has one ConfigMap, or none."""

    config_map: ConfigMap | None = CONFIG

    async def get_config_map(self, namespace: str, name: str) -> ConfigMap | None:
        assert (namespace, name) == ("shop", "config")
        return self.config_map

    async def get_secret(self, namespace: str, name: str) -> Secret | None:
        raise NotImplementedError


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def config_maps(tmp_path: Path, cluster: Cluster) -> ConfigMapPlugin:
    made = plugin()
    now = datetime(2030, 1, 1, tzinfo=UTC)
    made.init(NodeVolumeHost("a", tmp_path, HostMounts(), lambda: now, cluster.get_config_map, cluster.get_secret))
    return made


SPEC = VolumeSpec.of_volume(Volume(name="conf", config_map=ConfigMapVolumeSource(name="config")))


async def test_a_mounted_volume_follows_its_config_map(config_maps: ConfigMapPlugin, cluster: Cluster, tmp_path: Path):
    mounter = config_maps.new_mounter(SPEC, POD)
    await mounter.set_up()
    assert mounter.get_path() == str(tmp_path / "pods/pod-uid/volumes/kubernetes.io~configmap/conf")
    assert Path(mounter.get_path(), "a").read_text() == "1"
    cluster.config_map = ConfigMap(data={"a": "changed"})
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
