//! The two sides against each other.

mod common;

use common::{
    ALWAYS, DAY_MS, NOW_MS, Network, RawClient, TestCa, VALID, certificate_of, certified, config,
    done, key, name, p256,
};
use xylem_ndncert::packets::{
    ChallengeParameters, ChallengeProgress, ChallengeRequest, ChallengeResponse, Encrypted,
    NewRequest, NewResponse,
};
use xylem_ndncert::{
    Agreement, AuthorityError, CaConfig, CaEvent, CaProfile, CertificateAuthority,
    CertificateRequest, ChallengeChoice, ChallengeKind, Derivation, ErrorCode, Lookup,
    ProfileTrust, Proof, RequestError, RequestId, RequestSession, RequestState, RequestStatus,
    StandardPolicy,
};
use xylem_packet::{Component, Data, DataBuilder, Interest, InterestBuilder, NameRef};
use xylem_trust::{Certificate, Issue, Signer, TrustStore, ValidityPeriod, Verifier};

/// Whether a certificate is of this key, signed by the CA, and under its name.
fn check(certificate: &[u8], of: &Signer) {
    let certificate = Certificate::decode(certificate).unwrap();
    assert_eq!(Some(certificate.public_key().clone()), of.public());
    assert_eq!(Some(certificate.key_name()), xylem_trust::key_name_of(of.key_locator().unwrap()));
    Verifier::of(&key("/org", 0).public().unwrap()).unwrap().data(certificate.data()).unwrap();
    common::believing().data(certificate.data(), NOW_MS).unwrap();
}

#[test]
fn a_code_of_the_operator_gives_a_certificate() {
    for blake3 in [false, true] {
        let mut ca = TestCa::of(CaConfig { blake3, ..config() });
        let mut request = ca.opened(key("/org/al", 1), NOW_MS);
        let RequestState::Choose(offered) = request.state() else { unreachable!() };
        assert_eq!(offered, ["pin", "email", "possession"]);
        ca.choose(&mut request, ChallengeChoice::Pin, NOW_MS);
        let until_ms = NOW_MS + 3_600_000;
        assert_eq!(request.state(), RequestState::Code { wrong: false, tries: 3, until_ms });
        ca.type_code(&mut request, "00000-00000", NOW_MS + 1000);
        let until_ms = NOW_MS + 3_600_000;
        assert_eq!(request.state(), RequestState::Code { wrong: true, tries: 2, until_ms });
        let code = ca.code().to_lowercase();
        ca.type_code(&mut request, &code, NOW_MS + 2000);
        check(&done(&request), &key("/org/al", 1));
        let derivation = if blake3 { Derivation::Blake3 } else { Derivation::HkdfSha256 };
        assert_eq!(request.derivation(), derivation);
        let Some(CaEvent::Issued { by: ChallengeKind::Pin, certificate, .. }) = ca.events.last()
        else {
            panic!("{:?}", ca.events)
        };
        assert_eq!(*certificate, done(&request));
    }
}

#[test]
fn a_code_in_an_email_gives_the_name_of_the_address() {
    let mut ca = TestCa::new();
    let mut request = ca.opened(p256("/org/com/example/_user/al"), NOW_MS);
    ca.choose(&mut request, ChallengeChoice::Email("Al@Example.com".into()), NOW_MS);
    let Some(CaEvent::Email { address, key_name, .. }) = ca.events.last() else { panic!() };
    assert_eq!(address, "al@example.com");
    assert_eq!(key_name.to_string(), "/org/com/example/_user/al/KEY/p");
    let code = ca.code();
    ca.type_code(&mut request, &code, NOW_MS);
    let certificate = done(&request);
    assert_eq!(
        Certificate::decode(&certificate).unwrap().key_name(),
        key_name_of("/org/com/example/_user/al")
    );
}

fn key_name_of(identity: &str) -> xylem_packet::Name {
    name(identity).child(common::KEY).child(xylem_packet::Component::generic(b"p"))
}

