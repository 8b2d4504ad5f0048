"""REGISTERs of further phones at a fixed rate, from a process of their own."""

import multiprocessing
import time

from loop import Loop
from party import Party

# A phone with a push token, so that the daemon keeps its contact.
CONTACT = "<sip:{user}@{place};pn-provider=fcm;pn-param=demo;pn-prid=token-{user}>"


class Sender(Party):
    """Registers `users` users in turn; without a limit of users, each REGISTER has a new user."""

    def __init__(self, rate, doors, prefix, users):
        super().__init__(Loop(), "127.0.0.1", 8 << 20)
        self.rate, self.doors, self.prefix, self.users = rate, doors, prefix, users
        self.number, self.acknowledged, self.statuses = 0, set(), {}

    def received(self, message):
        self.statuses[message.status] = self.statuses.get(message.status, 0) + 1
        if message.status == 200:
            self.acknowledged.add(message.call_id[2:])

    def run(self, stopping):
        start = time.monotonic()
        while not stopping.is_set():
            due = int((time.monotonic() - start) * self.rate)
            while self.number < due:
                self.register()
            self.loop.run(0.001)
        self.loop.run(1)

    def register(self):
        user = f"{self.prefix}{self.number % self.users if self.users else self.number}"
        self.send(self.make("REGISTER", "sip:example.net", user, to=f"sip:{user}@example.net", call_id=f"r-{user}", from_tag="r",
                            cseq=self.number // self.users + 1 if self.users else 1,
                            contact=CONTACT.format(user=user, place=self.local()), fields=[("Expires", "3600")]),
                  self.doors[self.number % len(self.doors)])
        self.number += 1


def work(arguments, stopping, results):
    sender = Sender(*arguments)
    sender.run(stopping)
    results.put((sender.number, sorted(sender.acknowledged), sender.statuses))


class Load:
    def __init__(self, rate, doors, prefix, users=0):
        self.stopping, self.queue = multiprocessing.Event(), multiprocessing.Queue()
        self.process = multiprocessing.Process(target=work, args=((rate, doors, prefix, users), self.stopping, self.queue), daemon=True)
        self.process.start()

    def stop(self):
        """Returns the number of sent REGISTERs, the users whose REGISTER got 200, and how often each status came."""
        self.stopping.set()
        result = self.queue.get(timeout=60)
        self.process.join()
        return result
