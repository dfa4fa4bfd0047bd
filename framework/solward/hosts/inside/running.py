"""The call that runs: each hook runs with its capability, which its requests carry."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from solward.hosts.wire.channel import Channel


@dataclass(frozen=True, slots=True)
class Running:
    """A running call: its channel to the service, and its capability there."""

    channel: Channel
    cap: bytes


_RUNNING: ContextVar[Running] = ContextVar("running_call")


@contextmanager
def running(call: Running) -> Iterator[None]:
    """Run what is inside, and the tasks that it starts, as this call."""
    token = _RUNNING.set(call)
    try:
        yield
    finally:
        _RUNNING.reset(token)


def current_cap() -> bytes | None:
    """The capability of the call whose code this is; None where no hook runs, as at import."""
    call = _RUNNING.get(None)
    return None if call is None else call.cap


class CurrentChannel:
    """The channel of the call whose code asks."""

    def stream(self, *given: Any, **options: Any) -> AsyncGenerator[Any, None]:
        """See `Channel.stream`; only while `current_cap` is not None."""
        return _RUNNING.get().channel.stream(*given, **options)
