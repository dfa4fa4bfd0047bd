"""Admin credentials: every route against every role, their ends, and ways to more than a role."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.promises import promise
from tests.server.test_authorisation_matrix import ADMIN, ADMIN_REQUIRED, KEY, KEY_INVALID, ask
from tests.support.agents import agent_body
from tests.support.services import (
    NOBODY,
    SECRET,
    STRANGER,
    Api,
    serving_api,
    serving_events,
    settings,
)

from solward.credentials.credentials import MOST_ADMINS, Credentials, hash_of
from solward.database.database import Database
from solward.schedules.runs import actor_of
from solward.service.service import Solward
from solward.support.clock import iso, now_ms
from solward.support.durations import HOUR_MS
from solward.types.errors import KeyRevoked
from solward.types.roles import Role
from solward_server.http.auth import Access, rule_of
from solward_server.resources import events

# Of what is no GET, these need no `policy`; everything else of the two sets does.
READING = {
    "POST /quote",
    "POST /policy/check",
    "POST /policy/read",
    "POST /policy/replay",
    "POST /mcp",
}
OPERATING = {
    "POST /freeze",
    "POST /agents/<id>/start",
    "POST /agents/<id>/stop",
    "POST /agents/<id>/pause",
    "POST /wallets/<id>/schedules/<id>/pause",
    "POST /wallets/<id>/pockets/<id>/sweep",
    "POST /holds/<id>/deny",
    "DELETE /keys/<id>",
}


def least(route: str) -> Role:
    if route.startswith("GET ") or route in READING:
        return Role.READ
    return Role.OPERATE if route in OPERATING else Role.POLICY


async def make(api: Api, role: str, name: str = "", **fields: object) -> tuple[str, str]:
    """A new credential's secret and id."""
    body = {"name": name or f"{role}-er", "role": role} | fields
    made = await api.post("/admins", body)
    assert made.status == 200, made.text
    return made.json["adminSecret"], made.json["id"]


@promise("routes-declare-roles")
async def test_every_route_that_takes_an_admin_declares_a_role(api: Api) -> None:
    declared = {}
    for rule in api.app.url_map.iter_rules():
        view = api.app.view_functions[rule.endpoint]
        path = re.sub(r"<(\w+_id|principal)>", "<id>", rule.rule.removeprefix("/api/v1"))
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            if rule_of(view).access in (Access.ADMIN, Access.KEY):
                declared[f"{method} {path}"] = rule_of(view).role
    assert declared == {route: least(route) for route in ADMIN | KEY}


@pytest.mark.more
@promise("credential-within-its-role")
async def test_each_role_calls_what_it_may_and_nothing_else(api: Api) -> None:
    tokens = {role: (await make(api, role))[0] for role in Role}
    for route in sorted(ADMIN | KEY):
        for role, token in tokens.items():
            # The stream has no end.
            asked = route.replace("GET /events", "HEAD /events")
            answer = await ask(api, asked, token)
            if role.allows(least(route)):
                assert answer.status not in (401, 403), (route, role, answer.text)
                continue
            needed = least(route)
            assert (answer.status, answer.error) == (
                403,
                f"This needs an admin credential of the role {needed}; {role}-er has the role"
                f" {role}",
            ), (route, role)
        await api.post("/unfreeze")


@promise("credentials-stored-hashed")
async def test_a_secret_is_shown_once_and_kept_as_a_hash(api: Api) -> None:
    secret, credential_id = await make(api, "read", "ana")
    assert re.fullmatch(r"sa-[0-9a-f]{48}", secret)
    assert (await api.get("/wallets", token=secret)).status == 200
    (listed,) = (await api.get("/admins")).json["admins"]
    assert (listed["id"], listed["name"], listed["role"]) == (credential_id, "ana", "read")
    assert (listed["createdBy"], listed["expiresAt"]) == ("admin", None)
    assert listed["lastUsedAt"] is not None
    async with api.service.database.read() as connection:
        (row,) = (await connection.exec_driver_sql("SELECT * FROM credentials")).all()
    assert secret not in str(row)
    assert secret not in (await api.get("/audit")).text


