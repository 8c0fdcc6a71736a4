"""The guide, typed as it stands: real MongoDB with its shell, and our program.

What a machine under test cannot have stands aside: packages, certificates and systemd are small
scripts here, paths begin with a folder of the test, and MongoDB has another port.
"""

import os
import re
import shutil
import signal
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest
from pymongo import MongoClient

import config
from app.storage.client import Storage
from tests import mongod, orphans
from tests.collection_plans import NAMES
from tests.factories import make_player
from tests.guide import blocks, chapters, shell_blocks
from tests.ports import free_port
from tests.system.programs import PROGRAM, wait_until
from tests.system.test_releases import SIGN_IN, readiness, unit

ROOT = Path(__file__).parents[2]
MONGOSH = shutil.which("mongosh")
PROMTOOL = shutil.which("promtool")
needs_mongosh = pytest.mark.skipif(
    not MONGOSH, reason="mongosh is not installed: npm install --global mongosh"
)
needs_promtool = pytest.mark.skipif(
    not PROMTOOL, reason="promtool is not installed: apt-get install prometheus"
)
ROLE = "parameterReader"
SILENT = ("apt-get", "curl", "gpg", "chown", "certbot", "nginx")
RELEASE = "quartermaster-1.2.3+g0123456"
STAND_INS = {
    "python3": 'mkdir -p "$3/bin" && ln -s /bin/true "$3/bin/pip" && '
    'ln -s {program} "$3/bin/quartermaster"',
    "systemctl": 'echo "$*" >> {home}/systemctl\n'
    'if [ "$*" = "restart mongod" ]; then {mongod} --config {home}/etc/mongod.conf --fork '
    "--pidfilepath {home}/mongod.pid --wiredTigerCacheSizeGB 0.25; fi\n"
    'if [ "$*" = "kill --signal=SIGUSR1 mongod" ]; then kill -USR1 $(cat {home}/mongod.pid); fi',
    # Who has logged in is known to nobody: the tests have no terminal.
    "logname": "exit 1",
    # What qm hands over: a file of settings, a variable, and the command behind the options.
    "systemd-run": 'for word; do case "$word" in\n'
    '--property=EnvironmentFile=*) while IFS= read -r line; do export "$line"; done '
    '< "${{word#*EnvironmentFile=}}";;\n'
    '--setenv=*) export "${{word#--setenv=}}";;\n--*) ;;\n*) break;; esac; shift; done\nexec "$@"',
}


