"""What docs/reference/transactions.md and docs/how-to/localnet.md list is what the code has."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import entry_points

from tests.promises import promise
from tests.support.repository import DOCS

from solward.operations.declared import OPERATIONS
from solward.types.money import format_sol
from solward.types.record import TransactionStatus, TransactionType
from solward.vault.guardrails.rules import RULES, Policy
from solward_localnet.market import POOLS
from solward_localnet.methods import METHODS
from solward_localnet.websocket import SUBSCRIBE
from solward_plugins.skills.operations import OperationSkill

TRANSACTIONS = (DOCS / "reference/transactions.md").read_text()
LOCALNET = (DOCS / "how-to/localnet.md").read_text()


def section(page: str, heading: str) -> str:
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def names_in_first_column(text: str) -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


def test_the_guardrails_are_documented_in_their_order() -> None:
    assert names_in_first_column(section(TRANSACTIONS, "Rules")) == list(RULES)


def test_the_documented_fee_limits_are_the_defaults() -> None:
    policy = Policy(frozenset())
    fee, rent = format_sol(policy.max_fee_lamports), format_sol(policy.max_rent_lamports)
    expected = f"{fee} SOL fee, {rent} SOL rent, {policy.max_accounts_created} accounts |"
    assert expected in TRANSACTIONS


@promise("status-changes-once", "types-of-records")
def test_every_status_and_type_is_documented() -> None:
    assert names_in_first_column(section(TRANSACTIONS, "Status")) == list(TransactionStatus)
    types = section(TRANSACTIONS, "Types and details")
    later = types.partition("Reserved for later:")[2]
    named = {*names_in_first_column(types), *re.findall(r"`(\w+)`", later)}
    assert named == set(TransactionType)


def test_an_operations_names_are_documented_where_they_differ() -> None:
    skills: dict[str, str] = {}
    for skill in entry_points(group="solward.skills"):
        if skill.value.startswith("solward_plugins."):
            plugin = skill.load()
            if isinstance(plugin, OperationSkill):
                skills[plugin.operation] = skill.name
            elif inspect.ismodule(plugin):
                called = re.findall(r'operation_parameters\("(\w+)"\)', inspect.getsource(plugin))
                skills |= dict.fromkeys(called, skill.name)
    expected = []
    for name, operation in sorted(OPERATIONS.items()):
        found = (operation.type, operation.path, skills.get(name, "none"))
        same = (name, name.replace("_", "-"), name)
        cells = [
            "" if each == default else each if each == "none" else f"`{each}`"
            for each, default in zip(found, same, strict=True)
        ]
        if any(cells):
            expected.append([f"`{name}`", *cells])
    table = (DOCS / "reference/contract.md").read_text().partition("### Names of an operation")[2]
    rows = re.findall(r"^\| (`.+) \|$", table.partition("\n## ")[0], re.MULTILINE)
    assert [[cell.strip() for cell in row.split("|")] for row in rows] == expected


def test_every_method_of_the_localnet_is_documented_and_no_other() -> None:
    methods = section(LOCALNET, "Methods")
    table = "\n".join(line for line in methods.splitlines() if line.startswith("| "))
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(METHODS)
    assert re.findall(r"`(\w+Subscribe)`", methods) == list(SUBSCRIBE)


def test_the_demo_market_is_documented_as_it_opens() -> None:
    for pool in POOLS:
        sol, tokens = pool.sol // 10**9, pool.units // 10**pool.decimals
        row = (
            f"| `{pool.symbol}` | `{pool.mint}` | {pool.decimals} "
            f"| {tokens // sol:,} {pool.symbol} a SOL | {sol:,} SOL, {tokens:,} {pool.symbol} |"
        )
        assert row in LOCALNET
