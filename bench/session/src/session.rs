//! `session`: bytes from one process to another over loopback, encrypted, in writes of 8 KiB.

use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use xylem_bench::Report;
use xylem_bench::report::{Bound, Figure, Heading, Ratio, Row, Unit};

use crate::children::{self, PartProcess};
use crate::parts::{Effort, wrong};
use crate::quic::Datagrams;
use crate::{ours, quic};

/// Bytes of one write, and of one packet.
pub(crate) const WRITE: usize = 8 << 10;

const GIB: f64 = (1_u64 << 30) as f64;
const MIB: f64 = (1_u64 << 20) as f64;

/// Address of a receiver, and its key.
#[derive(Serialize, Deserialize)]
pub(crate) struct Listening {
    pub at: SocketAddr,
    pub key: String,
}

/// The result of one side: work done and resources used.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct TransferUsage {
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub peak_bytes: u64,
    pub rekeys: u64,
    /// Datagram size at the end.
    pub datagram: usize,
    /// Packets sent again.
    pub again: u64,
}

/// The contenders, and the arguments of their processes.
const CONTENDERS: [(&str, &str); 5] = [
    ("quinn, datagrams as it comes", "quinn-usual"),
    ("quinn, 65,507 B, no segment offload", "quinn-largest"),
    ("quinn, 6,550 B", "quinn-tenth"),
    ("xylem, packets", "packets"),
    ("xylem, one stream", "stream"),
];
const QUINN: usize = 3;

const RATE: &str = "MB/s";
const COLUMNS: [&str; 6] =
    [RATE, "CPU-s/GiB sender", "receiver", "both", "MiB sender", "receiver peak MiB"];
const RATIO: &str = "xylem / quinn's best";
const WANTED: f64 = 1.5;

/// Both sides of one transfer.
#[derive(Clone, Copy)]
struct Pair {
    sender: TransferUsage,
    receiver: TransferUsage,
}

fn transfer(kind: &str, bytes: u64, rekey_bytes: u64) -> io::Result<Pair> {
    let part = |side: &str| {
        let words = ["session", kind, side, &bytes.to_string(), &rekey_bytes.to_string()];
        words.map(str::to_owned).to_vec()
    };
    let mut receiver = PartProcess::start(&part("receive"))?;
    let Listening { at, key } = receiver.next_report()?;
    let mut arguments = part("send");
    arguments.extend([at.to_string(), key]);
    let mut sender = PartProcess::start(&arguments)?;
    Ok(Pair { sender: sender.next_report()?, receiver: receiver.next_report()? })
}

/// Plays a part of the table.
pub(crate) fn play(arguments: &[String]) -> io::Result<()> {
    let number = |n: usize| -> io::Result<u64> {
        arguments.get(n).and_then(|text| text.parse().ok()).ok_or_else(wrong)
    };
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (bytes, rekey_bytes) = (number(2)?, number(3)?);
    let peer = || -> io::Result<(SocketAddr, &str)> {
        let at = words.get(4).and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
        Ok((at, words.get(5).ok_or_else(wrong)?))
    };
    let datagrams = match words[0] {
        "quinn-largest" => Datagrams::Largest,
        "quinn-tenth" => Datagrams::Tenth,
        _ => Datagrams::Usual,
    };
    let moved = match words[..2] {
        ["packets", "receive"] => ours::receive_packets(bytes, rekey_bytes)?,
        ["packets", "send"] => {
            let (at, key) = peer()?;
            ours::send_packets(at, ours::key(key)?, bytes, rekey_bytes)?
        }
        ["stream", "receive"] => ours::receive_stream(bytes, rekey_bytes)?,
        ["stream", "send"] => {
            let (at, key) = peer()?;
            ours::send_stream(at, ours::key(key)?, bytes, rekey_bytes)?
        }
        [_, "receive"] => quic::receive(datagrams, bytes)?,
        [_, "send"] => {
            let (at, key) = peer()?;
            quic::send(datagrams, at, key, bytes)?
        }
        _ => return Err(wrong()),
    };
    children::report(&moved)
}

