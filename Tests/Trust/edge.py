"""TLS and WebSocket for the probes: certificates, streams and frames. The module for TLS and WebSocket is independent of
the daemon."""

import base64
import hashlib
import os
import select
import socket
import ssl
import struct
import subprocess
import threading
import time

from sip import Agent, Stream, chance, fresh, hang_up


class Authority:
    """A certificate authority in a folder, made with Debian's openssl."""

    def __init__(self, folder, name="authority"):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.file = os.path.join(folder, f"{name}.pem")
        self.key = os.path.join(folder, f"{name}-key.pem")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                     "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.file)

    def issue(self, name, alternatives, days=30, seconds=None):
        """Issues a certificate and its key, and returns the paths of certificate and key. If `seconds` is given, the
        certificate is valid for so many seconds."""
        base = os.path.join(self.folder, name)
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=ignored",
                     "-keyout", base + "-key.pem", "-out", base + ".csr")
        with open(base + ".ext", "w") as file:
            file.write("subjectAltName=" + alternatives + "\n")
        if seconds:
            return self.issue_shortly(base, seconds)
        self.openssl("x509", "-req", "-in", base + ".csr", "-CA", self.file, "-CAkey", self.key, "-days", str(days),
                     "-extfile", base + ".ext", "-out", base + ".pem")
        return base + ".pem", base + "-key.pem"

    def issue_shortly(self, base, seconds):
        """`openssl ca` takes seconds, and needs a list of issued certificates."""
        with open(base + ".index", "w"), open(base + ".ca", "w") as file:
            file.write(f"[ca]\ndefault_ca=it\n[it]\ndatabase={base}.index\nnew_certs_dir={self.folder}\nrand_serial=yes\n"
                       "default_md=sha256\nunique_subject=no\npolicy=any\n[any]\ncommonName=supplied\n")
        stamp = [time.strftime("%Y%m%d%H%M%SZ", time.gmtime(when)) for when in (time.time() - 60, time.time() + seconds)]
        self.openssl("ca", "-batch", "-notext", "-config", base + ".ca", "-cert", self.file, "-keyfile", self.key,
                     "-in", base + ".csr", "-startdate", stamp[0], "-enddate", stamp[1], "-extfile", base + ".ext",
                     "-out", base + ".pem")
        return base + ".pem", base + "-key.pem"

    @staticmethod
    def openssl(*arguments):
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {arguments[0]}: {done.stderr[-300:]}")


