"""PostgreSQL's programs for private servers: their folder, and the user who runs them."""

import glob
import os
import pwd
import re
import shutil

USER = "postgres"


def programs(*needed):
    """The folder of PostgreSQL's server programs, which Debian does not put into PATH, and the programs that are missing there."""
    found = os.environ.get("POSTGRESQL_PROGRAMS") or max(
        glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: [int(number) for number in re.findall(r"\d+", path)], default=None)
    found = found or os.path.dirname(shutil.which("initdb") or "")
    return found, [name for name in needed if not os.access(os.path.join(found, name), os.X_OK)]


def owner():
    """The user of the servers if this user is root, because PostgreSQL refuses to run as root; otherwise `None`.

    A `KeyError` means that the user does not exist."""
    return pwd.getpwnam(USER) if os.getuid() == 0 else None


def prefix(user):
    """The words before a command that runs as the user."""
    return [] if user is None else ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def give(path, user):
    if user is not None:
        os.chown(path, user.pw_uid, user.pw_gid)