async def test_uses_are_stored_and_credentials_outlive_the_process(tmp_path: Path) -> None:
    async with serving_api(tmp_path) as api:
        secret, _ = await make(api, "read")
        assert (await api.get("/wallets", token=secret)).status == 200
    async with serving_api(tmp_path) as api:
        (listed,) = (await api.get("/admins")).json["admins"]
        assert listed["lastUsedAt"] is not None
        assert (await api.get("/wallets", token=secret)).status == 200


async def test_events_and_records_name_the_credential(api: Api) -> None:
    secret, credential_id = await make(api, "policy", "ana")
    wallet = await api.wallet(1)
    await api.post("/freeze", {"reason": "drill"}, token=secret)
    await api.post("/unfreeze", token=secret)
    sent = {"to": STRANGER, "amount": 0.01}
    paid = await api.post(f"/wallets/{wallet}/transfer", sent, token=secret)
    assert paid.status == 200, paid.text
    entries = (await api.get("/audit")).json["entries"]
    by_kind = {entry["event"]: entry["data"] for entry in reversed(entries)}
    who = f"admin:{credential_id}"
    for kind in ("switch:frozen", "switch:thawed"):
        assert (by_kind[kind]["principal"], by_kind[kind]["credential"]) == (who, "ana")
    made = by_kind["admin:created"]
    assert (made["adminId"], made["name"], made["principal"]) == (credential_id, "ana", "admin")
    assert made["after"] == {"role": "policy", "createdBy": "admin", "expiresAt": None}
    assert "credential" not in made
    assert by_kind["transaction:confirmed"]["principal"] == who


async def test_a_revoked_credential_is_refused_at_once(api: Api) -> None:
    secret, credential_id = await make(api, "policy")
    assert (await api.get("/keys", token=secret)).status == 200
    revoked = await api.call("DELETE", f"/admins/{credential_id}")
    assert revoked.json == {"id": credential_id, "revoked": True, "made": []}
    answer = await api.get("/keys", token=secret)
    assert (answer.status, answer.error) == (401, ADMIN_REQUIRED)
    answer = await api.get("/wallets", token=secret)
    assert (answer.status, answer.error) == (401, KEY_INVALID)
    again = await api.call("DELETE", f"/admins/{credential_id}")
    assert (again.status, again.error) == (404, "Admin credential not found")


@pytest.mark.more
async def test_another_process_refuses_it_at_once_too(tmp_path: Path, postgres_url: str) -> None:
    async with serving_api(tmp_path, database_url=postgres_url) as api:
        secret, credential_id = await make(api, "read")
        database = await Database.open(postgres_url, tmp_path / "other")
        other = Credentials(database)
        found = await other.find(hash_of(secret))
        assert found is not None
        assert found.id == credential_id
        await api.call("DELETE", f"/admins/{credential_id}")
        assert await other.find(hash_of(secret)) is None
        await database.close()


@promise("credential-within-its-role")
async def test_nothing_is_reserved_for_a_credential_that_ended_meanwhile(api: Api) -> None:
    secret, credential_id = await make(api, "policy")
    wallet = await api.wallet(1)
    sent = {"to": STRANGER, "amount": 0.01}
    # Ends between the check of the request and the reservation.
    real = type(api.service.operations).perform

    async def perform(self: object, *args: object, **more: object) -> object:
        assert (await api.call("DELETE", f"/admins/{credential_id}")).status == 200
        return await real(self, *args, **more)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(api.service.operations), "perform", perform)
        answer = await api.post(f"/wallets/{wallet}/transfer", sent, token=secret)
    assert (answer.status, answer.error) == (401, str(KeyRevoked()))
    assert [each["type"] for each in await api.records(wallet)] == ["airdrop"]


