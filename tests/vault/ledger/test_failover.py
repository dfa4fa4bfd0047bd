"""Several RPC nodes: who is asked, who rests, and who is not believed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.promises import promise
from tests.support.clock import until
from tests.support.rpc import GENESIS, RpcNode, answers_name, listening

from solward.service.cluster import GENESIS as GENESIS_HASHES
from solward.service.cluster import WrongCluster, open_cluster
from solward.settings import Settings
from solward.types.errors import LedgerRejected, LedgerUnavailable
from solward.vault.ledger.answers import LongAnswer, no_answer
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.failover import ADMISSION_S, MAX_REST_S, FailoverTransport, Node
from solward.vault.ledger.transport import HttpTransport

# Long enough for a busy machine; only nodes that hang take it.
TIMEOUT_S = 1.0
KEY = "canary-key-of-the-rpc-provider"


class Clock:
    """Monotonic seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def judge(genesis: str) -> None:
    if genesis != GENESIS:
        raise WrongCluster("another cluster")


def failover(clock: Clock, *nodes: RpcNode) -> FailoverTransport:
    """A transport over the nodes, whose addresses hold a key, with a short timeout."""
    return FailoverTransport(
        [
            Node(
                f"node-{number}",
                HttpTransport(f"{node.url}/{KEY}?api-key={KEY}", TIMEOUT_S, retries=0),
                judge,
                clock,
            )
            for number, node in enumerate(nodes)
        ]
    )


async def each(transport: FailoverTransport, calls: int = 2) -> list[str]:
    """Who answers these calls."""
    return [await transport.call("getSlot", []) for _ in range(calls)]


Pair = tuple[RpcNode, RpcNode, FailoverTransport]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def pair(clock: Clock) -> AsyncIterator[Pair]:
    """Two nodes, which answer with their names, and the transport over them."""
    async with listening(answers_name("a"), answers_name("b")) as (a, b):
        transport = failover(clock, a, b)
        yield a, b, transport
        await transport.close()


FAULTS = ["hang", "cut", 500, 502, 429, 403, "garbage", "deep", "no json-rpc", -32005, -32603]


@pytest.mark.parametrize("fault", [*FAULTS, "refused"])
async def test_what_one_node_does_not_answer_the_next_one_does(pair: Pair, fault: Any) -> None:
    a, _, transport = pair
    assert await each(transport) == ["a", "b"]
    if fault == "refused":
        await a.stop()
    a.faults["getSlot"] = fault
    assert await each(transport) == ["b", "b"]


async def test_a_node_of_another_cluster_does_not_speak_for_those_that_fail(clock: Clock) -> None:
    async with listening(answers_name("a"), answers_name("b", "another")) as (a, b):
        transport = failover(clock, a, b)
        ledger = Ledger(transport)
        a.faults["getSlot"] = 500
        with pytest.raises(LedgerUnavailable):
            await ledger.on_one_node(lambda node: node.slot())
        await transport.close()


async def test_while_those_of_the_cluster_rest_another_does_not_speak_for_them(
    clock: Clock,
) -> None:
    async with listening(answers_name("a"), answers_name("b", "another")) as nodes:
        transport = failover(clock, *nodes)
        (ours,) = [node for node in transport.nodes() if node.name == "node-0"]
        ours.rests_until = clock.now + MAX_REST_S
        with pytest.raises(LedgerUnavailable, match="all of them rest"):
            await transport.call("getSlot", [])
        clock.now += MAX_REST_S
        assert await each(transport) == ["a", "a"]
        await transport.close()


async def test_nodes_that_answer_share_the_calls(pair: Pair, clock: Clock) -> None:
    a, _b, transport = pair
    assert await each(transport, 6) == ["a", "b"] * 3
    a.faults["getSlot"] = 500
    assert await each(transport, 4) == ["b"] * 4
    a.faults.clear()
    clock.now += MAX_REST_S
    assert sorted(await each(transport, 4)) == ["a", "a", "b", "b"]


