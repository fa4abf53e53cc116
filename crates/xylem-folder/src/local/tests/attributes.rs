//! Scans of folders with files that have extended attributes.

use super::*;
use crate::ExtendedAttributes;
use crate::attributes::on_disk::tests::{get, keeps_attributes, remove, set};
use crate::index::tests::attributes;
use crate::obstacles::ObstacleKind;

impl World {
    /// A folder with a file and a directory; `None` if the disk has no attributes.
    fn with_attributes() -> Option<Self> {
        let mut world = Self::new();
        world.folder.exchange_attributes(true);
        world.write("d/a", "one");
        keeps_attributes(&world.at("")).then_some(world)
    }

    fn known(&self, path: &str) -> Option<ExtendedAttributes> {
        self.item(path).unwrap().attributes
    }
}

#[test]
fn a_scan_notices_attributes_that_are_set_changed_and_removed() {
    let Some(mut world) = World::with_attributes() else { return };
    world.look(0);
    assert_eq!((world.known("d"), world.known("d/a")), (None, None));
    let state = world.folder.state();
    set(&world.at("d/a"), "user.a", "1");
    set(&world.at("d"), "user.d", "");
    world.look(60);
    assert_ne!(world.folder.state(), state);
    assert_eq!(world.known("d/a"), Some(attributes(&[("user.a", "1")])));
    assert_eq!(world.known("d"), Some(attributes(&[("user.d", "")])));
    let before = world.item("d/a").unwrap();
    assert_ne!(before.described, before.content);
    world.look(60);
    assert_eq!(world.item("d/a"), Some(before.clone()), "nothing has changed");
    set(&world.at("d/a"), "user.a", "2");
    world.look(60);
    let after = world.item("d/a").unwrap();
    assert_eq!(after.attributes, Some(attributes(&[("user.a", "2")])));
    assert!(after.content == before.content && after.described > before.described);
    remove(&world.at("d/a"), "user.a");
    world.look(60);
    assert_eq!(world.known("d/a"), Some(attributes(&[])), "removed, which others have to learn");
    fs::remove_file(world.at("d/a")).unwrap();
    world.look(60);
    assert_eq!(world.known("d/a"), None);
}

/// A member that does not exchange attributes changes content and mode, and others keep their attributes.
#[test]
fn a_scan_without_the_option_keeps_what_others_have() {
    let Some(mut world) = World::with_attributes() else { return };
    set(&world.at("d/a"), "user.a", "1");
    world.look(0);
    let state = world.folder.state();
    world.folder.exchange_attributes(false);
    set(&world.at("d/a"), "user.a", "2");
    world.look(60);
    assert_eq!(world.folder.state(), state, "nothing has changed");
    // An editor writes a new file, without attributes, and renames it.
    world.write("new", "two");
    fs::rename(world.at("new"), world.at("d/a")).unwrap();
    world.look(60);
    let item = world.item("d/a").unwrap();
    assert_eq!(item.kind.root(), Some(xylem_hash::hash(b"two")));
    assert_eq!((item.attributes, item.unapplied), (Some(attributes(&[("user.a", "1")])), true));
    // With the option again, what the group has is put in place, and is no change.
    let state = world.folder.state();
    world.folder.exchange_attributes(true);
    world.look(60);
    assert_eq!(get(&world.at("d/a")), attributes(&[("user.a", "1")]));
    assert!(!world.item("d/a").unwrap().unapplied);
    assert_eq!(world.folder.state(), state);
}

/// A disk that keeps no attributes is one obstacle of the folder, as long as it keeps none.
#[test]
fn a_disk_without_attributes_is_noted_once() {
    let Some(mut world) = World::with_attributes() else { return };
    world.look(0);
    let refused = std::io::Error::from(std::io::ErrorKind::Unsupported);
    for _ in 0..2 {
        let mut scan = AttributeScan::default();
        for path in ["d", "d/a"] {
            scan.fail(&*xylem_base::disk(), &world.at(""), path.as_bytes(), &refused);
        }
        world.folder.end_attribute_scan(scan, world.now_ms);
        let noted: Vec<_> =
            world.folder.obstacles.iter().map(|(path, one)| (path, one.kind)).collect();
        assert_eq!(noted, [(b".".as_slice(), ObstacleKind::Attributes)]);
    }
    world.look(60);
    assert_eq!(world.folder.obstacles.count(), 0);
    assert!(!world.is_gone("d/a"));
}

