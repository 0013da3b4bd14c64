"""What a case of cases.py is, and what it takes for one to pass.

A check says why a case failed, or None. It reads what the case said and what weir's counters grew by
in it, so that cases that share a job (jobs.py) are judged each on its own.
"""

import collections
import glob
import gzip
import os
import re

LIMIT_S = 300  # for what hangs: several times what the longest case takes on a slow machine

# A rank dies in it, it spawns, it is about MPI_Init, or all ranks of a job have to take part.
OWN_JOB = {"initlat", "killed_peer", "partitioned", "sessions", "spawn"}


class Case:
    """program: one of ours, given --timeout and checked for its ok line; or a command, of which
    weir's counters are printed at its end if `reads_counters`. `long`: marked so, or how many seconds it
    takes. `alone`: in a job of its own, as all are that are not ours."""

    def __init__(self, program, np, args=(), timeout=LIMIT_S, mca=(), note="", launch=(), check=None,
                 prepare=None, ours=True, reads_counters=False, long=False, alone=False,
                 settles=False):
        self.program, self.np, self.args, self.timeout = program, np, list(args), timeout
        self.mca, self.launch, self.check, self.prepare = list(mca), list(launch), check, prepare
        self.ours, self.reads_counters, self.long = ours, reads_counters, long
        self.settles = settles  # its counters are read when nothing is under way any more
        self.alone = alone or not ours or program in OWN_JOB
        self.name = f"{program}{' ' + note if note else ''} np={np}"


class Result:
    def __init__(self, code, output, elapsed, timed_out, leftovers, directory):
        self.code, self.output, self.elapsed = code, output, elapsed
        self.timed_out, self.leftovers, self.directory = timed_out, leftovers, directory


# ---- judging: each returns the reason of failure, or None ----------------------------------------

def check_ok_line(case, result):
    if result.code != 0:
        return f"exit code {result.code}"
    if not re.search(rf"^{re.escape(case.program)}: ok\b", result.output, re.M):
        return f'no "{case.program}: ok" line'
    return None


def packets_sent():
    """Packets counted by the RDMA devices of this machine, or None where no counter exists."""
    patterns = ("hw_counters/sent_pkts", "counters/port_xmit_packets")
    for pattern in patterns:
        files = glob.glob(f"/sys/class/infiniband/*/ports/*/{pattern}")
        if files:
            return sum(int(open(f).read()) for f in files)
    return None


class UsesWeir:
    """Traffic counted by weir itself, and by the device it claims to use."""

    def prepare(self, directory):
        self.before = packets_sent()

    def check(self, case, result):
        reason = check_ok_line(case, result)
        if reason:
            return reason
        sent = counter(result.output, "messages_sent")
        if sent is None:
            return "no counter btl_weir_messages_sent: weir was not loaded"
        if sent.least == 0:
            return "btl_weir_messages_sent is 0 on some rank: the traffic went elsewhere"
        after = packets_sent()
        if self.before is not None and after is not None and after <= self.before:
            return f"the RDMA device's packet counter stayed at {after}"
        return None


Counter = collections.namedtuple("Counter", "least most sum")


def counter(output, name, level=False):
    """What weir counted, or None: over the ranks, in this case where several share a job, else since
    MPI_Init. As it was printed last: some programs print their counters themselves, before they end.
    `level`: what stands in it at the end."""
    for word in ["counter"] if level else ["grown", "counter"]:
        found = re.findall(rf"^{word} btl_weir_{name} min (-?\d+) max (-?\d+) sum (-?\d+)", output, re.M)
        if found:
            return Counter(*map(int, found[-1]))
    return None


def counter_sum(output, name, level=False):
    found = counter(output, name, level)
    return found and found.sum


class Carried:
    """Weir counted such operations: they did not go by copies or by shared memory."""

    def __init__(self, *names, check=check_ok_line):
        self.names, self.check = names, check

    def __call__(self, case, result):
        reason = self.check(case, result)
        if reason:
            return reason
        idle = [name for name in self.names if not counter_sum(result.output, name)]
        if idle:
            return f"weir counted no {' and no '.join(idle)}: they went elsewhere"
        return None


class CarriedWithout(Carried):
    """And it counted 0 of `unwanted`."""

    def __init__(self, unwanted, *names):
        super().__init__(*names)
        self.unwanted = unwanted

    def __call__(self, case, result):
        reason = super().__call__(case, result)
        if reason:
            return reason
        count = counter_sum(result.output, self.unwanted)
        return None if count == 0 else f"weir counted {count} {self.unwanted}: there should be none"


class ReadyForLarge(Carried):
    """Memory could be registered from MPI_Init on. For a case that is `alone`: a large message opens the hooks, too."""

    def __call__(self, case, result):
        limit = counter(result.output, "registration_regions_limit", level=True)
        opened = limit is not None and limit.least > 0
        return super().__call__(case, result) or (None if opened else "memory hooks were not opened in MPI_Init")


