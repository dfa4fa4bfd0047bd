"""A plugin host with the calls that run in it: each has a capability for as long as it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from solward.hosts.capabilities import Capabilities, RunningCall
from solward.hosts.host import Host
from solward.hosts.wire.failures import HostBug
from solward.hosts.wire.frames import HostileFrame
from solward.hosts.wire.methods import Method, StreamMethod
from solward.hosts.wire.values import Unreadable
from solward.types.errors import SkillError

_TOO_LONG: Final = "a time limit that passed"


@dataclass(frozen=True, slots=True)
class TenantHost:
    """A host and its running calls.

    Attributes:
        connections: whose connections its requests are made by; shared with no other name.
        on_faulty_call: called with a plugin and what was wrong with a call, by its own fault.
    """

    host: Host
    capabilities: Capabilities
    connections: str
    on_faulty_call: Callable[[str, str], object] = lambda _plugin, _fault: None

    async def call(
        self,
        method: Method[Any, Any],
        request: Any,
        running: RunningCall,
        timeout_s: float | None = None,
    ) -> Any:
        """See `Host.call`."""
        with self._given(running) as cap:
            return await self.host.call(method, request, cap=cap, timeout_s=timeout_s)

    async def stream(
        self, method: StreamMethod[Any, Any, Any], request: Any, running: RunningCall
    ) -> AsyncGenerator[Any, None]:
        """See `Host.stream`."""
        with self._given(running) as cap:
            async with aclosing(self.host.stream(method, request, cap=cap)) as pieces:
                async for piece in pieces:
                    yield piece

    @contextmanager
    def _given(self, running: RunningCall) -> Iterator[bytes]:
        fault: str | None = None
        crashes = self.host.crashes
        try:
            with self.capabilities.given(running) as cap:
                yield cap
        except HostBug as bug:
            fault = f"an unexpected {bug.type_name}"
            raise
        except TimeoutError:
            fault = _TOO_LONG
            raise
        except asyncio.CancelledError:
            if running.late is not None and asyncio.get_running_loop().time() >= running.late:
                fault = _TOO_LONG
            raise
        finally:
            if self.host.crashes > crashes:
                fault = "an end of its plugin host"
            fault = running.refusal or fault
            if fault is not None:
                self.on_faulty_call(running.plugin, fault)

    def read(self, convert: Callable[[Any], Any], answer: Any) -> Any:
        """An answer as Solward has it; one that is nonsense ends the host.

        Raises:
            SkillError: `bad_outcome`.
        """
        try:
            return convert(answer)
        except Unreadable as error:
            process = self.host.process
            if process is not None:
                process.channel.end(HostileFrame(str(error)))
            raise SkillError(
                "bad_outcome", "The plugin answered with what is no such value"
            ) from None
