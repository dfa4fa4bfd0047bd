"""`GET /audit` with filters, and the command that prints all that fits."""

from __future__ import annotations

import pytest
from tests.support.services import SECRET, STRANGER, Api, Carrier

from solward.client import AuditFilter, SolwardClient


async def kinds(api: Api, query: str) -> list[str]:
    answer = (await api.get(f"/audit?{query}")).json
    assert answer["next"] is None
    return [each["event"] for each in answer["entries"]]


async def test_entries_are_chosen_by_kind_wallet_and_principal(api: Api) -> None:
    wallet, other = await api.wallet(1), await api.wallet()
    await api.post(f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 0.1})
    await api.post("/freeze", {"walletId": wallet})
    of_wallet = ["switch:frozen", "transaction:confirmed", "transaction:pending"]
    assert (await kinds(api, f"walletId={wallet}"))[:3] == of_wallet
    assert await kinds(api, f"walletId={other}") == ["wallet:created"]
    assert await kinds(api, "types=switch:frozen,switch:thawed&principal=admin") == [
        "switch:frozen"
    ]
    assert await kinds(api, "principal=cli") == []
    assert await kinds(api, "until=2020-01-01T00:00:00Z") == []
    token, key = await api.key()
    await api.post("/wallets", {"name": "of a key"}, token=token)
    assert await kinds(api, f"principal=key:{key}") == ["wallet:created"]
    newest = (await api.get("/audit?limit=2")).json
    assert newest["next"] == newest["entries"][1]["seq"]
    after = (await api.get(f"/audit?after={newest['next']}")).json["entries"]
    assert after == newest["entries"][:1]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("types=nonsense", "types must be a comma-separated list of"),
        ("since=yesterday", "since must be an ISO 8601 time with its zone"),
        ("since=2026-01-01T00:00:00", "since must be an ISO 8601 time with its zone"),
        ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "until must be later than since"),
        ("walletId=", "walletId must be a string of 1 to 200 characters"),
        (f"principal={'x' * 201}", "principal must be a string of 1 to 200 characters"),
        ("after=-1", "after must be a whole number from 0"),
        ("agentId=a&agentId=b", "agentId must be given once"),
    ],
)
async def test_what_is_no_filter_is_refused_by_its_name(api: Api, query: str, says: str) -> None:
    answer = await api.get(f"/audit?{query}")
    assert (answer.status, answer.error[: len(says)]) == (400, says)


async def test_a_client_reads_all_that_fit_page_by_page(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solward.audit.log.WALKED", 2)
    wallets = [await api.wallet() for _ in range(5)]
    async with SolwardClient("http://solward.test", SECRET, transport=Carrier(api.app)) as client:
        only = AuditFilter(types=("wallet:created",))
        found = [each async for each in client.audit_entries(only)]
        assert [each.data["walletId"] for each in found] == wallets[::-1]
        page = await client.audit(principal="nobody", limit=5)
        assert (page.entries, page.next is None) == ((), False)
