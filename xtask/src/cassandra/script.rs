//! Scripts that start a Cassandra node, or query it, without `cargo xtask`.

use std::path::Path;

use super::address::Place;
use super::jars::Programs;
use super::shape::Shape;

/// Small, and without the second compiler, which takes the cores that the nodes need: with it they
/// are three times slower.
const JVM: [&str; 7] = [
    "-Xmx512m",
    // As root Cassandra locks its memory: what is here is taken at once.
    "-Xms64m",
    "-Xss256k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djdk.attach.allowAttachSelf=true",
];

/// What Cassandra 5.0 reaches for inside Java 17.
const EXPORTS: [&str; 9] = [
    "java.base/jdk.internal.misc",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
    "jdk.compiler/com.sun.tools.javac.file",
    "jdk.attach/sun.tools.attach",
];
const OPENS: [&str; 14] = [
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.lang.reflect",
    "java.base/java.lang",
    "java.base/java.util",
    "jdk.management/com.sun.management.internal",
    "jdk.compiler/com.sun.tools.javac",
];

/// Properties of every node.
const PROPERTIES: [&str; 9] = [
    "java.net.preferIPv4Stack=true",
    "cassandra-foreground=yes",
    // All nodes are on one machine: they need not wait long for news of each other.
    "cassandra.ring_delay_ms=4000",
    "cassandra.skip_wait_for_gossip_to_settle=0",
    "cassandra.shutdown_announce_in_ms=200",
    // Measured at each start otherwise.
    "cassandra.memtable.row_overhead_size=180",
    // The first superuser, at once and not ten seconds later.
    "cassandra.superuser_setup_delay_ms=0",
    "java.security.egd=file:/dev/urandom",
    "file.encoding=UTF-8",
];

/// The script that becomes node `number`.
pub(super) fn start(
    shape: &Shape,
    place: &Place,
    number: u32,
    folder: &Path,
    programs: &Programs,
) -> String {
    let folder_text = folder.display();
    let mut words: Vec<String> = JVM.map(str::to_owned).into();
    words.extend(inner_packages());
    words.extend(PROPERTIES.map(|property| format!("-D{property}")));
    words.extend([
        format!("-Dcassandra.config=file://{folder_text}/cassandra.yaml"),
        format!("-Dlogback.configurationFile={folder_text}/logback.xml"),
        format!("-Dcassandra.storagedir={folder_text}/data"),
        format!("-Dcassandra.logdir={folder_text}/log"),
        format!("-Djava.io.tmpdir={folder_text}/tmp"),
        format!("-Djna.tmpdir={folder_text}/tmp"),
        // Binds JMX to 127.0.0.1.
        format!("-Dcassandra.jmx.local.port={}", place.jmx_port),
        // With one copy of the users no login would succeed while the node that has it is down.
        format!("-Dcassandra.system_auth.default_rf={}", shape.nodes.min(3)),
        // The first nodes come all at once into an empty ring. A spare node comes into a full one:
        // there only the strict way, from the very replica that it replaces, keeps what a quorum
        // has acknowledged.
        format!("-Dcassandra.consistent.rangemovement={}", number > shape.nodes),
        "-cp".into(),
        format!("{}/*", programs.jars.display()),
        "org.apache.cassandra.service.CassandraDaemon".into(),
    ]);
    format!(
        "#!/bin/sh\n\
         # Node {number} of the cluster `{name}`. This process becomes the node, and leaves its id in `pid`.\n\
         # Run it with `setsid` if it shall outlive the terminal. A node that was just killed may still be dying.\n\
         set -eu\n\
         cd {folder}\n\
         exec 9> running\n\
         flock --timeout 10 9 || {{ echo 'node {number} of {name} is running already' >&2; exit 1; }}\n\
         echo $$ > pid.new\n\
         mv pid.new pid\n\
         exec >> log/console.log 2>&1 < /dev/null\n\
         # A group of its own, so that a packet filter knows what it sends.\n\
         set --\n\
         [ \"$(id -u)\" != 0 ] || set -- setpriv --regid {group} --keep-groups\n\
         {exec}\n",
        name = shape.name,
        group = place.group(),
        folder = quoted(&folder_text.to_string()),
        exec = exec("\"$@\" ", &programs.java, &words),
    )
}

