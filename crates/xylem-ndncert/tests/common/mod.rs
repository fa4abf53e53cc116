//! A CA, clients, and a network between them under virtual time.
#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::Arc;
use std::time::Duration;

use xylem_ndncert::packets::{
    ChallengeParameters, ChallengeRequest, ChallengeResponse, Encrypted, ErrorMessage, NewRequest,
    NewResponse,
};
use xylem_ndncert::{
    Agreement, CaAnswer, CaConfig, CaEvent, CaProfile, CertificateAuthority, CertificateRequest,
    ChallengeChoice, ChallengeKind, Derivation, ErrorCode, Lookup, ProfileTrust, RequestError,
    RequestSession, RequestState, StandardPolicy,
};
use xylem_packet::{Component, Data, InterestBuilder, Name};
use xylem_sim::{EventQueue, Rng, ms};
use xylem_trust::{
    Certificate, CommandStamp, HierarchyRules, Issue, PrivateKey, Signer, TrustStore,
    ValidityPeriod, self_signed,
};

pub(crate) const NOW_MS: u64 = 1_700_000_000_000;
pub(crate) const DAY_MS: u64 = 86_400_000;
pub(crate) const ALWAYS: ValidityPeriod =
    ValidityPeriod { not_before_ms: 0, not_after_ms: 4_000_000_000_000 };

pub(crate) fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

/// An Ed25519 key of this identity, the same for the same identity and number.
pub(crate) fn key(identity: &str, number: u8) -> Signer {
    let seed = *xylem_hash::hash(&[identity.as_bytes(), &[number]].concat()).as_bytes();
    Signer::ed25519(&seed, name(identity).child(KEY).child(Component::generic(&[number])))
}

pub(crate) const KEY: Component<'static> = Component::generic(b"KEY");

/// A new P-256 key of this identity.
pub(crate) fn p256(identity: &str) -> Signer {
    let key = PrivateKey::generate_ecdsa_p256().unwrap();
    key.signer(name(identity).child(KEY).child(Component::generic(b"p"))).unwrap()
}

pub(crate) fn certificate_of(signer: &Signer, validity: ValidityPeriod) -> Vec<u8> {
    self_signed(signer, 1, validity).unwrap()
}

/// A certificate of `subject`'s key by `by`.
pub(crate) fn certified(by: &Signer, subject: &Signer, validity: ValidityPeriod) -> Vec<u8> {
    let issue = Issue {
        key_name: xylem_trust::key_name_of(subject.key_locator().unwrap()).unwrap(),
        issuer_id: Component::generic(b"by"),
        version: 1,
        public_key: &subject.public().unwrap(),
        validity,
    };
    let mut wire = Vec::new();
    issue.sign(by, &mut wire).unwrap();
    wire
}

pub(crate) fn config() -> CaConfig {
    CaConfig {
        challenges: ChallengeKind::ALL.to_vec(),
        info: "A test".into(),
        ..CaConfig::new(name("/org"))
    }
}

/// A trust store with `/org`'s key as its anchor.
pub(crate) fn believing() -> TrustStore {
    let mut store = TrustStore::new();
    let own = certificate_of(&key("/org", 0), ALWAYS);
    store.add_anchor(&Certificate::decode(&own).unwrap()).unwrap();
    store
}

pub(crate) fn authority_of(config: CaConfig) -> CertificateAuthority {
    let signer = key("/org", 0);
    let own = certificate_of(&signer, ALWAYS);
    let policy = Box::new(StandardPolicy::new(Arc::new(HierarchyRules), believing()));
    CertificateAuthority::new(config, signer, &own, policy, NOW_MS).unwrap()
}

/// A CA, and the tasks that it has returned.
pub(crate) struct TestCa {
    pub(crate) authority: CertificateAuthority,
    pub(crate) events: Vec<CaEvent>,
    pub(crate) rng: Rng,
}

impl TestCa {
    pub(crate) fn new() -> Self {
        Self::of(config())
    }

    pub(crate) fn of(config: CaConfig) -> Self {
        TestCa { authority: authority_of(config), events: Vec::new(), rng: Rng::new(1) }
    }

    pub(crate) fn seed(&mut self) -> [u8; 32] {
        self.rng.bytes(32).try_into().unwrap()
    }

    pub(crate) fn ask(&mut self, interest: &[u8], now_ms: u64) -> Option<Vec<u8>> {
        let seed = self.seed();
        let CaAnswer { data, event } = self.authority.interest(interest, now_ms, seed);
        self.events.extend(event);
        data
    }

    /// The code that was given out last.
    pub(crate) fn code(&self) -> String {
        let code = |event: &CaEvent| match event {
            CaEvent::Pin { code, .. } | CaEvent::Email { code, .. } => Some(code.clone()),
            CaEvent::Issued { .. } => None,
        };
        self.events.iter().rev().find_map(code).expect("a code")
    }

