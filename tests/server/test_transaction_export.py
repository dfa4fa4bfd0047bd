"""The history as CSV: exact, named, harmless in a spreadsheet, and a page at a time."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.database import statements_of
from tests.support.services import STRANGER, Api, serving_events, settings

from solward.database import tables
from solward.service import history
from solward.service.history import History, RecordFilter
from solward.service.service import Solward
from solward.solana.token_list import token_list
from solward.types.address_book import AddressBook, KnownAddress
from solward.types.record import TransactionRecord, TransactionStatus
from solward_server.resources import transactions
from solward_server.resources.transactions import COLUMNS, RowNames, escape_cell

OTHER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
TOKENS = token_list("localnet")
USDC = TOKENS.resolve("USDC", "mint")
RECORD = TransactionRecord(
    "t1",
    "w1",
    "transfer",
    TransactionStatus.CONFIRMED,
    {"from": OTHER, "to": STRANGER, "amount": Decimal("0.000000001")},
    ("max_per_tx",),
    created_ms=1_795_424_127_123,
    principal="admin",
    signature="5sig",
    fee_lamports=5_000,
)


def read(text: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text.decode(), newline="")))


def row_of(record: TransactionRecord, **naming: Any) -> dict[str, str]:
    text = transactions.csv_header() + transactions.csv_rows(
        [record], RowNames(TOKENS, naming.pop("decimals", {}), **naming)
    )
    (row,) = read(text)
    return row


@promise("csv-rows-are-exact")
def test_a_row_is_exact_and_has_its_units() -> None:
    named = AddressBook.from_lists(contacts=[KnownAddress(STRANGER, "Landlord")])
    row = row_of(RECORD, known=named, wallets={"w1": "till"})
    assert row == dict.fromkeys(COLUMNS, "") | {
        "time": "2026-11-23T08:55:27.123Z",
        "status": "confirmed",
        "type": "transfer",
        "amount": "0.000000001",
        "unit": "SOL",
        "raw amount": "1",
        "counterpart": STRANGER,
        "counterpart name": "Landlord",
        "wallet": "w1",
        "wallet name": "till",
        "requested by": "admin",
        "fee SOL": "0.000005",
        "fee lamports": "5000",
        "signature": "5sig",
        "transaction": "t1",
    }


def test_a_swap_has_what_left_and_what_arrived() -> None:
    details = {
        "inputToken": "So11111111111111111111111111111111111111112",
        "outputToken": USDC,
        "inputAmount": Decimal("1E+1"),
        "outputAmount": Decimal("1499.123456"),
    }
    row = row_of(replace(RECORD, type="swap", details=details))
    assert (row["amount"], row["unit"], row["raw amount"]) == ("10", "SOL", "10000000000")
    assert (row["received"], row["received unit"]) == ("1499.123456", "USDC")
    assert (row["received mint"], row["raw received"]) == (USDC, "1499123456")
    for status in set(TransactionStatus) - {TransactionStatus.CONFIRMED}:
        row = row_of(replace(RECORD, type="swap", details=details, status=status))
        assert row["amount"] == "10"
        assert {row[each] for each in COLUMNS if "received" in each} == {""}
    # Nothing is made up of a mint whose decimals nobody knows.
    other = {"to": STRANGER, "mint": OTHER, "amount": Decimal("0.5"), "received": Decimal("0.4")}
    row = row_of(replace(RECORD, type="token_transfer", details=other))
    assert (row["amount"], row["unit"], row["mint"], row["raw amount"]) == ("0.5", "", OTHER, "")
    row = row_of(replace(RECORD, type="token_transfer", details=other), decimals={OTHER: 2})
    assert (row["raw amount"], row["raw received"]) == ("50", "40")


def test_a_refusal_has_its_rule_and_reason_and_no_fee() -> None:
    refused = replace(
        RECORD, status=TransactionStatus.BLOCKED, error="too much", signature=None, fee_lamports=5
    )
    row = row_of(refused)
    assert (row["rule"], row["reason"], row["fee SOL"]) == ("max_per_tx", "too much", "")


def test_an_address_that_only_looks_like_a_known_one_is_named_as_that() -> None:
    other = STRANGER[:12] + ("a" if STRANGER[12] != "a" else "b") + STRANGER[13:]
    known = AddressBook.from_lists(contacts=[KnownAddress(other, "Landlord")])
    assert row_of(RECORD, known=known)["counterpart name"] == "not Landlord, looks like it"


FORMULAS = (
    "=1+1",
    "+1",
    "-1",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\u00a0=1",
    "\uff1d1",
    "\uff0b1",
)


@promise("no-formula-in-csv")
@pytest.mark.parametrize("text", FORMULAS, ids=range(len(FORMULAS)))
def test_no_cell_of_untrusted_text_begins_a_formula(text: str) -> None:
    assert escape_cell(text).startswith(f"'{text[0]}")
    hostile = replace(
        RECORD,
        type="other",
        status=TransactionStatus.BLOCKED,
        agent_id=text,
        principal=text,
        signature=text,
        error=text,
        guardrails_applied=(text,),
        details={"validator": text, "mint": text, "amount": Decimal(-5)},
    )
    known = AddressBook.from_lists(contacts=[KnownAddress(text, text)])
    row = row_of(hostile, known=known, wallets={"w1": text})
    for value in row.values():
        assert not value.lstrip(" \u00a0").startswith(transactions._FORMULA), row
    # Nor does one of a spreadsheet that separates by semicolons or tabs.
    for between in (";", "; ", '";"', "\t", "\n", "\r\n"):
        for cell in re.split("[;\t\r\n]", escape_cell(f"a{between}{text}")):
            assert not cell.strip('" \u00a0').startswith(transactions._FORMULA), between
    # And only those cells are changed.
    assert escape_cell("a; b = -5; 3") == "a; b = -5; 3"
    assert escape_cell("1+1=2, -5") == "1+1=2, -5"


@promise("csv-quotes-specials")
def test_commas_quotes_and_line_ends_are_quoted() -> None:
    said = 'a "b", c\r\nd'
    raw = transactions.csv_rows([replace(RECORD, error=said)], RowNames(TOKENS, {}))
    assert b'"a ""b"", c\r\nd"' in raw
    assert raw.endswith(b"\r\n")
    assert row_of(replace(RECORD, error=said))["reason"] == said


async def exported(api: Api, query: str = "", **options: Any) -> list[dict[str, str]]:
    answer = await api.get(f"/transactions.csv{query}", **options)
    assert answer.status == 200, answer.text
    assert answer.headers["Content-Type"].startswith("text/csv")
    return read(answer.text.encode())


@promise("export-equals-list")
async def test_what_is_listed_is_what_is_exported(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "EXPORT_PAGE", 2)
    wallet = (await api.post("/wallets", {"name": "=till"})).json["walletId"]
    await api.post(f"/wallets/{wallet}/airdrop", {"amount": 2})
    await api.post("/contacts", {"address": STRANGER, "name": "Landlord"})
    for amount in ("0.1", "0.2", "5"):
        body = {"to": STRANGER, "amount": Decimal(amount)}
        await api.post(f"/wallets/{wallet}/transfer", body)
    rows = await exported(api)
    assert [each["transaction"] for each in rows] == [
        each["id"] for each in await api.records(wallet)
    ]
    assert [each["amount"] for each in rows] == ["5", "0.2", "0.1", "2"]
    assert {each["wallet name"] for each in rows} == {"'=till"}
    assert [each["counterpart name"] for each in rows] == ["Landlord"] * 3 + ["wallet =till"]
    (refused,) = await exported(api, "?status=blocked")
    assert (refused["rule"], refused["raw amount"]) == ("max_per_tx", "5000000000")
    assert await exported(api, "?recipient=Landlord&status=failed") == []
    # A key sees its own wallet's, without what the operator calls anybody.
    await api.wallet(1)
    key, _ = await api.key(walletId=wallet)
    seen = await exported(api, token=key)
    assert [each["transaction"] for each in seen] == [each["transaction"] for each in rows]
    assert {each["wallet name"] + each["counterpart name"] for each in seen} == {""}
    assert (await api.get("/transactions.csv?status=nope")).status == 400
    assert (await api.get("/transactions.csv", token="sk-" + "0" * 32)).status == 401


async def fill(service: Solward, records: int) -> None:
    """A wallet with so many records."""
    row = {
        "wallet_id": (await service.wallets.create("till")).id,
        "principal": "admin",
        "type": "transfer",
        "status": "confirmed",
        "details": '{"amount":0.1}',
        "guardrails_applied": [],
        "held_lamports": 0,
    }
    async with service.database.write() as connection:
        rows = [row | {"id": f"t{n}", "created_ms": n} for n in range(records)]
        await connection.execute(tables.transactions.insert(), rows)


@dataclass
class Pages:
    """What an export writes.

    Attributes:
        sizes: records of each page.
        rounds: of the event loop before each page.
        ended: that nothing more is read.
    """

    sizes: list[int] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    round: int = 0

    async def count_rounds(self) -> None:
        while True:
            self.round += 1
            await asyncio.sleep(0)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Pages:
    pages = Pages()
    rows, filtered = transactions.csv_rows, History.pages

    def counted(records: list[TransactionRecord], naming: RowNames) -> bytes:
        pages.sizes.append(len(records))
        pages.rounds.append(pages.round)
        return rows(records, naming)

    async def until_left(
        records: History, wanted: RecordFilter
    ) -> AsyncGenerator[list[TransactionRecord], None]:
        try:
            async with aclosing(filtered(records, wanted)) as found:
                async for page in found:
                    yield page
        finally:
            pages.ended.set()

    monkeypatch.setattr(transactions, "csv_rows", counted)
    monkeypatch.setattr(History, "pages", until_left)
    return pages


@promise("export-reads-in-pages")
async def test_a_long_history_is_read_and_written_a_page_at_a_time(api: Api, pages: Pages) -> None:
    await fill(api.service, 500)
    async with statements_of(api.service.database) as seen:
        assert len(await exported(api)) == 500
    assert max(pages.sizes) == history.EXPORT_PAGE == 50
    assert len(pages.sizes) == 10
    # What was launched, contacts and address book once; of each page its ids, its records and its
    # wallets; and that there is no other page.
    assert len([each for each in seen if each.startswith("SELECT")]) == 2 + 3 * 10 + 1


@promise("exports-let-others-through")
async def test_others_are_served_between_the_pages_of_an_export(
    tmp_path: Path, pages: Pages
) -> None:
    async with Solward.open(settings(tmp_path)) as service, serving_events(service) as served:
        await fill(service, 1_000)
        counting = asyncio.create_task(pages.count_rounds())
        # A client that reads as fast as is written lets no response wait.
        answers = await asyncio.gather(*(served.client.get("/transactions.csv") for _ in range(2)))
        counting.cancel()
    assert [len(read(each.content)) for each in answers] == [1_000, 1_000]
    assert len(pages.rounds) == 40
    assert all(before < after for before, after in pairwise(pages.rounds))


@promise("export-ends-with-client")
async def test_an_export_ends_with_the_client_that_leaves(tmp_path: Path, pages: Pages) -> None:
    async with Solward.open(settings(tmp_path)) as service, serving_events(service) as served:
        await fill(service, 10_000)
        async with served.client.stream("GET", "/transactions.csv") as response:
            await anext(response.aiter_raw())
        async with asyncio.timeout(30):
            await pages.ended.wait()
        assert (await served.client.get("/health")).status_code == 200
    assert 0 < len(pages.sizes) < 100