#[test]
fn a_certificate_that_is_believed_gives_another() {
    for old in [key("/org/al", 1), p256("/org/al")] {
        let certificate = certified(&key("/org", 0), &old, ALWAYS);
        let mut ca = TestCa::new();
        let mut request = ca.opened(key("/org/al/phone", 2), NOW_MS);
        ca.choose(
            &mut request,
            ChallengeChoice::Possession { certificate, signer: Box::new(old) },
            NOW_MS,
        );
        check(&done(&request), &key("/org/al/phone", 2));
    }
}

/// Packets are lost, damaged, doubled and overtaken by others. A repeated Interest gets the same answer again, and no
/// certificate is issued twice.
#[test]
fn requests_end_well_on_a_bad_network() {
    let network = Network { loss: 0.2, twice: 0.2, damage: 0.05, delay_ms: 3000 };
    for seed in 0..60 {
        let mut ca = TestCa::new();
        let identity = "/org/al@x.org";
        let choose = || match seed % 3 {
            0 => ChallengeChoice::Pin,
            1 => ChallengeChoice::Email("al@x.org".into()),
            _ => {
                let signer = Box::new(key("/org/al@x.org", 9));
                let certificate = certified(&key("/org", 0), &signer, ALWAYS);
                ChallengeChoice::Possession { certificate, signer }
            }
        };
        let certificate = network.run(&mut ca, key(identity, 1), choose, seed);
        check(&certificate, &key(identity, 1));
        assert_eq!(ca.issued(), 1, "seed {seed}");
        let codes = ca.events.len() - 1;
        assert_eq!(codes, usize::from(seed % 3 != 2), "seed {seed}: no code twice");
    }
}

#[test]
fn without_an_answer_a_request_ends() {
    let mut ca = TestCa::new();
    let mut request = ca.request(key("/org/al", 1), NOW_MS);
    let mut now_ms = NOW_MS;
    let mut sent = 0;
    while !matches!(request.state(), RequestState::Failed(_)) {
        sent += usize::from(request.poll_transmit(now_ms, [2; 4]).is_some());
        now_ms = request.next_timer().unwrap_or(now_ms);
    }
    assert_eq!((sent, now_ms), (10, NOW_MS + 20_000));
    assert_eq!(request.state(), RequestState::Failed(&RequestError::Silent("NEW")));
    let mut lookup = Lookup::new(name("/nobody"));
    while let Some(at) = lookup.next_timer() {
        lookup.poll_transmit(at, [0; 4]);
    }
    assert_eq!(lookup.take().unwrap().unwrap_err(), RequestError::Silent("INFO"));
}

#[test]
fn validity_is_bounded_by_the_ca() {
    let own = ValidityPeriod { not_before_ms: 0, not_after_ms: NOW_MS + 3 * DAY_MS };
    for (own, max_validity_ms, not_after_ms, expected) in [
        (ALWAYS, 10 * DAY_MS, u64::MAX, NOW_MS + 10 * DAY_MS),
        (ALWAYS, 10 * DAY_MS, NOW_MS + DAY_MS, NOW_MS + DAY_MS),
        (own, 10 * DAY_MS, u64::MAX, NOW_MS + 3 * DAY_MS),
    ] {
        let signer = key("/org", 0);
        let certificate = certificate_of(&signer, own);
        let config = CaConfig { max_validity_ms, ..config() };
        let authority = CertificateAuthority::new(
            config,
            signer,
            &certificate,
            Box::<StandardPolicy>::default(),
            NOW_MS,
        )
        .unwrap();
        let mut ca = TestCa { authority, events: vec![], rng: xylem_sim::Rng::new(1) };
        let profile = ca.profile();
        let believe = ProfileTrust::Digest(Data::decode(&certificate).unwrap().implicit_digest());
        let signer = key("/org/al", 1);
        let mut request =
            CertificateRequest::new(profile, believe, signer, not_after_ms, NOW_MS, [1; 32])
                .unwrap();
        ca.run(&mut request, NOW_MS);
        ca.choose(&mut request, ChallengeChoice::Pin, NOW_MS);
        let code = ca.code();
        ca.type_code(&mut request, &code, NOW_MS);
        let issued = done(&request);
        let validity = Certificate::decode(&issued).unwrap().validity();
        assert_eq!((validity.not_before_ms, validity.not_after_ms), (NOW_MS, expected));
    }
}