    pub(crate) fn issued(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, CaEvent::Issued { .. })).count()
    }

    pub(crate) fn profile(&mut self) -> CaProfile {
        let mut lookup = Lookup::new(name("/org"));
        while let Some(interest) = lookup.poll_transmit(NOW_MS, [1; 4]) {
            let data = self.ask(&interest, NOW_MS).expect("INFO is answered");
            assert!(lookup.receive(&data));
        }
        lookup.take().unwrap().unwrap()
    }

    pub(crate) fn request(&mut self, signer: Signer, now_ms: u64) -> CertificateRequest {
        let profile = self.profile();
        let seed = self.seed();
        let store = believing();
        CertificateRequest::new(
            profile,
            ProfileTrust::Store(&store),
            signer,
            u64::MAX,
            now_ms,
            seed,
        )
        .unwrap()
    }

    /// Runs a request over a perfect network until it waits for a person; returns its Interests.
    pub(crate) fn run(&mut self, request: &mut CertificateRequest, now_ms: u64) -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        while let Some(interest) = request.poll_transmit(now_ms, [1; 4]) {
            sent.push(interest.clone());
            let Some(data) = self.ask(&interest, now_ms) else { break };
            let seed = self.seed();
            assert!(request.receive(&data, now_ms, seed), "it is the CA's");
        }
        sent
    }

    /// A request that waits for the choice of a challenge.
    pub(crate) fn opened(&mut self, signer: Signer, now_ms: u64) -> CertificateRequest {
        let mut request = self.request(signer, now_ms);
        self.run(&mut request, now_ms);
        assert!(matches!(request.state(), RequestState::Choose(_)), "{:?}", request.state());
        request
    }

    pub(crate) fn choose(
        &mut self,
        request: &mut CertificateRequest,
        choice: ChallengeChoice,
        now_ms: u64,
    ) -> Vec<Vec<u8>> {
        let seed = self.seed();
        request.choose(choice, now_ms, seed).unwrap();
        self.run(request, now_ms)
    }

    pub(crate) fn type_code(
        &mut self,
        request: &mut CertificateRequest,
        code: &str,
        now_ms: u64,
    ) -> Vec<Vec<u8>> {
        let seed = self.seed();
        request.code(code, now_ms, seed).unwrap();
        self.run(request, now_ms)
    }
}

/// A validity from now on, for a day.
pub(crate) const VALID: ValidityPeriod =
    ValidityPeriod { not_before_ms: NOW_MS, not_after_ms: NOW_MS + DAY_MS };

/// A NEW Interest, signed by any key.
pub(crate) fn new_with(
    asked: Vec<u8>,
    by: &Signer,
    time_ms: u64,
    point: [u8; 65],
    bindings: Vec<String>,
) -> Vec<u8> {
    let new = NewRequest { ecdh_pub: point, certificate: asked, derivations: vec![], bindings };
    let (name, mut wire) = (name("/org/CA/NEW"), Vec::new());
    let stamp = CommandStamp::new([1; 8], time_ms);
    by.interest(InterestBuilder::new(name.as_ref()), &new.encode(), stamp, &mut wire).unwrap();
    wire
}

/// A client without rules: it sends whatever the test wants.
pub(crate) struct RawClient {
    pub(crate) signer: Signer,
    pub(crate) session: RequestSession,
    /// Challenges that the CA offers.
    pub(crate) challenges: Vec<String>,
    /// Parameters of the last answer.
    pub(crate) given: ChallengeParameters,
}

impl RawClient {
    pub(crate) fn open(ca: &mut TestCa, signer: Signer) -> Self {
        Self::open_for(ca, signer, VALID, vec![])
    }

    pub(crate) fn open_for(
        ca: &mut TestCa,
        signer: Signer,
        validity: ValidityPeriod,
        bindings: Vec<String>,
    ) -> Self {
        let agreement = Agreement::new().unwrap();
        let asked = self_signed(&signer, 1, validity).unwrap();
        let new = new_with(asked, &signer, NOW_MS, agreement.public(), bindings);
        let answer = ca.ask(&new, NOW_MS).unwrap();
        let new = NewResponse::decode(Data::decode(&answer).unwrap().content()).unwrap();
        let hkdf = Derivation::HkdfSha256;
        let session = agreement.agree(&new.ecdh_pub, hkdf, &new.salt, new.id, [9; 8]).unwrap();
        RawClient { signer, session, challenges: new.challenges, given: ChallengeParameters::new() }
    }

    pub(crate) fn say(
        &mut self,
        ca: &mut TestCa,
        challenge: &str,
        parameters: ChallengeParameters,
    ) -> Result<String, ErrorCode> {
        let request = ChallengeRequest { challenge: challenge.to_owned(), parameters };
        let sealed = self.session.seal(&request.encode()).unwrap();
        let id = self.session.id();
        let (name, mut wire) = (name("/org/CA/CHALLENGE").child(Component::generic(&id.0)), vec![]);
        let (builder, stamp) =
            (InterestBuilder::new(name.as_ref()), CommandStamp::new([1; 8], NOW_MS));
        self.signer.interest(builder, &sealed.encode(), stamp, &mut wire).unwrap();
        let answer = ca.ask(&wire, NOW_MS).unwrap();
        let content = Data::decode(&answer).unwrap().content().to_vec();
        if let Ok(refused) = ErrorMessage::decode(&content) {
            return Err(refused.code);
        }
        let plaintext = self.session.open(&Encrypted::decode(&content).unwrap()).unwrap();
        let response = ChallengeResponse::decode(&plaintext).unwrap();
        self.given = response.parameters;
        Ok(response.progress.map_or_else(|| "done".to_owned(), |progress| progress.word))
    }
}

