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
    return re.sub(r"CMakeFiles/[^/]+\.dir/|\.o$|\.gch$", "", made)


class Build:
    """ninja's "[n/m] text". The time left is that of the steps so far: those are not all alike, so it
    is only about right."""

    def __init__(self):
        self.begin_s = self.text = None

    def read(self, line, now_s):
        """What to show after this line."""
        step = NINJA.match(line)
        if not step:  # cmake's, or a compiler's complaint
            self.text = self.text or line.removeprefix("-- ").strip() or None
            return self.text or ""
        done, of = int(step[1]), int(step[2])
        if self.begin_s is None or done == 0:
            self.begin_s = now_s
        left = ""
        if ENOUGH <= done < of:
            left = f", about {clock((now_s - self.begin_s) / done * (of - done))} left"
        self.text = f"{100 * done // max(of, 1)} %{left} ({subject(step[3])})"
        return self.text


class Words:
    """The last line, of what has no numbers."""

    def read(self, line, now_s):
        return line.strip()


def run(head, words, reader, root):
    """Runs a part to its end and shows how far it is. Its lines; ends this program if it fails."""
    begin_s, shown = time.monotonic(), [""]
    live = sys.stdout.isatty()
    if not live:
        print(head, flush=True)
    screen = Screen(lambda: f"{head}: {clock(time.monotonic() - begin_s)} {shown[0]}", EVERY_S)
    lines = []
    with subprocess.Popen(words, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        for line in process.stdout:
            lines.append(line.rstrip())
            shown[0] = reader.read(line.rstrip(), time.monotonic())
    screen.end()
    verdict = "failed" if process.returncode else "done"
    print(f"{head}: {verdict} ({time.monotonic() - begin_s:.0f} s)", flush=True)
    if process.returncode:
        print("\n".join(lines[-30:]))
        sys.exit(1)
    return lines
