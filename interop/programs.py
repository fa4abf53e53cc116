"""Programs that a case starts: their environment, logs, readiness and end.

All processes of a run are started here and ended by `Programs.stop`; nothing outlives it. Each
program's output goes to a file of its own in the run's folder; its end is shown when a case fails.
"""

import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path


def free_port():
    """A free TCP port of loopback; UDP on the same number is assumed to be free too."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Failed(Exception):
    """A failed case; the text has the reason, with the end of the program's log."""


class Program:
    """One child process that serves until `stop`."""

    def __init__(self, arguments, log, environment, stdin=None, stdout=None):
        self.log = Path(log)
        self.process = subprocess.Popen(
            [str(argument) for argument in arguments],
            stdin=stdin or subprocess.DEVNULL,
            stdout=stdout or open(self.log, "wb"),
            stderr=subprocess.STDOUT if stdout is None else open(self.log, "wb"),
            env=environment,
        )

    def output(self):
        return self.log.read_text(errors="replace")

    def wait_until(self, ready, seconds=10.0):
        """Waits until `ready()` is true; a program that ends before that has failed."""
        end = time.monotonic() + seconds
        while not ready():
            if self.process.poll() is not None:
                raise Failed(f"ended with {self.process.returncode}: {tail(self.output())}")
            if time.monotonic() > end:
                raise Failed(f"not ready after {seconds} s: {tail(self.output())}")
            time.sleep(0.02)
        return self

    def wait_for(self, pattern, seconds=10.0):
        return self.wait_until(lambda: re.search(pattern, self.output()), seconds)

    def ends_within(self, seconds):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self):
        """Sends SIGTERM, and SIGKILL to those that still run after 5 s."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode


class Programs:
    """All programs of one run, and the folder of their files."""

    def __init__(self, folder, tools):
        self.folder = Path(folder)
        self.tools = tools
        self.running = []
        self.count = 0

    def environment(self, transport):
        """NDN clients find their forwarder in NDN_CLIENT_TRANSPORT and their keys below HOME."""
        environment = dict(os.environ)
        for name in [name for name in environment if name.startswith("NDN_CLIENT_")]:
            del environment[name]
        environment.update(
            HOME=str(self.folder / "home"),
            NDNTS=str(self.tools.ndnts),
            PYTHONUNBUFFERED="1",
            XYLEM_NO_PROGRESS="1",
        )
        if transport:
            environment["NDN_CLIENT_TRANSPORT"] = transport
        return environment

    def file(self, name):
        """A new path in the run's folder."""
        self.count += 1
        return self.folder / f"{self.count:03}-{name}"

    def start(self, arguments, transport=None, stdin=None, stdout=None):
        log = self.file(Path(str(arguments[0])).name + ".log")
        program = Program(arguments, log, self.environment(transport), stdin, stdout)
        self.running.append(program)
        return program

    def run(self, arguments, transport=None, seconds=60.0, stdout=None):
        """Runs to the end; returns what it printed. Fails on any exit code but 0, and on a timeout."""
        program = self.start(arguments, transport, stdout=stdout)
        try:
            code = program.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"still running after {seconds} s: {tail(program.output())}") from None
        finally:
            self.stop(program)
        if code != 0:
            raise Failed(f"exit code {code}: {tail(program.output())}")
        return program.output()

    def stop(self, program):
        code = program.stop()
        if program in self.running:
            self.running.remove(program)
        return code

    def stop_all_but(self, kept):
        for program in [program for program in reversed(self.running) if program is not kept]:
            self.stop(program)

    def stop_all(self):
        for program in reversed(list(self.running)):
            self.stop(program)


def tail(text, characters=300):
    """The end of a log on one line."""
    return " | ".join(line.strip() for line in text[-characters:].splitlines() if line.strip())
