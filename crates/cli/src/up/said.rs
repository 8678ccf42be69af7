//! What was said of a store with `up` and counts until something else is said: a start without it would have `rm`
//! delete what the trash kept before.

use super::args::Args;
use crate::config;
use crate::roles::StartError;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

#[derive(Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct Said {
    pub(super) replication: Option<u16>,
    pub(super) trash_interval_ms: Option<u64>,
}

impl Said {
    fn before(dir: &Path) -> Result<Self, StartError> {
        let path = file(dir);
        if path.exists() { config::read(&path).map_err(StartError::from) } else { Ok(Self::default()) }
    }

    /// Now, or before.
    pub(super) fn of(args: &Args, dir: &Path) -> Result<Self, StartError> {
        let before = Self::before(dir)?;
        Ok(Self {
            replication: args.replication.or(before.replication),
            trash_interval_ms: args.trash_interval.or(before.trash_interval_ms),
        })
    }

    /// For the next start, where it is news. Called when the servers have started by it.
    pub(super) fn keep(&self, dir: &Path) -> Result<(), StartError> {
        match Self::before(dir)? == *self {
            true => Ok(()),
            false => config::write(&file(dir), self).map_err(StartError::from),
        }
    }
}

fn file(dir: &Path) -> PathBuf {
    dir.join("conf/up.toml")
}
