//! [`Manager`]: the NFD management protocol over a [`Driver`]'s connection.
//!
//! Commands and datasets are xylem-mgmt's; here they are sent, and what a forwarder says becomes a
//! result. Works with our node, NFD and NDNd.

use std::time::Duration;

use xylem_mgmt::client::{self as protocol, Dataset};
use xylem_mgmt::{
    ControlParameters, CsStatus, Entry, FaceQueryFilter, FaceStatus, FaceUri, FibEntry,
    GeneralStatus, PrefixAnnouncement, RibEntry, StrategyChoice, read_entries,
};
use xylem_packet::{Data, Interest, NameRef};
use xylem_trust::{Signer, Stamp, TrustPolicy, ValidityPeriod};

use crate::{ClientError, Driver, Reply};

/// How long a forwarder may take to answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// Segments of a dataset that are asked again.
const TRIES: u32 = 3;
/// What a forwarder answers if all went well.
const SUCCESS: u64 = 200;

/// A forwarder's management, over one connection to it.
pub struct Manager<'a, D> {
    driver: &'a mut D,
    signer: &'a Signer,
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

impl<'a, D: Driver> Manager<'a, D> {
    /// Manages the forwarder that `driver` is connected to; commands are signed by `signer`.
    pub fn new(driver: &'a mut D, signer: &'a Signer) -> Self {
        let local = driver.at().parse::<FaceUri>().is_ok_and(|uri| protocol::is_local(&uri));
        Self { driver, signer, local }
    }

    /// Gives a command; what the forwarder says to it, good or bad.
    ///
    /// # Errors
    /// It does not answer, its answer is damaged, the parameters fit no Interest, and what ends the
    /// run.
    pub fn ask(
        &mut self,
        module: &str,
        verb: &str,
        parameters: &ControlParameters,
    ) -> Result<Answer, D::Error> {
        let stamp = Stamp::new(self.driver.seed()?.to_be_bytes(), self.driver.now_ms());
        let nonce = self.driver.nonce()?;
        let command =
            protocol::command(self.local, module, verb, parameters, self.signer, stamp, nonce)
                .map_err(|e| ClientError::bad_name(format!("{module}/{verb}"), e))?;
        self.answer(module, verb, &command)
    }

    /// Announces a prefix, which leads here from then on; what the forwarder says to it, good or bad.
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub fn announce(&mut self, announcement: &[u8]) -> Result<Answer, D::Error> {
        let stamp = Stamp::new(self.driver.seed()?.to_be_bytes(), self.driver.now_ms());
        let nonce = self.driver.nonce()?;
        let command = protocol::announce(self.local, announcement, self.signer, stamp, nonce)
            .map_err(|e| ClientError::bad_name("rib/announce", e))?;
        self.answer("rib", "announce", &command)
    }

    /// Sends a command, and reads the answer.
    fn answer(&mut self, module: &str, verb: &str, command: &[u8]) -> Result<Answer, D::Error> {
        let what = format!("the forwarder's answer to {module}/{verb}");
        let packet = self.send(command, &what)?;
        let data = Data::decode(&packet).map_err(|e| ClientError::not_believed(&what, e))?;
        let interest =
            Interest::decode(command).map_err(|e| ClientError::not_believed(&what, e))?;
        let response = protocol::response(&interest, &data)
            .map_err(|e| ClientError::not_believed(&what, e))?;
        Ok(Answer {
            code: response.code,
            text: response.text,
            parameters: response.parameters.unwrap_or_default(),
        })
    }

    /// As [`Self::ask`], for a command that has to succeed.
    ///
    /// # Errors
    /// Those, and [`ClientError::Refused`].
    pub fn command(
        &mut self,
        module: &str,
        verb: &str,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, D::Error> {
        let answer = self.ask(module, verb, parameters)?;
        match answer.code {
            SUCCESS => Ok(answer.parameters),
            _ => Err(answer.refused(module, verb).into()),
        }
    }

    /// The forwarder's face to `uri`, made if it has none.
    ///
    /// # Errors
    /// As for [`Self::command`].
    pub fn face_to(
        &mut self,
        parameters: &ControlParameters,
    ) -> Result<ControlParameters, D::Error> {
        let answer = self.ask("faces", "create", parameters)?;
        match (answer.code, answer.parameters.face_id) {
            // 409: there is one already, and which.
            (SUCCESS | 409, Some(_)) => Ok(answer.parameters),
            _ => Err(answer.refused("faces", "create").into()),
        }
    }

    /// status/general.
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub fn status(&mut self) -> Result<GeneralStatus, D::Error> {
        let content = self.dataset(Dataset::new(self.local, "status", "general"))?;
        let status = GeneralStatus::from_value(&content);
        Ok(status.map_err(|e| ClientError::not_believed("status/general", e))?)
    }

    /// faces/list, or those faces that agree with a filter.
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub fn faces(&mut self, filter: Option<&FaceQueryFilter>) -> Result<Vec<FaceStatus>, D::Error> {
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
    pub fn fib(&mut self) -> Result<Vec<FibEntry>, D::Error> {
        self.entries(Dataset::new(self.local, "fib", "list"), "fib/list")
    }

    /// rib/list.
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub fn rib(&mut self) -> Result<Vec<RibEntry>, D::Error> {
        self.entries(Dataset::new(self.local, "rib", "list"), "rib/list")
    }

    /// strategy-choice/list.
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub fn strategies(&mut self) -> Result<Vec<StrategyChoice>, D::Error> {
        self.entries(Dataset::new(self.local, "strategy-choice", "list"), "strategy-choice/list")
    }

    /// cs/info.
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub fn cs(&mut self) -> Result<CsStatus, D::Error> {
        let found = self.entries(Dataset::new(self.local, "cs", "info"), "cs/info")?;
        let first = found.into_iter().next();
        Ok(first.ok_or_else(|| ClientError::not_believed("cs/info", "it is empty"))?)
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
            let interest = interest.map_err(|e| ClientError::TooLong { what: e.to_string() })?;
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

    /// Sends an Interest; its Data, whose digest, if that is all it has, is right.
    fn send(&mut self, interest: &[u8], what: &str) -> Result<Vec<u8>, D::Error> {
        let reply = self.driver.fetch(interest.to_vec(), PATIENCE)?;
        let at = self.driver.at().to_owned();
        let packet = match reply {
            Reply::Data(packet) => packet,
            Reply::Nack(reason) => return Err(ClientError::NotManaged { at, reason }.into()),
            Reply::Timeout => {
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

impl Answer {
    fn refused(self, module: &str, verb: &str) -> ClientError {
        let command = format!("{module}/{verb}");
        ClientError::Refused { command, code: self.code, text: self.text }
    }
}

/// Asks the forwarder to send Interests under `prefix` here, signed by `signer`: forwarders that have been
/// told whom to believe take no digest.
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

/// How long what [`announce`] says holds: whoever heard it may pass it on for so long.
pub const ANNOUNCED_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// As [`register`], by an announcement of the prefix that `signer` has signed: forwarders that learn by
/// themselves where names are pass it on.
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
    // Whoever's clock is a little behind believes it too.
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
