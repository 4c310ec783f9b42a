"""Reviews: questions about access and identity (`kubectl auth can-i`, `auth whoami`), answered and never
stored.

The answers are those of `access.authorizer` and `access.identities` themselves. Every user may ask about
itself, administrators and who is bound to the right also about others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from mooring.apiserver.access import Attributes, Authorizer
from mooring.apiserver.access.identities import Identities
from mooring.apiserver.encodings.body import read_object
from mooring.apiserver.encodings.negotiation import negotiate
from mooring.apiserver.errors import Forbidden, Obj, Unauthorized
from mooring.apiserver.message import Request, Response, User
from mooring.apiserver.objects.kinds import Kind, Kinds
from mooring.apiserver.requests.reads import respond
from mooring.apiserver.store.object_store import encode
from mooring.apiserver.values.dotted import list_at, object_at, objects_at, text_at
from mooring.kube.selectors import FieldSelector, InvalidSelector, parse_field_selector

_ACCESS, _IDENTITY = "authorization.k8s.io", "authentication.k8s.io"

REVIEWS: tuple[Kind, ...] = (
    Kind(_IDENTITY, "v1", "SelfSubjectReview", "selfsubjectreviews", False),
    Kind(_IDENTITY, "v1", "TokenReview", "tokenreviews", False),
    Kind(_ACCESS, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews"),
    Kind(_ACCESS, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False),
    Kind(_ACCESS, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False),
    Kind(_ACCESS, "v1", "SubjectAccessReview", "subjectaccessreviews", False),
)
"""The kinds that can only be created, and are never stored."""

_BY_PATH = {(kind.group, kind.plural): kind for kind in REVIEWS}
_EVERYTHING = ["*"]


class Asking(NamedTuple):
    """Who asks, and what the answers are taken from."""

    user: User
    kinds: Kinds
    identities: Identities
    authorizer: Authorizer


def answer(request: Request, asking: Asking) -> Response | None:
    """The review that the request asks for, or None if it asks for something else. Raises Forbidden."""
    kind = _kind(request.path) if request.method == "POST" else None
    if kind is None:
        return None
    if not kind.name.startswith("Self"):
        asking.authorizer.authorize(asking.user, Attributes("create", kind.group, kind.plural))
    sent = read_object(request.body, request.headers.get("content-type", ""))
    review = {"kind": kind.name, "apiVersion": kind.api_version, "metadata": object_at(sent, "metadata")}
    if "spec" in sent:
        review["spec"] = sent["spec"]
    review["status"] = _STATUSES[kind.name](sent, asking)
    accepted = negotiate(request.headers.get("accept", ""), protobuf=True)
    return respond(201, encode(review), accepted)


def _kind(path: str) -> Kind | None:
    match path.strip("/").split("/"):
        case ["apis", group, "v1", plural] | ["apis", group, "v1", "namespaces", _, plural]:
            return _BY_PATH.get((group, plural))
        case _:
            return None


def _own_access(sent: Obj, asking: Asking) -> Obj:
    return _access(asking.user, object_at(sent, "spec.resourceAttributes"), asking)


def _access_of_another(sent: Obj, asking: Asking) -> Obj:
    about = User(text_at(sent, "spec.user"), tuple(list_at(sent, "spec.groups")))
    return _access(about, object_at(sent, "spec.resourceAttributes"), asking)


def _access(user: User, attributes: Obj, asking: Asking) -> Obj:
    if user.is_admin:
        return {"allowed": True}
    named = (text_at(attributes, "group"), text_at(attributes, "resource"))
    if not any((each.group, each.plural) == named for each in asking.kinds.all):
        return {"allowed": False}
    try:
        asking.authorizer.authorize(user, _attributes(attributes))
    except Forbidden as refusal:
        return {"allowed": False, "reason": str(refusal)}
    return {"allowed": True}


def _attributes(attributes: Obj) -> Attributes:
    verb, namespace, name, sub = (
        text_at(attributes, each) for each in ("verb", "namespace", "name", "subresource")
    )
    plural = text_at(attributes, "resource")
    fields = _fields(attributes) if verb in ("list", "watch") else FieldSelector()
    resource = f"{plural}/{sub}" if sub else plural
    return Attributes(verb, text_at(attributes, "group"), resource, namespace, name, fields)


def _fields(attributes: Obj) -> FieldSelector:
    """The fields that the request in question would select by; of those that are given readily parsed,
    equalities."""
    raw = text_at(attributes, "fieldSelector.rawSelector")
    try:
        parsed = parse_field_selector(raw)
    except InvalidSelector:
        parsed = FieldSelector()
    requirements = objects_at(attributes, "fieldSelector.requirements")
    one = [
        each for each in requirements if each.get("operator") == "In" and len(list_at(each, "values")) == 1
    ]
    return FieldSelector(
        (*parsed.terms, *((text_at(each, "key"), True, str(each["values"][0])) for each in one))
    )


def _rules(sent: Obj, asking: Asking) -> Obj:
    """What the user may do; of others than administrators what they may read whatever its name, for the rest
    is more than rules can say."""
    if asking.user.is_admin:
        everything = {"verbs": _EVERYTHING, "apiGroups": _EVERYTHING, "resources": _EVERYTHING}
        anywhere = {"verbs": _EVERYTHING, "nonResourceURLs": _EVERYTHING}
        return {"resourceRules": [everything], "nonResourceRules": [anywhere], "incomplete": False}
    verbs = ("get", "list", "watch")
    readable = [kind for kind in asking.kinds.all if _access(asking.user, _asking(kind), asking)["allowed"]]
    rules = [{"verbs": verbs, "apiGroups": [kind.group], "resources": [kind.plural]} for kind in readable]
    return {"resourceRules": rules, "nonResourceRules": [], "incomplete": True}


def _asking(kind: Kind) -> Obj:
    return {"group": kind.group, "resource": kind.plural, "verb": "list"}


def _identity(sent: Obj, asking: Asking) -> Obj:
    return {"userInfo": _user_info(asking.user)}


def _token(sent: Obj, asking: Asking) -> Obj:
    try:
        user, audiences = asking.identities.review(
            text_at(sent, "spec.token"), list_at(sent, "spec.audiences")
        )
    except Unauthorized:
        return {"user": {}, "error": "invalid bearer token"}
    said = {"authenticated": True, "user": _user_info(user)}
    return {**said, "audiences": audiences} if audiences else said


def _user_info(user: User) -> Obj:
    said = {"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra}
    return {key: value for key, value in said.items() if value}


_STATUSES: Mapping[str, Callable[[Obj, Asking], Obj]] = {
    "SelfSubjectReview": _identity,
    "TokenReview": _token,
    "LocalSubjectAccessReview": _access_of_another,
    "SelfSubjectAccessReview": _own_access,
    "SelfSubjectRulesReview": _rules,
    "SubjectAccessReview": _access_of_another,
}
