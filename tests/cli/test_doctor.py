"""The checks of `solward doctor` by name, against real ledgers and homes, healthy and not."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from solders.keypair import Keypair
from solders.message import MessageV1
from solders.transaction import VersionedTransaction
from sqlalchemy import text as sql
from tests.support import rpc as rpc_nodes
from tests.support.grants import SaidPrices
from tests.support.localnet import StillClock
from tests.support.repository import ROOT
from tests.swap_api import serving_swaps

from solward.agents.queue import prepare
from solward.database.database import Database
from solward.service.cluster import GENESIS
from solward.service.service import Solward
from solward.settings import Settings
from solward.solana.programs import CLOCK_SYSVAR
from solward.support import jsontext
from solward.types.guardrail import SOL
from solward.vault.money.judge.building import SwapVersions
from solward_cli import main
from solward_cli.doctor import home, ledger
from solward_cli.doctor.subject import Line, Status, Subject, format_check
from solward_localnet.jsonrpc import RpcError
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions
from solward_localnet.server import serving


@pytest.fixture
async def node(localnet: Localnet) -> AsyncIterator[rpc_nodes.RpcNode]:
    async with rpc_nodes.listening(rpc_nodes.answers_of(localnet)) as (made,):
        yield made


CLIENT = ROOT / "framework/solward/vault/ledger/client.py"


def settings(folder: Path, *urls: str, **given: Any) -> Settings:
    if urls:
        given = {"solana_rpc_url": ",".join(urls), "solana_network": "localnet"} | given
    return Settings(_env_file=None, solward_home=folder / "home", **given)


async def rpc(folder: Path, *urls: str, **given: Any) -> list[Line]:
    async with Subject(settings(folder, *urls, **given)) as subject:
        return await ledger.rpc(subject)


def of(lines: Sequence[Line], status: Status) -> list[str]:
    return [f"{line.name}: {line.found}" for line in lines if line.status is status]


async def test_a_healthy_node_answers_every_method_the_product_reads_with(
    node: rpc_nodes.RpcNode, tmp_path: Path
) -> None:
    lines = await rpc(tmp_path, node.url)
    assert of(lines, Status.FAIL) == of(lines, Status.WARN) == []
    assert node.calls.keys() >= {
        "getGenesisHash",
        "getProgramAccounts",
        "getRecentPrioritizationFees",
        "getSignaturesForAddress",
        "simulateTransaction",
    }
    assert "sendTransaction" not in node.calls


def test_every_method_that_the_product_calls_is_checked() -> None:
    # Nothing is sent or asked of the faucet; the others are called with what was found before, or
    # say which chain it is.
    elsewhere = {"sendTransaction", "requestAirdrop", "getGenesisHash", "getTransaction"}
    elsewhere |= {"getRecentPerformanceSamples", "getAgGenesisCert"}
    called = set(re.findall(r'"((?:get|is|simulate|send|request)[A-Z]\w+)"', CLIENT.read_text()))
    assert len(called) > 15
    assert called - elsewhere <= ledger._METHODS.keys()


@pytest.mark.parametrize(
    ("slots", "counted"), [(60_000, "slots of 100 ms"), (1, "slots of 1000 ms")]
)
async def test_a_slot_time_that_cannot_be_is_bounded_and_told(
    node: rpc_nodes.RpcNode, tmp_path: Path, slots: int, counted: str
) -> None:
    async def samples(_method: str, _params: Sequence[Any]) -> Any:
        return [{"numSlots": slots, "samplePeriodSecs": 60}]

    node.faults["getRecentPerformanceSamples"] = samples
    [line] = [each for each in await rpc(tmp_path, node.url) if each.status is Status.WARN]
    assert "implausible" in line.found
    assert counted in line.found


@pytest.mark.parametrize(
    ("finality", "seen"),
    [("alpenglow", "Alpenglow, read at finalized"),
     ("finalized", "Alpenglow, read at finalized"),
     ("tower", "TowerBFT, read at confirmed")],
)  # fmt: skip
async def test_it_says_which_chain_a_node_sees(tmp_path: Path, finality: Any, seen: str) -> None:
    clock = StillClock()
    options = LocalnetOptions(finality=finality, slot_ms=300, clock=clock, ticker=False)
    localnet = await Localnet.open(None, options)
    clock.now_ms += 600_000
    try:
        async with rpc_nodes.listening(rpc_nodes.answers_of(localnet)) as (made,):
            lines = await rpc(tmp_path, made.url)
    finally:
        await localnet.close()
    assert of(lines, Status.FAIL) == of(lines, Status.WARN) == []
    found = [line.found for line in lines]
    assert any(
        each.startswith(
            "slots of 300 ms, so a blockhash is valid for 45 s: a plan expires after 7.5 s"
        )
        for each in found
    )
    assert any(each.startswith(seen) and "versions legacy, 0 and 1" in each for each in found)
    assert any(each.startswith("rent: 5080 lamports a byte, 0.00148844 SOL") for each in found)


async def test_a_node_that_does_not_say_which_chain_it_sees_fails_nothing(
    node: rpc_nodes.RpcNode, tmp_path: Path
) -> None:
    node.faults |= dict.fromkeys(
        ("getRecentPerformanceSamples", "getAgGenesisCert", "getVersion"), -32601
    )
    lines = await rpc(tmp_path, node.url)
    assert of(lines, Status.FAIL) == of(lines, Status.WARN) == []
    found = " ".join(line.found for line in lines)
    assert "slots of 200 ms, so a blockhash is valid for 30 s: " in found
    assert "; assumed until they are measured (getRecentPerformanceSamples: " in found
    assert "consensus unknown (getAgGenesisCert: " in found
    assert "software unknown (getVersion: " in found


@pytest.mark.parametrize(
    ("setting", "nodes_take", "version", "status"),
    [
        ("auto", [True, True], 1, Status.OK),
        ("auto", [True, None], 1, Status.OK),
        ("auto", [True, False], 0, Status.OK),
        ("auto", [None], 0, Status.OK),
        (0, [True], 0, Status.OK),
        (1, [True], 1, Status.OK),
        (1, [True, False], 1, Status.FAIL),
    ],
)
async def test_it_says_in_which_version_swaps_are_built(
    localnet: Localnet,
    tmp_path: Path,
    setting: Any,
    nodes_take: list[bool | None],
    version: int,
    status: Status,
) -> None:
    """As the engine builds them with the same nodes."""

    async def refuses(method: str, params: Sequence[Any]) -> Any:
        transaction = VersionedTransaction.from_bytes(base64.b64decode(params[0]))
        if isinstance(transaction.message, MessageV1):
            raise RpcError(-32602, "failed to deserialize")
        return await localnet.call(method, params)

    answers = [rpc_nodes.answers_of(localnet)] * len(nodes_take)
    async with rpc_nodes.listening(*answers) as nodes:
        for each, takes in zip(nodes, nodes_take, strict=True):
            if not takes:
                each.faults["simulateTransaction"] = 500 if takes is None else refuses
        given = settings(tmp_path, *(each.url for each in nodes), transaction_version=setting)
        async with Subject(given) as subject:
            lines = await ledger.rpc(subject)
            versions = SwapVersions((await subject.cluster()).ledger, setting)
            assert await versions.for_swaps(str(Keypair().pubkey())) == version
    [line] = [each for each in lines if each.name == "Swaps"]
    assert line.found.startswith(f"built in version {version} (TRANSACTION_VERSION={setting})")
    assert line.status is status


@pytest.mark.parametrize(("takes", "version"), [("on", 1), ("off", 0)])
async def test_it_says_the_version_of_swaps_of_the_embedded_ledger(
    tmp_path: Path, takes: str, version: int
) -> None:
    lines = await rpc(tmp_path, localnet_version_1=takes)
    assert (
        of(lines, Status.OK)[1] == f"Swaps: built in version {version} (TRANSACTION_VERSION=auto)"
    )


async def test_what_a_node_refuses_is_named_with_what_it_is_needed_for(
    node: rpc_nodes.RpcNode, tmp_path: Path
) -> None:
    node.faults["getProgramAccounts"] = -32010
    [line] = [each for each in await rpc(tmp_path, node.url) if each.status is Status.FAIL]
    assert line.found.startswith("getProgramAccounts: ")
    assert "code -32010" in line.found
    assert "stakes" in line.advice


async def test_a_node_of_another_cluster_is_named(tmp_path: Path) -> None:
    mainnet = rpc_nodes.answers_name("x", GENESIS["mainnet-beta"])
    async with rpc_nodes.listening(mainnet) as (node,):
        lines = await rpc(tmp_path, node.url, solana_network="devnet")
    [line] = [each for each in lines if each.status is Status.FAIL]
    assert "SOLANA_NETWORK is devnet" in line.found
    assert "SOLANA_RPC_URL serves mainnet-beta" in line.found
    assert line.advice == "make SOLANA_NETWORK and SOLANA_RPC_URL name one network"


async def test_an_address_where_nobody_answers_fails_and_the_other_is_still_checked(
    node: rpc_nodes.RpcNode, tmp_path: Path
) -> None:
    lines = await rpc(tmp_path, "http://127.0.0.1:9/?api-key=CANARY-key", node.url)
    assert len(of(lines, Status.FAIL)) == 1
    assert "CANARY" not in str(lines)
    assert any("RPC 2" in each and "answers the" in each for each in of(lines, Status.OK))


@pytest.mark.parametrize(
    ("blocks", "status"), [(5, Status.OK), (40, Status.WARN), (200, Status.FAIL)]
)
async def test_how_far_a_node_lags_is_said(
    blocks: int, status: Status, node: rpc_nodes.RpcNode, localnet: Localnet, tmp_path: Path
) -> None:
    node.faults["getEpochInfo"] = _ahead(localnet, 300)
    async with rpc_nodes.listening(rpc_nodes.answers_of(localnet)) as (other,):
        other.faults["getEpochInfo"] = _ahead(localnet, 300 - blocks)
        lines = await rpc(tmp_path, node.url, other.url)
    [line] = [each for each in lines if "RPC 2" in each.name and "behind" in each.found]
    assert line.status is status


def _ahead(localnet: Localnet, blocks: int) -> rpc_nodes.Answers:
    height = asyncio.ensure_future(localnet.call("getEpochInfo", []))

    async def answers(_method: str, _params: Sequence[Any]) -> Any:
        info = await height
        return info | {"blockHeight": info["blockHeight"] + blocks}

    return answers


async def test_a_node_that_refuses_many_calls_at_once_is_told(
    node: rpc_nodes.RpcNode, localnet: Localnet, tmp_path: Path
) -> None:
    asked = 0

    async def few(method: str, params: Sequence[Any]) -> Any:
        nonlocal asked
        asked += 1
        if asked > 5:
            raise RpcError(-32600, "too many requests")
        return await localnet.call(method, params)

    node.faults["getSlot"] = few
    [found] = of(await rpc(tmp_path, node.url), Status.WARN)
    assert "16 of 20 calls at once were refused: too many requests" in found


@pytest.mark.parametrize(
    ("urls", "operators"),
    [
        (("https://a.example.com/KEY", "https://b.example.com"), {"example.com"}),
        (("https://a.example.com", "https://b.example.org"), {"example.com", "example.org"}),
        (("http://127.0.0.1:1", "http://localhost:2"), {"localhost"}),
    ],
)
def test_two_hosts_of_one_operator_are_one_word(urls: Sequence[str], operators: set[str]) -> None:
    assert {ledger.operator_of(url) for url in urls} == operators
    line = ledger._operators_line(tuple(urls), mainnet=True)
    assert line.status is (Status.OK if len(operators) > 1 else Status.WARN)


@pytest.mark.parametrize(
    ("seconds", "status"), [(5, Status.OK), (120, Status.WARN), (3600, Status.FAIL)]
)
async def test_a_clock_that_is_not_the_ledgers_is_told(
    seconds: int, status: Status, node: rpc_nodes.RpcNode, localnet: Localnet, tmp_path: Path
) -> None:
    async def behind(method: str, params: Sequence[Any]) -> Any:
        answer = await localnet.call(method, params)
        assert params[0] == CLOCK_SYSVAR
        data = bytearray(base64.b64decode(answer["value"]["data"][0]))
        now = int.from_bytes(data[32:40], "little") - seconds
        data[32:40] = now.to_bytes(8, "little")
        answer["value"]["data"][0] = base64.b64encode(data).decode()
        return answer

    node.faults["getAccountInfo"] = behind
    async with Subject(settings(tmp_path, node.url)) as subject:
        [line] = await ledger.clock(subject)
    assert line.status is status
    assert "ahead of the ledger's time" in line.found


async def test_first_funds_are_missed_until_a_wallet_holds_some(
    node: rpc_nodes.RpcNode, localnet: Localnet, tmp_path: Path
) -> None:
    async with Subject(settings(tmp_path, node.url)) as subject:
        assert (await ledger.funds(subject))[0].found == "there are none"
    async with Solward.open(settings(tmp_path)) as service:
        wallet = await service.wallets.create("treasury")
    async with Subject(settings(tmp_path, node.url)) as subject:
        empty, none = await ledger.funds(subject)
    assert empty.advice == "`solward wallet airdrop treasury`"
    assert none.status is Status.FAIL
    await localnet.call("requestAirdrop", [wallet.address, 2_500_000_000])
    async with Subject(settings(tmp_path, node.url)) as subject:
        [line] = await ledger.funds(subject)
    assert line == ("treasury", f"2.5 SOL at {wallet.address}", "nothing", Status.OK)


async def test_the_most_that_can_leave_each_wallet_is_a_number(tmp_path: Path) -> None:
    async with Solward.open(settings(tmp_path)) as service:
        wallet = await service.wallets.create("treasury")
        await service.agents.create(
            {
                "name": "scout",
                "walletId": wallet.id,
                "strategy": "rest",
                "llmProvider": "openai",
                "llmModel": "gpt-5",
                "guardrails": {"dailySpendingLimitSol": 1},
            }
        )
    async with Subject(settings(tmp_path)) as subject:
        lines = await home.limits(subject)
        models = await ledger.models(subject)
    assert "2 SOL a transaction, 10 SOL a day, 0.05 SOL of costs a day" in lines[0].found
    assert lines[1].found == "at most 0.001 SOL of network fee; priority fee: off"
    [line] = [each for each in lines if each.name == "treasury"]
    assert "1 SOL" in line.found
    assert line.status is Status.WARN
    assert "TOKEN_LIMITS" in line.advice
    [model] = models
    assert (model.name, model.advice) == ("openai/gpt-5", "set OPENAI_API_KEY")
    assert model.status is Status.FAIL


@pytest.mark.sqlite("a server's database is there before the service")
async def test_before_the_first_start_there_is_nothing_to_fail(tmp_path: Path) -> None:
    async with Subject(settings(tmp_path)) as subject:
        for check in (home.settings, home.database, home.keystore, home.limits, ledger.funds):
            assert of(await check(subject), Status.FAIL) == []
        assert (await home.database(subject))[0].status is Status.WARN
        assert (await home.keystore(subject))[0].status is Status.WARN
    assert not settings(tmp_path).solward_home.exists()


@pytest.mark.sqlite("its file is changed")
async def test_a_database_of_another_version_is_not_read(tmp_path: Path) -> None:
    given = settings(tmp_path)
    async with Solward.open(given):
        pass
    with contextlib.closing(sqlite3.connect(given.solward_home / "solward.db")) as file:
        file.execute("UPDATE schema_hash SET hash = 'another'")
        file.execute("DROP TABLE wallets")
        file.commit()
    async with Subject(given) as subject:
        [line] = await home.database(subject)
        for check in (home.keystore, home.limits, ledger.funds, ledger.models):
            assert await check(subject)
    assert line.status is Status.FAIL
    assert "Another version of Solward" in line.found
    assert line.advice == "run the version that made the database"


async def test_a_home_that_was_used_on_another_network_fails(tmp_path: Path) -> None:
    async with Solward.open(settings(tmp_path)):
        pass
    env = {"SOLANA_RPC_URL": "http://127.0.0.1:9", "SOLANA_NETWORK": "devnet"}
    devnet = settings(tmp_path, env["SOLANA_RPC_URL"], solana_network=env["SOLANA_NETWORK"])
    async with Subject(devnet) as subject:
        version, line = await home.database(subject)
    assert (version.status, line.status) == (Status.OK, Status.FAIL)
    assert "is devnet, but the database of SOLWARD_HOME has" in line.found
    assert line.advice == "Set SOLANA_NETWORK to localnet, or SOLWARD_HOME to one for devnet"


@pytest.mark.sqlite("a server is a database of its own")
def test_a_start_on_another_network_than_the_homes_is_one_line(tmp_path: Path) -> None:
    asyncio.run(_started(settings(tmp_path)))
    env = {
        "SOLWARD_HOME": str(tmp_path / "home"),
        "SOLANA_RPC_URL": "http://127.0.0.1:9",
        "SOLANA_NETWORK": "devnet",
        "API_PORT": "0",
        "API_SECRET": "a-secret-for-tests-of-at-least-32-bytes",
    }
    end = CliRunner(env=env).invoke(main, ["server", "start"])
    assert end.exit_code == 2
    assert end.stderr.startswith("Error: SOLANA_NETWORK is devnet, but the database of")
    assert end.stderr.count("\n") == 1


async def _started(given: Settings) -> None:
    async with Solward.open(given):
        pass


@pytest.mark.more
async def test_a_database_that_processes_share_is_checked_too(
    postgres_url: str, tmp_path: Path
) -> None:
    given = {"database_url": postgres_url, "solana_rpc_url": "http://127.0.0.1:9"}
    async with Subject(settings(tmp_path, solana_network="localnet", **given)) as subject:
        [empty] = await home.database(subject)
        for check in (home.keystore, home.limits, ledger.funds):
            assert await check(subject)
    assert (empty.found, empty.status) == ("PostgreSQL, the database is empty", Status.WARN)
    await (await Database.open(postgres_url, tmp_path)).close()
    async with Subject(settings(tmp_path, solana_network="localnet", **given)) as subject:
        [line] = await home.database(subject)
    assert line.found.startswith("PostgreSQL, with this version's schema")
    database = await Database.open(postgres_url, tmp_path)
    async with database.write() as connection:
        await prepare(connection)
        await connection.execute(sql("INSERT INTO queue_migrations VALUES ('99_later.sql')"))
    await database.close()
    async with Subject(settings(tmp_path, solana_network="localnet", **given)) as subject:
        [_, queue] = await home.database(subject)
    assert queue.status is Status.FAIL
    assert "newer than the installed procrastinate" in queue.found
    away = given | {"database_url": "postgresql://nobody:canary-pass@127.0.0.1:9/nothing"}
    async with Subject(settings(tmp_path, solana_network="localnet", **away)) as subject:
        [line] = await home.database(subject)
    assert line.status is Status.FAIL
    assert "canary" not in str(line)


async def test_a_home_open_to_others_and_a_secret_that_opens_nothing_fail(tmp_path: Path) -> None:
    given = settings(tmp_path)
    # The service may be running.
    async with Solward.open(given), Subject(given) as subject:
        for check in (home.settings, home.database, home.keystore, home.plugins):
            assert of(await check(subject), Status.FAIL) == []
    given.solward_home.chmod(0o755)
    (given.solward_home / "keystore.key").unlink()
    async with Subject(given) as subject:
        [opened] = of(await home.settings(subject), Status.FAIL)
        [lost] = await home.keystore(subject)
    assert "is open to others, mode 0755" in opened
    assert lost.status is Status.FAIL
    assert "is missing" in lost.found


async def test_without_a_word_models_are_not_asked(tmp_path: Path) -> None:
    given = settings(tmp_path, openai_api_key="sk-canary-0123456789abcdef")
    async with Subject(given) as subject:
        [line] = await ledger.models(subject)
    assert "not asked, because an answer costs up to 256 tokens" in line.found
    assert "canary" not in str(line)


async def test_a_venue_that_does_not_answer_fails_unless_another_one_does(
    node: rpc_nodes.RpcNode, tmp_path: Path
) -> None:
    nowhere = {"jupiter_api_url": "http://127.0.0.1:9"}
    # The localnet's own market answers too.
    for chosen, status in (("best", Status.WARN), ("jupiter", Status.FAIL)):
        async with Subject(settings(tmp_path, node.url, swap_venue=chosen, **nowhere)) as subject:
            lines = await ledger.venue(subject)
        [line] = [each for each in lines if each.status is not Status.OK]
        assert (line.name, line.status) == ("jupiter", status)
        assert "did not answer" in line.found
        assert "JUPITER_API_URL" in line.advice
    async with Subject(settings(tmp_path, node.url, swap_venue="nobody")) as subject:
        [line] = await ledger.venue(subject)
    assert (line.status, line.found) == (Status.FAIL, "nobody is not loaded")


@pytest.mark.parametrize(
    ("api", "found"),
    [
        ("build", "the swap is one instruction over 8 accounts"),
        ("v1", "the swap is one instruction over 8 accounts"),
        ("order", "swaps in several steps, after funding a pocket"),
    ],
)
async def test_each_way_to_swap_at_a_venue_is_one_that_works(
    localnet: Localnet, tmp_path: Path, api: str, found: str
) -> None:
    async with (
        serving(localnet, "127.0.0.1", 0) as addresses,
        serving_swaps(localnet) as market,
    ):
        chosen = {"swap_venue": "jupiter", "jupiter_api": api, "jupiter_api_url": market}
        async with Subject(settings(tmp_path, addresses.http, **chosen)) as subject:
            lines = await ledger.venue(subject)
    assert {line.status for line in lines} == {Status.OK}
    assert any(line.found.endswith(found) for line in lines)


@pytest.mark.parametrize(
    ("second", "age_ms", "found"),
    [
        (150, 0, {}),
        (170, 0, {"Together": "are more than 2% apart"}),
        (
            150,
            90_000,
            {"two": "s old; its maximum age is", "Together": "s old; its maximum age is"},
        ),
    ],
)
async def test_each_price_source_is_asked_alone_and_all_together(
    second: int, age_ms: int, found: dict[str, str], tmp_path: Path
) -> None:
    sources = [
        SaidPrices("one", {SOL: (150, 9)}),
        SaidPrices("two", {SOL: (second, 9)}, age_ms=age_ms),
    ]
    lines = await ledger._price_lines(sources, settings(tmp_path))
    assert [line.name for line in lines] == ["one", "two", "Together"]
    assert lines[0].found == "one SOL is 150.00 dollars"
    failed = {line.name: line.found for line in lines if line.status is Status.FAIL}
    assert failed.keys() == found.keys()
    assert all(words in failed[name] for name, words in found.items()), failed


def test_the_exit_code_and_json_say_whether_anything_would_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env = {"SOLWARD_HOME": str(tmp_path / "home")}
    good = CliRunner(env=env).invoke(main, ["doctor", "rpc", "settings", "--json"])
    told = jsontext.loads(good.output)
    assert (good.exit_code, told["ok"]) == (0, True)
    assert [line["check"] for line in told["lines"]] == ["rpc"] * 2 + ["settings"] * 4
    env |= {"SOLANA_RPC_URL": "http://127.0.0.1:9", "SOLANA_NETWORK": "devnet"}
    bad = CliRunner(env=env).invoke(main, ["doctor", "rpc", "--json"])
    assert (bad.exit_code, jsontext.loads(bad.output)["ok"]) == (1, False)
    shown = CliRunner(env=env).invoke(main, ["doctor", "rpc"])
    assert shown.exit_code == 1
    assert shown.output.startswith("rpc\n  FAIL RPC 1 127.0.0.1: ")
    assert CliRunner(env=env).invoke(main, ["doctor", "rcp"]).exit_code == 2


def test_lines_are_of_80_columns_and_hold_no_control_characters() -> None:
    shown = format_check("rpc", [Line("x", "word " * 40 + "\x1b[2J", "do this")])
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "\x1b" not in shown
