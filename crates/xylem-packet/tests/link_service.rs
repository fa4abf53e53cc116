//! The link service frame by frame: the frames of each packet, and the results of each frame.

use core::time::Duration;

use xylem_packet::link_service::{
    LinkHeaders, LinkService, LinkServiceConfig, LinkServiceError, MIN_MTU,
};
use xylem_packet::tlv::types;
use xylem_packet::{CachePolicy, DecodeError, LpPacket, MAX_FRAME, MAX_PACKET, NackReason};

const NOW: Duration = Duration::ZERO;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// An element of type `typ` (5 or 6) with `len` bytes in total, each different from its neighbours.
fn packet(typ: u8, len: usize) -> Vec<u8> {
    let mut out = match len {
        2..=254 => vec![typ, (len - 2) as u8],
        _ => [&[typ, 253], &((len - 4) as u16).to_be_bytes()[..]].concat(),
    };
    let rest = len - out.len();
    out.extend((0..rest).map(|i| (i * 7) as u8));
    out
}

fn udp() -> LinkServiceConfig {
    LinkServiceConfig { mtu: 1400, fragmentation: true, ..LinkServiceConfig::default() }
}

fn send(service: &mut LinkService, packet: &[u8], headers: &LinkHeaders<'_>) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    service.send(NOW, packet, headers, 0, &mut |f| frames.push(f.to_vec())).expect("it fits");
    frames
}

/// A frame with these fields around `fragment`.
fn frame(fragment: &[u8], change: impl for<'a> FnOnce(&mut LpPacket<'a>)) -> Vec<u8> {
    let mut lp = LpPacket { fragment: Some(fragment), ..LpPacket::default() };
    change(&mut lp);
    let mut out = Vec::new();
    lp.encode(&mut out);
    out
}

#[test]
fn a_packet_without_headers_goes_bare_both_ways() {
    let mut service = LinkService::new(udp());
    for len in [2, 300, 1400] {
        let data = packet(6, len);
        let frames = send(&mut service, &data, &LinkHeaders::default());
        assert_eq!(frames, [&data[..]]);
        let received = service.receive(NOW, &data).unwrap().unwrap();
        assert_eq!(received.headers, LinkHeaders::default());
        // Not a copy.
        assert_eq!(received.packet.as_ptr_range(), data.as_ptr_range());
    }
    let counters = service.counters();
    assert_eq!((counters.in_frames, counters.out_frames), (3, 3));
    assert_eq!((counters.in_bytes, counters.out_bytes), (1702, 1702));
    assert_eq!(service.poll_timeout(), None);
}

#[test]
fn headers_travel_in_one_frame_if_it_fits() {
    let local = LinkServiceConfig { local_fields: true, ..LinkServiceConfig::default() };
    let (mut here, mut there) = (LinkService::new(local), LinkService::new(local));
    let interest = packet(5, 60);
    let headers = LinkHeaders {
        pit_token: Some(&[9; 32]),
        congestion_mark: Some(1),
        next_hop_face_id: Some(300),
        incoming_face_id: Some(7),
        non_discovery: true,
        ..LinkHeaders::default()
    };
    let frames = send(&mut here, &interest, &headers);
    let lp = LpPacket::decode(&frames[0]).unwrap();
    assert_eq!((lp.fragment, lp.sequence, lp.frag_count), (Some(&interest[..]), None, None));
    let received = there.receive(NOW, &frames[0]).unwrap().unwrap();
    assert_eq!(received.headers, headers);
    assert!(frames[0].as_ptr_range().contains(&received.packet.as_ptr()), "not a copy");

    let headers = LinkHeaders { no_cache: true, ..LinkHeaders::default() };
    let frames = send(&mut here, &packet(6, MAX_PACKET), &headers);
    assert_eq!(LpPacket::decode(&frames[0]).unwrap().cache_policy, Some(CachePolicy::NO_CACHE));
    let received = there.receive(NOW, &frames[0]).unwrap().unwrap();
    assert_eq!((received.headers, received.packet.len()), (headers, MAX_PACKET));

    let headers = LinkHeaders { nack: Some(NackReason::CONGESTION), ..LinkHeaders::default() };
    let frames = send(&mut here, &interest, &headers);
    let received = there.receive(NOW, &frames[0]).unwrap().unwrap();
    assert_eq!((received.headers, received.packet), (headers, &interest[..]));
}

