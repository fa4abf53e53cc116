//! Contents of packets: forms, bounds, and that a parsed packet is written the same.

use proptest::collection::vec;
use proptest::prelude::*;
use xylem_ndncert::packets::{
    CaInfo, ChallengeParameters, ChallengeProgress, ChallengeRequest, ChallengeResponse, Encrypted,
    ErrorMessage, FormatError, NewRequest, NewResponse, ProbeRequest, ProbeResponse,
};
use xylem_ndncert::{ErrorCode, RequestId, RequestStatus};
use xylem_packet::{Component, Name};

fn name() -> impl Strategy<Value = Name> {
    vec(vec(any::<u8>(), 0..5), 1..5)
        .prop_map(|parts| parts.iter().map(|part| Component::generic(part)).collect())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..300)
}

fn parameters() -> impl Strategy<Value = ChallengeParameters> {
    vec(("[a-z]{0,9}", bytes()), 0..9).prop_map(|pairs| {
        let mut parameters = ChallengeParameters::new();
        pairs.iter().for_each(|(key, value)| parameters.set(key, value));
        parameters
    })
}

fn status() -> impl Strategy<Value = RequestStatus> {
    (0..5u64).prop_map(|number| RequestStatus::of(number).unwrap())
}

fn point() -> impl Strategy<Value = [u8; 65]> {
    vec(any::<u8>(), 65).prop_map(|bytes| bytes.try_into().unwrap())
}

