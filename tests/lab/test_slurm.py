"""Jobs under Slurm, on two nodes with two rails each. What its end, a rank's death, scancel or a node that drains
leaves on either node is nothing: no process, no queue pair, no segment.

Its Epilog and HealthCheckProgram are those of packaging/example/slurm, with more time: processors are emulated here.
"""

import json
import os
import re
import shlex
import time

import pytest

from harness import leftovers, strict
from harness.mpirun import MARKER
from harness.nodes import nodes, on_node
from harness.open_mpi_5 import own_version
from harness.programs import run, says
from mpi import jobs
from mpi.cases import DEATH_LIMIT_S, OSC_OVER_WEIR, proof
from mpi.judging import Carried, Case, check_killed, check_named

pytestmark = [pytest.mark.lab("Slurm"), pytest.mark.timeout(600), pytest.mark.long(together="Slurm", seconds=25)]
of_another_boot = pytest.mark.long(together="Slurm, jobs that end badly", seconds=25)

PATIENCE_S = 120  # for what hangs, on a slow machine
NOBODY = 65534
NP = 4
KILL = ("--signal=KILL", "--full")
ON_BOTH = ["-N", "2", "-n", str(NP), f"--ntasks-per-node={NP // 2}"]
SETTINGS = [("pml", "ob1"), ("btl", "weir,self"), ("btl_weir_check_leaks", "on"), ("btl_weir_device", "rxe0,rxe1")]


class Job(jobs.Job):
    """Started as `how` says: by `srun`, the same of an ordinary user, by `mpirun` in an allocation, or by `sbatch`. Its
    neighbours are on the other node. `options`: of Slurm's command."""

    def __init__(self, how, cases, build, options=()):
        super().__init__(cases, os.path.join(build, "mpi"))
        self.how, self.options = how, list(options)

    def command(self, plan="PLAN"):
        first = self.cases[0]
        program = [os.path.join(self.programs, first.program), *jobs.arguments_of(first)] if self.alone else \
            [os.path.join(self.programs, "mpi_tests"), "--plan", plan]
        watched = [f"{name}={value}" for name, value in strict.environment().items()]
        settings = [f"OMPI_MCA_{key}={value}" for key, value in SETTINGS + self.mca]
        srun = ["srun", "--mpi=pmix", "-m", "cyclic", *ON_BOTH]
        end = ["env", *watched, *program]
        return ["env", *settings] + {
            "srun": [*srun, *self.options, *end],
            "user": ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *srun, *self.options, *end],
            "mpirun": ["salloc", *ON_BOTH, *self.options, "mpirun", "--map-by", "node", "--bind-to", "none", "-x", MARKER,
                       *end],
            "sbatch": ["sbatch", "--wait", *ON_BOTH, *self.options, "-o", getattr(self, "output", "FILE"),
                       "--open-mode=append", "--wrap", shlex.join([*srun, *end])],
        }[self.how]

    def run(self):
        """All its cases, each judged."""
        self.start()
        while self.ended < len(self.cases):
            reason, said = self.run_next()
            if reason:
                pytest.fail(f"{reason}\n{shlex.join(self.command())}\n{said[-4000:]}", pytrace=False)
        return self

    def said(self):
        with open(self.output, errors="replace") as file:
            return file.read()

    def wait_ready(self):
        wait_for(lambda: self.mpirun.is_over() or self.said().count(" ready, pid ") == self.np, "the start of stream")
        assert not self.mpirun.is_over(), self.said()


def wait_for(condition, what, instead=lambda: ""):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come: {instead()}"
        time.sleep(0.2)


def left():
    """What jobs have left on either node, and Slurm's jobs: {where: lines}."""
    found = {f"node{node}": on_node(node, "ls -d /dev/shm/weir-* 2>/dev/null; rdma resource show qp | grep ' pid '; "
                                          "pgrep -l slurmstepd; true").stdout for node in nodes()}
    found["squeue"] = run("squeue", "--noheader").stdout
    return {where: text for where, text in found.items() if text}


def nothing_is_left():
    wait_for(lambda: not left(), "the end of it all", left)


def state_of(node):
    """With the reason for it."""
    return run("sinfo", "--noheader", "-n", f"node{node}", "-o", "%T %E").stdout


def update(node, *words):
    run("scontrol", "update", f"NodeName=node{node}", *words)


def everywhere(script):
    for node in nodes():
        done = on_node(node, script)
        assert done.returncode == 0, f"node{node}: {script}: {done.stdout}{done.stderr}"


