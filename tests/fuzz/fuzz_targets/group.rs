#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| chunkwise_fuzz::group(data));