/// Another file system at a directory of the folder may keep none; the rest of the folder has them.
#[test]
fn a_mounted_disk_without_attributes_is_an_obstacle_of_its_own() {
    let Some(mut world) = World::with_attributes() else { return };
    world.look(0);
    let mut scan = AttributeScan::default();
    let refused = std::io::Error::from(std::io::ErrorKind::Unsupported);
    scan.fail(&*xylem_base::disk(), Path::new("/"), b"proc/sys", &refused);
    world.folder.end_attribute_scan(scan, world.now_ms);
    let noted: Vec<_> = world.folder.obstacles.iter().map(|(path, _)| path.to_vec()).collect();
    assert_eq!(noted, [b"proc/sys"]);
}

/// Attributes of very many files leave room in the index for the files themselves.
#[test]
fn attributes_of_a_whole_folder_are_bounded() {
    let large = "x".repeat(4_000);
    let mut scan = AttributeScan::default();
    let taken =
        (0..100_000).take_while(|_| scan.count(attributes(&[("user.a", &large)])).is_some());
    assert_eq!(taken.count(), (64 << 20) / 4_006);
    let mut world = World::new();
    world.folder.end_attribute_scan(scan, world.now_ms);
    let why = &world.folder.obstacles.get(b".").unwrap().why;
    assert!(why.contains("64 MiB"), "{why}");
}

#[test]
fn attributes_that_are_too_large_are_an_obstacle_of_their_file() {
    let Some(mut world) = World::with_attributes() else { return };
    world.write("b", "two");
    set(&world.at("b"), "user.b", "1");
    world.look(0);
    let state = world.folder.state();
    let name = |n: usize| format!("user.{n}{}", "x".repeat(200));
    let set_more = |n: usize| {
        rustix::fs::lsetxattr(
            world.at("d/a"),
            &*name(n),
            &[0; 500],
            rustix::fs::XattrFlags::empty(),
        )
    };
    if (0..8).any(|n| set_more(n).is_err()) {
        // This disk keeps no more than are exchanged.
        return;
    }
    world.look(60);
    let obstacle = world.folder.obstacles.get(b"d/a").unwrap();
    assert_eq!(obstacle.kind, ObstacleKind::Attributes);
    assert!(obstacle.why.contains("4096"), "{}", obstacle.why);
    assert!(world.folder.attributes_due_ms().is_some());
    assert_eq!((world.folder.state(), world.known("d/a")), (state, None), "the file travels");
    (1..8).for_each(|n| remove(&world.at("d/a"), &name(n)));
    world.look(600);
    assert_eq!((world.folder.obstacles.count(), world.folder.attributes_due_ms()), (0, None));
    assert!(world.known("d/a").is_some());
}

/// Prints what reading attributes adds to a scan of 10,000 files (docs/spec/sync.md, "Extended attributes").
#[test]
#[ignore = "a measurement"]
fn attributes_cost() {
    let Some(mut world) = World::with_attributes() else { return };
    for n in 0..10_000 {
        world.write(&format!("{}/{n}", n % 100), &n.to_string());
    }
    world.look(0);
    let measure = |what: &str, chosen: bool, world: &mut World| {
        world.folder.exchange_attributes(chosen);
        world.look(60);
        let mut all: Vec<Duration> = (0..9)
            .map(|_| {
                let began = std::time::Instant::now();
                world.look(60);
                began.elapsed()
            })
            .collect();
        all.sort_unstable();
        println!("{what}: {:?} (from {:?} to {:?})", all[4], all[0], all[8]);
    };
    measure("without the choice", false, &mut world);
    measure("with it, no file has attributes", true, &mut world);
    for n in 0..10_000 {
        set(&world.at(&format!("{}/{n}", n % 100)), "user.a", "0123456789abcdef");
    }
    measure("with it, each file has one", true, &mut world);
    measure("without the choice, each file has one", false, &mut world);
}
