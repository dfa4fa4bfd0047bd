"""Refusals are typed and carry the service's words; the token is in none of them."""

from __future__ import annotations

import copy
import pickle
import traceback
from decimal import Decimal

import httpx
import pytest
from tests.client.conftest import URL
from tests.support.services import NOBODY, SECRET, Carrier

from solward.client import (
    BadRequest,
    ClientError,
    Forbidden,
    NotFoundError,
    RateLimited,
    Refused,
    ServerError,
    SolwardClient,
    Unauthorized,
)
from solward.types.errors import InvalidRequest, SolwardError

STRANGER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"


def as_key(carrier: Carrier, token: str) -> SolwardClient:
    return SolwardClient(URL, token, transport=carrier)


async def test_a_wrong_token_is_unauthorized(carrier: Carrier) -> None:
    for token in ("", "sk-wrong"):
        async with as_key(carrier, token) as stranger:
            assert (await stranger.health()).status == "ok"
            with pytest.raises(Unauthorized) as refused:
                await stranger.wallets.list()
            assert refused.value.status == 401
            assert "API key" in str(refused.value)


async def test_a_key_may_not_do_what_is_the_admins(client: SolwardClient, carrier: Carrier) -> None:
    wallet = await client.wallets.create()
    key = await client.keys.create(name="confined", wallet_id=wallet.id)
    async with as_key(carrier, key.api_key) as confined:
        with pytest.raises(Unauthorized, match="admin API secret required"):
            await confined.keys.list()
        with pytest.raises(Unauthorized, match="admin API secret required"):
            await anext(confined.events())
        with pytest.raises(Forbidden, match="confined to one wallet"):
            await confined.wallets.create()


async def test_a_bad_field_is_named(client: SolwardClient) -> None:
    wallet = await client.wallets.create()
    with pytest.raises(BadRequest, match="to "):
        await client.wallets.transfer(wallet.id, to="", amount=1)
    with pytest.raises(BadRequest, match="amount must be greater than 0"):
        await client.wallets.transfer(wallet.id, to=STRANGER, amount=0)
    with pytest.raises(BadRequest, match="amount"):
        await client.wallets.run_skill(wallet.id, "transfer", {"to": STRANGER})
    with pytest.raises(BadRequest, match="limit must be a whole number from 1 to 500"):
        await client.transactions.list(limit=501)


async def test_a_block_and_a_failure_are_refused_with_the_reason(client: SolwardClient) -> None:
    wallet = await client.wallets.create()
    await client.wallets.airdrop(wallet.id)
    with pytest.raises(Refused, match="blocked by guardrail max_per_tx") as blocked:
        await client.wallets.transfer(wallet.id, to=STRANGER, amount=5)
    assert (blocked.value.status, blocked.value.idempotency_key) == (500, None)
    with pytest.raises(Refused, match="insufficient"):
        await client.wallets.transfer(wallet.id, to=STRANGER, amount="1.5")
    with pytest.raises(Refused, match="max_per_tx"):
        await client.wallets.run_skill(wallet.id, "transfer", {"to": STRANGER, "amount": 5})


async def test_a_refusal_names_its_rule_its_record_and_when_to_come_back(
    client: SolwardClient, carrier: Carrier
) -> None:
    wallet = await client.wallets.create()
    await client.wallets.airdrop(wallet.id)
    with pytest.raises(Refused) as blocked:
        await client.wallets.transfer(wallet.id, to=STRANGER, amount=5)
    with pytest.raises(Refused) as failed:
        await client.wallets.transfer(wallet.id, to=STRANGER, amount="1.5")
    last, first = (await client.wallets.transactions(wallet.id))[:2]
    for error in (
        blocked.value,
        copy.copy(blocked.value),
        pickle.loads(pickle.dumps(blocked.value)),
    ):
        assert (error.rule, error.transaction_id) == ("max_per_tx", first.id)
        assert error.retry_after_s is None
    assert (failed.value.rule, failed.value.transaction_id) == (None, last.id)
    headers = {"Solward-Rule": "my%2Frule", "Solward-Transaction": "t", "Retry-After": "12"}
    headers["Solward-Api"] = "v1"
    carrier.before = lambda _request: httpx.Response(500, json={"error": "No"}, headers=headers)
    with pytest.raises(Refused) as told:
        await client.wallets.transfer(wallet.id, to=STRANGER, amount="0.1")
    seen = (told.value.rule, told.value.transaction_id, told.value.retry_after_s)
    assert seen == ("my/rule", "t", 12)


async def test_a_reused_key_with_another_body_is_a_bad_request(client: SolwardClient) -> None:
    wallet = await client.wallets.create()
    await client.wallets.airdrop(wallet.id, amount=1, idempotency_key="one")
    with pytest.raises(BadRequest, match="different request body") as refused:
        await client.wallets.airdrop(wallet.id, amount=2, idempotency_key="one")
    assert refused.value.status == 422


async def test_a_rate_limit_says_when_to_come_back(client: SolwardClient, carrier: Carrier) -> None:
    wallet = await client.wallets.create()
    key = await client.keys.create(name="slow", rate_limit=1)
    async with as_key(carrier, key.api_key) as slow:
        await slow.wallets.airdrop(wallet.id)
        with pytest.raises(RateLimited, match="Rate limit exceeded") as limited:
            await slow.wallets.airdrop(wallet.id)
    assert limited.value.retry_after_s is not None
    assert 0 < limited.value.retry_after_s <= 60


async def test_another_failure_of_the_service_is_its_own(
    client: SolwardClient, carrier: Carrier
) -> None:
    carrier.before = lambda _request: httpx.Response(500, json={"error": "Internal error"})
    with pytest.raises(ServerError, match="Internal error"):
        await client.wallets.list()


