"""The steps of an operator, from the login to the download of the figures."""

import csv
import io
import json
import os

from story import EVIL_AGENT, EVIL_CALL, check, quoted, step, until

VIEWS = ("now", "plots", "why", "user", "days")


def row(call_id):
    """JavaScript for the row of a call in the view Now."""
    return f"[...document.querySelectorAll('#calls [data-call]')].find((node) => node.dataset.call === {quoted(call_id)})"


def card(name):
    return f"document.querySelector('[data-provider={quoted(name)}]')"


def provider(story, name):
    status, text = story.daemon.admin("GET", "/v1/providers")
    check(status == 200, f"/v1/providers: {status} {text}")
    return next(one for one in json.loads(text) if one["name"] == name)


@step("the page comes with its policy, and shows the login only")
def opens(story):
    story.allow(401, "/session")
    status, _, fields = story.http("GET", "/")
    policy = fields.get("Content-Security-Policy", "")
    for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"):
        check(status == 200 and part in policy, f"{status}, the policy is {policy!r}")
    check("unsafe" not in policy and fields.get("X-Content-Type-Options") == "nosniff", f"{fields}")
    story.tab.go(story.url + "/")
    story.tab.wait("!document.getElementById('login').hidden")
    check(story.tab.run("document.getElementById('views').hidden"), "the views show without a login")


@step("a wrong key is refused")
def wrong(story):
    story.tab.fill("#key", "spd_" + "x" * 43)
    story.tab.press("Enter")
    said = story.tab.wait("document.getElementById('login-problem').textContent")
    check("does not know this key" in said, said)
    check(not story.tab.cookies(), f"a wrong key got {story.tab.cookies()}")
    check(story.tab.run("document.getElementById('key').value") == "", "the wrong key stays in the field")


@step("an operator logs in by keyboard")
def logs_in(story):
    tab = story.tab
    tab.go(story.url + "/")
    tab.wait("document.activeElement.id === 'key'", text="the focus in the field of the key")
    tab.type(story.keys["operator"])
    tab.press("Tab")
    tab.wait("document.activeElement.type === 'submit'", text="the focus on the button")
    tab.press(" ")
    tab.wait("!document.getElementById('views').hidden")
    tab.wait("document.activeElement.id === 'tab-now'", text="the focus on the first tab")
    tab.wait("document.getElementById('connection').textContent === 'live'")
    check(tab.text("#who-name") == "operator", tab.text("#who-name"))


@step("the key is stored nowhere in the page, and no script reads the cookie")
def hidden(story):
    tab = story.tab
    (cookie,) = tab.cookies()
    check(cookie["httpOnly"] and cookie["sameSite"] == "Strict" and cookie["path"] == "/", str(cookie))
    key = quoted(story.keys["operator"])
    check(tab.run("document.cookie") == "", "a script reads the cookie")
    check(tab.run("localStorage.length + sessionStorage.length") == 0, "the page stores something")
    check(not tab.run(f"document.documentElement.outerHTML.includes({key}) || location.href.includes({key}) || document.getElementById('key').value !== ''"),
          "the page has the key")
    check(story.keys["operator"] not in cookie["value"], "the cookie has the key")


@step("arrow keys, Home and End lead through the tabs")
def tabs(story):
    tab = story.tab
    for key, name in (("ArrowRight", "plots"), ("ArrowRight", "why"), ("ArrowRight", "user"), ("ArrowRight", "days"), ("ArrowRight", "now"),
                      ("ArrowLeft", "days"), ("Home", "now"), ("End", "days"), ("Home", "now")):
        tab.press(key)
        tab.wait(f"document.activeElement.id === 'tab-{name}' && document.activeElement.getAttribute('aria-selected') === 'true'"
                 f" && !document.getElementById('view-{name}').hidden && location.hash === '#{name}'", text=f"{key} leads to {name}")
        shown = tab.run("[...document.querySelectorAll('[role=tabpanel]')].filter((node) => !node.hidden).length")
        check(shown == 1, f"{shown} views show")
    tab.press("Tab")
    tab.wait("document.activeElement.id === 'view-now'", text="Tab leads into the view")


@step("a held call shows live, and its age grows")
def held(story):
    story.phone("bob", EVIL_AGENT)
    story.pbx, story.invite = story.call("bob", call_id=EVIL_CALL)
    tab, found = story.tab, row(story.invite.call_id)
    first = tab.wait(f"{found} && {found}.querySelector('progress').value")
    whole = tab.run(f"{found}.querySelector('progress').max")
    check(29_000 <= whole <= 31_000, f"the bar ends at {whole} ms")
    tab.wait(f"{found}.querySelector('progress').value > {first} + 900", text="the age grows")
    text = tab.run(f"{found}.innerText")
    check("bob@example.net" in text and "700" in text and "1 asleep" in text, text)
    tab.wait("document.getElementById('figure-held').textContent === '1'")


@step("names with markup show as text")
def markup(story):
    tab = story.tab
    check(EVIL_CALL in tab.run(f"{row(story.invite.call_id)}.innerText"), "the Call-ID is not shown")
    check(tab.run("window.evil === undefined && document.querySelectorAll('#views img, #views script').length === 0"), "markup became elements")


