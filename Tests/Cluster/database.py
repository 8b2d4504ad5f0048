"""A PostgreSQL server with a synchronous standby, on two loopback addresses."""

import os
import secrets
import shutil
import tempfile

from place import SERVERS, SERVERS_FOLDER, Trouble, run
import postgresql


class Database:
    """The primary and its standby. The data begin empty in each run. The servers have the names of their first roles."""

    writer, reader = "primary", "standby"

    def __init__(self, place):
        self.place = place
        self.port = place.ports["POSTGRESQL_PORT"]
        self.programs = programs()
        self.owner = owner()
        self.folder = self.make_folder()
        self.password = secrets.token_hex(16)
        self.environment = dict(os.environ, PGPASSFILE=os.path.join(self.folder, "pgpass"), LC_ALL="C")

    def make_folder(self):
        """PostgreSQL refuses to run as root. The user postgres may not reach the folder of root, so root's servers have a
        temporary folder. A link leads to it, so that the next run can remove it even after a kill -9."""
        link = self.place.path(SERVERS_FOLDER)
        if self.owner is None:
            os.mkdir(link, 0o700)
            return link
        folder = tempfile.mkdtemp(prefix="sippushd-cluster-", dir="/tmp")
        os.symlink(folder, link)
        postgresql.give(folder, self.owner)
        return folder

    def command(self, program, *words):
        return postgresql.prefix(self.owner) + [os.path.join(self.programs, program), *words]

    def run(self, program, *words):
        return run(self.command(program, *words), cwd=self.folder, env=self.environment)

    def data(self, server):
        return os.path.join(self.folder, server)

    def secret(self, name, text):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        postgresql.give(path, self.owner)
        return path

    def start(self):
        self.place.write(self.password, "password")
        self.secret("pgpass", f"*:*:*:sippushd:{self.password}\n")
        self.run("initdb", "-D", self.data("primary"), "-U", "sippushd", "--auth=scram-sha-256",
                 "--pwfile=" + self.secret("password", self.password), "-E", "UTF8", "--locale=C")
        self.start_server("primary")
        self.query("primary", "CREATE DATABASE sippushd", "postgres")
        self.run("pg_basebackup", "-h", SERVERS["primary"], "-p", str(self.port), "-U", "sippushd", "-D", self.data("standby"),
                 "-R", "-c", "fast")
        # The standby has no such setting. After its promotion, commits would wait for a standby that does not exist.
        self.query("primary", "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")
        self.query("primary", "SELECT pg_reload_conf()")
        self.start_server("standby")
        self.place.await_that(
            lambda: self.query("primary", "SELECT sync_state FROM pg_stat_replication") == "quorum",
            "the standby is not synchronous", name="standby")

    def start_server(self, server):
        settings = {
            "listen_addresses": SERVERS[server], "port": self.port, "unix_socket_directories": "", "cluster_name": server,
            "synchronous_commit": "on",
            # A standby that has lost its primary looks for promotion only after this time, by default five seconds.
            "wal_retrieve_retry_interval": "100ms",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.place.start(server, self.command("postgres", "-D", self.data(server), *words), cwd=self.folder, env=self.environment)
        self.place.await_line(server, "ready to accept")

    def query(self, server, sql, database="sippushd"):
        """Runs a statement, and returns the values of the rows as lines."""
        return run([os.path.join(self.programs, "psql"), "-XAtq", "-h", SERVERS[server], "-p", str(self.port), "-U", "sippushd",
                    "-d", database, "-c", sql], env=self.environment).strip()

    def promote(self):
        """Makes the standby the new primary, as a failover manager or an operator would."""
        self.run("pg_ctl", "promote", "-D", self.data(self.reader), "-w", "-t", "30", "-s")
        self.writer, self.reader = self.reader, self.writer

    def rejoin(self):
        """Makes the ended server a synchronous standby of the promoted server."""
        shutil.rmtree(self.data(self.reader), ignore_errors=True)
        self.run("pg_basebackup", "-h", SERVERS[self.writer], "-p", str(self.port), "-U", "sippushd", "-D", self.data(self.reader),
                 "-R", "-c", "fast")
        self.query(self.writer, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'")
        self.query(self.writer, "SELECT pg_reload_conf()")
        # The copy has the setting of its primary. After a promotion, commits would wait for a standby that does not exist.
        with open(os.path.join(self.data(self.reader), "postgresql.auto.conf"), "a") as file:
            file.write("synchronous_standby_names = ''\n")
        self.start_server(self.reader)
        self.place.await_that(
            lambda: self.query(self.writer, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'quorum'") == "1",
            "the new standby is not synchronous", name=self.reader)

    def connection(self):
        return f"host={SERVERS['primary']},{SERVERS['standby']} port={self.port} dbname=sippushd user=sippushd"

    def shell(self, program, *words):
        """A command for the user's terminal."""
        return " ".join(self.command(program, *words))

    def remove(self):
        """Removes the data, which the next run does not use."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.owner is not None:
            os.unlink(self.place.path(SERVERS_FOLDER))


def programs():
    found, missing = postgresql.programs("initdb", "postgres", "pg_basebackup", "pg_ctl", "psql")
    if missing:
        raise Trouble(f"PostgreSQL is not installed here ({', '.join(missing)} missing). Install Debian's package postgresql, "
                      "or set POSTGRESQL_PROGRAMS to the folder of PostgreSQL's programs.")
    return found


def owner():
    try:
        return postgresql.owner()
    except KeyError:
        raise Trouble(f"PostgreSQL does not run as root, and there is no user {postgresql.USER}. Run etc/run --cluster as another user.") from None
