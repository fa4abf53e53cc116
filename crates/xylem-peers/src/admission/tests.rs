//! Attackers and honest peers ask for admission, under virtual time.

use super::*;
use xylem_packet::{InterestBuilder, Name, probe};

const NOW: Duration = Duration::from_secs(1_000);

fn ip(n: u32) -> IpAddr {
    Ipv4Addr::from_bits(n).into()
}

/// Returns an address in a site of its own.
fn far(n: u32) -> IpAddr {
    ip(0x0a00_0000 | n << 8)
}

/// Admission with the admitted faces by number, as an engine keeps them.
struct Door {
    admission: Admission<u32>,
    inside: std::collections::HashMap<u32, AdmissionSlot>,
    next: u32,
    refused: usize,
}

impl Door {
    fn new(faces: usize, descriptors: usize) -> Self {
        let admission = Admission::new(Capacity::new(faces, descriptors));
        Self { admission, inside: [].into(), next: 0, refused: 0 }
    }

    fn comes(&mut self, now: Duration, kind: FaceKind, from: IpAddr) -> Option<u32> {
        match self.admission.judge(now, kind, from, self.inside.len(), 0) {
            AdmissionVerdict::Full => {
                self.refused += 1;
                return None;
            }
            AdmissionVerdict::Instead(who) => self.goes(who),
            AdmissionVerdict::Room => {}
        }
        let who = self.next;
        self.next += 1;
        self.inside.insert(who, self.admission.seat(now, kind, from, who));
        Some(who)
    }

    fn goes(&mut self, who: u32) {
        self.admission.leave(self.inside.remove(&who).expect("who gives way is inside"));
    }

    fn is_in(&self, who: u32) -> bool {
        self.inside.contains_key(&who)
    }

    fn raise(&mut self, who: u32, standing: FaceStanding) {
        if let Some(seat) = self.inside.get(&who) {
            self.admission.raise(*seat, standing);
        }
    }

    fn heard(&mut self, who: u32, now: Duration) {
        if let Some(seat) = self.inside.get(&who) {
            self.admission.received(*seat, now);
        }
    }
}

#[test]
fn one_address_takes_a_quarter_whatever_it_sends() {
    for useful in [false, true] {
        let mut door = Door::new(1_024, 8_192);
        for n in 0..5_000 {
            let who = door.comes(NOW, FaceKind::Datagrams, ip(7)).expect("gives way to itself");
            if useful {
                door.raise(who, FaceStanding::Useful);
            }
            assert!(n < 4 || door.inside.len() <= 1_024 / 4);
        }
        assert!(door.comes(NOW, FaceKind::Datagrams, ip(9)).is_some());
    }
}

#[test]
fn one_site_takes_half_and_the_rest_of_the_world_gets_in() {
    let mut door = Door::new(1_024, 8_192);
    for n in 0..20_000 {
        if let Some(who) = door.comes(NOW, FaceKind::Datagrams, ip(n % 256)) {
            door.raise(who, FaceStanding::Useful);
        }
    }
    assert!(door.inside.len() <= 512, "{}", door.inside.len());
    let honest = door.comes(NOW, FaceKind::Datagrams, far(1)).expect("another site");
    assert!(door.is_in(honest));
}

#[test]
fn forged_addresses_without_answers_displace_only_each_other() {
    let mut door = Door::new(1_024, 8_192);
    let honest: Vec<u32> = (0..100)
        .map(|n| {
            let who = door.comes(NOW, FaceKind::Datagrams, far(n)).expect("room");
            door.raise(who, FaceStanding::Useful);
            who
        })
        .collect();
    for n in 0..100_000 {
        door.comes(NOW + Duration::from_secs(1), FaceKind::Datagrams, far(1_000 + n));
    }
    assert!(honest.iter().all(|who| door.is_in(*who)), "who is of use has stayed");
    // A newcomer has time for a round trip: as many others have to come before it gives way.
    let new = door.comes(NOW + Duration::from_secs(2), FaceKind::Datagrams, far(5)).expect("room");
    for n in 0..100 {
        door.comes(NOW + Duration::from_secs(3), FaceKind::Datagrams, far(200_000 + n));
    }
    assert!(door.is_in(new));
}