/// A prefix announcement travels with a Data, whole or in fragments, sent once or again. No Data is lost because of
/// one.
#[test]
fn announcements_travel_with_data() {
    let announcement = packet(6, 300);
    let headers = LinkHeaders { prefix_announcement: Some(&announcement), ..Default::default() };
    for reliability in [false, true] {
        for len in [100, 5000] {
            let config = LinkServiceConfig { reliability, ..udp() };
            let (mut here, mut there) = (LinkService::new(config), LinkService::new(config));
            let data = packet(6, len);
            let mut frames = send(&mut here, &data, &headers);
            if reliability {
                // None arrives; all are retransmitted.
                frames.clear();
                let due = here.poll_timeout().expect("a retransmission");
                here.handle_timeout(due, &mut |frame| frames.push(frame.to_vec()));
            }
            let (last, first) = frames.split_last().expect("frames");
            for frame in first {
                assert_eq!(there.receive(NOW, frame), Ok(None));
            }
            let received = there.receive(NOW, last).unwrap().expect("the Data");
            assert_eq!((received.headers, received.packet), (headers, &data[..]));
        }
    }
    let too_long = packet(6, 800);
    let headers = LinkHeaders { prefix_announcement: Some(&too_long), ..Default::default() };
    let data = packet(6, 100);
    assert_eq!(send(&mut LinkService::new(udp()), &data, &headers), [&data[..]]);
}

#[test]
fn local_fields_stay_where_they_are_on() {
    let mut closed = LinkService::new(udp());
    let ids = LinkHeaders {
        next_hop_face_id: Some(1),
        incoming_face_id: Some(2),
        ..LinkHeaders::default()
    };
    let interest = packet(5, 20);
    assert_eq!(send(&mut closed, &interest, &ids), [&interest[..]], "bare: nothing is left to say");
    let chosen = frame(&interest, |lp| lp.next_hop_face_id = Some(1));
    assert_eq!(closed.receive(NOW, &chosen), Err(LinkServiceError::LocalField));
    let told = frame(&interest, |lp| lp.incoming_face_id = Some(2));
    let received = closed.receive(NOW, &told).unwrap().unwrap();
    assert_eq!(received.headers, LinkHeaders::default());
    assert_eq!(closed.counters().in_refused, 1);
}

#[test]
fn fields_that_do_not_belong_to_the_packet_are_refused() {
    let config = LinkServiceConfig { local_fields: true, ..LinkServiceConfig::default() };
    let mut service = LinkService::new(config);
    let (interest, data) = (packet(5, 20), packet(6, 20));
    let misplaced = |field| Err(LinkServiceError::Misplaced { field });
    let mut check = |bytes: Vec<u8>, field| {
        assert_eq!(service.receive(NOW, &bytes), misplaced(field), "field {field}");
    };
    let nack = Some(NackReason::NO_ROUTE);
    let policy = Some(CachePolicy::NO_CACHE);
    check(frame(&data, |lp| lp.nack = nack), types::LP_NACK);
    check(frame(&data, |lp| lp.next_hop_face_id = Some(1)), types::LP_NEXT_HOP_FACE_ID);
    check(frame(&data, |lp| lp.non_discovery = true), types::LP_NON_DISCOVERY);
    check(frame(&interest, |lp| lp.cache_policy = policy), types::LP_CACHE_POLICY);
    let announced = |lp: &mut LpPacket<'_>| lp.prefix_announcement = Some(&[]);
    check(frame(&interest, announced), types::LP_PREFIX_ANNOUNCEMENT);
    for change in [
        |lp: &mut LpPacket<'_>| lp.next_hop_face_id = Some(1),
        |lp: &mut LpPacket<'_>| lp.non_discovery = true,
        |lp: &mut LpPacket<'_>| lp.cache_policy = Some(CachePolicy(2)),
    ] {
        let bytes = frame(&interest, |lp| {
            lp.nack = nack;
            change(lp);
        });
        let refused = service.receive(NOW, &bytes);
        assert!(matches!(refused, Err(LinkServiceError::Misplaced { .. })), "{refused:?}");
    }
    // An unknown policy requests nothing.
    let unknown = frame(&data, |lp| lp.cache_policy = Some(CachePolicy(2)));
    assert!(!service.receive(NOW, &unknown).unwrap().unwrap().headers.no_cache);
}

