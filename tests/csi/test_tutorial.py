"""The driver of docs/csi-driver-tutorial.md, as a reader would copy it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.csi.client import Client
from mooring.csi.driver.dispatch import Dispatcher, LocalChannel
from mooring.csi.driver.services import Driver
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi

PAGE = (Path(__file__).parents[2] / "docs" / "csi-driver-tutorial.md").read_text()


def block(language: str) -> str:
    """The first block of that language on the page."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def client(tmp_path: Path) -> Client:
    names: dict[str, Any] = {"__name__": "folder_driver"}
    exec(compile(block("python"), "folder_driver.py", "exec"), names)
    folders = names["Folders"](tmp_path)
    node = names["FolderNode"](folders, "n1")
    driver = Driver("folder.example.com", "1.0", controller=names["FolderController"](folders), node=node)
    return Client(LocalChannel(Dispatcher(driver, [tmp_path])))


async def test_its_volumes_are_folders(
    client: Client, tmp_path: Path, capability: csi.VolumeCapability
) -> None:
    request = csi.CreateVolumeRequest(name="data", volume_capabilities=[capability])
    volume = (await client.controller.create_volume(request, timeout_s=5)).volume
    assert (await client.controller.create_volume(request, timeout_s=5)).volume == volume
    assert (tmp_path / volume.volume_id).is_dir()
    request.capacity_range.required_bytes = volume.capacity_bytes + 1
    with pytest.raises(CsiError) as caught:
        await client.controller.create_volume(request, timeout_s=5)
    assert caught.value.code is Code.ALREADY_EXISTS
    await client.controller.delete_volume(csi.DeleteVolumeRequest(volume_id=volume.volume_id), timeout_s=5)
    assert list(tmp_path.iterdir()) == []


def test_its_manifests_are_of_the_driver() -> None:
    manifests = list(yaml.safe_load_all(block("yaml")))
    assert [manifest["kind"] for manifest in manifests] == [
        "CSIDriver",
        "StorageClass",
        "PersistentVolumeClaim",
        "Pod",
    ]
    assert manifests[0]["metadata"]["name"] == manifests[1]["provisioner"] == "folder.example.com"
