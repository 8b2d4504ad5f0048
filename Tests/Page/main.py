"""Runs the steps of etc/page, makes the pictures, or measures the cost of viewers."""

import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

import story  # noqa: E402  (it finds the modules of Tests/Trust)
import pictures  # noqa: E402
import viewers  # noqa: E402
import operator_steps  # noqa: E402, F401
import attacks  # noqa: E402, F401


def main(words):
    binaries = words[0]
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        folder = os.path.abspath(os.environ.get("PAGE_FOLDER") or folder)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        one = story.Story(binaries, folder)
        try:
            if words[1:2] == ["--viewers"]:
                return 0 if viewers.main(one, *(int(word) for word in words[2:4] + ["10", "1000"][len(words[2:4]):])) else 1
            one.start()
            if words[1:2] == ["--pictures"]:
                return pictures.main(one)
            return 0 if one.run() else 1
        finally:
            one.stop()


sys.exit(main(sys.argv[1:]))
