"""Plain records: what `dataclasses` would make of the annotations, without its imports, which take longer than all else
that `tutti run` does."""

from __future__ import annotations


class Record:
    """Fields are the class's annotations, defaults its attributes; lists are copied."""

    def __init__(self, *values, **named) -> None:
        names = list(self.__annotations__)
        if len(values) > len(names):
            raise TypeError(f"{type(self).__name__} has {len(names)} fields, not {len(values)}")
        given = {**dict(zip(names, values)), **named}
        for name in names:
            value = given.pop(name) if name in given else getattr(type(self), name)  # no default: an AttributeError
            setattr(self, name, list(value) if isinstance(value, list) and name not in named else value)
        if given:
            raise TypeError(f"{type(self).__name__} has no {', '.join(given)}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
