//! [`Client`]: an application's side of a forwarder, ours or another.
//!
//! One blocking connection over a Unix, TCP or UDP socket, and on it what applications do: ask for
//! one packet, fetch or publish an object in segments, ping, generate load, command the forwarder.
//! Packets leave as NDN packets in NDNLPv2 headers where any are needed; who answers is whoever
//! the forwarder finds. This module has no event loop of a node: time is spent waiting for the one
//! socket, and [`Stop`] is looked at meanwhile.
//!
//! It does not forward, cache or encrypt, and it believes nothing that was not verified by a key
//! that the caller named.

mod endpoint;
mod socket;

pub mod manage;

mod histogram;
mod usage;

pub mod traffic;

mod trust;

pub mod rdr;

mod discover;
mod segments;

pub mod object;
pub mod put;

pub mod peek;
pub mod ping;

pub use histogram::Histogram;
pub(crate) use trust::certificate;
pub use trust::{Believe, KeyFile, Sign, Verdict};
pub use usage::Usage;

use std::time::{Duration, Instant};

use xylem_packet::link_service::{LinkHeaders, LinkService, LinkServiceConfig};
use xylem_packet::{Data, Interest, MAX_FRAME, NackReason, Name, Packet};

use crate::failure;
use crate::peer::Peer;
use crate::uri::PeerUri;
use socket::{Queue, Socket};
use xylem_library::{Blame, Error, Stop};

/// Longest wait without a look at the stop flag.
const GLANCE: Duration = Duration::from_millis(100);
/// Longest datagram to another machine: fits every network that IPv6 does, tunnels included.
const DATAGRAM: usize = 1232;

/// A connection to a forwarder.
///
/// Queue packets with [`Client::outbox`], then [`Client::receive`] until what is awaited came;
/// `receive` writes what is queued first.
pub struct Client {
    socket: Socket,
    at: String,
    peer: Peer,
    started: Instant,
    /// Apart, so that an answer can be sent while what it answers is looked at.
    incoming: LinkService,
    outgoing: LinkService,
}

/// What the forwarder handed over: one bare Interest or Data and what was said around it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The Interest or Data.
    pub packet: &'a [u8],
    /// Has to come back with the answer to an Interest.
    pub pit_token: Option<&'a [u8]>,
    /// `packet` is an Interest of ours that comes back, for this reason.
    pub nack: Option<NackReason>,
    /// The way here is congested.
    pub congested: bool,
}

/// Where packets wait to be written.
pub struct Outbox<'a> {
    queue: &'a mut Queue,
    link: &'a mut LinkService,
    now: Duration,
}

/// What [`Client::answer`] calls: the Interest, its PIT token, where the answer goes. False ends it.
pub type OnInterest<'a> = dyn FnMut(&Interest<'_>, Option<&[u8]>, &mut Outbox<'_>) -> bool + 'a;

/// How one Interest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The Data packet.
    Data(Vec<u8>),
    /// The forwarder refused it.
    Nack(NackReason),
    /// Nobody answered in time.
    Timeout,
}

impl Client {
    /// Connects to the forwarder at `at` (`unix:///path`, `tcp://host:port`, `udp://host:port`),
    /// or to the one that `NDN_CLIENT_TRANSPORT` names, or to the one that runs here.
    ///
    /// # Errors
    /// [`Blame::Usage`] for a URI that can't be used, [`Blame::Network`] if nobody is there.
    pub fn connect(at: Option<&PeerUri>) -> Result<Self, Error> {
        let mut last = Err(failure::usage("no address"));
        for peer in endpoint::choose(at)? {
            last = Self::connect_to(&peer);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// Connects to the forwarder at this very address.
    ///
    /// # Errors
    /// As for [`Self::connect`].
    pub fn connect_to(peer: &Peer) -> Result<Self, Error> {
        let socket = Socket::connect(peer)?;
        let at = peer.to_string();
        let mtu = if socket.cuts_datagrams() { DATAGRAM } else { MAX_FRAME };
        let config = LinkServiceConfig {
            mtu,
            fragmentation: mtu < MAX_FRAME,
            local_fields: true,
            congestion_marking: false,
            first_sequence: random_seed()?,
            ..LinkServiceConfig::default()
        };
        Ok(Self {
            socket,
            at,
            peer: peer.clone(),
            started: Instant::now(),
            incoming: LinkService::new(config),
            outgoing: LinkService::new(config),
        })
    }

    /// Where it is connected, as a URI.
    pub fn at(&self) -> &str {
        &self.at
    }

    /// The same as an address.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Where packets are queued.
    pub fn outbox(&mut self) -> Outbox<'_> {
        let now = self.started.elapsed();
        Outbox { queue: &mut self.socket.queue, link: &mut self.outgoing, now }
    }

    /// Writes what is queued.
    ///
    /// # Errors
    /// [`Blame::Network`] if the connection ended.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.socket.flush()
    }

