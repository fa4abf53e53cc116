//! Numbers modulo p = 2^255 - 19 for Elligator2: fiat-crypto's verified arithmetic with operators, and the powers from
//! which roots and inverses are computed. No branch and no index depends on a value.

use core::ops::{Add, Mul, Neg};

use fiat_crypto::curve25519_64::{
    fiat_25519_add, fiat_25519_carry, fiat_25519_carry_mul, fiat_25519_carry_square,
    fiat_25519_from_bytes, fiat_25519_loose_field_element as Loose, fiat_25519_opp,
    fiat_25519_relax, fiat_25519_tight_field_element as Tight, fiat_25519_to_bytes,
};
use subtle::{Choice, ConditionallySelectable};

/// A number modulo p.
#[derive(Clone, Copy)]
pub(super) struct FieldElement(Tight);

impl FieldElement {
    pub(super) const ONE: Self = Self(Tight([1, 0, 0, 0, 0]));
    /// Curve25519's coefficient: v² = u³ + A u² + u.
    pub(super) const A: Self = Self(Tight([486_662, 0, 0, 0, 0]));

    /// 2^((p - 1) / 4).
    const ROOT_OF_MINUS_ONE: Self = Self(Tight([
        0x6_1b27_4a0e_a0b0,
        0x0_d5a5_fc8f_189d,
        0x7_ef5e_9cbd_0c60,
        0x7_8595_a680_4c9e,
        0x2_b832_4804_fc1d,
    ]));

    /// Decodes little-endian bytes; ignores the top two bits.
    pub(super) fn from_bytes_254(bytes: &[u8; 32]) -> Self {
        let mut bytes = *bytes;
        bytes[31] &= 0x3f;
        Self::from_bytes_255(&bytes)
    }

    /// Decodes little-endian bytes; ignores the top bit. Numbers from p on are reduced modulo p.
    pub(super) fn from_bytes_255(bytes: &[u8; 32]) -> Self {
        let mut bytes = *bytes;
        bytes[31] &= 0x7f;
        let mut out = Tight([0; 5]);
        fiat_25519_from_bytes(&mut out, &bytes);
        Self(out)
    }

    /// Encodes the number below p, little-endian.
    pub(super) fn to_bytes(self) -> [u8; 32] {
        let mut out = [0; 32];
        fiat_25519_to_bytes(&mut out, &self.0);
        out
    }

    fn loose(self) -> Loose {
        let mut out = Loose([0; 5]);
        fiat_25519_relax(&mut out, &self.0);
        out
    }

    fn carried(loose: &Loose) -> Self {
        let mut out = Tight([0; 5]);
        fiat_25519_carry(&mut out, loose);
        Self(out)
    }

    pub(super) fn square(self) -> Self {
        let mut out = Tight([0; 5]);
        fiat_25519_carry_square(&mut out, &self.loose());
        Self(out)
    }

    pub(super) fn double(self) -> Self {
        self + self
    }

    /// Squares `times` times.
    fn squares(self, times: usize) -> Self {
        (0..times).fold(self, |x, _| x.square())
    }

    /// Returns `yes` if `choice`, else `no`. The subtle crate hides the choice from the compiler, which turned
    /// fiat-crypto's own selection into a load from one of two addresses.
    pub(super) fn select(choice: bool, yes: Self, no: Self) -> Self {
        let choice = Choice::from(u8::from(choice));
        let limb = |i| u64::conditional_select(&no.0.0[i], &yes.0.0[i], choice);
        Self(Tight(core::array::from_fn(limb)))
    }

    /// The internal form: five limbs of 51 bits, each with a little slack.
    #[cfg(any(test, internals))]
    pub(super) fn limbs(self) -> [u64; 5] {
        self.0.0
    }

    /// Returns whether the number below p is odd.
    pub(super) fn is_odd(self) -> bool {
        self.to_bytes()[0] & 1 == 1
    }

