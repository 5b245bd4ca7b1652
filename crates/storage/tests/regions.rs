//! Arrays written chunk by chunk and read region by region, on many shapes, grids and codecs, in a filesystem and in memory.

#![allow(clippy::unwrap_used)]

use chunkwise_storage::{ArrayIo, ArrayMeta, CodecChoice, Elements, Location, NewArray, Stores, new_meta, open_array, publish_array};
use chunkwise_types::{DType, Region, Scalar, ravel, unravel, volume};
use fastrand::Rng;

fn value(index: &[u64], shape: &[u64]) -> u16 {
    (ravel(index, shape) * 7919 % 65521) as u16
}

/// The elements of a region that starts at `start` inside a larger buffer of garbage.
fn buffer(rng: &mut Rng, region: &Region, shape: &[u64]) -> (Vec<u8>, Vec<u64>, Vec<u64>) {
    let start: Vec<u64> = region.shape.iter().map(|_| rng.u64(..3)).collect();
    let whole: Vec<u64> = region.shape.iter().zip(&start).map(|(n, s)| n + s + rng.u64(..2)).collect();
    let mut data = vec![0xEEu8; volume(&whole) as usize * 2];
    for k in 0..region.volume() {
        let local = unravel(k, &region.shape);
        let index: Vec<u64> = local.iter().zip(&region.start).map(|(a, b)| a + b).collect();
        let at: Vec<u64> = local.iter().zip(&start).map(|(a, b)| a + b).collect();
        let place = ravel(&at, &whole) as usize * 2;
        data[place..place + 2].copy_from_slice(&value(&index, shape).to_ne_bytes());
    }
    (data, whole, start)
}

fn check(io: &ArrayIo, region: &Region, missing: &[Vec<u64>]) {
    let shape = io.meta().shape.clone();
    let mut out = vec![0xAAu8; region.volume() as usize * 2];
    io.read_region(region, &mut out).unwrap();
    for k in 0..region.volume() {
        let index: Vec<u64> = unravel(k, &region.shape).iter().zip(&region.start).map(|(a, b)| a + b).collect();
        let chunk: Vec<u64> = index.iter().zip(&io.meta().grid.0).map(|(&i, a)| a.find(i)).collect();
        let want = if missing.contains(&chunk) { 7 } else { value(&index, &shape) };
        let got = u16::from_ne_bytes([out[k as usize * 2], out[k as usize * 2 + 1]]);
        assert_eq!(got, want, "{index:?} of {shape:?}, read as {region}");
    }
}

fn new(rng: &mut Rng, rank: u64) -> (NewArray, ArrayMeta) {
    let shape: Vec<u64> = (0..rank).map(|_| 1 + rng.u64(..14)).collect();
    let chunks: Vec<u64> = shape.iter().map(|&n| 1 + rng.u64(..n + 2)).collect();
    let shards = (rng.u64(..2) == 0).then(|| chunks.iter().map(|c| c * (1 + rng.u64(..3))).collect());
    let codec = [CodecChoice::Default, CodecChoice::None, CodecChoice::Zstd { level: 1 }, CodecChoice::Gzip { level: 1 }];
    let array = NewArray {
        dtype: DType::UInt16,
        shape,
        chunks,
        shards,
        codec: codec[rng.u64(..4) as usize],
        fill_value: Scalar::Int(7),
        dimension_names: None,
        attributes: serde_json::Map::new(),
    };
    let meta = new_meta(&array).unwrap();
    (array, meta)
}

