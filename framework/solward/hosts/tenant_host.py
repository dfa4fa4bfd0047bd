"""A plugin host with the calls that run in it: each has a capability for as long as it runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from solward.errors import SkillError
from solward.hosts.capabilities import Capabilities, RunningCall
from solward.hosts.host import Host
from solward.hosts.wire.frames import HostileFrame
from solward.hosts.wire.methods import Method, StreamMethod
from solward.hosts.wire.values import Unreadable


@dataclass(frozen=True, slots=True)
class TenantHost:
    """A host and its running calls.

    Attributes:
        connections: whose connections its requests are made by; shared with no other name.
    """

    host: Host
    capabilities: Capabilities
    connections: str

    async def call(
        self,
        method: Method[Any, Any],
        request: Any,
        running: RunningCall,
        timeout_s: float | None = None,
    ) -> Any:
        """See `Host.call`."""
        with self.capabilities.given(running) as cap:
            return await self.host.call(method, request, cap=cap, timeout_s=timeout_s)

    async def stream(
        self, method: StreamMethod[Any, Any, Any], request: Any, running: RunningCall
    ) -> AsyncGenerator[Any, None]:
        """See `Host.stream`."""
        with self.capabilities.given(running) as cap:
            async with aclosing(self.host.stream(method, request, cap=cap)) as pieces:
                async for piece in pieces:
                    yield piece

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
