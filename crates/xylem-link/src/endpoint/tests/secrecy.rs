//! Secrecy after secrets leak: an attacker that copies memory once, and a recorder that later gets the static keys and
//! even the ephemeral ones. Also peers that lie in rekey frames.

use super::*;
use crate::aead::TAG_LEN;
use crate::header::HEADER_LEN;
use crate::secret::HeapSecret;
use crate::{PostQuantum, RatchetLimits};

use crate::curve;
use crate::elligator;
use crate::epoch::RatchetSecret;
use crate::frame::Frames;

/// A round begins after this many bytes.
const ROUND: u64 = 20_000;

/// Two endpoints with a link, and every datagram since the first with its sender.
struct Pair {
    ends: [Endpoint; 2],
    links: [LinkId; 2],
    tap: Vec<(usize, Vec<u8>)>,
}

impl Pair {
    fn connected(post_quantum: PostQuantum, look: impl FnOnce(&mut [Endpoint; 2])) -> Self {
        let ratchet = RatchetLimits { bytes: ROUND, ..RatchetLimits::default() };
        // No MTU probes, which would soon carry that many bytes.
        let config = LinkConfig {
            post_quantum,
            ratchet,
            max_datagram: BASE_DATAGRAM,
            ..LinkConfig::default()
        };
        let mut ends =
            [1, 2].map(|n| Endpoint::new(config.clone(), StaticKey::generate([n; 32]), [n; 32]));
        look(&mut ends);
        let expected = ends[1].public_key();
        let link = ends[0].connect(ZERO, at(2), Some(expected));
        let mut pair = Self { ends, links: [link; 2], tap: Vec::new() };
        (0..10).for_each(|_| pair.carry());
        for (end, link) in pair.ends.iter_mut().zip(&mut pair.links) {
            let Some(LinkEvent::Connected { link: up, .. }) = next_event(end) else { panic!() };
            *link = up;
        }
        pair
    }

    fn carry(&mut self) {
        for i in 0..2 {
            let out = drain(&mut self.ends[i]);
            feed(&mut self.ends[1 - i], [1, 2][i], &out);
            self.tap.extend(out.into_iter().map(|datagram| (i, datagram)));
        }
    }

    /// Sends a packet each way; both arrive.
    fn talk(&mut self) {
        for i in 0..2 {
            self.ends[i].send(self.links[i], &[7; 500]).unwrap();
        }
        self.carry();
        self.carry();
        for end in &mut self.ends {
            assert!(matches!(next_event(end), Some(LinkEvent::Packet { .. })));
            assert_eq!(next_event(end), None);
        }
    }

    fn rounds(&self) -> [u64; 2] {
        [0, 1].map(|i| self.ends[i].stats(self.links[i]).unwrap().ratchets)
    }

    /// Exchanges packets until both sides' epochs have taken in `rounds` rounds.
    fn talk_until(&mut self, rounds: u64) {
        for _ in 0..100 {
            if self.rounds() == [rounds; 2] {
                return;
            }
            self.talk();
        }
        panic!("{:?} rounds", self.rounds());
    }
}

/// The knowledge of an attacker that has read both sides' memory: the secrets of both directions, and the generators
/// from which later keys are drawn.
struct Thief {
    secrets: [EpochSecret; 2],
    draws: Vec<[u8; 32]>,
}

impl Thief {
    fn of(pair: &mut Pair) -> Self {
        let mut draws = Vec::new();
        let mut secret = |i: usize| {
            let link = up(&mut pair.ends[i], pair.links[i]);
            let (secret, mut rng) = link.secrets_in_memory();
            draws.extend((0..40).map(|_| rng.array::<32>()));
            secret
        };
        Self { secrets: [secret(0), secret(1)], draws }
    }

    /// Reads on with one guess of the round's secret. Returns how many of the datagrams from `from` on it opens, and
    /// the keys of the round if frames carried them.
    fn follow(
        &self,
        tap: &[(usize, Vec<u8>)],
        from: usize,
        guess: Option<&RatchetSecret>,
    ) -> (usize, Vec<[u8; 32]>) {
        let mut openers = self.secrets.each_ref().map(|secret| {
            let mut opener = Opener::new(cipher(), secret.copy_for_test());
            if let Some(guess) = guess {
                opener.ratchet(guess.clone());
            }
            opener
        });
        let (mut opened, mut keys) = (0, Vec::new());
        for (n, (i, datagram)) in tap.iter().enumerate() {
            let mut copy = datagram.clone();
            if openers[*i].open(ZERO, &mut copy).is_err() {
                continue;
            }
            opened += usize::from(n >= from);
            for frame in Frames::new(&copy[HEADER_LEN..copy.len() - TAG_LEN]) {
                if let Ok(Frame::Rekey { key, .. }) = frame {
                    keys.push(*key);
                }
            }
        }
        (opened, keys)
    }

