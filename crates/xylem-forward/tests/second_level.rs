//! Tests of the content store's second level: packets that no longer fit into memory are found there, wrong packets of a
//! faulty cache are not used, and a cache that has to read holds up nothing else.

mod common;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use common::{
    Kept, Left, Sent, What, World, data_with, interest, interest_with, name, read, with_token,
};
use proptest::prelude::*;
use xylem_forward::{CsSettings, DropReason, FaceId, SecondLevelAnswer, SecondLevelCache};
use xylem_packet::{Component, Data, NameRef};

/// A cache in memory with packets that the test can change.
#[derive(Clone, Default)]
struct Board(Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>);

impl SecondLevelCache for Board {
    fn put(&mut self, name: NameRef<'_>, packet: &[u8]) {
        self.0.lock().unwrap().insert(name.value().to_vec(), packet.to_vec());
    }

    fn get(
        &mut self,
        _asker: FaceId,
        name: NameRef<'_>,
        can_be_prefix: bool,
        packet: &mut Vec<u8>,
    ) -> SecondLevelAnswer {
        let packets = self.0.lock().unwrap();
        let from = packets.range(name.value().to_vec()..).next();
        let fits = |found: &[u8]| found == name.value() || can_be_prefix;
        let Some((_, found)) = from.filter(|(n, _)| n.starts_with(name.value()) && fits(n)) else {
            return SecondLevelAnswer::Absent;
        };
        packet.extend_from_slice(found);
        SecondLevelAnswer::Found
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

/// A cache that has to read, and reads when the test says so.
#[derive(Clone, Default)]
struct SlowShelf(Arc<Mutex<SlowShelfState>>);

#[derive(Default)]
struct SlowShelfState {
    packets: BTreeMap<Vec<u8>, Vec<u8>>,
    last: u64,
    /// Reads: the name, and how many Interests wait.
    reading: BTreeMap<u64, (Vec<u8>, usize)>,
    ended: VecDeque<(u64, Vec<u8>)>,
    askers: Vec<FaceId>,
}

impl SlowShelf {
    fn state(&self) -> MutexGuard<'_, SlowShelfState> {
        self.0.lock().unwrap()
    }

    /// Ends the read of this packet.
    fn end(&self, uri: &str, is_good: bool) {
        let mut state = self.state();
        let key = name(uri).as_ref().value().to_vec();
        let found = state.reading.iter().find(|(_, (read, _))| *read == key);
        let number = *found.expect("a read").0;
        state.reading.remove(&number);
        let packet = if is_good { state.packets[&key].clone() } else { Vec::new() };
        state.ended.push_back((number, packet));
    }
}

impl SecondLevelCache for SlowShelf {
    fn put(&mut self, name: NameRef<'_>, packet: &[u8]) {
        self.state().packets.insert(name.value().to_vec(), packet.to_vec());
    }

    fn get(
        &mut self,
        asker: FaceId,
        name: NameRef<'_>,
        _can_be_prefix: bool,
        _packet: &mut Vec<u8>,
    ) -> SecondLevelAnswer {
        let state = &mut *self.state();
        let key = name.value().to_vec();
        if !state.packets.contains_key(&key) {
            return SecondLevelAnswer::Absent;
        }
        state.askers.push(asker);
        for (number, (read, waiting)) in &mut state.reading {
            if *read == key {
                *waiting += 1;
                return SecondLevelAnswer::Reading(*number);
            }
        }
        state.last += 1;
        state.reading.insert(state.last, (key, 1));
        SecondLevelAnswer::Reading(state.last)
    }

    fn next_read(&mut self, packet: &mut Vec<u8>) -> Option<u64> {
        let (number, read) = self.state().ended.pop_front()?;
        packet.extend_from_slice(&read);
        Some(number)
    }

    fn cancel(&mut self, read: u64) {
        let mut state = self.state();
        // A read that has ended meanwhile is still returned.
        let Some((_, waiting)) = state.reading.get_mut(&read) else { return };
        *waiting -= 1;
        if *waiting == 0 {
            state.reading.remove(&read);
        }
    }

