//! Machines in network namespaces on one public network: open ones, and homes behind this kernel's own NAT.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::XYLEM;
use super::fetching::Get;

/// The kind of NAT of a home's router. All kinds let in only answers to what a machine inside has sent (RFC 4787,
/// "address and port-dependent filtering").
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nat {
    /// One external port for all peers.
    Cone,
    /// Another external port for each peer, drawn at random.
    Symmetric,
    /// As [`Cone`](Self::Cone), but UDP does not pass.
    NoUdp,
}

impl Nat {
    /// The router's nft rules; it assigns external ports from `first` on.
    fn rule(self, first: u16) -> String {
        let how = match self {
            Self::Cone | Self::NoUdp => format!("to :{first}-{}", first + 4_999),
            Self::Symmetric => "fully-random".to_owned(),
        };
        format!("meta l4proto {{ tcp, udp }} oifname \"wan\" masquerade {how}")
    }
}

/// The public network; removed when dropped.
pub(crate) struct Network {
    prefix: String,
    machines: Vec<String>,
}

impl Network {
    /// A network without machines. `None`, with a line, without the right to make one, or without `ip` and `nft`.
    pub(crate) fn new(tag: &str) -> Option<Self> {
        let prefix = format!("xylem-{tag}-{}", std::process::id());
        let mut network = Self { prefix, machines: Vec::new() };
        let made = network.add("sw").is_some()
            && network
                .sh("sw", "ip link add sw0 type bridge && ip link set sw0 up && nft list tables");
        if !made {
            super::skipped("no right to make network namespaces, or no ip or nft");
        }
        made.then_some(network)
    }

    /// The name of its namespace.
    pub(crate) fn name(&self, machine: &str) -> String {
        format!("{}-{machine}", self.prefix)
    }

    fn add(&mut self, machine: &str) -> Option<()> {
        let name = self.name(machine);
        let made = run("ip", &["netns", "add", &name]) && self.sh(machine, "ip link set lo up");
        self.machines.push(name);
        made.then_some(())
    }

    /// Runs a script on a machine; returns whether it succeeds.
    pub(crate) fn sh(&self, machine: &str, script: &str) -> bool {
        run("ip", &["netns", "exec", &self.name(machine), "sh", "-c", script])
    }

    /// The output of a script on a machine.
    pub(crate) fn output(&self, machine: &str, script: &str) -> String {
        let name = self.name(machine);
        let output = Command::new("ip").args(["netns", "exec", &name, "sh", "-c", script]).output();
        String::from_utf8(output.expect("ip runs").stdout).expect("UTF-8")
    }

    fn must(&self, machine: &str, script: &str) {
        assert!(self.sh(machine, script), "{machine}: {script}");
    }

    /// Plugs a machine into the public network.
    fn plug(&self, machine: &str, device: &str, address: &str) {
        let (sw, name) = (self.name("sw"), self.name(machine));
        let cable = format!("ip link add {device} type veth peer name p-{machine} netns {sw}");
        self.must(machine, &cable);
        self.must("sw", &format!("ip link set p-{machine} master sw0 up"));
        let set = format!("ip addr add {address}/8 dev {device} && ip link set {device} up");
        assert!(self.sh(machine, &set), "{name}");
    }

    /// A machine with a public address.
    pub(crate) fn open(&mut self, machine: &str, address: &str) {
        self.add(machine).expect("a namespace");
        self.plug(machine, "eth", address);
    }