async def test_an_expired_credential_is_refused(api: Api) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    secret, _ = await make(api, "policy", expiresAt=soon)
    assert (await api.get("/wallets", token=secret)).status == 200
    async with api.service.database.write() as connection:
        await connection.exec_driver_sql("UPDATE credentials SET expires_ms = 1")
    assert (await api.get("/wallets", token=secret)).status == 401
    # It stays listed until somebody revokes it, as keys do.
    assert len((await api.get("/admins")).json["admins"]) == 1


@promise("credential-within-its-role")
async def test_an_event_stream_ends_with_its_credential(tmp_path: Path) -> None:
    async with (
        Solward.open(settings(tmp_path)) as service,
        serving_events(service) as served,
    ):
        made = await served.post("/admins", {"name": "ana", "role": "read"})
        told = {"Authorization": f"Bearer {made['adminSecret']}"}
        async with served.listening(**told) as heard, asyncio.timeout(10):
            await served.post("/wallets")
            assert [kind for _, kind, _ in await heard.events(1)] == ["wallet:created"]
            await served.client.delete(f"/admins/{made['id']}")
            await served.post("/wallets")
            # The end of the answer, and neither the revocation nor what came after it.
            assert [line async for line in heard.lines if line] == []


async def test_a_silent_stream_ends_with_an_expired_credential(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.05)
    async with (
        Solward.open(settings(tmp_path)) as service,
        serving_events(service) as served,
    ):
        made = await served.post("/admins", {"name": "ana", "role": "read"})
        told = {"Authorization": f"Bearer {made['adminSecret']}"}
        async with served.listening(**told) as heard, asyncio.timeout(10):
            async with service.database.write() as connection:
                await connection.exec_driver_sql("UPDATE credentials SET expires_ms = 1")
            async for _line in heard.lines:
                pass


@promise("role-cannot-widen")
@pytest.mark.parametrize("role", ["read", "operate"])
async def test_only_the_top_role_makes_and_ends_credentials(api: Api, role: str) -> None:
    secret, credential_id = await make(api, role)
    for call in (
        api.post("/admins", {"name": "mine", "role": "read"}, token=secret),
        api.call("DELETE", f"/admins/{credential_id}", token=secret),
    ):
        assert (await call).status == 403
    own = await api.get("/admins/self", token=secret)
    assert (own.json["role"], own.json["admin"]["id"]) == (role, credential_id)
    assert (await api.get("/admins/self")).json == {"role": "policy", "admin": None}


@promise("credentials-end-within-makers", "role-cannot-widen")
async def test_what_a_credential_makes_ends_no_later_and_is_told_when_it_ends(api: Api) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    secret, credential_id = await make(api, "policy", "ana", expiresAt=soon)
    later = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    for fields in ({}, {"expiresAt": later}):
        answer = await api.post("/admins", {"name": "b", "role": "read"} | fields, token=secret)
        assert answer.status == 400
        assert answer.error.startswith("expiresAt must be at most ")
    fields = {"name": "b", "role": "policy", "expiresAt": soon}
    made = await api.post("/admins", fields, token=secret)
    assert made.json["createdBy"] == f"admin:{credential_id}"
    revoked = await api.call("DELETE", f"/admins/{credential_id}")
    assert [each["name"] for each in revoked.json["made"]] == ["b"]