/// Forged addresses that ask for existing content count as useful. Peers that go on talking, and peers that have
/// answered, outlast them.
#[test]
fn answered_forged_addresses_leave_room_for_newcomers_and_active_peers() {
    let mut door = Door::new(1_024, 8_192);
    let talks = door.comes(NOW, FaceKind::Datagrams, far(1)).expect("room");
    let proven = door.comes(NOW, FaceKind::Datagrams, far(2)).expect("room");
    door.raise(talks, FaceStanding::Useful);
    door.raise(proven, FaceStanding::Proven);
    let mut now = NOW;
    for n in 0..20_000 {
        now += Duration::from_millis(1);
        if let Some(who) = door.comes(now, FaceKind::Datagrams, far(1_000 + n)) {
            door.raise(who, FaceStanding::Useful);
        }
        if n % 100 == 0 {
            door.heard(talks, now);
        }
    }
    assert!(door.is_in(talks) && door.is_in(proven));
    assert_eq!(door.refused, 0);
    // A face that has answered and then is silent for long does give way.
    let resting = now + Duration::from_secs(61);
    for n in 0..2_000 {
        door.comes(resting, FaceKind::Datagrams, far(50_000 + n));
    }
    assert!(door.inside.len() <= 1_024);
}

#[test]
fn idle_connections_leave_descriptors_for_local_programs() {
    for descriptors in [64, 256, 1_024, 8_192, 1 << 20] {
        let mut door = Door::new(1_024, descriptors);
        for n in 0..5_000 {
            door.comes(NOW, FaceKind::Connection, far(n));
        }
        let outside = door.inside.len();
        let local = (0..LOCAL_RESERVE as u32).filter(|_| {
            let who = door.comes(NOW, FaceKind::Local, Ipv4Addr::LOCALHOST.into());
            who.is_some_and(|who| {
                door.raise(who, FaceStanding::Useful);
                door.is_in(who)
            })
        });
        let local = local.count();
        let capacity = door.admission.capacity();
        assert!(door.inside.len() <= capacity.all_connections, "{descriptors}: {outside} {local}");
        assert!(OWN_FILES + capacity.files + door.inside.len() <= descriptors.max(64));
        let reserve = capacity.all_connections - capacity.connections;
        assert!(local >= reserve.min(LOCAL_RESERVE) && reserve > 0, "{descriptors}: {local}");
    }
}

#[test]
fn local_connections_that_do_nothing_give_way_to_one_another() {
    let mut door = Door::new(1_024, 1_024);
    let here = Ipv4Addr::LOCALHOST.into();
    let works = door.comes(NOW, FaceKind::Local, here).expect("room");
    door.raise(works, FaceStanding::Useful);
    for _ in 0..5_000 {
        assert!(door.comes(NOW, FaceKind::Local, here).is_some());
    }
    assert!(door.is_in(works));
    // No newcomer pushes out working connections: it is refused.
    while let Some(who) = door.comes(NOW, FaceKind::Local, here) {
        door.raise(who, FaceStanding::Useful);
        if door.inside.len() >= door.admission.capacity().all_connections {
            break;
        }
    }
    assert!(door.is_in(works));
}

#[test]
fn neither_kind_takes_all_faces_from_the_other() {
    for (first, second) in
        [(FaceKind::Datagrams, FaceKind::Connection), (FaceKind::Connection, FaceKind::Datagrams)]
    {
        let mut door = Door::new(100, 8_192);
        for n in 0..1_000 {
            if let Some(who) = door.comes(NOW, first, far(n)) {
                door.raise(who, FaceStanding::Useful);
            }
        }
        let got = (0..25).filter(|n| door.comes(NOW, second, far(10_000 + n)).is_some()).count();
        assert!(got >= 20, "{first:?} leaves {got}");
    }
}

