//! [`RelayServer`]: registrations of clients, and the forwarding of their datagrams.
//!
//! All state is bounded ([`RelayConfig`]). If there is no room, the oldest item of the site that has most is removed.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod circuits;
mod config;
mod fair;
mod load;
mod registrations;
mod waking;

use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use xylem_hash::keyed_hash;

pub use config::{RelayConfig, RelayCounters};
pub use load::{ClientLoad, MAX_BANS, RelayBan, RelayBanError, RelayLoad, SiteLoad};

use super::access::AllowedClients;
use super::crowd::site;
use super::rate::{Allowance, HostBuckets};
use super::wire::{
    self, CircuitTag, ConnectTarget, DatagramId, ENDS, HEADER, KeepAlive, KeepAliveKeys, PROVE,
    Register, RelayPort, RelayRefusal, RelayReply, RelayRequest, SHORTEST, TOKEN, WireError,
};
use circuits::RelayCircuits;
use fair::RateShares;
use load::{ActiveClients, RecentBytes, RelayBans};
use registrations::{RegistrationSlot, Registrations};
use waking::RestartNotices;

/// Interval at which each registration is looked at, whether it has expired.
const SWEEP: Duration = Duration::from_secs(5);
/// Registrations that are looked at at once, some milliseconds' work. More of them have several turns in the interval.
const SWEPT: usize = 16_384;
/// Maximum number of queued control datagrams. Past it, none are made.
const MAX_WAITING: usize = 1_024;
/// Minimum time between demands for proof to a registration that sends from another address.
const PROOF_DEMAND_INTERVAL: Duration = Duration::from_millis(100);
/// Rate at which a host's offences are forgotten, and the amount past which it is banned until enough are forgotten.
const OFFENCES: Allowance = Allowance { per_second: 1, burst: Duration::from_secs(600) };
/// Rate of resets to one host.
const RESETS: Allowance = Allowance { per_second: 32, burst: Duration::from_secs(1) };
/// Cost of one offence, in units of [`OFFENCES`]: three offences are tolerated.
const OFFENCE: u64 = 200;

/// The peer at the other end of a control stream's link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelayPeer {
    /// The link key that it has proven.
    pub key: [u8; 32],
    /// The address to which the link sends, and from which its datagrams come.
    pub at: SocketAddr,
    /// The host that its limits are counted for. It is the host of `at`, unless that is an internal address.
    pub host: IpAddr,
}

/// The action for a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relayed {
    /// It is not for the relay.
    Not,
    /// Send it there from the first port. Its header is rewritten.
    Forward(SocketAddr),
    /// It was for the relay and is handled.
    Done,
}

/// State of one control stream: a partial message, and the registration.
#[derive(Default)]
pub struct ControlSession {
    incoming: Vec<u8>,
    registration: Option<(RegistrationSlot, u64)>,
}

impl fmt::Debug for ControlSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("registration", &self.registration).finish_non_exhaustive()
    }
}

/// A relay: see the module's documentation.
///
/// Pass bytes of a control stream to [`RelayServer::handle_request`]. Pass every datagram from the link's port to
/// [`RelayServer::handle_datagram`] before the link's endpoint sees it, and every datagram from the second port as
/// well. Then drain [`RelayServer::poll_transmit`].
pub struct RelayServer {
    config: RelayConfig,
    key: [u8; 32],
    /// The clients that are served, and this relay's link key. `None`: all.
    allowed: Option<(AllowedClients, [u8; 32])>,
    registrations: Registrations,
    circuits: RelayCircuits,
    rates: HostRates,
    shares: RateShares,
    bans: RelayBans,
    active: ActiveClients,
    recent: RecentBytes,
    transmits: VecDeque<(RelayPort, SocketAddr, Vec<u8>)>,
    sweep: Duration,
    /// The place of the registration that is looked at next.
    swept: usize,
    metrics: RelayCounters,
    /// When the hour began whose bytes are counted, and those bytes.
    hour: (Duration, u64),
    /// Key from which reset tokens are derived. `None`: datagrams with unknown ids are not answered.
    reset_key: Option<[u8; 32]>,
    resets: u64,
    waking: RestartNotices,
    /// Whether the relay is about to end.
    draining: bool,
    /// When a datagram was forwarded last.
    forwarded: Duration,
}

