"""Programs that move a file or a directory from one process to another over loopback.

Each `Mover` starts its serving side, until it is ready (`serve`), and gives the commands of the receiving
side (`fetch`). Work of a program before it is ready (hashing, packing) does not count towards the time,
for all of them.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time

from processes import Failed, free_port, line_with

HERE = pathlib.Path(__file__).resolve().parent


class Mover:
    """One program; `source` is a file or directory, `work` a folder of this run, `out` where the copy goes."""

    name = ""
    # Whether bytes are hidden from the network, and whether a wrong byte would be detected.
    encrypted = False
    verifies = False
    needs = ()
    files = True
    directories = True

    def __init__(self, options, source, work):
        self.options = options
        self.source = pathlib.Path(source)
        self.work = pathlib.Path(work)
        self.out = self.work / "out"
        self.out.mkdir()
        self.port = free_port()

    @classmethod
    def missing(cls, options):
        """The reason for which it cannot run here, or None."""
        absent = [name for name in cls.needs if not options.find(name)]
        return f"not installed: {', '.join(absent)}" if absent else None

    @property
    def copy(self):
        """The path of the copy afterwards."""
        return self.out / self.source.name

    def program(self, name):
        return self.options.find(name)

    def serve(self, side):
        pass

    def fetch(self):
        """The receiver's command, and the arguments of its start."""
        raise NotImplementedError


class Xylem(Mover):
    name = "xylem"
    encrypted = verifies = True
    plain = None

    def serve(self, side):
        command = [self.options.xylem, "--store", self.work / "store-a", "-q", "share", self.source]
        command += ["--listen", "127.0.0.1:0"]
        if self.plain:
            command += ["--plain-listen", f"127.0.0.1:{self.port}"]
        process = side.serve(command, self.port if self.plain else None, stdout=subprocess.PIPE)
        self.ticket = line_with(process, process.stdout, b"xylem:")

    def fetch(self):
        command = [self.options.xylem, "--store", self.work / "store-b", "-q", "get", self.ticket]
        if self.plain:
            command += ["--from", f"{self.plain}://127.0.0.1:{self.port}"]
        return [*command, "-o", self.copy], {}


class XylemTcp(Xylem):
    name, encrypted, plain = "xylem --plain, TCP", False, "tcp"


class XylemUdp(Xylem):
    name, encrypted, plain = "xylem --plain, UDP", False, "udp"


class Copy(Mover):
    name = "cp"
    needs = ("cp",)

    def fetch(self):
        return ["cp", "-r", self.source, self.copy], {}


class CopyAndSum(Mover):
    name = "cp, then b3sum"
    needs = ("cp", "b3sum")

    def fetch(self):
        script = 'cp -r "$0" "$1" && find "$1" -type f -print0 | xargs -0 -n 20000 "$2" > /dev/null'
        return ["sh", "-c", script, self.source, self.copy, self.program("b3sum")], {}


class Socat(Mover):
    name = "socat, plain TCP"
    needs = ("socat", "tar")

    def serve(self, side):
        if self.source.is_dir():
            source = f"SYSTEM:tar cf - -C {self.source.parent} {self.source.name}"
        else:
            source = f"OPEN:{self.source},rdonly"
        command = ["socat", "-u", "-b", "65536", source]
        side.start([*command, f"TCP-LISTEN:{self.port},bind=127.0.0.1,reuseaddr"])
        # It takes one connection, so it cannot be tried: wait until the kernel lists the port.
        wanted = f"0100007F:{self.port:04X} 00000000:0000 0A"
        deadline = time.monotonic() + 10
        while wanted not in pathlib.Path("/proc/net/tcp").read_text():
            if time.monotonic() > deadline:
                raise Failed("socat does not listen")
            time.sleep(0.01)

    def fetch(self):
        target = f"CREATE:{self.copy}"
        if self.source.is_dir():
            target = f"SYSTEM:tar xf - -C {self.out}"
        return ["socat", "-u", "-b", "65536", f"TCP:127.0.0.1:{self.port}", target], {}


class RsyncDaemon(Mover):
    name = "rsync daemon"
    verifies = True
    needs = ("rsync",)

    def serve(self, side):
        config = self.work / "rsyncd.conf"
        config.write_text(
            f"use chroot = no\nuid = {os.getuid()}\ngid = {os.getgid()}\n[m]\npath = {self.source.parent}\nread only = yes\n"
        )
        command = ["rsync", "--daemon", "--no-detach", f"--config={config}"]
        side.serve([*command, "--address=127.0.0.1", f"--port={self.port}"], self.port)

    def fetch(self):
        module = f"rsync://127.0.0.1:{self.port}/m/{self.source.name}"
        return ["rsync", "-a", module, f"{self.out}/"], {}


