"""The form of objects: what clients send is tidied, and refused if a typed client could not read it back. Pure.

Upstream decodes into Go types and so drops nulls, prints quantities as text and refuses a string where a number
belongs. Here the typed views of `mooring.kube.objects` say which form a field has; fields that no view names are kept
as they are.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from mooring.apiserver.custom import structural
from mooring.apiserver.errors import BadRequest, Obj
from mooring.apiserver.kinds import Kind
from mooring.kube import objects

_VIEWS: Mapping[tuple[str, str], type[objects.Object]] = {
    **{(view.RESOURCE.group, view.RESOURCE.kind): view for view in objects.Object.__subclasses__()},
    ("apps", "ReplicaSet"): objects.StatefulSet,
    ("apps", "Deployment"): objects.StatefulSet,
}
_QUANTITY_MAPS = frozenset({"requests", "limits", "capacity", "allocatable", "allocatedResources", "hard", "used"})
_QUANTITIES = frozenset({"sizeLimit"})
_OPAQUE = frozenset({("ControllerRevision", "data")})
"""Fields that hold somebody else's JSON, in which a null has a meaning."""


def tidied(kind: Kind, sent: Obj) -> Obj:
    """A copy with kind, apiVersion and metadata in front, without nulls, and with quantities as text.

    Of a custom object, its schema says which fields are kept, and which may be null.
    """
    if kind.custom is not None:
        kept: Obj = structural.pruned(kind.custom.schema, sent, [])
        return {"kind": kind.name, "apiVersion": kind.api_version, "metadata": _tidy(sent["metadata"])} | {
            key: value for key, value in kept.items() if key not in ("kind", "apiVersion", "metadata")
        }
    rest = {key: value for key, value in sent.items() if key not in ("kind", "apiVersion", "metadata")}
    head = {"kind": kind.name, "apiVersion": kind.api_version, "metadata": sent["metadata"]}
    opaque = {key: value for key, value in rest.items() if (kind.name, key) in _OPAQUE}
    return cast(Obj, _tidy(head | rest)) | opaque


def check(kind: Kind, obj: Obj) -> None:
    """Raises BadRequest if a field has a form in which a typed client could not read it."""
    try:
        msgspec.convert(obj, _VIEWS.get((kind.group, kind.name), objects.Object))
    except msgspec.ValidationError as error:
        told = f'{kind.name} in version "{kind.api_version}" cannot be handled as a {kind.name}: {error}'
        raise BadRequest(told) from error


def _tidy(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast(Obj, value)
        return {key: _quantities(key, _tidy(each)) for key, each in fields.items() if each is not None}
    if isinstance(value, list):
        return [_tidy(each) for each in cast(list[Any], value)]
    return value


def _quantities(key: str, value: Any) -> Any:
    if key in _QUANTITIES:
        return _text(value)
    if key in _QUANTITY_MAPS and isinstance(value, dict):
        return {name: _text(each) for name, each in cast(Obj, value).items()}
    return value


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
