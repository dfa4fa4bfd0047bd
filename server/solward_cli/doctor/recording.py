"""`solward doctor --record`: the checks' requests and their answers, without secrets, in files.

The product's own clients send the requests: each of their addresses is replaced by a relay on this
machine, which passes everything on to the real address and records it. So a recording is the same
for every client library and every process.

A recording is a folder of `*.json` files, one for each address that was asked. A file is a list of
`{"request": {"method", "url", "body"}, "response": {"status", "headers", "body"}}`; a body is JSON,
text, or null.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlencode, urlsplit

from pydantic import SecretStr

from solward.solana import programs
from solward.solana.token_list import token_list
from solward.support import jsontext
from solward.support.base58 import b58decode, b58encode, is_address
from solward.telemetry.scrub import REDACTED, known_secrets, names_secret, scrub_text
from solward.types.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    from quart import Request

    from solward.settings import Settings

# Headers of responses that are recorded: the body's type, and the limits of rate.
_HEADERS: Final = frozenset({"content-type", "retry-after"})
_RATE_HEADERS: Final = ("ratelimit", "x-ratelimit")
_NOT_PASSED_ON: Final = frozenset(
    {"host", "connection", "content-length", "accept-encoding", "transfer-encoding"}
)
_SECRET_PARAMETERS: Final = frozenset({"key", "token", "auth", "apikey", "api-key", "x-api-key"})
# Methods that name an address, and whose answers name its accounts.
_OF_SOMEBODY: Final = (
    "getTokenAccountsByOwner",
    "getProgramAccounts",
    "getSignaturesForAddress",
)
_ADDRESS_BYTES: Final = 32
_LONGEST_TEXT: Final = 2_000
# Items of a list, such as the validators of a cluster.
_LONGEST_LIST: Final = 100
_TIMEOUT_S: Final = 60.0
_LONGEST_REQUEST: Final = 1 << 26


def placeholder(number: int) -> str:
    """Return the address that replaces address `number` of a recording; numbers begin at 0."""
    return b58encode(hashlib.sha256(b"solward recording %d" % number).digest())


@dataclass(frozen=True, slots=True)
class Route:
    """An address to which the product sends requests.

    Attributes:
        name: name of the recording's file.
        setting: the field of `Settings` that has it.
        url: the real one, a secret.
        headers: headers of every request to it, which replace the product's headers for the host;
            they are secrets.
    """

    name: str
    setting: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def shown_host(self) -> str:
        """The host in a recording: the file's name and the last two labels of the real host, whose
        earlier labels may name an account."""
        labels = (urlsplit(self.url).hostname or "").split(".")
        is_number = labels[-1].isdecimal() or ":" in labels[-1]
        return ".".join([self.name, *([] if is_number or len(labels) < 2 else labels[-2:])])


@dataclass(slots=True)
class Recorder:
    """The requests and answers that went through the relays.

    Attributes:
        real: a relay's address -> the real address behind it, a secret.
    """

    exchanges: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    real: dict[str, str] = field(default_factory=dict)
    _hosts: dict[str, str] = field(default_factory=dict)

    def keep(self, route: Route, request: Mapping[str, Any], response: Mapping[str, Any]) -> None:
        """Store an exchange without secrets; `write` replaces the addresses in it."""
        exchange = {"request": dict(request), "response": dict(response)}
        self._hosts[urlsplit(route.url).netloc.rpartition("@")[2]] = route.shown_host
        self._hosts[urlsplit(route.url).hostname or ""] = route.shown_host
        self.exchanges.setdefault(route.name, []).append(exchange)

    def write(self, folder: Path) -> list[Path]:
        """Write a file for each route with exchanges, and return the files.

        Raises:
            ConfigError: the folder cannot be written.
        """
        change = partial(_anonymize, addresses=_placeholders(self.exchanges), hosts=self._hosts)
        written = []
        try:
            for name, exchanges in sorted(self.exchanges.items()):
                file = folder / f"{name}.json"
                file.write_text(jsontext.indented(_map_texts(exchanges, change)) + "\n", "utf-8")
                written.append(file)
        except OSError as error:
            raise ConfigError(f"--record {folder} cannot be written: {error.strerror}") from None
        return written


def routes(settings: Settings) -> list[Route]:
    """Return every address that checks send requests to, from the settings or built in."""
    from solward.service.cluster import coingecko_headers, jupiter_url
    from solward.settings.vendors import VendorSettings
    from solward_plugins.providers.vendors import ANTHROPIC, GEMINI, GROK, OPENAI

    found = [
        Route(f"rpc-{number}", "solana_rpc_url", url)
        for number, url in enumerate(settings.rpc_urls, 1)
    ]
    if settings.jupiter_api_url is not None or settings.solana_network != "localnet":
        found.append(Route("jupiter", "jupiter_api_url", jupiter_url(settings)))
    if settings.price_sources:
        url = settings.coingecko_api_url
        key = settings.key_for("coingecko_api_key", "coingecko_api_url")
        headers = coingecko_headers(url, key)
        found.append(Route("coingecko", "coingecko_api_url", url, headers))
    for vendor in (each.vendor for each in (ANTHROPIC, GEMINI, GROK, OPENAI)):
        variable = vendor.base_url_env.lower()
        if variable in VendorSettings.model_fields and settings.configured(vendor.spec()):
            found.append(
                Route(vendor.name, variable, getattr(settings, variable) or vendor.address)
            )
    return found


@asynccontextmanager
async def record_requests(settings: Settings) -> AsyncIterator[tuple[Settings, Recorder]]:
    """Yield settings whose addresses are relays on this machine, and the relays' recorder."""
    import httpx

    recorder = Recorder()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            httpx.AsyncClient(timeout=_TIMEOUT_S, follow_redirects=False)
        )
        local: dict[str, list[str]] = {}
        for route in routes(settings):
            address = await stack.enter_async_context(_relay(route, client, recorder))
            local.setdefault(route.setting, []).append(address)
            recorder.real[address] = route.url
        changed: dict[str, Any] = {
            name: SecretStr(",".join(urls)) if name == "solana_rpc_url" else urls[0]
            for name, urls in local.items()
        }
        yield settings.model_copy(update=changed), recorder


