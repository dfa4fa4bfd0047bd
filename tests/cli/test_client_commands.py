"""Every command that calls a service, for people and as JSON, against a real one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import click
import pytest
from tests.support.cli import STRANGER, Live

from solward.support import jsontext
from solward_cli import _COMMANDS, main

Arguments = Callable[[Live], list[str]]


def emptied(live: Live) -> list[str]:
    """A wallet, and a mint of which it holds an empty account."""
    wallet = live.wallet()
    mint = live.mint(wallet)
    live.post(f"/wallets/{live.id_of(wallet)}/burn", mint=mint, amount=10)
    return [wallet, mint]


def unstaked(live: Live) -> list[str]:
    """A wallet and a stake of it that can be withdrawn."""
    wallet = live.wallet()
    account, path = live.stake(wallet), f"/wallets/{live.id_of(wallet)}"
    live.post(f"{path}/unstake", stakeAccount=account)
    while live.get(f"{path}/stakes")["stakes"][0]["state"] != "inactive":
        pass
    return [wallet, account]


def wrapped(live: Live) -> list[str]:
    wallet = live.wallet()
    live.post(f"/wallets/{live.id_of(wallet)}/wrap-sol", amount=0.5)
    return [wallet]


def scheduled(live: Live) -> list[str]:
    """A wallet and a schedule of it."""
    wallet = live.wallet(0)
    path = f"/wallets/{live.id_of(wallet)}/schedules"
    live.post(path, name="look", skill="check_balance", every="1h")
    return [wallet, "look"]


def holding(*rest: str) -> Arguments:
    """A wallet with a token of its own."""

    def arguments(live: Live) -> list[str]:
        wallet = live.wallet()
        return [wallet, live.mint(wallet), *rest]

    return arguments


def wallet(*rest: str) -> Arguments:
    return lambda live: [live.wallet(), *rest]


def staking(live: Live) -> list[str]:
    name = live.wallet()
    return [name, live.stake(name)]


def draft(live: Live) -> list[str]:
    """A file with a policy."""
    file = live.home / "draft.json"
    file.write_text(jsontext.dumps({"readOnly": [f"key:{live.key()}"]}))
    return [str(file)]


def latest(live: Live) -> list[str]:
    live.wallet(1)
    # Agents of other cases act meanwhile.
    listed = live.get("/transactions?type=airdrop&status=confirmed&limit=1")["transactions"]
    return [str(listed[0]["id"])]


def named(live: Live) -> list[str]:
    """A contact."""
    live.post("/contacts", name="Landlord", address=STRANGER)
    return ["Landlord", "--yes"]


# What each is given, and what its answer for people must show.
CASES: dict[str, tuple[Arguments, str]] = {
    "wallet list": (lambda _live: [], "demo-savings"),
    "wallet create": (lambda _live: ["made", "--tag", "a"], "Address"),
    "wallet show": (wallet(), "SOL"),
    "wallet balance": (wallet(), "2"),
    "wallet limits": (wallet(), "Most SOL in a transaction"),
    "wallet ceilings": (wallet("--max-sol-per-transaction", "0.5"), "0.5"),
    "wallet pockets": (wallet(), "No pocket holds anything."),
    "wallet stakes": (lambda live: staking(live)[:1], "activating"),
    "wallet tag": (wallet("treasury"), "treasury"),
    "wallet transfer": (wallet(STRANGER, "0.1"), "confirmed"),
    "wallet token-transfer": (holding(STRANGER, "1.5"), "token_transfer"),
    "wallet airdrop": (wallet("0.5"), "0.5 SOL"),
    "wallet swap": (wallet("SOL", "USDC", "0.1", "--slippage-bps", "80"), "outputAmount"),
    "wallet launch-token": (wallet("Coin", "CN", "--decimals", "2", "--supply", "7"), "CN"),
    "wallet mint-supply": (holding("1"), "mint_supply"),
    "wallet revoke-authority": (holding("--type", "freeze", "--yes"), "freeze"),
    "wallet burn": (holding("0.5", "--yes"), "0.5"),
    "wallet close-account": (emptied, "reclaimed"),
    "wallet reclaim-rent": (lambda live: emptied(live)[:1], "reclaimed"),
    "wallet stake": (wallet("1.5"), "stakeAccount"),
    "wallet unstake": (staking, "unstake"),
    "wallet withdraw-stake": (unstaked, "withdraw_stake"),
    "wallet wrap-sol": (wallet("0.5"), "wrap_sol"),
    "wallet unwrap-sol": (wrapped, "unwrap_sol"),
    # The demo's agent pays too.
    "pay list": (lambda live: ["--wallet", live.wallet()], "There are no payments yet."),
    "tx list": (lambda _live: ["--limit", "5"], "TYPE"),
    "contacts add": (lambda _live: ["Landlord", STRANGER], "is called Landlord"),
    "contacts list": (lambda _live: [], "NAME"),
    "contacts remove": (named, "has no name any more"),
    "tx show": (latest, "airdrop"),
    "tx watch": (latest, "confirmed"),
    "agent list": (lambda _live: [], "rules (no LLM)"),
    "agent create": (
        lambda live: [
            *("made", "--wallet", live.wallet(0), "--strategy", "always do wait"),
            *("--llm-provider", "rules", "--llm-model", "rules", "--loop-interval-ms", "2000"),
            *(
                "--max-sol-per-transaction",
                "0.5",
                "--max-transactions-per-minute",
                "3",
                "--daily-spending-limit-sol",
                "1",
            ),
        ],
        "fixed rules, not a language model",
    ),
    "agent templates": (
        lambda _live: ["dollar-cost-averager"],
        "Can leave in a day",
    ),
    "agent show": (lambda live: [live.agent()], "always do wait"),
    "agent limits": (lambda live: [live.agent()], "SOL in 24 hours"),
    "agent decisions": (lambda _live: ["demo-agent"], "OUTCOME"),
    "agent start": (lambda live: [live.agent()], "started"),
    "agent stop": (lambda live: [live.agent(start=True)], "stopped"),
    "agent change": (
        lambda live: [live.agent(), "--max-tokens-per-day", "1000", "--loop-interval-ms", "3000"],
        "Most tokens in a day",
    ),
    "agent pause": (lambda live: [live.agent(start=True)], "paused"),
    "agent delete": (lambda live: [live.agent(), "--yes"], "deleted"),
    "agent chat": (lambda live: [live.agent(start=True), "hello"], "I am a rule-based demo"),
    "agent watch": (lambda live: [live.agent(start=True), "--count", "1"], "wait({})"),
    "key list": (lambda live: [live.key()][:0], "0 of 5 SOL a day"),
    "key revoke": (lambda live: [live.key(), "--yes"], "revoked"),
    "admin list": (lambda live: [live.admin()][:0], "operate"),
    "admin revoke": (lambda live: [live.admin(), "--yes"], "revoked"),
    "policy show": (lambda _live: [], "Version"),
    "policy grant add": (
        lambda live: [f"Key {live.key()} may transfer up to 1 SOL a day, to anybody.", "--yes"],
        "may transfer up to 1 SOL a day",
    ),
    "policy grant remove": (
        lambda live: [f"key:{live.asker()[0]}", "1", "--yes"],
        "may only read",
    ),
    "policy check": (draft, "Not in force:"),
    "policy replay": (lambda live: [*draft(live), "--days", "1"], "judged"),
    "hold list": (lambda live: [live.held()][:0], "asks a person"),
    "hold show": (lambda live: [live.held()], STRANGER),
    "hold approve": (lambda live: [live.held()[:8], "--yes"], "executed"),
    "hold deny": (lambda live: [live.held(), "--note", "not ours"], "denied"),
    "events tail": (lambda _live: ["--after", "0", "--count", "2"], "wallet:created"),
    "audit list": (lambda _live: ["--limit", "3"], "KIND"),
    "audit export": (lambda live: ["--wallet", live.wallet(0)], "wallet:created"),
    "freeze": (lambda live: ["--wallet", live.wallet(0), "--reason", "drill"], "is frozen"),
    "frozen": (lambda _live: [], "is not frozen"),
    "config running": (lambda _live: [], "CEILING"),
    "unfreeze": (lambda live: ["--wallet", live.wallet(0)], "is not frozen"),
    "schedule create": (
        lambda live: [live.wallet(0), "daily", "check_balance", "--cron", "0 9 * * *"],
        "0 9 * * *",
    ),
    "schedule change": (lambda live: [*scheduled(live), "--every", "2h"], "every 2h"),
    "schedule list": (lambda live: scheduled(live)[:1], "check_balance"),
    "schedule show": (scheduled, "check_balance"),
    "schedule runs": (scheduled, "has not run yet"),
    "schedule pause": (scheduled, "paused"),
    "schedule run": (scheduled, "succeeded"),
    "schedule resume": (scheduled, "active"),
    "schedule delete": (lambda live: [*scheduled(live), "--yes"], "deleted"),
    "skills list": (lambda _live: [], "EFFECTS"),
    "skills show": (lambda _live: ["transfer"], "required; more than 0"),
    "skills run": (lambda live: ["check_balance", "--wallet", live.wallet(1)], "SOL balance: 1"),
}

# Beside these: they print on both outputs, or need a seller; their own tests look at that.
APART = {
    "tx export",
    "admin add",
    "key create",
    "key rotate",
    "mcp config",
    "pay curl",
    "pay show",
    "plugins settings set",
    "plugins settings show",
    "plugins settings unset",
    "plugins store delete",
    "plugins store list",
    "wallet sweep",
}


def service_commands() -> Iterator[str]:
    """The commands that call a service, by what they are made of."""
    for name in _COMMANDS:
        yield from _service_commands(name, main.get_command(click.Context(main), name))


def _service_commands(name: str, command: click.Command | None) -> Iterator[str]:
    if isinstance(command, click.Group):
        for sub, each in command.commands.items():
            yield from _service_commands(f"{name} {sub}", each)
    elif command is not None and "call" in inspect.signature(command.callback).parameters:  # type: ignore[arg-type]
        yield name


def test_every_command_that_calls_a_service_is_in_this_table() -> None:
    assert set(service_commands()) == CASES.keys() | APART


@pytest.mark.parametrize("name", CASES)
def test_it_answers_people_and_programs(live: Live, name: str) -> None:
    arguments, shows = CASES[name]
    printed = live.run(*name.split(), *arguments(live))
    assert shows in printed
    assert "…" not in printed
    # A text of an agent may have a separator of lines that JSON leaves as it is.
    for line in live.run(*name.split(), *arguments(live), "--json").rstrip("\n").split("\n"):
        assert isinstance(jsontext.loads(line), dict)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (["wallet", "list"], "/wallets?createdBy=true"),
        (["key", "list"], "/keys?details=true"),
        (["tx", "list", "--limit", "7"], "/transactions?limit=7&fees=true"),
        (["audit", "list", "--limit", "1", "--before", "3"], "/audit?limit=1&before=3"),
    ],
)
def test_json_is_the_services_answer_to_the_letter(
    live: Live, arguments: list[str], path: str
) -> None:
    # An agent acts meanwhile; what it does must not come between the two.
    live.run("agent", "stop", "demo-agent")
    printed = live.run(*arguments, "--json")
    with live.rest as client:
        assert printed == client.get(path).text + "\n"
