"""What plugin code raises, kept from stopping the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class PluginCrash(RuntimeError):
    """Plugin code raised what would have stopped the process: `SystemExit`, a Rust panic."""


async def contained(work: Awaitable[T]) -> T:
    """Await plugin code; a `BaseException` of its own becomes a `PluginCrash`.

    A task that ends with `SystemExit` stops the whole event loop, so it must not get that far.
    Cancellation, `KeyboardInterrupt` and ordinary exceptions pass.
    """
    try:
        return await work
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise PluginCrash(f"{type(error).__name__} from a plugin") from error


async def contained_stream(pieces: AsyncIterator[T]) -> AsyncGenerator[T, None]:
    """Pass on what plugin code generates, with the same guard; closed with its consumer."""
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
    """`function` with the same guard, for plugin code that is not async."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise PluginCrash(f"{type(error).__name__} from a plugin") from error

    return call
