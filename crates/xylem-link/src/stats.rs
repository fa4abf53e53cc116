//! Counters of a link and of an endpoint.

use core::time::Duration;

use crate::shape::Level;

/// Counters of one link since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkStats {
    /// Datagrams handed to `poll_transmit`'s caller.
    pub datagrams_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Datagrams of pieces of packets that were sent again; counted with those sent.
    pub datagrams_repeated: u64,
    /// Authentic, first-seen datagrams.
    pub datagrams_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Datagrams of the peer that have not come although later ones have; what is late comes off again.
    pub datagrams_missing: u64,
    /// Bytes of packets in them, and of pieces of packets whether those became whole or not, with what a
    /// datagram needs beside a piece.
    pub content_received: u64,
    /// Packets taken by `send`.
    pub packets_sent: u64,
    /// Packets reported by `LinkEvent::Packet`.
    pub packets_received: u64,
    /// Datagrams for this link that did not authenticate.
    pub forged: u64,
    /// Authentic datagrams seen before, or too old to tell.
    pub replayed: u64,
    /// Key epochs begun by this side after the first.
    pub rekeys: u64,
    /// Rounds of Diffie-Hellman that this side's epochs have taken in.
    pub ratchets: u64,
    /// Whether the keys also rest on ML-KEM-768.
    pub post_quantum: bool,
    /// The shaping level in force.
    pub shaping: Level,
    /// Bytes of padding sent by shaping, cover not counted.
    pub padding_sent: u64,
    /// Bytes of datagrams sent that held nothing but padding.
    pub cover_sent: u64,
    /// Current datagram size, in bytes of UDP payload.
    pub datagram_size: usize,
    /// Smoothed round-trip time; `None` until measured.
    pub rtt: Option<Duration>,
}

/// Counters of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EndpointStats {
    /// Links, established or not.
    pub links: usize,
    /// Incoming handshakes under way.
    pub half_open: usize,
    /// Datagrams that belong to no link and are no valid first message.
    pub ignored: u64,
    /// Datagrams of links that rest ([`crate::Endpoint::rest`]).
    pub unopened: u64,
    /// Cookie demands sent.
    pub cookies_sent: u64,
    /// Stateless resets sent.
    pub resets_sent: u64,
    /// Incoming handshakes dropped because a limit was reached.
    pub refused: u64,
}
