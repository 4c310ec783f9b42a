"""The agent as a whole: registration, pods without volumes, restarts, shutdown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from mooring.kube.client import Client
from mooring.kube.errors import Conflict, Forbidden, Unreachable
from mooring.kube.objects import Lease, Node, Pod
from mooring.kube.readiness import ready_since
from mooring.kube.transport import Request
from mooring.volumes.out_of_service import SEEN

NODE = "node-1"
Play = Callable[[Any], None]


def test_a_node_is_registered_ready_with_boot_id_and_lease(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        node = await stage.until(stage.node)
        assert node.ready == "True"
        assert node.status.node_info.boot_id == "boot-1"
        assert node.metadata.annotations["volumes.kubernetes.io/controller-managed-attach-detach"] == "true"
        assert node.metadata.annotations["mooring.dev/reconstructed"] == "boot-1"
        assert node.metadata.labels["kubernetes.io/hostname"] == NODE
        lease = await stage.until(lambda: stage.api.find(Lease, NODE, "kube-node-lease"))
        renewed = lease.spec.renew_time
        await stage.until(lambda: lease_after(stage, renewed))

    async def lease_after(stage: Any, renewed: str) -> bool:
        return (await stage.api.get(Lease, NODE, "kube-node-lease")).spec.renew_time > renewed

    play(story)


def test_a_pod_is_run_and_its_status_says_so(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod()
        await stage.until(lambda: running(stage))
        pod = await stage.pod()
        status = pod.status.container_statuses[0]
        assert status.ready
        assert status.state.running is not None
        assert pod.status.host_ip == "127.0.0.1"
        ready = {condition.type: condition.status for condition in pod.status.conditions}
        assert ready["Ready"] == ready["ContainersReady"] == ready["Initialized"] == "True"
        assert any(reason == "HostRootFileSystem" for reason, _ in await stage.events())

    play(story)


async def running(stage: Any, name: str = "web-0") -> bool:
    return await stage.phase(name) == "Running"


def test_when_a_clock_that_was_ahead_is_set_back_pods_are_ready_since_then(play: Play) -> None:
    """Found by the simulation: who waited until it was ready for three seconds waited for an hour."""

    async def story(stage: Any) -> None:
        right, stage.now = stage.now, lambda: right() + ahead
        ahead = timedelta(hours=1)
        await stage.start()
        await stage.create_pod()
        assert await stage.until(lambda: ready_at(stage)) > right()
        ahead = timedelta()
        await stage.until(lambda: was_ready(stage), seconds=310)

    async def was_ready(stage: Any) -> bool:
        return await ready_at(stage) <= stage.now()

    async def ready_at(stage: Any) -> Any:
        pod = await stage.pod()
        return pod and ready_since(pod)

    play(story)


def test_a_container_that_ends_is_started_again_with_growing_delays(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        pod = await stage.create_pod()
        await stage.until(lambda: running(stage))
        for attempt in (1, 2, 3):
            stage.machine.exit(pod.uid, "main", 1)
            await stage.until(lambda attempt=attempt: f"start main {attempt}" in stage.machine.journal)
        stage.machine.exit(pod.uid, "main", 1)
        await stage.until(lambda: crash_loop(stage, "back-off 40s"))
        assert (await stage.pod()).status.container_statuses[0].restart_count == 3

    async def crash_loop(stage: Any, message: str) -> bool:
        waiting = await reason(stage, "CrashLoopBackOff")
        return bool(waiting) and waiting.message.startswith(message)

    play(story)


def test_a_pod_that_is_not_restarted_succeeds_and_keeps_nothing(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        pod = await stage.create_pod(restartPolicy="Never")
        await stage.until(lambda: running(stage))
        stage.machine.exit(pod.uid, "main", 0)
        await stage.until(lambda: succeeded(stage))
        await stage.until(lambda: not stage.machine.sandboxes[pod.uid].running)
        done = await stage.pod()
        assert done.status.container_statuses[0].state.terminated.reason == "Completed"

    async def succeeded(stage: Any) -> bool:
        return await stage.phase() == "Succeeded"

    play(story)


def test_init_containers_run_first_and_one_after_the_other(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        init = [{"name": name, "image": "app", "command": ["init"]} for name in ("one", "two")]
        pod = await stage.create_pod(initContainers=init)
        await stage.until(lambda: "start one 0" in stage.machine.journal)
        assert await stage.phase() == "Pending"
        stage.machine.exit(pod.uid, "one", 0)
        await stage.until(lambda: "start two 0" in stage.machine.journal)
        assert "start main 0" not in stage.machine.journal
        stage.machine.exit(pod.uid, "two", 0)
        await stage.until(lambda: running(stage))

    play(story)


def test_a_deleted_pod_is_asked_to_end_and_leaves_the_api_when_it_has(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod()
        await stage.until(lambda: running(stage))
        await stage.api.delete(Pod, "web-0", "default")
        await stage.until(lambda: gone(stage))
        assert stage.machine.journal[-2:] == ["signal main 15", "kill"]
        writes = [
            request
            for request in stage.requests
            if "/pods/web-0" in request and not request.startswith("GET")
        ]
        assert writes[-2:] == [
            "PATCH /api/v1/namespaces/default/pods/web-0/status",
            "DELETE /api/v1/namespaces/default/pods/web-0",
        ]
        await stage.until(lambda: not list((stage.root / "pods").glob("*")))

    play(story)


async def gone(stage: Any) -> bool:
    return await stage.pod() is None


def test_a_pod_that_does_not_end_is_killed_when_its_grace_period_is_over_and_not_before(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.exit_on_term = False
        await stage.start()
        await stage.create_pod()
        await stage.until(lambda: running(stage))
        began = stage.now()
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=20)
        await stage.until(lambda: gone(stage))
        assert 20 <= (stage.now() - began).total_seconds() < 21

    play(story)


def test_a_second_deletion_shortens_the_grace_period(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.exit_on_term = False
        await stage.start()
        await stage.create_pod()
        await stage.until(lambda: running(stage))
        began = stage.now()
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=1000)
        await stage.until(lambda: "signal main 15" in stage.machine.journal)
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=5)
        await stage.until(lambda: gone(stage))
        assert (stage.now() - began).total_seconds() < 10

    play(story)


def test_a_pod_that_was_removed_by_force_still_has_two_seconds(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.exit_on_term = False
        await stage.start()
        await stage.create_pod()
        await stage.until(lambda: running(stage))
        began = stage.now()
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
        await stage.until(lambda: "kill" in stage.machine.journal)
        assert (stage.now() - began).total_seconds() >= 2

    play(story)


@pytest.mark.parametrize("agent_was_down", [False, True])
def test_a_pod_waits_for_one_that_was_removed_by_force_and_still_runs_with_its_disk(
    play: Play, agent_was_down: bool
) -> None:
    async def story(stage: Any) -> None:
        stage.machine.exit_on_term = False
        await stage.start()
        first = await stage.create_disk_pod()
        await stage.attach()
        await stage.until(lambda: running(stage))
        if agent_was_down:
            await stage.kill()
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
        second = await stage.create_disk_pod()
        if agent_was_down:
            await stage.start()
        await stage.until(lambda: second.uid in stage.machine.sandboxes)
        assert first.uid not in stage.machine.sandboxes
        await stage.until(lambda: running(stage))

    play(story)


def test_a_pod_does_not_wait_for_one_that_was_removed_by_force_and_has_another_disk(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.exit_on_term = False
        await stage.start()
        first = await stage.create_disk_pod()
        await stage.attach()
        await stage.until(lambda: running(stage))
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
        await stage.attach("d2")
        await stage.report(["d1", "d2"])
        second = await stage.create_disk_pod("web-1", disk="d2")
        await stage.until(lambda: second.uid in stage.machine.sandboxes)
        assert first.uid in stage.machine.sandboxes

    play(story)


def test_pods_of_one_node_that_are_both_named_share_a_disk(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        first = await stage.create_disk_pod()
        await stage.attach()
        await stage.until(lambda: running(stage))
        second = await stage.create_disk_pod("web-1")
        await stage.until(lambda: second.uid in stage.machine.sandboxes)
        assert first.uid in stage.machine.sandboxes

    play(story)


def test_an_agent_that_comes_back_disturbs_nothing(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod()
        await stage.until(lambda: running(stage))
        before = list(stage.machine.journal)
        uid, pod = (await stage.node()).uid, await stage.pod()
        await stage.kill()
        await stage.start()
        await stage.until(lambda: running(stage))
        await asyncio.sleep(60)
        assert stage.machine.journal == before
        assert await stage.pod() == pod, "nothing is written of a pod of which nothing is new"
        assert (await stage.node()).uid == uid

    play(story)


def test_pods_that_were_removed_while_no_agent_was_there_are_ended(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        pod = await stage.create_pod()
        await stage.until(lambda: running(stage))
        await stage.kill()
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
        await stage.start()
        await stage.until(lambda: pod.uid not in stage.machine.sandboxes)
        assert "kill" in stage.machine.journal

    play(story)


def test_after_a_reboot_a_pod_starts_again_and_counts_it(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        pod = await stage.create_pod()
        await stage.until(lambda: running(stage))
        await stage.kill()
        stage.machine.exit(pod.uid, "main", 137)
        stage.machine.update(pod.uid, running=False)
        await stage.start(boot_id="boot-2")
        await stage.until(lambda: restarted(stage))
        assert (await stage.node()).status.node_info.boot_id == "boot-2"

    async def restarted(stage: Any) -> bool:
        return (await stage.pod()).status.container_statuses[0].restart_count == 1

    play(story)


def test_a_node_that_is_shut_down_ends_its_pods_and_says_that_it_is_not_ready(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod()
        await stage.until(lambda: running(stage))
        stage.shutdown.set()
        await stage.ended()
        node, pod = await stage.node(), await stage.pod()
        assert node.ready == "False"
        assert node.status.volumes_in_use == ()
        assert (pod.status.phase, pod.status.reason) == ("Failed", "Terminated")
        assert not any(sandbox.running for sandbox in stage.machine.sandboxes.values())

    play(story)


def test_a_node_that_is_shut_down_says_so_before_its_pods_end(play: Play) -> None:
    """Or what ends here is scheduled here again."""

    async def story(stage: Any) -> None:
        stage.machine.exit_on_term = False
        await stage.start()
        await stage.create_pod()
        await stage.until(lambda: running(stage))
        stage.shutdown.set()
        await stage.until(lambda: not_ready(stage))
        assert all(sandbox.running for sandbox in stage.machine.sandboxes.values())
        await stage.ended()

    async def not_ready(stage: Any) -> bool:
        return (await stage.node()).ready == "False"

    play(story)


def test_a_node_that_is_shut_down_waits_for_no_api_server_that_has_gone_before(play: Play) -> None:
    """As where a whole site is switched off, the API server's machine first."""

    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod()
        await stage.until(lambda: running(stage))
        stage.gate = unreachable
        stage.shutdown.set()
        async with asyncio.timeout(1000):
            await stage.ended()
        assert not any(sandbox.running for sandbox in stage.machine.sandboxes.values())

    def unreachable(request: Request) -> None:
        raise Unreachable("no route to host")

    play(story)


