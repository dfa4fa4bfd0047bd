"""The skills: listed with their schemas, and run on a wallet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quart import Blueprint, Response

from solward.errors import InvalidRequest, SkillNotFound, SolwardError
from solward.skill import Effects
from solward_server.http.auth import caller, keyed
from solward_server.http.body import Body, read_body
from solward_server.http.edge import Edge
from solward_server.http.errors import error_response, status_of
from solward_server.http.idempotency import action_key, finish, idempotency_key, replay
from solward_server.http.json_provider import json_response
from solward_server.http.money_response import wants_dry_run


def blueprint(edge: Edge) -> Blueprint:
    """`GET /skills` and `POST /wallets/:id/skills/:name`, whose body is the parameters."""
    routes = Blueprint("skills", __name__)

    @routes.get("/skills")
    @keyed
    async def listing() -> dict[str, Any]:
        skills = edge.service.registry.skills.values()
        return {
            "skills": [
                {
                    "name": skill.spec.name,
                    "description": skill.spec.description,
                    "parameters": skill.spec.parameters,
                    "effects": skill.spec.effects.value,
                    "distribution": skill.distribution,
                    "version": skill.version,
                }
                for skill in skills
            ]
        }

    @routes.post("/wallets/<wallet_id>/skills/<name>")
    @keyed
    async def run(wallet_id: str, name: str) -> Response:
        body = await read_body()
        await edge.wallet(wallet_id)
        skills = edge.service.registry.skills
        if name not in skills:
            raise SkillNotFound(name, sorted(skills))
        # Refused before anything is claimed or counted.
        params = skills[name].validate(dict(body))
        if skills[name].spec.effects is not Effects.SPEND:
            return await _run(edge, wallet_id, name, params, None)
        if wants_dry_run():
            raise InvalidRequest("dryRun is for the money routes, not for skills; nothing was sent")
        key = idempotency_key(body)
        if key is None:
            await edge.count_request()
            return await _run(edge, wallet_id, name, params, None)
        database = edge.service.database
        async with edge.skill_calls.claimed(database, key) as stored:
            if stored is not None:
                return replay(stored)
            await edge.count_request()
            try:
                response = await _run(edge, wallet_id, name, params, action_key(key))
            except SolwardError as error:
                response = error_response(str(error), status_of(error))
            return await finish(database, key, response)

    return routes


async def _run(edge: Edge, wallet_id: str, name: str, params: Body, action: str | None) -> Response:
    actor = replace(caller().actor(), action_key=action)
    result = await edge.service.run_skill(name, params, wallet_id, actor)
    return json_response({"result": result})
