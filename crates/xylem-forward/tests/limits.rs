//! Tests of the limits under floods.

mod common;

use bytes::Bytes;
use common::{World, data, interest, interest_with, name, with_token};
use xylem_forward::{CsSettings, DropReason, FaceScope, FaceSettings};

#[test]
fn a_faces_rate_of_interests_is_limited() {
    let mut w = World::new(|_| {});
    let mut settings = FaceSettings::from(FaceScope::NonLocal);
    settings.interests_per_second = Some(10);
    let (fast, other, up) = (w.forwarder.add_face(settings), w.remote(), w.remote());
    w.route("/", up, 0);
    let mut nonce = 0;
    let mut accepted = |w: &mut World, face| {
        nonce += 1;
        w.raw(face, &interest(&format!("/x/{nonce}"), nonce)).0
    };
    let burst: Vec<_> = (0..50).map(|_| accepted(&mut w, fast)).collect();
    assert_eq!(burst.iter().filter(|result| result.is_ok()).count(), 10);
    assert_eq!(burst[49], Err(DropReason::RateLimit));
    assert_eq!(accepted(&mut w, other), Ok(()), "the others' share is theirs");
    let mut steady = 0;
    for _ in 0..100 {
        w.pass(20);
        steady += usize::from(accepted(&mut w, fast).is_ok());
    }
    assert_eq!(steady, 20, "ten a second for two seconds");
    assert_eq!(w.forwarder.totals().limited, 40 + 80);
    assert_eq!(w.forwarder.face_settings(fast), Some(settings));
}

#[test]
fn the_pit_quota_of_a_face_is_enforced() {
    let mut w = World::new(|config| config.cs_capacity_bytes = 1 << 20);
    let mut settings = FaceSettings::from(FaceScope::NonLocal);
    settings.pit_quota = Some(3);
    let (greedy, other, up) = (w.forwarder.add_face(settings), w.remote(), w.remote());
    w.route("/", up, 0);
    for n in 0..3 {
        w.ok(greedy, &interest(&format!("/x/{n}"), n));
    }
    let evicted = |w: &World| w.forwarder.totals().evicted;
    // One Interest more evicts the oldest, and no Nack is sent.
    assert_eq!(w.to(greedy, &interest("/x/3", 3)), [up]);
    assert_eq!((evicted(&w), w.forwarder.pit_len()), (1, 3));
    assert_eq!(w.dropped(up, &data("/x/0")).0, DropReason::Unsolicited);
    // A retransmission is no new request, and one answered from the cache does not wait.
    w.ok(greedy, &interest("/x/2", 4));
    w.ok(other, &interest("/c", 5));
    w.ok(up, &data("/c"));
    assert_eq!(w.to(greedy, &interest("/c", 6)), [greedy]);
    assert_eq!(evicted(&w), 1);
    // Joining counts, because it takes a record. The other face continues to wait.
    w.ok(other, &interest("/y", 7));
    w.ok(greedy, &interest("/y", 8));
    for n in 4..7 {
        w.ok(greedy, &interest(&format!("/x/{n}"), n + 10));
    }
    assert_eq!(evicted(&w), 5, "/x/1, /x/2, /x/3 and its part in /y");
    assert_eq!(w.to(up, &data("/y")), [other]);
    // Answers, Nacks and expiry make room.
    w.ok(up, &data("/x/4"));
    w.ok(greedy, &interest("/x/7", 20));
    assert_eq!(evicted(&w), 5);
    w.pass(5000);
    for n in 8..11 {
        w.ok(greedy, &interest(&format!("/x/{n}"), 100 + n));
    }
    assert_eq!(evicted(&w), 5);
    // A quota of zero permits no Interest.
    settings.pit_quota = Some(0);
    let nothing = w.forwarder.add_face(settings);
    assert_eq!(w.dropped(nothing, &interest("/z", 200)).0, DropReason::Quota);
}

/// A face that sends unanswered Interests fills the table. Faces with few Interests keep all of them.
#[test]
fn a_flood_evicts_only_itself() {
    const CAPACITY: usize = 1_000;
    let mut w = World::new(|config| config.pit_capacity = CAPACITY);
    let (flood, up) = (w.remote(), w.remote());
    let honest: Vec<_> = (0..10).map(|_| w.remote()).collect();
    w.route("/", up, 0);
    let mut nonce = 0;
    let mut asked = |w: &mut World, face, uri: &str| {
        nonce += 1;
        w.to(face, &interest(uri, nonce))
    };
    for n in 0..CAPACITY {
        asked(&mut w, flood, &format!("/flood/{n}"));
    }
    for (i, face) in honest.iter().enumerate() {
        for n in 0..8 {
            assert_eq!(asked(&mut w, *face, &format!("/honest/{i}/{n}")), [up], "no place for it");
        }
    }
    for n in 0..20_000 {
        asked(&mut w, flood, &format!("/flood/again/{n}"));
    }
    assert_eq!(w.forwarder.pit_len(), CAPACITY);
    for (i, face) in honest.iter().enumerate() {
        for n in 0..8 {
            assert_eq!(w.to(up, &data(&format!("/honest/{i}/{n}"))), [*face]);
        }
    }
    // The newest Interests of the flood are those that are left.
    assert_eq!(w.to(up, &data("/flood/again/19999")), [flood]);
    assert_eq!(w.dropped(up, &data("/flood/again/18000")).0, DropReason::Unsolicited);
}

