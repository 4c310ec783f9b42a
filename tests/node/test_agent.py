"""The agent as a whole: registration, pods without volumes, restarts, shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mooring.kube.errors import Conflict
from mooring.kube.objects import Lease, Node, Pod

NODE = "node-1"
Play = Callable[[Any], None]


def test_a_node_is_registered_ready_with_boot_id_and_lease(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        node = await world.until(world.node)
        assert node.ready == "True"
        assert node.status.node_info.boot_id == "boot-1"
        assert node.metadata.annotations["volumes.kubernetes.io/controller-managed-attach-detach"] == "true"
        assert node.metadata.annotations["mooring.dev/reconstructed"] == "boot-1"
        assert node.metadata.labels["kubernetes.io/hostname"] == NODE
        lease = await world.until(lambda: world.api.find(Lease, NODE, "kube-node-lease"))
        renewed = lease.spec.renew_time
        await world.until(lambda: lease_after(world, renewed))

    async def lease_after(world: Any, renewed: str) -> bool:
        return (await world.api.get(Lease, NODE, "kube-node-lease")).spec.renew_time > renewed

    play(story)


def test_a_pod_is_run_and_its_status_says_so(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.create_pod()
        await world.until(lambda: running(world))
        pod = await world.pod()
        status = pod.status.container_statuses[0]
        assert status.ready
        assert status.state.running is not None
        assert pod.status.host_ip == "127.0.0.1"
        ready = {condition.type: condition.status for condition in pod.status.conditions}
        assert ready["Ready"] == ready["ContainersReady"] == ready["Initialized"] == "True"
        assert any(reason == "HostRootFileSystem" for reason, _ in await world.events())

    play(story)


async def running(world: Any, name: str = "web-0") -> bool:
    return await world.phase(name) == "Running"


def test_a_container_that_ends_is_started_again_with_growing_delays(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        pod = await world.create_pod()
        await world.until(lambda: running(world))
        for attempt in (1, 2, 3):
            world.machine.exit(pod.uid, "main", 1)
            await world.until(lambda attempt=attempt: f"start main {attempt}" in world.machine.journal)
        world.machine.exit(pod.uid, "main", 1)
        await world.until(lambda: crash_loop(world, "back-off 40s"))
        assert (await world.pod()).status.container_statuses[0].restart_count == 3

    async def crash_loop(world: Any, message: str) -> bool:
        waiting = await reason(world, "CrashLoopBackOff")
        return bool(waiting) and waiting.message.startswith(message)

    play(story)


def test_a_pod_that_is_not_restarted_succeeds_and_keeps_nothing(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        pod = await world.create_pod(restartPolicy="Never")
        await world.until(lambda: running(world))
        world.machine.exit(pod.uid, "main", 0)
        await world.until(lambda: succeeded(world))
        await world.until(lambda: not world.machine.sandboxes[pod.uid].running)
        done = await world.pod()
        assert done.status.container_statuses[0].state.terminated.reason == "Completed"

    async def succeeded(world: Any) -> bool:
        return await world.phase() == "Succeeded"

    play(story)


def test_init_containers_run_first_and_one_after_the_other(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        init = [{"name": name, "image": "app", "command": ["init"]} for name in ("one", "two")]
        pod = await world.create_pod(initContainers=init)
        await world.until(lambda: "start one 0" in world.machine.journal)
        assert await world.phase() == "Pending"
        world.machine.exit(pod.uid, "one", 0)
        await world.until(lambda: "start two 0" in world.machine.journal)
        assert "start main 0" not in world.machine.journal
        world.machine.exit(pod.uid, "two", 0)
        await world.until(lambda: running(world))

    play(story)


def test_a_deleted_pod_is_asked_to_end_and_leaves_the_api_when_it_has(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.create_pod()
        await world.until(lambda: running(world))
        await world.api.delete(Pod, "web-0", "default")
        await world.until(lambda: gone(world))
        assert world.machine.journal[-2:] == ["signal main 15", "kill"]
        writes = [
            request
            for request in world.requests
            if "/pods/web-0" in request and not request.startswith("GET")
        ]
        assert writes[-2:] == [
            "PATCH /api/v1/namespaces/default/pods/web-0/status",
            "DELETE /api/v1/namespaces/default/pods/web-0",
        ]
        await world.until(lambda: not list((world.root / "pods").glob("*")))

    play(story)


async def gone(world: Any) -> bool:
    return await world.pod() is None


def test_a_pod_that_does_not_end_is_killed_when_its_grace_period_is_over_and_not_before(play: Play) -> None:
    async def story(world: Any) -> None:
        world.machine.exit_on_term = False
        await world.start()
        await world.create_pod()
        await world.until(lambda: running(world))
        began = world.now()
        await world.api.delete(Pod, "web-0", "default", grace_period_seconds=20)
        await world.until(lambda: gone(world))
        assert 20 <= (world.now() - began).total_seconds() < 21

    play(story)


def test_a_second_deletion_shortens_the_grace_period(play: Play) -> None:
    async def story(world: Any) -> None:
        world.machine.exit_on_term = False
        await world.start()
        await world.create_pod()
        await world.until(lambda: running(world))
        began = world.now()
        await world.api.delete(Pod, "web-0", "default", grace_period_seconds=1000)
        await world.until(lambda: "signal main 15" in world.machine.journal)
        await world.api.delete(Pod, "web-0", "default", grace_period_seconds=5)
        await world.until(lambda: gone(world))
        assert (world.now() - began).total_seconds() < 10

    play(story)


def test_a_pod_that_was_removed_by_force_still_has_two_seconds(play: Play) -> None:
    async def story(world: Any) -> None:
        world.machine.exit_on_term = False
        await world.start()
        await world.create_pod()
        await world.until(lambda: running(world))
        began = world.now()
        await world.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
        await world.until(lambda: "kill" in world.machine.journal)
        assert (world.now() - began).total_seconds() >= 2

    play(story)


def test_an_agent_that_comes_back_disturbs_nothing(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.create_pod()
        await world.until(lambda: running(world))
        before = list(world.machine.journal)
        uid = (await world.node()).uid
        await world.kill()
        await world.start()
        await world.until(lambda: running(world))
        await asyncio.sleep(60)
        assert world.machine.journal == before
        assert (await world.node()).uid == uid

    play(story)


def test_pods_that_were_removed_while_no_agent_was_there_are_ended(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        pod = await world.create_pod()
        await world.until(lambda: running(world))
        await world.kill()
        await world.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
        await world.start()
        await world.until(lambda: pod.uid not in world.machine.sandboxes)
        assert "kill" in world.machine.journal

    play(story)


def test_after_a_reboot_a_pod_starts_again_and_counts_it(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        pod = await world.create_pod()
        await world.until(lambda: running(world))
        await world.kill()
        world.machine.exit(pod.uid, "main", 137)
        world.machine.update(pod.uid, running=False)
        await world.start(boot_id="boot-2")
        await world.until(lambda: restarted(world))
        assert (await world.node()).status.node_info.boot_id == "boot-2"

    async def restarted(world: Any) -> bool:
        return (await world.pod()).status.container_statuses[0].restart_count == 1

    play(story)


def test_a_node_that_is_shut_down_ends_its_pods_and_says_that_it_is_not_ready(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.create_pod()
        await world.until(lambda: running(world))
        world.shutdown.set()
        await world.ended()
        node, pod = await world.node(), await world.pod()
        assert node.ready == "False"
        assert node.status.volumes_in_use == ()
        assert (pod.status.phase, pod.status.reason) == ("Failed", "Terminated")
        assert not any(sandbox.running for sandbox in world.machine.sandboxes.values())

    play(story)


def test_a_node_that_is_shut_down_says_so_before_its_pods_end(play: Play) -> None:
    """Or what ends here is scheduled here again."""

    async def story(world: Any) -> None:
        world.machine.exit_on_term = False
        await world.start()
        await world.create_pod()
        await world.until(lambda: running(world))
        world.shutdown.set()
        await world.until(lambda: not_ready(world))
        assert all(sandbox.running for sandbox in world.machine.sandboxes.values())
        await world.ended()

    async def not_ready(world: Any) -> bool:
        return (await world.node()).ready == "False"

    play(story)


def test_a_node_object_that_vanishes_is_registered_again(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        former = (await world.node()).uid
        await world.api.delete(Node, NODE)
        node = await world.until(lambda: world.api.find(Node, NODE))
        assert node.uid != former
        assert node.ready == "True"

    play(story)


def test_what_was_decided_of_a_pod_while_its_node_was_absent_comes_too_late_when_the_node_is_back(
    play: Play,
) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.create_pod()
        await world.until(lambda: running(world))
        read = await world.api.get(Pod, "web-0", "default")
        former = (await world.node()).uid
        await world.api.delete(Node, NODE)
        assert await world.api.find(Node, NODE) is None

        async def back() -> bool:
            node = await world.api.find(Node, NODE)
            return node is not None and node.uid != former

        await world.until(back)
        for ended in ("Failed", "Succeeded"):
            with pytest.raises(Conflict):
                await world.api.revise(read, {"status": {"phase": ended}}, subresource="status")
        await asyncio.sleep(60)
        assert (await world.api.get(Pod, "web-0", "default")).status.phase == "Running"

    play(story)


def test_an_out_of_service_taint_is_spent_by_the_next_report(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        await world.api.patch(Node, NODE, {"spec": {"taints": [taint]}})
        await world.until(lambda: seen(world))

    async def seen(world: Any) -> bool:
        return "mooring.dev/out-of-service-seen" in (await world.node()).metadata.annotations

    play(story)


def test_a_node_that_was_called_unknown_says_at_once_that_it_is_ready(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        unknown = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        await world.api.patch(Node, NODE, unknown, subresource="status", strategy="strategic")
        began = world.now()
        await world.until(lambda: ready(world))
        assert (world.now() - began).total_seconds() < 5

    async def ready(world: Any) -> bool:
        return (await world.node()).ready == "True"

    play(story)


def test_an_agent_whose_word_about_a_pod_is_taken_back_insists_but_does_not_race(play: Play) -> None:
    """Who takes Ready away from the pods of a silent node may hear late that the node is back."""
    denied = {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]}}

    async def story(world: Any) -> None:
        await world.start()
        await world.create_pod()
        await world.until(lambda: ready(world))
        times = 0
        for _ in range(1000):  # ten seconds of somebody who answers in ten milliseconds
            await asyncio.sleep(0.01)
            if await ready(world):
                times += 1
                await world.api.patch(
                    Pod, "web-0", denied, "default", subresource="status", strategy="strategic"
                )
        assert 3 < times < 20
        await world.until(lambda: ready(world))

    async def ready(world: Any) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in (await world.pod()).status.conditions)

    play(story)


def test_a_container_without_a_command_says_what_to_do(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.create_pod(container={"command": []})
        waiting = await world.until(lambda: reason(world, "ErrImageNeverPull"))
        assert "set `command`" in waiting.message

    play(story)


async def reason(world: Any, code: str) -> Any:
    statuses = (await world.pod()).status.container_statuses
    waiting = statuses[0].state.waiting if statuses else None
    return waiting if waiting and waiting.reason == code else None


def test_a_missing_config_map_of_a_variable_is_named_and_waited_for(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        reference = {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}}
        await world.create_pod(container={"env": [reference]})
        waiting = await world.until(lambda: reason(world, "CreateContainerConfigError"))
        assert "ConfigMap 'settings' does not exist" in waiting.message
        from mooring.kube.objects import ConfigMap

        await world.api.create(
            ConfigMap, {"metadata": {"name": "settings"}, "data": {"mode": "fast"}}, "default"
        )
        await world.until(lambda: running(world))
        assert world.runtime.containers["main"].env["MODE"] == "fast"

    play(story)
