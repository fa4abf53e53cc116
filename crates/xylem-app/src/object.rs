//! Fetches an object of any NDN producer: one packet, or segments that RDR leads to.
//!
//! Bytes come through a [`Client`], are verified as [`VerifyWith`] states, and go in order to a file or to standard
//! output. The file gets its name only when it is complete. Nothing is resumed: the remains of an earlier run could
//! only be verified by fetching them again.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use xylem_base::{Blame, Failure, Stop, advised, blame_of, disk};
use xylem_files::{Existing, Output};
use xylem_hash::Hasher;
use xylem_keys::KeyFileError;
use xylem_object::{PublisherIdError, Ticket};
use xylem_packet::{Data, Name};
use xylem_peers::reachable::{FaceAddress, PeerAddress, PeerUri};
use xylem_sink::{Destination, SaveError, file_name_of};
use xylem_store::{Durability, FileRef, MediumFile, OpenHow, OverwritePolicy, StoreError, install};

use crate::validator::Validator;
use crate::{Client, ConnectionError, RunError, VerifyWith, parse_name};
use xylem_client::{
    CheckError, ClientError, Discovered, Discovery, Driver, Expected, SegmentFetch,
    SegmentReceiver, published_manifest, ticket_for,
};

/// Bytes buffered before they are written.
const BUFFER: usize = 256 * 1024;
/// Least time between progress reports.
const TICK: Duration = Duration::from_millis(100);

/// Why an object is not fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// Failures of the forwarder or the producer, or it was stopped.
    #[error(transparent)]
    Run(RunError),
    /// A key or a certificate cannot be used.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The publisher's key is malformed.
    #[error("{key}: {why}")]
    Publisher {
        /// The key as given.
        key: String,
        /// Reason.
        why: PublisherIdError,
    },
    /// Only xylem's own publications can be fetched in part.
    #[error(
        "--range, --limit and --exclude work only for what `xylem share` publishes; give its --publisher"
    )]
    InPart,
    /// There is no place for the result.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// The final name is taken.
    #[error("{} exists; choose --overwrite, --rename or -o PATH", .0.display())]
    Taken(PathBuf),
    /// The file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The file cannot get its name.
    #[error("{}", advised(.0))]
    Store(#[from] StoreError),
}

impl From<RunError> for ObjectError {
    fn from(e: RunError) -> Self {
        Self::Run(e)
    }
}

impl From<ClientError> for ObjectError {
    fn from(e: ClientError) -> Self {
        Self::Run(e.into())
    }
}

impl From<ConnectionError> for ObjectError {
    fn from(e: ConnectionError) -> Self {
        Self::Run(e.into())
    }
}

impl Failure for ObjectError {
    fn blame(&self) -> Blame {
        match self {
            Self::Run(e) => e.blame(),
            Self::Key(e) => e.blame(),
            Self::Publisher { .. } | Self::InPart | Self::Taken(_) => Blame::Usage,
            Self::Save(e) => e.blame(),
            Self::File { .. } => Blame::Local,
            Self::Store(e) => blame_of(e),
        }
    }
}

/// Options of a fetch by name, and the keys to trust.
#[derive(Clone, Debug)]
pub struct ObjectOptions {
    /// The forwarder, as in [`Client::connect`].
    pub at: Option<PeerUri>,
    /// The object's name, with or without its version, as an NDN URI.
    pub name: String,
    /// The trusted keys.
    pub believe: VerifyWith,
    /// Where the content goes.
    pub output: Output,
    /// How to handle a final name that is taken.
    pub existing: Existing,
    /// Give up after this long without a verified packet.
    pub give_up: Duration,
    /// Whether all of it is requested. Only xylem's own publications can be fetched in part.
    pub whole: bool,
}

/// Events of fetching an object, in order.
#[derive(Clone, Debug)]
pub enum ObjectNews {
    /// The forwarder is connected.
    Connected {
        /// The forwarder.
        peer: FaceAddress,
    },
    /// Verified bytes so far, and the total as far as is known; at most ten times a second.
    Progress {
        /// Verified bytes.
        verified: u64,
        /// Total bytes.
        total: u64,
    },
    /// A packet was not trusted.
    Refused {
        /// The peer that sent it.
        peer: FaceAddress,
        /// A description of it.
        what: String,
    },
}

