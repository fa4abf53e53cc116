//! [`PeerRefusals`]: reachable peers that refuse what the ticket names, and which versions they have instead.
//!
//! A refusal is not signed. It is a reason to ask other peers and, once all have refused, the subject of a message. A
//! newer version counts only with the publisher's signature.

use std::fmt;

use xylem_forward::FaceId;
use xylem_object::growing::pointer_target;
use xylem_object::naming::{self, PublicationRequest};
use xylem_object::{PublisherId, Ticket};
use xylem_packet::{Data, InterestBuilder, Name};

/// Most peers remembered.
const MOST: usize = 16;

/// Peers that refused; see the module's documentation.
pub struct PeerRefusals {
    /// Versioned prefix of the content; `None`: the ticket does not contain it.
    wanted: Option<Name>,
    publisher: PublisherId,
    peers: Vec<Refusing>,
}

/// What a peer refuses to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedPart {
    /// The manifest: it does not have the publication.
    Manifest,
    /// Pieces of the content.
    Pieces,
}

struct Refusing {
    face: FaceId,
    /// Its address, as shown to the user.
    peer: String,
    /// Whether it has shown a newer version.
    newer: bool,
    part: RefusedPart,
}

impl PeerRefusals {
    /// Starts without refusals of the content that `ticket` names.
    pub fn new(ticket: &Ticket) -> Self {
        Self { wanted: ticket.name.clone(), publisher: ticket.publisher, peers: Vec::new() }
    }

    /// Records that a peer refused a part of the publication. Returns true the first time.
    pub fn refused(&mut self, face: FaceId, peer: String, part: RefusedPart) -> bool {
        let known = |gone: &Refusing| gone.peer == peer && gone.part == part;
        if self.peers.iter().any(known) || self.peers.len() >= MOST {
            return false;
        }
        self.peers.push(Refusing { face, peer, newer: false, part });
        true
    }

    /// Returns the Interest that asks a refusing peer which version it has.
    pub fn question(&self) -> Option<Vec<u8>> {
        let name = naming::encode(self.wanted.as_ref()?.as_ref(), &PublicationRequest::Metadata);
        let mut interest = Vec::new();
        InterestBuilder::new(name.as_ref())
            .can_be_prefix(true)
            .must_be_fresh(true)
            .nonce(xylem_base::random().ok()?)
            .encode(&mut interest)
            .ok()?;
        Some(interest)
    }

    /// Takes a peer's answer to that; returns whether the packet is one.
    pub fn handle_data(&mut self, from: FaceId, packet: &[u8]) -> bool {
        let Some(prefix) = &self.wanted else { return false };
        let asked = |gone: &&mut Refusing| gone.face == from && gone.part == RefusedPart::Manifest;
        let Some(gone) = self.peers.iter_mut().find(asked) else { return false };
        let Ok(data) = Data::decode(packet) else { return false };
        if !naming::is_metadata(prefix.as_ref().parent(), data.name()) {
            return false;
        }
        let signed = self.publisher.verifier().is_some_and(|v| v.data(&data).is_ok());
        let newest = pointer_target(prefix.as_ref().parent(), data.content());
        let version = naming::version(prefix.as_ref());
        gone.newer |= signed && newest.is_some_and(|(_, newest)| Some(newest) > version);
        true
    }

    /// Returns the refusals; empty if there are none.
    pub fn list(&self) -> Vec<PeerRefusal> {
        let why = |gone: &Refusing| match (gone.part, gone.newer) {
            (RefusedPart::Pieces, _) => RefusalReason::Pieces,
            (_, true) => RefusalReason::Newer,
            // Without a name there was no question about the newest version.
            _ if self.wanted.is_none() => RefusalReason::PerhapsNewer,
            _ => RefusalReason::NotOffered,
        };
        let refusal = |gone: &Refusing| PeerRefusal { peer: gone.peer.clone(), why: why(gone) };
        self.peers.iter().map(refusal).collect()
    }
}

/// A peer that refuses the publication or parts of it. `Display` is a sentence about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRefusal {
    /// The peer's address, as shown to the user.
    pub peer: String,
    /// Why, as far as is known.
    pub why: RefusalReason,
}

impl fmt::Display for PeerRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.peer, self.why)
    }
}

/// Why a peer refuses a publication, as far as is known. `Display` is the predicate of a sentence about the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    /// It sent the manifest, and refuses pieces.
    #[error("{REFUSES_PIECES}")]
    Pieces,
    /// It has a newer version.
    #[error("no longer offers this version, it has a newer one")]
    Newer,
    /// It does not have it, and it is unknown whether there is a newer version.
    #[error("does not offer this, or no longer does: it may have a newer version")]
    PerhapsNewer,
    /// It does not have it.
    #[error("does not offer this, or no longer does")]
    NotOffered,
}

/// Predicate of the message about a peer that refuses pieces.
pub const REFUSES_PIECES: &str =
    "refuses parts of it, which were changed there or are not there yet";
