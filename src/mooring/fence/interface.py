"""What every fence mechanism can do: say whether it could, do it, look whether it holds, take it back.

Guarantees of every mechanism:

- Three outcomes. FENCED only with evidence: what was read, from where, *after* the order was answered.
  NOT_FENCED only if the order certainly had no effect. All else is UNKNOWN, which releases nothing: no
  answer, a deadline, a device that says one thing and then another.
- `fence` may be called again with the same token, also after a crash at any point, and does no more harm than
  once. No mechanism turns a machine on, or resets it, where `fence` was asked for.
- Only `fence` and `unfence` change anything. `problems` and `look` do not.
- What the mechanism knows of the target (`Target`) is compared before anything is done; a device that shows
  another identity is left alone (NOT_FENCED, WrongTarget).
- No secret is in an argument of a program, in a message, in evidence or in a log.
- An answer comes within `Order.deadline`, and no process or connection outlives it.

A mechanism keeps nothing between calls, and knows no Kubernetes. It does not decide whether a machine should
be fenced, nor whether its own word is enough: `controllers.fencing` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable


class Scope(StrEnum):
    """What a fence that holds shows, and so what may be released."""

    POWER = "Power"
    """Nothing of that boot runs any more: its pods, and all its volumes."""
    STORAGE = "Storage"
    """The volumes that the mechanism `covers` cannot be written from there: those, and no pod."""
    NETWORK = "Network"
    """Nothing of the machine gets through: volumes that are reached solely through what was cut, and no
    pod."""


class Outcome(StrEnum):
    """Of a call that was to change something."""

    FENCED = "Fenced"
    NOT_FENCED = "NotFenced"
    UNKNOWN = "Unknown"
    UNFENCED = "Unfenced"
    """Of `unfence` alone: what was shut is open again, and was seen to be."""


class State(StrEnum):
    """What a look finds."""

    SHUT = "Shut"
    """Off, or shut out."""
    OPEN = "Open"
    """On, or let in."""
    UNKNOWN = "Unknown"
    """It does not answer, or what it says is neither: paused, suspended, not found."""


@dataclass(frozen=True)
class Volume:
    """One volume of the target, as its storage names it. `server`: where it is served (`10.88.0.3:3260`), ""
    if it is not over a network; `name`: what it is called there (`IQN,LUN`, an export's path)."""

    name: str
    server: str = ""


@dataclass(frozen=True)
class Target:
    """One boot of one machine, as it was known while it lived; "" and () where nothing is known."""

    node: str
    node_uid: str
    boot_id: str
    provider_id: str = ""
    """As the Node's spec: `aws:///us-east-1a/i-0123`."""
    system_uuid: str = ""
    """What the machine's firmware tells (SMBIOS)."""
    bmc_guid: str = ""
    """What its BMC tells of itself."""
    launched: str = ""
    """Of a cloud's instance: when it was launched (RFC 3339)."""
    addresses: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()
    initiators: tuple[str, ...] = ()
    """Names under which its kernel logs in at storage: IQNs, NQNs."""
    volumes: tuple[Volume, ...] = ()


@dataclass(frozen=True)
class Order:
    """What a mechanism is given. `parameters` are the mechanism's own, with those of the node laid over them;
    `secrets` likewise, from a Secret. `token` names this fence: an order that is repeated has the same one.
    `deadline` in seconds from the call."""

    target: Target
    token: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    deadline: float = 60.0


@dataclass(frozen=True)
class Look:
    """What was read. `identity`: what the device says of whom it would shut out (`systemUUID`, `guid`,
    `instance`, `launched`): facts that can be compared; empty if it tells none. `code` is CamelCase and
    stable."""

    state: State
    code: str
    message: str
    identity: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Sessions:
    """What a storage has of the target: logins, connections, watches. SHUT: it refuses the target, and has
    none of it. OPEN: it lets it in, or has one still. `moved`: by session and volume, how much the target has
    read and written so far; it only grows while the session lasts. None if the storage does not count."""

    state: State
    message: str
    moved: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Answer:
    """How `fence` or `unfence` ended. `evidence`: facts that were read after the order was answered, for
    people and for the record. `before`: what was found before the order: the word of a device that a machine
    was off already is weaker than that it went off (`State.SHUT`), and its receiver asks a second source."""

    outcome: Outcome
    code: str
    message: str
    evidence: Mapping[str, str] = field(default_factory=dict[str, str])
    before: State = State.UNKNOWN


@dataclass(frozen=True)
class Parameter:
    """One parameter of a mechanism. `secret`: it comes from a Secret, and is refused anywhere else.
    `per_node`: it has to differ between nodes (a socket's number)."""

    summary: str
    required: bool = False
    secret: bool = False
    per_node: bool = False


class Mechanism(Protocol):
    """One kind of mechanism; stateless, so that one object serves all nodes."""

    @property
    def kind(self) -> str:
        """As a FenceMechanism's `spec.type` and the entry point name it."""
        ...

    @property
    def scope(self) -> Scope: ...

    @property
    def summary(self) -> str:
        """A sentence for a person who chooses."""
        ...

    @property
    def parameters(self) -> Mapping[str, Parameter]: ...

    def problems(self, order: Order) -> list[str]:
        """What is wrong with the parameters, in sentences, and which program is not installed; empty if an
        order could be given. Changes and asks nothing."""
        ...

    async def look(self, order: Order) -> Look:
        """What is true of the target now, by this mechanism's own reading. Without harm: `mooring fence test`
        calls it, too."""
        ...

    async def fence(self, order: Order) -> Answer:
        """Cuts the target off, and looks that it is."""
        ...

    async def unfence(self, order: Order) -> Answer:
        """Takes it back. Of a power mechanism: switches the machine on. Only called when the caller knows
        that nothing of the old boot is left."""
        ...


@runtime_checkable
class StorageMechanism(Mechanism, Protocol):
    """A mechanism of scope Storage or Network that knows which volumes it shuts the target out of. One that
    does not releases none."""

    def covers(self, order: Order, volume: Volume) -> bool:
        """Whether nothing of the target reaches the volume, by that name and at that server, while the fence
        holds. False where it is not certain. Asks nothing."""
        ...


@runtime_checkable
class SessionMechanism(StorageMechanism, Protocol):
    """One whose storage tells of every session by which the target reaches what the mechanism `covers`. After
    a fence it may be let in again in the same boot; by another one, only after a new boot. Where the storage
    counts, it may be a detector."""

    async def sessions(self, order: Order) -> Sessions:
        """What the storage has of the target now, read after this was called. Changes nothing."""
        ...
