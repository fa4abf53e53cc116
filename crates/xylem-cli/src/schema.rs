//! `xylem ndn schema`: compiles trust schemas (LightVerSec) and evaluates them.

use crate::cli::Common;
use crate::exit::{CommandFailure, Exit, exit_help};
use crate::output::Out;
use crate::output::text::{clean, count};
use crate::values::parse_name;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use xylem_keys::{schema, schema_in};
use xylem_trust::schema::{MAX_SCHEMA, Match, Schema};

/// Compiles and checks trust schemas: which keys may sign which names
///
/// A schema is a text of rules (LightVerSec): patterns of names, and after `<=` the rules that a
/// signer's certificate has to match. Programs read its binary form, which is that of NDNd, NDNts
/// and python-ndn.
///
///   #key: "KEY"/_/_/_
///   #root: "blog"/#key
///   #author: "blog"/"author"/who/#key <= #root
///   #post: "blog"/"post"/who/_title <= #author
///
/// means that the blog's own key certifies authors, and that an author signs posts under the
/// author's name. `who` stands for the same component wherever it occurs; `_`, and words that begin
/// with it, stand for any component.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = concat!(
    "Examples:
  xylem ndn schema compile blog.lvs -o blog.tlv    for programs
  xylem ndn schema check blog.lvs                  is it sound?
  xylem ndn schema check blog.lvs /blog/post/bob   which rules match this name?
  xylem ndn schema check blog.tlv /blog/post/bob/hello /blog/author/bob/KEY/1/root/v=1
                                                   may this certificate's key sign it? 1: no

",
    exit_help!()
))]
pub(crate) struct SchemaArgs {
    #[command(subcommand)]
    command: SchemaCommand,
}

#[derive(Debug, Subcommand)]
enum SchemaCommand {
    /// Write a schema's binary form
    Compile {
        /// The text; - for standard input
        file: PathBuf,
        /// Where to write it [default: standard output]
        #[arg(short, long, value_name = "PATH")]
        output: Option<PathBuf>,
    },
    /// Describe a schema, and what may sign a name
    Check {
        /// The schema, as text or in its binary form; - for standard input
        file: PathBuf,
        /// A packet's name
        packet: Option<String>,
        /// Names of certificates; each is checked whether its key may sign the packet
        #[arg(value_name = "CERTIFICATE")]
        certificates: Vec<String>,
    },
}

/// Runs `xylem ndn schema`.
pub(crate) fn run(args: SchemaArgs, _: &Common, out: &mut Out) -> Result<Exit, CommandFailure> {
    match args.command {
        SchemaCommand::Compile { file, output } => {
            let bytes = read(&file)?.encode();
            match output {
                None => out.bytes(&bytes)?,
                Some(to) => write(&to, &bytes)?,
            }
            Ok(Exit::Done)
        }
        SchemaCommand::Check { file, packet, certificates } => {
            let schema = read(&file)?;
            match packet {
                None => tell(&schema, out),
                Some(packet) if certificates.is_empty() => about(&schema, &packet, out),
                Some(packet) => may_sign(&schema, &packet, &certificates, out),
            }
        }
    }
}

