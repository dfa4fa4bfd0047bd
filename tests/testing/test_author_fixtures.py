"""The fixtures a plugin author's tests get, used as an author uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from tests.support.agents import agent_body

from solward import (
    Completion,
    CompletionRequest,
    GuardrailBlocked,
    InvalidRequest,
    ProviderContext,
    ProviderError,
    SkillContext,
    SkillError,
    SkillSpec,
    ToolCall,
    hookimpl,
)
from solward.testing import ScriptedProvider, Stand, TestWallet, open_stand
from solward_localnet.node import Localnet

STRANGER = "11111111111111111111111111111112"


async def test_the_wallet_holds_sol_on_a_real_ledger(
    wallet: TestWallet, localnet: Localnet
) -> None:
    assert await wallet.lamports() == 10 * 10**9
    answer = await localnet.call("getBalance", [wallet.address])
    assert answer["value"] == 10 * 10**9


async def test_a_skill_runs_through_engine_and_guardrails(wallet: TestWallet) -> None:
    said = await wallet.run("transfer", to=STRANGER, amount=1)
    assert said.startswith(f"Sent 1 SOL to {STRANGER}.")
    with pytest.raises(GuardrailBlocked, match="max_per_tx"):
        await wallet.run("transfer", to=STRANGER, amount=Decimal("2.000000001"))
    assert [record.status for record in await wallet.records()] == ["blocked", "confirmed"]


async def test_a_context_is_a_skills_own(skill_context: Callable[..., SkillContext]) -> None:
    assert (await skill_context("transfer").airdrop(amount=1)).status == "confirmed"
    with pytest.raises(SkillError, match="declares READ"):
        await skill_context("check_balance").airdrop(amount=1)


class Who:
    """A plugin that is no module and is installed nowhere."""

    @staticmethod
    @hookimpl
    def skill_spec() -> SkillSpec:
        closed = {"type": "object", "properties": {}, "additionalProperties": False}
        return SkillSpec("who", "Tells whose wallet it is.", closed)

    @staticmethod
    @hookimpl
    async def skill_execute(context: SkillContext) -> str:
        return f"I am {context.wallet.name}."


async def test_a_plugin_runs_without_being_installed(wallet: TestWallet) -> None:
    assert await wallet.run(Who) == "I am test-wallet."


async def test_what_is_no_skill_is_refused(wallet: TestWallet) -> None:
    with pytest.raises(InvalidRequest, match="'openai' is a provider, not a skill"):
        await wallet.run("openai")
    with pytest.raises(InvalidRequest, match="'no_such' is neither an installed plugin's name"):
        await wallet.run("no_such")
    with pytest.raises(InvalidRequest, match="implements no hook"):
        await wallet.run(object())


async def test_the_scripted_provider_drives_an_agent(
    solward_stand: Stand, wallet: TestWallet, scripted_provider: ScriptedProvider
) -> None:
    solward_stand.install(Who)
    scripted_provider.say(
        Completion("I ask who I am.", (ToolCall("who", {}),)), ProviderError("The vendor is away")
    )
    agents = solward_stand.service.agents
    agent = await agents.create(
        agent_body(
            wallet.id,
            "scripted",
            name="a",
            llmModel="scripted-1",
            strategy="Be.",
            loopIntervalMs=60_000,
        )
    )
    await agents.start(agent.id)
    async with asyncio.timeout(20):
        while not await agents.decisions(agent.id):
            await asyncio.sleep(0.01)
    assert "who" in {tool.name for tool in scripted_provider.requests[0].tools}
    await agents.stop(agent.id)


async def test_the_script_is_followed_and_then_the_answer(
    provider_request: CompletionRequest,
) -> None:
    provider = ScriptedProvider()
    provider.say(Completion("One."), ProviderError("gone"))
    assert (await provider.complete(provider_request, ProviderContext("k"))).text == "One."
    with pytest.raises(ProviderError, match="gone"):
        await provider.complete(provider_request, ProviderContext())
    assert (await provider.complete(provider_request, ProviderContext())).text == "Waiting."
    assert [lent.secret for lent in provider.lent] == ["k", None, None]
    assert provider.requests == [provider_request] * 3


async def test_the_environment_of_an_operator_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SOLANA_RPC_URL": "http://127.0.0.1:1",
        "SOLANA_NETWORK": "mainnet-beta",
        "DATABASE_URL": "postgresql://127.0.0.1:1/books",
        "KEYSTORE_KEY_FILE": "/nonexistent/key",
        "SOLWARD_HOME": "/nonexistent",
        "SOLWARD_PLUGINS": "nothing",
        "MAX_SOL_PER_TRANSACTION": "0.1",
        "TOKEN_LIMITS": "not=valid",
        "API_SECRET": "the operator's own",
    }.items():
        monkeypatch.setenv(name, value)
    async with open_stand(tmp_path / "home") as stand:
        assert stand.service.network == "localnet"
        assert stand.service.settings.development_secret
        wallet = await stand.wallet()
        assert "Sent 2 SOL" in await wallet.run("transfer", to=STRANGER, amount=2)
