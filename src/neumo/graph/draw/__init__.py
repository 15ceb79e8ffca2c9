"""Pictures of graphs: a typed listing, Mermaid, SVG, a page to explore, and what a notebook shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neumo.graph.draw.mermaid import to_mermaid as to_mermaid
from neumo.graph.draw.page import to_page as to_page
from neumo.graph.draw.sizes import size_story as size_story
from neumo.graph.draw.sizes import trace_size as trace_size
from neumo.graph.draw.svg import to_svg as to_svg
from neumo.graph.draw.text import to_text as to_text

if TYPE_CHECKING:
    from neumo.graph.graph import Graph

__all__ = ["size_story", "to_html", "to_mermaid", "to_page", "to_svg", "to_text", "trace_size"]


def to_html(graph: Graph) -> str:
    """Draw a graph as a piece of HTML: the picture, which scrolls where it is wider than the page."""
    return f'<div style="overflow-x:auto">{to_svg(graph)}</div>'
