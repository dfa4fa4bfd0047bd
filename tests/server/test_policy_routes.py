"""The policy over REST: read exactly, shown in sentences, put by version, replayed."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.agents import agent_body
from tests.support.database import AuditLog
from tests.support.services import NOBODY, STRANGER, Api, serving_api

from solward.operations.policies.changes import replace_set
from solward.support import jsontext
from solward.vault.store import grants as grant_store
from solward_server.http.body import MAX_POLICY_BYTES

SPENDS = {"may": ["transfer"], "assets": {"SOL": {"per": {"24h": "1"}}}}
READ_ONLY = "has no grant to"


async def send(api: Api, wallet: str, token: str | None, sol: str = "0.1") -> Any:
    body = {"to": STRANGER, "amount": Decimal(sol)}
    return await api.post(f"/wallets/{wallet}/transfer", body, token=token)


async def policy(api: Api) -> dict[str, Any]:
    shown: dict[str, Any] = (await api.get("/policy")).json
    return shown


async def put(api: Api, document: Any, path: str = "/policy") -> Any:
    return await api.call("PUT", path, document)


@promise("policy-routes-beyond")
async def test_a_policy_is_put_shown_and_put_again_as_it_was_shown(api: Api) -> None:
    wallet = await api.wallet()
    _, first = await api.key(name="ci")
    _, second = await api.key(name="watch")
    grant = {**SPENDS, "who": "key:ci", "to": ["@vendors"]}
    book = {"vendors": [STRANGER]}
    read_only = [f"wallet:{wallet}", "key:watch"]
    put_once = await put(api, {"book": book, "grants": [grant], "readOnly": read_only})
    assert put_once.status == 200, put_once.text
    shown = put_once.json
    assert shown["policy"]["book"] == book
    assert shown["policy"]["grants"] == [grant | {"who": f"key:{first}"}]
    assert set(shown["policy"]["readOnly"]) == {f"wallet:{wallet}", f"key:{second}"}
    assert shown["sentences"][0] == "Key ci may transfer up to 1 SOL a day, to @vendors."
    assert sorted(shown["sentences"][1:])[0] == "Key watch may only read."
    assert shown == await policy(api)
    again = await put(api, shown["policy"])
    assert again.status == 200
    # Nothing changed; the version counts puts.
    assert again.json["policy"] | {"version": 0} == shown["policy"] | {"version": 0}


async def test_sites_are_put_under_grants_by_their_own_names(api: Api) -> None:
    _, key = await api.key(name="ci")
    usdc = {"USDC": {"per": {"24h": "1"}}}
    through = {
        "who": f"key:{key}",
        "may": ["pay"],
        "assets": usdc,
        "via": ["site:127.0.0.1:4021", "site:api.example.com"],
    }
    site = {"who": "site:127.0.0.1:4021", "may": ["pay"], "assets": usdc}
    once = await put(api, {"grants": [through, site], "readOnly": ["site:[::1]:4021"]})
    assert once.status == 200, once.text
    assert once.json["policy"]["grants"] == [through, site]
    assert once.json["sentences"] == [
        "Key ci may pay up to 1 USDC a day, to anybody, through 127.0.0.1:4021 or api.example.com.",
        "Site 127.0.0.1:4021 may be paid up to 1 USDC a day.",
        "Site [::1]:4021 may not be paid.",
    ]
    assert (await put(api, once.json["policy"])).status == 200
    for written in once.json["sentences"][:2]:
        said = (await api.post("/policy/check", {"grants": [written]})).json
        assert said["sentences"] == [written]
    path = "/policy/site:127.0.0.1:4021"
    shown = (await api.get(path)).json
    assert (shown["principal"], shown["grants"]) == ("site:127.0.0.1:4021", [site])
    assert (await put(api, {"grants": []}, path)).json["sentences"] == [
        "Site 127.0.0.1:4021 may not be paid."
    ]
    assert (await put(api, {"grants": None}, path)).json["grants"] is None
    assert (await api.get("/policy/site:EXAMPLE.com")).status == 404


async def test_what_is_gone_keeps_the_policy_writable(api: Api) -> None:
    _, gone = await api.key(grants=[])
    shown = (await policy(api))["policy"]
    assert (await api.call("DELETE", f"/keys/{gone}")).status == 200
    assert (await policy(api))["policy"]["readOnly"] == []
    assert (await put(api, {**shown, "version": None})).status == 400
    await put(api, {"grants": [], "readOnly": ["skill:transfer", "plugin:Solward"]})
    shown = (await policy(api))["policy"]
    assert sorted(shown["readOnly"]) == ["plugin:solward", "skill:transfer"]
    assert (await put(api, shown)).status == 200


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"grants": {}}, "grants:"),
    ({"grants": [{}]}, "grants[0].who: is required"),
    ({"grants": [{"who": "key:nobody"}]}, "grants[0].who: no key has the id or name"),
    (
        {"grants": [{"who": "site:X.example", "may": ["pay"]}]},
        "grants[0].who: a host in lower case",
    ),
    ({"readOnly": ["key:ci", "key:ci"]}, "readOnly[1]: stands twice"),
    ({"book": {"a": ["nobody"]}}, "book.a[0]"),
    ({"book": {"Vendors": []}}, "book.Vendors"),
    ({"version": "1"}, "version:"),
    ({"rules": []}, "rules"),
    (
        {"grants": [{**SPENDS, "who": "key:ci", "to": ["@nobody"]}]},
        "grants[0].to[0]: ",
    ),
    (
        {"grants": [{**SPENDS, "who": "key:ci", "assets": {STRANGER: {"per": {"1h": "1"}}}}]},
        f"grants[0].assets.{STRANGER}: no known mint has this address",
    ),
    (
        {"grants": [{**SPENDS, "who": "key:ci", "assets": {"SOL": {"per": {"1h": 1}}}}]},
        "grants[0].assets.SOL.per.1h: ",
    ),
    ({"grants": ["Key ci may do as it likes."]}, "grants[0]: "),
    ({"grants": [SPENDS | {"who": "key:ci"}, 5]}, "grants[1]: "),
]


async def test_a_refusal_names_the_path_and_changes_nothing(api: Api) -> None:
    await api.key(name="ci")
    for document, text in WRONG:
        for route in ("check", "put", "replay"):
            if route == "replay":
                answer = await api.post("/policy/replay", {"draft": document})
            elif route == "check":
                answer = await api.post("/policy/check", document)
            else:
                answer = await put(api, document)
            assert (answer.status, answer.error[: len(text)]) == (400, text)
    assert (await policy(api))["policy"] == {
        "version": 0, "book": {}, "grants": [], "readOnly": [],
    }  # fmt: skip


@promise("lost-body-frees-nobody")
async def test_a_body_without_read_only_frees_nobody_who_may_only_read(api: Api) -> None:
    _, key = await api.key(name="auditor", grants=[])
    answer = await put(api, {"grants": []})
    assert (answer.status, answer.error) == (
        400,
        f"readOnly is required and must be an array: the policy in force has key:{key} in it",
    )
    assert (await policy(api))["policy"]["readOnly"] == [f"key:{key}"]
    # Named otherwise, or left out of an array, it is meant.
    grant = SPENDS | {"who": f"key:{key}"}
    assert (await put(api, {"grants": [grant]})).status == 200
    assert (await put(api, {"grants": [], "readOnly": [f"key:{key}"]})).status == 200
    assert (await put(api, {"grants": [], "readOnly": []})).status == 200
    assert (await policy(api))["policy"]["readOnly"] == []


@promise("lost-body-frees-nobody")
@pytest.mark.parametrize("body", [None, {}, {"grants": None}, {"book": {}}])
async def test_a_body_without_grants_takes_no_bound_away(
    api: Api, body: dict[str, object] | None
) -> None:
    await api.key(name="ci")
    assert (await put(api, {"grants": [SPENDS | {"who": "key:ci"}]})).status == 200
    before = await policy(api)
    answer = await api.call("PUT", "/policy", body)
    assert answer.status == 400
    assert answer.error.startswith("grants")
    assert await policy(api) == before


async def test_a_policy_that_was_changed_meanwhile_is_not_replaced(api: Api) -> None:
    _, key = await api.key(name="ci")
    first = (await policy(api))["policy"]
    assert (await put(api, {**first, "readOnly": ["key:ci"]})).status == 200
    late = await put(api, first)
    assert late.status == 409
    now = (await policy(api))["policy"]
    assert (f"version {now['version']} is in force" in late.error, now["readOnly"]) == (
        True, [f"key:{key}"],
    )  # fmt: skip
    late = await put(api, {"grants": None, "version": first["version"]}, f"/policy/key:{key}")
    assert late.status == 409
    assert (await policy(api))["policy"] == now
    assert (await put(api, {**now, "readOnly": []})).status == 200


async def test_check_says_what_a_policy_would_say_and_changes_nothing(api: Api) -> None:
    _, key = await api.key(name="ci")
    sentence = "Key ci may transfer up to 1 SOL a day, to anybody."
    written = await api.post("/policy/check", {"grants": [{**SPENDS, "who": "key:ci"}]})
    said = await api.post("/policy/check", {"grants": [sentence]})
    assert written.json == said.json
    assert said.json["sentences"] == [sentence]
    assert said.json["policy"]["grants"] == [{**SPENDS, "who": f"key:{key}"}]
    assert (await policy(api))["policy"]["grants"] == []


@pytest.mark.more
@promise("policy-routes-beyond")
async def test_one_principal_is_put_under_grants_and_out_of_them(api: Api) -> None:
    wallet = await api.wallet(1)
    token, key = await api.key(name="ci")
    other, _ = await api.key(name="other", grants=[])
    path = "/policy/key:ci"
    assert (await put(api, {"grants": []}, path)).status == 200
    refused = await send(api, wallet, token)
    assert (refused.status, READ_ONLY in refused.error) == (500, True)
    assert (await put(api, {"grants": [SPENDS]}, f"/policy/key:{key}")).status == 200
    assert (await send(api, wallet, token)).status == 200
    # Its own alone: the others stay as they were.
    assert (await send(api, wallet, other)).status == 500
    shown = (await api.get(path)).json
    assert (shown["principal"], shown["grants"]) == (f"key:{key}", [SPENDS | {"who": f"key:{key}"}])
    assert shown["version"] == (await policy(api))["policy"]["version"]
    out = (await put(api, {"grants": None}, path)).json
    assert (out["grants"], out["sentences"]) == (None, [])
    assert (await api.get(path)).json == out
    assert (await send(api, wallet, token)).status == 200


async def test_the_grants_of_who_is_gone_are_shown_and_taken_away(api: Api) -> None:
    database = api.service.database
    await replace_set(database, f"key:{NOBODY}", [])
    path = f"/policy/key:{NOBODY}"
    assert (await api.get(path)).json["grants"] == []
    assert (await put(api, {"grants": None}, path)).json["grants"] is None
    assert (await api.get(path)).status == 404


async def test_one_principal_is_read_and_put_without_the_others(api: Api) -> None:
    await api.key(name="ci")
    for own_id in range(20):
        await replace_set(api.service.database, f"key:{own_id}", [])
    read: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grant_store, "all_sets", lambda _: read.append("all"))
        assert (await put(api, {"grants": [SPENDS]}, "/policy/key:ci")).status == 200
        assert (await api.get("/policy/key:ci")).status == 200
        await api.key(name="other", grants=[SPENDS])
        assert (await api.get("/keys?details=true")).status == 200
    assert not read


WRONG_OF_ONE: list[tuple[str, Any, int, str]] = [
    ("/policy/key:ci", {}, 400, "grants is required and must be an array, or null"),
    ("/policy/key:ci", {"grants": {}}, 400, "grants: "),
    ("/policy/key:ci", {"grants": [{"may": []}]}, 400, "grants[0].may: "),
    ("/policy/key:ci", {"grants": [], "version": "x"}, 400, "version must be a number"),
    ("/policy/key:ci", {"grants": [SPENDS | {"who": "key:b"}]}, 400, "grants[0].who: "),
    (f"/policy/key:{NOBODY}", {"grants": []}, 404, "principal: no key has"),
    ("/policy/robot:x", {"grants": []}, 404, "principal: one of wallet:"),
]


async def test_a_principals_refusals_name_what_is_wrong(api: Api) -> None:
    await api.key(name="ci")
    await api.key(name="b")
    for path, body, status, text in WRONG_OF_ONE:
        answer = await put(api, body, path)
        assert (answer.status, answer.error[: len(text)]) == (status, text)
    assert (await policy(api))["policy"]["readOnly"] == []


@promise("new-grant-resets-nothing")
async def test_a_grant_written_anew_has_counted_what_was_moved(api: Api) -> None:
    wallet = await api.wallet(2)
    token, _ = await api.key(name="ci", grants=[SPENDS])
    assert (await send(api, wallet, token, "0.7")).status == 200
    assert (await send(api, wallet, token, "0.4")).status == 500
    shown = (await policy(api))["policy"]
    # The same again; out of grants and under them; another one that would have covered it.
    assert (await put(api, shown)).status == 200
    assert (await send(api, wallet, token, "0.4")).status == 500
    for grants in (None, [SPENDS]):
        assert (await put(api, {"grants": grants}, "/policy/key:ci")).status == 200
    assert (await send(api, wallet, token, "0.4")).status == 500
    again = SPENDS | {"costs": "0.02"}
    assert (await put(api, {"grants": [again]}, "/policy/key:ci")).status == 200
    refused = await send(api, wallet, token, "0.4")
    assert (refused.status, "0.3 of 1 SOL left" in refused.error) == (500, True)
    assert (await send(api, wallet, token, "0.3")).status == 200


@pytest.mark.more
async def test_a_book_of_a_thousand_and_a_thousand_grants_fit_and_more_is_413(api: Api) -> None:
    keys = [(await api.key(name=f"bot-{at}"))[1] for at in range(10)]
    addresses = [str(Keypair().pubkey()) for _ in range(1000)]
    grants = [
        {
            "who": f"key:{key}",
            "may": ["transfer", "swap"],
            "assets": {
                "SOL": {"perTx": "0.5", "per": {"1h": "1", "24h": f"{at + 1}"}, "hold": "1"}
            },
            "to": ["@vendors"],
            "new": "hold",
            "hours": "07:00-22:00 UTC",
            "until": "2036-12-31T00:00:00Z",
        }
        for key in keys
        for at in range(100)
    ]
    document = {"book": {"vendors": addresses}, "grants": grants}
    data = jsontext.dumps(document).encode()
    assert 64 * 1024 < len(data) < MAX_POLICY_BYTES
    answer = await api.call("PUT", "/policy", data=data)
    assert answer.status == 200, answer.text[:300]
    assert len(answer.json["sentences"]) == 1000
    # Another grant of one of them is one too many.
    more = await put(api, {**document, "grants": [*grants, grants[0] | {"costs": "1"}]})
    assert more.error == "grants[1000]: at most 100 grants of a principal are expected"
    padded = data + b" " * (MAX_POLICY_BYTES - len(data))
    assert (await api.post("/policy/check", data=padded)).status == 200
    for path in ("/policy/check", "/policy"):
        late = await api.call("POST" if "check" in path else "PUT", path, data=padded + b" ")
        assert (late.status, late.error) == (
            413, "The request body must not be larger than 1024 KiB",
        )  # fmt: skip
    # Nowhere else.
    other = await api.post("/keys", data=data)
    assert (other.status, "64 KiB" in other.error) == (413, True)


@promise("policy-routes-beyond")
async def test_a_key_is_made_under_grants_and_takes_them_with_it(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home") as api:
        wallet = await api.wallet(1)
        reads, read_id = await api.key(name="reads", grants=[])
        pays, pay_id = await api.key(name="pays", grants=[SPENDS | {"who": "key:pays"}])
        free, _ = await api.key(name="free", grants=None)
        for token, status in ((reads, 500), (pays, 200), (free, 200)):
            assert (await send(api, wallet, token)).status == status
        assert (await api.get(f"/wallets/{wallet}/balance", token=reads)).status == 200
        shown = await policy(api)
        assert shown["sentences"] == [
            "Key pays may transfer up to 1 SOL a day, to anybody.",
            "Key reads may only read.",
        ]
        listed = {each["name"]: each for each in (await api.get("/keys?details=true")).json["keys"]}
        assert listed["reads"]["grants"] == []
        assert listed["pays"]["grants"] == shown["policy"]["grants"]
        assert listed["pays"]["sentences"] == shown["sentences"][:1]
        assert listed["free"]["grants"] is None
        for key_id in (read_id, pay_id):
            assert (await api.call("DELETE", f"/keys/{key_id}")).status == 200
        now = (await policy(api))["policy"]
        assert (now["grants"], now["readOnly"]) == ([], [])


async def test_a_key_whose_grants_are_wrong_is_not_made(api: Api) -> None:
    answer = await api.post("/keys", {"name": "ci", "grants": [{"may": ["fly"]}]})
    assert (answer.status, answer.error[:17]) == (400, "grants[0].may[0]:")
    assert (await api.get("/keys")).json["keys"] == []
    assert (await policy(api))["policy"]["version"] == 0


@pytest.mark.more
async def test_a_key_that_cannot_be_stored_leaves_no_grants(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    async def fails(_store: Any, key: Any) -> None:
        # By then it is bounded.
        seen.append((await policy(api))["policy"]["readOnly"] == [key.principal])
        raise OSError("no disk")

    monkeypatch.setattr("solward.credentials.credentials.Credentials.add", fails)
    assert (await api.post("/keys", {"name": "ci", "grants": []})).status == 500
    assert (seen, (await policy(api))["policy"]["readOnly"]) == ([True], [])


async def test_an_agent_is_made_changed_and_deleted_with_its_grants(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home", demo=True) as api:
        wallet = await api.wallet()
        body = agent_body(wallet, name="scout", strategy="always do wait")
        refused = await api.post("/agents", {**body, "grants": [{"may": ["fly"]}]})
        assert (refused.status, refused.error[:17]) == (400, "grants[0].may[0]:")
        assert (await api.get("/agents")).json["agents"] == []
        made = await api.post("/agents", {**body, "grants": [SPENDS | {"who": "agent:scout"}]})
        agent = made.json["id"]
        who = f"agent:{agent}"
        assert (await policy(api))["sentences"] == [
            "Agent scout may transfer up to 1 SOL a day, to anybody."
        ]
        path = f"/agents/{agent}"
        # Neither half of a change that is refused.
        both = {"grants": [], "loopIntervalMs": 5}
        assert (await api.call("PATCH", path, both)).status == 400
        assert (await policy(api))["policy"]["readOnly"] == []
        both = {"grants": [], "name": "watcher"}
        assert (await api.call("PATCH", path, both)).json["name"] == "watcher"
        shown = await policy(api)
        assert (shown["policy"]["readOnly"], shown["sentences"]) == (
            [who], ["Agent watcher may only read."],
        )  # fmt: skip
        # What a change does not name stays.
        assert (await api.call("PATCH", path, {"name": "scout"})).status == 200
        assert (await policy(api))["policy"]["readOnly"] == [who]
        assert (await api.call("PATCH", path, {"grants": None})).status == 200
        assert (await policy(api))["policy"]["readOnly"] == []
        assert (await api.call("PATCH", path, {"grants": []})).status == 200
        assert (await api.call("DELETE", path)).status == 200
        assert (await policy(api))["policy"]["readOnly"] == []


@promise("policy-changes-logged")
async def test_every_change_is_audited_with_before_and_after(api: Api) -> None:
    _, key = await api.key(name="ci", grants=[])
    await put(api, {"grants": [SPENDS]}, f"/policy/key:{key}")
    await put(api, {"book": {"vendors": [STRANGER]}, "grants": []})
    entries = [each.to_json() for each in await AuditLog(api.service.database).latest(20)]
    told = [each["data"] for each in reversed(entries) if each["event"] == "policy:changed"]
    assert [(each["who"], each["principal"]) for each in told] == [
        (f"key:{key}", "admin"), (f"key:{key}", "admin"), ("book", "admin"),
        (f"key:{key}", "admin"),
    ]  # fmt: skip
    assert told[0]["before"] == {"grants": None}
    assert told[1]["before"] == told[0]["after"] == {"grants": []}
    (grant,) = told[1]["after"]["grants"]
    assert told[3]["before"]["grants"] == [grant]
    assert told[3]["after"] == {"grants": None}


async def test_replay_says_what_can_leave_before_and_after_a_draft(api: Api) -> None:
    wallet, other = await api.wallet(2), await api.wallet(2)
    for name in ("one", "two"):
        await api.key(name=name)

    async def leaving(sentence: str, **more: Any) -> Any:
        draft = {**(await policy(api))["policy"], "grants": [sentence], **more}
        return (await api.post("/policy/replay", {"draft": draft, "newest": 10})).json

    def sol(of: Any) -> Any:
        return of["assets"]["SOL"]["most"]

    # A key without grants that had been counted with another one is counted alone under the draft.
    found = await leaving("Key one may transfer up to 0.001 SOL a day, to anybody.")
    (first, second) = found["canLeave"]
    assert (found["wallets"], {first["walletId"], second["walletId"]}) == (2, {wallet, other})
    now = (await api.get(f"/wallets/{wallet}/limits")).json["canLeave"]
    before = {each["walletId"]: each["before"]["assets"] for each in found["canLeave"]}
    assert before[wallet] == now["assets"]
    assert Decimal(sol(first["after"])) < Decimal(sol(first["before"]))
    # Saved, it is what the wallet's limits say.
    stored = await put(api, {"grants": ["Key one may transfer up to 0.001 SOL a day, to anybody."]})
    assert stored.status == 200
    now = (await api.get(f"/wallets/{first['walletId']}/limits")).json["canLeave"]
    assert first["after"] == now
    # A wallet of a grant, and a principal that uses none.
    only = f"Wallet {other} may transfer up to 0.0005 SOL a day, to anybody."
    found = await leaving(only, readOnly=["key:one"])
    assert {each["walletId"] for each in found["canLeave"]} == {wallet, other}
    found = await leaving(
        "Key one may transfer up to 0.001 SOL a day, to anybody.", readOnly=["site:a.example"]
    )
    assert (found["wallets"], found["canLeave"]) == (0, [])


@promise("policy-routes-beyond")
async def test_replay_lists_what_a_draft_would_have_changed(api: Api) -> None:
    wallet = await api.wallet(2)
    token, key = await api.key(name="ci", grants=[SPENDS])
    assert (await send(api, wallet, token, "0.2")).status == 200
    assert (await send(api, wallet, token, "0.6")).status == 200
    shown = await policy(api)
    for body in ({}, {"days": 1}, {"draft": shown["policy"]}):
        replayed = (await api.post("/policy/replay", body)).json
        assert (replayed["changed"], replayed["changes"]) == (0, [])
        assert replayed["judged"] >= 2
    narrow = "Key ci may transfer up to 0.5 SOL at once and 1 a day, to anybody."
    replayed = (await api.post("/policy/replay", {"days": 1, "draft": {"grants": [narrow]}})).json
    ((change),) = replayed["changes"]
    assert (change["then"], change["inForce"], change["now"]) == ("allowed", "allowed", "refused")
    assert change["sentence"] == (
        "0.6 SOL is more than the 0.5 SOL at once that grant 1 gives key ci."
    )
    assert change["chain"] == [f"wallet:{wallet}", f"key:{key}"]
    assert await policy(api) == shown
    answer = await api.post("/policy/replay", {"days": 1, "newest": 1})
    assert (answer.json["judged"], answer.json["omitted"]) == (1, replayed["judged"] - 1)
    answer = await api.post("/policy/replay", {"days": 0})
    assert (answer.status, answer.error) == (400, "days must be a whole number from 1 to 366")
