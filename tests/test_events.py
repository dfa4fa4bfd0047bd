"""The event bus."""

from __future__ import annotations

import asyncio

import pytest

from solward.types.events import Event, EventBus


async def test_every_subscriber_gets_every_event_in_order() -> None:
    bus = EventBus()
    bus.publish("before", None)
    with bus.subscribe() as first, bus.subscribe() as second:
        bus.publish("a", {"n": 1})
        bus.publish("b", {"n": 2})
        bus.close()
        for subscription in (first, second):
            heard = [(event.seq, event.event, event.data) async for event in subscription]
            assert heard == [(None, "a", {"n": 1}), (None, "b", {"n": 2})]


async def test_a_waiting_subscriber_is_woken() -> None:
    bus = EventBus()
    with bus.subscribe() as subscription:
        waiting = asyncio.create_task(anext(aiter(subscription)))
        await asyncio.sleep(0)
        assert not waiting.done()
        bus.publish("a", None)
        assert (await waiting).event == "a"


async def test_a_slow_subscriber_loses_the_oldest_and_delays_nobody() -> None:
    bus = EventBus()
    with bus.subscribe(size=3) as slow, bus.subscribe() as quick:
        for number in range(5):
            bus.publish("x", number)
        bus.close()
        assert [event.data async for event in slow] == [2, 3, 4]
        assert slow.lost == 2
        assert [event.data async for event in quick] == [0, 1, 2, 3, 4]
        assert quick.lost == 0


async def test_a_bus_that_was_closed_ends_what_subscribes_later() -> None:
    bus = EventBus()
    bus.close()
    with bus.subscribe() as late:
        assert late.ended
        assert await late.next() is None


async def test_what_waits_for_the_next_event_can_give_up_and_wait_again() -> None:
    bus = EventBus()
    with bus.subscribe() as heard:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await heard.next()
        bus.publish_stored([Event(7, 1, "a", None)])
        assert await heard.next() == Event(7, 1, "a", None)


async def test_a_subscription_ends_with_its_block() -> None:
    bus = EventBus()
    with bus.subscribe() as subscription:
        waiting = asyncio.create_task(anext(aiter(subscription), None))
        await asyncio.sleep(0)
    assert await waiting is None
    bus.publish("x", None)
    assert [event async for event in subscription] == []


async def test_who_reads_the_log_is_woken_by_events_by_others_and_by_the_end() -> None:
    bus = EventBus()
    with bus.subscribe(size=1) as told:
        for something in (lambda: bus.publish("x", None), bus.wake, bus.close):
            waiting = asyncio.create_task(told.news())
            await asyncio.sleep(0)
            assert not waiting.done()
            for _ in range(3):
                something()
            await waiting
    await told.news()


async def test_news_that_came_before_somebody_waits_is_not_missed() -> None:
    bus = EventBus()
    with bus.subscribe(size=1) as told:
        bus.wake()
        await told.news()
        bus.publish("x", None)
        await told.news()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await told.news()


async def test_who_takes_events_is_not_troubled_by_being_woken() -> None:
    bus = EventBus()
    with bus.subscribe() as heard:
        waiting = asyncio.create_task(heard.next())
        await asyncio.sleep(0)
        bus.wake()
        await asyncio.sleep(0)
        assert not waiting.done()
        bus.publish("x", 1)
        event = await waiting
    assert event is not None
    assert event.data == 1
