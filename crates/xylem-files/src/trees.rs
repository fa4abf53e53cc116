//! Checks trees on disk without their content.

use xylem_base::os_path;
use xylem_hash::Hash;
use xylem_object::listing::EntryKind;
use xylem_store::{FileRef, StoreError, TreeCheck, check_growing_tree, check_tree};
use xylem_tree::{Geometry, NODE_LEN, NodeSource, SegmentSize};

use crate::listed::{Listed, ListedFiles};

/// Nodes of a tree in a file; nodes beyond the file's end were never written.
struct PartNodes<'a> {
    file: &'a FileRef,
    base: u64,
}

impl NodeSource for PartNodes<'_> {
    type Error = StoreError;

    fn read_nodes(&mut self, first_slot: u64, out: &mut [u8]) -> Result<(), StoreError> {
        let at = self.base.saturating_add(first_slot).saturating_mul(NODE_LEN as u64);
        let got = self.file.read_full(out, at)?;
        out[got..].fill(0);
        Ok(())
    }
}

/// Returns what is wrong with the tree of `segments` segments in `file`; `None` if nothing is.
///
/// # Errors
/// The disk's; a wrong tree is no error.
pub fn flaw(file: &FileRef, segments: u64, root: &Hash) -> Result<Option<String>, StoreError> {
    let found = check_tree(&mut PartNodes { file, base: 0 }, segments, root)?;
    Ok((!found.is_whole()).then(|| damage(&found)))
}

/// Returns what is wrong with the final nodes of a growing file of `segments` segments; `None` if nothing is.
pub(crate) fn flaw_of_growing(file: &FileRef, segments: u64) -> Result<Option<String>, StoreError> {
    let found = check_growing_tree(&mut PartNodes { file, base: 0 }, segments)?;
    Ok((!found.is_whole()).then(|| damage(&found)))
}

/// Returns whether the tree of `segments` segments at this slot of `file` is complete and right.
///
/// # Errors
/// As [`flaw`].
pub fn is_whole_at(
    file: &FileRef,
    slot: u64,
    segments: u64,
    root: &Hash,
) -> Result<bool, StoreError> {
    Ok(check_tree(&mut PartNodes { file, base: slot }, segments, root)?.is_whole())
}

/// Returns whether `file` is the complete tree of one object of this geometry.
///
/// # Errors
/// As [`flaw`].
pub fn is_whole(file: &FileRef, geometry: Geometry, root: &Hash) -> Result<bool, StoreError> {
    let fits = file.metadata()?.size == geometry.slots() * NODE_LEN as u64;
    Ok(fits && flaw(file, geometry.segments(), root)?.is_none())
}

/// Checks the packed outboards of a listing's files. Returns the first flaw, and the number of trees. Holes are flaws
/// only with `whole`.
///
/// # Errors
/// As [`flaw`]; a listing that cannot be read.
pub fn packed(
    file: &FileRef,
    listing: &ListedFiles,
    size: SegmentSize,
    whole: bool,
) -> Result<(Option<String>, u64), StoreError> {
    let (mut trees, mut nodes) = (0, PartNodes { file, base: 0 });
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

/// Describes the damage of a tree.
fn damage(found: &TreeCheck) -> String {
    let places = found.bad.iter().map(|r| format!("{}..{}", r.start, r.end)).collect::<Vec<_>>();
    let more = if found.bad_pairs + found.unwritten > places.len() as u64 { ", ..." } else { "" };
    let what = if found.bad_pairs > 0 { "do not lead to the root" } else { "are not written" };
    match places.is_empty() {
        true => "the topmost node is not the root".to_owned(),
        false => format!("the nodes over segments {}{more} {what}", places.join(", ")),
    }
}
