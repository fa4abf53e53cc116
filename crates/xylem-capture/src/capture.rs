//! [`Capture`]: from the bytes of a capture file to NDN frames.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use xylem_packet::link_service::{LinkService, LinkServiceConfig};
use xylem_packet::{Packet, frame_len};

use crate::CaptureError;
use crate::file::{Record, Records};
use crate::layers::{CaptureAddress, Contents, Ends, FrameCarrier, Layers};
use crate::stream::Flows;

/// Ports at which a datagram is NDN's whatever it holds: unicast and multicast (NFD's defaults).
const NDN_PORTS: [u16; 2] = [6363, 56363];

/// One NDN frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedFrame {
    /// When it was captured, since 1970; zero if the capture does not say.
    pub time: Duration,
    /// The protocol that carried it.
    pub carrier: FrameCarrier,
    /// The sender.
    pub from: CaptureAddress,
    /// The receiver.
    pub to: CaptureAddress,
    /// The frame: a packet, perhaps with NDNLPv2 headers, or bytes at an NDN port that are none.
    pub frame: Vec<u8>,
    /// The whole Interest or Data, without link headers: that of the frame, or the one that its fragment completes. `None`
    /// for headers alone, for an earlier fragment, and for what is malformed.
    pub packet: Option<Vec<u8>>,
}

/// A capture of a network, read from its beginning to its end.
pub struct Capture<'r> {
    records: Records<'r>,
    layers: Layers,
    flows: Flows,
    /// Reassembles the fragments of all senders.
    link_service: LinkService,
    /// Tells senders apart for the link service.
    senders: RandomState,
    /// The latest time seen: the link service's clock does not go back.
    now: Duration,
    waiting: VecDeque<CapturedFrame>,
}

impl<'r> Capture<'r> {
    /// Reads the header of a capture in the format pcap or pcapng.
    ///
    /// # Errors
    ///
    /// `NotACapture` and `Truncated` for other bytes, `Read` where the reader fails.
    pub fn open(reader: impl Read + Send + 'r) -> Result<Self, CaptureError> {
        Ok(Self {
            records: Records::open(reader)?,
            layers: Layers::default(),
            flows: Flows::default(),
            link_service: LinkService::new(LinkServiceConfig {
                local_fields: true,
                ..LinkServiceConfig::default()
            }),
            senders: RandomState::new(),
            now: Duration::ZERO,
            waiting: VecDeque::new(),
        })
    }

    /// Returns the next NDN frame; `None` at the end of the capture. Other traffic is passed over.
    ///
    /// # Errors
    ///
    /// Where the capture is damaged, or of a network that is not known here. What was returned before is right.
    pub fn next_frame(&mut self) -> Result<Option<CapturedFrame>, CaptureError> {
        loop {
            if let Some(frame) = self.waiting.pop_front() {
                return Ok(Some(frame));
            }
            match self.records.next_record()? {
                Some(record) => self.take(&record)?,
                None => return Ok(self.take_rest()),
            }
        }
    }

    fn take(&mut self, record: &Record) -> Result<(), CaptureError> {
        self.now = self.now.max(record.time);
        let mut found = FoundFrames {
            time: record.time,
            now: self.now,
            link_service: &mut self.link_service,
            senders: &self.senders,
            waiting: &mut self.waiting,
        };
        match self.layers.read(record.link, &record.bytes)? {
            Some(Contents::Ethernet(Ends { from, to }, payload)) => {
                let (from, to) = (CaptureAddress::Ethernet(from), CaptureAddress::Ethernet(to));
                let ends = Ends { from, to };
                // A short frame is padded.
                let len = frame_len(payload).ok().flatten().unwrap_or(payload.len());
                found.add(FrameCarrier::Ethernet, ends, payload.get(..len).unwrap_or(payload));
            }
            Some(Contents::Datagram(ends, payload)) => {
                for frame in frames_of(ends, payload) {
                    found.add(FrameCarrier::Udp, ip(ends), frame);
                }
            }
            Some(Contents::Segment(ends, segment)) => {
                let add = |carrier, frame: &[u8]| found.add(carrier, ip(ends), frame);
                self.flows.take(ends, &segment, add);
            }
            None => {}
        }
        Ok(())
    }

    /// Takes what waits for bytes that the capture does not have. Returns the first frame of it.
    fn take_rest(&mut self) -> Option<CapturedFrame> {
        let mut found = FoundFrames {
            time: self.now,
            now: self.now,
            link_service: &mut self.link_service,
            senders: &self.senders,
            waiting: &mut self.waiting,
        };
        self.flows.end(|ends, carrier, frame| found.add(carrier, ip(ends), frame));
        self.waiting.pop_front()
    }
}

fn ip(ends: Ends<SocketAddr>) -> Ends<CaptureAddress> {
    Ends { from: CaptureAddress::Ip(ends.from), to: CaptureAddress::Ip(ends.to) }
}

/// The frames of a datagram. There is one, or several of a train that was captured before it was cut into datagrams.
/// Datagrams at other ports than NDN's count only if they hold packets.
fn frames_of(ends: Ends<SocketAddr>, payload: &[u8]) -> Vec<&[u8]> {
    let (mut frames, mut rest) = (Vec::new(), payload);
    while let Ok(Some(len)) = frame_len(rest)
        && let Some((frame, more)) = rest.split_at_checked(len)
    {
        frames.push(frame);
        rest = more;
    }
    let is_ndn = [ends.from, ends.to].iter().any(|end| NDN_PORTS.contains(&end.port()));
    if is_ndn && !rest.is_empty() {
        frames.push(rest);
    }
    let all_packets =
        || rest.is_empty() && frames.iter().all(|frame| Packet::decode(frame).is_ok());
    match is_ndn || all_packets() {
        true => frames,
        false => Vec::new(),
    }
}

/// Where the frames of one record go.
struct FoundFrames<'a> {
    time: Duration,
    now: Duration,
    link_service: &'a mut LinkService,
    senders: &'a RandomState,
    waiting: &'a mut VecDeque<CapturedFrame>,
}

impl FoundFrames<'_> {
    fn add(&mut self, carrier: FrameCarrier, ends: Ends<CaptureAddress>, frame: &[u8]) {
        let Ends { from, to } = ends;
        let sender = self.senders.hash_one((carrier, from, to));
        let packet = match self.link_service.receive_from(self.now, sender, frame) {
            Ok(Some(received)) => Some(received.packet),
            _ => None,
        };
        let is_whole = |packet: &&[u8]| {
            matches!(Packet::decode(packet), Ok(Packet::Interest(_) | Packet::Data(_)))
        };
        let packet = packet.filter(is_whole).map(<[u8]>::to_vec);
        let (time, frame) = (self.time, frame.to_vec());
        self.waiting.push_back(CapturedFrame { time, carrier, from, to, frame, packet });
    }
}
