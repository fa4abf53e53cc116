//! Recipients of a private publication: its `keys`, and the encryption of its list. Layout: docs/spec/sealed.md,
//! "Keys".
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use constant_time_eq::constant_time_eq_32;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use xylem_link::{PeerKey, StaticKey};
use xylem_object::witness::WitnessSubject;
use zeroize::Zeroizing;

use super::list::{SealedList, SealedListError};
use super::{MAX_LIST, Master};
use crate::fields::FieldReader;
use crate::kdf::{derive, label, short};

/// Most recipients, the publisher included.
pub const MAX_RECIPIENTS: usize = 1_024;
const VERSION: u8 = 2;
/// Version without a commitment to the list's key, and without the publication's publisher and name.
const OUTDATED: u8 = 1;
const TAG_LEN: usize = 16;

/// The two files of a private publication that change with its recipients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedFiles {
    /// The key of the list, encrypted to each recipient.
    pub keys: Vec<u8>,
    /// The encrypted list.
    pub list: Vec<u8>,
}

/// Why a private publication cannot be made or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealedError {
    /// There are too many recipients, or a recipient's key is invalid.
    #[error(
        "more than {MAX_RECIPIENTS} recipients, or the card or certificate of one has an invalid key"
    )]
    Recipients,
    /// No entry is for this key.
    #[error(
        "it is encrypted, and not for you: ask its publisher to share it with --for and your card"
    )]
    NotForUs,
    /// The layout of an earlier xylem.
    #[error(
        "it was encrypted by an older xylem, whose format proves neither its publisher nor that all recipients \
         read the same: ask its publisher to share it again"
    )]
    Outdated,
    /// A layout of a later xylem.
    #[error(
        "it is encrypted in a format that this xylem does not know (version {0}): update xylem"
    )]
    UnknownVersion(u8),
    /// The publication does not follow the layout.
    #[error("its encryption does not follow the format")]
    Malformed,
    /// The list cannot be used.
    #[error(transparent)]
    List(#[from] SealedListError),
}

/// Encrypts the list of this publication to `recipients`. Equal master, list and recipients give equal bytes. If any of
/// them changes, the key of the list changes, so a removed recipient cannot read later versions.
///
/// # Errors
/// [`SealedError::Recipients`], [`SealedListError::TooLong`].
pub fn seal(
    master: &Master,
    list: &SealedList,
    recipients: &[PeerKey],
    subject: &WitnessSubject,
) -> Result<SealedFiles, SealedError> {
    let mut recipients = recipients.to_vec();
    recipients.sort_unstable();
    recipients.dedup();
    let count = u16::try_from(recipients.len()).map_err(|_| SealedError::Recipients)?;
    if recipients.len() > MAX_RECIPIENTS {
        return Err(SealedError::Recipients);
    }
    let mut bytes = list.encode()?;
    let hash = xylem_hash::hash(&bytes);
    let all: Vec<u8> = recipients.iter().flat_map(|key| key.0).collect();
    let whose = subject.to_bytes();
    let parts = [&master.0[..], hash.as_bytes(), &whose, &all];
    let of = |label| Zeroizing::new(derive(label, &parts));
    let (list_key, ephemeral) = (of(label::SEALED_LIST), of(label::SEALED_EPHEMERAL));
    let ephemeral = StaticKey::from_bytes(*ephemeral);

    let mut entries = Vec::with_capacity(recipients.len());
    for recipient in &recipients {
        let shared = ephemeral.agree(recipient).ok_or(SealedError::Recipients)?;
        let wrap = Wrap::of(&shared, &ephemeral.public(), recipient, subject);
        let mut wrapped = list_key.to_vec();
        let tag = wrap.key.seal_in_place_separate_tag(nonce(), Aad::empty(), &mut wrapped);
        let tag = tag.map_err(|_| SealedError::Recipients)?;
        entries.push([&wrap.id[..], &wrapped, tag.as_ref()].concat());
    }
    // The order of recipients would show how far apart their keys are.
    entries.sort_unstable();
    let mut keys = vec![VERSION];
    keys.extend_from_slice(&ephemeral.public().0);
    keys.extend_from_slice(&commitment(&list_key));
    keys.extend_from_slice(&count.to_be_bytes());
    entries.iter().for_each(|entry| keys.extend_from_slice(entry));

    let key = aead(&list_key);
    let about = associated(&keys, subject);
    let tag = key.seal_in_place_separate_tag(nonce(), Aad::from(about), &mut bytes);
    let tag = tag.map_err(|_| SealedListError::TooLong)?;
    let list = [&bytes[..], tag.as_ref()].concat();
    Ok(SealedFiles { keys, list })
}

