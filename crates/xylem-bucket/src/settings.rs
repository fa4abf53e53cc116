//! [`Settings`]: credentials, region and endpoint, from the environment and the files that other S3 programs read.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use std::time::Duration;
use xylem_store::read_stream;

use crate::answers::Connector;
use crate::error::BucketError;

/// Variables that give credentials. At least one must be set.
const CREDENTIAL_VARIABLES: [&str; 6] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SKIP_SIGNATURE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_METADATA_ENDPOINT",
];
/// Most bytes of a file of profiles.
const MAX_PROFILES: u64 = 1 << 20;
/// Keys of a profile, and the environment variables of the same meaning.
const PROFILE: [(&str, &str); 5] = [
    ("aws_access_key_id", "AWS_ACCESS_KEY_ID"),
    ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY"),
    ("aws_session_token", "AWS_SESSION_TOKEN"),
    ("region", "AWS_REGION"),
    ("endpoint_url", "AWS_ENDPOINT_URL"),
];
/// How often, and for how long, a request is repeated when the store fails.
const REPEATS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(20);

/// Variables `AWS_…` of an environment, completed from a profile's files. Debug output omits their values, as they may
/// be secrets.
#[derive(Clone, Default)]
pub struct Settings {
    variables: BTreeMap<String, String>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

impl Settings {
    /// Takes the variables of an environment that begin with `AWS_`, and `HOME`, which locates the files. The
    /// environment has priority over files.
    ///
    /// # Errors
    /// A named profile does not exist.
    pub fn new(
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, BucketError> {
        let (mut variables, mut home) = (BTreeMap::new(), None);
        for (name, value) in environment {
            match name.as_str() {
                "HOME" => home = Some(PathBuf::from(value)),
                _ if name.starts_with("AWS_") && !value.is_empty() => {
                    variables.insert(name, value);
                }
                _ => {}
            }
        }
        let mut settings = Self { variables };
        let file = |variable: &str, name: &str| {
            let said = settings.variables.get(variable).map(PathBuf::from);
            said.or_else(|| Some(home.as_ref()?.join(".aws").join(name)))
        };
        let named = settings.variables.get("AWS_PROFILE").cloned();
        let profile = named.as_deref().unwrap_or("default");
        let mut found = BTreeMap::new();
        for path in
            [file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), file("AWS_CONFIG_FILE", "config")]
                .into_iter()
                .flatten()
        {
            let mut text = Vec::new();
            if read_stream(&path, MAX_PROFILES, &mut text).is_ok()
                && let Ok(text) = String::from_utf8(text)
            {
                found.extend(read_profile(&text, profile));
            }
        }
        if let (true, Some(named)) = (found.is_empty(), named) {
            let what =
                format!("there is no profile {named:?} in ~/.aws/credentials or ~/.aws/config");
            return Err(BucketError::Settings(what));
        }
        // A key half from the environment and half from a file would not be valid.
        let keyed = settings.variables.contains_key("AWS_ACCESS_KEY_ID");
        for (said, name) in PROFILE {
            if let Some(value) = found.remove(said)
                && !(keyed && said.starts_with("aws_"))
            {
                settings.variables.entry(name.to_owned()).or_insert(value);
            }
        }
        Ok(settings)
    }

    /// Returns the builder of a bucket's client.
    pub(crate) fn builder(&self, bucket: &str) -> Result<AmazonS3Builder, BucketError> {
        if !CREDENTIAL_VARIABLES.iter().any(|name| self.variables.contains_key(*name)) {
            return Err(BucketError::NoCredentials);
        }
        let mut builder = AmazonS3Builder::new().with_bucket_name(bucket);
        let mut plain = false;
        for (name, value) in &self.variables {
            // The endpoint of S3 has priority over that of all services.
            let key = match name.as_str() {
                "AWS_ENDPOINT_URL" if self.variables.contains_key("AWS_ENDPOINT_URL_S3") => {
                    continue;
                }
                "AWS_ENDPOINT_URL_S3" => Ok(AmazonS3ConfigKey::Endpoint),
                name => name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>(),
            };
            let Ok(key) = key else { continue };
            if matches!(key, AmazonS3ConfigKey::Bucket) {
                continue;
            }
            plain |= matches!(key, AmazonS3ConfigKey::Endpoint) && value.starts_with("http://");
            builder = builder.with_config(key, value);
        }
        let client = ClientOptions::new()
            .with_allow_http(plain)
            .with_connect_timeout(Duration::from_secs(5))
            .with_timeout(Duration::from_secs(60));
        let backoff = BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(4),
            base: 2.0,
        };
        let retry = RetryConfig { backoff, max_retries: REPEATS, retry_timeout: PATIENCE };
        let builder = builder.with_client_options(client).with_retry(retry);
        Ok(builder.with_http_connector(Connector::default()))
    }
}

/// Reads a profile of an INI file: the section `[NAME]` or `[profile NAME]`, with lines `key = value`.
fn read_profile(text: &str, profile: &str) -> BTreeMap<String, String> {
    let mut inside = false;
    let mut found = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let section = section.trim();
            inside = section.strip_prefix("profile ").unwrap_or(section).trim() == profile;
        } else if let (true, Some((name, value))) = (inside, line.split_once('=')) {
            found.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_profile_fills_gaps_of_the_environment() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join(".aws");
        std::fs::create_dir(&folder).expect("a folder");
        let credentials = "[default]\naws_access_key_id = A\naws_secret_access_key=B\n\n[other]\naws_access_key_id=C\n";
        std::fs::write(folder.join("credentials"), credentials).expect("a file");
        std::fs::write(folder.join("config"), "[profile other]\nregion = eu\n").expect("a file");
        let at = home.path().to_str().expect("text");
        let of = |more: &[(&str, &str)]| {
            let settings = Settings::new(environment(&[&[("HOME", at)], more].concat()))?;
            Ok::<_, BucketError>(settings.variables.into_values().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(of(&[]).expect("settings"), "A B");
        assert_eq!(of(&[("AWS_PROFILE", "other")]).expect("settings"), "C other eu");
        assert_eq!(of(&[("AWS_ACCESS_KEY_ID", "X"), ("LANG", "C")]).expect("settings"), "X");
        let said = of(&[("AWS_PROFILE", "nobody")]).expect_err("no such profile").to_string();
        assert!(said.contains("nobody"), "{said}");
    }

    #[test]
    fn secrets_are_not_printed_and_credentials_are_required() {
        let settings = Settings::new(environment(&[("AWS_SECRET_ACCESS_KEY", "secret")]));
        let settings = settings.expect("settings");
        assert!(!format!("{settings:?}").contains("=secret"));
        assert!(!format!("{settings:?}").contains("\"secret\""));
        assert!(matches!(settings.builder("abc"), Err(BucketError::NoCredentials)));
    }
}
