//! [`Management`]: takes commands, returns answers.

mod announce;
mod faces;
mod routes;
mod status;
mod tables;

use core::time::Duration;
use std::collections::HashMap;

use xylem_forward::{FaceId, FaceScope};
use xylem_packet::{Component, DataBuilder, Interest, Name, NameRef, Packet};
use xylem_trust::{ReplayGuard, Signer, TrustStore};

use crate::events::Events;
use crate::readvertise::Readvertise;
use crate::request::{
    CommandScope, CommandSignature, ManagementRequest, PREFIX_LEN, names_a_version,
};
use crate::versions::DatasetVersions;
use crate::{
    CodecError, CommandRefusal, CommandTrust, ControlParameters, ControlResponse, FaceEvent,
    ManagementHost,
};
use crate::{Rib, RibError, types};

/// FreshnessPeriod of answers to commands.
const ANSWER_FRESHNESS_MS: u64 = 1000;

/// Time limit of a face's connection, less than the four seconds that a client waits for its command.
const OPENING_TIMEOUT: Duration = Duration::from_secs(3);

/// Permissions and limits.
#[derive(Debug)]
pub struct ManagementConfig {
    /// Signers of commands over `/localhost/nfd`. Only local faces reach it in any case.
    pub localhost: CommandTrust,
    /// Keys by which neighbours may register prefixes over `/localhop/nfd`; `None` for no neighbour. Such a
    /// registration needs a key: it leads traffic to another machine.
    pub localhop: Option<TrustStore>,
    /// Signs answers, datasets and notifications.
    pub signer: Signer,
    /// Prevents a second execution of a command.
    pub guard: ReplayGuard,
    /// Maximum number of routes in the RIB.
    pub max_routes: usize,
    /// Maximum number of prefixes with a strategy of their own.
    pub max_strategy_choices: usize,
    /// Whether registrations of programs are announced to a routing daemon under `/localhost/nlsr`.
    pub readvertise: bool,
}

impl Default for ManagementConfig {
    fn default() -> Self {
        ManagementConfig {
            localhost: CommandTrust::Anybody,
            localhop: None,
            signer: Signer::digest_sha256(),
            guard: ReplayGuard::new(),
            max_routes: 65_536,
            max_strategy_choices: 4096,
            readvertise: false,
        }
    }
}

/// The forwarder's own application.
///
/// It has a face of the forwarder, of local scope, with routes of [`Management::prefixes`]. For every Interest that the
/// forwarder sends there, the owner calls [`Management::handle_interest`], and returns the resulting packets to the
/// forwarder as from that face. [`Management::face_up`] and [`Management::face_gone`] report faces that come and go
/// otherwise than by command.
pub struct Management {
    signer: Signer,
    localhost: CommandTrust,
    localhop: Option<CommandTrust>,
    guard: ReplayGuard,
    rib: Rib,
    versions: DatasetVersions,
    events: Events,
    /// Announced faces, with the event for their end.
    announced: HashMap<FaceId, FaceEvent>,
    /// Commands faces/create that wait for their connection: the command's name, and its time limit.
    opening: HashMap<FaceId, (Name, Duration)>,
    max_strategy_choices: usize,
    readvertise: Option<Readvertise>,
}

/// The result of a command.
type Answer = Result<ControlParameters, CommandRefusal>;

/// One command to be executed.
struct ManagementCommand<'a, H> {
    now: Duration,
    from: FaceId,
    reach: CommandScope,
    parameters: ControlParameters,
    host: &'a mut H,
    out: &'a mut Vec<Vec<u8>>,
}

impl Management {
    /// Management without routes.
    pub fn new(config: ManagementConfig) -> Self {
        let mut rib = Rib::new(config.max_routes);
        let readvertise = config.readvertise.then(|| {
            rib.note_changes();
            Readvertise::default()
        });
        Management {
            signer: config.signer,
            localhost: config.localhost,
            localhop: config.localhop.map(CommandTrust::Anchors),
            guard: config.guard,
            rib,
            versions: DatasetVersions::default(),
            events: Events::new(),
            announced: HashMap::new(),
            opening: HashMap::new(),
            max_strategy_choices: config.max_strategy_choices,
            readvertise,
        }
    }

