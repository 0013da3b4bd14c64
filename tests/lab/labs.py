"""What tests/lab/faults, doctor and campaign have in common: cases that want labs of several kinds.

A script runs its cases of one kind of lab in the guest (--inside NAME), and by itself it boots one lab of
each kind for them. tests/run asks which kinds there are (--labs), and lets the cases of several scripts
share a boot.
"""

import fnmatch
import json
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAB = os.path.join(ROOT, "tools", "lab", "lab")
KERNEL_BROKE = 125  # exit code of the lab
TRIES = 3


class Wrong(Exception):
    """What a case did not keep."""


def expect(condition, what):
    if not condition:
        raise Wrong(what)


class Lab:
    """A kind of lab: its options, and how long the cases in it may take, all together. `breaks_boot`:
    nothing can follow them in the same boot. `kernel_may_break`: not by weir's doing; once more then."""

    def __init__(self, name, options, limit_s, breaks_boot=False, kernel_may_break=False):
        self.name, self.options, self.limit_s = name, options, limit_s
        self.breaks_boot, self.kernel_may_break = breaks_boot, kernel_may_break


class Reporter:
    """Counts cases, and says of each what came of it."""

    def __init__(self):
        self.passed = self.failed = 0

    def run(self, name, case, tail=lambda: ""):
        """Calls `case`, which raises what is wrong; then tail() tells what was said."""
        start, problem = time.monotonic(), None
        try:
            case()
        except (Wrong, OSError, ValueError, KeyError, AttributeError,
                subprocess.SubprocessError) as wrong:
            problem = str(wrong) if isinstance(wrong, Wrong) else repr(wrong)
        took = f"({time.monotonic() - start:.1f} s)"
        if problem is None:
            self.passed += 1
            print(f"ok - {name} {took}", flush=True)
            return
        self.failed += 1
        print(f"not ok - {name} {took}: {problem}", flush=True)
        for line in tail().splitlines():
            print("    " + line, flush=True)

    def end(self):
        """The exit code."""
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 0 if self.failed == 0 and self.passed > 0 else 1


def add_options(parser):
    import argparse
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), metavar="DIR",
                        help="where weir is built (default: build/)")
    parser.add_argument("--only", default="*", metavar="GLOB", help="cases whose name matches")
    parser.add_argument("--long", action="store_true", help="more and longer cases")
    parser.add_argument("--inside", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--labs", action="store_true", help=argparse.SUPPRESS)


def matches(name, options):
    return fnmatch.fnmatch(name, options.only)


def tell(labs):
    """The answer to --labs."""
    for lab in labs:
        print(json.dumps(vars(lab)))
    return 0


def run_each(labs, options, more=()):
    """On the host: a boot for each lab, in which this script runs inside. Returns the exit code."""
    passed = failed = 0
    for lab in labs:
        for attempt in range(1, TRIES + 1):
            counts, code = run_one(lab, options, more)
            if code != KERNEL_BROKE or not lab.kernel_may_break or attempt == TRIES:
                break
            print(f"# {lab.name}: the kernel broke; once more", flush=True)
        if counts is None or code not in (0, 1):
            print(f"not ok - the lab for {lab.name} ended with exit code {code}", flush=True)
            counts = (counts[0] if counts else 0, (counts[1] if counts else 0) + 1)
        passed, failed = passed + counts[0], failed + counts[1]
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed > 0 else 1


def run_one(lab, options, more):
    """What it counted, or None, and the lab's exit code."""
    command = [LAB, "--quiet", "--timeout", str(lab.limit_s), "--build", options.build, *lab.options,
               "--", "python3", os.path.abspath(sys.argv[0]), "--inside", lab.name, "--build",
               options.build, "--only", options.only, *more]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               text=True, errors="replace")
    counts = None
    for line in process.stdout:
        found = re.fullmatch(r"(\d+) passed, (\d+) failed", line.rstrip("\n"))
        if found:
            counts = tuple(map(int, found.groups()))
        else:
            print(line, end="", flush=True)
    return counts, process.wait()
