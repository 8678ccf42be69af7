//! Who acts, when nobody says so.

use std::os::unix::fs::MetadataExt;

/// Where a user's name may stand.
const VARIABLES: [&str; 2] = ["USER", "LOGNAME"];

/// As HDFS's own client looks: its variables, the ticket of Kerberos, the user of this process.
pub(crate) fn acting(given: Option<String>) -> Option<client::Acting> {
    let named = |name: &str| std::env::var(name).ok().filter(|user| !user.is_empty());
    client::Acting::of_environment(given, || VARIABLES.into_iter().find_map(named).or_else(of_process))
}

/// In containers often no variable is set. Only the file is read: to ask the system's library would link what a program
/// may not want in its process.
fn of_process() -> Option<String> {
    let uid = std::fs::metadata("/proc/self").ok()?.uid();
    name_of(uid, &std::fs::read_to_string("/etc/passwd").ok()?)
}

fn name_of(uid: u32, passwd: &str) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _password, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_a_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\n# ours\nann:x:1000:1000:Ann:/home/ann:\n+\n";
        assert_eq!(name_of(1000, passwd).as_deref(), Some("ann"));
        assert_eq!(name_of(0, passwd).as_deref(), Some("root"));
        assert_eq!((name_of(1, passwd), name_of(0, "")), (None, None));
    }
}
