"""What happened in a run, in words: the steps of a plan, and the events of a trace. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.simulation.engine.trace import Event

STEPS: Mapping[str, str] = {
    "kill": "{on} is killed",
    "crash": "{on} crashes upon a request",
    "freeze": "{on} is paused",
    "stall": "{on} is paused upon a write",
    "doze": "{on} is paused upon a look",
    "two-leaders": "{on} is paused, a successor works",
    "power-off": "{on} loses power",
    "flaps": "{on} loses power again and again",
    "lose-machine": "{on} is lost for good",
    "replace-machine": "{on} is replaced",
    "wrong-taint": "{on} is declared dead, and runs",
    "kill-server": "the API server is killed",
    "cut-store": "the API server does not reach its disk",
    "fail-store": "the API server's disk fails, and whether the last writes are on it is not known",
    "cut": "{on} is cut off",
    "cut-requests": "requests of {on} are lost",
    "cut-replies": "answers to {on} are lost",
    "lose-rare": "what {on} asks for seldom is lost, or not answered",
    "storm": "requests of {on} are lost, late or doubled",
    "watch-lag": "watches of {on} are late",
    "webhook-fails": "an admission webhook is down",
    "conflicts": "another client writes",
    "skew": "the clock of {on} is wrong",
    "slow-unmount": "{on} unmounts slowly",
    "slow-mount": "{on} mounts slowly",
    "slow-stop": "processes on {on} end slowly",
    "slow-array": "the storage is slow",
    "array-stalls": "the storage puts requests off",
    "array-fails": "the storage refuses",
    "array-full": "the storage is full",
    "array-unanswered": "the storage does not answer",
    "array-lies": "the storage says: nothing on {on}",
    "quota": "the storage attaches one disk to a node",
    "mount-fails": "mounts on {on} fail",
    "array-overtakes": "the storage carries a detach out late",
    "array-takes-away": "{on} loses power, and its disks",
    "remove-machine": "{on} is removed for good",
    "late-kind": "watches of one kind are late at {on}",
    "expire-watch": "{on} does not read its watches",
    "upstream-attaches": "upstream's controller is at work",
    "old-lists": "{on} is given old lists",
    "array-puts-off": "the storage says no, and does it later",
    "kill-service": "the node service of {on} is killed",
    "driver-leaves": "the driver of {on} unregisters",
    "absent-machine": "{on} is off for long, without a Node",
    "back-in-attach": "{on} is replaced during an attach",
    "back-in-fence": "{on} is started during a fence",
    "fence-late": "a fence of {on} comes late",
    "fence-lost": "a fence of {on} is lost",
    "fence-unanswered": "a fence of {on} is not answered",
    "fence-twice": "a fence of {on} comes twice",
    "fence-nothing": "a fence of {on} does nothing",
    "fence-lies": "a fence device of {on} lies",
    "fence-stale": "a fence device of {on} tells the past",
    "fence-swapped": "fence cables of {on} are swapped",
    "fence-recounts": "the storage loses count of {on}",
    "ec2-slow": "EC2 is slow",
    "ec2-stuck": "EC2 is stuck",
    "ec2-fails": "EC2 fails",
    "ec2-unanswered": "EC2 does it, and answers with an error",
    "ec2-throttles": "EC2 throttles",
    "ec2-lags": "EC2 describes the past",
    "ec2-puts-off": "EC2 says no, and does it later",
    "scale": "{on} is scaled",
    "delete-pod": "a pod of {on} is deleted",
    "force-delete-pod": "a pod of {on} is removed by force",
    "delete-set": "{on} is deleted",
    "delete-claim": "a claim of {on} is deleted",
    "delete-volume": "a volume of {on} is deleted",
    "delete-node": "Node {on} is deleted",
    "drain": "{on} is drained",
    "uncordon": "{on} may have pods again",
    "restart-set": "{on} is restarted",
    "delete-pod-on": "a pod of {on} is deleted",
    "force-delete-pod-on": "a pod of {on} is removed by force",
    "hold": "a finalizer holds objects of {on}",
    "strip-claim": "a claim of {on} loses its finalizers",
    "strip-volume": "a volume of {on} loses its finalizers",
    "restore-volume": "the volume of {on} is deleted without its finalizers, and made again",
    "delete-unbound": "unbound volumes are deleted",
    "keep-volume": "a volume of {on} is to be kept",
    "delete-released": "volumes without claims are deleted",
    "give-back": "kept volumes are given back",
    "replace-claim": "a claim of {on} is made anew",
    "edit-manifest": "a manifest on {on} is edited",
    "remove-manifest": "a manifest on {on} is removed",
    "delete-mirror": "a mirror pod of {on} is deleted",
    "grow-claim": "a claim of {on} grows",
    "delete-namespace": "the namespace of {on} is deleted",
    "update-set": "{on} is updated",
    "break-set": "{on} gets a template that fails",
    "mark": "another party marks what belongs to {on}",
    "read-back": "a program reads what was so some writes ago, or will be",
    "take-aside": "a pod of {on} is taken aside, and deleted later",
    "edit-content": "what the pods of {on} show of a ConfigMap, a Secret or their labels changes",
    "take-snapshot": "a user takes a snapshot of a claim of {on}",
    "delete-snapshot": "a snapshot of a claim of {on} is deleted",
    "restore-snapshot": "a claim is made of a snapshot of {on}",
    "adopt-snapshot": "what the storage keeps of a snapshot of {on} is handed on",
    "copy-claim": "a claim is made that is a copy of one of {on}",
    "name-attributes": "a claim of {on} names another VolumeAttributesClass",
    "replace-attributes": "a VolumeAttributesClass is deleted, and made anew",
    "fill": "a pod of {on} puts too much into its emptyDir",
    "strip-labels": "a pod of {on} loses labels",
    "mistake-class": "a user makes a claim of a class with a mistake, and deletes it again",
    "replace-class": "the StorageClass of {on}'s claims is deleted, and made anew",
    "shrink-set": "{on} shrinks, and grows again",
    "fence-node": "a user asks to fence {on}",
    "delete-fence": "fences of {on} are deleted",
    "unfence": "a user wants {on} back",
    "untaint": "a tool takes the taint of a fence off {on}",
}
"""By the name of a fault or of an action; `{on}` is whom it strikes."""

Told = str | Callable[[Event], str]


def step_in_words(what: str, on: str) -> str:
    """A step of a plan, in few words."""
    return STEPS.get(what, f"{what} {{on}}").replace("{on}", on)


def _begins(event: Event) -> str:
    if event.fields["act"] not in ("attach", "detach") or "volume" not in event.fields:
        return ""
    way = "to attach {volume} to" if event.fields["act"] == "attach" else "to detach {volume} from"
    return f"the storage begins {way} {{node}}"


def _lost(event: Event) -> str:
    return "" if event.fields["committed"] else "a write of {node} to {volume} is lost"


def _power(event: Event) -> str:
    return "{actor} has power" if event.fields["on"] else "{actor} loses power"


def _declared(event: Event) -> str:
    return (
        "{node} is declared out of service" if event.fields["out"] else "that word about {node} is taken back"
    )


TELLING: Mapping[str, Told] = {
    "plan.step": lambda event: step_in_words(event.fields["what"], event.fields["on"]),
    "plan.healed": "everything is healed",
    "plan.declared": _declared,
    "plan.forced": "a user removes pod {pod} by force",
    "truth.begin": _begins,
    "truth.attached": "{volume} is attached to {node}",
    "truth.detached": "{volume} is detached from {node}",
    "truth.taken": "the storage takes {volume} away from {node} by itself",
    "truth.denied": "the storage refuses to attach {volume} to {node}",
    "truth.revoked": "the storage cuts {node} off from {volume}",
    "truth.mounted": "{node} mounts {volume}",
    "truth.unmounted": "{node} unmounts {volume}",
    "truth.started": "pod {pod} starts on {node}",
    "truth.ended": "pod {pod} ends on {node}",
    "truth.written": _lost,
    "truth.power": _power,
    "truth.deleted": "the storage deletes the disk of {volume}",
    "truth.snapshot-taken": "the storage takes snapshot {snapshot} of {volume}",
    "truth.snapshot-deleted": "the storage deletes snapshot {snapshot}",
    "truth.modified": "the storage gives {volume} the attributes {attributes}",
    "truth.died": "{actor} ends by itself: {error}",
}
"""By kind of event; "" is not worth a word."""


def in_words(event: Event, name: Callable[[str], str]) -> str:
    """An event in words, "" if it has none; `name` is what people call a volume."""
    told = TELLING.get(event.kind, "")
    words = told if isinstance(told, str) else told(event)
    facts = {key: str(value) for key, value in event.fields.items() if not key.startswith("_")}
    facts |= {"actor": event.actor} | ({"volume": name(facts["volume"])} if "volume" in facts else {})
    for key, value in facts.items():
        words = words.replace(f"{{{key}}}", value)
    return words
