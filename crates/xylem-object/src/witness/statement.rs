//! [`WitnessStatement`]: what a witness attests. [`cosign`] makes a signed packet of it, [`Witness::cosigned`] verifies one.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_hash::Hash;
use xylem_packet::{Component, ContentType, Data, DataBuilder, EncodeError, Name, NameRef};
use xylem_trust::{
    Certificate, CertificateError, KeyError, PublicKey, Signer, TrustError, ValidityPeriod,
    Verifier,
};

use crate::keys::PublisherId;
use crate::manifest::{Manifest, PublicationKind};
use crate::naming;

/// First bytes of every statement. No other content that one of our keys signs begins with them.
const MAGIC: &[u8; 16] = b"xylem witness 1\n";
/// Bytes of a statement.
pub const STATEMENT_LEN: usize = 153;
/// Most bytes of a co-signature's packet.
pub const MAX_COSIGNATURE: usize = 640;

const WITNESS: &[u8] = b"witness";
const SUBJECT_CONTEXT: &str = "xylem 2026-11-23 witness: which publication";
const SUBJECT_LEN: usize = 16;

/// Bit 0 of the flags: the version was proven to begin with the one seen before.
const PROVEN: u8 = 1;
/// Bit 1: a directory.
const DIRECTORY: u8 = 2;

/// A publication in all its versions: its publisher and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WitnessSubject {
    /// The publisher.
    pub publisher: PublisherId,
    /// BLAKE3 of the object's name, O, as a TLV.
    pub object: Hash,
}

impl WitnessSubject {
    /// The publication of this publisher with the name `object`.
    pub fn new(publisher: PublisherId, object: NameRef<'_>) -> Self {
        let mut name = Vec::new();
        object.encode(&mut name);
        Self { publisher, object: xylem_hash::hash(&name) }
    }

    /// The publication with this versioned prefix; `None` if the prefix does not end with a version.
    pub fn of_version(publisher: PublisherId, prefix: NameRef<'_>) -> Option<Self> {
        naming::version(prefix)?;
        Some(Self::new(publisher, prefix.parent()))
    }

    /// The publisher's key, then the hash of the name.
    pub fn to_bytes(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(&self.publisher.0);
        bytes[32..].copy_from_slice(self.object.as_bytes());
        bytes
    }

    /// The short form for names.
    pub fn id(&self) -> [u8; SUBJECT_LEN] {
        let mut id = [0; SUBJECT_LEN];
        let derived = xylem_hash::derive_key(SUBJECT_CONTEXT, &self.to_bytes());
        id.copy_from_slice(&derived[..SUBJECT_LEN]);
        id
    }
}

/// The content of a co-signature. The witness attests that it saw this version at this time, and the version continued
/// all that it saw since `since_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WitnessStatement {
    /// The publication.
    pub subject: WitnessSubject,
    /// Its version.
    pub version: u64,
    /// A file or a directory.
    pub kind: PublicationKind,
    /// Size in bytes, as in the manifest.
    pub size: u64,
    /// Its root, as in the manifest.
    pub root: Hash,
    /// Whether it was proven to begin with the version seen before, rather than only to be later.
    pub proven: bool,
    /// Time by the witness's clock, in milliseconds since 1970.
    pub time_ms: u64,
    /// Beginning of its unbroken record of this publication, in milliseconds since 1970.
    pub since_ms: u64,
    /// The first version of that record. The statement covers no earlier versions.
    pub first: u64,
}

impl WitnessStatement {
    /// Returns whether this version has the content of this manifest.
    pub fn has_content_of(&self, manifest: &Manifest) -> bool {
        (self.kind, self.size, self.root) == (manifest.kind, manifest.size, manifest.root)
    }

    /// Returns whether the witness had seen no earlier version of this publication.
    pub fn is_first(&self) -> bool {
        self.first == self.version
    }

