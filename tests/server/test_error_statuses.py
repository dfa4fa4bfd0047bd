"""Each kind of error by real requests, under both values of `ERROR_STATUS`.

The document of each service is compared with every answer by `Api.call`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
import pytest_asyncio
from tests.promises import promise
from tests.support import rpc as rpc_nodes
from tests.support.grants import grant, limit
from tests.support.rpc import RpcNode
from tests.support.services import STRANGER, Answer, Api, serving_api

from solward.operations.policies.changes import replace_set
from solward.support.durations import HOUR_MS
from solward.types import errors
from solward.types.errors import SkillError, SolwardError, TransactionError
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.grants.model import Window
from solward.vault.money.outcomes import refusal
from solward_localnet.market import genesis_accounts
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions
from solward_server.http.errors import status_of

Statuses = Literal["contract", "semantic"]
BOTH: tuple[Statuses, ...] = ("contract", "semantic")
CONTRACT = "Solward-Contract-Status"
FAILURE = TransactionRecord(
    "r", "w", "transfer", TransactionStatus.FAILED, {}, (), created_ms=1, principal="admin"
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True, slots=True)
class Served:
    """A service on a node whose calls can be made to fail."""

    api: Api
    node: RpcNode
    statuses: Statuses

    async def transfer(self, amount: float, **options: Any) -> Answer:
        """A transfer from a new wallet with 1 SOL."""
        return await self.pay(await self.api.wallet(1), amount, **options)

    async def pay(self, wallet: str, amount: float, path: str = "transfer", **more: Any) -> Answer:
        body = {"to": STRANGER, "amount": amount}
        return await self.api.post(f"/wallets/{wallet}/{path}", body, **more)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=BOTH)
async def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Served]:
    async with AsyncExitStack() as stack:
        localnet = await Localnet.open(None, LocalnetOptions(genesis=genesis_accounts))
        stack.push_async_callback(localnet.close)
        nodes = rpc_nodes.listening(rpc_nodes.answers_of(localnet))
        (node,) = await stack.enter_async_context(nodes)
        serving = serving_api(
            tmp_path_factory.mktemp("service") / "home",
            error_status=request.param,
            solana_rpc_url=node.url,
            solana_network="localnet",
            max_transactions_per_minute=2,
        )
        yield Served(await stack.enter_async_context(serving), node, request.param)


async def blocked(served: Served) -> Answer:
    return await served.transfer(5)


async def skill_blocked(served: Served) -> Answer:
    return await served.transfer(5, path="skills/transfer")


async def without_grant(served: Served) -> Answer:
    token, _ = await served.api.key(grants=[])
    return await served.transfer(0.1, token=token)


async def rate(served: Served) -> Answer:
    wallet = await served.api.wallet(1)
    for _ in range(2):
        assert (await served.pay(wallet, 0.1)).status == 200
    return await served.pay(wallet, 0.1)


async def rate_of_a_grant(served: Served) -> Answer:
    wallet = await served.api.wallet(1)
    token, key = await served.api.key()
    who = f"key:{key}"
    once = grant(who, rates=(Window(HOUR_MS, 1),), SOL=limit("SOL", 10**9))
    await replace_set(served.api.service.database, who, [once])
    assert (await served.pay(wallet, 0.1, token=token)).status == 200
    return await served.pay(wallet, 0.1, token=token)


async def too_little(served: Served) -> Answer:
    return await served.transfer(1.5)


async def no_fee(served: Served) -> Answer:
    return await served.pay(await served.api.wallet(), 0.1)


async def too_few_tokens(served: Served, path: str = "burn") -> Answer:
    wallet = await served.api.wallet(1)
    body = {"name": "Coin", "symbol": "CN", "initialSupply": 5}
    mint = (await served.api.post(f"/wallets/{wallet}/launch-token", body)).json["mint"]
    return await served.api.post(f"/wallets/{wallet}/{path}", {"mint": mint, "amount": 6})


async def no_tokens(served: Served) -> Answer:
    wallet = await served.api.wallet(1)
    body = {"mint": "USDC", "amount": 1, "to": STRANGER}
    return await served.api.post(f"/wallets/{wallet}/token-transfer", body)


async def skill_of_too_few_tokens(served: Served) -> Answer:
    return await too_few_tokens(served, "skills/burn_tokens")


async def rejected(served: Served) -> Answer:
    wallet = await served.api.wallet(1)
    served.node.faults["simulateTransaction"] = -32602
    try:
        return await served.pay(wallet, 0.1)
    finally:
        served.node.faults.clear()


async def faucet_rejects(served: Served) -> Answer:
    wallet = await served.api.wallet()
    served.node.faults["requestAirdrop"] = -32602
    try:
        return await served.api.post(f"/wallets/{wallet}/airdrop", {})
    finally:
        served.node.faults.clear()


async def away(served: Served) -> Answer:
    wallet = await served.api.wallet(1)
    served.node.faults["simulateTransaction"] = 403
    try:
        return await served.pay(wallet, 0.1)
    finally:
        served.node.faults.clear()


async def away_while_planning(served: Served) -> Answer:
    wallet = await served.api.wallet(1)
    served.node.faults["*"] = 403
    try:
        body = {"mint": STRANGER, "amount": 1}
        return await served.api.post(f"/wallets/{wallet}/burn", body)
    finally:
        served.node.faults.clear()


async def balance_away(served: Served) -> Answer:
    wallet = await served.api.wallet()
    served.node.faults["*"] = 403
    try:
        return await served.api.get(f"/wallets/{wallet}/balance")
    finally:
        served.node.faults.clear()


async def other_body(served: Served) -> Answer:
    wallet, key = await served.api.wallet(1), {"Idempotency-Key": "one"}
    await served.pay(wallet, 5, headers=key)
    return await served.pay(wallet, 6, headers=key)


async def bad_field(served: Served) -> Answer:
    return await served.transfer(0)


async def no_wallet(served: Served) -> Answer:
    return await served.pay("none", 1)


async def no_secret(served: Served) -> Answer:
    return await served.api.get("/wallets", token="sk-none")


async def read_only(served: Served) -> Answer:
    token, _ = await served.api.key(readOnly=True)
    return await served.transfer(0.1, token=token)


async def rate_of_a_key(served: Served) -> Answer:
    wallet = await served.api.wallet(1)
    token, _ = await served.api.key(rateLimit=1)
    assert (await served.pay(wallet, 0.1, token=token)).status == 200
    return await served.pay(wallet, 0.1, token=token)


async def too_many_wallets(served: Served) -> Answer:
    token, _ = await served.api.key(rateLimit=1000)
    answer = None
    for _ in range(101):
        answer = await served.api.post("/wallets", {}, token=token)
    assert answer is not None
    return answer


async def decided(served: Served) -> Answer:
    held = {"may": ["transfer"], "assets": {"SOL": {"per": {"24h": "1"}, "hold": "0.01"}}}
    token, _ = await served.api.key(grants=[held])
    asked = await served.transfer(0.1, token=token)
    assert asked.status == 202
    path = f"/holds/{asked.json['holdId']}"
    assert (await served.api.post(f"{path}/deny", {})).status == 200
    return await served.api.post(f"{path}/approve", {})


async def another_policy(served: Served) -> Answer:
    policy = (await served.api.get("/policy")).json["policy"]
    return await served.api.call("PUT", "/policy", policy | {"version": 7_000})


async def no_route(served: Served) -> Answer:
    return await served.api.get("/nowhere")


async def encoded(served: Served) -> Answer:
    return await served.api.post("/wallets", {}, headers={"Content-Encoding": "gzip"})


# A request -> the contract's status, and the semantic one.
CASES: dict[Callable[[Served], Awaitable[Answer]], tuple[int, int]] = {
    blocked: (500, 403),
    skill_blocked: (500, 403),
    without_grant: (500, 403),
    rate: (500, 429),
    rate_of_a_grant: (500, 429),
    too_little: (500, 422),
    no_fee: (500, 422),
    too_few_tokens: (400, 422),
    no_tokens: (400, 422),
    skill_of_too_few_tokens: (400, 422),
    rejected: (500, 502),
    faucet_rejects: (500, 502),
    away: (500, 503),
    away_while_planning: (500, 503),
    balance_away: (500, 503),
    too_many_wallets: (500, 403),
    other_body: (422, 422),
    bad_field: (400, 400),
    no_wallet: (404, 404),
    no_secret: (401, 401),
    read_only: (403, 403),
    rate_of_a_key: (429, 429),
    decided: (409, 409),
    another_policy: (409, 409),
    no_route: (404, 404),
    encoded: (415, 415),
}


@promise("error-status-as-set")
@pytest.mark.parametrize("ask", CASES, ids=lambda ask: ask.__name__)
async def test_the_same_request_fails_with_the_status_that_is_set(
    served: Served, ask: Callable[[Served], Awaitable[Answer]]
) -> None:
    answer = await ask(served)
    by_contract, semantic = CASES[ask]
    assert answer.status == (semantic if served.statuses == "semantic" else by_contract)
    assert answer.error
    moved = served.statuses == "semantic" and semantic != by_contract
    assert answer.headers.get(CONTRACT) == (str(by_contract) if moved else None)


@promise("error-status-as-set")
@pytest.mark.parametrize("path", ["transfer", "skills/transfer"])
async def test_a_refusal_that_is_asked_for_again_is_the_first_one(
    served: Served, path: str
) -> None:
    wallet, key = await served.api.wallet(1), {"Idempotency-Key": "again"}
    first, again = [await served.pay(wallet, 5, path, headers=key) for _ in range(2)]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert (again.status, again.text) == (first.status, first.text)
    names = [CONTRACT] if path.startswith("skills") else [CONTRACT, "Solward-Rule",
                                                          "Solward-Transaction"]  # fmt: skip
    assert [again.headers.get(n) for n in names] == [first.headers.get(n) for n in names]


@promise("error-status-as-set")
@pytest.mark.parametrize("path", ["transfer", "skills/transfer"])
async def test_a_stored_refusal_keeps_its_status_where_the_setting_changes(
    tmp_path: Path, path: str
) -> None:
    body, key = {"to": STRANGER, "amount": 5}, {"Idempotency-Key": "kept"}
    async with serving_api(tmp_path / "home", error_status="semantic") as api:
        path = f"/wallets/{await api.wallet()}/{path}"
        first = await api.post(path, body, headers=key)
    # The document of this service does not have the status of the other one.
    async with serving_api(tmp_path / "home") as api:
        sent = {"Authorization": f"Bearer {api.service.settings.client_token}"} | key
        again = await api.app.test_client().post(f"/api/v1{path}", json=body, headers=sent)
    assert (again.status_code, again.headers[CONTRACT]) == (403, "500")
    assert first.status == 403


@promise("error-status-as-set")
@pytest.mark.parametrize("statuses", BOTH)
async def test_the_document_says_which_statuses_are_on(tmp_path: Path, statuses: Statuses) -> None:
    async with serving_api(tmp_path / "home", error_status=statuses) as api:
        document = (await api.get("/openapi.json", token=None)).json
    assert document["info"]["x-error-status"] == statuses
    transfer = document["paths"]["/api/v1/wallets/{walletId}/transfer"]["post"]["responses"]
    assert ({"403", "409", "422", "429", "500", "502", "503"} <= transfer.keys()) == (
        statuses == "semantic"
    )


# Kind -> its semantic status, where that is not the contract's.
SEMANTIC = {
    "NotEnough": 422,
    "TakenOver": 409,
    "TooManyWallets": 403,
    "RateReached": 429,
    "GuardrailBlocked": 403,
    "TransactionError": 500,
    "TransactionFailed": 502,
    "LedgerError": 502,
    "LedgerUnavailable": 503,
    "LedgerRejected": 502,
}


@promise("error-status-as-set")
async def test_every_kind_of_error_has_its_semantic_status() -> None:
    kinds = {
        name: kind
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, SolwardError)
    }
    for name, kind in kinds.items():
        made = kind.__new__(kind)
        if isinstance(made, SkillError):
            made.code = "any"
        if isinstance(made, TransactionError):
            made.record = FAILURE
        assert status_of(made, "semantic") == SEMANTIC.get(name, status_of(made)), name


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("The transaction would fail: insufficient balance (1 lamports, 2 needed)", 422),
        ("the wallet has too little SOL to pay the network fee", 422),
        ("The transaction would fail: instruction 0 failed: Custom 6001", 502),
        (None, 502),
    ],
)
async def test_a_stored_failure_says_by_its_words_whether_the_wallet_held_too_little(
    text: str | None, status: int
) -> None:
    assert status_of(refusal(replace(FAILURE, error=text)), "semantic") == status
    assert status_of(refusal(replace(FAILURE, error=text))) == 500