#[test]
fn malformed_frames_are_refused_and_idle_packets_are_not() {
    let mut service = LinkService::new(udp());
    for bytes in [&[][..], &[0], &[7, 0], &[0x15, 0], &[0xFD, 0, 5]] {
        assert_eq!(service.receive(NOW, bytes), Err(LinkServiceError::NotAPacket), "{bytes:?}");
    }
    let truncated = Err(LinkServiceError::Decode(DecodeError::Truncated));
    assert_eq!(service.receive(NOW, &[0x64, 5, 1]), truncated);
    assert_eq!(service.receive(NOW, &frame(&[7, 0], |_| ())), Err(LinkServiceError::NotAPacket));
    assert_eq!(service.receive(NOW, &[0x64, 0]), Ok(None));
    assert_eq!(service.receive(NOW, &frame(&[], |lp| lp.sequence = Some(1))), Ok(None));
}

#[test]
fn frames_never_exceed_the_mtu() {
    for mtu in [0, 100, 149, 150, 576, 1280, 1400, 8800, MAX_FRAME, usize::MAX] {
        for (reliability, token) in [(false, 0), (false, 1), (false, 32), (true, 0), (true, 32)] {
            let config = LinkServiceConfig { mtu, reliability, ..udp() };
            let (mut here, mut there) = (LinkService::new(config), LinkService::new(config));
            let token = vec![3; token];
            let pit_token = (!token.is_empty()).then_some(&token[..]);
            let headers = LinkHeaders { pit_token, ..LinkHeaders::default() };
            for len in [2, 60, 200, 252, 253, 1300, 1380, 1400, 1401, 3000, MAX_PACKET] {
                let data = packet(6, len);
                let mut got = None;
                let mut sent = 0;
                let result = here.send(NOW, &data, &headers, 0, &mut |bytes| {
                    assert!(bytes.len() <= mtu.max(MIN_MTU), "{} over {mtu}", bytes.len());
                    sent += 1;
                    if let Some(received) = there.receive(NOW, bytes).expect("our own frame") {
                        assert_eq!(received.headers, headers);
                        got = Some(received.packet.to_vec());
                    }
                });
                match result {
                    Ok(()) => assert_eq!(got.as_deref(), Some(&data[..]), "{len} at {mtu}"),
                    Err(_) => assert!(sent == 0 && mtu < 150, "{len} at {mtu}: {result:?}"),
                }
            }
        }
    }
}

#[test]
fn packets_that_do_not_fit_are_refused_before_anything_is_sent() {
    let whole = LinkServiceConfig { fragmentation: false, ..udp() };
    let mut service = LinkService::new(whole);
    let mut never = |_: &[u8]| panic!("nothing may be sent");
    let none = LinkHeaders::default();
    let over = |len| Err(LinkServiceError::OverMtu { len });
    assert_eq!(service.send(NOW, &packet(6, 1401), &none, 0, &mut never), over(1401));
    let few = LinkServiceConfig { max_fragments: 2, ..udp() };
    service.set_config(few);
    let many = service.send(NOW, &packet(6, 4000), &none, 0, &mut never);
    assert_eq!(many, Err(LinkServiceError::TooManyFragments(3)));
    let long = vec![6; MAX_PACKET + 1];
    assert_eq!(service.send(NOW, &long, &none, 0, &mut never), over(MAX_PACKET + 1));
    assert_eq!(service.counters().out_refused, 3);
}

