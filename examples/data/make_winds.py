"""Make `winds.zarr` from the monthly Navy winds (NetCDF 3) that the Debian package `ferret-datasets` installs.

    apt-get install --no-install-recommends ferret-datasets
    python -m pip install numpy scipy "zarr>=3"
    python examples/data/make_winds.py SOURCE.cdf [TARGET.zarr]

where SOURCE.cdf is the package's `monthly_navy_winds.cdf` (`dpkg -L ferret-datasets` tells where it is).
"""

import argparse
import pathlib

import numpy as np
import zarr
from scipy.io import netcdf_file
from zarr.codecs import BloscCodec


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="monthly_navy_winds.cdf")
    parser.add_argument("target", nargs="?", default=str(here / "winds.zarr"))
    parser.add_argument(
        "--keepbits", type=int, default=10, help="round to this many mantissa bits (23 keeps every bit; default: %(default)s)"
    )
    args = parser.parse_args()

    source = netcdf_file(args.source, mmap=False)
    root = zarr.create_group(
        args.target,
        overwrite=True,
        attributes={
            "Conventions": "CF-1.8",
            "title": "Monthly mean surface winds, 1982-1992",
            "institution": "NOAA/PMEL; US Navy Fleet Numerical Oceanography Center",
            "source": "monthly_navy_winds.cdf of the Ferret data sets",
            "license": "public domain",
        },
    )

    # "hour since" in the source; CF (and xarray) want the plural.
    units = text(source.variables["TIME"].units)
    units = units.replace("hour since", "hours since")
    coordinates = {
        "time": ("TIME", {"units": units, "calendar": "standard", "standard_name": "time", "axis": "T"}),
        "lat": ("FNOCY", {"units": "degrees_north", "standard_name": "latitude", "axis": "Y"}),
        "lon": ("FNOCX", {"units": "degrees_east", "standard_name": "longitude", "axis": "X"}),
    }
    for name, (variable, attributes) in coordinates.items():
        values = source.variables[variable].data.astype("<f8")
        array = root.create_array(
            name,
            shape=values.shape,
            chunks=values.shape,
            dtype="float64",
            fill_value=float("nan"),
            dimension_names=[name],
            attributes=attributes,
        )
        array[...] = values

    winds = {
        "uwnd": ("UWND", {"long_name": "zonal wind", "standard_name": "eastward_wind", "units": "m s-1"}),
        "vwnd": ("VWND", {"long_name": "meridional wind", "standard_name": "northward_wind", "units": "m s-1"}),
    }
    for name, (variable, attributes) in winds.items():
        values = source.variables[variable].data.astype("<f4")
        missing = np.float32(source.variables[variable].missing_value)
        values = np.where(values == missing, np.float32("nan"), values)
        if args.keepbits < 23:
            values = bitround(values, args.keepbits)
            attributes = {**attributes, "significant_bits": args.keepbits}
        array = root.create_array(
            name,
            shape=values.shape,
            chunks=(12, 73, 144),
            dtype="float32",
            fill_value=float("nan"),
            compressors=BloscCodec(cname="zstd", clevel=9, shuffle="bitshuffle"),
            dimension_names=["time", "lat", "lon"],
            attributes=attributes,
        )
        array[...] = values

    zarr.consolidate_metadata(args.target)


def bitround(values, keepbits):
    """Round to nearest, ties to even, keeping `keepbits` of the 23 mantissa bits of a float32."""
    drop = 23 - keepbits
    bits = values.view("<u4")
    half = np.uint32((1 << (drop - 1)) - 1)
    rounded = (bits + ((bits >> np.uint32(drop)) & np.uint32(1)) + half) & ~np.uint32((1 << drop) - 1)
    return np.where(np.isnan(values), values, rounded.view("<f4"))


if __name__ == "__main__":
    main()
