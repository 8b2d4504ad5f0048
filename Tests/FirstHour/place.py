"""The machines of the first hour: the daemon's machine is a Debian root with a network of its own. The PBX, phones and
providers are outside of the daemon's root."""

import json
import os
import socket
import struct
import subprocess
import threading
import time

DAEMON, PBX, NAMES, PROVIDERS = "192.0.2.20", "192.0.2.10", "192.0.2.53", "192.0.2.200"
PHONES = [f"192.0.2.{number}" for number in range(101, 110)]
PROVIDER_NAMES = ["api.push.apple.com", "api.sandbox.push.apple.com", "fcm.googleapis.com", "oauth2.googleapis.com"]
LOG = "/var/log/sippushd.log"
STORE = "/var/lib/sippushd"


def run(*words, **options):
    result = subprocess.run(words, text=True, capture_output=True, **options)
    if result.returncode:
        raise AssertionError(f"$ {' '.join(words)}\n{result.stdout}{result.stderr}")
    return result.stdout


class NameServer:
    """A DNS server that answers queries for addresses from the table `names`. The server answers that other names do not
    exist."""

    def __init__(self, address, names):
        self.names = names
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 53))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            question, source = self.socket.recvfrom(4096)
            self.socket.sendto(self.answer(question), source)

    def answer(self, question):
        place, labels = 12, []
        while question[place]:
            labels.append(question[place + 1:place + 1 + question[place]].decode("ascii", "replace").lower())
            place += 1 + question[place]
        kind = struct.unpack(">H", question[place + 1:place + 3])[0]
        address = self.names.get(".".join(labels))
        records = b""
        if address and kind == 1:
            records = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + socket.inet_aton(address)
        # For a name without a record of the requested kind, the answer has no record and no error. DNS names below this name
        # do not exist in the test's network.
        status = 0 if address else 3
        return question[:2] + struct.pack(">HHHHH", 0x8580 | status, 1, 1 if records else 0, 0, 0) \
            + question[12:place + 5] + records


