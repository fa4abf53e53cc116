//! Names and packets by which co-signatures reach a sharer, and the list by which it serves them.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::tlv::types::{GENERIC_COMPONENT, PARAMETERS_SHA256_DIGEST};
use xylem_packet::{Component, Data, EncodeError, Interest, InterestBuilder, Name, NameRef};
use xylem_trust::Verifier;

use super::statement::MAX_COSIGNATURE;
use crate::packets::digest_signed;

/// Most co-signatures in a list, and most witnesses of a share.
pub const MAX_COSIGNATURES: usize = 12;

const WITNESS: &[u8] = b"witness";
const NONCE_LEN: usize = 8;
const VERSION: u8 = 1;

/// A sharer's answer to a submitted co-signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmissionReply {
    /// It is kept and served on request.
    Kept,
    /// The sharer's user has not named this witness.
    WitnessNotNamed,
    /// It is not about a version of this publication, or not newer than the one that is kept.
    NotNewer,
    /// The witness has seen a version that this sharer has not published: another program signs with the publisher's
    /// key.
    NotPublishedHere,
    /// Too many submissions in too short a time.
    TooMany,
}

impl SubmissionReply {
    const ALL: [Self; 5] =
        [Self::Kept, Self::WitnessNotNamed, Self::NotNewer, Self::NotPublishedHere, Self::TooMany];

    fn code(self) -> u8 {
        match self {
            Self::Kept => 0,
            Self::WitnessNotNamed => 1,
            Self::NotNewer => 2,
            Self::NotPublishedHere => 3,
            Self::TooMany => 4,
        }
    }

    /// The Data packet with this answer to the Interest `name`. Its signature is a digest.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] for names longer than any Interest's.
    pub fn packet(self, name: NameRef<'_>) -> Result<Vec<u8>, EncodeError> {
        digest_signed(name, &[VERSION, self.code()])
    }

    /// Reads the content of [`SubmissionReply::packet`].
    pub fn decode(content: &[u8]) -> Option<Self> {
        let [VERSION, code] = content else { return None };
        Self::ALL.into_iter().find(|answer| answer.code() == *code)
    }
}

fn prefix(object: NameRef<'_>) -> Name {
    object.child(Component::keyword(WITNESS))
}

/// The name by which a sharer is asked for the co-signatures of the publication `object`.
pub fn question(object: NameRef<'_>, nonce: [u8; NONCE_LEN]) -> Name {
    prefix(object).child(Component::generic(&nonce))
}

/// Returns whether `name` is that of a question or a submission about the publication `object`, or of an answer to one.
pub fn is_witness_name(object: NameRef<'_>, name: NameRef<'_>) -> bool {
    let rest = name.strip_prefix(prefix(object).as_ref());
    let mut rest = rest.into_iter().flat_map(NameRef::into_iter);
    let is_one = rest.next().is_some_and(|last| match last.typ() {
        GENERIC_COMPONENT => last.value().len() == NONCE_LEN,
        typ => typ == PARAMETERS_SHA256_DIGEST,
    });
    is_one && rest.next().is_none()
}

/// The Interest that submits a co-signature to the sharer of `object`.
///
/// # Errors
/// [`EncodeError::TooLong`] if it is too long for a co-signature.
pub fn submission(
    object: NameRef<'_>,
    cosignature: &[u8],
    nonce: [u8; 4],
    lifetime_ms: u64,
) -> Result<Vec<u8>, EncodeError> {
    let name = prefix(object);
    let mut out = Vec::new();
    InterestBuilder::new(name.as_ref())
        .nonce(nonce)
        .lifetime_ms(lifetime_ms)
        .encode_with_parameters(&mut out, cosignature)?;
    Ok(out)
}

/// The co-signature that an Interest submits, if it is a submission.
pub fn submitted_cosignature<'a>(object: NameRef<'_>, interest: &Interest<'a>) -> Option<&'a [u8]> {
    let parameters = interest.app_parameters()?;
    let is_one = is_witness_name(object, interest.name()) && parameters.len() <= MAX_COSIGNATURE;
    is_one.then_some(parameters)
}

/// The bytes are no valid list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a list of co-signatures")]
pub struct CosignatureListError;

/// The content of the answer to a [`question`]. It leaves out co-signatures that are too long, and those beyond
/// [`MAX_COSIGNATURES`].
pub fn encode_list<'a>(cosignatures: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let fits = |packet: &&[u8]| !packet.is_empty() && packet.len() <= MAX_COSIGNATURE;
    let all: Vec<&[u8]> = cosignatures.into_iter().filter(fits).take(MAX_COSIGNATURES).collect();
    let mut out = vec![VERSION, u8::try_from(all.len()).unwrap_or(0)];
    for packet in all {
        out.extend_from_slice(&u16::try_from(packet.len()).unwrap_or(0).to_be_bytes());
        out.extend_from_slice(packet);
    }
    out
}

