"""The two forwarders in the middle: ours and NDNd, each with every transport on loopback."""

import socket

from programs import Failed, free_port

NDND_CONFIG = """\
core: {{ log_level: WARN }}
faces:
  udp: {{ enabled_unicast: true, enabled_multicast: false, port_unicast: {port} }}
  tcp: {{ enabled: true, port_unicast: {port} }}
  unix: {{ enabled: true, socket_path: {socket} }}
  websocket: {{ enabled: true, bind: 127.0.0.1, port: {websocket} }}
fw: {{ threads: 2 }}
tables: {{ content_store: {{ capacity: {cs} }} }}
"""

NODE_CONFIG = """\
[node]
listen = ["unix://{socket}", "udp4://127.0.0.1:{port}", "tcp4://127.0.0.1:{port}", "ws://127.0.0.1:{websocket}"]
pit_capacity = {pit}
# One generator of load may fill it.
pit_quota = {pit}
cs_packets = {cs}
cs_bytes = 4_000_000_000
multicast = {{ enabled = false }}
"""


class Forwarder:
    """A running forwarder and the addresses at which clients reach it."""

    def __init__(self, programs, name, cs=65_535, pit=65_536):
        """`cs`: capacity of the content store in packets; `pit`: maximum number of Interests (NDNd has no such
        limit, and room for at most 65,535 packets a thread)."""
        self.name = name
        self.cs = cs
        self.pit = pit
        self.programs = programs
        self.port = free_port()
        self.websocket = free_port()
        # Short: the path of a Unix socket has at most about 100 octets.
        self.socket = programs.folder / f"{name}.sock"
        self.program = None

    def transport(self, kind):
        """The value of NDN_CLIENT_TRANSPORT for unix, tcp, udp and ws."""
        return {
            "unix": f"unix://{self.socket}",
            "tcp": f"tcp4://127.0.0.1:{self.port}",
            "udp": f"udp4://127.0.0.1:{self.port}",
            "ws": f"ws://127.0.0.1:{self.websocket}",
        }[kind]

    def start(self):
        settings = self.config().format(
            port=self.port, socket=self.socket, websocket=self.websocket, cs=self.cs, pit=self.pit
        )
        path = self.programs.file(f"{self.name}.config")
        path.write_text(settings)
        self.socket.unlink(missing_ok=True)  # leftover of a crash
        self.program = self.programs.start(self.command(path))
        self.program.wait_until(self.listens)
        return self

    def listens(self):
        """Whether every stream listener accepts connections; UDP comes before them in both forwarders."""
        if not self.socket.exists():
            return False
        for port in (self.port, self.websocket):
            with socket.socket() as connection:
                if connection.connect_ex(("127.0.0.1", port)) != 0:
                    return False
        return True

    def stop(self):
        return self.programs.stop(self.program)

    def has_route(self, name):
        """Whether the RIB has the name, as NDNd's tool shows it (an interop case by itself)."""
        try:
            routes = self.programs.run(
                [self.programs.tools.ndnd, "fw", "route-list"], self.transport("unix"), seconds=5
            )
        except Failed:
            return False
        return f"prefix={name} " in routes


class Ndnd(Forwarder):
    def __init__(self, programs, **limits):
        super().__init__(programs, "ndnd", **limits)

    def config(self):
        return NDND_CONFIG

    def command(self, path):
        return [self.programs.tools.ndnd, "fw", "run", path]


class Node(Forwarder):
    def __init__(self, programs, **limits):
        super().__init__(programs, "node", **limits)

    def config(self):
        return NODE_CONFIG

    def command(self, path):
        return [self.programs.tools.xylem, "--config", path, "ndn", "node"]
