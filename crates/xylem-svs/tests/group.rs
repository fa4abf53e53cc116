//! One member against others that are wrong, late, lying or hostile.

use std::time::Duration;

use xylem_packet::{Component, DataBuilder, Interest, InterestBuilder, Name, SignatureType};
use xylem_svs::{
    Anyone, Group, GroupConfig, GroupEvent, GroupMember, StateVector, SyncError, SyncTrust,
    SyncVersion, VectorLimits, VectorOutcome, VectorRefusal, publication_name,
};
use xylem_trust::{CommandStamp, Signer, TrustError, Verifier};

/// Time of the tests, in seconds since 1970.
const TODAY: u64 = 1_700_000_000;
const DAY: u64 = 86_400;

fn name(uri: &str) -> Name {
    Name::from_uri(uri).unwrap()
}

fn group_with(config: impl FnOnce(GroupConfig) -> GroupConfig, version: SyncVersion) -> Group {
    let base = GroupConfig::new(name("/group"), version);
    let base = GroupConfig { name: Some(name("/me")), boot: TODAY, ..base };
    Group::new(config(base), Duration::ZERO, 1).unwrap()
}

fn group(version: SyncVersion) -> Group {
    group_with(|config| config, version)
}

fn signer() -> Signer {
    Signer::hmac(b"secret", name("/key"))
}

fn believe() -> Verifier {
    Verifier::hmac(b"secret")
}

fn vector(entries: &[(&str, u64, u64)]) -> StateVector {
    entries.iter().map(|(uri, boot, n)| (GroupMember::new(name(uri), *boot), *n)).collect()
}

/// The sync Interest of a member with this state at `unix_s`.
fn sync_interest(version: SyncVersion, state: StateVector, unix_s: u64) -> Vec<u8> {
    let config = GroupConfig { state, ..GroupConfig::new(name("/group"), version) };
    let mut other = Group::new(config, Duration::ZERO, 2).unwrap();
    let stamp = CommandStamp::new([1; 8], unix_s * 1000);
    let mut wire = Vec::new();
    assert!(other.poll_transmit(Duration::ZERO, &signer(), stamp, [0; 4], &mut wire).unwrap());
    wire
}

fn hear_by(
    group: &mut Group,
    now: Duration,
    wire: &[u8],
    believe: &mut impl SyncTrust,
) -> Result<VectorOutcome, VectorRefusal> {
    let unix_ms = TODAY * 1000 + u64::try_from(now.as_millis()).unwrap();
    group.receive(now, unix_ms, &Interest::decode(wire).unwrap(), believe)
}

fn hear(group: &mut Group, now: Duration, wire: &[u8]) -> Result<VectorOutcome, VectorRefusal> {
    hear_by(group, now, wire, &mut believe())
}

fn events(group: &mut Group) -> Vec<GroupEvent> {
    std::iter::from_fn(|| group.poll_event()).collect()
}

fn updated(uri: &str, boot: u64, from: u64, to: u64) -> GroupEvent {
    GroupEvent::Updated { member: GroupMember::new(name(uri), boot), from, to }
}

/// Runs from one time to another; returns the number of Interests sent.
fn run(group: &mut Group, from: Duration, to: Duration) -> usize {
    let mut sent = 0;
    let mut now = from;
    loop {
        group.handle_timer(now);
        let stamp = CommandStamp::new([0; 8], TODAY * 1000);
        let mut wire = Vec::new();
        while group.poll_transmit(now, &signer(), stamp, [0; 4], &mut wire).unwrap() {
            sent += 1;
        }
        now = group.next_timer().max(now + Duration::from_millis(1));
        if now > to {
            return sent;
        }
    }
}

#[test]
fn members_of_each_version_understand_each_other() {
    for version in [SyncVersion::V1, SyncVersion::V2, SyncVersion::V3] {
        let boot = if version == SyncVersion::V3 { 5 } else { 0 };
        let mut group = group(version);
        let wire = sync_interest(version, vector(&[("/a", boot, 3), ("/b/c", boot, 1)]), TODAY);
        let interest = Interest::decode(&wire).unwrap();
        assert!(version.prefix(&name("/group")).is_prefix_of(interest.name()));
        assert_eq!(interest.lifetime_ms(), 1000);
        hear(&mut group, Duration::ZERO, &wire).unwrap();
        assert_eq!(events(&mut group), [updated("/a", boot, 1, 3), updated("/b/c", boot, 1, 1)]);
        // Again, and later: no news.
        assert_eq!(hear(&mut group, Duration::from_secs(9), &wire), Ok(VectorOutcome::default()));
        assert_eq!(events(&mut group), []);
        for other in [SyncVersion::V1, SyncVersion::V2, SyncVersion::V3] {
            let mut other_group = group_with(|config| config, other);
            let understood = hear(&mut other_group, Duration::ZERO, &wire).is_ok();
            assert_eq!(understood, other == version);
        }
    }
}

