"""An agent is told that a person decides, and sees what waits; nothing makes it ask again."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

from tests.support.database import hold_row

from solward.agents.act import act
from solward.agents.agent import Agent, DesiredState
from solward.agents.observe import AgentSnapshot, observe
from solward.agents.observe import Observation as SeenWallet
from solward.resources.agents import AgentStatus, Observed
from solward.resources.declare import answer_schema
from solward.solana.balances import Balances
from solward.support.clock import iso
from solward.types.errors import Held
from solward.types.provider import ToolCall
from solward.types.record import Hold, HoldState
from solward.vault.guardrails.rules import ScopeLimits

AGENT = Agent(
    id="a1", name="Ada", wallet_id="w1", llm_provider="rules", llm_model="rules", strategy="",
    guardrails=ScopeLimits(1, 1, 1), loop_interval_ms=1_000, status=AgentStatus.RUNNING,
    desired_state=DesiredState.RUNNING, created_ms=0,
)  # fmt: skip
HOLD = hold_row("w1", 1_800_000_000_000).hold


async def outcome(hold: Hold) -> str:
    async def run(*_: Any) -> str:
        raise Held(hold)

    call = ToolCall("transfer", {"to": "x", "amount": 1})
    done = await act(AGENT, 1, call, run_skill=run, spends=True)
    assert done.action == 'transfer({"to":"x","amount":1})'
    return done.outcome


async def test_a_held_action_is_not_to_be_repeated() -> None:
    said = await outcome(HOLD)
    assert HOLD.sentence in said
    assert "Nothing was sent. Do not repeat it" in said
    assert f"a person may approve it until {iso(HOLD.expires_ms)}" in said
    assert "After approval, it is carried out" in said


async def test_what_only_the_agent_can_make_again_it_is_told_to_ask_for_again() -> None:
    assert "After approval, ask for it again" in await outcome(replace(HOLD, repeats=True))
    approved = await outcome(replace(HOLD, state=HoldState.APPROVED))
    assert "a person has approved it, and it is not carried out yet" in approved


@dataclass
class Wallet:
    name: str = "till"
    address: str = "address"


@dataclass
class Sources:
    waiting: tuple[Hold, ...]

    async def wallet(self, _wallet_id: str) -> Wallet:
        return Wallet()

    async def balances(self, _wallet_id: str, _mark: Hashable) -> Balances:
        return Balances(0, ())

    async def stored(self, agent: Agent) -> AgentSnapshot:
        assert agent is AGENT
        return AgentSnapshot(held=self.waiting)


async def seen_with(waiting: tuple[Hold, ...]) -> SeenWallet:
    sources = Sources(waiting)
    return await observe(
        AGENT,
        1,
        0,
        wallet=sources.wallet,
        balances=sources.balances,
        stored=sources.stored,  # type: ignore[arg-type]
    )


async def test_it_observes_what_waits_and_nothing_where_nothing_does() -> None:
    seen = await seen_with((HOLD,))
    assert seen.body["heldTransactions"] == [
        {
            "id": HOLD.id,
            "state": "held",
            "type": "transfer",
            "sentence": HOLD.sentence,
            "expiresAt": iso(HOLD.expires_ms),
        }
    ]
    described = answer_schema(Observed)["properties"]
    assert seen.body.keys() <= described.keys()
    held = described["heldTransactions"]["items"]["properties"]
    assert seen.body["heldTransactions"][0].keys() == held.keys()
    assert "heldTransactions" not in (await seen_with(())).body
