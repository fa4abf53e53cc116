//! Captures that the test writes, octet by octet or by `etherparse`: each way that a packet can travel, and damage.

use std::time::Duration;

use etherparse::{PacketBuilder, VlanId};
use proptest::prelude::*;
use xylem_capture::{Capture, CaptureError, CapturedFrame, FrameCarrier, dissect};
use xylem_packet::link_service::{LinkHeaders, LinkService, LinkServiceConfig};
use xylem_packet::{DataBuilder, InterestBuilder, LpPacket, NackReason, Name};

const ETHERNET: u32 = 1;
const RAW: u32 = 101;
const COOKED: u32 = 113;
const COOKED_2: u32 = 276;
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const IPS: [[u8; 4]; 2] = [[192, 0, 2, 1], [192, 0, 2, 2]];

fn interest(uri: &str) -> Vec<u8> {
    let name = Name::from_uri(uri).unwrap();
    let mut wire = Vec::new();
    InterestBuilder::new(name.as_ref()).nonce([1, 2, 3, 4]).encode(&mut wire).unwrap();
    wire
}

fn data(uri: &str, len: usize) -> Vec<u8> {
    let name = Name::from_uri(uri).unwrap();
    let mut wire = Vec::new();
    let content = vec![7; len];
    DataBuilder::new(name.as_ref())
        .encode(&mut wire, &content, |_, value| value.extend([0; 32]))
        .unwrap();
    wire
}

/// A pcap file with microseconds; frame n has the time n seconds and n microseconds.
fn pcap<'a>(link: u32, frames: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4_u32.to_le_bytes());
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 4, 0]);
    file.extend(link.to_le_bytes());
    for (n, frame) in (1_u32..).zip(frames) {
        file.extend(n.to_le_bytes());
        file.extend(n.to_le_bytes());
        file.extend((frame.len() as u32).to_le_bytes());
        file.extend((frame.len() as u32).to_le_bytes());
        file.extend(frame);
    }
    file
}

/// A block of a pcapng file in this byte order.
fn block(is_big: bool, typ: u32, body: &[u8]) -> Vec<u8> {
    let number = |n: u32| if is_big { n.to_be_bytes() } else { n.to_le_bytes() };
    let padded = body.len().next_multiple_of(4);
    let len = number(padded as u32 + 12);
    let mut block = [number(typ), len].concat();
    block.extend(body);
    block.resize(8 + padded, 0);
    block.extend(len);
    block
}

