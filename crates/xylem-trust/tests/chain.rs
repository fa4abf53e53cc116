//! Tests of certificate chains: they are fetched one by one, bounded, and each refusal states its reason.

use std::collections::HashMap;
use std::sync::Arc;

use xylem_packet::{Component, Data, DataBuilder, KeyLocator, Name, SignatureInfo};
use xylem_trust::schema::Schema;
use xylem_trust::{
    Certificate, CertificateChain, CertificateQuery, ChainAction, ChainError, ChainFlaw, Issue,
    MAX_CHAIN, MAX_QUERIES, PrefixRules, Signer, TrustError, TrustStore, ValidityPeriod,
    self_signed,
};

const NOW: u64 = 1_700_000_000_000;
const ALWAYS: ValidityPeriod =
    ValidityPeriod { not_before_ms: 0, not_after_ms: 10_000_000_000_000 };

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

/// The key `/identity/KEY/1`. Its signatures name its certificate by issuer `by`.
fn key(identity: &str, by: &str) -> Signer {
    let seed = *xylem_hash::hash(identity.as_bytes()).as_bytes();
    Signer::ed25519(&seed, name(&format!("{identity}/KEY/1/{by}/v=1")))
}

fn issue(by: &Signer, subject: &Signer, issuer: &str, validity: ValidityPeriod) -> Vec<u8> {
    renew(by, subject, issuer, 1, validity)
}

fn renew(
    by: &Signer,
    subject: &Signer,
    issuer: &str,
    version: u64,
    validity: ValidityPeriod,
) -> Vec<u8> {
    let public_key = subject.public().unwrap();
    let key_name = xylem_trust::key_name_of(subject.key_locator().unwrap()).unwrap();
    let issuer_id = Component::generic(issuer.as_bytes());
    let mut out = Vec::new();
    Issue { key_name, issuer_id, version, public_key: &public_key, validity }
        .sign(by, &mut out)
        .unwrap();
    out
}

fn signed(by: &Signer, uri: &str) -> Vec<u8> {
    let mut out = Vec::new();
    by.data(DataBuilder::new(name(uri).as_ref()), b"x", &mut out).unwrap();
    out
}

/// A network that serves certificates by name and records the requests. Caches have some that are stale.
#[derive(Default)]
struct Network {
    certificates: HashMap<Name, Vec<u8>>,
    stale: HashMap<Name, Vec<u8>>,
    asked: Vec<CertificateQuery>,
}

impl Network {
    fn with(certificates: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Network { certificates: by_name(certificates), ..Network::default() }
    }

    fn with_stale(mut self, certificates: impl IntoIterator<Item = Vec<u8>>) -> Self {
        self.stale = by_name(certificates);
        self
    }

    fn judge(&mut self, store: &mut TrustStore, packet: &[u8]) -> Result<(), ChainError> {
        let data = Data::decode(packet).unwrap();
        let mut chain = CertificateChain::of(&data)?;
        loop {
            while let ChainAction::Ask(question) = chain.step(store, NOW)? {
                match self.answer(question) {
                    Some(wire) => chain.answer(&wire, NOW)?,
                    None => chain.missing()?,
                }
            }
            match store.data(&data, NOW) {
                Ok(()) => return Ok(()),
                Err(flaw) => chain.refuse_packet(flaw)?,
            }
        }
    }

    fn answer(&mut self, question: CertificateQuery) -> Option<Vec<u8>> {
        assert!(!self.asked.contains(&question), "{question:?} twice");
        let fits = |(at, _): &(&Name, &Vec<u8>)| match question.can_be_prefix {
            true => question.name.is_prefix_of(at.as_ref()),
            false => **at == question.name,
        };
        let stale = self.stale.iter().filter(|_| !question.must_be_fresh).find(fits);
        let found = stale.or_else(|| self.certificates.iter().find(fits));
        let wire = found.map(|(_, wire)| wire.clone());
        self.asked.push(question);
        wire
    }

    fn names_asked(&self) -> Vec<String> {
        self.asked.iter().map(|question| question.name.to_string()).collect()
    }
}

fn by_name(certificates: impl IntoIterator<Item = Vec<u8>>) -> HashMap<Name, Vec<u8>> {
    let of = |wire: Vec<u8>| (Certificate::decode(&wire).unwrap().name().to_name(), wire);
    certificates.into_iter().map(of).collect()
}

