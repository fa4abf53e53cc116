//! Attacks of strangers on a CA.

mod common;

use std::sync::Arc;

use common::{
    ALWAYS, DAY_MS, NOW_MS, RawClient, TestCa, VALID, certified, config, done, error, key, name,
    new_with, refusal,
};
use xylem_ndncert::packets::{ChallengeParameters, NewRequest};
use xylem_ndncert::{
    Agreement, CaConfig, CaEvent, CaLimits, CertificateRequest, ChallengeChoice, ErrorCode,
    RequestState,
};
use xylem_packet::{Interest, InterestBuilder, tlv};
use xylem_trust::{Certificate, CommandStamp, Signer, ValidityPeriod, self_signed};

/// A NEW Interest for a certificate, signed by any key.
fn new(asked: Vec<u8>, by: &Signer, time_ms: u64) -> Vec<u8> {
    new_with(asked, by, time_ms, Agreement::new().unwrap().public(), vec![])
}

fn good_new(signer: &Signer) -> Vec<u8> {
    new(self_signed(signer, 1, VALID).unwrap(), signer, NOW_MS)
}

#[test]
fn wrong_codes_by_the_thousand_end_requests_and_issue_nothing() {
    let mut ca = TestCa::new();
    for attempt in 0..500u32 {
        // At the rate at which codes are given out: thirty a minute.
        let now_ms = NOW_MS + 2000 * u64::from(attempt);
        let mut request = ca.opened(key("/org/al", 1), now_ms);
        ca.choose(&mut request, ChallengeChoice::Pin, now_ms);
        for wrong in 0..3 {
            let RequestState::Code { tries, .. } = request.state() else { panic!("{request:?}") };
            assert_eq!(tries, 3 - wrong);
            ca.type_code(&mut request, &format!("{attempt:05}-{wrong:05}"), now_ms);
        }
        assert_eq!(refusal(&request), ErrorCode::OUT_OF_TRIES);
    }
    assert_eq!(ca.issued(), 0);
    assert!(ca.authority.open_requests() <= 4, "of one key");
}

fn code(code: &str) -> ChallengeParameters {
    ChallengeParameters::of("code", code.as_bytes())
}

/// After the last try even the right code is too late.
#[test]
fn a_request_that_is_over_takes_no_code() {
    let mut ca = TestCa::new();
    let mut raw = RawClient::open(&mut ca, key("/org/al", 1));
    assert_eq!(raw.say(&mut ca, "pin", ChallengeParameters::new()).unwrap(), "need-code");
    assert_eq!(raw.say(&mut ca, "pin", ChallengeParameters::new()).unwrap(), "wrong-code");
    assert_eq!(raw.say(&mut ca, "pin", code("")).unwrap(), "wrong-code");
    assert_eq!(raw.say(&mut ca, "pin", code("00000-00000")), Err(ErrorCode::OUT_OF_TRIES));
    for _ in 0..1000 {
        let right = code(&ca.code());
        assert_eq!(raw.say(&mut ca, "pin", right), Err(ErrorCode::OUT_OF_TRIES));
    }
    assert_eq!(ca.issued(), 0);
}

/// Useless choices are counted, so that a client can't ask the policy about every name and address. A challenge that
/// was begun can't be replaced by another.
#[test]
fn one_challenge_a_request_and_few_choices() {
    let mut ca = TestCa::new();
    let mut raw = RawClient::open(&mut ca, key("/org/al@x.org", 1));
    let email = |address: &str| ChallengeParameters::of("email", address.as_bytes());
    for _ in 0..2 {
        let not_allowed = raw.say(&mut ca, "email", email("eve@x.org"));
        assert_eq!(not_allowed, Err(ErrorCode::NAME_NOT_ALLOWED));
    }
    assert_eq!(raw.say(&mut ca, "email", email("")), Err(ErrorCode::INVALID_PARAMETER));
    let fourth = raw.say(&mut ca, "email", email("al@x.org"));
    assert_eq!((fourth, ca.events.len()), (Err(ErrorCode::OUT_OF_TRIES), 0));

    let mut raw = RawClient::open(&mut ca, key("/org/al@x.org", 1));
    assert_eq!(
        raw.say(&mut ca, "nop", ChallengeParameters::new()),
        Err(ErrorCode::INVALID_PARAMETER)
    );
    assert_eq!(raw.say(&mut ca, "pin", ChallengeParameters::new()).unwrap(), "need-code");
    for other in ["email", "possession", "nop"] {
        let refused = raw.say(&mut ca, other, email("al@x.org"));
        assert_eq!(refused, Err(ErrorCode::INVALID_PARAMETER), "{other}");
    }
    assert_eq!(ca.events.len(), 1, "one code");
    let right = code(&ca.code());
    assert_eq!(raw.say(&mut ca, "pin", right).unwrap(), "done");
    let right = code(&ca.code());
    assert_eq!(raw.say(&mut ca, "pin", right), Err(ErrorCode::INVALID_PARAMETER), "once");
    assert_eq!(ca.issued(), 1);
}

