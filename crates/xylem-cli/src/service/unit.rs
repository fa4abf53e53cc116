//! The systemd unit by which a user's background node starts with the machine.

use super::messages::{ServiceReply, ServiceRequest};
use super::{RunArgs, control};
use crate::cli::{Common, LogFormat};
use crate::exit::{CommandFailure, Exit};
use crate::output::Out;
use crate::output::text::count;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xylem_publish::registry::Registry;

const TEMPLATE: &str = include_str!("../../carried/xylem-user.service");
const NAME: &str = "xylem.service";

/// The path of the unit.
fn place() -> Result<PathBuf, CommandFailure> {
    let base = crate::cli::absolute("XDG_CONFIG_HOME")
        .or_else(|| crate::cli::absolute("HOME").map(|home| home.join(".config")));
    base.map(|base| base.join("systemd/user").join(NAME)).ok_or_else(|| {
        CommandFailure::new(Exit::Usage, "no directory for the unit: HOME is not set")
    })
}

/// The unit's text. A path with a line break is refused, as it would make a line of its own.
fn text(
    program: &Path,
    store: &Path,
    run: &RunArgs,
    common: &Common,
) -> Result<String, CommandFailure> {
    let mut words = vec![quoted(program.as_os_str())?, "--store".to_owned()];
    words.push(quoted(store.as_os_str())?);
    for (flag, value) in common_flags(common)? {
        words.push(flag.to_owned());
        words.extend(value.map(|value| quoted(value.as_os_str())).transpose()?);
    }
    words.extend(["service".to_owned(), "run".to_owned()]);
    for (flag, value) in run.flags() {
        words.push(flag.to_owned());
        words.extend(value.map(|value| quoted(OsStr::new(&value))).transpose()?);
    }
    let command = words.join(" ").replace('$', "$$");
    Ok(TEMPLATE.replace("@COMMAND@", &command).replace("@STORE@", &quoted(store.as_os_str())?))
}

/// The common flags that the unit needs, too: settings and log. Paths are made absolute, as a unit starts in another
/// folder.
fn common_flags(common: &Common) -> Result<Vec<(&'static str, Option<OsString>)>, CommandFailure> {
    let Common {
        config,
        passphrase_file,
        log_format,
        verbose,
        store: _, // `run` comes before it.
        // These concern only the output of the present run.
        json: _,
        quiet: _,
        no_progress: _,
        color: _,
    } = common;
    let mut flags = Vec::new();
    for (flag, path) in [("--config", config), ("--passphrase-file", passphrase_file)] {
        if let Some(path) = path {
            flags.push((flag, Some(super::absolute(path)?.into_os_string())));
        }
    }
    if *log_format == LogFormat::Json {
        flags.push(("--log-format", Some("json".into())));
    }
    flags.extend((0..*verbose).map(|_| ("--verbose", None)));
    Ok(flags)
}

/// The common flags that also hold for the folders that the background node keeps in step.
#[cfg(unix)]
pub(super) fn settings_flags(common: &Common) -> Result<Vec<OsString>, CommandFailure> {
    let of_settings =
        |(flag, _): &(&str, Option<OsString>)| matches!(*flag, "--config" | "--passphrase-file");
    let flags = common_flags(common)?.into_iter().filter(of_settings);
    Ok(flags.flat_map(|(flag, value)| std::iter::once(flag.into()).chain(value)).collect())
}

/// Quotes a word of a unit file (systemd.syntax(7)); `%` begins a specifier there.
fn quoted(word: &OsStr) -> Result<String, CommandFailure> {
    let text = word.to_str().filter(|text| !text.contains(char::is_control)).ok_or_else(|| {
        let what = format!(
            "{}: a unit file cannot contain this: it has control characters, or is not UTF-8",
            word.to_string_lossy()
        );
        CommandFailure::new(Exit::Usage, what)
    })?;
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    Ok(format!("\"{text}\""))
}

/// The file beside the unit that lists the folders to which it may write, besides the store.
fn folders_place(unit: &Path) -> PathBuf {
    unit.with_extension("service.d").join("folders.conf")
}

