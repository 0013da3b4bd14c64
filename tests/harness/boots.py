"""Runs tests that want a lab: on the host, those that want the same one share a boot of it.

In the guest another pytest runs them (inside.py) and tells what came of each, as pytest-xdist's workers
do. When a test does not end, the kernel complains or the lab itself ends, the test under way has failed
and those behind it get a fresh boot, so that one hides no other.
"""

import io
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time

import pytest

from harness import events, open_mpi_5
from harness.kinds import KINDS, ROOT

sys.path.insert(0, os.path.join(ROOT, "tools", "lab"))
from host.session import COMPLAINT  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
LAB = os.path.join(ROOT, "tools", "lab", "lab")
NOBODY = (65534, 65534)
GRACE_S = 60        # beyond a test's own limit
BOOT_LIMIT_S = 600  # to the first test: on a slow machine, with pytest's own start
TRIES = 3           # of a test whose kernel may break
# QEMU at times runs a breakpoint that the kernel has taken back: https://bugzilla.redhat.com/2216496
EMULATORS_FAULT = re.compile(r"int3: ")
UNDER_5_0 = " under Open MPI 5.0"


def kind_of(item):
    mark = item.get_closest_marker("lab")
    if mark is None:
        return None
    try:
        return KINDS[mark.args[0]]
    except (KeyError, IndexError):
        raise pytest.UsageError(f"{item.nodeid}: there is no kind of lab {mark.args}; the kinds are: "
                                f"{', '.join(KINDS)} (harness/kinds.py)") from None


class Twin:
    """A test of a lab again, under Debian 13's Open MPI 5.0: all else is the test's."""

    def __init__(self, item):
        self.item, self.nodeid = item, item.nodeid + UNDER_5_0
        self.stash = pytest.Stash()

    def __getattr__(self, name):
        return getattr(self.item, name)


def original(item):
    """What a twin is of, or the test itself."""
    return item.item if isinstance(item, Twin) else item


def twin_of(item):
    """None where it wants more than open_mpi_5 builds, says itself what is installed there, or this machine has such
    an Open MPI."""
    kind = kind_of(item)
    if not kind or kind.prepare or open_mpi_5.own_version() >= 5:
        return None
    long = item.get_closest_marker("long")
    is_apart = item.get_closest_marker("sanitize") or long and not long.kwargs.get("in_shares", True)
    case = item.callspec.params.get("case") if hasattr(item, "callspec") else None
    is_foreign = not getattr(case, "ours", True) or item.get_closest_marker("only_here")  # Debian's, not in every root
    return Twin(item) if item.nodeid.startswith(("mpi/", "lab/")) and not is_apart and not is_foreign else None


def boot_of(item):
    """What it wants of a boot, or None for what runs here."""
    kind = kind_of(item)
    if kind is None:
        return None
    options, prepare = kind.boot()
    return options, open_mpi_5.make_ready if isinstance(item, Twin) else prepare


def own_id(item):
    """In the guest, where there are no twins."""
    return item.nodeid.removesuffix(UNDER_5_0)


def limit_s(item):
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark else float(item.config.getini("timeout"))


def by_boot(items):
    """{what its tests want of a boot, None for what runs here: tests}"""
    boots = {}
    for item in items:
        boots.setdefault(boot_of(item), []).append(item)
    return boots


def in_order(items):
    """First what runs here; then boot by boot, last in each what breaks it."""
    order = []
    for boot, own in sorted(by_boot(items).items(), key=lambda boot: boot[0] is not None):
        if boot is not None:
            own.sort(key=lambda item: (item.get_closest_marker("breaks_boot") is not None))
        order += own
    return order


def run(items, session):
    """Runs them all, and reports through pytest's hooks."""
    for (options, prepare), left in by_boot(items).items():
        options = list(options)
        try:
            options += prepare(session.config) if prepare else []
        except Exception as problem:  # whatever it was: these tests cannot be run
            for item in left:
                report(item, f"its lab could not be prepared: {problem}")
            continue
        while left:
            left = Boot(options, left, session).run()
            if session.shouldfail or session.shouldstop:
                return


def report(item, problem, seconds=0.0, sections=()):
    """A test that could say nothing itself has failed."""
    item.ihook.pytest_runtest_logreport(report=pytest.TestReport(
        item.nodeid, item.location, {name: 1 for name in item.keywords}, "failed", problem, "call",
        sections=sections, duration=seconds))


