//! A folder with members decided by a trust schema, as its users start it.
#![cfg(target_os = "linux")]

use crate::common::syncing::Member;
use crate::common::{assert_exit, file, finish, stderr, text, until, xylem};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use xylem_keys::Keyring;
use xylem_packet::Component;
use xylem_trust::{Armor, Certificate, Issue, ValidityPeriod};

/// Staff may write, guests may read.
const PLANS: &str = r#"
#key: "KEY"/_/_/_
#root: "org"/#key
#staff: "org"/"staff"/_/#key <= #root
#guest: "org"/"guest"/_/#key <= #root
#write: "32=sync"/_/"32=write"/_ <= #staff
#read: "32=sync"/_/"32=read"/_ <= #staff | #guest
"#;

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// An organisation with a key, its schema in a file, and Alice's group.
struct World {
    dir: tempfile::TempDir,
    schema: String,
    org: String,
    alice: Member,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().to_path_buf();
        let schema = text(&file(&base, "plans.lvs", PLANS.as_bytes())).to_owned();
        let org = key(&base, "org", "/org");
        let mut alice = Member::new(&base, "alice");
        alice.start_with(None, &["--schema", &schema, "--trust", &org]);
        Self { dir, schema, org, alice }
    }

    fn base(&self) -> &Path {
        self.dir.path()
    }

    /// A member with a key of this name, which the organisation has certified until `until_ms`.
    fn certified(&self, who: &str, name: &str, until_ms: u64) -> Member {
        let own = key(self.base(), who, name);
        self.certify(who, &own, until_ms);
        Member::new(self.base(), who)
    }

    fn certify(&self, who: &str, own: &str, until_ms: u64) {
        let wire = Armor::decode(&std::fs::read(own).unwrap()).unwrap();
        let own = Certificate::decode(&wire).unwrap();
        let issue = Issue {
            key_name: own.key_name(),
            issuer_id: Component::generic(b"org"),
            version: now_ms(),
            public_key: own.public_key(),
            validity: ValidityPeriod { not_before_ms: 0, not_after_ms: until_ms },
        };
        let mut out = Vec::new();
        let org = Keyring::at(&store(self.base(), "org")).signer("/org").unwrap();
        issue.sign(&org, &mut out).unwrap();
        let cert = file(self.base(), &format!("{who}.new"), Armor::bare(&out).as_bytes());
        run(self.base(), who, &["key", "import", text(&cert)]);
    }
}

/// The reason for which this member refuses another one.
fn refuses(member: &Member, who: &str) -> String {
    let mut why = String::new();
    until(&format!("{who} is refused"), || {
        let told = member.told("sync_applies");
        let told = told.iter().find(|told| told["name"] == who);
        why = told.map_or(String::new(), |told| told["why"].as_str().unwrap().to_owned());
        !why.is_empty()
    });
    why
}

fn store(base: &Path, who: &str) -> PathBuf {
    base.join(format!("{who}-store"))
}

fn run(base: &Path, who: &str, args: &[&str]) -> Vec<u8> {
    let mut command = xylem(&store(base, who));
    command.args(args);
    let output = finish(command);
    assert_exit(&output, 0);
    output.stdout
}

/// Makes a key of this name; returns the file of its own certificate.
fn key(base: &Path, who: &str, name: &str) -> String {
    run(base, who, &["key", "new", name]);
    let cert = run(base, who, &["key", "cert", name]);
    text(&file(base, &format!("{who}.cert"), &cert)).to_owned()
}

fn is_away(member: &Member, who: &str) -> bool {
    let told = member.told("sync_member");
    told.iter().rfind(|told| told["name"] == who).is_some_and(|told| told["up"] == false)
}

const LONG: u64 = 10_000_000_000_000;

