//! The first exchange over a fresh link: do you have what hashes to this root, and who vouches for you?
//!
//! Asked by who has a ticket that says no more than root and publisher, of whoever answers at its
//! addresses; answered by who serves the publication. The question tells nobody anything who does not
//! know the root already; the answer is the signed manifest, under whose name everything else is asked for, and the publisher's
//! word that the link's key is the one of a machine of its own. It does not judge the manifest:
//! that is `xylem-transfer`'s. Layout: docs/spec/object.md, "Finding".
//!
//! ```
//! use xylem_object::find::{Answer, FindId};
//! use xylem_object::PublisherKey;
//!
//! let (root, link_key) = (xylem_hash::hash(b"hello"), [9; 32]);
//! let asked = FindId::new(&root, &link_key);
//! assert_eq!(FindId::parse(asked.question().as_ref()), Some(asked));
//!
//! let publisher = PublisherKey::from_bytes(&[7; 32]);
//! let vouch = Some(publisher.vouch_until(&link_key, 1_000));
//! let content = Answer { vouch, manifest: b"its packet" }.encode();
//! let read = Answer::decode(&content).unwrap();
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
/// Bytes of a publisher's signature.
pub const VOUCH_LEN: usize = 64;

const FIND: &[u8] = b"xylem-find";
const CONTEXT: &str = "xylem v1 find a publication by its root over a link with this key";
const PUBLIC_CONTEXT: &str = "xylem v1 find who published a root over a link with this key";
/// What a publisher signs when it vouches, before the key. No NDN packet and no card begins like it.
const VOUCH: &[u8] = b"xylem v1 vouch for a link key";
/// The same before the key and a time, after which it counts no more.
const DATED: &[u8] = b"xylem v2 vouch for a link key until";
const VERSION: u8 = 1;
const HAS_VOUCH: u8 = 1;
const HAS_DATED: u8 = 2;

/// Which publication, to those who know its root and over this link alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FindId(pub [u8; ID_LEN]);

impl FindId {
    /// Of the publication with this root, asked of the peer that has proven `link_key`: passed on to
    /// another peer it means nothing.
    pub fn new(root: &Hash, link_key: &[u8; 32]) -> Self {
        Self::derived(CONTEXT, root, link_key)
    }

    /// The same of who knows the root alone, and not whose it is: answered by who shares it with everybody, by a
    /// [`PublicAnswer`].
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

    /// What a name asks for; `None` if it is no such question.
    pub fn parse(name: NameRef<'_>) -> Option<Self> {
        let mut rest = name.strip_prefix(prefix().as_ref())?.iter();
        let component = rest.next()?;
        let id: [u8; ID_LEN] = component.value().try_into().ok()?;
        let is_one = component == Component::generic(&id) && rest.next().is_none();
        is_one.then_some(Self(id))
    }

    /// The Data packet that answers. Its signature is a digest: what counts is within.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] for a manifest that is no manifest.
    pub fn packet(&self, answer: &Answer<'_>) -> Result<Vec<u8>, EncodeError> {
        self.data(&answer.encode())
    }

    /// As [`FindId::packet`], to a question of [`FindId::public`].
    ///
    /// # Errors
    /// The same.
    pub fn public_packet(&self, answer: &PublicAnswer<'_>) -> Result<Vec<u8>, EncodeError> {
        self.data(&answer.encode())
    }

    fn data(&self, content: &[u8]) -> Result<Vec<u8>, EncodeError> {
        let (name, digest) = (self.question(), Signer::digest_sha256());
        sign_data(name.as_ref(), content, 0, None, &digest)
    }
}

/// What all questions begin with; `localhop`: no forwarder passes them on.
pub fn prefix() -> Name {
    Name::from_iter([Component::generic(b"localhop"), Component::keyword(FIND)])
}

/// A publisher's word that whoever proves a link key serves in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vouch {
    /// It counts before that: seconds since 1970. `None`: for ever, as those of earlier builds do, and those that relays are shown.
    pub until_s: Option<u64>,
    /// The publisher's signature.
    pub signature: [u8; VOUCH_LEN],
}

impl Vouch {
    fn signed(&self, link_key: &[u8; 32]) -> Vec<u8> {
        match self.until_s {
            None => [VOUCH, link_key].concat(),
            Some(until_s) => [DATED, link_key, &until_s.to_be_bytes()].concat(),
        }
    }

