//! [`serve`]: what is shared comes and goes while it is served, at the word of other threads.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use mio::Waker;
use xylem_object::PublisherKey;
use xylem_packet::Name;

use super::mesh::Mesh;
use super::server::Server;
use super::{ShareError, ShareOptions, bind, open, publisher_of};
use crate::event::Event;
use crate::mail::while_delivering;
use xylem_engine::Engine;
use xylem_library::folder::{MeshNews, MeshStart, Roles};
use xylem_library::mail::MailStore;
use xylem_library::publications::{Content, PublicationId};
use xylem_library::publish::Recipients;
use xylem_library::reachable::{FaceAddress, endpoint};
use xylem_library::served::Counts;
use xylem_library::{Selection, Stop};
use xylem_mgmt::FaceUri;

/// What other threads ask the serving one.
pub(super) enum Command {
    /// To serve this too, and to answer what is to be told of it.
    Add {
        /// Where it lies.
        path: PathBuf,
        content: Box<Content>,
        /// Whether the LAN may be told of it.
        lan: bool,
        answer: mpsc::Sender<Result<(PublicationId, Event), ShareError>>,
    },
    /// To serve it no more.
    Remove(PublicationId),
    /// To tell the members of the group this, and who may do what.
    Say(Vec<u8>, Option<Roles>),
    /// To say what was served.
    Count(mpsc::Sender<ServiceSnapshot>),
}

/// What was served up to a moment.
#[derive(Clone, Debug, Default)]
pub struct ServiceSnapshot {
    /// Of each publication that was asked for at all.
    pub counts: HashMap<PublicationId, Counts>,
    /// Links and faces that are up.
    pub peers: usize,
}

/// What one share of a service is to be: all in which it may differ from the next one.
#[derive(Clone, Debug, Default)]
pub struct OneShare {
    /// As [`ShareOptions::name`].
    pub name: Option<Name>,
    /// As [`ShareOptions::selection`].
    pub selection: Selection,
    /// As [`ShareOptions::recipients`].
    pub recipients: Option<Recipients>,
    /// Whether the LAN may be told of it, where the service tells the LAN anything.
    pub lan: bool,
}

/// How other threads reach a service that runs.
#[derive(Clone)]
pub struct ServiceHandle {
    options: ShareOptions,
    commands: mpsc::Sender<Command>,
    waker: Arc<Waker>,
}

impl ServiceHandle {
    /// Hashes what is at `path` on this thread, and has it served as `how` says; the rest is as the service was
    /// asked for. Returns [`Event::Shared`].
    ///
    /// # Errors
    /// See [`ShareError`]; [`ShareError::Ended`] if the service has ended.
    pub fn share(
        &self,
        path: &Path,
        how: OneShare,
        stop: &Stop,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(PublicationId, Event), ShareError> {
        let OneShare { name, selection, recipients, lan } = how;
        let options = ShareOptions { name, selection, recipients, ..self.options.clone() };
        let publisher: PublisherKey = publisher_of(&options)?;
        let content = Box::new(open(&options, path, &publisher, stop, on_event)?);
        let (answer, answered) = mpsc::channel();
        self.send(Command::Add { path: path.to_path_buf(), content, lan, answer });
        answered.recv().unwrap_or(Err(ShareError::Ended))
    }

    /// Whether the service asks the router to forward its port: for all that it serves, as there is one port.
    #[must_use]
    pub fn asks_router(&self) -> bool {
        self.options.beside.map
    }

    /// Tells the members of the group, of a service that has one, if it is not empty; and holds to these roles at once.
    pub fn say(&self, said: Vec<u8>, roles: Option<Roles>) {
        self.send(Command::Say(said, roles));
    }

    /// Serves it no more.
    pub fn unshare(&self, id: PublicationId) {
        self.send(Command::Remove(id));
    }

    /// What was served since it began.
    ///
    /// # Errors
    /// [`ShareError::Ended`] if the service has ended.
    pub fn snapshot(&self) -> Result<ServiceSnapshot, ShareError> {
        let (answer, answered) = mpsc::channel();
        self.send(Command::Count(answer));
        answered.recv().map_err(|_| ShareError::Ended)
    }

    fn send(&self, command: Command) {
        // Where the service has ended, whoever waits for an answer sees that.
        let _ = self.commands.send(command);
        let _ = self.waker.wake();
    }
}

/// Serves what `ready` is handed the means to add, until `stop` is raised; `options` names no path.
/// `port` is tried first where none is asked for; `ready` is told which it is. Returns what was served.
///
/// # Errors
/// See [`ShareError`].
pub fn serve(
    options: &ShareOptions,
    port: Option<u16>,
    stop: &Stop,
    ready: impl FnOnce(ServiceHandle, Option<u16>),
    on_event: &mut dyn FnMut(Event),
) -> Result<ServiceSnapshot, ShareError> {
    serve_group(options, port, None, stop, ready, on_event)
}

/// As [`serve`], as a member of a group: what its members say is sent there.
///
/// # Errors
/// As there.
pub fn serve_group(
    options: &ShareOptions,
    port: Option<u16>,
    group: Option<(MeshStart, mpsc::Sender<MeshNews>)>,
    stop: &Stop,
    ready: impl FnOnce(ServiceHandle, Option<u16>),
    on_event: &mut dyn FnMut(Event),
) -> Result<ServiceSnapshot, ShareError> {
    let mail = MailStore::open_existing(&options.store)?;
    while_delivering(mail.as_ref(), &options.relays, |events, ends| {
        let (mut engine, at) = bind(options, &[], port, &publisher_of(options)?)?;
        let port = at.listen.first().map(std::net::SocketAddr::port);
        for address in &at.listen {
            let uri = FaceAddress::Uri(FaceUri::Xylem(endpoint(*address)));
            on_event(Event::Listening { uri });
        }
        let (commands, to_do) = mpsc::channel();
        ready(handle(&mut engine, options, commands)?, port);
        let mut server = Server::new(&mut engine, at, options, ends, events, on_event)?;
        server.commands = Some(to_do);
        // Its tickets are still to come.
        server.names_mapped = true;
        server.register(&mut engine, &options.relays, false);
        server.mesh = group.map(|(start, news)| Mesh::new(&mut engine, start, news));
        engine.run(&mut server, stop)?;
        engine.close();
        Ok(server.snapshot())
    })
}

fn handle(
    engine: &mut Engine,
    options: &ShareOptions,
    commands: mpsc::Sender<Command>,
) -> Result<ServiceHandle, ShareError> {
    Ok(ServiceHandle { options: options.clone(), commands, waker: engine.waker()? })
}
