"""Root file systems of Debian releases other than the host's, made once and kept in the cache.

    root-<suite>[-<arch>]-<hash of RECIPE>/     complete, and never written to again
    ccache-<suite>[-<arch>]/                    what its compiler has compiled

Made under a temporary name and renamed, while a lock of its own is held, for that takes minutes.
Whatever is mounted is in a namespace that ends with its process. No part of a root comes from
elsewhere than the mirror that apt uses here, and the keys are those of apt's archive.
"""

import contextlib
import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from . import apt, image
from .arch import HERE, emulate_programs
from .errors import SETUP, LabError

TOOLS = Path(__file__).resolve().parent.parent.parent

# What tools/setup installs inside: to build weir and its tests, and to be the lab's guest.
GROUPS = ("build", "unit", "package", "guest", "slurm")

# It lives in a cache, so nothing of it need survive a crash, and nobody reads manuals in it.
DPKG_SETTINGS = """\
force-unsafe-io
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/man/*
"""

# $1 the tree, $2 tools; the rest are the groups
FILL = """\
set -e
root=$1 tools=$2
shift 2
for f in /etc/hosts /etc/resolv.conf; do
	[ -e "$root$f" ] || : >"$root$f"
	mount --bind -o ro "$f" "$root$f"
done
mount -t proc proc "$root/proc"
mount --bind -o ro "$tools" "$root/mnt"
for group; do only="$only --only $group"; done
chroot "$root" sh /mnt/setup $only
chroot "$root" apt-get clean
rm -rf "$root"/var/lib/apt/lists/*
"""

# Of another machine: unpacked by our own dpkg, for emulated that takes an hour; what packages do then is emulated.
# $1 the tree, $2 a folder of archives, $3 the architecture
FILL_FOREIGN = """\
set -e
root=$1 archives=$2
rm "$root/proc" # debootstrap's link to ours
mkdir "$root/proc"
mount -t proc proc "$root/proc"
for f in /etc/hosts /etc/resolv.conf; do [ -e "$root$f" ] || : >"$root$f"; done
for f in passwd group; do cp "$root/usr/share/base-passwd/$f.master" "$root/etc/$f"; done
options=$(sed 's/^/--/' "$root/etc/dpkg/dpkg.cfg.d/lab")
dpkg --root="$root" --add-architecture "$3"
set -f # options has patterns
dpkg --root="$root" $options --force-depends --unpack --recursive "$archives"
set +f
rm -rf "$root/debootstrap" "$root"/var/cache/apt/archives/*.deb
export DEBIAN_FRONTEND=noninteractive
chroot "$root" dpkg --configure -a
"""

# $1 the tree, $2 a scratch directory, $3 ccache's, $4 the working directory; of a foreign root $5 its triplet and
# $6 ours, else both empty; the rest is the command
RUN = """\
set -e
tree=$1 top=$2 ccache=$3 here=$4 theirs=$5 ours=$6
shift 6
mount -t tmpfs -o mode=755 tmpfs "$top"
mkdir "$top/up" "$top/work" "$top/root"
# Beforehand, and a /tmp of its own: within the tree's own directories only root may make anything.
mkdir -p "$top/up/lab/ccache" "$top/up$here"
mount -t overlay -o "lowerdir=$tree,upperdir=$top/up,workdir=$top/work" overlay "$top/root"
for d in proc sys dev; do mount --rbind "/$d" "$top/root/$d"; done
mount -t tmpfs -o mode=1777 tmpfs "$top/root/tmp"
mkdir -p "$top/root$here"
mount --rbind "$ccache" "$top/root/lab/ccache"
if [ "$theirs" ]; then # our cross compiler is not emulated; ours are the program loader and libraries, too
	mkdir -p "$top/root/lab/cross/usr" "$top/root/lab/cross/bin"
	mount --rbind -o ro /usr "$top/root/lab/cross/usr"
	ln -s /lab/cross/usr/lib64 "$top/root/lib64"
	ln -s "/lab/cross/usr/lib/$ours" "$top/root/usr/lib/$ours"
	ln -s "/lab/cross/usr/$theirs" "$top/root/usr/$theirs"
	for name in gcc:cc gcc:gcc g++:c++ g++:g++; do
		ln -s "/lab/cross/usr/bin/$theirs-${name%:*}" "$top/root/lab/cross/bin/${name#*:}"
	done
fi
mount --rbind "$here" "$top/root$here"
exec chroot "$top/root" sh -c 'cd "$1" && shift && exec "$@"' sh "$here" "$@"
"""

WEEK = 7 * 86400
PROGRESS_SECONDS = 20


def name_of(suite, arch):
    return suite + (f"-{arch.name}" if arch.is_foreign else "")


def prepare(suite, say, arch=HERE) -> Path:
    """The root of a release, made now if missing."""
    cache = image.cache_dir()
    target = cache / f"root-{name_of(suite, arch)}-{_recipe(suite, arch)}"
    if not target.exists():
        if os.getuid() != 0:
            _make_as_root(cache, suite, arch, say)
        else:
            with _lock(cache, suite, say):
                if not target.exists():
                    _make(cache, suite, arch, target, say)
    with contextlib.suppress(OSError):          # another user's
        os.utime(target)
    return target