def configure(*lines):
    """More of Slurm's settings, in place of those that were given so before."""
    text = "".join(f"{line} # of a test\n" for line in lines)
    everywhere(f"sed -i '/# of a test/d' /etc/slurm/slurm.conf; printf %s {shlex.quote(text)} >>/etc/slurm/slurm.conf")
    run("scontrol", "reconfigure")


@pytest.fixture(scope="module")
def example(root, build):
    """As an administrator leaves it: weir is found, and the example's Epilog is run."""
    leftovers.keep("Slurm's daemons, which may begin anew when they read their settings")
    here, folder = os.path.join(root, "packaging", "example", "slurm"), "/usr/local/lib/weir-slurm"
    everywhere(f"ln -sf {build}/bin/weir /usr/local/bin/weir; mkdir -p {folder}; cp {here}/epilog {here}/health-check {folder}; "
               f"sed -i 's/doctor --brief/& --timeout 20/' {folder}/*")
    configure(f"Epilog={folder}/epilog")
    yield folder
    leftovers.keep(None)


@pytest.fixture
def slurm(example):
    """All its nodes are idle, before and after."""
    yield
    run("scancel", "--partition=lab", "--signal=KILL", "--full", status=None)
    run("scancel", "--partition=lab")
    for node in nodes():
        run("scontrol", "update", f"NodeName=node{node}", "State=RESUME", status=None)
    wait_for(lambda: all(state_of(node).startswith("idle") for node in nodes()), "an idle node")


@pytest.fixture
def start(slurm, build):
    """start(how, cases) starts a job."""
    started = []

    def start(how, *cases, options=()):
        started.append(Job(how, cases, build, options))
        return started[-1]
    yield start
    for job in started:
        job.clear_away()


@pytest.fixture
def stream(start):
    """Traffic under way."""
    def stream(how, role, mca=()):
        job = start(how, Case("stream", NP, ["--roles", role, "--seconds", "600"], alone=True, mca=mca, timeout=700),
                    options=["--job-name", "stream"])
        job.start()
        job.wait_ready()
        return job
    return stream


def is_cancelled(job):
    number = re.search(r"Submitted batch job (\d+)", job.said())[1]
    return "JobState=CANCELLED" in run("scontrol", "show", "job", number).stdout


def end_of(job):
    """Its exit code; its processes are gone."""
    wait_for(job.mpirun.is_over, "the end of the job")
    assert not job.mpirun.left_after(jobs.GRACE_S), job.said()
    return job.mpirun.process.returncode


# ---- jobs that end well ------------------------------------------------------------------------------

@pytest.mark.parametrize("how", ["srun", "mpirun"])
def test_a_job(how, start):
    """Messages, large ones over both rails, and one-sided operations."""
    start(how, *proof(NP), Case("bigmix", NP, ["--rounds", "1", "--largest", "2M"], check=Carried("rail_parts")),
          Case("rma_sync", NP, ["--rounds", "1"], mca=OSC_OVER_WEIR, check=Carried("puts", "gets"))).run()
    nothing_is_left()


def test_a_node_drains_under_a_job(stream):
    """The job goes on and ends well."""
    job = stream("srun", "traffic")
    update(2, "State=DRAIN", "Reason=test")
    wait_for(lambda: state_of(2).startswith("draining"), "the draining")
    run("scancel", "--name=stream", "--signal=USR2")
    assert end_of(job) == 0 and "stream: ok" in job.said(), job.said()
    wait_for(lambda: state_of(2).startswith("drained"), "a drained node")
    nothing_is_left()


# ---- jobs that do not --------------------------------------------------------------------------------

@of_another_boot
@pytest.mark.parametrize("how, options, check", [
    pytest.param("srun", ["--kill-on-bad-exit=0"], check_named, id="srun"),
    pytest.param("srun", ["--kill-on-bad-exit=1"], check_killed, id="srun-kills"),
    pytest.param("mpirun", [], check_killed, id="mpirun")])
def test_a_rank_is_killed(how, options, check, start):
    """The job ends, also where Slurm lets the others go on: they say whom they lost."""
    start(how, Case("killed_peer", NP, ["--survivors", "mixed", "--victim", "2"], check=check,
                    timeout=DEATH_LIMIT_S), options=options).run()
    nothing_is_left()


@of_another_boot
@pytest.mark.parametrize("how, role, signal", [
    ("user", "gather", ()), ("mpirun", "rma", ()), ("srun", "gather", KILL), ("sbatch", "rma", KILL)],
    ids=["user-gather", "mpirun-rma", "srun-gather-KILL", "sbatch-rma-KILL"])
