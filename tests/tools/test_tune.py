"""`weir tune` on machines made up here: what it finds, what it leaves alone, and that it goes on where it was
interrupted."""

import argparse
import json
import os
import random
import re
import sys

import pytest

from harness.kinds import ROOT
from harness.programs import run, says

TUNE = os.path.join(ROOT, "tools", "tune")
sys.path.insert(0, TUNE)
import job  # noqa: E402
import search  # noqa: E402
import tables  # noqa: E402


def seconds_of(text):
    number, unit = re.fullmatch(r"(\d+)(ns|us|ms|s)", text).groups()
    return int(number) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit]


class Machine:
    """Messages a second of a made-up node. With `limit`, more requests in its adapter than that cost it: the
    throughput falls with the square root of the excess. `tokens`, `delays`: what keeps them from getting there.
    `core_share`: of the peak, what one core can do. `sharing_costs`: what node_sharing off gains. `best_both`:
    servers that only help with tokens. `loser`: {point: ratio} with any setting."""

    def __init__(self, limit=None, noise=0.01, best_chunk=None, best_servers=None, best_both=None,
                 tokens=True, delays=False, core_share=1.0, sharing_costs=1.0, loser=None, seed=7):
        self.limit, self.noise = limit, noise
        self.tokens, self.delays, self.sharing_costs = tokens, delays, sharing_costs
        self.core_share = core_share
        self.best_chunk, self.best_servers, self.best_both = best_chunk, best_servers, best_both
        self.loser = loser or {}
        self.random = random.Random(seed)
        self.runs = 0

    def rate(self, settings, cores, messages, size):
        under_way = cores * messages
        peak = 1e6 / (1 + size / 1e4)
        rate = peak * min(under_way / 32, 1, cores * self.core_share)
        if "tokens" in settings and self.tokens:
            under_way = min(under_way, int(settings["tokens"]))
        if self.limit and under_way > self.limit:
            rate *= (self.limit / under_way) ** 0.5
        if settings.get("node_sharing") == "off":
            rate *= self.sharing_costs
        if self.delays and "delay" in settings:
            limit, delay = (dict(part.split("=") for part in settings[key].split(", "))
                            for key in ("crct", "delay"))
            bytes_text = tables.size_text(tables.request_bytes(size))
            if messages > int(limit["1@" + bytes_text]):
                asked = cores / seconds_of(delay[bytes_text]) / tables.requests(size)
                rate = asked if asked < 1.05 * peak else rate  # too fast: as if there were none
        if self.best_chunk and size >= 1 << 18 and settings.get("chunk_size") == self.best_chunk:
            rate *= 1.3
        if self.best_servers and size <= 4096 and cores > 1:
            rate *= 1.4 if settings.get("proxy_servers") == self.best_servers else 1
        if self.best_both and size <= 4096 and cores > 1 and "tokens" in settings:
            rate *= 1.4 if settings.get("proxy_servers") == self.best_both else 1
        if settings:
            rate *= self.loser.get((cores, messages, size), 1)
        return rate * self.random.lognormvariate(0, self.noise)

    def __call__(self, settings, points, number):
        self.runs += 1
        # Of the whole machine, from round to round: both runs of a round see the same.
        drift = random.Random(number).lognormvariate(0, 0.3)
        return {p: drift * self.rate(settings, *p) for p in points}


def plan_of(two_nodes=True):
    return search.Plan([8, 4096, 1 << 18], [1, 4, 16, 64], [1, 2, 4], two_nodes)


def notes_of(result):
    return "\n".join(result.notes)


def test_finds_the_limit():
    machine = Machine(limit=40)
    result = search.search(machine, plan_of())
    assert result.settings.get("admission") == "thresholds"
    tokens = int(result.settings["tokens"])
    assert 20 <= tokens <= 64
    assert result.final.better(), f"final: {result.final.ratio}"
    assert result.tables["nrct"], "no node threshold"
    assert min(result.by_point.values()) > 0.9, f"a point lost: {result.by_point}"
    for key in ("cct", "nrct", "crct"):
        assert key in result.settings, f"no {key}"


def test_leaves_a_healthy_node_alone():
    result = search.search(Machine(), plan_of())
    assert result.settings == {}
    says(notes_of(result), "admission stays off")
    assert result.final is None, "there is nothing to prove"


