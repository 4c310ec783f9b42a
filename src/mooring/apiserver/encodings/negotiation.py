"""In which form a client wants its answer, from the Accept header. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from mooring.apiserver.encodings.protobuf import MEDIA_TYPE
from mooring.apiserver.errors import NoRepresentation, NotAcceptable

Form = Literal["object", "table", "metadata"]
Encoding = Literal["json", "yaml", "protobuf"]

_FORMS: dict[str, Form] = {
    "": "object",
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}


@dataclass(frozen=True, slots=True)
class Accepted:
    """The form, and how it is written."""

    form: Form = "object"
    encoding: Encoding = "json"


_MEDIA = ("*/*", "application/*", "application/json", "application/yaml", MEDIA_TYPE)


@lru_cache(maxsize=256)
def negotiate(accept: str, *, protobuf: bool = False) -> Accepted:
    """The first alternative that the server can give. Raises NotAcceptable if there is none.

    `protobuf` says whether the kind has a protobuf form; bare metadata has one whatever the kind.
    """
    for alternative in accept.split(",") if accept.strip() else [""]:
        media, *parameters = (part.strip() for part in alternative.split(";"))
        options = {name: value for name, _, value in (each.partition("=") for each in parameters)}
        if options.get("g", "meta.k8s.io") != "meta.k8s.io" or options.get("as", "") not in _FORMS:
            continue
        form = _FORMS[options.get("as", "")]
        if media in ("", "*/*", "application/*", "application/json"):
            return Accepted(form)
        if media == "application/yaml" and form == "object":
            return Accepted(form, "yaml")
        if media == MEDIA_TYPE and form != "table" and (protobuf or form == "metadata"):
            return Accepted(form, "protobuf")
    accepted = "application/json, application/yaml" + (f", {MEDIA_TYPE}" if protobuf else "")
    failure = NotAcceptable if any(media in accept for media in _MEDIA) else NoRepresentation
    raise failure(f"only the following media types are accepted: {accepted}")
