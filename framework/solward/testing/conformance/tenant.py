"""What the kit's plugin hosts run: the tenant of the service's own, observed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final

from solward.hosts.inside.plugins import Plugins, handlers, imported
from solward.hosts.inside.tenants import Setup
from solward.hosts.wire import methods
from solward.hosts.wire.channel import Handler, Incoming
from solward.testing.conformance.observer import Observer, Watchdog, calls_plugin, tasks_seen

TENANT: Final = "solward.testing.conformance.tenant:observed"


def observed(setup: Setup) -> Mapping[str, Handler]:
    """Import the plugins; their handlers, and those of what is seen of them."""
    tenant = imported(setup, ObservedPlugins)
    return {
        **handlers(tenant),
        methods.KIT_OBSERVED.name: tenant.observed,
        methods.KIT_BLOCKED.name: tenant.blocked,
    }


class ObservedPlugins(Plugins):
    """Plugins whose hooks are watched, for as long as the host runs."""

    def __init__(self, named: list[EntryPoint], storage: Path | None) -> None:
        super().__init__(named, storage)
        self._observer = Observer()
        self._watchdog = Watchdog(calls_plugin)
        self._stack = ExitStack()
        self._stack.enter_context(tasks_seen())
        self._stack.enter_context(self._watchdog)

    def _bound(self, group: str, name: str, hook: str) -> Callable[..., Any]:
        return self._observer.watched(hook, super()._bound(group, name, hook))

    async def observed(self, incoming: Incoming) -> methods.Observed:
        """One call."""
        return self._observer.observed(**incoming.request)

    async def blocked(self, _incoming: Incoming) -> tuple[float, str]:
        """How long the event loop was held up since this was last asked."""
        return self._watchdog.take()
