"""What the tests said about the mutants: results.csv, kept in git, one row a mutant.

A row says that the mutant was killed, by which test and which of its cases, or that it is alive, and why
it may be. It names the commit that was tried, and the day. Reasons are written by hand, except UNTRIED.
"""

import csv
import dataclasses
import datetime
import functools
import os
import subprocess

from catalogue import HERE, ROOT, Mistake

TABLE = os.path.join(HERE, "results.csv")
UNTRIED = "not tried: "


@dataclasses.dataclass
class Row:
    mutant: str
    verdict: str       # killed, alive
    by: str = ""       # the tests that noticed it: one, except after --keep-going
    case: str = ""     # the first of theirs that failed or hung
    reason: str = ""   # why it may live
    code: str = ""     # the commit, without those to this folder; with + if files differed from it
    date: str = ""

    @property
    def killed(self):
        return self.verdict == "killed"

    @property
    def killers(self):
        return self.by.split()

    @property
    def untried(self):
        """Tests of a living one that may still notice it."""
        return self.reason.removeprefix(UNTRIED).split() if self.reason.startswith(UNTRIED) else []

    def told(self):
        how = f"killed by {self.by}{self.case and f' ({self.case})'}" if self.killed else f"ALIVE: {self.reason or 'why?'}"
        return f"{how}, {self.code} {self.date}"


FIELDS = [field.name for field in dataclasses.fields(Row)]


def load(path=TABLE):
    """{name: row}"""
    if not os.path.exists(path):
        return {}
    with open(path, newline="") as file:
        lines = csv.DictReader(file)
        if lines.fieldnames != FIELDS:
            raise Mistake(f"{path}: its columns are not {', '.join(FIELDS)}")
        rows = [Row(**line) for line in lines]
    return {row.mutant: row for row in rows}


def save(rows, path=TABLE):
    with open(path + ".new", "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(FIELDS)
        table.writerows(dataclasses.astuple(rows[name]) for name in sorted(rows))
    os.replace(path + ".new", path)


def merged(before, mutant, noticed, tried, code):
    """The row after a run. `noticed`: {test: its first case}; `tried`: all tests that have run on this code."""
    untried = [key for key in mutant.tests if key not in tried]
    if not noticed and before and before.killed and set(before.killers) & set(untried):
        return before  # it was killed by a test that has not run now
    row = Row(mutant.name, "alive", code=code, date=datetime.date.today().isoformat())
    if noticed:
        row.verdict, row.by, row.case = "killed", " ".join(noticed), next(filter(None, noticed.values()), "")
    elif before and before.reason and not before.untried:
        row.reason = before.reason
    elif untried:
        row.reason = UNTRIED + " ".join(untried)
    return row


def problems_of(rows, mutants, tests):
    """What is wrong with the table. A mutant without a row was never run; that is no mistake."""
    names = {mutant.name for mutant in mutants}
    for row in rows.values():
        if row.mutant not in names:
            yield f"{row.mutant}: there is no such mutant"
        elif row.verdict not in ("killed", "alive"):
            yield f"{row.mutant}: it is {row.verdict}"
        elif row.killed and not row.by or unknown(row.killers + row.untried, tests):
            yield f"{row.mutant}: no such tests: {unknown(row.killers + row.untried, tests)}"
        elif not row.killed and not row.reason:
            yield f"{row.mutant}: it is alive; write a test, or the reason into {os.path.basename(TABLE)}"


def unknown(keys, tests):
    return [key for key in keys if key not in tests]


def _git(*words):
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def code_now():
    """The last commit to anything that decides what comes out: not to prose, nor to this folder."""
    rest = ["--", ".", ":!*.md", f":!{os.path.relpath(HERE, ROOT)}"]
    differs = _git("status", "--porcelain", *rest)
    return (_git("log", "-1", "--format=%h", "--abbrev=10", *rest) or "unknown") + ("+" if differs else "")


def changed_since(row, mutant):
    """Have the mutant's folders changed since? Also true where git does not know the commit."""
    return _differs(row.code.rstrip("+"), tuple(mutant.folders))


@functools.cache
def _differs(commit, folders):
    return _git("diff", "--name-only", commit, "--", *folders) != ""
