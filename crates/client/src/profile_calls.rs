//! Calls about the profiles that a store keeps. Nothing that goes wrong with one is an error.
//!
//! ```text
//!   prepare ── profileOf ───▶ metadata server     in the flight of the opening
//!   save ───── keepProfile ─▶                     if a run has read what the profile does not say
//! ```

use crate::client::Client;
use crate::error::Result;
use crate::shared_profiles::{SharedName, SharedProfile};
use hdfs::exception::{RPC_NO_SUCH_METHOD, RPC_NO_SUCH_PROTOCOL};
use prefetch::profile::ProfileName;
use wire::client::{
    CLIENT_PROTOCOL, KEEP_PROFILE, KeepProfileRequest, KeepProfileResponse, PROFILE_LEN_MAX, PROFILE_OF,
    ProfileOfRequest, ProfileOfResponse,
};

impl Client {
    pub(crate) fn shared_name(&self, path: &str, name: ProfileName) -> SharedName {
        SharedName { user: self.user().to_owned(), path: path.to_owned(), name }
    }

    /// What the store keeps. `None`: nothing, or it does not say.
    pub(crate) async fn shared_profile(&self, name: &SharedName) -> Option<SharedProfile> {
        let request = ProfileOfRequest { path: name.path.clone(), name: name.name.0.to_vec().into() };
        let answer: Result<ProfileOfResponse> = self.call_in(CLIENT_PROTOCOL, PROFILE_OF, &request).await;
        SharedProfile::decode(&self.heard_of_profiles(answer)?.profile?)
    }

    /// The store is to keep this one from now on.
    pub(crate) async fn share_profile(&self, name: &SharedName, shared: &SharedProfile) {
        let profile = shared.encode();
        if profile.len() > PROFILE_LEN_MAX {
            return;
        }
        let (path, name) = (name.path.clone(), name.name.0.to_vec().into());
        let request = KeepProfileRequest { path, name, profile: profile.into() };
        let answer: Result<KeepProfileResponse> = self.call_in(CLIENT_PROTOCOL, KEEP_PROFILE, &request).await;
        self.heard_of_profiles(answer);
    }

    fn heard_of_profiles<A>(&self, answer: Result<A>) -> Option<A> {
        let error = match answer {
            Ok(answer) => return Some(answer),
            Err(error) => error,
        };
        if error.is_class(RPC_NO_SUCH_PROTOCOL) || error.is_class(RPC_NO_SUCH_METHOD) {
            self.store().profiles().shared.has_none();
        }
        tracing::debug!(%error, "the store was asked about a profile");
        None
    }
}
