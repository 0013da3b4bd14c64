#!/usr/bin/env python3
"""In the guest: one pytest for each identity that the tests of this boot want.

    inside.py PLAN

PLAN is a JSON file: `groups`, a list of {user, memlock, tests}, and `arguments` for each pytest. Events go to
descriptor 3, a copy of standard output.
"""

import json
import os
import resource
import subprocess
import sys

NOBODY = 65534


def map_alike():
    """QEMU without KVM translates code once for each address that it is mapped at: with the same ones in all
    processes, jobs take two thirds of the time. On another node of the lab addresses go on differing, so a
    mistaken one is noticed there."""
    with open("/proc/cpuinfo") as file:
        if "QEMU TCG" in file.read():
            with open("/proc/sys/kernel/randomize_va_space", "w") as setting:
                setting.write("0")


def take_on(group):
    """In the child: the limit first, for root alone may raise it."""
    def prepare():
        if group["memlock"] is not None:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (group["memlock"],) * 2)
        if group["user"] is not None:
            os.setgroups([])
            os.setresgid(*[group["user"][1]] * 3)
            os.setresuid(*[group["user"][0]] * 3)
    return prepare


def environment_of(group):
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    if group["user"] is not None:
        home = "/tmp/home"
        os.makedirs(home, exist_ok=True)
        os.chown(home, *group["user"])
        environment.update(HOME=home, USER="user")
    return environment


def main():
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    os.dup2(1, 3)
    if "--host" not in plan["arguments"]:
        map_alike()
    for number, group in enumerate(plan["groups"]):
        files = list(dict.fromkeys(test.split("::")[0] for test in group["tests"]))
        # The files first: pytest looks beside what it takes for the first one for conftest.py.
        code = subprocess.run([sys.executable, "-m", "pytest", "-q", *files, "--inside", sys.argv[1],
                               "--group", str(number), *plan["arguments"]],
                              stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, pass_fds=[3],
                              preexec_fn=take_on(group), env=environment_of(group),
                              cwd=plan["tests"], check=False).returncode
        if code not in (0, 1):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
