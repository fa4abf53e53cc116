//! [`reach`]: tries the ways by which this machine can be reached, and reports the result of each.

use std::net::SocketAddr;
use std::time::Duration;

use super::router::Router;
use crate::exit::CommandFailure;
use serde::Serialize;
use xylem_base::Stop;
use xylem_engine::{Engine, EngineError, EngineEvent, Program, RelayNotice, RelayUse};
use xylem_forward::{Forwarder, ForwarderConfig, ForwarderSeed};
use xylem_link::{Endpoint, StaticKey};
use xylem_node::code::CodeDht;
use xylem_node::{
    BY_DHT, DhtStep, Itself, PeerAddress, ReachStatus, Relay, SeenPorts, bind_links, news, offered,
    to_dial, try_dht,
};
use xylem_peers::reachable::AddressChoice;
use xylem_reach::kind::{NatKind, ReachMonitor, ReachWay, is_global};

/// Time limit of each try.
const PATIENCE: Duration = Duration::from_secs(4);

/// The result of one try.
#[derive(Serialize)]
#[serde(tag = "event", rename = "probe")]
pub(super) struct ReachProbe {
    /// The kind of try: `interface`, `ipv4`, `ipv6`, `port_mapping`, `relay_udp`, `relay_tcp`, `nat`, and with `--dht` `dht_nodes`,
    /// `dht_listed`, `dht_found`, `dht_address`, `dht_nat` and `dht_volunteers`.
    pub(super) what: &'static str,
    /// Whether it helps others to reach this machine; null if it makes no difference or is not known.
    pub(super) good: Option<bool>,
    /// The result as text.
    pub(super) says: String,
}

/// Results, in the order in which they are reported.
pub(super) enum ReachReport {
    Probe(ReachProbe),
    /// The last one: how this machine can be reached.
    Reach(ReachStatus),
}

/// How this machine is reached.
pub(super) struct Reached {
    pub(super) way: ReachWay,
    /// Whether the DHT leads here.
    pub(super) by_dht: Itself,
}

/// What to try.
pub(super) struct Tries {
    /// Where links would come in. If empty: on all interfaces, at the usual port or a free one.
    pub(super) listen: Vec<PeerAddress>,
    pub(super) relays: Vec<Relay>,
    /// Whether to ask the router to map the port while this runs.
    pub(super) map_port: bool,
    /// How to try the DHT; `None`: not at all.
    pub(super) dht: Option<CodeDht>,
}

/// Tries everything and reports the results. Ends within seconds; returns `None` if it was asked to stop.
pub(super) fn reach(
    options: &Tries,
    stop: &Stop,
    tell: &mut dyn FnMut(ReachReport),
) -> Result<Option<Reached>, CommandFailure> {
    let mut engine = engine()?;
    let bound = bind_links(&mut engine, &options.listen, None)?;
    let (own, choice) = offered(&bound);
    interfaces(&choice, &own, tell);
    let router = if options.map_port { Router::ask(&mut engine, &bound) } else { None };
    let keys: Vec<[u8; 32]> = options.relays.iter().map(|relay| relay.at.key).collect();
    let mut trying = Trying {
        standing: ReachMonitor::new(engine.now(), own, false, &keys),
        asks_router: router.is_some(),
        router,
        relays: Vec::new(),
        until: engine.now() + PATIENCE,
        tell,
    };
    if trying.router.is_none() {
        let says = match options.map_port {
            true => {
                "not asked: this machine has no private IPv4 address, or --listen names one interface"
            }
            false => "not asked",
        };
        trying.check("port_mapping", None, says.into());
    }
    if options.relays.is_empty() {
        let says = "none was given (--relay): the address that others see is unknown";
        trying.check("relay_udp", None, says.into());
    }
    for relay in &options.relays {
        trying.begin(&mut engine, relay);
    }
    engine.run(&mut trying, stop)?;
    let over_udp = trying.relays.iter().filter(|tried| tried.over_udp);
    let over_udp: Vec<RelayUse> = over_udp.map(|tried| tried.uses.clone()).collect();
    let now = engine.now();
    let mut by_dht = Itself::Missing;
    if let Some(how) = options.dht.as_ref().filter(|_| !stop.raised()) {
        by_dht = try_dht(&mut engine, how, stop, &mut |step| dht_step(step, trying.tell))?;
    }
    engine.close();
    for uses in over_udp {
        over_tcp(uses, stop, trying.tell)?;
    }
    if stop.raised() {
        return Ok(None);
    }
    Ok(trying.settle(now, by_dht))
}