    fn erase(&mut self, _prefix: NameRef<'_>, _limit: u64) -> u64 {
        0
    }
}

fn uri(n: u32) -> String {
    format!("/x/seg={n}")
}

/// A forwarder with `/x/seg=0` and so on in its second level, and nothing in memory.
struct SlowWorld {
    w: World,
    up: FaceId,
    shelf: SlowShelf,
    nonce: u32,
}

impl SlowWorld {
    fn new(packets: u32) -> Self {
        let mut w = World::new(|config| config.cs_capacity_bytes = 1);
        w.now = Duration::from_millis(1600);
        let up = w.remote();
        w.route("/", up, 0);
        let shelf = SlowShelf::default();
        for n in 0..packets {
            let key = name(&uri(n)).as_ref().value().to_vec();
            shelf.state().packets.insert(key, a_data(n).to_vec());
        }
        w.forwarder.set_second_level(Some(Box::new(shelf.clone())));
        Self { w, up, shelf, nonce: 0 }
    }

    fn ask(&mut self, face: FaceId, n: u32) -> Vec<Sent> {
        self.nonce += 1;
        self.w.ok(face, &interest(&uri(n), self.nonce))
    }

    /// What is sent as the ended reads are taken up.
    fn taken_up(&mut self) -> Vec<Left> {
        let mut out = Kept::default();
        self.w.forwarder.take_up_reads(self.w.now, &mut out);
        out.0
    }

    /// What is sent because this time passes.
    fn passed(&mut self, ms: u64) -> Vec<Sent> {
        self.w.now += Duration::from_millis(ms);
        let mut out = Kept::default();
        self.w.forwarder.handle_timeout(self.w.now, &mut out);
        out.0.iter().map(read).collect()
    }

    /// Hits and misses.
    fn counts(&self) -> (u64, u64) {
        let info = self.w.forwarder.cs();
        (info.hits, info.misses)
    }

