//! The manifest: the signed description of one publication.
//!
//! The publisher builds it from the results of hashing (root, size) and signs it with [`sign_manifest`] as one NDN Data
//! packet named P/_root. Any peer may store and serve that packet. The getter opens it with [`verify_manifest`], which
//! checks the signature before it reads the content. Everything else that arrives (segment numbers, FinalBlockId,
//! lengths) must agree with the manifest. Segments need no signature: they are proven against the root. Layout:
//! docs/spec/object.md, "Manifest".
//!
//! ```
//! use xylem_object::{PublicationKind, Manifest, PublisherKey, naming, sign_manifest, verify_manifest};
//! use xylem_packet::{Data, Packet};
//!
//! let key = PublisherKey::from_bytes(&[7; 32]);
//! let prefix = naming::versioned(naming::default_name(&key.public(), b"hello.txt").as_ref(), 1)?;
//! let manifest = Manifest::file(xylem_hash::hash(b"hello"), 5, b"hello.txt");
//! let packet = sign_manifest(&manifest, prefix.as_ref(), &key).unwrap();
//!
//! let Ok(Packet::Data(data)) = Packet::decode(&packet) else { panic!("a Data packet") };
//! assert_eq!(verify_manifest(&data, prefix.as_ref(), &key.public()), Ok(manifest));
//! # Ok::<(), naming::PrefixError>(())
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod fields;

use xylem_hash::Hash;
use xylem_packet::{Data, NameRef, SignatureType, tlv};
use xylem_tree::{Geometry, SegmentSize, TreeKind};
use xylem_trust::{Signer, TrustError, Verifier};

use crate::growing::Growing;
use crate::keys::{PublisherId, PublisherKey};
use crate::listing::{MODE_MASK, PathError, Totals, check_component};
use crate::naming::{self, PublicationRequest};
use crate::packets::{FRESHNESS_MS, sign_data, signature_type};
use crate::sums::UpdateSums;
use fields::ManifestFields;

/// Type numbers of the manifest's fields, in their order in the manifest. As in all NDN packets, a reader refuses an
/// unknown odd number and skips an unknown even one.
pub mod types {
    /// NonNegativeInteger: [`super::FORMAT_VERSION`].
    pub const FORMAT_VERSION: u32 = 0x81;
    /// NonNegativeInteger: the kind of tree, as its NDN signature type, 8 or 9.
    pub const TREE_KIND: u32 = 0x83;
    /// NonNegativeInteger: the style of proofs in segments and tiles ([`super::PROOF_TILED`]).
    pub const PROOF_STYLE: u32 = 0x85;
    /// NonNegativeInteger: 0 a file, 1 a directory.
    pub const KIND: u32 = 0x87;
    /// NonNegativeInteger: size of the object in bytes.
    pub const SIZE: u32 = 0x89;
    /// NonNegativeInteger: log2 of a segment's chunks of 1,024 bytes, 0 to 3.
    pub const SEGMENT_LOG2: u32 = 0x8b;
    /// 32 bytes: the root of the object's tree. The root of a BLAKE3 tree is the object's plain hash.
    pub const ROOT: u32 = 0x8d;
    /// NonNegativeInteger, directories only: sum of the files' sizes in bytes.
    pub const TOTAL_SIZE: u32 = 0x8f;
    /// NonNegativeInteger, directories only: number of regular files in the listing.
    pub const FILE_COUNT: u32 = 0x91;
    /// Bytes, optional: the suggested file name, one path component.
    pub const FILE_NAME: u32 = 0x92;
    /// NonNegativeInteger: permission bits.
    pub const MODE: u32 = 0x94;
    /// 8 bytes, big-endian two's complement: time of the last change, in seconds since 1970.
    pub const MTIME_S: u32 = 0x96;
    /// NonNegativeInteger: nanoseconds to add to [`MTIME_S`].
    pub const MTIME_NS: u32 = 0x98;
    /// 9 bytes, optional, files only: the checkpoint of a growing object. The first byte is 1 for the last checkpoint,
    /// else 0; its number follows, big-endian.
    pub const GROWING: u32 = 0x9a;
    /// 40 bytes, optional: root and size (big-endian) of the list of sums for updates.
    pub const SUMS: u32 = 0x9c;
    /// NonNegativeInteger, optional, directories only: the way of encryption, 1 (docs/spec/sealed.md).
    pub const SEALED: u32 = 0x9e;