    /// The content of the packet.
    pub fn encode(&self) -> [u8; STATEMENT_LEN] {
        let directory = if self.kind == PublicationKind::Directory { DIRECTORY } else { 0 };
        let flags = directory | u8::from(self.proven);
        let parts: [&[u8]; 10] = [
            MAGIC,
            &self.subject.publisher.0,
            self.subject.object.as_bytes(),
            &[flags],
            &self.version.to_be_bytes(),
            &self.size.to_be_bytes(),
            self.root.as_bytes(),
            &self.time_ms.to_be_bytes(),
            &self.since_ms.to_be_bytes(),
            &self.first.to_be_bytes(),
        ];
        let mut out = [0; STATEMENT_LEN];
        let mut bytes = parts.iter().copied().flatten();
        out.iter_mut().zip(&mut bytes).for_each(|(to, from)| *to = *from);
        out
    }

    /// Reads what [`WitnessStatement::encode`] wrote; `None` for anything else.
    pub fn decode(content: &[u8]) -> Option<Self> {
        let mut rest = Some(content).filter(|content| content.len() == STATEMENT_LEN)?;
        let magic = take::<16>(&mut rest)?;
        let publisher = PublisherId(take(&mut rest)?);
        let object = Hash::from(take::<32>(&mut rest)?);
        let [flags] = take::<1>(&mut rest)?;
        let version = u64::from_be_bytes(take(&mut rest)?);
        let size = u64::from_be_bytes(take(&mut rest)?);
        let root = Hash::from(take::<32>(&mut rest)?);
        let [time_ms, since_ms, first] =
            [take(&mut rest)?, take(&mut rest)?, take(&mut rest)?].map(u64::from_be_bytes);
        let sound = magic == *MAGIC
            && flags <= PROVEN | DIRECTORY
            && size <= crate::MAX_SIZE
            && first <= version
            && since_ms <= time_ms
            && rest.is_empty();
        let kind =
            if flags & DIRECTORY == 0 { PublicationKind::File } else { PublicationKind::Directory };
        let subject = WitnessSubject { publisher, object };
        let proven = flags & PROVEN != 0;
        sound.then_some(Self {
            subject,
            version,
            kind,
            size,
            root,
            proven,
            time_ms,
            since_ms,
            first,
        })
    }

    /// The name of the co-signature of `witness`.
    fn name(&self, witness: NameRef<'_>) -> Name {
        let mut name = witness.child(Component::keyword(WITNESS));
        name.push(Component::generic(&self.subject.id()));
        name.push(Component::version(self.time_ms));
        name
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*first)
}

/// Makes the co-signature: a Data packet under `identity`, signed by `signer`, which must hold its key.
///
/// # Errors
/// [`EncodeError::TooLong`] if the key's name makes the packet longer than [`MAX_COSIGNATURE`].
pub fn cosign(
    statement: &WitnessStatement,
    identity: NameRef<'_>,
    signer: &Signer,
) -> Result<Vec<u8>, EncodeError> {
    let name = statement.name(identity);
    let mut packet = Vec::new();
    signer.data(DataBuilder::new(name.as_ref()), &statement.encode(), &mut packet)?;
    if packet.len() > MAX_COSIGNATURE {
        Err(EncodeError::TooLong(packet.len()))
    } else {
        Ok(packet)
    }
}

