//! `cargo xtask rocksdb`: RocksDB's C++ compiled once, for every profile and every clone on this
//! machine.
//!
//! Left to its crate, the library takes over a quarter of an hour on two cores, for each profile
//! anew. Here the crate's own sources become a few dozen large units, with the defines of its build
//! script, and the result stays in the cache folder under a name made of version, flags and
//! compiler. `.cargo/local.toml` then points every cargo call at it. The values in that file must
//! not change between calls: cargo would build all dependents again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::args::Args;
use crate::failure::{Context, Failure, Result};
use crate::progress::{self, Counter};
use crate::unity::{self, Unit};
use crate::{cache, install, shell, workspace};

pub(crate) const HELP: &str = "\
cargo xtask rocksdb

Compiles RocksDB once into the cache folder and writes .cargo/local.toml, which makes every cargo
call link it. Does nothing when that is done already. An interrupted build goes on where it stopped.

  TAVOLA_CACHE  the cache folder; default $XDG_CACHE_HOME/tavola, else ~/.cache/tavola
  CXX           the compiler; default g++";

/// As the crate's build script sets them for Linux with the features `lz4` and `zstd` alone.
const FLAGS: [&str; 20] = [
    "-O2",
    "-DNDEBUG=1",
    "-std=c++20",
    "-include",
    "cstdint",
    "-fPIC",
    "-ffunction-sections",
    "-fdata-sections",
    "-w",
    "-DLZ4=1",
    "-DZSTD=1",
    "-DHAVE_ALIGNED_NEW",
    "-DHAVE_UINT128_EXTENSION",
    "-DOS_LINUX",
    "-DROCKSDB_PLATFORM_POSIX",
    "-DROCKSDB_LIB_IO_POSIX",
    "-DROCKSDB_SCHED_GETCPU_PRESENT",
    "-DROCKSDB_AUXV_GETAUXVAL_PRESENT",
    "-DROCKSDB_FALLOCATE_PRESENT",
    "-DROCKSDB_RANGESYNC_PRESENT",
];

/// Without these the checksum of every block and log record is computed byte by byte.
const PROCESSOR_FLAGS: &[&str] = if cfg!(target_arch = "x86_64") {
    &["-msse4.2", "-mpclmul"]
} else if cfg!(target_arch = "aarch64") {
    &["-march=armv8-a+crc+crypto"]
} else {
    &[]
};

pub(crate) fn command(args: Args) -> Result {
    args.finish()?;
    ensure()
}

/// Makes sure that the library is built and that cargo knows where it is.
pub(crate) fn ensure() -> Result {
    if !cfg!(target_os = "linux") {
        println!("RocksDB is prepared on Linux only; here its crate compiles it, once per profile");
        return Ok(());
    }
    install_compilers()?;
    let build = Build::new()?;
    if !build.library().is_file() {
        build.run()?;
    }
    point_cargo_at(&build.folder)
}

fn install_compilers() -> Result {
    install::ensure(&["g++"], "compiling RocksDB", || shell::has_program(&compiler()))?;
    install::ensure(&["binutils"], "archiving RocksDB", || shell::has_program("ar"))?;
    install::ensure(&["libclang-dev"], "generating the bindings of RocksDB", has_libclang)
}

fn compiler() -> String {
    std::env::var("CXX").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "g++".into())
}

/// Looks where bindgen looks.
fn has_libclang() -> bool {
    if std::env::var_os("LIBCLANG_PATH").is_some() {
        return true;
    }
    let llvm = fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("lib"));
    let system = [
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
    ];
    llvm.chain(system.iter().map(PathBuf::from)).any(|folder| holds_libclang(&folder))
}

fn holds_libclang(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| is_libclang(&entry.file_name().to_string_lossy()))
}

/// The library with the C interface. Its C++ sister, which other packages bring along, has a name
/// much like it.
fn is_libclang(file: &str) -> bool {
    let versioned = file.starts_with("libclang-") && file.contains(".so");
    file.starts_with("libclang.so") || (versioned && !file.starts_with("libclang-cpp"))
}