    /// Returns whether a number is in this table.
    pub(super) const fn assigned(typ: u32) -> bool {
        match typ {
            FORMAT_VERSION..=FILE_COUNT => typ % 2 == 1,
            FILE_NAME..=SEALED => typ.is_multiple_of(2),
            _ => false,
        }
    }
}

/// The version of the layout.
pub const FORMAT_VERSION: u64 = 1;
/// The version of the encryption of sealed publications.
pub const SEALED_VERSION: u64 = 1;
/// Proof style: a segment carries three levels of its proof, tiles the levels above (xylem-tree, "tiled").
pub const PROOF_TILED: u64 = 1;
/// Longest manifest that is parsed. The longest of version 1 is shorter than a fifth of this.
pub const MAX_MANIFEST: usize = 2048;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The kind of a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PublicationKind {
    /// One file.
    File,
    /// A folder: the object is its [`crate::listing`], and each file is an object of its own.
    Directory,
}

/// Description of one publication. It is only as trustworthy as the signature on its packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// A file or a directory.
    pub kind: PublicationKind,
    /// The hash of the trees of all objects of the publication.
    pub tree: TreeKind,
    /// Root of the file or of the listing; the root of a BLAKE3 tree is the plain hash.
    pub root: Hash,
    /// Bytes of the file or of the listing; at most [`crate::MAX_SEGMENTS`] segments.
    pub size: u64,
    /// Bytes per segment, for every object of the publication.
    pub segment: SegmentSize,
    /// The suggested file name: empty for none, or one path component of at most 255 bytes.
    pub file_name: Vec<u8>,
    /// Permission bits, a subset of `0o777`.
    pub mode: u32,
    /// Time of the last change, in seconds since 1970.
    pub mtime_s: i64,
    /// Nanoseconds to add to `mtime_s`, below 1,000,000,000.
    pub mtime_ns: u32,
    /// Bytes of content: of the file itself (equal to `size`), or of all files of a directory.
    pub total_size: u64,
    /// Number of files of content: 1 for a file, the listing's regular files for a directory.
    pub file_count: u64,
    /// The checkpoint, if the file is a growing one.
    pub growing: Option<Growing>,
    /// The list of sums by which getters search old copies, an object of this publication.
    pub sums: Option<UpdateSums>,
    /// Whether the content is encrypted for chosen recipients: a directory of ciphertext.
    pub sealed: bool,
}

/// Why a manifest cannot be trusted or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Its name is not P/_root.
    #[error("the manifest's name is not the one requested")]
    WrongName,
    /// The signature is not by the expected kind of key, or by no kind that identifies its owner.
    #[error("the manifest's signature type {0} does not fit the publisher's key")]
    SignatureType(u64),
    /// Signed by another key, altered, or not signed at all.
    #[error("the manifest is not signed by the publisher")]
    BadSignature,
    /// Longer than [`MAX_MANIFEST`].
    #[error("the manifest is too long")]
    TooLong,
    /// Not a sequence of TLVs, or one that is not in its shortest form.
    #[error("the manifest is malformed")]
    BadTlv,
    /// A field out of order, repeated, or not allowed in this kind of manifest.
    #[error("the manifest's field {0:#x} is out of place")]
    Misplaced(u32),
    /// An unknown odd type number.
    #[error("the manifest has a field that this xylem does not know ({0:#x}): update it")]
    UnknownCritical(u32),
    /// A required field is missing.
    #[error("the manifest lacks field {0:#x}")]
    Missing(u32),
    /// A value of the wrong length or outside its range.
    #[error("the manifest's field {0:#x} has a value that is not allowed")]
    BadValue(u32),
    /// An unknown version, kind of tree, or proof style.
    #[error("the manifest's format ({field:#x} = {value}) is unknown: update xylem")]
    UnknownFormat {
        /// The field with the unknown value.
        field: u32,
        /// The unknown value.
        value: u64,
    },
    /// More than [`crate::MAX_SEGMENTS`] segments.
    #[error("the publication has {size} bytes, more than {max}")]
    TooLarge {
        /// The size that the manifest states.
        size: u64,
        /// The largest size that its segment size allows.
        max: u64,
    },
    /// The signer's key name is invalid.
    #[error("the name of the signing key is too long")]
    KeyName,
    /// The prefix is invalid.
    #[error(transparent)]
    Prefix(naming::PrefixError),
    /// The listing has other totals than the manifest. It is the publisher's fault, as both are signed.
    #[error("the manifest and its listing state different numbers of files or bytes")]
    Totals,
    /// The suggested file name is invalid.
    #[error("the manifest's file name is not allowed: {0}")]
    FileName(PathError),
}