/// Rate limits of each host.
#[derive(Debug)]
struct HostRates {
    registrations: HostBuckets,
    connects: HostBuckets,
    bytes: HostBuckets,
    offences: HostBuckets,
    resets: HostBuckets,
}

impl RelayServer {
    /// A relay without clients. `seed`: 32 random bytes.
    #[must_use]
    pub fn new(config: RelayConfig, seed: [u8; 32]) -> Self {
        let derive = |purpose: u8| *keyed_hash(&seed, &[purpose]).as_bytes();
        let rates = HostRates {
            registrations: HostBuckets::new(derive(1)),
            connects: HostBuckets::new(derive(2)),
            bytes: HostBuckets::new(derive(3)),
            offences: HostBuckets::new(derive(4)),
            resets: HostBuckets::new(derive(6)),
        };
        Self {
            registrations: Registrations::new(derive(5)),
            circuits: RelayCircuits::default(),
            key: derive(0),
            allowed: None,
            config,
            rates,
            shares: RateShares::default(),
            bans: RelayBans::default(),
            active: ActiveClients::default(),
            recent: RecentBytes::default(),
            transmits: VecDeque::new(),
            sweep: Duration::ZERO,
            swept: 0,
            metrics: RelayCounters::default(),
            hour: (Duration::ZERO, 0),
            reset_key: None,
            resets: 0,
            waking: RestartNotices::default(),
            draining: false,
            forwarded: Duration::ZERO,
        }
    }

    /// Lets clients learn at once that the relay has lost its state. Datagrams with unknown ids are answered
    /// ([`RelayServer::reset`]), and all clients are notified when the relay ends ([`RelayServer::notify_end`]). `key`: a
    /// secret that is the same after a restart.
    pub fn enable_resets(&mut self, key: [u8; 32]) {
        self.reset_key = Some(key);
    }

    /// Serves these clients alone. `key`: this relay's link key, for which they prove a token.
    pub fn allow(&mut self, clients: AllowedClients, key: [u8; 32]) {
        self.allowed = Some((clients, key));
    }

    /// Sets the number of the second port ([`RelayPort::Second`]), once it is open.
    pub fn set_second_port(&mut self, port: Option<u16>) {
        self.config.second_port = port;
    }

    /// Addresses with this prefix are internal: none is reported to a client.
    pub fn set_internal_prefix(&mut self, prefix: [u8; 6]) {
        self.config.hidden = Some(prefix);
    }

    fn is_hidden(&self, address: SocketAddr) -> bool {
        let IpAddr::V6(ip) = address.ip() else { return false };
        self.config.hidden.is_some_and(|prefix| ip.octets().starts_with(&prefix))
    }

    fn observed(&self, address: SocketAddr) -> Option<SocketAddr> {
        let plain = SocketAddr::new(address.ip().to_canonical(), address.port());
        (!self.is_hidden(address)).then_some(plain)
    }

    /// Takes bytes of a control stream, cut anywhere. Answers are appended to `out`.
    ///
    /// # Errors
    /// The peer does not speak this protocol; at least its stream should be closed. This counts as an offence of its
    /// host.
    pub fn handle_request(
        &mut self,
        now: Duration,
        session: &mut ControlSession,
        peer: &RelayPeer,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let outcome = self.take_requests(now, session, peer, bytes, out);
        if outcome.is_err() {
            self.offended(now, peer.host);
        }
        outcome
    }

