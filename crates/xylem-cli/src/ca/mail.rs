//! [`Mailer`]: sends codes by email through an SMTP relay, on a thread of its own, so that a slow relay delays no Interest.
//!
//! The library supplies the addresses, checks that each is exactly one address, and limits the number of emails in an
//! hour. The address is the only text of a stranger in an email.

use crate::ca::mail_args::{MailArgs, SmtpSecurity};
use crate::exit::{CommandFailure, Exit};
use lettre::address::{Address, Envelope};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{SmtpTransport, Transport};
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;
use xylem_node::wall_clock;
use xylem_packet::Name;
use xylem_trust::Moment;

/// Emails in the queue at most.
const QUEUE: usize = 128;
/// Time limit of one step of the dialogue with a relay.
const PATIENCE: Duration = Duration::from_secs(30);
/// Characters of a prefix that an email shows at most.
const SHOWN: usize = 200;

/// The outcome of an email.
pub(super) struct MailOutcome {
    pub(super) address: String,
    pub(super) key: String,
    /// Why it was not sent.
    pub(super) why: Option<String>,
}

struct MailJob {
    address: String,
    code: String,
    key: String,
}

pub(super) struct Mailer {
    jobs: SyncSender<MailJob>,
    sent: Receiver<MailOutcome>,
}

fn usage(why: impl ToString) -> CommandFailure {
    CommandFailure::new(Exit::Usage, why.to_string())
}

impl Mailer {
    /// Makes a mailer from the flags; `None` if emails are not `wanted`.
    pub(super) fn of(
        args: MailArgs,
        wanted: bool,
        prefix: &Name,
    ) -> Result<Option<Self>, CommandFailure> {
        let sender = |text: &String| {
            text.parse::<Address>().map_err(|e| usage(format!("--smtp-from {text}: {e}")))
        };
        let sender = args.smtp_from.as_ref().map(sender).transpose()?;
        let (relay, from) = match (&args.smtp, sender) {
            (Some(_), _) if !wanted => {
                return Err(usage("--smtp works only with --challenge email"));
            }
            (Some(relay), Some(from)) => (relay.clone(), from),
            _ if wanted => {
                return Err(usage("--challenge email needs --smtp HOST and --smtp-from ADDRESS"));
            }
            _ => return Ok(None),
        };
        let transport = transport(&relay, &args)?;
        let (jobs, waiting) = sync_channel::<MailJob>(QUEUE);
        let (done, sent) = channel();
        let prefix: String = prefix.to_string().chars().take(SHOWN).collect();
        let work = move || {
            for MailJob { address, code, key } in waiting {
                let why = send(&transport, &from, &address, &code, &prefix).err();
                if done.send(MailOutcome { address, key, why }).is_err() {
                    return;
                }
            }
        };
        let started = thread::Builder::new().name("mail".to_owned()).spawn(work);
        started.map_err(|e| CommandFailure::no_thread(&e))?;
        Ok(Some(Mailer { jobs, sent }))
    }

    /// Queues an email with a code. Returns a failed outcome if the queue is full.
    pub(super) fn send(&self, address: String, code: String, key: String) -> Option<MailOutcome> {
        let (to, of) = (address.clone(), key.clone());
        let full = || MailOutcome {
            address: to,
            key: of,
            why: Some("too many emails are waiting to be sent".to_owned()),
        };
        self.jobs.try_send(MailJob { address, code, key }).err().map(|_| full())
    }

    /// The outcome of the next email that is done, if there is one.
    pub(super) fn sent(&self) -> Option<MailOutcome> {
        self.sent.try_recv().ok()
    }
}

fn transport(relay: &str, args: &MailArgs) -> Result<SmtpTransport, CommandFailure> {
    let (host, port) = host_and_port(relay)
        .ok_or_else(|| usage(format!("--smtp {relay}: expected HOST or HOST:PORT")))?;
    let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let otherwise = if here { SmtpSecurity::None } else { SmtpSecurity::Starttls };
    let security = args.smtp_security.unwrap_or(otherwise);
    let parameters = || TlsParameters::new(host.to_owned()).map_err(usage);
    let (tls, usual) = match security {
        SmtpSecurity::Starttls => (Tls::Required(parameters()?), 587),
        SmtpSecurity::Tls => (Tls::Wrapper(parameters()?), 465),
        SmtpSecurity::None => (Tls::None, if here { 25 } else { 587 }),
    };
    let mut builder = SmtpTransport::builder_dangerous(host)
        .port(port.unwrap_or(usual))
        .timeout(Some(PATIENCE))
        .tls(tls);
    if let (Some(user), Some(file)) = (&args.smtp_user, &args.smtp_password_file) {
        if security == SmtpSecurity::None && !here {
            return Err(usage(
                "--smtp-security none: a password is not sent in clear to another machine; use starttls or tls",
            ));
        }
        builder = builder.credentials(Credentials::new(user.clone(), password(file)?));
    }
    Ok(builder.build())
}

