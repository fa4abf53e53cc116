//! Padding: the lengths of datagrams, whatever they contain.

use crate::kdf::LinkRng;
use crate::mtu::{BASE_DATAGRAM, MAX_DATAGRAM};

/// Smallest size that a profile may name, in bytes: a fragment's head and a piece worth sending fit.
const MIN_SIZE: usize = 128;
/// Smallest constant size, in bytes: all small frames that can be owed at once fit.
const MIN_CONSTANT: usize = 512;
/// The smallest power of two.
const MIN_POWER: usize = 64;
/// Most sizes of one padding.
const MAX_SIZES: usize = 32;
/// Most draws of a size for a datagram that needs more than the first draw gave.
const MAX_DRAWS: usize = 16;

/// The sizes that datagrams have, in bytes of UDP payload, never above what the path carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// As long as the content.
    #[default]
    None,
    /// The next power of two from 64 on, or the path's size.
    PowerOfTwo,
    /// The next of these sizes, or the path's. In ascending order.
    SizeClasses(Vec<usize>),
    /// This size for all.
    Constant(usize),
    /// Drawn from this distribution of size and weight, whatever is to be sent; packets are cut to the drawn size. (For
    /// the few datagrams of small frames that do not fit, a size is drawn again.)
    Statistical(Vec<(usize, u32)>),
}

impl Padding {
    /// The same padding with supported sizes only; [`Padding::None`] for classes or a distribution without sizes.
    pub(crate) fn bounded(&self) -> Self {
        match self {
            Self::None | Self::PowerOfTwo => self.clone(),
            Self::SizeClasses(sizes) => {
                let within = sizes.iter().map(|size| (*size).clamp(MIN_SIZE, MAX_DATAGRAM));
                let mut sizes: Vec<usize> = within.take(MAX_SIZES).collect();
                sizes.sort_unstable();
                sizes.dedup();
                if sizes.is_empty() { Self::None } else { Self::SizeClasses(sizes) }
            }
            Self::Constant(size) => Self::Constant((*size).clamp(MIN_CONSTANT, MAX_DATAGRAM)),
            Self::Statistical(table) => {
                let positive = table.iter().filter(|(_, weight)| *weight > 0).take(MAX_SIZES);
                let within = |(size, weight): &(usize, u32)| {
                    ((*size).clamp(MIN_SIZE, MAX_DATAGRAM), *weight)
                };
                let table: Vec<_> = positive.map(within).collect();
                if table.is_empty() { Self::None } else { Self::Statistical(table) }
            }
        }
    }

    /// The largest size in use, where it is not the path's.
    pub(crate) fn largest(&self) -> Option<usize> {
        match self {
            Self::None | Self::PowerOfTwo | Self::SizeClasses(_) => None,
            Self::Constant(size) => Some(*size),
            Self::Statistical(table) => table.iter().map(|(size, _)| *size).max(),
        }
    }

    /// The mean size, as far as it does not depend on what is sent.
    pub(crate) fn mean(&self) -> usize {
        match self {
            Self::None | Self::PowerOfTwo | Self::SizeClasses(_) => BASE_DATAGRAM,
            Self::Constant(size) => *size,
            Self::Statistical(table) => {
                let total: u64 = table.iter().map(|(_, weight)| u64::from(*weight)).sum();
                let bytes: u64 =
                    table.iter().map(|(s, weight)| *s as u64 * u64::from(*weight)).sum();
                (bytes / total.max(1)) as usize
            }
        }
    }

    /// Returns whether sizes are chosen independently of the content.
    pub(crate) fn is_chosen(&self) -> bool {
        matches!(self, Self::Constant(_) | Self::Statistical(_))
    }

    /// The final size of a datagram that needs `len` bytes and was begun for up to `limit` ([`Padder::limit`]); within
    /// `len..=limit.max(len)`.
    pub(crate) fn closed(&self, len: usize, limit: usize) -> usize {
        let size = match self {
            Self::None => len,
            Self::PowerOfTwo => len.max(MIN_POWER).next_power_of_two(),
            Self::SizeClasses(sizes) => {
                sizes.iter().copied().find(|size| *size >= len).unwrap_or(limit)
            }
            Self::Constant(_) | Self::Statistical(_) => limit,
        };
        size.min(limit).max(len)
    }
}

/// A padding with a random generator.
#[derive(Debug)]
pub(crate) struct Padder {
    padding: Padding,
    rng: LinkRng,
}

impl Padder {
    /// Makes one from a bounded padding.
    pub(crate) fn new(padding: Padding, rng: LinkRng) -> Self {
        Self { padding, rng }
    }

    /// The same padding with another generator.
    pub(crate) fn another(&self, rng: LinkRng) -> Self {
        Self::new(self.padding.clone(), rng)
    }

    pub(crate) fn padding(&self) -> &Padding {
        &self.padding
    }

    /// Returns whether each datagram's limit is drawn, so that a packet may fit one and not the next.
    pub(crate) fn draws(&self) -> bool {
        matches!(self.padding, Padding::Statistical(_))
    }

