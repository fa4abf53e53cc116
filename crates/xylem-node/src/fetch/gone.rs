//! [`Gone`]: peers that are there and refuse what the ticket names, and what they have instead.
//!
//! A refusal is nobody's signature: it is a reason to ask the others and, once all have refused, a
//! sentence for a person. That there is a newer version counts only where the publisher has signed it.

use xylem_forward::FaceId;
use xylem_library::keys;
use xylem_object::growing::pointed_to;
use xylem_object::{Ticket, naming};
use xylem_packet::{Component, Data, InterestBuilder, Name};
use xylem_trust::Verifier;

use crate::engine::Engine;
use crate::event::Event;
use crate::peer::FaceAddress;

/// Peers that are remembered.
const MOST: usize = 16;

/// See the module's documentation.
pub(super) struct Gone {
    /// O, and the version that is wanted; `None`: the ticket does not say.
    wanted: Option<(Name, u64)>,
    verifier: Option<Verifier>,
    peers: Vec<Refusing>,
}

struct Refusing {
    face: FaceId,
    peer: FaceAddress,
    /// It has shown a newer version.
    newer: bool,
    /// It had the manifest, and refuses what that describes.
    pieces: bool,
}

impl Gone {
    pub(super) fn new(ticket: &Ticket) -> Self {
        let object_of =
            |name: &Name| Some((name.as_ref().parent().to_name(), naming::version(name.as_ref())?));
        let wanted = ticket.name.as_ref().and_then(object_of);
        Self { wanted, verifier: ticket.publisher.verifier(), peers: Vec::new() }
    }

    /// A peer refused something: the manifest, so that it is asked once what it has instead, or `pieces`
    /// of what it has described, which is told once.
    pub(super) fn refused(
        &mut self,
        engine: &mut Engine,
        (face, peer): (FaceId, FaceAddress),
        pieces: bool,
        on_event: &mut dyn FnMut(Event),
    ) {
        let known = |gone: &Refusing| gone.face == face && gone.pieces == pieces;
        if self.peers.iter().any(known) || self.peers.len() >= MOST {
            return;
        }
        if pieces {
            on_event(Event::warning(format!("{peer} {LOST}; still asking")));
        } else if let Some((object, _)) = &self.wanted
            && let Some(question) = question(object)
        {
            engine.ask(face, &question);
        }
        self.peers.push(Refusing { face, peer, newer: false, pieces });
    }

    /// Takes what a peer has instead; whether the packet is that.
    pub(super) fn handle_data(&mut self, from: FaceId, packet: &[u8]) -> bool {
        let Some((object, version)) = &self.wanted else { return false };
        let Ok(data) = Data::decode(packet) else { return false };
        let rest = data.name().strip_prefix(object.as_ref());
        let metadata = Component::keyword(xylem_client::METADATA);
        let Some(gone) = self.peers.iter_mut().find(|gone| gone.face == from && !gone.pieces)
        else {
            return false;
        };
        if rest.and_then(|rest| rest.get(0)) != Some(metadata) {
            return false;
        }
        let signed = self.verifier.as_ref().is_some_and(|v| v.data(&data).is_ok());
        let newest = pointed_to(object.as_ref(), data.content());
        gone.newer |= signed && newest.is_some_and(|(_, newest)| newest > *version);
        true
    }

    /// Why nobody has it, if peers have said so.
    pub(super) fn sentence(&self) -> Option<String> {
        let said = |gone: &Refusing| match (gone.pieces, gone.newer) {
            (true, _) => format!("{} {LOST}", gone.peer),
            (_, true) => format!("{} no longer offers this version, it has a newer one", gone.peer),
            _ => format!("{} does not offer this, or no longer does", gone.peer),
        };
        let all: Vec<String> = self.peers.iter().map(said).collect();
        (!all.is_empty()).then(|| format!("{}; ask for a new ticket", all.join("; ")))
    }
}

const LOST: &str = "refuses parts of it, which were changed there or are not there yet";

/// Which version is the newest.
fn question(object: &Name) -> Option<Vec<u8>> {
    let name = object.child(Component::keyword(xylem_client::METADATA));
    let mut interest = Vec::new();
    InterestBuilder::new(name.as_ref())
        .can_be_prefix(true)
        .must_be_fresh(true)
        .nonce(keys::random().ok()?)
        .encode(&mut interest)
        .ok()?;
    Some(interest)
}