#[test]
fn what_was_written_is_read_whatever_the_region() {
    let stores = Stores::new();
    let folder = std::env::temp_dir().join(format!("chunkwise-regions-{}", std::process::id()));
    let mut rng = Rng::with_seed(0x9E37_79B9_7F4A_7C15);
    for case in 0..300u64 {
        let root = if case % 2 == 0 { "memory://".to_string() } else { format!("{}/", folder.display()) };
        let at = Location::parse(&format!("{root}regions/{case}"), None).unwrap();
        let (array, meta) = new(&mut rng, case % 5);
        let io = ArrayIo::new(&stores, &at, &meta).unwrap();
        let counts = meta.grid.counts();
        let mut missing = Vec::new();
        for k in 0..volume(&counts) {
            let index = unravel(k, &counts);
            if rng.u64(..6) == 0 {
                missing.push(index);
                continue;
            }
            let (data, whole, start) = buffer(&mut rng, &meta.grid.region(&index), &array.shape);
            let done = io.write_chunk(&index, Elements { data: &data, shape: &whole, start: &start }).unwrap();
            assert_eq!(io.verify_chunk(&index).unwrap(), Some((done.bytes, done.xxh3)), "{array:?}");
        }
        publish_array(&stores, &at, &meta).unwrap();
        let io = ArrayIo::new(&stores, &at, &open_array(&stores, &at).unwrap()).unwrap();
        assert_eq!(io.stored_chunks().unwrap().len() as u64, volume(&counts) - missing.len() as u64);
        check(&io, &Region::full(&array.shape), &missing);
        for _ in 0..6 {
            let start: Vec<u64> = array.shape.iter().map(|&n| rng.u64(..n)).collect();
            let shape: Vec<u64> = array.shape.iter().zip(&start).map(|(n, s)| rng.u64(..n - s + 1)).collect();
            check(&io, &Region::new(start, shape), &missing);
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// A shard with so many chunks that its index is read in parts, and a raw chunk with such long rows that they are read one by one.
#[test]
fn large_indices_and_long_rows() {
    let stores = Stores::new();
    let folder = std::env::temp_dir().join(format!("chunkwise-large-{}", std::process::id()));
    for (name, shape, chunks, shards, codec) in [
        ("index", [64, 64], [1, 2], Some(vec![64, 64]), CodecChoice::Default),
        ("rows", [5, 300_000], [5, 300_000], None, CodecChoice::None),
    ] {
        let at = Location::parse(&folder.join(name).display().to_string(), None).unwrap();
        let meta = new_meta(&NewArray {
            dtype: DType::UInt16,
            shape: shape.to_vec(),
            chunks: chunks.to_vec(),
            shards,
            codec,
            fill_value: Scalar::Int(7),
            dimension_names: None,
            attributes: serde_json::Map::new(),
        })
        .unwrap();
        let io = ArrayIo::new(&stores, &at, &meta).unwrap();
        let data: Vec<u8> = (0..volume(&shape)).flat_map(|k| value(&unravel(k, &shape), &shape).to_ne_bytes()).collect();
        io.write_chunk(&[0, 0], Elements::whole(&data, &shape)).unwrap();
        let region = |start: [u64; 2], shape: [u64; 2]| Region::new(start, shape);
        for r in [region([3, 5], [1, 9]), region([0, 0], [2, 64]), region([4, 1], [1, 33]), region([1, 0], [3, 40])] {
            check(&io, &r, &[]);
        }
        if name == "rows" {
            let mut out = vec![0; 4 * 250_000 * 2];
            let stats = io.read_region(&region([1, 20_000], [4, 250_000]), &mut out).unwrap();
            assert!(stats.bytes_read < 4 * 300_000 * 2, "only the rows' parts are read, not {} bytes", stats.bytes_read);
            check(&io, &region([1, 20_000], [4, 250_000]), &[]);
        } else {
            let stats = io.read_region(&region([3, 4], [1, 2]), &mut [0; 4]).unwrap();
            assert!(stats.bytes_read < 200, "one chunk and its entry, not {} bytes", stats.bytes_read);
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn damage_is_found() {
    let stores = Stores::new();
    let mut rng = Rng::with_seed(11);
    for case in 0..40 {
        let at = Location::parse(&format!("memory://damage/{case}"), None).unwrap();
        let (array, meta) = new(&mut rng, 2);
        let io = ArrayIo::new(&stores, &at, &meta).unwrap();
        let (data, whole, start) = buffer(&mut rng, &meta.grid.region(&[0, 0]), &array.shape);
        io.write_chunk(&[0, 0], Elements { data: &data, shape: &whole, start: &start }).unwrap();
        let store = stores.open(&at).unwrap();
        let key = io.chunk_key(&[0, 0]);
        let whole = store.get(&key).unwrap().unwrap();
        for len in [0, 1, whole.len() / 2, whole.len() - 1] {
            store.put(&key, &whole[..len]).unwrap();
            let region = meta.grid.region(&[0, 0]);
            let mut out = vec![0; region.volume() as usize * 2];
            // The last bytes of a gzip stream are its own checksum, which a reader does not need in order to have all elements.
            let read = io.read_region(&region, &mut out);
            assert!(read.is_err(), "{len} of {} bytes of {array:?}", whole.len());
        }
    }
}