#[test]
fn publications_are_named_as_the_versions_say() {
    let (group, member) = (name("/group"), GroupMember::new(name("/me"), 1_784_322_744));
    let named = |version, n| publication_name(version, &group, &member, n).to_string();
    assert_eq!(named(SyncVersion::V3, 7), "/me/group/t=1784322744/seq=7");
    assert_eq!(named(SyncVersion::V2, 7), "/me/group/%07");
    assert_eq!(named(SyncVersion::V1, 300), "/me/group/%01%2C");
}

#[test]
fn times_far_ahead_and_signatures_of_long_ago_are_refused_whole() {
    let mut group = group(SyncVersion::V3);
    let mut refused = |state: &[(&str, u64, u64)], signed| {
        let wire = sync_interest(SyncVersion::V3, vector(state), signed);
        let result = hear(&mut group, Duration::ZERO, &wire);
        assert_eq!(events(&mut group).is_empty(), result.is_err());
        result.err()
    };
    assert_eq!(
        refused(&[("/a", 1, 1), ("/b", TODAY + DAY + 1, 1)], TODAY),
        Some(VectorRefusal::Future)
    );
    assert_eq!(refused(&[("/a", u64::MAX, 1)], TODAY), Some(VectorRefusal::Future));
    assert_eq!(refused(&[("/a", 1, 1)], TODAY + DAY + 1), Some(VectorRefusal::Future));
    assert_eq!(refused(&[("/a", 1, 1)], TODAY - DAY - 1), Some(VectorRefusal::Stale));
    assert_eq!(refused(&[("/a", 1, 1)], TODAY - DAY), None);
    assert_eq!(refused(&[("/b", TODAY + DAY, 1)], TODAY + DAY), None);
}

#[test]
fn signers_are_verified_before_their_vectors_are_read() {
    let wire = sync_interest(SyncVersion::V3, vector(&[("/a", 1, 1)]), TODAY);
    let mut group = group(SyncVersion::V3);
    let mut other = Verifier::hmac(b"another");
    let refused = hear_by(&mut group, Duration::ZERO, &wire, &mut other);
    assert_eq!(refused, Err(SyncError::from(TrustError::BadSignature).into()));
    // A digest is not a signature of the group.
    let mut data = Vec::new();
    let sync = name("/group").child(Component::version(3));
    DataBuilder::new(sync.as_ref())
        .signature(SignatureType::DIGEST_SHA256, None)
        .encode(&mut data, b"no vector at all", |signed, value| {
            value.extend_from_slice(&xylem_packet::sha256(signed));
        })
        .unwrap();
    let mut wire = Vec::new();
    InterestBuilder::new(sync.as_ref()).encode_with_parameters(&mut wire, &data).unwrap();
    let refused = hear(&mut group, Duration::ZERO, &wire);
    assert!(matches!(
        refused,
        Err(VectorRefusal::Sync(SyncError::Trust(TrustError::WrongType { .. })))
    ));
    // With trust in any signer the error is the missing vector.
    let refused = hear_by(&mut group, Duration::ZERO, &wire, &mut Anyone);
    assert!(matches!(refused, Err(VectorRefusal::Sync(SyncError::Vector(_)))));
    // Versions 1 and 2 sign the Interest.
    for version in [SyncVersion::V1, SyncVersion::V2] {
        let wire = sync_interest(version, vector(&[("/a", 0, 1)]), TODAY);
        let mut group = group_with(|config| config, version);
        let refused = hear_by(&mut group, Duration::ZERO, &wire, &mut other);
        assert_eq!(refused, Err(SyncError::from(TrustError::BadSignature).into()));
    }
}

