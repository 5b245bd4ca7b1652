//! Wind speed and its anomaly from eleven years of winds, written as a store that xarray opens.
//!
//! ```console
//! $ cargo run --release -p chunkwise --example wind_speed
//! ```

use chunkwise::executor::RunOptions;
use chunkwise::{Error, Expr, Session, report};
use std::path::Path;

fn main() -> Result<(), Error> {
    // Memory that is freed goes back to the system. This concerns the whole program, so the library does not do it.
    chunkwise::limit_allocator();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folder = std::env::args().nth(1).map_or_else(|| examples.join("out"), Into::into);
    let at = |name: &str| folder.join(name).display().to_string();
    let winds = |name: &str| Expr::open(&examples.join("data/winds.zarr").join(name).display().to_string());
    let (u, v) = (winds("uwnd")?, winds("vwnd")?);

    // Nothing is read here: these are expressions.
    let speed = (&u * &u + &v * &v).sqrt();
    let anomaly = &speed - speed.mean(&["time"]);

    // One plan for both outputs, so that the winds are read once where that is possible.
    let session = Session::new(500_000_000, 2, &at("work"))?;
    let requests =
        vec![session.request(&at("rust.zarr/speed"), &speed.array()?)?, session.request(&at("rust.zarr/anomaly"), &anomaly.array()?)?];
    let plan = session.plan(&requests)?;
    print!("{}", report::table(&plan));

    let options = RunOptions { overwrite: true, ..RunOptions::default() };
    let done = session.run(plan, None, &options)?;
    println!("wrote {} in {:.1} s", done.outputs.join(" and "), done.seconds);
    Ok(())
}
