//! [`Mailer`] of a build without the feature `smtp`: codes are never sent by email.

use crate::ca::mail_args::MailArgs;
use crate::exit::{CommandFailure, Exit};
use xylem_packet::Name;

/// The outcome of an email.
pub(super) struct MailOutcome {
    pub(super) address: String,
    pub(super) key: String,
    /// Why it was not sent.
    pub(super) why: Option<String>,
}

/// A mailer that there is not.
pub(super) enum Mailer {}

impl Mailer {
    /// Refuses emails that are `wanted`.
    pub(super) fn of(
        args: MailArgs,
        wanted: bool,
        _: &Name,
    ) -> Result<Option<Self>, CommandFailure> {
        let what =
            "emails are not built into this program: --challenge email needs the feature `smtp`";
        if wanted || args.smtp.is_some() {
            Err(CommandFailure::new(Exit::Usage, what))
        } else {
            Ok(None)
        }
    }

    pub(super) fn send(&self, _: String, _: String, _: String) -> Option<MailOutcome> {
        match *self {}
    }

    pub(super) fn sent(&self) -> Option<MailOutcome> {
        match *self {}
    }
}
