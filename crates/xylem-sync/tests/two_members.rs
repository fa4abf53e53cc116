//! Two members in one process, each by one call of [`sync()`]: files travel, a removal travels, and what goes wrong has
//! a type.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use xylem_base::{Blame, Failure, Stop};
use xylem_folder::{HomeError, Invitation, LastRun, SyncHome};
use xylem_peers::reachable::PeerAddress;
use xylem_sync::{FolderStep, SyncError, SyncEvent, SyncOptions, all_statuses, sync};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Options of a member on loopback, without announcements.
fn options(base: &Path, name: &str, joins: Option<Invitation>) -> SyncOptions {
    let folder = base.join(name);
    fs::create_dir_all(&folder).unwrap();
    SyncOptions {
        joins,
        listen: vec![PeerAddress::Link { address: "127.0.0.1:0".parse().unwrap(), key: None }],
        name: Some(name.to_owned()),
        ..SyncOptions::new(folder, base.join(format!("{name}-store")))
    }
}

/// Stops the members when the test ends, however it does.
struct Ends<'a>(&'a Stop);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// Waits until `is` holds.
fn until(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn one_call_keeps_a_folder_in_step() {
    let base = tempfile::tempdir().unwrap();
    let at = |path: &str| base.path().join(path);
    let alice = options(base.path(), "alice", None);
    fs::write(at("alice/letter"), "hello").unwrap();
    let (stop, (tell, invitations)) = (Stop::new(), mpsc::channel());
    thread::scope(|scope| {
        let _ends = Ends(&stop);
        let first = scope.spawn(|| {
            sync(&alice, &stop, &mut |event| {
                if let SyncEvent::Ready { invitation, .. } = event {
                    tell.send(invitation).unwrap();
                }
            })
        });
        let invitation = invitations.recv_timeout(PATIENCE).unwrap();
        let bob = options(base.path(), "bob", Some(invitation));
        let (stopped, board) = (&stop, bob.board.clone());
        let second = scope.spawn(move || {
            let mut took = Vec::new();
            let done = sync(&bob, stopped, &mut |event| {
                if let SyncEvent::Took { name, paths, .. } = event {
                    took.push((name, paths));
                }
            });
            (done, took)
        });
        until("the file at bob", || fs::read(at("bob/letter")).is_ok_and(|text| text == b"hello"));
        fs::remove_file(at("bob/letter")).unwrap();
        fs::write(at("bob/answer"), "hi").unwrap();
        until("bob's file at alice", || fs::read(at("alice/answer")).is_ok());
        until("the removal at alice", || !at("alice/letter").exists());
        until("bob's status", || board.status().step == FolderStep::InStep);
        assert_eq!(board.status().members[0].name, "alice");
        let written = all_statuses(&at("bob-store"));
        assert!(written.len() == 1 && written[0].running, "{written:?}");
        stop.raise();
        first.join().unwrap().unwrap();
        let (done, took) = second.join().unwrap();
        done.unwrap();
        assert_eq!(took, [("alice".to_owned(), vec!["letter".into()])]);
    });
}

#[test]
fn errors_have_types() {
    let base = tempfile::tempdir().unwrap();
    let stop = Stop::new();
    let gone = SyncOptions { folder: base.path().join("none"), ..options(base.path(), "a", None) };
    let error = sync(&gone, &stop, &mut |_| {}).unwrap_err();
    assert!(matches!(error, SyncError::Store(_)), "{error:?}");
    assert_eq!(error.blame(), Blame::Usage);
    let named = SyncOptions { name: Some("two words".into()), ..options(base.path(), "a", None) };
    assert!(matches!(sync(&named, &stop, &mut |_| {}), Err(SyncError::Name(_))));
    // Another call keeps the folder in step.
    let options = options(base.path(), "b", None);
    thread::scope(|scope| {
        let _ends = Ends(&stop);
        let (tell, ready) = mpsc::channel();
        let (options, stopped) = (&options, &stop);
        let first = scope.spawn(move || {
            sync(options, stopped, &mut |event| {
                if let SyncEvent::Ready { .. } = event {
                    tell.send(()).unwrap();
                }
            })
        });
        ready.recv_timeout(PATIENCE).unwrap();
        let error = sync(options, &stop, &mut |_| {}).unwrap_err();
        assert!(matches!(error, SyncError::Home(HomeError::Busy(_))), "{error:?}");
        stop.raise();
        first.join().unwrap().unwrap();
    });
}

/// A program that gives no settings leaves those of the command as they are, and uses them.
#[test]
fn settings_of_the_last_run_are_kept_and_used() {
    let base = tempfile::tempdir().unwrap();
    let given = options(base.path(), "a", None);
    let last = LastRun {
        name: Some("a".into()),
        listen: vec!["127.0.0.1:0".into()],
        versions: Some("staggered:365".parse().unwrap()),
        xattrs: true,
    };
    let run = |options: &SyncOptions| {
        let stop = Stop::new();
        let mut name = String::new();
        let done = sync(options, &stop, &mut |event| {
            if let SyncEvent::Ready { name: ready, .. } = event {
                name = ready;
                stop.raise();
            }
        });
        done.unwrap();
        let home = SyncHome::existing(&options.store, &options.folder.canonicalize().unwrap());
        (name, options.board.status().xattrs, home.unwrap().last_run().unwrap())
    };
    let first = SyncOptions { xattrs: Some(true), remember: Some(last.clone()), ..given.clone() };
    assert_eq!(run(&first), ("a".to_owned(), true, last.clone()));
    let plain = SyncOptions::new(given.folder.clone(), given.store.clone());
    assert_eq!(run(&plain), ("a".to_owned(), true, last.clone()));
    let named = SyncOptions { name: Some("b".into()), ..plain };
    assert_eq!(run(&named), ("b".to_owned(), true, last));
}
