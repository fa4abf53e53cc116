//! Captures: no file makes the reader panic, run on without end, or list more frames than it has bytes. The input is a
//! whole file, the packets of a file, or the segments of a connection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xylem_capture::Capture;

fn list(file: &[u8]) {
    let Ok(mut capture) = Capture::open(file) else { return };
    let mut frames = 0;
    while let Ok(Some(frame)) = capture.next_frame() {
        assert!(!frame.frame.is_empty() || frame.packet.is_none());
        frames += 1;
        assert!(frames <= file.len());
    }
}

/// A pcap file of Ethernet frames.
fn pcap(frames: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut file = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\x04\0\x01\0\0\0".to_vec();
    for frame in frames {
        let len = u32::try_from(frame.len()).expect("an input is shorter");
        for number in [0, 0, len, len] {
            file.extend(number.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// An Ethernet frame with IPv4 and this segment of TCP.
fn segment(sequence: u32, data: &[u8]) -> Vec<u8> {
    let len = u16::try_from(data.len()).unwrap_or(0).saturating_add(40);
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(len.to_be_bytes());
    frame.extend([0, 1, 0, 0, 9, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    frame.extend([0x18, 0xdb, 0x18, 0xdb]);
    frame.extend(sequence.to_be_bytes());
    frame.extend([0, 0, 0, 0, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(data);
    frame
}

fuzz_target!(|input: &[u8]| {
    list(input);
    let Some((cut, rest)) = input.split_first() else { return };
    let cut = usize::from(*cut).max(1);
    list(&pcap(rest.chunks(cut).map(<[u8]>::to_vec)));
    list(&pcap(std::iter::once(rest.to_vec())));
    // In order, and every other pair exchanged.
    let segments = rest.chunks(cut).scan(0, |at: &mut u32, data| {
        let here = *at;
        *at = at.wrapping_add(u32::try_from(data.len()).unwrap_or(0));
        Some(segment(here, data))
    });
    let mut segments: Vec<Vec<u8>> = segments.collect();
    list(&pcap(segments.iter().cloned()));
    segments.chunks_mut(2).for_each(<[Vec<u8>]>::reverse);
    list(&pcap(segments.into_iter()));
});
