"""What the driver does to attach and detach, by docs/ebs.md ("Again, and after a crash") and by upstream's
experience of what EC2 shows (issues 389, 801, 1674, 2005, 2833)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mooring.csi.errors import Code, CsiError
from mooring.ebs.controller_service import attaching
from mooring.ebs.controller_service.attaching import Attacher
from mooring.ebs.controller_service.attachment_steps import Step
from mooring.ebs.controller_service.detaches import Detach, PendingDetaches
from mooring.ebs.ec2.records import Attachment, Instance, Volume
from mooring.ebs.errors import EbsError
from mooring.simulation.checks.second_opinions import near_ebs
from mooring.simulation.checks.second_opinions.ebs_device_names import NAMES, plain
from mooring.simulation.checks.second_opinions.ebs_settling import CHANGES, Changes
from mooring.simulation.checks.second_opinions.memories import Memories, now
from mooring.simulation.checks.second_opinions.question import Question

STUCK_S = 90.0
SLOW_S = 60.0
TRIES = 5


@dataclass
class Seen:
    """Since when an attach has been seen attaching."""

    since: float | None = None


SEEN = Memories(Seen)
UNDER_WAY = ("detaching", "busy")


def of_the_next_step(
    answer: Step | CsiError,
    volume: Volume,
    node: str,
    mine: str,
    proven: bool,
    attaching_s: float,
    stays: bool,
) -> Iterator[str]:
    """Attached is success, if that is proven, or what this attach itself has made, and nothing can end any
    more. Attaching and detaching are waited for; an attach of more than 90 s is taken back. Attached
    elsewhere is an error only if it is proven. Nothing is asked for again before its effect would show."""
    here = [each for each in volume.attachments if each.instance_id == node]
    if here:
        device, state = here[0].device, here[0].state
        is_mine = mine != "" and plain(device) == plain(mine)
        expected: Any = Step.WAIT
        if state == "attached" and (proven or (stays and is_mine)):
            expected = Step.DONE
        elif state == "attaching" and attaching_s > STUCK_S:
            expected = Step.GIVE_UP
    elif volume.attachments and not volume.multi_attach:
        expected = Code.FAILED_PRECONDITION if proven else Step.WAIT
    else:
        may_ask = Step.ATTACH if proven or not mine else Step.WAIT
        by_state = {"creating": Step.WAIT, "available": may_ask, "in-use": may_ask}
        expected = by_state.get(volume.state, Code.FAILED_PRECONDITION)
    chosen = answer.code if isinstance(answer, CsiError) else answer
    if chosen is not expected:
        where = [(each.instance_id, each.state) for each in volume.attachments]
        yield f"{volume.id} ({volume.state}, {where}) is to be attached to {node}: {chosen}, not {expected}"


def of_what_is_shown(answer: str, volume: Volume, node: str) -> Iterator[str]:
    """The words for people say the state; of an attachment also its device, and that "busy" means in use."""
    here = [each for each in volume.attachments if each.instance_id == node]
    said = (here[0].state, here[0].device, node) if here else (volume.state,)
    if not all(each in answer for each in said) or ("open or mounted" in answer) is not ("busy" in said):
        yield f"of {volume.id} on {node} it is said: {answer}"


def of_how_long(answer: float, attacher: Attacher, volume: Volume, node: str, work: Any) -> Iterator[str]:
    """For how long it is attaching: since this process has seen it so first, if this operation has not begun
    it; else since the operation has, which cannot be before. Nothing else is attaching."""
    here = [each for each in volume.attachments if each.instance_id == node and each.state == "attaching"]
    seen = SEEN.of(work)
    seen.since = None if not here else now() if seen.since is None else seen.since
    if seen.since is None:
        if answer:
            yield f"{volume.id} is not attaching to {node}, and counts as so for {answer:g} s"
    elif answer < now() - seen.since:
        yield f"{volume.id} is attaching to {node}, and its time is not counted from when it was seen so"
    elif work.device and answer > now() - seen.since:
        yield f"{volume.id} was asked for here, and its time is counted from before it was seen attaching"


def of_an_attach(answer: object, attacher: Attacher, volume_id: str, node: str, *_: bool) -> Iterator[str]:
    """When it has ended, however it has, no device name is kept for it."""
    if volume_id in NAMES.of(vars(attacher)["_names"])[node].reserved:
        yield f"a device name of {node} is kept for {volume_id}, and nothing attaches it any more"


def of_a_due_request(
    answer: bool, attacher: Attacher, volume_id: str, attachment: Attachment | None, is_requested: bool,
    requested_at: float,
) -> Iterator[str]:  # fmt: skip
    """DetachVolume is sent once in any case, and again if it is still shown attached after it would show; not
    while EC2 detaches."""
    state, known = attachment.state if attachment else "", CHANGES.of_this_process()
    if state in UNDER_WAY:
        expected = False
    else:
        expected = not is_requested or (
            state != "" and _age(known, requested_at, volume_id) >= known.settle_s
        )
    told = _in_flight(vars(attacher)["_detaches"], volume_id, attachment.instance_id) if attachment else ()
    if attachment is not None and state not in [each.state for each in told]:
        yield f"{volume_id} is shown as {state}, which is not told of its detach"
    if answer is not expected:
        yield f"{volume_id} is {state or 'not attached'}, and DetachVolume is {'' if answer else 'not '}sent"


def of_one_in_flight(answer: object, detaches: PendingDetaches, volume: str, node: str) -> Iterator[str]:
    """What has ended is in flight no more; of one volume and node there is one at a time."""
    if _in_flight(detaches, volume, node):
        yield f"a detach of {volume} from {node} that has ended still counts as in flight"


def of_a_slow_one(answer: None, detach: Detach, state: str, device: str, at: float) -> Iterator[str]:
    """What takes more than a minute is told, with the state that EC2 showed last."""
    if detach.state != state or vars(detach)["_is_logged"] is not (at - detach.since > SLOW_S):
        yield f"the detach of {detach.volume} is {state} after {at - detach.since:g} s, which is not told so"


def of_a_request(
    answer: Any, attacher: Attacher, volume: Volume, instance: Instance, cards: int
) -> Iterator[str]:
    """AttachVolume names what is attached to what, as a device that is free there; and a card if there are
    several (`cards` 0: it is not known how many)."""
    fields = {"VolumeId": volume.id, "InstanceId": instance.id}
    if any(answer.get(name) != value for name, value in fields.items()):
        yield f"{volume.id} is to be attached to {instance.id}, and what is asked for is {answer}"
    if ("EbsCardIndex" in answer) is not (cards > 1) or not 0 <= answer.get("EbsCardIndex", 0) < max(
        cards, 1
    ):
        yield f"{instance.id} has {cards} cards, and what is asked for is {answer}"


def tries(attacher: Attacher, volume: Volume, node: str, work: Any) -> int:
    return work.tries


def of_a_try(
    answer: object, before: int, attacher: Attacher, volume: Volume, node: str, work: Any
) -> Iterator[str]:
    """An attach asks five times, and then gives up."""
    if work.tries != min(before + 1, TRIES) or (before >= TRIES and not isinstance(answer, CsiError)):
        yield f"{volume.id} on {node} was asked for {before} times, then {work.tries}, which ends with {answer!r}"


def of_what_is_done(answer: str, attacher: Attacher, volume: Volume, node: str) -> Iterator[str]:
    """The device name that is answered is the one that EC2 shows; it is refused no more."""
    if plain(answer) in NAMES.of(vars(attacher)["_names"])[node].refused:
        yield f"{volume.id} is attached to {node} as {answer}, which still counts as refused"
    if [answer] != [each.device for each in volume.attachments if each.instance_id == node] or not answer:
        yield f"{volume.id} on {node} is answered as {answer}"


def of_an_instance(answer: Instance, attacher: Attacher, node: str) -> Iterator[str]:
    """Nothing is attached to an instance that goes."""
    if answer.id != node or answer.state in ("shutting-down", "terminated"):
        yield f"a volume is attached to {node}, and {answer.id} is {answer.state}"


def of_detaching(answer: None, attacher: Attacher, volume_id: str, node: str) -> Iterator[str]:
    """It has ended only now, whenever it was asked for: for a while it may go on being shown."""
    if node.startswith("i-") and CHANGES.of_this_process().noted.get(f"detach {volume_id}") != now():
        yield f"{volume_id} is detached from {node}, and when that was is not noted"


def _in_flight(detaches: PendingDetaches, volume_id: str, node: str) -> list[Detach]:
    pending: list[Detach] = vars(detaches)["_pending"]
    return [each for each in pending if (each.volume, each.node) == (volume_id, node)]


def _age(known: Changes, requested_at: float, volume_id: str) -> float:
    return requested_at - known.last([f"detach {volume_id}"])


QUESTIONS = (
    Question(attaching, "next_step", of_the_next_step, refusals=(CsiError,), near=near_ebs.OF_A_STEP),
    Question(attaching, "shown", of_what_is_shown),
    Question(Attacher, "attach", of_an_attach, refusals=(CsiError, EbsError)),
    Question(Attacher, "_attaching_s", of_how_long),
    Question(Attacher, "_is_request_due", of_a_due_request),
    Question(Attacher, "_detach", of_detaching),
    Question(Attacher, "_request", of_a_request),
    Question(Attacher, "_done", of_what_is_done),
    Question(Attacher, "_instance", of_an_instance),
    Question(Attacher, "_request_attach", of_a_try, before=tries, refusals=(CsiError, EbsError)),
    Question(Detach, "saw", of_a_slow_one),
    Question(PendingDetaches, "waiting", of_one_in_flight),
)
