//! Private publications: what somebody shares with people whom they name, and with nobody else who holds,
//! carries or serves it. docs/spec/sealed.md.
//!
//! A [`Master`] is the publisher's own secret for one publication. Every file has a [`FileKey`] that follows
//! from it and from the file's root, and every segment a key that follows from the file's: the same content
//! is the same ciphertext in every version, whoever may read it. What the files are called, and their keys, are in
//! the [`List`], which [`seal`] encrypts to the people of today, and [`open`] reads with the secret of one of them.
//!
//! No I/O; integrity is not its business: ciphertext is proven by the publication's tree and signature, and
//! plaintext by the roots in the list.

mod keys;
mod list;
#[cfg(test)]
mod two_faces;

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use xylem_hash::Hash;
use zeroize::Zeroizing;

use crate::kdf::{derive, label, short};

pub use keys::{MAX_RECIPIENTS, Sealed, SealedError, open, seal};
pub use list::{List, ListError, MAX_LIST};

/// Bytes that one key encrypts: a segment of today's default.
pub const SEALED_SEGMENT: usize = 8 * 1024;
/// No padded file is shorter.
const SMALLEST_PADDED: u64 = 4 * 1024;

/// What a publisher's keys of one publication follow from. It never leaves their machine.
pub struct Master(Zeroizing<[u8; 32]>);

impl Master {
    /// `secret`: one that only the publisher has and keeps. `place`: what tells this publication from their
    /// others, and stays the same from version to version.
    #[must_use]
    pub fn new(secret: &[u8; 32], place: &[u8]) -> Self {
        Self(Zeroizing::new(derive(label::SEALED_MASTER, &[secret, place])))
    }

    /// The key of the file whose plaintext has this root. No other plaintext may be encrypted with it.
    #[must_use]
    pub fn file(&self, root: &Hash) -> FileKey {
        FileKey::new(derive(label::SEALED_FILE, &[&self.0[..], root.as_bytes()]))
    }

    /// A name for the publication, which says nothing to others.
    #[must_use]
    pub fn name(&self) -> String {
        hex(&short(label::SEALED_NAME, &[&self.0[..]]))
    }
}

/// The key of one file. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct FileKey(Zeroizing<[u8; 32]>);

impl FileKey {
    fn new(key: [u8; 32]) -> Self {
        Self(Zeroizing::new(key))
    }

    /// What the encrypted file is called: 32 hexadecimal digits, which say nothing of key or content.
    #[must_use]
    pub fn name(&self) -> String {
        hex(&short(label::SEALED_ID, &[&self.0[..]]))
    }

    /// Encrypts, or decrypts, whole segments in place: `first` is the number of the first of them. Only the last may be
    /// shorter than [`SEALED_SEGMENT`].
    pub fn apply(&self, first: u64, bytes: &mut [u8]) {
        for (n, segment) in (0..).zip(bytes.chunks_mut(SEALED_SEGMENT)) {
            let number = first.saturating_add(n);
            let key = derive(label::SEALED_SEGMENT, &[&self.0[..], &number.to_be_bytes()]);
            let key = Zeroizing::new(key);
            // Each key encrypts one segment, so that the nonce need not differ.
            ChaCha20::new((&*key).into(), &[0; 12].into()).apply_keystream(segment);
        }
    }
}

impl core::fmt::Debug for FileKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "FileKey({})", self.name())
    }
}

/// How long a file of `len` bytes is in a padded publication: the next length of Padmé (Nikitin and others, 2019), which
/// tells its binary logarithm and some bits of that, for at most a sixteenth more; and 4 KiB at least. An empty one stays so.
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

    /// The layout of docs/spec/sealed.md, step by step.
    #[test]
    fn a_segment_is_encrypted_as_the_specification_says() {
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

        // From any segment on, and back.
        let mut tail = sealed[8_192..].to_vec();
        key.apply(1, &mut tail);
        assert_eq!(tail, plain[8_192..]);
    }

    #[test]
    fn padded_lengths_tell_little_and_cost_a_sixteenth_at_most() {
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
    fn nothing_of_two_publications_or_files_is_the_same() {
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
