//! The repository's protocol: insertions, removals, checks, and the commands that are refused.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xylem_forward::FaceId;
use xylem_mgmt::{
    NamedPrefix, ProcessId, RepoHost, RepoHostError, RepoNotice, RepoParameters, RepoProtocol,
    RepoReport, RepoResponse, RepoSettings,
};
use xylem_packet::{Component, Data, DataBuilder, Interest, InterestBuilder, Name, NameRef};
use xylem_trust::{
    Certificate, RuleRefusal, Signer, TrustRules, TrustStore, ValidityPeriod, self_signed,
};

const ALWAYS: ValidityPeriod =
    ValidityPeriod { not_before_ms: 0, not_after_ms: 10_000_000_000_000 };

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn key(identity: &str, seed: u8) -> Signer {
    Signer::ed25519(&[seed; 32], name(&format!("{identity}/KEY/{seed}")))
}

/// Packets in memory, with room for so many.
#[derive(Default)]
struct Memory {
    packets: BTreeMap<Vec<u8>, Vec<u8>>,
    room: usize,
    commands: BTreeSet<[u8; 32]>,
    forgotten: Vec<Name>,
    flushes: u64,
    is_durable: bool,
}

impl RepoHost for Memory {
    fn store(&mut self, name: NameRef<'_>, packet: &[u8]) -> Result<(), RepoHostError> {
        if self.packets.len() >= self.room {
            return Err(RepoHostError::Full);
        }
        self.packets.insert(name.value().to_vec(), packet.to_vec());
        Ok(())
    }
    fn contains(&self, name: NameRef<'_>) -> bool {
        self.packets.contains_key(name.value())
    }
    fn remove(&mut self, name: NameRef<'_>) -> Result<bool, RepoHostError> {
        Ok(self.packets.remove(name.value()).is_some())
    }
    fn remembers(&self, digest: &[u8; 32]) -> bool {
        self.commands.contains(digest)
    }
    fn remember(&mut self, digest: [u8; 32]) -> Result<(), RepoHostError> {
        self.commands.insert(digest);
        Ok(())
    }
    fn flush(&mut self) -> u64 {
        self.flushes += 1;
        self.flushes
    }
    fn latest_flush(&self) -> u64 {
        self.flushes
    }
    fn flushed(&self, _: u64, _: u64) -> Option<bool> {
        self.is_durable.then_some(true)
    }
    fn forget_cached(&mut self, name: NameRef<'_>) {
        self.forgotten.push(name.to_name());
    }
    fn now_ms(&self) -> u64 {
        1_700_000_000_000
    }
}

/// A repository that trusts the keys 1 of /alice and 2 of /bob, and a client.
struct Bench {
    repo: RepoProtocol,
    host: Memory,
    now: Duration,
    counter: u8,
    from: FaceId,
}

fn protocol() -> RepoProtocol {
    let mut trust = TrustStore::new();
    for signer in [key("/alice", 1), key("/bob", 2)] {
        let wire = self_signed(&signer, 1, ALWAYS).unwrap();
        trust.add_anchor(&Certificate::decode(&wire).unwrap()).unwrap();
    }
    let signer = Signer::digest_sha256();
    RepoProtocol::new(RepoSettings { prefix: name("/repo"), trust, signer, seed: 5 })
}

impl Bench {
    fn new() -> Self {
        let host = Memory { room: 1_000, is_durable: true, ..Memory::default() };
        Bench { repo: protocol(), host, now: Duration::ZERO, counter: 0, from: FaceId(1) }
    }

    fn interest(&mut self, wire: &[u8]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let interest = Interest::decode(wire).unwrap();
        assert!(self.repo.handle_interest(
            self.now,
            self.from,
            &interest,
            &mut self.host,
            &mut out
        ));
        out
    }

    fn data(&mut self, wire: &[u8]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        self.repo.handle_reply(self.now, wire, &mut self.host, &mut out);
        out
    }

