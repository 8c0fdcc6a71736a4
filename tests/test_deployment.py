"""What cannot run here, containers and systemd, is held to the letter of what does."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from app.__main__ import main
from config.base import Settings
from tests.guide import GUIDE, shell_blocks

ROOT = Path(__file__).parents[1]
NGINX = (ROOT / "config" / "nginx.conf").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
INSTRUCTIONS = [
    line.split(" ", 1)
    for line in re.sub(r"\\\n\s*|^\s*#.*\n", "", DOCKERFILE, flags=re.MULTILINE).splitlines()
    if line.strip()
]
IMAGE = dict(INSTRUCTIONS)
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
UNITS = sorted((ROOT / "deploy").glob("quartermaster*.*"))
SERVICE = (ROOT / "deploy" / "quartermaster.service").read_text()
SOCKET = "/run/quartermaster/quartermaster.sock"


# These hold no secret, and others must read them.
PUBLIC = {"/etc/apt/sources.list.d/mongodb-org-7.0.list", "/etc/mongod.conf"}
PUBLIC |= {"/etc/logrotate.d/mongod", "/etc/nftables.conf"}


def test_what_the_guide_writes_is_for_its_owner_alone():
    """A shell's > makes files that everybody can read; secrets, dumps and exports are none."""
    made = set(re.findall(r"^    install -m 600 /dev/null (\S+)", GUIDE, re.MULTILINE))
    blocks = [shell for shell in re.split(r"\n\n(?! )", GUIDE) if re.search(r"^    ", shell, re.M)]
    written = [(file, block) for block in blocks for file in re.findall(r"[^<&-]> (\S+)", block)]
    assert len(written) >= 5
    for file, block in written:
        is_masked = re.search(r"^    \(?umask 077", block, re.MULTILINE)
        assert is_masked or file.strip('")') in made | PUBLIC, file


def nginx_values(directive):
    """Return the values of a directive: of all requests, and of some locations."""
    return re.findall(rf"^\s*{directive} (\S+?)[ms]?;", NGINX, re.MULTILINE)


def test_the_limits_of_nginx_agree_with_the_settings():
    megabytes = [int(value) for value in nginx_values("client_max_body_size")]
    limits = [Settings.MAX_CONTENT_LENGTH, Settings.BATCH_CONTENT_LENGTH]
    # The last one is of the pages of errors, which no body reaches.
    assert megabytes == [*(limit // 2**20 for limit in limits), 0]
    # A plan may take minutes.
    usual, of_batches = map(int, nginx_values("proxy_read_timeout"))
    assert usual > Settings.WORKER_TIMEOUT_SECONDS
    assert of_batches >= 300
    # Each connection of a client takes one to the application, and both are files.
    (files,), (connections,) = map(nginx_values, ("worker_rlimit_nofile", "worker_connections"))
    assert int(files) >= 2 * int(connections)
    # No request can meet a connection that a stopping worker closes.
    assert nginx_values("proxy_set_header Connection") == ["close"]


def test_all_speak_of_one_socket_and_start_one_program():
    assert f"server unix:{SOCKET}" in NGINX
    assert f"ListenStream={SOCKET}" in (ROOT / "deploy/quartermaster.socket").read_text()
    assert f"QM_SOCKET={SOCKET}" in DOCKERFILE
    assert f"QM_SOCKET={SOCKET}" in SERVICE
    started = re.search(r"^ExecStart=(.*)", SERVICE, re.MULTILINE)[1].split()
    assert json.loads(IMAGE["CMD"]) == [Path(started[0]).name, *started[1:]]
    assert started[1:] == ["serve"]


def test_the_image_has_all_that_the_package_is_made_of_and_a_python_that_we_support():
    copied = {
        source
        for name, text in INSTRUCTIONS
        if name == "COPY" and "--from" not in text
        for source in text.split()[:-1]
    }
    let_in = (ROOT / ".dockerignore").read_text().splitlines()
    assert all((ROOT / source).exists() and f"!{source}" in let_in for source in copied)
    setup = (ROOT / "setup.cfg").read_text()
    packages = re.search(r"include =\n((?:    \S+\*\n)+)", setup)[1].replace("*", "").split()
    modules = [f"{name}.py" for name in re.search(r"py_modules = (.*)", setup)[1].split()]
    read = re.findall(r"(?:file:|license_files =) (\S+)", setup)
    assert {*packages, *modules, *read, "setup.cfg", "pyproject.toml"} <= copied
    images = {text.split()[0] for name, text in INSTRUCTIONS if name == "FROM"}
    (python,) = (re.match(r"python:(3\.\d+)-slim", image)[1] for image in images)
    assert f"Python :: {python}\n" in setup


def test_the_image_holds_no_secret_and_runs_as_nobody_special():
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", IMAGE["USER"])
    assert IMAGE["STOPSIGNAL"] == "SIGTERM"
    assert not re.search("SECRET|URI", IMAGE["ENV"])
    check = json.loads(IMAGE["HEALTHCHECK"].split("CMD ")[1])
    assert check == ["python", "/opt/quartermaster/healthcheck.py"]


def test_every_container_is_hardened():
    for name, service in COMPOSE["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in service, name
        assert name == "app" or int(service["user"].split(":")[0]) > 0, name
        assert not service["image"].endswith(":latest"), name
        assert ("ports" in service) == (name == "nginx"), name


def variables_of(example):
    return set(re.findall(r"^([A-Z_]+)=", (ROOT / "deploy" / example).read_text(), re.MULTILINE))


def test_compose_asks_for_what_its_examples_list_and_hands_the_program_no_password_of_mongodb():
    asked = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "compose.yaml").read_text()))
    assert asked == variables_of("compose.env.example")
    app, nginx = COMPOSE["services"]["app"], COMPOSE["services"]["nginx"]
    assert app["env_file"] == "app.env"
    assert all(name.startswith("QM_") for name in variables_of("app.env.example"))
    assert not any("ROOT" in str(value) for value in app["environment"].values())
    # Our files stand where nginx looks for them, and it may use the socket.
    assert "./config/nginx.conf:/etc/nginx/nginx.conf:ro" in nginx["volumes"]
    certificate = re.search(r"ssl_certificate (\S+)/fullchain.pem;", NGINX)[1]
    assert any(volume.endswith(f":{certificate}:ro") for volume in nginx["volumes"])
    group = IMAGE["USER"].split(":")[1]
    assert nginx["group_add"] == [group]
    assert f"gid={group}" in COMPOSE["volumes"]["socket"]["driver_opts"]["o"]


needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"),
    reason="systemd-analyze is not installed: apt-get install systemd",
)


@needs_systemd
def test_systemd_understands_the_units(tmp_path):
    for unit in UNITS:
        # The programs are where the guide puts them, which is not here.
        text = unit.read_text().replace("/opt/quartermaster/current/venv/bin/", "/bin/")
        text = text.replace("/bin/quartermaster", "/bin/true")
        text = text.replace("/opt/quartermaster/current", str(ROOT))
        (tmp_path / unit.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(tmp_path.iterdir())],
        capture_output=True,
        text=True,
    )
    ours = [line for line in done.stderr.splitlines() if "quartermaster" in line]
    assert (done.returncode, ours) == (0, [])


@needs_systemd
@pytest.mark.parametrize("unit", [u for u in UNITS if u.suffix == ".service"], ids=str)
def test_little_is_exposed(unit):
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", unit],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_the_lines_of_the_guide_are_lines_of_a_shell():
    for block in shell_blocks():
        done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), block
        # They name no version that would grow old, and no python: Debian has python3 alone.
        assert not re.search(r"(?:\bv|VERSION=|quartermaster[/-])\d+\.\d+\.\d+", block)
        assert not re.search(r"^(?:python|pip3?) ", block, re.MULTILINE)


def commands_in(text):
    """Yield the words of each call of the program."""
    flat = re.sub(r"\\\n\s*", "", text)
    for match in re.finditer(r"(?:\bqm |[\s/`]quartermaster )(\w[^`\n;)|<>]*)", flat):
        yield shlex.split(match[1])


def test_every_command_of_the_guide_exists():
    calls = [
        words
        for block in [*shell_blocks(), *re.findall(r"``.*?``", GUIDE)]
        for words in commands_in(f" {block}")
    ]
    assert len(calls) > 10
    for words in calls:
        command = main
        while isinstance(command, click.Group):
            assert words[:1], "the command is not complete"
            assert words[0] in command.commands, words
            command, words = command.commands[words[0]], words[1:]
        options = {name for option in command.params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= options
