//! The link's part of the `session` table: a transfer over a stream, and one by packets, like NDN's. The receiver asks
//! for as many packets as it can take, and again for lost ones.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use xylem_link::{
    LinkConfig, LinkEvent, LinkId, LinkSendError, PeerKey, RekeyLimits, StreamRead, purpose,
};

use crate::driver::Driver;
use crate::session::{Listening, TransferUsage, WRITE};
use crate::{children, usage};

/// Maximum number of packets under way.
const WINDOW: u64 = 256;
/// Number of packets after which the receiver extends the window.
const WINDOW_UPDATE_INTERVAL: u64 = 32;
/// Time without progress after which the receiver asks for missing packets.
const STALL_TIMEOUT: Duration = Duration::from_millis(20);
/// Maximum number of missing packets in one request.
const MAX_MISSING_NAMED: usize = 512;
/// Packets between two polls of the socket.
const BURST: usize = 16;
/// The receiver's message that it has everything.
const COMPLETE: u64 = u64::MAX;

/// 64 hexadecimal digits.
pub(crate) fn key(text: &str) -> io::Result<PeerKey> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "no link key");
    let mut key = [0; 32];
    for (n, byte) in key.iter_mut().enumerate() {
        let digits = text.get(2 * n..2 * n + 2).ok_or_else(wrong)?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
    }
    Ok(PeerKey(key))
}

/// Reports this side's address and waits for the other side.
pub(crate) fn listen(driver: &mut Driver) -> io::Result<LinkId> {
    let key = driver.endpoint.public_key().to_string();
    children::report(&Listening { at: driver.local(), key })?;
    connected(driver)
}

/// Takes turns until a link is up.
pub(crate) fn connected(driver: &mut Driver) -> io::Result<LinkId> {
    loop {
        driver.turn(None)?;
        match driver.endpoint.poll_event() {
            Some(LinkEvent::Connected { link, .. }) => return Ok(link),
            Some(LinkEvent::Closed { reason, .. }) => return Err(ended(reason)),
            _ => {}
        }
    }
}

/// The error for a link that has ended.
pub(crate) fn ended(reason: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("the link ended: {reason}"))
}

/// A configuration that replaces keys after this many bytes; 0 for the default limits.
pub(crate) fn config(rekey_bytes: u64) -> LinkConfig {
    let usual = RekeyLimits::default();
    let bytes = if rekey_bytes == 0 { usual.bytes } else { rekey_bytes };
    LinkConfig { rekey: RekeyLimits { bytes, ..usual }, ..LinkConfig::default() }
}

/// Resources that one side has used since `cpu`, for a link that has just finished its transfer.
pub(crate) fn transfer_usage(
    driver: &Driver,
    link: LinkId,
    start: Instant,
    cpu: f64,
) -> TransferUsage {
    let stats = driver.endpoint.stats(link).unwrap_or_default();
    TransferUsage {
        seconds: start.elapsed().as_secs_f64(),
        cpu_seconds: usage::cpu_seconds() - cpu,
        peak_bytes: usage::peak_bytes(),
        rekeys: stats.rekeys,
        datagram: stats.datagram_size,
        again: 0,
    }
}

/// A driver with a link to this peer.
fn dialled(at: SocketAddr, key: PeerKey, rekey_bytes: u64) -> io::Result<(Driver, LinkId)> {
    let mut driver = Driver::new(config(rekey_bytes))?;
    let now = driver.now();
    driver.endpoint.connect(now, at, Some(key));
    let link = connected(&mut driver)?;
    Ok((driver, link))
}

