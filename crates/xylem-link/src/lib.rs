//! [`Endpoint`]: encrypted datagram links to peers, many over one socket; each established one is a [`Link`]. In this
//! workspace the word endpoint means this type and nothing else.
//!
//! The endpoint carries opaque packets and does not interpret them. A link gives them confidentiality, forward secrecy,
//! proof of the peer's identity, and delivery at most once. It gives them no delivery guarantee, no order and no
//! congestion control: the program that asks for data drives the rate and asks again. Streams beside them
//! ([`Endpoint::open_stream`]) have all of that.
//!
//! The endpoint is sans-io. Bytes come from a socket that the caller reads ([`Endpoint::handle_datagram`]) and go to
//! one that it writes ([`Endpoint::poll_transmit`]); randomness comes from a seed. Time is passed in: after
//! `poll_transmit` has given `None`, call [`Endpoint::handle_timeout`] at the time that [`Endpoint::poll_timeout`]
//! returns. `tests/sim` runs endpoints under virtual time. docs/spec/link.md specifies the wire format;
//! docs/threat-model.md states what observers learn.
//!
//! The flow of bytes out: [`Endpoint::send`] → queue (coalesce, fragment) → frames
//! → `Sealer` → datagram; and in: datagram → routing by connection id → `Opener` →
//! `Frames` → reassembly → [`LinkEvent::Packet`].
//!
//! ```
//! use core::time::Duration;
//! use xylem_link::{LinkConfig, Endpoint, LinkEvent, StaticKey};
//!
//! // A real program uses 32 random bytes for each.
//! let mut server = Endpoint::new(LinkConfig::default(), StaticKey::generate([1; 32]), [2; 32]);
//! let mut client = Endpoint::new(LinkConfig::default(), StaticKey::generate([3; 32]), [4; 32]);
//! let (server_at, client_at) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
//! let now = Duration::ZERO;
//! let link = client.connect(now, server_at, Some(server.public_key()));
//!
//! // Carries everything that both want to send; a program uses sockets instead.
//! let mut buf = Vec::new();
//! let mut carry = |client: &mut Endpoint, server: &mut Endpoint| {
//!     for _ in 0..10 {
//!         while let Some(transmit) = client.poll_transmit(now, &mut buf) {
//!             for datagram in buf.chunks(transmit.segment_size.unwrap_or(transmit.len)) {
//!                 server.handle_datagram(now, client_at, datagram.into());
//!             }
//!         }
//!         while let Some(transmit) = server.poll_transmit(now, &mut buf) {
//!             for datagram in buf.chunks(transmit.segment_size.unwrap_or(transmit.len)) {
//!                 client.handle_datagram(now, server_at, datagram.into());
//!             }
//!         }
//!     }
//! };
//! carry(&mut client, &mut server);
//! assert!(matches!(client.poll_event(), Some(LinkEvent::Connected { .. })));
//! assert!(matches!(server.poll_event(), Some(LinkEvent::Connected { .. })));
//!
//! client.send(link, b"a packet").unwrap();
//! carry(&mut client, &mut server);
//! // The event before it reports where the client sees the server.
//! let mut events = core::iter::from_fn(|| server.poll_event());
//! let Some(LinkEvent::Packet { packet, .. }) = events.nth(1) else { panic!() };
//! assert_eq!(&packet[..], b"a packet");
//! ```

mod config;
mod event;
mod stats;

mod curve;
mod elligator;
mod keys;

mod endpoint;
mod handshake;

mod cookie;
mod envelope;
mod kem;
mod message;
mod noise;

mod acks;
mod ledger;
mod link;
mod mtu;
mod queue;
mod reassembly;
mod repair;
mod shape;
mod source;
mod stream;
mod way;

#[allow(unreachable_pub, reason = "public in xylem-link-internals")]
mod frame;
mod replay;
#[allow(unreachable_pub, reason = "public in xylem-link-internals")]
mod seal;

#[allow(unreachable_pub, reason = "public in xylem-link-internals")]
mod aead;
mod epoch;
#[allow(unreachable_pub, reason = "public in xylem-link-internals")]
mod header;
mod rekey;
mod reset;

mod kdf;
mod secret;

#[cfg(internals)]
pub use aead::Cipher;
pub use config::{LinkConfig, PostQuantum, Suites};
pub use endpoint::{Endpoint, MAX_KNOCKS};
pub use event::{CloseReason, LinkEvent, LinkId, StreamId, Transmit};
pub use frame::MAX_PACKET;
pub use keys::{PeerKey, StaticKey};
pub use link::{Link, LinkSendError, ProbePace};
pub use mtu::{BASE_DATAGRAM, MAX_DATAGRAM};
pub use rekey::RatchetLimits;
pub use seal::RekeyLimits;
pub use shape::{Cover, Level, NoSuchLevel, Padding, SendTiming, Shaping, ShapingProfile};
pub use source::source;
pub use stats::{EndpointStats, LinkStats, Traffic};
pub use stream::{
    INITIAL_LINK_WINDOW, INITIAL_STREAM_WINDOW, MAX_STREAMS, REFUSED, StreamError, StreamRead,
    purpose,
};
pub use way::{NatMapping, PathKind};
pub use xylem_congestion::CongestionAlgorithm;

#[cfg(any(test, internals))]
#[path = "../internals/src/internals.rs"]
pub mod internals;
