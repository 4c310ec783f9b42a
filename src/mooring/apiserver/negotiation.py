"""In which form a client wants its answer, from the Accept header. Pure."""

from dataclasses import dataclass
from typing import Literal

from mooring.apiserver.errors import NotAcceptable

Form = Literal["object", "table", "metadata"]

_FORMS: dict[str, Form] = {
    "": "object",
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}


@dataclass(frozen=True, slots=True)
class Accepted:
    """The form, and whether the bytes are YAML."""

    form: Form = "object"
    yaml: bool = False


def negotiate(accept: str) -> Accepted:
    """The first alternative that the server can give. Raises NotAcceptable if there is none."""
    for alternative in accept.split(",") if accept.strip() else [""]:
        media, *parameters = (part.strip() for part in alternative.split(";"))
        options = {name: value for name, _, value in (each.partition("=") for each in parameters)}
        if options.get("g", "meta.k8s.io") != "meta.k8s.io" or options.get("as", "") not in _FORMS:
            continue
        if media in ("", "*/*", "application/*", "application/json"):
            return Accepted(_FORMS[options.get("as", "")])
        if media == "application/yaml" and "as" not in options:
            return Accepted(yaml=True)
    raise NotAcceptable("only the following media types are accepted: application/json, application/yaml")
