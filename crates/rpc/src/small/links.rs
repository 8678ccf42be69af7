//! The connections of one process to all the datanodes it writes small blocks to.

use super::{SmallError, SmallLink, SmallOptions};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use wire::small::{SmallAnswer, SmallWrite};

/// Addresses kept; a larger cluster's are dropped all at once now and then, which costs a connection each.
const ADDR_COUNT_MAX: usize = 1024;

type Place = Arc<tokio::sync::Mutex<Option<Arc<SmallLink>>>>;

#[derive(Debug, Default)]
pub struct SmallLinks {
    options: SmallOptions,
    places: Mutex<HashMap<String, Place>>,
}

impl SmallLinks {
    pub fn new(options: SmallOptions) -> Self {
        Self { options, places: Mutex::default() }
    }

    /// Sends a small block to the datanode at `addr`. If a connection that was kept turns out to be gone, it is tried
    /// once more on a new one.
    pub async fn put(&self, addr: &str, header: SmallWrite, body: Bytes) -> Result<SmallAnswer, SmallError> {
        let (link, fresh) = self.link(addr).await?;
        match link.put(header.clone(), body.clone(), self.options.answer_time_max).await {
            Err(SmallError::Broken(_)) if !fresh => {
                let (link, _) = self.link(addr).await?;
                link.put(header, body, self.options.answer_time_max).await
            }
            answer => answer,
        }
    }

    /// The connection, and whether it was just made. Those who come meanwhile wait for it.
    async fn link(&self, addr: &str) -> Result<(Arc<SmallLink>, bool), SmallError> {
        let place = self.place(addr);
        let mut place = place.lock().await;
        if let Some(link) = place.as_ref().filter(|link| link.is_open()) {
            return Ok((Arc::clone(link), false));
        }
        *place = None;
        let link = Arc::new(SmallLink::connect(addr, &self.options).await?);
        *place = Some(Arc::clone(&link));
        Ok((link, true))
    }

    fn place(&self, addr: &str) -> Place {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(addr) {
            return Arc::clone(place);
        }
        if places.len() >= ADDR_COUNT_MAX {
            places.clear();
        }
        Arc::clone(places.entry(addr.to_owned()).or_default())
    }
}