proptest! {
    #[test]
    fn infos_are_read_as_they_are_written(
        prefix in name(), text in ".{0,99}", probe_keys in vec("[a-z]{1,9}", 0..9),
        max_validity_s in any::<u64>(), certificate in bytes(),
    ) {
        let info = CaInfo { prefix, text, probe_keys, max_validity_s, certificate };
        prop_assert_eq!(CaInfo::decode(&info.encode()), Ok(info));
    }

    #[test]
    fn probes_are_read_as_they_are_written(
        parameters in parameters(), names in vec((name(), any::<Option<u64>>()), 0..9),
        redirects in vec(name(), 0..9),
    ) {
        let request = ProbeRequest { parameters };
        prop_assert_eq!(ProbeRequest::decode(&request.encode()), Ok(request));
        let response = ProbeResponse { names, redirects };
        prop_assert_eq!(ProbeResponse::decode(&response.encode()), Ok(response));
    }

    #[test]
    fn new_is_read_as_it_is_written(
        ecdh_pub in point(), certificate in bytes(), derivations in vec("[a-z0-9]{1,9}", 0..3),
        bindings in vec("[a-z0-9]{1,9}", 0..3),
        salt: [u8; 32], id: [u8; 8], challenges in vec("[a-z]{1,9}", 0..9),
    ) {
        let (derivation, binding) = (derivations.first().cloned(), bindings.first().cloned());
        let request = NewRequest { ecdh_pub, certificate, derivations, bindings };
        prop_assert_eq!(NewRequest::decode(&request.encode()), Ok(request));
        let response = NewResponse { ecdh_pub, salt, id: RequestId(id), challenges, derivation, binding };
        prop_assert_eq!(NewResponse::decode(&response.encode()), Ok(response));
    }

    #[test]
    fn challenges_are_read_as_they_are_written(
        challenge in "[a-z]{1,9}", given in parameters(), status in status(),
        progress in proptest::option::of(("[a-z-]{1,20}", any::<u64>(), any::<u64>())),
        issued in proptest::option::of(name()), forwarding_hint in vec(name(), 0..4),
    ) {
        let request = ChallengeRequest { challenge, parameters: given.clone() };
        prop_assert_eq!(ChallengeRequest::decode(&request.encode()), Ok(request));
        let progress = progress.map(|(word, tries, time_s)| ChallengeProgress { word, tries, time_s });
        let response = ChallengeResponse { status, progress, parameters: given, issued, forwarding_hint };
        prop_assert_eq!(ChallengeResponse::decode(&response.encode()), Ok(response));
    }

    #[test]
    fn encrypted_ones_and_errors_are_read_as_they_are_written(
        iv: [u8; 12], tag: [u8; 16], payload in bytes(), code: u64, info in ".{0,99}",
    ) {
        let encrypted = Encrypted { iv, tag, payload };
        prop_assert_eq!(Encrypted::decode(&encrypted.encode()), Ok(encrypted));
        let message = ErrorMessage { code: ErrorCode(code), info };
        prop_assert_eq!(ErrorMessage::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(input in vec(any::<u8>(), 0..99)) {
        let _ = (CaInfo::decode(&input), ProbeRequest::decode(&input), ProbeResponse::decode(&input));
        let _ = (NewRequest::decode(&input), NewResponse::decode(&input));
        let _ = (ChallengeRequest::decode(&input), ChallengeResponse::decode(&input));
        let _ = (Encrypted::decode(&input), ErrorMessage::decode(&input));
    }
}

/// Built by hand from the protocol's tables.
#[test]
fn numbers_are_those_of_the_protocol() {
    let message = ErrorMessage { code: ErrorCode::OUT_OF_TRIES, info: "no".into() };
    assert_eq!(message.encode(), [0xAB, 1, 7, 0xAD, 2, b'n', b'o']);
    let mut parameters = ChallengeParameters::of("code", b"12");
    parameters.set("a", b"");
    let request = ChallengeRequest { challenge: "pin".into(), parameters };
    let wire = b"\xA1\x03pin\x85\x04code\x87\x0212\x85\x01a\x87\x00";
    assert_eq!(request.encode(), wire);
    let progress = ChallengeProgress { word: "need-code".into(), tries: 3, time_s: 3600 };
    let response = ChallengeResponse {
        status: RequestStatus::Challenge,
        progress: Some(progress),
        parameters: ChallengeParameters::new(),
        issued: None,
        forwarding_hint: vec![],
    };
    assert_eq!(response.encode(), b"\x9B\x01\x01\xA3\x09need-code\xA5\x01\x03\xA7\x02\x0E\x10");
}

/// The C++ CA writes a hint with one empty name for no hint, and no digest.
#[test]
fn an_empty_forwarding_hint_is_none() {
    let wire = b"\x9B\x01\x03\xA9\x05\x07\x03\x08\x01a\x1E\x02\x07\x00";
    let response = ChallengeResponse::decode(wire).unwrap();
    assert_eq!((response.status, response.forwarding_hint.len()), (RequestStatus::Success, 0));
    assert_eq!(response.issued.unwrap().to_string(), "/a");
}

#[test]
fn unknown_elements_are_skipped_unless_critical() {
    let good = ErrorMessage { code: ErrorCode(1), info: "x".into() };
    let even = [&good.encode()[..], &[0xFD, 0xF6, 0x22, 1, 9]].concat();
    assert_eq!(ErrorMessage::decode(&even), Ok(good.clone()));
    let odd = [&good.encode()[..], &[0xC1, 0]].concat();
    assert_eq!(ErrorMessage::decode(&odd), Err(FormatError::UnknownCritical(0xC1)));
}

#[test]
fn repeated_missing_and_wrong_ones_are_refused() {
    use FormatError::{Missing, Repeated, TooMany, Value};
    for (wire, why) in [
        (&b"\xAB\x01\x07"[..], Missing(0xAD)),
        (b"\xAD\x00", Missing(0xAB)),
        (b"\xAB\x01\x07\xAB\x01\x07\xAD\x00", Repeated(0xAB)),
        (b"\xAB\x03\x07\x07\x07\xAD\x00", Value(0xAB)),
        (b"\xAB\x01\x07\xAD\x01\xFF", Value(0xAD)),
    ] {
        assert_eq!(ErrorMessage::decode(wire), Err(why));
    }
    for (wire, why) in [
        (&b"\xA1\x01p\x85\x01a"[..], Missing(0x87)),
        (b"\xA1\x01p\x87\x01a", Missing(0x85)),
        (b"\xA1\x01p\x85\x01a\x85\x01b", Missing(0x87)),
        (b"\xA1\x01p\x85\x01a\x87\x00\x85\x01a\x87\x00", Repeated(0x85)),
        (b"\x85\x01a\x87\x00", Missing(0xA1)),
    ] {
        assert_eq!(ChallengeRequest::decode(wire), Err(why));
    }
    let many: Vec<u8> = (0..17).flat_map(|n| [0x85, 1, b'a' + n, 0x87, 0]).collect();
    assert_eq!(ProbeRequest::decode(&many), Err(TooMany(0x87)));
    assert_eq!(
        ChallengeResponse::decode(b"\x9B\x01\x05"),
        Err(Value(0x9B)),
        "there are five states"
    );
}
