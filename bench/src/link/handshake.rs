//! `handshake`: Noise XX, both sides, against snow with its default resolver on the same messages.

use std::hint::black_box;

use snow::Builder;
use xylem_link_internals::internals::Handshakes;

use super::rows::{DOCUMENT, OURS, PLAIN, TARGET, compared, heading, quoted};
use crate::Error;
use crate::race::Contender;
use crate::report::{Heading, Unit};
use crate::series::Series;

const SUITE: &str = "Noise_XX_25519_ChaChaPoly_SHA256";

/// Makes the table.
pub(super) fn run<E>(series: &mut Series<'_, E>) -> Result<(), Error<E>> {
    series.heading(Heading {
        unit: Unit::Microseconds,
        figures: [OURS, PLAIN, DOCUMENT, TARGET].map(String::from).into(),
        ..heading(
            "handshake",
            "Noise XX, three messages, both sides",
            "handshake",
            &[
                "The plain library is snow with its default resolver (curve25519-dalek, RustCrypto), the \
                 same pattern.",
                "Ours uses Elligator2 ephemeral keys made ahead, as an endpoint does while idle; the last \
                 row but one makes them as it goes.",
                "The hybrid row includes ML-KEM-768: key, encapsulation, decapsulation.",
            ],
        )
    })?;
    let rows = [
        ("XX", false, true, Some(0.6), Some(345.17), Some(200.0)),
        ("XX with ML-KEM-768", true, true, Some(1.2), None, None),
        ("XX, ephemerals not made ahead", false, false, None, None, None),
    ];
    for (label, hybrid, ahead, wanted, document, goal) in rows {
        let mut ours = Handshakes::new();
        if ahead {
            ours.make_ahead(64);
        }
        let private = [1, 2].map(|n| [n; 32]);
        let mut contenders = [
            Contender::new(OURS, "ours", || {
                black_box(ours.run(hybrid));
                [1; 32]
            }),
            Contender::new(PLAIN, "snow", || {
                black_box(plain(&private));
                [1; 32]
            }),
        ];
        let quoted = quoted(document, goal);
        series.row(label.into(), 0, &mut contenders, &compared(wanted), quoted)?;
    }
    let mut ours = Handshakes::new();
    ours.make_ahead(64);
    let mut contenders = [
        Contender::new(OURS, "ours", || {
            black_box(ours.first_message());
            [1; 32]
        }),
        Contender::new(PLAIN, "snow", || {
            let mut state = builder(&[1; 32]).build_initiator().expect("a known suite");
            let mut message = [0; 64];
            black_box(state.write_message(&[], &mut message)).expect("there is room");
            [1; 32]
        }),
    ];
    let quoted = quoted(Some(26.740), None);
    series.row("first message".into(), 0, &mut contenders, &compared(None), quoted)
}

fn builder(private: &[u8; 32]) -> Builder<'_> {
    let builder = Builder::new(SUITE.parse().expect("a known suite"));
    builder.local_private_key(private).expect("set once")
}

fn plain(private: &[[u8; 32]; 2]) -> Vec<u8> {
    const AGREE: &str = "both sides are snow";
    let mut i = builder(&private[0]).build_initiator().expect(AGREE);
    let mut r = builder(&private[1]).build_responder().expect(AGREE);
    let (mut message, mut payload) = ([0; 256], [0; 256]);
    for n in 0..3 {
        let (from, to) = if n % 2 == 0 { (&mut i, &mut r) } else { (&mut r, &mut i) };
        let len = from.write_message(&[], &mut message).expect(AGREE);
        to.read_message(&message[..len], &mut payload).expect(AGREE);
    }
    i.get_handshake_hash().to_vec()
}