/// Reads a schema in either form.
fn read(path: &Path) -> Result<Schema, CommandFailure> {
    if path != Path::new("-") {
        return Ok(schema(path)?);
    }
    let mut bytes = Vec::new();
    let read = io::stdin().take(MAX_SCHEMA as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|e| CommandFailure::new(Exit::Local, format!("cannot read standard input: {e}")))?;
    Ok(schema_in(&bytes, path)?)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CommandFailure> {
    let path_text = path.display().to_string();
    let failed =
        |e| CommandFailure::new(Exit::Local, format!("cannot write {}: {e}", clean(&path_text)));
    fs::write(path, bytes).map_err(failed)
}

fn tell(schema: &Schema, out: &mut Out) -> Result<Exit, CommandFailure> {
    let (rules, anchors) = (schema.rules(), schema.anchors());
    if out.is_json() {
        out.json(&SchemaRow { nodes: schema.nodes(), rules, anchors })?;
        return Ok(Exit::Done);
    }
    out.line(&clean(&format!("{}: {}", count(rules.len() as u64, "rule"), rules.join(" "))))?;
    let anchors = if anchors.is_empty() {
        "none: no signature is accepted".into()
    } else {
        anchors.join(" ")
    };
    out.line(&clean(&format!("anchors: {anchors}")))?;
    Ok(Exit::Done)
}

fn about(schema: &Schema, packet: &str, out: &mut Out) -> Result<Exit, CommandFailure> {
    let name = parse_name(packet)?;
    let matches = schema.matches(name.as_ref());
    let matches =
        matches.map_err(|e| CommandFailure::new(Exit::Damaged, format!("{name}: {e}")))?;
    for found in &matches {
        let patterns: Vec<String> =
            found.bindings().map(|(pattern, value)| format!("{pattern}={value}")).collect();
        if out.is_json() {
            out.json(&MatchRow { packet: name.to_string(), rules: rules_of(found), patterns })?;
        } else {
            let rules = rules_of(found).join(", ");
            out.line(&clean(format!("{rules}  {}", patterns.join(" ")).trim_end()))?;
        }
    }
    if matches.is_empty() {
        let none = format!("{name}: no rule of the schema matches this name");
        return Err(CommandFailure::new(Exit::Damaged, none));
    }
    Ok(Exit::Done)
}

fn rules_of(found: &Match) -> Vec<String> {
    let mut rules = found.rules.clone();
    rules.dedup();
    rules
}

/// Reports for each certificate whether it may sign; returns the exit code of the best one.
fn may_sign(
    schema: &Schema,
    packet: &str,
    certificates: &[String],
    out: &mut Out,
) -> Result<Exit, CommandFailure> {
    let packet = parse_name(packet)?;
    let mut exit = Exit::Damaged;
    for certificate in certificates {
        let certificate = parse_name(certificate)?;
        let checked = schema.check(packet.as_ref(), certificate.as_ref());
        let (rule, key_rule, why) = match &checked {
            Ok(permit) => (Some(permit.rule()), Some(permit.key_rule()), None),
            Err(refusal) => (None, None, Some(refusal.to_string())),
        };
        if checked.is_ok() {
            exit = Exit::Done;
        }
        let certificate = certificate.to_string();
        if out.is_json() {
            let (packet, allowed) = (packet.to_string(), checked.is_ok());
            out.json(&PermitRow { packet, certificate, allowed, rule, key_rule, why })?;
            continue;
        }
        let answer = match (rule, key_rule, why) {
            (Some(rule), Some(key_rule), _) => format!("may sign: {rule} <= {key_rule}"),
            (_, _, why) => format!("may not sign: {}", why.unwrap_or_default()),
        };
        out.line(&clean(&format!("{certificate}  {answer}")))?;
    }
    Ok(exit)
}

/// Event: a valid schema.
#[derive(Serialize)]
#[serde(tag = "event", rename = "schema")]
struct SchemaRow<'a> {
    nodes: usize,
    rules: Vec<&'a str>,
    anchors: Vec<String>,
}

/// Event: one way in which a name matches.
#[derive(Serialize)]
#[serde(tag = "event", rename = "match")]
struct MatchRow {
    packet: String,
    rules: Vec<String>,
    patterns: Vec<String>,
}

/// Event: whether a certificate's key may sign a packet.
#[derive(Serialize)]
#[serde(tag = "event", rename = "permit")]
struct PermitRow {
    packet: String,
    certificate: String,
    allowed: bool,
    rule: Option<String>,
    key_rule: Option<String>,
    why: Option<String>,
}

#[cfg(test)]
mod row_tests {
    use super::*;
    use crate::output::assert_documented;

    #[test]
    fn rows_are_documented() {
        let text = || String::from("a");
        assert_documented(&SchemaRow { nodes: 1, rules: vec!["#a"], anchors: vec![text()] });
        assert_documented(&MatchRow {
            packet: text(),
            rules: vec![text()],
            patterns: vec![text()],
        });
        assert_documented(&PermitRow {
            packet: text(),
            certificate: text(),
            allowed: true,
            rule: Some(text()),
            key_rule: Some(text()),
            why: Some(text()),
        });
    }
}
