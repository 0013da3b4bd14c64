"""Runs the cases of test_programs.py: several in one job where they want the same of mpirun.

Most of a short case is the start and the end of its processes. Cases with the same MCA parameters share a
job, in which main.cc calls them one after the other, each with a communicator of its own. A case that
fails ends the job, and those behind it are run in another. What a job leaves behind when it is over, or
leaks, is the fault of its last case.
"""

import os
import re
import shutil
import tempfile
import time

from harness.mpirun import LEAK, Mpirun, mpirun
from harness.stacks import stacks
from mpi.judging import LIMIT_S, Result, check_ok_line

COUNTERS_READER = "pvars_at_finalize.so"  # preloaded, it prints weir's counters
GRACE_S = 20  # for processes to go away after mpirun has
TOLD_EARLIER_S = 10  # before we end a case its watchdog does: it knows which rank is stuck, and where


def wish_of(case):
    """What a job has to be like for this case. One-sided operations go as the first of them says."""
    osc = tuple(setting for setting in case.mca if setting[0].startswith("osc"))
    others = tuple(setting for setting in case.mca if setting not in osc)
    as_it_comes = case.program.startswith("rma_") and not osc
    return others, as_it_comes, case.program == "threads", tuple(case.launch)


# ---- one job -----------------------------------------------------------------------------------------

class Job:
    """One mpirun, for these cases in this order; one that is `alone` is the program itself. `programs`: where
    they are; `mca`: more parameters."""

    def __init__(self, cases, programs, mca=()):
        self.cases, self.programs = cases, programs
        self.alone = cases[0].alone
        self.np = max(case.np for case in cases)
        # What all want, and how one-sided operations are carried, which is nothing to the others.
        self.mca = [*dict.fromkeys(setting for case in cases for setting in case.mca), *map(tuple, mca)]
        self.mpirun, self.directory, self.read_up_to, self.text = None, None, 0, ""
        self.ended = 0  # cases

    def missing(self):
        case = self.cases[0]
        if case.reads_counters and not case.ours and not os.path.exists(
                os.path.join(self.programs, COUNTERS_READER)):
            return f"{COUNTERS_READER} is not built"
        if case.ours:
            path = os.path.join(self.programs, case.program if self.alone else "mpi_tests")
            return None if os.access(path, os.X_OK) else f"{path} is not built"
        return None if shutil.which(case.program) else f"{case.program} is not installed"

    def command(self, plan="PLAN"):
        first = self.cases[0]
        reads = first.reads_counters and not first.ours
        command = mpirun(self.mca, [os.path.join(self.programs, COUNTERS_READER)] if reads else [])
        command += first.launch + ["-n", str(self.np)]
        if self.alone and first.ours:
            return [*command, os.path.join(self.programs, first.program), *arguments_of(first)]
        if self.alone:
            return [*command, first.program, *first.args]
        command += [os.path.join(self.programs, "mpi_tests"), "--plan", plan]
        if first.program == "threads":
            command.append("--multiple")
        if any(case.settles for case in self.cases):
            command += ["--settle-ms", "200"]
        return command

    def start(self):
        self.directory = tempfile.mkdtemp(prefix="weir-suite-")
        plan = write_plan(self.directory, [(case.np, case.program, *arguments_of(case)) for case in self.cases])
        for case in self.cases:
            if case.prepare:
                case.prepare(self.directory)
        self.output = os.path.join(self.directory, "output")
        with open(self.output, "wb") as file:
            self.mpirun = Mpirun(self.command(plan), file, self.directory,
                                 {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                                  "OPENBLAS_NUM_THREADS": "1"})
        self.begun = time.monotonic()

    def wait(self, until, limit_s):
        """False: it did not come to that in time."""
        deadline = time.monotonic() + limit_s
        while not until():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def case_is_over(self):
        """What the next case said, once that has ended."""
        is_over = self.mpirun.is_over()  # before the last look
        with open(self.output, errors="replace", newline="\n") as file:
            self.text = file.read()
        end = re.compile(rf"^end {self.ended} ([\d.]+)\n", re.M).search(self.text, self.read_up_to)
        if end:
            self.found = self.text[self.read_up_to:end.end()], float(end[1])
            self.read_up_to = end.end()
        elif is_over:
            self.found = None
        return end or is_over

    def run_next(self):
        """The reason why its next case failed, or None. After a failure the job is over."""
        case = self.cases[self.ended]
        if self.alone:
            in_time = self.wait(self.mpirun.is_over, case.timeout)
            result = self.conclude(in_time)
            self.ended += 1
            return judge(case, result), result.output
        more_s = LIMIT_S if self.ended == 0 else 0  # all processes start
        if not self.wait(self.case_is_over, case.timeout + TOLD_EARLIER_S + more_s):
            return "no end in time: killed", self.conclude(False).output
        if self.found is None:
            result = self.conclude(True)
            return f"the job ended with exit code {result.code} in the midst of it", result.output
        said, seconds = self.found
        result = Result(0, said, seconds, False, [], self.directory)
        self.ended += 1
        reason = judge(case, result)
        if reason is None and self.ended == len(self.cases):
            result = self.conclude(self.wait(self.mpirun.is_over, LIMIT_S))
            reason = judge_end(result)
            said += result.output
            reason = reason and f"at the end of the job: {reason}"
        return reason, said

    def conclude(self, in_time):
        """What it said since the last case that ended; it is over then, and nothing of it is left."""
        where = ""
        if not in_time:
            where = stacks(self.mpirun.process.pid)
            self.mpirun.clear_away()
        elapsed = time.monotonic() - self.begun
        leftovers = self.mpirun.left_after(GRACE_S)
        self.mpirun.kill()
        with open(self.output, errors="replace", newline="\n") as file:
            self.text = file.read()
        return Result(self.mpirun.process.wait(), self.text[self.read_up_to:] + where, elapsed, not in_time, leftovers,
                      self.directory)

    def clear_away(self):
        if self.mpirun is not None:
            self.mpirun.clear_away()
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)


def write_plan(directory, calls):
    """What main.cc is to call, one after the other: (np, program, arguments ...). Returns the file's name."""
    path = os.path.join(directory, "plan")
    with open(path, "w") as file:
        for number, call in enumerate(calls):
            print(number, *call, file=file)
    return path


def arguments_of(case):
    return case.args + ["--timeout", str(max(5, case.timeout - TOLD_EARLIER_S))]


# ---- judging: each returns the reason of failure, or None ----------------------------------------------

def judge(case, result):
    return left_over(result) or (case.check or check_ok_line)(case, result)


def judge_end(result):
    return left_over(result) or (f"exit code {result.code}" if result.code != 0 else None)


def left_over(result):
    if result.timed_out:
        return f"no end after {result.elapsed:.0f} s: killed"
    if result.leftovers:
        return f"left behind: {result.leftovers}"
    leak = LEAK.search(result.output)
    return leak and leak.group()
