"""AgentDojo's banking tools as skills: what moves money is a payment of tokens by the engine.

Imports the installed `agentdojo`; tasks, attack, environment and checks are its own.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.functions_runtime import FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suite
from agentdojo.task_suite.task_suite import TaskSuite
from solders.keypair import Keypair
from tests.support.plugins import Shelf, skill_source

from solward.context import SkillContext

BENCHMARK = "v1.2.2"
DECIMALS = 6
# Not one of AgentDojo's: the bank's own run of an order on its day, by the same agent.
PAY_DUE = "pay_due_order"
# AgentDojo's tools that pay, or say what is paid later.
MONEY = {"send_money", "schedule_transaction", "update_scheduled_transaction"}

# Wallet id -> the bank that its skills work on.
BANKS: dict[str, Bank] = {}


@functools.cache
def suite() -> TaskSuite[Any]:
    """The banking suite in its newest version."""
    return get_suite(BENCHMARK, "banking")


class Directory:
    """Whose address an account number is: every known counterparty of the owner has one.

    Known are the counterparties of the untouched environment and those whom the owner's own tasks
    pay. A name that is no account number, as two tasks have it, is the counterparty whose earlier
    payment mentions it.
    """

    def __init__(self) -> None:
        clean = suite().load_and_inject_default_environment({})
        account = clean.bank_account
        numbers = {account.iban, "me"}
        entries = [*account.transactions, *account.scheduled_transactions]
        known = {each for entry in entries for each in (entry.sender, entry.recipient)} - numbers
        self.landlords = {
            entry.recipient
            for entry in account.scheduled_transactions
            if "rent" in entry.subject.lower()
        }
        self.names: dict[str, str] = {}
        for task in suite().user_tasks.values():
            for call in task.ground_truth(clean):
                recipient = call.args.get("recipient")
                if not isinstance(recipient, str):
                    continue
                said = [each for each in entries if recipient.lower() in each.subject.lower()]
                if said:
                    self.names[recipient] = said[0].recipient
                    continue
                known.add(recipient)
                if call.function == "update_scheduled_transaction":
                    self.landlords.add(recipient)
        self.addresses = {number: str(Keypair().pubkey()) for number in sorted(known)}

    def book(self) -> dict[str, list[str]]:
        """The owner's address book: everybody known, and the landlords among them."""
        return {
            "payees": sorted(self.addresses.values()),
            "landlords": sorted(self.addresses[number] for number in self.landlords),
        }


@dataclass
class Bank:
    """One run's environment; payments go through the engine, and only confirmed ones are in it.

    Attributes:
        strangers: account numbers that are nobody's the owner knows -> a fresh address each.
    """

    environment: Any
    runtime: FunctionsRuntime
    directory: Directory
    mint: str
    strangers: dict[str, str] = field(default_factory=dict)

    def address(self, recipient: str) -> str:
        """Where money for an account number goes."""
        number = self.directory.names.get(recipient, recipient)
        known = self.directory.addresses.get(number)
        return known or self.strangers.setdefault(number, str(Keypair().pubkey()))

    def tool(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Run AgentDojo's own function on the environment, and tell its result as JSON."""
        plain = {key: _plain(value) for key, value in arguments.items()}
        result, _ = self.runtime.run_function(self.environment, name, plain, raise_on_error=True)
        return tool_result_to_str(result, dump_fn=json.dumps)

    async def send_money(self, params: Mapping[str, Any], context: SkillContext) -> str:
        """Pay; the environment shows it once the ledger confirmed it."""
        await self._pay(params["recipient"], Decimal(params["amount"]), context)
        return self.tool("send_money", params)

    async def pay_due(self, params: Mapping[str, Any], context: SkillContext) -> str:
        """Pay a scheduled transaction as it stands in the environment, whoever wrote it there."""
        scheduled = self.environment.bank_account.scheduled_transactions
        order = next(each for each in scheduled if each.id == params["id"])
        return await self._pay(order.recipient, Decimal(str(order.amount)), context)

    async def _pay(self, recipient: str, amount: Decimal, context: SkillContext) -> str:
        record = await context.transfer_token(
            mint=self.mint, to=self.address(recipient), amount=amount
        )
        assert record.status == "confirmed", record.status
        return f"Paid {amount} to {recipient}"


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


async def run_tool(name: str, params: Mapping[str, Any], context: SkillContext) -> str:
    """The body of each skill."""
    bank = BANKS[context.wallet.id]
    if name == PAY_DUE:
        return await bank.pay_due(params, context)
    if name == "send_money":
        return await bank.send_money(params, context)
    return bank.tool(name, params)


def install_tools(shelf: Shelf) -> None:
    """The suite's tools as skills of one distribution, with AgentDojo's names and schemas."""
    shelf.install("banking-tools", dict(_tools()))


def _tools() -> Iterator[tuple[str, str]]:
    schemas = {tool.name: tool.parameters.model_json_schema() for tool in suite().tools}
    schemas[PAY_DUE] = {
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
    }
    for name, schema in schemas.items():
        pays = name in ("send_money", PAY_DUE)
        yield (
            name,
            skill_source(
                name,
                schema=repr(schema | {"additionalProperties": False}),
                body=f"return await run_tool({name!r}, params, context)",
                extra="from tests.agentdojo.bank import run_tool",
                effects="Effects.SPEND" if pays else "Effects.READ",
            ),
        )
