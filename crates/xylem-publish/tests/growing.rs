//! A growing file under virtual time: when its publisher must be polled.

use std::fs;
use std::time::Duration;

use xylem_base::{Stop, UnixTime, disk};
use xylem_object::{PublisherKey, naming};
use xylem_publish::follow::{Author, FollowOptions, Grower};
use xylem_store::Store;

/// A finished file has no timer: one that is always due would keep its loop awake forever.
#[test]
fn after_the_last_checkpoint_nothing_is_due() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    fs::write(&path, b"some bytes").unwrap();
    let store = Store::open(disk(), &dir.path().join("store")).unwrap();
    let key = PublisherKey::from_bytes(&[7; 32]);
    let name = |file: &[u8]| naming::default_name(&key.public(), file);
    let every = Duration::from_secs(1);
    let options = FollowOptions { every_bytes: 1 << 20, every, input: None };
    let author = Author { name: &name, key: &key };
    let (wall, stop) = (UnixTime::new(every), Stop::new());
    let mut grower =
        Grower::open(&store, &path, &options, &author, wall, &stop, &mut |_| {}).unwrap();
    let mut now = Duration::ZERO;
    for _ in 0..3 {
        grower.poll(now, wall, &mut |_| {}).unwrap();
        let due = grower.poll_timeout().expect("it is read again");
        assert!(due > now, "{due:?} at {now:?}");
        now = due;
    }
    assert!(!grower.may_end(now, 1), "the last checkpoint is made first");
    grower.poll(now, wall, &mut |_| {}).unwrap();
    assert_eq!(grower.poll_timeout(), None);
    assert!(grower.may_end(now, 0));
    assert_eq!(grower.poll_timeout(), None);
}