class Machine:
    """A folder in which the guide is typed."""

    def __init__(self, home):
        self.home, self.port = home, free_port()
        folders = ("bin", "etc/apt/sources.list.d", "etc/nginx", "etc/systemd/system")
        folders += ("etc/logrotate.d", "usr/local/sbin", "var/lib/mongodb", "var/log/mongodb")
        for folder in (*folders, "var/lib/quartermaster-backup"):
            (home / folder).mkdir(parents=True)
        with tarfile.open(home / f"{RELEASE}.tar.gz", "w:gz") as archive:
            for part in ("deploy", "config"):
                archive.add(ROOT / part, f"{RELEASE}/{part}")
        places = {"root": ROOT, "program": PROGRAM, "home": home, "mongod": mongod.program(home)}
        for name, script in {**dict.fromkeys(SILENT, "exit 0"), **STAND_INS}.items():
            self.stand_in(name, script.format(**places))

    def stand_in(self, name, script):
        (self.home / "bin" / name).write_text(f"#!/bin/bash\nset -e\n{script}\n")
        (self.home / "bin" / name).chmod(0o755)

    def here(self, text):
        """Let a text speak of this folder and of this port."""
        text = re.sub(r"(?<![\w/.])/(etc|opt|var|usr/local)/", rf"{self.home}/\1/", text)
        return text.replace("27017", str(self.port)).replace("@localhost/", f"@{self.address}/")

    @property
    def address(self):
        return f"localhost:{self.port}"

    def type(self, block, **variables):
        path = f"{self.home}/bin:{self.home}/usr/local/sbin:{os.environ['PATH']}"
        env = {"PATH": path, "HOME": str(self.home), "MONGODB_HOST": self.address}
        # qm and the program know their paths; here they are others.
        qm = self.home / "opt/quartermaster/current/deploy/qm"
        if qm.exists():
            qm.write_text(self.here((ROOT / "deploy" / "qm").read_text()))
        done = subprocess.run(
            ["bash", "-e"],
            input=self.here(block),
            env={**env, **orphans.mark(), **variables},
            capture_output=True,
            text=True,
            cwd=self.home,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def settings(self):
        lines = (self.home / "etc/quartermaster/environment").read_text().splitlines()
        return {k.removeprefix("QM_"): v for k, v in (line.split("=", 1) for line in lines)}

    @property
    def secret(self):
        return (self.home / "etc/quartermaster/mongodb-root").read_text().strip()

    def root(self):
        return MongoClient(self.address, username="root", password=self.secret, replicaSet="qm")


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    machine = Machine(tmp_path_factory.mktemp("machine"))
    try:
        for title in ("MongoDB", "The program", "TLS and nginx"):
            for block in shell_blocks(chapters()[title]):
                machine.type(block)
        yield machine
    finally:
        if (machine.home / "mongod.pid").exists():
            os.kill(int((machine.home / "mongod.pid").read_text()), signal.SIGTERM)


@needs_mongosh
def test_one_machine_gets_a_set_its_accounts_and_a_prepared_database(machine):
    # The newest release is what is installed.
    assert (machine.home / "opt/quartermaster/current").readlink() == Path(RELEASE)
    with MongoClient(machine.settings()["MONGODB_URI"]) as client:
        assert client.admin.command("hello")["setName"] == "qm"
        assert {*client["quartermaster"].list_collection_names()} >= NAMES
    for file in (machine.home / "etc/quartermaster").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    asked = (machine.home / "systemctl").read_text()
    for unit_ in re.findall(r"quartermaster[\w-]*\.\w+", asked):
        assert (machine.home / "etc/systemd/system" / unit_).exists()


@needs_mongosh
def test_the_account_reads_the_lifetime_of_transactions_and_does_without_it(machine):
    uri = machine.settings()["MONGODB_URI"]
    storage = Storage(config.load({"QM_ENV": "testing"}, MONGODB_URI=uri))
    role = [{"role": ROLE, "db": "admin"}]
    storage.lifetime.look()
    assert (storage.lifetime.seconds(), storage.lifetime.faults) == (3, [])
    settings = {**machine.settings(), "ENV": "production", "WORKERS": "1"}
    told = "transactionLifetimeLimitSeconds cannot be read; set it to 3."
    with machine.root() as client:
        db = client["quartermaster"]
        db.command("revokeRolesFromUser", "quartermaster", roles=role)
        assert storage.lifetime.seconds() is None
        with unit(machine.home / "opt/quartermaster", **settings) as server:
            wait_until(lambda: told in readiness(server), server.output)
            assert server.is_ready()
            assert server.output.read_text().count(told) == 1
        # As a release left it that knew no such role.
        client.admin.command("dropRole", ROLE)
    (block,) = [b for b in shell_blocks(chapters()["Upgrades and rollback"]) if ROLE in b]
    machine.type(block.replace("root@", f"root:{machine.secret}@"))
    assert storage.lifetime.seconds() == 3
    storage.close()


@pytest.mark.everything
@needs_mongosh
def test_the_script_that_makes_accounts_may_run_again_and_gives_new_passwords(machine):
    password = re.search(r"quartermaster:(\w+)@", machine.settings()["MONGODB_URI"])[1]
    blocks = shell_blocks(chapters()["The program"])
    (line,) = re.findall(r"^mongosh.*$", "\n".join(blocks), re.MULTILINE)
    passwords = {"MONGODB_ROOT_PASSWORD": machine.secret, "MONGODB_PASSWORD": password}
    said = machine.type(line, **passwords)
    assert "The replica set and the accounts are ready." in said


@pytest.mark.everything
@needs_mongosh
def test_history_names_who_has_run_a_command(machine):
    """Not the passing user as which systemd runs it."""
    typed = shell_blocks(chapters()["The first account"])[1]
    said = machine.type(typed, PASSWORD="a password", SUDO_USER="ann")
    granted = [line for line in said.splitlines() if "grant-role" in line]
    assert len(granted) == 3
    assert all(" ann " in line for line in granted)


@needs_mongosh
def test_the_log_of_mongodb_is_rotated(machine):
    log = machine.home / "var/log/mongodb/mongod.log"
    rotated = (machine.home / "etc/logrotate.d/mongod").read_text()
    assert f"{log} {{" in rotated
    log.rename(log.with_suffix(".1"))
    machine.type(re.search(r"postrotate\n(.*)\n", rotated)[1])
    wait_until(lambda: log.exists() and log.read_text())


@pytest.mark.everything
@needs_mongosh
def test_a_backup_is_tried_compared_and_restored_as_the_guide_says(machine):
    folder = machine.home / "var/lib/quartermaster-backup"
    make, trial, compare, restore, *_ = shell_blocks(chapters()["Backups"])
    machine.type(make)
    machine.type(f"KEEP_DAYS=1 SETTINGS= qm backup {folder}/quartermaster-20260101T000000Z.zip")
    machine.type(trial)
    with machine.root() as client:
        said = machine.type(compare.replace("root@", f"root:{machine.secret}@"))
        assert said.startswith("quartermaster 0\nquartermaster_trial 0\n")
        assert "quartermaster_trial" not in client.list_database_names()
        client["quartermaster"].players.insert_one(make_player())
        (backup,) = folder.iterdir()
        machine.type(restore, BACKUP=str(backup))
        assert client["quartermaster"].players.count_documents({}) == 0


@pytest.mark.everything
@needs_mongosh
def test_an_account_that_may_not_prepare_serves_what_is_prepared_and_nothing_else(machine):
    account = {"revokeRolesFromUser": "quartermaster", "roles": ["dbAdmin"]}
    current = machine.home / "opt/quartermaster"
    settings = {**machine.settings(), "ENV": "production", "WORKERS": "1"}
    with machine.root() as client:
        client["quartermaster"].command(account)
        with unit(current, **settings) as server:
            wait_until(server.is_ready, server.output)
        # As an older program left it: with other validators, and a lower number or none.
        client["quartermaster"].command("collMod", "players", validator={})
        client["quartermaster"]["schema"].delete_many({})
        with unit(current, **settings) as server:
            said = "whose account may not migrate it"
            wait_until(lambda: said in readiness(server), server.output)
            assert server.ask("POST", "/api/oauth/token", SIGN_IN)[0] == 503


@needs_promtool
def test_prometheus_understands_what_the_guide_gives_it(tmp_path):
    text = chapters()["Monitoring"]
    (configuration,) = [block for block in blocks(text) if block.startswith("rule_files")]
    (tmp_path / "prometheus.yml").write_text(configuration)
    shutil.copy(ROOT / "deploy" / "alerts.yaml", tmp_path / "quartermaster.yaml")
    subprocess.run([PROMTOOL, "check", "config", tmp_path / "prometheus.yml"], check=True)


@pytest.mark.everything
@needs_promtool
def test_alerts_are_raised_when_they_should_be_and_only_then():
    rules = ROOT / "tests" / "alerts_test.yaml"
    done = subprocess.run([PROMTOOL, "test", "rules", rules], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    names = re.findall(r"alert: (\w+)", (ROOT / "deploy" / "alerts.yaml").read_text())
    assert set(names) == set(re.findall(r"alertname: (\w+)", rules.read_text()))
