"""Every input of the corpus again, under ASan and UBSan; with --long a minute of new ones each (fuzz/run)."""

import os
import subprocess

import pytest


@pytest.mark.sanitize
@pytest.mark.parametrize("target", ["frame", "greeting", "core"])
def test_corpus(target, root, request, tmp_path):
    corpus = os.path.join(root, "tests", "fuzz", "corpus", target)
    program = os.path.join(root, "build-fuzz", "bin", f"{target}_fuzz")
    assert os.listdir(corpus), f"{corpus} is empty"
    assert os.access(program, os.X_OK), f"{program} is not built: run tests/fuzz/run --build-only"
    budget = ["-max_total_time=60", str(tmp_path)] if request.config.option.long else ["-runs=0"]
    done = subprocess.run([program, *budget, "-timeout=10", "-rss_limit_mb=1024", "-max_len=4096", corpus],
                          cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-4000:]