/// A pcapng file with one interface, whose times have this resolution (`if_tsresol`).
fn pcapng<'a>(
    is_big: bool,
    link: u16,
    resolution: u8,
    frames: impl IntoIterator<Item = (u64, &'a Vec<u8>)>,
) -> Vec<u8> {
    let number = |n: u32| if is_big { n.to_be_bytes() } else { n.to_le_bytes() };
    let half = |n: u16| if is_big { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut section = number(0x1A2B_3C4D).to_vec();
    section.extend([half(1), half(0)].concat());
    section.extend([0xff; 8]);
    let mut file = block(is_big, 0x0A0D_0D0A, &section);
    let mut interface = [half(link), half(0)].concat();
    interface.extend(number(0));
    interface.extend([half(9), half(1)].concat());
    interface.extend([resolution, 0, 0, 0]);
    interface.extend([half(0), half(0)].concat());
    file.extend(block(is_big, 1, &interface));
    for (time, frame) in frames {
        let len = frame.len() as u32;
        let mut packet = Vec::new();
        for n in [0, (time >> 32) as u32, time as u32, len, len] {
            packet.extend(number(n));
        }
        packet.extend(frame);
        file.extend(block(is_big, 6, &packet));
    }
    file
}

fn udp_at(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(MACS[0], MACS[1])
        .ipv4(IPS[0], IPS[1], 64)
        .udp(ports[0], ports[1])
        .write(&mut frame, payload)
        .unwrap();
    frame
}

fn udp(payload: &[u8]) -> Vec<u8> {
    udp_at([4000, 6363], payload)
}

fn tcp(sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(MACS[0], MACS[1])
        .ipv4(IPS[0], IPS[1], 64)
        .tcp(4000, 6363, sequence, 1000)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

fn read(file: &[u8]) -> Result<Vec<CapturedFrame>, CaptureError> {
    let mut capture = Capture::open(file)?;
    let mut frames = Vec::new();
    while let Some(frame) = capture.next_frame()? {
        frames.push(frame);
    }
    Ok(frames)
}

/// The NDN frames of these captured ones.
fn frames(captured: &[Vec<u8>]) -> Vec<CapturedFrame> {
    read(&pcap(ETHERNET, captured)).unwrap()
}

fn packets(captured: &[Vec<u8>]) -> Vec<Vec<u8>> {
    frames(captured).into_iter().filter_map(|frame| frame.packet).collect()
}

#[test]
fn a_datagram_has_its_time_and_its_ends() {
    let (asked, answered) = (interest("/a"), data("/a", 100));
    let found = frames(&[udp(&asked), udp_at([6363, 4000], &answered)]);
    let [first, second] = &found[..] else { panic!("{found:?}") };
    assert_eq!(first.time, Duration::from_micros(1_000_001));
    assert_eq!(
        (first.carrier, first.from.to_string()),
        (FrameCarrier::Udp, "192.0.2.1:4000".into())
    );
    assert_eq!((first.to.to_string(), &first.frame), ("192.0.2.2:6363".into(), &asked));
    assert_eq!((second.time, &second.packet), (Duration::from_micros(2_000_002), &Some(answered)));
}

#[test]
fn both_formats_are_read_in_both_byte_orders() {
    let frame = udp(&interest("/a"));
    // Resolutions: microseconds, nanoseconds, and parts of 2^-10 seconds.
    for is_big in [false, true] {
        for (resolution, time, wanted) in [
            (6, 5_000_001, Duration::from_micros(5_000_001)),
            (9, 5_000_000_001, Duration::from_nanos(5_000_000_001)),
            (0x8A, 5 * 1024 + 512, Duration::from_millis(5_500)),
        ] {
            let file = pcapng(is_big, 1, resolution, [(time, &frame)]);
            let found = read(&file).unwrap();
            assert_eq!((found.len(), found[0].time), (1, wanted), "{is_big} {resolution}");
        }
    }
    // The older format, big endian and in nanoseconds.
    let mut file = 0xa1b2_3c4d_u32.to_be_bytes().to_vec();
    file.extend([0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0xff, 0xff, 0, 0, 0, 1]);
    for n in [5, 7, frame.len() as u32, frame.len() as u32] {
        file.extend(n.to_be_bytes());
    }
    file.extend(&frame);
    let found = read(&file).unwrap();
    assert_eq!(found[0].time, Duration::new(5, 7));
}

#[test]
fn links_without_ethernet_are_read() {
    let asked = interest("/a");
    let frame = udp(&asked);
    let ip = &frame[14..];
    let cooked = [&[0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0][..], ip].concat();
    let cooked_2 = [&[8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], ip].concat();
    let loopback = [&[2, 0, 0, 0][..], ip].concat();
    for (link, frame) in [(RAW, ip.to_vec()), (COOKED, cooked), (COOKED_2, cooked_2), (0, loopback)]
    {
        let found = read(&pcap(link, [&frame])).unwrap();
        assert_eq!(found.len(), 1, "link type {link}");
        assert_eq!(found[0].packet.as_ref(), Some(&asked));
    }
    let refused = read(&pcap(147, [&frame]));
    assert!(matches!(refused, Err(CaptureError::UnknownLinkType(147))), "{refused:?}");
}

#[test]
fn ethernet_frames_lose_their_padding() {
    let asked = interest("/a");
    let mut plain = [&MACS[1][..], &MACS[0], &[0x86, 0x24], &asked].concat();
    plain.resize(60, 0);
    let mut tagged = [&MACS[1][..], &MACS[0], &[0x81, 0, 0, 5, 0x86, 0x24], &asked].concat();
    tagged.resize(64, 0);
    for frame in frames(&[plain, tagged]) {
        assert_eq!((frame.carrier, &frame.frame), (FrameCarrier::Ethernet, &asked));
        assert_eq!(frame.from.to_string(), "02:00:00:00:00:01");
        assert_eq!(frame.to.to_string(), "02:00:00:00:00:02");
    }
    // UDP in a VLAN.
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(MACS[0], MACS[1])
        .single_vlan(VlanId::try_new(5).unwrap())
        .ipv6([1; 16], [2; 16], 9)
        .udp(56363, 56363)
        .write(&mut frame, &asked)
        .unwrap();
    assert_eq!(packets(&[frame]), [asked]);
}

#[test]
fn only_ndn_is_listed() {
    let asked = interest("/a");
    let dns = udp_at([5353, 5353], b"\0\0\x84\0some other protocol");
    let elsewhere = udp_at([4000, 4001], &asked);
    assert_eq!(packets(&[dns.clone(), elsewhere]), [asked]);
    // At an NDN port everything is shown, also what is no packet.
    let found = frames(&[udp(b"hello"), udp(b"\x05\x03\x07\x01\x08"), dns]);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|frame| frame.packet.is_none()));
    assert_eq!(found[0].frame, b"hello");
}