/// Why a certificate cannot be a witness's.
#[derive(Debug, thiserror::Error)]
pub enum WitnessCertificateError {
    /// Not a certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Its key cannot verify.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Why a packet is no co-signature of this witness.
#[derive(Debug, thiserror::Error)]
pub enum CosignatureError {
    /// It does not have the form of a co-signature.
    #[error("it is not a co-signature")]
    Malformed,
    /// It is another signer's, or altered.
    #[error(transparent)]
    Signature(#[from] TrustError),
    /// Its time is outside the certificate's validity.
    #[error("it was made when the certificate of {0} was not valid")]
    NotValidThen(Name),
}

/// A witness. Its co-signatures count because a user named its certificate.
pub struct Witness {
    identity: Name,
    key: [u8; 32],
    verifier: Verifier,
    validity: ValidityPeriod,
}

impl Witness {
    /// The witness with this certificate. The certificate's own signer does not matter, as the user named the
    /// certificate.
    ///
    /// # Errors
    /// [`WitnessCertificateError`].
    pub fn from_certificate(certificate: &[u8]) -> Result<Self, WitnessCertificateError> {
        let certificate = Certificate::decode(certificate)?;
        let key = certificate.public_key();
        Ok(Self {
            identity: certificate.identity().to_name(),
            key: key.digest(),
            verifier: Verifier::of(key)?.named(certificate.key_name().to_name()),
            validity: certificate.validity(),
        })
    }

    /// A witness with this name and key, valid at any time. A witness recognizes its own co-signatures in this way,
    /// without a certificate.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn with_key(identity: Name, key: &PublicKey) -> Result<Self, KeyError> {
        let validity = ValidityPeriod { not_before_ms: 0, not_after_ms: u64::MAX };
        Ok(Self { identity, key: key.digest(), verifier: Verifier::of(key)?, validity })
    }

    /// Its name.
    pub fn identity(&self) -> NameRef<'_> {
        self.identity.as_ref()
    }

    /// The digest of its key. Two certificates of one key are one witness.
    pub fn key(&self) -> &[u8; 32] {
        &self.key
    }

    /// Returns whether a packet's name claims that it is this witness's. This is cheap and proves nothing.
    pub fn is_named_by(&self, packet: &[u8]) -> bool {
        let of = self.identity.child(Component::keyword(WITNESS));
        packet.len() <= MAX_COSIGNATURE
            && Data::decode(packet).is_ok_and(|data| of.as_ref().is_prefix_of(data.name()))
    }

