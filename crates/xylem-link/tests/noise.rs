//! The link's Noise handshake against snow's, adapted to the two forms of public keys: each reads the other's messages,
//! and both end with the same transcript and keys. The link's goes further than snow's: a refused message leaves its
//! state unchanged.

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use xylem_link_internals::internals::{
    ElligatorPairs, NoiseOutcome, NoiseSide, elligator_public_key, x25519, x25519_public_key,
};
use xylem_link_internals::{PeerKey, StaticKey};
use xylem_sim::Rng;

const SUITE: &str = "Noise_XX_25519_ChaChaPoly_SHA256";
const PROLOGUE: &[u8] = b"xylem-link/5 Noise_XX_25519_ChaChaPoly_SHA256 Elligator2";

type Pair = ([u8; 32], [u8; 32]);

/// snow with X25519 over keys of a form byte and 32 bytes: 0 plain, 1 a representative.
struct Formed {
    ephemeral: Pair,
    /// Sent in place of its static key.
    claim: Option<[u8; 33]>,
}

impl CryptoResolver for Formed {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(NoRandom))
    }
    fn resolve_dh(&self, _: &DHChoice) -> Option<Box<dyn Dh>> {
        Some(Box::new(FormedDh {
            secret: [0; 32],
            formed: [0; 33],
            ephemeral: self.ephemeral,
            claim: self.claim,
        }))
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

/// Keys are made in advance.
struct NoRandom;

impl Random for NoRandom {
    fn try_fill_bytes(&mut self, _: &mut [u8]) -> Result<(), snow::Error> {
        Err(snow::Error::Rng)
    }
}

struct FormedDh {
    secret: [u8; 32],
    formed: [u8; 33],
    ephemeral: Pair,
    claim: Option<[u8; 33]>,
}

impl FormedDh {
    fn hold(&mut self, secret: [u8; 32], form: u8, key: [u8; 32]) {
        self.secret = secret;
        self.formed[0] = form;
        self.formed[1..].copy_from_slice(&key);
    }
}

impl Dh for FormedDh {
    fn name(&self) -> &'static str {
        "25519"
    }
    fn pub_len(&self) -> usize {
        33
    }
    fn priv_len(&self) -> usize {
        32
    }
    fn dh_len(&self) -> usize {
        32
    }
    fn set(&mut self, secret: &[u8]) {
        let secret = secret.try_into().unwrap();
        self.hold(secret, 0, x25519_public_key(&secret));
        self.formed = self.claim.unwrap_or(self.formed);
    }
    fn generate(&mut self, _: &mut dyn Random) -> Result<(), snow::Error> {
        let (secret, representative) = self.ephemeral;
        self.hold(secret, 1, representative);
        Ok(())
    }
    fn pubkey(&self) -> &[u8] {
        &self.formed
    }
    fn privkey(&self) -> &[u8] {
        &self.secret
    }
    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        let key = public[1..33].try_into().unwrap();
        let key = if public[0] == 1 { elligator_public_key(&key) } else { key };
        let shared = x25519(&self.secret, &key).ok_or(snow::Error::Dh)?;
        out[..32].copy_from_slice(&shared[..]);
        Ok(())
    }
}

/// snow with the link's wire format: without the form of an ephemeral key.
struct Snow {
    state: HandshakeState,
    messages: usize,
}

impl Snow {
    fn new(initiator: bool, secret: &[u8; 32], ephemeral: Pair, claim: Option<[u8; 33]>) -> Self {
        let resolver = Box::new(Formed { ephemeral, claim });
        let builder = Builder::with_resolver(SUITE.parse().unwrap(), resolver)
            .local_private_key(secret)
            .and_then(|builder| builder.prologue(PROLOGUE))
            .unwrap();
        let state = if initiator { builder.build_initiator() } else { builder.build_responder() };
        Self { state: state.unwrap(), messages: 0 }
    }

    fn write(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut message = vec![0; payload.len() + 200];
        let len = self.state.write_message(payload, &mut message).unwrap();
        message.truncate(len);
        if self.messages < 2 {
            assert_eq!(message.remove(0), 1);
        }
        self.messages += 1;
        message
    }

