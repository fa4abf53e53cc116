//! Codes: typed text, messages to either side of the exchange, datagrams of punching. Nothing panics, and a peer without the code gets
//! nothing, and does not count as served.
#![no_main]

use core::net::SocketAddr;
use core::time::Duration;

use libfuzzer_sys::fuzz_target;
use xylem_link::PeerKey;
use xylem_reach::code::{
    CodeEnd, CodeOffer, CodeOfferEvent, CodePunching, CodeRole, CodeTake, CodeTakeStep,
    MAX_PUNCHES, MAX_WRONG_GUESSES, PUNCH_LEN, SpokenCode, looks_like_code,
};

const US: PeerKey = PeerKey([1; 32]);

fuzz_target!(|data: &[u8]| {
    let Some((&op, rest)) = data.split_first() else { return };
    match op % 3 {
        // Datagrams of a peer without a token of ours prove nothing, and few are sent.
        _ if op >= 250 => {
            let at = SocketAddr::from(([203, 0, 113, 9], 7_348));
            let mut punching = CodePunching::new(CodeRole::Taker, 7, false, &[1; 32]);
            punching.add(Duration::ZERO, at, at);
            let mut sent = 0;
            for (second, datagram) in rest.chunks(PUNCH_LEN).enumerate() {
                let now = Duration::from_secs(second as u64);
                punching.handle_datagram(now, at, datagram);
                sent += core::iter::from_fn(|| punching.poll_transmit(now)).count();
            }
            assert_eq!(punching.poll_proven(), None);
            assert!(sent <= usize::from(MAX_PUNCHES));
        }
        0 => {
            let Ok(text) = core::str::from_utf8(rest) else { return };
            let _ = looks_like_code(text);
            if let Ok(code) = text.parse::<SpokenCode>() {
                assert_eq!(code.to_string().parse(), Ok(code));
            }
        }
        1 => {
            let (mut take, _) =
                CodeTake::new(&SpokenCode::draw(7, &[1; 32]), US, PeerKey([2; 32]), &[2; 32]);
            for piece in rest.chunks(usize::from(op) + 1) {
                match take.received(piece) {
                    Ok(CodeTakeStep::Text(_)) => panic!("nobody proved anything"),
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
        _ => {
            // Each step: stream, kind, and how many of the following bytes it takes.
            let mut offer: CodeOffer<u8> = CodeOffer::new(
                Duration::ZERO,
                SpokenCode::draw(7, &[1; 32]),
                "xylem:a".into(),
                US,
                &[2; 32],
            );
            let (mut now, mut rest, mut wrong) = (Duration::ZERO, rest, 0);
            while let [id, what, length, more @ ..] = rest {
                let (bytes, after) = more.split_at(more.len().min(usize::from(*length)));
                rest = after;
                now += Duration::from_millis(u64::from(*what) * 16);
                match what % 8 {
                    0 => offer.opened(now, *id, PeerKey([*id; 32])),
                    1 => offer.on_stream_gone(*id),
                    2 => offer.delivered(now, *id),
                    3 => offer.handle_timeout(now),
                    4 => {
                        // A try that ends with a wrong proof.
                        let key = PeerKey([*id; 32]);
                        offer.opened(now, *id, key);
                        let (mut take, hello) = CodeTake::new(
                            &SpokenCode::draw(7, &[*length; 32]),
                            key,
                            US,
                            &[*id; 32],
                        );
                        offer.received(now, *id, &hello);
                        let said = core::iter::from_fn(|| offer.poll_transmit()).last();
                        if let Some((_, answer)) = said
                            && let Ok(CodeTakeStep::Send(proof)) = take.received(&answer)
                        {
                            // The code itself does not count as a guess.
                            if *length != 1 {
                                offer.received(now, *id, &proof);
                            }
                        }
                    }
                    _ => drop(offer.received(now, *id, bytes)),
                }
                while offer.poll_transmit().is_some() {}
                while let Some(event) = offer.poll_event() {
                    wrong += u8::from(matches!(event, CodeOfferEvent::Wrong { .. }));
                    assert!(event != CodeOfferEvent::Ended(CodeEnd::Used));
                }
                assert!(wrong <= MAX_WRONG_GUESSES);
            }
        }
    }
});
