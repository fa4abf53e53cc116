//! `share --for`, with the real program. A named recipient can read the content; another holder of the ticket or the
//! bytes can't. Unchanged files are not transferred again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::serving::{certificate, run};
use crate::common::{
    Share, assert_exit, file, finish, get, get_json, noise, stderr, sum, text, until, xylem,
};
use xylem_base::{UnixTime, disk};
use xylem_files::{Existing, Output, SaveOptions, record, signed};
use xylem_object::{PublisherKey, Ticket, naming, sign_manifest};
use xylem_store::Store;

/// The card of this store, in a file.
fn card(dir: &Path, store: &Path) -> PathBuf {
    let mut command = xylem(store);
    command.args(["inbox", "card"]);
    let output = finish(command);
    assert_exit(&output, 0);
    let path = dir.join(format!("{}.card", store.file_name().unwrap().to_str().unwrap()));
    fs::write(&path, &output.stdout).unwrap();
    path
}

/// A share for the recipients with these cards.
fn share(path: &Path, store: &Path, cards: &[&Path]) -> Share {
    let more: Vec<&str> = cards.iter().flat_map(|card| ["--for", text(card)]).collect();
    Share::with(path, store, &more)
}

/// A folder with entries of every kind.
fn folder(dir: &Path) -> PathBuf {
    let at = dir.join("contracts");
    fs::create_dir_all(at.join("2026/empty")).unwrap();
    fs::write(at.join("2026/large.bin"), noise(3_000_001, 1)).unwrap();
    fs::write(at.join("2026/twin.bin"), noise(3_000_001, 1)).unwrap();
    fs::write(at.join("small.txt"), b"names and sums").unwrap();
    fs::write(at.join("segment.bin"), noise(8_192, 2)).unwrap();
    fs::write(at.join("nothing"), b"").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("small.txt", at.join("link")).unwrap();
    at
}

/// All files below a folder.
fn files_of(at: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        match path.symlink_metadata().unwrap().is_dir() {
            true => files.extend(files_of(&path)),
            false => files.push(path),
        }
    }
    files
}

