//! [`PeerRefusals`]: reachable peers that refuse what the ticket names, and which versions they have instead.
//!
//! A refusal is not signed. It is a reason to ask other peers and, once all have refused, the subject of a message. A
//! newer version counts only with the publisher's signature.

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

struct Refusing {
    face: FaceId,
    /// Its address, as shown to the user.
    peer: String,
    /// Whether it has shown a newer version.
    newer: bool,
    /// It sent the manifest, and refuses pieces.
    pieces: bool,
}

impl PeerRefusals {
    /// Starts without refusals of the content that `ticket` names.
    pub fn new(ticket: &Ticket) -> Self {
        Self { wanted: ticket.name.clone(), publisher: ticket.publisher, peers: Vec::new() }
    }

    /// Records that a peer refused the manifest, or with `pieces` parts of the content. Returns true the first time.
    pub fn refused(&mut self, face: FaceId, peer: String, pieces: bool) -> bool {
        let known = |gone: &Refusing| gone.peer == peer && gone.pieces == pieces;
        if self.peers.iter().any(known) || self.peers.len() >= MOST {
            return false;
        }
        self.peers.push(Refusing { face, peer, newer: false, pieces });
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
        let asked = |gone: &&mut Refusing| gone.face == from && !gone.pieces;
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

    /// Returns the message about refusals, if there are any.
    pub fn message(&self) -> Option<String> {
        let said = |gone: &Refusing| match (gone.pieces, gone.newer) {
            (true, _) => format!("{} {REFUSES_PIECES}", gone.peer),
            (_, true) => format!("{} no longer offers this version, it has a newer one", gone.peer),
            // Without a name there was no question about the newest version.
            _ if self.wanted.is_none() => {
                format!(
                    "{} does not offer this, or no longer does: it may have a newer version",
                    gone.peer
                )
            }
            _ => format!("{} does not offer this, or no longer does", gone.peer),
        };
        let all: Vec<String> = self.peers.iter().map(said).collect();
        (!all.is_empty()).then(|| format!("{}; ask for a new ticket", all.join("; ")))
    }
}

/// Predicate of the message about a peer that refuses pieces.
pub const REFUSES_PIECES: &str =
    "refuses parts of it, which were changed there or are not there yet";
