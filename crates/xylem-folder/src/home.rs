//! [`SyncHome`]: a store's state of a folder in step: the group, this member's key in it, the other members and their
//! roles.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xylem_base::{Blame, Failure, NoRandomness};
use xylem_files::ours::OWN;
use xylem_keys::KeyFileError;
use xylem_object::{PublisherId, PublisherKey, Ticket};
use xylem_store::{Clobber, FileRef, create_dirs, write_atomically};

use super::certified::RoleSchema;
use super::error::{FolderError, at};
use super::heard::MAX_MEMBERS;
use super::mark;
use super::own_files::{OwnFile, OwnFiles, ROLES};
use super::roles::{MemberRole, Roles};
use super::statement::{Invitation, MemberStatement, SyncGroup};
use super::versions::VersionPolicy;

const KEY: &str = "key";
pub(super) const GROUP: &str = "group";
const PORT: &str = "port";
const LAST: &str = "last-run";
const MEMBERS: &str = "members";
/// Members to which there was a link, oldest first.
const LINKED_MEMBERS: &str = "met";
const HISTORY: &str = "history";
const SHOWN: &str = "shown";
/// Directory with the evidence against members that rewrote their history, one file each.
const EVIDENCE: &str = "evidence";
/// The founder's list in the [roles](ROLES) directory, and its copy, which is written first. Each of the two, if whole,
/// is the last list that was stored or a newer one.
const LISTS: [&str; 2] = ["list.1", "list"];
/// Lock that is held while the list is read, changed and written.
const ROLES_LOCK: &str = "roles.lock";
/// Most bytes of a ticket, or of a port number.
const MAX_TEXT: u64 = 64 * 1024;
/// Most members without a link to the founder that a closed group still names. If there are more, they were made in
/// bulk with the ticket.
const MAX_UNLINKED: usize = 16;

const GROUP_LOST: &str =
    "restore it from a backup, or join again with a ticket of the group (`xylem sync DIR TICKET`)";
const LAST_LOST: &str = "remove it, then give --as and --listen again";
const SHOWN_LOST: &str = "give --sign again";
const EVIDENCE_LOST: &str = "it proves that a member has signed two histories; without it that member would be trusted again. Restore it \
                             from a backup, or remove it if another member has it";
const LIST_LOST: &str = "so is its copy list.1; without them removed members would be admitted again. Restore one of the two from a backup. \
                         The founder can also remove both, then run `xylem sync DIR --remove WHO` for each removed member \
                         before anything else";
const MEMBERS_LOST: &str = "not all members are known, and a removal has to name all others: run `xylem sync DIR` until they have \
                            connected, then run this again";

/// Why a folder is not kept in step.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// It never was in step.
    #[error("{}: not in step with any other folder; `xylem sync DIR` starts a group", .0.display())]
    NotYet(PathBuf),
    /// It is a member of another group.
    #[error("{}: already in step with another group; name another folder", .0.display())]
    OtherGroup(PathBuf),
    /// Another process keeps it in step.
    #[error("{}: another `xylem sync` already runs for this folder", .0.display())]
    Busy(PathBuf),
    /// The store lies within the folder.
    #[error("the store {} lies in the folder; name another with --store", .0.display())]
    StoreInside(PathBuf),
    /// It was moved or copied here, and this store does not know it.
    #[error("{}: in step before, but this store does not know its group: name the right store with --store, join again with a \
             ticket (`xylem sync DIR TICKET`), or remove {OWN}/{} in it to start another group", .0.display(), mark::MARK)]
    Unknown(PathBuf),
    /// It is a copy of a member's folder.
    #[error("{}: a copy of {}, which is in step: remove {OWN}/{} in the copy to start a group with it", .folder.display(), .of.display(), mark::MARK)]
    Copied {
        /// The copy.
        folder: PathBuf,
        /// The member's folder.
        of: PathBuf,
    },
    /// A file of the group's state is damaged or missing.
    #[error("{}: damaged or missing; {advice}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The user's way out.
        advice: &'static str,
    },
    /// The list of members is as long as other members accept.
    #[error(
        "the founder's list names {MAX_MEMBERS} members, the most that it can hold; nothing was changed"
    )]
    TooManyRoles,
    /// Only the founder can give roles.
    #[error("only the founder of the group can change what members may do")]
    NotTheFounder,
    /// No member has this name.
    #[error(
        "no member, or more than one, is named {0}; give a name or the beginning of a key (`xylem sync DIR --status`)"
    )]
    NoSuchMember(String),
    /// An error of files.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// An error of this member's key.
    #[error(transparent)]
    Key(#[from] KeyFileError),
}

impl From<NoRandomness> for HomeError {
    fn from(e: NoRandomness) -> Self {
        Self::Key(e.into())
    }
}

impl Failure for HomeError {
    fn blame(&self) -> Blame {
        match self {
            Self::NotYet(_)
            | Self::OtherGroup(_)
            | Self::StoreInside(_)
            | Self::Unknown(_)
            | Self::Copied { .. }
            | Self::NotTheFounder
            | Self::TooManyRoles
            | Self::NoSuchMember(_) => Blame::Usage,
            Self::Busy(_) | Self::Damaged { .. } => Blame::Local,
            Self::Folder(e) => e.blame(),
            Self::Key(e) => e.blame(),
        }
    }
}

