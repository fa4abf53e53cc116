//! The link: sealing and opening a datagram, building and reading frames, whole endpoints back to back (packet in,
//! datagrams, packet out), and a handshake of both sides.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use xylem_link_internals::internals::{Frame, Frames, OVERHEAD, seal_pair};
use xylem_link_internals::{
    Cipher, Endpoint, LinkConfig, LinkEvent, LinkId, RekeyLimits, StaticKey,
};
use xylem_mail_internals::internals::Ratchet;

use super::path::{Operation, Path, path};

pub(super) const PATHS: &[Path] = &[
    path("link: 11 frames of 100 B built", 1_000, frames_built),
    path("link: 11 frames of 100 B read", 1_000, frames_read),
    path("link: a datagram of 1,200 B sealed and opened", 100, || sealed(1_200)),
    path("link: 1 MiB of packets of 8.5 kB by datagrams of 1,452 B", 1, || carried(1_452, 8_500)),
    path("link: 1 MiB of packets of 8.5 kB by datagrams of 65,507 B", 1, || carried(65_507, 8_500)),
    path("link: 1 MiB of packets of 60 B by datagrams of 65,507 B", 1, || carried(65_507, 60)),
    path("link: a handshake, both sides", 4, handshake),
    path("mail: a message of 1 KiB encrypted and decrypted", 10, message),
];

const NOW: Duration = Duration::ZERO;

struct Pair {
    a: Endpoint,
    b: Endpoint,
    link: LinkId,
    buf: Vec<u8>,
    pool: BytesMut,
}

fn at(n: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1_000 + u16::from(n)))
}

impl Pair {
    fn new(max_datagram: usize) -> Self {
        let config = LinkConfig { max_datagram, ..LinkConfig::default() };
        let mut a = Endpoint::new(config.clone(), StaticKey::generate([1; 32]), [1; 32]);
        let b = Endpoint::new(config, StaticKey::generate([2; 32]), [2; 32]);
        let link = a.connect(NOW, at(2), Some(b.public_key()));
        let mut pair = Self { a, b, link, buf: Vec::new(), pool: BytesMut::new() };
        for _ in 0..20 {
            pair.carry();
        }
        while pair.b.poll_event().is_some() {}
        pair
    }

    /// Carries waiting datagrams once in each direction; a buffer is filled as by a socket.
    fn carry(&mut self) {
        for forth in [true, false] {
            let (from, to, address) = if forth {
                (&mut self.a, &mut self.b, at(1))
            } else {
                (&mut self.b, &mut self.a, at(2))
            };
            while let Some(t) = from.poll_transmit(NOW, &mut self.buf) {
                for datagram in self.buf.chunks(t.segment_size.unwrap_or(t.len)) {
                    self.pool.reserve(1 << 16);
                    self.pool.extend_from_slice(datagram);
                    to.handle_datagram(NOW, address, self.pool.split());
                }
            }
        }
    }
}

fn frames_built() -> Operation {
    let (packet, mut out) = (vec![7; 100], Vec::new());
    Box::new(move || {
        out.clear();
        (0..11).for_each(|_| Frame::Packet(black_box(&packet)).write(&mut out));
        black_box(&out);
    })
}

fn frames_read() -> Operation {
    let (packet, mut out) = (vec![7; 100], Vec::new());
    (0..11).for_each(|_| Frame::Packet(&packet).write(&mut out));
    Box::new(move || {
        black_box(Frames::new(black_box(&out)).filter(Result::is_ok).count());
    })
}

fn sealed(bytes: usize) -> Operation {
    let (mut sealer, mut opener) = seal_pair(Cipher::Aes256Gcm, RekeyLimits::default());
    let mut datagram = vec![0; bytes + OVERHEAD];
    Box::new(move || {
        sealer.seal(&mut datagram);
        black_box(opener.open(NOW, black_box(&mut datagram)).expect("just sealed"));
    })
}

/// From one endpoint to another, the copy between the two included.
fn carried(datagram: usize, bytes: usize) -> Operation {
    let (count, packet) = ((1 << 19) / bytes, vec![7; bytes]);
    let mut pair = Pair::new(datagram);
    let mut half = move || {
        for _ in 0..count {
            pair.a.send(pair.link, &packet).expect("half a MiB fits the queue");
        }
        pair.carry();
        let mut got = 0;
        while let Some(event) = pair.b.poll_event() {
            got += usize::from(matches!(event, LinkEvent::Packet { .. }));
        }
        assert_eq!(got, count);
    };
    half();
    Box::new(move || (0..2).for_each(|_| half()))
}

fn handshake() -> Operation {
    Box::new(|| {
        black_box(Pair::new(1_232));
    })
}

fn message() -> Operation {
    let key = xylem_link::StaticKey::generate([2; 32]);
    let mut from = Ratchet::initiator([1; 32], key.public(), [3; 32]);
    let mut to = Ratchet::responder([1; 32], key, [4; 32]);
    let text = [7; 1 << 10];
    let mut one = move || {
        let (mut sealed, mut read) = (Vec::new(), Vec::new());
        from.encrypt(black_box(&text), b"", &mut sealed).expect("the peer's key is known");
        to.decrypt(&sealed, b"", &mut read).expect("sent to it");
        black_box(read);
    };
    // The first one takes a Diffie-Hellman step.
    one();
    Box::new(one)
}