    fn take_requests(
        &mut self,
        now: Duration,
        session: &mut ControlSession,
        peer: &RelayPeer,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let mut incoming = core::mem::take(&mut session.incoming);
        incoming.extend_from_slice(bytes);
        let mut rest = &incoming[..];
        while let Some((request, len)) = wire::take_request(rest)? {
            rest = rest.get(len..).unwrap_or_default();
            match request {
                RelayRequest::Register(register) if session.registration.is_none() => {
                    match self.register(now, peer, &register) {
                        Ok(slot) => {
                            let serial = self.registrations.get(slot).map_or(0, |one| one.serial);
                            session.registration = Some((slot, serial));
                            self.registered(slot).encode(out);
                        }
                        Err(why) => {
                            self.metrics.refused(why);
                            RelayReply::Refused(None, why).encode(out);
                        }
                    }
                }
                RelayRequest::Register(_) => return Err(WireError::OutOfOrder),
                RelayRequest::Connect { tag, target } => {
                    let reply = match self.connect(now, session, peer, tag, target) {
                        Ok(()) => RelayReply::Connected(tag),
                        Err(why) => {
                            self.metrics.refused(why);
                            RelayReply::Refused(Some(tag), why)
                        }
                    };
                    reply.encode(out);
                }
            }
        }
        session.incoming = rest.to_vec();
        Ok(())
    }

    fn offended(&mut self, now: Duration, host: IpAddr) {
        self.metrics.offences = self.metrics.offences.saturating_add(1);
        self.rates.offences.take(now, host, OFFENCE, Some(OFFENCES));
    }

    fn register(
        &mut self,
        now: Duration,
        peer: &RelayPeer,
        register: &Register,
    ) -> Result<RegistrationSlot, RelayRefusal> {
        if self.bans.has(&peer.key, peer.host) || !self.rates.offences.has(now, peer.host, OFFENCES)
        {
            return Err(RelayRefusal::Banned);
        }
        if !self.rates.registrations.take(now, peer.host, 1, self.config.registering()) {
            return Err(RelayRefusal::Quota);
        }
        if let Some((clients, key)) = &self.allowed
            && !clients.has(key, &peer.key, register.proof.as_ref())
        {
            return Err(RelayRefusal::NotAllowed);
        }
        if !register.names.iter().all(|name| name.is_vouched(&peer.key)) {
            self.offended(now, peer.host);
            return Err(RelayRefusal::NotVouched);
        }
        if let Some(slot) = self.registrations.find(&peer.key, &register.secret) {
            self.registrations.renew(now, slot, peer, register)?;
            return Ok(slot);
        }
        if self.draining {
            return Err(RelayRefusal::Ending);
        }
        if let Some(gone) = self.registrations.make_room(&self.config, peer)? {
            self.metrics.crowded_out = self.metrics.crowded_out.saturating_add(1);
            self.remove(gone);
        }
        let slot = self.registrations.add(now, peer, register)?;
        self.metrics.registered = self.metrics.registered.saturating_add(1);
        Ok(slot)
    }

    fn registered(&self, slot: RegistrationSlot) -> RelayReply {
        let one = self.registrations.get(slot);
        let lifetime = u16::try_from(self.config.lifetime.as_secs()).unwrap_or(u16::MAX);
        RelayReply::Registered {
            lifetime,
            observed: one.and_then(|one| self.observed(one.at)),
            second: self.config.second_port,
            code: one.and_then(|one| one.code),
        }
    }

    fn connect(
        &mut self,
        now: Duration,
        session: &ControlSession,
        peer: &RelayPeer,
        tag: CircuitTag,
        target: ConnectTarget,
    ) -> Result<(), RelayRefusal> {
        let (from, serial) = session.registration.ok_or(RelayRefusal::NotHere)?;
        // The registration may have been removed meanwhile.
        let own = self.registrations.get(from).filter(|own| own.serial == serial);
        own.ok_or(RelayRefusal::NotHere)?;
        if !self.rates.connects.take(now, peer.host, 1, self.config.connecting()) {
            return Err(RelayRefusal::Quota);
        }
        let to = self.registrations.target(target).filter(|to| *to != from);
        let to = to.ok_or(RelayRefusal::NotHere)?;
        if self.draining {
            return Err(RelayRefusal::Ending);
        }
        self.circuits.connect(now, &self.config, &mut self.registrations, (from, tag), to)?;
        self.metrics.connected = self.metrics.connected.saturating_add(1);
        Ok(())
    }

