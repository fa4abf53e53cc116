//! Two ends over a real socket: bytes, wake-ups, ends that leave, and ends that misbehave.

use super::*;
use mio::{Events, Interest, Poll, Token};
use rustix::fs::MemfdFlags;
use std::os::unix::net::UnixListener;

/// Both ends, as a node and a program have them.
fn pair() -> (SharedStream, SharedStream) {
    let dir = tempfile::tempdir().unwrap();
    let (path, listener) = listening(dir.path());
    let host = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        SharedStream::host(UnixStream::from_std(stream)).unwrap()
    });
    let joined = SharedStream::join(&path).unwrap();
    (host.join().unwrap(), joined)
}

fn listening(dir: &Path) -> (PathBuf, UnixListener) {
    let path = dir.join("n.sock");
    std::fs::write(&path, b"").unwrap();
    let listener = UnixListener::bind(ring_path(&path)).unwrap();
    (path, listener)
}

fn kind<T>(outcome: io::Result<T>) -> Option<io::ErrorKind> {
    outcome.err().map(|e| e.kind())
}

fn byte(at: usize) -> u8 {
    (at ^ (at >> 9)) as u8
}

/// Writes and reads `len` bytes each way in random order, and sleeps whenever there is nothing to do.
fn exchange(mut end: SharedStream, len: usize, mut seed: u64) {
    let mut poll = Poll::new().unwrap();
    poll.registry().register(end.socket(), Token(0), Interest::READABLE).unwrap();
    let mut events = Events::with_capacity(4);
    let (mut wrote, mut read) = (0, 0);
    let bytes: Vec<u8> = (0..len).map(byte).collect();
    let mut room = vec![0; 300_000];
    while wrote < len || read < len {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let count = (seed >> 33) as usize % 300_000 + 1;
        let mut idle = true;
        if wrote < len {
            match end.write(&bytes[wrote..len.min(wrote + count)]) {
                Ok(n) => (wrote, idle) = (wrote + n, false),
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
        }
        match end.read(&mut room[..count]) {
            Ok(n) => {
                assert!(n > 0 && room[..n].iter().zip(read..).all(|(b, at)| *b == byte(at)));
                (read, idle) = (read + n, false);
            }
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
        }
        if idle && (wrote < len || read < len) {
            poll.poll(&mut events, Some(Duration::from_secs(20))).unwrap();
            assert!(!events.is_empty(), "not woken: {wrote} written, {read} read of {len}");
        }
    }
}

/// No end sleeps through an action of the other.
#[test]
fn much_data_passes_both_ways_at_once() {
    for seed in 0..4 {
        let (a, b) = pair();
        let other = std::thread::spawn(move || exchange(a, 20_000_000, seed));
        exchange(b, 20_000_000, seed + 100);
        other.join().unwrap();
    }
}

/// A wake-up clears the mark, even if its bytes were read before the mark was set. Then the reader sets the mark once
/// more before it sleeps.
#[test]
fn a_late_wake_up_does_not_leave_the_reader_asleep() {
    let (mut a, mut b) = pair();
    // The first half of a write; the other half comes when the bytes are read and the mark is set.
    assert_eq!(a.writer.write(b"x").unwrap(), 1);
    let mut rest = Some(a);
    let (send, receive) = std::sync::mpsc::channel();
    b.marked = Some(Box::new(move || {
        if let Some(mut a) = rest.take() {
            assert!(a.writer.reader_waits().unwrap());
            a.wake().unwrap();
            send.send(a).unwrap();
        }
    }));
    let mut room = [0; 10];
    assert_eq!(b.read(&mut room).unwrap(), 1);
    let mut a = receive.recv().unwrap();
    assert!(b.reader.is_marked() && !b.ended());
    assert_eq!(a.write(b"y").unwrap(), 1);
    assert_eq!(recv(&b.socket, &mut [0], RecvFlags::PEEK).unwrap().1, 1, "it is woken");
    assert_eq!(b.read(&mut room).unwrap(), 1);
}

/// A node that is gone is noticed at once, not after a timeout without reads.
#[test]
fn a_write_to_a_gone_end_fails_at_once() {
    let (mut a, b) = pair();
    drop(b);
    let outcome = loop {
        if let Err(e) = a.write(&[7; 100_000]) {
            break e.kind();
        }
    };
    assert_eq!(outcome, io::ErrorKind::BrokenPipe);
}

#[test]
fn bytes_written_before_the_end_are_read() {
    let (mut a, mut b) = pair();
    assert_eq!(a.write(b"last words").unwrap(), 10);
    drop(a);
    let mut room = [0; 100];
    assert_eq!(b.read(&mut room).unwrap(), 10);
    assert_eq!(&room[..10], b"last words");
    assert!(b.ended());
    assert_eq!(b.read(&mut room).unwrap(), 0);
}

/// Also if the writer left while it waited for room: the reader can't wake it any more.
#[test]
fn bytes_of_a_waiting_writer_that_left_are_read() {
    let (mut a, mut b) = pair();
    assert_eq!(a.write(&vec![7; ring::RING_LEN]).unwrap(), ring::RING_LEN);
    assert_eq!(kind(a.write(b"more")), Some(io::ErrorKind::WouldBlock));
    drop(a);
    let (mut room, mut read) = (vec![0; 1000], 0);
    while let Ok(n @ 1..) = b.read(&mut room) {
        read += n;
    }
    assert_eq!(read, ring::RING_LEN);
}

/// A reader that never reads gets one ring of bytes and no more.
#[test]
fn a_reader_that_never_reads_gets_one_ring() {
    let (mut a, _b) = pair();
    let mut wrote = 0;
    let outcome = loop {
        match a.write(&[7; 100_000]) {
            Ok(n) => wrote += n,
            Err(e) => break e.kind(),
        }
    };
    assert_eq!((wrote, outcome), (ring::RING_LEN, io::ErrorKind::WouldBlock));
}

#[test]
fn endless_wake_ups_are_an_error() {
    let (mut a, mut b) = pair();
    b.socket().write_all(&[0; MAX_WAKE_UPS - 1]).unwrap();
    assert_eq!(kind(a.read(&mut [0; 10])), Some(io::ErrorKind::WouldBlock));
    b.socket().write_all(&[0; MAX_WAKE_UPS]).unwrap();
    assert_eq!(kind(a.read(&mut [0; 10])), Some(io::ErrorKind::InvalidData));
}

/// Hands over `file` and `hello`; returns the error of joining.
fn join_with(hello: &[u8], file: Option<OwnedFd>) -> Option<io::ErrorKind> {
    let dir = tempfile::tempdir().unwrap();
    let (path, listener) = listening(dir.path());
    let joining = std::thread::spawn(move || kind(SharedStream::join(&path)));
    let (stream, _) = listener.accept().unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<_> = file.iter().map(AsFd::as_fd).collect();
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&files));
    }
    sendmsg(&stream, &[IoSlice::new(hello)], &mut control, SendFlags::NOSIGNAL).unwrap();
    drop(stream);
    joining.join().unwrap()
}

fn made(len: u64, seals: SealFlags) -> Option<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("test", flags).unwrap();
    ftruncate(&file, len).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    Some(file)
}

/// Memory that could shrink would kill a process that accesses it.
#[test]
fn memory_without_the_right_seal_or_layout_is_refused() {
    let (len, sealed) = (REGION_LEN as u64, SealFlags::SHRINK);
    assert_eq!(join_with(&HELLO, made(len, sealed)), None);
    let refused = Some(io::ErrorKind::InvalidData);
    assert_eq!(join_with(&HELLO, made(len, SealFlags::empty())), refused);
    assert_eq!(join_with(&HELLO, made(len - 1, sealed)), refused);
    assert_eq!(join_with(b"xring\0\0\x02", made(len, sealed)), refused);
    assert_eq!(join_with(&HELLO, None), refused);
    assert_eq!(join_with(b"", None), refused);
}

#[test]
fn joining_an_absent_node_fails() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(kind(SharedStream::join(&dir.path().join("n.sock"))), Some(io::ErrorKind::NotFound));
    let (path, listener) = listening(dir.path());
    drop(listener);
    assert_eq!(kind(SharedStream::join(&path)), Some(io::ErrorKind::ConnectionRefused));
}
