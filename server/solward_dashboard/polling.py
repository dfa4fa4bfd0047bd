"""Polling the API while a page is visible; without a response its content stays, marked as old."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Generic, TypeVar

from nicegui import events, ui

from solward.client import ClientError, Unauthorized, Unreachable
from solward_dashboard.api import own_credential
from solward_dashboard.wording import clock

T = TypeVar("T")

# A slower request is abandoned; the next poll takes its place.
_TIMEOUT_S = 15.0
_VISIBILITY_EVENT = "solward_seen"
_EMIT_VISIBILITY = f"""
const emit = () => emitEvent("{_VISIBILITY_EVENT}", !document.hidden);
document.addEventListener("visibilitychange", emit);
emit();
"""


class Freshness:
    """The banner of a page: that the API does not respond, and how old the content is.

    Made once a page, inside the element whose content it marks as old.
    """

    def __init__(self) -> None:
        self._client = ui.context.client
        self._content = ui.context.slot.parent
        self._last_response: datetime | None = None
        self._failing: set[object] = set()
        self._unanswered: set[object] = set()
        self._visible = True
        self._on_visible: list[Callable[[], Awaitable[None]]] = []
        with ui.row().classes("sw-banner").props("role=alert aria-live=polite") as self._banner:
            ui.icon("cloud_off").props("aria-hidden=true")
            self._text = ui.label()
        self._banner.props('data-testid="banner"').set_visibility(False)
        ui.on(_VISIBILITY_EVENT, self._visibility_changed)
        ui.run_javascript(_EMIT_VISIBILITY)

    @property
    def visible(self) -> bool:
        """Whether the page is connected, and its tab not in the background."""
        return self._visible and self._client.has_socket_connection

    def when_visible_again(self, action: Callable[[], Awaitable[None]]) -> None:
        """Call `action` whenever the tab comes back to the foreground."""
        self._on_visible.append(action)

    async def _visibility_changed(self, event: events.GenericEventArguments) -> None:
        visible = event.args is True
        came_back = visible and not self._visible
        self._visible = visible
        if came_back:
            await asyncio.gather(*(action() for action in self._on_visible))

    def asks(self, poll: object) -> None:
        """The content is on its way (aria-busy) until each of these has its first response."""
        self._unanswered.add(poll)
        self._content.props("aria-busy=true")

    def succeeded(self, poll: object = None) -> None:
        """Record a response of the API."""
        self._failing.discard(poll)
        if poll in self._unanswered:
            self._unanswered.discard(poll)
            if not self._unanswered:
                self._content.props(remove="aria-busy")
        if self._failing:
            return
        self._last_response = datetime.now(UTC)
        self._banner.set_visibility(False)
        self._content.classes(remove="sw-old")

    def failed(self, error: Exception, poll: object = None) -> None:
        """Record a failed request: the content stays, marked as old."""
        self._failing.add(poll)
        as_of = (
            ""
            if self._last_response is None
            else f" What you see is of {clock(self._last_response)}."
        )
        self._text.set_text(f"{_failure_text(error)}{as_of} Trying again.")
        self._banner.set_visibility(True)
        self._content.classes(add="sw-old")


class Poll(Generic[T]):
    """A request to the API, repeated every `every_s` seconds while the page is visible.

    Args:
        fetch: sends the request.
        show: renders its response; called on the page.
    """

    def __init__(
        self,
        freshness: Freshness,
        every_s: float,
        fetch: Callable[[], Awaitable[T]],
        show: Callable[[T], None],
    ) -> None:
        self._freshness = freshness
        self._client = ui.context.client
        self._fetch = fetch
        self._show = show
        self._sent = 0
        self._newest_shown = 0
        freshness.asks(self)
        freshness.when_visible_again(self.refresh)
        ui.timer(every_s, self._tick)

    async def _tick(self) -> None:
        if self._freshness.visible:
            await self.refresh()

    async def refresh(self) -> None:
        """Send the request now, for example after an action."""
        self._sent += 1
        number = self._sent
        try:
            response = await asyncio.wait_for(self._fetch(), _TIMEOUT_S)
        except (ClientError, TimeoutError) as error:
            if self._is_current(number):
                self._freshness.failed(error, self)
            return
        if self._is_current(number):
            self._freshness.succeeded(self)
            self._show(response)

    def _is_current(self, number: int) -> bool:
        # A later request may have been faster, and the page may be gone.
        if number < self._newest_shown or self._client.is_deleted:
            return False
        self._newest_shown = number
        return True


def _failure_text(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"The service did not answer within {_TIMEOUT_S:g} s."
    text = str(error).rstrip(".")
    if isinstance(error, Unauthorized):
        visitor = own_credential()
        if visitor is not None:
            ended = " Your admin credential has ended: log in again." if visitor.refused else ""
            return f"{text}.{ended}"
        return f"{text}. NEXT_PUBLIC_API_SECRET must be the API_SECRET of the service."
    if isinstance(error, Unreachable):
        return f"The service is away: {text}."
    return f"{text}."
