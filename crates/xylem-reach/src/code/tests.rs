//! Tests of codes as people type them, and of the exchange under virtual time with honest and dishonest peers.

use core::time::Duration;

use mnemonic::MN_WORDS;
use proptest::prelude::*;
use xylem_link::PeerKey;

use super::*;

const TEXT: &str = "xylem:what-is-handed-over";
const OURS: PeerKey = PeerKey([1; 32]);
const THEIRS: PeerKey = PeerKey([2; 32]);
const AT: Duration = Duration::from_secs(1_000);

fn code(number: u32) -> SpokenCode {
    SpokenCode::draw(number, &[9; 32])
}

fn offer() -> CodeOffer<u32> {
    CodeOffer::new(AT, code(7), TEXT.into(), OURS, &[3; 32])
}

fn events(offer: &mut CodeOffer<u32>) -> Vec<CodeOfferEvent> {
    core::iter::from_fn(|| offer.poll_event()).collect()
}

/// The offer's answer to these bytes.
fn say(offer: &mut CodeOffer<u32>, now: Duration, id: u32, bytes: &[u8]) -> Option<Vec<u8>> {
    offer.received(now, id, bytes).then_some(())?;
    let mut said = Vec::new();
    while let Some((to, bytes)) = offer.poll_transmit() {
        // Other streams get a refusal because they were displaced.
        if to == id {
            said.extend(bytes);
        }
    }
    Some(said)
}

/// Runs a whole try. `taker` is the taker's key as both sides see it.
fn attempt(
    offer: &mut CodeOffer<u32>,
    now: Duration,
    id: u32,
    typed: &SpokenCode,
    taker: PeerKey,
) -> Result<String, TakeError> {
    offer.opened(now, id, taker);
    let (mut take, mut out) = CodeTake::new(typed, taker, OURS, &[id as u8; 32]);
    loop {
        let said = say(offer, now, id, &out).ok_or(TakeError::Broken)?;
        match take.received(&said)? {
            CodeTakeStep::Send(bytes) => out = bytes,
            CodeTakeStep::Text(text) => return Ok(text),
            CodeTakeStep::Wait => panic!("everything has arrived"),
        }
    }
}

#[test]
fn codes_parse_as_people_type_them() {
    let code = code(7);
    let shown = code.to_string();
    let [number, words @ ..] = &shown.split('-').collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((*number, words.len()), ("7", 3));
    let [a, b, c] = words else { panic!() };
    for typed in [
        shown.clone(),
        shown.to_uppercase(),
        format!("  {shown}\n"),
        format!("\"{shown}\""),
        format!("7 {a} {b} {c}"),
        format!("7{a}{b}{c}"),
        format!("7-{a}{b}-{c}"),
        format!("007–{a}—{b} - {c}."),
        format!("7, {a}, {b}, {c}"),
    ] {
        assert_eq!(typed.parse(), Ok(code.clone()), "{typed}");
        assert!(looks_like_code(&typed), "{typed}");
    }
}

#[test]
fn parse_errors_are_one_line() {
    let line = |text: &str| text.parse::<SpokenCode>().unwrap_err().to_string();
    for text in ["", "7", "alpha-cobra-violin", "7-alpha-cobra", "7-alpha-cobra-violin-salt", "7-"]
    {
        assert_eq!(text.parse::<SpokenCode>(), Err(CodeError::Shape), "{text}");
        assert!(line(text).contains("7-alpha-cobra-violin"));
    }
    assert!("9999999-alpha-cobra-violin".parse::<SpokenCode>().is_ok());
    assert_eq!("10000000-alpha-cobra-violin".parse::<SpokenCode>(), Err(CodeError::Number));
    assert!(
        line("7-alhpa-cobra-violin")
            .contains("\"alhpa\" is not a word of codes; the nearest is alpha")
    );
    assert!(line("7-alpha-kobra-violin").contains("nearest is cobra"));
    assert!(
        line("7-alpha-cobra-violine")
            .contains("\"violine\" is not a word of codes; the nearest is violin")
    );
    for long in
        ["7".repeat(300), format!("7-{}", "z".repeat(250)), format!("7-{}", "é".repeat(120))]
    {
        assert!(line(&long).len() < 200, "{long}");
    }
}

#[test]
fn tickets_names_and_addresses_are_not_codes() {
    for text in [
        "xylem:abc",
        "@ticket.txt",
        "@7-a-b",
        "/7/alpha",
        "./7-alpha-cobra",
        "127.0.0.1:7348",
        "b3:12ab",
        "-",
        "",
        "7",
        "7348",
        "9f3a66",
        "192.0.2.7:80",
        "ann",
        "ndn:/7/alpha",
    ] {
        assert!(!looks_like_code(text), "{text}");
    }
    for text in ["7-alpha", "7 alpha cobra", "12-alhpa-x-y", "7alphacobra"] {
        assert!(looks_like_code(text), "{text}");
    }
}

