"""Processes on two sides of a transfer: started, waited for, measured with all their children.

`Side` holds all processes of one side (a server and its children). Processor time is that of live
processes and of children they have waited for. Memory is the largest sum, over samples 0.05 s apart,
of the peaks of the processes that live together (VmHWM). Linux only: it reads /proc.
"""

import glob
import os
import pathlib
import select
import signal
import socket
import subprocess
import threading
import time

TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_SECONDS = 0.05


class Failed(Exception):
    """A program failed at its task."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def stat_fields(pid):
    """Fields of /proc/PID/stat after the name; None when the process is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rsplit(")", 1)[1].split()


def descendants(roots):
    """`roots` and every live process below them."""
    found, todo = [], list(roots)
    while todo:
        pid = todo.pop()
        found.append(pid)
        for children in glob.glob(f"/proc/{pid}/task/*/children"):
            try:
                todo += [int(child) for child in pathlib.Path(children).read_text().split()]
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def peak_kib(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1])
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def line_with(process, stream, wanted, seconds=120):
    """The first line of `stream` that contains `wanted`, as text; Failed if none comes."""
    deadline, held = time.monotonic() + seconds, b""
    while time.monotonic() < deadline:
        if not select.select([stream], [], [], 0.5)[0]:
            continue
        piece = os.read(stream.fileno(), 65_536)
        if not piece:
            break
        *lines, held = (held + piece).split(b"\n")
        for line in lines:
            if wanted in line:
                return line.decode()
    raise Failed(f"{process.args[0]} ended or was silent before it was ready")


class Side:
    """The processes of one side."""

    def __init__(self, folder, environment=None):
        self.folder = str(folder)
        self.environment = dict(os.environ, HOME=self.folder, **(environment or {}))
        self.processes = []
        self.ended_cpu = 0.0
        self.peak = 0

    def start(self, command, **kwargs):
        kwargs.setdefault("stdout", subprocess.DEVNULL)
        kwargs.setdefault("stderr", subprocess.DEVNULL)
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        kwargs.setdefault("cwd", self.folder)
        environment = dict(self.environment, **kwargs.pop("environment", {}))
        process = subprocess.Popen(
            [str(part) for part in command], env=environment, start_new_session=True, **kwargs
        )
        self.processes.append(process)
        return process

    def serve(self, command, port=None, seconds=30, **kwargs):
        """Starts a server and waits until `port` accepts connections."""
        process = self.start(command, **kwargs)
        deadline = time.monotonic() + seconds
        while port is not None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{command[0]} does not listen (exit {process.poll()})")
            time.sleep(0.01)
        return process

    def cpu(self):
        """Processor seconds so far."""
        total = self.ended_cpu
        for pid in descendants(p.pid for p in self.processes if p.returncode is None):
            if fields := stat_fields(pid):
                total += sum(int(field) for field in fields[11:15]) / TICKS
        return total

    def sample(self):
        pids = descendants(p.pid for p in self.processes if p.returncode is None)
        self.peak = max(self.peak, sum(peak_kib(pid) for pid in pids))

    def finish(self, process, seconds):
        """Waits for a process of this side; returns its exit code; Failed if that takes too long."""
        deadline = time.monotonic() + seconds
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                self.ended_cpu += usage.ru_utime + usage.ru_stime
                # A process's peak includes the memory of its parent when it was started: this program.
                if usage.ru_maxrss > peak_kib(os.getpid()):
                    self.peak = max(self.peak, usage.ru_maxrss)
                return process.returncode
            if time.monotonic() > deadline:
                raise Failed(f"{process.args[0]} took longer than {seconds} s")
            time.sleep(0.001)

    def stop(self):
        """Ends all running processes, with all of their children."""
        for process in self.processes:
            for how in (signal.SIGTERM, signal.SIGKILL):
                if process.poll() is not None:
                    break
                try:
                    os.killpg(process.pid, how)
                    process.wait(5)
                except ProcessLookupError:
                    break
                except subprocess.TimeoutExpired:
                    continue
        self.processes = []


class Sampler:
    """Samples the memory of some sides, until the end of the block."""

    def __init__(self, sides):
        self.sides = sides
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.over.wait(SAMPLE_SECONDS):
            for side in self.sides:
                side.sample()

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