/// Useless packets count for the face that sent them. The count decays with time.
#[test]
fn a_face_with_many_useless_packets_is_held_back() {
    let mut w = World::new(|_| {});
    let (flood, honest, busy, up) = (w.remote(), w.remote(), w.remote(), w.remote());
    w.route("/there", up, 0);
    let rests = |w: &World, face| w.forwarder.held_back_until(w.now, face);
    let mut nonce = 0;
    let mut in_vain = |w: &mut World, face| {
        nonce += 1;
        assert_eq!(w.dropped(face, &interest("/nowhere", nonce)).0, DropReason::NoRoute);
    };
    let ms = core::time::Duration::from_millis;
    for _ in 0..1_000 {
        in_vain(&mut w, flood);
    }
    assert_eq!(rests(&w, flood), None, "as long as it is not much for all together");
    for _ in 0..20 {
        in_vain(&mut w, flood);
    }
    assert_eq!(rests(&w, flood), Some(w.now + ms(2)), "until all together are within bounds");
    // A face with few useless packets goes on, and so does one that received as much Data as it had useless packets.
    for _ in 0..400 {
        in_vain(&mut w, honest);
    }
    assert!(rests(&w, flood).is_some() && rests(&w, honest).is_none());
    for n in 0..700u32 {
        in_vain(&mut w, busy);
        w.ok(busy, &interest(&format!("/there/busy/{n}"), n));
        w.ok(up, &data(&format!("/there/busy/{n}")));
    }
    assert_eq!(rests(&w, busy), None);
    for n in 0..10_000 {
        match n % 2 {
            0 => in_vain(&mut w, flood),
            _ => assert!(w.raw(flood, &Bytes::from_static(b"no packet")).0.is_err()),
        }
    }
    assert_eq!(rests(&w, flood), Some(w.now + ms(250)), "and no longer");
    w.pass(2_500);
    // A face that is mostly answered is never held back.
    for n in 0..2_000u32 {
        w.ok(honest, &interest(&format!("/there/{n}"), n));
        w.ok(up, &data(&format!("/there/{n}")));
        if n % 2 == 0 {
            in_vain(&mut w, honest);
        }
        assert_eq!(rests(&w, honest), None);
        w.pass(5);
    }
    assert_eq!(rests(&w, flood), None, "ten seconds later");
}

/// A removed face takes its Interests along, so that faces that come and go fill nothing.
#[test]
fn removing_a_face_removes_its_interests() {
    let mut w = World::new(|config| config.pit_capacity = 100);
    let (other, up) = (w.remote(), w.remote());
    w.route("/", up, 0);
    w.ok(other, &interest("/x/0", 1));
    for round in 0..10 {
        let face = w.remote();
        for n in 0..50 {
            w.ok(face, &interest(&format!("/x/{n}"), 1_000 * (round + 1) + n));
        }
        assert_eq!(w.forwarder.pit_len(), 50);
        w.forwarder.remove_face(face);
        assert_eq!(w.forwarder.pit_len(), 1);
    }
    assert_eq!(w.forwarder.totals().evicted, 0);
    assert_eq!(w.to(up, &data("/x/0")), [other]);
}

#[test]
fn a_flood_stays_within_the_memory_limits() {
    const CAPACITY: usize = 5_000;
    let mut w = World::new(|config| {
        config.pit_capacity = CAPACITY;
        config.pit_name_bytes = Some(CAPACITY * 64);
    });
    let faces: Vec<_> = (0..50).map(|_| w.remote()).collect();
    let up = w.remote();
    w.route("/", up, 0);
    let mut memory = 0;
    for round in 0..3u32 {
        for n in 0..40_000u32 {
            let nonce = round * 100_000 + n;
            let long = "y".repeat((n % 500) as usize);
            // Few names and many faces, or many names; long names, and tokens of 32 octets.
            let uri = if n % 2 == 0 { format!("/x/{}", n % 64) } else { format!("/{n}/{long}") };
            let frame = with_token(&interest(&uri, nonce), &[n as u8; 32]);
            let _ = w.raw(faces[n as usize % 50], frame);
        }
        assert!(w.forwarder.pit_len() <= CAPACITY);
        // An entry and its bucket, a further record of each kind, and its share of names.
        let most = CAPACITY * (184 + 8 + 48 + 48 + 64) + 4 * 1024 * 184;
        let now = w.forwarder.pit_memory();
        assert!(now <= most, "{now} bytes, {most} allowed");
        assert!(round == 0 || now == memory, "a second flood takes nothing more");
        memory = now;
        w.pass(10_000);
        assert_eq!(w.forwarder.pit_len(), 0);
    }
    assert!(w.forwarder.totals().evicted > 0);
    // The forwarder still works.
    assert_eq!(w.to(faces[0], &interest("/after", 1)), [up]);
    assert_eq!(w.to(up, &data("/after")), [faces[0]]);
}

