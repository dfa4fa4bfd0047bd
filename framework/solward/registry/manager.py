"""A pluggy manager that takes no plugin once the callers are bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pluggy

from solward import hookspecs


class SealedError(RuntimeError):
    """A plugin was registered after the callers had been bound."""


class Manager(pluggy.PluginManager):
    """Registers plugins until it is sealed, and only then binds callers.

    A bound caller is a live view of every plugin but those it leaves out: it would execute one
    registered later, so nothing may be.
    """

    def __init__(self) -> None:
        super().__init__(hookspecs.PROJECT)
        self.add_hookspecs(hookspecs)
        self._sealed = False

    def register(self, plugin: Any, name: str | None = None) -> str | None:
        """Register a plugin; raises `SealedError` when sealed, else what pluggy raises."""
        if self._sealed:
            raise SealedError("plugins are registered before the first caller is bound")
        return super().register(plugin, name)

    def seal(self) -> None:
        """Refuse every later registration."""
        self.check_pending()
        self._sealed = True

    def bind(self, hook: str, plugin: Any) -> Callable[..., Any]:
        """A caller of `hook` that runs `plugin` alone, whoever else is registered."""
        if not self._sealed:
            raise SealedError("callers are bound after the last registration")
        others = [other for other in self.get_plugins() if other is not plugin]
        return self.subset_hook_caller(hook, others)
