//! The table of prices and rates: built in, and overridden by a file of the user.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const BUILT_IN: &str = include_str!("prices.toml");

/// Prices by region, and how fast a function is taken to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Where the prices of each service are from, and of when they are.
    pub sources: BTreeMap<String, String>,
    /// How long things take.
    pub rates: Rates,
    /// Prices by the name of the region.
    pub regions: BTreeMap<String, Region>,
}

/// What things cost in a region, in USD.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// A GB-second (of 1024 MiB) of a function on x86_64.
    pub lambda_gb_second_x86_64: f64,
    /// The same on arm64.
    pub lambda_gb_second_arm64: f64,
    /// A million invocations.
    pub lambda_million_requests: f64,
    /// A thousand PUT, POST, COPY or LIST requests.
    pub s3_thousand_puts: f64,
    /// A thousand GET or HEAD requests.
    pub s3_thousand_gets: f64,
    /// 1024^3 bytes for a month.
    pub s3_gb_month: f64,
    /// A thousand transitions of a standard workflow.
    pub step_functions_thousand_transitions: f64,
}

/// How fast a function is taken to be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Bytes a second between a function and storage.
    pub network_bytes: f64,
    /// Bytes a second that one processor decodes.
    pub decode_bytes: f64,
    /// Bytes a second that one processor encodes.
    pub encode_bytes: f64,
    /// Bytes a second that one processor passes through one step of a program.
    pub work_bytes: f64,
    /// Operations a second of one processor in matrix products.
    pub flops: f64,
    /// Seconds until storage answers a request.
    pub request_seconds: f64,
    /// Requests of one task that are under way at once.
    pub requests_at_once: f64,
    /// Seconds of an invocation beside its tasks.
    pub invocation_seconds: f64,
    /// Seconds that the tasks of one invocation take together, where there are tasks enough.
    pub batch_seconds: f64,
}

/// A table of prices that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// The file is not of this form.
    #[error("the prices in '{name}' cannot be read: {problem}")]
    Parse {
        /// The file.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// There is no such region.
    #[error("there are no prices of region '{region}', but of {known}; write a file with [regions.{region}] and give it by --prices")]
    Region {
        /// What was asked for.
        region: String,
        /// What there is.
        known: String,
    },
}

fn merge(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(b)), toml::Value::Table(o)) => merge(b, o),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

impl Prices {
    /// The prices that the program comes with.
    ///
    /// # Errors
    /// Never, as a test makes sure.
    pub fn built_in() -> Result<Prices, PriceError> {
        Prices::overridden("", "nothing")
    }

    /// The prices that the program comes with, overridden by a text in TOML of the same form, of which any part may be left out.
    /// `name` is that of the file.
    ///
    /// ```
    /// use chunkwise_report::cost::Prices;
    /// let mine = Prices::overridden("[regions.eu-west-1]\ns3_gb_month = 0.02", "mine.toml")?;
    /// assert_eq!(mine.region("eu-west-1")?.s3_gb_month, 0.02);
    /// assert_eq!(mine.region("eu-west-1")?.s3_thousand_gets, 0.0004);
    /// assert!(mine.region("mars-1").is_err());
    /// # Ok::<(), chunkwise_report::cost::PriceError>(())
    /// ```
    ///
    /// # Errors
    /// When it is not TOML, has an unknown or misses a needed name, or a number that is no price.
    pub fn overridden(text: &str, name: &str) -> Result<Prices, PriceError> {
        let bad = |problem: String| PriceError::Parse { name: name.into(), problem };
        let mut table: toml::Table = BUILT_IN.parse().map_err(|e: toml::de::Error| bad(e.to_string()))?;
        merge(&mut table, text.parse().map_err(|e: toml::de::Error| bad(e.to_string()))?);
        let numbers = ["rates", "regions"].into_iter().filter_map(|k| table.get(k));
        numbers.map(check).collect::<Result<Vec<()>, String>>().map_err(bad)?;
        table.try_into().map_err(|e: toml::de::Error| bad(e.to_string()))
    }

    /// The prices of a region.
    ///
    /// # Errors
    /// When there are none.
    pub fn region(&self, name: &str) -> Result<&Region, PriceError> {
        self.regions.get(name).ok_or_else(|| PriceError::Region {
            region: name.into(),
            known: self.regions.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
        })
    }
}

/// Every number is one that can be multiplied with; a rate of zero would make everything last for ever.
fn check(value: &toml::Value) -> Result<(), String> {
    match value {
        toml::Value::Table(t) => t.iter().try_for_each(|(k, v)| {
            let number = v.as_float().or_else(|| v.as_integer().map(|n| n as f64));
            let price = ["lambda_", "s3_", "step_"].iter().any(|p| k.starts_with(p));
            match number {
                Some(n) if !n.is_finite() || n < 0.0 || (n == 0.0 && !price) => Err(format!("{k} = {n} is not possible")),
                _ => check(v),
            }
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_is_whole() {
        let prices = Prices::built_in().unwrap();
        assert!(prices.regions.len() >= 10);
        for (name, r) in &prices.regions {
            // Wrong by a power of ten would be seen here.
            assert!((1e-5..3e-5).contains(&r.lambda_gb_second_x86_64), "{name}");
            assert!(r.lambda_gb_second_arm64 < r.lambda_gb_second_x86_64, "{name}");
            assert!((10.0..15.0).contains(&(r.s3_thousand_puts / r.s3_thousand_gets)), "{name}");
            assert!((0.02..0.05).contains(&r.s3_gb_month) && (0.02..0.04).contains(&r.step_functions_thousand_transitions), "{name}");
        }
    }

    #[test]
    fn a_file_overrides_what_it_names() {
        let text = "[rates]\nnetwork_bytes = 1e8\n[sources]\ns3 = 'my contract'";
        let prices = Prices::overridden(text, "x").unwrap();
        assert_eq!(prices.rates.network_bytes, 1e8);
        assert_eq!(prices.sources["s3"], "my contract");
        assert_eq!(prices.regions, Prices::built_in().unwrap().regions);
        // Whole numbers are numbers, too, and what is free costs nothing.
        let free = Prices::overridden("[regions.us-east-1]\nlambda_million_requests = 0", "x").unwrap();
        assert_eq!(free.region("us-east-1").unwrap().lambda_million_requests, 0.0);
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for text in [
            "regions = 3",
            "[regions.us-east-1]\ns3_gb_month = -1",
            "[regions.us-east-1]\ns3_gb_month = nan",
            "[regions.us-east-1]\ns3_gb_month = 'much'",
            "[regions.us-east-1]\ns3_gb_mnth = 1",
            "[regions.mars-1]\ns3_gb_month = 1",
            "[rates]\nflops = 0",
            "{",
        ] {
            let e = Prices::overridden(text, "mine.toml").unwrap_err().to_string();
            assert!(e.contains("'mine.toml'"), "{text}: {e}");
        }
    }
}