#[test]
fn a_train_of_datagrams_is_taken_apart() {
    let train = [data("/a/seg=0", 1_000), data("/a/seg=1", 1_000), data("/a/seg=2", 10)];
    assert_eq!(packets(&[udp(&train.concat())]), train);
}

#[test]
fn ip_fragments_are_joined() {
    let whole = data("/a", 4_000);
    let frame = udp(&whole);
    // Header and payload of IP, cut anew into pieces of multiples of eight bytes.
    let (ethernet, ip, payload) = (&frame[..14], &frame[14..34], &frame[34..]);
    let piece = |at: usize, bytes: &[u8]| {
        let mut header = ip.to_vec();
        header[2..4].copy_from_slice(&(20 + bytes.len() as u16).to_be_bytes());
        header[4..6].copy_from_slice(&[9, 9]);
        let more = at + bytes.len() < payload.len();
        let offset = (at / 8) as u16 | if more { 0x2000 } else { 0 };
        header[6..8].copy_from_slice(&offset.to_be_bytes());
        [ethernet, &header, bytes].concat()
    };
    let mut pieces: Vec<Vec<u8>> =
        (0..).zip(payload.chunks(1_480)).map(|(n, bytes)| piece(n * 1_480, bytes)).collect();
    assert_eq!(packets(&pieces), std::slice::from_ref(&whole));
    pieces.reverse();
    assert_eq!(packets(&pieces), [whole]);
    pieces.pop();
    assert_eq!(packets(&pieces), [[0; 0]; 0], "a piece is missing");
}

#[test]
fn link_fragments_are_reassembled() {
    let whole = data("/a", 4_000);
    let config =
        LinkServiceConfig { mtu: 1_400, fragmentation: true, ..LinkServiceConfig::default() };
    let mut link_service = LinkService::new(config);
    let mut pieces = Vec::new();
    let headers = LinkHeaders { pit_token: Some(&[7; 4]), ..LinkHeaders::default() };
    link_service
        .send(Duration::ZERO, &whole, &headers, 0, &mut |frame| pieces.push(udp(frame)))
        .unwrap();
    assert!(pieces.len() > 2);
    let found = frames(&pieces);
    assert_eq!(found.len(), pieces.len());
    let (last, others) = found.split_last().unwrap();
    assert!(others.iter().all(|frame| frame.packet.is_none()));
    assert_eq!(last.packet, Some(whole));
}