    /// The prefixes that have to be routed to the management face.
    pub fn prefixes(&self) -> Vec<Name> {
        let [localhost, localhop] = own_prefixes();
        if self.localhop.is_some() { vec![localhost, localhop] } else { vec![localhost] }
    }

    /// The routes.
    pub fn rib(&self) -> &Rib {
        &self.rib
    }

    /// Handles one Interest that the forwarder sent to the management face; `from` is the face that it came over
    /// before. Packets to send back are appended to `out`. An Interest that is neither a command nor for a dataset has
    /// no answer.
    pub fn handle_interest(
        &mut self,
        now: Duration,
        from: FaceId,
        interest: &Interest<'_>,
        host: &mut impl ManagementHost,
        out: &mut Vec<Vec<u8>>,
    ) {
        self.answer(now, from, interest, host, out);
        self.tell_daemon(now, host, out);
    }

    /// Handles one Data that the forwarder sent to the management face, or with `nack` an Interest that came back: the
    /// result of a command to a routing daemon.
    pub fn handle_reply(
        &mut self,
        now: Duration,
        packet: &[u8],
        host: &mut impl ManagementHost,
        out: &mut Vec<Vec<u8>>,
    ) {
        if let Some(readvertise) = &mut self.readvertise {
            match Packet::decode(packet) {
                Ok(Packet::Data(data)) => readvertise.handle_answer(now, &data),
                Ok(Packet::Interest(interest)) => readvertise.handle_returned(now, &interest),
                _ => return,
            }
            self.tell_daemon(now, host, out);
        }
    }

    /// Sends changes of routes to the routing daemon.
    fn tell_daemon(&mut self, now: Duration, host: &impl ManagementHost, out: &mut Vec<Vec<u8>>) {
        if let Some(readvertise) = &mut self.readvertise {
            readvertise.routes_changed(now, self.rib.take_changes(), &self.rib);
            readvertise.transmit(now, host.now_ms(), &self.signer, out);
        }
    }

    fn answer(
        &mut self,
        now: Duration,
        from: FaceId,
        interest: &Interest<'_>,
        host: &mut impl ManagementHost,
        out: &mut Vec<Vec<u8>>,
    ) {
        let Some(request) = ManagementRequest::parse(interest.name()) else { return };
        let answer = match request.reach {
            // Checked although the forwarder keeps the prefix from other machines: this prefix gives access to
            // everything else.
            CommandScope::Localhost => {
                let settings = host.forwarder_ref().face_settings(from);
                if settings.is_none_or(|settings| settings.scope != FaceScope::Local) {
                    return;
                }
                if self.dataset(now, interest, &request, host, out) {
                    return;
                }
                self.command(now, from, interest, &request, host, out)
            }
            CommandScope::Localhop if self.localhop.is_none() => return,
            CommandScope::Localhop => match (request.module, request.verb) {
                (b"rib", b"register" | b"unregister" | b"announce") => {
                    self.command(now, from, interest, &request, host, out)
                }
                _ => Err(CommandRefusal::new(501, "neighbours may only register prefixes")),
            },
        };
        if let (b"faces", b"create") = (request.module, request.verb)
            && let Ok(ControlParameters { face_id: Some(face), .. }) = answer
            && host.is_opening(FaceId(face))
        {
            self.opening.insert(FaceId(face), (interest.name().to_name(), now + OPENING_TIMEOUT));
            return;
        }
        let response = match answer {
            Ok(parameters) => ControlResponse::new(200, "OK", parameters),
            Err(refusal) => {
                let existing = refusal.face.and_then(|face| faces::properties(face, host));
                ControlResponse::new(refusal.code, refusal.text, existing.unwrap_or_default())
            }
        };
        self.respond(interest.name(), response, out);
    }

