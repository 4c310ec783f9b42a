"""What a reading request selects: namespace, labels and fields, and its numbers. Pure."""

from dataclasses import dataclass

from mooring.apiserver.errors import BadRequest
from mooring.apiserver.history import Item
from mooring.apiserver.message import Request
from mooring.apiserver.routes import Route
from mooring.kube.selectors import (
    FieldSelector,
    InvalidSelector,
    LabelSelector,
    parse_field_selector,
    parse_label_selector,
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a collection a request is about."""

    namespace: str
    labels: LabelSelector
    fields: FieldSelector

    @property
    def is_narrow(self) -> bool:
        return bool(self.labels) or bool(self.fields)

    def includes(self, item: Item) -> bool:
        return (
            (not self.namespace or item.key[0] == self.namespace)
            and self.labels.matches(item.labels)
            and self.fields.matches(item.fields)
        )


def selection(request: Request, route: Route) -> Selection:
    """What a list, watch or deletecollection selects. Raises BadRequest for a selector that is none."""
    try:
        labels = parse_label_selector(request.parameter("labelSelector"))
        fields = parse_field_selector(request.parameter("fieldSelector"))
    except InvalidSelector as error:
        raise BadRequest(str(error)) from error
    known = {"metadata.name", "metadata.namespace", *route.kind.strategy.fields({"metadata": {}})}
    for field, _, _ in fields.terms:
        if field not in known:
            raise BadRequest(f"field label not supported: {field}")
    return Selection(route.namespace, labels, fields)


def version_of(text: str, parameter: str = "resourceVersion") -> int:
    """A resourceVersion parameter as a number; 0 if it is absent. Raises BadRequest."""
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise BadRequest(
            f'invalid resource version: {parameter} must be a number that the server has returned, not "{text}"'
        )
    return int(text)


def rows_hold(request: Request) -> str:
    """What the rows of a table hold of their object: the includeObject parameter."""
    return request.parameter("includeObject") or "Metadata"