@promise("no-key-outlives-maker", "role-cannot-widen")
async def test_no_key_is_a_way_to_go_on_beyond_ones_end(tmp_path: Path) -> None:
    async with serving_api(tmp_path) as api:
        sooner, end, later = (iso(now_ms() + hours * HOUR_MS) for hours in (1, 2, 3))
        secret, _ = await make(api, "policy", "ana", expiresAt=end)
        too_late = f"expiresAt must be at most {end}, when your credential ends"
        for fields in ({}, {"expiresAt": None}, {"expiresAt": later}):
            answer = await api.post("/keys", {"name": "k"} | fields, token=secret)
            assert (answer.status, answer.error) == (400, too_late)
        assert (await api.get("/keys")).json["keys"] == []
        for fields in ({"expiresAt": sooner}, {"expiresAt": end}):
            made = await api.post("/keys", {"name": "k"} | fields, token=secret)
            assert made.status == 200
            # One that ends no later gets another secret by who made it.
            rotated = await api.post(f"/keys/{made.json['id']}/rotate", token=secret)
            assert rotated.status == 200
        # A new secret of somebody else's key would be such a way too.
        for fields, ends in (({}, "never"), ({"expiresAt": later}, f"at {later}")):
            token, key_id = await api.key(**fields)
            answer = await api.post(f"/keys/{key_id}/rotate", {"overlapSeconds": 0}, token=secret)
            assert answer.status == 400
            assert answer.error.startswith(
                f"The key ends {ends}, and your credential ends at {end}: "
            )
            assert (await api.get("/wallets", token=token)).status == 200
            for other in (SECRET, (await make(api, "policy", f"bo-{ends[:2]}"))[0]):
                assert (await api.post(f"/keys/{key_id}/rotate", token=other)).status == 200
        found = (await api.get("/keys?details=true")).json["keys"]
        assert [each["expiresAt"] for each in found] == [sooner, end, None, later]


@promise("revoked-at-once-everywhere", "role-cannot-widen")
async def test_a_schedule_that_a_credential_made_holds_no_secret_of_it(api: Api) -> None:
    soon = iso(now_ms() + HOUR_MS)
    secret, credential_id = await make(api, "policy", "ana", expiresAt=soon)
    body = {
        "name": "rent",
        "skill": "transfer",
        "parameters": {"to": STRANGER, "amount": 0.01},
        "every": "1d",
    }
    made = await api.post(f"/wallets/{await api.wallet()}/schedules", body, token=secret)
    assert (made.status, made.json["madeBy"]) == (200, f"admin:{credential_id}")
    schedule = await api.service.schedules.get(made.json["id"])
    assert schedule.key_hash is None
    # It asks as itself, so that it is bound as every schedule of the operator.
    actor = await actor_of(schedule, None)
    assert (actor.principal, actor.api_key) == (schedule.principal, None)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"role": "read"}, "name is required and must be a string"),
        ({"name": "a b", "role": "read"}, "name must be 1 to 64 letters, digits and ._@-"),
        ({"name": "a"}, "role is required and must be a string"),
        ({"name": "a", "role": "root"}, "role must be one of read, operate, policy"),
        ({"name": "a", "role": "read", "expiresAt": "soon"}, "expiresAt must be an ISO 8601 time"),
        (
            # In UTC of the year 10000.
            {"name": "a", "role": "read", "expiresAt": "9999-12-31T23:59:59-23:59"},
            "expiresAt must be an ISO 8601 time",
        ),
        ({"name": "twice", "role": "read"}, "name: another admin credential is named twice"),
    ],
    ids=["no name", "bad name", "no role", "bad role", "bad end", "no such year", "same name"],
)
async def test_what_is_wrong_is_named(api: Api, fields: dict[str, str], text: str) -> None:
    await make(api, "read", "twice")
    answer = await api.post("/admins", fields)
    assert answer.status == 400
    assert answer.error.startswith(text)


@pytest.mark.more
async def test_there_are_no_more_than_a_hundred(api: Api) -> None:
    for number in range(MOST_ADMINS):
        await make(api, "read", f"n{number}")
    answer = await api.post("/admins", {"name": "more", "role": "read"})
    assert (answer.status, answer.error) == (
        400,
        f"{MOST_ADMINS} admin credentials exist, the maximum; revoke one",
    )


