"""Prints what the operators' web page shows: the state of the providers and the store, and the explanation of a name.

  page.py ADDRESS:PORT KEY NAME

The program logs in as a browser does, and reads the same routes. etc/first-hour runs it in the network of the daemon's
machine.
"""

import http.client
import json
import sys
from urllib.parse import quote


def main(address, key, name):
    client = http.client.HTTPConnection(address, timeout=30)
    client.request("POST", "/session", json.dumps({"key": key}), {"Content-Type": "application/json", "Origin": f"http://{address}"})
    answer = client.getresponse()
    body = answer.read()
    if answer.status != 200:
        sys.exit(f"the page refused the key: {answer.status} {body.decode(errors='replace')}")
    cookie = {"Cookie": answer.getheader("Set-Cookie").split(";")[0], "Sec-Fetch-Site": "same-origin"}
    live = http.client.HTTPConnection(address, timeout=30)
    live.request("GET", "/v1/live", headers=cookie)
    show_now(json.loads(first_event(live.getresponse())))
    live.close()
    client.request("GET", f"/v1/explain?name={quote(name, safe='')}&words=true", headers=cookie)
    answer = client.getresponse()
    show_words(json.loads(answer.read())["words"])


def first_event(stream):
    while True:
        line = stream.readline().decode("utf-8")
        if not line:
            sys.exit("the live view ended")
        if line.startswith("data:"):
            return line[5:]


def show_now(now):
    for provider in now["providers"]:
        show(f"provider {provider['name']} {provider['state']}: {provider['says']}", provider["advice"])
    if now["store"]["obstacle"]:
        show(f"store: {now['store']['obstacle']}")


def show_words(words):
    show(words["verdict"], words["advice"])
    for line in words["lines"]:
        show(line["text"], line["advice"])


def show(text, advice=""):
    print(text + (f" => {advice.removeprefix('=> ')}" if advice else ""))


main(*sys.argv[1:])
