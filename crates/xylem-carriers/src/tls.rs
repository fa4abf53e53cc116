//! TLS 1.3 sessions around carriers and WebSockets (`rustls`): the offered parameters and the certificate.
//!
//! A carrier's certificate proves nothing: the peer has to prove the link's key inside. So its client accepts any
//! certificate, and a server without one generates it, in memory, for each run. A WebSocket of plain NDN has no key
//! inside: its client checks the certificate as a browser does.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};

/// The protocol that both ends name, as a web server and its clients do.
const ALPN: &[u8] = b"http/1.1";

/// A certificate chain and its key.
pub struct TlsIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl TlsIdentity {
    /// Reads PEM files.
    ///
    /// # Errors
    /// A file that can't be read, or has no valid content.
    pub fn from_files(certificates: &Path, key: &Path) -> io::Result<Self> {
        let wrong = |path: &Path, e: &dyn std::fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {e}", path.display()))
        };
        let chain: Vec<_> = CertificateDer::pem_file_iter(certificates)
            .and_then(Iterator::collect)
            .map_err(|e| wrong(certificates, &e))?;
        if chain.is_empty() {
            return Err(wrong(certificates, &"no certificate in this file"));
        }
        let key = PrivateKeyDer::from_pem_file(key).map_err(|e| wrong(key, &e))?;
        Ok(Self { chain, key })
    }

    /// Generates one, self-signed, for `localhost`.
    fn self_signed() -> io::Result<Self> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])
            .map_err(|e| io::Error::other(e.to_string()))?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        Ok(Self { chain: vec![made.cert.der().clone()], key })
    }
}

/// Suites of TLS 1.3 alone. Another crate of the program may enable TLS 1.2 in rustls, and a ClientHello that lists
/// suites it does not accept would be conspicuous.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.retain(|suite| suite.tls13().is_some());
    Arc::new(provider)
}

/// Configuration of a server; without an identity it generates one.
///
/// # Errors
/// A key that does not belong to its certificate, or is of an unknown kind.
pub fn server(identity: Option<TlsIdentity>) -> io::Result<Arc<ServerConfig>> {
    let TlsIdentity { chain, key } = match identity {
        Some(identity) => identity,
        None => TlsIdentity::self_signed()?,
    };
    let wrong = |e: rustls::Error| io::Error::new(io::ErrorKind::InvalidData, e.to_string());
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(wrong)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(wrong)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    log_keys(&mut config.key_log);
    Ok(Arc::new(config))
}

/// Configuration of a client.
///
/// # Errors
/// None that the caller can cause.
pub fn client() -> io::Result<Arc<ClientConfig>> {
    let provider = provider();
    let any = AnyCertificate(provider.clone());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|e| io::Error::other(e.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(any))
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    // A resumed session would show an observer which connections belong to one client.
    config.resumption = Resumption::disabled();
    log_keys(&mut config.key_log);
    Ok(Arc::new(config))
}

/// Configuration of a client that accepts a server only with a certificate for its name, by one of these authorities.
///
/// # Errors
/// None that the caller can cause.
pub fn checking_client(authorities: RootCertStore) -> io::Result<Arc<ClientConfig>> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|e| io::Error::other(e.to_string()))?
        .with_root_certificates(authorities)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    log_keys(&mut config.key_log);
    Ok(Arc::new(config))
}

/// The server name of a ClientHello, which is sent in clear; an address is not sent.
///
/// # Errors
/// It is neither a host's name nor an address.
pub fn server_name(name: Option<&str>, address: IpAddr) -> io::Result<ServerName<'static>> {
    match name {
        None => Ok(ServerName::IpAddress(address.into())),
        Some(name) => ServerName::try_from(name.to_owned())
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, format!("{name}: {e}"))),
    }
}

/// Writes session keys to the file named by `SSLKEYLOGFILE`, for analysers, in test builds only.
fn log_keys(key_log: &mut Arc<dyn rustls::KeyLog>) {
    if cfg!(debug_assertions) {
        *key_log = Arc::new(rustls::KeyLogFile::new());
    }
}

/// Accepts any certificate if the server holds its key; it identifies no server.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/carriers.md lists the suites that an observer sees, whatever else the program uses rustls for.
    #[test]
    fn client_hellos_list_only_suites_of_tls_1_3() {
        let config = client().unwrap();
        let suites = config.crypto_provider().cipher_suites.iter();
        let numbers: Vec<u16> = suites.map(|suite| suite.suite().into()).collect();
        assert_eq!(numbers, [0x1302, 0x1301, 0x1303]);
    }
}
