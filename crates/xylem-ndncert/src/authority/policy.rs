//! [`IssuePolicy`]: which client may have which name.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt;
use std::sync::Arc;

use xylem_packet::{Component, Name, NameRef};
use xylem_trust::{Certificate, HierarchyRules, RuleRefusal, TrustRules, TrustStore};

use crate::numbers::status_text;
use crate::packets::{ChallengeParameters, ProbeResponse};

/// Decides which client may have which name. Challenges prove a property of a client; the policy maps that to names.
pub trait IssuePolicy: fmt::Debug + Send {
    /// Checks that `issuer`, the CA's certificate, may sign a certificate of this name.
    ///
    /// # Errors
    /// The reason against it.
    fn allows(&self, certificate: NameRef<'_>, issuer: NameRef<'_>) -> Result<(), RuleRefusal>;

    /// Checks that the reader of emails to `address` may have the name that is `suffix` below the CA's prefix.
    ///
    /// # Errors
    /// The reason against it.
    fn email(&self, suffix: NameRef<'_>, address: &str) -> Result<(), RuleRefusal>;

    /// Checks that the owner of the private key of `credential` may have this identity. `credential` is what the client
    /// sent, not yet verified.
    ///
    /// # Errors
    /// The reason against it.
    fn possession(
        &self,
        identity: NameRef<'_>,
        credential: &Certificate<'_>,
        now_ms: u64,
    ) -> Result<(), RuleRefusal>;

    /// Names below the CA's prefix for a client with these parameters, which are not proven.
    fn probe(&self, prefix: NameRef<'_>, parameters: &ChallengeParameters) -> ProbeResponse {
        let _ = (prefix, parameters);
        ProbeResponse::default()
    }
}

/// The default policy:
///
/// - names by a trust schema's [`TrustRules`]; by the hierarchy of names if there is none;
/// - the owner of `user@example.org` has `/user@example.org` and `/org/example/_user/user` below the prefix,
///   and names below those; PROBE with `email` returns the second;
/// - the owner of a trusted certificate has its identity, and names below it.
#[derive(Debug)]
pub struct StandardPolicy {
    rules: Arc<dyn TrustRules>,
    believed: TrustStore,
}

impl Default for StandardPolicy {
    fn default() -> Self {
        StandardPolicy::new(Arc::new(HierarchyRules), TrustStore::new())
    }
}

impl StandardPolicy {
    /// Names by `rules`; certificates for the possession challenge by `believed`.
    pub fn new(rules: Arc<dyn TrustRules>, believed: TrustStore) -> Self {
        StandardPolicy { rules, believed }
    }
}

impl IssuePolicy for StandardPolicy {
    fn allows(&self, certificate: NameRef<'_>, issuer: NameRef<'_>) -> Result<(), RuleRefusal> {
        self.rules.allows(certificate, issuer)
    }

    fn email(&self, suffix: NameRef<'_>, address: &str) -> Result<(), RuleRefusal> {
        let refused = || RuleRefusal(format!("is not a name for {address}"));
        let whole = suffix.get(0) == Some(Component::generic(address.as_bytes()));
        let spelt: Name = address_components(address).ok_or_else(refused)?.collect();
        if whole || spelt.is_prefix_of(suffix) { Ok(()) } else { Err(refused()) }
    }

    fn possession(
        &self,
        identity: NameRef<'_>,
        credential: &Certificate<'_>,
        now_ms: u64,
    ) -> Result<(), RuleRefusal> {
        let (name, owner) = (credential.name(), credential.identity());
        if !owner.is_prefix_of(identity) {
            return Err(RuleRefusal(format!(
                "is not below {owner}, the identity of the presented certificate"
            )));
        }
        if !credential.validity().contains(now_ms) {
            return Err(RuleRefusal(format!("was requested with {name}, which is not valid now")));
        }
        self.believed.data(credential.data(), now_ms).map_err(|why| {
            RuleRefusal(format!("was requested with {name}, which is not trusted: {why}"))
        })
    }