def test_scancel_in_a_flood(how, role, signal, stream):
    job = stream(how, role, OSC_OVER_WEIR if role == "rma" else ())
    assert {"node1", "node2"} <= left().keys(), "there is nothing that could be left behind"
    run("scancel", "--name=stream", *signal)
    code = end_of(job)
    assert "stream: ok" not in job.said(), job.said()
    if how == "sbatch":  # It ends with 0 if the script has no exit code yet (Slurm 22.05, sbatch.c).
        wait_for(lambda: is_cancelled(job), "the end as a cancelled job", job.said)
    else:  # Open MPI 5.0's mpirun ends with 0 when it has lost the daemon of another node.
        assert code != 0 or how == "mpirun" and own_version() >= 5, job.said()
    if how == "mpirun":  # whose own children are not Slurm's: they outlive its Epilog, and the next one comes after them
        run("srun", "-N", "2", "true")
    nothing_is_left()


@of_another_boot
def test_a_node_fails_under_a_job(stream):
    """Slurm ends the job, on that node as well."""
    job = stream("srun", "gather")
    update(2, "State=DOWN", "Reason=test")
    assert end_of(job) != 0, job.said()
    nothing_is_left()


# ---- weir's examples ---------------------------------------------------------------------------------

def test_a_node_without_its_port_is_drained(slurm, example):
    """By HealthCheckProgram, with weir's line as the reason; and resumed when it is well again."""
    epilog = f"Epilog={example}/epilog"
    configure(epilog, f"HealthCheckProgram={example}/health-check", "HealthCheckInterval=5", "HealthCheckNodeState=ANY")
    try:
        on_node(2, "lab-wire --local down")
        wait_for(lambda: re.match(r"drained weir: fail +port: rxe0", state_of(2)), "weir's reason", lambda: state_of(2))
        on_node(2, "lab-wire --local up")
        wait_for(lambda: state_of(2).startswith("idle"), "a node that is well again", lambda: state_of(2))
        assert state_of(1).startswith("idle"), state_of(1)
    finally:
        on_node(2, "lab-wire --local up")
        configure(epilog)


def test_the_epilog_drains_a_node_without_its_port(slurm):
    """The next job does not come there."""
    on_node(2, "lab-wire --local down")
    try:
        run("srun", "-N", "2", "true")
        wait_for(lambda: re.match(r"drained weir: fail +port: rxe0", state_of(2)), "weir's reason", lambda: state_of(2))
        wait_for(lambda: state_of(1).startswith("idle"), "the well node's epilog", lambda: state_of(1))
    finally:
        on_node(2, "lab-wire --local up")


def test_a_job_on_both_nodes_is_watched_and_steered(stream, build):
    """By what srun starts beside it, in its allocation."""
    job = stream("srun", "traffic")
    number = run("squeue", "--noheader", "-o", "%A").stdout.strip()
    hosts = ["--hosts", "node1,node2", "--launcher", f"srun --jobid={number}"]

    def seen(*more):
        return json.loads(run(f"{build}/bin/weir", "top", "--once", "--json", *hosts, *more).stdout)["ports"]

    def caps():
        return {p["rank"]: p["caps"]["rate_max"] for port in seen() for p in port["processes"]}

    ports = seen("--peers")
    assert {port["host"] for port in ports} == {"node1", "node2"}
    ranks = sorted({p["rank"] for port in ports for p in port["processes"]})
    assert ranks == list(range(NP)) and {p["slurm_job"] for port in ports for p in port["processes"]} == {number}
    done = run(f"{build}/bin/weir", "set", *hosts, "--slurm-job", number, "rate_max=20MiB").stdout
    says(done, r"processes on 2 hosts$", "^  rate_max from auto to 20MiB$", r"^  node1: (\d+) of \1 answered",
         r"^  node2: (\d+) of \1 answered")
    assert caps() == {rank: 20 << 20 for rank in range(NP)}
    run("scancel", "--name=stream", "--signal=USR2")
    assert end_of(job) == 0 and "stream: ok" in job.said(), job.said()
    nothing_is_left()


def test_the_doctor_goes_to_the_nodes_of_an_allocation_by_srun(slurm, build, monkeypatch):
    monkeypatch.setenv("OMPI_MCA_plm_rsh_agent", "false")
    doctor = f'{build}/bin/weir doctor --json --all-pairs --device rxe0 --hosts "$SLURM_JOB_NODELIST"'
    pair, = json.loads(run("salloc", "-N", "2", "sh", "-c", doctor, status=None).stdout)["pairs"]
    assert {pair["from"], pair["to"]} == {"node1", "node2"}
    assert not [check for check in pair["checks"] if check["status"] == "fail"]
    nothing_is_left()