class Ssh(Mover):
    """A server of our own on loopback, with keys made for this run."""

    encrypted = verifies = True
    needs = ("sshd", "ssh", "ssh-keygen")

    def serve(self, side):
        for name in ("host", "user"):
            key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.work / name)]
            subprocess.run(key, check=True, stdin=subprocess.DEVNULL)
        if os.getuid() == 0:
            pathlib.Path("/run/sshd").mkdir(exist_ok=True)  # its directory for privilege separation
        config = self.work / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.work}/host\nPidFile none\n"
            f"AuthorizedKeysFile {self.work}/user.pub\nStrictModes no\nUsePAM no\n"
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\n"
            "Subsystem sftp internal-sftp\nCiphers +aes128-gcm@openssh.com\n"
        )
        side.serve([self.program("sshd"), "-D", "-f", config], self.port)

    def client(self):
        options = "StrictHostKeyChecking=no UserKnownHostsFile=/dev/null IdentitiesOnly=yes"
        options += " BatchMode=yes LogLevel=ERROR"
        return ["-F", "none", "-i", f"{self.work}/user"] + [f"-o{o}" for o in options.split()]

    def host(self):
        import getpass

        return f"{getpass.getuser()}@127.0.0.1"


class RsyncSsh(Ssh):
    name = "rsync over ssh"
    needs = ("rsync", *Ssh.needs)

    def fetch(self):
        shell = " ".join(["ssh", "-p", str(self.port), *self.client()])
        return ["rsync", "-a", "-e", shell, f"{self.host()}:{self.source}", f"{self.out}/"], {}


class ScpAes(Ssh):
    name = "scp, AES-128-GCM"
    needs = ("scp", *Ssh.needs)
    cipher = "aes128-gcm@openssh.com"

    def fetch(self):
        command = ["scp", "-q", "-r", "-c", self.cipher, "-P", str(self.port), *self.client()]
        return [*command, f"{self.host()}:{self.source}", f"{self.out}/"], {}


class ScpChaCha(ScpAes):
    name = "scp, ChaCha20"
    cipher = "chacha20-poly1305@openssh.com"


class Sendme(Mover):
    name = "sendme (iroh)"
    encrypted = verifies = True
    needs = ("sendme",)

    def serve(self, side):
        command = [self.program("sendme"), "send", "--no-progress", "--relay", "disabled"]
        process = side.start(
            [*command, "--ticket-type", "addresses", self.source], stdout=subprocess.PIPE
        )
        self.ticket = line_with(process, process.stdout, b"sendme receive ").split()[-1]

    def fetch(self):
        command = [self.program("sendme"), "receive", "--no-progress", "--relay", "disabled"]
        return [*command, self.ticket], {"cwd": self.out}


class Croc(Mover):
    name = "croc"
    encrypted = verifies = True
    needs = ("croc",)
    code = "1234-loop-back-bench"

    def serve(self, side):
        croc, ports = self.program("croc"), []
        while len(set(ports)) < 5:
            ports.append(free_port())
        relay = [croc, "relay", "--host", "127.0.0.1", "--ports", ",".join(map(str, ports))]
        side.serve(relay, ports[-1])
        self.relay = f"127.0.0.1:{ports[0]}"
        command = [croc, "--relay", self.relay, "--ignore-stdin", "--disable-clipboard", "send"]
        process = side.start(
            [*command, "--no-local", self.source],
            environment={"CROC_SECRET": self.code},
            stderr=subprocess.PIPE,
        )
        # It has hashed by then; no output shows when it has joined the relay's room.
        line_with(process, process.stderr, b"Code is")
        time.sleep(2)

    def fetch(self):
        command = [self.program("croc"), "--yes", "--relay", self.relay, "--out", self.out]
        command += ["--ignore-stdin", "--disable-clipboard"]
        return command, {"environment": {"CROC_SECRET": self.code}}