/// Options of a run that hold for the next one as well, unless that gives others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastRun {
    /// Display name of this member; `None`: made of the user's and the machine's names.
    pub name: Option<String>,
    /// Addresses to listen on, as `--listen` takes them; empty: all interfaces.
    pub listen: Vec<String>,
    /// Which versions of replaced and removed files are kept; `None`: the default.
    pub versions: Option<VersionPolicy>,
    /// Whether extended attributes are exchanged.
    pub xattrs: bool,
}

/// A store's state of one folder in step.
#[derive(Debug)]
pub struct SyncHome {
    pub(super) files: OwnFiles,
    dir: PathBuf,
    /// The group, and the member that invited this one; for a founder, the founder itself.
    pub invitation: Invitation,
}

/// The stored statements of the members.
#[derive(Debug)]
pub struct KnownMembers {
    /// The statements, parsed and as they were signed.
    pub said: Vec<(MemberStatement, Vec<u8>)>,
    /// False if the file is damaged: then there may have been more.
    pub is_whole: bool,
}

/// A role that the founder gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenRole {
    /// The member that got it.
    pub member: PublisherId,
    /// Number of members that closing the group left out: the founder never had a link to them, and they are too many.
    pub left_out: usize,
}

fn framed<'a>(said: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for said in said {
        out.extend_from_slice(&u32::try_from(said.len()).unwrap_or(0).to_be_bytes());
        out.extend_from_slice(said);
    }
    out
}

/// Two statements of one member that contradict each other's history, parsed and as they were signed.
pub type TwoHistories = [(MemberStatement, Vec<u8>); 2];

