"""A service with data of every kind: what a page of the dashboard can show, there is one of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from tests.support.clock import wait_until
from tests.support.plugins import install_keeping
from tests.support.processes import Service, funded_wallet

GRANT = {"may": ["transfer"], "assets": {"SOL": {"per": {"24h": "3"}, "hold": "0.1"}}}


def demo(home: Path, **environment: str) -> Service:
    """A service with the demo's agent, seller and provider, and a plugin of others; not started."""
    home.parent.mkdir(parents=True, exist_ok=True)
    install_keeping(home, home.parent)
    service = Service(home, **environment)
    service.starting = ("up", "--demo", "--no-rpc", "--no-dashboard")
    return service


def furnish(service: Service) -> dict[str, str]:
    """Fill a served `demo`; the ids that stand in the pages' paths, and of a `frozen` wallet."""
    with service.client() as api:
        wallet = funded_wallet(api, "treasury of the northern office", 6)
        shop, frozen = funded_wallet(api, "shop", 0), funded_wallet(api, "cold", 1)
        address = _got(api, f"/wallets/{shop}")["publicKey"]
        _put(api, f"/wallets/{wallet}", {"tags": ["hot", "office"]}, method="PATCH")
        run = f"/wallets/{wallet}"
        _done(api, f"{run}/swap", {"inputToken": "SOL", "outputToken": "USDC", "amount": 0.5})
        _done(api, f"{run}/launch-token", {"name": "Paper", "symbol": "PPR", "initialSupply": 21})
        _done(api, f"{run}/stake", {"amount": 1.1})
        _done(api, f"{run}/transfer", {"to": address, "amount": 0.25})
        refused = api.post(f"{run}/transfer", json={"to": address, "amount": 3})
        assert "max_per_tx" in refused.text, refused.text
        record = str(refused.headers["Solward-Transaction"])
        _done(api, f"{run}/pay", {"url": f"http://{_seller(api)}/forecast", "max": "0.05 USDC"})
        schedule = {"name": "look", "skill": "check_balance", "every": "1h"}
        _done(api, f"{run}/schedules", schedule)
        paused = _done(api, f"{run}/schedules", schedule | {"name": "rest"})["id"]
        _done(api, f"{run}/schedules/{paused}/pause", {})
        _done(api, "/keys", {"name": "reports", "walletId": wallet, "spendingLimitSol": 2})
        holds = [held(service, wallet) for _ in range(3)]
        _done(api, f"/holds/{holds[0]}/approve", {"note": "as agreed"})
        _done(api, f"/holds/{holds[1]}/deny", {"note": "not ours"})
        agent = _agents(api, wallet)
        book = {"book": {"vendors": [address]}}
        _put(api, "/policy", _got(api, "/policy")["policy"] | book)
        _done(api, "/freeze", {"walletId": frozen, "reason": "lost laptop"})
    return {
        "wallet_id": wallet,
        "agent_id": agent,
        "hold_id": holds[2],
        "transaction_id": record,
        "frozen": frozen,
    }


def held(service: Service, wallet: str) -> str:
    """The id of a new hold, of a key of its own that asks for 0.2 SOL to another wallet."""
    with service.client() as api:
        key = _done(api, "/keys", {"name": "till", "grants": [GRANT]})
        others = (each for each in _got(api, "/wallets")["wallets"] if each["id"] != wallet)
        to = next(others)["publicKey"]
    with service.client(str(key["apiKey"])) as asker:
        asked = asker.post(f"/wallets/{wallet}/transfer", json={"to": to, "amount": 0.2})
    assert asked.status_code == 202, asked.text
    return str(asked.json()["holdId"])


def _agents(api: httpx.Client, wallet: str) -> str:
    """One that runs, with decisions; others that are paused, stopped and idle."""
    made: dict[str, str] = {}
    for name in ("watcher", "resting", "retired", "draft"):
        body = {
            "name": name,
            "walletId": wallet,
            "llmProvider": "rules",
            "llmModel": "rules",
            "strategy": f"# {name} looks, and waits.\n# A second line.\nalways do check_balance",
            "loopIntervalMs": 1000,
        }
        made[name] = str(_done(api, "/agents", body)["id"])
        if name != "draft":
            _done(api, f"/agents/{made[name]}/start", {})
    _done(api, f"/agents/{made['resting']}/pause", {})
    _done(api, f"/agents/{made['retired']}/stop", {})
    told = f"/agents/{made['watcher']}/decisions"
    wait_until(lambda: len(_got(api, told)["decisions"]) > 1, "decisions")
    return made["watcher"]


def _seller(api: httpx.Client) -> str:
    """The site that the demo's agent may pay."""
    sites = [
        site for each in _got(api, "/policy")["policy"]["grants"] for site in each.get("via", ())
    ]
    return str(next(each for each in sites if each.startswith("site:"))).removeprefix("site:")


def _got(api: httpx.Client, path: str) -> Any:
    answer = api.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _done(api: httpx.Client, path: str, body: Mapping[str, Any]) -> Any:
    answer = api.post(path, json=body)
    assert answer.status_code == 200, f"{path}: {answer.text}"
    return answer.json()


def _put(api: httpx.Client, path: str, body: Mapping[str, Any], method: str = "PUT") -> None:
    answer = api.request(method, path, json=body)
    assert answer.status_code == 200, f"{path}: {answer.text}"
