"""Settings of recipes that name their kind: optimizers, with optimizers inside them, and schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from neumo.engine.updates.optimizers import OTHERS
from neumo.graph.yaml import Recipe, raise_all
from neumo.graph.yaml.fields import field_hints, make, read_fields
from neumo.graph.yaml.read import Node, node_of
from neumo.graph.yaml.scope import Scope, Spoilt
from neumo.types.errors import did_you_mean

Kinds = Mapping[str, type[Any]]

_INSIDE: Final[Mapping[str, Kinds]] = {"others": OTHERS}  # fields that name a kind of their own


def read_kind(recipe: Recipe, key: str, kinds: Kinds, section: str = "train") -> Any:
    """Read `train.<key>`, or that of another section: a mapping with a `kind`, or the kind alone.

    The key may be a way through mappings and lists, such as `phases.0.optimizer`.

    >>> from neumo.engine.updates.optimizers import OPTIMIZERS
    >>> asked = {"optimizer": {"kind": "Muon", "others": {"kind": "AdamW", "lr": 0.002}}}
    >>> read_kind(Recipe(graphs={}, actions={"train": asked}), "optimizer", OPTIMIZERS).others.lr
    0.002

    Raises `ConfigError` with all mistakes, each at its place: no kind, an unknown one, unknown settings.
    """
    node = _node(recipe, section, key)
    if node is None or node.data is None:
        return None
    scope = Scope(recipe.folder, dict(recipe.vocabs))
    try:
        made = _read(node, kinds, scope, f"{section}.{key}")
    except Spoilt:
        made = None
    raise_all(scope.problems, str(recipe.path or "the recipe"))
    return made


def _read(node: Node, kinds: Kinds, scope: Scope, label: str) -> Any:
    kind_node: Node | None = node.data.get("kind") if node.is_map else node
    kind: object = kind_node.data if kind_node is not None else None
    if not isinstance(kind, str) or kind not in kinds:
        scope.refuse(
            f"{label} names no kind" if kind is None else f"{label} has no kind {kind!r}",
            kind_node.place if kind_node is not None else node.place,
            code="recipe-key",
            details=[f"the kinds are {', '.join(kinds)}"],
            fixes=_near(kind, kinds),
        )
        raise Spoilt
    made = kinds[kind]
    written = node if node.is_map else Node({}, node.place, node.key)
    inside = {
        name: written.data[name] for name in _INSIDE if name in field_hints(made) and name in written.data
    }
    values: dict[str, Any] = {}
    spoilt = False
    for name, child in inside.items():
        try:
            values[name] = _read(child, _INSIDE[name], scope, f"{label}.{name}")
        except Spoilt:
            spoilt = True
    values |= read_fields(made, written, scope, label, skip=("kind", *inside))
    if spoilt:
        raise Spoilt
    return make(made, values, written, scope, label)


def _node(recipe: Recipe, section: str, path: str) -> Node | None:
    """Find what a section says, by a key or by keys and numbers such as `phases.0.optimizer`."""
    tree = recipe.tree
    node: Node | None = tree.data.get(section) if tree is not None else None
    if node is None:
        node = node_of(recipe.actions.get(section) or {}, str(recipe.path or "the recipe"))
    for key in path.split("."):
        if node is not None and node.is_list and key.isdigit():
            node = node.items[int(key)]
        else:
            node = node.data.get(key) if node is not None and node.is_map else None
    return node


def _near(kind: object, kinds: Kinds) -> Any:
    lower = {name.lower(): name for name in kinds}
    if isinstance(kind, str) and kind.lower() in lower:
        return (f"did you mean {lower[kind.lower()]!r}?",)
    return did_you_mean(str(kind), kinds)