/// The code of one request is not valid for another request of the same key.
#[test]
fn a_code_is_good_for_one_request() {
    let mut ca = TestCa::new();
    let mut first = RawClient::open(&mut ca, key("/org/al", 1));
    first.say(&mut ca, "pin", ChallengeParameters::new()).unwrap();
    let of_first = code(&ca.code());
    let mut second = RawClient::open(&mut ca, key("/org/eve", 1));
    second.say(&mut ca, "pin", ChallengeParameters::new()).unwrap();
    assert_eq!(second.say(&mut ca, "pin", of_first.clone()).unwrap(), "wrong-code");
    assert_eq!(first.say(&mut ca, "pin", of_first).unwrap(), "done");
}

#[test]
fn replayed_challenges_change_nothing() {
    let mut ca = TestCa::new();
    let mut request = ca.opened(key("/org/al", 1), NOW_MS);
    let begun = ca.choose(&mut request, ChallengeChoice::Pin, NOW_MS);
    let guessed = ca.type_code(&mut request, "00000-00000", NOW_MS);
    let events = ca.events.len();
    // The last Interest gets the very same answer again; earlier ones are refused. A thousand times.
    let answer = ca.ask(&guessed[0], NOW_MS).unwrap();
    for _ in 0..1000 {
        assert_eq!(ca.ask(&guessed[0], NOW_MS).unwrap(), answer);
        assert_eq!(error(ca.ask(&begun[0], NOW_MS)), ErrorCode::BAD_PARAMETER_FORMAT);
    }
    assert_eq!(ca.events.len(), events, "no other code");
    let RequestState::Code { tries: 2, .. } = request.state() else { panic!("{request:?}") };
    let code = ca.code();
    let sent = ca.type_code(&mut request, &code, NOW_MS);
    done(&request);
    for _ in 0..10 {
        assert!(ca.ask(&sent[0], NOW_MS).is_some(), "the answer may have been lost");
    }
    assert_eq!(ca.issued(), 1);
    // After the request has been dropped, recorded Interests are useless.
    let later = NOW_MS + 61_000;
    assert_eq!(error(ca.ask(&sent[0], later)), ErrorCode::INVALID_PARAMETER);
    assert_eq!(ca.issued(), 1);
}

#[test]
fn a_replayed_new_opens_no_request_later() {
    let mut ca = TestCa::new();
    let wire = good_new(&key("/org/al", 1));
    let answer = ca.ask(&wire, NOW_MS).unwrap();
    assert_eq!(ca.ask(&wire, NOW_MS + 1000).unwrap(), answer, "the same request");
    assert_eq!(ca.authority.open_requests(), 1);
    assert_eq!(error(ca.ask(&wire, NOW_MS + 400_000)), ErrorCode::BAD_VALIDITY_PERIOD);
    assert_eq!(ca.authority.open_requests(), 0);
    let signer = key("/org/al", 1);
    let wire = new(self_signed(&signer, 1, VALID).unwrap(), &signer, NOW_MS - 200_000);
    assert_eq!(error(ca.ask(&wire, NOW_MS)), ErrorCode::BAD_SIGNATURE);
}

