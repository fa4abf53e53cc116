//! Feeds a [`Hasher`] from readers, writers and files.
//!
//! Read errors are returned unchanged. This module does not seek, and opens only the file that `update_mmap` names.

use std::io::{ErrorKind, Read, Result, Write};

use crate::hasher::Hasher;
use crate::subtree::BATCH_LEN;

/// Bytes of one read: a whole number of batches, and small enough for a second-level cache.
const READ_LEN: usize = 16 * BATCH_LEN;

impl Hasher {
    /// Adds everything from `reader` until its end.
    ///
    /// # Errors
    /// Those of `reader`, except `Interrupted`, after which the read is repeated. Bytes read before the error have
    /// been added.
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

    /// Files of at least this size are mapped. Below, a mapping costs more than a read.
    const MIN_MAPPED: u64 = 16 * 1024;

    /// The contents of `file`, if it can be mapped and that is worth it.
    fn map(file: &File) -> Option<Mmap> {
        let about = file.metadata().ok()?;
        if !about.is_file() || about.len() < MIN_MAPPED {
            return None;
        }
        // SAFETY: nothing here writes to the file. Another program may while it is mapped; then bytes change under a
        // shared slice, which Rust has no sound way to allow. The mapping stays in this module and is only read as
        // plain bytes on their way into the hash, where no value is read twice and relied on. So the worst result is a
        // wrong hash, or the signal that `Hasher::update_mmap` documents.
        unsafe { Mmap::map(file) }.ok()
    }

    impl Hasher {
        /// Adds the contents of the file at `path`. The file is mapped into memory if possible, otherwise read.
        ///
        /// Mapping saves a copy. But if another program truncates the file meanwhile, or its disk fails, the process
        /// receives a signal (SIGBUS on Unix) and dies. A file that is written to meanwhile gets an unpredictable hash.
        /// If either may happen, use [`Hasher::update_reader`].
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
        /// It is fast for a file that is in memory. A spinning disk gets slower if several threads read at distant
        /// places.
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
