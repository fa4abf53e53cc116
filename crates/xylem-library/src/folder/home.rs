//! [`Home`]: what a store keeps of a folder that is in step with others: the group, our key in it, who its members
//! are and what they may do.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xylem_object::ticket::base32;
use xylem_object::{PublisherId, PublisherKey, Ticket};

use super::certified::RoleSchema;
use super::local::{FolderError, at, replace};
use super::roles::{Role, Roles};
use super::statement::{Group, Invitation, Statement};
use super::versions::VersionPolicy;
use crate::error::{Blame, Failure};
use crate::keys::{self, KeyError};
use crate::path::os_bytes;

const KEY: &str = "key";
const GROUP: &str = "group";
const PORT: &str = "port";
const LAST: &str = "last-run.json";
const MEMBERS: &str = "members";
const HISTORY: &str = "history";
const SHOWN: &str = "shown";
/// What is kept of those who have rewritten their history: a file each.
const EVIDENCE: &str = "evidence";
/// A folder of its own, which is watched.
pub(super) const ROLES: &str = "roles";

/// Why a folder is not kept in step.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// It never was.
    #[error("{}: not kept in step with anybody; `xylem sync DIR` begins with it", .0.display())]
    NotYet(PathBuf),
    /// It is a member of another group.
    #[error("{}: it is a member of another group already", .0.display())]
    OtherGroup(PathBuf),
    /// Another process does that.
    #[error("{}: another `xylem sync` keeps it in step", .0.display())]
    Busy(PathBuf),
    /// The store would be part of the folder.
    #[error("the store {} lies in the folder; name another with --store", .0.display())]
    StoreInside(PathBuf),
    /// What is kept of the group is damaged.
    #[error("{}: damaged", .0.display())]
    Damaged(PathBuf),
    /// Somebody else may say what members may do.
    #[error("only the founder of the group says what members may do")]
    NotTheFounder,
    /// Nobody is called so.
    #[error(
        "no member, or more than one, is called {0}; give its name, or the beginning of its key"
    )]
    NoSuchMember(String),
    /// Of files.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Of our key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl Failure for HomeError {
    fn blame(&self) -> Blame {
        match self {
            Self::NotYet(_)
            | Self::OtherGroup(_)
            | Self::StoreInside(_)
            | Self::NotTheFounder
            | Self::NoSuchMember(_) => Blame::Usage,
            Self::Busy(_) | Self::Damaged(_) => Blame::Local,
            Self::Folder(e) => e.blame(),
            Self::Key(e) => e.blame(),
        }
    }
}

/// What a run was asked for that holds for the next one as well, unless that is asked for something else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastRun {
    /// What others call us; `None`: as the system calls the user and the machine.
    pub name: Option<String>,
    /// Where it listens, as `--listen` takes it; empty: on all interfaces.
    pub listen: Vec<String>,
    /// Which versions are kept of what others replace or remove; `None`: as without a flag.
    pub versions: Option<VersionPolicy>,
}

/// See the module's text.
#[derive(Debug)]
pub struct Home {
    dir: PathBuf,
    /// The group, and the member that invited us; ourselves, if we have founded it.
    pub invitation: Invitation,
}

/// What follows the number of roles that name all members.
const CLOSED: &str = " closed";
/// What stands before the schema of those that are not named.
const SCHEMA: &str = "schema";

fn in_a_row<'a>(said: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for said in said {
        out.extend_from_slice(&u32::try_from(said.len()).unwrap_or(0).to_be_bytes());
        out.extend_from_slice(said);
    }
    out
}

fn place(store: &Path, folder: &Path) -> PathBuf {
    let id = xylem_hash::hash(&os_bytes(folder.as_os_str())).to_string();
    store.join("sync").join(&id[..16])
}

/// Two statements of one member that are not of one history, each as it was signed.
pub type TwoHistories = [(Statement, Vec<u8>); 2];

