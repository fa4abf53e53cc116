//! NDN packets in TCP connections: segments put in order, packets told apart, WebSocket frames opened.
//!
//! A capture may begin in the middle of a connection, and lack segments. A connection is then taken up again at the next
//! segment that begins with a packet.

use std::collections::HashMap;
use std::io::Cursor;
use std::net::SocketAddr;

use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use xylem_packet::{MAX_FRAME, Packet, frame_len};

use crate::layers::{Ends, FrameCarrier, Segment};

/// Directions of connections that are followed; beyond it the one that was silent for longest is given up.
const MAX_FLOWS: usize = 128;
/// Bytes of a direction that wait for a lost segment, and their segments.
const AHEAD_BYTES: usize = 64 * 1024;
const AHEAD_SEGMENTS: usize = 64;
/// The longest head of an HTTP request or answer that opens a WebSocket.
const MAX_HEAD: usize = 16 * 1024;

/// All directions that are followed.
#[derive(Default)]
pub(crate) struct Flows {
    flows: HashMap<Ends<SocketAddr>, Flow>,
    turn: u64,
}

impl Flows {
    /// Takes a segment; hands each packet that it completes to `found`.
    pub(crate) fn take(
        &mut self,
        ends: Ends<SocketAddr>,
        segment: &Segment<'_>,
        mut found: impl FnMut(FrameCarrier, &[u8]),
    ) {
        self.turn = self.turn.saturating_add(1);
        if !self.flows.contains_key(&ends) {
            if segment.data.is_empty() && !segment.is_first {
                return;
            }
            if self.flows.len() >= MAX_FLOWS {
                let silent = self.flows.iter().min_by_key(|(_, flow)| flow.used);
                let silent = silent.map(|(ends, _)| *ends);
                silent.map(|ends| self.flows.remove(&ends));
            }
        }
        let flow = self.flows.entry(ends).or_default();
        flow.used = self.turn;
        flow.take(segment, &mut found);
    }

    /// Hands over what waits for lost segments: the capture has ended.
    pub(crate) fn end(&mut self, mut found: impl FnMut(Ends<SocketAddr>, FrameCarrier, &[u8])) {
        let mut flows: Vec<_> = self.flows.drain().collect();
        flows.sort_by_key(|(_, flow)| flow.used);
        for (ends, mut flow) in flows {
            while !flow.ahead.is_empty() {
                flow.skip_gap();
                flow.read_ahead(&mut |carrier, frame| found(ends, carrier, frame));
            }
        }
    }
}

/// The kind of the bytes at the beginning of a direction's buffer.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum FlowContent {
    /// Not known: the next bytes decide.
    #[default]
    Unknown,
    /// The head of an HTTP request or answer.
    Head,
    Packets,
    WebSocket,
}

/// One direction of a connection.
#[derive(Default)]
struct Flow {
    /// Sequence number of the next byte, if one was seen.
    next: Option<u32>,
    content: FlowContent,
    buffer: Vec<u8>,
    /// Segments after a gap, by their sequence numbers.
    ahead: Vec<(u32, Vec<u8>)>,
    /// Packets that were read.
    packets: u64,
    used: u64,
}

impl Flow {
    fn take(&mut self, segment: &Segment<'_>, found: &mut impl FnMut(FrameCarrier, &[u8])) {
        if segment.is_first {
            *self = Flow {
                next: Some(segment.sequence.wrapping_add(1)),
                used: self.used,
                ..Flow::default()
            };
            return;
        }
        if segment.data.is_empty() {
            return;
        }
        self.next.get_or_insert(segment.sequence);
        match self.append(segment.sequence, segment.data) {
            Place::Appended => self.read(found),
            Place::After => {
                self.ahead.push((segment.sequence, segment.data.to_vec()));
                let held: usize = self.ahead.iter().map(|(_, data)| data.len()).sum();
                if self.ahead.len() > AHEAD_SEGMENTS || held > AHEAD_BYTES {
                    self.skip_gap();
                }
            }
        }
        self.read_ahead(found);
    }

    /// Gives up the bytes that are missing before the first of the segments that wait.
    fn skip_gap(&mut self) {
        let Some(next) = self.next else { return };
        let first = self.ahead.iter().map(|(sequence, _)| *sequence);
        self.next = first.min_by_key(|sequence| sequence.wrapping_sub(next)).or(self.next);
        self.buffer.clear();
        self.content = FlowContent::Unknown;
    }

    /// Reads the segments that wait for nothing any more.
    fn read_ahead(&mut self, found: &mut impl FnMut(FrameCarrier, &[u8])) {
        let due = |flow: &Self| flow.ahead.iter().position(|(at, _)| !flow.is_after(*at));
        while let Some(at) = due(self) {
            let (sequence, data) = self.ahead.swap_remove(at);
            self.append(sequence, &data);
            self.read(found);
        }
    }

    /// Returns whether bytes are missing before this sequence number.
    fn is_after(&self, sequence: u32) -> bool {
        let distance = self.next.map_or(0, |next| sequence.wrapping_sub(next));
        (1..1 << 31).contains(&distance)
    }

    /// Appends what is new of a segment, unless bytes are missing before it.
    fn append(&mut self, sequence: u32, data: &[u8]) -> Place {
        if self.is_after(sequence) {
            return Place::After;
        }
        let Some(next) = self.next else { return Place::After };
        let known = usize::try_from(next.wrapping_sub(sequence)).unwrap_or(usize::MAX);
        let new = data.get(known..).unwrap_or_default();
        self.buffer.extend_from_slice(new);
        // A segment has 64 KiB at most.
        self.next = Some(next.wrapping_add(u32::try_from(new.len()).unwrap_or(0)));
        Place::Appended
    }

