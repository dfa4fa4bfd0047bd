"""Killed at every named point of the money path, a skill that keeps state never buys twice for one
period, and what it remembers is there exactly where its record is."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.promises import promise
from tests.support.examples import rest_is_long
from tests.support.plugins import Shelf, skill_source
from tests.support.processes import Service, funded_wallet, sol_of
from tests.support.repository import ROOT

from solward.vault.money.steps import PAID_STEPS, Step

pytestmark = pytest.mark.more

# Pays once a period, and says what it remembers.
SCHEMA = (
    '{"type": "object", "additionalProperties": False, "required": ["to", "do"], "properties":'
    ' {"to": {"type": "string"}, "do": {"enum": ["buy", "look"]}}}'
)
BODY = """
entry = await context.store.get("bought")
if params["do"] == "look":
    made = await context.history(type="transfer")
    shown = [entry.transaction_id, entry.status.value] if entry else []
    return " ".join(["entry", *shown, "records", *(f"{e.id} {e.status.value}" for e in made)])
if entry is not None and not entry.failed:
    return f"bought already in {entry.transaction_id}"
version = 0 if entry is None else entry.version
record = await context.transfer(
    to=params["to"], amount=Decimal("0.01"), remember=Put("bought", 1, version=version)
)
return f"bought {record.id}"
"""
PRICE = Decimal("0.01")
# From here on the bytes may be on the ledger: what is remembered stands.
DURABLE = (Step.WRITTEN_AHEAD, Step.SENT, Step.LANDED, Step.SETTLED)


@pytest.fixture
def service(services: Any, tmp_path: Path) -> Service:
    """A service whose plugin host runs the skill `buy`."""
    shelf = Shelf(tmp_path / "shelf")
    shelf.path.mkdir()
    source = skill_source("buy", schema=SCHEMA, body=BODY, effects="Effects.SPEND")
    imports = "from decimal import Decimal\nfrom solward import Put\n"
    shelf.install("buying", {"buy": f"{imports}{source}"})
    sources = [str(ROOT / each) for each in ("framework", "plugins", "server")]
    path = os.pathsep.join([str(shelf.path), *sources])
    made: Service = services(PYTHONPATH=path, SOLWARD_PLUGINS_UNCONFINED="buying")
    return made


def ran(client: httpx.Client, wallet: str, to: str, do: str) -> str:
    """What the skill answers."""
    answer = client.post(f"/wallets/{wallet}/skills/buy", json={"to": to, "do": do})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["result"])


@promise("killed-skill-buys-once")
@pytest.mark.parametrize(
    "step", rest_is_long(PAID_STEPS, Step.RESERVED, Step.WRITTEN_AHEAD, Step.LANDED)
)
def test_a_purchase_killed_and_asked_for_again_is_made_once(service: Service, step: Step) -> None:
    service.start()
    with service.client() as client:
        sender = funded_wallet(client, "sender", 2)
        shop = client.post("/wallets", json={"name": "shop"}).json()
    service.stop()

    service.start(f"kill:{step}:1")
    with service.client() as client, pytest.raises(httpx.TransportError):
        ran(client, sender, shop["address"], "buy")
    service.wait_killed()

    service.start()
    with service.client() as client:
        seen = ran(client, sender, shop["address"], "look").split()
        at = seen.index("records")
        entry, records = seen[1:at], seen[at + 1 :]
        # Written with the record or not at all.
        assert entry == records
        assert (entry != []) == (step not in (Step.BUILT, Step.ASSESSED))
        if entry:
            assert entry[1] == ("confirmed" if step in DURABLE else "failed")
        answers = [ran(client, sender, shop["address"], "buy") for _ in range(2)]
        assert answers[0].startswith("bought already" if step in DURABLE else "bought ")
        assert answers[1].startswith("bought already")
        assert sol_of(client, shop["walletId"]) == PRICE
    service.stop()
