//! How long positioned reads take: `cargo run --release -p client --example read_latency -- hdfs://HOST:PORT /FILE
//! SECONDS`, as the user that `$USER` names, or as `reader`.
//!
//! One reader, 64 KiB at places by chance, one after the other. Prints one line of JSON: how many, and the times in ms.

use io::Clock;
use std::time::Duration;
use types::Random;

const LEN: usize = 64 << 10;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, path, seconds] = words.as_slice() else { return Err("give the store, a file and seconds".into()) };
    let user = std::env::var("USER").unwrap_or_else(|_| "reader".into());
    let client = client::Client::connect(&client::Url::parse(url)?, &user);
    let reader = client.open(path).await?;
    let places = (reader.len() as usize).checked_sub(LEN).ok_or("the file is shorter than one read")?;
    let (clock, mut random) = (io::SystemClock::new(), io::OsRandom::new());
    let until = clock.monotonic() + Duration::from_secs(seconds.parse()?);
    let (mut buffer, mut times) = (vec![0; LEN], Vec::new());
    while clock.monotonic() < until {
        let begun = clock.monotonic();
        let got = reader.read_at(random.below(places + 1) as u64, &mut buffer).await?;
        assert_eq!(got, LEN, "the read was short");
        times.push(clock.monotonic().saturating_sub(begun));
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let [p50, p90, p99, max] = [0.5, 0.9, 0.99, 1.0].map(at);
    println!(
        r#"{{"reads": {}, "p50_ms": {p50:.3}, "p90_ms": {p90:.3}, "p99_ms": {p99:.3}, "max_ms": {max:.3}}}"#,
        times.len()
    );
    Ok(())
}
