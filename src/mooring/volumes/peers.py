"""What nodes say of a node that the API server does not hear: the questions, the statements, and the words
on the wire. Pure; one form for the controller, which asks (`controllers.fencing`), and the agents
(`node.peers`).

The controller writes a question on the Nodes of a few peers; each sends the target a word over the network,
and states on its own Lease what came back. While all is well nothing is asked and nothing is written.

- *Who speaks*: a Node's Lease is written by that node alone (NodeRestriction), so a statement is its own.
- *About what*: a question has a nonce, and names the target's boot. The target proves that it has both by a
  keyed hash of the nonce, whose key is its boot ID: who has heard another boot has not heard this one.
- *When*: no clock is read here, and none is compared. A statement with a nonce was made after the question,
  and is as old as the controller's own clock says that its arrival is.
- What is stated starts a fence, or keeps one from being started. It is never evidence, and it never feeds a
  watchdog (`volumes.self_fence`).

All of it is text from outside: bounded here, and nothing that cannot be read is believed in part.
"""

from __future__ import annotations

import hmac
import re
from enum import StrEnum
from hashlib import sha256
from ipaddress import ip_address
from typing import NamedTuple, TypeVar

import msgspec

DOOR = "mooring.dev/peer-door"
"""On a Node: where its agent answers its peers, `ADDRESS:PORT` (UDP)."""
QUESTIONS = "mooring.dev/peer-questions"
"""On a Node, as JSON: about whom its agent is asked. Written by the controller `fencing`."""
STATEMENTS = "mooring.dev/peer-statements"
"""On a node's Lease, as JSON: what its agent has found."""
MOST_PEERS = 5
"""So many peers are asked about a node, and about so many nodes an agent answers."""
MOST_CHARACTERS = 4000
ASK_BYTES = 128
"""Length of a question on the wire, more than an answer's: a forged sender is sent less than it cost."""
_T = TypeVar("_T")
_NONCE = re.compile(r"[0-9a-f]{32}")
_ASKED = re.compile(rb"mooring-peer ask ([0-9a-f]{32}) *")
_SAID = re.compile(rb"mooring-peer say ([0-9a-f]{32}) ([0-9a-f]{64}) ([01])")


class Heard(StrEnum):
    """What came back."""

    YES = "Yes"
    NO = "No"
    ANOTHER_BOOT = "AnotherBoot"


class Question(msgspec.Struct, frozen=True, rename="camel"):
    """`door`: where the target's agent answers."""

    node: str
    boot_id: str = msgspec.field(name="bootID")
    door: str
    nonce: str


class Statement(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`hears_api`: the target said that the API server has acknowledged a renewal of its Lease just now."""

    node: str
    boot_id: str = msgspec.field(name="bootID")
    nonce: str
    heard: Heard
    hears_api: bool = msgspec.field(default=False, name="hearsAPI")


class Said(NamedTuple):
    """An answer on the wire."""

    nonce: str
    digest: str
    hears_api: bool


def door_of(text: str) -> tuple[str, int] | None:
    """Address and port of a door; None if that cannot be one."""
    address, _, port = text.rpartition(":")
    if len(text) > 60 or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536:
        return None
    try:
        found = ip_address(address.strip("[]"))
    except ValueError:
        return None
    return None if found.is_multicast or found.is_unspecified else (str(found), int(port))


def questions_of(text: str) -> tuple[Question, ...]:
    """At most `MOST_PEERS` questions that can be asked; none of a text that cannot be read as a whole."""
    found = _decoded(text, Question)
    usable = (each for each in found if _is_nonce(each.nonce) and each.boot_id and door_of(each.door))
    return tuple(usable)[:MOST_PEERS]


def statements_of(text: str) -> tuple[Statement, ...]:
    """At most `MOST_PEERS` statements; none of a text that cannot be read as a whole."""
    return tuple(each for each in _decoded(text, Statement) if _is_nonce(each.nonce))[:MOST_PEERS]


def _decoded(text: str, kind: type[_T]) -> tuple[_T, ...]:
    if len(text) > MOST_CHARACTERS:
        return ()
    try:
        return msgspec.json.decode(text, type=tuple[kind, ...])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ()


def encoded(what: tuple[Question, ...] | tuple[Statement, ...]) -> str:
    """As JSON; "" if there is nothing."""
    return msgspec.json.encode(what).decode() if what else ""


def _is_nonce(text: str) -> bool:
    return _NONCE.fullmatch(text) is not None


# --- on the wire


def ask(nonce: str) -> bytes:
    """The word to the target."""
    return f"mooring-peer ask {nonce} ".encode().ljust(ASK_BYTES)


def answer(asked: bytes, boot_id: str, *, hears_api: bool) -> bytes | None:
    """What the agent of this boot answers; None if that was no question."""
    found = _ASKED.fullmatch(asked) if len(asked) == ASK_BYTES else None
    if found is None:
        return None
    nonce = found[1].decode()
    return f"mooring-peer say {nonce} {_digest(boot_id, nonce, hears_api)} {int(hears_api)}".encode()


def said(data: bytes) -> Said | None:
    """An answer; None if it is none."""
    found = _SAID.fullmatch(data) if len(data) <= ASK_BYTES else None
    return Said(found[1].decode(), found[2].decode(), found[3] == b"1") if found else None


def heard(question: Question, what: Said | None) -> Heard:
    """What an answer, or that there was none, means for the boot that was asked about."""
    if what is None or what.nonce != question.nonce:
        return Heard.NO
    own = hmac.compare_digest(what.digest, _digest(question.boot_id, question.nonce, what.hears_api))
    return Heard.YES if own else Heard.ANOTHER_BOOT


def _digest(boot_id: str, nonce: str, hears_api: bool) -> str:
    key = boot_id.encode(errors="replace")
    return hmac.new(key, f"{nonce} {int(hears_api)}".encode(), sha256).hexdigest()
