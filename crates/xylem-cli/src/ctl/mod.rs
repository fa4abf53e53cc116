//! `xylem ndn ctl`: shows and changes the state of a forwarder, ours or NFD's or NDNd's.

mod change;
mod show;

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::output::Out;
use crate::peek::AtArgs;
use crate::stop;
use crate::values::parse_seconds;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;
use std::str::FromStr;
use std::time::Duration;
use xylem_app::{Client, SignWith};
use xylem_base::Stop;
use xylem_node::PeerUri;
use xylem_packet::Name;

type Manager<'a> = xylem_client::Manager<'a, Client>;

/// Shows and changes what a forwarder does: xylem's, NFD's or NDNd's
///
/// Speaks the NFD management protocol. With --json each row is a JSON object.
#[derive(Debug, Args)]
#[command(arg_required_else_help = false, after_help = concat!(
    "Examples:
  xylem ndn ctl status                             its version and its counters
  xylem ndn ctl face list                          its faces with their counters
  xylem ndn ctl face create udp://192.0.2.7        a face to another forwarder
  xylem ndn ctl route add /alice udp://192.0.2.7   Interests under /alice go there
  xylem ndn ctl strategy set /alice multicast      and everywhere else that there is a route
  xylem ndn ctl cs erase /alice --at tcp://127.0.0.1
  xylem ndn ctl face list --scheme udp4            its faces over UDP and IPv4
  xylem ndn ctl report                             all that can be shown

",
    exit_help!()
))]
pub(crate) struct CtlArgs {
    #[command(subcommand)]
    what: CtlCommand,

    #[command(flatten)]
    at: AtArgs,

    /// Sign with this key, or a digest
    ///
    /// The forms are those of `ndn put`.
    #[arg(long, value_name = "KEY", default_value = "digest-sha256", global = true)]
    sign: SignWith,
}

#[derive(Debug, Subcommand)]
enum CtlCommand {
    /// Version, uptime, tables and counters
    Status,
    /// Status and all lists below, one after the other
    Report,
    /// Faces: the connections of the forwarder
    #[command(subcommand, arg_required_else_help = false)]
    Face(FaceCommand),
    /// Channels: the sockets at which the forwarder accepts new faces
    #[command(subcommand, arg_required_else_help = false)]
    Channel(ChannelCommand),
    /// Routes: next hops for prefixes, and their origins
    #[command(subcommand, arg_required_else_help = false)]
    Route(RouteCommand),
    /// The forwarding table that follows from the routes
    #[command(subcommand, arg_required_else_help = false)]
    Fib(FibCommand),
    /// The content store
    #[command(subcommand, arg_required_else_help = false)]
    Cs(CsCommand),
    /// Forwarding strategies
    #[command(subcommand, arg_required_else_help = false)]
    Strategy(StrategyCommand),
}

#[derive(Debug, Subcommand)]
enum FaceCommand {
    /// Shows all faces, or some of them
    List(FaceList),
    /// Shows one face
    Show {
        /// The face's number, or the URI of its remote end
        face: NextHopArg,
    },
    /// Makes a face; one that exists is changed instead
    Create(FaceCreate),
    /// Changes a face
    Update {
        /// The face's number, or the URI of its remote end
        face: NextHopArg,
        #[command(flatten)]
        properties: FaceProperties,
    },
    /// Ends a face
    Destroy {
        /// The face's number, or the URI of its remote end
        face: NextHopArg,
    },
}

#[derive(Debug, Subcommand)]
enum ChannelCommand {
    /// Shows all channels
    List,
}

/// Which faces to show: those that fit all of these.
#[derive(Debug, Default, Args)]
struct FaceList {
    /// Only faces with this remote URI
    uri: Option<String>,

    /// Only faces with this local URI
    #[arg(long, value_name = "URI")]
    local: Option<String>,

    /// Only faces with this scheme at one end: udp4, udp6, tcp4, tcp6, unix, ws, xylem and others
    #[arg(long, value_name = "SCHEME")]
    scheme: Option<String>,
}

#[derive(Debug, Args)]
struct FaceCreate {
    /// URI of the remote end: udp://HOST[:PORT], tcp://HOST[:PORT] and others that the forwarder knows
    uri: String,

