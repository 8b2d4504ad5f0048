"""The people of the first hour: a PBX, Linphone, and other phones."""

import os
import signal
import subprocess

from place import DAEMON, PBX, await_
from sip import Message, Phone, Stream

SESSION = b"v=0\r\no=- 1 1 IN IP4 192.0.2.10\r\ns=-\r\nc=IN IP4 192.0.2.10\r\nt=0 0\r\nm=audio 6000 RTP/AVP 0\r\n"


class Exchange(Phone):
    """The PBX, which answers OPTIONS and makes calls."""

    def __init__(self, host=PBX, port=5060):
        super().__init__(host, (DAEMON, 5060), port)

    def arrived(self, raw, source):
        message = Message(raw, source)
        if message.method == "OPTIONS":
            self.respond(message, 200, "OK", tag="pbx")
        else:
            super().arrived(raw, source)

    def call(self, user, domain="example.net", wait=45.0):
        """Makes a call, and returns the final response."""
        invite = self.make("INVITE", f"sip:{user}@{domain}", "103", to=f"sip:{user}@{domain}", body=SESSION)
        self.send(invite)
        answer = self.response(invite.call_id, "INVITE", wait)
        if answer and answer.status >= 300:
            self.send(self.ack_failure(invite, answer))
        return answer


def register(host, user, password, params="", domain="example.net"):
    """A phone registers over TCP, and its app is suspended at once. Returns the final response."""
    phone = Stream(host, (DAEMON, 5060))
    try:
        return phone.register(user, password, params=params, domain=domain)
    finally:
        phone.close()


def dial(host, user, password, number):
    """A phone calls a number, and returns the final response."""
    phone = Stream(host, (DAEMON, 5060))
    try:
        invite = phone.make("INVITE", f"sip:{number}@example.net", user, body=SESSION)
        return phone.with_credentials(invite, user, password, 40.0)[0]
    finally:
        phone.close()


class Linphone:
    """Debian's Linphone, over TLS. Linphone accepts only certificates of the test's authority, and answers each call."""

    SETTINGS = """[proxy_0]
reg_proxy=<sip:sip.example.net:5061;transport=tls>
reg_identity=<sip:{user}@example.net>
reg_sendregister=1
contact_uri_parameters=pn-provider=fcm;pn-param=example-phone;pn-prid={token}
[auth_info_0]
username={user}
passwd={password}
realm=example.net
domain=example.net
[sip]
default_proxy=0
sip_port=-1
sip_tcp_port=-1
register_only_when_network_is_up=0
root_ca={authority}
[rtp]
audio_rtp_port=-1
video_rtp_port=-1
text_rtp_port=-1
"""

    def __init__(self, place, user, password):
        self.place, self.user = place, user
        self.home = os.path.join(place.folder, f"linphone-{user}")
        self.settings = self.SETTINGS.format(user=user, password=password, token=f"{user}-token", authority=place.path("/root/ca.pem"))
        self.process = None

    def start(self):
        os.makedirs(self.home, exist_ok=True)
        with open(os.path.join(self.home, "account"), "w") as file:
            file.write(self.settings)
        self.output = f"linphone-{self.user}.out"
        environment = dict(os.environ, PHONE_SETTINGS=os.path.join(self.home, "account"), PHONE_HOME=self.home, PHONE_USER=self.user,
                           PHONE_TOKEN=f"{self.user}-token")
        self.process = self.place.start(["sip-scenarios/linphone-wake/phone"], self.output, env=environment, start_new_session=True)

    def said(self):
        with open(os.path.join(self.place.folder, self.output), errors="replace") as file:
            return file.read()

    def registered(self, seconds=30):
        await_(lambda: "to [LinphoneRegistrationOk]" in self.said(), seconds)

    def failed(self, seconds=60):
        await_(lambda: "to [LinphoneRegistrationFailed]" in self.said(), seconds)

    def kill(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def sipp_call(user):
    """Makes a call with SIPp in place of the PBX, which hangs up after a moment."""
    return subprocess.Popen(
        ["sipp", f"{DAEMON}:5060", "-i", PBX, "-p", "5090", "-m", "1", "-timeout", "40s", "-sf", "sip-scenarios/common/call.xml",
         "-cid_str", "call", "-key", "domain", "example.net", "-key", "user", user, "-key", "caller", "103", "-nostdin"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
