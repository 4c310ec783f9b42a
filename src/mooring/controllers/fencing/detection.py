"""Whether a node is lost, and whether it may be fenced now: detectors, storms, budgets, worth. Pure.

No number of votes is evidence: they start a fence, or keep one from being started. What shows that a node is
cut off, a mechanism shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from mooring.kube.objects import Node
from mooring.kube.objects.fencing import Detector, FencePolicy
from mooring.kube.percentages import portion
from mooring.kube.reason import Reason
from mooring.kube.selectors import InvalidSelector, label_selector_of
from mooring.volumes.peers import Heard

ZONE = "topology.kubernetes.io/zone"
SHORTEST_S = 10.0
"""A peer's statement counts for so long at the least: asking takes some seconds."""
SOON_S = 0.1
"""What ends sooner is looked at again after so long: a wait that is less than a clock's step never ends."""
BUDGET_EXHAUSTED = "BudgetExhausted"
HEARD_BY_PEERS = "HeardByPeers"
"""Why a fence is not begun, and the condition that says so."""
PEERS_ASKED = "PeersAsked"
PEERS_MISSING = "PeersMissing"
STORAGE = "Storage"
"""The type of detector that goes by what a storage counts."""
SEEN_BY_STORAGE = "SeenByStorage"
"""Why a fence is not begun."""
FRESH_S = 30.0
"""So long counts that a storage has seen a node read or write."""
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


class Verdict(StrEnum):
    """What a detector says of a node."""

    LOST = "Lost"
    HEALTHY = "Healthy"
    UNKNOWN = "Unknown"


class Signal(NamedTuple):
    """One detector's word. `lasting`: for how many seconds it has been so. `patience`: for how many more
    seconds its first word is waited for."""

    detector: Detector
    verdict: Verdict
    lasting: float
    message: str
    patience: float = 0.0

    @property
    def lost(self) -> bool:
        return self.verdict is Verdict.LOST and self.lasting >= self.detector.for_seconds

    @property
    def lost_in(self) -> float:
        """After so many seconds it may count as lost, if nothing else comes; 0: it does, or it will not."""
        if self.verdict is Verdict.LOST:
            return max(self.detector.for_seconds - self.lasting, 0.0)
        return max(self.patience, self.detector.for_seconds) if self.patience > 0 else 0.0


class Vote(NamedTuple):
    """A peer's statement about the very boot. `age`: seconds since it came in here. `hears_api`: the node had
    told the peer that the API server hears it."""

    peer: str
    heard: Heard
    age: float
    hears_api: bool = False


class Poll(NamedTuple):
    """What peers say of a node. `asked`: whom; `patience`: for how many more seconds those are waited for
    that have not answered; `votes`: one of each peer at the most."""

    asked: tuple[str, ...] = ()
    patience: float = 0.0
    votes: tuple[Vote, ...] = ()


class Held(NamedTuple):
    """Why a fence is not begun now; `after`: seconds until that may change by itself, 0 if only a change
    does."""

    reason: Reason
    after: float = 0.0


class Loss(NamedTuple):
    """One node of a policy that is lost, or is being fenced. `priority`: the highest of the pods that wait
    for it. `waits`: it would be fenced, were the budget not used up. `unexplained`: it came back after what
    was ordered, and is lost again."""

    node: str
    zone: str
    control_plane: bool
    fencing: bool
    priority: int = 0
    waits: bool = False
    unexplained: bool = False

    @property
    def may_be_cut_off(self) -> bool:
        """Whether it may be the network that keeps it silent: then it counts in a storm."""
        return self.unexplained or not self.fencing


class Company(NamedTuple):
    """The nodes of the policy. `lost`: those that the first detectors call lost, and those being fenced.
    `calm_for`: seconds since there was last a storm."""

    size: int
    lost: tuple[Loss, ...]
    calm_for: float = float("inf")


class Stakes(NamedTuple):
    """What waits for the node. `exclusive`: what it has that no other node may use meanwhile, in words.
    `tolerated`: for how many more seconds all its pods tolerate it. `silent`: for how long it has been
    silent. `budgets_hold`: no PodDisruptionBudget of its pods is violated. `priority`: the highest of its
    pods that have something exclusive."""

    exclusive: tuple[str, ...] = ()
    tolerated: float = 0.0
    silent: float = 0.0
    budgets_hold: bool = False
    priority: int = 0


