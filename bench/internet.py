"""Hosts in network namespaces, behind NATs, on one slow network, for the programs of bench/reach.py.

The network in the middle, and kinds of NAT that this kernel lacks (full cone, address-restricted,
hairpin, forgetful), are `xylem-relay internet`, which a namespace's TUN device leads to; `nft` and
`nft-random` are this kernel's own masquerading, in a namespace between. `probe` measures a NAT's
behaviour with plain sockets, to confirm its name.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

from networks import at_once, first, namespace, sh

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)

# The public network: a relay with a second address, the two sides.
RELAY, RELAY_TOO, RELAY_SIX = "20.0.0.1", "20.0.0.2", "2a00:20::1"

PORT_RESTRICTED = {"filter": "port"}
# Settings of a `xylem-relay internet` box for each kind of NAT.
BOXES = {
    "full cone": {"filter": "none"},
    "address-restricted": {"filter": "address"},
    "port-restricted": PORT_RESTRICTED,
    "symmetric": {"filter": "port", "symmetric": True, "random": True},
    "no UDP": {"filter": "port", "no_udp": True},
    "IPv6 only": {"filter": "port"},
}
# Every kind of place of a host.
KINDS = ["open", *BOXES, "two NATs", "nft", "nft-random"]

NFT = """
table ip nat {{
  chain out {{
    type nat hook postrouting priority 100
    oifname "tun" masquerade {how}
  }}
}}
table inet filter {{
  chain input {{
    type filter hook input priority 0; policy drop
    iifname "lo" accept
    ct state established accept
  }}
  chain forward {{
    type filter hook forward priority 0; policy drop
    iifname "lan" accept
    ct state established,related accept
  }}
}}
"""


def end_all():
    """Ends all programs in this process's networks, and removes these, for an immediate exit whatever other
    threads do."""
    prefix = f"xr{os.getpid()}-"
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    for name in [line.split()[0] for line in listed.splitlines() if line.startswith(prefix)]:
        inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout
        for pid in inside.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        subprocess.run(["ip", "netns", "del", name], check=False)


class Internet:
    """One network; closing it removes everything."""

    number = 0
    lock = threading.Lock()

    def __init__(self, program, round_trip, seed=1, rate=0):
        with Internet.lock:
            Internet.number += 1
            self.prefix = f"xr{os.getpid()}-{Internet.number}"
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(10)
        command = [program, "internet", "--delay", str(round_trip / 2), "--seed", str(seed)]
        if rate:
            command += ["--rate", str(rate), "--queue", str(int(rate * 1e6 / 8 * 0.1))]
        self.process = subprocess.Popen(command, stdin=theirs, preexec_fn=at_once)
        theirs.close()
        self.devices, self.namespaces, self.processes = [], [], []

    def tell(self, what, device=None, **told):
        """Sends one command; returns its answer."""
        message = [json.dumps({"do": what, **told}).encode()]
        socket.send_fds(self.control, message, [] if device is None else [device])
        answer = json.loads(self.control.recv(1 << 18))
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(f"{what} {told}: {answer['error']}")
        return answer

    def name(self, host):
        return f"{self.prefix}{host}"

    def host(self, host, addresses, behind=None):
        """Adds a namespace, known to the network as `host`."""
        masks = [f"{address}/{64 if ':' in address else 24}" for address in addresses]
        name = self.name(host)
        self.namespaces.append(name)
        self.devices.append(namespace(name, masks))
        self.route(name, addresses)
        self.tell("host", self.devices[-1], name=host, behind=behind, addresses=addresses)

    def route(self, name, addresses):
        if any(":" not in address for address in addresses):
            sh("ip", "-n", name, "route", "replace", "default", "dev", "tun")
        if any(":" in address for address in addresses):
            sh("ip", "-n", name, "-6", "route", "replace", "default", "dev", "tun")

    def box(self, name, kind, address, behind=None, **more):
        behaviour = {**(BOXES[kind] if isinstance(kind, str) else kind), **more}
        self.tell("box", name=name, behind=behind, address=address, behaviour=behaviour)

    def router(self, host, how, public, inside):
        """This kernel's own NAT: a namespace between the network and the host's."""
        router = host + "r"
        self.host(router, [public])
        name, outer = self.name(host), self.name(router)
        sh("ip", "netns", "add", name)
        self.namespaces.append(name)
        sh("ip", "link", "add", "lan", "netns", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
        subprocess.run(
            ["ip", "netns", "exec", outer, "nft", "-f", "-"], input=NFT.format(how=how), text=True, check=True
        )
        gateway = inside.rsplit(".", 1)[0] + ".1"
        for where, device, address in [(outer, "lan", gateway), (name, "eth0", inside)]:
            sh("ip", "-n", where, "addr", "add", f"{address}/24", "dev", device)
            sh("ip", "-n", where, "link", "set", device, "up")
        sh("ip", "-n", name, "link", "set", "lo", "up")
        sh("ip", "-n", name, "route", "add", "default", "via", gateway)
        sh("ip", "netns", "exec", outer, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")

    def counts(self):
        """(from, to) → packets, bytes, number of large ones, and when they became content; since the last call."""
        counts = {}
        for row in self.tell("counts"):
            # A kernel router stands for the host behind it.
            ends = row["from"].removesuffix("r"), row["to"].removesuffix("r")
            counts[ends] = row
        return counts

    def start(self, host, command, environment=None, **kwargs):
        """Starts a program on a host."""
        for stream in ("stdin", "stdout", "stderr"):
            kwargs.setdefault(stream, subprocess.DEVNULL)
        words = ["ip", "netns", "exec", self.name(host), *map(str, command)]
        environment = dict(os.environ, **(environment or {}))
        process = subprocess.Popen(words, preexec_fn=first, env=environment, **kwargs)
        self.processes.append(process)
        return process

    def socket(self, host, kind=socket.SOCK_DGRAM, family=socket.AF_INET, address=""):
        """A socket on a host."""
        made = []

        def make():
            with open(f"/run/netns/{self.name(host)}") as file:
                if LIBC.setns(file.fileno(), CLONE_NEWNET) != 0:
                    return
            one = socket.socket(family, kind)
            one.bind((address, 0))
            made.append(one)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if not made:
            raise RuntimeError(f"no socket on {host}")
        return made[0]

    def close(self):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        self.control.close()
        self.process.wait(10)
        for device in self.devices:
            os.close(device)
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Place:
    """The place of a host; `moved` gives it another public address, as another household would have."""

    def __init__(self, internet, host, kind, public, inside, box=None):
        self.internet, self.host, self.kind, self.public, self.inside = internet, host, kind, public, inside
        self.box = host + "b"
        self.six = f"2a00:{public.split('.')[0]}::{inside.rsplit('.', 1)[1]}"
        if kind == "open":
            internet.host(host, [public])
        elif kind in ("nft", "nft-random"):
            internet.router(host, "random,fully-random" if kind == "nft-random" else "", public, inside)
        elif kind == "two NATs":
            internet.box(self.box, PORT_RESTRICTED, public, **(box or {}))
            internet.box(host + "c", PORT_RESTRICTED, f"100.64.0.{inside.rsplit('.', 1)[1]}", self.box)
            internet.host(host, [inside], host + "c")
        else:
            internet.box(self.box, kind, public, **(box or {}))
            internet.host(host, [self.six if kind == "IPv6 only" else inside], self.box)

    def moved(self, number):
        first_of = self.public.split(".")[0]
        self.public = f"{first_of}.{1 + number // 250}.{number % 250}.1"
        if self.kind == "open" or self.kind.startswith("nft"):
            host = self.host if self.kind == "open" else self.host + "r"
            name = self.internet.name(host)
            # Masquerading drops its mappings when the address goes.
            sh("ip", "-n", name, "addr", "flush", "dev", "tun")
            sh("ip", "-n", name, "addr", "add", f"{self.public}/24", "dev", "tun")
            self.internet.route(name, [self.public])
            self.internet.tell("move", name=host, addresses=[self.public])
        elif self.kind == "IPv6 only":
            name = self.internet.name(self.host)
            sh("ip", "-n", name, "-6", "addr", "flush", "dev", "tun", "scope", "global")
            self.six = f"2a00:{first_of}:{number:x}::2"
            sh("ip", "-n", name, "-6", "addr", "add", f"{self.six}/64", "dev", "tun", "nodad")
            self.internet.route(name, [self.six])
            self.internet.tell("move", name=self.host, addresses=[self.six])
            self.internet.tell("move", name=self.box, addresses=[self.public])
        else:
            self.internet.tell("move", name=self.box, addresses=[self.public])


def middle(internet, *more):
    """The host that all others reach."""
    internet.host("relay", [RELAY, RELAY_SIX, *more])


def arrive(sock, seconds):
    """Datagrams that arrive until none comes for this long: a list of (payload, from)."""
    sock.settimeout(seconds)
    came = []
    with contextlib.suppress(TimeoutError):
        while True:
            came.append(sock.recvfrom(2_000))
    return came


def probe(internet, place):
    """A NAT's behaviour as measured by sockets: mapping, filter, whether UDP and TCP pass, milliseconds."""
    six = place.kind == "IPv6 only"
    family = socket.AF_INET6 if six else socket.AF_INET
    ours = [RELAY_SIX] if six else [RELAY, RELAY_TOO]
    servers = [internet.socket("relay", family=family, address=address) for address in ours]
    # The same address from another port.
    servers.append(internet.socket("relay", family=family, address=ours[0]))
    inside, quiet = internet.socket(place.host, family=family), 0.4
    for server in servers:
        inside.sendto(b"out", server.getsockname()[:2])
    seen = [next(iter(arrive(server, quiet)), (None, None))[1] for server in servers]
    listener = internet.socket("relay", socket.SOCK_STREAM, family, ours[0])
    listener.listen()
    client = internet.socket(place.host, socket.SOCK_STREAM, family)
    client.settimeout(2)
    try:
        client.connect(listener.getsockname()[:2])
        tcp = True
    except OSError:
        tcp = False
    if seen[0] is None:
        return {"mapping": "no UDP", "filter": "no UDP", "tcp": tcp}
    mapping = "independent" if len({one[:2] for one in seen}) == 1 else "dependent"
    # A socket that sent to the first server alone: which others may answer?
    other = internet.socket(place.host, family=family)
    began = time.monotonic()
    other.sendto(b"out", servers[0].getsockname()[:2])
    _, mapped = servers[0].recvfrom(2_000)
    for server in servers:
        server.sendto(b"in", mapped[:2])
    other.settimeout(2)
    came = {other.recvfrom(2_000)[1][:2]}
    round_trip = (time.monotonic() - began) * 1e3
    came |= {source[:2] for _, source in arrive(other, quiet)}
    address = len(servers) == 3 and servers[1].getsockname()[:2] in came
    filtered = "none" if address else "address" if servers[-1].getsockname()[:2] in came else "port"
    keeps = mapped[1] == other.getsockname()[1]
    hairpin = None
    if not six and place.kind != "open":
        neighbour = internet.socket(place.host)
        neighbour.sendto(b"out", servers[0].getsockname()[:2])
        _, theirs = servers[0].recvfrom(2_000)
        other.sendto(b"over", theirs)
        neighbour.sendto(b"over", mapped)
        hairpin = bool(arrive(other, quiet))
    return {"mapping": mapping, "filter": filtered, "keeps port": keeps, "hairpin": hairpin, "tcp": tcp,
            "round trip": round(round_trip, 1)}


