"""Static pods: what a manifest means, and their mirrors in the API."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from waiting import until

from mooring.kube.errors import Unreachable
from mooring.kube.objects import ObjectMeta, Pod, PodStatus
from mooring.kube.objects.pods import Probe
from mooring.node import inotify
from mooring.node.static.manifests import HASH, MIRROR, BadManifest, StaticPod, read_folder, static_pod
from mooring.node.static.mirrors import MirrorAction, decide
from mooring.node.static.pods import StaticPods

Play = Any
PATH = Path("/manifests/web.yaml")


def manifest(name: str = "web", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "app", "command": ["run"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


def test_a_static_pod_has_the_nodes_name_at_its_end_and_a_uid_of_its_manifest() -> None:
    pods = [
        static_pod(manifest(restartPolicy=policy), "node-1", PATH).pod
        for policy in ("Always", "Never", "Never")
    ]
    assert pods[0].key == "default/web-node-1"
    assert pods[0].spec.node_name == "node-1"
    assert pods[0].metadata.annotations[HASH] == pods[0].uid
    assert pods[0].uid != pods[1].uid == pods[2].uid


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "not a Pod"),
        ({"apiVersion": "v1", "kind": "Service"}, "not a Pod"),
        (manifest(name=""), "needs a name"),
        (manifest(containers=[]), "needs a name and a container"),
        (
            manifest(volumes=[{"name": "v", "configMap": {"name": "c"}}]),
            "volume v: a static pod cannot use configMap",
        ),
        (manifest(containers=[{"name": "m", "envFrom": [{}]}]), "container m"),
        (manifest(terminationGracePeriodSeconds="soon"), "terminationGracePeriodSeconds"),
    ],
)
def test_what_cannot_be_a_static_pod_is_refused_with_its_file(document: Any, why: str) -> None:
    with pytest.raises(BadManifest, match=f"/manifests/web.yaml: .*{why}"):
        static_pod(document, "node-1", PATH)


@pytest.mark.parametrize("number", [0, -1])
def test_a_probe_whose_manifest_gives_no_times_has_those_of_the_api(number: int) -> None:
    """No API server has put them in. Without a period, it would be run without a pause."""
    times = ("periodSeconds", "timeoutSeconds", "successThreshold", "failureThreshold")
    probe = {"exec": {"command": ["check"]}, **dict.fromkeys(times, number)}
    document = manifest(containers=[{"name": "main", "livenessProbe": probe}])
    found = static_pod(document, "node-1", PATH).pod.spec.containers[0].liveness_probe
    assert found == Probe(exec={"command": ["check"]})


def test_a_folder_is_read_but_for_hidden_files_and_one_bad_file_spoils_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(json.dumps(manifest("a")))
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "c.yml").write_text(json.dumps(manifest("a")))
    (tmp_path / ".a.yaml.swp.yaml").write_text("{")
    (tmp_path / "README.md").write_text("{")
    pods, problems = read_folder(tmp_path, "n")
    assert list(pods) == ["default/a-n"]
    assert ["b.json" in str(problems[0]), "another manifest" in str(problems[1])] == [True, True]
    assert read_folder(tmp_path / "none", "n") == ({}, [])


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({**manifest(), "metadata": None}),
        json.dumps({**manifest(), "spec": "none"}),
        json.dumps(manifest(containers=["main"])),
        json.dumps(manifest(volumes=["v"])),
        json.dumps(manifest(containers=[{"name": "m", "env": [{"valueFrom": "x"}]}])),
        "{apiVersion: v1, kind: Pod, metadata: {name: web, annotations: {since: 2026-13-01}}}",
        "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {2026-01-01: x}}}",
        "[" * 5000,
    ],
)
def test_a_manifest_of_another_shape_spoils_no_other(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "b.yaml").write_text(json.dumps(manifest("b")))
    pods, problems = read_folder(tmp_path, "n")
    assert list(pods) == ["default/b-n"]
    assert ["a.yaml" in str(each) for each in problems] == [True]


async def test_a_folder_that_is_replaced_as_a_whole_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: Any
) -> None:
    monkeypatch.setattr(inotify, "LOOK_S", 0.05)
    folder, new = tmp_path / "manifests", tmp_path / "new"
    static = StaticPods(folder, "n", now)
    running = asyncio.create_task(static.run())
    await until(folder.is_dir)
    new.mkdir()
    (new / "a.yaml").write_text(json.dumps(manifest("a")))
    folder.rename(tmp_path / "former")
    new.rename(folder)
    await until(lambda: static.by_key("default/a-n") is not None)
    running.cancel()


def mirror(of: StaticPod | None, *, deleting: bool = False) -> Pod:
    hashed = of.hash if of else "another"
    return Pod(
        metadata=ObjectMeta(annotations={MIRROR: hashed}, deletion_timestamp="now" if deleting else None)
    )


def test_a_mirror_is_made_kept_and_replaced() -> None:
    static = static_pod(manifest(), "node-1", PATH)
    assert decide(static, None) is MirrorAction.CREATE
    assert decide(static, mirror(static)) is MirrorAction.NOTHING
    assert decide(static, mirror(static, deleting=True)) is MirrorAction.DELETE
    assert decide(static, mirror(None)) is MirrorAction.DELETE
    assert decide(None, mirror(None)) is MirrorAction.DELETE
    assert decide(None, None) is MirrorAction.NOTHING


def test_a_mirror_of_an_earlier_life_of_the_manifest_is_replaced() -> None:
    """The same manifest has the same hash: that the earlier one has ended tells them apart."""
    static = static_pod(manifest(), "node-1", PATH)
    failed = msgspec.structs.replace(mirror(static), status=PodStatus(phase="Failed"))
    assert decide(static, failed) is MirrorAction.DELETE
    ended = StaticPod(msgspec.structs.replace(static.pod, status=PodStatus(phase="Failed")), static.body)
    assert decide(ended, failed) is MirrorAction.NOTHING


def write(stage: Any, text: dict[str, Any] | None, name: str = "web") -> None:
    path = stage.root / "manifests" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    if text is None:
        path.unlink()
    else:
        path.write_text(json.dumps(text))


async def running(stage: Any, name: str = "web-node-1") -> bool:
    return await stage.phase(name) == "Running"


async def gone(stage: Any) -> bool:
    return await stage.pod("web-node-1") is None


def test_a_manifest_becomes_a_pod_whose_mirror_says_how_it_is(play: Play) -> None:
    async def story(stage: Any) -> None:
        write(stage, manifest())
        await stage.start()
        await stage.until(lambda: running(stage))
        shown = await stage.pod("web-node-1")
        assert MIRROR in shown.metadata.annotations
        assert "start main 0" in stage.machine.journal
        assert list(stage.machine.sandboxes) != [shown.uid]
        write(stage, manifest("other"), "other")
        await stage.until(lambda: running(stage, "other-node-1"))

    play(story)


def test_a_mirror_that_is_deleted_comes_back_and_the_pod_runs_on(play: Play) -> None:
    async def story(stage: Any) -> None:
        write(stage, manifest())
        await stage.start()
        await stage.until(lambda: running(stage))
        first = await stage.pod("web-node-1")
        await stage.api.delete(Pod, "web-node-1", "default")
        await stage.until(lambda: another(stage, first.uid))
        await stage.until(lambda: running(stage))
        assert [entry for entry in stage.machine.journal if entry.startswith(("signal", "kill"))] == []

    play(story)


async def another(stage: Any, uid: str) -> bool:
    pod = await stage.pod("web-node-1")
    return pod is not None and pod.uid != uid


async def run_without_an_api_server(stage: Any) -> None:
    """A pod that is to end by itself, with a volume, runs; nothing of it can be written to the API."""

    def lost(request: Any) -> None:
        if request.method != "GET" and "/pods" in request.path:
            raise Unreachable("no answer")

    stage.gate = lost
    write(stage, manifest(restartPolicy="Never", volumes=[{"name": "cache", "emptyDir": {}}]))
    await stage.start()
    await stage.until(lambda: "start main 0" in stage.machine.journal)


def test_a_pod_that_has_ended_lets_its_volumes_go_without_an_api_server(play: Play) -> None:
    async def story(stage: Any) -> None:
        await run_without_an_api_server(stage)
        stage.machine.exit(next(iter(stage.machine.sandboxes)), "main", 0)
        await stage.until(lambda: "tear-down cache" in stage.machine.journal)

    play(story)


def test_a_pod_that_had_ended_before_its_agent_did_lets_its_volumes_go_without_an_api_server(
    play: Play,
) -> None:
    async def story(stage: Any) -> None:
        await run_without_an_api_server(stage)
        await stage.kill()
        uid = next(iter(stage.machine.sandboxes))
        stage.machine.exit(uid, "main", 0)
        stage.machine.update(uid, running=False)
        await stage.start()
        await stage.until(lambda: "tear-down cache" in stage.machine.journal)

    play(story)


def test_without_its_manifest_a_pod_ends_with_its_grace_period_and_its_mirror_goes(play: Play) -> None:
    async def story(stage: Any) -> None:
        write(stage, manifest())
        await stage.start()
        await stage.until(lambda: running(stage))
        write(stage, None)
        await stage.until(lambda: gone(stage))
        ends = [entry for entry in stage.machine.journal if entry.startswith(("signal", "kill"))]
        assert ends == ["signal main 15", "kill"]
        await stage.until(lambda: not stage.machine.sandboxes)

    play(story)


def test_a_changed_manifest_is_another_pod_that_starts_when_the_first_has_gone(play: Play) -> None:
    async def story(stage: Any) -> None:
        write(stage, manifest())
        await stage.start()
        await stage.until(lambda: running(stage))
        first = await stage.pod("web-node-1")
        write(stage, manifest(terminationGracePeriodSeconds=7))
        await stage.until(lambda: another(stage, first.uid))
        await stage.until(lambda: running(stage))
        starts = [entry.partition(" ")[0] for entry in stage.machine.journal]
        assert starts == ["start-sandbox", "start", "signal", "kill", "start-sandbox", "start"]

    play(story)


def test_a_restarted_agent_finds_its_static_pods_and_leaves_them_alone(play: Play) -> None:
    async def story(stage: Any) -> None:
        write(stage, manifest())
        await stage.start()
        await stage.until(lambda: running(stage))
        await stage.kill()
        stage.machine.journal.clear()
        await stage.start()
        await stage.until(lambda: running(stage))
        write(stage, manifest("other"), "other")
        await stage.until(lambda: running(stage, "other-node-1"))
        assert stage.machine.journal == ["start-sandbox other-node-1", "start main 0"]

    play(story)
