//! What the program logs, changed while it runs: by whoever may, through a server, and by means that the program alone
//! knows.

use std::sync::OnceLock;

type Setter = fn(&str) -> Result<(), String>;

static SETTER: OnceLock<Setter> = OnceLock::new();

/// Says how. Once, at the start of the program.
pub fn set_by(setter: Setter) {
    let _the_first_counts = SETTER.set(setter);
}

/// Logs as `level` says from now on; with an empty one as the configuration does. `Err`: why that is not so.
pub fn set(level: &str) -> Result<(), String> {
    match SETTER.get() {
        Some(setter) => setter(level),
        None => Err("this program has no level to change".to_owned()),
    }
}
