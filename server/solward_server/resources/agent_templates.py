"""Agent templates: what there is to start from, and what it comes to with one's own parameters."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.resources.fields import Schema, nullable
from solward.resources.schema import array, ref, request_object, response_object, text, whole
from solward.types.roles import Role
from solward_server.http.auth import Access, keyed
from solward_server.http.body import read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.components import CAN_LEAVE, SAID_GRANT
from solward_server.openapi.operation import operation, request_body, success
from solward_server.openapi.parameters import path_parameter


def blueprint(context: RouteContext) -> Blueprint:
    """`/agent-templates` and the preview of one."""
    routes = Blueprint("agent_templates", __name__, url_prefix="/agent-templates")
    agents = context.service.agents

    @routes.get("")
    @keyed(Role.READ)
    async def listing() -> dict[str, Any]:
        return {"templates": await agents.templates()}

    @routes.post("/<name>/preview")
    @keyed(Role.READ)
    async def preview(name: str) -> dict[str, Any]:
        return await agents.preview(name, await read_body())

    return routes


_OBJECT: Schema = {"type": "object"}
COMPONENTS = {
    "AgentTemplate": response_object(
        {
            "name": text("As `POST /agents` takes it in `template`."),
            "title": text("For people."),
            "summary": text("What an agent of it does."),
            "skills": array(text("A skill."), "Those that it cannot do without."),
            "missingSkills": array(text("A skill."), "Of these, those that are not loaded."),
            "parameters": _OBJECT | {"description": "JSON Schema of `templateParameters`."},
            "example": nullable(ref("AgentTemplatePreview")),
        }
    ),
    "AgentTemplatePreview": response_object(
        {
            "parameters": _OBJECT | {"description": "The values, defaults too."},
            "strategy": text("With the values as a block of JSON at its end."),
            "loopIntervalMs": whole("Between cycles.", 1000),
            "guardrails": ref("Guardrails"),
            "grants": array(SAID_GRANT, "As `POST /agents` takes them; none: it signs nothing."),
            "sentences": array(text("A sentence."), "The grants in words."),
            "canLeave": CAN_LEAVE,
        }
    ),
}
_PREVIEW = {
    "parameters": {"token": "USDC", "amount": 0.01, "amountPerDay": 0.04},
    "strategy": "You buy `token` at regular times for the same amount of SOL, ...",
    "loopIntervalMs": 21_600_000,
    "guardrails": {
        "maxSolPerTransaction": 0.01,
        "maxTransactionsPerMinute": 1,
        "dailySpendingLimitSol": 0.04,
        "maxCostsSolPerDay": 0.02,
    },
    "grants": [
        {
            "may": ["swap"],
            "assets": {"SOL": {"perTx": "0.01", "per": {"24h": "0.04"}}},
            "swap": {"slippageBps": 100, "impactBps": 200, "into": ["USDC"]},
            "costs": "0.02",
            "rate": {"24h": 6},
        }
    ],
    "sentences": [
        "Agent dollar-cost-averager may swap up to 0.01 SOL at once and 0.04 a day; fees and rent"
        " up to 0.02 SOL a day; at most 6 transactions a day; swaps only into USDC; slippage at"
        " most 1%; price impact at most 2%."
    ],
    "canLeave": {
        "window": "24h",
        "assets": {"SOL": {"most": "0.04"}, "COSTS": {"most": "0.02"}, "*": {"most": "0"}},
        "sentence": "At most 0.04 SOL and 0.02 SOL of fees and rent can leave its wallet today by"
        " anybody but the operator.",
    },
}
_NAME = "dollar-cost-averager"
PATHS = {
    "/agent-templates": {
        "get": operation(
            "listAgentTemplates",
            "Starting points of agents",
            tag="agents",
            access=Access.KEY,
            response=success(
                response_object({"templates": array(ref("AgentTemplate"))}),
                {
                    "templates": [
                        {
                            "name": _NAME,
                            "title": "Dollar-cost averager",
                            "summary": "Buys a token for the same amount of SOL every six hours.",
                            "skills": ["swap"],
                            "missingSkills": [],
                            "parameters": {"type": "object", "properties": {}},
                            "example": _PREVIEW,
                        }
                    ]
                },
            ),
        )
    },
    "/agent-templates/{name}/preview": {
        "post": operation(
            "previewAgentTemplate",
            "What an agent of a template would be, and the most that can leave by it",
            tag="agents",
            access=Access.KEY,
            description="Nothing is made.",
            parameters=[path_parameter("name", text("Its name."), _NAME)],
            body=request_body(
                request_object(
                    {
                        "parameters": _OBJECT | {"description": "By the template's schema."},
                        "guardrails": _OBJECT
                        | {"description": "In place of the template's, as of `POST /agents`."},
                    }
                ),
                {"parameters": {"amount": 0.01}},
                required=False,
            ),
            response=success(ref("AgentTemplatePreview"), _PREVIEW),
            errors={
                400: "templateParameters of dollar-cost-averager: amount: must be greater than 0"
                " (got 0)",
                404: "Agent template not found; there are: balance-reporter, dollar-cost-averager",
            },
        )
    },
}