@asynccontextmanager
async def _relay(route: Route, client: httpx.AsyncClient, recorder: Recorder) -> AsyncIterator[str]:
    """Serve an address on this machine in place of a real one, until the block ends."""
    import httpx
    from quart import Quart, Response, request

    from solward.serving.bounds import Bounds
    from solward.serving.loop import serve_http
    from solward_server.listening import listen

    async def pass_on() -> Response:
        body = await request.body
        given = request.headers.items()
        headers = {name: value for name, value in given if name.lower() not in _NOT_PASSED_ON}
        try:
            real = await client.request(
                request.method,
                _target_url(route, request),
                content=body,
                headers={**headers, **route.headers},
            )
        except httpx.HTTPError:
            # A gateway answers so if the real address does not.
            return Response("", 502)
        passed = {name: value for name, value in real.headers.items() if is_recorded(name)}
        headers = {name.lower(): _scrub_text(value) for name, value in passed.items()}
        kept = {"status": real.status_code, "headers": headers, "body": _scrub_body(real.content)}
        recorder.keep(route, _scrub_request(route, request, body), kept)
        return Response(real.content, real.status_code, passed)

    app = Quart(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = _LONGEST_REQUEST
    # It answers every path, so no route is looked up.
    app.before_request(pass_on)
    listening, stop = listen("127.0.0.1", 0), asyncio.Event()
    serving = asyncio.create_task(serve_http(app, listening, stop.wait, Bounds(stop_s=0.1)))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        stop.set()
        await serving


def _target_url(route: Route, asked: Request) -> str:
    parts = urlsplit(route.url)
    path = parts.path.rstrip("/") + asked.path if asked.path != "/" else parts.path or "/"
    query = "&".join(filter(None, (parts.query, asked.query_string.decode())))
    return parts._replace(path=path, query=query, fragment="").geturl()


def _scrub_request(route: Route, asked: Request, body: bytes) -> dict[str, Any]:
    # The recorded address leaves out that of the settings, which may hold a key.
    parameters = [
        (name, REDACTED if _is_secret(name) else _scrub_text(value))
        for name, value in parse_qsl(asked.query_string.decode(), keep_blank_values=True)
    ]
    query = f"?{urlencode(parameters)}" if parameters else ""
    url = f"https://{route.shown_host}{_scrub_text(asked.path)}{query}"
    return {"method": asked.method, "url": url, "body": _scrub_body(body)}


def is_recorded(name: str) -> bool:
    """Return whether a recording has this header of a response."""
    lower = name.lower()
    return lower in _HEADERS or lower.startswith(_RATE_HEADERS)


def _is_secret(name: str) -> bool:
    return name.lower() in _SECRET_PARAMETERS or names_secret(name)


def _scrub_body(content: bytes) -> Any:
    """Return a body as JSON if it is JSON, else as text; None if it is empty."""
    if not content:
        return None
    try:
        return _scrub(jsontext.loads(content))
    except (ValueError, RecursionError):
        return _scrub_text(content.decode("utf-8", "replace"))[:_LONGEST_TEXT]


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        return _scrub_text(value)
    if isinstance(value, Mapping):
        return {
            _scrub_text(name): REDACTED
            if _is_secret(name) and isinstance(one, str)
            else _scrub(one)
            for name, one in value.items()
        }
    if isinstance(value, list):
        if value and isinstance(value[0], Mapping):
            value = value[:_LONGEST_LIST]
        return [_scrub(item) for item in value]
    if value is None or isinstance(value, bool | int | Decimal):
        return value
    return _scrub_text(str(value))


def _scrub_text(text: str) -> str:
    """Redact the process's secrets in a text, also in the encodings of URLs, JSON and headers, and
    texts that look like secrets. Each value of JSON is scrubbed by itself."""
    if text[:1] in ("{", "["):
        with contextlib.suppress(ValueError, RecursionError):
            return jsontext.dumps(_scrub(jsontext.loads(text)))
    for secret in known_secrets():
        for spelled in _encodings(secret):
            if spelled in text:
                text = text.replace(spelled, REDACTED)
    return scrub_text(text)


def _encodings(secret: str) -> Iterator[str]:
    spelled: dict[str, None] = {}
    # A secret that is part of an address may be percent-encoded.
    for plain in (secret, unquote(secret)):
        raw = plain.encode()
        spelled |= dict.fromkeys(
            (
                plain,
                quote(plain, safe=""),
                quote(plain),
                quote_plus(plain),
                jsontext.dumps(plain)[1:-1],
                base64.b64encode(raw).decode().rstrip("="),
                base64.urlsafe_b64encode(raw).decode().rstrip("="),
                raw.hex(),
            )
        )
    # The longest first: a short one may be the beginning of another.
    yield from sorted(spelled, key=len, reverse=True)


def _placeholders(exchanges: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    """Map each address in a request, except programs and listed mints, to a placeholder."""
    networks = ("mainnet-beta", "devnet", "testnet", "localnet")
    public = {token.mint for network in networks for token in token_list(network)}
    public |= {value for value in vars(programs).values() if isinstance(value, str)}
    named = dict[str, None]()
    for _, each in sorted(exchanges.items()):
        for exchange in each:
            request = exchange["request"]
            body = request["body"]
            values = [value for _, value in parse_qsl(urlsplit(request["url"]).query)]
            named |= dict.fromkeys(_find_addresses([values, body]))
            if isinstance(body, Mapping) and body.get("method") in _OF_SOMEBODY:
                # The accounts of the address that was named lead to it.
                named |= dict.fromkeys(_find_addresses(exchange["response"]["body"]))
    kept = [address for address in named if address not in public]
    return {address: placeholder(number) for number, address in enumerate(kept)}


def _anonymize(text: str, addresses: Mapping[str, str], hosts: Mapping[str, str]) -> str:
    for found, other in (*addresses.items(), *hosts.items()):
        if found in text:
            text = text.replace(found, other)
    raw = decoded_base64(text)
    if raw is None:
        return text
    changed = raw
    for address, other in addresses.items():
        changed = changed.replace(b58decode(address), b58decode(other))
    return text if changed == raw else base64.b64encode(changed).decode()


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(name): _map_texts(item, change) for name, item in value.items()}
    if isinstance(value, list):
        return [_map_texts(item, change) for item in value]
    return value


def _find_addresses(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if is_address(value):
            yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _find_addresses(item)


def decoded_base64(text: str) -> bytes | None:
    """Decode a base64 text that is long enough to hold an address; None for any other."""
    if len(text) < _ADDRESS_BYTES * 4 // 3:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return None
