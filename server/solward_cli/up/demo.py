"""The demo: a wallet and a running agent that needs no model, no key and no network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from solward.agents.agent import Agent, AgentStatus

if TYPE_CHECKING:
    from solward.service import Solward
    from solward.vault.wallets import Wallet

DEMO_AGENT = "demo-agent"
PROVIDER = "rules"
LOOP_INTERVAL_MS = 5_000

_WALLET_TAG = "solward-demo"
_SAVINGS_TAG = "solward-demo-savings"

# A first minute that tells a story in the transaction list, then a routine. Within the default
# limits for days, and with room for a visitor and for what waits for one: never more than 4
# transactions a minute (limit 5), so that the held transfer fits whenever it is approved; the
# largest is the stake's 1.1 SOL (limit 2, least 1.00228288); of SOL 1.45 once and then 0.002 a
# minute, 2.88 a day, so at most 4.33 in 24 hours (limit 10); and of fees and rent 0.0094 once and
# then 0.0216 a day, so at most 0.031 in 24 hours (limit 0.05), where a swap under way holds 0.002.
# What is refused and what is held is asked for once, in one cycle: a decision ends it for good.
STRATEGY = """\
# Rules of the demo provider, which is not a language model. The first that matches is taken.
when balance.SOL < 0.5 do airdrop amount=2
when cycle == 2 do launch_token name="Demo Token" symbol=DEMO
when cycle == 3 do transfer to={savings} amount=50
when cycle == 4 do transfer to={savings} amount=0.25
when cycle == 5 do swap inputToken=SOL outputToken=USDC amount=0.05
when cycle == 6 do stake_sol amount=1.1
when cycle == 14 do wrap_sol amount=0.05
every 12 cycles when cycle > 14 do swap inputToken=SOL outputToken=USDC amount=0.001
every 8 cycles when cycle > 14 do transfer to={savings} amount=0.001
always do wait
"""

# No more than the default limits allow, so that those refuse what is too much; without a grant for
# tokens, so that it can send none.
GRANTS: tuple[Mapping[str, Any], ...] = (
    {
        "may": ["launch", "swap", "stake", "wrap"],
        "assets": {"SOL": {"perTx": "2", "per": {"24h": "10"}}},
        "costs": "0.05",
    },
    {
        "may": ["transfer", "fund"],
        "assets": {"SOL": {"perTx": "1", "per": {"24h": "4"}, "hold": "0.1"}},
        "to": ["own"],
    },
)


@dataclass(frozen=True, slots=True)
class DemoSeed:
    """What the demo consists of.

    Attributes:
        wallet: the agent's wallet.
        savings: the wallet it sends small amounts to.
        agent: driven by the rule-based provider, which is not a language model.
    """

    wallet: Wallet
    savings: Wallet
    agent: Agent


async def seed_demo(service: Solward) -> DemoSeed:
    """Make the demo's wallets and its agent where they are missing, and start a new agent.

    Idempotent over restarts: an agent that was stopped stays stopped.

    Raises:
        InvalidRequest: the `rules` provider is not loaded (the service runs without demo).
    """
    wallet = await _wallet(service, "demo", _WALLET_TAG)
    savings = await _wallet(service, "demo-savings", _SAVINGS_TAG)
    agent = await _agent(service, wallet, savings)
    if agent.status is AgentStatus.IDLE:
        agent = await service.agents.start(agent.id)
    return DemoSeed(wallet, savings, agent)


async def _wallet(service: Solward, name: str, tag: str) -> Wallet:
    for wallet in await service.wallets.list():
        if tag in wallet.tags:
            return wallet
    return await service.wallets.create(name, (tag,))


async def _agent(service: Solward, wallet: Wallet, savings: Wallet) -> Agent:
    for agent in await service.agents.list():
        if (agent.name, agent.wallet_id, agent.llm_provider) == (DEMO_AGENT, wallet.id, PROVIDER):
            return agent
    return await service.agents.create(
        {
            "name": DEMO_AGENT,
            "walletId": wallet.id,
            "llmProvider": PROVIDER,
            "llmModel": PROVIDER,
            "strategy": STRATEGY.format(savings=savings.address),
            "loopIntervalMs": LOOP_INTERVAL_MS,
            "grants": [{"who": f"agent:{DEMO_AGENT}", **grant} for grant in GRANTS],
        }
    )
