//! The one function that `core` lacks.

/// Cube root of `x` ≥ 0, to about 12 digits; 0 for anything else.
pub(crate) fn cbrt(x: f64) -> f64 {
    if x.partial_cmp(&0.0) != Some(core::cmp::Ordering::Greater) || x.is_infinite() {
        return 0.0;
    }
    // A third of the exponent, taken from the bits, is accurate to 6 %; Halley's step cubes the error.
    let mut y = f64::from_bits(x.to_bits() / 3 + 0x2a9f_7893_0000_0000);
    for _ in 0..3 {
        let cube = y * y * y;
        y *= (cube + 2.0 * x) / (2.0 * cube + x);
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_standard_library() {
        let mut x = 1e-9;
        while x < 1e18 {
            let (ours, theirs) = (cbrt(x), f64::cbrt(x));
            assert!((ours / theirs - 1.0).abs() < 1e-11, "{x}: {ours} {theirs}");
            x *= 1.37;
        }
        assert_eq!([cbrt(0.0), cbrt(-1.0), cbrt(f64::NAN), cbrt(f64::INFINITY)], [0.0; 4]);
    }
}