def test_finds_delays_where_tokens_do_not_help():
    result = search.search(Machine(limit=130, tokens=False, delays=True, core_share=0.25), plan_of())
    assert result.settings.get("node_sharing") == "off", notes_of(result)
    assert "delay" in result.settings and "tokens" not in result.settings


def test_prefers_tokens_that_are_as_good_as_delays():
    result = search.search(Machine(limit=130, delays=True, core_share=0.25), plan_of())
    assert "tokens" in result.settings and "delay" not in result.settings


def test_does_not_take_the_read_budget_for_delays():
    result = search.search(Machine(limit=40, tokens=False, sharing_costs=1.5), plan_of())
    assert result.settings == {}
    says(notes_of(result), "node_sharing off alone")


def test_finds_servers_that_need_tokens():
    result = search.search(Machine(limit=40, best_both="2"), plan_of())
    assert result.settings.get("proxy_servers") == "2", notes_of(result)
    assert "tokens" in result.settings


def test_tokens_stay_without_servers():
    """That help alone, but no more than what they replace."""
    result = search.search(Machine(limit=40, best_servers="2"), plan_of())
    assert "tokens" in result.settings and "proxy_servers" in result.settings, notes_of(result)


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_a_setting_that_loses_somewhere_is_not_written(noise):
    machine = Machine(best_chunk="256KiB", loser={(1, 4, 8): 0.7}, noise=noise)
    result = search.search(machine, plan_of())
    assert result.settings == {}
    says(notes_of(result), "1 cores, 4 x 8B")


def test_the_next_best_is_taken_if_the_best_loses():
    class Picky(Machine):
        def rate(self, settings, *point):
            loses = "proxy_servers" in settings and point == (1, 1, 8)
            return super().rate(settings, *point) * (0.6 if loses else 1)
    result = search.search(Picky(limit=40, best_both="2"), plan_of())
    assert "tokens" in result.settings and "proxy_servers" not in result.settings, notes_of(result)


def test_a_congested_point_may_lose():
    result = search.search(Machine(limit=40, loser={(4, 64, 4096): 0.8}), plan_of())
    assert "tokens" in result.settings, notes_of(result)


def test_noise_is_no_loss():
    """Of many points some always look worse."""
    for seed in range(20):
        result = search.search(Machine(best_chunk="256KiB", noise=0.1, seed=seed), plan_of())
        assert not any("it loses" in note for note in result.notes), f"{seed}: {result.notes}"


def test_noise_is_no_gain():
    """Something always looks better; measured again it seldom does."""
    written = [result.settings for seed in range(40)
               if (result := search.search(Machine(noise=0.15, seed=seed), plan_of())).settings]
    assert len(written) <= 2, f"in {len(written)} of 40: {written}"


def test_finds_a_chunk_size():
    result = search.search(Machine(best_chunk="256KiB"), plan_of())
    assert result.settings == {"chunk_size": "256KiB"}


def test_one_node_does_not_decide_chunks():
    result = search.search(Machine(best_chunk="256KiB"), plan_of(two_nodes=False))
    assert result.settings == {}
    says(notes_of(result), "--hostfile")


class BestReads(Machine):
    def rate(self, settings, cores, messages, size):
        gain = 1.3 if size >= 1 << 18 and settings.get("reads_max") == "4" else 1
        return super().rate(settings, cores, messages, size) * gain


def test_reads_are_bound_where_they_contend_only():
    result = search.search(BestReads(), plan_of())
    assert result.settings == {}
    says(notes_of(result), "reads_max stays auto")
    result = search.search(BestReads(limit=40, tokens=False), plan_of())
    assert result.settings == {"reads_max": "4"}, notes_of(result)


class CheapReads(Machine):
    """Its processor copies slowly: what is read is faster, whatever its size."""
    def rate(self, settings, cores, messages, size):
        gain = 1.3 if size == 32 << 10 and settings.get("eager_max") == "8KiB" else 1
        return super().rate(settings, cores, messages, size) * gain


def test_finds_what_goes_unasked():
    sizes = [8, 4096, 32 << 10, 256 << 10]
    found = search.search(CheapReads(), search.Plan(sizes, [1, 8, 64], [1, 2, 4]))
    assert found.settings == {"eager_max": "8KiB"}, notes_of(found)
    assert search.eager_maxima(set(sizes[2:])) == ("8KiB", "256KiB"), "two ways besides auto"
    assert search.eager_maxima(set()) == (), "nothing to find out"


