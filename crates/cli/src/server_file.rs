//! A file of a server, whichever.

use crate::log::Log;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A file of a server.
pub(crate) trait ServerFile: Serialize + DeserializeOwned + Send + 'static {
    fn log(&self) -> &Log;
}