class Rclone(Mover):
    name = "rclone serve http"
    needs = ("rclone",)

    def serve(self, side):
        command = [self.program("rclone"), "--config", "/dev/null", "serve", "http"]
        side.serve([*command, "--addr", f"127.0.0.1:{self.port}", self.source.parent], self.port)

    def fetch(self):
        what = "copy" if self.source.is_dir() else "copyto"
        command = [self.program("rclone"), "--config", "/dev/null", what, "--http-url"]
        return [*command, f"http://127.0.0.1:{self.port}", f":http:{self.source.name}", self.copy], {}


class BitTorrent(Mover):
    name = "libtorrent, BitTorrent v2"
    verifies = True

    @classmethod
    def missing(cls, options):
        return None if options.python_with("libtorrent") else "not installed: libtorrent (PyPI)"

    def serve(self, side):
        self.torrent = self.work / "bench.torrent"
        script = [self.options.python_with("libtorrent"), HERE / "torrent.py"]
        process = side.start([*script, "seed", self.source, self.torrent, str(self.port)])
        while not self.torrent.exists():
            if process.poll() is not None:
                raise Failed("the seed ended")
            time.sleep(0.02)

    def fetch(self):
        script = [self.options.python_with("libtorrent"), HERE / "torrent.py"]
        return [*script, "fetch", self.torrent, self.out, str(self.port)], {}


class Wormhole(Mover):
    name = "magic-wormhole"
    encrypted = verifies = True
    needs = ("wormhole", "twist")
    code = "7-loop-back"

    def serve(self, side):
        twist, mailbox, transit = self.program("twist"), free_port(), free_port()
        command = [twist, "wormhole-mailbox", f"--port=tcp:{mailbox}:interface=127.0.0.1"]
        side.serve([*command, f"--channel-db={self.work}/mailbox.sqlite"], mailbox)
        side.serve([twist, "transitrelay", f"--port=tcp:{transit}:interface=127.0.0.1"], transit)
        self.command = [self.program("wormhole"), "--relay-url", f"ws://127.0.0.1:{mailbox}/v1"]
        self.command += ["--transit-helper", f"tcp:127.0.0.1:{transit}"]
        send = ["send", "--hide-progress", "--code", self.code, self.source]
        process = side.start([*self.command, *send], stderr=subprocess.PIPE)
        line_with(process, process.stderr, b"wormhole receive")

    def fetch(self):
        receive = ["receive", "--accept-file", "--hide-progress", "-o", self.copy, self.code]
        return [*self.command, *receive], {"cwd": self.out}


class Ndnd(Mover):
    name = "ndnd put, cat"
    verifies = True
    needs = ("ndnd",)
    directories = False
    prefix = "/bench/object"

    def serve(self, side):
        config, path = self.work / "fw.yml", f"/tmp/xylem-bench-{os.getpid()}.sock"
        config.write_text(
            "core: { log_level: WARN }\nfaces:\n"
            "  udp: { enabled_unicast: false, enabled_multicast: false }\n"
            "  tcp: { enabled: false }\n  websocket: { enabled: false }\n"
            f"  unix: {{ enabled: true, socket_path: {path} }}\nfw: {{ threads: 2 }}\n"
        )
        self.transport = {"NDN_CLIENT_TRANSPORT": f"unix://{path}"}
        side.start([self.program("ndnd"), "fw", "run", config])
        for _ in range(500):
            if os.path.exists(path):
                break
            time.sleep(0.01)
        with open(self.source, "rb") as content:
            process = side.start(
                [self.program("ndnd"), "put", self.prefix],
                stdin=content,
                stderr=subprocess.PIPE,
                environment=self.transport,
            )
        line_with(process, process.stderr, b"Registered route")

    def fetch(self):
        command = [self.program("ndnd"), "cat", self.prefix]
        return command, {"environment": self.transport, "stdout": open(self.copy, "wb")}


MOVERS = [
    Xylem, XylemTcp, XylemUdp, RsyncDaemon, RsyncSsh, ScpAes, ScpChaCha, Sendme, Croc, Wormhole,
    Rclone, BitTorrent, Ndnd, Socat, Copy, CopyAndSum,
]  # fmt: skip


def find(name, folders):
    """A program in one of `folders`, on the PATH, or where systems keep daemons."""
    for folder in folders:
        candidate = os.path.join(folder, name)
        if os.access(candidate, os.X_OK):
            return candidate
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")


def python_with(module, candidates):
    """An interpreter that has `module`, or None."""
    for python in [*candidates, sys.executable]:
        if os.access(python, os.X_OK):
            probe = subprocess.run(
                [python, "-c", f"import {module}"], capture_output=True, check=False
            )
            if probe.returncode == 0:
                return python
    return None
