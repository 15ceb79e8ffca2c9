"""What is compiled of the graphs of a factory, and how."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias, cast, get_args

from neumo.types.errors import ConfigError, GraphError, did_you_mean

Mode = Literal["default", "reduce-overhead", "max-autotune"]


@dataclass(frozen=True, kw_only=True)
class Compile:
    """Translate modules to machine code before they run; `NeuralFactory(compile=...)` takes it.

    >>> Compile(modules=("encoder", "head")).means("encoder")
    True

    `modules` names them, as patterns such as "encoder*"; neighbours among them become one function. None is
    the whole graph: all of it but decoders and what says that it cannot be compiled. With `dynamic`, one
    translation serves batches of all sizes and lengths; without, each shape has its own, which is faster
    where few shapes come again and again. `mode` "max-autotune" measures variants of each operation first,
    "reduce-overhead" is another name for `cuda_graphs`: a GPU then repeats its recorded work as a whole, once
    for each shape. `same_random` draws the random numbers (of dropout) that uncompiled code would draw,
    which is slower; without it they are others, and the same ones for the same seed all the same.
    """

    modules: tuple[str, ...] | str | None = None
    dynamic: bool = True
    mode: Mode = "default"
    cuda_graphs: bool = False
    same_random: bool = False

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ConfigError(
                f"compile: there is no mode {self.mode!r}",
                code="compile",
                details=[f"modes: {', '.join(get_args(Mode))}"],
                fixes=did_you_mean(str(self.mode), get_args(Mode)),
            )
        if self.patterns is not None and not self.patterns:
            raise ConfigError(
                "compile: modules is empty",
                code="compile",
                fixes=["name some, as in modules='encoder'", "modules=None compiles all"],
            )

    @property
    def patterns(self) -> tuple[str, ...] | None:
        """The names of modules; None for all."""
        return (self.modules,) if isinstance(self.modules, str) else self.modules

    @property
    def records(self) -> bool:
        """Whether a GPU repeats recorded work."""
        return self.cuda_graphs or self.mode == "reduce-overhead"

    def means(self, name: str) -> bool:
        """Say whether a module of this name is meant."""
        return self.patterns is None or any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def check(self, names: Sequence[str]) -> None:
        """Raise `GraphError` for a name or pattern that none of these modules has."""
        for pattern in self.patterns or ():
            if not any(fnmatchcase(name, pattern) for name in names):
                raise GraphError(
                    f"compile: there is no module {pattern!r}",
                    code="compile",
                    details=[f"modules: {', '.join(names)}"],
                    fixes=did_you_mean(pattern, names),
                )

    def __str__(self) -> str:
        what = "all modules" if self.patterns is None else ", ".join(self.patterns)
        how = ["sizes may change" if self.dynamic else "anew for each shape"]
        how += [self.mode] * (self.mode == "max-autotune") + ["CUDA graphs"] * self.records
        return f"compiled: {what} ({', '.join(how)})"


CompileLike: TypeAlias = bool | str | Iterable[str] | Compile | None


def read_compile(given: CompileLike) -> Compile | None:
    """Return what an argument `compile` means: a switch, the names of modules, or all settings.

    >>> read_compile("encoder")
    Compile(modules=('encoder',), dynamic=True, mode='default', cuda_graphs=False, same_random=False)
    >>> read_compile(False) is None
    True

    Raises `ConfigError` for anything else.
    """
    if given is None or isinstance(given, bool):
        return Compile() if given else None
    if isinstance(given, Compile):
        return given
    names = (given,) if isinstance(given, str) else given
    listed: tuple[Any, ...] = tuple(names) if isinstance(cast("Any", names), Iterable) else (names,)
    for name in listed:
        if not isinstance(name, str):
            raise ConfigError(
                f"compile={given!r} names no modules",
                code="compile",
                fixes=["compile=True", "compile='encoder'", "compile=Compile(modules=..., dynamic=False)"],
            )
    return Compile(modules=listed)
