"""What Prometheus scrapes, beside the API."""

from __future__ import annotations

from solward_server.http.auth import Access
from solward_server.openapi.operation import operation

# From the root, not under the API's prefix.
ROOT_PATHS = {
    "/metrics": {
        "get": operation(
            "getMetrics",
            "What this process counts and measures, for Prometheus",
            tag="metrics",
            access=Access.ADMIN,
            description="As OpenMetrics where `Accept` asks for it, else as text 0.0.4.",
            answer={
                "description": "The metrics.",
                "content": {
                    "text/plain": {"schema": {"type": "string"}},
                    "application/openmetrics-text": {"schema": {"type": "string"}},
                },
            },
        )
    }
}
