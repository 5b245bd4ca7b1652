//! Chunks read piece by piece with one cursor, for every kind of codec, from files and from memory, whole and damaged.

#![allow(clippy::unwrap_used)]

use chunkwise_storage::{ArrayIo, ArrayMeta, CodecChoice, Cursor, Elements, Location, MemoryTier, NewArray, Stores, new_meta};
use chunkwise_types::{ArrayAccess, DType, LARGE_CHUNK, Region, STREAM_TABLES, ravel, unravel, volume};
use fastrand::Rng;
use serde_json::json;

const SHAPE: [u64; 3] = [23, 60, 47];
const CHUNK: [u64; 3] = [9, 60, 31];

fn meta(dtype: DType) -> ArrayMeta {
    new_meta(&NewArray::plain(dtype, &SHAPE, &CHUNK, CodecChoice::Default)).unwrap()
}

/// Arrays with other codecs than ours: (name, metadata).
fn arrays() -> Vec<(String, ArrayMeta)> {
    let mut found = Vec::new();
    for dtype in [DType::UInt16, DType::Float64] {
        let size = dtype.size();
        for (cname, shuffle, blocksize) in [
            ("lz4", "shuffle", 0),
            ("lz4", "shuffle", 4096),
            ("lz4", "noshuffle", 1000),
            ("blosclz", "bitshuffle", 8192),
            ("zstd", "shuffle", 2048),
            ("zlib", "noshuffle", 16384),
            ("lz4hc", "bitshuffle", 0),
        ] {
            let mut meta = meta(dtype);
            let configuration = json!({"cname": cname, "clevel": 5, "shuffle": shuffle, "typesize": size, "blocksize": blocksize});
            meta.metadata["codecs"][1] = json!({"name": "blosc", "configuration": configuration});
            found.push((format!("{cname}-{shuffle}-{blocksize}-{size}"), meta));
        }
        let bytes = json!({"name": "bytes", "configuration": {"endian": "little"}});
        for (name, codecs) in [
            ("raw", json!([bytes])),
            ("big", json!([{"name": "bytes", "configuration": {"endian": "big"}}])),
            ("gzip", json!([bytes, {"name": "gzip", "configuration": {"level": 1}}])),
            ("zstd", json!([bytes, {"name": "zstd", "configuration": {"level": 1, "checksum": true}}])),
        ] {
            let mut meta = meta(dtype);
            meta.metadata["codecs"] = codecs;
            found.push((format!("{name}-{size}"), meta));
        }
    }
    found
}

/// Bytes that are compressible, or with `noise` not. The last chunk is left out.
fn write(io: &ArrayIo, rng: &mut Rng, noise: bool) -> Vec<u8> {
    let (grid, size) = (io.meta().grid.clone(), io.meta().dtype.size() as usize);
    let data: Vec<u8> =
        (0..volume(&SHAPE) as usize * size).map(|k| if noise { rng.u64(..256) as u8 } else { (k / 700 % 5) as u8 }).collect();
    let counts = grid.counts();
    let mut stored = data;
    for k in 0..grid.count() {
        let index = unravel(k, &counts);
        let region = grid.region(&index);
        if k + 1 == grid.count() {
            for i in 0..region.volume() {
                let at: Vec<u64> = unravel(i, &region.shape).iter().zip(&region.start).map(|(a, b)| a + b).collect();
                let at = ravel(&at, &SHAPE) as usize * size;
                stored[at..at + size].fill(0);
            }
        } else {
            io.write_chunk(&index, Elements { data: &stored, shape: &SHAPE, start: &region.start }).unwrap();
        }
    }
    stored
}

fn expected(data: &[u8], region: &Region, size: usize) -> Vec<u8> {
    let at = |k: u64| -> usize {
        let index: Vec<u64> = unravel(k, &region.shape).iter().zip(&region.start).map(|(a, b)| a + b).collect();
        ravel(&index, &SHAPE) as usize * size
    };
    (0..region.volume()).flat_map(|k| data[at(k)..at(k) + size].iter().copied()).collect()
}

fn box_of(rng: &mut Rng) -> Region {
    let start: Vec<u64> = SHAPE.iter().map(|&n| rng.u64(..n)).collect();
    let shape: Vec<u64> = SHAPE.iter().zip(&start).map(|(n, s)| rng.u64(..n - s + 1)).collect();
    Region::new(start, shape)
}

