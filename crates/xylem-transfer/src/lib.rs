//! [`Transfer`]: decides which peer to ask for what and when, until an object is here and proven.
//!
//! It is the consumer's side of a fetch, without sockets, clocks or threads. The caller numbers the peers. It hands in
//! Data packets with [`Transfer::handle_data`], gets Interests from [`Transfer::poll_transmit`], and receives proven
//! bytes as [`TransferEvent`]s. A transfer verifies every byte with [`xylem_tree::TreeVerifier`] before it reports it. It
//! keeps a congestion window and a loss detector for each peer, asks other peers for what one did not send, and drops
//! peers that misbehave (docs/spec/transfer.md).
//!
//! It does not write files, open a directory's listing, find peers, or encrypt. The caller stores what the events carry
//! and adds the objects that it wants.
//!
//! ```
//! use core::time::Duration;
//! use xylem_object::PublisherId;
//! use xylem_packet::{Name, Packet};
//! use xylem_transfer::{TransferConfig, PeerId, TransferSpec, Transfer};
//!
//! let spec = TransferSpec {
//!     prefix: Name::from_uri("/alice/model/v=7").unwrap(),
//!     publisher: PublisherId([7; 32]),
//!     root: None,
//!     size: None,
//! };
//! let mut transfer = Transfer::new(spec, TransferConfig::default(), 1);
//! transfer.add_peer(Duration::ZERO, PeerId(0));
//! let mut buffer = Vec::new();
//! assert_eq!(transfer.poll_transmit(Duration::ZERO, &mut buffer), Some(PeerId(0)));
//! let Ok(Packet::Interest(interest)) = Packet::decode(&buffer) else { panic!("an Interest") };
//! assert_eq!(interest.name().to_string(), "/alice/model/v=7/_root");
//! ```

// Configuration and events.
mod event;
// The item that one Interest asks for. Limits of a transfer in time.
mod key;
mod limits;
// One source: outstanding requests, rate and losses.
mod flight;
mod flow;
// One peer and which segments it has. All peers, and which of them is asked next.
mod available;
mod fair_queue;
mod peer;
mod peers;
mod question;
// One object and which of its blocks are rare. All objects, and what to ask for next.
mod object;
mod objects;
mod rarest;
mod round_trip;
// The whole transfer: asking, and judging what arrives.
mod transfer;
// One source alone, for fetches of another kind.
mod pipeline;

pub use event::{
    AddError, FailReason, Misbehaviour, PathReport, PeerId, PeerStats, PeerStatus, TransferConfig,
    TransferEvent, TransferProgress, TransferSpec,
};
pub use pipeline::Pipeline;
pub use transfer::{Transfer, Urgency};