@step("the answered call leaves the list, and its end shows")
def ends(story):
    story.answered("bob", story.pbx, story.invite)
    story.tab.wait(f"!{row(story.invite.call_id)}", text="the call is gone")
    story.tab.wait("document.querySelector('#ended .badge')?.textContent === 'answered'")
    story.tab.wait("document.getElementById('status').textContent.includes('answered')", text="the live region tells the end")


@step("a link leads from the call to its explanation, verdict first")
def explained(story):
    tab = story.tab
    tab.click("#ended a")
    tab.wait("document.querySelector('#why-result .verdict')?.textContent && document.querySelector('#why-result [data-record] svg.bar')")
    check(tab.run("document.getElementById('why-field').value") == story.invite.call_id, "another name was asked")
    check(tab.run("document.querySelector('#why-result').firstElementChild.id") == "verdict", "the verdict is not first")
    text = tab.text("#why-result")
    for part in ("answered", "the phone registered", "the phone woke up", "bob@example.net"):
        check(part in text, f"no {part!r} in {text}")
    check(tab.run("window.evil === undefined && document.querySelectorAll('#views img, #views script').length === 0"), "markup became elements")


@step("a search explains why a phone did not ring")
def searched(story):
    pbx, invite = story.call("bob")
    story.given_up(pbx, invite)
    tab = story.tab
    tab.fill("#why-field", "bob")
    tab.press("Enter")
    tab.wait("[...document.querySelectorAll('#why-result [data-record]')].length >= 2", text="two records")
    tab.wait("document.querySelector('#why-result [data-record]').innerText.includes('the caller gave up')", text="the newest record first")
    tab.fill("#why-field", "nobody-of-this-name")
    tab.press("Enter")
    tab.wait("document.querySelector('#why-result .verdict')?.textContent.includes('nobody-of-this-name')", text="the verdict about an unknown name")


@step("the user's devices show with User-Agent, wakes and missed calls")
def devices(story):
    tab = story.tab
    story.show("user/bob")
    tab.wait("document.querySelector('[data-device]')")
    text = tab.text("[data-device]")
    check("<img src=x onerror=window.evil=1> ‹U+202E›gnp.exe" in text, f"the User-Agent shows as {text}")
    check(tab.run("document.querySelectorAll('[data-device] bdi').length") >= 3, "names are not isolated")
    check(tab.run("document.querySelectorAll('[data-device] svg.small rect').length") >= 1, "no wake times")
    check("1 missed call" in tab.text("#missed") and "700" in tab.text("#missed"), tab.text("#missed"))
    check(tab.run("window.evil === undefined && document.querySelectorAll('#views img').length === 0"), "markup became elements")


@step("a device is removed after the operator confirms it")
def removed(story):
    tab = story.tab
    path = "/v1/users/bob@example.net/devices"
    tab.click("[data-device] [data-action=remove]")
    tab.wait("document.getElementById('dialog').open && document.activeElement.id === 'dialog-cancel'", text="the dialog, with the focus on Cancel")
    check("‹U+202E›" in tab.text("#dialog"), tab.text("#dialog"))
    tab.press("Escape")
    tab.wait("!document.getElementById('dialog').open")
    check(len(json.loads(story.daemon.admin("GET", path)[1])) == 1, "Escape removed the device")
    tab.wait("document.activeElement.dataset.action === 'remove'", text="the focus returns to the button")
    tab.press("Enter")
    tab.wait("document.getElementById('dialog').open")
    tab.press("Tab")
    tab.wait("document.activeElement.id === 'dialog-confirm'", text="the focus on the button of the dialog")
    tab.press("Enter")
    tab.wait("!document.querySelector('[data-device]')", text="the device is gone from the page")
    check(json.loads(story.daemon.admin("GET", path)[1]) == [], "the daemon still has the device")


@step("a provider is disabled after a question with its effect, and enabled again")
def switched(story):
    tab = story.tab
    story.registers(story.people["bob"])
    story.show("now")
    tab.wait(f"{card('fcm')}?.dataset.state === 'ok'")
    tab.click("[data-provider=fcm] [data-action=disable]")
    tab.wait("document.getElementById('dialog').open")
    check("1 contact would" in tab.text("#dialog-text"), tab.text("#dialog-text"))
    tab.click("#dialog-cancel")
    tab.wait("!document.getElementById('dialog').open")
    check(provider(story, "fcm")["isEnabled"], "Cancel disabled the provider")
    tab.click("[data-provider=fcm] [data-action=disable]")
    tab.wait("document.getElementById('dialog').open")
    tab.click("#dialog-confirm")
    tab.wait(f"{card('fcm')}.dataset.state === 'disabled'")
    check(not provider(story, "fcm")["isEnabled"], "the provider is still enabled")
    tab.click("[data-provider=fcm] [data-action=enable]")
    tab.wait("document.getElementById('dialog').open")
    tab.click("#dialog-confirm")
    tab.wait(f"{card('fcm')}.dataset.state === 'ok'")
    check(provider(story, "fcm")["isEnabled"], "the provider is still disabled")


