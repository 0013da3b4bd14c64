#!/usr/bin/env python3
"""Builds weir and runs its tests, on a machine that has nothing of it yet: tests/run.

plan.py says what the steps are. Here they are run one after the other, shown, counted and timed.
"""

import argparse
import itertools
import os
import resource
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True

import boot  # noqa: E402
import machine  # noqa: E402
import plan  # noqa: E402
import reading  # noqa: E402
import record  # noqa: E402
from screen import Screen, clock  # noqa: E402

HELP = """\
Sets up the packages, builds, and runs the tests. Tests that need RDMA run on the host's device
where there is one with an active port, else in the Soft-RoCE micro-VM (tools/lab/lab). They never
skip.
"""

EPILOG = """\
stages, in this order (default: all of them)
  host       unit and contract tests, plugin test, layer check, on this machine
  sanitize   unit and contract tests again under ASan+UBSan, and under TSan what has threads; the
             contract on real queue pairs under each; fuzzing from a fixed seed (tests/fuzz/run)
  fabric     the contract on real queue pairs, every MPI program, and what processes share, on one
             node
  nodes      MPI programs across two nodes (two micro-VMs; not with --host)
  faults     no device, too little locked memory, a peer without weir, a killed peer; weir doctor on
             healthy and broken machines; the fabric and processes break under jobs
  openmpi5   the plugin and a few MPI programs under Open MPI 5.0, in a root file system of Debian 13
             that is made when it is missing (not with --host)
  lab        the micro-VM itself (not with --host): a little of it, unless tools/lab is another than
             in the commit before this one

Steps of several stages that want the same lab share a boot of it. In the end there is a table of what
each step and the slowest cases took; build/last-run.json keeps it, and the next run says by it how
long it will take.

examples
  tests/run                  all stages
  tests/run host             a minute, no VM
  tests/run --no-setup fabric
  tests/run --only 'mpi programs'

Longer, by hand: tests/fuzz/run --seconds 3600,
build/bin/weir_explore --first 1000000 --seeds 100000, build/bin/weir sim reproduce.

Exit status: 0 when everything passed. The last line counts: N passed, N failed.
"""


def last_run_path(long):
    return os.path.join(plan.ROOT, "build", "last-run-long.json" if long else "last-run.json")


def name_of_boot(options):
    """Before the steps that share it, in the table."""
    return "boot " + (" ".join(options) or "the lab")


