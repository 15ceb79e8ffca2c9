"""Pictures of graphs: a typed listing, Mermaid, SVG, and what a notebook shows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from neumo.graph.draw_mermaid import to_mermaid as to_mermaid
from neumo.graph.draw_svg import to_svg as to_svg
from neumo.graph.draw_text import to_text as to_text

if TYPE_CHECKING:
    from neumo.graph.graph import Graph

__all__ = ["to_html", "to_mermaid", "to_page", "to_svg", "to_text"]


def to_html(graph: Graph) -> str:
    """Draw a graph as a piece of HTML: the picture, which scrolls where it is wider than the page."""
    return f'<div style="overflow-x:auto">{to_svg(graph)}</div>'


def to_page(graphs: Sequence[Graph], title: str) -> str:
    """Draw graphs as a whole HTML page that needs no other file: each picture with its listing below."""
    parts = [
        f"<h2>{escape(graph.name)}</h2>{to_html(graph)}<details><summary>listing</summary>"
        f"<pre>{escape(to_text(graph))}</pre></details>"
        for graph in graphs
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_PAGE}</style>"
        f"</head><body><h1>{escape(title)}</h1>{''.join(parts)}</body></html>\n"
    )


_PAGE = (
    ":root{color-scheme:light dark}body{font-family:system-ui,sans-serif;margin:2rem;max-width:none}"
    "h1{font-size:1.4rem}h2{font-size:1.1rem}pre{overflow-x:auto}"
)
