//! The version of the program, as it says it to people and to other servers.

/// `0.1.0`. Of a program that is handed out with the commit that it was built from, `0.1.0+c9840015`: there alone are
/// two builds told from each other. `cargo xtask dist` names the commit.
pub const VERSION: &str = match option_env!("LEVADA_BUILD_VERSION") {
    Some(version) => version,
    None => PACKAGE,
};

const PACKAGE: &str = env!("CARGO_PKG_VERSION");

const _: () = {
    let (version, package) = (VERSION.as_bytes(), PACKAGE.as_bytes());
    let (head, build) = version.split_at(package.len());
    let mut at = 0;
    while at < head.len() {
        assert!(head[at] == package[at], "LEVADA_BUILD_VERSION is of another version than the sources");
        at += 1;
    }
    assert!(build.is_empty() || build[0] == b'+', "LEVADA_BUILD_VERSION has a build that does not begin with +");
};