def cpu_of_children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Run:
    """The steps of one run; as boot.Boot's observer it follows those in the lab, too."""

    def __init__(self, steps, estimates, table):
        self.steps, self.estimates, self.table = steps, estimates, table
        self.groups = []  # steps that share a boot
        self.logs = os.path.join(plan.ROOT, "build", "logs")
        self.begin = time.monotonic()
        self.current, self.began_at, self.log, self.begun, self.retried = None, 0.0, None, set(), {}
        self.failed_builds, self.child, self.boot, self.boots = set(), None, None, 0
        self.last_row = None
        os.makedirs(self.logs, exist_ok=True)
        self.screen = Screen(self.status)

    # ---- how far ----

    def to_go_s(self):
        """Of the steps that somebody knows how long they take."""
        left = sum(self.estimates.of(step.name) or 0 for step in self.steps
                   if step.name not in self.begun)
        left += sum(self.estimates.of(name_of_boot(options)) or 0 for options, steps in self.groups
                    if not any(step.name in self.begun for step in steps))
        if self.current:
            expected = self.estimates.of(self.current.name) or 0
            left += max(0.0, expected - (time.monotonic() - self.began_at))
        return left

    def to_go(self):
        seconds = self.to_go_s()
        return f", about {clock(seconds)} to go" if seconds else ""

    def status(self):
        now = time.monotonic()
        text = f"[{len(self.begun)}/{len(self.steps)}] "
        if self.current:
            expected = self.estimates.of(self.current.name)
            about = f" of about {clock(expected)}" if expected else ""
            text += f"{self.current.name}: {clock(now - self.began_at)}{about}; "
        return text + f"all: {clock(now - self.begin)}{self.to_go()}"

    # ---- steps ----

    def began(self, step):
        self.began_at = time.monotonic()
        to_go = self.to_go()
        self.begun.add(step.name)
        expected = self.estimates.of(step.name)
        about = f", about {clock(expected)}" if expected else ""
        self.log = open(self.log_path(step), "w", encoding="utf-8", errors="replace")
        self.current = step
        self.screen.line()
        self.screen.line(f"== {step.name} (step {len(self.begun)} of {len(self.steps)}{about}; "
                         f"{clock(self.began_at - self.begin)} so far{to_go})")

    def log_path(self, step):
        return os.path.join(self.logs, "".join(c if c.isalnum() else "_" for c in step.name) + ".log")

    def said(self, step, line):
        if step is not None and self.log:
            self.log.write(line + "\n")
        if step is None or not step.builds:
            self.screen.line(line)

    def ended(self, step, outcome):
        """Twice for one step when something is found out after its end."""
        if self.current is not step:
            if step.name in self.begun and self.last_row and self.last_row.name == step.name:
                self.last_row.failed += 1
                self.screen.line(f"-- {step.name}: failed after its end: {outcome.reason}")
                return
            self.began(step)
        if outcome.reason:
            self.said(step, f"{step.name}: {outcome.reason}")
        self.log.close()
        with open(self.log_path(step), encoding="utf-8", errors="replace") as file:
            text = file.read()
        self.current = None
        if outcome.kernel and step.kernel_may_break and self.retried.get(step.name, 1) < boot.TRIES:
            self.retried[step.name] = self.retried.get(step.name, 1) + 1
            self.screen.line(f"-- {step.name}: the kernel broke; once more")
            return
        programs = ""
        if step.programs and os.path.exists(step.programs):
            with open(step.programs, encoding="utf-8", errors="replace") as file:
                programs = file.read()
        passed, failed = reading.count(outcome.status, text, programs)
        cases = reading.cases(text, programs)
        if step.builds:
            passed, failed, cases = 0, int(outcome.status != 0), []
        row = record.Row(step.name, step.stage, outcome.seconds, outcome.cpu_s, passed, failed,
                         cases)
        self.last_row = row
        self.table.add(row)
        if step.builds:
            if failed:
                for line in text.splitlines()[-40:]:
                    self.screen.line(line)
                self.failed_builds.add(step.name)
            self.screen.line(f"-- {step.name}: {'failed' if failed else 'done'} "
                             f"({outcome.seconds:.0f} s)")
        else:
            self.screen.line(f"-- {step.name}: {passed} passed, {failed} failed "
                             f"({outcome.seconds:.0f} s)")
        if failed:
            self.screen.line(f"   log: {os.path.relpath(self.log_path(step), plan.ROOT)}")
            self.screen.line(f"   again: {step.again()}")

    def booted(self, options, seconds):
        self.table.add(record.Row(name_of_boot(options), "", seconds))

    # ---- running them ----

    def run_here(self, step):
        self.began(step)
        cpu_s = cpu_of_children_s()
        command = step.command
        if step.lab is not None:
            command = [boot.LAB, "--host", "--quiet", "--timeout", f"{step.limit_s:g}", *step.lab, "--",
                       *command]
        expired = threading.Event()
        self.child = subprocess.Popen(command, cwd=plan.ROOT, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      start_new_session=True,
                                      env={**os.environ, **step.environment})

        def expire():
            expired.set()
            self.stop_child()
        timer = threading.Timer(step.limit_s, expire)
        timer.start()
        for line in boot.lines_of(self.child):
            self.said(step, line)
        status = self.child.wait()
        timer.cancel()
        self.child = None
        reason = f"no end within {step.limit_s:g} s" if expired.is_set() else ""
        self.ended(step, boot.Outcome(status if status >= 0 else 128 - status,
                                      time.monotonic() - self.began_at, reason,
                                      cpu_s=cpu_of_children_s() - cpu_s))

    def stop_child(self):
        child = self.child
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(child.pid, number)
                child.wait(20)
                return
            except (OSError, AttributeError):
                return
            except subprocess.TimeoutExpired:
                pass

    def run_in_boots(self, options, steps):
        while steps:
            self.boots += 1
            self.boot = boot.Boot(options, steps, os.path.join(self.logs, f"boot{self.boots}.console"),
                                  self)
            left = self.boot.run()
            tried = [step for step in steps if step not in left]
            # One whose kernel broke has no row yet.
            rows = {row.name for row in self.table.rows}
            steps = [step for step in tried if step.name not in rows] + left
        self.boot = None

    def could_be_built(self, step):
        missing = [name for name in step.needs if name in self.failed_builds]
        if missing:
            self.ended(step, boot.Outcome(1, 0.0, f"not run: {missing[0]} failed"))
        return not missing

    def run(self, on_host):
        def is_here(step):
            return step.lab is None or (on_host and step.any_device)
        units = []  # (None, [a step]), or (options of the lab, steps that share a boot)
        for here, steps in itertools.groupby(self.steps, is_here):
            units += [(None, [step]) for step in steps] if here else boot.boots_of(steps)
        self.groups = [unit for unit in units if unit[0] is not None]
        for options, steps in units:
            steps = [step for step in steps if self.could_be_built(step)]
            if options is not None:
                self.run_in_boots(options, steps)
                continue
            for step in steps:
                self.run_here(step)
                if step.vital and self.last_row.failed:
                    return

    def stop(self):
        if self.child:
            self.stop_child()
        if self.boot:
            self.boot.stop()


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tests/run", description=HELP, epilog=EPILOG,
                                     allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="see below")
    parser.add_argument("--long", action="store_true",
                        help="more of all: random worlds, other numbers of ranks, longer faults; an hour more")
    parser.add_argument("--no-setup", action="store_true", help="the packages are there")
    parser.add_argument("--host", action="store_true",
                        help="use the host's RDMA device (the default where a port is active)")
    parser.add_argument("--vm", action="store_true",
                        help="use the micro-VM even where the host has a device")
    parser.add_argument("--only", metavar="GLOB", default="*",
                        help="steps whose name matches, and what has to be built for them")
    parser.add_argument("--list", action="store_true", help="say the steps, and how long they take")
    options = parser.parse_args(arguments)
    unknown = [stage for stage in options.stages if stage not in plan.STAGES]
    if unknown:
        parser.error(f"unknown stage '{unknown[0]}'")
    options.stages = options.stages or plan.STAGES
    options.host = not options.vm and (options.host or machine.has_active_port())
    return options


