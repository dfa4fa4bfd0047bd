"""The tenant of model hosts: Solward's own language model providers, and litellm under them.

They run as any distribution's plugins do (`inside.plugins`); this is what litellm needs beside it.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from solward.hosts.inside.plugins import plugins
from solward.hosts.inside.tenants import Setup
from solward.hosts.wire.channel import Handler

T = TypeVar("T")
P = ParamSpec("P")


def models(setup: Setup) -> Mapping[str, Handler]:
    """Import the providers' modules, which import litellm at the first call."""
    # No program can be run here and no file be written: litellm, when it is imported, asks for a
    # compiler and for the folder of temporary files, and uses neither.
    os.environ["PATH"] = ""
    tempfile.tempdir = "/nonexistent"
    # It would open sockets, where httpx is the service's.
    os.environ["DISABLE_AIOHTTP_TRANSPORT"] = "True"
    asyncio.get_running_loop().set_default_executor(_AtOnce())
    return plugins(setup)


class _AtOnce(ThreadPoolExecutor):
    """Runs what litellm gives to a thread where it is given, which is microseconds of each call:
    two changes of threads take longer."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As any executor's, done when it returns."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future
