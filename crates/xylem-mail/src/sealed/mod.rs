//! Private publications: a publisher shares them with chosen recipients. No other peer that stores, carries or serves
//! them can read them. Specification: docs/spec/sealed.md.
//!
//! A [`Master`] is the publisher's own secret for one publication. Every file has a [`FileKey`], derived from it and
//! from the file's root; every segment has a key derived from the file's. The same content is the same ciphertext in
//! every version, for any recipients. The names of the files and their keys are in the [`SealedList`]. [`seal`] encrypts it
//! to the present recipients, and [`open`] reads it with the secret of one of them.
//!
//! There is no I/O here. Integrity comes from elsewhere: the publication's tree and signature verify the ciphertext,
//! and the roots in the list verify the plaintext.

mod keys;
mod list;
#[cfg(test)]
mod two_faces;

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use xylem_hash::Hash;
use zeroize::Zeroizing;

use crate::kdf::{derive, label, short};

pub use keys::{MAX_RECIPIENTS, SealedError, SealedFiles, open, seal};
pub use list::{MAX_LIST, SealedList, SealedListError};

/// Bytes that one key encrypts: a segment of the default size.
pub const SEALED_SEGMENT: usize = 8 * 1024;
/// Least length of a padded file.
const SMALLEST_PADDED: u64 = 4 * 1024;

/// Secret from which a publisher's keys of one publication are derived. It never leaves the publisher's machine.
pub struct Master(Zeroizing<[u8; 32]>);

impl Master {
    /// Derives the secret. `secret` is known to the publisher alone. `place` distinguishes this publication from the
    /// publisher's others, and is the same in all versions.
    #[must_use]
    pub fn new(secret: &[u8; 32], place: &[u8]) -> Self {
        Self(Zeroizing::new(derive(label::SEALED_MASTER, &[secret, place])))
    }

    /// Returns the key of the file with this root of its plaintext. It must not encrypt another plaintext.
    #[must_use]
    pub fn file(&self, root: &Hash) -> FileKey {
        FileKey::new(derive(label::SEALED_FILE, &[&self.0[..], root.as_bytes()]))
    }

    /// Returns a name for the publication that reveals nothing.
    #[must_use]
    pub fn name(&self) -> String {
        hex(&short(label::SEALED_NAME, &[&self.0[..]]))
    }
}

/// Key of one file. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct FileKey(Zeroizing<[u8; 32]>);

impl FileKey {
    fn new(key: [u8; 32]) -> Self {
        Self(Zeroizing::new(key))
    }

    /// Returns the name of the encrypted file: 32 hexadecimal digits that reveal neither key nor content.
    #[must_use]
    pub fn name(&self) -> String {
        hex(&short(label::SEALED_ID, &[&self.0[..]]))
    }

    /// Encrypts or decrypts whole segments in place; `first` is the number of the first one. Only the last may be
    /// shorter than [`SEALED_SEGMENT`].
    pub fn apply(&self, first: u64, bytes: &mut [u8]) {
        for (n, segment) in (0..).zip(bytes.chunks_mut(SEALED_SEGMENT)) {
            let number = first.saturating_add(n);
            let key = derive(label::SEALED_SEGMENT, &[&self.0[..], &number.to_be_bytes()]);
            let key = Zeroizing::new(key);
            // Each key encrypts one segment, so the nonce may be constant.
            ChaCha20::new((&*key).into(), &[0; 12].into()).apply_keystream(segment);
        }
    }
}

impl core::fmt::Debug for FileKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "FileKey({})", self.name())
    }
}

/// Returns the length of a file of `len` bytes in a padded publication: the next length of Padmé (Nikitin and others,
/// 2019), but at least 4 KiB. It reveals the binary logarithm and some leading bits, for at most a sixteenth more
/// bytes. An empty file stays empty.
#[must_use]
pub fn padded(len: u64) -> u64 {
    if len == 0 {
        return 0;
    }
    let len = len.max(SMALLEST_PADDED);
    let bits = len.ilog2().saturating_sub(len.ilog2().ilog2().saturating_add(1));
    let rest = 1_u64.checked_shl(bits).map_or(0, |one| one.saturating_sub(1));
    len.checked_add(rest).map_or(len, |sum| sum & !rest)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows the layout of docs/spec/sealed.md step by step.
    #[test]
    fn segments_are_encrypted_as_specified() {
        let master = Master::new(&[1; 32], b"place");
        let root = xylem_hash::hash(b"content");
        let key = master.file(&root);
        let by_hand = derive("xylem-sealed v1 master", &[&[1; 32], b"place"]);
        let by_hand = derive("xylem-sealed v1 file", &[&by_hand, root.as_bytes()]);
        assert_eq!(*key.0, by_hand);

        let plain: Vec<u8> = (0..20_000_u32).map(|n| n as u8).collect();
        let mut sealed = plain.clone();
        key.apply(0, &mut sealed);
        let second = derive("xylem-sealed v1 segment", &[&by_hand, &1_u64.to_be_bytes()]);
        let mut expected = plain[8_192..16_384].to_vec();
        ChaCha20::new((&second).into(), &[0; 12].into()).apply_keystream(&mut expected);
        assert_eq!(sealed[8_192..16_384], expected);

        // Decryption can start at any segment.
        let mut tail = sealed[8_192..].to_vec();
        key.apply(1, &mut tail);
        assert_eq!(tail, plain[8_192..]);
    }

    #[test]
    fn padded_lengths_are_few_and_cost_at_most_a_sixteenth() {
        assert_eq!([0, 1, 4_096, 4_097].map(padded), [0, 4_096, 4_096, 4_352]);
        assert_eq!(padded(u64::MAX), u64::MAX, "no arithmetic goes round");
        let mut lengths = std::collections::BTreeSet::new();
        for len in (1..2_000_000).step_by(7) {
            let long = padded(len);
            assert!(long >= len && (len < 4_096 || long - len <= len / 16), "{len} becomes {long}");
            assert_eq!(padded(long), long, "of {len}");
            lengths.insert(long);
        }
        assert!(lengths.len() < 230, "{} lengths of files up to 2 MB", lengths.len());
    }

    #[test]
    fn publications_and_files_share_no_names_or_keys() {
        let (root, other) = (xylem_hash::hash(b"a"), xylem_hash::hash(b"b"));
        let master = Master::new(&[1; 32], b"one");
        let names = [
            master.file(&root).name(),
            master.file(&other).name(),
            Master::new(&[1; 32], b"two").file(&root).name(),
            Master::new(&[2; 32], b"one").file(&root).name(),
            master.name(),
        ];
        let different: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        assert_eq!(master.file(&root), Master::new(&[1; 32], b"one").file(&root));
    }
}
