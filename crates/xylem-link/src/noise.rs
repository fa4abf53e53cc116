//! The Noise handshake (revision 34): `Noise_XX_25519_ChaChaPoly_SHA256` through snow.
//!
//! XX, because the dialer may not know the responder's key, and because both statics then travel
//! encrypted. SHA256 and ChaChaPoly, because ring has both in assembler on every CPU, and the
//! transport's own AEAD is chosen apart from it, in the payloads.
//!
//! What comes out are the two halves of Noise's `Split()`, which only the two parties can compute.
//! The handshake hash is public and is only ever used to bind, never as a key.

use core::fmt;

use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver, FallbackResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use zeroize::{Zeroize, Zeroizing};

use crate::kdf::Rng;
use crate::{PeerKey, StaticKey};

/// Bound into the transcript: another version or suite of this protocol fails at message two.
pub(crate) const PROLOGUE: &[u8] = b"xylem-link/1 Noise_XX_25519_ChaChaPoly_SHA256";
const SUITE: &str = "Noise_XX_25519_ChaChaPoly_SHA256";

/// Bytes that each message of XX adds to its payload: keys and tags.
pub(crate) const MESSAGE_1_OVERHEAD: usize = 32;
pub(crate) const MESSAGE_2_OVERHEAD: usize = 32 + 48 + 16;
pub(crate) const MESSAGE_3_OVERHEAD: usize = 48 + 16;

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
pub(crate) struct Handshake(Box<HandshakeState>);

impl Handshake {
    pub fn initiator(key: &StaticKey, rng: &mut Rng) -> Self {
        let state = builder(key, rng).and_then(Builder::build_initiator);
        Self(Box::new(state.expect("suite, key length and pattern are constants that snow has")))
    }

    pub fn responder(key: &StaticKey, rng: &mut Rng) -> Self {
        let state = builder(key, rng).and_then(Builder::build_responder);
        Self(Box::new(state.expect("suite, key length and pattern are constants that snow has")))
    }

    /// Appends the next message to `out`.
    pub fn write(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
        let start = out.len();
        out.resize(start + payload.len() + MESSAGE_2_OVERHEAD + 16, 0);
        let written = self.0.write_message(payload, &mut out[start..]);
        out.truncate(start + *written.as_ref().unwrap_or(&0));
        written.map(|_| ()).map_err(|_| Refused)
    }

    /// Reads the next message, whose payload must be exactly `N` bytes. After an error the state
    /// is as before: a forged message costs the true one nothing.
    pub fn read<const N: usize>(&mut self, message: &[u8]) -> Result<[u8; N], Refused> {
        let mut payload = [0; 64];
        let len = self.0.read_message(message, &mut payload).map_err(|_| Refused)?;
        payload[..len].try_into().map_err(|_| Refused)
    }

    /// The peer's static key, once its message has been read.
    pub fn remote(&self) -> Option<PeerKey> {
        self.0.get_remote_static()?.try_into().ok().map(PeerKey)
    }

    /// The split keys; `None` before the third message.
    pub fn finish(mut self) -> Option<Secrets> {
        if !self.0.is_handshake_finished() {
            return None;
        }
        let transcript = self.0.get_handshake_hash().try_into().ok()?;
        // "Dangerously", because the caller takes over nonces and rekeying: seal.rs does.
        let (mut initiator, mut responder) = self.0.dangerously_get_raw_split();
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

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshake(..)")
    }
}

fn builder<'a>(key: &'a StaticKey, rng: &mut Rng) -> Result<Builder<'a>, snow::Error> {
    let params: NoiseParams = SUITE.parse()?;
    let resolver = Resolver {
        inner: FallbackResolver::new(Box::new(RingResolver), Box::new(DefaultResolver)),
        seed: rng.array(),
    };
    Builder::with_resolver(params, Box::new(resolver))
        .local_private_key(key.secret())?
        .prologue(PROLOGUE)
}

/// snow's primitives, with our seeded randomness in place of the system's.
struct Resolver {
    inner: FallbackResolver,
    seed: [u8; 32],
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(SeededRandom(Rng::new(&self.seed))))
    }
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        Some(Box::new(ContributoryDh(self.inner.resolve_dh(choice)?)))
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

/// X25519 that refuses an all-zero result (RFC 7748 section 6.1): a low-order point in place of a
/// key would let anybody claim it.
struct ContributoryDh(Box<dyn Dh>);

impl Dh for ContributoryDh {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn pub_len(&self) -> usize {
        self.0.pub_len()
    }
    fn priv_len(&self) -> usize {
        self.0.priv_len()
    }
    fn set(&mut self, privkey: &[u8]) {
        self.0.set(privkey);
    }
    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
        self.0.generate(rng)
    }
    fn pubkey(&self) -> &[u8] {
        self.0.pubkey()
    }
    fn privkey(&self) -> &[u8] {
        self.0.privkey()
    }
    fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        self.0.dh(pubkey, out)?;
        // No early exit: every byte is looked at.
        if out.iter().take(self.dh_len()).fold(0, |a, b| a | b) == 0 {
            return Err(snow::Error::Dh);
        }
        Ok(())
    }
    fn dh_len(&self) -> usize {
        self.0.dh_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Handshake, Handshake, StaticKey, StaticKey) {
        let (a, b) = (StaticKey::generate([1; 32]), StaticKey::generate([2; 32]));
        let mut rng = Rng::new(&[3; 32]);
        (Handshake::initiator(&a, &mut rng), Handshake::responder(&b, &mut rng), a, b)
    }

    #[test]
    fn both_sides_agree_and_know_each_other() {
        let (mut i, mut r, a, b) = pair();
        let mut message = Vec::new();
        i.write(b"one", &mut message).unwrap();
        assert_eq!(message.len(), MESSAGE_1_OVERHEAD + 3);
        assert_eq!(&r.read::<3>(&message).unwrap(), b"one");
        message.clear();
        r.write(b"two", &mut message).unwrap();
        assert_eq!(message.len(), MESSAGE_2_OVERHEAD + 3);
        assert_eq!(&i.read::<3>(&message).unwrap(), b"two");
        message.clear();
        i.write(b"three", &mut message).unwrap();
        assert_eq!(message.len(), MESSAGE_3_OVERHEAD + 5);
        assert_eq!(&r.read::<5>(&message).unwrap(), b"three");
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
        r.read::<0>(&one).unwrap();
        let mut two = Vec::new();
        r.write(b"", &mut two).unwrap();
        for at in 0..two.len() {
            let mut forged = two.clone();
            forged[at] ^= 1;
            // The top bit of an X25519 key is ignored by the curve but not by the transcript.
            assert_eq!(i.read::<0>(&forged), Err(Refused));
            assert_eq!(i.read::<0>(&two[..at]), Err(Refused));
        }
        assert!(i.read::<0>(&two).is_ok());
    }

    #[test]
    fn low_order_points_are_refused() {
        let (_, mut r, _, _) = pair();
        // The point of order 1 as the initiator's ephemeral: `ee` would be zero.
        r.read::<0>(&[0; 32]).unwrap();
        assert_eq!(r.write(b"", &mut Vec::new()), Err(Refused));
    }
}
