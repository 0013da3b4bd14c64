#!/usr/bin/env python3
"""tests/run: packages, builds, ctest, pytest, and their results in one line."""

import argparse
import glob
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

from shares import share_of_this_commit

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RESULTS = os.path.join(ROOT, "build", "results")
LOGS = os.path.join(ROOT, "build", "logs")

HELP = """\
Installs the packages, builds, and runs the tests: ctest those of C++, pytest those of jobs and
commands. Tests that need RDMA run on the host's device where there is one with an active port, else
in the Soft-RoCE micro-VM (tools/lab/lab). They never skip.
"""

EPILOG = """\
stages (default: all)
  host       what needs no RDMA; a minute or two
  sanitize   the unit tests under ASan+UBSan, and under TSan what has threads; MPI programs over
             the plugin under ASan+UBSan. The unit tests are in build-asan/bin then, and build/ has
             them where it is configured with -DWEIR_UNIT_TESTS=ON
  lab        what needs RDMA

What stands behind -- goes to pytest, and then nothing but pytest is run (see tests/README.md).
In build/results there are JUnit files; in build/logs what builds, ctest and each boot of the lab said.

examples
  tests/run                                   all
  tests/run --no-setup host
  tests/run --no-setup -- -k 'blackout'       what pytest finds by name
  tests/run --no-setup -- tests/mpi --long    one folder, with its long tests

Exit status: 0 when everything passed. The last line counts: N passed, N failed.
"""

UNITY = "-DCMAKE_UNITY_BUILD=ON"  # several files of tests as one: half the time
DEBUG = "-DCMAKE_BUILD_TYPE=Debug"
CMAKE = ["-G", "Ninja", "-S", "."]
THREADED = ["unit_flowctl_processes", "unit_flowctl_threads", "btl_overlap", "btl_test"]
# GCC 13 and later look for use after return unasked, and the models take more than ten times as long.
ASAN = {"ASAN_OPTIONS": "detect_stack_use_after_return=0:handle_sigill=1",
        "WEIR_SEEDS": "100"}  # five times as many are played without it