class TokensReturned(Carried):
    """Tokens were taken, many times as often as there are, waited for, and given back."""

    def __init__(self, tokens, *names):
        super().__init__("token_requests", "token_waits", *names)
        self.tokens = tokens

    def __call__(self, case, result):
        reason = super().__call__(case, result)
        if reason:
            return reason
        taken = counter_sum(result.output, "token_requests")
        if taken < 20 * self.tokens:
            return f"only {taken} requests took tokens: the traffic went elsewhere"
        left = counter_sum(result.output, "tokens_out", level=True)
        if left:
            return f"{left} of the nodes' {self.tokens} tokens were not given back"
        return None


def check_killed(case, result):
    """The job ended by itself; the hard timeout and leftovers are judged for every case."""
    if "kills itself" not in result.output:
        return "the victim never got as far as killing itself"
    if "WATCHDOG" in result.output:
        return "a survivor was still stuck when its watchdog fired"
    if "FAILED" in result.output:
        return "a survivor saw wrong data, or a receive from the dead completed"
    # mpirun 4.1.4 returns 0 under --enable-recovery however the processes end
    if result.code == 0 and "--enable-recovery" not in case.launch:
        return "exit code 0 though a rank was killed"
    return None


def check_named(case, result):
    """And weir says who died."""
    victim = case.args[case.args.index("--victim") + 1]
    if not re.search(rf"weir: .*\blost rank {victim} on host", result.output):
        return f"no survivor says that it lost rank {victim}"
    return check_killed(case, result)


def prepare_hpcc(np, directory):
    found = [f for f in glob.glob("/usr/share/doc/hpcc/**/_hpccinf.txt*", recursive=True)]
    if not found:
        raise RuntimeError("hpcc's example input _hpccinf.txt is not installed")
    opener = gzip.open if found[0].endswith(".gz") else open
    with opener(found[0], "rt") as example:
        text = example.read()
    text = re.sub(r"^\d+(\s+Ns)$", r"200\1", text, flags=re.M)
    text = re.sub(r"^\d+(\s+NBs)$", r"20\1", text, flags=re.M)
    text = re.sub(r"^\d+(\s+Ps)$", r"2\1", text, flags=re.M)
    text = re.sub(r"^\d+(\s+Qs)$", rf"{np // 2}\1", text, flags=re.M)
    with open(os.path.join(directory, "hpccinf.txt"), "w") as small:
        small.write(text)


def check_hpcc(case, result):
    if result.code != 0:
        return f"exit code {result.code}"
    try:
        with open(os.path.join(result.directory, "hpccoutf.txt")) as file:
            report = file.read()
    except OSError:
        return "no hpccoutf.txt"
    if "Success=1" not in report.split():
        return "hpccoutf.txt has no Success=1"
    if f"CommWorldProcs={case.np}" not in report.split():
        return f"hpcc did not run as one world of {case.np}"
    # The CPU lines of PTRANS may print nan where a clock tick did not pass; FAILED means wrong.
    if re.search(r"\bFAILED\b", report) or "PASSED" not in report:
        return "hpccoutf.txt has a FAILED check, or none PASSED"
    return None


def check_netpipe(case, result):
    if result.code != 0:
        return f"exit code {result.code}"
    if "-i" in case.args:
        passed = result.output.count("Integrity check passed")
        if passed == 0 or re.search(r"Integrity check failed|ERROR", result.output):
            return "an integrity check failed, or none ran"
    elif not re.search(r"\b6553\d bytes .* Mbps", result.output):
        return "no bandwidth line for 64 KiB"
    return None


SCALAPACK = "/usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests"

# Their own inputs are many, and so small that every message is an eager one. Instead: one larger
# matrix, on one grid of processes.
SCALAPACK_VALUES = {"M": "200", "N": "200", "NB": "64", "MB": "64", "NRHS": "40", "NBRHS": "16",
                    "P": "2", "Q": "2"}


def prepare_scalapack(directory):
    for path in glob.glob(os.path.join(SCALAPACK, "*.dat")):
        with open(path) as file:
            text = file.read()
        text = re.sub(r"^\d+(\s+number of (problem|NB|NRHS|NBRHS|blocking|process))", r"1\1", text,
                      flags=re.M | re.I)
        text = re.sub(rf"^[\d ]+(?=\s+values of ({'|'.join(SCALAPACK_VALUES)})\s*$)",
                      lambda found: SCALAPACK_VALUES[found.group(1)], text, flags=re.M)
        with open(os.path.join(directory, os.path.basename(path)), "w") as larger:
            larger.write(text)


def check_scalapack(case, result):
    if result.code != 0:
        return f"exit code {result.code}"
    counts = re.search(r"(\d+) tests completed and passed residual checks\.\s+"
                       r"(\d+) tests completed and failed residual checks\.\s+"
                       r"(\d+) tests skipped", result.output)
    if not counts:
        return "it did not say how many tests passed"
    if int(counts[1]) == 0 or int(counts[2]) + int(counts[3]) > 0:
        return "passed, failed and skipped: " + ", ".join(counts.groups())
    return None
