//! Safe mode, by HDFS's own call.

use super::connection::Admin;
use crate::error::Result;
use hdfs::proto::{SafeModeActionProto, SetSafeModeRequestProto, SetSafeModeResponseProto};

impl Admin {
    /// Whether it is on. Everybody may ask.
    pub async fn safe_mode(&self) -> Result<bool> {
        self.order_safe_mode(SafeModeActionProto::SafemodeGet).await
    }

    /// Enters it, or leaves it.
    pub async fn set_safe_mode(&self, on: bool) -> Result<()> {
        let action = if on { SafeModeActionProto::SafemodeEnter } else { SafeModeActionProto::SafemodeLeave };
        self.order_safe_mode(action).await.map(drop)
    }

    /// `checked`: only the server that leads shall answer.
    async fn order_safe_mode(&self, action: SafeModeActionProto) -> Result<bool> {
        let request = SetSafeModeRequestProto { action: action.into(), checked: Some(true) };
        let answer: SetSafeModeResponseProto = self.call_in(hdfs::protocol::CLIENT, "setSafeMode", &request).await?;
        Ok(answer.result)
    }
}