/// Reads the list of this publication with the key of one recipient. All recipients read the same list, or it is
/// refused. The cipher's tag alone does not ensure that: a malicious publisher could give each recipient another key,
/// under which the same bytes are another list (docs/spec/sealed.md, "Commitments").
///
/// # Errors
/// [`SealedError::NotForUs`] and those after it.
pub fn open(
    us: &StaticKey,
    subject: &WitnessSubject,
    keys: &[u8],
    list: &[u8],
) -> Result<SealedList, SealedError> {
    let mut fields = FieldReader(keys);
    match fields.byte().ok_or(SealedError::Malformed)? {
        VERSION => {}
        OUTDATED => return Err(SealedError::Outdated),
        other => return Err(SealedError::UnknownVersion(other)),
    }
    let ephemeral = PeerKey(fields.array().ok_or(SealedError::Malformed)?);
    let committed = fields.array().ok_or(SealedError::Malformed)?;
    let count = usize::from(fields.u16().ok_or(SealedError::Malformed)?);
    let (entries, rest) = fields.0.as_chunks::<{ 16 + 32 + TAG_LEN }>();
    if !rest.is_empty() || entries.len() != count || count > MAX_RECIPIENTS {
        return Err(SealedError::Malformed);
    }
    let shared = us.agree(&ephemeral).ok_or(SealedError::Malformed)?;
    let wrap = Wrap::of(&shared, &ephemeral, &us.public(), subject);
    let entry = entries.iter().find(|entry| entry.starts_with(&wrap.id));
    let mut wrapped = Zeroizing::new(entry.ok_or(SealedError::NotForUs)?[16..].to_vec());
    let list_key = wrap.key.open_in_place(nonce(), Aad::empty(), &mut wrapped);
    let list_key = list_key.ok().and_then(|key| key.first_chunk().copied());
    let list_key = Zeroizing::new(list_key.ok_or(SealedError::Malformed)?);
    if !constant_time_eq_32(&commitment(&list_key), &committed) {
        return Err(SealedError::Malformed);
    }
    if list.len() > MAX_LIST.saturating_add(TAG_LEN) {
        return Err(SealedListError::TooLong.into());
    }
    let mut bytes = Zeroizing::new(list.to_vec());
    let about = associated(keys, subject);
    let plain = aead(&list_key).open_in_place(nonce(), Aad::from(about), &mut bytes);
    Ok(SealedList::decode(plain.map_err(|_| SealedError::Malformed)?)?)
}

/// Encrypts the list's key for one recipient.
struct Wrap {
    /// Id by which only the recipient finds its entry.
    id: [u8; 16],
    key: LessSafeKey,
}

/// Commits to the list's key, and reveals nothing else of it.
pub(super) fn commitment(list_key: &[u8; 32]) -> [u8; 32] {
    derive(label::SEALED_COMMITMENT, &[list_key])
}

/// Returns the associated data of the list.
pub(super) fn associated(keys: &[u8], subject: &WitnessSubject) -> Vec<u8> {
    [keys, &subject.to_bytes()].concat()
}

impl Wrap {
    /// Derives the wrap of a recipient. It depends on the publication: a copy that is signed by another publisher is
    /// encrypted to no recipient.
    fn of(
        shared: &[u8; 32],
        ephemeral: &PeerKey,
        recipient: &PeerKey,
        subject: &WitnessSubject,
    ) -> Self {
        let whose = subject.to_bytes();
        let parts = [&shared[..], &ephemeral.0, &recipient.0, &whose];
        let key = Zeroizing::new(derive(label::SEALED_WRAP, &parts));
        Self { id: short(label::SEALED_RECIPIENT, &parts), key: aead(&key) }
    }
}

pub(super) fn aead(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("the key has 32 bytes"))
}

