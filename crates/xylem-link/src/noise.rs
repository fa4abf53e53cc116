//! The Noise handshake (revision 34): XX with ChaCha20-Poly1305 and SHA-256 through snow.
//!
//! XX, because the dialer may not know the responder's key, and because both statics then travel
//! encrypted. SHA256 and ChaChaPoly, because ring has both in assembler on every CPU, and the
//! transport's own AEAD is chosen apart from it, in the payloads.
//!
//! The DH is X25519 over public keys of two forms, told apart by a first byte that Noise sees: a
//! static key is plain, an ephemeral one is an Elligator2 representative ([`crate::elligator`]).
//! On the wire the byte of an ephemeral key is left out, so a message begins with uniform bytes,
//! and the transcript binds those very bytes.
//!
//! What comes out are the two halves of Noise's `Split()`, which only the two parties can compute.
//! The handshake hash is public and is only ever used to bind, never as a key.

use std::sync::Mutex;

use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver, FallbackResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use zeroize::{Zeroize, Zeroizing};

use crate::curve;
use crate::elligator::{self, KeyPair};
use crate::kdf::Rng;
use crate::{PeerKey, StaticKey};

/// Bound into the transcript: another version or suite of this protocol fails at message two.
pub(crate) const PROLOGUE: &[u8] = b"xylem-link/4 Noise_XX_25519_ChaChaPoly_SHA256 Elligator2";
const SUITE: &str = "Noise_XX_25519_ChaChaPoly_SHA256";

/// First byte of a public key as Noise sees it: a plain X25519 key (statics).
const PLAIN: u8 = 0;
/// First byte of a public key as Noise sees it: an Elligator2 representative (ephemerals).
const REPRESENTATIVE: u8 = 1;
/// Bytes of a public key as Noise sees it.
const FORMED_LEN: usize = 33;

/// Bytes that each message of XX adds to its payload: keys and tags.
pub(crate) const MESSAGE_1_OVERHEAD: usize = 32;
pub(crate) const MESSAGE_2_OVERHEAD: usize = 32 + FORMED_LEN + 16 + 16;
pub(crate) const MESSAGE_3_OVERHEAD: usize = FORMED_LEN + 16 + 16;

/// The message did not authenticate, or could not have come at this point.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// What both parties, and nobody else, know once the handshake is complete.
pub(crate) struct Secrets {
    /// Noise's first split key: initiator to responder.
    pub initiator: Zeroizing<[u8; 32]>,
    /// Noise's second split key: responder to initiator.
    pub responder: Zeroizing<[u8; 32]>,
    /// The handshake hash: known to whoever recorded the datagrams.
    pub transcript: [u8; 32],
}

/// One side of one handshake.
pub(crate) struct Handshake {
    state: Box<HandshakeState>,
    /// Messages written and read so far.
    messages: u8,
}

impl Handshake {
    pub(crate) fn initiator(key: &StaticKey, ephemeral: KeyPair, rng: &mut Rng) -> Self {
        let state = builder(key, ephemeral, rng).and_then(Builder::build_initiator);
        Self::new(state.expect("suite, key length and pattern are constants that snow has"))
    }

    pub(crate) fn responder(key: &StaticKey, ephemeral: KeyPair, rng: &mut Rng) -> Self {
        let state = builder(key, ephemeral, rng).and_then(Builder::build_responder);
        Self::new(state.expect("suite, key length and pattern are constants that snow has"))
    }

    fn new(state: HandshakeState) -> Self {
        Self { state: Box::new(state), messages: 0 }
    }

    /// Whether the next message begins with an ephemeral key.
    fn begins_with_ephemeral(&self) -> bool {
        self.messages < 2
    }

    /// Appends the next message to `out`.
    pub(crate) fn write(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
        let start = out.len();
        out.resize(start + payload.len() + MESSAGE_2_OVERHEAD + 16, 0);
        let written = self.state.write_message(payload, &mut out[start..]);
        out.truncate(start + *written.as_ref().unwrap_or(&0));
        written.map_err(|_| Refused)?;
        if self.begins_with_ephemeral() {
            let form = out.remove(start);
            debug_assert_eq!(form, REPRESENTATIVE);
        }
        self.messages += 1;
        Ok(())
    }