/// Reports a step of the trial of the DHT.
fn dht_step(step: DhtStep, tell: &mut dyn FnMut(ReachReport)) {
    let (what, good, says) = match step {
        DhtStep::OnlyHere => {
            let says = "not tried: this machine listens on loopback alone (--listen)";
            ("dht_nodes", None, says.to_owned())
        }
        DhtStep::Nodes { answered: 0 } => {
            let says = "no node of the DHT answers: is UDP blocked here, or the network down?";
            ("dht_nodes", Some(false), says.to_owned())
        }
        DhtStep::Nodes { answered } => {
            ("dht_nodes", Some(true), format!("{answered} have answered"))
        }
        DhtStep::Listed { stored: 0 } => {
            ("dht_listed", Some(false), "none lists this machine".to_owned())
        }
        DhtStep::Listed { stored } => {
            ("dht_listed", Some(true), format!("{stored} list this machine under a random key"))
        }
        DhtStep::Found { at, is_own } => {
            let at: Vec<String> = at.iter().map(ToString::to_string).collect();
            match is_own {
                Itself::Found => {
                    ("dht_found", Some(true), format!("the key leads to {}", at.join(", ")))
                }
                Itself::Missing if at.is_empty() => {
                    ("dht_found", Some(false), "the key leads nowhere".to_owned())
                }
                Itself::Missing => {
                    let at = at.join(", ");
                    let says = format!("the key leads to {at}, where no node sees this machine");
                    ("dht_found", Some(false), says)
                }
            }
        }
        DhtStep::Seen { at, nodes } => {
            ("dht_address", None, format!("{nodes} nodes see this machine at {at}"))
        }
        DhtStep::Ports(SeenPorts::One) => {
            let says =
                "all nodes see one port: where the other side's NAT lets it, the two meet directly";
            ("dht_nat", Some(true), says.to_owned())
        }
        DhtStep::Ports(SeenPorts::Many) => {
            let says = "nodes see different ports: a symmetric NAT, which opens if the other side's keeps its port; else \
                        both need a relay";
            ("dht_nat", Some(false), says.to_owned())
        }
        DhtStep::Volunteers { listed, answered } => {
            let says = format!(
                "{listed} listed as relays for strangers; of those asked {answered} answered"
            );
            ("dht_volunteers", Some(answered > 0), says)
        }
        DhtStep::Ports(SeenPorts::Unknown) => {
            ("dht_nat", None, "too few nodes have reported a port".to_owned())
        }
        DhtStep::Unfinished => {
            let says =
                "the trial did not finish within 20 s; the steps behind the last one are missing";
            ("dht_unfinished", Some(false), says.to_owned())
        }
        // The crate that takes the steps may have further ones.
        _ => return,
    };
    tell(ReachReport::Probe(ReachProbe { what, good, says }));
}

fn engine() -> Result<Engine, CommandFailure> {
    let key = StaticKey::from_bytes(xylem_base::random()?);
    let endpoint = Endpoint::new(xylem_link::LinkConfig::default(), key, xylem_base::random()?);
    let forwarder = Forwarder::new(
        ForwarderConfig::end_host(),
        ForwarderSeed::from_random(xylem_base::random()?),
    );
    Ok(Engine::new(endpoint, forwarder)?)
}

