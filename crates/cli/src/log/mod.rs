//! The log of a server: where it goes, in which form, and how much of it.
//!
//! ```text
//! [log]                            RUST_LOG, if set
//! level, format, file, …                │ decides what is logged
//!        │                              ▼
//!   tracing events ──▶ filter ──▶ text or JSON ──▶ standard error, or files of bounded length
//! ```
//!
//! Promise: [`apply`] takes effect at once and for all threads; what cannot be done leaves the log as it was. Commands
//! that are no servers log warnings to standard error.

mod files;
mod json;

use files::Files;
use serde::{Deserialize, Serialize};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, reload};

/// The table `[log]` of a server's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    /// `error`, `warn`, `info`, `debug`, `trace`, or directives as `RUST_LOG` has them.
    #[serde(default = "default_level")]
    pub level: String,
    #[serde(default)]
    pub format: Format,
    /// None: standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Bytes of a file; then the next one begins.
    #[serde(default = "default_file_len", deserialize_with = "host::size::setting")]
    pub file_len: u64,
    /// Files that are kept, with the one that grows.
    #[serde(default = "default_file_count")]
    pub file_count: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: default_level(),
            format: Format::Text,
            file: None,
            file_len: default_file_len(),
            file_count: default_file_count(),
        }
    }
}

fn default_level() -> String {
    "info".into()
}

fn default_file_len() -> u64 {
    64 << 20
}

fn default_file_count() -> u32 {
    10
}

/// A few hundred lines.
const FILE_LEN_MIN: u64 = 64 << 10;
/// Each is renamed when one is full.
const FILE_COUNT_MAX: u32 = 1000;
/// Of commands, and of `levada up`, which runs at a terminal. openraft warns of its own first election, which is no
/// news to anybody; its errors reach us as errors.
const WARNINGS: &str = "warn,openraft=error";
/// The life of a server: its start, what it serves, who leads, who joined. What is done to each block or container in
/// the course of things is left to `debug`, and so are the libraries' own notes.
const LIFE: &str = "warn,openraft=error,levada=info,metad=info,datad=info,datanode=info,disks=info,raft=info,tls=info,\
                    metad::container_removal=warn,metad::recovery=warn,metad::repair::balance=warn,\
                    metad::repair::surplus=warn,metad::joining=info,datad::small=warn,datad::write=warn,\
                    datad::data_port=warn,datad::handshake=warn";
/// Libraries tell each frame there.
const DETAIL: &str = "debug,openraft=warn,h2=info,hyper=info,hyper_util=info,rustls=info,mio=info,tokio=info";

/// Ours, as their events name them.
const CRATES: &str = "blocks client container datad datanode disks edge gateway gss hdfs host http io kv layout lead \
                      levada metad metrics namespace object_store prefetch raft rpc sasl security tls types wire xfer \
                      xroot";

type Formatted = Box<dyn Layer<Registry> + Send + Sync>;

/// What a running program's log is changed by.
struct Handles {
    filter: reload::Handle<Targets, tracing_subscriber::layer::Layered<reload::Layer<Formatted, Registry>, Registry>>,
    form: reload::Handle<Formatted, Registry>,
    sink: Sink,
    /// `RUST_LOG` decides.
    is_by_environment: bool,
}

static HANDLES: OnceLock<Handles> = OnceLock::new();

/// What the settings say, for whoever has changed the level and wants it back.
static APPLIED: Mutex<Option<Log>> = Mutex::new(None);

/// Begins to log to standard error, for any command.
pub(crate) fn init() {
    // RUST_LOG=client=info tells of every replica and node that was given up.
    let set = std::env::var("RUST_LOG").ok().filter(|set| !set.is_empty());
    let by_environment = set.and_then(|set| {
        let said = directives(&set);
        said.inspect_err(|error| eprintln!("levada: RUST_LOG does not count: {error}")).ok()
    });
    let is_by_environment = by_environment.is_some();
    let filter = by_environment.unwrap_or_else(|| directives(WARNINGS).expect("a constant of ours"));
    let sink = Sink::default();
    let (filter, filter_handle) = reload::Layer::new(filter);
    let (form, form_handle) = reload::Layer::new(formatted(Format::Text, sink.clone()));
    tracing_subscriber::registry().with(form).with(filter).init();
    host::log_level::set_by(set_level);
    let _set_once = HANDLES.set(Handles { filter: filter_handle, form: form_handle, sink, is_by_environment });
}

fn formatted(format: Format, sink: Sink) -> Formatted {
    let ansi = sink.is_terminal();
    let layer = tracing_subscriber::fmt::layer().with_ansi(ansi).with_writer(sink);
    match format {
        Format::Text => layer.boxed(),
        Format::Json => layer.event_format(json::Lines).boxed(),
    }
}

impl Log {
    /// What `levada up` gives the servers that it starts, whose log is its terminal's.
    pub(crate) fn warnings() -> Self {
        Self { level: "warn".into(), ..Self::default() }
    }

    /// What is wrong with it, for whoever wrote it.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.filter()?;
        if self.file_len < FILE_LEN_MIN || !(1..=FILE_COUNT_MAX).contains(&self.file_count) {
            return Err(format!("log.file_len must be at least {FILE_LEN_MIN}, log.file_count 1 to {FILE_COUNT_MAX}"));
        }
        Ok(())
    }

    fn filter(&self) -> Result<Targets, String> {
        let level = match self.level.as_str() {
            "warn" => WARNINGS,
            "info" => LIFE,
            "debug" => DETAIL,
            other => other,
        };
        directives(level).map_err(|error| format!("log.level {:?} is no level and no filter: {error}", self.level))
    }
}

