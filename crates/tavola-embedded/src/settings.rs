//! What an operator can set of this store: each setting once, with its default, range and meaning.

use std::path::PathBuf;

use tavola_store::settings::{Defaults, Setting, SettingValues};

use crate::{Compression, Options};

/// Every setting of the embedded store.
pub const SETTINGS: &[Setting] = &[
    Setting::new(
        "store.location",
        Some("location"),
        "FOLDER",
        "tavola-data",
        "Data folder of the embedded store",
    ),
    Setting::new(
        "store.cache_mb",
        Some("cache-mb"),
        "MB",
        "64",
        "Cache of the embedded store, half for rows and half for blocks; blocks also use \
         memory that memtables leave free",
    ),
    Setting::new(
        "store.compression",
        Some("compression"),
        "KIND",
        "lz4",
        "Compression of the embedded store: lz4, or zstd, which takes less space and more \
         time to read",
    ),
    Setting::new(
        "store.memtable_kb",
        None,
        "KB",
        "57344",
        "Writes that the embedded store collects in memory before it writes a file; it may \
         use twice as much",
    ),
    Setting::new(
        "store.reserve_mb",
        None,
        "MB",
        "256",
        "Free disk space below which writes are rejected; half of it is reserved for \
         operations that free space",
    ),
    Setting::new(
        "store.allow_future_versions",
        Some("allow-future-versions"),
        "BOOL",
        "false",
        "Serve a data folder whose Timestamps are more than a day ahead of the clock; new \
         ones are later still",
    ),
];

/// A store as an operator describes it.
#[derive(Debug, Clone)]
pub struct Config {
    /// The data folder.
    pub location: PathBuf,
    /// Open it even if its versions are ahead of the clock, which the caller knows:
    /// [`Options::versions_max`].
    pub allow_future_versions: bool,
    /// The rest.
    pub options: Options,
}

impl Config {
    /// Reads and checks the values.
    ///
    /// # Errors
    /// The first value that is wrong.
    pub fn read<V: SettingValues>(values: &V) -> Result<Self, V::Error> {
        Ok(Self {
            location: PathBuf::from(values.text("store.location")),
            allow_future_versions: values.parse("store.allow_future_versions")?,
            options: Options::read(values)?,
        })
    }
}

impl Options {
    /// What an operator chose, and for the rest what suits most.
    fn read<V: SettingValues>(values: &V) -> Result<Self, V::Error> {
        const MIB: usize = 1 << 20;
        let cache_mb: usize = values.parse_in("store.cache_mb", 8, 1 << 20)?;
        let memtable_kb: usize = values.parse_in("store.memtable_kb", 64, 1 << 20)?;
        let reserve_mb: u64 = values.parse_in("store.reserve_mb", 0, 1 << 20)?;
        let kinds = [("lz4", Compression::Lz4), ("zstd", Compression::Zstd)];
        Ok(Self {
            cache_bytes: cache_mb * MIB,
            compression: values.parse_word("store.compression", kinds)?,
            memtable_bytes: memtable_kb << 10,
            reserve_bytes: reserve_mb << 20,
            open_files_max: 256,
            reads_in_place: true,
            scans_max: 32,
            versions_max: None,
            refused_row: None,
            queue_transactions_max: 8192,
            queue_bytes_max: 64 * MIB,
        })
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::read(&Defaults(SETTINGS)).expect("the defaults of settings are legal")
    }
}

#[cfg(test)]
mod tests {
    use tavola_store::settings::Defaults;

    use super::{Config, SETTINGS};
    use crate::{Compression, Options};

    #[test]
    fn defaults_are_those_of_the_settings() {
        let options = Options::default();
        assert_eq!((options.cache_bytes, options.memtable_bytes), (64 << 20, 56 << 20));
        assert_eq!((options.reserve_bytes, options.compression), (256 << 20, Compression::Lz4));
        let config = Config::read(&Defaults(SETTINGS)).unwrap();
        assert_eq!(config.location.to_str(), Some("tavola-data"));
        assert!(!config.allow_future_versions);
    }
}