    /// Answers a command. Where its name leaves no room to repeat its parameters, the answer has the code alone; if
    /// that does not fit either, there is no answer.
    fn respond(&self, name: NameRef<'_>, response: ControlResponse, out: &mut Vec<Vec<u8>>) {
        let builder = || DataBuilder::new(name).freshness_ms(ANSWER_FRESHNESS_MS);
        let mut wire = Vec::new();
        let mut answered = self.signer.data(builder(), &response.encode(), &mut wire);
        if answered.is_err() {
            let short = ControlResponse { parameters: None, ..response };
            answered = self.signer.data(builder(), &short.encode(), &mut wire);
        }
        if answered.is_ok() {
            out.push(wire);
        }
    }

    /// Answers an Interest for a dataset or a notification; false for any other Interest.
    fn dataset(
        &mut self,
        now: Duration,
        interest: &Interest<'_>,
        request: &ManagementRequest<'_>,
        host: &impl ManagementHost,
        out: &mut Vec<Vec<u8>>,
    ) -> bool {
        let name = interest.name();
        if (request.module, request.verb) == (b"faces", b"events") {
            out.extend(self.events.find(now, interest).map(<[u8]>::to_vec));
            return true;
        }
        // A command's name never ends so.
        if names_a_version(name) {
            out.extend(self.versions.find(now, name).map(<[u8]>::to_vec));
            return true;
        }
        let content = match (request.module, request.verb) {
            (b"status", b"general") => status::general(host),
            (b"faces", b"list") => faces::list(host),
            (b"faces", b"query") => {
                match request.parameters.map(|filter| faces::query(filter, host)) {
                    Some(Ok(content)) => content,
                    _ => return true,
                }
            }
            (b"faces", b"channels") => faces::channels(host),
            (b"fib", b"list") => tables::fib(host),
            (b"rib", b"list") => routes::list(&self.rib, now),
            (b"cs", b"info") => tables::cs_info(host),
            (b"strategy-choice", b"list") => tables::strategies(host),
            _ => return false,
        };
        // The version makes the name longer, so an Interest without CanBePrefix can't be answered.
        if interest.can_be_prefix() {
            out.extend(self.versions.publish(now, host.now_ms(), name, &content, &self.signer));
        }
        true
    }

    fn command(
        &mut self,
        now: Duration,
        from: FaceId,
        interest: &Interest<'_>,
        request: &ManagementRequest<'_>,
        host: &mut impl ManagementHost,
        out: &mut Vec<Vec<u8>>,
    ) -> Answer {
        let authority = match request.reach {
            CommandScope::Localhost => &self.localhost,
            CommandScope::Localhop => self.localhop.as_ref().unwrap_or(&self.localhost),
        };
        let signed = CommandSignature::of(interest);
        // Parameters and signature are not part of the command's name.
        let command = interest.name().prefix(PREFIX_LEN + 2);
        authority
            .check(command, signed.as_ref(), &mut self.guard, host.now_ms())
            .map_err(|denial| CommandRefusal::new(403, denial.to_string()))?;
        self.guard.persist(host.now_ms(), |times| host.keep_command_times(times))?;
        if (request.module, request.verb) == (b"rib", b"announce") {
            return self.announce(now, from, request.reach, interest, host);
        }
        let parameters =
            request.parameters.ok_or_else(|| malformed_command("ControlParameters are missing"))?;
        let parameters = ControlParameters::decode(parameters).map_err(|error: CodecError| {
            malformed_command(format!("ControlParameters: {error}"))
        })?;
        if parameters.flags.is_some() != parameters.mask.is_some() && request.module != b"rib" {
            return Err(malformed_command("Flags and Mask must be given together"));
        }
        let reach = request.reach;
        let command = ManagementCommand { now, from, reach, parameters, host, out };
        match (request.module, request.verb) {
            (b"faces", b"create") => self.create_face(command),
            (b"faces", b"update") => faces::update(command),
            (b"faces", b"destroy") => self.destroy_face(command),
            (b"fib", b"add-nexthop") => tables::add_next_hop(command),
            (b"fib", b"remove-nexthop") => tables::remove_next_hop(command),
            (b"rib", b"register") => self.register(command),
            (b"rib", b"unregister") => self.unregister(command),
            (b"cs", b"config") => tables::configure_cs(command),
            (b"cs", b"erase") => tables::erase_cs(command),
            (b"strategy-choice", b"set") => {
                tables::set_strategy(command, self.max_strategy_choices)
            }
            (b"strategy-choice", b"unset") => tables::unset_strategy(command),
            (b"faces" | b"fib" | b"rib" | b"cs" | b"strategy-choice" | b"status", _) => {
                Err(CommandRefusal::new(501, "no such verb"))
            }
            _ => Err(CommandRefusal::new(501, "no such module")),
        }
    }

