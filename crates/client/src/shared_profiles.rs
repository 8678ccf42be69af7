//! Profiles that a store keeps for all who read a data set, for who has none of their own.
//!
//! ```text
//!   prepare ── asked: an answer on its way ──▶ who opens the file
//! ```
//!
//! They come from strangers: they are decoded within limits, waste no more than a machine's own limits allow, and lead
//! nobody anywhere, since addresses are kept by each user alone. The calls are in `profile_calls`.

use crate::scope::Task;
use prefetch::Profile;
use prefetch::profile::ProfileName;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use wire::client::PROFILE_NAME_LEN;

/// Answers that wait for who opens the file. A guess: files that are looked at and not opened.
const ASKED_COUNT_MAX: usize = 16;

/// What a store keeps of a data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedProfile {
    /// Hash of the names of tables and columns whose numbers the profile has; zeros: they are not known.
    pub(crate) schema: [u8; PROFILE_NAME_LEN],
    pub(crate) profile: Profile,
}

/// Of which file of a data set, and under which name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedName {
    /// Who asks: what one may read is not another's.
    pub(crate) user: String,
    pub(crate) path: String,
    pub(crate) name: ProfileName,
}

/// Of one store.
#[derive(Debug, Default)]
pub(crate) struct SharedProfiles {
    /// What was asked beside an opening that has not come to it yet; the latest at the end.
    asked: Mutex<VecDeque<(SharedName, Task<Option<SharedProfile>>)>>,
    /// The store keeps none.
    is_without: AtomicBool,
}

impl SharedProfile {
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (schema, profile) = bytes.split_first_chunk()?;
        let profile = Profile::decode(profile).inspect_err(|error| tracing::debug!(%error, "no profile")).ok()?;
        Some(Self { schema: *schema, profile })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.schema[..], &self.profile.encode()].concat()
    }
}

impl SharedProfiles {
    /// Nothing is asked from now on.
    pub(crate) fn has_none(&self) {
        self.is_without.store(true, Ordering::Relaxed);
    }

    /// `ask` is begun, unless the same was asked and nobody has come for it.
    pub(crate) fn ask(&self, name: SharedName, ask: impl FnOnce() -> Task<Option<SharedProfile>>) {
        if self.is_without.load(Ordering::Relaxed) {
            return;
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.iter().all(|(known, _)| *known != name) {
            if asked.len() == ASKED_COUNT_MAX {
                asked.pop_front();
            }
            asked.push_back((name, ask()));
        }
    }

    /// What was asked, on its way.
    pub(crate) fn take(&self, name: &SharedName) -> Option<Task<Option<SharedProfile>>> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let place = asked.iter().position(|(known, _)| known == name)?;
        asked.remove(place).map(|(_, answer)| answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_profile_is_read_as_it_was_written() {
        let shared = SharedProfile { schema: [7; 16], profile: Profile { runs: 3, ..Profile::default() } };
        let bytes = shared.encode();
        assert_eq!(bytes, [[7; 16].as_slice(), &shared.profile.encode()].concat());
        assert_eq!(SharedProfile::decode(&bytes), Some(shared));
        for len in 0..bytes.len() {
            assert_eq!(SharedProfile::decode(&bytes[..len]), None, "{len}");
        }
    }
}