/// This makes codes without hyphens readable.
#[test]
fn no_word_begins_another_and_all_are_lower_case_letters() {
    let words: Vec<&str> =
        MN_WORDS[..1_626].iter().map(|word| core::str::from_utf8(word).unwrap()).collect();
    for (at, word) in words.iter().enumerate() {
        assert!(word.bytes().all(|b| b.is_ascii_lowercase()) && (4..=7).contains(&word.len()));
        let others = words.iter().enumerate().filter(|(other, _)| *other != at);
        assert!(others.clone().all(|(_, other)| !other.starts_with(word)), "{word}");
    }
}

#[test]
fn words_are_drawn_evenly_and_debug_keeps_them() {
    let mut seen = std::collections::HashSet::new();
    for n in 0..2_000_u32 {
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&n.to_be_bytes());
        seen.insert(SpokenCode::draw(1, &seed).to_string());
        assert!((10_000..=99_999).contains(&SpokenCode::draw_number(&seed)));
    }
    assert_eq!(seen.len(), 2_000);
    assert_eq!(format!("{:?}", code(7)), "Code(7-..)");
    assert_ne!(knock(7), knock(8));
}

#[test]
fn the_right_code_gets_the_text_once() {
    let mut offer = offer();
    assert_eq!(attempt(&mut offer, AT, 1, &code(7), THEIRS).as_deref(), Ok(TEXT));
    assert_eq!(events(&mut offer), []);
    offer.delivered(AT, 1);
    assert_eq!(events(&mut offer), [CodeOfferEvent::Ended(CodeEnd::Used)]);
    let late = attempt(&mut offer, AT, 2, &code(7), THEIRS);
    assert_eq!(late, Err(TakeError::Over(CodeEnd::Used)));
}

#[test]
fn a_text_that_did_not_arrive_can_be_taken_again() {
    let mut offer = offer();
    assert!(attempt(&mut offer, AT, 1, &code(7), THEIRS).is_ok());
    // Another taker waits until it is known whether the first one got the text.
    assert_eq!(attempt(&mut offer, AT, 2, &code(7), PeerKey([5; 32])), Err(TakeError::Busy));
    offer.on_stream_gone(1);
    assert!(attempt(&mut offer, AT, 3, &code(7), THEIRS).is_ok());
    assert_eq!(events(&mut offer), []);
}

#[test]
fn the_third_wrong_guess_ends_the_code() {
    let mut offer = offer();
    for left in [2, 1, 0] {
        let wrong = SpokenCode::draw(7, &[left; 32]);
        let told = attempt(&mut offer, AT, u32::from(left), &wrong, THEIRS);
        assert_eq!(told, Err(TakeError::Wrong));
        assert_eq!(events(&mut offer)[0], CodeOfferEvent::Wrong { left });
    }
    assert_eq!(offer.over(), Some(CodeEnd::Guessed));
    let late = attempt(&mut offer, AT, 9, &code(7), THEIRS);
    assert_eq!(late, Err(TakeError::Over(CodeEnd::Guessed)));
}

/// Each of them is answered before the first proof arrives.
#[test]
fn concurrent_guesses_are_limited_to_three() {
    let mut offer = offer();
    let mut takers = Vec::new();
    for id in 0..32 {
        let (typed, key) = (SpokenCode::draw(7, &[id as u8; 32]), PeerKey([id as u8 + 10; 32]));
        offer.opened(AT, id, key);
        let (mut take, hello) = CodeTake::new(&typed, key, OURS, &[id as u8; 32]);
        let answer = say(&mut offer, AT, id, &hello).unwrap();
        let Ok(CodeTakeStep::Send(proof)) = take.received(&answer) else { panic!() };
        takers.push((id, take, proof));
    }
    let mut told = Vec::new();
    for (id, mut take, proof) in takers {
        let answer = say(&mut offer, AT, id, &proof).unwrap();
        told.push(take.received(&answer).unwrap_err());
    }
    assert_eq!(told[..3], [TakeError::Wrong, TakeError::Wrong, TakeError::Wrong]);
    assert!(told[3..].iter().all(|why| *why == TakeError::Over(CodeEnd::Guessed)));
    let wrong = events(&mut offer);
    assert_eq!(wrong.len(), 4, "three guesses and the end: {wrong:?}");
}

