//! Objects in a real store: a metadata server and datanodes in this process.

#[cfg(feature = "object_store_0_13")]
extern crate object_store_0_13 as object_store;

mod atomic;
mod contract;
mod names;
mod reading;
mod support;
mod upload;