/// Splits `HOST`, `HOST:PORT` or `[V6]:PORT`.
fn host_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    let port = |text: &str| text.parse().ok().filter(|port| *port != 0).map(Some);
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(number) => Some((host, port(number)?)),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    let (host, port) = match text.split_once(':') {
        Some((host, number)) if !number.contains(':') => (host, port(number)?),
        // Several colons: an IPv6 address.
        _ => (text, None),
    };
    (!host.is_empty()).then_some((host, port))
}

fn password(file: &Path) -> Result<String, CommandFailure> {
    let read = fs::read_to_string(file);
    let text = read.map_err(|e| usage(format!("cannot read {}: {e}", file.display())))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn send(
    transport: &SmtpTransport,
    from: &Address,
    address: &str,
    code: &str,
    prefix: &str,
) -> Result<(), String> {
    let to: Address = address.parse().map_err(|_| "this is not an email address".to_owned())?;
    let envelope = Envelope::new(Some(from.clone()), vec![to]).map_err(|e| e.to_string())?;
    let text = message(from.as_ref(), address, code, prefix, wall_clock().milliseconds());
    transport.send_raw(&envelope, text.as_bytes()).map(drop).map_err(|e| e.to_string())
}

/// Writes the email (RFC 5322). It is ASCII, as addresses, codes and names' URIs are.
fn message(from: &str, to: &str, code: &str, prefix: &str, now_ms: u64) -> String {
    format!(
        "Date: {}\r\n\
         From: {from}\r\n\
         To: {to}\r\n\
         Subject: Your code is {code}\r\n\
         Auto-Submitted: auto-generated\r\n\
         MIME-Version: 1.0\r\n\
         Content-Type: text/plain; charset=us-ascii\r\n\
         \r\n\
         {code}\r\n\
         \r\n\
         is the code for a certificate of {prefix}. It is valid for five minutes.\r\n\
         Type it where you requested the certificate, and do not pass it on: anyone\r\n\
         who has it can get a certificate in the name of this address.\r\n\
         \r\n\
         If you did not request one, do nothing.\r\n",
        date(now_ms)
    )
}

/// A date in the form of emails, without the optional day of the week.
fn date(now_ms: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    // `2026-11-23 12:00:00 UTC`
    let text = Moment(now_ms).to_string();
    let part = |from, to| text.get(from..to).unwrap_or_default();
    let month = part(5, 7).parse::<usize>().unwrap_or(1).saturating_sub(1);
    let month = MONTHS.get(month).unwrap_or(&MONTHS[0]);
    format!("{} {month} {} {} +0000", part(8, 10), part(0, 4), part(11, 19))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_email_is_one_email() {
        let text = message("ca@x.org", "al@x.org", "01ZAJ-Z0156", "/org", 1_800_000_000_000);
        let (head, body) = text.split_once("\r\n\r\n").expect("head and body");
        assert!(head.starts_with("Date: 15 Jan 2027 08:00:00 +0000\r\n"), "{head}");
        assert_eq!(head.lines().count(), 7);
        assert!(body.starts_with("01ZAJ-Z0156\r\n"));
        assert!(text.is_ascii() && text.lines().all(|line| line.len() < 300));
    }

    #[test]
    fn relays() {
        for (text, expected) in [
            ("mail.x.org", Some(("mail.x.org", None))),
            ("mail.x.org:25", Some(("mail.x.org", Some(25)))),
            ("[::1]:2525", Some(("::1", Some(2525)))),
            ("[::1]", Some(("::1", None))),
            ("::1", Some(("::1", None))),
            ("", None),
            (":25", None),
            ("h:", None),
            ("h:0", None),
            ("h:70000", None),
            ("[::1]x", None),
        ] {
            assert_eq!(host_and_port(text), expected, "{text}");
        }
    }
}
