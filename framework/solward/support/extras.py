"""Which extra of the distribution brings what an install lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


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
