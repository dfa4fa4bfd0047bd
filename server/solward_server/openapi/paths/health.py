"""Is it up; and this description itself."""

from __future__ import annotations

from solward_server.http.auth import Access
from solward_server.openapi.operation import answers, operation
from solward_server.openapi.schema import ref

PATHS = {
    "/health": {
        "get": operation(
            "getHealth",
            "Is it up, which version, and does its ledger answer",
            tag="health",
            access=Access.PUBLIC,
            description="Answers within a second, always with 200.",
            answer=answers(
                ref("Health"),
                {
                    "status": "ok",
                    "version": "0.1.0",
                    "solana": {"healthy": True, "network": "localnet", "slot": 112},
                    "agents": {
                        "total": 1,
                        "running": 1,
                        "totalAgents": 1,
                        "runningAgents": 1,
                        "stoppedAgents": 0,
                        "idleAgents": 0,
                    },
                },
            ),
        )
    },
    "/openapi.json": {
        "get": operation(
            "getDescription",
            "This description, with the skills and providers that are loaded",
            tag="health",
            access=Access.PUBLIC,
            answer=answers(
                {"type": "object", "required": ["openapi", "info", "paths", "components"]},
                {"openapi": "3.1.0", "info": {}, "paths": {}, "components": {}},
            ),
        )
    },
}