class Boot:
    """One run of the lab."""

    numbers = iter(range(1, 1000))

    def __init__(self, options, items, session):
        self.session, self.items = session, self.up_to_a_break(items)
        self.left = items[len(self.items):]
        logs = os.path.join(session.config.option.build, "logs")
        os.makedirs(logs, exist_ok=True)
        path = os.path.join(logs, f"boot{next(Boot.numbers)}")
        self.console = path + ".console"
        self.nodes = 2 if "--nodes" in options else 1
        self.log = open(path + ".log", "w", errors="replace")
        self.lines = queue.Queue()
        options = list(options)
        if "--build" not in options:
            options += ["--build", session.config.option.build]
        self.build = options[options.index("--build") + 1]
        with open(path + ".plan", "w") as file:
            json.dump(self.plan(), file)
        host = ["--host"] if session.config.option.host else []
        self.begin = time.monotonic()
        self.lab = subprocess.Popen(
            [LAB, *host, "--quiet", "--timeout", "0", "--console", self.console, *options, "--",
             sys.executable, os.path.join(HERE, "inside.py"), path + ".plan"],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True)
        threading.Thread(target=self.read, daemon=True).start()

    @staticmethod
    def up_to_a_break(items):
        """Those that one boot can run, last the one that breaks it; each identity's tests are together."""
        first = next((number for number, item in enumerate(items)
                      if item.get_closest_marker("breaks_boot")), len(items))
        return sorted(items[:first], key=lambda item: list(KINDS).index(kind_of(item).name)) + items[first:first + 1]

    def plan(self):
        groups = []
        for item in self.items:
            kind = kind_of(item)
            user = ((os.getuid(), os.getgid()) if os.getuid() else NOBODY) if kind.user else None
            who = {"user": user, "memlock": kind.memlock}
            if not groups or {**groups[-1], "tests": 0} != {**who, "tests": 0}:
                groups.append({**who, "tests": []})
            groups[-1]["tests"].append(own_id(item))
        return {"tests": TESTS, "groups": groups,
                "arguments": ["--build", self.build, *self.session.config.option.for_guests]}

    def read(self):
        for line in io.TextIOWrapper(self.lab.stdout, errors="replace", newline="\n"):
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def run(self):
        """The tests that have not been run."""
        try:
            self.play()
        finally:
            self.stop()
            self.log.close()
        return self.left

    def stop(self):
        if self.lab.poll() is None:
            self.lab.terminate()  # it ends its machine itself
            try:
                self.lab.wait(30)
            except subprocess.TimeoutExpired:
                self.lab.kill()
                self.lab.wait()

    # ---- one event after the other ----

    def play(self):
        self.waiting = {own_id(item): item for item in self.items}
        self.current, self.last, self.began = None, None, self.begin  # the test under way, the one before
        self.deadline = self.begin + BOOT_LIMIT_S
        while not self.is_over():
            try:
                line = self.lines.get(timeout=1)
            except queue.Empty:
                line = ""
            if line is None:
                code, complaint = self.lab.wait(), self.complaint()
                if complaint or code or self.waiting:
                    self.spoilt(complaint, complaint or f"the lab ended with exit code {code}")
                return
            text, event = events.decode(line)
            if text:
                self.log.write(text + "\n")
                self.log.flush()
            complaint = self.complaint() if event or not line else ""
            if event and not (complaint and event["what"] == "start"):
                self.follow(event)
            if complaint or time.monotonic() > self.deadline:
                self.spoilt(complaint, complaint or ("no end in time" if self.current else "the lab made no progress"))
                return

    def is_over(self):
        """All has been told, and nothing can be expected of a boot that its last test broke."""
        broken = not self.waiting and self.last.get_closest_marker("breaks_boot")
        return self.session.shouldfail or self.session.shouldstop or broken

    def follow(self, event):
        item = self.waiting.get(event["test"])
        if item is None:  # nobody asked for it
            self.log.write(f"not of this boot: {event['what']} {event['test']}\n")
        elif event["what"] == "start":
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            self.current, self.began = item, time.monotonic()
            self.deadline = self.began + limit_s(item) + GRACE_S
        elif event["what"] == "report":
            told = item.config.hook.pytest_report_from_serializable(config=item.config, data=event["report"])
            told.nodeid = item.nodeid
            if told.skipped:
                told.longrepr = tuple(told.longrepr)  # JSON has lists
            item.ihook.pytest_runtest_logreport(report=told)
        else:
            item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            del self.waiting[own_id(item)]
            self.current, self.last, self.began = None, item, time.monotonic()
            self.deadline = self.began + (BOOT_LIMIT_S if self.waiting else GRACE_S)

    def spoilt(self, complaint, reason):
        """Somebody has failed, or is tried again; the others are run in another boot."""
        item = self.current
        if item is None and self.last and (complaint or not self.waiting):
            item, reason = self.last, f"after this test had ended: {reason}"
        elif item is None:
            item = next(iter(self.waiting.values()))
        self.left = [other for other in self.waiting.values() if other is not item] + self.left
        if complaint and (item.get_closest_marker("kernel_may_break") or EMULATORS_FAULT.search(complaint)):
            if item is self.last:
                return  # what it found stands
            item.stash[TRIED] = item.stash.get(TRIED, 0) + 1
            if item.stash[TRIED] < TRIES:
                self.left.append(item)
                return
        report(item, reason, time.monotonic() - self.began, [("the lab said last", self.last_words())])

    def last_words(self):
        self.log.flush()
        with open(self.log.name, errors="replace") as file:
            return "".join(file.readlines()[-40:])

    def complaint(self):
        """The first one of a kernel, or ""."""
        names = ([self.console] if self.nodes == 1 else
                 [f"{self.console}.node{node}" for node in range(1, self.nodes + 1)])
        for name in names:
            try:
                with open(name, "rb") as file:
                    found = next(filter(COMPLAINT.search, file), None)
            except OSError:
                continue
            if found:
                return "the guest's kernel complained: " + re.sub(r"\s+", " ", found.decode(errors="replace")).strip()
        return ""


TRIED = pytest.StashKey()