fn trusting(anchor: &Signer) -> TrustStore {
    let mut store = TrustStore::new();
    let wire = self_signed(anchor, 1, ALWAYS).unwrap();
    store.add_anchor(&Certificate::decode(&wire).unwrap()).unwrap();
    store
}

/// `/0`, `/0/1`, `/0/1/2` …, each certified by the one before it.
fn line(len: usize) -> (Vec<Signer>, Vec<Vec<u8>>) {
    let mut identity = String::new();
    let mut keys: Vec<Signer> = Vec::new();
    let mut certificates = Vec::new();
    for i in 0..len {
        identity += &format!("/{i}");
        let next = key(&identity, if i == 0 { "self" } else { "up" });
        if let Some(above) = keys.last() {
            certificates.push(issue(above, &next, "up", ALWAYS));
        }
        keys.push(next);
    }
    (keys, certificates)
}

#[test]
fn three_certificates_cost_three_verifications_and_then_none() {
    let (keys, certificates) = line(4);
    let mut store = trusting(&keys[0]);
    let mut network = Network::with(certificates);
    let packet = signed(&keys[3], "/0/1/2/3/note");
    assert_eq!(network.judge(&mut store, &packet), Ok(()));
    assert_eq!((network.asked.len(), store.verifications()), (3, 3));
    for i in 0..100 {
        let packet = signed(&keys[3], &format!("/0/1/2/3/{i}"));
        assert_eq!(network.judge(&mut store, &packet), Ok(()));
    }
    assert_eq!((network.asked.len(), store.verifications()), (3, 3), "they are remembered");
}

#[test]
fn key_names_find_their_certificates_too() {
    let root = key("/org", "self");
    let alice = Signer::ed25519(&[5; 32], name("/org/alice/KEY/1"));
    let mut network = Network::with([issue(&root, &alice, "org", ALWAYS)]);
    let mut store = trusting(&root);
    assert_eq!(network.judge(&mut store, &signed(&alice, "/org/alice/a")), Ok(()));
    assert_eq!(network.names_asked(), ["/org/alice/KEY/1"]);
}

#[test]
fn chains_are_bounded() {
    let (keys, certificates) = line(MAX_CHAIN + 2);
    for (len, good) in [(MAX_CHAIN + 1, true), (MAX_CHAIN + 2, false)] {
        let mut network = Network::with(certificates.clone());
        let mut store = trusting(&keys[0]);
        let last = &keys[len - 1];
        let owner = last.key_locator().unwrap().prefix(len);
        let judged = network.judge(&mut store, &signed(last, &format!("{owner}/note")));
        assert_eq!(judged.is_ok(), good, "{judged:?}");
        assert_eq!(network.asked.len(), MAX_CHAIN);
        if let Err(e) = judged {
            assert_eq!((e.flaw, store.verifications()), (ChainFlaw::TooLong, 0));
            assert_eq!(e.name, name("/0/1/2/KEY/1/up/v=1"));
        }
    }
}

#[test]
fn a_chain_with_a_loop_is_refused() {
    let root = key("/org", "self");
    let (a, b, c) = (key("/org/a", "c"), key("/org/b", "a"), key("/org/c", "b"));
    let circle =
        [issue(&c, &a, "c", ALWAYS), issue(&a, &b, "a", ALWAYS), issue(&b, &c, "b", ALWAYS)];
    let mut network = Network::with(circle);
    let mut store = trusting(&root);
    let refused = network.judge(&mut store, &signed(&a, "/org/a/note")).unwrap_err();
    assert_eq!(refused.name, name("/org/b/KEY/1/a/v=1"));
    assert_eq!(refused.flaw, ChainFlaw::Loop(name("/org/a/KEY/1")));
    assert_eq!(store.verifications(), 0);

    // A self-signed certificate is a loop of one.
    let own = self_signed(&key("/org/d", "self"), 1, ALWAYS).unwrap();
    let mut network = Network::with([own]);
    let packet = signed(&key("/org/d", "self"), "/org/d/note");
    let refused = network.judge(&mut store, &packet).unwrap_err();
    assert_eq!((refused.name, refused.flaw), (name("/org/d/KEY/1/self/v=1"), ChainFlaw::Untrusted));
}

