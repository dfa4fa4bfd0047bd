"""Calls that leave in one moment: how many requests they take, and what becomes of each."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from tests.promises import promise
from tests.support.rpc import RpcNode, listening

from solward.types.errors import LedgerRejected, LedgerUnavailable
from solward.vault.ledger import transport
from solward.vault.ledger.answers import MOST_ANSWER_BYTES
from solward.vault.ledger.connections import Answer
from solward.vault.ledger.patience import NodeBusy
from solward.vault.ledger.transport import (
    ALONE_S,
    MOST_ANSWERS_BYTES,
    MOST_CALLS,
    SEND,
    TOGETHER,
    Batches,
    HttpTransport,
)
from solward_localnet.jsonrpc import RpcError


async def echo(method: str, params: Sequence[Any]) -> Any:
    """Says what was asked; refuses what is `refused`."""
    if list(params) == ["refused"]:
        raise RpcError(-32602, "no")
    return [method, *params]


@pytest.fixture
async def node() -> AsyncIterator[RpcNode]:
    async with listening(echo) as (opened,):
        yield opened


@pytest.fixture
async def http(node: RpcNode) -> AsyncIterator[HttpTransport]:
    opened = HttpTransport(node.url, 2.0)
    yield opened
    await opened.close()


@pytest.fixture
def ids_from_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_NUMBERS", itertools.count())


async def ask(http: HttpTransport, *params: Any) -> list[Any]:
    """One call with each of `params`, all in one moment."""
    calls = (http.call("getBalance", [each]) for each in params)
    return list(await asyncio.gather(*calls, return_exceptions=True))


def said(*params: Any) -> list[Any]:
    return [["getBalance", each] for each in params]


@pytest.mark.parametrize(("calls", "posts"), [(1, 1), (2, 1), (MOST_CALLS, 1), (MOST_CALLS + 1, 2)])
async def test_calls_of_one_moment_are_few_requests_and_each_gets_its_own_answer(
    node: RpcNode, http: HttpTransport, calls: int, posts: int
) -> None:
    assert await ask(http, *range(calls)) == said(*range(calls))
    assert (node.posts, node.calls["getBalance"]) == (posts, calls)


async def test_a_batch_is_no_longer_than_nodes_take(node: RpcNode, http: HttpTransport) -> None:
    long = ["x" * 15_000 + str(number) for number in range(5)]
    assert await ask(http, *long) == said(*long)
    assert node.posts == 3


@promise("reads-leave-in-batches")
async def test_sends_leave_together_and_with_nothing_else(
    node: RpcNode, http: HttpTransport
) -> None:
    asked = [(SEND, "a"), ("getBalance", "b"), (SEND, "refused"), (SEND, "c"), ("getSlot", "d")]
    found = await asyncio.gather(
        *(http.call(method, [each]) for method, each in asked), return_exceptions=True
    )
    assert isinstance(found.pop(2), LedgerRejected)
    assert found == [[SEND, "a"], ["getBalance", "b"], [SEND, "c"], ["getSlot", "d"]]
    assert node.posts == 2


async def test_a_node_that_refuses_a_batch_of_sends_gets_each_and_still_batches_of_reads(
    node: RpcNode, http: HttpTransport
) -> None:
    node.faults["batch"] = 400
    sends = [http.call(SEND, [each]) for each in "ab"]
    assert await asyncio.gather(*sends) == [[SEND, "a"], [SEND, "b"]]
    node.faults.clear()
    posts = node.posts
    assert await ask(http, 1, 2) == said(1, 2)
    assert node.posts == posts + 1


@pytest.mark.parametrize("method", ["requestAirdrop", "getProgramAccounts"])
async def test_what_must_not_wait_or_happen_twice_leaves_alone(
    node: RpcNode, http: HttpTransport, method: str
) -> None:
    assert method not in TOGETHER
    await asyncio.gather(*(http.call(method, [number]) for number in range(3)))
    assert node.posts == 3


async def test_the_refusal_of_one_call_is_not_the_others(http: HttpTransport) -> None:
    first, refused, last = await ask(http, 1, "refused", 2)
    assert [first, last] == said(1, 2)
    assert isinstance(refused, LedgerRejected)
    assert refused.code == -32602


async def test_who_leaves_takes_nobodys_answer(node: RpcNode, http: HttpTransport) -> None:
    reached, opened = asyncio.Event(), asyncio.Event()

    async def hold(_method: str, params: Sequence[Any]) -> Any:
        reached.set()
        await opened.wait()
        return params[0]

    node.faults["getBalance"] = hold
    callers = [asyncio.create_task(http.call("getBalance", [number])) for number in range(3)]
    await reached.wait()
    callers.pop(1).cancel()
    opened.set()
    assert await asyncio.gather(*callers) == [0, 2]
    assert node.posts == 1


async def test_a_request_that_nobody_waits_for_ends(node: RpcNode) -> None:
    node.faults["*"] = "hang"
    http = HttpTransport(node.url, 60.0)
    callers = [asyncio.create_task(http.call("getBalance", [number])) for number in range(2)]
    async with asyncio.timeout(10):
        while not node.posts:
            await asyncio.sleep(0.001)
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        while http._batches._tasks:
            await asyncio.sleep(0.001)
    await http.close()


async def test_closing_tells_those_who_wait(node: RpcNode, http: HttpTransport) -> None:
    node.faults["*"] = "hang"
    waiting = asyncio.create_task(ask(http, 1, 2))
    async with asyncio.timeout(10):
        while not node.posts:
            await asyncio.sleep(0.001)
        await http.close()
        assert [str(each) for each in await waiting] == [
            "The ledger did not answer getBalance (its connections are closed)"
        ] * 2


# What providers answer to a batch that they do not take.
@promise("batch-is-ten-calls")
@pytest.mark.parametrize("refusal", [400, 403, 405, 413, -32600, -32601, -32603], ids=str)
async def test_a_node_that_takes_no_batches_is_asked_each_call_and_no_batch_for_a_while(
    node: RpcNode, http: HttpTransport, refusal: int
) -> None:
    node.faults["batch"] = refusal
    now = 0.0
    http._batches = Batches(http._post, lambda: now)
    assert await ask(http, 1, 2, 3) == said(1, 2, 3)
    assert node.calls == {"batch": 1, "getBalance": 3}
    now = ALONE_S - 1
    assert await ask(http, 4, 5) == said(4, 5)
    assert node.calls["batch"] == 1
    for tries, passed in enumerate((ALONE_S, 2 * ALONE_S, 4 * ALONE_S), 2):
        now += passed
        assert await ask(http, 6, 7) == said(6, 7)
        assert node.calls["batch"] == tries
        now += passed
        assert await ask(http, 6, 7) == said(6, 7)
        assert node.calls["batch"] == tries


async def test_a_node_that_takes_batches_again_gets_them(
    node: RpcNode, http: HttpTransport
) -> None:
    now = 0.0
    http._batches = Batches(http._post, lambda: now)
    node.faults["batch"] = 400
    await ask(http, 1, 2)
    node.faults.clear()
    now, posts = ALONE_S, node.posts
    assert await ask(http, 3, 4) == said(3, 4)
    assert node.posts == posts + 1
    # What it refuses next counts from the start again.
    node.faults["batch"] = 400
    await ask(http, 5, 6)
    node.faults.clear()
    now, posts = 2 * ALONE_S, node.posts
    assert await ask(http, 7, 8) == said(7, 8)
    assert node.posts == posts + 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(429, NodeBusy), (-32429, NodeBusy), (500, LedgerUnavailable), ("garbage", LedgerUnavailable)],
    ids=str,
)
async def test_a_node_that_is_busy_or_out_of_order_is_asked_nothing_at_once_and_alone_later(
    node: RpcNode, http: HttpTransport, fault: Any, kind: type[Exception]
) -> None:
    node.faults["batch"] = fault
    assert [type(each) for each in await ask(http, 1, 2)] == [kind] * 2
    assert node.calls == {"batch": 1}
    assert await ask(http, 1, 2) == said(1, 2)
    assert node.calls["batch"] == 1


# What a node answers to a batch of two calls, with what each call's own number was.
WRONG_LISTS: dict[str, list[Any]] = {
    "none": [],
    "short": [{"id": 0, "result": "wrong"}],
    "long": [{"id": number, "result": "wrong"} for number in range(3)],
    "numbered from one": [{"id": 1, "result": "wrong"}, {"id": 2, "result": "wrong"}],
    "one number twice": [{"id": 0, "result": "wrong"}, {"id": 0, "result": "wrong"}],
    "numbers as text": [{"id": "0", "result": "wrong"}, {"id": "1", "result": "wrong"}],
    "numbers that are none": [{"id": False, "result": "wrong"}, {"id": [1], "result": "wrong"}],
    "no objects": [None, 7],
    "one refusal of all": [{"id": None, "error": {"code": -32600, "message": "no batches"}}],
}


@promise("answers-are-bounded")
@pytest.mark.usefixtures("ids_from_0")
@pytest.mark.parametrize("kind", sorted(WRONG_LISTS))
async def test_a_node_that_answers_a_batch_wrongly_is_asked_each_call_and_no_batch_for_a_while(
    node: RpcNode, http: HttpTransport, kind: str
) -> None:
    now = 0.0
    http._batches = Batches(http._post, lambda: now)
    node.faults["batch"] = WRONG_LISTS[kind]
    assert await ask(http, 1, 2) == said(1, 2)
    assert node.calls == {"batch": 1, "getBalance": 2}
    assert await ask(http, 3, 4) == said(3, 4)
    assert node.calls["batch"] == 1
    now = ALONE_S
    assert await ask(http, 5, 6) == said(5, 6)
    assert node.calls["batch"] == 2
    now += ALONE_S
    assert await ask(http, 5, 6) == said(5, 6)
    assert node.calls["batch"] == 2


@pytest.mark.usefixtures("ids_from_0")
@pytest.mark.parametrize("kind", sorted(WRONG_LISTS))
async def test_bytes_whose_batch_is_answered_wrongly_are_sent_by_themselves(
    node: RpcNode, http: HttpTransport, kind: str
) -> None:
    node.faults["batch"] = WRONG_LISTS[kind]
    found = await asyncio.gather(*(http.call(SEND, [each]) for each in ("a", "b")))
    # No signature of another's bytes is taken for its own.
    assert found == [[SEND, "a"], [SEND, "b"]]
    assert node.calls == {"batch": 1, SEND: 2}


async def test_responses_in_another_order_are_each_calls_own() -> None:
    async def post(body: bytes, _most: int) -> Answer:
        first, second = (call["id"] for call in json.loads(body))
        said = [{"id": second, "result": "b"}, {"id": first, "result": "a"}]
        return Answer(200, {}, json.dumps(said).encode(), lambda: None)

    batches = Batches(post)
    calls = (batches.call("getSlot", b"[]") for _ in range(2))
    assert await asyncio.gather(*calls) == ["a", "b"]


async def test_batches_that_are_refused_together_are_one_refusal(
    node: RpcNode, http: HttpTransport
) -> None:
    now = 0.0
    http._batches = Batches(http._post, lambda: now)
    node.faults["batch"] = 400
    await ask(http, *range(4 * MOST_CALLS))
    assert node.calls["batch"] == 4
    now = ALONE_S
    await ask(http, 1, 2)
    assert node.calls["batch"] == 5


@pytest.mark.parametrize("code", [429, -32429])
async def test_a_list_of_one_refusal_for_the_rate_is_no_reason_to_ask_each(
    node: RpcNode, http: HttpTransport, code: int
) -> None:
    node.faults["batch"] = [{"id": None, "error": {"code": code, "message": "slow down"}}]
    assert [type(each) for each in await ask(http, 1, 2)] == [NodeBusy] * 2
    assert node.calls == {"batch": 1}


@promise("long-answer-fails-alone")
async def test_an_answer_that_is_too_long_is_the_failure_of_its_own_call(node: RpcNode) -> None:
    http = HttpTransport(node.url, 60.0)

    async def answers(method: str, params: Sequence[Any]) -> Any:
        sizes = {"long": MOST_ANSWERS_BYTES, "endless": MOST_ANSWER_BYTES}
        size = sizes.get(str(params[0]))
        return await echo(method, params) if size is None else "x" * size

    node.faults["getBalance"] = answers
    first, long, endless, last = await ask(http, 1, "long", "endless", 2)
    assert [first, last] == said(1, 2)
    assert long == "x" * MOST_ANSWERS_BYTES
    assert isinstance(endless, LedgerUnavailable)
    assert "getBalance (its answer is longer than 32 MiB)" in str(endless)
    # Once for the batch, and once for each call.
    assert node.posts == 5
    assert await ask(http, 3) == said(3)
    await http.close()


async def test_a_batch_whose_connection_is_cut_is_no_answer_to_any(
    node: RpcNode, http: HttpTransport
) -> None:
    await node.stop()
    assert [type(each) for each in await ask(http, 1, 2)] == [LedgerUnavailable] * 2
