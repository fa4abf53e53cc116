//! Names of members.

/// Returns whether a member may have this name: up to 64 bytes of letters, digits, `-`, `_` and `@`.
pub fn is_member_name(text: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '@');
    !text.is_empty() && text.len() <= 64 && text.chars().all(plain)
}

/// Returns `USER@HOST` by the system's names, so that a person's machines, and the users of a machine, have different
/// names.
pub fn usual_member_name() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("USERNAME"));
    named(user.ok().as_deref(), host().as_deref())
}

/// Builds a name from the parts that are known and valid; of the host's name the first label is used.
fn named(user: Option<&str>, host: Option<&str>) -> String {
    let host = host.and_then(|host| host.split('.').next());
    let known = |name: Option<&str>| name.filter(|name| is_member_name(name)).map(str::to_owned);
    let both = match (known(user), known(host)) {
        (Some(user), Some(host)) => known(Some(&format!("{user}@{host}"))).or(Some(user)),
        (user, host) => user.or(host),
    };
    both.unwrap_or_else(|| "member".to_owned())
}

#[cfg(unix)]
fn host() -> Option<String> {
    rustix::system::uname().nodename().to_str().ok().map(str::to_owned)
}

#[cfg(not(unix))]
fn host() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_name_is_user_at_host() {
        let both = |user, host| named(user, host);
        assert_eq!(both(Some("alice"), Some("laptop.example.org")), "alice@laptop");
        assert_eq!(both(None, Some("laptop")), "laptop");
        assert_eq!(both(Some("alice"), None), "alice");
        // A part that is invalid in a name counts as unknown.
        assert_eq!(both(Some("DOM\\alice"), Some("laptop")), "laptop");
        assert_eq!(both(Some("alice"), Some("")), "alice");
        let long = "h".repeat(64);
        assert_eq!(both(Some("alice"), Some(&long)), "alice");
        assert_eq!(both(None, None), "member");
    }
}
