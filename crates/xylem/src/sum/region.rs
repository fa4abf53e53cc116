//! Aligned regions of one big file, and how their nodes join to the file's root.

use std::fs::File;
use std::io;
use std::sync::Arc;
use xylem_hash::tree::{ChainingValue, chunk_group_cv, parent_cv, root_hash};
use xylem_hash::{CHUNK_LEN, Hash};

/// Bytes of a region: a power of two, so that each is a whole subtree, and within a core's cache.
pub(super) const REGION: usize = 1 << 20;

/// One region of a file that has more than one.
pub(super) struct Region {
    file: Arc<File>,
    size: u64,
    offset: u64,
    /// Whether the file ends with it.
    pub(super) last: bool,
}

impl Region {
    /// The first region of a file of `size` bytes; `size` is above [`REGION`].
    pub(super) fn first(file: Arc<File>, size: u64) -> Self {
        assert!(size > REGION as u64, "a file of one region has a root and no inner node");
        Self { file, size, offset: 0, last: false }
    }

    /// The region after this one.
    pub(super) fn following(&self) -> Option<Self> {
        let offset = self.offset + REGION as u64;
        let last = self.size - offset.min(self.size) <= REGION as u64;
        (!self.last).then(|| Self { file: Arc::clone(&self.file), size: self.size, offset, last })
    }

    /// Reads the region and hashes it. A file that shrank since its size was taken is an error;
    /// one that grew is hashed up to that size.
    pub(super) fn hash(&self, buffer: &mut Vec<u8>) -> io::Result<ChainingValue> {
        if buffer.len() < REGION {
            buffer.resize(REGION, 0);
        }
        let len = (self.size - self.offset).min(REGION as u64) as usize;
        let bytes = &mut buffer[..len];
        read_exact_at(&self.file, bytes, self.offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "it became shorter while it was read")
            }
            _ => error,
        })?;
        Ok(chunk_group_cv(bytes, self.offset / CHUNK_LEN as u64))
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                bytes = &mut bytes[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}

/// Joins regions' nodes, given in order, to the root: memory for one node per level.
///
/// A BLAKE3 tree's left halves are always full, so the finished subtrees to the left of any region
/// are the ones that the binary digits of the number of regions before it name. A pair is merged
/// only when another region follows, because the last merge of all makes the root and is marked so.
#[derive(Default)]
pub(super) struct Joiner {
    stack: Vec<ChainingValue>,
    regions: u64,
}

impl Joiner {
    /// Adds the next region's node.
    pub(super) fn push(&mut self, node: ChainingValue) {
        while self.stack.len() > self.regions.count_ones() as usize {
            let right =
                self.stack.pop().expect("the stack has more nodes than digits, so at least 1");
            let left = self.stack.pop().expect("every digit before the last pair has its node");
            self.stack.push(parent_cv(&left, &right));
        }
        self.stack.push(node);
        self.regions += 1;
    }

    /// The root; `None` for fewer than two regions, which is no file that was cut up.
    pub(super) fn root(mut self) -> Option<Hash> {
        let mut right = self.stack.pop()?;
        while self.stack.len() > 1 {
            right = parent_cv(&self.stack.pop()?, &right);
        }
        self.stack.pop().map(|left| root_hash(&left, &right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn joins_to_the_plain_hash() {
        // Small groups stand for regions: the rule does not depend on their size.
        for groups in 2..70_usize {
            for tail in [1, 1023, 1024] {
                let bytes: Vec<u8> =
                    (0..(groups - 1) * 1024 + tail).map(|i| (i % 251) as u8).collect();
                let mut joiner = Joiner::default();
                for (i, group) in bytes.chunks(1024).enumerate() {
                    joiner.push(chunk_group_cv(group, i as u64));
                }
                assert_eq!(
                    joiner.root(),
                    Some(xylem_hash::hash(&bytes)),
                    "{groups} groups, {tail}"
                );
            }
        }
        assert_eq!(Joiner::default().root(), None);
    }

    #[test]
    fn regions_cover_a_file_once() {
        for size in [REGION + 1, 2 * REGION - 1, 2 * REGION, 2 * REGION + 1, 5 * REGION + 77] {
            let bytes: Vec<u8> = (0..size).map(|i| (i % 253) as u8).collect();
            let mut file = tempfile::tempfile().expect("a temporary file can be made");
            file.write_all(&bytes).expect("and written");
            let mut joiner = Joiner::default();
            let mut buffer = Vec::new();
            let mut next = Some(Region::first(Arc::new(file), size as u64));
            let mut count = 0;
            while let Some(region) = next {
                joiner.push(region.hash(&mut buffer).expect("the file is whole"));
                count += 1;
                next = region.following();
            }
            assert_eq!(count, size.div_ceil(REGION));
            assert_eq!(joiner.root(), Some(xylem_hash::hash(&bytes)), "{size}");
        }
    }

    #[test]
    fn a_file_that_shrank_is_an_error() {
        let file = tempfile::tempfile().expect("a temporary file can be made");
        file.set_len(REGION as u64).expect("and sized");
        let region = Region::first(Arc::new(file), 3 * REGION as u64);
        let second = region.following().expect("the size says so");
        let error = second.hash(&mut Vec::new()).expect_err("its bytes are gone");
        assert!(error.to_string().contains("shorter"), "{error}");
    }
}
