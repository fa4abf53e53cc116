//! Fetched content is served with its publisher's signature after the publisher's process was killed: by `get --seed`,
//! also after a restart, and by `share` of the copy.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use serde_json::Value;

use crate::common::fetching::{Get, from};
use crate::common::{Share, assert_exit, file, get, get_json, noise, stderr, text, until, xylem};

/// A published file or folder and its ticket, the publisher of which is then killed, and paths for the other programs.
struct Place {
    dir: tempfile::TempDir,
    source: PathBuf,
    share: Option<Share>,
    ticket: String,
}

impl Place {
    fn of(make: impl FnOnce(&Path) -> PathBuf) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let source = make(dir.path());
        let share = Share::start(&source, &dir.path().join("store-publisher"));
        let ticket = share.ticket.clone();
        Self { dir, source, share: Some(share), ticket }
    }

    fn file(seed: u64) -> Self {
        Self::of(|dir| file(dir, "source", &noise(3_000_000, seed)))
    }

    /// Files of every size that is treated differently, and links.
    fn directory(seed: u64) -> Self {
        Self::of(|dir| {
            let source = dir.join("source");
            fs::create_dir_all(source.join("sub/empty")).unwrap();
            for (i, size) in [0, 1, 8192, 8193, 65_536, 65_537, 700_000].into_iter().enumerate() {
                file(&source.join("sub"), &format!("{size}"), &noise(size, seed + i as u64));
            }
            file(&source, "left.tmp", &noise(100_000, seed));
            std::os::unix::fs::symlink("sub/1", source.join("link")).unwrap();
            fs::hard_link(source.join("sub/8193"), source.join("another")).unwrap();
            source
        })
    }

    fn publisher_dies(&mut self) {
        drop(self.share.take());
    }

    fn store(&self, who: &str) -> PathBuf {
        self.dir.path().join(format!("store-{who}"))
    }

    /// The folder of one getter.
    fn folder(&self, who: &str) -> PathBuf {
        let into = self.dir.path().join(who);
        fs::create_dir_all(&into).unwrap();
        into
    }

    fn out(&self, who: &str) -> PathBuf {
        self.folder(who).join("source")
    }

    fn seed(&self, who: &str, more: &[&str]) -> Get {
        let more = [&["--seed", "--listen", "127.0.0.1"], more].concat();
        Get::start(&self.store(who), &self.ticket, &self.folder(who), &more)
    }

    /// Fetches to the end from the peers that a ticket names.
    fn gets(&self, who: &str, ticket: &str) {
        let into = self.folder(who);
        assert_exit(&get(&self.store(who), &[ticket, "-o", text(&into), "--no-serve"]), 0);
        assert_eq!(tree_sum(&self.out(who)), tree_sum(&self.source), "{who}");
    }
}

