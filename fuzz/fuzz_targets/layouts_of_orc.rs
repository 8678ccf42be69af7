#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::run("layouts_of_orc", bytes));
