"""The key and the prompt are in the request to the vendor, and nowhere else."""

from __future__ import annotations

import logging
import traceback

import pytest
from tests.support.models import KEY, VENDORS, WAIT, Waits, asked_of, lent, loaded
from tests.support.vendors.server import VendorServer, vendor_server
from tests.support.vendors.wire import Answer, CapturedRequest

from solward import ProviderError
from solward_plugins.llm import call
from solward_plugins.llm.vendor import Vendor

PROMPT = "canary-prompt-51d0c3a7"
SCENARIOS = ["text", "malformed", "401", "403", "400", "404", "429", "500", "reset", "garbage"]

every_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=VENDORS)


@every_vendor
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_neither_is_in_a_log_an_error_a_traceback_or_on_the_screen(
    vendor: Vendor,
    scenario: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    request = asked_of(vendor, WAIT, system=PROMPT)
    told = []
    async with vendor_server() as server:
        context = lent(vendor, server, scenario)
        policy = Waits().policy()
        try:
            await call.complete(vendor, request, {}, context, policy)
            async for _ in call.stream(vendor, request, {}, context, policy):
                pass
        except ProviderError as error:
            told = [str(error), repr(error), repr(error.__dict__), repr(error.__context__)]
            told += traceback.format_exception(error)
        assert KEY in repr(server.requests[-1].headers)
        assert PROMPT in server.requests[-1].system
    shown = "\n".join([*told, caplog.text, repr(context), *capfd.readouterr()])
    assert KEY not in shown
    assert PROMPT not in shown


@every_vendor
async def test_what_a_vendor_repeats_of_them_is_not_passed_on(vendor: Vendor) -> None:
    def script(request: CapturedRequest) -> Answer:
        return Answer(status=400, message=f"bad: {request.key} {request.system}")

    async with vendor_server(script) as server:
        request = asked_of(vendor, system=PROMPT)
        with pytest.raises(ProviderError) as caught:
            await call.complete(vendor, request, {}, lent(vendor, server))
    assert KEY not in str(caught.value)
    assert PROMPT not in str(caught.value)


@every_vendor
async def test_keys_and_addresses_of_the_environment_are_not_used(
    server: VendorServer, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with vendor_server() as stray:
        monkeypatch.setenv(vendor.key_env, "another-key")
        for name, address in stray.base_urls.items():
            monkeypatch.setenv(name, address)
        monkeypatch.setenv("OPENAI_API_BASE", stray.base_urls["OPENAI_BASE_URL"])
        await loaded(vendor.name).complete(asked_of(vendor), {}, lent(vendor, server))
        assert KEY in repr(server.requests[-1].headers)
        assert not stray.requests
