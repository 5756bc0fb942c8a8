//! What compiling RocksDB needs of the machine: a C++ compiler, and libclang for the bindings.
//!
//! Looking is kept apart from deciding: [`probe`] collects facts, [`decide`] makes one action of them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{self, Failure};
use crate::workspace::on_path;

/// Makes sure that the machine has what it takes: installs what is missing on Debian-like systems when it
/// may, and otherwise names the one command to run.
pub(crate) fn ensure() -> Result<(), Failure> {
    step::heading("native toolchain");
    match decide(&probe()) {
        Action::Ready => Ok(()),
        Action::Tell(text) => Err(Failure::new(text)),
        Action::Install(packages) => {
            apt_get(&["update"])?;
            apt_get(&[&["install", "-y", "--no-install-recommends"], &packages[..]].concat())?;
            match decide(&probe()) {
                Action::Ready => Ok(()),
                _ => Err(Failure::new(format!(
                    "{} installed, yet still not found",
                    packages.join(" and ")
                ))),
            }
        }
    }
}

fn apt_get(args: &[&str]) -> Result<(), Failure> {
    let mut command = Command::new("apt-get");
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    step::prepare(&format!("apt-get {}", args.join(" ")), &mut command)
}

/// What the machine has.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// libclang can be loaded, and finds the headers that belong to it.
    libclang: bool,
    /// There is a C++ compiler.
    cxx: bool,
    packages: PackageManager,
    /// The user may install packages.
    root: bool,
}

#[derive(Clone, Copy, Debug)]
enum PackageManager {
    Apt,
    Dnf,
    Pacman,
    Brew,
    Unknown,
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Ready,
    /// Install these packages by apt-get.
    Install(Vec<&'static str>),
    /// Stop, and say this.
    Tell(String),
}

fn decide(facts: &Facts) -> Action {
    let missing: Vec<Need> = [(facts.libclang, LIBCLANG), (facts.cxx, CXX)]
        .into_iter()
        .filter_map(|(there, need)| (!there).then_some(need))
        .collect();
    if missing.is_empty() {
        return Action::Ready;
    }
    let what: Vec<_> = missing.iter().map(|need| need.what).collect();
    let what = what.join(" and ");
    let names =
        |package: fn(&Need) -> &'static str| missing.iter().map(package).collect::<Vec<_>>();
    let run = |command: &str, packages: &[&str]| {
        let packages = packages.join(" ");
        Action::Tell(format!("RocksDB needs {what}; run: {command} {packages}"))
    };
    match facts.packages {
        PackageManager::Apt if facts.root => Action::Install(names(|need| need.apt)),
        PackageManager::Apt => run(
            "sudo apt-get install -y --no-install-recommends",
            &names(|need| need.apt),
        ),
        PackageManager::Dnf => run("sudo dnf install -y", &names(|need| need.dnf)),
        PackageManager::Pacman => run("sudo pacman -S --needed", &names(|need| need.pacman)),
        PackageManager::Brew => run("brew install", &names(|need| need.brew)),
        PackageManager::Unknown => Action::Tell(format!(
            "RocksDB needs {what}; install {} by the system's package manager",
            names(|need| need.elsewhere).join(" and ")
        )),
    }
}

/// A tool and the packages that bring it.
#[derive(Clone, Copy)]
struct Need {
    what: &'static str,
    apt: &'static str,
    dnf: &'static str,
    pacman: &'static str,
    brew: &'static str,
    elsewhere: &'static str,
}

const LIBCLANG: Need = Need {
    what: "libclang with its headers",
    apt: "libclang-dev",
    dnf: "clang-devel",
    pacman: "clang",
    brew: "llvm",
    elsewhere: "the development package of clang (or set LIBCLANG_PATH)",
};

const CXX: Need = Need {
    what: "a C++ compiler",
    apt: "g++",
    dnf: "gcc-c++",
    pacman: "gcc",
    brew: "gcc",
    elsewhere: "g++ or clang++",
};

fn probe() -> Facts {
    let has = |program: &str| on_path(program).is_some();
    let packages = if Path::new("/etc/debian_version").exists() && has("apt-get") {
        PackageManager::Apt
    } else if has("dnf") {
        PackageManager::Dnf
    } else if has("pacman") {
        PackageManager::Pacman
    } else if has("brew") {
        PackageManager::Brew
    } else {
        PackageManager::Unknown
    };
    Facts {
        libclang: has_libclang(),
        cxx: env::var_os("CXX").is_some() || ["c++", "g++", "clang++"].into_iter().any(has),
        packages,
        root: printed("id", &["-u"]).is_some_and(|id| id == "0"),
    }
}

/// Whether a directory where the bindings look for it holds libclang, and clang's own headers
/// (`stddef.h` and the like) lie where that library or a `clang` program finds them. The library alone,
/// as the runtime packages bring it, is not enough.
fn has_libclang() -> bool {
    let found: Vec<PathBuf> = libclang_dirs()
        .iter()
        .flat_map(|dir| entries(dir))
        .filter(|path| is_libclang(path))
        .collect();
    !found.is_empty() && (on_path("clang").is_some() || found.iter().any(|path| has_headers(path)))
}

fn is_libclang(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["libclang.", "libclang-"]
        .iter()
        .any(|start| name.starts_with(start))
        && !name.starts_with("libclang-cpp")
        && [".so", ".dylib"].iter().any(|kind| name.contains(kind))
}

/// `libclang` lies in `lib`, and its headers in `lib/clang/<version>/include` there or beside.
fn has_headers(libclang: &Path) -> bool {
    let real = fs::canonicalize(libclang).unwrap_or_else(|_| libclang.to_owned());
    let dir = real.parent().unwrap_or(Path::new("/"));
    [
        dir.join("clang"),
        dir.join("../lib/clang"),
        "/usr/lib/clang".into(),
    ]
    .iter()
    .flat_map(|versions| entries(versions))
    .any(|version| version.join("include/stddef.h").is_file())
}

fn libclang_dirs() -> Vec<PathBuf> {
    if let Some(path) = env::var_os("LIBCLANG_PATH") {
        let path = PathBuf::from(path);
        // The variable may name the library itself.
        return vec![if path.is_file() {
            path.parent().unwrap_or(Path::new("/")).to_owned()
        } else {
            path
        }];
    }
    let mut dirs: Vec<PathBuf> = [
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/opt/homebrew/opt/llvm/lib",
        "/usr/local/opt/llvm/lib",
        "/Library/Developer/CommandLineTools/usr/lib",
    ]
    .map(PathBuf::from)
    .to_vec();
    dirs.extend(
        entries(Path::new("/usr/lib"))
            .filter(|path| path.to_string_lossy().contains("/llvm-"))
            .map(|llvm| llvm.join("lib")),
    );
    dirs.extend(printed("llvm-config", &["--libdir"]).map(PathBuf::from));
    dirs
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
}

/// What a program prints on stdout, if it is there and succeeds.
fn printed(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Action, Facts, PackageManager, decide, is_libclang};

