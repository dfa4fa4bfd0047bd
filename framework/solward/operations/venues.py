"""The venues of a swap: which venues are asked, and their offers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from solward.plugins.loaded import LoadedVenue
from solward.types.errors import InvalidRequest, LedgerUnavailable, SkillError, SolwardError
from solward.types.venue import BEST_VENUE, VenueContext

T = TypeVar("T")

# The seconds that a swap waits for all venues. If there is no offer by then, it waits for the first
# one, because each venue's own requests have time limits.
OFFERS_S = 5.0


class NoVenue(SkillError):
    """No venue for swaps is both loaded and allowed by the settings."""

    def __init__(self, message: str) -> None:
        super().__init__("no_venue", message)


@dataclass(frozen=True, slots=True)
class Venue:
    """A venue plugin with its context from the service.

    Attributes:
        lacks: the setting that the operator must make before it can be asked; None if none.
    """

    plugin: LoadedVenue
    context: VenueContext
    lacks: str | None = None

    @property
    def name(self) -> str:
        """The name that its plugin declares."""
        return self.plugin.spec.name


@dataclass(frozen=True, slots=True)
class Venues:
    """The loaded venues, and the choice among them.

    Attributes:
        chosen: the name of the only venue that swaps use, or `best`.
    """

    loaded: tuple[Venue, ...]
    chosen: str = BEST_VENUE

    def enabled(self) -> tuple[Venue, ...]:
        """Return the venues that a swap asks, at least one.

        Raises:
            NoVenue: no venue is loaded, or the chosen venue is not loaded or lacks a setting.
        """
        if not self.loaded:
            raise NoVenue("No swap venue plugin is loaded")
        named = tuple(each for each in self.loaded if self.chosen in (BEST_VENUE, each.name))
        if not named:
            names = ", ".join(each.name for each in self.loaded)
            raise NoVenue(
                f"No swap venue {self.chosen!r} is loaded; SWAP_VENUE may be {BEST_VENUE} or one of"
                f" {names}",
            )
        ready = tuple(each for each in named if each.lacks is None)
        if not ready:
            lacking = "; ".join(f"{each.name}: {each.lacks}" for each in named)
            raise NoVenue(f"No swap venue is configured ({lacking})")
        return ready


async def collect_offers(
    venues: Sequence[Venue], ask: Callable[[Venue], Coroutine[Any, Any, T]]
) -> list[T]:
    """Return the answers in the order of the venues, without those of venues that failed.

    Raises:
        InvalidRequest: every venue refused; names each venue's reason.
        LedgerUnavailable: every venue failed. The error of a single venue is raised unchanged.
    """
    if len(venues) == 1:
        return [await ask(venues[0])]
    tasks = [asyncio.create_task(ask(venue)) for venue in venues]
    try:
        _, waiting = await asyncio.wait(tasks, timeout=OFFERS_S)
        while waiting and not any(map(_succeeded, tasks)):
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        found = [task.result() for task in tasks if _succeeded(task)]
        if found:
            return found
        errors = [task.exception() for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    text = "; ".join(
        f"{venue.name}: {_reason_text(error)}" for venue, error in zip(venues, errors, strict=True)
    )
    if all(isinstance(error, InvalidRequest) for error in errors):
        raise InvalidRequest(f"No swap venue offers this swap ({text})")
    raise LedgerUnavailable(f"No swap venue made an offer ({text})")


def _succeeded(task: asyncio.Task[T]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _reason_text(error: BaseException | None) -> str:
    # The text of any other error is from the plugin, and may contain anything.
    return str(error) if isinstance(error, SolwardError) else type(error).__name__
