//! TLS around WebSockets of plain NDN, which browsers demand of servers that a page from `https://` connects to.
//!
//! The server shows the certificate of the settings. The client checks the server's against the authorities of the
//! system (`SSL_CERT_FILE` names others), for the host's name, or for the address where no name is known.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use xylem_carriers::tls;

/// TLS of a listener.
#[derive(Clone)]
pub struct WebTlsServer(Arc<ServerConfig>);

impl WebTlsServer {
    pub(crate) fn new(config: Arc<ServerConfig>) -> Self {
        Self(config)
    }

    pub(crate) fn session(&self) -> io::Result<ServerConnection> {
        ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other)
    }
}

/// TLS of dials. The authorities are read with the first one.
#[derive(Default)]
pub struct WebTlsClient(Option<Arc<ClientConfig>>);

impl WebTlsClient {
    pub(crate) fn session(
        &mut self,
        name: Option<&str>,
        address: IpAddr,
    ) -> io::Result<ClientConnection> {
        let config = match self.0.take() {
            Some(config) => config,
            None => tls::checking_client(authorities()?)?,
        };
        self.0 = Some(Arc::clone(&config));
        let name = tls::server_name(name, address)?;
        ClientConnection::new(config, name).map_err(io::Error::other)
    }
}

/// The authorities that the system trusts.
fn authorities() -> io::Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(found.certs);
    if authorities.is_empty() {
        let why = found.errors.first().map(ToString::to_string).unwrap_or_default();
        let what = format!("this system has no certificates of authorities for wss://: {why}");
        return Err(io::Error::other(what));
    }
    Ok(authorities)
}
