"""Starts the program by a fork of a process that has imported it already.

Importing costs a second of CPU, and the tests start the program, and the scripts of docs/examples,
more than a hundred times. What is forked is a process like the real one: it has its own pid,
session, environment, folder, files and signals, and ends as the interpreter ends. Only its command
line is that of the fork server, so a test that looks for processes by their command line starts the
real program.
"""

import atexit
import gc
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path

LONGEST_REQUEST = 128 * 1024


class ForkedProcess:
    """A forked program, with the methods of subprocess.Popen that the tests use."""

    def __init__(self, report):
        self._report = report
        self.pid = int(report.readline())
        self.returncode = None

    def poll(self):
        if self.returncode is None and select.select([self._report], [], [], 0)[0]:
            self._read_returncode()
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._report], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked program", timeout)
            self._read_returncode()
        return self.returncode

    def _read_returncode(self):
        self.returncode = int(self._report.readline())
        self._report.close()

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The fork server of this process. It ends when the socket between them is closed."""

    def __init__(self):
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=Path(__file__).parents[2],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the tests
            )
        atexit.register(self.close)

    def start(self, arguments, env, standard, **limits):
        request = {"arguments": arguments, "env": env, "cwd": str(Path.cwd()), **limits}
        message = json.dumps(request).encode()
        assert len(message) < LONGEST_REQUEST
        read_end, write_end = os.pipe()
        socket.send_fds(self._control, [message], [*standard, write_end])
        os.close(write_end)
        return ForkedProcess(os.fdopen(read_end))

    def close(self):
        self._control.close()
        self._process.wait()


fork_server = cache(ForkServer)


def start(arguments, env, log, **limits):
    """Start the program in a session of its own, perhaps with other limits of open files."""
    with Path(os.devnull).open("rb") as nothing:
        standard = [nothing.fileno(), log.fileno(), log.fileno()]
        return fork_server().start(arguments, env, standard, **limits)


def run(arguments, env, stdin="", timeout=None):
    """Run the program to its end, as subprocess.run does with captured output."""
    with ExitStack() as stack:
        given, output, errors = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin.encode())
        given.seek(0)
        standard = [file.fileno() for file in (given, output, errors)]
        process = fork_server().start(arguments, env, standard)
        try:
            returncode = process.wait(timeout)
        finally:
            process.kill()
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(arguments, returncode, *texts)


def serve_forks(control):
    """Fork for each request. Returns in the forked program alone, ready to run."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, LONGEST_REQUEST, 4)
        if not message:
            sys.exit()
        if os.fork() == 0:
            control.close()
            begin(json.loads(message), descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def begin(request, descriptors):
    """Fork once more, so that somebody is left to tell the tests how the program ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, report = descriptors
    if pid := os.fork():
        for descriptor in (0, 1, 2, *standard):
            os.close(descriptor)
        os.write(report, b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    os.close(report)
    os.setsid()
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww")
    )
    if files := request.get("files"):
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["arguments"]


def run_program():
    """Run the program, or a script that was asked for in its place."""
    if sys.argv[0].endswith(".py"):
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        main()


def prepare():
    """Do once what every program would otherwise do again."""
    import requests  # noqa: F401 (for scripts that ask the service)

    import tests.url_builders  # noqa: F401 (for its effect)
    from app import create_app
    from app.__main__ import _offline_settings
    from app.storage.client import Storage
    from tests.applications import service

    # Its paths stay compiled. No connection is opened, so no thread runs that a fork would lose.
    service(create_app(_offline_settings()), Storage).close()
    # When it ends, a program would look through all that was imported: a quarter of a second.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from app.__main__ import main

    prepare()
    # Nobody waits for those who wait for the programs.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    serve_forks(socket.socket(fileno=int(sys.argv[1])))
    run_program()