struct Build {
    version: String,
    /// Where the library lies once it is complete.
    folder: PathBuf,
    includes: Vec<PathBuf>,
    units: Vec<Unit>,
}

impl Build {
    fn new() -> Result<Self> {
        let metadata = workspace::metadata(&[])?;
        let (sys, version) = workspace::package(&metadata, "librocksdb-sys")?;
        let (lz4, _) = workspace::package(&metadata, "lz4-sys")?;
        let (zstd, _) = workspace::package(&metadata, "zstd-sys")?;
        let includes = ["rocksdb/include", "rocksdb", "rocksdb/third-party/gtest-1.8.1/fused-src"];
        let mut includes: Vec<_> = includes.iter().map(|folder| sys.join(folder)).collect();
        includes.extend([lz4.join("liblz4/lib"), zstd.join("zstd/lib"), sys.clone()]);
        let units = unity::plan(&sources(&sys)?);
        let key = key(&version, &units)?;
        Ok(Self { version, folder: cache::root()?.join("rocksdb").join(key), includes, units })
    }

    fn library(&self) -> PathBuf {
        self.folder.join("librocksdb.a")
    }

    /// A name beside the final folder. `Path::with_extension` would cut the key at a dot of the
    /// version.
    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.folder.clone().into_os_string();
        name.push(".");
        name.push(suffix);
        name.into()
    }

    /// Compiles beside the final folder and renames at the end: a library that exists is complete.
    fn run(&self) -> Result {
        let work = self.beside("partial");
        cache::create(&work)?;
        let _lock = cache::lock(&self.beside("lock"), "Another process is compiling RocksDB")?;
        if self.library().is_file() {
            return Ok(());
        }
        let cores = thread::available_parallelism().map_or(1, usize::from);
        println!(
            "Compiling RocksDB {} on {cores} cores, once for this machine, into {}",
            self.version,
            self.folder.display()
        );
        let start = Instant::now();
        self.compile_all(&work, cores)?;
        self.archive(&work)?;
        println!("RocksDB is ready after {}", progress::seconds(start.elapsed()));
        Ok(())
    }

    fn compile_all(&self, work: &Path, cores: usize) -> Result {
        let counter = Counter::new(self.units.len());
        let queue = Mutex::new(self.units.iter());
        let next = || queue.lock().ok()?.next();
        let worker = || -> Result {
            while let Some(unit) = next() {
                let start = Instant::now();
                if let Err(failure) = self.compile(unit, work) {
                    // The others finish what they have begun, and no more.
                    while next().is_some() {}
                    return Err(failure);
                }
                counter.finished(&unit.name, start);
            }
            Ok(())
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().try_for_each(|worker| {
                worker.join().map_err(|_| Failure::new("a compiling thread panicked"))?
            })
        })
    }

    fn compile(&self, unit: &Unit, work: &Path) -> Result {
        let object = work.join(format!("{}.o", unit.name));
        if object.is_file() {
            return Ok(());
        }
        let source = work.join(format!("{}.cc", unit.name));
        cache::write_if_changed(&source, &unit.text())?;
        let unfinished = work.join(format!("{}.o.tmp", unit.name));
        let mut command = Command::new(compiler());
        command.args(flags());
        for include in &self.includes {
            command.arg("-I").arg(include);
        }
        let output = command.arg("-c").arg(&source).arg("-o").arg(&unfinished).output();
        let output = output.context(|| format!("cannot start {}", compiler()))?;
        if !output.status.success() {
            let messages = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::new(format!(
                "compiling RocksDB unit {} failed:\n{messages}",
                unit.name
            )));
        }
        fs::rename(&unfinished, &object)
            .context(|| format!("cannot rename to {}", object.display()))
    }

    fn archive(&self, work: &Path) -> Result {
        let done = work.join("done");
        cache::create(&done)?;
        let library = done.join("librocksdb.a");
        // `ar` adds to an archive that exists, and one from an interrupted call may be broken.
        let _ = fs::remove_file(&library);
        let objects = self.units.iter().map(|unit| work.join(format!("{}.o", unit.name)));
        shell::output(Command::new("ar").arg("crs").arg(&library).args(objects))?;
        let _ = fs::remove_dir_all(&self.folder);
        fs::rename(&done, &self.folder)
            .context(|| format!("cannot create {}", self.folder.display()))?;
        fs::remove_dir_all(work).context(|| format!("cannot remove {}", work.display()))
    }
}