    fn probe(&self, prefix: NameRef<'_>, parameters: &ChallengeParameters) -> ProbeResponse {
        let address = parameters.get(status_text::EMAIL).and_then(address);
        let name = address
            .as_deref()
            .and_then(address_components)
            .map(|spelt| prefix.iter().chain(spelt).collect());
        let names = name.into_iter().map(|name| (name, None)).collect();
        ProbeResponse { names, redirects: Vec::new() }
    }
}

/// The component before users in names. No label of a domain equals it, so no user has a name of another domain, or
/// above one.
const USER: &str = "_user";

/// An address as components of a name: `org`, `example`, `_user`, `user`.
fn address_components(address: &str) -> Option<impl Iterator<Item = Component<'_>>> {
    let (user, domain) = address.rsplit_once('@')?;
    let parts = domain.rsplit('.').chain([USER, user]);
    Some(parts.map(|part| Component::generic(part.as_bytes())))
}

/// An address that a mail program takes as one address and nothing else: one `@`, letters, digits and a few signs.
/// Returned in lower case, so that one mailbox has one name.
pub(crate) fn address(given: &[u8]) -> Option<String> {
    let given = core::str::from_utf8(given).ok()?;
    let (user, domain) = given.split_once('@')?;
    let label = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let user_ok = !user.is_empty()
        && user.len() <= 64
        && !user.starts_with('-')
        && user.split('.').all(|part| {
            !part.is_empty()
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_+".contains(&b))
        });
    let domain_ok = domain.len() <= 255 && domain.contains('.') && domain.split('.').all(label);
    (user_ok && domain_ok && given.len() <= 254).then(|| given.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_one_address() {
        for good in ["a@b.c", "first.last+tag@mail.example.org", "x_1@a-b.co"] {
            assert_eq!(address(good.as_bytes()).as_deref(), Some(good));
        }
        assert_eq!(address(b"Alice@Example.ORG").as_deref(), Some("alice@example.org"));
        for bad in [
            "",
            "a",
            "@b.c",
            "a@",
            "a@b",
            "a@b@c.d",
            "a@b..c",
            ".a@b.c",
            "a b@c.d",
            "a@b.c\r\nBcc: x@y.z",
            "a@b.c,x@y.z",
            "<a@b.c>",
            "\"a\"@b.c",
            "-f@b.c",
            "a@b.c;ls",
            "ä@b.c",
            "a@b.c\0",
        ] {
            assert_eq!(address(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(address(&[b'a', b'@', 0xFF, b'.', b'c']), None);
        assert_eq!(address(format!("{}@b.c", "a".repeat(65)).as_bytes()), None);
    }

    #[test]
    fn addresses_own_their_names() {
        let policy = StandardPolicy::default();
        let owns = |suffix: &str, address| {
            policy.email(suffix.parse::<Name>().unwrap().as_ref(), address).is_ok()
        };
        for good in ["/al@x.org", "/al@x.org/phone", "/org/x/_user/al", "/org/x/_user/al/phone"] {
            assert!(owns(good, "al@x.org"), "{good}");
        }
        for bad in
            ["/org", "/org/x", "/al", "/org/x/bob", "/x.org/al", "/org/x/al", "/org/x/_user", "/"]
        {
            assert!(!owns(bad, "al@x.org"), "{bad}");
        }
    }

    /// A user that chooses the name of a mailbox gets no name of a mail domain that is called so, nor of its users.
    /// Each user has the name that PROBE returns.
    #[test]
    fn no_mailbox_owns_names_of_another_address() {
        let policy = StandardPolicy::default();
        let prefix: Name = "/P".parse().unwrap();
        let probed = |address: &str| {
            let parameters = ChallengeParameters::of(status_text::EMAIL, address.as_bytes());
            policy.probe(prefix.as_ref(), &parameters).names.remove(0).0
        };
        let addresses = [
            "cs@uni.edu",
            "prof@cs.uni.edu",
            "uni@x.edu",
            "edu@a.b",
            "user@uni.edu",
            "al@user.uni.edu",
            "_user@uni.edu",
            "al@uni.edu",
            "al.cs@uni.edu",
            "cs.al@uni.edu",
            "cs+al@uni.edu",
            "a@b.cs.uni.edu",
            "b@cs.uni.edu",
        ];
        for one in addresses {
            for other in addresses {
                let name = probed(other);
                let suffix = name.as_ref().strip_prefix(prefix.as_ref()).unwrap();
                for below in [suffix.to_name(), suffix.to_name().child(Component::generic(b"x"))] {
                    let owns = policy.email(below.as_ref(), one).is_ok();
                    assert_eq!(owns, one == other, "{one} and {other}: {below}");
                }
            }
        }
    }
}
