"""The primary is killed under 500 REGISTERs a second of new phones, and the standby is promoted."""

import time

from . import say, times
from load import Load
from place import Trouble

RATE = 500


def run(world, rounds=20):
    database, place = world.database, world.place
    lost, total, away = 0, 0, []
    for number in range(rounds):
        running = Load(RATE, list(world.doors.values()), f"f{number}x")
        world.loop.run(2)
        start = time.monotonic()
        place.kill(database.writer)
        database.promote()
        probe = world.phones.add(f"p{number}")
        probe.register("a")
        world.run_until(lambda: probe.acknowledged, "no new phone gets 200 after the failover", 30)
        away.append(time.monotonic() - start)
        world.loop.run(0.5)
        _, acknowledged, _ = running.stop()
        found = world.query(f"SELECT convert_from(username, 'UTF8') FROM binding WHERE username LIKE 'f{number}x%' OR username LIKE 'p{number}'")
        lost += len(set(acknowledged + [probe.user]) - set(found.split()))
        total += len(acknowledged) + 1
        database.rejoin()
        if number % 10 == 9:
            say(f"  {number + 1} failovers, {lost} lost contacts")
    say(f"{rounds} failovers: {total} REGISTERs of new phones got 200, {lost} of them are lost")
    say(times("from the end of the primary to the first 200 of a new phone", away))
    if lost:
        raise Trouble(f"{lost} acknowledged contacts are lost")
    say(f"No acknowledged contact is lost in {rounds} failovers.")
