//! Arbitrary frames in arbitrary order, at arbitrary times, into two link services that also send to each other.
//! Nothing panics, no table exceeds its limit, no frame exceeds the MTU, and each sent packet arrives unchanged.
#![no_main]

use core::time::Duration;

use xylem_packet::MAX_PACKET;
use xylem_packet::link_service::{LinkHeaders, LinkService, LinkServiceConfig, MIN_MTU};

// The input is a program: an octet selects a step, the next ones are its arguments.
libfuzzer_sys::fuzz_target!(|program: &[u8]| {
    let Some((&[flags, mtu], mut rest)) = program.split_first_chunk::<2>() else { return };
    let config = LinkServiceConfig {
        mtu: usize::from(mtu) * 40,
        fragmentation: flags & 1 != 0,
        reliability: flags & 2 != 0,
        local_fields: flags & 4 != 0,
        max_partial_packets: 4,
        max_unacknowledged: 16,
        max_waiting_acks: 8,
        ..LinkServiceConfig::default()
    };
    let mut sides = [LinkService::new(config), LinkService::new(config)];
    let mut now = Duration::ZERO;
    // Frames on the way from one side to the other.
    let mut wire: Vec<(usize, Vec<u8>)> = Vec::new();
    while let Some((&[what, arg], more)) = rest.split_first_chunk::<2>() {
        rest = more;
        let side = usize::from(what >> 7);
        let mut emitted = Vec::new();
        match what & 7 {
            0 => now += Duration::from_millis(u64::from(arg) * 10),
            1 => sides[side].handle_timeout(now, &mut |frame| emitted.push(frame.to_vec())),
            2 | 3 => {
                let len = 2 + usize::from(arg) * 30;
                let packet = vec![if what & 8 == 0 { 5 } else { 6 }; len];
                let token = &rest[..rest.len().min(usize::from(what >> 4 & 7))];
                let headers = LinkHeaders {
                    pit_token: (!token.is_empty()).then_some(token),
                    congestion_mark: (arg & 1 != 0).then_some(1),
                    ..LinkHeaders::default()
                };
                let queued = usize::from(arg) << 10;
                let _ = sides[side].send(now, &packet, &headers, queued, &mut |frame| {
                    emitted.push(frame.to_vec());
                });
            }
            4 if !wire.is_empty() => {
                let (to, frame) = wire.swap_remove(usize::from(arg) % wire.len());
                let received = sides[to].receive(now, &frame).expect("what the other side sent");
                if let Some(received) = received {
                    let first = received.packet[0];
                    assert!(received.packet.iter().all(|octet| *octet == first));
                    assert!(received.packet.len() % 30 == 2);
                }
            }
            5 if !wire.is_empty() => {
                let copy = wire[usize::from(arg) % wire.len()].clone();
                wire.push(copy);
            }
            6 if !wire.is_empty() => {
                wire.swap_remove(usize::from(arg) % wire.len());
            }
            7 => {
                // A stranger's frame, with any false field, to a service of its own.
                let (frame, more) = rest.split_at(rest.len().min(usize::from(arg)));
                rest = more;
                let mut stranger = sides[side].clone();
                if let Ok(Some(received)) = stranger.receive_from(now, 9, frame) {
                    assert!(received.packet.len() <= MAX_PACKET + 200);
                }
                let _ = stranger.poll_timeout();
                stranger.handle_timeout(now + Duration::from_secs(30), &mut |_| ());
                let _ = sides[side].receive_from(now, 9, frame).map(|received| received.is_some());
            }
            _ => {}
        }
        for frame in emitted {
            assert!(frame.len() <= config.mtu.max(MIN_MTU), "{} bytes", frame.len());
            wire.push((1 - side, frame));
        }
        wire.truncate(256);
        for service in &sides {
            assert!(service.reassembling().0 <= 4);
            assert!(service.reassembling().1 <= 4 * MAX_PACKET);
            assert!(service.unacknowledged().0 <= 16);
            let _ = service.poll_timeout();
        }
    }
});