#[test]
fn a_forged_chain_costs_one_verification() {
    let (keys, mut certificates) = line(MAX_CHAIN + 1);
    // The topmost certificate is signed by an attacker in the anchor's name.
    let thief = Signer::ed25519(&[9; 32], name("/0/KEY/1/self/v=1"));
    certificates[0] = issue(&thief, &keys[1], "up", ALWAYS);
    let mut network = Network::with(certificates);
    let mut store = trusting(&keys[0]);
    let last = keys.last().unwrap();
    let owner = last.key_locator().unwrap().prefix(MAX_CHAIN + 1);
    let refused = network.judge(&mut store, &signed(last, &format!("{owner}/note"))).unwrap_err();
    assert_eq!(refused.name, name("/0/1/KEY/1/up/v=1"));
    assert_eq!(refused.flaw, ChainFlaw::Trust(TrustError::BadSignature));
    assert_eq!((store.verifications(), store.len()), (1, 1));
}

#[test]
fn each_refusal_names_the_certificate_and_why() {
    let (root, alice, phone) =
        (key("/org", "self"), key("/org/alice", "org"), key("/org/alice/phone", "alice"));
    let past = ValidityPeriod { not_before_ms: 0, not_after_ms: NOW - 5000 };
    let future = ValidityPeriod { not_before_ms: NOW + 5000, not_after_ms: NOW + 9000 };
    let note = signed(&phone, "/org/alice/phone/note");
    let by_alice = issue(&alice, &phone, "alice", ALWAYS);
    let cases: [(Vec<Vec<u8>>, &str); 6] = [
        (
            vec![by_alice.clone(), issue(&root, &alice, "org", past)],
            "/org/alice/KEY/1/org/v=1 expired at 2023-11-14 22:13:15 UTC",
        ),
        (
            vec![by_alice.clone(), issue(&root, &alice, "org", future)],
            "/org/alice/KEY/1/org/v=1 is not valid before 2023-11-14 22:13:25 UTC",
        ),
        (vec![by_alice.clone()], "/org/alice/KEY/1/org/v=1 could not be fetched"),
        (
            vec![issue(&root, &phone, "alice", past)],
            "/org/alice/phone/KEY/1/alice/v=1 expired at 2023-11-14 22:13:15 UTC",
        ),
        (
            vec![by_alice.clone(), issue(&key("/bob", "self"), &alice, "org", ALWAYS)],
            "/bob/KEY/1/self/v=1 could not be fetched",
        ),
        (
            vec![
                issue(&key("/org/bob", "org"), &phone, "alice", ALWAYS),
                issue(&root, &key("/org/bob", "org"), "org", ALWAYS),
            ],
            "/org/alice/phone/KEY/1/alice/v=1 is not under /org/bob, the identity of the key /org/bob/KEY/1",
        ),
    ];
    for (certificates, expected) in cases {
        let mut store = trusting(&root);
        let refused = Network::with(certificates).judge(&mut store, &note).unwrap_err();
        assert_eq!(refused.to_string(), expected);
    }
    // The anchor itself may not sign this, and no other certificate could permit it, so none is asked for.
    let mut network = Network::default();
    let refused = network.judge(&mut trusting(&root), &signed(&root, "/bank/note")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "/bank/note is not under /org, the identity of the key /org/KEY/1"
    );
    assert_eq!(network.asked, []);
}

#[test]
fn an_answer_has_to_match_the_question() {
    let (root, alice) = (key("/org", "self"), key("/org/alice", "org"));
    let wire = signed(&alice, "/org/alice/note");
    let data = Data::decode(&wire).unwrap();
    let mut store = trusting(&root);
    let other = issue(&root, &key("/org/bob", "org"), "org", ALWAYS);
    for (answer, flaw) in [
        (&other, ChainFlaw::OtherName(name("/org/alice/KEY/1/org/v=1"))),
        (&wire, ChainFlaw::NoCertificate(xylem_trust::CertificateError::Name)),
    ] {
        let mut chain = CertificateChain::of(&data).unwrap();
        let refused = loop {
            match chain.step(&mut store, NOW) {
                Ok(ChainAction::Ask(_)) => {}
                other => panic!("{other:?}"),
            }
            if let Err(refused) = chain.answer(answer, NOW) {
                break refused;
            }
        };
        assert_eq!(refused.flaw, flaw);
    }
    // No certificate can be asked for by a digest.
    let info = SignatureInfo::new(alice.typ(), Some(KeyLocator::Digest(&[3; 32])));
    let mut chain = CertificateChain::new(Some(data.name()), &info).unwrap();
    assert_eq!(chain.step(&mut store, NOW).unwrap_err().flaw, ChainFlaw::Digest);
    let info = SignatureInfo::new(alice.typ(), None);
    assert_eq!(CertificateChain::new(None, &info).unwrap_err().flaw, ChainFlaw::NoKeyLocator);
}

