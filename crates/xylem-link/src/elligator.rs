//! Elligator2 (Bernstein, Hamburg, Krasnova, Lange 2013, section 5; RFC 9380 section 6.7.1): X25519 public keys as
//! strings that look uniformly random.
//!
//! A public key is the first coordinate of a point. Only half of all strings are such a coordinate, and its top bit is
//! zero. A *representative* is one of 2^254 numbers that the Elligator2 map takes to points, about two of them to every
//! second point; two random bits on top make 32 uniform bytes. Key pairs are drawn until one has a point with a
//! representative.
//!
//! The strings are uniform only if the point is uniform on the whole curve. The multiples of the base point are only an
//! eighth of it, which an observer could detect by multiplying by the group's order. So a random point of order
//! dividing 8 is added to the public key. Secrets are multiples of 8, so no shared secret changes by it.
//!
//! fiat-crypto does the field arithmetic, curve25519-dalek the points; this module has the map, its inverse and the
//! choice between representatives. It does not encrypt, and does not hide the owner of a secret.

use curve25519_dalek::EdwardsPoint;
use curve25519_dalek::constants::EIGHT_TORSION;

use crate::kdf::LinkRng;
use crate::secret::{HeapSecret, leaving_nothing};

mod field;

use field::FieldElement;

/// All 254-bit representatives of points of small order (the order divides 8).
const SMALL_ORDER: [[u8; 32]; 3] = [
    [0; 32],
    [
        15, 235, 211, 170, 168, 120, 120, 81, 1, 3, 104, 4, 236, 63, 162, 77, 242, 198, 219, 2, 0,
        64, 127, 5, 86, 86, 172, 94, 47, 253, 55, 31,
    ],
    [
        206, 57, 108, 84, 36, 201, 71, 210, 4, 223, 40, 125, 44, 92, 27, 244, 29, 187, 87, 24, 58,
        213, 186, 20, 44, 35, 211, 83, 81, 174, 160, 29,
    ],
];

/// A secret with a public key that has a representative.
#[derive(Clone)]
pub(crate) struct KeyPair {
    pub secret: HeapSecret,
    /// 32 uniform bytes.
    pub representative: [u8; 32],
}

impl KeyPair {
    /// Draws key pairs until one has a representative: two draws on average, so call it where nothing waits for it. The
    /// number of draws shows in the time taken and reveals nothing about the pair.
    pub(crate) fn generate(rng: &mut LinkRng) -> Self {
        leaving_nothing(|| {
            loop {
                let secret = rng.secret();
                let [torsion, choice, pad] = rng.array();
                let found = public_key_of_all(&secret, torsion);
                let found = representative(&found, choice & 1 == 1);
                if let Some(mut representative) = found {
                    representative[31] |= pad & 0xc0;
                    return Self { secret, representative };
                }
            }
        })
    }
}

/// The public key of `secret`, moved by one of the eight points of small order.
pub(crate) fn public_key_of_all(secret: &[u8; 32], torsion: u8) -> [u8; 32] {
    let small = EIGHT_TORSION[usize::from(torsion % 8)];
    (EdwardsPoint::mul_base_clamped(*secret) + small).to_montgomery().to_bytes()
}

/// The public key of a representative. Every string is a representative; its two top bits are ignored.
pub(crate) fn public_key(representative: &[u8; 32]) -> [u8; 32] {
    let r = FieldElement::from_bytes_254(representative);
    // w = -A / (1 + 2r²); 1 + 2r² is not zero, because -1/2 is not a square.
    let d = FieldElement::ONE + r.square().double();
    let w = -(FieldElement::A * d.invert());
    // The other candidate, -w - A, is on the curve exactly if w is not.
    let curve = w * (w * (w + FieldElement::A) + FieldElement::ONE);
    let other = -(w + FieldElement::A);
    FieldElement::select(curve.is_square_or_zero(), w, other).to_bytes()
}

/// Returns whether a string represents a point of small order, with which every secret gives zeros.
pub(crate) fn is_small_order(representative: &[u8; 32]) -> bool {
    let mut string = *representative;
    string[31] &= 0x3f;
    SMALL_ORDER.contains(&string)
}