#[test]
fn a_ca_is_believed_by_anchors_or_by_its_digest() {
    let mut ca = TestCa::new();
    let digest = ca.profile().digest();
    let (empty, signer) = (TrustStore::new(), || key("/org/al", 1));
    for (believe, now_ms, good) in [
        (ProfileTrust::Digest(digest), NOW_MS, true),
        (ProfileTrust::Digest([0; 32]), NOW_MS, false),
        (ProfileTrust::Store(&common::believing()), NOW_MS, true),
        (ProfileTrust::Store(&empty), NOW_MS, false),
        (ProfileTrust::Digest(digest), ALWAYS.not_after_ms + 1000, false),
    ] {
        let request =
            CertificateRequest::new(ca.profile(), believe, signer(), u64::MAX, now_ms, [1; 32]);
        assert_eq!(request.is_ok(), good);
        if let Err(why) = request {
            assert_eq!(why, RequestError::NotBelieved);
        }
    }
    let believe = ProfileTrust::Digest(digest);
    for (signer, name) in [(key("/other/al", 1), "/other/al"), (key("/org", 1), "/org")] {
        let request =
            CertificateRequest::new(ca.profile(), believe, signer, u64::MAX, NOW_MS, [1; 32]);
        assert_eq!(
            request.unwrap_err(),
            RequestError::Name(common::name(name), common::name("/org"))
        );
    }
}

/// Only the CA answers: a packet that another key signed, or one for another Interest, is no answer and ends no
/// request.
#[test]
fn a_packet_not_signed_by_the_ca_is_no_answer() {
    let mut ca = TestCa::new();
    let mut request = ca.request(key("/org/al", 1), NOW_MS);
    let interest = request.poll_transmit(NOW_MS, [1; 4]).unwrap();
    let asked = xylem_packet::Interest::decode(&interest).unwrap();
    let genuine = ca.ask(&interest, NOW_MS).unwrap();
    let content = Data::decode(&genuine).unwrap();
    let forge = |signer: &Signer, name| {
        let mut wire = Vec::new();
        signer.data(DataBuilder::new(name), content.content(), &mut wire).unwrap();
        wire
    };
    for forged in [
        forge(&key("/org", 7), asked.name()),
        forge(&key("/org/al", 1), asked.name()),
        forge(&Signer::digest_sha256(), asked.name()),
        forge(&key("/org", 0), asked.name().parent()),
        b"\x06\x00".to_vec(),
    ] {
        assert!(!request.receive(&forged, NOW_MS, [1; 32]));
        assert_eq!(request.state(), RequestState::Waiting);
    }
    assert!(request.receive(&genuine, NOW_MS, [1; 32]));
    assert!(!request.receive(&genuine, NOW_MS, [1; 32]), "once");
    assert!(matches!(request.state(), RequestState::Choose(_)));
}

/// A CA that lies: it signs whatever the test wants.
struct LyingCa {
    signer: Signer,
    session: Option<RequestSession>,
}

impl LyingCa {
    /// A request that this CA answers, up to the choice of a challenge, unless `new` makes its answer to NEW a lie.
    fn begin(new: impl FnOnce(&mut NewResponse)) -> (Self, CertificateRequest) {
        let mut liar = LyingCa { signer: key("/org", 0), session: None };
        let mut request = TestCa::new().request(key("/org/al", 1), NOW_MS);
        let interest = request.poll_transmit(NOW_MS, [1; 4]).unwrap();
        let interest = Interest::decode(&interest).unwrap();
        let asked = NewRequest::decode(interest.app_parameters().unwrap()).unwrap();
        let (agreement, id) = (Agreement::new().unwrap(), RequestId([6; 8]));
        let mut response = NewResponse {
            ecdh_pub: agreement.public(),
            salt: [5; 32],
            id,
            challenges: vec!["nop".into(), "Possession".into(), "pin".into()],
            derivation: None,
            binding: None,
        };
        new(&mut response);
        let hkdf = Derivation::HkdfSha256;
        liar.session = Some(agreement.agree(&asked.ecdh_pub, hkdf, &[5; 32], id, [4; 8]).unwrap());
        let wire = liar.sign(interest.name(), &response.encode());
        assert!(request.receive(&wire, NOW_MS, [1; 32]));
        (liar, request)
    }

