//! A Levada store, or any HDFS, as an [`ObjectStore`](object_store::ObjectStore): for DataFusion, Polars, Delta and
//! whatever else reads and writes by that trait.
//!
//! ```text
//!   get, get_ranges ──▶ get ──────▶ client::Reader      one vectored read for many ranges
//!   put, copy, rename ▶ put ───┐
//!   put_multipart ────▶ upload ┴──▶ client::Staged      a temporary name, until the file is whole
//!   list … ───────────▶ list ─────▶ client::Listing     directories, several at a time
//! ```
//!
//! Promise: an object appears whole, and is replaced in one step: whoever opens it reads the old bytes or the new ones.
//! `PutMode::Create`, `copy_if_not_exists` and `rename_if_not_exists` are atomic: of several who try, one succeeds. A
//! rename moves no bytes. Objects are files; directories are made as needed, are no objects, and show only as prefixes
//! of objects. What is promised in detail, and what is not there, is in docs/object-store.md.
//!
//! ```no_run
//! use futures_util::TryStreamExt;
//! use levada_object_store::Levada;
//! use object_store::path::Path;
//! use object_store::{ObjectStore, ObjectStoreExt};
//!
//! # async fn example() -> object_store::Result<()> {
//! let store = Levada::connect("levada://metadata.example:8020", [("user", "ann")])?;
//! let objects: Vec<_> = store.list(Some(&Path::from("data/trips"))).try_collect().await?;
//! for object in &objects {
//!     // Many ranges, one request to each datanode that has some of them.
//!     let ranges = [0..4, object.size - 8..object.size];
//!     let pieces = store.get_ranges(&object.location, &ranges).await?;
//!     println!("{} begins with {:?}", object.location, pieces[0]);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Versions of the trait
//!
//! This is `object_store` 0.14. With the feature `object_store_0_13` everything here is of 0.13 instead, which
//! DataFusion 55 and parquet 59 take; a program has one of both.
//!
//! Start reading at [`Levada`].

#[cfg(feature = "object_store_0_13")]
extern crate object_store_0_13 as object_store;

mod builder;
mod error;
mod get;
mod list;
mod location;
mod meta;
mod put;
mod store;
mod upload;
mod user;

pub use builder::{LevadaBuilder, LevadaConfigKey, parse_url};
pub use error::client_error;
pub use store::Levada;
