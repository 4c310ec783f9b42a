"""Who may do what: bearer tokens to users, and the two roles.

An administrator may do anything. A node may read what its pods need and write only what is its own: its Node, Lease
and CSINode, events, the status of pods bound to it, the deletion of those pods, and mirrors of its static pods. Pure
but for the secret that tokens are made from.
"""

import hmac
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256

from mooring.apiserver.dotted import strings_at, text_at
from mooring.apiserver.errors import Forbidden, Obj, Unauthorized, forbidden
from mooring.apiserver.message import ADMIN, User, node_user
from mooring.apiserver.routes import Route

ANONYMOUS_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})

_MIRROR = "kubernetes.io/config.mirror"
_READ = frozenset({"get", "list", "watch"})
_NODE_READS = frozenset({
    "pods", "nodes", "persistentvolumes", "persistentvolumeclaims", "configmaps", "secrets", "services",
    "serviceaccounts", "namespaces", "events", "storageclasses", "volumeattachments", "csidrivers", "csinodes",
    "leases", "priorityclasses", "volumeattributesclasses",
})  # fmt: skip
_OWN_NAME = {"nodes": "", "csinodes": "", "leases": "kube-node-lease"}
"""What a node may write if it bears its own name, and the namespace where."""


class Tokens:
    """Tokens made from one secret: a node's is derived from its name, so it can be minted while a server is running."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._signatures = lru_cache(maxsize=1024)(self._sign)

    def admin(self) -> str:
        """The administrator's token."""
        return f"admin.{self._signatures('admin')}"

    def node(self, name: str) -> str:
        """The token of node `name`."""
        return f"node.{name}.{self._signatures(f'node:{name}')}"

    def endpoint(self, name: str) -> str:
        """What this server shows to the agent of node `name`. It opens nothing here."""
        return self._sign(f"endpoint:{name}")

    def user(self, token: str) -> User:
        """Whose token it is. Raises Unauthorized."""
        subject, _, _ = token.rpartition(".")
        node = subject.removeprefix("node.") if subject.startswith("node.") else None
        expected = self.node(node) if node else self.admin()
        if not hmac.compare_digest(token.encode(), expected.encode()):
            raise Unauthorized
        return node_user(node) if node else ADMIN

    def _sign(self, subject: str) -> str:
        return hmac.new(self._secret, subject.encode(), sha256).hexdigest()


def authenticate(headers: Mapping[str, str], tokens: Tokens) -> User:
    """The user of a request's bearer token. Raises Unauthorized."""
    scheme, _, credentials = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized
    return tokens.user(credentials.strip())


def authorize(user: User, route: Route) -> None:
    """Raises Forbidden unless the role allows the request, as far as its path tells.

    What the path does not tell is judged by `authorize_create` and `authorize_pod`.
    """
    if user.is_admin:
        return
    node = user.node_name
    if node is None or not _node_may(node, route):
        raise denied(user, route)


def authorize_create(user: User, route: Route, name: str) -> None:
    """Raises Forbidden if a node creates an object of another name than its own, where names matter."""
    if not user.is_admin and route.kind.plural in _OWN_NAME and name != user.node_name:
        raise denied(user, route, f'can only create {route.kind.plural} of its own name, not "{name}"')


def authorize_mirror(user: User, route: Route, pod: Obj) -> None:
    """Raises Forbidden if a node creates a pod that is not the mirror of a static pod of its own."""
    if user.is_admin or route.kind.plural != "pods":
        return
    if _MIRROR not in strings_at(pod, "metadata.annotations"):
        raise denied(user, route, "can only create mirror pods")
    if text_at(pod, "spec.nodeName") != user.node_name:
        raise denied(user, route, f'can only create pods with spec.nodeName set to "{user.node_name}"')


def authorize_pod(user: User, route: Route, pod: Obj) -> None:
    """Raises Forbidden if a node writes to a pod that is not bound to it."""
    if user.is_admin or route.verb in _READ:
        return
    if text_at(pod, "spec.nodeName") != user.node_name:
        told = f'node "{user.node_name}" can only {route.verb} pods bound to it'
        raise forbidden(route.kind.resource, route.name, told)


def denied(user: User, route: Route, why: str = "") -> Forbidden:
    """The refusal in upstream's words."""
    resource = f"{route.kind.plural}/{route.subresource}" if route.subresource else route.kind.plural
    place = f'in the namespace "{route.namespace}"' if route.namespace else "at the cluster scope"
    told = f'User "{user.name}" cannot {route.verb} resource "{resource}" in API group "{route.kind.group}" {place}'
    return forbidden(route.kind.resource, route.name, f"{told}: {why}" if why else told)


def _node_may(node: str, route: Route) -> bool:
    plural, verb = route.kind.plural, route.verb
    if route.kind.custom is not None:
        return False
    if verb in _READ:
        return plural in _NODE_READS
    if plural == "events":
        return verb in ("create", "update", "patch")
    if plural == "persistentvolumeclaims":  # a node tells that a file system has grown
        return route.subresource == "status" and verb in ("update", "patch")
    if plural == "pods":
        return (route.subresource == "status" and verb in ("update", "patch")) or (
            not route.subresource and verb in ("create", "delete")
        )
    if plural not in _OWN_NAME or route.namespace != _OWN_NAME[plural] or verb == "deletecollection":
        return False
    return verb == "create" or route.name == node