def policies_of(node: Node, policies: Iterable[FencePolicy]) -> list[FencePolicy]:
    """The policies that select the node; more than one is an overlap, and none of them counts then."""
    return [each for each in policies if not each.deleting and _selects(each, node)]


def _selects(policy: FencePolicy, node: Node) -> bool:
    """A selector that cannot be read selects nothing; the policy's status says so."""
    try:
        return label_selector_of(policy.spec.node_selector).matches(node.metadata.labels)
    except InvalidSelector:
        return False


def is_lost(signals: Sequence[Signal], policy: FencePolicy) -> Reason | Held:
    """The reason why it counts as lost, or what is missing for that, and after how many seconds that may have
    come by itself: detectors that have not said so for long enough, or are asked still."""
    lost = [each for each in signals if each.lost]
    healthy = [each for each in _apart_from_storage(signals) if each.verdict is Verdict.HEALTHY]
    quorum = policy.spec.quorum
    if quorum.veto and healthy:
        return Held(Reason("SeenHealthy", "; ".join(each.message for each in healthy)))
    missing = max(quorum.required, 1) - len(lost)
    if missing > 0:
        coming = sorted(each.lost_in for each in signals if each.lost_in > 0)
        after = coming[missing - 1] if len(coming) >= missing else 0.0
        said = "; ".join(each.message for each in signals) or "no detector says anything"
        words = f"{len(lost)} of {max(quorum.required, 1)} detectors say that it is lost: {said}"
        return Held(Reason("NotLost", words), after)
    return Reason("Lost", "; ".join(each.message for each in lost))


def _apart_from_storage(signals: Iterable[Signal]) -> list[Signal]:
    return [each for each in signals if each.detector.type != STORAGE]


def held_by_storage(node: str, policy: FencePolicy, signals: Sequence[Signal]) -> Held | None:
    """What a storage has against a fence of the node, where one detector may keep it from being fenced: that
    it reads or writes still. As a peer's word, it keeps a fence from being begun, and ends none."""
    if not policy.spec.quorum.veto:
        return None
    mine = [each for each in signals if each.detector.type == STORAGE]
    seen = [each for each in mine if each.verdict is Verdict.HEALTHY]
    if seen:
        said = "; ".join(each.message for each in seen)
        message = f"{node} reads or writes still, and is not fenced while it does: {said}"
        return Held(Reason(SEEN_BY_STORAGE, message), max(FRESH_S - each.lasting for each in seen))
    patience = max((each.patience for each in mine), default=0.0)
    if patience > 0:
        message = f"the storage is asked whether {node} reads or writes: it is looked at twice"
        return Held(Reason("StorageAsked", message), patience)
    return None


def held_by_peers(node: str, policy: FencePolicy, poll: Poll, *, starts: bool = True) -> Held | None:
    """What peers have against a fence of the node. `starts`: their word is needed for it, too, where the
    policy says so."""
    rules = policy.spec.peers
    if rules is None:
        return None
    live = [each for each in poll.votes if each.age < rules.expires_seconds]
    heard = [each for each in live if each.heard is Heard.YES]
    if rules.veto and heard:
        return Held(_heard_by(node, heard), max(rules.expires_seconds - each.age for each in heard))
    deaf = sorted(each.peer for each in live if each.heard is Heard.NO)
    missing = rules.required - len(deaf) if starts else 0
    silent = sorted(set(poll.asked) - {each.peer for each in live})
    if poll.patience > 0 and silent and (rules.veto or missing > 0):
        return Held(_asked(node, poll), poll.patience)
    if missing > 0:
        return Held(_missing(node, rules.required, deaf, poll))
    return None


def _asked(node: str, poll: Poll) -> Reason:
    message = f"peers of {node} are asked whether they hear it: {', '.join(poll.asked)}"
    return Reason(PEERS_ASKED, message)


def _missing(node: str, required: int, deaf: Sequence[str], poll: Poll) -> Reason:
    said = f"{', '.join(deaf) or 'none'} of the {len(poll.asked)} that were asked"
    message = f"the policy requires that {required} of its peers do not hear {node}, and {said} say so"
    return Reason(PEERS_MISSING, message)


