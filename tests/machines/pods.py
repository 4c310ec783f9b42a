"""Pods of tests on machines: they run a script with volumes of claims, and end."""

from __future__ import annotations

from mooring.cluster.stage import Disappointed, Stage
from mooring.kube.objects import Event, Pod


async def pod(
    stage: Stage, name: str, node: str, script: str, *, block: bool = False, grace_s: int = 2, **volumes: str
) -> None:
    """A pod on that node ("": any) that runs the script; `volumes` are claims by the volume's name."""
    use = (
        {"volumeDevices": [{"name": each, "devicePath": f"/dev/x{each}"} for each in volumes]}
        if block
        else {"volumeMounts": [{"name": each, "mountPath": f"/{each}"} for each in volumes]}
    )
    container = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script], **use}
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_s,
        "nodeSelector": {"kubernetes.io/hostname": node} if node else {},
        "containers": [container],
        "volumes": [
            {"name": each, "persistentVolumeClaim": {"claimName": claim}} for each, claim in volumes.items()
        ],
    }
    await stage.client.create(Pod, {"metadata": {"name": name}, "spec": spec}, "default")


async def ended(stage: Stage, name: str) -> str:
    """Waits until the pod has succeeded, and deletes it; what it said."""

    async def phase() -> bool:
        return (await stage.client.get(Pod, name, "default")).status.phase in ("Succeeded", "Failed")

    await stage.until(f"pod {name} has ended", phase, patience=90)
    live = await stage.client.get(Pod, name, "default")
    said = await stage.logs(live.spec.node_name, live.uid, "main") or ""
    assert live.status.phase == "Succeeded", said
    await gone(stage, name)
    return " ".join(line.split(" ", 3)[3] for line in said.splitlines())


async def gone(stage: Stage, name: str, patience: float = 90) -> None:
    """Deletes the pod and waits for its end."""
    await stage.client.delete(Pod, name, "default")

    async def deleted() -> bool:
        return await stage.client.find(Pod, name, "default") is None

    await stage.until(f"pod {name} is gone", deleted, patience=patience)


async def running(stage: Stage, name: str) -> None:
    """Waits until it runs. If it does not, what its events say is in the error."""

    async def runs() -> bool:
        return (await stage.client.get(Pod, name, "default")).status.phase == "Running"

    try:
        await stage.until(f"pod {name} runs", runs, patience=90)
    except Disappointed as error:
        raise Disappointed("\n".join([str(error), *(await _said(stage, name))[-8:]])) from None


async def _said(stage: Stage, name: str) -> list[str]:
    """What the events of a pod say."""
    events = (await stage.client.list(Event, "default")).items
    return [f"{each.reason}: {each.message}" for each in events if each.involved_object.name == name]


async def told(stage: Stage, pod: str, words: str) -> None:
    """Waits for an event of the pod with these words."""

    async def told() -> bool:
        return any(words in each for each in await _said(stage, pod))

    try:
        await stage.until(f"an event of {pod} says: {words}", told, patience=120)
    except Disappointed as error:
        raise Disappointed("\n".join([str(error), *(await _said(stage, pod))[-8:]])) from None