/// Sends `bytes` in packets of [`WRITE`] bytes and waits until they have arrived.
pub(crate) fn send_packets(
    at: SocketAddr,
    key: PeerKey,
    bytes: u64,
    rekey_bytes: u64,
) -> io::Result<TransferUsage> {
    let (mut driver, link) = dialled(at, key, rekey_bytes)?;
    let blocks = bytes.div_ceil(WRITE as u64);
    let mut packet = vec![7; WRITE];
    let (mut next, mut limit, mut again) = (0, 0, 0);
    let mut missing: Vec<u64> = Vec::new();
    let (start, cpu) = (Instant::now(), usage::cpu_seconds());
    loop {
        let mut room = true;
        while room && (!missing.is_empty() || next < limit.min(blocks)) {
            for _ in 0..BURST {
                let block = missing.last().copied().unwrap_or(next);
                if block >= limit.min(blocks) {
                    break;
                }
                packet[..8].copy_from_slice(&block.to_be_bytes());
                match driver.endpoint.send(link, &packet) {
                    Ok(()) => {}
                    Err(LinkSendError::Full) => room = false,
                    Err(error) => return Err(ended(error)),
                }
                if room {
                    let named = missing.pop().is_some();
                    again += u64::from(named);
                    next += u64::from(!named);
                }
            }
            driver.flush();
        }
        driver.turn(None)?;
        while let Some(event) = driver.endpoint.poll_event() {
            match event {
                LinkEvent::Packet { packet, .. } => {
                    let (numbers, _) = packet.as_chunks::<8>();
                    let mut numbers = numbers.iter().map(|n| u64::from_be_bytes(*n));
                    match numbers.next() {
                        Some(COMPLETE) => {
                            return Ok(TransferUsage {
                                again,
                                ..transfer_usage(&driver, link, start, cpu)
                            });
                        }
                        upto => limit = limit.max(upto.unwrap_or(0)),
                    }
                    missing = numbers.filter(|block| *block < next).collect();
                }
                LinkEvent::Closed { reason, .. } => return Err(ended(reason)),
                _ => {}
            }
        }
    }
}

/// The blocks that have arrived.
struct ReceivedBlocks {
    seen: Vec<bool>,
    count: u64,
    /// All blocks below this have arrived.
    whole: u64,
    granted: u64,
}

impl ReceivedBlocks {
    fn new(blocks: u64) -> Self {
        Self { seen: vec![false; blocks as usize], count: 0, whole: 0, granted: 0 }
    }