    /// Hands every packet that is there to `each`, which may queue answers; if there is none, waits
    /// for the first at most `wait`. False: nothing came.
    ///
    /// Frames that are no NDN packets are left out: a forwarder relays what strangers send.
    ///
    /// # Errors
    /// [`Blame::Network`] if the connection ended.
    pub fn receive(
        &mut self,
        wait: Duration,
        each: &mut dyn FnMut(Message<'_>, &mut Outbox<'_>),
    ) -> Result<bool, Error> {
        let now = self.started.elapsed();
        self.incoming.handle_timeout(now, &mut |_| {});
        let (incoming, link) = (&mut self.incoming, &mut self.outgoing);
        self.socket.receive(wait, &mut |frame, queue| {
            let Ok(Some(received)) = incoming.receive(now, frame) else { return };
            let headers = received.headers;
            let message = Message {
                packet: received.packet,
                pit_token: headers.pit_token,
                nack: headers.nack,
                congested: headers.congestion_mark.is_some_and(|mark| mark != 0),
            };
            each(message, &mut Outbox { queue, link, now });
        })
    }

    /// Hands every Interest that comes to `each`, with its PIT token, which has to come back with
    /// the answer; until `each` returns false or `stop` is raised.
    ///
    /// # Errors
    /// [`Blame::Network`] if the connection ended.
    pub fn answer(&mut self, stop: &Stop, each: &mut OnInterest<'_>) -> Result<(), Error> {
        let mut on = true;
        while on && !stop.raised() {
            self.receive(GLANCE, &mut |message, outbox| {
                if message.nack.is_none()
                    && on
                    && let Ok(interest) = Interest::decode(message.packet)
                {
                    on = each(&interest, message.pit_token, outbox);
                }
            })?;
        }
        Ok(())
    }

    /// Sends one Interest and waits for its answer.
    ///
    /// # Errors
    /// [`Blame::Network`] if the connection ended, [`Blame::Interrupted`] if `stop` was raised,
    /// [`Blame::Usage`] if `interest` is none.
    pub fn fetch(
        &mut self,
        interest: &[u8],
        timeout: Duration,
        stop: &Stop,
    ) -> Result<Reply, Error> {
        let asked = Interest::decode(interest).map_err(|e| failure::usage(e.to_string()))?;
        self.outbox().packet(interest, None);
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut reply = None;
            self.receive(left.min(GLANCE), &mut |message, _| {
                if reply.is_none() {
                    reply = answer(&asked, message);
                }
            })?;
            if let Some(reply) = reply {
                return Ok(reply);
            }
            if stop.raised() {
                return Err(interrupted());
            }
            if left.is_zero() {
                return Ok(Reply::Timeout);
            }
        }
    }
}

impl Outbox<'_> {
    /// Queues an Interest or Data, with a PIT token of 1 to 32 octets if one is given. What is no
    /// packet or longer than any may be is left out.
    pub fn packet(&mut self, packet: &[u8], pit_token: Option<&[u8]>) {
        let headers = LinkHeaders { pit_token, ..LinkHeaders::default() };
        let queue = &mut *self.queue;
        let _ = self.link.send(self.now, packet, &headers, 0, &mut |frame| queue.frame(frame));
    }

    /// Bytes that wait to be written.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }
}

/// What `message` says to the Interest, if anything.
fn answer(asked: &Interest<'_>, message: Message<'_>) -> Option<Reply> {
    match (Packet::decode(message.packet).ok()?, message.nack) {
        (Packet::Data(data), None) if satisfies(&data, asked) => {
            Some(Reply::Data(message.packet.to_vec()))
        }
        (Packet::Interest(returned), Some(reason)) if returned.name() == asked.name() => {
            Some(Reply::Nack(reason))
        }
        _ => None,
    }
}

/// Whether the Data's name is what the Interest asks for; a full name by its implicit digest.
/// Freshness is a matter of caches: whoever produced a packet decides what it answers.
pub(crate) fn satisfies(data: &Data<'_>, asked: &Interest<'_>) -> bool {
    let (name, wanted) = (data.name(), asked.name());
    let digest = wanted.last().filter(|c| c.typ() == xylem_packet::types::IMPLICIT_SHA256_DIGEST);
    if let Some(digest) = digest {
        return wanted.parent() == name && data.implicit_digest() == digest.value();
    }
    wanted == name || (asked.can_be_prefix() && wanted.is_prefix_of(name))
}

pub(crate) fn interrupted() -> Error {
    Error { blame: Blame::Interrupted, message: "interrupted".to_owned() }
}

/// A name from what was typed.
pub(crate) fn parse_name(uri: &str) -> Result<Name, Error> {
    let name = Name::from_uri(uri).map_err(|e| failure::usage(format!("{uri}: {e}")))?;
    match name.is_empty() {
        true => Err(failure::usage(format!("{uri}: a name needs at least one component"))),
        false => Ok(name),
    }
}

/// Randomness that nonces begin with.
fn random_seed() -> Result<u64, Error> {
    Ok(u64::from_le_bytes(xylem_library::identity::random()?))
}
