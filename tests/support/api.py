"""A client of the application in this process, and a service under it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quart import Quart
from tests.server.described import described

from solward.service.service import Solward
from solward.settings import Settings
from solward.support import jsontext
from solward_server.app import create_app
from solward_server.resources import PREFIX

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
