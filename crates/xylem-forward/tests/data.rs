//! Tests of Data: the path back to the consumers, and the content store.

mod common;

use bytes::Bytes;
use common::{What, World, data, data_with, interest, interest_with, link, name, with_token};
use xylem_forward::{CsSettings, DropReason, UnsolicitedPolicy};
use xylem_packet::{Component, Data};

#[test]
fn data_leaves_as_it_came() {
    let mut w = World::new(|_| {});
    let (a, b, up) = (w.local(), w.remote(), w.remote());
    w.route("/", up, 0);
    w.ok(a, &interest("/x", 1));
    w.ok(b, &interest("/x", 2));
    let packet = data("/x");
    let (result, out) = w.raw(up, &packet);
    assert_eq!(result, Ok(()));
    assert_eq!(out.iter().map(|left| left.to).collect::<Vec<_>>(), [a, b]);
    for left in &out {
        assert_eq!((left.at, left.packet.len()), (packet.as_ptr(), packet.len()), "no copy");
        assert_eq!((left.incoming_face, left.token.is_none()), (Some(up), true));
    }
    assert_eq!(w.dropped(up, &packet).0, DropReason::Unsolicited);
}

#[test]
fn tokens_are_echoed() {
    let mut w = World::new(|_| {});
    let (a, b, c, up) = (w.remote(), w.remote(), w.remote(), w.remote());
    w.route("/", up, 0);
    let long = [9; 32];
    // A token is used between two neighbours; it is not forwarded upstream.
    assert_eq!(w.ok(a, with_token(&interest("/x", 1), &[1]))[0].token, None);
    w.ok(b, with_token(&interest("/x", 2), &long));
    w.ok(c, &interest("/x", 3));
    let sent = w.ok(up, &data("/x"));
    let tokens: Vec<_> = sent.iter().map(|s| (s.to, s.token.clone())).collect();
    assert_eq!(tokens, [(a, Some(vec![1])), (b, Some(long.to_vec())), (c, None)]);
    // The newest token of a face is used.
    w.ok(a, with_token(&interest("/y", 4), &[1]));
    w.ok(a, with_token(&interest("/y", 5), &[2]));
    assert_eq!(w.ok(up, &data("/y"))[0].token, Some(vec![2]));
}

#[test]
fn one_data_answers_every_request_that_it_fits() {
    let mut w = World::new(|_| {});
    let faces: Vec<_> = (0..7).map(|_| w.remote()).collect();
    let up = w.remote();
    w.route("/", up, 0);
    let packet = data("/a/b/c");
    let digest = Data::decode(&packet).unwrap().implicit_digest();
    let full = name("/a/b/c").child(Component::implicit_digest(&digest)).to_string();
    let wrong = name("/a/b/c").child(Component::implicit_digest(&[0; 32])).to_string();
    let prefix = |uri, nonce| interest_with(uri, nonce, |i| i.can_be_prefix(true));
    w.ok(faces[0], &interest("/a/b/c", 1));
    w.ok(faces[1], &prefix("/a/b", 2));
    w.ok(faces[2], &prefix("/a", 3));
    w.ok(faces[3], &interest(&full, 4));
    // The Data does not answer these.
    w.ok(faces[4], &interest("/a/b", 5));
    w.ok(faces[5], &prefix("/a/b/c/d", 6));
    w.ok(faces[6], &interest(&wrong, 7));
    let mut to = w.to(up, &packet);
    to.sort();
    assert_eq!(to, faces[..4]);
    assert_eq!(w.forwarder.pit_len(), 3);
    assert_eq!(w.forwarder.totals().satisfied, 4);
    w.pass(5000);
    assert_eq!(w.forwarder.pit_len(), 0);
    assert_eq!(w.dropped(up, &packet).0, DropReason::Unsolicited);
}

#[test]
fn a_face_that_waits_twice_gets_a_copy_per_token() {
    let mut w = World::new(|_| {});
    let (a, b, up) = (w.remote(), w.remote(), w.remote());
    w.route("/", up, 0);
    let prefix = |nonce| interest_with("/a", nonce, |i| i.can_be_prefix(true));
    w.ok(a, &interest("/a/b", 1));
    w.ok(a, &prefix(2));
    w.ok(b, with_token(&interest("/a/b", 3), &[1]));
    w.ok(b, with_token(&prefix(4), &[2]));
    let sent: Vec<_> = w.ok(up, &data("/a/b")).into_iter().map(|s| (s.to, s.token)).collect();
    assert_eq!(sent, [(a, None), (b, Some(vec![1])), (b, Some(vec![2]))]);
}

