//! Functions of NumPy and xarray that are not here by that name, and how the same is written.

/// What to write instead of a function that other libraries have.
pub fn instead(name: &str) -> Option<&'static str> {
    Some(match name {
        "groupby" => "write groupby_mean(x, \"time.month\"), or another of the functions groupby_*",
        "rolling" => "write moving_mean(x, time=5), or moving_sum, moving_min or moving_max",
        "resample" => "write resample_mean(x, time=\"1M\"), or another of the functions resample_*",
        "coarsen" => "write moving_mean(x, time=3), and take every third element of it",
        "fillna" | "nan_to_num" => "write where(isnan(x), 0, x)",
        "notnull" | "notna" => "write ~isnan(x)",
        "isnull" | "isna" => "write isnan(x)",
        "deg2rad" | "radians" => "write x * pi / 180",
        "rad2deg" | "degrees" => "write x * 180 / pi",
        "median" | "nanmedian" | "percentile" | "nanpercentile" | "quantile" | "nanquantile" => {
            "medians and other quantiles are not available: they need all values of a dimension in order"
        }
        "sort" | "argsort" | "sortby" | "unique" => "sorting is not available",
        "nancumsum" => "write cumulative_sum(x, axis=0, skipna=True)",
        "nancumprod" => "write cumulative_prod(x, axis=0, skipna=True)",
        "interpolate_na" => "write ffill(x, \"time\"), or bfill",
        "swapaxes" | "moveaxis" => "write permute_dims(x, [1, 0])",
        "append" | "hstack" | "vstack" => "write concat([x, y], axis=0)",
        "fmod" => "write x % y",
        "fabs" => "write abs(x)",
        "average" => "write sum(x * w) / sum(w)",
        "dot" => "write x @ y",
        "rename" | "drop_vars" | "assign_coords" | "to_dataset" => {
            "name the dimensions of an output with `dims:`, and its array by its place"
        }
        "load" | "compute" | "persist" | "values" => "expressions are computed when the pipeline runs: leave it out",
        "int" | "float" | "double" | "float32" | "float64" | "int32" | "int64" => "write astype(x, \"float32\")",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_function_is_said_to_be_missing() {
        for operation in crate::table::table() {
            for name in operation.aliases.iter().chain([&operation.name]) {
                assert!(super::instead(name).is_none(), "{name}");
            }
        }
    }
}
