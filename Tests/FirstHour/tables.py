"""Tests the import of users from Kamailio and Asterisk: runs the queries of docs/Operations.md on their tables, and
imports the results."""

import glob
import hashlib
import os
import re
import shutil
import subprocess

from people import register
from place import PHONES, await_, run

# Kamailio's tables come from Kamailio's Debian packages. Asterisk's table ps_auths has the columns of Asterisk's Alembic
# scripts, because Debian 12 has no package of Asterisk.
ASTERISK = """CREATE TABLE ps_auths (
    id VARCHAR(255) NOT NULL UNIQUE, auth_type VARCHAR(8), nonce_lifetime INTEGER, md5_cred VARCHAR(40), password VARCHAR(80),
    realm VARCHAR(255), username VARCHAR(40), refresh_token VARCHAR(255), oauth_clientid VARCHAR(255), oauth_secret VARCHAR(255),
    CONSTRAINT pjsip_auth_type_values CHECK (auth_type IN ('md5', 'userpass', 'google_oauth')));"""


def ha1(user, password):
    return hashlib.md5(f"{user}:example.net:{password}".encode()).hexdigest()


# Each row has a user, a password, a domain or realm, and whether the table has the password or only its hash.
USERS = [("kim", "plain", "example.net", True), ("kai", 'with "quotes", and commas', "example.net", True),
         ("kit", "only-a-hash", "example.net", False), ("stranger", "other", "example.org", True)]


def kamailio_rows():
    rows = [f"('{user}', '{domain}', '{password if shown else ''}', '{ha1(user, password)}')" for user, password, domain, shown in USERS]
    return f"INSERT INTO subscriber (username, domain, password, ha1) VALUES {', '.join(rows)};"


def asterisk_rows():
    rows = [f"('{user}', '{'userpass' if shown else 'md5'}', '{user}', '{password if shown else ''}', "
            f"'{'' if shown else ha1(user, password)}', '{domain}')" for user, password, domain, shown in USERS if user != "stranger"]
    # A hash is for Asterisk's own realm if the table has no realm.
    rows.append(f"('old', 'md5', 'old', '', '{hashlib.md5(b'old:asterisk:x').hexdigest()}', 'asterisk')")
    return f"INSERT INTO ps_auths (id, auth_type, username, password, md5_cred, realm) VALUES {', '.join(rows)};"


class SQLite:
    program, schemas = "sqlite3", "/usr/share/kamailio/db_sqlite"
    databases = ("kamailio.sqlite", "realtime.sqlite")

    def __init__(self, folder):
        self.environment = dict(os.environ)

    def make(self, database, text, folder):
        subprocess.run(["sqlite3", "-bail", database], input=text, text=True, check=True, cwd=folder, capture_output=True)

    def stop(self):
        pass