impl Manifest {
    /// A file with the current defaults: a BLAKE3 tree, 8 KiB segments, mode `0o644`, time zero.
    pub fn file(root: Hash, size: u64, file_name: &[u8]) -> Self {
        Self {
            kind: PublicationKind::File,
            tree: TreeKind::Blake3,
            root,
            size,
            segment: SegmentSize::DEFAULT,
            file_name: file_name.to_vec(),
            mode: 0o644,
            mtime_s: 0,
            mtime_ns: 0,
            total_size: size,
            file_count: 1,
            growing: None,
            sums: None,
            sealed: false,
        }
    }

    /// A directory with the current defaults, from the root and size of its listing and the totals of its files.
    pub fn directory(root: Hash, size: u64, totals: Totals, file_name: &[u8]) -> Self {
        Self {
            kind: PublicationKind::Directory,
            mode: 0o755,
            total_size: totals.bytes,
            file_count: totals.files,
            ..Self::file(root, size, file_name)
        }
    }

    /// The geometry of the object's own tree.
    pub fn geometry(&self) -> Geometry {
        Geometry::new(self.size, self.segment).with_kind(self.tree)
    }

    /// The geometry of the tree of the list of sums, if there is one.
    pub fn sums_geometry(&self) -> Option<Geometry> {
        Some(Geometry::new(self.sums?.size, self.segment).with_kind(self.tree))
    }

    /// Checks that every field is within its limits. A manifest that fails cannot be signed.
    ///
    /// # Errors
    /// The first field that is not within its limits.
    pub fn check(&self) -> Result<(), ManifestError> {
        let max = crate::MAX_SEGMENTS.saturating_mul(self.segment.bytes() as u64);
        if self.size > max {
            return Err(ManifestError::TooLarge { size: self.size, max });
        }
        if self.mode & !MODE_MASK != 0 {
            return Err(ManifestError::BadValue(types::MODE));
        }
        if u64::from(self.mtime_ns) >= NANOS_PER_SECOND {
            return Err(ManifestError::BadValue(types::MTIME_NS));
        }
        if !self.file_name.is_empty() {
            check_component(&self.file_name).map_err(ManifestError::FileName)?;
        }
        if self.kind == PublicationKind::File && self.total_size != self.size {
            return Err(ManifestError::BadValue(types::TOTAL_SIZE));
        }
        if self.kind == PublicationKind::File && self.file_count != 1 {
            return Err(ManifestError::BadValue(types::FILE_COUNT));
        }
        if self.kind == PublicationKind::Directory && self.growing.is_some() {
            return Err(ManifestError::Misplaced(types::GROWING));
        }
        if self.kind == PublicationKind::File && self.sealed {
            return Err(ManifestError::Misplaced(types::SEALED));
        }
        if self.sums.is_some_and(|sums| sums.size == 0 || sums.size > crate::MAX_SIZE) {
            return Err(ManifestError::BadValue(types::SUMS));
        }
        Ok(())
    }

    /// Checks that a directory's listing, read to its end, has the totals signed with it.
    ///
    /// # Errors
    /// [`ManifestError::Totals`].
    pub fn check_totals(&self, totals: Totals) -> Result<(), ManifestError> {
        match (totals.bytes, totals.files) == (self.total_size, self.file_count) {
            true => Ok(()),
            false => Err(ManifestError::Totals),
        }
    }