    fn take(&mut self, packet: &[u8]) -> io::Result<()> {
        let block = packet.first_chunk().map(|n| u64::from_be_bytes(*n) as usize);
        let seen = block.and_then(|block| self.seen.get_mut(block));
        let Some(seen) = seen.filter(|_| packet.len() == WRITE && packet[8..].ends_with(&[7; 8]))
        else {
            return Err(io::Error::other("a packet arrived that was not sent"));
        };
        self.count += u64::from(!core::mem::replace(seen, true));
        while self.seen.get(self.whole as usize).is_some_and(|seen| *seen) {
            self.whole += 1;
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.count == self.seen.len() as u64
    }

    /// The next message to the sender: the end of the window, and the missing packets below it if the receiver is late.
    fn next_request(&mut self, late: bool) -> Vec<u8> {
        let before = self.granted;
        self.granted = self.whole + WINDOW;
        let mut packet = self.granted.to_be_bytes().to_vec();
        if late {
            let missing =
                (self.whole..before).filter(|n| !self.seen.get(*n as usize).unwrap_or(&true));
            missing
                .take(MAX_MISSING_NAMED)
                .for_each(|n| packet.extend_from_slice(&n.to_be_bytes()));
        }
        packet
    }
}

/// Receives `bytes` in packets.
pub(crate) fn receive_packets(bytes: u64, rekey_bytes: u64) -> io::Result<TransferUsage> {
    let mut driver = Driver::new(config(rekey_bytes))?;
    let link = listen(&mut driver)?;
    let mut arrived = ReceivedBlocks::new(bytes.div_ceil(WRITE as u64));
    let (start, cpu) = (Instant::now(), usage::cpu_seconds());
    let (mut progress, mut last) = (driver.now(), 0);
    let grant = arrived.next_request(false);
    driver.endpoint.send(link, &grant).map_err(ended)?;
    loop {
        driver.turn(Some(progress + STALL_TIMEOUT))?;
        while let Some(event) = driver.endpoint.poll_event() {
            match event {
                LinkEvent::Packet { packet, .. } => arrived.take(&packet)?,
                LinkEvent::Closed { reason, .. } => return Err(ended(reason)),
                _ => {}
            }
            if arrived.whole + WINDOW >= arrived.granted + WINDOW_UPDATE_INTERVAL {
                let grant = arrived.next_request(false);
                driver.endpoint.send(link, &grant).map_err(ended)?;
                driver.flush();
            }
        }
        if arrived.is_whole() {
            let moved = transfer_usage(&driver, link, start, cpu);
            return report_completion(&mut driver, link, moved);
        }
        let now = driver.now();
        if arrived.count > last {
            (progress, last) = (now, arrived.count);
        } else if now >= progress + STALL_TIMEOUT {
            progress = now;
            let grant = arrived.next_request(true);
            driver.endpoint.send(link, &grant).map_err(ended)?;
        }
    }
}

/// Sends several times that everything has arrived, since that message is not acknowledged.
fn report_completion(
    driver: &mut Driver,
    link: LinkId,
    moved: TransferUsage,
) -> io::Result<TransferUsage> {
    for _ in 0..10 {
        // The link may have ended with the sender's process.
        if driver.endpoint.send(link, &COMPLETE.to_be_bytes()).is_err() {
            break;
        }
        let until = driver.now() + STALL_TIMEOUT;
        while driver.now() < until {
            driver.turn(Some(until))?;
            while driver.endpoint.poll_event().is_some() {}
        }
    }
    Ok(moved)
}

/// Writes between two polls of the socket.
const WRITES: usize = 32;

/// Sends `bytes` over one stream, in writes of [`WRITE`] bytes, until the other side has them.
pub(crate) fn send_stream(
    at: SocketAddr,
    key: PeerKey,
    bytes: u64,
    rekey_bytes: u64,
) -> io::Result<TransferUsage> {
    let (mut driver, link) = dialled(at, key, rekey_bytes)?;
    let packet = [7; WRITE];
    let (start, cpu) = (Instant::now(), usage::cpu_seconds());
    let stream = driver.endpoint.open_stream(link, purpose::BENCH).map_err(ended)?;
    let (mut left, mut room, mut finished) = (bytes, true, false);
    loop {
        while room && left > 0 {
            for _ in 0..WRITES {
                let len = left.min(WRITE as u64) as usize;
                let taken = driver.endpoint.write_stream(link, stream, &packet[..len]);
                let taken = taken.map_err(ended)?;
                left -= taken as u64;
                room = taken == len;
                if !room || left == 0 {
                    break;
                }
            }
            driver.flush();
        }
        if left == 0 && !finished {
            driver.endpoint.finish_stream(link, stream).map_err(ended)?;
            finished = true;
        }
        driver.turn(None)?;
        while let Some(event) = driver.endpoint.poll_event() {
            match event {
                LinkEvent::StreamWritable { .. } => room = true,
                LinkEvent::StreamDelivered { .. } => {
                    return Ok(transfer_usage(&driver, link, start, cpu));
                }
                LinkEvent::Closed { reason, .. } => return Err(ended(reason)),
                _ => {}
            }
        }
    }
}

/// Receives `bytes` over one stream.
pub(crate) fn receive_stream(bytes: u64, rekey_bytes: u64) -> io::Result<TransferUsage> {
    let mut driver = Driver::new(config(rekey_bytes))?;
    let link = listen(&mut driver)?;
    let (start, cpu) = (Instant::now(), usage::cpu_seconds());
    let mut received = 0;
    loop {
        driver.turn(None)?;
        while let Some(event) = driver.endpoint.poll_event() {
            match event {
                LinkEvent::StreamReadable { stream, .. } => loop {
                    match driver.endpoint.read_stream(link, stream).map_err(ended)? {
                        StreamRead::Data(data) => received += data.len() as u64,
                        StreamRead::Pending => break,
                        StreamRead::Finished if received == bytes => {
                            let moved = transfer_usage(&driver, link, start, cpu);
                            // The sender has yet to receive the acknowledgement.
                            let until = driver.now() + 10 * STALL_TIMEOUT;
                            while driver.now() < until {
                                driver.turn(Some(until))?;
                                while driver.endpoint.poll_event().is_some() {}
                            }
                            return Ok(moved);
                        }
                        StreamRead::Finished => {
                            return Err(io::Error::other(
                                "the bytes that arrived differ in number from those sent",
                            ));
                        }
                    }
                },
                LinkEvent::Closed { reason, .. } => return Err(ended(reason)),
                _ => {}
            }
        }
    }
}
