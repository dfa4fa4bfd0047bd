"""Every error is `{"error": text}` with its status, and a bug tells nothing."""

from __future__ import annotations

import inspect

import pytest
from tests.promises import promise
from tests.support.services import SECRET, Api

from solward.types import errors
from solward.types.errors import LedgerUnavailable, SkillError, SolwardError
from solward_server.http.errors import status_of

STATUS = {
    "InvalidRequest": 400,
    "NotEnough": 400,
    "PaymentRefused": 400,
    "NotFound": 404,
    "WalletNotFound": 404,
    "AgentNotFound": 404,
    "KeyRevoked": 401,
    "IdempotencyMismatch": 422,
    "IdempotencyInFlight": 409,
    "Held": 202,
    "HoldDecided": 409,
    "MayNotDecide": 403,
    "PolicyChanged": 409,
    "ScheduleBusy": 409,
    "SkillError": 400,
    "SkillNotFound": 404,
    "SkillTimeout": 500,
    "TokenBudgetReached": 429,
    "DecisionRefused": 401,
}


@promise("error-one-field")
def test_every_error_has_the_status_of_the_table() -> None:
    kinds = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, SolwardError)
    }
    assert set(STATUS) < set(kinds)
    for name, kind in kinds.items():
        made = kind.__new__(kind)
        if isinstance(made, SkillError):
            made.code = "any"
        assert status_of(made) == STATUS.get(name, 500), name
    assert status_of(SkillError("internal_error", "x")) == 500


@promise("errors-are-json")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", ["/nowhere", "/wallets/", "//wallets", "/keys/a/b"])
async def test_an_unknown_route_is_404(shared_api: Api, path: str) -> None:
    answer = await shared_api.get(path)
    assert (answer.status, answer.error) == (404, "Not found")


@promise("errors-are-json")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_wrong_method_is_405_and_names_the_right_ones(shared_api: Api) -> None:
    answer = await shared_api.call("PUT", "/wallets", token=None)
    assert (answer.status, answer.error) == (405, "Method not allowed")
    assert "GET" in answer.headers["Allow"]
    assert "POST" in answer.headers["Allow"]


@promise("bug-shows-no-text")
async def test_a_bug_is_500_without_its_text(
    api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken() -> None:
        raise RuntimeError(f"the secret is {SECRET}")

    monkeypatch.setattr(api.service.agents, "list", broken)
    answer = await api.get("/agents")
    assert (answer.status, answer.error) == (500, "Internal error")


async def test_a_ledger_that_is_away_is_500_with_its_reason(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_wallet: str) -> None:
        raise LedgerUnavailable("The ledger did not answer")

    wallet = await api.wallet()
    monkeypatch.setattr(
        type(api.service.holdings), "balances", lambda _self, wallet, **_: away(wallet)
    )
    answer = await api.get(f"/wallets/{wallet}/balance")
    assert (answer.status, answer.error) == (500, "The ledger did not answer")