#[test]
fn only_faces_that_were_asked_may_answer() {
    let mut w = World::new(|config| config.cs_capacity_bytes = 1 << 20);
    let (a, up, stranger) = (w.local(), w.remote(), w.remote());
    w.route("/", up, 0);
    w.ok(a, &interest("/x", 1));
    let forged = data_with("/x", b"forged", 1000);
    assert_eq!(w.dropped(stranger, &forged).0, DropReason::Unsolicited);
    assert_eq!(w.dropped(a, &forged).0, DropReason::Unsolicited);
    assert_eq!(w.forwarder.cs().packets, 0);
    assert_eq!(w.to(up, &data("/x")), [a]);
    assert_eq!(w.dropped(up, &data("/never/asked")).0, DropReason::Unsolicited);
    assert_eq!(w.forwarder.cs().packets, 1);
    assert_eq!(w.forwarder.totals().unsolicited, 3);
}

#[test]
fn unsolicited_data_is_cached_if_the_policy_admits_it() {
    for (word, policy) in UnsolicitedPolicy::ALL {
        let mut w = World::new(|config| {
            config.cs_capacity_bytes = 1 << 20;
            config.unsolicited = policy;
        });
        let (program, neighbour, asker) = (w.local(), w.remote(), w.remote());
        for (face, uri, policies) in [
            (program, "/pushed/here", ["admit-local", "admit-all"]),
            (neighbour, "/pushed/there", ["admit-network", "admit-all"]),
        ] {
            let packet = data(uri);
            match policies.contains(&word) {
                true => {
                    assert!(w.ok(face, &packet).is_empty(), "nobody asked");
                    assert_eq!(w.to(asker, &interest(uri, 1)), [asker], "{word}");
                }
                false => assert_eq!(w.dropped(face, &packet).0, DropReason::Unsolicited, "{word}"),
            }
        }
        // Scope and pending Interests come first.
        assert_eq!(w.dropped(neighbour, &data("/localhost/x")).0, DropReason::Scope);
        w.route("/asked", neighbour, 0);
        w.ok(asker, &interest("/asked", 2));
        for stranger in [program, asker] {
            assert_eq!(w.dropped(stranger, &data("/asked")).0, DropReason::Unsolicited, "{word}");
        }
        assert_eq!(w.to(neighbour, &data("/asked")), [asker]);
    }
}

#[test]
fn a_removed_face_gets_nothing() {
    let mut w = World::new(|_| {});
    let (a, b, up) = (w.remote(), w.remote(), w.remote());
    w.route("/", up, 0);
    w.ok(a, &interest("/x", 1));
    w.ok(b, &interest("/x", 2));
    w.forwarder.remove_face(a);
    assert_eq!(w.to(up, &data("/x")), [b]);
    assert_eq!(w.forwarder.counters(a), None);
}

#[test]
fn congestion_marks_are_forwarded() {
    let mut w = World::new(|_| {});
    let (a, up) = (w.remote(), w.remote());
    w.route("/", up, 0);
    let marked = |packet: &Bytes| link(packet, |lp| lp.mark = Some(1));
    assert_eq!(w.ok(a, marked(&interest("/x", 1)))[0].mark, Some(1));
    assert_eq!(w.ok(up, marked(&data("/x")))[0].mark, Some(1));
}

#[test]
fn counters_count_packets_and_bytes() {
    let mut w = World::new(|_| {});
    let (a, up) = (w.remote(), w.remote());
    w.route("/", up, 0);
    let (question, answer) = (interest("/x", 1), data("/x"));
    w.ok(a, &question);
    w.ok(up, &answer);
    let (ca, cu) = (w.forwarder.counters(a).unwrap(), w.forwarder.counters(up).unwrap());
    assert_eq!((ca.in_interests, ca.out_data, ca.in_data), (1, 1, 0));
    assert_eq!((ca.in_bytes, ca.out_bytes), (question.len() as u64, answer.len() as u64));
    assert_eq!((cu.out_interests, cu.in_data, cu.out_data), (1, 1, 0));
    assert_eq!((cu.out_bytes, cu.in_bytes), (question.len() as u64, answer.len() as u64));
    w.forwarder.remove_face(a);
    let all = w.forwarder.carried();
    assert_eq!((all.in_interests, all.in_data, all.out_interests, all.out_data), (1, 1, 1, 1));
}

