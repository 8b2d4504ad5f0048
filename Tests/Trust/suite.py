"""Runs the probes. Each probe is a function with a rule and a name, and independent probes run at the same time."""

import concurrent.futures
import itertools
import os
import random
import threading
import time
import traceback

import sip
from daemon import Daemon, Provider, Settings
from machine import Watch
from ports import Ports
from sip import Phone, Stream, Trap

PROBES, TIMINGS, FAULTS = [], [], []

# Rules that the daemon does not implement yet; their probes print "open" instead of FAIL.
OPEN = {}


class Failed(Exception):
    """A probe has observed that the rule is broken."""


class Skipped(Exception):
    """A probe is skipped, because this machine lacks something that it needs."""


def probe(rule, name, stage=None, alone=False, timing=False, fault=False):
    """Registers a probe of `rule`; `stage` is its daemon, or it starts its own. A probe that compares times needs an idle
    machine (`etc/trust --timing`). A probe with `fault` fails, because the daemon does not hold its rule yet
    (`etc/trust --faults`)."""

    def add(function):
        if any(one[1] == name for one in PROBES + TIMINGS + FAULTS):
            raise ValueError(f"two probes have the name {name}")
        (FAULTS if fault else TIMINGS if timing else PROBES).append((rule, name, stage, function, alone))
        return function

    return add


def check(truth, text):
    if not truth:
        raise Failed(text)


class Test:
    """The environment of a probe: its daemon, addresses of its own, and objects to close afterwards."""

    def __init__(self, suite, daemon, name):
        self.suite, self.daemon, self.name = suite, daemon, name
        # The random numbers of the probe. The seed consists of the run's seed and the probe's name, so other probes do not
        # change the numbers.
        self.random = random.Random(f"{suite.seed} {name}")
        self.closing = []

    def address(self, trusted=False):
        return self.suite.address(trusted)

    def phone(self, host=None, trusted=False, port=0):
        return self.own(Phone(host or self.address(trusted), self.daemon.address, port))

    def stream(self, host=None, trusted=False, read=True, port=0):
        return self.own(Stream(host or self.address(trusted), self.daemon.address, read=read, port=port))

    def trap(self, trusted=False, host=None):
        return self.own(Trap(host or self.address(trusted)))

    def own(self, thing):
        self.closing.append(thing)
        return thing

    def needs(self, *settings):
        missing = [name for name in settings if name not in self.suite.settings.known]
        check(not missing, f"there is no setting {', '.join(missing)}")

    def registered(self, phone, params="", contact=None, **options):
        """Registers a new user on the phone. Returns name and password."""
        name, password = self.daemon.user()
        answer = phone.register(name, password, contact=contact and contact.replace("USER", name), params=params, **options)
        check(answer and answer.status == 200, f"control: REGISTER got {answer}")
        return name, password

    def close(self):
        for thing in self.closing:
            try:
                thing.close()
            except OSError:
                pass


class Suite:
    def __init__(self, program, folder, stages, ports=None, seed=1):
        self.program, self.folder, self.stages, self.seed = program, folder, stages, seed
        sip.chance.seed(seed)
        self.settings = Settings(program)
        self.provider = Provider()
        self.daemons, self.lock = {}, threading.Lock()
        # The names of all daemons of this run, which are also the names of their folders.
        self.names = set()
        self.addresses = itertools.count(1)
        self.ports = Ports(ports)
        self.watch = Watch()
        self.printing = threading.Lock()
        self.counts = {"ok": 0, "FAIL": 0, "open": 0, "skipped": 0}

    def folder_of(self, name):
        """A new folder for the daemon with the given name. Two daemons in one folder would share store, log and
        settings."""
        with self.lock:
            if name in self.names:
                raise ValueError(f"two daemons have the name {name}: each needs a name of its own")
            self.names.add(name)
        return os.path.join(self.folder, name)

    def free_port(self):
        """Returns a port, which stays reserved until this process ends."""
        with self.lock:
            return self.ports.take()

    def address(self, trusted=False):
        number = next(self.addresses)
        return f"127.{2 if trusted else 1}.{1 + number // 250}.{1 + number % 250}"

    def start(self, wanted):
        def begin(name):
            settings = self.stages[name]
            # The suite lists the daemon before the start, so that it ends the daemon in any case.
            self.daemons[name] = Daemon(name, self, settings.get("settings", {}), settings.get("pbx"),
                                        edge=settings.get("edge", False))
            self.daemons[name].start()

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(begin, wanted))

    def run(self, chosen, threads=14):
        wanted = sorted({stage for _, _, stage, _, _ in chosen if stage})
        begin = time.monotonic()
        print(f"seed {self.seed}", flush=True)
        try:
            self.start(wanted)
            with concurrent.futures.ThreadPoolExecutor(threads) as pool:
                list(pool.map(self.run_one, [p for p in chosen if not p[4]]))
            for one in chosen:
                if one[4]:
                    self.run_one(one)
            for name in wanted:
                if not self.daemons[name].alive():
                    self.tell("FAIL", "T1", f"alive-{name}", f"the daemon ended with {self.daemons[name].process.returncode}")
        finally:
            for daemon in self.daemons.values():
                daemon.stop()
        counts = self.counts
        notes = [f"{counts[kind]} {kind}" for kind in ("open", "skipped") if counts[kind]]
        print(f"in {time.monotonic() - begin:.0f} s" + (", " + ", ".join(notes) if notes else ""))
        print(f"{counts['ok']} passed, {counts['FAIL']} failed")
        return counts["FAIL"] == 0

    def run_one(self, one):
        rule, name, stage, function, _ = one
        test = Test(self, self.daemons.get(stage), name)
        begin = time.monotonic()
        try:
            kind, text = "ok", function(test)
        except Failed as failure:
            kind, text = "FAIL", str(failure)
        except Skipped as reason:
            kind, text = "skipped", str(reason)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            kind, text = "FAIL", f"{type(error).__name__}: {error} ({os.path.basename(place.filename)}:{place.lineno})"
        finally:
            test.close()
        if kind == "FAIL" and name in OPEN:
            kind, text = "open", f"{OPEN[name]}: {text}"
        self.tell(kind, rule, name, text or "", time.monotonic() - begin)

    def tell(self, kind, rule, name, text, seconds=0.0):
        with self.printing:
            self.counts[kind] += 1
            slow = f" [{seconds:.0f} s]" if seconds > 20 else ""
            print(f"{kind:<4} {rule} {name}: {text}{slow}" if kind != "skipped" else f"skipped: {rule} {name}: {text}", flush=True)
            if kind == "FAIL":
                print("\n".join("       " + line for line in self.watch.told()), flush=True)