    fn read(&mut self, message: &[u8]) -> Vec<u8> {
        let formed = if self.messages < 2 { &[1][..] } else { &[] };
        let message = [formed, message].concat();
        let mut payload = vec![0; message.len()];
        let len = self.state.read_message(&message, &mut payload).unwrap();
        payload.truncate(len);
        self.messages += 1;
        payload
    }

    fn remote(&self) -> PeerKey {
        let formed = self.state.get_remote_static().unwrap();
        assert_eq!(formed[0], 0);
        PeerKey(formed[1..].try_into().unwrap())
    }

    fn finish(mut self) -> NoiseOutcome {
        let transcript = self.state.get_handshake_hash().try_into().unwrap();
        let (one, other) = self.state.dangerously_get_raw_split();
        NoiseOutcome { transcript, split: [one, other] }
    }
}

fn bytes<const N: usize>(rng: &mut Rng) -> [u8; N] {
    rng.bytes(N).try_into().unwrap()
}

#[test]
fn ours_and_snow_understand_each_other_in_both_roles() {
    let (mut rng, mut pairs) = (Rng::new(1), ElligatorPairs::new());
    for round in 0..60 {
        let we_begin = round % 2 == 0;
        let (key, secret) = (StaticKey::generate(bytes(&mut rng)), bytes(&mut rng));
        let mut ours = NoiseSide::new(we_begin, &key, pairs.generate());
        let mut snow = Snow::new(!we_begin, &secret, pairs.generate(), None);
        for n in 0..3 {
            let payload: [u8; 1_400] = bytes(&mut rng);
            let payload = &payload[..rng.below(1_400) as usize];
            if we_begin == (n % 2 == 0) {
                let message = ours.write(payload).unwrap();
                assert_eq!(snow.read(&message), payload);
            } else {
                let message = snow.write(payload);
                assert_eq!(ours.read(&message).unwrap(), payload);
            }
        }
        assert_eq!(snow.remote(), key.public());
        assert_eq!(ours.remote(), Some(PeerKey(x25519_public_key(&secret))));
        assert_eq!(ours.finish(), Some(snow.finish()));
    }
}

/// The forgeries that an attacker could make of a message: each byte changed, each length, other messages of the same
/// handshake, and parts of genuine messages of another one.
fn forgeries(genuine: &[u8], others: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all = others.to_vec();
    for at in 0..genuine.len() {
        let mut flipped = genuine.to_vec();
        flipped[at] ^= 1 << (at % 8);
        all.push(flipped);
        all.push(genuine[..at].to_vec());
        for other in others {
            let spliced = [&genuine[..at], other.get(at..).unwrap_or(&[])].concat();
            if spliced != genuine {
                all.push(spliced);
            }
        }
    }
    all.push([genuine, &[0]].concat());
    all
}

/// Two sides and all three messages.
fn handshake(seed: u8, pairs: &mut ElligatorPairs) -> ([NoiseSide; 2], Vec<Vec<u8>>) {
    let keys = [0, 1].map(|n| StaticKey::generate([2 * seed + n; 32]));
    let pair = [0; 2].map(|_| pairs.generate());
    let sides = [0, 1].map(|n| NoiseSide::new(n == 0, &keys[n], pair[n]));
    let mut run = sides.clone();
    let messages = (0..3).map(|n| {
        let message = run[n % 2].write(&[n as u8; 20]).unwrap();
        run[1 - n % 2].read(&message).unwrap();
        message
    });
    let messages = messages.collect();
    (sides, messages)
}

/// Messages 2 and 3; a changed message 1 makes another handshake, which is refused at message 2.
#[test]
fn a_refused_message_does_not_exclude_the_genuine_one() {
    let mut pairs = ElligatorPairs::new();
    let ([mut one, mut other], messages) = handshake(1, &mut pairs);
    let (_, strangers) = handshake(2, &mut pairs);
    for n in 0..3 {
        let genuine = &messages[n];
        let [from, to] = if n % 2 == 0 { [&mut one, &mut other] } else { [&mut other, &mut one] };
        assert_eq!(from.write(&[n as u8; 20]).as_ref(), Some(genuine));
        assert_eq!(from.read(genuine), None, "it is not this side's turn");
        if n > 0 {
            let mut others = strangers.clone();
            others.extend(messages.iter().filter(|other| *other != genuine).cloned());
            for forged in forgeries(genuine, &others) {
                assert_eq!(to.read(&forged), None);
                assert_eq!(to.write(&[]), None, "nor has it become the other's");
            }
        }
        assert_eq!(to.read(genuine).unwrap(), [n as u8; 20]);
        assert_eq!(to.read(genuine), None, "once");
    }
    assert_eq!(one.finish().unwrap(), other.finish().unwrap());
}