    fn later(&mut self, ms: u64) -> Vec<Vec<u8>> {
        self.now += Duration::from_millis(ms);
        let mut out = Vec::new();
        self.repo.handle_timeout(self.now, &mut self.host, &mut out);
        out
    }

    /// Sends a notice. Returns it, and the name of the command that the repository requests.
    fn notice(&mut self, verb: &str) -> (Vec<u8>, Option<Name>) {
        self.counter += 1;
        let notice = RepoNotice {
            publisher: Some(name("/client")),
            nonce: ProcessId::new(&[self.counter; 4]),
            forwarding_hint: None,
        };
        let mut parameters = Vec::new();
        notice.write_value(&mut parameters);
        let mut wire = Vec::new();
        let notice_name = name(&format!("/repo/{verb}/notify"));
        InterestBuilder::new(notice_name.as_ref())
            .encode_with_parameters(&mut wire, &parameters)
            .unwrap();
        let out = self.interest(&wire);
        (wire, out.first().map(|it| Interest::decode(it).unwrap().name().to_name()))
    }

    /// Gives a command. Returns the command itself, and what the repository sends.
    fn command(
        &mut self,
        verb: &str,
        parameters: &RepoParameters,
        signer: &Signer,
    ) -> (Vec<u8>, Vec<Vec<u8>>) {
        let (_, command) = self.notice(verb);
        let mut content = Vec::new();
        parameters.write_value(&mut content);
        let wire = data(&command.unwrap(), &content, signer, None);
        let out = self.data(&wire);
        (wire, out)
    }

    /// The code that a check gets, and the number of packets.
    fn check(&mut self, verb: &str, process: &ProcessId) -> (u64, Option<u64>) {
        let mut parameters = Vec::new();
        let process = Some(process.clone());
        RepoParameters { process, ..RepoParameters::default() }.write_value(&mut parameters);
        let check = name("/repo").child(Component::generic(format!("{verb} check").as_bytes()));
        let check = check.child(Component::generic(&parameters));
        let mut wire = Vec::new();
        InterestBuilder::new(check.as_ref()).must_be_fresh(true).encode(&mut wire).unwrap();
        let out = self.interest(&wire);
        let answer = Data::decode(&out[0]).unwrap();
        assert_eq!(answer.name(), check.as_ref());
        let response = RepoResponse::from_value(answer.content()).unwrap();
        (response.status_code.unwrap(), response.insert_num.or(response.delete_num))
    }
}

fn data(of: &Name, content: &[u8], signer: &Signer, last: Option<u64>) -> Vec<u8> {
    let mut builder = DataBuilder::new(of.as_ref());
    if let Some(last) = last {
        builder = builder.final_block_id(Component::segment(last));
    }
    let mut wire = Vec::new();
    signer.data(builder, content, &mut wire).unwrap();
    wire
}

fn parameters(of: &str, blocks: Option<(u64, u64)>, process: u8) -> RepoParameters {
    RepoParameters {
        name: Some(name(of)),
        // As python-ndn sends it.
        forwarding_hint: Some(NamedPrefix { name: None }),
        start_block: blocks.map(|it| it.0),
        end_block: blocks.map(|it| it.1),
        process: ProcessId::new(&[process; 4]),
        ..RepoParameters::default()
    }
}

fn requested(out: &[Vec<u8>]) -> Vec<Name> {
    let interests = out.iter().filter_map(|it| Interest::decode(it).ok());
    interests.map(|interest| interest.name().to_name()).collect()
}

/// Answers the requests of an insertion until there are none.
fn answer_all(bench: &mut Bench, out: Vec<Vec<u8>>, signer: &Signer, last: u64) -> usize {
    let mut requests = requested(&out);
    let mut answered = 0;
    while let Some(next) = requests.pop() {
        let out = bench.data(&data(&next, b"content", signer, Some(last)));
        requests.extend(requested(&out));
        assert!(requests.len() <= 10, "at most ten at the same time");
        answered += 1;
    }
    answered
}