const PAST: ValidityPeriod = ValidityPeriod { not_before_ms: 0, not_after_ms: NOW - 5000 };

#[test]
fn a_stale_certificate_gives_way_to_a_renewed_one() {
    let root = key("/org", "self");
    let note = |locator: &str| {
        let alice = Signer::ed25519(&[5; 32], name(locator));
        let old = issue(&root, &alice, "org", PAST);
        let new = renew(&root, &alice, "org", 2, ALWAYS);
        (signed(&alice, "/org/alice/a"), old, new)
    };
    for locator in ["/org/alice/KEY/1", "/org/alice/KEY/1/org", "/org/alice/KEY/1/org/v=1"] {
        let (note, old, new) = note(locator);
        let mut network = Network::with([new.clone()]).with_stale([old.clone()]);
        assert_eq!(network.judge(&mut trusting(&root), &note), Ok(()), "{locator}");
        assert_eq!(
            network.asked.iter().map(|q| q.must_be_fresh).collect::<Vec<_>>(),
            [false, true]
        );
        // The renewed one has not arrived anywhere: the reason is the old one's.
        let refused = Network::default().with_stale([old]).judge(&mut trusting(&root), &note);
        assert!(matches!(refused.unwrap_err().flaw, ChainFlaw::Expired(_)), "{locator}");
    }
    // A packet that names the renewed one needs no second question.
    let (note, old, new) = note("/org/alice/KEY/1/org/v=2");
    let mut network = Network::with([new]).with_stale([old]);
    assert_eq!(network.judge(&mut trusting(&root), &note), Ok(()));
    assert_eq!(network.names_asked(), ["/org/alice/KEY/1/org/v=2"]);
}

#[test]
fn a_missing_certificate_gives_way_to_another_issuers() {
    let root = key("/org", "self");
    for locator in ["/org/alice/KEY/1/self/v=1", "/org/alice/KEY/1/old/v=7"] {
        let alice = Signer::ed25519(&[5; 32], name(locator));
        let note = signed(&alice, "/org/alice/a");
        let mut network = Network::with([issue(&root, &alice, "org", ALWAYS)]);
        assert_eq!(network.judge(&mut trusting(&root), &note), Ok(()), "{locator}");
        // Nobody trusts the self-signed one.
        let own = self_signed(&alice, 1, ALWAYS).unwrap();
        let mut network = Network::with([issue(&root, &alice, "org", ALWAYS)]).with_stale([own]);
        assert_eq!(network.judge(&mut trusting(&root), &note), Ok(()), "{locator}");
    }
    // The same in the middle of a chain.
    let alice = Signer::ed25519(&[5; 32], name("/org/alice/KEY/1/old/v=7"));
    let phone = key("/org/alice/phone", "alice");
    let certificates =
        [issue(&alice, &phone, "alice", ALWAYS), issue(&root, &alice, "org", ALWAYS)];
    let mut network = Network::with(certificates);
    let note = signed(&phone, "/org/alice/phone/a");
    assert_eq!(network.judge(&mut trusting(&root), &note), Ok(()));
}

