//! [`extends`]: is what one ticket names the beginning of what another names? A few tiles and one
//! segment tell; nothing of the history is fetched or hashed.

use std::collections::HashMap;
use std::time::Duration;

use crate::shaping::LinkOptions;
use bytes::Bytes;
use xylem_object::{Kind, ObjectId, Ticket};
use xylem_transfer::TransferEvent;
use xylem_tree::consistency;
use xylem_tree::{Geometry, Node, NodeValue, SegmentIndex};

use crate::event::Event;
use crate::fetch::{Fetch, Next};
use xylem_library::reachable::Peer;
use xylem_library::{Blame, Error, Stop};

/// What to compare, and whom to ask.
#[derive(Clone, Debug)]
pub struct ExtendsOptions {
    /// The shorter one.
    pub old: Ticket,
    /// The longer one.
    pub new: Ticket,
    /// Peers to ask, as in [`crate::GetOptions::from`].
    pub from: Vec<Peer>,
    /// Give up on peers after this long.
    pub give_up: Duration,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct ExtendsSummary {
    /// Bytes of the older one.
    pub old_bytes: u64,
    /// Bytes of the newer one.
    pub new_bytes: u64,
    /// Bytes of the proof.
    pub proof_bytes: usize,
    /// Why it is none; `None`: it is the beginning.
    pub why_not: Option<String>,
}

/// Asks the newer one's peers for what proves that the older one begins it.
///
/// # Errors
/// [`Blame::Usage`] for tickets that cannot be compared, [`Blame::Network`] if nobody reachable has
/// the newer one. A history that was rewritten is no error: see [`ExtendsSummary::why_not`].
pub fn extends(
    options: &ExtendsOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<ExtendsSummary, Error> {
    let (old, new) = (&options.old, &options.new);
    if [old, new].iter().any(|ticket| ticket.kind == Some(Kind::Directory)) {
        return Err(Error::usage("a directory has no beginning; give tickets of files"));
    }
    let ExtendsOptions { from, give_up, .. } = options;
    let dial = |ticket| Fetch::new(ticket, from, *give_up, None, &LinkOptions::default(), false);
    let old_bytes = match old.size {
        Some(size) => size,
        None => {
            let mut fetch = dial(old)?;
            let manifest = fetch.manifest(stop, on_event)?;
            fetch.close();
            manifest.size
        }
    };
    let mut fetch = dial(new)?;
    let manifest = fetch.manifest(stop, on_event)?;
    let geometry = manifest.geometry();
    let older = Geometry::new(old_bytes, manifest.segment).with_kind(manifest.tree);
    let mut proof = Vec::new();
    if let Some(needs) = consistency::needs(&older, &geometry) {
        let i = needs.segment;
        let (content, nodes) = segment(&mut fetch, i, &manifest, stop, on_event)?;
        let value = |node: Node| nodes.get(&node).copied();
        if !consistency::prove(&older, &geometry, &content, value, &mut proof) {
            let message = "the peers' answers do not make a proof".to_owned();
            return Err(Error { blame: Blame::Network, message });
        }
    }
    fetch.close();
    let shown = consistency::verify((&older, old.root), (&geometry, manifest.root), &proof);
    Ok(ExtendsSummary {
        old_bytes,
        new_bytes: manifest.size,
        proof_bytes: proof.len(),
        why_not: shown.err().map(|e| e.to_string()),
    })
}

/// One segment, and all nodes that were proven on the way to it.
fn segment(
    fetch: &mut Fetch,
    i: SegmentIndex,
    manifest: &xylem_object::Manifest,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<(Bytes, HashMap<Node, NodeValue>), Error> {
    let wanted = std::iter::once(i.0..i.0 + 1);
    fetch
        .transfer()
        .add_object(ObjectId::Root, manifest.root, manifest.geometry(), wanted, [], None)
        .map_err(|e| Error { blame: Blame::Network, message: e.to_string() })?;
    let (mut content, mut nodes) = (Bytes::new(), HashMap::new());
    fetch.run_until(stop, on_event, |look| {
        while let Some(event) = look.next_event()? {
            match event {
                TransferEvent::Segment { segment, .. } => content = segment.content.clone(),
                TransferEvent::Nodes { nodes: proven, .. } => nodes.extend(proven.iter().copied()),
                TransferEvent::ObjectComplete(_) => return Ok(Next::Done),
                _ => {}
            }
        }
        Ok(Next::Wait(None))
    })?;
    Ok((content, nodes))
}
