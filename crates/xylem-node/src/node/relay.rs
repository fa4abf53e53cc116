//! Options and reports of a node that relays for other peers.

use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use xylem_engine::{Engine, offered};
use xylem_object::PublisherId;
use xylem_object::ticket::Address;
use xylem_peers::list_file::{list_entries, list_text};
use xylem_peers::reachable::{LINK_PORT, NamedRelay, PeerUri};
use xylem_peers::{relay_bans, relay_clients};
use xylem_reach::relay::{AllowedClients, RelayConfig};

use super::control::{RelayAnswer, RelayControl, RelayOrder};
use super::error::{ClientListError, NodeError};
use crate::discovery::DhtStart;
use crate::event::Event;
use xylem_engine::resolve;

/// Options of a node that relays.
#[derive(Clone, Debug)]
pub struct RelayOptions {
    /// Limits on what each client gets.
    pub limits: RelayConfig,
    /// UDP port at which clients may send a second request, to learn what address they appear to have. 0: none. `None`:
    /// the port after that of encrypted links.
    pub second_port: Option<u16>,
    /// Further addresses at which peers reach it, besides those of its interfaces.
    pub announce: Vec<Address>,
    /// Interval between reports.
    pub report: Duration,
    /// The clients that it serves; `None`: all.
    pub allowed: Option<AllowedClients>,
    /// A file with link keys of further clients that it serves, read at the start: one in a line, `#` before a remark.
    pub allow_file: Option<PathBuf>,
    /// Orders of other threads, if there can be any.
    pub control: RelayControl,
    /// Where to list the relay in the DHT, for peers that know no relay; `None`: nowhere.
    pub volunteer: Option<DhtStart>,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self {
            limits: RelayConfig::default(),
            second_port: None,
            announce: Vec::new(),
            report: Duration::from_secs(3),
            allowed: None,
            allow_file: None,
            control: RelayControl::default(),
            volunteer: None,
        }
    }
}

/// Most bytes of a list of link keys: some half a million.
const MAX_LIST: u64 = 32 << 20;

impl RelayOptions {
    /// The clients that the relay serves, those of the file included; `None`: all.
    pub(super) fn clients(&self) -> Result<Option<AllowedClients>, NodeError> {
        let Some(path) = &self.allow_file else { return Ok(self.allowed.clone()) };
        let wrong = |why: ClientListError| NodeError::Clients { path: path.clone(), why };
        let mut clients = self.allowed.clone().unwrap_or_default();
        let text = list_text(path, MAX_LIST).map_err(|e| wrong(e.into()))?;
        for (number, key) in list_entries(&text) {
            let key: PublisherId =
                key.parse().map_err(|why| wrong(ClientListError::Line { number, why }))?;
            clients.keys.insert(key.0);
        }
        Ok(Some(clients))
    }
}

/// Additional default addresses of a relay: IPv6, and WebSocket ports for networks that block UDP. Each is optional.
fn further_places() -> Vec<PeerUri> {
    let v6 = |port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let wss = |at: String| format!("xylem+wss://{at}");
    let places = [
        format!("xylem://{}", v6(LINK_PORT)),
        wss(format!("0.0.0.0:{LINK_PORT}")),
        wss(v6(LINK_PORT).to_string()),
        wss("0.0.0.0:443".into()),
        wss(v6(443).to_string()),
    ];
    places.iter().map(|place| place.parse().expect("a scheme, an address and a port")).collect()
}

/// Listens at [`further_places`], as far as the system permits.
pub(super) fn listen_further(engine: &mut Engine, on_event: &mut dyn FnMut(Event)) {
    let mut web = false;
    for place in further_places() {
        for at in resolve(&place).unwrap_or_default() {
            match engine.listen(&at) {
                Ok(uri) => {
                    let uri = uri.with_key(engine.link_key());
                    web |= at.link_address().is_some_and(|at| at.port() == 443);
                    on_event(Event::Listening { uri });
                }
                Err(why) => tracing::debug!(?place, %why, "cannot listen there"),
            }
        }
    }
    if !web {
        let what = "cannot listen on TCP port 443: clients in networks that block UDP and all other ports cannot \
             reach this relay";
        on_event(Event::warning(what));
    }
}