/// A taker that has not sent a proof has used no guess and learned nothing.
#[test]
fn stopping_before_the_proof_costs_no_guess() {
    let mut offer = offer();
    for id in 0..20 {
        offer.opened(AT, id, PeerKey([id as u8; 32]));
        let (_, hello) = CodeTake::new(&code(7), PeerKey([id as u8; 32]), OURS, &[1; 32]);
        assert!(say(&mut offer, AT, id, &hello).is_some());
        offer.on_stream_gone(id);
    }
    assert_eq!(events(&mut offer), []);
    assert!(attempt(&mut offer, AT, 99, &code(7), THEIRS).is_ok());
}

/// An attacker with a link to each side forwards all messages. The code is right, but the keys of the links' ends
/// differ.
#[test]
fn a_man_in_the_middle_gets_only_a_wrong_guess() {
    let mut offer = offer();
    let relay = PeerKey([66; 32]);
    offer.opened(AT, 1, relay);
    let (mut take, hello) = CodeTake::new(&code(7), THEIRS, relay, &[1; 32]);
    let answer = say(&mut offer, AT, 1, &hello).unwrap();
    let Ok(CodeTakeStep::Send(proof)) = take.received(&answer) else { panic!() };
    let refused = say(&mut offer, AT, 1, &proof).unwrap();
    assert_eq!(take.received(&refused), Err(TakeError::Wrong));
    assert_eq!(events(&mut offer), [CodeOfferEvent::Wrong { left: 2 }]);
}

/// A relay that answers a taker itself has one guess, and the taker then sends nothing more.
#[test]
fn an_answerer_without_the_code_learns_nothing() {
    let relay = PeerKey([66; 32]);
    let mut guessing: CodeOffer<u32> =
        CodeOffer::new(AT, SpokenCode::draw(7, &[1; 32]), "xylem:evil".into(), relay, &[1; 32]);
    guessing.opened(AT, 1, THEIRS);
    let (mut take, hello) = CodeTake::new(&code(7), THEIRS, relay, &[1; 32]);
    let answer = say(&mut guessing, AT, 1, &hello).unwrap();
    let Ok(CodeTakeStep::Send(_)) = take.received(&answer) else { panic!() };
    // It cannot compute a proof, so it sends arbitrary bytes.
    let handed = message::CodeMessage::Handed([7; 32], vec![0; 40]).encode();
    assert_eq!(take.received(&handed), Err(TakeError::Wrong));
    assert_eq!(take.received(&handed), Err(TakeError::Broken), "one guess a try");
}

#[test]
fn a_code_lives_ten_minutes() {
    let end = AT + LIFETIME;
    let mut offer = offer();
    assert_eq!(offer.poll_timeout(), Some(end));
    offer.handle_timeout(end - Duration::from_millis(1));
    assert_eq!(events(&mut offer), []);
    offer.handle_timeout(end);
    assert_eq!(events(&mut offer), [CodeOfferEvent::Ended(CodeEnd::Expired)]);
    let late = attempt(&mut offer, end, 1, &code(7), THEIRS);
    assert_eq!(late, Err(TakeError::Over(CodeEnd::Expired)));
    // A taker with the right code comes some minutes late.
    let late = attempt(
        &mut offer,
        end + LIFETIME - Duration::from_millis(1),
        2,
        &code(7),
        PeerKey([5; 32]),
    );
    assert_eq!(late, Err(TakeError::Over(CodeEnd::Expired)));
    let forget = offer.poll_timeout().unwrap();
    offer.handle_timeout(forget);
    assert_eq!(events(&mut offer), [CodeOfferEvent::Forget]);
    assert_eq!(offer.poll_timeout(), None);
}

#[test]
fn a_handover_under_way_at_expiry_completes() {
    let end = AT + LIFETIME;
    let mut offer = offer();
    assert!(attempt(&mut offer, end - Duration::from_secs(1), 1, &code(7), THEIRS).is_ok());
    offer.handle_timeout(end);
    assert_eq!(events(&mut offer), []);
    offer.delivered(end, 1);
    assert_eq!(events(&mut offer), [CodeOfferEvent::Ended(CodeEnd::Used)]);
}

/// Memory and computation stay bounded with thousands of streams, and a taker that waits a moment still succeeds.
#[test]
fn a_flood_of_tries_is_bounded() {
    let mut offer = offer();
    let mut answered = 0;
    for id in 0..5_000_u32 {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&id.to_be_bytes());
        offer.opened(AT, id, PeerKey(key));
        let (_, hello) = CodeTake::new(&code(7), PeerKey(key), OURS, &[1; 32]);
        let said = say(&mut offer, AT, id, &hello).unwrap();
        answered += u32::from(said.len() > 10);
    }
    assert_eq!(answered, 64, "the others are told to come later");
    assert!(offer.tries.len() <= 32, "{}", offer.tries.len());
    assert_eq!(attempt(&mut offer, AT, 9_999, &code(7), THEIRS), Err(TakeError::Busy));
    let later = AT + Duration::from_secs(1);
    assert!(attempt(&mut offer, later, 10_000, &code(7), THEIRS).is_ok());
}