#[test]
fn pieces_in_any_order_have_the_elements_of_the_array() {
    let stores = Stores::new();
    let mut rng = Rng::with_seed(5);
    let folder = tempfile::tempdir().unwrap();
    for (name, meta) in arrays() {
        for (place, noise) in [("memory:", false), ("memory:", true), ("file", false), ("file", true)] {
            let url = match place {
                "file" => format!("{}/{name}-{noise}", folder.path().display()),
                _ => format!("memory://pieces/{name}-{noise}"),
            };
            let io = ArrayIo::new(&stores, &Location::parse(&url, None).unwrap(), &meta).unwrap();
            let data = write(&io, &mut rng, noise);
            let size = meta.dtype.size() as usize;
            let mut cursor = Cursor::new(false, rng.bool());
            let mut check = |region: &Region| {
                let mut out = vec![0xA5; region.volume() as usize * size];
                io.read_piece(region, &mut cursor, &mut out).unwrap();
                assert!(out == expected(&data, region, size), "{url}: {region}");
            };
            // In order, in bands whose borders are not those of the blocks.
            let mut start = 0;
            while start < SHAPE[0] * SHAPE[1] {
                let rows = (1 + rng.u64(..7)).min(SHAPE[1] - start % SHAPE[1]);
                check(&Region::new([start / SHAPE[1], start % SHAPE[1], 0], [1, rows, CHUNK[2]]));
                start += rows;
            }
            for _ in 0..25 {
                check(&box_of(&mut rng));
            }
            let whole = Region::full(&SHAPE);
            check(&whole);
            let mut out = vec![0; data.len()];
            io.read_region(&whole, &mut out).unwrap();
            assert!(out == data, "{url}");
        }
    }
}

#[test]
fn a_piece_of_a_large_chunk_reads_little_of_it_and_pieces_in_order_read_it_once() {
    let stores = Stores::new();
    let folder = tempfile::tempdir().unwrap();
    let mut meta = meta(DType::UInt16);
    meta.metadata["codecs"][1]["configuration"]["blocksize"] = json!(2048);
    let io = ArrayIo::new(&stores, &Location::parse(&folder.path().display().to_string(), None).unwrap(), &meta).unwrap();
    write(&io, &mut Rng::with_seed(3), true);
    let stored = io.store().size(&io.chunk_key(&[0, 0, 0])).unwrap().unwrap();
    let row = |start: Vec<u64>| Region::new(start, [1, 1, CHUNK[2]]);
    let mut out = vec![0; CHUNK[2] as usize * 2];
    let read = io.read_piece(&row(vec![4, 30, 0]), &mut Cursor::default(), &mut out).unwrap().bytes_read;
    assert!(read < stored / 4, "{read} of {stored} bytes");
    let mut cursor = Cursor::default();
    let read: u64 = (0..CHUNK[0] * CHUNK[1])
        .map(|k| io.read_piece(&row(vec![k / CHUNK[1], k % CHUNK[1], 0]), &mut cursor, &mut out).unwrap().bytes_read)
        .sum();
    assert!(read <= stored, "{read} of {stored} bytes");
}

/// An array of zstd with checksums, written to a folder.
fn checked(folder: &tempfile::TempDir) -> (ArrayIo, Vec<u8>) {
    let stores = Stores::new();
    let (_, meta) = arrays().into_iter().find(|(name, _)| name == "zstd-8").unwrap();
    assert!(meta.access().in_place());
    let io = ArrayIo::new(&stores, &Location::parse(&folder.path().display().to_string(), None).unwrap(), &meta).unwrap();
    let data = write(&io, &mut Rng::with_seed(4), true);
    (io, data)
}

#[test]
fn a_stream_is_read_once_in_order_and_says_what_is_wrong_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (io, data) = checked(&folder);
    // At the edge of the array, the part of the chunk beyond it is read, too, and the checksum after that.
    for index in [[0, 0, 0], [0, 0, 1], [2, 0, 0]] {
        let chunk = io.meta().grid.region(&index);
        let key = io.chunk_key(&index);
        let stored = io.store().size(&key).unwrap().unwrap();
        let read = |rows: u64| -> Result<u64, String> {
            let mut cursor = Cursor::new(false, true);
            let mut read = 0;
            for row in (0..chunk.shape[0]).step_by(rows as usize) {
                let mut region = chunk.clone();
                (region.start[0], region.shape[0]) = (chunk.start[0] + row, rows.min(chunk.shape[0] - row));
                let mut out = vec![0; region.volume() as usize * 8];
                read += io.read_piece(&region, &mut cursor, &mut out).map_err(|e| e.to_string())?.bytes_read;
                assert!(out == expected(&data, &region, 8), "{region}");
                assert!(!cursor.in_parts());
            }
            Ok(read)
        };
        assert_eq!((read(1), read(2), read(4)), (Ok(stored), Ok(stored), Ok(stored)), "{index:?}");
        let path = folder.path().join(&key);
        let mut damaged = std::fs::read(&path).unwrap();
        *damaged.last_mut().unwrap() ^= 1;
        std::fs::write(&path, damaged).unwrap();
        let error = read(2).unwrap_err();
        assert!(error.contains(&key) && error.contains("checksum"), "{error}");
    }
}

