//! [`CaServing`]: connects the [`CertificateAuthority`] to a forwarder: passes Interests to it and carries out its
//! requests.

use crate::ca::mail::{MailOutcome, Mailer};
use crate::exit::CommandFailure;
use crate::output::Out;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;
use xylem_client::{Application, ClientError, ForwarderMessage, PacketOutbox};
use xylem_keys::Issued;
use xylem_mgmt::{CommandScope, ControlParameters, FaceUri, client as management};
use xylem_ndncert::{CaEvent, CertificateAuthority, ChallengeKind};
use xylem_node::wall_clock;
use xylem_packet::{Data, Interest, Name, NameRef, Packet};
use xylem_trust::{Certificate, CommandStamp, Moment, Signer};

/// Routes at most: keys for which the forwarder sends Interests for certificates to this program.
const MOST_ROUTES: usize = 1024;

pub(super) struct CaServing<'a> {
    authority: CertificateAuthority,
    /// Signs registrations.
    signer: Signer,
    /// Scope of commands to the forwarder.
    scope: CommandScope,
    issued: Issued,
    mailer: Option<Mailer>,
    out: &'a mut Out,
    /// Keys whose certificates have a route to this program, the oldest first.
    routes: VecDeque<Name>,
    /// Commands to the forwarder that wait to be sent. The sent ones without an answer follow in `asked`.
    waiting: Vec<Vec<u8>>,
    asked: VecDeque<Vec<u8>>,
    /// Why it cannot continue.
    broken: Option<CommandFailure>,
}

impl<'a> CaServing<'a> {
    pub(super) fn new(
        authority: CertificateAuthority,
        signer: Signer,
        at: &str,
        issued: Issued,
        mailer: Option<Mailer>,
        out: &'a mut Out,
    ) -> Self {
        let scope = at.parse::<FaceUri>();
        let scope = scope.map_or(CommandScope::Localhop, |uri| CommandScope::of(&uri));
        let (routes, waiting, asked) = (VecDeque::new(), Vec::new(), VecDeque::new());
        Self { authority, signer, scope, issued, mailer, out, routes, waiting, asked, broken: None }
    }

    /// Returns the failure that ended it, if there is one.
    pub(super) fn end(self) -> Result<(), CommandFailure> {
        self.broken.map_or(Ok(()), Err)
    }

    /// Serves a certificate of an earlier run.
    pub(super) fn answer_for(&mut self, certificate: &Certificate<'_>) {
        self.authority.add_issued(certificate);
        self.route(certificate.key_name());
    }

    /// Registers a route for a key's certificates, even if another program has registered a shorter prefix. Removes the
    /// oldest route if there are too many.
    fn route(&mut self, key_name: NameRef<'_>) {
        if self.routes.iter().any(|known| known.as_ref() == key_name) {
            return;
        }
        if self.routes.len() >= MOST_ROUTES
            && let Some(oldest) = self.routes.pop_front()
        {
            self.command("unregister", oldest);
        }
        self.routes.push_back(key_name.to_name());
        self.command("register", key_name.to_name());
    }

    fn command(&mut self, verb: &str, name: Name) {
        let (Ok(seed), Ok(nonce)) = (xylem_base::random(), xylem_base::random()) else { return };
        let stamp = CommandStamp::new(seed, wall_clock().milliseconds());
        let parameters = ControlParameters { name: Some(name), ..ControlParameters::default() };
        let signer = &self.signer;
        let wire = management::command(self.scope, "rib", verb, &parameters, signer, stamp, nonce);
        self.waiting.extend(wire);
    }

    fn send_commands(&mut self, outbox: &mut PacketOutbox<'_>) {
        for wire in self.waiting.drain(..) {
            outbox.packet(&wire, None);
            self.asked.push_back(wire);
            // Bound the list for a forwarder that answers no command.
            if self.asked.len() > MOST_ROUTES {
                self.asked.pop_front();
            }
        }
    }

    /// Handles the forwarder's answer to a command.
    fn answered(&mut self, data: &Data<'_>) {
        let of = |wire: &Vec<u8>| {
            let interest = Interest::decode(wire).ok()?;
            management::response(&interest, data).ok()
        };
        let Some((at, response)) =
            self.asked.iter().enumerate().find_map(|(at, wire)| Some((at, of(wire)?)))
        else {
            return;
        };
        self.asked.remove(at);
        if response.code != 200 {
            let (code, text) = (response.code, response.text);
            self.out.warn(&format!(
                "the forwarder refused a route for a certificate to this CA: {text} (status {code})"
            ));
        }
    }

