//! quinn's part of the `session` table: one stream in one direction, on a runtime of one thread, with the largest
//! datagrams that it can be set to, or with its defaults.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, MtuDiscoveryConfig, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};

use crate::session::{Listening, TransferUsage, WRITE};
use crate::{children, usage};

const NAME: &str = "xylem-bench";
/// The largest UDP payload.
const LARGEST: u16 = 65_507;
/// Bytes that may be under way: more than loopback holds.
const WINDOW: u32 = 16 << 20;

/// The size of its datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datagrams {
    /// The default: up to 1,452 bytes.
    Usual,
    /// The maximum of UDP, without segment offload: quinn gives the kernel ten datagrams at a time, and the kernel
    /// accepts 65,507 bytes.
    Largest,
    /// So large that ten of them fit a system call.
    Tenth,
}

impl Datagrams {
    fn largest(self) -> u16 {
        match self {
            Self::Usual => 1_452,
            Self::Largest => LARGEST,
            Self::Tenth => LARGEST / 10,
        }
    }
}

fn transport(datagrams: Datagrams) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(WINDOW));
    transport.receive_window(VarInt::from_u32(WINDOW));
    transport.send_window(u64::from(WINDOW));
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(datagrams.largest());
    transport.mtu_discovery_config(Some(mtu));
    transport.enable_segmentation_offload(datagrams != Datagrams::Largest);
    Arc::new(transport)
}

fn endpoint(datagrams: Datagrams, server: Option<ServerConfig>) -> io::Result<Endpoint> {
    let mut config = EndpointConfig::default();
    if datagrams != Datagrams::Usual {
        config.max_udp_payload_size(LARGEST).map_err(other)?;
    }
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    // The buffer sizes that ours requests.
    let buffers = socket2::SockRef::from(&socket);
    buffers.set_recv_buffer_size(4 << 20)?;
    buffers.set_send_buffer_size(4 << 20)?;
    Endpoint::new(config, server, socket, Arc::new(TokioRuntime))
}

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn used(start: Instant, cpu: f64, connection: &quinn::Connection) -> TransferUsage {
    let stats = connection.stats();
    TransferUsage {
        seconds: start.elapsed().as_secs_f64(),
        cpu_seconds: usage::cpu_seconds() - cpu,
        peak_bytes: usage::peak_bytes(),
        rekeys: 0,
        datagram: usize::from(stats.path.current_mtu),
        again: stats.path.lost_packets,
    }
}

/// Receives `bytes` over one stream.
pub(crate) fn receive(datagrams: Datagrams, bytes: u64) -> io::Result<TransferUsage> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(other)?;
    let certificate = made.cert.der().clone();
    let secret = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let server = ServerConfig::with_single_cert(vec![certificate.clone()], secret.into());
    let mut server = server.map_err(other)?;
    server.transport_config(transport(datagrams));
    runtime()?.block_on(async {
        let endpoint = endpoint(datagrams, Some(server))?;
        let key = certificate.iter().map(|byte| format!("{byte:02x}")).collect();
        children::report(&Listening { at: endpoint.local_addr()?, key })?;
        let incoming = endpoint.accept().await.ok_or_else(|| other("no connection arrived"))?;
        let connection = incoming.await?;
        let (start, cpu) = (Instant::now(), usage::cpu_seconds());
        let mut stream = connection.accept_uni().await?;
        let mut received = 0;
        while let Some(chunk) = stream.read_chunk(usize::MAX, true).await.map_err(other)? {
            received += chunk.bytes.len() as u64;
        }
        if received != bytes {
            return Err(other("the bytes that arrived differ in number from those sent"));
        }
        let used = used(start, cpu, &connection);
        // The sender closes once it has the acknowledgement of everything.
        connection.closed().await;
        Ok(used)
    })
}

/// Sends `bytes` over one stream, in writes of [`WRITE`] bytes, until the other side has them.
pub(crate) fn send(
    datagrams: Datagrams,
    at: SocketAddr,
    certificate: &str,
    bytes: u64,
) -> io::Result<TransferUsage> {
    let digits: Vec<u8> = certificate.bytes().collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let der: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    let mut roots = RootCertStore::empty();
    let der = der.ok_or_else(|| other("no certificate"))?;
    roots.add(CertificateDer::from(der)).map_err(other)?;
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).map_err(other)?;
    client.transport_config(transport(datagrams));
    runtime()?.block_on(async {
        let endpoint = endpoint(datagrams, None)?;
        let connection = endpoint.connect_with(client, at, NAME).map_err(other)?.await?;
        let mut stream = connection.open_uni().await?;
        let packet = [7; WRITE];
        let (start, cpu) = (Instant::now(), usage::cpu_seconds());
        let mut left = bytes;
        while left > 0 {
            let len = left.min(WRITE as u64);
            stream.write_all(&packet[..len as usize]).await?;
            left -= len;
        }
        stream.finish().map_err(other)?;
        stream.stopped().await.map_err(other)?;
        let used = used(start, cpu, &connection);
        connection.close(VarInt::from_u32(0), b"");
        endpoint.wait_idle().await;
        Ok(used)
    })
}
