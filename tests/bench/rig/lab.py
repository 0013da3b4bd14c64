"""One VM for the whole benchmark: starts the lab, follows what `inside` says, shows progress."""

import collections
import json
import os
import subprocess
import sys
import time

from rig.peers import TITLES

LIMIT_S = 3 * 3600
QUIET_S = 30  # at most, without a word, where no line can be rewritten


class Progress:
    """One line that rewrites itself on a terminal; else a line a round, or every half minute."""

    def __init__(self, groups, rounds, stream=sys.stderr, name="bench"):
        self.name = name
        self.groups, self.rounds, self.stream = {g.key: g for g in groups}, rounds, stream
        self.live = stream.isatty()
        self.todo = collections.Counter({(g.key, who): len(range(0, rounds, g.slice))
                                         for g in groups for who in g.who})
        self.all = sum(self.todo.values())
        self.seconds = {}  # of the last run of each kind
        self.round = -1
        self.start_s = self.shown_s = time.monotonic()

    def show(self, text, final=False):
        text = f"{self.name}: {text}"
        if self.live:
            self.stream.write(f"\r\033[K{text}" + ("\n" if final else ""))
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def left_s(self):
        """What is to do, at the last known price; unknown prices are the mean of the known."""
        if not self.seconds:
            return None
        mean = sum(self.seconds.values()) / len(self.seconds)
        return sum(n * self.seconds.get(kind, mean) for kind, n in self.todo.items())

    def after(self, event):
        kind = event["group"], event["who"]
        self.todo[kind] -= 1
        self.seconds[kind] = event.get("seconds", 0)
        left_s = self.left_s()
        who = TITLES.get(event["who"], event["who"])
        text = (f"round {event['round'] + 1}/{self.rounds}, run "
                f"{self.all - self.todo.total()} of {self.all}, {left_s:.0f} s left"
                f" ({event['group']} {who})")
        if event.get("error"):
            self.show(f"{event['group']}, {who}: {event['error']}", True)
        now_s = time.monotonic()
        if self.live or event["round"] > self.round or now_s > self.shown_s + QUIET_S:
            self.show(text)
            self.shown_s = now_s
        self.round = max(self.round, event["round"])

    def end(self):
        self.show(f"measured for {time.monotonic() - self.start_s:.0f} s", True)


def run(root, asked, groups, build, options=(), keep=None, progress=None):
    """(conditions of the guest, [run events], what went wrong or None)

    keep(guest, runs), if given, is called after each run: a long measurement may be cut short.
    """
    here = os.path.relpath(os.path.join(root, "tests", "bench", "inside"), root)
    words = [os.path.join(root, "tools", "lab", "lab"), "-q", "--timeout", str(LIMIT_S),
             "--build", build, *options, "--", "python3", here, json.dumps(asked)]
    progress = progress or Progress(groups, asked["rounds"])
    progress.show("starting the VM")
    guest, runs, other = {}, [], []
    problem = None
    # Its own session would keep Ctrl-C from the lab, which ends the VM on it.
    with subprocess.Popen(words, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True) as lab:
        try:
            for line in lab.stdout:
                try:
                    event = json.loads(line)
                except ValueError:
                    other.append(line.rstrip())
                    continue
                kind = event.pop("event")
                if kind == "conditions":
                    guest = event
                else:
                    progress.after(event)
                if kind == "run":
                    runs.append(event)
                    if keep:
                        keep(guest, runs)
        except KeyboardInterrupt:  # what there is stays
            problem = "interrupted"
            lab.terminate()
        code = lab.wait()
    progress.end()
    problem = problem or (f"the lab ended with {code}" if code else None)
    if other:
        problem = (problem or "unexpected output") + ": " + other[-1]
    return guest, runs, problem
