//! Publishing, fetching and repairing on a disk that fails at every step. Each error is one line, nothing unproven gets
//! a final name, and the next run completes the work.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use xylem_base::{Failure, Stop, UnixTime};
use xylem_check::scrub::{ScrubError, ScrubOptions, ScrubSummary, scrub};
use xylem_check::{Keep, Remote, Wanted};
use xylem_faults::{DiskFault, FaultMedium};
use xylem_files::{Existing, Output, SaveOptions, walk::Selection};
use xylem_hash::Hash;
use xylem_object::{Publication, PublisherKey, Ticket};
use xylem_packet::{Interest, Name};
use xylem_publish::{PublishError, Published, Serving, publish};
use xylem_sink::{Context, Destination, SaveError, Sink, Tally, make};
use xylem_store::{FileKind, Medium, OpenHow, OverwritePolicy, Store};
use xylem_transfer::{PeerId, Transfer, TransferConfig, TransferEvent, TransferSpec};
use xylem_tree::{Geometry, SegmentSize};

const NOW: UnixTime = UnixTime::new(Duration::from_secs(1_800_000_000));
const FILM: usize = 100_001;
const FAULTS: [DiskFault; 4] = [DiskFault::Dead, DiskFault::Torn, DiskFault::Once, DiskFault::Full];

fn film() -> Vec<u8> {
    (0..FILM).map(|at| (at / 7 % 251) as u8).collect()
}

/// Makes a disk with a file and a directory to share.
fn disk() -> FaultMedium {
    let medium = FaultMedium::new();
    medium.write(Path::new("/film"), &film()).unwrap();
    medium.create_dir(Path::new("/photos"), 0o755).unwrap();
    for (name, size) in [("a", 20_000), ("b", 5), ("c", 70_000)] {
        let path = Path::new("/photos").join(name);
        medium.write(&path, &vec![name.as_bytes()[0]; size]).unwrap();
    }
    medium
}

fn open(medium: &FaultMedium) -> Store {
    Store::open(Arc::new(medium.clone()), Path::new("/store")).unwrap()
}

fn share(store: &Store, path: &str) -> Result<(Published, Name), PublishError> {
    share_selected(store, path, &Selection::default())
}

fn share_selected(
    store: &Store,
    path: &str,
    selection: &Selection,
) -> Result<(Published, Name), PublishError> {
    let name = |_: &[u8]| Name::from_uri("/a/b").unwrap();
    publish(store, Path::new(path), &name, selection, NOW, &Stop::new(), &mut |_| {})
}

/// Runs `act` on a new disk with each fault at the first step, at the second and so on until none occurs. `after`
/// receives the disk that a killed process leaves.
fn every_step<E: Failure>(
    prepare: &dyn Fn() -> FaultMedium,
    act: &mut dyn FnMut(&Store) -> Result<(), E>,
    after: &mut dyn FnMut(&FaultMedium, bool),
) -> u32 {
    let mut steps = 0;
    for fault in FAULTS {
        for at in 0.. {
            let medium = prepare();
            let store = open(&medium);
            medium.fail_after(at, fault);
            let outcome = act(&store);
            let struck = medium.has_failed();
            if let Err(e) = &outcome {
                let line = e.to_string();
                assert!(struck && !line.contains('\n'), "{fault:?} at {at}: {line}");
                let full = line.contains("no space left");
                assert_eq!(full, fault == DiskFault::Full, "{at}: {line}");
            }
            drop(store);
            after(&medium.image(), outcome.is_ok());
            steps += 1;
            if !struck {
                outcome.unwrap();
                break;
            }
        }
    }
    steps
}

#[test]
fn publishing() {
    for path in ["/film", "/photos"] {
        let root = share(&open(&disk()), path).unwrap().0.manifest.root;
        let mut act = |store: &Store| share(store, path).map(drop);
        let steps = every_step(&disk, &mut act, &mut |medium, _| {
            assert_eq!(share(&open(medium), path).unwrap().0.manifest.root, root);
        });
        assert!(steps > 20, "{steps}");
    }
}

/// A peer that serves the content of a healthy disk.
struct Publisher {
    publication: Publication,
    serving: Serving,
    key: PublisherKey,
    root: Hash,
}

impl Publisher {
    fn new(path: &str) -> Self {
        let (medium, key) = (disk(), PublisherKey::from_bytes(&[7; 32]));
        let (published, prefix) = share(&open(&medium), path).unwrap();
        let packet = published.sign(&prefix, &key).unwrap();
        let publication = Publication::new(prefix, packet, &key.public()).unwrap();
        let root = published.manifest.root;
        Self { publication, serving: published.serve(Arc::new(medium)), key, root }
    }

    fn transfer(&self) -> Transfer {
        let spec = TransferSpec {
            prefix: self.publication.prefix().to_name(),
            publisher: self.key.public(),
            root: Some(self.root),
            size: None,
        };
        let mut transfer = Transfer::new(spec, TransferConfig::default(), 1);
        transfer.add_direct_peer(Duration::ZERO, PeerId(1));
        transfer
    }

