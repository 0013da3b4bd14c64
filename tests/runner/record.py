"""The table of a run: what each step and the slowest cases took, kept for the next run to estimate by.

Times mean something only beside the speed of the machine (machine.py), so that is kept with each.
Without a last run, what the steps take is that of a reference machine, at the speed of this one:
reference.json has the "known" of a whole run there.
"""

import json
import os

REFERENCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference.json")
SLOWEST = 20


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


class Estimates:
    """What each step will take here, in s; None for one that nobody knows."""

    def __init__(self, last_path, speed_s):
        self.known = {**load(REFERENCE).get("known", {}), **load(last_path).get("known", {})}
        self.speed_s = speed_s

    def of(self, name):
        if name not in self.known:
            return None
        seconds, at_speed_s = self.known[name]
        return seconds * self.speed_s / at_speed_s


class Row:
    """`cpu_s`: processor time, of what runs on this machine; beside `seconds` it says how busy that was."""

    def __init__(self, name, stage, seconds, cpu_s=None, passed=0, failed=0, cases=()):
        self.name, self.stage, self.seconds, self.cpu_s = name, stage, seconds, cpu_s
        self.passed, self.failed, self.cases = passed, failed, list(cases)


class Table:
    def __init__(self, speed_s, load):
        self.speeds_s, self.loads, self.rows = [speed_s], [load], []

    def end(self, speed_s, load):
        self.speeds_s.append(speed_s)
        self.loads.append(load)

    def add(self, row):
        self.rows.append(row)

    def slowest(self):
        every = [(seconds, row.name, case) for row in self.rows for case, seconds in row.cases]
        return sorted(every, reverse=True)[:SLOWEST]

    def lines(self, estimates, total_s):
        """Plain text, aligned."""
        width = max([len("step"), *(len(row.name) for row in self.rows)])
        yield ("this machine: 3 million additions in Python take "
               + ", and at the end ".join(f"{s:.2f} s" for s in self.speeds_s)
               + "; load " + ", and at the end ".join(f"{load:.1f}" for load in self.loads))
        yield ""
        yield f"{'step':{width}}  {'s':>7}  {'cpu s':>7}  {'expected':>8}  {'passed':>6}  {'failed':>6}"
        for row in self.rows:
            expected = estimates.of(row.name)
            tests = row.passed or row.failed
            yield (f"{row.name:{width}}  {row.seconds:7.1f}  "
                   f"{'' if row.cpu_s is None else format(row.cpu_s, '.1f'):>7}  "
                   f"{'' if expected is None else round(expected):>8}  "
                   f"{row.passed if tests else '':>6}  {row.failed or '':>6}").rstrip()
        yield f"{'all':{width}}  {total_s:7.1f}"
        slowest = self.slowest()
        if slowest:
            width = max(len(step) for _, step, _ in slowest)
            yield ""
            yield f"{'the slowest cases, of':{width}}  {'s':>7}"
            for seconds, step, case in slowest:
                yield f"{step:{width}}  {seconds:7.1f}  {case}"

    def save(self, path, total_s):
        """What was not run this time stays known from the time before."""
        known = load(path).get("known", {})
        known.update({row.name: [round(row.seconds, 1), round(self.speeds_s[0], 3)]
                      for row in self.rows if not row.failed})
        content = {
            "speed_s": [round(s, 3) for s in self.speeds_s],
            "load": [round(load, 1) for load in self.loads], "total_s": round(total_s, 1),
            "known": known,
            "steps": [{"name": row.name, "stage": row.stage, "s": round(row.seconds, 1),
                       "cpu_s": row.cpu_s and round(row.cpu_s, 1), "passed": row.passed, "failed": row.failed,
                       "cases": [[case, seconds] for case, seconds in row.cases]}
                      for row in self.rows]}
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
        os.replace(path + ".new", path)