class Place:
    def __init__(self, folder):
        self.folder, self.root = folder, os.path.join(folder, "root")
        self.children = []
        self.lay_network()
        self.names = {"example.net": DAEMON, "sip.example.net": DAEMON, **{name: PROVIDERS for name in PROVIDER_NAMES}}
        NameServer(NAMES, self.names)
        self.prepare_root()
        self.authority = self.make_public_authority()
        self.start_providers()

    def path(self, name):
        """The path by which the test reaches a file of the daemon's machine."""
        return self.root + name

    def read(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def write(self, name, text):
        """Writes a file of the daemon's machine; an existing file keeps its owner and permissions."""
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def start(self, words, output, **options):
        with open(os.path.join(self.folder, output), "w") as file:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, **options)
        self.children.append(child)
        return child

    # --- the network

    def lay_network(self):
        holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        self.children.append(holder)
        self.server = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
        await_(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != os.readlink("/proc/self/ns/net"), 10)
        run("ip", "link", "add", "lan", "type", "veth", "peer", "name", "lan", "netns", str(holder.pid))
        for prefix, addresses in (([], [PBX, NAMES, PROVIDERS, *PHONES]), (self.server, [DAEMON])):
            for address in addresses:
                run(*prefix, "ip", "address", "add", f"{address}/24", "dev", "lan")
            for device in ("lo", "lan"):
                run(*prefix, "ip", "link", "set", device, "up")
            # Without a default route, Linphone uses only the loopback network.
            run(*prefix, "ip", "route", "add", "default", "dev", "lan")

    # --- the daemon's machine

    def prepare_root(self):
        for device in ("null", "zero", "urandom"):
            path = self.path(f"/dev/{device}")
            open(path, "a").close()
            run("mount", "--bind", f"/dev/{device}", path)
        run("mount", "-t", "proc", "proc", self.path("/proc"))
        # The folder in which libfaketime keeps its shared memory.
        os.makedirs(self.path("/dev/shm"), exist_ok=True)
        os.chmod(self.path("/dev/shm"), 0o1777)
        run("install", "-m", "0755", "etc/package-systemctl", self.path("/usr/local/bin/systemctl"))
        run("cp", os.environ["PACKAGE"], self.path("/root/"))
        resolver = f"nameserver {NAMES}\n"
        self.write("/etc/resolv.conf", resolver)
        # Linphone reads the name server from the test machine's /etc/resolv.conf.
        ours = os.path.join(self.folder, "resolv.conf")
        with open(ours, "w") as file:
            file.write(resolver)
        run("mount", "--bind", ours, os.path.realpath("/etc/resolv.conf"))

    def inside(self, line, clock=None):
        """Runs a line on the daemon's machine as root; `clock` is the error of the machine's clock, such as `-1d`."""
        faked = [] if clock is None else clock_words(clock)
        return subprocess.run(
            [*self.server, "chroot", self.root, "env", "-i", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
             "DEBIAN_FRONTEND=noninteractive", "HOME=/root", *faked, "bash", "-ec", f"cd /root && {line}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            timeout=120)

    def do(self, line, clock=None):
        """Runs a line on the daemon's machine, which must succeed."""
        result = self.inside(line, clock)
        if result.returncode:
            raise AssertionError(f"$ {line}\n{result.stdout}")
        return result.stdout

    # --- the providers

    def openssl(self, line, clock=None):
        environment = dict(os.environ)
        if clock:
            environment.update(LD_PRELOAD=os.environ["FAKETIME_LIBRARY"], FAKETIME=clock)
        run("openssl", *line.split(), env=environment, cwd=self.folder)

    def make_public_authority(self):
        """An authority that issued the providers' certificates three months ago, and that the daemon's machine trusts."""
        key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
        self.openssl(f"req -x509 {key} -days 3650 -subj /CN=Public -keyout public-key.pem -out public.pem", "-90d")
        names = ",".join("DNS:" + name for name in PROVIDER_NAMES)
        os.makedirs(os.path.join(self.folder, "sandbox"))
        self.openssl(f"req -x509 {key} -days 365 -subj /CN=providers -CA public.pem -CAkey public-key.pem -addext subjectAltName={names} "
                     "-keyout sandbox/server-key.pem -out sandbox/ca.pem", "-90d")
        run("cp", os.path.join(self.folder, "public.pem"), self.path("/usr/local/share/ca-certificates/public.crt"))
        self.do("update-ca-certificates")

    def start_providers(self):
        """The push sandbox, and the files that Apple and Google give to their customers."""
        state = os.path.join(self.folder, "sandbox")
        self.start([os.environ["PUSH_SANDBOX"], "--listen", f"{PROVIDERS}:443", "--listen-plain", f"{PROVIDERS}:80", "--state", state,
                    "--record", os.path.join(self.folder, "pushes.jsonl"), "--apns-topic", "com.example.phone",
                    "--fcm-project", "example-phone"], "sandbox.out")
        await_(lambda: "listening " in open(os.path.join(self.folder, "sandbox.out")).read(), 20)
        with open(os.path.join(state, "service-account.json")) as file:
            account = json.load(file)
        account.update(project_id="example-phone", token_uri="https://oauth2.googleapis.com/token")
        self.write("/root/firebase.json", json.dumps(account))
        run("cp", os.path.join(state, "apns-key.p8"), self.path("/root/AuthKey_ABC123DEFG.p8"))

    def pushes(self, token):
        try:
            with open(os.path.join(self.folder, "pushes.jsonl")) as file:
                found = [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []
        return [push for push in found if push.get("token") == token]

    def stop(self):
        self.inside("systemctl stop sippushd")
        for child in reversed(self.children):
            child.kill()
            child.wait()


def clock_words(clock):
    """The environment variables that give a program a wrong clock."""
    return [f"LD_PRELOAD={os.environ['FAKETIME_LIBRARY']}", f"FAKETIME={clock}", "FAKETIME_DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1"]


def await_(condition, seconds):
    """Waits until the condition's value is true, and returns it."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError("it did not come in time")
        time.sleep(0.05)
