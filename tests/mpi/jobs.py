"""Runs the cases of tests/mpi/suite: several in one job where they want the same of mpirun.

Most of a short case is the start and the end of its processes. Cases with the same MCA parameters
share a job, in which main.cc calls them one after the other, each with a communicator of its own.
A case that fails ends the job, and those behind it are run in another. What a job leaves behind when it
is over, or leaks, is a case of its own.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from judging import LIMIT_S, Result, check_ok_line

MARKER = "WEIR_SUITE_CASE"  # in the environment of everything a case starts
COUNTERS_READER = "pvars_at_finalize.so"  # preloaded, it prints weir's counters
GRACE_S = 20  # for processes to go away after mpirun has
TOLD_EARLIER_S = 10  # before we end a case its watchdog does: it knows which rank is stuck, and where
LEAK = re.compile(r"^.*\bweir: .*\b(?:leaked|made a mistake)\b.*$", re.M)


class Job:
    """One mpirun. `cases` in this order; one that is `alone` is the program itself."""

    def __init__(self, cases):
        self.cases = cases
        self.alone = cases[0].alone

    @property
    def np(self):
        return max(case.np for case in self.cases)

    @property
    def mca(self):
        """What all want, and how one-sided operations are carried, which is nothing to the others."""
        return list(dict.fromkeys(setting for case in self.cases for setting in case.mca))

    def end_name(self):
        """What is judged when all its cases are over."""
        mca = " ".join(f"{key}={value}" for key, value in self.mca)
        return f"the end of np={self.np}{' ' + mca if mca else ''}"


def wish_of(case):
    """What a job has to be like for this case. One-sided operations go as the first of them says."""
    osc = tuple(setting for setting in case.mca if setting[0].startswith("osc"))
    others = tuple(setting for setting in case.mca if setting not in osc)
    as_it_comes = case.program.startswith("rma_") and not osc
    return others, as_it_comes, case.program == "threads"


def share(cases):
    """The jobs, each where its first case is."""
    jobs, by_wish = [], {}
    for case in cases:
        wish = wish_of(case)
        if case.alone or wish not in by_wish:
            jobs.append(Job([case]))
            if not case.alone:
                by_wish[wish] = jobs[-1]
        else:
            by_wish[wish].cases.append(case)
    return jobs


# ---- processes ---------------------------------------------------------------------------------------

def marked_processes(mark):
    """Processes of this machine that descend from the job, wherever they were re-parented."""
    wanted, found = f"{MARKER}={mark}".encode(), []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if wanted not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{entry}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append(int(entry))
        except OSError:
            pass  # gone, or not ours
    return found


def kill_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def stop(process, mark):
    """mpirun first, politely, so that it can stop remote ranks; then whatever is left."""
    for number, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, number)
        except OSError:
            pass
        try:
            process.wait(patience)
            break
        except subprocess.TimeoutExpired:
            continue
    kill_all(marked_processes(mark))


# ---- one job -----------------------------------------------------------------------------------------

def command_of(job, options, plan="PLAN"):
    first = job.cases[0]
    command = [options.mpirun, "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1",
               "--mca", "btl", options.btl]
    if options.hosts:
        command += ["--host", options.hosts]
    if options.hostfile:
        command += ["--hostfile", options.hostfile]
    if options.hosts or options.hostfile:
        command += ["--map-by", "node"]
    if "weir" in options.btl.split(","):
        command += ["--mca", "btl_weir_check_leaks", "on"]
    for key, value in job.mca + [tuple(pair) for pair in options.mca]:
        command += ["--mca", key, value]
    if first.reads_counters and not first.ours:
        command += ["-x", f"LD_PRELOAD={os.path.join(options.bin, COUNTERS_READER)}"]
    command += first.launch + ["-n", str(job.np)]
    if not job.alone:
        command += [os.path.join(options.bin, "mpi_tests"), "--plan", plan]
        if first.program == "threads":
            command.append("--multiple")
        if any(case.settles for case in job.cases):
            command += ["--settle-ms", "200"]
        return command
    if first.ours:
        return command + [os.path.join(options.bin, first.program), *arguments_of(first)]
    return command + [first.program] + first.args


def arguments_of(case):
    return case.args + ["--timeout", str(max(5, case.timeout - TOLD_EARLIER_S))]


def missing(job, options):
    case = job.cases[0]
    if case.reads_counters and not case.ours and not os.path.exists(
            os.path.join(options.bin, COUNTERS_READER)):
        return f"{COUNTERS_READER} is not built"
    if case.ours:
        path = os.path.join(options.bin, case.program if job.alone else "mpi_tests")
        return None if os.access(path, os.X_OK) else f"{path} is not built"
    return None if shutil.which(case.program) else f"{case.program} is not installed"


class Output:
    """A job's output as it grows: which case is under way, and since when."""

    MARK = re.compile(r"^(begin|end) (\d+)(?: ([\d.]+))?\n", re.M)

    def __init__(self, path):
        self.path, self.text = path, ""
        self.at = self.seen = 0  # where the case under way begins, and up to where marks were read
        self.current, self.ended = None, 0
        self.begun = self.changed = time.monotonic()
        self.cases_s = 0.0

    def read(self):
        """(number of the case, what it said, seconds) of each that has ended since."""
        with open(self.path, errors="replace", newline="\n") as file:
            self.text = file.read()
        while mark := self.MARK.search(self.text, self.seen):
            self.seen, self.changed = mark.end(), time.monotonic()
            if mark[1] == "begin":
                self.current = int(mark[2])
                continue
            said, self.at, self.current = self.text[self.at:mark.end()], mark.end(), None
            self.ended = int(mark[2]) + 1
            self.cases_s += float(mark[3])
            yield int(mark[2]), said, float(mark[3])

    def rest(self):
        """What was said since the last case ended."""
        return self.text[self.at:]


