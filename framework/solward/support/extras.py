"""Errors that name the extra to install for a missing library; and a way to hide optional
libraries from the libraries that would import them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

UNUSED: Final = ("h2", "pygments", "rich", "trio", "watchfiles")
"""Optional libraries that httpx, httpcore, structlog and uvicorn import if they are installed, and
that long-running processes do not use. They take 12 MB in each process."""


class ExtraMissing(ModuleNotFoundError):
    """A library that only an extra installs is missing; the message is the command to run."""


@contextmanager
def needs(what: str, extra: str) -> Iterator[None]:
    """Raise an error that names the extra if an import in this block needs a missing library.

    Args:
        what: the part of Solward that is imported. If blocks are nested, the error is that of
            the outer block, because its part is what the user wanted.
        extra: the extra that installs all modules of this part.

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
def hide_modules(*names: str) -> Iterator[None]:
    """Hide these libraries from imports in this block, as if they were not installed.

    Use it for optional imports of other libraries that this process does not need. Modules that
    were imported before stay; after the block all can be imported. Use it only for a process's
    first imports, while the process has one thread.

    Args:
        names: top-level modules.
    """
    hidden = [name for name in names if name not in sys.modules]
    # None in `sys.modules` is the import system's own mark for a module that does not exist.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