    fn sign(&self, name: NameRef<'_>, content: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        self.signer.data(DataBuilder::new(name), content, &mut wire).unwrap();
        wire
    }

    /// Answers a challenge; returns the parameters that the client sent.
    fn challenge(
        &mut self,
        request: &mut CertificateRequest,
        response: &ChallengeResponse,
    ) -> ChallengeRequest {
        let interest = request.poll_transmit(NOW_MS, [1; 4]).unwrap();
        let interest = Interest::decode(&interest).unwrap();
        let session = self.session.as_mut().unwrap();
        let sealed = Encrypted::decode(interest.app_parameters().unwrap()).unwrap();
        let said = ChallengeRequest::decode(&session.open(&sealed).unwrap()).unwrap();
        let content = session.seal(&response.encode()).unwrap().encode();
        let wire = self.sign(interest.name(), &content);
        assert!(request.receive(&wire, NOW_MS, [2; 32]));
        said
    }
}

fn response(status: RequestStatus) -> ChallengeResponse {
    let parameters = ChallengeParameters::new();
    ChallengeResponse { status, progress: None, parameters, issued: None, forwarding_hint: vec![] }
}

#[test]
fn a_certificate_that_is_not_ours_is_refused() {
    let ca = || key("/org", 0);
    let over = ValidityPeriod { not_before_ms: 0, not_after_ms: NOW_MS - DAY_MS };
    let later =
        ValidityPeriod { not_before_ms: NOW_MS + DAY_MS, not_after_ms: NOW_MS + 2 * DAY_MS };
    let mut note = Vec::new();
    let at = name("/org/al/note");
    ca().data(DataBuilder::new(at.as_ref()), b"", &mut note).unwrap();
    for (wire, why) in [
        (certified(&ca(), &key("/org/al", 2), ALWAYS), "it has another name"),
        (certified(&ca(), &key("/org/bob", 1), ALWAYS), "it has another name"),
        (
            certified(&ca(), &Signer::ed25519(&[7; 32], key_of("/org/al", 1)), ALWAYS),
            "it is of another key",
        ),
        (certified(&ca(), &key("/org/al", 1), over), "it is not valid now"),
        (certified(&ca(), &key("/org/al", 1), later), "it is not valid now"),
        (note, "it is not a certificate"),
    ] {
        let (mut liar, mut request) = LyingCa::begin(|_| {});
        request.choose(ChallengeChoice::Pin, NOW_MS, [1; 32]).unwrap();
        let issued = Some(Data::decode(&wire).unwrap().name().to_name());
        liar.challenge(
            &mut request,
            &ChallengeResponse { issued, ..response(RequestStatus::Success) },
        );
        assert_eq!(request.state(), RequestState::Waiting);
        assert!(request.receive(&wire, NOW_MS, [3; 32]));
        assert_eq!(request.state(), RequestState::Failed(&RequestError::OtherCertificate(why)));
    }
    // A certificate that another key signed, or without the digest that the CA named, is not the CA's.
    let mut digest = [0; 32];
    for (by, named) in [(key("/org", 1), false), (ca(), true)] {
        let wire = certified(&by, &key("/org/al", 1), ALWAYS);
        let (mut liar, mut request) = LyingCa::begin(|_| {});
        request.choose(ChallengeChoice::Pin, NOW_MS, [1; 32]).unwrap();
        digest[0] = 1;
        let issued = Data::decode(&wire).unwrap().name().to_name();
        let full = issued.child(Component::implicit_digest(&digest));
        let issued = Some(if named { full } else { issued });
        liar.challenge(
            &mut request,
            &ChallengeResponse { issued, ..response(RequestStatus::Success) },
        );
        assert!(!request.receive(&wire, NOW_MS, [3; 32]));
        assert_eq!(request.state(), RequestState::Waiting);
    }
}

