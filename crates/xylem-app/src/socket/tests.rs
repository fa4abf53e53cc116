//! How a program reaches a forwarder through a Unix socket.

use super::*;
use std::os::unix::net::UnixListener;
use xylem_sockets::shared::ring_path;

/// Cases: a forwarder of another make, one of ours with a killed node, and one that is out of memory.
#[test]
fn without_shared_memory_there_is_the_plain_socket() {
    for ring in ["none", "stale", "closes"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n.sock");
        let plain = UnixListener::bind(&path).unwrap();
        let closing = match ring {
            "none" => None,
            ring => {
                let listener = UnixListener::bind(ring_path(&path)).unwrap();
                (ring == "closes").then(|| std::thread::spawn(move || drop(listener.accept())))
            }
        };
        let socket = ForwarderSocket::connect(&PeerAddress::Unix(path)).unwrap();
        assert!(matches!(socket.io, Io::Unix(_)), "{ring}");
        plain.accept().unwrap();
        closing.map(std::thread::JoinHandle::join);
    }
}

#[test]
fn a_xylem_node_shares_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("n.sock");
    let _plain = UnixListener::bind(&path).unwrap();
    let ring = UnixListener::bind(ring_path(&path)).unwrap();
    let node = std::thread::spawn(move || {
        let (stream, _) = ring.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        SharedStream::host(mio::net::UnixStream::from_std(stream)).unwrap()
    });
    let mut socket = ForwarderSocket::connect(&PeerAddress::Unix(path)).unwrap();
    assert!(matches!(socket.io, Io::Shared(_)));
    let mut connection = Connection::new(8_800, false, 1);
    // An empty Data, and the end of the connection: both are noticed.
    let mut node = node.join().unwrap();
    node.write(&[6, 0]).unwrap();
    drop(node);
    let mut came = 0;
    let wait = Duration::from_secs(5);
    assert!(socket.receive(&mut connection, wait, &mut |_, _| came += 1).unwrap());
    assert_eq!(came, 1);
    let ended = socket.receive(&mut connection, wait, &mut |_, _| {}).unwrap_err();
    assert!(matches!(ended, ConnectionError::Lost(ConnectionLoss::Closed)), "{ended:?}");
}
