"""Which order comes next, and what the answer to one is worth. Pure.

A *ladder* is a policy's list of rungs: mechanisms, each with those that must agree. A *round* is one way up.
An order is written before it is given (`FenceAttempt` without an outcome), so an attempt without one may have
happened, and is repeated with the same token, or heard out if it is not wanted any more. What counts is what
`judge` makes of an answer: a mechanism's own word that it has cut the machine off is enough only if it saw
the machine change from on to off, or had seen it on in this boot, or a second source agrees, and if no second
source contradicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mooring.fence.interface import Answer, Look, Outcome, Scope, State
from mooring.kube.objects.fencing import FenceAttempt, NodeFence, Rung
from mooring.kube.reason import Reason
from mooring.kube.times import parse_time


class Step(NamedTuple):
    """An order: which rung, under which token. `again`: it was written before, and its answer is not
    known."""

    round: int
    rung: int
    mechanism: str
    confirm_with: tuple[str, ...]
    token: str
    again: bool


class Judged(NamedTuple):
    """What an answer is worth, together with what second sources said."""

    outcome: Outcome
    reason: Reason


HEAR_OUT_S = 300.0
"""So long after a mechanism's deadline it is asked what came of an order that is given up."""
NOT_HEARD = "NotHeard"
MOST_RETRIES = 5
"""So often is a rung tried again, whatever the policy says: a fence keeps only its last attempts."""
MOST_ATTEMPTS, MOST_KEPT = 20, 50
"""So many of the last attempts are kept in a fence's status, and so many in all."""
CONTRADICTED, SECOND_SOURCE = "Contradicted", "SecondSourceNeeded"


def doubtful(ladder: Sequence[Rung], fence: NodeFence) -> Step | None:
    """The first order that may have struck, and of which that is not known. That a machine is off, as its
    mechanism claims and a second source does not confirm, was heard; what a storage shuts out is to be let
    in, whatever another says of it."""
    for each in filter(_is_doubtful, fence.status.attempts):
        same = each.rung < len(ladder) and ladder[each.rung].mechanism == each.mechanism
        confirm_with = ladder[each.rung].confirm_with if same else ()
        return Step(each.round, each.rung, each.mechanism, confirm_with, each.token, again=True)
    return None


def _is_doubtful(attempt: FenceAttempt) -> bool:
    claimed = attempt.reason in (CONTRADICTED, SECOND_SOURCE) and attempt.scope == Scope.POWER
    heard = attempt.outcome in (Outcome.FENCED, Outcome.NOT_FENCED) or attempt.reason == NOT_HEARD
    return not heard and not claimed


def kept(attempts: Sequence[FenceAttempt]) -> tuple[FenceAttempt, ...]:
    """Those that a fence keeps: the last ones, and of the earlier ones those by which something is decided
    yet. What an order of unknown outcome has shut out is let in by its token alone; on one that was in force,
    or seemed to be, another node may have got what this one had."""
    told = (Outcome.FENCED, CONTRADICTED)
    earlier = (
        each
        for each in attempts[:-MOST_ATTEMPTS]
        if _is_doubtful(each) or not {each.outcome, each.reason}.isdisjoint(told)
    )
    return (*earlier, *attempts[-MOST_ATTEMPTS:])[-MOST_KEPT:]


def is_asked_for(attempt: FenceAttempt) -> float:
    """For how many seconds after an order its mechanism is asked what came of it, if it is given up."""
    if not attempt.waits_until:
        return 0.0
    deadline = parse_time(attempt.waits_until) - parse_time(attempt.ordered_at)  # both of one clock
    return deadline.total_seconds() + HEAR_OUT_S


def times_of(fence: NodeFence) -> list[str]:
    """The times by which it is told how long ago something of the fence was done."""
    status = fence.status
    orders = [time for each in status.attempts for time in (each.ordered_at, each.answered_at)]
    return [each for each in (status.round_ended_at, status.verified_at, status.released_at, *orders) if each]


def name_for_tokens(fence: NodeFence) -> str:
    """One that no other fence has. A fence of the same boot has the name of a former one whose record was
    deleted; under a token of that one's a mechanism may answer what it has done then, and StorageFences that
    are not collected yet would be taken for its own."""
    return f"{fence.name}-{fence.uid}"


def next_step(
    ladder: Sequence[Rung], attempts: Sequence[FenceAttempt], round_: int, name: str
) -> Step | None:
    """The next order of this round; None if its ladder is at its end. `name`: of the fence, for tokens
    (`name_for_tokens`)."""
    mine = [each for each in attempts if each.round == round_]
    if not mine:
        return _step(ladder, round_, 0, 1, name)
    last = mine[-1]
    if not last.outcome and last.rung < len(ladder) and ladder[last.rung].mechanism == last.mechanism:
        rung = ladder[last.rung]
        return Step(round_, last.rung, rung.mechanism, rung.confirm_with, last.token, again=True)
    tries = sum(each.rung == last.rung for each in mine)
    retries = min(ladder[last.rung].retries, MOST_RETRIES) if last.rung < len(ladder) else 0
    if tries <= retries and last.reason not in (CONTRADICTED, SECOND_SOURCE):
        return _step(ladder, round_, last.rung, tries + 1, name)
    return _step(ladder, round_, last.rung + 1, 1, name)


def _step(ladder: Sequence[Rung], round_: int, rung: int, try_: int, name: str) -> Step | None:
    if rung >= len(ladder):
        return None
    token = f"{name}-{round_}-{rung}-{try_}"
    return Step(round_, rung, ladder[rung].mechanism, ladder[rung].confirm_with, token, again=False)


def judge(
    answer: Answer,
    confirmations: Mapping[str, Look],
    *,
    wanted: int,
    seen_open: bool,
    doubted: bool = False,
    again: bool = False,
) -> Judged:
    """What the answer is worth. `confirmations`: by mechanism, what it said after the answer. `wanted`: from
    how many mechanisms a word was asked for. `seen_open`: the mechanism had seen the machine on in this
    boot. `again`: the order was given before, perhaps: that it has no effect now says nothing of then."""
    if answer.outcome is not Outcome.FENCED:
        outcome = Outcome.UNKNOWN if again else answer.outcome
        return Judged(outcome, Reason(answer.code, answer.message))
    against = sorted(name for name, look in confirmations.items() if look.state is State.OPEN)
    if against:
        said = "; ".join(f"{name}: {confirmations[name].message}" for name in against)
        return Judged(
            Outcome.UNKNOWN, Reason(CONTRADICTED, f"{answer.message}; a second source disagrees ({said})")
        )
    agree = sorted(name for name, look in confirmations.items() if look.state is State.SHUT)
    if wanted and not agree:
        message = f"{answer.message}; none of the second sources that the policy asks for has agreed"
        return Judged(Outcome.UNKNOWN, Reason(SECOND_SOURCE, message))
    if doubted and not agree:
        message = (
            f"{answer.message}; it has said so of this boot before, and was wrong: a second source must agree"
        )
        return Judged(Outcome.UNKNOWN, Reason(SECOND_SOURCE, message))
    if answer.before is State.SHUT and not (agree or seen_open):
        message = (
            f"{answer.message}; it says that this was so before the order, and had never said otherwise in this "
            "boot: a second source must agree (confirmWith of the policy's rung)"
        )
        return Judged(Outcome.UNKNOWN, Reason(SECOND_SOURCE, message))
    agreed = f"; {', '.join(agree)} agree" if agree else ""
    return Judged(Outcome.FENCED, Reason(answer.code, f"{answer.message}{agreed}"))
