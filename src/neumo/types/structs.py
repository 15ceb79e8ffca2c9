"""Structs: elements with named fields that are types themselves; at run time a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from neumo.types.axis import Axis, Clocks
from neumo.types.element import DTypeClass, Element, Var
from neumo.types.errors import ConfigError, did_you_mean
from neumo.types.size import Size, Symbol
from neumo.types.type import NeuralType

Fields = Mapping[str, NeuralType]


class Struct(Element):
    """An element with named typed fields, such as the answer of a search; at run time a mapping.

    A subclass states its fields in its body; they may be given again where their sizes are known better.

    >>> from neumo.types.axis import B, U
    >>> from neumo.types.element import Ids, Score
    >>> Struct(text=Ids()[B, U], score=Score()[B])[()]
    Struct(text=Ids[B, U], score=Score[B])[]
    >>> class Best(Struct):
    ...     text = Ids()[B, U]
    ...     score = Score()[B]
    >>> Best()[B.list()], list(Best().fields)
    (Best[list B], ['text', 'score'])
    """

    dtype: ClassVar[DTypeClass] = "any"
    nested: ClassVar[bool] = True
    stated: ClassVar[Fields] = {}  # the fields that a subclass states in its body
    fields: Fields

    def __init_subclass__(cls, label: str = "", **more: Any) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, NeuralType)}
        for name, field in own.items():
            _check_field(cls.__name__, name, field)
            delattr(cls, name)
        cls.stated = {**cls.stated, **own}
        super().__init_subclass__(label, **more)

    def __init__(self, **fields: NeuralType) -> None:
        stated = self.stated
        if not fields and not stated:
            example = "Struct(text=Ids()[B, U])" if type(self) is Struct else "text = Ids()[B, U] in its body"
            raise ConfigError(f"{self.label} needs fields", code="fields", fixes=(example,))
        for name, field in fields.items():
            _check_field(self.label, name, field)
            if stated:
                self._check_stated(name, field)
        object.__setattr__(self, "fields", {**stated, **fields})

    def _check_stated(self, name: str, field: NeuralType) -> None:
        """A field of a subclass is what that states, or a case of it."""
        from neumo.types.compare import compare

        if name not in self.stated:
            raise ConfigError(
                f"{self.label} has no field {name!r}", code="fields", fixes=did_you_mean(name, self.stated)
            )
        found = compare(self.stated[name].fresh(), field)  # `U` of the class is not the `U` of a signature
        if not found.ok:
            raise ConfigError(
                f"{self.label}.{name} is {self.stated[name]}, not {field}",
                code="fields",
                why=[f"{reason}." for reason in found.reasons],
            )

    def variables(self) -> tuple[Var, ...]:
        """Collect the facets of all fields that are variables."""
        return tuple(var for field in self.fields.values() for var in field.variables())

    def sizes(self) -> tuple[Size, ...]:
        """Collect the sizes of all fields."""
        return tuple(size for field in self.fields.values() for size in field.sizes())

    def substitute(
        self,
        sizes: Mapping[Symbol, Size],
        facets: Mapping[Var, Any],
        axes: Mapping[Symbol, Axis] | None = None,
        clocks: Clocks | None = None,
    ) -> Struct:
        """Put sizes, facets, axes and clocks into every field; see `NeuralType.substitute`."""
        new = {name: field.substitute(sizes, facets, axes, clocks) for name, field in self.fields.items()}
        return _restore(type(self), new)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and type(self) is type(other) and self.fields == other.fields

    def __hash__(self) -> int:
        return hash((type(self), frozenset(self.fields.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.fields)


def _restore(kind: type[Struct], fields: Fields) -> Struct:
    """Make a struct of fields that were checked before."""
    made = object.__new__(kind)
    object.__setattr__(made, "fields", fields)
    return made


def _check_field(owner: str, name: str, field: Any) -> None:
    """Refuse what cannot be a field."""
    if not isinstance(field, NeuralType):
        raise ConfigError(
            f"the field {name} of {owner} is {field!r}, not a type",
            code="fields",
            fixes=(f"{name}=Ids()[B, U]",),
        )
    if not name.isidentifier():
        raise ConfigError(f"{name!r} cannot name a field of {owner}", code="fields")
    if field.many or field.when:
        raise ConfigError(
            f"the field {name} of {owner} is one value in every mode, not {field}",
            code="fields",
            fixes=("make the whole port `many` or `when train`",),
        )
