//! The first exchange over a new link: does the peer have the content with this root, and does the publisher vouch for
//! the peer?
//!
//! A getter with a ticket of only root and publisher sends the question to each peer at the ticket's addresses. A
//! sharer of the publication answers. The question reveals the root only to a peer that knows it already. The answer
//! holds the signed manifest, which gives the prefix of all further requests, and the publisher's signature that the
//! link's key is the key of one of its machines. `xylem-transfer` verifies the manifest, not this module. Layout:
//! docs/spec/object.md, "Finding".
//!
//! ```
//! use xylem_object::find::{FindAnswer, FindId};
//! use xylem_object::PublisherKey;
//!
//! let (root, link_key) = (xylem_hash::hash(b"hello"), [9; 32]);
//! let asked = FindId::new(&root, &link_key);
//! assert_eq!(FindId::parse(asked.question().as_ref()), Some(asked));
//!
//! let publisher = PublisherKey::from_bytes(&[7; 32]);
//! let vouch = Some(publisher.vouch_until(&link_key, 1_000));
//! let content = FindAnswer { vouch, manifest: b"its packet" }.encode();
//! let read = FindAnswer::decode(&content).unwrap();
//! assert!(read.vouches(&publisher.public(), &link_key, 999));
//! assert!(!read.vouches(&publisher.public(), &[8; 32], 999));
//! assert!(!read.vouches(&publisher.public(), &link_key, 1_000));
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_hash::Hash;
use xylem_packet::{Component, EncodeError, Name, NameRef};
use xylem_trust::Signer;

use crate::keys::{PublisherId, PublisherKey};
use crate::packets::sign_data;

/// Bytes of a [`FindId`].
pub const ID_LEN: usize = 16;
/// Bytes of a publisher's signature over a link key.
pub const VOUCH_LEN: usize = 64;

const FIND: &[u8] = b"xylem-find";
const CONTEXT: &str = "xylem v1 find a publication by its root over a link with this key";
const PUBLIC_CONTEXT: &str = "xylem v1 find who published a root over a link with this key";
/// Prefix of the bytes that a publisher signs to vouch for a link key; the key follows. No NDN packet and no card
/// begins with these bytes.
const VOUCH_PREFIX: &[u8] = b"xylem v1 vouch for a link key";
/// As [`VOUCH`], but an expiry time follows the key.
const VOUCH_UNTIL_PREFIX: &[u8] = b"xylem v2 vouch for a link key until";
const VERSION: u8 = 1;
const HAS_VOUCH: u8 = 1;
const HAS_VOUCH_UNTIL: u8 = 2;

/// Names a publication in a question, over one link only. Only a peer that knows the root recognizes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FindId(pub [u8; ID_LEN]);

impl FindId {
    /// The id of the publication with this root, for the peer that has proven `link_key`. Another peer cannot use it,
    /// as the key goes into it.
    pub fn new(root: &Hash, link_key: &[u8; 32]) -> Self {
        Self::derived(CONTEXT, root, link_key)
    }

    /// As [`FindId::new`], for a getter that knows the root and not the publisher. Only a peer that shares the
    /// publication publicly answers it, with a [`PublicAnswer`].
    pub fn public(root: &Hash, link_key: &[u8; 32]) -> Self {
        Self::derived(PUBLIC_CONTEXT, root, link_key)
    }

    fn derived(context: &str, root: &Hash, link_key: &[u8; 32]) -> Self {
        let mut material = [0; 64];
        material[..32].copy_from_slice(root.as_bytes());
        material[32..].copy_from_slice(link_key);
        let mut id = [0; ID_LEN];
        id.copy_from_slice(&xylem_hash::derive_key(context, &material)[..ID_LEN]);
        Self(id)
    }

    /// The name of the question.
    pub fn question(&self) -> Name {
        prefix().child(Component::generic(&self.0))
    }

    /// Parses the name of a question; `None` if it is none.
    pub fn parse(name: NameRef<'_>) -> Option<Self> {
        let mut rest = name.strip_prefix(prefix().as_ref())?.iter();
        let component = rest.next()?;
        let id: [u8; ID_LEN] = component.value().try_into().ok()?;
        let is_one = component == Component::generic(&id) && rest.next().is_none();
        is_one.then_some(Self(id))
    }

    /// The Data packet that answers. Its signature is a digest only; the signatures that count are in the content.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] if the manifest is too long to be one.
    pub fn packet(&self, answer: &FindAnswer<'_>) -> Result<Vec<u8>, EncodeError> {
        self.data(&answer.encode())
    }

    /// As [`FindId::packet`], for a question made by [`FindId::public`].
    ///
    /// # Errors
    /// As [`FindId::packet`].
    pub fn public_packet(&self, answer: &PublicAnswer<'_>) -> Result<Vec<u8>, EncodeError> {
        self.data(&answer.encode())
    }

    fn data(&self, content: &[u8]) -> Result<Vec<u8>, EncodeError> {
        let (name, digest) = (self.question(), Signer::digest_sha256());
        sign_data(name.as_ref(), content, 0, None, &digest)
    }
}