    fn act(&mut self, event: CaEvent) -> Result<(), CommandFailure> {
        match event {
            CaEvent::Pin { key_name, code, .. } => {
                let (identity, key) = (identity_of(&key_name).to_string(), key_name.to_string());
                if self.out.is_json() {
                    let (identity, key, code) = (&*identity, &*key, &*code);
                    return self.out.json(&PinRow { identity, key, code });
                }
                self.out.line(&format!("PIN {code} for {identity} (key {key}), valid for an hour"))
            }
            CaEvent::Email { key_name, address, code, .. } => {
                let key = key_name.to_string();
                match &self.mailer {
                    Some(mailer) => mailer.send(address, code, key),
                    None => return Ok(()),
                }
                .map_or(Ok(()), |unsent| self.mailed(unsent))
            }
            CaEvent::Issued { by, certificate, .. } => self.keep(by, &certificate),
        }
    }

    fn keep(&mut self, by: ChallengeKind, wire: &[u8]) -> Result<(), CommandFailure> {
        let Ok(certificate) = Certificate::decode(wire) else { return Ok(()) };
        // Go on: it can be fetched while this process runs, and its owner can serve it.
        if let Err(e) = self.issued.keep(wire, wall_clock()) {
            self.out.warn(&format!(
                "a certificate was issued but cannot be saved ({e}): this CA does not serve it after a \
                 restart"
            ));
        }
        self.route(certificate.key_name());
        let (name, until) = (certificate.name().to_string(), certificate.validity().not_after_ms);
        if self.out.is_json() {
            let (certificate, by, valid_until_ms) = (&*name, by.name(), until);
            return self.out.json(&IssuedRow { certificate, by, valid_until_ms });
        }
        self.out.line(&format!("issued {name} by {}, valid until {}", by.name(), Moment(until)))
    }

    fn mailed(&mut self, mailed: MailOutcome) -> Result<(), CommandFailure> {
        let MailOutcome { address, key, why } = &mailed;
        if self.out.is_json() {
            return self.out.json(&MailedRow { address, key, why: why.as_deref() });
        }
        match why {
            None => self.out.note(&format!("a code for {key} was mailed to {address}")),
            Some(why) => {
                self.out.warn(&format!("no code for {key} was mailed to {address}: {why}"))
            }
        }
        Ok(())
    }

    fn attempt(&mut self, done: Result<(), CommandFailure>) {
        if let Err(failure) = done {
            self.broken.get_or_insert(failure);
        }
    }
}

/// The identity that a key belongs to.
fn identity_of(key_name: &Name) -> NameRef<'_> {
    key_name.prefix(key_name.len().saturating_sub(2))
}

impl Application for CaServing<'_> {
    fn transmit(
        &mut self,
        _now: Duration,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        while let Some(mailed) = self.mailer.as_ref().and_then(Mailer::sent) {
            let told = self.mailed(mailed);
            self.attempt(told);
        }
        self.send_commands(outbox);
        Ok(())
    }

    fn handle_message(
        &mut self,
        _now: Duration,
        message: ForwarderMessage<'_>,
        outbox: &mut PacketOutbox<'_>,
    ) -> Result<(), ClientError> {
        if message.nack.is_some() {
            return Ok(());
        }
        if let Ok(Packet::Data(data)) = Packet::decode(message.packet) {
            self.answered(&data);
            return Ok(());
        }
        let Ok(seed) = xylem_base::random() else { return Ok(()) };
        let now_ms = wall_clock().milliseconds();
        let answer = self.authority.interest(message.packet, now_ms, seed);
        if let Some(event) = answer.event {
            let done = self.act(event);
            self.attempt(done);
            // Register the route before the answer is sent: the client fetches the certificate at once.
            self.send_commands(outbox);
        }
        if let Some(data) = answer.data {
            outbox.packet(&data, message.pit_token);
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.broken.is_some()
    }
}

/// Event: a code for the operator to pass on.
#[derive(Serialize)]
#[serde(tag = "event", rename = "pin")]
struct PinRow<'a> {
    identity: &'a str,
    key: &'a str,
    code: &'a str,
}

/// Event: a code was mailed, or could not be.
#[derive(Serialize)]
#[serde(tag = "event", rename = "mailed")]
struct MailedRow<'a> {
    address: &'a str,
    key: &'a str,
    why: Option<&'a str>,
}

/// Event: a certificate was issued.
#[derive(Serialize)]
#[serde(tag = "event", rename = "issued")]
struct IssuedRow<'a> {
    certificate: &'a str,
    by: &'a str,
    valid_until_ms: u64,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&PinRow { identity: "/a", key: "/a/KEY/1", code: "0" });
        assert_documented(&MailedRow { address: "a@b.c", key: "/a/KEY/1", why: None });
        assert_documented(&IssuedRow { certificate: "/a", by: "pin", valid_until_ms: 1 });
    }
}
