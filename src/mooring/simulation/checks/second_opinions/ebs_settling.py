"""What the driver may believe of EC2's descriptions, which lag (EC2's documentation, "Eventual consistency").

docs/ebs.md, "Descriptions lag": one proves something only if it was asked for `--settle-time` after the last
change that could have ended it. So whatever the driver has asked EC2 to change is remembered from then on;
what the process before it has changed is as young as this one's start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.ebs.controller_service import provisioning
from mooring.ebs.ec2.describe import Describe
from mooring.ebs.ec2.paced import PacedApi
from mooring.ebs.ec2.records import Volume
from mooring.ebs.ec2.settling import Settling
from mooring.ebs.errors import Ec2Error, Ec2Unreachable
from mooring.simulation.checks.second_opinions.memories import Memories, now
from mooring.simulation.checks.second_opinions.question import Question

VERY_LATE_S = 600.0


@dataclass
class Changes:
    """What one process of the driver has changed. `settle_s`: for so long descriptions lag; `noted`: when
    each change was last; `asked`: those that EC2 was asked for, and when that ended, until they are noted;
    `made`: ids of what EC2 has made for it; `looked`: when a name was looked for last."""

    started: float = float("-inf")
    settle_s: float = 0.0
    noted: dict[str, float] = field(default_factory=dict[str, float])
    asked: dict[str, float] = field(default_factory=dict[str, float])
    made: set[str] = field(default_factory=set[str])
    looked: dict[str, float] = field(default_factory=dict[str, float])

    def last(self, changes: Iterable[str]) -> float:
        """When the last of these may have been made, by this process or the one before it."""
        return max([self.started, *(self.noted[each] for each in changes if each in self.noted)])

    def forgotten(self) -> Iterator[str]:
        """What was asked for before this moment, and is not noted."""
        for change, ended in self.asked.items():
            if ended < now():
                yield f"{change}: EC2 was asked for it, and it is not noted"


CHANGES = Memories(Changes)


def begins(answer: None, settling: Settling, *_: float, **__: float) -> Iterable[str]:
    known = CHANGES.of_this_process()
    known.started, known.settle_s = now(), settling.settle_s
    return ()


def notes(answer: None, settling: Settling, change: str) -> Iterable[str]:
    changes = CHANGES.of_this_process()
    changes.noted[change] = now()
    changes.asked.pop(change, None)
    return ()


def of_a_proof(answer: bool, settling: Settling, requested_at: float, *changes: str) -> Iterator[str]:
    """A description is proof from the settle time after the last change on. One that is very late need not be
    proof: changes are not remembered for ever."""
    known = CHANGES.of_this_process()
    yield from known.forgotten()
    last = known.last(changes)
    is_late = not answer and now() - requested_at > VERY_LATE_S
    if answer is not (last + settling.settle_s <= requested_at) and not is_late:
        counts = "proof" if answer else "no proof"
        yield f"what was asked for {requested_at - last:g} s after {_any(changes)} counts as {counts}"


def of_recency(answer: bool, settling: Settling, change: str) -> Iterator[str]:
    """What was changed less than the settle time ago may be shown as before."""
    known = CHANGES.of_this_process()
    yield from known.forgotten()
    last = known.noted.get(change, float("-inf"))
    if answer is not (last + settling.settle_s > now()):
        yield f"{change} was {now() - last:g} s ago, which counts as {'' if answer else 'not '}recent"


def before_waiting(settling: Settling, *changes: str) -> tuple[float, float]:
    """When that was asked, and until when is to be waited."""
    return now(), CHANGES.of_this_process().last(changes) + settling.settle_s


def before_waiting_for_all(settling: Settling) -> tuple[float, float]:
    return before_waiting(settling, *CHANGES.of_this_process().noted)


def of_waiting(answer: bool, before: tuple[float, float], settling: Settling, *changes: str) -> Iterator[str]:
    """After it descriptions show these changes; it is said truly whether that had to be waited for."""
    asked_at, until = before
    if now() < until - 1e-6:
        yield f"{until - now():g} s too early it is said that {_any(changes)} shows"
    if answer is not (until > asked_at):
        yield f"it is said that {_any(changes)} was {'' if answer else 'not '}waited for"


def of_a_change(answer: Any, api: PacedApi, action: str, request: Mapping[str, Any]) -> Iterable[str]:
    """What a call that has ended changes, or may have changed, is to be noted at once."""
    known, volume = CHANGES.of_this_process(), request.get("VolumeId", "")
    if action == "AttachVolume":
        known.asked[f"attach {volume}"] = now()
    elif action == "DetachVolume":
        known.asked[f"detach {volume}"] = now()
        if isinstance(answer, Ec2Unreachable):
            known.asked[f"unanswered detach {volume} {request['InstanceId']}"] = now()
    elif action == "DeleteVolume" and not isinstance(answer, Exception):
        known.asked[f"delete {volume}"] = now()
    elif action == "CreateVolume":
        tags = {each["Key"]: each["Value"] for each in request["TagSpecifications"][0]["Tags"]}
        known.asked[f"create {tags['CSIVolumeName']}"] = now()
        if not isinstance(answer, Exception):
            known.made.add(answer["VolumeId"])
    return ()


def before_a_look(asker: Describe, name: str) -> float:
    return now()


def of_a_look(answer: object, before: float, asker: Describe, name: str) -> Iterable[str]:
    CHANGES.of_this_process().looked[name] = before
    return ()


def of_none_existing(
    answer: Volume | None, provisioner: provisioning.Provisioner, wanted: Any
) -> Iterator[str]:
    """That there is no volume of a name is known only by a look at which one that may have been made would
    show."""
    known = CHANGES.of_this_process()
    shows_from = known.last([f"create {wanted.name}"]) + known.settle_s - 1e-6
    if answer is None and known.looked.get(wanted.name, shows_from) < shows_from:
        yield f"{wanted.name} was not looked for when one that may have been made would show"


def of_creating(answer: Volume, provisioner: provisioning.Provisioner, wanted: Any) -> Iterator[str]:
    """What was made just now may still be missing in descriptions."""
    known = CHANGES.of_this_process()
    if answer.id in known.made and f"make {answer.id}" not in known.noted:
        yield f"{answer.id} was made, and that is not noted"


def _any(changes: Iterable[str]) -> str:
    return " or ".join(changes) or "any change"


QUESTIONS = (
    Question(Settling, "__init__", begins),
    Question(Settling, "note", notes),
    Question(Settling, "proves", of_a_proof),
    Question(Settling, "is_recent", of_recency),
    Question(Settling, "settle", of_waiting, before=before_waiting),
    Question(Settling, "settle_all", of_waiting, before=before_waiting_for_all),
    Question(PacedApi, "call", of_a_change, refusals=(Ec2Error, Ec2Unreachable)),
    Question(Describe, "volumes_named", of_a_look, before=before_a_look),
    Question(provisioning.Provisioner, "_existing", of_none_existing),
    Question(provisioning.Provisioner, "create", of_creating),
)
