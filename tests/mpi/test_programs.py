"""MPI programs over weir, each of which checks every byte that it receives (README.md).

A case with one-sided operations, and one of an application, fails when weir's counters do not say that
it was carried by RDMA; any case fails when weir says that something leaked.
"""

import re

import pytest

from mpi import cases
from mpi.jobs import TOLD_EARLIER_S, wish_of
from mpi.judging import LIMIT_S


def name_for_k(case):
    """ring-np8: what -k takes."""
    return re.sub(r"[^\w./]+", "-", case.name.replace("=", ""))


def each(these):
    """A test for each case. Those that can share a job are neighbours. Where all of these are long, they
    are in one share: most of a short job is its start and its end."""
    by_job = {}
    for case in these:
        by_job.setdefault(case.name if case.alone else wish_of(case), []).append(case)

    def marks(case, of_job):
        # It comes to an end by itself before; the first one waits for the start as well.
        yield pytest.mark.timeout(case.timeout + 2 * LIMIT_S + 3 * TOLD_EARLIER_S)
        takes = {} if isinstance(case.long, bool) else {"seconds": case.long}
        if all(other.long for other in of_job):
            yield pytest.mark.long(together=of_job[0].name, **takes)
        elif case.long:
            yield pytest.mark.long(**takes)
    return pytest.mark.parametrize("case", [
        pytest.param(case, id=name_for_k(case), marks=list(marks(case, of_job)))
        for of_job in by_job.values() for case in of_job])


@pytest.mark.lab("loopback")
@each(cases.pt2pt())
def test_pt2pt(case, jobs):
    """Every program, few ranks."""
    jobs.check(case)


@pytest.mark.lab("loopback")
@each(cases.rma())
def test_rma(case, jobs):
    """One-sided operations, and large messages in memory that comes and goes."""
    jobs.check(case)


@pytest.mark.lab("loopback")
@each(cases.few_connections())
def test_few_connections(case, jobs):
    """More peers than a process keeps connections to."""
    jobs.check(case)


@pytest.mark.lab("loopback")
@each(cases.shared())
def test_shared(case, jobs):
    """Traffic for which there are few tokens of the node, and one read budget."""
    jobs.check(case)


@pytest.mark.lab("loopback")
@each(cases.proxy())
def test_proxy(case, jobs):
    """Small messages by way of servers of the node."""
    jobs.check(case)


@pytest.mark.lab("loopback")
@each(cases.overlap())
def test_overlap(case, jobs):
    """Large messages beside computation, and other programs with overlap on."""
    jobs.check(case)


@pytest.mark.lab("loopback")
@each(cases.killed())
def test_killed(case, jobs):
    """A rank dies: the job ends in time, nonzero, and leaves nothing behind."""
    jobs.check(case)


@pytest.mark.lab("loopback")
@each(cases.silent())
def test_silent(case, jobs):
    """The same while the runtime keeps quiet, so that only the transport can notice."""
    jobs.check(case)


@pytest.mark.lab("loopback")
@each(cases.app())
def test_applications(case, jobs):
    """Unmodified programs: hpcc, NetPIPE and tests of ScaLAPACK."""
    jobs.check(case)


@pytest.mark.lab("rails")
@each(cases.rails())
def test_rails(case, jobs):
    """Large messages over two rails, rxe0 and rxe1."""
    jobs.check(case)


@pytest.mark.lab("nodes")
@each(cases.node())
def test_nodes(case, jobs):
    """A shorter choice of all on two nodes."""
    jobs.check(case)


@pytest.mark.lab("Linux 6.12")
@each(cases.brief_of_4_1())
def test_brief_on_the_next_kernel(case, jobs):
    """One program of each kind."""
    jobs.check(case)


@pytest.mark.lab("ARM")
@each(cases.arm())
def test_on_arm(case, jobs):
    """Messages, one-sided operations, and what the processes of a node share."""
    jobs.check(case)


@pytest.mark.lab("Open MPI 5.0")
@each(cases.brief())
def test_brief(case, jobs):
    """One program of each kind; the last case has windows by messages."""
    jobs.check(case)


@pytest.mark.lab("Open MPI 5.0")
@each(cases.mpi_4())
def test_mpi_4(case, jobs):
    """What MPI-4 adds."""
    jobs.check(case)


@pytest.mark.lab("nodes of Open MPI 5.0")
@each(cases.mpi_4_on_nodes())
def test_mpi_4_on_nodes(case, jobs):
    """The same between two nodes with two rails."""
    jobs.check(case)
