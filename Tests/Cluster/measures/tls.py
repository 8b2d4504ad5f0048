"""TLS between nodes and database with the check of the server's name, and the start of a node while no server answers."""

import os
import re
import subprocess
import time

from . import say
from place import SERVERS, NODES, Trouble, run as run_program


def run(world):
    database, place = world.database, world.place
    certificates(world)
    plain = database.connection()
    checked = plain + f" sslmode=verify-full sslrootcert={place.path('db', 'ca.pem')}"
    for server in SERVERS:
        with open(os.path.join(database.data(server), "postgresql.auto.conf"), "a") as file:
            file.write(f"ssl = 'on'\nssl_cert_file = '{database.folder}/server.pem'\nssl_key_file = '{database.folder}/server.key'\n")
    # ssl is read at a reload.
    for server in SERVERS:
        database.query(server, "SELECT pg_reload_conf()")
    place.await_that(lambda: all(database.query(server, "SHOW ssl") == "on" for server in SERVERS), "the servers have no TLS")
    for node in NODES:
        world.terminate(node)

    use(world, checked)
    for node in NODES:
        world.launch(node)
    world.run_until(lambda: all("another node of the cluster is here" in place.log(node) for node in NODES), "the nodes do not meet", 20)
    rows = world.query("SELECT count(*) FILTER (WHERE s.ssl), count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) "
                       "WHERE a.application_name LIKE 'sippushd%' OR a.pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')")
    secure, total = map(int, rows.split("|"))
    say(f"with sslmode=verify-full, {secure} of {total} connections of the nodes are encrypted")
    if secure != total or total < len(NODES):
        world.complain("a connection of a node to the database is not encrypted")
    phone = world.phones.add("secure")
    phone.register("a")
    world.run_until(lambda: phone.acknowledged, "no 200 for a REGISTER over TLS to the database", 10)

    # A certificate of another authority, and a certificate with another name.
    world.terminate("a")
    for what, words in (("another authority", f" sslmode=verify-full sslrootcert={place.path('db', 'other-ca.pem')}"),
                        ("another name", f" sslmode=verify-full sslrootcert={place.path('db', 'ca.pem')} hostaddr=" + ",".join(SERVERS.values()))):
        connection = plain.replace("host=" + ",".join(SERVERS.values()), "host=wrong.example.net,wrong.example.net") if "name" in what else plain
        fails(world, what, connection + words)

    # Nobody answers.
    for server in ("standby", "primary"):
        place.kill(server)
    use(world, checked)
    fails(world, "no server", checked)
    world.settle()
    say("The nodes reach the database over TLS only with the right certificate, and do not start without a database.")


def certificates(world):
    place = world.place
    os.makedirs(place.path("db"), mode=0o700)
    names = ",".join(f"IP:{host}" for host in SERVERS.values())
    for name in ("ca", "other-ca"):
        run_program(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                     "-keyout", place.path("db", name + ".key"), "-out", place.path("db", name + ".pem")])
    run_program(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=db", "-addext",
                 f"subjectAltName={names}", "-keyout", place.path("db", "server.key"), "-out", place.path("db", "server.csr")])
    run_program(["openssl", "x509", "-req", "-in", place.path("db", "server.csr"), "-CA", place.path("db", "ca.pem"), "-CAkey",
                 place.path("db", "ca.key"), "-days", "2", "-copy_extensions", "copy", "-out", place.path("db", "server.pem")])
    for name in ("server.key", "server.pem"):
        with open(place.path("db", name)) as file:
            world.database.secret(name, file.read())


def use(world, connection):
    for node in NODES:
        path = world.nodes.config(node)
        with open(path) as file:
            text = file.read()
        place_of = re.compile(r'connection: ".*"')
        world.place.write(place_of.sub(lambda _: f'connection: "{connection}"', text), node, "sippushd.yaml")


def fails(world, what, connection):
    """Node a does not start with the connection, and says why."""
    use(world, connection)
    begin = time.monotonic()
    try:
        done = subprocess.run(world.nodes.serve("a"), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        world.complain(f"{what}: the node runs on without a database")
        return
    last = (done.stdout + done.stderr).strip().splitlines()[-1:] or [""]
    say(f"{what}: the node ends after {time.monotonic() - begin:.1f} s with {done.returncode}: {last[0][:400]}")
    if done.returncode == 0:
        raise Trouble(f"{what}: the node ended with 0")