    /// The content of the manifest packet. Each manifest has one encoding.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.file_name.len().saturating_add(128));
        let put = |out: &mut Vec<u8>, typ, number| tlv::write_number_element(out, typ, number);
        put(&mut out, types::FORMAT_VERSION, FORMAT_VERSION);
        put(&mut out, types::TREE_KIND, signature_type(self.tree).0);
        put(&mut out, types::PROOF_STYLE, PROOF_TILED);
        put(&mut out, types::KIND, u64::from(self.kind == PublicationKind::Directory));
        put(&mut out, types::SIZE, self.size);
        put(&mut out, types::SEGMENT_LOG2, u64::from(self.segment.log2_chunks()));
        tlv::write_element(&mut out, types::ROOT, self.root.as_bytes());
        if self.kind == PublicationKind::Directory {
            put(&mut out, types::TOTAL_SIZE, self.total_size);
            put(&mut out, types::FILE_COUNT, self.file_count);
        }
        if !self.file_name.is_empty() {
            tlv::write_element(&mut out, types::FILE_NAME, &self.file_name);
        }
        put(&mut out, types::MODE, u64::from(self.mode));
        tlv::write_element(&mut out, types::MTIME_S, &self.mtime_s.to_be_bytes());
        put(&mut out, types::MTIME_NS, u64::from(self.mtime_ns));
        if let Some(growing) = self.growing {
            tlv::write_element(&mut out, types::GROWING, &growing.encode());
        }
        if let Some(sums) = self.sums {
            tlv::write_element(&mut out, types::SUMS, &sums.encode());
        }
        if self.sealed {
            put(&mut out, types::SEALED, SEALED_VERSION);
        }
        out
    }

    /// Reads what [`Manifest::encode`] wrote, skips unknown fields of even type, and refuses everything else.
    ///
    /// # Errors
    /// [`ManifestError::TooLong`] and the variants after it.
    pub fn decode(content: &[u8]) -> Result<Self, ManifestError> {
        let mut fields = ManifestFields::new(content)?;
        let mut only = |field, known: &[u64]| {
            let value = fields.number(field, u64::MAX)?;
            let place = known.iter().position(|known| *known == value);
            place.ok_or(ManifestError::UnknownFormat { field, value })
        };
        only(types::FORMAT_VERSION, &[FORMAT_VERSION])?;
        let trees = TreeKind::ALL.map(|kind| signature_type(kind).0);
        let tree = TreeKind::ALL[only(types::TREE_KIND, &trees)?];
        only(types::PROOF_STYLE, &[PROOF_TILED])?;
        let kind = match fields.number::<u8>(types::KIND, 1)? {
            0 => PublicationKind::File,
            _ => PublicationKind::Directory,
        };
        let size = fields.number(types::SIZE, u64::MAX)?;
        let log2 = fields.number(types::SEGMENT_LOG2, u64::from(u8::MAX))?;
        let segment = SegmentSize::from_log2_chunks(log2)
            .ok_or(ManifestError::BadValue(types::SEGMENT_LOG2))?;
        let root = Hash::from_bytes(fields.array(types::ROOT)?);
        let (total_size, file_count) = match kind {
            PublicationKind::File => (size, 1),
            PublicationKind::Directory => (
                fields.number(types::TOTAL_SIZE, u64::MAX)?,
                fields.number(types::FILE_COUNT, u64::MAX)?,
            ),
        };
        let file_name = fields.optional(types::FILE_NAME)?;
        if file_name.is_some_and(<[u8]>::is_empty) {
            return Err(ManifestError::BadValue(types::FILE_NAME));
        }
        let file_name = file_name.unwrap_or_default().to_vec();
        let mode = fields.number(types::MODE, u64::from(MODE_MASK))?;
        let mtime_s = i64::from_be_bytes(fields.array(types::MTIME_S)?);
        let mtime_ns = fields.number(types::MTIME_NS, NANOS_PER_SECOND - 1)?;
        let growing = fields
            .optional(types::GROWING)?
            .map(|value| Growing::decode(value).ok_or(ManifestError::BadValue(types::GROWING)));
        let growing = growing.transpose()?;
        let sums = fields.optional(types::SUMS)?;
        let sums =
            sums.map(|value| UpdateSums::decode(value).ok_or(ManifestError::BadValue(types::SUMS)));
        let sums = sums.transpose()?;
        let sealed = match fields.optional_number(types::SEALED)? {
            None => false,
            Some(SEALED_VERSION) => true,
            Some(value) => {
                return Err(ManifestError::UnknownFormat { field: types::SEALED, value });
            }
        };
        fields.end()?;
        let manifest = Self {
            kind,
            tree,
            root,
            size,
            segment,
            file_name,
            mode,
            mtime_s,
            mtime_ns,
            total_size,
            file_count,
            growing,
            sums,
            sealed,
        };
        manifest.check()?;
        Ok(manifest)
    }
}

