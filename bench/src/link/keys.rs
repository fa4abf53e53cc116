//! `keys`: the operations of handshakes, epochs and ratchets, against the plain libraries.

use std::hint::black_box;

use constant_time_eq::constant_time_eq_n;
use hkdf::Hkdf;
use sha2::Sha256;
use xylem_link::StaticKey;
use xylem_link_internals::internals::{
    ElligatorPairs, Select, derive, elligator_public_key, x25519, x25519_public_key,
};

use super::rows::{OURS, PLAIN, compared, heading, quoted};
use crate::Error;
use crate::input;
use crate::race::Contender;
use crate::report::Figure;
use crate::series::Series;

/// The document's BLAKE3 rows.
const BLAKE3: [(usize, f64); 5] =
    [(32, 49.407), (256, 183.59), (1_024, 707.63), (4_096, 1_361.0), (65_536, 12_864.0)];

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(heading(
        "keys",
        "keys and derivations",
        "operation",
        &[
            "X25519's plain library is curve25519-dalek 4, which snow comes with; BLAKE3's is the official \
             crate.",
            "The document's X25519 key generation draws bytes and computes no public key; its row stands \
             beside ours, which does. Its Noise key pair does compute one; the plain library there is snow.",
            "A key derivation of ours is one BLAKE3 derive_key of 32 bytes; it stands beside each part of \
             HKDF-SHA256, which it replaces.",
            "A selection of ours is one of two field elements of 40 bytes (fiat-crypto), the document's of \
             two numbers of 8; the plain library is subtle's, of 8 bytes.",
        ],
    ))?;
    curve(series)?;
    elligator(series)?;
    derivations(series)?;
    for (size, document) in BLAKE3 {
        let bytes = input::bytes(size);
        let mut contenders = [
            Contender::new(OURS, "BLAKE3", || *xylem_hash::hash(black_box(&bytes)).as_bytes()),
            Contender::new(PLAIN, "BLAKE3", || *blake3::hash(black_box(&bytes)).as_bytes()),
        ];
        let label = format!("BLAKE3 {}", input::size(size));
        series.row(label, size, &mut contenders, &compared(None), quoted(Some(document), None))?;
    }
    comparisons(series)
}

fn curve<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    use curve25519_dalek::MontgomeryPoint;
    let secret = [7; 32];
    let public = x25519_public_key(&[9; 32]);
    let mut contenders = [
        Contender::new(OURS, "public key", || x25519_public_key(black_box(&secret))),
        Contender::new(PLAIN, "public key", || {
            MontgomeryPoint::mul_base_clamped(black_box(secret)).to_bytes()
        }),
    ];
    row(series, "X25519 public key", &mut contenders, Some(238.58))?;
    let suite = || snow::Builder::new("Noise_XX_25519_ChaChaPoly_SHA256".parse().expect("known"));
    let mut contenders = [
        Contender::new(OURS, "key pair", || {
            black_box(StaticKey::generate(black_box(secret)));
            [1; 32]
        }),
        Contender::new(PLAIN, "key pair", || {
            black_box(suite().generate_keypair()).expect("there is randomness");
            [1; 32]
        }),
    ];
    row(series, "Noise key pair", &mut contenders, Some(13_169.0))?;
    let mut contenders = [
        Contender::new(OURS, "shared secret", || {
            *x25519(black_box(&secret), black_box(&public)).expect("not of low order")
        }),
        Contender::new(PLAIN, "shared secret", || {
            MontgomeryPoint(black_box(public)).mul_clamped(black_box(secret)).to_bytes()
        }),
    ];
    row(series, "X25519 shared secret", &mut contenders, Some(40_775.0))
}