/// The error code of an answer, which has to be an ERROR.
pub(crate) fn error(answer: Option<Vec<u8>>) -> ErrorCode {
    let answer = answer.expect("an answer");
    ErrorMessage::decode(Data::decode(&answer).unwrap().content()).expect("an error").code
}

/// Why a request failed.
pub(crate) fn refusal(request: &CertificateRequest) -> ErrorCode {
    match request.state() {
        RequestState::Failed(RequestError::Refused { code, .. }) => *code,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn done(request: &CertificateRequest) -> Vec<u8> {
    match request.state() {
        RequestState::Done(certificate) => certificate.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// A network that loses, damages, doubles and reorders packets.
#[derive(Clone, Copy)]
pub(crate) struct Network {
    pub(crate) loss: f64,
    pub(crate) twice: f64,
    pub(crate) damage: f64,
    pub(crate) delay_ms: u64,
}

impl Network {
    /// Runs a request from beginning to end; codes are typed as they are given out. Returns the certificate.
    pub(crate) fn run(
        self,
        ca: &mut TestCa,
        signer: Signer,
        choose: impl Fn() -> ChallengeChoice,
        seed: u64,
    ) -> Vec<u8> {
        let mut rng = Rng::new(seed);
        let mut queue: EventQueue<(bool, Vec<u8>)> = EventQueue::new();
        let mut lookup = Lookup::new(name("/org"));
        let mut request: Option<CertificateRequest> = None;
        let mut signer = Some(signer);
        for _ in 0..10_000 {
            let now_ms = NOW_MS + queue.now().as_millis() as u64;
            let send = |to_ca: bool, wire: Vec<u8>, rng: &mut Rng, queue: &mut EventQueue<_>| {
                let copies = if rng.chance(self.twice) { 2 } else { 1 };
                for _ in 0..copies {
                    let mut wire = wire.clone();
                    let at = rng.index(wire.len());
                    if rng.chance(self.damage) {
                        wire[at] ^= 1 << rng.below(8);
                    }
                    let delay = ms(1) + rng.time_below(ms(self.delay_ms));
                    if !rng.chance(self.loss) {
                        queue.schedule(queue.now() + delay, (to_ca, wire));
                    }
                }
            };
            let nonce: [u8; 4] = rng.bytes(4).try_into().unwrap();
            let fresh: [u8; 32] = rng.bytes(32).try_into().unwrap();
            let interest = match &mut request {
                None => lookup.poll_transmit(now_ms, nonce),
                Some(request) => request.poll_transmit(now_ms, nonce),
            };
            if let Some(interest) = interest {
                send(true, interest, &mut rng, &mut queue);
            }
            if let Some(found) = lookup.take() {
                let store = believing();
                let believe = ProfileTrust::Store(&store);
                let profile = found.expect("a profile");
                let signer = signer.take().unwrap();
                request = Some(
                    CertificateRequest::new(profile, believe, signer, u64::MAX, now_ms, fresh)
                        .unwrap(),
                );
                continue;
            }
            match request.as_ref().map(CertificateRequest::state) {
                Some(RequestState::Done(certificate)) => return certificate.to_vec(),
                Some(RequestState::Failed(why)) => panic!("seed {seed}: {why}"),
                Some(RequestState::Choose(_)) => {
                    request.as_mut().unwrap().choose(choose(), now_ms, fresh).unwrap();
                    continue;
                }
                Some(RequestState::Code { .. }) => {
                    request.as_mut().unwrap().code(&ca.code(), now_ms, fresh).unwrap();
                    continue;
                }
                _ => {}
            }
            let timer = request
                .as_ref()
                .map_or_else(|| lookup.next_timer(), CertificateRequest::next_timer);
            let timer = timer.map(|at| Duration::from_millis(at.saturating_sub(NOW_MS)));
            let next = [timer, queue.next_at()].into_iter().flatten().min().expect("goes on");
            queue.advance(next);
            while let Some((to_ca, wire)) = queue.pop_due() {
                let now_ms = NOW_MS + queue.now().as_millis() as u64;
                if to_ca {
                    if let Some(data) = ca.ask(&wire, now_ms) {
                        send(false, data, &mut rng, &mut queue);
                    }
                } else {
                    match &mut request {
                        None => lookup.receive(&wire),
                        Some(request) => request.receive(&wire, now_ms, fresh),
                    };
                }
            }
        }
        panic!("seed {seed}: no end")
    }
}
