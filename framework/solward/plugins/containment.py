"""Guards around plugin code, so that no exception of it stops the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import ParamSpec, TypeVar

from solward.types.errors import SolwardError

T = TypeVar("T")
P = ParamSpec("P")


class PluginCrash(RuntimeError):
    """Plugin code raised what would have stopped the process: `SystemExit`, a Rust panic."""


async def contained(work: Awaitable[T]) -> T:
    """Await plugin code; a `BaseException` of its own becomes a `PluginCrash`.

    `SystemExit` in a task would stop the whole event loop. Cancellation, `KeyboardInterrupt` and
    ordinary exceptions pass.
    """
    try:
        return await work
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise PluginCrash(f"{type(error).__name__} from a plugin") from error


async def contained_stream(pieces: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """As `contained`, for an async generator; closing it closes the plugin's."""
    try:
        async for piece in pieces:
            yield piece
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise PluginCrash(f"{type(error).__name__} from a plugin") from error
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


def contained_call(function: Callable[P, T]) -> Callable[P, T]:
    """As `contained`, for plugin code that is not async."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise PluginCrash(f"{type(error).__name__} from a plugin") from error

    return call


def deliberate(error: Exception) -> SolwardError | None:
    """The first deliberate error of a task group in which every error is one."""
    if not isinstance(error, ExceptionGroup):
        return None
    found, other = error.split(SolwardError)
    first: SolwardError | ExceptionGroup[SolwardError] | None = found
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return first if other is None else None