#[test]
fn certificates_decide_on_writers_readers_and_strangers() {
    let mut world = World::new();
    let ticket = world.alice.ticket.clone();
    world.alice.write("plan", "alice's");
    let mut bob = world.certified("bob", "/org/staff/bob", LONG);
    bob.start_with(Some(&ticket), &["--sign", "key:/org/staff/bob"]);
    let mut carol = world.certified("carol", "/org/guest/carol", LONG);
    // By way of Bob as well as by way of Alice.
    carol.start_with(Some(&bob.ticket), &["--sign", "key:/org/guest/carol"]);
    bob.has("plan", "alice's");
    carol.has("plan", "alice's");
    bob.write("from-bob", "1");
    world.alice.has("from-bob", "1");
    carol.has("from-bob", "1");
    until("carol knows that she only reads", || !carol.told("sync_read_only").is_empty());
    assert!(bob.told("sync_read_only").is_empty());
    carol.write("from-carol", "1");

    // The ticket alone, a self-signed certificate, and a certificate of a name without a rule.
    let mut dave = Member::new(world.base(), "dave");
    dave.start(Some(&ticket));
    assert!(refuses(&world.alice, "dave").contains("has sent no certificate"));
    key(world.base(), "eve", "/org/staff/eve");
    let mut eve = Member::new(world.base(), "eve");
    eve.start_with(Some(&bob.ticket), &["--sign", "key:/org/staff/eve"]);
    let why = refuses(&bob, "eve");
    assert!(why.contains("/org/staff/eve/KEY/") && why.contains("self-signed"), "{why}");
    let mut frank = world.certified("frank", "/org/other/frank", LONG);
    frank.start_with(Some(&ticket), &["--sign", "key:/org/other/frank"]);
    let why = refuses(&world.alice, "frank");
    assert!(why.contains("/org/other/frank/KEY/") && why.contains("under the schema: "), "{why}");

    bob.write("after", "2");
    carol.has("after", "2");
    for stranger in [&dave, &eve, &frank] {
        assert!(stranger.all().is_empty(), "{:?}", stranger.all());
        assert!(stranger.told("sync_member").is_empty(), "it is told of nobody");
    }
    for member in [&world.alice, &bob] {
        assert!(!member.at("from-carol").exists());
    }
    // After a restart all go on where they were, without the options about certificates.
    world.alice.stop();
    bob.stop();
    bob.start(None);
    carol.has("after", "2");
    bob.write("later", "3");
    carol.has("later", "3");
    world.alice.start(None);
    world.alice.has("later", "3");
    assert!(!world.alice.at("from-carol").exists());
}

#[test]
fn a_certificate_that_ends_ends_a_membership_until_there_is_a_new_one() {
    let world = World::new();
    let ticket = world.alice.ticket.clone();
    let ends = now_ms() + 12_000;
    let mut bob = world.certified("bob", "/org/staff/bob", ends);
    bob.start_with(Some(&ticket), &["--sign", "key:/org/staff/bob"]);
    bob.write("before", "1");
    world.alice.has("before", "1");
    until("bob is no member any more", || is_away(&world.alice, "bob"));
    assert!(now_ms() > ends, "not before its time");
    world.alice.write("after", "alice's");
    bob.write("after-bob", "bob's");
    let why = refuses(&world.alice, "bob");
    assert!(why.contains("/org/staff/bob/KEY/") && why.contains("expired at"), "{why}");
    std::thread::sleep(Duration::from_secs(1));
    assert!(!bob.at("after").exists() && !world.alice.at("after-bob").exists());
    bob.stop();
    let own = text(&world.base().join("bob.cert")).to_owned();
    world.certify("bob", &own, LONG);
    bob.start_with(None, &["--sign", "key:/org/staff/bob"]);
    bob.has("after", "alice's");
    world.alice.has("after-bob", "bob's");
}

#[test]
fn another_schema_takes_roles_away_while_all_run() {
    let world = World::new();
    let ticket = world.alice.ticket.clone();
    let mut bob = world.certified("bob", "/org/staff/bob", LONG);
    bob.start_with(Some(&ticket), &["--sign", "key:/org/staff/bob"]);
    let mut carol = world.certified("carol", "/org/guest/carol", LONG);
    carol.start_with(Some(&ticket), &["--sign", "key:/org/guest/carol"]);
    world.alice.write("one", "1");
    bob.has("one", "1");
    carol.has("one", "1");
    let stricter = PLANS.replace("_ <= #staff | #guest", "_ <= #staff");
    let stricter = stricter.replace("_ <= #staff\n#read", "_ <= #root\n#read");
    let stricter = text(&file(world.base(), "new.lvs", stricter.as_bytes())).to_owned();
    let give = |member: &Member, schema: &str| {
        let mut command = member.command();
        command.args(["--schema", schema, "--trust", &world.org]);
        finish(command)
    };
    assert_exit(&give(&world.alice, &stricter), 0);
    until("bob only reads", || !bob.told("sync_read_only").is_empty());
    until("carol is away", || is_away(&world.alice, "carol") && is_away(&bob, "carol"));
    bob.write("from-bob", "1");
    world.alice.write("two", "2");
    bob.has("two", "2");
    assert!(!world.alice.at("from-bob").exists() && !carol.at("two").exists());
    // Only the founder may change the schema.
    let refused = give(&bob, &world.schema);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("only the founder"), "{}", stderr(&refused));
    assert_exit(&give(&world.alice, &world.schema), 0);
    world.alice.has("from-bob", "1");
    carol.has("two", "2");
    let rows: Vec<Value> = world.alice.told("sync_member");
    assert!(rows.iter().all(|told| told["name"] == "bob" || told["name"] == "carol"), "{rows:?}");
}