    const BARE: Facts = Facts {
        libclang: false,
        cxx: false,
        packages: PackageManager::Apt,
        root: true,
    };

    #[test]
    fn a_complete_machine_is_ready() {
        for packages in [PackageManager::Apt, PackageManager::Unknown] {
            let facts = Facts {
                libclang: true,
                cxx: true,
                packages,
                root: false,
            };
            assert_eq!(decide(&facts), Action::Ready);
        }
    }

    #[test]
    fn root_on_debian_installs_only_what_is_missing() {
        assert_eq!(decide(&BARE), Action::Install(vec!["libclang-dev", "g++"]));
        let compiler_there = Facts { cxx: true, ..BARE };
        assert_eq!(
            decide(&compiler_there),
            Action::Install(vec!["libclang-dev"])
        );
        let libclang_there = Facts {
            libclang: true,
            ..BARE
        };
        assert_eq!(decide(&libclang_there), Action::Install(vec!["g++"]));
    }

    #[test]
    fn others_are_told_one_command() {
        let told = |packages, root| match decide(&Facts {
            packages,
            root,
            ..BARE
        }) {
            Action::Tell(text) => text,
            action => panic!("{action:?}"),
        };
        let needs = "RocksDB needs libclang with its headers and a C++ compiler; ";
        for (packages, root, command) in [
            (
                PackageManager::Apt,
                false,
                "run: sudo apt-get install -y --no-install-recommends libclang-dev g++",
            ),
            (
                PackageManager::Dnf,
                true,
                "run: sudo dnf install -y clang-devel gcc-c++",
            ),
            (
                PackageManager::Pacman,
                false,
                "run: sudo pacman -S --needed clang gcc",
            ),
            (PackageManager::Brew, false, "run: brew install llvm gcc"),
            (
                PackageManager::Unknown,
                true,
                "install the development package of clang (or set LIBCLANG_PATH) and g++ or clang++ by \
                 the system's package manager",
            ),
        ] {
            assert_eq!(told(packages, root), format!("{needs}{command}"));
        }
    }

    #[test]
    fn libclang_is_told_from_its_neighbours() {
        let is = |name: &str| is_libclang(&Path::new("/usr/lib").join(name));
        for name in [
            "libclang.so",
            "libclang-14.so.1",
            "libclang.so.17",
            "libclang.dylib",
        ] {
            assert!(is(name), "{name}");
        }
        for name in [
            "libclang-cpp.so.14",
            "libclangAST.a",
            "libclang_rt.so",
            "libc.so",
        ] {
            assert!(!is(name), "{name}");
        }
    }
}