/// Reports what the system knows without asking others.
fn interfaces(choice: &AddressChoice, own: &[SocketAddr], tell: &mut dyn FnMut(ReachReport)) {
    let mut check = |what, good, says| tell(ReachReport::Probe(ReachProbe { what, good, says }));
    for named in &choice.named {
        let kind = match named.ip {
            ip if ip.is_loopback() => "this machine only",
            ip if is_global(ip) => "global",
            _ => "private network",
        };
        check("interface", None, format!("{} on {}: {kind}", named.ip, named.interface));
    }
    for (what, v4) in [("ipv4", true), ("ipv6", false)] {
        let mut of_family = own.iter().filter(|own| own.is_ipv4() == v4).peekable();
        let there = of_family.peek().is_some();
        let global = of_family.any(|own| is_global(own.ip()));
        let says = match (there, global) {
            (_, true) => "a global address",
            (true, false) => "no global address",
            (false, false) => "none on this machine",
        };
        check(what, global.then_some(true), says.into());
    }
}

/// The try of one relay.
struct RelayTry {
    uses: RelayUse,
    name: String,
    over_udp: bool,
    told: bool,
}

struct Trying<'a> {
    standing: ReachMonitor,
    asks_router: bool,
    router: Option<Router>,
    relays: Vec<RelayTry>,
    until: Duration,
    tell: &'a mut dyn FnMut(ReachReport),
}

impl Trying<'_> {
    fn check(&mut self, what: &'static str, good: Option<bool>, says: String) {
        (self.tell)(ReachReport::Probe(ReachProbe { what, good, says }));
    }

    fn begin(&mut self, engine: &mut Engine, relay: &Relay) {
        let name = relay.at.addresses.first().map(ToString::to_string).unwrap_or_default();
        let used = to_dial(relay).map_err(|e| e.to_string()).and_then(|uses| {
            let uses = RelayUse { listens: true, ..uses };
            engine.use_relay(uses.clone()).map_err(|e| e.to_string())?;
            Ok(uses)
        });
        match used {
            Ok(uses) => self.relays.push(RelayTry { uses, name, over_udp: false, told: false }),
            Err(why) => {
                self.check("relay_udp", Some(false), format!("{name}: {why}"));
                self.standing.failed(relay.at.key);
            }
        }
    }

    fn heard(&mut self, engine: &Engine, relay: [u8; 32], at: SocketAddr, what: &RelayNotice) {
        self.standing.on_relay_report(engine.now(), relay, at, news(what));
        let Some(tried) = self.relays.iter_mut().find(|tried| tried.uses.key == relay) else {
            return;
        };
        let name = tried.name.clone();
        match what {
            RelayNotice::Registered { over_tcp, .. } if !tried.told => {
                (tried.told, tried.over_udp) = (true, !over_tcp);
                if *over_tcp {
                    let silent = Some(false).filter(|_| !tried.uses.udp.is_empty());
                    if silent.is_some() {
                        self.check("relay_udp", silent, format!("{name}: no answer over UDP"));
                    }
                    self.check("relay_tcp", Some(true), format!("{name}: registered, over TCP"));
                } else {
                    self.check("relay_udp", Some(true), format!("{name}: registered"));
                }
            }
            RelayNotice::Observed { address, by_second: false } if tried.over_udp => {
                self.check("relay_udp", None, format!("{name}: it sees this machine at {address}"));
            }
            RelayNotice::Failed { why } if !tried.told => {
                tried.told = true;
                self.check("relay_udp", Some(false), format!("{name}: {why}"));
            }
            _ => {}
        }
    }

    fn hear_router(&mut self) {
        let Some(router) = &mut self.router else { return };
        if !router.poll() {
            return;
        }
        let (mapped, failed) = (router.mapped, router.failed.clone());
        self.standing.mapped(mapped.map(|mapped| mapped.external.into()));
        if let Some(mapped) = mapped {
            let says =
                format!("the router forwards {} to this machine ({})", mapped.external, mapped.by);
            self.check("port_mapping", Some(is_global((*mapped.external.ip()).into())), says);
        } else if let Some(why) = failed {
            self.check("port_mapping", Some(false), why);
        }
        self.asks_router = false;
    }

    /// Whether no more results are expected.
    fn is_settled(&self) -> bool {
        !self.asks_router && self.standing.is_settled()
    }

    /// Reports the results that are known only at the end.
    fn settle(&mut self, now: Duration, by_dht: Itself) -> Option<Reached> {
        if self.asks_router {
            self.check("port_mapping", Some(false), "the router does not answer".into());
        }
        let silent: Vec<String> = self
            .relays
            .iter()
            .filter(|tried| !tried.told)
            .map(|tried| tried.name.clone())
            .collect();
        for name in silent {
            self.check("relay_udp", Some(false), format!("{name}: no answer over UDP or TCP"));
        }
        let said = self.standing.poll(now.max(self.until))?;
        let (good, says) = match said.nat {
            NatKind::Unknown => {
                (None, "unknown: no relay has seen an outside address of this machine")
            }
            NatKind::None => (Some(true), "none: others see this machine's own address"),
            NatKind::Some => (None, "there is one, of unknown kind"),
            NatKind::Cone => {
                (Some(true), "one that keeps its port for all peers: hole punching works")
            }
            NatKind::Symmetric => {
                (Some(false), "one with another port for each peer: hole punching is difficult")
            }
        };
        self.check("nat", good, says.into());
        let mut status = ReachStatus::from(said);
        if by_dht == Itself::Found && said.way <= ReachWay::Lan {
            status.says = BY_DHT.to_owned();
        }
        (self.tell)(ReachReport::Reach(status));
        Some(Reached { way: said.way, by_dht })
    }
}

