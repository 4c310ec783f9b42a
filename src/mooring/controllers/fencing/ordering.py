"""Gives a mechanism its order, and hears its answer out.

A mechanism is another's code: whatever it raises, and however long it takes, is an unknown outcome. What it
is given comes from a FenceMechanism, its Secrets (read live, and kept nowhere) and the fence's target. The
FenceMechanism says by a node's name which device, and which outlet of it, is the node's: who orders by one,
or asks it about a fence, reads it live before. By an earlier description another machine would be struck.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from mooring.fence.interface import (
    Answer,
    Look,
    Mechanism,
    Order,
    Outcome,
    SessionMechanism,
    Sessions,
    State,
    Target,
)
from mooring.kube.client import Client
from mooring.kube.errors import KubeError
from mooring.kube.objects import Secret
from mooring.kube.objects.fencing import FenceMechanism, FenceTarget, SecretReference

GRACE_S = 5.0
"""So long past its deadline a mechanism is waited for."""
MOST_MESSAGE = 500
T = TypeVar("T")


class NotUsable(Exception):
    """A mechanism that cannot be ordered; the message says which, and what is wrong with it."""


class Given(NamedTuple):
    """A mechanism and what it is given."""

    mechanism: Mechanism
    order: Order


async def prepare(
    client: Client,
    kinds: Mapping[str, Mechanism],
    record: FenceMechanism | None,
    name: str,
    target: FenceTarget,
    token: str = "",
) -> Given:
    """Raises NotUsable."""
    if record is None:
        raise NotUsable(f"there is no FenceMechanism {name}")
    mechanism = kinds.get(record.spec.type)
    if mechanism is None:
        known = ", ".join(sorted(kinds)) or "none"
        raise NotUsable(
            f"FenceMechanism {name} has type {record.spec.type!r}, which is not installed: there are {known}"
        )
    node = target.node_name
    secrets = await _secret(client, name, record.spec.secret_ref)
    secrets |= await _secret(client, name, record.spec.node_secret_refs.get(node))
    parameters = {**record.spec.parameters, **record.spec.nodes.get(node, {})}
    order = Order(
        _target(target, target.identities.get(name, {})),
        token,
        parameters,
        secrets,
        _deadline(record),
    )
    if problems := mechanism.problems(order):
        raise NotUsable(f"FenceMechanism {name}: {'; '.join(problems)}")
    return Given(mechanism, order)


def _deadline(record: FenceMechanism) -> float:
    return max(record.spec.timeout_seconds, 1.0)


def longest(record: FenceMechanism) -> float:
    """Seconds after which an order to it is waited for no longer."""
    return _deadline(record) + GRACE_S


async def _secret(client: Client, name: str, reference: SecretReference | None) -> dict[str, str]:
    if reference is None:
        return {}
    where = f"{reference.namespace}/{reference.name}"
    try:
        secret = await client.find(Secret, reference.name, reference.namespace)
    except KubeError as error:
        raise NotUsable(f"FenceMechanism {name}: Secret {where} cannot be read: {error}") from error
    if secret is None:
        raise NotUsable(f"FenceMechanism {name}: there is no Secret {where}")
    try:
        return {key: base64.b64decode(value, validate=True).decode() for key, value in secret.data.items()}
    except (binascii.Error, UnicodeDecodeError):
        raise NotUsable(f"FenceMechanism {name}: Secret {where} has a value that is no text") from None


def _target(target: FenceTarget, identity: Mapping[str, str]) -> Target:
    return Target(
        target.node_name,
        target.node_uid,
        target.boot_id,
        target.provider_id,
        target.system_uuid,
        bmc_guid=identity.get("guid", ""),
        launched=identity.get("launched", ""),
        addresses=target.addresses,
    )


async def fence(given: Given) -> Answer:
    return await _heard(given, given.mechanism.fence(given.order), _no_answer)


async def unfence(given: Given) -> Answer:
    return await _heard(given, given.mechanism.unfence(given.order), _no_answer)


async def look(prepared: Awaitable[Given]) -> Look:
    """What the mechanism says of the target now. Of one that is not usable, UNKNOWN. `prepared`: by
    `prepare`."""
    try:
        given = await prepared
    except NotUsable as error:
        return _no_look("NotUsable", str(error))
    return await _heard(given, given.mechanism.look(given.order), _no_look)


async def sessions(prepared: Awaitable[Given], *, longest: float = math.inf) -> Sessions:
    """What the mechanism's storage has of the target now; it is waited for `longest` seconds at the most. Of
    one that is not usable or does not tell, UNKNOWN."""
    try:
        given = await prepared
    except NotUsable as error:
        return _no_sessions("NotUsable", str(error))
    if not isinstance(given.mechanism, SessionMechanism):
        return _no_sessions("NotTold", f"{given.mechanism.kind} does not tell of sessions")
    order = replace(given.order, deadline=min(given.order.deadline, longest))
    return await _heard(given._replace(order=order), given.mechanism.sessions(order), _no_sessions)


def _no_sessions(code: str, message: str) -> Sessions:
    return Sessions(State.UNKNOWN, message)


def _no_answer(code: str, message: str) -> Answer:
    return Answer(Outcome.UNKNOWN, code, message)


def _no_look(code: str, message: str) -> Look:
    return Look(State.UNKNOWN, code, message)


async def _heard(given: Given, call: Awaitable[T], otherwise: Callable[[str, str], T]) -> T:
    """What the mechanism says; else an unknown outcome, with the reason."""
    patience = given.order.deadline + GRACE_S
    try:
        async with asyncio.timeout(patience):
            return await call
    except TimeoutError:
        return otherwise("NoAnswer", f"no answer within {patience:g} s")
    except Exception as error:  # of another's code: what it did before is not known
        said = f"{type(error).__name__}: {error}"
        for secret in filter(None, given.order.secrets.values()):
            said = said.replace(secret, "***")
        return otherwise("MechanismFailed", said[:MOST_MESSAGE])
