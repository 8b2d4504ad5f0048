"""An event loop for simulated peers: sockets and timers in one thread."""

import heapq
import selectors
import time


class Loop:
    """The event loop for all sockets and timers."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.times, self.number = [], 0
        # The number of polls of the sockets; data that arrived before a poll are read after it.
        self.round = 0

    def at(self, delay, action):
        self.number += 1
        heapq.heappush(self.times, (time.monotonic() + delay, self.number, action))

    def watch(self, one, handler, events=selectors.EVENT_READ):
        self.selector.register(one, events, handler)

    def forget(self, one):
        try:
            self.selector.unregister(one)
        except (KeyError, ValueError):
            pass

    def run(self, seconds, until=lambda: False):
        end = time.monotonic() + seconds
        while not until():
            now = time.monotonic()
            if now >= end:
                return
            while self.times and self.times[0][0] <= now:
                heapq.heappop(self.times)[2]()
            self.round += 1
            wait = min(end, self.times[0][0] if self.times else end) - time.monotonic()
            for key, events in self.selector.select(max(0, wait)):
                key.data(events)
