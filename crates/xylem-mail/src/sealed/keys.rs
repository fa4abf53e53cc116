//! Who may read: the `keys` of a private publication, and the encryption of its list.
//! Layout: docs/spec/sealed.md, "Keys".
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use xylem_link::{PeerKey, StaticKey};
use zeroize::Zeroizing;

use super::list::{List, ListError};
use super::{MAX_LIST, Master};
use crate::fields::Fields;
use crate::kdf::{derive, label, short};

/// Recipients at most, the publisher among them.
pub const MAX_RECIPIENTS: usize = 1_024;
const VERSION: u8 = 1;
const TAG_LEN: usize = 16;

/// The two files of a private publication that change with its recipients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The key of the list, encrypted to each recipient.
    pub keys: Vec<u8>,
    /// The encrypted list.
    pub list: Vec<u8>,
}

/// Why a private publication can't be made or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealedError {
    /// Too many, or a recipient's key is none.
    #[error(
        "more than {MAX_RECIPIENTS} recipients, or one whose card or certificate has a key that is none"
    )]
    Recipients,
    /// No entry is for this key.
    #[error("it is encrypted, and not to you: ask its publisher to share it --for you")]
    NotForUs,
    /// A layout of a later xylem.
    #[error("it is encrypted in a way that this xylem does not know (version {0}): update it")]
    UnknownVersion(u8),
    /// It was published so.
    #[error("it is encrypted in a way that can't be read")]
    Malformed,
    /// The list.
    #[error(transparent)]
    List(#[from] ListError),
}

/// Encrypts the list to `recipients`. The same list and recipients give the same bytes; with either, the key
/// is another, so that who is left out reads nothing from there on.
///
/// # Errors
/// [`SealedError::Recipients`], [`ListError::TooLong`].
pub fn seal(master: &Master, list: &List, recipients: &[PeerKey]) -> Result<Sealed, SealedError> {
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
    let of = |label| Zeroizing::new(derive(label, &[&master.0[..], hash.as_bytes(), &all]));
    let (list_key, ephemeral) = (of(label::SEALED_LIST), of(label::SEALED_EPHEMERAL));
    let ephemeral = StaticKey::from_bytes(*ephemeral);

    let mut entries = Vec::with_capacity(recipients.len());
    for recipient in &recipients {
        let shared = ephemeral.agree(recipient).ok_or(SealedError::Recipients)?;
        let wrap = Wrap::of(&shared, &ephemeral.public(), recipient);
        let mut wrapped = list_key.to_vec();
        let tag = wrap.key.seal_in_place_separate_tag(nonce(), Aad::empty(), &mut wrapped);
        let tag = tag.map_err(|_| SealedError::Recipients)?;
        entries.push([&wrap.id[..], &wrapped, tag.as_ref()].concat());
    }
    // In the order of recipients they would tell who is how far apart from whom.
    entries.sort_unstable();
    let mut keys = vec![VERSION];
    keys.extend_from_slice(&ephemeral.public().0);
    keys.extend_from_slice(&count.to_be_bytes());
    entries.iter().for_each(|entry| keys.extend_from_slice(entry));

    let key = aead(&list_key);
    let tag = key.seal_in_place_separate_tag(nonce(), Aad::from(&keys), &mut bytes);
    let tag = tag.map_err(|_| ListError::TooLong)?;
    let list = [&bytes[..], tag.as_ref()].concat();
    Ok(Sealed { keys, list })
}

/// Reads the list with the key of one of its recipients.
///
/// # Errors
/// From [`SealedError::NotForUs`] on.
pub fn open(us: &StaticKey, keys: &[u8], list: &[u8]) -> Result<List, SealedError> {
    let mut fields = Fields(keys);
    match fields.byte().ok_or(SealedError::Malformed)? {
        VERSION => {}
        other => return Err(SealedError::UnknownVersion(other)),
    }
    let ephemeral = PeerKey(fields.array().ok_or(SealedError::Malformed)?);
    let count = usize::from(fields.u16().ok_or(SealedError::Malformed)?);
    let (entries, rest) = fields.0.as_chunks::<{ 16 + 32 + TAG_LEN }>();
    if !rest.is_empty() || entries.len() != count || count > MAX_RECIPIENTS {
        return Err(SealedError::Malformed);
    }
    let shared = us.agree(&ephemeral).ok_or(SealedError::Malformed)?;
    let wrap = Wrap::of(&shared, &ephemeral, &us.public());
    let entry = entries.iter().find(|entry| entry.starts_with(&wrap.id));
    let mut wrapped = Zeroizing::new(entry.ok_or(SealedError::NotForUs)?[16..].to_vec());
    let list_key = wrap.key.open_in_place(nonce(), Aad::empty(), &mut wrapped);
    let list_key = list_key.ok().and_then(|key| key.first_chunk().copied());
    let list_key = Zeroizing::new(list_key.ok_or(SealedError::Malformed)?);

    if list.len() > MAX_LIST.saturating_add(TAG_LEN) {
        return Err(ListError::TooLong.into());
    }
    let mut bytes = Zeroizing::new(list.to_vec());
    let plain = aead(&list_key).open_in_place(nonce(), Aad::from(keys), &mut bytes);
    Ok(List::decode(plain.map_err(|_| SealedError::Malformed)?)?)
}

