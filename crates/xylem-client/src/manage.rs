//! [`Manager`]: the NFD management protocol over a [`Driver`]'s connection.
//!
//! `xylem-mgmt` defines commands and datasets. This module sends them and turns a forwarder's answer into a result. It
//! works with our node, NFD and NDNd.

use std::time::Duration;

use xylem_mgmt::client::{self as protocol, Dataset};
use xylem_mgmt::{
    ChannelStatus, CommandScope, ControlParameters, CsStatus, Entry, FaceQueryFilter, FaceStatus,
    FaceUri, FibEntry, GeneralStatus, PrefixAnnouncement, RibEntry, StrategyChoice, read_entries,
};
use xylem_packet::{Data, Interest, NameRef};
use xylem_trust::{CommandStamp, Signer, TrustPolicy, ValidityPeriod};

use crate::error::EmptyDataset;
use crate::{ClientError, Driver, ExchangeReply, PacketOverflow};

/// Time limit for a forwarder's answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// Most repeated requests for a segment of a dataset.
const TRIES: u32 = 3;
/// Status code of success.
const SUCCESS: u64 = 200;

/// A forwarder's management, over one connection to it.
pub struct Manager<'a, D> {
    driver: &'a mut D,
    signer: &'a Signer,
    scope: CommandScope,
}

/// A forwarder's answer to a command.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandAnswer {
    /// Status code; 200 is success.
    pub code: u64,
    /// Status text.
    pub text: String,
    /// The parameters that took effect, or the conflicting ones.
    pub parameters: ControlParameters,
}

impl<'a, D: Driver> Manager<'a, D> {
    /// Manages the forwarder that `driver` is connected to. `signer` signs the commands.
    pub fn new(driver: &'a mut D, signer: &'a Signer) -> Self {
        let at = driver.at().parse::<FaceUri>();
        let scope = at.map_or(CommandScope::Localhop, |uri| CommandScope::of(&uri));
        Self { driver, signer, scope }
    }

    /// Sends a command. Returns the forwarder's answer, whether success or refusal.
    ///
    /// # Errors
    /// No answer, a damaged answer, parameters that fit no Interest, and any error that ends the run.
    pub fn send_command(
        &mut self,
        module: &str,
        verb: &str,
        parameters: &ControlParameters,
    ) -> Result<CommandAnswer, D::Error> {
        let stamp = CommandStamp::new(self.driver.seed()?.to_be_bytes(), self.driver.now_ms());
        let nonce = self.driver.nonce()?;
        let command =
            protocol::command(self.scope, module, verb, parameters, self.signer, stamp, nonce)
                .map_err(|e| ClientError::bad_name(format!("{module}/{verb}"), e))?;
        self.answer(module, verb, &command)
    }

    /// Announces a prefix, so that its Interests are sent here. Returns the forwarder's answer, whether success or
    /// refusal.
    ///
    /// # Errors
    /// As for [`Self::send_command`].
    pub fn announce(&mut self, announcement: &[u8]) -> Result<CommandAnswer, D::Error> {
        let stamp = CommandStamp::new(self.driver.seed()?.to_be_bytes(), self.driver.now_ms());
        let nonce = self.driver.nonce()?;
        let command = protocol::announce(self.scope, announcement, self.signer, stamp, nonce)
            .map_err(|e| ClientError::bad_name("rib/announce", e))?;
        self.answer("rib", "announce", &command)
    }

    /// Sends a command, and reads the answer.
    fn answer(
        &mut self,
        module: &str,
        verb: &str,
        command: &[u8],
    ) -> Result<CommandAnswer, D::Error> {
        let what = format!("the forwarder's answer to {module}/{verb}");
        let packet = self.send(command, &what)?;
        let data = Data::decode(&packet).map_err(|e| ClientError::not_believed(&what, e))?;
        let interest =
            Interest::decode(command).map_err(|e| ClientError::not_believed(&what, e))?;
        let response = protocol::response(&interest, &data)
            .map_err(|e| ClientError::not_believed(&what, e))?;
        Ok(CommandAnswer {
            code: response.code,
            text: response.text,
            parameters: response.parameters.unwrap_or_default(),
        })
    }