/// Opens the second port and reports what to give to clients: also addresses alone, if the node answers dialers that lack its key
/// (`accept_open`).
pub(super) fn start(
    engine: &mut Engine,
    options: &RelayOptions,
    accept_open: bool,
    on_event: &mut dyn FnMut(Event),
) {
    let links: Vec<SocketAddr> = engine.link_addresses();
    let mut second = options.second_port.filter(|port| *port != 0);
    if options.second_port.is_none() {
        second = links.first().and_then(|first| first.port().checked_add(1));
    }
    for address in &links {
        let Some(port) = second else { break };
        let at = SocketAddr::new(address.ip(), port);
        if let Err(why) = engine.bind_second(at) {
            let what = format!(
                "cannot listen on udp://{at}: {why}; clients cannot detect what kind of NAT they have"
            );
            on_event(Event::warning(what));
        }
    }
    let own = offered(&links).0.into_iter().map(Address::Ip);
    let all: Vec<Address> = options.announce.iter().cloned().chain(own).collect();
    let key: String = engine.link_key().0.iter().map(|byte| format!("{byte:02x}")).collect();
    let uris = all.iter().map(|at| format!("xylem://{key}@{at}")).collect();
    let hosts = all.iter().filter(|_| accept_open).map(NamedRelay::short).collect();
    on_event(Event::Relaying { uris, hosts, second_port: second });
}

/// Notifies the clients of a relay that was killed with this store that it is back.
pub(super) fn wake(engine: &mut Engine, store: &Path, on_event: &mut dyn FnMut(Event)) {
    match relay_clients::load(store) {
        Ok(clients) => engine.notify_relay_clients(&clients),
        Err(e) => {
            let what = format!(
                "{e}; former clients of this relay take up to 20 s to notice that it is back"
            );
            on_event(Event::warning(what));
        }
    }
}

/// Puts the bans of the store in force.
///
/// # Errors
/// They cannot be read. A relay without them would serve clients that it has to keep away.
pub(super) fn ban(engine: &mut Engine, store: &Path) -> Result<(), NodeError> {
    for ban in relay_bans::load(store).map_err(NodeError::Bans)? {
        // There are never more than may be in force.
        let _ = engine.ban_from_relay(ban);
    }
    Ok(())
}

/// A relay that is about to end does so when no pair has used it for this long.
const UNUSED: Duration = Duration::from_secs(10);

/// Carries out orders, and remembers one to end.
pub(super) struct RelayOrders {
    control: RelayControl,
    /// Whether the node does nothing else, so that it can end with the relay.
    is_alone: bool,
    /// When a relay that takes no more clients ends at the latest.
    ends: Option<Duration>,
}

impl RelayOrders {
    pub(super) fn new(control: RelayControl, is_alone: bool) -> Self {
        Self { control, is_alone, ends: None }
    }

    pub(super) fn handle(
        &mut self,
        engine: &mut Engine,
        store: &Path,
        on_event: &mut dyn FnMut(Event),
    ) {
        while let Some(queued) = self.control.next() {
            let mut answer = match queued.order {
                RelayOrder::Load(most) => {
                    RelayAnswer::Load(Box::new(engine.relay_load(most).unwrap_or_default()))
                }
                RelayOrder::Ban(ban) => RelayAnswer::Banned(engine.ban_from_relay(ban)),
                RelayOrder::Unban(ban) => RelayAnswer::Unbanned(engine.unban_from_relay(&ban)),
                RelayOrder::Bans => RelayAnswer::Bans(engine.relay_bans()),
                RelayOrder::Drain(_) if !self.is_alone => RelayAnswer::NoRelayAlone,
                RelayOrder::Drain(within) => {
                    engine.drain_relay();
                    self.ends = Some(engine.now().saturating_add(within));
                    RelayAnswer::Draining
                }
            };
            if matches!(answer, RelayAnswer::Banned(Some(_)) | RelayAnswer::Unbanned(true))
                && let Err(e) = relay_bans::keep(store, &engine.relay_bans())
            {
                let what = format!("{e}; the change of the bans holds only until this relay ends");
                on_event(Event::warning(&what));
                answer = RelayAnswer::NotStored(what);
            }
            // An asker that has gone needs no answer.
            let _ = queued.answer.try_send(answer);
        }
    }