#[test]
fn a_certificate_that_leads_nowhere_gives_way_to_another() {
    let (root, gone, thief) = (key("/org", "self"), key("/org/gone", "org"), key("/t", "self"));
    let alice = Signer::ed25519(&[5; 32], name("/org/alice/KEY/1"));
    let other_key = Signer::ed25519(&[6; 32], name("/org/alice/KEY/1"));
    let forged = Signer::ed25519(&[9; 32], name("/org/KEY/1/self/v=1"));
    let stale = [
        ("its issuer's certificate is gone", issue(&gone, &alice, "gone", ALWAYS)),
        ("its issuer may not issue it", issue(&thief, &alice, "org", ALWAYS)),
        ("it is forged", issue(&forged, &alice, "org", ALWAYS)),
        ("it is another key's", issue(&root, &other_key, "org", ALWAYS)),
    ];
    let note = signed(&alice, "/org/alice/a");
    for (why, old) in stale {
        let new = renew(&root, &alice, "org", 2, ALWAYS);
        let mut network = Network::with([new]).with_stale([old]);
        assert_eq!(network.judge(&mut trusting(&root), &note), Ok(()), "{why}");
        assert!(network.asked.len() <= MAX_QUERIES);
    }
}

/// Two answers of three are useless, at each of the first five keys.
#[test]
fn a_network_that_decides_each_answer_gets_no_further_question() {
    let (keys, certificates) = line(MAX_CHAIN + 1);
    let note = signed(keys.last().unwrap(), "/0/1/2/3/4/5/6/7/8/a");
    let data = Data::decode(&note).unwrap();
    let mut store = trusting(&keys[0]);
    let mut chain = CertificateChain::of(&data).unwrap();
    let (mut asked, mut of_key) = (0, HashMap::<usize, usize>::new());
    let ended = loop {
        let question = match chain.step(&mut store, NOW) {
            Ok(ChainAction::Ask(question)) => question,
            Ok(ChainAction::Known) => break None,
            Err(error) => break Some(error),
        };
        asked += 1;
        let of = |at: &&Vec<u8>| {
            let certificate = Certificate::decode(at).unwrap();
            question.name.as_ref().prefix(certificate.key_name().len()) == certificate.key_name()
        };
        let (at, wire) = certificates.iter().enumerate().find(|(_, at)| of(at)).unwrap();
        let count = of_key.entry(at).or_default();
        *count += 1;
        let is_good = *count == 3 || of_key.len() > 5;
        let answer: &[u8] = if is_good { wire } else { b"useless" };
        if let Err(error) = chain.answer(answer, NOW) {
            break Some(error);
        }
    };
    assert!(ended.is_some() && asked <= MAX_QUERIES, "{asked} questions: {ended:?}");
}

/// The rules hold for the certificate by which the packet is accepted, not for the one that the packet names.
#[test]
fn a_schema_judges_the_certificate_that_is_used() {
    let schema = Arc::new(Schema::compile(include_str!("fixtures/schema/blog.lvs")).unwrap());
    let root = key("/example/blog", "self");
    let editor = key("/example/blog/editor/eve", "root");
    let author = key("/example/blog/author/bob", "editor");
    let post = signed(&author, "/example/blog/post/bob/2026/one");
    let by_editor = issue(&editor, &author, "editor", ALWAYS);
    let by_root = renew(&root, &author, "editor", 2, ALWAYS);
    let judge = |certificates: &[Vec<u8>]| {
        let mut store = TrustStore::new();
        let wire = self_signed(&root, 1, ALWAYS).unwrap();
        store.add_anchor_under(&Certificate::decode(&wire).unwrap(), schema.clone()).unwrap();
        Network::with(certificates.to_vec()).judge(&mut store, &post)
    };
    let for_editor = issue(&root, &editor, "root", ALWAYS);
    assert_eq!(judge(&[by_editor, for_editor.clone()]), Ok(()));
    // The root may not certify an author, although the packet names a certificate by the editor.
    let refused = judge(&[by_root, for_editor]).unwrap_err();
    assert_eq!(refused.name, name("/example/blog/author/bob/KEY/1/editor/v=2"));
    assert!(matches!(refused.flaw, ChainFlaw::Refused(_)), "{refused}");
}

