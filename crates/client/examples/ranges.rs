//! Reads ranges that lie evenly in a file, as the pieces of a column do, by one request a datanode:
//! `ranges URL PATH COUNT LEN`. Prints a line of JSON: seconds of a cold open and read, of a second read on the
//! connections that are there, and of the same ranges read one by one, 16 at a time (`single` behind the others); and
//! the CRC-32 of the ranges' bytes, one after the other. `$LEVADA_GATEWAY` is the address of a gateway to go through.

use client::{Client, Options, RangeRead, Reader, Url};
use io::{Clock, SystemClock};
use std::error::Error;
use types::ChecksumKind;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// As many as an eager reader has under way that knows no better.
const SINGLE_COUNT: usize = 16;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, path, count, len, rest @ ..] = &words[..] else { return Err("URL PATH COUNT LEN [single]".into()) };
    let (count, len): (u64, usize) = (count.parse()?, len.parse()?);
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    let options = Options { gateway: std::env::var("LEVADA_GATEWAY").ok(), ..Options::default() };
    let client = Client::with_options(&Url::parse(url)?, "bench", options);
    let reader = client.open(path).await?;
    let mut buffers = vec![vec![0; len]; count as usize];
    let step = reader.len() / count;
    if rest.first().is_some_and(|word| word == "single") {
        for (some, first) in buffers.chunks_mut(SINGLE_COUNT).zip((0..).step_by(SINGLE_COUNT)) {
            let reads = (first..).zip(some).map(|(place, dest)| reader.read_at(place * step, dest));
            futures_util::future::try_join_all(reads).await?;
        }
        println!("{{\"single_s\": {:.3}}}", (clock.monotonic() - begun).as_secs_f64());
        return Ok(());
    }
    read(&reader, step, &mut buffers).await?;
    let cold = clock.monotonic() - begun;
    read(&reader, step, &mut buffers).await?;
    let kept = clock.monotonic() - begun - cold;
    let crc = ChecksumKind::Crc32.of(&buffers.concat());
    println!("{{\"cold_s\": {:.4}, \"kept_s\": {:.4}, \"crc\": {crc}}}", cold.as_secs_f64(), kept.as_secs_f64());
    Ok(())
}

async fn read(reader: &Reader, step: u64, buffers: &mut [Vec<u8>]) -> Outcome<()> {
    let places = (0..).zip(buffers).map(|(place, dest)| RangeRead { offset: place * step, dest });
    Ok(reader.read_ranges(&mut places.collect::<Vec<_>>()).await?)
}
