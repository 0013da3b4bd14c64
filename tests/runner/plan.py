"""The steps of a check, in the order in which they run: what each is called, where it runs, what it needs.

Neighbours that want the same lab share a boot (boot.py). What a case of a step proves, and how long it
may take, is the business of the step's own runner.
"""

import dataclasses
import fnmatch
import json
import os
import shlex
import subprocess

import boot

ROOT = boot.ROOT
STAGES = ["host", "sanitize", "fabric", "nodes", "faults", "openmpi5", "lab"]
WITH_VMS_OF_THEIR_OWN = ["openmpi5", "lab"]


@dataclasses.dataclass
class Step:
    name: str
    stage: str
    command: list
    lab: list = None          # options of the lab that it runs in; None: on this machine
    any_device: bool = False  # the host's RDMA device will do for the lab
    limit_s: float = 3600     # for what hangs
    needs: tuple = ("build build",)
    environment: dict = dataclasses.field(default_factory=dict)
    programs: str = ""        # what ctest's programs said is there
    kernel_may_break: bool = False  # not by weir's doing: then it is run again
    breaks_boot: bool = False  # nothing can be run behind it in the same boot
    builds: bool = False      # says nothing unless it fails, and has no tests to count
    vital: bool = False       # nothing goes on without it

    def again(self):
        """What to type to run it alone."""
        words = self.command
        if self.lab is not None:
            words = ["tools/lab/lab", "--timeout", f"{self.limit_s:g}", *self.lab, "--", *words]
        settings = "".join(f"{name}={value} " for name, value in self.environment.items())
        return settings + shlex.join(words)


def build(directory, *arguments, targets=(), stage, vital=False):
    script = (f"cmake -S . -B {directory} -G Ninja {shlex.join(arguments)} && "
              f"cmake --build {directory}" + (f" --target {' '.join(targets)}" if targets else ""))
    return Step(f"build {directory}", stage, ["sh", "-c", script], builds=True, vital=vital, needs=())


def ctest(directory, *arguments):
    return ["ctest", "--test-dir", directory, "--output-on-failure", "-j2", "--timeout", "1500",
            "--test-output-size-passed", "100000000", *arguments]