#[test]
fn an_insertion_fetches_all_segments_and_a_removal_removes_them() {
    let mut bench = Bench::new();
    let alice = key("/alice", 1);
    let process = ProcessId::new(&[7; 4]).unwrap();
    assert_eq!(bench.check("insert", &process), (404, None));
    let (_, out) = bench.command("insert", &parameters("/alice/file", Some((0, 24)), 7), &alice);
    assert_eq!(out.iter().filter(|it| Data::decode(it).is_ok()).count(), 1, "the notice's answer");
    assert_eq!(bench.check("insert", &process), (300, Some(0)));
    assert_eq!(answer_all(&mut bench, out, &alice, 24), 25);
    assert_eq!(bench.check("insert", &process), (200, Some(25)));
    assert_eq!(bench.host.packets.len(), 25);
    let inserted = RepoReport::Inserted { name: name("/alice/file"), packets: 25, failed: None };
    assert_eq!(bench.repo.take_reports(), [inserted]);

    // Some of them, then the rest.
    let process = ProcessId::new(&[8; 4]).unwrap();
    bench.command("delete", &parameters("/alice/file", Some((0, 3)), 8), &alice);
    assert_eq!(bench.check("delete", &process), (200, Some(4)));
    let process = ProcessId::new(&[9; 4]).unwrap();
    let (_, out) =
        bench.command("delete", &parameters("/alice/file", Some((4, u64::MAX)), 9), &alice);
    assert!(requested(&out).is_empty());
    assert_eq!(bench.check("delete", &process), (200, Some(21)));
    assert!(bench.host.packets.is_empty());
    assert_eq!(bench.host.forgotten.len(), 25, "the cache has none of them, either");
    // Checks are answered for a minute.
    bench.later(60_001);
    assert_eq!(bench.check("delete", &process), (404, None));
}

#[test]
fn one_packet_is_inserted_and_removed_by_its_name() {
    let mut bench = Bench::new();
    let alice = key("/alice", 1);
    let (_, out) = bench.command("insert", &parameters("/alice/one", None, 1), &alice);
    assert_eq!(requested(&out), [name("/alice/one")]);
    bench.data(&data(&name("/alice/one"), b"1", &alice, None));
    assert_eq!(bench.host.packets.len(), 1);
    bench.command("delete", &parameters("/alice/one", None, 2), &alice);
    assert!(bench.host.packets.is_empty());
}

#[test]
fn an_insertion_of_unknown_length_ends_at_the_last_segment() {
    let mut bench = Bench::new();
    let alice = key("/alice", 1);
    let mut unknown = parameters("/alice/file", None, 1);
    unknown.start_block = Some(0);
    let (_, out) = bench.command("insert", &unknown, &alice);
    assert_eq!(requested(&out).len(), 10);
    assert_eq!(answer_all(&mut bench, out, &alice, 4).min(10), 10, "those behind the end too");
    assert_eq!(bench.check("insert", &ProcessId::new(&[1; 4]).unwrap()).0, 200);
}

#[test]
fn a_gap_is_no_end_of_an_insertion_of_unknown_length() {
    let alice = key("/alice", 1);
    let mut unknown = parameters("/alice/file", None, 1);
    unknown.start_block = Some(0);
    let process = ProcessId::new(&[1; 4]).unwrap();
    // Segments that are answered; the segment that is forged.
    for (answered, forged, expected) in [
        (vec![0, 1, 2, 3, 4, 6], None, (400, Some(6))),
        (vec![0, 1, 2, 3, 4], Some(5), (400, Some(5))),
        (vec![0, 1, 2, 3, 4], Some(7), (400, Some(5))),
        (vec![0, 1, 2, 3, 4], None, (200, Some(5))),
    ] {
        let mut bench = Bench::new();
        bench.command("insert", &unknown, &alice);
        let segment = |n| name("/alice/file").child(Component::segment(n));
        for n in answered {
            bench.data(&data(&segment(n), b"content", &alice, None));
        }
        for i in 0..4 {
            // One refusal is enough: something is there.
            if let (Some(forged), 1) = (forged, i) {
                bench.data(&data(&segment(forged), b"forged", &key("/alice", 4), None));
            }
            bench.later(1_000);
        }
        assert_eq!(bench.check("insert", &process), expected, "forged: {forged:?}");
    }
}