/// Summary of a fetched object.
#[derive(Clone, Debug)]
pub struct ObjectSummary {
    /// The name of its packets, with the version.
    pub name: String,
    /// Final path; `None` for standard output.
    pub path: Option<PathBuf>,
    /// The root that `xylem sum` prints for the content, hexadecimal.
    pub root: String,
    /// Bytes of content.
    pub bytes: u64,
    /// Number of packets.
    pub segments: u64,
    /// Whether a trusted key signed every packet.
    pub proven: bool,
    /// Duration.
    pub elapsed: Duration,
}

/// The result of a fetch by name.
pub enum FetchedObject {
    /// An object, which was fetched.
    Object(ObjectSummary),
    /// A xylem publication with a trusted manifest. Nothing was fetched; `ticket` names it, without addresses.
    Ours {
        /// `xylem:…`
        ticket: Box<Ticket>,
        /// The forwarder that led to it.
        forwarder: PeerAddress,
    },
}

/// Fetches the object at a name.
///
/// # Errors
/// See [`ObjectError`].
pub fn get_object(
    options: &ObjectOptions,
    stop: &Stop,
    on_event: &mut dyn FnMut(ObjectNews),
) -> Result<FetchedObject, ObjectError> {
    let started = Instant::now();
    let name = parse_name(&options.name)?;
    let policy = options.believe.policy()?;
    let mut client = Client::connect(options.at.as_ref(), stop)?;
    let mut validator = Validator::new(policy, client.peer(), stop);
    on_event(ObjectNews::Connected { peer: client.peer().into() });
    let found = match discover(&mut client, &name, options.give_up, &mut validator) {
        Ok(found) => found,
        Err(error) => return Err(validator.ended().unwrap_or(error).into()),
    };
    if !matches!(options.believe, VerifyWith::Nobody | VerifyWith::Key(_))
        && let Discovered::Segments { prefix, .. } = &found
        && let Some(manifest) = published_manifest(&mut client, prefix)?
    {
        let ticket = Box::new(ticket_of(&manifest, prefix, &options.believe, &mut validator)?);
        return Ok(FetchedObject::Ours { ticket, forwarder: client.peer().clone() });
    }
    if !options.whole {
        return Err(ObjectError::InPart);
    }
    let suggested = || file_name_of(name.as_ref());
    let destination = Destination::place(&options.output, options.existing, suggested)?;
    if let Some(to) = &destination
        && to.policy == OverwritePolicy::Never
        && disk().metadata(&to.path).is_ok()
    {
        return Err(ObjectError::Taken(to.path.clone()));
    }
    let mut sink =
        ObjectSink::open(&mut validator, destination.as_ref(), client.peer().into(), on_event)?;
    let fetched = match &found {
        Discovered::Single(content) => {
            let written = sink.content(content).map_err(|e| ClientError::Output(e).into());
            written.map(|()| (content.len() as u64, 1))
        }
        Discovered::Segments { prefix, expected } => {
            let (prefix, expected) = (prefix.clone(), expected.clone());
            segments(&mut client, prefix, expected, options.give_up, &mut sink)
        }
    };
    let (bytes, segments) = match fetched {
        Ok(fetched) => fetched,
        Err(error) => {
            sink.discard(destination.as_ref());
            return Err(validator.ended().unwrap_or(error).into());
        }
    };
    let root = sink.finish(destination.as_ref())?;
    let prefix = if let Discovered::Segments { prefix, .. } = found { prefix } else { name };
    Ok(FetchedObject::Object(ObjectSummary {
        name: prefix.to_string(),
        path: destination.map(|to| to.path),
        root,
        bytes,
        segments,
        proven: validator.proves(),
        elapsed: started.elapsed(),
    }))
}

/// The ticket for a xylem publication, from its trusted manifest.
fn ticket_of(
    manifest: &[u8],
    prefix: &Name,
    believe: &VerifyWith,
    validator: &mut Validator,
) -> Result<Ticket, ObjectError> {
    let what = "the manifest";
    let data = Data::decode(manifest).map_err(|e| ClientError::not_believed(what, e))?;
    let publisher = match believe {
        VerifyWith::Publisher(key) => {
            key.parse().map_err(|why| ObjectError::Publisher { key: key.clone(), why })?
        }
        _ => match validator.publisher(&data) {
            Ok(publisher) => publisher,
            Err(why) => {
                let refused = ClientError::not_believed(what, why).into();
                return Err(validator.ended().unwrap_or(refused).into());
            }
        },
    };
    Ok(ticket_for(&data, prefix, publisher)?)
}

