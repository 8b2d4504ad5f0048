#!/usr/bin/env python3
"""Receives the events of sippushd, and prints each event once, as one line of JSON. docs/Events.md describes the events.

  event-receiver.py --secret-file FILE [--port 8090] [--host 127.0.0.1] [--state FILE] [--cert FILE --key FILE]

--secret-file  the secret that events.secret-files names; give the option twice while the secret changes
--state        the file with the number of the last event of each daemon, so that a restart prints no event twice
--cert, --key  certificate and key for https; without them the receiver speaks http
"""

import argparse
import base64
import hashlib
import hmac
import http.server
import json
import os
import ssl
import sys
import time

TOLERANCE = 300
LONGEST = 1 << 20


def secret(path):
    """The key in a file with whsec_ and base64 text."""
    with open(path) as file:
        text = file.read().strip()
    if not text.startswith("whsec_"):
        raise SystemExit(f"{path}: expected whsec_ and base64 text")
    return base64.b64decode(text[len("whsec_"):])


def is_signed(keys, headers, body, now):
    """Whether a holder of a key signed the request within the last five minutes."""
    number, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not stamp.isdigit() or abs(now - int(stamp)) > TOLERANCE:
        return False
    signed = f"{number}.{stamp}.".encode() + body
    wanted = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()) for key in keys]
    shown = [text[3:].encode() for text in headers.get("webhook-signature", "").split(" ") if text.startswith("v1,")]
    return any(hmac.compare_digest(one, other) for one in wanted for other in shown)


class State:
    """The number of the last event of each daemon. The numbers of a daemon's events rise, so a repeated event has a lower number."""

    def __init__(self, path):
        self.path, self.last = path, {}
        if path and os.path.exists(path):
            with open(path) as file:
                self.last = json.load(file)

    def is_new(self, event):
        return int(event["id"]) > self.last.get(event["source"], 0)

    def took(self, event):
        self.last[event["source"]] = int(event["id"])

    def save(self):
        if self.path:
            with open(self.path + ".new", "w") as file:
                json.dump(self.last, file)
            os.replace(self.path + ".new", self.path)


def handler(keys, state):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_POST(self):
            length = int(self.headers.get("Content-Length", "0"))
            if length > LONGEST:
                return self.answer(413)
            body = self.rfile.read(length)
            # The signature is checked before anything else is read from the body.
            if not is_signed(keys, self.headers, body, time.time()):
                return self.answer(401)
            for event in json.loads(body):
                if state.is_new(event):
                    # Your own code goes here. It must be safe to run twice: the process can end before the state is saved.
                    print(json.dumps(event), flush=True)
                    state.took(event)
            state.save()
            # The daemon removes the events only after this answer.
            self.answer(204)

        def answer(self, status):
            self.send_response(status)
            self.send_header("Content-Length", "0")
            if status == 413:
                self.close_connection = True
            self.end_headers()

        def log_message(self, *arguments):
            pass

    return Handler


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--secret-file", action="append", required=True)
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=8090)
    options.add_argument("--state")
    options.add_argument("--cert")
    options.add_argument("--key")
    chosen = options.parse_args()
    keys = [secret(path) for path in chosen.secret_file]
    # One thread is enough: the daemon sends one request at a time.
    server = http.server.HTTPServer((chosen.host, chosen.port), handler(keys, State(chosen.state)))
    if chosen.cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chosen.cert, chosen.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(f"listening on {chosen.host}:{server.server_address[1]}", file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
