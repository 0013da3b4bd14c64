"""What all tests share: options, which of them run, and where (harness/boots.py)."""

import json
import os

import pytest

from harness import boots, events, leftovers, strict
from harness.chosen import Chosen, turn
from harness.kinds import ROOT
from harness.shares import SHARES

BUILD = os.path.join(ROOT, "build")


def pytest_addoption(parser):
    group = parser.getgroup("weir")
    group.addoption("--build", default=BUILD, metavar="DIR",
                    help="where weir is built (default: build/)")
    group.addoption("--long", action="store_true", help="all long tests, not only one share of them")
    group.addoption("--share", type=int, metavar="N", help=f"which of {SHARES} shares of the long tests "
                    "(default: by the number of commits)")
    group.addoption("--host", action="store_true",
                    help="use this machine's RDMA device instead of a lab; what needs another fabric is left out")
    group.addoption("--lab", metavar="KIND", help="tests of this kind of lab alone")
    group.addoption("--open-mpi-5", action="store_true",
                    help="boot Debian 13, and weir built for its Open MPI 5.0, for all tests in labs of tests/mpi and "
                    "tests/lab")
    group.addoption("--release", metavar="SUITE", help="for --open-mpi-5, another release of Debian (forky)")
    group.addoption("--mca", nargs=2, action="append", default=[], metavar=("KEY", "VALUE"),
                    help="a parameter for the MPI jobs (tests/mpi)")
    group.addoption("--inside", metavar="PLAN", help="(of harness/inside.py)")
    group.addoption("--group", type=int, help="(of harness/inside.py)")


def pytest_configure(config):
    option = config.option
    option.build = os.path.abspath(option.build)
    strict.library = os.path.join(option.build, "mpi", "strict.so")
    option.for_guests = [word for word, wanted in (("--long", option.long), ("--host", option.host)) if wanted]
    for pair in option.mca:
        option.for_guests += ["--mca", *pair]
    if option.inside:
        config.pluginmanager.register(Teller(config), "teller")


def pytest_report_header(config):
    option = config.option
    if option.inside or option.long:
        return None
    return f"long tests: share {turn(option) % SHARES} of {SHARES} (--share N another one, --long all)"


@pytest.hookimpl(hookwrapper=True)
def pytest_collection_modifyitems(config, items):
    run = Chosen(items, config.option)
    yield  # to what takes away others: -k, -m
    if config.option.inside:
        with open(config.option.inside) as file:
            wanted = json.load(file)["groups"][config.option.group]["tests"]
        by_id = {item.nodeid: item for item in items}
        items[:] = [by_id[name] for name in wanted]
        return
    kept = [item for item in items if run.has(item)]
    if config.option.open_mpi_5:
        kept = [boots.twin_of(item) or item for item in kept]
    elif not config.option.host and config.option.build == BUILD:  # twins have a build of their own
        kept += run.twins(items)
    if config.option.lab:
        kept = [item for item in kept if boots.kind_of(item) and boots.kind_of(item).name == config.option.lab]
    if config.option.host:
        kept = [item for item in kept if not boots.kind_of(item) or boots.kind_of(item).any_device]
    of_kept = {boots.original(item) for item in kept}
    config.hook.pytest_deselected(items=[item for item in items if item not in of_kept])
    items[:] = boots.in_order(kept)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """As pytest's own, but for tests that want a lab."""
    if session.config.option.inside or session.config.option.collectonly:
        return None
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        return None
    in_lab = [item for item in getattr(session, "items", ()) if boots.kind_of(item)]
    if not in_lab:
        return None  # to pytest's own, or pytest-xdist's, whose first process has no items
    here = [item for item in session.items if not boots.kind_of(item)]
    for item, following in zip(here, here[1:] + [None]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    boots.run(in_lab, session)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    return True


class Teller:
    """In the guest: what came of each test, to the host."""

    def __init__(self, config):
        self.config = config
        self.out = os.fdopen(3, "w", buffering=1)

    def tell(self, **event):
        self.out.write(events.encode(**event))
        self.out.flush()

    def pytest_runtest_logstart(self, nodeid):
        self.tell(what="start", test=nodeid)

    def pytest_runtest_logreport(self, report):
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.tell(what="report", test=report.nodeid, report=data)

    def pytest_runtest_logfinish(self, nodeid):
        self.tell(what="end", test=nodeid)


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    """In a lab, whatever a test left there is gone before the next one."""
    if not request.config.option.inside or request.config.option.host:
        yield
        return
    before = leftovers.processes()
    yield
    leftovers.sweep(before)


# ---- what tests of jobs and commands ask for ---------------------------------------------------------

@pytest.fixture(scope="session")
def build(request):
    """Where weir is built."""
    return request.config.option.build


@pytest.fixture(scope="session")
def root():
    """Of the source."""
    return ROOT