/// The crate's list, with its own `build_version.cc` instead of the one that RocksDB generates.
fn sources(sys: &Path) -> Result<Vec<(String, u64)>> {
    let list = sys.join("rocksdb_lib_sources.txt");
    let list = fs::read_to_string(&list).context(|| format!("cannot read {}", list.display()))?;
    let listed = list
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && *line != "util/build_version.cc");
    let mut sources = Vec::new();
    for source in listed {
        let file = sys.join("rocksdb").join(source);
        let bytes =
            fs::metadata(&file).context(|| format!("cannot read {}", file.display()))?.len();
        sources.push((source.to_owned(), bytes));
    }
    sources.push(("build_version.cc".to_owned(), 0));
    Ok(sources)
}

fn flags() -> impl Iterator<Item = &'static str> {
    FLAGS.into_iter().chain(PROCESSOR_FLAGS.iter().copied())
}

/// A folder name that differs whenever the library would.
fn key(version: &str, units: &[Unit]) -> Result<String> {
    let compiler = shell::output(Command::new(compiler()).arg("--version"))?;
    let mut parts: Vec<&str> = flags().collect();
    parts.extend(compiler.lines().next());
    parts.extend(units.iter().flat_map(|unit| &unit.sources).map(String::as_str));
    Ok(format!("{version}-{:016x}", fnv1a(parts.into_iter())))
}

/// FNV-1a: unlike the standard library's hasher it stays the same from one Rust to the next.
pub(crate) fn fnv1a<'a>(parts: impl Iterator<Item = &'a str>) -> u64 {
    let bytes = parts.flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn point_cargo_at(folder: &Path) -> Result {
    let folder = folder
        .to_str()
        .ok_or("the path of the cache folder is not UTF-8: set TAVOLA_CACHE to another")?;
    let content = local_toml(folder);
    let cargo_folder = workspace::root()?.join(".cargo");
    cache::create(&cargo_folder)?;
    cache::write_if_changed(&cargo_folder.join("local.toml"), &content)
}

fn local_toml(folder: &str) -> String {
    let folder = folder.replace('\\', "\\\\").replace('"', "\\\"");
    format!(
        "# Written by `cargo xtask`; delete it to let the rocksdb crate compile its own copy.\n\
         [env]\nROCKSDB_LIB_DIR = \"{folder}\"\nROCKSDB_STATIC = \"1\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv1a(std::iter::empty()), 0xcbf2_9ce4_8422_2325);
        // FNV-1a of "a\0", from its definition: two rounds.
        let one = (0xcbf2_9ce4_8422_2325_u64 ^ 0x61).wrapping_mul(0x0100_0000_01b3);
        assert_eq!(fnv1a(["a"].into_iter()), one.wrapping_mul(0x0100_0000_01b3));
    }

    /// A machine with perf and without clang has only the C++ library, which bindgen cannot use.
    #[test]
    fn only_the_c_library_counts() {
        for file in ["libclang.so", "libclang.so.1", "libclang-14.so.1", "libclang-14.so.14.0.6"] {
            assert!(is_libclang(file), "{file}");
        }
        for file in
            ["libclang-cpp.so.14", "libclang-cpp.so", "libclang_rt.asan.so", "libLLVM-14.so"]
        {
            assert!(!is_libclang(file), "{file}");
        }
    }

    #[test]
    fn parts_do_not_run_together() {
        assert_ne!(fnv1a(["ab", "c"].into_iter()), fnv1a(["a", "bc"].into_iter()));
    }

    #[test]
    fn paths_are_quoted_for_toml() {
        assert!(local_toml("a\"b\\c").contains(r#"ROCKSDB_LIB_DIR = "a\"b\\c""#));
    }
}