    fn remove(&mut self, slot: RegistrationSlot) {
        self.circuits.end_all_of(&mut self.registrations, slot);
        self.registrations.remove(slot);
    }

    /// Takes a datagram that came to one of the ports. If it is to be forwarded, its header is rewritten in place.
    pub fn handle_datagram(
        &mut self,
        now: Duration,
        port: RelayPort,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Relayed {
        let Some(id) = DatagramId::of(datagram) else { return Relayed::Not };
        let Some(slot) = self.registrations.of_id(id) else { return Relayed::Not };
        let forwarded = self.forward(now, port, from, slot, id, datagram);
        forwarded.map_or(Relayed::Done, Relayed::Forward)
    }

    fn forward(
        &mut self,
        now: Duration,
        port: RelayPort,
        from: SocketAddr,
        slot: RegistrationSlot,
        id: DatagramId,
        datagram: &mut [u8],
    ) -> Option<SocketAddr> {
        let one = self.registrations.get_mut(slot)?;
        let head = one.head_of(id)?;
        let Some(tag) = CircuitTag::new(head.tag(datagram)) else {
            self.keep_alive(now, port, from, slot, datagram);
            return None;
        };
        if port == RelayPort::Second {
            return None;
        }
        if from != one.at && one.unproven_address != Some(from) {
            self.demand_proof(now, from, slot, datagram.len());
            return None;
        }
        let much = u64::try_from(datagram.len()).unwrap_or(u64::MAX);
        let host = one.host;
        if !self.config.has_room_in_hour(now, &mut self.hour) {
            self.metrics.over_hour = self.metrics.over_hour.saturating_add(1);
            self.metrics.dropped = self.metrics.dropped.saturating_add(1);
            return None;
        }
        let passes = one.bytes.take(now, much, self.config.bytes_of_key())
            && self.rates.bytes.take(now, host, much, self.config.bytes_of_host());
        let far = self.circuits.far_end(&self.registrations, now, slot, tag);
        let Some(end) = far.filter(|_| passes) else {
            self.metrics.dropped = self.metrics.dropped.saturating_add(1);
            return None;
        };
        let far = self.registrations.get_mut(end.slot)?;
        if !far.bytes.take(now, much, self.config.bytes_of_key()) {
            self.metrics.dropped = self.metrics.dropped.saturating_add(1);
            return None;
        }
        if !self.shares.take(now, self.config.bytes_per_second, end.host, end.circuit, much) {
            self.metrics.over_share = self.metrics.over_share.saturating_add(1);
            self.metrics.dropped = self.metrics.dropped.saturating_add(1);
            return None;
        }
        datagram.get_mut(..HEADER)?.copy_from_slice(&far.down.header(Some(end.tag)));
        let to = far.at;
        self.metrics.datagrams = self.metrics.datagrams.saturating_add(1);
        self.metrics.bytes = self.metrics.bytes.saturating_add(much);
        self.hour.1 = self.hour.1.saturating_add(much);
        let second = load::second(now);
        self.recent.count(second, much);
        self.forwarded = now;
        for slot in [slot, end.slot] {
            if self.registrations.get_mut(slot).is_some_and(|one| one.recent.count(second, much)) {
                self.active.add(second, slot);
            }
        }
        Some(to)
    }

    fn keep_alive(
        &mut self,
        now: Duration,
        port: RelayPort,
        from: SocketAddr,
        slot: RegistrationSlot,
        datagram: &[u8],
    ) {
        let hidden = self.is_hidden(from);
        let Some(one) = self.registrations.get(slot) else { return };
        let keys = KeepAliveKeys::new(&one.secret);
        let opened = wire::open(&keys.up, datagram);
        // A replayed keep-alive is no sign of life, and gets no answer.
        let Some(keep) = opened.filter(|keep| keep.number > one.number) else {
            self.metrics.refused_keeps = self.metrics.refused_keeps.saturating_add(1);
            return;
        };
        let serial = one.serial;
        let token = self.token(serial, from);
        if keep.flags & wire::LEAVES != 0 {
            return self.remove(slot);
        }
        let Some(one) = self.registrations.get_mut(slot) else { return };
        one.number = keep.number;
        one.last_keep_alive = now;
        let mut flags = 0;
        if port == RelayPort::First {
            let proven = constant_time_eq::constant_time_eq(&keep.token, &token);
            if from == one.at {
                one.unproven_address = None;
            } else if proven {
                (one.at, one.unproven_address) = (from, None);
                self.registrations.moved(slot, (!hidden).then(|| from.ip()));
            } else {
                // The client proves the new address by returning the token. Until then its datagrams go to the old one.
                one.unproven_address = Some(from);
                flags = PROVE;
            }
            self.registrations.rotate(slot, keep.epoch);
        }
        let second = port == RelayPort::Second;
        let token = match flags & PROVE {
            0 if second || hidden => [0; TOKEN],
            0 => self.reset_token(self.registrations.get(slot).map(|one| one.current_id()), from),
            _ => token,
        };
        let (number, epoch) = (keep.number, keep.epoch);
        let answer =
            KeepAlive { flags, number, epoch, token, second, observed: self.observed(from) };
        self.metrics.keeps = self.metrics.keeps.saturating_add(1);
        self.answer(port, from, slot, &keys, &answer, datagram.len());
    }

    /// Demands proof of the address from which a registration's data came. Its address may have changed without its
    /// notice.
    fn demand_proof(
        &mut self,
        now: Duration,
        from: SocketAddr,
        slot: RegistrationSlot,
        len: usize,
    ) {
        let Some(one) = self.registrations.get_mut(slot) else { return };
        if len < SHORTEST || now < one.last_proof_demand.saturating_add(PROOF_DEMAND_INTERVAL) {
            return;
        }
        one.last_proof_demand = now;
        let (keys, epoch, serial) = (KeepAliveKeys::new(&one.secret), one.epoch, one.serial);
        let token = self.token(serial, from);
        let observed = self.observed(from);
        let answer = KeepAlive { flags: PROVE, number: 0, epoch, token, second: false, observed };
        self.answer(RelayPort::First, from, slot, &keys, &answer, SHORTEST);
    }

    /// Queues an answer that is never longer than what it answers.
    fn answer(
        &mut self,
        port: RelayPort,
        to: SocketAddr,
        slot: RegistrationSlot,
        keys: &KeepAliveKeys,
        answer: &KeepAlive,
        len: usize,
    ) {
        let Some(one) = self.registrations.get(slot) else { return };
        if self.transmits.len() < MAX_WAITING {
            let datagram = wire::seal(&keys.down, one.down, answer, wire::padding_of(len));
            self.transmits.push_back((port, to, datagram));
        }
    }

    /// The token that a registration has to return to prove that it receives at this address. It is derived, so nothing
    /// is stored for it.
    fn token(&self, serial: u64, address: SocketAddr) -> [u8; TOKEN] {
        let said = [&address_bytes(address)[..], &serial.to_be_bytes()].concat();
        *keyed_hash(&self.key, &said).as_bytes().first_chunk().expect("32 bytes are more")
    }

    /// The token of a reset that answers this id from this address. A copy of a datagram sent from elsewhere gets a
    /// different token, and an id in use is never answered with a reset.
    fn reset_token(&self, id: Option<DatagramId>, from: SocketAddr) -> [u8; TOKEN] {
        let Some((key, id)) = self.reset_key.zip(id) else { return [0; TOKEN] };
        let said = [&id.0[..], &address_bytes(from)].concat();
        *keyed_hash(&key, &said).as_bytes().first_chunk().expect("32 bytes are more")
    }

    /// Answers a datagram to the first port that neither [`RelayServer::handle_datagram`] nor the link's endpoint
    /// knows. It may come from a client of a relay with the same key before a restart. `begin` holds the datagram's
    /// first bytes and `len` its length. The answer is shorter, and the rate per host is limited.
    pub fn reset(&mut self, now: Duration, from: SocketAddr, begin: &[u8; HEADER], len: usize) {
        let Some(id) = DatagramId::of(begin) else { return };
        let answers = self.reset_key.is_some() && len >= SHORTEST;
        if !answers
            || self.is_hidden(from)
            || self.transmits.len() >= MAX_WAITING
            || self.registrations.of_id(id).is_some()
            || !self.rates.resets.take(now, from.ip(), 1, Some(RESETS))
        {
            return;
        }
        self.metrics.resets = self.metrics.resets.saturating_add(1);
        self.send_token(from, self.reset_token(Some(id), from));
    }

    /// Sends random bytes and a token that only its receiver recognises.
    fn send_token(&mut self, to: SocketAddr, token: [u8; TOKEN]) {
        self.resets = self.resets.wrapping_add(1);
        let mut random = [0; 64];
        let seed = keyed_hash(&self.key, &[&b"reset"[..], &self.resets.to_be_bytes()].concat());
        let (one, other) = random.split_at_mut(32);
        one.copy_from_slice(seed.as_bytes());
        other.copy_from_slice(keyed_hash(&self.key, seed.as_bytes()).as_bytes());
        self.transmits.push_back((RelayPort::First, to, wire::reset(&random, token)));
    }

    /// The data to store for [`RelayServer::notify_clients`]: each client's address and token. Clients with internal addresses
    /// are left out, because their connections end with the relay.
    #[must_use]
    pub fn clients(&self) -> Vec<u8> {
        let plain = self.registrations.all().filter(|one| !self.is_hidden(one.at));
        plain.flat_map(waking::encode_client).collect()
    }

    /// Incremented whenever [`RelayServer::clients`] changes.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.registrations.changes
    }

