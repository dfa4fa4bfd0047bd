"""Paths of parameters: those a schema declares, those a case has, those a skill read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class RecordedParams(dict[str, Any]):
    """Parameters that record which of them are read, nested ones as `outer.inner`."""

    def __init__(self, values: Mapping[str, Any], read: set[str], path: str = "") -> None:
        super().__init__(
            {name: _recorded(value, read, f"{path}{name}") for name, value in values.items()}
        )
        self._read = read
        self._path = path

    def _record(self, *names: object) -> None:
        self._read.update(f"{self._path}{name}" for name in names)

    def __getitem__(self, name: str) -> Any:
        self._record(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """See `dict.get`."""
        self._record(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        """See `dict.pop`."""
        self._record(name)
        return super().pop(name, *default)

    def __contains__(self, name: object) -> bool:
        self._record(name)
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        self._record(*super().keys())
        return super().__iter__()

    def keys(self) -> Any:
        """See `dict.keys`; counts as reading all of them."""
        self._record(*super().keys())
        return super().keys()

    def items(self) -> Any:
        """See `dict.items`."""
        self._record(*super().keys())
        return super().items()

    def values(self) -> Any:
        """See `dict.values`."""
        self._record(*super().keys())
        return super().values()

    def copy(self) -> dict[str, Any]:
        """A copy that records too."""
        return RecordedParams(dict(super().items()), self._read, self._path)


def _recorded(value: Any, read: set[str], path: str) -> Any:
    if isinstance(value, Mapping):
        return RecordedParams(value, read, f"{path}.")
    return [_recorded(each, read, path) for each in value] if isinstance(value, list) else value


def declared_paths(
    schema: Mapping[str, Any], path: str = ""
) -> list[tuple[str, Mapping[str, Any]]]:
    """Every parameter a schema declares with its own schema, nested ones as `outer.inner`."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for name, each in schema.get("properties", {}).items():
        found.append((f"{path}{name}", each))
        found += declared_paths(each, f"{path}{name}.")
    items = schema.get("items")
    return found + (declared_paths(items, path) if isinstance(items, Mapping) else [])


def present_paths(value: Any, path: str = "") -> set[str]:
    """The path of every parameter in `value`."""
    if isinstance(value, Mapping):
        found = {f"{path}{name}" for name in value}
        return found.union(*(present_paths(each, f"{path}{name}.") for name, each in value.items()))
    if isinstance(value, list | tuple):
        return set().union(*(present_paths(each, path) for each in value))
    return set()