/// Contents of the files of a folder, by path.
fn content(at: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files_of(at)
        .into_iter()
        .map(|path| (path.strip_prefix(at).unwrap().into(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn a_folder_for_recipients_is_read_by_them_alone() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let bob = card(dir.path(), &at("bob"));
    let shared = folder(dir.path());
    let share = share(&shared, &at("alice"), &[&bob]);

    let out = at("out");
    fs::create_dir(&out).unwrap();
    let output = get(&at("bob"), &[&share.ticket, "-o", text(&out)]);
    assert_exit(&output, 0);
    assert_eq!(content(&out.join("contracts")), content(&shared));
    assert_eq!(tree(&out.join("contracts")), tree(&shared), "modes, times, links, empty folders");
    let left: Vec<_> = fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["contracts"], "the ciphertext does not stay");

    // The sharer may read it, too.
    let own = at("own");
    fs::create_dir(&own).unwrap();
    assert_exit(&get(&at("alice"), &[&share.ticket, "-o", text(&own)]), 0);

    // Eve has the ticket alone.
    let nowhere = at("eve-out");
    fs::create_dir(&nowhere).unwrap();
    let refused = get(&at("eve"), &[&share.ticket, "-o", text(&nowhere)]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("not for you"), "{}", stderr(&refused));
    assert_eq!(fs::read_dir(&nowhere).unwrap().count(), 0, "nothing stays of what she can't read");
}

/// What a disk did to the listings of an earlier fetch costs nothing but their place.
#[test]
fn damaged_listings_in_the_store_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let bob = card(dir.path(), &at("bob"));
    let shared = folder(dir.path());
    let share = share(&shared, &at("alice"), &[&bob]);
    assert_exit(&get(&at("bob"), &[&share.ticket, "-o", text(&at("one"))]), 0);
    let mut damaged = 0;
    for path in files_of(&at("bob").join("objects")) {
        if path.extension().is_some_and(|kind| kind == "listing") {
            fs::write(path, b"damaged").unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 0);
    assert_exit(&get(&at("bob"), &[&share.ticket, "-o", text(&at("two"))]), 0);
    assert_eq!(content(&at("two")), content(&shared));
}

/// A certificate names a recipient as well as a card does: the holder of its key can read, under a passphrase or not.
#[test]
fn the_holder_of_a_certificate_s_key_can_read() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let home = |name: &str| {
        let home = dir.join(name);
        fs::create_dir_all(&home).unwrap();
        home
    };
    let new = |who: &str, more: &[&str]| {
        let (at, identity) = (home(who), format!("/{who}"));
        assert_exit(&run(&at, &[&["key", "new", &identity], more].concat()), 0);
        certificate(&at, &[&identity], "own.cert")
    };
    let phrase = file(dir, "phrase", b"correct horse\n");
    let passphrase = ["--passphrase-file", text(&phrase)];
    let bob = new("bob", &[]);
    let carol = new("carol", &[&["--passphrase"], &passphrase[..]].concat());
    new("eve", &[]);
    let path = file(dir, "note", &noise(30_000, 5));
    let whom = ["--for", &bob, "--for", &carol];
    let share = Share::with(&path, &home("alice"), &whom);
    let get = |who: &str, more: &[&str]| {
        run(&home(who), &[&["get", &share.ticket, "-o", "got"], more].concat())
    };
    for (who, more) in [("bob", &[][..]), ("carol", &passphrase)] {
        assert_exit(&get(who, more), 0);
        assert_eq!(fs::read(home(who).join("got")).unwrap(), fs::read(&path).unwrap(), "{who}");
    }
    fs::remove_file(home("carol").join("got")).unwrap();
    let unasked = get("carol", &[]);
    assert_exit(&unasked, 2);
    assert!(stderr(&unasked).contains("--passphrase-file"), "{}", stderr(&unasked));
    let refused = get("eve", &[]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("not for you"), "{}", stderr(&refused));
    for who in ["carol", "eve"] {
        assert!(!home(who).join("got").exists(), "{who}");
    }
}

/// `verify` of the decrypted files, according to the encrypted listing.
#[test]
fn decrypted_files_are_verified() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let bob = card(dir.path(), &at("bob"));
    let folder = folder(dir.path());
    let single = file(dir.path(), "note", &noise(30_000, 6));
    for (source, inside) in [(folder, "small.txt"), (single, "")] {
        let share = share(&source, &at("alice"), &[&bob]);
        let out = at("out").join(inside.len().to_string());
        fs::create_dir_all(out.parent().unwrap()).unwrap();
        assert_exit(&get(&at("bob"), &[&share.ticket, "-o", text(&out)]), 0);
        let out = if out.join("contracts").exists() { out.join("contracts") } else { out };
        let verify = |who: &str| {
            let mut command = xylem(&at(who));
            command.args(["verify", text(&out), &share.ticket]);
            finish(command)
        };
        let good = verify("bob");
        assert_exit(&good, 0);
        assert!(stderr(&good).contains("it is what the ticket names"), "{}", stderr(&good));
        assert_exit(&verify("eve"), 2);
        let damaged = if inside.is_empty() { out.clone() } else { out.join(inside) };
        fs::write(&damaged, b"other").unwrap();
        assert_exit(&verify("bob"), 1);
        assert_eq!(fs::read(&damaged).unwrap(), b"other", "nothing is changed");
        let beside = fs::read_dir(out.parent().unwrap()).unwrap();
        let hidden = |e: &fs::DirEntry| e.file_name().to_string_lossy().starts_with(".xylem");
        assert_eq!(beside.filter(|e| hidden(e.as_ref().unwrap())).count(), 0, "nothing stays");
    }
}

