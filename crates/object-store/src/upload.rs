//! An object that comes in parts.
//!
//! ```text
//! put_part(1) ─┐  orders, in the order      ┌─ the driver: one file, part behind part
//! put_part(2) ─┼─ of the calls ────────────▶│  polled by whoever waits: for a part, for the end
//! complete ────┘                            └─ answers each order
//! ```
//!
//! Promise: parts stand in the order of the calls, however their futures are awaited, and a future that nobody polls
//! any more holds up no other. A part's future is ready when its bytes are in the window of the writer. So the memory
//! in use is that of the parts whose futures are not ready, which the caller made, and the window: 8 MiB unless the
//! client's options say otherwise.

use crate::error::{generic, of};
use crate::put;
use client::{Client, Existing, Staged};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, Shared, select};
use object_store::path::Path;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use std::fmt;
use tokio::sync::{mpsc, oneshot};

/// Parts that may wait. The number that S3 allows an object.
const WAITING_COUNT_MAX: usize = 10_000;

enum Order {
    Part { payload: PutPayload, done: oneshot::Sender<Result<()>> },
    Complete { done: oneshot::Sender<Result<PutResult>> },
    Abort { done: oneshot::Sender<()> },
}

type Driver = Shared<BoxFuture<'static, ()>>;

pub(crate) struct Upload {
    location: Path,
    orders: mpsc::Sender<Order>,
    driver: Driver,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("location", &self.location).finish_non_exhaustive()
    }
}

impl Upload {
    pub(crate) fn new(client: Client, location: Path, staged: Staged) -> Self {
        let (orders, taken) = mpsc::channel(WAITING_COUNT_MAX);
        let driver = drive(client, location.clone(), staged, taken).boxed().shared();
        Self { location, orders, driver }
    }

    fn order<T: Send + 'static>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> Order,
    ) -> BoxFuture<'static, Result<T>> {
        let (done, answer) = oneshot::channel();
        // An order that is not taken is dropped here, and with it the sender of its answer.
        let is_full = matches!(self.orders.try_send(order(done)), Err(mpsc::error::TrySendError::Full(_)));
        let (driver, location) = (self.driver.clone(), self.location.clone());
        let answered = async move {
            if is_full {
                return Err(generic(format!("/{location}: {WAITING_COUNT_MAX} parts wait to be written")));
            }
            let answer = match select(answer, driver).await {
                Either::Left((answer, _)) => answer,
                // It is over: what it did not answer it never will.
                Either::Right(((), answer)) => answer.await,
            };
            answer.map_err(|_| generic(format!("/{location}: the upload has ended, or an earlier part failed")))
        };
        answered.boxed()
    }
}

/// Ends with the upload, or with the first part that fails. If nobody completes it, the file is removed with `staged`.
async fn drive(client: Client, location: Path, mut staged: Staged, mut orders: mpsc::Receiver<Order>) {
    // Nobody waits for an answer whose receiver is gone.
    while let Some(order) = orders.recv().await {
        match order {
            Order::Part { payload, done } => {
                if let Err(error) = write(&mut staged, &payload).await {
                    staged.discard().await;
                    let _ = done.send(Err(of(&location, error)));
                    return;
                }
                let _ = done.send(Ok(()));
            }
            Order::Complete { done } => {
                let _ = done.send(put::commit(&client, staged, &location, Existing::Replaced).await);
                return;
            }
            Order::Abort { done } => {
                staged.discard().await;
                let _ = done.send(());
                return;
            }
        }
    }
}

async fn write(staged: &mut Staged, payload: &PutPayload) -> client::Result<()> {
    for bytes in payload {
        staged.write(bytes).await?;
    }
    Ok(())
}

#[async_trait::async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        let written = self.order(|done| Order::Part { payload, done });
        async move { written.await? }.boxed()
    }

    /// Parts that nobody waited for are written first. Replaces what has the name.
    async fn complete(&mut self) -> Result<PutResult> {
        self.order(|done| Order::Complete { done }).await?
    }

    async fn abort(&mut self) -> Result<()> {
        self.order(|done| Order::Abort { done }).await
    }
}