    /// The reads for which Interests wait, and how many of these there are.
    fn waiting(&self) -> (usize, usize) {
        let state = self.shelf.state();
        (state.reading.len(), state.reading.values().map(|(_, waiting)| waiting).sum())
    }
}

#[test]
fn a_slow_read_delays_only_the_interests_that_wait_for_it() {
    let mut s = SlowWorld::new(3);
    let (one, two) = (s.w.remote(), s.w.remote());
    assert_eq!(s.w.ok(one, with_token(&interest(&uri(0), 1000), b"token")), []);
    assert_eq!(s.ask(two, 0), [], "waits for the same read");
    assert_eq!((s.waiting(), s.counts()), ((1, 2), (0, 0)));
    assert_eq!(s.shelf.state().askers, [one, two]);
    assert_eq!(s.w.forwarder.pit_len(), 0);
    // Other Interests are forwarded and answered meanwhile, also of the same face.
    for (n, face) in [(7, one), (8, two)] {
        assert_eq!(s.ask(face, n)[0].to, s.up);
        let sent = s.w.ok(s.up, &a_data(n));
        assert_eq!((sent[0].to, sent[0].what), (face, What::Data));
    }
    assert!(s.taken_up().is_empty(), "nothing was read yet");
    s.shelf.end(&uri(0), true);
    let sent = s.taken_up();
    let data =
        |to: FaceId, token: Option<&[u8]>| (to, a_data(0).to_vec(), token.map(<[u8]>::to_vec));
    let expected = [data(one, Some(b"token")), data(two, None)];
    assert_eq!(sent.into_iter().map(|l| (l.to, l.packet, l.token)).collect::<Vec<_>>(), expected);
    assert_eq!((s.waiting(), s.counts()), ((0, 0), (2, 2)));
    assert!(s.taken_up().is_empty() && s.passed(10_000).is_empty(), "each is answered once");
    assert_eq!(s.w.forwarder.poll_timeout(), None);
}

#[test]
fn an_interest_whose_read_fails_continues_upstream_unchanged() {
    let mut s = SlowWorld::new(2);
    let app = s.w.local();
    let other = s.w.remote();
    let asked = interest_with(&uri(0), 77, |i| i.hop_limit(9));
    let frame = common::link(&asked, |frame| {
        frame.token = Some(b"token".to_vec());
        frame.mark = Some(1);
        frame.next_hop = Some(other);
        frame.non_discovery = true;
    });
    assert_eq!(s.w.ok(app, &frame), []);
    s.shelf.end(&uri(0), false);
    let sent = s.taken_up();
    let [left] = &sent[..] else { panic!("{sent:?}") };
    let sent = read(left);
    assert_eq!((sent.to, sent.what, sent.nonce), (other, What::Interest, Some(77)));
    assert_eq!((sent.hops, sent.mark, left.non_discovery), (Some(8), Some(1), true));
    assert_eq!((s.waiting(), s.counts()), ((0, 0), (0, 1)));
    let sent = s.w.ok(other, &a_data(0));
    assert_eq!((sent[0].to, sent[0].token.as_deref()), (app, Some(&b"token"[..])));
    // A packet with another name is a miss, too.
    s.ask(app, 1);
    let key = name(&uri(1)).as_ref().value().to_vec();
    s.shelf.state().packets.insert(key, a_data(0).to_vec());
    s.shelf.end(&uri(1), true);
    assert_eq!(read(&s.taken_up()[0]).what, What::Interest);
    assert_eq!(s.counts(), (0, 2));
    // Without a route the Interest goes back, as any other.
    let mut s = SlowWorld::new(1);
    let one = s.w.remote();
    s.w.forwarder.remove_face(s.up);
    assert_eq!(s.ask(one, 0), []);
    s.shelf.end(&uri(0), false);
    let sent = read(&s.taken_up()[0]);
    assert!(sent.to == one && matches!(sent.what, What::Nack(_)), "{sent:?}");
    assert_eq!(s.w.forwarder.totals().no_route, 1);
}

#[test]
fn a_read_that_takes_too_long_is_a_miss() {
    let mut s = SlowWorld::new(3);
    let one = s.w.remote();
    let asked = |n, ms| interest_with(&uri(n), n, |i| i.lifetime_ms(ms));
    assert_eq!(s.w.ok(one, &asked(0, 4_000)), []);
    assert_eq!(s.w.ok(one, &asked(1, 640)), []);
    assert_eq!(s.w.ok(one, &asked(2, 0)).len(), 1, "it can't wait at all");
    let due = s.w.forwarder.poll_timeout().expect("a timeout");
    assert!(due - s.w.now <= Duration::from_millis(320));
    assert_eq!(s.passed(319), []);
    let sent = s.passed(1);
    assert_eq!((sent.len(), &sent[0].name, sent[0].to), (1, &uri(1), s.up));
    assert_eq!((s.waiting(), s.counts()), ((1, 1), (0, 2)), "its read is cancelled");
    // Its lifetime began when it arrived.
    assert_eq!((s.passed(304), s.w.forwarder.pit_len()), (vec![], 1));
    assert_eq!((s.passed(16), s.w.forwarder.pit_len()), (vec![], 0));
    assert_eq!(s.passed(359), []);
    assert_eq!(s.passed(1)[0].name, uri(0), "after a second at the latest");
    assert_eq!((s.waiting(), s.counts()), ((0, 0), (0, 3)));
    // One that is taken up too late is dropped.
    s.passed(10_000);
    assert_eq!(s.w.ok(one, &interest(&uri(0), 99)), []);
    s.shelf.end(&uri(0), true);
    s.w.now += Duration::from_secs(4);
    assert!(s.taken_up().is_empty());
    assert_eq!((s.w.forwarder.pit_len(), s.counts()), (0, (0, 4)));
}

#[test]
fn kept_interests_are_bounded_and_shared_among_faces() {
    let mut s = SlowWorld::new(2_000);
    let faces: Vec<FaceId> = (0..18).map(|_| s.w.remote()).collect();
    for (i, face) in (0..).zip(&faces[..16]) {
        for n in 0..64 {
            assert_eq!(s.ask(*face, 64 * i + n), []);
        }
        // No more for one face; the Interest goes upstream at once.
        assert_eq!(s.ask(*face, 1_999 - i)[0].to, s.up);
    }
    assert_eq!((s.waiting(), s.counts()), ((1_024, 1_024), (0, 16)));
    // A face with less gets a place of a face with most; the oldest Interest of that face goes upstream.
    let mut gone = 0;
    for n in 0..100 {
        for sent in s.ask(faces[16], 1_100 + n) {
            assert_eq!((sent.what, sent.to), (What::Interest, s.up));
            gone += 1;
        }
        assert_eq!(s.waiting(), (1_024, 1_024));
    }
    assert_eq!((gone, s.counts()), (100, (0, 116)));
    let first = s.ask(faces[17], 1_300);
    assert!(
        first.len() == 1 && first[0].name != uri(1_300),
        "it waits, another one goes: {first:?}"
    );
    // Each of the first faces has kept about as much as the others, and its later Interests.
    assert_eq!(s.passed(1_000).len(), 1_024);
    assert_eq!((s.waiting(), s.counts()), ((0, 0), (0, 1_141)));
}

#[test]
fn a_face_that_goes_takes_its_kept_interests_with_it() {
    let mut s = SlowWorld::new(4);
    let (one, two) = (s.w.remote(), s.w.remote());
    for n in 0..3 {
        s.ask(one, n);
    }
    s.ask(two, 0);
    s.w.forwarder.remove_face(one);
    assert_eq!((s.waiting(), s.counts()), ((1, 1), (0, 3)));
    s.shelf.end(&uri(0), true);
    let sent = s.taken_up();
    assert!(sent.len() == 1 && sent[0].to == two);
    assert_eq!((s.passed(5_000), s.counts()), (vec![], (1, 3)));
    // As does a cache that is replaced: its Interests continue, and reads of the next one are others.
    s.ask(two, 1);
    let next = SlowShelf::default();
    s.w.forwarder.set_second_level(Some(Box::new(next.clone())));
    next.state().ended.push_back((s.shelf.state().last, a_data(1).to_vec()));
    assert!(s.taken_up().is_empty());
    assert_eq!(s.passed(0)[0].name, uri(1));
    s.ask(two, 2);
    assert_eq!(s.counts(), (1, 5));
}

#[test]
fn a_repeated_interest_waits_once() {
    let mut s = SlowWorld::new(1);
    let (one, two) = (s.w.remote(), s.w.remote());
    assert_eq!(s.w.ok(one, with_token(&interest(&uri(0), 1), b"one")), []);
    assert_eq!(s.w.dropped(one, &interest(&uri(0), 1)), (DropReason::Duplicate, vec![]));
    s.passed(900);
    assert_eq!(s.w.ok(one, with_token(&interest(&uri(0), 2), b"two")), []);
    assert_eq!(s.w.ok(two, &interest_with(&uri(0), 2, |i| i.can_be_prefix(true))), []);
    assert_eq!((s.waiting(), s.counts()), ((1, 2), (0, 0)));
    // It does not extend the time that the first one may wait.
    let sent = s.passed(100);
    assert_eq!((sent.len(), sent[0].nonce, s.waiting()), (1, Some(2), (1, 1)));
    s.shelf.end(&uri(0), true);
    assert_eq!(s.taken_up().iter().map(|left| left.to).collect::<Vec<_>>(), [two]);
    let sent = s.w.ok(s.up, &a_data(0));
    assert_eq!((sent.len(), sent[0].token.as_deref()), (1, Some(&b"two"[..])));
    assert_eq!(s.counts(), (1, 1));
}

#[test]
fn many_reads_that_end_at_once_are_taken_up_in_portions() {
    let mut s = SlowWorld::new(60);
    let one = s.w.remote();
    for n in 0..60 {
        s.ask(one, n);
        s.shelf.end(&uri(n), true);
    }
    let first = s.taken_up().len();
    assert!((1..60).contains(&first));
    assert!(s.w.forwarder.poll_timeout().is_some_and(|due| due <= s.w.now), "called again at once");
    assert_eq!(s.passed(0).len() + first, 60);
    assert_eq!(s.counts(), (60, 0));
    // Answering is switched off while the disk reads.
    s.ask(one, 0);
    s.w.forwarder.configure_cs(CsSettings { serve: Some(false), ..CsSettings::default() });
    s.shelf.end(&uri(0), true);
    assert_eq!(read(&s.taken_up()[0]).what, What::Interest);
    assert_eq!(s.counts(), (60, 1));
}

#[derive(Debug, Clone)]
enum KeptStep {
    Ask { face: usize, n: u32, units: u64 },
    End { nth: usize, is_good: bool },
    Answer { n: u32 },
    Pass { units: u64 },
    Leave { face: usize },
}

fn kept_step() -> impl Strategy<Value = KeptStep> {
    prop_oneof![
        8 => (0..4_usize, 0..8_u32, 1..150_u64).prop_map(|(face, n, units)| KeptStep::Ask { face, n, units }),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(nth, is_good)| KeptStep::End { nth, is_good }),
        2 => (0..8_u32).prop_map(|n| KeptStep::Answer { n }),
        3 => (0..40_u64).prop_map(|units| KeptStep::Pass { units }),
        1 => (0..4_usize).prop_map(|face| KeptStep::Leave { face }),
    ]
}

