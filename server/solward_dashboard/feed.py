"""What a page shows is asked for again and again while it is open, and kept when nobody answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Generic, TypeVar

from nicegui import ui

from solward.client import ClientError
from solward_dashboard.words import clock

T = TypeVar("T")


class Freshness:
    """The banner of a page: says that the API is away and how old what is shown is."""

    def __init__(self) -> None:
        self._answered: datetime | None = None
        with ui.row().classes("sw-banner").props("role=alert aria-live=polite") as self._banner:
            ui.icon("cloud_off")
            self._text = ui.label()
        self._banner.set_visibility(False)

    def answered(self) -> None:
        """The API answered."""
        self._answered = datetime.now(UTC)
        self._banner.set_visibility(False)

    def lost(self, error: ClientError) -> None:
        """It did not."""
        old = "" if self._answered is None else f" This is as of {clock(self._answered)}."
        self._text.set_text(f"{error}.{old} Trying again.")
        self._banner.set_visibility(True)


class Feed(Generic[T]):
    """One question to the API, asked every `every_s` seconds for as long as the page is open.

    Args:
        ask: asks the API.
        show: shows its answer; called on the page.
    """

    def __init__(
        self,
        freshness: Freshness,
        every_s: float,
        ask: Callable[[], Awaitable[T]],
        show: Callable[[T], None],
    ) -> None:
        self._freshness = freshness
        self._ask = ask
        self._show = show
        ui.timer(every_s, self.refresh)

    async def refresh(self) -> None:
        """Ask now, for example after something was done."""
        try:
            answer = await self._ask()
        except ClientError as error:
            self._freshness.lost(error)
            return
        self._freshness.answered()
        self._show(answer)
