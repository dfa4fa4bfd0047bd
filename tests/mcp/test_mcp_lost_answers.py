"""Calls of tools whose answer is not the service's: paid once, and the model is told."""

from __future__ import annotations

import httpx
import pytest
from tests.client.conftest import carrier, client
from tests.client.test_client_retries import FEE, FOREIGN, STRANGER
from tests.support.services import Break, Carrier, times

from solward.client import SolwardClient
from solward_mcp import tools
from solward_mcp.conversion import IDEMPOTENCY_META
from solward_mcp.scope import WalletScope

__all__ = ["carrier", "client"]

ARGUMENTS = {"to": STRANGER, "amount": 1}


@pytest.fixture
async def scope(client: SolwardClient, monkeypatch: pytest.MonkeyPatch) -> WalletScope:
    monkeypatch.setattr(tools, "_PAUSE_S", 0.01)
    made = await client.wallets.create("payer")
    await client.wallets.airdrop(made.id, amount=2)
    return WalletScope(client, made.id)


def gateway(status: int, content: bytes, count: int) -> Break:
    """A gateway that answers so in place of `count` payments' answers."""
    trouble = times(count, lambda _request: httpx.Response(status, content=content))
    return lambda request: trouble(request) if request.method == "POST" else None


@pytest.mark.parametrize(("status", "content"), FOREIGN)
async def test_an_answer_that_is_not_the_services_is_asked_for_again_under_its_key(
    scope: WalletScope, carrier: Carrier, status: int, content: bytes
) -> None:
    carrier.requests.clear()
    carrier.after = gateway(status, content, 2)
    done = await tools.call_tool(scope, "transfer", ARGUMENTS, None)
    assert done["isError"] is False, done
    keys = [each for each in carrier.keys if each is not None]
    assert (len(keys), len(set(keys))) == (3, 1)
    assert (await scope.client.wallets.balance((await scope.wallet(None)).id)).sol == 1 - FEE


async def test_where_no_answer_of_the_services_comes_the_model_has_warning_and_key(
    scope: WalletScope, carrier: Carrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_RESTART_S", 0)
    carrier.after = gateway(504, b"<html>", 100)
    lost = await tools.call_tool(scope, "transfer", ARGUMENTS, None)
    [key] = {each for each in carrier.keys if each is not None and each.startswith("generated-")}
    assert lost["isError"] is True
    text = lost["content"][0]["text"]
    assert f"idempotency key {key} tells" in text
    assert text.endswith("Look at the wallet's transactions before calling again")
    assert lost["_meta"] == {IDEMPOTENCY_META: key}
    carrier.after = lambda _request: None
    done = await tools.call_tool(scope, "transfer", ARGUMENTS, lost["_meta"])
    assert done["isError"] is False
    assert (await scope.client.wallets.balance((await scope.wallet(None)).id)).sol == 1 - FEE
