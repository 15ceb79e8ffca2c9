"""Reads the steps of a recipe: `mel(audio=batch.audio, audio_len=batch.audio_len)`.

A step is one call with named arguments, each a value (`audio`, `batch.audio`) or a list of values. It is
parsed, never evaluated.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from neumo.graph.yaml.read import Node, YamlPlace
from neumo.types.errors import ConfigError

LONGEST_STEP: Final = 20_000  # characters
_QUOTE: Final = "put the step in quotes, or on a line of its own: inside {...} a comma ends a value"


@dataclass(frozen=True, slots=True)
class Reference:
    """One value named in a step: the step (or open input) that makes it, and its port if one is named.

    >>> str(Reference("batch", "audio", YamlPlace("-", 1)))
    'batch.audio'
    """

    step: str
    port: str | None
    place: YamlPlace

    def __str__(self) -> str:
        return self.step if self.port is None else f"{self.step}.{self.port}"


@dataclass(frozen=True, slots=True)
class Argument:
    """A named argument of a step; `many` when it was written as a list."""

    port: str
    values: tuple[Reference, ...]
    many: bool
    place: YamlPlace  # the whole argument, `audio=batch.audio`


@dataclass(frozen=True, slots=True)
class Call:
    """A step: the module that is called and its arguments, each with its place."""

    module: str
    arguments: tuple[Argument, ...]
    place: YamlPlace  # the module's name


def parse_step(node: Node) -> Call:
    """The call that a step stands for.

    >>> from neumo.graph.yaml.read import read_yaml
    >>> tree = read_yaml("feats: mel(audio=batch.audio)", "recipe.yaml")
    >>> call = parse_step(tree.data["feats"])
    >>> call.module, str(call.arguments[0].values[0]), str(call.arguments[0].place)
    ('mel', 'batch.audio', 'recipe.yaml:1:12')
    """
    return _StepReader(node).call()


def parse_reference(node: Node) -> Reference:
    """The value that an output of a graph names, such as `loss.loss`.

    >>> from neumo.graph.yaml.read import read_yaml
    >>> str(parse_reference(read_yaml("loss: ctc.loss", "recipe.yaml").data["loss"]))
    'ctc.loss'
    """
    reader = _StepReader(node)
    return reader.reference(reader.expression())


class _StepReader:
    def __init__(self, node: Node) -> None:
        self.node = node

    def expression(self) -> ast.expr:
        text = self.node.data
        if not isinstance(text, str):
            self.refuse(None, f"a step is a call such as mel(audio=batch.audio), not {self.node.describe()}")
        if len(text) > LONGEST_STEP:
            self.refuse(None, f"a step of over {LONGEST_STEP} characters")
        try:
            return ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            column = getattr(error, "offset", None) if getattr(error, "lineno", None) == 1 else None
            place = self.node.part(column - 1, 1) if column else self.node.place
            message = getattr(error, "msg", None) or "it is nested too deeply"
            fixes = [_QUOTE] if text.count("(") > text.count(")") else []
            raise _wrong_step(place, f"cannot read the step {text!r}: {message}", fixes) from None

    def call(self) -> Call:
        found = self.expression()
        if not isinstance(found, ast.Call):
            self.refuse(found, "a step is one call with named arguments, such as mel(audio=batch.audio)")
        if not isinstance(found.func, ast.Name):
            self.refuse(found.func, "a step calls one module of `modules:` by its name")
        if found.args:
            self.refuse(found.args[0], "arguments are named: write port=value")
        ports: set[str] = set()
        arguments: list[Argument] = []
        for keyword in found.keywords:
            if keyword.arg is None:
                self.refuse(keyword, "`**` is refused: write each argument as port=value")
            if keyword.arg in ports:
                self.refuse(keyword, f"the port {keyword.arg} is given twice")
            ports.add(keyword.arg)
            arguments.append(self.argument(keyword.arg, keyword))
        return Call(found.func.id, tuple(arguments), self.place(found.func))

    def argument(self, port: str, keyword: ast.keyword) -> Argument:
        many = isinstance(keyword.value, ast.List | ast.Tuple)
        parts = keyword.value.elts if isinstance(keyword.value, ast.List | ast.Tuple) else [keyword.value]
        return Argument(port, tuple(self.reference(part) for part in parts), many, self.place(keyword))

    def reference(self, part: ast.expr) -> Reference:
        if isinstance(part, ast.Name):
            return Reference(part.id, None, self.place(part))
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            return Reference(part.value.id, part.attr, self.place(part))
        if isinstance(part, ast.Call):
            self.refuse(part, "a call inside a call: give it a step of its own and name its output here")
        if isinstance(part, ast.Constant):
            self.refuse(
                part, f"{part.value!r} is no value of the graph; settings belong to the module's fields"
            )
        return self.refuse(part, "a value is written step.port, such as batch.audio")

    def place(self, part: ast.expr | ast.keyword) -> YamlPlace:
        text = self.node.data
        lead = len(text) - len(text.lstrip())
        lines = text.strip().split("\n")
        before = sum(len(line) + 1 for line in lines[: part.lineno - 1])
        start = _characters(lines[part.lineno - 1], part.col_offset)
        end = start + 1
        if part.end_lineno == part.lineno:
            end = _characters(lines[part.lineno - 1], part.end_col_offset or part.col_offset + 1)
        return self.node.part(lead + before + start, end - start)

    def refuse(self, part: ast.expr | ast.keyword | None, reason: str) -> NoReturn:
        raise _wrong_step(self.node.place if part is None else self.place(part), reason)


def _characters(text: str, column: int) -> int:
    """A column in UTF-8 bytes, as `ast` counts, in characters."""
    return column if text.isascii() else len(text.encode()[:column].decode(errors="ignore"))


def _wrong_step(place: YamlPlace, reason: str, fixes: Sequence[str] = ()) -> ConfigError:
    return ConfigError(reason, code="recipe-step", where=place, fixes=fixes)
