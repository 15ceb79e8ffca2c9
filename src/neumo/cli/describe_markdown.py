"""`neumo describe --markdown`: the reference of all modules, which is `docs/modules.md`."""

from __future__ import annotations

import re
from typing import Any, Final

from neumo.graph.draw.sketch import short_type

TITLES: Final = {
    "adapters": "Adapters",
    "graph": "Graphs",
    "asr": "Speech recognition",
    "metrics": "Metrics",
    "nlp": "Language",
    "tts": "Speech synthesis",
}
_HEAD: Final = """# Modules

Every module that a recipe can use, with its ports and settings. `neumo describe --markdown` prints this page,
`neumo describe KIND` one module, `neumo describe --fits KIND.port` what can be connected to a port.

In a type, `?` behind the element marks a port that may be left out, `*` one that takes several values, and
`when train` one that is there in training only. Ports are those of a module with default settings; a setting
without a default, and each vocabulary, has the value that is given as an example.
"""
_JSON: Final = """
## The catalogue as JSON

`neumo describe --json` prints the same for other programs, always in the same order:

| key | holds |
|---|---|
| `version` | 1; another number when a key changes its meaning |
| `vocabs` | the vocabularies that occur in types, by the name that they are printed with |
| `modules` | a list, sorted by collection and kind |
| `connections` | a list, sorted by the giving, then by the taking port |

A module:

| key | holds |
|---|---|
| `kind`, `collection`, `role` | its name in a recipe, its room, what it is for |
| `trainable` | whether it has weights |
| `summary`, `doc` | one sentence, and all of its description |
| `fields` | its settings: `name`, `type` (annotation), `words`, `required`, `default` |
| `takes`, `gives` | its ports by name |
| `example` | settings without a default, as they were chosen to state the ports |
| `ports_unknown` | why the ports cannot be stated, or an empty text |
| `presets` | the names that its `preset:` takes |

A port:

| key | holds |
|---|---|
| `type` | the type, as `neumo.types.parse` reads it, given the vocabularies |
| `element`, `axes` | its element by name, and its axes as texts |
| `optional`, `many` | whether it may be left out, whether it takes several values |
| `when` | `train` where it is there in training only, or null |

A connection says that the output `from` can feed the input `to`, judged by these two alone: what else is
connected settles which sizes have to be equal. Adapters are no ends of connections. `outcome` is

| outcome | means |
|---|---|
| `same`, `subtype` | it fits for sure |
| `bound` | it fits for sure, and decides sizes or facets of the input |
| `assumed` | it fits if what `assumes` lists is true, which is checked when the graph is composed or runs |
| `adapter` | it fits with the adapter `through` between them |
| `settings` | it fits where the modules are built as `through` says |

`neumo describe --fits PORT --json` gives the connections of one port: `fed_by` and `feeds`, the surest first.
With `--recipe` it gives `fed_by`, what is `wanted` there, and `values`: values of the graph that fit beside
what else is connected, each with its `type` and whether it is `connected` there now.
"""


def markdown(modules: list[dict[str, Any]]) -> str:
    """Write described modules as one page, by collection."""
    parts = [_HEAD.rstrip()]
    collections = list(dict.fromkeys(found["collection"] for found in modules))
    for collection in collections:
        inside = [found for found in modules if found["collection"] == collection]
        parts.append(f"\n## {TITLES.get(collection, collection)}\n")
        parts += ["| kind | does |", "|---|---|"]
        parts += [_row(each["kind"], each["summary"]) for each in inside]
        parts += [_module(each) for each in inside]
    return "\n".join([*parts, _JSON]).rstrip() + "\n"


def _row(kind: str, summary: str) -> str:
    return f"| [`{kind}`](#{kind.lower()}) | {_cell(summary)} |"


def _module(found: dict[str, Any]) -> str:
    weights = ", has weights" if found["trainable"] else ""
    lines = [f"\n### {found['kind']}\n", f"*{found['role']}{weights}*\n", _prose(found["doc"])]
    if found["takes"] or found["gives"]:
        lines += ["\n| port | | type |", "|---|---|---|"]
        lines += [_port(port, "takes", about) for port, about in found["takes"].items()]
        lines += [_port(port, "gives", about) for port, about in found["gives"].items()]
    if found["ports_unknown"]:
        lines.append(f"\nPorts: {found['ports_unknown']}.")
    if found["fields"]:
        lines += ["\n| setting | is | default |", "|---|---|---|"]
        lines += [_field(field, found["example"]) for field in found["fields"]]
    if found["presets"]:
        lines.append(f"\nPresets: {', '.join(f'`{name}`' for name in found['presets'])}.")
    return "\n".join(lines)


def _port(name: str, side: str, about: dict[str, Any]) -> str:
    return f"| `{name}` | {side} | `{_cell(short_type(about['type']))}` |"


def _field(field: dict[str, Any], example: dict[str, Any]) -> str:
    if field["required"]:
        default = f"needed, here `{_cell(default_text(example[field['name']]))}`"
    else:
        default = f"`{_cell(default_text(field['default']))}`"
    return f"| `{field['name']}` | {_cell(field['words'])} | {default} |"


def default_text(value: Any) -> str:
    """Write the default of a setting in the words of YAML; a list of settings by their number."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"[{len(value)} of them]"
    return short_type(str(value))


def _prose(doc: str) -> str:
    """Put the examples and tables of a docstring into code blocks."""
    return "\n\n".join(map(_block, doc.split("\n\n")))


def _block(text: str) -> str:
    if text.startswith(">>>"):
        return f"```python\n{text}\n```"
    return f"```\n{text}\n```" if re.match(r"=+ ", text) else text


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