#[test]
fn without_an_answer_an_insertion_fails_after_three_tries() {
    let mut bench = Bench::new();
    let alice = key("/alice", 1);
    let (_, out) = bench.command("insert", &parameters("/alice/file", Some((0, 1)), 1), &alice);
    assert_eq!(requested(&out).len(), 2);
    bench.data(&data(&name("/alice/file/seg=0"), b"0", &alice, Some(1)));
    for _ in 0..2 {
        assert_eq!(requested(&bench.later(1_000)), [name("/alice/file/seg=1")]);
    }
    assert!(requested(&bench.later(1_000)).is_empty());
    assert_eq!(bench.check("insert", &ProcessId::new(&[1; 4]).unwrap()), (400, Some(1)));
}

#[test]
fn commands_of_other_keys_and_for_other_names_are_refused() {
    let mut bench = Bench::new();
    let (alice, bob, mallory) = (key("/alice", 1), key("/bob", 2), key("/alice", 3));
    let digest = Signer::digest_sha256();
    let cases = [
        ("/alice/file", &mallory),
        ("/alice/file", &digest),
        ("/alice/file", &bob),
        ("/repo/insert", &alice),
        ("/", &alice),
        ("/localhost/alice", &alice),
    ];
    for (i, (of, signer)) in cases.into_iter().enumerate() {
        for verb in ["insert", "delete"] {
            let process = 100 + i as u8;
            let (_, out) = bench.command(verb, &parameters(of, Some((0, 3)), process), signer);
            assert!(requested(&out).is_empty(), "{of}");
            let code = bench.check(verb, &ProcessId::new(&[process; 4]).unwrap()).0;
            // Anyone could fill the list of refusals.
            let is_forged = i < 2;
            assert!(
                if is_forged { code == 404 } else { [400, 403].contains(&code) },
                "{of}: {code}"
            );
        }
    }
    assert!(bench.host.commands.is_empty());
}

#[test]
fn a_recorded_command_works_once_also_after_a_restart() {
    let mut bench = Bench::new();
    let alice = key("/alice", 1);
    let (_, out) = bench.command("insert", &parameters("/alice/file", Some((0, 0)), 1), &alice);
    answer_all(&mut bench, out, &alice, 0);
    let (recorded, _) =
        bench.command("delete", &parameters("/alice/file", Some((0, 0)), 2), &alice);
    let (_, out) = bench.command("insert", &parameters("/alice/file", Some((0, 0)), 3), &alice);
    answer_all(&mut bench, out, &alice, 0);
    for restarted in [false, true] {
        if restarted {
            bench.repo = protocol();
        }
        // The recorded command's nonce, by a notice of the attacker.
        let counter = std::mem::replace(&mut bench.counter, 1);
        let (_, wanted) = bench.notice("delete");
        bench.counter = counter;
        assert_eq!(wanted.unwrap().as_ref(), Data::decode(&recorded).unwrap().name());
        bench.data(&recorded);
        assert_eq!(bench.host.packets.len(), 1, "restarted: {restarted}");
    }
}

