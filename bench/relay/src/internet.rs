//! Many hosts, some behind boxes that translate addresses, on one slow network.
//!
//! Each host is a TUN device that the parent process (`bench/reach.py`) has put into a network namespace. Boxes
//! ([`Nat`]) stand in a tree whose root is the network in the middle; hosts stand behind a box or at the root. A packet
//! that crosses the root is delayed. A packet that stays behind one box is not, and multicast goes to the others there.
//! Packets are counted on arrival by sender and receiver. This distinguishes a direct path from one through a relay
//! without asking the programs.
//!
//! Standard input is a Unix socket of datagrams in order (SOCK_SEQPACKET): each is a [`Command`] as JSON, with a host's
//! device beside it, and has one answer.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use serde::Deserialize;
use xylem_sim::Conditions;

use crate::ip;
use crate::nat::{self, Behaviour, Nat};
use crate::way::NetworkDirection;
use crate::{device, socket};

/// Number and size in bytes of packets that count as content: handshakes have large packets too, but few.
const CONTENT: (u64, usize) = (10, 1_000);

/// Commands to the network.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum Command {
    /// Adds a box behind another, or at the root.
    Box { name: String, behind: Option<String>, address: Ipv4Addr, behaviour: Behaviour },
    /// Adds a host; its device comes with the message.
    Host { name: String, behind: Option<String>, addresses: Vec<IpAddr> },
    /// Restarts a box: it loses its mappings and assigns new ports.
    Reboot { name: String },
    /// Gives a host or a box other addresses; a box loses its mappings.
    Move { name: String, addresses: Vec<IpAddr> },
    /// Stops the traffic of a host across the root, or lets it pass again.
    Cut { name: String, cut: bool },
    /// Returns the packet counts since the last call.
    Counts,
}

/// Packets that arrived from one host at another.
#[derive(Default)]
struct Count {
    packets: u64,
    bytes: u64,
    /// Number of large packets.
    large: u64,
    /// Seconds from the begin of counting until there were enough large packets for content.
    content: Option<f64>,
}

enum Kind {
    Host { device: OwnedFd, addresses: Vec<IpAddr>, way: Box<NetworkDirection> },
    Box(Box<Nat>),
}

struct Node {
    name: String,
    /// The box in front of it; none at the root.
    behind: Option<usize>,
    kind: Kind,
}

/// The network.
pub(crate) struct Internet {
    conditions: Conditions,
    seed: u64,
    nodes: Vec<Node>,
    counts: BTreeMap<(usize, usize), Count>,
    counting_since: Duration,
}

impl Internet {
    /// An empty network.
    pub(crate) fn new(conditions: Conditions, seed: u64) -> Self {
        let counts = BTreeMap::new();
        Self { conditions, seed, nodes: Vec::new(), counts, counting_since: Duration::ZERO }
    }

    /// Carries packets and executes commands from `control` until that is closed.
    pub(crate) fn run(&mut self, control: BorrowedFd<'_>) -> std::io::Result<()> {
        let began = Instant::now();
        let mut buffer = vec![0; 65_536];
        loop {
            let wait = self.due().map_or(device::NAP, |due| due.saturating_sub(began.elapsed()));
            let devices = self.nodes.iter().filter_map(|node| match &node.kind {
                Kind::Host { device, .. } => Some(device.as_fd()),
                Kind::Box(_) => None,
            });
            let fds: Vec<_> = devices.chain([control]).collect();
            device::sleep(&fds, wait.min(device::NAP))?;
            while let Some((text, device)) = socket::receive(control, &mut buffer)? {
                if text.is_empty() {
                    return Ok(());
                }
                let answer = self.obey(began.elapsed(), text, device);
                socket::answer(control, &answer.to_string())?;
            }
            for host in 0..self.nodes.len() {
                for _ in 0..device::BURST {
                    let Kind::Host { device, .. } = &self.nodes[host].kind else { break };
                    let Some(packet) = device::take(device.as_fd(), &mut buffer)? else { break };
                    self.go_up(began.elapsed(), host, packet)?;
                }
            }
            self.land(began.elapsed())?;
        }
    }

    fn obey(&mut self, now: Duration, text: &[u8], device: Option<OwnedFd>) -> serde_json::Value {
        let done = serde_json::from_slice(text)
            .map_err(|error| error.to_string())
            .and_then(|command| self.perform(now, command, device));
        done.unwrap_or_else(|error| serde_json::json!({ "error": error }))
    }

    fn perform(
        &mut self,
        now: Duration,
        command: Command,
        device: Option<OwnedFd>,
    ) -> Result<serde_json::Value, String> {
        self.seed = self.seed.wrapping_add(1);
        match command {
            Command::Box { name, behind, address, behaviour } => {
                let nat = Nat::new(address, behaviour, self.seed);
                self.add(name, behind, Kind::Box(Box::new(nat)))?;
            }
            Command::Host { name, behind, addresses } => {
                let device = device.ok_or("no device came with it")?;
                device::unblock(device.as_fd()).map_err(|error| error.to_string())?;
                let way = Box::new(NetworkDirection::new(self.conditions, self.seed));
                self.add(name, behind, Kind::Host { device, addresses, way })?;
            }
            Command::Reboot { name } => match &mut self.named(&name)?.kind {
                Kind::Box(nat) => nat.reboot(),
                Kind::Host { .. } => return Err(format!("{name} is a host")),
            },
            Command::Move { name, addresses: new } => {
                let seed = self.seed;
                match (&mut self.named(&name)?.kind, &*new) {
                    (Kind::Host { addresses, .. }, _) => *addresses = new,
                    (Kind::Box(nat), [IpAddr::V4(address)]) => {
                        **nat = Nat::new(*address, nat.behaviour, seed);
                    }
                    (Kind::Box(_), _) => return Err("a box has one address of IPv4".to_owned()),
                }
            }
            Command::Cut { name, cut } => match &mut self.named(&name)?.kind {
                Kind::Host { way, .. } => way.path.conditions.cut = cut,
                Kind::Box(_) => return Err(format!("{name} is a box")),
            },
            Command::Counts => {
                let counts = core::mem::take(&mut self.counts);
                self.counting_since = now;
                let told = counts.iter().map(|((from, to), count)| {
                    serde_json::json!({
                        "from": self.nodes[*from].name,
                        "to": self.nodes[*to].name,
                        "packets": count.packets,
                        "bytes": count.bytes,
                        "large": count.large,
                        "content": count.content,
                    })
                });
                return Ok(told.collect());
            }
        }
        Ok(serde_json::json!({}))
    }

