"""T17: limits of connections."""

import socket
import threading
import time

from sip import Stream, credentials, fresh
from suite import Failed, check, probe


@probe("T17.1", "first-request-deadline", "narrow")
def first_request(t):
    """With limits.first-request 2s, even a client that sends its request byte by byte is closed in time."""
    t.needs("limits.first-request")
    dripping = {
        "nothing": lambda s, n: None,
        "line ends": lambda s, n: s.send(b"\r\n\r\n"),
        "a head byte by byte": lambda s, n: s.send(b"OPTIONS sip:example.net SIP/2.0\r\nVia: SIP/2.0/TCP h;branch=z9hG4bKd\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyy"[n:n + 1]),
        "responses": lambda s, n: s.send(f"SIP/2.0 200 OK\r\nVia: SIP/2.0/TCP h;branch=z9hG4bK{n}\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:a@b>;tag=2\r\nCall-ID: {n}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n".encode()),
    }
    times = {}

    def one(what, drip):
        # The clock is read before the daemon accepts the connection, so the measured time is never too short.
        begin = time.monotonic()
        stream = t.stream()
        number = 0
        while not stream.closed and time.monotonic() - begin < 40:
            drip(stream, number)
            number += 1
            stream.wait_closed(0.25)
        times[what] = time.monotonic() - begin if stream.closed else None

    threads = [threading.Thread(target=one, args=item) for item in dripping.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    slow = [what for what, seconds in times.items() if seconds is None]
    check(not slow, f"with limits.first-request 2s these stayed for 40 s: {slow}")
    early = {what: seconds for what, seconds in times.items() if seconds < 1.5 and what != "responses"}
    check(not early, f"closed before the deadline: {early}")
    return "closed after " + ", ".join(f"{seconds:.1f} s ({what})" for what, seconds in times.items())


def proves(stream, user):
    """Registers on the stream as soon as it is open. On a busy machine, a client that first creates a user may be too
    late."""
    answer = stream.register(*user)
    check(answer and answer.status == 200, f"control: REGISTER got {answer}")


def standing(streams, most, seconds=30):
    """The number of open streams, as soon as it is at most `count`, or after the timeout."""
    limit = time.monotonic() + seconds
    while (count := sum(1 for s in streams if not s.closed)) > most and time.monotonic() < limit:
        time.sleep(0.1)
    return count


@probe("T17.1", "authentication-deadline", "narrow")
def authentication(t):
    t.needs("limits.authentication")
    user = t.daemon.user()
    begin = time.monotonic()
    idle, proved = t.stream(), t.stream()
    idle.send(idle.make("OPTIONS", "sip:example.net"))
    proves(proved, user)
    number = 1
    while not idle.closed and time.monotonic() - begin < 40:
        idle.send(idle.make("OPTIONS", "sip:example.net"))
        number += 1
        idle.wait_closed(0.5)
    check(idle.closed, "with limits.authentication 4s a connection that proved nothing stayed for 40 s")
    seconds = time.monotonic() - begin
    check(seconds > 2.5, f"closed after {seconds:.1f} s already")
    time.sleep(0.5)
    check(not proved.closed, "the connection that had proved itself was closed, too")
    answer = proved.exchange(proved.make("OPTIONS", "sip:example.net"))
    check(answer, "control: it does not answer")
    return f"{number} OPTIONS do not help: closed after {seconds:.1f} s; one that registered stays"


@probe("T17.2", "connections-per-source", "digest")
def per_source(t):
    host = t.address()
    streams = [t.stream(host) for _ in range(80)]
    count = standing(streams, 64)
    check(count <= 64, f"{count} connections of one source that has proved nothing stand; the limit is 64")
    check(count >= 32, f"control: only {count} connections stand")
    other = t.stream()
    check(other.exchange(other.make("OPTIONS", "sip:example.net")), "another source is shut out")
    # Connections with a right password do not count.
    crowded = t.address()
    proved = []
    for _ in range(70):
        stream = t.stream(crowded)
        name, password = t.registered(stream)
        proved.append(stream)
    time.sleep(0.3)
    check(not any(s.closed for s in proved), "70 phones behind one address lost connections although they had proved themselves")
    return f"of 80 connections of one source {count} stand; 70 registered phones behind one address keep theirs"


@probe("T17.3", "oldest-unproved-gives-way", "narrow", alone=True)
def gives_way(t):
    """With limits.connections 60, a connection without a password makes room for a new one."""
    user = t.daemon.user()
    proved = t.stream()
    proves(proved, user)
    first = t.stream()
    rest = [t.stream() for _ in range(57)]
    for _ in range(5):
        newer = t.stream()
        check(newer.exchange(newer.make("OPTIONS", "sip:example.net")), "with the table full of idle connections a new one is not served")
    check(first.wait_closed(10), "the oldest that had proved nothing still stands")
    check(not proved.closed, "a connection that had proved itself gave way")
    gone = sum(1 for s in rest if s.closed)
    return f"64 connections for 60 places: new ones are served, the oldest unproved went ({gone + 1}), the proved one stays"


@probe("T17.3", "connections-per-account", "narrow", alone=True)
def per_account(t):
    """With limits.connections 60 and limits.authentication 4s, one account's password may authenticate 32 connections."""
    name, password = t.daemon.user()
    streams = []
    for _ in range(40):
        stream = t.stream()
        # A REGISTER without Contact only requests the list of contacts.
        request = stream.make("REGISTER", "sip:example.net", name, to=f"sip:{name}@example.net")
        answer, _ = stream.with_credentials(request, name, password)
        check(answer and answer.status == 200, f"control: {answer and answer.start}")
        streams.append(stream)
    count = standing(streams, 32)
    # Connections without a password end at their deadline, and all other connections stay.
    time.sleep(2)
    count = min(count, standing(streams, 32))
    check(count <= 32, f"one account keeps {count} connections of 60")
    check(count == 32, f"control: {count} connections stand; 32 would be one account's share")
    others = []
    for _ in range(10):
        user = t.daemon.user()
        others.append(t.stream())
        proves(others[-1], user)
    check(not any(s.closed for s in others), "other users lost connections to it")
    return f"of 40 connections that one user proved, with 60 for all, {count} stay; others register beside them"


def burst(agent, count):
    """Sends OPTIONS requests one after the other, and returns the duration of each OPTIONS in milliseconds."""
    times = []
    for _ in range(count):
        request = agent.make("OPTIONS", "sip:example.net")
        begin = time.monotonic()
        check(agent.exchange(request, 3), "OPTIONS got no answer")
        times.append((time.monotonic() - begin) * 1000)
    return sorted(times)


@probe("T4.5", "a-crowd-costs-nothing", "digest", alone=True, timing=True)
def crowd(t):
    """5,000 idle connections, and 200 that send byte by byte, do not delay other requests. The probe measures the
    daemon's processor time."""
    count, hosts = 400, [t.address() for _ in range(90)]

    def measure():
        agents = (t.phone(), t.stream())
        before, times = t.daemon.work(), []
        for agent in agents:
            times += burst(agent, count)
        times.sort()
        return (t.daemon.work() - before) / (2 * count) * 1e6, times[int(len(times) * 0.99)]

    measure()
    alone, alone_late = measure()
    sockets = []
    try:
        for number in range(5200):
            connection = socket.socket()
            connection.bind((hosts[number % len(hosts)], 0))
            connection.connect(t.daemon.address)
            sockets.append(connection)
        stop = threading.Event()

        def drip():
            while not stop.wait(1):
                for connection in sockets[:200]:
                    try:
                        connection.send(b"O")
                    except OSError:
                        return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        time.sleep(1)
        crowded, crowded_late = measure()
        stop.set()
        thread.join()
        number = t.daemon.metric("sippushd_connections")
    finally:
        for connection in sockets:
            connection.close()
    check(number >= 5000, f"control: {number:.0f} connections stood")
    check(crowded < 3 * alone + 200, f"an OPTIONS takes {crowded:.0f} µs beside 5,200 connections, {alone:.0f} µs without")
    return (f"an OPTIONS takes {crowded:.0f} µs of processor time beside 5,000 idle and 200 dripping connections, {alone:.0f} "
            f"without; 99 % are answered within {crowded_late:.1f} ms, {alone_late:.1f} without")


@probe("T17.4", "half-messages", "direct", alone=True)
def half_messages(t):
    count = 600
    warm = [t.stream() for _ in range(60)]
    for stream in warm:
        stream.exchange(stream.make("OPTIONS", "sip:example.net"))
    time.sleep(0.3)
    before, address_space = t.daemon.memory(), t.daemon.memory("VmData")
    sockets = []
    # Each source opens fewer connections than its limit allows.
    hosts = [t.address() for _ in range(12)]
    for number in range(count):
        connection = socket.socket()
        connection.bind((hosts[number % len(hosts)], 0))
        connection.connect(t.daemon.address)
        connection.sendall(b"OPTIONS sip:example.net SIP/2.0\r\nVia: SIP/2.0/TCP h;branch=z9hG4bKd\r\nFrom: <sip:a@b>;tag=1\r\n"
                           b"To: <sip:a@b>\r\nCall-ID: h\r\nCSeq: 1 OPTIONS\r\nContent-Length: 60000\r\n\r\nten bytes.")
        sockets.append(connection)
    time.sleep(1)
    grown = max(t.daemon.memory() - before, t.daemon.memory("VmData") - address_space) / count
    for connection in sockets:
        connection.close()
    check(grown < 16, f"{count} half messages of 200 bytes that announce 60,000 take {grown:.1f} KiB each")
    return f"{count} half messages of 200 bytes that announce 60,000 take {max(grown, 0):.1f} KiB each"


def pipeline(stream, count):
    raw, calls = [], []
    for number in range(count):
        request = stream.make("OPTIONS", "sip:example.net")
        calls.append(request.call_id)
        raw.append(request.bytes())
    return b"".join(raw), calls


@probe("T17.5", "busy-trunk", "digest")
def busy(t):
    stream = t.stream(trusted=True)
    raw, calls = pipeline(stream, 2000)
    threading.Thread(target=stream.send, args=(raw,), daemon=True).start()
    limit = time.monotonic() + 90
    while len(stream.history) < 2000 and not stream.closed and time.monotonic() < limit:
        time.sleep(0.05)
    check(len(stream.history) == 2000, f"of 2,000 pipelined requests {len(stream.history)} were answered, "
                                       f"the connection is {'closed' if stream.closed else 'open'}")
    # The slow client begins to read only after some seconds.
    slow = t.stream(trusted=True, read=False)
    raw, calls = pipeline(slow, 2000)
    threading.Thread(target=slow.send, args=(raw,), daemon=True).start()
    time.sleep(2)
    threading.Thread(target=slow.read, daemon=True).start()
    limit = time.monotonic() + 90
    while len(slow.history) < 2000 and not slow.closed and time.monotonic() < limit:
        time.sleep(0.05)
    check(len(slow.history) == 2000, f"a trunk that reads 2 s late got {len(slow.history)} of 2,000 answers")
    return "2,000 pipelined requests on one connection: all answered, also when the peer reads 2 s late"


@probe("T17.5", "a-peer-that-never-reads", "direct")
def deaf(t):
    stream = t.stream(trusted=True, read=False)
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw, _ = pipeline(stream, 400)
    before = t.daemon.memory()
    stream.socket.settimeout(0.5)
    sent, stuck, closed = 0, 0, False
    begin = time.monotonic()
    while time.monotonic() - begin < 60:
        try:
            sent += stream.socket.send(raw[sent % len(raw):][:65536])
            stuck = 0
        except TimeoutError:
            stuck += 1
        except OSError:
            closed = True
            break
    grown = t.daemon.memory() - before
    check(grown < 64 * 1024, f"a peer that reads nothing made the daemon grow by {grown} KiB")
    check(closed, f"after 60 s a peer that reads nothing still has its connection ({sent} bytes sent)")
    other = t.phone()
    check(other.exchange(other.make("OPTIONS", "sip:example.net")), "others are not served")
    return f"a peer that reads nothing was read no further after {sent // 1024} KiB and lost its connection after {time.monotonic() - begin:.0f} s"


@probe("T2", "pieces-and-pipelines", "digest")
def pieces(t):
    """Valid messages arrive even if they are sent in pieces, cut at any point."""
    stream = t.stream()
    request = stream.make("OPTIONS", "sip:example.net", body="twelve bytes")
    raw = request.bytes()
    for byte in raw:
        stream.socket.send(bytes([byte]))
    check(stream.response(request.call_id), "a message in single bytes got no answer")
    first, second = stream.make("OPTIONS", "sip:example.net", body="a"), stream.make("OPTIONS", "sip:example.net")
    stream.send(b"\r\n\r\n" + first.bytes() + b"\r\n\r\n" + second.bytes())
    check(stream.response(first.call_id) and stream.response(second.call_id), "two messages in one piece")
    return "a message in single bytes and two in one piece are answered"
