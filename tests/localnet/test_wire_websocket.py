"""Subscriptions over a real WebSocket, on a ledger whose commits the test writes."""

import asyncio
import base64
import contextlib
import json
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
from solders.account import Account
from solders.pubkey import Pubkey
from solders.signature import Signature
from tests.localnet.wire_ledger import ScriptedLedger, landed
from tests.support.tokens import TOKEN
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from solward_localnet.server import serving
from solward_localnet.websocket import PubSub


class Socket:
    """A client that keeps answers and notifications apart."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self._ids = 0

    async def receive(self) -> Any:
        return json.loads(await asyncio.wait_for(self.connection.recv(), 10))

    async def ask(self, method: str, *params: Any) -> Any:
        self._ids += 1
        request = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        await self.connection.send(json.dumps(request))
        answer = await self.receive()
        assert answer["id"] == self._ids
        return answer

    async def subscribe(self, method: str, *params: Any) -> int:
        answer = await self.ask(method, *params)
        assert "result" in answer, answer
        subscription: int = answer["result"]
        return subscription

    async def told(self, method: str, subscription: int) -> Any:
        notification = await self.receive()
        assert notification["jsonrpc"] == "2.0"
        assert notification["method"] == method
        assert notification["params"]["subscription"] == subscription
        return notification["params"]["result"]

    async def quiet(self) -> None:
        """Nothing was sent before the answer to this question."""
        assert "error" in await self.ask("isAnyoneThere")


@pytest.fixture
def ledger() -> ScriptedLedger:
    return ScriptedLedger()


@pytest.fixture
async def ws(ledger: ScriptedLedger) -> AsyncIterator[Socket]:
    async with serving(ledger, "127.0.0.1", 0) as addresses, connect(addresses.ws) as connection:
        yield Socket(connection)


async def test_a_signature_is_notified_once_when_it_lands(
    ws: Socket, ledger: ScriptedLedger
) -> None:
    record = landed(10)
    params = [record.signature, {"commitment": "confirmed"}]
    subscription = await ws.subscribe("signatureSubscribe", *params)
    ledger.commit(landed(10), record)
    assert await ws.told("signatureNotification", subscription) == {
        "context": {"slot": 10},
        "value": {"err": None},
    }
    ledger.commit(record, slots=5)
    await ws.quiet()
    gone = await ws.ask("signatureUnsubscribe", subscription)
    assert gone["error"] == {"code": -32602, "message": "Invalid subscription id."}


async def test_a_signature_that_landed_before_is_notified_at_once(
    ws: Socket, ledger: ScriptedLedger
) -> None:
    record = landed(9, err={"InstructionError": [0, {"Custom": 1}]})
    ledger.commit(record)
    subscription = await ws.subscribe("signatureSubscribe", record.signature)
    result = await ws.told("signatureNotification", subscription)
    assert result["value"] == {"err": {"InstructionError": [0, {"Custom": 1}]}}


@pytest.mark.parametrize("options", [[], [{"commitment": "finalized"}], [None], [{}]])
async def test_finality_is_notified_with_the_slot_after(
    ws: Socket, ledger: ScriptedLedger, options: list[Any]
) -> None:
    record = landed(10)
    subscription = await ws.subscribe("signatureSubscribe", record.signature, *options)
    ledger.commit(record)
    await ws.quiet()
    ledger.commit(slots=1)
    assert (await ws.told("signatureNotification", subscription))["value"] == {"err": None}


async def test_receipt_is_notified_first_where_it_was_asked_for(
    ws: Socket, ledger: ScriptedLedger
) -> None:
    record = landed(10)
    options = {"commitment": "processed", "enableReceivedNotification": True}
    subscription = await ws.subscribe("signatureSubscribe", record.signature, options)
    ledger.commit(record)
    first = await ws.told("signatureNotification", subscription)
    assert first["value"] == "receivedSignature"
    assert (await ws.told("signatureNotification", subscription))["value"] == {"err": None}


async def test_two_subscriptions_for_one_signature_are_both_told(
    ws: Socket, ledger: ScriptedLedger
) -> None:
    record, options = landed(10), {"commitment": "confirmed"}
    first = await ws.subscribe("signatureSubscribe", record.signature, options)
    second = await ws.subscribe("signatureSubscribe", record.signature, options)
    ledger.commit(record)
    await ws.told("signatureNotification", first)
    await ws.told("signatureNotification", second)


async def test_an_unsubscribed_signature_is_not_notified(
    ws: Socket, ledger: ScriptedLedger
) -> None:
    record = landed(10)
    subscription = await ws.subscribe("signatureSubscribe", record.signature)
    assert (await ws.ask("signatureUnsubscribe", subscription))["result"] is True
    ledger.commit(record, slots=3)
    await ws.quiet()


async def test_each_slot_that_passed_is_told_and_its_root(
    ws: Socket, ledger: ScriptedLedger
) -> None:
    slots = await ws.subscribe("slotSubscribe")
    roots = await ws.subscribe("rootSubscribe")
    ledger.commit(landed(10))
    ledger.commit(slots=2)
    expected = {"slot": 11, "parent": 10, "root": 10}
    assert await ws.told("slotNotification", slots) == expected
    assert (await ws.told("slotNotification", slots))["slot"] == 12
    assert await ws.told("rootNotification", roots) == 10
    assert await ws.told("rootNotification", roots) == 11
    for method, subscription in (("slotUnsubscribe", slots), ("rootUnsubscribe", roots)):
        assert (await ws.ask(method, subscription))["result"] is True
    ledger.commit(slots=1)
    await ws.quiet()


async def test_after_a_long_sleep_only_the_newest_slots_are_told(
    ws: Socket, ledger: ScriptedLedger
) -> None:
    slots = await ws.subscribe("slotSubscribe")
    ledger.commit(slots=1_000_000)
    told = [(await ws.told("slotNotification", slots))["slot"] for _ in range(32)]
    assert told == list(range(1_000_010 - 31, 1_000_011))
    await ws.quiet()


ADDRESS, OWNER = Pubkey(bytes([1]) * 32), Pubkey(bytes([2]) * 32)


async def test_an_account_is_told_in_the_encoding_asked_for(
    ws: Socket, ledger: ScriptedLedger
) -> None:
    plain = await ws.subscribe("accountSubscribe", str(ADDRESS))
    options = {"encoding": "base64", "dataSlice": {"offset": 1, "length": 1}}
    sliced = await ws.subscribe("accountSubscribe", str(ADDRESS), options)
    ledger.commit(accounts={OWNER: Account(1, b"", OWNER)})
    ledger.commit(accounts={ADDRESS: Account(7, b"ab", OWNER)})
    assert (await ws.told("accountNotification", plain))["value"]["data"] == "8Qq"
    assert await ws.told("accountNotification", sliced) == {
        "context": {"slot": 10},
        "value": {
            "lamports": 7,
            "data": [base64.b64encode(b"b").decode(), "base64"],
            "owner": str(OWNER),
            "executable": False,
            "rentEpoch": 0,
            "space": 2,
        },
    }


async def test_a_closed_account_is_told_as_an_empty_one(ws: Socket, ledger: ScriptedLedger) -> None:
    subscription = await ws.subscribe("accountSubscribe", str(ADDRESS), {"encoding": "base64"})
    ledger.commit(accounts={ADDRESS: None})
    value = (await ws.told("accountNotification", subscription))["value"]
    assert (value["lamports"], value["data"], value["owner"]) == (0, ["", "base64"], "1" * 32)


async def test_a_token_account_is_told_parsed_with_its_mint_from_the_ledger(
    ws: Socket, ledger: ScriptedLedger
) -> None:
    mint = Pubkey(bytes([3]) * 32)
    mint_data = struct.pack("<I32sQBBI32s", 0, bytes(32), 0, 2, 1, 0, bytes(32))
    token_data = bytes(mint) + bytes(OWNER) + struct.pack("<Q", 150) + bytes(36) + b"\x01"
    ledger.accounts[mint] = Account(1, mint_data, TOKEN)
    options = {"encoding": "jsonParsed"}
    subscription = await ws.subscribe("accountSubscribe", str(ADDRESS), options)
    ledger.commit(accounts={ADDRESS: Account(1, token_data.ljust(165, b"\0"), TOKEN)})
    value = (await ws.told("accountNotification", subscription))["value"]
    assert value["data"]["parsed"]["info"]["tokenAmount"]["uiAmountString"] == "1.5"


async def test_the_accounts_of_a_program_are_told_with_their_addresses(
    ws: Socket, ledger: ScriptedLedger
) -> None:
    options = {"encoding": "base64", "filters": [{"dataSize": 2}]}
    filtered = await ws.subscribe("programSubscribe", str(OWNER), options)
    other = Pubkey(bytes([4]) * 32)
    ledger.commit(
        accounts={
            ADDRESS: Account(7, b"abc", OWNER),
            OWNER: Account(7, b"ab", ADDRESS),
            other: Account(7, b"ab", OWNER),
        }
    )
    value = (await ws.told("programNotification", filtered))["value"]
    assert value["pubkey"] == str(other)
    assert value["account"]["data"] == [base64.b64encode(b"ab").decode(), "base64"]
    assert (await ws.ask("programUnsubscribe", filtered))["result"] is True
    ledger.commit(accounts={other: Account(8, b"ab", OWNER)})
    await ws.quiet()


async def test_logs_are_told_of_all_or_of_those_that_mention_an_address(
    ws: Socket, ledger: ScriptedLedger
) -> None:
    mentioned, other = landed(10), landed(10, err="AccountNotFound")
    payer = str(Pubkey(mentioned.wire[1 + 64 + 4 : 1 + 64 + 4 + 32]))
    everything = await ws.subscribe("logsSubscribe", "all")
    some = await ws.subscribe("logsSubscribe", {"mentions": [payer]})
    ledger.commit(other, mentioned)
    first = await ws.told("logsNotification", everything)
    assert first["value"] == {
        "signature": other.signature,
        "err": "AccountNotFound",
        "logs": ["Program 1 success"],
    }
    second = await ws.told("logsNotification", everything)
    assert second["value"]["signature"] == mentioned.signature
    assert (await ws.told("logsNotification", some))["value"] == second["value"]


REFUSED: list[tuple[str, list[Any], str]] = [
    ("signatureSubscribe", [], "should have at least 1 argument"),
    ("signatureSubscribe", ["abc"], "Invalid param: WrongSize"),
    ("signatureSubscribe", [str(Signature.default()), 5], "integer `5`, expected a map"),
    (
        "signatureSubscribe",
        [str(Signature.default()), {"commitment": "soon"}],
        "unknown variant `soon`",
    ),
    ("accountSubscribe", ["abc"], "Invalid param: WrongSize"),
    ("programSubscribe", ["abc"], "Invalid param: WrongSize"),
    ("programSubscribe", [str(OWNER), {"filters": [5]}], "a filter is"),
    ("accountSubscribe", [str(OWNER), {"encoding": "x"}], "unknown variant `x`"),
    (
        "accountSubscribe",
        [str(OWNER), {"encoding": "base64", "dataSlice": {"offset": "1"}}],
        "dataSlice.offset",
    ),
    ("logsSubscribe", [], "the filter is"),
    ("logsSubscribe", [{"mentions": []}], "Only 1 address supported"),
    ("logsSubscribe", [{"mentions": ["abc"]}], "Invalid param: WrongSize"),
    ("slotUnsubscribe", [99], "Invalid subscription id."),
    ("slotUnsubscribe", [], "Invalid subscription id."),
    ("slotUnsubscribe", [True], "Invalid subscription id."),
]


async def test_what_cannot_be_subscribed_to_is_refused(ws: Socket) -> None:
    for method, params in (("blockSubscribe", ["all"]), ("getSlot", [])):
        error = (await ws.ask(method, *params))["error"]
        assert (error["code"], error["message"]) == (-32601, "Method not found")
    for method, params, message in REFUSED:
        error = (await ws.ask(method, *params))["error"]
        assert error["code"] == -32602, (method, params)
        assert message in error["message"]


async def test_one_client_cannot_end_another_s_subscription(ledger: ScriptedLedger) -> None:
    async with (
        serving(ledger, "127.0.0.1", 0) as addresses,
        connect(addresses.ws) as one,
        connect(addresses.ws) as two,
    ):
        subscription = await Socket(one).subscribe("slotSubscribe")
        refused = await Socket(two).ask("slotUnsubscribe", subscription)
        assert refused["error"]["code"] == -32602


async def test_a_notification_never_comes_before_its_subscription_s_id(
    ws: Socket, ledger: ScriptedLedger
) -> None:
    record = landed(9)
    ledger.commit(record)
    batch = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "signatureSubscribe",
            "params": [record.signature, {"commitment": "confirmed"}],
        }
        for number in range(20)
    ]
    await ws.connection.send(json.dumps(batch))
    ids = [item["result"] for item in await ws.receive()]
    told = [await ws.receive() for _ in ids]
    assert sorted(item["params"]["subscription"] for item in told) == sorted(ids)


async def test_nothing_is_kept_of_a_client_that_left(ledger: ScriptedLedger) -> None:
    pubsub = PubSub(ledger.call)
    ledger.subscribe(pubsub.publish)
    async with websocket_server(pubsub) as url, connect(url) as connection:
        ws = Socket(connection)
        await ws.subscribe("slotSubscribe")
        await ws.subscribe("accountSubscribe", str(ADDRESS))
        await ws.subscribe("signatureSubscribe", landed(1).signature)
        await ws.subscribe("logsSubscribe", "all")
        assert len(pubsub.subscriptions) == 4
    assert pubsub.subscriptions == {}


async def _drain(connection: ClientConnection) -> None:
    while True:
        await connection.recv()


@contextlib.asynccontextmanager
async def websocket_server(pubsub: PubSub) -> AsyncIterator[str]:
    async with serve(pubsub.serve_connection, "127.0.0.1", 0, compression=None) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_client_that_does_not_read_is_cut_off_and_the_others_are_served(
    ledger: ScriptedLedger,
) -> None:
    pubsub = PubSub(ledger.call, max_queued=8)
    ledger.subscribe(pubsub.publish)
    async with (
        websocket_server(pubsub) as url,
        connect(url) as slow,
        connect(url) as quick,
    ):
        await Socket(slow).subscribe("slotSubscribe")
        roots = await Socket(quick).subscribe("rootSubscribe")
        # In one go: neither client's writer gets a turn, as if its socket took nothing.
        ledger.commit(slots=4)
        assert await Socket(quick).told("rootNotification", roots) == 10
        ledger.commit(slots=4)
        ledger.commit(slots=9)
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(_drain(slow), 10)


async def test_a_ledger_that_fails_while_a_notification_is_made_harms_nobody_else(
    ws: Socket, ledger: ScriptedLedger
) -> None:
    await ws.subscribe("accountSubscribe", str(ADDRESS), {"encoding": "jsonParsed"})
    slots = await ws.subscribe("slotSubscribe")
    ledger.broken = True
    initialised = bytes(108) + b"\x01" + bytes(56)
    ledger.commit(accounts={ADDRESS: Account(1, initialised, TOKEN)}, slots=1)
    assert (await ws.told("slotNotification", slots))["slot"] == 11


async def test_a_signature_subscribed_while_the_ledger_fails_is_still_notified(
    ws: Socket, ledger: ScriptedLedger
) -> None:
    record = landed(10)
    ledger.broken = True
    options = {"commitment": "confirmed"}
    subscription = await ws.subscribe("signatureSubscribe", record.signature, options)
    await ws.quiet()
    ledger.broken = False
    ledger.commit(record)
    await ws.told("signatureNotification", subscription)