def main():
    options = parse(sys.argv[1:])
    os.chdir(plan.ROOT)
    load = machine.load()
    speed_s = machine.speed_s()
    estimates = record.Estimates(last_run_path(options.long), speed_s)
    steps = plan.only(options.only, plan.steps(options.stages, options.long, options.host,
                                               not options.no_setup))
    if not steps:
        print(f"tests/run: no step's name matches '{options.only}' (see --list)", file=sys.stderr)
        return 2
    if options.list:
        for step in steps:
            expected = estimates.of(step.name)
            print(f"{'' if expected is None else clock(expected):>7}  {step.stage:8}  {step.name}")
        return 0
    table = record.Table(speed_s, load)
    run = Run(steps, estimates, table)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through the finally
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    try:
        run.run(options.host)
    except KeyboardInterrupt:
        run.screen.line("interrupted")
        return 130
    finally:
        run.stop()
        run.screen.end()
        total_s = time.monotonic() - run.begin
        load = machine.load()
        table.end(machine.speed_s(), load)
        print()
        for line in table.lines(estimates, total_s):
            print(line)
        table.save(last_run_path(options.long), total_s)
        sys.stdout.flush()
    passed = sum(row.passed for row in table.rows)
    failed = sum(row.failed for row in table.rows)
    print()
    if failed:
        print("failed: " + ", ".join(row.name for row in table.rows if row.failed))
        print(f"logs: {os.path.relpath(run.logs)}")
    print(f"{passed} passed, {failed} failed")
    return 0 if passed > 0 and failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