    /// Notifies the stored clients of a relay that was killed. Each sends a keep-alive at once and learns that it has
    /// to register again. `clients` may hold arbitrary bytes.
    pub fn notify_clients(&mut self, now: Duration, clients: &[u8]) {
        self.waking = RestartNotices::new(now, clients, self.config.registrations);
    }

    /// Takes no more clients and pairs from now on. Those that there are continue.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// When the last datagram was forwarded; `None`: there is no pair that could forward one.
    #[must_use]
    pub fn last_forwarded(&self) -> Option<Duration> {
        (self.circuits.len() > 0).then_some(self.forwarded)
    }

    /// Notifies all clients that the relay ends.
    pub fn notify_end(&mut self) {
        if self.reset_key.is_none() {
            return;
        }
        for one in self.registrations.all() {
            let keys = KeepAliveKeys::new(&one.secret);
            let said = KeepAlive { flags: ENDS, epoch: one.epoch, ..KeepAlive::default() };
            let datagram = wire::seal(&keys.down, one.down, &said, 0);
            self.transmits.push_back((RelayPort::First, one.at, datagram));
        }
    }

    /// What the relay does now, with `most` sites and clients. It takes time for the active ones alone.
    pub fn load(&mut self, now: Duration, most: usize) -> RelayLoad {
        let second = load::second(now);
        let mut sites: HashMap<IpAddr, u64> = HashMap::new();
        let mut clients = Vec::new();
        for slot in self.active.of_last(second) {
            let Some(one) = self.registrations.get(*slot) else { continue };
            let bytes_per_second = one.recent.of_last(second);
            let of_site = sites.entry(site(one.host)).or_default();
            *of_site = of_site.saturating_add(bytes_per_second);
            let circuits =
                one.circuits_requested.len().saturating_add(one.circuits_as_target.len());
            clients.push(ClientLoad { key: one.key, host: one.host, circuits, bytes_per_second });
        }
        for (site, _) in self.registrations.largest_sites().take(most) {
            sites.entry(site).or_default();
        }
        let row = |(site, bytes_per_second)| SiteLoad {
            site,
            registrations: self.registrations.of_site(site),
            bytes_per_second,
        };
        let mut sites: Vec<SiteLoad> = sites.into_iter().map(row).collect();
        let place = |one: &SiteLoad| (one.bytes_per_second, one.registrations, one.site);
        sites.sort_unstable_by_key(|one| core::cmp::Reverse(place(one)));
        clients.sort_unstable_by_key(|one| core::cmp::Reverse((one.bytes_per_second, one.key)));
        sites.truncate(most);
        clients.truncate(most);
        let bytes_per_second = self.recent.of_last(second);
        RelayLoad { counters: self.metrics(), bytes_per_second, sites, clients }
    }

