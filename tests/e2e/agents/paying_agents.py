"""Agents that pay in every cycle, and what must hold of them by the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import httpx
from tests.e2e.agents.state_after_kill import Deeds, Payment
from tests.support.agents import agent_body
from tests.support.clock import wait_until
from tests.support.processes import Service, funded_wallet, sol_of

from solward.agents.act import RESUMED_REASONING

AMOUNT = Decimal("0.001")
FUNDS = 2
WIDE = {
    "maxSolPerTransaction": 2,
    "maxTransactionsPerMinute": 100_000,
    "dailySpendingLimitSol": 1000,
}
STOPPED = "The agent was stopped; nothing was sent"
RELEASED = "The service stopped before the transaction was signed; nothing was sent"


@dataclass(frozen=True, slots=True)
class Payer:
    """An agent, the wallet it pays from, and who is paid by it and nobody else."""

    agent: str
    wallet: str
    payee: str
    payee_address: str


@dataclass(frozen=True, slots=True)
class Crew:
    """Three who pay, two of them from one wallet, and one who only looks."""

    payers: tuple[Payer, ...]
    looker: str

    @property
    def agents(self) -> tuple[str, ...]:
        return (*(payer.agent for payer in self.payers), self.looker)


def hire(service: Service) -> Crew:
    """The crew, at work every second."""
    with service.client() as client:
        shared, own = (funded_wallet(client, name, FUNDS) for name in ("shared", "own"))
        payers = []
        for number, wallet in enumerate((shared, shared, own)):
            payee = client.post("/wallets", json={"name": f"payee-{number}"}).json()
            rule = f"always do transfer to={payee['address']} amount={AMOUNT}"
            agent = _agent(client, f"payer-{number}", wallet, rule)
            payers.append(Payer(agent, wallet, payee["walletId"], payee["address"]))
        crew = Crew(tuple(payers), _agent(client, "looker", own, "always do check_balance"))
        for agent in crew.agents:
            answer = client.post(f"/agents/{agent}/start")
            assert answer.status_code == 200, answer.text
    return crew


def _agent(client: httpx.Client, name: str, wallet: str, strategy: str) -> str:
    body = agent_body(wallet, name=name, strategy=strategy, loopIntervalMs=1000, guardrails=WIDE)
    answer = client.post("/agents", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def goes_on(service: Service, crew: Crew, left: Mapping[str, Deeds]) -> None:
    """Wait until every agent has ended the cycle it was killed in, by itself, and look at it."""
    wanted = {agent: left[agent].cycle if agent in left else 1 for agent in crew.agents}
    with service.client() as client:
        wait_until(
            lambda: all(_latest(client, agent) >= cycle for agent, cycle in wanted.items()),
            "every agent goes on",
        )
        shown = {agent["id"]: agent["status"] for agent in client.get("/agents").json()["agents"]}
        assert shown == dict.fromkeys(crew.agents, "running")
        for payer in crew.payers:
            if payer.agent in left:
                _taken_up(client, payer, left[payer.agent])


def _taken_up(client: httpx.Client, payer: Payer, left: Deeds) -> None:
    """The cycle killed after it had asked for its payment tells of it; any other was run anew."""
    answer = client.get(
        f"/agents/{payer.agent}/decisions", params={"before": left.cycle + 1, "limit": 1}
    )
    [decision] = answer.json()["decisions"]
    assert decision["cycle"] == left.cycle
    assert decision["action"].startswith("transfer({")
    assert payer.payee_address in decision["action"]
    payment = left.interrupted
    if payment is None:
        assert decision["reasoning"].startswith("Matched rule")
        assert "Status: confirmed" in decision["outcome"]
        return
    assert decision["reasoning"] == RESUMED_REASONING
    assert '"amount":0.001' in decision["action"]
    signed = payment.signed or payment.status == "confirmed"
    told = f"The transaction is confirmed: {payment.signature}" if signed else RELEASED
    assert told in decision["outcome"]
    record = next(r for r in pages(client, payer.wallet) if r["id"] == payment.id)
    assert record["status"] == ("confirmed" if signed else "failed")


def at_rest(service: Service, crew: Crew) -> None:
    """Stop all agents; then budgets and balances, as the ledger has them, are what was decided."""
    with service.client() as client:
        for agent in crew.agents:
            assert client.post(f"/agents/{agent}/stop").status_code == 200
        paid: dict[str, Decimal] = {}
        for payer in crew.payers:
            own = [r for r in pages(client, payer.wallet) if r.get("agentId") == payer.agent]
            landed = [record for record in own if record["status"] == "confirmed"]
            assert {record["status"] for record in own} <= {"confirmed", "failed"}
            assert sol_of(client, payer.payee) == AMOUNT * len(landed)
            fees = Decimal("0.000005") * len(landed)
            paid[payer.wallet] = paid.get(payer.wallet, Decimal(0)) + AMOUNT * len(landed) + fees
            for of in (f"/agents/{payer.agent}/limits", f"/wallets/{payer.wallet}/limits"):
                assert client.get(of).json()["dailySpendingLimitSol"]["reserved"] == 0
            limits = client.get(f"/agents/{payer.agent}/limits").json()
            spent = Decimal(str(limits["dailySpendingLimitSol"]["spent"]))
            assert spent == AMOUNT * len(landed)
            newest = client.get(f"/agents/{payer.agent}/decisions", params={"limit": 100}).json()
            memory = client.get(f"/agents/{payer.agent}/memory").json()["memory"]
            keys = ("cycle", "reasoning", "action", "outcome")
            decided = [{key: each[key] for key in keys} for each in newest["decisions"]]
            assert [{key: each[key] for key in keys} for each in memory] == decided
        for wallet, amount in paid.items():
            assert sol_of(client, wallet) == FUNDS - amount


def told_truly(deeds: Deeds) -> None:
    """Every decision is the truth about its payment; none is without one, but for a cycle that ran
    as its agent was stopped at the end."""
    unpaid = deeds.decisions.keys() - deeds.payments.keys()
    assert {deeds.decisions[cycle][2] for cycle in unpaid} <= {STOPPED}
    for cycle, (_reasoning, _action, outcome, _ms) in deeds.decisions.items():
        if cycle in unpaid:
            continue
        payment = deeds.payments[cycle]
        assert _is_told(payment, outcome), (cycle, payment, outcome)


def _is_told(payment: Payment, outcome: str) -> bool:
    if payment.status == "confirmed":
        return payment.signature is not None and payment.signature in outcome
    return payment.status == "failed" and RELEASED in outcome


def landed_on(url: str, address: str) -> list[str]:
    """The signatures of all that succeeded on an account, asked of the ledger's own RPC."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "getSignaturesForAddress", "params": [address]}
    found = httpx.post(url, json=call, timeout=10).json()["result"]
    return [each["signature"] for each in found if each["err"] is None]


def pages(client: httpx.Client, wallet: str) -> list[dict[str, Any]]:
    """All records of a wallet."""
    found: list[dict[str, Any]] = []
    query: dict[str, str] = {"limit": "500"}
    while True:
        answer = client.get(f"/wallets/{wallet}/transactions", params=query)
        page = answer.json()["transactions"]
        found += page
        if len(page) < 500:
            return found
        query["before"] = page[-1]["id"]


def _latest(client: httpx.Client, agent: str) -> int:
    found = client.get(f"/agents/{agent}/decisions", params={"limit": 1}).json()["decisions"]
    return int(found[0]["cycle"]) if found else 0
