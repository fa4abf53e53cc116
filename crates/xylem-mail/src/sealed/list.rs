//! The [`SealedList`]: the part of a private publication that only recipients can read. Layout: docs/spec/sealed.md,
//! "List".
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_object::{Manifest, ManifestError, PublicationKind};
use zeroize::Zeroizing;

use super::{FileKey, padded};
use crate::fields::{FieldReader, put_u16_prefixed};

/// Greatest length of a list, in bytes. It is held in memory; three quarters of a million files fit.
pub const MAX_LIST: usize = 256 << 20;
const KEY_LEN: usize = 32;
/// Bytes before keys and listing: flags, the lengths of manifest and listing.
const HEAD: usize = 1 + 2 + 8;
/// Flag of a padded publication.
const PADDED: u8 = 1;

/// Description of a private publication by its publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedList {
    /// The manifest that it would have without encryption.
    pub manifest: Manifest,
    /// The listing of a directory; empty for a file.
    pub listing: Vec<u8>,
    /// A key for each regular file, in listing order.
    pub keys: Vec<FileKey>,
    /// The files are padded beyond the sizes in the manifest ([`padded`]), and so is this list.
    pub padded: bool,
}

/// Why a list cannot be written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealedListError {
    /// It is longer than [`MAX_LIST`].
    #[error("it has too many files: their names and keys take more than {} MiB", MAX_LIST >> 20)]
    TooLong,
    /// It does not follow the layout.
    #[error("its list of files is malformed")]
    Malformed,
    /// Its manifest cannot be used.
    #[error("its list of files cannot be used: {0}")]
    Manifest(#[from] ManifestError),
}

impl SealedList {
    /// Encodes the list, before encryption.
    ///
    /// # Errors
    /// [`SealedListError::TooLong`].
    pub fn encode(&self) -> Result<Zeroizing<Vec<u8>>, SealedListError> {
        let manifest = self.manifest.encode();
        let keys = self.keys.len().saturating_mul(KEY_LEN);
        let len = HEAD.saturating_add(manifest.len()).saturating_add(self.listing.len());
        let len = len.saturating_add(keys);
        let long = if self.padded { padded(len as u64) } else { len as u64 };
        let long = usize::try_from(long).ok().filter(|long| *long <= MAX_LIST);
        let long = long.ok_or(SealedListError::TooLong)?;
        let mut out = Zeroizing::new(Vec::with_capacity(long));
        out.push(if self.padded { PADDED } else { 0 });
        put_u16_prefixed(&mut out, &manifest);
        out.extend_from_slice(&(self.listing.len() as u64).to_be_bytes());
        out.extend_from_slice(&self.listing);
        self.keys.iter().for_each(|key| out.extend_from_slice(&key.0[..]));
        out.resize(long, 0);
        Ok(out)
    }

    /// Parses exactly what [`SealedList::encode`] makes: bytes that a parser skips could hold another list. The caller has to
    /// check that the listing is the manifest's.
    ///
    /// # Errors
    /// See [`SealedListError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SealedListError> {
        let mut fields = FieldReader(bytes);
        let flags = fields.byte().filter(|flags| flags & !PADDED == 0);
        let is_padded = flags.ok_or(SealedListError::Malformed)? == PADDED;
        let manifest = fields.u16().and_then(|len| fields.bytes(usize::from(len)));
        let manifest = Manifest::decode(manifest.ok_or(SealedListError::Malformed)?)?;
        let listing = fields.u64().and_then(|len| fields.bytes(usize::try_from(len).ok()?));
        let listing = listing.ok_or(SealedListError::Malformed)?.to_vec();
        let keys = usize::try_from(manifest.file_count).ok();
        let keys = keys.and_then(|count| fields.bytes(count.checked_mul(KEY_LEN)?));
        let (keys, _) = keys.ok_or(SealedListError::Malformed)?.as_chunks::<KEY_LEN>();
        let listed = match manifest.kind {
            PublicationKind::File => 0,
            PublicationKind::Directory => manifest.size,
        };
        let plain = !manifest.sealed && manifest.growing.is_none() && manifest.sums.is_none();
        let keys = keys.iter().map(|key| FileKey::new(*key)).collect();
        let list = Self { manifest, listing, keys, padded: is_padded };
        if !plain || list.listing.len() as u64 != listed || list.encode()?[..] != *bytes {
            return Err(SealedListError::Malformed);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed::Master;

    fn file() -> SealedList {
        let root = xylem_hash::hash(b"hello");
        let keys = vec![Master::new(&[1; 32], b"p").file(&root)];
        let manifest = Manifest::file(root, 5, b"hello.txt");
        SealedList { manifest, listing: Vec::new(), keys, padded: false }
    }

    #[test]
    fn lists_survive_encoding() {
        for padded in [false, true] {
            let list = SealedList { padded, ..file() };
            let bytes = list.encode().unwrap();
            assert_eq!(SealedList::decode(&bytes), Ok(list));
            assert_eq!(bytes.len() == 4_096, padded, "how long names are does not show");
        }
    }

    /// Skipped bytes leave room for another list, which the same bytes could be under another key.
    #[test]
    fn a_list_has_exactly_one_encoding() {
        let bytes = file().encode().unwrap();
        let len = usize::from(u16::from_be_bytes([bytes[1], bytes[2]]));
        let more = u16::try_from(len + 4).unwrap().to_be_bytes();
        // A field that parsers of manifests skip.
        let (manifest, rest) = bytes[3..].split_at(len);
        let skipped = [&[0][..], &more, manifest, &[0xa0, 2, 7, 7], rest].concat();
        assert_eq!(SealedList::decode(&skipped), Err(SealedListError::Malformed));
        let flagged = [&[2][..], &bytes[1..]].concat();
        assert_eq!(SealedList::decode(&flagged), Err(SealedListError::Malformed));
        let mut padded = SealedList { padded: true, ..file() }.encode().unwrap().to_vec();
        *padded.last_mut().unwrap() = 1;
        assert_eq!(SealedList::decode(&padded), Err(SealedListError::Malformed));
    }

    #[test]
    fn truncated_extended_or_inconsistent_lists_are_refused() {
        let bytes = file().encode().unwrap();
        for len in 0..bytes.len() {
            assert!(SealedList::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        let longer = [&bytes[..], &[0; KEY_LEN]].concat();
        assert_eq!(SealedList::decode(&longer), Err(SealedListError::Malformed));
        let mut of_a_file = file();
        of_a_file.listing = vec![0];
        assert_eq!(
            SealedList::decode(&of_a_file.encode().unwrap()),
            Err(SealedListError::Malformed)
        );
        let mut lies = bytes.to_vec();
        let at = bytes.len() - KEY_LEN - 8;
        lies[at..at + 8].fill(0xff);
        assert_eq!(SealedList::decode(&lies), Err(SealedListError::Malformed));
    }
}
