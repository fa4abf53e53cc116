//! Parses the text form of a schema, as python-ndn defines it, into rules.
//!
//! ```text
//! file        := rule*
//! rule        := #NAME ":" name ("&" set ("|" set)*)? ("<=" #NAME ("|" #NAME)*)?
//! name        := "/"? component ("/" component)*
//! component   := "TEXT" | PATTERN | #NAME
//! set         := "{" term ("," term)* "}"              one set has to hold
//! term        := PATTERN ":" option ("|" option)*      all terms of a set have to
//! option      := "TEXT" | PATTERN | $NAME "(" ("TEXT" | PATTERN),* ")"
//! ```
//! `//` begins a comment. TEXT is a component as in a URI. A pattern that begins with `_` is a new one at each place.
//! Rules that begin with `#_` cannot be referred to.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::cast_possible_truncation))]

use xylem_packet::Name;

use super::error::CompileError;
use super::limits::MAX_SCHEMA;
use super::model::{Function, Value};

/// A position in the text: line and column, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextPosition {
    line: usize,
    column: usize,
}

impl Default for TextPosition {
    fn default() -> Self {
        TextPosition { line: 1, column: 1 }
    }
}

impl TextPosition {
    pub(super) fn error(self, problem: impl Into<String>) -> CompileError {
        CompileError { line: self.line, column: self.column, problem: problem.into() }
    }
}

/// A name in the text, with its position.
#[derive(Debug, Clone)]
pub(super) struct NamedToken {
    pub(super) text: String,
    pub(super) at: TextPosition,
}

impl NamedToken {
    pub(super) fn is_temporary(&self) -> bool {
        self.text.trim_start_matches(['#', '$']).starts_with('_')
    }
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) id: String,
    pub(super) at: TextPosition,
    pub(super) name: Vec<NamePart>,
    pub(super) sets: Vec<Vec<TextConstraint>>,
    pub(super) signers: Vec<NamedToken>,
}

#[derive(Debug)]
pub(super) enum NamePart {
    Value(Value),
    Pattern(NamedToken),
    Rule(NamedToken),
}

#[derive(Debug)]
pub(super) struct TextConstraint {
    pub(super) pattern: NamedToken,
    pub(super) options: Vec<TextOption>,
}

#[derive(Debug)]
pub(super) enum TextOption {
    Is(TextOperand),
    Call(Function, Vec<TextOperand>),
}

#[derive(Debug)]
pub(super) enum TextOperand {
    Value(Value),
    Pattern(NamedToken),
}