def _heard_by(node: str, heard: Sequence[Vote]) -> Reason:
    names = ", ".join(sorted(each.peer for each in heard))
    connected = any(each.hears_api for each in heard)
    api = "says that the API server hears it" if connected else "says that the API server does not hear it"
    message = f"{node} answers its peers ({names}), and {api}: it is not fenced while one of them hears it"
    return Reason(HEARD_BY_PEERS, message)


def storm(node: str, signals: Sequence[Signal], policy: FencePolicy, company: Company) -> Held | None:
    """Many nodes lost at once are the network until proved otherwise. The node itself is one of them, also
    where an order of before may have struck it."""
    limits = policy.spec.storm
    others = sum(each.lost and each.detector.type not in ("Ready", STORAGE) for each in signals)
    if not limits.nodes or others >= max(limits.required, 1):
        return None
    names = sorted(each.node for each in company.lost if each.may_be_cut_off or each.node == node)
    if len(names) >= limits.nodes:
        message = (
            f"{len(names)} of {company.size} nodes were lost at once ({', '.join(names[:5])}): that is the network "
            "until a detector that does not use it says otherwise, or a person does"
        )
        return Held(Reason("Storm", message))
    left = limits.cooldown_seconds - company.calm_for
    return (
        Held(Reason("StormCooldown", "several nodes were lost at once a moment ago"), left)
        if left > 0
        else None
    )


def over_budget(node: Loss, policy: FencePolicy, company: Company) -> Held | None:
    """Whether one more fence were too many. Of nodes that wait for the budget, the one goes first whose pods
    have the highest priority."""
    node = next((each for each in company.lost if each.node == node.node), node)
    others = [each for each in company.lost if each.node != node.node]
    first = [each for each in others if each.waits and not each.fencing and each.priority > node.priority]
    for among, most, what in _limits(node, policy, company.size):
        fencing = sorted(each.node for each in others if each.fencing and among(each))
        if len(fencing) >= most:
            names = ", ".join(fencing[:5]) or "none"
            used = f"{len(fencing)} of at most {most} {what} are fenced already ({names})"
            return Held(Reason(BUDGET_EXHAUSTED, f"{used}: the policy's budget is used up"))
        ahead = sorted((each for each in first if among(each)), key=lambda each: -each.priority)
        if len(fencing) + len(ahead) >= most:
            message = (
                f"at most {most} {what} are fenced at once, and {ahead[0].node} goes first: its pods have priority "
                f"{ahead[0].priority}, those of {node.node} {node.priority}"
            )
            return Held(Reason(BUDGET_EXHAUSTED, message))
    return None


def _limits(node: Loss, policy: FencePolicy, size: int) -> Iterator[tuple[Callable[[Loss], bool], int, str]]:
    """Of which nodes at most how many are fenced at once, and what they are."""
    budget = policy.spec.budget
    if budget.max_concurrent:
        yield lambda each: True, budget.max_concurrent, "nodes"
    if budget.max_share:
        most = max(portion(budget.max_share, size, up=False), 1)
        yield lambda each: True, most, f"nodes ({budget.max_share} of {size})"
    if budget.max_per_zone and node.zone:
        yield lambda each: each.zone == node.zone, budget.max_per_zone, f"nodes of zone {node.zone}"
    if node.control_plane and budget.max_control_plane:
        yield lambda each: each.control_plane, budget.max_control_plane, "nodes of the control plane"


NOTHING_WAITS = "NothingWaits"


def not_worth(policy: FencePolicy, stakes: Stakes) -> Held | None:
    """Whether there is a reason to fence it now."""
    worth = policy.spec.worth
    if worth.only_exclusive and not stakes.exclusive:
        message = (
            "it has no volume and no pod of a StatefulSet that only it may have: nothing waits for a fence"
        )
        return Held(Reason(NOTHING_WAITS, message))
    if worth.forgiveness == "Honour" and stakes.tolerated > 0:
        message = "its pods tolerate that it does not answer, for a while yet"
        return Held(Reason("Tolerated", message), stakes.tolerated)
    left = worth.patience_seconds - stakes.silent
    if left > 0 and stakes.budgets_hold:
        message = (
            f"no disruption budget of its pods is violated: it has {worth.patience_seconds:g} s to come back"
        )
        return Held(Reason("Patience", message), left)
    return None


def loss_of(node: Node, fencing: bool) -> Loss:
    labels = node.metadata.labels
    return Loss(node.name, labels.get(ZONE, ""), any(each in labels for each in CONTROL_PLANE), fencing)
