"""A drawing as SVG, light or dark as its viewer likes it. Pure; texts are escaped here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from mooring.pictures.lettering import is_known, plain
from mooring.pictures.looks import PAINTS, SILENT
from mooring.pictures.shapes import Box, Drawing, Shape, Stroke, Text

FAMILY, MONO = "ui-sans-serif, system-ui, Helvetica, Arial, sans-serif", "ui-monospace, monospace"


def _style() -> str:
    """Dark paints only: the light ones are attributes, which a style sheet overrules."""
    rules = "".join(f".f-{name}{{fill:{p.dark}}}.s-{name}{{stroke:{p.dark}}}" for name, p in PAINTS.items())
    return f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"


HATCHING = (
    f"<defs><pattern id='{SILENT}' width='6' height='6' patternUnits='userSpaceOnUse' patternTransform='rotate(45)'>"
    "<rect width='2' height='6' fill='#dc2626' fill-opacity='.75'/></pattern></defs>"
)


def svg(drawing: Drawing) -> str:
    """The whole document."""
    size = f"{drawing.width:g} {drawing.height:g}"
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {size}' font-family='{FAMILY}' role='img'>",
            f"<title>{_safe(drawing.title)}</title>",
            _style(),
            HATCHING,
            *(line for shape in drawing.shapes for line in _shape(shape)),
            "</svg>\n",
        ]
    )


def _safe(text: str) -> str:
    return escape(plain(text))


def _shape(shape: Shape) -> Iterator[str]:
    match shape:
        case Box():
            place = (
                f"x='{shape.x:.1f}' y='{shape.y:.1f}' width='{shape.width:.1f}' height='{shape.height:.1f}'"
            )
            yield _with_hint("rect", f"{place} {_fill(shape.paint)}{_opacity(shape.opacity)}", shape.hint)
        case Stroke():
            place = f"x1='{shape.x1:.1f}' y1='{shape.y1:.1f}' x2='{shape.x2:.1f}' y2='{shape.y2:.1f}'"
            paint = f"class='s-{shape.paint}' stroke='{PAINTS[shape.paint].light}'"
            dashes = f" stroke-dasharray='{shape.dashes}'" if shape.dashes else ""
            look = f"{paint} stroke-width='{shape.width:g}'{dashes}"
            yield _with_hint("line", f"{place} {look}", shape.hint)
        case Text():
            yield from _text(shape)


def _text(text: Text) -> Iterator[str]:
    if text.backed:
        left, top, right, bottom = text.place
        yield from _shape(Box(left - 1, top, right - left + 2, bottom - top, "paper", 0.85))
    anchor = " text-anchor='end'" if text.to_left else " text-anchor='middle'" if text.middle else ""
    bold = " font-weight='600'" if text.bold else ""
    mono = f" font-family='{MONO}' xml:space='preserve'" if text.mono else ""
    # letters of which no width is known are made as wide as they were taken for
    held = "" if is_known(text.text) else f" textLength='{text.width:.1f}' lengthAdjust='spacingAndGlyphs'"
    look = f"font-size='{text.size:g}'{bold}{mono}{anchor}{held} {_fill(text.paint)}"
    hint = f"<title>{_safe(text.hint)}</title>" if text.hint else ""
    yield f"<text x='{text.x:.1f}' y='{text.y:.1f}' {look}>{hint}{_safe_as_is(text)}</text>"


def _safe_as_is(text: Text) -> str:
    """A listing keeps its spaces."""
    if not text.mono:
        return _safe(text.text)
    return escape("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text.text))


def _fill(paint: str) -> str:
    if paint == SILENT:
        return f"fill='url(#{SILENT})'"
    return f"class='f-{paint}' fill='{PAINTS[paint].light}'"


def _opacity(opacity: float) -> str:
    return f" fill-opacity='{opacity:g}'" if opacity < 1 else ""


def _with_hint(tag: str, attributes: str, hint: str) -> str:
    return f"<{tag} {attributes}><title>{_safe(hint)}</title></{tag}>" if hint else f"<{tag} {attributes}/>"
