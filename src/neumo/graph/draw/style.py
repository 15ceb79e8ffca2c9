"""Colours and fonts of drawings, as CSS, for light and dark surroundings."""

from __future__ import annotations

from typing import Final

ROLES: Final = {  # role: (line and text, fill) in light, then in dark surroundings
    "inputs": ("#475569", "#f1f5f9", "#cbd5e1", "#1e293b"),
    "data": ("#0369a1", "#e0f2fe", "#7dd3fc", "#0c2d48"),
    "module": ("#4338ca", "#eef2ff", "#a5b4fc", "#1e1b4b"),
    "decoder": ("#047857", "#d1fae5", "#6ee7b7", "#053b2e"),
    "loss": ("#be123c", "#ffe4e6", "#fda4af", "#4c0519"),
    "metric": ("#b45309", "#fef3c7", "#fcd34d", "#451a03"),
    "adapter": ("#6b21a8", "#f3e8ff", "#d8b4fe", "#3b0764"),
    "outputs": ("#334155", "#ffffff", "#e2e8f0", "#0f172a"),
}
TAGS: Final = (  # of modules that are used more than once; the number beside it tells more than eight apart
    "#c2410c",
    "#0f766e",
    "#7e22ce",
    "#1d4ed8",
    "#be185d",
    "#4d7c0f",
    "#0e7490",
    "#a16207",
)
_SHADES: Final = (  # page, ink, faint, wire, thin, halo
    ("#ffffff", "#0f172a", "#475569", "#64748b", "#94a3b8"),
    ("#0b1220", "#f1f5f9", "#a8b3c4", "#94a3b8", "#64748b"),
)
_FONTS: Final = (
    ".neumo text{font-family:ui-sans-serif,system-ui,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif}"
    ".neumo .n-title{font-size:14px;font-weight:600}.neumo .n-kind{font-size:11.5px}"
    ".neumo .n-port,.neumo .n-type,.neumo .n-axes"
    "{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:11.5px}"
    ".neumo .n-type{font-weight:600}.neumo .n-unused{opacity:.55}"
    ".neumo .n-wire{fill:none;stroke-width:1.7}.neumo .n-thin{stroke-width:1.1;stroke-dasharray:4 3}"
    ".neumo .n-open{fill:none;stroke-dasharray:2 1.5}"
    ".neumo .n-tag text,.neumo .n-note text{font-size:10px;font-weight:700;fill:#ffffff}"
    ".neumo .n-tag circle{fill:#475569}"
    ".neumo .n-assumed circle{fill:#b45309}.neumo .n-warning circle,.neumo .n-finding circle{fill:#be123c}"
)


def svg_style() -> str:
    """Give the style of a picture that stands alone: it follows the shade of its surroundings."""
    return f"{_FONTS}{shade(0)}@media (prefers-color-scheme:dark){{{shade(1)}}}"


def page_style() -> str:
    """Give the style of pictures on a page, whose reader may choose the shade: `data-theme` of the root."""
    dark = ":root[data-theme=dark] "
    system = f"@media screen and (prefers-color-scheme:dark){{{shade(1, ':root:not([data-theme=light]) ')}}}"
    return f"{_FONTS}{shade(0)}{system}@media screen{{{shade(1, dark)}}}"


def shade(dark: int, root: str = "") -> str:
    """Give the colours for light (0) or dark (1) surroundings; `root` is put before every selector."""
    page, ink, faint, wire, thin = _SHADES[dark]
    scope = f"{root}.neumo"
    rules = [
        f"{scope} .n-page{{fill:{page}}}{scope} text,{scope} .n-type{{fill:{ink}}}",
        f"{scope} .n-kind,{scope} .n-axes,{scope} .n-port{{fill:{faint}}}",
        f"{scope} .n-wire{{stroke:{wire}}}{scope} .n-tip{{fill:{wire}}}",
        f"{scope} .n-thin{{stroke:{thin}}}{scope} .n-thin-tip{{fill:{thin}}}",
    ]
    for role, colours in ROLES.items():
        line, fill = colours[2 * dark : 2 * dark + 2]
        rules.append(
            f"{scope} .n-{role} rect{{fill:{fill};stroke:{line}}}{scope} .n-{role} circle{{fill:{line}}}"
            f"{scope} .n-{role} .n-open{{fill:{page};stroke:{line}}}{scope} .n-{role} .n-title{{fill:{line}}}"
        )
    for number, colour in enumerate(TAGS):
        rules.append(f"{scope} .n-tag{number} .n-tag *{{fill:{colour};stroke:none}}")
        rules.append(f"{scope} .n-tag{number} .n-tag text{{fill:#ffffff}}")
    return "".join(rules)