async def test_a_node_with_calls_open_gets_fewer(pair: Pair) -> None:
    a, _b, transport = pair
    assert await each(transport) == ["a", "b"]
    a.faults["getBalance"] = "hang"
    slow = asyncio.create_task(transport.call("getBalance", []))
    while not a.calls["getBalance"]:
        await asyncio.sleep(0)
    assert await each(transport, 4) == ["b"] * 4
    slow.cancel()


async def test_a_transaction_goes_to_every_fit_node_and_the_first_answers(pair: Pair) -> None:
    a, b, transport = pair
    a.faults["sendTransaction"] = "hang"
    assert await transport.call("sendTransaction", ["bytes"]) == "b"
    await until(lambda: (a.calls["sendTransaction"], b.calls["sendTransaction"]) == (1, 1))
    a.faults["sendTransaction"] = -32002
    b.faults["sendTransaction"] = 500
    with pytest.raises(LedgerRejected) as caught:
        await transport.call("sendTransaction", ["bytes"])
    assert caught.value.code == -32002


async def test_a_node_that_failed_rests_longer_each_time_and_comes_back(
    pair: Pair, clock: Clock
) -> None:
    a, b, transport = pair
    a.faults["getSlot"] = b.faults["getSlot"] = 500
    rests = []
    for _ in range(7):
        with pytest.raises(LedgerUnavailable):
            await transport.call("getSlot", [])
        resting = transport.nodes()
        assert len(resting) == 1, "of nothing but resting nodes only one is tried"
        rests.append(resting[0].rests_until - clock.now)
        clock.now += rests[-1]
    assert rests == [1, 2, 4, 8, 16, 30, 30]
    a.faults.clear()
    assert await transport.call("getSlot", []) == "a"
    assert {node.name for node in transport.nodes()} == {"node-0", "node-1"}
    a.faults["getSlot"] = 500
    with pytest.raises(LedgerUnavailable):
        await transport.call("getSlot", [])
    clock.now += 0.5
    assert transport.nodes()[0].rests_until - clock.now == 0.5, "it began anew"


async def test_one_request_that_no_node_answers_takes_none_from_the_others(pair: Pair) -> None:
    a, b, transport = pair
    for fault in (-32603, too_long):
        for node, of in zip((a, b), transport.nodes(), strict=True):
            node.faults["getAccountInfo"] = fault if fault == -32603 else None
            if fault is too_long:
                of._transport.call = partial(too_long, of._transport.call)
        for _ in range(3):
            with pytest.raises(LedgerUnavailable, match="No ledger node answered"):
                await transport.call("getAccountInfo", [])
            assert sorted(await each(transport)) == ["a", "b"]
            assert len(transport.nodes()) == 2
    # Another request that is not answered either: the node is at fault.
    for method in ("getAccountInfo", "getAccountInfo", "getBalance"):
        assert len(transport.nodes()) == 2
        with pytest.raises(LedgerUnavailable):
            await transport.call(method, [])
    assert len(transport.nodes()) == 1


async def too_long(call: Any, method: str, params: Any) -> Any:
    if method in ("getAccountInfo", "getBalance"):
        raise no_answer(method, LongAnswer(1 << 20))
    return await call(method, params)


async def test_a_resting_node_is_left_alone() -> None:
    async with listening(answers_name("a"), answers_name("b"), answers_name("c")) as (a, b, c):
        clock = Clock()
        transport = failover(clock, a, b, c)
        a.faults["getSlot"] = 500
        assert await transport.call("getSlot", []) == "b"
        b.faults["getSlot"] = 500
        assert [await transport.call("getSlot", []) for _ in range(3)] == ["c", "c", "c"]
        assert (a.calls["getSlot"], b.calls["getSlot"]) == (1, 2)
        await transport.close()


async def test_when_all_rest_the_one_that_rested_most_is_tried_at_once(
    pair: Pair, clock: Clock
) -> None:
    a, b, transport = pair
    a.faults["getSlot"] = 500
    assert await transport.call("getSlot", []) == "b"
    a.faults.clear()
    clock.now += 0.5
    b.faults["getSlot"] = 500
    with pytest.raises(LedgerUnavailable):
        await transport.call("getSlot", [])
    assert await transport.call("getSlot", []) == "a"


