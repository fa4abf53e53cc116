//! Runs the conformance suite on this forwarder, on the heap and in arrays.

mod suite;

use std::collections::VecDeque;
use std::time::Duration;

use suite::{Dut, name};
use xylem_forward::{
    FaceId, FaceScope, Fixed, Forwarder, ForwarderConfig, ForwarderSeed, Heap, IncomingPacket,
    OutgoingPacket, Storage,
};
use xylem_packet::LpPacket;

/// A forwarder with a minimal link service around it.
struct Ours<S: Storage> {
    forwarder: Forwarder<S>,
    faces: Vec<(FaceId, VecDeque<Vec<u8>>)>,
    now: Duration,
}

impl<S: Storage> Ours<S> {
    fn new() -> Self {
        let mut config = ForwarderConfig::default();
        config.cs_capacity_bytes = 1 << 20;
        Ours {
            forwarder: Forwarder::new(config, ForwarderSeed::from_random([3; 16])),
            faces: Vec::new(),
            now: Duration::from_secs(9),
        }
    }
}

/// An outgoing packet as a frame.
fn frame(leaving: OutgoingPacket<'_>) -> Vec<u8> {
    if leaving.pit_token.is_none() && leaving.nack.is_none() && leaving.congestion_mark.is_none() {
        return leaving.packet.to_vec();
    }
    let mut out = Vec::new();
    LpPacket {
        fragment: Some(leaving.packet),
        pit_token: leaving.pit_token,
        nack: leaving.nack,
        congestion_mark: leaving.congestion_mark,
        ..Default::default()
    }
    .encode(&mut out);
    out
}

/// A received frame as the forwarder takes it; `None` if the link would drop it.
fn incoming(frame: &[u8]) -> Option<IncomingPacket<'_>> {
    if frame.first() != Some(&0x64) {
        return Some(IncomingPacket::bare(frame));
    }
    let lp = LpPacket::decode(frame).ok()?;
    Some(IncomingPacket {
        packet: lp.fragment?,
        pit_token: lp.pit_token,
        nack: lp.nack,
        congestion_mark: lp.congestion_mark,
        next_hop: lp.next_hop_face_id.map(FaceId),
        no_cache: lp.cache_policy.is_some(),
        non_discovery: lp.non_discovery,
        announcement: lp.prefix_announcement,
    })
}

impl<S: Storage> Dut for Ours<S> {
    fn face(&mut self, local: bool) -> usize {
        let scope = if local { FaceScope::Local } else { FaceScope::NonLocal };
        let face = self.forwarder.try_add_face(scope).expect("room for a face");
        self.faces.push((face, VecDeque::new()));
        self.faces.len() - 1
    }

    fn route(&mut self, prefix: &str, face: usize, cost: u32) {
        let face = self.faces[face].0;
        self.forwarder.add_route(name(prefix).as_ref(), face, cost).expect("room for a route");
    }

    fn send(&mut self, face: usize, bytes: &[u8]) {
        let (from, faces) = (self.faces[face].0, &mut self.faces);
        let Some(incoming) = incoming(bytes) else { return };
        let mut out = |to: FaceId, leaving: OutgoingPacket<'_>| {
            let queue = faces.iter_mut().find(|(face, _)| *face == to).expect("a face of ours");
            queue.1.push_back(frame(leaving));
        };
        // Frames do not show why a packet was dropped.
        let _ = self.forwarder.handle_packet(self.now, from, incoming, &mut out);
    }

    fn receive(&mut self, face: usize) -> Option<Vec<u8>> {
        self.faces[face].1.pop_front()
    }

    fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        let mut out = |_: FaceId, _: OutgoingPacket<'_>| panic!("time sends nothing");
        self.forwarder.handle_timeout(self.now, &mut out);
    }
}

type InArrays = Fixed<16, 64, 8, 64, 1024, 256>;

macro_rules! conform {
    ($($test:ident)*) => {
        mod heap {
            $(#[test] fn $test() { super::suite::$test(&mut super::Ours::<super::Heap>::new()); })*
        }
        mod arrays {
            $(#[test] fn $test() { super::suite::$test(&mut super::Ours::<super::InArrays>::new()); })*
        }
    };
}

conform! {
    interests_for_the_same_are_aggregated
    a_looping_interest_is_refused_while_it_is_pending
    a_looping_interest_is_refused_after_its_end
    a_retransmission_is_forwarded_and_answered_once
    an_interest_ends_with_its_lifetime
    hop_limits_count_down_to_nothing
    pit_tokens_of_every_length_come_back
    can_be_prefix_decides_what_a_name_matches
    one_data_answers_all_that_it_matches
    an_implicit_digest_takes_the_right_data_and_only_it
    fresh_data_alone_satisfies_must_be_fresh
    unsolicited_data_is_never_cached
    what_is_not_to_be_cached_is_not
    without_a_route_an_interest_comes_back
    the_least_severe_refusal_comes_back_when_all_have_refused
    congestion_marks_travel_both_ways
    localhost_stays_on_the_machine
    localhop_goes_one_hop
    forwarding_hints_lead
    malformed_frames_change_nothing
}