    /// A machine, 192.168.1.2, behind a router that has the public address. All homes have the same addresses inside.
    pub(crate) fn home(&mut self, machine: &str, address: &str, nat: Nat) {
        let router = format!("{machine}-r");
        self.add(machine).expect("a namespace");
        self.add(&router).expect("a namespace");
        self.plug(&router, "wan", address);
        let inside = self.name(machine);
        self.must(&router, &format!("ip link add lan type veth peer name eth netns {inside}"));
        self.must(&router, "ip addr add 192.168.1.1/24 dev lan && ip link set lan up");
        self.must(&router, "sysctl -qw net.ipv4.ip_forward=1");
        let set = "ip addr add 192.168.1.2/24 dev eth && ip link set eth up";
        self.must(machine, &format!("{set} && ip route add default via 192.168.1.1"));
        let (out, drops) =
            (nat.rule(40_000), if nat == Nat::NoUdp { "meta l4proto udp drop" } else { "" });
        self.must(
            &router,
            &format!(
                "nft -f - <<'END'
table ip nat {{
  chain out {{
    type nat hook postrouting priority 100
    {out}
  }}
}}
table inet filter {{
  chain miniupnpd {{ }}
  chain prerouting_miniupnpd {{ }}
  chain postrouting_miniupnpd {{ }}
  chain in {{
    type filter hook input priority 0; policy drop
    iifname {{ \"lo\", \"lan\" }} accept
    ct state established accept
  }}
  chain through {{
    type filter hook forward priority 0; policy drop
    {drops}
    iifname \"lan\" accept
    ct state established,related accept
    jump miniupnpd
  }}
  chain mapped {{
    type nat hook prerouting priority -100
    jump prerouting_miniupnpd
  }}
}}
END"
            ),
        );
    }

    /// A home's router loses all mappings, and assigns other ports from now on.
    pub(crate) fn reboot(&self, home: &str) {
        let router = format!("{home}-r");
        let rule = Nat::Cone.rule(50_000);
        self.must(
            &router,
            &format!("nft flush chain ip nat out && nft 'add rule ip nat out {rule}'"),
        );
        // Masquerading drops the mappings of an interface that goes down.
        self.must(&router, "ip link set wan down && ip link set wan up");
    }

    /// Starts port mapping on a home's router. `None`, with a line, without miniupnpd.
    pub(crate) fn maps(&self, home: &str, address: &str, dir: &Path) -> Option<PortMapper> {
        let config = format!(
            "ext_ifname=wan\nlistening_ip=lan\next_ip={address}\nenable_natpmp=yes\nenable_upnp=yes\n\
             min_lifetime=2\nmax_lifetime=86400\nsecure_mode=yes\n\
             uuid=f4af2abe-9b64-4be9-83e1-f27063636246\nallow 1024-65535 0.0.0.0/0 1024-65535\n"
        );
        let (path, router) = (dir.join("miniupnpd"), format!("{home}-r"));
        std::fs::write(&path, config).expect("it may be written");
        if Command::new("miniupnpd").arg("--version").output().is_err() {
            super::skipped("no miniupnpd");
            return None;
        }
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(&router), "miniupnpd", "-d", "-f"]).arg(path);
        command.arg("-P").arg(dir.join("pid")).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mapper = PortMapper(command.spawn().expect("ip runs"));
        super::until("the router listens", || self.output(&router, "ss -lun").contains(":5351 "));
        Some(mapper)
    }

    /// Begins to count the bytes that a machine receives from an address.
    pub(crate) fn count(&self, machine: &str, from: &str) {
        self.must(
            machine,
            &format!(
                "nft -f - <<'END'
table ip count {{
  chain in {{
    type filter hook input priority 0
    ip saddr {from} counter
  }}
}}
END"
            ),
        );
    }

    /// The bytes received since [`count`](Self::count).
    pub(crate) fn counted(&self, machine: &str) -> u64 {
        let listed = self.output(machine, "nft list table ip count");
        let bytes = listed.split(" bytes ").nth(1).and_then(|rest| rest.split_whitespace().next());
        bytes.and_then(|bytes| bytes.parse().ok()).expect("a counter")
    }

    /// The program on a machine, with `--json`.
    pub(crate) fn on(&self, machine: &str, store: &Path) -> Command {
        let mut command = super::xylem(store);
        let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let environment: Vec<_> = command
            .get_envs()
            .map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)))
            .collect();
        command = Command::new("ip");
        command.args(["netns", "exec", &self.name(machine), XYLEM]).args(arguments).arg("--json");
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null());
        command
    }

    /// Starts a relay on a machine; returns it and the addresses by which others name it.
    pub(crate) fn relay(&self, machine: &str, store: &Path) -> (Get, Vec<String>) {
        let mut command = self.on(machine, store);
        command.args(["relay", "--listen", "xylem://0.0.0.0:7348"]);
        command.args(["--listen", "xylem+wss://0.0.0.0:443"]);
        let relay = Get::of(command);
        let told = relay.event("relaying", |_| true);
        let uris = told["uris"].as_array().expect("a list").iter();
        let uris = uris.map(|uri| format!("--relay={}", uri.as_str().expect("text"))).collect();
        (relay, uris)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.machines {
            run("ip", &["netns", "del", name]);
        }
    }
}

/// A router's miniupnpd; killed when dropped.
pub(crate) struct PortMapper(Child);

impl PortMapper {
    /// Stops the daemon so that it answers nothing, or continues it so that it answers all that waits.
    pub(crate) fn rest(&self, rests: bool) {
        let signal = if rests { "-STOP" } else { "-CONT" };
        assert!(run("kill", &[signal, &self.0.id().to_string()]));
    }
}

impl Drop for PortMapper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let mut run = Command::new(program);
    run.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    run.status().is_ok_and(|status| status.success())
}