/// A world with a content store that holds these Data.
fn stocked(capacity: usize, packets: &[Bytes]) -> (World, xylem_forward::FaceId) {
    let mut w = World::new(|config| config.cs_capacity_bytes = capacity);
    let (app, up) = (w.local(), w.remote());
    w.route("/", up, 0);
    for (nonce, packet) in (1000..).zip(packets) {
        let uri = Data::decode(packet).unwrap().name().to_string();
        w.ok(app, &interest(&uri, nonce));
        w.ok(up, packet);
    }
    (w, app)
}

#[test]
fn cached_data_answer_interests() {
    let (mut w, app) = stocked(1 << 20, &[data("/a/b")]);
    let sent = w.ok(app, with_token(&interest("/a/b", 1), &[5]));
    assert_eq!((sent[0].to, sent[0].what, sent[0].token.clone()), (app, What::Data, Some(vec![5])));
    assert_eq!((w.forwarder.pit_len(), w.forwarder.totals().cs_hits), (0, 1));
    // By prefix only if the Interest allows it.
    assert_eq!(w.ok(app, &interest("/a", 2))[0].what, What::Interest);
    let prefix = interest_with("/a", 3, |i| i.can_be_prefix(true));
    assert_eq!(w.ok(app, &prefix)[0].name, "/a/b");
    // By its digest, and not by another one.
    let digest = Data::decode(&data("/a/b")).unwrap().implicit_digest();
    let full = |digest| name("/a/b").child(Component::implicit_digest(digest)).to_string();
    assert_eq!(w.ok(app, &interest(&full(&digest), 4))[0].what, What::Data);
    assert_eq!(w.ok(app, &interest(&full(&[0; 32]), 5))[0].what, What::Interest);
}

#[test]
fn stale_data_do_not_answer_must_be_fresh() {
    let (mut w, app) = stocked(1 << 20, &[data_with("/a/1", b"", 1000), data_with("/b/1", b"", 0)]);
    let fresh = |uri, nonce| interest_with(uri, nonce, |i| i.must_be_fresh(true));
    assert_eq!(w.ok(app, &fresh("/a/1", 1))[0].what, What::Data);
    assert_eq!(w.ok(app, &fresh("/b/1", 2))[0].what, What::Interest, "never fresh");
    w.pass(1000);
    assert_eq!(w.ok(app, &fresh("/a/1", 3))[0].what, What::Interest, "no longer fresh");
    assert_eq!(w.ok(app, &interest("/a/1", 4))[0].what, What::Data, "but still Data");
    let any = interest_with("/a", 5, |i| i.must_be_fresh(true).can_be_prefix(true));
    assert_eq!(w.ok(app, &any)[0].what, What::Interest);
}

#[test]
fn a_fresh_candidate_is_found_behind_a_stale_one() {
    let packets = [data_with("/a/v=1", b"", 10), data_with("/a/v=2", b"", 10_000)];
    let (mut w, app) = stocked(1 << 20, &packets);
    w.pass(100);
    let any = interest_with("/a", 5, |i| i.must_be_fresh(true).can_be_prefix(true));
    assert_eq!(w.ok(app, &any)[0].name, "/a/v=2");
}

#[test]
fn the_least_recently_used_goes_first_and_bytes_are_bounded() {
    let packets: Vec<Bytes> =
        (0..4).map(|n| data_with(&format!("/x/seg={n}"), &[0; 1000], 0)).collect();
    let capacity = 3 * 1400;
    let (mut w, app) = stocked(capacity, &packets[..3]);
    assert_eq!(w.forwarder.cs().packets, 3);
    assert_eq!(w.ok(app, &interest("/x/seg=0", 1))[0].what, What::Data);
    let up = w.ok(app, &interest("/x/seg=3", 2))[0].to;
    w.ok(up, &packets[3]);
    let (count, used) = (w.forwarder.cs().packets, w.forwarder.cs().bytes);
    assert!(count == 3 && used <= capacity);
    for (n, what) in [(0, What::Data), (1, What::Interest), (2, What::Data), (3, What::Data)] {
        assert_eq!(w.ok(app, &interest(&format!("/x/seg={n}"), 10 + n))[0].what, what, "seg={n}");
    }
    // Of two Data of one name the newer one answers.
    let newer = data_with("/x/seg=0", &[1; 500], 0);
    let fresh = interest_with("/x/seg=0", 20, |i| i.must_be_fresh(true));
    assert_eq!(w.ok(app, &fresh)[0].what, What::Interest);
    w.ok(up, &newer);
    assert_eq!(w.forwarder.cs().packets, 3);
    let (_, out) = w.raw(app, &interest("/x/seg=0", 21));
    assert_eq!(out[0].packet, newer);
    // A Data larger than the whole store is not kept.
    let large = data_with("/large", &[0; 5000], 0);
    w.ok(app, &interest("/large", 22));
    w.ok(up, &large);
    assert_eq!(w.forwarder.cs().packets, 3);
}

