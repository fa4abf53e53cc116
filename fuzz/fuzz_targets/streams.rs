//! Streams of one link: any frames of the peer between any calls of the program, and two sides connected to each other.
//! Nothing panics, and two honest sides never report a violation of each other.
#![no_main]

use core::time::Duration;

use libfuzzer_sys::fuzz_target;
use xylem_link_internals::internals::LooseStreams;

fuzz_target!(|data: &[u8]| {
    let Some((mode, mut data)) = data.split_first() else { return };
    let mut sides = [LooseStreams::new(true), LooseStreams::new(false)];
    let (mut now, mut flying) = (Duration::ZERO, Vec::new());
    while let Some((head, rest)) = data.split_first_chunk::<4>() {
        let [what, stream, len, time] = *head;
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(len)));
        data = rest;
        let side = usize::from(what & 1);
        match what >> 5 {
            // Frames that a hostile peer made.
            0 if mode & 1 == 1 => {
                if !sides[side].receive(now, None, piece) {
                    return;
                }
            }
            0..=2 => sides[side].call(what >> 1, u32::from(stream % 16), &piece.repeat(20)),
            3 => {
                now += Duration::from_millis(u64::from(time));
                sides[side].pass(now);
            }
            4 if !flying.is_empty() => {
                drop(flying.swap_remove(usize::from(stream) % flying.len()));
            }
            5..=6 if !flying.is_empty() => {
                let at = usize::from(stream) % flying.len();
                let (to, (number, datagram)): (usize, (u64, Vec<u8>)) = flying.remove(at);
                let honest = sides[to].receive(now, Some(number), &datagram);
                assert!(honest || mode & 1 == 1, "an honest peer is called broken");
                if !honest {
                    return;
                }
            }
            _ => {
                let size = [1_200, 65_507][usize::from(stream & 1)];
                flying.extend(sides[side].fill(now, size).into_iter().map(|d| (1 - side, d)));
            }
        }
        sides.iter_mut().for_each(|side| {
            let _ = side.events();
        });
    }
});