    /// Answers the Interests of `transfer` at `now`.
    fn answer(&mut self, transfer: &mut Transfer, now: Duration) {
        let mut asked = Vec::new();
        while transfer.poll_transmit(now, &mut asked).is_some() {
            let mut answer = Vec::new();
            let interest = Interest::decode(&asked).unwrap();
            self.publication.answer(&interest, &mut self.serving, &mut answer).unwrap();
            if !answer.is_empty() {
                transfer.handle_data(now, PeerId(1), Bytes::from(answer));
            }
        }
        if transfer.poll_timeout(now).is_some_and(|due| due <= now) {
            transfer.handle_timeout(now);
        }
    }

    fn fetch(&mut self, store: &Store, to: &str) -> Result<(), SaveError> {
        self.fetch_as(store, to, Existing::Refuse)
    }

    /// Like [`Publisher::fetch`]; with [`Existing::Overwrite`], existing files are overwritten and unpublished ones
    /// removed.
    fn fetch_as(&mut self, store: &Store, to: &str, existing: Existing) -> Result<(), SaveError> {
        let (mut transfer, mut tally, mut now) =
            (self.transfer(), Tally::default(), Duration::ZERO);
        let mut sink: Option<Box<dyn Sink>> = None;
        loop {
            self.answer(&mut transfer, now);
            while let Some(event) = transfer.poll_event() {
                let mut cx = Context {
                    transfer: &mut transfer,
                    tally: &mut tally,
                    on_event: &mut |_| {},
                    now,
                    holdings: None,
                };
                match (event, &mut sink) {
                    (TransferEvent::Manifest { manifest, .. }, _) => {
                        let options = SaveOptions {
                            delete: existing == Existing::Overwrite,
                            ..SaveOptions::to(Output::At(to.into()), existing)
                        };
                        let part = PathBuf::from(format!("/.{}.xylem-part", &to[1..]));
                        let policy = match existing {
                            Existing::Overwrite => OverwritePolicy::Replace,
                            _ => OverwritePolicy::Never,
                        };
                        let to = Destination { path: to.into(), part, policy };
                        sink.insert(make(&options, &manifest, Some(to), store)?).begin(&mut cx)?;
                    }
                    (TransferEvent::Segment { object, segment }, Some(sink)) => {
                        sink.segment(object, segment, &mut cx)?;
                    }
                    (TransferEvent::Nodes { object, nodes }, Some(sink)) => {
                        sink.nodes(object, nodes)?
                    }
                    (TransferEvent::ObjectComplete(object), Some(sink)) => {
                        sink.complete(object, &mut cx)?
                    }
                    (event, _) => panic!("{event:?}"),
                }
            }
            now += Duration::from_millis(1);
            assert!(now < Duration::from_secs(60), "the fetch ends");
            // Time is simulated here, but not for the threads that search and write.
            std::thread::yield_now();
            let Some(sink) = &mut sink else { continue };
            let (transfer, tally, on_event) = (&mut transfer, &mut tally, &mut |_| {});
            sink.poll(&mut Context { transfer, tally, on_event, now, holdings: None })?;
            if sink.is_done() {
                return sink.finish().map(drop);
            }
        }
    }
}

#[test]
fn what_a_share_left_out_survives_a_loss_of_power() {
    for seed in 0..64 {
        let medium = disk();
        // All files first, so that an older record, too, would publish what the second share leaves out.
        share(&open(&medium), "/photos").unwrap();
        let selection = Selection { exclude: Some(vec!["b".into()]), ..Selection::default() };
        let (published, _) = share_selected(&open(&medium), "/photos", &selection).unwrap();
        let image = medium.power_cut(seed);
        let (again, _) = share(&open(&image), "/photos").unwrap();
        assert_eq!(again.manifest.root, published.manifest.root, "seed {seed}");
    }
}

#[test]
fn fetching_a_file() {
    let mut publisher = Publisher::new("/film");
    let mut again = Publisher::new("/film");
    let mut act = |store: &Store| publisher.fetch(store, "/copy");
    let steps = every_step(&FaultMedium::new, &mut act, &mut |medium, done| {
        let there = medium.read(Path::new("/copy"));
        assert!(there.is_ok() || !done);
        match there {
            Ok(bytes) => assert!(bytes == film(), "what has the name is whole"),
            Err(_) => {
                again.fetch(&open(medium), "/copy").unwrap();
                assert!(medium.read(Path::new("/copy")).unwrap() == film());
            }
        }
    });
    assert!(steps > 40, "{steps}");
}

#[test]
fn fetching_a_directory() {
    let mut publisher = Publisher::new("/photos");
    let mut again = Publisher::new("/photos");
    let mut act = |store: &Store| publisher.fetch(store, "/copy");
    let steps = every_step(&FaultMedium::new, &mut act, &mut |medium, done| {
        let there =
            medium.metadata(Path::new("/copy")).is_ok_and(|m| m.kind == FileKind::Directory);
        assert!(there || !done);
        if !there {
            again.fetch(&open(medium), "/copy").unwrap();
        }
        assert_eq!(medium.read(Path::new("/copy/b")).unwrap(), [b'b'; 5]);
        assert!(medium.read(Path::new("/copy/c")).unwrap() == [b'c'; 70_000]);
    });
    assert!(steps > 60, "{steps}");
}