/// Peers that open streams and stay silent do not keep others out.
#[test]
fn silent_tries_are_displaced() {
    let mut offer = offer();
    for id in 0..100_u32 {
        offer.opened(AT, id, PeerKey([id as u8 + 3; 32]));
    }
    let told = core::iter::from_fn(|| offer.poll_transmit()).map(|(id, _)| id);
    assert!(told.eq(0..68), "the oldest give way, and are told");
    assert!(attempt(&mut offer, AT, 1_000, &code(7), THEIRS).is_ok());
    offer.opened(AT, 1_001, PeerKey([200; 32]));
    offer.handle_timeout(AT + Duration::from_secs(20));
    assert!(offer.tries.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(16), ..ProptestConfig::default() })]

    #[test]
    fn every_code_parses_as_displayed(number in 0..10_000_000_u32, seed: [u8; 32], gaps in "[ \\-_.,]{0,3}") {
        let code = SpokenCode::draw(number, &seed);
        prop_assert_eq!(code.to_string().parse(), Ok(code.clone()));
        prop_assert_eq!(code.to_string().replace('-', &gaps).parse(), Ok(code));
    }

    /// One letter changed, inserted, left out or exchanged gives another code, or an error with a nearest word of the
    /// list.
    #[test]
    fn one_typing_error_is_detected(seed: [u8; 32], which in 0..3_usize, at in 0..4_usize, how in 0..4, letter in "[a-z]") {
        let code = SpokenCode::draw(7, &seed);
        let shown = code.to_string();
        let mut parts: Vec<String> = shown.split('-').map(str::to_owned).collect();
        let right = parts[which + 1].clone();
        let word = &mut parts[which + 1];
        match how {
            0 => word.replace_range(at..=at, &letter),
            1 => word.insert_str(at, &letter),
            2 => drop(word.remove(at)),
            _ => {
                let first = word.remove(at.min(word.len() - 2));
                word.insert(at.min(word.len() - 1) + 1 - usize::from(at + 1 > word.len()), first);
            }
        }
        match parts.join("-").parse::<SpokenCode>() {
            Ok(_) | Err(CodeError::Shape) => {}
            Err(CodeError::Word { word, nearest }) => {
                prop_assert!(!nearest.is_empty() && nearest.len() <= 3);
                prop_assert!(parts.iter().any(|part| part.ends_with(&word)), "{word} of {right}");
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn any_text_parses_or_is_refused(text in "\\PC{0,80}") {
        if let Ok(code) = text.parse::<SpokenCode>() {
            prop_assert_eq!(code.to_string().parse(), Ok(code));
        }
        let _ = looks_like_code(&text);
    }

    /// Streams may be cut anywhere.
    #[test]
    fn any_cut_of_the_stream_gives_the_same_result(cut in 1..50_usize) {
        let mut offer = offer();
        offer.opened(AT, 1, THEIRS);
        let (mut take, mut out) = CodeTake::new(&code(7), THEIRS, OURS, &[1; 32]);
        let text = 'done: loop {
            let mut said = Vec::new();
            for piece in out.chunks(cut) {
                said.extend(say(&mut offer, AT, 1, piece).unwrap());
            }
            for piece in said.chunks(cut) {
                match take.received(piece).unwrap() {
                    CodeTakeStep::Wait => {}
                    CodeTakeStep::Send(bytes) => out = bytes,
                    CodeTakeStep::Text(text) => break 'done text,
                }
            }
        };
        prop_assert_eq!(text, TEXT);
    }

    /// Every bit of every message counts, on either side. Nothing is handed over after a change.
    #[test]
    fn every_flipped_bit_ends_the_exchange(step in 0..4_usize, place: prop::sample::Index, bit in 0..8) {
        let mut offer = offer();
        offer.opened(AT, 1, THEIRS);
        let (mut take, mut out) = CodeTake::new(&code(7), THEIRS, OURS, &[1; 32]);
        let mut number = 0;
        let mut change = |bytes: &mut Vec<u8>| {
            if number == step {
                let at = place.index(bytes.len());
                bytes[at] ^= 1_u8 << bit;
            }
            number += 1;
        };
        let got = loop {
            change(&mut out);
            let Some(mut said) = say(&mut offer, AT, 1, &out).filter(|said| !said.is_empty()) else {
                break None;
            };
            change(&mut said);
            match take.received(&said) {
                Ok(CodeTakeStep::Send(bytes)) => out = bytes,
                Ok(CodeTakeStep::Text(text)) => break Some(text),
                Ok(CodeTakeStep::Wait) | Err(_) => break None,
            }
        };
        prop_assert_eq!(got, None);
    }
}