#[test]
fn faces_without_use_time_out_sooner() {
    let mut admission = Admission::new(Capacity::new(1_024, 8_192));
    let idle = Duration::from_secs(600);
    let udp = admission.seat(NOW, FaceKind::Datagrams, far(1), 1);
    let tcp = admission.seat(NOW, FaceKind::Connection, far(2), 2);
    let local = admission.seat(NOW, FaceKind::Local, far(3), 3);
    let seconds =
        |admission: &Admission<u32>, seat| admission.patience(seat, idle).map(|t| t.as_secs());
    assert_eq!([udp, tcp, local].map(|seat| seconds(&admission, seat)), [Some(60), Some(15), None]);
    admission.raise(tcp, FaceStanding::Heard);
    assert_eq!(seconds(&admission, tcp), Some(600));
    for seat in [udp, tcp] {
        admission.raise(seat, FaceStanding::Useful);
    }
    assert_eq!([udp, tcp].map(|seat| seconds(&admission, seat)), [Some(600), None]);
    for n in 0..400 {
        admission.seat(NOW, FaceKind::Datagrams, far(n), n);
    }
    assert_eq!(seconds(&admission, udp), Some(60), "half of the places are taken");
    admission.raise(udp, FaceStanding::Proven);
    assert_eq!(seconds(&admission, udp), Some(600));
}

#[test]
fn limits_of_any_size_are_kept() {
    for faces in [0, 1, 2, 3, 7, 1_024, usize::MAX] {
        for descriptors in [0, 1, 30, 64, 1_024, usize::MAX] {
            let mut door = Door::new(faces, descriptors);
            for n in 0..50 {
                for kind in [FaceKind::Datagrams, FaceKind::Connection, FaceKind::Local] {
                    door.comes(NOW, kind, far(n));
                }
            }
            assert!(door.inside.len() <= faces.saturating_add(LOCAL_RESERVE).max(3));
        }
    }
}

#[test]
fn at_most_three_bytes_leave_per_received_byte_before_an_answer() {
    let mut unproven = UnprovenAddress::default();
    let (mut came, mut sent) = (0, 0);
    let mut now = NOW;
    // Requests of 14 bytes for Data of all sizes, for two minutes.
    for n in 0..12_000_usize {
        now += Duration::from_millis(10);
        unproven.received(14);
        came += 14;
        let frame = vec![0; n * 37 % 8_800];
        sent += if unproven.may_send(&frame, |_| false) { frame.len() } else { 0 };
        sent += unproven.probe_due(now, || Some([7; 8])).map_or(0, |question| question.len());
        assert!(sent <= 3 * came, "{sent} for {came}");
    }
    assert!(sent > came, "what fits is sent");
    let held = unproven.answered();
    assert!(held.len() <= 4 && held.iter().map(Vec::len).sum::<usize>() <= 16 * 1024);
}

#[test]
fn a_probe_is_an_interest_that_only_its_receiver_can_answer() {
    let mut unproven = UnprovenAddress::default();
    unproven.received(40);
    assert!(unproven.probe_due(NOW, || Some([1; 8])).is_none(), "nothing waits");
    assert!(!unproven.may_send(&[6; 100], |_| false));
    assert!(unproven.probe_due(NOW, || None).is_none(), "the system has no randomness");
    let question = unproven.probe_due(NOW, || Some([1; 8])).expect("something waits");
    let interest = xylem_packet::Interest::decode(&question).expect("an Interest");
    assert!(interest.name().to_string().starts_with("/localhop/"), "{}", interest.name());
    assert_eq!(interest.hop_limit(), Some(1));
    assert!(unproven.probe_due(NOW, || Some([2; 8])).is_none(), "it was asked just now");
    unproven.received(40);
    let again = unproven.probe_due(NOW + Duration::from_secs(1), || Some([2; 8]));
    assert_eq!(again, Some(question), "the same is asked again");
    assert!(!unproven.is_mute());
    unproven.received(40);
    assert!(unproven.probe_due(NOW + Duration::from_secs(9), || None).is_some());
    assert!(unproven.is_mute());
    assert!(unproven.is_answer(&question, true));
    assert!(!unproven.is_answer(&probe::encode([2; 8]), true), "another's question");
    assert!(!unproven.is_answer(&question, false), "an Interest is no answer");
    let mut other = Vec::new();
    let name = Name::from_uri("/localhop/%01").expect("a name");
    InterestBuilder::new(name.as_ref()).encode(&mut other).expect("an Interest");
    assert!(!unproven.is_answer(&other, true) && !unproven.is_answer(b"", true));
    assert_eq!(unproven.answered(), [vec![6; 100]]);
}

