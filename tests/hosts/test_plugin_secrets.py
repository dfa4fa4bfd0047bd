"""`context.secret`: a plugin's requests carry its secrets, and the plugin never has them."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import httpcore
import httpx
import pytest
from structlog.testing import capture_logs
from tests.hosts.test_egress import (
    ADDRESS,
    API,
    LISTEN,
    OTHER,
    OTHER_ADDRESS,
    Request,
    Site,
    authority,
    says,
)
from tests.promises import promise
from tests.support.hosts import Hosted, Opened, in_memory_of, opened_hosts
from tests.support.plugins import HEAD, Shelf, shelf, skill_source
from tests.support.repository import ROOT

from solward import Manifest, Secret, SkillError
from solward.hosts import plugins
from solward.hosts.egress import Egress
from solward.testing.stand import open_stand
from solward.types.venue import QuoteRequest, VenueContext

pytestmark = pytest.mark.samples(
    "test_its_site_gets_the_value_and_the_plugin_a_text_that_stands_for_it"
)

__all__ = ["authority", "shelf"]

SCHEMA = (
    '{"type": "object", "properties": {"url": {"type": "string"}, "text": {"type": "string"}},'
    ' "additionalProperties": False}'
)
# Asks for its key, sends it to a site in a header and in the body, and tells what came back.
ASKS = """
key = params.get("text") or context.secret("ACME_KEY")
answer = await context.http.post(
    params["url"], headers={"X-Key": key}, content=key, follow_redirects=True)
return f"{key} {answer.text} {dict(answer.headers)}"
"""
KEYED = f"Manifest(sites=({API!r}, {OTHER!r}), secrets=(Secret('ACME_KEY', {API!r}),))"


def source(name: str, manifest: str = KEYED, body: str = ASKS) -> str:
    made = skill_source(name, schema=SCHEMA, body=body, manifest=manifest)
    return f"{HEAD}\nfrom solward import Manifest, Secret\n{made}"


async def echo(request: Request, writer: asyncio.StreamWriter) -> None:
    key = request.header("x-key")
    await says(f"you said {key}", f"HTTP/1.1 200 OK\r\nX-Echo: {key}")(request, writer)


@dataclass
class Sites:
    """Two sites of the Internet, as a service's egress finds them."""

    api: Site
    other: Site


@pytest.fixture
async def sites(
    authority: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Sites]:
    ca, certificate = authority
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    made = Sites(Site(echo), Site(echo))
    servers = []
    for site in (made.api, made.other):
        servers.append(await asyncio.start_server(site.serve, LISTEN, 0, ssl=context))
        site.port = servers[-1].sockets[0].getsockname()[1]
    ports = {ADDRESS: made.api.port, OTHER_ADDRESS: made.other.port}

    async def resolve(host: str, _port: int) -> list[str]:
        return {API: [ADDRESS], OTHER: [OTHER_ADDRESS]}[host]

    async def dial(address: str, _port: int, timeout: float | None) -> httpcore.AsyncNetworkStream:
        return await httpcore.AnyIOBackend().connect_tcp(LISTEN, ports[address], timeout)

    trusted = ssl.create_default_context(cafile=ca)
    monkeypatch.setattr(
        plugins, "Egress", lambda: Egress(resolve=resolve, dial=dial, trusted=trusted)
    )
    yield made
    for server in servers:
        server.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Opened:
    return opened_hosts(monkeypatch, tmp_path)


@pytest.fixture
def value(monkeypatch: pytest.MonkeyPatch) -> str:
    """The operator's secret."""
    made = f"sk-{os.urandom(16).hex()}"
    monkeypatch.setenv("ACME_KEY", made)
    return made


async def refused(hosted: Hosted, name: str, wallet: str, **params: str) -> SkillError:
    with pytest.raises(SkillError) as caught:
        await hosted.run(name, wallet, **params)
    return caught.value


@promise("manifest-secrets-replaced")
async def test_its_site_gets_the_value_and_the_plugin_a_text_that_stands_for_it(
    shelf: Shelf, opened: Opened, sites: Sites, value: str
) -> None:
    shelf.install("acme", {"asks": source("asks")})
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        with capture_logs() as logs:
            told = await hosted.run("asks", wallet.id, url=f"https://{API}/v1")
            told += await hosted.run("asks", wallet.id, url=f"https://{OTHER}/v1")
            sites.api.answer = says("", f"HTTP/1.1 307 Go\r\nLocation: https://{OTHER}/{value}")
            told += await hosted.run("asks", wallet.id, url=f"https://{API}/moved")
            told += str(await refused(hosted, "asks", wallet.id, url=f"https://no.{API}/"))
        first, moved = sites.api.requests
        assert (first.header("x-key"), moved.header("x-key")) == (value, value)
        assert all(each.body.startswith(b"solward-secret-") for each in (first, moved))
        for each in sites.other.requests:
            assert str(each.header("x-key")).startswith("solward-secret-")
        assert len(sites.other.requests) == 2
        # Its answer, where it went on to, its error and what is logged of it.
        assert value not in told
        assert value not in repr(logs)
        assert value not in repr([each.line for each in sites.other.requests])
        [host] = hosted.stand.service.live.hosts.hosts.hosts
        assert host.pid is not None
        sites.api.answer = says("what the host was told of " + API)
        await hosted.run("asks", wallet.id, url=f"https://{API}/v1")
        # The second look finds what the first would have found.
        assert not in_memory_of(host.pid, value)
        assert in_memory_of(host.pid, "what the host was told of " + API)


