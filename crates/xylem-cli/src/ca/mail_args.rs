//! [`MailArgs`]: how codes are sent by email. A build without the feature `smtp` has them too, and refuses emails.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// How emails are sent.
#[derive(Debug, Args)]
pub(crate) struct MailArgs {
    /// The SMTP relay that sends codes [default port: 587; with --smtp-security tls 465]
    #[arg(long, value_name = "HOST[:PORT]", requires = "smtp_from")]
    pub(super) smtp: Option<String>,

    /// The sender's address
    #[arg(long, value_name = "ADDRESS", requires = "smtp")]
    pub(super) smtp_from: Option<String>,

    /// Log in to the relay as this user; never over an unencrypted connection to another machine
    #[arg(long, value_name = "USER", requires_all = ["smtp", "smtp_password_file"])]
    pub(super) smtp_user: Option<String>,

    /// The first line of this file is the password
    #[arg(long, value_name = "FILE", requires = "smtp_user")]
    pub(super) smtp_password_file: Option<PathBuf>,

    /// How the connection to the relay is protected [default: starttls; none to this machine itself]
    #[arg(long, value_name = "HOW", requires = "smtp")]
    pub(super) smtp_security: Option<SmtpSecurity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SmtpSecurity {
    /// TLS after STARTTLS, or no email
    Starttls,
    /// TLS from the first byte
    Tls,
    /// No encryption: anybody on the path can read the codes
    None,
}
