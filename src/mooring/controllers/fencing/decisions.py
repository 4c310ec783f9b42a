"""What is decided about a node, and about a fence: the words of it. Pure."""

from __future__ import annotations

from enum import Enum

from mooring.controllers.fencing.ladder import Step
from mooring.kube.decision import Decision
from mooring.kube.reason import Reason


class Begin(Enum):
    """What to do about a node."""

    NO = "No"  # nothing speaks for a fence
    HOLD = "Hold"  # it is lost, and a fence is not begun
    FENCE = "Fence"


class NodeDecision(Decision[Begin], frozen=True, gc=False):
    """Whether a node is to be fenced. `after`: seconds until that may change by itself; 0 if only a change
    does. `left`: for so many seconds more, at the most, does the reason hold that keeps it from being fenced;
    0 if that is not known. `policy`: the one that decides."""

    after: float = 0.0
    left: float = 0.0
    policy: str = ""


class Action(Enum):
    """What a fence does next."""

    FREEZE = "Freeze"  # write down whom it is about
    WAIT = "Wait"
    REOPEN = "Reopen"  # one that was cancelled
    ORDER = "Order"
    HEAR_OUT = "HearOut"  # an order that is not wanted any more, and has no answer
    END_ROUND = "EndRound"
    RELEASE = "Release"
    WITHDRAW = "Withdraw"
    VERIFY = "Verify"
    STOP_RELEASING = "StopReleasing"  # its node may be let in
    LOOK_FOR_REST = "LookForRest"  # whether nothing is left there, live
    UNFENCE = "Unfence"  # of a mechanism
    CLOSE = "Close"  # it is over
    KEEP = "Keep"  # one that is over, as a record, as its order may strike still
    LET_GO = "LetGo"  # nothing holds its record any more
    SETTLED = "Settled"


class FenceDecision(Decision[Action], frozen=True, gc=False):
    """What one NodeFence does next. `step`: the order; `after`: seconds until it is decided again; `left`: as
    a `NodeDecision` has it."""

    phase: str = ""
    step: Step | None = None
    after: float = 0.0
    left: float = 0.0


def do(action: Action, phase: str, reason: Reason) -> FenceDecision:
    return FenceDecision(action, reason, phase)