impl Program for Trying<'_> {
    type Error = EngineError;

    fn handle(&mut self, engine: &mut Engine, event: EngineEvent) -> Result<(), EngineError> {
        if let EngineEvent::Relay { relay, at, what } = event {
            self.heard(engine, relay, at, &what);
        }
        Ok(())
    }

    fn handle_timeout(&mut self, _engine: &mut Engine, _now: Duration) -> Result<(), EngineError> {
        self.hear_router();
        Ok(())
    }

    fn is_done(&mut self, engine: &Engine, stopped: bool) -> bool {
        stopped || self.is_settled() || engine.now() >= self.until
    }

    fn poll_timeout(&mut self, _now: Duration) -> Option<Duration> {
        Some(self.until)
    }
}

/// Tries over TCP a relay that answers over UDP. This way matters in a network that drops UDP.
fn over_tcp(
    uses: RelayUse,
    stop: &Stop,
    tell: &mut dyn FnMut(ReachReport),
) -> Result<(), CommandFailure> {
    let (Some(first), udp) = (uses.tcp.first().and_then(PeerAddress::link_address), Vec::new())
    else {
        return Ok(());
    };
    let mut engine = engine()?;
    let name = first.ip().to_string();
    let tried = engine.use_relay(RelayUse { udp, ..uses });
    let mut only = OverTcp { until: engine.now() + PATIENCE / 2, came: None };
    if tried.is_ok() {
        engine.run(&mut only, stop)?;
    }
    engine.close();
    let (good, says) = match only.came {
        Some(Ok(())) => (Some(true), format!("{name}: registration works over TCP, too")),
        Some(Err(why)) => (Some(false), format!("{name}: {why}")),
        None => (Some(false), format!("{name}: no answer")),
    };
    tell(ReachReport::Probe(ReachProbe { what: "relay_tcp", good, says }));
    Ok(())
}

struct OverTcp {
    until: Duration,
    came: Option<Result<(), String>>,
}

impl Program for OverTcp {
    type Error = EngineError;

    fn handle(&mut self, _engine: &mut Engine, event: EngineEvent) -> Result<(), EngineError> {
        if let EngineEvent::Relay { what, .. } = event {
            match what {
                RelayNotice::Registered { .. } => self.came = Some(Ok(())),
                RelayNotice::Failed { why } => self.came = Some(Err(why)),
                RelayNotice::Observed { .. } => {}
            }
        }
        Ok(())
    }

    fn is_done(&mut self, engine: &Engine, stopped: bool) -> bool {
        stopped || self.came.is_some() || engine.now() >= self.until
    }

    fn poll_timeout(&mut self, _now: Duration) -> Option<Duration> {
        Some(self.until)
    }
}