#[test]
fn long_names_count_against_the_limits() {
    let mut w = World::new(|config| {
        config.pit_capacity = 1000;
        config.pit_name_bytes = Some(10_000);
    });
    let (app, up) = (w.local(), w.remote());
    w.route("/", up, 0);
    let uri = |n: u32| format!("/{}/{n}", "x".repeat(4000));
    w.ok(app, &interest(&uri(0), 0));
    w.ok(app, &interest(&uri(1), 1));
    assert_eq!(w.to(app, &interest(&uri(2), 2)), [up]);
    assert_eq!((w.forwarder.pit_len(), w.forwarder.totals().evicted), (2, 1), "one made room");
    assert_eq!(w.to(app, &interest("/short", 3)), [up], "short ones need no more");
    // An Interest that needs more room than there is evicts only Interests of the faces with the highest load.
    let other = w.remote();
    w.ok(other, &interest("/other", 4));
    let longest = format!("/{}", "x".repeat(8_000));
    assert_eq!(w.to(app, &interest(&longest, 5)), [up]);
    assert_eq!(w.to(up, &data("/other")), [other]);
    // Names with very many components match as others do.
    let deep = "/d".repeat(600);
    w.ok(app, &interest_with(&deep, 4, |i| i.can_be_prefix(true)));
    assert_eq!(w.to(up, &data(&format!("{deep}/more"))), [app]);
}

#[test]
fn the_content_store_can_be_reconfigured() {
    let mut w = World::new(|config| config.cs_capacity_bytes = 1 << 20);
    let (app, up) = (w.local(), w.remote());
    w.route("/", up, 0);
    let mut nonce = 0;
    let mut fetch = |w: &mut World, uri: &str| {
        nonce += 1;
        let to = w.to(app, &interest(uri, nonce));
        if to == [up] {
            w.ok(up, &data(uri));
        }
        to == [app]
    };
    for n in 0..10 {
        assert!(!fetch(&mut w, &format!("/x/{}/{n}", n % 2)));
    }
    assert!(fetch(&mut w, "/x/1/1"));
    assert_eq!(w.forwarder.erase_cs(name("/x/0").as_ref(), Some(2)), 2);
    assert_eq!(w.forwarder.erase_cs(name("/x/0").as_ref(), None), 3);
    assert_eq!(w.forwarder.erase_cs(name("/x/0").as_ref(), None), 0);
    assert_eq!(w.forwarder.cs().packets, 5);
    assert!(fetch(&mut w, "/x/1/1") && !fetch(&mut w, "/x/0/0"));
    let set = |w: &mut World, settings| w.forwarder.configure_cs(settings);
    set(&mut w, CsSettings { capacity_packets: Some(2), ..Default::default() });
    assert_eq!(w.forwarder.cs().packets, 2);
    assert!(fetch(&mut w, "/x/0/0") && fetch(&mut w, "/x/1/1"), "the two used last");
    set(&mut w, CsSettings { serve: Some(false), ..Default::default() });
    assert!(!fetch(&mut w, "/x/0/0"));
    set(&mut w, CsSettings { serve: Some(true), admit: Some(false), ..Default::default() });
    assert!(fetch(&mut w, "/x/0/0"));
    assert!(!fetch(&mut w, "/new") && !fetch(&mut w, "/new"));
    set(&mut w, CsSettings { capacity_bytes: Some(0), ..Default::default() });
    let info = w.forwarder.cs();
    assert_eq!((info.packets, info.bytes, info.capacity_bytes), (0, 0, 0));
    assert!(!fetch(&mut w, "/x/0/0"));
}

#[test]
fn a_prefix_is_found_among_many() {
    let mut w = World::new(|config| config.cs_capacity_bytes = 64 << 20);
    let (app, up) = (w.local(), w.remote());
    w.route("/", up, 0);
    for n in 0..20_000 {
        let uri = format!("/file/{}/v=1/seg={n}", n % 100);
        w.ok(app, &interest(&uri, n));
        w.ok(up, &data(&uri));
    }
    let under = |uri: &str, nonce| interest_with(uri, nonce, |i| i.can_be_prefix(true));
    for (nonce, prefix) in [(50_000, "/file"), (50_001, "/file/7"), (50_002, "/file/99/v=1")] {
        let sent = w.ok(app, &under(prefix, nonce));
        assert!(sent[0].to == app && sent[0].name.starts_with(prefix), "{prefix}");
    }
    assert_eq!(w.to(app, &under("/file/100", 50_003)), [up]);
    assert_eq!(w.forwarder.erase_cs(name("/file/7").as_ref(), None), 200);
    assert_eq!(w.to(app, &under("/file/7", 50_004)), [up]);
}
