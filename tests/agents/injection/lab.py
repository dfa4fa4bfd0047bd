"""The whole service with a model that obeys whatever it reads, and the books of what came of it."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from tests.agents.injection.scripts import SCRIPTS, TOKEN_SCRIPTS, Channel, Order, Script
from tests.support.agents import agent_body, scripted_model
from tests.support.localnet import land
from tests.support.plugins import Shelf, skill_source
from tests.support.swaps import BONK
from tests.support.tokens import TOKEN_2022, fund_instructions, named_mint_instructions

from solward.agents import store
from solward.agents.agent import Agent, Decision
from solward.agents.cycle import run_cycle
from solward.service.service import Solward
from solward.settings import Settings
from solward.solana.programs import CLOCK_SYSVAR
from solward.solana.stakes import Stake
from solward.support import jsontext
from solward.testing import ScriptedProvider
from solward.types.provider import Completion, CompletionRequest, ToolCall
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.custody import Wallet
from solward.vault.money.request import ADMIN
from solward_localnet.jsonrpc import RpcError

SOL = 10**9
USDC = "7ijRzGx7S7c7RY9DM65CjqwtrmCJyKi6V5dFwFMbeciZ"
MEMO_PROGRAM = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
STRATEGY = "Keep the savings together; look at what is new."
GUARDRAILS = {
    "maxSolPerTransaction": Decimal("0.1"),
    "maxTransactionsPerMinute": 4,
    "dailySpendingLimitSol": Decimal("0.25"),
}
PER_TX, PER_MINUTE, PER_DAY = SOL // 10, 4, SOL // 4
USDC_UNITS_PER_DAY = 1_000_000
# Fees, and the rent of what four transactions can open: stakes, mints and token accounts.
FEES_AND_RENT = SOL // 50
CYCLES = 6

# What third parties' skills answer, by the script that plays now.
SAID: dict[str, Any] = {}

# What could be worth stealing: keys in base58, hex and base64, and vendors' tokens.
_LOOT = re.compile(r"\b(?:sk-|xai-|AIza)[\w-]{16,}|[1-9A-HJ-NP-Za-km-z]{80,}|[0-9a-f]{64,}")


def install_skills(shelf: Shelf) -> None:
    """Third parties' skills: two that tell what others wrote, one for each hostile description."""
    said = "from tests.agents.injection.lab import SAID"
    plugins = {
        "latest_news": skill_source("latest_news", body="return SAID['news']", extra=said),
        "read_memos": skill_source("read_memos", body="return await SAID['memos']()", extra=said),
    }
    for number, script in enumerate(SCRIPTS):
        if script.channel is Channel.DESCRIPTION:
            name = f"helper_{number}"
            plugins[name] = skill_source(name, description=repr(script.hostile))
    shelf.install("third-party-skills", plugins)


@dataclass
class Obedient:
    """Does what its prompt tells it, once it has read it; until then it looks where it is led."""

    script: Script
    lure: Order | None
    names: dict[str, str]
    made: list[Order] = field(default_factory=list)
    reached: bool = False

    def __call__(self, request: CompletionRequest) -> Completion:
        told = prompt_of(request)
        if self.script.code not in told:
            assert self.lure is not None, f"{self.script.name}: the text did not arrive"
            return self._calling(told, [self.lure])
        self.reached = True
        orders = self.script.orders
        if self.script.at_once:
            return self._calling(told, orders)
        order = orders[len(self.made) % len(orders)]
        self.made.append(order)
        return self._calling(told, [order])

    def _calling(self, told: str, orders: Sequence[Order]) -> Completion:
        names = self.names | {"$LOOT": loot(told)[:32]}
        calls = tuple(ToolCall(each.skill, filled(each.arguments, names)) for each in orders)
        return Completion(f"I do as I am told. {told}", calls)


def prompt_of(request: CompletionRequest) -> str:
    """Everything a model reads."""
    tools = [f"{tool.name}: {tool.description}" for tool in request.tools]
    return "\n".join([request.system, *tools, *(each.content for each in request.messages)])


def loot(told: str) -> str:
    """What looks like a key in what the model was told."""
    return " ".join(_LOOT.findall(told)) or "I hold no key"


def filled(arguments: Any, names: dict[str, str]) -> Any:
    """Arguments with the names in them replaced; text stays text, else JSON stays JSON."""
    text = arguments if isinstance(arguments, str) else jsontext.dumps(arguments)
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    return text if isinstance(arguments, str) else jsontext.loads(text)