/// The prefix of all questions. Forwarders do not forward names under `localhop`.
pub fn prefix() -> Name {
    Name::from_iter([Component::generic(b"localhop"), Component::keyword(FIND)])
}

/// A publisher's signature over a link key: the peer that proves the key serves on the publisher's behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vouch {
    /// Expiry time in seconds since 1970. `None` means that it never expires: so do the signatures of earlier builds
    /// and those shown to relays.
    pub until_s: Option<u64>,
    /// The publisher's signature.
    pub signature: [u8; VOUCH_LEN],
}

impl Vouch {
    fn signed(&self, link_key: &[u8; 32]) -> Vec<u8> {
        match self.until_s {
            None => [VOUCH_PREFIX, link_key].concat(),
            Some(until_s) => [VOUCH_UNTIL_PREFIX, link_key, &until_s.to_be_bytes()].concat(),
        }
    }

    fn flag(&self) -> u8 {
        if self.until_s.is_some() { HAS_VOUCH_UNTIL } else { HAS_VOUCH }
    }
}

/// The answer of a peer that has the publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindAnswer<'a> {
    /// The publisher's signature for the link's key; `None` from a peer that is not the publisher's.
    pub vouch: Option<Vouch>,
    /// The signed manifest: a Data packet, P/_root.
    pub manifest: &'a [u8],
}

/// The content is no valid answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid answer to a search by root")]
pub struct AnswerError;

impl<'a> FindAnswer<'a> {
    /// The content of the answer.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, self.vouch.as_ref().map_or(0, Vouch::flag)];
        if let Some(Vouch { until_s, signature }) = &self.vouch {
            until_s.iter().for_each(|until| out.extend_from_slice(&until.to_be_bytes()));
            out.extend_from_slice(signature);
        }
        out.extend_from_slice(self.manifest);
        out
    }

    /// Reads what [`FindAnswer::encode`] wrote.
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn decode(content: &'a [u8]) -> Result<Self, AnswerError> {
        let (vouch, manifest) = match content {
            [VERSION, 0, manifest @ ..] => (None, manifest),
            [VERSION, flag @ (HAS_VOUCH | HAS_VOUCH_UNTIL), rest @ ..] => {
                let (until_s, rest) = match *flag {
                    HAS_VOUCH_UNTIL => {
                        let (until, rest) = rest.split_first_chunk().ok_or(AnswerError)?;
                        (Some(u64::from_be_bytes(*until)), rest)
                    }
                    _ => (None, rest),
                };
                let (signature, manifest) = rest.split_first_chunk().ok_or(AnswerError)?;
                (Some(Vouch { until_s, signature: *signature }), manifest)
            }
            _ => return Err(AnswerError),
        };
        Ok(Self { vouch, manifest })
    }

    /// Returns whether the publisher has signed `link_key` and the signature has not expired at `now_s` (seconds since
    /// 1970).
    pub fn vouches(&self, publisher: &PublisherId, link_key: &[u8; 32], now_s: u64) -> bool {
        self.vouch.is_some_and(|vouch| {
            vouch.until_s.is_none_or(|until| now_s < until)
                && publisher.verifies(&vouch.signed(link_key), &vouch.signature)
        })
    }
}

/// An [`FindAnswer`] for a getter that does not know the publisher. The answering peer may have signed the manifest itself.
/// The root proves what the manifest states about the content; nothing proves its name and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicAnswer<'a> {
    /// The key that signed the manifest.
    pub publisher: PublisherId,
    /// The manifest, and the publisher's signature for the link key.
    pub answer: FindAnswer<'a>,
}

impl<'a> PublicAnswer<'a> {
    /// The content of the answer.
    pub fn encode(&self) -> Vec<u8> {
        [&self.publisher.0[..], &self.answer.encode()].concat()
    }

    /// Reads what [`PublicAnswer::encode`] wrote.
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn decode(content: &'a [u8]) -> Result<Self, AnswerError> {
        let (publisher, answer) = content.split_first_chunk().ok_or(AnswerError)?;
        Ok(Self { publisher: PublisherId(*publisher), answer: FindAnswer::decode(answer)? })
    }
}

impl PublisherKey {
    /// Signs for relays, without expiry, that the peer that proves `link_key` serves on this publisher's behalf.
    pub fn vouch(&self, link_key: &[u8; 32]) -> [u8; VOUCH_LEN] {
        self.vouched(link_key, None).signature
    }

    /// As [`Self::vouch`], for getters and with an expiry time in seconds since 1970.
    pub fn vouch_until(&self, link_key: &[u8; 32], until_s: u64) -> Vouch {
        self.vouched(link_key, Some(until_s))
    }

    fn vouched(&self, link_key: &[u8; 32], until_s: Option<u64>) -> Vouch {
        let unsigned = Vouch { until_s, signature: [0; VOUCH_LEN] };
        let signature = self.signer().sign(&[&unsigned.signed(link_key)]);
        let signature = signature.as_ref().try_into().expect("an Ed25519 signature has 64 bytes");
        Vouch { until_s, signature }
    }
}