#[test]
fn an_allowance_adds_exactly_what_it_grants() {
    let mut unproven = UnprovenAddress::default();
    let (mut came, mut sent, mut granted) = (0, 0, 100_000);
    for _ in 0..10_000 {
        unproven.received(14);
        came += 14;
        let frame = vec![6; 8_000];
        let draw = |missing: usize| {
            let left = usize::checked_sub(granted, missing);
            granted = left.unwrap_or(granted);
            left.is_some()
        };
        sent += if unproven.may_send(&frame, draw) { frame.len() } else { 0 };
        assert!(sent + granted <= 100_000 + 3 * came, "{sent} for {came}");
    }
    // Three for one go on when the allowance is used up.
    assert!(sent + 8_000 > 3 * came, "{sent} for {came}");
}

#[test]
fn a_consumer_that_answers_nothing_is_probed_three_times() {
    let mut unproven = UnprovenAddress::default();
    let mut probes = 0;
    for n in 0..100 {
        unproven.received(40);
        assert!(unproven.may_send(&[6; 8_000], |_| true));
        let now = NOW + Duration::from_secs(n);
        probes += u32::from(unproven.probe_due(now, || Some([1; 8])).is_some());
    }
    assert_eq!(probes, 3);
    // Nothing was kept from it, so there is nothing to warn of; that changes with the first frame that waits.
    assert!(!unproven.is_mute());
    unproven.received(40);
    assert!(!unproven.may_send(&[6; 8_000], |_| false));
    let late = NOW + Duration::from_secs(200);
    assert!(unproven.probe_due(late, || None).is_some() && unproven.is_mute());
}

#[test]
fn only_interests_open_a_face() {
    let mut interest = Vec::new();
    let name = Name::from_uri("/a").expect("a name");
    InterestBuilder::new(name.as_ref()).encode(&mut interest).expect("an Interest");
    let lp = |fields: &[u8], packet: &[u8]| {
        let inner = [fields, &[0x50, packet.len() as u8], packet].concat();
        [&[0x64, inner.len() as u8], &inner[..]].concat()
    };
    assert!(opens(&interest) && opens(&lp(&[], &interest)));
    let (first_of_two, nack) = ([0x52, 1, 0, 0x53, 1, 2], [0xfd, 0x03, 0x20, 0]);
    assert!(opens(&lp(&first_of_two, &interest[..3])));
    assert!(!opens(&lp(&nack, &interest)) && !opens(&lp(&first_of_two, &[])));
    for rubbish in [&b"14 random bits"[..], &[], &[5], &[5, 0], &[0x64, 0], &[6, 3, 7, 1, 8]] {
        assert!(!opens(rubbish), "{rubbish:?}");
    }
    for cut in 0..interest.len() {
        assert!(!opens(&interest[..cut]));
    }
}

#[test]
fn a_pit_token_is_known_to_the_receiver_of_our_interests_alone() {
    let mut unproven = UnprovenAddress::default();
    assert!(!unproven.is_token(None) && !unproven.is_token(Some(&[])), "no Interest was sent");
    assert_eq!(unproven.token(|| None), None, "the system has no randomness");
    assert_eq!(unproven.token(|| Some([3; 6])), Some([3; 6]));
    assert_eq!(unproven.token(|| Some([4; 6])), Some([3; 6]), "it stays the same");
    assert!(unproven.is_token(Some(&[3; 6])));
    for other in [&[3; 5][..], &[3; 7], &[4; 6], &[]] {
        assert!(!unproven.is_token(Some(other)), "{other:?}");
    }
    assert!(!unproven.is_token(None));
}
