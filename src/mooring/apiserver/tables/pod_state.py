"""The columns READY, STATUS and RESTARTS of `kubectl get pods`. Pure.

The precedence of states is upstream's (`kubectl get` of Kubernetes 1.36), with one exception: for a pod whose
node does not answer, upstream goes on showing the node's last report, and this server shows NodeLost.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mooring.apiserver.errors import Obj
from mooring.apiserver.values.dotted import object_at, objects_at, text_at, value_at
from mooring.apiserver.values.timestamps import since


def _restartable(container: Obj) -> bool:
    return container.get("restartPolicy") == "Always"


def ready(pod: Obj, now: datetime) -> str:
    """Ready containers out of all, counting sidecars."""
    sidecars = {
        text_at(each, "name") for each in objects_at(pod, "spec.initContainers") if _restartable(each)
    }
    statuses = [
        each for each in objects_at(pod, "status.initContainerStatuses") if each.get("name") in sidecars
    ]
    statuses += objects_at(pod, "status.containerStatuses")
    running = [each for each in statuses if each.get("ready") and "running" in object_at(each, "state")]
    return f"{len(running)}/{len(objects_at(pod, 'spec.containers')) + len(sidecars)}"


def restarts(pod: Obj, now: datetime) -> str:
    """How often containers were restarted, and when last."""
    statuses = objects_at(pod, "status.containerStatuses")
    if initializing(pod) is not None:
        statuses = objects_at(pod, "status.initContainerStatuses")
    count = sum(int(each.get("restartCount") or 0) for each in statuses)
    finished = [text_at(each, "lastState.terminated.finishedAt") for each in statuses]
    last = max(filter(None, finished), default="")
    return f"{count} ({since(last, now)} ago)" if count and last else str(count)


def status(pod: Obj, now: datetime) -> str:
    """One word for the pod's state."""
    if value_at(pod, "metadata.deletionTimestamp"):
        gone = text_at(pod, "status.reason") == "NodeLost"
        finished = text_at(pod, "status.phase") in ("Succeeded", "Failed")
        return "Unknown" if gone else _running_status(pod) if finished else "Terminating"
    return "NodeLost" if _node_is_lost(pod) else _running_status(pod)


def _node_is_lost(pod: Obj) -> bool:
    """Whether the node life-cycle controller has set the pod to not ready; the node itself uses other
    reasons."""
    lost = ("Ready", "False", "NodeNotReady")
    conditions = objects_at(pod, "status.conditions")
    return any((each.get("type"), each.get("status"), each.get("reason")) == lost for each in conditions)


def _running_status(pod: Obj) -> str:
    if (state := initializing(pod)) is not None:
        return state
    reason = text_at(pod, "status.reason") or _gated(pod) or text_at(pod, "status.phase")
    any_running = False
    for container in reversed(objects_at(pod, "status.containerStatuses")):
        reason = _state(container) or reason
        any_running |= bool(container.get("ready")) and "running" in object_at(container, "state")
    if reason == "Completed" and any_running:
        return "Running" if _is_ready(pod) else "NotReady"
    return reason


def _gated(pod: Obj) -> str:
    conditions = objects_at(pod, "status.conditions")
    gated = any(c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in conditions)
    return "SchedulingGated" if gated else ""


def _is_ready(pod: Obj) -> bool:
    return any(
        each.get("type") == "Ready" and each.get("status") == "True"
        for each in objects_at(pod, "status.conditions")
    )


def initializing(pod: Obj) -> str | None:
    """The state of the init container that holds the pod up, or None if none does."""
    specs = objects_at(pod, "spec.initContainers")
    sidecars = {text_at(each, "name") for each in specs if _restartable(each)}
    for index, container in enumerate(objects_at(pod, "status.initContainerStatuses")):
        terminated = value_at(container, "state.terminated")
        if terminated is not None and terminated.get("exitCode") == 0:
            continue
        if container.get("name") in sidecars and container.get("started"):
            continue
        if terminated is not None or text_at(container, "state.waiting.reason") not in (
            "",
            "PodInitializing",
        ):
            return f"Init:{_state(container)}"
        return f"Init:{index}/{len(specs)}"
    return None


def _state(container: Obj) -> str:
    """Why a container waits or ended; empty if it runs."""
    waiting = text_at(container, "state.waiting.reason")
    if waiting:
        return waiting
    terminated: Any = value_at(container, "state.terminated")
    if terminated is None:
        return ""
    if text_at(terminated, "reason"):
        return text_at(terminated, "reason")
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