#[test]
fn forged_packets_are_not_stored() {
    let mut bench = Bench::new();
    let (alice, bob) = (key("/alice", 1), key("/bob", 2));
    let (_, out) = bench.command("insert", &parameters("/alice/file", Some((0, 0)), 1), &alice);
    let wanted = requested(&out).remove(0);
    for forger in [&bob, &key("/alice", 4), &Signer::digest_sha256()] {
        let out = bench.data(&data(&wanted, b"forged", forger, Some(0)));
        assert!(bench.host.packets.is_empty());
        assert_eq!(bench.host.forgotten.pop().as_ref(), Some(&wanted));
        let _ = out;
    }
    let code = bench.check("insert", &ProcessId::new(&[1; 4]).unwrap()).0;
    assert_eq!(code, 400, "three forged answers end the insertion");
    // The genuine one after a forged one is stored.
    let (_, out) = bench.command("insert", &parameters("/alice/file", Some((0, 0)), 2), &alice);
    let again = bench.data(&data(&requested(&out)[0], b"forged", &bob, Some(0)));
    assert_eq!(requested(&again), std::slice::from_ref(&wanted));
    bench.data(&data(&wanted, b"genuine", &alice, Some(0)));
    assert_eq!(bench.check("insert", &ProcessId::new(&[2; 4]).unwrap()), (200, Some(1)));
}

#[test]
fn a_full_repository_ends_the_insertion() {
    let mut bench = Bench::new();
    bench.host.room = 3;
    let alice = key("/alice", 1);
    let (_, out) = bench.command("insert", &parameters("/alice/file", Some((0, 9)), 1), &alice);
    answer_all(&mut bench, out, &alice, 9);
    assert_eq!(bench.check("insert", &ProcessId::new(&[1; 4]).unwrap()), (400, Some(3)));
}

#[test]
fn success_is_reported_once_the_disk_has_it() {
    let mut bench = Bench::new();
    bench.host.is_durable = false;
    let alice = key("/alice", 1);
    let (_, out) = bench.command("insert", &parameters("/alice/one", None, 1), &alice);
    answer_all(&mut bench, out, &alice, 0);
    let process = ProcessId::new(&[1; 4]).unwrap();
    assert_eq!(bench.check("insert", &process).0, 300);
    bench.host.is_durable = true;
    assert!(bench.repo.poll_timeout().is_some_and(|due| due <= bench.now + Duration::from_secs(1)));
    bench.later(20);
    assert_eq!(bench.check("insert", &process).0, 200);
}

#[test]
fn notices_of_strangers_cost_a_bounded_number_of_requests() {
    let mut bench = Bench::new();
    let requests = |bench: &mut Bench, face, count| {
        bench.from = FaceId(face);
        (0..count).filter(|_| bench.notice("insert").1.is_some()).count()
    };
    assert_eq!(requests(&mut bench, 1, 40), 16, "of one face");
    for face in 2..=4 {
        assert_eq!(requests(&mut bench, face, 20), 16);
    }
    // Another face has its share all the same, and no more.
    assert_eq!(requests(&mut bench, 5, 20), 12);
    for _ in 0..3 {
        assert!(bench.later(1_000).len() <= 64);
    }
    assert_eq!(bench.repo.poll_timeout(), None, "all are given up");
}

#[test]
fn notices_and_checks_of_a_face_are_limited_per_second() {
    let mut bench = Bench::new();
    let alice = key("/alice", 1);
    let mut unknown = Vec::new();
    RepoParameters::default().write_value(&mut unknown);
    let check = name("/repo/insert%20check").child(Component::generic(&unknown));
    let mut wire = Vec::new();
    InterestBuilder::new(check.as_ref()).encode(&mut wire).unwrap();
    let answers =
        |bench: &mut Bench, count| (0..count).map(|_| bench.interest(&wire).len()).sum::<usize>();
    assert_eq!(answers(&mut bench, 300), 100);
    bench.later(1_000);
    assert_eq!(answers(&mut bench, 300), 50);
    bench.from = FaceId(2);
    assert_eq!(answers(&mut bench, 10), 10, "another face has its own");

    // Each notice leads to a command, so that none waits for room.
    let commands = |bench: &mut Bench, count: u8| {
        let mut requests = 0;
        for _ in 0..count {
            let Some(command) = bench.notice("insert").1 else { continue };
            requests += 1;
            bench.data(&data(&command, b"", &alice, None));
        }
        requests
    };
    assert_eq!(commands(&mut bench, 100), 64);
    bench.later(1_000);
    assert_eq!(commands(&mut bench, 100), 10);
}

