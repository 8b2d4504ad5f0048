"""Two nodes and the push sandbox."""

import json
import os
import string

from place import NODES, SANDBOX, run


class Nodes:
    def __init__(self, place, database, more=""):
        """`more` has further settings of each node, as YAML."""
        self.place, self.database, self.more = place, database, more
        # The folders with the programs of nodes that run another version.
        self.folders = {}

    def start(self):
        self.start_sandbox()
        for node, host in NODES.items():
            if not os.path.exists(self.place.path("ca", f"{node}.pem")):
                run([self.place.program("sippushd"), "cluster", "cert", "--ca", self.place.path("ca"), "--node", node,
                     "--address", host])
            self.place.write(self.settings(node, host), node, "sippushd.yaml")
            run([self.place.program("sippushd"), "check-config", "--config", self.config(node)])
        for node in NODES:
            self.launch(node)
        for node in NODES:
            self.place.await_line(node, "started and accepts requests")
            self.place.await_line(node, "another node of the cluster is here")

    def launch(self, node):
        """Starts the node, without waiting."""
        self.place.start(node, self.serve(node))

    def restart(self, node):
        """Starts the node again, and waits until the node takes requests."""
        self.launch(node)
        self.place.await_line(node, "started and accepts requests")

    def start_sandbox(self):
        # The sandbox makes keys in place of Google's keys, and the settings name them.
        self.place.start("push-sandbox", [
            self.place.program("push-sandbox"), "--listen", f"{SANDBOX}:{self.place.ports['APNS_PORT']}",
            "--listen-plain", f"{SANDBOX}:{self.place.ports['FCM_PORT']}", "--state", self.place.folder,
            "--record", self.place.write("", "pushes.jsonl")])
        self.place.await_line("push-sandbox", "listening ")

    def config(self, node):
        return self.place.path(node, "sippushd.yaml")

    def serve(self, node):
        folder = self.folders.get(node)
        program = os.path.join(folder, "sippushd") if folder else self.place.program("sippushd")
        return [program, "serve", "--config", self.config(node)]

    def settings(self, node, host):
        with open(os.path.join(os.path.dirname(os.path.realpath(__file__)), "node.yaml")) as file:
            text = string.Template(file.read())
        return text.substitute(
            {name.lower(): port for name, port in self.place.ports.items()}, node=node, host=host, hosts=", ".join(NODES.values()),
            sandbox=SANDBOX, folder=self.place.folder, connection=self.database.connection()) + self.more

    def pushes(self):
        """The pushes that the sandbox has recorded."""
        with open(self.place.path("pushes.jsonl")) as file:
            # The last line may still be incomplete.
            return [json.loads(line) for line in file.read().split("\n")[:-1]]
