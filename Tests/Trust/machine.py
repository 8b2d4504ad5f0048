"""The load of this machine while a test failed: load average, stolen and waiting time, and the busiest processes."""

import collections
import os
import threading
import time

TICK = os.sysconf("SC_CLK_TCK")
NAMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def crowding():
    """How much longer an action takes on this machine now than on an idle one, from 1 to 8. The factor depends on the
    number of threads that wait for each processor."""
    try:
        wanting = int(read("/proc/loadavg").split()[3].split("/")[0])
        average = float(read("/proc/loadavg").split()[0])
    except (IndexError, ValueError):
        return 1.0
    return min(8.0, max(1.0, max(wanting, average) / (os.cpu_count() or 1)))


def patience(timeout):
    """The waiting time for an event that comes within `timeout` on an idle machine.

    Short times are for events that must not come, and are not extended."""
    return timeout if timeout < 1 else min(timeout * crowding(), timeout + 30)


class Sample:
    """The processor time that the machine and each process have used so far."""

    def __init__(self):
        self.time = time.monotonic()
        numbers = [int(word) for word in read("/proc/stat").partition("\n")[0].split()[1:9]]
        self.machine = dict(zip(NAMES, numbers))
        self.processes = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                head, _, rest = read(f"/proc/{entry}/stat").rpartition(")")
                words = rest.split()
                if len(words) > 12:
                    self.processes[int(entry)] = (head.partition("(")[2], int(words[11]) + int(words[12]))

    def since(self, former):
        """The changes of the load between two measurements, as lines of text."""
        seconds = max(self.time - former.time, 0.001)
        used = {name: self.machine.get(name, 0) - former.machine.get(name, 0) for name in NAMES}
        whole = max(sum(used.values()), 1)
        parts = [f"{name} {100 * used[name] / whole:.0f} %" for name in ("user", "nice", "system", "iowait", "steal", "idle")]
        work = collections.Counter()
        for process, (name, ticks) in self.processes.items():
            before = former.processes.get(process, (name, 0))
            work[f"{name}[{process}]"] = ticks - (before[1] if before[0] == name else 0)
        busy = [f"{name} {100 * ticks / TICK / seconds:.0f} %" for name, ticks in work.most_common(8) if ticks]
        return [f"in {seconds:.0f} s: " + ", ".join(parts), "  most work: " + (", ".join(busy) or "nobody")]


def state():
    """The present load, as lines of text."""
    lines = [f"load {' '.join(read('/proc/loadavg').split()[:4])}, {os.cpu_count()} processors"]
    memory = dict(line.split(":", 1) for line in read("/proc/meminfo").splitlines() if ":" in line)
    lines[0] += ", memory available " + memory.get("MemAvailable", "?").strip()
    waits = [(name, read(f"/proc/pressure/{name}").partition("\n")[0].partition("avg10=")[2].split(" ")[0]) for name in ("cpu", "io", "memory")]
    lines += ["  of the last 10 s somebody waited: " + ", ".join(f"for {name} {share} %" for name, share in waits)] if waits[0][1] else []
    return lines


class Watch:
    """Measures the load every few seconds in a thread; `told` returns the recent load."""

    def __init__(self, interval=5.0, kept=12):
        self.samples = collections.deque([Sample()], maxlen=kept)
        self.interval = interval
        self.halt = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.halt.wait(self.interval):
            self.samples.append(Sample())

    def told(self):
        samples, now = list(self.samples), Sample()
        former = next((one for one in reversed(samples) if now.time - one.time > 4), samples[0])
        lines = state() + now.since(former)
        return ["machine: " + line for line in lines]

    def stop(self):
        self.halt.set()
