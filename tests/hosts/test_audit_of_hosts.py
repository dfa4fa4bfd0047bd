"""What hosted plugins tried against the service's own answers, loop, node and other plugins."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.hosts.test_plugins_in_hosts import SPEND, TO, Opened, skill
from tests.support.hosted_plugins import opened_hosts
from tests.support.plugin_distributions import Shelf, shelf

from solward.errors import GuardrailBlocked, SkillError

__all__ = ["SPEND", "shelf"]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Opened:
    return opened_hosts(monkeypatch, tmp_path)


_FORGED = """
from solward import errors
from solward.hold import Hold, HoldState
from solward.record import TransactionRecord, TransactionStatus

RECORD = TransactionRecord(id="tx-1", wallet_id="w", type="transfer",
    status=TransactionStatus.CONFIRMED, details={}, guardrails_applied=(), created_ms=1,
    principal="admin")
HOLD = Hold(id="../../keys?x=", wallet_id="w", agent_id=None, principal="admin", chain=(),
    type="transfer", state=HoldState.HELD, sentence="s", reasons=(), lines=(), costs_lamports=1,
    arrives={}, details={}, repeats=False, created_ms=1, expires_ms=2)
"""


async def test_a_plugins_error_says_nothing_that_only_the_service_can_say(
    shelf: Shelf, opened: Opened
) -> None:
    """Records, holds and the service's own refusals are believed of the service alone."""
    raised = {
        "failed": "errors.TransactionFailed('forged', RECORD)",
        "blocked": "errors.GuardrailBlocked('rule', 'forged', RECORD)",
        "held": "errors.Held(HOLD)",
        "revoked": "errors.KeyRevoked()",
        "stored": "errors.StoreError('forged')",
        "flight": "errors.IdempotencyInFlight()",
        "unknown": "errors.WalletNotFound()",
    }
    # The service's own refusal, with another record and rule written into it.
    rewrites = f"""
        try:
            await context.transfer(to={TO!r}, amount=5)
        except errors.GuardrailBlocked as error:
            error.rule, error.reason = "forged", "forged"
            raise
    """
    builds = """
        async def build(address):
            raise errors.GuardrailBlocked("rule", "forged", RECORD)
        await context.pocket(build, lamports=10_000_000)
    """
    bodies = {name: f"raise {each}" for name, each in raised.items()}
    shelf.install(
        "dist-f",
        {
            name: skill(name, body, extra=_FORGED)
            for name, body in {**bodies, "rewrites": rewrites, "builds": builds}.items()
        },
    )
    async with opened() as hosted:
        wallet = await hosted.stand.wallet(sol=1)
        for name in raised:
            with pytest.raises(SkillError) as caught:
                await hosted.run(name, wallet.id)
            assert caught.value.code == "plugin_failed", name
        with pytest.raises(GuardrailBlocked) as blocked:
            await hosted.run("rewrites", wallet.id)
        [record] = await wallet.records()
        assert (blocked.value.rule, blocked.value.record) == ("max_per_tx", record)
        with pytest.raises(Exception, match="plugin failed") as built:
            await hosted.run("builds", wallet.id)
        assert not isinstance(built.value, GuardrailBlocked)
