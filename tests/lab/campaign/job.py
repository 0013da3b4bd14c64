"""A job under which the fabric, or a process, breaks: what it says, and the two ends that it may have."""

import os
import re
import shlex
import subprocess
import tempfile
import time

from harness.kinds import ROOT
from harness.mpirun import LEAK, Mpirun, mpirun
from harness.nodes import kill, node_of, nodes
from harness.stacks import stacks
from mpi.judging import counter

SHOWN_LINES = 40

PATIENCE_S = 8  # btl_weir_peer_timeout of the jobs that wait for it
LATEST = 1.5  # of that: a silent lane is probed within half of it, and then an outage may take it whole
SLACK_S = 4   # from the deadline in a rank to the line read here, two slow emulated cores shared by all
# No deadlines of weir's: for what hangs, on a slow machine.
READY_S = 120  # for all ranks to start
END_S = 120    # for a job to end after what it was told to do, or when a rank is lost

PATIENCE = ("btl_weir_peer_timeout", f"{PATIENCE_S}s")
OSC_OVER_WEIR = [("osc", "rdma"), ("osc_rdma_btls", "weir")]

# Roles of `stream` for an outage: ranks 0 and 1, whose traffic times its pauses, and rank 2, which goes on
# sending to rank 3, which computes. Messages of 3 MB go by RDMA reads; the one-sided traffic is puts,
# gets and atomics.
BESIDE = ["--roles", "traffic,beside", "--counters"]
MEDIUM = [*BESIDE, "--largest", "1M"]
LARGE = [*BESIDE, "--largest", "3M"]
ONE_SIDED = ["--roles", "rma,target", "--largest", "1M", "--counters"]

# The whole sentence: host and rank, the peer's, the port, the reason, the status in words (of a
# work request that failed; a stall has none), what to do.
LOST = (r"weir: rank \d+ on host \w+: lost rank \d+ on host \w+ \(device rxe\w+:1\): "
        r"(a send failed \([A-Za-z ]+\)"
        r"(: an? [a-z ]+ \d+ bytes at 0x[0-9a-f]+ \([^)]+\))?|"
        r"posted work did not complete in time|"
        r"the connection broke while an atomic operation was under way, which may or may not have "
        r"been executed|the peer's process is gone|a receive failed \([A-Za-z ]+\)|"
        r"no answer to the connection request|the connection was refused|"
        r"the connection broke after the peer had accepted it, before it was confirmed)\. [A-Z][^.]+\.")
PORT_DOWN = (r"weir: rank 0 on host \w+: (rxe\w+:1 went down \(port error\)|"
             r"a connection of rxe\w+:1 broke, to rank \d+: this process's own port went down)")
IN_DOUBT = "while an atomic operation was under way"