impl Home {
    /// What `store` keeps of `folder`, which is canonical. Where it was no member it becomes one: of the group of
    /// `joins`, or of a new one.
    ///
    /// # Errors
    /// See [`HomeError`].
    pub fn open(
        store: &Path,
        folder: &Path,
        joins: Option<&Invitation>,
    ) -> Result<Self, HomeError> {
        if store.canonicalize().is_ok_and(|store| store.starts_with(folder)) {
            return Err(HomeError::StoreInside(store.to_path_buf()));
        }
        let dir = place(store, folder);
        let (key_path, group_path) = (dir.join(KEY), dir.join(GROUP));
        if group_path.exists() {
            let home = Self::existing(store, folder)?;
            return match joins {
                Some(joins) if !joins.group.is(&home.invitation.group) => {
                    Err(HomeError::OtherGroup(folder.to_path_buf()))
                }
                _ => Ok(home),
            };
        }
        // Makes the directory, too, for this user alone.
        let key = PublisherKey::from_bytes(&keys::load_or_create(&key_path)?).public();
        let roles = dir.join(ROLES);
        fs::create_dir_all(&roles).map_err(at(&roles))?;
        let invitation = match joins {
            Some(joins) => joins.clone(),
            None => {
                let nobody = Ticket {
                    publisher: key,
                    root: xylem_hash::Hash::from_bytes([0; 32]),
                    name: None,
                    link_key: None,
                    size: None,
                    kind: None,
                    addresses: Vec::new(),
                    relays: Vec::new(),
                };
                Invitation {
                    group: Group::new(keys::random()?, key),
                    member: nobody,
                    schema: false,
                }
            }
        };
        let new = dir.join("group.new");
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(&new).and_then(|mut file| {
            file.write_all(invitation.to_string().as_bytes()).and_then(|()| file.sync_all())
        });
        written.and_then(|()| fs::rename(&new, &group_path)).map_err(at(&group_path))?;
        Ok(Self { dir, invitation })
    }

