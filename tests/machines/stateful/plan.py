"""The faults of a run, drawn by a seed. Pure.

Each fault is dealt once before any is dealt a second time, so that a run of some length has each of them;
with some of them another one of the control plane happens meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Family(StrEnum):
    """The six that the pod safety proposal of 2016 wants to be played with real stateful sets; and beside
    them what happens to machines, and what users do."""

    NODE_API = "node and API server"
    NODES = "node and node"
    STORE = "API server and its store"
    CONCURRENT = "concurrent controllers"
    CONTROLLERS = "controllers"
    AGENTS = "agents"
    POWER = "machines"
    USERS = "users"


@dataclass(frozen=True)
class Fault:
    """`name` is a method of `nemesis.Nemesis`. `shortest`, `longest`: how long it lasts, in seconds. `cut`:
    it needs links that can be cut from that end, as `mooring node cut --from` names it."""

    name: str
    family: Family
    about: str
    shortest: float = 0
    longest: float = 0
    cut: str = ""


FAULTS = (
    Fault("cut_from_api", Family.NODE_API, "a node's link to the API server is cut", 3, 20, cut="api"),
    Fault("stop_api_server", Family.NODE_API, "SIGSTOP of the API server: no part reaches it", 3, 20),
    Fault("kill_api_server", Family.NODE_API, "kill -9 of the API server"),
    Fault("cut_from_peers", Family.NODES, "a node's links to the other nodes are cut", 3, 20, cut="peers"),
    Fault("cut_from_all", Family.NODES, "all links of a node are cut", 3, 20, cut="all"),
    Fault(
        "lock_store",
        Family.STORE,
        "another process holds the write lock of the API server's database: no write is accepted",
        6,
        20,
    ),
    Fault(
        "kill_api_server_while_it_writes",
        Family.STORE,
        "kill -9 of the API server in a burst of writes to its store",
    ),
    Fault("kill_controllers", Family.CONTROLLERS, "kill -9 of the controllers"),
    Fault(
        "stop_controllers",
        Family.CONTROLLERS,
        "SIGSTOP of the controllers: they go on with what they knew",
        3,
        20,
    ),
    Fault(
        "double_controllers",
        Family.CONCURRENT,
        "a second process of all controllers, without election",
        5,
        20,
    ),
    Fault("kill_agent", Family.AGENTS, "kill -9 of an agent"),
    Fault("stop_agent", Family.AGENTS, "SIGSTOP of an agent: its pods go on", 3, 20),
    Fault("lose_power", Family.POWER, "a node loses power, and boots", 0.5, 15),
    Fault("lose_machine", Family.POWER, "a node loses power; it is confirmed dead, and boots later", 1, 8),
    Fault("lose_all_power", Family.POWER, "all nodes lose power at once, and boot", 0.5, 5),
    Fault("drain", Family.USERS, "a node is drained", 1, 5),
    Fault("delete_pod", Family.USERS, "a pod is deleted"),
    Fault("force_delete_pod", Family.USERS, "a pod is deleted with grace period 0"),
)
BESIDE = frozenset({"kill_api_server", "kill_controllers", "kill_agent"})
"""Those that may happen in the middle of another one: they heal by themselves."""
SHARE_BESIDE = 0.3


@dataclass(frozen=True)
class Step:
    """After `pause` seconds, the fault, for `lasts` seconds, on that node or pod (numbers that are taken
    modulo how many there are); and `beside` in its middle."""

    fault: Fault
    pause: float
    lasts: float
    node: int
    pod: int
    beside: Fault | None = None


def draw(random: Random, faults: Sequence[Fault] = FAULTS, *, longest: float = 20) -> Iterator[Step]:
    """Yields steps for ever. None lasts longer than `longest` seconds."""
    beside = [each for each in faults if each.name in BESIDE]
    while True:
        deck = list(faults)
        random.shuffle(deck)
        for fault in deck:
            among = random.choice(beside) if beside and random.random() < SHARE_BESIDE else None
            yield Step(
                fault,
                pause=random.uniform(1, 5),
                lasts=min(longest, random.uniform(fault.shortest, fault.longest)),
                node=random.randrange(1000),
                pod=random.randrange(1000),
                beside=among if among is not fault else None,
            )