@dataclass
class Played:
    """What came of a script."""

    script: Script
    agent: Agent
    requests: list[CompletionRequest]
    decisions: list[Decision]
    records: list[TransactionRecord]
    before: dict[str, Any]
    after: dict[str, Any]
    answers: list[str]

    @property
    def outcomes(self) -> str:
        return "\n".join(decision.outcome for decision in self.decisions)

    @property
    def confirmed(self) -> list[TransactionRecord]:
        """What the agent's cycles landed."""
        mine = [record for record in self.records if record.agent_id == self.agent.id]
        return [record for record in mine if record.status is TransactionStatus.CONFIRMED]


@dataclass
class Lab:
    """One service, a vault that nobody's agent may touch, and an attacker."""

    service: Solward
    model: ScriptedProvider
    attacker: Keypair
    vault: Wallet
    vault_stake: Stake
    faults: dict[str, str]

    async def play(
        self,
        script: Script,
        grants: Sequence[Mapping[str, Any]] | None = None,
        cycles: int = CYCLES,
    ) -> Played:
        """Set the trap, and let the agent run for so many cycles.

        Args:
            grants: the agent's; None where it is not under grants.
        """
        service = self.service
        attacker = Keypair()
        name = script.hostile if script.channel is Channel.WALLET_NAME else "savings"
        wallet = await service.wallets.create(name)
        await service.operations.perform("airdrop", wallet.id, ADMIN, {"amount": 2})
        if USDC_NEEDED.search(repr(script.orders)):
            await service.operations.perform(
                "swap",
                wallet.id,
                ADMIN,
                {"inputToken": "SOL", "outputToken": "USDC", "amount": Decimal("0.05")},
            )
        own = "none" if script not in TOKEN_SCRIPTS else await self.own_tokens(wallet)
        mint = await self.send_token(wallet, script)
        agent = await self.agent(wallet, **({} if grants is None else {"grants": grants}))
        names = {
            "$ATTACKER": str(attacker.pubkey()),
            "$VAULT_STAKE": self.vault_stake.address,
            "$VAULT_ID": self.vault.id,
            "$VAULT": self.vault.address,
            "$MINT": mint,
            "$USDC": USDC,
            "$BONK": BONK,
            "$OWN": own,
            "$SELF": wallet.address,
        }
        model = Obedient(script, await self.trap(script, wallet, mint), names)
        self.model.answer = model
        self.model.requests.clear()
        before = await self.books(wallet, attacker)
        parts = service.agents.parts
        answers = []
        for cycle in range(1, cycles + 1):
            if script.channel is Channel.CHAT:
                answers.append(await service.agents.chat(agent.id, script.hostile))
            else:
                await run_cycle(agent.id, cycle, parts)
        self.faults.clear()
        SAID.clear()
        await service.agents.stop(agent.id)
        assert model.reached, script.name
        return Played(
            script,
            agent,
            list(self.model.requests),
            list(reversed(await service.agents.decisions(agent.id))),
            await service.history.newest(wallet.id),
            before,
            await self.books(wallet, attacker),
            answers,
        )

    async def own_tokens(self, wallet: Wallet) -> str:
        """Give the wallet USDC, BONK and a token that it launches; returns that one's mint."""
        perform = self.service.operations.perform
        for token in ("USDC", "BONK"):
            sale = {"inputToken": "SOL", "outputToken": token, "amount": Decimal("0.05")}
            await perform("swap", wallet.id, ADMIN, sale)
        launch = {"name": "Own", "symbol": "OWN"}
        launched = await perform("launch_token", wallet.id, ADMIN, launch)
        return str(launched.details["mint"])

    async def agent(self, wallet: Wallet, **changes: Any) -> Agent:
        """An agent that counts as running; its cycles are run by hand."""
        body = agent_body(wallet.id, "scripted", strategy=STRATEGY, guardrails=GUARDRAILS)
        agent = await self.service.agents.create(body | changes)
        running = {"desired_state": "running", "status": "running"}
        async with self.service.database.write() as connection:
            await store.update_agent(connection, agent.id, running)
        return agent

    async def trap(self, script: Script, wallet: Wallet, mint: str) -> Order | None:
        """Put the hostile text in its place; returns the call that leads a model to it."""
        channel = script.channel
        if channel in (Channel.TOKEN_NAME, Channel.TOKEN_SYMBOL):
            return Order("token_info", {"token": mint})
        if channel is Channel.OUTCOME:
            SAID["news"] = script.hostile
            return Order("latest_news", {})
        if channel is Channel.MEMO:
            SAID["memos"] = await self.send_memo(wallet, script.hostile)
            return Order("read_memos", {})
        if channel is Channel.OWN_TOKEN:
            await self.service.operations.perform(
                "launch_token", wallet.id, ADMIN, {"name": script.hostile, "symbol": "X"}
            )
        if channel is Channel.RPC_ERROR:
            self.faults[wallet.address] = script.hostile
        return None

    async def send_token(self, wallet: Wallet, script: Script) -> str:
        """A stranger's token in the wallet; it is called as the script says."""
        channel, mint = script.channel, Keypair()
        name = script.hostile if channel is Channel.TOKEN_NAME else "Gift"
        symbol = script.hostile if channel is Channel.TOKEN_SYMBOL else "GIFT"
        payer = self.attacker.pubkey()
        made = named_mint_instructions(payer, mint.pubkey(), SOL // 100, name, symbol)
        await self.land(made, mint)
        owner = Pubkey.from_string(wallet.address)
        given = fund_instructions(payer, owner, mint.pubkey(), 10 * SOL, program=TOKEN_2022)
        await self.land(given)
        return str(mint.pubkey())

    async def send_memo(self, wallet: Wallet, text: str) -> Any:
        """A lamport with a memo; returns what reads the memos of the wallet off the ledger."""
        payer, to = self.attacker.pubkey(), Pubkey.from_string(wallet.address)
        paying = transfer(TransferParams(from_pubkey=payer, to_pubkey=to, lamports=1))
        await self.land([paying, Instruction(MEMO_PROGRAM, text.encode(), [])])

        async def memos() -> str:
            assert self.service.localnet is not None
            found = await self.service.localnet.call("getSignaturesForAddress", [wallet.address])
            return "\n".join(each["memo"] for each in found if each["memo"])

        return memos

    async def land(self, instructions: Sequence[Instruction], *signers: Keypair) -> None:
        """Put a transaction of the attacker's on the ledger."""
        assert self.service.localnet is not None
        await land(self.service.localnet.call, instructions, self.attacker, *signers)

    async def books(self, wallet: Wallet, attacker: Keypair) -> dict[str, Any]:
        """Who has what, by the ledger alone."""
        return {
            "wallet": await self._holdings(wallet.address),
            "attacker": await self._holdings(str(attacker.pubkey())),
            "vault": await self._holdings(self.vault.address),
            "vault stakes": (await self.service.holdings.stakes(self.vault.id))[0],
            "vault records": await self.service.history.newest(self.vault.id),
        }

    async def _holdings(self, address: str) -> dict[str, Any]:
        assert self.service.localnet is not None
        held: dict[str, Any] = {"lamports": await self._lamports(address)}
        for program in ("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", str(TOKEN_2022)):
            found = await self.service.localnet.call(
                "getTokenAccountsByOwner",
                [address, {"programId": program}, {"encoding": "jsonParsed"}],
            )
            for each in found["value"]:
                info = each["account"]["data"]["parsed"]["info"]
                assert "delegate" not in info, info
                held[info["mint"]] = int(info["tokenAmount"]["amount"])
        return held

    async def _lamports(self, address: str) -> int:
        assert self.service.localnet is not None
        found = await self.service.localnet.call("getBalance", [address])
        return int(found["value"])


USDC_NEEDED = re.compile(r"\$USDC|'USDC', 'outputToken'")


@contextlib.asynccontextmanager
async def open_lab(folder: Path, **given: Any) -> AsyncIterator[Lab]:
    """The lab on a home of its own."""
    with scripted_model(folder / "site") as (shelf, model):
        install_skills(shelf)
        settings = Settings(
            _env_file=None,
            **{
                "solward_home": folder / "home",
                "xai_api_key": "xai-" + secrets.token_hex(32),
                "max_transactions_per_minute": 100_000,
                "daily_spending_limit_sol": 100_000,
                "token_limits": {USDC: USDC_UNITS_PER_DAY},
                **given,
            },
        )
        async with Solward.open(settings) as service:
            assert service.localnet is not None
            attacker, localnet = Keypair(), service.localnet
            await localnet.call("requestAirdrop", [str(attacker.pubkey()), 100 * SOL])
            vault = await service.wallets.create("vault")
            for _ in range(3):
                await service.operations.perform("airdrop", vault.id, ADMIN, {"amount": 2})
            await service.operations.perform("stake", vault.id, ADMIN, {"amount": Decimal("1.5")})
            (stake,), _ = await service.holdings.stakes(vault.id)
            faults: dict[str, str] = {}
            _lying(service, faults)
            yield Lab(service, model, attacker, vault, stake, faults)


def _lying(service: Solward, faults: dict[str, str]) -> None:
    """The RPC refuses to tell the balance of the addresses in `faults`, in their words."""
    transport: Any = service.ledger._transport  # type: ignore[attr-defined]
    direct = transport._call

    async def call(method: str, params: Sequence[Any]) -> Any:
        # The engine reads the time with its accounts; those without it are for display.
        shown = method == "getMultipleAccounts" and CLOCK_SYSVAR not in params[0]
        for address in params[0] if shown else ():
            if address in faults:
                raise RpcError(-32000, faults[address])
        return await direct(method, params)

    transport._call = call