    /// Verifies a co-signature of this witness and returns its statement.
    ///
    /// # Errors
    /// [`CosignatureError`]; the signature is checked last.
    pub fn verify_cosignature(&self, packet: &[u8]) -> Result<WitnessStatement, CosignatureError> {
        let short = Some(packet).filter(|packet| packet.len() <= MAX_COSIGNATURE);
        let data = short.and_then(|packet| Data::decode(packet).ok());
        let data = data.ok_or(CosignatureError::Malformed)?;
        let statement =
            WitnessStatement::decode(data.content()).ok_or(CosignatureError::Malformed)?;
        let is_plain = data.meta().content_type == ContentType::BLOB;
        if !is_plain || data.name() != statement.name(self.identity.as_ref()).as_ref() {
            return Err(CosignatureError::Malformed);
        }
        if !self.validity.contains(statement.time_ms) {
            return Err(CosignatureError::NotValidThen(self.identity.clone()));
        }
        self.verifier.data(&data)?;
        Ok(statement)
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::tests::version;
    use super::*;
    use xylem_trust::{ValidityPeriod, generate_ecdsa_p256, self_signed};

    fn statement() -> WitnessStatement {
        let seen = version(b"/log", 7, &[1; 20_000], true);
        WitnessStatement {
            subject: seen.subject(),
            version: 7,
            kind: PublicationKind::File,
            size: seen.manifest.size,
            root: seen.manifest.root,
            proven: true,
            time_ms: 1_800_000_000_000,
            since_ms: 1_700_000_000_000,
            first: 3,
        }
    }

    fn named(key: &str) -> Name {
        Name::from_uri(key).unwrap()
    }

    fn witness(signer: &Signer) -> Witness {
        let year = 365 * 86_400_000;
        let from_ms = 1_799_000_000_000;
        let validity = ValidityPeriod { not_before_ms: from_ms, not_after_ms: from_ms + year };
        Witness::from_certificate(&self_signed(signer, 1, validity).unwrap()).unwrap()
    }

    #[test]
    fn a_statement_has_one_form() {
        let whole = statement();
        let bytes = whole.encode();
        assert_eq!(WitnessStatement::decode(&bytes), Some(whole));
        for cut in 0..bytes.len() {
            assert_eq!(WitnessStatement::decode(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(WitnessStatement::decode(&[&bytes[..], &[0]].concat()), None);
        let refused = |change: fn(&mut WitnessStatement)| {
            let mut other = whole;
            change(&mut other);
            assert_eq!(WitnessStatement::decode(&other.encode()), None, "{other:?}");
        };
        refused(|s| s.first = 8);
        refused(|s| s.since_ms = s.time_ms + 1);
        refused(|s| s.size = crate::MAX_SIZE + 1);
        let mut flags = bytes;
        flags[80] = 4;
        assert_eq!(WitnessStatement::decode(&flags), None);
    }

    #[test]
    fn both_kinds_of_key_cosign_and_no_bit_can_be_changed() {
        let locator = named("/w/KEY/1");
        let p256 = generate_ecdsa_p256().unwrap();
        for signer in [
            Signer::ed25519(&[5; 32], locator.clone()),
            Signer::ecdsa_p256(&p256, locator.clone()).unwrap(),
        ] {
            let (by, other) = (witness(&signer), Signer::ed25519(&[6; 32], locator.clone()));
            let packet = cosign(&statement(), by.identity(), &signer).unwrap();
            assert!(by.is_named_by(&packet));
            assert_eq!(by.verify_cosignature(&packet).unwrap(), statement());
            assert!(witness(&other).verify_cosignature(&packet).is_err());
            for bit in 0..packet.len() * 8 {
                let mut flipped = packet.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(by.verify_cosignature(&flipped).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn other_packets_of_the_key_are_no_cosignatures() {
        let signer = Signer::ed25519(&[5; 32], named("/w/KEY/1"));
        let by = witness(&signer);
        let sign = |name: &Name, content: &[u8]| {
            let mut packet = Vec::new();
            signer.data(DataBuilder::new(name.as_ref()), content, &mut packet).unwrap();
            packet
        };
        let (said, whole) = (statement(), statement().encode());
        let name = said.name(by.identity());
        assert!(by.verify_cosignature(&sign(&name, &whole)).is_ok());
        // Another name, publication, time or content.
        let mut later = said;
        later.time_ms += 1;
        for (name, content) in [
            (named("/w/note"), &whole[..]),
            (later.name(by.identity()), &whole),
            (name.child(Component::version(1)), &whole),
            (said.name(named("/x").as_ref()), &whole),
            (name.clone(), &whole[..152]),
            (name.clone(), b"note"),
        ] {
            assert!(by.verify_cosignature(&sign(&name, content)).is_err(), "{name}");
        }
        // A time at which the certificate was not valid.
        let mut early = said;
        early.time_ms = 1_798_000_000_000;
        let packet = cosign(&early, by.identity(), &signer).unwrap();
        assert!(matches!(by.verify_cosignature(&packet), Err(CosignatureError::NotValidThen(_))));
    }

    #[test]
    fn too_long_names_are_refused_when_cosigning() {
        let signer = Signer::ed25519(&[5; 32], named("/w/KEY/1"));
        let long = named(&format!("/{}", "x".repeat(400)));
        assert!(cosign(&statement(), long.as_ref(), &signer).is_err());
    }

    #[test]
    fn subjects_differ_by_publisher_and_by_name() {
        let of = |publisher: u8, name: &str| {
            WitnessSubject::new(PublisherId([publisher; 32]), named(name).as_ref()).id()
        };
        assert_eq!(of(1, "/a"), of(1, "/a"));
        assert_ne!(of(1, "/a"), of(2, "/a"));
        assert_ne!(of(1, "/a"), of(1, "/b"));
    }
}
