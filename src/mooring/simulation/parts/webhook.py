"""An admission webhook of one kind of objects that does not answer, and fails closed (`failurePolicy: Fail`):
what it is to be asked about is refused, and all else goes on. Administrators are exempt (`matchConditions`).

So a single request of a step fails. While a link is cut, or the API server is down, all do.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mooring.kube.transport import Request

USER = "user"
"""The link of users, who are administrators."""
_ASKED_FOR = re.compile(r"/v[^/]+/(?:namespaces/[^/]+/)?(?P<kind>[a-z]+)(?:/[^/]+(?P<sub>/[a-z]+)?)?$")


class Rule(NamedTuple):
    """What the webhook is asked about: creations alone, or each change; of subresources, too."""

    updates: bool
    subresources: bool


RULES = (
    Rule(updates=False, subresources=False),
    Rule(updates=True, subresources=False),
    Rule(updates=True, subresources=True),
)
KINDS = ("persistentvolumeclaims", "persistentvolumes", "pods", "volumeattachments")


class DeadWebhook(NamedTuple):
    """One, of a kind."""

    kind: str
    rule: Rule

    def refuses(self, sender: str, request: Request) -> bool:
        """Whether this request fails."""
        found = _ASKED_FOR.search(request.path)
        if sender == USER or found is None or found["kind"] != self.kind:
            return False
        of_interest = request.method == "POST" or (self.rule.updates and request.method in ("PATCH", "PUT"))
        return of_interest and (self.rule.subresources or found["sub"] is None)

    def __str__(self) -> str:
        return f'failed calling webhook "{self.kind}.example.com": context deadline exceeded'


def drawn(how: int) -> DeadWebhook:
    """The one of a step of a plan."""
    return DeadWebhook(KINDS[how % len(KINDS)], RULES[how // len(KINDS) % len(RULES)])
