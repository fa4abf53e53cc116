//! The attack that the commitment and the single encoding of a list prevent. A publisher gives two recipients different
//! keys, under which one `keys` and one `list` are two different lists. ChaCha20-Poly1305 has one tag for both: one
//! block of the ciphertext can be chosen so that both sums are equal. If a parser skips fields of a manifest, each list
//! can lie in the gaps of the other (Len, Grubbs and Ristenpart, 2021, "Partitioning oracle attacks").

use super::keys::tests::{by, people};
use super::keys::{aead, associated, commitment, nonce};
use super::{SealedError, SealedListError, open};
use crate::kdf::{derive, label, short};
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use ring::aead::Aad;
use xylem_link::StaticKey;
use xylem_object::{Manifest, PublicationKind};

/// A number below p = 2^130 - 5, the lowest limb first.
type Number = [u64; 3];
const P: Number = [u64::MAX - 4, u64::MAX, 3];

fn add(a: Number, b: Number) -> Number {
    let limbs = |a: Number, b: Number| {
        let mut carry = 0;
        [0, 1, 2].map(|n| {
            let sum = u128::from(a[n]) + u128::from(b[n]) + carry;
            carry = sum >> 64;
            sum as u64
        })
    };
    let sum = limbs(a, b);
    let is_below = sum.iter().rev().lt(P.iter().rev());
    // Adds the complement of p; the three limbs wrap around.
    if is_below { sum } else { limbs(sum, [5, 0, u64::MAX - 3]) }
}

fn mul(a: Number, b: Number) -> Number {
    (0..130).rev().fold([0; 3], |product, bit| {
        let twice = add(product, product);
        if b[bit / 64] >> (bit % 64) & 1 == 1 { add(twice, a) } else { twice }
    })
}

fn negative(a: Number) -> Number {
    // Multiplies by p - 1.
    mul(a, [P[0] - 1, P[1], P[2]])
}

fn inverse(a: Number) -> Number {
    let exponent = [P[0] - 2, P[1], P[2]];
    (0..130).rev().fold([1, 0, 0], |power, bit| {
        let squared = mul(power, power);
        if exponent[bit / 64] >> (bit % 64) & 1 == 1 { mul(squared, a) } else { squared }
    })
}

fn number(bytes: &[u8]) -> Number {
    let mut whole = [0; 24];
    whole[..bytes.len()].copy_from_slice(bytes);
    [0, 8, 16].map(|at| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap()))
}

/// A key of the list, and the values that the cipher derives from it.
struct ListCipher {
    key: [u8; 32],
    stream: Vec<u8>,
    r: Number,
    s: Number,
}

impl ListCipher {
    fn new(number: u32, len: usize) -> Self {
        let key = derive("two faces", &[&number.to_be_bytes()]);
        let mut stream = vec![0; 64 + len];
        ChaCha20::new((&key).into(), &[0; 12].into()).apply_keystream(&mut stream);
        let mut r: [u8; 16] = stream[..16].try_into().unwrap();
        [3, 7, 11, 15].iter().for_each(|at| r[*at] &= 15);
        [4, 8, 12].iter().for_each(|at| r[*at] &= 252);
        let (r, s) = (self::number(&r), self::number(&stream[16..32]));
        Self { key, stream: stream.split_off(64), r, s }
    }

    /// Returns the polynomial's sum of all blocks, and the factor of the block at `place`.
    fn sum(&self, blocks: &[[u8; 16]], place: usize) -> (Number, Number) {
        let (mut sum, mut factor) = ([0; 3], [0; 3]);
        for (n, block) in blocks.iter().enumerate() {
            let block = add(number(block), [0, 0, 1]);
            sum = mul(add(sum, block), self.r);
            factor = if n == place { self.r } else { mul(factor, self.r) };
        }
        (sum, factor)
    }
}