    /// Whether the relay was told to end.
    pub(super) fn is_draining(&self) -> bool {
        self.ends.is_some()
    }

    /// Whether the relay was told to end, and nothing keeps it.
    pub(super) fn is_drained(&self, engine: &Engine) -> bool {
        let now = engine.now();
        let used = || engine.relay_forwarded().is_some_and(|at| now < at.saturating_add(UNUSED));
        self.ends.is_some_and(|ends| now >= ends || !used())
    }

    /// When to look again whether it is.
    pub(super) fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        self.ends.map(|ends| ends.min(now.saturating_add(Duration::from_secs(1))))
    }
}

impl Drop for RelayOrders {
    fn drop(&mut self) {
        self.control.end();
    }
}

/// Least pause between two writes of the clients' addresses. It grows by itself for each 26,000 clients.
const MIN_SAVE_PAUSE: Duration = Duration::from_millis(500);

/// Saves the clients' addresses for [`wake`].
#[derive(Default)]
pub(super) struct SavedClients {
    /// Number of the change that was saved last.
    kept: Option<u64>,
    /// Earliest time of the next write.
    next: Duration,
    failed: bool,
}

impl SavedClients {
    /// Saves the addresses if they have changed.
    pub(super) fn keep(
        &mut self,
        engine: &Engine,
        now: Duration,
        store: &Path,
        on_event: &mut dyn FnMut(Event),
    ) {
        let changes = engine.relay_changes();
        if self.kept == Some(changes) || now < self.next {
            return;
        }
        let clients = engine.relay_clients();
        let thousands = u32::try_from(clients.len() / 26_000).unwrap_or(u32::MAX);
        self.next = now + MIN_SAVE_PAUSE * thousands.saturating_add(1);
        self.kept = Some(changes);
        match relay_clients::keep(store, &clients) {
            Ok(()) => self.failed = false,
            Err(e) if !self.failed => {
                self.failed = true;
                let what = format!(
                    "{e}; if this relay is killed, its clients take up to 20 s to notice that it is back"
                );
                on_event(Event::warning(what));
            }
            Err(_) => {}
        }
    }
}

const HOUR: Duration = Duration::from_secs(3_600);
/// Message for a relay that has passed the bytes of an hour.
const OVER_HOUR: &str = "this relay has passed as many bytes as it may in an hour (`bytes_per_hour`): it drops all more until \
     the hour is over";

/// The time of the next report, and the counts of the last.
#[derive(Default)]
pub(super) struct RelayCountReport {
    due: Duration,
    told: BTreeMap<&'static str, u64>,
    /// When it was reported last that the bytes of the hour are used up.
    warned: Option<Duration>,
}

impl RelayCountReport {
    pub(super) fn due(&self) -> Duration {
        self.due
    }

    /// Reports counts that have changed.
    pub(super) fn report(
        &mut self,
        engine: &Engine,
        now: Duration,
        every: Duration,
        on_event: &mut dyn FnMut(Event),
    ) {
        let Some(metrics) = engine.relayed().filter(|_| now >= self.due) else { return };
        self.due = now + every;
        let counts: BTreeMap<_, _> = metrics.each().into_iter().collect();
        let over = |counts: &BTreeMap<_, _>| counts.get("over_hour").copied().unwrap_or(0);
        let is_fresh = self.warned.is_none_or(|at| now >= at + HOUR);
        if over(&counts) > over(&self.told) && is_fresh {
            self.warned = Some(now);
            on_event(Event::warning(OVER_HOUR));
        }
        if counts != self.told {
            self.told.clone_from(&counts);
            on_event(Event::Relayed { counts });
        }
    }
}
