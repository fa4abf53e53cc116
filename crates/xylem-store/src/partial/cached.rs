//! Pieces of a file that are stored for later reads.

use xylem_hash::Hash;
use xylem_tree::{Geometry, NODE_LEN, SegmentIndex};

use super::{Partial, PartialHome, Resuming};
use crate::error::StoreError;
use crate::outboard::OutboardFile;
use crate::parts::{ObjectPart, further_partial_name, partial_name};
use crate::store::Store;

/// Most readers of one file that store pieces at the same time, each separately.
const MAX_AT_ONCE: u32 = 16;

impl Partial {
    /// Opens or creates the stored pieces of the file `root`, in the store itself ([`ObjectPart::Content`]): content from the
    /// beginning of one file, followed by its nodes. It is never finished. If another reader of the same file has it
    /// open, this one gets a separate file.
    ///
    /// # Errors
    /// [`StoreError::Busy`] if too many readers have one; [`StoreError::NoSpace`]; the medium's.
    pub fn open_cached(
        store: &Store,
        root: Hash,
        geometry: Geometry,
    ) -> Result<Resuming, StoreError> {
        let mut file = store.lock_named(&partial_name(&root, ObjectPart::Content));
        for n in 1..MAX_AT_ONCE {
            if !matches!(file, Err(StoreError::Busy { .. })) {
                break;
            }
            file =
                store.lock_named(&further_partial_name(&root, ObjectPart::Content, u64::from(n)));
        }
        let file = file?;
        let (outboard, base) = (OutboardFile::new(file.clone()), nodes_at(&geometry));
        Self::begin(root, geometry, file, outboard, base, PartialHome::Cached, store.durability())
    }

    /// Marks a segment as missing, so that it may be put again: its stored bytes are wrong, or there are none.
    pub fn mark_missing(&mut self, segment: SegmentIndex) {
        self.have.remove(segment.0);
    }
}

/// The first slot after the content.
fn nodes_at(geometry: &Geometry) -> u64 {
    geometry.size().div_ceil(NODE_LEN as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use xylem_tree::{SegmentSize, TreeVerifier};

    use super::*;
    use crate::{DiskMedium, Scan, ScanBuffer};

    #[test]
    fn stored_pieces_are_found_again_unless_changed() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(Arc::new(DiskMedium::new()), &dir.path().join("store")).unwrap();
        let bytes: Vec<u8> = (0..30_000_u32).map(|i| (i / 7) as u8).collect();
        let geometry = Geometry::new(bytes.len() as u64, SegmentSize::DEFAULT);
        let root = xylem_hash::hash(&bytes);
        let scan = |partial: &Partial| {
            let (outboard, base) = partial.outboard();
            let file = partial.file().clone();
            let scan = Scan::new(file, outboard, base, geometry, root).unwrap();
            let found = scan.scan(0, &mut ScanBuffer::default()).unwrap();
            found.right().to_vec()
        };
        let path = dir.path().join("whole");
        std::fs::write(&path, &bytes).unwrap();
        let mut nodes = Vec::new();
        let new = store.new_file().unwrap();
        let mut writer = new.outboard().writer_at(0);
        let hashed = crate::hash_file(
            &**store.medium(),
            &path,
            None,
            SegmentSize::DEFAULT,
            Some(&mut writer),
            &mut nodes,
            &|_| {},
        );
        writer.flush().unwrap();
        assert_eq!(hashed.unwrap().root, root);
        {
            let resuming = Partial::open_cached(&store, root, geometry).unwrap();
            let (mut partial, _) = resuming.finish([]).unwrap();
            // A second reader at the same time stores its pieces separately.
            let second = Partial::open_cached(&store, root, geometry).unwrap();
            let (second, _) = second.finish([]).unwrap();
            assert_ne!(second.file().path(), partial.file().path());
            let mut verifier = TreeVerifier::new(geometry, root);
            let mut reader = new.outboard().reader_at(0);
            for i in [1, 3].map(SegmentIndex) {
                let range = geometry.segment_range(i);
                let content = &bytes[range.start as usize..range.end as usize];
                let mut proof = Vec::new();
                xylem_tree::segment_signature(&geometry, i, &mut reader, &mut proof).unwrap();
                partial.put(&verifier.segment(i, content, &proof).unwrap()).unwrap();
            }
            partial.put_nodes(&verifier.take_proven()).unwrap();
            partial.flush().unwrap();
            assert_eq!(scan(&partial), [1..2, 3..4]);
        }
        let path = store.partial_path(&root, ObjectPart::Content);
        let mut kept = std::fs::read(&path).unwrap();
        assert_eq!(kept[8192..16_384], bytes[8192..16_384]);
        kept[8192] ^= 1;
        std::fs::write(&path, kept).unwrap();
        let (partial, _) =
            Partial::open_cached(&store, root, geometry).unwrap().finish([]).unwrap();
        let is_left = 3..4;
        assert_eq!(scan(&partial), [is_left]);
    }
}
