//! [`Transfer`]: what to ask whom, when, until an object is here and proven.
//!
//! The consumer's side of a fetch, without sockets, clocks or threads. Data packets come in through
//! [`Transfer::handle_data`], from peers that the caller numbers; Interests go out through
//! [`Transfer::poll_transmit`]; proven bytes come out as [`TransferEvent`]s. It judges every byte with
//! [`xylem_tree::Verifier`] before anybody sees it, keeps a congestion window and a loss detector for
//! each peer, asks others for what one did not bring, and stops asking those who lie
//! (docs/spec/transfer.md).
//!
//! It does not write files, open a directory's listing, find peers, or encrypt: the caller stores
//! what the events carry, and adds the objects that it wants.
//!
//! ```
//! use core::time::Duration;
//! use xylem_object::PublisherId;
//! use xylem_packet::{Name, Packet};
//! use xylem_transfer::{Config, PeerId, Spec, Transfer};
//!
//! let spec = Spec {
//!     prefix: Name::from_uri("/alice/model/v=7").unwrap(),
//!     publisher: PublisherId([7; 32]),
//!     root: None,
//!     size: None,
//! };
//! let mut transfer = Transfer::new(spec, Config::default(), 1);
//! transfer.add_peer(Duration::ZERO, PeerId(0));
//! let mut buffer = Vec::new();
//! assert_eq!(transfer.poll_transmit(Duration::ZERO, &mut buffer), Some(PeerId(0)));
//! let Ok(Packet::Interest(interest)) = Packet::decode(&buffer) else { panic!("an Interest") };
//! assert_eq!(interest.name().to_string(), "/alice/model/v=7/_root");
//! ```

// What is to be fetched, and what is reported.
mod event;
// What one Interest asks for; what bounds a transfer in time.
mod key;
mod limits;
// One source: what it was asked, how fast, what is lost.
mod flight;
mod flow;
// One peer, what it has; all of them, and whose turn it is.
mod available;
mod fair_queue;
mod peer;
mod peers;
mod question;
// One object, which blocks few have; all of them, and what is to be asked for.
mod object;
mod objects;
mod rarest;
mod round_trip;
// All of it: asking, and judging what comes.
mod transfer;
// One source alone, for fetches of another kind.
mod pipeline;

pub use event::{
    AddError, Config, FailReason, Misbehaviour, PathReport, PeerId, PeerStats, Progress, Spec,
    Standing, TransferEvent,
};
pub use pipeline::Pipeline;
pub use transfer::{Transfer, Urgency};
