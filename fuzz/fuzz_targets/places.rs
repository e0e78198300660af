#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rdmascope_fuzz_targets::places(data));
