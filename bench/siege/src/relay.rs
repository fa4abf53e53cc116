//! Many idle clients that stay registered with a relay, for bench/relay.py.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use xylem_link::{Endpoint, LinkConfig, LinkEvent, PeerKey, StaticKey, StreamRead, purpose};
use xylem_reach::relay::{DatagramKind, RelayClient, RelayEvent, RelayPort};

use crate::{Failure, random};

/// Number of concurrent registrations.
const AT_ONCE: usize = 16;
/// Number of sockets that all clients share.
const SOCKETS: usize = 50;
/// Time limit of one registration.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(30);

/// Key and address of `xylem://KEY@HOST:PORT`.
fn relay_at(uri: &str) -> Result<(PeerKey, SocketAddr), Failure> {
    let rest = uri.strip_prefix("xylem://").ok_or("not xylem://KEY@HOST:PORT")?;
    let (key, at) = rest.split_once('@').ok_or("no key")?;
    let key: xylem_object::PublisherId = key.parse()?;
    Ok((PeerKey(key.0), at.parse()?))
}

/// A client that is about to be registered.
struct PendingRegistration {
    relay: RelayClient,
    endpoint: Endpoint,
    registered: bool,
    since: Instant,
}

impl PendingRegistration {
    fn new(now: Duration, key: PeerKey, at: SocketAddr) -> Result<Self, Failure> {
        let config = LinkConfig { accept_incoming: false, ..LinkConfig::default() };
        let mut endpoint = Endpoint::new(config, StaticKey::generate(random()?), random()?);
        endpoint.connect(now, at, Some(key));
        let relay = RelayClient::new(random()?, true, Vec::new());
        Ok(Self { relay, endpoint, registered: false, since: Instant::now() })
    }

    fn send(&mut self, now: Duration, socket: &UdpSocket, buffer: &mut Vec<u8>) {
        while let Some(transmit) = self.endpoint.poll_transmit(now, buffer) {
            let size = transmit.segment_size.unwrap_or(transmit.len).max(1);
            for datagram in buffer[..transmit.len].chunks(size) {
                let _ = socket.send_to(datagram, transmit.to);
            }
        }
    }

    fn take(&mut self, now: Duration) -> Result<(), Failure> {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                LinkEvent::Connected { link, .. } => {
                    let stream = self.endpoint.open_stream(link, purpose::REACH)?;
                    self.endpoint.write_stream(link, stream, &self.relay.request())?;
                }
                LinkEvent::StreamReadable { link, stream } => {
                    while let StreamRead::Data(bytes) = self.endpoint.read_stream(link, stream)? {
                        self.relay.handle_control(now, &bytes)?;
                    }
                    // The link was only needed for the registration.
                    self.endpoint.close(link);
                }
                LinkEvent::StreamReset { .. } => return Err("the relay refused the stream".into()),
                _ => {}
            }
        }
        while let Some(event) = self.relay.poll_event() {
            match event {
                RelayEvent::Registered { .. } => self.registered = true,
                RelayEvent::Refused(_, why) => return Err(why.to_string().into()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Registers `count` clients, reports it, and keeps them registered for this long.
pub(crate) fn register(uri: &str, count: usize, lasts: Duration) -> Result<(), Failure> {
    let (key, at) = relay_at(uri)?;
    let (epoch, mut buffer, mut incoming) = (Instant::now(), Vec::new(), vec![0; 65_536]);
    let mut clients: Vec<RelayClient> = Vec::new();
    while clients.len() < count {
        // A socket each, so that each receives only its own answers.
        let mut asking = Vec::new();
        for _ in 0..AT_ONCE.min(count - clients.len()) {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_nonblocking(true)?;
            asking.push((PendingRegistration::new(epoch.elapsed(), key, at)?, socket));
        }
        while asking.iter().any(|(one, _)| !one.registered) {
            for (one, socket) in &mut asking {
                let now = epoch.elapsed();
                one.send(now, socket, &mut buffer);
                while let Ok((len, from)) = socket.recv_from(&mut incoming) {
                    one.endpoint.handle_datagram(now, from, BytesMut::from(&incoming[..len]));
                    one.take(now)?;
                }
                if one.endpoint.poll_timeout().is_some_and(|due| due <= now) {
                    one.endpoint.handle_timeout(now);
                }
                if one.since.elapsed() > REGISTRATION_TIMEOUT {
                    return Err(format!(
                        "the relay does not answer, {} are registered",
                        clients.len()
                    )
                    .into());
                }
            }
        }
        let now = epoch.elapsed();
        for (mut one, socket) in asking {
            one.send(now, &socket, &mut buffer);
            clients.push(one.relay);
        }
    }
    println!(
        "{}",
        serde_json::json!({"up": clients.len(), "seconds": epoch.elapsed().as_secs_f64()})
    );
    keep(clients, at, epoch, lasts)
}

/// Sends keep-alives from other sockets than those of the registrations: each client has to validate its address once
/// more.
fn keep(
    mut clients: Vec<RelayClient>,
    at: SocketAddr,
    epoch: Instant,
    lasts: Duration,
) -> Result<(), Failure> {
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_nonblocking(true)?;
        sockets.push(socket);
    }
    let (begin, mut incoming, mut keeps, mut lost) = (Instant::now(), [0; 2_048], 0_u64, 0_u64);
    // The client for an answer with this id: each datagram is looked up here first.
    let mut owners: HashMap<[u8; 8], usize> = HashMap::new();
    while begin.elapsed() < lasts {
        let now = epoch.elapsed();
        for (number, client) in clients.iter_mut().enumerate() {
            if client.poll_timeout().is_some_and(|due| due <= now) {
                client.handle_timeout(now);
            }
            while let Some((port, datagram)) = client.poll_transmit(now) {
                if port == RelayPort::First {
                    keeps += 1;
                    let _ = sockets[number % SOCKETS].send_to(&datagram, at);
                }
            }
            while let Some(event) = client.poll_event() {
                lost += u64::from(event == RelayEvent::Lost);
            }
        }
        for (which, socket) in sockets.iter().enumerate() {
            loop {
                let len = match socket.recv(&mut incoming) {
                    Ok(len) => len,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) => return Err(e.into()),
                };
                let Some(id) = incoming[..len].first_chunk::<8>().copied() else { continue };
                let known = owners.get(&id).copied();
                let all = (which..clients.len()).step_by(SOCKETS);
                for number in known.into_iter().chain(all) {
                    let datagram = &mut incoming[..len];
                    if clients[number].handle_datagram(now, false, datagram) != DatagramKind::Not {
                        owners.insert(id, number);
                        break;
                    }
                }
            }
        }
        if owners.len() > 4 * clients.len() {
            owners.clear();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    println!(
        "{}",
        serde_json::json!({"keeps": keeps, "lost": lost, "seconds": begin.elapsed().as_secs_f64()})
    );
    Ok(())
}
