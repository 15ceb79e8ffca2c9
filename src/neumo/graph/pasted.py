"""Writes a way out as the code that the caller would write, in the caller's own names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from neumo.graph.adapters import Adapter
from neumo.graph.adapters.chains import Applied, Before, Chain
from neumo.graph.candidates import Surroundings, each_value
from neumo.graph.module import NeuralModule, is_default, module_fields
from neumo.graph.names import FreeNames
from neumo.graph.source import TextSite
from neumo.graph.value import Value
from neumo.types import Vocab
from neumo.types.errors import COLUMNS

CODE_ROOM = COLUMNS - 11  # columns behind the words fix and or


def pasted_chain(around: Surroundings, port: str, value: Value, chain: Chain) -> str:
    """Write adapters behind a value: `audio=Resample(8000, 16000)(audio=batch.audio).audio`.

    Where more than one value goes through them, the record gets a name: `converted = Resample(...)(...)`.
    The text is empty where something has no name there, and in recipes, which are not written in Python.
    """
    call = around.call
    if isinstance(call.location, TextSite):
        return ""
    try:
        variables = call.variables()
        text = _Writer(around, variables).chain(port, value, chain)
        is_long = len(chain) > 1 and "\n" in text
        return _Writer(around, variables, apart=True).chain(port, value, chain) if is_long else text
    except LookupError:  # no variable holds it
        return ""


class _Writer:
    """Writes the lines of one way out; raises `LookupError` where something has no name."""

    def __init__(self, around: Surroundings, variables: Mapping[str, Any], *, apart: bool = False) -> None:
        self.around = around
        self.apart = apart  # each adapter but the last on a line of its own
        self.variables = variables
        self.names = FreeNames(variables)
        self.lines: list[str] = []

    def chain(self, port: str, value: Value, chain: Chain) -> str:
        inner = self.value(value)
        for n, applied in enumerate(chain):
            adapter = applied.adapter
            following = chain[n + 1].beside.values() if n + 1 < len(chain) else ()
            made, record = self.made(adapter), inner.rpartition(".")[0]
            arguments = ", ".join([f"{adapter.entry}={inner}", *self.beside(applied, record)])
            inner = f"{made}({arguments}).{adapter.exit}"
            is_used_again = bool(applied.passed) or any(isinstance(each, Before) for each in following)
            is_last = applied is chain[-1]
            is_long = len(self.replaced(port, value, inner)) > CODE_ROOM if is_last else self.apart
            if is_used_again or is_long:
                name = self.names.take("converted")
                line = f"{name} = {made}({arguments})"
                self.lines += (
                    [line] if len(line) <= CODE_ROOM else [f"{name} = {made}(", f"    {arguments}", ")"]
                )
                inner = f"{name}.{adapter.exit}"
        if chain[-1].passed and not isinstance(self.around.call.inputs[port], tuple):
            return "\n".join(self.lines)  # the words say which ports it feeds
        return "\n".join([*self.lines, self.replaced(port, value, inner)])

    def replaced(self, port: str, value: Value, text: str) -> str:
        """Write the argument with the new value, within the list where there are several."""
        source = self.around.call.inputs[port]
        if not isinstance(source, tuple):
            return f"{port}={text}"
        items = (text if item is value else self.value(item) for item in each_value(source))
        return f"{port}=[{', '.join(items)}]"

    def beside(self, applied: Applied, record: str) -> Iterator[str]:
        """Write the further ports; `record` has the outputs of the adapter before."""
        for port, other in applied.beside.items():
            yield f"{port}={f'{record}.{other.port}' if isinstance(other, Before) else self.value(other)}"

    def value(self, value: Value) -> str:
        return self.around.spelled[id(value.step), value.port]

    def made(self, adapter: Adapter) -> str:
        """Write how the adapter is made: its settings by position as far as none is left out."""
        fields = module_fields(adapter)
        words = [
            self.setting(setting) if _is_required(adapter, name) else f"{name}={self.setting(setting)}"
            for name, setting in fields.items()
            if not is_default(adapter, name, setting)
        ]
        return f"{type(adapter).__name__}({', '.join(words)})"

    def setting(self, setting: Any) -> str:
        if isinstance(setting, Vocab):
            return next(_names_of(setting, self.variables))
        return f'"{setting}"' if isinstance(setting, str) else repr(setting)


def _names_of(vocab: Vocab, variables: Mapping[str, Any]) -> Iterator[str]:
    """Find a vocabulary among the variables, with a blank added, or as the setting of a module."""
    for name, held in variables.items():
        if isinstance(held, Vocab) and held == vocab:
            yield name
        elif isinstance(held, Vocab) and held.blank is None and held.with_blank() == vocab:
            yield f"{name}.with_blank()"
        elif isinstance(held, Vocab) and None in (held.bos, held.eos) and held.with_ends() == vocab:
            yield f"{name}.with_ends()"
    for name, held in variables.items():
        if isinstance(held, NeuralModule):
            yield from (f"{name}.{key}" for key, value in module_fields(held).items() if _is(value, vocab))
    raise LookupError(vocab)


def _is_required(adapter: Adapter, name: str) -> bool:
    fields: Mapping[str, dataclasses.Field[Any]] = getattr(type(adapter), "__dataclass_fields__")  # noqa: B009
    return fields[name].default is dataclasses.MISSING


def _is(value: object, vocab: Vocab) -> bool:
    return isinstance(value, Vocab) and value == vocab