#[test]
fn every_fragment_carries_the_packets_headers() {
    // NDNd takes a packet's headers from the last fragment to arrive, NFD from the first.
    let mut service = LinkService::new(udp());
    let headers = LinkHeaders { pit_token: Some(&[1; 6]), ..LinkHeaders::default() };
    let frames = send(&mut service, &packet(6, 5000), &headers);
    assert_eq!(frames.len(), 4);
    for (n, bytes) in frames.iter().enumerate() {
        let lp = LpPacket::decode(bytes).unwrap();
        assert_eq!((lp.sequence, lp.frag_index), (Some(n as u64), Some(n as u64)));
        assert_eq!((lp.frag_count, lp.pit_token), (Some(4), Some(&[1; 6][..])));
    }
    assert!(frames[..3].iter().all(|bytes| bytes.len() > 1390), "full frames");
    // The next packet's numbers follow.
    let next = send(&mut service, &packet(6, 1500), &headers);
    assert_eq!(LpPacket::decode(&next[0]).unwrap().sequence, Some(4));
}

/// A fragment of a packet; `base` is the Sequence of the packet's first fragment.
fn piece(base: u64, index: u64, count: u64, bytes: &[u8]) -> Vec<u8> {
    frame(bytes, |lp| {
        lp.sequence = Some(base.wrapping_add(index));
        lp.frag_index = Some(index);
        lp.frag_count = Some(count);
    })
}

#[test]
fn fragments_that_contradict_are_refused() {
    let mut service = LinkService::new(udp());
    let mut receive = |bytes: &[u8]| service.receive(NOW, bytes).map(|r| r.map(|r| r.packet.len()));
    let data = packet(6, 100);
    let (a, b) = data.split_at(50);
    let index = LinkServiceError::FragmentIndex { index: 2, count: 2 };
    assert_eq!(receive(&piece(0, 2, 2, a)), Err(index));
    let index = LinkServiceError::FragmentIndex { index: 0, count: 0 };
    assert_eq!(receive(&piece(0, 0, 0, a)), Err(index));
    let lone = frame(a, |lp| lp.frag_index = Some(3));
    let index = LinkServiceError::FragmentIndex { index: 3, count: 1 };
    assert_eq!(receive(&lone), Err(index));
    assert_eq!(receive(&piece(0, 0, 401, a)), Err(LinkServiceError::TooManyFragments(401)));
    let most = u64::MAX;
    assert_eq!(receive(&piece(0, 0, most, a)), Err(LinkServiceError::TooManyFragments(most)));
    let unnumbered = frame(a, |lp| lp.frag_count = Some(2));
    assert_eq!(receive(&unnumbered), Err(LinkServiceError::SequenceMissing));
    assert_eq!(receive(&piece(9, 0, 2, b"\x07")), Err(LinkServiceError::NotAPacket));

    // The numbers wrap around.
    let base = u64::MAX;
    assert_eq!(receive(&piece(base, 1, 2, b)), Ok(None));
    assert_eq!(receive(&piece(base, 1, 2, b)), Ok(None), "a duplicate is none");
    assert_eq!(receive(&piece(base, 1, 2, a)), Err(LinkServiceError::FragmentConflict));
    assert_eq!(receive(&piece(base, 0, 3, a)), Err(LinkServiceError::FragmentConflict));
    assert_eq!(receive(&piece(base, 0, 2, a)), Ok(Some(100)), "the good ones still make it");
    assert_eq!(service.counters().duplicates, 1);
    assert_eq!(service.reassembling(), (0, 0));
}

#[test]
fn a_reassembled_packet_has_a_limit() {
    let mut service = LinkService::new(udp());
    let half = packet(6, MAX_PACKET / 2);
    for (index, expected) in [(0, Ok(None)), (1, Ok(None)), (2, Err(LinkServiceError::TooLong))] {
        let bytes = piece(5, index, 4, &half);
        assert_eq!(service.receive(NOW, &bytes), expected);
    }
    assert_eq!(service.reassembling(), (0, 0));
    assert_eq!(service.counters().reassembly_lost, 1);
}

