//! Programs that are run for what they print.

use std::error::Error;
use std::process::Command;

pub(super) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What a command prints; an error names the command.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = command.output().map_err(|error| format!("{shown}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{shown}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
