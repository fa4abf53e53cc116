//! [`PageAccess`]: controls access to the page of `xylem ui`.
//!
//! Other programs, and other pages in a browser, can reach loopback, too. The token keeps out all that were not given
//! the address. `Host` keeps out pages under a foreign name that resolves to loopback (DNS rebinding), and `Origin`
//! pages of other sites.

use crate::exit::CommandFailure;
use crate::http::PageRequest;
use std::net::SocketAddr;
use xylem_hash::{Hash, hash};

/// See the module's documentation.
pub(super) struct PageAccess {
    at: SocketAddr,
    token: String,
    /// Hash of the token: a comparison of two hashes takes constant time.
    hashed: Hash,
}

impl PageAccess {
    /// Makes a token for this run.
    pub(super) fn new(at: SocketAddr) -> Result<Self, CommandFailure> {
        let random = xylem_base::random::<16>()?;
        Ok(Self::of(at, random.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    fn of(at: SocketAddr, token: String) -> Self {
        Self { at, hashed: hash(token.as_bytes()), token }
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// The address to open in a browser.
    pub(super) fn url(&self) -> String {
        format!("http://{}/?token={}", self.at, self.token)
    }

    /// Whether a request has the token, and host and origin of this page.
    pub(super) fn lets_in(&self, request: &PageRequest) -> bool {
        let named = |host: &str| {
            let local = format!("localhost:{}", self.at.port());
            // A browser leaves out the default port.
            let bare = self.at.port() == 80;
            host == self.at.to_string()
                || host == local
                || bare && (host == self.at.ip().to_string() || host == "localhost")
        };
        let of_us = |origin: &String| origin.strip_prefix("http://") == Some(&request.host);
        named(&request.host)
            && request.origin.as_ref().is_none_or(of_us)
            && request.parameter("token").is_some_and(|token| hash(token.as_bytes()) == self.hashed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_without_token_host_or_origin_are_refused() {
        let gate = PageAccess::of(SocketAddr::from(([127, 0, 0, 1], 7350)), "7f00".to_owned());
        assert_eq!(gate.url(), "http://127.0.0.1:7350/?token=7f00");
        let asks = |host: &str, origin: Option<&str>, query: &str| {
            let (path, query) = ("/events".to_owned(), query.to_owned());
            let (host, origin) = (host.to_owned(), origin.map(str::to_owned));
            gate.lets_in(&PageRequest { path, query, host, origin })
        };
        let here = "127.0.0.1:7350";
        for (host, origin) in [
            (here, None),
            (here, Some("http://127.0.0.1:7350")),
            ("localhost:7350", Some("http://localhost:7350")),
        ] {
            assert!(asks(host, origin, "token=7f00"), "{host} {origin:?}");
        }
        for query in ["", "token", "token=", "token=7f", "token=7f000", "token=7F00", "tokens=7f00"]
        {
            assert!(!asks(here, None, query), "{query}");
        }
        for host in
            ["", "evil.example", "evil.example:7350", "127.0.0.1", "127.0.0.1:80", "localhost"]
        {
            assert!(!asks(host, None, "token=7f00"), "{host}");
        }
        for origin in
            ["null", "", "http://evil.example", "https://127.0.0.1:7350", "http://localhost:7350"]
        {
            assert!(!asks(here, Some(origin), "token=7f00"), "{origin}");
        }
    }

    #[test]
    fn each_run_has_its_own_token() {
        let at = SocketAddr::from(([127, 0, 0, 1], 1));
        let [one, other] = [0, 1].map(|_| PageAccess::new(at).unwrap().token);
        assert!(one != other && one.len() == 32);
    }
}
