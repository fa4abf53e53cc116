//! [`Hasher`] fed by readers, writers and files.
//!
//! Read errors go back to the caller as they are. Nothing here seeks, or opens a file other than
//! the one that `update_mmap` names.

use std::io::{ErrorKind, Read, Result, Write};

use crate::hasher::Hasher;
use crate::subtree::BATCH_LEN;

/// Bytes that are asked of a reader at a time: a whole number of batches, and little enough to
/// stay in a second-level cache.
const READ_LEN: usize = 16 * BATCH_LEN;

impl Hasher {
    /// Adds everything that `reader` gives until its end.
    ///
    /// # Errors
    /// Those of `reader`, except `Interrupted`, after which it is asked again. What was read
    /// before the error has been added.
    pub fn update_reader(&mut self, mut reader: impl Read) -> Result<&mut Self> {
        let mut bytes = vec![0; READ_LEN];
        loop {
            match reader.read(&mut bytes) {
                Ok(0) => return Ok(self),
                Ok(len) => self.update(&bytes[..len]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
        }
    }
}

impl Write for Hasher {
    /// Takes all of `input`; never fails.
    #[inline]
    fn write(&mut self, input: &[u8]) -> Result<usize> {
        self.update(input);
        Ok(input.len())
    }

    #[inline]
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(feature = "mmap")]
mod mapped {
    use std::fs::File;
    use std::io::Result;
    use std::path::Path;

    use memmap2::Mmap;

    use crate::hasher::Hasher;

    /// Files from this size on are mapped: below, setting up the mapping costs more than a read.
    const MIN_MAPPED: u64 = 16 * 1024;

    /// The contents of `file`, if it is one that can be mapped and is worth it.
    fn map(file: &File) -> Option<Mmap> {
        let about = file.metadata().ok()?;
        if !about.is_file() || about.len() < MIN_MAPPED {
            return None;
        }
        // SAFETY: nothing here writes to the file. Somebody else may while it is mapped; then
        // bytes change under a shared slice, which Rust has no sound way to allow. The mapping
        // lives only in this module and is only read as plain bytes on their way into the hash,
        // where no value is relied on twice; so what can come of it is a wrong hash, or the
        // signal that `Hasher::update_mmap` tells of.
        unsafe { Mmap::map(file) }.ok()
    }

    impl Hasher {
        /// Adds the contents of the file at `path`, mapped into memory where that works, otherwise
        /// read.
        ///
        /// Mapping saves a copy. But if somebody makes the file shorter meanwhile, or its disk
        /// fails, the process gets a signal (SIGBUS on Unix) and dies; and a file that is written
        /// to meanwhile has any hash. Where that may happen, take [`Hasher::update_reader`].
        ///
        /// # Errors
        /// Those of opening and reading the file.
        pub fn update_mmap(&mut self, path: impl AsRef<Path>) -> Result<&mut Self> {
            let file = File::open(path)?;
            match map(&file) {
                Some(bytes) => Ok(self.update(&bytes)),
                None => self.update_reader(file),
            }
        }

        /// As [`Hasher::update_mmap`], hashed by all cores.
        ///
        /// Fast for a file that is in memory. Several threads reading at distant places make a
        /// spinning disk slower.
        ///
        /// # Errors
        /// Those of opening and reading the file.
        #[cfg(feature = "rayon")]
        pub fn update_mmap_rayon(&mut self, path: impl AsRef<Path>) -> Result<&mut Self> {
            let file = File::open(path)?;
            match map(&file) {
                Some(bytes) => Ok(self.update_rayon(&bytes)),
                None => self.update_reader(file),
            }
        }
    }
}
