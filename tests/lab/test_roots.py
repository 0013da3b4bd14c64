"""What makes a root file system runs scripts of packages in it as root: they get at no file of this machine."""

import os
import shutil
import sys

import pytest

from harness.kinds import ROOT
from harness.programs import run, says

# In place of tools/setup. Each line is tried; what has been done is said.
ATTEMPTS = """\
for file in /etc/hosts /etc/resolv.conf /mnt/setup; do
	if { echo changed >>"$file"; } 2>>/errors; then echo "wrote $file"; else echo "refused $file"; fi
done
"""


@pytest.mark.lab("a kernel of our own")  # as root
def test_packages_cannot_write_to_the_host(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(ROOT, "tools/lab"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    from host import roots
    tree, tools = tmp_path / "tree", tmp_path / "tools"
    for folder in "bin", "etc", "proc", "mnt", "var/lib/apt/lists":
        (tree / folder).mkdir(parents=True)
    tools.mkdir()
    (tools / "setup").write_text(ATTEMPTS)
    shutil.copy(shutil.which("busybox"), tree / "bin/sh")
    (tree / "bin/apt-get").write_text("#!/bin/sh\n")
    (tree / "bin/apt-get").chmod(0o755)
    before = open("/etc/hosts").read()
    said = run("unshare", "--mount", "sh", "-c", roots.FILL, "sh", str(tree), str(tools), "build").stdout
    says(said, "^refused /etc/hosts$", "^refused /etc/resolv.conf$", "^refused /mnt/setup$")
    assert "wrote" not in said and open("/etc/hosts").read() == before