    fn add(&mut self, name: String, behind: Option<String>, kind: Kind) -> Result<(), String> {
        let behind = match behind {
            Some(name) => Some(self.index(&name)?),
            None => None,
        };
        if behind.is_some_and(|at| matches!(self.nodes[at].kind, Kind::Host { .. })) {
            return Err(format!("{name}: only boxes have something behind them"));
        }
        self.nodes.push(Node { name, behind, kind });
        Ok(())
    }

    fn index(&self, name: &str) -> Result<usize, String> {
        let found = self.nodes.iter().position(|node| node.name == name);
        found.ok_or_else(|| format!("there is no {name}"))
    }

    fn named(&mut self, name: &str) -> Result<&mut Node, String> {
        let at = self.index(name)?;
        Ok(&mut self.nodes[at])
    }

    /// Carries a packet from its host upwards, until it is delivered or waits at the root.
    fn go_up(&mut self, now: Duration, host: usize, packet: &mut [u8]) -> std::io::Result<()> {
        let Some(to) = ip::destination(packet) else { return Ok(()) };
        let mut level = self.nodes[host].behind;
        while let Some(at) = level {
            if to.is_multicast() {
                return self.tell_neighbours(now, host, packet);
            }
            if let Some(next) = self.child(level, to).filter(|next| *next != host) {
                return self.go_down(now, host, next, packet);
            }
            let Kind::Box(nat) = &mut self.nodes[at].kind else { return Ok(()) };
            let turns = nat::is(nat, to);
            if turns && !nat.behaviour.hairpin || !nat.outward(now, packet) {
                return Ok(());
            }
            if turns {
                return self.go_down(now, host, at, packet);
            }
            level = self.nodes[at].behind;
        }
        if let Kind::Host { way, .. } = &mut self.nodes[host].kind {
            way.offer(now, packet);
        }
        Ok(())
    }

    /// Carries a packet down to a host, from the outside of `to`.
    fn go_down(
        &mut self,
        now: Duration,
        from: usize,
        mut to: usize,
        packet: &mut [u8],
    ) -> std::io::Result<()> {
        loop {
            match &mut self.nodes[to].kind {
                Kind::Host { device, .. } => {
                    device::give(device.as_fd(), packet)?;
                    let count = self.counts.entry((from, to)).or_default();
                    count.packets += 1;
                    count.bytes += packet.len() as u64;
                    count.large += u64::from(packet.len() >= CONTENT.1);
                    if count.large == CONTENT.0 && count.content.is_none() {
                        count.content = Some((now - self.counting_since).as_secs_f64());
                    }
                    return Ok(());
                }
                Kind::Box(nat) => {
                    if !nat.inward(now, packet) {
                        return Ok(());
                    }
                    let inside = ip::destination(packet).and_then(|at| self.child(Some(to), at));
                    let Some(next) = inside else { return Ok(()) };
                    to = next;
                }
            }
        }
    }

    /// Delivers a multicast packet to all others behind the same box.
    fn tell_neighbours(
        &mut self,
        now: Duration,
        host: usize,
        packet: &mut [u8],
    ) -> std::io::Result<()> {
        for other in 0..self.nodes.len() {
            let (one, two) = (&self.nodes[host], &self.nodes[other]);
            let near = other != host && one.behind == two.behind;
            if near && matches!(two.kind, Kind::Host { .. }) {
                self.go_down(now, host, other, packet)?;
            }
        }
        Ok(())
    }

    /// The host or box with an address, among those right behind a box or at the root.
    fn child(&self, level: Option<usize>, address: IpAddr) -> Option<usize> {
        (0..self.nodes.len()).find(|at| self.nodes[*at].behind == level && self.owns(*at, address))
    }

    fn owns(&self, at: usize, address: IpAddr) -> bool {
        match &self.nodes[at].kind {
            Kind::Host { addresses, .. } => addresses.contains(&address),
            // IPv6 is routed through boxes.
            Kind::Box(nat) => {
                nat::is(nat, address)
                    || (address.is_ipv6() && self.child(Some(at), address).is_some())
            }
        }
    }

    /// Delivers packets after their delay.
    fn land(&mut self, now: Duration) -> std::io::Result<()> {
        for host in 0..self.nodes.len() {
            while let Kind::Host { way, .. } = &mut self.nodes[host].kind
                && let Some(mut packet) = way.arrived(now)
            {
                if let Some(to) = ip::destination(&packet).and_then(|to| self.child(None, to)) {
                    self.go_down(now, host, to, &mut packet)?;
                }
            }
        }
        Ok(())
    }

    fn due(&self) -> Option<Duration> {
        let ways = self.nodes.iter().filter_map(|node| match &node.kind {
            Kind::Host { way, .. } => way.due(),
            Kind::Box(_) => None,
        });
        ways.min()
    }
}
