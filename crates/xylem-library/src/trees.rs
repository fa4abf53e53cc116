//! Trees on disk looked at without the content that they are about.

use xylem_hash::Hash;
use xylem_object::listing::EntryKind;
use xylem_store::{FileRef, StoreError, TreeCheck, check_growing_tree, check_tree};
use xylem_tree::{Geometry, NODE_LEN, NodeSource, SegmentSize};

use crate::listed::{Listed, ListedFiles};
use crate::path::os_path;

/// A part's nodes; what the file lacks at its end was never written.
struct Nodes<'a> {
    file: &'a FileRef,
    base: u64,
}

impl NodeSource for Nodes<'_> {
    type Error = StoreError;

    fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), StoreError> {
        let at = self.base.saturating_add(first_slot).saturating_mul(NODE_LEN as u64);
        let got = self.file.read_full(out, at)?;
        out[got..].fill(0);
        Ok(())
    }
}

/// What is wrong with the tree of `segments` segments in `file`.
pub(crate) fn flaw(
    file: &FileRef,
    segments: u64,
    root: &Hash,
) -> Result<Option<String>, StoreError> {
    let found = check_tree(&mut Nodes { file, base: 0 }, segments, root)?;
    Ok((!found.is_whole()).then(|| damage(&found)))
}

/// What is wrong with the nodes of a growing file of `segments` segments that will not change any more.
pub(crate) fn flaw_of_growing(file: &FileRef, segments: u64) -> Result<Option<String>, StoreError> {
    let found = check_growing_tree(&mut Nodes { file, base: 0 }, segments)?;
    Ok((!found.is_whole()).then(|| damage(&found)))
}

/// Whether the tree of `segments` segments at this slot of `file` is there without holes.
pub(crate) fn is_whole_at(
    file: &FileRef,
    slot: u64,
    segments: u64,
    root: &Hash,
) -> Result<bool, StoreError> {
    Ok(check_tree(&mut Nodes { file, base: slot }, segments, root)?.is_whole())
}

/// Whether `file` is the tree of one object of this shape, without holes.
pub(crate) fn is_whole(
    file: &FileRef,
    geometry: Geometry,
    root: &Hash,
) -> Result<bool, StoreError> {
    let fits = file.metadata()?.size == geometry.slots() * NODE_LEN as u64;
    Ok(fits && flaw(file, geometry.segments(), root)?.is_none())
}

/// What is wrong with the packed outboards of a listing's files, the first of it, and how many
/// trees there are. Holes are wrong only where `whole` is asked for.
pub(crate) fn packed(
    file: &FileRef,
    listing: &ListedFiles,
    size: SegmentSize,
    whole: bool,
) -> Result<(Option<String>, u64), StoreError> {
    let (mut trees, mut nodes) = (0, Nodes { file, base: 0 });
    for found in listing.entries() {
        let Listed { entry, slot, .. } = found?;
        let EntryKind::File { size: bytes, root } = entry.kind else { continue };
        let geometry = Geometry::new(bytes, size);
        if geometry.segments() == 1 {
            continue;
        }
        nodes.base = slot;
        trees += 1;
        let found = check_tree(&mut nodes, geometry.segments(), &root)?;
        if found.bad_pairs > 0 || (whole && found.unwritten > 0) {
            let path = os_path(&entry.path);
            return Ok((Some(format!("{}: {}", path.display(), damage(&found))), trees));
        }
    }
    Ok((None, trees))
}

/// What is wrong with a tree, in words.
fn damage(found: &TreeCheck) -> String {
    let places = found.bad.iter().map(|r| format!("{}..{}", r.start, r.end)).collect::<Vec<_>>();
    let more = if found.bad_pairs + found.unwritten > places.len() as u64 { ", ..." } else { "" };
    let what = if found.bad_pairs > 0 { "do not lead to the root" } else { "are not written" };
    match places.is_empty() {
        true => "the topmost node is not the root".to_owned(),
        false => format!("the nodes over segments {}{more} {what}", places.join(", ")),
    }
}