/// The forwarder's timers have ticks of this length.
const UNIT: u64 = 16;
/// Packets of the model that the second level holds; further names are misses.
const ON_SHELF: u32 = 6;

/// An Interest that waits for a read.
#[derive(Debug, Clone, PartialEq)]
struct ModelInterest {
    face: FaceId,
    n: u32,
    until: u64,
    expires: u64,
}

/// What must happen: which Interests wait for reads, and which upstream. Times in units of half a tick.
#[derive(Default)]
struct KeptModel {
    now: u64,
    kept: Vec<ModelInterest>,
    /// When each face's Interest ends, by name, and when the entries of the PIT end.
    pending: BTreeMap<(FaceId, u32), u64>,
    ends: BTreeMap<u32, u64>,
    counts: (u64, u64),
    data: Vec<(FaceId, u32)>,
    /// Names of which one Interest must go upstream.
    must: Vec<u32>,
    /// Names of which one may, because the strategy decides about a repeated one.
    may: Vec<u32>,
}

impl KeptModel {
    fn is_pending(&self, n: u32) -> bool {
        self.pending.keys().any(|(_, name)| *name == n)
    }

    fn forward(&mut self, face: FaceId, n: u32, expires: u64) {
        match self.is_pending(n) {
            true => self.may.push(n),
            false => self.must.push(n),
        }
        self.pending.insert((face, n), expires);
        let waiting = self.pending.iter().filter(|((_, name), _)| *name == n);
        self.ends.insert(n, waiting.map(|(_, expires)| *expires).max().expect("at least one"));
    }

