"""Does the lab do what its --help says? Each check of tools/lab/selftest, which boots VMs of its own."""

import os
import re
import sys

import pytest

from harness.kinds import ROOT
from harness.programs import run

SELFTEST = os.path.join(ROOT, "tools", "lab", "selftest")
CHEAP = {"kernel-warning"}  # each run has it: tests in labs count on such complaints
# What other tests in labs notice as well, and MPI programs on two nodes.
NOTICED_ELSEWHERE = {"device", "no-device", "memlock", "latency", "wire-blackout", "wire-updown", "wire-loss", "nodes",
                     "nodes-latency", "slurm", "root"}


def checks():
    with open(SELFTEST) as file:
        names = re.findall(r"^run (\S+) ", file.read(), re.M)
    for name in names:
        when = [] if name in CHEAP else [pytest.mark.long] if name in NOTICED_ELSEWHERE else [
            pytest.mark.long(but_after_changes_in=["tools/lab/"])]
        yield pytest.param(name, marks=when)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("check", checks())
def test_lab(check):
    said = run(SELFTEST, check, limit_s=570).stdout
    assert re.search(rf"^{check}: ok \(", said, re.M), said


@pytest.mark.parametrize("build, words, told", [
    ("/nowhere", ["mpirun", "--mca", "btl", "weir,self", "./my_app"], True),
    ("/nowhere", ["sh", "-c", "mpirun --mca btl weir,self ./my_app"], True),
    ("/nowhere", ["mpirun", "--mca", "btl", "tcp,self", "./weirdo"], False),
    (None, ["mpirun", "--mca", "btl", "weir,self", "./my_app"], False)])
def test_weir_is_wanted_before_it_is_built(build, words, told, monkeypatch, request):
    monkeypatch.syspath_prepend(os.path.dirname(SELFTEST))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    from host import job, options
    options, command = options.parse(["--build", build or request.config.option.build, "--", *words])
    said = job.missing_plugin(options, command)
    assert said.startswith("weir is not built, there is no /nowhere/") if told else not said