    /// What `store` keeps of `folder`, which is a member.
    ///
    /// # Errors
    /// See [`HomeError`].
    pub fn existing(store: &Path, folder: &Path) -> Result<Self, HomeError> {
        let dir = place(store, folder);
        let path = dir.join(GROUP);
        let text = match fs::read_to_string(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(HomeError::NotYet(folder.to_path_buf()));
            }
            text => text.map_err(at(&path))?,
        };
        let invitation = text.parse().map_err(|_| HomeError::Damaged(path))?;
        Ok(Self { dir, invitation })
    }

    /// Held while a process keeps the folder in step.
    ///
    /// # Errors
    /// Another does.
    pub fn lock(&self, folder: &Path) -> Result<File, HomeError> {
        let path = self.dir.join("lock");
        let file = File::create(&path).map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(HomeError::Busy(folder.to_path_buf())),
            Err(TryLockError::Error(e)) => Err(at(&path)(e).into()),
        }
    }

    /// Where the rest is kept.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file of our key in the group.
    pub fn key_file(&self) -> PathBuf {
        self.dir.join(KEY)
    }

    /// Our key in the group.
    ///
    /// # Errors
    /// It can't be read.
    pub fn key(&self) -> Result<PublisherKey, HomeError> {
        Ok(PublisherKey::from_bytes(&keys::load_existing(&self.key_file())?))
    }

    /// The port of the last run.
    pub fn port(&self) -> Option<u16> {
        fs::read_to_string(self.dir.join(PORT)).ok()?.trim().parse().ok()
    }

    /// Keeps the port for the next run.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_port(&self, port: u16) -> Result<(), HomeError> {
        Ok(replace(&self.dir.join(PORT), port.to_string().as_bytes())?)
    }

    /// What was asked for in the last run.
    ///
    /// # Errors
    /// It can't be read: what it says may be that others are not to reach this machine.
    pub fn last_run(&self) -> Result<LastRun, HomeError> {
        let path = self.dir.join(LAST);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|_| HomeError::Damaged(path)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(LastRun::default()),
            Err(e) => Err(at(&path)(e).into()),
        }
    }

    /// Keeps what was asked for, for the next run.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_last_run(&self, last: &LastRun) -> Result<(), HomeError> {
        if self.last_run().ok().as_ref() == Some(last) {
            return Ok(());
        }
        let bytes = serde_json::to_vec(last).expect("plain fields");
        Ok(replace(&self.dir.join(LAST), &bytes)?)
    }

    /// The log of all that we have ever said.
    pub fn history_file(&self) -> PathBuf {
        self.dir.join(HISTORY)
    }

    /// What members have said last; what can't be read is left out.
    pub fn members(&self) -> Vec<(Statement, Vec<u8>)> {
        self.statements(&self.dir.join(MEMBERS))
    }

    /// What those have signed who have rewritten their history: of each two statements that are not of one.
    ///
    /// # Errors
    /// [`HomeError::Damaged`]: whoever it is of would be believed again. The system's.
    pub fn evidence(&self) -> Result<Vec<TwoHistories>, HomeError> {
        let dir = self.dir.join(EVIDENCE);
        let files = match fs::read_dir(&dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            files => files.map_err(at(&dir))?,
        };
        let mut all = Vec::new();
        for file in files {
            let path = file.map_err(at(&dir))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            // What was not finished has another name.
            if name.is_some_and(|name| name.parse::<PublisherId>().is_ok()) {
                let both = self.statements(&path).try_into();
                all.push(both.map_err(|_| HomeError::Damaged(path))?);
            }
        }
        Ok(all)
    }

    /// Keeps two statements of a member that are not of one history. Returns where.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_evidence(
        &self,
        member: &PublisherId,
        both: &[Vec<u8>; 2],
    ) -> Result<PathBuf, HomeError> {
        let dir = self.dir.join(EVIDENCE);
        fs::create_dir_all(&dir).map_err(at(&dir))?;
        let path = dir.join(member.to_string());
        replace(&path, &in_a_row(both.iter().map(Vec::as_slice)))?;
        Ok(path)
    }

    fn statements(&self, path: &Path) -> Vec<(Statement, Vec<u8>)> {
        let bytes = fs::read(path).unwrap_or_default();
        let mut rest = bytes.as_slice();
        let mut members = Vec::new();
        while let Some((len, after)) = rest.split_first_chunk::<4>() {
            let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
            let Some((said, after)) = after.split_at_checked(len) else { break };
            if let Ok(statement) = Statement::read(said, &self.invitation.group) {
                members.push((statement, said.to_vec()));
            }
            rest = after;
        }
        members
    }

    /// Keeps what members have said.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_members<'a>(&self, said: impl Iterator<Item = &'a [u8]>) -> Result<(), HomeError> {
        Ok(replace(&self.dir.join(MEMBERS), &in_a_row(said))?)
    }

    /// What we show where a schema says who is a member, as an earlier run has kept it; may be empty.
    pub fn shown(&self) -> Vec<u8> {
        fs::read(self.dir.join(SHOWN)).unwrap_or_default()
    }

    /// Keeps it for the next run.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_shown(&self, shown: &[u8]) -> Result<(), HomeError> {
        Ok(replace(&self.dir.join(SHOWN), shown)?)
    }

    /// The directory that changes when the roles do.
    pub fn roles_dir(&self) -> PathBuf {
        self.dir.join(ROLES)
    }

    /// What the founder says of members; `None`: nothing is known of that.
    pub fn roles(&self) -> Option<Roles> {
        let list = self.roles_dir().join("list");
        if self.invitation.schema && !list.exists() {
            return Some(Roles::unheard(self.invitation.group.founder));
        }
        let text = fs::read_to_string(list).ok()?;
        let mut lines = text.lines();
        let first = lines.next()?;
        let closed = first.ends_with(CLOSED);
        let number = first.trim_end_matches(CLOSED).parse().ok()?;
        let (mut members, mut schema) = (BTreeMap::new(), None);
        for line in lines {
            let (role, member) = line.split_once(' ')?;
            let role = match role {
                SCHEMA => {
                    schema = Some(RoleSchema::read(&base32::decode(member).ok()?)?);
                    continue;
                }
                "member" => Role::Member,
                "read-only" => Role::ReadOnly,
                "removed" => Role::Removed,
                _ => return None,
            };
            members.insert(member.parse().ok()?, role);
        }
        Some(Roles { number, closed, members, schema })
    }

    /// Keeps them.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_roles(&self, roles: &Roles) -> Result<(), HomeError> {
        let closed = if roles.closed { CLOSED } else { "" };
        let mut text = format!("{}{closed}\n", roles.number);
        for (member, role) in &roles.members {
            let role = match role {
                Role::Member => "member",
                Role::ReadOnly => "read-only",
                Role::Removed => "removed",
            };
            text.push_str(&format!("{role} {member}\n"));
        }
        if let Some(schema) = &roles.schema {
            text.push_str(&format!("{SCHEMA} {}\n", base32::encode(schema.as_bytes())));
        }
        Ok(replace(&self.roles_dir().join("list"), text.as_bytes())?)
    }

    /// From now on a schema says what those may do that the founder does not name. Whoever was an ordinary member is named no
    /// more. False: it does so already.
    ///
    /// # Errors
    /// See [`HomeError`].
    pub fn give_schema(&self, schema: RoleSchema, now_ms: u64) -> Result<bool, HomeError> {
        if self.key()?.public() != self.invitation.group.founder {
            return Err(HomeError::NotTheFounder);
        }
        let mut roles = self.roles().unwrap_or_default();
        if roles.schema.as_ref() == Some(&schema) {
            return Ok(false);
        }
        roles.members.retain(|_, role| *role != Role::Member);
        roles.closed = false;
        roles.schema = Some(schema);
        roles.number = now_ms.max(roles.number.saturating_add(1));
        self.keep_roles(&roles)?;
        Ok(true)
    }

    /// Gives the member that is called so a role (`None`: an ordinary one). Returns who that is.
    ///
    /// # Errors
    /// See [`HomeError`].
    pub fn give_role(
        &self,
        who: &str,
        role: Option<Role>,
        now_ms: u64,
    ) -> Result<PublisherId, HomeError> {
        if self.key()?.public() != self.invitation.group.founder {
            return Err(HomeError::NotTheFounder);
        }
        let mut roles = self.roles().unwrap_or_default();
        let known = self.members();
        let all = known.iter().map(|(said, _)| (said.member, said.name.as_str()));
        let all: BTreeMap<PublisherId, &str> =
            roles.members.keys().map(|member| (*member, "")).chain(all).collect();
        let is = |(member, name): &(&PublisherId, &&str)| {
            **name == who || (who.len() >= 8 && member.to_string().starts_with(who))
        };
        let found: Vec<PublisherId> = all.iter().filter(is).map(|(member, _)| *member).collect();
        let member = match (&found[..], who.parse()) {
            ([member], _) => *member,
            // Who asks to be a member of a group that is closed is not known yet.
            ([], Ok(key)) if role.is_none() => key,
            _ => return Err(HomeError::NoSuchMember(who.to_owned())),
        };
        if role == Some(Role::Removed) && !roles.closed && roles.schema.is_none() {
            // Whoever is removed has the ticket still: from now on it makes nobody a member.
            roles.closed = true;
            for (said, _) in &known {
                roles.members.entry(said.member).or_insert(Role::Member);
            }
            roles.members.insert(self.invitation.group.founder, Role::Member);
        }
        match role {
            Some(role) => drop(roles.members.insert(member, role)),
            None if roles.closed || roles.schema.is_some() => {
                roles.members.insert(member, Role::Member);
            }
            None => drop(roles.members.remove(&member)),
        }
        roles.number = now_ms.max(roles.number.saturating_add(1));
        self.keep_roles(&roles)?;
        Ok(member)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_secret_of_a_group_is_its_users_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (store, folder) = (dir.path().join("store"), dir.path().join("folder"));
        fs::create_dir(&folder).unwrap();
        let home = Home::open(&store, &folder, None).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(home.dir()), 0o700);
        for secret in [GROUP, KEY] {
            assert_eq!(mode(&home.dir().join(secret)), 0o600, "{secret}");
        }
        // It stands nowhere else.
        let again = Home::open(&store, &folder, None).unwrap();
        assert!(again.invitation.group.is(&home.invitation.group));
    }
}