def forgets(internet, place, seconds):
    """Whether a mapping lives until shortly before `seconds` of silence, and no longer."""
    server, alive = internet.socket("relay", address=RELAY), []
    for wait in (seconds * 0.7, seconds * 1.3):
        inside = internet.socket(place.host)
        inside.sendto(b"out", server.getsockname())
        _, mapped = server.recvfrom(2_000)
        time.sleep(wait)
        server.sendto(b"in", mapped)
        alive.append(bool(arrive(inside, 0.4)))
    return alive == [True, False]


# Results that `probe` must find for each kind.
EXPECTED = {
    "open": {"mapping": "independent", "filter": "none", "keeps port": True, "tcp": True},
    "full cone": {"mapping": "independent", "filter": "none", "tcp": True},
    "address-restricted": {"mapping": "independent", "filter": "address", "tcp": True},
    "port-restricted": {"mapping": "independent", "filter": "port", "hairpin": False, "tcp": True},
    "symmetric": {"mapping": "dependent", "filter": "port", "keeps port": False, "tcp": True},
    "no UDP": {"mapping": "no UDP", "filter": "no UDP", "tcp": True},
    # A firewall without translation; "mapping" and "keeps port" show that nothing is translated.
    "IPv6 only": {"mapping": "independent", "filter": "port", "keeps port": True, "tcp": True},
    "two NATs": {"mapping": "independent", "filter": "port", "tcp": True},
    "nft": {"mapping": "independent", "filter": "port", "keeps port": True, "tcp": True},
    "nft-random": {"mapping": "dependent", "filter": "port", "keeps port": False, "tcp": True},
}