fn elligator<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    let mut pairs = ElligatorPairs::new();
    let generate = Contender::new(OURS, "pair", || pairs.generate().1);
    row(series, "Elligator2 key pair", &mut [generate], Some(54_187.0))?;
    let mut pairs = ElligatorPairs::new();
    let both = Contender::new(OURS, "both", || {
        let (secret, representative) = pairs.generate();
        black_box(secret);
        representative
    });
    row(series, "Elligator2 key pair, as a struct", &mut [both], Some(54_061.0))?;
    let (secret, representative) = ElligatorPairs::new().generate();
    let decode =
        Contender::new(OURS, "decode", || elligator_public_key(black_box(&representative)));
    row(series, "Elligator2 public key", &mut [decode], Some(19_803.0))?;
    let random = input::bytes(32).try_into().expect("32 bytes");
    let decode = Contender::new(OURS, "decode random", || elligator_public_key(black_box(&random)));
    row(series, "Elligator2 of random bytes", &mut [decode], Some(19_830.0))?;
    let exchange = Contender::new(OURS, "exchange", || {
        let public = elligator_public_key(black_box(&representative));
        *x25519(black_box(&secret), &public).expect("not of low order")
    });
    row(series, "Elligator2 shared secret", &mut [exchange], Some(60_492.0))
}

fn derivations<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    let secret = [7; 32];
    let mut contenders = [
        Contender::new(OURS, "derive", || derive(black_box(&secret))),
        Contender::new(PLAIN, "derive_key", || {
            blake3::derive_key("xylem-link v5 next epoch", black_box(&secret))
        }),
    ];
    row(series, "derive a key", &mut contenders, Some(122.89))?;
    let salt = [1; 32];
    let extract = || Hkdf::<Sha256>::extract(Some(&salt), black_box(&secret)).0.into();
    let expand = |hkdf: &Hkdf<Sha256>| {
        let mut out = [0; 32];
        hkdf.expand(b"info", &mut out).expect("32 bytes are not too many");
        out
    };
    let ready = Hkdf::<Sha256>::new(Some(&salt), &secret);
    let ours = || Contender::new(OURS, "derive", || derive(black_box(&secret)));
    let mut contenders = [ours(), Contender::new(PLAIN, "extract", extract)];
    row(series, "derive a key, HKDF's extract", &mut contenders, Some(109.09))?;
    let mut contenders = [ours(), Contender::new(PLAIN, "expand", || expand(black_box(&ready)))];
    row(series, "derive a key, HKDF's expand", &mut contenders, Some(72.024))?;
    let full = || expand(&Hkdf::<Sha256>::new(Some(&salt), black_box(&secret)));
    let mut contenders = [ours(), Contender::new(PLAIN, "HKDF", full)];
    row(series, "derive a key, HKDF", &mut contenders, Some(181.90))
}

fn comparisons<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    use subtle::{ConditionallySelectable, ConstantTimeEq};
    let one = [7; 32];
    let rows = [("equal", one, 40.013), ("unequal", [8; 32], 40.059)];
    for (name, other, document) in rows {
        let answer = |equal: bool| [u8::from(equal); 32];
        let mut contenders = [
            Contender::new(OURS, "compare", || {
                answer(constant_time_eq_n(black_box(&one), black_box(&other)))
            }),
            Contender::new(PLAIN, "compare", || {
                answer(black_box(&one).ct_eq(black_box(&other)).into())
            }),
        ];
        let label = format!("compare 32 B, {name}");
        row(series, &label, &mut contenders, Some(document))?;
    }
    let (select, mut first) = (Select::new(&[7; 32], &[8; 32]), false);
    let mut other = false;
    let mut contenders = [
        Contender::new(OURS, "ours", || {
            first = !first;
            black_box(select.select(black_box(first)));
            [1; 32]
        }),
        Contender::new(PLAIN, "subtle", || {
            other = !other;
            let choice = subtle::Choice::from(u8::from(black_box(other)));
            black_box(u64::conditional_select(black_box(&7), black_box(&8), choice));
            [1; 32]
        }),
    ];
    row(series, "select one of two", &mut contenders, Some(2.521))
}

fn row<E>(
    series: &mut Series<'_, E>,
    label: &str,
    contenders: &mut [Contender<'_>],
    document: Option<f64>,
) -> Result<(), Error<E>> {
    let figures: Vec<Figure> = quoted(document, None);
    series.row(label.to_owned(), 32, contenders, &compared(None), figures)
}
