//! The vectors of other Noise implementations, through the cipher, hash and curve that our
//! handshakes use. Ours have public keys of 33 bytes ([`crate::noise`]), theirs have 32.

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, FallbackResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};

use crate::curve;
use crate::noise::primitives;

/// What a Noise vector is made of: an XX handshake with plain 32-byte keys, through the cipher, the
/// hash and the curve that ours has.
#[derive(Debug)]
pub struct NoiseVector<'a> {
    /// Its Noise name.
    pub suite: &'a str,
    /// Of both sides.
    pub prologue: &'a [u8],
    /// Static and ephemeral secret of the initiator, then of the responder.
    pub keys: [[[u8; 32]; 2]; 2],
    /// Of the three messages.
    pub payloads: [&'a [u8]; 3],
}

/// What comes of a [`NoiseVector`].
#[derive(Debug)]
pub struct NoiseOutcome {
    /// The three messages.
    pub messages: [Vec<u8>; 3],
    /// The handshake hash.
    pub transcript: [u8; 32],
    /// Noise's split keys: initiator to responder, and back.
    pub split: [[u8; 32]; 2],
}

impl NoiseVector<'_> {
    /// Runs both sides.
    ///
    /// # Panics
    /// If they do not understand each other.
    #[must_use]
    pub fn run(&self) -> NoiseOutcome {
        const AGREE: &str = "both sides follow one vector";
        let mut sides = [0, 1].map(|i| self.side(i).expect(AGREE));
        let messages = [0, 1, 2].map(|n| {
            let (from, to) = (n % 2, 1 - n % 2);
            let mut message = vec![0; self.payloads[n].len() + 128];
            let len = sides[from].write_message(self.payloads[n], &mut message).expect(AGREE);
            message.truncate(len);
            let mut payload = vec![0; message.len()];
            let len = sides[to].read_message(&message, &mut payload).expect(AGREE);
            assert_eq!(payload[..len], *self.payloads[n]);
            message
        });
        let [initiator, responder] = &mut sides;
        let split = initiator.dangerously_get_raw_split();
        assert_eq!(split, responder.dangerously_get_raw_split());
        assert_eq!(initiator.get_handshake_hash(), responder.get_handshake_hash());
        let transcript = initiator.get_handshake_hash().try_into().expect("SHA-256 has 32 bytes");
        NoiseOutcome { messages, transcript, split: [split.0, split.1] }
    }

    fn side(&self, i: usize) -> Result<HandshakeState, snow::Error> {
        let resolver = Box::new(PlainResolver(primitives()));
        let builder = Builder::with_resolver(self.suite.parse()?, resolver)
            .local_private_key(&self.keys[i][0])?
            .fixed_ephemeral_key_for_testing_only(&self.keys[i][1])
            .prologue(self.prologue)?;
        if i == 0 { builder.build_initiator() } else { builder.build_responder() }
    }
}

struct PlainResolver(FallbackResolver);

impl CryptoResolver for PlainResolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        self.0.resolve_rng()
    }
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        (*choice == DHChoice::Curve25519).then(|| Box::new(PlainDh::default()) as Box<dyn Dh>)
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        self.0.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        self.0.resolve_cipher(choice)
    }
}

/// X25519 as the link does it, over keys as Noise has them.
#[derive(Default)]
struct PlainDh {
    secret: [u8; 32],
    public: [u8; 32],
}

impl Dh for PlainDh {
    fn name(&self) -> &'static str {
        "25519"
    }
    fn pub_len(&self) -> usize {
        32
    }
    fn priv_len(&self) -> usize {
        32
    }
    fn dh_len(&self) -> usize {
        32
    }
    fn set(&mut self, secret: &[u8]) {
        self.secret.copy_from_slice(secret);
        self.public = curve::public_key(&self.secret);
    }
    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
        let mut secret = [0; 32];
        rng.try_fill_bytes(&mut secret)?;
        self.set(&secret);
        Ok(())
    }
    fn pubkey(&self) -> &[u8] {
        &self.public
    }
    fn privkey(&self) -> &[u8] {
        &self.secret
    }
    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        let public = public.first_chunk().ok_or(snow::Error::Dh)?;
        let shared = curve::agree(&self.secret, public).ok_or(snow::Error::Dh)?;
        out.get_mut(..32).ok_or(snow::Error::Dh)?.copy_from_slice(&shared[..]);
        Ok(())
    }
}
