"""How far a command is, by what it prints; shown while it runs."""

import re
import subprocess
import sys
import time

from screen import Screen, clock

EVERY_S = 20  # where there is no terminal
NINJA = re.compile(r"^\[(\d+)/(\d+)\] (.*)")
ENOUGH = 5  # steps, before their pace says something


def subject(text):
    """What a step of ninja makes: the source file, or what is linked."""
    made = text.split()[-1] if text.split() else ""
    made = re.sub(r"CMakeFiles/[^/]+\.dir/|\.o$|\.gch$", "", made)
    return re.sub(r"[^/]+/__/", "", made)  # CMake's "..", in a name


class Build:
    """ninja's "[n/m] text". The time left is that of the steps so far: those are not all alike, so it
    is only about right."""

    def __init__(self):
        self.begin_s, self.done, self.of, self.what = None, 0, 0, ""

    def read(self, line, now_s):
        step = NINJA.match(line)
        if not step:  # cmake's, or a compiler's complaint
            if not self.of:
                self.what = line.removeprefix("-- ").strip()
            return
        self.done, self.of, self.what = int(step[1]), int(step[2]), subject(step[3])
        if self.begin_s is None or self.done == 0:
            self.begin_s = now_s

    def shown(self, now_s):
        if not self.of:
            return self.what
        left = ""
        if ENOUGH <= self.done < self.of:
            left_s = (now_s - self.begin_s) / self.done * (self.of - self.done)
            left = f", about {clock(left_s)} left"
        return f"{100 * self.done // self.of} %{left} ({self.what})"


class Words:
    """The last line, of what has no numbers."""

    def __init__(self):
        self.line = ""

    def read(self, line, now_s):
        self.line = line.strip()

    def shown(self, now_s):
        return self.line


def run(head, words, reader, root):
    """Runs a part to its end and shows how far it is. Its lines; ends this program if it fails."""
    begin_s = time.monotonic()
    live = sys.stdout.isatty()
    if not live:
        print(head, flush=True)

    def status():
        now_s = time.monotonic()
        return f"{head}: {clock(now_s - begin_s)} {reader.shown(now_s)}"
    screen = Screen(status, EVERY_S)
    lines = []
    with subprocess.Popen(words, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        for line in process.stdout:
            lines.append(line.rstrip())
            reader.read(line.rstrip(), time.monotonic())
    screen.end()
    verdict = "failed" if process.returncode else "done"
    print(f"{head}: {verdict} ({time.monotonic() - begin_s:.0f} s)", flush=True)
    if process.returncode:
        print("\n".join(lines[-30:]))
        sys.exit(1)
    return lines
