"""Viewers of the live stream without a browser, and the cost of viewers during calls (etc/page --viewers)."""

import asyncio
import json
import multiprocessing
import os
import socket
import sys
import threading
import time

from machine import patience

SECONDS = 10
ANSWER = b'{"multicast_id":1,"success":1,"failure":0,"canonical_ids":0,"results":[{"message_id":"0:1"}]}'


class Viewer:
    """A client that reads the stream of /v1/live until it is closed."""

    def __init__(self, daemon, key):
        self.events, self.bytes = 0, 0
        self.socket = socket.create_connection((daemon.host, daemon.admin_port), patience(10))
        self.socket.sendall(f"GET /v1/live HTTP/1.1\r\nHost: {daemon.host}\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
        raw = b""
        while b"\r\n\r\n" not in raw:
            some = self.socket.recv(65536)
            if not some:
                break
            raw += some
        head, _, rest = raw.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        self.fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.take(rest)
        self.socket.settimeout(None)
        if self.status == 200:
            threading.Thread(target=self.read, daemon=True).start()

    def take(self, some):
        self.bytes += len(some)
        self.events += some.count(b"event: now")

    def read(self):
        try:
            while some := self.socket.recv(1 << 18):
                self.take(some)
        except OSError:
            pass

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()


# MARK: The load

class Sink(asyncio.Protocol):
    """A push provider that accepts each push, and notes when the push for a user arrived."""

    times = {}

    def connection_made(self, transport):
        self.transport, self.rest = transport, b""

    def data_received(self, data):
        self.rest += data
        while True:
            head, mark, body = self.rest.partition(b"\r\n\r\n")
            if not mark:
                return
            length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
            if len(body) < length:
                return
            push, self.rest = body[:length], body[length:]
            place = push.find(b"load-token-")
            if place >= 0:
                user = int(push[place + 11:place + 19])
                self.times.setdefault(user, time.monotonic())
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ANSWER) + ANSWER)


def sink(pipe):
    """The process of the push provider. The process sends its port, and after a word from the parent the times."""

    async def serve():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Sink, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        while await loop.run_in_executor(None, pipe.recv) != "end":
            pipe.send(Sink.times)

    asyncio.run(serve())


def register(address, users):
    """Registers the users, each with a contact at one socket. At most sixty-four REGISTERs are unanswered."""
    phone = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    phone.bind(("127.1.0.1", 0))
    phone.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    phone.settimeout(1)
    place = "%s:%d" % phone.getsockname()
    waiting, done, first = {}, 0, iter(users)
    limit = time.monotonic() + 300
    while done < len(users):
        if time.monotonic() > limit:
            raise RuntimeError(f"only {done} users could be registered")
        while len(waiting) < 64:
            user = next(first, None)
            if user is None:
                break
            waiting[user] = (f"REGISTER sip:example.net SIP/2.0\r\nVia: SIP/2.0/UDP {place};branch=z9hG4bKr{user};rport\r\nMax-Forwards: 70\r\n"
                             f"From: <sip:load{user}@example.net>;tag=t{user}\r\nTo: <sip:load{user}@example.net>\r\nCall-ID: reg-{user}\r\nCSeq: 1 REGISTER\r\n"
                             f"Contact: <sip:load{user}@{place};pn-provider=fcm;pn-param=p;pn-prid=load-token-{user:08}>\r\nExpires: 3600\r\n"
                             "Content-Length: 0\r\n\r\n").encode()
            phone.sendto(waiting[user], address)
        try:
            answer = phone.recv(65536)
        except TimeoutError:
            for raw in waiting.values():
                phone.sendto(raw, address)
            continue
        if answer.startswith(b"SIP/2.0 200"):
            user = int(answer.partition(b"Call-ID: reg-")[2].partition(b"\r")[0])
            if waiting.pop(user, None):
                done += 1
        elif answer.startswith(b"SIP/2.0 503"):
            # The daemon limits the REGISTERs of one address.
            user = int(answer.partition(b"Call-ID: reg-")[2].partition(b"\r")[0])
            time.sleep(.05)
            if user in waiting:
                phone.sendto(waiting[user], address)
        elif not answer.startswith(b"SIP/2.0 1"):
            raise RuntimeError(f"a REGISTER got {answer[:60]!r}")
    return phone


