//! Distributes files and folders by name: publish once, sign once; anyone may serve any piece; every piece is proven when
//! it arrives, over an encrypted link. This crate is what programs import; it has the calls of the command
//! `xylem`, with their options, events and errors.
//!
//! A program that shares a folder until somebody has all of it:
//!
//! ```
//! use xylem::{Event, ShareOptions, Stop, share};
//! # let dir = tempfile::tempdir()?;
//! # std::env::set_current_dir(&dir)?;
//! # std::fs::create_dir("photos")?;
//!
//! let stop = Stop::new();
//! # let (ends, again) = (stop.clone(), std::time::Duration::from_millis(300));
//! # std::thread::spawn(move || { std::thread::sleep(again); ends.raise() });
//! let options =
//!     ShareOptions { paths: vec!["photos".into()], store: "store".into(), ..Default::default() };
//! share(&options, &stop, &mut |event| match event {
//!     Event::Shared { ticket, .. } => println!("{ticket}"),
//!     Event::Fetched(_) => stop.raise(),
//!     _ => {}
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! One that gets it, and resumes what an earlier run has begun:
//!
//! ```
//! use xylem::{Existing, GetOptions, Output, SaveOptions, Stop, get};
//! # use xylem::{Event, ShareOptions, share};
//! # let dir = tempfile::tempdir()?;
//! # let (there, here) = (dir.path().join("photos"), dir.path().join("copy"));
//! # std::fs::create_dir(&there)?;
//! # std::fs::write(there.join("a"), "a photo")?;
//! # let (tell, tickets) = std::sync::mpsc::channel();
//! # let store = dir.path().join("sharer");
//! # let ends = Stop::new();
//! # let stopped = ends.clone();
//! # let sharer = std::thread::spawn(move || {
//! #     let options = ShareOptions { paths: vec![there], store, ..Default::default() };
//! #     share(&options, &stopped, &mut |event| if let Event::Shared { ticket, .. } = event {
//! #         tell.send(ticket.to_string()).unwrap();
//! #     })
//! # });
//! # let ticket = tickets.recv()?;
//! # let store = dir.path().join("store");
//!
//! let save = SaveOptions::to(Output::At(here.clone()), Existing::Refuse);
//! let options = GetOptions::new(ticket.parse()?, save, store);
//! let summary = get(&options, &Stop::new(), &mut |_event| {})?;
//! println!("{} files, {} bytes", summary.files, summary.bytes);
//! # assert_eq!(std::fs::read(here.join("a"))?, b"a photo");
//! # ends.raise();
//! # sharer.join().unwrap()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What to call
//!
//! | to | call | example |
//! |---|---|---|
//! | publish files and serve them | [`share`] with [`ShareOptions`] | `cargo run -p xylem --example share -- PATH` |
//! | fetch into a file or folder, and resume | [`get`] with [`GetOptions`] | `--example get -- TICKET OUTPUT` |
//! | read files in place | [`Reader::open`], [`Reader::open_path`], [`File`] | `--example read -- TICKET [PATH]` |
//! | the same in a program on tokio | `AsyncFile`, with the feature `tokio` | |
//! | read it with DataFusion, Arrow and others | `TicketStore`, with the feature `object-store` | |
//! | keep a folder in step with others | [`sync()`] with [`SyncOptions`] | `--example sync -- FOLDER [TICKET]` |
//! | compare files on disk with a ticket | [`verify`] with [`VerifyOptions`] | |
//! | compare bytes in memory with a ticket | [`verify_memory`] with [`VerifyMemoryOptions`] | [`HashedMemory`] |
//! | keep versions in an S3 bucket, or fetch into one | `mirror`, `get_into_bucket`, with the feature `s3` | |
//! | read all files of a store again, and repair them | [`scrub()`] with [`ScrubOptions`], [`RepairOptions`] | |
//!
//! Each call blocks until it ends, and leaves no thread behind, but for those that still wait for a disk; [`sync()`]
//! leaves the one that watches the folder, which ends at the folder's next change or its next scan. A [`Reader`] has one thread until it is dropped. A [`Stop`] lets another thread end a call. It
//! reports [`Event`]s (or [`SyncEvent`]s) to a closure, and returns an error of its own type, each of which tells by
//! [`Failure::blame`] which party has to act. None prints anything, exits, or handles signals.
//!
//! *Store*: the directory with this machine's keys, trees and interrupted fetches. [`usual_store`] is the command's own.
//!
//! The parts below are crates of their own, for programs that need one alone: `xylem-hash`, `xylem-tree`,
//! `xylem-packet`, `xylem-forward`, `xylem-link` and so on (ARCHITECTURE.md).

pub use xylem_base::{Blame, Error, Failure, FileMedium, Stop, os_path};
pub use xylem_check::scrub::{ScrubError, ScrubOptions, ScrubSummary};
pub use xylem_check::upkeep::close_to_others;
pub use xylem_check::verify::{
    CopiedMemory, Damage, DamageKind, ExtraKind, ExtraPath, Extras, HashedMemory, MemoryPlace,
    REGION_SEGMENTS, VerificationError, VerifySummary,
};
pub use xylem_files::{Existing, LibraryEvent, Only, Output, SaveOptions, walk::Selection};
pub use xylem_folder::{
    FolderError, HomeError, Invitation, InvitationError, LastRun, ObstacleKind, PartTooLong,
    RoleSchema, VersionPolicy,
};
pub use xylem_hash::Hash;
pub use xylem_hash::tree::ChainingValue;
pub use xylem_keys::KeyFileError;
#[cfg(feature = "s3")]
pub use xylem_mirror::{
    BucketError, BucketPlace, Buckets, IntoBucketOptions, MirrorError, MirrorOptions,
    Settings as BucketSettings, get_into_bucket, mirror,
};
pub use xylem_node::{
    AnnounceOptions, Event, EvidenceKept, FetchError, GetError, GetOptions, HostLookupError,
    HostPortError, LinkKeyError, LinkOptions, NotDiallable, PeerAddress, PeerUri, PeerUriError,
    Relay, RelayUriError, RepairOptions, ResolveError, ServeOptions, ServerNameError, ShareError,
    ShareOptions, VerifyMemoryOptions, VerifyOptions, get, look_up_place, resolve, scrub, share,
    verify, verify_memory,
};
pub use xylem_object::listing::EntryKind;
pub use xylem_object::ticket::Address;
pub use xylem_object::{PublisherId, Ticket, TicketError};
#[cfg(feature = "object-store")]
pub use xylem_object_store::TicketStore;
pub use xylem_peers::admission::Prove;
pub use xylem_publish::Recipients;
pub use xylem_publish::follow::FollowOptions;
#[cfg(feature = "tokio")]
pub use xylem_reader::AsyncFile;
pub use xylem_reader::{
    File, Options as ReaderOptions, PublicationEntry, Reader, ReaderError, usual_store,
};
pub use xylem_sink::{GetSummary, PeerBytes};
pub use xylem_store::StoreError;
pub use xylem_sync::{
    FetchingStatus, FolderStep, IndexRefusal, LinksRefused, MemberStanding, MemberStatus,
    MissingStatus, OldPlaceError, StatusBoard, SyncError, SyncEvent, SyncOptions, SyncStatus,
    all_statuses, is_member_name, is_paused, pause, sync, usual_member_name,
};
