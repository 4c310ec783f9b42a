"""Why a pod does not run, or does not end."""

from __future__ import annotations

from mooring.controllers.scheduling.decide import Company, Load, Obstacle, PodVolume, choose
from mooring.kube.objects import ContainerStatus, Event, Pod, Volume
from mooring.kube.readiness import ready_since
from mooring.kube.reason import Reason
from mooring.volumes.claims import claims_of
from mooring.volumes.errors import ClaimError, VolumeError
from mooring.volumes.limits import attachable, attachable_inline
from mooring.why.cause import Cause, about, fine
from mooring.why.explain_claims import explain_claim
from mooring.why.explain_nodes import explain_absence, explain_node
from mooring.why.explain_volumes import explain_attachments
from mooring.why.snapshot import Snapshot

SCHEDULER = "default-scheduler"
_ADVICE = {
    Obstacle.CLAIM_IN_USE: "delete the pod that uses the claim, or give this one a claim of its own",
    Obstacle.UNSCHEDULABLE: "kubectl uncordon a node, or add one",
    Obstacle.NOT_READY: "bring a node back, or add one",
    Obstacle.TAINT: "add a toleration, or remove the taint",
    Obstacle.NODE_AFFINITY: "change the pod's node selector or affinity, or label a node",
    Obstacle.VOLUME_AFFINITY: "the volume can be used on other nodes only: free one of them",
    Obstacle.VOLUME_LIMIT: "detach volumes there, or add a node",
    Obstacle.DRIVER_MISSING: "start the driver's node service on a node: it has registered on others only",
    Obstacle.CLASS_TOPOLOGY: "label a node as the class's allowedTopologies want it, or change the class",
    Obstacle.CLAIM_LOST: "the volume of the claim is gone: restore it, or delete the claim and make another",
    Obstacle.CLAIM_OF_ANOTHER: "delete the claim, or rename the pod: the claim of its volume is made for it alone",
    Obstacle.VOLUME_GONE: "the volume of the claim is gone: restore it, or delete the claim and make another",
    Obstacle.VOLUME_ZONE: "the volume is in another zone: free a node there, or add one",
    Obstacle.DISK_CONFLICT: "another pod of the node has the disk: delete it, or add a node",
    Obstacle.NO_SPACE: "free storage where the driver says it has too little, or add some",
    Obstacle.COMPANY: "change the pod's affinity or spread, or add a node where the other pods let it be",
    Obstacle.NO_VOLUME: "create a volume that fits, or use a class that provisions",
}
"""What a person can do about each obstacle. If there are several, the first one in this order is given."""


def explain_pod(pod: Pod, known: Snapshot) -> Cause:
    """Explains a pod: being deleted, waiting for a node, waiting for volumes, or its containers."""
    if pod.deleting:
        return _ending(pod, known)
    if pod.status.phase == "Succeeded":
        return fine(pod, f"pod {pod.key} has done its work", "Succeeded")
    if pod.status.phase == "Failed":
        message = pod.status.message or f"pod {pod.key} has failed{_exits(pod)}"
        return Cause(about(pod), Reason(pod.status.reason or "PodFailed", message), next_step=_logs(pod))
    if not pod.spec.node_name:
        return _unscheduled(pod, known)
    node = known.nodes.get(pod.spec.node_name)
    if node is None or node.ready != "True":
        return _on_bad_node(pod, known)
    return _on_node(pod, known)


def _ending(pod: Pod, known: Snapshot) -> Cause:
    since = pod.metadata.deletion_timestamp or ""
    node = known.nodes.get(pod.spec.node_name)
    if pod.spec.node_name and (node is None or node.ready == "Unknown"):
        what = _node(pod, known)
        message = f"pod {pod.key} is being deleted, and only its node can say that its processes have ended"
        return Cause(about(pod), Reason("Terminating", message), since=since).because(what)
    if pod.metadata.finalizers:
        held = ", ".join(pod.metadata.finalizers)
        message = f"pod {pod.key} is being deleted, and held by {held}"
        step = "the controller that set the finalizer removes it when its work is done: look at its log"
        return Cause(about(pod), Reason("HeldByFinalizer", message), since=since, next_step=step)
    failed = known.warning(pod)
    grace = pod.metadata.deletion_grace_period_seconds
    message = f"pod {pod.key} is being deleted: its node ends its processes (grace {grace} s) and unmounts its volumes"
    what = _event(pod, failed) if failed is not None and (failed.last_timestamp or "") >= since else None
    return Cause(about(pod), Reason("Terminating", message), since=since).because(what)


