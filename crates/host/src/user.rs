//! Users and groups as the machine knows them. The calls may ask a directory server: keep them off the runtime's
//! threads, and remember the answers for a while.

use nix::errno::Errno;
use nix::unistd::{Group, Uid, User, geteuid, getgrouplist};
use std::ffi::CString;
use std::io::Result;

/// The name of the user this process runs as; a user without a name gets its number. An error is none of these: for
/// what needs no name to go on, see [`current`].
pub fn of_process() -> Result<String> {
    let id = geteuid();
    let user = uninterrupted(|| User::from_uid(id))?;
    Ok(user.map_or_else(|| id.to_string(), |user| user.name))
}

/// As [`of_process`]; the number too if the user database gives an error.
pub fn current() -> String {
    of_process().unwrap_or_else(|_| geteuid().to_string())
}

/// The name of any user, for people: the number of one without a name, and if the user database gives an error.
pub fn name_of(id: u32) -> String {
    let user = uninterrupted(|| User::from_uid(Uid::from_raw(id)));
    user.ok().flatten().map_or_else(|| id.to_string(), |user| user.name)
}

/// The groups of a user, the main one first. A user that this machine does not know is in none, as in HDFS: a group of
/// its own name would put whoever calls himself like the supergroup into that.
///
/// An error is an answer that did not come. The C library tells of it for the user and for the names of groups; which
/// groups a user is in it finds out by `getgrouplist`, which leaves out what it could not ask.
pub fn groups_of(name: &str) -> Result<Vec<String>> {
    // No record has a zero byte in its name.
    let Ok(c_name) = CString::new(name) else { return Ok(Vec::new()) };
    let Some(user) = uninterrupted(|| User::from_name(name))? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for id in getgrouplist(&c_name, user.gid)? {
        let group = uninterrupted(|| Group::from_gid(id))?;
        let name = group.map_or_else(|| id.to_string(), |group| group.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Repeats a question to the database that a signal broke off.
fn uninterrupted<T>(mut ask: impl FnMut() -> nix::Result<T>) -> nix::Result<T> {
    loop {
        match ask() {
            Err(Errno::EINTR) => {}
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_in_root_and_strangers_in_no_group() {
        assert_eq!(groups_of("root").unwrap().first().map(String::as_str), Some("root"));
        assert!(groups_of("no-such-user-here").unwrap().is_empty());
        assert!(groups_of("bad\0name").unwrap().is_empty());
        assert!(!current().is_empty());
        assert_eq!(of_process().unwrap(), current());
        assert!(!groups_of(&current()).unwrap().is_empty());
        assert_eq!([0, u32::MAX - 1].map(name_of), ["root".to_owned(), (u32::MAX - 1).to_string()]);
    }

    #[test]
    fn a_signal_ends_no_question_and_an_error_does() {
        let mut answers = [Err(Errno::EINTR), Err(Errno::EINTR), Ok(7)].into_iter();
        assert_eq!(uninterrupted(|| answers.next().unwrap()), Ok(7));
        assert_eq!(uninterrupted(|| Err::<(), _>(Errno::EIO)), Err(Errno::EIO));
    }
}