#[test]
fn a_stream_with_a_wider_window_than_its_level_has_is_refused_and_a_whole_chunk_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (io, data) = checked(&folder);
    let (key, chunk) = (io.chunk_key(&[0, 0, 0]), io.meta().grid.region(&[0, 0, 0]));
    let elements = expected(&data, &chunk, 8);
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(25).unwrap();
    std::io::Write::write_all(&mut encoder, &elements).unwrap();
    std::fs::write(folder.path().join(&key), encoder.finish().unwrap()).unwrap();
    let mut out = vec![0; elements.len()];
    let error = io.read_piece(&chunk, &mut Cursor::new(false, true), &mut out).unwrap_err().to_string();
    assert!(error.contains(&key) && error.contains("window"), "{error}");
    io.read_region(&chunk, &mut out).unwrap();
    assert!(out == elements);
}

/// If a damaged header made a reader allocate the memory that it claims, the process would end.
#[test]
fn a_size_that_no_machine_has_is_an_error() {
    let stores = Stores::new();
    // One frame with a size of eight bytes, of one segment.
    let mut claims = vec![0x28, 0xB5, 0x2F, 0xFD, 0xE0];
    claims.extend((1u64 << 46).to_le_bytes());
    claims.extend([1, 0, 0]);
    for endian in ["little", "big"] {
        let folder = tempfile::tempdir().unwrap();
        let mut meta = meta(DType::Float64);
        meta.metadata["codecs"] = json!([{"name": "bytes", "configuration": {"endian": endian}}, {"name": "zstd", "configuration": {"level": 1, "checksum": false}}]);
        let io = ArrayIo::new(&stores, &Location::parse(&folder.path().display().to_string(), None).unwrap(), &meta).unwrap();
        write(&io, &mut Rng::with_seed(4), true);
        let (key, chunk) = (io.chunk_key(&[0, 0, 0]), meta.grid.region(&[0, 0, 0]));
        std::fs::write(folder.path().join(&key), &claims).unwrap();
        let mut out = vec![0; chunk.volume() as usize * 8];
        assert!(io.read_region(&chunk, &mut out).is_err());
        for streamed in [false, true] {
            assert!(io.read_piece(&chunk, &mut Cursor::new(false, streamed), &mut out).is_err());
        }
    }
}

#[test]
fn damaged_chunks_are_errors_and_nothing_worse() {
    let stores = Stores::new();
    let mut rng = Rng::with_seed(17);
    for (name, meta) in arrays() {
        let at = Location::parse(&format!("memory://damaged-pieces/{name}"), None).unwrap();
        let io = ArrayIo::new(&stores, &at, &meta).unwrap();
        write(&io, &mut rng, false);
        let (store, key) = (stores.open(&at).unwrap(), io.chunk_key(&[0, 0, 0]));
        let whole = store.get(&key).unwrap().unwrap();
        let region = Region::new([0; 3], CHUNK);
        let mut out = vec![0; region.volume() as usize * meta.dtype.size() as usize];
        for k in 0..60 {
            let mut data = whole.to_vec();
            for _ in 0..1 + rng.u64(..3) {
                // Usually in the header and the list of blocks.
                let most = if rng.u64(..2) == 0 { data.len().min(80) } else { data.len() };
                let k = rng.usize(..most);
                data[k] = [0, 0xFF, 0x7F, data[k].wrapping_add(1), rng.u8(..)][rng.usize(..5)];
            }
            store.put(&key, data).unwrap();
            // Not every change can be noticed, because chunks have no checksum of their own.
            let _ = io.read_piece(&region, &mut Cursor::new(false, k % 2 == 0), &mut out);
        }
        for len in [0, 1, 15, 16, 20, whole.len() / 2, whole.len() - 1] {
            store.put(&key, &whole[..len.min(whole.len() - 1)]).unwrap();
            for streamed in [false, true] {
                let read = io.read_piece(&region, &mut Cursor::new(false, streamed), &mut out);
                assert!(read.is_err() || name.starts_with("gzip"), "{len} of {} bytes of {name}", whole.len());
            }
        }
    }
}