/// Signature types that a manifest may have: those of keys, which identify the signer. Any program can make a digest,
/// and a proof in a tree is no signature, so neither counts.
const SIGNED_BY_A_KEY: [SignatureType; 5] = [
    SignatureType::RSA,
    SignatureType::ECDSA,
    SignatureType::HMAC,
    SignatureType::ED25519,
    SignatureType::BLAKE3_KEYED,
];

fn check_type(typ: SignatureType) -> Result<(), ManifestError> {
    let by_a_key = SIGNED_BY_A_KEY.contains(&typ);
    if by_a_key { Ok(()) } else { Err(ManifestError::SignatureType(typ.0)) }
}

/// Signs `manifest` as the Data packet P/_root with a publisher's Ed25519 key, the kind that a ticket can name.
/// `prefix` is P.
///
/// # Errors
/// As [`sign_manifest_with`].
pub fn sign_manifest(
    manifest: &Manifest,
    prefix: NameRef<'_>,
    key: &PublisherKey,
) -> Result<Vec<u8>, ManifestError> {
    sign_manifest_with(manifest, prefix, key.signer())
}

/// Signs `manifest` as the Data packet P/_root with any key, asymmetric or shared.
///
/// # Errors
/// A manifest that fails [`Manifest::check`], a prefix that fails [`naming::check_prefix`], a signer without a key, or
/// a key name of thousands of bytes.
pub fn sign_manifest_with(
    manifest: &Manifest,
    prefix: NameRef<'_>,
    signer: &Signer,
) -> Result<Vec<u8>, ManifestError> {
    manifest.check()?;
    naming::check_prefix(prefix).map_err(ManifestError::Prefix)?;
    check_type(signer.typ())?;
    let name = naming::encode(prefix, &PublicationRequest::Manifest);
    sign_data(name.as_ref(), &manifest.encode(), FRESHNESS_MS, None, signer)
        .map_err(|_| ManifestError::KeyName)
}

/// Opens the manifest packet of `prefix`. It checks the name, then the signature by `publisher`, and only then reads
/// the content. The KeyLocator is ignored: the ticket states the signer.
///
/// # Errors
/// See [`ManifestError`].
pub fn verify_manifest(
    data: &Data<'_>,
    expected_prefix: NameRef<'_>,
    publisher: &PublisherId,
) -> Result<Manifest, ManifestError> {
    match publisher.verifier() {
        Some(verifier) => verify_manifest_with(data, expected_prefix, &verifier),
        None => Err(ManifestError::BadSignature),
    }
}

/// As [`verify_manifest`], with a chosen verifier. Only its algorithm and key count, whatever the packet names.
///
/// # Errors
/// See [`ManifestError`]; a verifier of digests accepts no manifest.
pub fn verify_manifest_with(
    data: &Data<'_>,
    expected_prefix: NameRef<'_>,
    verifier: &Verifier,
) -> Result<Manifest, ManifestError> {
    if data.name() != naming::encode(expected_prefix, &PublicationRequest::Manifest).as_ref() {
        return Err(ManifestError::WrongName);
    }
    check_type(verifier.typ())?;
    verifier.data(data).map_err(|error| match error {
        TrustError::WrongType { found, .. } => ManifestError::SignatureType(found.0),
        _ => ManifestError::BadSignature,
    })?;
    Manifest::decode(data.content())
}