/// A stranger without the key sends bytes of its own to a request that it has seen the name of.
#[test]
fn a_stranger_ends_no_request() {
    let mut ca = TestCa::new();
    let mut request = ca.opened(key("/org/al", 1), NOW_MS);
    let sent = ca.choose(&mut request, ChallengeChoice::Pin, NOW_MS);
    let seen = Interest::decode(&sent[0]).unwrap();
    let parameters = seen.app_parameters().unwrap();
    for stranger in [key("/org/al", 2), key("/org/eve", 1), Signer::digest_sha256()] {
        for bytes in [parameters, b"", b"\x9D\x00"] {
            let mut wire = Vec::new();
            let name = seen.name().parent();
            let stamp = CommandStamp::new([2; 8], NOW_MS);
            stranger.interest(InterestBuilder::new(name), bytes, stamp, &mut wire).unwrap();
            assert_eq!(error(ca.ask(&wire, NOW_MS)), ErrorCode::BAD_SIGNATURE);
        }
    }
    // Without any signature.
    let mut wire = Vec::new();
    let builder = InterestBuilder::new(seen.name().parent());
    builder.encode_with_parameters(&mut wire, parameters).unwrap();
    assert_eq!(error(ca.ask(&wire, NOW_MS)), ErrorCode::BAD_SIGNATURE);
    let code = ca.code();
    ca.type_code(&mut request, &code, NOW_MS);
    done(&request);
}

#[test]
fn floods_of_requests_stay_within_bounds() {
    let limits = CaLimits { open: 64, per_key: 2, ..CaLimits::default() };
    let mut ca = TestCa::of(CaConfig { limits, ..config() });
    for round in 0..3u8 {
        for number in 0..=255 {
            let identity = format!("/org/{}", round.to_string().repeat(200));
            assert!(ca.ask(&good_new(&key(&identity, number)), NOW_MS).is_some());
            assert!(ca.authority.open_requests() <= 64);
            assert!(ca.authority.memory() <= 64 * 8192, "{}", ca.authority.memory());
        }
    }
    assert_eq!(ca.authority.open_requests(), 64);
    // The newest two requests of one key stay.
    let mut ca = TestCa::of(CaConfig { limits, ..config() });
    let signer = key("/org/al", 1);
    let first = good_new(&signer);
    let answer = ca.ask(&first, NOW_MS).unwrap();
    for _ in 0..100 {
        ca.ask(&good_new(&signer), NOW_MS).unwrap();
    }
    assert_eq!(ca.authority.open_requests(), 2);
    assert_ne!(ca.ask(&first, NOW_MS).unwrap(), answer, "forgotten, and begun again");
}

/// A flood of new requests does not displace those that have begun a challenge.
#[test]
fn a_flood_leaves_challenges_that_go_on() {
    let limits = CaLimits { open: 16, ..CaLimits::default() };
    let mut ca = TestCa::of(CaConfig { limits, ..config() });
    let mut request = ca.opened(key("/org/al", 1), NOW_MS);
    ca.choose(&mut request, ChallengeChoice::Pin, NOW_MS);
    let code = ca.code();
    for number in 0..200 {
        ca.ask(&good_new(&key("/org/eve", number)), NOW_MS);
    }
    ca.type_code(&mut request, &code, NOW_MS);
    done(&request);
    assert!(ca.authority.open_requests() <= 16);
}

#[test]
fn requests_expire() {
    let mut ca = TestCa::new();
    // Nothing is chosen within five minutes.
    let mut request = ca.opened(key("/org/al", 1), NOW_MS);
    ca.choose(&mut request, ChallengeChoice::Pin, NOW_MS + 300_000);
    assert_eq!(refusal(&request), ErrorCode::OUT_OF_TIME);
    ca.profile();
    assert_eq!(ca.authority.open_requests(), 1, "who comes too late is told so");
    ca.ask(&good_new(&key("/other/al", 1)), NOW_MS + 360_000);
    assert_eq!(ca.authority.open_requests(), 0);
    for (choice, time_ms) in
        [(ChallengeChoice::Pin, 3_600_000), (ChallengeChoice::Email("al@x.org".into()), 300_000)]
    {
        let mut request = ca.opened(key("/org/al@x.org", 1), NOW_MS);
        ca.choose(&mut request, choice, NOW_MS);
        let code = ca.code();
        ca.type_code(&mut request, "0", NOW_MS + time_ms - 1);
        assert!(matches!(request.state(), RequestState::Code { wrong: true, .. }));
        ca.type_code(&mut request, &code, NOW_MS + time_ms);
        assert_eq!(refusal(&request), ErrorCode::OUT_OF_TIME);
    }
    assert_eq!(ca.issued(), 0);
}

