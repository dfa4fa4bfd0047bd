"""A receiver of the approvals' webhook: shows what is held, sends back what a person types."""

import os
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

import httpx

from solward.client import BadSignature, Delivery, sign_decision, verify_delivery

SECRET = os.environ["APPROVAL_WEBHOOK_SECRET"]
PORT = int(os.environ.get("RECEIVER_PORT", "8088"))
MOST_BYTES = 1 << 20

told: queue.Queue[Delivery] = queue.Queue()
seen: set[str] = set()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(min(length, MOST_BYTES))
        try:
            delivery = verify_delivery(SECRET, dict(self.headers), body)
        except BadSignature:
            self.send_response(401)
        else:
            # It is sent again until it is answered, so it may come twice.
            if delivery.id not in seen:
                seen.add(delivery.id)
                told.put(delivery)
            # A person takes longer than the service waits: answer now, decide later.
            self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing for each request."""


def decide(delivery: Delivery, decision: Literal["approve", "deny"]) -> str:
    signed = sign_decision(SECRET, delivery.hold["id"], decision, "typed at the receiver")
    answer = httpx.post(
        delivery.decision_url, content=signed.body, headers=signed.headers, timeout=60
    )
    return str(answer.json().get("state") or answer.json()["error"])


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        delivery = told.get()
        print(delivery.event, ascii(delivery.hold["sentence"]), flush=True)
        for line in delivery.hold["lines"]:
            # Whole: an address can be made that begins and ends like one you know.
            print(" ", line["operation"], line["units"], line["asset"], line.get("account"))
        if delivery.event == "hold:created":
            typed = input("approve or deny? ")
            print(decide(delivery, "approve" if typed == "approve" else "deny"), flush=True)


main()
