//! Access lists: what more than owner, group and others may do, and what new children get.
//!
//! ```text
//!  mode rwxr-x---           the whole list, in its order                 kept in the inode
//!       │  │  └ others      user::rwx                                    ─
//!       │  └ mask           user:alice:r-x   group::r--   group:staff:rwx    these
//!       └ owner             mask::r-x        other::---                  ─
//!                           default:user::rwx … default:other::---           and all of these
//! ```
//!
//! As in HDFS and POSIX.1e: an inode with named entries has its mask in the group bits of the mode, so `chmod` and `ls`
//! go on working; what the mode says is not kept a second time.

use crate::acl_entry::{AclEntry, AclKey, AclKind, AclScope};
use crate::damage;
use crate::error::acl_fault::AclFault;
use crate::record::Inode;
use std::collections::BTreeMap;

/// Entries of one scope. HDFS has the same limit.
pub const ACL_ENTRY_COUNT_MAX: usize = 32;
/// Bytes of a user's or group's name in an entry.
pub const ACL_NAME_LEN_MAX: usize = 256;

/// What a client wants changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AclChange {
    /// Each scope that has entries here is replaced by them.
    Replace(Vec<AclEntry>),
    Modify(Vec<AclEntry>),
    Remove(Vec<AclKey>),
    RemoveDefault,
    RemoveAll,
}
types::variants!(AclChange {
    0 => Replace(0: entries),
    1 => Modify(0: entries),
    2 => Remove(0: keys),
    3 => RemoveDefault,
    4 => RemoveAll,
});

impl AclChange {
    /// As HDFS says what it cannot do.
    /// What is asked, as an error names it.
    pub(crate) fn operation(&self) -> &'static str {
        match self {
            Self::Replace(_) => "setAcl",
            Self::Modify(_) => "modifyAclEntries",
            Self::Remove(_) => "removeAclEntries",
            Self::RemoveDefault => "removeDefaultAcl",
            Self::RemoveAll => "removeAcl",
        }
    }
}

/// A list being made. Masks stand apart until the others are known.
struct Draft {
    entries: BTreeMap<AclKey, u8>,
    /// Entries of these scopes were added, changed or removed.
    touched: Vec<AclScope>,
    /// The mask itself was given, or removed.
    mask_touched: Vec<AclScope>,
}

const SCOPES: [AclScope; 2] = [AclScope::Access, AclScope::Default];
const BASE: [AclKind; 3] = [AclKind::User, AclKind::Group, AclKind::Other];

impl AclKey {
    fn base(scope: AclScope, kind: AclKind) -> Self {
        Self { scope, kind, name: None }
    }

    fn is_mask(&self) -> bool {
        self.kind == AclKind::Mask && self.name.is_none()
    }
}

/// The list that the inode has after the change; whether it may have one is checked here too.
pub(crate) fn change(inode: &mut Inode, change: &AclChange) -> Result<(), AclFault> {
    let draft = match change {
        AclChange::RemoveAll => return remove_all(inode),
        AclChange::RemoveDefault => {
            let mut entries = whole(inode);
            entries.retain(|key, _| key.scope == AclScope::Access);
            return keep(inode, entries);
        }
        AclChange::Replace(spec) => replaced(inode, spec)?,
        AclChange::Modify(spec) => modified(inode, spec)?,
        AclChange::Remove(keys) => removed(inode, keys)?,
    };
    let entries = draft.finish()?;
    keep(inode, entries)
}

fn replaced(inode: &Inode, spec: &[AclEntry]) -> Result<Draft, AclFault> {
    let spec = checked(spec)?;
    let scopes: Vec<AclScope> = SCOPES.into_iter().filter(|scope| spec.keys().any(|key| key.scope == *scope)).collect();
    let mut entries = whole(inode);
    entries.retain(|key, _| !scopes.contains(&key.scope));
    let mask_touched = spec.keys().filter(|key| key.is_mask()).map(|key| key.scope).collect();
    entries.extend(spec);
    Ok(Draft { entries, touched: scopes, mask_touched })
}

fn modified(inode: &Inode, spec: &[AclEntry]) -> Result<Draft, AclFault> {
    let spec = checked(spec)?;
    let touched = spec.keys().map(|key| key.scope).collect();
    let mask_touched = spec.keys().filter(|key| key.is_mask()).map(|key| key.scope).collect();
    let mut entries = whole(inode);
    entries.extend(spec);
    Ok(Draft { entries, touched, mask_touched })
}

