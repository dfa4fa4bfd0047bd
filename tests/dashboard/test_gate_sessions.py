"""A visitor's login ends with his own admin credential, and with nothing else that is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.promises import promise
from tests.support.http import Handler, served_in_thread

from solward.client import ClientError, Unauthorized
from solward_dashboard import frame
from solward_dashboard.access import Login
from solward_dashboard.api import Visitor, set_visitor
from solward_dashboard.options import Options

OF_A_KEY = {"error": "Invalid API key"}
SELF = {
    "role": "policy",
    "admin": {
        "id": "c1", "name": "ana", "role": "policy", "createdBy": "admin", "expiresAt": None,
        "createdAt": "2026-11-23T22:00:00.000Z", "lastUsedAt": None,
    },
}  # fmt: skip


class Refusing(Handler):
    """A service that answers 401 to everything but the question whose credential it is."""

    own: tuple[int, object] = (200, SELF)
    """Status and body of that; a status of 0 is no answer."""
    asked: int = 0

    def get(self) -> None:
        status, body = (401, OF_A_KEY)
        if self.path == "/api/v1/admins/self":
            type(self).asked += 1
            status, body = self.own  # type: ignore[assignment]
        if status == 0:
            self.close_connection = True
            return
        self.reply(status, body)


@pytest.fixture
def service() -> Iterator[tuple[type[Refusing], Options]]:
    """What it answers, and how it is reached."""

    class Own(Refusing):
        pass

    with served_in_thread(Own) as url:
        yield Own, Options(url, "secret", "127.0.0.1", 3000, "a password")


async def logged_in(options: Options) -> tuple[Login, Visitor]:
    login = Login(options)
    known, visitor = await login._check_secret("sa-" + "0" * 48)
    assert known
    assert visitor is not None
    await login._store_session("session", visitor)
    return login, visitor


def stands(login: Login) -> bool:
    return login._sessions["session"].is_valid(0)


@promise("pages-offer-what-role-may")
async def test_a_401_about_something_else_leaves_the_login(
    service: tuple[type[Refusing], Options],
) -> None:
    answers, options = service
    login, visitor = await logged_in(options)
    set_visitor(visitor)
    with pytest.raises(Unauthorized) as refused:
        await visitor.client.holds.get("of-a-revoked-key")
    assert stands(login)
    assert answers.asked == 2
    assert frame._failure_text(refused.value) == "Invalid API key."
    await visitor.client.close()


async def test_a_401_of_the_own_credential_ends_it(
    service: tuple[type[Refusing], Options],
) -> None:
    answers, options = service
    login, visitor = await logged_in(options)
    set_visitor(visitor)
    answers.own = (401, OF_A_KEY)
    with pytest.raises(Unauthorized) as refused:
        await visitor.client.holds.get("anything")
    assert not stands(login)
    assert frame._failure_text(refused.value).endswith(
        "credential is no longer valid: log in again."
    )
    await visitor.client.close()


@pytest.mark.parametrize("own", [(0, None), (500, {"error": "no"})], ids=["none", "an error"])
async def test_where_nobody_says_whose_401_it_is_the_login_stays(
    service: tuple[type[Refusing], Options], own: tuple[int, object]
) -> None:
    answers, options = service
    login, visitor = await logged_in(options)
    answers.own = own
    with pytest.raises(ClientError):
        await visitor.client.holds.get("anything")
    assert stands(login)
    await visitor.client.close()
