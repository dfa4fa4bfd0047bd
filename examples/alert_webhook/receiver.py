"""A receiver of the alerts' webhook: prints each line once, as text."""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from solward.client import BadSignature, verify_alerts

SECRET = os.environ["ALERT_WEBHOOK_SECRET"]
PORT = int(os.environ.get("RECEIVER_PORT", "8089"))
MOST_BYTES = 1 << 20

seen: set[str] = set()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(min(length, MOST_BYTES))
        try:
            delivery = verify_alerts(SECRET, dict(self.headers), body)
        except BadSignature:
            self.send_response(401)
        else:
            # It is sent again until it is answered, so it may come twice.
            if delivery.id not in seen:
                seen.add(delivery.id)
                for line in delivery.alerts:
                    # Its detail may quote strangers.
                    about = line.get("walletId") or line.get("agentId") or "the service"
                    print(line["count"], line["name"], about, ascii(line.get("detail", "")))
            self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing for each request."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", PORT), Receiver).serve_forever()