pub(super) fn parse(text: &str) -> Result<Vec<Rule>, CompileError> {
    if text.len() > MAX_SCHEMA {
        return Err(TextPosition::default().error("the text is larger than 1 MiB"));
    }
    let mut parser = Parser { tokens: Tokens::new(text), next: None };
    let mut rules = Vec::new();
    let mut temporary = 0usize;
    while parser.peek()?.kind != TokenKind::End {
        let mut rule = parser.rule()?;
        // Makes the name unique.
        if rule.id.starts_with("#_") {
            temporary = temporary.saturating_add(1);
            rule.id = format!("{}#{temporary}", rule.id);
        }
        rules.push(rule);
    }
    Ok(rules)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TokenKind {
    Pattern(String),
    Rule(String),
    Function(String),
    Text(String),
    Sign(&'static str),
    End,
}

impl TokenKind {
    fn words(&self) -> String {
        match self {
            TokenKind::Pattern(name) | TokenKind::Rule(name) | TokenKind::Function(name) => {
                name.clone()
            }
            TokenKind::Text(text) => format!("\"{text}\""),
            TokenKind::Sign(sign) => format!("'{sign}'"),
            TokenKind::End => "the end".to_owned(),
        }
    }
}

#[derive(Debug, Clone)]
struct SchemaToken {
    kind: TokenKind,
    at: TextPosition,
}

struct Parser<'t> {
    tokens: Tokens<'t>,
    next: Option<SchemaToken>,
}

impl Parser<'_> {
    fn peek(&mut self) -> Result<&SchemaToken, CompileError> {
        let token = match self.next.take() {
            Some(token) => token,
            None => self.tokens.next()?,
        };
        Ok(self.next.insert(token))
    }

    fn take(&mut self) -> Result<SchemaToken, CompileError> {
        self.peek()?;
        Ok(self
            .next
            .take()
            .unwrap_or(SchemaToken { kind: TokenKind::End, at: TextPosition::default() }))
    }

    fn accept(&mut self, sign: &'static str) -> Result<bool, CompileError> {
        let found = self.peek()?.kind == TokenKind::Sign(sign);
        if found {
            self.next = None;
        }
        Ok(found)
    }

    fn expect(&mut self, sign: &'static str, after: &str) -> Result<(), CompileError> {
        if self.accept(sign)? {
            return Ok(());
        }
        self.unexpected(&format!("'{sign}' {after}"))
    }

    fn unexpected<T>(&mut self, wanted: &str) -> Result<T, CompileError> {
        let token = self.peek()?;
        Err(token.at.error(format!("expected {wanted}, found {}", token.kind.words())))
    }

    fn rule_name(&mut self) -> Result<NamedToken, CompileError> {
        match self.take()? {
            SchemaToken { kind: TokenKind::Rule(text), at } => Ok(NamedToken { text, at }),
            token => {
                self.next = Some(token);
                self.unexpected("a rule's name, such as #author")
            }
        }
    }

    fn rule(&mut self) -> Result<Rule, CompileError> {
        let NamedToken { text: id, at } = self.rule_name()?;
        self.expect(":", "after the rule's name")?;
        self.accept("/")?;
        let mut name = vec![self.part()?];
        while self.accept("/")? {
            name.push(self.part()?);
        }
        let mut sets = Vec::new();
        if self.accept("&")? {
            sets.push(self.set()?);
            while self.accept("|")? {
                sets.push(self.set()?);
            }
        }
        let mut signers = Vec::new();
        if self.accept("<=")? {
            signers.push(self.rule_name()?);
            while self.accept("|")? {
                signers.push(self.rule_name()?);
            }
        }
        Ok(Rule { id, at, name, sets, signers })
    }

    fn part(&mut self) -> Result<NamePart, CompileError> {
        let SchemaToken { kind, at } = self.take()?;
        match kind {
            TokenKind::Text(text) => component(&text, at).map(NamePart::Value),
            TokenKind::Pattern(text) => Ok(NamePart::Pattern(NamedToken { text, at })),
            TokenKind::Rule(text) => Ok(NamePart::Rule(NamedToken { text, at })),
            kind => {
                self.next = Some(SchemaToken { kind, at });
                self.unexpected("a component (\"text\", a pattern or a rule's name)")
            }
        }
    }

    fn set(&mut self) -> Result<Vec<TextConstraint>, CompileError> {
        self.expect("{", "to begin a set of constraints")?;
        let mut terms = vec![self.term()?];
        while self.accept(",")? {
            terms.push(self.term()?);
        }
        self.expect("}", "or ',' after a constraint")?;
        Ok(terms)
    }

    fn term(&mut self) -> Result<TextConstraint, CompileError> {
        let pattern = match self.take()? {
            SchemaToken { kind: TokenKind::Pattern(text), at } => NamedToken { text, at },
            token => {
                self.next = Some(token);
                return self.unexpected("the pattern that a constraint is about");
            }
        };
        self.expect(":", "after the pattern that a constraint is about")?;
        let mut options = vec![self.choice()?];
        while self.accept("|")? {
            options.push(self.choice()?);
        }
        Ok(TextConstraint { pattern, options })
    }

    fn choice(&mut self) -> Result<TextOption, CompileError> {
        let SchemaToken { kind, at } = self.take()?;
        let TokenKind::Function(name) = kind else {
            self.next = Some(SchemaToken { kind, at });
            return self.operand().map(TextOption::Is);
        };
        let known = "only $eq and $eq_type are known";
        let function = Function::of(&name).ok_or_else(|| at.error(format!("{name}: {known}")))?;
        self.expect("(", "after a function's name")?;
        let mut arguments = Vec::new();
        if !self.accept(")")? {
            arguments.push(self.operand()?);
            while self.accept(",")? {
                arguments.push(self.operand()?);
            }
            self.expect(")", "or ',' after an argument")?;
        }
        Ok(TextOption::Call(function, arguments))
    }

    fn operand(&mut self) -> Result<TextOperand, CompileError> {
        let SchemaToken { kind, at } = self.take()?;
        match kind {
            TokenKind::Text(text) => component(&text, at).map(TextOperand::Value),
            TokenKind::Pattern(text) => Ok(TextOperand::Pattern(NamedToken { text, at })),
            kind => {
                self.next = Some(SchemaToken { kind, at });
                self.unexpected("\"text\", a pattern or a function")
            }
        }
    }
}