/// Makes the table.
pub(crate) fn table(
    effort: Effort,
    emit: &mut dyn FnMut(Report) -> io::Result<()>,
) -> io::Result<()> {
    let bytes: u64 = effort.pick(256 << 20, 1 << 30);
    let rounds = effort.pick(3, 7);
    emit(Report::Heading(Heading {
        table: "session".into(),
        title: "one sender, one receiver, two processes over loopback, 8 KiB a write".into(),
        unit: Unit::InColumns,
        label: "who".into(),
        figures: COLUMNS.map(str::to_owned).into(),
        ratios: vec![RATIO.into()],
        notes: vec![
            format!("Medians of {rounds} transfers of {} MiB each, in turn.", bytes >> 20),
            "Both sides have AES-256-GCM, one thread a process, socket buffers of 4 MiB; CPU seconds \
             are those of both processes, program and kernel."
                .into(),
            "quinn has windows of 16 MiB and a tokio runtime of one thread, which is its fastest here."
                .into(),
            "Ours as packets: the receiver asks for at most 2 MiB ahead, and again for what is lost."
                .into(),
        ],
    }))?;
    let mut runs = vec![Vec::new(); CONTENDERS.len()];
    for round in 0..rounds {
        for n in 0..CONTENDERS.len() {
            let at = (n + round) % CONTENDERS.len();
            runs[at].push(transfer(CONTENDERS[at].1, bytes, 0)?);
        }
    }
    let rate = |pair: &Pair| bytes as f64 / pair.sender.seconds / 1e6;
    let best = (0..QUINN).map(|n| median(&runs[n], rate).value).fold(0.0, f64::max);
    for (at, (name, _)) in CONTENDERS.iter().enumerate() {
        let (row, own) = row(name, bytes, &runs[at]);
        let ratio = Ratio::new(RATIO, own, best, Some(Bound::AtLeast(WANTED)));
        let ratios = if at < QUINN { Vec::new() } else { vec![ratio] };
        emit(Report::Row(Row { ratios, ..row }))?;
    }
    long(effort, emit)
}

/// One session that replaces its keys again and again.
fn long(effort: Effort, emit: &mut dyn FnMut(Report) -> io::Result<()>) -> io::Result<()> {
    const REKEY_BYTES: u64 = 64 << 20;
    let bytes: u64 = effort.pick(1 << 30, 11 << 30);
    for (name, kind) in &CONTENDERS[QUINN..] {
        let pair = transfer(kind, bytes, REKEY_BYTES)?;
        let label = format!("{name}, {} GiB, {} key changes", bytes >> 30, pair.sender.rekeys);
        let (row, _) = row(&label, bytes, &[pair]);
        emit(Report::Row(row))?;
    }
    Ok(())
}

/// A column's name, and its value for a transfer.
type Column<'a> = (&'a str, &'a dyn Fn(&Pair) -> f64);

fn row(label: &str, bytes: u64, runs: &[Pair]) -> (Row, f64) {
    let gib = bytes as f64 / GIB;
    let of: [Column<'_>; 6] = [
        (COLUMNS[0], &|pair| bytes as f64 / pair.sender.seconds / 1e6),
        (COLUMNS[1], &|pair| pair.sender.cpu_seconds / gib),
        (COLUMNS[2], &|pair| pair.receiver.cpu_seconds / gib),
        (COLUMNS[3], &|pair| (pair.sender.cpu_seconds + pair.receiver.cpu_seconds) / gib),
        (COLUMNS[4], &|pair| pair.sender.peak_bytes as f64 / MIB),
        (COLUMNS[5], &|pair| pair.receiver.peak_bytes as f64 / MIB),
    ];
    let figures: Vec<Figure> = of
        .iter()
        .map(|(name, value)| Figure { name: (*name).into(), ..median(runs, value) })
        .collect();
    let rate = figures[0].value;
    let row = Row {
        table: "session".into(),
        label: label.to_owned(),
        bytes: bytes as usize,
        figures,
        ratios: Vec::new(),
    };
    (row, rate)
}

/// The median of a value over the runs, and the distance of its quartiles.
pub(crate) fn median<T>(runs: &[T], value: impl Fn(&T) -> f64) -> Figure {
    let mut values: Vec<f64> = runs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = share * values.len().saturating_sub(1) as f64;
        let (below, above) = (place.floor() as usize, place.ceil() as usize);
        let pick = |n: usize| values.get(n).copied().unwrap_or(0.0);
        pick(below) + (pick(above) - pick(below)) * place.fract()
    };
    let middle = at(0.5);
    let spread = if middle > 0.0 { (at(0.75) - at(0.25)) / middle } else { 0.0 };
    Figure {
        name: String::new(),
        value: middle,
        nanoseconds: None,
        spread: Some(spread),
        rounds: Some(values.len()),
    }
}