class Job(Mpirun):
    """A program and its ranks. What each rank says to stderr is kept apart, written by the rank itself, so that
    it is there when mpirun is stopped or dead. `ranks`: shell commands before each rank; `launch`: options of mpirun."""

    def __init__(self, fabric, build, program, np, args=(), mca=(), ranks="", timeout=120, launch=()):
        self.program, self.np = program, np
        # Each node has a /tmp of its own, and the checkout is the same on all.
        shared = os.path.join(ROOT, "build") if len(nodes()) > 1 else None
        if shared:
            os.makedirs(shared, exist_ok=True)
        self.directory = tempfile.mkdtemp(prefix="campaign-", dir=shared)
        side = "$(test $((OMPI_COMM_WORLD_RANK % 2)) = 0 && echo a || echo b)"
        devices = ",".join(f"rxe{rail}{side}" for rail in range(fabric.rails_of_wire))
        setting = f"export OMPI_MCA_btl_weir_device={devices};" if devices else ""
        script = (f"exec 2>>{shlex.quote(self.directory)}/rank$OMPI_COMM_WORLD_RANK; "
                  f'{setting} {ranks} exec "$0" "$@"')
        ulfm = ["--with-ft", "ulfm"] if fabric.survivable else []
        command = [*mpirun(dict(mca).items()), *ulfm, *launch, "-n", str(np), "sh", "-c", script, os.path.join(build, "mpi", program),
                   "--timeout", str(timeout), *map(str, args)]
        with open(f"{self.directory}/output", "wb") as file:
            super().__init__(command, file, ROOT)
        self.begin = time.monotonic()

    # ---- what it says ----

    def read(self, name):
        try:
            with open(f"{self.directory}/{name}", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def said_by(self, rank):
        return self.read(f"rank{rank}")

    def output(self):
        return "\n".join([self.read("output"), *(f"rank{rank}| {line}" for rank in range(self.np)
                                                 for line in self.said_by(rank).splitlines())])

    def wait_said(self, rank, pattern, limit_s=READY_S, every_s=0.05):
        """When that rank, or any of several, had said it."""
        ranks = rank if isinstance(rank, tuple) else (rank,)
        deadline = time.monotonic() + limit_s
        while True:
            is_over = self.is_over()  # before the last look
            if any(re.search(pattern, self.said_by(rank)) for rank in ranks):
                return time.monotonic()
            assert not is_over, f"the job ended, and rank {rank} did not say /{pattern[:60]}/"
            assert time.monotonic() < deadline, \
                f"rank {rank} did not say /{pattern[:60]}/ within {limit_s:.1f} s"
            time.sleep(every_s)

    def wait_said_by_any(self, pattern, limit_s=READY_S):
        return self.wait_said(tuple(range(self.np)), pattern, limit_s)

    def wait_said_by_all(self, pattern):
        for rank in range(self.np):
            self.wait_said(rank, pattern)

    def wait_ready(self):
        self.wait_said_by_all(r"stream: rank \d+ ready")

    def pid_of(self, rank):
        return int(re.search(r"\bpid (\d+)", self.said_by(rank)).group(1))

    def is_whole(self):
        """What broke is there again, by what every rank told last."""
        return all(self.said_by(rank).rfind("were made again, the last to") >=
                   self.said_by(rank).rfind("a connection of") for rank in range(self.np))

    def pause_s(self):
        return int(re.search(r"longest pause (\d+) ms", self.output()).group(1)) / 1000

    def counter(self, name):
        found = counter(self.output(), name)
        assert found, f"no counter {name}"
        return found

    def check_carried(self, *names):
        for name in names:
            assert self.counter(name).sum > 0, f"weir counted no {name}: they went elsewhere"

    # ---- how it ends ----

    def tell_to_end(self, *ranks):
        """As if the --seconds of its ranks, or of these, were over. They may have ended with the others."""
        for rank in ranks or range(self.np):
            kill(node_of(rank), "-USR2", [self.pid_of(rank)])

    def wait_end(self, limit_s=END_S):
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end within {limit_s:.0f} s\n{stacks(self.process.pid)}") from None

    def check_survived(self, limit_s=END_S, without=()):
        """`without`: ranks that are lost, and the job goes on."""
        code = self.wait_end(limit_s)
        assert code == 0, f"exit code {code}"
        output = self.output()
        assert re.search(rf"^{self.program}: ok", output, re.M), f"no '{self.program}: ok' line"
        for pair in re.findall(r"rank (\d+) on host \w+: lost rank (\d+)", output):
            assert any(int(rank) in without for rank in pair), "a peer was given up"
        leak = LEAK.search(output)
        assert not leak, leak.group()

    def end_beside_computation(self):
        """All is over for the fabric, and the last rank has computed all the while, without a call of MPI."""
        assert "has computed" not in self.said_by(self.np - 1), "nobody computed any more"
        self.tell_to_end()
        self.check_survived()

    def check_lost(self, limit_s=END_S, victim=None, port_down=False):
        """It ended because peers were lost: the victim, or else who is at the other end of what was cut
        (with the port of the even ranks down they do not reach each other either). Ranks that ended on
        that are gone for others, and are named for that alone, or for an atomic under way when they
        left. Nothing is left of it."""
        assert self.wait_end(limit_s) != 0, "exit code 0"
        output = self.output()
        others = re.sub(rf"^rank{victim}\|.*", "", output, flags=re.M)  # it tells how it ended
        wrong = re.search(r".*(FAILED|WATCHDOG|Signal: Segm|Signal: Abort|terminate called).*", others)
        assert not wrong, f"neither survived nor lost: {wrong.group()}"
        told = []
        for line in re.findall(r".*lost rank.*", output):
            named = re.search(r"rank (\d+) on host \w+: lost rank (\d+) ", line)
            assert named and re.search(LOST, line), f"not the whole sentence: {line}"
            told.append((*map(int, named.groups()), line))
        gone = {victim}
        for _ in told:
            gone |= {who for who, whom, _ in told if whom in gone}
        for who, whom, line in told:
            was_cut = who % 2 != whom % 2 or (port_down and who % 2 == 0)
            assert ("the peer's process is gone" in line or ("an atomic operation" in line and whom in gone) or
                    (was_cut if victim is None else whom == victim)), f"rank {whom} was there: {line}"
        self.check_nothing_left()

    def check_nothing_left(self, limit_s=60):
        left = self.left_after(limit_s)
        assert not left, f"left behind after {limit_s} s: {left}"

    def clear_away(self):
        super().clear_away()
        subprocess.run(["rm", "-rf", self.directory], check=False)
