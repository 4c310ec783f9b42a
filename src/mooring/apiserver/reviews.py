"""Reviews: questions about access and identity (`kubectl auth can-i`, `auth whoami`), answered and never stored.

The answers are the rules of `auth` itself. Anybody may ask about himself; about others, administrators only.
"""

from collections.abc import Callable, Mapping

from mooring.apiserver import auth
from mooring.apiserver.auth import Tokens
from mooring.apiserver.body import read_object
from mooring.apiserver.dotted import list_at, object_at, text_at
from mooring.apiserver.errors import Forbidden, Obj, Unauthorized
from mooring.apiserver.kinds import Kind, Kinds
from mooring.apiserver.message import Request, Response, User
from mooring.apiserver.negotiation import negotiate
from mooring.apiserver.reading import respond
from mooring.apiserver.routes import Route
from mooring.apiserver.store import encode

_ACCESS, _IDENTITY = "authorization.k8s.io", "authentication.k8s.io"

REVIEWS: tuple[Kind, ...] = (
    Kind(_IDENTITY, "v1", "SelfSubjectReview", "selfsubjectreviews", False),
    Kind(_IDENTITY, "v1", "TokenReview", "tokenreviews", False),
    Kind(_ACCESS, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews"),
    Kind(_ACCESS, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False),
    Kind(_ACCESS, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False),
    Kind(_ACCESS, "v1", "SubjectAccessReview", "subjectaccessreviews", False),
)
"""The kinds that can be created only, and are gone with the answer."""

_BY_PATH = {(kind.group, kind.plural): kind for kind in REVIEWS}
_EVERYTHING = ["*"]


def answer(request: Request, user: User, kinds: Kinds, tokens: Tokens) -> Response | None:
    """The review that the request asks for, or None if it asks for something else. Raises Forbidden."""
    kind = _kind(request.path) if request.method == "POST" else None
    if kind is None:
        return None
    if not kind.name.startswith("Self") and not user.is_admin:
        raise auth.denied(user, Route(kind, "create"))
    sent = read_object(request.body, request.headers.get("content-type", ""))
    review = {"kind": kind.name, "apiVersion": kind.api_version, "metadata": object_at(sent, "metadata")}
    if "spec" in sent:
        review["spec"] = sent["spec"]
    review["status"] = _STATUSES[kind.name](sent, user, kinds, tokens)
    accepted = negotiate(request.headers.get("accept", ""), protobuf=True)
    return respond(201, encode(review), accepted)


def _kind(path: str) -> Kind | None:
    match path.strip("/").split("/"):
        case ["apis", group, "v1", plural] | ["apis", group, "v1", "namespaces", _, plural]:
            return _BY_PATH.get((group, plural))
        case _:
            return None


def _own_access(sent: Obj, user: User, kinds: Kinds, tokens: Tokens) -> Obj:
    return _access(user, object_at(sent, "spec.resourceAttributes"), kinds)


def _access_of_another(sent: Obj, user: User, kinds: Kinds, tokens: Tokens) -> Obj:
    asked = User(text_at(sent, "spec.user"), tuple(list_at(sent, "spec.groups")))
    return _access(asked, object_at(sent, "spec.resourceAttributes"), kinds)


def _access(user: User, asked: Obj, kinds: Kinds) -> Obj:
    if user.is_admin:
        return {"allowed": True}
    named = (text_at(asked, "group"), text_at(asked, "resource"))
    kind = next((each for each in kinds.all if (each.group, each.plural) == named), None)
    if kind is None:
        return {"allowed": False}
    route = Route(kind, *(text_at(asked, field) for field in ("verb", "namespace", "name", "subresource")))
    try:
        auth.authorize(user, route)
    except Forbidden as refusal:
        return {"allowed": False, "reason": str(refusal)}
    return {"allowed": True}


def _rules(sent: Obj, user: User, kinds: Kinds, tokens: Tokens) -> Obj:
    """What the user may do; of a node only what it may read, for what it may write depends on names."""
    if user.is_admin:
        everything = {"verbs": _EVERYTHING, "apiGroups": _EVERYTHING, "resources": _EVERYTHING}
        anywhere = {"verbs": _EVERYTHING, "nonResourceURLs": _EVERYTHING}
        return {"resourceRules": [everything], "nonResourceRules": [anywhere], "incomplete": False}
    verbs = ("get", "list", "watch")
    readable = [kind for kind in kinds.all if _access(user, _asking(kind), kinds)["allowed"]]
    rules = [{"verbs": verbs, "apiGroups": [kind.group], "resources": [kind.plural]} for kind in readable]
    return {"resourceRules": rules, "nonResourceRules": [], "incomplete": True}


def _asking(kind: Kind) -> Obj:
    return {"group": kind.group, "resource": kind.plural, "verb": "list"}


def _identity(sent: Obj, user: User, kinds: Kinds, tokens: Tokens) -> Obj:
    return {"userInfo": _told(user)}


def _token(sent: Obj, user: User, kinds: Kinds, tokens: Tokens) -> Obj:
    try:
        return {"authenticated": True, "user": _told(tokens.user(text_at(sent, "spec.token")))}
    except Unauthorized:
        return {"user": {}, "error": "invalid bearer token"}


def _told(user: User) -> Obj:
    return {"username": user.name, "groups": user.groups}


_STATUSES: Mapping[str, Callable[[Obj, User, Kinds, Tokens], Obj]] = {
    "SelfSubjectReview": _identity,
    "TokenReview": _token,
    "LocalSubjectAccessReview": _access_of_another,
    "SelfSubjectAccessReview": _own_access,
    "SelfSubjectRulesReview": _rules,
    "SubjectAccessReview": _access_of_another,
}