#[test]
fn forbidden_requests_are_refused() {
    let mut ca = TestCa::of(CaConfig { max_suffix: Some(2), ..config() });
    let al = key("/org/al", 1);
    let asked = |signer: &Signer| self_signed(signer, 1, VALID).unwrap();
    let valid = |from: u64, to: u64| {
        let validity = ValidityPeriod { not_before_ms: from, not_after_ms: to };
        self_signed(&al, 1, validity).unwrap()
    };
    let of = |identity: &str| {
        let signer = key(identity, 1);
        new(asked(&signer), &signer, NOW_MS)
    };
    let bad_point = new_with(asked(&al), &al, NOW_MS, [4; 65], vec![]);
    let long = format!("/org/{}", "x".repeat(1200));
    for (what, wire, code) in [
        ("the CA's own name", of("/org"), ErrorCode::NAME_NOT_ALLOWED),
        ("another's name", of("/other/al"), ErrorCode::NAME_NOT_ALLOWED),
        ("a name too far below", of("/org/a/b/c"), ErrorCode::NAME_NOT_ALLOWED),
        ("a name too long", of(&long), ErrorCode::NAME_NOT_ALLOWED),
        (
            "longer than the CA gives",
            new(valid(NOW_MS, NOW_MS + 31 * DAY_MS), &al, NOW_MS),
            ErrorCode::BAD_VALIDITY_PERIOD,
        ),
        (
            "from before",
            new(valid(NOW_MS - DAY_MS, NOW_MS + DAY_MS), &al, NOW_MS),
            ErrorCode::BAD_VALIDITY_PERIOD,
        ),
        (
            "another's certificate",
            new(asked(&al), &key("/org/eve", 1), NOW_MS),
            ErrorCode::BAD_SIGNATURE,
        ),
        (
            "another's key under our name",
            new(certified(&al, &key("/org/al", 2), VALID), &al, NOW_MS),
            ErrorCode::BAD_SIGNATURE,
        ),
        (
            "a request that another has signed",
            new(certified(&key("/org/eve", 1), &al, VALID), &al, NOW_MS),
            ErrorCode::BAD_SIGNATURE,
        ),
        ("no point", bad_point, ErrorCode::INVALID_PARAMETER),
        ("no certificate", new(b"x".to_vec(), &al, NOW_MS), ErrorCode::BAD_PARAMETER_FORMAT),
    ] {
        assert_eq!(error(ca.ask(&wire, NOW_MS)), code, "{what}");
        assert_eq!(ca.authority.open_requests(), 0);
    }
}

/// A request for the longest validity that the grace permits, or for longer than the CA's own, gets what the CA may
/// give.
#[test]
fn certificates_end_with_that_of_the_ca() {
    let own = ValidityPeriod { not_before_ms: NOW_MS, not_after_ms: NOW_MS + DAY_MS };
    let asked = ValidityPeriod {
        not_before_ms: NOW_MS - 60_000,
        not_after_ms: NOW_MS + 30 * DAY_MS + 60_000,
    };
    for (own, from, to) in [
        (ALWAYS, asked.not_before_ms, NOW_MS + 30 * DAY_MS),
        (own, own.not_before_ms, own.not_after_ms),
    ] {
        let signer = key("/org", 0);
        let certificate = common::certificate_of(&signer, own);
        let policy = Box::<xylem_ndncert::StandardPolicy>::default();
        let authority = xylem_ndncert::CertificateAuthority::new(
            config(),
            signer,
            &certificate,
            policy,
            NOW_MS,
        )
        .unwrap();
        let mut ca = TestCa { authority, events: vec![], rng: xylem_sim::Rng::new(1) };
        let mut raw = RawClient::open_for(&mut ca, key("/org/al", 1), asked, vec![]);
        raw.say(&mut ca, "pin", ChallengeParameters::new()).unwrap();
        let right = code(&ca.code());
        assert_eq!(raw.say(&mut ca, "pin", right).unwrap(), "done");
        let Some(CaEvent::Issued { certificate, .. }) = ca.events.last() else { panic!() };
        let validity = Certificate::decode(certificate).unwrap().validity();
        assert_eq!((validity.not_before_ms, validity.not_after_ms), (from, to));
    }
}