    fn miss(&mut self, kept: &ModelInterest) {
        self.counts.1 += 1;
        if kept.expires > self.now {
            self.forward(kept.face, kept.n, kept.expires);
        }
    }

    fn ask(&mut self, face: FaceId, n: u32, lifetime: u64) {
        let expires = self.now + lifetime;
        if self.is_pending(n) {
            return self.forward(face, n, expires);
        }
        let until = self.now + (lifetime / 2).min(2 * 1000 / UNIT);
        let new = ModelInterest { face, n, until, expires };
        let earlier = self.kept.iter_mut().find(|kept| (kept.face, kept.n) == (face, n));
        match earlier {
            Some(earlier) => *earlier = ModelInterest { until: until.min(earlier.until), ..new },
            None if n >= ON_SHELF => self.miss(&new),
            None => self.kept.push(new),
        }
    }

    fn end(&mut self, n: u32, is_good: bool) {
        let all = std::mem::take(&mut self.kept).into_iter();
        let (ended, kept): (Vec<_>, Vec<_>) = all.partition(|kept| kept.n == n);
        self.kept = kept;
        for ended in ended {
            if is_good && ended.expires > self.now {
                self.counts.0 += 1;
                self.data.push((ended.face, n));
            } else {
                self.miss(&ended);
            }
        }
    }