/// A member of two groups signs for both: its vector for one group can't be replayed in the other.
#[test]
fn a_vector_that_was_signed_for_another_group_is_refused() {
    let mut content = Vec::new();
    vector(&[("/a", 1, 1)]).encode(SyncVersion::V3, &mut content);
    let sync = |group: &str| name(group).child(Component::version(3));
    let carried = |signed_for: &str| {
        let (signed_for, mut data) = (sync(signed_for), Vec::new());
        signer().data(DataBuilder::new(signed_for.as_ref()), &content, &mut data).unwrap();
        let mut wire = Vec::new();
        let to = sync("/group");
        InterestBuilder::new(to.as_ref()).encode_with_parameters(&mut wire, &data).unwrap();
        hear(&mut group(SyncVersion::V3), Duration::ZERO, &wire)
    };
    assert_eq!(carried("/other"), Err(SyncError::OtherName.into()));
    assert_eq!(carried("/group").unwrap().updated, 1);
    // ndnd uses another name, but within the group.
    assert_eq!(carried("/group/node/32=svs").unwrap().updated, 1);
}

/// A million members, 250 in a vector, each correctly signed.
#[test]
fn a_million_members_fill_the_table_and_no_more() {
    let limits = VectorLimits { members: 1000, ..VectorLimits::default() };
    let mut group = group_with(|config| GroupConfig { limits, ..config }, SyncVersion::V3);
    let friend = |n| sync_interest(SyncVersion::V3, vector(&[("/friend", 1, n)]), TODAY);
    hear(&mut group, Duration::ZERO, &friend(1)).unwrap();
    let mut left_out = 0;
    for round in 0..4000_u64 {
        // In turn members with a name of their own each, and 250 lives of one name.
        let members = (0..250).map(|n| {
            let uri = if round % 2 == 0 { format!("/{round}/{n}") } else { "/x".to_owned() };
            (GroupMember::new(name(&uri), round * 250 + n), 1)
        });
        let mut content = Vec::new();
        members.collect::<StateVector>().encode(SyncVersion::V3, &mut content);
        let (sync, mut data, mut wire) = (name("/group/v=3"), Vec::new(), Vec::new());
        signer().data(DataBuilder::new(sync.as_ref()), &content, &mut data).unwrap();
        InterestBuilder::new(sync.as_ref()).encode_with_parameters(&mut wire, &data).unwrap();
        left_out += hear(&mut group, Duration::ZERO, &wire).unwrap().left_out;
        events(&mut group);
    }
    assert_eq!(group.state().len(), 1000);
    assert!(left_out > 490_000, "{left_out}");
    // Vectors of a member known before are still accepted, and ours is still sent.
    hear(
        &mut group,
        Duration::ZERO,
        &sync_interest(SyncVersion::V3, vector(&[("/friend", 1, 9)]), TODAY),
    )
    .unwrap();
    assert_eq!(events(&mut group), [updated("/friend", 1, 2, 9)]);
}

/// A name that fills a packet would displace all others from partial vectors.
#[test]
fn a_name_as_large_as_a_packet_has_no_place() {
    let mut group = group(SyncVersion::V3);
    let long = format!("/{}", "n".repeat(5000));
    let mut content = Vec::new();
    vector(&[(&long, 1, 1), ("/a", 1, 1)]).encode(SyncVersion::V3, &mut content);
    let (sync, mut data, mut wire) = (name("/group/v=3"), Vec::new(), Vec::new());
    signer().data(DataBuilder::new(sync.as_ref()), &content, &mut data).unwrap();
    InterestBuilder::new(sync.as_ref()).encode_with_parameters(&mut wire, &data).unwrap();
    let received = hear(&mut group, Duration::ZERO, &wire).unwrap();
    assert_eq!(received, VectorOutcome { updated: 1, left_out: 1 });
    let own = GroupConfig {
        name: Some(name(&long)),
        ..GroupConfig::new(name("/group"), SyncVersion::V3)
    };
    assert_eq!(Group::new(own, Duration::ZERO, 1).unwrap().publish(Duration::ZERO), None);
}

#[test]
fn the_newest_lives_of_a_member_are_kept() {
    let limits = VectorLimits { boots: 3, ..VectorLimits::default() };
    let mut group = group_with(|config| GroupConfig { limits, ..config }, SyncVersion::V3);
    let mut heard = |boot| {
        let wire = sync_interest(SyncVersion::V3, vector(&[("/a", boot, 1)]), TODAY);
        hear(&mut group, Duration::ZERO, &wire).unwrap()
    };
    let (new, left_out) =
        (VectorOutcome { updated: 1, left_out: 0 }, VectorOutcome { updated: 0, left_out: 1 });
    assert_eq!([10, 30, 20].map(&mut heard), [new; 3]);
    // A life older than those kept is left out; a newer one takes the place of the oldest.
    assert_eq!([5, 40, 10].map(&mut heard), [left_out, new, left_out]);
    let boots: Vec<u64> = group.state().iter().map(|(member, _)| member.boot).collect();
    assert_eq!(boots, [20, 30, 40]);
}