    /// URI of the local end, if the choice matters
    #[arg(long, value_name = "URI")]
    local: Option<String>,

    #[command(flatten)]
    properties: FaceProperties,
}

/// What can be changed about a face.
#[derive(Clone, Copy, Debug, Args)]
struct FaceProperties {
    /// How long it lives
    #[arg(long, value_name = "HOW")]
    persistency: Option<PersistencyArg>,

    /// Longest frame in bytes
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u64>,

    /// Whether lost frames are sent again
    #[arg(long, value_name = "ON|OFF")]
    reliability: Option<Switch>,

    /// Whether packets are marked while its queue is long
    #[arg(long, value_name = "ON|OFF")]
    congestion_marking: Option<Switch>,
}

/// How long a face lives.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PersistencyArg {
    /// Until it fails or is destroyed
    Persistent,
    /// Until it has been idle for a while
    OnDemand,
    /// Until it is destroyed
    Permanent,
}

#[derive(Debug, Subcommand)]
enum RouteCommand {
    /// Shows all routes, or some of them
    List(RouteList),
    /// Adds a route, or changes it
    Add(RouteAdd),
    /// Removes a route
    Remove {
        /// Its prefix
        prefix: Name,
        /// Its face: a number, or the URI of the remote end
        next_hop: NextHopArg,
        /// The origin of the route
        #[arg(long, value_name = "N", default_value = "255")]
        origin: u64,
    },
}

/// Which routes to show: those that fit all of these.
#[derive(Debug, Default, Args)]
struct RouteList {
    /// Only routes of this prefix
    prefix: Option<Name>,

    /// Only routes to this face: a number, or the URI of the remote end
    #[arg(long, value_name = "FACE")]
    next_hop: Option<NextHopArg>,

    /// Only routes of this origin: 255 is a person, 0 a program
    #[arg(long, value_name = "N")]
    origin: Option<u64>,
}

#[derive(Debug, Args)]
struct RouteAdd {
    /// The prefix of the route
    prefix: Name,

    /// The next hop: a face's number, or a URI, for which a face is made if there is none
    next_hop: NextHopArg,

    /// Cost of the route; lower is better
    #[arg(long, value_name = "N", default_value = "0")]
    cost: u64,

    /// The origin of the route: 255 is a person, 0 a program
    #[arg(long, value_name = "N", default_value = "255")]
    origin: u64,

    /// The route ends after this long [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    expires: Option<Duration>,

    /// Longer prefixes with routes of their own do not use this route
    #[arg(long)]
    no_inherit: bool,

    /// The route hides routes of shorter prefixes
    #[arg(long)]
    capture: bool,
}

#[derive(Debug, Subcommand)]
enum FibCommand {
    /// Shows all entries
    List,
}

#[derive(Debug, Subcommand)]
enum CsCommand {
    /// Size, hits and misses
    Info,
    /// Sets the capacity, and whether Data are stored and Interests answered
    Config {
        /// Capacity in packets
        #[arg(long, value_name = "N")]
        capacity: Option<u64>,
        /// Whether Data are stored
        #[arg(long, value_name = "ON|OFF")]
        admit: Option<Switch>,
        /// Whether Interests are answered from it
        #[arg(long, value_name = "ON|OFF")]
        serve: Option<Switch>,
    },
    /// Removes Data under a prefix
    Erase {
        /// The prefix
        prefix: Name,
        /// Remove at most this many packets
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// Yes
    On,
    /// No
    Off,
}

#[derive(Debug, Subcommand)]
enum StrategyCommand {
    /// Shows the strategy of each prefix
    List,
    /// Shows the strategy that a name gets
    Show {
        /// The name
        name: Name,
    },
    /// Chooses a strategy for a prefix
    Set {
        /// The prefix
        prefix: Name,
        /// best-route, multicast, asf, random, access, self-learning, or a strategy's whole name, which may end in
        /// parameters: /retx-suppression-initial~MS, -max~MS and -multiplier~X; asf's also /probing-interval~MS and
        /// /max-timeouts~N
        strategy: StrategyName,
    },
    /// Removes the choice of a prefix
    Unset {
        /// The prefix
        prefix: Name,
    },
}

/// A face's number, or the URI of its remote end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NextHopArg {
    Face(u64),
    Uri(String),
}