#[test]
fn a_key_for_a_prefix_certifies_only_below_it() {
    let (bob, carol) = (key("/bob", "self"), key("/shop/carol", "bob"));
    let mut store = TrustStore::new();
    let wire = self_signed(&bob, 1, ALWAYS).unwrap();
    let rules = Arc::new(PrefixRules::new(name("/bob/KEY/1"), vec![name("/shop")]));
    store.add_anchor_under(&Certificate::decode(&wire).unwrap(), rules).unwrap();
    let dave = key("/bob/dave", "bob");
    let mut network =
        Network::with([issue(&bob, &carol, "bob", ALWAYS), issue(&bob, &dave, "bob", ALWAYS)]);
    assert_eq!(network.judge(&mut store, &signed(&bob, "/shop/list")), Ok(()));
    assert_eq!(network.judge(&mut store, &signed(&carol, "/shop/carol/list")), Ok(()));
    for (by, uri, expected) in [
        (&bob, "/bob/list", "/bob/list is not under /shop, for which /bob/KEY/1 is trusted"),
        (
            &carol,
            "/shop/list",
            "/shop/list is not under /shop/carol, the identity of the key /shop/carol/KEY/1",
        ),
        (
            &dave,
            "/bob/dave/a",
            "/bob/dave/KEY/1/bob/v=1 is not under /shop, for which /bob/KEY/1 is trusted",
        ),
    ] {
        let refused = network.judge(&mut store, &signed(by, uri)).unwrap_err();
        assert_eq!(refused.to_string(), expected);
    }
}

#[test]
fn certificates_never_evict_anchors() {
    let root = key("/org", "self");
    let mut store = trusting(&root);
    for i in 0..xylem_trust::MAX_CERTIFICATES + 50 {
        let member = Signer::ed25519(&[1; 32], name(&format!("/org/{i}/KEY/1")));
        let wire = issue(&root, &member, "org", ALWAYS);
        assert_eq!(store.add(&Certificate::decode(&wire).unwrap(), NOW), Ok(()));
    }
    assert_eq!(store.len(), xylem_trust::MAX_CERTIFICATES);
    assert_eq!(store.data(&Data::decode(&signed(&root, "/org/a")).unwrap(), NOW), Ok(()));
}

/// The blog's key, its editor, an author and a post, judged by a schema.
#[test]
fn a_schema_judges_every_certificate_of_a_chain_and_the_packet() {
    let schema = Arc::new(Schema::compile(include_str!("fixtures/schema/blog.lvs")).unwrap());
    let root = key("/example/blog", "self");
    let editor = key("/example/blog/editor/eve", "root");
    let author = key("/example/blog/author/bob", "editor");
    let under = |schema: &Arc<Schema>| {
        let mut store = TrustStore::new();
        let wire = self_signed(&root, 1, ALWAYS).unwrap();
        store.add_anchor_under(&Certificate::decode(&wire).unwrap(), schema.clone()).unwrap();
        store
    };
    let certificates =
        [issue(&root, &editor, "root", ALWAYS), issue(&editor, &author, "editor", ALWAYS)];

    // Two certificates and the packet need three verifications; afterwards only the packet needs one.
    let (mut store, mut network) = (under(&schema), Network::with(certificates.clone()));
    for title in ["one", "two", "three"] {
        let post = signed(&author, &format!("/example/blog/post/bob/2026/{title}"));
        assert_eq!(network.judge(&mut store, &post), Ok(()));
        assert_eq!((network.asked.len(), store.verifications()), (2, 2));
    }

    let refusal = |certificates: &[Vec<u8>], by: &Signer, uri: &str| {
        let mut network = Network::with(certificates.to_vec());
        network.judge(&mut under(&schema), &signed(by, uri)).unwrap_err().to_string()
    };
    // The author signs under another author's name. The hierarchy would refuse the first case as well.
    assert_eq!(
        refusal(&certificates, &author, "/example/blog/post/alice/2026/one"),
        "/example/blog/post/alice/2026/one may not be signed by \
         /example/blog/author/bob/KEY/1/editor/v=1 under the schema: #post: the key matches \
         #author, but with another value for author"
    );
    assert_eq!(
        refusal(&certificates, &author, "/elsewhere"),
        "/elsewhere may not be signed by /example/blog/author/bob/KEY/1/editor/v=1 under the \
         schema: no rule of the schema matches this name"
    );
    // In the middle of a chain: the root may not certify an author.
    let short = key("/example/blog/author/bob", "root");
    assert_eq!(
        refusal(&[issue(&root, &short, "root", ALWAYS)], &short, "/example/blog/post/bob/2026/one"),
        "/example/blog/author/bob/KEY/1/root/v=1 may not be signed by \
         /example/blog/KEY/1/self/v=1 under the schema: #author: the key has to match \
         #editor, and matches #root"
    );
}