    /// Keeps a client or a network away from now on, and removes its registrations. Returns how many; `None` if there
    /// are [`MAX_BANS`].
    pub fn ban(&mut self, ban: RelayBan) -> Option<usize> {
        if !self.bans.add(ban) {
            return None;
        }
        let banned = self.registrations.of_ban(&ban);
        banned.iter().for_each(|slot| self.remove(*slot));
        Some(banned.len())
    }

    /// Ends a ban; returns whether there was this one.
    pub fn unban(&mut self, ban: &RelayBan) -> bool {
        self.bans.remove(ban)
    }

    /// The bans in force.
    #[must_use]
    pub fn bans(&self) -> Vec<RelayBan> {
        self.bans.all()
    }

    /// The next datagram of the relay: the port to send it from, its destination and its bytes.
    pub fn poll_transmit(&mut self) -> Option<(RelayPort, SocketAddr, Vec<u8>)> {
        self.transmits.pop_front()
    }

    /// When to call [`RelayServer::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let sweep = (self.registrations.len() > 0).then_some(self.sweep);
        sweep.into_iter().chain(self.waking.poll_timeout()).min()
    }

    /// Handles due timers.
    pub fn handle_timeout(&mut self, now: Duration) {
        for (to, token) in self.waking.due(now) {
            self.send_token(to, token);
        }
        if now < self.sweep {
            return;
        }
        let places = self.registrations.places();
        let turns = u32::try_from(places.div_ceil(SWEPT)).unwrap_or(u32::MAX).max(1);
        self.sweep = now.saturating_add(SWEEP.checked_div(turns).unwrap_or(SWEEP));
        let until = self.swept.saturating_add(SWEPT);
        let swept = self.swept..until;
        self.swept = if until < places { until } else { 0 };
        for slot in self.registrations.expired(now, self.config.lifetime, swept) {
            self.metrics.expired = self.metrics.expired.saturating_add(1);
            self.remove(slot);
        }
    }

    /// The counters and current sizes.
    #[must_use]
    pub fn metrics(&self) -> RelayCounters {
        RelayCounters {
            registrations: self.registrations.len(),
            circuits: self.circuits.len(),
            ..self.metrics
        }
    }
}

/// Length of an encoded address in bytes.
const ADDRESS: usize = 18;

fn address_bytes(address: SocketAddr) -> [u8; ADDRESS] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut said = [0; ADDRESS];
    said[..16].copy_from_slice(&Ipv6Addr::octets(&ip));
    said[16..].copy_from_slice(&address.port().to_be_bytes());
    said
}

impl fmt::Debug for RelayServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayServer").field("metrics", &self.metrics()).finish_non_exhaustive()
    }
}
