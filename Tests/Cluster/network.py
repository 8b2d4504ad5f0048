"""A network of this process and its children alone, in which connections can be cut."""

import os
import sys

from place import Trouble, run

MARK = "CLUSTER_NETWORK"
# The priorities of the rules that cut connections. The kernel's own rule for local addresses comes after them.
FIRST, LOCAL = 100, 1000


def enter():
    """Starts this program again in a network namespace of its own."""
    if os.environ.get(MARK):
        run(["ip", "link", "set", "lo", "up"])
        run(["ip", "rule", "add", "pref", str(LOCAL), "lookup", "local"])
        run(["ip", "rule", "del", "pref", "0", "lookup", "local"])
        return
    if os.getuid() != 0:
        raise SystemExit("figures: only root can cut connections, because the script makes a network namespace")
    os.environ[MARK] = "1"
    sys.stdout.flush()
    os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])


class Cut:
    """Connections that are cut. The kernel drops each packet that a selector of `ip rule` meets."""

    def __init__(self, *selectors):
        self.numbers = []
        self.selectors = selectors

    def begin(self):
        for number, selector in enumerate(self.selectors, FIRST):
            run(["ip", "rule", "add", "pref", str(number), *selector.split(), "unreachable"])
            self.numbers.append(number)
        return self

    def end(self):
        while self.numbers:
            run(["ip", "rule", "del", "pref", str(self.numbers.pop())])


def notices_of_b(ports):
    """Node b cannot connect to node a, so its NOTIFYs are lost. Node a still reaches node b."""
    port = ports["NODE_PORT"]
    return [f"to 127.0.0.2 ipproto tcp dport {port}", f"from 127.0.0.2 ipproto tcp sport {port}"]


def link(ports):
    port = ports["NODE_PORT"]
    return [f"ipproto tcp dport {port}", f"ipproto tcp sport {port}"]


def database(ports):
    """The nodes run as root and the servers do not, so the servers still reach one another."""
    if os.getuid() != 0:
        raise Trouble("only root can cut connections")
    return [f"ipproto tcp dport {ports['POSTGRESQL_PORT']} uidrange 0-0"]
