"""The form of objects: what clients send is tidied, and refused if a typed client could not read it back.
Pure.

For the API's own kinds the facts of their types define the fields and their types, as upstream's Go types do;
for custom kinds their schema does.
"""

from __future__ import annotations

from mooring.apiserver.errors import Obj, Unreadable
from mooring.apiserver.objects.custom import structural
from mooring.apiserver.objects.custom.list_types import SchemaPlace
from mooring.apiserver.objects.kinds import Kind
from mooring.apiserver.schema.facts import Place, message, message_of, one
from mooring.apiserver.schema.shapes import WrongShape, shaped, zero_of

_METADATA = "meta.v1.ObjectMeta"
_HEAD = ("kind", "apiVersion", "metadata")


def tidied(kind: Kind, sent: Obj, unknown: list[str], *, zeroes: bool = True) -> Obj:
    """A copy with kind, apiVersion and metadata in front, and only the fields that the kind has; the paths of
    others are added to `unknown`.

    Zeroes are dropped and added as Go does when it writes an object, unless they are meant (see `shaped`).
    Raises Unreadable for a field that holds something of another type.
    """
    try:
        made = _shaped(kind, sent, unknown, zeroes)
    except WrongShape as error:
        message = f'{kind.name} in version "{kind.api_version}" cannot be handled as a {kind.name}: {error}'
        raise Unreadable(message) from error
    return {"kind": kind.name, "apiVersion": kind.api_version, "metadata": made.pop("metadata")} | made


def _shaped(kind: Kind, sent: Obj, unknown: list[str], zeroes: bool) -> Obj:
    identity = {"kind": kind.name, "apiVersion": kind.api_version}
    if kind.custom is None:
        return shaped(_message(kind), sent | identity, unknown, zeroes=zeroes)
    metadata = shaped(_METADATA, sent["metadata"], unknown, "metadata", zeroes=zeroes)
    rest = {key: value for key, value in sent.items() if key not in _HEAD}
    return identity | {"metadata": metadata} | structural.pruned(kind.custom.schema, rest, unknown)


def place_of(kind: Kind) -> Place:
    """How a kind's objects merge."""
    return one(_message(kind)) if kind.custom is None else SchemaPlace(kind.custom.schema, root=True)


def _message(kind: Kind) -> str:
    name = message_of(kind.group, kind.version, kind.name)
    assert name is not None, f"{kind.name} of {kind.api_version} is not among the API's own types"
    return name


def clear_status(kind: Kind, obj: Obj) -> None:
    """Makes the status that of an object of which nothing is known yet."""
    obj.pop("status", None)
    if kind.custom is None:
        obj["status"] = zero_of(message(_message(kind)).fields["status"].type)
