"""The seller by MPP, on a real ledger: what it serves, and the buyers whom it does not."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from paid_api import NotPaid, Served, mpp
from paid_api.forecast import create_app
from paid_market import PRICE, Market, asked, challenge_of, credential, memo
from quart.testing import QuartClient
from quart.wrappers import Response
from solders.compute_budget import set_compute_unit_limit
from solders.instruction import Instruction
from solders.keypair import Keypair


async def reason(answer: Response) -> str:
    assert answer.status_code == 402
    return str((await answer.get_json())["detail"])


async def bought(
    market: Market, seller: QuartClient, *steps: Instruction, path: str = "/forecast"
) -> tuple[dict[str, str], str]:
    """A challenge, and the signature of the payment that it asks for, or of other `steps`."""
    challenge = challenge_of(await seller.get(path))
    paying = steps or (market.transfer(),)
    return challenge, await market.land([*paying, memo(asked(challenge)["externalId"])])


async def test_who_paid_is_served_once_and_gets_a_receipt(
    market: Market, seller: QuartClient
) -> None:
    challenge, signature = await bought(market, seller)
    assert asked(challenge) == {
        "amount": str(PRICE),
        "currency": str(market.mints[0]),
        "recipient": str(market.seller),
        "externalId": asked(challenge)["externalId"],
        "description": "Tomorrow's weather",
        "methodDetails": {
            "network": "localnet",
            "decimals": 6,
            "tokenProgram": market.price.token_program,
        },
    }
    answer = await seller.get("/forecast", headers=credential(challenge, signature))
    assert answer.status_code == 200
    assert set(await answer.get_json()) == {"day", "forecast"}
    receipt = answer.headers["Payment-Receipt"]
    told = json.loads(base64.urlsafe_b64decode(receipt + "=" * (-len(receipt) % 4)))
    assert (told["status"], told["reference"]) == ("success", signature)

    again = await seller.get("/forecast", headers=credential(challenge, signature))
    assert "served already" in await reason(again)
    other = challenge_of(await seller.get("/forecast"))
    anew = await seller.get("/forecast", headers=credential(other, signature))
    assert "served already" in await reason(anew)


async def test_who_hands_the_transaction_over_is_served_once_and_has_paid_once(
    market: Market, seller: QuartClient
) -> None:
    challenge = challenge_of(await seller.get("/forecast"))
    wire = await market.signed([market.transfer(), memo(asked(challenge)["externalId"])])
    headers = credential(challenge, wire, "transaction")
    answers = await asyncio.gather(*(seller.get("/forecast", headers=headers) for _ in range(3)))
    assert sorted(answer.status_code for answer in answers) == [200, 402, 402]
    again = await seller.get("/forecast", headers=headers)
    assert "served already" in await reason(again)
    held = await market.client.get_token_account_balance(market.account(market.seller))
    assert held.value.amount == str(PRICE)


@pytest.mark.parametrize("wire", [None, 7, "!", "", "AA==", "AIAA"], ids=repr)
async def test_what_is_no_transaction_is_refused(seller: QuartClient, wire: object) -> None:
    challenge = challenge_of(await seller.get("/forecast"))
    headers = credential(challenge, wire, "transaction")
    assert (await seller.get("/forecast", headers=headers)).status_code == 402


async def test_a_transaction_that_cannot_pay_is_refused_with_the_ledgers_reason(
    market: Market, seller: QuartClient
) -> None:
    challenge = challenge_of(await seller.get("/forecast"))
    steps = [market.transfer(2_000_000), memo(asked(challenge)["externalId"])]
    headers = credential(challenge, await market.signed(steps), "transaction")
    answer = await seller.get("/forecast", headers=headers)
    assert "the ledger refuses the transaction" in await reason(answer)


async def test_two_requests_at_once_with_one_payment_are_served_once(
    market: Market, seller: QuartClient
) -> None:
    headers = credential(*await bought(market, seller))
    answers = await asyncio.gather(*(seller.get("/forecast", headers=headers) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 402, 402, 402, 402]


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        pytest.param(lambda m: [m.transfer(PRICE - 1)], "another amount was paid", id="less"),
        pytest.param(lambda m: [m.transfer(PRICE + 1)], "another amount was paid", id="more"),
        pytest.param(lambda m: [m.transfer(mint=1)], "not one transfer", id="other mint"),
        pytest.param(
            lambda m: [m.transfer(to=m.account(m.buyer.pubkey()))],
            "not one transfer",
            id="to the buyer himself",
        ),
        pytest.param(
            lambda m: [m.transfer(), m.transfer()], "not one transfer", id="two transfers"
        ),
        pytest.param(lambda m: [m.transfer(), memo("more")], "the memo", id="two memos"),
        pytest.param(
            lambda m: [set_compute_unit_limit(100_000)], "not one transfer", id="no transfer"
        ),
    ],
)
async def test_another_payment_than_was_asked_for_is_not_served(
    market: Market,
    seller: QuartClient,
    steps: Callable[[Market], list[Instruction]],
    why: str,
) -> None:
    challenge, signature = await bought(market, seller, *steps(market))
    answer = await seller.get("/forecast", headers=credential(challenge, signature))
    assert why in await reason(answer)


async def test_what_another_buyer_paid_is_not_served(market: Market, seller: QuartClient) -> None:
    _, others = await bought(market, seller)
    own = challenge_of(await seller.get("/forecast"))
    answer = await seller.get("/forecast", headers=credential(own, others))
    assert "the memo" in await reason(answer)


async def test_a_challenge_is_for_one_request_and_of_this_seller(
    market: Market, seller: QuartClient
) -> None:
    challenge, signature = await bought(market, seller, path="/forecast?day=1")
    elsewhere = await seller.get("/forecast?day=2", headers=credential(challenge, signature))
    assert "not one that was issued" in await reason(elsewhere)
    cheap = json.dumps({**asked(challenge), "amount": "1"}).encode()
    changed = {**challenge, "request": base64.urlsafe_b64encode(cheap).decode()}
    answer = await seller.get("/forecast?day=1", headers=credential(changed, signature))
    assert "not one that was issued" in await reason(answer)
    later = {**challenge, "expires": "2999-01-01T00:00:00.000Z"}
    answer = await seller.get("/forecast?day=1", headers=credential(later, signature))
    assert "not one that was issued" in await reason(answer)
    served = await seller.get("/forecast?day=1", headers=credential(challenge, signature))
    assert served.status_code == 200


async def test_an_expired_challenge_is_not_served(
    market: Market, seller: QuartClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpp, "LIFETIME", timedelta(seconds=-1))
    challenge, signature = await bought(market, seller)
    answer = await seller.get("/forecast", headers=credential(challenge, signature))
    assert "expired" in await reason(answer)


async def test_what_is_older_than_the_challenge_or_failed_is_not_its_payment(
    market: Market, seller: QuartClient
) -> None:
    challenge, signature = await bought(market, seller)
    how = {"encoding": "jsonParsed", "maxSupportedTransactionVersion": 0}
    landed = await market.localnet.call("getTransaction", [signature, how])
    wanted, program = asked(challenge), market.price.token_program
    mpp.check(landed, wanted, program, landed["blockTime"])
    with pytest.raises(NotPaid, match="older than the challenge"):
        mpp.check(landed, wanted, program, landed["blockTime"] + 1)
    failed = {**landed, "meta": {**landed["meta"], "err": {"InstructionError": [0, "Custom"]}}}
    with pytest.raises(NotPaid, match="failed on the ledger"):
        mpp.check(failed, wanted, program, 0)
    # As where the mint keeps a fee of each transfer.
    kept = {**landed, "meta": {**landed["meta"], "postTokenBalances": []}}
    with pytest.raises(NotPaid, match="another amount has arrived"):
        mpp.check(kept, wanted, program, 0)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer x",
        "Payment",
        "Payment !",
        "Payment e30",
        "Payment W10",
        "Payment " + "x" * 20_000,
    ],
    ids=["none", "bearer", "empty", "no base64", "no fields", "a list", "long"],
)
async def test_what_is_no_credential_gets_a_new_challenge(seller: QuartClient, header: str) -> None:
    answer = await seller.get("/forecast", headers={"Authorization": header})
    assert challenge_of(answer)["method"] == "solana"


@pytest.mark.parametrize("signature", [None, 7, "", "0" * 88, "l" * 88], ids=repr)
async def test_what_is_no_signature_is_refused_without_asking_the_ledger(
    market: Market, seller: QuartClient, signature: object
) -> None:
    challenge = challenge_of(await seller.get("/forecast"))
    await market.localnet.close()
    answer = await seller.get("/forecast", headers=credential(challenge, signature))
    assert answer.status_code == 402


async def test_a_signature_that_is_nowhere_is_not_served(
    seller: QuartClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpp, "LOOK_S", 0)
    challenge = challenge_of(await seller.get("/forecast"))
    nowhere = str(Keypair().sign_message(b"nothing"))
    answer = await seller.get("/forecast", headers=credential(challenge, nowhere))
    assert "no transaction" in await reason(answer)


async def test_while_the_ledger_cannot_be_read_nothing_is_taken(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no")

    transports: list[httpx.AsyncBaseTransport] = [
        httpx.MockTransport(fails),
        httpx.AsyncHTTPTransport(),
    ]

    class Switched(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            return await transports[0].handle_async_request(request)

    async with httpx.AsyncClient(transport=Switched()) as http, transports[1]:
        app = create_app(
            pay_to=str(market.seller),
            price=market.price,
            network="localnet",
            rpc_url=market.rpc_url,
            http=http,
        )
        async with app.test_app() as running:
            seller = running.test_client()
            headers = credential(*await bought(market, seller))
            assert (await seller.get("/forecast", headers=headers)).status_code == 503
            del transports[0]
            assert (await seller.get("/forecast", headers=headers)).status_code == 200
            transports.insert(0, httpx.MockTransport(fails))


async def test_a_route_that_fails_leaves_the_payment_to_be_shown_again(
    market: Market, seller: QuartClient
) -> None:
    app = seller.app
    fails = True

    async def forecast() -> tuple[str, int]:
        return ("out of order", 500) if fails else ("sunny", 200)

    async with httpx.AsyncClient() as http:
        charging = mpp.Mpp(
            pay_to=str(market.seller),
            rpc_url=market.rpc_url,
            network="localnet",
            secret=b"s" * 32,
            served=(memory := Served()),
            http=http,
        )
        charged = charging.charges(market.price)(forecast)

        async def asked_for(headers: dict[str, str]) -> Response:
            async with app.test_request_context("/f", headers=headers):
                answer: Response = await charged()
                return answer

        challenge = challenge_of(await asked_for({}))
        signature = await market.land([market.transfer(), memo(asked(challenge)["externalId"])])
        headers = credential(challenge, signature)
        assert (await asked_for(headers)).status_code == 500
        fails = False
        assert (await asked_for(headers)).status_code == 200
        assert (await asked_for(headers)).status_code == 402
        memory.close()


def test_what_was_served_is_known_after_a_restart(tmp_path: Path) -> None:
    first = Served(tmp_path / "served.db")
    assert first.take("a")
    first.close()
    second = Served(tmp_path / "served.db")
    assert second.has("a")
    assert not second.take("a")
    assert second.take("b")
    second.close()