/// What the list's key is encrypted with, for one recipient.
struct Wrap {
    /// By which the recipient finds it, and nobody else knows whose it is.
    id: [u8; 16],
    key: LessSafeKey,
}

impl Wrap {
    fn of(shared: &[u8; 32], ephemeral: &PeerKey, recipient: &PeerKey) -> Self {
        let parts = [&shared[..], &ephemeral.0, &recipient.0];
        let key = Zeroizing::new(derive(label::SEALED_WRAP, &parts));
        Self { id: short(label::SEALED_RECIPIENT, &parts), key: aead(&key) }
    }
}

fn aead(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("the key has 32 bytes"))
}

/// Every key encrypts one thing.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    use super::*;
    use xylem_object::Manifest;

    fn list() -> List {
        let root = xylem_hash::hash(b"hello");
        let keys = vec![Master::new(&[1; 32], b"p").file(&root)];
        List { manifest: Manifest::file(root, 5, b"hello.txt"), listing: Vec::new(), keys }
    }

    fn people() -> [StaticKey; 3] {
        [2, 3, 4].map(|seed| StaticKey::from_bytes([seed; 32]))
    }

    #[test]
    fn recipients_read_and_others_do_not() {
        let [alice, bob, eve] = people();
        let master = Master::new(&[1; 32], b"p");
        let both = [bob.public(), alice.public()];
        let sealed = seal(&master, &list(), &both).unwrap();
        for reader in [&alice, &bob] {
            assert_eq!(open(reader, &sealed.keys, &sealed.list), Ok(list()));
        }
        assert_eq!(open(&eve, &sealed.keys, &sealed.list), Err(SealedError::NotForUs));
        // In any order, and named twice: the same bytes.
        let again = seal(&master, &list(), &[alice.public(), bob.public(), bob.public()]);
        assert_eq!(again, Ok(sealed.clone()));

        // Whoever is left out has the key of before, which is of no use.
        let without = seal(&master, &list(), &[alice.public()]).unwrap();
        assert_eq!(open(&bob, &without.keys, &without.list), Err(SealedError::NotForUs));
        assert_eq!(open(&bob, &sealed.keys, &without.list), Err(SealedError::Malformed));
        assert_ne!(sealed.list, without.list);
    }

    #[test]
    fn neither_names_nor_recipients_show() {
        let [alice, bob, _] = people();
        let sealed = seal(&Master::new(&[1; 32], b"p"), &list(), &[alice.public(), bob.public()]);
        let Sealed { keys, list } = sealed.unwrap();
        let shows = |what: &[u8]| {
            [&keys, &list].iter().any(|bytes| bytes.windows(what.len()).any(|w| w == what))
        };
        assert!(!shows(b"hello.txt") && !shows(&alice.public().0) && !shows(&bob.public().0));
        assert!(!shows(xylem_hash::hash(b"hello").as_bytes()));
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let [alice, ..] = people();
        let sealed = seal(&Master::new(&[1; 32], b"p"), &list(), &[alice.public()]).unwrap();
        for bit in 0..sealed.keys.len() * 8 {
            let mut keys = sealed.keys.clone();
            keys[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&alice, &keys, &sealed.list).is_err(), "bit {bit} of keys");
        }
        for len in 0..sealed.keys.len() {
            assert!(open(&alice, &sealed.keys[..len], &sealed.list).is_err());
        }
        for byte in 0..sealed.list.len() {
            let mut list = sealed.list.clone();
            list[byte] ^= 1;
            assert!(open(&alice, &sealed.keys, &list).is_err(), "byte {byte} of the list");
        }
    }

    #[test]
    fn a_key_that_is_none_is_refused() {
        let master = Master::new(&[1; 32], b"p");
        assert_eq!(seal(&master, &list(), &[PeerKey([0; 32])]), Err(SealedError::Recipients));
        let many: Vec<PeerKey> = (0..1_025_u32)
            .map(|n| StaticKey::from_bytes(derive("many", &[&n.to_be_bytes()])))
            .map(|k| k.public())
            .collect();
        assert_eq!(seal(&master, &list(), &many), Err(SealedError::Recipients));
    }
}