/// The text of that file. Each path has a prefix by which systemd ignores a missing folder.
fn folders_text(folders: &[PathBuf]) -> Result<String, CommandFailure> {
    let mut text = "# Written by `xylem sync DIR --background`.\n[Service]\n".to_owned();
    for folder in folders {
        let mut word = OsString::from("-");
        word.push(folder);
        text.push_str(&format!("ReadWritePaths={}\n", quoted(&word)?));
    }
    Ok(text)
}

/// Lets an installed unit write to these folders and the store only. A node that runs by the unit is restarted if there
/// are new ones.
pub(crate) fn allow_writes(folders: &[PathBuf]) -> Result<(), CommandFailure> {
    // A user without a home has no unit.
    let Ok(unit) = place() else { return Ok(()) };
    let place = folders_place(&unit);
    let (text, before) = (folders_text(folders)?, fs::read_to_string(&place).unwrap_or_default());
    if !unit.exists() || text == before {
        return Ok(());
    }
    let new = place.with_extension("new");
    fs::create_dir_all(place.parent().unwrap_or(Path::new(".")))
        .and_then(|()| fs::write(&new, &text))
        .and_then(|()| fs::rename(&new, &place))
        .map_err(|e| {
            CommandFailure::new(Exit::Local, format!("cannot write {}: {e}", place.display()))
        })?;
    let is_new = text.lines().any(|line| !before.lines().any(|known| known == line));
    let runs = has_systemd() && command("systemctl", &["--user", "is-active", NAME]).is_ok();
    if runs && is_new {
        for arguments in [&["--user", "daemon-reload"][..], &["--user", "restart", NAME]] {
            command("systemctl", arguments).map_err(|why| CommandFailure::new(Exit::Local, why))?;
        }
    }
    Ok(())
}

/// Runs a program of systemd; an error is its reason in one line.
fn command(program: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    let ran = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).output();
    let said = ran.map_err(|e| format!("{program}: {e}"))?;
    if said.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&said.stderr);
    let line = text.lines().next().unwrap_or("failed").to_owned();
    Err(format!("{program} {}: {line}", arguments.join(" ")))
}

fn has_systemd() -> bool {
    Path::new("/run/systemd/system").exists()
}

/// Runs `xylem service install`.
pub(super) fn install(
    run: &RunArgs,
    start: bool,
    common: &Common,
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let store = super::store(common)?;
    if start && !has_systemd() {
        let what = "this system does not run systemd; have its own service manager start `xylem service run` \
                    (--no-start only writes the unit)";
        return Err(CommandFailure::new(Exit::Local, what));
    }
    let program = std::env::current_exe().map_err(|e| {
        CommandFailure::new(Exit::Local, format!("cannot determine the path of this program: {e}"))
    })?;
    run.listen.places()?;
    let (place, text) = (place()?, text(&program, &store, run, common)?);
    // The unit may write to this folder, so it has to exist.
    Registry::folder(&store)?;
    let folder = place.parent().unwrap_or(Path::new("."));
    let new = place.with_extension("service.new");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&new, text))
        .and_then(|()| fs::rename(&new, &place))
        .map_err(|e| {
            CommandFailure::new(Exit::Local, format!("cannot write {}: {e}", place.display()))
        })?;
    out.note(&format!("Wrote {}", place.display()));
    if start {
        for arguments in [&["daemon-reload"][..], &["enable", NAME], &["restart", NAME]] {
            let arguments: Vec<&str> = ["--user"].iter().chain(arguments).copied().collect();
            command("systemctl", &arguments)
                .map_err(|why| CommandFailure::new(Exit::Local, why))?;
        }
        out.note("The background node runs; `xylem share PATH` hands over to it.");
        if command("loginctl", &["--no-ask-password", "enable-linger"]).is_err() {
            out.note(
                "It ends when you log out, unless an administrator runs: \
                 loginctl enable-linger USER",
            );
        }
    }
    status_line(Some(place), &store, out)?;
    Ok(Exit::Done)
}