    /// As [`Self::send_command`], for a command that has to succeed.
    ///
    /// # Errors
    /// Those, and [`ClientError::Refused`].
    pub fn command(
        &mut self,
        module: &str,
        verb: &str,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, D::Error> {
        let answer = self.send_command(module, verb, parameters)?;
        match answer.code {
            SUCCESS => Ok(answer.parameters),
            _ => Err(answer.refused(module, verb).into()),
        }
    }

    /// The forwarder's face to the given URI, created if it has none.
    ///
    /// # Errors
    /// As for [`Self::command`].
    pub fn face_to(
        &mut self,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, D::Error> {
        self.create_face(parameters).map(|(_, face)| face)
    }

    /// As [`Self::face_to`], and whether the face is a new one. An existing face stays as it is, whatever the parameters.
    ///
    /// # Errors
    /// As for [`Self::command`].
    pub fn create_face(
        &mut self,
        parameters: &ControlParameters,
    ) -> Result<(bool, ControlParameters), D::Error> {
        let answer = self.send_command("faces", "create", parameters)?;
        match (answer.code, answer.parameters.face_id) {
            (SUCCESS, Some(_)) => Ok((true, answer.parameters)),
            // There is such a face already; the answer names it.
            (409, Some(_)) => Ok((false, answer.parameters)),
            _ => Err(answer.refused("faces", "create").into()),
        }
    }

    /// Dataset `status/general`.
    ///
    /// # Errors
    /// As for [`Self::send_command`].
    pub fn status(&mut self) -> Result<GeneralStatus, D::Error> {
        let content = self.dataset(Dataset::new(self.scope, "status", "general"))?;
        let status = GeneralStatus::from_value(&content);
        Ok(status.map_err(|e| ClientError::not_believed("status/general", e))?)
    }

    /// Dataset `faces/list`, or the faces that match a filter.
    ///
    /// # Errors
    /// As for [`Self::send_command`].
    pub fn faces(&mut self, filter: Option<&FaceQueryFilter>) -> Result<Vec<FaceStatus>, D::Error> {
        let dataset = match filter {
            None => Dataset::new(self.scope, "faces", "list"),
            Some(filter) => Dataset::faces(self.scope, filter),
        };
        self.entries(dataset, "faces")
    }

    /// Dataset `faces/channels`: the sockets that accept new faces.
    ///
    /// # Errors
    /// As for [`Self::send_command`].
    pub fn channels(&mut self) -> Result<Vec<ChannelStatus>, D::Error> {
        self.entries(Dataset::new(self.scope, "faces", "channels"), "faces/channels")
    }

    /// Dataset `fib/list`.
    ///
    /// # Errors
    /// As for [`Self::send_command`].
    pub fn fib(&mut self) -> Result<Vec<FibEntry>, D::Error> {
        self.entries(Dataset::new(self.scope, "fib", "list"), "fib/list")
    }

    /// Dataset `rib/list`.
    ///
    /// # Errors
    /// As for [`Self::send_command`].
    pub fn rib(&mut self) -> Result<Vec<RibEntry>, D::Error> {
        self.entries(Dataset::new(self.scope, "rib", "list"), "rib/list")
    }

    /// Dataset `strategy-choice/list`.
    ///
    /// # Errors
    /// As for [`Self::send_command`].
    pub fn strategies(&mut self) -> Result<Vec<StrategyChoice>, D::Error> {
        self.entries(Dataset::new(self.scope, "strategy-choice", "list"), "strategy-choice/list")
    }

    /// Dataset `cs/info`.
    ///
    /// # Errors
    /// As for [`Self::send_command`].
    pub fn cs(&mut self) -> Result<CsStatus, D::Error> {
        let found = self.entries(Dataset::new(self.scope, "cs", "info"), "cs/info")?;
        let first = found.into_iter().next();
        Ok(first.ok_or_else(|| ClientError::not_believed("cs/info", EmptyDataset))?)
    }

    fn entries<E: Entry>(&mut self, dataset: Dataset, what: &str) -> Result<Vec<E>, D::Error> {
        let content = self.dataset(dataset)?;
        Ok(read_entries(&content).map_err(|e| ClientError::not_believed(what, e))?)
    }

    fn dataset(&mut self, mut dataset: Dataset) -> Result<Vec<u8>, D::Error> {
        let what = "the forwarder's dataset";
        let mut tries = 0;
        loop {
            let interest = dataset.interest(self.driver.nonce()?);
            let interest = interest.map_err(|e| ClientError::from(PacketOverflow::Dataset(e)))?;
            let packet = self.send(&interest, what)?;
            let data = Data::decode(&packet).map_err(|e| ClientError::not_believed(what, e))?;
            match dataset.data(&data) {
                Ok(Some(content)) => return Ok(content),
                Ok(None) => tries = 0,
                Err(_) if tries < TRIES => tries += 1,
                Err(e) => return Err(ClientError::not_believed(what, e).into()),
            }
        }
    }

    /// Sends an Interest and returns its Data. If the Data has a digest as its signature, the digest is checked.
    fn send(&mut self, interest: &[u8], what: &str) -> Result<Vec<u8>, D::Error> {
        let reply = self.driver.fetch(interest.to_vec(), PATIENCE)?;
        let at = self.driver.at().to_owned();
        let packet = match reply {
            ExchangeReply::Data(packet) => packet,
            ExchangeReply::Nack(reason) => {
                return Err(ClientError::NotManaged { at, reason }.into());
            }
            ExchangeReply::Timeout => {
                let what = what.to_owned();
                return Err(ClientError::Silent { what, at, after: PATIENCE }.into());
            }
        };
        let data = Data::decode(&packet).map_err(|e| ClientError::not_believed(what, e))?;
        let verdict = TrustPolicy::Nobody.verdict(&data, self.driver.now_ms());
        verdict.map_err(|why| ClientError::not_believed(what, why))?;
        Ok(packet)
    }
}

impl CommandAnswer {
    fn refused(self, module: &str, verb: &str) -> ClientError {
        let command = format!("{module}/{verb}");
        ClientError::Refused { command, code: self.code, text: self.text }
    }
}

/// Asks the forwarder to send Interests under `prefix` here. `signer` signs the command: forwarders with trust anchors
/// accept no digest.
///
/// # Errors
/// As for [`Manager::command`].
pub fn register<D: Driver>(
    driver: &mut D,
    prefix: NameRef<'_>,
    signer: &Signer,
) -> Result<(), D::Error> {
    let parameters =
        ControlParameters { name: Some(prefix.to_name()), ..ControlParameters::default() };
    Manager::new(driver, signer).command("rib", "register", &parameters).map(drop)
}

/// Lifetime of an announcement by [`announce`], for which forwarders may pass it on.
pub const ANNOUNCED_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// As [`register`], by an announcement of the prefix that `signer` signs. Forwarders that learn routes by themselves
/// pass it on.
///
/// # Errors
/// As for [`Manager::command`].
pub fn announce<D: Driver>(
    driver: &mut D,
    prefix: NameRef<'_>,
    signer: &Signer,
) -> Result<(), D::Error> {
    let now_ms = driver.now_ms();
    let lasts_ms = u64::try_from(ANNOUNCED_FOR.as_millis()).unwrap_or(u64::MAX);
    // Start a minute early, for forwarders with slow clocks.
    let validity = ValidityPeriod {
        not_before_ms: now_ms.saturating_sub(60_000),
        not_after_ms: now_ms.saturating_add(lasts_ms),
    };
    let announcement = PrefixAnnouncement::sign(prefix, now_ms, lasts_ms, Some(validity), signer)
        .map_err(|e| ClientError::bad_name(prefix, e))?;
    let answer = Manager::new(driver, signer).announce(&announcement)?;
    match answer.code {
        SUCCESS => Ok(()),
        _ => Err(answer.refused("rib", "announce").into()),
    }
}