fn tree_sum(path: &Path) -> String {
    let tree = if path.is_dir() { &["--tree"][..] } else { &[] };
    let output = xylem(path).args(["sum", "--no-names"]).args(tree).arg(path).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn seed_outlives_its_publisher(mut place: Place) {
    let mut seed = place.seed("seed", &[]);
    seed.done();
    let ticket = seed.own_ticket();
    assert_ne!(ticket, place.ticket);
    place.publisher_dies();
    place.gets("first", &ticket);
    // Started again, the seed needs no peer, and serves at the same place.
    seed.kill();
    let again = place.seed("seed", &[]);
    assert_eq!(again.done()["already_complete"], true);
    assert_eq!(again.own_ticket(), ticket);
    place.gets("second", &ticket);
    let (key, address) = again.address();
    let mut third = Get::start(
        &place.store("third"),
        &place.ticket,
        &place.folder("third"),
        &["--from", &key, "--no-serve"],
    );
    assert_eq!(third.wait(), Some(0), "the publisher's ticket, the seed's address");
    assert!(from(&third.done(), &address) > 0);
}

#[test]
fn a_seed_of_a_file_outlives_its_publisher_and_restarts() {
    seed_outlives_its_publisher(Place::file(1));
}

#[test]
fn a_seed_of_a_directory_outlives_its_publisher_and_restarts() {
    seed_outlives_its_publisher(Place::directory(2));
}

#[test]
fn a_complete_copy_needs_no_peer() {
    let mut place = Place::directory(3);
    place.gets("here", &place.ticket.clone());
    place.publisher_dies();
    let into = place.folder("here");
    let arguments = [&place.ticket, "-o", text(&into)];
    assert_exit(&get(&place.store("here"), &arguments), 0);
    fs::write(place.out("here").join("added"), b"x").unwrap();
    assert_exit(&get(&place.store("here"), &arguments), 2);
}

/// The fetch of a user who runs the same command again, when no peer is left.
fn overwrites_alone(place: &Place, more: &[&str]) -> Value {
    let into = place.folder("here");
    let arguments = [&[&place.ticket, "-o", text(&into), "--overwrite"], more].concat();
    let (code, done) = get_json(&place.store("here"), &arguments);
    assert_eq!((code, &done["fetched"]), (Some(0), &0.into()), "{done}");
    done
}

#[test]
fn overwriting_a_complete_copy_needs_no_peer() {
    for mut place in [Place::file(8), Place::directory(9)] {
        place.gets("here", &place.ticket.clone());
        place.publisher_dies();
        let (copy, sum) = (place.out("here"), tree_sum(&place.out("here")));
        let one = if copy.is_dir() { copy.join("sub/700000") } else { copy.clone() };
        let before = fs::metadata(&one).unwrap();
        fs::set_permissions(&one, Permissions::from_mode(0o600)).unwrap();
        fs::File::open(&one).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        overwrites_alone(&place, &[]);
        // Mode and time are the published ones again, in the same file.
        let after = fs::metadata(&one).unwrap();
        assert_eq!(
            (after.mode(), after.modified().unwrap()),
            (before.mode(), before.modified().unwrap())
        );
        assert_eq!((after.ino(), tree_sum(&copy)), (before.ino(), sum.clone()));
        if copy.is_dir() {
            // What the publisher lacks stays, or goes, as with a peer.
            fs::write(copy.join("mine"), b"x").unwrap();
            overwrites_alone(&place, &[]);
            assert!(copy.join("mine").exists());
            overwrites_alone(&place, &["--delete"]);
            assert_eq!((copy.join("mine").exists(), tree_sum(&copy)), (false, sum));
        }
        let into = place.folder("here");
        let dry = ["--overwrite", "--dry-run", "-o", text(&into), &place.ticket];
        assert_exit(&get(&place.store("here"), &dry), 0);
        // With a wrong byte a peer is needed, and its absence is reported as ever.
        let mut bytes = fs::read(&one).unwrap();
        bytes[100] ^= 1;
        fs::write(&one, bytes).unwrap();
        let asked = ["--overwrite", "--timeout", "2", "-o", text(&into), &place.ticket];
        let refused = get(&place.store("here"), &asked);
        assert_exit(&refused, 3);
        assert!(stderr(&refused).contains("no peer answered"), "{}", stderr(&refused));
        place.share = Some(Share::start(&place.source, &place.store("publisher")));
        let from = place.share.as_ref().unwrap().link.clone();
        let asked = ["--overwrite", "--from", &from, "-o", text(&into), &place.ticket];
        assert_exit(&get(&place.store("here"), &asked), 0);
        assert_eq!(tree_sum(&copy), tree_sum(&place.source));
    }
}

#[test]
fn a_seed_s_ticket_is_shown_to_people() {
    let place = Place::file(4);
    let (store, out) = (place.store("seed"), place.folder("seed"));
    let mut command = xylem(&store);
    command.args(["get", &place.ticket, "-o", text(&out), "--seed", "--listen", "127.0.0.1"]);
    let said = place.dir.path().join("said");
    let log = fs::File::create(&said).unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let mut ticket = None;
    until("a ticket", || {
        let text = fs::read_to_string(&said).unwrap();
        ticket = text.lines().find_map(|l| Some(l.strip_prefix("Ticket: ")?.to_owned()));
        ticket.is_some() && text.contains("Serving it")
    });
    place.gets("other", &ticket.unwrap());
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// Shares the copy that `who` has fetched.
fn share_on(place: &Place, who: &str, more: &[&str]) -> Share {
    Share::with(&place.out(who), &place.store(who), more)
}

fn served_on_by_share(mut place: Place) {
    place.gets("friend", &place.ticket.clone());
    let publisher = place.share.as_ref().unwrap().shared.clone();
    place.publisher_dies();
    let on = share_on(&place, "friend", &[]);
    assert_eq!(on.shared["name"], publisher["name"]);
    assert_eq!(on.shared["root"], publisher["root"]);
    assert!(on.shared["signed_by"].is_string(), "{}", on.shared);
    place.gets("first", &on.ticket);
    // A copy that came by the second ticket can be shared in turn.
    drop(on);
    let on = share_on(&place, "first", &[]);
    assert_eq!(on.shared["name"], publisher["name"]);
    place.gets("second", &on.ticket);
    drop(on);
    // With an own name or key it is an own publication.
    let own = share_on(&place, "first", &["--as", "/mine"]);
    assert!(own.shared["signed_by"].is_null());
    place.gets("third", &own.ticket);
}

#[test]
fn a_fetched_file_is_shared_with_its_publisher_s_signature() {
    served_on_by_share(Place::file(5));
}

#[test]
fn a_fetched_directory_is_shared_with_its_publisher_s_signature() {
    served_on_by_share(Place::directory(6));
}

#[test]
fn the_publisher_of_a_shared_copy_is_shown_to_people() {
    let place = Place::file(7);
    place.gets("friend", &place.ticket);
    let said = |place: &Place| {
        let log = place.dir.path().join("said");
        let mut command = xylem(&place.store("friend"));
        command.args(["-v", "share", "--listen", "127.0.0.1:0"]).arg(place.out("friend"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        until("the share", || fs::read_to_string(&log).unwrap().contains("Listening on"));
        child.kill().unwrap();
        child.wait().unwrap();
        fs::read_to_string(&log).unwrap()
    };
    assert!(said(&place).contains("Serving it with the signature of"));
    // A changed copy is shared as an own publication only.
    fs::write(place.out("friend"), b"changed").unwrap();
    let told = said(&place);
    assert!(told.contains("it has changed since it was fetched"), "{told}");
    assert!(!told.contains("with the signature of"), "{told}");
    assert!(!said(&place).contains("changed since it was fetched"), "it is told once");
}

#[test]
fn a_copy_with_exclusions_cannot_be_served() {
    let place = Place::directory(8);
    let into = place.folder("friend");
    let left = ["-o", text(&into), "--exclude", "*.tmp"];
    assert_exit(&get(&place.store("friend"), &[&[&*place.ticket][..], &left].concat()), 0);
    let on = share_on(&place, "friend", &[]);
    assert!(on.shared["signed_by"].is_null());
    assert_ne!(on.shared["root"], place.share.as_ref().unwrap().shared["root"]);
}

#[cfg(unix)]
#[test]
fn decayed_bytes_are_not_sent() {
    use std::os::unix::fs::FileExt;

    use crate::common::decaying::decay;

    let mut place = Place::file(9);
    place.gets("friend", &place.ticket.clone());
    place.publisher_dies();
    let out = place.out("friend");
    let bytes = fs::read(&out).unwrap();
    decay(&place.store("friend"), &out, |file| {
        file.write_all_at(&[bytes[2_000_000] ^ 1], 2_000_000).unwrap();
    });
    let on = share_on(&place, "friend", &[]);
    assert!(on.shared["signed_by"].is_string());
    let into = place.folder("other");
    let more = ["--timeout", "2", "--no-serve"];
    let mut other = Get::start(&place.store("other"), &on.ticket, &into, &more);
    assert_eq!(other.wait(), Some(3));
    assert!(!other.has("peer_misbehaved"));
}

#[test]
fn trees_that_were_lost_are_made_again() {
    let mut place = Place::directory(10);
    place.gets("friend", &place.ticket.clone());
    place.publisher_dies();
    // The tree as a killed and resumed fetch may leave it: with holes, or empty.
    let objects = fs::read_dir(place.store("friend").join("objects")).unwrap();
    for object in objects.map(|entry| entry.unwrap().path()) {
        match object.extension().unwrap().to_str() {
            Some("files") => {
                let bytes = fs::metadata(&object).unwrap().len() as usize;
                fs::write(&object, vec![0; bytes]).unwrap();
            }
            Some("outboard") => fs::remove_file(&object).unwrap(),
            _ => {}
        }
    }
    let on = share_on(&place, "friend", &[]);
    assert!(on.shared["signed_by"].is_string());
    place.gets("first", &on.ticket);
}
