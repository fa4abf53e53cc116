//! [`serve`]: other threads add and remove publications while it serves.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use mio::Waker;
use xylem_base::Stop;
use xylem_files::walk::Selection;
use xylem_mailbox::MailStore;
use xylem_object::PublisherKey;
use xylem_packet::Name;
use xylem_peers::reachable::{FaceAddress, endpoint};
use xylem_publish::Recipients;
use xylem_publish::publications::{PublicationId, ServedContent};
use xylem_publish::served::ServedCounts;

use super::mesh::Mesh;
use super::server::ShareServer;
use super::{ShareError, ShareOptions, bind, open, publisher_of};
use crate::event::Event;
use crate::mail::while_delivering;
use xylem_engine::Engine;
use xylem_folder::{AdoptedState, MeshNews, MeshStart, Roles};
use xylem_mgmt::FaceUri;

/// Commands of other threads to the serving one.
pub(super) enum ShareCommand {
    /// Add a publication, and send its event as the answer.
    Add {
        /// The path of its content.
        path: PathBuf,
        content: Box<ServedContent>,
        /// Whether it may be announced on the LAN.
        lan: bool,
        answer: mpsc::Sender<Result<(PublicationId, Event), ShareError>>,
    },
    /// Remove a publication.
    Remove(PublicationId),
    /// Send a statement to the members of the group, and apply new roles.
    Say(Vec<u8>, Option<Roles>),
    /// Tell the members to which there is a link that we have adopted a state.
    Adopt(AdoptedState),
    /// Send the counts of what was served.
    Count(mpsc::Sender<ServiceSnapshot>),
}

/// Counts of what a service has served up to a moment.
#[derive(Clone, Debug, Default)]
pub struct ServiceSnapshot {
    /// Counts of each publication that was requested at all.
    pub counts: HashMap<PublicationId, ServedCounts>,
    /// Number of links and faces that are up.
    pub peers: usize,
}

/// Options of one share of a service, as far as they may differ from those of other shares.
#[derive(Clone, Debug, Default)]
pub struct OneShare {
    /// As [`ShareOptions::name`].
    pub name: Option<Name>,
    /// As [`ShareOptions::selection`].
    pub selection: Selection,
    /// As [`ShareOptions::recipients`].
    pub recipients: Option<Recipients>,
    /// Whether it may be announced on the LAN, if the service announces anything there.
    pub lan: bool,
}

/// Sends commands to a running service from other threads.
#[derive(Clone)]
pub struct ServiceHandle {
    options: ShareOptions,
    commands: mpsc::Sender<ShareCommand>,
    waker: Arc<Waker>,
}

impl ServiceHandle {
    /// Hashes the content at `path` on this thread, and has the service share it as `how` states. All other options are
    /// the service's. Returns [`Event::Shared`].
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
        self.send(ShareCommand::Add { path: path.to_path_buf(), content, lan, answer });
        answered.recv().unwrap_or(Err(ShareError::Ended))
    }

    /// Whether the service asks the router to forward its port. That holds for all shares, as there is one port.
    #[must_use]
    pub fn asks_router(&self) -> bool {
        self.options.beside.map
    }

    /// Sends `said` to the members of the service's group, if it has one and `said` is not empty. Applies `roles` at
    /// once.
    pub fn send_statement(&self, said: Vec<u8>, roles: Option<Roles>) {
        self.send(ShareCommand::Say(said, roles));
    }

    /// Tells the members to which there is a link that this one has adopted a state that another member has announced.
    pub fn send_adopted(&self, adopted: AdoptedState) {
        self.send(ShareCommand::Adopt(adopted));
    }

    /// Removes a publication.
    pub fn unshare(&self, id: PublicationId) {
        self.send(ShareCommand::Remove(id));
    }

    /// Counts of what was served since the service began.
    ///
    /// # Errors
    /// [`ShareError::Ended`] if the service has ended.
    pub fn snapshot(&self) -> Result<ServiceSnapshot, ShareError> {
        let (answer, answered) = mpsc::channel();
        self.send(ShareCommand::Count(answer));
        answered.recv().map_err(|_| ShareError::Ended)
    }

    fn send(&self, command: ShareCommand) {
        // If the service has ended, a thread that waits for an answer notices.
        let _ = self.commands.send(command);
        let _ = self.waker.wake();
    }
}

/// Serves the publications that are added through the handle given to `ready`, until `stop` is raised. `options` names
/// no path. `port` is tried first if none is requested; `ready` gets the actual one. Returns the counts of what was
/// served.
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

/// As [`serve`], as a member of a group. News of its members is sent to the channel in `group`.
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
        let mut server = ShareServer::new(&mut engine, at, options, ends, events, on_event)?;
        server.serve(to_do);
        server.register(&mut engine, &options.relays, false);
        if let Some((start, news)) = group {
            server.join(Mesh::new(&mut engine, start, news));
        }
        engine.run(&mut server, stop)?;
        engine.close();
        Ok(server.snapshot())
    })
}

fn handle(
    engine: &mut Engine,
    options: &ShareOptions,
    commands: mpsc::Sender<ShareCommand>,
) -> Result<ServiceHandle, ShareError> {
    Ok(ServiceHandle { options: options.clone(), commands, waker: engine.waker()? })
}
