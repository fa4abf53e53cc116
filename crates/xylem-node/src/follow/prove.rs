//! [`proof_of_beginning`]: what shows whether one file is the beginning of another; one segment and a few tiles are fetched for it.

use std::collections::HashMap;

use bytes::Bytes;
use xylem_object::{Manifest, ObjectId};
use xylem_transfer::TransferEvent;
use xylem_tree::consistency;
use xylem_tree::{Geometry, Node, NodeValue, SegmentIndex};

use crate::event::Event;
use crate::fetch::{Fetch, Next};
use xylem_library::{Blame, Error, Stop};

/// The proof that a file of `old_bytes` is the beginning of that of `manifest`, which `fetch` is at. It is put together of what was
/// proven to be of the newer file; whether it gives the older one's root is still to be seen (`xylem_tree::consistency`).
pub(crate) fn proof_of_beginning(
    fetch: &mut Fetch,
    old_bytes: u64,
    manifest: &Manifest,
    stop: &Stop,
    on_event: &mut dyn FnMut(Event),
) -> Result<Vec<u8>, Error> {
    let geometry = manifest.geometry();
    let older = Geometry::new(old_bytes, manifest.segment).with_kind(manifest.tree);
    let mut proof = Vec::new();
    if let Some(needs) = consistency::needs(&older, &geometry) {
        let i = needs.segment;
        let (content, nodes) = segment(fetch, i, manifest, stop, on_event)?;
        let value = |node: Node| nodes.get(&node).copied();
        if !consistency::prove(&older, &geometry, &content, value, &mut proof) {
            let message = "the peers' answers do not make a proof".to_owned();
            return Err(Error { blame: Blame::Network, message });
        }
    }
    Ok(proof)
}

/// One segment, and all nodes that were proven on the way to it.
fn segment(
    fetch: &mut Fetch,
    i: SegmentIndex,
    manifest: &Manifest,
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
