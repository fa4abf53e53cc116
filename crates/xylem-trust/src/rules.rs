//! [`TrustRules`]: which key may sign which name.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use core::fmt;

use xylem_packet::{Component, Name, NameRef};

const KEY: Component<'static> = Component::generic(b"KEY");

/// Which key may sign which name: the authority of an anchor. The same rules apply to all keys below the anchor,
/// however long the chain.
///
/// Rules are asked before a signature is verified, so an answer must be cheap, and bounded for any names.
pub trait TrustRules: fmt::Debug + Send + Sync {
    /// Whether the key in `certificate` may sign a packet named `packet`, which may be a certificate itself.
    /// `certificate` is a certificate's whole name (`/<identity>/KEY/<key id>/<issuer>/<version>`), and not proven yet.
    ///
    /// # Errors
    /// The rule that forbids it, as text.
    fn allows(&self, packet: NameRef<'_>, certificate: NameRef<'_>) -> Result<(), RuleRefusal>;

    /// Whether that key may give the command with this name, such as `/localhost/nfd/rib/register`. Such a name lies
    /// below no identity, so only rules for names of every kind can forbid it.
    ///
    /// # Errors
    /// As for [`Self::allows`].
    fn allows_command(
        &self,
        command: NameRef<'_>,
        certificate: NameRef<'_>,
    ) -> Result<(), RuleRefusal> {
        let _ = (command, certificate);
        Ok(())
    }
}

/// The rule that refused a name. The text continues a sentence that begins with the name: `may not be signed by …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleRefusal(pub String);

/// The default rule: a key signs names under its own identity, and certificates of identities under it. `/org/KEY/1`
/// may certify `/org/alice/KEY/7`, and that key may sign `/org/alice/note`. No key may certify a parent or an unrelated
/// identity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HierarchyRules;

impl TrustRules for HierarchyRules {
    fn allows(&self, packet: NameRef<'_>, certificate: NameRef<'_>) -> Result<(), RuleRefusal> {
        let identity = identity_of(certificate);
        if identity.is_prefix_of(covered_name(packet)) {
            return Ok(());
        }
        Err(RuleRefusal(format!(
            "is not under {identity}, the identity of the key {}",
            key_of(certificate)
        )))
    }
}

/// One key for names below some prefixes, whatever its own name is. Keys that it certifies are bound to these prefixes
/// as well, and to their own identities ([`HierarchyRules`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixRules {
    key: Name,
    prefixes: Vec<Name>,
}

impl PrefixRules {
    /// The rules for the key with this name, for names below these prefixes.
    pub fn new(key: Name, prefixes: Vec<Name>) -> Self {
        PrefixRules { key, prefixes }
    }
}

impl TrustRules for PrefixRules {
    fn allows(&self, packet: NameRef<'_>, certificate: NameRef<'_>) -> Result<(), RuleRefusal> {
        let name = covered_name(packet);
        if !self.prefixes.iter().any(|prefix| prefix.as_ref().is_prefix_of(name)) {
            let prefixes: Vec<_> = self.prefixes.iter().map(Name::to_string).collect();
            let (prefixes, key) = (prefixes.join(", "), &self.key);
            return Err(RuleRefusal(format!(
                "is not under {prefixes}, for which {key} is trusted"
            )));
        }
        if key_of(certificate) == self.key.as_ref() {
            return Ok(());
        }
        HierarchyRules.allows(packet, certificate)
    }
}

/// The name that a key's identity has to be a prefix of. For a certificate's name it is the identity, so that no key
/// certifies its identity's parents: an identity `/a/KEY` does not stand above the key `/a/KEY/1`.
fn covered_name(packet: NameRef<'_>) -> NameRef<'_> {
    match packet.len().checked_sub(4) {
        Some(at_key) if packet.get(at_key) == Some(KEY) => packet.prefix(at_key),
        _ => packet,
    }
}

fn key_of(certificate: NameRef<'_>) -> NameRef<'_> {
    certificate.prefix(certificate.len().saturating_sub(2))
}

fn identity_of(certificate: NameRef<'_>) -> NameRef<'_> {
    certificate.prefix(certificate.len().saturating_sub(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(uri: &str) -> Name {
        Name::from_uri(uri).unwrap()
    }

    fn allowed(rules: &dyn TrustRules, packet: &str, certificate: &str) -> bool {
        rules.allows(name(packet).as_ref(), name(certificate).as_ref()).is_ok()
    }

    #[test]
    fn a_key_signs_below_its_identity() {
        let org = "/org/KEY/1/self/v=1";
        for (packet, expected) in [
            ("/org", true),
            ("/org/a/b", true),
            ("/org/alice/KEY/1/org/v=1", true),
            ("/org/KEY/2/org/v=1", true),
            ("/organ", false),
            ("/", false),
            ("/other/KEY/1/org/v=1", false),
        ] {
            assert_eq!(allowed(&HierarchyRules, packet, org), expected, "{packet}");
        }
        // An identity with a name like a key's is not above that key.
        assert!(!allowed(&HierarchyRules, "/org/KEY/1/x/v=1", "/org/KEY/KEY/1/self/v=1"));
        assert!(!allowed(&HierarchyRules, "/org/KEY/1/x/v=1", "/org/KEY/1/KEY/1/self/v=1"));
    }

    #[test]
    fn a_key_for_a_prefix_stays_below_it() {
        let below = PrefixRules::new(name("/bob/KEY/1"), vec![name("/shop"), name("/fair")]);
        let (bob, carol) = ("/bob/KEY/1/self/v=1", "/shop/carol/KEY/1/bob/v=1");
        for (packet, by, expected) in [
            ("/shop/list", bob, true),
            ("/fair/list", bob, true),
            ("/bob/list", bob, false),
            (carol, bob, true),
            ("/shop/carol/list", carol, true),
            ("/shop/list", carol, false),
            ("/dave/KEY/1/bob/v=1", bob, false),
            // Another key of the same owner is not trusted.
            ("/shop/list", "/bob/KEY/2/self/v=1", false),
        ] {
            assert_eq!(allowed(&below, packet, by), expected, "{packet} by {by}");
        }
        let said = below.allows(name("/bob/x").as_ref(), name(bob).as_ref()).unwrap_err();
        assert_eq!(
            format!("/bob/x {said}"),
            "/bob/x is not under /shop, /fair, for which /bob/KEY/1 is trusted"
        );
    }
}
