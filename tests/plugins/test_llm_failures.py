"""What the providers make of vendors that refuse, fail, dawdle or break off."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest
from tests.support.models import KEY, VENDORS, Waits, asked_of, complete, lent, loaded, streamed
from tests.support.vendors.scenarios import SAID
from tests.support.vendors.server import VendorServer, vendor_server
from tests.support.vendors.wire import Answer, CapturedRequest

from solward import Completion, InvalidRequest, ProviderContext, ProviderError
from solward_plugins.llm import call
from solward_plugins.llm.call import RetryPolicy, with_retries
from solward_plugins.llm.failures import Failure
from solward_plugins.llm.vendor import MOST_TOKENS, Vendor

every_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)
openai = VENDORS["openai"]


async def refused(vendor: Vendor, scenario: str, clock: Waits, *, stream: bool) -> ProviderError:
    async with vendor_server() as server:
        asking = streamed if stream else complete
        with pytest.raises(ProviderError) as caught:
            await asking(vendor, server, scenario, policy=clock.policy())
    return caught.value


@pytest.mark.more
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@every_vendor
async def test_a_refused_key_is_named_by_its_variable_and_not_tried_again(
    vendor: Vendor, stream: bool
) -> None:
    clock = Waits()
    error = await refused(vendor, "401", clock, stream=stream)
    assert f"{vendor.company} refused the key in {vendor.key_env} (HTTP 401" in str(error)
    assert (error.retryable, clock.waits) == (False, [])


@every_vendor
async def test_a_rate_limit_is_waited_out_as_the_vendor_asks(vendor: Vendor) -> None:
    clock = Waits()
    async with vendor_server() as server:
        completion = await complete(vendor, server, "429", policy=clock.policy())
        assert server.served[vendor.name] == 2
    assert (completion.text, clock.waits) == (SAID, [2.0])


@every_vendor
async def test_a_stream_is_tried_again_before_its_first_piece(vendor: Vendor) -> None:
    clock = Waits()
    async with vendor_server() as server:
        *texts, _ = await streamed(vendor, server, "429", clock.policy())
    assert "".join(map(str, texts)) == SAID
    assert clock.waits == [2.0]


@every_vendor
async def test_server_errors_are_tried_again_with_growing_waits(vendor: Vendor) -> None:
    clock = Waits()
    async with vendor_server() as server:
        completion = await complete(vendor, server, "500x2", policy=clock.policy())
        assert server.served[vendor.name] == 3
    assert (completion.text, clock.waits) == (SAID, [0.5, 1.0])


@pytest.mark.parametrize("scenario", ["500", "503", "529"])
@every_vendor
async def test_a_vendor_that_stays_away_is_given_up_as_retryable(
    vendor: Vendor, scenario: str
) -> None:
    clock = Waits()
    error = await refused(vendor, scenario, clock, stream=False)
    assert str(error).startswith(vendor.company)
    assert "HTTP 5" in str(error)
    assert (error.retryable, clock.waits) == (True, [0.5, 1.0, 2.0])
    assert not error.may_cost


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@every_vendor
async def test_a_dripping_answer_ends_at_the_deadline(vendor: Vendor, stream: bool) -> None:
    await warm(vendor)
    clock, began = Waits(), time.monotonic()
    async with vendor_server(drip_s=0.01) as server:
        policy = clock.policy(deadline_s=0.5)
        asking = streamed if stream else complete
        with pytest.raises(ProviderError, match=r"did not answer within 0\.5 s") as caught:
            await asking(vendor, server, "drip", policy=policy)
    assert caught.value.retryable
    assert caught.value.may_cost
    assert time.monotonic() - began < 30


async def warm(vendor: Vendor) -> None:
    async with vendor_server() as server:
        await complete(vendor, server)
        await streamed(vendor, server)


@every_vendor
async def test_a_reset_connection_is_tried_again_and_then_told(vendor: Vendor) -> None:
    clock = Waits()
    error = await refused(vendor, "reset", clock, stream=False)
    assert "could not be reached, or broke off its answer" in str(error)
    assert vendor.base_url_env in str(error)
    assert (error.retryable, len(clock.waits), error.may_cost) == (True, 3, True)


@every_vendor
async def test_a_stream_reset_in_the_middle_is_told(vendor: Vendor) -> None:
    error = await refused(vendor, "reset", Waits(), stream=True)
    assert "broke off its answer" in str(error)
    assert error.retryable


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@every_vendor
async def test_a_page_of_html_is_no_answer(vendor: Vendor, stream: bool) -> None:
    clock = Waits()
    error = await refused(vendor, "garbage", clock, stream=stream)
    assert f"{vendor.company} answered, and the model's answer cannot be read: " in str(error)
    assert (error.retryable, error.may_cost, clock.waits) == (False, True, [])
    assert "<html>" not in str(error)


@every_vendor
async def test_an_unknown_model_and_a_bad_request_say_what_to_check(vendor: Vendor) -> None:
    unknown = await refused(vendor, "404", Waits(), stream=False)
    assert f"knows no model '{vendor.default_model}'" in str(unknown)
    bad = await refused(vendor, "400", Waits(), stream=False)
    assert "refused the request (HTTP 400" in str(bad)
    assert not unknown.retryable
    assert not bad.retryable


async def test_an_account_without_credit_is_not_asked_again() -> None:
    clock = Waits()
    broke = {"insufficient_quota": None}

    def script(request: CapturedRequest) -> Answer:
        return Answer(status=402, message=str(broke))

    async with vendor_server(script) as server:
        with pytest.raises(ProviderError, match="no credit left"):
            await complete(openai, server, policy=clock.policy())
    assert clock.waits == []


async def test_a_server_that_is_not_there_is_named_by_its_variable() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        context = ProviderContext(KEY, f"http://127.0.0.1:{closed.getsockname()[1]}/v1")
        with pytest.raises(ProviderError, match="check OPENAI_BASE_URL") as unsent:
            await call.complete(openai, asked_of(openai), {}, context, Waits().policy())
    assert not unsent.value.may_cost


@every_vendor
async def test_without_a_key_the_variable_to_set_is_named(vendor: Vendor) -> None:
    with pytest.raises(ProviderError, match=f"set {vendor.key_env}$"):
        await loaded(vendor.name).complete(asked_of(vendor))


@pytest.mark.parametrize(
    "model", ["", "../../v1/files", "a/../b", "responses/gpt-5.2", "a b", "a?b=c", "a" * 201, "é"]
)
async def test_what_is_no_name_of_a_model_is_not_sent(server: VendorServer, model: str) -> None:
    request = asked_of(openai, model=model)
    with pytest.raises(ProviderError, match="is no name of a model"):
        await call.complete(openai, request, {}, lent(openai, server))
    assert not server.requests


@every_vendor
def test_options_that_do_not_fit_are_refused_by_name(vendor: Vendor) -> None:
    provider = loaded(vendor.name)
    for options, field in (
        ({"temperature": vendor.max_temperature + 1}, "temperature"),
        ({"maxTokens": 0}, "maxTokens"),
        ({"maxTokens": MOST_TOKENS + 1}, "maxTokens"),
        ({"reasoningEffort": "extreme"}, "reasoningEffort"),
        ({"baseUrl": "http://127.0.0.1"}, "baseUrl"),
    ):
        with pytest.raises(InvalidRequest, match=field):
            provider.options.validate(options)


async def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    clock = Waits()

    async def attempt() -> Completion | Failure:
        return Failure(ProviderError("busy", retryable=True), retry_after_s=60)

    ends_at = asyncio.get_running_loop().time() + 30
    with pytest.raises(ProviderError, match="busy"):
        await with_retries(attempt, clock.policy(), ends_at)
    assert clock.waits == []


def test_backoff_doubles_up_to_its_cap_and_jitter_keeps_at_least_half() -> None:
    shortest, longest = RetryPolicy(jitter=lambda: 0.0), RetryPolicy(jitter=lambda: 1.0)
    assert [shortest.wait_s(n, None) for n in range(1, 8)] == [0.5, 1, 2, 4, 8, 8, 8]
    assert [longest.wait_s(n, None) for n in range(1, 8)] == [1, 2, 4, 8, 16, 16, 16]
    assert (shortest.wait_s(1, 7.0), longest.wait_s(1, 7.0)) == (7.0, 8.0)
