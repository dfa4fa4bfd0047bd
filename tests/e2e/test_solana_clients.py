"""Public Solana clients against a real `solward localnet` process, without any part of ours: what
they ask, and that it is answered as they expect."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Confirmed, Processed
from solana.rpc.core import RPCException
from solana.rpc.models import DataSliceOpts, MemcmpOpts, TokenAccountOpts
from solana.rpc.websocket_api import SolanaWsClient
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.rpc.errors import SendTransactionPreflightFailureMessage
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from spl.token.instructions import get_associated_token_address
from tests.support.environments import npm_environment
from tests.support.localnet import LocalnetProcess, localnet_process
from tests.support.repository import DOCS
from tests.support.tokens import (
    TOKEN,
    TOKEN_2022,
    fund_instructions,
    mint_instructions,
    named_mint_instructions,
)

JAVASCRIPT = Path(__file__).parent / "web3js"
SOL = 1_000_000_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalnetProcess]:
    ledger = tmp_path_factory.mktemp("localnet") / "localnet.db"
    with localnet_process(ledger, "--slot-ms", "100") as process:
        yield process


@pytest.fixture
async def client(node: LocalnetProcess) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(node.http, commitment=Confirmed) as client:
        yield client


@pytest.fixture
async def payer(client: AsyncClient) -> Keypair:
    keypair = Keypair()
    signature = (await client.request_airdrop(keypair.pubkey(), 10 * SOL)).value
    await client.confirm_transaction(signature, Confirmed, sleep_seconds=0.02)
    return keypair


async def signed(
    client: AsyncClient, payer: Keypair, instructions: list[Instruction], *signers: Keypair
) -> VersionedTransaction:
    blockhash = (await client.get_latest_blockhash()).value.blockhash
    message = MessageV0.try_compile(payer.pubkey(), instructions, [], blockhash)
    return VersionedTransaction(message, [payer, *signers])


async def land(
    client: AsyncClient, payer: Keypair, instructions: list[Instruction], *signers: Keypair
) -> Signature:
    """Send a transaction and wait until it is confirmed."""
    transaction = await signed(client, payer, instructions, *signers)
    sent = (await client.send_transaction(transaction)).value
    confirmed = await client.confirm_transaction(sent, Confirmed, sleep_seconds=0.02)
    status = confirmed.value[0]
    assert status is not None
    assert status.err is None
    return sent


def pay(payer: Keypair, target: Pubkey, lamports: int) -> Instruction:
    return transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=target, lamports=lamports))


async def test_a_transfer_is_confirmed_by_websocket(
    node: LocalnetProcess, client: AsyncClient, payer: Keypair
) -> None:
    target = Pubkey.new_unique()
    transaction = await signed(client, payer, [pay(payer, target, SOL)])
    async with SolanaWsClient(node.ws) as ws:
        await ws.signature_subscribe(signature=transaction.signatures[0], commitment=Confirmed)
        await ws.account_subscribe(pubkey=target, commitment=Confirmed, encoding="base64")
        await ws.logs_subscribe(commitment=Confirmed)
        await client.send_transaction(transaction)
        told: dict[str, Any] = {}
        async with asyncio.timeout(10):
            while len(told) < 3:
                notification = await ws.recv()
                told[type(notification).__name__] = notification.result
    assert told["SignatureNotification"].value.err is None
    assert told["AccountNotification"].value.lamports == SOL
    assert told["LogsNotification"].value.signature == transaction.signatures[0]
    assert (await client.get_balance(target)).value == SOL


async def test_slots_and_roots_come_by_websocket(node: LocalnetProcess) -> None:
    async with SolanaWsClient(node.ws) as ws:
        slots = await ws.slot_subscribe()
        async with asyncio.timeout(10):
            first, second = (await ws.recv()).result, (await ws.recv()).result
        assert second.slot == first.slot + 1
        assert second.parent == first.slot
        await ws.unsubscribe(slots)
        await ws.root_subscribe()
        async with asyncio.timeout(10):
            while not isinstance(root := (await ws.recv()).result, int):
                pass
        assert root >= first.slot


async def test_token_accounts_are_parsed_for_both_token_programs(
    client: AsyncClient, payer: Keypair
) -> None:
    classic, named, owner = Keypair(), Keypair(), payer.pubkey()
    rent = (await client.get_minimum_balance_for_rent_exemption(500)).value
    await land(
        client,
        payer,
        [
            *mint_instructions(owner, classic.pubkey(), rent, decimals=6),
            *fund_instructions(owner, owner, classic.pubkey(), 1_500_000),
        ],
        classic,
    )
    signature = await land(
        client,
        payer,
        [
            *named_mint_instructions(owner, named.pubkey(), rent, "Solward", "SLW"),
            *fund_instructions(owner, owner, named.pubkey(), 2 * SOL, program=TOKEN_2022),
        ],
        named,
    )
    for program, shown in ((TOKEN, "1.5"), (TOKEN_2022, "2")):
        options = TokenAccountOpts(program_id=program)
        answered = await client.get_token_accounts_by_owner_json_parsed(owner, options)
        assert len(answered.value) == 1
        info = answered.value[0].account.data.parsed["info"]
        assert info["tokenAmount"]["uiAmountString"] == shown
        assert info["owner"] == str(owner)
        raw = await client.get_token_accounts_by_owner(owner, options)
        assert raw.value[0].account.data[:32] == bytes(
            classic.pubkey() if program == TOKEN else named.pubkey()
        )
    mint = (await client.get_account_info_json_parsed(named.pubkey())).value
    assert mint is not None
    extensions = mint.data.parsed["info"]["extensions"]
    assert extensions[1]["state"]["symbol"] == "SLW"
    details = (await client.get_transaction(signature, "jsonParsed", Confirmed, 0)).value
    assert details is not None
    meta = details.transaction.meta
    assert meta is not None
    assert meta.post_token_balances[0].ui_token_amount.ui_amount_string == "2"


async def test_a_failed_preflight_tells_its_logs(client: AsyncClient, payer: Keypair) -> None:
    transaction = await signed(client, payer, [pay(payer, Pubkey.new_unique(), 100 * SOL)])
    with pytest.raises(RPCException) as caught:
        await client.send_transaction(transaction)
    failure = caught.value.args[0]
    assert isinstance(failure, SendTransactionPreflightFailureMessage)
    assert failure.message == (
        "Transaction simulation failed: Error processing Instruction 0: custom program error: 0x1"
    )
    assert any("insufficient lamports" in line for line in failure.data.logs or [])
    statuses = await client.get_signature_statuses([transaction.signatures[0]])
    assert statuses.value == [None]


async def test_solders_strict_parser_takes_every_account_answer(
    client: AsyncClient, payer: Keypair
) -> None:
    key, mint = payer.pubkey(), Keypair()
    rent = (await client.get_minimum_balance_for_rent_exemption(82)).value
    await land(
        client,
        payer,
        [
            *mint_instructions(key, mint.pubkey(), rent),
            *fund_instructions(key, key, mint.pubkey(), 5),
        ],
        mint,
    )
    account = get_associated_token_address(key, mint.pubkey())
    window = DataSliceOpts(offset=0, length=8)
    for encoding in ("base58", "base64", "base64+zstd"):
        info = (await client.get_account_info(mint.pubkey(), encoding=encoding)).value
        assert info is not None
        assert len(info.data) == 82
    assert (await client.get_account_info(Pubkey.new_unique())).value is None
    sliced = (await client.get_account_info(account, data_slice=window)).value
    assert sliced is not None
    assert sliced.data == bytes(mint.pubkey())[:8]
    several = [key, account, Pubkey.new_unique()]
    assert (await client.get_multiple_accounts(several)).value[2] is None
    parsed = (await client.get_multiple_accounts_json_parsed(several)).value[1]
    assert parsed is not None
    assert parsed.data.parsed["type"] == "account"
    filters: list[int | MemcmpOpts] = [165, MemcmpOpts(offset=32, bytes=str(key))]
    owned = await client.get_program_accounts(TOKEN, encoding="base64", filters=filters)
    assert [item.pubkey for item in owned.value] == [account]
    assert len((await client.get_program_accounts_json_parsed(TOKEN, filters=filters)).value) == 1
    by_mint = TokenAccountOpts(mint=mint.pubkey())
    assert len((await client.get_token_accounts_by_owner(key, by_mint)).value) == 1
    assert (await client.get_token_account_balance(account)).value.amount == "5"
    assert (await client.get_token_supply(mint.pubkey())).value.amount == "5"
    assert (await client.get_token_largest_accounts(mint.pubkey())).value[0].address == account


async def test_solders_strict_parser_takes_every_transaction_answer(
    client: AsyncClient, payer: Keypair
) -> None:
    target = Pubkey.new_unique()
    instruction = pay(payer, target, SOL)
    signature = await land(client, payer, [instruction])
    for encoding in ("json", "jsonParsed", "base58", "base64"):
        details = (await client.get_transaction(signature, encoding, Confirmed, 0)).value
        assert details is not None
        assert details.transaction.meta is not None
        assert details.transaction.meta.fee == 5_000
    history = (await client.get_signatures_for_address(target)).value
    assert [entry.signature for entry in history] == [signature]
    searched = await client.get_signature_statuses([signature], search_transaction_history=True)
    assert searched.value[0] is not None
    transaction = await signed(client, payer, [instruction])
    simulated = await client.simulate_transaction(
        transaction,
        replace_recent_blockhash=True,
        inner_instructions=True,
        accounts_addresses=[target],
    )
    assert simulated.value.err is None
    assert simulated.value.accounts is not None
    assert simulated.value.accounts[0] is not None
    assert simulated.value.accounts[0].lamports == 2 * SOL
    assert (await client.get_fee_for_message(transaction.message)).value == 5_000


async def test_solders_strict_parser_takes_every_cluster_answer(client: AsyncClient) -> None:
    assert await client.is_connected()
    slot = (await client.get_slot(Processed)).value
    assert (await client.get_block_height()).value <= slot + 10
    assert (await client.get_block_time(slot)).value
    assert (await client.get_epoch_info()).value.slots_in_epoch == 432
    assert (await client.get_epoch_schedule()).value.warmup is False
    assert (await client.get_version()).value.solana_core
    latest = (await client.get_latest_blockhash()).value
    assert latest.last_valid_block_height > slot
    votes = (await client.get_vote_accounts()).value
    assert len(votes.current) == 1
    assert votes.current[0].activated_stake > 0
    vote = (await client.get_account_info_json_parsed(votes.current[0].vote_pubkey)).value
    assert vote is not None
    assert vote.data.parsed["info"]["nodePubkey"] == str(votes.current[0].node_pubkey)
    for method in (
        client.get_identity,
        client.get_genesis_hash,
        client.get_supply,
        client.get_transaction_count,
        client.get_recent_prioritization_fees,
        client.get_first_available_block,
        client.get_minimum_ledger_slot,
        client.get_cluster_nodes,
        client.get_slot_leader,
        client.get_recent_performance_samples,
    ):
        await method()


@pytest.fixture(scope="module")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the clients of the lock file, and the scripts that drive them."""
    folder = tmp_path_factory.mktemp("javascript")
    for file in (*JAVASCRIPT.glob("*.json"), *JAVASCRIPT.glob("*.mjs")):
        shutil.copy(file, folder)
    (folder / "node_modules").symlink_to(npm_environment(JAVASCRIPT, "web3js"))
    return folder