/// Certificates that can't be encrypted to: of another algorithm, and of another time.
#[test]
fn an_unfit_certificate_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert_exit(&run(dir, &["key", "new", "/bob", "--type", "ecdsa"]), 0);
    let ecdsa = certificate(dir, &["/bob"], "ecdsa.cert");
    let wire = |from: u64, to: u64| {
        let name = "/carol/KEY/1".parse().unwrap();
        let signer = xylem_trust::Signer::ed25519(&[7; 32], name);
        let validity = xylem_trust::ValidityPeriod { not_before_ms: from, not_after_ms: to };
        xylem_trust::self_signed(&signer, 1, validity).unwrap()
    };
    let far = 4_000_000_000_000;
    let early = file(dir, "early.cert", &wire(far, far + 1_000));
    let late = file(dir, "late.cert", &wire(1_000, 2_000));
    let path = file(dir, "note", b"a note");
    for (whom, why) in
        [(&*ecdsa, "can only sign"), (text(&early), "not valid yet"), (text(&late), "any more")]
    {
        let refused = run(dir, &["share", text(&path), "--for", whom]);
        assert_exit(&refused, 2);
        assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    }
}

/// `xylem sum --tree` of a folder: names, kinds, modes, times and content.
fn tree(at: &Path) -> String {
    let mut command = xylem(Path::new("/nonexistent"));
    command.args(["sum", "--tree", "--no-names", text(at)]);
    let output = finish(command);
    assert_exit(&output, 0);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_mirror_serves_it_and_learns_no_name_or_byte() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let bob = card(dir.path(), &at("bob"));
    let shared = folder(dir.path());
    let share = share(&shared, &at("alice"), &[&bob]);

    // A mirror fetches the ciphertext and serves it; the publisher is gone.
    let kept = at("kept");
    assert_exit(&get(&at("mirror"), &[&share.ticket, "--ciphertext", "-o", text(&kept)]), 0);
    drop(share);
    for path in files_of(&kept) {
        let bytes = fs::read(&path).unwrap();
        let name = path.strip_prefix(&kept).unwrap().to_str().unwrap().to_owned();
        for secret in ["contracts", "2026", "small", "large"] {
            assert!(!name.contains(secret), "{name}");
        }
        let plain: [&[u8]; 3] = [b"names and sums", b"small.txt", &noise(64, 1)];
        for plain in plain {
            assert!(!bytes.windows(plain.len()).any(|window| window == plain), "{name}");
        }
    }
    let mirror = Share::start(&kept, &at("mirror"));
    let output = get(&at("bob"), &[&mirror.ticket, "-o", text(&at("out"))]);
    assert_exit(&output, 0);
    assert_eq!(content(&at("out")), content(&shared));
}

/// A mirror has all of the ciphertext and can sign it with its own key, as a publication of its own. A recipient is
/// then refused.
#[test]
fn content_that_a_mirror_signs_as_its_own_is_unreadable() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let bob = card(dir.path(), &at("bob"));
    let share = share(&folder(dir.path()), &at("alice"), &[&bob]);
    let kept = at("kept");
    assert_exit(&get(&at("mirror"), &[&share.ticket, "--ciphertext", "-o", text(&kept)]), 0);
    let ticket: Ticket = share.ticket.parse().unwrap();
    drop(share);

    let store = Store::open(disk(), &at("mirror")).unwrap();
    let signed = signed::find(&store, &ticket.root, &ticket.publisher, None).unwrap();
    let secret = xylem_keys::load_or_create(&at("mirror").join("keys").join("publisher")).unwrap();
    let own = PublisherKey::from_bytes(&secret);
    let object = naming::default_name(&own.public(), &signed.manifest.file_name);
    let prefix = naming::versioned(object.as_ref(), 1_000).unwrap();
    let packet = sign_manifest(&signed.manifest, prefix.as_ref(), &own).unwrap();
    let ticket = Ticket { publisher: own.public(), ..ticket };
    let save = SaveOptions::to(Output::At(kept.clone()), Existing::Refuse);
    let fetched = record::FetchedManifest { manifest: &signed.manifest, packet: &packet };
    let never = &mut |event| panic!("{event:?}");
    record::keep_fetched(&store, &save, &ticket, fetched, Some(&kept), UnixTime::default(), never);

    let mirror = Share::start(&kept, &at("mirror"));
    let theirs: Ticket = mirror.ticket.parse().unwrap();
    assert_eq!((theirs.publisher, theirs.root), (own.public(), ticket.root), "it is served as its");
    let refused = get(&at("bob"), &[&mirror.ticket, "-o", text(&at("out"))]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("not for you"), "{}", stderr(&refused));
    assert!(!at("out").exists());
}

