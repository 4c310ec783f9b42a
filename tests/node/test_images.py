"""What the name of an image means, and what an OCI layout says."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from oci_layout import Layout

from mooring.mounts.interface import Mount
from mooring.node.images import store as store_module
from mooring.node.images.layout import ImageProblem, read_image
from mooring.node.images.store import ImageStore, candidates

OTHER = {"os": "linux", "architecture": "riscv64"}


@pytest.mark.parametrize(
    ("image", "names"),
    [
        ("app", ("app",)),
        ("app:1.2", ("app:1.2", "app")),
        ("docker.io/library/busybox:1.36", ("docker.io/library/busybox:1.36", "busybox:1.36", "busybox")),
        ("localhost:5000/team/app@sha256:ab", ("localhost:5000/team/app@sha256:ab", "team/app")),
        ("team/app", ("team/app",)),
        ("/etc", ()),
        ("../x", ()),
        ("", ()),
    ],
)
def test_an_image_is_looked_for_with_and_without_registry_and_tag(image: str, names: tuple[str, ...]) -> None:
    assert candidates(image) == names


def test_a_folder_is_a_root_file_system(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    store = ImageStore(tmp_path, tmp_path / "node")
    found = store.find("example.com/app:2")
    assert found is not None
    assert found.directory == str(tmp_path / "app")
    assert store.find("other") is None
    assert ImageStore(None, tmp_path / "node").find("app") is None


def test_a_layout_gives_the_config_and_the_layers_in_their_order(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "app")
    layout.image(b"1", b"2", Entrypoint=["/run"], Cmd=["now"], Env=["A=b=c"], WorkingDir="/w", User="1:2")
    found = ImageStore(tmp_path, tmp_path / "node").find("app:1")
    assert found is not None
    assert (found.entrypoint, found.command) == (("/run",), ("now",))
    assert (found.env, found.working_dir, found.user) == ({"A": "b=c"}, "/w", "1:2")
    oci = read_image(tmp_path / "app")
    assert oci is not None
    assert [path.read_bytes() for path in oci.layers] == [b"1", b"2"]


def test_the_images_folder_itself_may_be_a_layout_of_named_images(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.image(ref="one:1", User="1")
    layout.image(ref="two", User="2")
    store = ImageStore(tmp_path, tmp_path / "node")
    users = [image.user if (image := store.find(name)) else None for name in ("one:1", "two:latest", "three")]
    assert users == ["1", "2", None]


def test_a_tag_chooses_among_the_entries_of_a_folders_layout(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "app")
    layout.image(ref="1", User="1")
    layout.image(ref="2", User="2")
    found = ImageStore(tmp_path, tmp_path / "node").find("app:2")
    assert found is not None
    assert found.user == "2"


def test_the_image_for_this_machine_is_found_in_an_index_of_an_index(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "app")
    layout.image(platform=OTHER)
    mine = layout.image(User="mine")
    layout.nest()
    oci = read_image(tmp_path / "app")
    assert oci is not None
    assert oci.digest == mine


def test_an_image_for_other_machines_only_is_a_problem_that_names_them(tmp_path: Path) -> None:
    Layout(tmp_path / "app").image(platform=OTHER)
    with pytest.raises(ImageProblem, match="only for linux/riscv64"):
        read_image(tmp_path / "app")


def test_a_damaged_or_missing_blob_is_named(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "app")
    digest = layout.image().removeprefix("sha256:")
    manifest = tmp_path / "app" / "blobs" / "sha256" / digest
    manifest.write_bytes(b"{}")
    with pytest.raises(ImageProblem, match=f"{digest} is damaged"):
        read_image(tmp_path / "app")
    manifest.unlink()
    with pytest.raises(ImageProblem, match=f"{digest} is missing"):
        read_image(tmp_path / "app")


def a_day_later(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    before = loop.time
    monkeypatch.setattr(loop, "time", lambda: before() + store_module.KEPT_S)


async def prepared(tmp_path: Path, images: ImageStore, name: str) -> str:
    """A new image of that name; where it is unpacked."""
    Layout(tmp_path / name).image(User=name)
    await images.prepare(name)
    found = images.find(name)
    assert found is not None
    return os.path.basename(found.directory)


async def test_an_unpacked_image_that_no_pod_has_had_for_long_goes_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = ImageStore(tmp_path, tmp_path / "node")
    await prepared(tmp_path, images, "one")
    two = await prepared(tmp_path, images, "two")
    (tmp_path / "node/images/.left.new").mkdir()
    three = await prepared(tmp_path, images, "three")
    a_day_later(monkeypatch)
    await images.prepare("two")
    assert three in os.listdir(tmp_path / "node/images")
    four = await prepared(tmp_path, images, "four")
    assert {*os.listdir(tmp_path / "node/images")} == {two, four}
    await images.prepare("one")
    assert len(os.listdir(tmp_path / "node/images")) == 3


async def test_an_unpacked_image_that_a_pod_has_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = ImageStore(tmp_path, tmp_path / "node")
    one = await prepared(tmp_path, images, "one")
    mount = Mount(1, 0, (8, 0), f"/node/images/{one}", "/images/0", frozenset(), "ext4", "/dev/sda")

    def in_a_pod(select: Callable[[tuple[Mount, ...]], list[Mount]]) -> list[tuple[int, Mount]]:
        return [(1, each) for each in select((mount,))]

    monkeypatch.setattr(store_module, "mounts_everywhere", in_a_pod)
    a_day_later(monkeypatch)
    two = await prepared(tmp_path, images, "two")
    assert {*os.listdir(tmp_path / "node/images")} == {one, two}
