"""A second Open MPI on this machine, beside the distribution's, and weir built for it.

It is built of Debian's source package, which takes ten to twenty minutes, and then kept in the cache.
OTHER_OPEN_MPI=PREFIX names one that is there already, configured --with-devel-headers.
"""

import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile

from harness import packages
from harness.rooted import ROOT, needed

# It brings its own PMIx, as many do on clusters, and little else: what a job of the test needs.
CONFIGURE = ["--with-devel-headers", "--with-pmix=internal", "--with-hwloc=external", "--with-libevent=external",
             "--disable-mpi-fortran", "--disable-oshmem", "--disable-io-romio", "--disable-man-pages",
             *(f"--without-{what}" for what in ("verbs", "ucx", "ofi", "psm", "psm2", "slurm", "cuda")),
             "--enable-mca-no-build=io,fcoll,fbtl,fs,sharedfp,common-ompio,vprotocol,topo-treematch,coll-han,"
             "coll-adapt,coll-hcoll,coll-tuned", "CFLAGS=-O1"]
BUILD = os.path.join(ROOT, "build-other-open-mpi")


def prefix():
    recipe = hashlib.sha256(" ".join(CONFIGURE).encode()).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("OTHER_OPEN_MPI") or os.path.join(cache, "weir", f"openmpi-{recipe}")


def of_the_build():
    """As it was configured, also where the environment is another one."""
    with open(os.path.join(BUILD, "CMakeCache.txt")) as file:
        return re.search(r"^WITH_OPENMPI:PATH=(.*)$", file.read(), re.M)[1]


def call(what, *command, **options):
    needed(what, subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, errors="replace", check=False, **options))


def make_open_mpi(directory):
    """Of the source package of this Debian release; the sources of apt here need not name any."""
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    with open(os.path.join(directory, "source.list"), "w") as file:
        file.write("deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
                   f"http://deb.debian.org/debian {suite} main\n")
    os.makedirs(os.path.join(directory, "lists/partial"))
    apt_get = ["apt-get", "-q", "-o", f"Dir::Etc::SourceList={directory}/source.list", "-o", "Dir::Etc::SourceParts=-",
               "-o", f"Dir::State::Lists={directory}/lists"]
    call("reading Debian's list of sources", *apt_get, "update")
    call("fetching the source of Open MPI", *apt_get, "source", "--download-only", "openmpi", cwd=directory)
    archive, = (name for name in os.listdir(directory) if ".orig.tar." in name)
    call("unpacking Open MPI", "tar", "-xf", archive, "--one-top-level=source", "--strip-components=1", cwd=directory)
    source = os.path.join(directory, "source")
    call("configuring Open MPI", "./configure", "CC=ccache gcc", "CXX=ccache g++", f"--prefix={prefix()}", *CONFIGURE,
         cwd=source)
    call("building Open MPI", "make", f"-j{os.cpu_count()}", cwd=source)
    call("installing Open MPI", "make", "install", cwd=source)


@functools.cache
def make():
    if not os.path.exists(os.path.join(prefix(), "bin/ompi_info")):
        directory = tempfile.mkdtemp(prefix="weir-openmpi-")
        try:
            make_open_mpi(directory)
        finally:
            shutil.rmtree(directory)
    call("configuring weir for the other Open MPI", "cmake", "--fresh", "--preset", "package", "-B", BUILD,
         f"-DWITH_OPENMPI={prefix()}", cwd=ROOT)
    call("building weir for the other Open MPI", "cmake", "--build", BUILD, "--target", "mca_btl_weir",
         "weir_tune_load", cwd=ROOT)


def ready(config):
    packages.make(config.option.build)
    make()
    return []
