"""A small canvas that writes SVG: what tools/docs/pictures.py draws with. Coordinates are pixels, from the top left."""

from __future__ import annotations

from html import escape

INK, SOFT, PAPER = "#1f2a30", "#6b7a82", "#ffffff"
TEAL, AMBER, RED, PALE, GREY = "#00897b", "#f0a30a", "#c62828", "#e0f2f1", "#eceff1"


class Canvas:
    """Elements in the order in which they are drawn, on white paper, so that pages with a dark background show them too."""

    def __init__(self, width: int, height: int, title: str):
        self.width, self.height = width, height
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" font-family="Helvetica, Arial, sans-serif" font-size="14">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0,0 L10,5 L0,10 z" fill="{INK}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>']

    def box(self, x: float, y: float, width: float, height: float, lines: list[str] | str = (), *, fill: str = GREY,
            line: str = INK, ink: str = INK, size: int = 14) -> None:
        """A rectangle with lines of text in its middle; the first one is bold where there are several."""
        lines = [lines] if isinstance(lines, str) else list(lines)
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" '
                          f'stroke="{line}"/>')
        top = y + height / 2 - (len(lines) - 1) * (size + 4) / 2
        for number, text in enumerate(lines):
            self.text(x + width / 2, top + number * (size + 4) + size * 0.35, text, size=size if number == 0 else size - 2,
                      ink=ink, bold=number == 0 and len(lines) > 1)

    def text(self, x: float, y: float, text: str, *, size: int = 14, ink: str = INK, anchor: str = "middle",
             bold: bool = False) -> None:
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{ink}" font-size="{size}"{weight}>'
                          f"{escape(text)}</text>")

    def arrow(self, *points: tuple[float, float], ink: str = INK, dashed: bool = False, width: float = 1.5,
              head: bool = True) -> None:
        """A line through these points."""
        path = " L".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<path d="M{path}" fill="none" stroke="{ink}" stroke-width="{width:g}"'
                          + (' stroke-dasharray="5 4"' if dashed else "") + (' marker-end="url(#arrow)"' if head else "") + "/>")

    def circle(self, x: float, y: float, radius: float, text: str, *, fill: str = PALE, line: str = INK, ink: str = INK) -> None:
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" stroke="{line}"/>')
        self.text(x, y + 5, text, ink=ink)

    def done(self) -> str:
        return "\n".join([*self.parts, "</svg>", ""])