def _unscheduled(pod: Pod, known: Snapshot) -> Cause:
    since = pod.metadata.creation_timestamp or ""
    if pod.spec.scheduler_name != SCHEDULER:
        message = f"pod {pod.key} waits for scheduler {pod.spec.scheduler_name} to choose a node"
        return Cause(
            about(pod), Reason("OtherScheduler", message), since=since, next_step="see whether it runs"
        )
    missing = [key for key in claims_of(pod) if key not in known.claims]
    if missing:
        name = missing[0].partition("/")[2]
        reason = Reason("FailedScheduling", f'persistentvolumeclaim "{name}" not found')
        what = Cause(f"pvc/{missing[0]}", Reason("ClaimNotFound", f"claim {missing[0]} does not exist"))
        return Cause(about(pod), reason, since=since, next_step=f"create claim {missing[0]}").because(what)
    volumes = [_pod_volume(key, pod, known) for key in claims_of(pod)]
    drivers = {each.name for node in known.csi_nodes.values() for each in node.spec.drivers}
    choice = choose(
        pod,
        volumes,
        known.nodes.values(),
        known.free,
        lambda node: _load(node, known),
        drivers,
        _company(known),
    )
    unbound = [explain_claim(each.claim, known) for each in volumes if not each.bound]
    if choice.node is None:
        step = next((advice for obstacle, advice in _ADVICE.items() if obstacle in choice.obstacles), "")
        nodes = [explain_node(node, known) for node in known.nodes.values()]
        stuck = [
            each for each in unbound if each.reason.code != "WaitForFirstConsumer"
        ]  # it waits for this very pod
        return Cause(about(pod), choice.reason, since=since, next_step=step).because(*stuck, *nodes)
    if unbound:
        message = f"node {choice.node.name} is chosen; the pod is bound when its claims are"
        return Cause(about(pod), Reason("WaitingForClaims", message), since=since).because(*unbound)
    step = "this lasts moments; if not, see whether the scheduler runs: mooring status"
    return Cause(about(pod), choice.reason, since=since, next_step=step)


def _pod_volume(key: str, pod: Pod, known: Snapshot) -> PodVolume:
    claim = known.claims[key]
    users = known.users_of_claim(claim)
    others = tuple(user.key for user in users if user.uid != pod.uid and user.spec.node_name)
    storage_class = known.classes.get(claim.storage_class)
    return PodVolume(claim, known.volumes.get(claim.spec.volume_name or ""), storage_class, others)


def _load(node: str, known: Snapshot) -> Load:
    pods = known.pods_on(node)
    claims = (known.claims.get(key) for pod in pods for key in claims_of(pod))
    volumes = (known.volumes.get(claim.spec.volume_name or "") for claim in claims if claim is not None)
    places = {place for pv in volumes if pv is not None and (place := attachable(pv)) is not None}
    places |= {place for pod in pods for place in attachable_inline(pod)}
    return Load(len(pods), lambda: places, known.csi_nodes.get(node), lambda: pods)


def _company(known: Snapshot) -> Company:
    pods = ((pod, known.nodes.get(pod.spec.node_name)) for pod in known.pods.values() if not pod.finished)
    return Company([(pod, node) for pod, node in pods if node is not None], known.namespaces)


def _on_bad_node(pod: Pod, known: Snapshot) -> Cause:
    message = f"pod {pod.key} is on node {pod.spec.node_name}, which does not work"
    return Cause(about(pod), Reason("NodeProblem", message)).because(_node(pod, known))


def _node(pod: Pod, known: Snapshot) -> Cause:
    node = known.nodes.get(pod.spec.node_name)
    if node is not None:
        return explain_node(node, known)
    return explain_absence(pod.spec.node_name, known)


