"""`GET /agent-templates`: what agents can start from, and what can leave by each."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.resources.answers import answer_schema
from solward.resources.fields import SAID_GRANT
from solward.resources.limits import CanLeave
from solward.resources.schema import array, ref, response_object, text, whole
from solward.types.roles import Role
from solward_server.http.auth import Access, keyed
from solward_server.http.route_context import RouteContext
from solward_server.openapi.operation import operation, success


def blueprint(context: RouteContext) -> Blueprint:
    """`/agent-templates`."""
    routes = Blueprint("agent_templates", __name__)

    @routes.get("/agent-templates")
    @keyed(Role.READ)
    async def listing() -> dict[str, Any]:
        return {"templates": await context.service.agents.templates()}

    return routes


COMPONENTS = {
    "AgentTemplate": response_object(
        {
            "name": text("As `POST /agents` takes it in `template`."),
            "title": text("For people."),
            "summary": text("What an agent of it does."),
            "strategy": text("For a language model."),
            "loopIntervalMs": whole("Between cycles.", 1000),
            "guardrails": ref("Guardrails"),
            "grants": array(SAID_GRANT, "As `POST /agents` takes them; none: it signs nothing."),
            "sentences": array(text("A sentence."), "The grants in words."),
            "canLeave": answer_schema(CanLeave),
        }
    ),
}
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
                            "name": "balance-reporter",
                            "title": "Balance reporter",
                            "summary": "Says every hour what its wallet holds and what changed.",
                            "strategy": "You report what your wallet holds. ...",
                            "loopIntervalMs": 3_600_000,
                            "guardrails": {
                                "maxSolPerTransaction": 0.001,
                                "maxTransactionsPerMinute": 1,
                                "dailySpendingLimitSol": 0.001,
                            },
                            "grants": [],
                            "sentences": ["Agent balance-reporter may only read."],
                            "canLeave": {
                                "window": "24h",
                                "assets": {"*": {"most": "0"}},
                                "sentence": "Nothing can leave its wallet today by anybody but the"
                                " operator.",
                            },
                        }
                    ]
                },
            ),
        )
    },
}
