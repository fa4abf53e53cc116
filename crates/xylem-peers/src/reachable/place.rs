//! [`HostPort`]: a host and port as written, before any name is resolved. [`split_key`], [`split_sni`]: the parts around
//! them in a URI.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// A host name or address with a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name, or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl HostPort {
    /// Makes one of this address.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port() }
    }
}

/// Parses `[IPV6%ZONE]:PORT`, an address valid on one interface alone.
fn zoned(text: &str) -> Option<HostPort> {
    let (inside, port) = text.strip_prefix('[')?.split_once("]:")?;
    let (ip, zone) = inside.split_once('%')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '_';
    let is_zone = !zone.is_empty() && zone.len() <= 64 && zone.chars().all(plain);
    let fits = is_zone && ip.parse::<Ipv6Addr>().is_ok();
    fits.then_some(HostPort { host: inside.to_owned(), port: port.parse().ok()? })
}

/// Why a text is no [`HostPort`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostPortError {
    /// It has no port, or the host is neither a name nor an address.
    #[error("expected HOST:PORT, such as 192.0.2.7:7000 or [2001:db8::7]:7000")]
    Form,
    /// What is in the port's place is none.
    #[error("port {0:?} is not a number up to 65535")]
    Port(String),
}

/// Why the text before an `@` is no link's key: it has other than 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key before @ must have 64 hexadecimal digits")]
pub struct LinkKeyError;

/// Why the text after a `?` is no name of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerNameError {
    /// It is another parameter than `sni`.
    #[error("only ?sni=NAME may follow the address")]
    OtherParameter,
    /// The name cannot be that of a host.
    #[error("{0:?} is not a host name")]
    NotAHost(String),
}

impl FromStr for HostPort {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<Self, HostPortError> {
        if let Some(zoned) = zoned(text) {
            return Ok(zoned);
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self::at(address));
        }
        let (host, port) = text.rsplit_once(':').ok_or(HostPortError::Form)?;
        let plain = |c: char| c.is_alphanumeric() || c == '-' || c == '.' || c == '_';
        if host.is_empty() || host.len() > 255 || !host.chars().all(plain) {
            return Err(HostPortError::Form);
        }
        let port = port.parse().map_err(|_| HostPortError::Port(port.to_owned()))?;
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Parses a link's key.
///
/// # Errors
/// [`LinkKeyError`].
fn link_key(text: &str) -> Result<[u8; 32], LinkKeyError> {
    let digits = text.as_bytes();
    let mut key = [0; 32];
    if digits.len() != 64 {
        return Err(LinkKeyError);
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |d: u8| char::from(d).to_digit(16).ok_or(LinkKeyError);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Ok(key)
}

/// Splits `[KEY@]REST`.
///
/// # Errors
/// [`LinkKeyError`].
pub fn split_key(text: &str) -> Result<(Option<[u8; 32]>, &str), LinkKeyError> {
    match text.split_once('@') {
        Some((key, at)) => Ok((Some(link_key(key)?), at)),
        None => Ok((None, text)),
    }
}

/// Splits `HOST[:PORT][?sni=NAME]`.
///
/// # Errors
/// [`ServerNameError`].
pub fn split_sni(text: &str) -> Result<(&str, Option<String>), ServerNameError> {
    let Some((at, query)) = text.split_once('?') else { return Ok((text, None)) };
    let name = query.strip_prefix("sni=").ok_or(ServerNameError::OtherParameter)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if name.is_empty() || name.len() > 253 || !name.chars().all(plain) {
        return Err(ServerNameError::NotAHost(name.to_owned()));
    }
    Ok((at, Some(name.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zoned_address_keeps_its_interface() {
        for (text, host) in
            [("[fe80::1%eth0]:7348", "fe80::1%eth0"), ("[fe80::1%3]:7348", "fe80::1%3")]
        {
            let place: HostPort = text.parse().unwrap();
            assert_eq!((place.host.as_str(), place.port), (host, 7348));
            assert_eq!(place.to_string(), text);
        }
        for text in
            ["[fe80::1%]:1", "[fe80::1%a/b]:1", "[h%eth0]:1", "[fe80::1%eth0]", "[fe80::1%eth0]:x"]
        {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }
}