def test_a_node_object_that_vanishes_is_registered_again(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        former = (await stage.node()).uid
        await stage.api.delete(Node, NODE)
        node = await stage.until(lambda: stage.api.find(Node, NODE))
        assert node.uid != former
        assert node.ready == "True"

    play(story)


def test_what_was_decided_of_a_pod_while_its_node_was_absent_comes_too_late_when_the_node_is_back(
    play: Play,
) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod()
        await stage.until(lambda: running(stage))
        read = await stage.api.get(Pod, "web-0", "default")
        former = (await stage.node()).uid
        await stage.api.delete(Node, NODE)
        assert await stage.api.find(Node, NODE) is None

        async def back() -> bool:
            node = await stage.api.find(Node, NODE)
            return node is not None and node.uid != former

        await stage.until(back)
        for ended in ("Failed", "Succeeded"):
            with pytest.raises(Conflict):
                await stage.api.revise(read, {"status": {"phase": ended}}, subresource="status")
        await asyncio.sleep(60)
        assert (await stage.api.get(Pod, "web-0", "default")).status.phase == "Running"

    play(story)


def test_a_pod_whose_status_may_not_be_written_does_not_keep_its_node_from_being_registered(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        for name in ("web-0", "web-1"):
            await stage.create_pod(name)
        for name in ("web-0", "web-1"):
            await stage.until(lambda name=name: running(stage, name))
        revise, vouched = Client.revise, set[str]()

        async def guarded(client: Client, obj: Any, patch: Any, **how: Any) -> Any:
            if isinstance(obj, Pod) and obj.name == "web-0":
                raise Forbidden("an admission webhook denied the request", status=403)
            vouched.add(obj.name)
            return await revise(client, obj, patch, **how)

        monkeypatch.setattr(Client, "revise", guarded)
        await stage.api.delete(Node, NODE)
        await stage.until(lambda: stage.api.find(Node, NODE))
        assert "web-1" in vouched

    play(story)


def test_an_out_of_service_taint_is_spent_by_the_next_report(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        await stage.api.patch(Node, NODE, {"spec": {"taints": [taint]}})
        await stage.until(lambda: seen(stage))

    async def seen(stage: Any) -> bool:
        return "mooring.dev/out-of-service-seen" in (await stage.node()).metadata.annotations

    play(story)


def test_a_node_that_was_called_unknown_says_at_once_that_it_is_ready(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        unknown = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        await stage.api.patch(Node, NODE, unknown, subresource="status", strategy="strategic")
        began = stage.now()
        await stage.until(lambda: ready(stage))
        assert (stage.now() - began).total_seconds() < 5

    async def ready(stage: Any) -> bool:
        return (await stage.node()).ready == "True"

    play(story)


def test_an_agent_whose_word_about_a_pod_is_taken_back_insists_but_does_not_race(play: Play) -> None:
    """Who takes Ready away from the pods of a silent node may hear late that the node is back."""
    denied = {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]}}

    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod()
        await stage.until(lambda: ready(stage))
        times = 0
        for _ in range(1000):  # ten seconds, if each answer takes ten milliseconds
            await asyncio.sleep(0.01)
            if await ready(stage):
                times += 1
                await stage.api.patch(
                    Pod, "web-0", denied, "default", subresource="status", strategy="strategic"
                )
        assert 3 < times < 20
        await stage.until(lambda: ready(stage))

    async def ready(stage: Any) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in (await stage.pod()).status.conditions)

    play(story)


def test_a_container_without_a_command_says_what_to_do(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod(container={"command": []})
        waiting = await stage.until(lambda: reason(stage, "ErrImageNeverPull"))
        assert "set `command`" in waiting.message

    play(story)


async def reason(stage: Any, code: str) -> Any:
    statuses = (await stage.pod()).status.container_statuses
    waiting = statuses[0].state.waiting if statuses else None
    return waiting if waiting and waiting.reason == code else None


def test_a_missing_config_map_of_a_variable_is_named_and_waited_for(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        reference = {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}}
        await stage.create_pod(container={"env": [reference]})
        waiting = await stage.until(lambda: reason(stage, "CreateContainerConfigError"))
        assert "ConfigMap 'settings' does not exist" in waiting.message
        from mooring.kube.objects import ConfigMap

        await stage.api.create(
            ConfigMap, {"metadata": {"name": "settings"}, "data": {"mode": "fast"}}, "default"
        )
        await stage.until(lambda: running(stage))
        assert stage.runtime.containers["main"].env["MODE"] == "fast"

    play(story)


def test_a_sub_path_that_leads_out_of_its_volume_is_waited_for_and_said_without_what_is_there(
    play: Play,
) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        stage.machine.failures["set-up"] = OSError("not yet")
        mount = {"name": "data", "mountPath": "/data", "subPath": "escape/secret"}
        pod = await stage.create_pod(
            volumes=[{"name": "data", "emptyDir": {}}], container={"volumeMounts": [mount]}
        )
        volume = stage.root / "pods" / pod.uid / "volumes" / "example.com~local" / "data"
        volume.mkdir(parents=True)
        (volume / "escape").symlink_to("/etc")
        del stage.machine.failures["set-up"]
        message = 'failed to prepare subPath for volumeMount "data" of container "main"'
        waiting = await stage.until(lambda: reason(stage, "CreateContainerConfigError"))
        assert waiting.message == message
        await stage.until(lambda: is_reported(stage, ("Failed", f"Error: {message}")))
        assert not any(step.startswith("start main") for step in stage.machine.journal)
        (volume / "escape").unlink()
        await stage.until(lambda: running(stage))
        assert (volume / "escape" / "secret").is_dir()
        assert (await stage.pod()).status.container_statuses[0].restart_count == 0
        stage.machine.failures["tear-down"] = OSError("the volume is real")

    async def is_reported(stage: Any, event: tuple[str, str]) -> bool:
        return event in await stage.events()

    play(story)


def test_an_ephemeral_container_runs_once_beside_the_others(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        pod = await stage.create_pod()
        await stage.until(lambda: running(stage))
        late = {"name": "debugger", "image": "busybox", "command": ["look"], "targetContainerName": "main"}
        await stage.api.patch(
            Pod,
            "web-0",
            {"spec": {"ephemeralContainers": [late]}},
            "default",
            subresource="ephemeralcontainers",
            strategy="strategic",
        )
        await stage.until(lambda: late_state(stage, "running"))
        assert stage.runtime.containers["debugger"].argv == ("look",)
        stage.machine.exit(pod.uid, "debugger", 7)
        ended = await stage.until(lambda: late_state(stage, "terminated"))
        assert ended.exit_code == 7
        await asyncio.sleep(1000)
        assert [step for step in stage.machine.journal if step.startswith("start debugger")] == [
            "start debugger 0"
        ]
        assert await running(stage)
        assert "start main 1" not in stage.machine.journal

    async def late_state(stage: Any, kind: str) -> Any:
        statuses = (await stage.pod()).status.ephemeral_container_statuses
        return getattr(statuses[0].state, kind) if statuses else None

    play(story)


@pytest.mark.parametrize("of", ["/nodes/", "/leases/"])
def test_an_agent_whose_writes_are_overtaken_again_and_again_does_not_hurry(play: Any, of: str):
    """As when the API server does not reach its disk: what it has accepted is in the way of the next write,
    and cannot be read yet."""

    async def story(stage: Any) -> None:
        await stage.start()
        await asyncio.sleep(60)

        async def refuse() -> None:
            raise Conflict("the object has been modified", status=409)

        def gate(request: Request) -> Any:
            return refuse() if request.method == "PATCH" and of in request.path else None

        stage.gate = gate
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "x", "effect": "NoExecute"}
        await stage.api.patch(Node, NODE, {"spec": {"taints": [taint]}})
        asked = len(stage.requests)
        await asyncio.sleep(20)
        assert 2 < len(stage.requests) - asked < 200
        stage.gate = lambda request: None
        await asyncio.sleep(5)
        assert SEEN in (await stage.node()).metadata.annotations

    play(story)


def test_a_write_that_is_overtaken_again_and_again_is_computed_from_what_was_read_after_the_pause(play: Any):
    """Found by the simulation (2000996 of the swarm, S19): meanwhile another part of the agent wrote the
    Node, which its next report did not know."""

    async def story(stage: Any) -> None:
        await stage.start()
        await asyncio.sleep(60)
        asked: list[tuple[str, float]] = []

        async def refuse() -> None:
            raise Conflict("the object has been modified", status=409)

        def gate(request: Request) -> Any:
            if "/nodes/" in request.path and not request.stream:
                asked.append((request.method, asyncio.get_running_loop().time()))
            return refuse() if request.method == "PATCH" and "/nodes/" in request.path else None

        stage.gate = gate
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "x", "effect": "NoExecute"}
        await stage.api.patch(Node, NODE, {"spec": {"taints": [taint]}})
        await asyncio.sleep(20)
        read_at = [at for (method, at), (then, _) in pairwise(asked) if (method, then) == ("GET", "PATCH")]
        written = [at for (method, _), (then, at) in pairwise(asked) if (method, then) == ("GET", "PATCH")]
        assert len(written) > 3
        assert written == read_at

    play(story)


def test_a_node_that_was_made_anew_is_known_from_the_answer_though_the_watch_is_late(play: Play) -> None:
    """Else each write that fails begins again with the Node that is gone. Found by the simulation."""

    async def story(stage: Any) -> None:
        stage.slow = silent
        await stage.start()
        former = await stage.until(stage.node)
        await stage.api.delete(Node, NODE)
        anew = await stage.api.create(Node, {"metadata": {"name": NODE}})
        written_upon: list[str] = []

        async def no_answer() -> None:
            raise Unreachable("no answer")

        def gate(request: Request) -> Any:
            if request.path == f"/api/v1/nodes/{NODE}/status":
                written_upon.append(json.loads(request.body)["metadata"]["uid"])
                return (
                    no_answer() if written_upon.count(anew.uid) < 3 and written_upon[-1] == anew.uid else None
                )
            return None

        stage.gate = gate
        await stage.until(lambda: is_ready(stage))
        assert written_upon[0] == former.uid
        assert {*written_upon[1:]} == {anew.uid}

    async def silent(stream: Any) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield

    async def is_ready(stage: Any) -> bool:
        return (await stage.node()).ready == "True"

    play(story)
