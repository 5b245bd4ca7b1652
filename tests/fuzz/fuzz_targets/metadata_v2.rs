#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| chunkwise_fuzz::metadata_v2(data));
