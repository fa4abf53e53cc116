//! [`ScrubTree`]: the outboard of scrubbed content: read for proofs, and mended where the data proves it.

use xylem_files::rescan::Inspection;
use xylem_hash::Hash;
use xylem_store::{FileRef, NewFile, ObjectPart, OutboardFile, Store, StoreError};
use xylem_tree::{NODE_LEN, Node, NodeValue, Verified};

/// One outboard file of the store. Only proven values are written, each at its own place, so that concurrent readers
/// see an old value or the right one.
#[derive(Debug)]
pub(super) struct ScrubTree {
    store: Store,
    root: Hash,
    part: ObjectPart,
    read: Option<OutboardFile>,
    write: Option<FileRef>,
    /// The new file, if there was none.
    new: Option<NewFile>,
}

impl ScrubTree {
    /// Opens the outboard; a missing one is no error.
    pub(super) fn open(store: &Store, root: Hash, part: ObjectPart) -> Result<Self, StoreError> {
        let read = store.outboard(&root, part)?;
        Ok(Self { store: store.clone(), root, part, read, write: None, new: None })
    }

    /// Returns it for reading; `None` if there is none.
    pub(super) fn outboard(&self) -> Option<&OutboardFile> {
        self.read.as_ref()
    }

    /// Writes what an inspection proved, for the outboard at slot `base`.
    pub(super) fn mend(&mut self, base: u64, found: &Inspection) -> Result<(), StoreError> {
        found.mend().try_for_each(|(slot, nodes)| self.put(base.saturating_add(slot), nodes))
    }

    /// Writes nodes that a peer's answer proved.
    pub(super) fn put_nodes(
        &mut self,
        base: u64,
        nodes: &Verified<Vec<(Node, NodeValue)>>,
    ) -> Result<(), StoreError> {
        let mut nodes = nodes.iter();
        nodes.try_for_each(|(node, value)| self.put(base.saturating_add(node.slot()), &value.0))
    }

    fn put(&mut self, slot: u64, nodes: &[u8]) -> Result<(), StoreError> {
        let file = match &self.write {
            Some(file) => file,
            None => {
                let there = self.store.object_for_repair(&self.root, self.part)?;
                let file = match there {
                    Some(file) => file,
                    None => {
                        let new = self.new.insert(self.store.new_file()?);
                        new.file().clone()
                    }
                };
                self.read = Some(OutboardFile::new(file.clone()));
                self.write.insert(file)
            }
        };
        file.write_all(nodes, slot.saturating_mul(NODE_LEN as u64))
    }

    /// Makes it durable, and stores a new one under its name.
    pub(super) fn finish(mut self) -> Result<(), StoreError> {
        if let Some(file) = &self.write {
            file.sync()?;
        }
        match self.new.take() {
            Some(new) => self.store.keep(new, &self.root, self.part).map(drop),
            None => Ok(()),
        }
    }
}
