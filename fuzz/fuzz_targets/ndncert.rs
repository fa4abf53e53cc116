//! NDNCERT: a parsed packet is written and parsed again the same. A CA and a client with any input, signed by the right
//! key or by none, stay within their bounds, issue nothing and accept nothing.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use xylem_ndncert::packets::{
    CaInfo, ChallengeRequest, ChallengeResponse, Encrypted, ErrorMessage, NewRequest, NewResponse,
    ProbeRequest, ProbeResponse,
};
use xylem_ndncert::{
    Agreement, CaConfig, CaEvent, CaLimits, CaProfile, CertificateAuthority, CertificateRequest,
    ChallengeChoice, ChallengeKind, Derivation, Lookup, ProfileTrust, Proof, RequestId,
    RequestSession, RequestState, StandardPolicy,
};
use xylem_packet::{Component, Data, DataBuilder, Interest, InterestBuilder, Name};
use xylem_trust::{
    Certificate, CommandStamp, HierarchyRules, Signer, TrustStore, ValidityPeriod, self_signed,
};

const NOW_MS: u64 = 1_700_000_000_000;
const VALID: ValidityPeriod =
    ValidityPeriod { not_before_ms: NOW_MS, not_after_ms: NOW_MS + 86_400_000 };

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn ca_key() -> Signer {
    Signer::ed25519(&[1; 32], name("/org/KEY/1"))
}

fn client_key() -> Signer {
    Signer::ed25519(&[2; 32], name("/org/al/KEY/2"))
}

static OWN: LazyLock<Vec<u8>> = LazyLock::new(|| self_signed(&ca_key(), 1, VALID).unwrap());

fn authority() -> CertificateAuthority {
    let mut believed = TrustStore::new();
    believed.add_anchor(&Certificate::decode(&OWN).unwrap()).unwrap();
    let limits = CaLimits { open: 4, per_key: 2, ..CaLimits::default() };
    let prefix = name("/org");
    let config =
        CaConfig { challenges: ChallengeKind::ALL.to_vec(), limits, ..CaConfig::new(prefix) };
    let policy = Box::new(StandardPolicy::new(Arc::new(HierarchyRules), believed));
    CertificateAuthority::new(config, ca_key(), &OWN, policy, NOW_MS).unwrap()
}

fn profile(ca: &mut CertificateAuthority) -> CaProfile {
    let mut lookup = Lookup::new(name("/org"));
    while let Some(interest) = lookup.poll_transmit(NOW_MS, [0; 4]) {
        lookup.receive(&ca.interest(&interest, NOW_MS, [3; 32]).data.unwrap());
    }
    lookup.take().unwrap().unwrap()
}

fn interest(signer: &Signer, name: &Name, parameters: &[u8]) -> Option<Vec<u8>> {
    let (mut wire, stamp) = (Vec::new(), CommandStamp::new([1; 8], NOW_MS));
    signer.interest(InterestBuilder::new(name.as_ref()), parameters, stamp, &mut wire).ok()?;
    Some(wire)
}

/// Any input, from a client with the key to be certified.
fn to_the_ca(input: &[u8]) {
    let mut ca = authority();
    let agreement = Agreement::new().unwrap();
    let new = NewRequest {
        ecdh_pub: agreement.public(),
        certificate: self_signed(&client_key(), 1, VALID).unwrap(),
        derivations: vec![Derivation::BLAKE3.into()],
        bindings: vec![Proof::BOUND.into()],
    };
    let wire = interest(&client_key(), &name("/org/CA/NEW"), &new.encode()).unwrap();
    let answer = ca.interest(&wire, NOW_MS, [4; 32]).data.unwrap();
    let response = NewResponse::decode(Data::decode(&answer).unwrap().content()).unwrap();
    let mut session = agreement
        .agree(&response.ecdh_pub, Derivation::Blake3, &response.salt, response.id, [5; 8])
        .unwrap();
    let at = name("/org/CA/CHALLENGE").child(Component::generic(&response.id.0));
    for (number, said) in input.chunks(64).take(8).enumerate() {
        let sealed = session.seal(said).unwrap().encode();
        let sealed = if number % 4 == 3 { said } else { &sealed };
        let Some(wire) = interest(&client_key(), &at, sealed) else { return };
        let answer = ca.interest(&wire, NOW_MS, [number as u8; 32]);
        assert!(answer.data.is_some());
        let proven = matches!(answer.event, Some(CaEvent::Issued { .. }));
        assert!(!proven, "nobody knows 50 random bits, or the CA's key");
    }
    for (at, by) in [("/org/CA/NEW", client_key()), ("/org/CA/PROBE", Signer::digest_sha256())] {
        let Some(wire) = interest(&by, &name(at), input) else { return };
        assert!(ca.interest(&wire, NOW_MS, [6; 32]).data.is_some());
    }
    let _ = ca.interest(input, NOW_MS, [7; 32]);
    assert!(ca.open_requests() <= 4 && ca.memory() <= 4 * 16_384);
}

/// Any input, from the CA.
fn to_the_client(first: u8, input: &[u8]) {
    let mut ca = authority();
    let found = profile(&mut ca);
    let believe = ProfileTrust::Digest(found.digest());
    let mut request =
        CertificateRequest::new(found, believe, client_key(), u64::MAX, NOW_MS, [8; 32]).unwrap();
    for said in input.chunks(128).take(8) {
        if let RequestState::Choose(_) = request.state() {
            let choice = if first & 16 == 0 {
                ChallengeChoice::Pin
            } else {
                ChallengeChoice::Email("al@x.org".into())
            };
            if request.choose(choice, NOW_MS, [9; 32]).is_err() {
                return;
            }
        }
        if let RequestState::Code { .. } = request.state() {
            request.code("1", NOW_MS, [10; 32]).unwrap();
        }
        let Some(wire) = request.poll_transmit(NOW_MS, [0; 4]) else { return };
        let asked = Interest::decode(&wire).unwrap();
        let genuine = ca.interest(&wire, NOW_MS, [11; 32]).data;
        let mut lie = Vec::new();
        if ca_key().data(DataBuilder::new(asked.name()), said, &mut lie).is_err() {
            return;
        }
        let answer = if first & 8 == 0 { genuine.unwrap_or(lie) } else { lie };
        request.receive(said, NOW_MS, [12; 32]);
        request.receive(&answer, NOW_MS, [12; 32]);
        assert!(!matches!(request.state(), RequestState::Done(_)));
    }
}

macro_rules! same {
    ($type:ty, $input:expr) => {
        if let Ok(read) = <$type>::decode($input) {
            assert_eq!(<$type>::decode(&read.encode()), Ok(read));
        }
    };
}

fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else { return };
    // Most inputs go to cheap checks: a signature takes as long as a thousand of them.
    match first % 8 {
        0..=4 => {
            same!(CaInfo, rest);
            same!(ProbeRequest, rest);
            same!(ProbeResponse, rest);
            same!(NewRequest, rest);
            same!(NewResponse, rest);
            same!(ChallengeRequest, rest);
            same!(ChallengeResponse, rest);
            same!(Encrypted, rest);
            same!(ErrorMessage, rest);
            let _ = CaProfile::decode(rest);
        }
        5 => to_the_ca(rest),
        6 => to_the_client(first, rest),
        _ => {
            if let Ok(sealed) = Encrypted::decode(rest) {
                let mut session = RequestSession::new(&[0; 16], RequestId([0; 8]), [1; 8]);
                if session.open(&sealed).is_ok() {
                    assert!(session.open(&sealed).is_err(), "once");
                }
            }
        }
    }
});
