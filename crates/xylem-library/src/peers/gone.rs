//! [`Gone`]: peers that are there and refuse what the ticket names, and what they have instead.
//!
//! A refusal is nobody's signature: it is a reason to ask the others and, once all have refused, a
//! sentence for a person. That there is a newer version counts only where the publisher has signed it.

use xylem_forward::FaceId;
use xylem_object::growing::pointed_to;
use xylem_object::naming::{self, Request};
use xylem_object::{PublisherId, Ticket};
use xylem_packet::{Data, InterestBuilder, Name};

use crate::keys;

/// Peers that are remembered.
const MOST: usize = 16;

/// See the module's documentation.
pub struct Gone {
    /// P; `None`: the ticket does not say.
    wanted: Option<Name>,
    publisher: PublisherId,
    peers: Vec<Refusing>,
}

struct Refusing {
    face: FaceId,
    /// As people see it.
    peer: String,
    /// It has shown a newer version.
    newer: bool,
    /// It had the manifest, and refuses what that describes.
    pieces: bool,
}

impl Gone {
    /// Nobody refuses what `ticket` names yet.
    pub fn new(ticket: &Ticket) -> Self {
        Self { wanted: ticket.name.clone(), publisher: ticket.publisher, peers: Vec::new() }
    }

    /// A peer refused something: the manifest, or `pieces` of what it has described. True the first time.
    pub fn refused(&mut self, face: FaceId, peer: String, pieces: bool) -> bool {
        let known = |gone: &Refusing| gone.peer == peer && gone.pieces == pieces;
        if self.peers.iter().any(known) || self.peers.len() >= MOST {
            return false;
        }
        self.peers.push(Refusing { face, peer, newer: false, pieces });
        true
    }

    /// What to ask a peer that has refused the manifest: which version it has.
    pub fn question(&self) -> Option<Vec<u8>> {
        let name = naming::encode(self.wanted.as_ref()?.as_ref(), &Request::Metadata);
        let mut interest = Vec::new();
        InterestBuilder::new(name.as_ref())
            .can_be_prefix(true)
            .must_be_fresh(true)
            .nonce(keys::random().ok()?)
            .encode(&mut interest)
            .ok()?;
        Some(interest)
    }

    /// Takes what a peer has instead; whether the packet is that.
    pub fn handle_data(&mut self, from: FaceId, packet: &[u8]) -> bool {
        let Some(prefix) = &self.wanted else { return false };
        let asked = |gone: &&mut Refusing| gone.face == from && !gone.pieces;
        let Some(gone) = self.peers.iter_mut().find(asked) else { return false };
        let Ok(data) = Data::decode(packet) else { return false };
        if !naming::is_metadata(prefix.as_ref().parent(), data.name()) {
            return false;
        }
        let signed = self.publisher.verifier().is_some_and(|v| v.data(&data).is_ok());
        let newest = pointed_to(prefix.as_ref().parent(), data.content());
        let version = naming::version(prefix.as_ref());
        gone.newer |= signed && newest.is_some_and(|(_, newest)| Some(newest) > version);
        true
    }

    /// Why nobody has it, if peers have said so.
    pub fn sentence(&self) -> Option<String> {
        let said = |gone: &Refusing| match (gone.pieces, gone.newer) {
            (true, _) => format!("{} {LOST}", gone.peer),
            (_, true) => format!("{} no longer offers this version, it has a newer one", gone.peer),
            // Without a name nobody can be asked which version is the newest.
            _ if self.wanted.is_none() => {
                format!(
                    "{} does not offer this, or no longer: it may have a newer version",
                    gone.peer
                )
            }
            _ => format!("{} does not offer this, or no longer does", gone.peer),
        };
        let all: Vec<String> = self.peers.iter().map(said).collect();
        (!all.is_empty()).then(|| format!("{}; ask for a new ticket", all.join("; ")))
    }
}

/// What is said of a peer that refuses pieces.
pub const LOST: &str = "refuses parts of it, which were changed there or are not there yet";