/// A point of low order in place of an ephemeral key.
#[test]
fn low_order_points_are_refused_and_change_nothing() {
    let mut pairs = ElligatorPairs::new();
    let ([mut one, mut other], messages) = handshake(1, &mut pairs);
    let mut tricked = other.clone();
    tricked.read(&[&[0; 32], &messages[0][32..]].concat()).unwrap();
    assert_eq!(tricked.write(&[]), None);
    assert_eq!(tricked.write(&[]), None);

    one.write(&[0; 20]).unwrap();
    assert_eq!(one.read(&[&[0; 32], &messages[1][32..]].concat()), None);
    assert!(one.read(&messages[1]).is_some());
    other.read(&messages[0]).unwrap();
    assert!(other.write(&[0; 20]).is_some());
}

/// The peer can seal a static key but does not hold it: one of low order, another peer's, one of another form. As
/// initiator and as responder.
#[test]
fn a_static_key_not_held_is_refused_and_changes_nothing() {
    let (mut pairs, key) = (ElligatorPairs::new(), StaticKey::generate([9; 32]));
    let of_low_order = [0; 33];
    let mut anothers = [0; 33];
    anothers[1..].copy_from_slice(&StaticKey::generate([8; 32]).public().0);
    let mut of_another_form = [1; 33];
    of_another_form[1..].copy_from_slice(&x25519_public_key(&[7; 32]));
    for claim in [of_low_order, anothers, of_another_form] {
        let mut judge = NoiseSide::new(false, &key, pairs.generate());
        let ephemeral = pairs.generate();
        let [mut liar, mut honest] =
            [Some(claim), None].map(|claim| Snow::new(true, &[7; 32], ephemeral, claim));
        assert_eq!(judge.read(&liar.write(&[])), Some(vec![]));
        honest.write(&[]);
        let answer = judge.write(&[]).unwrap();
        liar.read(&answer);
        honest.read(&answer);
        assert_eq!(judge.read(&liar.write(&[])), None);
        assert_eq!(judge.read(&honest.write(&[])), Some(vec![]));

        let mut judge = NoiseSide::new(true, &key, pairs.generate());
        let first = judge.write(&[]).unwrap();
        for (claim, taken) in [(Some(claim), false), (None, true)] {
            let mut peer = Snow::new(false, &[7; 32], ephemeral, claim);
            peer.read(&first);
            assert_eq!(judge.read(&peer.write(&[])).is_some(), taken);
        }
    }
}

/// One first message, several answers: each is read in a clone of the state after it, in any order.
#[test]
fn one_first_message_may_have_answers_by_several_keys() {
    let mut pairs = ElligatorPairs::new();
    let key = StaticKey::generate([1; 32]);
    let mut dialer = NoiseSide::new(true, &key, pairs.generate());
    let first = dialer.write(b"who is there").unwrap();
    let mut answers = Vec::new();
    for n in 2..6 {
        let theirs = StaticKey::generate([n; 32]);
        let mut responder = NoiseSide::new(false, &theirs, pairs.generate());
        responder.read(&first).unwrap();
        answers.push((theirs.public(), responder.write(&[n]).unwrap(), responder));
    }
    for (theirs, answer, mut responder) in answers.into_iter().rev() {
        let mut attempt = dialer.clone();
        attempt.read(&answer).unwrap();
        assert_eq!(attempt.remote(), Some(theirs));
        responder.read(&attempt.write(&[]).unwrap()).unwrap();
        assert_eq!(responder.remote(), Some(key.public()));
        assert_eq!(attempt.finish(), responder.finish());
    }
}