class Server:
    """A database server with its own folder and socket."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, self.program)
        os.makedirs(self.folder)
        shutil.chown(self.folder, "nobody", "nogroup")
        self.begin()
        await_(self.answers, 60)

    def answers(self):
        return self.ask(self.first, "SELECT 1;").returncode == 0

    def ask(self, database, text):
        return subprocess.run([self.program, *self.quiet, database], input=text, text=True, env=self.environment, capture_output=True)

    def make(self, database, text, folder):
        for name, words in ((self.first, f"CREATE DATABASE {database};"), (database, text)):
            result = self.ask(name, words)
            assert result.returncode == 0, result.stderr

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def launch(self, *words):
        with open(os.path.join(self.folder, "server.out"), "w") as file:
            self.process = subprocess.Popen(
                ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *words], cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=file, stderr=subprocess.STDOUT)


class PostgreSQL(Server):
    program, schemas, first = "psql", "/usr/share/kamailio/postgres", "postgres"
    quiet = ["-q", "-v", "ON_ERROR_STOP=1"]
    databases = ("kamailio", "asterisk")
    binaries = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    is_here = bool(binaries)

    def begin(self):
        self.environment = dict(os.environ, PGHOST=self.folder, PGUSER="nobody")
        data = os.path.join(self.folder, "data")
        run("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", os.path.join(self.binaries[-1], "initdb"), "-D", data,
            "--auth=trust", "--no-sync", cwd=self.folder)
        self.launch(os.path.join(self.binaries[-1], "postgres"), "-D", data, "-k", self.folder, "-c", "listen_addresses=", "-F")


class MariaDB(Server):
    program, schemas, first = "mysql", "/usr/share/kamailio/mysql", "mysql"
    quiet = []
    databases = ("kamailio",)
    is_here = bool(shutil.which("mariadbd") and shutil.which("mariadb-install-db"))

    def begin(self):
        socket = os.path.join(self.folder, "socket")
        self.environment = dict(os.environ, HOME=self.folder)
        with open(os.path.join(self.folder, ".my.cnf"), "w") as file:
            file.write(f"[client]\nsocket={socket}\nuser=root\n")
        data = os.path.join(self.folder, "data")
        run("mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db",
            "--user=nobody", f"--tmpdir={self.folder}")
        self.launch(shutil.which("mariadbd"), "--no-defaults", f"--datadir={data}", f"--tmpdir={self.folder}", f"--socket={socket}", "--skip-networking",
                    f"--pid-file={self.folder}/pid")


def import_and_log_in(hour, folder, refusal, users):
    """Imports users.csv on the daemon's machine. The import refuses one row, and the users of all other rows can log in."""
    for user, _, _, _ in users:
        hour.place.inside(f"sippushd user remove {user}")
    shutil.copy(os.path.join(folder, "users.csv"), hour.place.path("/root/users.csv"))
    result = hour.place.inside("sippushd user import users.csv")
    assert result.returncode == 1 and f"{len(users)} users are stored, 1 rows are refused" in result.stdout, result.stdout
    assert re.search(refusal, result.stdout), result.stdout
    for user, password, _, _ in users:
        answer = register(PHONES[3], user, password, ";pn-provider=fcm;pn-param=example-phone;pn-prid=" + user)
        assert answer and answer.status == 200, f"{user}: {answer}"
        answer = register(PHONES[3], user, "wrong", ";pn-provider=fcm;pn-param=example-phone;pn-prid=" + user)
        assert answer and answer.status == 401, f"{user}: {answer}"


def play(hour):
    lines = hour.commands("Operations", "Users in bulk")
    users = [user for user in USERS if user[0] != "stranger"]
    for kind in (SQLite, PostgreSQL, MariaDB):
        if not shutil.which(kind.program) or not os.path.exists(f"{kind.schemas}/auth_db-create.sql") or not getattr(kind, "is_here", True):
            print(f"skipped: the queries for {kind.__name__}: it or Kamailio's tables for it are not installed", flush=True)
            continue
        folder = os.path.join(hour.place.folder, kind.__name__)
        os.makedirs(folder)
        os.chmod(hour.place.folder, 0o755)
        database = kind(folder)
        try:
            tables = ""
            for name in ("standard", "auth_db"):
                with open(f"{kind.schemas}/{name}-create.sql") as file:
                    tables += file.read()
            contents = [("Kamailio", "subscriber", tables + kamailio_rows(), r"line 5: .*example\.org"),
                        ("Asterisk", "ps_auths", ASTERISK + asterisk_rows(), r"line 5: .*realm")]
            for name, (pbx, table, text, refusal) in zip(kind.databases, contents):
                found = [line for line in lines if line.startswith(kind.program) and f"FROM {table}" in line]

                def story():
                    assert len(found) == 1, found
                    database.make(name, text, folder)
                    result = subprocess.run(["bash", "-c", found[0]], cwd=folder, env=database.environment, text=True, capture_output=True)
                    assert result.returncode == 0, f"$ {found[0]}\n{result.stderr}"
                    import_and_log_in(hour, folder, refusal, users)

                hour.expect(f"docs/Operations.md: users of {pbx}'s {kind.__name__} table log in", story)
        finally:
            database.stop()