#[test]
fn a_chunk_that_several_readers_want_parts_of_is_decoded_once_while_there_is_room() {
    let stores = Stores::new();
    let folder = tempfile::tempdir().unwrap();
    for codec in ["gzip", "blosc"] {
        let mut meta = meta(DType::UInt16);
        let decoded = volume(&CHUNK) * 2;
        if codec == "gzip" {
            meta.metadata["codecs"][1] = json!({"name": "gzip", "configuration": {"level": 1}});
        }
        let at = Location::parse(&format!("{}/{codec}", folder.path().display()), None).unwrap();
        let data = write(&ArrayIo::new(&stores, &at, &meta).unwrap(), &mut Rng::with_seed(8), false);
        let rows = |start: u64| Region::new([start, 0, 0], [2, CHUNK[1], CHUNK[2]]);
        let mut out = vec![0; volume(&rows(0).shape) as usize * 2];
        for (budget, again) in [(5 * decoded, false), (2 * decoded, true)] {
            let tier = MemoryTier::new(budget);
            let io = ArrayIo::cached(&stores, &at, &meta, &tier).unwrap();
            let mut read = |start: u64| {
                let stats = io.read_region(&rows(start), &mut out).unwrap();
                assert!(out == expected(&data, &rows(start), 2));
                stats.bytes_read > 0
            };
            assert_eq!((read(0), read(4)), (true, again), "{codec}, {budget} bytes");
            // Tasks and intermediates have precedence.
            assert!(tier.reserve(budget).unwrap());
            assert!(read(6));
            // A refused reservation releases nothing.
            assert!(tier.reserve_spare(budget).is_none() && tier.reserve_spare(1).is_none());
            tier.release(budget);
            let spare = tier.reserve_spare(budget);
            assert!(spare.is_some() && tier.reserve_spare(1).is_none());
            drop(spare);
            assert!(tier.reserve_spare(budget).is_some());
            assert_eq!(tier.spilled(), 0);
        }
        let tier = MemoryTier::new(5 * decoded);
        let io = ArrayIo::cached(&stores, &at, &meta, &tier).unwrap();
        for shared in [false, true, true] {
            let mut out = vec![0; out.len()];
            io.read_piece(&rows(2), &mut Cursor::new(shared, !shared), &mut out).unwrap();
            assert!(out == expected(&data, &rows(2), 2));
        }
        let kept = io.read_region(&rows(5), &mut out).unwrap().bytes_read == 0;
        assert_eq!(kept, codec == "gzip", "the blocks of blosc are decoded apart, so that there is no decoded chunk");
    }
}

#[test]
fn how_arrays_can_be_read_is_told_from_their_metadata() {
    let bytes = CHUNK.iter().product::<u64>() * 8;
    let whole = |in_place| ArrayAccess::Whole { in_place, scratch: 0 };
    for (name, access) in [
        ("raw", ArrayAccess::Raw),
        ("zstd", ArrayAccess::Stream { kept: bytes + STREAM_TABLES }),
        ("gzip", ArrayAccess::Stream { kept: STREAM_TABLES }),
        ("big", whole(false)),
    ] {
        let (_, meta) = arrays().into_iter().find(|(other, _)| *other == format!("{name}-8")).unwrap();
        assert_eq!(meta.access(), access, "{name}");
        for other in [ArrayAccess::Raw, ArrayAccess::Stream { kept: STREAM_TABLES - 1 }, ArrayAccess::Blocks { block: 1 }, whole(true)] {
            assert_eq!(other.covers(access), other == access, "{other} for {name}");
        }
        assert!(whole(false).covers(access));
    }
}