    fn flag(&self) -> u8 {
        if self.until_s.is_some() { HAS_DATED } else { HAS_VOUCH }
    }
}

/// What a peer says that has the publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The publisher's signature for the key of the link; `None` from a peer that serves what somebody
    /// else has published.
    pub vouch: Option<Vouch>,
    /// The signed manifest: a Data packet, P/_root.
    pub manifest: &'a [u8],
}

/// A content that is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an answer to what was asked first")]
pub struct AnswerError;

impl<'a> Answer<'a> {
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

    /// Reads what [`Answer::encode`] wrote.
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn decode(content: &'a [u8]) -> Result<Self, AnswerError> {
        let (vouch, manifest) = match content {
            [VERSION, 0, manifest @ ..] => (None, manifest),
            [VERSION, flag @ (HAS_VOUCH | HAS_DATED), rest @ ..] => {
                let (until_s, rest) = match *flag {
                    HAS_DATED => {
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

    /// Whether the publisher has signed that `link_key` is its own, and that holds at `now_s`, in seconds since 1970.
    pub fn vouches(&self, publisher: &PublisherId, link_key: &[u8; 32], now_s: u64) -> bool {
        self.vouch.is_some_and(|vouch| {
            vouch.until_s.is_none_or(|until| now_s < until)
                && publisher.verifies(&vouch.signed(link_key), &vouch.signature)
        })
    }
}

/// An [`Answer`] to somebody who does not know whose publication it is. Whoever answers may have signed the manifest
/// itself: what it says of the content is proven by the root, its name and times by nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicAnswer<'a> {
    /// Who signed the manifest.
    pub publisher: PublisherId,
    /// What it is, and whether the publisher vouches for the link.
    pub answer: Answer<'a>,
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
        Ok(Self { publisher: PublisherId(*publisher), answer: Answer::decode(answer)? })
    }
}

impl PublisherKey {
    /// This publisher's word that whoever proves `link_key` serves in its name, for relays.
    pub fn vouch(&self, link_key: &[u8; 32]) -> [u8; VOUCH_LEN] {
        self.vouched(link_key, None).signature
    }

    /// The same for whoever asks that machine, until a time in seconds since 1970.
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
    /// Whether this publisher has signed that `link_key` is its own, as relays are shown it.
    pub fn has_vouched(&self, link_key: &[u8; 32], signature: &[u8; VOUCH_LEN]) -> bool {
        let vouch = Vouch { until_s: None, signature: *signature };
        self.verifies(&vouch.signed(link_key), signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_of_one_root_and_one_link() {
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
    fn answers_come_back_and_others_are_refused() {
        let some = |until_s| Some(Vouch { until_s, signature: [3; 64] });
        for vouch in [None, some(None), some(Some(7))] {
            for manifest in [&b""[..], b"x"] {
                let answer = Answer { vouch, manifest };
                let content = answer.encode();
                assert_eq!(Answer::decode(&content), Ok(answer));
                for cut in 0..content.len() - manifest.len() {
                    assert_eq!(Answer::decode(&content[..cut]), Err(AnswerError), "{cut}");
                }
            }
        }
        for bad in [&[0, 0][..], &[2, 0], &[1, 3], &[1, 255]] {
            assert_eq!(Answer::decode(bad), Err(AnswerError));
        }
    }

    #[test]
    fn nobody_else_vouches_and_for_nothing_else() {
        let key = PublisherKey::from_bytes(&[7; 32]);
        let (own, link) = (key.public(), [9; 32]);
        let of = |vouch| Answer { vouch, manifest: b"" };
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
        // A signature over the key alone is not one that vouches.
        let bare = key.signer().sign(&[&[9; 32]]).as_ref().try_into().unwrap();
        assert!(!of(Some(Vouch { until_s: None, signature: bare })).vouches(&own, &link, 4));
        // It ends, and nobody but the publisher takes its end away or puts it off.
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
            let answer = Answer { vouch, manifest: b"its packet" };
            let answer = PublicAnswer { publisher: publisher.public(), answer };
            let content = answer.encode();
            assert_eq!(PublicAnswer::decode(&content), Ok(answer));
            assert!(Answer::decode(&content).is_err());
        }
        assert!(PublicAnswer::decode(&[7; 31]).is_err());
        assert!(PublicAnswer::decode(&[7; 32]).is_err());
        assert!(PublicAnswer::decode(&[7; 40]).is_err());
    }
}
