"""Makes the pictures of the page for the documents (etc/page --pictures), from some calls."""

import os
import random
import time

from story import check

FOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "docs", "pictures")
LARGEST = 150_000  # bytes

chance = random.Random(1)
PEOPLE = [("alice", "Linphone-iPhone/5.2"), ("bob", "Acrobits Groundwire 6.4"), ("carol", "baresip 3.9"), ("dave", "Linphone-Android/5.2")]


def main(story):
    for name, agent in PEOPLE:
        story.phone(name, agent)
    for number in range(40):
        name = PEOPLE[number % len(PEOPLE)][0]
        pbx, invite = story.call(name, str(200 + number))
        # The pictures show how long phones take to wake up.
        time.sleep(chance.uniform(.2, 1.2))
        if number % 13 == 9:
            story.given_up(pbx, invite)
        else:
            story.answered(name, pbx, invite)
    tab = story.tab
    tab.call("Emulation.setScrollbarsHidden", hidden=True)
    tab.size(1000, 760)
    story.login(tab, story.keys["operator"], "#now")
    tab.wait("document.getElementById('connection').textContent === 'live'")
    # One more call ends while the page is open, and three calls wait.
    pbx, invite = story.call("dave", "206")
    story.answered("dave", pbx, invite)
    tab.wait("document.querySelector('#ended .badge')")
    held = [story.call(name, caller) for name, caller in (("alice", "301"), ("bob", "302"), ("carol", "303"))]
    tab.wait("document.querySelectorAll('#calls [data-call] progress').length === 3")
    tab.wait("document.querySelector('#calls progress').value > 9000", timeout=20)
    take(tab, "now", "document.querySelectorAll('#providers [data-provider]').length > 0")
    for pbx, invite in held:
        story.given_up(pbx, invite)
    tab.size(1000, 880)
    story.show("why/bob")
    take(tab, "why", "document.querySelector('#why-result [data-record] svg.bar')")
    story.show("user/bob")
    take(tab, "user", "document.querySelector('[data-device] svg.small')")
    tab.size(1000, 880)
    story.show("plots")
    take(tab, "plots", "Number(document.getElementById('plot-pushToRegister').dataset.points) > 0 && document.querySelector('#plot-held canvas').width > 100")
    tab.size(1000, 620)
    story.show("days")
    take(tab, "days", "document.querySelector('#statistics tbody tr')")
    tab.size(360, 720, is_mobile=True)
    story.show("user/bob")
    take(tab, "phone", "document.querySelector('[data-device] svg.small')")
    return 0


def take(tab, name, condition):
    """Makes the picture of a view, in light and in dark."""
    for scheme in ("light", "dark"):
        tab.scheme(scheme)
        tab.run("window.scrollTo(0, 0); document.activeElement.blur()")
        tab.wait(condition)
        # After two frames, the page and its plots are drawn.
        tab.run("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(true))))")
        path = os.path.join(FOLDER, f"page-{name}{'' if scheme == 'light' else '-dark'}.png")
        tab.picture(path)
        size = os.path.getsize(path)
        check(size < LARGEST, f"{path} has {size} bytes")
        print(f"{os.path.relpath(path)}: {size} bytes", flush=True)
