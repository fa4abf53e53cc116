//! `xylem ndn dump`: lists the NDN packets in a capture of a network.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::output::Out;
use crate::output::text::clean;
use clap::Args;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use xylem_capture::{Capture, CaptureError, CapturedFrame};
use xylem_packet::{Data, Interest, KeyLocator, LpPacket, NackReason, Name, Packet};

/// Lists the NDN packets in a capture of a network
///
/// Reads pcap and pcapng, the files of tcpdump and Wireshark: UDP, TCP, WebSocket and Ethernet (EtherType 8624), with
/// or without VLANs. IP fragments, TCP segments and NDNLPv2 fragments are joined. Encrypted links are not opened. It
/// captures nothing itself: let tcpdump write to it.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem ndn dump -r testbed.pcap                  a line for each packet
  xylem ndn dump -r testbed.pcap --below /alice   those with names below /alice
  xylem ndn dump -r testbed.pcapng --json         all fields
  tcpdump -i any -U -w - udp port 6363 | xylem ndn dump   as they pass

",
    exit_help!()
))]
pub(crate) struct DumpArgs {
    /// The capture [default: standard input]
    #[arg(short, long, value_name = "FILE")]
    read: Option<PathBuf>,

    /// Only Interests, Data and Nacks with this name or one below it
    #[arg(long, value_name = "NAME")]
    below: Option<Name>,
}

/// Runs `xylem ndn dump`.
pub(crate) fn run(args: DumpArgs, _: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let reader: Box<dyn Read + Send> = match args.read.filter(|path| path.as_os_str() != "-") {
        Some(path) => Box::new(File::open(&path).map_err(|error| {
            CommandFailure::new(Exit::Usage, format!("cannot read {}: {error}", path.display()))
        })?),
        None => Box::new(io::stdin()),
    };
    let mut capture = Capture::open(reader).map_err(refused)?;
    while let Some(frame) = capture.next_frame().map_err(refused)? {
        let row = FrameRow::of(&frame);
        let is_wanted = |below: &Name| {
            row.name.as_ref().is_some_and(|name| below.as_ref().is_prefix_of(name.as_ref()))
        };
        if !args.below.as_ref().is_none_or(is_wanted) {
            continue;
        }
        match out.is_json() {
            true => out.json(&row)?,
            false => out.line(&row.line())?,
        }
    }
    Ok(Exit::Done)
}