/// Such chunks are held as a whole only in memory that nothing else needs.
#[test]
fn a_large_stream_is_kept_decoded_while_there_is_room_and_decoded_again_else() {
    let stores = Stores::new();
    let folder = tempfile::tempdir().unwrap();
    let n = LARGE_CHUNK + (1 << 20);
    let mut meta = new_meta(&NewArray::plain(DType::UInt8, &[n], &[n], CodecChoice::Default)).unwrap();
    let at = Location::parse(&folder.path().display().to_string(), None).unwrap();
    // Its encoded size is many times the number of bytes that are read at a time.
    let mut rng = Rng::with_seed(6);
    let data: Vec<u8> = (0..n).map(|k| if k % 16 == 0 { rng.u8(..) } else { (k / 1000 % 251) as u8 }).collect();
    for codec in ["zstd", "gzip"] {
        meta.metadata["codecs"][1]["name"] = json!(codec);
        meta.metadata["codecs"][1]["configuration"] =
            if codec == "zstd" { json!({"level": 1, "checksum": true}) } else { json!({"level": 1}) };
        let io = ArrayIo::new(&stores, &at, &meta).unwrap();
        io.write_chunk(&[0], Elements { data: &data, shape: &[n], start: &[0] }).unwrap();
        let stored = io.store().size("c/0").unwrap().unwrap();
        // Decoded chunks may take exactly a quarter of the budget.
        for (budget, again) in [(4 * n, false), (4 * n - 4, true), (n / 2, true)] {
            let io = ArrayIo::cached(&stores, &at, &meta, &MemoryTier::new(budget)).unwrap();
            let read = |start: u64, length: u64| {
                let mut out = vec![0; length as usize];
                let read = io.read_region(&Region::new([start], [length]), &mut out).unwrap().bytes_read;
                assert!(out == data[start as usize..][..length as usize], "{codec}, {start}");
                read
            };
            let beginning = read(1000, 5000);
            assert!(if again { beginning < stored / 4 } else { beginning == stored }, "{codec}, {budget}: {beginning} of {stored}");
            assert_eq!(read(n - 5000, 5000), if again { stored } else { 0 }, "{codec}, {budget}");
            assert_eq!(read(0, n), stored, "a whole chunk is decoded into place");
        }
        // Damage after the elements is noticed when the last of them are wanted. The chunk may also be absent.
        let path = folder.path().join("c/0");
        let mut damaged = std::fs::read(&path).unwrap();
        *damaged.last_mut().unwrap() ^= 1;
        std::fs::write(&path, damaged).unwrap();
        let io = ArrayIo::new(&stores, &at, &meta).unwrap();
        let mut out = vec![0; 10];
        io.read_region(&Region::new([7], [10]), &mut out).unwrap();
        let error = io.read_region(&Region::new([n - 10], [10]), &mut out).unwrap_err().to_string();
        assert!(error.contains("c/0") && error.contains("damaged"), "{error}");
        std::fs::remove_file(&path).unwrap();
        io.read_region(&Region::new([n - 10], [10]), &mut out).unwrap();
        assert_eq!(out, [0; 10]);
    }
}

/// Blocks of more than a megabyte are not decoded one by one.
#[test]
fn chunks_of_large_blocks_are_read_whole_and_in_part() {
    let stores = Stores::new();
    let folder = tempfile::tempdir().unwrap();
    let mut meta = new_meta(&NewArray::plain(DType::Float64, &[4, 500_000], &[1, 400_000], CodecChoice::Default)).unwrap();
    assert!(meta.access().in_place());
    // Only this compressor has blocks of more than a megabyte.
    meta.metadata["codecs"][1]["configuration"]["cname"] = json!("zstd");
    meta.metadata["codecs"][1]["configuration"]["blocksize"] = json!(2 << 20);
    let io = ArrayIo::new(&stores, &Location::parse(&folder.path().display().to_string(), None).unwrap(), &meta).unwrap();
    let data: Vec<u8> = (0..2_000_000u64).flat_map(|k| (((k * 7919) >> 4) as f64).to_ne_bytes()).collect();
    for index in meta.grid.touched(&Region::full(&meta.shape)).indices() {
        io.write_chunk(&index, Elements { data: &data, shape: &meta.shape, start: &meta.grid.region(&index).start }).unwrap();
    }
    let stored = std::fs::read(folder.path().join("c/0/0")).unwrap();
    assert_eq!(stored[8..12], (2u32 << 20).to_le_bytes());
    let mut cursor = Cursor::default();
    for (start, shape) in
        [([1, 0], [1, 400_000]), ([1, 3], [1, 5]), ([0, 0], [4, 400_000]), ([2, 399_990], [2, 30]), ([0, 0], [4, 500_000])]
    {
        let region = Region::new(start, shape);
        let rows = start[0] as usize..(start[0] + shape[0]) as usize;
        let columns = start[1] as usize * 8..(start[1] + shape[1]) as usize * 8;
        let want: Vec<u8> = rows.flat_map(|r| data[r * 4_000_000..][columns.clone()].iter().copied()).collect();
        let mut out = vec![0xA5; want.len()];
        io.read_piece(&region, &mut cursor, &mut out).unwrap();
        assert!(out == want, "{region} piece by piece");
        out.fill(0xA5);
        io.read_region(&region, &mut out).unwrap();
        assert!(out == want, "{region}");
    }
}