    /// The most datagrams from `from` on that it can read, with any guess of round 2's secret: every key that it may
    /// predict, combined with every key that it sees.
    fn reads(&self, tap: &[(usize, Vec<u8>)], from: usize) -> usize {
        let (plain, keys) = self.follow(tap, from, None);
        assert!(keys.len() >= 2, "it reads the round itself");
        let secrets = self.draws.iter().chain(&keys);
        let pairs = secrets.flat_map(|secret| keys.iter().map(move |key| (secret, key)));
        let shared = pairs.filter_map(|(secret, key)| curve::agree(secret, key));
        let guesses = shared.chain([HeapSecret::copy_of(&[0; 32])]);
        let opened = guesses
            .map(|shared| self.follow(tap, from, Some(&RatchetSecret { shared, round: 2 })).0);
        opened.max().unwrap_or(0).max(plain)
    }
}

fn cipher() -> Cipher {
    if Cipher::aes_is_fast() { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 }
}

/// Healing: an attacker with all secrets of both sides, and all sent datagrams, reads on until the next round of
/// Diffie-Hellman and nothing after it. Without new randomness in the endpoints it predicts the round's keys. That it
/// then reads on shows that its tools work.
#[test]
fn stolen_secrets_open_nothing_after_a_round() {
    // One of the two secrets is enough to compute the round's secret.
    for (fresh, heals) in [([true, true], true), ([true, false], false), ([false; 2], false)] {
        let mut pair = Pair::connected(PostQuantum::Offer, |_| {});
        pair.talk_until(1);
        pair.talk();
        let thief = Thief::of(&mut pair);
        for (end, fresh) in pair.ends.iter_mut().zip(fresh) {
            if fresh {
                end.add_entropy([99; 32]);
            }
        }
        pair.tap.clear();
        (0..3).for_each(|_| pair.talk());
        assert_eq!(pair.rounds(), [1, 1]);
        let before = pair.tap.len();
        assert_eq!(thief.follow(&pair.tap, 0, None).0, before, "all is read until the round");
        pair.talk_until(2);
        let after = pair.tap.len();
        (0..3).for_each(|_| pair.talk());
        assert_eq!(pair.rounds(), [2, 2]);
        let read = thief.reads(&pair.tap, after);
        assert_eq!(read, if heals { 0 } else { pair.tap.len() - after }, "{fresh:?}");
    }
}

/// Noise's HKDF with two outputs.
fn hkdf(chaining: &[u8; 32], input: &[u8]) -> [[u8; 32]; 2] {
    let hmac = |key: &[u8; 32], data: &[u8]| -> [u8; 32] {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
        ring::hmac::sign(&key, data).as_ref().try_into().unwrap()
    };
    let temporary = hmac(chaining, input);
    let first = hmac(&temporary, &[1]);
    [first, hmac(&temporary, &[&first[..], &[2]].concat())]
}

/// Noise's key schedule for XX: `Split()` of three Diffie-Hellmans.
fn split(results: [&[u8; 32]; 3]) -> [[u8; 32]; 2] {
    let name = *b"Noise_XX_25519_ChaChaPoly_SHA256";
    let chaining = results.into_iter().fold(name, |chaining, dh| hkdf(&chaining, dh)[0]);
    hkdf(&chaining, &[])
}

