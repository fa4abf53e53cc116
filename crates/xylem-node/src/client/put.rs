//! Publishing so that any NDN program fetches it: one packet, or versioned segments with RDR
//! metadata (docs/spec/rdr.md).

use std::fs::File;
use std::path::PathBuf;

use xylem_client::Producer;
use xylem_library::clock::microseconds_now;
use xylem_library::key_files::signer;
use xylem_library::{Error, Stop};

use super::{Client, Sign, client_error, parse_name};
use crate::uri::PeerUri;

pub use xylem_client::{PutSettings, SEGMENT_SIZE};

/// How to publish.
#[derive(Clone, Debug)]
pub struct PutOptions {
    /// The forwarder, as in [`Client::connect`].
    pub at: Option<PeerUri>,
    /// The name, as an NDN URI. A version at its end is taken as it is.
    pub name: String,
    /// With what to sign.
    pub sign: Sign,
    /// Where the own key is.
    pub store: PathBuf,
    /// How to cut it.
    pub settings: PutSettings,
    /// Ask the forwarder for the name's Interests; false where a route leads here already.
    pub register: bool,
}

/// What is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The packet's name, or the segments' with its version.
    pub name: String,
    /// Segments; `None`: one packet of exactly that name.
    pub segments: Option<u64>,
    /// Bytes of content.
    pub bytes: u64,
}

/// Publishes `size` bytes of `content` until `stop` is raised; returns how many Interests were
/// answered. `ready` is called once Interests can come.
///
/// # Errors
/// [`xylem_library::Blame::Usage`] for what fits no packet and keys that are none,
/// [`xylem_library::Blame::Network`] if the forwarder refuses the name or goes away,
/// [`xylem_library::Blame::Local`] if the file can't be read any more.
pub fn put(
    options: &PutOptions,
    content: File,
    size: u64,
    stop: &Stop,
    ready: &mut dyn FnMut(&Published),
) -> Result<u64, Error> {
    let name = parse_name(&options.name)?;
    let signer = signer(&options.sign, &options.store, &name)?;
    let (content, version) = ((content, size), microseconds_now());
    let producer = Producer::new(&name, &options.settings, signer, content, version);
    let mut producer = producer.map_err(client_error)?;
    let mut client = Client::connect(options.at.as_ref())?;
    if options.register {
        client.register(producer.served(), stop)?;
    }
    let (name, segments) = (producer.published().to_string(), producer.segments());
    ready(&Published { name, segments, bytes: size });
    client.run(&mut producer, stop)?;
    Ok(producer.answered())
}
