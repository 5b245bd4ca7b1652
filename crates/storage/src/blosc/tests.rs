//! Buffers of C-Blosc, decoded here.

use super::{Frame, decode_into};
use fastrand::Rng;
use std::ffi::CStr;

const COMPRESSORS: [&CStr; 6] = [c"blosclz", c"lz4", c"lz4hc", c"snappy", c"zlib", c"zstd"];

fn encoded(data: &[u8], compressor: &CStr, (level, shuffle): (i32, i32), item: usize, block: usize) -> Vec<u8> {
    let mut out = vec![0u8; data.len() + 1000];
    // SAFETY: both slices are live and have the lengths that are passed; the name ends with a zero.
    let n = unsafe {
        let (from, to) = (data.as_ptr().cast(), out.as_mut_ptr().cast());
        blosc_src::blosc_compress_ctx(level, shuffle, item, data.len(), from, to, out.len(), compressor.as_ptr(), block, 1)
    };
    out.truncate(usize::try_from(n).unwrap());
    out
}

/// Data of several kinds: some does not shrink, some has long runs, some repeats what was before.
fn data(random: &mut Rng, n: usize, item: usize) -> Vec<u8> {
    let kind = random.u8(0..5);
    let period = random.usize(1..400);
    let mut out: Vec<u8> = Vec::with_capacity(n);
    for i in 0..n {
        out.push(match kind {
            0 => random.u8(..),
            1 => 7,
            2 => {
                if i % item == 0 {
                    random.u8(..)
                } else {
                    (i / (item * 50)) as u8
                }
            }
            3 if i >= period && random.u8(..) > 2 => out[i - period],
            3 => random.u8(..),
            _ => (i / item) as u8,
        });
    }
    out
}

fn drawn(random: &mut Rng) -> (Vec<u8>, Vec<u8>, String) {
    let item = [1, 2, 3, 4, 8, 12, 16, 17, 32, 255][random.usize(..10)];
    let most = [20, 300, 5_000, 100_000, 600_000][random.usize(..5)];
    let n = random.usize(0..most);
    let data = data(random, n, item);
    let compressor = COMPRESSORS[random.usize(..6)];
    let how = (random.i32(0..10), random.i32(0..3));
    let block = [0, 0, 200, 4_096, 10_000, 65_536][random.usize(..6)];
    let buffer = encoded(&data, compressor, how, item, block);
    (data, buffer, format!("{n} bytes, {compressor:?}, level and shuffle {how:?}, elements of {item}, blocks of {block}"))
}

#[test]
fn buffers_of_the_library_are_decoded() {
    let mut random = Rng::with_seed(11);
    for _ in 0..1500 {
        let (data, buffer, what) = drawn(&mut random);
        let mut out = vec![1; data.len()];
        decode_into(&buffer, &mut out).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(out == data, "{what}");
    }
}

#[test]
fn blocks_are_decoded_alone() {
    let mut random = Rng::with_seed(12);
    let mut blocks = 0;
    for _ in 0..600 {
        let (data, buffer, what) = drawn(&mut random);
        let read = |at: u64, out: &mut [u8]| -> Result<(), String> {
            out.copy_from_slice(&buffer[at as usize..][..out.len()]);
            Ok(())
        };
        let Ok(Some(frame)) = Frame::open(buffer.len() as u64, data.len(), false, read) else {
            assert!(data.is_empty(), "{what}");
            continue;
        };
        if frame.plain().is_some() {
            continue;
        }
        let mut scratch = Vec::new();
        for _ in 0..5 {
            let block = frame.block(random.usize(..data.len()));
            let mut out = vec![1; block.len()];
            frame.decode(&block, &mut out, &mut scratch, read).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(out == data[block], "{what}");
            blocks += 1;
        }
    }
    assert!(blocks > 1000);
}

/// What is damaged gives an error or other elements, and never a panic.
#[test]
fn damaged_buffers_are_no_panic() {
    let mut random = Rng::with_seed(13);
    for _ in 0..1500 {
        let (data, mut buffer, _) = drawn(&mut random);
        let mut out = vec![0; data.len()];
        for _ in 0..4 {
            let head = random.bool() && buffer.len() > 16;
            let at = random.usize(..if head { buffer.len().min(60) } else { buffer.len() });
            buffer[at] = random.u8(..);
            let _ = decode_into(&buffer, &mut out);
            let read = |at: u64, out: &mut [u8]| -> Result<(), String> {
                out.copy_from_slice(&buffer[at as usize..][..out.len()]);
                Ok(())
            };
            let frame = Frame::open(buffer.len() as u64, data.len(), false, read);
            if let Ok(Some(frame)) = frame.map(|f| f.filter(|f| f.plain().is_none())) {
                let block = frame.block(random.usize(..data.len()));
                let _ = frame.decode(&block, &mut out[..block.len()], &mut Vec::new(), read);
            }
        }
        let cut = random.usize(..buffer.len());
        assert!(decode_into(&buffer[..cut], &mut out).is_err());
    }
}
