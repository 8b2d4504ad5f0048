"""Checks for etc/rule-gate that each test which docs/Trust.md names exists.

The last column of a rule's row names probes (`trust NAME`), suites and tests (*NAME*, `NAME of several words`), types or files of
tests (`NameTests`), and scenarios (other names with a hyphen).
"""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

import probes  # noqa: E402, F401
import suite  # noqa: E402


def missing_names(page, code, files, known_probes):
    for row in page.splitlines():
        cells = re.split(r"(?<!\\)\|", row)
        if not re.match(r"\| T\d", row) or len(cells) < 5:
            continue
        shown = cells[3]
        for name in re.findall(r"\*([^*]+)\*|`([^`]+)`", shown):
            name = name[0] or name[1]
            if not exists(name, code, files, known_probes):
                yield cells[1].strip(), name


def exists(name, code, files, known_probes):
    if name.startswith("trust "):
        return name[6:] in known_probes
    if f'"{name}"' in code or f"func `{name}`" in code or f"struct `{name}`" in code:
        return True
    if name.startswith("etc/"):
        return os.path.exists(name.split()[0])
    if re.fullmatch(r"\w+", name):
        return name in files or re.search(rf"\b(struct|class|enum|func) {name}\b", code) is not None
    # The name of a scenario.
    return name in files


def main():
    code, files = [], set()
    for folder in ("Tests", "Fuzz", "Benchmarks"):
        for path, _, names in os.walk(folder):
            for name in names:
                files.add(name.removesuffix(".swift"))
                if name.endswith(".swift") and "/.build" not in path:
                    with open(os.path.join(path, name), encoding="utf-8") as file:
                        code.append(file.read())
    for path, folders, names in os.walk("sip-scenarios"):
        files.update(folders, (os.path.splitext(name)[0] for name in names))
    with open("docs/Trust.md", encoding="utf-8") as file:
        page = file.read()
    known = {name for _, name, *_ in suite.PROBES + suite.TIMINGS + suite.FAULTS}
    missing = list(missing_names(page, "\n".join(code), files, known))
    for rule, name in missing:
        print(f"docs/Trust.md names for {rule} the test {name}, which is not there")
    return 1 if missing else 0


sys.exit(main())
