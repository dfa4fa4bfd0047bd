"""Libraries that an install lacks, and the extra of the distribution that brings them; and
libraries that others import only because they are installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

UNUSED: Final = ("h2", "pygments", "rich", "trio", "watchfiles")
"""What httpx, httpcore, structlog and uvicorn take where it is installed: for HTTP/2, a terminal's
colours, Trio and a developer's changes, of which processes that stay use nothing. 12 MB in each."""


class ExtraMissing(ModuleNotFoundError):
    """A library that only an extra installs is missing; the message is the command to run."""


@contextmanager
def needs(what: str, extra: str) -> Iterator[None]:
    """Name the extra where an import in this block finds a third party's module missing.

    Args:
        what: the part of Solward that is imported. Where blocks are nested the outer one, which
            is what the user wanted, names itself and its extra.
        extra: the extra that has all of it.

    Raises:
        ExtraMissing: instead of the `ModuleNotFoundError`.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("solward"):
            raise
        raise ExtraMissing(
            f"{what} needs more than this install has (no module {error.name}): "
            f"pip install 'solward[{extra}]'",
            name=error.name,
        ) from error


@contextmanager
def left_out(*names: str) -> Iterator[None]:
    """Have imports in this block find these libraries missing, as where nobody installed them.

    For a library that another takes if it is there, and that this process has no use for. One that
    is imported already stays; after the block each can be imported. For a process's first imports,
    while it has one thread.

    Args:
        names: top-level modules.
    """
    hidden = [name for name in names if name not in sys.modules]
    # The import system's own way to say that there is no such module.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