fn removed(inode: &Inode, keys: &[AclKey]) -> Result<Draft, AclFault> {
    check_keys(keys.iter())?;
    let mut entries = whole(inode);
    let gone: Vec<&AclKey> = keys.iter().filter(|key| entries.contains_key(key)).collect();
    let touched = gone.iter().map(|key| key.scope).collect();
    let mask_touched = gone.iter().filter(|key| key.is_mask()).map(|key| key.scope).collect();
    entries.retain(|key, _| !keys.contains(key));
    Ok(Draft { entries, touched, mask_touched })
}

fn remove_all(inode: &mut Inode) -> Result<(), AclFault> {
    let mut entries = whole(inode);
    if inode.extra.has_access_acl() {
        // The group gets back what its own entry says; the mask was in its place.
        entries.remove(&AclKey::base(AclScope::Access, AclKind::Mask));
    }
    entries.retain(|key, _| key.scope == AclScope::Access && key.name.is_none());
    keep(inode, entries)
}

/// What a client sent, one entry for each key.
fn checked(spec: &[AclEntry]) -> Result<BTreeMap<AclKey, u8>, AclFault> {
    check_keys(spec.iter().map(|entry| &entry.key))?;
    let mut entries = BTreeMap::new();
    for AclEntry { key, access } in spec {
        if key.name.is_some() && matches!(key.kind, AclKind::Mask | AclKind::Other) {
            return Err(AclFault::Named { key: key.clone(), access: *access });
        }
        if entries.insert(key.clone(), access & 7).is_some() {
            return Err(AclFault::Repeated);
        }
    }
    Ok(entries)
}

/// Refuses what no list can be, whatever the inode has: it has too many entries, or too long ones.
pub(crate) fn check_lens(change: &AclChange) -> Result<(), AclFault> {
    match change {
        AclChange::Replace(spec) | AclChange::Modify(spec) => check_keys(spec.iter().map(|entry| &entry.key)),
        AclChange::Remove(keys) => check_keys(keys.iter()),
        AclChange::RemoveDefault | AclChange::RemoveAll => Ok(()),
    }
}

fn check_keys<'a>(keys: impl Iterator<Item = &'a AclKey> + Clone) -> Result<(), AclFault> {
    check_count(keys.clone())?;
    let mut names = keys.filter_map(|key| key.name.as_ref());
    if names.any(|name| name.is_empty() || name.len() > ACL_NAME_LEN_MAX) {
        return Err(AclFault::NameLen);
    }
    Ok(())
}

fn check_count<'a>(keys: impl Iterator<Item = &'a AclKey>) -> Result<(), AclFault> {
    let mut counts = [0; SCOPES.len()];
    for key in keys {
        counts[key.scope as usize] += 1;
    }
    for (count, scope) in counts.into_iter().zip(SCOPES) {
        if count > ACL_ENTRY_COUNT_MAX {
            return Err(AclFault::TooMany { scope, count });
        }
    }
    Ok(())
}

impl Draft {
    /// Fills in what follows from the rest: base entries of the defaults, and the masks.
    fn finish(mut self) -> Result<BTreeMap<AclKey, u8>, AclFault> {
        if self.entries.keys().any(|key| key.scope == AclScope::Default && !key.is_mask()) {
            for kind in BASE {
                if let Some(access) = self.entries.get(&AclKey::base(AclScope::Access, kind)).copied() {
                    self.entries.entry(AclKey::base(AclScope::Default, kind)).or_insert(access);
                }
            }
        }
        for scope in SCOPES {
            self.mask(scope)?;
        }
        check_count(self.entries.keys())?;
        self.check_base()?;
        Ok(self.entries)
    }

    /// A mask that was given stays; one that was not follows the entries it masks, as soon as any of them was changed.
    fn mask(&mut self, scope: AclScope) -> Result<(), AclFault> {
        let key = AclKey::base(scope, AclKind::Mask);
        let others = || self.entries.iter().filter(|(other, _)| other.scope == scope && !other.is_mask());
        if others().next().is_none() {
            self.entries.remove(&key);
            return Ok(());
        }
        let needed = others().any(|(other, _)| other.name.is_some());
        let union = others()
            .filter(|(other, _)| other.kind == AclKind::Group || other.name.is_some())
            .fold(0, |union, (_, access)| union | access);
        let (given, touched) = (self.entries.contains_key(&key), self.mask_touched.contains(&scope));
        if !given && needed && touched {
            return Err(AclFault::NoMask);
        }
        let stays = given && (touched || !self.touched.contains(&scope));
        if !stays && (needed || given) {
            self.entries.insert(key, union);
        }
        Ok(())
    }