def context(authority=None, pair=None, protocols=("sip/2",), server=False):
    """A TLS context with the authority and a certificate."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    if pair:
        made.load_cert_chain(*pair)
    if authority:
        made.load_verify_locations(authority.file)
    elif not server:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    made.set_alpn_protocols(list(protocols))
    return made


class Sealed:
    """A TLS socket from which one thread can read while another writes."""

    def __init__(self, plain, made, name=None, server=False, session=None):
        plain.settimeout(48)
        self.socket = made.wrap_socket(
            plain, server_hostname=None if server else name, server_side=server, session=session)
        # The handshake ends before any thread reads, because OpenSSL does not report its end while TLS tickets arrive.
        self.certificate = self.socket.getpeercert()
        self.protocol = self.socket.selected_alpn_protocol()
        self.is_resumed = self.socket.session_reused
        self.socket.setblocking(False)
        self.lock = threading.Lock()

    def wait(self, events):
        """Waits a second at most for the socket, without select(), which takes no descriptor above 1,023."""
        try:
            poll = select.poll()
            poll.register(self.socket, events)
            poll.poll(1000)
        except ValueError:
            # Another thread has closed the socket.
            pass

    def recv(self, count):
        while True:
            with self.lock:
                try:
                    return self.socket.recv(count)
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    pass
                except ssl.SSLError as error:
                    raise OSError(str(error)) from error
            if self.socket.fileno() < 0:
                return b""
            self.wait(select.POLLIN)

    def sendall(self, data):
        while data:
            with self.lock:
                try:
                    data = data[self.socket.send(data):]
                    continue
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLWantWriteError:
                    pass
                except ssl.SSLError as error:
                    raise OSError(str(error)) from error
            self.wait(select.POLLOUT)

    def close(self):
        # The reader ends before the socket is closed, because OpenSSL would otherwise read from the next socket with the
        # same descriptor.
        with self.lock:
            self.socket.close()

    def shutdown(self, how):
        socket.socket.shutdown(self.socket, how)

    def __getattr__(self, name):
        if name == "settimeout":
            return lambda timeout: None
        return getattr(self.socket, name)


def connected(host, target, timeout=6.0):
    plain = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.settimeout(8 * timeout)
    plain.bind((host, 0))
    plain.connect(target)
    return plain


class SecureStream(Stream):
    """SIP over TLS."""

    transport = "TLS"

    def __init__(self, host, target, made=None, name="sip.example.net", session=None):
        plain = connected(host, target)
        try:
            sealed = Sealed(plain, made or context(), name, session=session)
        except OSError:
            plain.close()
            raise
        super().__init__(host, target, accepted=sealed)

    def uri_transport(self):
        return ";transport=tls"


class WebSocket(Agent):
    """SIP over WebSocket as in a browser, with unreachable host names in Via and Contact (RFC 7118 section 5)."""

    def __init__(self, host, target, made=None, name="sip.example.net", origin="https://phone.example.net",
                 secure=False, protocol="sip", fields=None, path="/"):
        super().__init__()
        self.transport = "WSS" if secure else "WS"
        self.target = target
        self.socket = connected(host, target)
        if secure:
            self.socket = Sealed(self.socket, made or context(protocols=("http/1.1",)), name)
        self.host, self.port = fresh("browser") + ".invalid", None
        self.codes, self.pongs, self.pings, self.rest = [], [], 0, b""
        self.answers_pings = True
        self.was_reset = False
        key = base64.b64encode(chance.randbytes(16)).decode()
        wanted = {"Host": f"{target[0]}:{target[1]}", "Upgrade": "websocket", "Connection": "keep-alive, Upgrade",
                  "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key, "Sec-WebSocket-Protocol": protocol,
                  "Origin": origin}
        wanted.update(fields or {})
        head = f"GET {path} HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in wanted.items() if v is not None) + "\r\n"
        self.socket.sendall(head.encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            some = self.socket.recv(4096)
            if not some:
                break
            answer += some
        head, _, self.rest = answer.partition(b"\r\n\r\n")
        self.head = head.decode("utf-8", "replace")
        self.status = int(self.head.split(" ")[1]) if self.head else None
        digest = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        self.accepted = f"sec-websocket-accept: {base64.b64encode(digest).decode()}".lower() in self.head.lower()
        if self.status == 101:
            self.socket.settimeout(None)
            threading.Thread(target=self.read, daemon=True).start()

    def local(self):
        return self.host

    def uri_transport(self):
        return ";transport=ws"

    def read(self):
        message, kind = b"", None
        while True:
            while (frame := self.cut()) is not None:
                final, opcode, payload = frame
                if opcode == 8:
                    self.codes.append(struct.unpack(">H", payload[:2])[0] if len(payload) > 1 else None)
                elif opcode == 9:
                    self.pings += 1
                    if self.answers_pings:
                        self.frame(payload, 10)
                elif opcode == 10:
                    self.pongs.append(payload)
                else:
                    kind = opcode or kind
                    message += payload
                    if final:
                        if kind == 1:
                            message.decode("utf-8")
                        self.arrived(message, self.target)
                        message = b""
            try:
                some = self.socket.recv(65536)
            except OSError as error:
                self.was_reset = isinstance(error, ConnectionError)
                some = b""
            if not some:
                return self.ended()
            self.rest += some

    def cut(self):
        if len(self.rest) < 2:
            return None
        size, start = self.rest[1] & 127, 2
        if size == 126:
            size, start = struct.unpack(">H", self.rest[2:4])[0] if len(self.rest) >= 4 else 1 << 62, 4
        elif size == 127:
            size, start = struct.unpack(">Q", self.rest[2:10])[0] if len(self.rest) >= 10 else 1 << 62, 10
        if self.rest[1] & 128 or len(self.rest) < start + size:
            return None
        first, payload = self.rest[0], self.rest[start:start + size]
        self.rest = self.rest[start + size:]
        return bool(first & 128), first & 15, payload

    def frame(self, payload, opcode=1, final=True, masked=True, reserved=0, size=None):
        """One WebSocket frame, valid or not; `size` is the length in the frame's head."""
        size = len(payload) if size is None else size
        head = bytes([(128 if final else 0) | reserved << 4 | opcode])
        mark = 128 if masked else 0
        if size < 126:
            head += bytes([mark | size])
        elif size < 65536:
            head += bytes([mark | 126]) + struct.pack(">H", size)
        else:
            head += bytes([mark | 127]) + struct.pack(">Q", size)
        if masked:
            mask = chance.randbytes(4)
            head += mask
            payload = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
        try:
            self.socket.sendall(head + payload)
        except OSError:
            self.ended()

    def send(self, message, to=None):
        self.frame(message if isinstance(message, bytes) else message.bytes())

    def reply_raw(self, raw, request):
        self.send(raw)

    def close(self):
        hang_up(self.socket)