    /// Reads the next message; gives its payload. After an error the state is as before: a forged
    /// message costs the true one nothing.
    pub(crate) fn read(&mut self, message: &[u8]) -> Result<Vec<u8>, Refused> {
        let mut payload = vec![0; message.len() + 1];
        let len = if self.begins_with_ephemeral() {
            let formed = [&[REPRESENTATIVE], message].concat();
            self.state.read_message(&formed, &mut payload)
        } else {
            self.state.read_message(message, &mut payload)
        };
        payload.truncate(len.map_err(|_| Refused)?);
        self.messages += 1;
        Ok(payload)
    }

    /// The peer's static key, once its message has been read. `None` also if it was no plain key.
    pub(crate) fn remote(&self) -> Option<PeerKey> {
        let (form, key) = self.state.get_remote_static()?.split_first()?;
        (*form == PLAIN).then_some(())?;
        key.try_into().ok().map(PeerKey)
    }

    /// The split keys; `None` before the third message.
    pub(crate) fn finish(mut self) -> Option<Secrets> {
        if !self.state.is_handshake_finished() {
            return None;
        }
        let transcript = self.state.get_handshake_hash().try_into().ok()?;
        // "Dangerously", because the caller takes over nonces and rekeying: seal.rs does.
        let (mut initiator, mut responder) = self.state.dangerously_get_raw_split();
        let secrets = Secrets {
            initiator: Zeroizing::new(initiator),
            responder: Zeroizing::new(responder),
            transcript,
        };
        initiator.zeroize();
        responder.zeroize();
        Some(secrets)
    }
}

fn builder<'a>(
    key: &'a StaticKey,
    ephemeral: KeyPair,
    rng: &mut Rng,
) -> Result<Builder<'a>, snow::Error> {
    let params: NoiseParams = SUITE.parse()?;
    let resolver = Resolver {
        inner: primitives(),
        public: key.public(),
        ephemeral: Mutex::new(Some(ephemeral)),
        seed: rng.array(),
    };
    Builder::with_resolver(params, Box::new(resolver))
        .local_private_key(key.secret())?
        .prologue(PROLOGUE)
}

/// Cipher and hash of the handshake.
pub(crate) fn primitives() -> FallbackResolver {
    FallbackResolver::new(Box::new(RingResolver), Box::new(DefaultResolver))
}

/// snow's hash and cipher, our curve, and our seeded randomness in place of the system's.
struct Resolver {
    inner: FallbackResolver,
    /// Of the static key: known, so not computed again for each handshake.
    public: PeerKey,
    /// Made ahead; the first DH that is asked for takes it along.
    ephemeral: Mutex<Option<KeyPair>>,
    seed: [u8; 32],
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(SeededRandom(Rng::new(&self.seed))))
    }
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        if *choice != DHChoice::Curve25519 {
            return None;
        }
        // Both the static and the ephemeral DH are made before either is used, and only the
        // ephemeral one generates: each gets the pair, one uses it, once.
        let ahead = self.ephemeral.lock().ok()?.clone();
        let statics = self.public;
        Some(Box::new(FormedDh { secret: [0; 32], formed: [0; FORMED_LEN], statics, ahead }))
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        self.inner.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        self.inner.resolve_cipher(choice)
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.seed.zeroize();
    }
}

struct SeededRandom(Rng);

impl Random for SeededRandom {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill(dest);
        Ok(())
    }
}

/// X25519 over public keys in two forms; refuses an all-zero result (RFC 7748 section 6.1): a
/// low-order point in place of a key would let anybody claim it.
struct FormedDh {
    secret: [u8; 32],
    formed: [u8; FORMED_LEN],
    statics: PeerKey,
    ahead: Option<KeyPair>,
}

