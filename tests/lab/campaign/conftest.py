"""The fabric that a test breaks, and the jobs under which it does."""

import contextlib
import os
import signal
import time

import pytest

from lab.campaign.fabric import Fabric
from lab.campaign.job import (END_S, LATEST, LOST, PATIENCE, PATIENCE_S, PORT_DOWN, SHOWN_LINES, SLACK_S, Job)

JOBS = pytest.StashKey()


@pytest.fixture
def fabric(request):
    """Of the kind of lab that `on` has named. It is whole again after the test."""
    fabric = Fabric(request.param)
    yield fabric
    fabric.mend()


@pytest.fixture
def start(request, fabric, build):
    """start(program, np, args, ...) starts a job (see Job)."""
    jobs = request.node.stash[JOBS] = []

    def start(*args, mca=(), **options):
        jobs.append(Job(fabric, build, *args, mca=[*request.config.option.mca, *mca], **options))
        return jobs[-1]
    yield start
    for job in jobs:
        job.clear_away()


@pytest.fixture
def stream(start):
    """Traffic under way, until it is told to end."""
    def stream(args, np=4, **options):
        job = start("stream", np, [*args, "--seconds", 2 * END_S], timeout=3 * END_S, **options)
        job.wait_ready()
        time.sleep(1)
        return job
    return stream


@pytest.fixture
def every_rank_says_so(fabric, start, measured):
    """Who is cut off for ever names whom, whatever it does: in traffic, waiting, or computing."""
    def every_rank_says_so(verb, *where, patience_s=PATIENCE_S, latest=LATEST, mca=(PATIENCE,)):
        computes_s = patience_s + 2  # so it is at it when the others have noticed
        job = start("stream", 6, ["--roles", "traffic,receive,compute", "--seconds", computes_s], mca=mca)
        job.wait_ready()
        time.sleep(1)
        # The runtime must not tell or kill anybody: each rank has to notice by itself.
        os.kill(job.process.pid, signal.SIGSTOP)
        with fabric.blackout(*where) if verb == "blackout" else contextlib.nullcontext():
            cut = time.monotonic() if verb == "blackout" else fabric.wire(verb)
            times = [job.wait_said(rank, LOST, cut + latest * patience_s + SLACK_S - time.monotonic())
                     for rank in range(5)]
            back = job.wait_said(5, "has computed", END_S)
            told = job.wait_said(5, LOST, SLACK_S)
        if verb == "down":
            job.wait_said(0, PORT_DOWN, SLACK_S)
        measured(f"peer_timeout {patience_s} s: named after " + ", ".join(f"{at - cut:.1f}" for at in times) +
                 " s (two in traffic, two waiting, one waiting for who computes); by the computing one "
                 f"{told - back:.1f} s after it came back")
        os.kill(job.process.pid, signal.SIGCONT)
        job.check_lost(port_down=verb == "down")
    return every_rank_says_so


@pytest.fixture
def measured(record_property):
    """How long something took, for who wants to know (-rP)."""
    def measured(text):
        record_property("measured", text)
        print(f"measured: {text}")
    return measured


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """A test that failed shows what its last job said last."""
    report = (yield).get_result()
    if report.when == "call" and report.failed:
        for job in item.stash.get(JOBS, [])[-1:]:
            report.sections.append(("the job said last", "\n".join(job.output().splitlines()[-SHOWN_LINES:])))