async def test_a_float_is_no_amount(
    client: SolwardClient, carrier: Carrier, subtests: pytest.Subtests
) -> None:
    for amount in (0.5, True, None, [1], b"1"):
        with subtests.test(amount=amount):
            wallet = await client.wallets.create()
            asked = len(carrier.requests)
            for call in (
                client.wallets.transfer(wallet.id, to=STRANGER, amount=amount),
                client.wallets.dry_run.transfer(wallet.id, to=STRANGER, amount=amount),
                client.wallets.burn(wallet.id, mint=STRANGER, amount=amount),
                client.wallets.stake(wallet.id, amount=amount),
            ):
                with pytest.raises(TypeError, match="amount must be a Decimal"):
                    await call
            assert len(carrier.requests) == asked


async def test_a_float_is_found_wherever_it_hides(client: SolwardClient) -> None:
    wallet = await client.wallets.create()
    with pytest.raises(TypeError, match=r"legs\[1\]\.amount must be"):
        await client.wallets.run_skill(
            wallet.id, "transfer", {"legs": [{"amount": 1}, {"amount": 0.1}]}
        )
    with pytest.raises(TypeError, match="spending_limit_sol must be"):
        await client.keys.create(name="k", spending_limit_sol=0.5)  # type: ignore[arg-type]


async def test_a_text_that_is_no_plain_number_is_refused(
    client: SolwardClient, carrier: Carrier, subtests: pytest.Subtests
) -> None:
    for amount in (
        "",
        "abc",
        "1e3",
        "-1",
        "+1",
        "1_0",
        "Infinity",
        "NaN",
        "٣",
        "1,5",
        "0x1",
        Decimal("NaN"),
    ):
        with subtests.test(amount=amount):
            with pytest.raises(InvalidRequest, match="amount must be a"):
                await client.wallets.transfer(NOBODY, to=STRANGER, amount=amount)
            assert carrier.requests == []


async def test_an_id_stays_one_part_of_the_path(
    client: SolwardClient, subtests: pytest.Subtests
) -> None:
    for wallet_id in ("../keys", "a/b", "a?b=c", "ä", "a b", "%2e%2e"):
        with subtests.test(wallet_id=wallet_id), pytest.raises(NotFoundError):
            await client.wallets.get(wallet_id)


async def test_an_id_that_would_change_the_path_is_refused(
    client: SolwardClient, carrier: Carrier, subtests: pytest.Subtests
) -> None:
    for wallet_id in ("", ".", ".."):
        with subtests.test(wallet_id=wallet_id):
            with pytest.raises(InvalidRequest, match="wallet_id must be an id"):
                await client.wallets.balance(wallet_id)
            assert carrier.requests == []


async def test_a_key_the_header_cannot_hold_is_refused(
    client: SolwardClient, subtests: pytest.Subtests
) -> None:
    for key in ("", "x" * 256, "a\nb", "ü", " ", " kx", "kx "):
        said = pytest.raises(InvalidRequest, match=r"idempotency_key must be .* nothing was sent")
        with subtests.test(key=key), said:
            await client.wallets.airdrop(NOBODY, idempotency_key=key)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:3001", "ftp://h", "http://", "http://u:p@h", "http://h/?q=1", "http://h/#f"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="url must"):
        SolwardClient(url, SECRET)


async def test_the_address_may_end_with_the_interfaces_own_path() -> None:
    for url in (URL, f"{URL}/", f"{URL}/api/v1", f"{URL}/api/v1/"):
        async with SolwardClient(url, SECRET) as client:
            assert client.url == URL


async def test_the_token_is_in_no_error_and_no_repr(carrier: Carrier) -> None:
    token = "sk-this-token-is-not-known-to-anybody"
    echo = httpx.Response(400, json={"error": f"who is {token}?"})
    async with as_key(carrier, token) as client:
        told = [repr(client), str(client), repr(vars(client))]
        carrier.before = lambda request: httpx.ConnectError(f"no {request.headers}")
        told += await errors_of(client)
        carrier.before = lambda _request: echo
        told += await errors_of(client)
        carrier.before = lambda _request: None
        told += await errors_of(client)
    assert len(told) == 9
    assert [text for text in told if token in text] == []


async def errors_of(client: SolwardClient) -> list[str]:
    try:
        await client.wallets.list()
    except ClientError as error:
        return [str(error), "".join(traceback.format_exception(error))]
    raise AssertionError("it was answered")


def test_a_token_that_no_header_can_hold_is_refused_without_being_shown() -> None:
    for token in ("secret-part\nX-Evil: 1", " padded-secret-part", "secret-part\x00"):
        with pytest.raises(InvalidRequest) as refused:
            SolwardClient(URL, token)
        assert "secret-part" not in str(refused.value)


async def test_a_new_key_is_shown_by_its_field_alone(client: SolwardClient) -> None:
    key = await client.keys.create(name="hidden")
    assert key.api_key.startswith("sk-")
    assert key.api_key not in repr(key)


async def test_an_admin_secret_may_have_any_letters(
    client: SolwardClient, carrier: Carrier
) -> None:
    async with as_key(carrier, "sécrèt-ключ") as other:
        with pytest.raises(Unauthorized):
            await other.wallets.list()
    sent = carrier.requests[-1].headers.raw
    assert (b"Authorization", "Bearer sécrèt-ключ".encode()) in sent


async def test_errors_survive_a_copy(client: SolwardClient) -> None:
    with pytest.raises(NotFoundError) as missing:
        await client.wallets.get(NOBODY)
    assert isinstance(missing.value, SolwardError)
    for copied in (copy.copy(missing.value), pickle.loads(pickle.dumps(missing.value))):
        assert (copied.status, str(copied)) == (404, "Wallet not found")
