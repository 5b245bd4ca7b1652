//! Recognises files of other formats by their first bytes, if there is no Zarr array at a place, and says how to convert them to Zarr.

use crate::Location;
use std::io::Read;

/// The first bytes of formats, at an offset.
const FORMATS: [(usize, &[u8], &str, &str); 11] = [
    (0, b"CDF\x01", "a NetCDF file (classic)", XARRAY),
    (0, b"CDF\x02", "a NetCDF file (64-bit offset)", XARRAY),
    (0, b"CDF\x05", "a NetCDF file (CDF-5)", XARRAY),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 or NetCDF-4 file", XARRAY),
    (0, b"\x0e\x03\x13\x01", "an HDF4 file", "convert it to NetCDF first, with h4tonccf"),
    (0, b"II*\0", "a TIFF file", RIO),
    (0, b"MM\0*", "a TIFF file", RIO),
    (0, b"II+\0", "a BigTIFF file", RIO),
    (0, b"GRIB", "a GRIB file", "in Python: xarray.open_dataset(PATH, engine=\"cfgrib\").to_zarr(\"new.zarr\")"),
    (0, b"PK\x03\x04", "a zip file", "if it is a Zarr store, unpack it: python -m zipfile -e PATH new.zarr"),
    (0, b"\x93NUMPY", "a NumPy file", "in Python: zarr.save(\"new.zarr\", numpy.load(PATH))"),
];

const XARRAY: &str = "in Python: xarray.open_dataset(PATH).to_zarr(\"new.zarr\")";
const RIO: &str = "in Python, with rioxarray: xarray.open_dataset(PATH, engine=\"rasterio\").to_zarr(\"new.zarr\")";

/// What exists at a place of the filesystem, and how to convert it to Zarr; `None` if nothing exists, or for other stores.
pub(crate) fn recognise(location: &Location) -> Option<String> {
    let path = location.local_path()?;
    let told = |what: &str, how: &str| {
        let how = how.replace("PATH", &format!("\"{}\"", path.display()));
        format!("it is {what}, not a Zarr array; to make it one, {how}")
    };
    let meta = std::fs::metadata(&path).ok()?;
    if meta.is_dir() {
        let mut entries = std::fs::read_dir(&path).ok()?.flatten().map(|e| e.file_name().to_string_lossy().into_owned());
        let first: Vec<String> = entries.by_ref().filter(|n| !n.starts_with('.')).take(3).collect();
        if first.iter().any(|n| n == "c") {
            return Some("it has chunks but no metadata: the run that writes it has not ended, or its zarr.json was removed".into());
        }
        let holds = if first.is_empty() { "nothing".into() } else { first.join(", ") };
        return Some(format!("it is a folder without Zarr metadata (zarr.json or .zarray); it holds {holds}"));
    }
    // Opening a pipe would wait for its other end.
    if !meta.is_file() {
        return Some("it is no file and no folder".into());
    }
    let mut head = Vec::new();
    std::fs::File::open(&path).ok()?.take(16).read_to_end(&mut head).ok()?;
    let found = FORMATS.iter().find(|(at, magic, ..)| head.get(*at..).is_some_and(|h| h.starts_with(magic)));
    Some(match found {
        Some((_, _, what, how)) => told(what, how),
        None => "it is a file, not a Zarr array, which is a folder".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_their_first_bytes() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes, wanted) in [
            ("a.nc", &b"CDF\x01\0\0"[..], "NetCDF"),
            ("b.nc", b"\x89HDF\r\n\x1a\n\0", "HDF5"),
            ("c.tif", b"II*\0\x08", "TIFF"),
            ("d.grib", b"GRIB\0", "cfgrib"),
            ("e.zip", b"PK\x03\x04", "unpack"),
            ("f.txt", b"hello", "is a file"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let found = recognise(&Location::parse(&path.display().to_string(), None).unwrap()).unwrap();
            assert!(found.contains(wanted), "{name}: {found}");
        }
        let at = |p: &std::path::Path| Location::parse(&p.display().to_string(), None).unwrap();
        assert!(recognise(&at(folder.path())).unwrap().contains("a.nc") || recognise(&at(folder.path())).unwrap().contains("folder"));
        assert_eq!(recognise(&at(&folder.path().join("none"))), None);
    }
}