/// Two folders with files of different sizes, all in one size class: a mirror sees the same for both.
#[test]
fn padded_sizes_reveal_little() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let bob = card(dir.path(), &at("bob"));
    let carried = |name: &str, sizes: [usize; 4]| {
        let source = at(name);
        fs::create_dir(&source).unwrap();
        for (n, size) in sizes.into_iter().enumerate() {
            fs::write(source.join(format!("{name}-{n}")), noise(size, n as u64 + 1)).unwrap();
        }
        let share = Share::with(&source, &at("alice"), &["--for", text(&bob), "--pad"]);
        let out = at(&format!("out-{name}"));
        fs::create_dir(&out).unwrap();
        assert_exit(&get(&at("bob"), &[&share.ticket, "-o", text(&out)]), 0);
        let there = out.join(name);
        assert_eq!(content(&there), content(&source));
        // Files that exist are not fetched again.
        fs::remove_file(there.join(format!("{name}-0"))).unwrap();
        let (code, done) = get_json(&at("bob"), &[&share.ticket, "--overwrite", "-o", text(&out)]);
        assert_eq!(code, Some(0));
        assert!(done["fetched"].as_u64().unwrap() < 100_000, "{done}");
        assert_eq!(content(&there), content(&source));
        let kept = at(&format!("kept-{name}"));
        assert_exit(&get(&at("mirror"), &[&share.ticket, "--ciphertext", "-o", text(&kept)]), 0);
        let mut sizes: Vec<u64> =
            files_of(&kept).iter().map(|path| fs::metadata(path).unwrap().len()).collect();
        sizes.sort_unstable();
        sizes
    };
    let one = carried("a", [10, 8_192, 70_001, 1_998_000]);
    let other = carried("the-other-one", [4_000, 8_190, 69_700, 1_995_000]);
    assert_eq!(one, other);
    // A single file, too.
    let path = file(dir.path(), "note", &noise(9_000, 9));
    let share = Share::with(&path, &at("alice"), &["--for", text(&bob), "--pad"]);
    assert_exit(&get(&at("bob"), &[&share.ticket, "-o", text(&at("single"))]), 0);
    assert_eq!(fs::read(at("single")).unwrap(), fs::read(&path).unwrap());
    let mut command = xylem(&at("alice"));
    command.args(["share", text(&path), "--pad"]);
    assert_exit(&finish(command), 2);
}

#[test]
fn a_file_for_a_recipient_decrypts_to_itself() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let bob = card(dir.path(), &at("bob"));
    for len in [0, 1, 8_191, 8_192, 8_193, 5_000_000] {
        let path = file(dir.path(), &format!("{len}.bin"), &noise(len, 3));
        let share = share(&path, &at("alice"), &[&bob]);
        let out = at(&format!("out-{len}"));
        let output = get(&at("bob"), &[&share.ticket, "-o", text(&out)]);
        assert_exit(&output, 0);
        assert_eq!(fs::read(&out).unwrap(), fs::read(&path).unwrap(), "{len} bytes");
        assert_eq!(common::printed_root(&output), sum(&path), "what `sum` prints of it");
        // Again where the files exist: nothing is fetched or replaced.
        assert_exit(&get(&at("bob"), &[&share.ticket, "-o", text(&out)]), 0);
        fs::write(&out, b"mine").unwrap();
        assert_exit(&get(&at("bob"), &[&share.ticket, "-o", text(&out)]), 2);
        assert_eq!(fs::read(&out).unwrap(), b"mine");
        assert_exit(&get(&at("bob"), &[&share.ticket, "--overwrite", "-o", text(&out)]), 0);
        assert_eq!(fs::read(&out).unwrap(), fs::read(&path).unwrap());
    }
}

