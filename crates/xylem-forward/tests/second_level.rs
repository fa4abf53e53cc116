//! Tests of the content store's second level: packets that no longer fit into memory are found there, and wrong packets
//! of a faulty cache are not used.

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::{What, World, data_with, interest, interest_with, name};
use xylem_forward::{FaceId, SecondLevelCache};
use xylem_packet::{Component, Data, NameRef};

/// A cache in memory with packets that the test can change.
#[derive(Clone, Default)]
struct Board(Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>);

impl SecondLevelCache for Board {
    fn put(&mut self, name: NameRef<'_>, packet: &[u8]) {
        self.0.lock().unwrap().insert(name.value().to_vec(), packet.to_vec());
    }

    fn get(&mut self, name: NameRef<'_>, can_be_prefix: bool, packet: &mut Vec<u8>) -> bool {
        let packets = self.0.lock().unwrap();
        let from = packets.range(name.value().to_vec()..).next();
        let fits = |found: &[u8]| found == name.value() || can_be_prefix;
        let Some((_, found)) = from.filter(|(n, _)| n.starts_with(name.value()) && fits(n)) else {
            return false;
        };
        packet.extend_from_slice(found);
        true
    }

    fn erase(&mut self, prefix: NameRef<'_>, limit: u64) -> u64 {
        let mut erased = 0;
        self.0.lock().unwrap().retain(|found, _| {
            let goes = erased < limit && found.starts_with(prefix.value());
            erased += u64::from(goes);
            !goes
        });
        erased
    }
}

fn a_data(n: u32) -> bytes::Bytes {
    data_with(&format!("/x/seg={n}"), &[n as u8; 1000], 60_000)
}

fn stocked() -> (World, FaceId, Board) {
    let mut w = World::new(|config| config.cs_capacity_bytes = 5_000);
    let (app, up) = (w.local(), w.remote());
    w.route("/", up, 0);
    let board = Board::default();
    w.forwarder.set_second_level(Some(Box::new(board.clone())));
    for n in 0..10 {
        w.ok(app, &interest(&format!("/x/seg={n}"), n));
        w.ok(up, &a_data(n));
    }
    (w, app, board)
}

#[test]
fn evicted_packets_are_found_in_the_second_level() {
    let (mut w, app, board) = stocked();
    let packets = w.forwarder.cs().packets;
    assert!(packets < 10 && board.0.lock().unwrap().len() == 10 - packets);
    let sent = w.raw(app, &interest("/x/seg=0", 100)).1;
    assert_eq!((sent[0].to, &sent[0].packet[..]), (app, &a_data(0)[..]));
    let digest = Data::decode(&a_data(0)).unwrap().implicit_digest();
    let full = |digest| name("/x/seg=0").child(Component::implicit_digest(digest)).to_string();
    assert_eq!(w.ok(app, &interest(&full(&digest), 101))[0].what, What::Data);
    assert_eq!(w.ok(app, &interest(&full(&[1; 32]), 102))[0].what, What::Interest);
    let fresh = interest_with("/x/seg=0", 103, |i| i.must_be_fresh(true));
    assert_eq!(w.ok(app, &fresh)[0].what, What::Interest, "when it came is not known");
    assert_eq!(w.forwarder.erase_cs(name("/x").as_ref(), Some(8)), 8);
    assert_eq!(w.forwarder.erase_cs(name("/x").as_ref(), None), 2);
    assert_eq!(w.ok(app, &interest("/x/seg=0", 104))[0].what, What::Interest);
}

#[test]
fn wrong_packets_of_a_cache_are_not_used() {
    let (mut w, app, board) = stocked();
    let good = a_data(0);
    let key = name("/x/seg=0").as_ref().value().to_vec();
    let mut nonce = 1000;
    let mut answer = |w: &mut World, lie: Vec<u8>| {
        board.0.lock().unwrap().insert(key.clone(), lie);
        nonce += 1;
        w.pass(5000);
        w.ok(app, &interest("/x/seg=0", nonce))[0].what
    };
    assert_eq!(answer(&mut w, a_data(1).to_vec()), What::Interest, "another's packet");
    assert_eq!(answer(&mut w, Vec::new()), What::Interest);
    assert_eq!(answer(&mut w, vec![0; 20_000]), What::Interest);
    for cut in 0..good.len() {
        assert_eq!(answer(&mut w, good[..cut].to_vec()), What::Interest, "cut at {cut}");
    }
    // A flipped bit in the name or before it gives a packet with another name, or no packet. After the name, only the
    // cache can detect it.
    let name_end = Data::decode(&good).unwrap().name_range().end;
    for at in 0..name_end {
        let mut flipped = good.to_vec();
        flipped[at] ^= 1;
        assert_eq!(answer(&mut w, flipped), What::Interest, "byte {at}");
    }
    assert_eq!(answer(&mut w, good.to_vec()), What::Data);
}
