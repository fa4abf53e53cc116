//! [`Capture`]: the NDN packets in a capture of a network, a file of tcpdump or Wireshark.
//!
//! Bytes come from any reader, in the format pcap or pcapng. [`Capture::next_frame`] returns each NDN frame with its
//! time and its two ends: a UDP datagram, a packet of a TCP connection or of a WebSocket, or an Ethernet frame. IP
//! fragments are joined, TCP segments put in order, and NDNLPv2 fragments reassembled. [`dissect`] lists the elements of
//! one packet, for a person that wants to see each of its octets.
//!
//! A capture holds whatever strangers have sent, so nothing here trusts a length, and memory is bounded whatever the
//! capture holds. Nothing is verified, and encrypted links (xylem's own) are not opened.
//!
//! ```
//! # fn main() -> Result<(), xylem_capture::CaptureError> {
//! // A pcap file of raw IP packets (link type 101) without a packet.
//! let file = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x65\0\0\0";
//! let mut capture = xylem_capture::Capture::open(&file[..])?;
//! assert!(capture.next_frame()?.is_none());
//! # Ok(()) }
//! ```
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

mod capture;
mod error;
mod file;
mod layers;
mod stream;

mod dissection;

pub use capture::{Capture, CapturedFrame};
pub use dissection::{Dissection, DissectionFault, TlvElement, TlvValue, dissect};
pub use error::CaptureError;
pub use layers::{CaptureAddress, FrameCarrier};