@promise("role-cannot-widen")
async def test_an_agent_begins_to_act_by_the_role_policy_and_goes_on_by_operate(api: Api) -> None:
    secret, _ = await make(api, "operate")
    wallet = await api.wallet()
    body = agent_body(wallet, "openai", llmModel="m", strategy="wait")
    agent = (await api.post("/agents", body)).json["id"]
    answer = await api.post(f"/agents/{agent}/start", token=secret)
    assert (answer.status, answer.error) == (
        403,
        "This needs an admin credential of the role policy; operate-er has the role operate",
    )
    async with api.service.database.write() as connection:
        # As after a first start.
        await connection.exec_driver_sql("UPDATE agents SET status = 'stopped'")
    answer = await api.post(f"/agents/{agent}/start", token=secret)
    # Its provider has no key here: the role was enough.
    assert (answer.status, "OPENAI_API_KEY" in answer.text) == (400, True)


@promise("role-cannot-widen")
async def test_an_agent_that_was_stopped_before_it_ran_is_not_started_by_operate(api: Api) -> None:
    secret, _ = await make(api, "operate")
    body = agent_body(await api.wallet(), "openai", llmModel="m", strategy="wait")
    agent = (await api.post("/agents", body)).json["id"]
    assert (await api.post(f"/agents/{agent}/stop", token=secret)).status == 200
    assert (await api.post(f"/agents/{agent}/pause", token=secret)).status == 400
    assert (await api.get(f"/agents/{agent}")).json["status"] == "idle"
    answer = await api.post(f"/agents/{agent}/start", token=secret)
    assert (answer.status, "role policy" in answer.text) == (403, True)


@promise("credential-within-its-role")
async def test_over_mcp_a_role_may_what_it_may_over_rest(api: Api) -> None:
    secret, _ = await make(api, "operate")
    wallet = (await api.post("/wallets", {"name": "ada"})).json["walletId"]
    arguments = {"wallet": "ada", "to": STRANGER, "amount": 0.01}
    call = {"name": "transfer", "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    answer = await api.call("POST", "/mcp", message, token=secret, headers=accept, prefix="")
    assert "This needs an admin credential of the role policy" in answer.text
    assert await api.records(wallet) == []


@promise("role-cannot-widen")
async def test_no_answer_to_a_reader_has_a_secret(tmp_path: Path) -> None:
    hook = "an-approval-secret-for-tests-of-32-bytes"
    async with serving_api(
        tmp_path,
        approval_webhook_url="http://127.0.0.1:9/hook-token",
        approval_webhook_secret=hook,
    ) as api:
        secret, _ = await make(api, "read")
        key, key_id = await api.key()
        wallet = await api.wallet()
        told = []
        for route in sorted(ADMIN | KEY):
            if route.startswith("GET ") and route != "GET /events":
                for of in (NOBODY, wallet, key_id):
                    told.append((await ask(api, route, secret, of=of)).text)
        told.append((await api.get("/keys?details=true", token=secret)).text)
        text = "\n".join(told)
        for hidden in (SECRET, hook, "hook-token", key, secret):
            assert hidden not in text


async def test_an_agents_key_is_no_admin_whatever_it_is_named(api: Api) -> None:
    key, key_id = await api.key(name="policy", permissions=["policy", "admin"])
    for token in (key, f"sa-{key[3:]}{key[3:19]}", f"admin:{key_id}"):
        answer = await api.get("/audit", token=token)
        assert (answer.status, answer.error) == (401, ADMIN_REQUIRED)


async def test_two_credentials_share_no_idempotency_key(api: Api) -> None:
    one, _ = await make(api, "policy", "one")
    other, _ = await make(api, "policy", "other")
    wallet = await api.wallet(1)
    sent = {"to": STRANGER, "amount": 0.01}
    headers = {"Idempotency-Key": "invoice-1"}
    ids = set()
    for token in (one, other, one):
        path = f"/wallets/{wallet}/transfer"
        answer = await api.post(path, sent, token=token, headers=headers)
        ids.add(answer.json["id"])
    assert len(ids) == 2
