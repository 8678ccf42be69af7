//! Where the pages come from.

use crate::gate::ProofSource;
use metrics::Format;
use serde_json::Value;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Tells the status of the store at this moment: a JSON object of numbers, texts and objects.
pub type StatusSource = Arc<dyn Fn() -> Value + Send + Sync>;

/// Tells what the server has counted by this moment.
pub type MetricsSource = Arc<dyn Fn(Format) -> String + Send + Sync>;

/// Begins a check of the tree: what the query says, and who asks. It ends when the channel does. `None`: too many run
/// already.
pub type CheckSource = Arc<dyn Fn(Vec<(String, String)>, Asker) -> Option<mpsc::Receiver<String>> + Send + Sync>;

/// Who asks for a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    pub address: IpAddr,
    /// Proven; `None` where no proof is asked for.
    pub name: Option<String>,
}

/// Where the pages come from.
#[derive(Clone)]
pub struct Pages {
    pub status: StatusSource,
    pub metrics: MetricsSource,
    /// `None`: this server has no tree.
    pub check: Option<CheckSource>,
    /// For the check; `None`: no proof is asked for here.
    pub proof: Option<ProofSource>,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("checks", &self.check.is_some()).finish_non_exhaustive()
    }
}
