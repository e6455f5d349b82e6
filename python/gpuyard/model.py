"""The base of the records in models.py: reads them from JSON and writes them to it.

Fields that only a newer daemon knows are stored in `extra`. Values of enumerations are strings, so
that a new value is not an error.

The records are frozen dataclasses, but their methods are written once, here, and dataclasses only
processes a record on demand. It would compile six methods for each of a hundred classes, which
takes longer than the rest of `import gpuyard` and a first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Mapping, NoReturn, Tuple, TypeVar, cast

from .errors import Internal

M = TypeVar("M", bound="Model")

# For each field: its name, its kind, "1" for one value or "n" for a list, and whether it may be
# null. A kind is a letter of _TYPES or the name of a record; with a "?" a value of a list may be
# null.
Shape = Tuple[Tuple[str, str, str, bool], ...]

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    @dataclass_transform(frozen_default=True, kw_only_default=True)
    def record(kind: type[M]) -> type[M]: ...
else:
    def record(kind):
        return kind


class _Fields:
    """The fields for dataclasses.fields(), asdict(), replace() and is_dataclass(). They are created
    on first use, and then replace this object in the class."""

    def __get__(self, instance: object, owner: type) -> Any:
        import dataclasses

        dataclasses.dataclass(init=False, repr=False, eq=False)(owner)
        return owner.__dict__["__dataclass_fields__"]


# The JSON types of each kind in a shape; any other kind is the name of a record.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "s": (str,), "i": (int,), "n": (int, float), "b": (bool,), "*": (object,),
    "l": (list,), "o": (dict,),
}


_RECORDS: dict[str, type[Model]] = {}


@record
class Model:
    """A record of the daemon. `extra` has the fields that are unknown to this version."""

    if TYPE_CHECKING:
        extra: Mapping[str, Any] = {}
    else:
        extra: Mapping[str, Any]
        __dataclass_fields__ = _Fields()

    _shape: ClassVar[Shape] = ()

    def __init_subclass__(cls) -> None:
        _RECORDS[cls.__name__] = cls
        if not TYPE_CHECKING:
            cls.__dataclass_fields__ = _Fields()

    if not TYPE_CHECKING:
        def __init__(self, **values: Any) -> None:
            object.__setattr__(self, "extra", dict(values.pop("extra", {})))
            for name, *_ in self._shape:
                if name not in values and not hasattr(type(self), name):
                    raise TypeError(f"{type(self).__name__} requires {name}")
                object.__setattr__(self, name, values.pop(name, None))
            for name in values:
                raise TypeError(f"{type(self).__name__} has no field {name}")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        from dataclasses import FrozenInstanceError
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        from dataclasses import FrozenInstanceError
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name, *_ in self._shape)
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(repr(self))

    @classmethod
    def read(cls: type[M], data: Any) -> M:
        """Reads parsed JSON. Raises Internal if its shape does not match."""
        if not isinstance(data, dict):
            raise Internal(f"expected a JSON object for {cls.__name__} of the daemon")
        record = object.__new__(cls)
        rest = dict(cast("dict[str, Any]", data))
        for name, kind, many, optional in cls._shape:
            value: Any = rest.pop(name, None)
            if value is None and optional:
                read: Any = None
            elif many == "n" and isinstance(value, list):
                values: list[Any] = cast(Any, value)
                read = [_read_one(cls, name, kind, one) for one in values]
            elif many == "n":
                raise _shape_error(cls, name, value)
            else:
                read = _read_one(cls, name, kind, value)
            object.__setattr__(record, name, read)
        object.__setattr__(record, "extra", rest)
        return record

    def to_json(self) -> dict[str, Any]:
        """JSON for a request or a file, without the fields that are None."""
        written: dict[str, Any] = dict(self.extra)
        for name, *_ in self._shape:
            value = getattr(self, name)
            if value is not None:
                written[name] = _json_of(value)
        return written


def _json_of(value: Any) -> Any:
    if isinstance(value, Model):
        return value.to_json()
    if isinstance(value, list):
        values: list[Any] = cast(Any, value)
        return [_json_of(one) for one in values]
    return value


def _shape_error(owner: type[Model], name: str, value: Any) -> Internal:
    got = "no value" if value is None else repr(value)[:60]
    return Internal(f"unexpected value in {owner.__name__}.{name} of the daemon: {got}")


def _read_one(owner: type[Model], name: str, kind: str, value: Any) -> Any:
    if kind.endswith("?"):
        if value is None:
            return None
        kind = kind[:-1]
    types = _TYPES.get(kind)
    if types is None:
        return _RECORDS[kind].read(value)
    # In Python a bool is an int; in JSON it is not.
    if not isinstance(value, types) or (isinstance(value, bool) and kind in "in"):
        raise _shape_error(owner, name, value)
    return value
