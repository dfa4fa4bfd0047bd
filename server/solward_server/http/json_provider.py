"""JSON in and out of Quart with exact numbers."""

from __future__ import annotations

from typing import Any

from quart import Response as QuartResponse
from quart.json.provider import JSONProvider
from werkzeug.sansio.response import Response

from solward import jsontext


class ExactJSON(JSONProvider):
    """Decimals are written as numbers and fractions read as Decimals; NaN is refused."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        """JSON text of a value."""
        return jsontext.dumps(obj)

    def loads(self, s: str | bytes, **kwargs: Any) -> Any:
        """The value of a JSON text; raises ValueError."""
        return jsontext.loads(s)

    def response(self, *args: Any, **kwargs: Any) -> Response:
        """A JSON response."""
        value = self._prepare_response_obj(args, kwargs)
        return self._app.response_class(self.dumps(value), mimetype="application/json")


def json_response(body: dict[str, Any], status: int = 200) -> QuartResponse:
    """A JSON answer with a status, for routes that do more than return their body."""
    return QuartResponse(jsontext.dumps(body), status, mimetype="application/json")