class SeveralPaths(Machine):
    """A fabric with two paths: two queue pairs may share one, four seldom do, and more cost."""
    def rate(self, settings, cores, messages, size):
        gain = {"2": 1.4, "4": 1.8, "8": 1.7}.get(settings.get("paths"), 1) if size >= 1 << 18 else 1
        return super().rate(settings, cores, messages, size) * gain


def test_finds_the_paths():
    result = search.search(SeveralPaths(), plan_of())
    assert result.settings == {"paths": "4"}, notes_of(result)
    result = search.search(Machine(), plan_of())
    says(notes_of(result), "paths stays 1")


def test_what_is_within_the_spread_is_not_written():
    def confirmed(gains):
        def measure(settings, points, number):
            return {p: 1000 * (gains[number % len(gains)] if settings else 1) for p in points}
        whole = search.Search(measure, plan_of(), lambda stage: None)
        points = [(1, 1, 1 << 18)]
        return whole.confirm(search.Candidate({"chunk_size": "256KiB"}, None, points))
    assert confirmed([1.09, 1.11, 1.10, 1.12, 1.09, 1.10, 1.11]), "a gain is not written"
    assert not confirmed([1.01, 1.12, 1.02, 1.11, 1.03, 1.05, 1.10]), "noise is written"


def test_finds_the_servers():
    for seed in range(5):
        result = search.search(Machine(best_servers="2", noise=0.05, seed=seed), plan_of())
        assert result.settings == {"proxy_servers": "2"}


class ManyCores(Machine):
    """A node where few servers are a bottleneck."""
    GAINS = {1: 0.5, 2: 0.7, 4: 1, 8: 1.3, 16: 1.6, 24: 1.8, 32: 1.2}

    def rate(self, settings, cores, messages, size):
        servers = int(settings.get("proxy_servers", 0))
        return super().rate(settings, cores, messages, size) * (self.GAINS[servers] if servers and size <= 4096 else 1)


@pytest.mark.parametrize("cores, best", [(64, "16"), (48, "24"), (16, "8")])
def test_finds_many_servers(cores, best):
    plan = search.Plan([8], [1, 16], [1, cores], True)
    for seed in range(3):
        assert search.search(ManyCores(seed=seed), plan).settings == {"proxy_servers": best}


def test_stops_when_decided():
    machine = Machine(noise=0.001)
    plan = plan_of()
    verdict = search.compare(machine, plan, {"chunk_size": "64KiB"}, search.BASELINE,
                             [(1, 1, 1 << 18)])
    assert machine.runs == 2 * plan.least_rounds, f"{machine.runs} runs for what is the same"
    assert not verdict.better() and not verdict.worse(), f"ratio {verdict.ratio}"


def test_needs_fewer_runs_than_a_grid():
    machine = Machine(limit=40)
    plan = plan_of()
    search.search(machine, plan)
    assert machine.runs < 200


def test_tables_have_no_holes():
    text = tables.table_text({4096: 9}, [8, 4096, 1 << 18])
    assert text == f"128B={tables.NO_LIMIT}, 8KiB=9, 128KiB={tables.NO_LIMIT}"
    assert tables.table_text({}, [8]) == "none", "an empty table"
    assert tables.core_table_text({(2, 8): 5}, [8], [1, 2]) == f"1@128B={tables.NO_LIMIT}, 2@128B=5", "cores"
    assert tables.delay_text({8: 2e-6}, [8, 4096]) == "128B=2us, 8KiB=0ns", "delays"
    assert [tables.duration_text(s) for s in (0.3e-9, 48213e-9, 2.5e-6, 123456e-6, 3)] == \
        ["0ns", "48200ns", "2500ns", "123ms", "3s"]


def test_tables_are_by_request():
    """A frame has headers; a larger message is several frames, or several chunks."""
    assert [tables.request_bytes(b) for b in (8, 64, 512, 4096, 8192, 1 << 16, 1 << 17)] == \
        [128, 128, 1024, 8192, 8192, 8192, 1 << 17]
    assert tables.table_text({1 << 15: 10}, [1 << 15]) == "8KiB=40", "several frames"
    text = tables.table_text({1 << 18: 10, 1 << 20: 4}, [1 << 18, 1 << 20])
    assert text == "128KiB=20"
    text = tables.table_text({1 << 18: 10}, [1 << 18], scaled=False)
    assert text == "128KiB=10", f"of processes: {text}"


