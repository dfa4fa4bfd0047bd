"""A service in this process with its REST application: one, several, on a socket, on a clock."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import httpx
from jsonschema import Draft202012Validator, FormatChecker
from quart import Quart
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.database import AuditLog
from tests.support.database import audit_places as places

from solward.runner import no_hook
from solward.schedules.runs import ScheduleHook
from solward.schedules.service import ScheduleService
from solward.service.cluster import localnet_options
from solward.service.service import Solward
from solward.settings import Settings
from solward.support import jsontext
from solward.support.clock import iso, ms_of
from solward.types.events import EventKind
from solward_localnet.node import Localnet
from solward_localnet.server import serving
from solward_server.listening import listen
from solward_server.resources import PREFIX
from solward_server.resources.openapi import describe, document_inputs
from solward_server.serve import Address, create_app, serve

# Holds every answer, and every request that went well, to the service's own description.

_DOCUMENT = "urn:solward"
_FORMATS = FormatChecker(["uuid"])
# What is not described is no route, or not with this method.
_NO_ROUTE = {404, 405}


class Described:
    """One description, and what has to be true of it."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        resource = Resource(document, DRAFT202012)
        self._registry = Registry().with_resource(_DOCUMENT, resource)
        self._validators: dict[str, Draft202012Validator] = {}
        # Templates last: a skill's own path is the more exact one.
        self._paths = [
            (re.compile(re.sub(r"\\{\w+\\}", "[^/]*", re.escape(path))), path)
            for path in sorted(document["paths"], key=lambda path: path.count("{"))
        ]

    def template(self, path: str) -> str | None:
        """The described path that this one fits."""
        path = path.partition("?")[0]
        return next((known for pattern, known in self._paths if pattern.fullmatch(path)), None)

    def check(
        self, method: str, path: str, sent: bytes | None, status: int, kind: str, text: str
    ) -> None:
        """Fail where an answer, or a request that was accepted, is not as described."""
        if method in ("HEAD", "OPTIONS") or status == 204:
            return
        template = self.template(path)
        operation = self.document["paths"].get(template, {}).get(method.lower())
        if operation is None:
            assert status in _NO_ROUTE, f"{method} {path} answers {status} and is not described"
            return
        where = f"{method} {template}"
        response = operation["responses"].get(str(status))
        assert response is not None, f"{where}: {status} is not described: {text[:300]}"
        shared = response.get("$ref")
        response = target(self.document, response)
        kind = kind.partition(";")[0]
        assert kind in response["content"], f"{where}: {status} as {kind} is not described"
        if kind != "application/json":
            return
        pointer = f"#/paths/{_escaped(template)}/{method.lower()}"
        answer = f"{shared or f'{pointer}/responses/{status}'}/content/{_escaped(kind)}/schema"
        self._validate(answer, text, f"{where}: the answer {status}")
        if status == 200 and "requestBody" in operation and "dryRun" not in path:
            asked = f"{pointer}/requestBody/content/{_escaped(kind)}/schema"
            body = (sent or b"").decode().strip() or "{}"
            self._validate(asked, body, f"{where}: a request that went well")

    def _validate(self, pointer: str, text: str, what: str) -> None:
        validator = self._validators.get(pointer)
        if validator is None:
            schema = {"$ref": _DOCUMENT + pointer}
            validator = Draft202012Validator(
                schema, registry=self._registry, format_checker=_FORMATS
            )
            self._validators[pointer] = validator
        for error in validator.iter_errors(json.loads(text)):
            reasons = "; ".join(part.message for part in error.context or ())
            raise AssertionError(f"{what}: {error.json_path}: {error.message} {reasons}\n{text}")