impl PublisherId {
    /// Returns whether this publisher has signed `link_key` without expiry, as relays require.
    pub fn has_vouched(&self, link_key: &[u8; 32], signature: &[u8; VOUCH_LEN]) -> bool {
        let vouch = Vouch { until_s: None, signature: *signature };
        self.verifies(&vouch.signed(link_key), signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_ids_are_bound_to_root_and_link() {
        let root = xylem_hash::hash(b"hello");
        let id = FindId::new(&root, &[9; 32]);
        assert_ne!(id, FindId::new(&root, &[8; 32]));
        assert_ne!(id, FindId::new(&xylem_hash::hash(b""), &[9; 32]));
        assert_ne!(id, FindId::public(&root, &[9; 32]));
        let name = id.question();
        assert_eq!(FindId::parse(name.as_ref()), Some(id));
        assert!(name.to_string().starts_with("/localhop/32=xylem-find/"), "{name}");
    }

    #[test]
    fn other_names_are_no_questions() {
        let of = |component: Component<'_>| prefix().child(component);
        let good = of(Component::generic(&[7; 16]));
        assert!(FindId::parse(good.as_ref()).is_some());
        for name in [
            prefix(),
            of(Component::generic(&[7; 15])),
            of(Component::generic(&[7; 17])),
            of(Component::keyword(&[7; 16])),
            good.child(Component::generic(b"")),
            Name::from_iter([Component::generic(b"localhop"), Component::generic(FIND)]),
        ] {
            assert_eq!(FindId::parse(name.as_ref()), None, "{name}");
        }
    }

    #[test]
    fn find_answers_round_trip_and_others_are_refused() {
        let some = |until_s| Some(Vouch { until_s, signature: [3; 64] });
        for vouch in [None, some(None), some(Some(7))] {
            for manifest in [&b""[..], b"x"] {
                let answer = FindAnswer { vouch, manifest };
                let content = answer.encode();
                assert_eq!(FindAnswer::decode(&content), Ok(answer));
                for cut in 0..content.len() - manifest.len() {
                    assert_eq!(FindAnswer::decode(&content[..cut]), Err(AnswerError), "{cut}");
                }
            }
        }
        for bad in [&[0, 0][..], &[2, 0], &[1, 3], &[1, 255]] {
            assert_eq!(FindAnswer::decode(bad), Err(AnswerError));
        }
    }

    #[test]
    fn only_the_publishers_signature_over_this_key_vouches() {
        let key = PublisherKey::from_bytes(&[7; 32]);
        let (own, link) = (key.public(), [9; 32]);
        let of = |vouch| FindAnswer { vouch, manifest: b"" };
        let endless = Vouch { until_s: None, signature: key.vouch(&link) };
        assert!(own.has_vouched(&link, &endless.signature));
        assert!(!of(None).vouches(&own, &link, 0));
        for vouch in [endless, key.vouch_until(&link, 5)] {
            assert!(of(Some(vouch)).vouches(&own, &link, 4));
            let other = PublisherKey::from_bytes(&[8; 32]).public();
            assert!(!of(Some(vouch)).vouches(&other, &link, 4));
            for bit in 0..512 {
                let Vouch { until_s, mut signature } = vouch;
                signature[bit / 8] ^= 1 << (bit % 8);
                let flipped = Vouch { until_s, signature };
                assert!(!of(Some(flipped)).vouches(&own, &link, 4), "bit {bit}");
            }
        }
        // A signature over the key alone, without the prefix, does not vouch.
        let bare = key.signer().sign(&[&[9; 32]]).as_ref().try_into().unwrap();
        assert!(!of(Some(Vouch { until_s: None, signature: bare })).vouches(&own, &link, 4));
        // The signature expires, and changing or removing the expiry time makes it invalid.
        let dated = key.vouch_until(&link, 5);
        assert!(!of(Some(dated)).vouches(&own, &link, 5));
        for until_s in [None, Some(6)] {
            assert!(!of(Some(Vouch { until_s, ..dated })).vouches(&own, &link, 4), "{until_s:?}");
        }
    }

    #[test]
    fn a_public_answer_names_the_publisher_and_has_one_form() {
        let publisher = PublisherKey::from_bytes(&[7; 32]);
        for vouch in [None, Some(publisher.vouch_until(&[9; 32], 1))] {
            let answer = FindAnswer { vouch, manifest: b"its packet" };
            let answer = PublicAnswer { publisher: publisher.public(), answer };
            let content = answer.encode();
            assert_eq!(PublicAnswer::decode(&content), Ok(answer));
            assert!(FindAnswer::decode(&content).is_err());
        }
        assert!(PublicAnswer::decode(&[7; 31]).is_err());
        assert!(PublicAnswer::decode(&[7; 32]).is_err());
        assert!(PublicAnswer::decode(&[7; 40]).is_err());
    }
}