impl SyncHome {
    /// Opens the state that `store` has of `folder`, which is a canonical path. If there is none, the folder becomes a
    /// member: of the group of `joins`, or of a new one.
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
        let files = OwnFiles::on_disk();
        let found = match mark::find_state_dir(&files, store, folder) {
            // A ticket names the group to join, so the mark does not matter.
            Err(HomeError::Unknown(_) | HomeError::Copied { .. }) if joins.is_some() => None,
            found => found?,
        };
        if let Some(dir) = found {
            let home = Self::at(files, dir)?;
            return match joins {
                Some(joins) if !joins.group.is(&home.invitation.group) => {
                    Err(HomeError::OtherGroup(folder.to_path_buf()))
                }
                _ => Ok(home),
            };
        }
        let dir = mark::new_state_dir(&files, store, folder)?;
        if joins.is_none() {
            for there in [HISTORY, MEMBERS] {
                if files.is_there(&dir.join(there))? {
                    return Err(HomeError::Damaged { path: dir.join(GROUP), advice: GROUP_LOST });
                }
            }
        }
        // Fails if another process, of any store, keeps the folder in step.
        let locked = mark::lock(&files, folder)?;
        create_dirs(files.medium(), &dir.join(ROLES)).map_err(FolderError::from)?;
        mark::note_folder(&files, &dir, folder)?;
        let key = PublisherKey::from_bytes(&xylem_keys::load_or_create(&dir.join(KEY))?).public();
        let invitation = match joins {
            Some(joins) => joins.clone(),
            None => Invitation {
                group: SyncGroup::new(xylem_base::random()?, key),
                member: placeholder_ticket(key),
                schema: false,
            },
        };
        let (group, text) = (dir.join(GROUP), invitation.to_string());
        write_atomically(files.medium(), &group, text.as_bytes(), 0o600, Clobber::Never)
            .map_err(FolderError::from)?;
        if locked.is_some() {
            mark::write(&files, &dir, folder)?;
        }
        Ok(Self { files, dir, invitation })
    }

    /// Opens the state that `store` has of `folder`, which must be a member.
    ///
    /// # Errors
    /// See [`HomeError`].
    pub fn existing(store: &Path, folder: &Path) -> Result<Self, HomeError> {
        let files = OwnFiles::on_disk();
        let found = mark::find_state_dir(&files, store, folder)?;
        Self::at(files, found.ok_or_else(|| HomeError::NotYet(folder.to_path_buf()))?)
    }

    fn at(files: OwnFiles, dir: PathBuf) -> Result<Self, HomeError> {
        let path = dir.join(GROUP);
        let text = files.bytes(&path, MAX_TEXT)?.unwrap_or_default();
        let invitation = String::from_utf8(text).ok().and_then(|text| text.parse().ok());
        let invitation = invitation.ok_or(HomeError::Damaged { path, advice: GROUP_LOST })?;
        Ok(Self { files, dir, invitation })
    }

    /// Takes the lock that a process holds while it keeps the folder in step.
    ///
    /// # Errors
    /// Another process holds it.
    pub fn lock(&self, folder: &Path) -> Result<FileRef, HomeError> {
        let path = self.dir.join("lock");
        let held = self.files.try_lock(&path).map_err(at(&path))?;
        held.ok_or_else(|| HomeError::Busy(folder.to_path_buf()))
    }

    /// Takes the folder's own lock, which processes of all stores share, and marks the folder. From now on its state is
    /// found by the mark, wherever the folder is moved.
    ///
    /// # Errors
    /// [`HomeError::Busy`]: another process holds the lock. The system's.
    pub fn claim(&self, folder: &Path) -> Result<FileRef, HomeError> {
        mark::claim(&self.files, &self.dir, folder)
    }

    /// Returns the state directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the file of this member's key in the group.
    pub fn key_file(&self) -> PathBuf {
        self.dir.join(KEY)
    }

    /// Reads this member's key in the group.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn key(&self) -> Result<PublisherKey, HomeError> {
        Ok(PublisherKey::from_bytes(&xylem_keys::load_existing(&self.key_file())?))
    }

    /// Returns the port of the last run. Without it, other members merely look for this one at another port.
    pub fn port(&self) -> Option<u16> {
        let text = self.files.bytes(&self.dir.join(PORT), MAX_TEXT).ok()??;
        String::from_utf8(text).ok()?.trim().parse().ok()
    }

    /// Stores the port for the next run.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_port(&self, port: u16) -> Result<(), HomeError> {
        if self.port() == Some(port) {
            return Ok(());
        }
        Ok(self.files.replace(&self.dir.join(PORT), port.to_string().as_bytes())?)
    }

    /// Returns the options of the last run.
    ///
    /// # Errors
    /// They cannot be read. They may keep others from reaching this machine, so there is no default.
    pub fn last_run(&self) -> Result<LastRun, HomeError> {
        let path = self.dir.join(LAST);
        match self.files.load(&path)?.and_then(|bytes| serde_json::from_slice(bytes).ok()) {
            OwnFile::Whole(last) => Ok(last),
            OwnFile::Missing => Ok(LastRun::default()),
            OwnFile::Damaged(_) => Err(HomeError::Damaged { path, advice: LAST_LOST }),
        }
    }

    /// Stores the options for the next run.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_last_run(&self, last: &LastRun) -> Result<(), HomeError> {
        if self.last_run().ok().as_ref() == Some(last) {
            return Ok(());
        }
        let bytes = serde_json::to_vec(last).expect("plain fields");
        Ok(self.files.keep(&self.dir.join(LAST), &bytes)?)
    }

    /// Returns the file of the log of this member's statements.
    pub fn history_file(&self) -> PathBuf {
        self.dir.join(HISTORY)
    }

    /// Returns the stored statements of the members. Each is signed, so the readable part of a damaged file is valid.
    ///
    /// # Errors
    /// The system's.
    pub fn members(&self) -> Result<KnownMembers, HomeError> {
        Ok(match self.files.load(&self.dir.join(MEMBERS))? {
            OwnFile::Missing => KnownMembers { said: Vec::new(), is_whole: true },
            OwnFile::Whole(rows) => KnownMembers { said: self.statements(&rows), is_whole: true },
            OwnFile::Damaged(rest) => {
                KnownMembers { said: self.statements(&rest), is_whole: false }
            }
        })
    }

    /// Returns the members to which there was a link, oldest first. They only decide which members are kept when there
    /// are too many, so a damaged file counts as missing.
    pub fn linked_members(&self) -> Vec<PublisherId> {
        match self.files.load(&self.dir.join(LINKED_MEMBERS)) {
            Ok(OwnFile::Whole(keys)) => {
                keys.as_chunks::<32>().0.iter().map(|key| PublisherId(*key)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Stores the members to which there was a link, if they have changed.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_linked_members(&self, met: &[PublisherId]) -> Result<(), HomeError> {
        if self.linked_members() == met {
            return Ok(());
        }
        let keys: Vec<u8> = met.iter().flat_map(|key| key.0).collect();
        Ok(self.files.keep(&self.dir.join(LINKED_MEMBERS), &keys)?)
    }

    /// Returns the evidence against members that rewrote their history: of each, two statements that contradict each
    /// other.
    ///
    /// # Errors
    /// [`HomeError::Damaged`]: without the evidence, the member would be trusted again. The system's.
    pub fn evidence(&self) -> Result<Vec<TwoHistories>, HomeError> {
        let dir = self.dir.join(EVIDENCE);
        let files = match self.files.medium().list_dir(&dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            files => files.map_err(at(&dir))?,
        };
        let mut all = Vec::new();
        for file in files {
            let path = dir.join(&file.name);
            // A partly written file has another name.
            let Some(member) = file.name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let both = self.files.load(&path)?;
            let both = both.and_then(|rows| TwoHistories::try_from(self.statements(rows)).ok());
            let both = both.and_then(|both| {
                both.iter().all(|(said, _)| said.member == member).then(|| both.clone())
            });
            let OwnFile::Whole(both) = both else {
                return Err(HomeError::Damaged { path, advice: EVIDENCE_LOST });
            };
            all.push(both);
        }
        Ok(all)
    }

    /// Stores two contradicting statements of a member, and returns the path.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_evidence(
        &self,
        member: &PublisherId,
        both: &[Vec<u8>; 2],
    ) -> Result<PathBuf, HomeError> {
        let dir = self.dir.join(EVIDENCE);
        create_dirs(self.files.medium(), &dir).map_err(FolderError::from)?;
        let path = self.evidence_file(member);
        self.files.keep(&path, &framed(both.iter().map(Vec::as_slice)))?;
        Ok(path)
    }

    /// Returns where [`Self::keep_evidence`] stores a member's statements.
    pub fn evidence_file(&self, member: &PublisherId) -> PathBuf {
        self.dir.join(EVIDENCE).join(member.to_string())
    }

    fn statements(&self, rows: &[u8]) -> Vec<(MemberStatement, Vec<u8>)> {
        let mut rest = rows;
        let mut members = Vec::new();
        while let Some((len, after)) = rest.split_first_chunk::<4>() {
            let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
            let Some((said, after)) = after.split_at_checked(len) else { break };
            if let Ok(statement) = MemberStatement::read(said, &self.invitation.group) {
                members.push((statement, said.to_vec()));
            }
            rest = after;
        }
        members
    }

    /// Stores the statements of the members.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_members<'a>(&self, said: impl Iterator<Item = &'a [u8]>) -> Result<(), HomeError> {
        Ok(self.files.keep(&self.dir.join(MEMBERS), &framed(said))?)
    }

    /// Returns the certificates and vouchers that an earlier run stored, for groups where a schema decides membership;
    /// may be empty.
    ///
    /// # Errors
    /// The file is damaged, or cannot be read: without it, no member would admit this one.
    pub fn presentation(&self) -> Result<Vec<u8>, HomeError> {
        let path = self.dir.join(SHOWN);
        match self.files.load(&path)? {
            OwnFile::Whole(shown) => Ok(shown),
            OwnFile::Missing => Ok(Vec::new()),
            OwnFile::Damaged(_) => Err(HomeError::Damaged { path, advice: SHOWN_LOST }),
        }
    }

    /// Stores certificates and vouchers for the next run.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_presentation(&self, shown: &[u8]) -> Result<(), HomeError> {
        Ok(self.files.keep(&self.dir.join(SHOWN), shown)?)
    }

    /// Returns the directory that changes when the roles do.
    pub fn roles_dir(&self) -> PathBuf {
        self.dir.join(ROLES)
    }

    fn lists(&self) -> [Result<OwnFile<Roles>, FolderError>; 2] {
        LISTS.map(|name| {
            let read = |bytes: &Vec<u8>| {
                let mut rest = bytes.as_slice();
                Roles::read(&mut rest).filter(|_| rest.is_empty())
            };
            Ok(self.files.load(&self.roles_dir().join(name))?.and_then(read))
        })
    }

    /// Returns the founder's roles; `None` if none are known.
    ///
    /// # Errors
    /// List and copy are damaged, or one is damaged and the other missing, and there is no statement of the founder. An
    /// unreadable list does not mean an open group. The system's.
    pub fn roles(&self) -> Result<Option<Roles>, HomeError> {
        let mut whole: Option<Roles> = None;
        let (mut missing, mut failed) = (0_usize, None);
        for list in self.lists() {
            match list {
                Ok(OwnFile::Whole(roles))
                    if whole.as_ref().is_none_or(|w| w.number < roles.number) =>
                {
                    whole = Some(roles);
                }
                Ok(OwnFile::Missing) => missing = missing.saturating_add(1),
                Ok(_) => {}
                Err(e) => failed = Some(e),
            }
        }
        if whole.is_some() {
            return Ok(whole);
        }
        let founder = self.invitation.group.founder;
        if missing == LISTS.len() {
            return Ok(self.invitation.schema.then(|| Roles::founder_only(founder)));
        }
        // The founder's statement is signed, and as new as the list.
        let said = self.members()?.said.into_iter().find(|(said, _)| said.member == founder);
        if let Some(roles) = said.and_then(|(said, _)| said.roles) {
            return Ok(Some(roles));
        }
        let path = self.roles_dir().join(LISTS[1]);
        Err(failed.map_or(HomeError::Damaged { path, advice: LIST_LOST }, HomeError::from))
    }

    /// Rewrites list and copy if one of them is damaged or missing; returns whether that was so.
    ///
    /// # Errors
    /// As of [`Self::roles`].
    pub fn mend_roles(&self) -> Result<bool, HomeError> {
        let _lock = self.lock_roles()?;
        let is_whole = |list: &Result<OwnFile<Roles>, _>| matches!(list, Ok(OwnFile::Whole(_)));
        let lists = self.lists();
        let all_gone = lists.iter().all(|list| matches!(list, Ok(OwnFile::Missing)));
        if all_gone || lists.iter().all(is_whole) {
            return Ok(false);
        }
        if let Some(roles) = self.roles()? {
            self.keep_roles(&roles)?;
        }
        Ok(true)
    }

    /// Takes the lock for changes of the list, so that no concurrent change is lost.
    fn lock_roles(&self) -> Result<FileRef, HomeError> {
        Ok(self.files.lock(&self.dir.join(ROLES_LOCK))?)
    }

    /// Stores the roles.
    ///
    /// # Errors
    /// [`HomeError::TooManyRoles`]; the system's.
    pub fn keep_roles(&self, roles: &Roles) -> Result<(), HomeError> {
        if !roles.fits() {
            return Err(HomeError::TooManyRoles);
        }
        let mut bytes = Vec::new();
        roles.write(&mut bytes);
        for name in LISTS {
            self.files.keep(&self.roles_dir().join(name), &bytes)?;
        }
        Ok(())
    }

    /// Sets the schema that decides what keys that the founder does not name may do. Ordinary members are no longer
    /// named. Returns false if the schema is the same already.
    ///
    /// # Errors
    /// See [`HomeError`].
    pub fn give_schema(&self, schema: RoleSchema, now_ms: u64) -> Result<bool, HomeError> {
        if self.key()?.public() != self.invitation.group.founder {
            return Err(HomeError::NotTheFounder);
        }
        let _lock = self.lock_roles()?;
        let mut roles = self.roles()?.unwrap_or_default();
        if roles.schema.as_ref() == Some(&schema) {
            return Ok(false);
        }
        roles.members.retain(|_, role| *role != MemberRole::Member);
        roles.closed = false;
        roles.schema = Some(schema);
        roles.number = now_ms.max(roles.number.saturating_add(1));
        self.keep_roles(&roles)?;
        Ok(true)
    }

    /// Gives a role to the member with this name or key prefix (`None`: an ordinary member). Returns that member.
    ///
    /// # Errors
    /// See [`HomeError`]; then nothing was stored.
    pub fn give_role(
        &self,
        who: &str,
        role: Option<MemberRole>,
        now_ms: u64,
    ) -> Result<GivenRole, HomeError> {
        if self.key()?.public() != self.invitation.group.founder {
            return Err(HomeError::NotTheFounder);
        }
        let _lock = self.lock_roles()?;
        self.change_role(who, role, now_ms)
    }

    fn change_role(
        &self,
        who: &str,
        role: Option<MemberRole>,
        now_ms: u64,
    ) -> Result<GivenRole, HomeError> {
        let mut roles = self.roles()?.unwrap_or_default();
        let known = self.members()?;
        let all = known.said.iter().map(|(said, _)| (said.member, said.name.as_str()));
        let all: BTreeMap<PublisherId, &str> =
            roles.members.keys().map(|member| (*member, "")).chain(all).collect();
        let member = find_member(who, &all, role)?;
        let mut left_out = 0;
        if role == Some(MemberRole::Removed) && !roles.closed && roles.schema.is_none() {
            if !known.is_whole {
                return Err(HomeError::Damaged {
                    path: self.dir.join(MEMBERS),
                    advice: MEMBERS_LOST,
                });
            }
            // A removed member still has the ticket: from now on the ticket alone admits no key.
            let known: Vec<PublisherId> = known.said.iter().map(|(said, _)| said.member).collect();
            left_out = self.close(&mut roles, &known);
        }
        if !roles.make_room(&member) {
            return Err(HomeError::TooManyRoles);
        }
        // In an open group it is named as well, so that made-up members cannot take its place.
        roles.members.insert(member, role.unwrap_or(MemberRole::Member));
        roles.number = now_ms.max(roles.number.saturating_add(1));
        self.keep_roles(&roles)?;
        Ok(GivenRole { member, left_out })
    }

    /// Closes the group: names every known member to which there was a link, and the others unless they are
    /// suspiciously many. Returns how many are not named.
    fn close(&self, roles: &mut Roles, known: &[PublisherId]) -> usize {
        let met: BTreeSet<PublisherId> = self.linked_members().into_iter().collect();
        let (met, unmet): (Vec<_>, Vec<_>) = known
            .iter()
            .filter(|member| !roles.members.contains_key(*member))
            .partition(|member| met.contains(member));
        let (unmet, mut left_out) =
            if unmet.len() > MAX_UNLINKED { (Vec::new(), unmet.len()) } else { (unmet, 0) };
        roles.closed = true;
        // The founder is a member in any case.
        for member in met.into_iter().chain(unmet).copied() {
            if roles.make_room(&member) {
                roles.members.insert(member, MemberRole::Member);
            } else {
                left_out = left_out.saturating_add(1);
            }
        }
        left_out
    }
}

