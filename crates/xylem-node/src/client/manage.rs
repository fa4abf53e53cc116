//! Commanding a forwarder: the NFD management protocol over a [`Client`].
//!
//! Commands and datasets are xylem-mgmt's; here they are sent, and what a forwarder says becomes a
//! result. Works with our node, NFD and NDNd.

use std::time::Duration;

use xylem_mgmt::client::{self as protocol, Dataset};
use xylem_mgmt::{
    ControlParameters, CsStatus, Entry, FaceQueryFilter, FaceStatus, FaceUri, FibEntry,
    GeneralStatus, RibEntry, StrategyChoice, read_entries,
};
use xylem_packet::{Data, Interest, NameRef};
use xylem_trust::{Signer, Stamp};

use super::{Client, random_seed, refused};
use crate::failure;
use xylem_client::Reply;
use xylem_library::clock::now_ms;
use xylem_library::{Blame, Error, Stop};
use xylem_trust::TrustPolicy;

/// How long a forwarder may take to answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// Segments of a dataset that are asked again.
const TRIES: u32 = 3;
/// What a forwarder answers if all went well.
const SUCCESS: u64 = 200;

/// A forwarder's management, over one connection to it.
pub struct Manager<'a> {
    client: &'a mut Client,
    signer: &'a Signer,
    stop: &'a Stop,
    local: bool,
}

/// What a forwarder said to a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// 200 is success.
    pub code: u64,
    /// The same in words.
    pub text: String,
    /// What was done, or what stands in the way.
    pub parameters: ControlParameters,
}

impl<'a> Manager<'a> {
    /// Manages the forwarder that `client` is connected to; commands are signed by `signer`.
    pub fn new(client: &'a mut Client, signer: &'a Signer, stop: &'a Stop) -> Self {
        let local = client.at().parse::<FaceUri>().is_ok_and(|uri| protocol::is_local(&uri));
        Self { client, signer, stop, local }
    }

    /// Gives a command; what the forwarder says to it, good or bad.
    ///
    /// # Errors
    /// [`Blame::Network`] if it does not answer, [`Blame::Data`] if the answer is damaged,
    /// [`Blame::Usage`] for parameters that fit no Interest, [`Blame::Interrupted`].
    pub fn ask(
        &mut self,
        module: &str,
        verb: &str,
        parameters: &ControlParameters,
    ) -> Result<Answer, Error> {
        let stamp = Stamp::new(random_seed()?.to_be_bytes(), now_ms());
        let nonce = nonce()?;
        let command =
            protocol::command(self.local, module, verb, parameters, self.signer, stamp, nonce)
                .map_err(|e| failure::usage(format!("{module}/{verb}: {e}")))?;
        let what = format!("the forwarder's answer to {module}/{verb}");
        let packet = self.send(&command, &what)?;
        let bad = |why: String| refused(&what, &why);
        let data = Data::decode(&packet).map_err(|e| bad(e.to_string()))?;
        let interest = Interest::decode(&command).map_err(|e| bad(e.to_string()))?;
        let response = protocol::response(&interest, &data).map_err(|e| bad(e.to_string()))?;
        Ok(Answer {
            code: response.code,
            text: response.text,
            parameters: response.parameters.unwrap_or_default(),
        })
    }

