//! TLS around WebSockets of plain NDN, which browsers demand of servers that a page from `https://` connects to.
//!
//! The server shows the certificate of the settings. The client checks the server's against the authorities of the
//! system (`SSL_CERT_FILE` names others), for the host's name, or for the address where no name is known.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use xylem_carriers::tls;

use crate::WebSocketDial;

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

/// After a failure to read the authorities, dials fail at once for this long: permanent faces dial each second, and the
/// reading takes time from all other faces.
const UNREADABLE: Duration = Duration::from_secs(60);

/// TLS of dials. The authorities are read with the first one, or by [`Self::prepare`].
#[derive(Default)]
pub struct WebTlsClient(WebTlsAuthorities);

/// TLS of one connection that is dialled.
pub struct WebTlsSession(pub(crate) ClientConnection);

/// What is known of the system's authorities.
#[derive(Default)]
enum WebTlsAuthorities {
    #[default]
    NotRead,
    Read(Arc<ClientConfig>),
    Unreadable {
        since: Duration,
        why: String,
    },
}

impl WebTlsClient {
    /// Reads the authorities, which takes many milliseconds, before a loop begins whose dials would stop for it. A
    /// failure is that of the dials.
    pub fn prepare(&mut self, now: Duration) {
        let _ = self.config(now, authorities);
    }

    /// TLS of one dial.
    ///
    /// # Errors
    /// A name that is none, or a system without authorities.
    pub fn session(&mut self, now: Duration, to: WebSocketDial<'_>) -> io::Result<WebTlsSession> {
        let config = self.config(now, authorities)?;
        let name = tls::server_name(to.name, to.address.ip())?;
        ClientConnection::new(config, name).map(WebTlsSession).map_err(io::Error::other)
    }

    fn config(
        &mut self,
        now: Duration,
        read: impl FnOnce() -> io::Result<RootCertStore>,
    ) -> io::Result<Arc<ClientConfig>> {
        match &self.0 {
            WebTlsAuthorities::Read(config) => return Ok(Arc::clone(config)),
            WebTlsAuthorities::Unreadable { since, why }
                if now.saturating_sub(*since) < UNREADABLE =>
            {
                return Err(io::Error::other(why.clone()));
            }
            WebTlsAuthorities::NotRead | WebTlsAuthorities::Unreadable { .. } => {}
        }
        match read().and_then(tls::checking_client) {
            Ok(config) => {
                self.0 = WebTlsAuthorities::Read(Arc::clone(&config));
                Ok(config)
            }
            Err(e) => {
                self.0 = WebTlsAuthorities::Unreadable { since: now, why: e.to_string() };
                Err(e)
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_that_cannot_be_read_are_read_again_after_a_minute() {
        let mut client = WebTlsClient::default();
        let began = Duration::from_secs(5);
        let mut reads = 0;
        for second in 0..=120 {
            let failed = client.config(began + Duration::from_secs(second), || {
                reads += 1;
                Err(io::Error::other("none"))
            });
            assert_eq!(failed.expect_err("there are none").to_string(), "none");
        }
        assert_eq!(reads, 3);
        let later = began + Duration::from_secs(180);
        assert!(client.config(later, || Ok(RootCertStore::empty())).is_ok());
        assert!(client.config(later, || Err(io::Error::other("not read again"))).is_ok());
    }
}