def told(folder: Path, *arguments: str) -> Any:
    """The last line of a script, which must be JSON."""
    ran = subprocess.run(
        ["node", *arguments], cwd=folder, capture_output=True, text=True, timeout=90
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.more
@pytest.mark.timeout(300)
def test_web3_js_works_from_airdrop_to_parsed_token_accounts(
    node: LocalnetProcess, javascript: Path
) -> None:
    assert len(told(javascript, "check.mjs", node.http)) == 7


@pytest.mark.more
@pytest.mark.timeout(300)
def test_kit_works_with_its_rpc_and_its_subscriptions(
    node: LocalnetProcess, javascript: Path
) -> None:
    assert len(told(javascript, "kit.mjs", node.http, node.ws)) == 6


PAGE = (DOCS / "how-to/localnet.md").read_text()
METHODS = PAGE.partition("\n## Methods\n")[2].partition("\n## ")[0]
SERVED = re.findall(r"`((?:get|is|minimum|request|send|simulate)\w+|\w+Subscribe)`", METHODS)
# Method -> the clients that name it.
NOT_SERVED = {
    name: clients.split(", ")
    for name, clients in re.findall(r"^\| `(\w+)` \| ([\w., ]+) \| .+ \|$", PAGE, re.M)
}


@pytest.mark.more
@pytest.mark.timeout(300)
def test_the_page_lists_what_the_packages_themselves_name(javascript: Path) -> None:
    named: dict[str, list[str]] = {}
    for client, kinds in told(javascript, "methods.mjs").items():
        assert len(kinds["methods"]) > 40
        for name in (*kinds["methods"], *kinds["subscriptions"]):
            named.setdefault(name, []).append(client)
    left = {name: clients for name, clients in named.items() if name not in SERVED}
    assert left == NOT_SERVED
    locked = json.loads((JAVASCRIPT / "package.json").read_text())["dependencies"]
    for package, version in locked.items():
        assert f"{package} {version}" in PAGE


async def test_what_the_page_calls_served_is_and_the_rest_is_not(
    node: LocalnetProcess, client: AsyncClient
) -> None:
    assert len(SERVED) > 50
    async with websockets.connect(node.ws) as ws, httpx.AsyncClient() as http:
        for number, name in enumerate([*SERVED, *NOT_SERVED]):
            asked = {"jsonrpc": "2.0", "id": number, "method": name, "params": []}
            if name.endswith("Subscribe"):
                await ws.send(json.dumps(asked))
                answer: dict[str, Any] = {}
                while answer.get("id") != number:
                    answer = json.loads(await ws.recv())
            else:
                answer = (await http.post(node.http, json=asked)).json()
            unknown = answer.get("error", {}).get("code") == -32601
            assert unknown == (name in NOT_SERVED), (name, answer)


@pytest.mark.more
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with localnet_process(tmp_path / "ledger.db") as process:
        assert process.stop(number) == 0


@pytest.mark.more
async def test_a_restart_keeps_the_ledger_and_reset_forgets_it(tmp_path: Path) -> None:
    ledger, key = tmp_path / "ledger.db", Pubkey.new_unique()
    with localnet_process(ledger) as process:
        async with AsyncClient(process.http) as client:
            await client.request_airdrop(key, SOL)
            genesis = (await client.get_genesis_hash()).value
        process.stop(signal.SIGKILL)
    for options, balance in (((), SOL), (("--reset",), 0)):
        with localnet_process(ledger, *options) as process:
            async with AsyncClient(process.http) as client:
                assert (await client.get_balance(key, Processed)).value == balance
                same = (await client.get_genesis_hash()).value == genesis
                assert same is (not options)


def command(*arguments: str, home: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "solward_cli.localnet", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        env=os.environ | {"SOLWARD_HOME": str(home)},
    )


@pytest.mark.more
def test_a_taken_port_and_a_taken_ledger_are_told_in_one_line(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    with localnet_process(ledger) as process:
        port = process.http.rsplit(":", 1)[1]
        taken = command("--port", port, home=tmp_path)
        assert taken.returncode == 2
        assert "the localnet could not start" in taken.stderr
        assert "Traceback" not in taken.stderr
        locked = command("--port", "0", "--ledger", str(ledger), home=tmp_path)
        assert locked.returncode == 2
        assert str(ledger) in locked.stderr
        assert "Traceback" not in locked.stderr
    assert (tmp_path / "localnet.db").exists()


@pytest.mark.more
@pytest.mark.parametrize(
    "arguments", [("--port", "70000"), ("--slot-ms", "0"), ("--slots-per-epoch", "8")]
)
def test_an_option_out_of_range_is_named(tmp_path: Path, arguments: tuple[str, str]) -> None:
    refused = command(*arguments, home=tmp_path)
    assert refused.returncode == 2
    assert arguments[0] in refused.stderr


@pytest.mark.more
def test_a_wrong_setting_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALNET_SLOT_MS", "soon")
    refused = command("--port", "0", home=tmp_path)
    assert refused.returncode == 2
    assert "LOCALNET_SLOT_MS" in refused.stderr
    assert "Traceback" not in refused.stderr
