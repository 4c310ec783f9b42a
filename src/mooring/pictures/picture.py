"""A picture in, SVG out."""

from __future__ import annotations

from mooring.pictures.drawing import draw
from mooring.pictures.model import Picture
from mooring.pictures.svg import svg


def render(picture: Picture) -> str:
    """The picture as an SVG document that needs nothing but itself."""
    return svg(draw(picture))
