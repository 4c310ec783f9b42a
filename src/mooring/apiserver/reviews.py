"""SelfSubjectAccessReview: what `kubectl auth can-i` asks. Nothing is stored; the answer is the rule of
`auth` itself."""

from mooring.apiserver import auth
from mooring.apiserver.body import read_object
from mooring.apiserver.dotted import object_at, text_at
from mooring.apiserver.errors import Forbidden, Obj
from mooring.apiserver.kinds import Kinds
from mooring.apiserver.message import Request, Response, User
from mooring.apiserver.routes import Route
from mooring.apiserver.store import encode

PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def answer(request: Request, user: User, kinds: Kinds) -> Response | None:
    """The review that the request asks for, or None if it asks for something else."""
    if request.path != PATH or request.method != "POST":
        return None
    sent = read_object(request.body, request.headers.get("content-type", ""))
    review = sent | {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
    review["status"] = _status(user, object_at(sent, "spec.resourceAttributes"), kinds)
    return Response(201, {"content-type": "application/json"}, encode(review))


def _status(user: User, asked: Obj, kinds: Kinds) -> Obj:
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