/// A packet as the naive store below has it.
struct Held {
    uri: &'static str,
    packet: Bytes,
    fresh_until: u64,
    arrived: usize,
}

/// A content store as its specification describes it: a list, the least recently used first.
#[derive(Default)]
struct NaiveStore {
    held: Vec<Held>,
    arrivals: usize,
}

impl NaiveStore {
    fn insert(&mut self, now: u64, uri: &'static str, packet: Bytes, freshness: u64) {
        let same = self.held.iter().position(|held| held.packet == packet);
        let of_name = self.held.iter().enumerate().filter(|(_, held)| held.uri == uri);
        let oldest = of_name.clone().min_by_key(|(_, held)| held.arrived).map(|(at, _)| at);
        if let Some(at) = same.or(oldest.filter(|_| of_name.count() == 4)) {
            self.held.remove(at);
        } else if self.held.len() == CAPACITY {
            self.held.remove(0);
        }
        self.arrivals += 1;
        self.held.push(Held { uri, packet, fresh_until: now + freshness, arrived: self.arrivals });
    }

    fn find(&mut self, fits: impl Fn(&Held) -> bool) -> Option<Bytes> {
        let fitting = self.held.iter().enumerate().filter(|(_, held)| fits(held));
        let (at, _) = fitting.max_by_key(|(_, held)| held.arrived)?;
        let found = self.held.remove(at);
        let packet = found.packet.clone();
        self.held.push(found);
        Some(packet)
    }
}

/// Packets that the store of the next test has room for.
const CAPACITY: usize = 7;

proptest::proptest! {
    /// Several Data of one name, which an Interest may tell apart by their digests.
    #[test]
    fn the_content_store_agrees_with_a_naive_one(
        steps in proptest::collection::vec((0..8_u8, 0..3_usize, 0..7_u8), 1..120),
    ) {
        const NAMES: [&str; 3] = ["/a", "/a/b", "/c"];
        const FRESHNESS: u64 = 10_000;
        let mut w = World::new(|config| {
            (config.cs_capacity_bytes, config.cs_capacity_packets) = (1 << 20, CAPACITY);
        });
        let (app, up) = (w.local(), w.remote());
        w.route("/", up, 0);
        let (mut naive, mut now) = (NaiveStore::default(), 0);
        for (nonce, (what, uri, number)) in (1..).zip(steps) {
            let uri = NAMES[uri];
            let freshness = if number % 2 == 0 { FRESHNESS } else { 0 };
            let packet = data_with(uri, &[number], freshness);
            let digest = Data::decode(&packet).unwrap().implicit_digest();
            let full = name(uri).child(Component::implicit_digest(&digest)).to_string();
            let (asked, found) = match what {
                0..4 => {
                    // The content store does not answer, so that the Data comes from the producer.
                    let serve = |serve| CsSettings { serve: Some(serve), ..Default::default() };
                    w.forwarder.configure_cs(serve(false));
                    w.ok(app, &interest(uri, nonce));
                    w.ok(up, &packet);
                    w.forwarder.configure_cs(serve(true));
                    naive.insert(now, uri, packet, freshness);
                    proptest::prop_assert_eq!(w.forwarder.cs().packets, naive.held.len());
                    continue;
                }
                4 => (interest(uri, nonce), naive.find(|held| held.uri == uri)),
                5 => (
                    interest_with(uri, nonce, |i| i.must_be_fresh(true)),
                    naive.find(|held| held.uri == uri && now < held.fresh_until),
                ),
                6 => (interest(&full, nonce), naive.find(|held| held.packet == packet)),
                _ => {
                    let limit = u64::from(number);
                    let under = |held: &Held| held.uri.starts_with(uri);
                    let there = naive.held.iter().filter(|held| under(held)).count() as u64;
                    let all = limit >= there;
                    if all {
                        naive.held.retain(|held| !under(held));
                        let erased = w.forwarder.erase_cs(name(uri).as_ref(), Some(limit));
                        proptest::prop_assert_eq!(erased, there);
                    }
                    continue;
                }
            };
            let (_, sent) = w.raw(app, &asked);
            let answer = (sent[0].to == app).then(|| Bytes::from(sent[0].packet.clone()));
            proptest::prop_assert_eq!(answer.as_ref(), found.as_ref());
            if answer.is_none() {
                // The Interest ends.
                w.pass(4_100);
                now += 4_100;
            }
        }
    }
}