def _on_node(pod: Pod, known: Snapshot) -> Cause:
    started = any(status.state.running is not None for status in _statuses(pod))
    if not started:
        held_up = [cause for volume in pod.spec.volumes if (cause := _volume(pod, volume, known)) is not None]
        if held_up:
            message = f"pod {pod.key} waits on node {pod.spec.node_name} for its volumes"
            return Cause(about(pod), Reason("WaitingForVolumes", message), since=_scheduled_at(pod)).because(
                *held_up
            )
    troubled = next((each for each in _statuses(pod) if _trouble(each)), None)
    if troubled is not None:
        return _container(pod, troubled, known)
    if ready_since(pod) is not None:
        return fine(pod, f"pod {pod.key} runs on node {pod.spec.node_name} and is ready", "Running")
    failed = known.warning(pod)
    if started:
        message = f"pod {pod.key} runs on node {pod.spec.node_name}, and is not ready yet"
        return Cause(about(pod), Reason("NotReady", message), next_step=_logs(pod)).because(
            _event(pod, failed)
        )
    if failed is not None:
        reason = Reason(failed.reason, failed.message)
        step = "it is tried again by itself, with growing pauses; mend what the message says"
        return Cause(about(pod), reason, since=failed.last_timestamp or "", next_step=step)
    message = f"node {pod.spec.node_name} mounts the pod's volumes and starts its containers"
    return Cause(about(pod), Reason("Starting", message), since=_scheduled_at(pod))


def _volume(pod: Pod, volume: Volume, known: Snapshot) -> Cause | None:
    try:
        spec = known.spec_of(pod, volume.name)
    except ClaimError as error:
        claim = next(
            (
                known.claims[key]
                for key in claims_of(pod)
                if key in known.claims and error.object.endswith(f" {key}")
            ),
            None,
        )
        what = explain_claim(claim, known) if claim is not None else None
        return Cause(f"volume/{volume.name}", Reason(error.reason, str(error))).because(what)
    try:
        known.plugins.find_plugin_by_spec(spec)
    except VolumeError:
        return None  # no plugin of ours: the node reports in its events what it cannot mount
    return explain_attachments(spec, known, pod.spec.node_name)


def _statuses(pod: Pod) -> tuple[ContainerStatus, ...]:
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def _trouble(status: ContainerStatus) -> bool:
    waiting, ended = status.state.waiting, status.state.terminated
    if waiting is not None:
        return waiting.reason not in ("ContainerCreating", "PodInitializing", "")
    return ended is not None and ended.exit_code != 0


def _container(pod: Pod, status: ContainerStatus, known: Snapshot) -> Cause:
    waiting, last = status.state.waiting, status.state.terminated or status.last_state.terminated
    code = (
        waiting.reason if waiting is not None else (last.reason if last is not None else "Error") or "Error"
    )
    problem = (waiting.message if waiting is not None else "") or (last.message if last is not None else "")
    problem = problem.removeprefix(f"container {status.name}: ")  # as the agent begins some of its messages
    ended = f"its last run ended with exit code {last.exit_code}" if last is not None else ""
    message = f"container {status.name}: " + ("; ".join(each for each in (problem, ended) if each) or code)
    since = (last.finished_at if last is not None else "") or ""
    step = f"{_logs(pod)} -c {status.name}" + (" --previous" if status.restart_count else "")
    if code in (
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    ):
        step = "change the pod as the message says: kubectl describe pod " + pod.name
    failed = known.warning(pod) if waiting is not None and not problem else None
    return Cause(about(pod), Reason(code, message), since=since, next_step=step).because(_event(pod, failed))


def _event(pod: Pod, event: Event | None) -> Cause | None:
    if event is None:
        return None
    return Cause(about(pod), Reason(event.reason, event.message), since=event.last_timestamp or "")


def _scheduled_at(pod: Pod) -> str:
    times = (each.last_transition_time for each in pod.status.conditions if each.type == "PodScheduled")
    return next(times, None) or pod.metadata.creation_timestamp or ""


def _exits(pod: Pod) -> str:
    ended = [
        (each.name, each.state.terminated) for each in _statuses(pod) if each.state.terminated is not None
    ]
    failed = [
        f"container {name} ended with exit code {state.exit_code}" for name, state in ended if state.exit_code
    ]
    return f": {', '.join(failed)}" if failed else ""


def _logs(pod: Pod) -> str:
    return f"kubectl -n {pod.namespace} logs {pod.name}"
