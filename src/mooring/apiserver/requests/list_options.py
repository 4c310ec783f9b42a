"""The selection of a get, list or watch (namespace, labels, fields) and its numeric options. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from mooring.apiserver.errors import (
    BadRequest,
    FieldError,
    Unclassified,
    forbidden_field,
    invalid_options,
    unsupported,
)
from mooring.apiserver.message import Request
from mooring.apiserver.objects.validation.formats import qualified_name_errors
from mooring.apiserver.routes import Route
from mooring.apiserver.store.history import Item
from mooring.apiserver.work_limit import spend
from mooring.kube.selectors import (
    FieldSelector,
    InvalidKey,
    InvalidSelector,
    LabelSelector,
    parse_field_selector,
    parse_label_selector,
)


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects of a collection that a request selects."""

    namespace: str
    labels: LabelSelector
    fields: FieldSelector

    @property
    def is_narrow(self) -> bool:
        """Whether labels or fields select; without them an object cannot come into sight or leave it."""
        return bool(self.labels.requirements or self.fields.terms or self.labels.nothing)

    @property
    def terms(self) -> int:
        """The number of conditions that an object has to meet, for the estimate of a request's cost."""
        return len(self.labels.requirements) + len(self.fields.terms)

    def among(self, items: Sequence[Item]) -> list[Item]:
        """The items that are selected."""
        spend(len(items) * (2 + self.terms) >> 1)
        return [item for item in items if self.includes(item)]

    def values(self) -> Iterator[tuple[str, str]]:
        """Fields, each with a value that every selected object has there; an empty value may also be a
        missing one and is not among them."""
        yield from ((name, value) for name, equal, value in self.fields.terms if equal and value)
        if self.namespace:
            yield "metadata.namespace", self.namespace

    def includes(self, item: Item) -> bool:
        if self.namespace and item.key[0] != self.namespace:
            return False
        return not self.is_narrow or (self.labels.matches(item.labels) and self.fields.matches(item.fields))


def selection(request: Request, route: Route) -> Selection:
    """What a list, watch or deletecollection selects. Raises BadRequest for a selector that is none."""
    try:
        label_text, field_text = request.parameter("labelSelector"), request.parameter("fieldSelector")
        spend(len(label_text) + len(field_text))
        labels = parse_label_selector(label_text)
        fields = parse_field_selector(field_text)
    except InvalidKey as error:
        detail = "; ".join(qualified_name_errors(error.key))
        raise BadRequest(
            f'unable to parse requirement: <nil>: Invalid value: "{error.key}": {detail}'
        ) from error
    except InvalidSelector as error:
        raise BadRequest(str(error)) from error
    special = route.kind.strategy.fields({"metadata": {}})
    known = {"metadata.name", "metadata.namespace", *special}
    for field, _, _ in fields.terms:
        if field not in known:
            raise _unknown_field(field, special)
    return Selection(route.namespace, labels, fields)


def _unknown_field(field: str, special: Collection[str]) -> BadRequest:
    if special:
        return BadRequest(f"field label not supported: {field}")
    detail = 'only "metadata.name", "metadata.namespace"'
    return BadRequest(f'"{field}" is not a known field selector: {detail}')


def check_list_options(request: Request, *, watch: bool) -> None:
    """Raises Invalid if the parameters of a list or a watch contradict each other (upstream's rules)."""
    version = request.parameter("resourceVersion")
    if watch and version and not version.isdecimal():
        detail = f'strconv.ParseUint: parsing "{version}": invalid syntax'
        raise Unclassified(f'resourceVersion: Invalid value: "{version}": {detail}')
    errors = _watch_errors(request) if watch else _match_errors(request)
    if errors:
        raise invalid_options("ListOptions", *errors)


def _match_errors(request: Request) -> list[FieldError]:
    match, version = request.parameter("resourceVersionMatch"), request.parameter("resourceVersion")
    errors: list[FieldError] = []
    if request.parameter("sendInitialEvents"):
        errors.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if not match:
        return errors
    if request.parameter("continue"):
        errors.append(forbidden_field(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
    if not version:
        errors.append(
            forbidden_field(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided")
        )
    if match not in ("Exact", "NotOlderThan"):
        errors.append(unsupported(_MATCH, match, ["Exact", "NotOlderThan", ""]))
    if match == "Exact" and version == "0":
        errors.append(
            forbidden_field(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
        )
    return errors


def _watch_errors(request: Request) -> list[FieldError]:
    match, initial = request.parameter("resourceVersionMatch"), request.parameter("sendInitialEvents")
    if not initial and match:
        return [
            forbidden_field(
                _MATCH, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
        ]
    errors: list[FieldError] = []
    if initial and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(forbidden_field(_MATCH, detail))
        if match:
            errors.append(unsupported(_MATCH, match, ["NotOlderThan"]))
    return errors


_MATCH = "resourceVersionMatch"


def version_of(text: str, parameter: str = "resourceVersion") -> int:
    """A resourceVersion parameter as a number; 0 if it is absent. Raises BadRequest."""
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        detail = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise BadRequest(f'invalid resource version: {parameter}: Invalid value: "{text}": {detail}')
    return int(text)


def rows_hold(request: Request) -> str:
    """What the rows of a table hold of their object: the includeObject parameter."""
    return request.parameter("includeObject") or "Metadata"