/// The CA's certificate may sign names that a trust schema permits, and no others.
#[test]
fn a_schema_decides_about_names() {
    let schema = r#"
        #key: "KEY"/_/_/_
        #root: "org"/#key
        #desk: "org"/person/"desk"/#key <= #root
        #other: "org"/person/"phone"/#key <= #desk
    "#;
    let signer = key("/org", 0);
    let own = common::certificate_of(&signer, ALWAYS);
    let schema = Arc::new(xylem_trust::schema::Schema::compile(schema).unwrap());
    let policy = xylem_ndncert::StandardPolicy::new(schema, common::believing());
    let authority =
        xylem_ndncert::CertificateAuthority::new(config(), signer, &own, Box::new(policy), NOW_MS)
            .unwrap();
    let mut ca = TestCa { authority, events: vec![], rng: xylem_sim::Rng::new(1) };
    for refused in ["/org/al/phone", "/org/al", "/org/al/desk/drawer"] {
        let answer = ca.ask(&good_new(&key(refused, 1)), NOW_MS);
        assert_eq!(error(answer), ErrorCode::NAME_NOT_ALLOWED, "{refused}");
    }
    ca.opened(key("/org/al/desk", 1), NOW_MS);
}

#[test]
fn an_address_gives_no_other_name_and_is_not_flooded() {
    let mut ca = TestCa::new();
    let mut request = ca.opened(key("/org/bob@x.org", 1), NOW_MS);
    ca.choose(&mut request, ChallengeChoice::Email("eve@x.org".into()), NOW_MS);
    assert_eq!(refusal(&request), ErrorCode::NAME_NOT_ALLOWED);
    let mut request = ca.opened(key("/org/al@x.org", 1), NOW_MS);
    ca.choose(&mut request, ChallengeChoice::Email("al@x.org\r\nBcc: all@x.org".into()), NOW_MS);
    assert_eq!(refusal(&request), ErrorCode::INVALID_PARAMETER);
    let mut refused = 0;
    for number in 0..200 {
        let mut request = ca.opened(key("/org/al@x.org", number), NOW_MS);
        ca.choose(&mut request, ChallengeChoice::Email("al@x.org".into()), NOW_MS);
        refused += usize::from(matches!(request.state(), RequestState::Failed(_)));
    }
    assert_eq!((ca.events.len(), refused), (3, 197), "three emails in an hour");
    for number in 0..200 {
        let mut request = ca.opened(key(&format!("/org/u{number}@x.org"), 1), NOW_MS + 1);
        ca.choose(&mut request, ChallengeChoice::Email(format!("u{number}@x.org")), NOW_MS + 1);
    }
    assert_eq!(ca.events.len(), 100, "a hundred in all");
    let later = NOW_MS + 3_600_001;
    let mut request = ca.opened(key("/org/al@x.org", 1), later);
    ca.choose(&mut request, ChallengeChoice::Email("al@x.org".into()), later);
    assert_eq!(ca.events.len(), 101);
}

/// Most mail servers deliver mail for `al+anything` to al.
#[test]
fn tags_of_an_address_do_not_fill_its_mailbox() {
    let mut ca = TestCa::new();
    for number in 0..50 {
        let address = format!("al+{number}@x.org");
        let mut request = ca.opened(key(&format!("/org/{address}"), 1), NOW_MS);
        ca.choose(&mut request, ChallengeChoice::Email(address), NOW_MS);
    }
    assert_eq!(ca.events.len(), 3, "three emails in an hour to one mailbox");
}

/// The operator's screen shows thirty codes a minute, however many are requested; shown codes stay valid.
#[test]
fn the_operator_is_shown_few_codes() {
    let mut ca = TestCa::new();
    let mut honest = ca.opened(key("/org/al", 1), NOW_MS);
    ca.choose(&mut honest, ChallengeChoice::Pin, NOW_MS);
    let code = ca.code();
    for number in 0..1000 {
        let mut request = ca.opened(key(&format!("/org/eve{number}"), 1), NOW_MS);
        ca.choose(&mut request, ChallengeChoice::Pin, NOW_MS);
    }
    assert_eq!(ca.events.len(), 30);
    ca.type_code(&mut honest, &code, NOW_MS);
    done(&honest);
    let later = NOW_MS + 60_000;
    let mut request = ca.opened(key("/org/bob", 1), later);
    ca.choose(&mut request, ChallengeChoice::Pin, later);
    assert!(matches!(request.state(), RequestState::Code { .. }), "{:?}", request.state());
}