def run(job, options, report):
    """Calls report(case or name of the end, reason or None, result). Returns the cases that have not been
    run."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OPENBLAS_NUM_THREADS="1", **{MARKER: mark})
    directory = tempfile.mkdtemp(prefix="weir-suite-")
    process = None
    try:
        plan = os.path.join(directory, "plan")
        with open(plan, "w") as file:
            for number, case in enumerate(job.cases):
                print(number, case.np, case.program, *arguments_of(case), file=file)
        for case in job.cases:
            if case.prepare:
                case.prepare(directory)
        # A file, not a pipe: a leftover process must not keep us reading.
        path = os.path.join(directory, "output")
        with open(path, "wb") as file:
            process = subprocess.Popen(command_of(job, options, plan), stdin=subprocess.DEVNULL,
                                       stdout=file, stderr=subprocess.STDOUT, cwd=directory,
                                       env=environment, start_new_session=True)
        output = Output(path)
        timed_out = follow(job, process, output, report, directory)
        if timed_out:
            stop(process, mark)
        elapsed = time.monotonic() - output.begun
        deadline = time.monotonic() + GRACE_S
        leftovers = marked_processes(mark)
        while leftovers and time.monotonic() < deadline:
            time.sleep(0.1)
            leftovers = marked_processes(mark)
        kill_all(leftovers)
        follow_up(job, output, report, directory)
        result = Result(process.returncode, output.rest(), elapsed, timed_out, leftovers, directory)
        return conclude(job, output, result, report)
    except (OSError, RuntimeError) as error:
        for case in job.cases:
            report(case, str(error), None)
        return []
    finally:
        if process is not None and process.poll() is None:
            stop(process, mark)
        shutil.rmtree(directory, ignore_errors=True)


def follow(job, process, output, report, directory):
    """Until the job ends, or a case does not in time: then True."""
    while True:
        try:
            process.wait(0.1)
            return False
        except subprocess.TimeoutExpired:
            pass
        if not job.alone:
            follow_up(job, output, report, directory)
        limit_s = (job.cases[0].timeout if job.alone else
                   LIMIT_S if output.current is None else
                   job.cases[output.current].timeout + TOLD_EARLIER_S)
        if time.monotonic() - output.changed > limit_s:
            return True


def follow_up(job, output, report, directory):
    """Judges the cases that have ended since."""
    for number, text, seconds in output.read():
        case = job.cases[number]
        result = Result(0, text, seconds, False, [], directory)
        report(case, judge(case, result), result)


def judge(case, result):
    if result.timed_out:
        return f"no end after {result.elapsed:.0f} s: killed"
    if result.leftovers:
        return f"{len(result.leftovers)} processes were left behind"
    leak = LEAK.search(result.output)
    if leak:
        return leak.group()
    return (case.check or check_ok_line)(case, result)


def conclude(job, output, result, report):
    """Judges what only its end can tell. Returns the cases that have not been run."""
    if job.alone:
        case = job.cases[0]
        report(case, judge(case, result), result)
        return []
    if output.ended == len(job.cases):
        reason = judge_end(result)
        result.elapsed -= output.cases_s  # what the start and the end took
        report(job.end_name(), reason, result)
        return []
    reason = ("no end in time: killed" if result.timed_out else
              f"the job ended with exit code {result.code} in the midst of it")
    if output.current is None and output.ended == 0:  # so the others would not start either
        for case in job.cases:
            report(case, reason, result)
        return []
    report(job.cases[output.ended], reason, result)
    return job.cases[output.ended + 1:]


def judge_end(result):
    if result.timed_out:
        return "MPI_Finalize did not end: killed"
    if result.leftovers:
        return f"{len(result.leftovers)} processes were left behind"
    leak = LEAK.search(result.output)
    if leak:
        return leak.group()
    return f"exit code {result.code}" if result.code != 0 else None