@pytest.mark.parametrize("code", [-32602, -32002, -32011])
async def test_a_refusal_is_an_answer_and_is_not_asked_for_elsewhere(pair: Pair, code: int) -> None:
    a, b, transport = pair
    a.faults["getTransaction"] = code
    with pytest.raises(LedgerRejected) as caught:
        await transport.call("getTransaction", ["signature"])
    assert caught.value.code == code
    assert b.calls["getTransaction"] == 0
    assert len(transport.nodes()) == 2, "a refusal is no failure"


@pytest.mark.parametrize("fault", [500, -32603, 429])
async def test_the_faucet_is_asked_once(pair: Pair, fault: int) -> None:
    a, b, transport = pair
    a.faults["requestAirdrop"] = fault
    with pytest.raises((LedgerUnavailable, LedgerRejected)):
        await transport.call("requestAirdrop", ["address", 1])
    assert b.calls["requestAirdrop"] == 0
    assert len(transport.nodes()) == 2, "a faucet's no is no node's failure"


@pytest.mark.parametrize("fault", ["refused", *FAULTS])
async def test_when_none_answers_the_error_says_so_and_shows_no_key(pair: Pair, fault: Any) -> None:
    a, b, transport = pair
    with structlog.testing.capture_logs() as logs:
        for node in (a, b):
            node.faults["*"] = fault
            if fault == "refused":
                await node.stop()
        with pytest.raises(LedgerUnavailable, match="No ledger node answered getSlot") as caught:
            await transport.call("getSlot", [])
    assert KEY not in f"{caught.value} {caught.value.__cause__} {logs}"
    event = "rpc_node_busy" if fault == 429 else "rpc_node_rests"
    assert [entry["event"] for entry in logs] == [event, event]


async def test_a_node_that_hangs_keeps_many_callers_no_longer_than_one(pair: Pair) -> None:
    a, _, transport = pair
    transport._nodes[0]._clock = time.monotonic
    a.faults["*"] = "hang"
    began = time.monotonic()
    answers = await asyncio.gather(*(transport.call("getSlot", []) for _ in range(20)))
    assert answers == ["b"] * 20
    assert time.monotonic() - began < 10 * TIMEOUT_S
    assert a.calls == {"getGenesisHash": 1}


async def test_a_caller_that_gave_up_on_a_slow_node_is_answered_by_the_next_one(
    pair: Pair, clock: Clock
) -> None:
    a, _, transport = pair
    assert await each(transport) == ["a", "b"]
    a.faults["getSlot"] = "hang"
    call = asyncio.create_task(transport.call("getSlot", []))
    while a.calls["getSlot"] < 2:
        await asyncio.sleep(0)
    clock.now += 0.8
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await each(transport) == ["b", "b"]
    assert a.calls["getSlot"] == 2, "it was not waited for again"


@promise("other-cluster-refused", "wrong-cluster-refused")
async def test_a_node_of_another_cluster_is_never_believed() -> None:
    async with listening(answers_name("a"), answers_name("wrong", "another genesis")) as (a, wrong):
        clock = Clock()
        transport = failover(clock, a, wrong)
        with structlog.testing.capture_logs() as logs:
            a.faults["getSlot"] = 500
            for _ in range(3):
                with pytest.raises(LedgerUnavailable):
                    await transport.call("getSlot", [])
                clock.now += 10 * MAX_REST_S
        assert wrong.calls == {"getGenesisHash": 1}
        assert [entry["node"] for entry in logs if entry["event"] == "rpc_of_another_cluster"] == [
            "node-1"
        ]
        assert KEY not in str(logs)
        a.faults.clear()
        assert await transport.call("getSlot", []) == "a"
        await transport.close()


@promise("other-cluster-refused")
async def test_a_node_that_came_back_as_another_cluster_is_not_believed(
    pair: Pair, clock: Clock
) -> None:
    a, b, transport = pair
    assert await each(transport) == ["a", "b"]
    a.faults["getSlot"] = 500
    assert await each(transport) == ["b", "b"]
    a.faults = {"*": answers_name("wrong", "another genesis")}
    clock.now += MAX_REST_S
    b.faults["getSlot"] = 500
    with pytest.raises(LedgerUnavailable):
        await transport.call("getSlot", [])
    b.faults.clear()
    assert await transport.call("getSlot", []) == "b"


