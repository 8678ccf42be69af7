//! Users and groups as the machine knows them. The calls may ask a directory server: keep them off the runtime's
//! threads, and remember the answers for a while.

#![expect(unsafe_code, reason = "the user database speaks C")]

use std::ffi::{CStr, CString};
use std::io::{Error, Result};
use std::mem::MaybeUninit;

/// Longest record of a user or group we take: groups of some thousand members fit.
const RECORD_LEN_MAX: usize = 1 << 20;
/// More groups than any system lets one user have (Linux: 65536).
const GROUP_COUNT_MAX: usize = 65_536;

/// The name of the user this process runs as; a user without a name gets its number. An error is none of these: for
/// what needs no name to go on, see [`current`].
pub fn of_process() -> Result<String> {
    let id = rustix::process::geteuid().as_raw();
    let user = user_record(|user, buffer, len, found| {
        // SAFETY: `user_record` hands over valid pointers.
        unsafe { libc::getpwuid_r(id, user, buffer, len, found) }
    })?;
    Ok(user.map_or_else(|| id.to_string(), |user| user.name))
}

/// As [`of_process`]; the number too if the user database gives an error.
pub fn current() -> String {
    of_process().unwrap_or_else(|_| rustix::process::geteuid().as_raw().to_string())
}

/// The groups of a user, the main one first. A user that this machine does not know is in none, as in HDFS: a group of
/// its own name would put whoever calls himself like the supergroup into that.
///
/// An error is an answer that did not come. The C library tells of it for the user and for the names of groups; which
/// groups a user is in it finds out by `getgrouplist`, which leaves out what it could not ask.
pub fn groups_of(name: &str) -> Result<Vec<String>> {
    let Ok(name) = CString::new(name) else { return Ok(Vec::new()) };
    let user = user_record(|user, buffer, len, found| {
        // SAFETY: `name` ends with a zero byte; the rest is `user_record`'s.
        unsafe { libc::getpwnam_r(name.as_ptr(), user, buffer, len, found) }
    })?;
    let Some(user) = user else { return Ok(Vec::new()) };
    let mut ids: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut count = ids.len() as libc::c_int;
        // SAFETY: `ids` has room for `count` numbers, and the call says in `count` how many it wrote or would write.
        let done = unsafe { libc::getgrouplist(name.as_ptr(), user.group, ids.as_mut_ptr(), &raw mut count) };
        let count = usize::try_from(count).map_err(Error::other)?;
        if done >= 0 {
            ids.truncate(count);
            break;
        }
        if ids.len() >= GROUP_COUNT_MAX {
            return Err(Error::other(format!("more than {GROUP_COUNT_MAX} groups")));
        }
        ids.resize(count.max(ids.len() * 2).min(GROUP_COUNT_MAX), 0);
    }
    let mut names = Vec::new();
    for id in ids {
        let name = group_name(id)?.unwrap_or_else(|| id.to_string());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

struct User {
    name: String,
    group: libc::gid_t,
}

type UserCall<'a> =
    dyn Fn(*mut libc::passwd, *mut libc::c_char, libc::size_t, *mut *mut libc::passwd) -> libc::c_int + 'a;

fn user_record(
    call: impl Fn(*mut libc::passwd, *mut libc::c_char, libc::size_t, *mut *mut libc::passwd) -> libc::c_int,
) -> Result<Option<User>> {
    let call: &UserCall<'_> = &call;
    with_growing_buffer(|buffer| {
        let mut record = MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        let code = call(record.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found);
        if code != 0 || found.is_null() {
            return if code == 0 { Ok(None) } else { Err(code) };
        }
        // SAFETY: `found` is set, so the record is filled in, and its strings lie in `buffer`, which still lives.
        let record = unsafe { record.assume_init_ref() };
        Ok(Some(User { name: text(record.pw_name), group: record.pw_gid }))
    })
}

fn group_name(id: libc::gid_t) -> Result<Option<String>> {
    with_growing_buffer(|buffer| {
        let mut record = MaybeUninit::<libc::group>::uninit();
        let mut found = std::ptr::null_mut();
        // SAFETY: the pointers are valid for the lengths given.
        let code =
            unsafe { libc::getgrgid_r(id, record.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found) };
        if code != 0 || found.is_null() {
            return if code == 0 { Ok(None) } else { Err(code) };
        }
        // SAFETY: as in `user_record`.
        Ok(Some(text(unsafe { record.assume_init_ref() }.gr_name)))
    })
}

/// Repeats `call` with a larger buffer as long as it answers ERANGE. `None`: there is no such record, which is no
/// error.
fn with_growing_buffer<T>(
    mut call: impl FnMut(&mut [libc::c_char]) -> std::result::Result<Option<T>, libc::c_int>,
) -> Result<Option<T>> {
    let mut buffer = vec![0; 1024];
    loop {
        match call(&mut buffer) {
            Ok(record) => return Ok(record),
            Err(libc::ERANGE) if buffer.len() < RECORD_LEN_MAX => buffer.resize(buffer.len() * 4, 0),
            Err(libc::EINTR) => {}
            Err(code) => return Err(Error::from_raw_os_error(code)),
        }
    }
}

/// A C string of the user database.
fn text(pointer: *const libc::c_char) -> String {
    // SAFETY: both callers pass a name that the call set, in a buffer that still lives.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
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
    }

    /// A code of the C library is an error, and a record that is not there is none.
    #[test]
    fn an_error_is_not_taken_for_nobody() {
        let answer = |code: libc::c_int| user_record(move |_, _, _, _| code).map(|user| user.is_some());
        assert!(!answer(0).unwrap());
        for code in [libc::EIO, libc::ECONNREFUSED, libc::EMFILE] {
            assert_eq!(answer(code).unwrap_err().raw_os_error(), Some(code));
        }
    }
}
