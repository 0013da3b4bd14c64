"""Includes point down the picture and are spelled from the root.

The pure folders know no clock, thread, lock, system call or stream; srq and flowctl know only
base, rendezvous flowctl too; lane and wire lie below core, drive above it. Of them
flowctl/shared knows atomics, for it is what reads and writes memory that processes share (how that
is had is in flowctl/shm), and transport/rail, whose links any thread reads.
"""

import pathlib
import re

import pytest

from harness.kinds import ROOT

# Folder: what it may include, itself not counted. Longest match wins.
PURE = {
    "base": set(),
    "srq": {"base"},
    "rendezvous": {"base", "flowctl", "flowctl/shared"},  # the node's budget
    "flowctl": {"base", "flowctl/shared"},
    "flowctl/shared": {"base"},
    "transport/wire": {"base"},
    "transport/lane": {"base", "transport/wire"},
    "transport/core": {"base", "transport/wire", "transport/lane", "transport/rail", "srq",
                       "rendezvous", "flowctl", "flowctl/shared"},
}
CORE = set(PURE)
PURE["transport/rail"] = {"base", "rendezvous"}
PURE["transport/drive"] = CORE
DRIVEN = set(PURE) - {"transport/rail"}
ABOVE = {
    "transport/config": {"base", "flowctl", "srq"},  # the names of caps, its tables
    "transport/verbs": {"base", "transport/wire"},
    "transport/engine": DRIVEN | {"transport/verbs", "flowctl/shm"},
    "transport/btl": DRIVEN | {"transport/config", "transport/engine", "transport/rail",
                               "transport/verbs"},
    "tools/sim": DRIVEN,
    "tools/sim/network": {"base", "rendezvous", "srq", "tools/sim", "transport/config"},
    "tools/sim/scenario": {"tools/sim/network", "transport/config"},
    "tools/sim/command": {"tools/sim/network", "tools/sim/scenario", "transport/config"},
    "flowctl/shm": {"base", "flowctl/shared"},
}
RULES = PURE | ABOVE

# System headers of a pure folder: values and containers, nothing that does something.
PURE_HEADERS = {
    "algorithm", "array", "bit", "cassert", "compare", "concepts", "cstddef", "cstdint", "cstring",
    "deque", "initializer_list", "iterator", "limits", "map", "memory", "numeric", "optional",
    "set", "span", "string_view", "tuple", "type_traits", "unordered_map", "utility", "variant",
    "vector",
}

# By base/atomic.h, too, which only has that header.
ATOMIC_HEADERS = {"base": {"atomic"}, "flowctl/shared": {"atomic"}, "transport/rail": {"atomic"}}
ATOMICS = "base/atomic.h"

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
SUFFIXES = {".h", ".cc", ".c"}


def folder_of(path):
    """The longest folder of the rules that `path` lies in, or None."""
    best = None
    for folder in RULES:
        if path.startswith(folder + "/") and (best is None or len(folder) > len(best)):
            best = folder
    return best


def problems_of(name, text, root):
    """Each line of this file that breaks a rule."""
    folder = folder_of(name)
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        where = f"{name}:{number}: "
        quoted, target = found.group(1) == '"', found.group(2)
        if not quoted:
            known = PURE_HEADERS | ATOMIC_HEADERS.get(folder, set())
            if folder in PURE and target not in known:
                yield where + f"<{target}> does not belong into the pure folder {folder}"
            continue
        if target == ATOMICS and folder in PURE and folder not in ATOMIC_HEADERS:
            yield where + f"{target} does not belong into the pure folder {folder}"
        to = folder_of(target)
        if to is None or not (root / target).is_file():
            # Another project's header, which only glue may quote.
            if folder in PURE or folder == "tools/sim" or ((root / name).parent / target).is_file():
                yield where + f'"{target}" is not spelled from the root'
        elif to != folder and to not in RULES[folder]:
            yield where + f"{folder} must not know {to}"


@pytest.mark.parametrize("folder", sorted(RULES))
def test_includes_of(folder):
    root = pathlib.Path(ROOT)
    texts = {name: path.read_text(encoding="utf-8") for path in sorted((root / folder).rglob("*"))
             if path.suffix in SUFFIXES and folder_of(name := path.relative_to(root).as_posix()) == folder}
    assert texts, "no sources are there"
    found = [problem for name, text in texts.items() for problem in problems_of(name, text, root)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name, line, says", [
    ("srq/x.cc", "#include <mutex>", "<mutex> does not belong into the pure folder srq"),
    ("transport/core/x.cc", "#include <atomic>", "<atomic> does not belong"),
    ("flowctl/x.cc", "#include <atomic>", "<atomic> does not belong"),  # but it does into flowctl/shared
    ("flowctl/x.cc", '#include "base/atomic.h"', "base/atomic.h does not belong"),
    ("transport/core/x.cc", '#include "transport/verbs/gid.h"', "transport/core must not know transport/verbs"),
    ("transport/wire/x.cc", '#  include "transport/lane/assembly.h"', "transport/wire must not know transport/lane"),
    ("transport/core/x.cc", '#include "sender.h"', '"sender.h" is not spelled from the root'),
    ("transport/btl/x.cc", '#include "endpoint.h"', '"endpoint.h" is not spelled from the root')])
def test_a_line_that_breaks_a_rule_is_found(name, line, says):
    found, = problems_of(name, line, pathlib.Path(ROOT))
    assert says in found and found.startswith(f"{name}:1: ")