/// Runs `xylem service remove`.
pub(super) fn remove(common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let (place, store) = (place()?, super::store(common)?);
    if has_systemd()
        && let Err(why) = command("systemctl", &["--user", "disable", "--now", NAME])
    {
        out.detail(&why);
    }
    match fs::remove_file(&place) {
        Ok(()) => out.note(&format!("Removed {}", place.display())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => out.note("No unit is installed."),
        Err(e) => {
            let what = format!("cannot remove {}: {e}", place.display());
            return Err(CommandFailure::new(Exit::Local, what));
        }
    }
    if has_systemd()
        && let Err(why) = command("systemctl", &["--user", "daemon-reload"])
    {
        out.detail(&why);
    }
    status_line(None, &store, out)?;
    Ok(Exit::Done)
}

/// Runs `xylem service status`.
pub(super) fn status(common: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    let (place, store) = (place()?, super::store(common)?);
    let unit = Some(place).filter(|place| place.exists());
    let running = status_line(unit, &store, out)?;
    Ok(if running { Exit::Done } else { Exit::Unreachable })
}

/// Event: the result of a `xylem service` command.
#[derive(Serialize)]
#[serde(tag = "event", rename = "service")]
struct ServiceStatusRow<'a> {
    running: bool,
    shares: usize,
    folders: usize,
    unit: Option<&'a str>,
    store: &'a str,
}

fn status_line(unit: Option<PathBuf>, store: &Path, out: &mut Out) -> Result<bool, CommandFailure> {
    let answer = control::ask(store, &ServiceRequest::Shares, &mut |_| {})?;
    let (running, shares) = match answer {
        Some(ServiceReply::Shares { shares }) => (true, shares.len()),
        _ => (false, Registry::load(store)?.shares.len()),
    };
    let folders = super::listed::load(store)?.len();
    let unit = unit.map(|path| path.to_string_lossy().into_owned());
    if out.is_json() {
        let store = &*store.to_string_lossy();
        out.json(&ServiceStatusRow { running, shares, folders, unit: unit.as_deref(), store })?;
    } else {
        let runs = if running { "runs" } else { "does not run" };
        let unit = unit.map_or("no unit is installed".to_owned(), |unit| format!("unit {unit}"));
        let shares = count(shares as u64, "share");
        let folders = match folders {
            0 => String::new(),
            folders => format!("; {} kept in step", count(folders as u64, "folder")),
        };
        out.note(&format!("The background node {runs}; {shares}{folders}; {unit}"));
    }
    Ok(running)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn each_writable_folder_has_a_line_of_the_unit() {
        let folders = ["/a b", "/50%\"x"].map(PathBuf::from);
        let text = folders_text(&folders).unwrap();
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines, ["ReadWritePaths=\"-/a b\"", "ReadWritePaths=\"-/50%%\\\"x\""]);
        assert!(folders_text(&[PathBuf::from("/a\nExecStart=/b")]).is_err());
        let unit = Path::new("/c/systemd/user/xylem.service");
        let place = Path::new("/c/systemd/user/xylem.service.d/folders.conf");
        assert_eq!(folders_place(unit), place);
    }

    #[derive(clap::Parser)]
    struct UnitFlags {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        run: RunArgs,
    }

    #[test]
    fn a_unit_holds_odd_paths_and_no_second_line() {
        let given = ["xylem", "--config", "/etc/x y.toml", "--log-format", "json", "-vv"];
        let of_run = ["--metrics", "127.0.0.1:9700", "--accept-open", "--no-lan", "--no-map"];
        let more = ["--listen", "127.0.0.1:7", "--shape", "low", "--post-quantum", "never"];
        let all = given.into_iter().chain(of_run).chain(more);
        let UnitFlags { common, run } = <UnitFlags as clap::Parser>::try_parse_from(all).unwrap();
        let (program, store) = (Path::new("/opt/a b/xylem"), Path::new("/data/50%\"x"));
        let unit = text(program, store, &run, &common).unwrap();
        let line = unit.lines().find(|l| l.starts_with("ExecStart=")).unwrap();
        assert_eq!(
            line,
            "ExecStart=\"/opt/a b/xylem\" --store \"/data/50%%\\\"x\" --config \"/etc/x y.toml\" \
             --log-format \"json\" --verbose --verbose service run --listen \"127.0.0.1:7\" --metrics \
             \"127.0.0.1:9700\" --accept-open --no-lan --no-map --shape \"low\" --post-quantum \"never\""
        );
        assert!(unit.contains("ReadWritePaths=\"/data/50%%\\\"x\"\n"), "{unit}");
        assert!(text(Path::new("/a\nb"), Path::new("/c"), &run, &common).is_err());
        assert_documented(&ServiceStatusRow {
            running: true,
            shares: 1,
            folders: 1,
            unit: None,
            store: "s",
        });
    }
}