@step("the plots have data")
def plots(story):
    tab = story.tab
    for span in ("hour", "day"):
        story.show(f"plots/{span}")
        tab.wait(f"document.getElementById('span-{span}')?.getAttribute('aria-pressed') === 'true'")
        tab.wait("document.querySelectorAll('.plots > section').length === 6")
        # The plots of the day begin with the first whole minute.
        if span == "hour":
            for name in ("inviteToPush", "pushToRegister", "registerToAnswer", "commit", "held", "woken"):
                tab.wait(f"Number(document.getElementById('plot-{name}').dataset.points) > 0", text=f"points of {name}")
                tab.wait(f"document.querySelector('#plot-{name} canvas').width > 100", text=f"the canvas of {name} is drawn")
            check("fcm" in tab.text("#plot-woken"), tab.text("#plot-woken"))


@step("the days show figures, and their CSV is safe for spreadsheets")
def days(story):
    tab = story.tab
    folder = os.path.join(story.folder, "downloads")
    os.makedirs(folder, exist_ok=True)
    story.browser.call("Browser.setDownloadBehavior", behavior="allow", browserContextId=tab.context, downloadPath=folder)
    story.show("days")
    tab.wait("document.querySelector('#statistics tbody tr')", text="the push statistics")
    tab.click("#statistics button")
    path = os.path.join(folder, "sippushd-statistics.csv")
    until(lambda: os.path.exists(path), "the download")
    with open(path, newline="", encoding="utf-8") as file:
        lines = list(csv.reader(io.StringIO(file.read())))
    check(lines[0][:3] == ["day", "devices", "sent"] and int(lines[1][2]) >= 2, f"the CSV is {lines}")
    field = tab.run("import('/page-plots.js').then((page) => ['=cmd()', '+1', '-1', '@x', '\\t=1', ' =1', 'a,\"b', 7, -7].map(page.csvField))")
    check(field == ["'=cmd()", "'+1", "'-1", "'@x", "\"'\t=1\"", "' =1", '"a,""b"', "7", "-7"], f"{field}")
    status, _, _ = story.daemon.http("GET", "/v1/reports/wakes?days=30&by=provider&format=json", key=story.daemon.key)
    if status == 404:
        story.allow(404, "/v1/reports/wakes")
        tab.wait("document.getElementById('wakes').innerText.includes('does not offer this report')")
    else:
        tab.wait("document.getElementById('wakes').innerText.includes('fcm')", text="the wake report")


@step("screen readers find a name for each control and each drawing")
def named(story):
    tab = story.tab
    roles = {"button", "link", "textbox", "searchbox", "tab", "combobox", "progressbar", "img", "image", "dialog", "tabpanel"}
    pbx, invite = story.call("bob")
    for route in ("now", "plots", "why/bob", "user/bob", "days"):
        story.show(route)
        name = route.split("/")[0]
        tab.wait(f"!document.getElementById('view-{name}').hidden")
        if name in ("why", "user"):
            tab.wait(f"document.querySelector('#{name}-result .verdict')")
        nodes = [node for node in tab.call("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]
        silent = [node["role"]["value"] for node in nodes if node["role"]["value"] in roles and not node.get("name", {}).get("value", "").strip()]
        check(len(nodes) > 20 and not silent, f"the view {name} has no name for {silent}")
        chosen = [node["name"]["value"] for node in nodes if node["role"]["value"] == "tab"
                  and any(one["name"] == "selected" and one["value"]["value"] for one in node.get("properties", []))]
        check(len(chosen) == 1, f"the chosen tabs of the view {name} are {chosen}")
    story.given_up(pbx, invite)


@step("no view needs a horizontal scroll on a phone, in light and dark")
def narrow(story):
    tab = story.tab
    tab.size(360, 740, is_mobile=True)
    grounds = {}
    for scheme in ("light", "dark"):
        tab.scheme(scheme)
        grounds[scheme] = tab.run("getComputedStyle(document.body).backgroundColor")
        for route in ("now", "plots", "why/bob", "user/bob", "days"):
            story.show(route)
            name = route.split("/")[0]
            tab.wait(f"!document.getElementById('view-{name}').hidden")
            if "/" in route:
                tab.wait(f"document.querySelector('#{name}-result .verdict')")
            elif name == "plots":
                tab.wait("document.querySelector('#plot-held canvas')")
            # A plot takes its new size after a frame or two.
            tab.wait("document.documentElement.scrollWidth <= 360", text=f"the view {name} is narrow; " + tab.run(
                "[...document.querySelectorAll('body *')].filter((node) => node.getBoundingClientRect().right > 360 && !node.closest('.scroll'))"
                ".map((node) => `${node.tagName} ${node.className}`).slice(0, 6).join(', ')"))
    check(grounds["light"] != grounds["dark"], f"both grounds are {grounds}")
    tab.scheme("light")
    tab.size(1280, 900)
    story.show("now")
