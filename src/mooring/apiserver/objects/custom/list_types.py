"""How the lists of custom objects merge in an apply: as their schema says (`x-kubernetes-list-type`).
Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.apiserver.errors import Obj
from mooring.apiserver.schema.facts import Place, one
from mooring.apiserver.values.dotted import list_at, object_at

_METADATA = one("meta.v1.ObjectMeta")


@dataclass(frozen=True, slots=True)
class SchemaPlace:
    """A place in a custom object, with its schema. `root` is the object itself."""

    schema: Obj
    root: bool = False

    @property
    def merge_key(self) -> str | None:
        """As `Field.merge_key`. Of several keys that tell entries apart, the first."""
        match self.schema.get("x-kubernetes-list-type"):
            case "map":
                return next(map(str, list_at(self.schema, "x-kubernetes-list-map-keys")), None)
            case "set":
                return ""
            case _:
                return None

    @property
    def replace(self) -> bool:
        return self.schema.get("x-kubernetes-map-type") == "atomic"

    def child(self, key: str) -> Place:
        if self.root and key == "metadata":
            return _METADATA
        properties = object_at(self.schema, "properties")
        if key in properties:
            return SchemaPlace(properties[key])
        additional = self.schema.get("additionalProperties")
        return SchemaPlace(additional if isinstance(additional, dict) else {})  # pyright: ignore[reportUnknownArgumentType]

    def entry(self) -> Place:
        return SchemaPlace(object_at(self.schema, "items"))
