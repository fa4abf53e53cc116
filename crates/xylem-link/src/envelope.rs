//! The envelope of handshake messages: every byte of it looks random without the responder's public key.
//!
//! Ephemeral keys are uniform by themselves ([`crate::elligator`]). The envelope hides the rest (the message's kind,
//! flags, KEM key and padding) from all but those that know the dialled key, the ticket's holders. It also makes a
//! responder silent towards dialers that lack its key. It only disguises: the security of the handshake does not depend
//! on it.
//!
//! `connection id (8) | tag (16) | body ⊕ stream(tag)`, where the tag is a keyed hash of the connection id and the body
//! (a synthetic IV, as in RFC 5297).

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use constant_time_eq::constant_time_eq_n;
use xylem_hash::{Hasher, OutputReader};
use zeroize::Zeroize;

use crate::header::{CID_LEN, ConnectionId};
use crate::kdf::{derive, label};
use crate::keys::PeerKey;

const TAG_LEN: usize = 16;
/// Bytes before the body.
pub(crate) const ENVELOPE_HEADER: usize = CID_LEN + TAG_LEN;
/// Largest handshake datagram, in bytes; longer ones are not tried.
pub(crate) const MAX_HANDSHAKE_DATAGRAM: usize = 1_500;

/// The keys of an envelope. They follow from the responder's public key, from a knock, or from nothing at all where the
/// dialer knows neither.
pub(crate) struct EnvelopeKey {
    tag: [u8; 32],
    stream: [u8; 32],
}

impl EnvelopeKey {
    pub(crate) fn new(responder: Option<PeerKey>) -> Self {
        match responder {
            Some(key) => Self::derived(1, &key.0),
            None => Self::derived(0, &[0; 32]),
        }
    }

    /// The keys for a knock, which the dialer knows instead of the public key ([`crate::Endpoint::answer_knock`]).
    pub(crate) fn of_knock(knock: &[u8; 32]) -> Self {
        Self::derived(2, knock)
    }

    fn derived(known: u8, of: &[u8; 32]) -> Self {
        Self {
            tag: derive(label::ENVELOPE_TAG, &[&[known], of]),
            stream: derive(label::ENVELOPE_STREAM, &[&[known], of]),
        }
    }

    /// Writes the envelope around `body` to `out` (cleared first). Inside, the body is padded with zeros to
    /// `datagram_len` bytes in all, or more if the body needs it.
    pub(crate) fn seal(
        &self,
        cid: ConnectionId,
        body: &[u8],
        datagram_len: usize,
        out: &mut Vec<u8>,
    ) {
        out.clear();
        out.extend_from_slice(&cid.0);
        out.extend_from_slice(&[0; TAG_LEN]);
        out.extend_from_slice(body);
        out.resize(datagram_len.max(out.len()), 0);
        let tag = self.compute_tag(cid, &out[ENVELOPE_HEADER..]);
        out[CID_LEN..ENVELOPE_HEADER].copy_from_slice(&tag);
        self.apply_stream(&tag, &mut out[ENVELOPE_HEADER..]);
    }

    /// The first 64 bytes of the body if the envelope was made with this key, and random bytes otherwise. It computes
    /// one block of the stream, where opening takes forty. `None` if there are fewer bytes.
    pub(crate) fn peek(&self, datagram: &[u8]) -> Option<[u8; 64]> {
        let (tag, body) = datagram.get(CID_LEN..)?.split_first_chunk::<TAG_LEN>()?;
        let mut first = *body.first_chunk()?;
        let mut stream = [0; 64];
        self.stream(tag).fill(&mut stream);
        first.iter_mut().zip(&stream).for_each(|(byte, mask)| *byte ^= mask);
        Some(first)
    }

    /// The body with its padding, or `None` if the envelope was not made with this key.
    pub(crate) fn open(&self, datagram: &[u8]) -> Option<Vec<u8>> {
        if datagram.len() < ENVELOPE_HEADER || datagram.len() > MAX_HANDSHAKE_DATAGRAM {
            return None;
        }
        let cid = ConnectionId(datagram[..CID_LEN].try_into().ok()?);
        let tag: [u8; TAG_LEN] = datagram[CID_LEN..ENVELOPE_HEADER].try_into().ok()?;
        let sealed = &datagram[ENVELOPE_HEADER..];
        let mut body = vec![0; sealed.len()];
        self.stream(&tag).fill(&mut body);
        body.iter_mut().zip(sealed).for_each(|(byte, sealed)| *byte ^= sealed);
        constant_time_eq_n(&tag, &self.compute_tag(cid, &body)).then_some(body)
    }

