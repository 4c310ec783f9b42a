"""The instance metadata service, version 2 (IMDSv2). Pure but for its tokens.

Source: "Instance metadata categories" and "How Instance Metadata Service Version 2 works" in the EC2 user
guide. There is no version 1: a request without a token is refused, as on instances with `http-tokens:
required`. The block device mapping dates from the start of the instance, as EC2's does: it lacks volumes that
were attached later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import cast

from mooring.cloud.actions.instance_views import InstanceView

Tree = Mapping[str, "str | Tree"]

TOKEN_PATH = "/latest/api/token"
TOKEN_HEADER = "X-aws-ec2-metadata-token"
TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"
LONGEST_TTL_S = 21600
ROLE = "mooring-cloud"
MOST_TOKENS = 4096
"""The most valid tokens of an instance; beyond that the oldest ones expire early."""
_SECONDS = re.compile(r"[0-9]{1,5}")
_VALID_FOR = timedelta(hours=6)
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Described:
    """The facts that the service serves: the instance, the region's name, and the credentials of its role."""

    instance: InstanceView
    region: str
    access_key: str
    secret_key: str = field(repr=False)


@dataclass(frozen=True)
class Reply:
    """An HTTP answer."""

    status: int
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class MetadataService:
    """Answers for one instance. Tokens are kept in memory, as long as they are valid."""

    def __init__(self, clock: Callable[[], float], rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self._tokens: dict[str, float] = {}

    def answer(self, method: str, path: str, headers: Mapping[str, str], known: Described | None) -> Reply:
        """The answer to a request; `known` is None if the instance has been terminated."""
        if known is None:
            return Reply(404)
        if path.rstrip("/") == TOKEN_PATH:
            return self._token(headers) if method == "PUT" else Reply(405)
        if method != "GET":
            return Reply(405)
        token = headers.get(TOKEN_HEADER, "")
        if self._tokens.get(token, 0.0) <= self._clock():
            return Reply(401)
        return _get(path, _tree(known, datetime.fromtimestamp(self._clock(), UTC)))

    def _token(self, headers: Mapping[str, str]) -> Reply:
        ttl = headers.get(TTL_HEADER, "")
        if not (_SECONDS.fullmatch(ttl) and 1 <= int(ttl) <= LONGEST_TTL_S) or "X-Forwarded-For" in headers:
            return Reply(400 if "X-Forwarded-For" not in headers else 403)
        now = self._clock()
        if len(self._tokens) >= MOST_TOKENS:
            alive = [(token, until) for token, until in self._tokens.items() if until > now]
            self._tokens = dict(alive[-MOST_TOKENS // 2 :])
        token = f"{self._rng.getrandbits(320):080x}"
        self._tokens[token] = now + int(ttl)
        return Reply(200, token, {TTL_HEADER: ttl})


def _get(path: str, tree: Tree) -> Reply:
    here: str | Tree = tree
    for part in filter(None, path.split("/")):
        if isinstance(here, str) or part not in here:
            return Reply(404)
        here = here[part]
    if isinstance(here, str):
        return Reply(200, here)
    return Reply(
        200, "\n".join(name if isinstance(below, str) else f"{name}/" for name, below in here.items())
    )


def _tree(known: Described, now: datetime) -> Tree:
    it = known.instance
    interfaces: Tree = {mac: {"mac": mac, "device-number": str(at)} for at, mac in enumerate(it.macs)}
    latest: Tree = {
        "dynamic": {"instance-identity": {"document": _document(known)}},
        "meta-data": {
            "ami-id": it.image_id,
            "block-device-mapping": dict(it.boot_devices),
            "hostname": _hostname(it),
            "iam": {"security-credentials": {ROLE: _credentials(known, now)}},
            "instance-id": it.instance_id,
            "instance-life-cycle": "on-demand",
            "instance-type": it.instance_type,
            "local-hostname": _hostname(it),
            "local-ipv4": it.private_ip,
            "mac": it.macs[0],
            "network": {"interfaces": {"macs": interfaces}},
            "placement": {
                "availability-zone": it.zone,
                "availability-zone-id": it.zone_id,
                "region": known.region,
            },
            "services": {"domain": "amazonaws.com", "partition": "aws"},
        },
    }
    return cast("Tree", {"latest": latest})


def _hostname(it: InstanceView) -> str:
    return f"ip-{it.private_ip.replace('.', '-')}.ec2.internal"


def _document(known: Described) -> str:
    it = known.instance
    return json.dumps(
        {
            "accountId": it.account,
            "architecture": "x86_64",
            "availabilityZone": it.zone,
            "imageId": it.image_id,
            "instanceId": it.instance_id,
            "instanceType": it.instance_type,
            "pendingTime": it.launched.astimezone(UTC).strftime(_TIME),
            "privateIp": it.private_ip,
            "region": known.region,
            "version": "2017-09-30",
        },
        indent=2,
    )


def _credentials(known: Described, now: datetime) -> str:
    return json.dumps(
        {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "LastUpdated": now.strftime(_TIME),
            "Expiration": (now + _VALID_FOR).strftime(_TIME),
            "AccessKeyId": known.access_key,
            "SecretAccessKey": known.secret_key,
            "Token": "none-is-needed-here",
        },
        indent=2,
    )