/// The recorder has every datagram, both public keys, and later both static secrets. It lacks one Diffie-Hellman, of
/// the two ephemeral keys; no value in its place opens anything. With that one as well it opens what was sent before
/// the first round and nothing after it; of a hybrid session it opens nothing at all.
#[test]
fn static_secrets_open_no_recorded_datagram() {
    for post_quantum in [PostQuantum::Never, PostQuantum::Offer] {
        let mut ephemeral = Vec::new();
        let mut pair = Pair::connected(post_quantum, |ends| {
            ephemeral.extend(ends.iter_mut().map(|end| end.ahead.first()));
        });
        // Before the next datagram can be in a ratcheted epoch.
        let early = pair.tap.len();
        pair.talk_until(2);
        let statics = [1, 2].map(|n| StaticKey::generate([n; 32]));
        let datagrams: Vec<_> = pair.tap.iter().map(|(_, datagram)| datagram.clone()).collect();
        let noise = noise_messages(statics[1].public(), &datagrams);
        let h = transcript(&noise);
        let e = [0, 1].map(|i| {
            let representative = *noise[i].first_chunk::<32>().unwrap();
            assert_eq!(representative, ephemeral[i].representative, "they are the ones in use");
            elligator::public_key(&representative)
        });
        let dh = |secret: &[u8; 32], public: &[u8; 32]| *curve::agree(secret, public).unwrap();
        let es = dh(statics[1].secret(), &e[0]);
        let se = dh(statics[0].secret(), &e[1]);
        let ss = dh(statics[0].secret(), &statics[1].public().0);
        let truth = dh(&ephemeral[0].secret, &e[1]);
        let mut guesses = vec![[0; 32], es, se, ss, h, e[0], e[1], sha256(&[&e[0], &e[1]])];
        guesses.extend(statics.iter().flat_map(|key| [key.public().0, *key.secret()]));
        let opened = |ee: &[u8; 32]| -> (usize, usize) {
            let keys = split([ee, &es, &se]);
            let labels = [label::INITIATOR_EPOCH, label::RESPONDER_EPOCH];
            let (mut before, mut after) = (0, 0);
            for shared in [None, Some(&[0; 32])] {
                let mut openers = [0, 1].map(|i| {
                    let secret = EpochSecret::first(labels[i], &keys[i], shared, &h, cipher());
                    Opener::new(cipher(), secret)
                });
                for (n, (i, datagram)) in pair.tap.iter().enumerate() {
                    let is_open = openers[*i].open(ZERO, &mut datagram.clone()).is_ok();
                    *if n < early { &mut before } else { &mut after } += usize::from(is_open);
                }
            }
            (before, after)
        };
        for guess in &guesses {
            assert_eq!(opened(guess), (0, 0));
        }
        let (before, after) = opened(&truth);
        let sealed = datagrams.iter().filter(|d| d.len() > HEADER_LEN).count();
        if post_quantum == PostQuantum::Never {
            assert!(before > 0 && after > 3, "{before} {after}: the schedule is the true one");
            assert!(before + after < sealed - 20, "and rounds shut out even this");
        } else if pair.ends[0].stats(pair.links[0]).unwrap().post_quantum {
            assert_eq!((before, after), (0, 0));
        }
    }
}

/// Rekey and reset frames that no honest peer seals end the link; copies of honest ones do not.
#[test]
fn false_rekey_frames_end_the_link() {
    let key = curve::public_key(&[7; 32]);
    let other = curve::public_key(&[8; 32]);
    let offer = |round, key| Frame::Rekey { round, answer: false, key };
    let answer = |round, key| Frame::Rekey { round, answer: true, key };
    let token = |epoch| Frame::ResetToken { epoch, token: [1; 16] };
    // The sealing side, the frames, and whether the link ends.
    let cases: [(usize, Vec<Frame<'_>>, bool); 13] = [
        (0, vec![offer(1, &key)], false),
        (0, vec![offer(1, &key), offer(1, &key)], false),
        (0, vec![offer(1, &key), offer(0, &key)], false),
        (0, vec![offer(2, &key)], true),
        (0, vec![offer(u32::MAX, &key)], true),
        (0, vec![offer(1, &key), offer(1, &other)], true),
        (0, vec![offer(1, &key), offer(2, &other)], true),
        (0, vec![offer(1, &[0; 32])], true),
        (0, vec![answer(0, &key)], true),
        (1, vec![offer(1, &key)], true),
        (1, vec![answer(1, &key)], true),
        (1, vec![token(0), token(0)], false),
        (0, vec![token(1)], true),
    ];
    for (from, frames, ends) in cases {
        let mut pair = Pair::connected(PostQuantum::Offer, |_| {});
        let mut out = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut out));
        let datagram = up(&mut pair.ends[from], pair.links[from]).seal_frames(&out);
        feed(&mut pair.ends[1 - from], [1, 2][from], &[datagram]);
        let (link, reason) = (pair.links[1 - from], CloseReason::PeerMisbehaved);
        let closed = ends.then_some(LinkEvent::Closed { link, reason });
        assert_eq!(next_event(&mut pair.ends[1 - from]), closed, "{frames:?}");
    }
}