/// A lie about a member costs one event, whatever the number; this member's own number is not changed.
#[test]
fn a_member_that_lies_changes_nothing_of_ours() {
    let mut group = group(SyncVersion::V3);
    assert_eq!(group.publish(Duration::ZERO), Some(1));
    let most = (1 << 53) - 1;
    let lie =
        sync_interest(SyncVersion::V3, vector(&[("/me", TODAY, most), ("/b", 1, most)]), TODAY);
    hear(&mut group, Duration::ZERO, &lie).unwrap();
    hear(&mut group, Duration::ZERO, &lie).unwrap();
    let told = events(&mut group);
    assert_eq!(told.len(), 2);
    assert!(told.contains(&GroupEvent::Ahead { sequence: most }));
    assert!(told.contains(&updated("/b", 1, 1, most)));
    let own = group.own().unwrap().clone();
    assert_eq!(group.sequence(&own), 1);
    // Others would not notice number 2 of this life, but they notice number 1 of the next.
    assert!(!group.restart(TODAY));
    assert!(group.restart(TODAY + 1));
    assert_eq!(group.publish(Duration::ZERO), Some(1));
    // Numbers of an earlier life of this member are accepted.
    let earlier = sync_interest(SyncVersion::V3, vector(&[("/me", 7, 3)]), TODAY);
    hear(&mut group, Duration::ZERO, &earlier).unwrap();
    assert_eq!(events(&mut group), [updated("/me", 7, 1, 3)]);
}

#[test]
fn a_member_that_lost_its_state_gets_an_event() {
    let mut group = group(SyncVersion::V3);
    let wire = sync_interest(SyncVersion::V3, vector(&[("/me", TODAY, 5)]), TODAY);
    hear(&mut group, Duration::ZERO, &wire).unwrap();
    assert_eq!(events(&mut group), [GroupEvent::Ahead { sequence: 5 }]);
}

/// An attacker repeats a recorded vector 20 times a second for ten minutes. Answers become rare.
#[test]
fn a_replayed_vector_is_answered_ever_more_rarely() {
    let state = vector(&[("/a", 1, 5), ("/b", 1, 5)]);
    let mut group = group_with(|config| GroupConfig { state, ..config }, SyncVersion::V3);
    let old = sync_interest(SyncVersion::V3, vector(&[("/a", 1, 4), ("/b", 1, 5)]), TODAY);
    let mut now = Duration::from_secs(60);
    run(&mut group, Duration::ZERO, now);
    let mut sent = 0;
    for _ in 0..12_000 {
        hear(&mut group, now, &old).unwrap();
        let next = now + Duration::from_millis(50);
        sent += run(&mut group, now, next);
        now = next;
    }
    assert_eq!(events(&mut group), []);
    // One in 3.2 s at most, from one or two members.
    assert!((100..=220).contains(&sent), "{sent}");
}

/// A vector that lacks only a recent change was sent before its sender received that change.
#[test]
fn a_vector_that_crossed_a_change_is_not_answered() {
    let state = vector(&[("/a", 1, 5)]);
    let mut group = group_with(|config| GroupConfig { state, ..config }, SyncVersion::V3);
    let mut now = Duration::from_secs(100);
    run(&mut group, Duration::ZERO, now);
    let before = sync_interest(SyncVersion::V3, vector(&[("/a", 1, 5)]), TODAY);
    hear(&mut group, now, &sync_interest(SyncVersion::V3, vector(&[("/a", 1, 6)]), TODAY)).unwrap();
    let timer = group.next_timer();
    now += Duration::from_millis(20);
    hear(&mut group, now, &before).unwrap();
    assert_eq!(group.next_timer(), timer);
    // At rest it is answered, within 200 ms.
    now = Duration::from_secs(200);
    run(&mut group, Duration::from_millis(100_020), now);
    hear(&mut group, now, &before).unwrap();
    assert_eq!(run(&mut group, now, now + Duration::from_millis(200)), 1);
}
