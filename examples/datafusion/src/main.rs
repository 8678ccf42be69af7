//! A table in a Levada store, written and queried by DataFusion: `cargo run -- [URL]`, with the URL that `levada up`
//! shows as levada://127.0.0.1:8020. The table is a Parquet file in the user's home directory there.

use datafusion::prelude::{ParquetReadOptions, SessionContext};
use levada_object_store::LevadaBuilder;
use std::error::Error;
use std::sync::Arc;
use url::Url;

const URL_DEFAULT: &str = "levada://127.0.0.1:8020";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| URL_DEFAULT.into());
    let url = url.trim_end_matches('/');
    let store = LevadaBuilder::new().with_url(url).build()?;
    let table = format!("{url}{}/trips.parquet", store.client().home());
    let context = SessionContext::new();
    context.register_object_store(&Url::parse(url)?, Arc::new(store.clone()));

    // By a multipart upload: the file is there when it is whole.
    let trips = "SELECT value AS id, value % 7 AS day, value % 100 * 0.25 AS fare FROM generate_series(1, 1000000)";
    context.sql(&format!("COPY ({trips}) TO '{table}' STORED AS PARQUET")).await?.show().await?;

    // Two of three columns: their pieces come by `get_ranges`, one request to a datanode.
    context.register_parquet("trips", &table, ParquetReadOptions::default()).await?;
    let query = "SELECT day, count(*) AS trips, avg(fare) AS fare FROM trips GROUP BY day ORDER BY day";
    context.sql(query).await?.show().await?;
    store.close().await;
    Ok(())
}