    /// Reads packets off the buffer until it holds no whole one.
    fn read(&mut self, found: &mut impl FnMut(FrameCarrier, &[u8])) {
        while !self.buffer.is_empty() {
            let used = match self.content {
                FlowContent::Unknown => self.recognise(),
                FlowContent::Head => self.read_head(),
                FlowContent::Packets => self.read_packet(found),
                FlowContent::WebSocket => self.read_message(found),
            };
            match used {
                Step::Used(bytes) => drop(self.buffer.drain(..bytes.min(self.buffer.len()))),
                Step::Wait => return,
                Step::Lost => {
                    self.buffer.clear();
                    self.content = FlowContent::Unknown;
                }
            }
        }
    }

    /// Decides by the first bytes what the direction carries.
    fn recognise(&mut self) -> Step {
        self.content = match self.buffer.as_slice() {
            [5 | 6 | 0x64, ..] => FlowContent::Packets,
            [0x82, ..] => FlowContent::WebSocket,
            start if is_start_of(start, b"GET /") || is_start_of(start, b"HTTP/1.1 101") => {
                FlowContent::Head
            }
            _ => return Step::Lost,
        };
        Step::Used(0)
    }

    fn read_head(&mut self) -> Step {
        let end = self.buffer.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else {
            return if self.buffer.len() > MAX_HEAD { Step::Lost } else { Step::Wait };
        };
        let head = self.buffer.get(..end).unwrap_or_default().to_ascii_lowercase();
        if !head.windows(9).any(|part| part == b"websocket") {
            return Step::Lost;
        }
        self.content = FlowContent::WebSocket;
        Step::Used(end.saturating_add(4))
    }

    fn read_packet(&mut self, found: &mut impl FnMut(FrameCarrier, &[u8])) -> Step {
        match frame_len(&self.buffer) {
            Ok(Some(len)) => {
                let Some(frame) = self.buffer.get(..len) else { return Step::Wait };
                // Other protocols can have such first octets; their bytes are no packet.
                if self.packets == 0 && Packet::decode(frame).is_err() {
                    return Step::Lost;
                }
                self.packets = self.packets.saturating_add(1);
                found(FrameCarrier::Tcp, frame);
                Step::Used(len)
            }
            Ok(None) => Step::Wait,
            Err(_) => Step::Lost,
        }
    }

    /// Reads one frame of a WebSocket. Only whole binary messages carry packets.
    fn read_message(&mut self, found: &mut impl FnMut(FrameCarrier, &[u8])) -> Step {
        let mut cursor = Cursor::new(self.buffer.as_slice());
        let (header, len) = match FrameHeader::parse(&mut cursor) {
            Ok(Some(read)) => read,
            Ok(None) => return Step::Wait,
            Err(_) => return Step::Lost,
        };
        let Some(len) = usize::try_from(len).ok().filter(|len| *len <= MAX_FRAME) else {
            return Step::Lost;
        };
        let start = usize::try_from(cursor.position()).unwrap_or(usize::MAX);
        let end = start.saturating_add(len);
        let Some(message) = self.buffer.get(start..end) else { return Step::Wait };
        if header.is_final && header.opcode == OpCode::Data(Data::Binary) {
            match header.mask {
                Some(mask) => {
                    let bytes = message.iter().zip(mask.iter().cycle());
                    let message: Vec<u8> = bytes.map(|(byte, mask)| byte ^ mask).collect();
                    found(FrameCarrier::WebSocket, &message);
                }
                None => found(FrameCarrier::WebSocket, message),
            }
        }
        Step::Used(end)
    }
}

/// Where a segment lies.
#[derive(PartialEq, Eq)]
enum Place {
    /// It was appended, as far as it was new.
    Appended,
    /// Bytes are missing before it.
    After,
}

/// How a direction's buffer goes on.
enum Step {
    /// This many bytes were read.
    Used(usize),
    /// More are needed.
    Wait,
    /// The bytes are something else.
    Lost,
}

/// Returns whether the bytes are `what`, or the beginning of it.
fn is_start_of(bytes: &[u8], what: &[u8]) -> bool {
    bytes.starts_with(what) || (what.starts_with(bytes) && !bytes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_lost_segments_is_bounded() {
        let mut flows = Flows::default();
        let data = vec![5; 60_000];
        for n in 0..5_000_u32 {
            let from = SocketAddr::from(([192, 0, 2, 1], u16::try_from(n % 1_000).unwrap()));
            let ends = Ends { from, to: SocketAddr::from(([192, 0, 2, 2], 6363)) };
            // The second segment of each connection comes without the first.
            for sequence in [0, 1_000_000 + n * 70_000] {
                let segment = Segment { sequence, is_first: sequence == 0, data: &data };
                flows.take(ends, &segment, |_, _| {});
            }
        }
        assert!(flows.flows.len() <= MAX_FLOWS);
        for flow in flows.flows.values() {
            let ahead: usize = flow.ahead.iter().map(|(_, data)| data.len()).sum();
            assert!(ahead <= AHEAD_BYTES && flow.buffer.len() <= MAX_FRAME, "{ahead}");
        }
    }
}