impl FromStr for NextHopArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.parse() {
            return Ok(Self::Face(number));
        }
        match text.contains("://") {
            true => Ok(Self::Uri(text.to_owned())),
            false => {
                Err(format!("{text:?} is neither a face's number nor a URI such as udp://HOST"))
            }
        }
    }
}

/// The whole name of a strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StrategyName(Name);

impl FromStr for StrategyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri = match text.contains('/') {
            true => text.to_owned(),
            false => format!("/localhost/nfd/strategy/{text}"),
        };
        uri.parse().map(Self).map_err(|error| format!("{text:?} is not a strategy: {error}"))
    }
}

/// Runs `xylem ndn ctl`.
pub(crate) fn run(args: CtlArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let stop = stop::on_signals()?;
    let store = match args.sign {
        SignWith::Publisher | SignWith::Named(_) => common.store()?,
        _ => std::path::PathBuf::new(),
    };
    let signer = args.sign.signer(&store)?;
    let mut client = Client::connect(args.at.at.as_ref(), &stop)?;
    let mut manager = Manager::new(&mut client, &signer);
    let manager = &mut manager;
    match args.what {
        CtlCommand::Status => show::status(manager, out),
        CtlCommand::Report => show::report(manager, out),
        CtlCommand::Face(FaceCommand::List(which)) => show::faces(manager, which, out),
        CtlCommand::Face(FaceCommand::Show { face }) => show::one_face(manager, &face, out),
        CtlCommand::Face(FaceCommand::Create(face)) => change::create_face(manager, face, out),
        CtlCommand::Face(FaceCommand::Update { face, properties }) => {
            change::update_face(manager, &face, properties, out)
        }
        CtlCommand::Face(FaceCommand::Destroy { face }) => {
            change::destroy_face(manager, &face, out)
        }
        CtlCommand::Channel(ChannelCommand::List) => show::channels(manager, out),
        CtlCommand::Route(RouteCommand::List(which)) => show::routes(manager, &which, out),
        CtlCommand::Route(RouteCommand::Add(route)) => change::add_route(manager, route, out),
        CtlCommand::Route(RouteCommand::Remove { prefix, next_hop, origin }) => {
            change::remove_route(manager, prefix, &next_hop, origin, out)
        }
        CtlCommand::Fib(FibCommand::List) => show::fib(manager, out),
        CtlCommand::Cs(CsCommand::Info) => show::cs(manager, out),
        CtlCommand::Cs(CsCommand::Config { capacity, admit, serve }) => {
            change::configure_cs(manager, capacity, admit, serve, out)
        }
        CtlCommand::Cs(CsCommand::Erase { prefix, count }) => {
            change::erase_cs(manager, prefix, count, out)
        }
        CtlCommand::Strategy(StrategyCommand::List) => show::strategies(manager, out),
        CtlCommand::Strategy(StrategyCommand::Show { name }) => {
            show::strategy_of(manager, &name, out)
        }
        CtlCommand::Strategy(StrategyCommand::Set { prefix, strategy }) => {
            change::set_strategy(manager, prefix, strategy.0, out)
        }
        CtlCommand::Strategy(StrategyCommand::Unset { prefix }) => {
            change::unset_strategy(manager, prefix, out)
        }
    }?;
    Ok(Exit::Done)
}

/// Fetches all management datasets of a forwarder, repeatedly over one connection.
pub(crate) struct DatasetPoller {
    at: Option<PeerUri>,
    stop: Stop,
    client: Option<Client>,
}

impl DatasetPoller {
    pub(crate) fn new(at: Option<PeerUri>, stop: &Stop) -> Self {
        Self { at, stop: stop.clone(), client: None }
    }

    /// Fetches the datasets once. An error if no forwarder is there; the next call connects again.
    pub(crate) fn look(&mut self) -> Result<Value, CommandFailure> {
        // Datasets are fetched by plain Interests, so nothing is signed.
        let signer = SignWith::DigestSha256.signer(std::path::Path::new(""))?;
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(self.at.as_ref(), &self.stop)?,
        };
        let seen = show::everything(&mut Manager::new(&mut client, &signer))?;
        self.client = Some(client);
        Ok(seen)
    }
}
