"""The form of objects: what clients send is tidied, and refused if a typed client could not read it back. Pure.

Of the API's own kinds the facts of their types say which fields there are and what they hold, as when upstream decodes
into Go types; of custom kinds their schema says it.
"""

from mooring.apiserver.custom import structural
from mooring.apiserver.errors import Obj, Unreadable
from mooring.apiserver.kinds import Kind
from mooring.apiserver.schema.facts import message_of
from mooring.apiserver.schema.shapes import WrongShape, shaped

_METADATA = "meta.v1.ObjectMeta"
_HEAD = ("kind", "apiVersion", "metadata")


def tidied(kind: Kind, sent: Obj, unknown: list[str]) -> Obj:
    """A copy with kind, apiVersion and metadata in front, and only what the kind has; the rest is told in `unknown`.

    Raises Unreadable for a field that holds something of another type.
    """
    try:
        metadata = shaped(_METADATA, sent["metadata"], unknown, "metadata")
        rest = _rest(kind, {key: value for key, value in sent.items() if key not in _HEAD}, unknown)
    except WrongShape as error:
        told = f'{kind.name} in version "{kind.api_version}" cannot be handled as a {kind.name}: {error}'
        raise Unreadable(told) from error
    return {"kind": kind.name, "apiVersion": kind.api_version, "metadata": metadata} | rest


def _rest(kind: Kind, rest: Obj, unknown: list[str]) -> Obj:
    if kind.custom is not None:
        return structural.pruned(kind.custom.schema, rest, unknown)
    name = message_of(kind.group, kind.version, kind.name)
    assert name is not None, f"{kind.name} of {kind.api_version} is not among the API's own types"
    return shaped(name, rest, unknown)