/// Levels of all and of parts: `warn,metad::repair=debug`. No spans and no fields, which nothing here has; for them
/// the program would carry an engine of regular expressions.
fn directives(text: &str) -> Result<Targets, String> {
    if text.contains(['[', ']', '{', '}']) {
        return Err("spans and fields cannot be named".into());
    }
    let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    must_have_levels(&parts)?;
    // With nothing in it, this parses as "error".
    parts.join(",").parse().map_err(|error: tracing_subscriber::filter::ParseError| error.to_string())
}

/// Refuses a word that is no level, as `wran`: the filter would take it for a target, and log nothing else. That of one
/// of our crates stands for all that it logs.
fn must_have_levels(parts: &[&str]) -> Result<(), String> {
    for part in parts {
        let is_target = part.contains('=')
            || part.split("::").next().is_some_and(|first| CRATES.split_whitespace().any(|name| name == first));
        if !is_target && part.parse::<LevelFilter>().is_err() {
            return Err(format!(
                "{part:?} is no level: error, warn, info, debug, trace or off; to log more of one part, name it as in \
                 metad=debug,warn"
            ));
        }
    }
    Ok(())
}

/// Logs as the settings say from now on. A file is opened anew, so one that was moved away is let go of.
pub(crate) fn apply(log: &Log) -> Result<(), String> {
    log.check()?;
    *APPLIED.lock().unwrap_or_else(PoisonError::into_inner) = Some(log.clone());
    let Some(handles) = HANDLES.get() else { return Ok(()) };
    let files = log.file.as_ref().map(|path| {
        let opened = Files::open(path.clone(), log.file_len, log.file_count);
        opened.map_err(|error| format!("the log file {}: {error}", path.display()))
    });
    let files = files.transpose()?;
    handles.sink.set(files);
    let form = handles.form.reload(formatted(log.format, handles.sink.clone()));
    form.map_err(|error| format!("the form of the log: {error}"))?;
    if handles.is_by_environment {
        return Ok(());
    }
    handles.filter.reload(log.filter()?).map_err(|error| format!("the level of the log: {error}"))
}

/// Logs as `level` says until the settings are read again, or with an empty one as they say. Not where the environment
/// decides: whoever set it shall not look for lines in vain.
fn set_level(level: &str) -> Result<(), String> {
    let Some(handles) = HANDLES.get() else { return Err("nothing is logged".to_owned()) };
    if handles.is_by_environment {
        return Err("RUST_LOG was set at the start, and decides".to_owned());
    }
    let applied = APPLIED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let log = match (level, applied) {
        // `up` has no settings.
        ("", applied) => applied.unwrap_or_else(Log::warnings),
        (level, applied) => Log { level: level.to_owned(), ..applied.unwrap_or_default() },
    };
    let filter = log.filter()?;
    handles.filter.reload(filter).map_err(|error| format!("the level of the log: {error}"))?;
    tracing::info!(level = log.level, "the log has another level");
    Ok(())
}

/// True: what is logged the environment says, whatever the settings are.
pub(crate) fn is_by_environment() -> bool {
    HANDLES.get().is_some_and(|handles| handles.is_by_environment)
}

/// Where lines go.
#[derive(Clone, Default)]
struct Sink {
    /// `None`: standard error.
    files: Arc<Mutex<Option<Files>>>,
}

impl Sink {
    fn set(&self, files: Option<Files>) {
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = files;
    }

    fn is_terminal(&self) -> bool {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.is_none() && std::io::stderr().is_terminal()
    }
}

impl Write for &Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut *self.files.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(files) => files.append(bytes),
            None => std::io::stderr().write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    /// But for those that run no server, or are of tools.
    #[test]
    fn our_crates_are_known() {
        let there = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
        let names = there.map(|entry| entry.unwrap().file_name().into_string().unwrap().replace('-', "_"));
        let mut names: Vec<_> = names.map(|name| if name == "cli" { "levada".into() } else { name }).collect();
        names.retain(|name| !["fuzzed", "py", "sim", "testkit", "xtask"].contains(&&**name));
        names.sort_unstable();
        assert_eq!(CRATES.split_whitespace().collect::<Vec<_>>(), names);
    }

    #[test]
    fn what_a_log_cannot_be_is_said() {
        let check = |text: &str| toml::from_str::<Log>(text).map_err(|error| error.to_string())?.check();
        for good in [
            "",
            "level = 'metad=debug,warn'",
            "level = 'off'",
            "level = 'warn,metad::trash'",
            "format = 'json'",
            "file = '/x'\nfile_len = 65536\nfile_count = 1",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "level = 'a=b=c'",
            "level = 'wran'",
            "level = 'metad=debug,wran'",
            "level = 'metad[{block}]=debug'",
            "level = 'metad=loud'",
            "format = 'xml'",
            "file_len = 1",
            "file_count = 0",
            "colour = true",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        let said = check("level = 'degub'").unwrap_err();
        assert!(said.contains("\"degub\" is no level: error, warn, info, debug, trace"), "{said}");
    }

    /// The longest name decides, wherever it stands.
    #[test]
    fn a_part_has_a_level_of_its_own() {
        let logged = |text: &str, target: &str| {
            let level = directives(text).unwrap();
            [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG]
                .into_iter()
                .rfind(|at| level.would_enable(target, at))
        };
        let text = "metad::repair=debug, warn ,metad=info,openraft=off,";
        assert_eq!(logged(text, "metad::repair::jobs"), Some(Level::DEBUG));
        assert_eq!(logged(text, "metad::door"), Some(Level::INFO));
        assert_eq!(logged(text, "rpc::server"), Some(Level::WARN));
        assert_eq!(logged(text, "openraft::engine"), None);
        assert_eq!(logged("", "metad"), Some(Level::ERROR));
        assert_eq!(logged("metad=debug", "datad"), None);
    }
}
