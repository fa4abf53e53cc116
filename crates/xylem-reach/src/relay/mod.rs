//! [`RelayClient`] and [`RelayServer`]: a peer without an address of its own is reached through a relay, which forwards
//! opaque datagrams between clients that have requested a circuit (docs/spec/reach.md, "Relay").
//!
//! A client registers on a stream of an ordinary encrypted link to the relay. That link may end afterwards. Datagrams
//! then travel outside of it, each behind a header of [`HEADER`] bytes. Without the client's secret the header looks
//! random. The relay neither encrypts nor decrypts what it forwards. Keep-alives travel the same way.
//!
//! Sans-io: datagrams, the stream's bytes and the time are passed in; datagrams and bytes for the stream are returned.
//! The engine decides which peers may use a relay, and over which sockets.
//!
//! ```
//! use core::time::Duration;
//! use xylem_reach::relay::{DatagramKind, RelayConfig, HEADER, RelayPeer, RelayPort, RelayClient, RelayServer, Relayed};
//! use xylem_reach::relay::{ControlSession, ConnectTarget};
//!
//! let now = Duration::ZERO;
//! let (at, bt) = ("192.0.2.1:1000".parse().unwrap(), "192.0.2.2:2000".parse().unwrap());
//! let mut relay = RelayServer::new(RelayConfig::default(), [1; 32]);
//! let (mut a, mut b) = (RelayClient::new([2; 32], false, vec![]), RelayClient::new([3; 32], true, vec![]));
//!
//! // B registers; A registers and asks for B in one flight. Both over links to the relay.
//! let mut answers = Vec::new();
//! let peer = RelayPeer { key: [0xb; 32], at: bt, host: bt.ip() };
//! relay.handle_request(now, &mut ControlSession::default(), &peer, &b.request(), &mut answers).unwrap();
//! b.handle_control(now, &answers).unwrap();
//! let (tag, connect) = a.connect(ConnectTarget::Key([0xb; 32]));
//! let flight = [a.request(), connect].concat();
//! let peer = RelayPeer { key: [0xa; 32], at, host: at.ip() };
//! relay.handle_request(now, &mut ControlSession::default(), &peer, &flight, &mut Vec::new()).unwrap();
//!
//! // And the first datagram right behind it.
//! let mut datagram = [&a.header(tag)[..], b"opaque"].concat();
//! assert_eq!(relay.handle_datagram(now, RelayPort::First, at, &mut datagram), Relayed::Forward(bt));
//! let DatagramKind::Inner(_) = b.handle_datagram(now, false, &mut datagram) else { panic!() };
//! assert_eq!(&datagram[HEADER..], b"opaque");
//! ```

mod access;
mod client;
mod crowd;
pub(crate) mod rate;
mod server;
mod wire;

pub use access::{AllowedClients, MAX_TOKENS, TeamToken, TeamTokenError};
pub use client::{DatagramKind, RelayClient, RelayEvent};
pub use server::{
    ClientLoad, ControlSession, MAX_BANS, RelayBan, RelayBanError, RelayConfig, RelayCounters,
    RelayLoad, RelayPeer, RelayServer, Relayed, SiteLoad,
};
pub use wire::{
    CircuitTag, ConnectTarget, HEADER, MAX_NAMES, RelayPort, RelayRefusal, VouchedName, WireError,
};