/// An older version with an added file: `a` is unchanged, `b` and `c` differ, `mine` was not published.
fn older() -> FaultMedium {
    let medium = FaultMedium::new();
    medium.create_dir(Path::new("/copy"), 0o755).unwrap();
    for (name, size, byte) in
        [("a", 20_000, b'a'), ("b", 9, b'B'), ("c", 80_000, b'C'), ("mine", 7, b'm')]
    {
        medium.write(&Path::new("/copy").join(name), &vec![byte; size]).unwrap();
    }
    medium
}

/// At every moment each name leads to the old file or to the new one, and a second run completes the merge.
#[test]
fn merging_into_a_directory() {
    let mut publisher = Publisher::new("/photos");
    let mut again = Publisher::new("/photos");
    let mut act = |store: &Store| publisher.fetch_as(store, "/copy", Existing::Overwrite);
    let steps = every_step(&older, &mut act, &mut |medium, done| {
        let read = |name: &str| medium.read(&Path::new("/copy").join(name));
        let is = |name: &str, size: usize, byte: u8| {
            read(name).is_ok_and(|bytes| bytes == vec![byte; size])
        };
        assert!(is("a", 20_000, b'a'));
        let new = [is("b", 5, b'b'), is("c", 70_000, b'c'), read("mine").is_err()];
        let old = [is("b", 9, b'B'), is("c", 80_000, b'C'), is("mine", 7, b'm')];
        assert!(new.iter().zip(old).all(|(new, old)| *new != old), "{new:?} {old:?}");
        assert!(!done || new == [true; 3]);
        if !done {
            again.fetch_as(&open(medium), "/copy", Existing::Overwrite).unwrap();
            assert!(is("b", 5, b'b') && is("c", 70_000, b'c') && read("mine").is_err());
        }
        assert!(medium.metadata(Path::new("/.copy.xylem-part")).is_err(), "nothing is left over");
    });
    assert!(steps > 60, "{steps}");
}

/// The publisher as a source of the damaged pieces.
struct Healthy<'a>(&'a mut Publisher);

impl Remote for Healthy<'_> {
    fn target(&mut self, _tickets: &[Ticket], _named: usize) {}

    fn connect(
        &mut self,
        _why: &mut Option<Box<dyn Failure>>,
        _stop: &Stop,
    ) -> Result<Option<Geometry>, Box<dyn Failure>> {
        Ok(Some(Geometry::new(0, SegmentSize::DEFAULT)))
    }

    fn fetch(
        &mut self,
        wanted: Vec<Wanted>,
        keep: &mut Keep<'_>,
        _stop: &Stop,
    ) -> Result<Option<Box<dyn Failure>>, Box<dyn Failure>> {
        let (mut transfer, mut now) = (self.0.transfer(), Duration::ZERO);
        for Wanted { object, root, geometry, segments, verifier } in wanted {
            transfer.add_object(object, root, geometry, segments, [], verifier).unwrap();
        }
        while !transfer.is_idle() {
            self.0.answer(&mut transfer, now);
            while let Some(event) = transfer.poll_event() {
                keep(event).map_err(SaveError::from)?;
            }
            now += Duration::from_millis(1);
            assert!(now < Duration::from_secs(60), "the fetch ends");
        }
        Ok(None)
    }

    fn leave(&mut self) {}

    fn give_up_source(&mut self) {}

    fn misbehaved(&self) -> bool {
        false
    }
}

/// Makes a shared file of which some bytes have decayed at an unchanged time.
fn decayed() -> FaultMedium {
    let medium = disk();
    share(&open(&medium), "/film").unwrap();
    let (path, meta) = (Path::new("/film"), medium.metadata(Path::new("/film")).unwrap());
    let file = medium.open(path, OpenHow::ReadWrite).unwrap();
    file.write_at(&[0xff; 100], 40_000).unwrap();
    medium.set_mtime(path, meta.mtime).unwrap();
    medium
}

fn repair(publisher: &mut Publisher, store: &Store) -> Result<ScrubSummary, ScrubError> {
    let options = ScrubOptions {
        paths: Vec::new(),
        repair: true,
        tickets: Vec::new(),
        medium: xylem_base::FileMedium::default(),
    };
    scrub(store, &options, &mut Healthy(publisher), None, &Stop::new(), &mut |_| {})
}

#[test]
fn repairing() {
    let (mut publisher, mut again) = (Publisher::new("/film"), Publisher::new("/film"));
    let mut act = |store: &Store| repair(&mut publisher, store).map(drop);
    let steps = every_step(&decayed, &mut act, &mut |medium, _| {
        let summary = repair(&mut again, &open(medium)).unwrap();
        assert!(summary.is_clean(), "{summary:?}");
        assert!(medium.read(Path::new("/film")).unwrap() == film());
    });
    assert!(steps > 20, "{steps}");
}
