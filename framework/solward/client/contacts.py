"""`client.contacts`."""

from __future__ import annotations

from solward.client.arguments import segment
from solward.client.http import Http
from solward.client.models import Contact


class Contacts:
    """What recipients are called, for people alone; needs the admin secret."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(self) -> tuple[Contact, ...]:
        """Every contact, by name."""
        return self._http.read_list(Contact.of, await self._http.get("/contacts"), "contacts")

    async def known(self) -> tuple[Contact, ...]:
        """Every contact, and behind them the names of the policy's address book, as `@name`."""
        raw = await self._http.get("/contacts")
        contacts = self._http.read_list(Contact.of, raw, "contacts")
        return contacts + self._http.read_list(Contact.of, raw, "book")

    async def put(self, address: str, name: str) -> Contact:
        """Name an address, or rename it; raises `BadRequest`, naming the field."""
        raw = await self._http.send("POST", "/contacts", {"address": address, "name": name})
        return self._http.read(Contact.of, raw)

    async def remove(self, address: str) -> None:
        """Take an address's name away; raises `NotFoundError`."""
        await self._http.send("DELETE", f"/contacts/{segment(address, 'address')}")