#[test]
fn link_headers_stay_with_their_packet() {
    let asked = interest("/a");
    let lp = LpPacket {
        nack: Some(NackReason::NO_ROUTE),
        fragment: Some(&asked),
        ..LpPacket::default()
    };
    let mut wire = Vec::new();
    lp.encode(&mut wire);
    let found = frames(&[udp(&wire)]);
    assert_eq!((&found[0].frame, found[0].packet.as_ref()), (&wire, Some(&asked)));
}

/// Packets of a connection, and its bytes.
fn connection() -> (Vec<Vec<u8>>, Vec<u8>) {
    let sent = vec![interest("/a"), data("/a/seg=0", 3_000), interest("/b"), data("/b", 200)];
    let bytes = sent.concat();
    (sent, bytes)
}

#[test]
fn a_connection_is_put_in_order() {
    let (sent, bytes) = connection();
    let start = u32::MAX - 1_000;
    // The numbers wrap around. Each segment of 700 bytes also repeats the last 100 before it.
    let mut segments: Vec<Vec<u8>> = (0..bytes.len())
        .step_by(700)
        .map(|at| {
            let from = at.saturating_sub(100);
            tcp(start.wrapping_add(from as u32), &bytes[from..bytes.len().min(at + 700)])
        })
        .collect();
    assert_eq!(packets(&segments), sent);
    assert!(frames(&segments).iter().all(|frame| frame.carrier == FrameCarrier::Tcp));
    segments[1..].reverse();
    assert_eq!(packets(&segments), sent);
}

#[test]
fn a_connection_is_taken_up_in_its_middle() {
    let (sent, bytes) = connection();
    let first = sent[0].len();
    let within = first + 1_000;
    let behind = first + sent[1].len();
    let segment = |from: usize, to: usize| tcp(from as u32, &bytes[from..to]);
    let captured = [segment(within, behind), segment(behind, bytes.len())];
    assert_eq!(packets(&captured), sent[2..]);
}

#[test]
fn after_a_lost_segment_the_next_packets_are_found() {
    let asked = interest("/a");
    let mut captured = vec![tcp(0, &asked)];
    // The second segment is missing; more follow than are kept.
    let many: Vec<Vec<u8>> = (0..200).map(|n| interest(&format!("/{n}"))).collect();
    let mut at = 5_000;
    for packet in &many {
        captured.push(tcp(at, packet));
        at += packet.len() as u32;
    }
    for len in [3, 20, 201] {
        let found = packets(&captured[..len]);
        let wanted: Vec<&Vec<u8>> = std::iter::once(&asked).chain(&many[..len - 1]).collect();
        assert!(found.iter().eq(wanted), "{len}: {} packets", found.len());
    }
}

#[test]
fn a_websocket_is_opened() {
    let (asked, answered) = (interest("/a"), data("/a", 300));
    let head = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    let mask = [1, 2, 3, 4];
    let masked: Vec<u8> = asked.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b).collect();
    let frame = [&[0x82, 0x80 | asked.len() as u8][..], &mask, &masked].concat();
    let ping = [0x89, 0];
    let len = answered.len() as u16;
    let large = [&[0x82, 126][..], &len.to_be_bytes(), &answered].concat();
    let bytes = [&head[..], &frame, &ping, &large].concat();
    for cut in [1, 5, 60, head.len() + 3, bytes.len() - 1] {
        let captured = [tcp(0, &bytes[..cut]), tcp(cut as u32, &bytes[cut..])];
        let found = frames(&captured);
        assert!(found.iter().all(|frame| frame.carrier == FrameCarrier::WebSocket), "{cut}");
        assert_eq!(packets(&captured), [asked.clone(), answered.clone()], "{cut}");
    }
}

