"""A node or the primary is killed by kill -9 at random instants under calls, again and again."""

import threading
import time

from . import say
from place import NODES
from traffic import SETTINGS, Traffic  # noqa: F401

RATE = 15
USERS = 400


def seed(rounds=20, number=None):
    number = number or int(time.time())
    say(f"seed {number}")
    return number


class Chaos:
    def __init__(self, world, traffic):
        self.world, self.traffic, self.random = world, traffic, world.random
        self.ends, self.failover, self.trouble = [], None, None
        self.killed = {"a": 0, "b": 0, "primary": 0}

    def round(self):
        self.world.loop.run(self.random.uniform(0.1, 3.0))
        both = len(self.world.living()) == 2
        what = self.random.choice(["a", "b", "a", "b", "primary"])
        if what == "primary":
            if self.failover and self.failover.is_alive():
                what = self.random.choice("ab")
            else:
                self.killed["primary"] += 1
                return self.fail_over()
        if what not in self.world.living() or not both and self.random.random() < 0.9:
            # The other node is not up again, and seldom both are away.
            self.world.loop.run(12.0, lambda: len(self.world.living()) == 2)
            self.world.loop.run(self.random.uniform(0.0, 3.0))
            if what not in self.world.living():
                return self.round()
        self.killed[what] += 1
        self.world.kill(what)
        self.ends.append(time.monotonic())
        # A restart by systemd, or a machine that comes back after the takeover.
        pause = self.random.choice([self.random.uniform(0.05, 1.0), self.random.uniform(6.5, 9.0)])
        self.world.loop.at(pause, lambda: self.world.launch(what))

    def fail_over(self):
        """Kills the primary, and promotes the standby as a failover manager does. The old primary becomes the standby."""
        database, begin = self.world.database, time.monotonic()
        self.world.place.kill(database.writer)
        self.world.tell_all("kill -9 of the primary")
        self.ends.append(begin)
        self.traffic.away.append([begin, begin + 60])
        pause = self.random.uniform(0.05, 0.5)

        def work():
            try:
                time.sleep(pause)
                database.promote()
                self.traffic.away[-1][1] = time.monotonic() + 2
                self.ends.append(time.monotonic())
                database.rejoin()
            except Exception as error:  # noqa: BLE001
                self.trouble = error

        self.failover = threading.Thread(target=work)
        self.failover.start()


def run(world, rounds=20, _seed=None, rate=RATE):
    traffic = Traffic(world, USERS, rate)
    traffic.begin()
    chaos = Chaos(world, traffic)
    world.restarts = True
    begun = time.monotonic()
    world.loop.run(2)
    for number in range(rounds):
        chaos.round()
        if chaos.trouble:
            raise chaos.trouble
        if number % 50 == 49:
            say(f"  round {number + 1}: {len(traffic.calls)} calls, {len(world.complaints)} complaints")
    if chaos.failover:
        chaos.failover.join()
    world.loop.run(10.0, lambda: len(world.living()) == len(NODES))
    lasted = time.monotonic() - begun
    traffic.stop()
    contacts = traffic.judge(chaos.ends)
    say(f"{rounds} rounds in {lasted:.0f} s (" + ", ".join(f"{what} {count} times" for what, count in chaos.killed.items())
        + f"), {len(traffic.calls)} calls:")
    say(traffic.told())
    world.settle()
    say(f"No call is lost or doubled, and none of {contacts} acknowledged contacts is lost.")
