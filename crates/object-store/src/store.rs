//! The store as the trait has it.

use crate::error::of;
use crate::upload::Upload;
use crate::{get, list, location, put};
use async_trait::async_trait;
use bytes::Bytes;
use client::{Client, Create};
use futures_util::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, RenameTargetMode, Result,
};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Objects that are deleted at a time. A guess: far away, time is round trips.
const DELETE_COUNT: usize = 16;

/// A Levada store, or any HDFS, as one user sees it. Clones are the same.
///
/// ```no_run
/// use levada_object_store::Levada;
/// use object_store::path::Path;
/// use object_store::{ObjectStoreExt, PutMode};
///
/// # async fn example() -> object_store::Result<()> {
/// let store = Levada::connect("levada://127.0.0.1:8020", [("user", "ann")])?;
/// let path = Path::from("user/ann/table/00001.json");
/// store.put_opts(&path, "{}".into(), PutMode::Create.into()).await?;
/// let bytes = store.get(&path).await?.bytes().await?;
/// assert_eq!(&bytes[..], b"{}");
/// # Ok(())
/// # }
/// # use object_store::ObjectStore;
/// ```
#[derive(Clone)]
pub struct Levada {
    client: Client,
    create: Arc<Create>,
}

impl Levada {
    /// Of a client that the program has, with what it shares with others.
    pub fn new(client: Client) -> Self {
        Self::with_create(client, Create::default())
    }

    /// As [`Levada::new`]; new files are to be as `create` says. Its fields `overwrite`, `parents` and `len` do not
    /// count: each call says so itself.
    pub fn with_create(client: Client, create: Create) -> Self {
        Self { client, create: Arc::new(Create { overwrite: false, parents: true, len: None, ..create }) }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Ends connections and tasks; what is called afterwards, and whatever was going on, fails. See
    /// [`client::Store::close`].
    pub async fn close(&self) {
        self.client.store().close().await;
    }
}

impl fmt::Display for Levada {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Levada({} as {})", self.client.url(), self.client.user())
    }
}

impl fmt::Debug for Levada {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, user) = (self.client.url().to_string(), self.client.user());
        f.debug_struct("Levada").field("url", &url).field("user", &user).finish_non_exhaustive()
    }
}

#[async_trait]
impl ObjectStore for Levada {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        put::put(&self.client, &self.create, location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        put::refuse_attributes(&self.client, "put_multipart_opts", &options.attributes)?;
        let path = location::new(location)?;
        let staged = self.client.stage(&path, &self.create).await.map_err(|error| of(location, error))?;
        Ok(Box::new(Upload::new(self.client.clone(), location.clone(), staged)))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        get::get(&self.client, location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        get::ranges(&self.client, location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let client = self.client.clone();
        let deleted = move |location: Result<Path>| {
            let client = client.clone();
            async move {
                let location = location?;
                put::delete(&client, &location).await?;
                Ok(location)
            }
        };
        locations.map(deleted).buffered(DELETE_COUNT).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        list::list(&self.client, prefix.cloned().unwrap_or_default())
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        list::list_behind(&self.client, prefix.cloned().unwrap_or_default(), offset.clone())
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        list::list_one(&self.client, prefix.cloned().unwrap_or_default()).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let overwrite = matches!(options.mode, CopyMode::Overwrite);
        put::copy(&self.client, &self.create, from, to, overwrite).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let overwrite = matches!(options.target_mode, RenameTargetMode::Overwrite);
        put::rename(&self.client, from, to, overwrite).await
    }
}