/// Finds the member with this name or key prefix.
fn find_member(
    who: &str,
    all: &BTreeMap<PublisherId, &str>,
    role: Option<MemberRole>,
) -> Result<PublisherId, HomeError> {
    let is = |(member, name): &(&PublisherId, &&str)| {
        **name == who || (who.len() >= 8 && member.to_string().starts_with(who))
    };
    let found: Vec<PublisherId> = all.iter().filter(is).map(|(member, _)| *member).collect();
    match (&found[..], who.parse()) {
        ([member], _) => Ok(*member),
        // An applicant to a closed group is not known yet.
        ([], Ok(key)) if role.is_none() => Ok(key),
        _ => Err(HomeError::NoSuchMember(who.to_owned())),
    }
}

/// Makes the placeholder for the inviting member of an invitation without one.
fn placeholder_ticket(key: PublisherId) -> Ticket {
    Ticket {
        publisher: key,
        root: xylem_hash::Hash::from_bytes([0; 32]),
        name: None,
        link_key: None,
        size: None,
        kind: None,
        addresses: Vec::new(),
        relays: Vec::new(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::history::{MemberLog, Past};
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use xylem_faults::{DiskFault, FaultMedium};
    use xylem_store::Medium;

    #[test]
    fn only_the_user_can_read_the_secret_of_a_group() {
        let dir = tempfile::tempdir().unwrap();
        let (store, folder) = (dir.path().join("store"), dir.path().join("folder"));
        fs::create_dir(&folder).unwrap();
        let home = SyncHome::open(&store, &folder, None).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(home.dir()), 0o700);
        for secret in [GROUP, KEY] {
            assert_eq!(mode(&home.dir().join(secret)), 0o600, "{secret}");
        }
        // The secret is stored nowhere else.
        let again = SyncHome::open(&store, &folder, None).unwrap();
        assert!(again.invitation.group.is(&home.invitation.group));
    }

    /// A member that has lost its group does not begin another one.
    #[test]
    fn a_lost_or_damaged_group_begins_no_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let (store, folder) = (dir.path().join("store"), dir.path().join("folder"));
        fs::create_dir(&folder).unwrap();
        let home = SyncHome::open(&store, &folder, None).unwrap();
        home.keep_members([].into_iter()).unwrap();
        let group = home.dir().join(GROUP);
        for damaged in [Some("xylem-sync:abc"), Some(""), None] {
            match damaged {
                Some(text) => fs::write(&group, text).unwrap(),
                None => fs::remove_file(&group).unwrap(),
            }
            let refused = SyncHome::open(&store, &folder, None).unwrap_err();
            assert!(matches!(refused, HomeError::Damaged { .. }), "{damaged:?}: {refused}");
        }
        let joined = SyncHome::open(&store, &folder, Some(&home.invitation)).unwrap();
        assert_eq!(joined.key().unwrap().public(), home.key().unwrap().public());
    }

    fn key(n: u8) -> PublisherKey {
        PublisherKey::from_bytes(&[n; 32])
    }

    fn group() -> SyncGroup {
        SyncGroup::new([7; 32], key(1).public())
    }

    /// A statement of member `n`; the founder's has these roles.
    fn said(n: u8, roles: Option<Roles>) -> (MemberStatement, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let mut log = MemberLog::open(&dir.path().join("history")).unwrap();
        let statement = MemberStatement {
            member: key(n).public(),
            link_key: [n; 32],
            number: 5,
            name: format!("member-{n}"),
            state: xylem_hash::hash(b"state"),
            index: placeholder_ticket(key(n).public()),
            roles,
            shown: Vec::new(),
            past: Past::none(),
        };
        let bytes = statement.sign(&group(), &key(n), &mut log).unwrap();
        (MemberStatement::read(&bytes, &group()).unwrap(), bytes)
    }

    /// The founder's state on a simulated disk.
    fn home(medium: &FaultMedium) -> SyncHome {
        let invitation = Invitation {
            group: group(),
            member: placeholder_ticket(key(1).public()),
            schema: false,
        };
        SyncHome { files: OwnFiles::on(medium.clone()), dir: "/home".into(), invitation }
    }

    fn disk() -> FaultMedium {
        let medium = FaultMedium::new();
        create_dirs(&medium, Path::new("/home/roles")).unwrap();
        create_dirs(&medium, Path::new("/home/evidence")).unwrap();
        medium
    }

    const LIST: &str = "/home/roles/list";
    const COPY: &str = "/home/roles/list.1";

    #[test]
    fn a_damaged_list_of_members_opens_no_group() {
        let medium = disk();
        let home = home(&medium);
        assert_eq!(home.roles().unwrap(), None, "there never was one");
        let (bob, carol) = (key(2).public(), key(3).public());
        home.change_role(&bob.to_string(), None, 10).unwrap();
        home.change_role(&carol.to_string(), None, 20).unwrap();
        home.change_role(&bob.to_string(), Some(MemberRole::Removed), 30).unwrap();
        let roles = home.roles().unwrap().unwrap();
        assert!(roles.closed && roles.members[&bob] == MemberRole::Removed);
        let good = medium.read(Path::new(LIST)).unwrap();
        assert_eq!(good, medium.read(Path::new(COPY)).unwrap());
        let mut bad: Vec<Vec<u8>> = vec![Vec::new(), vec![0; good.len()], good[..50].to_vec()];
        for at in 0..good.len() {
            let mut flipped = good.clone();
            flipped[at] ^= 1 << (at % 8);
            bad.extend([flipped, good[..at].to_vec()]);
        }
        for bad in bad {
            medium.write(Path::new(LIST), &bad).unwrap();
            assert_eq!(home.roles().unwrap(), Some(roles.clone()), "its copy is whole");
            medium.write(Path::new(COPY), &bad).unwrap();
            assert!(matches!(home.roles(), Err(HomeError::Damaged { .. })));
            // A damaged list is not overwritten either.
            for role in [None, Some(MemberRole::ReadOnly), Some(MemberRole::Removed)] {
                assert!(home.change_role(&carol.to_string(), role, 40).is_err());
            }
            assert_eq!(medium.read(Path::new(LIST)).unwrap(), bad);
            medium.write(Path::new(LIST), &good).unwrap();
            assert_eq!(home.roles().unwrap(), Some(roles.clone()), "the other one is");
            medium.write(Path::new(COPY), &good).unwrap();
        }
        // A bad sector does not count as a missing list either.
        for path in [LIST, COPY] {
            medium.remove_file(Path::new(path)).unwrap();
            assert_eq!(home.roles().unwrap(), Some(roles.clone()));
            medium.write(Path::new(path), &good).unwrap();
        }
        medium.write(Path::new(COPY), b"").unwrap();
        medium.fail_reads(Path::new(LIST), 0..1).unwrap();
        assert!(home.roles().is_err());
        // Another member falls back on the founder's signed statement.
        medium.write(Path::new(LIST), b"").unwrap();
        let (founder, other) = (said(1, Some(roles.clone())), said(2, None));
        home.keep_members([&founder.1[..], &other.1].into_iter()).unwrap();
        assert_eq!(home.roles().unwrap(), Some(roles));
    }

    #[test]
    fn a_list_that_was_damaged_is_mended() {
        let dir = tempfile::tempdir().unwrap();
        let (store, folder) = (dir.path().join("store"), dir.path().join("folder"));
        fs::create_dir(&folder).unwrap();
        let home = SyncHome::open(&store, &folder, None).unwrap();
        assert!(!home.mend_roles().unwrap(), "there is none");
        let bob = key(2).public();
        home.give_role(&bob.to_string(), None, 10).unwrap();
        home.give_role(&bob.to_string(), Some(MemberRole::Removed), 20).unwrap();
        let roles = home.roles().unwrap();
        assert!(!home.mend_roles().unwrap());
        for name in LISTS {
            let path = home.roles_dir().join(name);
            let good = fs::read(&path).unwrap();
            fs::write(&path, b"").unwrap();
            assert!(home.mend_roles().unwrap());
            assert_eq!((fs::read(&path).unwrap(), home.roles().unwrap()), (good, roles.clone()));
        }
    }

    /// Neither change undoes the other.
    #[test]
    fn concurrent_changes_of_roles_are_both_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (store, folder) = (dir.path().join("store"), dir.path().join("folder"));
        fs::create_dir(&folder).unwrap();
        drop(SyncHome::open(&store, &folder, None).unwrap());
        let change = |n: u8| {
            let home = SyncHome::existing(&store, &folder).unwrap();
            home.give_role(&key(n).public().to_string(), None, 10).unwrap();
        };
        std::thread::scope(|scope| {
            for n in 0..16 {
                let changes = move || (0..4).for_each(|m| change(10 + 4 * n + m));
                std::thread::Builder::new().spawn_scoped(scope, changes).unwrap();
            }
        });
        let roles = SyncHome::existing(&store, &folder).unwrap().roles().unwrap().unwrap();
        assert_eq!(roles.members.len(), 64);
    }

    /// Each of these files is as it was written, missing, or damaged.
    #[test]
    fn damaged_files_are_reported_and_not_taken_for_missing() {
        let medium = disk();
        let home = home(&medium);
        assert!(home.presentation().unwrap().is_empty() && home.evidence().unwrap().is_empty());
        assert_eq!((home.last_run().unwrap(), home.port()), (LastRun::default(), None));
        assert!(home.members().unwrap().is_whole && home.linked_members().is_empty());
        let last = LastRun { listen: vec!["127.0.0.1:0".to_owned()], ..LastRun::default() };
        let (one, two) = (said(2, None), said(3, None));
        home.keep_presentation(b"shown").unwrap();
        home.keep_last_run(&last).unwrap();
        home.keep_port(7348).unwrap();
        home.keep_members([&one.1[..], &two.1].into_iter()).unwrap();
        home.keep_linked_members(&[one.0.member]).unwrap();
        let evidence = home.keep_evidence(&one.0.member, &[one.1.clone(), one.1.clone()]).unwrap();
        assert_eq!(
            (home.presentation().unwrap(), home.last_run().unwrap()),
            (b"shown".to_vec(), last)
        );
        assert_eq!((home.port(), home.linked_members()), (Some(7348), vec![one.0.member]));
        let known = home.members().unwrap();
        assert!(known.is_whole && known.said == [one.clone(), two.clone()]);
        assert_eq!(home.evidence().unwrap().len(), 1);
        let damage = |path: &Path| {
            let mut bytes = medium.read(path).unwrap();
            let at = bytes.len() - 3;
            bytes[at] ^= 4;
            medium.write(path, &bytes).unwrap();
        };
        for path in [SHOWN, LAST, MEMBERS, LINKED_MEMBERS].map(|name| home.dir.join(name)) {
            damage(&path);
        }
        let is_damaged =
            |e: HomeError| matches!(e, HomeError::Damaged { .. }) && e.blame() == Blame::Local;
        assert!(
            home.presentation().is_err_and(is_damaged) && home.last_run().is_err_and(is_damaged)
        );
        assert!(home.linked_members().is_empty());
        // The readable signed statements are valid.
        let known = home.members().unwrap();
        assert!(!known.is_whole && known.said == [one.clone()]);
        damage(&evidence);
        assert!(home.evidence().is_err_and(is_damaged));
        // A member that is not known cannot be named when the group is closed.
        home.change_role(&key(9).public().to_string(), None, 10).unwrap();
        let removed = home.change_role(&key(9).public().to_string(), Some(MemberRole::Removed), 20);
        assert!(removed.is_err_and(is_damaged));
    }

    fn met_and_unmet(met: usize, unmet: usize) -> (SyncHome, Vec<PublisherId>) {
        let medium = disk();
        let home = home(&medium);
        let said: Vec<_> =
            (0..met + unmet).map(|n| said(u8::try_from(n + 2).unwrap(), None)).collect();
        home.keep_members(said.iter().map(|(_, bytes)| &bytes[..])).unwrap();
        let all: Vec<_> = said.into_iter().map(|(said, _)| said.member).collect();
        home.keep_linked_members(&all[..met]).unwrap();
        (home, all)
    }

    /// Removing a member does not admit members that it made up.
    #[test]
    fn closing_a_group_leaves_out_members_made_in_bulk() {
        let named = |home: &SyncHome, all: &[PublisherId]| -> usize {
            let roles = home.roles().unwrap().unwrap();
            assert!(roles.closed);
            all.iter().filter(|key| roles.members.get(key) == Some(&MemberRole::Member)).count()
        };
        let (home, all) = met_and_unmet(4, MAX_UNLINKED);
        let given = home.change_role("member-2", Some(MemberRole::Removed), 10).unwrap();
        assert_eq!((given.left_out, given.member), (0, all[0]));
        assert_eq!(named(&home, &all), 3 + MAX_UNLINKED);
        let (home, all) = met_and_unmet(4, MAX_UNLINKED + 1);
        let given = home.change_role("member-2", Some(MemberRole::Removed), 10).unwrap();
        assert_eq!((given.left_out, named(&home, &all)), (MAX_UNLINKED + 1, 3));
        // One of them that the founder named before has a place.
        let (home, all) = met_and_unmet(1, MAX_UNLINKED + 5);
        home.change_role("member-9", None, 5).unwrap();
        home.change_role("member-2", Some(MemberRole::Removed), 10).unwrap();
        assert_eq!(named(&home, &all), 1);
    }

    #[test]
    fn a_list_is_never_longer_than_others_accept() {
        let (home, all) = met_and_unmet(2, 0);
        let name = |n: u32| {
            let key = PublisherId(*xylem_hash::hash(&n.to_be_bytes()).as_bytes());
            home.change_role(&key.to_string(), None, 10)
        };
        let full = u32::try_from(MAX_MEMBERS).unwrap();
        (0..full).for_each(|n| assert!(name(n).is_ok(), "{n}"));
        assert!(matches!(name(full), Err(HomeError::TooManyRoles)));
        let before = home.roles().unwrap();
        let refused = home.change_role("member-3", Some(MemberRole::ReadOnly), 10);
        assert!(matches!(refused, Err(HomeError::TooManyRoles)) && home.roles().unwrap() == before);
        // A closed group need not name removed members.
        let is_named = |home: &SyncHome, n: u32| {
            let key = PublisherId(*xylem_hash::hash(&n.to_be_bytes()).as_bytes());
            home.roles().unwrap().unwrap().members.contains_key(&key)
        };
        for n in 0..3_u32 {
            let key = PublisherId(*xylem_hash::hash(&n.to_be_bytes()).as_bytes());
            let removed = home.change_role(&key.to_string(), Some(MemberRole::Removed), 20);
            assert!(removed.is_ok(), "{n}: {removed:?}");
        }
        home.change_role(&all[1].to_string(), None, 30).unwrap();
        let roles = home.roles().unwrap().unwrap();
        assert!(roles.members.len() <= MAX_MEMBERS && roles.members[&all[1]] == MemberRole::Member);
        assert!(!is_named(&home, 0) && is_named(&home, 9));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// For any disk faults: the stored roles are the new ones or those before.
        #[test]
        fn roles_are_the_old_or_the_new_ones(
            faults in proptest::collection::vec((0_u64..24, 0_u8..4, any::<u64>()), 1..8),
        ) {
            let mut medium = disk();
            let mut before = None;
            for (n, (at, fault, seed)) in faults.into_iter().enumerate() {
                let fault = [DiskFault::Dead, DiskFault::Torn, DiskFault::Once, DiskFault::Full][usize::from(fault)];
                let (home, now) = (home(&medium), 10 * (n as u64 + 1));
                let who = key(u8::try_from(n % 3 + 2).unwrap()).public();
                let role = [None, Some(MemberRole::Removed), Some(MemberRole::ReadOnly)][(seed % 3) as usize];
                let named = |roles: &Roles| roles.members.contains_key(&who);
                let role = if before.as_ref().is_some_and(named) { role } else { None };
                medium.fail_after(at, fault);
                let done = home.change_role(&who.to_string(), role, now).is_ok();
                medium = match seed % 3 {
                    0 => medium.image(),
                    1 => medium.power_loss(seed),
                    _ => medium.power_cut(seed),
                };
                let roles = self::home(&medium).roles().unwrap();
                let is_new = roles.as_ref().is_some_and(|roles| roles.number >= now);
                prop_assert!(is_new || (!done && roles == before), "{fault:?} at {at}");
                before = roles;
            }
        }
    }
}