async def test_a_secret_that_is_not_declared_or_not_set_is_named(
    shelf: Shelf, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACME_KEY", raising=False)
    monkeypatch.setenv("BETA_KEY", "another plugin's")
    shelf.install("acme", {"asks": source("asks")})
    beta = f"Manifest(sites=({API!r},), secrets=(Secret('BETA_KEY', {API!r}),))"
    shelf.install("beta", {"takes": source("takes", beta), "bare": source("bare", "None")})
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        for name, code in (
            ("asks", "secret_not_set"),
            ("takes", "secret_not_declared"),
            ("bare", "secret_not_declared"),
        ):
            error = await refused(hosted, name, wallet.id, url=f"https://{API}/")
            assert error.code == code
            assert "ACME_KEY" in str(error)


@promise("manifest-secrets-replaced")
async def test_another_plugins_secret_cannot_be_had(
    shelf: Shelf, opened: Opened, sites: Sites, value: str
) -> None:
    """Not by asking for it, and not by what stands for it, while the other's call runs."""
    shelf.install("acme", {"asks": source("asks")})
    shelf.install("thief", {"takes": source("takes", f"Manifest(sites=({API!r},))")})
    running, go_on = asyncio.Event(), asyncio.Event()

    async def hold(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.line.startswith("POST /slow"):
            running.set()
            await go_on.wait()
        await echo(request, writer)

    sites.api.answer = hold
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        slow = asyncio.create_task(hosted.run("asks", wallet.id, url=f"https://{API}/slow"))
        await asyncio.wait_for(running.wait(), 20)
        [request] = sites.api.requests
        text = request.body.decode()
        told = await hosted.run("takes", wallet.id, url=f"https://{API}/", text=text)
        go_on.set()
        assert text in await slow
    assert text.startswith("solward-secret-")
    assert [each.header("x-key") for each in sites.api.requests] == [value, text]
    assert value not in told


async def test_the_example_asks_with_its_key_and_keeps_the_answer(
    shelf: Shelf, opened: Opened, sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (ROOT / "examples/http_skill/rates.py").read_text()
    shelf.install("rates", {"exchange_rate": source.replace("rates.example.com", API)})
    monkeypatch.setenv("RATES_API_KEY", "sk-of-the-operator")
    sites.api.answer = says("0.92")
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        for _ in range(2):
            told = await hosted.run("exchange_rate", wallet.id, currency="EUR")
            assert told == "1 USD is 0.92 EUR"
        [request] = sites.api.requests
        assert request.header("authorization") == "Bearer sk-of-the-operator"
        sites.api.answer = says("", "HTTP/1.1 503 Later")
        error = await refused(hosted, "exchange_rate", wallet.id, currency="CHF")
        assert error.code == "rates_unavailable"


VENUE = (
    f"""
API = {API!r}
"""
    + """
from solward import Manifest, Quote, Secret, VenueSpec, hookimpl

@hookimpl
def venue_spec():
    return VenueSpec("keyed", manifest=Manifest(
        sites=(API,), secrets=(Secret("ACME_KEY", API),)))

@hookimpl
async def venue_quote(request, context):
    key = {"X-Key": context.secret("ACME_KEY")}
    import httpx
    async with httpx.AsyncClient() as client:
        told = (await client.get(f"https://{API}/quote", headers=key)).text
    await context.http.get("/of-the-operator", headers=key)
    return Quote(request.input_mint, request.output_mint, request.amount, 2, 1, 50, 0,
        raw={"told": told})

@hookimpl
async def venue_instructions(quote, taker, destination, max_accounts, context):
    raise NotImplementedError
"""
)


@promise("manifest-secrets-replaced")
async def test_a_venues_secret_goes_to_its_site_and_not_to_the_operators_address(
    shelf: Shelf, opened: Opened, sites: Sites, value: str
) -> None:
    shelf.install("acme", {"keyed": VENUE}, "solward.venues")
    operators = Site(echo)
    server = await asyncio.start_server(operators.serve, LISTEN, 0)
    address = f"http://{LISTEN}:{server.sockets[0].getsockname()[1]}"
    async with server, opened() as hosted, httpx.AsyncClient(base_url=address) as http:
        venue = hosted.stand.service.live.registry.venues["keyed"]
        quote = await venue.quote(QuoteRequest("a" * 43, "b" * 43, 5, 50), VenueContext(http))
    assert sites.api.requests[0].header("x-key") == value
    assert str(operators.requests[0].header("x-key")).startswith("solward-secret-")
    assert value not in repr(quote)


def of_env_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACME_KEY", raising=False)
    monkeypatch.chdir(folder)
    (folder / ".env").write_text("ACME_KEY=from-the-file\n")


def of_environment(_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "from-the-file")


@pytest.mark.parametrize("set_it", [of_env_file, of_environment])
async def test_in_process_it_is_the_value_itself(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    set_it: Callable[[Path, pytest.MonkeyPatch], None],
) -> None:
    """Nothing would put it in there: the code has the process anyway."""
    set_it(tmp_path, monkeypatch)
    async with open_stand(tmp_path / "home") as stand:
        wallet = await stand.wallet()
        loaded = stand.skill("check_balance")
        assert refused_code(wallet.context(loaded).secret) == "secret_not_declared"
        declared = Manifest((API,), secrets=(Secret("ACME_KEY", API),))
        keyed = replace(loaded, spec=replace(loaded.spec, manifest=declared))
        context = wallet.context(keyed)
        assert context.secret("ACME_KEY") == "from-the-file"
        assert "from-the-file" not in repr(context)
        monkeypatch.delenv("ACME_KEY", raising=False)
        monkeypatch.chdir("/")
        assert refused_code(wallet.context(keyed).secret) == "secret_not_set"


def refused_code(ask: Callable[[str], str]) -> str:
    with pytest.raises(SkillError, match="ACME_KEY") as caught:
        ask("ACME_KEY")
    return caught.value.code