    fn compute_tag(&self, cid: ConnectionId, body: &[u8]) -> [u8; TAG_LEN] {
        let mut hasher = Hasher::new_keyed(&self.tag);
        hasher.update(&cid.0).update(body);
        let mut tag = [0; TAG_LEN];
        tag.copy_from_slice(&hasher.finalize().as_bytes()[..TAG_LEN]);
        tag
    }

    fn apply_stream(&self, tag: &[u8; TAG_LEN], body: &mut [u8]) {
        let mut stream = [0; MAX_HANDSHAKE_DATAGRAM];
        let stream = &mut stream[..body.len().min(MAX_HANDSHAKE_DATAGRAM)];
        self.stream(tag).fill(stream);
        for (byte, mask) in body.iter_mut().zip(stream) {
            *byte ^= *mask;
        }
    }

    fn stream(&self, tag: &[u8; TAG_LEN]) -> OutputReader {
        Hasher::new_keyed(&self.stream).update(tag).finalize_xof()
    }
}

impl Drop for EnvelopeKey {
    fn drop(&mut self) {
        self.tag.zeroize();
        self.stream.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StaticKey;
    use crate::kdf::LinkRng;

    const CID: ConnectionId = ConnectionId([7; 8]);

    #[test]
    fn an_envelope_opens_only_unchanged_and_with_its_key() {
        let key = EnvelopeKey::new(Some(PeerKey([9; 32])));
        let mut out = Vec::new();
        key.seal(CID, b"body", 40, &mut out);
        assert_eq!(out.len(), 40);
        assert_eq!(key.open(&out).as_deref(), Some(&b"body\0\0\0\0\0\0\0\0\0\0\0\0"[..]));
        assert_eq!(EnvelopeKey::new(None).open(&out), None);
        for bit in 0..out.len() * 8 {
            let mut forged = out.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.open(&forged), None, "bit {bit}");
        }
        for len in 0..out.len() {
            assert_eq!(key.open(&out[..len]), None, "length {len}");
        }
        assert_eq!(key.open(&[0; MAX_HANDSHAKE_DATAGRAM + 1]), None);
    }

    #[test]
    fn peek_recognizes_a_message_without_opening_it() {
        let key = EnvelopeKey::new(Some(PeerKey([9; 32])));
        let (body, mut out) = ([7; 80], Vec::new());
        key.seal(CID, &body, 0, &mut out);
        assert_eq!(key.peek(&out), Some([7; 64]));
        assert_ne!(EnvelopeKey::new(None).peek(&out), Some([7; 64]));
        for len in 0..ENVELOPE_HEADER + 64 {
            assert_eq!(key.peek(&out[..len]), None, "length {len}");
        }
    }

    /// Counts ones at each bit of the first 128 bytes over many handshakes. For uniform bits all counts lie within 6
    /// standard deviations with a probability above 1 - 1e-5.
    fn looks_uniform(datagrams: &[Vec<u8>]) -> bool {
        let n = datagrams.len() as f64;
        (0..128 * 8).all(|bit| {
            let ones = datagrams.iter().filter(|d| d[bit / 8] >> (bit % 8) & 1 == 1).count();
            (ones as f64 - n / 2.0).abs() < 6.0 * n.sqrt() / 2.0
        })
    }

    /// Complements tests/hostile.rs, which tests whole first messages: public keys are visible outside of the envelope,
    /// and not inside.
    #[test]
    fn public_keys_look_uniform_only_inside_the_envelope() {
        let mut rng = LinkRng::new(&[1; 32]);
        let key = EnvelopeKey::new(Some(PeerKey([9; 32])));
        let (mut sealed, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..2_000 {
            let mut body = vec![1, 1];
            // A public key as message 1 carries it.
            body.extend_from_slice(&StaticKey::generate(rng.array()).public().0);
            let mut out = Vec::new();
            key.seal(ConnectionId(rng.array()), &body, 128, &mut out);
            sealed.push(out);
            body.resize(128, 0);
            plain.push(body);
        }
        assert!(looks_uniform(&sealed));
        assert!(!looks_uniform(&plain), "the test would not notice anything");
    }
}