    fn is(self, other: Self) -> bool {
        let (a, b) = (self.to_bytes(), other.to_bytes());
        a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y)) == 0
    }

    /// x^(2^250 - 1), and x^11: the start of every power below.
    fn power_250(self) -> (Self, Self) {
        let x2 = self.square();
        let x9 = x2.squares(2) * self;
        let x11 = x9 * x2;
        let p5 = x11.square() * x9; // 2^5 - 1
        let p10 = p5.squares(5) * p5;
        let p20 = p10.squares(10) * p10;
        let p40 = p20.squares(20) * p20;
        let p50 = p40.squares(10) * p10;
        let p100 = p50.squares(50) * p50;
        let p200 = p100.squares(100) * p100;
        (p200.squares(50) * p50, x11)
    }

    /// x^(p - 2), which is 1/x, or 0 for 0.
    pub(super) fn invert(self) -> Self {
        let (p250, x11) = self.power_250();
        p250.squares(5) * x11
    }

    /// Returns whether x has a root: x^((p - 1) / 2) is 1, or 0 for 0.
    pub(super) fn is_square_or_zero(self) -> bool {
        // (p - 1) / 2 = 2^254 - 10 = 2^4 (2^250 - 1) + 6.
        let (p250, _) = self.power_250();
        let power = p250.squares(4) * (self.square() * self).square();
        !power.is(-Self::ONE)
    }

    /// 1/√x, one of the two roots, if x is a square and not zero. The time taken may reveal whether it is.
    pub(super) fn inverse_root(self) -> Option<Self> {
        // t = x^((p - 5) / 8) = x^(2^252 - 3); then t² x is a fourth root of 1.
        let (p250, _) = self.power_250();
        let t = p250.squares(2) * self;
        let fourth = t.square() * self;
        let root = Self::select(fourth.is(Self::ONE), t, t * Self::ROOT_OF_MINUS_ONE);
        (root.square() * self).is(Self::ONE).then_some(root)
    }
}

impl Add for FieldElement {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let mut out = Loose([0; 5]);
        fiat_25519_add(&mut out, &self.0, &other.0);
        Self::carried(&out)
    }
}

impl Neg for FieldElement {
    type Output = Self;
    fn neg(self) -> Self {
        let mut out = Loose([0; 5]);
        fiat_25519_opp(&mut out, &self.0);
        Self::carried(&out)
    }
}

impl Mul for FieldElement {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let mut out = Tight([0; 5]);
        fiat_25519_carry_mul(&mut out, &self.loose(), &other.loose());
        Self(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kdf::LinkRng;

    #[test]
    fn inverses_and_roots_are_correct() {
        let mut rng = LinkRng::new(&[2; 32]);
        let mut squares = 0;
        for _ in 0..200 {
            let x = FieldElement::from_bytes_255(&rng.array());
            assert!((x * x.invert()).is(FieldElement::ONE));
            let root = x.inverse_root();
            assert_eq!(root.is_some(), x.is_square_or_zero());
            if let Some(root) = root {
                squares += 1;
                assert!((root.square() * x).is(FieldElement::ONE));
            }
            assert!(x.square().is_square_or_zero());
        }
        assert!((60..140).contains(&squares));
        assert!(FieldElement::ROOT_OF_MINUS_ONE.square().is(-FieldElement::ONE));
        let zero = FieldElement::from_bytes_255(&[0; 32]);
        assert!(zero.inverse_root().is_none() && zero.is_square_or_zero());
        assert!(zero.invert().is(zero));
    }

    #[test]
    fn numbers_from_p_on_are_reduced() {
        let mut p = [0xff; 32];
        (p[0], p[31]) = (0xed, 0x7f);
        assert_eq!(FieldElement::from_bytes_255(&p).to_bytes(), [0; 32]);
        p[0] = 0xee;
        assert!(FieldElement::from_bytes_255(&p).is(FieldElement::ONE));
    }
}