fn refused(error: CaptureError) -> CommandFailure {
    let exit = if matches!(error, CaptureError::Read(_)) { Exit::Local } else { Exit::Usage };
    CommandFailure::new(exit, error.to_string())
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum FrameKind {
    Interest,
    Data,
    Nack,
    /// A piece of a packet that is not complete yet.
    Fragment,
    /// Link headers alone.
    Headers,
    Malformed,
}

/// Event: one frame of the capture.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "frame")]
struct FrameRow {
    time: f64,
    carrier: String,
    from: String,
    to: String,
    bytes: usize,
    kind: FrameKind,
    #[serde(serialize_with = "as_text")]
    name: Option<Name>,
    can_be_prefix: Option<bool>,
    must_be_fresh: Option<bool>,
    nonce: Option<String>,
    lifetime_ms: Option<u64>,
    hop_limit: Option<u8>,
    hints: Vec<String>,
    content_bytes: Option<usize>,
    content_type: Option<u64>,
    freshness_ms: Option<u64>,
    final_block_id: Option<String>,
    signature: Option<&'static str>,
    signature_type: Option<u64>,
    key: Option<String>,
    nack: Option<u64>,
    pit_token: Option<String>,
    congestion_mark: Option<u64>,
    sequence: Option<u64>,
    fragment: Option<u64>,
    fragments: Option<u64>,
    acks: usize,
    error: Option<String>,
}

/// A name as its URI, as serde asks for it.
#[expect(clippy::ref_option, reason = "serde passes it so")]
fn as_text<S: serde::Serializer>(name: &Option<Name>, to: S) -> Result<S::Ok, S::Error> {
    match name {
        Some(name) => to.serialize_some(&name.to_string()),
        None => to.serialize_none(),
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

impl FrameRow {
    fn of(captured: &CapturedFrame) -> Self {
        let mut row = Self {
            time: captured.time.as_secs_f64(),
            carrier: captured.carrier.to_string(),
            from: captured.from.to_string(),
            to: captured.to.to_string(),
            bytes: captured.frame.len(),
            kind: FrameKind::Headers,
            name: None,
            can_be_prefix: None,
            must_be_fresh: None,
            nonce: None,
            lifetime_ms: None,
            hop_limit: None,
            hints: Vec::new(),
            content_bytes: None,
            content_type: None,
            freshness_ms: None,
            final_block_id: None,
            signature: None,
            signature_type: None,
            key: None,
            nack: None,
            pit_token: None,
            congestion_mark: None,
            sequence: None,
            fragment: None,
            fragments: None,
            acks: 0,
            error: None,
        };
        match Packet::decode(&captured.frame) {
            Ok(Packet::Interest(interest)) => row.set_interest(&interest),
            Ok(Packet::Data(data)) => row.set_data(&data),
            Ok(Packet::Lp(lp)) => row.set_link_packet(&lp, captured.packet.as_deref()),
            Err(error) => row.set_malformed(&error),
        }
        row
    }

    fn set_malformed(&mut self, error: &impl ToString) {
        (self.kind, self.error) = (FrameKind::Malformed, Some(error.to_string()));
    }

    fn set_link_packet(&mut self, lp: &LpPacket<'_>, packet: Option<&[u8]>) {
        self.nack = lp.nack.map(|reason| reason.0);
        self.pit_token = lp.pit_token.map(hex);
        self.congestion_mark = lp.congestion_mark;
        self.sequence = lp.sequence;
        self.acks = lp.acks.into_iter().count();
        if lp.is_fragmented() {
            self.kind = FrameKind::Fragment;
            self.fragment = Some(lp.frag_index.unwrap_or(0).saturating_add(1));
            self.fragments = lp.frag_count;
        }
        let fragment = lp.fragment.filter(|fragment| !fragment.is_empty() && !lp.is_fragmented());
        let Some(packet) = packet.or(fragment) else { return };
        match Packet::decode(packet) {
            Ok(Packet::Interest(interest)) => {
                self.set_interest(&interest);
                if lp.nack.is_some() {
                    self.kind = FrameKind::Nack;
                }
            }
            Ok(Packet::Data(data)) => self.set_data(&data),
            Ok(Packet::Lp(_)) => self.set_malformed(&"a link packet within another one"),
            Err(error) => self.set_malformed(&error),
        }
    }

    fn set_interest(&mut self, interest: &Interest<'_>) {
        self.kind = FrameKind::Interest;
        self.name = Some(interest.name().to_name());
        self.can_be_prefix = Some(interest.can_be_prefix());
        self.must_be_fresh = Some(interest.must_be_fresh());
        self.nonce = interest.nonce().map(|nonce| hex(&nonce));
        self.lifetime_ms = Some(interest.lifetime_ms());
        self.hop_limit = interest.hop_limit();
        self.hints = interest.forwarding_hint().map(|hint| hint.to_string()).collect();
        if let Some(signature) = interest.signature() {
            self.set_signature(&signature.info);
        }
    }

    fn set_data(&mut self, data: &Data<'_>) {
        let meta = data.meta();
        self.kind = FrameKind::Data;
        self.name = Some(data.name().to_name());
        self.content_bytes = Some(data.content().len());
        self.content_type = Some(meta.content_type.0);
        self.freshness_ms = Some(meta.freshness_ms);
        self.final_block_id = meta.final_block_id.map(|last| last.to_string());
        self.set_signature(&data.signature_info());
    }

    fn set_signature(&mut self, info: &xylem_packet::SignatureInfo<'_>) {
        (self.signature, self.signature_type) = (info.typ.name(), Some(info.typ.0));
        self.key = info.key_locator.map(|key| match key {
            KeyLocator::Name(name) => name.to_string(),
            KeyLocator::Digest(digest) => hex(digest),
        });
    }

    /// The frame as one line.
    fn line(&self) -> String {
        let mut line = format!("{:.6} {} {} > {} ", self.time, self.carrier, self.from, self.to);
        let name = self.name.as_ref().map(ToString::to_string).unwrap_or_default();
        line += &match self.kind {
            FrameKind::Interest => format!("Interest {name}"),
            FrameKind::Data => format!("Data {name}"),
            FrameKind::Nack => format!("Nack {} {name}", nack_reason(self.nack.unwrap_or(0))),
            FrameKind::Fragment => "fragment".to_owned(),
            FrameKind::Headers => "link headers alone".to_owned(),
            FrameKind::Malformed => {
                format!(
                    "malformed, {} bytes: {}",
                    self.bytes,
                    self.error.as_deref().unwrap_or_default()
                )
            }
        };
        let mut add = |what: &str, value: Option<String>| {
            if let Some(value) = value {
                line += &format!(" {what}{value}");
            }
        };
        let flag = |flag: Option<bool>| (flag == Some(true)).then(String::new);
        add("CanBePrefix", flag(self.can_be_prefix));
        add("MustBeFresh", flag(self.must_be_fresh));
        add("nonce ", self.nonce.clone());
        add("lifetime ", self.lifetime_ms.map(|ms| format!("{ms} ms")));
        add("hop limit ", self.hop_limit.map(|hops| hops.to_string()));
        add("hints ", (!self.hints.is_empty()).then(|| self.hints.join(" ")));
        add("", self.content_bytes.map(|bytes| format!("content {bytes} B")));
        add("type ", self.content_type.filter(|typ| *typ != 0).map(|typ| typ.to_string()));
        add("fresh ", self.freshness_ms.filter(|ms| *ms != 0).map(|ms| format!("{ms} ms")));
        add("final ", self.final_block_id.clone());
        let unnamed = self.signature_type.map(|typ| format!("signature type {typ}"));
        add("", self.signature.map(str::to_owned).or(unnamed));
        add("by ", self.key.clone());
        add("token ", self.pit_token.clone());
        add("congestion mark ", self.congestion_mark.map(|mark| mark.to_string()));
        add("sequence ", self.sequence.map(|number| number.to_string()));
        if let Some(fragment) = self.fragment {
            let of = self.fragments.map_or("?".to_owned(), |fragments| fragments.to_string());
            add("piece ", Some(format!("{fragment} of {of}")));
        }
        add("acks ", (self.acks > 0).then(|| self.acks.to_string()));
        clean(&line).into_owned()
    }
}

fn nack_reason(number: u64) -> String {
    match NackReason(number) {
        NackReason::NONE => "without reason".to_owned(),
        NackReason::CONGESTION => "Congestion".to_owned(),
        NackReason::DUPLICATE => "Duplicate".to_owned(),
        NackReason::NO_ROUTE => "NoRoute".to_owned(),
        NackReason(other) => format!("reason {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::assert_documented;
    use std::time::Duration;
    use xylem_capture::{CaptureAddress, FrameCarrier};

    #[test]
    fn a_frame_is_documented() {
        let at = CaptureAddress::Ethernet([2; 6]);
        let captured = CapturedFrame {
            time: Duration::from_micros(1_500_000),
            carrier: FrameCarrier::Ethernet,
            from: at,
            to: at,
            frame: vec![5, 0],
            packet: None,
        };
        let row = FrameRow::of(&captured);
        assert_documented(&row);
        let line = row.line();
        assert!(
            line.starts_with(
                "1.500000 ethernet 02:02:02:02:02:02 > 02:02:02:02:02:02 malformed, 2 bytes: "
            ),
            "{line}"
        );
    }
}