#[test]
fn a_ca_that_breaks_the_protocol_is_left() {
    for (lie, why) in [
        ((|new| new.derivation = Some("rot13".into())) as fn(&mut NewResponse), "rot13"),
        (|new| new.ecdh_pub = [4; 65], "not a point"),
    ] {
        let (_, request) = LyingCa::begin(lie);
        let RequestState::Failed(said) = request.state() else { panic!("{request:?}") };
        assert!(said.to_string().contains(why), "{said}");
    }
    let progress =
        |word: &str| Some(ChallengeProgress { word: word.into(), tries: 1, time_s: u64::MAX });
    let nonce = ChallengeParameters::of("nonce", &[1; 15]);
    for answer in [
        response(RequestStatus::BeforeChallenge),
        response(RequestStatus::Pending),
        response(RequestStatus::Failure),
        response(RequestStatus::Success),
        response(RequestStatus::Challenge),
        ChallengeResponse { progress: progress("sing"), ..response(RequestStatus::Challenge) },
        ChallengeResponse { progress: progress("need-code"), ..response(RequestStatus::Challenge) },
        ChallengeResponse {
            progress: progress("need-proof"),
            parameters: nonce,
            ..response(RequestStatus::Challenge)
        },
    ] {
        let (mut liar, mut request) = LyingCa::begin(|_| {});
        let signer = Box::new(key("/org/al", 9));
        let certificate = certified(&key("/org", 0), &signer, ALWAYS);
        request
            .choose(ChallengeChoice::Possession { certificate, signer }, NOW_MS, [1; 32])
            .unwrap();
        let said = liar.challenge(&mut request, &answer);
        assert_eq!(said.challenge, "Possession", "as this CA calls it");
        let RequestState::Failed(RequestError::Challenge(_)) = request.state() else {
            panic!("{answer:?}: {request:?}")
        };
    }
}

/// A malicious CA asks the home CA for a certificate of its own key. It passes the home CA's nonce to a client with a
/// certificate of the home CA, and passes the client's proof back. Our proofs name the CA that asked, so the home CA
/// accepts none that was made for another CA. It accepts no bare proof, which does not name a CA. Where bare proofs are
/// accepted (for clients that make no others), the attack works.
#[test]
fn a_proof_for_another_ca_is_refused() {
    let credential = certified(&key("/org", 0), &key("/org/al", 9), ALWAYS);
    let bound = || vec![Proof::BOUND.to_owned()];
    for (home, evil_is_bound, thief_says, gets) in [
        (false, true, bound(), Err(Some(ErrorCode::INVALID_PARAMETER))),
        (false, false, bound(), Err(Some(ErrorCode::INVALID_PARAMETER))),
        (false, false, vec![], Err(None)),
        (true, true, vec![], Err(Some(ErrorCode::INVALID_PARAMETER))),
        (true, false, vec![], Ok(())),
    ] {
        let mut ca = TestCa::of(CaConfig { bare_proofs: home, ..config() });
        let mut thief = RawClient::open_for(&mut ca, key("/org/al/phone", 66), VALID, thief_says);
        let shown = ChallengeParameters::of("issued-cert", &credential);
        if thief.say(&mut ca, "possession", shown) != Ok("need-proof".to_owned()) {
            assert_eq!(gets, Err(None), "{home} {evil_is_bound}");
            assert!(!thief.challenges.contains(&"possession".to_owned()));
            continue;
        }
        let nonce = thief.given.get("nonce").unwrap().to_vec();
        let (mut evil, mut request) =
            LyingCa::begin(|new| new.binding = evil_is_bound.then(|| Proof::BOUND.to_owned()));
        assert_eq!(request.proof() == Proof::Bound, evil_is_bound);
        let signer = Box::new(key("/org/al", 9));
        let choice = ChallengeChoice::Possession { certificate: credential.clone(), signer };
        request.choose(choice, NOW_MS, [1; 32]).unwrap();
        let asks = ChallengeResponse {
            progress: Some(ChallengeProgress { word: "need-proof".into(), tries: 1, time_s: 60 }),
            parameters: ChallengeParameters::of("nonce", &nonce),
            ..response(RequestStatus::Challenge)
        };
        evil.challenge(&mut request, &asks);
        let said = evil.challenge(&mut request, &asks);
        let proof = ChallengeParameters::of("proof", said.parameters.get("proof").unwrap());
        let got = thief.say(&mut ca, "possession", proof).map(drop).map_err(Some);
        assert_eq!(got, gets, "{home} {evil_is_bound}");
        assert_eq!(ca.issued(), usize::from(gets.is_ok()));
    }
}

