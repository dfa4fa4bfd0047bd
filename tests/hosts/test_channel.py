"""A channel between the service and a host: calls both ways, streams, cancellation, bounds."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from solward.hosts.wire import methods as m
from solward.hosts.wire.channel import Channel, Handler, IncomingCall
from solward.hosts.wire.failures import HostBug
from solward.hosts.wire.frames import CREDIT, FROM_HOST, TO_HOST, ChannelClosed
from solward.types.errors import InvalidRequest, SkillError
from solward.types.ledger import Account

ADDRESS = "11111111111111111111111111111111"
AT = {"address": ADDRESS}
LEDGER = {each.name: each for each in m.LEDGER}
LEDGER_BALANCE = LEDGER["ledger.balance"]
LEDGER_SLOT = LEDGER["ledger.slot"]
LEDGER_ACCOUNT = LEDGER["ledger.account"]
LEDGER_ACCOUNTS = LEDGER["ledger.accounts"]
REQUEST = m.HttpRequest("POST", "https://example.org/")


@asynccontextmanager
async def channels(
    service: Mapping[str, Handler] | None = None, host: Mapping[str, Handler] | None = None
) -> AsyncIterator[tuple[Channel, Channel]]:
    """The service's end and the host's."""
    here, there = socket.socketpair()
    a = Channel(here, service or {}, receive_limit=FROM_HOST)
    b = Channel(there, host or {}, receive_limit=TO_HOST)
    try:
        yield a, b
    finally:
        await a.close()
        await b.close()


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


class Blocked:
    """A handler that waits until it is cancelled."""

    def __init__(self) -> None:
        self.running = 0
        self.cancelled = 0

    async def __call__(self, _incoming: IncomingCall) -> int:
        self.running += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        return 0


async def amount(_incoming: IncomingCall) -> int:
    return 7


async def test_both_ends_call_each_other_at_once() -> None:
    async def balance(incoming: IncomingCall) -> int:
        inner = await incoming.channel.call(LEDGER_SLOT, cap=incoming.cap)
        return inner + 1

    async def slot(incoming: IncomingCall) -> int:
        assert incoming.cap == b"c"
        return 40

    async with channels({"ledger.slot": slot}, {"ledger.balance": balance}) as (service, _):
        answers = await asyncio.gather(
            *(service.call(LEDGER_BALANCE, AT, cap=b"c") for _ in range(50))
        )
        assert answers == [41] * 50


async def test_errors_arrive_as_their_class_and_bugs_without_text() -> None:
    async def refuse(_incoming: IncomingCall) -> int:
        raise SkillError("too_small", "The amount is too small")

    async def crash(_incoming: IncomingCall) -> int:
        raise RuntimeError("the key is 123")

    bugs = []
    here, there = socket.socketpair()
    service = Channel(here, {}, receive_limit=FROM_HOST)
    host = Channel(
        there,
        {"ledger.balance": refuse, "ledger.slot": crash},
        receive_limit=TO_HOST,
        on_bug=lambda method, error: bugs.append((method, str(error))),
    )
    with pytest.raises(SkillError, match="too small") as refused:
        await service.call(LEDGER_BALANCE, AT)
    assert refused.value.code == "too_small"
    with pytest.raises(HostBug) as crashed:
        await service.call(LEDGER_SLOT)
    assert str(crashed.value) == "RuntimeError"
    assert bugs == [("ledger.slot", "the key is 123")]
    await service.close()
    await host.close()


async def test_a_cancelled_call_cancels_its_handler_and_frees_the_caller_at_once() -> None:
    blocked = Blocked()
    async with channels(host={"ledger.balance": blocked}) as (service, _):
        task = asyncio.create_task(service.call(LEDGER_BALANCE, AT))
        await until(lambda: blocked.running)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: blocked.cancelled)
        await until(lambda: service.unanswered_s == 0)


async def test_a_call_past_its_time_is_cancelled_at_both_ends() -> None:
    blocked = Blocked()
    async with channels(host={"ledger.balance": blocked}) as (service, _):
        with pytest.raises(TimeoutError):
            await service.call(LEDGER_BALANCE, AT, timeout_s=0.02)
        await until(lambda: blocked.cancelled)


async def test_a_stream_is_its_credit_ahead_and_no_further() -> None:
    made = []
    closed = []

    async def pieces(_incoming: IncomingCall) -> AsyncIterator[bytes]:
        try:
            for at in range(1000):
                made.append(at)
                yield bytes(8)
        finally:
            closed.append(True)

    async with channels(host={"http.request": pieces}) as (service, host):
        async with aclosing(service.stream(m.HTTP_REQUEST, REQUEST)) as stream:
            await anext(stream)
            await service.call(m.PING)
            # One more was made and waits for credit.
            assert len(made) == CREDIT + 1
        await until(lambda: closed)
        await service.call(m.PING)
        assert not host.closed.done()
        assert len([piece async for piece in service.stream(m.HTTP_REQUEST, REQUEST)]) == 1000


async def test_uploads_come_with_the_request_and_wait_for_credit() -> None:
    sent = []
    gate = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        for at in range(100):
            sent.append(at)
            yield bytes([at])

    async def echo(incoming: IncomingCall) -> AsyncIterator[bytes]:
        await gate.wait()
        async for piece in incoming.uploads():
            yield piece

    async with channels(service={"http.request": echo}) as (service, host):
        stream = host.stream(m.HTTP_REQUEST, REQUEST, uploads=body())
        taking = asyncio.create_task(anext(stream))
        await until(lambda: len(sent) > CREDIT)
        await host.call(m.PING)
        assert len(sent) == CREDIT + 1
        gate.set()
        data = [await taking] + [piece async for piece in stream]
        assert data == [bytes([at]) for at in range(100)]
        assert not service.closed.done()


async def test_large_answers_of_many_calls_arrive_whole() -> None:
    async def account(_incoming: IncomingCall) -> Account:
        return Account(1, ADDRESS, bytes(3 << 20))

    async with channels(service={"ledger.account": account}) as (_, host):
        answers = await asyncio.gather(*(host.call(LEDGER_ACCOUNT, AT) for _ in range(6)))
        assert all(each.data == bytes(3 << 20) for each in answers)


async def test_what_does_not_fit_is_the_callers_error_and_the_channel_lives() -> None:
    async with channels(host={"ledger.balance": amount}) as (service, host):
        with pytest.raises(InvalidRequest, match=r"ledger\.balance: .* at `\$\.address`"):
            await service.call(LEDGER_BALANCE, {"address": "x" * 100})
        with pytest.raises(SkillError, match="more than the maximum of"):
            await host.call(LEDGER_ACCOUNTS, {"addresses": ("x" * 64,) * 4_096})
        assert await service.call(LEDGER_BALANCE, AT) == 7


async def test_more_calls_than_may_be_open_wait_for_their_turn() -> None:
    most = 0
    gate = asyncio.Event()

    async def slot(_incoming: IncomingCall) -> int:
        nonlocal most
        most += 1
        await gate.wait()
        return 1

    async with channels(service={"ledger.slot": slot}) as (service, host):
        calls = [asyncio.create_task(host.call(LEDGER_SLOT)) for _ in range(1000)]
        await until(lambda: most == FROM_HOST.calls)
        for _ in range(100):
            await asyncio.sleep(0)
        assert most == FROM_HOST.calls
        gate.set()
        await asyncio.gather(*calls)
        assert most == 1000
        assert not service.closed.done()


@pytest.mark.more
async def test_calls_and_cancellations_in_any_order_are_not_hostile() -> None:
    blocked = Blocked()
    async with channels({"ledger.balance": blocked, "ledger.slot": amount}) as (service, host):
        for _ in range(20):
            tasks = [asyncio.create_task(host.call(LEDGER_BALANCE, AT)) for _ in range(300)]
            tasks += [asyncio.create_task(host.call(LEDGER_SLOT)) for _ in range(300)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: host.unanswered_s == 0)
        assert await host.call(LEDGER_SLOT) == 7
        assert not service.closed.done()


async def test_the_end_of_a_channel_fails_its_calls_and_cancels_its_handlers() -> None:
    blocked = Blocked()
    async with channels(host={"ledger.balance": blocked}) as (service, host):
        task = asyncio.create_task(service.call(LEDGER_BALANCE, AT))
        await until(lambda: blocked.running)
        await host.close()
        assert blocked.cancelled == 1
        with pytest.raises(ChannelClosed):
            await task
        assert isinstance(await service.closed, ConnectionResetError)
        with pytest.raises(ChannelClosed):
            await service.call(LEDGER_BALANCE, AT)