/// Finds the object at a name.
fn discover(
    client: &mut Client,
    name: &Name,
    give_up: Duration,
    validator: &mut Validator,
) -> Result<Discovered, RunError> {
    let mut check = |data: &Data<'_>| validator.check(data);
    let mut discovery = Discovery::new(name, &mut check, give_up, client.seed()?);
    client.finish(&mut discovery)?;
    Ok(discovery.into_found().ok_or(ClientError::Interrupted)?)
}

/// Fetches the segments under a prefix.
fn segments(
    client: &mut Client,
    prefix: Name,
    expected: Expected,
    give_up: Duration,
    sink: &mut ObjectSink<'_>,
) -> Result<(u64, u64), RunError> {
    let mut fetch = SegmentFetch::new(prefix, expected, give_up, client.seed()?, sink)?;
    client.finish(&mut fetch)?;
    Ok(fetch.finish()?)
}

/// Writes the content in order, and hashes it.
struct ObjectSink<'a> {
    validator: &'a mut Validator,
    to: BufWriter<Box<dyn Write>>,
    hasher: Hasher,
    peer: FaceAddress,
    last_reported: Instant,
    on_event: &'a mut dyn FnMut(ObjectNews),
}

impl<'a> ObjectSink<'a> {
    fn open(
        validator: &'a mut Validator,
        destination: Option<&Destination>,
        peer: FaceAddress,
        on_event: &'a mut dyn FnMut(ObjectNews),
    ) -> Result<Self, ObjectError> {
        let to: Box<dyn Write> = match destination {
            None => Box::new(io::stdout()),
            Some(to) => Box::new(create(&to.part).map_err(|e| writing(&to.part, e))?),
        };
        let to = BufWriter::with_capacity(BUFFER, to);
        Ok(Self {
            validator,
            to,
            hasher: Hasher::new(),
            peer,
            last_reported: Instant::now(),
            on_event,
        })
    }

    /// Gives the file its name. Returns the content's root.
    fn finish(mut self, destination: Option<&Destination>) -> Result<String, ObjectError> {
        let wrote = self.to.flush();
        let Some(to) = destination else {
            wrote.map_err(ClientError::Output)?;
            return Ok(self.hasher.finalize().to_string());
        };
        wrote.map_err(|e| writing(&to.path, e))?;
        FileRef::open(&*disk(), &to.part, OpenHow::Read)
            .and_then(|file| {
                let (policy, device) = (to.policy.into(), Durability::Device);
                install(&*disk(), &file, &to.part, &to.path, policy, device)
            })
            .map_err(|e| match e {
                StoreError::Exists { path } => ObjectError::Taken(path),
                e => e.into(),
            })?;
        Ok(self.hasher.finalize().to_string())
    }

    /// Removes the incomplete file: it could not be resumed.
    fn discard(self, destination: Option<&Destination>) {
        let _ = self.to.into_parts();
        if let Some(to) = destination {
            let _ = disk().remove_file(&to.part);
        }
    }
}

impl SegmentReceiver for ObjectSink<'_> {
    fn check(&mut self, data: &Data<'_>) -> Result<(), CheckError> {
        self.validator.check(data)
    }

    fn at_once(&self) -> usize {
        self.validator.at_once()
    }

    fn check_many(&mut self, packets: &[Data<'_>]) -> Vec<Result<(), CheckError>> {
        self.validator.check_many(packets)
    }

    fn content(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.to.write_all(bytes)
    }

    fn progress(&mut self, bytes: u64, total: u64) {
        if self.last_reported.elapsed() >= TICK {
            self.last_reported = Instant::now();
            (self.on_event)(ObjectNews::Progress { verified: bytes, total: total.max(bytes) });
        }
    }

    fn bad(&mut self, what: &str) {
        let (peer, what) = (self.peer.clone(), what.to_owned());
        (self.on_event)(ObjectNews::Refused { peer, what });
    }
}

/// Writes a file from its beginning on.
struct PartWriter {
    file: Arc<dyn MediumFile>,
    at: u64,
}

impl Write for PartWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wrote = self.file.write_at(bytes, self.at)?;
        self.at = self.at.saturating_add(wrote as u64);
        Ok(wrote)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Creates a new file. Removes an earlier run's file of this name; links are not followed.
fn create(part: &Path) -> io::Result<PartWriter> {
    match disk().remove_file(part) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let file = disk().open(part, OpenHow::CreateNew { mode: 0o666 })?;
    Ok(PartWriter { file, at: 0 })
}

fn writing(path: &Path, error: io::Error) -> ObjectError {
    let path = path.to_path_buf();
    match error.kind() {
        io::ErrorKind::AlreadyExists => ObjectError::Taken(path),
        _ => ObjectError::File { path, error },
    }
}