/// One of the two representatives of a public key, if it has any. The caller has to choose between them (`first`) at
/// random. The two top bits are zero.
pub(crate) fn representative(public: &[u8; 32], first: bool) -> Option<[u8; 32]> {
    let u = FieldElement::from_bytes_255(public);
    let v = u + FieldElement::A;
    // r = √(-u / 2(u + A)) or √(-(u + A) / 2u): both exist if -2u(u + A) is a square.
    let root = (-(u * v).double()).inverse_root()?;
    let r = FieldElement::select(first, u, v) * root;
    // The smaller of r and -r, below p/2, fits 254 bits.
    Some(FieldElement::select(r.double().is_odd(), -r, r).to_bytes())
}

/// The operands of [`FieldElement::select`], for measurements of its timing.
#[cfg(any(test, internals))]
pub(crate) struct SelectOperands(FieldElement, FieldElement);

#[cfg(any(test, internals))]
impl SelectOperands {
    pub(crate) fn new(first: &[u8; 32], other: &[u8; 32]) -> Self {
        Self(FieldElement::from_bytes_255(first), FieldElement::from_bytes_255(other))
    }

    pub(crate) fn select(&self, first: bool) -> [u64; 5] {
        FieldElement::select(first, self.0, self.1).limbs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve;

    fn rng() -> LinkRng {
        LinkRng::new(&[5; 32])
    }

    #[test]
    fn map_and_inverse_undo_each_other() {
        let mut rng = rng();
        let (mut found, mut none) = (0, 0);
        for n in 0..400u32 {
            let public = public_key_of_all(&rng.array(), n as u8);
            match (representative(&public, true), representative(&public, false)) {
                (Some(one), Some(other)) => {
                    found += 1;
                    assert_ne!(one, other);
                    for r in [one, other] {
                        assert!(r[31] < 0x40, "254 bits");
                        assert_eq!(public_key(&r), public);
                        let padded = |bits| {
                            let mut r = r;
                            r[31] |= bits;
                            r
                        };
                        assert_eq!(public_key(&padded(0xc0)), public, "top bits do not count");
                    }
                }
                (None, None) => none += 1,
                _ => panic!("both or none"),
            }
        }
        assert!(found > 150 && none > 150, "half of the points each: {found}, {none}");
    }

    #[test]
    fn all_strings_of_small_order_are_known() {
        let mut found = vec![[0; 32]];
        for point in EIGHT_TORSION {
            let public = point.to_montgomery().to_bytes();
            for first in [true, false] {
                found.extend(representative(&public, first));
            }
        }
        found.sort();
        found.dedup();
        let mut known = SMALL_ORDER.to_vec();
        known.sort();
        assert_eq!(known, found, "{found:#04x?}");
        for mut string in found {
            assert!((0..32).all(|n| curve::agree(&[n; 32], &public_key(&string)).is_none()));
            string[31] |= 0xc0;
            assert!(is_small_order(&string));
            string[0] ^= 1;
            assert!(!is_small_order(&string));
        }
    }

    #[test]
    fn every_string_stands_for_a_point_of_the_curve() {
        let mut rng = rng();
        for _ in 0..400 {
            let mut string: [u8; 32] = rng.array();
            let public = public_key(&string);
            // A point on the curve, not its twist, times 8, then times the order, is zero.
            let point = curve25519_dalek::MontgomeryPoint(public).to_edwards(0);
            assert!(point.is_some(), "{string:?}");
            // One of the point's two representatives is this string, or its negative if it is above p/2.
            string[31] &= 0x3f;
            let back = [true, false].map(|first| representative(&public, first).unwrap());
            assert!(back.contains(&string));
        }
        assert_eq!(representative(&[0; 32], true), None, "which only zero stands for");
    }

    /// The first vector of elligator.org for Curve25519's direct map; zero maps to zero.
    #[test]
    fn the_map_agrees_with_the_published_vector() {
        let hex = |s: &str| -> [u8; 32] {
            core::array::from_fn(|i| u8::from_str_radix(&s[2 * i..2 * i + 2], 16).unwrap())
        };
        let r = hex("66665895c5bc6e44ba8d65fd9307092e3244bf2c18877832bd568cb3a2d38a12");
        let u = hex("04d44290d13100b2c25290c9343d70c12ed4813487a07ac1176daa5925e7975e");
        assert_eq!(public_key(&r), u);
        assert_eq!(public_key(&[0; 32]), [0; 32]);
    }

    #[test]
    fn shared_secrets_are_those_of_the_plain_keys() {
        let mut rng = rng();
        for _ in 0..50 {
            let (a, b) = (KeyPair::generate(&mut rng), KeyPair::generate(&mut rng));
            let plain = curve::agree(&a.secret, &curve::public_key(&b.secret)).unwrap();
            let from = |x: &KeyPair, y: &KeyPair| {
                curve::agree(&x.secret, &public_key(&y.representative)).unwrap()
            };
            assert_eq!((from(&a, &b), from(&b, &a)), (plain.clone(), plain));
        }
    }

    /// WRAITH: Elligator2 present in benchmarks, never in the handshake. The test applies the distinguishers known from
    /// other implementations: the two top bits, the lower half, and the subgroup that the points lie in. 10,000 pairs;
    /// each count lies within 6 standard deviations of its mean.
    #[test]
    fn representatives_cannot_be_told_from_random_strings() {
        const N: usize = 10_000;
        let mut rng = rng();
        let mut ones = [0usize; 256];
        let mut cosets = [0usize; 8];
        let mut bytes = [0usize; 256];
        let order = order_minus_one();
        for n in 0..N {
            let pair = KeyPair::generate(&mut rng);
            for (bit, count) in ones.iter_mut().enumerate() {
                *count += usize::from(pair.representative[bit / 8] >> (bit % 8) & 1);
            }
            for byte in pair.representative {
                bytes[usize::from(byte)] += 1;
            }
            // A tenth of the pairs is enough for the eight cosets.
            if n % 10 == 0 {
                cosets[coset(&public_key(&pair.representative), &order)] += 1;
            }
        }
        let near = |count: usize, n: usize, p: f64| {
            let (mean, deviation) = (n as f64 * p, (n as f64 * p * (1.0 - p)).sqrt());
            (count as f64 - mean).abs() < 6.0 * deviation
        };
        for (bit, count) in ones.iter().enumerate() {
            assert!(near(*count, N, 0.5), "bit {bit}: {count}");
        }
        for (byte, count) in bytes.iter().enumerate() {
            assert!(near(*count, N * 32, 1.0 / 256.0), "byte {byte}: {count}");
        }
        // A point and its negative have one coordinate, so cosets k and 8 - k count together.
        let pairs = [cosets[0], cosets[4], cosets[1], cosets[2], cosets[3]];
        for (count, p) in pairs.into_iter().zip([0.125, 0.125, 0.25, 0.25, 0.25]) {
            assert!(near(count, N / 10, p), "{cosets:?}");
        }
        // Control: without the small point every key lies in one coset, and the test would fail.
        let plain = (0..20).map(|_| coset(&public_key_of_all(&rng.array(), 0), &order));
        assert!(plain.into_iter().all(|coset| coset == 0));
    }

    /// The order of the base point, minus one.
    fn order_minus_one() -> curve25519_dalek::Scalar {
        -curve25519_dalek::Scalar::ONE
    }

    /// The coset of the subgroup that a point is in, up to its sign: 0..=4.
    fn coset(public: &[u8; 32], order_minus_one: &curve25519_dalek::Scalar) -> usize {
        let point = curve25519_dalek::MontgomeryPoint(*public).to_edwards(0).unwrap();
        let small = point * order_minus_one + point;
        // The order of the base point is 5 modulo 8: it takes the point of index k to 5k.
        let at = EIGHT_TORSION.iter().position(|t| *t == small).unwrap();
        let index = at * 5 % 8;
        index.min(8 - index)
    }
}
