"""Steps that want the same lab share one boot of it; each is judged on its own.

inside.py runs them in the guest. When a step does not end, the kernel complains or the lab itself
ends, that step has failed and those after it are run in a fresh boot, so that one hides no other.
"""

import io
import json
import os
import queue
import subprocess
import sys
import threading
import time

from inside import MARK, NO_END

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LAB = os.path.join(ROOT, "tools", "lab", "lab")
sys.path.insert(0, os.path.join(ROOT, "tools", "lab"))
from host.job import NOBODY  # noqa: E402
from host.session import COMPLAINT  # noqa: E402

GRACE_S = 60       # for inside.py to end a step that takes too long, and for a complaint's last words
BOOT_LIMIT_S = 600
MEMORY = "3G"     # of one node: what the most demanding of its steps wants
TRIES = 3          # of a step that may break the kernel without being to blame


class Outcome:
    def __init__(self, status, seconds, reason="", kernel=False, cpu_s=None):
        self.status, self.seconds, self.reason, self.kernel = status, seconds, reason, kernel
        self.cpu_s = cpu_s


def lines_of(process):
    """Without their ends; a carriage return is none."""
    for line in io.TextIOWrapper(process.stdout, errors="replace", newline="\n"):
        yield line.rstrip("\n")


def boots_of(steps):
    """[(options of the lab, steps)]: neighbours that can share a boot."""
    groups = []
    for step in steps:
        options, _ = split(step.lab)
        if groups and groups[-1][0] == options and not groups[-1][1][-1].breaks_boot:
            groups[-1][1].append(step)
        else:
            groups.append((options, [step]))
    return groups


def split(options):
    """What the boot needs, and what inside.py does for one step: another user, less locked memory."""
    boot, own, words = [], {}, list(options)
    while words:
        word = words.pop(0)
        if word == "--user":
            uid, gid = (os.getuid(), os.getgid()) if os.getuid() else (NOBODY, NOBODY)
            own.update(user=uid, group=gid)
        elif word == "--memlock":
            own["memlock"] = int(words.pop(0))
        else:
            boot.append(word)
    if "--nodes" not in boot and "--memory" not in boot:
        boot += ["--memory", MEMORY]
    return boot, own


class Boot:
    """One run of the lab. Calls `observer`: began(step), said(step or None, line), ended(step, outcome),
    booted(options, seconds)."""

    def __init__(self, options, steps, console, observer):
        self.options, self.steps, self.console, self.observer = options, steps, console, observer
        spec = [{"command": step.command, "limit_s": step.limit_s, **split(step.lab)[1]}
                for step in steps]
        self.nodes = 2 if "--nodes" in options else 1
        self.begin, self.lines = time.monotonic(), queue.Queue()
        self.lab = subprocess.Popen(
            [LAB, "--quiet", "--timeout", "0", "--console", console, *options, "--", "python3", "-B",
             os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside.py"),
             json.dumps(spec)],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in lines_of(self.lab):
            self.lines.put(line)
        self.lines.put(None)

    def run(self):
        """The steps that have not been run."""
        try:
            return self.steps[self._play():]
        finally:
            self.stop()

    def stop(self):
        if self.lab.poll() is None:
            self.lab.terminate()  # it ends its machine itself
            try:
                self.lab.wait(30)
            except subprocess.TimeoutExpired:
                self.lab.kill()
                self.lab.wait()

    def _play(self):
        """How many steps have been judged."""
        current, began = None, None  # the step under way, and since when
        done = 0
        deadline = self.begin + BOOT_LIMIT_S
        while True:
            try:
                line = self.lines.get(timeout=1)
            except queue.Empty:
                line = ""
            now = time.monotonic()
            if line is None:
                return self._lab_ended(done, current, began)
            text, mark, told = line.partition(MARK)
            if text:
                self.observer.said(current, text)
            if mark:
                word, number, *rest = told.split()
                if word == "begin":
                    if done == 0 and current is None:
                        self.observer.booted(self.options, now - self.begin)
                    current, began = self.steps[int(number)], now
                    deadline = now + current.limit_s + GRACE_S
                    self.observer.began(current)
                else:
                    time.sleep(0.1)  # a last word of the kernel
                    outcome = self._judge(current, int(rest[0]), float(rest[1]))
                    self.observer.ended(current, outcome)
                    current, done = None, done + 1
                    deadline = now + GRACE_S
                    if outcome.kernel or int(rest[0]) == NO_END:
                        return done
            elif current and (complaint := self.complaint()):
                deadline = min(deadline, now + GRACE_S)
                if now >= deadline:
                    self.observer.ended(current, Outcome(125, now - began, complaint, kernel=True))
                    return done + 1
            if now > deadline:
                late = Outcome(NO_END, now - (began or self.begin), "the lab did not go on")
                self.observer.ended(current or self.steps[done], late)
                return done + 1

    def _judge(self, step, code, seconds):
        complaint = self.complaint()
        if complaint:
            return Outcome(125, seconds, complaint, kernel=True)
        if code == NO_END:
            return Outcome(code, seconds, f"no end within {step.limit_s:g} s")
        return Outcome(code, seconds)

    def _lab_ended(self, done, current, began):
        code = self.lab.wait()
        if done == len(self.steps) and current is None and code == 0:
            return done
        complaint = self.complaint()
        outcome = Outcome(code or 125, time.monotonic() - (began or self.begin),
                          complaint or f"the lab ended with exit code {code}", bool(complaint))
        if done == len(self.steps) and current is None:  # after the last step: whose it is, nobody knows
            self.observer.ended(self.steps[-1], outcome)
            return done
        self.observer.ended(current or self.steps[done], outcome)
        return done + 1

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
                return f"the guest's kernel complained: {found.decode(errors='replace').strip()}"
        return ""
