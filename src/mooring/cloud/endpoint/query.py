"""EC2's query protocol: from a form to a request, from an answer to XML. Pure.

The shapes are those of botocore's description of EC2, so it reads every request that an SDK can write, and
writes answers with exactly the names that an SDK reads. Source of the rules: the "ec2" protocol of that
description (https://smithy.io/2.0/aws/protocols/aws-ec2-query-protocol.html).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from mooring.cloud.errors import Ec2Error

if TYPE_CHECKING:
    from botocore.model import ServiceModel, Shape

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
_PROTOCOL_FIELDS = frozenset(
    {"Action", "Version", "AWSAccessKeyId", "Signature", "SignatureMethod", "SignatureVersion"}
)
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DEPTH = 16
MOST_PARAMETERS = 5000

Tree = dict[str, Any]
"""A form as a tree: `Filter.1.Name=x` is {"Filter": {"1": {"Name": "x"}}}."""


@cache
def _service() -> ServiceModel:
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    description = cast(Any, Loader()).load_service_model("ec2", "service-2")
    return ServiceModel(description, "ec2")


def form_of(body: bytes) -> dict[str, str]:
    """The form in a body. Raises Ec2Error (MalformedQueryString) for a malformed one, or too many
    parameters."""
    if body.count(b"&") >= MOST_PARAMETERS:
        raise Ec2Error("MalformedQueryString", f"The query string has more than {MOST_PARAMETERS} parameters")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict"))
    except UnicodeError as error:
        raise Ec2Error("MalformedQueryString", "The query string contains what is not UTF-8") from error


def parse_request(action: str, form: Mapping[str, str]) -> dict[str, Any]:
    """The request in boto3's names. Raises Ec2Error: InvalidAction, UnknownParameter,
    InvalidParameterValue."""
    if action not in _service().operation_names:
        raise Ec2Error("InvalidAction", f"The action {action} is not valid for this web service.")
    shape = _service().operation_model(action).input_shape
    fields = {
        name: value for name, value in form.items() if name not in _PROTOCOL_FIELDS and not _signs(name)
    }
    return _structure(_tree(fields), shape, "") if shape is not None else {}


def _signs(name: str) -> bool:
    return name.startswith("X-Amz-")


def _tree(form: Mapping[str, str]) -> Tree:
    tree: Tree = {}
    for name, value in form.items():
        here, parts = tree, name.split(".")
        if len(parts) > _DEPTH:
            raise Ec2Error("UnknownParameter", f"The parameter {name[:200]} is not recognized")
        for part in parts[:-1]:
            below = here.setdefault(part, {})
            if not isinstance(below, dict):
                raise Ec2Error("InvalidParameterCombination", f"The parameter {name} has a value and parts")
            here = cast(Tree, below)
        if isinstance(here.get(parts[-1]), dict):
            raise Ec2Error("InvalidParameterCombination", f"The parameter {name} has a value and parts")
        here[parts[-1]] = value
    return tree


def _structure(tree: Any, shape: Shape, where: str) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise _unknown(where)
    names = _query_names(cast(Any, shape))
    found: dict[str, Any] = {}
    for name, value in cast(Tree, tree).items():
        if name not in names:
            raise _unknown(f"{where}{name}")
        member, member_shape = names[name]
        found[member] = _value(value, member_shape, f"{where}{name}")
    return found


def _unknown(where: str) -> Ec2Error:
    return Ec2Error("UnknownParameter", f"The parameter {where} is not recognized")


_names: dict[str, dict[str, tuple[str, Any]]] = {}


def _query_names(shape: Any) -> dict[str, tuple[str, Any]]:
    """A structure's members by their names in forms."""
    if shape.name not in _names:
        _names[shape.name] = {
            _query_name(name, member): (name, member) for name, member in shape.members.items()
        }
    return _names[shape.name]


def _query_name(name: str, shape: Any) -> str:
    given = shape.serialization.get("queryName")
    if given:
        return given
    located: str = shape.serialization.get("name", name)
    return located[:1].upper() + located[1:]


def _value(value: Any, shape: Any, where: str) -> Any:
    if shape.type_name == "structure":
        return _structure(value, shape, f"{where}.")
    if shape.type_name == "list":
        return _list(value, shape, where)
    if not isinstance(value, str):
        raise _unknown(where)
    return _scalar(value, shape, where)


def _list(value: Any, shape: Any, where: str) -> list[Any]:
    if not isinstance(value, dict):
        raise _unknown(where)
    items = cast(Tree, value)
    if not all(key.isdecimal() and len(key) <= 6 for key in items):
        raise _unknown(f"{where}.{next(key for key in items if not key.isdecimal() or len(key) > 6)}")
    return [_value(items[key], shape.member, f"{where}.{key}") for key in sorted(items, key=int)]


def _scalar(value: str, shape: Any, where: str) -> Any:
    kind = shape.type_name
    try:
        if kind in ("integer", "long"):
            return _integer(value)
        if kind in ("float", "double"):
            return float(value)
        if kind == "boolean":
            return {"true": True, "false": False}[value.lower()]
        if kind == "timestamp":
            moment = datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, KeyError):
        raise Ec2Error(
            "InvalidParameterValue", f"Value ({value}) for parameter {where} is invalid: not a {kind}"
        ) from None
    return value


def _integer(value: str) -> int:
    if not _INTEGER.fullmatch(value):
        raise ValueError
    return int(value)


_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")


def render_answer(action: str, answer: Mapping[str, Any], request_id: str) -> str:
    """The answer as EC2 writes it. Raises KeyError for a member that EC2's answer does not have."""
    shape = _service().operation_model(action).output_shape
    body = _members(answer, shape) if shape is not None else "<return>true</return>"
    return f'{_HEAD}<{action}Response xmlns="{NAMESPACE}"><requestId>{request_id}</requestId>{body}</{action}Response>'


def render_error(error: Ec2Error, request_id: str) -> str:
    """The error as EC2 writes it."""
    what = f"<Code>{_text(error.code)}</Code><Message>{_text(error.message)}</Message>"
    return f"{_HEAD}<Response><Errors><Error>{what}</Error></Errors><RequestID>{request_id}</RequestID></Response>"


_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def _members(answer: Mapping[str, Any], shape: Any) -> str:
    return "".join(
        _element(shape.members[name].serialization.get("name", name), value, shape.members[name])
        for name, value in answer.items()
        if value is not None
    )


def _element(name: str, value: Any, shape: Any) -> str:
    kind = shape.type_name
    if kind == "structure":
        return f"<{name}>{_members(value, shape)}</{name}>"
    if kind == "list":
        return _list_element(name, value, shape)
    return f"<{name}>{_written(value, kind)}</{name}>"


def _list_element(name: str, values: Sequence[Any], shape: Any) -> str:
    if shape.serialization.get("flattened"):
        return "".join(_element(name, value, shape.member) for value in values)
    item = shape.member.serialization.get("name", "item")
    return f"<{name}>{''.join(_element(item, value, shape.member) for value in values)}</{name}>"


def _written(value: Any, kind: str) -> str:
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "timestamp":
        moment: datetime = value
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
    return _text(str(value))


def _text(value: str) -> str:
    return escape(_NOT_XML.sub("?", value))