#[test]
fn a_forged_command_does_not_keep_the_genuine_one_away() {
    let mut bench = Bench::new();
    let (alice, mallory) = (key("/alice", 1), key("/alice", 3));
    let (_, command) = bench.notice("insert");
    let command = command.unwrap();
    let mut content = Vec::new();
    parameters("/alice/one", None, 1).write_value(&mut content);
    assert!(bench.data(&data(&command, &content, &mallory, None)).is_empty(), "no answer yet");
    assert_eq!(requested(&bench.later(0)), std::slice::from_ref(&command), "at once");
    let out = bench.data(&data(&command, &content, &alice, None));
    assert_eq!(requested(&out), [name("/alice/one")]);
    // Forgeries alone are given up after three tries.
    let (_, command) = bench.notice("insert");
    let command = command.unwrap();
    for _ in 0..3 {
        bench.data(&data(&command, &content, &mallory, None));
        bench.later(0);
    }
    assert!(bench.data(&data(&command, &content, &alice, None)).is_empty());
}

#[test]
fn a_command_for_which_there_is_no_room_is_not_answered() {
    let mut bench = Bench::new();
    let alice = key("/alice", 1);
    for process in 0..80 {
        let of = parameters(&format!("/alice/{process}"), None, process);
        bench.from = FaceId(u64::from(process));
        assert!(!bench.command("insert", &of, &alice).1.is_empty());
    }
    let (command, out) = bench.command("insert", &parameters("/alice/x", None, 200), &alice);
    assert!(out.is_empty());
    // It is requested again, and obeyed once there is room.
    for _ in 0..2 {
        let again = requested(&bench.later(1_000));
        assert!(again.iter().any(|it| it.as_ref() == Data::decode(&command).unwrap().name()));
    }
    bench.data(&data(&name("/alice/0"), b"", &alice, None));
    let out = bench.data(&command);
    assert_eq!(out.iter().filter(|it| Data::decode(it).is_ok()).count(), 1, "the answer");
    let process = ProcessId::new(&[200; 4]).unwrap();
    assert_eq!(bench.check("insert", &process).0, 300);
}

/// Rules that allow packets of three components alone.
#[derive(Debug)]
struct SegmentRules;

impl TrustRules for SegmentRules {
    fn allows(&self, packet: NameRef<'_>, _: NameRef<'_>) -> Result<(), RuleRefusal> {
        let is_allowed = packet.len() == 3;
        is_allowed.then_some(()).ok_or_else(|| RuleRefusal("may not be signed by it".into()))
    }
}

#[test]
fn a_removal_spares_the_packet_that_its_key_may_not_sign() {
    let mut trust = TrustStore::new();
    let alice = key("/alice", 1);
    let wire = self_signed(&alice, 1, ALWAYS).unwrap();
    let certificate = Certificate::decode(&wire).unwrap();
    trust.add_anchor_under(&certificate, Arc::new(SegmentRules)).unwrap();
    let signer = Signer::digest_sha256();
    let settings = RepoSettings { prefix: name("/repo"), trust, signer, seed: 5 };
    let mut bench = Bench { repo: RepoProtocol::new(settings), ..Bench::new() };
    for uri in ["/alice/file", "/alice/file/seg=0", "/alice/file/seg=1"] {
        bench.host.store(name(uri).as_ref(), b"packet").unwrap();
    }
    bench.command("delete", &parameters("/alice/file", None, 1), &alice);
    assert_eq!(bench.check("delete", &ProcessId::new(&[1; 4]).unwrap()), (200, Some(2)));
    assert!(bench.host.contains(name("/alice/file").as_ref()));
}