#[test]
fn a_flood_of_first_fragments_does_not_grow_memory() {
    let mut service = LinkService::new(udp());
    let data = packet(6, 1300);
    for n in 0..100_000 {
        assert_eq!(service.receive(NOW, &piece(n * 2, 0, 2, &data)), Ok(None));
        let (partials, bytes) = service.reassembling();
        assert!(partials <= 64 && bytes <= 64 * 1300);
    }
    assert_eq!(service.counters().reassembly_lost, 100_000 - 64);
    assert_eq!(service.poll_timeout(), Some(ms(500)));
    service.handle_timeout(ms(499), &mut |_| ());
    assert_eq!(service.reassembling().0, 64);
    service.handle_timeout(ms(500), &mut |_| ());
    assert_eq!((service.reassembling(), service.poll_timeout()), ((0, 0), None));
    assert_eq!(service.counters().reassembly_lost, 100_000);
}

#[test]
fn endpoints_are_kept_apart() {
    let mut service = LinkService::new(udp());
    let (x, y) = (packet(6, 100), packet(6, 90));
    assert_eq!(service.receive_from(NOW, 1, &piece(0, 0, 2, &x[..50])), Ok(None));
    assert_eq!(service.receive_from(NOW, 2, &piece(0, 0, 2, &y[..50])), Ok(None));
    let last = piece(0, 1, 2, &y[50..]);
    let received = service.receive_from(NOW, 2, &last).unwrap().unwrap();
    assert_eq!(received.packet, y);
    let last = piece(0, 1, 2, &x[50..]);
    let received = service.receive_from(NOW, 1, &last).unwrap().unwrap();
    assert_eq!(received.packet, x);
}

#[test]
fn packets_are_marked_while_the_queue_is_long() {
    let mut service = LinkService::new(udp());
    let mut marks = |at: u64, queued: usize, mark: Option<u64>| {
        let headers = LinkHeaders { congestion_mark: mark, ..LinkHeaders::default() };
        let mut mark = None;
        service
            .send(ms(at), &packet(6, 500), &headers, queued, &mut |bytes| {
                mark = LpPacket::decode(bytes).ok().and_then(|lp| lp.congestion_mark);
            })
            .unwrap();
        mark
    };
    assert_eq!(marks(0, 65536, None), None);
    assert_eq!(marks(0, 65537, None), Some(1));
    assert_eq!(marks(50, 70_000, None), None);
    assert_eq!(marks(100, 70_000, None), Some(1));
    assert_eq!(marks(171, 70_000, Some(0)), Some(1));
    assert_eq!(marks(500, 70_000, Some(5)), Some(5), "a mark from upstream is kept");
    assert_eq!(marks(900, 0, Some(5)), Some(5));
    assert_eq!(service.counters().congestion_marked, 4);
    service.set_config(LinkServiceConfig { congestion_marking: false, ..udp() });
    let bare = packet(6, 500);
    service
        .send(ms(2000), &bare, &LinkHeaders::default(), usize::MAX, &mut |b| assert_eq!(b, bare))
        .unwrap();
}

fn reliable() -> LinkServiceConfig {
    LinkServiceConfig { reliability: true, ..udp() }
}

