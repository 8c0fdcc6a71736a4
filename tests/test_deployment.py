"""What cannot run here, containers and systemd, is held to the letter of what does."""

from __future__ import annotations

import json
import os
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


# nginx


def nginx_value(directive):
    return re.search(rf"^\s*{directive} (\S+);", NGINX, re.MULTILINE)[1]


def batch_value(directive):
    """Return a value of the location that the rows of a batch go to, and nothing else does."""
    paths = r"location ~ \^/\(api/v1\|console\)/batches/\?\$ \{(.*?)\}"
    (location,) = re.findall(paths, NGINX, re.DOTALL)
    return re.search(rf"{directive} (\S+);", location)[1]


def test_the_limits_of_nginx_agree_with_the_settings():
    assert nginx_value("client_max_body_size") == f"{Settings.MAX_CONTENT_LENGTH // 2**20}m"
    assert float(nginx_value("proxy_read_timeout")[:-1]) > Settings.WORKER_TIMEOUT_SECONDS
    assert batch_value("client_max_body_size") == f"{Settings.BATCH_CONTENT_LENGTH // 2**20}m"
    # A plan may take minutes.
    assert float(batch_value("proxy_read_timeout")[:-1]) >= 300


def test_no_request_can_meet_a_connection_that_a_stopping_worker_closes():
    upstream = re.search(r"upstream quartermaster \{(.*?)\}", NGINX, re.DOTALL)[1]
    assert not re.search(r"^\s*keepalive", upstream, re.MULTILINE)
    assert nginx_value("proxy_set_header Connection") == "close"


def test_all_speak_of_one_socket():
    assert f"server unix:{SOCKET}" in NGINX
    assert f"QM_SOCKET={SOCKET}" in DOCKERFILE
    assert f"QM_SOCKET={SOCKET}" in SERVICE
    assert f"ListenStream={SOCKET}" in (ROOT / "deploy" / "quartermaster.socket").read_text()


# Docker


def instructions():
    """Yield the instructions of the Dockerfile, each with its text."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    return [line.split(" ", 1) for line in joined.splitlines() if line.strip()]


def test_the_image_is_built_from_files_that_exist_and_are_let_in():
    let_in = (ROOT / ".dockerignore").read_text().splitlines()
    for name, text in instructions():
        if name == "COPY" and "--from" not in text:
            for source in text.split()[:-1]:
                assert (ROOT / source).exists()
                assert f"!{source}" in let_in


def test_the_image_has_all_that_the_package_is_made_of():
    copied = {s for name, text in instructions() if name == "COPY" for s in text.split()[:-1]}
    setup = (ROOT / "setup.cfg").read_text()
    packages = re.search(r"include =\n((?:    \S+\*\n)+)", setup)[1].replace("*", "").split()
    modules = [f"{name}.py" for name in re.search(r"py_modules = (.*)", setup)[1].split()]
    read = re.findall(r"file: (\S+)", setup) + re.findall(r"license_files = (\S+)", setup)
    assert {*packages, *modules, *read, "setup.cfg", "pyproject.toml"} <= copied


def test_the_image_has_a_python_that_we_support():
    supported = re.findall(r"Python :: (3\.\d+)", (ROOT / "setup.cfg").read_text())
    images = {text.split()[0] for name, text in instructions() if name == "FROM"}
    assert len(images) == 1
    assert re.match(r"python:(3\.\d+)-slim", images.pop())[1] in supported


def test_container_and_unit_run_the_program_that_the_tests_run():
    (command,) = [json.loads(text) for name, text in instructions() if name == "CMD"]
    started = re.search(r"^ExecStart=(.*)", SERVICE, re.MULTILINE)[1].split()
    assert command == [Path(started[0]).name, *started[1:]] == ["quartermaster", "serve"]


def test_the_image_holds_no_secret_and_runs_as_nobody_special():
    parts = dict(instructions())
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", parts["USER"])
    assert parts["STOPSIGNAL"] == "SIGTERM"
    assert "SECRET" not in parts["ENV"]
    assert "URI" not in parts["ENV"]
    check = json.loads(parts["HEALTHCHECK"].split("CMD ")[1])
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


def test_compose_asks_for_nothing_that_its_example_does_not_list():
    asked = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "compose.yaml").read_text()))
    example = (ROOT / "deploy" / "compose.env.example").read_text()
    assert asked == set(re.findall(r"^([A-Z_]+)=", example, re.MULTILINE))


def test_the_program_in_its_container_gets_any_setting_and_no_password_of_mongodb():
    app = COMPOSE["services"]["app"]
    assert app["env_file"] == "app.env"
    example = (ROOT / "deploy" / "app.env.example").read_text()
    assert all(name.startswith("QM_") for name in re.findall(r"^([A-Z_]+)=", example, re.M))
    assert not any("ROOT" in str(value) for value in app["environment"].values())


def test_compose_mounts_our_files_where_nginx_looks_for_them():
    nginx = COMPOSE["services"]["nginx"]
    assert "./config/nginx.conf:/etc/nginx/nginx.conf:ro" in nginx["volumes"]
    certificate = re.search(r"ssl_certificate (\S+)/fullchain.pem;", NGINX)[1]
    assert any(volume.endswith(f":{certificate}:ro") for volume in nginx["volumes"])
    group = dict(instructions())["USER"].split(":")[1]
    assert nginx["group_add"] == [group]
    assert f"gid={group}" in COMPOSE["volumes"]["socket"]["driver_opts"]["o"]


# systemd

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


def test_scripts_can_run():
    for name in ("backup", "backup-note", "qm"):
        path = ROOT / "deploy" / name
        assert os.access(path, os.X_OK), name
        subprocess.run(["sh", "-n", path], check=True)


# Debian has no python, only python3, and its pip installs into virtual environments alone.


def test_no_line_needs_a_python_that_debian_has_not():
    for name in ("README.rst", "docs/deploy.rst", "docs/tooling.rst"):
        text = (ROOT / name).read_text()
        assert re.findall(r"^ +(?:\$ )?(?:python|pip3?) .*", text, re.MULTILINE) == [], name


# docs/deploy.rst


def test_the_lines_of_the_guide_are_lines_of_a_shell():
    for block in shell_blocks():
        done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), block


def test_the_guide_names_no_version_that_would_grow_old():
    typed = "\n".join(shell_blocks())
    assert re.findall(r"(?:\bv|VERSION=|quartermaster[/-])\d+\.\d+\.\d+", typed) == []
    assert "git clone" not in typed


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
        assert_is_a_command(main, words)


def assert_is_a_command(command, words):
    while isinstance(command, click.Group):
        assert words, "the command is not complete"
        assert words[0] in command.commands, words
        command, words = command.commands[words[0]], words[1:]
    options = {name for option in command.params for name in option.opts}
    assert {word for word in words if word.startswith("--")} <= options