/// Clients that make only the protocol's proofs are served where the operator permits it.
#[test]
fn bare_proofs_are_accepted_where_permitted() {
    let old = key("/org/al", 9);
    let credential = certified(&key("/org", 0), &old, ALWAYS);
    let mut ca = TestCa::of(CaConfig { bare_proofs: true, ..config() });
    let mut raw = RawClient::open(&mut ca, key("/org/al/phone", 2));
    let shown = ChallengeParameters::of("issued-cert", &credential);
    assert_eq!(raw.say(&mut ca, "possession", shown).unwrap(), "need-proof");
    let proof = old.sign(&[raw.given.get("nonce").unwrap()]);
    let done = raw.say(&mut ca, "possession", ChallengeParameters::of("proof", proof.as_ref()));
    assert_eq!(done, Ok("done".to_owned()));
}

fn key_of(identity: &str, number: u8) -> xylem_packet::Name {
    name(identity).child(common::KEY).child(xylem_packet::Component::generic(&[number]))
}

#[test]
fn issued_certificates_are_served_by_name() {
    let mut ca = TestCa::of(CaConfig {
        limits: xylem_ndncert::CaLimits { issued: 2, ..Default::default() },
        ..config()
    });
    let mut names = Vec::new();
    for number in 0..3 {
        let mut request = ca.opened(key("/org/al", number), NOW_MS);
        ca.choose(&mut request, ChallengeChoice::Pin, NOW_MS);
        let code = ca.code();
        ca.type_code(&mut request, &code, NOW_MS);
        names.push(Certificate::decode(&done(&request)).unwrap().name().to_name());
    }
    let found: Vec<_> = names
        .iter()
        .map(|name| {
            let mut wire = Vec::new();
            InterestBuilder::new(name.as_ref()).nonce([0; 4]).encode(&mut wire).unwrap();
            ca.ask(&wire, NOW_MS).is_some()
        })
        .collect();
    assert_eq!(found, [false, true, true], "the oldest was forgotten here; the program has it");
}

/// A later run answers for certificates issued before; a request by the key's name gets the newest.
#[test]
fn certificates_of_an_earlier_run_are_served() {
    let (mut ca, by) = (TestCa::new(), key("/org", 0));
    let certified = |version: u64| {
        let (mut wire, key_name) = (Vec::new(), key_of("/org/al", 1));
        let issue = Issue {
            key_name: key_name.as_ref(),
            issuer_id: Component::generic(b"NDNCERT"),
            version,
            public_key: &key("/org/al", 1).public().unwrap(),
            validity: ALWAYS,
        };
        issue.sign(&by, &mut wire).unwrap();
        wire
    };
    // 300 is before 255 in the order of octets, but not of numbers.
    let kept = [certified(255), certified(300)];
    for wire in &kept {
        ca.authority.add_issued(&Certificate::decode(wire).unwrap());
    }
    let ask = |ca: &mut TestCa, name: &xylem_packet::Name, longer: bool| {
        let mut wire = Vec::new();
        let builder = InterestBuilder::new(name.as_ref()).nonce([0; 4]).can_be_prefix(longer);
        builder.encode(&mut wire).unwrap();
        ca.ask(&wire, NOW_MS)
    };
    for wire in &kept {
        let data = Data::decode(wire).unwrap();
        assert_eq!(ask(&mut ca, &data.name().to_name(), false).as_ref(), Some(wire));
        let digest = data.implicit_digest();
        assert_eq!(
            ask(&mut ca, &data.name().child(Component::implicit_digest(&digest)), false).as_ref(),
            Some(wire)
        );
        let other = Component::implicit_digest(&[1; 32]);
        assert_eq!(ask(&mut ca, &data.name().child(other), false), None);
    }
    assert_eq!(ask(&mut ca, &key_of("/org/al", 1), true).as_ref(), Some(&kept[1]), "the newest");
    assert_eq!(ask(&mut ca, &key_of("/org/al", 1), false), None);
    assert_eq!(ask(&mut ca, &name("/org/al"), false), None);
}