impl Dh for FormedDh {
    fn name(&self) -> &'static str {
        "25519"
    }
    fn pub_len(&self) -> usize {
        FORMED_LEN
    }
    fn priv_len(&self) -> usize {
        32
    }
    fn dh_len(&self) -> usize {
        32
    }
    /// Only ever the static key.
    fn set(&mut self, privkey: &[u8]) {
        self.secret.copy_from_slice(privkey);
        self.formed[0] = PLAIN;
        self.formed[1..].copy_from_slice(&self.statics.0);
        self.ahead = None;
    }
    /// Only ever the ephemeral key.
    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
        let pair = match self.ahead.take() {
            Some(pair) => pair,
            None => {
                let mut seed = Zeroizing::new([0; 32]);
                rng.try_fill_bytes(&mut seed[..])?;
                KeyPair::generate(&mut Rng::new(&seed))
            }
        };
        self.secret = pair.secret;
        self.formed[0] = REPRESENTATIVE;
        self.formed[1..].copy_from_slice(&pair.representative);
        Ok(())
    }
    fn pubkey(&self) -> &[u8] {
        &self.formed
    }
    fn privkey(&self) -> &[u8] {
        &self.secret
    }
    fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        let formed: &[u8; FORMED_LEN] = pubkey.first_chunk().ok_or(snow::Error::Dh)?;
        let (form, key) = formed.split_first_chunk::<1>().ok_or(snow::Error::Dh)?;
        let key: &[u8; 32] = key.try_into().map_err(|_| snow::Error::Dh)?;
        let public = match form[0] {
            PLAIN => *key,
            REPRESENTATIVE => elligator::public_key(key),
            _ => return Err(snow::Error::Dh),
        };
        let shared = curve::agree(&self.secret, &public).ok_or(snow::Error::Dh)?;
        out.get_mut(..32).ok_or(snow::Error::Dh)?.copy_from_slice(&shared[..]);
        Ok(())
    }
}

impl Drop for FormedDh {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Handshake, Handshake, StaticKey, StaticKey) {
        let (a, b) = (StaticKey::generate([1; 32]), StaticKey::generate([2; 32]));
        let mut rng = Rng::new(&[3; 32]);
        let ephemerals = [0; 2].map(|_| KeyPair::generate(&mut rng));
        let [one, other] = ephemerals;
        let initiator = Handshake::initiator(&a, one, &mut rng);
        (initiator, Handshake::responder(&b, other, &mut rng), a, b)
    }

    #[test]
    fn both_sides_agree_and_know_each_other() {
        let (mut i, mut r, a, b) = pair();
        let mut message = Vec::new();
        i.write(b"one", &mut message).unwrap();
        assert_eq!(message.len(), MESSAGE_1_OVERHEAD + 3);
        assert_eq!(r.read(&message).unwrap(), b"one");
        message.clear();
        r.write(b"two", &mut message).unwrap();
        assert_eq!(message.len(), MESSAGE_2_OVERHEAD + 3);
        assert_eq!(i.read(&message).unwrap(), b"two");
        message.clear();
        i.write(b"three", &mut message).unwrap();
        assert_eq!(message.len(), MESSAGE_3_OVERHEAD + 5);
        assert_eq!(r.read(&message).unwrap(), b"three");
        assert_eq!((i.remote(), r.remote()), (Some(b.public()), Some(a.public())));
        let (x, y) = (i.finish().unwrap(), r.finish().unwrap());
        assert_eq!(x.initiator, y.initiator);
        assert_eq!(x.responder, y.responder);
        assert_eq!(x.transcript, y.transcript);
        assert_ne!(*x.initiator, *x.responder);
    }

    #[test]
    fn a_forged_second_message_costs_the_true_one_nothing() {
        let (mut i, mut r, _, _) = pair();
        let mut one = Vec::new();
        i.write(b"", &mut one).unwrap();
        r.read(&one).unwrap();
        let mut two = Vec::new();
        r.write(b"", &mut two).unwrap();
        for at in 0..two.len() {
            let mut forged = two.clone();
            forged[at] ^= 1;
            // The top bits of a representative stand for nothing, but are in the transcript.
            assert_eq!(i.read(&forged), Err(Refused));
            assert_eq!(i.read(&two[..at]), Err(Refused));
        }
        assert!(i.read(&two).is_ok());
    }

    #[test]
    fn low_order_points_are_refused() {
        let (_, mut r, _, _) = pair();
        // The representative of the point of order 2: `ee` would be zero.
        r.read(&[0; 32]).unwrap();
        assert_eq!(r.write(b"", &mut Vec::new()), Err(Refused));
    }
}
