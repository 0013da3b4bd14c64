"""A copy of the sources in which one thing at a time is wrong, and what is built and run of it.

The copy and its builds are in build-mutants/ of the checkout, and are used again. What changes there
gets a new time, so that ninja builds just what it touches; what it was before comes from ccache.
"""

import contextlib
import fcntl
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess

LAB_BROKE = 125  # exit code of the lab when it was the guest's kernel that broke
END_S = 15       # for a test that hangs to end when it is asked to
HANGS_AFTER = 3  # times the processor time that a test takes unmutated; seconds of a clock say what else runs here
LEAST_CPU_S = 10
OUT_OF_CPU = (-signal.SIGXCPU, 128 + signal.SIGXCPU)  # exit codes, of a program and of a shell about it


# How runners name a case that failed, and one that was under way when its program ended.
FAILED_CASE = re.compile(r"^\[  FAILED  \] ([\w/]+\.[\w./]+)|^FAILED (.+?)(?: - .*)?$", re.M)
BEGUN_CASE = re.compile(r"^\[ RUN      \] ([\w./]+)", re.M)
ENDED_CASE = re.compile(r"^\[       OK \] ([\w./]+)", re.M)


class Broken(Exception):
    """The workshop, not a mutant."""


class Workshop:
    def __init__(self, root, place, trees, lab_lock=None):
        self.root, self.place, self.trees = root, place, trees
        self.source, self.logs = os.path.join(place, "source"), os.path.join(place, "logs")
        self.lab_lock = lab_lock
        os.makedirs(self.logs, exist_ok=True)
        self.lock = open(os.path.join(place, "lock"), "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Broken(f"{place} is in use") from None

    def take_sources(self):
        """Makes the copy like the checkout."""
        listed = subprocess.run(
            ["git", "-C", self.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, check=True).stdout.decode().split("\0")
        wanted = {path for path in listed if path and os.path.isfile(os.path.join(self.root, path))}
        for path in sorted(wanted):
            with open(os.path.join(self.root, path), "rb") as file:
                data = file.read()
            copy = os.path.join(self.source, path)
            if os.path.lexists(copy):
                with open(copy, "rb") as file:
                    if file.read() == data:
                        continue
                with open(copy, "wb") as file:
                    file.write(data)
                shutil.copymode(os.path.join(self.root, path), copy)
            else:
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                shutil.copy2(os.path.join(self.root, path), copy)
        for directory, _, names in os.walk(self.source):
            for name in names:
                path = os.path.relpath(os.path.join(directory, name), self.source)
                if path not in wanted and "__pycache__" not in path:
                    os.remove(os.path.join(directory, name))

    @contextlib.contextmanager
    def changed(self, path, text):
        """While in here, the file of the copy has this text."""
        file_name = os.path.join(self.source, path)
        with open(file_name, encoding="utf-8") as file:
            before = file.read()
        try:
            _write(file_name, text)
            yield
        finally:
            _write(file_name, before)

    def build(self, tests, log_name):
        """Builds what the tests need. True, or False if that fails, and the log says why."""
        by_tree = {}
        for test in tests:
            by_tree.setdefault(test.tree, {}).update(dict.fromkeys(test.targets))
        for tree, targets in by_tree.items():
            directory = self.tree(tree)
            if not os.path.exists(os.path.join(directory, "build.ninja")):
                self._configure(tree, directory)
            command = ["cmake", "--build", directory, "--target", *targets]
            with open(self.log(log_name), "wb") as log:
                if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=subprocess.STDOUT, check=False).returncode != 0:
                    return False
        return True

    def _configure(self, tree, directory):
        command = ["cmake", "-S", self.source, "-B", directory, "-G", "Ninja", *self.trees[tree]]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            shutil.rmtree(directory, ignore_errors=True)
            raise Broken(f"{shlex.join(command)}: {done.stderr}")

    def run(self, test, log_name, unmutated_cpu_s=None):
        """("passed" | "failed" | "hangs", seconds of processors); it hangs by what it takes unmutated."""
        cpu_s = resource.RLIM_INFINITY
        if unmutated_cpu_s is not None and not test.lab:
            cpu_s = LEAST_CPU_S + round(HANGS_AFTER * unmutated_cpu_s)
        command = test.command.format(build=self.tree(test.tree), source=self.source,
                                      pytest=f"pytest-3 -q -rf --build {self.tree(test.tree)}",
                                      tests=os.path.join(self.source, "tests"))
        for _ in range(3 if test.lab else 1):
            with self._lab() if test.lab else contextlib.nullcontext():
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                limit = test.limit * max(1, os.getloadavg()[0] / os.cpu_count())
                code = self._run(command, limit, cpu_s, self.log(log_name))
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if code is None or code in OUT_OF_CPU:
                return "hangs", seconds
            if not test.lab or code != LAB_BROKE:
                return "passed" if code == 0 else "failed", seconds
        raise Broken(f"{test.key}: the lab broke three times: {self.log(log_name)}")

    def _run(self, command, limit, cpu_s, log_name):
        """Its exit code; None if it had to be ended."""
        with open(log_name, "wb") as log:
            log.write(f"+ {command}\n".encode())
            log.flush()
            process = subprocess.Popen(["sh", "-c", command], cwd=self.source,
                                       stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, start_new_session=True,
                                       env={**os.environ, "GTEST_FAIL_FAST": "1"},  # one failure will do
                                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.RLIM_INFINITY)))
            try:
                return process.wait(limit)
            except subprocess.TimeoutExpired:
                return None
            finally:
                for number in (signal.SIGTERM, signal.SIGKILL):
                    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                        os.killpg(process.pid, number)
                        process.wait(END_S)

    @contextlib.contextmanager
    def _lab(self):
        if self.lab_lock is None:
            yield
            return
        with open(self.lab_lock, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def failed_cases(self, log_name):
        """Of the test that wrote this log, by name, as far as it says."""
        with open(self.log(log_name), errors="replace") as file:
            text = file.read()
        named = [a or b for a, b in FAILED_CASE.findall(text)]
        if not named:  # its program ended with it
            named = [case for case in BEGUN_CASE.findall(text)[-1:]
                     if case not in ENDED_CASE.findall(text)]
        return list(dict.fromkeys(named))

    def tree(self, name):
        return os.path.join(self.place, name)

    def log(self, name):
        return os.path.join(self.logs, name + ".log")


def _write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
