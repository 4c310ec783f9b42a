"""`mooring up` as processes: one at a time, resumes, takes everything down, also after a kill -9 of
everything."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.cluster.conftest import TWO_NODES

from mooring.cluster.demo.scene import examples
from mooring.cluster.holding import hand_out
from mooring.cluster.processes import load
from mooring.cluster.stage import Stage
from mooring.kube.objects import Event, Node, Object, PersistentVolume, PersistentVolumeClaim, Pod

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(300)]


async def running(stage: Stage, name: str = "recorder-0") -> Pod | None:
    pod = await stage.client.find(Pod, name, "default")
    ready = pod is not None and any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    return pod if ready and pod is not None and not pod.deleting else None


async def start_recorder(stage: Stage) -> Pod:
    await stage.apply(examples() / "statefulset.yaml")
    pod: Pod = await stage.until("the pod runs", lambda: running(stage))
    return pod


async def test_a_second_up_on_the_same_data_is_refused_and_names_the_first(stage: Stage) -> None:
    status, output = await stage.command("up", *TWO_NODES)
    assert status == 1
    assert "already runs" in output
    owner = load(stage.layout.run / "up.json")
    assert owner is not None
    assert str(owner.pid) in output
    assert await stage.ready_nodes(2)


async def test_a_port_in_use_is_named(data_dir: Path) -> None:
    stage = Stage(data_dir)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        status, output = await stage.command("up", "--port", port)
    assert status == 1
    assert f"port {port} is in use" in output
    assert stage.leftovers() == []


async def test_the_kubeconfig_is_private(stage: Stage) -> None:
    assert stat.S_IMODE(stage.layout.kubeconfig.stat().st_mode) == 0o600
    for node in ("node-1", "node-2"):
        assert stat.S_IMODE(stage.layout.node_kubeconfig(node).stat().st_mode) == 0o600


def test_behind_sudo_the_kubeconfig_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kubeconfig").write_text("secret")
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setenv("SUDO_GID", "1235")
    target = tmp_path / "user" / "config"
    hand_out(tmp_path / "kubeconfig", target)
    assert (target.stat().st_uid, target.stat().st_gid) == (1234, 1235)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert target.read_text() == "secret"


async def test_down_cleans_up_after_a_kill_9_of_everything_and_up_resumes(data_dir: Path) -> None:
    stage = Stage(data_dir)
    await stage.up(*TWO_NODES)
    await stage.until("both nodes are Ready", lambda: stage.ready_nodes(2))
    pod = await start_recorder(stage)
    port = stage.layout.settings.read_text()
    await stage.until(
        "records are written", lambda: "wrote 3" in stage.log_of(pod.spec.node_name, pod.uid, "recorder")
    )
    for record in stage.layout.run.glob("*.json"):
        process = load(record)
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
    status, output = await stage.down()
    assert status == 0, output
    assert stage.leftovers() == []
    await stage.up(*TWO_NODES)
    assert stage.layout.settings.read_text() == port
    resumed = await stage.until("the pod runs again", lambda: running(stage))
    text = lambda: stage.log_of(resumed.spec.node_name, resumed.uid, "recorder")  # noqa: E731
    await stage.until(
        "records are verified", lambda: any(f"verified {n} records" in text() for n in range(3, 200))
    )
    assert "damaged" not in text()
    assert (await stage.down())[0] == 0
    assert stage.leftovers() == []


async def test_ctrl_c_in_the_middle_of_an_attach_leaves_nothing(data_dir: Path) -> None:
    stage = Stage(data_dir)
    await stage.up(*TWO_NODES)
    await stage.until("both nodes are Ready", lambda: stage.ready_nodes(2))
    await stage.apply(examples() / "statefulset.yaml")
    await stage.until("a disk exists", stage.array.list)
    owner = load(stage.layout.run / "up.json")
    assert owner is not None
    owner.send(signal.SIGINT)
    await stage.until("up has ended", lambda: not owner.alive)
    assert stage.leftovers() == []
    await stage.down()


async def test_a_clean_stop_moves_the_pod_and_the_node_comes_back(stage: Stage) -> None:
    pod = await start_recorder(stage)
    status, output = await stage.command("node", "stop", pod.spec.node_name)
    assert (status, output) == (0, f"{pod.spec.node_name} has shut down")
    moved = await stage.until("the pod runs elsewhere", lambda: elsewhere(stage, pod))
    log = lambda: stage.log_of(moved.spec.node_name, moved.uid, "recorder")  # noqa: E731
    await stage.until("records are verified", lambda: "verified" in log())
    assert "damaged" not in log()
    assert (await stage.command("node", "start", pod.spec.node_name))[0] == 0
    await stage.until("both nodes are Ready", lambda: stage.ready_nodes(2))


async def elsewhere(stage: Stage, pod: Pod) -> Pod | None:
    found = await running(stage)
    return found if found is not None and found.spec.node_name != pod.spec.node_name else None


async def test_words_about_nodes_that_make_no_sense_are_refused(stage: Stage) -> None:
    for words, expected in (
        (("node", "kill", "node-9"), "there are node-1, node-2"),
        (("node", "start", "node-1"), "node-1 is on"),
        (("node", "confirm-dead", "node-1"), "still answers"),
        (("node", "confirm-dead", "node-9"), "no node"),
    ):
        status, output = await stage.command(*words)
        assert status == 1
        assert expected in output
    assert await stage.ready_nodes(2)


# --- bad input: an event or an error for each, nothing hangs, nothing is formatted


def persistent_volume(name: str, disk: str) -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "64Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "flexVolume": {"driver": "mooring.dev/disk", "fsType": "ext4", "options": {"disk": disk}},
        },
    }


def claim(name: str, volume: str = "", storage_class: str = "") -> dict[str, object]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}}
    return {
        "metadata": {"name": name},
        "spec": {**spec, "storageClassName": storage_class, **({"volumeName": volume} if volume else {})},
    }


def pod_with(name: str, command: list[str], claim_name: str = "") -> dict[str, object]:
    mounts = [{"name": "v", "mountPath": "/v"}] if claim_name else []
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}] if claim_name else []
    container = {"name": "c", "image": "x", "command": command, "volumeMounts": mounts}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "volumes": volumes}}


def event_about(stage: Stage, kind: type[Object], name: str, *words: str) -> Callable[[], Awaitable[bool]]:
    async def found() -> bool:
        events = (await stage.client.list(Event, "default")).items
        about = [
            e
            for e in events
            if (e.involved_object.kind, e.involved_object.name) == (kind.RESOURCE.kind, name)
        ]
        return any(all(word in f"{e.reason} {e.message}" for word in words) for e in about)

    return found


async def test_each_mistake_gets_an_event_that_names_it(stage: Stage) -> None:
    client = stage.client
    stage.array.create("foreign", 64 << 20)
    medium = stage.layout.array / "disks" / "foreign" / "disk.img"
    with medium.open("r+b") as image:
        image.write(b"precious data of another kind" * 100)
    before = medium.read_bytes()
    for name, disk in (("pv-foreign", "foreign"), ("pv-missing", "no-such-disk")):
        await client.create(PersistentVolume, persistent_volume(name, disk))
        await client.create(PersistentVolumeClaim, claim(name, volume=name), "default")
        await client.create(Pod, pod_with(name, ["sleep", "600"], name), "default")
    await client.create(PersistentVolumeClaim, claim("no-class", storage_class="nowhere"), "default")
    await client.create(Pod, pod_with("no-claim", ["sleep", "600"], "nowhere"), "default")
    await client.create(Pod, pod_with("no-command", ["/no/such/command"]), "default")
    for kind, name, *words in (
        (Pod, "pv-foreign", "FailedMount", "neither formatted nor mounted"),
        (Pod, "pv-missing", "FailedAttachVolume", "no-such-disk"),
        (PersistentVolumeClaim, "no-class", "nowhere", "not found"),
        (Pod, "no-claim", "FailedScheduling", "nowhere"),
        (Pod, "no-command", "/no/such/command"),
    ):
        await stage.until(f"an event about {name}", event_about(stage, kind, name, *words))
    assert medium.read_bytes() == before
    for pod in (await client.list(Pod, "default")).items:
        await client.delete(Pod, pod.name, "default")
    await stage.until("all pods are gone", lambda: no_pods(stage))


async def no_pods(stage: Stage) -> bool:
    return not (await stage.client.list(Pod)).items


async def test_each_part_tells_what_it_awaits(stage: Stage) -> None:
    for part in ("apiserver", "controllers"):
        process = stage.part(part)
        assert process is not None
        process.send(signal.SIGUSR2)
        log = stage.layout.logs / f"{part}.log"
        await stage.until("the tasks are logged", lambda log=log: "awaits=" in log.read_text())
        assert process.alive
    await asyncio.sleep(0)
    assert {node.name for node in (await stage.client.list(Node)).items} == {"node-1", "node-2"}