/// Made by dumpcap at Linux' device `any`, whose ports are not NDN's: two nodes, a node's programs, and a WebSocket.
#[test]
fn a_capture_of_wireshark_is_read() {
    let found = read(include_bytes!("data/any.pcapng")).unwrap();
    let count = |carrier| found.iter().filter(|frame| frame.carrier == carrier).count();
    let carriers = [FrameCarrier::Udp, FrameCarrier::Tcp, FrameCarrier::WebSocket];
    assert_eq!(carriers.map(count), [2, 6, 4]);
    assert!(found.iter().all(|frame| frame.packet.is_some()));
    assert!(found.is_sorted_by_key(|frame| frame.time));
    assert_eq!(found[0].time.as_micros(), 1_795_870_744_391_111);
}

#[test]
fn other_connections_are_no_ndn() {
    let tls = [&[0x16, 3, 1, 2, 0][..], &[9; 600]].concat();
    let http = b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n";
    // The first octet of a packet, and a length.
    let like = [&[6, 0xfd, 1, 0][..], &[9; 600]].concat();
    assert_eq!(frames(&[tcp(0, &tls), tcp(900, http), tcp(0, &like), tcp(604, &like)]), []);
}

#[test]
fn what_is_no_capture_is_refused() {
    for other in
        [&b""[..], b"\x05\x05\x07\x03\x08\x01a", &[0; 100], b"\n\r\r\n\0\0\0\x0c\x1a\x2b\x3c\x4d"]
    {
        assert!(matches!(read(other), Err(CaptureError::NotACapture)), "{other:?}");
    }
    let file = pcap(ETHERNET, &[udp(&interest("/a")), udp(&interest("/b"))]);
    for len in 24..file.len() {
        match read(&file[..len]) {
            Err(CaptureError::Truncated) => {}
            Ok(found) => assert!([24, 24 + 16 + 72].contains(&len) || found.len() == 1, "{len}"),
            Err(error) => panic!("{len}: {error}"),
        }
    }
}

#[test]
fn a_record_without_end_is_refused() {
    let mut file = pcap(ETHERNET, []);
    file.extend([0; 8]);
    file.extend([0xff, 0xff, 0xff, 0x7f].repeat(2));
    let endless = std::io::Read::chain(&file[..], std::io::repeat(0));
    let mut capture = Capture::open(endless).unwrap();
    assert!(matches!(capture.next_frame(), Err(CaptureError::TooLong)));
}

/// Captures of each kind, for damage.
fn samples() -> Vec<Vec<u8>> {
    let (_, bytes) = connection();
    let captured = vec![
        udp(&interest("/a")),
        tcp(0, &bytes[..1_000]),
        tcp(1_000, &bytes[1_000..]),
        udp(&data("/a", 2_000)),
        [&MACS[1][..], &MACS[0], &[0x86, 0x24], &interest("/e")].concat(),
    ];
    let timed = || (0..).zip(&captured);
    vec![pcap(ETHERNET, &captured), pcapng(false, 1, 6, timed()), pcapng(true, 1, 9, timed())]
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic_or_run_on(
        which in 0..3_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        len in any::<prop::sample::Index>(),
    ) {
        let mut file = samples().swap_remove(which);
        for (at, octet) in changes {
            let at = at.index(file.len());
            file[at] = octet;
        }
        file.truncate(len.index(file.len()) + 1);
        let Ok(mut capture) = Capture::open(&file[..]) else { return Ok(()) };
        let mut count = 0;
        while let Ok(Some(frame)) = capture.next_frame() {
            let _ = dissect(&frame.frame);
            count += 1;
            prop_assert!(count <= file.len());
        }
    }

    #[test]
    fn no_octets_make_it_panic(octets in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = read(&octets);
        let _ = read(&[&samples()[1][..], &octets].concat());
        let captured = [udp(&octets), tcp(0, &octets), octets.clone()];
        let _ = read(&pcap(ETHERNET, &captured));
        let found = dissect(&octets);
        prop_assert!(found.elements.len() <= octets.len());
    }
}