def probe_all(program, round_trip, kinds=KINDS):
    """The behaviour of each kind, and the kinds that do not match their names."""
    found, wrong = {}, []
    for kind in kinds:
        with Internet(program, round_trip) as internet:
            middle(internet, RELAY_TOO)
            place = Place(internet, "s", kind, "30.0.0.1", "192.168.1.2")
            found[kind] = probe(internet, place)
            wrong += [f"{kind}: {name} is {found[kind].get(name)}, not {value}"
                      for name, value in EXPECTED[kind].items() if found[kind].get(name) != value]
            # A longer time only shows that this machine is busy.
            if found[kind].get("round trip", round_trip) < 0.95 * round_trip:
                wrong.append(f"{kind}: a round trip of {found[kind]['round trip']} ms")
    with Internet(program, round_trip) as internet:
        middle(internet, RELAY_TOO)
        place = Place(internet, "s", "port-restricted", "30.0.0.1", "192.168.1.2", {"forget": 1.5})
        if not forgets(internet, place, 1.5):
            wrong.append("forget: the NAT keeps its mapping")
        server, inside = internet.socket("relay", address=RELAY), internet.socket("s")
        seen = []
        for _ in range(2):
            inside.sendto(b"out", server.getsockname())
            seen.append(server.recvfrom(2_000)[1])
            internet.tell("reboot", name="sb")
        server.sendto(b"in", seen[-1])
        if seen[0] == seen[1] or arrive(inside, 0.3):
            wrong.append("reboot: the NAT keeps its ports")
    with Internet(program, round_trip) as internet:
        middle(internet, RELAY_TOO)
        for host, more in [("s", {}), ("g", {"hairpin": True})]:
            public = "30.0.0.1" if host == "s" else "40.0.0.1"
            place = Place(internet, host, "port-restricted", public, "192.168.1.2", more)
            if probe(internet, place)["hairpin"] != bool(more):
                wrong.append(f"hairpin of {host}: not {bool(more)}")
    return found, wrong