/// The script that asks a node: `nodetool NODE ARGUMENTS`.
pub(super) fn nodetool(
    shape: &Shape,
    places: &[Place],
    folder: &Path,
    programs: &Programs,
) -> String {
    let cases: String = (1..)
        .zip(places)
        .map(|(number, place)| format!("{number}) port={} ;;\n", place.jmx_port))
        .collect();
    let mut words: Vec<String> =
        ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"].map(str::to_owned).into();
    words.extend(inner_packages());
    words.extend([
        // It keeps what it was asked below the home folder.
        format!("-Duser.home={}", folder.display()),
        format!("-Dlogback.configurationFile={}/logback-nodetool.xml", folder.display()),
        "-Dcom.sun.jndi.rmiURLParsing=legacy".into(),
        "-cp".into(),
        format!("{}/*", programs.jars.display()),
    ]);
    words.extend(
        ["org.apache.cassandra.tools.NodeTool", "-h", "127.0.0.1", "-p"].map(str::to_owned),
    );
    format!(
        "#!/bin/sh\n\
         # Cassandra's nodetool for the nodes of the cluster `{name}`: nodetool NODE ARGUMENTS\n\
         set -eu\n\
         case \"${{1:-}}\" in\n\
         {cases}\
         *) echo 'nodetool NODE ARGUMENTS; nodes are 1 to {count}' >&2; exit 2 ;;\n\
         esac\n\
         shift\n\
         {exec} \"$port\" \"$@\"\n",
        name = shape.name,
        count = places.len(),
        exec = exec("", &programs.java, &words),
    )
}

fn inner_packages() -> impl Iterator<Item = String> {
    let exports = EXPORTS.iter().map(|package| format!("--add-exports={package}=ALL-UNNAMED"));
    exports.chain(OPENS.iter().map(|package| format!("--add-opens={package}=ALL-UNNAMED")))
}

/// `before` precedes the program.
fn exec(before: &str, java: &Path, words: &[String]) -> String {
    let words: String = words.iter().map(|word| format!(" \\\n  {}", quoted(word))).collect();
    format!("exec {before}{}{words}", quoted(&java.display().to_string()))
}

/// For a shell: between single quotes nothing has a meaning but the quote itself.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A log that grows to 50 MB and no further.
pub(super) fn logback(folder: &Path) -> String {
    format!(
        r#"<configuration>
  <appender name="FILE" class="ch.qos.logback.core.rolling.RollingFileAppender">
    <file>{folder}/log/system.log</file>
    <rollingPolicy class="ch.qos.logback.core.rolling.FixedWindowRollingPolicy">
      <fileNamePattern>{folder}/log/system.log.%i</fileNamePattern>
      <minIndex>1</minIndex>
      <maxIndex>4</maxIndex>
    </rollingPolicy>
    <triggeringPolicy class="ch.qos.logback.core.rolling.SizeBasedTriggeringPolicy">
      <maxFileSize>10MB</maxFileSize>
    </triggeringPolicy>
    <encoder><pattern>%-5level [%thread] %date{{ISO8601}} %F:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
"#,
        folder = xml_text(&folder.display().to_string())
    )
}

pub(super) const LOGBACK_OF_NODETOOL: &str = r#"<configuration>
  <appender name="ERRORS" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%-5level %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="ERRORS"/></root>
</configuration>
"#;

fn xml_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cassandra::address::places;

    fn programs() -> Programs {
        Programs { java: "/jvm/bin/java".into(), jars: "/cache/jars".into() }
    }

    #[test]
    fn a_script_becomes_the_node() {
        let shape = Shape::new("dev", 3).unwrap();
        let script = start(&shape, &places(&shape)[1], 2, Path::new("/cache/it's"), &programs());
        assert!(script.starts_with("#!/bin/sh\n"));
        assert!(script.contains("\ncd '/cache/it'\\''s'\n"));
        assert!(script.contains("\nexec \"$@\" '/jvm/bin/java' \\\n  '-Xmx512m'"));
        assert!(script.contains("setpriv --regid 12001 --keep-groups\n"));
        assert!(script.contains("'-Dcassandra.jmx.local.port=12001'"));
        assert!(script.contains("'-Dcassandra.consistent.rangemovement=false'"));
        assert!(
            script.ends_with(
                "'/cache/jars/*' \\\n  'org.apache.cassandra.service.CassandraDaemon'\n"
            )
        );
    }

    #[test]
    fn a_spare_node_moves_ranges_the_strict_way() {
        let mut shape = Shape::new("dev", 3).unwrap();
        shape.spares = 1;
        let script = start(&shape, &places(&shape)[3], 4, Path::new("/cache"), &programs());
        assert!(script.contains("'-Dcassandra.consistent.rangemovement=true'"));
    }

    #[test]
    fn nodetool_knows_each_node() {
        let shape = Shape::new("dev", 2).unwrap();
        let script = nodetool(&shape, &places(&shape), Path::new("/cache"), &programs());
        assert!(script.contains("\n1) port=12000 ;;\n2) port=12001 ;;\n*) echo"));
        assert!(script.ends_with("'-p' \"$port\" \"$@\"\n"));
    }
}
