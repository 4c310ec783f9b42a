"""What a node's agent announces of the watchdog that resets its machine, and how long a silence shows that it
has. Pure; one rule for the agent, which keeps it (`node.self_fence`), and the controller, which trusts it
(`controllers.fencing.host_agent`).

A hardware watchdog resets its machine W seconds after it was last fed, whatever the machine does. The agent
feeds it on acknowledged renewals of the node's Lease, and by nothing else. *Invariant*: if the API server has
no renewal by a boot after one that announced W, then at the latest `longest` seconds after the agent sent
that one, nothing of that boot runs. No peer is asked, and nothing but an acknowledged renewal postpones it.

- *Sending is before observing.* The agent takes its time before a renewal is sent, and has fed for the one
  before by then: so that feeding was no later than the sending. The controller counts from when it has seen
  the renewal, which is later than both. The wait of the one thus contains that of the other, whatever the two
  clocks show; no time is ever compared between machines.
- *Why several W.* (1) The agent may be stopped between its decision to feed and the feeding; but no longer
  than W after the feeding before, or the machine is reset. (2) Linux feeds a watchdog once more when its
  device is closed, so also when the agent is killed: at most W after that. (3) Then W passes. A watchdog
  without (2) takes 2 W, one with it 3 W. An agent that starts anew opens the device only on an acknowledged
  renewal of its own, so one that crashes again and again does not feed by it.
- *Drift.* Agent, watchdog and controller count on clocks of their own; together they differ by less than
  `DRIFT`. `MARGIN_S` is for what was on its way to the storage, and for watchdogs that count coarsely.
- *The controller restarts, or another leads*: it has observed nothing, and counts anew. *It is paused*: a
  renewal may wait unread meanwhile, so the Lease is read live at the end, and must still be the one observed.
- *The machine is paused* (SIGSTOP, a debugger, a hypervisor): the watchdog is outside and goes on. One that
  stands still with the machine never counts: Linux's "Software Watchdog", and those that a hypervisor plays.
  A machine that sleeps (suspend) stops most watchdogs: it must not (docs/fencing.md).
- *An answer is lost*: the renewal was made, the controller counts from it, and the agent does not feed: it
  is early.
- *The agent is killed*, or hangs: nothing feeds. The device is closed without the word that disarms it.
- *A shorter time is announced than was armed*: the announcement has what the device says after it was armed,
  and a start under other settings withdraws the announcement before it touches the device.
- *It is disarmed*: only after a renewal without announcement was acknowledged. Then no later read finds the
  announcement; and who found it before then, found a renewal that is less than `longest` old.
- *The boot changes, or the agent is one that knows nothing of this* and leaves the annotation as it was: an
  announcement names its boot and its own renewal, and counts for no other.
- *The agent's own deadline* (`limit`, CLOCK_BOOTTIME, from sending) is shorter than W: it ends pods and
  unmounts while the machine still runs. That spares data; the evidence does not rest on it.
"""

from __future__ import annotations

import math

import msgspec

from mooring.kube.objects import Lease

ANNOUNCEMENT = "mooring.dev/self-fence"
"""On the node's Lease, which only the node itself may write (NodeRestriction): announcement and renewal are
one write, so neither is ever seen without the other."""
DRIFT = 0.05
"""By so much of the time the three clocks may differ; quartz does by a thousandth of it."""
MARGIN_S = 5.0
MOST_CHARACTERS = 2000
MOST_WORDS = 300
SOFTWARE = ("software watchdog", "softdog")
"""What identities of watchdogs that the machine's own kernel plays contain."""


class Announcement(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Of one boot, in one renewal. `renewed`: the renewal's time, as a name of it. `device`: what the
    watchdog calls itself. `timeout_seconds`: W, as the device says after it was armed. `fed_by_close`:
    closing it feeds it. `limit_seconds`: after so long without an acknowledged renewal the agent ends its
    pods. `problem`: why no watchdog is armed; then the rest says nothing."""

    boot_id: str = msgspec.field(default="", name="bootID")
    renewed: str = ""
    device: str = ""
    timeout_seconds: float = 0.0
    fed_by_close: bool = True
    limit_seconds: float = 0.0
    problem: str = ""


def announcement_of(lease: Lease) -> Announcement | None:
    """What the Lease announces; None if nothing, or nothing that can be read. It is the node's word: bounded
    here, and its numbers are usable."""
    text = lease.metadata.annotations.get(ANNOUNCEMENT, "")
    if not text or len(text) > MOST_CHARACTERS:
        return None
    try:
        found = msgspec.json.decode(text, type=Announcement)
    except msgspec.DecodeError:
        return None
    usable = math.isfinite(found.timeout_seconds) and found.timeout_seconds > 0
    return found if usable or found.problem else None


def encoded(announcement: Announcement) -> str:
    return msgspec.json.encode(announcement).decode()


def is_software(identity: str) -> bool:
    """Whether a watchdog of this identity stands still with the machine that it is to reset."""
    return any(each in identity.lower() for each in SOFTWARE)


def longest(announcement: Announcement) -> float:
    """Seconds from the sending of a renewal, after which no other was acknowledged, until nothing of the boot
    runs: see the invariant, "Why several W"."""
    return announcement.timeout_seconds * (3 if announcement.fed_by_close else 2)


def silence_needed(announcement: Announcement) -> float:
    """Seconds on the observer's clock, from when it observed the last renewal, that are evidence."""
    return longest(announcement) * (1 + DRIFT) + MARGIN_S