def labs_of(script, long):
    """The labs that its cases want, each as options."""
    done = subprocess.run([os.path.join(ROOT, script), "--labs", *(["--long"] if long else [])],
                          stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def in_each_lab(name, script, long):
    """A step for each lab that the cases of a script want."""
    for wanted in labs_of(script, long):
        called = name + (f": {wanted['name']}" if wanted["name"] else "")
        yield Step(called, "faults",
                   ["python3", "-B", script, "--inside", wanted["name"], *(["--long"] if long else [])],
                   lab=wanted["options"], limit_s=wanted["limit_s"],
                   kernel_may_break=wanted["kernel_may_break"], breaks_boot=wanted["breaks_boot"])


def lab_has_changed():
    """Since the commit before this one, or it cannot be told. Its selftest is for those who change it."""
    same = ["git", "diff", "--quiet", "HEAD~1", "--", "tools/lab"]
    try:
        return subprocess.run(same, cwd=ROOT, stderr=subprocess.DEVNULL, check=False).returncode != 0
    except OSError:
        return True


UNITY = "-DCMAKE_UNITY_BUILD=ON"  # several files of tests as one: half the time

# What takes a sanitizer minutes: models of whole fabrics, a world that ends at each of many steps.
MODELS = ["unit_network", "unit_figures"]
CHEAP_CHECKS = ["binary", "timeout", "kernel-warning"]  # of the lab: streams, limits, complaints
SUITE = ["python3", "-B", "tests/mpi/suite", "--bin", "build/mpi"]


def host_steps(long):
    yield Step("host tests", "host", ctest("build"), programs=programs_of("build"),
               environment={"WEIR_SEEDS": "10000" if long else "4000"})


def sanitizer_steps(long):
    models = MODELS if long else []
    yield build("build-asan", "-DWEIR_SANITIZE=address,undefined", "-DCMAKE_BUILD_TYPE=Debug",
                UNITY, targets=["all", *models], stage="sanitize")
    # GCC 13 and later look for that unasked, and the models take more than ten times as long.
    but = {"ASAN_OPTIONS": "detect_stack_use_after_return=0",
           **({} if long else {"GTEST_FILTER": "-*Death.AtEveryStep/4"})}
    yield Step("address and undefined-behaviour sanitizers", "sanitize",
               ctest("build-asan", *([] if long else ["-E", "^(" + "|".join(MODELS) + ")$"])),
               needs=("build build-asan",), programs=programs_of("build-asan"), environment=but)
    # Of the others nothing has threads.
    yield build("build-tsan", "-DWEIR_SANITIZE=thread", "-DCMAKE_BUILD_TYPE=Debug",
                targets=["unit_flowctl_processes", "rxe_contract_test", *models], stage="sanitize")
    yield Step("thread sanitizer: processes of a node", "sanitize",
               ["build-tsan/bin/unit_flowctl_processes"], needs=("build build-tsan",))
    if long:
        yield Step("thread sanitizer: figures played by several threads", "sanitize",
                   ["build-tsan/bin/unit_figures"], needs=("build build-tsan",))
    yield Step("build build-fuzz", "sanitize", ["tests/fuzz/run", "--build-only"], builds=True, needs=())
    yield Step("fuzzing", "sanitize", ["tests/fuzz/run", "--seed", "1", "--seconds", "20"],
               needs=("build build-fuzz",))
    for name, directory in ("address", "build-asan"), ("thread", "build-tsan"):
        yield Step(f"the contract on real queue pairs, {name} sanitizer", "sanitize",
                   [f"{directory}/bin/rxe_contract_test"], lab=[], any_device=True, limit_s=600,
                   needs=(f"build {directory}",))


def fabric_steps(long):
    def fabric(name, command, *lab, limit_s=600):
        return Step(name, "fabric", command, lab=[*lab], any_device=True, limit_s=limit_s)
    more = ["--long"] if long else []
    yield fabric("contract on real queue pairs", ["build/bin/rxe_contract_test"])
    yield fabric("registration on real pages", ["build/bin/registration_contract_test"])
    yield fabric("registration with little locked memory", ["build/bin/registration_contract_test"],
                 "--user", "--memlock", "16777216")
    yield fabric("rdma on real queue pairs", ["build/bin/rxe_rdma_test"])
    yield fabric("mpi programs", [*SUITE, *more], limit_s=7200)
    yield Step("packages made", "fabric", ["tests/lab/packages", "make"])
    yield Step("packages installed", "fabric", ["tests/lab/packages", "try"], lab=[], limit_s=600,
               needs=("build build", "packages made"))
    if long:
        yield Step("packages of Debian 13", "fabric", ["tests/lab/packages", "debian13"], limit_s=3600)
    yield Step("packages: the lab alone", "fabric", ["tests/lab/example", *(["--fresh"] if long else [])],
               limit_s=3600, needs=("build build", "packages made"))
    yield fabric("commands of the READMEs",
                 ["python3", "-B", "tests/tools/readme_test", "--source", ".", "--build", "build", "--lab"])
    yield fabric("what a node shares", ["python3", "-B", "tests/mpi/sharing", *more], limit_s=2400)


def node_steps(long):
    hosts = shlex.join([*SUITE, "--set", "nodes", *(["--long"] if long else [])])
    yield Step("mpi programs on two nodes", "nodes", ["sh", "-c", f'{hosts} --hostfile "$LAB_HOSTFILE"'],
               lab=["--nodes", "2"], limit_s=4800)


def faults_steps(long):
    yield Step("a peer dies and the runtime keeps quiet", "faults",
               [*SUITE, "--set", "silent", *(["--long"] if long else [])], lab=[], any_device=True,
               limit_s=1800)
    yield Step("mpi programs over two rails", "faults",
               [*SUITE, "--set", "rails", *(["--long"] if long else [])], lab=["--rails", "2"],
               limit_s=1800)
    yield Step("large messages over two paths", "faults", ["tests/lab/paths"],
               lab=["--wire", "--paths", "2", "--rate", "100mbit"], limit_s=900)
    for name, script in ("faults", "tests/lab/faults"), ("weir doctor", "tests/lab/doctor"), \
            ("other adapters", "tests/adapter/variants"), \
            ("the fabric and processes break", "tests/lab/campaign"):
        yield from in_each_lab(name, script, long)


def openmpi5_steps():
    """They build for themselves, in a root file system of Debian 13, and boot that."""
    yield Step("the plugin under Open MPI 5.0", "openmpi5", ["tests/lab/openmpi5", "plugin"],
               programs=programs_of("build-trixie"), needs=())
    yield Step("mpi programs under Open MPI 5.0", "openmpi5", ["tests/lab/openmpi5", "mpi"], needs=())


def lab_steps(long):
    checks = ["--long"] if long else [] if lab_has_changed() else CHEAP_CHECKS
    yield Step("lab", "lab", ["tools/lab/selftest", *checks], needs=())


def programs_of(directory):
    return os.path.join(ROOT, directory, "Testing", "Temporary", "LastTest.log")


def in_order(steps_of_labs):
    """Those that want the same lab one after the other, and last whoever leaves it broken."""
    by_boot = {}
    for step in steps_of_labs:
        by_boot.setdefault(tuple(boot.split(step.lab)[0]), []).append(step)
    return [step for group in by_boot.values() for step in sorted(group, key=lambda s: s.breaks_boot)]


def steps(stages, long, on_host, setup):
    """What the stages asked for need, in order: first what runs here, then what runs in the lab."""
    first = [Step("packages", "", ["tools/setup"], builds=True, needs=(), vital=True)] if setup else []
    first.append(build("build", UNITY, stage="", vital=True))
    every = [*host_steps(long), *sanitizer_steps(long), *fabric_steps(long), *node_steps(long),
             *faults_steps(long), *openmpi5_steps(), *lab_steps(long)]
    wanted = [step for step in every if step.stage in stages and
              not (on_host and step.stage in ("nodes", *WITH_VMS_OF_THEIR_OWN))]
    last = [step for step in wanted if step.stage in WITH_VMS_OF_THEIR_OWN]
    here = [step for step in wanted if step.lab is None and step not in last]
    labs = in_order([step for step in wanted if step.lab is not None])
    return first + here + labs + last


def only(pattern, every):
    """Those whose name matches, and what they need."""
    wanted = [step for step in every if fnmatch.fnmatch(step.name, pattern)]
    needed = {name for step in wanted for name in step.needs}
    return [step for step in every if step in wanted or (wanted and step.name in needed | {"packages"})]