    /// The most bytes of a datagram that is begun now, on a path that carries `most`.
    pub(crate) fn limit(&mut self, most: usize) -> usize {
        match &self.padding {
            Padding::None | Padding::PowerOfTwo | Padding::SizeClasses(_) => most,
            Padding::Constant(size) => most.min(*size),
            Padding::Statistical(table) => draw(table, &mut self.rng).min(most),
        }
    }

    /// The size of a datagram that needs `len` bytes, on a path that carries `most`.
    pub(crate) fn size(&mut self, len: usize, most: usize) -> usize {
        let mut limit = self.limit(most);
        for _ in 1..MAX_DRAWS {
            if len <= limit || !self.draws() {
                break;
            }
            limit = self.limit(most);
        }
        self.padding.closed(len, if len <= limit { limit } else { most })
    }
}

fn draw(table: &[(usize, u32)], rng: &mut LinkRng) -> usize {
    let total: u64 = table.iter().map(|(_, weight)| u64::from(*weight)).sum();
    // At most 32 weights below 2^32: the remainder's bias is below 2^-27.
    let mut rest = rng.u64() % total.max(1);
    for (size, weight) in table {
        if rest < u64::from(*weight) {
            return *size;
        }
        rest -= u64::from(*weight);
    }
    MIN_SIZE
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: usize = MAX_DATAGRAM;

    fn size(padding: &Padding, len: usize, most: usize) -> usize {
        Padder::new(padding.bounded(), LinkRng::new(&[1; 32])).size(len, most)
    }

    #[test]
    fn a_padding_without_sizes_is_none() {
        assert_eq!(Padding::SizeClasses(Vec::new()).bounded(), Padding::None);
        assert_eq!(Padding::Statistical(vec![(500, 0)]).bounded(), Padding::None);
    }

    #[test]
    fn each_padding_uses_its_own_sizes() {
        use Padding::{Constant, PowerOfTwo, SizeClasses};
        let classes = SizeClasses(vec![128, 512]);
        for (padding, len, most, wanted) in [
            (&Padding::None, 28, 1_232, 28),
            (&PowerOfTwo, 28, 1_232, 64),
            (&PowerOfTwo, 64, 1_232, 64),
            (&PowerOfTwo, 65, 1_232, 128),
            (&PowerOfTwo, 1_024, 1_232, 1_024),
            (&PowerOfTwo, 1_025, 1_232, 1_232),
            (&PowerOfTwo, 40_000, ALL, ALL),
            (&classes, 28, 1_232, 128),
            (&classes, 128, 1_232, 128),
            (&classes, 129, 1_232, 512),
            (&classes, 513, 1_232, 1_232),
            (&Constant(1_000), 28, 1_232, 1_000),
            (&Constant(2_000), 28, 1_232, 1_232),
        ] {
            assert_eq!(size(padding, len, most), wanted, "{padding:?} {len} {most}");
        }
    }

    /// For every length and every padding: long enough, never above the path, and of an allowed size.
    #[test]
    fn sizes_hold_what_is_inside_and_fit_the_path() {
        let table = vec![(200, 3), (700, 1), (1_232, 2)];
        for padding in [
            Padding::PowerOfTwo,
            Padding::SizeClasses(vec![256, 1_024]),
            Padding::SizeClasses(vec![]),
            Padding::Constant(900),
            Padding::Statistical(table),
        ] {
            let mut padder = Padder::new(padding.bounded(), LinkRng::new(&[2; 32]));
            for len in 28..=1_232 {
                let size = padder.size(len, 1_232);
                assert!((len..=1_232).contains(&size), "{padding:?} {len}: {size}");
            }
        }
    }

    #[test]
    fn nonsense_is_bounded() {
        for padding in [
            Padding::SizeClasses(vec![0, usize::MAX, 5, 300]),
            Padding::Constant(0),
            Padding::Constant(usize::MAX),
            Padding::Statistical(vec![]),
            Padding::Statistical(vec![(0, 0), (usize::MAX, 0)]),
            Padding::Statistical(vec![(0, u32::MAX), (usize::MAX, u32::MAX)]),
        ] {
            let mut padder = Padder::new(padding.bounded(), LinkRng::new(&[3; 32]));
            for most in [1_200, 1_232, ALL] {
                for len in [28, 600, most] {
                    assert!((len..=most).contains(&padder.size(len, most)), "{padding:?}");
                }
                assert!(padder.limit(most) >= MIN_SIZE);
            }
        }
    }

    /// Chi-square over the sizes drawn, 4 degrees of freedom: 23.5 is passed once in 10,000 times.
    #[test]
    fn drawn_sizes_follow_their_weights() {
        let table = vec![(128, 1), (256, 2), (512, 3), (1_024, 4), (1_232, 10)];
        let mut padder = Padder::new(Padding::Statistical(table.clone()), LinkRng::new(&[4; 32]));
        let mut counts = vec![0u32; table.len()];
        let n = 20_000;
        for _ in 0..n {
            let size = padder.size(28, 1_232);
            counts[table.iter().position(|(s, _)| *s == size).unwrap()] += 1;
        }
        let chi: f64 = table
            .iter()
            .zip(&counts)
            .map(|((_, weight), count)| {
                let expected = f64::from(n) * f64::from(*weight) / 20.0;
                (f64::from(*count) - expected).powi(2) / expected
            })
            .sum();
        assert!(chi < 23.5, "{chi} {counts:?}");
    }
}
