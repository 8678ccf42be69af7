//! Rights of users who are no superusers to look at the store as its administrator does, and to change it.
//!
//! ```text
//! superuser ──▶ files of everybody, what has keys to them (backups, invitations of datanodes), and all that follows
//! administrator ──▶ nodes, jobs, members, safe mode, settings ──▶ and to look
//! observer ──▶ to look at these: lists, reports, checks of the tree
//! ```
//!
//! Neither of the two below gives a right to a file.

use namespace::Caller;
use std::collections::BTreeSet;

/// What a call of an administrator needs, and what a user has: the higher has the lower as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    Look,
    Change,
}

/// Users and groups in Hadoop's form: `ada,bob staff,ops`; ` staff` for groups alone, `*` for everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccessList {
    is_for_all: bool,
    users: BTreeSet<String>,
    groups: BTreeSet<String>,
}

impl AccessList {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.trim() == "*" {
            return Ok(Self { is_for_all: true, ..Self::default() });
        }
        let (users, groups) = text.split_once(' ').unwrap_or((text, ""));
        if groups.trim().contains(' ') {
            return Err(format!("{text:?} is no list of users and groups: write user1,user2 group1,group2"));
        }
        let names =
            |list: &str| list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Ok(Self { is_for_all: false, users: names(users), groups: names(groups) })
    }

    fn has(&self, caller: &Caller) -> bool {
        self.is_for_all
            || self.users.contains(&caller.user)
            || caller.groups.iter().any(|group| self.groups.contains(group))
    }
}

/// Who may do what, by the settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rights {
    pub(crate) administrators: AccessList,
    pub(crate) observers: AccessList,
}

impl Rights {
    /// What the caller may do, if anything.
    pub(crate) fn of(&self, caller: &Caller) -> Option<Right> {
        if caller.superuser || self.administrators.has(caller) {
            return Some(Right::Change);
        }
        self.observers.has(caller).then_some(Right::Look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(user: &str, groups: &[&str]) -> Caller {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Caller { user: user.into(), groups, groups_known: true, superuser: false }
    }

    #[test]
    fn lists_name_users_and_groups() {
        let has = |list: &str, user: &str, groups: &[&str]| AccessList::parse(list).unwrap().has(&caller(user, groups));
        assert!(has("ada,bob staff", "bob", &[]) && has("ada,bob staff", "eve", &["staff"]));
        assert!(has(" staff", "eve", &["staff"]) && !has(" staff", "staff", &[]), "a user's name is no group");
        assert!(has("*", "anybody", &[]) && has(" * ", "anybody", &[]));
        assert!(!has("", "", &[""]) && !has("ada", "bob", &["ada"]));
        assert!(AccessList::parse("ada staff ops").is_err());
    }

    #[test]
    fn who_looks_changes_nothing() {
        let list = |text| AccessList::parse(text).unwrap();
        let rights = Rights { administrators: list("ada"), observers: list(" auditors") };
        let (ada, auditor) = (caller("ada", &[]), caller("eve", &["auditors"]));
        assert_eq!((rights.of(&ada), rights.of(&auditor)), (Some(Right::Change), Some(Right::Look)));
        assert!(rights.of(&ada) >= Some(Right::Look), "who changes looks as well");
        assert_eq!(rights.of(&caller("bob", &[])), None);
        assert_eq!(rights.of(&Caller { superuser: true, ..caller("root", &[]) }), Some(Right::Change));
    }
}