# ---- the command, with a program in the place of mpirun -----------------------------------------

# Started hundreds of times: at once, without site packages.
MPIRUN = """#!PYTHON -IS
import json, os, sys
if "none" != dict(zip(sys.argv, sys.argv[1:])).get("btl_weir_config"):
    sys.exit("mpirun: files count")
if any(name.startswith("OMPI_MCA_btl_weir_") for name in os.environ):
    sys.exit("mpirun: a parameter leaks in")
if os.environ.get("DEVICE", "auto") != dict(zip(sys.argv, sys.argv[1:])).get("btl_weir_device"):
    sys.exit("mpirun: another device")
with open(os.environ["RUNS"], "a") as file:
    file.write("run\\n")
with open(os.environ["RUNS"]) as file:
    if len(file.readlines()) == int(os.environ.get("FAIL_AT", "0")):
        sys.exit("mpirun: the wire is cut")
for word in sys.argv:
    parts = word.split("x")
    if len(parts) == 3 and all(part.isdigit() for part in parts):
        c, m, b = map(int, parts)
        print(json.dumps({"cores": c, "outstanding": m, "bytes": b,
                          "messages_per_s": 1000.0 * min(c * m, 16)}))
"""


# The same in the place of srun: parameters come in variables, and nothing for mpirun.
SRUN = MPIRUN.replace("""if any(name.startswith("OMPI_MCA_btl_weir_") for name in os.environ):
    sys.exit("mpirun: a parameter leaks in")
""", "").replace("dict(zip(sys.argv, sys.argv[1:])).get(\"", "os.environ.get(\"OMPI_MCA_") + """
if not {"--nodelist=node1,node2", "--nodes=2", "--ntasks-per-node=2", "--mpi=pmix"} <= set(sys.argv):
    sys.exit("srun: other hosts")
"""


@pytest.fixture
def command(tmp_path, no_settings):
    """Runs it in a directory of its own: command("--quick", status=2, VARIABLE="value")."""
    return Command(tmp_path)


class Command:
    def __init__(self, directory):
        self.directory, self.runs = directory, directory / "runs"
        self.mpirun = directory / "mpirun"
        self.mpirun.write_text(MPIRUN.replace("PYTHON", os.path.realpath(sys.executable)))
        self.mpirun.chmod(0o755)

    def __call__(self, *arguments, status=0, **environment):
        return run(os.path.join(TUNE, "tune"), "--quick", "--np", "4", "--mpirun", self.mpirun, "--load", "/bin/true",
                   "--hardware", "made up", *arguments, status=status, cwd=self.directory,
                   env={"RUNS": str(self.runs), **environment})

    def count(self):
        return len(self.runs.read_text().splitlines())

    def wrote(self, name):
        return (self.directory / name).read_text()


def test_writes_profile_and_report(command):
    done = command()
    says(command.wrote("weir-tuned.yaml"), 'tuned_for: "made up"', "Made by 'weir tune'")
    page = command.wrote("weir-tuned.html")
    says(page, "<svg", "What was tried")
    assert "gnuplot is not" not in page + done.stderr
    assert "http" not in page.replace("http://www.w3.org", ""), "the report loads something"


def test_says_that_there_is_no_gnuplot(command):
    """All programs it needs are in a folder of their own."""
    (command.directory / "python3").symlink_to(os.path.realpath(sys.executable))
    says(command(PATH=str(command.directory)).stderr, "gnuplot is not installed")
    page = command.wrote("weir-tuned.html")
    assert "gnuplot is not installed" in page and "<svg" not in page, "the report does not say so"


@pytest.mark.parametrize("arguments, environment", [
    (["--device", "mine0"], {"DEVICE": "mine0"}),
    ([], {"DEVICE": "yours0:2", "WEIR_TUNE_DEVICE": "yours0:2"})], ids=["option", "variable"])
def test_the_device_is_that_of_the_runs(arguments, environment, command):
    command(*arguments, **environment)


def test_no_other_setting_counts(command):
    command(WEIR_CHUNK_SIZE="64KiB", OMPI_MCA_btl_weir_tokens="4", WEIR_CONFIG="mine.yaml",
            OMPI_MCA_btl_weir_config="mine.yaml")


