"""What a page shows is asked for again and again while it is open, and kept when nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Generic, TypeVar

from nicegui import events, ui

from solward.client import ClientError, Unauthorized, Unreachable
from solward_dashboard.wording import clock

T = TypeVar("T")

# An answer later than this is no longer news; the next question is asked in its place.
_PATIENCE_S = 15.0
_SEEN_EVENT = "solward_seen"
_TELL_WHETHER_SEEN = f"""
const tell = () => emitEvent("{_SEEN_EVENT}", !document.hidden);
document.addEventListener("visibilitychange", tell);
tell();
"""


class Freshness:
    """The banner of a page: says that the API is away and how old what is shown is.

    Made once a page, inside the element whose content it marks as old.
    """

    def __init__(self) -> None:
        self._client = ui.context.client
        self._content = ui.context.slot.parent
        self._answered: datetime | None = None
        self._lost: set[object] = set()
        self._seen = True
        self._asking: list[Callable[[], Awaitable[None]]] = []
        with ui.row().classes("sw-banner").props("role=alert aria-live=polite") as self._banner:
            ui.icon("cloud_off").props("aria-hidden=true")
            self._text = ui.label()
        self._banner.props('data-testid="banner"').set_visibility(False)
        ui.on(_SEEN_EVENT, self._look)
        ui.run_javascript(_TELL_WHETHER_SEEN)

    @property
    def watched(self) -> bool:
        """Whether somebody looks: the page is connected, and its tab is not in the background."""
        return self._seen and self._client.has_socket_connection

    def when_seen_again(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Do this as soon as somebody looks again."""
        self._asking.append(ask)

    async def _look(self, event: events.GenericEventArguments) -> None:
        seen = event.args is True
        back = seen and not self._seen
        self._seen = seen
        if back:
            await asyncio.gather(*(ask() for ask in self._asking))

    def answered(self, feed: object = None) -> None:
        """The API answered."""
        self._lost.discard(feed)
        if self._lost:
            return
        self._answered = datetime.now(UTC)
        self._banner.set_visibility(False)
        self._content.classes(remove="sw-old")

    def lost(self, error: Exception, feed: object = None) -> None:
        """It did not; what is shown stays, marked as old."""
        self._lost.add(feed)
        as_of = "" if self._answered is None else f" What you see is of {clock(self._answered)}."
        self._text.set_text(f"{_why(error)}{as_of} Trying again.")
        self._banner.set_visibility(True)
        self._content.classes(add="sw-old")


class Feed(Generic[T]):
    """One question to the API, asked every `every_s` seconds for as long as somebody looks.

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
        self._client = ui.context.client
        self._ask = ask
        self._show = show
        self._asked = 0
        self._told = 0
        freshness.when_seen_again(self.refresh)
        ui.timer(every_s, self._tick)

    async def _tick(self) -> None:
        if self._freshness.watched:
            await self.refresh()

    async def refresh(self) -> None:
        """Ask now, for example after something was done."""
        self._asked += 1
        turn = self._asked
        try:
            answer = await asyncio.wait_for(self._ask(), _PATIENCE_S)
        except (ClientError, TimeoutError) as error:
            if self._is_news(turn):
                self._freshness.lost(error, self)
            return
        if self._is_news(turn):
            self._freshness.answered(self)
            self._show(answer)

    def _is_news(self, turn: int) -> bool:
        # A question asked later may have been answered earlier, and the page may be gone.
        if turn < self._told or self._client.is_deleted:
            return False
        self._told = turn
        return True


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"The service did not answer within {_PATIENCE_S:g} s."
    text = str(error).rstrip(".")
    if isinstance(error, Unauthorized):
        return f"{text}. NEXT_PUBLIC_API_SECRET must be the API_SECRET of the service."
    if isinstance(error, Unreachable):
        return f"The service is away: {text}."
    return f"{text}."