#[test]
fn acknowledgements_travel_with_packets_or_alone() {
    let (mut here, mut there) = (LinkService::new(reliable()), LinkService::new(reliable()));
    let none = LinkHeaders::default();
    for bytes in send(&mut here, &packet(5, 30), &none) {
        assert!(there.receive(NOW, &bytes).unwrap().is_some());
    }
    for bytes in send(&mut here, &packet(6, 3000), &none) {
        there.receive(NOW, &bytes).unwrap();
    }
    assert_eq!(here.unacknowledged().0, 4);
    // Four acknowledgements wait. The answer carries them; the next packet has none to carry.
    assert_eq!(there.poll_timeout(), Some(ms(5)));
    let answer = send(&mut there, &packet(6, 30), &none);
    let lp = LpPacket::decode(&answer[0]).unwrap();
    assert_eq!(lp.acks.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(lp.tx_sequence.is_some());
    here.receive(ms(3), &answer[0]).unwrap();
    assert_eq!(here.unacknowledged(), (0, 0));
    assert_eq!(here.counters().acknowledged, 4);
    // An idle packet acknowledges the answer itself when the delay has passed.
    assert_eq!(here.poll_timeout(), Some(ms(8)));
    let mut idle = Vec::new();
    here.handle_timeout(ms(7), &mut |_| panic!("too early"));
    here.handle_timeout(ms(8), &mut |bytes| idle.push(bytes.to_vec()));
    assert_eq!(idle.len(), 1);
    assert_eq!(LpPacket::decode(&idle[0]).unwrap().fragment, None);
    assert_eq!(there.receive(ms(9), &idle[0]), Ok(None));
    assert_eq!((there.poll_timeout(), here.poll_timeout()), (None, None));
}

#[test]
fn idle_packets_hold_as_many_acknowledgements_as_fit() {
    let (mut here, mut there) = (LinkService::new(reliable()), LinkService::new(reliable()));
    for _ in 0..1500 {
        for bytes in send(&mut here, &packet(5, 30), &LinkHeaders::default()) {
            there.receive(NOW, &bytes).unwrap();
        }
    }
    let mut frames = 0;
    there.handle_timeout(ms(5), &mut |bytes| {
        assert!(bytes.len() <= 1400);
        frames += 1;
        here.receive(ms(5), bytes).unwrap();
    });
    // The oldest 476 were dropped (the queue has 1,024), and will be retransmitted.
    assert_eq!((frames, here.counters().acknowledged), (9, 1024));
    assert_eq!(here.unacknowledged().0, 476);
}

#[test]
fn packets_beyond_the_outstanding_limit_are_sent_unnumbered() {
    let config = LinkServiceConfig { max_unacknowledged: 10, ..reliable() };
    let mut service = LinkService::new(config);
    for n in 0..100 {
        let frames = send(&mut service, &packet(6, 3000), &LinkHeaders::default());
        let numbered = LpPacket::decode(&frames[0]).unwrap().tx_sequence.is_some();
        assert_eq!(numbered, n < 3, "three frames each");
        assert!(service.unacknowledged().0 <= 10);
    }
    assert_eq!(service.counters().unprotected, 97);
    // No acknowledgement ever comes: every packet is given up at last.
    let mut repeated = 0;
    while let Some(at) = service.poll_timeout() {
        service.handle_timeout(at, &mut |_| repeated += 1);
    }
    assert_eq!((repeated, service.counters().lost), (27, 3), "three times nine frames");
    assert_eq!(service.unacknowledged(), (0, 0));
}

#[test]
fn reliability_can_be_turned_off() {
    let mut service = LinkService::new(reliable());
    send(&mut service, &packet(6, 3000), &LinkHeaders::default());
    service.set_config(udp());
    assert_eq!((service.unacknowledged(), service.poll_timeout()), ((0, 0), None));
    let bare = packet(6, 300);
    assert_eq!(send(&mut service, &bare, &LinkHeaders::default()), [&bare[..]]);
    // Numbered frames from the other side are accepted, and not acknowledged.
    let numbered = frame(&bare, |lp| lp.tx_sequence = Some(3));
    assert!(service.receive(NOW, &numbered).unwrap().is_some());
    assert_eq!(service.poll_timeout(), None);
    // Numbers continue, so that late acknowledgements confirm nothing new.
    service.set_config(reliable());
    let frames = send(&mut service, &bare, &LinkHeaders::default());
    assert_eq!(LpPacket::decode(&frames[0]).unwrap().tx_sequence, Some(3));
}