/// Parses one component as in a URI, but periods alone stand for themselves, and empty text is an empty component.
fn component(text: &str, at: TextPosition) -> Result<Value, CompileError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~=%".contains(c);
    if let Some(other) = text.chars().find(|c| !allowed(*c)) {
        return Err(at.error(format!("\"{text}\": {other:?} has to be percent-encoded")));
    }
    let (typ, value) = text.split_at(text.find('=').map_or(0, |equals| equals.saturating_add(1)));
    let periods = value.replace("%2e", ".").replace("%2E", ".").bytes().all(|b| b == b'.');
    let periods = if periods { "..." } else { "" };
    let name = Name::from_uri(&format!("/{typ}{periods}{value}"));
    let name = name.map_err(|error| {
        let error = error.to_string();
        at.error(format!("\"{text}\": {}", error.trim_start_matches("component 0: ")))
    })?;
    Ok(name.as_ref().value().into())
}

struct Tokens<'t> {
    rest: &'t str,
    at: TextPosition,
}

impl<'t> Tokens<'t> {
    fn new(text: &'t str) -> Self {
        Tokens { rest: text, at: TextPosition::default() }
    }

    /// Takes `len` bytes, which have to end at a character boundary.
    fn take(&mut self, len: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(len);
        for c in taken.chars() {
            if c == '\n' {
                self.at = TextPosition { line: self.at.line.saturating_add(1), column: 1 };
            } else {
                self.at.column = self.at.column.saturating_add(1);
            }
        }
        self.rest = rest;
        taken
    }

    fn skip(&mut self) {
        loop {
            let rest = self.rest.trim_start_matches([' ', '\t', '\u{c}', '\r', '\n']);
            let blank = self.rest.len().saturating_sub(rest.len());
            let comment = rest.starts_with("//").then(|| rest.find('\n').unwrap_or(rest.len()));
            self.take(blank.saturating_add(comment.unwrap_or(0)));
            if comment.is_none() {
                return;
            }
        }
    }

    fn next(&mut self) -> Result<SchemaToken, CompileError> {
        self.skip();
        let at = self.at;
        let Some(first) = self.rest.chars().next() else {
            return Ok(SchemaToken { kind: TokenKind::End, at });
        };
        for sign in ["<=", ":", "/", "&", "|", "{", "}", ",", "(", ")"] {
            if self.rest.starts_with(sign) {
                self.take(sign.len());
                return Ok(SchemaToken { kind: TokenKind::Sign(sign), at });
            }
        }
        let kind = match first {
            '"' => TokenKind::Text(self.text(at)?),
            '#' => TokenKind::Rule(self.word(at, "a rule's name")?),
            '$' => TokenKind::Function(self.word(at, "a function's name")?),
            c if c.is_ascii_alphabetic() || c == '_' => TokenKind::Pattern(self.word(at, "")?),
            c => return Err(at.error(format!("{c:?} has no meaning here"))),
        };
        Ok(SchemaToken { kind, at })
    }

    /// Parses a name with the sign in front of it, if there is one.
    fn word(&mut self, at: TextPosition, what: &str) -> Result<String, CompileError> {
        let bare = self.rest.trim_start_matches(['#', '$']);
        let sign = self.rest.len().saturating_sub(bare.len()).min(1);
        let name = &self.rest[sign..];
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = name.find(|c| !is_word(c)).unwrap_or(name.len());
        if len == 0 || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(at.error(format!("{what} begins with a letter or '_'")));
        }
        if len > 200 {
            return Err(at.error("the name has more than 200 letters"));
        }
        Ok(self.take(sign.saturating_add(len)).to_owned())
    }

    fn text(&mut self, at: TextPosition) -> Result<String, CompileError> {
        let inside = &self.rest[1..];
        let end = inside.find(['"', '\n']);
        let Some(end) = end.filter(|end| inside[*end..].starts_with('"')) else {
            return Err(at.error("the text has no end: '\"' is missing on this line"));
        };
        let taken = self.take(end.saturating_add(2));
        Ok(taken.trim_matches('"').to_owned())
    }
}