def call(address, users, host, rate):
    """Sends an INVITE to each of the users, `rate` a second. Returns the times of the INVITEs and of their 100."""
    caller = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    caller.bind((host, 0))
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    place = "%s:%d" % caller.getsockname()
    sent, tried, refused = {}, {}, []

    def read():
        while True:
            try:
                answer = caller.recv(65536)
            except OSError:
                return
            now = time.monotonic()
            user = int(answer.partition(b"Call-ID: load-")[2].partition(b"\r")[0] or -1)
            if answer.startswith(b"SIP/2.0 100"):
                tried.setdefault(user, now)
            elif answer.startswith(b"SIP/2.0 ") and answer[8:9] not in b"12":
                refused.append(answer[:40])

    threading.Thread(target=read, daemon=True).start()
    start = time.monotonic()
    for number, user in enumerate(users):
        raw = (f"INVITE sip:load{user}@example.net SIP/2.0\r\nVia: SIP/2.0/UDP {place};branch=z9hG4bKi{user};rport\r\nMax-Forwards: 70\r\n"
               f"From: <sip:700@example.net>;tag=f{user}\r\nTo: <sip:load{user}@example.net>\r\nCall-ID: load-{user}\r\nCSeq: 1 INVITE\r\n"
               f"Contact: <sip:700@{place}>\r\nContent-Length: 0\r\n\r\n").encode()
        early = start + number / rate - time.monotonic()
        if early > 0:
            time.sleep(early)
        sent[user] = time.monotonic()
        caller.sendto(raw, address)
    # A daemon that fell behind answers the remaining INVITEs before the next part begins.
    limit = time.monotonic() + 60
    while len(tried) + len(refused) < len(sent) and time.monotonic() < limit:
        time.sleep(.1)
    caller.close()
    return sent, tried, refused


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] * 1000 if values else float("nan")


def measure(story, port_pipe, count, users, rate):
    """One part of the measurement: calls while `count` viewers are connected."""
    viewers = [Viewer(story.daemon, story.keys["operator"]) for _ in range(count)]
    refused = [viewer.status for viewer in viewers if viewer.status != 200]
    before, start = story.daemon.work(), time.monotonic()
    sent, tried, failures = call(story.daemon.address, users, story.suite.address(trusted=True), rate)
    work, passed = story.daemon.work() - before, time.monotonic() - start
    limit = time.monotonic() + 60
    while True:
        port_pipe.send("times")
        pushed = port_pipe.recv()
        if all(user in pushed for user in users) or time.monotonic() > limit:
            break
        time.sleep(.1)
    for viewer in viewers:
        viewer.close()
    span = max(sent.values()) - min(sent.values())
    hundred = [tried[user] - sent[user] for user in users if user in tried]
    pushes = [pushed[user] - sent[user] for user in users if user in pushed]
    print(f"{count} viewers: {len(users) / span:.0f} calls/s, CPU {100 * work / passed:.1f} %, {work / len(users) * 1e6:.0f} µs for each call")
    print(f"    INVITE to 100:  p50 {quantile(hundred, .5):.2f} ms, p99 {quantile(hundred, .99):.2f} ms, {len(hundred)} of {len(users)}")
    print(f"    INVITE to push: p50 {quantile(pushes, .5):.2f} ms, p99 {quantile(pushes, .99):.2f} ms, {len(pushes)} of {len(users)}")
    if viewers:
        print(f"    {min(viewer.events for viewer in viewers)} to {max(viewer.events for viewer in viewers)} events for each viewer, "
              f"{sum(viewer.bytes for viewer in viewers) / len(viewers) / 1000:.0f} kB")
    if refused or failures:
        print(f"    refused viewers: {refused}; refused calls: {len(failures)} {failures[:1]}")
    sys.stdout.flush()
    return not refused and not failures and len(hundred) == len(users) and len(pushes) == len(users)


def main(story, count, rate):
    """Prints the daemon's CPU time and the times of calls without viewers, with viewers, and without viewers again."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=sink, args=(there,), daemon=True)
    process.start()
    port = here.recv()
    story.daemon.values.update({"auth": "off", "call": {"ring-timeout": "60s"}, "push": {"fcm": {"endpoint": f"http://127.0.0.1:{port}", "limits": {"in-flight": 500}}}})
    story.start(browser=False)
    parts, size = (0, count, 0, count), rate * SECONDS
    print(f"the daemon: {os.path.realpath(story.suite.program)}", flush=True)
    phone = register(story.daemon.address, range(size * len(parts)))
    try:
        good = [measure(story, here, viewers, range(number * size, (number + 1) * size), rate) for number, viewers in enumerate(parts)]
    finally:
        phone.close()
        here.send("end")
        process.join(5)
        process.kill()
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return all(good)
