"""What schemathesis cannot know of the service: ids that exist, and what its errors promise.

Loaded by schemathesis in its own process; `FUZZ` has the facts as JSON (see fuzzing.py).
"""

from __future__ import annotations

import atexit
import json
import os
import re
import threading
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import schemathesis

from solward.types.errors import TooManyWallets
from solward.vault.custody.service import MOST_OF_A_KEY

FACTS: dict[str, Any] = json.loads(os.environ["FUZZ"])
PREFIX = "/api/v1"
UNAUTHORIZED = {
    "Unauthorized — API key required",
    "Invalid API key",
    "Unauthorized — admin API secret required",
}
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_POOR = (b"insufficient", b"too little SOL")
# Ids that answers gave: what leads from one operation to the next is left as it is.
GIVEN: set[str] = set()
COUNTS: Counter[str] = Counter()
_ADMIN = threading.local()


def admin() -> httpx.Client:
    """The service beside the run, with the admin secret; one a thread."""
    if not hasattr(_ADMIN, "client"):
        headers = {"Authorization": f"Bearer {FACTS['secret']}"}
        _ADMIN.client = httpx.Client(base_url=FACTS["url"], headers=headers, timeout=50)
    client: httpx.Client = _ADMIN.client
    return client


def chosen(value: object, choices: list[Any]) -> Any:
    """One of some values, for three in four of the values generated, always the same one."""
    number = zlib.crc32(repr(value).encode())
    return value if number % 4 == 0 else choices[number // 4 % len(choices)]


@atexit.register
def tell_counts() -> None:
    """How many requests each operation got."""
    Path(FACTS["counts"]).write_text(json.dumps(COUNTS))


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Put things that exist where any well-formed name would do; schemathesis judges it again."""
    parameters = case.path_parameters or {}
    for name in ("walletId", "agentId"):
        value = parameters.get(name)
        # A malformed one is there to be refused.
        if value is not None and value not in GIVEN and _UUID.fullmatch(str(value)):
            parameters[name] = chosen(value, FACTS[name])
    if isinstance(case.body, dict) and case.operation.path != "/mcp":
        own = FACTS["own"].get(parameters.get("walletId"), {})
        if "close" in case.operation.path and own:
            own = own | {"mint": own["empty"]}
        for field, value in list(case.body.items()):
            case.body[field] = _sensible(field, value, case.operation.path, own)


def _sensible(field: str, value: Any, path: str, own: dict[str, list[str]]) -> Any:
    if field == "walletId" and path == f"{PREFIX}/freeze":
        return value
    if isinstance(value, str) and 0 < len(value) <= 200 and field in FACTS["fields"]:
        return value if value in GIVEN else chosen(value, own.get(field, FACTS["fields"][field]))
    amounts = ("amount", "initialSupply")
    if field in amounts and isinstance(value, int | float) and not isinstance(value, bool):
        small = [0.000001, 0.01, 0.5, 1, 1.5] if "stake" not in path else [1.1, 1.5, 2, 1]
        return chosen(value, small) if value > 0 else value
    return value


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Remember ids, fund wallets, and lift a freeze: else little more would be tried."""
    COUNTS[case.operation.label] += 1
    asked = case.method.lower() == case.operation.method.lower()
    if response.status_code == 500 and any(sign in response.content for sign in _POOR):
        _fund((case.path_parameters or {}).get("walletId"), 10)
    if response.status_code != 200 or not asked or _kind(response) != "application/json":
        return
    body = _json(response)
    if case.operation.label == f"POST {PREFIX}/freeze":
        admin().post("/unfreeze", json={"walletId": body["walletId"]})
    if case.operation.path == f"{PREFIX}/wallets" and asked and "walletId" in body:
        _fund(body["walletId"], 4)
    _restock(case)
    names = ("id", "walletId", "mint", "stakeAccount")
    GIVEN.update(str(body[name]) for name in names if name in body)


def _fund(wallet: str, sol: int) -> None:
    for _ in range(0, sol, 2):
        admin().post(f"/wallets/{wallet}/airdrop", json={"amount": 2})


def _restock(case: Any) -> None:
    """In place of what a successful call used up, another of its kind."""
    wallet = (case.path_parameters or {}).get("walletId")
    own = FACTS["own"].get(wallet)
    name = case.operation.path.rpartition("/")[2].replace("_", "-")
    if own is None or name not in _STOCK:
        return
    try:
        field, made = _STOCK[name](admin(), wallet)
    except KeyError:
        # The wallet has too little for it: the next 500 funds it.
        return
    own[field] = [made, *own[field][:2]]


def launched(client: httpx.Client, wallet: str) -> tuple[str, str]:
    """A mint of the wallet's own."""
    asked = {"name": "Fuzz", "symbol": "FUZZ", "decimals": 6}
    mint = client.post(f"/wallets/{wallet}/launch-token", json=asked).json()["mint"]
    return "mint", mint


def emptied(client: httpx.Client, wallet: str) -> tuple[str, str]:
    """A mint of which the wallet has an account, and nothing in it."""
    _, mint = launched(client, wallet)
    client.post(f"/wallets/{wallet}/burn", json={"mint": mint, "amount": 1_000_000})
    return "empty", mint


def staked(client: httpx.Client, wallet: str) -> tuple[str, str]:
    """A stake of the wallet's, activating."""
    answer = client.post(f"/wallets/{wallet}/stake", json={"amount": 1.1})
    return "stakeAccount", answer.json()["stakeAccount"]


_STOCK: dict[str, Callable[[httpx.Client, str], tuple[str, str]]] = {
    "revoke-authority": launched,
    "revoke-mint-authority": launched,
    "close-account": emptied,
    "close-token-account": emptied,
    "unstake": staked,
    "unstake-sol": staked,
    "withdraw-stake": staked,
}


@schemathesis.check
def record_behind_500(ctx: Any, response: Any, case: Any) -> None:
    """A 500 is a blocked or failed transaction, and its stored record says the same."""
    if response.status_code < 500:
        return
    error = _json(response)["error"]
    assert response.status_code == 500, f"{response.status_code}: {error}"
    wallet = (case.path_parameters or {}).get("walletId")
    if wallet is None and case.operation.label == f"POST {PREFIX}/wallets":
        # The contract's status for it; nothing was to be recorded.
        assert error == str(TooManyWallets(MOST_OF_A_KEY))
        return
    assert wallet is not None, f"500 without a wallet: {error}"
    listed = admin().get(f"/wallets/{wallet}/transactions", params={"limit": 100}).json()
    told = set()
    for record in listed["transactions"]:
        if record["status"] == "blocked":
            rule = record["guardrailsApplied"][-1]
            told.add(f"Transaction blocked by guardrail {rule}: {record['error']}")
        elif record["status"] == "failed":
            told.add(record["error"])
    assert error in told, f"500 without a record behind it: {error}"


@schemathesis.check
def errors_have_one_field(ctx: Any, response: Any, case: Any) -> None:
    """`{"error": text}` and nothing more; 401 with its exact texts; no page of HTML."""
    kind = _kind(response)
    if case.operation.path != "/docs":
        assert "html" not in kind, kind
    if response.status_code < 400 or (case.operation.path == "/mcp" and _of_mcp(response)):
        return
    if case.method.upper() == "HEAD":
        return
    body = _json(response)
    assert list(body) == ["error"], body
    assert isinstance(body["error"], str), body
    assert body["error"], body
    if response.status_code == 401:
        assert body["error"] in UNAUTHORIZED, body
        assert response.headers.get("www-authenticate") == ["Bearer"]


@schemathesis.check
def nothing_is_cached_or_sniffed(ctx: Any, response: Any, case: Any) -> None:
    """Every answer, errors included."""
    assert response.headers.get("cache-control") == ["no-store"], response.headers
    assert response.headers.get("x-content-type-options") == ["nosniff"], response.headers


@schemathesis.check
def credential_decides(ctx: Any, response: Any, case: Any) -> None:
    """Without a credential nothing but the public routes goes well; admin routes need the admin."""
    security = case.operation.definition.raw.get("security", [])
    admins = security == [{"adminSecret": []}]
    barred = security and (FACTS["as"] == "none" or (FACTS["as"] == "key" and admins))
    if barred and case.method.lower() == case.operation.method.lower():
        assert response.status_code in (401, 404, 405), response.status_code


@schemathesis.check
def refusal_names_a_cause(ctx: Any, response: Any, case: Any) -> None:
    """A 400 says in words what is wrong, and never how the code failed."""
    if response.status_code != 400 or case.operation.path == "/mcp":
        return
    error = _json(response)["error"]
    for sign in ("Traceback", "Error(", "Exception", "object at 0x", "NoneType"):
        assert sign not in error, error


def _of_mcp(response: Any) -> bool:
    # Below the credential, answers are the protocol's own.
    return response.status_code not in (401, 404, 405)


def _kind(response: Any) -> str:
    kind: str = response.headers.get("content-type", [""])[0]
    return kind.partition(";")[0]


def _json(response: Any) -> Any:
    try:
        return json.loads(response.content)
    except ValueError as error:
        raise AssertionError(f"not JSON: {response.content[:200]!r}") from error
