"""What an agent says of itself with `-o metadata`: its parameters, their defaults, its actions. Pure.

The form is the FenceAgentAPI's. It comes from another's program, so it is bounded, and refused if it declares
a document type: then there are no entities, neither external ones nor such as grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

TEXT_BYTES = 256 * 1024
ELEMENTS = 5000


class BadMetadata(Exception):
    """It is not what an agent says of itself."""


@dataclass(frozen=True)
class AgentParameter:
    """`type` as the agent says: string, boolean, integer, second, select. `instead_of`: the older name that
    this one replaces."""

    name: str
    type: str = "string"
    default: str = ""
    deprecated: bool = False
    instead_of: str = ""
    options: tuple[str, ...] = ()
    summary: str = ""


@dataclass(frozen=True)
class Metadata:
    """Of one agent."""

    agent: str
    parameters: Mapping[str, AgentParameter] = field(default_factory=dict[str, AgentParameter])
    actions: frozenset[str] = frozenset()


def parse(text: str) -> Metadata:
    """Raises BadMetadata."""
    if len(text) > TEXT_BYTES:
        raise BadMetadata(f"it has more than {TEXT_BYTES} characters")
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(text.encode(errors="replace"), True)
    except expat.ExpatError as error:
        raise BadMetadata(f"it is no XML: {error}") from error
    if not reader.agent or not reader.actions:
        raise BadMetadata("it names no agent, or no actions")
    return Metadata(reader.agent, reader.parameters, frozenset(reader.actions))


class _Reader:
    """Elements that it does not know are passed over."""

    def __init__(self) -> None:
        self.agent = ""
        self.parameters: dict[str, AgentParameter] = {}
        self.actions: set[str] = set()
        self._count = 0
        self._now: dict[str, str] | None = None
        self._options: list[str] = []
        self._text = ""

    def doctype(self, *_: object) -> None:
        raise BadMetadata("it declares a document type")

    def start(self, element: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > ELEMENTS:
            raise BadMetadata(f"it has more than {ELEMENTS} elements")
        self._text = ""
        match element:
            case "resource-agent":
                self.agent = attributes.get("name", "")
            case "parameter":
                self._now, self._options = dict(attributes), []
            case "content" if self._now is not None:
                self._now["type"] = attributes.get("type", "string")
                self._now["default"] = attributes.get("default", "")
            case "option" if self._now is not None:
                self._options.append(attributes.get("value", ""))
            case "action":
                self.actions.add(attributes.get("name", ""))
            case _:
                pass

    def text(self, text: str) -> None:
        self._text += text

    def end(self, element: str) -> None:
        if self._now is None:
            return
        if element == "shortdesc":
            self._now["summary"] = self._text.strip()
        elif element == "parameter":
            name = self._now.get("name", "")
            self.parameters[name] = AgentParameter(
                name,
                self._now.get("type", "string"),
                self._now.get("default", ""),
                self._now.get("deprecated") == "1",
                self._now.get("obsoletes", ""),
                tuple(self._options),
                self._now.get("summary", ""),
            )
            self._now = None