async def test_a_node_that_changed_its_cluster_without_a_failure_is_found_out(
    pair: Pair, clock: Clock
) -> None:
    a, _, transport = pair
    assert await each(transport) == ["a", "b"]
    a.faults = {"*": answers_name("wrong", "another genesis")}
    clock.now += ADMISSION_S
    assert await each(transport, 4) == ["b"] * 4
    assert a.calls["getSlot"] == 1


async def test_a_node_of_another_cluster_ends_no_work_while_the_other_rests(
    pair: Pair, clock: Clock
) -> None:
    a, b, transport = pair
    await each(transport)
    clock.now += ADMISSION_S
    a.faults["getSlot"] = 500
    [rests] = [node for node in transport.nodes() if node.name == "node-0"]
    with pytest.raises(LedgerUnavailable):
        await rests.call("getSlot", [])
    a.faults.clear()
    b.faults = {"*": answers_name("wrong", "another genesis")}
    found = await Ledger(transport).on_one_node(lambda node: node.genesis_hash())
    assert found == GENESIS
    assert b.calls["getGenesisHash"] == 2


async def test_only_nodes_of_another_cluster_are_a_wrong_cluster() -> None:
    async with listening(answers_name("a", "other"), answers_name("b", "other")) as nodes:
        transport = failover(Clock(), *nodes)
        with pytest.raises(WrongCluster):
            await transport.call("getSlot", [])
        with pytest.raises(WrongCluster):
            await transport.call("getSlot", [])
        await transport.close()


def settings(home: Path, network: str, *urls: str) -> Settings:
    return Settings(
        _env_file=None,
        solward_home=home,
        api_secret="a-secret-for-tests-of-at-least-32-bytes",
        solana_network=network,
        solana_rpc_url=", ".join(urls),
    )


async def test_a_start_with_nodes_of_two_clusters_is_refused(tmp_path: Path) -> None:
    async with listening(answers_name("a"), answers_name("b", "another genesis")) as (a, b):
        with pytest.raises(WrongCluster, match="nodes of different clusters"):
            async with open_cluster(settings(tmp_path, "localnet", a.url, b.url)):
                raise AssertionError("two clusters were opened as one")
        with pytest.raises(WrongCluster, match="SOLANA_NETWORK is devnet"):
            async with open_cluster(settings(tmp_path, "devnet", a.url, b.url)):
                raise AssertionError("another cluster was opened")


@pytest.mark.parametrize("count", [1, 2])
async def test_a_wrong_cluster_is_named_and_so_is_the_right_one(tmp_path: Path, count: int) -> None:
    mainnet, devnet = GENESIS_HASHES["mainnet-beta"], GENESIS_HASHES["devnet"]
    async with listening(*(answers_name("a", mainnet) for _ in range(count))) as nodes:
        with pytest.raises(WrongCluster) as refused:
            async with open_cluster(settings(tmp_path, "devnet", *(each.url for each in nodes))):
                raise AssertionError("another cluster was opened")
    assert f"SOLANA_NETWORK is devnet (genesis hash {devnet})" in str(refused.value)
    assert f"serves mainnet-beta (genesis hash {mainnet})" in str(refused.value)


async def test_a_start_needs_one_node_of_several(tmp_path: Path) -> None:
    async def slots(method: str, _params: Any) -> Any:
        return GENESIS if method == "getGenesisHash" else 7

    async with listening(slots, slots) as (a, b):
        await a.stop()
        async with open_cluster(settings(tmp_path, "localnet", a.url, b.url)) as cluster:
            assert await cluster.ledger.slot() == 7
            await cluster.verify()


async def test_a_node_some_slots_behind_is_passed_over_and_does_not_rest(pair: Pair) -> None:
    a, b, transport = pair
    a.faults["getSlot"] = -32016
    assert await transport.call("getSlot", []) == "b"
    assert len(transport.nodes()) == 2
    b.faults["getSlot"] = -32016
    with pytest.raises(LedgerRejected) as caught:
        await transport.call("getSlot", [])
    assert caught.value.code == -32016
    assert len(transport.nodes()) == 2