def test_runs_by_srun(command):
    """By itself, on the hosts of an allocation; each setting is a variable."""
    srun = command.directory / "srun"
    srun.write_text(SRUN.replace("PYTHON", os.path.realpath(sys.executable)))
    srun.chmod(0o755)
    command("--launcher", srun, "--hosts", "node[1-2]", WEIR_TUNE_HOSTS="node1 node2 ")
    assert command.count() > 9
    command("--launcher", "srun", "--hostfile", "hosts", status=2)


@pytest.mark.parametrize("launcher, words", [
    (None, []), ("mpirun", []), ("ssh -p 23", ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", "ssh -p 23"])])
def test_mpirun_starts_by_a_launcher(launcher, words):
    opt = argparse.Namespace(launcher=launcher, hosts=["a", "b"], hostfile=None, np=4, mpirun="mpirun",
                             mpirun_args="--verbose")
    found, _ = job.command(opt, {"btl_weir_config": "none"})
    assert found == ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "weir,self",
                     *words, "--verbose", "--host", "a:2,b:2", "--mca", "btl_weir_config", "none", "-n", "4"]


# ---- the state that it keeps --------------------------------------------------------------------

def test_goes_on_where_it_was(command):
    says(command(FAIL_AT="9", status=1).stderr, "the wire is cut")
    assert command.count() == 9
    command()
    whole = command.count() - 1  # the one that failed
    assert whole > 9, "did not go on"
    command()
    assert command.count() == whole + 1, "ran again what it knew"


def test_another_run_does_not_take_its_state(command):
    command()
    says(command("--ms", "70", status=1).stderr, "--again")
    command("--ms", "70", "--again")


def test_another_build_does_not_take_its_state(command):
    plugin = command.directory / "mca_btl_weir.so"
    path = {"OMPI_MCA_mca_base_component_path": str(command.directory)}
    plugin.write_text("one build")
    command(**path)
    plugin.write_text("another")
    says(command(status=1, **path).stderr, "--again")


def test_another_kernel_does_not_take_its_state(command):
    command()
    kept = json.loads(command.wrote("weir-tuned.json"))
    kept["about"]["kernel"] = "0.1"
    (command.directory / "weir-tuned.json").write_text(json.dumps(kept))
    says(command(status=1).stderr, "--again")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"samples": 3}'])
def test_a_damaged_state_is_named(text, command):
    (command.directory / "weir-tuned.json").write_text(text)
    says(command(status=1).stderr, "is damaged")


# ---- what it cannot do --------------------------------------------------------------------------

@pytest.mark.parametrize("path", ["nowhere/file", "."])
@pytest.mark.parametrize("option", ["--output", "--report", "--state"])
def test_says_first_what_it_cannot_write(option, path, command):
    says(command(option, path, status=2).stderr, re.escape(f"{option} {path}: "))
    assert not command.runs.exists(), "it measured"


def test_says_last_what_it_cannot_write(command):
    """Gone meanwhile, or a disk that is full: a line, and what was measured is kept."""
    there = command.directory / "profile.new"
    there.mkdir()  # where the profile is written before it gets its name
    done = command("--output", "profile", status=1)
    assert "Traceback" not in done.stderr and "profile.new" in done.stderr
    before = command.count()
    there.rmdir()
    command("--output", "profile")
    assert command.count() == before, "it measured again"


def test_asks_before_all_programs_are_concerned(command):
    shared = command.directory / "weir" / "weir.yaml"
    shared.parent.mkdir()
    home = str(command.directory)
    says(command("--output", shared, status=2, XDG_CONFIG_HOME=home).stderr, "--yes")
    assert not command.runs.exists(), "it measured"
    command("--output", shared, "--yes", XDG_CONFIG_HOME=home)
    assert shared.exists()


@pytest.mark.parametrize("arguments", [
    ["--np", "3"], ["--sizes", "8,x"], ["--outstanding", "0"], ["--load", "/nowhere"], ["--sizes", "1GiB"],
    ["--mpirun-args=--mca btl_weir_device rxe0"], ["--dev", "rxe0"]], ids=" ".join)
def test_refuses_nonsense(arguments, command):
    done = command(*arguments, status=2)
    assert done.stderr and not done.stdout