#[test]
fn certificates_that_prove_nothing_are_refused() {
    let (ca_key, al, eve) = (key("/org", 0), key("/org/al", 5), key("/org/eve", 5));
    let over = ValidityPeriod { not_before_ms: 0, not_after_ms: NOW_MS - DAY_MS };
    for (what, certificate, signer, code) in [
        (
            "another's name",
            certified(&ca_key, &eve, ALWAYS),
            key("/org/eve", 5),
            ErrorCode::NAME_NOT_ALLOWED,
        ),
        (
            "nobody's signature",
            certified(&eve, &al, ALWAYS),
            key("/org/al", 5),
            ErrorCode::NAME_NOT_ALLOWED,
        ),
        ("over", certified(&ca_key, &al, over), key("/org/al", 5), ErrorCode::NAME_NOT_ALLOWED),
        (
            "no key of it",
            certified(&ca_key, &al, ALWAYS),
            key("/org/eve", 5),
            ErrorCode::INVALID_PARAMETER,
        ),
        ("none", b"certificate".to_vec(), key("/org/al", 5), ErrorCode::INVALID_PARAMETER),
    ] {
        let mut ca = TestCa::new();
        let mut request = ca.opened(key("/org/al/phone", 1), NOW_MS);
        ca.choose(
            &mut request,
            ChallengeChoice::Possession { certificate, signer: Box::new(signer) },
            NOW_MS,
        );
        assert_eq!(refusal(&request), code, "{what}");
        assert_eq!(ca.issued(), 0);
    }
}

/// An attacker that removes the extension from a NEW, to force the other key derivation, breaks the signature.
#[test]
fn the_key_derivation_cannot_be_downgraded() {
    let mut ca = TestCa::new();
    let mut request: CertificateRequest = ca.request(key("/org/al", 1), NOW_MS);
    let wire = request.poll_transmit(NOW_MS, [1; 4]).unwrap();
    let interest = Interest::decode(&wire).unwrap();
    let signature = interest.signature().unwrap();
    let new = NewRequest::decode(interest.app_parameters().unwrap()).unwrap();
    assert_eq!(new.derivations, ["blake3"]);
    let without = NewRequest { derivations: vec![], ..new };
    let mut stripped = Vec::new();
    let builder = InterestBuilder::new(interest.name().parent());
    builder
        .encode_signed(&mut stripped, &without.encode(), &signature.info, |_, out| {
            out.extend_from_slice(signature.value);
        })
        .unwrap();
    assert_eq!(error(ca.ask(&stripped, NOW_MS)), ErrorCode::BAD_SIGNATURE);
}

#[test]
fn any_input_is_answered_or_ignored_without_panic() {
    let mut ca = TestCa::new();
    let mut request = ca.opened(key("/org/al", 1), NOW_MS);
    let mut genuine = vec![good_new(&key("/org/al", 2))];
    genuine.extend(ca.choose(&mut request, ChallengeChoice::Pin, NOW_MS));
    let mut rng = xylem_sim::Rng::new(5);
    for wire in &genuine {
        for _ in 0..20_000 {
            let mut bad = wire.clone();
            for _ in 0..=rng.below(3) {
                let at = rng.index(bad.len());
                bad[at] = rng.next_u64() as u8;
            }
            bad.truncate(bad.len() - rng.index(3));
            let _ = ca.ask(&bad, NOW_MS);
        }
    }
    // Unsigned parameters of every small form.
    for typ in 0x80..0xB8u32 {
        for at in [
            "/org/CA/NEW",
            "/org/CA/PROBE",
            "/org/CA/CHALLENGE/12345678",
            "/org/CA/REVOKE",
            "/org/CA",
        ] {
            let (mut content, mut wire) = (Vec::new(), Vec::new());
            tlv::write_element(&mut content, typ, b"\x07\x00");
            let name = name(at);
            InterestBuilder::new(name.as_ref())
                .encode_with_parameters(&mut wire, &content)
                .unwrap();
            error(ca.ask(&wire, NOW_MS));
        }
    }
    assert!(ca.authority.open_requests() <= 5);
}