class Run:
    def __init__(self, options):
        self.options, self.passed, self.failed, self.times = options, 0, 0, []
        self.child = None
        os.makedirs(RESULTS, exist_ok=True)
        os.makedirs(LOGS, exist_ok=True)
        for old in glob.glob(os.path.join(RESULTS, "*.xml")):
            os.unlink(old)

    def command(self, name, words, environment=None, shown=False):
        """Runs it, told of by name. Its output goes to a log, and to a terminal where it has a line to
        rewrite. Returns its exit code."""
        begin = time.monotonic()
        print(f"== {name}", flush=True)
        path = os.path.join(LOGS, name.replace(" ", "-").replace("/", "-") + ".log")
        with open(path, "wb") as log:
            out = None if shown or sys.stdout.isatty() else log
            self.child = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
                                          stderr=None if out is None else subprocess.STDOUT,
                                          env={**os.environ, **(environment or {})})
            code = self.child.wait()
            self.child = None
        seconds = time.monotonic() - begin
        self.times.append((name, seconds))
        print(f"-- {name}: {'done' if code == 0 else 'failed'} ({seconds:.0f} s)", flush=True)
        if code != 0 and out is not None:
            with open(path, errors="replace") as log:
                print("".join(log.readlines()[-40:]), flush=True)
        return code

    def needed(self, name, *words):
        if self.command(name, words) != 0:
            self.failed += 1
            sys.exit(self.end())

    def build(self, directory, *arguments, targets=()):
        self.needed(f"configure {directory}", "cmake", *CMAKE, "-B", directory, *arguments)
        self.needed(f"build {directory}", "cmake", "--build", directory,
                    *(["--target", *targets] if targets else []))

    def ctest(self, directory, *arguments, environment=None):
        results = os.path.join(RESULTS, f"{directory}.xml")
        code = self.command(f"ctest {directory}", [
            "ctest", "--test-dir", directory, f"-j{os.cpu_count()}", "--timeout", "1500", "--progress",
            "--no-tests=error", "--test-output-truncation", "head", "--output-junit", results, *arguments], environment)
        self.count(code, results)

    def pytest(self, name, arguments):
        results = os.path.join(RESULTS, name.replace(" ", "-") + ".xml")
        code = self.command(name, [
            sys.executable, "-m", "pytest", "-v", "--durations=20", "-rs", "--junit-xml", results, *arguments],
            shown=True)
        self.count(0 if code in (0, 1) else code, results)

    def count(self, code, results):
        """A test that ctest skipped has failed: pytest's say why they are not possible here. Some are of several
        tests: a property of pytest's has their number, or GoogleTest has told it last."""
        failed = passed = 0
        if os.path.exists(results):
            for case in xml.parse(results).iter("testcase"):
                bad = case.find("failure") is not None or case.find("error") is not None
                left_out = case.find("skipped") is not None
                if bad or (left_out and case.get("status") == "notrun"):
                    failed += 1
                    print(f"   failed: {case.get('classname')} {case.get('name')}")
                    said = case.find("system-out")
                    if case.get("status") and said is not None:  # ctest's; pytest has shown its own
                        print("\n".join((said.text or "").splitlines()[-40:]))
                elif not left_out:
                    inner = case.find("properties/property[@name='tests']")
                    told = re.findall(r"^\[  PASSED  \] (\d+) test", case.findtext("system-out") or "", re.M)
                    passed += int(told[-1] if told else 1 if inner is None else inner.get("value"))
        if code != 0 and failed == 0:
            failed = 1
        print(f"   {passed} passed, {failed} failed", flush=True)
        self.passed, self.failed = self.passed + passed, self.failed + failed

    def run(self):
        options = self.options
        if options.pytest:
            self.pytest("pytest", options.pytest)
            return
        stages = options.stages
        # Unit tests run once, where the sanitizers see them.
        self.build("build", UNITY, f"-DWEIR_UNIT_TESTS={'OFF' if 'sanitize' in stages else 'ON'}")
        if "sanitize" in stages:
            self.build("build-asan", "-DWEIR_SANITIZE=address,undefined", DEBUG, UNITY)
            self.build("build-tsan", "-DWEIR_SANITIZE=thread", DEBUG, UNITY,
                       targets=[*THREADED, "rxe_contract_test"])
            self.needed("build build-fuzz", "tests/fuzz/run", "--build-only")
        if "host" in stages:
            self.ctest("build", environment=seeds(10000) if options.long else seeds(500, share_of_this_commit() % 2))
        if "sanitize" in stages:
            self.ctest("build-asan", environment=ASAN)
            self.ctest("build-tsan", "-R", f"^({'|'.join(THREADED)})$")
        arguments = ["tests", *(["--long"] if options.long else []), *(["--host"] if options.host else [])]
        # Beside a lab, which has all processors, nothing else runs.
        for where, marked, at_once, parts in (
                ("host", "not lab", os.cpu_count(), {"host": "not sanitize", "sanitize": "sanitize"}),
                ("lab", "lab", 0, {"sanitize": "sanitize", "lab": "not sanitize"})):
            if wanted := [part for stage, part in parts.items() if stage in stages]:
                self.pytest(f"pytest {where}", [*arguments, "-n", str(at_once), "--dist", "loadfile",
                                                "-m", f"{marked} and ({' or '.join(wanted)})"])

    def end(self):
        print()
        for name, seconds in self.times:
            print(f"{seconds:7.0f} s  {name}")
        print(f"\n{self.passed} passed, {self.failed} failed", flush=True)
        return 0 if self.passed and not self.failed else 1


def seeds(count, share=0):
    """Which random worlds are played: the other half of a thousand with the next commit."""
    return {"WEIR_SEEDS": str(count), "WEIR_FIRST_SEED": str(1 + share * count)}


def has_active_port():
    """As the lab's --host asks for."""
    for path in glob.glob("/sys/class/infiniband/*/ports/*/state"):
        with open(path) as file:
            if "ACTIVE" in file.read():
                return True
    return False


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tests/run", description=HELP, epilog=EPILOG, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help="see below")
    parser.add_argument("--long", action="store_true", help="all long tests; an hour more")
    parser.add_argument("--no-setup", action="store_true", help="install no packages")  # for tests/run
    parser.add_argument("--host", action="store_true",
                        help="use the host's RDMA device (the default where a port is active)")
    parser.add_argument("--vm", action="store_true", help="use the micro-VM even where the host has a device")
    for_pytest = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, for_pytest = arguments[:at], arguments[at + 1:]
    options = parser.parse_args(arguments)
    options.pytest = for_pytest
    unknown = set(options.stages) - {"host", "sanitize", "lab"}
    if unknown:
        parser.error(f"unknown stage '{min(unknown)}'")
    options.stages = options.stages or ["host", "sanitize", "lab"]
    options.host = not options.vm and (options.host or has_active_port())
    return options


def main():
    run = Run(parse(sys.argv[1:]))

    def stop(number, _):
        if run.child:
            run.child.terminate()
            run.child.wait(60)
        sys.exit(128 + number)
    for number in signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, stop)
    try:
        run.run()
    except KeyboardInterrupt:
        return 130
    return run.end()


if __name__ == "__main__":
    sys.exit(main())
