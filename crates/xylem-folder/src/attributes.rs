//! [`ExtendedAttributes`]: extended attributes of a file or directory, those of the `user.` namespace.
//!
//! A member that chose them (`xylem sync --xattrs`) reads them at each scan, and puts those of other members in place.
//! Every other member keeps in its index what the group knows, and neither reads nor sets any on its disk.
//! [`IndexItem::unapplied`] marks entries with attributes that the disk does not have: a difference there is no change.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::index::IndexItem;

pub(super) mod on_disk;
mod placing;

pub(super) use placing::AttributeScan;

/// Most bytes of all names and values of one path. ext4 keeps no more by default.
pub const MAX_ATTRIBUTES: usize = 4096;
/// Beginning of each name. No other namespace travels: the system gives meaning to the others.
const NAMESPACE: &[u8] = b"user.";
/// Most bytes of a name, the namespace included (Linux).
const MAX_ATTRIBUTE_NAME: usize = 255;

/// Extended attributes of one path: values by name. Cloning is cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExtendedAttributes(Arc<BTreeMap<Vec<u8>, Vec<u8>>>);

/// Why attributes are not exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttributesError {
    /// A name is empty, too long, has a zero byte, or is not in the namespace.
    #[error("it has an extended attribute with a name that is not allowed")]
    Name,
    /// All names and values have more than [`MAX_ATTRIBUTES`] bytes.
    #[error(
        "its extended attributes have more than {MAX_ATTRIBUTES} bytes, and none of them travel"
    )]
    TooLarge,
}

impl ExtendedAttributes {
    /// Makes a set of these values by name.
    ///
    /// # Errors
    /// A name is not allowed, or they are too large.
    pub fn new(all: BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Self, AttributesError> {
        let mut bytes = 0_usize;
        for (name, value) in &all {
            if !is_attribute_name(name) {
                return Err(AttributesError::Name);
            }
            bytes = bytes.saturating_add(name.len()).saturating_add(value.len());
        }
        if bytes > MAX_ATTRIBUTES {
            Err(AttributesError::TooLarge)
        } else {
            Ok(Self(Arc::new(all)))
        }
    }

    /// Returns the values by name.
    pub fn all(&self) -> &BTreeMap<Vec<u8>, Vec<u8>> {
        &self.0
    }
}

/// Names of the namespace to which systems give a meaning: layers of overlayfs, owners and modes as seen in containers and
/// in QEMU's guests. A member could change what another one's container or guest sees.
const WITH_MEANING: [&[u8]; 4] =
    [b"user.overlay.", b"user.containers.", b"user.fuseoverlayfs.", b"user.virtfs."];

/// Returns whether an attribute of this name is exchanged.
fn is_attribute_name(name: &[u8]) -> bool {
    name.strip_prefix(NAMESPACE).is_some_and(|rest| !rest.is_empty() && !rest.contains(&0))
        && name.len() <= MAX_ATTRIBUTE_NAME
        && !WITH_MEANING.iter().any(|with| name.starts_with(with))
}

/// What a scan knows about the attributes that a path has on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SeenAttributes {
    /// This member did not choose to exchange attributes.
    NotLooked,
    /// They cannot be read, or are too large.
    Unreadable,
    /// It has these.
    These(ExtendedAttributes),
}

impl SeenAttributes {
    /// Returns whether the attributes of an entry are not those of the disk; `None` if the user changed them on the
    /// disk.
    pub(super) fn unapplied_if_same(&self, item: &IndexItem) -> Option<bool> {
        match self {
            Self::NotLooked => Some(item.attributes.is_some()),
            Self::Unreadable => Some(item.unapplied),
            Self::These(these) if *these == item.attributes.clone().unwrap_or_default() => {
                Some(false)
            }
            Self::These(_) => item.unapplied.then_some(true),
        }
    }

    /// Returns the attributes that an entry has from now on. `is_alike`: the path is still a file, or a directory.
    /// The second part of the result is [`IndexItem::unapplied`].
    pub(super) fn after(
        self,
        item: &IndexItem,
        is_alike: bool,
    ) -> (Option<ExtendedAttributes>, bool) {
        let known = item.attributes.clone().filter(|_| is_alike);
        match (self.unapplied_if_same(item).filter(|_| is_alike), self) {
            // Nothing was known of it, and the disk has none: it stays unknown.
            (Some(unapplied), _) => (known, unapplied),
            (None, Self::These(these)) => {
                let is_known = known.is_some() || !these.all().is_empty();
                (is_known.then_some(these), false)
            }
            (None, _) => (None, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn these(all: &[(&str, &str)]) -> Result<ExtendedAttributes, AttributesError> {
        let all = all.iter().map(|(name, value)| (Vec::from(*name), Vec::from(*value)));
        ExtendedAttributes::new(all.collect())
    }

    #[test]
    fn only_user_attributes_of_bounded_size_are_taken() {
        assert!(these(&[("user.a", ""), ("user.b.c", "1")]).is_ok());
        let long = format!("user.{}", "x".repeat(250));
        assert!(these(&[(&long, "")]).is_ok());
        let longer = format!("{long}x");
        for name in [
            "user.",
            "user",
            "",
            "security.a",
            "trusted.a",
            "system.a",
            "User.a",
            "user.\0",
            &longer,
        ] {
            assert_eq!(these(&[(name, "")]), Err(AttributesError::Name), "{name}");
        }
        let most = "x".repeat(MAX_ATTRIBUTES - "user.a".len());
        assert!(these(&[("user.a", &most)]).is_ok());
        assert_eq!(these(&[("user.ab", &most)]), Err(AttributesError::TooLarge));
    }

    /// What a scan finds counts as a change only if this member looks, and the disk had what the entry has.
    #[test]
    fn attributes_that_are_not_applied_or_not_looked_at_are_no_change() {
        let (a, b) = (these(&[("user.a", "1")]).unwrap(), these(&[("user.a", "2")]).unwrap());
        let item = |attributes: Option<&ExtendedAttributes>, unapplied| IndexItem {
            attributes: attributes.cloned(),
            unapplied,
            ..IndexItem::none()
        };
        let none = ExtendedAttributes::default();
        let seen = |these: &ExtendedAttributes| SeenAttributes::These(these.clone());
        assert_eq!(SeenAttributes::NotLooked.unapplied_if_same(&item(Some(&a), false)), Some(true));
        assert_eq!(SeenAttributes::NotLooked.unapplied_if_same(&item(None, false)), Some(false));
        assert_eq!(
            SeenAttributes::Unreadable.unapplied_if_same(&item(Some(&a), false)),
            Some(false)
        );
        assert_eq!(seen(&a).unapplied_if_same(&item(Some(&a), true)), Some(false), "it is there");
        assert_eq!(seen(&none).unapplied_if_same(&item(Some(&a), true)), Some(true));
        assert_eq!(seen(&none).unapplied_if_same(&item(Some(&a), false)), None, "removed");
        assert_eq!(seen(&none).unapplied_if_same(&item(None, false)), Some(false));
        assert_eq!(seen(&b).unapplied_if_same(&item(None, false)), None, "new");
        assert_eq!(seen(&none).after(&item(Some(&a), false), true), (Some(none.clone()), false));
        assert_eq!(seen(&b).after(&item(Some(&a), true), true), (Some(a.clone()), true));
        assert_eq!(seen(&b).after(&item(Some(&a), true), false), (Some(b), false));
        assert_eq!(seen(&none).after(&item(Some(&a), true), false), (None, false));
        assert_eq!(SeenAttributes::NotLooked.after(&item(Some(&a), false), false), (None, false));
    }
}