#[test]
fn recipients_change_without_transfer_and_removed_ones_read_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (bob, carol) = (card(dir.path(), &at("bob")), card(dir.path(), &at("carol")));
    let shared = folder(dir.path());
    let first = share(&shared, &at("alice"), &[&bob]);
    let (kept, out) = (at("kept"), at("out"));
    fs::create_dir(&kept).unwrap();
    assert_exit(&get(&at("mirror"), &[&first.ticket, "--ciphertext", "-o", text(&kept)]), 0);
    assert_exit(&get(&at("bob"), &[&first.ticket, "-o", text(&out)]), 0);
    drop(first);

    // Shared for carol too: the mirror fetches the list of recipients, and no file.
    let both = share(&shared, &at("alice"), &[&bob, &carol]);
    let again = [&both.ticket, "--ciphertext", "--overwrite", "-o", text(&kept)];
    let (code, done) = get_json(&at("mirror"), &again);
    assert_eq!(code, Some(0));
    assert!(done["fetched"].as_u64().unwrap() < 4_096, "{done}");
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 1, "one version replaces the other");
    let carols = at("carols/contracts");
    fs::create_dir(at("carols")).unwrap();
    assert_exit(&get(&at("carol"), &[&both.ticket, "-o", text(&at("carols"))]), 0);
    drop(both);

    // The same content for the same recipients is the same publication.
    let ticket_of = |share: &Share| share.ticket.clone();
    let root = |share: &Share| share.shared["root"].clone();
    let same = share(&shared, &at("alice"), &[&carol, &bob]);
    let roots = (root(&same), ticket_of(&same));
    drop(same);

    // One file more, and bob is no recipient any more.
    fs::write(shared.join("new.txt"), b"not for bob").unwrap();
    let without = share(&shared, &at("alice"), &[&carol]);
    assert_ne!(root(&without), roots.0);
    let refused = get(&at("bob"), &[&without.ticket, "--overwrite", "-o", text(&out)]);
    assert_exit(&refused, 2);
    assert!(!out.join("contracts").exists() && out.join("small.txt").exists());
    let (code, done) =
        get_json(&at("carol"), &[&without.ticket, "--overwrite", "-o", text(&at("carols"))]);
    assert_eq!(code, Some(0));
    assert_eq!(content(&carols), content(&shared));
    assert!(done["fetched"].as_u64().unwrap() < 16_384, "what she has is not fetched: {done}");
}

/// A key must never encrypt a second plaintext: a file that changes during its share is not encrypted with the old key.
#[test]
fn a_changed_file_is_not_encrypted_with_the_old_key() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let bob = card(dir.path(), &at("bob"));
    let path = file(dir.path(), "large.bin", &noise(100_000, 7));
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let share = share(&path, &at("alice"), &[&bob]);
    // In place, with the time set back: only the content shows the change.
    let mut bytes = fs::read(&path).unwrap();
    bytes[20_000..28_192].fill(0);
    fs::write(&path, &bytes).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();

    let kept = at("kept");
    let arguments = [&share.ticket, "--ciphertext", "--timeout", "2", "-o", text(&kept)];
    // Encrypted content is useful only as a whole: an incomplete fetch decrypts nothing.
    assert_exit(&get(&at("mirror"), &arguments), 3);
    assert!(!kept.exists());
    until("a warning of the file", || {
        !share.told("unreadable").is_empty()
            || !share.told("skipped").is_empty()
            || !share.told("trouble").is_empty()
    });
    drop(share);
}

#[test]
fn wrong_uses_of_private_shares_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let bob = card(dir.path(), &at("bob"));
    let path = file(dir.path(), "a.bin", &noise(10_000, 1));
    let run = |arguments: &[&str]| {
        let mut command = xylem(&at("alice"));
        command.args(arguments);
        finish(command)
    };
    let nobody = run(&["share", text(&path), "--for", "nobody-known"]);
    assert_exit(&nobody, 2);
    assert!(stderr(&nobody).contains("inbox people"), "{}", stderr(&nobody));
    assert_exit(&run(&["share", text(&path), "--follow", "--for", text(&bob)]), 2);
    let share = share(&path, &at("alice"), &[&bob]);
    for odd in [&["-o", "-"][..], &["--range", "0..100"]] {
        let output = get(&at("bob"), &[&[share.ticket.as_str()], odd].concat());
        assert_exit(&output, 2);
        assert!(stderr(&output).contains("encrypted"), "{}", stderr(&output));
    }
}
