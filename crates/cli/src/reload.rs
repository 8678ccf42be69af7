//! SIGHUP: a server reads its file again, takes over what can change while it runs, and says what cannot.

use crate::config::{self, ConfigError};
use crate::log;
use crate::server_file::ServerFile;
use io::task::Owned;
use serde::Serialize;
use std::path::PathBuf;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The file with which a server started, and what of it counts by now.
pub(crate) struct Reload<F> {
    path: PathBuf,
    /// As a table: what is compared are values, not their places in the text.
    now: toml::Table,
    hangups: Signal,
    _file: std::marker::PhantomData<F>,
}

/// Settings that [`Reload`] itself takes over.
const LOG: &str = "log";

impl<F: ServerFile> Reload<F> {
    /// Counted from the call: a signal that comes during the start is not lost, and does not end the process.
    pub(crate) fn new(path: PathBuf) -> Self {
        let hangups = signal(SignalKind::hangup()).expect("signal handlers can be set");
        Self { path, now: toml::Table::new(), hangups, _file: std::marker::PhantomData }
    }

    /// Reads the file for the start, and begins to log as it says.
    pub(crate) fn read(&mut self) -> Result<F, ConfigError> {
        let file: F = config::read(&self.path)?;
        log::apply(file.log()).map_err(|error| ConfigError(format!("{}: {error}", self.path.display())))?;
        self.now = table(&file)?;
        Ok(file)
    }

    /// Serves SIGHUP for ever. `take` takes over what it can of the file, and answers with the keys of that, each with
    /// its tables before it and a dot between.
    pub(crate) async fn follow(mut self, mut take: impl FnMut(F) -> Result<Vec<String>, String>) {
        loop {
            if self.hangups.recv().await.is_none() {
                return std::future::pending().await;
            }
            let path = self.path.clone();
            let read = io::task::blocking(move || config::read::<F>(&path)).await;
            if let Err(error) = read.map_err(|error| error.0).and_then(|file| self.take_over(file, &mut take)) {
                tracing::error!(
                    path = %self.path.display(), error,
                    "configuration not reloaded; the former one counts"
                );
            }
        }
    }

    fn take_over(&mut self, file: F, take: &mut impl FnMut(F) -> Result<Vec<String>, String>) -> Result<(), String> {
        let new = table(&file).map_err(|error| error.0)?;
        file.log().check()?;
        let settings = file.log().clone();
        let live = take(file)?;
        // Last, as all before is told in the log that was there.
        log::apply(&settings)?;
        let changed = differences(&self.now, &new);
        let is_live = |key: &String| key.split('.').next() == Some(LOG) || live.iter().any(|live| live == key);
        let (taken, waiting): (Vec<String>, Vec<String>) = changed.into_iter().partition(is_live);
        tracing::info!(path = %self.path.display(), changed = taken.join(" "), "configuration reloaded");
        if taken.iter().any(|key| key == "log.level") && log::is_by_environment() {
            tracing::warn!("log.level does not count: RUST_LOG was set at the start");
        }
        if !waiting.is_empty() {
            tracing::warn!(settings = waiting.join(" "), "changed settings count after a restart only");
        }
        for key in taken {
            copy(&mut self.now, &new, &key);
        }
        Ok(())
    }
}

/// For a server that has no file: a signal does not end it, and the log says that nothing else comes of it.
pub(crate) fn note_hangups() -> Owned<()> {
    let mut hangups = signal(SignalKind::hangup()).expect("signal handlers can be set");
    io::task::spawn_owned("hangups", async move {
        while hangups.recv().await.is_some() {
            tracing::warn!("SIGHUP: a gateway reads no file; its options count after a restart");
        }
    })
}

fn table(file: &impl Serialize) -> Result<toml::Table, ConfigError> {
    toml::Table::try_from(file).map_err(|error| ConfigError(error.to_string()))
}

/// Keys whose values differ, each with its tables before it.
fn differences(one: &toml::Table, other: &toml::Table) -> Vec<String> {
    let mut found = Vec::new();
    compare("", one, other, &mut found);
    found
}

fn compare(above: &str, one: &toml::Table, other: &toml::Table, found: &mut Vec<String>) {
    let empty = toml::Table::new();
    let keys: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    for key in keys {
        let name = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        let (one, other) = (one.get(key), other.get(key));
        let tables = (one.and_then(toml::Value::as_table), other.and_then(toml::Value::as_table));
        match tables {
            (None, None) if one == other => {}
            (None, None) => found.push(name),
            (one, other) => compare(&name, one.unwrap_or(&empty), other.unwrap_or(&empty), found),
        }
    }
}

/// What was taken over is no difference at the next time.
fn copy(to: &mut toml::Table, from: &toml::Table, key: &str) {
    let value = |table: &toml::Table, name: &str| table.get(name).cloned();
    match key.split_once('.') {
        None => match value(from, key) {
            Some(value) => drop(to.insert(key.to_owned(), value)),
            None => drop(to.remove(key)),
        },
        Some((name, rest)) => {
            let empty = || toml::Value::Table(toml::Table::new());
            let from = value(from, name).unwrap_or_else(empty);
            let to = to.entry(name.to_owned()).or_insert_with(empty);
            if let (toml::Value::Table(to), toml::Value::Table(from)) = (to, from) {
                copy(to, &from, rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also where the file had no table `[log]`, or has none any more.
    #[test]
    fn a_setting_that_was_its_default_changes_alone() {
        let table = |log: &str| {
            let text = format!("{log}\n[data]\ndir = '/d'\nxfer_addr = '127.0.0.1:1'\nipc_addr = '127.0.0.1:2'");
            table(&toml::from_str::<config::DataFile>(&format!("{text}\nmetad = 'h:1'")).unwrap()).unwrap()
        };
        let (without, with) = (table(""), table("[log]\nlevel = 'warn'"));
        assert_eq!(differences(&without, &with), ["log.level"]);
        assert_eq!(differences(&with, &without), ["log.level"]);
    }

    #[test]
    fn a_setting_of_security_that_was_its_default_changes_alone() {
        let table = |security: &str| {
            let text = "http_addr = '127.0.0.1:0'\n[meta]\ndir = '/d'\nrpc_addr = '127.0.0.1:1'";
            table(&toml::from_str::<config::MetaFile>(&format!("{text}\n{security}")).unwrap()).unwrap()
        };
        let (without, with) = (table(""), table("[meta.security]\nobservers = 'ada'"));
        assert_eq!(differences(&without, &with), ["meta.security.observers"]);
        assert_eq!(differences(&with, &without), ["meta.security.observers"]);
    }

    #[test]
    fn what_was_taken_over_differs_no_more() {
        let table = |text: &str| text.parse::<toml::Table>().unwrap();
        let mut now = table("a = 1\n[meta]\nb = 2\nc = [3]\n[meta.security]\nd = 4");
        let new = table("a = 1\n[meta]\nb = 5\nc = [6]\n[log]\nlevel = 'warn'");
        assert_eq!(differences(&now, &new), ["log.level", "meta.b", "meta.c", "meta.security.d"]);
        for key in ["log.level", "meta.b", "meta.security.d"] {
            copy(&mut now, &new, key);
        }
        assert_eq!(differences(&now, &new), ["meta.c"]);
    }
}
