//! `xylem ui`: one page on loopback that shows what this user's processes and node do. It changes nothing.
//!
//! [`http`] serves it, [`sight`] collects the data, and server-sent events carry them. The page is written by hand in
//! `page.html`, `page.css` and `page.js`, and loads nothing from elsewhere.

mod gate;
mod sight;

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::http::{self, HttpBody, PageRequest, Response};
use crate::metrics;
use crate::output::Out;
use crate::peek::AtArgs;
use crate::stop;
use clap::Args;
use gate::PageAccess;
use serde::Serialize;
use sight::PageData;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How often changes are sent to a page.
const EVERY: Duration = Duration::from_secs(1);
/// Intervals of [`EVERY`] without a change after which a sign of life is sent.
const QUIET: u32 = 10;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Serves a live page that shows what is shared, fetched, forwarded
///
/// Prints an address with a token for a browser on this machine; without the token nothing is shown. It shows the
/// fetches and shares of this store's other processes, its background node and the NDN forwarder that runs here.
/// Nothing can be changed through it.
#[derive(Debug, Args)]
#[command(after_help = concat!(
    "Examples:
  xylem ui                    prints http://127.0.0.1:PORT/?token=...
  xylem ui --listen 7350      at this port
  xylem ui --at tcp://127.0.0.1    with the forwarder that listens there

",
    exit_help!()
))]
pub(crate) struct UiArgs {
    /// Where to serve it: PORT or 127.0.0.1:PORT
    ///
    /// An address has to be one of loopback. [default: a free port]
    #[arg(long, value_name = "ADDR", env = "XYLEM_UI_LISTEN", hide_env_values = true)]
    listen: Option<String>,

    #[command(flatten)]
    at: AtArgs,
}

/// Event: the address of the page.
#[derive(Serialize)]
#[serde(tag = "event", rename = "ui")]
struct UiRow<'a> {
    url: &'a str,
}

/// Runs `xylem ui`.
pub(crate) fn run(args: UiArgs, common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let listener = listen(args.listen.as_deref().unwrap_or("0"))?;
    let wrong =
        |e: io::Error| CommandFailure::new(Exit::Local, format!("cannot show the page: {e}"));
    let gate = PageAccess::new(listener.local_addr().map_err(wrong)?)?;
    let stop = stop::on_signals()?;
    out.ends_with(&stop);
    let sight = Arc::new(PageData::new(common.store()?, args.at.at, &stop)?);
    let url = gate.url();
    let page = PAGE.replace("TOKEN", gate.token());
    let answer = move |request: &PageRequest| match gate.lets_in(request) {
        false => Response::refused("403 Forbidden", "open the address that `xylem ui` printed"),
        true => answer(request, &page, &sight),
    };
    thread::Builder::new()
        .name("ui".into())
        .spawn(move || http::serve(&listener, move |request| guarded(answer(request))))
        .map_err(|e| CommandFailure::no_thread(&e))?;
    match out.is_json() {
        true => out.json(&UiRow { url: &url })?,
        false => out.line(&url)?,
    }
    out.note(
        "Open it in a browser on this machine; whoever has the address sees it. Ctrl-C ends it.",
    );
    while !stop.raised() {
        thread::sleep(Duration::from_millis(100));
    }
    Ok(Exit::Done)
}

fn listen(text: &str) -> Result<TcpListener, CommandFailure> {
    let at: SocketAddr = metrics::place("--listen", text)?;
    if !at.ip().is_loopback() {
        let what =
            format!("--listen {text}: the page is for this machine alone; give 127.0.0.1:PORT");
        return Err(CommandFailure::new(Exit::Usage, what));
    }
    TcpListener::bind(at)
        .map_err(|e| CommandFailure::new(Exit::Local, format!("cannot show the page at {at}: {e}")))
}

/// Answers a permitted request with one of the page's files or the events.
fn answer(request: &PageRequest, page: &str, sight: &Arc<PageData>) -> Response {
    match request.path.as_str() {
        "/" => Response::ok("text/html; charset=utf-8", page.as_bytes().to_vec()),
        "/page.css" => Response::ok("text/css; charset=utf-8", STYLE.as_bytes()),
        "/page.js" => Response::ok("text/javascript; charset=utf-8", SCRIPT.as_bytes()),
        "/events" => {
            let sight = sight.clone();
            let body = HttpBody::Written(None, Box::new(move |out| tell(&sight, out)));
            let (status, kind) = ("200 OK", "text/event-stream");
            Response { status, kind, fields: Vec::new(), body }
        }
        _ => Response::refused("404 Not Found", "there is one page here, at /"),
    }
}

/// Adds headers that restrict browsers: load the page's own files and nothing else, show it within no other page, cache
/// nothing and send no referrer.
fn guarded(mut response: Response) -> Response {
    response.fields = [
        (
            "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .to_vec();
    response
}

/// Writes the parts that have changed, as long as the client reads.
fn tell(sight: &PageData, out: &mut dyn Write) -> io::Result<()> {
    let mut told = [const { String::new() }; 4];
    let mut quiet = 0;
    loop {
        let mut news = String::new();
        for ((part, now), told) in sight.parts().into_iter().zip(&mut told) {
            if now != *told {
                news.push_str(&format!("event: {part}\ndata: {now}\n\n"));
                *told = now;
            }
        }
        quiet = if news.is_empty() { quiet + 1 } else { 0 };
        if quiet == QUIET {
            // The write fails if the client has gone.
            (news, quiet) = (": here\n\n".to_owned(), 0);
        }
        out.write_all(news.as_bytes())?;
        out.flush()?;
        thread::sleep(EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        assert_documented(&UiRow { url: "u" });
    }

    #[test]
    fn the_page_has_nothing_inline_and_nothing_from_elsewhere() {
        assert_eq!(PAGE.matches("<script").count(), PAGE.matches("<script src=\"page.js?").count());
        for part in ["<style", " style=", " onclick", "javascript:"] {
            assert!(!PAGE.contains(part), "{part}");
        }
        for (name, text) in [("page", PAGE), ("style", STYLE), ("script", SCRIPT)] {
            assert!(!text.contains("https:") && !text.contains("@import"), "{name}");
            let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!elsewhere.contains("http:"), "{name}");
        }
        for way in ["innerHTML", "eval(", "insertAdjacent", "document.write"] {
            assert!(!SCRIPT.contains(way), "what peers say is text and nothing else: {way}");
        }
        assert!(PAGE.len() + STYLE.len() + SCRIPT.len() < 32 * 1024);
    }

    #[test]
    fn the_page_is_for_this_machine() {
        for text in ["0.0.0.0:0", "192.0.2.1:80", "[::]:0", "nonsense:x"] {
            assert_eq!(listen(text).unwrap_err().exit, Exit::Usage, "{text}");
        }
        assert!(listen("0").unwrap().local_addr().unwrap().ip().is_loopback());
    }
}