/// Every key encrypts one plaintext.
pub(super) fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use xylem_object::{Manifest, PublisherKey, naming};

    fn list() -> SealedList {
        let root = xylem_hash::hash(b"hello");
        let keys = vec![Master::new(&[1; 32], b"p").file(&root)];
        let manifest = Manifest::file(root, 5, b"hello.txt");
        SealedList { manifest, listing: Vec::new(), keys, padded: false }
    }

    fn subject() -> WitnessSubject {
        by(9, b"letter")
    }

    pub(in crate::sealed) fn by(publisher: u8, name: &[u8]) -> WitnessSubject {
        let publisher = PublisherKey::from_bytes(&[publisher; 32]).public();
        WitnessSubject::new(publisher, naming::default_name(&publisher, name).as_ref())
    }

    pub(in crate::sealed) fn people() -> [StaticKey; 3] {
        [2, 3, 4].map(|seed| StaticKey::from_bytes([seed; 32]))
    }

    #[test]
    fn only_recipients_can_read_a_publication() {
        let [alice, bob, eve] = people();
        let master = Master::new(&[1; 32], b"p");
        let both = [bob.public(), alice.public()];
        let sealed = seal(&master, &list(), &both, &subject()).unwrap();
        for reader in [&alice, &bob] {
            assert_eq!(open(reader, &subject(), &sealed.keys, &sealed.list), Ok(list()));
        }
        assert_eq!(open(&eve, &subject(), &sealed.keys, &sealed.list), Err(SealedError::NotForUs));
        // Any order, and a repeated recipient, give the same bytes.
        let again =
            seal(&master, &list(), &[alice.public(), bob.public(), bob.public()], &subject());
        assert_eq!(again, Ok(sealed.clone()));

        // A removed recipient has only the earlier key, which is of no use.
        let without = seal(&master, &list(), &[alice.public()], &subject()).unwrap();
        assert_eq!(
            open(&bob, &subject(), &without.keys, &without.list),
            Err(SealedError::NotForUs)
        );
        assert_eq!(
            open(&bob, &subject(), &sealed.keys, &without.list),
            Err(SealedError::Malformed)
        );
        assert_ne!(sealed.list, without.list);
    }

    /// A copy under another publisher or name is encrypted to no recipient.
    #[test]
    fn a_copy_under_another_publisher_or_name_has_no_recipients() {
        let [alice, ..] = people();
        let master = Master::new(&[1; 32], b"p");
        let SealedFiles { keys, list: sealed } =
            seal(&master, &list(), &[alice.public()], &subject()).unwrap();
        for other in [by(8, b"letter"), by(9, b"other")] {
            assert_eq!(open(&alice, &other, &keys, &sealed), Err(SealedError::NotForUs));
        }
        let old = [&[1][..], &keys[1..]].concat();
        assert_eq!(open(&alice, &subject(), &old, &sealed), Err(SealedError::Outdated));
    }

    #[test]
    fn neither_names_nor_recipients_show() {
        let [alice, bob, _] = people();
        let sealed = seal(
            &Master::new(&[1; 32], b"p"),
            &list(),
            &[alice.public(), bob.public()],
            &subject(),
        );
        let SealedFiles { keys, list } = sealed.unwrap();
        let shows = |what: &[u8]| {
            [&keys, &list].iter().any(|bytes| bytes.windows(what.len()).any(|w| w == what))
        };
        assert!(!shows(b"hello.txt") && !shows(&alice.public().0) && !shows(&bob.public().0));
        assert!(!shows(xylem_hash::hash(b"hello").as_bytes()));
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let [alice, ..] = people();
        let sealed =
            seal(&Master::new(&[1; 32], b"p"), &list(), &[alice.public()], &subject()).unwrap();
        for bit in 0..sealed.keys.len() * 8 {
            let mut keys = sealed.keys.clone();
            keys[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&alice, &subject(), &keys, &sealed.list).is_err(), "bit {bit} of keys");
        }
        for len in 0..sealed.keys.len() {
            assert!(open(&alice, &subject(), &sealed.keys[..len], &sealed.list).is_err());
        }
        for byte in 0..sealed.list.len() {
            let mut list = sealed.list.clone();
            list[byte] ^= 1;
            assert!(
                open(&alice, &subject(), &sealed.keys, &list).is_err(),
                "byte {byte} of the list"
            );
        }
    }

    #[test]
    fn invalid_and_too_many_recipients_are_refused() {
        let master = Master::new(&[1; 32], b"p");
        assert_eq!(
            seal(&master, &list(), &[PeerKey([0; 32])], &subject()),
            Err(SealedError::Recipients)
        );
        let many: Vec<PeerKey> = (0..1_025_u32)
            .map(|n| StaticKey::from_bytes(derive("many", &[&n.to_be_bytes()])))
            .map(|k| k.public())
            .collect();
        assert_eq!(seal(&master, &list(), &many, &subject()), Err(SealedError::Recipients));
    }
}