def target(document: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """What a reference into the document's components refers to; anything else as it is."""
    if "$ref" not in node:
        return node
    _, _, kind, name = node["$ref"].split("/")
    found: dict[str, Any] = document["components"][kind][name]
    return found


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1").replace("{", "%7B").replace("}", "%7D")


_OF_APP: WeakKeyDictionary[Quart, Described] = WeakKeyDictionary()
_MADE: dict[Hashable, Described] = {}


def described(app: Quart, service: Solward) -> Described:
    """The description of an application, made once for the same plugins and `ERROR_STATUS`."""
    if app not in _OF_APP:
        statuses = service.settings.error_status
        made = document_inputs(service.live.registry), statuses
        if made not in _MADE:
            configured = Settings.model_construct(error_status=statuses)
            _MADE[made] = Described(describe(service.live.registry, PREFIX, configured=configured))
        _OF_APP[app] = _MADE[made]
    return _OF_APP[app]


# A client of the application in this process, and a service under it.

SECRET = "a-secret-for-tests-of-at-least-32-bytes"
STRANGER = "11111111111111111111111111111112"
NOBODY = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response read whole."""

    status: int
    headers: Any
    text: str

    @property
    def json(self) -> Any:
        return jsontext.loads(self.text)

    @property
    def error(self) -> str:
        """The error text; the body has that one field and nothing more."""
        assert list(self.json) == ["error"], self.text
        return str(self.json["error"])


@dataclass(frozen=True, slots=True)
class Api:
    """The application, called with the admin secret unless a token is given."""

    app: Quart
    service: Solward

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = SECRET,
        headers: dict[str, str] | None = None,
        data: bytes | None = None,
        prefix: str = PREFIX,
    ) -> Answer:
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        if body is not None:
            data = jsontext.dumps(body).encode()
        client = self.app.test_client()
        response = await client.open(prefix + path, method=method, headers=sent, data=data)
        text = (await response.get_data()).decode(errors="replace")
        kind = response.headers.get("Content-Type", "")
        described(self.app, self.service).check(
            method, prefix + path, data, response.status_code, kind, text
        )
        return Answer(response.status_code, response.headers, text)

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.call("POST", path, body, **options)

    async def wallet(self, sol: int = 0) -> str:
        """A new wallet's id, holding up to 2 SOL."""
        wallet = str((await self.post("/wallets", {})).json["walletId"])
        if sol:
            answer = await self.post(f"/wallets/{wallet}/airdrop", {"amount": sol})
            assert answer.status == 200, answer.text
        return wallet

    async def key(self, **fields: Any) -> tuple[str, str]:
        """A new key and its id."""
        made = await self.post("/keys", {"name": "test"} | fields)
        assert made.status == 200, made.text
        return made.json["apiKey"], made.json["id"]

    async def records(self, wallet: str) -> list[Any]:
        found: list[Any] = (await self.get(f"/wallets/{wallet}/transactions")).json["transactions"]
        return found


def settings(home: Path, **given: Any) -> Settings:
    """Settings of a test: a home of its own and nothing from the environment's `.env`."""
    return Settings(_env_file=None, **{"solward_home": home, "api_secret": SECRET, **given})


@asynccontextmanager
async def serving_api(home: Path, *, demo: bool = False, **given: Any) -> AsyncIterator[Api]:
    """A service on the embedded ledger with its application, both closed at the end."""
    async with Solward.open(settings(home, **given), demo=demo) as service:
        app = create_app(service)
        async with app.test_app():
            yield Api(app, service)


# Several API processes' worth of services in one process: one PostgreSQL, one ledger.


@asynccontextmanager
async def shared_ledger(home: Path) -> AsyncIterator[str]:
    """The address of a localnet for all of them."""
    localnet = await Localnet.open(None, localnet_options(settings(home)))
    try:
        async with serving(localnet, "127.0.0.1", 0) as addresses:
            yield addresses.http
    finally:
        await localnet.close()


@asynccontextmanager
async def several_apis(url: str, home: Path, count: int, **given: Any) -> AsyncIterator[list[Api]]:
    """`count` services with their applications on the database `url` and one ledger."""
    async with AsyncExitStack() as stack:
        ledger = await stack.enter_async_context(shared_ledger(home))
        options = {"database_url": url, "solana_rpc_url": ledger, "solana_network": "localnet"}
        yield [
            await stack.enter_async_context(serving_api(home, **options | given))
            for _ in range(count)
        ]


# A service behind a socket, and clients that read its event stream.


@dataclass(slots=True)
class Served:
    """A service behind a socket, and its admin."""

    service: Solward
    client: httpx.AsyncClient
    stop: asyncio.Event
    ended: asyncio.Task[None]

    async def post(self, path: str, body: Any = None) -> Any:
        answer = await self.client.post(path, content=jsontext.dumps(body or {}))
        return jsontext.loads(answer.content)

    async def append(self, count: int) -> None:
        for number in range(count):
            await AuditLog(self.service.database).append(EventKind.KEY_CREATED, {"number": number})

    async def places(self, told: list[tuple[int, str, Any]]) -> list[int]:
        """Where in the log what was told stands, counted from 1."""
        return await places(self.service.database, *(seq for seq, _, _ in told))

    @asynccontextmanager
    async def listening(self, path: str = "/events", **headers: str) -> AsyncIterator[Heard]:
        async with self.client.stream("GET", path, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            yield Heard(response, response.aiter_lines())


@dataclass(slots=True)
class Heard:
    """What a client reads, a block at a time."""

    response: httpx.Response
    lines: AsyncIterator[str]

    async def block(self) -> dict[str, str]:
        """The fields of the next block; a comment's field has no name."""
        fields: dict[str, str] = {}
        async for line in self.lines:
            if not line:
                return fields
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        raise EOFError

    async def event(self) -> tuple[int, str, Any]:
        """Id, kind and data of the next event."""
        async with asyncio.timeout(20):
            while "event" not in (block := await self.block()):
                pass
        return int(block["id"]), block["event"], jsontext.loads(block["data"])

    async def events(self, count: int) -> list[tuple[int, str, Any]]:
        return [await self.event() for _ in range(count)]


@asynccontextmanager
async def serving_events(service: Solward) -> AsyncIterator[Served]:
    """The service's application on a socket until the block ends."""
    stop = asyncio.Event()
    address: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
    ended = asyncio.create_task(
        serve(service, listen("127.0.0.1", 0), stop, ready=address.set_result)
    )
    headers = {"Authorization": f"Bearer {SECRET}"}
    base = f"{(await address).url}/api/v1"
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=30) as client:
        yield Served(service, client, stop, ended)
    stop.set()
    await ended


# What carries a client's requests to the application, and breaks when it is told to.

Break = Callable[[httpx.Request], httpx.RequestError | httpx.Response | None]


class Carrier(httpx.AsyncBaseTransport):
    """The application as a transport.

    Attributes:
        before: called before the application acts; what it gives is the answer instead.
        after: called after the application acted; what it gives takes the answer's place.
        requests: every request that was asked for.
    """

    def __init__(self, app: Quart) -> None:
        # The two name one interface in their own words.
        self._inner = httpx.ASGITransport(app)  # type: ignore[arg-type]
        self.before: Break = lambda _request: None
        self.after: Break = lambda _request: None
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        given = self.before(request)
        if given is None:
            response = await self._inner.handle_async_request(request)
            given = self.after(request) or response
        if isinstance(given, httpx.RequestError):
            raise given
        return given

    @property
    def keys(self) -> list[str | None]:
        """The Idempotency-Key of each request."""
        return [request.headers.get("Idempotency-Key") for request in self.requests]


def times(count: int, given: Callable[[httpx.Request], Any]) -> Break:
    """The same trouble for the first `count` requests."""
    left = [count]

    def trouble(request: httpx.Request) -> httpx.RequestError | httpx.Response | None:
        left[0] -= 1
        answer: httpx.RequestError | httpx.Response | None = None
        if left[0] >= 0:
            answer = given(request)
        return answer

    return trouble


def cut(request: httpx.Request) -> httpx.RequestError:
    """The connection broke before the answer."""
    return httpx.ReadError("cut", request=request)


def away(request: httpx.Request) -> httpx.RequestError:
    """Nothing listens."""
    return httpx.ConnectError("refused", request=request)


# A service whose schedules are due by a clock that the test sets, and run when it says so.

START = ms_of("2026-06-01T12:00:00Z")
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@dataclass(slots=True)
class ScheduleClock:
    """By which schedules are due."""

    ms: int = START

    async def __call__(self, _connection: AsyncConnection) -> int:
        return self.ms


@dataclass(frozen=True, slots=True)
class Timetable:
    """An API, and its schedules' clock."""

    api: Api
    clock: ScheduleClock

    @property
    def service(self) -> Solward:
        return self.api.service

    @property
    def schedules(self) -> ScheduleService:
        return self.service.schedules

    async def at(self, ms: int) -> None:
        """Set the clock, and run what is due to its end."""
        self.clock.ms = ms
        await self.run_due()

    async def passes(self, ms: int) -> None:
        """Let time pass, and run what is due then to its end."""
        await self.at(self.clock.ms + ms)

    async def run_due(self) -> None:
        while await self.schedules.runner.start_due_runs() == 0 or self.schedules.runner._running:
            await self.schedules.runner.wait_until_idle()

    async def add(
        self, wallet: str, body: Mapping[str, Any], *, token: str | None = None
    ) -> dict[str, Any]:
        """A new schedule, as its route shows it."""
        answer = await self.post(wallet, "", body, token=token)
        assert answer.status == 200, answer.text
        made: dict[str, Any] = answer.json
        return made

    async def post(
        self, wallet: str, path: str, body: Any = None, *, token: str | None = None
    ) -> Answer:
        options = {} if token is None else {"token": token}
        return await self.api.post(f"/wallets/{wallet}/schedules{path}", body, **options)

    async def get(self, wallet: str, schedule: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.api.get(f"/wallets/{wallet}/schedules/{schedule}")).json
        return found

    async def runs(self, wallet: str, schedule: str) -> list[dict[str, Any]]:
        answer = await self.api.get(f"/wallets/{wallet}/schedules/{schedule}/runs")
        assert answer.status == 200, answer.text
        found: list[dict[str, Any]] = answer.json["runs"]
        return found


async def timed(service: Solward, clock: ScheduleClock, hook: ScheduleHook) -> Solward:
    """The service with schedules that are due by a clock, and run when they are told to."""
    await service.schedules.runner.close()
    schedules = ScheduleService(
        database=service.database,
        wallets=service.wallets,
        policies=service.policies,
        registry=lambda: service.live.registry,
        keys=service.keys,
        run_skill=service.skill_runs.run,
        me=service.engine.process.id,
        hook=hook,
        now=clock,
    )
    return replace(service, schedules=schedules)


@asynccontextmanager
async def timetable(
    home: Path, clock: ScheduleClock | None = None, *, hook: ScheduleHook = no_hook, **given: Any
) -> AsyncIterator[Timetable]:
    """An API on the embedded ledger."""
    clock = ScheduleClock() if clock is None else clock
    async with Solward.open(settings(home, **given)) as opened:
        service = await timed(opened, clock, hook)
        app = create_app(service)
        async with app.test_app():
            yield Timetable(Api(app, service), clock)


def due(ms: int) -> str:
    """A due time as routes show it."""
    return iso(ms)