/// Returns the blocks over which the tag is computed.
fn blocks(about: &[u8], list: &[u8]) -> Vec<[u8; 16]> {
    let lengths = [about.len() as u64, list.len() as u64].map(u64::to_le_bytes).concat();
    let all = [about, list, &lengths[..]].map(|part| {
        let mut part = part.to_vec();
        part.resize(part.len().next_multiple_of(16), 0);
        part
    });
    all.concat().as_chunks().0.to_vec()
}

/// One list at its place among the bytes of the other.
struct ListFace {
    /// Parts of it, each with its offset.
    parts: Vec<(usize, Vec<u8>)>,
}

const LEN: usize = 1_024;

/// Makes both lists, for key streams that differ by `differs` in the first bytes of a list. The first list has its
/// manifest before the second's, which its last field skips. The second skips the first's manifest by its first field.
fn colliding_faces(differs: [u8; 5]) -> Option<[ListFace; 2]> {
    let manifest = |listing: &[u8], files, name: &[u8]| {
        let file = Manifest::file(xylem_hash::hash(listing), listing.len() as u64, name);
        let manifest = Manifest { kind: PublicationKind::Directory, file_count: files, ..file };
        manifest.encode()
    };
    if differs[0] != 0 || differs[3] % 2 == 1 || differs[3] > 0x1f {
        return None;
    }
    let other = b"Alice pays 1,000,000 euros.";
    for (skips, name) in (0..253_u8).flat_map(|skips| (1..250).map(move |name| (skips, name))) {
        let (more, name) = (skips ^ differs[4], vec![b'b'; name]);
        // Lengths of both manifests, and the bytes of keys behind each listing.
        let second = 5 + usize::from(more);
        let second_len = 2 + usize::from(more) + manifest(other, 10, &name).len();
        let first_len = second_len ^ usize::from(u16::from_be_bytes([differs[1], differs[2]]));
        let behind = 3 + second_len + 8 + other.len();
        let listed = 3 + first_len + 8;
        if more > 252
            || first_len > 900
            || listed < behind + 8
            || !(LEN - behind).is_multiple_of(32)
        {
            continue;
        }
        let mut listing = b"Alice pays 100 euros.".to_vec();
        listing.resize(listing.len() + (LEN - listed - listing.len()) % 32, b'.');
        let files = |from: usize| ((LEN - from) / 32) as u64;
        let own = manifest(&listing, files(listed + listing.len()), b"a");
        let first = 5 + usize::from(skips);
        let rest = first + own.len() + 4;
        // A length of three bytes has to be possible.
        if rest > second || 3 + first_len < rest + 253 {
            continue;
        }
        let head = |len: usize, kind: u8, skips: u8| {
            let [high, low] = u16::try_from(len).unwrap().to_be_bytes();
            (0, vec![0, high, low, kind, skips])
        };
        let long = |listing: &[u8]| (listing.len() as u64).to_be_bytes().to_vec();
        let skipped = u16::try_from(3 + first_len - rest).unwrap().to_be_bytes();
        let one = vec![
            head(first_len, 0x20, skips),
            (first, own),
            (rest - 4, [&[0xa0, 0xfd][..], &skipped].concat()),
            (listed - 8, long(&listing)),
            (listed, listing),
        ];
        let two = vec![
            head(second_len, 0x20 ^ differs[3], more),
            (second, manifest(other, files(behind), &name)),
            (behind - 8 - other.len(), long(other)),
            (behind - other.len(), other.to_vec()),
        ];
        return Some([one, two].map(|parts| ListFace { parts }));
    }
    None
}