    /// When to call [`Self::handle_timeout`]; `None` if nothing expires.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let opening = self.opening.values().map(|(_, until)| *until);
        let told = self.readvertise.as_ref().and_then(Readvertise::poll_timeout);
        self.rib.poll_timeout().into_iter().chain(opening).chain(told).min()
    }

    /// Removes expired routes, and faces that take too long to connect.
    pub fn handle_timeout(
        &mut self,
        now: Duration,
        host: &mut impl ManagementHost,
        out: &mut Vec<Vec<u8>>,
    ) {
        self.rib.handle_timeout(now, host.forwarder());
        let late =
            |(face, (_, until)): (&FaceId, &(Name, Duration))| (*until <= now).then_some(*face);
        let late: Vec<FaceId> = self.opening.iter().filter_map(late).collect();
        for face in late {
            host.destroy_face(face);
            self.face_failed(face, "no answer from there", out);
        }
        self.tell_daemon(now, host, out);
    }
}

/// The prefixes of the protocol.
fn own_prefixes() -> [Name; 2] {
    [b"localhost".as_slice(), b"localhop"]
        .map(|reach| Name::new().child(Component::generic(reach)).child(Component::generic(b"nfd")))
}

/// 400: the command is malformed.
fn malformed_command(text: impl Into<String>) -> CommandRefusal {
    CommandRefusal::new(400, text)
}

impl<H: ManagementHost> ManagementCommand<'_, H> {
    /// The prefix in the command's parameters.
    fn name(&self) -> Result<Name, CommandRefusal> {
        self.parameters.name.clone().ok_or_else(|| malformed_command("Name is missing"))
    }

    /// [`Self::name`] for a route. No command may change the routes of management itself.
    fn route_name(&self) -> Result<Name, CommandRefusal> {
        let name = self.name()?;
        if own_prefixes().iter().any(|own| own.as_ref().is_prefix_of(name.as_ref())) {
            return Err(CommandRefusal::new(403, "this prefix is the forwarder's own"));
        }
        Ok(name)
    }

    /// The face in the command's parameters, or the one that it came over.
    fn face(&self) -> FaceId {
        self.parameters.face_id.filter(|id| *id != 0).map_or(self.from, FaceId)
    }

    /// [`Self::face`], which has to exist.
    fn known_face(&self) -> Result<FaceId, CommandRefusal> {
        let face = self.face();
        match self.host.forwarder_ref().face_settings(face) {
            Some(_) => Ok(face),
            None => Err(CommandRefusal::new(410, "there is no such face")),
        }
    }
}

/// The protocol's refusal for a forwarder's error.
fn route_refusal(error: xylem_forward::RouteError) -> CommandRefusal {
    let code = match error {
        xylem_forward::RouteError::NoSuchFace => 410,
        xylem_forward::RouteError::PrefixTooLong => 414,
        _ => 503,
    };
    CommandRefusal::new(code, error.to_string())
}

/// The protocol's refusal for a RIB's error.
fn rib_refusal(error: RibError) -> CommandRefusal {
    match error {
        RibError::Fib(error) => route_refusal(error),
        full => CommandRefusal::new(503, full.to_string()),
    }
}

/// The new state of one flag of the content store; `None` if `mask` leaves it as it is.
fn switch(parameters: &ControlParameters, flag: u64) -> Option<bool> {
    let (flags, mask) = (parameters.flags?, parameters.mask?);
    (mask & flag != 0).then_some(flags & flag != 0)
}

/// The content store's flags.
fn cs_flags(admit: bool, serve: bool) -> u64 {
    let flag = |on, flag| if on { flag } else { 0 };
    flag(admit, types::CS_ADMIT) | flag(serve, types::CS_SERVE)
}
