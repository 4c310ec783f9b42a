"""Images of OCI layouts, unpacked and run for real."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_process import AgentProcess, agent_world
from oci_layout import Layout, layer

from mooring.kube.objects import Pod
from mooring.mounts.commands import run
from mooring.node.images import store
from mooring.node.images.layout import ImageProblem
from mooring.node.images.store import ImageStore

pytestmark = pytest.mark.root


async def unpacked(tmp_path: Path, *layers: bytes) -> Path:
    Layout(tmp_path / "images" / "app").image(*layers)
    images = ImageStore(tmp_path / "images", tmp_path / "node")
    await images.prepare("app")
    image = images.find("app")
    assert image is not None
    return Path(image.directory)


async def test_upper_layers_add_replace_and_take_away(tmp_path: Path) -> None:
    lower = layer(
        {"keep": b"1", "old": b"1", "dir/one": b"1", "dir/two": b"1", "was-dir/x": b"1", "file": b"1"}
    )
    upper = layer(
        {
            "new": b"2",
            "dir/three": b"2",
            "dir/.wh..wh..opq": b"",
            ".wh.old": b"",
            "was-dir": b"2",
            "file/": b"",
        }
    )
    root = await unpacked(tmp_path, lower, upper)
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == [
        *("dir", "dir/three", "file", "keep", "new", "was-dir"),
    ]
    assert (root / "file").is_dir()


async def test_no_link_and_no_name_leads_out_of_the_image(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    evil = layer({"link": str(outside), "up": "../../../../../.." + str(outside)})
    through = layer(
        {f"{outside}/": b"", "link/one": b"x", "up/two": b"x", "../../three": b"x"}, compressed=False
    )
    root = await unpacked(tmp_path, evil, through)
    assert list(outside.iterdir()) == []
    assert (root / "three").exists()


async def test_what_cannot_be_unpacked_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ImageProblem, match="is not a tar archive"):
        await unpacked(tmp_path, b"(\xb5/\xfd compressed otherwise")
    assert list((tmp_path / "node" / "images").iterdir()) == []


async def test_an_image_is_on_the_disk_before_it_counts_as_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a power loss takes of it would be missing for ever: nothing looks into it again."""
    synced: list[tuple[str, ...]] = []

    async def watched(*command: str) -> None:
        (draft,) = (tmp_path / "node" / "images").iterdir()
        assert (draft / "file").read_bytes() == b"1"
        synced.append((*command[:-1], Path(command[-1]).name))
        await run(*command)

    monkeypatch.setattr(store, "run", watched)
    root = await unpacked(tmp_path, layer({"file": b"1"}))
    assert synced == [("sync", "-f", "--", f".{root.name}.new")]


def shell() -> dict[str, bytes | str]:
    """The files of an image with a shell."""
    listed = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout
    sources = ["/bin/sh", *(word for word in listed.split() if word.startswith("/"))]
    user: dict[str, bytes | str] = {"etc/passwd": b"app:x:1234:5678::/home/app:/bin/sh\n", "home/app/": b""}
    return user | {source.lstrip("/"): Path(source).read_bytes() for source in sources}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[AgentProcess]:
    """With an image whose config says what to run."""
    words = {"Entrypoint": ["/bin/sh", "-c"], "Cmd": ["echo $A $HOME in $PWD"]}
    layout = Layout(tmp_path / "images" / "app")
    layout.image(layer(shell()), **words, Env=["A=from the image"], User="app", WorkingDir="/home/app")
    async with agent_world(tmp_path) as world:
        await world.start("boot-1", "--images", str(tmp_path / "images"))
        yield world


async def test_a_pod_runs_what_its_image_says(world: AgentProcess) -> None:
    container = {"name": "main", "image": "example.com/app:1"}
    created = await world.create_pod(volumes=[], containers=[container], restartPolicy="Never")
    await world.until(lambda: phase(world, "Succeeded"))
    assert world.log(created) == ["from the image /home/app in /home/app"]


async def test_without_image_and_command_the_next_step_is_told(world: AgentProcess) -> None:
    await world.create_pod(volumes=[], containers=[{"name": "main", "image": "none"}])
    message = await world.until(lambda: world.event("Failed"))
    assert "there is no image 'none' under --images" in message
    pod = await world.api.get(Pod, "web-0", "default")
    waiting = pod.status.container_statuses[0].state.waiting
    assert waiting is not None
    assert waiting.reason == "ErrImageNeverPull"


async def test_the_images_stop_signal_ends_its_container(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images" / "app")
    script = (
        "trap 'echo asked to quit; exit 0' QUIT; trap 'echo wrong; exit 1' TERM; echo up; while :; do :; done"
    )
    layout.image(layer(shell()), Entrypoint=["/bin/sh", "-c"], Cmd=[script], StopSignal="sigquit")
    async with agent_world(tmp_path) as world:
        await world.start("boot-1", "--images", str(tmp_path / "images"))
        created = await world.create_pod(volumes=[], containers=[{"name": "main", "image": "app"}])
        await world.until(lambda: world.log(created) == ["up"])
        await world.api.patch(Pod, "web-0", {"spec": {"activeDeadlineSeconds": 1}}, "default")
        await world.until(lambda: phase(world, "Failed"))
        await world.until(lambda: len(world.log(created)) == 2)
        assert world.log(created) == ["up", "asked to quit"]


async def phase(world: AgentProcess, phase: str) -> bool:
    return (await world.api.get(Pod, "web-0", "default")).status.phase == phase