    /// As [`Self::ask`], for a command that has to succeed.
    ///
    /// # Errors
    /// Those, and [`Blame::Usage`] or [`Blame::Network`] if the forwarder refuses.
    pub fn command(
        &mut self,
        module: &str,
        verb: &str,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, Error> {
        let answer = self.ask(module, verb, parameters)?;
        match answer.code {
            SUCCESS => Ok(answer.parameters),
            _ => Err(answer.error(module, verb)),
        }
    }

    /// The forwarder's face to `uri`, made if it has none.
    ///
    /// # Errors
    /// As for [`Self::command`].
    pub fn face_to(&mut self, parameters: &ControlParameters) -> Result<ControlParameters, Error> {
        let answer = self.ask("faces", "create", parameters)?;
        match (answer.code, answer.parameters.face_id) {
            // 409: there is one already, and which.
            (SUCCESS | 409, Some(_)) => Ok(answer.parameters),
            _ => Err(answer.error("faces", "create")),
        }
    }

    /// status/general.
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub fn status(&mut self) -> Result<GeneralStatus, Error> {
        let content = self.dataset(Dataset::new(self.local, "status", "general"))?;
        GeneralStatus::from_value(&content).map_err(|e| refused("status/general", &e.to_string()))
    }

    /// faces/list, or those faces that agree with a filter.
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub fn faces(&mut self, filter: Option<&FaceQueryFilter>) -> Result<Vec<FaceStatus>, Error> {
        let dataset = match filter {
            None => Dataset::new(self.local, "faces", "list"),
            Some(filter) => Dataset::faces(self.local, filter),
        };
        self.entries(dataset, "faces")
    }

    /// fib/list.
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub fn fib(&mut self) -> Result<Vec<FibEntry>, Error> {
        self.entries(Dataset::new(self.local, "fib", "list"), "fib/list")
    }

    /// rib/list.
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub fn rib(&mut self) -> Result<Vec<RibEntry>, Error> {
        self.entries(Dataset::new(self.local, "rib", "list"), "rib/list")
    }

    /// strategy-choice/list.
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub fn strategies(&mut self) -> Result<Vec<StrategyChoice>, Error> {
        self.entries(Dataset::new(self.local, "strategy-choice", "list"), "strategy-choice/list")
    }

    /// cs/info.
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub fn cs(&mut self) -> Result<CsStatus, Error> {
        let found = self.entries(Dataset::new(self.local, "cs", "info"), "cs/info")?;
        found.into_iter().next().ok_or_else(|| refused("cs/info", "it is empty"))
    }

    fn entries<E: Entry>(&mut self, dataset: Dataset, what: &str) -> Result<Vec<E>, Error> {
        let content = self.dataset(dataset)?;
        read_entries(&content).map_err(|e| refused(what, &e.to_string()))
    }

    fn dataset(&mut self, mut dataset: Dataset) -> Result<Vec<u8>, Error> {
        let mut tries = 0;
        loop {
            let interest = dataset.interest(nonce()?).map_err(|e| failure::usage(e.to_string()))?;
            let packet = self.send(&interest, "the forwarder's dataset")?;
            let bad = |why: String| refused("the forwarder's dataset", &why);
            let data = Data::decode(&packet).map_err(|e| bad(e.to_string()))?;
            match dataset.data(&data) {
                Ok(Some(content)) => return Ok(content),
                Ok(None) => tries = 0,
                Err(_) if tries < TRIES => tries += 1,
                Err(e) => return Err(bad(e.to_string())),
            }
        }
    }

    /// Sends an Interest; its Data, whose digest, if that is all it has, is right.
    fn send(&mut self, interest: &[u8], what: &str) -> Result<Vec<u8>, Error> {
        let network = |why: String| Error { blame: Blame::Network, message: why };
        let at = self.client.at().to_owned();
        let packet = match self.client.fetch(interest.to_vec(), PATIENCE, self.stop)? {
            Reply::Data(packet) => packet,
            Reply::Nack(reason) => {
                let why = format!("{at} does not let itself be managed here (Nack {})", reason.0);
                return Err(network(why));
            }
            Reply::Timeout => {
                return Err(network(format!("{what}: nothing came within {PATIENCE:?} from {at}")));
            }
        };
        let data = Data::decode(&packet).map_err(|e| refused(what, &e.to_string()))?;
        let verdict = TrustPolicy::Nobody.verdict(&data, now_ms());
        verdict.map_err(|why| refused(what, &why.to_string()))?;
        Ok(packet)
    }
}

impl Answer {
    /// The refusal as an error: what was asked is wrong (400 to 499, but for 403), or can't be done.
    fn error(&self, module: &str, verb: &str) -> Error {
        let blame = match self.code {
            403 => Blame::Network,
            400..=499 => Blame::Usage,
            _ => Blame::Network,
        };
        let message = format!("the forwarder refuses {module}/{verb}: {} {}", self.code, self.text);
        Error { blame, message }
    }
}

impl Client {
    /// Asks the forwarder to send Interests under `prefix` here.
    ///
    /// # Errors
    /// [`Blame::Network`] if it refuses or does not answer, [`Blame::Interrupted`] if `stop` was
    /// raised.
    pub fn register(&mut self, prefix: NameRef<'_>, stop: &Stop) -> Result<(), Error> {
        let parameters =
            ControlParameters { name: Some(prefix.to_name()), ..ControlParameters::default() };
        let signer = Signer::digest_sha256();
        Manager::new(self, &signer, stop).command("rib", "register", &parameters).map(drop)
    }
}

fn nonce() -> Result<[u8; 4], Error> {
    Ok((random_seed()? as u32).to_be_bytes())
}
