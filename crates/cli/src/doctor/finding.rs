//! What a doctor found.

use serde::Serialize;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// As it should be.
    Well,
    /// It works, and something is to be known or done in time.
    Advice,
    /// This user may not ask for it, or read it.
    Unknown,
    /// It does not work, or data is in danger.
    Fault,
}

/// A line of `--json`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// What was looked at: `clocks`, `disks`, `ports` and so on.
    pub(crate) about: &'static str,
    /// What is the case.
    pub(crate) found: String,
    /// What to do about it; nothing where all is well, or unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<String>,
}

impl Finding {
    pub(crate) fn well(about: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Well, about, found: found.into(), advice: None }
    }

    pub(crate) fn advice(about: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Advice, about, found: found.into(), advice: Some(advice.into()) }
    }

    pub(crate) fn unknown(about: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Unknown, about, found: found.into(), advice: None }
    }

    pub(crate) fn fault(about: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Fault, about, found: found.into(), advice: Some(advice.into()) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Well => "ok",
            Level::Advice => "advice",
            Level::Unknown => "unknown",
            Level::Fault => "FAULT",
        };
        write!(f, "{level:<7}  {}: {}", self.about, self.found)?;
        self.advice.as_ref().map_or(Ok(()), |advice| write!(f, "\n           do: {advice}"))
    }
}