#[test]
fn probe_returns_the_names_of_the_policy() {
    let mut ca = TestCa::new();
    let profile = ca.profile();
    let mut probe = |parameters: &ChallengeParameters| {
        let answer = ca.ask(&profile.probe(parameters).unwrap(), NOW_MS).unwrap();
        assert_eq!(profile.probed(&answer[1..]), Err(RequestError::NotGenuine));
        profile.probed(&answer)
    };
    let found = probe(&ChallengeParameters::of("email", b"Al@Example.org")).unwrap();
    assert_eq!(found.names, [(name("/org/org/example/_user/al"), None)]);
    for none in [
        ChallengeParameters::new(),
        ChallengeParameters::of("email", b"al"),
        ChallengeParameters::of("a", b"b"),
    ] {
        let Err(RequestError::Refused { code, .. }) = probe(&none) else { panic!() };
        assert_eq!(code, ErrorCode::NO_AVAILABLE_NAMES);
    }
}

#[test]
fn a_ca_has_a_key_a_name_and_a_challenge() {
    let signer = || key("/org", 0);
    let own = certificate_of(&signer(), ALWAYS);
    let try_it = |config, signer, own: &[u8]| {
        CertificateAuthority::new(config, signer, own, Box::<StandardPolicy>::default(), NOW_MS)
            .map(|_| ())
    };
    assert_eq!(try_it(config(), signer(), &own), Ok(()));
    assert_eq!(try_it(config(), key("/org", 1), &own), Err(AuthorityError::OtherKey));
    let elsewhere = CaConfig { prefix: name("/other"), ..config() };
    assert_eq!(try_it(elsewhere, signer(), &own), Err(AuthorityError::OtherName(name("/org"))));
    let none = CaConfig { challenges: vec![], ..config() };
    assert_eq!(try_it(none, signer(), &own), Err(AuthorityError::NoChallenge));
    let long = CaConfig { info: "x".repeat(2000), ..config() };
    assert_eq!(try_it(long, signer(), &own), Err(AuthorityError::TooLong));
    assert!(matches!(try_it(config(), signer(), b"x"), Err(AuthorityError::Certificate(_))));
}

#[test]
fn profiles_that_are_none_are_refused() {
    let mut ca = TestCa::new();
    let mut wire = Vec::new();
    let at = name("/org/CA/INFO").child(xylem_packet::Component::version(NOW_MS));
    InterestBuilder::new(at.as_ref()).can_be_prefix(true).nonce([0; 4]).encode(&mut wire).unwrap();
    let good = ca.ask(&wire, NOW_MS).unwrap();
    assert_eq!(CaProfile::decode(&good).unwrap().info().text, "A test");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 4;
        assert!(CaProfile::decode(&bad).is_err(), "octet {at}");
        assert!(CaProfile::decode(&good[..at]).is_err());
    }
    // Its content under another CA's name, or signed by another key of that CA.
    let content = Data::decode(&good).unwrap().content().to_vec();
    for (signer, name) in [
        (key("/org", 0), name("/other/CA/INFO/v=1/seg=0")),
        (key("/org", 0), name("/org/CA/INFO/v=1/seg=1")),
        (key("/org", 0), name("/org/CA/INFO/v=1")),
        (key("/org", 1), name("/org/CA/INFO/v=1/seg=0")),
    ] {
        let mut wire = Vec::new();
        signer.data(DataBuilder::new(name.as_ref()), &content, &mut wire).unwrap();
        assert!(matches!(CaProfile::decode(&wire), Err(RequestError::Profile(_))), "{name}");
    }
}
