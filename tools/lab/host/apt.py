"""What apt knows on this machine: the mirror, its keys, proxies, and which packages there are. Also of
another Debian release or machine than its own, with lists that are kept apart from the machine's."""

import re
import tempfile
from pathlib import Path

from .arch import HERE
from .errors import LabError
from .tool import tool

NEW_LISTS = " (as root: apt-get update)"        # missing lists know no package, old ones none that is still there
SETTINGS = ("Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Retries")


def mirror():
    """Where apt gets Debian from here. It has looked there, so that its lists tell."""
    targets = tool(["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"],
                   "cannot find a mirror")
    found = [line.split(" ", 1)[1] for line in targets.splitlines() if line.startswith("Debian http")]
    if not found:
        raise LabError("apt knows no mirror of Debian" + NEW_LISTS)
    return found[0].rstrip("/")


def keyring(suite, tmp, say):
    """Older point releases have no keys of newer releases: then those of the newest package, which apt
    checks with the keys that are there."""
    here = Path("/usr/share/keyrings")
    if not (here / f"debian-archive-{suite}-stable.gpg").exists():
        say(f"fetching the archive's keys of {suite}")
        Packages().unpack("debian-archive-keyring", tmp / "keys")
        here = tmp / "keys/usr/share/keyrings"
    return here / "debian-archive-keyring.gpg"


def _config():
    return tool(["apt-config", "dump"], "cannot read apt's settings").splitlines()


def settings():
    """Proxies and what else apt needs to reach the mirror."""
    kept = [line for line in _config() if line.startswith(SETTINGS)]
    return "\n".join([*kept, 'APT::Install-Recommends "false";', ""])


def proxies():
    """For debootstrap, which does not use apt."""
    found = {}
    for line in _config():
        name, _, value = line.partition(" ")
        if name in ("Acquire::http::Proxy", "Acquire::https::Proxy"):
            found[name.split("::")[1] + "_proxy"] = value.strip('";')
    return {name: value for name, value in found.items() if value and value != "DIRECT"}


class Packages:
    """Those of the release that this machine's apt looks at, or with `suite` of that release, for machines
    like `arch`: its lists are then fetched into the directory `tmp`."""

    def __init__(self, suite=None, tmp=None, say=None, arch=HERE):
        self.options = []
        if suite is None:
            return
        state = tmp / "apt"
        self.archives = state / "cache/archives"
        for name in ("lists/partial", "cache/archives/partial", "parts"):
            (state / name).mkdir(parents=True)
        sources = state / "sources.list"
        sources.write_text(f"deb [signed-by={keyring(suite, tmp, say)}] {mirror()} {suite} main\n")
        (state / "status").touch()
        own = {"Dir::Etc::SourceList": sources, "Dir::Etc::SourceParts": state / "parts",
               "Dir::State": state, "Dir::State::Lists": state / "lists", "Dir::State::Status": state / "status",
               "Dir::Cache": state / "cache", "APT::Architecture": arch.name, "APT::Architectures": arch.name,
               "APT::Sandbox::User": ""}     # whose user could not read our directory
        for name, value in own.items():
            self.options += ["-o", f"{name}={value}"]
        say(f"asking the mirror for the packages of {suite} for {arch.name}")
        tool(["apt-get", *self.options, "update"], f"cannot fetch the lists of {suite}")

    def depends(self, package):
        """Names that `package` depends on; none if there is no such package."""
        try:
            text = tool(["apt-cache", *self.options, "depends", package], "no such package")
        except LabError:
            return []
        return re.findall(r"Depends: (\S+)", text)

    def names(self, prefix):
        return tool(["apt-cache", *self.options, "pkgnames", prefix], "cannot ask apt", NEW_LISTS).split()

    def download(self, packages):
        """Downloads them and what they need to a folder. Only of a release whose lists we have fetched."""
        tool(["apt-get", *self.options, "-y", "--no-install-recommends", "--download-only", "install", *packages],
             "cannot download packages")
        return self.archives

    def unpack(self, package, tree):
        """Downloads it and unpacks it to the directory `tree`."""
        with tempfile.TemporaryDirectory(dir=tree.parent) as tmp:
            tool(["apt-get", *self.options, "download", package], f"cannot download {package}", NEW_LISTS, cwd=tmp)
            deb = next(Path(tmp).glob("*.deb"))
            tool(["dpkg", "-x", str(deb), str(tree)], f"cannot unpack {deb.name}")