/// Makes bytes that are one list under the first key and the other under the second, with one tag.
fn colliding_list(ciphers: &[ListCipher; 2], faces: &[ListFace; 2], about: &[u8]) -> Vec<u8> {
    let place = LEN - 16;
    for filler in 0..u64::MAX {
        let mut list = vec![0; LEN];
        list[place - 16..place - 8].copy_from_slice(&filler.to_be_bytes());
        for (cipher, face) in ciphers.iter().zip(faces) {
            for (at, bytes) in &face.parts {
                for (n, byte) in (*at..).zip(bytes) {
                    list[n] = byte ^ cipher.stream[n];
                }
            }
        }
        let blocks = blocks(about, &list);
        let at = about.len().div_ceil(16) + place / 16;
        // Sums with zeros in that block: its value has to make up for their difference.
        let [(a, c), (b, d)] = [0, 1].map(|n| ciphers[n].sum(&blocks, at));
        let wanted = add(add(b, ciphers[1].s), negative(add(a, ciphers[0].s)));
        let block = mul(wanted, inverse(add(c, negative(d))));
        if block[2] != 0 {
            continue;
        }
        let block = [block[0], block[1]].map(u64::to_le_bytes).concat();
        list[place..].copy_from_slice(&block);
        let tags = [0, 1].map(|n| {
            let mut plain: Vec<u8> =
                list.iter().zip(&ciphers[n].stream).map(|(a, b)| a ^ b).collect();
            let about = Aad::from(about);
            let tag = aead(&ciphers[n].key).seal_in_place_separate_tag(nonce(), about, &mut plain);
            assert_eq!(plain, list);
            tag.unwrap().as_ref().to_vec()
        });
        if tags[0] == tags[1] {
            return [list, tags[0].clone()].concat();
        }
    }
    unreachable!("one of four works")
}

#[test]
fn one_publication_has_no_two_readings() {
    let [_, bob, carol] = people();
    let subject = by(9, b"letter");
    let first = ListCipher::new(0, LEN);
    let mut found = (1..).map(|n| ListCipher::new(n, LEN)).filter_map(|second| {
        let differs = [0, 1, 2, 3, 4].map(|n| first.stream[n] ^ second.stream[n]);
        colliding_faces(differs).map(|faces| (second, faces))
    });
    let (second, faces) = found.next().unwrap();
    let ciphers = [first, second];
    // Each recipient is wrapped another key.
    let ephemeral = StaticKey::from_bytes([5; 32]);
    let mut entries: Vec<Vec<u8>> = [&bob, &carol]
        .into_iter()
        .zip(&ciphers)
        .map(|(whom, cipher)| {
            let shared = ephemeral.agree(&whom.public()).unwrap();
            let (e, r) = (ephemeral.public().0, whom.public().0);
            let parts = [&shared[..], &e, &r, &subject.to_bytes()];
            let mut wrapped = cipher.key.to_vec();
            let wrap = aead(&derive(label::SEALED_WRAP, &parts));
            let tag = wrap.seal_in_place_separate_tag(nonce(), Aad::empty(), &mut wrapped).unwrap();
            [&short(label::SEALED_RECIPIENT, &parts)[..], &wrapped, tag.as_ref()].concat()
        })
        .collect();
    entries.sort_unstable();
    let commits = commitment(&ciphers[0].key);
    let head = [&[2][..], &ephemeral.public().0, &commits, &[0, 2]].concat();
    let keys = [head, entries.concat()].concat();
    let about = associated(&keys, &subject);
    let list = colliding_list(&ciphers, &faces, &about);
    // The cipher accepts both, and each recipient finds a manifest of its own.
    let manifests = ciphers.each_ref().map(|cipher| {
        let mut bytes = list.clone();
        let key = aead(&cipher.key);
        let plain = key.open_in_place(nonce(), Aad::from(&about), &mut bytes).unwrap();
        let len = usize::from(u16::from_be_bytes([plain[1], plain[2]]));
        Manifest::decode(&plain[3..3 + len]).unwrap()
    });
    assert_ne!(manifests[0], manifests[1]);
    // The commitment is not to Carol's key, and Bob's bytes have room for another list.
    assert_eq!(open(&carol, &subject, &keys, &list), Err(SealedError::Malformed));
    assert_eq!(open(&bob, &subject, &keys, &list), Err(SealedListError::Malformed.into()));
}
