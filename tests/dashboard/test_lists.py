"""Lists keep what is there: what is open stays open, and no more is kept than is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from nicegui import Client, ui
from nicegui.page import page

from solward_dashboard.lists import NewestFirst
from solward_dashboard.parts import Age, LiveContent, button, on_refresh, refresh_page, share


@pytest.fixture(autouse=True)
def visited() -> Iterator[None]:
    """A page that nobody looks at."""
    with Client(page("/list")):
        yield


class Log:
    """Numbers, newest first, two a page; at most four stay."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.place = ui.element("div")
        with self.place:
            self.shown = NewestFirst[int](
                "number", self.make, self.older, 2, key=abs, none="None.", testid="log", most=4
            )

    def make(self, number: int) -> ui.element:
        self.made.append(abs(number))
        return ui.label(str(number))

    async def older(self, last: int) -> Sequence[int]:
        return [each for each in (last - 1, last - 2) if each > 0]

    @property
    def texts(self) -> list[str]:
        (listed,) = (each for each in self.place if each.props.get("data-testid") == "log")
        return [each.text for each in listed if isinstance(each, ui.label)]


@pytest.fixture
def log(visited: None) -> Log:
    return Log()


def test_new_ones_come_on_top_and_others_are_not_made_again(log: Log) -> None:
    log.shown.show([2, 1])
    log.shown.show([3, 2])
    assert (log.texts, log.made) == (["3", "2", "1"], [2, 1, 3])
    # One that has changed is made anew in its place.
    log.shown.show([3, -2])
    assert (log.texts, log.made) == (["3", "-2", "1"], [2, 1, 3, 2])


def test_the_oldest_leave_a_page_that_is_left_open(log: Log) -> None:
    for newest in range(2, 8):
        log.shown.show([newest, newest - 1])
    assert log.texts == ["7", "6", "5", "4"]


def test_where_some_are_missing_between_the_list_begins_anew(log: Log) -> None:
    log.shown.show([2, 1])
    log.shown.show([9, 8])
    assert log.texts == ["9", "8"]


async def test_older_ones_are_added_and_kept(log: Log) -> None:
    log.shown.show([9, 8])
    for _ in range(2):
        await log.shown.load_older()
    log.shown.show([10, 9])
    assert log.texts == ["10", "9", "8", "7", "6", "5", "4"]


async def test_another_filter_has_no_older_ones_of_the_one_before(log: Log) -> None:
    log.shown.show([9, 8])
    waits = asyncio.Event()
    older = log.older

    async def later(last: int) -> Sequence[int]:
        await waits.wait()
        return await older(last)

    log.shown._load = later
    asked = asyncio.create_task(log.shown.load_older())
    await asyncio.sleep(0)
    log.shown.clear()
    # The same one fits the other filter, too.
    log.shown.show([9, 4])
    waits.set()
    await asked
    assert log.texts == ["9", "4"]
    log.shown.clear()
    await log.shown.load_older()
    assert (log.texts, log.shown._more.visible) == ([], False)


def test_what_could_not_be_built_is_built_again() -> None:
    tried: list[str] = []

    def build(word: str) -> None:
        tried.append(word)
        if len(tried) == 1:
            raise LookupError(word)

    shown = LiveContent[str](build)
    with pytest.raises(LookupError):
        shown.show("a")
    shown.show("a")
    shown.show("a")
    assert tried == ["a", "a"]


def test_content_is_built_anew_where_what_it_is_made_of_changes() -> None:
    built: list[str] = []
    shown = LiveContent[str](built.append, of=lambda word: word[0])
    for word in ("a1", "a2", "b1"):
        shown.show(word)
    assert built == ["a1", "b1"]


def test_nothing_is_shown_as_nothing_and_hidden() -> None:
    card = ui.element("div")
    shown = LiveContent[list[int]](
        lambda found: [ui.label(str(each)) for each in found], hides=card
    )
    assert not card.visible
    for found, visible in (([], False), ([1], True), ([], False)):
        shown.show(found)
        assert (card.visible, len(list(shown.element))) == (visible, len(found))


def test_an_age_is_told_as_of_now() -> None:
    told: list[datetime] = []
    moment = datetime.now(UTC) - timedelta(minutes=3)

    def tell(at: datetime) -> str:
        told.append(at)
        return f"told {len(told)} times"

    age = Age(moment, tell)
    age.tick()
    assert (age.text, told) == ("told 2 times", [moment, moment])


async def test_a_page_that_is_gone_is_asked_for_nothing() -> None:
    asked: list[str] = []

    async def ask() -> None:
        asked.append("asked")

    client = Client(page("/gone"))
    with client:
        on_refresh(ask)
    await refresh_page(client)
    client.delete()
    await refresh_page(client)
    assert asked == ["asked"]


async def test_a_button_that_is_built_anew_waits_for_what_was_pressed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    presses: list[Callable[[], Awaitable[None]]] = []

    def on_click(made: ui.button, press: Callable[[], Awaitable[None]]) -> ui.button:
        presses.append(press)
        return made

    monkeypatch.setattr(ui.button, "on_click", on_click)
    answered = asyncio.Event()
    pressed: list[str] = []

    async def act() -> None:
        pressed.append("pressed")
        await answered.wait()

    with Client(page("/holds")):
        button("Approve", act, testid="approve-1")
        running = asyncio.ensure_future(presses[0]())
        await asyncio.sleep(0)
        second = button("Approve", act, testid="approve-1")
        other = button("Approve", act, testid="approve-2")
    assert (second.enabled, other.enabled) == (False, True)
    await presses[1]()
    answered.set()
    await running
    assert (second.enabled, pressed) == (True, ["pressed"])


@pytest.mark.parametrize(
    ("used", "limit", "full"), [(5, 10, 0.5), (12, 10, 1.0), (0, 0, 1.0), (Decimal("0.5"), 1, 0.5)]
)
def test_a_bar_is_full_at_its_limit(used: Decimal | int, limit: int, full: float) -> None:
    assert share(used, limit) == full