/// The packets in a list. Their signatures and contents are not checked.
///
/// # Errors
/// [`CosignatureListError`] for anything that [`encode_list`] does not write.
pub fn decode_list(content: &[u8]) -> Result<Vec<&[u8]>, CosignatureListError> {
    let [VERSION, count, rest @ ..] = content else { return Err(CosignatureListError) };
    let (count, mut rest) = (usize::from(*count), rest);
    let mut all = Vec::new();
    if count > MAX_COSIGNATURES {
        return Err(CosignatureListError);
    }
    for _ in 0..count {
        let (len, after) = rest.split_first_chunk().ok_or(CosignatureListError)?;
        let len = usize::from(u16::from_be_bytes(*len));
        let (packet, after) = after.split_at_checked(len).ok_or(CosignatureListError)?;
        if packet.is_empty() || len > MAX_COSIGNATURE {
            return Err(CosignatureListError);
        }
        all.push(packet);
        rest = after;
    }
    if rest.is_empty() { Ok(all) } else { Err(CosignatureListError) }
}

/// The packets in the answer to the question `name`.
pub fn read_list<'a>(
    name: NameRef<'_>,
    answer: &Data<'a>,
) -> Result<Vec<&'a [u8]>, CosignatureListError> {
    let is_one = answer.name() == name && Verifier::digest_sha256().data(answer).is_ok();
    if is_one { decode_list(answer.content()) } else { Err(CosignatureListError) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn object() -> Name {
        Name::from_uri("/alice/log").unwrap()
    }

    #[test]
    fn submitted_cosignatures_are_read() {
        let wire = submission(object().as_ref(), b"a co-signature", [1; 4], 1_000).unwrap();
        let interest = Interest::decode(&wire).unwrap();
        assert_eq!(
            submitted_cosignature(object().as_ref(), &interest),
            Some(&b"a co-signature"[..])
        );
        let other = Name::from_uri("/alice/other").unwrap();
        assert_eq!(submitted_cosignature(other.as_ref(), &interest), None);
        let long = submission(object().as_ref(), &[0; MAX_COSIGNATURE + 1], [1; 4], 1).unwrap();
        assert_eq!(
            submitted_cosignature(object().as_ref(), &Interest::decode(&long).unwrap()),
            None
        );
        for answer in SubmissionReply::ALL {
            let packet = answer.packet(interest.name()).unwrap();
            let data = Data::decode(&packet).unwrap();
            assert!(is_witness_name(object().as_ref(), data.name()));
            assert_eq!(SubmissionReply::decode(data.content()), Some(answer));
        }
        for bad in [&[][..], &[1], &[1, 5], &[2, 0], &[1, 0, 0]] {
            assert_eq!(SubmissionReply::decode(bad), None);
        }
    }

    #[test]
    fn only_questions_and_submissions_are_answered() {
        let asked = question(object().as_ref(), [7; 8]);
        assert!(is_witness_name(object().as_ref(), asked.as_ref()));
        for uri in [
            "/alice/log",
            "/alice/log/32=witness",
            "/alice/log/32=witness/short",
            "/alice/log/32=witness/12345678/x",
            "/alice/log/32=other/12345678",
            "/alice/log/v=1/32=witness/12345678",
        ] {
            let name = Name::from_uri(uri).unwrap();
            assert!(!is_witness_name(object().as_ref(), name.as_ref()), "{uri}");
        }
    }

    #[test]
    fn a_list_answers_its_own_question_alone() {
        let asked = question(object().as_ref(), [7; 8]);
        let content = encode_list([&b"one"[..], b"two"]);
        let packet = digest_signed(asked.as_ref(), &content).unwrap();
        let data = Data::decode(&packet).unwrap();
        assert_eq!(read_list(asked.as_ref(), &data), Ok(vec![&b"one"[..], b"two"]));
        let other = question(object().as_ref(), [8; 8]);
        assert_eq!(read_list(other.as_ref(), &data), Err(CosignatureListError));
    }

    proptest! {
        #[test]
        fn lists_come_back(all in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..700), 0..20)) {
            let content = encode_list(all.iter().map(Vec::as_slice));
            let fit: Vec<&[u8]> = all.iter().map(Vec::as_slice)
                .filter(|packet| packet.len() <= MAX_COSIGNATURE).take(MAX_COSIGNATURES).collect();
            prop_assert_eq!(decode_list(&content), Ok(fit));
            prop_assert!(content.len() <= 8_000);
            for cut in 0..content.len() {
                prop_assert_eq!(decode_list(&content[..cut]), Err(CosignatureListError));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(all) = decode_list(&bytes) {
                prop_assert_eq!(encode_list(all), bytes);
            }
        }
    }
}