    fn pass(&mut self, time: u64) {
        self.now += time;
        let (now, ends) = (self.now, &self.ends);
        self.pending.retain(|(_, n), _| ends[n] > now);
        let all = std::mem::take(&mut self.kept).into_iter();
        let (due, kept): (Vec<_>, Vec<_>) = all.partition(|kept| kept.until <= now);
        self.kept = kept;
        due.iter().for_each(|due| self.miss(due));
    }

    fn leave(&mut self, face: FaceId) {
        let before = self.kept.len();
        self.kept.retain(|kept| kept.face != face);
        self.counts.1 += (before - self.kept.len()) as u64;
        self.pending.retain(|(of, _), _| *of != face);
    }

    fn answer(&mut self, n: u32) {
        let (now, data) = (self.now, &mut self.data);
        self.pending.retain(|(face, name), expires| {
            if *name == n && *expires > now {
                data.push((*face, n));
            }
            *name != n
        });
    }

    /// Compares what was sent.
    fn check(&mut self, up: FaceId, sent: Vec<Sent>) {
        let mut data = Vec::new();
        for sent in sent {
            let n = sent.name.rsplit('=').next().and_then(|n| n.parse().ok()).expect("a segment");
            match sent.what {
                What::Data => data.push((sent.to, n)),
                What::Interest if sent.to == up => {
                    let list = if self.must.contains(&n) { &mut self.must } else { &mut self.may };
                    let at = list.iter().position(|name| *name == n);
                    list.remove(at.unwrap_or_else(|| panic!("an Interest too many: {sent:?}")));
                }
                _ => panic!("{sent:?}"),
            }
        }
        data.sort_unstable();
        self.data.sort_unstable();
        assert_eq!((data, &self.must), (std::mem::take(&mut self.data), &vec![]));
        self.may.clear();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// Any order of Interests, reads, answers, time and faces that go: each Interest is answered or forwarded once, at the
    /// time that the model says, and counted once.
    #[test]
    fn kept_interests_end_as_in_a_model(steps in proptest::collection::vec(kept_step(), 1..120)) {
        let mut s = SlowWorld::new(ON_SHELF);
        let mut faces: Vec<FaceId> = (0..4).map(|_| s.w.remote()).collect();
        let mut model = KeptModel::default();
        for step in steps {
            let sent = match step {
                KeptStep::Ask { face, n, units } => {
                    model.ask(faces[face], n, 2 * units);
                    s.nonce += 1;
                    let packet = interest_with(&uri(n), s.nonce, |i| i.lifetime_ms(UNIT * units));
                    s.w.ok(faces[face], &packet)
                }
                KeptStep::End { nth, is_good } => {
                    let mut reads: Vec<u32> = model.kept.iter().map(|kept| kept.n).collect();
                    reads.dedup();
                    if reads.is_empty() {
                        continue;
                    }
                    let n = reads[nth % reads.len()];
                    model.end(n, is_good);
                    s.shelf.end(&uri(n), is_good);
                    s.taken_up().iter().map(read).collect()
                }
                KeptStep::Answer { n } => {
                    model.answer(n);
                    let (_, sent) = s.w.raw(s.up, &a_data(n));
                    sent.iter().map(read).collect()
                }
                KeptStep::Pass { units } => {
                    model.pass(2 * units);
                    s.passed(UNIT * units)
                }
                KeptStep::Leave { face } => {
                    model.leave(faces[face]);
                    s.w.forwarder.remove_face(faces[face]);
                    faces[face] = s.w.remote();
                    Vec::new()
                }
            };
            model.check(s.up, sent);
            prop_assert_eq!(s.counts(), model.counts);
            prop_assert_eq!(s.waiting().1, model.kept.len());
        }
        model.pass(100_000);
        let sent = s.passed(100_000 / 2 * UNIT);
        model.check(s.up, sent);
        prop_assert_eq!((s.counts(), s.waiting()), (model.counts, (0, 0)));
        s.passed(100_000);
        prop_assert_eq!(s.w.forwarder.poll_timeout(), None);
    }
}
