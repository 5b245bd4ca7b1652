//! From a store that may be larger than memory to a small ndarray.
//!
//! ```console
//! $ cargo run --release -p chunkwise --example to_ndarray
//! ```

use chunkwise::{Error, Expr, Session};

fn main() -> Result<(), Error> {
    let winds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/winds.zarr");
    let u = Expr::open(&format!("{winds}/uwnd"))?;
    let v = Expr::open(&format!("{winds}/vwnd"))?;
    let work = std::env::temp_dir().join("chunkwise-example");
    let session = Session::new(500_000_000, 2, &work.display().to_string())?;

    // The share of months in which the wind blows from the west and faster than 5 m/s, by latitude.
    let fast = (&u * &u + &v * &v).sqrt().greater(5.0);
    let west = u.greater(0.0);
    let share = (fast & west).astype(chunkwise::DType::Float64).mean(&["time", "lon"]);
    let share = share.compute::<f64>(&session)?;

    let latitude = Expr::open(&format!("{winds}/lat"))?.compute::<f64>(&session)?;
    for (lat, s) in latitude.iter().zip(&share).step_by(6) {
        println!("{lat:6.1}  {:5.1} %  {}", s * 100.0, "#".repeat((s * 60.0) as usize));
    }
    Ok(())
}
