//! Extended attributes that other members' changes bring.

use super::*;
use crate::attributes::on_disk::tests::{get, keeps_attributes, remove, set};
use crate::index::tests::attributes;
use crate::{ExtendedAttributes, MAX_ATTRIBUTES};

impl World {
    /// A folder of a member that exchanges attributes; `None` if the disk has none.
    fn with_attributes() -> Option<Self> {
        let mut world = Self::new();
        world.folder.exchange_attributes(true);
        keeps_attributes(world.dir.path()).then_some(world)
    }

    /// Alice gives a path these attributes.
    fn alice_describes(&mut self, path: &str, all: &[(&str, &str)]) {
        self.clock += 1;
        let item = self.theirs.items.get_mut(path.as_bytes()).unwrap();
        item.attributes_changed(attributes(all), ALICE, self.clock);
    }

    fn has(&self, path: &str, all: &[(&str, &str)]) -> bool {
        get(&self.at(path)) == attributes(all)
    }
}

#[test]
fn attributes_of_others_are_put_in_place() {
    let Some(mut world) = World::with_attributes() else { return };
    world.alice_has("d", ItemKind::Directory { mode: 0o555 });
    world.alice_writes("a", "one");
    world.alice_describes("a", &[("user.a", "1"), ("user.b", "")]);
    world.alice_describes("d", &[("user.d", "1")]);
    assert!(world.hear());
    assert!(
        world.has("a", &[("user.a", "1"), ("user.b", "")]) && world.has("d", &[("user.d", "1")])
    );
    assert!(!world.item("a").unapplied && !world.item("d").unapplied);
    assert_eq!(world.folder.state(), world.theirs.state());
    // Attributes alone fetch nothing, and count as one place.
    world.alice_describes("a", &[("user.b", "2")]);
    world.alice_describes("d", &[]);
    let applied = world.apply();
    assert_eq!((applied.put, applied.paths.len(), applied.complete), (2, 2, true));
    assert!(world.has("a", &[("user.b", "2")]) && world.has("d", &[]));
    // New content, permissions and another name keep them.
    world.alice_writes("a", "two");
    assert!(world.hear());
    assert!(world.has("a", &[("user.b", "2")]) && !world.item("a").unapplied);
    let item = world.theirs.items[b"a".as_slice()].clone();
    world.alice_has("a", ItemKind::Gone);
    world.alice_has("b", item.kind);
    world.alice_describes("b", &[("user.b", "2"), ("user.c", "3")]);
    assert!(world.hear());
    assert!(world.has("b", &[("user.b", "2"), ("user.c", "3")]));
    assert_eq!(world.folder.state(), world.theirs.state());
    assert_eq!(world.folder.obstacles.count(), 0);
}

#[test]
fn attributes_that_the_user_changes_meanwhile_stay() {
    let Some(mut world) = World::with_attributes() else { return };
    world.alice_writes("a", "one");
    world.alice_writes("b", "two");
    for path in ["a", "b"] {
        world.alice_describes(path, &[("user.a", "1")]);
    }
    assert!(world.hear());
    set(&world.at("a"), "user.a", "bob's");
    remove(&world.at("b"), "user.a");
    for path in ["a", "b"] {
        world.alice_describes(path, &[("user.a", "2")]);
    }
    assert!(world.hear());
    assert!(world.has("a", &[("user.a", "bob's")]) && world.has("b", &[]));
    let (a, b) = (world.item("a"), world.item("b"));
    assert_eq!(a.attributes, Some(attributes(&[("user.a", "bob's")])));
    assert_eq!((b.attributes, b.described.by), (Some(ExtendedAttributes::default()), BOB));
    // Alice takes them over: they are newer than hers.
    assert!(a.version.has_seen(world.theirs.items[b"a".as_slice()].described));
    assert!(!world.theirs.items[b"a".as_slice()].version.has_seen(a.described));
}

/// A member that does not exchange attributes keeps them for the others, and touches none here.
#[test]
fn attributes_are_kept_for_others_without_being_applied() {
    let Some(mut world) = World::with_attributes() else { return };
    world.folder.exchange_attributes(false);
    world.alice_writes("a", "one");
    world.alice_describes("a", &[("user.a", "1")]);
    assert!(world.hear());
    set(&world.at("a"), "user.mine", "1");
    world.alice_describes("a", &[("user.a", "2")]);
    assert_eq!(world.apply().put, 0);
    assert!(world.has("a", &[("user.mine", "1")]));
    assert!(world.item("a").unapplied);
    assert_eq!(world.folder.state(), world.theirs.state(), "in step all the same");
}

/// Attributes that cannot be set are an obstacle of their path alone: its content comes.
#[test]
fn attributes_that_can_not_be_set_stop_nothing_else() {
    let Some(mut world) = World::with_attributes() else { return };
    // ext4 has no room for so many bytes; other disks take them.
    let large = "x".repeat(MAX_ATTRIBUTES - "user.a".len());
    world.alice_writes("a", "one");
    world.alice_describes("a", &[("user.a", &large)]);
    world.alice_writes("b", "two");
    world.alice_describes("b", &[("user.b", "1")]);
    assert!(world.hear());
    assert_eq!(
        (world.read("a").as_deref(), world.read("b").as_deref()),
        (Some("one"), Some("two"))
    );
    assert!(world.has("b", &[("user.b", "1")]));
    let noted: Vec<_> = world.folder.obstacles.iter().map(|(path, one)| (path, one.kind)).collect();
    match world.item("a").unapplied {
        true => assert_eq!(noted, [(b"a".as_slice(), ObstacleKind::Attributes)]),
        false => assert!(world.has("a", &[("user.a", &large)]) && noted.is_empty()),
    }
    let again = world.apply();
    assert_eq!((again.put, again.complete), (0, true), "it is no change of this member");
    assert_eq!(world.folder.state(), world.theirs.state());
    // New content comes at once, and so do attributes that have room.
    world.alice_writes("a", "three");
    assert!(world.hear());
    assert_eq!(world.read("a").as_deref(), Some("three"));
    world.alice_describes("a", &[("user.a", "small")]);
    assert!(world.hear());
    assert!(world.has("a", &[("user.a", "small")]) && !world.item("a").unapplied);
}
