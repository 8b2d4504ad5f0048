"""The probes, by chapters of docs/Trust.md, and the daemons that they share."""

import importlib
import pkgutil

STAGES = {
    # Phones authenticate by passwords, and call through the PBX.
    "digest": {
        "pbx": "127.2.0.1",
        "settings": {
            "registrar": {"max-contacts": 12},
            "digest": {"nonce-lifetime": "30s"},
            "api": {"device-registration": {"webhook-receivers": "[127.3.0.0/16]", "webhook-plain-http": True}},
        },
    },
    # Phones authenticate by passwords, and call each other.
    "direct": {
        "settings": {"call": {"pushes-per-device": 3, "pushes-per-caller": 4}, "limits": {"output-timeout": "5s"},
                     "messages": {"store": True, "max-count": 4}},
    },
    # A daemon that asks for no passwords, as in a closed network.
    "open": {"settings": {"auth": "off", "registrar": {"min-expires": "1s"}, "call": {"ring-live-flow-within": "20s"},
                          "push": {"fcm": {"after-end": "push"}}}},
    # A daemon with small limits.
    "narrow": {
        "settings": {
            "call": {"ring-timeout": "20s", "pushes-per-device": 0},
            "digest": {"nonce-lifetime": "5s"},
            "push": {"fcm": {"after-end": "invite-cancel"}},
            "limits": {"calls": 200, "calls-per-account": 20, "connections": 60, "first-request": "2s",
                       "authentication": "4s", "held-bytes": 8388608},
            "api": {"connections": 20, "head-timeout": "2s", "body-timeout": "2s", "idle-timeout": "30s"},
        },
    },
    # A daemon that also uses TLS and WebSocket.
    "edge": {"edge": True, "settings": {"limits": {"first-request": "6s"}, "call": {"ring-live-flow-within": "20s"}}},
    # A daemon that asks phones for signs of life, and to refresh registrations that end soon.
    "lively": {"settings": {"registrar": {"flow-timer": "3s", "refresh-push": "180s"}}},
    # A daemon whose limits for one caller and one source are so small that a probe can use them up.
    "shares": {"edge": True, "settings": {
        "call": {"pushes-per-caller": 0, "ring-timeout": "20s"},
        "messages": {"store": True},
        "limits": {"calls-per-account": 32, "registers-per-source": 8, "handshakes-per-source": 4}}},
    # A daemon whose dialog tokens expire soon.
    "fading": {"pbx": "127.2.0.2", "settings": {"call": {"dialog-lifetime": "4s"}}},
}

# The imported modules run first, in their order; the remaining probes follow, sorted by name.
from . import restarts, reading, flood, identity, routing, dialog, wake, standards, streams, flows, edge, web, store  # noqa: E402,F401
for _, chapter, _ in pkgutil.iter_modules(__path__):
    importlib.import_module(f".{chapter}", __name__)