    fn check_base(&self) -> Result<(), AclFault> {
        let has = |scope| BASE.into_iter().all(|kind| self.entries.contains_key(&AclKey::base(scope, kind)));
        if !has(AclScope::Access) {
            return Err(AclFault::NoBase(AclScope::Access));
        }
        if self.entries.keys().any(|key| key.scope == AclScope::Default) && !has(AclScope::Default) {
            return Err(AclFault::NoBase(AclScope::Default));
        }
        Ok(())
    }
}

/// The whole list of an inode: what its mode says, and what is kept beside.
fn whole(inode: &Inode) -> BTreeMap<AclKey, u8> {
    let kept = inode.extra.acl.iter().map(|entry| (entry.key.clone(), entry.access));
    let mut entries: BTreeMap<AclKey, u8> = kept.collect();
    let bits = |shift: u16| (inode.mode >> shift & 7) as u8;
    let middle = if inode.extra.has_access_acl() { AclKind::Mask } else { AclKind::Group };
    for (kind, access) in [(AclKind::User, bits(6)), (middle, bits(3)), (AclKind::Other, bits(0))] {
        entries.insert(AclKey::base(AclScope::Access, kind), access);
    }
    entries
}

/// Parts a whole list into the mode and what is kept beside.
fn keep(inode: &mut Inode, mut entries: BTreeMap<AclKey, u8>) -> Result<(), AclFault> {
    if !inode.is_directory() && entries.keys().any(|key| key.scope == AclScope::Default) {
        return Err(AclFault::DefaultOfFile);
    }
    let mut take = |kind| entries.remove(&AclKey::base(AclScope::Access, kind));
    let (user, mask, other) = (take(AclKind::User), take(AclKind::Mask), take(AclKind::Other));
    let middle = mask.or_else(|| take(AclKind::Group));
    let bits = |access: Option<u8>| u16::from(access.unwrap_or(0) & 7);
    inode.mode = inode.mode & 0o1000 | bits(user) << 6 | bits(middle) << 3 | bits(other);
    inode.extra.acl = entries.into_iter().map(|(key, access)| AclEntry { key, access }).collect();
    debug_assert!(
        damage::is_expected() || inode.extra.acl.len() <= 2 * ACL_ENTRY_COUNT_MAX,
        "the list of {} is too long",
        inode.id
    );
    let has_mask = inode.extra.has_access_acl();
    debug_assert!(damage::is_expected() || has_mask == mask.is_some(), "the group's bits are a mask: {inode:?}");
    Ok(())
}

/// What a child made in `parent` begins with: the parent's defaults, as far as the mode asked for allows. False: there
/// are none.
pub(crate) fn inherit(parent: &Inode, child: &mut Inode) -> bool {
    let defaults: Vec<&AclEntry> =
        parent.extra.acl.iter().filter(|entry| entry.key.scope == AclScope::Default).collect();
    if defaults.is_empty() {
        return false;
    }
    let masked = defaults.iter().any(|entry| entry.key.is_mask());
    let mut entries = BTreeMap::new();
    for entry in defaults {
        let shift = match (entry.key.kind, &entry.key.name) {
            (AclKind::User, None) => Some(6),
            (AclKind::Mask, _) => Some(3),
            (AclKind::Group, None) if !masked => Some(3),
            (AclKind::Other, _) => Some(0),
            _ => None,
        };
        let allowed = shift.map_or(7, |shift: u16| (child.mode >> shift & 7) as u8);
        entries.insert(AclKey { scope: AclScope::Access, ..entry.key.clone() }, entry.access & allowed);
        if child.is_directory() {
            entries.insert(entry.key.clone(), entry.access);
        }
    }
    keep(child, entries).is_ok()
}

/// What the access list says of a user that is not the owner: `None` if no entry is about him, so he is one of the
/// others. Without `groups` he may be in any: each group's entry that does not grant `wanted` forbids it.
pub(crate) fn granted(inode: &Inode, user: &str, groups: Option<&[String]>, wanted: u8) -> Option<bool> {
    let mask = (inode.mode >> 3 & 7) as u8;
    let mut found = None;
    for AclEntry { key, access } in inode.extra.acl.iter().filter(|entry| entry.key.scope == AclScope::Access) {
        let applies = match key.kind {
            AclKind::User => key.name.as_deref() == Some(user),
            AclKind::Group => groups.is_none_or(|groups| groups.contains(key.name.as_ref().unwrap_or(&inode.group))),
            AclKind::Mask | AclKind::Other => false,
        };
        if !applies {
            continue;
        }
        let grants = access & mask & wanted == wanted;
        let is_certain = key.kind == AclKind::User || grants && groups.is_some();
        if is_certain {
            return Some(grants);
        }
        if !grants {
            found = Some(false);
        }
    }
    found
}
