"""Jobs that the cases of test_programs.py share."""

import os

import pytest

from harness import leftovers
from mpi.jobs import Job, wish_of
from mpi.ruled_out import ruled_out

TAIL_LINES = 25


def can_share(item, other):
    """Both are cases of one function that want the same of mpirun."""
    if item.originalname != other.originalname:
        return False
    mine, its = item.callspec.params["case"], other.callspec.params["case"]
    return not mine.alone and not its.alone and wish_of(mine) == wish_of(its)


class Jobs:
    """One at a time. A case is run in the job that is under way, or in a new one with those behind it."""

    def __init__(self, config):
        self.programs, self.mca = os.path.join(config.option.build, "mpi"), config.option.mca
        self.job, self.item = None, None  # the mpirun and the test that are under way

    def check(self, case):
        """Runs an MPI program, and fails with the reason."""
        why = ruled_out(case.name)
        if why:
            pytest.skip(why)
        if self.job is None or self.job.cases[self.job.ended] is not case:
            self.end()
            self.begin(self.item)
        reason, said = self.job.run_next()
        command = " ".join(self.job.command())
        if reason or self.job.ended == len(self.job.cases):
            self.end()
        if reason:
            lines = [line for line in said.splitlines() if not line.startswith(("counter ", "grown "))]
            plan = "" if case.alone else f"PLAN: {' '.join(map(str, [0, case.np, case.program, *case.args]))}\n"
            pytest.fail("\n".join([reason, command, plan, *lines[-TAIL_LINES:]]), pytrace=False)

    def begin(self, item):
        items = item.session.items
        together = []
        for other in items[items.index(item):]:
            if other is not item and not can_share(item, other):
                break
            if ruled_out(other.callspec.params["case"].name) is None:
                together.append(other.callspec.params["case"])
        self.job = Job(together, self.programs, self.mca)
        lacks = self.job.missing()
        if lacks:
            self.job = None
            pytest.fail(lacks, pytrace=False)
        leftovers.keep(self)
        self.job.start()

    def end(self):
        if self.job is not None:
            self.job.clear_away()
            self.job = None
        leftovers.keep(None)


@pytest.fixture(scope="session")
def running_jobs(request):
    jobs = Jobs(request.config)
    yield jobs
    jobs.end()


@pytest.fixture
def jobs(request, running_jobs):
    running_jobs.item = request.node
    return running_jobs
