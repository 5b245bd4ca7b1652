//! The force of the wind on the scale of Beaufort, from its two components.

use chunkwise::kernels::{Block, BlockElement, FunctionError, Invocation};
use chunkwise::ops::call::Named;
use chunkwise::{DType, Expr};

pub const NAME: &str = "beaufort";
/// Changes with the results: a worker with another version refuses the plan.
pub const VERSION: &str = "1";

/// The least speeds of the forces 1 to 12, in m/s (World Meteorological Organization, Manual on Codes, table 1).
const LEAST: [f32; 12] = [0.3, 1.6, 3.4, 5.5, 8.0, 10.8, 13.9, 17.2, 20.8, 24.5, 28.5, 32.7];

/// Forces from 0 to 12, as `uint8`, of winds whose components are `float32` in m/s. It is called for each block.
pub fn beaufort(_: &Invocation<'_>, inputs: &[Block]) -> Result<Vec<Block>, FunctionError> {
    let [u, v] = inputs else { return Err("it takes two arrays".into()) };
    let (Some(u), Some(v)) = (f32::unwrap(u), f32::unwrap(v)) else { return Err("it takes arrays of float32".into()) };
    if u.shape() != v.shape() {
        return Err(format!("blocks of the shapes {:?} and {:?}", u.shape(), v.shape()).into());
    }
    let mut out = u.mapv(|_| 0u8);
    for ((force, u), v) in out.iter_mut().zip(u).zip(v) {
        let speed = u.hypot(*v);
        *force = LEAST.iter().filter(|least| speed >= **least).count() as u8;
    }
    Ok(vec![u8::wrap(out.into_shared())])
}

/// The forces of a wind: `uint8`, with the shape and the chunks of its components. Beside its blocks the function uses no memory.
pub fn forces(u: &Expr, v: &Expr) -> Expr {
    u.map_blocks(&Named::new(NAME, VERSION, 0), &[v], DType::UInt8)
}