def run(suite, root, cmd, arch=HERE) -> int:
    """CMD inside, in this working directory, on a throw-away copy of all else."""
    emulate_programs(arch)
    ccache = image.cache_dir() / f"ccache-{name_of(suite, arch)}"
    ccache.mkdir(exist_ok=True)
    env = dict(os.environ, CCACHE_DIR="/lab/ccache", LC_ALL="C.UTF-8",
               PATH="/lab/cross/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    cross = (arch.triplet, HERE.triplet) if arch.is_foreign else ("", "")
    user = [] if os.getuid() == 0 else ["--map-root-user"]
    scratch = tempfile.mkdtemp(prefix="weir-root-")
    try:
        return subprocess.call(["unshare", "--mount", *user, "sh", "-c", RUN, "sh", str(root), scratch, str(ccache),
                                os.path.realpath(os.getcwd()), *cross, *cmd], env=env)
    except FileNotFoundError as e:
        raise LabError(f"{e.filename} is not installed (run {SETUP})") from e
    finally:
        os.rmdir(scratch)


def _wanted():
    """Lines of tools/setup: the group, and names of packages."""
    packages = subprocess.run([str(TOOLS / "setup"), "--list"], stdout=subprocess.PIPE, check=True).stdout
    names = [" ".join(words.split("#")[0].split()) for words in packages.decode().splitlines()]
    return [line for line in names if line.split(" ")[0] in GROUPS]


def _recipe(suite, arch):
    """Of all that decides what is in it."""
    fill = FILL_FOREIGN if arch.is_foreign else FILL
    return hashlib.sha256(repr((suite, _wanted(), DPKG_SETTINGS, fill)).encode()).hexdigest()[:12]


@contextlib.contextmanager
def _lock(cache, suite, say):
    with open(cache / "roots.lock", "w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say(f"waiting for another run that makes a root (of {suite}, perhaps)")
            fcntl.flock(f, fcntl.LOCK_EX)
        yield


# -- making one --------------------------------------------------------------

def _make_as_root(cache, suite, arch, say):
    """Its files belong to root, and root alone may make some of them. Through sudo, as tools/setup does."""
    command = ["env", f"XDG_CACHE_HOME={cache.parent.parent}", str(TOOLS / "lab/root"), "--arch", arch.name,
               suite]
    say(f"a root of {suite} is made by root, once: sudo {shlex.join(command)}")
    try:
        done = subprocess.run(["sudo", *command], stdout=subprocess.DEVNULL)
    except FileNotFoundError as e:
        raise LabError("not root and no sudo: run that as root") from e
    if done.returncode:
        raise LabError(f"no root of {suite} was made")


def _make(cache, suite, arch, target, say):
    emulate_programs(arch)
    for left in cache.glob("root-tmp-*"):       # by a run that was killed: nobody else holds the lock
        shutil.rmtree(left)
    for old in cache.glob(f"root-{name_of(suite, arch)}-*"):
        if old.stat().st_mtime < time.time() - WEEK:
            shutil.rmtree(old)
    source = apt.mirror()
    say(f"making a root of {name_of(suite, arch)} from {source} (once, some minutes)")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=cache, prefix="root-tmp-") as tmp:
        tree = Path(tmp) / "tree"
        tree.mkdir(mode=0o755)
        keyring = apt.keyring(suite, Path(tmp), say)
        env = dict(os.environ, LC_ALL="C", **apt.proxies())
        # The script is that of all releases; debootstrap has names only for those that it knows.
        _watched(["debootstrap", *(["--foreign"] if arch.is_foreign else []), f"--arch={arch.name}", "--variant=minbase",
                  f"--keyring={keyring}", suite, str(tree), source, "sid"],
                 f"debootstrap of {suite}", say, env)
        for place, text in (("dpkg/dpkg.cfg.d/lab", DPKG_SETTINGS), ("apt/apt.conf.d/99lab", apt.settings())):
            (tree / "etc" / place).parent.mkdir(parents=True, exist_ok=True)
            (tree / "etc" / place).write_text(text)
        if arch.is_foreign:
            packages = apt.Packages(suite, Path(tmp), say, arch)
            names = [name for line in _wanted() for name in line.split(" ")[1:]]
            archives = packages.download(["?essential", "?priority(required)", "apt", *names])
            fill = [FILL_FOREIGN, "sh", str(tree), str(archives), arch.name]
        else:
            fill = [FILL, "sh", str(tree), str(TOOLS), *GROUPS]
        _watched(["sh", "-c", *fill], f"packages of {suite}", say, env)
        os.chmod(tree, 0o755)
        tree.rename(target)
    say(f"the root of {suite} is made ({time.monotonic() - started:.0f} s)")


def _watched(cmd, what, say, env):
    """Says now and then how far it is, and at the end why it failed. In namespaces, so that
    all its mounts and processes end with it, and it with us."""
    said = started = time.monotonic()
    last = []
    try:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--mount", "--pid", "--fork", "--kill-child", *cmd],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except FileNotFoundError as e:
        raise LabError(f"{e.filename} is not installed (run {SETUP})") from e
    with process:
        try:
            for line in process.stdout:
                last = [*last[-9:], line.decode(errors="replace").rstrip()]
                if time.monotonic() - said > PROGRESS_SECONDS:
                    said = time.monotonic()
                    say(f"  {what}, {said - started:.0f} s: {last[-1]}")
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        text = "".join(f"\n    {line}" for line in last)
        raise LabError(f"{what}: failed with exit code {process.returncode}{text}")
